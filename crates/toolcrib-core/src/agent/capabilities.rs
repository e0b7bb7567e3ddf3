//! `capabilities`: what an agent can do, with schemas of input and output.

use std::collections::BTreeSet;

use super::vocabulary::{self, CAPABILITIES, KnownCapability};
use super::{check_id, check_unknown, display_text, entries, is_full, is_settled, optional_text};
use crate::checked::Context;
use crate::codes;
use crate::finding::Finding;
use crate::json::{Object, Value};
use crate::schema;

/// Longest description of a capability: .agt 1.0 §2.
pub const MAX_DESCRIPTION: usize = 200;

/// One entry of `capabilities`.
#[derive(Clone, Copy, Debug)]
pub struct Capability<'d>(Object<'d>);

impl<'d> Capability<'d> {
    pub(super) const fn new(object: Object<'d>) -> Self {
        Self(object)
    }

    /// The id of the capability.
    pub fn id(self) -> &'d str {
        self.0.get("id").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the capability if it is one of the 69 of the specification; otherwise it is a custom one.
    pub fn known(self) -> Option<&'static KnownCapability> {
        vocabulary::capability_by_id(self.id())
    }

    /// The agent's description of it.
    pub fn description(self) -> Option<&'d str> {
        self.0.get("description")?.as_str()
    }

    /// The JSON Schema of its input.
    pub fn input(self) -> Option<Value<'d>> {
        self.0.get("input")
    }

    /// The JSON Schema of its output.
    pub fn output(self) -> Option<Value<'d>> {
        self.0.get("output")
    }
}

const FIELDS: &[&str] = &["id", "description", "input", "output"];

/// Checks the `capabilities` field.
pub(super) fn check(value: Value<'_>, context: &mut Context) {
    let mut seen = BTreeSet::new();
    let mut totals = schema::Totals::default();
    for entry in entries(value, context) {
        if is_settled(context) {
            break;
        }
        let Some(object) = context.object(entry) else { continue };
        check_unknown(object, FIELDS, context);
        if let Some(id) = context.required(object, "id", object.get("id"))
            && let Some(text) = context.string(id)
        {
            check_id(id, text, CAPABILITIES.iter().map(|known| known.id), context);
            if !seen.insert(text) && !is_full(context) {
                context.report(
                    Finding::new(codes::agent::DUPLICATE_ENTRY).at(id).message("the same capability appears twice").got(text),
                );
            }
        }
        if let Some((description, text)) = optional_text(object, "description", context) {
            context.code_points(description, text, 0..=MAX_DESCRIPTION, codes::agent::CAPABILITY_DESCRIPTION_LENGTH);
            display_text(description, text, context);
        }
        for key in ["input", "output"] {
            // A bare `true` is a schema to JSON Schema, but the specification asks for an object.
            if let Some(schema) = object.get(key)
                && context.object(schema).is_some()
            {
                schema::check(schema, &mut totals, context);
            }
        }
    }
}
