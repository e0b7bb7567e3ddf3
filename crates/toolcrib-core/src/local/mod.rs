//! The manifest of a local tool: a folder on the user's machine with functions that a model may call.
//!
//! The format is the oldest and smallest of its family: `id`, `name`, `description`, `version`, optional `credentials` and `functions`.
//! Fields of later versions are kept and checked lightly, the optional blocks [`Runtime`] and [`SandboxRequest`] of this host strictly;
//! other unknown fields are kept and ignored. Beyond the format, portability is checked: whether one definition works as a tool of the
//! `OpenAI`, Anthropic and Gemini APIs, of MCP, and as an ERC-8257 slug ([`names`]).
//!
//! The host checks that the handler exports the functions, that credentials are set, and that ids are unique.

mod credentials;
mod functions;
mod later;
pub mod names;
mod runtime;
mod server;

use crate::canon;
use crate::checked::{Context, Manifest};
use crate::codes::{self, Code};
use crate::finding::{Finding, Fix, Severity};
use crate::json::{self, Document, Limits, Object, Value};
use crate::{near, semver, text};

pub use credentials::Credential;
pub use functions::{Effects, FUNCTION_DESCRIPTION_MAX, FUNCTIONS_ADVISED, Function, MAX_FUNCTIONS};
pub use runtime::{MAX_TIMEOUT_MS, NetworkRequest, Runtime, RuntimeKind, SandboxRequest};
pub use server::is_loopback_url;

/// Longest display name, in code points: the limit of ERC-8257 for published tools.
pub const NAME_MAX: usize = 128;

/// Longest description of the tool, in code points: the limit of ERC-8257 for published tools.
pub const DESCRIPTION_MAX: usize = 500;

/// Most unknown fields of one object that are compared with the known ones. Comparing is slow, and an object with hundreds of unknown
/// fields rarely has just a typo.
const UNKNOWN_COMPARED: usize = 64;

/// The fields of the format itself.
const FIELDS: &[&str] = &["id", "name", "description", "version", "credentials", "functions"];

/// Names of fields in other formats.
const OTHER_NAMES: &[(&str, &str)] = &[("tools", "functions"), ("title", "name")];

/// A local tool's manifest without errors, with its source document.
#[derive(Clone, Debug)]
pub struct LocalManifest {
    document: Document,
    view: View,
}

/// The fields of a local manifest.
#[derive(Clone, Debug)]
pub struct View {
    id: String,
    name: String,
    description: String,
    version: String,
    credentials: Vec<Credential>,
    functions: Vec<Function>,
    runtime: Option<Runtime>,
    sandbox: SandboxRequest,
}

impl LocalManifest {
    /// The id: the name of the folder, and the first part of every exposed name.
    pub fn id(&self) -> &str {
        &self.view.id
    }

    /// The display name. Untrusted text.
    pub fn name(&self) -> &str {
        &self.view.name
    }

    /// The description of the tool. Untrusted text.
    pub fn description(&self) -> &str {
        &self.view.description
    }

    /// The semantic version.
    pub fn version(&self) -> &str {
        &self.view.version
    }

    /// The credentials that the user must provide.
    pub fn credentials(&self) -> &[Credential] {
        &self.view.credentials
    }

    /// The functions that a model may call, in the author's order. Never empty.
    pub fn functions(&self) -> &[Function] {
        &self.view.functions
    }

    /// The function called `name`.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.view.functions.iter().find(|function| function.name() == name)
    }

    /// How the functions run, if the manifest says so.
    pub const fn runtime(&self) -> Option<&Runtime> {
        self.view.runtime.as_ref()
    }

    /// The permissions that the tool requests beyond its own folder.
    pub const fn sandbox(&self) -> &SandboxRequest {
        &self.view.sandbox
    }

    /// The schema of the parameters of the function called `name`.
    pub fn parameters(&self, name: &str) -> Option<Value<'_>> {
        let functions = self.document.root().get("functions")?.as_array()?;
        functions.iter().find(|function| function.get("name").and_then(Value::as_str) == Some(name))?.get("parameters")
    }

    /// The parsed document, including fields that this version does not know.
    pub const fn document(&self) -> &Document {
        &self.document
    }
}

