//! Callers other than keys with payments: contract wallets, deployed or not, and accounts that sign in with a message.

use alloy_primitives::{Address, B256, Bytes, U256, hex, keccak256};
use alloy_signer::SignerSync;
use serde_json::{Value, json};
use toolcrib_chain::sign::{Domain, TransferAuthorization, TransferKind};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::url::HttpsUrl;
use toolcrib_devchain::accounts::dev_signers;
use toolcrib_x402::erc6492::wrap;
use toolcrib_x402::sign_in::siwe::{self, SignedMessage};
use toolcrib_x402::sign_in::siwx::{HEADER, Proposal, SignedIn};
use toolcrib_x402::{Authorization, Challenge, Payment, Signature, read_header};

use super::gates::priced;
use super::paid::mint;
use super::upstream::Behind;
use super::{Gate, HttpResponse, ORIGIN, manifest};
use crate::onchain::World;
use crate::{Sandbox, init_code};

const OWNER: usize = 2;

/// A factory, and an undeployed wallet of it.
struct Wallet {
    factory: Address,
    account: Address,
    calldata: Vec<u8>,
}

impl Wallet {
    fn new(world: &World) -> Self {
        let sent = json!({ "from": dev_signers()[0].address(), "data": init_code("TestWalletFactory"), "gas": "0xf00000" });
        let sent = result(world, "eth_sendTransaction", &sent.to_string());
        let receipt = result(world, "eth_getTransactionReceipt", &sent.to_string());
        let factory: Address = serde_json::from_value(receipt["contractAddress"].clone()).expect("an address");
        let owned = [dev_signers()[OWNER].address().into_word(), B256::ZERO].concat();
        let function = |name: &str| [&keccak256(name)[..4], &owned].concat();
        let asked = json!({ "to": factory, "data": Bytes::from(function("accountOf(address,bytes32)")) });
        let word: B256 = serde_json::from_value(result(world, "eth_call", &format!("{asked},\"latest\""))).expect("a word");
        Self { factory, account: Address::from_word(word), calldata: function("createAccount(address,bytes32)") }
    }

    fn is_deployed(&self, world: &World) -> bool {
        result(world, "eth_getCode", &format!("\"{}\",\"latest\"", self.account)) != json!("0x")
    }

    /// The header with which the wallet answers the first offer of a challenge.
    fn pay(&self, challenge: &Challenge) -> String {
        let offer = &challenge.accepts[0];
        let authorization = Authorization {
            from: self.account,
            to: offer.pay_to.evm_address().expect("an account"),
            value: offer.amount,
            valid_after: 0,
            valid_before: u64::try_from(now().seconds()).expect("after 1970") + 300,
            nonce: keccak256(super::fresh().to_be_bytes()),
        };
        let token = offer.token().expect("pinned");
        let domain = Domain::new(token.name, token.version, U256::from(token.chain), token.address);
        let digest = TransferAuthorization::from(&authorization).digest(TransferKind::Transfer, &domain);
        let inner = dev_signers()[OWNER].sign_hash_sync(&digest).expect("a key signs").as_bytes();
        let signature = Signature::new(wrap(self.factory, &self.calldata, &inner)).expect("not too long");
        let (resource, extensions) = (challenge.resource.clone(), challenge.extensions.clone());
        Payment::new(challenge.version, offer, authorization, signature, resource, extensions).to_header().expect("a header")
    }
}

fn result(world: &World, method: &str, params: &str) -> Value {
    let answer: Value = serde_json::from_str(&world.ask(method, params)).expect("JSON");
    answer["result"].clone()
}

fn now() -> UnixTime {
    let seconds = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
    UnixTime::from_seconds(i64::try_from(seconds).expect("in range"))
}

fn challenge(gate: &Gate) -> Challenge {
    let asked = gate.call("tool", &json!({}));
    assert_eq!(asked.status, 402, "{}", gate.log());
    read_header(asked.header("payment-required").expect("version 2")).challenge.expect("a challenge")
}

fn pay(gate: &Gate, wallet: &Wallet) -> HttpResponse {
    gate.call_with("tool", &[("PAYMENT-SIGNATURE", &wallet.pay(&challenge(gate)))], &json!({ "a": 1 }))
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("plain.json", manifest("plain").to_string());
    let base = ["serve", "plain.json", "--upstream", "http://127.0.0.1:1/", "--listen", "127.0.0.1:0", "--store", "memory"];
    for (arguments, message) in [
        (&["--contract-accounts"][..], "--contract-accounts needs an RPC node"),
        (&["--identity", "--contract-accounts"], "--contract-accounts needs an RPC node"),
        (
            &["--contract-accounts", "--rpc-url", "http://127.0.0.1:1"],
            "--contract-accounts was given, but none of the tools identifies",
        ),
        (&["--siwe"], "--siwe was given, but none of the tools identifies"),
        (&["--identity", "--open"], "cannot be used with"),
        (&["--siwe", "--bound-only"], "cannot be used with"),
        (&["--wallet-factory", "0x0000000000000000000000000000000000000001"], "required arguments"),
        (&["--identity", "--network", "no-such-network"], "unknown network"),
    ] {
        let ran = sandbox.run(&[&base[..], arguments].concat()).code(2);
        assert!(ran.stderr.contains(message), "{arguments:?}: {}", ran.stderr);
    }
    let short =
        sandbox.command(&[&base[..], &["--identity"]].concat()).env("TOOLCRIB_SIGN_IN_KEY", "short").output().expect("ran");
    let said = String::from_utf8_lossy(&short.stderr);
    assert!(said.contains("gate.sign_in_key") && !said.contains("short\""), "{said}");
}

