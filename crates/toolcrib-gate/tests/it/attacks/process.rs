//! Servers that are processes of their own, and can be killed.
//!
//! A child is this very program, started for one test that does nothing unless it is told what to serve. Where it should be killed it
//! stops, says so, and waits; the parent kills it with a signal that nothing can catch.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_core::finding::Finding;
use toolcrib_gate::{Due, Facilitator, Found, Journal, Outcome, PaidGate, Record, Settle, Tools, Verdict};
use toolcrib_store::replay::{
    Again, Counts, Entry, Limits, Receipt, Redeem, ReplayKey, ReplayStore, Reservation, Reserve, ResultRetention, Room,
    Settlement, SqlReplay, StoredResult, Ticket,
};
use toolcrib_store::{Database, Error, Location};
use toolcrib_x402::Offer;

use super::chain::{PRICE, SystemClock, connect};
use super::shop::{ORIGIN, PATH, own_key, rates, tool};

const PLAN: &str = "TOOLCRIB_ATTACKS_SERVER";

/// Longest wait for a child to say something.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where a server stops to be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Point {
    /// The signature is checked, nothing is written down.
    BeforeReserve,
    /// The payment is reserved.
    Reserved,
    /// It would settle.
    Verified,
    /// The handler is at work.
    Handling,
    /// The handler is done; where it settles first, its output is not kept yet.
    Handled,
    /// The intention to settle is written down, nothing is sent.
    Begun,
    /// The money has moved, but that is not recorded.
    Settled,
    /// The caller has its answer, and that the money has moved is not written down.
    Answered,
    /// It is written down; where it settles first, the caller was not told.
    Recorded,
    /// If it settles first: the output is stored, the caller was not told.
    Kept,
}

/// What a child serves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) store: String,
    pub(crate) node: String,
    /// The development account that settles.
    pub(crate) wallet: u32,
    /// The facilitator that settles instead of it.
    pub(crate) facilitator: Option<String>,
    /// Whether what the facilitator says is checked on the node.
    pub(crate) has_node: bool,
    pub(crate) settle_first: bool,
    pub(crate) stop_at: Option<Point>,
    /// Seconds to move the clock by, and a line for each run of the handler.
    folder: PathBuf,
}

/// What the servers of one test share beside the store: a clock, and a count of runs.
pub(crate) struct Ground {
    folder: TempDir,
}

impl Ground {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    pub(crate) fn plan(&self, store: &str, node: &str, wallet: u32) -> Plan {
        let folder = self.folder.path().to_owned();
        Plan {
            store: store.to_owned(),
            node: node.to_owned(),
            wallet,
            facilitator: None,
            has_node: true,
            settle_first: false,
            stop_at: None,
            folder,
        }
    }

    /// Moves the clock of all servers, from the machine's time.
    pub(crate) fn set_offset(&self, seconds: i64) {
        let path = self.folder.path().join("offset");
        // Readers never see half a number.
        let new = self.folder.path().join("offset.new");
        std::fs::write(&new, seconds.to_string()).expect("written");
        std::fs::rename(new, path).expect("renamed");
    }

    /// How often handlers ran.
    pub(crate) fn runs(&self) -> usize {
        std::fs::read_to_string(self.folder.path().join("runs")).map_or(0, |lines| lines.lines().count())
    }
}

/// A server that runs.
pub(crate) struct Process {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    pub(crate) at: SocketAddr,
}

