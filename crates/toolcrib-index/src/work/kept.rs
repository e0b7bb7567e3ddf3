//! The stored results of verifications: the evidence, the report, the history of verdicts, and the state to compare the next one with.
//!
//! `index_watch` has one row for each tool that was verified. `looks` is a ring buffer of the newest runs, two bytes each. `index_verdict`
//! gets a row when the verdict changes, and loses rows only for tools with very many changes.

use std::borrow::Cow;
use std::io::{Read as _, Write as _};

use alloy_primitives::B256;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use toolcrib_core::clock::UnixTime;
use toolcrib_judge::Report;
use toolcrib_judge::drift::Snapshot;
use toolcrib_judge::evidence::{Evidence, MAX_FILE_BYTES};
use toolcrib_judge::signals::Certificate;
use toolcrib_store::Database;
use toolcrib_store::Migration;
use toolcrib_store::database::{FromRow as _, PerEngine, Row, Transaction, Value};
use toolcrib_store::{row, sql};

use super::Queue;
use crate::listing::{Failure, Listing, Verdict};
use crate::model::ToolKey;
use crate::objects::{self, Bundle, Put, Reference};
use crate::{Error, Index};

pub(crate) const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    sql: "CREATE TABLE index_origin (origin TEXT NOT NULL PRIMARY KEY, next_at BIGINT NOT NULL, turns_until BIGINT NOT NULL, holder BYTES);
    CREATE TABLE index_watch (registry BIGINT NOT NULL, tool BYTES NOT NULL, expires_at BIGINT NOT NULL, looks BYTES NOT NULL,
        memory TEXT NOT NULL, PRIMARY KEY (registry, tool));
    CREATE INDEX index_watch_expires ON index_watch (expires_at);
    CREATE TABLE index_report (registry BIGINT NOT NULL, tool BYTES NOT NULL, at BIGINT NOT NULL, document TEXT NOT NULL,
        PRIMARY KEY (registry, tool));
    CREATE TABLE index_evidence (registry BIGINT NOT NULL, tool BYTES NOT NULL, kind BIGINT NOT NULL, at BIGINT NOT NULL,
        verified BOOLEAN NOT NULL, bytes BYTES NOT NULL, PRIMARY KEY (registry, tool, kind));
    CREATE TABLE index_verdict (registry BIGINT NOT NULL, tool BYTES NOT NULL, number BIGINT NOT NULL, at BIGINT NOT NULL,
        verdict TEXT NOT NULL, conformant BOOLEAN NOT NULL, failed_check BIGINT, step TEXT, code TEXT, hash BYTES NOT NULL,
        PRIMARY KEY (registry, tool, number));",
}];

/// The maximum number of verdicts stored for one tool: a week of a server that flips at every verification.
pub const MAX_VERDICTS: i64 = 1_000;

/// The expiry time of a tool that is not listed.
pub(crate) const NEVER: i64 = i64::MAX;

/// Evidence of the last verification, and of the last successful one.
const LATEST: i64 = 0;
const LAST_VERIFIED: i64 = 1;

/// A verdict about a tool, and when it changed to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerdictChange {
    /// When it changed.
    pub at: UnixTime,
    /// The answer.
    pub verdict: Verdict,
    /// Whether the manifest also conformed to every rule and limit.
    pub conformant: bool,
    /// The first step that failed.
    pub failed: Option<Failure>,
    /// The manifest hash in the registry at that time.
    pub manifest_hash: B256,
}

impl VerdictChange {
    /// Returns the verdict of a listing.
    pub(crate) fn of(listing: &Listing, at: UnixTime) -> Self {
        Self {
            at,
            verdict: listing.verdict.clone(),
            conformant: listing.conformant,
            failed: listing.failed.clone(),
            manifest_hash: listing.manifest_hash,
        }
    }

    /// Whether the verdict is the same, ignoring the time.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Self { at: other.at, ..self.clone() } == *other
    }

    pub(super) fn read(row: &Row) -> Result<Self, Error> {
        let row = VerdictRow::from_row(row)?;
        let failed = match (row.step, row.code) {
            (Some(step), Some(code)) => Some(Failure {
                check: row.failed_check.and_then(|check| u8::try_from(check).ok()),
                step: step.to_owned(),
                code: code.to_owned(),
            }),
            _ => None,
        };
        Ok(Self { at: row.at, verdict: Verdict::from(row.verdict), conformant: row.conformant, failed, manifest_hash: row.hash })
    }
}

