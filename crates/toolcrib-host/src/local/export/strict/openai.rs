//! Strict schemas of `OpenAI`: closed objects whose properties are all required.
//!
//! An optional parameter becomes nullable. The result is a fixed point of the vendor's `toStrictJsonSchema`, which a test with that
//! package asserts.

use serde_json::{Map, Value as Json, json};

use super::super::reverse::{is_required, resolve, takes_null};
use super::{ANNOTATIONS, MAX_DEPTH, describe, is_object, is_open, place, types};

/// Keywords without a strict form.
const UNSUPPORTED: [&str; 30] = [
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$recursiveAnchor",
    "$recursiveRef",
    "additionalItems",
    "allOf",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "maxContains",
    "maxProperties",
    "minContains",
    "minProperties",
    "not",
    "oneOf",
    "patternProperties",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "$vocabulary",
];

/// Formats that strict mode supports. Others are moved into the description.
const FORMATS: [&str; 9] = ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"];

/// Constraints that are moved into the description: strict mode refuses them, and the host checks them anyway.
const MOVED: [&str; 2] = ["maxLength", "minLength"];

/// Most levels of nesting.
const LEVELS_MAX: usize = 10;

/// Most properties of all objects together.
const PROPERTIES_MAX: usize = 5_000;

/// Most values of all enumerations together.
const ENUM_VALUES_MAX: usize = 1_000;

/// Most characters of all names and enumerated values together.
const CHARACTERS_MAX: usize = 120_000;

/// Returns the strict form of a schema, or the reason why there is none.
pub(in crate::local::export) fn transform(schema: &Json) -> Result<Json, String> {
    let Json::Object(root) = schema else { return Err("the schema is not an object".to_owned()) };
    if root.contains_key("anyOf") || root.contains_key("$ref") {
        return Err("the root is a union or a reference".to_owned());
    }
    let mut work = Work { root: schema, properties: 0, enum_values: 0, characters: 0 };
    let mut strict = work.schema(schema, &mut Vec::new(), 1)?;
    if let Json::Object(members) = &mut strict {
        members.shift_remove("$schema");
    }
    let too_many = [
        (work.properties, PROPERTIES_MAX, "properties"),
        (work.enum_values, ENUM_VALUES_MAX, "enumerated values"),
        (work.characters, CHARACTERS_MAX, "characters of names"),
    ];
    match too_many.into_iter().find(|(found, most, _)| found > most) {
        Some((found, most, what)) => Err(format!("it has {found} {what}, and strict mode takes {most}")),
        None => Ok(strict),
    }
}

struct Work<'s> {
    root: &'s Json,
    properties: usize,
    enum_values: usize,
    characters: usize,
}