impl Process {
    pub(crate) async fn start(plan: &Plan) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "attacks::process::child", "--nocapture", "--test-threads=1"])
            .env(PLAN, serde_json::to_string(plan).expect("JSON"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let input = child.stdin.take().expect("piped");
        let mut process = Self { child, input, lines, at: SocketAddr::from(([127, 0, 0, 1], 0)) };
        process.at = process.line().await.parse().expect("an address");
        process
    }

    /// The next thing that the child says to us.
    async fn line(&mut self) -> String {
        loop {
            let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await.expect("in time");
            // The test program has things to say too.
            if let Some((_, said)) = line.expect("readable").expect("it has not ended").split_once("> ") {
                return said.to_owned();
            }
        }
    }

    /// Waits until it has stopped where it should be killed.
    pub(crate) async fn stopped(&mut self) {
        assert_eq!(self.line().await, "stopped");
    }

    /// Makes it look for payments whose end is not known. Settled, released, open.
    pub(crate) async fn reconcile(&mut self) -> (usize, usize, usize) {
        self.input.write_all(b"reconcile\n").await.expect("it listens");
        let line = self.line().await;
        let mut numbers = line.split(' ').map(|number| number.parse().expect("a number"));
        let mut next = || numbers.next().expect("three numbers");
        (next(), next(), next())
    }

    /// SIGKILL: nothing is tidied up.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.expect("killed");
    }
}

fn say(what: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "> {what}").and_then(|()| out.flush()).expect("the parent listens");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(plan) = std::env::var(PLAN) else { return };
    let plan: Plan = serde_json::from_str(&plan).expect("a plan");
    let chain = connect(&plan.node).await;
    let database = Database::open(&Location::parse(&plan.store).expect("a location")).await.expect("a database");
    let stops = Stops(plan.stop_at);
    let store = Stopping { inner: SqlReplay::open(database, Limits::default()).await.expect("a store"), stops };
    let inner: Box<dyn Settle> = match &plan.facilitator {
        Some(url) => {
            let facilitator = Facilitator::from_setting(url).expect("a URL");
            Box::new(if plan.has_node { facilitator.confirm_with([chain]) } else { facilitator })
        }
        None => Box::new(own_key(&chain, plan.wallet)),
    };
    let settle = StoppingSettle { inner, stops };
    let mut gate = PaidGate::new(Arc::new(settle));
    if plan.settle_first {
        gate = gate.settle_first();
    }
    let runs = plan.folder.join("runs");
    let handler = Arc::new(move |_| -> futures_util::future::BoxFuture<'static, _> {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&runs).expect("a file");
        file.write_all(b"run\n").expect("written");
        Box::pin(async move {
            stops.at(Point::Handling).await;
            Ok(())
        })
    });
    let tools = Tools::new(ORIGIN).store(store).clock(FileClock(plan.folder.join("offset"))).rates(rates());
    let server = tools.tool(tool(PATH, PRICE, gate, handler)).build().expect("sound settings");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    say(&listener.local_addr().expect("bound").to_string());
    tokio::spawn(server.clone().serve(listener, std::future::pending()));
    let (told, mut words) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || std::io::stdin().lines().try_for_each(|_| told.send(())));
    while words.recv().await.is_some() {
        let found = server.reconcile().await;
        say(&format!("{} {} {}", found.settled, found.released, found.open));
    }
    // The parent has gone.
}

/// The machine's clock, moved by what stands in a file.
struct FileClock(PathBuf);

impl Clock for FileClock {
    fn now(&self) -> UnixTime {
        SystemClock.now().plus(offset(&self.0))
    }
}

fn offset(path: &Path) -> i64 {
    std::fs::read_to_string(path).map_or(0, |text| text.parse().expect("a number"))
}

/// Stops at one point, for ever.
#[derive(Clone, Copy, Debug)]
struct Stops(Option<Point>);

impl Stops {
    async fn at(self, point: Point) {
        if self.0 == Some(point) {
            say("stopped");
            std::future::pending().await
        }
    }
}

#[derive(Debug)]
struct StoppingSettle {
    inner: Box<dyn Settle>,
    stops: Stops,
}

#[async_trait]
impl Settle for StoppingSettle {
    async fn check(&self, offers: &[Offer]) -> Vec<Finding> {
        self.inner.check(offers).await
    }

    fn finds_settlements(&self, offer: &Offer) -> bool {
        self.inner.finds_settlements(offer)
    }

    async fn verify(&self, due: Due<'_>) -> Verdict {
        let verdict = self.inner.verify(due).await;
        self.stops.at(Point::Verified).await;
        verdict
    }

