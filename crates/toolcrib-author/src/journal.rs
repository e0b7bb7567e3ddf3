//! The journal: what was begun is written down before it is done, so that it can be finished after a crash.
//!
//! A transaction is journalled *signed* and only then sent. Sending the same bytes twice is harmless: the nonce in them
//! lets the chain take them once. So whoever resumes sends again what stands there, and never signs a second one that
//! could register a second tool.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use alloy_primitives::{Address, B256, U256};
use serde::{Deserialize, Serialize};
use toolcrib_chain::transaction::Signed;
use toolcrib_files::AtomicFile;

use crate::Error;
use crate::plan::Step;

/// The version of the format, so that a later one can tell.
const FORMAT: u32 = 1;

/// Most bytes of one entry. The largest holds a few signed transactions of some kilobytes each.
const MAX_ENTRY_BYTES: u64 = 1 << 20;

/// A folder of entries.
#[derive(Clone, Debug)]
pub struct Journal {
    folder: PathBuf,
}

/// An entry that no other process works on.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// One piece of work of several steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    format: u32,
    /// The name of the entry.
    pub id: String,
    /// The chain it belongs to. It must never be finished on another.
    pub chain_id: u64,
    /// The registry it belongs to.
    pub registry: Address,
    /// Who signs.
    pub signer: Address,
    /// The tool, once it has an id.
    pub tool: Option<U256>,
    /// What is to be done, in order, and how far it is.
    pub steps: Vec<Progress>,
}

/// A step and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// What is to be done.
    pub step: Step,
    /// How far it is.
    pub state: State,
}

/// How far a step is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nothing was signed.
    Waiting,
    /// A transaction was signed. It may have been sent, or not.
    Signed(Signed),
    /// The transaction is in a block and did what it should.
    Done {
        /// Its hash.
        hash: B256,
        /// The block.
        block: u64,
    },
}

impl Entry {
    /// A new entry, not written yet. The id names who does what: it is the same for the same work, so that work that
    /// was begun is found again instead of being begun twice.
    pub fn new(id: String, chain_id: u64, registry: Address, signer: Address, tool: Option<U256>, steps: Vec<Step>) -> Self {
        let steps = steps.into_iter().map(|step| Progress { step, state: State::Waiting }).collect();
        Self { format: FORMAT, id, chain_id, registry, signer, tool, steps }
    }

    /// Whether anything was signed: then it must be finished before other work takes its place.
    pub fn is_begun(&self) -> bool {
        self.steps.iter().any(|progress| progress.state != State::Waiting)
    }

    /// Whether every step is done.
    pub fn is_done(&self) -> bool {
        self.steps.iter().all(|progress| matches!(progress.state, State::Done { .. }))
    }
}

impl Journal {
    /// The journal in a folder, which is made when the first entry is written.
    pub const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Writes an entry, whole or not at all, and waits until the disk has it.
    pub fn save(&self, entry: &Entry) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        // Signed transactions are no secrets once sent, and private before.
        AtomicFile::new(self.path(&entry.id)?).replace(&serde_json::to_vec_pretty(entry)?)
    }

    /// Reads an entry; `None` when there is none of that name.
    pub fn load(&self, id: &str) -> io::Result<Option<Entry>> {
        let path = self.path(id)?;
        match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
            Ok(found) if found.len() > MAX_ENTRY_BYTES => return Err(unreadable(&path, "it is too large")),
            Ok(_) => {}
        }
        let entry: Entry = serde_json::from_slice(&fs::read(&path)?).map_err(|error| unreadable(&path, &error.to_string()))?;
        if entry.format != FORMAT {
            return Err(unreadable(&path, "it was written by another version"));
        }
        Ok(Some(entry))
    }

    /// Takes an entry for this process, as long as the lock lives. The system gives it back when the process dies, however it
    /// dies; the empty file stays.
    pub fn lock(&self, id: &str) -> Result<Lock, Error> {
        fs::create_dir_all(&self.folder)?;
        let path = self.path(id)?.with_extension("lock");
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Lock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Error::Busy { id: id.to_owned() }),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }

    /// Every entry that is not done, by name.
    pub fn unfinished(&self) -> io::Result<Vec<Entry>> {
        let names = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            names => names?,
        };
        let mut ids = Vec::new();
        for name in names {
            let path = name?.path();
            if path.extension().is_some_and(|ending| ending == "json") {
                ids.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
            }
        }
        ids.sort();
        let entries = ids.iter().map(|id| self.load(id)).collect::<io::Result<Vec<_>>>()?;
        Ok(entries.into_iter().flatten().filter(|entry| !entry.is_done()).collect())
    }

    fn path(&self, id: &str) -> io::Result<PathBuf> {
        let is_plain = !id.is_empty() && id.len() <= 100 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_plain {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a journal entry has a plain name"));
        }
        Ok(self.folder.join(format!("{id}.json")))
    }
}

fn unreadable(path: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} cannot be read: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str) -> Entry {
        let step = Step::Deregister;
        Entry::new(id.to_owned(), 31337, Address::repeat_byte(1), Address::repeat_byte(2), Some(U256::from(7)), vec![step])
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let folder = tempfile::tempdir().expect("a folder");
        let journal = Journal::new(folder.path().join("deeper/journal"));
        assert_eq!(journal.unfinished().expect("no folder yet"), []);
        let mut entry = entry("deregister-7");
        journal.save(&entry).expect("saved");
        assert_eq!(journal.load("deregister-7").expect("readable"), Some(entry.clone()));
        assert_eq!(journal.load("another").expect("readable"), None);
        assert_eq!(journal.unfinished().expect("readable"), [entry.clone()]);
        entry.steps[0].state = State::Done { hash: B256::ZERO, block: 1 };
        journal.save(&entry).expect("saved again");
        assert_eq!(journal.unfinished().expect("readable"), []);
        let left: Vec<_> = fs::read_dir(folder.path().join("deeper/journal")).expect("folder").collect();
        assert_eq!(left.len(), 1, "no temporary file is left");
    }

    #[test]
    fn one_process_at_a_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let journal = Journal::new(folder.path().join("journal"));
        let lock = journal.lock("publish-1").expect("free");
        assert!(matches!(journal.lock("publish-1"), Err(Error::Busy { .. })));
        journal.lock("publish-2").expect("another one is free");
        drop(lock);
        journal.lock("publish-1").expect("free again");
        assert_eq!(journal.unfinished().expect("readable"), [], "a lock is no work");
    }

    #[test]
    fn names_cannot_lead_elsewhere_and_damage_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let journal = Journal::new(folder.path().to_owned());
        for id in ["../x", "a/b", "", "a.b"] {
            assert!(journal.load(id).is_err(), "{id}");
        }
        fs::write(folder.path().join("half.json"), b"{\"format\":1,").expect("a file");
        assert!(journal.load("half").expect_err("damaged").to_string().contains("half.json cannot be read"));
        let mut other = entry("other");
        other.format = 2;
        journal.save(&other).expect("saved");
        assert!(journal.load("other").expect_err("another version").to_string().contains("another version"));
    }
}
