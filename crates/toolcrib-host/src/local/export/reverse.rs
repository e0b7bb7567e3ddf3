//! Maps what a model calls back to the function and its arguments.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

/// Deepest nesting of arguments that is searched. The validator refuses deeper ones anyway.
const MAX_DEPTH: usize = 64;

/// Most schemas that apply to one value, through `anyOf` and references.
const MAX_APPLICABLE: usize = 64;

/// Most values of arguments that are searched for nulls by the host: each is compared with up to [`MAX_APPLICABLE`] schemas. Models write
/// far fewer.
const MAX_RESTORED: usize = 2_000;

/// Maps exposed names back to functions, and arguments of strict mode back to those of the manifest.
#[derive(Clone, Debug, Default)]
pub struct ReverseMap {
    functions: BTreeMap<String, Original>,
}

#[derive(Clone, Debug)]
struct Original {
    tool: String,
    function: String,
    schema: Json,
}

impl ReverseMap {
    pub(super) fn insert(&mut self, name: &str, tool: &str, function: &str, schema: Json) {
        self.functions.insert(name.to_owned(), Original { tool: tool.to_owned(), function: function.to_owned(), schema });
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.functions.remove(name);
    }

    /// Returns the id of the tool and the name of the function that a model calls `name`.
    pub fn resolve(&self, name: &str) -> Option<(&str, &str)> {
        self.functions.get(name).map(|original| (original.tool.as_str(), original.function.as_str()))
    }

    /// All exposed names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.functions.keys().map(String::as_str)
    }

    /// Removes the nulls that stand for absent optional parameters in strict mode.
    ///
    /// A null is removed if the manifest's schema declares the parameter, does not require it and does not allow null. All other values
    /// stay, so that arguments of a model without strict mode only change if they would be refused. Call this before validating the
    /// arguments. Arguments of unknown functions are returned unchanged.
    pub fn restore(&self, name: &str, arguments: Json) -> Json {
        let Some(original) = self.functions.get(name) else { return arguments };
        let mut arguments = arguments;
        restore(&mut arguments, &[&original.schema], &original.schema, 0);
        arguments
    }
}

/// Arguments without the nulls that [`ReverseMap::restore`] removes, by the manifest's schema. `None` if there are none, or if the
/// arguments have more than [`MAX_RESTORED`] values.
pub(crate) fn restored(schema: &Json, arguments: &Json) -> Option<Json> {
    let mut left = MAX_RESTORED;
    if !has_null(arguments, &mut left) || left == 0 {
        return None;
    }
    let mut without = arguments.clone();
    restore(&mut without, &[schema], schema, 0);
    (without != *arguments).then_some(without)
}

/// Whether a value contains a null. Subtracts the number of values from `left`, and stops at zero.
fn has_null(value: &Json, left: &mut usize) -> bool {
    *left = left.saturating_sub(1);
    let mut found = value.is_null();
    // All values are counted, also those after the first null.
    let mut look = |inner: &Json| {
        if *left > 0 {
            found |= has_null(inner, left);
        }
    };
    match value {
        Json::Array(items) => items.iter().for_each(&mut look),
        Json::Object(members) => members.values().for_each(&mut look),
        _ => {}
    }
    found
}

fn restore(value: &mut Json, schemas: &[&Json], root: &Json, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    let schemas = applicable(schemas, root);
    match value {
        Json::Object(members) => {
            let dropped: Vec<_> = members
                .iter()
                .filter(|(key, member)| member.is_null() && is_inserted(key, &schemas, root))
                .map(|(key, _)| key.clone())
                .collect();
            for key in dropped {
                members.shift_remove(&key);
            }
            for (key, member) in members.iter_mut() {
                let below: Vec<_> = schemas.iter().filter_map(|schema| property(schema, key)).collect();
                restore(member, &below, root, depth + 1);
            }
        }
        Json::Array(items) => {
            let below: Vec<_> = schemas.iter().filter_map(|schema| schema.get("items")).collect();
            for item in items {
                restore(item, &below, root, depth + 1);
            }
        }
        _ => {}
    }
}

/// Whether a null under `key` can only mean an absent parameter.
fn is_inserted(key: &str, schemas: &[&Map<String, Json>], root: &Json) -> bool {
    let declared: Vec<_> = schemas.iter().filter_map(|schema| Some((schema, property(schema, key)?))).collect();
    !declared.is_empty() && declared.iter().all(|(schema, property)| !is_required(schema, key) && !takes_null(property, root))
}

fn property<'s>(schema: &'s Map<String, Json>, key: &str) -> Option<&'s Json> {
    schema.get("properties")?.get(key)
}

pub(super) fn is_required(schema: &Map<String, Json>, key: &str) -> bool {
    schema.get("required").and_then(Json::as_array).is_some_and(|names| names.iter().any(|name| name == key))
}

