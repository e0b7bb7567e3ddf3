//! The verdict on a live probe: an endpoint's response to a call without payment, compared with its manifest.
//!
//! Pure: the caller sends a POST, and a GET if that returned 404 or 405, and passes the responses in. Nothing is signed and nothing is
//! paid.

use alloy_primitives::Address;
use serde::Serialize;
use toolcrib_core::codes::probe as code;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_core::tool::{Price, ToolManifest};

use super::{Challenge, ChallengeReading, Method, PROTOCOL, ProbeAnswer, Version, compare, read_answer};

/// The manifest's and the chain's statements about calling a tool.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'m> {
    /// The prices of the manifest; empty if it states none.
    pub pricing: &'m [Price],
    /// Whether callers must prove their identity: the manifest has `access`, or the registry a predicate.
    pub is_gated: bool,
    /// The publisher of the tool.
    pub creator: Option<Address>,
}

impl<'m> Subject<'m> {
    /// The statements of the manifest alone.
    pub fn of(manifest: &'m ToolManifest) -> Self {
        Self { pricing: manifest.pricing(), is_gated: manifest.access().is_some(), creator: Some(manifest.creator()) }
    }

    /// Whether a caller without a wallet may expect to be served.
    fn is_open(&self) -> bool {
        !self.is_gated && !self.is_paid()
    }

    fn is_paid(&self) -> bool {
        // Any free entry makes calls free for callers that choose it.
        !self.pricing.is_empty() && self.pricing.iter().all(|price| !price.amount.is_zero())
    }
}

/// How an endpoint responded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProbeState {
    /// There was no response.
    NoAnswer,
    /// The endpoint is missing, or does not support these methods.
    Missing,
    /// It redirects.
    Redirects,
    /// It returns a server error.
    Fails,
    /// It rejects the call without a challenge.
    Refuses,
    /// It asks for payment or proof of identity.
    Challenges,
    /// It serves without payment.
    Serves,
}

/// An offer, for display and as data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AskedPrice {
    /// The scheme.
    pub scheme: String,
    /// The chain in CAIP-2.
    pub network: String,
    /// The token.
    pub asset: String,
    /// The amount in the token's smallest unit.
    pub amount: String,
    /// The amount with decimals and symbol, if the token is known.
    pub shown: String,
    /// The recipient.
    pub pay_to: String,
}

/// The result of a probe.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ProbeReport {
    /// How the endpoint responded.
    pub state: ProbeState,
    /// The method of the response that counts.
    pub method: Option<Method>,
    /// The status of that response.
    pub status: Option<u16>,
    /// The versions of the challenge.
    pub versions: Vec<Version>,
    /// The offers of the endpoint.
    pub asks: Vec<AskedPrice>,
    /// Whether the offers match the manifest. `None` if there was no challenge to compare.
    pub agrees: Option<bool>,
    /// All findings. Pointers that start with `/pricing` are those of the manifest.
    pub findings: Vec<Finding>,
}

impl ProbeReport {
    /// Whether no finding is an error.
    pub fn is_good(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity != Severity::Error)
    }

    /// Whether a finding with this code is present.
    pub fn has(&self, code: toolcrib_core::codes::Code) -> bool {
        self.findings.iter().any(|finding| finding.code == code)
    }
}

/// Judges the responses to a probe: to a POST, and to a GET if there was one.
pub fn judge_probe(answers: &[ProbeAnswer], subject: &Subject<'_>) -> ProbeReport {
    let mut report = ProbeReport {
        state: ProbeState::NoAnswer,
        method: None,
        status: None,
        versions: Vec::new(),
        asks: Vec::new(),
        agrees: None,
        findings: Vec::new(),
    };
    let by = |method| answers.iter().find(move |answer| answer.method == method);
    let answer = match (by(Method::Post), by(Method::Get)) {
        (Some(post), Some(get)) if is_absent(post.status) && is_at_home(get) => {
            // Some tools are called with GET. They work only for callers that know this.
            report.findings.push(
                absence(post)
                    .severity(Severity::Warning)
                    .message(format!("POST returns {}, GET returns {}", post.status, get.status)),
            );
            get
        }
        (Some(answer), _) | (None, Some(answer)) => answer,
        (None, None) => {
            report.findings.push(Finding::new(code::NO_ANSWER));
            return report;
        }
    };
    report.method = Some(answer.method);
    report.status = Some(answer.status);
    let reading = read_answer(answer);
    report.state = judge_status(answer, &reading, subject, &mut report.findings);
    report.findings.extend(reading.all_findings());
    report.versions = reading.versions();
    if let Some(challenge) = reading.challenge() {
        report.asks = challenge.accepts.iter().map(asked).collect();
        let differences = compare(challenge, subject.pricing);
        report.agrees = Some(differences.is_empty());
        report.findings.extend(differences);
        judge_proof(challenge, subject, &mut report.findings);
    }
    report
}

