//! Callers whose wallet is not deployed yet (ERC-6492), with real wallets of a real factory, on the development chain and on anvil.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256, hex, keccak256};
use alloy_signer_local::PrivateKeySigner;
use alloy_sol_types::SolValue;
use serde_json::{Value, json};
use toolcrib_chain::deploy::deploy_test_assets;
use toolcrib_chain::network::Network;
use toolcrib_chain::rpc::{BoundedCall, CallOutcome, Chain, ChainConfig, NodeUrl};
use toolcrib_chain::sign::Domain;
use toolcrib_chain::wallet::LocalWallet;
use toolcrib_core::clock::{FixedClock, UnixTime};
use toolcrib_devchain::Devchain;
use toolcrib_gate::{Gate, LocalSettlement, Rates, Tools};
use toolcrib_store::replay::{Limits, MemoryReplay};
use toolcrib_testkit::Anvil;
use toolcrib_x402::erc6492::{self, wrap};
use toolcrib_x402::{Authorization, Signature, Version, asset as tokens, read_header, read_receipt};

use crate::till::{PRICE, asset, of_the_price, priced, till};
use crate::world::{
    HttpResponse, NOW, ORIGIN, Runs, World, authorization, base_domain, code, counting, creator, fresh, header, holder, post,
    serve, sign, stranger, transact_as,
};

const SALT: B256 = B256::repeat_byte(5);
const CHAIN: u64 = 31_337;

/// A node with a factory on it.
struct Stage {
    _running: Running,
    chain: Chain,
    factory: Address,
}

enum Running {
    Ours { _devchain: Devchain },
    Anvil { _anvil: Anvil },
}

/// A wallet that the stranger's key signs for.
struct Counterfactual {
    account: Address,
    calldata: Vec<u8>,
}

impl Stage {
    /// One of each kind; without anvil only ours, and the test is recorded as skipped.
    async fn each() -> Vec<Self> {
        let devchain = Devchain::builder(FixedClock(UnixTime::from_seconds(NOW))).spawn().await.expect("a chain");
        let url = devchain.http_url();
        let mut running = vec![(Running::Ours { _devchain: devchain }, url)];
        let anvil = Anvil::start(&["--chain-id", &CHAIN.to_string(), "--timestamp", &NOW.to_string()]);
        running.extend(anvil.map(|anvil| {
            let url = anvil.url.clone();
            (Running::Anvil { _anvil: anvil }, url)
        }));
        let mut all = Vec::new();
        for (running, url) in running {
            let network = Network::by_id(CHAIN).cloned().unwrap_or_else(|| Network::unlisted(CHAIN));
            let node = NodeUrl::parse(&url).expect("a URL");
            let chain = Chain::connect(ChainConfig::new(&network, vec![node]).expect("a node")).await.expect("it answers");
            let factory = transact(&chain, None, code("TestWalletFactory", &[])).await;
            let factory = serde_json::from_value(factory["contractAddress"].clone()).expect("an address");
            all.push(Self { _running: running, chain, factory });
        }
        all
    }

    async fn wallet(&self, salt: B256) -> Counterfactual {
        wallet(&self.chain, self.factory, salt).await
    }

    async fn has_code(&self, account: Address) -> bool {
        !self.chain.code(account).await.expect("an answer").is_empty()
    }

    async fn set_code(&self, account: Address, code: &[u8]) {
        request(&self.chain, "anvil_setCode", json!([account, Bytes::copy_from_slice(code)])).await;
    }
}

async fn wallet(chain: &Chain, factory: Address, salt: B256) -> Counterfactual {
    let owned = (stranger().address(), salt).abi_encode();
    let account = read(chain, factory, call("accountOf(address,bytes32)", &owned)).await;
    let account = Address::from_word(B256::from(account));
    Counterfactual { account, calldata: call("createAccount(address,bytes32)", &owned) }
}

