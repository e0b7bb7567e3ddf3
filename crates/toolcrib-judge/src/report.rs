//! The report: what evidence amounts to.

use alloy_primitives::{Address, B256};
use serde::{Serialize, Serializer};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::Code;
use toolcrib_core::finding::Finding;
use toolcrib_core::json::{Document, Value};
use toolcrib_core::tool::{Price, Tier, ToolManifest};

use super::{Step, Untrusted};
use crate::evidence::Requirements;

/// What evidence amounts to. It can be written down and not read back: a report is an answer, not a permission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The tool, unless only a URL was given.
    pub tool: Option<String>,
    /// The metadata URI.
    pub metadata_uri: Option<Untrusted>,
    /// The answer in a word.
    pub verdict: Verdict,
    /// Whether all four checks of ERC-8257 §7 passed.
    pub verified: bool,
    /// Whether the manifest also keeps every rule and limit of its schema.
    pub conformant: bool,
    /// Where verification failed first.
    pub failed: Option<Failed>,
    /// The four checks, in the order of their numbers.
    pub checks: [Check; 4],
    /// Everything that was found, the reason of the failure first.
    pub findings: Vec<Finding>,
    /// The two hashes.
    pub hash: Hashes,
    /// The two creators.
    pub creator: Creators,
    /// What the manifest says, once all four checks passed and it is conformant.
    pub about: Option<About>,
    /// What an unverified manifest calls itself: for people, never for an agent.
    pub claims: Option<Claims>,
    /// The trust tier.
    pub tier: TierReport,
    /// What became of the attestation report, where the manifest names one.
    #[cfg(feature = "attestation")]
    pub attestation: Option<crate::attestation::Attested>,
    /// For how long this answer holds.
    pub freshness: Freshness,
    /// Whether the committed hash is the pinned one; `None` when none is pinned.
    pub pinned: Option<bool>,
    /// Who may use the tool.
    pub access: Option<AccessReport>,
    /// The block of the last read.
    pub block: Option<u64>,
    /// Whether the development world was involved.
    pub dev: bool,
}

impl Report {
    /// Whether the tool may be shown to an agent or called: verified, conformant, fresh, and not other than what was pinned.
    pub const fn is_usable(&self) -> bool {
        self.verified && self.conformant && self.freshness.fresh && !matches!(self.pinned, Some(false))
    }
}

/// The answer in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All four checks passed.
    Verified,
    /// A check failed.
    Refused,
    /// It could not be told: the network, a node or a clock was in the way. Not verified.
    Unknown,
    /// No chain was asked; what could be checked without one passed. Not verified.
    Partial,
}

/// Where verification failed first.
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

/// How one of the four checks went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Everything it asks for was seen to hold.
    Passed,
    /// Something it asks for does not hold.
    Failed,
    /// It could not be made.
    NotReached,
}

/// The hashes that check 3 compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hashes {
    /// The one in the registry.
    pub committed: Option<B256>,
    /// That of what was served.
    pub served: Option<B256>,
}

/// The creators that check 4 compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Creators {
    /// The one in the registry.
    #[serde(serialize_with = "lower")]
    pub onchain: Option<Address>,
    /// The one in the manifest.
    #[serde(serialize_with = "lower")]
    pub declared: Option<Address>,
}

/// What a verified manifest says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct About {
    /// The tool's name. Vouched for by its creator, and still foreign text.
    pub name: String,
    /// What it does, in its creator's words.
    pub description: String,
    /// Where it is called.
    pub endpoint: String,
    /// The payment options, the preferred one first; empty when nothing is said about a price.
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

/// What an unverified manifest calls itself.
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

/// How far a tool's claims about its environment can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TierReport {
    /// What the manifest declares.
    #[serde(serialize_with = "tier")]
    pub declared: Tier,
    /// What its other fields support. Still a claim.
    #[serde(serialize_with = "tier")]
    pub claimed: Tier,
    /// What was verified here: the tier to act on.
    #[serde(serialize_with = "tier")]
    pub effective: Tier,
}

impl Default for TierReport {
    fn default() -> Self {
        Self { declared: Tier::SelfAttested, claimed: Tier::SelfAttested, effective: Tier::SelfAttested }
    }
}

/// For how long an answer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Freshness {
    /// When the evidence was gathered.
    pub gathered_at: UnixTime,
    /// Seconds that it may be used for: the policy's window, or the manifest's `maxAge` if that is less.
    pub window: u64,
    /// The first moment at which it may no longer be used.
    pub expires_at: UnixTime,
    /// Whether it may be used at the time of judging.
    pub fresh: bool,
}

/// Who may use a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AccessReport {
    /// The predicate; `None` means that everybody may.
    #[serde(serialize_with = "lower")]
    pub predicate: Option<Address>,
    /// Whether the predicate's code can be replaced.
    pub predicate_is_proxy: bool,
    /// The predicate's name.
    pub predicate_name: Option<Untrusted>,
    /// What it asks for, if it was asked. A hint: access is decided by asking for access.
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
