//! Receipts are compared with the chain: servers that invent a transaction, name another payment's, or name one too early.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use alloy_primitives::{B256, Bytes, U256};
use serde_json::{Value as Json, json};
use toolcrib_chain::rpc::Chain;
use toolcrib_client::ledger::{Entry, Evidence, MAX_REDEEMABLE_SECONDS, REDEEMABLE_SECONDS, State};
use toolcrib_client::{CallMethod, Called, Client, Resolution, UrlPolicy, Usdc};
use toolcrib_core::url::HttpsUrl;
use toolcrib_devchain::Devchain;
use toolcrib_x402::Payment;

use toolcrib_testkit::nodes::fake::{FakeNode, Reply as NodeReply};
use toolcrib_testkit::servers::NOW;
use toolcrib_testkit::tools::{
    CREATOR, Counting, PRICE, RECIPIENT, Reply, STRANGER, Speaks, Tool, World, challenge, connect, input, offer, payment_of,
    priced, result, served, settle, transact, usdc, usual,
};

const INVENTED: B256 = B256::repeat_byte(0xab);

/// Serves with a receipt that names what `transaction` says.
fn stating(transaction: impl Fn(&Payment) -> B256 + Send + Sync + 'static) -> Reply {
    Arc::new(move |request| match payment_of(request) {
        None => challenge(Speaks::V2, vec![offer()]),
        Some(payment) => served(&payment, transaction(&payment), &result()),
    })
}

fn codes(called: &Called) -> Vec<&'static str> {
    called.findings.iter().map(|finding| finding.code.id()).collect()
}

async fn called(client: &Client, tool: &Tool) -> Called {
    let called = client.call(tool.reference, &input(), &usual()).await.unwrap();
    assert_eq!(called.output, Some(json!({"words": 3})), "the result that was received is handed on");
    called
}

async fn entry_of(world: &World, called: &Called) -> Entry {
    world.ledger.entry(called.paid.as_ref().unwrap().id).await.unwrap()
}

/// A node that passes requests on to the chain of the tests, but for what `bend` answers itself.
async fn between(devchain: &Arc<Devchain>, bend: impl Fn(&str, &Json) -> Option<NodeReply> + Send + Sync + 'static) -> Chain {
    let devchain = devchain.clone();
    let node = FakeNode::start(toolcrib_testkit::tools::CHAIN, move |method, params| {
        let pass = || match devchain.request(method, params.clone()) {
            Ok(answer) => NodeReply::Result(answer),
            Err(error) => NodeReply::Error(-32_000, error.to_string(), Json::Null),
        };
        bend(method, params).unwrap_or_else(pass)
    })
    .await;
    connect(&node.url().to_string()).await
}

// attack: T13
#[tokio::test]
async fn a_settlement_is_confirmed_by_the_chain() {
    let world = World::start().await;
    let (client, _) = world.client();
    let devchain = world.devchain.clone();
    let tool = world.tool(priced, stating(move |payment| settle(&devchain, payment).unwrap())).await;
    let called = called(&client, &tool).await;
    let entry = entry_of(&world, &called).await;
    assert_eq!((entry.state, entry.evidence(), entry.is_confirmed), (State::Settled, Some(Evidence::Chain), true));
    assert_eq!(called.paid.unwrap().evidence, Some(Evidence::Chain));
    assert_eq!(called.findings, []);
}

// attack: T13
#[tokio::test]
async fn an_invented_transaction_settles_nothing() {
    let world = World::start().await;
    let (client, wallet) = world.client();
    let tool = world.tool(priced, stating(|_| INVENTED)).await;
    let first = called(&client, &tool).await;
    assert_eq!(codes(&first), ["call.receipt_unconfirmed"]);
    let entry = entry_of(&world, &first).await;
    assert_eq!((entry.state, entry.transaction, entry.evidence()), (State::Unknown, Some(INVENTED), Some(Evidence::Server)));
    assert!(entry.note.contains(&INVENTED.to_string()), "{}", entry.note);
    assert_eq!(client.resolve(entry.id).await.unwrap(), Resolution::Open);
    // It settles late, in another transaction than the server has named.
    let hash = settle(&world.devchain, &payment_of(&tool.calls()[1]).unwrap()).unwrap();
    assert_eq!(client.resolve(entry.id).await.unwrap(), Resolution::Settled(Some(hash)));
    let entry = entry_of(&world, &first).await;
    assert_eq!((entry.state, entry.transaction, entry.evidence()), (State::Settled, Some(hash), Some(Evidence::Chain)));

    // Another one never does, and its money comes back.
    let second = called(&client, &tool).await;
    let entry = entry_of(&world, &second).await;
    let spent = async || world.ledger.test_totals(NOW).await.unwrap().day;
    assert_eq!(spent().await, Usdc::micro(2 * PRICE), "what is signed counts as spent");
    world.devchain.set_time(u64::try_from(NOW.seconds()).unwrap() + 1_000);
    world.devchain.mine(1);
    assert_eq!(client.resolve(entry.id).await.unwrap(), Resolution::Released);
    assert_eq!((spent().await, entry_of(&world, &second).await.transaction), (Usdc::micro(PRICE), None));
    assert_eq!(wallet.signatures(), 2);
}

