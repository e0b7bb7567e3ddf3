//! The pins file: private, locked, and replaced atomically.

use std::collections::BTreeMap;
use std::path::PathBuf;

use alloy_primitives::B256;
use serde::{Deserialize, Serialize};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::codes::{Code, host as code};
use toolcrib_core::local::names::EXPOSED_MAX;
use toolcrib_core::text::escape_for_display;
use toolcrib_judge::Report;

use super::pin::StoredPin;
use super::{MAX_MANIFEST_BYTES, NAME_PREFIX, Pin, Quarantine};
use crate::local::StateFileError;
use crate::local::state_file::{StateFolder, StateLock};

/// Most pinned tools: each is listed for models, which choose badly among more than a few dozen.
pub const MAX_PINS: usize = 64;

/// The version of the format.
const VERSION: u32 = 1;

/// Largest file: all pins with the largest manifests, escaped.
const MAX_BYTES: u64 = 48 * 1024 * 1024;

const FILE: &str = "onchain.json";
const LOCK: &str = "onchain.lock";

/// Why a tool cannot be pinned, or pins cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PinError {
    /// The tool does not verify.
    #[error("the tool does not verify: {}", report.failed.map_or("its manifest breaks a rule", |failed| failed.code.title()))]
    Unverified {
        /// What was found.
        report: Box<Report>,
    },
    /// It is already pinned.
    #[error("{tool} is pinned already")]
    Exists {
        /// The tool.
        tool: ToolRef,
    },
    /// Another tool has the name.
    #[error("{name} is the name of {other}")]
    NameTaken {
        /// The name.
        name: String,
        /// The other tool.
        other: String,
    },
    /// The name is too long.
    #[error("{name} has {} characters, {EXPOSED_MAX} are allowed", name.len())]
    NameLong {
        /// The name.
        name: String,
    },
    /// The tool is not pinned.
    #[error("{} is not pinned", escape_for_display(name))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// Another process changed the pin.
    #[error("the pin of {tool} was changed by another process")]
    Raced {
        /// The tool.
        tool: ToolRef,
    },
    /// There are too many pins.
    #[error("{MAX_PINS} tools are pinned")]
    TooMany,
    /// The manifest is too large.
    #[error("the manifest has {bytes} bytes, {MAX_MANIFEST_BYTES} are kept at most")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The file has an unexpected format.
    #[error("{FILE}: {}", escape_for_display(problem))]
    Broken {
        /// What is wrong.
        problem: String,
    },
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] StateFileError),
}

impl PinError {
    /// The code of the vocabulary.
    pub const fn code(&self) -> Code {
        match self {
            Self::Unverified { .. } => code::PIN_UNVERIFIED,
            Self::Exists { .. } => code::PIN_EXISTS,
            Self::NameTaken { .. } => code::PIN_NAME_TAKEN,
            Self::NameLong { .. } => code::PIN_NAME_LONG,
            Self::Unknown { .. } => code::TOOL_UNKNOWN,
            Self::TooMany | Self::TooLarge { .. } => code::PIN_LIMIT,
            Self::Raced { .. } | Self::Broken { .. } | Self::File(_) => code::STATE,
        }
    }
}

/// A set of pins.
#[derive(Clone, Debug, Default)]
pub struct Pins {
    /// The bytes of the file, to compare two reads.
    bytes: Vec<u8>,
    pins: BTreeMap<ToolRef, Pin>,
}

impl Pins {
    /// The pins, in the order of their references.
    pub fn iter(&self) -> impl Iterator<Item = &Pin> {
        self.pins.values()
    }

    /// The pin of a tool.
    pub fn get(&self, tool: ToolRef) -> Option<&Pin> {
        self.pins.get(&tool)
    }

    /// A pin by its reference, or by its name with or without the prefix.
    pub fn find(&self, text: &str) -> Option<&Pin> {
        if let Ok(tool) = ToolRef::parse(text) {
            return self.get(tool);
        }
        let slug = text.strip_prefix(NAME_PREFIX).unwrap_or(text);
        self.pins.values().find(|pin| pin.slug().as_str() == slug)
    }

    /// A pin by the name that models see.
    pub fn exposed(&self, name: &str) -> Option<&Pin> {
        let slug = name.strip_prefix(NAME_PREFIX)?;
        self.pins.values().find(|pin| pin.slug().as_str() == slug)
    }

    /// Whether nothing is pinned.
    pub fn is_empty(&self) -> bool {
        self.pins.is_empty()
    }

