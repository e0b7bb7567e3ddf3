//! Fields beyond the standard: they are kept and hashed, never fatal, and sometimes misspelt.

use super::verifiability::is_reverse_dns;
use super::{FIELD_NAMES, Fields};
use crate::checked::Context;
use crate::codes;
use crate::finding::Finding;
use crate::json::Object;
use crate::near;

pub(super) fn check(root: Object<'_>, fields: &Fields<'_>, context: &mut Context) {
    for (key, value) in root.iter() {
        if FIELD_NAMES.contains(&key) {
            continue;
        }
        if context.findings.is_full() {
            // The rest would be warnings and hints that are not shown.
            break;
        }
        // Authors also put the id one level down, as in `"registry": {"toolId": 41}`.
        let inner = value.as_object().and_then(|object| object.iter().find(|(name, _)| is_self_reference(name)));
        if let Some((name, id)) = inner {
            context.report(Finding::new(codes::tool::SELF_REFERENCE).at_key(id).got(name));
        }
        let report = |code, context: &mut Context| context.report(Finding::new(code).at_key(value).got(key));
        if let Some(defined) = lookalike(key, &FIELD_NAMES) {
            context.report(Finding::new(codes::tool::FIELD_LOOKALIKE).at_key(value).expected(defined).got(key));
        } else if is_self_reference(key) {
            report(codes::tool::SELF_REFERENCE, context);
        } else if key.starts_with("x-") {
            report(codes::tool::EXTENSION_X, context);
        } else if !is_reverse_dns(key) && !is_foreign(key, fields) {
            report(codes::tool::EXTENSION_BARE, context);
        }
    }
    if fields.endpoint.is_none()
        && let Some(value) = FOREIGN.iter().find_map(|key| root.get(key))
    {
        context.report(Finding::new(codes::tool::FOREIGN_SHAPE).at_key(value));
    }
    if let Some(value) = fields.max_age
        && value.as_u64().is_none()
    {
        context.report(Finding::new(codes::tool::MAX_AGE_IGNORED).at(value).got(value.source()));
    }
}

/// Reports undefined members of an object that the standard defines.
pub(super) fn check_subfields(object: Object<'_>, defined: &[&str], context: &mut Context) {
    for (key, value) in object.iter() {
        if context.findings.is_full() {
            break;
        }
        if defined.contains(&key) || is_reverse_dns(key) || key.starts_with("x-") {
            continue;
        }
        let finding = Finding::new(codes::tool::UNKNOWN_SUBFIELD).at_key(value).got(key);
        context.report(match lookalike(key, defined) {
            Some(name) => finding.expected(name),
            None => finding,
        });
    }
}

/// Field names of other tool formats; see [`codes::tool::FOREIGN_SHAPE`].
const FOREIGN: [&str; 5] = ["url", "inputSchema", "outputSchema", "input_schema", "output_schema"];

/// Whether the single finding about another tool format covers this field.
fn is_foreign(key: &str, fields: &Fields<'_>) -> bool {
    fields.endpoint.is_none() && FOREIGN.contains(&key)
}

fn is_self_reference(key: &str) -> bool {
    let last = key.rsplit('.').next().unwrap_or(key);
    ["toolid", "tool_id", "manifesthash", "manifest_hash", "onchainid"].iter().any(|name| last.eq_ignore_ascii_case(name))
}

/// The defined name that `key` was probably meant to be.
fn lookalike<'n>(key: &str, defined: &[&'n str]) -> Option<&'n str> {
    near::nearest(key.strip_prefix("x-").unwrap_or(key), defined.iter().copied())
        .or_else(|| key.strip_prefix("x-").and_then(|bare| defined.iter().copied().find(|name| *name == bare)))
}
