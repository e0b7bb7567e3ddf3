//! Attestation reports: is a claim about isolated hardware verified, or only claimed?
//!
//! A manifest may claim that its tool runs in a trusted execution environment and name an endpoint for reports. [`verify`] judges one such
//! report, given its bytes, the claim, a [`Policy`] and the time; [`effective_tier`] returns what remains of the declared trust. The caller
//! fetches the report.
//!
//! AWS Nitro documents are verified: the signature, the certificates up to a root that the user pinned, the age, the nonce if one was sent,
//! and the measurement. **`enclaveHash` is compared with PCR0**, the SHA-384 measurement of the enclave image, as ERC-8257 §5 suggests;
//! other registers are reported and not compared. Reports of any other type are never verified here and always result in
//! [`Attested::Claimed`].
//!
//! Even a verified report leaves open whether the tool's endpoint is served by the enclave that made the report (nothing in ERC-8257 ties
//! the two together), what the enclave sends to others, whether its platform was revoked since, and whether the report is in the
//! transparency log of the manifest.

mod body;
mod log;
mod nitro;
mod policy;
mod x509;

#[cfg(test)]
mod forge;
#[cfg(test)]
mod genuine;
#[cfg(test)]
mod tests;

pub use body::MAX_BODY_BYTES;
pub use nitro::MAX_PAYLOAD_BYTES;
pub use policy::{AWS_NITRO_ROOT_G1, MAX_AHEAD, Policy, Root, RootFault};
use serde::{Serialize, Serializer};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_core::hex::{self, Hex};
use toolcrib_core::tool::{Attestation, Execution, Tier, Verifiability};

/// The protocol whose reports are verified, as written in manifests.
pub const NITRO: &str = "nitro";

/// The response of an attestation endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The body, as fetched.
    pub body: &'a [u8],
    /// The declared content type. It has no influence.
    pub content_type: Option<&'a str>,
}

/// The claim of the manifest.
#[derive(Clone, Copy, Debug, Default)]
pub struct Claim<'a> {
    /// `type`: the protocol.
    pub protocol: &'a str,
    /// `enclaveHash`: the expected measurement in hex.
    pub enclave_hash: Option<&'a str>,
    /// `maxAge` in seconds.
    pub max_age: Option<u64>,
    /// `transparencyLogURI`.
    pub transparency_log: Option<&'a str>,
    /// `endpoint`: the URL of reports.
    pub endpoint: Option<&'a str>,
    /// The endpoint of the tool itself, which belongs to the same operator.
    pub tool_endpoint: Option<&'a str>,
}

impl<'a> Claim<'a> {
    /// The claim of a manifest whose tool is at `tool_endpoint`.
    pub fn of(attestation: Attestation<'a>, tool_endpoint: &'a str) -> Self {
        Self {
            protocol: attestation.protocol().unwrap_or_default(),
            enclave_hash: attestation.enclave_hash(),
            max_age: attestation.max_age(),
            transparency_log: attestation.transparency_log(),
            endpoint: attestation.endpoint(),
            tool_endpoint: Some(tool_endpoint),
        }
    }
}

/// The result for a report. It is serialised for reports and never deserialised, so that a file cannot claim to be verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Attested {
    /// The report is genuine and fresh, and matches the manifest.
    Verified(Verified),
    /// Nothing contradicts the report, but nothing was proven.
    Claimed(Claimed),
    /// The report is invalid.
    Refused(Refused),
}

/// What a verified report proves. Only [`verify`] creates it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Verified {
    /// The protocol.
    pub protocol: &'static str,
    /// The module that made the report. Text from the report: escape it before showing it.
    pub module: String,
    /// The creation time of the report.
    #[serde(serialize_with = "seconds")]
    pub made: UnixTime,
    /// The greatest age at which it is accepted, in seconds.
    pub max_age: u64,
    /// The measurements, by name.
    pub measurements: Vec<Measurement>,
    /// Whether the manifest names a measurement, which then matches the report.
    pub measurement_pinned: bool,
    /// Whether a nonce was sent and is in the report.
    pub nonce_checked: bool,
    /// A key that the enclave put in the report: `0x` and hex.
    pub public_key: Option<String>,
    /// Data that the enclave put in the report: `0x` and hex.
    pub user_data: Option<String>,
    /// The certificates, from the pinned root down to the certificate of the module.
    pub chain: Vec<Signer>,
    /// Warnings and hints.
    pub findings: Vec<Finding>,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Measurement {
    /// The name, such as `PCR0`.
    pub name: String,
    /// The value: `0x` and lowercase hex, as in manifests.
    pub value: String,
}

