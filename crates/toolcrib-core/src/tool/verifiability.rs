//! `verifiability`: the author's claims about the execution environment, and how far the fields support them.

use super::access::hex_field;
use super::extensions::check_subfields;
use super::identity::{check_description, required_string};
use crate::checked::Context;
use crate::codes;
use crate::finding::{Finding, Severity};
use crate::json::{Object, Value};
use crate::url::{self, HttpsUrl};

/// How far the claims of a manifest can be verified, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Claims that are based on trust only.
    SelfAttested,
    /// Isolated hardware with a verifiable report.
    HardwareAttested,
    /// The same, and the binary can be rebuilt from its source.
    Verifiable,
}

impl Tier {
    /// The value in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SelfAttested => "self-attested",
            Self::HardwareAttested => "hardware-attested",
            Self::Verifiable => "verifiable",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::SelfAttested, Self::HardwareAttested, Self::Verifiable].into_iter().find(|tier| tier.as_str() == text)
    }
}

/// The execution environment, as far as trust decisions need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Execution {
    /// Ordinary servers, and every unknown environment.
    Standard,
    /// A trusted execution environment.
    Tee,
    /// Inputs are encrypted for a trusted execution environment.
    E2ee,
}

impl Execution {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "standard" => Some(Self::Standard),
            "tee" => Some(Self::Tee),
            "e2ee" => Some(Self::E2ee),
            _ => None,
        }
    }

    /// Whether the author claims more than an ordinary server.
    pub const fn is_isolated(self) -> bool {
        matches!(self, Self::Tee | Self::E2ee)
    }
}

/// The verifiability block of a manifest.
#[derive(Clone, Copy, Debug)]
pub struct Verifiability<'d>(Object<'d>);

impl<'d> Verifiability<'d> {
    pub(super) fn of(value: Value<'d>) -> Option<Self> {
        value.as_object().map(Self)
    }

    /// The declared tier; unknown values count as self-attested.
    pub fn declared_tier(self) -> Tier {
        self.text("tier").and_then(Tier::parse).unwrap_or(Tier::SelfAttested)
    }

    /// The tier that the other fields support, regardless of the declared one.
    pub(crate) fn supported_tier(self) -> Tier {
        let has_report = self.attestation().is_some_and(|attestation| attestation.endpoint().is_some());
        match (self.execution().is_isolated() && has_report, self.reproducible_build()) {
            (true, Some(_)) => Tier::Verifiable,
            (true, None) => Tier::HardwareAttested,
            (false, _) => Tier::SelfAttested,
        }
    }

    /// The lower of the declared and the supported tier: the one to use. It remains a claim until a report is verified.
    pub fn effective_tier(self) -> Tier {
        self.declared_tier().min(self.supported_tier())
    }

    /// The execution environment; vendor names count as standard.
    pub fn execution(self) -> Execution {
        self.text("execution").and_then(Execution::parse).unwrap_or(Execution::Standard)
    }

    /// The declared retention policy, if any. A claim.
    pub fn data_retention(self) -> Option<&'d str> {
        self.text("dataRetention")
    }

    /// The declared visibility of the source, if any. A claim.
    pub fn source_visibility(self) -> Option<&'d str> {
        self.text("sourceVisibility")
    }

    /// How the environment is attested.
    pub fn attestation(self) -> Option<Attestation<'d>> {
        self.0.get("attestation").and_then(Value::as_object).map(Attestation)
    }

    /// How the binary can be rebuilt.
    pub fn reproducible_build(self) -> Option<ReproducibleBuild<'d>> {
        self.0.get("reproducibleBuild").and_then(Value::as_object).map(ReproducibleBuild)
    }

    /// The contradictions between the declared tier and the other fields: ERC-8257 §5, the three bullets.
    fn inconsistencies(self) -> Vec<&'static str> {
        let (attested, rebuilt) = (self.attestation().is_some(), self.reproducible_build().is_some());
        let mut found = Vec::new();
        match self.text("tier").and_then(Tier::parse) {
            Some(Tier::Verifiable) => {
                if !attested {
                    found.push("tier verifiable needs attestation");
                }
                if !rebuilt {
                    found.push("tier verifiable needs reproducibleBuild");
                }
            }
            Some(Tier::HardwareAttested) => {
                if self.text("execution") == Some("standard") {
                    found.push("tier hardware-attested is not compatible with execution standard");
                }
                if !attested {
                    found.push("tier hardware-attested needs attestation");
                }
            }
            Some(Tier::SelfAttested) => {
                if self.execution().is_isolated() {
                    found.push("tier self-attested contradicts the isolation that execution claims");
                }
                if attested {
                    found.push("tier self-attested is not compatible with attestation");
                }
            }
            None => {}
        }
        found
    }

    fn text(self, key: &str) -> Option<&'d str> {
        self.0.get(key)?.as_str()
    }
}

