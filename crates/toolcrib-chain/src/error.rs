//! The one error type of this crate: why no answer was possible.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_transport::TransportError;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::text::escape_for_display;

use crate::network::Network;
use crate::registry::Revert;
use crate::rpc::TransportFault;
use crate::sign::SignatureError;
use crate::wallet::WalletError;

/// Characters of a foreign message that are shown. Enough for a sentence; a node could send megabytes.
pub const MAX_FOREIGN_CHARS: usize = 300;

/// Why we could not tell, or could not do it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No network has this name.
    #[error("unknown network `{}`; known networks: {}", escape_for_display(.text), known_networks())]
    UnknownNetwork {
        /// What was asked for.
        text: String,
    },
    /// Several networks of the settings are of this chain.
    #[error("several networks in the settings have chain id {chain_id}: {}", names.join(", "))]
    AmbiguousNetwork {
        /// The number that was asked for.
        chain_id: u64,
        /// Their names.
        names: Vec<&'static str>,
    },
    /// Nobody said which node to use.
    #[error("no RPC node is configured for {network}: pass --rpc-url or set RPC_URL")]
    NoRpc {
        /// The network.
        network: String,
    },
    /// A URL that is none, or has an unusable scheme.
    #[error("the RPC node's URL is not allowed: {reason}")]
    RpcUrl {
        /// What is wrong with it. The URL itself may hold a key and is not shown.
        reason: &'static str,
    },
    /// Nodes could not be reached, or answered with nonsense.
    #[error("{fault}{}", attempts_note(*.attempts))]
    Transport {
        /// What went wrong at the last attempt.
        fault: TransportFault,
        /// Attempts over all nodes.
        attempts: u32,
    },
    /// The node understood and refused.
    #[error("the RPC node returned an error: {message} ({rpc_code})")]
    Refused {
        /// The JSON-RPC error number.
        rpc_code: i64,
        /// The node's words, escaped and shortened.
        message: String,
    },
    /// The node is on another chain.
    #[error("the RPC node {node} has chain id {got}, expected {expected}")]
    WrongChain {
        /// The node, without what its URL may hide.
        node: String,
        /// The number that was asked for.
        expected: u64,
        /// The number that the node gives.
        got: u64,
    },
    /// Too few nodes gave the same answer.
    #[error("only {agreeing} of {asked} RPC nodes agree, {needed} are required")]
    NoQuorum {
        /// Nodes that were asked.
        asked: usize,
        /// The largest number that gave one answer.
        agreeing: usize,
        /// The number that is needed.
        needed: usize,
    },
    /// The chain replaced the block that reads were made at.
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
    /// The factory for deterministic addresses is missing.
    #[error("the deployment factory {factory} has no code on this chain")]
    NoFactory {
        /// Where it belongs.
        factory: Address,
    },
    /// The factory was called, and there is still no code.
    #[error("{name} has no code at {address} after its deployment")]
    NotDeployed {
        /// The contract.
        name: &'static str,
        /// Where it belongs.
        address: Address,
    },
    /// There is other code at the address of one of our contracts.
    #[error("{name} at {address} has code hash {got}, expected {expected}")]
    OtherCode {
        /// The contract.
        name: &'static str,
        /// Its address.
        address: Address,
        /// The hash of its code.
        expected: B256,
        /// The hash of the code that is there.
        got: B256,
    },
    /// The address does not answer as a registry.
    #[error("{address} is not a tool registry: {reason}")]
    NotARegistry {
        /// The address.
        address: Address,
        /// What it does instead.
        reason: &'static str,
    },
    /// The registry's code differs from the pin.
    #[error("the registry {address} has code hash {got}, pinned {expected}")]
    RegistryCode {
        /// The address.
        address: Address,
        /// The pinned hash.
        expected: B256,
        /// The hash of the code that is there.
        got: B256,
    },
    /// The predicate serves another registry.
    #[error("the predicate {predicate} belongs to the registry {stated}, but the tool is in the registry {registry}")]
    OtherRegistry {
        /// The predicate.
        predicate: Address,
        /// What it states by `REGISTRY()`.
        stated: Address,
        /// The registry of the tool.
        registry: Address,
    },
    /// The predicate checks proofs and is not bound to a registry.
    #[error("the predicate {predicate} has no REGISTRY(), so a proof for it is valid in every registry")]
    UnboundProof {
        /// The predicate.
        predicate: Address,
    },
    /// No tool was ever registered under this id.
    #[error("no tool with id {id} was ever registered at {registry}")]
    ToolNotFound {
        /// The registry.
        registry: Address,
        /// The id.
        id: U256,
    },
    /// The creator removed the tool.
    #[error("tool {id} at {registry} was deregistered by its creator")]
    ToolDeregistered {
        /// The registry.
        registry: Address,
        /// The id.
        id: U256,
    },
    /// A contract refused a call.
    #[error("the contract reverted: {0}")]
    Reverted(Revert),
    /// A contract answered with bytes that do not decode.
    #[error("{contract} returned {length} bytes for {function} that do not decode")]
    Undecodable {
        /// The contract.
        contract: Address,
        /// The function.
        function: &'static str,
        /// The length of the answer.
        length: usize,
    },
    /// A log has a registry topic but not its layout.
    #[error("log {index} of transaction {transaction} does not decode as the event of its topic")]
    EventMalformed {
        /// The transaction.
        transaction: B256,
        /// Its place in the block.
        index: u64,
    },
    /// The account cannot pay.
    #[error("the balance of {account} is too low for the transaction: {message}")]
    NoFunds {
        /// The account.
        account: Address,
        /// The node's words.
        message: String,
    },
    /// The number of the transaction is used up.
    #[error("nonce {nonce} of {account} was already used")]
    NonceTooLow {
        /// The account.
        account: Address,
        /// The number.
        nonce: u64,
    },
    /// The fee is too low.
    #[error("the offered fee is too low: {message}")]
    Underpriced {
        /// The node's words.
        message: String,
    },
    /// Another transaction took the number.
    #[error("transaction {hash} was replaced: nonce {nonce} of {account} was used by another transaction")]
    Replaced {
        /// The transaction that will never be mined.
        hash: B256,
        /// The account.
        account: Address,
        /// The number.
        nonce: u64,
    },
    /// No receipt before the deadline.
    #[error("transaction {hash} was not mined within {seconds} s")]
    NotMined {
        /// The transaction, which may still be mined.
        hash: B256,
        /// How long was waited.
        seconds: u64,
    },
    /// The transaction was mined and failed.
    #[error("transaction {hash} was mined and reverted")]
    Failed {
        /// The transaction.
        hash: B256,
    },
    /// A signature is not acceptable.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// The token's own domain separator differs from the pinned one.
    #[error("the token {token} has domain separator {got}, expected {expected} from the built-in table")]
    DomainMismatch {
        /// The token.
        token: Address,
        /// Computed from the table.
        expected: B256,
        /// What the token says.
        got: B256,
    },
    /// A wallet refused or is not there.
    #[error(transparent)]
    Wallet(#[from] WalletError),
}

