//! The kinds of manifest, as the commands see them: one enum, one function that checks, one that writes a start.
//!
//! All rules live in `toolcrib-core`. This file only chooses the type that belongs to a kind.

use toolcrib_core::canon::Canonical;
use toolcrib_core::checked::{self, Checked, Context, Manifest};
use toolcrib_core::finding::{Finding, Mode, Severity};
use toolcrib_core::json::{Document, Limits, Object, Value};

/// A kind of manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManifestKind {
    /// An onchain tool (ERC-8257).
    Tool,
    /// An agent (.agt 1.0).
    Agent,
    /// A local tool.
    Local,
}

/// What checking one document gave.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// Everything that was found, in source order.
    pub(crate) findings: Vec<Finding>,
    /// Canonical bytes and hash, unless there are none.
    pub(crate) canonical: Option<Canonical>,
}

/// The word for a kind.
pub(crate) const fn name(kind: ManifestKind) -> &'static str {
    match kind {
        ManifestKind::Tool => "tool",
        ManifestKind::Agent => "agent",
        ManifestKind::Local => "local",
    }
}

/// Finds out which kind a document is meant to be.
pub(crate) fn detect(root: Value<'_>) -> Option<ManifestKind> {
    let has = |key| root.get(key).is_some();
    if has("agt") {
        Some(ManifestKind::Agent)
    } else if has("functions") {
        Some(ManifestKind::Local)
    } else if has("endpoint") || has("creatorAddress") {
        Some(ManifestKind::Tool)
    } else {
        None
    }
}

/// Checks a document of a known kind. `folder` is the name of the folder that holds a local tool's `manifest.json`.
pub(crate) fn check(kind: ManifestKind, bytes: &[u8], mode: Mode, folder: Option<&str>) -> Report {
    let _ = (kind, folder);
    check_json(bytes, mode)
}

/// Checks a document of no known kind: only the rules that hold for all.
pub(crate) fn check_json(bytes: &[u8], mode: Mode) -> Report {
    report(checked::parse::<AnyJson>(bytes, mode))
}

/// A correct starting file.
pub(crate) fn template(kind: ManifestKind, name: &str, address: &str) -> String {
    match kind {
        ManifestKind::Tool => format!(
            r#"{{
  "type": "https://ercs.ethereum.org/ERCS/erc-8257#tool-manifest-v1",
  "name": "{name}",
  "description": "Say in one or two sentences what the tool does.",
  "endpoint": "https://tools.example.com/{name}",
  "inputs": {{ "type": "object", "properties": {{}} }},
  "outputs": {{ "type": "object", "properties": {{}} }},
  "version": "0.1.0",
  "creatorAddress": "{address}"
}}
"#
        ),
        ManifestKind::Agent => format!("{{\n  \"agt\": \"1.0\",\n  \"domain\": \"{name}\",\n  \"owner\": \"{address}\"\n}}\n"),
        ManifestKind::Local => format!(
            r#"{{
  "id": "{name}",
  "name": "{name}",
  "description": "Say in one sentence what the tool does.",
  "version": "0.1.0",
  "functions": []
}}
"#
        ),
    }
}

fn report<M>(checked: Checked<M>) -> Report {
    let canonical = checked.canonical().cloned();
    Report { findings: checked.findings, canonical }
}

/// JSON that is not known to be anything else.
struct AnyJson;

impl Manifest for AnyJson {
    type View = ();

    const LIMITS: Limits = Limits { max_bytes: toolcrib_core::json::MAX_BYTES, max_depth: toolcrib_core::json::MAX_DEPTH };
    const NFC: Severity = Severity::Error;

    fn check(_root: Object<'_>, _context: &mut Context) -> Option<()> {
        Some(())
    }

    fn assemble(_document: Document, (): ()) -> Self {
        Self
    }
}
