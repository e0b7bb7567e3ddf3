//! The server is killed at every step of a paid call, and started again on the same store.
//!
//! Whatever the step, the payer is charged at most once; a payer who was charged gets what it bought with the payment and the proof
//! of possession; one who was not can use the payment again, or pay anew once it never can be used; and whoever has read the payment
//! on the chain gets nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use serde_json::json;
use tokio::sync::mpsc::unbounded_channel;
use toolcrib_store::replay::Limits;
use toolcrib_testkit::assert_not_hung;
use toolcrib_x402::{Authorization, Version};

use super::chain::{FUNDS, Node, PRICE, recipient};
use super::facilitator::Service;
use super::http::{Connection, post};
use super::payer::{Bound, authorization, fresh, paid, payer};
use super::process::{Ground, Point, Process};
use super::proxy::{Fate, between};
use super::shop::{LEASE_OVER, PATH, own_key, two_words};
use toolcrib_testkit::databases::{Backend, TestStore};

/// Where the server is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kill {
    At(Point),
    /// The transaction is signed, and no node has it.
    BeforeBroadcast,
    /// The node has it, and the server does not know.
    AfterBroadcast,
}

const SETTLE_AFTER: [Kill; 11] = [
    Kill::At(Point::BeforeReserve),
    Kill::At(Point::Reserved),
    Kill::At(Point::Verified),
    Kill::At(Point::Handling),
    Kill::At(Point::Handled),
    Kill::At(Point::Begun),
    Kill::BeforeBroadcast,
    Kill::AfterBroadcast,
    Kill::At(Point::Settled),
    Kill::At(Point::Answered),
    Kill::At(Point::Recorded),
];

const SETTLE_FIRST: [Kill; 11] = [
    Kill::At(Point::BeforeReserve),
    Kill::At(Point::Reserved),
    Kill::At(Point::Verified),
    Kill::At(Point::Begun),
    Kill::BeforeBroadcast,
    Kill::AfterBroadcast,
    Kill::At(Point::Settled),
    Kill::At(Point::Recorded),
    Kill::At(Point::Handling),
    Kill::At(Point::Handled),
    Kill::At(Point::Kept),
];

/// Where a server is killed that settles through a facilitator: the node's part is the facilitator's there.
const FACILITATOR: [Kill; 4] =
    [Kill::At(Point::Begun), Kill::At(Point::Settled), Kill::At(Point::Answered), Kill::At(Point::Recorded)];

/// Who sends the transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    OwnKey,
    Facilitator {
        /// Whether it says which account it sends from.
        announces: bool,
    },
}

#[derive(Clone, Copy, Debug)]
struct Case {
    kill: Kill,
    by: By,
    settle_first: bool,
    /// The salt of a bound nonce proves possession, or else a token of the caller's own.
    is_bound: bool,
    backend: Backend,
    on_anvil: bool,
}

// req: GATE-007, PAY-005
// attack: T2, T16
#[tokio::test]
async fn killed_at_every_step_and_started_again_on_sqlite() {
    matrix(Backend::SqliteFile, false).await;
}

// req: GATE-007, PAY-005
// attack: T2, T16
#[tokio::test]
async fn killed_at_every_step_and_started_again_on_postgres() {
    matrix(Backend::Postgres, false).await;
}

// req: GATE-007
// attack: T2, T16
#[tokio::test]
async fn killed_while_a_foreign_node_has_the_transaction() {
    matrix(Backend::SqliteFile, true).await;
}

// req: GATE-007, PAY-005
// attack: T2, T13, T16
#[tokio::test]
async fn killed_while_a_facilitator_settles_and_started_again_on_sqlite() {
    facilitators(Backend::SqliteFile).await;
}

// req: GATE-007, PAY-005
// attack: T2, T13, T16
#[tokio::test]
async fn killed_while_a_facilitator_settles_and_started_again_on_postgres() {
    facilitators(Backend::Postgres).await;
}

