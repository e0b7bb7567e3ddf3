//! An HTTP response to a probe, and the challenges in it.

use serde::Serialize;
use toolcrib_core::codes::{probe, x402 as code};
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_core::json::{self, Limits};

use super::{Challenge, EXACT, MAX_BODY_BYTES, Offer, Reading, Version, header, network, read_body, read_header};

/// A method that a probe uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// The method with which tools are called.
    Post,
    /// The method with which a few tools are called nevertheless.
    Get,
}

impl Method {
    /// The method in a request line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Get => "GET",
        }
    }
}

/// The response to one request without payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeAnswer {
    /// The method of the request.
    pub method: Method,
    /// The status code.
    pub status: u16,
    /// Names and values in the order of arrival, including duplicates. Bytes that are not UTF-8 may be replaced: no relevant header has
    /// any.
    pub headers: Vec<(String, String)>,
    /// The body; the fetcher limits its size.
    pub body: Vec<u8>,
}

impl ProbeAnswer {
    /// The values of a header, without surrounding whitespace.
    pub fn header<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let same = move |(other, _): &&(String, String)| other.eq_ignore_ascii_case(name);
        self.headers.iter().filter(same).map(|(_, value)| value.trim_matches([' ', '\t']))
    }

    /// Whether the content type is JSON.
    pub fn is_json(&self) -> bool {
        self.header("content-type").next().is_some_and(|value| {
            let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
        })
    }

    /// The content type, for a finding.
    pub(super) fn shown_content_type(&self) -> &str {
        self.header("content-type").next().unwrap_or("no Content-Type")
    }
}

/// The challenges of a response, and the findings about them.
#[derive(Clone, Debug)]
pub struct ChallengeReading {
    /// The challenge in the `PAYMENT-REQUIRED` header.
    pub header: Option<Reading>,
    /// The challenge in the body, if the body is meant as one.
    pub body: Option<Reading>,
    /// Findings about the whole response. Those about each challenge are in its reading.
    pub findings: Vec<Finding>,
}

impl ChallengeReading {
    /// The versions whose challenge is where clients expect it.
    pub fn versions(&self) -> Vec<Version> {
        let mut versions = Vec::new();
        versions.extend(challenge(self.body.as_ref(), Version::V1).map(|challenge| challenge.version));
        versions.extend(challenge(self.header.as_ref(), Version::V2).map(|challenge| challenge.version));
        versions
    }

    /// The challenge that counts: current clients prefer the header.
    pub fn challenge(&self) -> Option<&Challenge> {
        let of = |reading: &'_ Option<Reading>| reading.as_ref().is_some_and(|reading| reading.challenge.is_some());
        let reading = if of(&self.header) { &self.header } else { &self.body };
        reading.as_ref()?.challenge.as_ref()
    }

    /// All findings in one list. Messages about a challenge say where it was, and lose their spans: there is no file that a user could
    /// open.
    pub fn all_findings(&self) -> Vec<Finding> {
        let mut all = self.findings.clone();
        for (place, reading) in [("PAYMENT-REQUIRED header", &self.header), ("402 body", &self.body)] {
            for finding in reading.iter().flat_map(|reading| &reading.findings) {
                let mut finding = finding.clone().message(format!("{place}: {}", finding.message));
                finding.span = None;
                finding.fix = None;
                all.push(finding);
            }
        }
        all
    }
}

/// Reads the challenges of a response.
pub fn read_answer(answer: &ProbeAnswer) -> ChallengeReading {
    let mut findings = Vec::new();
    let header = header_reading(answer, &mut findings);
    let mut body = body_reading(answer, header.is_some());
    if let (None, Some(body)) = (&header, &mut body) {
        // Without a header, clients do not find it in the body.
        let misplaced = body.findings.iter_mut().filter(|finding| finding.code == code::V2_IN_BODY);
        misplaced.for_each(|finding| finding.severity = Severity::Error);
    }
    let there = header.is_some() || body.is_some();
    if there && answer.status != 402 {
        findings.push(Finding::new(code::STATUS).expected("402").got(answer.status.to_string()));
    }
    if answer.status == 402 {
        if !there {
            findings.push(Finding::new(probe::NO_CHALLENGE).got(format!("402 with {}", answer.shown_content_type())));
        } else if body.is_some() && !answer.is_json() {
            let finding = Finding::new(probe::WRONG_CONTENT_TYPE).expected("application/json");
            findings.push(finding.got(answer.shown_content_type()));
        }
        versions(header.as_ref(), body.as_ref(), &mut findings);
    }
    ChallengeReading { header, body, findings }
}

