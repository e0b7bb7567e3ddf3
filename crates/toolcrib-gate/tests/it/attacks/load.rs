//! Thousands of calls, one in twenty of which meets a fault, and books that agree to the unit in the end.
//!
//! `./test` makes 5,000 calls. For 100,000:
//!
//! ```text
//! TOOLCRIB_CALLS=100000 cargo test --release -p toolcrib-gate --test it attacks::load -- --nocapture
//! ```
//!
//! `TOOLCRIB_SEED` repeats the faults of another run as far as the order of requests allows, and `TOOLCRIB_LOAD_STORE` chooses
//! `memory`, `sqlite` or `postgres`. Payments come in both versions, bound and not, to a tool that settles with a key of its own, one
//! that settles through a facilitator, and one that settles before its handler runs. What goes wrong: the facilitator says 500, before or after it has settled, does not
//! answer, or is cut off; the node fails, loses requests, or loses answers; callers hang up; payments are sent twice.

use std::collections::HashMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, U256, keccak256};
use alloy_provider::Provider;
use alloy_rpc_types_eth::Filter;
use alloy_signer_local::PrivateKeySigner;
use alloy_sol_types::SolEvent;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use toolcrib_chain::abi::IEIP3009::{AuthorizationUsed, Transfer};
use toolcrib_chain::rpc::Retries;
use toolcrib_gate::{Facilitator, PaidGate, Tools};
use toolcrib_store::replay::{Limits, ReplayStore, State};
use toolcrib_x402::{Authorization, Challenge, ReplayKey, Version};

use super::chain::{Node, PRICE, connect_with, domain, recipient, token};
use super::facilitator::{Service, Spoil};
use super::http::{Connection, HttpResponse, post};
use super::payer::{Bound, authorization_of, fresh, header, sign};
use super::proxy::{Fate, between};
use super::shop::{Hook, LEASE_OVER, Moving, ORIGIN, OTHER_PATH, PATH, own_key, rates, tool};
use toolcrib_testkit::databases::{Backend, TestStore};

/// The tool that settles before its handler runs.
const FIRST_PATH: &str = "/first-count";

/// All tools: with the operator's key, through a facilitator, and before the handler runs.
const PATHS: [&str; 3] = [PATH, OTHER_PATH, FIRST_PATH];

/// Callers at the same time.
const WORKERS: usize = 24;

/// Accounts that pay.
const PAYERS: usize = 32;

/// What each of them has.
const FUNDS: u64 = 100_000_000_000;

/// Faults in ten thousand. A call asks a node some twelve times, so one in two hundred of those is one in twenty calls.
const NODE_FAULTS: u64 = 50;
const FACILITATOR_FAULTS: u64 = 500;
const CALLER_FAULTS: u64 = 500;

/// Numbers that look random and are the same for the same seed.
#[derive(Clone)]
struct Dice(Arc<AtomicU64>);

impl Dice {
    fn roll(&self) -> u64 {
        let mut x = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Returns one of `of`, with this probability in ten thousand.
    fn fault<T: Clone>(&self, in_ten_thousand: u64, of: &[T]) -> Option<T> {
        let roll = self.roll();
        (roll % 10_000 < in_ten_thousand).then(|| of[(roll >> 32) as usize % of.len()].clone())
    }
}

/// What went wrong, counted.
#[derive(Default)]
struct Wrong {
    node: AtomicUsize,
    facilitator: AtomicUsize,
    hung_up: AtomicUsize,
    doubled: AtomicUsize,
}

/// One call, as the caller has it in its books.
#[derive(Clone)]
struct Record {
    path: &'static str,
    version: Version,
    payment: String,
    proof: Vec<(&'static str, String)>,
    input: Value,
    key: ReplayKey,
    statuses: Vec<u16>,
    /// The transaction of the receipt that came with the output.
    served: Option<String>,
}

impl Record {
    fn headers(&self) -> Vec<(&str, &[u8])> {
        let mut headers: Vec<(&str, &[u8])> = vec![(self.version.payment_header(), self.payment.as_bytes())];
        headers.extend(self.proof.iter().map(|(name, value)| (*name, value.as_bytes())));
        headers
    }

