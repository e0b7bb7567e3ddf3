//! Expires listings.
//!
//! The time is that of the database: a process with a wrong clock expires nothing early. The clock of the database may be wrong too, and
//! then all listings seem to expire at once. So only a share of the listings may expire in an hour by the clock alone; more requires the
//! agreement of the chain, which is an independent clock: a follower records the time of its newest block, and a listing expires when that
//! has passed as well. The rest is held back, logged and counted until the chain or the operator agrees ([`Queue::agree_to_expiry`]).
//!
//! Expiring a listing enqueues a new verification in the same transaction.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes;
use toolcrib_store::Migration;
use toolcrib_store::database::{FromRow as _, PerEngine, Row, Value};
use toolcrib_store::{row, sql};

use super::kept::{self, NEVER, VerdictChange};
use super::queue::{EXPIRED, Queue, Reason};
use super::writing::{record_and_commit, retry};
use crate::feed::Kinds;
use crate::listing::{Failure, Listing, Verdict};
use crate::model::{RegistryId, ToolKey};
use crate::{Error, Index, text_key};

/// `index_chain_time` has the newest block of each registry's chain that a follower saw, and its time. `index_expiry` has one row: how
/// many listings expired in this hour without the chain's agreement, how many may, and up to which time the operator agreed.
pub(crate) const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    sql: "CREATE TABLE index_chain_time (registry BIGINT NOT NULL PRIMARY KEY, block BIGINT NOT NULL, time BIGINT NOT NULL);
    CREATE TABLE index_expiry (id BIGINT NOT NULL PRIMARY KEY, hour BIGINT NOT NULL, ended BIGINT NOT NULL, allowed BIGINT NOT NULL,
        agreed BIGINT NOT NULL);
    INSERT INTO index_expiry (id, hour, ended, allowed, agreed) VALUES (1, 0, 0, 0, 0);",
}];

/// The number of listings that one transaction expires, and the number of transactions before other work continues.
const MAX_EXPIRED: i64 = 100;
const MAX_EXPIRED_GOES: usize = 10;

/// The inverse of the share of all listings that may expire in an hour without the chain's agreement. Listings are valid for a day at
/// most, so with servers failing at random one in twenty-four expires in an hour.
const FREE_SHARE: i64 = 10;

/// The number of listings that may expire in an hour in any case: the share of a small number is less than one.
const FREE_LEAST: i64 = 10;

/// The maximum number of listings counted as held back.
const MAX_HELD: i64 = 10_000;

/// Time between two checks of listings that are held back. Workers check every second otherwise.
const HELD_EVERY: Duration = Duration::from_secs(15);

/// Time between two log lines about them.
const HELD_SAID_EVERY: Duration = Duration::from_secs(3_600);

/// The result of expiring listings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// How many expired.
    pub ended: usize,
    /// How many are held back, counted up to 10000: too many at once, and the chain does not agree yet.
    pub held: u64,
}

/// When this process last checked and logged listings that are held back.
#[derive(Debug, Default)]
pub(super) struct HeldExpiries {
    seen: Mutex<Option<(Instant, u64)>>,
    said: Mutex<Option<Instant>>,
}

/// The database's time, and when the first listing expires.
const FIRST: PerEngine = PerEngine {
    sqlite: "SELECT CAST(strftime('%s', 'now') AS INTEGER) AS now, (SELECT MIN(expires_at) FROM index_watch) AS first",
    postgres: "SELECT CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp())) AS BIGINT) AS now, (SELECT MIN(expires_at) FROM index_watch) AS first",
};

row! {
    /// What `index_expiry` says, and the newest time of a chain.
    struct State from "e" {
        hour: i64,
        ended: i64,
        allowed: i64,
        agreed: i64,
        chain_time: Option<i64> = "(SELECT MAX(c.time) FROM index_chain_time c)",
    }
}

const STATE: &str = sql!("SELECT ", State::COLUMNS, " FROM index_expiry e WHERE e.id = 1");
/// $2 is the operator's agreement, $3 the newest time that any agreement can have.
const AGREED: &str = "SELECT w.registry, w.tool FROM index_watch w LEFT JOIN index_chain_time c ON c.registry = w.registry
    WHERE w.expires_at <= $1 AND w.expires_at <= $3 AND (w.expires_at <= $2 OR w.expires_at <= COALESCE(c.time, 0))
    ORDER BY w.expires_at LIMIT $4";
const ALONE: &str = "SELECT w.registry, w.tool FROM index_watch w LEFT JOIN index_chain_time c ON c.registry = w.registry
    WHERE w.expires_at <= $1 AND w.expires_at > $2 AND w.expires_at > COALESCE(c.time, 0) ORDER BY w.expires_at LIMIT $3";
