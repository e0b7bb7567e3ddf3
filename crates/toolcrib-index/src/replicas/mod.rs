//! Read replicas of the database: which of them may be read, and how far they are behind.
//!
//! A replica has the state of a moment in the past. Two values say which. Its **watermark** is the number of the last change in its feed:
//! a response that must include change 7 comes from a replica whose watermark is 7 or more. Its **heartbeat** is a time that nodes write
//! into a row of the primary each second: everything that the primary committed before the newest heartbeat of a replica is in the
//! replica, including writes that are not changes of a tool. The time is the primary's own, so clocks of different machines are never
//! compared.
//!
//! Replicas are probed in the background. One that does not respond, is slow, is behind, was promoted, lacks a migration, or belongs to
//! another index is not used until a probe succeeds again, so no request waits for it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout};
use toolcrib_store::database::{FromRow as _, Value};
use toolcrib_store::{Database, Location, Migration};
use toolcrib_store::{row, sql};

use crate::{Error, Index};

mod replica;

pub use replica::{Replica, ReplicaReport, ReplicaState};

/// `beat` is a time of the primary's clock in milliseconds.
pub(crate) const MIGRATIONS: &[Migration] =
    &[Migration { version: 1, sql: "CREATE TABLE index_replication (id BIGINT NOT NULL PRIMARY KEY, beat BIGINT NOT NULL);" }];

const BEGIN: &str = "INSERT INTO index_replication (id, beat) VALUES (1, 0) ON CONFLICT (id) DO NOTHING";

row! {
    struct SampleRow {
        last: i64 = "f.last",
        beat: i64 = "r.beat",
        now: i64 = "CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS BIGINT)",
    }
}

/// Only PostgreSQL has replicas, so there is no second spelling.
const SAMPLE: &str = sql!("SELECT ", SampleRow::COLUMNS, " FROM index_feed f, index_replication r WHERE f.id = 1 AND r.id = 1");
/// Several nodes beat; one of them each time is enough.
const BEAT: &str = "UPDATE index_replication SET beat = $1 WHERE id = 1 AND beat < $1 - 900";

/// Milliseconds between two heartbeats: a tenth of the smallest useful limit.
const BEAT_EVERY: i64 = 1_000;

/// The timeout of a probe. A replica in the same data centre responds in a millisecond.
const PROBE_TIME: Duration = Duration::from_millis(500);

/// Time between two probes while no request triggers them.
const WATCH_EVERY: Duration = Duration::from_millis(250);

/// How far replicas may be behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaLimits {
    /// The maximum lag of a replica while the primary responds.
    pub lag: Duration,
    /// The maximum age of a replica's state while the primary does not respond. Responses older than `lag` are marked as stale.
    pub age: Duration,
}

impl Default for ReplicaLimits {
    fn default() -> Self {
        // Streaming takes milliseconds, and heartbeats come once a second. An hour is enough to repair or replace a primary.
        Self { lag: Duration::from_secs(5), age: Duration::from_secs(3_600) }
    }
}

/// The replicas of an index. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Replicas {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    primary: Index,
    identity: Vec<u8>,
    all: Vec<Arc<Replica>>,
    limits: ReplicaLimits,
    observed: Mutex<Observed>,
    turn: AtomicUsize,
    is_beating: AtomicBool,
    /// Held while all of them are probed.
    probing: tokio::sync::Mutex<()>,
}

/// The last sample of the primary.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed {
    /// When it was taken.
    at: Instant,
    /// The number of its last change.
    last: i64,
    /// The last heartbeat.
    beat: i64,
    /// The primary's time.
    now: i64,
    /// Whether the primary did not respond to the last request.
    is_away: bool,
}

impl Observed {
    /// Returns the age of a replica's state. A replica with everything that the primary had is as old as the last sample of the primary.
    fn age(&self, watermark: i64, beat: i64) -> Duration {
        let is_caught_up = watermark >= self.last && beat >= self.beat;
        let as_of = if is_caught_up { self.now.max(beat) } else { beat };
        let elapsed = if self.is_away { i64::try_from(self.at.elapsed().as_millis()).unwrap_or(i64::MAX) } else { 0 };
        Duration::from_millis(u64::try_from(self.now.saturating_add(elapsed) - as_of).unwrap_or_default())
    }
}

