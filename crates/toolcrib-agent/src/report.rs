//! The report: what evidence about a name amounts to.

use std::fmt;

use alloy_primitives::{Address, B256, U256};
use serde::{Serialize, Serializer};
use toolcrib_core::agent::txt::LegacyAgent;
use toolcrib_core::agent::{AgentManifest, Capability, Pricing, Protocol};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::Code;
use toolcrib_core::finding::Finding;
use toolcrib_core::json::{Document, Value};
use toolcrib_core::judge::{Check, Untrusted};

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

/// What a verified manifest says. The owner vouches for these texts; they are still text from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct About {
    /// The display name.
    pub name: Option<String>,
    /// What the agent says about itself.
    pub description: Option<String>,
    /// The URL of a picture.
    pub icon: Option<String>,
    /// The URL of a website.
    pub website: Option<String>,
    /// What the agent speaks, and where.
    pub protocols: Vec<AboutProtocol>,
    /// What the agent can do.
    pub capabilities: Vec<AboutCapability>,
    /// How the agent charges.
    pub pricing: Option<AboutPricing>,
}

impl About {
    /// The facts of a manifest.
    pub(crate) fn of(manifest: &AgentManifest) -> Self {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Self {
            name: owned(manifest.name()),
            description: owned(manifest.description()),
            icon: owned(manifest.icon()),
            website: owned(manifest.website()),
            protocols: manifest.protocols().map(AboutProtocol::of).collect(),
            capabilities: manifest.capabilities().map(AboutCapability::of).collect(),
            pricing: manifest.pricing().map(AboutPricing::of),
        }
    }
}

/// A protocol of a verified manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AboutProtocol {
    /// Which protocol.
    pub id: String,
    /// Where it is spoken.
    pub endpoint: String,
    /// Which version of it.
    pub version: Option<String>,
    /// How callers identify themselves.
    pub auth: Option<String>,
    /// Whether the specification lists the protocol.
    pub known: bool,
}

impl AboutProtocol {
    fn of(protocol: Protocol<'_>) -> Self {
        Self {
            id: protocol.id().to_owned(),
            endpoint: protocol.endpoint().to_owned(),
            version: protocol.version().map(str::to_owned),
            auth: protocol.auth().map(str::to_owned),
            known: protocol.known().is_some(),
        }
    }
}

/// A capability of a verified manifest. Its schemas are in the manifest itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AboutCapability {
    /// Which capability.
    pub id: String,
    /// What the agent says about it.
    pub description: Option<String>,
    /// Whether the specification lists the capability.
    pub known: bool,
    /// Whether there is a schema of the input.
    pub has_input: bool,
    /// Whether there is a schema of the output.
    pub has_output: bool,
}

impl AboutCapability {
    fn of(capability: Capability<'_>) -> Self {
        Self {
            id: capability.id().to_owned(),
            description: capability.description().map(str::to_owned),
            known: capability.known().is_some(),
            has_input: capability.input().is_some(),
            has_output: capability.output().is_some(),
        }
    }
}

/// The pricing of a verified manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AboutPricing {
    /// The model: free, freemium, paid or contact.
    pub model: &'static str,
    /// What is free.
    pub free_tier: Option<String>,
    /// What is charged.
    pub paid: Option<AboutPaid>,
}

impl AboutPricing {
    fn of(pricing: Pricing<'_>) -> Self {
        Self {
            model: pricing.model().as_str(),
            free_tier: pricing.free_tier().map(str::to_owned),
            paid: pricing.paid().map(|paid| AboutPaid {
                currency: paid.currency().to_owned(),
                amount: paid.amount().to_owned(),
                unit: paid.unit().to_owned(),
                chain: paid.chain().map(str::to_owned),
            }),
        }
    }
}

/// A price of a verified manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AboutPaid {
    /// An ISO 4217 code or a token symbol.
    pub currency: String,
    /// A plain decimal number.
    pub amount: String,
    /// What the amount is charged for.
    pub unit: String,
    /// Where a token lives.
    pub chain: Option<String>,
}

/// What an unverified manifest or legacy records say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Claims {
    /// The display name.
    pub name: Option<Untrusted>,
    /// The description.
    pub description: Option<Untrusted>,
    /// The owner.
    pub owner: Option<Untrusted>,
    /// The endpoints, the first few of them.
    pub endpoints: Vec<Untrusted>,
}

/// Endpoints that are shown of an unverified manifest: a person needs no more to recognise it.
const MAX_CLAIMED_ENDPOINTS: usize = 8;

impl Claims {
    /// The claims of a document.
    pub(crate) fn of_document(document: &Document) -> Self {
        let text = |key: &str| document.root().get(key).and_then(Value::as_str).map(Untrusted::new);
        let protocols = document.root().get("protocols").and_then(Value::as_array);
        let entries = protocols.into_iter().flat_map(|list| list.iter().take(MAX_CLAIMED_ENDPOINTS));
        let endpoints = entries.filter_map(|entry| entry.get("endpoint").and_then(Value::as_str).map(Untrusted::new));
        Self { name: text("name"), description: text("description"), owner: text("owner"), endpoints: endpoints.collect() }
    }

    /// The claims of legacy records.
    pub(crate) fn of_legacy(legacy: &LegacyAgent) -> Self {
        let text = |text: &Option<String>| text.as_deref().map(Untrusted::new);
        let endpoints = legacy.protocols.iter().filter_map(|protocol| protocol.endpoint.as_deref());
        Self {
            name: text(&legacy.name),
            description: text(&legacy.description),
            owner: text(&legacy.owner),
            endpoints: endpoints.take(MAX_CLAIMED_ENDPOINTS).map(Untrusted::new).collect(),
        }
    }
}

fn checksummed<S: Serializer>(address: &Option<Address>, serializer: S) -> Result<S::Ok, S::Error> {
    match address {
        Some(address) => serializer.serialize_str(&address.to_checksum(None)),
        None => serializer.serialize_none(),
    }
}
