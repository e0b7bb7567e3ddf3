//! `.agt` agent manifests, version 1.0: identity, protocols, capabilities and pricing of an agent.
//!
//! This module checks documents: the fields, the name, the format of the signature, the TXT records that point to a manifest. Whether the
//! signature recovers to the owner, whether the owner holds the name on chain and whether the bytes match their CID needs curves, chains
//! and gateways, and is verified elsewhere.

pub mod capabilities;
pub mod domain;
pub mod draft;
pub mod owner;
pub mod place;
pub mod pricing;
pub mod protocols;
pub mod signing;
pub mod txt;
pub mod vocabulary;

use alloy_primitives::Address;

pub use capabilities::Capability;
pub use domain::{AgtDomain, DomainFault};
pub use draft::{
    DraftCapability, DraftContent, DraftPaid, DraftPricing, DraftProtocol, Migration, TxtChange, draft, migrate, template,
};
pub use pricing::{Paid, Pricing, PricingModel};
pub use protocols::Protocol;
pub use signing::{AgentSignature, SignatureFault, SigningPayload};

use crate::checked::{Context, Manifest};
use crate::clock::UnixTime;
use crate::codes;
use crate::finding::{Edit, Finding, Fix, MAX_FINDINGS, Severity};
use crate::json::{Document, Limits, MAX_DEPTH, Object, Value};
use crate::{text, time, url};

/// The supported version.
pub const VERSION: &str = "1.0";

/// The size that every reader must accept: .agt 1.0 Security Considerations. Larger manifests get a warning.
pub const EVERY_READER_BYTES: usize = 65_536;

/// The largest manifest that is read: four times what every reader must accept, the cap of the upstream resolver.
pub const MAX_BYTES: usize = 262_144;

/// Most entries of `protocols` and of `capabilities`. The shortest entry, `{"id":"x"},`, has 11 bytes, so that no manifest within
/// [`EVERY_READER_BYTES`] reaches this number, and a larger one cannot make the checks slow.
pub const MAX_ENTRIES: usize = 6_000;

/// Longest name, in code points: .agt 1.0 §2.
pub const MAX_NAME: usize = 100;

/// Longest description, in code points: .agt 1.0 §2.
pub const MAX_DESCRIPTION: usize = 280;

/// Accepted difference between the clocks of a signer and a reader: ten minutes.
pub const MAX_CLOCK_SKEW_SECONDS: i64 = 600;

/// Most hints about misspelt fields. A file with more of them has another problem.
const MAX_TYPO_HINTS: usize = 16;

/// A conformant `.agt` manifest: the original document, and the parsed fields that every use needs.
#[derive(Clone, Debug)]
pub struct AgentManifest {
    document: Document,
    view: AgentView,
}

/// The parsed required fields.
#[derive(Clone, Debug)]
pub struct AgentView {
    domain: AgtDomain,
    owner: Address,
    created_at: UnixTime,
    signature: AgentSignature,
}

impl AgentManifest {
    /// The document with its source, including fields that this version does not know.
    pub const fn document(&self) -> &Document {
        &self.document
    }

    /// The name this manifest belongs to.
    pub const fn domain(&self) -> &AgtDomain {
        &self.view.domain
    }

    /// The wallet that claims to hold the name and to have signed.
    pub const fn owner(&self) -> Address {
        self.view.owner
    }

    /// The creation time that the manifest states.
    pub const fn created_at(&self) -> UnixTime {
        self.view.created_at
    }

    /// The signature. Its format is valid; the signer is not verified.
    pub const fn signature(&self) -> &AgentSignature {
        &self.view.signature
    }

    /// Returns the payload that the signature covers. It is never `None` for a parsed manifest.
    pub fn signing_payload(&self) -> Option<SigningPayload> {
        SigningPayload::of(&self.document)
    }

    /// The display name.
    pub fn name(&self) -> Option<&str> {
        self.text("name")
    }

    /// The agent's description.
    pub fn description(&self) -> Option<&str> {
        self.text("description")
    }

    /// The URL of a picture.
    pub fn icon(&self) -> Option<&str> {
        self.text("icon")
    }

    /// The URL of a website.
    pub fn website(&self) -> Option<&str> {
        self.text("website")
    }

