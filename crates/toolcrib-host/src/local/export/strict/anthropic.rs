//! Strict schemas of Anthropic: closed objects and few keywords; the rest is moved into the description.
//!
//! The result equals that of the vendor's `transformJSONSchema`, which a test with that package asserts, for schemas whose meaning it
//! keeps. All others are refused.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

use super::super::reverse::resolve;
use super::{ANNOTATIONS, MAX_DEPTH, describe, is_object, is_open, place, types};

/// Formats that strict mode supports. Others are moved into the description.
const FORMATS: [&str; 10] = ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"];

/// Keywords with subschemas that would be moved into the description as text. Without them a model could choose arguments that they
/// forbid, or not choose arguments that only they allow.
const UNSUPPORTED: [&str; 21] = [
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "additionalItems",
    "allOf",
    "contains",
    "contentSchema",
    "definitions",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "not",
    "patternProperties",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "$vocabulary",
];

/// The limits that all strict tools of one request share.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::local::export) struct Budget {
    pub(in crate::local::export) tools: usize,
    pub(in crate::local::export) optional: usize,
    pub(in crate::local::export) unions: usize,
}

/// Returns the strict form of a schema and counts it, or the reason why there is none.
pub(in crate::local::export) fn transform(schema: &Json, budget: &mut Budget) -> Result<Json, String> {
    let mut work = Work { root: schema, budget: Budget { tools: 1, ..Budget::default() } };
    let strict = work.schema(schema, &mut Vec::new())?;
    work.refuse_recursion()?;
    budget.tools += work.budget.tools;
    budget.optional += work.budget.optional;
    budget.unions += work.budget.unions;
    Ok(strict)
}

struct Work<'s> {
    root: &'s Json,
    budget: Budget,
}

