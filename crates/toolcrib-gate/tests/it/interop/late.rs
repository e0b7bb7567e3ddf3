//! The stock facilitator waits three seconds for a receipt and answers that it has none, while the transaction that it has sent waits
//! for a block.
//!
//! Version 1 answers with the text of an exception and no transaction, version 2 with `settlement_pending`. Both times the payer is
//! charged a little later, once, and has what it paid for then: in the same answer, or when it comes back with the same payment.

use std::time::Duration;

use futures_util::future::{join, join_all};
use serde_json::{Value, json};
use toolcrib_gate::{CONFIRM_TIME, Facilitator, PENDING_PAUSE};
use toolcrib_store::replay::Limits;
use toolcrib_x402::Version;

use super::world::key;
use crate::attacks::chain::{FUNDS, Node, PRICE, recipient};
use crate::attacks::http::HttpResponse;
use crate::attacks::payer::{BOTH, authorization, fresh, payer};
use crate::attacks::shop::{PATH, Plan, Shop, two_words};
use toolcrib_testkit::databases::{Backend, TestStore};
use toolcrib_testkit::x402_peers::{Peers, Server};

/// How long the facilitator waits for a receipt.
const RECEIPT_TIME: Duration = Duration::from_secs(3);

/// The development account that pays the facilitator's gas.
const GAS: usize = 7;

/// Seconds between blocks of a slow chain.
const BLOCK_SECONDS: u64 = 8;

/// Calls to make until a payment is settled, with a pause between them: far more than it takes.
const TRIES: usize = 600;

// req: GATE-007
// attack: T13
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_is_mined_late_is_charged_and_served_once_on_sqlite() {
    late(Backend::SqliteFile).await;
}

// req: GATE-007
// attack: T13
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_is_mined_late_is_charged_and_served_once_on_postgres() {
    late(Backend::Postgres).await;
}

/// Two servers: one waits for the chain as servers do, the other gives up at once, so that its payers have to come back. No block is
/// mined before all payers of the second have been told that nothing is known.
async fn late(backend: Backend) {
    let Some(peers) = Peers::find() else { return };
    let (Some(node), Some(one), Some(two)) = (Node::anvil().await, TestStore::new(backend).await, TestStore::new(backend).await)
    else {
        return;
    };
    node.mint(payer().address(), FUNDS).await;
    let facilitator = start(&peers, &node).await;
    let patient = open(&node, &facilitator, &one, (CONFIRM_TIME * 8, PENDING_PAUSE)).await;
    let short = Duration::from_millis(50);
    let hasty = open(&node, &facilitator, &two, (short, short)).await;
    node.automine(false).await;

    let first = BOTH.map(|version| Call::new(&patient, version));
    let waiting = join_all(first.iter().map(|call| call.send(&patient)));
    let coming_back = async {
        let calls = BOTH.map(|version| Call::new(&hasty, version));
        for (call, answer) in calls.iter().zip(join_all(calls.iter().map(|call| call.send(&hasty))).await) {
            call.assert_open(&answer);
        }
        for call in &calls {
            call.assert_open(&call.send(&hasty).await);
        }
        assert_eq!(node.balance(recipient()).await, 0, "nothing is mined");
        node.automine(true).await;
        node.mine().await;
        for call in &calls {
            call.redeem(&hasty).await;
        }
    };
    let (answers, ()) = join(waiting, coming_back).await;
    for (call, answer) in first.iter().zip(answers) {
        assert_eq!((answer.status, answer.has_output()), (200, true), "{:?}: {answer:?}", call.version);
        assert!(answer.receipt(call.version).success);
        let again = call.send(&patient).await;
        assert_eq!((again.status, &again.body), (200, &answer.body), "{:?}: the same again", call.version);
    }

    let paid = node.balance(recipient()).await;
    assert_eq!((paid, node.balance(payer().address()).await), (4 * PRICE, FUNDS - 4 * PRICE), "each payment once");
    assert_eq!((patient.runs(), hasty.runs()), (2, 2), "each handler once");
    for shop in [&patient, &hasty] {
        let counts = shop.store.counts().await.expect("the store answers");
        assert_eq!((counts.reserved, counts.settling, counts.unknown, counts.settled), (0, 0, 0, 2), "nothing is left open");
    }
    // All of that happened with the words that it is about.
    let stats = facilitator.stats().await;
    let reasons = stats["reasons"].as_array().expect("a list");
    let count = |is: fn(&str) -> bool| reasons.iter().filter(|said| said["reason"].as_str().is_some_and(is)).count();
    assert_eq!(count(|reason| reason.starts_with("Timed out while waiting for transaction")), 2, "{reasons:?}");
    assert!(count(|reason| reason == "settlement_pending") >= 3, "{reasons:?}");
    let unnamed = |said: &&Value| said["reason"] != "settlement_pending" && said["transaction"] != "";
    assert!(!reasons.iter().any(|said| unnamed(&said)), "version 1 names no transaction: {reasons:?}");
}