    /// The protocols that the agent speaks, with endpoints.
    pub fn protocols(&self) -> impl Iterator<Item = Protocol<'_>> {
        self.objects("protocols").map(Protocol::new)
    }

    /// The agent's capabilities.
    pub fn capabilities(&self) -> impl Iterator<Item = Capability<'_>> {
        self.objects("capabilities").map(Capability::new)
    }

    /// The agent's pricing.
    pub fn pricing(&self) -> Option<Pricing<'_>> {
        self.document.root().get("pricing")?.as_object().map(Pricing::new)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.document.root().get(key)?.as_str()
    }

    fn objects(&self, key: &str) -> impl Iterator<Item = Object<'_>> {
        let list = self.document.root().get(key).and_then(Value::as_array);
        list.into_iter().flat_map(crate::json::Array::iter).filter_map(Value::as_object)
    }
}

impl Manifest for AgentManifest {
    type View = AgentView;

    const LIMITS: Limits = Limits { max_bytes: MAX_BYTES, max_depth: MAX_DEPTH };

    /// The specification does not mention normalisation, but other readers of the same signed bytes may normalise.
    const NFC: Severity = Severity::Warning;

    fn check(root: Object<'_>, context: &mut Context) -> Option<AgentView> {
        check_size(root, context);
        if check_version(root, context) == Draft::Other {
            // Another draft has different rules; do not apply these.
            return None;
        }
        check_unknown(root, FIELDS, context);
        check_identity(root, context);
        if let Some(list) = root.get("protocols") {
            protocols::check(list, context);
        }
        if let Some(list) = root.get("capabilities") {
            capabilities::check(list, context);
        }
        if let Some(pricing) = root.get("pricing") {
            pricing::check(pricing, context);
        }
        let domain = required_text(root, "domain", context).and_then(|(value, text)| check_domain(value, text, context));
        let owner = required_text(root, "owner", context).and_then(|(value, text)| owner::check(value, text, context));
        let created_at =
            required_text(root, "created_at", context).and_then(|(value, text)| check_created_at(value, text, context));
        let signature = check_signature(root, context);
        if signature.is_some()
            && let Some(signed_by) = root.get("signature").map(Value::span)
        {
            // A fix of signed content would invalidate the signature; only the owner can decide to sign again.
            let inside = |edit: &Edit| signed_by.start <= edit.span.start && edit.span.end <= signed_by.end;
            context.findings.retain_fixes(|fix| fix.edits.iter().all(inside));
        }
        Some(AgentView { domain: domain?, owner: owner?, created_at: created_at?, signature: signature? })
    }

    fn assemble(document: Document, view: AgentView) -> Self {
        Self { document, view }
    }
}

/// The fields of .agt 1.0.
pub const FIELDS: &[&str] = &[
    "agt",
    "domain",
    "owner",
    "created_at",
    "signature",
    "name",
    "description",
    "icon",
    "website",
    "protocols",
    "capabilities",
    "pricing",
];

fn check_size(root: Object<'_>, context: &mut Context) {
    let bytes = root.value().document().source().len();
    if bytes > EVERY_READER_BYTES {
        context.report(
            Finding::new(codes::agent::LARGE)
                .expected(format!("at most {EVERY_READER_BYTES} bytes"))
                .got(format!("{bytes} bytes")),
        );
    }
}

/// The draft whose rules a document follows.
#[derive(PartialEq, Eq)]
enum Draft {
    /// This draft, or it cannot be determined.
    This,
    /// Another draft, so that further findings would mislead.
    Other,
}

