//! One payment, sent at the same time to two gates that have the same recipient and facilitator and share nothing else.
//!
//! The facilitator cannot tell them apart, and the chain shows one transfer. As long as the facilitator answers each gate for its own
//! request, one payment buys one result, whatever the order. While a transaction is pending it does not, and both gates may serve.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::{join, join_all};
use toolcrib_gate::Facilitator;
use toolcrib_store::replay::Limits;

use super::world::key;
use crate::attacks::chain::{Node, PRICE, recipient};
use crate::attacks::http::HttpResponse;
use crate::attacks::payer::{BOTH, authorization, fresh, payer};
use crate::attacks::shop::{Plan, Shop, two_words};
use toolcrib_testkit::databases::{Backend, TestStore};
use toolcrib_testkit::x402_peers::Peers;

// attack: T1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gates_behind_a_stock_facilitator_serve_a_payment_once_on_sqlite() {
    one_result(Backend::SqliteFile).await;
}

// attack: T1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gates_behind_a_stock_facilitator_serve_a_payment_once_on_postgres() {
    one_result(Backend::Postgres).await;
}

// attack: T1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gates_may_both_serve_while_a_transaction_is_pending_unless_they_share_a_store_on_sqlite() {
    pending(Backend::SqliteFile).await;
}

// attack: T1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gates_may_both_serve_while_a_transaction_is_pending_unless_they_share_a_store_on_postgres() {
    pending(Backend::Postgres).await;
}

#[expect(clippy::print_stdout, reason = "the counts are worth knowing")]
async fn one_result(backend: Backend) {
    let tries: u64 = std::env::var("TOOLCRIB_TRIES").ok().and_then(|text| text.parse().ok()).unwrap_or(40);
    // One that counts the nonces of its account, and one that does not, as in its authors' examples: of two settlements at a time it
    // sends one with a nonce that is used, and says only that it failed. And a payer who has enough for one transfer: the facilitator
    // refuses the second request because of the first.
    for (nonces, funds) in
        [("counted", Funds::All), ("plain", Funds::All), ("counted", Funds::OnePrice), ("plain", Funds::OnePrice)]
    {
        let seen = rounds(backend, nonces, funds, tries.div_ceil(4)).await;
        println!("{backend:?}, nonces {nonces}, funds {funds:?}, answers of both gates: {seen:?}");
    }
}

/// What the payer has at the beginning of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Funds {
    /// Enough for all rounds.
    All,
    /// Enough for this one.
    OnePrice,
}

/// Statuses and codes of both answers, and how often they came.
type Seen = BTreeMap<Vec<(u16, String)>, u64>;

async fn rounds(backend: Backend, nonces: &str, funds: Funds, tries: u64) -> Seen {
    let mut seen = Seen::new();
    let Some(peers) = Peers::find() else { return seen };
    let (Some(node), Some(one), Some(two)) = (Node::anvil().await, TestStore::new(backend).await, TestStore::new(backend).await)
    else {
        return seen;
    };
    if funds == Funds::All {
        node.mint(payer().address(), tries * PRICE).await;
    }
    let facilitator = peers.facilitator_with(&node.url, key(7), &[("NONCES", nonces.to_owned())]).await;
    let settle = || Facilitator::from_setting(&facilitator.url()).expect("a URL").confirm_with([node.chain.clone()]);
    let shops = [
        Plan::new(settle()).store(one.store(Limits::default()).await).open().await,
        Plan::new(settle()).store(two.store(Limits::default()).await).open().await,
    ];
    for round in 1..=tries {
        if funds == Funds::OnePrice {
            node.mint(payer().address(), PRICE).await;
        }
        let version = BOTH[(round % 2) as usize];
        let payment = shops[0].payment(version, authorization());
        let (secret, input) = (fresh().to_string(), two_words());
        let token = [("X-Tool-Retry-Token", secret.as_str())];
        let answers = join_all(shops.iter().map(|shop| shop.call(version, &payment, &token, &input))).await;
        let mut verdicts: Vec<_> = answers.iter().map(HttpResponse::verdict).collect();
        let served: Vec<_> = answers.iter().map(HttpResponse::has_output).collect();
        if served == [true, true] {
            let stats = facilitator.stats().await;
            panic!(
                "round {round}: two results for one payment; the facilitator's last words: {:?}",
                stats["reasons"].as_array().and_then(|said| said.last())
            );
        }
        assert_eq!(node.balance(recipient()).await, round * PRICE, "round {round}: {verdicts:?}");
        // Whoever comes back gets the result where it was bought, as often as it asks, and nowhere else.
        let again = join_all(shops.iter().map(|shop| shop.call(version, &payment, &token, &input))).await;
        let results = again.iter().filter(|answer| answer.has_output()).count();
        assert_eq!(results, 1, "round {round}: {verdicts:?}, then {again:?}");
        for (answer, served) in again.iter().zip(&served) {
            assert!(answer.has_output() || !served, "round {round}: what was given is given again: {again:?}");
        }
        verdicts.sort();
        *seen.entry(verdicts).or_default() += 1;
    }
    let counts = shops.each_ref().map(|shop| shop.store.counts());
    let settled: u64 = join_all(counts).await.into_iter().map(|counts| counts.expect("the store answers").settled).sum();
    assert_eq!(settled, tries, "each payment is settled at one gate");
    seen
}

