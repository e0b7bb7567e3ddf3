//! Compares a verification with a pin.

use toolcrib_core::clock::UnixTime;
use toolcrib_judge::Step;
use toolcrib_verify::Live;

use super::pin::error_codes;
use super::{Changes, Pin, Quarantine};

/// The result of comparing a verification with a pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// The tool verifies with the pinned manifest.
    Same,
    /// The tool differs from the pin.
    Changed(Box<Quarantine>),
    /// The chain or the server did not respond. That is not a change: calls verify in any case.
    Unknown,
}

/// Compares a verification with a pin.
///
/// A registration with another hash is a change even if the server is down. If the registration is the pinned one, a server that does not
/// respond says nothing about the tool.
pub fn observe(pin: &Pin, live: &Live, now: UnixTime) -> Observation {
    let committed = live.report.hash.committed;
    let before = pin.manifest().document().root();
    if let Some(verified) = &live.verified {
        if verified.manifest().hash() == pin.hash() {
            return Observation::Same;
        }
        let changes = Changes::between(before, verified.manifest().document().root());
        return changed(Quarantine::new(now, committed, Vec::new(), Some(changes)));
    }
    let is_unclear = match live.report.failed {
        Some(failed) => matches!(failed.step, Step::Evidence | Step::Egress | Step::Fetch),
        // Verified, but unusable: a rule of the manifest's schema is violated.
        None => !live.report.verified,
    };
    if is_unclear && committed.is_none_or(|hash| hash == pin.hash()) {
        return Observation::Unknown;
    }
    let served = live.evidence.manifest.as_ref().and_then(|exchange| exchange.complete());
    let changes = served.and_then(|response| Changes::with_served(before, response.body.as_bytes()));
    // A body that is not a manifest, such as a "not found" page, has no useful difference.
    let changes = changes.filter(|_| !is_unclear);
    changed(Quarantine::new(now, committed, error_codes(&live.report), changes))
}

fn changed(quarantine: Quarantine) -> Observation {
    Observation::Changed(Box::new(quarantine))
}