fn check_version(root: Object<'_>, context: &mut Context) -> Draft {
    let Some(value) = context.required(root, "agt", root.get("agt")) else { return Draft::This };
    let Some(version) = value.as_str() else {
        let mut finding = Finding::new(codes::manifest::WRONG_TYPE)
            .at(value)
            .message("`agt` must be a string, because the number 1.0 would become 1")
            .expected("the string \"1.0\"");
        // A number here is the version without its quotes.
        finding = match value.as_f64() {
            Some(1.0) => finding.got(value.source()).fix(Fix::replace_string(value, "write the version as a string", VERSION)),
            _ => finding.got(value.kind().described()),
        };
        context.report(finding);
        return Draft::This;
    };
    if version == VERSION {
        return Draft::This;
    }
    let (draft, message) = match version {
        "2.0" => (
            Draft::Other,
            "this is draft 0.2 of April 2026: it signs the keccak256 of sorted JSON, so its signature cannot be verified by the rules of 1.0",
        ),
        _ if version.starts_with("3.") => (
            Draft::Other,
            "this is the draft of version 3 of September 2026, which has other fields and uses another name registry",
        ),
        _ if version.starts_with("2.") => (Draft::Other, "this document follows another draft, which signs differently"),
        "1" | "1.0.0" | "v1" | "v1.0" | "V1.0" | "1.00" => (Draft::This, "the version must be exactly 1.0"),
        "0" | "v0" | "0.1" | "0.1.0" => {
            (Draft::This, "version 0 was a set of TXT records; there is no JSON document of that version")
        }
        _ => (Draft::This, "the agt version is not 1.0"),
    };
    context.report(Finding::new(codes::agent::VERSION_UNSUPPORTED).at(value).message(message).expected("\"1.0\"").got(version));
    draft
}

fn check_identity(root: Object<'_>, context: &mut Context) {
    if let Some((name, text)) = optional_text(root, "name", context) {
        context.code_points(name, text, 0..=MAX_NAME, codes::agent::NAME_LENGTH);
        display_text(name, text, context);
    }
    if let Some((description, text)) = optional_text(root, "description", context) {
        context.code_points(description, text, 0..=MAX_DESCRIPTION, codes::agent::DESCRIPTION_LENGTH);
        display_text(description, text, context);
    }
    for key in ["icon", "website"] {
        if let Some(value) = root.get(key)
            && let Some(text) = context.string(value)
        {
            url::check(value, text, context);
        }
    }
}

fn check_domain(value: Value<'_>, text: &str, context: &mut Context) -> Option<AgtDomain> {
    match AgtDomain::parse(text) {
        Ok(domain) => {
            if let Some(shown) = domain.unicode() {
                context.report(
                    Finding::new(codes::agent::DOMAIN_IDN).at(value).message(format!("the domain displays as {shown}")).got(text),
                );
                // A name that imitates another one is reported as more than a hint.
                for finding in url::display_host(text).findings {
                    context.report(finding.at(value));
                }
            }
            Some(domain)
        }
        Err(fault) => {
            let mut finding = Finding::new(codes::agent::DOMAIN_MALFORMED).at(value).message(fault.described()).got(text);
            finding = match fault.canonical() {
                Some(canonical) => finding.expected(canonical.as_str()).fix(Fix::replace_string(
                    value,
                    "write the name in its canonical form",
                    canonical.as_str(),
                )),
                None => finding.expected("one label and .agt"),
            };
            context.report(finding);
            None
        }
    }
}

fn check_created_at(value: Value<'_>, text: &str, context: &mut Context) -> Option<UnixTime> {
    match time::parse_rfc3339(text) {
        Ok(time) => Some(time),
        Err(fault) => {
            let code = match fault {
                time::TimeFault::NoOffset => codes::agent::CREATED_AT_NO_OFFSET,
                _ => codes::agent::CREATED_AT_MALFORMED,
            };
            context.report(
                Finding::new(code).at(value).message(fault.described()).expected("such as 2026-05-01T18:00:00Z").got(text),
            );
            None
        }
    }
}

fn check_signature(root: Object<'_>, context: &mut Context) -> Option<AgentSignature> {
    let Some(value) = root.get("signature") else {
        context.report(Finding::new(codes::agent::UNSIGNED).at_missing(root.value(), "signature"));
        return None;
    };
    let text = context.string(value)?;
    signing::check(value, text, context)
}

fn required_text<'d>(object: Object<'d>, key: &str, context: &mut Context) -> Option<(Value<'d>, &'d str)> {
    let value = context.required(object, key, object.get(key))?;
    Some((value, context.string(value)?))
}

/// Returns the text of an optional field; warns if it is empty.
fn optional_text<'d>(object: Object<'d>, key: &str, context: &mut Context) -> Option<(Value<'d>, &'d str)> {
    let value = object.get(key)?;
    let text = context.string(value)?;
    if text.is_empty() {
        context.report(Finding::new(codes::agent::TEXT_EMPTY).at(value).message(format!("`{key}` is empty")));
    }
    Some((value, text))
}