impl Manifest for LocalManifest {
    type View = View;

    const LIMITS: Limits = Limits { max_bytes: json::MAX_BYTES, max_depth: json::MAX_DEPTH };

    // The format does not mention normal forms; they matter only when the tool is published.
    const NFC: Severity = Severity::Warning;

    fn check(root: Object<'_>, context: &mut Context) -> Option<View> {
        let id = context.required(root, "id", root.get("id")).and_then(|value| check_id(value, context));
        let name = required_text(root, "name", LABEL, context);
        let description = required_text(root, "description", DESCRIPTION, context);
        let version = context.required(root, "version", root.get("version")).and_then(|value| check_version(value, context));
        let credentials = credentials::check(root, context);
        let functions = functions::check(root, id, context);
        let running = runtime::check(root, context);
        if let Some(credentials) = &credentials {
            credentials::check_use(root, credentials, context);
        }
        later::check(root, context);
        hint_unknown(root, FIELDS.iter().chain(runtime::FIELDS).chain(later::FIELDS).copied(), OTHER_NAMES, context);
        let (runtime, sandbox) = running?;
        Some(View {
            id: id?.to_owned(),
            name: name?.to_owned(),
            description: description?.to_owned(),
            version: version?.to_owned(),
            credentials: credentials?,
            functions: functions?,
            runtime,
            sandbox,
        })
    }

    fn assemble(document: Document, view: View) -> Self {
        Self { document, view }
    }
}

/// Compares the id with the name of the folder that contains the manifest.
pub fn check_folder(manifest: &LocalManifest, folder_name: &str) -> Option<Finding> {
    check_folder_of(&manifest.document, folder_name)
}

/// Like [`check_folder`], for a document that may have errors. No finding if there is no id to compare.
pub(crate) fn check_folder_of(document: &Document, folder_name: &str) -> Option<Finding> {
    let value = document.root().get("id")?;
    let id = value.as_str()?;
    (id != folder_name).then(|| {
        let case = if id.eq_ignore_ascii_case(folder_name) { ", in upper and lower case only" } else { "" };
        Finding::new(codes::local::FOLDER_MISMATCH)
            .at(value)
            .message(format!("the id differs from the name of the folder{case}"))
            .expected(folder_name)
            .got(id)
    })
}

/// A template manifest as indented JSON. It has no findings if `id` is a slug.
pub fn template(id: &str) -> String {
    let name = id
        .split(['-', '_'])
        .filter(|word| !word.is_empty())
        .map(|word| {
            let mut letters = word.chars();
            letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
        })
        .collect::<Vec<_>>()
        .join(" ");
    let quoted = |text: &str| {
        let mut out = String::new();
        canon::write_string(text, &mut out);
        out
    };
    let name = quoted(if name.is_empty() { id } else { &name });
    let id = quoted(id);
    format!(
        r#"{{
  "id": {id},
  "name": {name},
  "description": "Describe in one or two sentences what the tool is for.",
  "version": "0.1.0",
  "credentials": [],
  "functions": [
    {{
      "name": "greet",
      "description": "Greets a person by name and returns the greeting.",
      "parameters": {{
        "type": "object",
        "properties": {{
          "person": {{
            "type": "string",
            "description": "Name of the person to greet."
          }}
        }},
        "required": ["person"],
        "additionalProperties": false
      }}
    }}
  ]
}}
"#
    )
}