/// How an environment is attested.
#[derive(Clone, Copy, Debug)]
pub struct Attestation<'d>(Object<'d>);

impl<'d> Attestation<'d> {
    /// The attestation protocol, such as `nitro`.
    pub fn protocol(self) -> Option<&'d str> {
        self.0.get("type")?.as_str()
    }

    /// The URL of a fresh report.
    pub fn endpoint(self) -> Option<&'d str> {
        self.0.get("endpoint")?.as_str()
    }

    /// The expected measurement, in hex.
    pub fn enclave_hash(self) -> Option<&'d str> {
        self.0.get("enclaveHash")?.as_str()
    }

    /// The oldest acceptable report, in seconds.
    pub fn max_age(self) -> Option<u64> {
        self.0.get("maxAge")?.as_u64()
    }

    /// An entry in a public log.
    pub fn transparency_log(self) -> Option<&'d str> {
        self.0.get("transparencyLogURI")?.as_str()
    }
}

/// How a binary can be rebuilt.
#[derive(Clone, Copy, Debug)]
pub struct ReproducibleBuild<'d>(Object<'d>);

impl<'d> ReproducibleBuild<'d> {
    /// The author's build instructions. Untrusted text: never run it.
    pub fn instructions(self) -> Option<&'d str> {
        self.0.get("buildInstructions")?.as_str()
    }
}

pub(super) fn check(value: Value<'_>, endpoint: Option<&HttpsUrl>, context: &mut Context) {
    let Some(block) = context.object(value) else { return };
    let softly = context.mode.strict(Severity::Warning);
    if let Some((place, tier)) = required_string(block, "tier", block.get("tier"), context)
        && Tier::parse(tier).is_none()
    {
        context.report(
            Finding::new(codes::tool::TIER_UNKNOWN)
                .at(place)
                .severity(softly)
                .expected("self-attested, hardware-attested or verifiable")
                .got(tier),
        );
    }
    if let Some((place, execution)) = required_string(block, "execution", block.get("execution"), context)
        && Execution::parse(execution).is_none()
        && !is_reverse_dns(execution)
    {
        context.report(
            Finding::new(codes::tool::EXECUTION_UNKNOWN)
                .at(place)
                .severity(softly)
                .expected("standard, tee, e2ee or a reverse-DNS name")
                .got(execution),
        );
    }
    if let Some((place, text)) = optional_string(block, "description", context) {
        check_description(place, text, codes::tool::VERIFIABILITY_DESCRIPTION_LENGTH, context);
    }
    for (key, known, code) in [
        ("dataRetention", &["full", "metadata-only", "ephemeral", "none"][..], codes::tool::DATA_RETENTION_UNKNOWN),
        ("sourceVisibility", &["open-source", "audited", "proprietary"], codes::tool::SOURCE_VISIBILITY_UNKNOWN),
    ] {
        if let Some((place, text)) = optional_string(block, key, context)
            && !known.contains(&text)
        {
            context.report(Finding::new(code).at(place).expected(known.join(", ")).got(text));
        }
    }
    check_attestation(block, endpoint, context);
    check_build(block, context);
    check_claims(Verifiability(block), softly, context);
    check_subfields(
        block,
        &["tier", "execution", "description", "dataRetention", "sourceVisibility", "attestation", "reproducibleBuild"],
        context,
    );
}