async fn request(chain: &Chain, method: &'static str, params: Value) -> Value {
    let provider = alloy_provider::Provider::client(chain.provider());
    provider.request(method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
}

/// Sends a transaction of the creator, and gives its receipt.
async fn transact(chain: &Chain, to: Option<Address>, data: Bytes) -> Value {
    let mut sent = json!({ "from": creator(), "data": data, "gas": "0xf00000" });
    if let Some(to) = to {
        sent["to"] = json!(to);
    }
    let hash = request(chain, "eth_sendTransaction", json!([sent])).await;
    loop {
        let receipt = request(chain, "eth_getTransactionReceipt", json!([hash])).await;
        if !receipt.is_null() {
            assert_eq!(receipt["status"], "0x1", "{receipt}");
            return receipt;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn read(chain: &Chain, to: Address, data: Vec<u8>) -> U256 {
    let asked = BoundedCall { to, data: data.into(), from: None, gas: None, max_bytes: 32 };
    match chain.call(&asked).await.expect("an answer") {
        CallOutcome::Returned(bytes) => U256::from_be_slice(&bytes),
        other => panic!("{other:?}"),
    }
}

fn call(function: &str, arguments: &[u8]) -> Vec<u8> {
    [&keccak256(function)[..4], arguments].concat()
}

/// The chain of the tests, where something is signed for as well.
fn local() -> Domain {
    let token = tokens::usdc(CHAIN).expect("listed");
    Domain::new(token.name, token.version, U256::from(token.chain), token.address)
}

fn of(account: Address) -> Authorization {
    Authorization { from: account, ..authorization(holder(), fresh()) }
}

fn by(signer: &PrivateKeySigner, signed: &Authorization) -> Vec<u8> {
    sign(signer, signed, &local()).as_bytes().to_vec()
}

fn signature(bytes: Vec<u8>) -> Signature {
    Signature::new(bytes).expect("neither too short nor too long")
}

async fn pay(at: SocketAddr, path: &str, signed: Authorization, by: Signature) -> HttpResponse {
    let answer = post(at, path, &[], &json!({})).await;
    let challenge = read_header(answer.header("payment-required").expect("version 2")).challenge.expect("a challenge");
    let value = header(&[challenge.clone(), challenge], Version::V2, signed, by);
    post(at, path, &[("PAYMENT-SIGNATURE", &value)], &json!({"text": "one two"})).await
}

fn tools() -> Tools {
    let store = Arc::new(MemoryReplay::new(Limits::default()));
    Tools::new(ORIGIN).shared_store(store).rates(Rates { per_address: None, ..Rates::default() })
}

// req: GATE-003, GATE-004
#[tokio::test]
async fn a_wallet_that_is_not_deployed_yet_says_who_calls() {
    for stage in Stage::each().await {
        let runs = Runs::default();
        let asking = Gate::identity().identity_chain(CHAIN).contract_accounts(stage.chain.clone());
        let plain = Gate::identity().identity_chain(CHAIN);
        let at = serve(tools().tool(counting("asking", asking, &runs)).tool(counting("plain", plain, &runs))).await;
        let Counterfactual { account, calldata } = stage.wallet(SALT).await;
        let wrapped = |signed: &Authorization| signature(wrap(stage.factory, &calldata, &by(stranger(), signed)));
        let block = stage.chain.block_number().await.expect("a number");
        let signed = of(account);
        let answer = pay(at, "/asking", signed, wrapped(&signed)).await;
        assert_eq!((answer.status, &answer.json()["caller"]), (200, &json!(account.to_checksum(None))), "{answer:?}");
        assert_eq!(pay(at, "/asking", signed, wrapped(&signed)).await.status, 409, "once");
        let refused = |code: &str| (402, code.to_owned());
        assert_eq!(pay(at, "/plain", signed, wrapped(&signed)).await.verdict(), refused("chain.signature_erc6492"));
        assert_eq!(runs.count(), 1);
        assert!(!stage.has_code(account).await, "nobody deploys for a free call");
        assert_eq!(stage.chain.block_number().await.expect("a number"), block, "nothing was sent");
    }
}

// attack: T10
#[tokio::test]
async fn lies_about_a_wallet_prove_nothing() {
    for stage in Stage::each().await {
        let runs = Runs::default();
        let gate = Gate::identity().identity_chain(CHAIN).contract_accounts(stage.chain.clone());
        let at = serve(tools().tool(counting("word-count", gate, &runs))).await;
        let Counterfactual { account, calldata } = stage.wallet(SALT).await;
        let other = stage.wallet(B256::repeat_byte(6)).await;
        let call = async |signed: Authorization, by: Vec<u8>| pay(at, "/word-count", signed, signature(by)).await.verdict();
        let refused = |code: &str| (402, code.to_owned());
        let [liar, reverting, burning] = [0xb1, 0xb2, 0xb3].map(Address::repeat_byte);
        stage.set_code(liar, &hex!("00")).await;
        stage.set_code(reverting, &hex!("60006000fd")).await;
        stage.set_code(burning, &hex!("5b600056")).await;
        let nobody = refused("chain.account_not_deployable");
        for factory in [liar, reverting, burning, Address::ZERO, stranger().address()] {
            let signed = of(account);
            assert_eq!(call(signed, wrap(factory, &calldata, &by(stranger(), &signed))).await, nobody, "{factory}");
        }
        // The real factory, and the wallet of another salt; and an account that is no wallet.
        let signed = of(account);
        assert_eq!(call(signed, wrap(stage.factory, &other.calldata, &by(stranger(), &signed))).await, nobody);
        let signed = of(holder().address());
        assert_eq!(call(signed, wrap(stage.factory, &calldata, &by(stranger(), &signed))).await, nobody);
        // Another key, garbage, and a signature for another chain.
        let contract = refused("chain.contract_signature");
        let signed = of(account);
        assert_eq!(call(signed, wrap(stage.factory, &calldata, &by(holder(), &signed))).await, contract);
        assert_eq!(call(signed, wrap(stage.factory, &calldata, &[7; 65])).await, contract);
        let on_base = sign(stranger(), &signed, &base_domain());
        assert_eq!(call(signed, wrap(stage.factory, &calldata, on_base.as_bytes())).await, contract);
        // Wrappers that are none.
        let good = wrap(stage.factory, &calldata, &by(stranger(), &signed));
        let broken = refused("chain.signature_wrapper");
        assert_eq!(call(signed, wrap(stage.factory, &calldata, &good)).await, broken);
        assert_eq!(call(signed, [vec![7; 96], erc6492::MAGIC_SUFFIX.to_vec()].concat()).await, broken);
        assert!(Signature::new(wrap(stage.factory, &[0; 100_000], &by(stranger(), &signed))).is_none(), "too long to be read");
        assert_eq!(runs.count(), 0);
        assert!(!stage.has_code(account).await);
        assert_eq!(call(signed, good).await.0, 200, "none of it used up the signature");
    }
}

#[tokio::test]
async fn a_predicate_is_asked_about_a_wallet_that_is_not_deployed() {
    let world = World::start().await;
    let (id, runs, chain) = (world.tool_for_holders().await, Runs::default(), world.registry.chain().clone());
    let factory = crate::world::deploy(&world.devchain, code("TestWalletFactory", &[]));
    let Counterfactual { account, calldata } = wallet(&chain, factory, SALT).await;
    let gate = world.gate(id).identity_chain(CHAIN).contract_accounts(chain.clone());
    let at = serve(tools().tool(counting("word-count", gate, &runs))).await;
    let call_as = async || {
        let signed = of(account);
        pay(at, "/word-count", signed, signature(wrap(factory, &calldata, &by(stranger(), &signed)))).await
    };
    assert_eq!(call_as().await.verdict(), (403, "access.denied".to_owned()));
    let mint = call("mint(address,uint256)", &(account, U256::from(2_000)).abi_encode());
    transact_as(&world.devchain, creator(), Some(world.token), &mint.into());
    assert_eq!(call_as().await.status, 200);
    assert!(chain.code(account).await.expect("an answer").is_empty());
}

// req: GATE-007
#[tokio::test]
async fn the_money_of_a_wallet_moves_once_its_factory_is_allowed() {
    for stage in Stage::each().await {
        let (chain, runs) = (stage.chain.clone(), Runs::default());
        deploy_test_assets(&chain, &LocalWallet::development(0).expect("an account")).await.expect("deployed");
        let token = tokens::usdc(CHAIN).expect("listed").address;
        let Counterfactual { account, calldata } = stage.wallet(SALT).await;
        let mint = call("mint(address,uint256)", &(account, U256::from(2 * PRICE)).abi_encode());
        transact(&chain, Some(token), mint.into()).await;
        let balance = async |of: Address| read(&chain, token, call("balanceOf(address)", &of.abi_encode())).await;
        let before = balance(creator()).await;
        let settler = || {
            let wallet = Arc::new(LocalWallet::development(5).expect("an account"));
            LocalSettlement::new(wallet, [chain.clone()]).recipients([creator()])
        };
        let gate = |settle: LocalSettlement| Gate::paid(settle).contract_accounts(vec![chain.clone()]);
        let usdc = asset(CHAIN, token);
        let strict = priced("strict", &usdc, gate(settler()), &runs);
        let elsewhere = priced("elsewhere", &usdc, gate(settler().wallet_factories([Address::repeat_byte(1)])), &runs);
        let open = priced("open", &usdc, gate(settler().wallet_factories([stage.factory])), &runs);
        let at = serve(tools().tool(strict).tool(elsewhere).tool(open)).await;
        let wrapped = |signed: &Authorization| signature(wrap(stage.factory, &calldata, &by(stranger(), signed)));
        let reason = |answer: &HttpResponse| {
            let receipt = read_receipt(answer.header("payment-response").expect("a receipt")).response.expect("readable");
            receipt.reason.unwrap_or_default()
        };

        // No factory is allowed unless the operator names it.
        for path in ["/strict", "/elsewhere"] {
            let signed = of_the_price(of(account));
            let answer = pay(at, path, signed, wrapped(&signed)).await;
            assert_eq!(answer.verdict(), (402, "settlement.refused".to_owned()), "{path}");
            assert_eq!(reason(&answer), "eip6492_factory_not_allowed", "{path}");
        }
        assert!(!stage.has_code(account).await);
        assert_eq!(runs.count(), 0, "refused before the tool runs");

        // A wallet without the money is not deployed on the operator's gas.
        let poor = stage.wallet(B256::repeat_byte(6)).await;
        let signed = of_the_price(of(poor.account));
        let answer = pay(at, "/open", signed, signature(wrap(stage.factory, &poor.calldata, &by(stranger(), &signed)))).await;
        assert_eq!(answer.verdict(), (402, "settlement.refused".to_owned()), "{answer:?}");
        assert!(!stage.has_code(poor.account).await);

        let signed = of_the_price(of(account));
        let answer = pay(at, "/open", signed, wrapped(&signed)).await;
        assert_eq!((answer.status, &answer.json()["caller"]), (200, &json!(account.to_checksum(None))), "{answer:?}");
        assert!(stage.has_code(account).await, "deployed for the payment");
        assert_eq!((balance(account).await, balance(creator()).await), (U256::from(PRICE), before + U256::from(PRICE)));
        // The second payment needs no deployment, whether it is wrapped or not, and no factory.
        let signed = of_the_price(of(account));
        assert_eq!(pay(at, "/strict", signed, wrapped(&signed)).await.status, 200);
        assert_eq!((balance(account).await, balance(creator()).await), (U256::ZERO, before + U256::from(2 * PRICE)));
        assert_eq!(runs.count(), 2);
    }
}

/// A settlement elsewhere gets the signature unchanged.
#[tokio::test]
async fn others_settle_with_the_wrapped_signature() {
    let stage = Stage::each().await.remove(0);
    let (till, runs) = (till(), Runs::default());
    let gate = toolcrib_gate::PaidGate::new(till.clone()).contract_accounts(vec![stage.chain.clone()]);
    let usdc = asset(CHAIN, tokens::usdc(CHAIN).expect("listed").address);
    let at = serve(tools().tool(priced("paid", &usdc, gate, &runs))).await;
    let Counterfactual { account, calldata } = stage.wallet(SALT).await;
    let signed = of_the_price(of(account));
    let wrapped = signature(wrap(stage.factory, &calldata, &by(stranger(), &signed)));
    assert_eq!(pay(at, "/paid", signed, wrapped.clone()).await.status, 200);
    assert_eq!(till.signature(), Some(wrapped));
    assert!(!stage.has_code(account).await, "that is the affair of whoever settles");
}