/// A certificate of the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Signer {
    /// The subject. Text from a certificate: escape it before showing it.
    pub subject: String,
    /// Its SHA-256 fingerprint: `0x` and lowercase hex.
    pub sha256: String,
    /// The start of its validity.
    #[serde(serialize_with = "seconds")]
    pub not_before: UnixTime,
    /// The end of its validity.
    #[serde(serialize_with = "seconds")]
    pub not_after: UnixTime,
}

/// A report that remains a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Claimed {
    /// Why it was not verified.
    pub why: &'static str,
    /// Warnings and hints, including the reason.
    pub findings: Vec<Finding>,
}

/// A report that was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// The findings; at least one is an error.
    pub findings: Vec<Finding>,
}

impl Attested {
    /// What the report proves, if it was verified.
    pub const fn verified(&self) -> Option<&Verified> {
        match self {
            Self::Verified(verified) => Some(verified),
            _ => None,
        }
    }

    /// All findings.
    pub fn findings(&self) -> &[Finding] {
        match self {
            Self::Verified(verified) => &verified.findings,
            Self::Claimed(claimed) => &claimed.findings,
            Self::Refused(refused) => &refused.findings,
        }
    }

    /// The name in reports: `verified`, `claimed` or `refused`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Verified(_) => "verified",
            Self::Claimed(_) => "claimed",
            Self::Refused(_) => "refused",
        }
    }

    fn of(outcome: Result<Self, Vec<Finding>>, more: Vec<Finding>) -> Self {
        let mut attested = outcome.unwrap_or_else(|findings| Self::Refused(Refused { findings }));
        match &mut attested {
            Self::Verified(Verified { findings, .. })
            | Self::Claimed(Claimed { findings, .. })
            | Self::Refused(Refused { findings }) => {
                findings.extend(more);
            }
        }
        attested
    }
}

/// Judges a report.
///
/// Pass a `nonce` only if one was sent and must be in the report: ERC-8257 defines no parameter for it, so endpoints that do not support
/// ours respond without.
pub fn verify(report: &Report<'_>, claim: &Claim<'_>, policy: &Policy, now: UnixTime, nonce: Option<&[u8]>) -> Attested {
    let outcome = if claim.protocol == NITRO {
        verify_nitro(report, claim, policy, now, nonce)
    } else {
        let finding = Finding::new(codes::attestation::UNVERIFIED_CLAIM).expected(NITRO).got(claim.protocol);
        Ok(Attested::Claimed(Claimed { why: "format not verified", findings: vec![pointed(finding, "type")] }))
    };
    Attested::of(outcome, log::check(claim))
}

fn verify_nitro(
    report: &Report<'_>,
    claim: &Claim<'_>,
    policy: &Policy,
    now: UnixTime,
    nonce: Option<&[u8]>,
) -> Result<Attested, Vec<Finding>> {
    let bytes = body::document(report).map_err(|finding| vec![*finding])?;
    let document = nitro::Document::parse(&bytes).map_err(|finding| vec![*finding])?;
    let max_age = policy.max_age(claim.max_age);
    let mut findings = Vec::new();
    findings.extend(check_age(document.time(), now, max_age));
    if nonce.is_some() && document.fields.nonce != nonce {
        let got = document.fields.nonce.map_or_else(|| "no nonce".to_owned(), lower_hex);
        findings.push(Finding::new(codes::attestation::NONCE).expected(nonce.map(lower_hex).unwrap_or_default()).got(got));
    }
    findings.extend(check_measurement(&document, claim.enclave_hash));
    let signed = if policy.nitro_roots.is_empty() { None } else { Some(document.check_signature(policy, now)) };
    let chain = match signed {
        Some(Ok(chain)) => Some(chain),
        Some(Err(faults)) => {
            findings.extend(faults);
            None
        }
        None => {
            findings.push(Finding::new(codes::attestation::NO_PINNED_ROOT));
            None
        }
    };
    if findings.iter().any(|finding| finding.severity == Severity::Error) {
        return Err(findings);
    }
    let Some(chain) = chain else { return Ok(Attested::Claimed(Claimed { why: "no root certificate is pinned", findings })) };
    let fields = &document.fields;
    Ok(Attested::Verified(Verified {
        protocol: NITRO,
        module: fields.module_id.to_owned(),
        made: document.time(),
        max_age,
        measurements: document.measurements(),
        measurement_pinned: claim.enclave_hash.is_some(),
        nonce_checked: nonce.is_some(),
        public_key: fields.public_key.map(lower_hex),
        user_data: fields.user_data.map(lower_hex),
        chain,
        findings,
    }))
}

