//! Moves existing evidence between database and object store.
//!
//! Each row is changed only if it still has the value that was read, so a verification that finishes meanwhile wins.

use toolcrib_store::database::{FromRow as _, Value};
use toolcrib_store::objects;
use toolcrib_store::{row, sql};

use super::{Reference, claim};
use crate::model::ToolKey;
use crate::work::kept::{pack, unpack};
use crate::{Error, Index};

/// Rows read at once: each may have megabytes.
const PAGE: i64 = 16;

/// The destination of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// In the object store.
    ToObjects,
    /// In the database.
    ToDatabase,
}

/// Where evidence is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Rows with the evidence itself.
    pub in_database: u64,
    /// Rows with a reference to an object.
    pub in_objects: u64,
}

row! {
    struct PlacementRow {
        in_database: i64 = "(SELECT COUNT(*) FROM index_evidence WHERE length(bytes) <> 36)",
        in_objects: i64 = "(SELECT COUNT(*) FROM index_evidence WHERE length(bytes) = 36)",
    }
}

const COUNT: &str = sql!("SELECT ", PlacementRow::COLUMNS);

row! {
    /// A row of evidence, and the report of the same tool.
    struct EvidenceRow<'r> from "e" {
        registry: i64,
        tool: &'r [u8],
        kind: i64,
        bytes: Vec<u8>,
        document: Option<String> = "r.document",
    }
}

const IN_DATABASE: &str = sql!(
    "SELECT ",
    EvidenceRow::COLUMNS,
    " FROM index_evidence e
    LEFT JOIN index_report r ON r.registry = e.registry AND r.tool = e.tool
    WHERE (e.registry, e.tool, e.kind) > ($1, $2, $3) AND length(e.bytes) <> 36 ORDER BY e.registry, e.tool, e.kind LIMIT $4"
);
const IN_OBJECTS: &str = sql!(
    "SELECT ",
    EvidenceRow::COLUMNS,
    " FROM index_evidence e
    LEFT JOIN index_report r ON r.registry = e.registry AND r.tool = e.tool
    WHERE (e.registry, e.tool, e.kind) > ($1, $2, $3) AND length(e.bytes) = 36 ORDER BY e.registry, e.tool, e.kind LIMIT $4"
);
const MOVE: &str = "UPDATE index_evidence SET bytes = $5 WHERE registry = $1 AND tool = $2 AND kind = $3 AND bytes = $4";
const MOVE_REPORT: &str = "UPDATE index_report SET document = $4 WHERE registry = $1 AND tool = $2 AND document = $3";

/// A row of evidence, and the report of the same tool.
struct Evidence {
    key: ToolKey,
    kind: i64,
    bytes: Vec<u8>,
    document: Option<String>,
}

impl Evidence {
    fn of(row: EvidenceRow<'_>) -> Result<Self, Error> {
        let key = ToolKey::from_columns(row.registry, row.tool)?;
        Ok(Self { key, kind: row.kind, bytes: row.bytes, document: row.document })
    }

    /// Returns the report, which belongs to the newest evidence, of kind 0.
    fn report(&self) -> Option<&str> {
        self.document.as_deref().filter(|_| self.kind == 0)
    }
}

impl Index {
    /// Counts where evidence is stored. It reads all rows.
    pub async fn evidence_placement(&self) -> Result<Placement, Error> {
        let row = self.database().fetch_optional(COUNT, &[]).await?.ok_or(Error::Corrupt { what: "count" })?;
        let row = PlacementRow::from_row(&row)?;
        Ok(Placement { in_database: row.in_database.unsigned_abs(), in_objects: row.in_objects.unsigned_abs() })
    }

