//! Workers: they lease jobs, look at tools, and write what they found in one transaction.
//!
//! Any number of them may run, in any number of processes. A worker that dies leaves leases behind that end by themselves. What it writes
//! is fenced twice: by the lease, and by the registration that was looked at, so that neither a late worker nor one that a change of the
//! registration overtook writes anything.
//!
//! A look that our own network may have spoilt does not take a tool off the list; only the end of its time does.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Fuse, FusedFuture as _};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::MissedTickBehavior;
use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_core::codes;
use toolcrib_core::evidence::{ChainReads, ConfigRead, Evidence, ToolState};
use toolcrib_core::judge::{self, MAX_WINDOW, Policy};
use toolcrib_store::database::{Transaction, Value};

use super::kept::{self, Kept, NEVER, VerdictChange, Watch};
use super::look::{Look, Looks};
use super::origins::{self, Turn};
use super::queue::{Job, MAX_LEASE, Next, Queue, Reason, Wanted};
use crate::facts::health::{self, Answer};
use crate::facts::{self, duplicates, notices};
use crate::feed::{self, Kinds};
use crate::listing::{Failure, Listing, Verdict};
use crate::model::{RegistryId, ToolKey, ToolRow, ToolView};
use crate::{Error, text_key};

/// Longest look in seconds: two fetches of fifteen seconds each, the chain, and room for a node that is slow.
const LOOK_SECONDS: u64 = 60;

/// Longest lease in seconds: a look, and the time to write it down.
const LEASE_SECONDS: i64 = LOOK_SECONDS as i64 + 60;

/// The pause after the first look that our network spoilt. Each one after it is twice as long.
const UNKNOWN_SECONDS: i64 = 60;

/// The longest pause between looks at a tool that was refused: a week. Most of those were abandoned on the day they were registered.
const MAX_REFUSED_SECONDS: i64 = 7 * 86_400;

/// The pause when the chain is not where the index is: about a block.
const BEHIND_SECONDS: i64 = 15;

/// Different origins in a row that did not answer before it is put down to our own network.
const OUTAGE_ORIGINS: usize = 8;

/// How often what others got in the way of is written again.
const WRITES: u32 = 6;

/// Most listings that are ended at once because their time is over.
const MAX_EXPIRED: i64 = 100;

/// How a worker works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkOptions {
    /// Looks at once.
    pub at_once: usize,
    /// Seconds between two looks at a verified tool.
    pub interval: i64,
    /// The shortest such time, whatever `maxAge` says: priced tools ask for 0, which is meant for whoever calls them.
    pub soonest: i64,
    /// Seconds that a listing holds without another look, unless `maxAge` is shorter; never longer than [`MAX_WINDOW`].
    pub window: i64,
    /// Seconds between two requests to an origin.
    pub pause: i64,
    /// How long to wait when nothing is due.
    pub poll: Duration,
}

impl Default for WorkOptions {
    /// One look an hour, which is what health counts by; ten minutes for those who ask for more; a listing holds for a day.
    fn default() -> Self {
        Self { at_once: 16, interval: 3_600, soonest: 600, window: MAX_WINDOW as i64, pause: 1, poll: Duration::from_secs(1) }
    }
}

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Done {
    /// A listing was written.
    Written,
    /// Nothing could be told; what was known stays until its time is over.
    Kept,
    /// It was put off: the origin was busy, or the chain is not where the index is.
    Postponed,
    /// Somebody else has the job now, or the registration changed meanwhile.
    Lost,
}

/// What a worker did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Jobs that were leased.
    pub leased: usize,
    /// Listings that were written.
    pub written: usize,
    /// Looks that told nothing.
    pub kept: usize,
    /// Jobs that were put off.
    pub postponed: usize,
    /// Jobs that were lost to others.
    pub lost: usize,
}

impl Round {
    const fn count(&mut self, done: Done) {
        match done {
            Done::Written => self.written += 1,
            Done::Kept => self.kept += 1,
            Done::Postponed => self.postponed += 1,
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
    /// The origins that did not answer since one did, as far as they are counted.
    silent: Mutex<BTreeSet<String>>,
}

impl<L> std::fmt::Debug for Worker<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("options", &self.options).finish_non_exhaustive()
    }
}

const LIST: &str = "UPDATE index_tool SET listed = $3, access = $4 WHERE registry = $1 AND tool = $2 AND events = $5 AND uri = $6
    AND hash = $7 AND creator = $8";