/// A report may be exactly `max_age` old, and exactly [`MAX_AHEAD`] ahead.
fn check_age(made: UnixTime, now: UnixTime, max_age: u64) -> Option<Finding> {
    let age = now.since(made);
    if age < -MAX_AHEAD {
        let ahead = age.unsigned_abs();
        return Some(
            Finding::new(codes::attestation::FUTURE)
                .expected(format!("at most {MAX_AHEAD} s ahead"))
                .got(format!("{ahead} s ahead")),
        );
    }
    if u64::try_from(age).is_ok_and(|age| age > max_age) {
        let finding =
            Finding::new(codes::attestation::STALE).expected(format!("at most {max_age} s old")).got(format!("{age} s old"));
        return Some(pointed(finding, "maxAge"));
    }
    None
}

fn check_measurement(document: &nitro::Document<'_>, enclave_hash: Option<&str>) -> Option<Finding> {
    let image = document.image();
    if image.iter().all(|&byte| byte == 0) {
        return Some(Finding::new(codes::attestation::DEBUG_MODE));
    }
    let Some(claimed) = enclave_hash else { return Some(pointed(Finding::new(codes::attestation::NOT_PINNED), "enclaveHash")) };
    let expected = match Hex::of(claimed) {
        Hex::Lower(digits) => hex::decode(digits),
        _ => None,
    };
    (expected.as_deref() != Some(image))
        .then(|| pointed(Finding::new(codes::attestation::MEASUREMENT).expected(lower_hex(image)).got(claimed), "enclaveHash"))
}

/// The trust in a tool's environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effective {
    /// The tier that the author declares.
    pub declared: Tier,
    /// The tier that the manifest's fields support: a claim.
    pub claimed: Tier,
    /// The tier to use for decisions: more than self-attested only with a verified report.
    pub tier: Tier,
    /// The environment to use for decisions: standard without a verified report.
    pub execution: Execution,
}

/// Returns what remains of the declared trust, given the result for the report; `None` if no report was fetched.
///
/// Without a verified report every claim counts as self-attested on ordinary servers (ERC-8257, Verifiability Trust Model). With one, the
/// lower of the declared and the supported tier counts, and `verifiable` also needs an `enclaveHash`: a rebuilt image that is compared with
/// nothing verifies nothing.
pub fn effective_tier(claims: Verifiability<'_>, attested: Option<&Attested>) -> Effective {
    let (declared, claimed) = (claims.declared_tier(), claims.effective_tier());
    let (tier, execution) = match attested.and_then(Attested::verified) {
        None => (Tier::SelfAttested, Execution::Standard),
        Some(Verified { measurement_pinned: true, .. }) => (claimed, claims.execution()),
        Some(_) => (claimed.min(Tier::HardwareAttested), claims.execution()),
    };
    Effective { declared, claimed, tier, execution }
}

/// Points a finding at a field of the manifest's `attestation`.
fn pointed(mut finding: Finding, field: &str) -> Finding {
    finding.pointer = format!("/verifiability/attestation/{field}");
    finding
}

/// `0x` and lowercase digits.
fn lower_hex(bytes: &[u8]) -> String {
    alloy_primitives::hex::encode_prefixed(bytes)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
fn seconds<S: Serializer>(time: &UnixTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(time.seconds())
}
