//! Queries the log.

use std::collections::VecDeque;
use std::io::BufReader;

use serde_json::Value;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::time::parse_rfc3339;

use super::lines::{Line, Read, next_line};
use super::verify::files;
use super::{AuditError, AuditLog, Entry, Event};
use crate::local::StateFileError;
use crate::local::state_file::open_regular;

/// Most entries of one result.
pub const MAX_FOUND: usize = 10_000;

/// Filters entries. Fields that are not set match everything.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Entries of this tool.
    pub tool: Option<String>,
    /// Entries of this function.
    pub function: Option<String>,
    /// Entries of this call.
    pub call: Option<String>,
    /// Entries with one of these events.
    pub events: Vec<Event>,
    /// Entries with none of these events.
    pub without: Vec<Event>,
    /// Entries from this time on.
    pub since: Option<UnixTime>,
    /// Entries with a larger number, to follow a log.
    pub after: Option<u64>,
}

/// The result of a query.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The newest entries that match, oldest first.
    pub entries: Vec<Entry>,
    /// Lines that are not valid audit lines, or whose hash is wrong. [`verify`](super::verify) names the first.
    pub invalid: u64,
}

impl Filter {
    fn accepts(&self, entry: &Entry) -> bool {
        let is = |wanted: &Option<String>, own: &Option<String>| wanted.is_none() || wanted == own;
        is(&self.tool, &entry.details.tool)
            && is(&self.function, &entry.details.function)
            && is(&self.call, &entry.details.call)
            && (self.events.is_empty() || self.events.contains(&entry.event))
            && !self.without.contains(&entry.event)
            && self.after.is_none_or(|after| entry.seq > after)
            && self.since.is_none_or(|since| parse_rfc3339(&entry.time).is_ok_and(|time| time >= since))
    }
}

impl AuditLog {
    /// Returns the newest `limit` matching entries, at most [`MAX_FOUND`]. Older files are opened only until there are enough.
    pub fn read(&self, filter: &Filter, limit: usize) -> Result<Found, AuditError> {
        let limit = limit.min(MAX_FOUND);
        let mut found = Found::default();
        let mut newest: VecDeque<Entry> = VecDeque::new();
        for path in files(self.folder())?.iter().rev() {
            let mut own: VecDeque<Entry> = VecDeque::new();
            // Rotated after the listing, so the path does not exist any more.
            let Some((file, _)) = open_regular(path)? else { continue };
            let mut reader = BufReader::new(file);
            let mut bytes = Vec::new();
            loop {
                match next_line(&mut reader, &mut bytes).map_err(StateFileError::io("read", path))? {
                    Read::Line => {}
                    Read::TooLong => {
                        found.invalid += 1;
                        continue;
                    }
                    Read::Torn | Read::End => break,
                }
                let entry = Line::parse(&bytes).ok().and_then(|line| serde_json::from_value(Value::Object(line.object)).ok());
                let Some(entry) = entry else {
                    found.invalid += 1;
                    continue;
                };
                if filter.accepts(&entry) {
                    own.push_back(entry);
                    if own.len() > limit - newest.len() {
                        own.pop_front();
                    }
                }
            }
            own.append(&mut newest);
            newest = own;
            if newest.len() >= limit {
                break;
            }
        }
        found.entries = newest.into();
        Ok(found)
    }
}
