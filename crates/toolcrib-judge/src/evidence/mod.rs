//! Evidence: what was read and fetched, as plain data, without a verdict.
//!
//! A saved evidence file is a test vector, a bug report and an audit record. [`crate::judge`] turns it into a report; nothing turns it into
//! a permission to call or to pay.

mod exchange;

use alloy_primitives::{Address, B256, Bytes};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use exchange::{Body, Exchange, Failure, Method, Response, Timing, Tls};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::UnixTime;
pub use toolcrib_core::registry::{Erc165, Proxy, ProxyKind, Requirement, Requirements, ToolConfig, ToolState};

/// The version of the evidence format that this code reads and writes.
pub const FORMAT: u32 = 1;

/// Most bytes of an evidence file: the largest manifest with every byte escaped, an attestation report, and room for the rest.
pub const MAX_FILE_BYTES: usize = 16 << 20;

/// Everything that was read and fetched to judge one tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The version of this format.
    pub format: u32,
    /// The program that gathered it, such as `toolcrib 1.0.0`.
    pub gatherer: String,
    /// The time at which gathering started. The age is counted from here.
    pub gathered_at: UnixTime,
    /// The tool, unless only a URL was given.
    #[serde(default, with = "reference", skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolRef>,
    /// The requested metadata URI if no tool was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The data read from the chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<ChainReads>,
    /// The fetch of the manifest; `None` if the URI is not allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Exchange>,
    /// The fetch of the attestation report, for manifests that name one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attestation: Option<AttestationFetch>,
}

/// The fetch of an attestation report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttestationFetch {
    /// The nonce that was sent, if the endpoint accepts one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<Bytes>,
    /// The exchange.
    pub exchange: Exchange,
}

/// The data about a tool read from the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainReads {
    /// keccak256 of the registry's code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry_code_hash: Option<B256>,
    /// The configuration: one read, or two if the first did not match the served manifest.
    pub config: Vec<ConfigRead>,
    /// The facts about the predicate; `None` for open tools and if it was not queried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<PredicateFacts>,
    /// The registration, if its event was searched for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<Registration>,
}

/// One result of `getToolConfig`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigRead {
    /// The chain head at the time of the read.
    pub block: u64,
    /// The tool's state in the registry.
    pub state: ToolState,
}

/// The block and the time of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registration {
    /// The block of `ToolRegistered`.
    pub block: u64,
    /// Its time.
    pub at: UnixTime,
}

/// Facts about a predicate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredicateFacts {
    /// The contract.
    pub address: Address,
    /// keccak256 of its code; `None` if it has none.
    pub code_hash: Option<B256>,
    /// How its code can be replaced, if it is a proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
    /// Its ERC-165 answer.
    pub erc165: Erc165,
    /// Its name. Untrusted text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its version. Untrusted text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its requirements.
    pub requirements: Requirements,
    /// The contracts in its requirements, and whether they exist. If the collection is on another chain, no account gets access.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contracts: Vec<ContractFact>,
}

/// A contract in a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContractFact {
    /// Its address.
    pub address: Address,
    /// Whether it has code on the predicate's chain.
    pub has_code: bool,
}

impl Evidence {
    /// Evidence without any reads.
    pub fn new(gatherer: impl Into<String>, gathered_at: UnixTime) -> Self {
        Self {
            format: FORMAT,
            gatherer: gatherer.into(),
            gathered_at,
            tool: None,
            url: None,
            chain: None,
            manifest: None,
            attestation: None,
        }
    }

    /// The configuration that is judged: the last read.
    pub fn config(&self) -> Option<&ToolConfig> {
        match &self.chain.as_ref()?.config.last()?.state {
            ToolState::Present(config) => Some(config),
            ToolState::NotFound | ToolState::Deregistered => None,
        }
    }

    /// The metadata URI: from the chain, or as requested. Untrusted text.
    pub fn metadata_uri(&self) -> Option<&str> {
        self.config().map(|config| config.metadata_uri.as_str()).or(self.url.as_deref())
    }

    /// Whether any part of it comes from the development environment.
    pub fn is_dev(&self) -> bool {
        self.manifest.iter().chain(self.attestation.iter().map(|fetch| &fetch.exchange)).any(|exchange| exchange.dev)
    }
}

/// A tool reference in its text form.
mod reference {
    use serde::de::Error as _;

    use super::{Deserialize, Deserializer, Serializer, ToolRef};

    pub(super) fn serialize<S: Serializer>(tool: &Option<ToolRef>, serializer: S) -> Result<S::Ok, S::Error> {
        match tool {
            Some(tool) => serializer.collect_str(tool),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ToolRef>, D::Error> {
        let Some(text) = Option::<std::borrow::Cow<'de, str>>::deserialize(deserializer)? else { return Ok(None) };
        ToolRef::parse(&text).map(Some).map_err(D::Error::custom)
    }
}