    /// Whether two reads found the same file.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    pins: Vec<StoredPin>,
}

/// The pins file in a state folder. Every method reads or writes files and may wait for another process.
#[derive(Clone, Debug)]
pub struct PinStore {
    folder: StateFolder,
}

impl PinStore {
    /// The pins in a state folder, which may not exist yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: StateFolder::new(folder) }
    }

    /// Reads all pins. A missing file is empty.
    pub fn read(&self) -> Result<Pins, PinError> {
        let Some(bytes) = self.folder.read(FILE, MAX_BYTES)? else { return Ok(Pins::default()) };
        let broken = |problem: String| PinError::Broken { problem };
        let stored: Stored = serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))?;
        if stored.version != VERSION {
            return Err(broken(format!("it has version {}, expected {VERSION}", stored.version)));
        }
        if stored.pins.len() > MAX_PINS {
            return Err(PinError::TooMany);
        }
        let mut pins = BTreeMap::new();
        let mut names = std::collections::BTreeSet::new();
        for pin in stored.pins {
            let pin = pin.read()?;
            let (tool, is_new_name) = (pin.tool(), names.insert(pin.slug().clone()));
            if !is_new_name || pins.insert(tool, pin).is_some() {
                return Err(broken(format!("{tool} or its name is there twice")));
            }
        }
        Ok(Pins { bytes, pins })
    }

    /// Adds a pin.
    pub fn add(&self, pin: Pin) -> Result<(), PinError> {
        self.change(|pins| {
            if pins.contains_key(&pin.tool()) {
                return Err(PinError::Exists { tool: pin.tool() });
            }
            if let Some(other) = pins.values().find(|other| other.slug() == pin.slug()) {
                return Err(PinError::NameTaken { name: pin.exposed(), other: other.tool().to_string() });
            }
            if pins.len() >= MAX_PINS {
                return Err(PinError::TooMany);
            }
            pins.insert(pin.tool(), pin);
            Ok(true)
        })
    }

    /// Removes a pin.
    pub fn remove(&self, tool: ToolRef) -> Result<(), PinError> {
        self.change(|pins| match pins.remove(&tool) {
            Some(_) => Ok(true),
            None => Err(PinError::Unknown { name: tool.to_string() }),
        })
    }

    /// Replaces the pin that the user saw, with the hash `before`, by another version.
    pub fn accept(&self, before: B256, pin: Pin) -> Result<(), PinError> {
        let tool = pin.tool();
        self.change(|pins| {
            let old = pins.get(&tool).ok_or_else(|| PinError::Unknown { name: tool.to_string() })?;
            if old.hash() != before {
                return Err(PinError::Raced { tool });
            }
            let pin = pin.named_like(old);
            pins.insert(tool, pin);
            Ok(true)
        })
    }

    /// Quarantines the version `hash` of a tool, or ends its quarantine. Does nothing if another version is pinned by now.
    pub fn quarantine(&self, tool: ToolRef, hash: B256, quarantine: Option<Quarantine>) -> Result<(), PinError> {
        self.change(|pins| {
            let Some(pin) = pins.get_mut(&tool).filter(|pin| pin.hash() == hash) else { return Ok(false) };
            let is_same = match (pin.quarantine(), &quarantine) {
                (Some(before), Some(after)) => before.is_same(after),
                (None, None) => true,
                _ => false,
            };
            if !is_same {
                pin.set_quarantine(quarantine);
            }
            Ok(!is_same)
        })
    }

    /// Reads, changes and writes under the lock. `change` returns whether there is something to write.
    fn change(&self, change: impl FnOnce(&mut BTreeMap<ToolRef, Pin>) -> Result<bool, PinError>) -> Result<(), PinError> {
        let lock = self.folder.lock(LOCK)?;
        let mut pins = self.read()?.pins;
        if change(&mut pins)? { self.write(&lock, &pins) } else { Ok(()) }
    }

    fn write(&self, lock: &StateLock, pins: &BTreeMap<ToolRef, Pin>) -> Result<(), PinError> {
        let stored = Stored { version: VERSION, pins: pins.values().map(StoredPin::of).collect() };
        let mut bytes = serde_json::to_vec_pretty(&stored).map_err(|error| PinError::Broken { problem: error.to_string() })?;
        bytes.push(b'\n');
        Ok(self.folder.replace(lock, FILE, &bytes)?)
    }
}
