//! Compares with what was verified before: rollbacks, downgrades and transfers.

use toolcrib_core::codes;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_core::time::format_rfc3339;

use super::case::Case;
use super::manifest::Fields;
use crate::memory::Remembered;
use crate::policy::{AgentPolicy, Reaction};
use crate::report::{AgentState, Stage};

/// Compares a manifest without failures with the newest one that was verified before.
pub(super) fn check(case: &mut Case, fields: &Fields, cid: Option<&str>, policy: &AgentPolicy, remembered: Option<&Remembered>) {
    // The time in an invalid manifest means nothing.
    let Some(remembered) = remembered.filter(|_| !case.has_failed()) else { return };
    if remembered.owner != fields.owner {
        case.add(
            Finding::new(codes::agent::OWNER_CHANGED)
                .expected(remembered.owner.to_checksum(None))
                .got(fields.owner.to_checksum(None)),
        );
    }
    if policy.rollback == Reaction::Off {
        return;
    }
    let at = |finding: Finding| Finding { pointer: "/created_at".to_owned(), ..finding };
    let time = |time| format_rfc3339(time).unwrap_or_default();
    if fields.created_at < remembered.created_at {
        let finding = Finding::new(codes::agent::ROLLBACK)
            .expected(format!("not before {} ({})", time(remembered.created_at), remembered.cid))
            .got(time(fields.created_at));
        match policy.rollback {
            Reaction::Fail => case.fail(Stage::History, None, AgentState::Rollback, at(finding)),
            Reaction::Warn | Reaction::Off => case.add(at(finding)),
        }
    } else if fields.created_at == remembered.created_at && fields.payload.digest() != remembered.digest {
        let got = cid.unwrap_or("a file");
        case.add(at(Finding::new(codes::agent::CREATED_AT_REUSED).expected(remembered.cid.as_str()).got(got)));
    }
}

/// Checks legacy records of a name that is remembered to have had a manifest.
pub(super) fn check_downgrade(case: &mut Case, policy: &AgentPolicy, remembered: Option<&Remembered>) {
    let Some(remembered) = remembered else { return };
    let finding = Finding::new(codes::agent::DOWNGRADE).expected(remembered.cid.as_str());
    match policy.downgrade {
        Reaction::Off => {}
        Reaction::Warn => case.add(finding.severity(Severity::Warning)),
        Reaction::Fail => case.fail(Stage::History, None, AgentState::Downgrade, finding),
    }
}
