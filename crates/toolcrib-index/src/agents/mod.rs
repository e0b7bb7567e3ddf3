//! Agents: `.agt` names that an operator lists, the results of resolving them, and search.
//!
//! [`NamesFile`] reads the list of names, [`AgentWorker`] resolves those that are due through a [`ResolveAgent`], and [`AgentQuery`] reads
//! the results. There is no chain to follow: the list defines which names exist here, and every result has a time.
//!
//! Leases work as those of the verification queue do (`work/queue.rs`): a random token and an expiry in the row of a name, so that any
//! number of processes share the work. Only another verdict replaces a verdict; a failed resolution is recorded next to it.

mod census;
mod events;
mod find;
mod memory;
mod model;
mod names;
mod tables;
mod tools;
mod worker;
mod writing;

pub use census::AgentCensus;
pub(crate) use events::AgentTokens;
pub use events::feed_key;
pub use find::{AgentCursor, AgentPage, AgentQuery, MAX_AGENTS, MAX_QUERY_CHARS, MAX_QUERY_WORDS, MaxPrice};
pub use memory::AgentMemory;
pub use model::{
    AgentAnswer, AgentChange, AgentClaims, AgentFacts, AgentPricing, AgentProtocol, AgentResolution, AgentStep, AgentTrouble,
    AgentVerdict, AgentView, MAX_CAPABILITIES, MAX_PROTOCOLS, ResolveAgent,
};
pub use names::{BadLine, MAX_BAD_LINES, MAX_FILE_BYTES, MAX_NAMES, NameChanges, NameList, NamesFile, follow_names};
pub(crate) use tables::{COUNT_CHANGE, MIGRATIONS};
pub use tools::{AgentTool, MAX_AGENT_TOOLS};
pub use worker::{AgentOptions, AgentRound, AgentWorker};
pub use writing::MAX_CHANGES;
