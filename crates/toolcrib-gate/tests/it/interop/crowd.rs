//! Many payments at one time behind a stock facilitator that does not count the nonces of its transactions, as in its authors' examples.
//!
//! It sends several settlements with the same nonce, and the node takes one of them. All payers are served, and each pays once.

use futures_util::future::join_all;
use toolcrib_gate::Facilitator;
use toolcrib_store::replay::Limits;

use super::world::key;
use crate::attacks::chain::{FUNDS, Node, PRICE, recipient};
use crate::attacks::payer::{BOTH, authorization, payer};
use crate::attacks::shop::{Plan, two_words};
use toolcrib_testkit::databases::{Backend, TestStore};
use toolcrib_testkit::x402_peers::Peers;

/// Payments at a time.
const PAYERS: usize = 6;

// req: GATE-007
// attack: T13
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_whose_transactions_are_in_each_others_way_are_all_served() {
    let Some(peers) = Peers::find() else { return };
    let (Some(node), Some(place)) = (Node::anvil().await, TestStore::new(Backend::SqliteFile).await) else { return };
    node.mint(payer().address(), FUNDS).await;
    let facilitator = peers.facilitator_with(&node.url, key(7), &[("NONCES", "plain".to_owned())]).await;
    let settle = Facilitator::from_setting(&facilitator.url()).expect("a URL").confirm_with([node.chain.clone()]);
    let shop = Plan::new(settle).store(place.store(Limits::default()).await).open().await;

    let input = two_words();
    let versions = (0..PAYERS).map(|turn| BOTH[turn % 2]);
    let answers = join_all(versions.map(async |version| {
        let payment = shop.payment(version, authorization());
        (version, shop.call(version, &payment, &[], &input).await)
    }));
    let answers = answers.await;
    let stats = facilitator.stats().await;
    for (version, answer) in answers {
        assert_eq!((answer.status, answer.has_output()), (200, true), "{version:?}: {:?} {stats}", answer.verdict());
        assert!(answer.receipt(version).success);
    }
    assert_eq!((node.balance(recipient()).await, shop.runs()), (PAYERS as u64 * PRICE, PAYERS), "each payment once");
    let reasons = stats["reasons"].as_array().expect("a list");
    assert!(!reasons.is_empty(), "no transaction was in the way of another, so this has shown nothing: {stats}");
}
