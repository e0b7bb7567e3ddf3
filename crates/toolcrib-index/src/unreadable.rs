//! Rows that this program cannot read: skipped, logged once each, and counted.
//!
//! One damaged row, or one that a later version wrote in an unknown format, must not make all others unavailable.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use toolcrib_core::codes;
use toolcrib_store::database::Row;

use crate::Error;

/// The maximum number of rows that are remembered by name, some 100 bytes each. Those beyond it are counted again on each read.
const MAX_NAMED: usize = 10_000;

/// The unreadable rows so far.
#[derive(Debug, Default)]
pub(crate) struct Unreadable {
    count: AtomicU64,
    named: Mutex<HashSet<(&'static str, String)>>,
}

impl Unreadable {
    /// Returns how many rows were skipped since the start.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns `None` for a value that cannot be read, and records it. Other errors are returned: an unavailable database is not a reason
    /// to skip rows.
    pub(crate) fn skip<T>(&self, table: &'static str, row: &Row, read: Result<T, Error>) -> Result<Option<T>, Error> {
        self.skip_named(table, || name(row), read)
    }

    /// The same for a row that is not of a tool.
    pub(crate) fn skip_named<T>(
        &self,
        table: &'static str,
        name: impl FnOnce() -> String,
        read: Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.code() == codes::store::CORRUPT => {
                self.note(table, name(), &error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn note(&self, table: &'static str, name: String, error: &Error) {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let row = (table, name);
        if named.contains(&row) {
            return;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        tracing::error!(table, row = %row.1, code = error.code().id(), %error, "unreadable row skipped");
        if named.len() < MAX_NAMED {
            named.insert(row);
        }
    }
}

/// The registry and the tool, as far as they can be read.
fn name(row: &Row) -> String {
    let registry = row.get("registry").map_or_else(|_| "?".to_owned(), |registry: i64| registry.to_string());
    let tool = row.get::<&[u8]>("tool").map_or_else(|_| "?".to_owned(), alloy_primitives::hex::encode);
    format!("{registry}/{tool}")
}
