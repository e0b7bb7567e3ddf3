//! TXT writers: change the records of a name.
//!
//! [`RecordChange`] determines which records to remove and add before anything is sent: a name never has legacy records together with a
//! manifest pointer. A writer prints the change for users ([`PrintWriter`]), sends it to a name server ([`UpdateWriter`]), or passes it to
//! a command ([`CommandWriter`]).

mod command;
mod print;
mod update;

use std::time::Duration;

use alloy_primitives::Bytes;
use async_trait::async_trait;
use tokio::time::{Instant, sleep};
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::agent::txt::{CidText, agent_records, is_legacy, is_pointer, pointer_record};
use toolcrib_core::codes::{self, Code};
use toolcrib_core::text::escape_for_display;

pub use command::{COMMAND_TIMEOUT, CommandSettings, CommandWriter, MAX_OUTPUT_BYTES};
pub use print::PrintWriter;
pub use update::{DEFAULT_TTL, TsigKey, UPDATE_TIMEOUT, UpdateSettings, UpdateWriter};

use crate::evidence::TxtLookup;
use crate::source::TxtSource;

/// Maximum length of a record. Pointers have at most 200 bytes; this crate never writes longer records.
const MAX_RECORD_BYTES: usize = 1_024;

/// Pause between two lookups while waiting for a change to become visible.
const READ_BACK_PAUSE: Duration = Duration::from_secs(2);

/// A change of the TXT records of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordChange {
    /// The name.
    pub domain: AgtDomain,
    /// The records to remove.
    pub remove: Vec<Bytes>,
    /// The records to add.
    pub add: Vec<Bytes>,
}

/// Why TXT records were not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct WriteError {
    code: Code,
    message: String,
}

impl WriteError {
    fn new(code: Code, message: impl AsRef<str>) -> Self {
        Self { code, message: escape_for_display(message.as_ref()) }
    }

    /// Returns the code of this error.
    pub const fn code(&self) -> Code {
        self.code
    }
}

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The records that were read back after the write; `None` if the writer cannot read.
    pub read_back: Option<Vec<Bytes>>,
}

/// Changes TXT records.
#[async_trait]
pub trait TxtWriter: Send + Sync {
    /// The name of the writer in reports, without secrets.
    fn name(&self) -> &str;

    /// Makes a change. An error if it would leave legacy records together with a pointer.
    async fn write(&self, change: &RecordChange) -> Result<Written, WriteError>;
}

impl RecordChange {
    /// Points a name to a manifest: removes other pointers and, with `remove_legacy`, legacy records. Without it, legacy records are an
    /// error (.agt 1.0 §1). `existing` are the current records of the name.
    pub fn point_at(domain: &AgtDomain, cid: &CidText, existing: &[Bytes], remove_legacy: bool) -> Result<Self, WriteError> {
        let kept: Vec<&Bytes> = existing.iter().filter(|record| !(remove_legacy && is_legacy(record))).collect();
        let pointer = pointer_record(cid, &kept)
            .map_err(|finding| WriteError::new(codes::agent::TXT_WRITE_PLAN, &finding.message))?
            .into_bytes();
        let pointer = Bytes::from(pointer);
        let goes = |record: &&Bytes| (is_pointer(record) && **record != pointer) || (remove_legacy && is_legacy(record));
        let mut remove: Vec<Bytes> = existing.iter().filter(goes).cloned().collect();
        remove.sort();
        remove.dedup();
        let add = if existing.contains(&pointer) { Vec::new() } else { vec![pointer] };
        Ok(Self { domain: domain.clone(), remove, add })
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.add.is_empty()
    }

    /// The records after the change, or an error if it is not allowed.
    pub fn applied_to(&self, existing: &[Bytes]) -> Result<Vec<Bytes>, WriteError> {
        let refuse = |message: &str| Err(WriteError::new(codes::agent::TXT_WRITE_PLAN, message));
        let mut after: Vec<Bytes> = existing.iter().filter(|record| !self.remove.contains(record)).cloned().collect();
        for record in &self.add {
            if record.is_empty() || record.len() > MAX_RECORD_BYTES {
                return refuse("a record is empty or too long");
            }
            if is_legacy(record) {
                return refuse("legacy records are never written");
            }
            if !after.contains(record) {
                after.push(record.clone());
            }
        }
        let pointers = after.iter().filter(|record| is_pointer(record)).count();
        if pointers > 1 {
            return refuse("the name would have several manifest pointers");
        }
        if pointers == 1 && after.iter().any(|record| is_legacy(record)) {
            return refuse("legacy records would stay beside the manifest pointer");
        }
        Ok(after)
    }

    /// Whether these records are the result of the change.
    fn is_visible_in(&self, records: &[Bytes]) -> bool {
        let found = agent_records(records);
        let there = |record: &Bytes| records.contains(record) || found.contains(&record[..]);
        self.add.iter().all(there) && !self.remove.iter().any(there)
    }
}

/// Describes a change for users, one record per line, without control characters.
pub fn describe(change: &RecordChange) -> String {
    let shown = |record: &Bytes| escape_for_display(&String::from_utf8_lossy(record));
    let mut lines = vec![format!("TXT records of {}:", change.domain)];
    lines.extend(change.remove.iter().map(|record| format!("  remove  {}", shown(record))));
    lines.extend(change.add.iter().map(|record| format!("  add     {}", shown(record))));
    if change.is_empty() {
        lines.push("  no change".to_owned());
    }
    lines.join("\n")
}

/// Looks up a name until a change is visible, for at most `wait`: servers transfer zones, and caches keep old records for a while.
pub async fn read_back(source: &dyn TxtSource, change: &RecordChange, wait: Duration) -> Result<Vec<Bytes>, WriteError> {
    let until = Instant::now() + wait;
    loop {
        let message = match source.lookup(&change.domain).await.outcome {
            TxtLookup::Records(records) if change.is_visible_in(&records) => return Ok(records),
            TxtLookup::NoRecords | TxtLookup::NotFound if change.is_visible_in(&[]) => return Ok(Vec::new()),
            TxtLookup::Failed { message, .. } => message,
            _ => "the name still has other records".to_owned(),
        };
        if Instant::now() + READ_BACK_PAUSE > until {
            return Err(WriteError::new(codes::agent::TXT_READ_BACK, format!("{}: {message}", source.name())));
        }
        sleep(READ_BACK_PAUSE).await;
    }
}

#[cfg(test)]
mod tests;
