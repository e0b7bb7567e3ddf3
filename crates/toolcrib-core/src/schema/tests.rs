use std::fmt::Write as _;
use std::time::Duration;

use toolcrib_testkit::assert_faster_than;

use super::*;
use crate::codes;
use crate::codes::Code;
use crate::codes::schema::*;
use crate::finding::{Finding, Mode, Severity};
use crate::json::{Document, Limits, read};

#[track_caller]
fn document(text: &str) -> Document {
    let reading = read(text.as_bytes(), Limits::default());
    assert!(reading.findings.is_empty(), "{text}: {:?}", reading.findings);
    reading.document.expect("no finding, so a document")
}

#[track_caller]
fn survey(text: &str) -> (Survey, Vec<Finding>) {
    let document = document(text);
    let mut context = Context::new(Mode::Producer);
    let survey = check(document.root(), &mut Totals::default(), &mut context);
    (survey, context.findings.into_sorted())
}

/// Expects exactly the findings of `wanted` for `text`, each a code and a pointer.
#[track_caller]
fn finds(text: &str, wanted: &[(Code, &str)]) -> Vec<Finding> {
    let (_, findings) = survey(text);
    let found: Vec<_> = findings.iter().map(|finding| (finding.code, finding.pointer.as_str())).collect();
    assert_eq!(found, wanted, "{text}\n{findings:#?}");
    findings
}