fn check_id<'d>(value: Value<'d>, context: &mut Context) -> Option<&'d str> {
    let id = context.string(value)?;
    if !names::is_name(id) {
        context.report(
            Finding::new(codes::local::ID_GRAMMAR)
                .at(value)
                .expected("1 to 64 letters, digits, `_` and `-`, with a letter or digit first")
                .got(id),
        );
        return None;
    }
    if id.contains('_') {
        context.report(Finding::new(codes::local::ID_UNDERSCORE).at(value).expected(id.replace('_', "-")).got(id));
    }
    if !names::is_slug(&id.replace('_', "-")) {
        context.report(
            Finding::new(codes::local::ID_NOT_SLUG).at(value).expected("lower-case letters, digits and inner hyphens").got(id),
        );
    }
    if id.len() > names::ID_ADVISED {
        context.report(
            Finding::new(codes::local::ID_LONG)
                .at(value)
                .expected(format!("at most {} characters", names::ID_ADVISED))
                .got(id.len().to_string()),
        );
    }
    Some(id)
}

fn check_version<'d>(value: Value<'d>, context: &mut Context) -> Option<&'d str> {
    let version = context.string(value)?;
    if semver::is_semver(version) {
        return Some(version);
    }
    let mut finding =
        Finding::new(codes::local::VERSION_NOT_SEMVER).at(value).expected("three numbers, such as 1.0.0").got(version);
    // Repository tags often start with `v`; the version after it is meant.
    if let Some(bare) = version.strip_prefix(['v', 'V']).filter(|bare| semver::is_semver(bare)) {
        finding = finding.fix(Fix::replace_string(value, "remove the prefix before the version", bare));
    }
    context.report(finding);
    None
}

/// The rules of one kind of text.
#[derive(Clone, Copy)]
struct TextRule {
    max: usize,
    too_long: Code,
    /// Allowed control characters.
    controls: &'static [char],
}

/// Names and labels: one line.
const LABEL: TextRule = TextRule { max: NAME_MAX, too_long: codes::local::NAME_LONG, controls: &[] };

/// Help texts and the description of the tool: line breaks and tabs are allowed.
const DESCRIPTION: TextRule =
    TextRule { max: DESCRIPTION_MAX, too_long: codes::local::DESCRIPTION_LONG, controls: &['\n', '\r', '\t'] };

/// Checks a required text that must not be empty.
fn required_text<'d>(object: Object<'d>, key: &str, rule: TextRule, context: &mut Context) -> Option<&'d str> {
    let value = context.required(object, key, object.get(key))?;
    let content = check_text(value, rule, context)?;
    if content.trim().is_empty() {
        context.report(Finding::new(codes::local::TEXT_EMPTY).at(value).message(format!("`{key}` is empty")));
        return None;
    }
    Some(content)
}

/// Checks a text that people or models read.
fn check_text<'d>(value: Value<'d>, rule: TextRule, context: &mut Context) -> Option<&'d str> {
    let content = context.string(value)?;
    context.code_points(value, content, 0..=rule.max, rule.too_long);
    if let Some(c) = text::first_control(content, rule.controls) {
        context.report(Finding::new(codes::local::CONTROL_CHARACTER).at(value).got(format!("U+{:04X}", u32::from(c))));
    }
    if let Some(c) = content.chars().find(|&c| text::is_invisible(c)) {
        context.report(Finding::new(codes::json::INVISIBLE).at(value).got(format!("U+{:04X}", u32::from(c))));
    }
    Some(content)
}

/// Hints at unknown fields that resemble a missing known one. `others` are names that other formats use for a known field.
fn hint_unknown<'k>(
    object: Object<'_>,
    known: impl Iterator<Item = &'k str> + Clone,
    others: &[(&str, &'static str)],
    context: &mut Context,
) {
    let unknown = object.iter().filter(|(key, _)| known.clone().all(|name| name != *key)).take(UNKNOWN_COMPARED);
    for (key, value) in unknown {
        let absent = known.clone().filter(|name| object.get(name).is_none());
        let other = others.iter().find(|(name, meant)| *name == key && object.get(meant).is_none()).map(|(_, meant)| *meant);
        if let Some(meant) = other.or_else(|| near::nearest(key, absent)) {
            context.report(
                Finding::new(codes::local::UNKNOWN_FIELD)
                    .at_key(value)
                    .message(format!("unknown field; did you mean `{meant}`?"))
                    .expected(meant)
                    .got(key),
            );
        }
    }
}

#[cfg(test)]
mod tests;