impl Work<'_> {
    fn schema(&mut self, schema: &Json, path: &mut Vec<String>) -> Result<Json, String> {
        let Json::Object(members) = schema else { return Err(format!("{} is a boolean schema", place(path))) };
        if path.len() > MAX_DEPTH {
            return Err("it nests too deeply".to_owned());
        }
        if let Some(keyword) = UNSUPPORTED.iter().find(|keyword| members.contains_key(**keyword)) {
            return Err(format!("`{keyword}` at {} has no strict form", place(path)));
        }
        let mut out = Map::new();
        if let Some(definitions) = members.get("$defs").and_then(Json::as_object) {
            let mut strict = Map::new();
            for (name, definition) in definitions {
                path.extend(["$defs".to_owned(), name.clone()]);
                strict.insert(name.clone(), self.schema(definition, path)?);
                path.truncate(path.len() - 2);
            }
            out.insert("$defs".to_owned(), strict.into());
        }
        if let Some(reference) = members.get("$ref") {
            if let Some(other) =
                members.keys().find(|key| !matches!(key.as_str(), "$ref" | "$defs") && !ANNOTATIONS.contains(&key.as_str()))
            {
                return Err(format!("the reference at {} has `{other}` beside it", place(path)));
            }
            let usable = reference.as_str().is_some_and(|to| to.starts_with("#/$defs/") && resolve(to, self.root).is_some());
            if !usable {
                return Err(format!("the reference at {} does not lead to a definition", place(path)));
            }
            out.insert("$ref".to_owned(), reference.clone());
            return Ok(out.into());
        }
        let mut left = members.clone();
        left.shift_remove("$defs");
        left.shift_remove("$schema");
        self.literals(&mut left, &mut out, path)?;
        self.kind(members, &mut left, &mut out, path)?;
        for annotation in ["description", "title"] {
            if let Some(text) = left.shift_remove(annotation) {
                out.insert(annotation.to_owned(), text);
            }
        }
        match out.get("type").and_then(Json::as_str).map(str::to_owned).as_deref() {
            Some("object") => self.object(members, &mut left, &mut out, path)?,
            Some("string") => {
                if let Some(format) = left.shift_remove("format") {
                    let known = format.as_str().is_some_and(|format| FORMATS.contains(&format));
                    // Unknown formats move to the end of the list, as in the vendor's code.
                    if known { &mut out } else { &mut left }.insert("format".to_owned(), format);
                }
            }
            Some("array") => self.array(&mut left, &mut out, path)?,
            _ => {}
        }
        let moved: Vec<_> = left.into_iter().collect();
        describe(&mut out, &moved);
        Ok(out.into())
    }

    /// `enum` and `const` replace the type.
    fn literals(&mut self, left: &mut Map<String, Json>, out: &mut Map<String, Json>, path: &[String]) -> Result<(), String> {
        for keyword in ["enum", "const"] {
            let Some(value) = left.get(keyword) else { continue };
            let compound = |value: &Json| value.is_array() || value.is_object();
            let refused = match (keyword, value) {
                ("enum", Json::Array(values)) => values.is_empty() || values.iter().any(compound),
                ("enum", _) => true,
                (_, value) => compound(value),
            };
            if refused {
                return Err(format!("`{keyword}` at {} holds more than plain values", place(path)));
            }
            if let Some(value) = left.shift_remove(keyword) {
                out.insert(keyword.to_owned(), value);
            }
        }
        Ok(())
    }

    fn kind(
        &mut self,
        members: &Map<String, Json>,
        left: &mut Map<String, Json>,
        out: &mut Map<String, Json>,
        path: &mut Vec<String>,
    ) -> Result<(), String> {
        let kind = left.shift_remove("type");
        let has_literals = out.contains_key("enum") || out.contains_key("const");
        let any = left.shift_remove("anyOf");
        let one = left.shift_remove("oneOf");
        if let Some(branches) = any.or(one) {
            let is_known = |key: &str| matches!(key, "anyOf" | "oneOf" | "$defs" | "$schema") || ANNOTATIONS.contains(&key);
            if let Some(other) = members.keys().find(|key| !is_known(key)) {
                return Err(format!("the union at {} has `{other}` beside it", place(path)));
            }
            if members.contains_key("anyOf") && members.contains_key("oneOf") {
                return Err(format!("there are two unions at {}", place(path)));
            }
            let mut strict = Vec::new();
            for (index, branch) in branches.as_array().into_iter().flatten().enumerate() {
                path.extend(["anyOf".to_owned(), index.to_string()]);
                strict.push(self.schema(branch, path)?);
                path.truncate(path.len() - 2);
            }
            self.budget.unions += 1;
            out.insert("anyOf".to_owned(), strict.into());
            return Ok(());
        }
        if has_literals {
            return if is_object(members) { Err(format!("the object at {} is enumerated", place(path))) } else { Ok(()) };
        }
        match kind {
            Some(Json::Array(_)) if types(members).iter().any(|kind| matches!(*kind, "object" | "array")) => {
                Err(format!("{} is a union of types with objects or arrays", place(path)))
            }
            Some(kind @ Json::Array(_)) => {
                self.budget.unions += 1;
                out.insert("type".to_owned(), kind);
                Ok(())
            }
            Some(kind) if kind == "object" || !is_object(members) => {
                out.insert("type".to_owned(), kind);
                Ok(())
            }
            _ => Err(format!("{} has no type", place(path))),
        }
    }

    fn object(
        &mut self,
        members: &Map<String, Json>,
        left: &mut Map<String, Json>,
        out: &mut Map<String, Json>,
        path: &mut Vec<String>,
    ) -> Result<(), String> {
        if is_open(members, path.is_empty()) {
            return Err(format!("the object at {} takes properties that it does not list", place(path)));
        }
        let required = left.shift_remove("required");
        let names: Vec<_> = required.as_ref().and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str).collect();
        let mut strict = Map::new();
        if let Some(Json::Object(properties)) = left.shift_remove("properties") {
            for (name, property) in &properties {
                self.budget.optional += usize::from(!names.contains(&name.as_str()));
                path.extend(["properties".to_owned(), name.clone()]);
                strict.insert(name.clone(), self.schema(property, path)?);
                path.truncate(path.len() - 2);
            }
        }
        if let Some(name) = names.iter().find(|name| !strict.contains_key(**name)) {
            return Err(format!("`{name}` is required and not listed at {}", place(path)));
        }
        left.shift_remove("additionalProperties");
        out.insert("properties".to_owned(), strict.into());
        out.insert("additionalProperties".to_owned(), false.into());
        if let Some(required) = required {
            out.insert("required".to_owned(), required);
        }
        Ok(())
    }

    fn array(&mut self, left: &mut Map<String, Json>, out: &mut Map<String, Json>, path: &mut Vec<String>) -> Result<(), String> {
        let Some(items) = left.shift_remove("items") else {
            return Err(format!("the array at {} does not say what it holds", place(path)));
        };
        path.push("items".to_owned());
        let items = self.schema(&items, path)?;
        path.pop();
        out.insert("items".to_owned(), items);
        if let Some(least) = left.shift_remove("minItems") {
            let known = least.as_u64().is_some_and(|least| least <= 1);
            if known { out } else { left }.insert("minItems".to_owned(), least);
        }
        Ok(())
    }

    /// Strict mode does not support recursive schemas.
    fn refuse_recursion(&self) -> Result<(), String> {
        let Some(definitions) = self.root.get("$defs").and_then(Json::as_object) else { return Ok(()) };
        // Repeatedly removes definitions without references to remaining ones; those that stay are recursive.
        let mut left: BTreeMap<&str, BTreeSet<String>> =
            definitions.iter().map(|(name, schema)| (name.as_str(), definitions_in(schema))).collect();
        loop {
            let names: BTreeSet<String> = left.keys().map(|name| (*name).to_owned()).collect();
            left.retain(|_, to| !to.is_disjoint(&names));
            if left.is_empty() {
                return Ok(());
            }
            if left.len() == names.len() {
                return Err("a definition refers to itself".to_owned());
            }
        }
    }
}