const HOLD: &str = "UPDATE index_tool SET listed = listed WHERE registry = $1 AND tool = $2 AND events = $3 AND uri = $4
    AND hash = $5 AND creator = $6";
const UNLIST: &str = "UPDATE index_tool SET listed = $3 WHERE registry = $1 AND tool = $2";
const OVER: &str = "SELECT registry, tool FROM index_watch WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2";
const END: &str = "UPDATE index_watch SET expires_at = $3 WHERE registry = $1 AND tool = $2 AND expires_at <= $4";

impl<L: Looks> Worker<L> {
    /// A worker on a queue.
    pub fn new(queue: Queue, looks: L, clock: Arc<dyn Clock + Send + Sync>, options: WorkOptions) -> Self {
        Self { queue, looks, clock, options, silent: Mutex::default() }
    }

    /// Works until `shutdown`, then ends what was begun.
    pub async fn run(&self, shutdown: impl Future<Output = ()> + Send) {
        let most = self.options.at_once.max(1);
        let mut shutdown = std::pin::pin!(shutdown.fuse());
        let mut running = FuturesUnordered::new();
        // Beside the looks, and never before them: one that is in the middle of writing may hold what leasing waits for.
        let mut leasing = std::pin::pin!(Fuse::terminated());
        let mut tick = tokio::time::interval(self.options.poll);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut is_ending, mut is_tick, mut is_dry) = (false, true, false);
        loop {
            let free = most.saturating_sub(running.len());
            // A few places at a time, so that a lease is worth its statements.
            if !is_ending && leasing.is_terminated() && free > 0 && (is_tick || (!is_dry && free * 4 >= most)) {
                leasing.set(self.more(free, is_tick).fuse());
                is_tick = false;
            }
            if is_ending && running.is_empty() && leasing.is_terminated() {
                return;
            }
            tokio::select! {
                () = &mut shutdown, if !is_ending => is_ending = true,
                jobs = &mut leasing => {
                    // Nothing is due: there is no hurry until the next tick.
                    is_dry = jobs.is_empty();
                    running.extend(jobs.into_iter().map(|job| self.work(job)));
                }
                Some(_) = running.next(), if !running.is_empty() => {}
                _ = tick.tick(), if !is_ending => is_tick = true,
            }
        }
    }

    /// Jobs for the free places, and every now and then the end of listings whose time is over.
    async fn more(&self, free: usize, is_tick: bool) -> Vec<Job> {
        if is_tick && let Err(error) = self.expire().await {
            tracing::warn!(code = error.code().id(), %error, "listings could not be ended");
        }
        self.lease(free).await.unwrap_or_else(|error| {
            tracing::warn!(code = error.code().id(), %error, "no jobs could be leased");
            Vec::new()
        })
    }

    /// Leases what is due once, and works until it is done.
    pub async fn round(&self) -> Result<Round, Error> {
        self.expire().await?;
        let jobs = self.lease(MAX_LEASE).await?;
        let mut round = Round { leased: jobs.len(), ..Round::default() };
        let mut outcomes =
            futures_util::stream::iter(jobs.into_iter().map(|job| self.work(job))).buffer_unordered(self.options.at_once.max(1));
        while let Some(done) = outcomes.next().await {
            round.count(done);
        }
        Ok(round)
    }

    async fn lease(&self, count: usize) -> Result<Vec<Job>, Error> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let registries = self.queue.index().registries().await?;
        let ours: Vec<RegistryId> =
            registries.iter().filter(|registry| self.looks.can_ask(registry.chain)).map(|registry| registry.id).collect();
        let only = (ours.len() < registries.len()).then_some(ours.as_slice());
        self.queue.lease(Wanted { count, seconds: LEASE_SECONDS, registries: only }, self.clock.now()).await
    }

    /// Does a job. What goes wrong is said in the log, and the job comes back when its lease ends.
    async fn work(&self, job: Job) -> Done {
        match self.do_job(&job).await {
            Ok(done) => done,
            Err(error) => {
                tracing::warn!(code = error.code().id(), %error, registry = job.key.registry.0, tool = %job.key.id, "a look failed");
                let until = self.clock.now().plus(UNKNOWN_SECONDS);
                if let Err(error) = self.queue.postpone(&job, until).await {
                    tracing::warn!(code = error.code().id(), %error, "a job could not be given back");
                }
                Done::Postponed
            }
        }
    }

    async fn do_job(&self, job: &Job) -> Result<Done, Error> {
        let Some(view) = self.queue.index().tools(&[job.key]).await?.pop() else {
            // A reorganisation took the tool away.
            return self.forget(job).await;
        };
        if !view.row.is_active() {
            let look = self.removed(&view);
            return self.write(job, &view, &look).await;
        }
        let origin = origins::origin_of(&view.row.metadata_uri);
        if let Some(origin) = &origin {
            let now = self.clock.now();
            let turn = origins::take(self.queue.index(), origin, job, LEASE_SECONDS, self.options.pause, now).await?;
            if let Turn::At(at) = turn {
                self.queue.postpone(job, at).await?;
                return Ok(Done::Postponed);
            }
        }
        let look = tokio::time::timeout(Duration::from_secs(LOOK_SECONDS), self.looks.look(view.tool, &view.row)).await;
        if let Some(origin) = &origin {
            origins::leave(self.queue.index(), origin, job, self.options.pause, self.clock.now()).await?;
        }
        match look {
            Ok(Ok(look)) => self.write(job, &view, &look).await,
            Ok(Err(error @ Error::Chain(_))) => {
                tracing::info!(code = error.code().id(), tool = %view.tool, "the chain could not be asked");
                self.back_off(job, &view).await
            }
            Ok(Err(error)) => Err(error),
            Err(_) => self.back_off(job, &view).await,
        }
    }

    /// What the index itself knows about a tool that was removed: nobody has to be asked.
    fn removed(&self, view: &ToolView) -> Look {
        let now = self.clock.now();
        let mut evidence = Evidence::new("toolcrib-index, from events", now);
        evidence.tool = Some(view.tool);
        let block = view.row.deregistered.map_or(view.row.updated.block, |at| at.block);
        let config = vec![ConfigRead { block, state: ToolState::Deregistered }];
        evidence.chain = Some(ChainReads { registry_code_hash: None, config, predicate: None, registration: None });
        Look::judged(evidence, &Policy::default())
    }

    /// Writes down a look, if it is still ours to write.
    async fn write(&self, job: &Job, view: &ToolView, look: &Look) -> Result<Done, Error> {
        if view.row.is_active() && !is_same_registration(&view.row, &look.evidence) {
            // The node is ahead of the follower, or behind it. The follower says when there is something new.
            let pause = grown(BEHIND_SECONDS, job.attempts, self.options.interval);
            return self.end_unknown(job, view, None, pause).await;
        }
        let watch = self.queue.index().watch(job.key).await?;
        let answer = self.answer(look, &view.row);
        let is_unknown = matches!(look.report.verdict, judge::Verdict::Unknown | judge::Verdict::Partial);
        let known = view.listing.as_ref().filter(|listing| is_about(listing, &view.row));
        if is_unknown && known.is_some() {
            let mut watch = watch.unwrap_or_default();
            health::add(&mut watch.looks, answer);
            let pause = grown(UNKNOWN_SECONDS, job.attempts, self.options.interval);
            return self.end_unknown(job, view, Some(&watch), pause).await;
        }
        let mut watch = watch.unwrap_or_default();
        health::add(&mut watch.looks, answer);
        let now = look.evidence.gathered_at;
        let is_announced = job.reason == Reason::Upgraded && view.row.predicate.is_some();
        let noticed =
            notices::notice(&watch.memory, &view.row, &look.evidence, &look.report, look.name_servers.as_deref(), is_announced);
        watch.memory = noticed.memory;
        if matches!(answer, Answer::After(_)) {
            watch.memory.answered_at = Some(now);
        }
        let endpoint = look.manifest.as_ref().map(|manifest| manifest.endpoint().normalized().to_owned());
        let duplicates = duplicates::find(self.queue.index(), view, endpoint.as_deref()).await?;
        let max_age = look.manifest.as_ref().and_then(|manifest| manifest.max_age());
        let next = self.next(job, view, look, max_age);
        let is_good = look.report.verified && look.report.conformant && view.row.is_active();
        let expires_at = if is_good { self.expires_at(now, max_age) } else { next.map_or(now, |next| next.due_at) };
        let health = health::health(&watch.looks, watch.memory.answered_at);
        let listing = facts::listing(look, view, &watch.memory, &duplicates, health, expires_at);
        let mut kinds = changed(view.listing.as_ref(), &listing);
        if noticed.is_upgraded {
            kinds = kinds.and(Kinds::UPGRADED);
        }
        let finding = Finding {
            kept: Kept::of(&look.evidence, &look.report)?,
            endpoint_key: endpoint.as_deref().map(text_key),
            expires_at: if is_good { expires_at.seconds() } else { NEVER },
            listing,
            watch,
            next,
            kinds,
        };
        self.retry(|| self.try_write(job, &view.row, &finding)).await
    }

    async fn try_write(&self, job: &Job, row: &ToolRow, finding: &Finding) -> Result<Done, Error> {
        let id = job.key.id_bytes();
        let mut transaction = self.queue.index().database().begin().await?;
        // The tool before the job, as followers do: nobody waits for somebody who waits for him.
        let values = [
            Value::Integer(job.key.registry.0),
            Value::Bytes(&id),
            Value::Boolean(finding.expires_at != NEVER),
            Value::Text(finding.listing.access.kind.as_str()),
            Value::Integer(i64::try_from(row.events).unwrap_or(i64::MAX)),
            Value::Text(&row.metadata_uri),
            Value::Bytes(row.manifest_hash.as_slice()),
            Value::Bytes(row.creator.as_slice()),
        ];
        if transaction.execute(LIST, &values).await? == 0 {
            transaction.rollback().await?;
            return self.give_up(job).await;
        }
        if !Queue::complete(&mut transaction, job, finding.next).await? {
            transaction.rollback().await?;
            return Ok(Done::Lost);
        }
        kept::keep_listing(&mut transaction, job.key, &finding.listing, finding.endpoint_key).await?;
        kept::keep_watch(&mut transaction, job.key, &finding.watch, Some(finding.expires_at)).await?;
        finding.kept.write(&mut transaction, job.key).await?;
        let change = VerdictChange::of(&finding.listing, finding.listing.checked_at);
        kept::add_verdict(&mut transaction, job.key, &change).await?;
        self.record_and_commit(transaction, job.key, finding.kinds).await?;
        Ok(Done::Written)
    }

    async fn record_and_commit(&self, mut transaction: Transaction, key: ToolKey, kinds: Kinds) -> Result<(), Error> {
        if kinds != Kinds::default() {
            feed::record(&mut transaction, &[(key, kinds)], self.clock.now()).await?;
        }
        Ok(transaction.commit().await?)
    }

    /// The registration changed: the job stays due.
    async fn give_up(&self, job: &Job) -> Result<Done, Error> {
        self.queue.postpone(job, self.clock.now()).await?;
        Ok(Done::Lost)
    }

    /// The chain could not be asked, or nothing came back in time.
    async fn back_off(&self, job: &Job, view: &ToolView) -> Result<Done, Error> {
        self.end_unknown(job, view, None, grown(UNKNOWN_SECONDS, job.attempts, self.options.interval)).await
    }

    /// Ends a job that told nothing. What is known stays; its time goes on.
    async fn end_unknown(&self, job: &Job, view: &ToolView, watch: Option<&Watch>, pause: i64) -> Result<Done, Error> {
        let next = Next { due_at: self.clock.now().plus(pause), reason: job.reason, attempts: job.attempts.saturating_add(1) };
        // Health is a part of the listing, and the listing of what is verified stays good.
        let listing = watch.zip(view.listing.clone()).map(|(watch, mut listing)| {
            listing.health = health::health(&watch.looks, watch.memory.answered_at);
            listing
        });
        let kinds = match (&view.listing, &listing) {
            (Some(before), Some(after)) => changed(Some(before), after),
            _ => Kinds::default(),
        };
        self.retry(|| async {
            let id = job.key.id_bytes();
            let mut transaction = self.queue.index().database().begin().await?;
            let row = &view.row;
            let values = [
                Value::Integer(job.key.registry.0),
                Value::Bytes(&id),
                Value::Integer(i64::try_from(row.events).unwrap_or(i64::MAX)),
                Value::Text(&row.metadata_uri),
                Value::Bytes(row.manifest_hash.as_slice()),
                Value::Bytes(row.creator.as_slice()),
            ];
            if transaction.execute(HOLD, &values).await? == 0 {
                transaction.rollback().await?;
                return self.give_up(job).await;
            }
            if !Queue::complete(&mut transaction, job, Some(next)).await? {
                transaction.rollback().await?;
                return Ok(Done::Lost);
            }
            if let (Some(watch), Some(listing)) = (watch, &listing) {
                let endpoint = listing.manifest.as_ref().map(|manifest| text_key(&manifest.endpoint));
                kept::keep_listing(&mut transaction, job.key, listing, endpoint).await?;
                kept::keep_watch(&mut transaction, job.key, watch, None).await?;
            }
            self.record_and_commit(transaction, job.key, kinds).await?;
            Ok(Done::Kept)
        })
        .await
    }

    /// Ends a job of a tool that is no more.
    async fn forget(&self, job: &Job) -> Result<Done, Error> {
        let mut transaction = self.queue.index().database().begin().await?;
        let done = if Queue::complete(&mut transaction, job, None).await? { Done::Kept } else { Done::Lost };
        transaction.commit().await?;
        Ok(done)
    }

    /// When a tool is looked at again. Nobody looks again at one that was removed for good.
    fn next(&self, job: &Job, view: &ToolView, look: &Look, max_age: Option<u64>) -> Option<Next> {
        if !view.row.is_active() {
            return None;
        }
        let (options, now) = (&self.options, self.clock.now());
        let at = |seconds: i64| now.plus(seconds.saturating_add(spread(job.key, seconds)));
        let attempts = job.attempts.saturating_add(1);
        let report = &look.report;
        if report.verified && report.conformant {
            let age = max_age.map_or(options.interval, |age| i64::try_from(age).unwrap_or(i64::MAX));
            let pause = age.min(options.interval).max(options.soonest);
            return Some(Next { due_at: at(pause), reason: Reason::Expired, attempts: 0 });
        }
        if report.verdict == judge::Verdict::Unknown {
            let pause = grown(UNKNOWN_SECONDS, job.attempts, options.interval);
            return Some(Next { due_at: at(pause), reason: job.reason, attempts });
        }
        let was_good = view.listing.as_ref().is_some_and(|listing| listing.is_good_for(&view.row));
        let is_suspect = was_good || job.reason == Reason::DriftSuspect;
        // The first bad look at a good tool does not inherit the pauses of other times.
        let before = if was_good { 0 } else { job.attempts };
        let first = if is_suspect { options.soonest } else { options.interval };
        let pause = grown(first, before, MAX_REFUSED_SECONDS);
        let reason = if is_suspect && pause < options.interval { Reason::DriftSuspect } else { Reason::Expired };
        Some(Next { due_at: at(pause), reason, attempts: if was_good { 1 } else { attempts } })
    }

    /// Until when a verified tool is listed without another look.
    fn expires_at(&self, now: UnixTime, max_age: Option<u64>) -> UnixTime {
        let longest = self.options.window.min(MAX_WINDOW as i64);
        let age = max_age.map_or(longest, |age| i64::try_from(age).unwrap_or(i64::MAX));
        // Twice the time after which it is looked at again, so that one slow look does not hide it.
        now.plus(age.max(2 * self.options.soonest).min(longest))
    }

    /// What a look says about the server, unless everything says that it is our own network.
    fn answer(&self, look: &Look, row: &ToolRow) -> Answer {
        let answer = Answer::of(look.evidence.manifest.as_ref());
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Answer::After(_) => silent.clear(),
            Answer::None => {
                if silent.len() < OUTAGE_ORIGINS {
                    silent.extend(origins::origin_of(&row.metadata_uri));
                }
                if silent.len() >= OUTAGE_ORIGINS {
                    return Answer::NotAsked;
                }
            }
            Answer::NotAsked => {}
        }
        answer
    }

    /// Ends listings whose time is over.
    async fn expire(&self) -> Result<usize, Error> {
        let now = self.clock.now();
        let values = [Value::Integer(now.seconds()), Value::Integer(MAX_EXPIRED)];
        let rows = self.queue.index().database().fetch(OVER, &values).await?;
        let mut ended = 0;
        for row in rows {
            let key = ToolKey::from_columns(row.integer(0)?, row.bytes(1)?)?;
            ended += usize::from(self.retry(|| self.end_listing(key, now)).await?);
        }
        Ok(ended)
    }

    async fn end_listing(&self, key: ToolKey, now: UnixTime) -> Result<bool, Error> {
        let id = key.id_bytes();
        let (registry, tool) = (Value::Integer(key.registry.0), Value::Bytes(&id));
        let mut transaction = self.queue.index().database().begin().await?;
        transaction.execute(UNLIST, &[registry, tool, Value::Boolean(false)]).await?;
        let over = [registry, tool, Value::Integer(NEVER), Value::Integer(now.seconds())];
        if transaction.execute(END, &over).await? == 0 {
            // Somebody looked at it meanwhile, or ended it.
            transaction.rollback().await?;
            return Ok(false);
        }
        // Read after the row of the tool was locked.
        let sql = "SELECT document FROM index_listing WHERE registry = $1 AND tool = $2";
        let Some(row) = transaction.fetch_optional(sql, &[registry, tool]).await? else {
            transaction.commit().await?;
            return Ok(true);
        };
        let mut listing: Listing = serde_json::from_str(row.text(0)?).map_err(|_| Error::Corrupt { what: "listing" })?;
        let endpoint = listing.manifest.as_ref().map(|manifest| text_key(&manifest.endpoint));
        let code = codes::verify::STALE;
        listing.verdict = Verdict::Unknown;
        listing.verified = false;
        listing.failed = Some(Failure { check: None, step: "freshness".to_owned(), code: code.id().to_owned() });
        kept::keep_listing(&mut transaction, key, &listing, endpoint).await?;
        kept::add_verdict(&mut transaction, key, &VerdictChange::of(&listing, now)).await?;
        self.record_and_commit(transaction, key, Kinds::VERIFICATION).await?;
        Ok(true)
    }

    /// Tries again what others got in the way of.
    async fn retry<T, F: Future<Output = Result<T, Error>>>(&self, attempt: impl Fn() -> F) -> Result<T, Error> {
        let mut tried = 1;
        loop {
            match attempt().await {
                Err(Error::Store(toolcrib_store::Error::Busy { .. })) if tried < WRITES => {
                    tokio::time::sleep(Duration::from_millis(4 << tried)).await;
                    tried += 1;
                }
                done => return done,
            }
        }
    }
}