impl Error {
    /// The code of the vocabulary.
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

    /// Whether the same request may succeed later without anything being changed.
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

    /// An error of alloy's client in our words. Reverts are decoded.
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

/// What the transport layer hands through alloy's client.
#[derive(Debug, thiserror::Error)]
#[error("{fault}")]
pub(crate) struct Exhausted {
    pub(crate) fault: TransportFault,
    pub(crate) attempts: u32,
}

/// Foreign words made fit for a terminal: escaped and shortened.
pub(crate) fn foreign(text: &str) -> String {
    let short: String = text.chars().take(MAX_FOREIGN_CHARS).collect();
    let mut shown = escape_for_display(&short);
    if short.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// The revert data of an error answer. Nodes differ in where they put it; a revert without data is one too.
pub(crate) fn revert_data(payload: &alloy_json_rpc::ErrorPayload) -> Option<Bytes> {
    if let Some(data) = payload.as_revert_data() {
        return Some(data);
    }
    // Code 3 is what geth gives a revert; others say so in words only.
    let says_so = payload.code == 3 || payload.message.to_ascii_lowercase().contains("revert");
    says_so.then(Bytes::new)
}

fn attempts_note(attempts: u32) -> String {
    if attempts > 1 { format!(" ({attempts} attempts)") } else { String::new() }
}

fn known_networks() -> String {
    Network::ALL.iter().chain(Network::added()).map(|network| network.name).collect::<Vec<_>>().join(", ")
}
