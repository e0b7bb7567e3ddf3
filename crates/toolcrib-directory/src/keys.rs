//! API keys: issued on request, stored as hashes.
//!
//! A key has 256 random bits, so a plain hash is enough: it cannot be guessed. The key itself is only in the response that issues it, in
//! no log and in no table.

use std::sync::Arc;

use getrandom::fill;
use quick_cache::sync::Cache;
use sha2::{Digest as _, Sha256};
use tokio::time::{Duration, Instant};
use toolcrib_core::clock::UnixTime;
use toolcrib_index::replicas::Replicas;
use toolcrib_store::database::{FromRow as _, Row, Value};
use toolcrib_store::{Database, Error, Migration};
use toolcrib_store::{row, sql};

/// The prefix of every key, so that secret scanners recognise leaked ones.
pub(crate) const PREFIX: &str = "tcd_";

/// The maximum length of a text that is looked up as a key.
const MAX_KEY_CHARS: usize = 200;

/// The maximum number of cached keys, valid or not.
const MAX_REMEMBERED: usize = 20_000;

/// How long a key is cached: how long a revoked one still works.
const REMEMBERED_FOR: Duration = Duration::from_secs(10);

/// Seconds for which an expired key stays in the table, so that operators can see it.
const KEPT_AFTER: i64 = 30 * 86_400;

const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        sql: "CREATE TABLE directory_key (hash BYTES NOT NULL PRIMARY KEY, name TEXT NOT NULL UNIQUE, created_at BIGINT NOT NULL,
        expires_at BIGINT NOT NULL, revoked_at BIGINT, reads BIGINT NOT NULL, writes BIGINT NOT NULL);
    CREATE INDEX directory_key_expiry ON directory_key (expires_at);",
    },
    Migration { version: 2, sql: "ALTER TABLE directory_key ADD COLUMN admin BOOLEAN NOT NULL DEFAULT FALSE;" },
];

const ADD: &str = "INSERT INTO directory_key (hash, name, created_at, expires_at, reads, writes, admin)
    VALUES ($1, $2, $3, $4, $5, $6, $7)";
row! {
    struct KeyRow {
        name: String,
        created_at: UnixTime,
        expires_at: UnixTime,
        revoked_at: Option<UnixTime>,
        reads: i64,
        writes: i64,
        admin: bool,
    }
}

const FIND: &str = sql!("SELECT ", KeyRow::COLUMNS, " FROM directory_key WHERE hash = $1");
const LIST: &str = sql!(
    "SELECT ",
    KeyRow::COLUMNS,
    " FROM directory_key ORDER BY created_at DESC, name
    LIMIT $1"
);
const REVOKE: &str = "UPDATE directory_key SET revoked_at = $1 WHERE name = $2 AND revoked_at IS NULL";
const FORGET: &str = "DELETE FROM directory_key WHERE expires_at < $1";

/// A cached lookup, with its time.
type Known = Cache<[u8; 32], (Instant, Option<KeyRecord>)>;

/// The API keys of a directory, in its database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Keys {
    database: Database,
    /// The replicas to read while the primary is unavailable.
    replicas: Option<Replicas>,
    known: Arc<Known>,
}

/// The record of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// Its name.
    pub name: String,
    /// When it was issued.
    pub created_at: UnixTime,
    /// When it expires.
    pub expires_at: UnixTime,
    /// When it was revoked.
    pub revoked_at: Option<UnixTime>,
    /// Reads per hour.
    pub reads: u32,
    /// Writes per hour.
    pub writes: u32,
    /// Whether it may be used for moderation.
    pub admin: bool,
}

impl KeyRecord {
    /// Whether it is valid: neither expired nor revoked.
    pub fn is_good(&self, now: UnixTime) -> bool {
        self.revoked_at.is_none() && now < self.expires_at
    }
}

/// The rates and lifetime of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyTerms {
    /// Reads per hour.
    pub reads: u32,
    /// Writes per hour.
    pub writes: u32,
    /// The lifetime in seconds.
    pub seconds: i64,
    /// Whether it may be used for moderation.
    pub admin: bool,
}

/// A key that was just issued: the only time that it is available.
#[derive(Clone)]
pub struct IssuedKey {
    /// The key.
    pub key: String,
    /// Its record.
    pub record: KeyRecord,
}

impl std::fmt::Debug for IssuedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuedKey").field("record", &self.record).finish_non_exhaustive()
    }
}

impl Keys {
    /// Opens the keys in a database, and creates their table if it does not exist.
    pub async fn open(database: Database) -> Result<Self, Error> {
        database.migrate("directory.keys", MIGRATIONS).await?;
        Ok(Self { database, replicas: None, known: Arc::new(Cache::new(MAX_REMEMBERED)) })
    }

    /// Looks keys up in a replica while the primary is unavailable. A key that was issued or revoked a moment before may be missed then.
    pub(crate) fn or_read(self, replicas: Replicas) -> Self {
        Self { replicas: Some(replicas), ..self }
    }