const COUNT_ALONE: &str =
    "SELECT COUNT(*) FROM (SELECT 1 FROM index_watch w LEFT JOIN index_chain_time c ON c.registry = w.registry
        WHERE w.expires_at <= $1 AND w.expires_at > $2 AND w.expires_at > COALESCE(c.time, 0) LIMIT $3) AS held";
const COUNT_LISTED: &str = "SELECT COUNT(*) FROM index_tool WHERE listed";
const NEW_HOUR: &str = "UPDATE index_expiry SET hour = $1, ended = 0, allowed = $2 WHERE id = 1 AND hour <> $1";
const SPEND: &str = "UPDATE index_expiry SET ended = ended + $2 WHERE id = 1 AND hour = $1 AND ended + $2 <= allowed";
const AGREE: &str = "UPDATE index_expiry SET agreed = CASE WHEN agreed < $1 THEN $1 ELSE agreed END WHERE id = 1";
const NOTE: &str = "INSERT INTO index_chain_time (registry, block, time) VALUES ($1, $2, $3)
    ON CONFLICT (registry) DO UPDATE SET block = excluded.block, time = excluded.time";

const UNLIST: &str = "UPDATE index_tool SET listed = $3 WHERE registry = $1 AND tool = $2";
const LISTING: &str = "SELECT document FROM index_listing WHERE registry = $1 AND tool = $2";
const END: &str = "UPDATE index_watch SET expires_at = $3 WHERE registry = $1 AND tool = $2 AND expires_at <= $4";
/// A job that a worker has leased is that verification.
const VERIFY: &str = "INSERT INTO index_job (registry, tool, due_at, priority, reason, attempts)
    SELECT registry, tool, $3, $4, $5, 0 FROM index_tool WHERE registry = $1 AND tool = $2 AND deregistered_block IS NULL
    ON CONFLICT (registry, tool) DO UPDATE SET
        due_at = CASE WHEN excluded.due_at < index_job.due_at THEN excluded.due_at ELSE index_job.due_at END,
        early = CASE WHEN excluded.due_at < index_job.due_at THEN 0 ELSE index_job.early END,
        priority = CASE WHEN excluded.priority < index_job.priority THEN excluded.priority ELSE index_job.priority END
        WHERE index_job.leased_until IS NULL OR index_job.leased_until <= $3";

impl State {
    /// The newest time that any agreement can have.
    fn newest(&self) -> i64 {
        self.chain_time.unwrap_or_default().max(self.agreed)
    }
}

impl Queue {
    /// Expires listings. Workers do so all the time; a directory without a worker does it too.
    pub async fn expire(&self) -> Result<Expired, Error> {
        let database = self.index().database();
        let row = database.fetch_optional(database.pick(FIRST), &[]).await?.ok_or(Error::Corrupt { what: "clock" })?;
        let now = self.time(row.get("now")?);
        if row.get::<Option<UnixTime>>("first")?.is_none_or(|first| first > now) {
            self.held().forget();
            return Ok(Expired::default());
        }
        if let Some(held) = self.held().seen_lately() {
            return Ok(Expired { ended: 0, held });
        }
        let mut expired = Expired::default();
        let state = self.expiry().await?;
        for _ in 0..MAX_EXPIRED_GOES {
            let bounds = [now.seconds(), state.agreed, state.newest(), MAX_EXPIRED].map(Value::Integer);
            let rows = database.fetch(AGREED, &bounds).await?;
            expired.ended += self.end(&rows, now).await?;
            if rows.len() < MAX_EXPIRED as usize {
                break;
            }
        }
        let count = [now.seconds(), state.agreed, MAX_HELD].map(Value::Integer);
        let alone =
            database.fetch_optional(COUNT_ALONE, &count).await?.ok_or(Error::Corrupt { what: "count" })?.scalar::<i64>()?;
        let granted = if alone > 0 { self.grant(alone, now).await? } else { 0 };
        if granted > 0 {
            let bounds = [now.seconds(), state.agreed, granted].map(Value::Integer);
            let rows = database.fetch(ALONE, &bounds).await?;
            expired.ended += self.end(&rows, now).await?;
        }
        expired.held = (alone - granted).max(0).unsigned_abs();
        self.held().note(expired.held);
        Ok(expired)
    }

    /// Records the operator's agreement that the database's time is right: all listings that have expired by now may end. Returns the
    /// time.
    pub async fn agree_to_expiry(&self) -> Result<UnixTime, Error> {
        let now = self.time(UnixTime::from_seconds(self.index().database().now().await?));
        self.index().database().execute(AGREE, &[Value::Integer(now.seconds())]).await?;
        self.held().forget();
        Ok(now)
    }

    async fn expiry(&self) -> Result<State, Error> {
        let row = self.index().database().fetch_optional(STATE, &[]).await?;
        Ok(State::from_row(&row.ok_or(Error::Corrupt { what: "expiry" })?)?)
    }

