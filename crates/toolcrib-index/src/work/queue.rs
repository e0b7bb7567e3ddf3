//! The verification queue: which tool is verified next, and by which worker.
//!
//! There is one job for each tool, so two requests cause one verification. A lease is a random token in the job's row and an expiry; no
//! lock is held while a worker works. To complete a job a worker must show the token: a worker whose lease expired and went to another, or
//! was revoked because the chain changed the tool meanwhile, writes nothing. Changes on the chain are read from the feed before jobs are
//! leased (`intake.rs`).
//!
//! How a tool is verified and what is written is the worker's job.

use std::sync::Arc;

use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_store::database::{FromRow as _, PerEngine, Transaction, Value};
use toolcrib_store::{row, sql};

use super::expiry::HeldExpiries;
use super::groups::Lane;
use super::jobs_table::{ASKED, CHANGED, SLOW};
use super::kept::Until;
use crate::model::{RegistryId, ToolKey};
use crate::{Error, Index};

/// The priority of a tool that is no longer verified: it may only be in the middle of a deployment.
pub(crate) const SUSPECT: i64 = 2;
/// The priority of a tool whose regular verification is due.
pub(crate) const EXPIRED: i64 = 3;

/// The maximum number of jobs in one lease: more would wait in one process while others are idle.
pub const MAX_LEASE: usize = 64;

/// The maximum number of jobs that are counted, so that counting takes a few milliseconds.
pub const MAX_COUNTED: i64 = 10_000;

/// The inverse of the share of a lease that is for regular verifications, before anything else: a flood of registrations must not delay
/// those that are listed already.
const EXPIRED_SHARE: usize = 4;

/// Why a tool is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It was registered.
    New,
    /// Its registration changed.
    Updated,
    /// Its regular verification is due.
    Expired,
    /// It was verified, and the last run says otherwise.
    DriftSuspect,
    /// The code behind its predicate changed.
    Upgraded,
    /// A caller requested it.
    Requested,
}

impl Reason {
    const ALL: [Self; 6] = [Self::New, Self::Updated, Self::Expired, Self::DriftSuspect, Self::Upgraded, Self::Requested];

    /// Returns the word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Updated => "updated",
            Self::Expired => "expired",
            Self::DriftSuspect => "drift_suspect",
            Self::Upgraded => "upgraded",
            Self::Requested => "requested",
        }
    }

    /// Parses the word. A word from the feed is the name of an event; except for a registration, these and words of later versions count
    /// as an update.
    fn parse(word: &str) -> Self {
        if word == "registered" {
            return Self::New;
        }
        Self::ALL.into_iter().find(|reason| reason.as_str() == word).unwrap_or(Self::Updated)
    }

    /// Returns the reason of a retry after a run without a result. No caller waits for that one.
    pub(super) const fn again(self) -> Self {
        match self {
            Self::Requested => Self::Expired,
            other => other,
        }
    }

    pub(super) const fn priority(self) -> i64 {
        match self {
            Self::Requested => ASKED,
            Self::New | Self::Updated | Self::Upgraded => CHANGED,
            Self::DriftSuspect => SUSPECT,
            Self::Expired => EXPIRED,
        }
    }
}

/// A job that this process has leased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The tool.
    pub key: ToolKey,
    /// Why it is verified.
    pub reason: Reason,
    /// Consecutive runs that did not verify it.
    pub attempts: u32,
    /// The capacity that it may use.
    pub(crate) lane: Lane,
    /// The value in the row: a job that changes while it is leased stays due.
    pub(super) due_at: i64,
    pub(super) word: String,
    token: [u8; 16],
}

/// The job that follows a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) due_at: UnixTime,
    /// Seconds before `due_at` from which on it may run on free capacity.
    pub(crate) early: i64,
    pub(crate) priority: i64,
    pub(crate) reason: Reason,
    pub(crate) attempts: u32,
}

/// The length of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueState {
    /// Jobs that wait for a worker, at most [`MAX_COUNTED`]. Unprocessed feed entries are included: without a worker no jobs are created
    /// from them. A tool that also has a job counts twice.
    pub due: u64,
    /// Jobs that workers have leased, with the same limit.
    pub leased: u64,
    /// When the oldest waiting job was requested.
    pub oldest_due: Option<UnixTime>,
}

/// Jobs that one statement leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Jobs of this priority whose slot has come: there is an index for them.
    Only(i64),
    /// Jobs of this priority whose slot is in the future, and which may run early.
    Early(i64),
    /// Jobs of a priority that this program does not know.
    Other,
}

