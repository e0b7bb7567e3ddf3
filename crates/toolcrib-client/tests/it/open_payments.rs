//! Payments whose answer was lost: the chain is asked, and the server with the same payment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use alloy_primitives::U256;
use serde_json::json;
use toolcrib_client::ledger::State;
use toolcrib_client::{CallError, Resolution, Usdc};

use toolcrib_x402::{Challenge, Raw, Version, payment_id};

use toolcrib_testkit::servers::{NOW, answer};
use toolcrib_testkit::tools::{
    PRICE, RECIPIENT, Reply, Speaks, World, challenge, code, input, offer, payment_of, priced, result, served, settle, usual,
};

fn silent() -> Reply {
    Arc::new(|request| match payment_of(request) {
        None => challenge(Speaks::V2, vec![offer()]),
        Some(_) => Vec::new(),
    })
}

// attack: T13
#[tokio::test]
async fn the_chain_says_what_came_of_it() {
    let world = World::start().await;
    let (client, wallet) = world.client();
    let tool = world.tool(priced, silent()).await;
    let error = client.call(tool.reference, &input(), &usual()).await.unwrap_err();
    let CallError::Indeterminate { payment: id, .. } = error else { panic!("{error:?}") };
    assert_eq!(client.resolve(id).await.unwrap(), Resolution::Open, "it is still good");
    // The server did settle; only its answer was lost.
    let hash = settle(&world.devchain, &payment_of(&tool.calls()[1]).unwrap()).unwrap();
    assert_eq!(client.resolve(id).await.unwrap(), Resolution::Settled(Some(hash)));
    assert_eq!(client.resolve(id).await.unwrap(), Resolution::Settled(Some(hash)), "and stays so");
    let entry = world.ledger.entry(id).await.unwrap();
    assert_eq!((entry.state, entry.transaction), (State::Settled, Some(hash)));

    // Another one never settles. It counts as spent until the chain is past its time.
    client.call(tool.reference, &input(), &usual()).await.unwrap_err();
    let id = world.ledger.open_payments(10).await.unwrap()[0].id;
    let day = async || world.ledger.test_totals(NOW).await.unwrap();
    assert_eq!((day().await.day, day().await.open), (Usdc::micro(2 * PRICE), Usdc::micro(PRICE)));
    // Our own clock decides nothing.
    world.clock.advance(10_000);
    assert_eq!(client.resolve(id).await.unwrap(), Resolution::Open);
    world.devchain.set_time(u64::try_from(NOW.seconds()).unwrap() + 1_000);
    world.devchain.mine(1);
    assert_eq!(client.resolve(id).await.unwrap(), Resolution::Released);
    assert_eq!((day().await.day, day().await.open), (Usdc::micro(PRICE), Usdc::ZERO));
    assert_eq!(world.balance(RECIPIENT), U256::from(PRICE));
    assert_eq!(wallet.signatures(), 2, "resolving signs nothing");
    assert_eq!(code(&client.resume(id).await), "call.not_resumable");
}

