//! The worker: leases names that are due, resolves them, and writes the verdicts.
//!
//! Any number of workers may run, in any number of processes. Leases of a worker that dies expire.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Fuse, FusedFuture as _};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::MissedTickBehavior;
use toolcrib_core::clock::Clock;
use toolcrib_core::codes;
use toolcrib_judge::MAX_WINDOW;

use super::model::{AgentResolution, ResolveAgent};
use super::writing::{self, AgentJob, Finished, Token};
use crate::{Error, Index};

/// The maximum duration of a resolution: the TXT records, a gateway or two, and a node, each with its own limits.
const RESOLVE_TIME: Duration = Duration::from_secs(60);

/// The duration of a lease in seconds: a resolution, and the time to write its result.
const LEASE_SECONDS: i64 = 120;

/// The maximum number of results in one transaction, and of names in one lease: a few hundred rows are worth a commit, and more would
/// block other writers.
const MAX_BATCH: usize = 256;

/// The step of a resolution that timed out.
const RESOLVE_STEP: &str = "resolve";

/// The schedule and limits of agent checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentOptions {
    /// Concurrent resolutions.
    pub at_once: usize,
    /// Seconds between two checks of a verified name.
    pub interval: i64,
    /// Seconds until a name is checked again that is no longer verified.
    pub soon: i64,
    /// The maximum pause between two checks of a name that is not verified, in seconds.
    pub longest: i64,
    /// The pause after the first failed resolution, in seconds. Each following pause is twice as long, up to `interval`.
    pub retry: i64,
    /// For how many seconds a good verdict is valid without another one.
    pub window: i64,
    /// How long to wait when nothing is due.
    pub poll: Duration,
}

impl Default for AgentOptions {
    /// Once an hour, as tools are verified; a verdict is valid for a day, as that of a tool is.
    fn default() -> Self {
        Self {
            at_once: 16,
            interval: 3_600,
            soon: 600,
            longest: 86_400,
            retry: 60,
            window: MAX_WINDOW as i64,
            poll: Duration::from_secs(1),
        }
    }
}

/// What one round of a worker did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentRound {
    /// Names that were leased.
    pub leased: usize,
    /// Verdicts that were written.
    pub judged: usize,
    /// Verdicts that differ from the previous one.
    pub changed: usize,
    /// Resolutions that failed.
    pub unreachable: usize,
    /// Results discarded because another worker took over, or because the name left the list.
    pub lost: usize,
}

/// A worker's database operations.
enum DatabaseRequest {
    Lease(usize),
    Write(Vec<Finished>),
}

/// A worker.
pub struct AgentWorker<R> {
    index: Index,
    resolver: R,
    clock: Arc<dyn Clock + Send + Sync>,
    options: AgentOptions,
    token: Token,
}

impl<R> std::fmt::Debug for AgentWorker<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentWorker").field("options", &self.options).finish_non_exhaustive()
    }
}

impl<R: ResolveAgent> AgentWorker<R> {
    /// Creates a worker for an index.
    pub fn new(index: Index, resolver: R, clock: Arc<dyn Clock + Send + Sync>, options: AgentOptions) -> Result<Self, Error> {
        let mut token = [0; 16];
        getrandom::fill(&mut token).map_err(|_| Error::Corrupt { what: "source of randomness" })?;
        Ok(Self { index, resolver, clock, options, token })
    }

    /// Runs until `shutdown`, then finishes the resolutions in progress.
    pub async fn run(&self, shutdown: impl Future<Output = ()> + Send) {
        let most = self.options.at_once.clamp(1, MAX_BATCH);
        let mut shutdown = std::pin::pin!(shutdown.fuse());
        let mut running = FuturesUnordered::new();
        let mut finished = Vec::new();
        // Concurrently with the resolutions, and never awaited before them: a resolution in progress may hold what the database operation
        // waits for.
        let mut database = std::pin::pin!(Fuse::terminated());
        let mut tick = tokio::time::interval(self.options.poll);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut is_ending, mut may_be_due) = (false, true);
        loop {
            let free = most - running.len();
            if database.is_terminated() {
                if !finished.is_empty() {
                    // Results that arrived meanwhile are written together.
                    database.set(self.access(DatabaseRequest::Write(std::mem::take(&mut finished))).fuse());
                } else if !is_ending && may_be_due && free * 4 >= most {
                    // Several free slots at a time, so that a lease is worth its statement.
                    database.set(self.access(DatabaseRequest::Lease(free)).fuse());
                } else if is_ending && running.is_empty() {
                    return;
                }
            }
            tokio::select! {
                () = &mut shutdown, if !is_ending => is_ending = true,
                leased = &mut database => {
                    if let Some(jobs) = leased {
                        may_be_due = !jobs.is_empty();
                        running.extend(jobs.into_iter().map(|job| self.resolve(job)));
                    }
                }
                Some(done) = running.next(), if !running.is_empty() => finished.push(done),
                _ = tick.tick(), if !is_ending => may_be_due = true,
            }
        }
    }

    /// Leases or writes. Returns the jobs of a lease. Errors are logged: leases expire, and then the names are resolved again.
    async fn access(&self, access: DatabaseRequest) -> Option<Vec<AgentJob>> {
        match access {
            DatabaseRequest::Lease(count) => Some(self.lease(count).await.unwrap_or_else(|error| {
                tracing::warn!(code = error.code().id(), %error, "names could not be leased");
                Vec::new()
            })),
            DatabaseRequest::Write(finished) => {
                if let Err(error) = self.write(finished).await {
                    tracing::warn!(code = error.code().id(), %error, "verdicts could not be written");
                }
                None
            }
        }
    }

    /// Leases what is due once, at most a few hundred names, and writes the results.
    pub async fn round(&self) -> Result<AgentRound, Error> {
        let jobs = self.lease(MAX_BATCH).await?;
        let leased = jobs.len();
        if leased == 0 {
            return Ok(AgentRound::default());
        }
        let resolving = jobs.into_iter().map(|job| self.resolve(job));
        let finished = futures_util::stream::iter(resolving).buffer_unordered(self.options.at_once.max(1)).collect().await;
        Ok(AgentRound { leased, ..self.write(finished).await? })
    }

    async fn lease(&self, count: usize) -> Result<Vec<AgentJob>, Error> {
        writing::lease(&self.index, &self.token, count, LEASE_SECONDS, self.clock.now()).await
    }

    async fn write(&self, finished: Vec<Finished>) -> Result<AgentRound, Error> {
        writing::write(&self.index, &self.token, finished, &self.options, self.clock.now()).await
    }

    async fn resolve(&self, job: AgentJob) -> Finished {
        let begun = self.clock.now();
        let resolution = tokio::time::timeout(RESOLVE_TIME, self.resolver.resolve(&job.domain, job.remembered.as_ref())).await;
        let late =
            |_| AgentResolution::Unreachable { step: RESOLVE_STEP.to_owned(), code: codes::fetch::TOTAL_TIMEOUT.id().to_owned() };
        Finished { job, begun, resolution: resolution.unwrap_or_else(late) }
    }
}
