//! The error type of this crate.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_transport::TransportError;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::text::escape_for_display;

use crate::network::Network;
use crate::registry::Revert;
use crate::rpc::TransportFault;
use crate::sign::SignatureError;
use crate::wallet::WalletError;

/// Characters shown of a message from a node. Enough for a sentence; a node could send megabytes.
pub const MAX_FOREIGN_CHARS: usize = 300;

/// Why an operation failed or had no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No network has this name.
    #[error("unknown network `{}`; known networks: {}", escape_for_display(.text), known_networks())]
    UnknownNetwork {
        /// The requested name.
        text: String,
    },
    /// Several networks in the settings have this chain id.
    #[error("several networks in the settings have chain id {chain_id}: {}", names.join(", "))]
    AmbiguousNetwork {
        /// The requested chain id.
        chain_id: u64,
        /// Their names.
        names: Vec<&'static str>,
    },
    /// No RPC node is configured.
    #[error("no RPC node is configured for {network}: pass --rpc-url or set RPC_URL")]
    NoRpc {
        /// The network.
        network: String,
    },
    /// Not a URL, or a URL with an unsupported scheme.
    #[error("the RPC node's URL is not allowed: {reason}")]
    RpcUrl {
        /// What is wrong with it. The URL itself may contain a key and is not shown.
        reason: &'static str,
    },
    /// No node could be reached, or none sent a valid response.
    #[error("{fault}{}", attempts_note(*.attempts))]
    Transport {
        /// The error of the last attempt.
        fault: TransportFault,
        /// Attempts across all nodes.
        attempts: u32,
    },
    /// The node returned a JSON-RPC error.
    #[error("the RPC node returned an error: {message} ({rpc_code})")]
    Refused {
        /// The JSON-RPC error code.
        rpc_code: i64,
        /// The node's message, escaped and truncated.
        message: String,
    },
    /// The node is on another chain.
    #[error("the RPC node {node} has chain id {got}, expected {expected}")]
    WrongChain {
        /// The node's URL without the parts that may be secret.
        node: String,
        /// The expected chain id.
        expected: u64,
        /// The chain id that the node returned.
        got: u64,
    },
    /// Too few nodes gave the same answer.
    #[error("only {agreeing} of {asked} RPC nodes agree, {needed} are required")]
    NoQuorum {
        /// Number of nodes asked.
        asked: usize,
        /// The largest number of nodes with the same answer.
        agreeing: usize,
        /// The number required.
        needed: usize,
    },
    /// A reorg replaced the block that reads were pinned to.
    #[error("block {number} was replaced during the reads (reorg)")]
    Reorg {
        /// The number of the block.
        number: u64,
    },
    /// No registry is known.
    #[error("no tool registry is known on {network}; set its address with --registry")]
    NoRegistry {
        /// The network.
        network: String,
    },
    /// The CREATE2 factory is not deployed.
    #[error("the deployment factory {factory} has no code on this chain")]
    NoFactory {
        /// Its expected address.
        factory: Address,
    },
    /// The factory call succeeded, but there is no code at the contract's address.
    #[error("{name} has no code at {address} after its deployment")]
    NotDeployed {
        /// The contract.
        name: &'static str,
        /// Its expected address.
        address: Address,
    },
    /// The address of one of our contracts has other code.
    #[error("{name} at {address} has code hash {got}, expected {expected}")]
    OtherCode {
        /// The contract.
        name: &'static str,
        /// Its address.
        address: Address,
        /// The expected code hash.
        expected: B256,
        /// The actual code hash.
        got: B256,
    },
    /// The contract at the address does not behave like a registry.
    #[error("{address} is not a tool registry: {reason}")]
    NotARegistry {
        /// The address.
        address: Address,
        /// How it differs.
        reason: &'static str,
    },
    /// The registry's code differs from the pinned hash.
    #[error("the registry {address} has code hash {got}, pinned {expected}")]
    RegistryCode {
        /// The address.
        address: Address,
        /// The pinned code hash.
        expected: B256,
        /// The actual code hash.
        got: B256,
    },
    /// The predicate serves another registry.
    #[error("the predicate {predicate} belongs to the registry {stated}, but the tool is in the registry {registry}")]
    OtherRegistry {
        /// The predicate.
        predicate: Address,
        /// The registry that it returns from `REGISTRY()`.
        stated: Address,
        /// The registry of the tool.
        registry: Address,
    },
    /// The predicate checks proofs, but is not bound to a registry.
    #[error("the predicate {predicate} has no REGISTRY(), so a proof for it is valid in every registry")]
    UnboundProof {
        /// The predicate.
        predicate: Address,
    },
    /// No tool was ever registered with this id.
    #[error("no tool with id {id} was ever registered at {registry}")]
    ToolNotFound {
        /// The registry.
        registry: Address,
        /// The id.
        id: U256,
    },
    /// The creator deregistered the tool.
    #[error("tool {id} at {registry} was deregistered by its creator")]
    ToolDeregistered {
        /// The registry.
        registry: Address,
        /// The id.
        id: U256,
    },
    /// A call reverted.
    #[error("the contract reverted: {0}")]
    Reverted(Revert),
    /// A contract returned bytes that do not decode.
    #[error("{contract} returned {length} bytes for {function} that do not decode")]
    Undecodable {
        /// The contract.
        contract: Address,
        /// The function.
        function: &'static str,
        /// The number of bytes.
        length: usize,
    },
    /// A log has a registry topic, but not the event's layout.
    #[error("log {index} of transaction {transaction} does not decode as the event of its topic")]
    EventMalformed {
        /// The transaction.
        transaction: B256,
        /// The log's index in the block.
        index: u64,
    },
    /// The account's balance is too low.
    #[error("the balance of {account} is too low for the transaction: {message}")]
    NoFunds {
        /// The account.
        account: Address,
        /// The node's message.
        message: String,
    },
    /// The transaction's nonce was already used.
    #[error("nonce {nonce} of {account} was already used")]
    NonceTooLow {
        /// The account.
        account: Address,
        /// The nonce.
        nonce: u64,
    },
    /// The fee is too low.
    #[error("the offered fee is too low: {message}")]
    Underpriced {
        /// The node's message.
        message: String,
    },
    /// Another transaction was mined with this nonce.
    #[error("transaction {hash} was replaced: nonce {nonce} of {account} was used by another transaction")]
    Replaced {
        /// The transaction that can no longer be mined.
        hash: B256,
        /// The account.
        account: Address,
        /// The nonce.
        nonce: u64,
    },
    /// There was no receipt before the deadline.
    #[error("transaction {hash} was not mined within {seconds} s")]
    NotMined {
        /// The transaction, which may still be mined.
        hash: B256,
        /// The time waited.
        seconds: u64,
    },
    /// The transaction was mined and reverted.
    #[error("transaction {hash} was mined and reverted")]
    Failed {
        /// The transaction.
        hash: B256,
    },
    /// A signature is invalid.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// The token's own domain separator differs from the pinned one.
    #[error("the token {token} has domain separator {got}, expected {expected} from the built-in table")]
    DomainMismatch {
        /// The token.
        token: Address,
        /// The one computed from the built-in table.
        expected: B256,
        /// The one that the token returns.
        got: B256,
    },
    /// A wallet refused, or is not available.
    #[error(transparent)]
    Wallet(#[from] WalletError),
}