// req: GATE-007
// attack: T13
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stock_clients_are_served_on_a_chain_with_slow_blocks() {
    let Some(peers) = Peers::find() else { return };
    let (Some(node), Some(place)) = (Node::anvil().await, TestStore::new(Backend::SqliteFile).await) else { return };
    node.mint(payer().address(), FUNDS).await;
    let facilitator = start(&peers, &node).await;
    let shop = open(&node, &facilitator, &place, (CONFIRM_TIME * 4, PENDING_PAUSE)).await;
    node.dev("evm_setIntervalMining", json!([BLOCK_SECONDS])).await;
    let clients = peers.clients();
    let url = format!("http://{}{PATH}", shop.at);
    let calls = clients.iter().map(|client| client.call(url.clone(), key(1), two_words()));
    for (client, called) in clients.iter().zip(join_all(calls).await) {
        assert_eq!((called.status, &called.error), (200, &None), "{client}: {called:?}");
        assert_eq!(called.body["words"], 2, "{client}");
        assert_eq!(called.receipt["success"], true, "{client}");
    }
    let count = clients.len();
    assert_eq!((node.balance(recipient()).await, shop.runs()), (count as u64 * PRICE, count), "each payment once");
}

async fn start(peers: &Peers, node: &Node) -> Server {
    let time = RECEIPT_TIME.as_millis().to_string();
    peers.facilitator_with(&node.url, key(GAS), &[("CONFIRMATION_MS", time)]).await
}

async fn open(node: &Node, facilitator: &Server, place: &TestStore, (confirm, pause): (Duration, Duration)) -> Shop {
    let settle = Facilitator::from_setting(&facilitator.url()).expect("a URL").confirm_with([node.chain.clone()]);
    Plan::new(settle.confirm_time(confirm).pending_pause(pause)).store(place.store(Limits::default()).await).open().await
}

/// A payment and what redeems it.
struct Call {
    version: Version,
    payment: String,
    token: String,
}

impl Call {
    fn new(shop: &Shop, version: Version) -> Self {
        Self { version, payment: shop.payment(version, authorization()), token: fresh().to_string() }
    }

    async fn send(&self, shop: &Shop) -> HttpResponse {
        shop.call(self.version, &self.payment, &[("X-Tool-Retry-Token", &self.token)], &two_words()).await
    }

    /// The payment is neither served nor asked for again.
    #[track_caller]
    fn assert_open(&self, answer: &HttpResponse) {
        let version = self.version;
        assert_eq!(
            (answer.verdict(), answer.has_output()),
            ((502, "settlement.unknown".to_owned()), false),
            "{version:?}: {answer:?}"
        );
        assert_eq!(answer.header("payment-required"), None, "{version:?}");
        assert!(answer.header("retry-after").is_some(), "{version:?}");
    }

    /// Comes back with the same payment until it is settled.
    async fn redeem(&self, shop: &Shop) {
        for _ in 0..TRIES {
            let answer = self.send(shop).await;
            if answer.status == 200 {
                assert!(answer.has_output() && answer.receipt(self.version).success, "{answer:?}");
                return;
            }
            self.assert_open(&answer);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{:?} is never settled", self.version);
    }
}
