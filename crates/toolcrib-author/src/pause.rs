//! The former predicate of a paused tool.
//!
//! The registry stores only the current predicate, so the former one is kept in a file: as *begun* before anything is signed, and as
//! *paused* once the transaction is mined. The file counts only while the tool has the predicate that the pause set.
//! Everything else, such as a pause that was declined or a gate that was changed later, must not open a tool.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use alloy_primitives::{Address, U256};
use serde::{Deserialize, Serialize};
use toolcrib_chain::registry::Registry;
use toolcrib_core::codes::{self, Code};
use toolcrib_files::AtomicFile;

use crate::Error;

/// Errors after which a signed transaction is never mined.
pub const NEVER_MINED: [Code; 2] = [codes::chain::REVERTED, codes::chain::REPLACED];

/// The stored data about a paused tool.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Paused {
    /// The former predicate; `null` if access was open to every account. Always written: a damaged file must not open a tool.
    #[serde(deserialize_with = "Option::deserialize")]
    pub former: Option<Address>,
    /// The predicate that denies every account.
    pub deny: Address,
}

/// The files of one tool.
#[derive(Clone, Debug)]
pub struct PauseFile {
    /// For a pause that was begun.
    begun: PathBuf,
    /// For a pause that was mined.
    paused: PathBuf,
}

impl PauseFile {
    /// The files of a tool in a folder, which is created when needed.
    pub fn new(folder: &Path, registry: &Registry, tool: U256) -> Self {
        let name = format!("{}-{:x}-{tool}", registry.chain().chain_id(), registry.address());
        Self { begun: folder.join(format!("{name}.begun.json")), paused: folder.join(format!("{name}.json")) }
    }

    /// Records a pause that is about to be signed.
    pub fn begin(&self, paused: Paused) -> Result<(), Error> {
        // An older file is of a pause that has ended: the tool is not paused now.
        self.forget()?;
        let failed = |error| unusable(&self.begun, error);
        if let Some(folder) = self.begun.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let text = serde_json::to_vec(&paused).map_err(|error| failed(error.into()))?;
        AtomicFile::new(&self.begun).replace(&text).map_err(failed)
    }

    /// Records that the tool has the predicate of the pause that was begun.
    pub fn confirm(&self, deny: Address) -> Result<(), Error> {
        match read(&self.begun)? {
            Some(paused) if paused.deny == deny => {
                fs::rename(&self.begun, &self.paused).map_err(|error| unusable(&self.paused, error))
            }
            _ => Ok(()),
        }
    }

    /// Returns the stored data. For a pause that was begun and never confirmed, check on the chain whether it was mined.
    pub fn recall(&self) -> Result<Option<Paused>, Error> {
        Ok(match read(&self.paused)? {
            Some(paused) => Some(paused),
            None => read(&self.begun)?,
        })
    }

    /// Removes the stored data.
    pub fn forget(&self) -> Result<(), Error> {
        for path in [&self.begun, &self.paused] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unusable(path, error)),
                _ => {}
            }
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<Option<Paused>, Error> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable(path, error)),
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|_| Error::PauseFileDamaged { path: path.to_owned() }),
    }
}

fn unusable(path: &Path, source: io::Error) -> Error {
    Error::PauseFile { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file() -> (tempfile::TempDir, PauseFile) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = PauseFile { begun: folder.path().join("in/1.begun.json"), paused: folder.path().join("in/1.json") };
        (folder, file)
    }

    #[test]
    fn a_damaged_memory_opens_nothing() {
        let (_folder, file) = file();
        let (deny, former) = (Address::repeat_byte(7), Address::repeat_byte(8));
        for kept in [Paused { former: Some(former), deny }, Paused { former: None, deny }] {
            file.begin(kept).expect("written");
            assert_eq!(file.recall().expect("readable"), Some(kept));
        }
        let address = json!(deny);
        for damaged in [
            String::new(),
            "{".to_owned(),
            "{}".to_owned(),
            "null".to_owned(),
            json!({ "former": null }).to_string(),
            json!({ "deny": address }).to_string(),
            json!({ "former": "0x12", "deny": address }).to_string(),
            json!({ "former": 7, "deny": address }).to_string(),
        ] {
            fs::write(&file.begun, &damaged).expect("written");
            assert!(matches!(file.recall(), Err(Error::PauseFileDamaged { .. })), "{damaged}");
        }
    }

    #[test]
    fn only_the_pause_that_was_begun_is_confirmed() {
        let (_folder, file) = file();
        let kept = Paused { former: None, deny: Address::repeat_byte(7) };
        file.begin(kept).expect("written");
        file.confirm(Address::repeat_byte(9)).expect("nothing to do");
        assert!(file.begun.exists() && !file.paused.exists(), "of another predicate");
        file.confirm(kept.deny).expect("renamed");
        assert!(!file.begun.exists() && file.paused.exists());
        assert_eq!(file.recall().expect("readable"), Some(kept));
        file.forget().expect("removed");
        assert_eq!(file.recall().expect("readable"), None);
    }
}