impl Work<'_> {
    /// `level` counts nested values, not subschemas: unions do not add a level.
    fn schema(&mut self, schema: &Json, path: &mut Vec<String>, level: usize) -> Result<Json, String> {
        let Json::Object(members) = schema else { return Err(format!("{} is a boolean schema", place(path))) };
        if level > LEVELS_MAX || path.len() > MAX_DEPTH {
            return Err(format!("it nests deeper than {LEVELS_MAX} levels"));
        }
        if let Some(keyword) = UNSUPPORTED.iter().find(|keyword| members.contains_key(**keyword)) {
            return Err(format!("`{keyword}` at {} has no strict form", place(path)));
        }
        if members.contains_key("$ref") {
            return self.reference(members, path);
        }
        let described =
            ["type", "enum", "const", "anyOf"].iter().any(|keyword| members.contains_key(*keyword)) || is_object(members);
        if !described {
            return Err(format!("{} has no type", place(path)));
        }
        let mut out = Map::new();
        let mut moved = Vec::new();
        for (key, value) in members {
            match key.as_str() {
                // Written below.
                "properties" | "required" | "additionalProperties" | "items" | "anyOf" | "$defs" | "definitions" => {}
                "format" if !value.as_str().is_some_and(|format| FORMATS.contains(&format)) => {
                    moved.push((key.clone(), value.clone()))
                }
                key_name if MOVED.contains(&key_name) => moved.push((key.clone(), value.clone())),
                // A null default has no meaning: the parameter is absent then.
                "default" if value.is_null() => {}
                "enum" => {
                    let values = value.as_array().map_or(&[][..], Vec::as_slice);
                    self.enum_values += values.len();
                    self.characters += values.iter().filter_map(Json::as_str).map(str::len).sum::<usize>();
                    out.insert(key.clone(), value.clone());
                }
                _ => {
                    out.insert(key.clone(), value.clone());
                }
            }
        }
        self.object(members, &mut out, path, level)?;
        self.array(members, &mut out, path, level)?;
        self.union(members, &mut out, path, level)?;
        for keyword in ["$defs", "definitions"] {
            if let Some(definitions) = members.get(keyword).and_then(Json::as_object) {
                let mut strict = Map::new();
                for (name, definition) in definitions {
                    path.extend([keyword.to_owned(), name.clone()]);
                    // Nesting also counts where a definition is used; here only the definition itself is limited.
                    strict.insert(name.clone(), self.schema(definition, path, 1)?);
                    path.truncate(path.len() - 2);
                }
                out.insert(keyword.to_owned(), strict.into());
            }
        }
        describe(&mut out, &moved);
        Ok(out.into())
    }

    /// A reference has no siblings and points to a definition or to the root: other places move in the transformation.
    fn reference(&self, members: &Map<String, Json>, path: &[String]) -> Result<Json, String> {
        let reference = members.get("$ref").and_then(Json::as_str).unwrap_or_default();
        if let Some(other) = members.keys().find(|key| *key != "$ref" && !ANNOTATIONS.contains(&key.as_str())) {
            return Err(format!("the reference at {} has `{other}` beside it", place(path)));
        }
        let name = reference.strip_prefix("#/$defs/").or_else(|| reference.strip_prefix("#/definitions/"));
        let usable = reference == "#" || name.is_some_and(|name| !name.contains('/'));
        if !usable || resolve(reference, self.root).is_none() {
            return Err(format!("the reference at {} leads neither to a definition nor to the root", place(path)));
        }
        Ok(Json::Object(members.clone()))
    }

    fn object(
        &mut self,
        members: &Map<String, Json>,
        out: &mut Map<String, Json>,
        path: &mut Vec<String>,
        level: usize,
    ) -> Result<(), String> {
        if !is_object(members) {
            return Ok(());
        }
        if is_open(members, path.is_empty()) {
            return Err(format!("the object at {} takes properties that it does not list", place(path)));
        }
        if members.contains_key("anyOf") {
            return Err(format!("the object at {} is a union as well", place(path)));
        }
        let empty = Map::new();
        let properties = members.get("properties").and_then(Json::as_object).unwrap_or(&empty);
        if let Some(name) = members
            .get("required")
            .and_then(Json::as_array)
            .into_iter()
            .flatten()
            .filter_map(Json::as_str)
            .find(|name| !properties.contains_key(*name))
        {
            return Err(format!("`{name}` is required and not listed at {}", place(path)));
        }
        let mut strict = Map::new();
        for (name, property) in properties {
            self.properties += 1;
            self.characters += name.len();
            path.extend(["properties".to_owned(), name.clone()]);
            let mut schema = self.schema(property, path, level + 1)?;
            path.truncate(path.len() - 2);
            if !is_required(members, name) && !takes_null(property, self.root) {
                schema = nullable(schema);
            }
            strict.insert(name.clone(), schema);
        }
        let names: Vec<_> = strict.keys().cloned().map(Json::String).collect();
        out.insert("properties".to_owned(), strict.into());
        out.insert("required".to_owned(), names.into());
        out.insert("additionalProperties".to_owned(), false.into());
        Ok(())
    }

    fn array(
        &mut self,
        members: &Map<String, Json>,
        out: &mut Map<String, Json>,
        path: &mut Vec<String>,
        level: usize,
    ) -> Result<(), String> {
        match members.get("items") {
            Some(items) => {
                path.push("items".to_owned());
                let items = self.schema(items, path, level + 1)?;
                path.pop();
                out.insert("items".to_owned(), items);
                Ok(())
            }
            None if types(members).contains(&"array") => Err(format!("the array at {} does not say what it holds", place(path))),
            None => Ok(()),
        }
    }

    fn union(
        &mut self,
        members: &Map<String, Json>,
        out: &mut Map<String, Json>,
        path: &mut Vec<String>,
        level: usize,
    ) -> Result<(), String> {
        let Some(branches) = members.get("anyOf") else { return Ok(()) };
        if let Some(other) = members.keys().find(|key| {
            !matches!(key.as_str(), "anyOf" | "$defs" | "definitions" | "$schema") && !ANNOTATIONS.contains(&key.as_str())
        }) {
            return Err(format!("the union at {} has `{other}` beside it", place(path)));
        }
        let mut strict = Vec::new();
        for (index, branch) in branches.as_array().into_iter().flatten().enumerate() {
            path.extend(["anyOf".to_owned(), index.to_string()]);
            strict.push(self.schema(branch, path, level)?);
            path.truncate(path.len() - 2);
        }
        out.insert("anyOf".to_owned(), strict.into());
        Ok(())
    }
}

