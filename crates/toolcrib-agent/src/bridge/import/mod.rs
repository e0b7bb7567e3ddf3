//! Imports: an unsigned draft of a manifest from an A2A Agent Card or an ERC-8004 registration file.
//!
//! The document is untrusted: it is parsed strictly with fixed limits, its URLs are used only if they may be published, and its texts are
//! truncated to the limits of the specification. Its claims are copied, not verified. Name, owner and time come from the caller.

mod a2a;
mod erc8004;

use std::fmt;
use std::str::FromStr;

use alloy_primitives::Address;
use toolcrib_core::agent::{AgentManifest, AgtDomain, DraftContent, DraftProtocol, MAX_DESCRIPTION, MAX_NAME, draft};
use toolcrib_core::checked::parse;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::{Code, agent as code};
use toolcrib_core::finding::{Finding, Findings, Mode, Severity};
use toolcrib_core::json::{self, Kind, Limits, MAX_DEPTH, MAX_VALUES, Object, Value};
use toolcrib_core::text::code_points;

use super::text;
use super::urls::{Schemes, publishable};

/// Maximum size of an imported document. Real cards and registration files have a few kilobytes; this is the limit of manifests.
pub const MAX_BYTES: usize = toolcrib_core::agent::MAX_BYTES;

/// Maximum number of protocols in a draft. An agent has a handful; a longer draft cannot be reviewed before it is signed.
pub const MAX_PROTOCOLS: usize = 64;

/// Maximum number of capabilities in a draft, for the same reason.
pub const MAX_CAPABILITIES: usize = 1_000;

/// Maximum length of a protocol version in code points: a word.
const MAX_VERSION: usize = 64;

/// An import format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ImportFormat {
    /// An A2A Agent Card, of version 1.0 or 0.3.
    A2a,
    /// An ERC-8004 registration file.
    Erc8004,
}

impl ImportFormat {
    /// The id on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::A2a => "a2a",
            Self::Erc8004 => "erc8004",
        }
    }

    /// Detects the format of a document by the fields that only one of them has.
    fn detect(root: Object<'_>) -> Option<Self> {
        let has = |key: &str| root.get(key).is_some();
        if root.get("type").and_then(Value::as_str) == Some(super::erc8004::TYPE) {
            Some(Self::Erc8004)
        } else if has("supportedInterfaces") || (has("url") && has("skills")) {
            Some(Self::A2a)
        } else if has("registrations") && (has("services") || has("endpoints")) {
            Some(Self::Erc8004)
        } else {
            None
        }
    }
}

impl fmt::Display for ImportFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ImportFormat {
    type Err = super::options::UnknownWord;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::A2a, Self::Erc8004]
            .into_iter()
            .find(|format| format.as_str() == text)
            .ok_or(super::options::UnknownWord("a2a, erc8004"))
    }
}

/// Options of an import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// The name of the agent.
    pub domain: AgtDomain,
    /// The wallet that owns the name and will sign.
    pub owner: Address,
    /// The creation time of the draft.
    pub created_at: UnixTime,
    /// The format of the document; detected if not given.
    pub format: Option<ImportFormat>,
}

/// A draft made from another document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The draft as indented JSON, to complete, check and sign.
    pub draft: String,
    /// The format of the document.
    pub format: ImportFormat,
    /// What was left out, truncated or filled in. The pointers refer to the imported document.
    pub findings: Vec<Finding>,
    /// The findings of linting the draft, except the missing signature. The pointers refer to the draft.
    pub draft_findings: Vec<Finding>,
}

/// A document that cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot import the document: {}", reason.message)]
pub struct ImportError {
    /// The reason.
    pub reason: Box<Finding>,
    /// Other findings before it, for example of the JSON parser.
    pub findings: Vec<Finding>,
}

impl ImportError {
    /// Returns the code of this error.
    pub fn code(&self) -> Code {
        self.reason.code
    }

    fn new(message: &str, findings: Findings) -> Self {
        Self { reason: Box::new(Finding::new(code::BRIDGE_UNREADABLE).message(message)), findings: findings.into_sorted() }
    }
}

/// Imports a document.
pub fn import(bytes: &[u8], options: &ImportOptions) -> Result<Imported, ImportError> {
    let reading = json::read_up_to(bytes, Limits { max_bytes: MAX_BYTES, max_depth: MAX_DEPTH }, MAX_VALUES);
    let document = match reading.document {
        Some(document) if !reading.findings.has_errors() => document,
        _ => return Err(ImportError::new("it is not strict JSON within the limits", reading.findings)),
    };
    let mut job = Job { options, content: DraftContent::default(), findings: reading.findings };
    let Some(root) = document.root().as_object() else {
        return Err(ImportError::new("it is not a JSON object", job.findings));
    };
    let Some(format) = options.format.or_else(|| ImportFormat::detect(root)) else {
        return Err(ImportError::new("it is neither an A2A Agent Card nor an ERC-8004 registration file", job.findings));
    };
    job.note(Finding::new(code::BRIDGE_UNPROVEN));
    let outcome = match format {
        ImportFormat::A2a => a2a::import(root, &mut job),
        ImportFormat::Erc8004 => erc8004::import(root, &mut job),
    };
    if let Err(message) = outcome {
        return Err(ImportError::new(message, job.findings));
    }
    let draft = draft(&options.domain, options.owner, options.created_at, &job.content);
    let mut draft_findings = parse::<AgentManifest>(draft.as_bytes(), Mode::Producer).findings;
    draft_findings.retain(|finding| finding.code != code::UNSIGNED);
    Ok(Imported { draft, format, findings: job.findings.into_sorted(), draft_findings })
}

