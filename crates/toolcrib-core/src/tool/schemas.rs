//! `inputs` and `outputs`: they share one limit of nodes, and their prefilled values are collected.

use super::Fields;
use crate::checked::Context;
use crate::codes;
use crate::finding::{Finding, Severity};
use crate::json::{Object, Value};
use crate::schema::{self, Prefilled, Totals};

pub(super) fn check(root: Object<'_>, fields: &Fields<'_>, context: &mut Context) -> Vec<Prefilled> {
    let mut totals = Totals::default();
    let mut survey = |key, found, context: &mut Context| {
        let value = context.required(root, key, found)?;
        context.object(value)?;
        Some(schema::check(value, &mut totals, context))
    };
    let inputs = survey("inputs", fields.inputs, context);
    survey("outputs", fields.outputs, context);
    let prefilled = inputs.map(|survey| survey.prefilled).unwrap_or_default();
    if prefilled.is_empty() {
        return prefilled;
    }
    let severity = if fields.pricing.is_some() || suggests_state_change(fields) { Severity::Warning } else { Severity::Hint };
    for filled in &prefilled {
        let mut finding = Finding::new(codes::tool::SCHEMA_PREFILLED)
            .at_span(filled.span)
            .severity(severity)
            .message(format!("`{}` sets a value that the caller did not choose", filled.keyword))
            .got(&filled.value);
        finding.pointer.clone_from(&filled.pointer);
        context.report(finding);
    }
    prefilled
}

/// Whether the description mentions moving or changing something: ERC-8257 Schema `default` and `const` Injection.
fn suggests_state_change(fields: &Fields<'_>) -> bool {
    const WORDS: [&str; 16] = [
        "transfer", "approve", "deploy", "swap", "send", "mint", "buy", "sell", "sign", "bridge", "withdraw", "deposit", "stake",
        "trade", "execute", "delete",
    ];
    fields.description.and_then(Value::as_str).is_some_and(|description| {
        description.split(|c: char| !c.is_alphanumeric()).any(|word| {
            WORDS.iter().any(|verb| {
                word.get(..verb.len()).is_some_and(|start| start.eq_ignore_ascii_case(verb)) && word.len() <= verb.len() + 3
            })
        })
    })
}
