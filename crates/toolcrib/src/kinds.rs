//! Manifest kinds for the commands: one function checks a document, one writes a starting file.
//!
//! All rules are in `toolcrib-core`. This file only dispatches on the kind.

use alloy_primitives::Address;
use toolcrib_core::agent::{self, AgentManifest, AgtDomain, txt};
use toolcrib_core::canon::Canonical;
use toolcrib_core::checked::{self, AnyJson, Checked};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes;
use toolcrib_core::finding::{Finding, Mode};
pub(crate) use toolcrib_core::kind::ManifestKind;
use toolcrib_core::local::{self, LocalManifest};
use toolcrib_core::slug::{self, Slug};
use toolcrib_core::tool::{self, ToolManifest};
use toolcrib_core::url::well_known::check_origin_binding;

use crate::outcome::Failure;

/// The result of checking one document.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// All findings, in source order.
    pub(crate) findings: Vec<Finding>,
    /// Canonical bytes and hash, unless there are none.
    pub(crate) canonical: Option<Canonical>,
}

/// What the path of a file says about its manifest.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathHints {
    /// The folder that holds a `manifest.json`: the id of a local tool.
    pub(crate) folder: Option<String>,
    /// The name of a file in `.well-known/ai-tool/`, without its ending: the slug of a tool.
    pub(crate) slug: Option<String>,
    /// The URL under which a tool will be registered, when the user gave it.
    pub(crate) metadata_uri: Option<String>,
}

/// Checks a document of a known kind.
pub(crate) fn check(kind: ManifestKind, bytes: &[u8], mode: Mode, place: &PathHints) -> Report {
    match kind {
        ManifestKind::Tool => {
            let checked = ToolManifest::parse(bytes, mode);
            let misplaced = checked.conformant().map_or_else(Vec::new, |manifest| check_place(manifest, place));
            report(checked, misplaced)
        }
        ManifestKind::Agent => report(checked::parse::<AgentManifest>(bytes, mode), Vec::new()),
        ManifestKind::Local => {
            let checked = checked::parse::<LocalManifest>(bytes, mode);
            let misplaced = place.folder.as_deref().and_then(|folder| local::check_folder(checked.conformant()?, folder));
            report(checked, misplaced.into_iter().collect())
        }
    }
}

/// Checks a document of unknown kind with the rules that hold for all kinds.
pub(crate) fn check_json(bytes: &[u8], mode: Mode) -> Report {
    report(checked::parse::<AnyJson>(bytes, mode), Vec::new())
}

/// Checks the TXT records of an agent's name, one on each line; `None` if the text is something else.
pub(crate) fn check_records(bytes: &[u8]) -> Option<Report> {
    let text = std::str::from_utf8(bytes).ok()?;
    let is_record = |record: &txt::TextRecord| record.as_ref().trim_ascii_start().starts_with(b"agt-");
    if !txt::records_from_text(text).iter().any(is_record) {
        return None;
    }
    Some(Report { findings: txt::parse_text(text).findings, canonical: None })
}

/// Returns a valid starting file, or the reason why the name does not permit one.
pub(crate) fn template(kind: ManifestKind, name: &str, address: Address, now: UnixTime) -> Result<String, String> {
    match kind {
        ManifestKind::Tool => tool::template(name, address)
            .map_err(|findings| findings.first().map_or_else(String::new, |finding| finding.message.clone())),
        ManifestKind::Agent => match AgtDomain::parse(name) {
            Ok(domain) => Ok(agent::template(&domain, address, now)),
            Err(fault) => Err(fault.to_string()),
        },
        ManifestKind::Local => Ok(local::template(name)),
    }
}

/// Parses an address, in lower case or with its checksum. A wrong checksum is a typing error that could send money to a wrong recipient.
pub(crate) fn parse_address(text: &str) -> Result<Address, Failure> {
    let is_plain = text.strip_prefix("0x").is_some_and(|digits| !digits.bytes().any(|byte| byte.is_ascii_uppercase()));
    let parsed = if is_plain { text.parse().ok() } else { Address::parse_checksummed(text, None).ok() };
    parsed.ok_or_else(|| {
        Failure::new(codes::cli::USAGE, format!("`{text}` is not an address"))
            .hint("write 0x and 40 hex digits, all lower case or with the right checksum")
    })
}

/// Checks the URL from which a tool is served, since verification depends on it (ERC-8257 §6).
fn check_place(manifest: &ToolManifest, place: &PathHints) -> Vec<Finding> {
    let at_endpoint = |finding: Finding| match manifest.document().root().get("endpoint") {
        Some(endpoint) => finding.at(endpoint),
        None => finding,
    };
    let slug = match (&place.metadata_uri, &place.slug) {
        (Some(uri), _) => match check_origin_binding(uri, manifest.endpoint()) {
            Ok(slug) => slug,
            Err(findings) => return findings.into_iter().map(at_endpoint).collect(),
        },
        (None, Some(slug)) => match Slug::parse(slug) {
            Ok(slug) => slug,
            Err(fault) => return vec![Finding::new(fault.code()).got(slug)],
        },
        (None, None) => return Vec::new(),
    };
    slug::lint_against_name(&slug, manifest.name()).into_iter().collect()
}

fn report<M>(checked: Checked<M>, misplaced: Vec<Finding>) -> Report {
    let canonical = checked.canonical().cloned();
    let mut findings = checked.findings;
    findings.extend(misplaced);
    Report { findings, canonical }
}