async fn facilitators(backend: Backend) {
    let mut cases = Vec::new();
    for (at, kill) in FACILITATOR.into_iter().enumerate() {
        for (settle_first, announces) in [(false, false), (false, true), (true, false), (true, true)] {
            if settle_first && kill == Kill::At(Point::Answered) {
                continue;
            }
            let is_bound = (at % 2 == 0) != (backend == Backend::Postgres);
            cases.push(Case { kill, by: By::Facilitator { announces }, settle_first, is_bound, backend, on_anvil: false });
        }
    }
    futures_util::stream::iter(cases.into_iter().map(run)).buffer_unordered(4).collect::<Vec<_>>().await;
}

/// A facilitator that is believed without a node: nothing but the store can tell later that it has settled, so the store knows before the
/// caller does.
// req: GATE-007
// attack: T2, T16
#[tokio::test]
async fn killed_after_an_answer_that_no_node_can_confirm() {
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let (node, Some(place)) = (Node::ours().await, TestStore::new(backend).await) else { continue };
        node.mint(payer().address(), FUNDS).await;
        let (ground, service) = (Ground::new(), Service::start(own_key(&node.chain, 7)).await);
        let mut plan = ground.plan(&place.setting, &node.url, 5);
        (plan.facilitator, plan.has_node, plan.stop_at) = (Some(service.url()), false, Some(Point::Answered));
        let server = Process::start(&plan).await;
        let challenges = post(server.at, PATH, &[], &json!({})).await.challenges();
        let (payment, secret) = (paid(&challenges, Version::V2, authorization()), fresh().to_string());
        let headers = [(Version::V2.payment_header(), payment.as_str()), ("X-Tool-Retry-Token", secret.as_str())];
        let answer = post(server.at, PATH, &headers, &two_words()).await;
        assert_eq!((answer.status, answer.has_output()), (200, true), "{backend:?}: {answer:?}");
        server.kill().await;
        plan.stop_at = None;
        let mut server = Process::start(&plan).await;
        ground.set_offset(LEASE_OVER);
        server.reconcile().await;
        let again = post(server.at, PATH, &headers, &two_words()).await;
        assert_eq!((again.status, &again.body), (200, &answer.body), "{backend:?}: {again:?}");
        assert_eq!((node.balance(recipient()).await, ground.runs()), (PRICE, 1), "{backend:?}: once");
        server.kill().await;
    }
}

async fn matrix(backend: Backend, on_anvil: bool) {
    let mut cases = Vec::new();
    for (settle_first, kills) in [(false, &SETTLE_AFTER[..]), (true, &SETTLE_FIRST[..])] {
        for (at, kill) in kills.iter().enumerate() {
            let moves = matches!(
                kill,
                Kill::BeforeBroadcast | Kill::AfterBroadcast | Kill::At(Point::Begun | Point::Settled | Point::Answered)
            );
            if on_anvil && !moves {
                continue;
            }
            // Both proofs for each step, one on each engine.
            let is_bound = (at % 2 == 0) != (backend == Backend::Postgres);
            cases.push(Case { kill: *kill, by: By::OwnKey, settle_first, is_bound, backend, on_anvil });
        }
    }
    futures_util::stream::iter(cases.into_iter().map(run)).buffer_unordered(4).collect::<Vec<_>>().await;
}

