//! The client of a tool registry.
//!
//! The registry's `hasAccess` is not exposed: it returns false both for an account that does not qualify and for a predicate that
//! fails. [`Registry::access`] tells these apart.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_sol_types::SolCall;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::registry::TOOL_REGISTRY_INTERFACE;
pub use toolcrib_core::registry::{ToolConfig, ToolState};

use crate::Error;
use crate::abi::{IRawToolRegistry, IToolRegistry};
use crate::predicate::{
    Diagnosis, Opaque, PredicateQuery, Proxy, ProxyKind, detect_proxy, diagnose, read_text, supports_interface,
};
use crate::rpc::{BoundedCall, CallOutcome, Chain};
use crate::transaction::Call;

mod compare;
mod event;
mod logs;
mod promise;
mod revert;

pub use compare::{MAX_COMPARED, state_digest};
pub use event::{EventFilter, EventPage, FIRST_PAGE, LARGEST_PAGE, LoggedEvent, RegistryEvent};
pub use logs::{BlockLogs, ChainEvent, ChainLog, LogPage, LogQuery, MAX_LOG_ADDRESSES};
pub use revert::Revert;

/// Maximum length of a URI in the registry (ERC-8257 Metadata URI Length Cap).
pub const MAX_URI_BYTES: usize = 2_048;

/// Gas for the first access check: the registry forwards 200,000 to the predicate, the rest is ample for itself.
pub const ACCESS_GAS: u64 = 1_000_000;

/// Gas for the second attempt, for registries with a higher limit for predicates, or none.
pub const ACCESS_GAS_RETRY: u64 = 10_000_000;

/// A registry on a chain.
#[derive(Clone, Debug)]
pub struct Registry {
    chain: Chain,
    address: Address,
}

/// The result of an access check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessResult {
    /// The account has access. Does not prove that the caller controls the account.
    Granted,
    /// The account does not qualify.
    Denied,
    /// The predicate failed, so there is no result.
    Malfunction,
}

impl AccessResult {
    /// The code for denied access and malfunctions; `None` if access is granted.
    pub const fn code(self) -> Option<Code> {
        match self {
            Self::Granted => None,
            Self::Denied => Some(codes::predicate::DENIED),
            Self::Malfunction => Some(codes::predicate::MALFUNCTION),
        }
    }
}

/// The result of inspecting a registry contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryReport {
    /// keccak256 of its code.
    pub code_hash: B256,
    /// Whether and how its code can be replaced.
    pub proxy: Option<Proxy>,
    /// Whether it claims the interface of ERC-8257.
    pub is_advertised: bool,
    /// Its name, to compare.
    pub name: Option<Opaque>,
    /// Its version. Versions have no order.
    pub version: Option<Opaque>,
}

impl RegistryReport {
    /// Returns all codes to report, the most severe first.
    pub fn codes(&self) -> Vec<Code> {
        let is_proxy = self.proxy.is_some_and(|proxy| proxy.is_mutable()).then_some(codes::chain::REGISTRY_PROXY);
        let is_other = (!self.is_advertised).then_some(codes::chain::REGISTRY_INTERFACE);
        is_proxy.into_iter().chain(is_other).collect()
    }
}

impl Registry {
    /// The registry at an address.
    pub const fn new(chain: Chain, address: Address) -> Self {
        Self { chain, address }
    }

    /// The registry of the built-in table.
    pub fn of(chain: Chain) -> Result<Self, Error> {
        let Some(address) = chain.network().registry else {
            return Err(Error::NoRegistry { network: chain.network().described() });
        };
        Ok(Self { chain, address })
    }

    /// The chain.
    pub const fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The address.
    pub const fn address(&self) -> Address {
        self.address
    }

    /// Returns the same registry as seen by one node of its chain.
    #[must_use]
    pub fn through(&self, node: usize) -> Self {
        Self { chain: self.chain.through(node), address: self.address }
    }

    /// The full reference of a tool.
    pub const fn reference(&self, id: U256) -> ToolRef {
        ToolRef { chain: self.chain.chain_id(), registry: self.address, id }
    }

    /// Returns the state of a tool. Id 0 is never registered, so it needs no request.
    pub async fn tool(&self, id: U256) -> Result<ToolState, Error> {
        self.tool_in(id, None).await
    }

    /// Returns the state of a tool after the block with this number.
    pub async fn tool_at(&self, id: U256, block: u64) -> Result<ToolState, Error> {
        self.tool_in(id, Some(block)).await
    }

    async fn tool_in(&self, id: U256, block: Option<u64>) -> Result<ToolState, Error> {
        /// The longest URI and the words around it, with room for registries with a looser encoding.
        const MAX_CONFIG_BYTES: usize = 4 * MAX_URI_BYTES;
        if id.is_zero() {
            return Ok(ToolState::NotFound);
        }
        match self.read(IRawToolRegistry::getToolConfigCall { toolId: id }, "getToolConfig", MAX_CONFIG_BYTES, block).await {
            Ok(config) => Ok(ToolState::Present(config.into())),
            Err(Error::ToolNotFound { .. }) => Ok(ToolState::NotFound),
            Err(Error::ToolDeregistered { .. }) => Ok(ToolState::Deregistered),
            Err(error) => Err(error),
        }
    }

