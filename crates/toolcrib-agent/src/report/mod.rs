//! The report: what evidence about a name amounts to.

mod about;

use std::fmt;

use alloy_primitives::{Address, B256, U256};
use serde::{Serialize, Serializer};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::Code;
use toolcrib_core::finding::Finding;
use toolcrib_judge::Check;

pub use about::{About, AboutCapability, AboutPaid, AboutPricing, AboutProtocol, Claims};

/// What evidence about a name amounts to. It can be written and not read back: a report is an answer, not a permission.
///
/// ```compile_fail
/// let report: toolcrib_agent::AgentReport = serde_json::from_str("{}").unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentReport {
    /// The name in its canonical form.
    pub domain: String,
    /// The answer in a word.
    pub state: AgentState,
    /// Whether all eight steps of the specification passed and nothing else stands against the manifest.
    pub verified: bool,
    /// Whether the manifest keeps every rule of the specification for its fields.
    pub conformant: bool,
    /// Whether unsigned legacy records describe the agent.
    pub legacy: bool,
    /// Where the description of the agent comes from; `None` if there is none.
    pub source: Option<ManifestSource>,
    /// What decided against the name first.
    pub failed: Option<Failed>,
    /// The eight steps of .agt 1.0 §4 Verification, in their order.
    pub steps: [Step; 8],
    /// Everything that was found, the deciding finding first.
    pub findings: Vec<Finding>,
    /// Which content was judged.
    pub content: Option<ContentId>,
    /// When the manifest was made, according to itself.
    pub created_at: Option<UnixTime>,
    /// The token of the name in the registry.
    pub token_id: Option<U256>,
    /// The owner that the manifest names.
    #[serde(serialize_with = "checksummed")]
    pub owner: Option<Address>,
    /// The holder of the name onchain.
    #[serde(serialize_with = "checksummed")]
    pub holder: Option<Address>,
    /// How the owner signed; `None` if that was not shown.
    pub signed_by: Option<SignedBy>,
    /// When the evidence was gathered; `None` for a file. Who holds the name may have changed since.
    pub gathered_at: Option<UnixTime>,
    /// The chain that was read.
    pub chain_id: Option<u64>,
    /// The block of the reads.
    pub block: Option<u64>,
    /// What the manifest says, if it is verified and conformant.
    pub about: Option<About>,
    /// What an unverified manifest or legacy records say: for people, never for an agent.
    pub claims: Option<Claims>,
}

impl AgentReport {
    /// Whether the agent may be shown to other agents or called: verified and conformant.
    pub const fn is_usable(&self) -> bool {
        self.verified && self.conformant
    }

    /// Whether a finding with this code is present.
    pub fn has(&self, code: Code) -> bool {
        self.findings.iter().any(|finding| finding.code == code)
    }
}

/// The answer in a word. Machines compare [`AgentState::as_str`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AgentState {
    /// A signed manifest, against which nothing was found. Whether it is verified is said apart: a preview is not.
    Manifest,
    /// Unsigned legacy records.
    Legacy,
    /// The name exists and belongs to no agent.
    NotAnAgent,
    /// The name does not exist.
    NotFound,
    /// The pointer or the content of its CID cannot be used.
    InvalidCid,
    /// The signature is missing, malformed, or not that of the owner.
    InvalidSignature,
    /// The owner is malformed or does not hold the name.
    InvalidOwner,
    /// The document is not a manifest of this version.
    InvalidManifest,
    /// The manifest belongs to another name.
    DomainMismatch,
    /// Several pointers, or sources that disagree.
    Ambiguous,
    /// The manifest is older than one that was verified before, and the policy refuses that.
    Rollback,
    /// A name that had a manifest has legacy records only, and the policy refuses that.
    Downgrade,
    /// It cannot be told: a source, a gateway or a node did not answer.
    Unreachable,
}

impl AgentState {
    /// Every state.
    pub const ALL: [Self; 13] = [
        Self::Manifest,
        Self::Legacy,
        Self::NotAnAgent,
        Self::NotFound,
        Self::InvalidCid,
        Self::InvalidSignature,
        Self::InvalidOwner,
        Self::InvalidManifest,
        Self::DomainMismatch,
        Self::Ambiguous,
        Self::Rollback,
        Self::Downgrade,
        Self::Unreachable,
    ];

    /// The word in every output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Manifest => "manifest",
            Self::Legacy => "legacy",
            Self::NotAnAgent => "not-an-agent",
            Self::NotFound => "not-found",
            Self::InvalidCid => "invalid-cid",
            Self::InvalidSignature => "invalid-signature",
            Self::InvalidOwner => "invalid-owner",
            Self::InvalidManifest => "invalid-manifest",
            Self::DomainMismatch => "domain-mismatch",
            Self::Ambiguous => "ambiguous",
            Self::Rollback => "rollback",
            Self::Downgrade => "downgrade",
            Self::Unreachable => "unreachable",
        }
    }
}

impl fmt::Display for AgentState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for AgentState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Where the description of an agent comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum ManifestSource {
    /// A signed manifest.
    #[serde(rename = "v1")]
    V1,
    /// Legacy TXT records.
    #[serde(rename = "v0-legacy")]
    V0Legacy,
}

/// A part of the judgement, in the order in which they are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The evidence fits together.
    Evidence,
    /// TXT records were read, and sources agree.
    Txt,
    /// The records point at a manifest.
    Pointer,
    /// The content was retrieved and has the hash of its CID.
    Content,
    /// The content is a JSON object.
    Json,
    /// The manifest belongs to the name.
    Domain,
    /// The fields that verification needs are there and well-formed.
    Fields,
    /// The owner signed.
    Signature,
    /// The owner holds the name.
    Holder,
    /// What was verified before.
    History,
}

/// What decided against a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The part of the judgement.
    pub stage: Stage,
    /// The number of the step of the specification, if it is one of the eight.
    pub step: Option<u8>,
    /// The code of the reason.
    pub code: Code,
}

impl Serialize for Failed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Text {
            stage: Stage,
            step: Option<u8>,
            code: &'static str,
        }
        Text { stage: self.stage, step: self.step, code: self.code.id() }.serialize(serializer)
    }
}

/// How one of the eight steps went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its number in the specification.
    pub number: u8,
    /// How it went.
    pub check: Check,
    /// The code of the reason, unless it passed.
    pub code: Option<Code>,
}

impl Serialize for Step {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Text {
            step: u8,
            result: &'static str,
            code: Option<&'static str>,
        }
        // Words with hyphens, as those of the states.
        let result = match self.check {
            Check::Passed => "passed",
            Check::Failed => "failed",
            Check::NotReached => "not-reached",
        };
        Text { step: self.number, result, code: self.code.map(Code::id) }.serialize(serializer)
    }
}

/// Which content was judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ContentId {
    /// The CID, as the record has it; `None` for a file without one.
    pub cid: Option<String>,
    /// The EIP-191 digest of the canonical bytes without `signature`: the same for every layout of the same content.
    pub digest: B256,
}

/// How the owner of a manifest signed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum SignedBy {
    /// By the key of the owner, as the specification asks.
    #[serde(rename = "eip-191")]
    Key,
    /// By a contract that accepted the signature. An extension of the specification.
    #[serde(rename = "erc-1271-extension")]
    Contract,
}

fn checksummed<S: Serializer>(address: &Option<Address>, serializer: S) -> Result<S::Ok, S::Error> {
    match address {
        Some(address) => serializer.serialize_str(&address.to_checksum(None)),
        None => serializer.serialize_none(),
    }
}