/// The result of observing the primary and its replicas.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The highest change that every usable replica has.
    pub watermark: i64,
    /// The newest replica, or the primary if none is usable.
    pub source: Index,
    /// The replica behind `source`.
    pub replica: Option<Arc<Replica>>,
}

impl Replicas {
    /// Opens the replicas of an index at these locations. None of them is contacted yet; the primary must respond.
    pub async fn open(primary: Index, places: &[Location], limits: ReplicaLimits) -> Result<Self, Error> {
        let mut all = Vec::with_capacity(places.len());
        for (place, number) in places.iter().zip(1..) {
            all.push(Arc::new(Replica::new(number, primary.on_replica(Database::open_replica(place)?))));
        }
        let database = primary.database();
        let identity = match all.is_empty() {
            // Without replicas no heartbeats are needed.
            true => Vec::new(),
            false if database.engine() == toolcrib_store::database::Engine::Sqlite => {
                let reason = "read replicas require an index in PostgreSQL, not in a SQLite file";
                return Err(toolcrib_store::Error::Location { reason }.into());
            }
            false => {
                database.execute(BEGIN, &[]).await?;
                primary.identity().await?.to_vec()
            }
        };
        Ok(Self::with(primary, identity, all, limits))
    }

    fn with(primary: Index, identity: Vec<u8>, all: Vec<Arc<Replica>>, limits: ReplicaLimits) -> Self {
        let observed = Observed { at: Instant::now(), last: 0, beat: 0, now: 0, is_away: false };
        let (observed, turn) = (Mutex::new(observed), AtomicUsize::new(0));
        let is_beating = AtomicBool::new(false);
        let probing = tokio::sync::Mutex::default();
        Self { shared: Arc::new(Shared { primary, identity, all, limits, observed, turn, is_beating, probing }) }
    }

    /// Creates an empty set: everything is read from the primary.
    pub fn none(primary: Index) -> Self {
        Self::with(primary, Vec::new(), Vec::new(), ReplicaLimits::default())
    }

    /// Whether there are no replicas.
    pub fn is_empty(&self) -> bool {
        self.shared.all.is_empty()
    }

    /// Probes at an interval, in addition to observers: reads from a replica that fails are aborted without delay.
    pub async fn watch(&self) {
        if self.is_empty() {
            return std::future::pending().await;
        }
        loop {
            // The error was logged.
            let _ = self.probe().await;
            tokio::time::sleep(WATCH_EVERY).await;
        }
    }

    /// Probes the primary and all replicas. `least` is the last change that responses have shown already: a replica without it is not
    /// used, so that nothing that was shown disappears.
    pub async fn observe(&self, least: i64) -> Result<Observation, Error> {
        let primary = || self.shared.primary.clone();
        if self.is_empty() {
            let watermark = self.shared.primary.last_change().await?;
            return Ok(Observation { watermark, source: primary(), replica: None });
        }
        let sampled = self.probe().await;
        let usable: Vec<_> = self.usable(least).cloned().collect();
        let watermark = usable.iter().map(|replica| replica.watermark()).min();
        match (watermark, usable.into_iter().max_by_key(|replica| replica.watermark())) {
            (Some(watermark), Some(newest)) => {
                Ok(Observation { watermark, source: newest.index().clone(), replica: Some(newest) })
            }
            _ => Ok(Observation { watermark: sampled?, source: primary(), replica: None }),
        }
    }