/// The state kept from one verification of a tool to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Watch {
    /// The newest runs: see [`crate::facts::health`].
    pub(crate) looks: Vec<u8>,
    pub(crate) memory: Memory,
}

impl Watch {
    /// Reads the columns of [`WatchRow`].
    pub(super) fn read(row: &Row) -> Result<Self, Error> {
        let row = WatchRow::from_row(row)?;
        // What an older or newer program wrote otherwise is forgotten, which costs a comparison.
        Ok(Self { looks: row.looks, memory: serde_json::from_str(row.memory).unwrap_or_default() })
    }
}

/// The part of a [`Watch`] that is stored as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Memory {
    /// The last verification with a result.
    pub(crate) snapshot: Option<Snapshot>,
    /// The certificate of the server at that time.
    pub(crate) certificate: Option<CertificateText>,
    /// Name servers of the host, if known.
    pub(crate) name_servers: Vec<String>,
    /// When the registration was last changed, as far as verifications know.
    pub(crate) updated_at: Option<UnixTime>,
    /// When the server last responded.
    pub(crate) answered_at: Option<UnixTime>,
    /// Changes that matter, and when they were detected.
    pub(crate) notices: Vec<Notice>,
}

/// A change that matters: shown for a while after it was detected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notice {
    pub(crate) code: String,
    pub(crate) severity: String,
    pub(crate) at: UnixTime,
}

/// The facts of a certificate, as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CertificateText {
    not_before: UnixTime,
    issuer: String,
    names: Vec<String>,
}

impl From<&Certificate> for CertificateText {
    fn from(certificate: &Certificate) -> Self {
        let Certificate { not_before, issuer, names } = certificate.clone();
        Self { not_before, issuer, names }
    }
}

impl From<&CertificateText> for Certificate {
    fn from(text: &CertificateText) -> Self {
        let CertificateText { not_before, issuer, names } = text.clone();
        Self { not_before, issuer, names }
    }
}

row! {
    /// An answer that a tool got.
    pub(super) struct VerdictRow<'r> {
        at: UnixTime,
        verdict: String,
        conformant: bool,
        failed_check: Option<i64>,
        step: Option<&'r str>,
        code: Option<&'r str>,
        hash: B256,
    }
}

row! {
    /// What is remembered of a tool.
    pub(super) struct WatchRow<'r> {
        looks: Vec<u8>,
        memory: &'r str,
    }
}

const WATCH: &str = sql!("SELECT ", WatchRow::COLUMNS, " FROM index_watch WHERE registry = $1 AND tool = $2");
const KEEP_WATCH: &str = "INSERT INTO index_watch (registry, tool, expires_at, looks, memory) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (registry, tool) DO UPDATE SET expires_at = excluded.expires_at, looks = excluded.looks, memory = excluded.memory";
/// The same with seconds from now, by the database's clock.
const KEEP_WATCH_FOR: PerEngine = PerEngine {
    sqlite:
        "INSERT INTO index_watch (registry, tool, expires_at, looks, memory)
    VALUES ($1, $2, CAST(strftime('%s', 'now') AS INTEGER) + $3, $4, $5)
    ON CONFLICT (registry, tool) DO UPDATE SET expires_at = excluded.expires_at, looks = excluded.looks, memory = excluded.memory",
    postgres:
        "INSERT INTO index_watch (registry, tool, expires_at, looks, memory)
    VALUES ($1, $2, CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp())) AS BIGINT) + $3, $4, $5)
    ON CONFLICT (registry, tool) DO UPDATE SET expires_at = excluded.expires_at, looks = excluded.looks, memory = excluded.memory",
};
const KEEP_LOOKS: &str = "UPDATE index_watch SET looks = $3, memory = $4 WHERE registry = $1 AND tool = $2";
const KEEP_LISTING: &str =
    "INSERT INTO index_listing (registry, tool, checked_at, endpoint_key, document) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (registry, tool) DO UPDATE SET checked_at = excluded.checked_at, endpoint_key = excluded.endpoint_key,
        document = excluded.document";
