//! What a watcher remembers: the last look at each tool.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::codes;
use toolcrib_judge::drift::{Change, Snapshot, drift};

/// The version of the file format that this code writes and reads.
pub const FORMAT: u32 = 1;

/// The last look at each tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory(BTreeMap<ToolRef, Snapshot>);

/// How a look compares with the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// There is none to compare with.
    First,
    /// Nothing changed.
    Same,
    /// The node lags behind: what it shows is from before the last look, and is no change.
    Older,
    /// Something changed.
    Changed(Vec<Change>),
}

/// Why a text is no memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryFault {
    /// It is not JSON of this shape.
    #[error("{0}")]
    Malformed(#[from] serde_json::Error),
    /// It was written by another version.
    #[error("its format is {0}, but this version reads format {FORMAT}")]
    Format(u32),
    /// A tool stands there twice.
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
    /// Reads what [`to_json`](Self::to_json) wrote.
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

    /// The memory as text, the same for the same looks.
    pub fn to_json(&self) -> Result<String, MemoryFault> {
        let file = File { format: FORMAT, tools: self.0.values().collect() };
        Ok(serde_json::to_string_pretty(&file)? + "\n")
    }

    /// The last look at a tool.
    pub fn get(&self, tool: &ToolRef) -> Option<&Snapshot> {
        self.0.get(tool)
    }

    /// How many tools are remembered.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Compares a look with the last one.
    pub fn compare(&self, look: &Snapshot) -> Seen {
        let Some(before) = self.0.get(&look.tool) else { return Seen::First };
        let changes = drift(before, look);
        match changes.first() {
            None => Seen::Same,
            Some(change) if change.code == codes::drift::OLDER_BLOCK => Seen::Older,
            Some(_) => Seen::Changed(changes),
        }
    }

    /// Remembers a look. What it did not learn stays as it was; a look into the past is forgotten.
    pub fn keep(&mut self, look: Snapshot) {
        match self.compare(&look) {
            Seen::Older => {}
            Seen::First | Seen::Same | Seen::Changed(_) => {
                let look = match self.0.get(&look.tool) {
                    Some(before) => look.carry(before),
                    None => look,
                };
                self.0.insert(look.tool, look);
            }
        }
    }
}