impl Error {
    /// Returns the code of this error.
    pub const fn code(&self) -> Code {
        use codes::chain;
        match self {
            Self::UnknownNetwork { .. } => chain::UNKNOWN_NETWORK,
            Self::AmbiguousNetwork { .. } => chain::AMBIGUOUS_NETWORK,
            Self::NoRpc { .. } => chain::NO_RPC,
            Self::RpcUrl { .. } => chain::RPC_URL,
            Self::Transport { fault, .. } => fault.code(),
            Self::Refused { .. } => chain::RPC_REFUSED,
            Self::WrongChain { .. } => chain::WRONG_CHAIN,
            Self::NoQuorum { .. } => chain::NO_QUORUM,
            Self::Reorg { .. } => chain::REORG,
            Self::NoRegistry { .. } => chain::NO_REGISTRY,
            Self::NoFactory { .. } => chain::NO_FACTORY,
            Self::NotDeployed { .. } => chain::NOT_DEPLOYED,
            Self::OtherCode { .. } => chain::OTHER_CODE,
            Self::NotARegistry { .. } => chain::NOT_A_REGISTRY,
            Self::RegistryCode { .. } => chain::REGISTRY_CODE,
            Self::OtherRegistry { .. } => codes::predicate::OTHER_REGISTRY,
            Self::UnboundProof { .. } => codes::predicate::UNBOUND_PROOF,
            Self::ToolNotFound { .. } => chain::TOOL_NOT_FOUND,
            Self::ToolDeregistered { .. } => chain::TOOL_DEREGISTERED,
            Self::Reverted(revert) => revert.code(),
            Self::Undecodable { .. } => chain::RPC_ANSWER,
            Self::EventMalformed { .. } => chain::EVENT_MALFORMED,
            Self::NoFunds { .. } => chain::NO_FUNDS,
            Self::NonceTooLow { .. } => chain::NONCE_TOO_LOW,
            Self::Underpriced { .. } => chain::UNDERPRICED,
            Self::Replaced { .. } => chain::REPLACED,
            Self::NotMined { .. } => chain::NOT_MINED,
            Self::Failed { .. } => chain::REVERTED,
            Self::Signature(error) => error.code(),
            Self::DomainMismatch { .. } => chain::DOMAIN_MISMATCH,
            Self::Wallet(error) => error.code(),
        }
    }