fn check_claims(claims: Verifiability<'_>, softly: Severity, context: &mut Context) {
    for message in claims.inconsistencies() {
        context.report(
            Finding::new(codes::tool::TIER_INCONSISTENT)
                .at(claims.0.get("tier").unwrap_or(claims.0.value()))
                .severity(softly)
                .message(message)
                .got(format!("the effective tier is {}", claims.effective_tier().as_str())),
        );
    }
    let execution = claims.0.get("execution");
    match (claims.0.get("attestation"), claims.text("execution").and_then(Execution::parse)) {
        (Some(attestation), Some(Execution::Standard)) => {
            context.report(Finding::new(codes::tool::ATTESTATION_IGNORED).at_key(attestation));
        }
        (None, Some(Execution::Tee | Execution::E2ee)) => {
            context.report(Finding::new(codes::tool::ATTESTATION_MISSING).at(execution.unwrap_or(claims.0.value())));
        }
        _ => {}
    }
}

fn check_attestation(block: Object<'_>, endpoint: Option<&HttpsUrl>, context: &mut Context) {
    let Some(attestation) = block.get("attestation").and_then(|value| context.object(value)) else { return };
    required_string(attestation, "type", attestation.get("type"), context);
    check_url(attestation, "endpoint", context);
    check_measurement(attestation, "enclaveHash", context);
    if let Some(value) = attestation.get("maxAge")
        && value.as_u64().is_none()
    {
        context.report(Finding::new(codes::tool::ATTESTATION_MAX_AGE).at(value).got(value.source()));
    }
    if let Some((value, log)) = check_url(attestation, "transparencyLogURI", context)
        && endpoint.is_some_and(|endpoint| endpoint.host() == log.host())
    {
        context.report(Finding::new(codes::tool::LOG_NOT_INDEPENDENT).at(value).got(log.host()));
    }
    check_subfields(attestation, &["type", "endpoint", "enclaveHash", "maxAge", "transparencyLogURI"], context);
}

fn check_build(block: Object<'_>, context: &mut Context) {
    let Some(build) = block.get("reproducibleBuild").and_then(|value| context.object(value)) else { return };
    context.required(build, "sourceCodeURI", build.get("sourceCodeURI"));
    check_url(build, "sourceCodeURI", context);
    optional_string(build, "buildInstructions", context);
    check_measurement(build, "buildHash", context);
    check_subfields(build, &["sourceCodeURI", "buildInstructions", "buildHash"], context);
}

fn check_url<'d>(object: Object<'d>, key: &str, context: &mut Context) -> Option<(Value<'d>, HttpsUrl)> {
    let (value, text) = optional_string(object, key, context)?;
    Some((value, url::check(value, text, context)?))
}

fn check_measurement(object: Object<'_>, key: &str, context: &mut Context) {
    if let Some((value, text)) = optional_string(object, key, context) {
        hex_field(
            value,
            text,
            context,
            |digits| !digits.is_empty() && digits.len().is_multiple_of(2),
            codes::tool::MEASUREMENT_GRAMMAR,
            "0x and pairs of lowercase hex digits",
        );
    }
}

fn optional_string<'d>(object: Object<'d>, key: &str, context: &mut Context) -> Option<(Value<'d>, &'d str)> {
    let value = object.get(key)?;
    Some((value, context.string(value)?))
}

/// Whether a name is dotted like `io.phala.tee-sidevm`: at least two labels of letters, digits and hyphens.
pub(super) fn is_reverse_dns(name: &str) -> bool {
    let mut labels = name.split('.');
    let first = labels.next().unwrap_or_default();
    let rest: Vec<_> = labels.collect();
    let is_label =
        |label: &str| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    first.len() >= 2 && first.bytes().all(|byte| byte.is_ascii_lowercase()) && !rest.is_empty() && rest.into_iter().all(is_label)
}
