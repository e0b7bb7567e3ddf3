//! The list of names: a file with one name per line, read again when it changes.
//!
//! All processes of one database share one list: the process that last read a changed file sets it. Names that left the list are kept with
//! their history, but neither resolved nor shown.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{B256, keccak256};
use futures_util::FutureExt as _;
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_core::text::escape_for_display;
use toolcrib_store::database::{Bulk, Column, FromRow as _};
use toolcrib_store::{row, sql};

use super::events::feed_key;
use super::find::folded;
use super::tables::COUNT_CHANGE;
use crate::feed::{self, Kinds};
use crate::{Error, Index};

/// The maximum number of names in a list: many times the number of names with legacy records, and as many as a resolver remembers. Hourly
/// checks of all of them are five a second, and a search, which reads all of them, takes milliseconds.
pub const MAX_NAMES: usize = 16_384;

/// The maximum size of the file: the maximum number of names at 67 bytes each, and the same again for comments.
pub const MAX_FILE_BYTES: u64 = 2 << 20;

/// The maximum number of bad lines that are reported one by one. The rest is counted.
pub const MAX_BAD_LINES: usize = 100;

/// The maximum length of the quoted part of a bad line, in characters.
const MAX_QUOTED_CHARS: usize = 80;

/// The list of names in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameList {
    /// The names, sorted, each once.
    pub names: BTreeSet<AgtDomain>,
    /// Lines that are not names, at most [`MAX_BAD_LINES`].
    pub bad: Vec<BadLine>,
    /// How many lines are not names.
    pub bad_count: usize,
}

/// A line that is not a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, counted from 1.
    pub line: usize,
    /// The text, truncated and escaped for display.
    pub text: String,
    /// The reason.
    pub reason: &'static str,
}

/// The changes that a new list made in the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameChanges {
    /// Names that are new or returned.
    pub added: usize,
    /// Names that were removed.
    pub left: usize,
}

impl NameList {
    /// Parses a list: one name per line in any accepted spelling; `#` begins a comment; empty lines are ignored. Bad lines do not affect
    /// the others; a list with more than [`MAX_NAMES`] names is rejected whole, because truncating it would be arbitrary.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let mut list = Self::default();
        // Some editors write a byte order mark first.
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        for (line, bytes) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            let lossy = String::from_utf8_lossy(bytes);
            let text = lossy.split('#').next().unwrap_or_default().trim();
            if text.is_empty() {
                continue;
            }
            match AgtDomain::from_input(text) {
                Ok(name) => {
                    list.names.insert(name);
                    if list.names.len() > MAX_NAMES {
                        return Err(Error::NamesTooMany { limit: "16,384 names" });
                    }
                }
                Err(fault) => {
                    list.bad_count += 1;
                    if list.bad.len() < MAX_BAD_LINES {
                        let quoted: String = text.chars().take(MAX_QUOTED_CHARS).collect();
                        list.bad.push(BadLine { line, text: escape_for_display(&quoted), reason: fault.described() });
                    }
                }
            }
        }
        Ok(list)
    }
}

/// A file with a list of names.
#[derive(Clone, Debug)]
pub struct NamesFile {
    path: PathBuf,
    /// The hash of the content that was last applied to the index.
    known: Option<B256>,
}

impl NamesFile {
    /// Creates a reader for the file at a path. Nothing is read yet.
    pub const fn new(path: PathBuf) -> Self {
        Self { path, known: None }
    }

    /// Reads the file, and updates the names in the index if the content changed. A file that cannot be read changes nothing.
    pub async fn refresh(&mut self, index: &Index, now: UnixTime) -> Result<Option<(NameList, NameChanges)>, Error> {
        let path = self.path.clone();
        let read = tokio::task::spawn_blocking(move || read(&path)).await;
        let bytes = read.map_err(|_| Error::Corrupt { what: "state: reading a file ended unexpectedly" })??;
        let hash = keccak256(&bytes);
        if self.known == Some(hash) {
            return Ok(None);
        }
        let list = NameList::parse(&bytes)?;
        let changes = index.set_agent_names(&list.names, now).await?;
        self.known = Some(hash);
        Ok(Some((list, changes)))
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let failed = |error| Error::File { what: "the list of names cannot be read", error };
    std::fs::File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(Error::NamesTooMany { limit: "2 MiB" });
    }
    Ok(bytes)
}

/// Reads a file of names at an interval until `shutdown`. Errors are logged, and the list that was read before stays.
pub async fn follow_names(
    index: Index,
    mut file: NamesFile,
    clock: Arc<dyn Clock + Send + Sync>,
    every: Duration,
    shutdown: impl Future<Output = ()> + Send,
) {
    let mut shutdown = std::pin::pin!(shutdown.fuse());
    loop {
        tokio::select! {
            () = &mut shutdown => return,
            () = tokio::time::sleep(every) => {}
        }
        match file.refresh(&index, clock.now()).await {
            Ok(None) => {}
            Ok(Some((list, changes))) => {
                for BadLine { line, text, reason } in &list.bad {
                    tracing::warn!(line, text, reason, "line of the list of names ignored");
                }
                let (names, bad) = (list.names.len(), list.bad_count);
                tracing::info!(names, added = changes.added, left = changes.left, bad, "list of names read");
            }
            Err(error) => {
                let error = (error.code().id(), escape_for_display(&error.to_string()));
                tracing::warn!(code = error.0, error = error.1, "list of names not read, keeping the last one");
            }
        }
    }
}