    /// Whether the same request may succeed later without any change.
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Transport { fault, .. } => fault.is_retryable(),
            Self::NoQuorum { .. }
            | Self::Reorg { .. }
            | Self::NonceTooLow { .. }
            | Self::Underpriced { .. }
            | Self::NotMined { .. } => true,
            _ => false,
        }
    }

    /// Converts an error of alloy's client. Reverts are decoded.
    pub fn from_rpc(error: TransportError) -> Self {
        match error {
            TransportError::ErrorResp(payload) => {
                if let Some(data) = revert_data(&payload) {
                    return Self::Reverted(Revert::decode(&data));
                }
                Self::Refused { rpc_code: payload.code, message: foreign(&payload.message) }
            }
            TransportError::Transport(kind) => match kind.as_custom().and_then(|error| error.downcast_ref::<Exhausted>()) {
                Some(exhausted) => Self::Transport { fault: exhausted.fault.clone(), attempts: exhausted.attempts },
                None => Self::Transport { fault: TransportFault::Malformed, attempts: 1 },
            },
            _ => Self::Transport { fault: TransportFault::Malformed, attempts: 1 },
        }
    }
}

/// The transport layer's error, passed through alloy's client.
#[derive(Debug, thiserror::Error)]
#[error("{fault}")]
pub(crate) struct Exhausted {
    pub(crate) fault: TransportFault,
    pub(crate) attempts: u32,
}

/// Escapes and truncates untrusted text for a terminal.
pub(crate) fn foreign(text: &str) -> String {
    let short: String = text.chars().take(MAX_FOREIGN_CHARS).collect();
    let mut shown = escape_for_display(&short);
    if short.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// The revert data of an error response. Nodes put it in different places; a revert without data counts too.
pub(crate) fn revert_data(payload: &alloy_json_rpc::ErrorPayload) -> Option<Bytes> {
    if let Some(data) = payload.as_revert_data() {
        return Some(data);
    }
    // geth reports reverts with code 3; other nodes only say so in the message.
    let says_so = payload.code == 3 || payload.message.to_ascii_lowercase().contains("revert");
    says_so.then(Bytes::new)
}

fn attempts_note(attempts: u32) -> String {
    if attempts > 1 { format!(" ({attempts} attempts)") } else { String::new() }
}

fn known_networks() -> String {
    Network::ALL.iter().chain(Network::added()).map(|network| network.name).collect::<Vec<_>>().join(", ")
}
