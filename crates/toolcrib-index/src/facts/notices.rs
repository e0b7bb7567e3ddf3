//! Changes that matter for trust: differences between a verification and the stored state before it.
//!
//! A change is detected once and matters for longer, so it is stored and shown for a while. None of them fails a check.

use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_judge::Report;
use toolcrib_judge::drift::{Snapshot, drift};
use toolcrib_judge::evidence::Evidence;
use toolcrib_judge::signals::Certificate;
use toolcrib_judge::{certificate, signals};
use toolcrib_verify::watch;

use crate::listing::FindingNote;
use crate::model::ToolRow;
use crate::work::kept::{Memory, Notice};

/// How long a change is shown: a month, so that occasional visitors see it.
pub const NOTICE_SECONDS: i64 = 30 * 86_400;

/// The maximum number of changes that are shown at once, the newest.
pub const MAX_NOTICES: usize = 16;

/// What a verification changed in the stored memory of a tool.
pub(crate) struct Noticed {
    pub(crate) memory: Memory,
    /// Whether the code behind the predicate changed.
    pub(crate) is_upgraded: bool,
}

/// Compares a verification with the stored memory.
pub(crate) fn notice(
    before: &Memory,
    row: &ToolRow,
    evidence: &Evidence,
    report: &Report,
    name_servers: Option<&[String]>,
    is_announced: bool,
) -> Noticed {
    let now = evidence.gathered_at;
    let mut found: Vec<(Code, Severity)> = Vec::new();
    let mut is_upgraded = is_announced;
    let look = watch::snapshot(evidence, report);
    if let (Some(look), Some(earlier)) = (&look, &before.snapshot) {
        for change in drift(earlier, look) {
            if change.code == codes::drift::PREDICATE_UPGRADED {
                is_upgraded = true;
            } else if change.code == codes::drift::PREDICATE_CODE_CHANGED {
                is_upgraded = true;
                found.push((codes::predicate::CODE_CHANGED, codes::predicate::CODE_CHANGED.severity()));
            } else if [codes::drift::REQUIREMENTS_CHANGED, codes::drift::ENDPOINT_CHANGED, codes::drift::PRICE_CHANGED]
                .contains(&change.code)
            {
                found.push((change.code, change.severity));
            }
        }
        if let (Some(earlier), Some(now)) = (&earlier.metadata_uri, &look.metadata_uri) {
            found.extend(signals::origin(earlier, now).iter().map(coded));
        }
    }
    if is_upgraded {
        found.push((codes::predicate::UPGRADED, codes::predicate::UPGRADED.severity()));
    }
    found.extend(after_quiet(before, row).iter().map(coded));
    let der = evidence.manifest.as_ref().and_then(|exchange| exchange.tls.as_ref()).map(|tls| tls.certificate.as_bytes());
    let seen = der.and_then(certificate::read);
    if let (Some(seen), Some(earlier)) = (&seen, &before.certificate) {
        // Every report already has the hint that a certificate is younger than the registration.
        let compared = signals::certificate(row.registered.time, seen, Some(&Certificate::from(earlier)));
        found.extend(compared.iter().filter(|finding| finding.severity > Severity::Hint).map(coded));
    }
    let servers = name_servers.unwrap_or_default();
    found.extend(signals::name_servers(&before.name_servers, servers).iter().map(coded));

    let mut memory = Memory {
        snapshot: keep(look, before.snapshot.as_ref()),
        certificate: seen.as_ref().map(Into::into).or_else(|| before.certificate.clone()),
        name_servers: if servers.is_empty() { before.name_servers.clone() } else { servers.to_vec() },
        updated_at: Some(row.updated.time),
        answered_at: before.answered_at,
        notices: before.notices.clone(),
    };
    memory.notices.retain(|notice| now.since(notice.at) < NOTICE_SECONDS);
    for (code, severity) in found {
        memory.notices.retain(|notice| notice.code != code.id());
        memory.notices.push(Notice { code: code.id().to_owned(), severity: severity.as_str().to_owned(), at: now });
    }
    let more = memory.notices.len().saturating_sub(MAX_NOTICES);
    memory.notices.drain(..more);
    Noticed { memory, is_upgraded }
}

/// Detects a change of the registration after a long quiet time. The change before the first one that was seen is known only if there is
/// none.
fn after_quiet(before: &Memory, row: &ToolRow) -> Option<Finding> {
    let previous = match before.updated_at {
        Some(seen) => seen,
        None if row.events == 2 => row.registered.time,
        None => return None,
    };
    signals::update_after_quiet(previous, row.updated.time)
}

/// Returns the snapshot to compare the next one with. A node that lags behind does not change it.
fn keep(look: Option<Snapshot>, earlier: Option<&Snapshot>) -> Option<Snapshot> {
    match (look, earlier) {
        (Some(look), Some(earlier)) if look.block < earlier.block => Some(earlier.clone()),
        (Some(look), Some(earlier)) => Some(look.carry(earlier)),
        (look, earlier) => look.or_else(|| earlier.cloned()),
    }
}

const fn coded(finding: &Finding) -> (Code, Severity) {
    (finding.code, finding.severity)
}

/// Returns the notices in the form in which they are shown.
pub(crate) fn notes(memory: &Memory, now: UnixTime) -> impl Iterator<Item = FindingNote> {
    memory.notices.iter().filter(move |notice| now.since(notice.at) < NOTICE_SECONDS).filter_map(|notice| {
        let code = Code::find(&notice.code)?;
        Some(FindingNote { code: notice.code.clone(), severity: notice.severity.clone(), title: code.info().title.to_owned() })
    })
}
