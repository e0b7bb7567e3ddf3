//! Judgement: evidence in, report out.
//!
//! [`judge`] is a pure function of the evidence, the policy, the remembered manifest of the name, and a time. It follows the resolution
//! of .agt 1.0 §5 and the eight steps of §4 in order, collects every finding, and names the first failure as the deciding one. Evidence may
//! come from an untrusted file: everything in it that can be recomputed is recomputed.

mod case;
mod content;
mod history;
mod holder;
mod manifest;
mod signature;
mod txt;

use toolcrib_core::agent::txt::LegacyAgent;
use toolcrib_core::agent::{AgentManifest, AgtDomain};
use toolcrib_core::canon::Sealed;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes;
use toolcrib_core::finding::Finding;

use case::Case;
pub(crate) use manifest::Parsed;
pub(crate) use txt::{TxtResult, read_answers};

use crate::content_hash::{CidHash, ContentHash};
use crate::evidence::{AgentEvidence, FORMAT, OwnerRead};
use crate::memory::Remembered;
use crate::policy::AgentPolicy;
use crate::report::{About, AgentReport, AgentState, Claims, ManifestSource, Stage};

/// Maximum number of TXT sources in one evidence file. Resolvers use a handful; more would only let a hostile file cause work.
pub const MAX_SOURCES: usize = 32;

/// Maximum number of retrieval attempts in one evidence file, for the same reason.
pub const MAX_ATTEMPTS: usize = 128;

/// A report with its manifest or legacy records.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// The report.
    pub report: AgentReport,
    /// The manifest, if it is verified and conformant.
    pub manifest: Option<Sealed<AgentManifest>>,
    /// The legacy records, if the name has nothing else. Untrusted and unsigned.
    pub legacy: Option<LegacyAgent>,
}

/// Whether the content in evidence is trusted to match its CID.
#[derive(Clone, Copy)]
pub enum ContentTrust<'a> {
    /// The evidence is third-party data: recompute the hash of the content.
    Recheck(&'a dyn ContentHash),
    /// This process retrieved the content and checked every block. If the hash can be computed, it is still compared.
    Retrieved(&'a dyn ContentHash),
}

impl std::fmt::Debug for ContentTrust<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Recheck(_) => "Recheck",
            Self::Retrieved(_) => "Retrieved",
        })
    }
}

/// Judges evidence from any source. Compares the content with its CID again.
pub fn judge(evidence: &AgentEvidence, policy: &AgentPolicy, remembered: Option<&Remembered>, now: UnixTime) -> AgentReport {
    judge_whole(evidence, policy, remembered, now, ContentTrust::Recheck(&CidHash)).report
}

/// Judges evidence, and returns the manifest if it is verified and conformant.
pub fn judge_whole(
    evidence: &AgentEvidence,
    policy: &AgentPolicy,
    remembered: Option<&Remembered>,
    now: UnixTime,
    content: ContentTrust<'_>,
) -> Judgement {
    judge_parsed(evidence, None, policy, remembered, now, content)
}

/// Like [`judge_whole`], with the manifest that was parsed from the content of the same evidence, so that it is parsed only once.
pub(crate) fn judge_parsed(
    evidence: &AgentEvidence,
    parsed: Option<Parsed>,
    policy: &AgentPolicy,
    remembered: Option<&Remembered>,
    now: UnixTime,
    trust: ContentTrust<'_>,
) -> Judgement {
    let mut case = Case::new(&evidence.domain);
    case.report.gathered_at = Some(evidence.gathered_at);
    let Some(domain) = usable_domain(evidence, &mut case) else { return case.finish(None, None) };
    case.report.token_id = Some(domain.token_id());
    let reading = read_answers(&evidence.txt, policy);
    for finding in reading.findings {
        case.add(finding);
    }
    let cid = match (reading.result, reading.decisive) {
        (TxtResult::Pointer(cid), _) => cid,
        (TxtResult::Legacy(agent), _) => return legacy(case, agent, policy, remembered),
        (TxtResult::Rejected(stage, state), decisive) => {
            case.fail(stage, None, state, decisive.unwrap_or_else(|| Finding::new(codes::agent::NOT_AN_AGENT)));
            return case.finish(None, None);
        }
    };
    case.report.source = Some(ManifestSource::V1);
    let Some(content) = content::check(&mut case, evidence, &cid, trust) else { return case.finish(None, None) };
    let parsed = parsed.unwrap_or_else(|| Parsed::of(content));
    judge_document(case, parsed, Some(cid.as_str()), &domain, evidence.owner.as_ref(), policy, remembered, now)
}

