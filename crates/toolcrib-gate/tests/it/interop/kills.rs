//! Our gate is killed at random moments while stock clients pay, and started again on the same store.
//!
//! Stock clients do not retry. Their application has what it sent: it sends the same payment again, with what proves that it is the
//! payer: a retry token of its own, or the id of the extension `payment-identifier` where the gate offers that. In the end every payer
//! who was charged has a result, nobody was charged twice for a call, and nobody has a result without having paid.

use std::time::Duration;

use alloy_primitives::{B256, U256, keccak256};
use alloy_sol_types::SolCall as _;
use futures_util::future::join_all;
use serde_json::json;
use toolcrib_chain::abi::IEIP3009;
use toolcrib_chain::rpc::{BoundedCall, CallOutcome};
use toolcrib_store::replay::Limits;

use super::recorder::{CALL, Recorder};
use super::world::key;
use crate::attacks::chain::{Node, PRICE, recipient, token};
use crate::attacks::http::{HttpResponse, post};
use crate::attacks::payer::{fresh, opened, payer};
use crate::attacks::process::{Ground, Plan, Process};
use crate::attacks::shop::{LEASE_OVER, PATH, two_words};
use toolcrib_testkit::databases::{Backend, TestStore};
use toolcrib_testkit::x402_peers::{Called, Paying, Peers};

/// Kills of one test, half of them with each way of settling. `TOOLCRIB_KILLS` is the number of kills of both tests.
const KILLS: u64 = 4;

/// Kills with each way of settling from which on every kind of loss should have come.
const MANY: u64 = 12;

/// How long after the first payment of a round a kill comes at most, before it is known how long payments take.
const WINDOW: Duration = Duration::from_millis(300);

/// Longest wait for the first payment of a round.
const PATIENCE: Duration = Duration::from_secs(180);

/// Clients that pay at the same time: one of each version and language.
const CLIENTS: usize = 3;

/// For how long authorizations of stock clients are good.
const VALID_SECONDS: i64 = 300;

/// What is moved by a server that was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SettlementKind {
    Facilitator,
    OwnKey,
}

/// A call of a stock client.
struct Made {
    client: &'static str,
    id: String,
    /// What proves possession, if it is not the payment's id.
    token: Option<String>,
    called: Called,
    /// Whether it has had its result at some time.
    is_served: bool,
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    kills: u64,
    calls: u64,
    /// Calls that ended before a payment was sent.
    unsent: u64,
    /// Calls whose client had its result from the gate that was killed later.
    served_first: u64,
    /// Calls whose result was fetched after a restart.
    redeemed: u64,
    /// Those of them that had nothing but the payment and its id.
    redeemed_by_id: u64,
    charged: u64,
    /// Calls whose payment was neither charged nor served, and expired.
    expired: u64,
    charged_without_result: u64,
    result_without_charge: u64,
    charged_twice: u64,
}

// req: GATE-007
// attack: T2, T16
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stock_clients_lose_nothing_when_the_gate_is_killed_on_sqlite() {
    kills(Backend::SqliteFile).await;
}

// req: GATE-007
// attack: T2, T16
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stock_clients_lose_nothing_when_the_gate_is_killed_on_postgres() {
    kills(Backend::Postgres).await;
}

#[expect(clippy::print_stdout, reason = "the counts are worth knowing")]
async fn kills(backend: Backend) {
    let Some(peers) = Peers::find() else { return };
    let asked = std::env::var("TOOLCRIB_KILLS").ok().and_then(|text| text.parse::<u64>().ok());
    let count = asked.map_or(KILLS, |count| count.div_ceil(2)).max(2);
    for (way, count) in [(SettlementKind::Facilitator, count.div_ceil(2)), (SettlementKind::OwnKey, count / 2)] {
        let (Some(node), Some(place)) = (Node::anvil().await, TestStore::new(backend).await) else { return };
        let tally = Lane::start(&peers, node, place, way).await.run(count).await;
        println!("{backend:?}, {way:?}: {tally:?}");
        assert_eq!((tally.charged_without_result, tally.result_without_charge, tally.charged_twice), (0, 0, 0), "{way:?}");
        assert_eq!(tally.charged, tally.served_first + tally.redeemed, "{way:?}: charged and redeemable");
        assert_eq!(tally.calls, tally.charged + tally.expired + tally.unsent, "{way:?}: every call has an end");
        assert_eq!(tally.kills, count, "{way:?}");
        // In turn a client has a token of its own, or nothing but the id of its payment.
        assert!(
            count < MANY || tally.redeemed_by_id > 0,
            "{way:?}: some of {count} kills leave a stock client with nothing but its id"
        );
    }
}

