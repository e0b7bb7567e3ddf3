//! The report about evidence.

use alloy_primitives::{Address, B256};
use serde::{Serialize, Serializer};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::Code;
use toolcrib_core::finding::Finding;
use toolcrib_core::json::{Document, Value};
use toolcrib_core::tool::{Price, Tier, ToolManifest};

use super::{Step, Untrusted};
use crate::evidence::Requirements;

/// The report about evidence. It can be serialised, but not deserialised: a report is an answer, not a permission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The tool, unless only a URL was given.
    pub tool: Option<String>,
    /// The metadata URI.
    pub metadata_uri: Option<Untrusted>,
    /// The verdict.
    pub verdict: Verdict,
    /// Whether all four checks of ERC-8257 §7 passed.
    pub verified: bool,
    /// Whether the manifest also follows every rule and limit of its schema.
    pub conformant: bool,
    /// The first failure of verification.
    pub failed: Option<Failed>,
    /// The four checks, in the order of their numbers.
    pub checks: [Check; 4],
    /// All findings, the reason of the failure first.
    pub findings: Vec<Finding>,
    /// The committed and the served hash.
    pub hash: Hashes,
    /// The onchain and the declared creator.
    pub creator: Creators,
    /// The contents of the manifest, if all four checks passed and it is conformant.
    pub about: Option<About>,
    /// The claims of an unverified manifest: for people, never for an agent.
    pub claims: Option<Claims>,
    /// The trust tier.
    pub tier: TierReport,
    /// The result for the attestation report, if the manifest has one.
    #[cfg(feature = "attestation")]
    pub attestation: Option<crate::attestation::Attested>,
    /// For how long this report is valid.
    pub freshness: Freshness,
    /// Whether the committed hash is the pinned one; `None` if none is pinned.
    pub pinned: Option<bool>,
    /// The access to the tool.
    pub access: Option<AccessReport>,
    /// The block of the last read.
    pub block: Option<u64>,
    /// Whether the development environment was involved.
    pub dev: bool,
}

impl Report {
    /// Whether the tool may be shown to an agent or called: verified, conformant, fresh, and equal to the pinned values.
    pub const fn is_usable(&self) -> bool {
        self.verified && self.conformant && self.freshness.fresh && !matches!(self.pinned, Some(false))
    }
}

/// The verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All four checks passed.
    Verified,
    /// A check failed.
    Refused,
    /// It could not be determined because of the network, a node or a clock. Not verified.
    Unknown,
    /// The chain was not read; all checks that do not need it passed. Not verified.
    Partial,
}

/// The first failure of verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The step.
    pub step: Step,
    /// The code of the reason.
    pub code: Code,
}

impl Failed {
    /// The number of the check, for steps that belong to one.
    pub const fn check(self) -> Option<u8> {
        self.step.check()
    }
}

impl Serialize for Failed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Text {
            check: Option<u8>,
            step: Step,
            code: &'static str,
        }
        Text { check: self.check(), step: self.step, code: self.code.id() }.serialize(serializer)
    }
}

/// The result of one of the four checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// All its conditions are met.
    Passed,
    /// One of its conditions is not met.
    Failed,
    /// It could not be completed.
    NotReached,
}

/// The hashes that check 3 compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hashes {
    /// The hash in the registry.
    pub committed: Option<B256>,
    /// The hash of the served manifest.
    pub served: Option<B256>,
}

/// The creators that check 4 compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Creators {
    /// The creator in the registry.
    #[serde(serialize_with = "lower")]
    pub onchain: Option<Address>,
    /// The creator in the manifest.
    #[serde(serialize_with = "lower")]
    pub declared: Option<Address>,
}

/// The contents of a verified manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct About {
    /// The tool's name. Verified to be its creator's, and still untrusted text.
    pub name: String,
    /// The description, by its creator.
    pub description: String,
    /// The URL at which it is called.
    pub endpoint: String,
    /// The payment options, the preferred one first; empty if no price is stated.
    pub pricing: Vec<PriceText>,
}

impl About {
    pub(super) fn of(manifest: &ToolManifest) -> Self {
        Self {
            name: manifest.name().to_owned(),
            description: manifest.description().to_owned(),
            endpoint: manifest.endpoint().normalized().to_owned(),
            pricing: manifest.pricing().iter().map(PriceText::of).collect(),
        }
    }
}

/// A payment option, as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PriceText {
    /// The amount in the smallest unit.
    pub amount: String,
    /// The asset as CAIP-19.
    pub asset: String,
    /// The recipient as CAIP-10.
    pub recipient: String,
    /// The payment protocol.
    pub protocol: String,
}

impl PriceText {
    /// The text of a price.
    pub fn of(price: &Price) -> Self {
        Self {
            amount: price.amount.to_string(),
            asset: price.asset.as_str().to_owned(),
            recipient: price.recipient.as_str().to_owned(),
            protocol: price.protocol.clone(),
        }
    }
}

/// The claims of an unverified manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Claims {
    /// Its name.
    pub name: Option<Untrusted>,
    /// Its endpoint.
    pub endpoint: Option<Untrusted>,
}

impl Claims {
    pub(super) fn of(document: &Document) -> Self {
        let text = |key: &str| document.root().get(key).and_then(Value::as_str).map(Untrusted::new);
        Self { name: text("name"), endpoint: text("endpoint") }
    }
}

/// The trust in a tool's claims about its environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TierReport {
    /// The tier that the manifest declares.
    #[serde(serialize_with = "tier")]
    pub declared: Tier,
    /// The tier that its other fields support. A claim.
    #[serde(serialize_with = "tier")]
    pub claimed: Tier,
    /// The verified tier, which decisions use.
    #[serde(serialize_with = "tier")]
    pub effective: Tier,
}

impl Default for TierReport {
    fn default() -> Self {
        Self { declared: Tier::SelfAttested, claimed: Tier::SelfAttested, effective: Tier::SelfAttested }
    }
}

/// For how long a report is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Freshness {
    /// The time at which the evidence was gathered.
    pub gathered_at: UnixTime,
    /// Seconds for which it may be used: the policy's window, or the manifest's `maxAge` if that is shorter.
    pub window: u64,
    /// The first moment at which it may no longer be used.
    pub expires_at: UnixTime,
    /// Whether it may be used at the time of judging.
    pub fresh: bool,
}

/// The access to a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AccessReport {
    /// The predicate; `None` means open access.
    #[serde(serialize_with = "lower")]
    pub predicate: Option<Address>,
    /// Whether the predicate's code can be replaced.
    pub predicate_is_proxy: bool,
    /// The predicate's name.
    pub predicate_name: Option<Untrusted>,
    /// Its requirements, if they were read. A hint: the access check itself decides.
    pub requirements: Option<Requirements>,
}

fn lower<S: Serializer>(address: &Option<Address>, serializer: S) -> Result<S::Ok, S::Error> {
    match address {
        Some(address) => serializer.collect_str(&format_args!("{address:#x}")),
        None => serializer.serialize_none(),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn tier<S: Serializer>(tier: &Tier, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(tier.as_str())
}
