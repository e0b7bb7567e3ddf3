//! Evidence and reports in an object store.
//!
//! A row has the location of its evidence: `bytes` holds the compressed evidence itself, or a `Reference` to an object with evidence and
//! report. Every process reads both forms, so an operator may switch at any time; `transfer` moves existing rows in either direction. The
//! name of an object is the SHA-256 of its bytes, below the identity of its database.
//!
//! ```text
//! write:    put object (durable) ──> transaction: claim the reference, write the row        no object without bytes behind it
//! collect:  condemn what no row refers to (transaction) ──> delete the object ──> keep the mark for a while
//! ```
//!
//! A claim fails for a reference that is condemned, or that was put too long ago; then the row stores the evidence itself. So a writer
//! that was suspended during a collection cannot refer to a collected object, however long it was suspended (`collect.rs`).

use std::future::Future;
use std::io::{BufRead as _, Read as _};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flate2::read::GzDecoder;
use tokio::time::{Instant, timeout};
use toolcrib_judge::evidence::MAX_FILE_BYTES;
use toolcrib_store::Migration;
use toolcrib_store::database::{Column, PerEngine, Transaction, Value};
use toolcrib_store::objects::{self, Objects, hash_of, name_of};

use crate::{Error, Index};

mod collect;
mod keeper;
mod transfer;

pub use collect::Collected;
pub use keeper::{KeeperOptions, keep};
pub use transfer::{Direction, Placement, TransferPlace};

/// `index_identity` has one row, created on first use. `index_object` has the references that rows have or had: `at` is when one was last
/// claimed, `condemned_at` since when it must not be claimed, `deleted` whether its object is deleted.
pub(crate) const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    sql: "CREATE TABLE index_identity (id BIGINT NOT NULL PRIMARY KEY, identity BYTES NOT NULL);
    CREATE TABLE index_object (reference BYTES NOT NULL PRIMARY KEY, at BIGINT NOT NULL, condemned_at BIGINT,
        deleted BOOLEAN NOT NULL DEFAULT FALSE);
    CREATE INDEX index_object_at ON index_object (at) WHERE condemned_at IS NULL;
    CREATE INDEX index_object_condemned ON index_object (condemned_at) WHERE condemned_at IS NOT NULL;",
}];

/// Indexes of the rows that refer to an object, for garbage collection.
pub(crate) const INDEXES: &[Migration] =
    &[Migration { version: 1, sql: "CREATE INDEX index_evidence_object ON index_evidence (bytes) WHERE length(bytes) = 36;" }];

/// How long a verdict waits for the object store before its evidence is stored in the database.
const PUT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a reader waits.
const GET_TIMEOUT: Duration = Duration::from_secs(10);

/// How long no requests are sent after a failure: verdicts do not wait for an unavailable store.
const PAUSE: Duration = Duration::from_secs(30);

/// The maximum size of a report in an object. Findings are capped, and the largest report has some hundred kilobytes.
const MAX_REPORT_BYTES: usize = 4 << 20;

/// The maximum size of an object that is read: that of incompressible content.
const MAX_OBJECT_BYTES: u64 = (MAX_FILE_BYTES + MAX_REPORT_BYTES) as u64;

/// The folder of evidence below the identity.
const EVIDENCE: &str = "evidence";

/// The value in place of evidence: four bytes that no compressed evidence begins with, and the SHA-256 of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Reference(pub(crate) [u8; Self::LENGTH]);

impl Reference {
    const LENGTH: usize = 36;
    const MARK: [u8; 4] = *b"obj\x01";
    /// The prefix of a reference in place of a report; a report begins with a brace.
    const TEXT: &str = "object:";

    fn of(bytes: &[u8]) -> Self {
        Self::from_hash(hash_of(bytes))
    }

    fn from_hash(hash: [u8; 32]) -> Self {
        let mut reference = [0; Self::LENGTH];
        reference[..4].copy_from_slice(&Self::MARK);
        reference[4..].copy_from_slice(&hash);
        Self(reference)
    }

