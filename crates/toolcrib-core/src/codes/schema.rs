//! Codes of the schema rules.

super::codes! {
    TOO_DEEP = "schema.too_deep", Error, "ERC-8257 Manifest Parser Hardening" {
        "a schema nests more than 16 subschemas deep",
        "Recursive validators run out of stack on deep schemas, so readers refuse a manifest whose schema exceeds 16 levels. The root is level 1; each subschema inside another adds one.",
        "name inner parts under $defs and point to them with $ref",
    }
    TOO_MANY_NODES = "schema.too_many_nodes", Error, "ERC-8257 Manifest Parser Hardening" {
        "the schemas of the manifest contain more than 1,024 subschemas",
        "Wide schemas cost every reader time and memory, so readers refuse a manifest whose schemas together exceed 1,024 nodes. Every object or boolean in a schema position is one node.",
        "share repeated parts through $defs and $ref, or describe rarely used parts in prose",
    }
    NOT_A_SCHEMA = "schema.not_a_schema", Error, "JSON Schema 2020-12 Core §4.3" {
        "a schema is neither an object nor a boolean",
        "Wherever JSON Schema expects a schema, only an object, true or false is allowed.",
        "write an object such as {\"type\": \"string\"}",
    }
    KEYWORD_SHAPE = "schema.keyword_shape", Error, "JSON Schema 2020-12 metaschema" {
        "a schema keyword has a value of the wrong shape",
        "The metaschema defines the values of each keyword. A validator refuses the whole schema when one of them does not match.",
        "write a value of the shape that the keyword requires",
    }
    UNKNOWN_TYPE = "schema.unknown_type", Error, "JSON Schema 2020-12 Validation §6.1.1" {
        "a type is not a JSON Schema type",
        "There are seven type names: array, boolean, integer, null, number, object and string. Everything else is expressed with other keywords.",
        "use one of the seven names, and pattern, format or enum to narrow it",
    }
    LEGACY_FORM = "schema.legacy_form", Error, "JSON Schema 2020-12 Core Appendix" {
        "a keyword is written as in an older draft",
        "Older drafts allowed forms that the 2020-12 metaschema refuses: an array under items, a boolean exclusiveMinimum, a boolean required.",
        "rewrite the keyword in its 2020-12 form",
    }
    LEGACY_KEYWORD = "schema.legacy_keyword", Warning, "JSON Schema 2020-12 Core Appendix" {
        "a keyword of an older draft has no effect",
        "The keyword was replaced in 2019-09 or 2020-12. Validators of the current draft ignore it, so the rule is not enforced.",
        "use the keyword that replaced it",
    }
    OTHER_DRAFT = "schema.other_draft", Warning, "JSON Schema 2020-12 Core §8.1.1" {
        "the schema names another draft than 2020-12",
        "Schemas in manifests are always read as draft 2020-12; `$schema` is ignored. Keywords that changed between drafts may mean something else than intended.",
        "check the schema against 2020-12 and drop `$schema`",
    }
    UNKNOWN_DIALECT = "schema.unknown_dialect", Warning, "JSON Schema 2020-12 Core §8.1.1" {
        "the schema names an unknown dialect",
        "A metaschema behind a URL is never fetched. The schema is read as draft 2020-12.",
        "drop `$schema`, or name https://json-schema.org/draft/2020-12/schema",
    }
    REMOTE_REF = "schema.remote_ref", Error, "ERC-8257 Remote $ref in Embedded Schemas" {
        "a reference points outside the schema",
        "A reference to a URL would make every reader fetch an untrusted URL. Only references within the same schema, which start with #, are followed.",
        "copy the referenced schema under $defs and point to #/$defs/name",
    }
    DANGLING_REF = "schema.dangling_ref", Error, "JSON Schema 2020-12 Core §8.2.3" {
        "a reference has no target",
        "A pointer after # starts at the root of this schema, not of the manifest; a plain name needs an $anchor of that name.",
        "correct the pointer, or add the definition it names",
    }
    REF_LOOP = "schema.ref_loop", Error, "JSON Schema 2020-12 Core §9.4.1" {
        "a reference loops back to itself without descending into the value",
        "Applying such a schema never ends: the same schema is applied to the same value again and again.",
        "let the reference pass through properties or items, or remove it",
    }
    EXPANSION = "schema.expansion", Error, "Toolcrib limits" {
        "the schema grows too large when its references are followed",
        "When each definition of a chain uses the previous one twice, the work doubles at every step. Validators would need minutes for one small value.",
        "refer to each definition once, or merge the definitions",
    }
    BRANCHING_RECURSION = "schema.branching_recursion", Warning, "Toolcrib limits" {
        "a recursive schema applies itself more than once to the same value",
        "Recursion through properties and items is fine as long as each part of a value is visited once. When it is visited twice, as in a recursive tagged union, the work doubles with every level of the value. Toolcrib does not build a validator for such a schema, so values are not checked against it.",
        "distinguish the branches by property name, or move the recursive property out of the branches",
    }
    EMBEDDED_ID = "schema.embedded_id", Error, "JSON Schema 2020-12 Core §8.2.1" {
        "an inner $id changes the base URI of references",
        "A subschema with its own $id is a separate schema resource: references inside it do not resolve to the outer definitions. Validators disagree on such schemas.",
        "remove the inner $id and use $defs",
    }
    DUPLICATE_ANCHOR = "schema.duplicate_anchor", Error, "JSON Schema 2020-12 Core §8.2.2" {
        "two subschemas carry the same anchor",
        "An anchor must be unique. Validators disagree on which of two equal anchors a reference resolves to.",
        "rename one of the two",
    }
    PATTERN_MALFORMED = "schema.pattern_malformed", Error, "ECMA-262 §22.2.1 with the u flag" {
        "a pattern is not a regular expression",
        "Patterns follow ECMA-262. A validator refuses the whole schema when one of them cannot be read.",
        "correct the pattern at the reported position; a backslash is written twice inside JSON",
    }
    PATTERN_NOT_LINEAR = "schema.pattern_not_linear", Error, "ERC-8257 Manifest Parser Hardening" {
        "a pattern cannot be matched in linear time",
        "Backreferences and lookaround need a backtracking matcher, which a hostile value can keep busy for years. Readers must use a linear-time matcher, which lacks these features.",
        "rewrite the pattern without them, or check that part in the tool itself",
    }
    PATTERN_TOO_LARGE = "schema.pattern_too_large", Error, "Toolcrib limits" {
        "a pattern is too large once its repetitions are written out",
        "Counted repetitions multiply when nested: (x{1000}){1000} expands to a million copies. Matchers refuse such patterns or need much memory for them.",
        "use maxLength for long limits, and smaller counts",
    }
    PATTERN_UNSUPPORTED = "schema.pattern_unsupported", Warning, "ERC-8257 Manifest Parser Hardening" {
        "a pattern uses a form that linear-time matchers read differently or not at all",
        "The pattern is legal in ECMA-262, but RE2 and similar engines do not support it. Readers may skip the check or refuse the schema.",
        "rewrite the pattern without this form",
    }
    DEEP_CONTAINERS = "schema.deep_containers", Warning, "ERC-8257 Manifest Parser Hardening" {
        "the schema nests more than 16 JSON containers",
        "The specification limits schemas to 16 levels without defining a level. A reader that counts every array and object would refuse this one.",
        "flatten the schema, or name inner parts under $defs",
    }
    MANY_CONTAINERS = "schema.many_containers", Warning, "ERC-8257 Manifest Parser Hardening" {
        "the schema contains more than 1,024 JSON containers",
        "The specification limits schemas to 1,024 nodes without defining a node. A reader that counts every array and object would refuse this one.",
        "share repeated parts through $defs and $ref",
    }
    FIELD_MAP = "schema.field_map", Warning, "JSON Schema 2020-12 Core §4.3" {
        "this looks like a map of fields, not a JSON Schema",
        "No key here is a JSON Schema keyword. Unknown keywords are ignored, so this schema accepts every value and tells an agent nothing.",
        "wrap the fields: {\"type\": \"object\", \"properties\": {…}}, each with a schema such as {\"type\": \"string\"}",
    }
    KEYWORD_TYPO = "schema.keyword_typo", Hint, "JSON Schema 2020-12 Core §4.3.1" {
        "an unknown keyword looks like a misspelt one",
        "Unknown keywords are ignored silently, so a misspelt rule has no effect.",
        "correct the spelling if the known keyword was meant",
    }
    NOT_COMPILED = "schema.not_compiled", Error, "JSON Schema 2020-12" {
        "the validator cannot build this schema",
        "The schema passed Toolcrib's checks, but the validator refused it, so values cannot be checked against it.",
        "simplify the part that the message names",
    }
}
