//! Writes the result of a verification in one transaction.
//!
//! The write is fenced twice: by the lease, and by the registration that was verified, so that neither a late worker nor one that was
//! overtaken by a change of the registration writes anything.
//!
//! A verification that may have failed because of this machine's network does not unlist a tool; only its expiry does.

use std::sync::Arc;
use std::time::Duration;

use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_judge::evidence::{Evidence, ToolState};
use toolcrib_store::database::{Engine, Transaction, Value};

use super::batch::{Batches, Item, Outcome};
use super::groups::{Groups, Lane, Turns};
use super::jobs_table::SLOW;
use super::kept::{self, PreparedReport, Until, VerdictChange, Watch};
use super::look::Look;
use super::pace::WorkOptions;
use super::prior::{self, Prior, Subject};
use super::queue::{Job, Next, Queue, Reason};
use super::worker::Done;
use crate::facts::duplicates::Duplicates;
use crate::facts::health::{self, ResponseTime};
use crate::facts::{self, access, notices};
use crate::feed::{self, Kinds};
use crate::listing::Listing;
use crate::model::{ToolKey, ToolRow, ToolView};
use crate::{Error, text_key};

/// How often a write that conflicts with others is tried.
const WRITES: u32 = 6;

/// Writes results of verifications.
pub(super) struct Writer<'w> {
    pub(super) queue: &'w Queue,
    pub(super) options: &'w WorkOptions,
    pub(super) clock: &'w (dyn Clock + Send + Sync),
    pub(super) batches: &'w Batches,
}

/// The registration must be the one that was verified. The number of events alone does not distinguish two forks; and the lease does not
/// either, since only the next intake revokes it.
const LIST: &str = "UPDATE index_tool SET listed = $11, access = $12, uri_key = $13
    WHERE registry = $1 AND tool = $2 AND events = $3 AND uri = $4 AND hash = $5 AND creator = $6 AND predicate IS NOT DISTINCT FROM $7
        AND registered_block = $8 AND updated_block = $9 AND deregistered_block IS NOT DISTINCT FROM $10";
const HOLD: &str = "UPDATE index_tool SET access = COALESCE($11, access), uri_key = $12
    WHERE registry = $1 AND tool = $2 AND events = $3 AND uri = $4 AND hash = $5 AND creator = $6 AND predicate IS NOT DISTINCT FROM $7
        AND registered_block = $8 AND updated_block = $9 AND deregistered_block IS NOT DISTINCT FROM $10";