// attack: T13
#[tokio::test]
async fn a_transaction_of_something_else_contradicts_the_receipt() {
    let world = World::start().await;
    let (client, _) = world.client();
    let devchain = world.devchain.clone();
    let honest = world.tool(priced, stating(move |payment| settle(&devchain, payment).unwrap())).await;
    let other = called(&client, &honest).await.paid.unwrap().transaction.unwrap();
    let failed = {
        // Nothing of the kind is allowed: the transaction is mined and fails.
        let data = Bytes::from_static(&[0xde, 0xad, 0xbe, 0xef]);
        let request = json!({ "from": CREATOR, "to": usdc().address, "data": data, "gas": "0xf0000" });
        let hash = world.devchain.request("eth_sendTransaction", json!([request])).unwrap();
        let hash: B256 = serde_json::from_value(hash).unwrap();
        assert!(!world.devchain.receipt(hash).unwrap().status());
        hash
    };
    let plain = transact(&world.devchain, CREATOR, Some(STRANGER), &Bytes::new()).unwrap().0;
    let before = world.balance(RECIPIENT);
    for (what, named) in [("another payment", other), ("a failure", failed), ("nothing of the token", plain)] {
        let tool = world.tool(priced, stating(move |_| named)).await;
        let called = called(&client, &tool).await;
        assert_eq!(codes(&called), ["call.receipt_contradicted"], "{what}");
        let entry = entry_of(&world, &called).await;
        assert_eq!((entry.state, entry.transaction, entry.evidence()), (State::Unknown, None, None), "{what}");
        assert!(entry.note.contains(&named.to_string()), "{what}: {}", entry.note);
        assert_eq!(client.resolve(entry.id).await.unwrap(), Resolution::Open, "{what}");
    }
    assert_eq!(world.balance(RECIPIENT), before);
}

#[tokio::test]
async fn without_a_node_the_servers_word_is_recorded_as_such() {
    let world = World::start().await;
    let devchain = world.devchain.clone();
    let honest = world.tool(priced, stating(move |payment| settle(&devchain, payment).unwrap())).await;
    let lying = world.tool(priced, stating(|_| INVENTED)).await;
    // A client that knows no node. Everything that signs for this chain is a development key.
    let offline = {
        let clock = Arc::new(world.clock.clone());
        let door = world.net.fetch();
        let verifier = toolcrib_verify::Verifier::new(door.clone(), clock.clone(), "tests");
        let builder = Client::builder(verifier, door, world.ledger.clone(), clock);
        builder
            .wallet(Counting::new())
            .policy(toolcrib_testkit::tools::roomy())
            .limits(toolcrib_testkit::servers::quick(), toolcrib_testkit::servers::quick())
            .build()
    };
    let (client, _) = world.client();
    let policy = UrlPolicy { max_amount: Usdc::micro(PRICE), recipients: vec![RECIPIENT], ..UrlPolicy::default() };
    let mut entries = Vec::new();
    for tool in [&honest, &lying] {
        let url = HttpsUrl::parse(&tool.endpoint).unwrap();
        let called = offline.call_url(&url, CallMethod::Post, input().to_string().as_bytes(), &policy).await.unwrap();
        assert_eq!(codes(&called), [] as [&str; 0]);
        let entry = entry_of(&world, &called).await;
        assert_eq!((entry.state, entry.evidence(), entry.is_confirmed), (State::Settled, Some(Evidence::Server), false));
        assert_eq!(offline.resolve(entry.id).await.unwrap(), Resolution::Settled(entry.transaction), "nobody else to ask");
        entries.push(entry);
    }
    // With a node it is looked up.
    assert_eq!(client.resolve(entries[0].id).await.unwrap(), Resolution::Settled(entries[0].transaction));
    assert_eq!(world.ledger.entry(entries[0].id).await.unwrap().evidence(), Some(Evidence::Chain));
    assert_eq!(client.resolve(entries[1].id).await.unwrap(), Resolution::Open);
    assert_eq!(world.ledger.entry(entries[1].id).await.unwrap().state, State::Unknown);
    world.devchain.set_time(u64::try_from(NOW.seconds()).unwrap() + 1_000);
    world.devchain.mine(1);
    assert_eq!(client.resolve(entries[1].id).await.unwrap(), Resolution::Released);
    assert_eq!(world.balance(RECIPIENT), U256::from(PRICE));
}

