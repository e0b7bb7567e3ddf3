//! Errors of starting and running a chain. Errors of requests to it are a [`Rejection`].

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use alloy_primitives::Address;
use toolcrib_core::codes::{Code, devchain};

use crate::chain::Rejection;
use crate::rpc::RpcError;

/// Why a development chain could not start or complete an operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The port is in use or not permitted.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address to listen on.
        address: SocketAddr,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// The state file exists, but cannot be read.
    #[error("cannot read the state file {}", path.display())]
    StateUnreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// The state file does not contain a state of this chain.
    #[error("cannot use the state file {}: {reason}", path.display())]
    StateUnusable {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The state file cannot be written.
    #[error("cannot write the state file {}", path.display())]
    StateUnwritable {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// A contract could not be deployed at the start.
    #[error("cannot deploy contract {index} at {address}")]
    Deploy {
        /// The index of its init code, from 0.
        index: usize,
        /// Its expected address.
        address: Address,
        /// The reason.
        #[source]
        source: Box<Rejection>,
    },
    /// The chain rejected a request.
    #[error(transparent)]
    Refused(#[from] Rejection),
    /// A JSON-RPC method returned an error.
    #[error(transparent)]
    Rpc(#[from] RpcError),
}

impl Error {
    /// Returns the code of this error.
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

    /// Whether the same operation may succeed later.
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::Bind { .. })
    }
}