/// The jobs that a worker wants.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The maximum number of first tries, and never more than [`MAX_LEASE`].
    pub count: usize,
    /// The maximum number of full tries of tools with slow servers, with the same limit.
    pub slow: usize,
    /// The duration of the lease in seconds.
    pub seconds: i64,
    /// Only tools of these registries; `None` takes all.
    pub registries: Option<&'a [RegistryId]>,
}

/// The verification queue of an index. Cheap to clone.
#[derive(Clone)]
pub struct Queue {
    index: Index,
    /// Replaces the database's clock in tests.
    clock: Option<Arc<dyn Clock + Send + Sync>>,
    held: Arc<HeldExpiries>,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("index", &self.index).finish_non_exhaustive()
    }
}

const REQUEST: &str = "INSERT INTO index_job (registry, tool, due_at, priority, reason, attempts)
    SELECT registry, tool, $3, $4, 'requested', 0 FROM index_tool WHERE registry = $1 AND tool = $2
    ON CONFLICT (registry, tool) DO UPDATE SET
        due_at = CASE WHEN excluded.due_at < index_job.due_at THEN excluded.due_at ELSE index_job.due_at END,
        early = 0, priority = excluded.priority,
        reason = CASE WHEN index_job.reason = 'upgraded' THEN index_job.reason ELSE excluded.reason END";

const SUSPECTED: &str = "UPDATE index_job SET due_at = $3, early = 0, priority = $4, reason = 'drift_suspect'
    WHERE registry = $1 AND tool = $2 AND due_at > $3";

const COMPLETE: &str = "UPDATE index_job SET
        due_at = CASE WHEN due_at = $4 AND reason = $5 THEN $6 ELSE due_at END,
        priority = CASE WHEN due_at = $4 AND reason = $5 THEN $7 ELSE priority END,
        reason = CASE WHEN due_at = $4 AND reason = $5 THEN $8 ELSE reason END,
        early = CASE WHEN due_at = $4 AND reason = $5 THEN $10 ELSE early END,
        attempts = $9, leased_until = NULL, lease = NULL
    WHERE registry = $1 AND tool = $2 AND lease = $3";

const POSTPONE: &str = "UPDATE index_job SET due_at = CASE WHEN due_at = $4 AND reason = $5 THEN $6 ELSE due_at END,
        early = CASE WHEN due_at = $4 AND reason = $5 THEN 0 ELSE early END, leased_until = NULL, lease = NULL
    WHERE registry = $1 AND tool = $2 AND lease = $3";

const FORGET: &str = "DELETE FROM index_job WHERE registry = $1 AND tool = $2 AND lease = $3";

row! {
    struct DueRow {
        jobs: i64 = "COUNT(*)",
        oldest: Option<UnixTime> = "MIN(asked_at)",
    }
}

/// Of one priority, so that it is read in its order.
const COUNT_DUE: &str = sql!(
    "SELECT ",
    DueRow::COLUMNS,
    " FROM (SELECT due_at - early AS asked_at FROM index_job
    WHERE priority = $3 AND due_at <= $1 AND (leased_until IS NULL OR leased_until <= $1) ORDER BY due_at LIMIT $2) AS waiting"
);
/// The same for those whose turn lies ahead.
const COUNT_EARLY: &str = sql!(
    "SELECT ",
    DueRow::COLUMNS,
    " FROM (SELECT due_at - early AS asked_at FROM index_job
    WHERE priority = $3 AND early > 0 AND due_at > $1 AND due_at - early <= $1 AND (leased_until IS NULL OR leased_until <= $1)
    ORDER BY due_at LIMIT $2) AS waiting"
);
const COUNT_LEASED: &str =
    "SELECT COUNT(*) FROM (SELECT 1 FROM index_job WHERE leased_until IS NOT NULL AND leased_until > $1 LIMIT $2) AS held";

row! {
    /// A job that was leased.
    struct LeasedRow<'r> {
        registry: i64,
        tool: &'r [u8],
        due_at: i64,
        reason: String,
        attempts: i64,
        priority: i64,
    }
}

impl Queue {
    /// Creates the queue of an index.
    pub fn new(index: Index) -> Self {
        Self { index, clock: None, held: Arc::default() }
    }

    /// Returns the same queue with a clock in place of the database's, which expires listings. For tests.
    #[must_use]
    pub fn with_clock(self, clock: impl Clock + Send + Sync + 'static) -> Self {
        Self { clock: Some(Arc::new(clock)), ..self }
    }

    /// Returns the same queue on this index, such as one on a replica.
    #[must_use]
    pub fn on(&self, index: Index) -> Self {
        Self { index, ..self.clone() }
    }

    /// Returns the time that expires listings, given the database's.
    pub(super) fn time(&self, database: UnixTime) -> UnixTime {
        self.clock.as_ref().map_or(database, |clock| clock.now())
    }