    /// Moves evidence and reports, at most `most` rows after a position; returns their number and the position to continue at, if there
    /// are more. What cannot be moved stays where it is, such as a lost object.
    pub async fn transfer_evidence(
        &self,
        direction: Direction,
        after: Option<TransferPlace>,
        most: u64,
    ) -> Result<(u64, Option<TransferPlace>), Error> {
        let mut place = after.unwrap_or_default();
        let mut moved = 0;
        while moved < most {
            let sql = if direction == Direction::ToObjects { IN_DATABASE } else { IN_OBJECTS };
            let values =
                [Value::Integer(place.registry), Value::Bytes(&place.tool), Value::Integer(place.kind), Value::Integer(PAGE)];
            let rows = self.database().fetch(sql, &values).await?;
            for row in EvidenceRow::from_rows(&rows) {
                let evidence = Evidence::of(row?)?;
                place = TransferPlace {
                    registry: evidence.key.registry.0,
                    tool: evidence.key.id_bytes().to_vec(),
                    kind: evidence.kind,
                };
                moved += u64::from(match direction {
                    Direction::ToObjects => self.to_objects(&evidence).await?,
                    Direction::ToDatabase => self.to_database(&evidence).await?,
                });
            }
            if rows.len() < PAGE as usize {
                return Ok((moved, None));
            }
        }
        Ok((moved, Some(place)))
    }

    async fn to_objects(&self, evidence: &Evidence) -> Result<bool, Error> {
        let Ok(unpacked) = unpack(&evidence.bytes) else { return Ok(false) };
        let report = evidence.report().filter(|document| Reference::read_text(document).is_none());
        // The report of older evidence is not kept: an empty one replaces it.
        let away = || objects::Error::Unavailable { detail: "it failed a moment ago".to_owned() };
        let put = self.put_bundle(&unpacked, report.unwrap_or("null")).await?.ok_or_else(away)?;
        let mut transaction = self.database().begin().await?;
        if !claim(&mut transaction, put).await? {
            transaction.rollback().await?;
            return Ok(false);
        }
        let id = evidence.key.id_bytes();
        let (registry, tool, kind) = (Value::Integer(evidence.key.registry.0), Value::Bytes(&id), Value::Integer(evidence.kind));
        let values = [registry, tool, kind, Value::Bytes(&evidence.bytes), Value::Bytes(&put.reference.0)];
        if transaction.execute(MOVE, &values).await? == 0 {
            transaction.rollback().await?;
            return Ok(false);
        }
        if let Some(report) = report {
            let text = put.reference.text();
            transaction.execute(MOVE_REPORT, &[registry, tool, Value::Text(report), Value::Text(&text)]).await?;
        }
        transaction.commit().await?;
        Ok(true)
    }

    async fn to_database(&self, evidence: &Evidence) -> Result<bool, Error> {
        let Some(reference) = Reference::read(&evidence.bytes) else { return Ok(false) };
        let bundle = match self.bundle(reference).await {
            Ok(bundle) => bundle,
            Err(Error::Objects(error)) if error.is_lost() => return Ok(false),
            Err(error) => return Err(error),
        };
        let packed = pack(&bundle.evidence)?;
        let mut transaction = self.database().begin().await?;
        let id = evidence.key.id_bytes();
        let (registry, tool, kind) = (Value::Integer(evidence.key.registry.0), Value::Bytes(&id), Value::Integer(evidence.kind));
        let values = [registry, tool, kind, Value::Bytes(&evidence.bytes), Value::Bytes(&packed)];
        if transaction.execute(MOVE, &values).await? == 0 {
            transaction.rollback().await?;
            return Ok(false);
        }
        let text = reference.text();
        if evidence.report() == Some(text.as_str()) {
            let values = [registry, tool, Value::Text(&text), Value::Text(&bundle.report)];
            transaction.execute(MOVE_REPORT, &values).await?;
        }
        transaction.commit().await?;
        Ok(true)
    }
}

/// A position among the rows of evidence, in key order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferPlace {
    registry: i64,
    tool: Vec<u8>,
    kind: i64,
}

impl Default for TransferPlace {
    fn default() -> Self {
        Self { registry: -1, tool: Vec::new(), kind: -1 }
    }
}