    /// Parses the bytes of an evidence row. `None` when they are the evidence itself.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let reference: [u8; Self::LENGTH] = bytes.try_into().ok()?;
        reference.starts_with(&Self::MARK).then_some(Self(reference))
    }

    /// Parses the document of a report row. `None` when it is the report itself.
    pub(crate) fn read_text(text: &str) -> Option<Self> {
        let hash = alloy_primitives::hex::decode(text.strip_prefix(Self::TEXT)?).ok()?;
        Some(Self::from_hash(hash.try_into().ok()?))
    }

    /// Returns the document for a report row.
    pub(crate) fn text(&self) -> String {
        format!("{}{}", Self::TEXT, name_of(&self.hash()))
    }

    fn hash(&self) -> [u8; 32] {
        let mut hash = [0; 32];
        hash.copy_from_slice(&self.0[4..]);
        hash
    }

    /// Returns the key of its object. The first folder spreads files over directories.
    fn key(&self) -> String {
        let name = name_of(&self.hash());
        format!("{EVIDENCE}/{}/{name}", &name[..2])
    }

    /// Returns the reference of a listed object.
    fn of_key(key: &str) -> Option<Self> {
        let name = key.strip_prefix(EVIDENCE)?.rsplit('/').next()?;
        Some(Self::from_hash(alloy_primitives::hex::decode(name).ok()?.try_into().ok()?))
    }
}

/// An object that was put and not claimed yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Put {
    pub(crate) reference: Reference,
    /// The last second, by the database's clock, at which it may be claimed.
    claim_until: i64,
}

/// Counters of an index's object store since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectCounts {
    /// Objects that were written.
    pub written: u64,
    /// Objects that were read.
    pub read: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Evidence stored in the database because the object store was unavailable.
    pub kept_in_database: u64,
    /// Objects that were missing or damaged when read.
    pub lost: u64,
}

/// The object store of an index.
#[derive(Debug)]
pub(crate) struct EvidenceObjects {
    /// The whole store, and the prefix of this database.
    base: Objects,
    objects: Objects,
    options: KeeperOptions,
    paused_until: Mutex<Option<Instant>>,
    written: AtomicU64,
    read: AtomicU64,
    failed: AtomicU64,
    kept: AtomicU64,
    lost: AtomicU64,
    /// Where the next collection continues.
    collected: Mutex<Option<collect::Cursor>>,
}

impl EvidenceObjects {
    fn new(base: Objects, identity: &[u8; 16], options: KeeperOptions) -> Self {
        Self {
            objects: base.below(&alloy_primitives::hex::encode(identity)),
            base,
            options,
            paused_until: Mutex::default(),
            written: AtomicU64::default(),
            read: AtomicU64::default(),
            failed: AtomicU64::default(),
            kept: AtomicU64::default(),
            lost: AtomicU64::default(),
            collected: Mutex::default(),
        }
    }

    /// Puts an object. `None` when the store is unavailable: then its content is stored in the database.
    async fn put(&self, index: &Index, packed: Vec<u8>) -> Result<Option<Put>, Error> {
        if self.is_paused() {
            self.kept.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }
        // Read before the object is put: a claim that is in time by this clock precedes any collection that could see the object.
        let now = index.database().now().await?;
        let reference = Reference::of(&packed);
        let key = reference.key();
        match self.within(PUT_TIMEOUT, self.objects.put(&key, packed)).await {
            Ok(()) => {
                self.written.fetch_add(1, Ordering::Relaxed);
                Ok(Some(Put { reference, claim_until: now + self.options.grace_seconds / 2 }))
            }
            Err(_) => {
                self.kept.fetch_add(1, Ordering::Relaxed);
                Ok(None)
            }
        }
    }

    /// Returns the content of an object, decompressed. A missing or damaged object is an error.
    async fn get(&self, reference: Reference) -> Result<Vec<u8>, objects::Error> {
        let key = reference.key();
        let found = self.within(GET_TIMEOUT, self.objects.get(&key, MAX_OBJECT_BYTES)).await;
        let content = found.and_then(|found| {
            let packed = found.ok_or_else(|| objects::Error::Absent { key: key.clone() })?;
            let damaged = |reason| objects::Error::Damaged { key: key.clone(), reason };
            if hash_of(&packed) != reference.hash() {
                return Err(damaged("its hash differs"));
            }
            unpack(&packed).ok_or_else(|| damaged("it cannot be decompressed"))
        });
        match &content {
            Ok(_) => self.read.fetch_add(1, Ordering::Relaxed),
            Err(error) if error.is_lost() => self.lost.fetch_add(1, Ordering::Relaxed),
            Err(_) => 0,
        };
        content
    }

