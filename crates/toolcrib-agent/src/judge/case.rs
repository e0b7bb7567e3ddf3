//! A report in progress.

use toolcrib_core::agent::AgentManifest;
use toolcrib_core::agent::txt::LegacyAgent;
use toolcrib_core::canon::Sealed;
use toolcrib_core::codes::Code;
use toolcrib_core::finding::{Finding, Findings, Severity};
use toolcrib_core::text::escape_for_display;
use toolcrib_judge::Check;

use super::Judgement;
use crate::report::{AgentReport, AgentState, Failed, Stage, Step};

/// A report in progress. Parts are judged in the order of [`Stage`], so the first failure decides.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) report: AgentReport,
    deciding: Option<Finding>,
    findings: Findings,
}

impl Case {
    pub(super) fn new(domain: &str) -> Self {
        let steps = std::array::from_fn(|at| Step { number: at as u8 + 1, check: Check::NotReached, code: None });
        let report = AgentReport {
            // Third-party evidence may have any text here; a parsed name has nothing to escape.
            domain: escape_for_display(&domain.chars().take(MAX_DOMAIN_CHARS).collect::<String>()),
            state: AgentState::Manifest,
            verified: false,
            conformant: false,
            legacy: false,
            source: None,
            failed: None,
            steps,
            findings: Vec::new(),
            content: None,
            created_at: None,
            token_id: None,
            owner: None,
            holder: None,
            signed_by: None,
            gathered_at: None,
            chain_id: None,
            block: None,
            about: None,
            claims: None,
        };
        Self { report, deciding: None, findings: Findings::new() }
    }

    /// Adds a finding that does not affect the verdict.
    pub(super) fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Records a failure. The first one decides. Its step is marked as failed, or as not reached if the result is unknown.
    pub(super) fn fail(&mut self, stage: Stage, step: Option<u8>, state: AgentState, finding: Finding) {
        let code = finding.code;
        if let Some(step) = step {
            let check = if state == AgentState::Unreachable { Check::NotReached } else { Check::Failed };
            self.mark(step, check, Some(code));
        }
        if self.deciding.is_none() {
            self.report.state = state;
            self.report.failed = Some(Failed { stage, step, code });
            self.deciding = Some(finding.severity(Severity::Error));
        } else {
            self.findings.push(finding);
        }
    }

    /// Marks a step as passed.
    pub(super) fn pass(&mut self, step: u8) {
        self.mark(step, Check::Passed, None);
    }

    pub(super) const fn has_failed(&self) -> bool {
        self.report.failed.is_some()
    }

    /// Whether nothing failed and all eight steps passed.
    pub(super) fn is_verified(&self) -> bool {
        !self.has_failed() && self.report.steps.iter().all(|step| step.check == Check::Passed)
    }

    pub(super) fn finish(self, manifest: Option<Sealed<AgentManifest>>, legacy: Option<LegacyAgent>) -> Judgement {
        let Self { mut report, deciding, findings } = self;
        let mut rest = findings.into_sorted();
        if let Some(deciding) = deciding {
            // The document's deciding finding is among the others too.
            rest.retain(|finding| *finding != deciding);
            report.findings.push(deciding);
        }
        report.findings.append(&mut rest);
        Judgement { report, manifest, legacy }
    }

    fn mark(&mut self, step: u8, check: Check, code: Option<Code>) {
        if let Some(slot) = self.report.steps.iter_mut().find(|slot| slot.number == step) {
            (slot.check, slot.code) = (check, code);
        }
    }
}

/// Maximum number of characters of an invalid domain.
const MAX_DOMAIN_CHARS: usize = 300;
