//! Checks the document: JSON, the name in it, and the fields that verification needs.

use alloy_primitives::Address;
use toolcrib_core::agent::signing::{AgentSignature, SigningPayload};
use toolcrib_core::agent::{AgentManifest, AgtDomain, VERSION, owner};
use toolcrib_core::canon::Sealed;
use toolcrib_core::checked::{Checked, Outcome, parse};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes;
use toolcrib_core::finding::{Finding, Mode, Severity};
use toolcrib_core::json::{Document, Value};
use toolcrib_core::time::parse_rfc3339;

use super::case::Case;
use crate::policy::AgentPolicy;
use crate::report::{AgentState, ContentId, Stage};

/// A document that was parsed as a manifest.
#[derive(Debug)]
pub(crate) struct Parsed {
    checked: Checked<AgentManifest>,
    payload: Option<SigningPayload>,
}

/// The fields of a manifest that later checks need.
#[derive(Debug)]
pub(super) struct Fields {
    pub(super) owner: Address,
    pub(super) created_at: UnixTime,
    pub(super) signature: AgentSignature,
    pub(super) payload: SigningPayload,
}

impl Parsed {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let checked = parse::<AgentManifest>(bytes, Mode::Consumer);
        let payload = document_of(&checked).and_then(SigningPayload::of);
        Self { checked, payload }
    }

    /// The document, unless the bytes have no canonical form.
    pub(crate) fn document(&self) -> Option<&Document> {
        document_of(&self.checked)
    }

    /// The name in the document, if it is canonical.
    pub(crate) fn domain(&self) -> Option<AgtDomain> {
        self.text("domain").and_then(|text| AgtDomain::parse(text).ok())
    }

    /// The signature and the digest that it covers, whatever else is wrong with the document.
    pub(crate) fn signed(&self) -> Option<(&SigningPayload, AgentSignature)> {
        Some((self.payload.as_ref()?, self.signature()?))
    }

    pub(crate) const fn is_conformant(&self) -> bool {
        matches!(self.checked.outcome, Outcome::Conformant(_))
    }

    pub(super) fn into_manifest(self) -> Option<Sealed<AgentManifest>> {
        match self.checked.outcome {
            Outcome::Conformant(sealed) => Some(sealed),
            _ => None,
        }
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.document()?.root().get(key).and_then(Value::as_str)
    }

    fn signature(&self) -> Option<AgentSignature> {
        AgentSignature::parse(self.text("signature")?).ok()
    }

    /// The owner, unless its checksum is wrong or it is the zero address, as in the linter's consumer rules.
    fn owner(&self) -> Option<Address> {
        let (address, spelling) = owner::parse(self.text("owner")?)?;
        (spelling != owner::Spelling::WrongChecksum && !address.is_zero()).then_some(address)
    }

    /// The first error of the document that matches `test`.
    fn error(&self, test: impl Fn(&Finding) -> bool) -> Option<Finding> {
        self.checked.findings.iter().find(|finding| finding.severity == Severity::Error && test(finding)).cloned()
    }

    /// The error at a field, or a generic one that the field cannot be used.
    fn error_at(&self, key: &str) -> Finding {
        let pointer = format!("/{key}");
        self.error(|finding| finding.pointer == pointer).unwrap_or_else(|| {
            let mut finding =
                Finding::new(codes::manifest::FIELD_MISSING).message(format!("`{key}` is missing or cannot be used"));
            finding.pointer = pointer;
            finding
        })
    }
}

/// Judges a document up to the signature. `None` if the later checks cannot run.
pub(super) fn check(
    case: &mut Case,
    parsed: &Parsed,
    cid: Option<&str>,
    domain: &AgtDomain,
    policy: &AgentPolicy,
    now: UnixTime,
) -> Option<Fields> {
    for finding in &parsed.checked.findings {
        case.add(finding.clone());
    }
    let invalid = AgentState::InvalidManifest;
    // A document that JSON parsers interpret differently has no single meaning that an owner could have signed.
    let json = parsed.error(|finding| finding.code.id().starts_with("json.") || finding.code == codes::manifest::NOT_AN_OBJECT);
    if let Some(finding) = json {
        case.fail(Stage::Json, None, invalid, finding);
        return None;
    }
    let Some(payload) = parsed.payload.clone() else {
        let finding = parsed.error(|_| true).unwrap_or_else(|| Finding::new(codes::manifest::NOT_AN_OBJECT));
        case.fail(Stage::Json, None, invalid, finding);
        return None;
    };
    case.report.content = Some(ContentId { cid: cid.map(str::to_owned), digest: payload.digest() });
    // Check the name first: a genuine manifest of another agent passes every other check.
    if parsed.text("domain") != Some(domain.as_str()) {
        fail_domain(case, parsed, Some(domain));
        return None;
    }
    if parsed.text("agt") != Some(VERSION) {
        case.fail(Stage::Fields, None, invalid, parsed.error_at("agt"));
        return None;
    }
    case.pass(3);
    let created_at = parsed.text("created_at").and_then(|text| parse_rfc3339(text).ok());
    if created_at.is_none() {
        case.fail(Stage::Fields, None, invalid, parsed.error_at("created_at"));
    }
    let signature = parsed.signature();
    if signature.is_none() {
        case.fail(Stage::Signature, Some(4), AgentState::InvalidSignature, parsed.error_at("signature"));
    }
    let owner = parsed.owner();
    if owner.is_none() {
        case.fail(Stage::Signature, Some(5), AgentState::InvalidOwner, parsed.error_at("owner"));
    }
    (case.report.owner, case.report.created_at) = (owner, created_at);
    if let Some(made) = created_at
        && made.since(now) > i64::from(policy.max_clock_skew)
    {
        let mut finding = Finding::new(codes::agent::CREATED_IN_FUTURE).got(parsed.text("created_at").unwrap_or_default());
        finding.pointer = "/created_at".to_owned();
        case.add(finding);
    }
    Some(Fields { owner: owner?, created_at: created_at?, signature: signature?, payload })
}

/// Fails a file without a domain, if no domain was requested.
pub(super) fn fail_without_domain(case: &mut Case, parsed: &Parsed) {
    for finding in &parsed.checked.findings {
        case.add(finding.clone());
    }
    match parsed.document() {
        Some(_) => fail_domain(case, parsed, None),
        None => {
            let finding = parsed.error(|_| true).unwrap_or_else(|| Finding::new(codes::manifest::NOT_AN_OBJECT));
            case.fail(Stage::Json, None, AgentState::InvalidManifest, finding);
        }
    }
}

fn fail_domain(case: &mut Case, parsed: &Parsed, asked: Option<&AgtDomain>) {
    let Some(text) = parsed.text("domain") else {
        case.fail(Stage::Domain, None, AgentState::InvalidManifest, parsed.error_at("domain"));
        return;
    };
    let finding = match (AgtDomain::parse(text), asked) {
        // Another spelling of the same name is another token.
        (Err(_), _) | (_, None) => parsed.error_at("domain"),
        (Ok(_), Some(asked)) => {
            let mut finding = Finding::new(codes::agent::DOMAIN_MISMATCH).expected(asked.as_str()).got(text);
            finding.pointer = "/domain".to_owned();
            finding
        }
    };
    case.fail(Stage::Domain, None, AgentState::DomainMismatch, finding);
}

fn document_of(checked: &Checked<AgentManifest>) -> Option<&Document> {
    match &checked.outcome {
        Outcome::Conformant(sealed) => Some(sealed.document()),
        Outcome::Flawed(sealed) => Some(sealed.value()),
        Outcome::Unreadable => None,
    }
}
