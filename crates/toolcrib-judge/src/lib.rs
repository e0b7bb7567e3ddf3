#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

#[cfg(feature = "attestation")]
pub mod attestation;
mod case;
#[cfg(feature = "attestation")]
pub mod certificate;
pub mod drift;
pub mod evidence;
pub mod explain;
mod report;
pub mod signals;
mod step;
#[cfg(test)]
mod tests;
mod untrusted;

use alloy_primitives::B256;
use case::{Case, Trust};
use toolcrib_core::canon::Sealed;
use toolcrib_core::checked::Outcome;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::finding::Finding;
use toolcrib_core::tool::ToolManifest;

use crate::evidence::Evidence;
pub use report::{
    About, AccessReport, Check, Claims, Creators, Failed, Freshness, Hashes, PriceText, Report, TierReport, Verdict,
};
pub use step::Step;
pub use untrusted::Untrusted;

/// The default freshness window: the one of ERC-8257 §7 for interactive surfaces.
pub const DEFAULT_WINDOW: u64 = 300;

/// The longest freshness window on any surface that can lead to a call: ERC-8257 §7.
pub const MAX_WINDOW: u64 = 86_400;

/// Accepted clock skew of clocks that are ahead of ours.
pub const CLOCK_SKEW: i64 = 60;

/// The reader's requirements beyond the standard.
#[derive(Clone, Debug)]
pub struct Policy {
    window: u64,
    /// The hash that the reader pinned for this tool.
    pub pinned_manifest: Option<B256>,
    /// The trusted hash of the registry's code.
    pub pinned_registry_code: Option<B256>,
    /// The policy for attestation reports. By default it trusts no root, so that every claim remains one.
    #[cfg(feature = "attestation")]
    pub attestation: crate::attestation::Policy,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            window: DEFAULT_WINDOW,
            pinned_manifest: None,
            pinned_registry_code: None,
            #[cfg(feature = "attestation")]
            attestation: crate::attestation::Policy::default(),
        }
    }
}

impl Policy {
    /// For code that pays or signs: evidence is used in the second in which it was gathered, or not at all.
    pub fn pay() -> Self {
        Self { window: 0, ..Self::default() }
    }

    /// The policy with another freshness window. `None` if it is longer than [`MAX_WINDOW`].
    pub fn with_window(mut self, seconds: u64) -> Option<Self> {
        self.window = seconds;
        (seconds <= MAX_WINDOW).then_some(self)
    }

    /// The freshness window in seconds.
    pub const fn window(&self) -> u64 {
        self.window
    }
}

/// Judges evidence.
pub fn judge(evidence: &Evidence, policy: &Policy, now: UnixTime) -> Report {
    judge_whole(evidence, policy, now).0
}

/// Judges evidence, and returns the manifest if all four checks passed and it is conformant.
pub fn judge_whole(evidence: &Evidence, policy: &Policy, now: UnixTime) -> (Report, Option<Sealed<ToolManifest>>) {
    let mut case = Case::default();
    case.evidence(evidence, now);
    let config = case.registration(evidence, policy);
    let well_known = case.metadata_uri(evidence);
    let served = case.fetch(evidence, well_known.as_ref()).map(|bytes| case.manifest(bytes));
    case.origin(evidence, served.as_ref());
    let hash =
        Hashes { committed: config.map(|config| config.manifest_hash), served: served.as_ref().and_then(|served| served.hash) };
    case.hash(evidence, hash);
    let creator =
        Creators { onchain: config.map(|config| config.creator), declared: served.as_ref().and_then(|served| served.creator) };
    case.creator(creator);
    let freshness = case.freshness(evidence, policy, served.as_ref().and_then(|served| served.max_age), now);
    let access = config.map(|config| case.access(evidence, config, served.as_ref()));
    case.certificate(evidence);
    if evidence.is_dev() {
        case.add(Finding::new(codes::verify::DEV_ENVIRONMENT));
    }

    let checks = case.checks();
    let verified = case.failed.is_none() && checks == [Check::Passed; 4];
    let conformant = served.as_ref().is_some_and(|served| matches!(served.outcome, Outcome::Conformant(_)));
    let trust = match served.as_ref().map(|served| &served.outcome) {
        // Claims of an unverified manifest are not evaluated.
        Some(Outcome::Conformant(sealed)) if verified => case.trust(evidence, sealed, policy, now),
        _ => Trust::default(),
    };
    let (manifest, claims) = match served.map(|served| served.outcome) {
        Some(Outcome::Conformant(sealed)) if verified => (Some(sealed), None),
        Some(Outcome::Conformant(sealed)) => (None, Some(Claims::of(sealed.document()))),
        Some(Outcome::Flawed(sealed)) => (None, Some(Claims::of(sealed.value()))),
        Some(Outcome::Unreadable) | None => (None, None),
    };
    let report = Report {
        tool: evidence.tool.map(|tool| tool.to_string()),
        metadata_uri: evidence.metadata_uri().map(Untrusted::new),
        verdict: match case.failed {
            _ if verified => Verdict::Verified,
            Some(failed) if is_unclear(failed.code) => Verdict::Unknown,
            Some(_) => Verdict::Refused,
            None if evidence.tool.is_none() => Verdict::Partial,
            None => Verdict::Unknown,
        },
        verified,
        conformant,
        failed: case.failed,
        checks,
        findings: case.into_findings(),
        hash,
        creator,
        about: manifest.as_ref().map(|manifest| About::of(manifest)),
        claims,
        tier: trust.tier,
        #[cfg(feature = "attestation")]
        attestation: trust.attested,
        freshness,
        pinned: policy.pinned_manifest.map(|pin| hash.committed == Some(pin)),
        access,
        block: evidence.chain.as_ref().and_then(|chain| chain.config.last()).map(|read| read.block),
        dev: evidence.is_dev(),
    };
    (report, manifest)
}

/// Whether a failure leaves the verdict open: our network or a clock may be the reason.
fn is_unclear(code: Code) -> bool {
    codes::fetch::is_transient(code) || code == codes::verify::NO_MANIFEST || code == codes::verify::FROM_THE_FUTURE
}
