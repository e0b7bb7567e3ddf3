//! Checks the onchain owner: steps 6, 7 and 8.

use alloy_primitives::Address;
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::codes;
use toolcrib_core::finding::{Finding, Severity};

use super::case::Case;
use crate::evidence::{OwnerOutcome, OwnerRead};
use crate::policy::AgentPolicy;
use crate::report::{AgentState, Stage};

/// Compares the owner in the manifest with the onchain owner of the name.
pub(super) fn check(case: &mut Case, owner: Address, read: Option<&OwnerRead>, domain: &AgtDomain, policy: &AgentPolicy) {
    // The token id follows from the requested name, so this step always passes.
    case.pass(6);
    let Some(read) = read else {
        if policy.require_onchain {
            let finding = Finding::new(codes::agent::HOLDER_UNKNOWN).message("the holder of the name was not read");
            case.fail(Stage::Holder, Some(7), AgentState::Unreachable, finding);
        } else {
            case.add(Finding::new(codes::agent::ONCHAIN_SKIPPED));
        }
        return;
    };
    if !is_of(read, domain, policy) {
        let finding = Finding::new(codes::agent::EVIDENCE_UNUSABLE)
            .message("the holder was read from another chain, registry or token")
            .expected(format!("eip155:{} {} {:#x}", policy.chain_id, policy.registry.to_checksum(None), domain.token_id()))
            .got(format!("eip155:{} {} {:#x}", read.chain_id, read.registry.to_checksum(None), read.token_id));
        case.fail(Stage::Evidence, Some(7), AgentState::Unreachable, finding);
        return;
    }
    (case.report.chain_id, case.report.block) = (Some(read.chain_id), read.block);
    match &read.outcome {
        OwnerOutcome::Holder(holder) => {
            case.report.holder = Some(*holder);
            case.pass(7);
            if *holder == owner {
                case.pass(8);
            } else {
                let mut finding =
                    Finding::new(codes::agent::HOLDER_NOT_OWNER).expected(holder.to_checksum(None)).got(owner.to_checksum(None));
                finding.pointer = "/owner".to_owned();
                case.fail(Stage::Holder, Some(8), AgentState::InvalidOwner, finding);
            }
        }
        OwnerOutcome::NotMinted => {
            case.pass(7);
            case.fail(Stage::Holder, Some(8), AgentState::InvalidOwner, Finding::new(codes::agent::NOT_MINTED));
        }
        OwnerOutcome::NoCode => {
            let finding = Finding::new(codes::agent::REGISTRY_ANSWER)
                .message("there is no contract at the address of the registry")
                .got(read.registry.to_checksum(None));
            unknown(case, finding, policy);
        }
        OwnerOutcome::Malformed { reason } => unknown(case, Finding::new(codes::agent::REGISTRY_ANSWER).got(reason), policy),
        OwnerOutcome::Failed { code, message } => {
            unknown(case, Finding::new(codes::agent::HOLDER_UNKNOWN).got(format!("{message} ({code})")), policy);
        }
    }
}

/// Whether a read is about this name, in the right registry.
pub(super) fn is_of(read: &OwnerRead, domain: &AgtDomain, policy: &AgentPolicy) -> bool {
    read.chain_id == policy.chain_id && read.registry == policy.registry && read.token_id == domain.token_id()
}

/// Handles a read without a result: the verdict is unknown, or a label if a preview is enough.
fn unknown(case: &mut Case, finding: Finding, policy: &AgentPolicy) {
    if policy.require_onchain {
        case.fail(Stage::Holder, Some(7), AgentState::Unreachable, finding);
    } else {
        case.add(finding.severity(Severity::Warning));
        case.add(Finding::new(codes::agent::ONCHAIN_SKIPPED));
    }
}