/// Extensions come back as they were declared, a payment identifier with an id, and a resend is the same to the byte.
#[tokio::test]
async fn declared_extensions_are_sent_back_with_an_identifier() {
    let world = World::start().await;
    let (client, _) = world.client();
    let declared = |name: &str, value: &str| (name.to_owned(), Raw::parse(value).unwrap());
    let extensions = vec![
        declared("bazaar", r#"{"info":{"input":{"type":"http","method":"POST"}},"schema":{"type":"object"}}"#),
        declared("payment-identifier", r#"{"info":{"required":true},"schema":{"type":"object"}}"#),
        declared("never-heard-of", r#"[1,{"a":null}]"#),
    ];
    let asked = extensions.clone();
    let reply: Reply = Arc::new(move |request| match payment_of(request) {
        Some(_) => Vec::new(),
        None => {
            let (accepts, extensions) = (vec![offer()], asked.clone());
            let challenge = Challenge { version: Version::V2, error: None, resource: None, accepts, extensions };
            let head = format!("Content-Type: application/json\r\nPAYMENT-REQUIRED: {}\r\n", challenge.to_header().unwrap());
            answer("402 Payment Required", &head, b"{}")
        }
    });
    let tool = world.tool(priced, reply).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let error = client.call(tool.reference, &input(), &usual()).await.unwrap_err();
        let CallError::Indeterminate { payment, .. } = error else { panic!("{error:?}") };
        assert_eq!(code(&client.resume(payment).await), "call.indeterminate");
        let calls = tool.calls();
        let [.., first, again] = calls.as_slice() else { panic!("{} requests", calls.len()) };
        let sent = first.header("payment-signature").unwrap();
        assert_eq!(again.header("payment-signature"), Some(sent), "byte-identical");
        let sent = payment_of(first).unwrap().extensions;
        let id = payment_id::read(&sent).unwrap().expect("an id");
        assert!(id.len() == 36 && id.starts_with("pay_") && id[4..].bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        // What redeems a result is a secret, and payments are spoken of by their names.
        assert!(!id.contains(&payment.to_string()));
        let mut expected = extensions.clone();
        payment_id::append(&mut expected, &id);
        let json = |extensions: &[(String, Raw)]| -> Vec<(String, serde_json::Value)> {
            extensions.iter().map(|(name, value)| (name.clone(), serde_json::from_str(value.as_str()).unwrap())).collect()
        };
        assert_eq!(json(&sent), json(&expected));
        ids.push(id);
    }
    assert_ne!(ids[0], ids[1], "each payment has its own");
}

// attack: T16
#[tokio::test]
async fn the_result_is_collected_with_the_same_payment() {
    for with_salt in [true, false] {
        let world = World::start().await;
        let (client, wallet) = world.client();
        let up = Arc::new(AtomicBool::new(false));
        let (devchain, is_up) = (world.devchain.clone(), up.clone());
        let reply: Reply = Arc::new(move |request| {
            let Some(payment) = payment_of(request) else { return challenge(Speaks::V2, vec![offer()]) };
            if !is_up.load(Ordering::SeqCst) {
                let head = "Content-Type: application/json\r\nRetry-After: 5\r\nX-Tool-Retry-Token: let-me-in\r\n";
                return answer("502 Bad Gateway", head, br#"{"code": "settlement.unknown"}"#);
            }
            // Only with proof of possession.
            let proof = if with_salt { "x-tool-nonce-salt" } else { "x-tool-retry-token" };
            if request.header(proof).is_none() {
                return answer("409 Conflict", "Content-Type: application/json\r\n", br#"{"code": "payment.replayed"}"#);
            }
            served(&payment, settle(&devchain, &payment).expect("the first time"), &result())
        });
        let tool = world.tool(priced, reply).await;
        let options = toolcrib_client::CallOptions { bound: with_salt, ..usual() };
        let error = client.call(tool.reference, &input(), &options).await.unwrap_err();
        let CallError::Indeterminate { payment: id, words: Some(words), .. } = error else { panic!("{error:?}") };
        assert_eq!((words.code.as_deref(), words.retry_after), (Some("settlement.unknown"), Some(5)));
        assert!(!format!("{:?}", world.ledger.entry(id).await).contains("let-me-in"), "the token is nobody's business");
        // Still down: nothing is lost by asking.
        assert_eq!(code(&client.resume(id).await), "call.indeterminate");
        up.store(true, Ordering::SeqCst);
        let called = client.resume(id).await.unwrap();
        assert_eq!(called.output, Some(json!({"words": 3})));
        assert_eq!(called.paid.as_ref().map(|paid| (paid.id, paid.state)), Some((id, State::Settled)));
        assert_eq!(wallet.signatures(), 1, "one signature for all of it");
        assert_eq!(world.balance(RECIPIENT), U256::from(PRICE));
        let calls = tool.calls();
        assert_eq!(calls.len(), 4);
        let payments: Vec<_> = calls[1..].iter().map(|call| call.header("payment-signature").map(str::to_owned)).collect();
        assert!(payments.iter().all(|payment| payment.is_some() && *payment == payments[0]));
        assert!(world.ledger.entry(id).await.unwrap().is_resumable(), "what was printed may be lost, so it can be fetched again");
    }
}
