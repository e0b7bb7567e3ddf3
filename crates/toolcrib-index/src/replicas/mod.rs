//! Read replicas of the database: which of them may be read, and how new they are.
//!
//! A replica answers for a moment in the past. Two things say which. Its **watermark** is the number of the last change in its feed: an
//! answer that must show change 7 comes from a replica whose watermark is 7 or more. Its **beat** is a time that nodes write into a row of
//! the primary each second: what the primary committed before the newest beat of a replica is in the replica, also what is no change of a
//! tool. The time is the primary's own, so no two clocks are compared.
//!
//! Replicas are probed beside the requests. One that does not answer, is slow, is behind, was promoted, lacks a migration, or belongs to
//! another index is not used until a probe finds it well again, so no request waits for it.

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

/// `beat` is a time of the primary's clock, in milliseconds.
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

/// Milliseconds between two beats: a tenth of the smallest useful limit.
const BEAT_EVERY: i64 = 1_000;

/// How long a probe waits. A replica in the same building answers in a millisecond.
const PROBE_TIME: Duration = Duration::from_millis(500);

/// Time between two probes of those who only watch.
const WATCH_EVERY: Duration = Duration::from_millis(250);

/// How old replicas may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaLimits {
    /// How far a replica may be behind while the primary answers.
    pub lag: Duration,
    /// How old its state may be while the primary does not answer. Answers that are older than `lag` say so.
    pub age: Duration,
}

impl Default for ReplicaLimits {
    fn default() -> Self {
        // Streaming takes milliseconds, and beats come once a second. An hour is enough to repair or replace a primary.
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
    /// One look at all of them at a time.
    probing: tokio::sync::Mutex<()>,
}

/// What the primary said last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observed {
    /// When it said so.
    at: Instant,
    /// The number of its last change.
    last: i64,
    /// The last beat.
    beat: i64,
    /// Its time.
    now: i64,
    /// Whether it did not answer the last time that it was asked.
    is_away: bool,
}

impl Observed {
    /// How old the state of a replica is. One that has all that the primary had is as old as what is known of the primary.
    fn age(&self, watermark: i64, beat: i64) -> Duration {
        let is_caught_up = watermark >= self.last && beat >= self.beat;
        let as_of = if is_caught_up { self.now.max(beat) } else { beat };
        let elapsed = if self.is_away { i64::try_from(self.at.elapsed().as_millis()).unwrap_or(i64::MAX) } else { 0 };
        Duration::from_millis(u64::try_from(self.now.saturating_add(elapsed) - as_of).unwrap_or_default())
    }
}

/// What a look at the primary and its replicas came to.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Up to which change every replica in use can tell.
    pub watermark: i64,
    /// The newest of them, or the primary where there is none.
    pub source: Index,
    /// The replica that it is.
    pub replica: Option<Arc<Replica>>,
}

impl Replicas {
    /// The replicas of an index at these places. None of them is asked anything yet; the primary has to answer.
    pub async fn open(primary: Index, places: &[Location], limits: ReplicaLimits) -> Result<Self, Error> {
        let mut all = Vec::with_capacity(places.len());
        for (place, number) in places.iter().zip(1..) {
            all.push(Arc::new(Replica::new(number, primary.on_replica(Database::open_replica(place)?))));
        }
        let database = primary.database();
        let identity = match all.is_empty() {
            // Without replicas nothing is compared and nothing beats.
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

    /// No replicas: everything is read from the primary.
    pub fn none(primary: Index) -> Self {
        Self::with(primary, Vec::new(), Vec::new(), ReplicaLimits::default())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.shared.all.is_empty()
    }

    /// Probes again and again, beside observers: what is being read from a replica that fails is given up without delay.
    pub async fn watch(&self) {
        if self.is_empty() {
            return std::future::pending().await;
        }
        loop {
            // What went wrong was logged.
            let _ = self.probe().await;
            tokio::time::sleep(WATCH_EVERY).await;
        }
    }

    /// Looks at the primary and at all replicas. `least` is what answers show already: a replica that does not have it is not used, so
    /// nothing that was shown disappears.
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

    /// Asks the primary and all replicas how they are. Gives the number of the primary's last change.
    async fn probe(&self) -> Result<i64, Error> {
        let shared = &self.shared;
        let _one = shared.probing.lock().await;
        // Read before the primary is: it must have all of this.
        let before: Vec<i64> = shared.all.iter().map(|replica| replica.watermark()).collect();
        let probes = shared.all.iter().filter(|replica| replica.is_due()).map(|replica| replica.probe(&shared.identity));
        let (sampled, _) = tokio::join!(self.sample(), join_all(probes));
        let observed = self.observed();
        for (replica, before) in shared.all.iter().zip(before) {
            replica.judge(&observed, shared.limits, before);
        }
        sampled
    }

    /// Asks the primary for its last change and its time, and sees that there is a beat. Gives the number of the change.
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

    /// Writes a beat beside everything else: a commit may wait for a standby that is away.
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

    /// Whether the primary answered the last time that it was asked.
    pub fn has_primary(&self) -> bool {
        !self.observed().is_away
    }

    fn usable(&self, least: i64) -> impl Iterator<Item = &Arc<Replica>> {
        self.shared.all.iter().filter(move |replica| replica.is_usable() && replica.watermark() >= least)
    }

    /// The replicas that can tell everything up to a change, each of them once. Another one is the first each time.
    pub fn candidates(&self, least: i64) -> Vec<Arc<Replica>> {
        let mut usable: Vec<_> = self.usable(least).cloned().collect();
        if !usable.is_empty() {
            let turn = self.shared.turn.fetch_add(1, Ordering::Relaxed) % usable.len();
            usable.rotate_left(turn);
        }
        usable
    }

    /// The newest replica that may be read, whatever it can tell.
    pub fn newest(&self) -> Option<Arc<Replica>> {
        self.usable(i64::MIN).max_by_key(|replica| replica.watermark()).cloned()
    }

    /// How many seconds old answers may be because the primary does not answer, once they are older than replicas may be otherwise.
    pub fn stale_seconds(&self) -> Option<u64> {
        let observed = self.observed();
        let oldest = || self.usable(i64::MIN).map(|replica| replica.age(&observed)).max();
        let age = if observed.is_away { oldest() } else { None };
        age.filter(|age| *age > self.shared.limits.lag).map(|age| age.as_secs().max(1))
    }

    /// How each of them is, for operators.
    pub fn reports(&self) -> Vec<ReplicaReport> {
        let observed = self.observed();
        self.shared.all.iter().map(|replica| replica.report(&observed)).collect()
    }
}