fn judge_status(
    answer: &ProbeAnswer,
    reading: &ChallengeReading,
    subject: &Subject<'_>,
    findings: &mut Vec<Finding>,
) -> ProbeState {
    let status = answer.status;
    let got = format!("{status} to {}", answer.method.as_str());
    match status {
        // The reading has the findings about the challenge, and about a missing one.
        402 => ProbeState::Challenges,
        200..=299 => {
            if !subject.is_open() {
                let what = if subject.is_paid() { "a price" } else { "an access rule" };
                let finding = Finding::new(code::UNEXPECTED_SUCCESS);
                let message = format!("the manifest states {what}, but the endpoint serves without asking for it");
                findings.push(finding.message(message).expected("402").got(got));
            }
            if status != 204 && !answer.is_json() && reading.body.is_none() {
                let finding = Finding::new(code::WRONG_CONTENT_TYPE).expected("application/json");
                findings.push(finding.got(answer.shown_content_type()));
            }
            ProbeState::Serves
        }
        300..=399 => {
            let target = answer.header("location").next().unwrap_or("nowhere");
            findings.push(Finding::new(code::REDIRECT).got(format!("{status} to {target}")));
            ProbeState::Redirects
        }
        status if is_absent(status) => {
            findings.push(absence(answer));
            ProbeState::Missing
        }
        401 | 403 if !subject.is_open() => {
            findings.push(Finding::new(code::NO_CHALLENGE).expected("402 with a challenge").got(got));
            ProbeState::Refuses
        }
        500..=599 => {
            findings.push(Finding::new(code::SERVER_ERROR).got(got));
            ProbeState::Fails
        }
        _ => {
            // An open tool may reject an empty input.
            let is_expected = subject.is_open() && matches!(status, 400 | 422);
            let severity = if is_expected { Severity::Hint } else { Severity::Warning };
            findings.push(Finding::new(code::REFUSED).severity(severity).got(got));
            ProbeState::Refuses
        }
    }
}

/// Checks the proof of identity if the manifest's prices do not mention it.
fn judge_proof(challenge: &Challenge, subject: &Subject<'_>, findings: &mut Vec<Finding>) {
    if subject.pricing.iter().any(|price| price.protocol == PROTOCOL) {
        return;
    }
    let mut proofs = challenge.accepts.iter().filter(|offer| offer.amount.is_zero()).peekable();
    if proofs.peek().is_none() {
        return;
    }
    if subject.pricing.is_empty() && !subject.is_gated {
        findings.push(Finding::new(code::NEEDLESS_CHALLENGE));
    }
    let is_stated = |payee: Option<Address>| payee.is_some() && payee == subject.creator;
    if let Some(offer) = proofs.find(|offer| !is_stated(offer.pay_to.evm_address())) {
        let mut finding = Finding::new(code::OPERATOR_UNSTATED).got(offer.pay_to.as_str());
        if let Some(creator) = subject.creator {
            finding = finding.expected(creator.to_checksum(None));
        }
        findings.push(finding);
    }
}

/// Whether a status means that there is nothing for this method.
const fn is_absent(status: u16) -> bool {
    matches!(status, 404 | 405 | 410 | 501)
}

/// Whether a response to GET comes from the tool: a challenge, or JSON. A web page does not.
fn is_at_home(answer: &ProbeAnswer) -> bool {
    answer.status == 402 || (matches!(answer.status, 200..=299 | 400 | 401 | 403 | 422) && answer.is_json())
}

/// The finding about a status for which [`is_absent`] holds.
fn absence(answer: &ProbeAnswer) -> Finding {
    let got = format!("{} to {}", answer.status, answer.method.as_str());
    match answer.status {
        405 | 501 => {
            let allowed: Vec<_> = answer.header("allow").collect();
            let finding = Finding::new(code::METHOD_NOT_ALLOWED).expected("POST");
            if allowed.is_empty() { finding.got(got) } else { finding.got(format!("{got}, allowed: {}", allowed.join(", "))) }
        }
        _ => Finding::new(code::NOT_FOUND).got(got),
    }
}

fn asked(offer: &super::Offer) -> AskedPrice {
    AskedPrice {
        scheme: offer.scheme.clone(),
        network: offer.network.to_string(),
        asset: offer.asset.to_string(),
        amount: offer.amount.to_string(),
        shown: offer.shown_amount(),
        pay_to: offer.pay_to.to_string(),
    }
}

#[cfg(test)]
mod tests;
