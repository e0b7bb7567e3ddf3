//! The journal: records each step before it is executed, so that work can be finished after a crash.
//!
//! A transaction is recorded *signed* before it is sent. Sending the same bytes twice is harmless, because the chain accepts their
//! nonce only once. So on resumption the recorded transaction is sent again, and no second one is signed that
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

/// The version of the file format.
const FORMAT: u32 = 1;

/// Maximum size of one entry. The largest has a few signed transactions of some kilobytes each.
const MAX_ENTRY_BYTES: u64 = 1 << 20;

/// A folder of journal entries.
#[derive(Clone, Debug)]
pub struct Journal {
    folder: PathBuf,
}

/// An exclusive lock on an entry across processes.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// A task of several steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    format: u32,
    /// The name of the entry.
    pub id: String,
    /// Its chain. It must never be finished on another.
    pub chain_id: u64,
    /// Its registry.
    pub registry: Address,
    /// The signer.
    pub signer: Address,
    /// The tool, once it has an id.
    pub tool: Option<U256>,
    /// The steps in order, with their state.
    pub steps: Vec<Progress>,
}

/// A step and its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The step.
    pub step: Step,
    /// Its state.
    pub state: State,
}

/// The state of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Not signed yet.
    Waiting,
    /// A transaction was signed. It may or may not have been sent.
    Signed(Signed),
    /// The transaction was mined and succeeded.
    Done {
        /// Its hash.
        hash: B256,
        /// The block.
        block: u64,
    },
}

impl Entry {
    /// Creates an entry without writing it. The same task has the same id, so that unfinished work
    /// is found instead of being started a second time.
    pub fn new(id: String, chain_id: u64, registry: Address, signer: Address, tool: Option<U256>, steps: Vec<Step>) -> Self {
        let steps = steps.into_iter().map(|step| Progress { step, state: State::Waiting }).collect();
        Self { format: FORMAT, id, chain_id, registry, signer, tool, steps }
    }

    /// Whether a transaction was signed: then the entry must be finished before other work replaces it.
    pub fn is_begun(&self) -> bool {
        self.steps.iter().any(|progress| progress.state != State::Waiting)
    }

    /// Whether every step is done.
    pub fn is_done(&self) -> bool {
        self.steps.iter().all(|progress| matches!(progress.state, State::Done { .. }))
    }
}

impl Journal {
    /// The journal in a folder, which is created with the first entry.
    pub const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Writes an entry atomically, and syncs it to disk.
    pub fn save(&self, entry: &Entry) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        // Signed transactions are public once they are sent, and private before.
        AtomicFile::new(self.path(&entry.id)?).replace(&serde_json::to_vec_pretty(entry)?)
    }

    /// Reads an entry; `None` if there is none with this id.
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

    /// Locks an entry for this process. The operating system releases the lock when the process ends, however it
    /// ends; the empty lock file stays.
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

    /// Every unfinished entry, by id.
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