impl Writer<'_> {
    /// Writes a result, if the lease and the registration are still the same.
    pub(super) async fn write(&self, job: &Job, view: &ToolView, look: &Look, answer: ResponseTime) -> Result<Done, Error> {
        let row = &view.row;
        if row.is_active() && !is_same_registration(row, &look.evidence) {
            // The node is ahead of the follower, or behind it. The follower enqueues the tool when there is something new.
            let pause = self.options.while_behind(job.attempts);
            self.end_unknown(job, view, None, pause, job.reason.again().priority()).await?;
            return Ok(Done::Postponed);
        }
        let Prior { watch, duplicates } = self.prior(view, look).await?;
        let mut watch = watch.unwrap_or_default();
        health::add(&mut watch.looks, answer);
        let is_unknown = matches!(look.report.verdict, toolcrib_judge::Verdict::Unknown | toolcrib_judge::Verdict::Partial);
        if let Some(known) = view.listing.as_ref().filter(|known| is_unknown && is_about(known, row, &watch)) {
            let listing = freshened(known, look, row, &watch);
            let pause = self.options.after_unknown(job.attempts);
            return self.end_unknown(job, view, Some((&watch, &listing)), pause, WorkOptions::priority_again(job)).await;
        }
        let finding = self.derive(job, view, look, (watch, &duplicates), answer).await?;
        if self.queue.index().database().engine() == Engine::Sqlite || finding.next.is_none() {
            // SQLite has one writer at a time anyway, and unlisting a tool is rare.
            return retry(|| self.try_write(job, row, &finding)).await;
        }
        let item = Arc::new(Item { job: job.clone(), row: row.clone(), finding });
        match self.batches.write(self.queue.index(), Arc::clone(&item), self.clock.now()).await {
            Some(Outcome::Written) => Ok(Done::Written),
            Some(Outcome::Lost) => Ok(Done::Lost),
            Some(Outcome::Changed) => self.give_up(job).await,
            // Another item of the batch failed.
            None => retry(|| self.try_write(job, row, &item.finding)).await,
        }
    }

    /// Reads the state of a tool before its verdict is derived. On PostgreSQL for several jobs together.
    async fn prior(&self, view: &ToolView, look: &Look) -> Result<Prior, Error> {
        let index = self.queue.index();
        let subject = Subject::of(view, look.manifest.as_ref().map(|manifest| manifest.endpoint().normalized()));
        if index.database().engine() == Engine::Postgres {
            let read =
                self.batches.priors.call(subject.clone(), |subjects| async move { prior::read_many(index, &subjects).await });
            if let Some(prior) = read.await {
                return Ok(prior);
            }
        }
        prior::read(index, &subject).await
    }

    /// Derives everything that is written.
    async fn derive(
        &self,
        job: &Job,
        view: &ToolView,
        look: &Look,
        (mut watch, duplicates): (Watch, &Duplicates),
        answer: ResponseTime,
    ) -> Result<Finding, Error> {
        let (row, report, now) = (&view.row, &look.report, look.evidence.gathered_at);
        let is_announced = job.reason == Reason::Upgraded && row.predicate.is_some();
        let servers = look.name_servers.as_deref();
        let noticed = notices::notice(&watch.memory, row, &look.evidence, report, servers, is_announced);
        watch.memory = noticed.memory;
        if matches!(answer, ResponseTime::After(_)) {
            watch.memory.answered_at = Some(now);
        }
        let endpoint = look.manifest.as_ref().map(|manifest| manifest.endpoint().normalized());
        let next = self.options.next(job, view, look, self.clock.now());
        let is_good = report.verified && report.conformant && row.is_active();
        let expires_at = if is_good { self.options.expires_at(look) } else { next.map_or(now, |next| next.due_at) };
        let health = health::health(&watch.looks, watch.memory.answered_at);
        let listing = facts::listing(look, view, &watch.memory, duplicates, health, expires_at);
        let mut kinds = changed(view.listing.as_ref(), &listing);
        if noticed.is_upgraded {
            // Alone it is a kind of the chain, and would enqueue the next verification.
            let shown = if kinds == Kinds::default() { Kinds::FACTS } else { kinds };
            kinds = shown.and(Kinds::UPGRADED);
        }
        Ok(Finding {
            kept: PreparedReport::of(self.queue.index(), &look.evidence, report).await?,
            endpoint_key: endpoint.map(text_key),
            until: if is_good { self.queue.listed_until(expires_at, self.clock.now()) } else { Until::Never },
            listing,
            watch,
            next,
            kinds,
        })
    }

    async fn try_write(&self, job: &Job, row: &ToolRow, finding: &Finding) -> Result<Done, Error> {
        let id = job.key.id_bytes();
        let mut transaction = self.queue.index().database().begin().await?;
        // Lock the tool before the job, as followers do, to avoid a deadlock.
        let mut values = registration(row, &id);
        let is_listed = Value::Boolean(finding.until != Until::Never);
        let access = Value::Text(finding.listing.access.kind.as_str());
        values.extend([is_listed, access, Value::Integer(text_key(&row.metadata_uri))]);
        if transaction.execute(LIST, &values).await? == 0 {
            transaction.rollback().await?;
            return self.give_up(job).await;
        }
        if !Queue::complete(&mut transaction, job, finding.next).await? {
            transaction.rollback().await?;
            return Ok(Done::Lost);
        }
        kept::keep_listing(&mut transaction, job.key, &finding.listing, finding.endpoint_key).await?;
        let database = self.queue.index().database();
        kept::keep_watch(&mut transaction, database, job.key, &finding.watch, finding.until).await?;
        finding.kept.write(&mut transaction, job.key).await?;
        let change = VerdictChange::of(&finding.listing, finding.listing.checked_at);
        kept::add_verdict(&mut transaction, job.key, &change).await?;
        record_and_commit(transaction, job.key, finding.kinds, self.clock.now()).await?;
        Ok(Done::Written)
    }

    /// Handles a changed registration: the job stays due.
    async fn give_up(&self, job: &Job) -> Result<Done, Error> {
        self.queue.postpone(job, self.clock.now()).await?;
        Ok(Done::Lost)
    }

    /// Handles a chain that could not be read, or a timeout.
    pub(super) async fn back_off(&self, job: &Job, view: &ToolView) -> Result<Done, Error> {
        self.end_unknown(job, view, None, self.options.after_unknown(job.attempts), WorkOptions::priority_again(job)).await
    }

    /// Moves a job to the slow lane after a first try that timed out. No verdict, no health: nothing is known yet.
    pub(super) async fn defer(&self, job: &Job, view: &ToolView) -> Result<Done, Error> {
        let groups = Groups::of(view.row.creator.as_slice(), &view.row.metadata_uri);
        retry(|| async {
            let now = self.clock.now();
            let mut transaction = self.queue.index().database().begin().await?;
            // Groups before jobs, as the intake does.
            let mut turns = Turns::read(&mut transaction, std::iter::once(groups)).await?;
            turns.is_slow(groups, now);
            // Not before the next request to its origin is allowed.
            let soonest = now.plus(self.options.pause + 1);
            let due_at = turns.take(groups, Lane::Slow, soonest, now);
            turns.write(&mut transaction).await?;
            let early = due_at.since(soonest);
            let next = Next { due_at, early, priority: SLOW, reason: job.reason, attempts: job.attempts };
            if !Queue::complete(&mut transaction, job, Some(next)).await? {
                transaction.rollback().await?;
                return Ok(Done::Lost);
            }
            transaction.commit().await?;
            Ok(Done::Deferred)
        })
        .await
    }

    /// Ends a job without a result. What is known stays until it expires; `freshened` has facts that were read all the same.
    async fn end_unknown(
        &self,
        job: &Job,
        view: &ToolView,
        freshened: Option<(&Watch, &Listing)>,
        pause: i64,
        priority: i64,
    ) -> Result<Done, Error> {
        let due_at = self.clock.now().plus(pause);
        let attempts = job.attempts.saturating_add(1);
        let next = Next { due_at, early: 0, priority, reason: job.reason.again(), attempts };
        let kinds = freshened.map_or_else(Kinds::default, |(_, after)| changed(view.listing.as_ref(), after));
        retry(|| async {
            let id = job.key.id_bytes();
            let mut transaction = self.queue.index().database().begin().await?;
            let mut values = registration(&view.row, &id);
            values.push(Value::OptionalText(freshened.map(|(_, listing)| listing.access.kind.as_str())));
            values.push(Value::Integer(text_key(&view.row.metadata_uri)));
            if transaction.execute(HOLD, &values).await? == 0 {
                transaction.rollback().await?;
                return self.give_up(job).await;
            }
            if !Queue::complete(&mut transaction, job, Some(next)).await? {
                transaction.rollback().await?;
                return Ok(Done::Lost);
            }
            if let Some((watch, listing)) = freshened {
                let endpoint = listing.manifest.as_ref().map(|manifest| text_key(&manifest.endpoint));
                kept::keep_listing(&mut transaction, job.key, listing, endpoint).await?;
                let database = self.queue.index().database();
                kept::keep_watch(&mut transaction, database, job.key, watch, Until::Before).await?;
            }
            record_and_commit(transaction, job.key, kinds, self.clock.now()).await?;
            Ok(Done::Kept)
        })
        .await
    }

    /// Ends the job of a tool that does not exist any more.
    pub(super) async fn forget(&self, job: &Job) -> Result<Done, Error> {
        let mut transaction = self.queue.index().database().begin().await?;
        let done = if Queue::complete(&mut transaction, job, None).await? { Done::Kept } else { Done::Lost };
        transaction.commit().await?;
        Ok(done)
    }
}