fn header_reading(answer: &ProbeAnswer, findings: &mut Vec<Finding>) -> Option<Reading> {
    let mut values = answer.header(header::PAYMENT_REQUIRED);
    if let Some(value) = values.next() {
        let more = values.count();
        if more > 0 {
            findings.push(Finding::new(code::HEADER_TWICE).expected("once").got(format!("{} times", more + 1)));
        }
        return Some(read_header(value));
    }
    let value = answer.header(header::X_PAYMENT_REQUIRED).next()?;
    findings.push(Finding::new(code::HEADER_NAME).expected(header::PAYMENT_REQUIRED).got(header::X_PAYMENT_REQUIRED));
    Some(read_header(value))
}

/// Reads the body if it is meant as a challenge. Servers that send version 2 in the header put anything into the body, and with another
/// status the body is the tool's output.
fn body_reading(answer: &ProbeAnswer, has_header: bool) -> Option<Reading> {
    let limits = Limits { max_bytes: MAX_BODY_BYTES, max_depth: json::MAX_DEPTH };
    let document = json::read(&answer.body, limits).document;
    let has = |key| document.as_ref().is_some_and(|document| document.root().get(key).is_some());
    let looks_like_json = || answer.body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let is_meant = match answer.status {
        402 if has_header => has("accepts") || has("x402Version"),
        402 => has("accepts") || has("x402Version") || (document.is_none() && looks_like_json()),
        _ => has("accepts") && has("x402Version"),
    };
    is_meant.then(|| read_body(&answer.body))
}

/// Checks which versions are present, and whether they agree.
fn versions(header: Option<&Reading>, body: Option<&Reading>, findings: &mut Vec<Finding>) {
    match (challenge(body, Version::V1), challenge(header, Version::V2)) {
        (Some(v1), Some(v2)) => disagreements(v1, v2, findings),
        (None, Some(v2)) => {
            let is_stock = |offer: &Offer| network::by_chain(&offer.network).is_some_and(|network| network.is_stock);
            if v2.accepts.iter().any(|offer| offer.scheme == EXACT && is_stock(offer)) {
                findings.push(Finding::new(code::V1_MISSING));
            }
        }
        (Some(_), None) if header.is_none() => findings.push(Finding::new(code::V2_MISSING)),
        _ => {}
    }
}

/// Returns the challenge of a version if it is where clients of that version expect it.
fn challenge(reading: Option<&Reading>, version: Version) -> Option<&Challenge> {
    reading?.challenge.as_ref().filter(|challenge| challenge.version == version)
}

/// Version 1 cannot express everything that version 2 can, so it may offer less, but nothing else.
fn disagreements(v1: &Challenge, v2: &Challenge, findings: &mut Vec<Finding>) {
    for (at, offer) in v1.accepts.iter().enumerate() {
        if v2.accepts.iter().any(|other| other.is_same_demand(offer)) {
            continue;
        }
        let alike = |other: &&Offer| other.network == offer.network && other.asset.is(&offer.asset);
        let finding = Finding::new(code::VERSIONS_DISAGREE);
        let Some(other) = v2.accepts.iter().find(alike) else {
            let what = format!("{} of {} on {}", offer.shown_amount(), offer.asset, offer.network);
            findings.push(finding.message(format!("offer {at} of version 1 is not in version 2")).got(what));
            continue;
        };
        if other.amount != offer.amount {
            let finding = finding.clone().message(format!("offer {at} has another amount in version 1"));
            findings.push(finding.expected(other.shown_amount()).got(offer.shown_amount()));
        }
        if !other.pay_to.is(&offer.pay_to) {
            let finding = finding.clone().message(format!("offer {at} has another payTo in version 1"));
            findings.push(finding.expected(other.pay_to.as_str()).got(offer.pay_to.as_str()));
        }
        if other.scheme != offer.scheme {
            let finding = finding.message(format!("offer {at} has another scheme in version 1"));
            findings.push(finding.expected(other.scheme.as_str()).got(&offer.scheme));
        }
    }
}
