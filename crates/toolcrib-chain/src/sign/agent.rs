//! The signature of an agent manifest (.agt 1.0 §4), judged without a node.

use alloy_primitives::Address;
use toolcrib_core::agent::AgentManifest;
use toolcrib_core::agent::signing::{AgentSignature, SigningPayload};

use super::{SignatureError, StrictSignature};

/// Whose signature over a document it is.
pub fn owner_of(payload: &SigningPayload, signature: AgentSignature) -> Result<Address, SignatureError> {
    StrictSignature::from(signature).recover(payload.digest())
}

/// Holds the signer of a manifest against its `owner` field. Whether that owner has the name on the chain is another question.
pub fn check_owner_signature(manifest: &AgentManifest) -> Result<(), SignatureError> {
    // A manifest that was assembled has a canonical form; without one nothing was signed.
    let payload = manifest.signing_payload().ok_or(SignatureError::Unrecoverable)?;
    StrictSignature::from(*manifest.signature()).check(payload.digest(), manifest.owner())
}
