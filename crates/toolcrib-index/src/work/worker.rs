//! Workers: they lease jobs and verify tools.
//!
//! There are two lanes. A first try gives a server a few seconds; a slower server gets no verdict and is tried again with the full timeout
//! of a fetch, on a share of the capacity. So servers that respond slowly, on purpose or not, delay each other and no other tools.
//!
//! Any number of workers may run, in any number of processes. Leases of a worker that dies expire. `writing.rs` writes results, and
//! `pace.rs` schedules the next verification.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::future::{Fuse, FusedFuture as _};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::{Instant, MissedTickBehavior};
use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_judge::Policy;
use toolcrib_judge::evidence::{ChainReads, ConfigRead, Evidence, ToolState};
use toolcrib_store::database::Engine;

use super::batch::Batches;
use super::groups::{Lane, Turns};
use super::look::{Look, ToolVerifier};
use super::origins::{self, Holder, Leaving, Taking, Turn};
use super::outage::Outage;
use super::pace::{GRACE, WorkOptions};
use super::queue::{Job, MAX_LEASE, Queue, Reason, Wanted};
use super::writing::Writer;
use crate::Error;
use crate::facts::health::ResponseTime;
use crate::model::{RegistryId, ToolKey, ToolView};

/// The timeout of a verification in seconds: two fetches of fifteen seconds each, the chain, and a margin for a slow node.
const LOOK_SECONDS: u64 = 60;

/// The duration of a lease in seconds: a verification, and the time to write its result.
const LEASE_SECONDS: i64 = LOOK_SECONDS as i64 + 60;

/// Seconds between two deletions of groups with past slots and of changes beyond retention.
const FORGET_SECONDS: i64 = 3_600;

/// The result of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Done {
    /// A listing was written.
    Written,
    /// There was no result; what was known stays until it expires.
    Kept,
    /// It was postponed: the origin was busy, or the node and the index are at different blocks.
    Postponed,
    /// The first try timed out. There is no verdict; a full try follows.
    Deferred,
    /// Another worker has the job now, or the registration changed meanwhile.
    Lost,
}

/// What one round of a worker did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Jobs that were leased.
    pub leased: usize,
    /// Listings that were written.
    pub written: usize,
    /// Verifications without a result.
    pub kept: usize,
    /// Jobs that were postponed.
    pub postponed: usize,
    /// First tries that timed out.
    pub deferred: usize,
    /// Jobs that were lost to other workers.
    pub lost: usize,
}

impl Round {
    const fn count(&mut self, done: Done) {
        match done {
            Done::Written => self.written += 1,
            Done::Kept => self.kept += 1,
            Done::Postponed => self.postponed += 1,
            Done::Deferred => self.deferred += 1,
            Done::Lost => self.lost += 1,
        }
    }
}

/// A worker.
pub struct Worker<L> {
    queue: Queue,
    looks: L,
    clock: Arc<dyn Clock + Send + Sync>,
    options: WorkOptions,
    outage: Outage,
    batches: Batches,
    /// When groups were last deleted, in seconds.
    forgot_at: AtomicI64,
}

/// A worker's verifications in progress.
#[derive(Debug, Default)]
struct Running {
    /// The start of each first try that still counts against the capacity, the oldest first.
    young: VecDeque<Instant>,
    first: usize,
    slow: usize,
}

impl Running {
    fn begin(&mut self, job: &Job, now: Instant) {
        match job.lane {
            Lane::First => {
                self.first += 1;
                self.young.push_back(now);
            }
            Lane::Slow => self.slow += 1,
        }
    }

    /// Records the end of a verification of this lane that began then.
    fn end(&mut self, lane: Lane, begun: Instant) {
        match lane {
            Lane::First => {
                self.first -= 1;
                if let Some(at) = self.young.iter().position(|young| *young == begun) {
                    self.young.remove(at);
                }
            }
            Lane::Slow => self.slow -= 1,
        }
    }

    /// Frees the capacity of first tries that only wait for the network by now, and returns when the next one will.
    fn age(&mut self, now: Instant) -> Option<Instant> {
        while self.young.front().is_some_and(|begun| *begun + GRACE <= now) {
            self.young.pop_front();
        }
        self.young.front().map(|begun| *begun + GRACE)
    }

    /// Returns the free capacity in each lane.
    fn free(&self, options: &WorkOptions) -> (usize, usize) {
        let first = options.places().saturating_sub(self.young.len()).min(options.open_tries().saturating_sub(self.first));
        (first, options.slow_places().saturating_sub(self.slow))
    }
}

impl<L> std::fmt::Debug for Worker<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<L: ToolVerifier> Worker<L> {
    /// Creates a worker for a queue.
    pub fn new(queue: Queue, looks: L, clock: Arc<dyn Clock + Send + Sync>, options: WorkOptions) -> Self {
        Self {
            queue,
            looks,
            clock,
            options,
            outage: Outage::default(),
            batches: Batches::default(),
            forgot_at: AtomicI64::new(0),
        }
    }