/// An import in progress.
struct Job<'j> {
    options: &'j ImportOptions,
    content: DraftContent,
    findings: Findings,
}

impl Job<'_> {
    fn note(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Adds a finding about a value. The value's pointer is computed only if the finding is kept, because that walks over its siblings.
    fn about(&mut self, value: Value<'_>, finding: Finding) {
        let finding = if self.findings.is_full() { finding } else { finding.at(value) };
        self.findings.push(finding);
    }

    fn dropped(&mut self, value: Value<'_>, message: &str) {
        self.about(value, Finding::new(code::BRIDGE_DROPPED).message(message));
    }

    /// The trimmed text of a member; `None` if it is missing, empty or not a string.
    fn text<'d>(&mut self, object: Object<'d>, key: &str) -> Option<(Value<'d>, &'d str)> {
        let value = object.get(key)?;
        match value.as_str().map(str::trim) {
            Some("") => None,
            Some(text) => Some((value, text)),
            None => {
                if value.kind() != Kind::Null {
                    let finding = Finding::new(code::BRIDGE_DROPPED).severity(Severity::Warning);
                    self.about(value, finding.message("the field is left out: it is not a string").got(value.kind().described()));
                }
                None
            }
        }
    }

    /// The text of a member, truncated to `max` code points.
    fn limited(&mut self, object: Object<'_>, key: &str, max: usize) -> Option<String> {
        let (value, text) = self.text(object, key)?;
        let Some(cut) = text::cut_chars(text, max) else { return Some(text.to_owned()) };
        let finding = Finding::new(code::BRIDGE_SHORTENED).expected(format!("at most {max} characters"));
        self.about(value, finding.got(code_points(text).to_string()));
        Some(cut)
    }

    /// The URL in a member, if it may be published.
    fn url(&mut self, object: Object<'_>, key: &str, schemes: Schemes) -> Option<String> {
        let (value, text) = self.text(object, key)?;
        match publishable(text, schemes) {
            Ok(url) => Some(url),
            Err(finding) => {
                self.about(value, *finding);
                None
            }
        }
    }

    /// Copies name and description, which have the same keys in both formats.
    fn identity(&mut self, root: Object<'_>) {
        self.content.name = self.limited(root, "name", MAX_NAME);
        self.content.description = self.limited(root, "description", MAX_DESCRIPTION);
    }

    /// The elements of a list, at most `max`.
    fn entries<'d>(&mut self, object: Object<'d>, key: &str, max: usize) -> impl Iterator<Item = Value<'d>> + use<'d> {
        let value = object.get(key);
        let list = value.and_then(Value::as_array);
        match (value, list) {
            (Some(value), None) if value.kind() != Kind::Null => {
                let finding = Finding::new(code::BRIDGE_DROPPED).severity(Severity::Warning);
                self.about(value, finding.message("the field is left out: it is not a list").got(value.kind().described()));
            }
            (Some(value), Some(list)) if list.len() > max => {
                let finding = Finding::new(code::BRIDGE_DROPPED).severity(Severity::Warning);
                let finding = finding.message("the list is long: the entries beyond the limit are left out");
                self.about(value, finding.expected(format!("at most {max} entries")).got(list.len().to_string()));
            }
            _ => {}
        }
        list.into_iter().flat_map(json::Array::iter).take(max)
    }

    /// Adds a protocol unless the draft already has it, or has too many.
    fn add_protocol(&mut self, value: Value<'_>, protocol: DraftProtocol) {
        let is_known = |other: &DraftProtocol| other.id == protocol.id && other.endpoint == protocol.endpoint;
        if self.content.protocols.iter().any(is_known) {
            self.dropped(value, "the endpoint is in the draft already");
        } else if self.content.protocols.len() >= MAX_PROTOCOLS {
            self.dropped(value, "the draft has enough protocols");
        } else {
            self.content.protocols.push(protocol);
        }
    }

    /// Adds findings for members of the document that a manifest has no place for.
    fn drop_fields(&mut self, root: Object<'_>, known: &[&str]) {
        for (_, value) in root.iter().filter(|(key, _)| !known.contains(key)) {
            if self.findings.is_full() {
                return;
            }
            self.note(Finding::new(code::BRIDGE_DROPPED).at_key(value).message("a manifest has no place for this field"));
        }
    }
}
