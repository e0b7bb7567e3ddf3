//! Credentials that the user must provide before the tool works: names and labels, never values.

use std::collections::BTreeSet;

use super::{DESCRIPTION, LABEL, check_text, hint_unknown, later, names, required_text};
use crate::checked::Context;
use crate::codes;
use crate::finding::{Finding, Severity};
use crate::json::{Array, Object, Value};
use crate::secrets;

/// Most credentials. Each is a form field for the user.
pub(crate) const MAX_CREDENTIALS: usize = 64;

/// Longest name of a variable, in bytes.
const ENV_MAX: usize = 128;

/// Longest name of a header, in bytes.
const HEADER_MAX: usize = 64;

const FIELDS: &[&str] = &["name", "label", "description", "required", "secret", "env", "header"];

/// Headers that the client sets itself, or that decide where a request goes and how its response is parsed. In lower case.
const OWN_HEADERS: &[&str] = &[
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "origin",
    "proxy-authorization",
    "proxy-connection",
    "referer",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];

/// Members in which an author could publish the value by mistake.
const VALUES: &[&str] = &["value", "default"];

/// A value that the user must provide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credential {
    name: String,
    label: String,
    description: Option<String>,
    required: bool,
    secret: bool,
    env: Option<String>,
    header: Option<String>,
}

impl Credential {
    /// The key under which the handler receives the value.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The label in the settings. Untrusted text.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Help for the user. Untrusted text.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Whether the tool cannot work without it.
    pub const fn required(&self) -> bool {
        self.required
    }

    /// The environment variable in which a third-party program expects the value. Absent for handlers, which receive values in a message.
    pub fn env(&self) -> Option<&str> {
        self.env.as_deref()
    }

    /// The HTTP header in which an MCP server with a `url` expects the value. The value is sent unchanged.
    pub fn header(&self) -> Option<&str> {
        self.header.as_deref()
    }

    /// Whether the value must be hidden. True unless a later-version manifest says `"secret": false`.
    pub const fn secret(&self) -> bool {
        self.secret
    }
}

/// Checks the optional `credentials`.
pub(super) fn check(root: Object<'_>, context: &mut Context) -> Option<Vec<Credential>> {
    let Some(value) = root.get("credentials") else { return Some(Vec::new()) };
    let list = context.array(value)?;
    if list.len() > MAX_CREDENTIALS {
        context.report(
            Finding::new(codes::local::CREDENTIALS_TOO_MANY)
                .at(value)
                .expected(format!("at most {MAX_CREDENTIALS}"))
                .got(list.len().to_string()),
        );
    }
    let mut seen = BTreeSet::new();
    // Each is checked regardless of errors in the others; `None` at the end if any could not be parsed.
    let read: Vec<_> = list.iter().take(MAX_CREDENTIALS).map(|value| check_one(value, &mut seen, context)).collect();
    read.into_iter().collect()
}

fn check_one<'d>(value: Value<'d>, seen: &mut BTreeSet<&'d str>, context: &mut Context) -> Option<Credential> {
    let object = context.object(value)?;
    let name = context.required(object, "name", object.get("name")).and_then(|value| check_name(value, seen, context));
    let label = required_text(object, "label", LABEL, context);
    let description = object.get("description").map(|value| check_text(value, DESCRIPTION, context));
    let required = context.required(object, "required", object.get("required")).and_then(|value| context.boolean(value));
    let secret = later::secret(object, context);
    let env = object.get("env").map(|value| check_env(value, context));
    let header = object.get("header").map(|value| check_header(value, context));
    for (key, value) in VALUES.iter().filter_map(|&key| Some((key, object.get(key)?))) {
        refuse_value(key, value, secret, context);
    }
    hint_unknown(object, FIELDS.iter().chain(VALUES).copied(), &[("title", "label"), ("key", "name")], context);
    Some(Credential {
        name: name?.to_owned(),
        label: label?.to_owned(),
        description: match description {
            Some(text) => Some(text?.to_owned()),
            None => None,
        },
        required: required?,
        secret,
        env: match env {
            Some(env) => Some(env?.to_owned()),
            None => None,
        },
        header: match header {
            Some(header) => Some(header?.to_owned()),
            None => None,
        },
    })
}