/// A strict schema that also accepts null.
fn nullable(schema: Json) -> Json {
    let Json::Object(mut members) = schema else { return schema };
    // Not named `null`, which the macro would read as the value.
    let nothing = json!({"type": "null"});
    if let Some(Json::Array(branches)) = members.get_mut("anyOf") {
        branches.push(nothing);
        return members.into();
    }
    match members.get("type") {
        Some(Json::String(kind)) if !members.contains_key("const") => {
            let kinds = json!([kind, "null"]);
            members.insert("type".to_owned(), kinds);
        }
        Some(Json::Array(_)) if !members.contains_key("const") => {
            if let Some(Json::Array(kinds)) = members.get_mut("type") {
                kinds.push("null".into());
            }
        }
        _ => {
            // The description stays with the parameter.
            let description = members.shift_remove("description");
            let mut outer = Map::new();
            outer.insert("anyOf".to_owned(), json!([members, nothing]));
            if let Some(description) = description {
                outer.insert("description".to_owned(), description);
            }
            return outer.into();
        }
    }
    if let Some(Json::Array(values)) = members.get_mut("enum") {
        values.push(Json::Null);
    }
    members.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn strict(schema: Json, expected: Json) {
        assert_eq!(transform(&schema), Ok(expected), "{schema}");
    }

    #[test]
    fn optional_parameters_become_nullable() {
        strict(
            json!({"type": "object", "properties": {
                "a": {"type": "string", "description": "d"}, "b": {"type": "string", "enum": ["x"]}, "c": {"const": 1},
                "d": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "e": {"type": ["string", "null"]}, "f": {"$ref": "#/$defs/t", "description": "r"},
                "g": {"type": ["string", "integer"]}},
                "required": ["a"], "$defs": {"t": {"type": "string"}}}),
            json!({"type": "object", "properties": {
                "a": {"type": "string", "description": "d"}, "b": {"type": ["string", "null"], "enum": ["x", null]},
                "c": {"anyOf": [{"const": 1}, {"type": "null"}]},
                "d": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}, "e": {"type": ["string", "null"]},
                "f": {"anyOf": [{"$ref": "#/$defs/t"}, {"type": "null"}], "description": "r"},
                "g": {"type": ["string", "integer", "null"]}},
                "required": ["a", "b", "c", "d", "e", "f", "g"], "additionalProperties": false, "$defs": {"t": {"type": "string"}}}),
        );
        strict(
            json!({"type": "object"}),
            json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false}),
        );
    }

    #[test]
    fn constraints_without_a_strict_form_are_described() {
        strict(
            json!({"type": "object", "properties": {"u": {"type": "string", "format": "uri", "minLength": 3, "description": "A link."}}, "required": ["u"]}),
            json!({"type": "object", "properties": {"u": {"type": "string", "description": "A link.\n\n{format: \"uri\", minLength: 3}"}},
                "required": ["u"], "additionalProperties": false}),
        );
    }

    #[test]
    fn what_has_no_strict_form_is_refused() {
        let property = |schema: Json| json!({"type": "object", "properties": {"p": schema}, "required": ["p"]});
        for refused in [
            property(json!(true)),
            property(json!({})),
            property(json!({"type": "object"})),
            property(json!({"type": "object", "properties": {}})),
            property(json!({"type": "object", "additionalProperties": {"type": "string"}})),
            property(json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": true})),
            property(json!({"type": "object", "patternProperties": {"x": {}}})),
            property(json!({"type": "array"})),
            property(json!({"oneOf": [{"type": "string"}]})),
            property(json!({"type": "string", "not": {"const": "x"}})),
            property(json!({"$ref": "#/properties/q"})),
            property(json!({"$ref": "#/$defs/none"})),
            property(json!({"$ref": "#", "type": "object"})),
            property(json!({"type": "string", "anyOf": [{"minLength": 1}]})),
            json!({"type": "object", "additionalProperties": true}),
            json!({"type": "object", "required": ["x"]}),
            json!({"type": "object", "anyOf": [{"required": ["x"]}]}),
        ] {
            assert!(transform(&refused).is_err(), "{refused}");
        }
        let mut deep = json!({"type": "string"});
        for _ in 0..12 {
            deep = json!({"type": "object", "properties": {"a": deep}, "required": ["a"]});
        }
        assert!(transform(&deep).is_err());
        let many: Vec<_> = (0..1_001).map(|n| n.to_string()).collect();
        assert!(transform(&property(json!({"enum": many}))).is_err());
    }
}