/// Warns about characters that change how text displays. Line breaks and tabs are allowed.
fn display_text(value: Value<'_>, shown: &str, context: &mut Context) {
    let hidden = text::first_control(shown, &['\n', '\t', '\r']).or_else(|| shown.chars().find(|&c| text::is_invisible(c)));
    if let Some(c) = hidden {
        context.report(Finding::new(codes::json::INVISIBLE).at(value).got(format!("U+{:04X}", u32::from(c))));
    }
}

/// The elements of a list, up to [`MAX_ENTRIES`].
fn entries<'d>(value: Value<'d>, context: &mut Context) -> impl Iterator<Item = Value<'d>> + use<'d> {
    let list = context.array(value);
    if let Some(count) = list.map(crate::json::Array::len).filter(|&count| count > MAX_ENTRIES) {
        context.report(
            Finding::new(codes::agent::TOO_MANY_ENTRIES)
                .at(value)
                .expected(format!("at most {MAX_ENTRIES} entries"))
                .got(format!("{count}")),
        );
    }
    list.into_iter().flat_map(crate::json::Array::iter).take(MAX_ENTRIES)
}

/// Whether the list of findings is full. Locating a value walks the document, and a hostile list could ask for thousands of such walks, so
/// findings that would be dropped are not made.
fn is_full(context: &Context) -> bool {
    context.findings.as_slice().len() >= MAX_FINDINGS
}

/// Whether further findings could change neither the list nor the verdict.
fn is_settled(context: &Context) -> bool {
    is_full(context) && context.findings.has_errors()
}

/// Reports an id that breaks the grammar or nearly equals a known one.
fn check_id(value: Value<'_>, id: &str, known: impl Iterator<Item = &'static str> + Clone, context: &mut Context) {
    if vocabulary::is_id(id) {
        report_near_miss(value, id, known, context);
        return;
    }
    let mut finding = Finding::new(codes::agent::ID_MALFORMED).at(value).expected("such as my-protocol").got(id);
    if let Some(vocabulary::Resemblance::Spelling(known)) = vocabulary::resembles(id, known) {
        finding = finding.expected(known).fix(Fix::replace_string(value, "write the known id", known));
    }
    context.report(finding);
}

/// Hints that a word of an open list nearly equals a known one.
fn report_near_miss(value: Value<'_>, word: &str, known: impl Iterator<Item = &'static str> + Clone, context: &mut Context) {
    if !is_full(context)
        && let Some(resemblance) = vocabulary::resembles(word, known)
    {
        context.report(
            Finding::new(codes::agent::ID_NEAR_MISS)
                .at(value)
                .message(format!("did you mean {}?", resemblance.known()))
                .expected(resemblance.known())
                .got(word),
        );
    }
}

/// Hints at unknown fields that look misspelt. All other unknown fields are allowed.
fn check_unknown(object: Object<'_>, known: &'static [&'static str], context: &mut Context) {
    let mut hints = 0;
    for (key, value) in object.iter() {
        if hints == MAX_TYPO_HINTS || is_full(context) {
            return;
        }
        if known.contains(&key) {
            continue;
        }
        // If the field is also present in its correct spelling, this one is not a misspelling.
        if let Some(resemblance) = vocabulary::resembles(key, known.iter().copied())
            && object.get(resemblance.known()).is_none()
        {
            hints += 1;
            context.report(
                Finding::new(codes::agent::FIELD_TYPO)
                    .at_key(value)
                    .message(format!("did you mean {}?", resemblance.known()))
                    .expected(resemblance.known())
                    .got(key),
            );
        }
    }
}

/// Whether a text is a placeholder: shortened with dots, or a word in brackets.
fn is_elided(text: &str) -> bool {
    text.contains("...") || text.contains('…') || text.starts_with(['<', '{', '['])
}

/// A JSON string.
fn json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    crate::canon::write_string(text, &mut out);
    out
}

/// A JSON object from values that are already JSON, in the given order.
fn json_object<'k>(fields: impl IntoIterator<Item = (&'k str, String)>) -> String {
    let members: Vec<String> = fields.into_iter().map(|(key, value)| format!("{}:{value}", json_string(key))).collect();
    format!("{{{}}}", members.join(","))
}

/// A JSON array from values that are already JSON.
fn json_array(entries: impl Iterator<Item = String>) -> String {
    format!("[{}]", entries.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests;