/// Reports headers that no runtime sends, and headers that two credentials would set.
pub(super) fn check_use(root: Object<'_>, credentials: &[Credential], context: &mut Context) {
    let runtime = root.get("runtime");
    let sends_headers =
        runtime.is_some_and(|runtime| runtime.get("kind").and_then(Value::as_str) == Some("mcp") && runtime.get("url").is_some());
    let values = root.get("credentials").and_then(Value::as_array).into_iter().flat_map(Array::iter);
    let mut seen = BTreeSet::new();
    for (value, header) in values.zip(credentials).filter_map(|(value, read)| Some((value.get("header")?, read.header()?))) {
        if !sends_headers {
            context.report(Finding::new(codes::local::CREDENTIAL_HEADER_UNUSED).at(value).got(header));
        }
        if !seen.insert(header.to_ascii_lowercase()) {
            context.report(
                Finding::new(codes::local::CREDENTIAL_HEADER)
                    .at(value)
                    .message(format!("another credential uses the header `{header}`"))
                    .got(header),
            );
        }
    }
}

/// Rejects headers that control the request or its framing.
fn check_header<'d>(value: Value<'d>, context: &mut Context) -> Option<&'d str> {
    let name = context.string(value)?;
    let is_name = !name.is_empty()
        && name.len() <= HEADER_MAX
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    let lower = name.to_ascii_lowercase();
    if is_name && !OWN_HEADERS.contains(&lower.as_str()) && !lower.starts_with("mcp-") {
        return Some(name);
    }
    context.report(
        Finding::new(codes::local::CREDENTIAL_HEADER)
            .at(value)
            .expected("letters, digits, `-` and `_`; not Host, Cookie, Content-*, Mcp-* or another header that the client sets")
            .got(name),
    );
    None
}

/// Rejects variables that change how programs start.
fn check_env<'d>(value: Value<'d>, context: &mut Context) -> Option<&'d str> {
    let name = context.string(value)?;
    let is_variable = name.len() <= ENV_MAX
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let upper = name.to_ascii_uppercase();
    if is_variable && !names::is_loader_variable(&upper) {
        return Some(name);
    }
    context.report(
        Finding::new(codes::local::CREDENTIAL_ENV)
            .at(value)
            .expected("letters, digits and `_`; not PATH, HOME, LD_*, DYLD_*, NODE_*, PYTHON* or another variable that controls how programs start")
            .got(name),
    );
    None
}

fn check_name<'d>(value: Value<'d>, seen: &mut BTreeSet<&'d str>, context: &mut Context) -> Option<&'d str> {
    let name = context.string(value)?;
    if !names::is_name(name) {
        context.report(
            Finding::new(codes::local::CREDENTIAL_NAME)
                .at(value)
                .expected("1 to 64 letters, digits, `_` and `-`, with a letter or digit first")
                .got(name),
        );
        return None;
    }
    if !seen.insert(name) {
        context.report(
            Finding::new(codes::local::CREDENTIAL_DUPLICATE)
                .at(value)
                .message(format!("another credential has the name `{name}`"))
                .got(name),
        );
    }
    Some(name)
}

fn refuse_value(key: &str, value: Value<'_>, secret: bool, context: &mut Context) {
    let mut finding = Finding::new(codes::local::SECRET_IN_MANIFEST)
        .at(value)
        .expected(format!("no `{key}`"))
        .got(secrets::redacted(value.as_str().unwrap_or_else(|| value.source())));
    if !secret {
        // An address or a user name, which may be shown. It still has no effect.
        finding = finding
            .severity(Severity::Warning)
            .message(format!("`{key}` is not a field of credentials in this format; it is kept and ignored"));
    }
    context.report(finding);
}
