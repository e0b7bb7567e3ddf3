//! One replica: the result of its last probe, and whether it may be read.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use toolcrib_store::database::FromRow as _;
use toolcrib_store::{row, sql};

use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use toolcrib_core::codes::{self, Code};

use super::{Observed, PROBE_TIME, ReplicaLimits};
use crate::index::MODULES;
use crate::{Error, Index};

row! {
    struct ProbeRow<'r> {
        last: i64 = "f.last",
        beat: i64 = "r.beat",
        identity: &'r [u8] = "i.identity",
    }
}

const PROBE: &str = sql!(
    "SELECT ",
    ProbeRow::COLUMNS,
    " FROM index_feed f, index_replication r, index_identity i WHERE f.id = 1 AND r.id = 1 AND i.id = 1"
);

/// Consecutive probes that must time out before a replica counts as slow: a machine under load may be slow once.
const SLOW_PROBES: u32 = 2;

/// Time between two probes of a replica that cannot be used.
const PROBE_PAUSE: Duration = Duration::from_secs(1);

/// Whether a replica may be read, and why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplicaState {
    /// It was not probed yet.
    Unknown,
    /// It may be read.
    Usable,
    /// It does not respond.
    Unreachable,
    /// It responds too slowly.
    Slow,
    /// It is further behind than allowed.
    Behind,
    /// It is no longer in recovery: it was promoted.
    Promoted,
    /// It lacks a migration.
    Schema,
    /// It belongs to another index.
    Identity,
    /// It has changes that the primary does not have.
    Diverged,
}

impl ReplicaState {
    /// Returns the code of the reason why it is not used.
    pub const fn code(self) -> Option<Code> {
        match self {
            Self::Unknown | Self::Usable => None,
            Self::Unreachable => Some(codes::replica::UNREACHABLE),
            Self::Slow => Some(codes::replica::SLOW),
            Self::Behind => Some(codes::replica::BEHIND),
            Self::Promoted => Some(codes::replica::PROMOTED),
            Self::Schema => Some(codes::replica::SCHEMA),
            Self::Identity => Some(codes::replica::IDENTITY),
            Self::Diverged => Some(codes::replica::DIVERGED),
        }
    }

    /// Whether reads in progress are aborted: they would be late or wrong.
    const fn is_broken(self) -> bool {
        !matches!(self, Self::Unknown | Self::Usable | Self::Behind)
    }
}

/// The state of a replica, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaReport {
    /// Its position in the list of replicas, counted from 1.
    pub number: usize,
    /// Host and database, for logs.
    pub name: String,
    /// Whether it may be read.
    pub state: ReplicaState,
    /// The number of its last change.
    pub watermark: i64,
    /// The age of its state, if known.
    pub age: Duration,
}

/// A replica of the database.
#[derive(Debug)]
pub struct Replica {
    number: usize,
    index: Index,
    status: Mutex<Status>,
    /// Whether reads from it are aborted.
    broken: watch::Sender<bool>,
}

#[derive(Debug)]
struct Status {
    state: ReplicaState,
    /// The result of the last probe, before its age is considered.
    probed: ReplicaState,
    watermark: i64,
    beat: i64,
    late: u32,
    at: Option<Instant>,
    /// A database that has all migrations keeps them; but another database may replace it while it does not respond.
    is_schema_known: bool,
}

/// The values that a probe reads.
struct Reading {
    watermark: i64,
    beat: i64,
}

impl Replica {
    pub(super) fn new(number: usize, index: Index) -> Self {
        let status = Status {
            state: ReplicaState::Unknown,
            probed: ReplicaState::Unknown,
            watermark: 0,
            beat: 0,
            late: 0,
            at: None,
            is_schema_known: false,
        };
        Self { number, index, status: Mutex::new(status), broken: watch::Sender::new(false) }
    }

    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns its position in the list of replicas, counted from 1.
    pub const fn number(&self) -> usize {
        self.number
    }

    /// Returns the index on this replica.
    pub const fn index(&self) -> &Index {
        &self.index
    }

    /// Returns the number of its last change.
    pub fn watermark(&self) -> i64 {
        self.status().watermark
    }

    /// Whether it may be read. A replica that did not respond to the last probe in time is not used until the next one.
    pub(super) fn is_usable(&self) -> bool {
        let status = self.status();
        status.state == ReplicaState::Usable && status.late == 0
    }