row! {
    struct NameRow {
        domain: String,
        listed: bool,
    }
}

const NAMES: &str = sql!("SELECT ", NameRow::COLUMNS, " FROM index_agent");
/// A name that is new or came back is due at once.
const ADD: Bulk = Bulk {
    table: "index_agent",
    columns: &["domain", "listed", "added_at", "due_at", "newest_at", "title", "words"],
    conflict: "ON CONFLICT (domain) DO UPDATE SET listed = excluded.listed, due_at = excluded.due_at, attempts = 0",
};
/// A name that was removed is not processed: a worker that is resolving it writes nothing.
const LEAVE: Bulk = Bulk {
    table: "index_agent",
    columns: &["domain", "listed"],
    conflict: "ON CONFLICT (domain) DO UPDATE SET listed = excluded.listed, leased_until = NULL, lease = NULL",
};

impl Index {
    /// Replaces the list: other names are kept, but neither resolved nor shown.
    pub async fn set_agent_names(&self, names: &BTreeSet<AgtDomain>, now: UnixTime) -> Result<NameChanges, Error> {
        let mut transaction = self.database().begin().await?;
        let mut known = BTreeMap::new();
        for row in NameRow::from_rows(&transaction.fetch(NAMES, &[]).await?) {
            let row = row?;
            known.insert(row.domain, row.listed);
        }
        // Sorted by name, as workers write them, to avoid deadlocks between two that lock the same rows.
        let added: Vec<&AgtDomain> = names.iter().filter(|name| known.get(name.as_str()) != Some(&true)).collect();
        let is_in = |name: &str| AgtDomain::parse(name).is_ok_and(|name| names.contains(&name));
        let left: Vec<&str> =
            known.iter().filter(|(name, listed)| **listed && !is_in(name)).map(|(name, _)| name.as_str()).collect();
        let changes = NameChanges { added: added.len(), left: left.len() };
        if !added.is_empty() {
            let domains: Vec<&str> = added.iter().map(|name| name.as_str()).collect();
            let titles: Vec<String> = added.iter().map(|name| folded(&title(name, None))).collect();
            let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
            let times = vec![now.seconds(); domains.len()];
            let columns = [
                Column::Texts(&domains),
                Column::Booleans(&vec![true; domains.len()]),
                Column::Integers(&times),
                Column::Integers(&times),
                Column::Integers(&times),
                Column::Texts(&titles),
                Column::Texts(&titles),
            ];
            transaction.insert_many(&ADD, &columns).await?;
        }
        if !left.is_empty() {
            transaction.insert_many(&LEAVE, &[Column::Texts(&left), Column::Booleans(&vec![false; left.len()])]).await?;
        }
        if changes != NameChanges::default() {
            transaction.execute(COUNT_CHANGE, &[]).await?;
            let added = added.into_iter().map(|name| (feed_key(name), Kinds::LISTED));
            let left = left.iter().filter_map(|name| AgtDomain::parse(name).ok());
            let events: Vec<_> = added.chain(left.map(|name| (feed_key(&name), Kinds::DELISTED))).collect();
            feed::record(&mut transaction, &events, now).await?;
        }
        transaction.commit().await?;
        Ok(changes)
    }
}

/// Returns the title that searches match: the domain, its display form, and the name that the agent claims.
pub(super) fn title(domain: &AgtDomain, name: Option<&str>) -> String {
    let unicode = domain.unicode();
    [Some(domain.as_str()), unicode.as_deref(), name].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_names_comments_or_reported() {
        let text = "\u{feff}alpha.agt\r\n# a comment\n\n  BETA.agt  # the second\nmünchen.agt\nalpha.agt\nexample.com\nb\u{1b}[31m.agt\na.b.agt\nagt\n";
        let list = NameList::parse(text.as_bytes()).expect("a list");
        let names: Vec<&str> = list.names.iter().map(AgtDomain::as_str).collect();
        assert_eq!(names, ["alpha.agt", "beta.agt", "xn--mnchen-3ya.agt"]);
        assert_eq!(list.bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), [7, 8, 9, 10]);
        assert!(list.bad.iter().all(|bad| !bad.text.contains('\u{1b}') && !bad.reason.is_empty()), "{:?}", list.bad);
        assert_eq!(list.bad_count, 4);
    }

    #[test]
    fn a_list_has_bounds() {
        let bad = NameList::parse("not a name\n".repeat(1_000).as_bytes()).expect("a list");
        assert_eq!((bad.names.len(), bad.bad.len(), bad.bad_count), (0, MAX_BAD_LINES, 1_000));
        let hostile = NameList::parse(&[&b"a\xff\xfe.agt\n"[..], &b"x".repeat(1_000_000), b"\nok.agt"].concat()).expect("a list");
        assert_eq!((hostile.names.len(), hostile.bad_count), (1, 2));
        assert!(hostile.bad.iter().all(|bad| bad.text.chars().count() <= 2 * MAX_QUOTED_CHARS), "{:?}", hostile.bad);
        let many: String = (0..=MAX_NAMES).map(|n| format!("n{n}.agt\n")).collect();
        assert!(matches!(NameList::parse(many.as_bytes()), Err(Error::NamesTooMany { .. })));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("names");
        std::fs::write(&path, b"#".repeat(MAX_FILE_BYTES as usize + 1)).expect("written");
        assert!(matches!(read(&path), Err(Error::NamesTooMany { .. })));
        assert!(matches!(read(&folder.path().join("missing")), Err(Error::File { .. })));
    }
}