/// Judges a manifest in a file: whether it belongs to the name (its own, if none is given), is signed by its owner, and whether that
/// owner owns the name onchain. The result is never `verified`, because no TXT record was read; steps 1 and 2 are not reached.
pub fn judge_file(
    bytes: &[u8],
    domain: Option<&AgtDomain>,
    owner: Option<&OwnerRead>,
    policy: &AgentPolicy,
    remembered: Option<&Remembered>,
    now: UnixTime,
) -> Judgement {
    judge_parsed_file(Parsed::of(bytes), domain, owner, policy, remembered, now)
}

/// Like [`judge_file`], with the parsed document.
pub(crate) fn judge_parsed_file(
    parsed: Parsed,
    domain: Option<&AgtDomain>,
    owner: Option<&OwnerRead>,
    policy: &AgentPolicy,
    remembered: Option<&Remembered>,
    now: UnixTime,
) -> Judgement {
    let own = parsed.domain();
    let mut case = Case::new(domain.or(own.as_ref()).map_or("", AgtDomain::as_str));
    case.report.source = Some(ManifestSource::V1);
    case.add(Finding::new(codes::agent::FILE_ONLY));
    match domain.or(own.as_ref()) {
        Some(domain) => {
            case.report.token_id = Some(domain.token_id());
            judge_document(case, parsed, None, domain, owner, policy, remembered, now)
        }
        None => {
            manifest::fail_without_domain(&mut case, &parsed);
            let claims = parsed.document().map(Claims::of_document);
            case.report.claims = claims;
            case.finish(None, None)
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "the inputs of one pure function; a struct would only be built here")]
fn judge_document(
    mut case: Case,
    parsed: Parsed,
    cid: Option<&str>,
    domain: &AgtDomain,
    owner: Option<&OwnerRead>,
    policy: &AgentPolicy,
    remembered: Option<&Remembered>,
    now: UnixTime,
) -> Judgement {
    let fields = manifest::check(&mut case, &parsed, cid, domain, policy, now);
    if let Some(fields) = &fields {
        signature::check(&mut case, fields, owner, domain, policy);
        holder::check(&mut case, fields.owner, owner, domain, policy);
        history::check(&mut case, fields, cid, policy, remembered);
    }
    let verified = case.is_verified();
    case.report.verified = verified;
    case.report.conformant = parsed.is_conformant();
    if verified && case.report.conformant {
        let manifest = parsed.into_manifest();
        case.report.about = manifest.as_ref().map(|manifest| About::of(manifest));
        return case.finish(manifest, None);
    }
    case.report.claims = parsed.document().map(Claims::of_document);
    case.finish(None, None)
}

fn legacy(mut case: Case, agent: LegacyAgent, policy: &AgentPolicy, remembered: Option<&Remembered>) -> Judgement {
    case.report.state = AgentState::Legacy;
    case.report.legacy = true;
    case.report.source = Some(ManifestSource::V0Legacy);
    case.report.claims = Some(Claims::of_legacy(&agent));
    history::check_downgrade(&mut case, policy, remembered);
    case.finish(None, Some(agent))
}

/// The name of the evidence. `None` if the evidence as a whole is unusable.
fn usable_domain(evidence: &AgentEvidence, case: &mut Case) -> Option<AgtDomain> {
    let unusable = |message: &str| Finding::new(codes::agent::EVIDENCE_UNUSABLE).message(message);
    let attempts = evidence.content.as_ref().map_or(0, |content| content.attempts.len());
    let finding = if evidence.format != FORMAT {
        unusable("the evidence has another format").expected(FORMAT.to_string()).got(evidence.format.to_string())
    } else if evidence.txt.len() > MAX_SOURCES {
        unusable("the evidence has too many TXT answers").expected(format!("at most {MAX_SOURCES}"))
    } else if attempts > MAX_ATTEMPTS {
        unusable("the evidence has too many attempts to retrieve content").expected(format!("at most {MAX_ATTEMPTS}"))
    } else {
        match AgtDomain::parse(&evidence.domain) {
            Ok(domain) => return Some(domain),
            Err(fault) => unusable(fault.described()).got(&evidence.domain),
        }
    };
    case.fail(Stage::Evidence, None, AgentState::Unreachable, finding);
    None
}