#[tokio::test]
async fn the_server_says_how_long_its_result_can_be_fetched() {
    let world = World::start().await;
    let (client, _) = world.client();
    for (said, kept) in [
        ("X-Tool-Redeemable-Seconds: 120\r\n", 120),
        ("X-Tool-Redeemable-Seconds:  7200 \r\n", 7_200),
        ("X-Tool-Redeemable-Seconds: 999999999\r\n", MAX_REDEEMABLE_SECONDS),
        ("X-Tool-Redeemable-Seconds: 99999999999999999999999\r\n", REDEEMABLE_SECONDS),
        ("X-Tool-Redeemable-Seconds: -5\r\n", REDEEMABLE_SECONDS),
        ("X-Tool-Redeemable-Seconds: 0\r\n", REDEEMABLE_SECONDS),
        ("X-Tool-Redeemable-Seconds: soon\r\n", REDEEMABLE_SECONDS),
        ("", REDEEMABLE_SECONDS),
    ] {
        let devchain = world.devchain.clone();
        let honest = stating(move |payment| settle(&devchain, payment).unwrap());
        let reply: Reply = Arc::new(move |request| {
            let answer = String::from_utf8(honest(request)).unwrap();
            answer.replacen("Content-Type", &format!("{said}Content-Type"), 1).into_bytes()
        });
        let tool = world.tool(priced, reply).await;
        let called = called(&client, &tool).await;
        assert_eq!(entry_of(&world, &called).await.redeemable_until, Some(NOW.plus(kept)), "{said}");
    }
}

#[tokio::test]
async fn a_node_that_is_behind_is_asked_once_more() {
    let world = World::start().await;
    let devchain = world.devchain.clone();
    let tool = world.tool(priced, stating(move |payment| settle(&devchain, payment).unwrap())).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let chain = between(&world.devchain, move |method, _| {
        let is_first = method == "eth_getTransactionReceipt" && count.fetch_add(1, Ordering::SeqCst) == 0;
        is_first.then_some(NodeReply::Result(Json::Null))
    })
    .await;
    let client = world.builder().chain(chain).wallet(Counting::new()).build();
    let called = called(&client, &tool).await;
    assert_eq!((codes(&called), asked.load(Ordering::SeqCst)), (vec![], 2));
    assert_eq!(entry_of(&world, &called).await.evidence(), Some(Evidence::Chain));
}

#[tokio::test]
async fn a_node_in_trouble_does_not_hold_the_result_back() {
    let world = World::start().await;
    for (what, bent) in [
        ("silent", (|| NodeReply::Silence(Duration::from_secs(60))) as fn() -> NodeReply),
        ("broken", || NodeReply::Http(500, b"no".to_vec())),
        ("refuses", || NodeReply::Error(-32_000, "no".to_owned(), Json::Null)),
        ("babbles", || NodeReply::Result(json!("0x1"))),
        ("hangs up", || NodeReply::HangUp),
    ] {
        let devchain = world.devchain.clone();
        let tool = world.tool(priced, stating(move |payment| settle(&devchain, payment).unwrap())).await;
        let chain = between(&world.devchain, move |method, _| (method == "eth_getTransactionReceipt").then(bent)).await;
        let client = world.builder().chain(chain).wallet(Counting::new()).build();
        let began = Instant::now();
        let called = called(&client, &tool).await;
        toolcrib_testkit::assert_not_hung(began, what);
        assert_eq!(codes(&called), ["call.receipt_unconfirmed"], "{what}");
        let entry = entry_of(&world, &called).await;
        assert_eq!((entry.state, entry.evidence()), (State::Unknown, Some(Evidence::Server)), "{what}");
        // An honest node finishes it.
        let (client, _) = world.client();
        assert_eq!(client.resolve(entry.id).await.unwrap(), Resolution::Settled(entry.transaction), "{what}");
    }
}