    /// Returns how many of `wanted` listings may expire without the chain's agreement, and counts them as expired.
    async fn grant(&self, wanted: i64, now: UnixTime) -> Result<i64, Error> {
        let (database, hour) = (self.index().database(), now.seconds().div_euclid(3_600));
        let mut state = self.expiry().await?;
        if state.hour != hour {
            // Once an hour, and only when there is something to end.
            let listed =
                database.fetch_optional(COUNT_LISTED, &[]).await?.ok_or(Error::Corrupt { what: "count" })?.scalar::<i64>()?;
            let allowed = (listed / FREE_SHARE).max(FREE_LEAST);
            database.execute(NEW_HOUR, &[Value::Integer(hour), Value::Integer(allowed)]).await?;
            state = self.expiry().await?;
        }
        let most = MAX_EXPIRED * MAX_EXPIRED_GOES as i64;
        let granted = wanted.min(state.allowed - state.ended).min(most);
        // Another process may have taken them in between; the next call retries.
        if granted <= 0 || database.execute(SPEND, &[Value::Integer(hour), Value::Integer(granted)]).await? == 0 {
            return Ok(0);
        }
        Ok(granted)
    }

    async fn end(&self, rows: &[Row], now: UnixTime) -> Result<usize, Error> {
        let mut ended = 0;
        for row in rows {
            let key = ToolKey::from_row(row).map_err(Error::from);
            let Some(key) = self.index().unreadable().skip("index_watch", row, key)? else { continue };
            ended += usize::from(retry(|| self.end_listing(key, now)).await?);
        }
        Ok(ended)
    }

    async fn end_listing(&self, key: ToolKey, now: UnixTime) -> Result<bool, Error> {
        let id = key.id_bytes();
        let (registry, tool) = (Value::Integer(key.registry.0), Value::Bytes(&id));
        let mut transaction = self.index().database().begin().await?;
        // Lock the tool before the job, as followers do, to avoid a deadlock.
        transaction.execute(UNLIST, &[registry, tool, Value::Boolean(false)]).await?;
        let over = [registry, tool, Value::Integer(NEVER), Value::Integer(now.seconds())];
        if transaction.execute(END, &over).await? == 0 {
            // It was verified or expired meanwhile.
            transaction.rollback().await?;
            return Ok(false);
        }
        let due = [Value::Integer(now.seconds()), Value::Integer(EXPIRED), Value::Text(Reason::Expired.as_str())];
        transaction.execute(VERIFY, &[registry, tool, due[0], due[1], due[2]]).await?;
        // Read after the row of the tool was locked.
        let Some(row) = transaction.fetch_optional(LISTING, &[registry, tool]).await? else {
            transaction.commit().await?;
            return Ok(true);
        };
        let name = || format!("{}/{}", key.registry.0, alloy_primitives::hex::encode(&*id));
        let listing = row.scalar().map_err(Error::from).and_then(Listing::read);
        let Some(mut listing) = self.index().unreadable().skip_named("index_listing", name, listing)? else {
            // It stays as it is: the version that wrote it can read it. This version only has to stop showing the tool.
            record_and_commit(transaction, key, Kinds::VERIFICATION, now).await?;
            return Ok(true);
        };
        let endpoint = listing.manifest.as_ref().map(|manifest| text_key(&manifest.endpoint));
        let code = codes::verify::STALE.id().to_owned();
        listing.verdict = Verdict::Unknown;
        listing.verified = false;
        listing.failed = Some(Failure { check: None, step: "freshness".to_owned(), code });
        kept::keep_listing(&mut transaction, key, &listing, endpoint).await?;
        kept::add_verdict(&mut transaction, key, &VerdictChange::of(&listing, now)).await?;
        record_and_commit(transaction, key, Kinds::VERIFICATION, now).await?;
        Ok(true)
    }
}

impl HeldExpiries {
    /// Returns how many were held back in the last check, if that is recent.
    fn seen_lately(&self) -> Option<u64> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.filter(|(at, _)| at.elapsed() < HELD_EVERY).map(|(_, held)| held)
    }

    fn forget(&self) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn note(&self, held: u64) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = (held > 0).then(|| (Instant::now(), held));
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if held == 0 {
            *said = None;
        } else if said.is_none_or(|at| at.elapsed() >= HELD_SAID_EVERY) {
            *said = Some(Instant::now());
            let code = codes::index::EXPIRY_HELD;
            tracing::warn!(code = code.id(), held, hint = code.info().hint, "mass expiry of listings held back");
        }
    }
}

impl Index {
    /// Records the newest block of a registry's chain, and its time.
    pub(crate) async fn note_chain_time(&self, registry: RegistryId, block: i64, time: UnixTime) -> Result<(), Error> {
        let values = [Value::Integer(registry.0), Value::Integer(block), Value::Integer(time.seconds())];
        self.database().execute(NOTE, &values).await?;
        Ok(())
    }
}