/// A store, a chain, a way to settle, and clients.
struct Lane {
    node: Node,
    place: TestStore,
    ground: Ground,
    plan: Plan,
    recorder: Recorder,
    clients: Vec<Paying>,
    made: Vec<Made>,
    tally: Tally,
    random: u64,
    _facilitator: Option<toolcrib_testkit::x402_peers::Server>,
}

impl Lane {
    async fn start(peers: &Peers, node: Node, place: TestStore, way: SettlementKind) -> Self {
        let ground = Ground::new();
        let mut plan = ground.plan(&place.setting, &node.url, 5);
        let facilitator = match way {
            SettlementKind::Facilitator => Some(peers.facilitator(&node.url, key(7)).await),
            SettlementKind::OwnKey => None,
        };
        plan.facilitator = facilitator.as_ref().map(toolcrib_testkit::x402_peers::Server::url);
        let clients = join_all(peers.clients().into_iter().take(CLIENTS).map(|client| client.start(key(1)))).await;
        let random = u64::from_be_bytes(fresh()[..8].try_into().expect("eight bytes"));
        let (recorder, tally) = (Recorder::start().await, Tally::default());
        Self { node, place, ground, plan, recorder, clients, made: Vec::new(), tally, random, _facilitator: facilitator }
    }

    async fn run(mut self, kills: u64) -> Tally {
        self.node.mint(payer().address(), kills * CLIENTS as u64 * PRICE).await;
        for round in 0..kills {
            // Both orders.
            self.plan.settle_first = round % 2 == 1;
            self.round(round).await;
        }
        self.expire().await;
        self.count().await;
        self.tally
    }

    /// Clients pay, the gate is killed, started again, and asked for what is missing.
    async fn round(&mut self, round: u64) {
        let server = Process::start(&self.plan).await;
        self.recorder.set(server.at);
        // What stock clients of version 2 can recover by: only a gate that offers the extension gets an id.
        let challenge = post(server.at, PATH, &[], &json!({})).await;
        let takes_ids = challenge
            .header("payment-required")
            .is_some_and(|text| opened(text)["extensions"].get("payment-identifier").is_some());
        // A little longer than payments take, so that kills come at every moment of them.
        let window = self.recorder.took().map_or(WINDOW, |took| took * 5 / 4).as_micros();
        let delay = Duration::from_micros(self.next() % u64::try_from(window).expect("short"));
        let mut arrivals = self.recorder.arrivals();
        let killed = async {
            tokio::time::timeout(PATIENCE, arrivals.changed()).await.expect("somebody pays").expect("it records");
            tokio::time::sleep(delay).await;
            server.kill().await;
        };
        let url = format!("http://{}{PATH}", self.recorder.at);
        let calls = join_all(self.clients.iter_mut().zip(round..).map(|(paying, turn)| {
            let (url, id) = (url.clone(), format!("pay_{}", &fresh().to_string()[2..34]));
            // Both proofs, in turn.
            let token = (turn.is_multiple_of(2) || !takes_ids || paying.client.version == 1).then(|| fresh().to_string());
            async move {
                let mut headers = vec![(CALL, id.clone())];
                headers.extend(token.clone().map(|token| ("x-tool-retry-token", token)));
                let called = paying.call(&url, &two_words(), &headers, &id).await;
                Made { client: paying.client.name, id, token, is_served: called.status == 200, called }
            }
        }));
        let (mut made, ()) = futures_util::future::join(calls, killed).await;
        self.tally.kills += 1;
        self.tally.served_first += made.iter().filter(|made| made.is_served).count() as u64;

        // Again at once, in some rounds, since a gate waits for what seems to be under way; when what the dead one had reserved is
        // free; and when whoever looked it up is done.
        let server = Process::start(&self.plan).await;
        let mut open: Vec<_> = made.iter_mut().filter(|made| !made.is_served).collect();
        for later in [0, LEASE_OVER, LEASE_OVER + 31] {
            if later == 0 && !self.tally.kills.is_multiple_of(4) {
                continue;
            }
            self.ground.set_offset(later);
            let answers = join_all(open.iter().map(|made| self.resend(&server, made))).await;
            let mut left = Vec::new();
            for (made, answer) in open.into_iter().zip(answers) {
                let Some(answer) = answer else { continue };
                assert!(answer.status == 200 || !answer.has_output(), "{}: {answer:?}", made.client);
                match answer.status {
                    200 => {
                        made.is_served = true;
                        self.tally.redeemed += 1;
                        self.tally.redeemed_by_id += u64::from(made.token.is_none());
                    }
                    // It was about to be sent when the gate was killed: only the chain can tell, when its time is over.
                    502 if later > 0 => {}
                    _ => left.push(made),
                }
            }
            open = left;
        }
        // What was given once is given again, wherever it came from.
        for made in made.iter().filter(|made| made.is_served) {
            let answer = self.resend(&server, made).await.expect("it was paid");
            assert_eq!((answer.status, answer.has_output()), (200, true), "{}: {answer:?}", made.client);
        }
        server.kill().await;
        self.ground.set_offset(0);
        self.made.extend(made);
    }