/// Whether a schema allows null, without running a validator: a schema without types does.
pub(super) fn takes_null(schema: &Json, root: &Json) -> bool {
    applicable(&[schema], root).iter().any(|schema| {
        // Members that only delegate to other schemas, which are in the list as well.
        let passes_on = ["$ref", "anyOf", "oneOf", "allOf"].iter().any(|keyword| schema.contains_key(*keyword));
        let by_type = match schema.get("type") {
            Some(Json::String(kind)) => kind == "null",
            Some(Json::Array(kinds)) => kinds.iter().any(|kind| kind == "null"),
            _ => !passes_on,
        };
        let by_enum = schema.get("enum").and_then(Json::as_array).is_none_or(|values| values.iter().any(Json::is_null));
        let by_const = schema.get("const").is_none_or(Json::is_null);
        by_type && by_enum && by_const
    }) || schema == &Json::Bool(true)
}

/// The schemas that apply to a value through `schemas`: themselves, their branches and their references.
fn applicable<'s>(schemas: &[&'s Json], root: &'s Json) -> Vec<&'s Map<String, Json>> {
    let mut found: Vec<&Map<String, Json>> = Vec::new();
    let mut left: Vec<&Json> = schemas.to_vec();
    while let Some(schema) = left.pop() {
        let Json::Object(schema) = schema else { continue };
        if found.len() == MAX_APPLICABLE || found.iter().any(|known| std::ptr::eq(*known, schema)) {
            continue;
        }
        found.push(schema);
        for branches in ["anyOf", "oneOf", "allOf"].iter().filter_map(|keyword| schema.get(*keyword)?.as_array()) {
            left.extend(branches);
        }
        if let Some(target) = schema.get("$ref").and_then(Json::as_str).and_then(|reference| resolve(reference, root)) {
            left.push(target);
        }
    }
    found
}

/// Resolves a reference within the schema. Only JSON pointers are supported.
pub(super) fn resolve<'s>(reference: &str, root: &'s Json) -> Option<&'s Json> {
    let pointer = reference.strip_prefix('#')?;
    if pointer.contains('%') { None } else { root.pointer(pointer) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: Json, arguments: Json, expected: Json) {
        let mut map = ReverseMap::default();
        map.insert("t_f", "t", "f", schema);
        assert_eq!(map.restore("t_f", arguments), expected);
        assert_eq!(map.resolve("t_f"), Some(("t", "f")));
    }

    #[test]
    fn nulls_of_optional_parameters_go() {
        let schema =
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]});
        check(schema.clone(), json!({"a": "x", "b": null}), json!({"a": "x"}));
        check(schema.clone(), json!({"a": null, "b": 1}), json!({"a": null, "b": 1}));
        check(schema.clone(), json!({"a": "x", "unknown": null}), json!({"a": "x", "unknown": null}));
        check(schema, json!("no object"), json!("no object"));
    }

    #[test]
    fn nulls_that_the_schema_takes_stay() {
        for nullable in [
            json!({"type": ["string", "null"]}),
            json!({"type": "null"}),
            json!({}),
            json!(true),
            json!({"enum": ["a", null]}),
            json!({"const": null}),
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
            json!({"$ref": "#/$defs/n"}),
        ] {
            let schema = json!({"type": "object", "properties": {"a": nullable}, "$defs": {"n": {"type": ["integer", "null"]}}});
            check(schema, json!({"a": null}), json!({"a": null}));
        }
        for not in [json!({"enum": ["a"]}), json!({"const": 1}), json!({"type": "string"}), json!({"$ref": "#/$defs/n"})] {
            let schema = json!({"type": "object", "properties": {"a": not}, "$defs": {"n": {"type": "integer"}}});
            check(schema, json!({"a": null}), json!({}));
        }
    }

    #[test]
    fn only_small_arguments_with_nulls_are_restored() {
        let item = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let schema = json!({"type": "object", "properties": {"list": {"type": "array", "items": item}}});
        let list = |count: usize, item: Json| json!({ "list": vec![item; count] });
        assert_eq!(restored(&schema, &list(3, json!({"a": null}))), Some(list(3, json!({}))));
        assert_eq!(restored(&schema, &list(3, json!({"a": "x"}))), None);
        assert_eq!(restored(&schema, &list(3, json!({"b": null}))), None, "nothing is removed");
        assert!(restored(&schema, &list(900, json!({"a": null}))).is_some());
        assert_eq!(restored(&schema, &list(1_000, json!({"a": null}))), None);
    }

    #[test]
    fn nested_objects_lists_branches_and_recursion() {
        let schema = json!({
            "type": "object",
            "properties": {
                "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string"}}}},
                "either": {"anyOf": [{"type": "object", "properties": {"y": {"type": "string"}}}, {"type": "string"}]},
                "child": {"$ref": "#"},
            },
            "required": ["list"],
        });
        check(
            schema,
            json!({"list": [{"x": null}, {"x": "1"}], "either": {"y": null}, "child": {"list": [], "child": null, "either": null}}),
            json!({"list": [{}, {"x": "1"}], "either": {}, "child": {"list": []}}),
        );
        // The references form a cycle; resolving must end.
        let schema = json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "properties": {"p": {"$ref": "#/$defs/a"}}});
        check(schema, json!({"p": {"q": null}}), json!({"p": {"q": null}}));
    }
}