/// Everything that is written after a look.
struct Finding {
    listing: Listing,
    watch: Watch,
    kept: Kept,
    endpoint_key: Option<i64>,
    /// [`NEVER`] for what is not listed.
    expires_at: i64,
    next: Option<Next>,
    kinds: Kinds,
}

/// Whether a listing is about the registration as it is.
fn is_about(listing: &Listing, row: &ToolRow) -> bool {
    listing.manifest_hash == row.manifest_hash && listing.metadata_uri == row.metadata_uri
}

/// Whether the chain said the same about the tool as the index.
fn is_same_registration(row: &ToolRow, evidence: &Evidence) -> bool {
    let last = evidence.chain.as_ref().and_then(|reads| reads.config.last());
    match last.map(|read| &read.state) {
        Some(ToolState::Present(config)) => {
            config.creator == row.creator
                && config.metadata_uri == row.metadata_uri
                && config.manifest_hash == row.manifest_hash
                && config.access_predicate == row.predicate
        }
        _ => false,
    }
}

/// What a listing changes for those who read the feed.
fn changed(before: Option<&Listing>, after: &Listing) -> Kinds {
    let Some(before) = before else { return Kinds::VERIFICATION };
    let answer = |listing: &Listing| VerdictChange::of(listing, after.checked_at);
    if answer(before) != answer(after) {
        return Kinds::VERIFICATION;
    }
    // Times and measurements move with every look; only what they amount to is news.
    let same =
        Listing { checked_at: after.checked_at, expires_at: after.expires_at, health: after.health.clone(), ..before.clone() };
    if same == *after && before.health.status() == after.health.status() { Kinds::default() } else { Kinds::FACTS }
}

/// A pause that doubles with each attempt, up to a longest one.
fn grown(first: i64, attempts: u32, longest: i64) -> i64 {
    first.saturating_mul(1_i64.checked_shl(attempts.min(32)).unwrap_or(i64::MAX)).min(longest.max(first))
}

/// Up to a tenth more, by the tool: what was registered at once is not looked at at once for ever.
fn spread(key: ToolKey, seconds: i64) -> i64 {
    let id = key.id_bytes();
    let hash = alloy_primitives::keccak256([&key.registry.0.to_be_bytes()[..], &id].concat());
    i64::from(u16::from_be_bytes([hash[0], hash[1]])) * (seconds / 10) / i64::from(u16::MAX)
}