    /// Sends a payment again as it was sent; `None` if none was.
    async fn resend(&self, server: &Process, made: &Made) -> Option<HttpResponse> {
        let sent = self.recorder.of(&made.id).pop()?;
        let mut headers = vec![(sent.payment.0, sent.payment.1.as_str())];
        headers.extend(made.token.as_deref().map(|token| ("x-tool-retry-token", token)));
        Some(post(server.at, PATH, &headers, &two_words()).await)
    }

    /// Payments that were not sent to the chain come to their end: they expire, and are forgotten. Those that were sent late buy their
    /// result.
    async fn expire(&mut self) {
        let mut server = Process::start(&self.plan).await;
        self.node.later(VALID_SECONDS + 60).await;
        for step in 0..4 {
            self.ground.set_offset(LEASE_OVER + VALID_SECONDS + 60 + 31 * step);
            server.reconcile().await;
        }
        let mut all = std::mem::take(&mut self.made);
        for made in all.iter_mut().filter(|made| !made.is_served) {
            let Some(answer) = self.resend(&server, made).await else { continue };
            if answer.status == 200 && answer.has_output() {
                // It reached the chain after the last try, as when a slow facilitator was asked just before the kill.
                made.is_served = true;
                self.tally.redeemed += 1;
                self.tally.redeemed_by_id += u64::from(made.token.is_none());
                continue;
            }
            let verdict = (answer.verdict(), answer.has_output());
            assert_eq!(verdict, ((402, "payment.expired".to_owned()), false), "{}: {answer:?}", made.client);
        }
        self.made = all;
        server.kill().await;
        let counts = self.place.store(Limits::default()).await.counts().await.expect("the store answers");
        assert_eq!((counts.settling, counts.unknown), (0, 0), "nothing is left open");
    }

    /// The chain says what was charged.
    async fn count(&mut self) {
        for made in &self.made {
            let payments = self.recorder.of(&made.id);
            let mut charged = 0;
            for sent in &payments {
                let nonce = opened(&sent.payment.1)["payload"]["authorization"]["nonce"].clone();
                charged += u64::from(self.is_used(serde_json::from_value(nonce).expect("a nonce")).await);
            }
            self.tally.calls += 1;
            self.tally.charged += charged;
            self.tally.charged_twice += charged.saturating_sub(1);
            self.tally.unsent += u64::from(payments.is_empty());
            self.tally.expired += u64::from(!payments.is_empty() && charged == 0);
            self.tally.charged_without_result += u64::from(charged > 0 && !made.is_served);
            self.tally.result_without_charge += u64::from(charged == 0 && made.is_served);
            assert!(made.called.status == 200 || made.called.status == 0 || made.called.error.is_none(), "{:?}", made.called);
        }
        assert_eq!(self.node.balance(recipient()).await, self.tally.charged * PRICE, "to the unit");
    }

    async fn is_used(&self, nonce: B256) -> bool {
        let data = IEIP3009::authorizationStateCall { authorizer: payer().address(), nonce }.abi_encode().into();
        let call = BoundedCall { to: token().address, data, from: None, gas: None, max_bytes: 32 };
        match self.node.chain.call(&call).await.expect("an answer") {
            CallOutcome::Returned(bytes) => !U256::from_be_slice(&bytes).is_zero(),
            outcome => panic!("{outcome:?}"),
        }
    }

    /// The next number of a sequence that differs from run to run.
    fn next(&mut self) -> u64 {
        let hash = keccak256(self.random.to_be_bytes());
        self.random = u64::from_be_bytes(hash[..8].try_into().expect("eight bytes"));
        self.random
    }
}