    /// Probes the primary and all replicas. Returns the number of the primary's last change.
    async fn probe(&self) -> Result<i64, Error> {
        let shared = &self.shared;
        let _one = shared.probing.lock().await;
        // Read before the primary: it must have all of this.
        let before: Vec<i64> = shared.all.iter().map(|replica| replica.watermark()).collect();
        let probes = shared.all.iter().filter(|replica| replica.is_due()).map(|replica| replica.probe(&shared.identity));
        let (sampled, _) = tokio::join!(self.sample(), join_all(probes));
        let observed = self.observed();
        for (replica, before) in shared.all.iter().zip(before) {
            replica.judge(&observed, shared.limits, before);
        }
        sampled
    }

    /// Reads the last change and the time of the primary, and starts a heartbeat if one is due. Returns the number of the change.
    async fn sample(&self) -> Result<i64, Error> {
        let primary = &self.shared.primary;
        let asking = async {
            let last = primary.last_change().await?;
            let row = primary.database().fetch_optional(SAMPLE, &[]).await?.ok_or(Error::Corrupt { what: "feed" })?;
            let row = SampleRow::from_row(&row)?;
            Ok::<_, Error>((last.max(row.last), row.beat, row.now))
        };
        let late = || toolcrib_store::Error::Lost { detail: "the primary did not answer in time".to_owned() };
        let sampled = timeout(2 * PROBE_TIME, asking).await.unwrap_or_else(|_| Err(late().into()));
        let mut observed = self.shared.observed.lock().unwrap_or_else(PoisonError::into_inner);
        let was_away = observed.is_away;
        match sampled {
            Ok((last, beat, now)) => {
                *observed = Observed { at: Instant::now(), last, beat, now, is_away: false };
                drop(observed);
                if was_away {
                    tracing::info!("primary answers again");
                }
                if now - beat >= BEAT_EVERY {
                    self.beat(now);
                }
                Ok(last)
            }
            Err(error) => {
                observed.is_away = true;
                drop(observed);
                if !was_away {
                    tracing::warn!(code = error.code().id(), %error, "primary does not answer, reading from replicas only");
                }
                Err(error)
            }
        }
    }

    /// Writes a heartbeat in the background: a commit may wait for a standby that is unavailable.
    fn beat(&self, now: i64) {
        if self.shared.is_beating.swap(true, Ordering::AcqRel) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            if let Err(error) = shared.primary.database().execute(BEAT, &[Value::Integer(now)]).await {
                tracing::debug!(code = error.code().id(), "heartbeat not written");
            }
            shared.is_beating.store(false, Ordering::Release);
        });
    }

    fn observed(&self) -> Observed {
        *self.shared.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the primary responded to the last request.
    pub fn has_primary(&self) -> bool {
        !self.observed().is_away
    }

    fn usable(&self, least: i64) -> impl Iterator<Item = &Arc<Replica>> {
        self.shared.all.iter().filter(move |replica| replica.is_usable() && replica.watermark() >= least)
    }

    /// Returns the replicas that have everything up to a change, each once, starting with another one each time.
    pub fn candidates(&self, least: i64) -> Vec<Arc<Replica>> {
        let mut usable: Vec<_> = self.usable(least).cloned().collect();
        if !usable.is_empty() {
            let turn = self.shared.turn.fetch_add(1, Ordering::Relaxed) % usable.len();
            usable.rotate_left(turn);
        }
        usable
    }

    /// Returns the newest usable replica, whatever its watermark.
    pub fn newest(&self) -> Option<Arc<Replica>> {
        self.usable(i64::MIN).max_by_key(|replica| replica.watermark()).cloned()
    }

    /// Returns the age of responses in seconds while the primary does not respond, once it exceeds the normal lag limit.
    pub fn stale_seconds(&self) -> Option<u64> {
        let observed = self.observed();
        let oldest = || self.usable(i64::MIN).map(|replica| replica.age(&observed)).max();
        let age = if observed.is_away { oldest() } else { None };
        age.filter(|age| *age > self.shared.limits.lag).map(|age| age.as_secs().max(1))
    }

    /// Returns the state of each replica, for operators.
    pub fn reports(&self) -> Vec<ReplicaReport> {
        let observed = self.observed();
        self.shared.all.iter().map(|replica| replica.report(&observed)).collect()
    }
}