/// `levels` nested subschemas.
fn nested(levels: usize) -> String {
    format!("{}{{}}{}", r#"{"not":"#.repeat(levels - 1), "}".repeat(levels - 1))
}

/// A root with `nodes - 1` properties.
fn wide(nodes: usize) -> String {
    let members: Vec<_> = (1..nodes).map(|i| format!(r#""p{i}":true"#)).collect();
    format!(r#"{{"properties":{{{}}}}}"#, members.join(","))
}

// req: MAN-006, HARDEN-007
#[test]
fn an_empty_schema_is_one_node_and_two_are_two() {
    let document = document("{}");
    let mut totals = Totals::default();
    let mut context = Context::new(Mode::Consumer);
    for _ in 0..2 {
        let survey = check(document.root(), &mut totals, &mut context);
        assert_eq!((survey.nodes, survey.depth, survey.expanded), (1, 1, 1));
    }
    assert_eq!(totals.nodes, 2);
    assert!(context.findings.is_empty());
}

// req: MAN-006
#[test]
fn other_values_are_no_schemas() {
    for text in ["[]", "null", "\"x\"", "1"] {
        finds(text, &[(NOT_A_SCHEMA, "")]);
    }
    finds("true", &[]);
    finds(
        r#"{"items":1,"properties":{"a":"string"},"anyOf":[null]}"#,
        &[(NOT_A_SCHEMA, "/items"), (NOT_A_SCHEMA, "/properties/a"), (NOT_A_SCHEMA, "/anyOf/0")],
    );
}

// req: HARDEN-006
#[test]
fn sixteen_levels_pass_and_seventeen_do_not() {
    let (survey, findings) = survey(&nested(16));
    assert_eq!((survey.depth, findings.len()), (16, 0), "{findings:?}");
    let pointer = "/not".repeat(16);
    finds(&nested(17), &[(TOO_DEEP, &pointer)]);
    // Reported once for any number of branches that are too deep.
    let inner = nested(16);
    finds(&format!(r#"{{"anyOf":[{inner},{inner}]}}"#), &[(TOO_DEEP, &format!("/anyOf/0{}", "/not".repeat(15)))]);
}

// req: HARDEN-006
#[test]
fn absurd_depth_is_refused_by_the_reader() {
    let text = format!("{}{{}}{}", r#"{"not":"#.repeat(100_000), "}".repeat(100_000));
    let reading = read(text.as_bytes(), Limits::default());
    assert!(reading.document.is_none());
    assert_eq!(reading.findings.as_slice()[0].code, codes::json::TOO_DEEP);
}

// req: HARDEN-007
#[test]
fn the_node_limit_is_exact_and_holds_over_both_schemas() {
    let (survey, findings) = survey(&wide(1024));
    assert_eq!((survey.nodes, findings.len()), (1024, 0), "{findings:?}");
    finds(&wide(1025), &[(TOO_MANY_NODES, "/properties/p1024")]);

    let (inputs, outputs) = (document(&wide(1023)), document("{}"));
    let more = document(r#"{"items":{}}"#);
    for (second, wanted) in [(&outputs, 0), (&more, 1)] {
        let mut totals = Totals::default();
        let mut context = Context::new(Mode::Consumer);
        check(inputs.root(), &mut totals, &mut context);
        check(second.root(), &mut totals, &mut context);
        check(second.root(), &mut Totals { nodes: 5000, ..totals }, &mut Context::new(Mode::Consumer));
        assert_eq!(context.findings.as_slice().len(), wanted);
        // Reported once, not again for each further schema.
        check(second.root(), &mut totals, &mut context);
        check(second.root(), &mut totals, &mut context);
        assert_eq!(context.findings.as_slice().len(), 1);
    }
}

#[test]
fn every_schema_position_counts_and_payloads_do_not() {
    let (found, findings) = survey(
        r##"{
            "$defs": {"a": {}, "b": true}, "properties": {"p": {}}, "patternProperties": {"^x": {}},
            "dependentSchemas": {"d": {}}, "allOf": [{}], "anyOf": [{}, {}], "oneOf": [{}], "prefixItems": [{}],
            "items": {}, "contains": {}, "additionalProperties": false, "unevaluatedItems": {},
            "propertyNames": {}, "not": {}, "if": {}, "then": {}, "else": {}, "contentSchema": {},
            "enum": [{"not": {}}, {"a": {"b": {}}}], "const": {"properties": {"x": {}}}, "default": {"items": {}},
            "examples": [{}], "x-mine": {"properties": {"y": {}}}
        }"##,
    );
    assert_eq!(findings, []);
    assert_eq!((found.nodes, found.depth), (21, 2));
}

#[test]
fn every_keyword_has_its_shape() {
    for (text, pointer) in [
        (r#"{"type":1}"#, "/type"),
        (r#"{"type":[]}"#, "/type"),
        (r#"{"type":["string","string"]}"#, "/type/1"),
        (r#"{"type":["string",null]}"#, "/type/1"),
        (r#"{"type":{"a":"string"}}"#, "/type"),
        (r#"{"required":"a"}"#, "/required"),
        (r#"{"required":["a",1]}"#, "/required/1"),
        (r#"{"required":["a","b","a"]}"#, "/required/2"),
        (r#"{"required":["0","1","2","3","4","5","6","7","8","9","a","b","c","d","e","f","g","7"]}"#, "/required/17"),
        (r#"{"dependentRequired":{"a":"b"}}"#, "/dependentRequired/a"),
        (r#"{"dependentRequired":[]}"#, "/dependentRequired"),
        (r#"{"properties":[]}"#, "/properties"),
        (r#"{"$defs":true}"#, "/$defs"),
        (r#"{"patternProperties":"x"}"#, "/patternProperties"),
        (r#"{"dependentSchemas":null}"#, "/dependentSchemas"),
        (r#"{"allOf":[]}"#, "/allOf"),
        (r#"{"anyOf":{}}"#, "/anyOf"),
        (r#"{"oneOf":true}"#, "/oneOf"),
        (r#"{"prefixItems":[]}"#, "/prefixItems"),
        (r#"{"minLength":-1}"#, "/minLength"),
        (r#"{"maxLength":1.5}"#, "/maxLength"),
        (r#"{"minItems":"1"}"#, "/minItems"),
        (r#"{"maxProperties":null}"#, "/maxProperties"),
        (r#"{"multipleOf":0}"#, "/multipleOf"),
        (r#"{"multipleOf":-2}"#, "/multipleOf"),
        (r#"{"minimum":"0"}"#, "/minimum"),
        (r#"{"exclusiveMaximum":"0"}"#, "/exclusiveMaximum"),
        (r#"{"uniqueItems":1}"#, "/uniqueItems"),
        (r#"{"deprecated":"yes"}"#, "/deprecated"),
        (r#"{"title":1}"#, "/title"),
        (r#"{"format":[]}"#, "/format"),
        (r#"{"$comment":{}}"#, "/$comment"),
        (r#"{"enum":"a"}"#, "/enum"),
        (r#"{"examples":"a"}"#, "/examples"),
        (r#"{"pattern":1}"#, "/pattern"),
        (r#"{"$ref":1}"#, "/$ref"),
        (r#"{"$dynamicRef":{}}"#, "/$dynamicRef"),
        (r##"{"$id":"#a"}"##, "/$id"),
        (r#"{"$id":1}"#, "/$id"),
        (r#"{"$anchor":"1a"}"#, "/$anchor"),
        (r##"{"$dynamicAnchor":"#a"}"##, "/$dynamicAnchor"),
        (r#"{"$vocabulary":{"x":1}}"#, "/$vocabulary"),
        (r#"{"$schema":1}"#, "/$schema"),
    ] {
        let finding = &finds(text, &[(KEYWORD_SHAPE, pointer)])[0];
        assert!(finding.expected.is_some() && finding.got.is_some(), "{text}");
    }
    finds(
        r##"{"type":["object","null"],"required":[],"minLength":1.0,"maxLength":1e3,"multipleOf":0.01,"enum":[],
            "maximum":-1,"$id":"https://a.example/x#","$anchor":"a-b.c_1","$vocabulary":{},"dependentRequired":{"a":["b"]},
            "description":"","readOnly":false,"examples":[]}"##,
        &[],
    );
}

#[test]
fn common_slips_in_type_names_are_recognised() {
    for (name, meant) in [
        ("int", "integer"),
        ("float", "number"),
        ("bool", "boolean"),
        ("str", "string"),
        ("address", "pattern"),
        ("any", "no `type`"),
        ("uint256", "string"),
        ("date", "format"),
        ("whatever", "array, boolean"),
        ("String", "string"),
    ] {
        let findings =
            finds(&format!(r#"{{"properties":{{"a":{{"type":"{name}"}}}}}}"#), &[(UNKNOWN_TYPE, "/properties/a/type")]);
        let expected = findings[0].expected.as_deref().expect("says what is allowed");
        assert!(expected.contains(meant), "{name}: {expected}");
    }
    finds(r#"{"type":["string","int"]}"#, &[(UNKNOWN_TYPE, "/type/1")]);
}

#[test]
fn forms_of_older_drafts_are_named_as_such() {
    finds(r#"{"items":[{},{}]}"#, &[(LEGACY_FORM, "/items")]);
    finds(r#"{"properties":{"a":{"type":"string","required":true}}}"#, &[(LEGACY_FORM, "/properties/a/required")]);
    finds(r#"{"minimum":1,"exclusiveMinimum":true}"#, &[(LEGACY_FORM, "/exclusiveMinimum")]);
    finds(r#"{"additionalItems":false}"#, &[(LEGACY_KEYWORD, "/additionalItems")]);
    finds(r##"{"$recursiveRef":"#"}"##, &[(LEGACY_KEYWORD, "/$recursiveRef")]);
    finds(r#"{"dependencies":{"a":["b"],"c":{}}}"#, &[(LEGACY_KEYWORD, "/dependencies")]);
    let hint = finds(r##"{"definitions":{"a":{}},"$ref":"#/definitions/a"}"##, &[(LEGACY_KEYWORD, "/definitions")]);
    assert_eq!(hint[0].severity, Severity::Hint);
}

#[test]
fn other_dialects_are_a_warning() {
    finds(r#"{"$schema":"https://json-schema.org/draft/2020-12/schema"}"#, &[]);
    let findings = finds(r#"{"$schema":"http://json-schema.org/draft-07/schema#"}"#, &[(OTHER_DRAFT, "/$schema")]);
    assert!(findings[0].message.contains("draft-07"));
    assert_eq!(findings[0].severity, Severity::Warning);
    finds(r#"{"$schema":"https://example.com/mine"}"#, &[(UNKNOWN_DIALECT, "/$schema")]);
}

// req: HARDEN-013
#[test]
fn references_stay_within_the_schema() {
    for target in [
        "http://169.254.169.254/latest/meta-data",
        "https://example.com/schema.json#/$defs/a",
        "other.json",
        "other.json#/a",
        "//host/x",
        "file:///etc/passwd",
        "urn:uuid:0",
        "?#",
    ] {
        finds(&format!(r#"{{"items":{{"$ref":"{target}"}}}}"#), &[(REMOTE_REF, "/items/$ref")]);
        finds(&format!(r#"{{"items":{{"$dynamicRef":"{target}"}}}}"#), &[(REMOTE_REF, "/items/$dynamicRef")]);
    }
    for target in
        ["#/$defs/a", "#/$defs/a~1b~0c", "#/$defs/sp%20ace", "#named", "#dyn", "#/properties/p/anyOf/1", "#/odd/place/0"]
    {
        let text = format!(
            r#"{{"$defs":{{"a":{{"$anchor":"named"}},"a/b~c":true,"sp ace":{{"$dynamicAnchor":"dyn"}}}},
                "properties":{{"p":{{"anyOf":[true,{{}}]}}}},"odd":{{"place":[{{"type":"string"}}]}},"items":{{"$ref":"{target}"}}}}"#
        );
        finds(&text, &[]);
    }
    for target in
        ["#/$defs/b", "#/%zz", "#/%ff", "#nowhere", "#/required/0", "#/anyOf/1", "#/anyOf/00", "#/anyOf/-", "#/required"]
    {
        let text = format!(r#"{{"$defs":{{"a":{{}}}},"required":["x"],"anyOf":[true],"items":{{"$ref":"{target}"}}}}"#);
        finds(&text, &[(DANGLING_REF, "/items/$ref")]);
    }
    // A pointer in a reference starts at the schema, not at the document around it.
    let document = document(r##"{"inputs":{"$defs":{"a":{}},"items":{"$ref":"#/$defs/a"}}}"##);
    let mut context = Context::new(Mode::Consumer);
    check(document.root().get("inputs").expect("is there"), &mut Totals::default(), &mut context);
    assert!(context.findings.is_empty(), "{:?}", context.findings);
}

#[test]
fn a_target_outside_schema_positions_is_checked_and_counted() {
    let (found, findings) = survey(r##"{"x":{"y":{"type":"strin","items":{}}},"items":{"$ref":"#/x/y"}}"##);
    assert_eq!(found.nodes, 4);
    assert_eq!(findings.iter().map(|finding| finding.code).collect::<Vec<_>>(), [UNKNOWN_TYPE]);
    let deep = nested(16);
    let (_, findings) = survey(&format!(r##"{{"x":{deep},"items":{{"$ref":"#/x"}}}}"##));
    assert_eq!(findings.iter().map(|finding| finding.code).collect::<Vec<_>>(), [TOO_DEEP]);
    let wide = wide(1023);
    let (_, findings) = survey(&format!(r##"{{"x":{wide},"items":{{"$ref":"#/x"}}}}"##));
    assert_eq!(findings.iter().map(|finding| finding.code).collect::<Vec<_>>(), [TOO_MANY_NODES]);
}

#[test]
fn bases_and_anchors_that_readers_disagree_on_are_refused() {
    finds(r#"{"$id":"https://a.example/root","properties":{"a":{"$id":"inner"}}}"#, &[]);
    finds(r##"{"properties":{"a":{"$id":"inner","items":{"$ref":"#"}}}}"##, &[(EMBEDDED_ID, "/properties/a/$id")]);
    finds(
        r##"{"$defs":{"a":{"$anchor":"x"},"b":{"$anchor":"x"}},"items":{"$ref":"#x"}}"##,
        &[(DUPLICATE_ANCHOR, "/$defs/b/$anchor")],
    );
    finds(r##"{"$defs":{"a":{"$anchor":"x","$dynamicAnchor":"x"}},"items":{"$ref":"#x"}}"##, &[]);
}

// req: HARDEN-013
#[test]
fn endless_references_are_refused_and_recursion_is_not() {
    for text in [
        r##"{"$ref":"#"}"##,
        r##"{"$ref":""}"##,
        r##"{"$dynamicAnchor":"a","$dynamicRef":"#a"}"##,
        r##"{"allOf":[{"$ref":"#"}]}"##,
        r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"not":{"$ref":"#/$defs/a"}}}}"##,
        r##"{"if":{"$ref":"#"}}"##,
        r##"{"dependentSchemas":{"a":{"$ref":"#"}}}"##,
        r##"{"$ref":"#/properties/a","properties":{"a":{"anyOf":[{"$ref":"#"}]}}}"##,
    ] {
        let (_, findings) = survey(text);
        assert_eq!(findings.iter().map(|finding| finding.code).collect::<Vec<_>>(), [REF_LOOP], "{text}");
    }
    for text in [
        // A tree, a linked list, a map of itself.
        r##"{"properties":{"left":{"$ref":"#"},"right":{"$ref":"#"}}}"##,
        r##"{"properties":{"children":{"type":"array","items":{"$ref":"#"}}}}"##,
        r##"{"properties":{"next":{"anyOf":[{"type":"null"},{"$ref":"#"}]}}}"##,
        r##"{"additionalProperties":{"$ref":"#"}}"##,
        // Any JSON value: only one of the branches for arrays and objects can match.
        r##"{"$defs":{"j":{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/$defs/j"}},
            {"type":"object","additionalProperties":{"$ref":"#/$defs/j"}}]}},"$ref":"#/$defs/j"}"##,
        // Branches that descend into properties of different names.
        r##"{"oneOf":[{"properties":{"and":{"items":{"$ref":"#"}}}},{"properties":{"or":{"items":{"$ref":"#"}}}},
            {"properties":{"not":{"$ref":"#"}}}]}"##,
        // Mutual recursion.
        r##"{"$defs":{"a":{"properties":{"b":{"$ref":"#/$defs/b"}}},"b":{"properties":{"a":{"$ref":"#/$defs/a"}}}},
            "$ref":"#/$defs/a"}"##,
        r##"{"prefixItems":[{"$ref":"#"},{"$ref":"#"}],"items":{"$ref":"#"}}"##,
        r##"{"properties":{"a":{"$ref":"#"}},"additionalProperties":{"$ref":"#"}}"##,
        r##"{"propertyNames":{"$ref":"#"}}"##,
    ] {
        finds(text, &[]);
    }
}

#[test]
fn recursion_that_doubles_at_every_level_is_refused() {
    for text in [
        r##"{"allOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}"##,
        r##"{"anyOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}"##,
        r##"{"properties":{"a":{"$ref":"#"}},"patternProperties":{"^a":{"$ref":"#"}}}"##,
        r##"{"items":{"$ref":"#"},"contains":{"$ref":"#"}}"##,
        r##"{"allOf":[{"properties":{"a":{"$ref":"#"}}},{"additionalProperties":{"$ref":"#"}}]}"##,
        r##"{"properties":{"a":{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}}}"##,
        r##"{"allOf":[{"prefixItems":[true,{"$ref":"#"}]},{"items":{"$ref":"#"}}]}"##,
    ] {
        let (_, findings) = survey(text);
        assert_eq!(findings.iter().map(|finding| finding.code).collect::<Vec<_>>(), [BRANCHING_RECURSION], "{text}");
    }
}

/// `steps` definitions, each using the previous one twice through `keyword`.
fn doubling(steps: usize, body: impl Fn(&str) -> String) -> String {
    let mut text = String::from(r#"{"$defs":{"d0":{"type":"string"}"#);
    for step in 1..=steps {
        let previous = format!(r##"{{"$ref":"#/$defs/d{}"}}"##, step - 1);
        let _ = write!(text, r#","d{step}":{}"#, body(&previous));
    }
    let _ = write!(text, r##"}},"$ref":"#/$defs/d{steps}"}}"##);
    text
}

// req: HARDEN-007, HARDEN-013
#[test]
fn references_that_multiply_are_refused_quickly() {
    let bodies: [fn(&str) -> String; 4] = [
        |previous| format!(r#"{{"allOf":[{previous},{previous}]}}"#),
        |previous| format!(r#"{{"properties":{{"a":{previous},"b":{previous}}}}}"#),
        |previous| format!(r#"{{"anyOf":[{previous}],"unevaluatedProperties":false}}"#),
        |previous| format!(r#"{{"items":{previous},"contains":{previous},"not":{previous}}}"#),
    ];
    for body in bodies {
        let text = doubling(30, body);
        // Without a limit this would visit a billion nodes.
        let (survey, findings) = assert_faster_than(Duration::from_secs(1), "doubling references", || survey(&text));
        assert_eq!(findings.iter().map(|finding| finding.code).collect::<Vec<_>>(), [EXPANSION], "{text}");
        assert!(survey.nodes <= 200);
    }
    let (survey, findings) = survey(&doubling(5, bodies[0]));
    assert_eq!(findings, []);
    // The root, and d(n) = 3 + 2 d(n - 1) with d(0) = 1.
    assert_eq!(survey.expanded, 1 + 125);
}

#[test]
fn a_schema_made_of_references_is_judged_quickly() {
    // As many definitions as the limit permits, each referring to all properties of the next, and back.
    let mut text = String::from(r#"{"$defs":{"a":{"properties":{"#);
    for at in 0..500 {
        let _ = write!(text, r##"{}"p{at}":{{"$ref":"#"}}"##, if at > 0 { "," } else { "" });
    }
    text.push_str(r##"}}},"anyOf":["##);
    for at in 0..500 {
        let _ = write!(text, r##"{}{{"$ref":"#/$defs/a"}}"##, if at > 0 { "," } else { "" });
    }
    text.push_str("]}");
    let (_, findings) = assert_faster_than(Duration::from_secs(2), "a schema of references", || survey(&text));
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].severity, Severity::Error);
}

// req: HARDEN-008
#[test]
fn patterns_are_judged_where_they_stand() {
    finds(r#"{"pattern":"^(a+)+$","patternProperties":{"^x-":{}}}"#, &[]);
    for (pattern, code) in [
        ("(", PATTERN_MALFORMED),
        (r"(a)\\1", PATTERN_NOT_LINEAR),
        ("^(?=a)", PATTERN_NOT_LINEAR),
        ("(x{1000}){1000}", PATTERN_TOO_LARGE),
        ("[^]", PATTERN_UNSUPPORTED),
    ] {
        finds(&format!(r#"{{"items":{{"pattern":"{pattern}"}}}}"#), &[(code, "/items/pattern")]);
        let pointer = format!("/patternProperties/{}", pattern.replace(r"\\", r"\"));
        finds(&format!(r#"{{"patternProperties":{{"{pattern}":{{}}}}}}"#), &[(code, &pointer)]);
    }
    // Each is valid; together they exceed the limit. Reported once.
    let (_, findings) =
        survey(r#"{"anyOf":[{"pattern":"a{9000}"},{"pattern":"b{9000}"},{"pattern":"c{9000}"},{"pattern":"d{9000}"}]}"#);
    assert_eq!(findings.iter().map(|finding| finding.code).collect::<Vec<_>>(), [PATTERN_TOO_LARGE]);
    let (_, findings) = survey(&format!(r#"{{"pattern":"{}"}}"#, r"\\s".repeat(2_000)));
    assert_eq!(findings.iter().map(|finding| finding.code).collect::<Vec<_>>(), [PATTERN_TOO_LARGE]);
}

// req: HARDEN-010, HARDEN-011, HARDEN-012
#[test]
fn prefilled_values_are_collected() {
    let text = r#"{"inputs":{"properties":{"to":{"const":"0xabc"},"n":{"default": { "a" : 1 }},"e":{"enum":[{"default":1}]}}}}"#;
    let document = document(text);
    let mut context = Context::new(Mode::Consumer);
    let survey = check(document.root().get("inputs").expect("is there"), &mut Totals::default(), &mut context);
    assert!(context.findings.is_empty());
    let found: Vec<_> =
        survey.prefilled.iter().map(|filled| (filled.pointer.as_str(), filled.keyword, filled.value.as_str())).collect();
    assert_eq!(
        found,
        [("/inputs/properties/to/const", "const", "\"0xabc\""), ("/inputs/properties/n/default", "default", r#"{ "a" : 1 }"#),]
    );
    assert!(survey.prefilled.iter().all(|filled| text[filled.span.start..filled.span.end] == filled.value));
    let many: Vec<_> = (0..70).map(|i| format!(r#"{{"default":{i}}}"#)).collect();
    let (survey, _) = self::survey(&format!(r#"{{"anyOf":[{}]}}"#, many.join(",")));
    assert_eq!((survey.prefilled.len(), survey.prefilled_more), (MAX_PREFILLED, 70 - MAX_PREFILLED));
}

#[test]
fn readers_that_count_brackets_are_thought_of() {
    // Eight levels of subschemas, two containers each: 16 containers. Then one more.
    let chain = |levels: usize| format!("{}{{}}{}", r#"{"properties":{"a":"#.repeat(levels), "}}".repeat(levels));
    finds(&format!(r#"{{"not":{{"not":{}}}}}"#, chain(6)), &[]);
    finds(&chain(8), &[(DEEP_CONTAINERS, "")]);
    let lists = |count: usize| format!(r#"{{"enum":[{}]}}"#, vec!["[]"; count].join(","));
    finds(&lists(1022), &[]);
    finds(&lists(1023), &[(MANY_CONTAINERS, "")]);
}

#[test]
fn a_map_of_fields_is_told_from_a_schema() {
    for text in [
        r#"{"price":"number","name":"string"}"#,
        r#"{"result":{"type":"string"},"ok":{"type":"boolean"}}"#,
        r#"{"title":"string","url":"string"}"#,
        r#"{"score":"a value from 0 to 1"}"#,
    ] {
        finds(text, &[(FIELD_MAP, "")]);
    }
    for text in [
        "{}",
        r#"{"type":"object"}"#,
        r#"{"description":"anything"}"#,
        r#"{"x-internal":"yes"}"#,
        r#"{"weight":1}"#,
        r#"{"properties":{"price":{"type":"number"}}}"#,
    ] {
        finds(text, &[]);
    }
}

#[test]
fn misspelt_keywords_are_a_hint() {
    finds(
        r#"{"type":"object","propertys":{},"require":[],"additionalProperty":false,"enums":[]}"#,
        &[
            (KEYWORD_TYPO, "/propertys"),
            (KEYWORD_TYPO, "/require"),
            (KEYWORD_TYPO, "/additionalProperty"),
            (KEYWORD_TYPO, "/enums"),
        ],
    );
    finds(r#"{"type":"array","items":{},"item":1,"x-unit":"wei","example":"a","nullable":true}"#, &[]);
}

#[test]
fn many_flaws_cost_little_and_the_error_is_never_lost() {
    let mut text = String::from(r#"{"type":"object","properties":{"#);
    for at in 0..1000 {
        let _ = write!(text, r#""p{at}":{{"title":"","definitions":{{}},"requierd":1}},"#);
    }
    text.push_str(r#""last":{"minLength":-1}}}"#);
    let (_, findings) = survey(&text);
    assert_eq!(findings.iter().filter(|finding| finding.severity == Severity::Error).count(), 1);
    assert_eq!(findings.iter().filter(|finding| finding.code == KEYWORD_SHAPE).count(), 1);
    assert_eq!(findings.len(), 65);
}

#[test]
fn a_hostile_megabyte_is_judged_quickly() {
    let unknown: Vec<_> = (0..60_000).map(|i| format!(r#""require{i}":0"#)).collect();
    let huge_required: Vec<_> = (0..90_000).map(|i| format!(r#""{i}""#)).collect();
    let long_index: Vec<_> = (0..900).map(|_| r##"{"$ref":"#/x/99999"}"##.to_owned()).collect();
    for text in [
        format!(r#"{{"type":"object",{}}}"#, unknown.join(",")),
        format!(r#"{{"required":[{}]}}"#, huge_required.join(",")),
        format!(r#"{{"x":[{}],"anyOf":[{}]}}"#, vec!["{}"; 100_000].join(","), long_index.join(",")),
        format!(r##"{{"x":{{"not":{}}},"items":{{"$ref":"#/x"}}}}"##, wide(60_000)),
        format!(r#"{{"pattern":"{}"}}"#, "(".repeat(1_000_000)),
        format!(r#"{{"pattern":"{}"}}"#, r"\\d".repeat(300_000)),
        format!(r#"{{"properties":{{{}}}}}"#, (0..60_000).map(|i| format!(r#""p{i}":1"#)).collect::<Vec<_>>().join(",")),
    ] {
        let document = document(&text);
        // Quadratic work on this much text takes minutes.
        assert_faster_than(Duration::from_secs(2), &text[..60], || {
            check(document.root(), &mut Totals::default(), &mut Context::new(Mode::Consumer));
        });
    }
}

proptest::proptest! {
    #[test]
    fn no_schema_upsets_the_check(text in arbitrary_schema()) {
        let (survey, findings) = survey(&text);
        proptest::prop_assert!(survey.nodes >= 1 || findings.iter().any(|finding| finding.code == NOT_A_SCHEMA));
        proptest::prop_assert!(survey.expanded <= MAX_EXPANDED);
    }
}

/// Schemas made of everything relevant here: applicators, references and invalid values.
pub(super) fn arbitrary_schema() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::prelude::*;
    let leaf = prop_oneof![
        Just("true".to_owned()),
        Just("{}".to_owned()),
        Just("1".to_owned()),
        Just(r#""string""#.to_owned()),
        Just(r##"{"$ref":"#"}"##.to_owned()),
        Just(r##"{"$ref":"#/$defs/a"}"##.to_owned()),
        Just(r##"{"$ref":"#/properties/a"}"##.to_owned()),
        Just(r##"{"$ref":"#x"}"##.to_owned()),
        Just(r##"{"$anchor":"x"}"##.to_owned()),
    ];
    leaf.prop_recursive(6, 60, 4, |inner| {
        let one = prop::sample::select(vec!["items", "not", "contains", "additionalProperties", "unevaluatedProperties", "junk"]);
        let list = prop::sample::select(vec!["allOf", "anyOf", "prefixItems"]);
        let map = prop::sample::select(vec!["properties", "$defs", "patternProperties", "dependentSchemas", "dependencies"]);
        prop_oneof![
            (one, inner.clone()).prop_map(|(key, value)| format!(r#"{{"{key}":{value}}}"#)),
            (list, inner.clone(), inner.clone()).prop_map(|(key, a, b)| format!(r#"{{"{key}":[{a},{b}]}}"#)),
            (map, inner.clone(), inner.clone()).prop_map(|(key, a, b)| format!(r#"{{"{key}":{{"a":{a},"b":{b}}}}}"#)),
            (inner.clone(), inner)
                .prop_map(|(a, b)| format!(r##"{{"$defs":{{"a":{a}}},"properties":{{"a":{b}}},"$ref":"#/$defs/a"}}"##)),
        ]
    })
}