    /// Writes down what came back.
    fn note(&mut self, answer: &HttpResponse) {
        assert!([200, 402, 409, 502, 503].contains(&answer.status), "{answer:?}");
        assert_eq!(answer.has_output(), answer.status == 200, "{answer:?}");
        self.statuses.push(answer.status);
        if let Some(token) = answer.header("x-tool-retry-token") {
            assert!(self.proof.is_empty(), "whoever has a proof gets no other");
            self.proof = vec![("X-Tool-Retry-Token", token.to_owned())];
        }
        if answer.status == 200 {
            assert_eq!(answer.json()["text"], self.input["text"], "the output of this very call");
            let transaction = answer.receipt(self.version).transaction;
            assert!(self.served.as_ref().is_none_or(|known| *known == transaction));
            self.served = Some(transaction);
        }
    }
}

struct World {
    at: SocketAddr,
    challenges: HashMap<&'static str, [Challenge; 2]>,
    payers: Vec<PrivateKeySigner>,
    dice: Dice,
    wrong: Arc<Wrong>,
}

impl World {
    fn record(&self, number: usize) -> Record {
        let signer = &self.payers[number % PAYERS];
        let path = PATHS[number / 2 % 3];
        let version = [Version::V1, Version::V2][number % 2];
        let input = json!({"text": format!("call number {number}")});
        let (nonce, proof) = match number / 6 % 4 {
            0 | 1 => {
                let bound = Bound::to(path, &input);
                (bound.nonce, bound.headers.to_vec())
            }
            // A token of the caller's own, or that of the answer.
            2 => (fresh(), vec![("X-Tool-Retry-Token", fresh().to_string())]),
            _ => (fresh(), Vec::new()),
        };
        let signed = Authorization { nonce, ..authorization_of(signer.address()) };
        let challenges = &self.challenges[path];
        let payment = header(challenges, version, signed, sign(signer, &signed, &domain()));
        let key = ReplayKey::of(&signed, &challenges[1].accepts[0]).expect("a key");
        Record { path, version, payment, proof, input, key, statuses: Vec::new(), served: None }
    }

