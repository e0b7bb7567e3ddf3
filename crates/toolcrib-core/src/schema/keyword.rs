//! The keywords of JSON Schema 2020-12, grouped by the type of their values.

use crate::near;

/// How the subschemas under a keyword are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Apply {
    /// Not applied; only references lead there.
    Named,
    /// To the same value.
    InPlace,
    /// To the property with the same name.
    Property,
    /// To properties with matching names.
    Pattern,
    /// To the properties that the same schema does not mention.
    Rest,
    /// To property names.
    Names,
    /// To array items after the prefix.
    Items,
    /// To the array item at the same index.
    Prefix,
    /// To every array item.
    Contains,
    /// To the array items that no other keyword has evaluated.
    RestItems,
    /// To the decoded content of a string.
    Content,
}

/// The type of a keyword's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keyword {
    /// One schema.
    One(Apply),
    /// A list of at least one schema.
    List(Apply),
    /// A map of schemas.
    Map(Apply),
    /// `dependencies` of draft-07: a map of schemas and lists of names.
    Dependencies,
    Type,
    Required,
    DependentRequired,
    Pattern,
    Default,
    Const,
    Number,
    MultipleOf,
    /// A bound that older drafts have as a boolean.
    Exclusive,
    NonNegative,
    Boolean,
    Text,
    Array,
    Ref,
    Id,
    Schema,
    Anchor,
    Vocabulary,
    /// A keyword of an older draft without effect, and its replacement.
    Legacy(&'static str),
    Unknown,
}

/// The meaning of `key` in a schema.
pub(super) fn classify(key: &str) -> Keyword {
    use Keyword::{Array, Boolean, List, Map, NonNegative, Number, One, Text};
    // Byte strings compile to a decision tree over length and bytes; string patterns would be compared one by one.
    match key.as_bytes() {
        b"type" => Keyword::Type,
        b"properties" => Map(Apply::Property),
        b"required" => Keyword::Required,
        b"description" | b"title" | b"format" | b"$comment" | b"contentEncoding" | b"contentMediaType" => Text,
        b"items" => One(Apply::Items),
        b"enum" | b"examples" => Array,
        b"default" => Keyword::Default,
        b"const" => Keyword::Const,
        b"pattern" => Keyword::Pattern,
        b"minimum" | b"maximum" => Number,
        b"exclusiveMinimum" | b"exclusiveMaximum" => Keyword::Exclusive,
        b"multipleOf" => Keyword::MultipleOf,
        b"minLength" | b"maxLength" | b"minItems" | b"maxItems" | b"minProperties" | b"maxProperties" | b"minContains"
        | b"maxContains" => NonNegative,
        b"uniqueItems" | b"deprecated" | b"readOnly" | b"writeOnly" => Boolean,
        b"additionalProperties" | b"unevaluatedProperties" => One(Apply::Rest),
        b"anyOf" | b"oneOf" | b"allOf" => List(Apply::InPlace),
        b"not" | b"if" | b"then" | b"else" => One(Apply::InPlace),
        b"prefixItems" => List(Apply::Prefix),
        b"contains" => One(Apply::Contains),
        b"unevaluatedItems" => One(Apply::RestItems),
        b"propertyNames" => One(Apply::Names),
        b"patternProperties" => Map(Apply::Pattern),
        b"dependentSchemas" => Map(Apply::InPlace),
        b"dependentRequired" => Keyword::DependentRequired,
        b"contentSchema" => One(Apply::Content),
        b"$ref" | b"$dynamicRef" => Keyword::Ref,
        b"$defs" | b"definitions" => Map(Apply::Named),
        b"$id" => Keyword::Id,
        b"$schema" => Keyword::Schema,
        b"$anchor" | b"$dynamicAnchor" => Keyword::Anchor,
        b"$vocabulary" => Keyword::Vocabulary,
        b"dependencies" => Keyword::Dependencies,
        b"additionalItems" => Keyword::Legacy("items, beside prefixItems"),
        b"$recursiveRef" => Keyword::Legacy("$dynamicRef"),
        b"$recursiveAnchor" => Keyword::Legacy("$dynamicAnchor"),
        _ => Keyword::Unknown,
    }
}

/// Returns the keyword that an unknown key was probably meant to be.
pub(super) fn near_miss(key: &str) -> Option<&'static str> {
    /// The keywords that authors write by hand, without `const` and `title`: `cost` and `tile` are words.
    const COMMON: &[&str] = &[
        "type",
        "enum",
        "items",
        "properties",
        "required",
        "additionalProperties",
        "patternProperties",
        "description",
        "default",
        "examples",
        "format",
        "pattern",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "uniqueItems",
        "anyOf",
        "allOf",
        "oneOf",
        "prefixItems",
        "$ref",
        "$defs",
    ];
    match key {
        // A keyword of OpenAPI, not a misspelling.
        "example" => return None,
        "property" | "propertys" | "props" => return Some("properties"),
        "additionalProperty" | "additionalPropertys" => return Some("additionalProperties"),
        "ref" => return Some("$ref"),
        "defs" => return Some("$defs"),
        "min" => return Some("minimum"),
        "max" => return Some("maximum"),
        "regex" => return Some("pattern"),
        _ => {}
    }
    COMMON
        .iter()
        .copied()
        .find(|word| key.eq_ignore_ascii_case(word) || (key.len() >= 3 && near::slips(key.as_bytes(), word.as_bytes()) == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_words_are_not() {
        for (key, wanted) in [
            ("propertys", Some("properties")),
            ("propertie", Some("properties")),
            ("propreties", Some("properties")),
            ("require", Some("required")),
            ("requierd", Some("required")),
            ("additionalProperty", Some("additionalProperties")),
            ("additionalproperties", Some("additionalProperties")),
            ("enums", Some("enum")),
            ("minlength", Some("minLength")),
            ("item", Some("items")),
            ("types", Some("type")),
            ("cost", None),
            ("example", None),
            ("nullable", None),
            ("name", None),
            ("x-order", None),
            ("", None),
        ] {
            assert_eq!(near_miss(key), wanted, "{key}");
        }
    }
}