    /// The configuration of a tool; an error if it is not registered.
    pub async fn config(&self, id: U256) -> Result<ToolConfig, Error> {
        match self.tool(id).await? {
            ToolState::Present(config) => Ok(config),
            ToolState::NotFound => Err(Error::ToolNotFound { registry: self.address, id }),
            ToolState::Deregistered => Err(Error::ToolDeregistered { registry: self.address, id }),
        }
    }

    /// Checks whether an account has access to a tool. `data` is for predicates that take a proof; never put a secret into it, because
    /// nodes see it.
    pub async fn access(&self, id: U256, account: Address, data: Bytes) -> Result<AccessResult, Error> {
        if id.is_zero() {
            return Err(Error::ToolNotFound { registry: self.address, id });
        }
        let data: Bytes = IToolRegistry::tryHasAccessCall { toolId: id, account, data }.abi_encode().into();
        for gas in [ACCESS_GAS, ACCESS_GAS_RETRY] {
            let call = BoundedCall { to: self.address, data: data.clone(), from: None, gas: Some(gas), max_bytes: 64 };
            match self.chain.call(&call).await? {
                CallOutcome::Returned(bytes) => return self.decode_access(&bytes),
                CallOutcome::Reverted(data) => return Err(self.refused(&data)),
                CallOutcome::Halted(_) => {}
                CallOutcome::TooLarge => return Err(self.undecodable("tryHasAccess", usize::MAX)),
            }
        }
        Ok(AccessResult::Malfunction)
    }

    /// Returns why [`Self::access`] did not grant access, as far as that can be determined. A malfunction always has a reason, a proper
    /// denial has none.
    pub async fn explain(
        &self,
        id: U256,
        account: Address,
        data: Bytes,
        answer: AccessResult,
    ) -> Result<Option<Diagnosis>, Error> {
        if answer == AccessResult::Granted {
            return Ok(None);
        }
        let Some(predicate) = self.config(id).await?.access_predicate else { return Ok(None) };
        diagnose(&self.chain, &PredicateQuery { registry: self.address, predicate, tool: id, account, data }, answer).await
    }

    /// The highest id assigned so far.
    pub async fn tool_count(&self) -> Result<U256, Error> {
        self.read(IToolRegistry::toolCountCall {}, "toolCount", 32, None).await
    }

    /// Returns the highest id assigned so far, in the state after the block with this number.
    pub async fn tool_count_at(&self, block: u64) -> Result<U256, Error> {
        self.read(IToolRegistry::toolCountCall {}, "toolCount", 32, Some(block)).await
    }

    /// The registry's name, if it has one of at most 256 bytes. Opaque.
    pub async fn name(&self) -> Result<Option<Opaque>, Error> {
        read_text(&self.chain, self.address, IToolRegistry::nameCall {}.abi_encode()).await
    }

    /// The registry's version, if it has one of at most 256 bytes. Opaque: versions can be equal, but have no order.
    pub async fn version(&self) -> Result<Option<Opaque>, Error> {
        read_text(&self.chain, self.address, IToolRegistry::versionCall {}.abi_encode()).await
    }

    /// Inspects the contract: code, proxy, interface, name and version.
    pub async fn inspect(&self) -> Result<RegistryReport, Error> {
        let code = self.chain.code(self.address).await?;
        if code.is_empty() {
            return Err(Error::NotARegistry { address: self.address, reason: "there is no code at the address" });
        }
        Ok(RegistryReport {
            code_hash: keccak256(&code),
            proxy: detect_proxy(&self.chain, self.address, &code).await?,
            is_advertised: supports_interface(&self.chain, self.address, TOOL_REGISTRY_INTERFACE).await?,
            name: self.name().await?,
            version: self.version().await?,
        })
    }

    /// Returns an error if the registry's code is not the pinned one, or can be replaced.
    pub async fn check_pin(&self, expected: B256) -> Result<(), Error> {
        let code = self.chain.code(self.address).await?;
        let got = keccak256(&code);
        if got != expected {
            return Err(Error::RegistryCode { address: self.address, expected, got });
        }
        match detect_proxy(&self.chain, self.address, &code).await? {
            // A minimal proxy is immutable: its target is part of the pinned code.
            None | Some(Proxy { kind: ProxyKind::Minimal, .. }) => Ok(()),
            Some(_) => {
                Err(Error::NotARegistry { address: self.address, reason: "it is a proxy, so a pinned code hash proves nothing" })
            }
        }
    }

    /// The call that registers a tool. It has no value; for a registry that takes a fee or a bond, set [`Call::value`].
    pub fn register(&self, uri: &str, hash: B256, predicate: Option<Address>) -> Call {
        let predicate = predicate.unwrap_or_default();
        self.write(IToolRegistry::registerToolCall {
            metadataURI: uri.to_owned(),
            manifestHash: hash,
            accessPredicate: predicate,
        })
    }

