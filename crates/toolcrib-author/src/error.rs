//! Why a tool could not be registered or changed.

use alloy_primitives::B256;
use toolcrib_core::codes::{self, Code};

/// Why work could not be finished. What was done stays done, and is in the journal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The chain, the registry or the wallet refused.
    #[error(transparent)]
    Chain(#[from] toolcrib_chain::Error),
    /// The journal cannot be read or written.
    #[error("the journal cannot be used: {0}")]
    Journal(#[from] std::io::Error),
    /// The user said no.
    #[error("nothing was signed")]
    Declined,
    /// The journal's entry is for another chain, registry or signer.
    #[error("the unfinished work {id} belongs to {expected}, not to {got}")]
    OtherWork {
        /// The entry.
        id: String,
        /// What it was begun with.
        expected: String,
        /// What it should be finished with.
        got: String,
    },
    /// The transaction went through, but the registry says nothing about a tool.
    #[error("the transaction {hash} registered no tool")]
    NoRegistration {
        /// The transaction.
        hash: B256,
    },
    /// The step needs a tool that has an id.
    #[error("no tool was named")]
    NoTool,
    /// The gate is larger than its predicate takes.
    #[error("the gate has {count} {what}, and the predicate takes {most}")]
    GateTooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How many were given.
        count: usize,
        /// The most that the predicate takes.
        most: u64,
    },
    /// The gate has nothing to configure.
    #[error("this gate has nothing to configure")]
    NothingToConfigure,
}

impl Error {
    /// The code of the vocabulary.
    pub const fn code(&self) -> Code {
        match self {
            Self::Chain(error) => error.code(),
            Self::Journal(_) => codes::author::JOURNAL,
            Self::Declined => codes::author::DECLINED,
            Self::OtherWork { .. } => codes::author::OTHER_WORK,
            Self::NoRegistration { .. } => codes::author::NO_REGISTRATION,
            Self::NoTool => codes::author::NO_TOOL,
            Self::GateTooLarge { .. } => codes::author::GATE_TOO_LARGE,
            Self::NothingToConfigure => codes::author::NOTHING_TO_CONFIGURE,
        }
    }
}