    /// Returns until when a tool is listed: a time by the clock of a worker, which shows `now`.
    pub(super) fn listed_until(&self, expires_at: UnixTime, now: UnixTime) -> Until {
        match self.clock {
            Some(_) => Until::At(expires_at),
            None => Until::For(expires_at.since(now)),
        }
    }

    pub(super) fn held(&self) -> &HeldExpiries {
        &self.held
    }

    /// Returns the index.
    pub const fn index(&self) -> &Index {
        &self.index
    }

    /// Puts a tool at the front of the queue. `false` when the tool does not exist.
    pub async fn request(&self, key: ToolKey, now: UnixTime) -> Result<bool, Error> {
        let id = key.id_bytes();
        let values = [Value::Integer(key.registry.0), Value::Bytes(&id), Value::Integer(now.seconds()), Value::Integer(ASKED)];
        Ok(self.index.database().execute(REQUEST, &values).await? > 0)
    }

    /// Enqueues a tool for an early verification because a caller suspects that it has changed.
    pub async fn suspect(&self, key: ToolKey, now: UnixTime) -> Result<(), Error> {
        let id = key.id_bytes();
        let values = [Value::Integer(key.registry.0), Value::Bytes(&id), Value::Integer(now.seconds()), Value::Integer(SUSPECT)];
        self.index.database().execute(SUSPECTED, &values).await?;
        Ok(())
    }

    /// Leases jobs: those that a caller waits for first, then changes, then the rest, each in slot order; on the remaining capacity, those
    /// whose slot is in the future. Slow tools have separate capacity. Changes of the chain are processed before.
    pub async fn lease(&self, wanted: Wanted<'_>, now: UnixTime) -> Result<Vec<Job>, Error> {
        let (count, places) = (wanted.count.min(MAX_LEASE), wanted.slow.min(MAX_LEASE));
        if count + places == 0 || wanted.registries.is_some_and(<[RegistryId]>::is_empty) {
            return Ok(Vec::new());
        }
        self.intake(now).await?;
        let mut token = [0; 16];
        getrandom::fill(&mut token).map_err(|_| Error::Corrupt { what: "source of randomness" })?;
        let mut transaction = self.index.database().begin().await?;
        let mut jobs = Vec::with_capacity(count + places);
        // A lease for fewer jobs reserves one of them every few leases.
        let share =
            if count < EXPIRED_SHARE { usize::from(usize::from(token[0]) % EXPIRED_SHARE == 0) } else { count / EXPIRED_SHARE };
        let first = [
            (Class::Only(EXPIRED), share),
            (Class::Only(ASKED), count),
            (Class::Only(CHANGED), count),
            (Class::Only(SUSPECT), count),
            (Class::Only(EXPIRED), count),
            (Class::Early(CHANGED), count),
            (Class::Other, count),
        ];
        let slow = [(Class::Only(SLOW), places), (Class::Early(SLOW), places)];
        for (classes, places) in [(first.as_slice(), count), (slow.as_slice(), places)] {
            let before = jobs.len();
            for (class, most) in classes {
                let most = (*most).min(places - (jobs.len() - before));
                // Words of later versions come last, and only when nothing else is due: there is no index for them.
                if most == 0 || (*class == Class::Other && jobs.len() > before) {
                    continue;
                }
                let sql = self.lease_sql(*class, wanted.registries.unwrap_or_default());
                let mut values = vec![
                    Value::Integer(now.plus(wanted.seconds).seconds()),
                    Value::Bytes(&token),
                    Value::Integer(now.seconds()),
                    Value::Integer(i64::try_from(most).unwrap_or(1)),
                ];
                if let Class::Only(priority) | Class::Early(priority) = class {
                    values.push(Value::Integer(*priority));
                }
                values.extend(wanted.registries.unwrap_or_default().iter().map(|registry| Value::Integer(registry.0)));
                for row in LeasedRow::from_rows(&transaction.fetch_made(sql, &values).await?) {
                    jobs.push(Job::of(row?, token)?);
                }
            }
        }
        transaction.commit().await?;
        Ok(jobs)
    }