    /// Issues a key. Without a name it gets a generated one.
    pub async fn issue(
        &self,
        name: Option<&str>,
        reads: u32,
        writes: u32,
        seconds: i64,
        now: UnixTime,
    ) -> Result<IssuedKey, Error> {
        let terms = KeyTerms { reads, writes, seconds, admin: false };
        self.issue_with(name, terms, now).await
    }

    /// Issues a key with these terms. Only the operator issues keys for moderation.
    pub async fn issue_with(&self, name: Option<&str>, terms: KeyTerms, now: UnixTime) -> Result<IssuedKey, Error> {
        let KeyTerms { reads, writes, seconds, admin } = terms;
        let mut random = [0; 36];
        fill(&mut random).map_err(|_| Error::Random)?;
        let key = format!("{PREFIX}{}", alloy_primitives::hex::encode(&random[..32]));
        let name = name.map_or_else(|| format!("instant-{}", alloy_primitives::hex::encode(&random[32..])), str::to_owned);
        let record = KeyRecord { name, created_at: now, expires_at: now.plus(seconds), revoked_at: None, reads, writes, admin };
        let values = [
            Value::Bytes(&hash(&key)),
            Value::Text(&record.name),
            Value::Integer(now.seconds()),
            Value::Integer(record.expires_at.seconds()),
            Value::Integer(i64::from(reads)),
            Value::Integer(i64::from(writes)),
            Value::Boolean(admin),
        ];
        self.database.execute(ADD, &values).await?;
        self.known.insert(hash(&key), (Instant::now(), Some(record.clone())));
        Ok(IssuedKey { key, record })
    }

    /// Returns the newest keys, at most `limit`.
    pub async fn list(&self, limit: u32) -> Result<Vec<KeyRecord>, Error> {
        self.database.fetch(LIST, &[Value::Integer(i64::from(limit))]).await?.iter().map(KeyRecord::read).collect()
    }

    /// Revokes a key by its name. `false` when there is no valid one.
    pub async fn revoke(&self, name: &str, now: UnixTime) -> Result<bool, Error> {
        let touched = self.database.execute(REVOKE, &[Value::Integer(now.seconds()), Value::Text(name)]).await?;
        self.known.clear();
        Ok(touched > 0)
    }

    /// Deletes keys that expired long ago.
    pub async fn forget_expired(&self, now: UnixTime) -> Result<u64, Error> {
        self.database.execute(FORGET, &[Value::Integer(now.plus(-KEPT_AFTER).seconds())]).await
    }

    /// Whether a lookup is known to be useful or free: the key was valid when last seen, or cannot be a key.
    pub(crate) fn is_familiar(&self, key: &str) -> bool {
        !has_form(key) || self.known.get(&hash(key)).is_some_and(|(at, record)| record.is_some() || at.elapsed() < REMEMBERED_FOR)
    }

    /// Looks a key up. `None` when it is not valid. The returned number distinguishes keys without being secret.
    pub async fn find(&self, key: &str, now: UnixTime) -> Result<Option<(u64, KeyRecord)>, Error> {
        if !has_form(key) {
            return Ok(None);
        }
        let hash = hash(key);
        let number = u64::from_be_bytes(hash[..8].try_into().unwrap_or_default());
        if let Some((at, record)) = self.known.get(&hash)
            && at.elapsed() < REMEMBERED_FOR
        {
            return Ok(record.filter(|record| record.is_good(now)).map(|record| (number, record)));
        }
        let row = match self.database.fetch_optional(FIND, &[Value::Bytes(&hash)]).await {
            Ok(row) => row,
            // While the database is unavailable, cached results stay valid.
            Err(error) => match self.known.get(&hash) {
                Some((_, record)) => return Ok(record.filter(|record| record.is_good(now)).map(|record| (number, record))),
                // A key that a replica does not have may be new: only the primary knows.
                None => Some(self.find_in_replica(&hash).await.ok_or(error)?),
            },
        };
        let record = row.as_ref().map(KeyRecord::read).transpose()?;
        self.known.insert(hash, (Instant::now(), record.clone()));
        Ok(record.filter(|record| record.is_good(now)).map(|record| (number, record)))
    }
}

impl Keys {
    async fn find_in_replica(&self, hash: &[u8; 32]) -> Option<Row> {
        let replica = self.replicas.as_ref()?.newest()?;
        replica.index().database().fetch_optional(FIND, &[Value::Bytes(hash)]).await.ok().flatten()
    }
}

impl KeyRecord {
    fn read(row: &Row) -> Result<Self, Error> {
        let row = KeyRow::from_row(row)?;
        let rate = |rate: i64| u32::try_from(rate).map_err(|_| Error::Corrupt { what: "rate of a key" });
        Ok(Self {
            name: row.name,
            created_at: row.created_at,
            expires_at: row.expires_at,
            revoked_at: row.revoked_at,
            reads: rate(row.reads)?,
            writes: rate(row.writes)?,
            admin: row.admin,
        })
    }
}

fn has_form(key: &str) -> bool {
    key.len() <= MAX_KEY_CHARS && key.starts_with(PREFIX)
}

fn hash(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}