/// Everything that is written after a verification.
pub(super) struct Finding {
    pub(super) listing: Listing,
    pub(super) watch: Watch,
    pub(super) kept: PreparedReport,
    pub(super) endpoint_key: Option<i64>,
    pub(super) until: Until,
    pub(super) next: Option<Next>,
    pub(super) kinds: Kinds,
}

/// Whether a listing is about the current registration. After a reorganisation another account may have registered the same id.
fn is_about(listing: &Listing, row: &ToolRow, watch: &Watch) -> bool {
    let creator = watch.memory.snapshot.as_ref().and_then(|look| look.creator);
    listing.manifest_hash == row.manifest_hash && listing.metadata_uri == row.metadata_uri && creator == Some(row.creator)
}

/// Returns a listing that stays, with current facts from the chain: the chain could be read, even if the server could not.
fn freshened(known: &Listing, look: &Look, row: &ToolRow, watch: &Watch) -> Listing {
    let health = health::health(&watch.looks, watch.memory.answered_at);
    let access = access::access(row.predicate, look.evidence.chain.as_ref(), &look.collections);
    Listing { health, access, ..known.clone() }
}

/// Returns the first ten parameters of a statement that requires this registration.
fn registration<'a>(row: &'a ToolRow, id: &'a [u8]) -> Vec<Value<'a>> {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    vec![
        Value::Integer(row.key.registry.0),
        Value::Bytes(id),
        Value::Integer(number(row.events)),
        Value::Text(&row.metadata_uri),
        Value::Bytes(row.manifest_hash.as_slice()),
        Value::Bytes(row.creator.as_slice()),
        Value::OptionalBytes(row.predicate.as_ref().map(|predicate| predicate.as_slice())),
        Value::Integer(number(row.registered.block)),
        Value::Integer(number(row.updated.block)),
        Value::OptionalInteger(row.deregistered.map(|at| number(at.block))),
    ]
}

pub(super) async fn record_and_commit(
    mut transaction: Transaction,
    key: ToolKey,
    kinds: Kinds,
    now: UnixTime,
) -> Result<(), Error> {
    if kinds != Kinds::default() {
        feed::record(&mut transaction, &[(key, kinds)], now).await?;
    }
    Ok(transaction.commit().await?)
}

/// Retries a transaction that conflicts with others.
pub(super) async fn retry<T, F: Future<Output = Result<T, Error>>>(attempt: impl Fn() -> F) -> Result<T, Error> {
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

/// Whether the chain and the index agree about the tool.
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

/// Returns the kinds of change for readers of the feed.
fn changed(before: Option<&Listing>, after: &Listing) -> Kinds {
    let Some(before) = before else { return Kinds::VERIFICATION };
    let answer = |listing: &Listing| VerdictChange::of(listing, after.checked_at);
    if answer(before) != answer(after) {
        return Kinds::VERIFICATION;
    }
    // Times and measurements change with every run; only derived states are news.
    let same =
        Listing { checked_at: after.checked_at, expires_at: after.expires_at, health: after.health.clone(), ..before.clone() };
    if same == *after && before.health.status() == after.health.status() { Kinds::default() } else { Kinds::FACTS }
}