const REPORT: &str = "SELECT document FROM index_report WHERE registry = $1 AND tool = $2";
const KEEP_REPORT: &str = "INSERT INTO index_report (registry, tool, at, document) VALUES ($1, $2, $3, $4)
    ON CONFLICT (registry, tool) DO UPDATE SET at = excluded.at, document = excluded.document";
const EVIDENCE: &str =
    "SELECT bytes FROM index_evidence WHERE registry = $1 AND tool = $2 AND (kind = $3 OR (kind = 0 AND verified AND $3 = 1))
    ORDER BY kind DESC LIMIT 1";
const KEEP_VERIFIED: &str = "INSERT INTO index_evidence (registry, tool, kind, at, verified, bytes)
    SELECT registry, tool, 1, at, verified, bytes FROM index_evidence WHERE registry = $1 AND tool = $2 AND kind = 0 AND verified
    ON CONFLICT (registry, tool, kind) DO UPDATE SET at = excluded.at, verified = excluded.verified, bytes = excluded.bytes";
const FORGET_VERIFIED: &str = "DELETE FROM index_evidence WHERE registry = $1 AND tool = $2 AND kind = 1";
const KEEP_EVIDENCE: &str =
    "INSERT INTO index_evidence (registry, tool, kind, at, verified, bytes) VALUES ($1, $2, 0, $3, $4, $5)
    ON CONFLICT (registry, tool, kind) DO UPDATE SET at = excluded.at, verified = excluded.verified, bytes = excluded.bytes";
const VERDICTS: &str = sql!(
    "SELECT ",
    VerdictRow::COLUMNS,
    " FROM index_verdict
    WHERE registry = $1 AND tool = $2 ORDER BY number DESC LIMIT $3"
);
const ADD_VERDICT: &str =
    "INSERT INTO index_verdict (registry, tool, number, at, verdict, conformant, failed_check, step, code, hash)
    SELECT $1, $2, COALESCE(MAX(number), 0) + 1, $3, $4, $5, $6, $7, $8, $9 FROM index_verdict WHERE registry = $1 AND tool = $2";
const CUT_VERDICTS: &str = "DELETE FROM index_verdict WHERE registry = $1 AND tool = $2
    AND number <= (SELECT MAX(number) FROM index_verdict WHERE registry = $1 AND tool = $2) - $3";

impl Queue {
    /// Returns the report of the verification behind a tool's listing, as JSON.
    pub async fn report(&self, key: ToolKey) -> Result<Option<String>, Error> {
        let id = key.id_bytes();
        let row = self.index().database().fetch_optional(REPORT, &[Value::Integer(key.registry.0), Value::Bytes(&id)]).await?;
        let Some(row) = row else { return Ok(None) };
        let document = row.scalar()?;
        match Reference::read_text(document) {
            Some(reference) => Ok(Some(self.bundle(key, reference).await?.report)),
            None => Ok(Some(document.to_owned())),
        }
    }

    /// Returns the evidence of the verification behind a tool's listing, as JSON.
    pub async fn evidence(&self, key: ToolKey) -> Result<Option<Vec<u8>>, Error> {
        self.kept_evidence(key, LATEST).await
    }

    /// Returns the evidence of the last successful verification, as JSON.
    pub async fn verified_evidence(&self, key: ToolKey) -> Result<Option<Vec<u8>>, Error> {
        self.kept_evidence(key, LAST_VERIFIED).await
    }

    async fn kept_evidence(&self, key: ToolKey, kind: i64) -> Result<Option<Vec<u8>>, Error> {
        let id = key.id_bytes();
        let values = [Value::Integer(key.registry.0), Value::Bytes(&id), Value::Integer(kind)];
        let row = self.index().database().fetch_optional(EVIDENCE, &values).await?;
        let Some(row) = row else { return Ok(None) };
        let bytes = row.scalar()?;
        match Reference::read(bytes) {
            Some(reference) => Ok(Some(self.bundle(key, reference).await?.evidence)),
            None => unpack(bytes).map(Some),
        }
    }

