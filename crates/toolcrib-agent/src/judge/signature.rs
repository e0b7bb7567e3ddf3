//! Checks the signature: steps 4 and 5.

use toolcrib_chain::sign::owner_of;
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::codes;
use toolcrib_core::finding::Finding;

use super::case::Case;
use super::holder::is_of;
use super::manifest::Fields;
use crate::evidence::{ContractRead, OwnerOutcome, OwnerRead};
use crate::policy::AgentPolicy;
use crate::report::{AgentState, SignedBy, Stage};

/// Compares the signer with the owner: the key first, then, if the policy allows it, the verdict of the contract that owns the name.
pub(super) fn check(case: &mut Case, fields: &Fields, read: Option<&OwnerRead>, domain: &AgtDomain, policy: &AgentPolicy) {
    let recovered = owner_of(&fields.payload, fields.signature);
    if recovered.as_ref().is_ok_and(|signer| *signer == fields.owner) {
        case.pass(4);
        case.pass(5);
        case.report.signed_by = Some(SignedBy::Key);
        return;
    }
    // Only a contract that is both the owner in the manifest and the owner in the right registry can sign for the owner.
    let contract = read
        .filter(|read| policy.allow_contract_owner && is_of(read, domain, policy))
        .filter(|read| read.outcome == OwnerOutcome::Holder(fields.owner))
        .and_then(|read| read.contract.as_ref());
    match contract {
        Some(ContractRead::Accepted) => {
            case.pass(4);
            case.pass(5);
            case.report.signed_by = Some(SignedBy::Contract);
            case.add(Finding::new(codes::agent::CONTRACT_SIGNATURE).got(fields.owner.to_checksum(None)));
            return;
        }
        Some(ContractRead::Failed { code, message }) => {
            let finding = Finding::new(codes::agent::CONTRACT_UNANSWERED).got(format!("{message} ({code})"));
            case.fail(Stage::Signature, Some(5), AgentState::Unreachable, finding);
            return;
        }
        Some(ContractRead::NotAContract | ContractRead::Rejected) | None => {}
    }
    let invalid = AgentState::InvalidSignature;
    match recovered {
        Ok(signer) => {
            case.pass(4);
            let mut finding = Finding::new(codes::agent::SIGNER_NOT_OWNER)
                .expected(fields.owner.to_checksum(None))
                .got(signer.to_checksum(None));
            finding.pointer = "/signature".to_owned();
            if contract == Some(&ContractRead::Rejected) {
                finding = finding.message("neither the key nor the contract of the owner made the signature");
            }
            case.fail(Stage::Signature, Some(5), invalid, finding);
        }
        Err(_) => {
            let mut finding = Finding::new(codes::agent::SIGNATURE_UNRECOVERABLE);
            finding.pointer = "/signature".to_owned();
            case.fail(Stage::Signature, Some(4), invalid, finding);
        }
    }
}