    /// Returns the statement that leases jobs of one class.
    fn lease_sql(&self, class: Class, registries: &[RegistryId]) -> String {
        let (class, first) = match class {
            Class::Only(_) => ("priority = $5 AND due_at <= $3".to_owned(), 6),
            // The partial index requires `early > 0`.
            Class::Early(_) => ("priority = $5 AND early > 0 AND due_at > $3 AND due_at - early <= $3".to_owned(), 6),
            Class::Other => (format!("NOT priority BETWEEN {ASKED} AND {SLOW} AND due_at <= $3"), 5),
        };
        let mut only = String::new();
        if !registries.is_empty() {
            let places: Vec<String> = (first..first + registries.len()).map(|place| format!("${place}")).collect();
            only = format!(" AND registry IN ({})", places.join(", "));
        }
        let skip = self.index.database().pick(PerEngine { sqlite: "", postgres: " FOR UPDATE SKIP LOCKED" });
        format!(
            "WITH due AS MATERIALIZED (SELECT registry, tool FROM index_job
                WHERE {class} AND (leased_until IS NULL OR leased_until <= $3){only}
                ORDER BY due_at LIMIT $4{skip})
            UPDATE index_job SET leased_until = $1, lease = $2 WHERE (registry, tool) IN (SELECT registry, tool FROM due)
            RETURNING {}",
            LeasedRow::COLUMNS
        )
    }

    /// Releases a job without completing it.
    pub async fn postpone(&self, job: &Job, until: UnixTime) -> Result<(), Error> {
        let id = job.key.id_bytes();
        let values = [
            Value::Integer(job.key.registry.0),
            Value::Bytes(&id),
            Value::Bytes(&job.token),
            Value::Integer(job.due_at),
            Value::Text(&job.word),
            Value::Integer(until.seconds()),
        ];
        self.index.database().execute(POSTPONE, &values).await?;
        Ok(())
    }

    /// Completes a job as a part of `transaction` and schedules the next one. `false` when this worker no longer holds it: then the
    /// transaction must not be committed.
    pub(crate) async fn complete(transaction: &mut Transaction, job: &Job, next: Option<Next>) -> Result<bool, Error> {
        let id = job.key.id_bytes();
        let tool = [Value::Integer(job.key.registry.0), Value::Bytes(&id), Value::Bytes(&job.token)];
        let Some(next) = next else { return Ok(transaction.execute(FORGET, &tool).await? == 1) };
        let rest = [
            Value::Integer(job.due_at),
            Value::Text(&job.word),
            Value::Integer(next.due_at.seconds()),
            Value::Integer(next.priority),
            Value::Text(next.reason.as_str()),
            Value::Integer(i64::from(next.attempts)),
            Value::Integer(next.early),
        ];
        let values: Vec<Value<'_>> = tool.into_iter().chain(rest).collect();
        Ok(transaction.execute(COMPLETE, &values).await? == 1)
    }
}

impl Index {
    /// Returns the length of the verification queue.
    pub async fn queue_state(&self, now: UnixTime) -> Result<QueueState, Error> {
        let (now, mut state) = (Value::Integer(now.seconds()), QueueState::default());
        let due = (ASKED..=SLOW).map(|priority| (COUNT_DUE, priority));
        for (sql, priority) in due.chain([(COUNT_EARLY, CHANGED), (COUNT_EARLY, SLOW)]) {
            // The oldest of each is needed even when the limit is reached.
            let room = Value::Integer(MAX_COUNTED.saturating_sub_unsigned(state.due).max(1));
            let row = self.database().fetch_optional(sql, &[now, room, Value::Integer(priority)]).await?;
            let row = row.ok_or(Error::Corrupt { what: "queue" })?;
            let DueRow { jobs, oldest } = DueRow::from_row(&row)?;
            state.due = (state.due + jobs.unsigned_abs()).min(MAX_COUNTED.unsigned_abs());
            state.oldest_due = [state.oldest_due, oldest].into_iter().flatten().min();
        }
        let row = self.database().fetch_optional(COUNT_LEASED, &[now, Value::Integer(MAX_COUNTED)]).await?;
        state.leased = row.ok_or(Error::Corrupt { what: "queue" })?.scalar::<i64>()?.unsigned_abs();
        let (more, since) = self.not_taken_in().await?;
        state.due = state.due.saturating_add(more).min(MAX_COUNTED.unsigned_abs());
        state.oldest_due = [state.oldest_due, since].into_iter().flatten().min();
        Ok(state)
    }
}

impl Job {
    fn of(row: LeasedRow<'_>, token: [u8; 16]) -> Result<Self, Error> {
        Ok(Self {
            key: ToolKey::from_columns(row.registry, row.tool)?,
            reason: Reason::parse(&row.reason),
            attempts: u32::try_from(row.attempts).unwrap_or(u32::MAX),
            lane: if row.priority == SLOW { Lane::Slow } else { Lane::First },
            due_at: row.due_at,
            word: row.reason,
            token,
        })
    }

    /// Returns the token of the lease.
    pub(crate) const fn token(&self) -> &[u8; 16] {
        &self.token
    }
}