    /// Reads evidence and report of a tool from the object store. A lost object enqueues a new verification: the listing stays meanwhile.
    async fn bundle(&self, key: ToolKey, reference: Reference) -> Result<Bundle, Error> {
        let read = self.index().bundle(reference).await;
        if let Err(Error::Objects(error)) = &read
            && error.is_lost()
        {
            tracing::warn!(code = error.code().id(), %error, "evidence lost, new verification queued");
            let now = UnixTime::from_seconds(self.index().database().now().await?);
            self.request(key, now).await?;
        }
        read
    }
}

impl Index {
    /// Returns the verdicts about a tool, the newest first: one for each change.
    pub async fn verdicts(&self, key: ToolKey, limit: usize) -> Result<Vec<VerdictChange>, Error> {
        let id = key.id_bytes();
        let limit = i64::try_from(limit).unwrap_or(MAX_VERDICTS).min(MAX_VERDICTS);
        let values = [Value::Integer(key.registry.0), Value::Bytes(&id), Value::Integer(limit)];
        self.database().fetch(VERDICTS, &values).await?.iter().map(VerdictChange::read).collect()
    }

    /// Returns the state kept of a tool.
    pub(crate) async fn watch(&self, key: ToolKey) -> Result<Option<Watch>, Error> {
        let id = key.id_bytes();
        let row = self.database().fetch_optional(WATCH, &[Value::Integer(key.registry.0), Value::Bytes(&id)]).await?;
        row.as_ref().map(Watch::read).transpose()
    }
}

/// Writes a listing, and the recipients of the tool's payments.
pub(crate) async fn keep_listing(
    transaction: &mut Transaction,
    key: ToolKey,
    listing: &Listing,
    endpoint_key: Option<i64>,
) -> Result<(), Error> {
    let id = key.id_bytes();
    let document = json(listing)?;
    let values = [
        Value::Integer(key.registry.0),
        Value::Bytes(&id),
        Value::Integer(listing.checked_at.seconds()),
        Value::OptionalInteger(endpoint_key),
        Value::Text(&document),
    ];
    transaction.execute(KEEP_LISTING, &values).await?;
    crate::usage::note_payees(transaction, key, listing).await
}

/// Until when a tool is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// As before.
    Before,
    /// It is not listed, so nothing expires.
    Never,
    /// Until then.
    At(UnixTime),
    /// For this number of seconds from now, by the database's clock, which also expires listings.
    For(i64),
}

impl Until {
    /// Returns the expiry in seconds, at this time of the database.
    pub(super) const fn seconds(self, database_now: i64) -> i64 {
        match self {
            Self::Before | Self::Never => NEVER,
            Self::At(at) => at.seconds(),
            Self::For(seconds) => database_now.saturating_add(seconds),
        }
    }
}

/// Writes the state kept of a tool, and until when the tool is listed.
pub(crate) async fn keep_watch(
    transaction: &mut Transaction,
    database: &Database,
    key: ToolKey,
    watch: &Watch,
    until: Until,
) -> Result<(), Error> {
    let id = key.id_bytes();
    let memory = json(&watch.memory)?;
    let (registry, tool) = (Value::Integer(key.registry.0), Value::Bytes(&id));
    let (looks, memory) = (Value::Bytes(&watch.looks), Value::Text(&memory));
    let (sql, time) = match until {
        Until::Before => {
            transaction.execute(KEEP_LOOKS, &[registry, tool, looks, memory]).await?;
            return Ok(());
        }
        Until::Never => (KEEP_WATCH, NEVER),
        Until::At(at) => (KEEP_WATCH, at.seconds()),
        Until::For(seconds) => (database.pick(KEEP_WATCH_FOR), seconds),
    };
    transaction.execute(sql, &[registry, tool, Value::Integer(time), looks, memory]).await?;
    Ok(())
}

/// Evidence and report, prepared before the transaction begins: compression takes longer than a lock should be held.
pub(crate) struct PreparedReport {
    pub(super) at: UnixTime,
    pub(super) is_verified: bool,
    pub(super) report: String,
    pub(super) evidence: Vec<u8>,
    /// The object with both, if the object store accepted it.
    pub(super) object: Option<Put>,
}

