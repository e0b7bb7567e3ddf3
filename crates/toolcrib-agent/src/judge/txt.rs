//! Checks the responses of TXT sources: whether they agree, and what the records point to.

use alloy_primitives::Bytes;
use toolcrib_core::agent::txt::{CidText, LegacyAgent, TxtOutcome, parse_records};
use toolcrib_core::codes;
use toolcrib_core::finding::{Finding, Severity};

use crate::evidence::{Dnssec, TxtAnswer, TxtLookup};
use crate::policy::AgentPolicy;
use crate::report::{AgentState, Stage};

/// The combined result of all sources.
#[derive(Debug)]
pub(crate) struct TxtReading {
    pub(crate) result: TxtResult,
    /// The reason of a rejection.
    pub(crate) decisive: Option<Finding>,
    /// All other findings. Their pointers refer to the evidence.
    pub(crate) findings: Vec<Finding>,
}

/// What the records of a name point to.
#[derive(Debug)]
pub(crate) enum TxtResult {
    /// A manifest.
    Pointer(CidText),
    /// Legacy records.
    Legacy(LegacyAgent),
    /// Nothing usable.
    Rejected(Stage, AgentState),
}

/// Combines the responses of all sources. Failed sources become findings; all others must agree.
pub(crate) fn read_answers(answers: &[TxtAnswer], policy: &AgentPolicy) -> TxtReading {
    let mut findings = Vec::new();
    let mut usable: Vec<(usize, &TxtAnswer)> = Vec::new();
    for (index, answer) in answers.iter().enumerate() {
        match unusable(answer, policy) {
            Some(mut finding) => {
                finding.pointer = format!("/txt/{index}");
                findings.push(finding);
            }
            None => usable.push((index, answer)),
        }
    }
    let rejected = |stage, state, decisive, findings| TxtReading {
        result: TxtResult::Rejected(stage, state),
        decisive: Some(decisive),
        findings,
    };
    let Some((&(first_index, first), others)) = usable.split_first() else {
        let decisive = if findings.is_empty() {
            Finding::new(codes::agent::TXT_UNANSWERED).message("no source of TXT records was asked")
        } else {
            findings.remove(0)
        };
        return rejected(Stage::Txt, AgentState::Unreachable, decisive, findings);
    };
    if !others.is_empty() {
        let expected = Agreement::of(&first.outcome);
        if let Some((index, other)) = others.iter().find(|(_, other)| Agreement::of(&other.outcome) != expected) {
            let mut finding = Finding::new(codes::agent::TXT_DISAGREE)
                .message("two sources of TXT records disagree about the agent")
                .expected(format!("as from {}", first.source.chars().take(MAX_SOURCE_CHARS).collect::<String>()))
                .got(&other.source);
            finding.pointer = format!("/txt/{index}");
            return rejected(Stage::Txt, AgentState::Ambiguous, finding, findings);
        }
    }
    // Prefer a source that knows the name to one that does not.
    let (index, chosen) = usable
        .iter()
        .copied()
        .find(|(_, answer)| matches!(answer.outcome, TxtLookup::Records(_)))
        .or_else(|| usable.iter().copied().find(|(_, answer)| answer.outcome == TxtLookup::NoRecords))
        .unwrap_or((first_index, first));
    match &chosen.outcome {
        TxtLookup::Records(records) => read_records(index, records, findings),
        TxtLookup::NotFound => rejected(Stage::Txt, AgentState::NotFound, Finding::new(codes::agent::NOT_FOUND), findings),
        _ => rejected(Stage::Txt, AgentState::NotAnAgent, Finding::new(codes::agent::NOT_AN_AGENT), findings),
    }
}

/// Why a response is not used.
fn unusable(answer: &TxtAnswer, policy: &AgentPolicy) -> Option<Finding> {
    if let TxtLookup::Failed { code, message } = &answer.outcome {
        return Some(Finding::new(codes::agent::TXT_UNANSWERED).got(format!("{}: {message} ({code})", answer.source)));
    }
    let is_refused = answer.dnssec == Dnssec::Bogus || (policy.require_dnssec && answer.dnssec != Dnssec::Secure);
    is_refused.then(|| {
        let word = match answer.dnssec {
            Dnssec::Unchecked => "not validated",
            Dnssec::Insecure => "not signed",
            Dnssec::Bogus => "wrong signatures",
            Dnssec::Secure => "secure",
        };
        Finding::new(codes::agent::TXT_NOT_SECURE)
            .severity(Severity::Warning)
            .expected("secure")
            .got(format!("{}: {word}", answer.source))
    })
}

fn read_records(index: usize, records: &[Bytes], mut findings: Vec<Finding>) -> TxtReading {
    let reading = parse_records(records);
    let placed = reading.findings.into_iter().map(|mut finding| {
        finding.pointer = format!("/txt/{index}/outcome/records{}", finding.pointer);
        finding
    });
    match reading.outcome {
        TxtOutcome::Pointer(cid) => {
            findings.extend(placed);
            TxtReading { result: TxtResult::Pointer(cid), decisive: None, findings }
        }
        TxtOutcome::Legacy(agent) => {
            findings.extend(placed);
            TxtReading { result: TxtResult::Legacy(agent), decisive: None, findings }
        }
        TxtOutcome::NotAnAgent => {
            findings.extend(placed);
            let decisive = Some(Finding::new(codes::agent::NOT_AN_AGENT));
            TxtReading { result: TxtResult::Rejected(Stage::Txt, AgentState::NotAnAgent), decisive, findings }
        }
        TxtOutcome::Refused => {
            let mut placed: Vec<Finding> = placed.collect();
            // Several pointers are an error even if one of them is invalid too, because the intended one is unknown.
            let is_ambiguous =
                |finding: &Finding| [codes::agent::POINTER_AMBIGUOUS, codes::agent::TXT_TOO_MUCH].contains(&finding.code);
            let is_error = |finding: &Finding| finding.severity == Severity::Error;
            let at = placed.iter().position(is_ambiguous).or_else(|| placed.iter().position(is_error));
            let decisive = at.map(|at| placed.remove(at)).unwrap_or_else(|| Finding::new(codes::agent::POINTER_CID));
            let state = if is_ambiguous(&decisive) { AgentState::Ambiguous } else { AgentState::InvalidCid };
            findings.extend(placed);
            TxtReading { result: TxtResult::Rejected(Stage::Pointer, state), decisive: Some(decisive), findings }
        }
    }
}

/// What sources must agree on: what the agent records of a name point to, in any order and with any quotes. Other records
/// may differ.
#[derive(Debug, PartialEq, Eq)]
enum Agreement {
    /// No agent records: the name has none, or does not exist in this source.
    Nothing,
    /// These.
    Agent(Box<TxtOutcome>),
}

impl Agreement {
    fn of(lookup: &TxtLookup) -> Self {
        let TxtLookup::Records(records) = lookup else { return Self::Nothing };
        let mut sorted: Vec<&[u8]> = records.iter().map(|record| unquoted(record)).collect();
        sorted.sort_unstable();
        sorted.dedup();
        match parse_records(&sorted).outcome {
            TxtOutcome::NotAnAgent => Self::Nothing,
            outcome => Self::Agent(Box::new(outcome)),
        }
    }
}

/// Removes one outer pair of quotes, like the record parser.
fn unquoted(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\"").and_then(|inner| inner.strip_suffix(b"\"")).unwrap_or(bytes)
}

/// Maximum number of characters of a source's name in a message.
const MAX_SOURCE_CHARS: usize = 100;
