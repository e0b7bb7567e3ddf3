//! Why a tool could not be registered or changed.

use std::path::PathBuf;

use alloy_primitives::{Address, B256, U256};
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
    /// The file about a paused tool cannot be read or written.
    #[error("cannot use {}: {source}", .path.display())]
    PauseFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file about a paused tool does not name its former predicate.
    #[error("{} is damaged", .path.display())]
    PauseFileDamaged {
        /// The file.
        path: PathBuf,
    },
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
    /// Both predicates must grant, and they need different `data`.
    #[error(
        "this gate could never grant access: {first} and {second} need different proofs in `data`, and all terms get the same"
    )]
    NeverGrants {
        /// One of them.
        first: Address,
        /// The other.
        second: Address,
    },
    /// The gate has nothing to configure.
    #[error("this gate has nothing to configure")]
    NothingToConfigure,
    /// Only its creator may change a tool.
    #[error("{signer} may not change this tool; its creator is {creator}")]
    NotCreator {
        /// Who would sign.
        signer: Address,
        /// Who may.
        creator: Address,
    },
    /// One account, one URL, several tools.
    #[error("{uri} is registered as {}", listed(.tools))]
    Duplicate {
        /// The URL.
        uri: String,
        /// The tools.
        tools: Vec<U256>,
    },
    /// The tool has another predicate than the gate that was given, or the same one for others.
    #[error("tool {tool} is {}, and not {}", gate(.has), if .has == .wanted { "for whom was asked".to_owned() } else { gate(.wanted) })]
    GateDiffers {
        /// The tool.
        tool: U256,
        /// Its predicate.
        has: Option<Address>,
        /// That of the gate.
        wanted: Option<Address>,
    },
    /// Another process holds the entry.
    #[error("another process is doing the work {id}")]
    Busy {
        /// The entry.
        id: String,
    },
}

fn listed(tools: &[U256]) -> String {
    tools.iter().map(|tool| format!("tool {tool}")).collect::<Vec<_>>().join(", ")
}

fn gate(predicate: &Option<Address>) -> String {
    match predicate {
        None => "open to everybody".to_owned(),
        Some(predicate) => format!("behind the predicate {predicate}"),
    }
}

impl Error {
    /// The code of the vocabulary.
    pub const fn code(&self) -> Code {
        match self {
            Self::Chain(error) => error.code(),
            Self::Journal(_) | Self::PauseFile { .. } | Self::PauseFileDamaged { .. } => codes::author::JOURNAL,
            Self::Declined => codes::author::DECLINED,
            Self::OtherWork { .. } => codes::author::OTHER_WORK,
            Self::NoRegistration { .. } => codes::author::NO_REGISTRATION,
            Self::NoTool => codes::author::NO_TOOL,
            Self::GateTooLarge { .. } => codes::author::GATE_TOO_LARGE,
            Self::NeverGrants { .. } => codes::author::NEVER_GRANTS,
            Self::NothingToConfigure => codes::author::NOTHING_TO_CONFIGURE,
            Self::NotCreator { .. } => codes::author::CREATOR_NOT_SIGNER,
            Self::Duplicate { .. } => codes::author::DUPLICATE,
            Self::GateDiffers { .. } => codes::author::GATE_DIFFERS,
            Self::Busy { .. } => codes::author::BUSY,
        }
    }
}