/// Payments of one test on a slow chain.
const SLOW_ROUNDS: usize = 4;

/// Blocks come late: the second gate asks while the first one's transaction waits.
///
/// A facilitator that remembers pending transactions names the first gate's to the second, and what it says is true of both. Gates that
/// share a store are not in that position: one of them has the payment.
#[expect(clippy::print_stdout, reason = "the counts are worth knowing")]
async fn pending(backend: Backend) {
    for is_shared in [false, true] {
        let Some(peers) = Peers::find() else { return };
        let (Some(node), Some(one), Some(two)) =
            (Node::anvil().await, TestStore::new(backend).await, TestStore::new(backend).await)
        else {
            return;
        };
        node.mint(payer().address(), SLOW_ROUNDS as u64 * PRICE).await;
        let facilitator = peers.facilitator_with(&node.url, key(7), &[("CONFIRMATION_MS", "3000".to_owned())]).await;
        let settle = || Facilitator::from_setting(&facilitator.url()).expect("a URL").confirm_with([node.chain.clone()]);
        let two = if is_shared { TestStore::again(&one) } else { two };
        let shops = [
            Plan::new(settle()).store(one.store(Limits::default()).await).open().await,
            Plan::new(settle()).store(two.store(Limits::default()).await).open().await,
        ];
        let mut seen = Seen::new();
        for round in 1..=SLOW_ROUNDS {
            let version = BOTH[round % 2];
            let payment = shops[0].payment(version, authorization());
            let (secret, input) = (fresh().to_string(), two_words());
            let token = [("X-Tool-Retry-Token", secret.as_str())];
            let stats = facilitator.stats().await;
            let (settles, failures) = (stats["settle"].as_u64().expect("a number"), count(&stats["reasons"]));
            node.automine(false).await;
            let first = shops[0].call(version, &payment, &token, &input);
            let second = async {
                // The first request has ended with a transaction that waits.
                while count(&facilitator.stats().await["reasons"]) == failures {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                let asked = async {
                    // The second gate's request is there, or cannot come, because the store has the payment.
                    while !is_shared && facilitator.stats().await["settle"].as_u64().expect("a number") < settles + 2 {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    node.mine().await;
                    node.automine(true).await;
                };
                join(shops[1].call(version, &payment, &token, &input), asked).await.0
            };
            let (first, second) = join(first, second).await;
            let answers = [first, second];
            let mut verdicts: Vec<_> = answers.iter().map(HttpResponse::verdict).collect();
            assert_eq!(node.balance(recipient()).await, round as u64 * PRICE, "round {round}: charged once: {verdicts:?}");
            // Whoever comes back gets what its gate has sold.
            let again = join_all(shops.iter().map(|shop| shop.call(version, &payment, &token, &input))).await;
            let results: Vec<_> = again.iter().filter(|answer| answer.has_output()).collect();
            assert!(!results.is_empty(), "round {round}: charged and redeemable: {verdicts:?}, then {again:?}");
            let receipts: BTreeSet<_> = results.iter().map(|answer| answer.receipt(version).transaction).collect();
            assert_eq!(receipts.len(), 1, "round {round}: one transfer: {again:?}");
            let runs = shops.iter().map(Shop::runs).sum::<usize>();
            if is_shared {
                assert_eq!(runs, round, "round {round}: one store, one result: {verdicts:?}");
            }
            verdicts.sort();
            *seen.entry(verdicts).or_default() += 1;
        }
        println!("{backend:?}, pending transactions, shared store {is_shared}, answers of both gates: {seen:?}");
    }
}

/// Entries of a list.
fn count(list: &serde_json::Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}