    /// Runs until `shutdown`, then finishes the verifications in progress.
    pub async fn run(&self, shutdown: impl Future<Output = ()> + Send) {
        let most = self.options.places();
        let mut shutdown = std::pin::pin!(shutdown.fuse());
        let mut running = FuturesUnordered::new();
        let mut places = Running::default();
        // Concurrently with the verifications, and never awaited before them: one that is being written may hold what leasing waits for.
        let mut leasing = std::pin::pin!(Fuse::terminated());
        let mut tick = tokio::time::interval(self.options.poll);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut is_ending, mut is_tick, mut is_dry) = (false, true, false);
        loop {
            let aging = places.age(Instant::now());
            let (first, slow) = places.free(&self.options);
            // Several free slots at a time, so that a lease is worth its statements.
            if !is_ending && leasing.is_terminated() && first + slow > 0 && (is_tick || (!is_dry && first * 4 >= most)) {
                leasing.set(self.more(first, slow, is_tick).fuse());
                is_tick = false;
            }
            if is_ending && running.is_empty() && leasing.is_terminated() {
                return;
            }
            tokio::select! {
                () = &mut shutdown, if !is_ending => is_ending = true,
                jobs = &mut leasing => {
                    // Nothing is due: wait for the next tick.
                    is_dry = jobs.is_empty();
                    let now = Instant::now();
                    jobs.iter().for_each(|(job, _)| places.begin(job, now));
                    running.extend(jobs.into_iter().map(|(job, view)| {
                        let lane = job.lane;
                        async move {
                            self.work(job, view).await;
                            (lane, now)
                        }
                    }));
                }
                Some((lane, begun)) = running.next(), if !running.is_empty() => places.end(lane, begun),
                () = tokio::time::sleep_until(aging.unwrap_or_else(Instant::now)), if aging.is_some() => {}
                _ = tick.tick(), if !is_ending => is_tick = true,
            }
        }
    }

    /// Leases jobs for the free capacity, and regularly expires listings.
    async fn more(&self, first: usize, slow: usize, is_tick: bool) -> Vec<(Job, Option<ToolView>)> {
        if is_tick && let Err(error) = self.tidy().await {
            tracing::warn!(code = error.code().id(), %error, "listings could not be expired");
        }
        self.lease(first, slow).await.unwrap_or_else(|error| {
            tracing::warn!(code = error.code().id(), %error, "jobs could not be leased");
            Vec::new()
        })
    }

    async fn tidy(&self) -> Result<(), Error> {
        let now = self.clock.now();
        self.queue.expire().await?;
        // Verdicts get their numbers even while no directory reads the feed.
        self.queue.index().last_change().await?;
        if now.seconds() - self.forgot_at.load(Ordering::Relaxed) >= FORGET_SECONDS {
            self.forgot_at.store(now.seconds(), Ordering::Relaxed);
            Turns::forget(self.queue.index(), now).await?;
            if let Some(seconds) = self.options.keep_changes {
                self.queue.index().compact_changes(now.plus(-seconds)).await?;
            }
        }
        Ok(())
    }

    /// Leases what is due once, and works until it is done.
    pub async fn round(&self) -> Result<Round, Error> {
        self.queue.expire().await?;
        let jobs = self.lease(MAX_LEASE, MAX_LEASE).await?;
        let mut round = Round { leased: jobs.len(), ..Round::default() };
        let mut outcomes = futures_util::stream::iter(jobs.into_iter().map(|(job, view)| self.work(job, view)))
            .buffer_unordered(self.options.at_once.max(1));
        while let Some(done) = outcomes.next().await {
            round.count(done);
        }
        Ok(round)
    }

    /// Leases jobs, and reads their tools together.
    async fn lease(&self, count: usize, slow: usize) -> Result<Vec<(Job, Option<ToolView>)>, Error> {
        let registries = self.queue.index().registries().await?;
        let ours: Vec<RegistryId> =
            registries.iter().filter(|registry| self.looks.can_ask(registry.chain)).map(|registry| registry.id).collect();
        let only = (ours.len() < registries.len()).then_some(ours.as_slice());
        let wanted = Wanted { count, slow, seconds: LEASE_SECONDS, registries: only };
        let jobs = self.queue.lease(wanted, self.clock.now()).await?;
        let keys: Vec<ToolKey> = jobs.iter().map(|job| job.key).collect();
        let views = self.queue.index().tools(&keys).await?;
        let mut views: HashMap<ToolKey, ToolView> = views.into_iter().map(|view| (view.row.key, view)).collect();
        let with_view = |job: Job| {
            let view = views.remove(&job.key);
            (job, view)
        };
        Ok(jobs.into_iter().map(with_view).collect())
    }

    /// Processes a job. Errors are logged, and the job is due again when its lease expires.
    async fn work(&self, job: Job, view: Option<ToolView>) -> Done {
        match self.do_job(&job, view).await {
            Ok(done) => done,
            Err(error) => {
                tracing::warn!(code = error.code().id(), %error, registry = job.key.registry.0, tool = %job.key.id, "verification failed");
                let until = self.clock.now().plus(self.options.after_unknown(job.attempts));
                if let Err(error) = self.queue.postpone(&job, until).await {
                    tracing::warn!(code = error.code().id(), %error, "job could not be released");
                }
                Done::Postponed
            }
        }
    }

    async fn do_job(&self, job: &Job, view: Option<ToolView>) -> Result<Done, Error> {
        let view = match view {
            Some(view) => Some(view),
            // Missing or unreadable: only the latter returns an error.
            None => self.queue.index().tool_by_key(job.key).await?,
        };
        let Some(view) = view else {
            // A reorganisation removed the tool.
            return self.writer().forget(job).await;
        };
        if !view.row.is_active() {
            let look = self.removed(&view);
            return self.writer().write(job, &view, &look, ResponseTime::NotAsked).await;
        }
        let origin = origins::origin_of(&view.row.metadata_uri);
        if let Some(origin) = &origin {
            let now = self.clock.now();
            if let Turn::At(at) = self.take_turn(job, origin, now).await? {
                self.queue.postpone(job, at).await?;
                return Ok(Done::Postponed);
            }
        }
        let look = async {
            match job.lane {
                Lane::First => self.looks.first_look(view.tool, &view.row, self.options.first_try).await,
                Lane::Slow => self.looks.look(view.tool, &view.row).await.map(Some),
            }
        };
        let look = tokio::time::timeout(Duration::from_secs(LOOK_SECONDS), look).await;
        if let Some(origin) = &origin {
            self.leave(job, origin).await?;
        }
        match look {
            Ok(Ok(None)) => self.writer().defer(job, &view).await,
            Ok(Ok(Some(look))) => {
                let (index, now) = (self.queue.index(), self.clock.now());
                let answer = self.outage.answer(&look, &view.row, index, &self.looks, now).await;
                self.writer().write(job, &view, &look, answer).await
            }
            Ok(Err(error @ Error::Chain(_))) => {
                tracing::info!(code = error.code().id(), tool = %view.tool, "chain query failed, retrying");
                self.writer().back_off(job, &view).await
            }
            Ok(Err(error)) => Err(error),
            Err(_) => self.writer().back_off(job, &view).await,
        }
    }

    /// Takes the slot of an origin. On PostgreSQL jobs take their slots together.
    async fn take_turn(&self, job: &Job, origin: &str, now: UnixTime) -> Result<Turn, Error> {
        let (index, pause) = (self.queue.index(), self.options.pause);
        let holder = Holder { token: job.token(), is_requested: job.reason == Reason::Requested };
        if index.database().engine() == Engine::Postgres {
            let taking = Taking { origin: origin.to_owned(), token: *job.token(), hold: LEASE_SECONDS, now };
            let taken = self.batches.turns.call(taking, |taking| async move { origins::take_many(index, &taking).await });
            match taken.await {
                Some(true) => return Ok(Turn::Now),
                Some(false) => return origins::later(index, origin, holder, pause, now).await,
                None => {}
            }
        }
        origins::take(index, origin, holder, LEASE_SECONDS, pause, now).await
    }

    async fn leave(&self, job: &Job, origin: &str) -> Result<(), Error> {
        let (index, pause, now) = (self.queue.index(), self.options.pause, self.clock.now());
        if index.database().engine() == Engine::Postgres {
            let leaving = Leaving { origin: origin.to_owned(), token: *job.token(), pause, now };
            let left = self.batches.leaves.call(leaving, |leaving| async move {
                origins::leave_many(index, &leaving).await?;
                Ok(vec![(); leaving.len()])
            });
            if left.await.is_some() {
                return Ok(());
            }
        }
        origins::leave(index, origin, job.token(), pause, now).await
    }

    fn writer(&self) -> Writer<'_> {
        Writer { queue: &self.queue, options: &self.options, clock: &*self.clock, batches: &self.batches }
    }

    /// Returns the result for a deregistered tool, which needs neither the chain nor its server.
    fn removed(&self, view: &ToolView) -> Look {
        let now = self.clock.now();
        let mut evidence = Evidence::new("toolcrib-index, from events", now);
        evidence.tool = Some(view.tool);
        let block = view.row.deregistered.map_or(view.row.updated.block, |at| at.block);
        let config = vec![ConfigRead { block, state: ToolState::Deregistered }];
        evidence.chain = Some(ChainReads { registry_code_hash: None, config, predicate: None, registration: None });
        Look::judged(evidence, &Policy::default())
    }
}