    async fn within<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, objects::Error>>,
    ) -> Result<T, objects::Error> {
        let late = |_| objects::Error::Unavailable { detail: format!("no answer within {} s", limit.as_secs()) };
        let done = timeout(limit, work).await.map_err(late).and_then(|done| done);
        match &done {
            Err(error) if !error.is_lost() => self.note_failure(error),
            _ => self.note_success(),
        }
        done
    }

    fn is_paused(&self) -> bool {
        self.paused_until.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|until| Instant::now() < until)
    }

    fn note_failure(&self, error: &objects::Error) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let mut paused = self.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        if paused.is_none() {
            tracing::warn!(code = error.code().id(), %error, store = self.objects.name(), "object store failed, evidence goes into the database");
        }
        *paused = Some(Instant::now() + PAUSE);
    }

    fn note_success(&self) {
        let mut paused = self.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        if paused.take().is_some() {
            tracing::info!(store = self.objects.name(), "object store answers again");
        }
    }
}

/// The two parts of an object: evidence and report, one line of JSON each.
pub(crate) struct Bundle {
    pub(crate) evidence: Vec<u8>,
    pub(crate) report: String,
}

impl Bundle {
    /// Joins evidence and report to the content of an object.
    fn join(evidence: &[u8], report: &str) -> Vec<u8> {
        [evidence, b"\n", report.as_bytes(), b"\n"].concat()
    }

    fn split(content: &[u8]) -> Option<Self> {
        let mut lines = content.lines();
        let (evidence, report) = (lines.next()?.ok()?, lines.next()?.ok()?);
        lines.next().is_none().then(|| Self { evidence: evidence.into_bytes(), report })
    }
}

/// Decompresses an object within its limit.
fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let length = GzDecoder::new(packed).take(MAX_OBJECT_BYTES + 1).read_to_end(&mut content).ok()?;
    (length as u64 <= MAX_OBJECT_BYTES).then_some(content)
}

impl Index {
    /// Returns the same index with an object store for evidence and reports. All processes of a database should use the same one.
    pub async fn with_objects(self, objects: Objects, options: KeeperOptions) -> Result<Self, Error> {
        let identity = self.identity().await?;
        Ok(self.with_evidence(EvidenceObjects::new(objects, &identity, options)))
    }

    /// Returns the same index with the object store of another, for a copy of its database.
    pub(crate) async fn with_objects_of(self, other: &Self) -> Result<Self, Error> {
        match other.evidence_objects() {
            Some(store) => self.with_objects(store.base.clone(), store.options).await,
            None => Ok(self),
        }
    }

    /// Returns the random identity of this database, which only copies of it share.
    pub async fn identity(&self) -> Result<[u8; 16], Error> {
        const READ: &str = "SELECT identity FROM index_identity WHERE id = 1";
        const MAKE: &str = "INSERT INTO index_identity (id, identity) VALUES (1, $1) ON CONFLICT (id) DO NOTHING";
        let corrupt = Error::Corrupt { what: "identity of the database" };
        let mut row = self.database().fetch_optional(READ, &[]).await?;
        if row.is_none() {
            let mut identity = [0; 16];
            getrandom::fill(&mut identity).map_err(|_| Error::Store(toolcrib_store::Error::Random))?;
            self.database().execute(MAKE, &[Value::Bytes(&identity)]).await?;
            row = self.database().fetch_optional(READ, &[]).await?;
        }
        let Some(row) = row else { return Err(corrupt) };
        row.scalar::<&[u8]>()?.try_into().map_err(|_| corrupt)
    }

    /// Returns the counters of the object store since the start. `None` without one.
    pub fn object_counts(&self) -> Option<ObjectCounts> {
        let store = self.evidence_objects()?;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Some(ObjectCounts {
            written: count(&store.written),
            read: count(&store.read),
            failed: count(&store.failed),
            kept_in_database: count(&store.kept),
            lost: count(&store.lost),
        })
    }

    /// Puts evidence and report into the object store, if there is one and it is available.
    pub(crate) async fn put_bundle(&self, evidence: &[u8], report: &str) -> Result<Option<Put>, Error> {
        let Some(store) = self.evidence_objects() else { return Ok(None) };
        store.put(self, crate::work::kept::pack(&Bundle::join(evidence, report))?).await
    }

    /// Reads the evidence and report of a reference.
    pub(crate) async fn bundle(&self, reference: Reference) -> Result<Bundle, Error> {
        let store = self.evidence_objects().ok_or(Error::ObjectsUnset)?;
        let content = store.get(reference).await?;
        let damaged = || objects::Error::Damaged { key: reference.key(), reason: "its parts differ" };
        Ok(Bundle::split(&content).ok_or_else(damaged)?)
    }
}