    pub(super) fn age(&self, observed: &Observed) -> Duration {
        let status = self.status();
        observed.age(status.watermark, status.beat)
    }

    /// Waits until a probe finds that it cannot be read.
    pub async fn broken(&self) {
        // The sender lives as long as this.
        let _ = self.broken.subscribe().wait_for(|is_broken| *is_broken).await;
    }

    /// Records a failed read: it is not used until a probe succeeds.
    pub fn failed(&self) {
        let mut status = self.status();
        if status.state == ReplicaState::Usable {
            status.state = ReplicaState::Unreachable;
            status.probed = ReplicaState::Unreachable;
            self.changed(&status, None);
        }
    }

    /// Whether a probe is due.
    pub(super) fn is_due(&self) -> bool {
        let status = self.status();
        // A replica that is only behind is probed often.
        !status.probed.is_broken() || status.at.is_none_or(|at| at.elapsed() >= PROBE_PAUSE)
    }

    /// Probes it.
    pub(super) async fn probe(&self, identity: &[u8]) {
        let is_schema_known = self.status().is_schema_known;
        let outcome = timeout(PROBE_TIME, self.read(identity, is_schema_known)).await;
        let mut status = self.status();
        status.at = Some(Instant::now());
        status.late = if outcome.is_err() { status.late + 1 } else { 0 };
        status.probed = match outcome {
            Ok(Ok(Ok(reading))) => {
                status.watermark = reading.watermark;
                status.beat = reading.beat;
                status.is_schema_known = true;
                ReplicaState::Usable
            }
            Ok(Ok(Err(state))) => state,
            Ok(Err(error)) => {
                tracing::debug!(replica = self.number, code = error.code().id(), %error, "read replica failed a probe");
                ReplicaState::Unreachable
            }
            Err(_) if status.late >= SLOW_PROBES => ReplicaState::Slow,
            // A single timeout does not count; its known state gets older meanwhile.
            Err(_) => return,
        };
        if status.probed.is_broken() {
            status.is_schema_known = false;
        }
    }

    /// Reads its state, or the reason why it is not a replica of this index.
    async fn read(&self, identity: &[u8], is_schema_known: bool) -> Result<Result<Reading, ReplicaState>, Error> {
        let database = self.index.database();
        if !database.is_replica().await? {
            return Ok(Err(ReplicaState::Promoted));
        }
        if !is_schema_known && database.missing_migration(MODULES).await?.is_some() {
            return Ok(Err(ReplicaState::Schema));
        }
        let Some(row) = database.fetch_optional(PROBE, &[]).await? else {
            // The row is inserted after the tables are created, and has not been replicated yet.
            return Ok(Err(ReplicaState::Schema));
        };
        let row = ProbeRow::from_row(&row)?;
        if row.identity != identity {
            return Ok(Err(ReplicaState::Identity));
        }
        Ok(Ok(Reading { watermark: row.last, beat: row.beat }))
    }

    /// Decides whether it may be read. `before` is its watermark before the primary was sampled.
    pub(super) fn judge(&self, observed: &Observed, limits: ReplicaLimits, before: i64) {
        let mut status = self.status();
        let age = observed.age(status.watermark, status.beat);
        let limit = if observed.is_away { limits.age } else { limits.lag };
        let state = match status.probed {
            ReplicaState::Usable if !observed.is_away && before > observed.last => ReplicaState::Diverged,
            ReplicaState::Usable if age > limit => ReplicaState::Behind,
            probed => probed,
        };
        if std::mem::replace(&mut status.state, state) != state {
            self.changed(&status, Some(age));
        }
    }

    /// Logs a change of its state.
    fn changed(&self, status: &Status, age: Option<Duration>) {
        self.broken.send_replace(status.state.is_broken());
        let (replica, name) = (self.number, self.index.database().name());
        let lag_ms = age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
        match status.state.code() {
            Some(code) => {
                tracing::warn!(
                    replica,
                    name,
                    code = code.id(),
                    watermark = status.watermark,
                    lag_ms,
                    "read replica not used: {}",
                    code.title()
                );
            }
            None => tracing::info!(replica, name, watermark = status.watermark, lag_ms, "read replica in use"),
        }
    }

    pub(super) fn report(&self, observed: &Observed) -> ReplicaReport {
        let status = self.status();
        ReplicaReport {
            number: self.number,
            name: self.index.database().name().to_owned(),
            state: status.state,
            watermark: status.watermark,
            age: observed.age(status.watermark, status.beat),
        }
    }
}
