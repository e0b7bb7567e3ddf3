//! The report about a name.

mod about;

use std::fmt;

use alloy_primitives::{Address, B256, U256};
use serde::{Serialize, Serializer};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::Code;
use toolcrib_core::finding::Finding;
use toolcrib_judge::Check;

pub use about::{About, AboutCapability, AboutPaid, AboutPricing, AboutProtocol, Claims};

/// The verdict on the evidence about a name. It can be serialised, but not deserialised: a report is a result, not a permission.
///
/// ```compile_fail
/// let report: toolcrib_agent::AgentReport = serde_json::from_str("{}").unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentReport {
    /// The name in its canonical form.
    pub domain: String,
    /// The state in one word.
    pub state: AgentState,
    /// Whether all eight steps of the specification passed, and nothing else speaks against the manifest.
    pub verified: bool,
    /// Whether all fields of the manifest conform to the specification.
    pub conformant: bool,
    /// Whether unsigned legacy records describe the agent.
    pub legacy: bool,
    /// The source of the agent's description; `None` if there is none.
    pub source: Option<ManifestSource>,
    /// The first failure.
    pub failed: Option<Failed>,
    /// The eight steps of .agt 1.0 §4 Verification, in their order.
    pub steps: [Step; 8],
    /// All findings, the deciding one first.
    pub findings: Vec<Finding>,
    /// The content that was judged.
    pub content: Option<ContentId>,
    /// The manifest's own creation time.
    pub created_at: Option<UnixTime>,
    /// The token of the name in the registry.
    pub token_id: Option<U256>,
    /// The owner in the manifest.
    #[serde(serialize_with = "checksummed")]
    pub owner: Option<Address>,
    /// The onchain owner of the name.
    #[serde(serialize_with = "checksummed")]
    pub holder: Option<Address>,
    /// How the owner signed; `None` if no valid signature was found.
    pub signed_by: Option<SignedBy>,
    /// When the evidence was gathered; `None` for a file. The owner of the name may have changed since.
    pub gathered_at: Option<UnixTime>,
    /// The chain that was read.
    pub chain_id: Option<u64>,
    /// The block of the reads.
    pub block: Option<u64>,
    /// The contents of the manifest, if it is verified and conformant.
    pub about: Option<About>,
    /// The contents of an unverified manifest or of legacy records: for users, never for an agent.
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

/// The state of a name in one word. For machine-readable output use [`AgentState::as_str`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AgentState {
    /// A signed manifest without failures. Whether it is verified is a separate field: a preview is not.
    Manifest,
    /// Unsigned legacy records.
    Legacy,
    /// The name exists, but has no agent records.
    NotAnAgent,
    /// The name does not exist.
    NotFound,
    /// The pointer, or the content of its CID, is unusable.
    InvalidCid,
    /// The signature is missing, malformed, or not the owner's.
    InvalidSignature,
    /// The owner is malformed or does not own the name.
    InvalidOwner,
    /// The document is not a manifest of this version.
    InvalidManifest,
    /// The manifest is for another name.
    DomainMismatch,
    /// There are several pointers, or sources disagree.
    Ambiguous,
    /// The manifest is older than one verified before, and the policy rejects that.
    Rollback,
    /// A name that had a manifest has only legacy records, and the policy rejects that.
    Downgrade,
    /// The state is unknown: a source, a gateway or a node did not respond.
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

    /// The word in all output.
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

/// The source of an agent's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum ManifestSource {
    /// A signed manifest.
    #[serde(rename = "v1")]
    V1,
    /// Legacy TXT records.
    #[serde(rename = "v0-legacy")]
    V0Legacy,
}

/// The parts of the verdict, in the order in which they are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The evidence is consistent.
    Evidence,
    /// TXT records were read, and sources agree.
    Txt,
    /// The records point to a manifest.
    Pointer,
    /// The content was retrieved and matches its CID.
    Content,
    /// The content is a JSON object.
    Json,
    /// The manifest is for this name.
    Domain,
    /// The fields that verification needs are present and well-formed.
    Fields,
    /// The owner signed.
    Signature,
    /// The owner owns the name onchain.
    Holder,
    /// Comparison with what was verified before.
    History,
}

/// The failure that decided the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The part of the verdict.
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

/// The result of one of the eight steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its number in the specification.
    pub number: u8,
    /// The result.
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
        // Words with hyphens, like those of the states.
        let result = match self.check {
            Check::Passed => "passed",
            Check::Failed => "failed",
            Check::NotReached => "not-reached",
        };
        Text { step: self.number, result, code: self.code.map(Code::id) }.serialize(serializer)
    }
}

/// The content that was judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ContentId {
    /// The CID in the record; `None` for a file without one.
    pub cid: Option<String>,
    /// The EIP-191 digest of the canonical bytes without `signature`. It does not depend on formatting.
    pub digest: B256,
}

/// How the owner of a manifest signed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum SignedBy {
    /// With the owner's key, as the specification requires.
    #[serde(rename = "eip-191")]
    Key,
    /// With a contract that accepted the signature. An extension of the specification.
    #[serde(rename = "erc-1271-extension")]
    Contract,
}

fn checksummed<S: Serializer>(address: &Option<Address>, serializer: S) -> Result<S::Ok, S::Error> {
    match address {
        Some(address) => serializer.serialize_str(&address.to_checksum(None)),
        None => serializer.serialize_none(),
    }
}
