//! A payer whose wallet is not deployed yet, settled by the reference facilitator: it gets the signature as it came.

use std::net::SocketAddr;

use alloy_primitives::{Address, B256, U256, keccak256};
use alloy_signer::SignerSync;
use alloy_sol_types::SolValue;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use toolcrib_chain::sign::{Domain, TransferAuthorization, TransferKind};
use toolcrib_core::clock::Clock;
use toolcrib_devchain::accounts::dev_signers;
use toolcrib_gate::{Facilitator, SystemClock};
use toolcrib_x402::erc6492::wrap;
use toolcrib_x402::{Authorization, Payment, Signature, read_header};

use super::world::{PAYEE, PRICE, SETTLER, STRANGER, USDC, World, account, call, code, key, transact};
use toolcrib_testkit::x402_peers::Peers;

/// Calls the paid tool and gives the head of the answer and its body.
async fn post(at: SocketAddr, payment: Option<&str>) -> (u16, String, Value) {
    let body = json!({"text": "one two"}).to_string();
    let header = payment.map_or_else(String::new, |payment| format!("PAYMENT-SIGNATURE: {payment}\r\n"));
    let request = format!(
        "POST /paid HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n{header}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(at).await.expect("it listens");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a whole head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, head.to_owned(), serde_json::from_str(body).expect("JSON"))
}

// req: GATE-006, GATE-007
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_facilitator_settles_for_a_wallet_that_is_not_deployed() {
    let Some(peers) = Peers::find() else { return };
    let world = World::start().await;
    let put = peers.run("v2/multicall3.mjs", &world.devchain.http_url(), &[]).await;
    assert_eq!(put["error"], Value::Null, "{put}");
    let factory = transact(&world.devchain, None, &code("TestWalletFactory", &[])).expect("a contract");
    let owner = &dev_signers()[STRANGER];
    for (salt, allowed) in [(B256::repeat_byte(1), false), (B256::repeat_byte(2), true)] {
        let owned = (owner.address(), salt).abi_encode();
        let asked = json!([{ "to": factory, "data": call("accountOf(address,bytes32)", &owned) }, "latest"]);
        let word: B256 = serde_json::from_value(world.devchain.request("eth_call", asked).expect("an answer")).expect("a word");
        let wallet = Address::from_word(word);
        transact(&world.devchain, Some(USDC), &call("mint(address,uint256)", &(wallet, U256::from(PRICE)).abi_encode()));
        let mut settings = vec![("RPC_URL", world.devchain.http_url()), ("PRIVATE_KEY", key(SETTLER).to_string())];
        if allowed {
            settings.push(("ALLOWED_FACTORIES", factory.to_checksum(None)));
        }
        let facilitator = peers.start("v2/facilitator.mjs", &settings).await;
        let settle = Facilitator::from_setting(&facilitator.url()).expect("a URL").confirm_with([world.chain.clone()]);
        let served = world.serve_wallets(settle).await;

        let (_, head, _) = post(served.at(), None).await;
        let value =
            head.lines().find_map(|line| line.to_ascii_lowercase().starts_with("payment-required: ").then(|| &line[18..]));
        let challenge = read_header(value.expect("version 2")).challenge.expect("a challenge");
        let offer = &challenge.accepts[0];
        let authorization = Authorization {
            from: wallet,
            to: account(PAYEE),
            value: offer.amount,
            valid_after: 0,
            valid_before: u64::try_from(SystemClock.now().seconds()).expect("after 1970") + 300,
            nonce: keccak256(salt),
        };
        let token = offer.token().expect("pinned");
        let domain = Domain::new(token.name, token.version, U256::from(token.chain), token.address);
        let digest = TransferAuthorization::from(&authorization).digest(TransferKind::Transfer, &domain);
        let inner = owner.sign_hash_sync(&digest).expect("a key signs").as_bytes();
        let signature = wrap(factory, &call("createAccount(address,bytes32)", &owned), &inner);
        let signature = Signature::new(signature).expect("not too long");
        let payment = Payment::new(challenge.version, offer, authorization, signature, challenge.resource.clone(), Vec::new());
        let before = (world.balance(wallet), world.balance(account(PAYEE)));
        let (status, head, body) = post(served.at(), Some(&payment.to_header().expect("short"))).await;
        let after = (world.balance(wallet), world.balance(account(PAYEE)));
        let is_deployed = !world.devchain.code(wallet).is_empty();
        if allowed {
            assert_eq!((status, &body["caller"]), (200, &json!(wallet.to_checksum(None))), "{head} {body}");
            assert_eq!(after, (U256::ZERO, before.1 + U256::from(PRICE)));
            assert!(is_deployed);
        } else {
            assert_eq!((status, &body["code"]), (402, &json!("settlement.refused")), "{head} {body}");
            assert_eq!(after, before);
            assert!(!is_deployed);
        }
        assert_eq!(served.runs(), usize::from(allowed));
    }
}
