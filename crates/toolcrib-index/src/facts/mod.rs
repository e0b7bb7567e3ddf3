//! Facts derived from the verification of a tool, as REST, MCP, pages and search show them.
//!
//! Everything here is a pure function of the evidence, of the index's earlier state and of a time, except for reading the names of
//! collections and finding duplicates. Nothing here decides whether a tool is verified: that is the job of [`toolcrib_judge`].

pub(crate) mod access;
pub(crate) mod collection;
pub(crate) mod duplicates;
pub(crate) mod health;
pub(crate) mod life;
pub(crate) mod manifest;
pub(crate) mod notices;
mod opensea;

pub use access::MAX_REQUIREMENTS;
pub use collection::{CollectionProvider, MAX_COLLECTIONS, Provided};
pub use life::{ALWAYS_DENY, DEREGISTERED, STALE_SECONDS};
pub use manifest::MAX_FIELDS;
pub(crate) use manifest::listed_price;
pub use notices::{MAX_NOTICES, NOTICE_SECONDS};
pub use opensea::OpenSea;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_judge::{Check, Report, Untrusted};

use crate::listing::{Claims, Failure, FindingNote, Health, Listing, Verdict};
use crate::model::ToolView;
use crate::work::Look;
use crate::work::kept::Memory;

/// The maximum number of findings that are listed, most severe first. The report has all of them.
pub const MAX_FINDINGS: usize = 64;

/// The wording that ERC-8257 asks indexers to use about a predicate without ERC-165 support.
pub const NOT_ADVERTISED: &str = "predicate does not advertise IAccessPredicate";

/// Derives a listing. `expires_at` is when the next verification must have succeeded.
pub(crate) fn listing(
    look: &Look,
    view: &ToolView,
    memory: &Memory,
    duplicates: &duplicates::Duplicates,
    health: Health,
    expires_at: UnixTime,
) -> Listing {
    let (evidence, report, row) = (&look.evidence, &look.report, &view.row);
    let now = evidence.gathered_at;
    let reads = evidence.chain.as_ref();
    let predicate = reads.and_then(|reads| reads.predicate.as_ref()).filter(|facts| Some(facts.address) == row.predicate);
    let is_always_deny = predicate.is_some_and(access::is_always_deny);
    Listing {
        checked_at: now,
        expires_at,
        manifest_hash: row.manifest_hash,
        metadata_uri: row.metadata_uri.clone(),
        verdict: match report.verdict {
            toolcrib_judge::Verdict::Verified => Verdict::Verified,
            toolcrib_judge::Verdict::Refused => Verdict::Refused,
            toolcrib_judge::Verdict::Unknown | toolcrib_judge::Verdict::Partial => Verdict::Unknown,
        },
        verified: report.verified,
        conformant: report.conformant,
        checks: report.checks.map(|check| check_word(check).to_owned()),
        failed: report.failed.map(|failed| Failure {
            check: failed.check(),
            step: failed.step.as_str().to_owned(),
            code: failed.code.id().to_owned(),
        }),
        findings: findings(report, duplicates.finding.as_ref(), memory, now),
        manifest: look.manifest.as_ref().map(|sealed| manifest::manifest(sealed, &row.metadata_uri)),
        claims: claims(report, view),
        tier: report.tier.effective.as_str().to_owned(),
        access: access::access(row.predicate, reads, &look.collections),
        same_uri: duplicates.same_uri.clone(),
        same_endpoint: duplicates.same_endpoint.clone(),
        life: life::life(row, &view.usage, is_always_deny, now),
        health,
        dev: report.dev,
    }
}

/// Returns what an unverified manifest claims. A deregistered tool is shown with the last name that it had.
fn claims(report: &Report, view: &ToolView) -> Option<Claims> {
    if let Some(claims) = &report.claims {
        let text = |text: &Option<Untrusted>| text.as_ref().map(ToString::to_string);
        return Some(Claims { name: text(&claims.name), endpoint: text(&claims.endpoint) });
    }
    let earlier = view.listing.as_ref().filter(|_| !view.row.is_active())?;
    let had = earlier.manifest.as_ref().map(|manifest| Claims {
        name: Some(Untrusted::new(&manifest.name).to_string()),
        endpoint: Some(Untrusted::new(&manifest.endpoint).to_string()),
    });
    had.or_else(|| earlier.claims.clone())
}

/// Returns the codes of all findings, each once, most severe first.
fn findings(report: &Report, duplicate: Option<&Finding>, memory: &Memory, now: UnixTime) -> Vec<FindingNote> {
    let found = report.findings.iter().chain(duplicate).map(|finding| FindingNote {
        code: finding.code.id().to_owned(),
        severity: finding.severity.as_str().to_owned(),
        title: title(finding.code).to_owned(),
    });
    let mut notes: Vec<FindingNote> = Vec::new();
    for note in found.chain(notices::notes(memory, now)) {
        match notes.iter_mut().find(|known| known.code == note.code) {
            Some(known) if rank(&known.severity) < rank(&note.severity) => *known = note,
            Some(_) => {}
            None => notes.push(note),
        }
    }
    notes.sort_by_key(|note| std::cmp::Reverse(rank(&note.severity)));
    notes.truncate(MAX_FINDINGS);
    notes
}

fn title(code: codes::Code) -> &'static str {
    if code == codes::predicate::NOT_ADVERTISED { NOT_ADVERTISED } else { code.info().title }
}

fn rank(severity: &str) -> u8 {
    if severity == Severity::Error.as_str() { 2 } else { u8::from(severity == Severity::Warning.as_str()) }
}

const fn check_word(check: Check) -> &'static str {
    match check {
        Check::Passed => "passed",
        Check::Failed => "failed",
        Check::NotReached => "not_reached",
    }
}
