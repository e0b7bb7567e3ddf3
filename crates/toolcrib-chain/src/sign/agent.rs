//! Offline verification of an agent manifest's signature (.agt 1.0 §4).

use alloy_primitives::Address;
use toolcrib_core::agent::AgentManifest;
use toolcrib_core::agent::signing::{AgentSignature, SigningPayload};

use super::{SignatureError, StrictSignature};

/// Recovers the signer of a document.
pub fn owner_of(payload: &SigningPayload, signature: AgentSignature) -> Result<Address, SignatureError> {
    StrictSignature::from(signature).recover(payload.digest())
}

/// Checks that a manifest is signed by its `owner`. Does not check that this owner has the name onchain.
pub fn check_owner_signature(manifest: &AgentManifest) -> Result<(), SignatureError> {
    // Only a manifest that was assembled has a canonical form; without one nothing was signed.
    let payload = manifest.signing_payload().ok_or(SignatureError::Unrecoverable)?;
    StrictSignature::from(*manifest.signature()).check(payload.digest(), manifest.owner())
}