impl PreparedReport {
    /// Prepares it, and puts it into the object store if there is one.
    pub(crate) async fn of(index: &Index, evidence: &Evidence, report: &Report) -> Result<Self, Error> {
        let (at, is_verified, report) = (evidence.gathered_at, report.verified, json(report)?);
        let evidence = serde_json::to_vec(evidence).map_err(|_| Error::Corrupt { what: "evidence" })?;
        let object = index.put_bundle(&evidence, &report).await?;
        Ok(Self { at, is_verified, report, evidence: pack(&evidence)?, object })
    }

    /// Returns the values for the rows: the reference that the transaction has claimed, or the content itself.
    pub(super) fn row(&self, claimed: Option<&Reference>) -> (Cow<'_, [u8]>, Cow<'_, str>) {
        match claimed {
            Some(reference) => (reference.0.to_vec().into(), reference.text().into()),
            None => (self.evidence.as_slice().into(), self.report.as_str().into()),
        }
    }

    pub(crate) async fn write(&self, transaction: &mut Transaction, key: ToolKey) -> Result<(), Error> {
        let id = key.id_bytes();
        let (registry, tool, at) = (Value::Integer(key.registry.0), Value::Bytes(&id), Value::Integer(self.at.seconds()));
        let claimed = match self.object {
            Some(put) if objects::claim(transaction, put).await? => Some(put.reference),
            _ => None,
        };
        let (evidence, report) = self.row(claimed.as_ref());
        transaction.execute(KEEP_REPORT, &[registry, tool, at, Value::Text(&report)]).await?;
        let older = if self.is_verified { FORGET_VERIFIED } else { KEEP_VERIFIED };
        transaction.execute(older, &[registry, tool]).await?;
        let values = [registry, tool, at, Value::Boolean(self.is_verified), Value::Bytes(&evidence)];
        transaction.execute(KEEP_EVIDENCE, &values).await?;
        Ok(())
    }
}

/// Adds to the history of a tool, if the verdict changed.
pub(crate) async fn add_verdict(transaction: &mut Transaction, key: ToolKey, change: &VerdictChange) -> Result<bool, Error> {
    let id = key.id_bytes();
    let (registry, tool) = (Value::Integer(key.registry.0), Value::Bytes(&id));
    let last = transaction.fetch_optional(VERDICTS, &[registry, tool, Value::Integer(1)]).await?;
    if last.as_ref().map(VerdictChange::read).transpose()?.is_some_and(|last| last.is_same(change)) {
        return Ok(false);
    }
    let failed = change.failed.as_ref();
    let values = [
        registry,
        tool,
        Value::Integer(change.at.seconds()),
        Value::Text(change.verdict.as_str()),
        Value::Boolean(change.conformant),
        Value::OptionalInteger(failed.and_then(|failed| failed.check).map(i64::from)),
        Value::OptionalText(failed.map(|failed| failed.step.as_str())),
        Value::OptionalText(failed.map(|failed| failed.code.as_str())),
        Value::Bytes(change.manifest_hash.as_slice()),
    ];
    transaction.execute(ADD_VERDICT, &values).await?;
    transaction.execute(CUT_VERDICTS, &[registry, tool, Value::Integer(MAX_VERDICTS)]).await?;
    Ok(true)
}

pub(crate) fn json(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|_| Error::Corrupt { what: "value to write" })
}

/// Compresses. Evidence is mostly certificates and JSON, which shrink to a third.
pub(crate) fn pack(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).map_err(|_| Error::Corrupt { what: "evidence" })
}

/// Decompresses, up to the size of an evidence file.
pub(crate) fn unpack(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let limit = MAX_FILE_BYTES as u64;
    let mut unpacked = Vec::new();
    let read = GzDecoder::new(bytes).take(limit + 1).read_to_end(&mut unpacked);
    match read {
        Ok(length) if length as u64 <= limit => Ok(unpacked),
        _ => Err(Error::Corrupt { what: "evidence" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_survives_and_a_bomb_does_not_go_off() {
        let bytes = br#"{"a": "b"}"#.repeat(1_000);
        let packed = pack(&bytes).expect("packed");
        assert!(packed.len() < bytes.len() / 10);
        assert_eq!(unpack(&packed).expect("unpacked"), bytes);
        let bomb = pack(&vec![0; MAX_FILE_BYTES + 1]).expect("packed");
        assert!(matches!(unpack(&bomb), Err(Error::Corrupt { .. })));
        assert!(unpack(b"no gzip").is_err());
    }
}
