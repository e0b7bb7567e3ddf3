//! One payment, sent at the same time to two gates that have the same recipient and facilitator and share nothing else.
//!
//! The facilitator cannot tell them apart, and the chain shows one transfer. Whatever the order, one payment buys one result.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use toolcrib_gate::Facilitator;
use toolcrib_store::replay::Limits;

use crate::chain::{Node, PRICE, recipient};
use crate::http::Answer;
use crate::payer::{BOTH, authorization, fresh, payer};
use crate::peers::Peers;
use crate::shop::{Plan, two_words};
use crate::stores::{Backend, Place};
use crate::world::key;

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

#[expect(clippy::print_stdout, reason = "the counts are worth knowing")]
async fn one_result(backend: Backend) {
    let tries: u64 = std::env::var("TOOLCRIB_TRIES").ok().and_then(|text| text.parse().ok()).unwrap_or(40);
    // One that counts the nonces of its account, and one that does not, as in its authors' examples: of two settlements at a time it
    // sends one with a nonce that is used, and says only that it failed.
    for nonces in ["counted", "plain"] {
        let seen = rounds(backend, nonces, tries.div_ceil(2)).await;
        println!("{backend:?}, nonces {nonces}, answers of both gates: {seen:?}");
    }
}

/// Statuses and codes of both answers, and how often they came.
type Seen = BTreeMap<Vec<(u16, String)>, u64>;

async fn rounds(backend: Backend, nonces: &str, tries: u64) -> Seen {
    let mut seen = Seen::new();
    let Some(peers) = Peers::find() else { return seen };
    let (Some(node), Some(one), Some(two)) = (Node::anvil().await, Place::new(backend).await, Place::new(backend).await) else {
        return seen;
    };
    node.mint(payer().address(), tries * PRICE).await;
    let facilitator = peers.facilitator_with(&node.url, key(7), &[("NONCES", nonces.to_owned())]).await;
    let settle = || Facilitator::from_setting(&facilitator.url()).expect("a URL").confirm_with([node.chain.clone()]);
    let shops = [
        Plan::new(settle()).store(one.store(Limits::default()).await).open().await,
        Plan::new(settle()).store(two.store(Limits::default()).await).open().await,
    ];
    for round in 1..=tries {
        let version = BOTH[(round % 2) as usize];
        let payment = shops[0].payment(version, authorization());
        let (secret, input) = (fresh().to_string(), two_words());
        let token = [("X-Tool-Retry-Token", secret.as_str())];
        let answers = join_all(shops.iter().map(|shop| shop.call(version, &payment, &token, &input))).await;
        let mut verdicts: Vec<_> = answers.iter().map(Answer::verdict).collect();
        let served: Vec<_> = answers.iter().map(Answer::has_output).collect();
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