    /// The call that changes URI and hash.
    pub fn update(&self, id: U256, uri: &str, hash: B256) -> Call {
        self.write(IToolRegistry::updateToolMetadataCall { toolId: id, newURI: uri.to_owned(), newHash: hash })
    }

    /// The call that changes the predicate; `None` grants access to every account.
    pub fn set_predicate(&self, id: U256, predicate: Option<Address>) -> Call {
        self.write(IToolRegistry::setAccessPredicateCall { toolId: id, newPredicate: predicate.unwrap_or_default() })
    }

    /// The call that deregisters a tool for good.
    pub fn deregister(&self, id: U256) -> Call {
        self.write(IToolRegistry::deregisterToolCall { toolId: id })
    }

    /// Interprets the revert of a call to this registry. A registry may have its own error where the reference has
    /// `InvalidAccessPredicate` (ERC-8257 Predicate Validation at Registration), so an unknown error of a call that would have stored
    /// a predicate is attributed to the predicate.
    pub fn explain_refusal(&self, call: &Call, error: Error) -> Error {
        let Error::Reverted(Revert::Unknown(data)) = &error else { return error };
        if call.to != self.address || data.is_empty() {
            return error;
        }
        let predicate = IToolRegistry::registerToolCall::abi_decode(&call.data)
            .map(|call| call.accessPredicate)
            .or_else(|_| IToolRegistry::setAccessPredicateCall::abi_decode(&call.data).map(|call| call.newPredicate));
        match predicate {
            Ok(predicate) if !predicate.is_zero() => Error::Reverted(Revert::PredicateRefused { predicate, data: data.clone() }),
            _ => error,
        }
    }

    fn write(&self, call: impl SolCall) -> Call {
        Call { to: self.address, data: call.abi_encode().into(), value: U256::ZERO }
    }

    async fn read<C: SolCall>(
        &self,
        call: C,
        function: &'static str,
        max_bytes: usize,
        block: Option<u64>,
    ) -> Result<C::Return, Error> {
        /// Storage reads are cheap; a call that needs more gas is not to a registry.
        const READ_GAS: u64 = 1_000_000;
        let call = BoundedCall { to: self.address, data: call.abi_encode().into(), from: None, gas: Some(READ_GAS), max_bytes };
        let outcome = match block {
            Some(block) => self.chain.call_at(&call, block).await?,
            None => self.chain.call(&call).await?,
        };
        match outcome {
            CallOutcome::Returned(bytes) if bytes.is_empty() => Err(self.silent()),
            CallOutcome::Returned(bytes) => {
                C::abi_decode_returns_validate(&bytes).map_err(|_| self.undecodable(function, bytes.len()))
            }
            CallOutcome::Reverted(data) => Err(self.refused(&data)),
            CallOutcome::Halted(_) => Err(Error::NotARegistry { address: self.address, reason: "the call failed" }),
            CallOutcome::TooLarge => Err(self.undecodable(function, usize::MAX)),
        }
    }

    fn decode_access(&self, bytes: &[u8]) -> Result<AccessResult, Error> {
        if bytes.is_empty() {
            return Err(self.silent());
        }
        let undecodable = || self.undecodable("tryHasAccess", bytes.len());
        let (ok, granted) = bytes.split_first_chunk::<32>().ok_or_else(undecodable)?;
        let bit = |word: &[u8]| match word.split_last() {
            Some((last @ (0 | 1), rest)) if rest.len() == 31 && rest.iter().all(|&byte| byte == 0) => Some(*last == 1),
            _ => None,
        };
        match (bit(ok), bit(granted)) {
            (Some(true), Some(true)) => Ok(AccessResult::Granted),
            (Some(true), Some(false)) => Ok(AccessResult::Denied),
            // (false, true) is not allowed; a registry that returns it is not trusted.
            (Some(false), Some(_)) => Ok(AccessResult::Malfunction),
            _ => Err(undecodable()),
        }
    }

    fn refused(&self, data: &Bytes) -> Error {
        match Revert::decode(data) {
            Revert::ToolNotFound(id) => Error::ToolNotFound { registry: self.address, id },
            Revert::ToolDeregistered(id) => Error::ToolDeregistered { registry: self.address, id },
            revert => Error::Reverted(revert),
        }
    }

    const fn silent(&self) -> Error {
        Error::NotARegistry { address: self.address, reason: "it returns no data, like an address without code" }
    }

    const fn undecodable(&self, function: &'static str, length: usize) -> Error {
        Error::Undecodable { contract: self.address, function, length }
    }
}

/// Decodes a string of a registry. Invalid UTF-8 becomes U+FFFD, which is not allowed in URLs: such an entry can be displayed, but
/// never fetched. So does NUL, which databases do not accept.
fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text.into_owned() }
}

impl From<IRawToolRegistry::RawToolConfig> for ToolConfig {
    fn from(config: IRawToolRegistry::RawToolConfig) -> Self {
        Self {
            creator: config.creator,
            metadata_uri: text(&config.metadataURI),
            manifest_hash: config.manifestHash,
            access_predicate: Some(config.accessPredicate).filter(|predicate| !predicate.is_zero()),
        }
    }
}
