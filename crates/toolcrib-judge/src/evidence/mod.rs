//! Evidence: what was read and fetched, as plain data, without a verdict.
//!
//! A saved evidence file is a test vector, a bug report and an audit record. [`crate::judge`] makes a report of it; nothing
//! makes a permission to call or to pay of it.

mod exchange;

use alloy_primitives::{Address, B256, Bytes};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use exchange::{Body, Exchange, Failure, Method, Response, Timing, Tls};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::UnixTime;
pub use toolcrib_core::registry::{Erc165, Proxy, ProxyKind, Requirement, Requirements, ToolConfig, ToolState};

/// The version of the evidence format that this code writes and reads.
pub const FORMAT: u32 = 1;

/// Most bytes of an evidence file: the largest manifest with every byte escaped, an attestation report, and room for the rest.
pub const MAX_FILE_BYTES: usize = 16 << 20;

/// Everything that was read and fetched to judge one tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The version of this format.
    pub format: u32,
    /// What gathered it, such as `toolcrib 1.0.0`.
    pub gatherer: String,
    /// When gathering began. Age is counted from here.
    pub gathered_at: UnixTime,
    /// Which tool, unless only a URL was given.
    #[serde(default, with = "reference", skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolRef>,
    /// The metadata URI that was asked for when no tool was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What the chain said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<ChainReads>,
    /// The fetch of the manifest; `None` when the URI forbade it.
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
    /// The nonce that was sent, if the endpoint takes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<Bytes>,
    /// What came of it.
    pub exchange: Exchange,
}

/// What the chain said about a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainReads {
    /// keccak256 of the registry's code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry_code_hash: Option<B256>,
    /// The configuration: one read, or two when the first did not agree with what was served.
    pub config: Vec<ConfigRead>,
    /// What the predicate is and says; `None` for open tools and when nobody asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<PredicateFacts>,
    /// The registration, when its event was looked up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<Registration>,
}

/// One answer of `getToolConfig`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigRead {
    /// The head of the chain when it was read.
    pub block: u64,
    /// What the registry knows.
    pub state: ToolState,
}

/// When and where a tool was registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registration {
    /// The block of `ToolRegistered`.
    pub block: u64,
    /// Its time.
    pub at: UnixTime,
}

/// What a predicate is and says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredicateFacts {
    /// The contract.
    pub address: Address,
    /// keccak256 of its code; `None` when there is none.
    pub code_hash: Option<B256>,
    /// How its code can be replaced, if it is a proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
    /// What it says about itself by ERC-165.
    pub erc165: Erc165,
    /// Its name. Foreign text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its version. Foreign text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it asks for.
    pub requirements: Requirements,
    /// The contracts that its requirements name, and whether they are there. A gate on a collection of another chain lets
    /// nobody in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contracts: Vec<ContractFact>,
}

/// A contract that a requirement names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContractFact {
    /// Where it should be.
    pub address: Address,
    /// Whether there is code on the predicate's chain.
    pub has_code: bool,
}

impl Evidence {
    /// Evidence with nothing in it yet.
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

    /// The configuration to judge by: the last that was read.
    pub fn config(&self) -> Option<&ToolConfig> {
        match &self.chain.as_ref()?.config.last()?.state {
            ToolState::Present(config) => Some(config),
            ToolState::NotFound | ToolState::Deregistered => None,
        }
    }

    /// Where the manifest should be: what the chain says, or what was asked for. Foreign text.
    pub fn metadata_uri(&self) -> Option<&str> {
        self.config().map(|config| config.metadata_uri.as_str()).or(self.url.as_deref())
    }

    /// Whether any part of it comes from the development world.
    pub fn is_dev(&self) -> bool {
        self.manifest.iter().chain(self.attestation.iter().map(|fetch| &fetch.exchange)).any(|exchange| exchange.dev)
    }
}

/// A tool reference as its text.
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