/// The definitions that a transformed schema refers to, at any depth.
fn definitions_in(schema: &Json) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut left = vec![schema];
    while let Some(value) = left.pop() {
        match value {
            Json::Object(members) => {
                let reference = members.get("$ref").and_then(Json::as_str).and_then(|to| to.strip_prefix("#/$defs/"));
                found.extend(reference.map(|to| to.split('/').next().unwrap_or(to).replace("~1", "/").replace("~0", "~")));
                left.extend(members.values());
            }
            Json::Array(items) => left.extend(items),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn constraints_move_into_the_description() {
        let mut budget = Budget::default();
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string", "pattern": "^x", "description": "d"}, "b": {"type": "integer", "minimum": 1, "maximum": 5},
            "c": {"type": "array", "items": {"type": "string"}, "minItems": 2}, "d": {"oneOf": [{"type": "string"}, {"type": "null"}]},
            "e": {"type": "string", "enum": ["x", "y"], "default": "x"}, "f": {"type": "string", "format": "uri"}}, "required": ["a"]});
        let expected = json!({"type": "object", "properties": {
            "a": {"type": "string", "description": "d\n\n{pattern: \"^x\"}"}, "b": {"type": "integer", "description": "{minimum: 1, maximum: 5}"},
            "c": {"type": "array", "items": {"type": "string"}, "description": "{minItems: 2}"},
            "d": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "e": {"enum": ["x", "y"], "description": "{default: \"x\"}"},
            "f": {"type": "string", "format": "uri"}}, "additionalProperties": false, "required": ["a"]});
        assert_eq!(transform(&schema, &mut budget), Ok(expected));
        assert_eq!((budget.tools, budget.optional, budget.unions), (1, 5, 1));
    }

    #[test]
    fn what_would_be_emptied_is_refused() {
        let property = |schema: Json| json!({"type": "object", "properties": {"p": schema}});
        for refused in [
            property(json!({"type": "object", "additionalProperties": {"type": "string"}})),
            property(json!({"type": "object"})),
            property(json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": true})),
            property(json!({"type": ["object", "null"], "properties": {"a": {"type": "string"}}})),
            property(json!({"type": "object", "patternProperties": {"x": {"type": "string"}}})),
            property(json!({"properties": {"a": {"type": "string"}}})),
            property(json!({"anyOf": [{"type": "string"}], "properties": {"a": {"type": "string"}}})),
            property(json!({"type": "array"})),
            property(json!(false)),
            property(json!({})),
            property(json!({"enum": [{"a": 1}]})),
            property(json!({"allOf": [{"type": "string"}]})),
            json!({"type": "object", "properties": {"p": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "object", "properties": {"n": {"$ref": "#/$defs/a"}}}}}),
            json!({"type": "object", "properties": {"p": {"$ref": "#"}}}),
            json!({"type": "object", "properties": {}, "definitions": {"a": {"type": "string"}}}),
        ] {
            let mut budget = Budget::default();
            assert!(transform(&refused, &mut budget).is_err(), "{refused}");
            assert_eq!(budget.tools, 0);
        }
    }
}
