//! One replica: what its last probe said, and whether it may be read.

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

/// Probes in a row that must run out of time before a replica counts as slow: a machine under load may be slow once.
const SLOW_PROBES: u32 = 2;

/// Time between two probes of a replica that cannot be used.
const PROBE_PAUSE: Duration = Duration::from_secs(1);

/// Whether a replica may be read, and why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplicaState {
    /// It was not asked yet.
    Unknown,
    /// It may be read.
    Usable,
    /// It does not answer.
    Unreachable,
    /// It answers too slowly.
    Slow,
    /// It is further behind than is allowed.
    Behind,
    /// It follows no server.
    Promoted,
    /// It lacks a migration.
    Schema,
    /// It belongs to another index.
    Identity,
    /// It has changes that the primary does not have.
    Diverged,
}

impl ReplicaState {
    /// Why it is not used.
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

    /// Whether answers that are being made from it are given up: they would come late or be wrong.
    const fn is_broken(self) -> bool {
        !matches!(self, Self::Unknown | Self::Usable | Self::Behind)
    }
}

/// How a replica is, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaReport {
    /// Its place among the replicas, counted from 1.
    pub number: usize,
    /// Host and database, for logs.
    pub name: String,
    /// Whether it may be read.
    pub state: ReplicaState,
    /// The number of its last change.
    pub watermark: i64,
    /// How old its state is, as far as it is known.
    pub age: Duration,
}

/// A replica of the database.
#[derive(Debug)]
pub struct Replica {
    number: usize,
    index: Index,
    status: Mutex<Status>,
    /// Whether what is being read from it is given up.
    broken: watch::Sender<bool>,
}

#[derive(Debug)]
struct Status {
    state: ReplicaState,
    /// What the last probe found, before its age is looked at.
    probed: ReplicaState,
    watermark: i64,
    beat: i64,
    late: u32,
    at: Option<Instant>,
    /// A database that has all migrations keeps them; another one may be put in its place while it does not answer.
    is_schema_known: bool,
}

/// What a probe reads.
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

    /// Its place among the replicas, counted from 1.
    pub const fn number(&self) -> usize {
        self.number
    }

    /// The index as it has it.
    pub const fn index(&self) -> &Index {
        &self.index
    }

    /// The number of its last change.
    pub fn watermark(&self) -> i64 {
        self.status().watermark
    }

    /// Whether it may be read. One that did not answer the last probe in time is left alone until the next one.
    pub(super) fn is_usable(&self) -> bool {
        let status = self.status();
        status.state == ReplicaState::Usable && status.late == 0
    }

    pub(super) fn age(&self, observed: &Observed) -> Duration {
        let status = self.status();
        observed.age(status.watermark, status.beat)
    }

    /// Waits until a probe finds that nothing can be read from it.
    pub async fn broken(&self) {
        // The sender lives as long as this.
        let _ = self.broken.subscribe().wait_for(|is_broken| *is_broken).await;
    }

    /// A read from it failed: it is not used until a probe finds it well.
    pub fn failed(&self) {
        let mut status = self.status();
        if status.state == ReplicaState::Usable {
            status.state = ReplicaState::Unreachable;
            status.probed = ReplicaState::Unreachable;
            self.changed(&status, None);
        }
    }

    /// Whether it is time for a probe.
    pub(super) fn is_due(&self) -> bool {
        let status = self.status();
        // One that is only behind is watched closely.
        !status.probed.is_broken() || status.at.is_none_or(|at| at.elapsed() >= PROBE_PAUSE)
    }

    /// Asks it how it is.
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
            // Once is no reason; what is known of it gets older meanwhile.
            Err(_) => return,
        };
        if status.probed.is_broken() {
            status.is_schema_known = false;
        }
    }

    /// What it says, or why it is no replica of ours.
    async fn read(&self, identity: &[u8], is_schema_known: bool) -> Result<Result<Reading, ReplicaState>, Error> {
        let database = self.index.database();
        if !database.is_replica().await? {
            return Ok(Err(ReplicaState::Promoted));
        }
        if !is_schema_known && database.missing_migration(MODULES).await?.is_some() {
            return Ok(Err(ReplicaState::Schema));
        }
        let Some(row) = database.fetch_optional(PROBE, &[]).await? else {
            // The row is made after the tables, and has not arrived.
            return Ok(Err(ReplicaState::Schema));
        };
        let row = ProbeRow::from_row(&row)?;
        if row.identity != identity {
            return Ok(Err(ReplicaState::Identity));
        }
        Ok(Ok(Reading { watermark: row.last, beat: row.beat }))
    }

    /// Decides whether it may be read. `before` is what it had before the primary was asked.
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

    /// Says that its state is another one.
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
