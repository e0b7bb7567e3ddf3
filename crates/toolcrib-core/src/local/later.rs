//! Fields that later versions of the format added.
//!
//! They are kept, not used: a host that supports them reads them from the document. The checks here are light and report typical mistakes.
//! All findings are warnings, because this version does not depend on these fields.

use std::collections::BTreeSet;

use crate::checked::Context;
use crate::codes;
use crate::finding::Finding;
use crate::json::{Array, Kind, Object, Value};

/// Most elements of a list that are checked.
const ITEMS_SEEN: usize = 256;

/// Most findings about the functions of one module.
const MODULE_FINDINGS: usize = 8;

/// The names of the fields.
pub(super) const FIELDS: &[&str] =
    &["logName", "category", "defaultEnabled", "settings", "triggers", "oauth", "modules", "sidecar"];

/// A member and its expected type.
struct Member {
    key: &'static str,
    kind: Kind,
    required: bool,
}

const fn required(key: &'static str, kind: Kind) -> Member {
    Member { key, kind, required: true }
}

const fn optional(key: &'static str, kind: Kind) -> Member {
    Member { key, kind, required: false }
}

const ROOT: &[Member] = &[
    optional("logName", Kind::String),
    optional("category", Kind::String),
    optional("defaultEnabled", Kind::Bool),
    optional("settings", Kind::Array),
    optional("triggers", Kind::Array),
    optional("oauth", Kind::Object),
    optional("modules", Kind::Array),
    optional("sidecar", Kind::Object),
];

const SETTING: &[Member] = &[
    required("name", Kind::String),
    required("label", Kind::String),
    required("type", Kind::String),
    optional("default", Kind::String),
    optional("description", Kind::String),
    optional("options", Kind::Array),
];

const SETTING_TYPES: &[&str] = &["number", "string", "boolean", "select"];

const TRIGGER: &[Member] = &[
    required("id", Kind::String),
    required("label", Kind::String),
    optional("description", Kind::String),
    optional("params", Kind::Array),
];

const OAUTH: &[Member] =
    &[required("provider", Kind::String), required("scopes", Kind::Array), optional("authorizeUrl", Kind::String)];

const MODULE: &[Member] = &[
    required("id", Kind::String),
    required("name", Kind::String),
    optional("description", Kind::String),
    required("functions", Kind::Array),
];

const SIDECAR: &[Member] = &[
    optional("dockerfile", Kind::String),
    required("port", Kind::Number),
    optional("env", Kind::Object),
    optional("transport", Kind::String),
    optional("healthCheck", Kind::String),
    optional("healthTimeout", Kind::Number),
];

const TRANSPORTS: &[&str] = &["mcp-http", "mcp-sse", "http"];

/// Checks every later field that is present.
pub(super) fn check(root: Object<'_>, context: &mut Context) {
    members(root, ROOT, context);
    for setting in items(root, "settings", SETTING, context) {
        one_of(setting, "type", SETTING_TYPES, context);
        if setting.get("type").and_then(Value::as_str) == Some("select") && setting.get("options").is_none() {
            context.report(
                Finding::new(codes::local::LATER_FIELD)
                    .at_missing(setting.value(), "options")
                    .message("a setting of type `select` has no `options`"),
            );
        }
    }
    // Only the shape of the elements is checked.
    let _ = items(root, "triggers", TRIGGER, context);
    let modules = items(root, "modules", MODULE, context);
    if !modules.is_empty() {
        let functions = root.get("functions").and_then(Value::as_array).into_iter().flat_map(Array::iter);
        let existing = functions.filter_map(|function| function.get("name")?.as_str()).collect();
        for module in modules {
            module_functions(&existing, module, context);
        }
    }
    if let Some(oauth) = root.get("oauth").and_then(Value::as_object) {
        members(oauth, OAUTH, context);
    }
    if let Some(sidecar) = root.get("sidecar").and_then(Value::as_object) {
        members(sidecar, SIDECAR, context);
        one_of(sidecar, "transport", TRANSPORTS, context);
        if let Some(port) = sidecar.get("port").filter(|port| port.kind() == Kind::Number)
            && !port.as_u64().is_some_and(|port| (1..=65_535).contains(&port))
        {
            context
                .report(Finding::new(codes::local::LATER_FIELD).at(port).expected("a port from 1 to 65535").got(port.source()));
        }
    }
}

/// Whether a credential is a secret: true unless the member `secret` says otherwise.
pub(super) fn secret(credential: Object<'_>, context: &mut Context) -> bool {
    members(credential, &[optional("secret", Kind::Bool)], context);
    credential.get("secret").and_then(Value::as_bool).unwrap_or(true)
}

/// Returns the objects in the list `key` after checking each.
fn items<'d>(root: Object<'d>, key: &str, shape: &[Member], context: &mut Context) -> Vec<Object<'d>> {
    let list = root.get(key).and_then(Value::as_array);
    let mut objects = Vec::new();
    for item in list.into_iter().flat_map(Array::iter).take(ITEMS_SEEN) {
        match item.as_object() {
            Some(object) => {
                members(object, shape, context);
                objects.push(object);
            }
            None => unexpected(item, Kind::Object, context),
        }
    }
    objects
}

fn members(object: Object<'_>, shape: &[Member], context: &mut Context) {
    for member in shape {
        match object.get(member.key) {
            Some(value) if value.kind() != member.kind => unexpected(value, member.kind, context),
            None if member.required => context.report(
                Finding::new(codes::local::LATER_FIELD)
                    .at_missing(object.value(), member.key)
                    .message(format!("`{}` is missing", member.key))
                    .expected(member.kind.described()),
            ),
            _ => {}
        }
    }
}

fn unexpected(value: Value<'_>, wanted: Kind, context: &mut Context) {
    context.report(Finding::new(codes::local::LATER_FIELD).at(value).expected(wanted.described()).got(value.kind().described()));
}

fn one_of(object: Object<'_>, key: &str, allowed: &[&str], context: &mut Context) {
    if let Some((value, text)) = object.get(key).and_then(|value| Some((value, value.as_str()?)))
        && !allowed.contains(&text)
    {
        context.report(
            Finding::new(codes::local::LATER_FIELD).at(value).expected(format!("one of {}", allowed.join(", "))).got(text),
        );
    }
}

fn module_functions(existing: &BTreeSet<&str>, module: Object<'_>, context: &mut Context) {
    let listed = module.get("functions").and_then(Value::as_array);
    let wrong = listed.into_iter().flat_map(Array::iter).filter(|name| name.as_str().is_none_or(|name| !existing.contains(name)));
    for value in wrong.take(MODULE_FINDINGS) {
        match value.as_str() {
            Some(name) => context.report(
                Finding::new(codes::local::MODULE_FUNCTION).at(value).expected("the name of a function of this tool").got(name),
            ),
            None => unexpected(value, Kind::String, context),
        }
    }
}