    async fn call(&self, connection: &mut Connection, number: usize) -> Record {
        let mut record = self.record(number);
        let body = record.input.to_string();
        let fault = self.dice.fault(CALLER_FAULTS, &[true, false]);
        // A caller that waits for the response's token does not disconnect.
        let hangs_up = fault == Some(true) && !record.proof.is_empty();
        if hangs_up {
            self.wrong.hung_up.fetch_add(1, Ordering::Relaxed);
            connection.write("POST", record.path, &record.headers(), body.as_bytes()).await;
            tokio::time::sleep(Duration::from_millis(self.dice.roll() % 60)).await;
            *connection = Connection::open(self.at).await;
            return record;
        }
        if fault == Some(false) {
            self.wrong.doubled.fetch_add(1, Ordering::Relaxed);
            let mut other = Connection::open(self.at).await;
            let headers = record.headers();
            let ask = async |connection: &mut Connection| {
                connection.write("POST", record.path, &headers, body.as_bytes()).await;
                connection.read(false).await.expect("an answer")
            };
            let (one, two) = tokio::join!(ask(connection), ask(&mut other));
            let outputs = usize::from(one.has_output()) + usize::from(two.has_output());
            // Both may come from the one run, if the second came after it with the proof.
            assert!(outputs <= 1 || !record.proof.is_empty());
            for answer in [&one, &two] {
                record.note(answer);
            }
            return record;
        }
        // What could not be settled for a reason that passes is tried again with the same payment.
        for _ in 0..3 {
            connection.write("POST", record.path, &record.headers(), body.as_bytes()).await;
            let answer = connection.read(false).await.expect("an answer");
            record.note(&answer);
            let code = if answer.status == 200 { String::new() } else { answer.verdict().1 };
            if code != "settlement.unavailable" {
                break;
            }
        }
        record
    }
}

// req: GATE-007, PAY-005
// attack: T1, T13, T16
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_books_agree_after_a_day_of_faults() {
    let calls: usize = std::env::var("TOOLCRIB_CALLS").map_or(5_000, |text| text.parse().expect("a number of calls"));
    let seed: u64 = std::env::var("TOOLCRIB_SEED").map_or(20_261_115, |text| text.parse().expect("a seed"));
    let backend = match std::env::var("TOOLCRIB_LOAD_STORE").as_deref() {
        Ok("memory") => Backend::Memory,
        Ok("postgres") => Backend::Postgres,
        _ => Backend::SqliteFile,
    };
    let place = TestStore::new(backend).await.expect("a store");
    let store = place.store(Limits::default()).await;
    let node = Node::ours().await;
    let (dice, wrong, faulty) = (Dice(Arc::new(AtomicU64::new(seed))), Arc::<Wrong>::default(), Arc::new(AtomicBool::new(true)));

    // A node that fails now and then, for the server; the facilitator has a good one and spoils its own answers.
    let judge = {
        let (dice, wrong, faulty) = (dice.clone(), wrong.clone(), faulty.clone());
        move |_: &str| {
            let fate =
                dice.fault(NODE_FAULTS, &[Fate::Fail, Fate::Lose, Fate::LoseAnswer]).filter(|_| faulty.load(Ordering::Relaxed));
            wrong.node.fetch_add(usize::from(fate.is_some()), Ordering::Relaxed);
            fate.unwrap_or(Fate::Pass)
        }
    };
    let retries = Retries { attempts: 2, first_pause: Duration::from_millis(10), longest_pause: Duration::from_millis(20) };
    let flaky = connect_with(&between(&node.url, judge).await, retries).await;
    let spoiler = {
        let (dice, wrong) = (dice.clone(), wrong.clone());
        move |_| {
            let spoil = dice.fault(FACILITATOR_FAULTS / 2, &[Spoil::Refuse, Spoil::Hide, Spoil::Hang, Spoil::Cut]);
            wrong.facilitator.fetch_add(usize::from(spoil.is_some()), Ordering::Relaxed);
            spoil
        }
    };
    let service = Service::spoilt(own_key(&node.chain, 7), spoiler).await;
    let facilitator = Facilitator::from_setting(&service.url()).expect("a URL").confirm_with([flaky.clone()]);
    let facilitator = facilitator.settle_time(Duration::from_secs(3)).verify_time(Duration::from_secs(3));

    let (runs, clock) = (Arc::new(Mutex::new(HashMap::<String, u32>::new())), Moving::default());
    let hook: Hook = {
        let runs = runs.clone();
        Arc::new(move |text| {
            *runs.lock().expect("no panic").entry(text).or_default() += 1;
            Box::pin(async { Ok(()) })
        })
    };
    let tools = Tools::new(ORIGIN).shared_store(store.clone()).clock(clock.clone()).rates(rates());
    let tools = tools.tool(tool(PATH, PRICE, PaidGate::new(Arc::new(own_key(&flaky, 5))), hook.clone()));
    let tools = tools.tool(tool(FIRST_PATH, PRICE, PaidGate::new(Arc::new(own_key(&flaky, 6))).settle_first(), hook.clone()));
    let server = tools.tool(tool(OTHER_PATH, PRICE, PaidGate::new(Arc::new(facilitator)), hook)).build().expect("sound settings");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let at = listener.local_addr().expect("bound");
    tokio::spawn(server.clone().serve(listener, std::future::pending()));

    let payers: Vec<_> =
        (0..PAYERS).map(|at| PrivateKeySigner::from_bytes(&keccak256([at as u8, 0x8e])).expect("a key")).collect();
    for payer in &payers {
        node.mint(payer.address(), FUNDS).await;
    }
    let mut challenges = HashMap::new();
    for path in PATHS {
        challenges.insert(path, post(at, path, &[], &json!({})).await.challenges());
    }
    let world = Arc::new(World { at, challenges, payers, dice, wrong });

    let begun = Instant::now();
    let next = Arc::new(AtomicUsize::new(0));
    let workers = (0..WORKERS).map(|_| {
        let (world, next) = (world.clone(), next.clone());
        tokio::spawn(async move {
            let (mut connection, mut records) = (Connection::open(world.at).await, Vec::new());
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= calls {
                    return records;
                }
                records.push(world.call(&mut connection, number).await);
            }
        })
    });
    let records: Vec<Record> = join_all(workers).await.into_iter().flat_map(|records| records.expect("no panic")).collect();
    let called = begun.elapsed();
    assert_eq!(records.len(), calls);

