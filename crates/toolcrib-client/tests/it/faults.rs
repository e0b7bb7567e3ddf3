//! Many calls at once against a server that fails in every way: at the end ledger, chain and caller agree to the cent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use alloy_primitives::U256;
use toolcrib_client::Resolution;
use toolcrib_client::ledger::State;

use toolcrib_testkit::servers::{NOW, answer};
use toolcrib_testkit::tools::{
    CALLER, PRICE, RECIPIENT, Reply, Speaks, World, challenge, check, code, input, offer, payment_of, priced, result, served,
    settle, usual,
};

const CALLS: usize = 160;
const AT_ONCE: usize = 8;

/// Every twentieth payment meets each of these.
fn faulty(world: &World, payments: &Arc<AtomicUsize>) -> Reply {
    let (devchain, payments) = (world.devchain.clone(), payments.clone());
    Arc::new(move |request| {
        let Some(payment) = payment_of(request) else { return challenge(Speaks::V2, vec![offer()]) };
        check(&payment, &offer());
        let fault = payments.fetch_add(1, Ordering::SeqCst) % 20;
        // A late or repeated settlement fails at the token.
        let transaction = if matches!(fault, 1 | 3 | 7) { None } else { settle(&devchain, &payment) };
        let json = "Content-Type: application/json\r\n";
        match (fault, transaction) {
            // Paid, and nothing or nonsense comes back.
            (0, _) => Vec::new(),
            (2, _) => b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{".to_vec(),
            (4, _) => answer("502 Bad Gateway", json, br#"{"code": "settlement.unknown"}"#),
            (5, Some(transaction)) => served(&payment, transaction, br#"{"words": null}"#),
            (6, Some(_)) => answer("200 OK", json, &result()),
            // Not paid.
            (1, _) => answer("500 Oops", json, b"{}"),
            (3, _) => Vec::new(),
            (_, Some(transaction)) => served(&payment, transaction, &result()),
            (_, None) => challenge(Speaks::V2, vec![offer()]),
        }
    })
}

// attack: T13, T16
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_agrees_to_the_cent() {
    let world = World::start().await;
    let payments = Arc::new(AtomicUsize::new(0));
    let tool = world.tool(priced, faulty(&world, &payments)).await;
    let (client, wallet) = world.client();
    let before = (world.balance(CALLER), world.balance(RECIPIENT));
    let mut ends: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut running = tokio::task::JoinSet::new();
    for started in 0..CALLS + AT_ONCE {
        if started < CALLS {
            let (client, tool) = (client.clone(), tool.reference);
            running.spawn(async move { code(&client.call(tool, &input(), &usual()).await) });
        }
        if started >= AT_ONCE {
            *ends.entry(running.join_next().await.unwrap().unwrap()).or_default() += 1;
        }
    }
    // One signature for each call, whatever came of it, and each is in the ledger and on the server's side.
    assert_eq!((wallet.signatures(), payments.load(Ordering::SeqCst), world.count().await), (CALLS, CALLS, CALLS), "{ends:?}");
    let each = CALLS / 20;
    assert_eq!(ends["ok"], 13 * each, "{ends:?}");
    assert_eq!((ends["call.indeterminate"], ends["call.output"]), (5 * each, each), "{ends:?}");
    assert_eq!(ends["call.payment_refused"], each, "{ends:?}");

    let counted =
        async |state: State| world.ledger.newest(1_000).await.unwrap().iter().filter(|entry| entry.state == state).count();
    // What the server said, then what the chain says.
    assert_eq!(counted(State::Unknown).await, 7 * each);
    for entry in world.ledger.open_payments(1_000).await.unwrap() {
        client.resolve(entry.id).await.unwrap();
    }
    assert_eq!((counted(State::Settled).await, counted(State::Unknown).await), (17 * each, 3 * each));
    world.devchain.set_time(u64::try_from(NOW.seconds()).unwrap() + 5_000);
    world.devchain.mine(1);
    for entry in world.ledger.open_payments(1_000).await.unwrap() {
        assert_eq!(client.resolve(entry.id).await.unwrap(), Resolution::Released);
    }
    let settled = U256::from(17 * each as u64 * PRICE);
    assert_eq!((before.0 - world.balance(CALLER), world.balance(RECIPIENT) - before.1), (settled, settled), "the chain");
    let totals = world.ledger.test_totals(NOW).await.unwrap();
    assert_eq!((U256::from(totals.day.get()), totals.open.get()), (settled, 0), "the ledger");
    // Every settled payment names a transaction of its own, which succeeded.
    let entries = world.ledger.newest(1_000).await.unwrap();
    let mut transactions: Vec<_> = entries.iter().filter_map(|entry| entry.transaction).collect();
    assert!(transactions.iter().all(|hash| world.devchain.receipt(*hash).unwrap().status()));
    transactions.sort();
    transactions.dedup();
    assert_eq!(transactions.len(), 17 * each);
}
