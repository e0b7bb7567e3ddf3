//! The memory: the newest verified manifest of each name.
//!
//! Every manifest that an owner ever signed stays valid as long as the owner owns the name, so an attacker who controls the TXT record can
//! roll back to an old one. A reader detects that only by remembering. Only verified results are remembered, and an entry is never replaced
//! by an older one.

mod file;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use alloy_primitives::{Address, B256};
use serde::{Deserialize, Serialize};
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::{self, Code};

pub use file::{FileMemory, LOCK_WAIT};

use crate::report::AgentReport;

/// Maximum number of names: many times the names under .agt that have ever had agent records (about a thousand).
pub const MAX_NAMES: usize = 16_384;

/// The newest verified manifest of a name. The entry also shows that the name had a manifest and not only legacy records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remembered {
    /// Its `created_at`, or the time of the verification if that is earlier.
    pub created_at: UnixTime,
    /// Its CID.
    pub cid: String,
    /// The digest of its signed content, which does not depend on formatting.
    pub digest: B256,
    /// Its owner at that time.
    pub owner: Address,
}

impl Remembered {
    /// The entry for a report; `None` unless the report is verified.
    pub fn of(report: &AgentReport, now: UnixTime) -> Option<Self> {
        let content = report.content.as_ref().filter(|_| report.verified)?;
        Some(Self {
            // A time in the future would make every honest update look older.
            created_at: report.created_at?.min(now),
            cid: content.cid.clone()?,
            digest: content.digest,
            owner: report.owner?,
        })
    }
}

/// Remembers verified manifests.
pub trait AgentMemory: Send + Sync {
    /// Returns the entry of a name.
    fn recall(&self, domain: &AgtDomain) -> Option<Remembered>;

    /// Stores a verified manifest, unless the entry of the name is newer.
    fn remember(&self, domain: &AgtDomain, remembered: Remembered) -> Result<(), MemoryError>;
}

/// A memory for the lifetime of the process.
#[derive(Debug, Default)]
pub struct ProcessMemory {
    names: Mutex<Names>,
}

impl AgentMemory for ProcessMemory {
    fn recall(&self, domain: &AgtDomain) -> Option<Remembered> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).get(domain.as_str()).cloned()
    }

    fn remember(&self, domain: &AgtDomain, remembered: Remembered) -> Result<(), MemoryError> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).keep(domain.as_str(), remembered).map(drop)
    }
}

/// Why the memory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// An I/O error.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The operation, such as "write".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// Other users of the computer have access to the file or its folder.
    #[error("{} has mode {mode:o}, which gives other users access", path.display())]
    Exposed {
        /// The file or folder.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The path is a symbolic link, a folder or a device instead of a regular file.
    #[error("{} is not a regular file (symbolic links are not followed)", path.display())]
    NotRegular {
        /// The path.
        path: PathBuf,
    },
    /// The file is corrupt.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Another process held the lock for too long.
    #[error("{} has been locked by another process for more than {} s", path.display(), wait.as_secs_f32())]
    Busy {
        /// The lock file.
        path: PathBuf,
        /// The time waited.
        wait: Duration,
    },
    /// The memory is full.
    #[error("{MAX_NAMES} names are remembered, which is the limit")]
    Full,
}

impl MemoryError {
    /// Returns the code of this error.
    pub const fn code(&self) -> Code {
        match self {
            Self::Io { .. } | Self::Exposed { .. } | Self::NotRegular { .. } => codes::agent::MEMORY_UNUSABLE,
            Self::Busy { .. } => codes::agent::MEMORY_BUSY,
            Self::Damaged { .. } => codes::agent::MEMORY_DAMAGED,
            Self::Full => codes::agent::MEMORY_FULL,
        }
    }
}

/// The entries by canonical name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Names(BTreeMap<String, Remembered>);

impl Names {
    fn get(&self, domain: &str) -> Option<&Remembered> {
        self.0.get(domain)
    }

    /// Keeps the newer of two entries of a name. Returns whether something changed.
    fn keep(&mut self, domain: &str, remembered: Remembered) -> Result<bool, MemoryError> {
        let is_full = self.0.len() >= MAX_NAMES;
        match self.0.get_mut(domain) {
            Some(known) if remembered.created_at < known.created_at || *known == remembered => Ok(false),
            Some(known) => {
                *known = remembered;
                Ok(true)
            }
            None if is_full => Err(MemoryError::Full),
            None => {
                self.0.insert(domain.to_owned(), remembered);
                Ok(true)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64, cid: &str) -> Remembered {
        Remembered {
            created_at: UnixTime::from_seconds(seconds),
            cid: cid.to_owned(),
            digest: B256::repeat_byte(1),
            owner: Address::repeat_byte(2),
        }
    }

    fn name(text: &str) -> AgtDomain {
        AgtDomain::parse(text).expect("a name")
    }

    #[test]
    fn the_newest_is_kept() {
        let memory = ProcessMemory::default();
        let domain = name("a.agt");
        assert_eq!(memory.recall(&domain), None);
        memory.remember(&domain, at(10, "first")).expect("kept");
        memory.remember(&domain, at(9, "older")).expect("ignored");
        assert_eq!(memory.recall(&domain), Some(at(10, "first")));
        memory.remember(&domain, at(10, "same time")).expect("kept");
        assert_eq!(memory.recall(&domain), Some(at(10, "same time")));
        memory.remember(&domain, at(11, "newer")).expect("kept");
        assert_eq!(memory.recall(&domain), Some(at(11, "newer")));
        assert_eq!(memory.recall(&name("b.agt")), None);
    }

    #[test]
    fn names_are_bounded_and_known_ones_stay() {
        let mut names = Names::default();
        for index in 0..MAX_NAMES {
            assert!(names.keep(&format!("n{index}.agt"), at(1, "x")).expect("room"));
        }
        assert!(matches!(names.keep("one-more.agt", at(1, "x")), Err(MemoryError::Full)));
        assert!(names.keep("n7.agt", at(2, "y")).expect("a known name"), "a known name is still updated");
        assert_eq!(names.get("n0.agt"), Some(&at(1, "x")), "nothing is pushed out");
    }
}