    // Evening: what is under way ends, what is open is looked up, what never can be is forgotten.
    faulty.store(false, Ordering::Relaxed);
    settle_the_rest(&node, &clock, &*store, async || _ = server.reconcile().await).await;
    // The last look-up holds a payment for half a minute.
    clock.later(31);
    let wrong = &world.wrong;
    let seen = [&wrong.node, &wrong.facilitator, &wrong.hung_up, &wrong.doubled].map(|count| count.load(Ordering::Relaxed));
    let runs = runs.lock().expect("no panic").clone();
    let charged = audit(&node, &*store, &world, records, &runs).await;
    let total = begun.elapsed();
    let _ = writeln!(
        std::io::stderr(),
        "\n{calls} calls on {backend:?} in {called:.1?}, audited after {total:.1?}: {charged} charged; faults of the node {}, of the \
         facilitator {}, callers that hung up {}, payments sent twice {}; seed {seed}",
        seen[0],
        seen[1],
        seen[2],
        seen[3],
    );
    assert!(seen.into_iter().sum::<usize>() * 20 >= calls, "one call in twenty met a fault: {seen:?}");
}

/// Moves the time on until no payment is open.
async fn settle_the_rest(node: &Node, clock: &Moving, store: &dyn ReplayStore, reconcile: impl AsyncFn()) {
    let open = async || {
        let counts = store.counts().await.expect("the store answers");
        (counts.reserved, counts.settling + counts.unknown)
    };
    // Calls of callers who hung up end by themselves.
    for _ in 0..600 {
        if open().await.0 == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for seconds in [LEASE_OVER, 330] {
        clock.later(seconds);
        node.later(seconds).await;
        for _ in 0..1_000 {
            let before = open().await.1;
            reconcile().await;
            // Open payments were just checked, and are skipped for a while.
            if open().await.1 == before {
                break;
            }
        }
    }
    for _ in 0..100 {
        if open().await == (0, 0) {
            return;
        }
        reconcile().await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        clock.later(31);
        node.later(31).await;
    }
    panic!("still open: {:?}", store.unknowns(10).await);
}

/// Store, chain and callers agree to the unit. Gives how many payments were charged.
async fn audit(node: &Node, store: &dyn ReplayStore, world: &World, records: Vec<Record>, runs: &HashMap<String, u32>) -> usize {
    let used = used(node).await;
    let money = U256::from(used.len()) * U256::from(PRICE);
    assert_eq!(U256::from(node.balance(recipient()).await), money, "what the recipient has");
    for payer in &world.payers {
        let paid = used.keys().filter(|(from, _)| *from == payer.address()).count() as u64;
        assert_eq!(node.balance(payer.address()).await, FUNDS - paid * PRICE, "what a payer has");
    }
    let counts = store.counts().await.expect("the store answers");
    assert_eq!((counts.settled, counts.entries()), (used.len() as u64, used.len() as u64), "what the store has");
    let charged = |record: &Record| used.get(&(record.key.from, record.key.nonce));
    assert_eq!(records.iter().filter(|record| charged(record).is_some()).count(), used.len(), "nobody else paid");
    let served = records.iter().filter(|record| record.served.is_some()).count();
    assert!(served <= used.len());
    let (records, next) = (Arc::new(records), Arc::new(AtomicUsize::new(0)));
    let (used, redeemed) = (&used, &AtomicUsize::new(0));
    let clerks = (0..WORKERS).map(|_| {
        let (records, next) = (records.clone(), next.clone());
        async move {
            let mut connection = Connection::open(world.at).await;
            while let Some(record) = records.get(next.fetch_add(1, Ordering::Relaxed)) {
                let what = format!("{} {:?} {:?}", record.input, record.statuses, record.key);
                let ran = runs.get(record.input["text"].as_str().expect("text")).copied().unwrap_or_default();
                let transaction = used.get(&(record.key.from, record.key.nonce));
                let entry = store.entry(&record.key).await.expect("the store answers");
                let body = record.input.to_string();
                connection.write("POST", record.path, &record.headers(), body.as_bytes()).await;
                let answer = connection.read(false).await.expect("an answer");
                match transaction {
                    Some(transaction) => {
                        let entry = entry.unwrap_or_else(|| panic!("{what}: charged, and the store does not know"));
                        assert_eq!(entry.state, State::Settled, "{what}");
                        assert_eq!(entry.receipt.map(|receipt| receipt.transaction), Some(*transaction), "{what}");
                        assert!(record.served.as_ref().is_none_or(|served| *served == transaction.to_string()), "{what}");
                        assert!(ran >= 1 || record.path == FIRST_PATH, "{what}: charged for nothing");
                        assert!(!record.proof.is_empty(), "{what}: charged, and never told how to come back");
                        assert_eq!((answer.status, answer.has_output()), (200, true), "{what}: {answer:?}");
                        assert_eq!(answer.json()["text"], record.input["text"], "{what}");
                        assert_eq!(answer.receipt(record.version).transaction, transaction.to_string(), "{what}");
                        redeemed.fetch_add(1, Ordering::Relaxed);
                    }
                    None => {
                        assert!(entry.is_none() && record.served.is_none(), "{what}: served for nothing");
                        assert_eq!((answer.status, answer.has_output()), (402, false), "{what}: {answer:?}");
                    }
                }
            }
        }
    });
    join_all(clerks).await;
    assert_eq!(redeemed.load(Ordering::Relaxed), used.len(), "every payer who was charged has its result");
    used.len()
}

/// All uses of authorizations on the chain, each of them followed by one transfer of the price.
async fn used(node: &Node) -> HashMap<(Address, B256), B256> {
    /// Few enough that a node gives all logs at once.
    const BLOCKS: u64 = 5_000;
    let newest = node.chain.block_number().await.expect("an answer");
    let (mut used, mut transfers) = (HashMap::new(), 0);
    let mut from = 0;
    while from <= newest {
        let filter = Filter::new().address(token().address).from_block(from).to_block(newest.min(from + BLOCKS - 1));
        let logs = node.chain.provider().get_logs(&filter).await.expect("an answer");
        for log in &logs {
            if let Ok(event) = AuthorizationUsed::decode_log_validate(&log.inner) {
                let before = used.insert((event.authorizer, event.nonce), log.transaction_hash.expect("mined"));
                assert_eq!(before, None, "a nonce is used once");
            } else if let Ok(event) = Transfer::decode_log_validate(&log.inner)
                && event.to == recipient()
            {
                assert_eq!(event.value, U256::from(PRICE));
                transfers += 1;
            }
        }
        from += BLOCKS;
    }
    assert_eq!(transfers, used.len());
    used
}