/// Claims an object for a row of this transaction, which writes the reference afterwards. `false` when the row has to store the evidence
/// itself.
const CLAIM: PerEngine = PerEngine {
    sqlite: "INSERT INTO index_object (reference, at) SELECT $1, CAST(strftime('%s', 'now') AS INTEGER)
        WHERE CAST(strftime('%s', 'now') AS INTEGER) <= $2
        ON CONFLICT (reference) DO UPDATE SET at = excluded.at WHERE index_object.condemned_at IS NULL",
    postgres: "INSERT INTO index_object (reference, at) SELECT $1, CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp())) AS BIGINT)
        WHERE CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp())) AS BIGINT) <= $2
        ON CONFLICT (reference) DO UPDATE SET at = excluded.at WHERE index_object.condemned_at IS NULL",
};
const CLAIM_MANY: &str = "INSERT INTO index_object (reference, at)
    SELECT DISTINCT v.reference, CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp())) AS BIGINT)
    FROM UNNEST($1::bytea[], $2::bigint[]) AS v (reference, claim_until)
    WHERE CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp())) AS BIGINT) <= v.claim_until
    ON CONFLICT (reference) DO UPDATE SET at = excluded.at WHERE index_object.condemned_at IS NULL RETURNING reference";

pub(crate) async fn claim(transaction: &mut Transaction, put: Put) -> Result<bool, Error> {
    let sql = match transaction.engine() {
        toolcrib_store::database::Engine::Sqlite => CLAIM.sqlite,
        _ => CLAIM.postgres,
    };
    let values = [Value::Bytes(&put.reference.0), Value::Integer(put.claim_until)];
    Ok(transaction.execute(sql, &values).await? == 1)
}

/// Claims several on PostgreSQL, and returns those that rows may refer to.
pub(crate) async fn claim_many(transaction: &mut Transaction, puts: &[Put]) -> Result<Vec<Reference>, Error> {
    if puts.is_empty() {
        return Ok(Vec::new());
    }
    // Sorted, to avoid deadlocks.
    let mut puts = puts.to_vec();
    puts.sort_by_key(|put| put.reference);
    let references: Vec<&[u8]> = puts.iter().map(|put| &put.reference.0[..]).collect();
    let ends: Vec<i64> = puts.iter().map(|put| put.claim_until).collect();
    let rows = transaction.fetch_columns(CLAIM_MANY, &[Column::Bytes(&references), Column::Integers(&ends)]).await?;
    let read = |row: &toolcrib_store::database::Row| {
        Reference::read(row.scalar()?).ok_or(Error::Corrupt { what: "reference to an object" })
    };
    rows.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_told_from_evidence_and_reports() {
        let reference = Reference::of(b"evidence");
        assert_eq!(Reference::read(&reference.0), Some(reference));
        assert_eq!(Reference::read_text(&reference.text()), Some(reference));
        assert_eq!(Reference::of_key(&reference.key()), Some(reference));
        let packed = crate::work::kept::pack(b"{}").unwrap();
        assert_eq!(Reference::read(&packed), None);
        // Compressed evidence of the same length begins with other bytes.
        assert_eq!(Reference::read(&[0x1f; Reference::LENGTH]), None);
        assert_eq!(Reference::read_text("{\"object\": 1}"), None);
        assert_eq!(Reference::of_key("evidence/ab/readme.txt"), None);
    }

    #[test]
    fn an_object_holds_evidence_and_report_and_nothing_else() {
        let content = Bundle::join(br#"{"a": "b"}"#, r#"{"c": "\n"}"#);
        let bundle = Bundle::split(&content).unwrap();
        assert_eq!((bundle.evidence.as_slice(), bundle.report.as_str()), (&br#"{"a": "b"}"#[..], r#"{"c": "\n"}"#));
        assert!(Bundle::split(b"{}\n").is_none());
        assert!(Bundle::split(b"{}\n{}\n{}\n").is_none());
        assert!(Bundle::split(b"{}\n\xff\n").is_none());
        let bomb = crate::work::kept::pack(&vec![0; MAX_OBJECT_BYTES as usize + 1]).unwrap();
        assert!(unpack(&bomb).is_none() && unpack(b"no gzip").is_none());
    }
}