// req: GATE-003
#[test]
fn contract_wallets_are_let_in_and_pay_where_a_node_is_named() {
    let (world, behind) = (World::new(), Behind::start());
    let wallet = Wallet::new(&world);
    let upstream = format!("http://{}/echo", behind.address);
    let common = ["tool.json", "--upstream", &upstream, "--rpc-url", &world.url, "--store", "memory"];

    world.sandbox.write("tool.json", manifest("tool").to_string());
    let identity = ["--identity", "--network", "local"];
    let plain = Gate::start(&world.sandbox, &[&common[..], &identity].concat());
    assert_eq!(pay(&plain, &wallet).verdict(), (402, "chain.signature_erc6492".to_owned()), "only where it is asked for");
    drop(plain);
    let gate = Gate::start(&world.sandbox, &[&common[..], &identity, &["--contract-accounts"]].concat());
    assert_eq!(pay(&gate, &wallet).status, 200, "{}", gate.log());
    assert!(!wallet.is_deployed(&world), "nobody deploys for a free call");
    drop(gate);

    // The predicate's own chain, whatever common clients default to.
    let uri = format!("{ORIGIN}/.well-known/ai-tool/tool.json");
    world.sign(&["register", "--skip-fetch", "--manifest", "tool.json", "--metadata", &uri], "0");
    let tool = ["--tool", "1", "--network", "local", "--contract-accounts"];
    let gate = Gate::start(&world.sandbox, &[&common[..], &tool].concat());
    assert_eq!(challenge(&gate).accepts[0].network.as_str(), "eip155:31337");
    assert_eq!(pay(&gate, &wallet).status, 200, "{}", gate.log());
    drop(gate);

    world.sandbox.write("tool.json", priced("tool").to_string());
    mint(&world, wallet.account, 20_000);
    let settle = ["--settle-locally", "--dev-account", "9", "--contract-accounts"];
    let gate = Gate::start(&world.sandbox, &[&common[..], &settle].concat());
    assert_eq!(pay(&gate, &wallet).verdict(), (402, "settlement.refused".to_owned()), "no factory is allowed by default");
    assert!(!wallet.is_deployed(&world));
    drop(gate);
    let factory = wallet.factory.to_string();
    let gate = Gate::start(&world.sandbox, &[&common[..], &settle, &["--wallet-factory", &factory]].concat());
    let answer = pay(&gate, &wallet);
    assert_eq!(answer.status, 200, "{answer:?} {}", gate.log());
    assert!(wallet.is_deployed(&world));
    assert_eq!(pay(&gate, &wallet).status, 200);
}

#[test]
fn callers_sign_in_with_a_message() {
    let (sandbox, behind) = (Sandbox::new(), Behind::start());
    sandbox.write("tool.json", manifest("tool").to_string());
    let upstream = format!("http://{}/echo", behind.address);
    let common = ["tool.json", "--upstream", &upstream, "--identity", "--store", "memory"];
    let signer = &dev_signers()[OWNER];
    let sign = |text: &str| {
        let signature = signer.sign_message_sync(text.as_bytes()).expect("a key signs");
        Signature::new(signature.as_bytes().to_vec()).expect("65 bytes")
    };
    let gate = Gate::start_with(&sandbox, &[&common[..], &["--siwe"]].concat(), &[("TOOLCRIB_SIGN_IN_KEY", "0123456789abcdef")]);
    let offered = Proposal::announced(&challenge(&gate).extensions).expect("offered").expect("well-formed");
    assert_eq!((offered.uri.as_str(), offered.chains.as_slice()), (format!("{ORIGIN}/tool").as_str(), &[8453][..]));
    let message = offered.message(signer.address(), 8453).expect("sound");
    let signature = sign(message.text());
    let header = SignedIn { message, signature }.to_header().expect("short");
    assert_eq!(gate.call_with("tool", &[(HEADER, &header)], &json!({ "a": 1 })).status, 200, "{}", gate.log());
    assert_eq!(gate.call_with("tool", &[(HEADER, &header)], &json!({})).verdict(), (402, "sign_in.replayed".to_owned()));
    let own = || {
        let url = HttpsUrl::parse(&format!("{ORIGIN}/tool")).expect("a URL");
        let nonce = hex::encode(keccak256(super::fresh().to_be_bytes()));
        let message = siwe::message(&url, signer.address(), 8453, nonce, now()).expect("sound");
        let signature = sign(message.text());
        SignedMessage { message, signature }.to_header()
    };
    assert_eq!(gate.call_with("tool", &[("Authorization", &own())], &json!({})).status, 200, "{}", gate.log());
    drop(gate);
    let gate = Gate::start(&sandbox, &[&common[..], &["--no-sign-in-with-x"]].concat());
    assert!(challenge(&gate).extensions.is_empty());
    assert_eq!(gate.call_with("tool", &[("Authorization", &own())], &json!({})).status, 402, "only where it is asked for");
}
