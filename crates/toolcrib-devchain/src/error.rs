//! What can go wrong around the chain. What goes wrong on it is a [`Refusal`].

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use alloy_primitives::Address;
use toolcrib_core::codes::{Code, devchain};

use crate::chain::Refusal;
use crate::rpc::RpcError;

/// Why a development chain could not start, or do as told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The port is taken or may not be used.
    #[error("cannot listen on {address}")]
    Bind {
        /// Where it should listen.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The state file is there and cannot be read.
    #[error("cannot read the state file {}", path.display())]
    StateUnreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The state file was read and is no state of this chain.
    #[error("cannot use the state file {}: {reason}", path.display())]
    StateUnusable {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The state file cannot be written.
    #[error("cannot write the state file {}", path.display())]
    StateUnwritable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A contract that should be there from the start could not be deployed.
    #[error("cannot deploy contract {index} at {address}")]
    Deploy {
        /// Which of the given init codes, from 0.
        index: usize,
        /// Where it would have been.
        address: Address,
        /// Why not.
        #[source]
        source: Box<Refusal>,
    },
    /// The chain refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A JSON-RPC method answered with an error.
    #[error(transparent)]
    Rpc(#[from] RpcError),
}

impl Error {
    /// The code in the common vocabulary.
    pub const fn code(&self) -> Code {
        match self {
            Self::Bind { .. } => devchain::BIND,
            Self::StateUnreadable { .. } => devchain::STATE_UNREADABLE,
            Self::StateUnusable { .. } => devchain::STATE_UNUSABLE,
            Self::StateUnwritable { .. } => devchain::STATE_UNWRITABLE,
            Self::Deploy { .. } => devchain::DEPLOY,
            Self::Refused(_) | Self::Rpc(_) => devchain::REFUSED,
        }
    }

    /// Whether the same might work a little later.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Bind { .. })
    }
}
