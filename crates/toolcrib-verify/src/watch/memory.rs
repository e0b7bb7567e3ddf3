//! A watcher's state: the last snapshot of each tool.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::codes;
use toolcrib_judge::drift::{Change, Snapshot, drift};

/// The version of the file format.
pub const FORMAT: u32 = 1;

/// The last snapshot of each tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory(BTreeMap<ToolRef, Snapshot>);

/// How a snapshot compares with the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// There is no earlier snapshot.
    First,
    /// Nothing changed.
    Same,
    /// The node lags behind: the snapshot is older than the last one, so it is not a change.
    Older,
    /// Something changed.
    Changed(Vec<Change>),
}

/// Why a file could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryFault {
    /// It is not JSON of this shape.
    #[error("{0}")]
    Malformed(#[from] serde_json::Error),
    /// It has another format version.
    #[error("its format is {0}, but this version reads format {FORMAT}")]
    Format(u32),
    /// It contains a tool twice.
    #[error("it contains the tool {0} twice")]
    Twice(ToolRef),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File<S> {
    format: u32,
    tools: Vec<S>,
}

impl Memory {
    /// Parses what [`to_json`](Self::to_json) wrote.
    pub fn from_json(bytes: &[u8]) -> Result<Self, MemoryFault> {
        let file: File<Snapshot> = serde_json::from_slice(bytes)?;
        if file.format != FORMAT {
            return Err(MemoryFault::Format(file.format));
        }
        let mut tools = BTreeMap::new();
        for look in file.tools {
            let tool = look.tool;
            if tools.insert(tool, look).is_some() {
                return Err(MemoryFault::Twice(tool));
            }
        }
        Ok(Self(tools))
    }

    /// Serialises the snapshots. Equal snapshots give equal text.
    pub fn to_json(&self) -> Result<String, MemoryFault> {
        let file = File { format: FORMAT, tools: self.0.values().collect() };
        Ok(serde_json::to_string_pretty(&file)? + "\n")
    }

    /// The last snapshot of a tool.
    pub fn get(&self, tool: &ToolRef) -> Option<&Snapshot> {
        self.0.get(tool)
    }

    /// Number of tools with a snapshot.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no snapshot.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Compares a snapshot with the last one.
    pub fn compare(&self, look: &Snapshot) -> Comparison {
        let Some(before) = self.0.get(&look.tool) else { return Comparison::First };
        let changes = drift(before, look);
        match changes.first() {
            None => Comparison::Same,
            Some(change) if change.code == codes::drift::OLDER_BLOCK => Comparison::Older,
            Some(_) => Comparison::Changed(changes),
        }
    }

    /// Stores a snapshot. Fields without a value keep their former one; a snapshot older than the stored one is dropped.
    pub fn keep(&mut self, look: Snapshot) {
        match self.compare(&look) {
            Comparison::Older => {}
            Comparison::First | Comparison::Same | Comparison::Changed(_) => {
                let look = match self.0.get(&look.tool) {
                    Some(before) => look.carry(before),
                    None => look,
                };
                self.0.insert(look.tool, look);
            }
        }
    }
}