async fn run(case: Case) {
    let node = if case.on_anvil { Node::anvil().await } else { Some(Node::ours().await) };
    let (Some(node), Some(place)) = (node, TestStore::new(case.backend).await) else { return };
    node.mint(payer().address(), FUNDS).await;
    let ground = Ground::new();
    let charged = async || {
        let money = loop {
            let money = (node.balance(recipient()).await, node.balance(payer().address()).await);
            // A node that mines between the two reads has changed the first.
            if node.balance(recipient()).await == money.0 {
                break money;
            }
        };
        let times = money.0 / PRICE;
        assert_eq!(money, (times * PRICE, FUNDS - times * PRICE), "{case:?}: to the unit");
        times
    };

    // A server that stops where it should be killed, on a node that may hold its transaction back.
    let (told, mut held) = unbounded_channel();
    let holds = Arc::new(AtomicBool::new(true));
    let judge = {
        let holds = holds.clone();
        move |body: &str| match case.kill {
            Kill::BeforeBroadcast if body.contains("eth_sendRawTransaction") && holds.load(Ordering::SeqCst) => {
                Fate::Hold(told.clone())
            }
            Kill::AfterBroadcast if body.contains("eth_sendRawTransaction") && holds.load(Ordering::SeqCst) => {
                Fate::HoldAnswer(told.clone())
            }
            _ => Fate::Pass,
        }
    };
    let mut plan = ground.plan(&place.setting, &between(&node.url, judge).await, 5);
    plan.settle_first = case.settle_first;
    let service = match case.by {
        By::OwnKey => None,
        By::Facilitator { announces: true } => Some(Service::start(own_key(&node.chain, 7)).await),
        By::Facilitator { announces: false } => Some(Service::without_signers(own_key(&node.chain, 7)).await),
    };
    plan.facilitator = service.as_ref().map(Service::url);
    if let Kill::At(point) = case.kill {
        plan.stop_at = Some(point);
    }
    let mut server = Process::start(&plan).await;
    let challenges = post(server.at, PATH, &[], &json!({})).await.challenges();
    let (bound, token) = (Bound::to(PATH, &two_words()), fresh().to_string());
    let nonce = if case.is_bound { bound.nonce } else { fresh() };
    let version = if case.settle_first { Version::V1 } else { Version::V2 };
    let payment = paid(&challenges, version, Authorization { nonce, ..authorization() });
    let proof = if case.is_bound { bound.headers() } else { vec![("X-Tool-Retry-Token", token.as_str())] };
    let mut connection = Connection::open(server.at).await;
    let mut headers: Vec<(&str, &[u8])> = vec![(version.payment_header(), payment.as_bytes())];
    headers.extend(proof.iter().map(|(name, value)| (*name, value.as_bytes())));
    connection.write("POST", PATH, &headers, two_words().to_string().as_bytes()).await;
    match case.kill {
        Kill::At(_) => server.stopped().await,
        _ => held.recv().await.expect("the transaction comes"),
    }
    if !case.settle_first && matches!(case.kill, Kill::At(Point::Answered | Point::Recorded)) {
        let heard = connection.read(false).await.expect("the answer is sent before the receipt is written down");
        assert_eq!((heard.status, heard.has_output()), (200, true), "{case:?}");
        server.kill().await;
    } else {
        server.kill().await;
        assert!(connection.read(false).await.is_none(), "{case:?}: the caller has heard nothing");
    }
    holds.store(false, Ordering::SeqCst);
    let runs = ground.runs();

    if case.kill == Kill::AfterBroadcast {
        // Anvil answers before it mines.
        let began = Instant::now();
        while charged().await == 0 {
            assert_not_hung(began, "mining");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let moved = charged().await;
    let should_have =
        matches!(case.kill, Kill::AfterBroadcast | Kill::At(Point::Settled | Point::Answered | Point::Recorded | Point::Kept))
            || (case.settle_first && matches!(case.kill, Kill::At(Point::Handling | Point::Handled)));
    assert_eq!(moved, u64::from(should_have), "{case:?}");
    let is_open = matches!(case.kill, Kill::At(Point::Begun) | Kill::BeforeBroadcast);

    // Restarted at once: no other call may use what the dead process had reserved.
    plan.stop_at = None;
    let mut server = Process::start(&plan).await;
    let ask = async |to, payment: &str, headers: &[(&str, &str)]| {
        let mut all = vec![(version.payment_header(), payment)];
        all.extend_from_slice(headers);
        post(to, PATH, &all, &two_words()).await
    };
    if case.kill != Kill::At(Point::BeforeReserve) {
        let answer = ask(server.at, &payment, if case.is_bound { &proof } else { &[] }).await;
        // Where the chain or the store knows already, the payer may be served.
        let may_be_served = case.is_bound && should_have;
        assert!(answer.status == 409 || (may_be_served && answer.status == 200), "{case:?}: {answer:?}");
        assert_eq!(charged().await, moved);
    }

    // When its leases are over, it is looked up.
    ground.set_offset(LEASE_OVER);
    node.later(LEASE_OVER).await;
    server.reconcile().await;
    if should_have {
        // An attacker that rebuilt it from the chain's data has neither salt nor token.
        let answer = ask(server.at, &payment, &[]).await;
        let code = if case.is_bound { (402, "payment.salt_missing") } else { (409, "payment.replayed") };
        assert_eq!((answer.verdict(), answer.has_output()), ((code.0, code.1.to_owned()), false), "{case:?}");
        let wrong = fresh().to_string();
        let guess = if case.is_bound {
            vec![("X-Tool-Nonce-Salt", wrong.as_str()), proof[1]]
        } else {
            vec![("X-Tool-Retry-Token", wrong.as_str())]
        };
        let answer = ask(server.at, &payment, &guess).await;
        assert!(matches!(answer.status, 402 | 409) && !answer.has_output(), "{case:?}: {answer:?}");
    } else if case.is_bound {
        let answer = ask(server.at, &payment, &[]).await;
        assert_eq!((answer.verdict(), answer.has_output()), ((402, "payment.salt_missing".to_owned()), false), "{case:?}");
    }
    if is_open {
        // It still could settle, so it is neither served nor asked for again.
        let answer = ask(server.at, &payment, &proof).await;
        assert_eq!(
            (answer.verdict(), answer.has_output()),
            ((502, "settlement.unknown".to_owned()), false),
            "{case:?}: {answer:?}"
        );
        ground.set_offset(LEASE_OVER + 330);
        node.later(330).await;
        server.reconcile().await;
        let answer = ask(server.at, &payment, &proof).await;
        assert_eq!((answer.verdict(), answer.has_output()), ((402, "payment.expired".to_owned()), false), "{case:?}: {answer:?}");
        assert_eq!(charged().await, 0);
        let signed = Authorization { valid_before: authorization().valid_before + LEASE_OVER as u64 + 330, ..authorization() };
        let answer = ask(server.at, &paid(&challenges, version, signed), &[]).await;
        assert_eq!((answer.status, answer.has_output()), (200, true), "{case:?}: paid anew: {answer:?}");
    } else {
        let mut answer = ask(server.at, &payment, &proof).await;
        if case.settle_first && answer.status == 409 {
            // The last look-up holds the payment for half a minute.
            assert_eq!(answer.verdict().1, "payment.pending");
            ground.set_offset(LEASE_OVER + 31);
            answer = ask(server.at, &payment, &proof).await;
        }
        assert_eq!((answer.status, answer.has_output()), (200, true), "{case:?}: {answer:?}");
        assert!(answer.receipt(version).success);
        let again = ask(server.at, &payment, &proof).await;
        assert_eq!((again.status, &again.body), (200, &answer.body), "{case:?}");
    }
    assert_eq!(charged().await, 1, "{case:?}: once, and no more");
    // A handler runs again only where nothing was kept of what it made.
    let rerun = match case.kill {
        Kill::At(Point::Handled | Point::Handling) => 1,
        Kill::At(Point::Begun) | Kill::BeforeBroadcast if !case.settle_first => 1,
        _ => 0,
    };
    assert_eq!(ground.runs(), 1 + rerun, "{case:?}: {runs} before");
    let counts = place.store(Limits::default()).await.counts().await.expect("the store answers");
    assert_eq!(
        (counts.reserved, counts.settling, counts.unknown, counts.settled),
        (0, 0, 0, 1),
        "{case:?}: nothing is left open"
    );
    server.kill().await;
}