    async fn settle(&self, due: Due<'_>, from_block: Option<u64>, journal: &dyn Journal) -> Outcome {
        self.stops.at(Point::Begun).await;
        let outcome = self.inner.settle(due, from_block, journal).await;
        self.stops.at(Point::Settled).await;
        outcome
    }

    async fn look_up(&self, due: Due<'_>, record: &Record) -> Found {
        self.inner.look_up(due, record).await
    }
}

#[derive(Debug)]
struct Stopping {
    inner: SqlReplay,
    stops: Stops,
}

#[async_trait]
impl ReplayStore for Stopping {
    async fn reserve(&self, key: &ReplayKey, reservation: &Reservation<'_>, now: UnixTime) -> Result<Reserve, Error> {
        self.stops.at(Point::BeforeReserve).await;
        let reserved = self.inner.reserve(key, reservation, now).await;
        self.stops.at(Point::Reserved).await;
        reserved
    }

    async fn begin_settlement(
        &self,
        key: &ReplayKey,
        ticket: Ticket,
        settlement: &Settlement<'_>,
    ) -> Result<ResultRetention, Error> {
        if settlement.result.is_some() {
            self.stops.at(Point::Handled).await;
        }
        self.inner.begin_settlement(key, ticket, settlement).await
    }

    async fn record_sent(&self, key: &ReplayKey, ticket: Ticket, transaction: B256) -> Result<(), Error> {
        self.inner.record_sent(key, ticket, transaction).await
    }

    async fn settle(&self, key: &ReplayKey, receipt: &Receipt, now: UnixTime) -> Result<(), Error> {
        let settled = self.inner.settle(key, receipt, now).await;
        self.stops.at(Point::Recorded).await;
        settled
    }

    async fn settle_in_background(&self, key: &ReplayKey, receipt: &Receipt, now: UnixTime) -> Result<(), Error> {
        self.stops.at(Point::Answered).await;
        let settled = self.inner.settle_in_background(key, receipt, now).await;
        self.stops.at(Point::Recorded).await;
        settled
    }

    async fn mark_unknown(&self, key: &ReplayKey, ticket: Ticket, now: UnixTime) -> Result<(), Error> {
        self.inner.mark_unknown(key, ticket, now).await
    }

    async fn release(&self, key: &ReplayKey, ticket: Ticket) -> Result<(), Error> {
        self.inner.release(key, ticket).await
    }

    async fn store_result(&self, key: &ReplayKey, ticket: Ticket, result: &StoredResult) -> Result<ResultRetention, Error> {
        self.stops.at(Point::Handled).await;
        let kept = self.inner.store_result(key, ticket, result).await;
        self.stops.at(Point::Kept).await;
        kept
    }

    async fn run_failed(&self, key: &ReplayKey, ticket: Ticket, now: UnixTime) -> Result<(), Error> {
        self.inner.run_failed(key, ticket, now).await
    }

    async fn redeem(&self, key: &ReplayKey, again: &Again<'_>, now: UnixTime) -> Result<Redeem, Error> {
        self.inner.redeem(key, again, now).await
    }

    async fn claim_unknowns(&self, now: UnixTime, until: UnixTime, limit: usize) -> Result<Vec<(Entry, Ticket)>, Error> {
        self.inner.claim_unknowns(now, until, limit).await
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    async fn make_room(&self, bytes: u64) -> Result<Room, Error> {
        self.inner.make_room(bytes).await
    }

    async fn mark_delivered(&self, keys: &[ReplayKey], now: UnixTime) -> Result<(), Error> {
        self.inner.mark_delivered(keys, now).await
    }

    async fn unknowns(&self, limit: usize) -> Result<Vec<Entry>, Error> {
        self.inner.unknowns(limit).await
    }

    async fn entry(&self, key: &ReplayKey) -> Result<Option<Entry>, Error> {
        self.inner.entry(key).await
    }

    async fn expire(&self, now: UnixTime) -> Result<usize, Error> {
        self.inner.expire(now).await
    }

    async fn counts(&self) -> Result<Counts, Error> {
        self.inner.counts().await
    }
}
