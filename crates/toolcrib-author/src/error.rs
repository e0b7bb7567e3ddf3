//! The error type of this crate.

use std::path::PathBuf;

use alloy_primitives::{Address, B256, U256};
use toolcrib_core::codes::{self, Code};

/// Why an operation failed. Completed steps stay completed, and are in the journal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the chain, the registry or the wallet.
    #[error(transparent)]
    Chain(#[from] toolcrib_chain::Error),
    /// The journal cannot be read or written.
    #[error("the journal cannot be used: {0}")]
    Journal(#[from] std::io::Error),
    /// The pause file of a tool cannot be read or written.
    #[error("cannot use {}: {source}", .path.display())]
    PauseFile {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The pause file of a tool does not name its former predicate.
    #[error("{} is damaged", .path.display())]
    PauseFileDamaged {
        /// The file.
        path: PathBuf,
    },
    /// The user declined.
    #[error("nothing was signed")]
    Declined,
    /// The journal entry belongs to another chain, registry or signer.
    #[error("the unfinished work {id} belongs to {expected}, not to {got}")]
    OtherWork {
        /// The id of the entry.
        id: String,
        /// Chain, registry and signer of the entry.
        expected: String,
        /// The current ones.
        got: String,
    },
    /// The transaction succeeded, but the registry emitted no registration.
    #[error("the transaction {hash} registered no tool")]
    NoRegistration {
        /// The transaction.
        hash: B256,
    },
    /// The step needs a registered tool.
    #[error("no tool was named")]
    NoTool,
    /// The gate exceeds a limit of its predicate.
    #[error("the gate has {count} {what}, and the predicate takes {most}")]
    GateTooLarge {
        /// What there is too much of.
        what: &'static str,
        /// The configured number.
        count: usize,
        /// The predicate's limit.
        most: u64,
    },
    /// Both predicates must grant access, and they need different `data`.
    #[error(
        "this gate could never grant access: {first} and {second} need different proofs in `data`, and all terms get the same"
    )]
    NeverGrants {
        /// One of the predicates.
        first: Address,
        /// The other predicate.
        second: Address,
    },
    /// The gate has nothing to configure.
    #[error("this gate has nothing to configure")]
    NothingToConfigure,
    /// Only its creator may change a tool.
    #[error("{signer} may not change this tool; its creator is {creator}")]
    NotCreator {
        /// The selected signer.
        signer: Address,
        /// The tool's creator.
        creator: Address,
    },
    /// Several tools of one account have the same URL.
    #[error("{uri} is registered as {}", listed(.tools))]
    Duplicate {
        /// The URL.
        uri: String,
        /// The tools.
        tools: Vec<U256>,
    },
    /// The tool has another predicate than the requested gate, or the same one with another configuration.
    #[error("tool {tool} is {}, and not {}", gate(.has), if .has == .wanted { "for whom was asked".to_owned() } else { gate(.wanted) })]
    GateDiffers {
        /// The tool.
        tool: U256,
        /// Its predicate.
        has: Option<Address>,
        /// The predicate of the requested gate.
        wanted: Option<Address>,
    },
    /// Another process has locked the entry.
    #[error("another process is doing the work {id}")]
    Busy {
        /// The id of the entry.
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
    /// Returns the code of this error.
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
