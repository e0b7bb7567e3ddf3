use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::credentials::MAX_CREDENTIALS;
use super::functions::PROPERTY_NAME_MAX;
use super::names::{EXPOSED_ADVISED, ID_ADVISED, Target, exposed_name};
use super::*;
use crate::checked::{Checked, Outcome, parse};
use crate::codes::local as code;
use crate::codes::manifest::{FIELD_MISSING, SECRET_LIKE, WRONG_TYPE};
use crate::finding::Mode;

const FULL: &str = include_str!("../../../../vectors/local/full.json");
const SHELL: &str = include_str!("../../../../vectors/local/shell.json");
const LATER: &str = include_str!("../../../../vectors/local/later-fields.json");

fn checked(source: &str) -> Checked<LocalManifest> {
    parse(source.as_bytes(), Mode::Producer)
}

fn full() -> Json {
    serde_json::from_str(FULL).expect("the vector is JSON")
}

/// The full example with the value at `pointer` replaced or added (`None` removes it) has exactly the `wanted` codes.
#[track_caller]
fn check(pointer: &str, value: impl Into<Option<Json>>, wanted: &[Code]) -> Checked<LocalManifest> {
    let mut manifest = full();
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer to a member");
    let parent = manifest.pointer_mut(parent).expect("the parent exists");
    match (parent, value.into()) {
        (Json::Object(members), Some(value)) => {
            members.insert(key.to_owned(), value);
        }
        (Json::Object(members), None) => {
            members.remove(key).expect("the member exists");
        }
        (Json::Array(list), Some(value)) => list.insert(key.parse().expect("an index"), value),
        _ => panic!("{pointer} cannot be edited"),
    }
    let checked = checked(&manifest.to_string());
    let found: Vec<_> = checked.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(found, wanted, "{pointer}: {:#?}", checked.findings);
    let errors = wanted.iter().any(|code| code.severity() == Severity::Error);
    assert_eq!(checked.conformant().is_none(), errors, "{pointer}");
    checked
}

fn function(name: &str, parameters: Json) -> Json {
    json!({"name": name, "description": "Does something.", "parameters": parameters})
}

// req: LOCAL-009, LOCAL-010
#[test]
fn both_examples_of_the_format_are_clean() {
    let result = checked(FULL);
    assert_eq!(result.findings, []);
    let manifest = result.into_result().expect("no errors");
    assert_eq!((manifest.id(), manifest.name(), manifest.version()), ("my-tool", "My Tool", "1.0.0"));
    assert_eq!(manifest.description(), "Turns one text into another.");
    let [key] = manifest.credentials() else { panic!("one credential") };
    assert_eq!((key.name(), key.label(), key.required(), key.secret()), ("api_key", "API key", true, true));
    assert_eq!(key.description(), Some("The key that the service gave you"));
    let [function] = manifest.functions() else { panic!("one function") };
    assert_eq!((function.name(), function.description()), ("do_something", "Processes the input and returns the outcome."));
    assert_eq!(exposed_name(manifest.id(), function.name(), Target::Mcp).as_deref(), Ok("my-tool_do_something"));
    let written = manifest.parameters("do_something").expect("the function exists");
    assert_eq!(written.source(), function.parameters());
    assert_eq!(written.get("required").map(Value::source), Some("[\"input\"]"));
    assert!(manifest.parameters("do_nothing").is_none() && manifest.function("do_nothing").is_none());
    // The canonical form parses to the same document.
    assert_eq!(serde_json::from_str::<Json>(manifest.canonical().as_str()).expect("canonical JSON"), full());

    let result = checked(SHELL);
    assert_eq!(result.findings, []);
    let manifest = result.into_result().expect("no errors");
    assert_eq!(manifest.credentials(), []);
    // The description mentions the default of the timeout; the parser does not fill it in.
    let execute = manifest.function("execute").expect("the function exists");
    assert!(execute.survey().prefilled.is_empty() && !execute.parameters().contains("\"default\""));
}

// req: LOCAL-002
#[test]
fn every_required_field_is_missed_by_name() {
    for field in ["id", "name", "description", "version"] {
        let result = check(&format!("/{field}"), None, &[FIELD_MISSING]);
        assert_eq!(result.findings[0].pointer, format!("/{field}"));
    }
    assert_eq!(check("/functions", None, &[code::FUNCTIONS_MISSING]).findings[0].pointer, "/functions");
    check("/credentials", None, &[]);
    for field in ["id", "name", "description", "version", "credentials", "functions"] {
        for wrong in [Json::Null, json!(1), json!(true), json!({})] {
            check(&format!("/{field}"), wrong, &[WRONG_TYPE]);
        }
    }
    check("/credentials", json!([]), &[]);
    check("/functions", json!([]), &[code::FUNCTIONS_EMPTY]);
}

// req: LOCAL-001
#[test]
fn a_document_that_is_no_object_is_no_manifest() {
    for source in ["[]", "null", "\"id\""] {
        assert!(checked(source).has(crate::codes::manifest::NOT_AN_OBJECT), "{source}");
    }
    assert!(matches!(checked("{").outcome, Outcome::Unreadable));
    assert!(checked(&" ".repeat(json::MAX_BYTES + 1)).has(crate::codes::json::TOO_LARGE));
}

// req: LOCAL-003
#[test]
fn ids_that_could_leave_their_folder_are_refused() {
    for bad in ["", "/", "..", ".", "a/b", "a\\b", "../a", "a.b", " a", "a ", "-a", "_a", "é", "a\u{0}", "con:"] {
        check("/id", json!(bad), &[code::ID_GRAMMAR]);
    }
    check("/id", json!("a".repeat(65)), &[code::ID_GRAMMAR]);
    for good in ["a", "7", "my-tool", "a--b", "2fa"] {
        check("/id", json!(good), &[]);
    }
}

#[test]
fn ids_should_travel() {
    check("/id", json!("my_tool"), &[code::ID_UNDERSCORE]);
    check("/id", json!("MyTool"), &[code::ID_NOT_SLUG]);
    check("/id", json!("tool-"), &[code::ID_NOT_SLUG]);
    check("/id", json!("My_Tool"), &[code::ID_UNDERSCORE, code::ID_NOT_SLUG]);
    // One character more than recommended. The exposed name is then long as well.
    check("/id", json!("a".repeat(ID_ADVISED)), &[code::EXPOSED_NAME_LONG]);
    check("/id", json!("a".repeat(ID_ADVISED + 1)), &[code::ID_LONG, code::EXPOSED_NAME_LONG]);
}

// req: LOCAL-003
#[test]
fn the_folder_has_the_name_of_the_tool() {
    let result = checked(FULL);
    let manifest = result.conformant().expect("no errors");
    assert_eq!(check_folder(manifest, "my-tool"), None);
    let finding = check_folder(manifest, "other").expect("they differ");
    assert_eq!((finding.code, finding.pointer.as_str()), (code::FOLDER_MISMATCH, "/id"));
    assert_eq!((finding.expected.as_deref(), finding.got.as_deref()), (Some("other"), Some("my-tool")));
    assert!(finding.span.is_some());
    let finding = check_folder(manifest, "My-Tool").expect("case counts");
    assert!(finding.message.ends_with("upper and lower case only"));

    // A flawed document is compared as well; one without an id cannot be.
    let Outcome::Flawed(document) = checked(r#"{"id": "a"}"#).outcome else { panic!("fields are missing") };
    assert!(check_folder_of(&document, "b").is_some() && check_folder_of(&document, "a").is_none());
    let Outcome::Flawed(document) = checked(r#"{"id": 7}"#).outcome else { panic!("fields are missing") };
    assert!(check_folder_of(&document, "7").is_none());
}

// req: LOCAL-004
#[test]
fn versions_are_semantic() {
    for good in ["1.0.0", "0.0.1", "1.0.0-rc.1", "1.0.0+build"] {
        check("/version", json!(good), &[]);
    }
    for bad in ["1.0", "v1", "", "1", "latest", "01.0.0"] {
        let result = check("/version", json!(bad), &[code::VERSION_NOT_SEMVER]);
        assert_eq!(result.findings[0].fix, None, "{bad} could mean several versions");
    }
    let result = check("/version", json!("v1.2.3"), &[code::VERSION_NOT_SEMVER]);
    assert_eq!(result.findings[0].fix.as_ref().map(|fix| fix.edits[0].replacement.as_str()), Some("\"1.2.3\""));
}

// req: LOCAL-004, LOCAL-006
#[test]
fn texts_say_something_and_stay_short() {
    let texts = [
        ("/name", NAME_MAX, code::NAME_LONG),
        ("/description", DESCRIPTION_MAX, code::DESCRIPTION_LONG),
        ("/credentials/0/label", NAME_MAX, code::NAME_LONG),
        ("/functions/0/description", FUNCTION_DESCRIPTION_MAX, code::FUNCTION_DESCRIPTION_LONG),
    ];
    for (pointer, max, long) in texts {
        for empty in ["", " ", "\n\u{3000}"] {
            let wanted: &[Code] = match (empty, pointer.ends_with("description")) {
                ("\n\u{3000}", false) => &[code::CONTROL_CHARACTER, code::TEXT_EMPTY],
                _ => &[code::TEXT_EMPTY],
            };
            check(pointer, json!(empty), wanted);
        }
        // Code points, not bytes.
        check(pointer, json!("é".repeat(max)), &[]);
        check(pointer, json!("é".repeat(max + 1)), &[long]);
        check(pointer, json!("a\u{1b}[31m"), &[code::CONTROL_CHARACTER]);
        check(pointer, json!("a\u{202e}b"), &[crate::codes::json::INVISIBLE]);
    }
    check("/name", json!("two\nlines"), &[code::CONTROL_CHARACTER]);
    check("/description", json!("two\nlines\tand a tab"), &[]);
    check("/credentials/0/description", json!(""), &[]);
    check("/credentials/0/description", json!(7), &[WRONG_TYPE]);
    let mut manifest = full();
    manifest["name"] = json!("cafe\u{301}");
    let result = checked(&manifest.to_string());
    let found: Vec<_> = result.findings.iter().map(|finding| (finding.code, finding.severity)).collect();
    assert_eq!(found, [(crate::codes::json::NOT_NFC, Severity::Warning)]);
}

// req: LOCAL-005
#[test]
fn credentials_have_a_name_a_label_and_say_whether_they_are_required() {
    for field in ["name", "label", "required"] {
        let pointer = format!("/credentials/0/{field}");
        assert_eq!(check(&pointer, None, &[FIELD_MISSING]).findings[0].pointer, pointer);
    }
    check("/credentials/0/description", None, &[]);
    for wrong in [json!("yes"), json!("true"), json!(1), Json::Null] {
        check("/credentials/0/required", wrong, &[WRONG_TYPE]);
    }
    check("/credentials/0/required", json!(false), &[]);
    let again = json!({"name": "api_key", "label": "Again", "required": false});
    let result = check("/credentials/1", again, &[code::CREDENTIAL_DUPLICATE]);
    assert_eq!(result.findings[0].pointer, "/credentials/1/name");
    check("/credentials/1", json!({"name": "API_KEY", "label": "Another", "required": false}), &[]);
    check("/credentials/1", json!("token"), &[WRONG_TYPE]);
    for bad in ["", "a b", "../x", "_x", "-x", "a.b", "é"] {
        check("/credentials/0/name", json!(bad), &[code::CREDENTIAL_NAME]);
    }
    check("/credentials/0/name", json!("a".repeat(64)), &[]);
    check("/credentials/0/name", json!("a".repeat(65)), &[code::CREDENTIAL_NAME]);
}

#[test]
fn credentials_are_counted() {
    let list =
        |count: usize| (0..count).map(|n| json!({"name": format!("k{n}"), "label": "Key", "required": false})).collect::<Json>();
    let result = check("/credentials", list(MAX_CREDENTIALS), &[]);
    assert_eq!(result.conformant().map(|manifest| manifest.credentials().len()), Some(MAX_CREDENTIALS));
    check("/credentials", list(MAX_CREDENTIALS + 1), &[code::CREDENTIALS_TOO_MANY]);
}

// req: LOCAL-006
#[test]
fn values_of_credentials_do_not_belong_into_a_manifest() {
    for key in ["value", "default"] {
        let result = check(&format!("/credentials/0/{key}"), json!("hunter2"), &[code::SECRET_IN_MANIFEST]);
        assert!(!format!("{:?}", result.findings).contains("hunter2"), "the value is not repeated");
        check(&format!("/credentials/0/{key}"), json!(["hunter2"]), &[code::SECRET_IN_MANIFEST]);
    }
    // A default of a credential that is declared not to be secret only has no effect.
    let open = json!({"name": "url", "label": "URL", "required": true, "secret": false, "default": "http://localhost"});
    let mut manifest = full();
    manifest["credentials"] = json!([open]);
    let result = checked(&manifest.to_string());
    assert_eq!(
        result.findings.iter().map(|f| (f.code, f.severity)).collect::<Vec<_>>(),
        [(code::SECRET_IN_MANIFEST, Severity::Warning)]
    );
    assert!(!result.conformant().expect("warnings only").credentials()[0].secret());
    check("/credentials/0/secret", json!("no"), &[code::LATER_FIELD]);
}

#[test]
fn secrets_anywhere_are_noticed() {
    let key = format!("ghp_{}", "a1B2".repeat(9));
    check("/functions/0/parameters/properties/input/description", json!(format!("Such as {key}")), &[SECRET_LIKE]);
    check("/x-notes", json!([{"deep": key}]), &[SECRET_LIKE]);
}

// req: LOCAL-007
#[test]
fn functions_have_a_name_a_description_and_parameters() {
    for field in ["name", "description", "parameters"] {
        let pointer = format!("/functions/0/{field}");
        assert_eq!(check(&pointer, None, &[FIELD_MISSING]).findings[0].pointer, pointer);
        check(&pointer, json!(7), &[WRONG_TYPE]);
    }
    check("/functions/1", json!("greet"), &[WRONG_TYPE]);
    let result = check("/functions/1", function("do_something", json!({"type": "object"})), &[code::FUNCTION_DUPLICATE]);
    assert_eq!(result.findings[0].pointer, "/functions/1/name");
    check("/functions/1", function("do_something_else", json!({"type": "object"})), &[]);
    for bad in ["", "a b", "a.b", "a/b", "_a", "-a", "é", "a:b"] {
        check("/functions/0/name", json!(bad), &[code::FUNCTION_NAME]);
    }
    for odd in ["do-it", "2do"] {
        check("/functions/0/name", json!(odd), &[code::FUNCTION_NOT_IDENTIFIER]);
    }
    for good in ["a", "doIt", "do_it", "do_it2"] {
        check("/functions/0/name", json!(good), &[]);
    }
}

#[test]
fn exposed_names_fit_everywhere_or_say_where_not() {
    // `my-tool_` takes eight characters.
    let name = |length: usize| json!("f".repeat(length - 8));
    check("/functions/0/name", name(EXPOSED_ADVISED), &[]);
    check("/functions/0/name", name(EXPOSED_ADVISED + 1), &[code::EXPOSED_NAME_LONG]);
    check("/functions/0/name", name(64), &[code::EXPOSED_NAME_LONG]);
    let result = check("/functions/0/name", name(65), &[code::EXPOSED_NAME_TOO_LONG]);
    let message = &result.findings[0].message;
    assert!(message.contains("65 characters") && message.ends_with("OpenAI, Anthropic and ERC-8257"), "{message}");
    let result = check("/functions/0/name", json!("done_"), &[code::SLUG_REFUSED]);
    assert_eq!(result.findings[0].got.as_deref(), Some("my-tool-done-"));
    // Without a valid id there is no exposed name to check.
    let mut manifest = full();
    manifest["id"] = json!("..");
    manifest["functions"][0]["name"] = json!("f".repeat(64));
    assert!(!checked(&manifest.to_string()).has(code::EXPOSED_NAME_TOO_LONG));
}

#[test]
fn names_that_become_the_same_are_reported_once() {
    let result = check("/functions/1", function("Do_Something", json!({"type": "object"})), &[code::NAME_COLLISION]);
    let finding = &result.findings[0];
    assert_eq!(finding.pointer, "/functions/1/name");
    assert_eq!(finding.message, "`Do_Something` and `do_something` both map to `my-tool-do-something` for ERC-8257");
    check(
        "/functions/1",
        function("do-something", json!({"type": "object"})),
        &[code::FUNCTION_NOT_IDENTIFIER, code::NAME_COLLISION],
    );
}

#[test]
fn functions_are_counted() {
    let list = |count: usize| (0..count).map(|n| function(&format!("f{n}"), json!({"type": "object"}))).collect::<Json>();
    check("/functions", list(FUNCTIONS_ADVISED), &[]);
    check("/functions", list(FUNCTIONS_ADVISED + 1), &[code::FUNCTIONS_MANY]);
    check("/functions", list(MAX_FUNCTIONS), &[code::FUNCTIONS_MANY]);
    check("/functions", list(MAX_FUNCTIONS + 1), &[code::FUNCTIONS_TOO_MANY]);
}

// req: LOCAL-008
#[test]
fn parameters_are_the_schema_of_an_object() {
    let parameters = "/functions/0/parameters";
    check(parameters, json!({"type": "object"}), &[]);
    check(parameters, json!({"type": "object", "properties": {}, "additionalProperties": false}), &[]);
    let result = check(parameters, json!({}), &[code::PARAMETERS_TYPE]);
    assert_eq!(result.findings[0].pointer, "/functions/0/parameters/type");
    for wrong in [json!({"type": "string"}), json!({"type": ["object", "null"]}), json!({"type": ["object"]})] {
        check(parameters, wrong, &[code::PARAMETERS_TYPE]);
    }
    for wrong in [json!(true), json!([]), json!("object"), Json::Null] {
        check(parameters, wrong, &[WRONG_TYPE]);
    }
    for keyword in ["oneOf", "anyOf", "allOf"] {
        let result = check(parameters, json!({"type": "object", keyword: [{}]}), &[code::PARAMETERS_COMBINED]);
        assert!(result.findings[0].message.ends_with("OpenAI and Anthropic"));
        let deeper = json!({"type": "object", "properties": {"a": {keyword: [{}]}}});
        check(parameters, deeper, &[]);
    }
    let result = check(parameters, json!({"type": "object", "not": {"required": ["a"]}}), &[code::PARAMETERS_COMBINED]);
    assert!(result.findings[0].message.ends_with("refused by OpenAI"));
}

// req: LOCAL-008
#[test]
fn required_parameters_are_described() {
    let parameters = "/functions/0/parameters";
    check(parameters, json!({"type": "object", "properties": {"a": {}}, "required": ["a"]}), &[]);
    let result =
        check(parameters, json!({"type": "object", "properties": {"a": {}}, "required": ["a", "b"]}), &[code::REQUIRED_UNKNOWN]);
    assert_eq!(result.findings[0].pointer, "/functions/0/parameters/required/1");
    check(parameters, json!({"type": "object", "required": ["a"]}), &[code::REQUIRED_UNKNOWN]);
    check(parameters, json!({"type": "object", "patternProperties": {"^a$": {}}, "required": ["a"]}), &[]);
    let many: Vec<_> = (0..100).map(|n| format!("p{n}")).collect();
    check(parameters, json!({"type": "object", "required": many}), &[code::REQUIRED_UNKNOWN; 8]);
}

#[test]
fn names_of_parameters_are_taken_by_every_provider() {
    let with = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}});
    let parameters = "/functions/0/parameters";
    for good in ["a", "A.b-c_9", "_", &"a".repeat(PROPERTY_NAME_MAX)] {
        check(parameters, with(good), &[]);
    }
    for bad in ["", "a b", "filter[id]", "$top", "é"] {
        let result = check(parameters, with(bad), &[code::PROPERTY_NAME]);
        assert!(result.findings[0].message.ends_with("by Anthropic"), "{bad}");
    }
    let result = check(parameters, with(&"a".repeat(PROPERTY_NAME_MAX + 1)), &[code::PROPERTY_NAME]);
    assert!(result.findings[0].message.ends_with("Anthropic and Gemini"));
    // Providers check only the top level.
    check(parameters, json!({"type": "object", "properties": {"a": with("b c")}}), &[]);
}

#[test]
fn unknown_fields_are_kept_and_near_misses_are_hinted_at() {
    let result = check("/x-own", json!({"a": [1]}), &[]);
    let manifest = result.into_result().expect("no errors");
    assert_eq!(manifest.document().root().get("x-own").map(Value::source), Some(r#"{"a":[1]}"#));
    assert!(manifest.canonical().as_str().contains(r#""x-own":{"a":[1]}"#));

    for (pointer, meant) in [
        ("/Settings", "settings"),
        ("/default_enabled", "defaultEnabled"),
        ("/trigger", "triggers"),
        ("/credentials/0/secert", "secret"),
    ] {
        let result = check(pointer, json!("x"), &[code::UNKNOWN_FIELD]);
        assert_eq!(result.findings[0].expected.as_deref(), Some(meant), "{pointer}");
    }
    // The known field is present, so the similar one is not a misspelling.
    check("/names", json!("x"), &[]);
    check("/functions/0/params", json!({}), &[]);

    for (pointer, alias, meant) in
        [("", "tools", "functions"), ("/functions/0", "inputSchema", "parameters"), ("/credentials/0", "title", "label")]
    {
        let mut manifest = full();
        let object = manifest.pointer_mut(pointer).and_then(Json::as_object_mut).expect("an object");
        let value = object.remove(meant).expect("the member exists");
        object.insert(alias.to_owned(), value);
        let result = checked(&manifest.to_string());
        let hint = result.findings.iter().find(|finding| finding.code == code::UNKNOWN_FIELD).expect("a hint");
        assert_eq!((hint.pointer.as_str(), hint.expected.as_deref()), (&*format!("{pointer}/{alias}"), Some(meant)));
    }
}

#[test]
fn fields_of_later_versions_are_kept_and_looked_at_lightly() {
    let result = checked(LATER);
    assert_eq!(result.findings, []);
    let manifest = result.into_result().expect("no errors");
    assert_eq!(
        manifest.document().root().get("oauth").and_then(|oauth| oauth.get("provider")).and_then(Value::as_str),
        Some("example")
    );

    for field in later::FIELDS {
        check(&format!("/{field}"), json!(7), &[code::LATER_FIELD]);
        check(&format!("/{field}"), Json::Null, &[code::LATER_FIELD]);
    }
    let setting = |kind: &str| json!([{"name": "a", "label": "A", "type": kind}]);
    for kind in ["number", "string", "boolean"] {
        check("/settings", setting(kind), &[]);
    }
    check("/settings", setting("select"), &[code::LATER_FIELD]);
    check("/settings", setting("date"), &[code::LATER_FIELD]);
    check("/settings", json!([7, {"name": "a"}]), &[code::LATER_FIELD; 3]);
    check("/settings", json!([{"name": "a", "label": "A", "type": "number", "default": 7}]), &[code::LATER_FIELD]);
    check("/triggers", json!([{"label": "A"}]), &[code::LATER_FIELD]);
    check("/oauth", json!({"provider": "x"}), &[code::LATER_FIELD]);
    for port in [json!(0), json!(65536), json!(1.5), json!("80")] {
        check("/sidecar", json!({"port": port}), &[code::LATER_FIELD]);
    }
    check("/sidecar", json!({"port": 65535, "transport": "http"}), &[]);
    check("/sidecar", json!({"port": 1, "transport": "tcp"}), &[code::LATER_FIELD]);
    let module = |functions: Json| json!([{"id": "m", "name": "M", "functions": functions}]);
    check("/modules", module(json!(["do_something"])), &[]);
    check("/modules", module(json!(["do_something", "do_nothing"])), &[code::MODULE_FUNCTION]);
    check("/modules", module(json!([7])), &[code::LATER_FIELD]);
}

#[test]
fn the_template_is_clean_whatever_the_slug() {
    for id in ["a", "my-tool", "2fa", &"a".repeat(ID_ADVISED - 6)] {
        let result = checked(&template(id));
        assert_eq!(result.findings, [], "{id}");
        assert_eq!(result.conformant().expect("no errors").id(), id);
    }
    assert_eq!(checked(&template("web-search")).conformant().expect("no errors").name(), "Web Search");
    // A bad id gives a manifest with findings, never broken JSON.
    for id in ["", "\"", "a\\b", "\u{1}", "--"] {
        assert!(checked(&template(id)).has(code::ID_GRAMMAR), "{id:?}");
    }
}

/// Files that are slow on purpose: long lists of invalid values that each need a pointer.
#[test]
fn hostile_lists_are_cut_short() {
    let flood = |head: &str, item: &str, tail: &str| {
        let count = (json::MAX_BYTES - head.len() - tail.len()) / (item.len() + 1);
        format!("{head}{}{tail}", vec![item; count].join(","))
    };
    let keys: String = (0..60_000).map(|n| format!("\"functon{n}\":0,")).collect();
    let sources = [
        flood("{\"functions\":[", "0", "]}"),
        flood("{\"functions\":[", "{}", "]}"),
        flood("{\"credentials\":[", "0", "]}"),
        flood("{\"settings\":[", "0", "]}"),
        flood("{\"triggers\":[", "{}", "]}"),
        flood("{\"modules\":[{\"functions\":[", "0", "]}]}"),
        flood("{\"modules\":[", "{\"functions\":[0]}", "]}"),
        flood("{\"functions\":[{\"parameters\":{\"required\":[", "\"\"", "]}}]}"),
        flood("{\"x\":[", &format!("\"ghp_{}\"", "a1B2".repeat(9)), "]}"),
        format!("{{{keys}\"id\":\"a\"}}"),
        format!("{{\"functions\":[{{\"parameters\":{{\"properties\":{{{}\"\":0}}}}}}]}}", keys.replace("functon", "f ")),
    ];
    // Rules about the whole document: each violation counts, and only those that are shown get a pointer.
    for item in ["\"e\u{301}\"", "99999999999999999999", "\"\u{378}\""] {
        let result = checked(&flood("{\"x\":[", item, "]}"));
        assert_eq!(result.findings.len(), crate::finding::MAX_FINDINGS + 1, "{item}");
        assert_eq!(result.findings[200].pointer, "/x/200", "{item}");
    }
    for source in sources {
        let result = checked(&source);
        assert!(result.conformant().is_none());
        // Creating a finding costs a walk to its position, even if it is only counted.
        let last = result.findings.last().filter(|last| last.code == codes::core::TOO_MANY_FINDINGS);
        let unseen = last.map_or(0, |last| last.message.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(usize::MAX));
        assert!(unseen < 2048, "{unseen} more findings for {}", &source[..60]);
    }
}

#[test]
fn a_runtime_is_read_or_refused() {
    let read = |block: Json| {
        let result = check("/runtime", block, &[]);
        result.conformant().expect("no errors").runtime().expect("a runtime").clone()
    };
    let exec =
        read(json!({"kind": "exec", "command": ["./run.sh", "-x"], "keepAlive": 0, "maxConcurrent": 64, "timeoutMs": 600_000}));
    assert_eq!(exec.kind(), &RuntimeKind::Exec { command: vec!["./run.sh".into(), "-x".into()] });
    assert_eq!((exec.keep_alive(), exec.max_concurrent(), exec.timeout_ms()), (Some(0), Some(64), Some(600_000)));
    assert_eq!(read(json!({"kind": "node"})).kind(), &RuntimeKind::Node { entry: None });
    assert_eq!(
        read(json!({"kind": "node", "entry": "./src/a.mjs"})).kind(),
        &RuntimeKind::Node { entry: Some("src/a.mjs".into()) }
    );
    assert_eq!(read(json!({"kind": "wasm", "entry": "a.wasm"})).kind(), &RuntimeKind::Wasm { entry: "a.wasm".into() });
    let url = "http://127.0.0.1:3000/mcp";
    assert_eq!(read(json!({"kind": "mcp", "url": url})).kind(), &RuntimeKind::McpHttp { url: url.into() });
    assert_eq!(read(json!({"kind": "http", "url": url})).kind(), &RuntimeKind::Http { url: url.into() });
    assert_eq!(read(json!({"kind": "mcp", "command": ["npx"]})).kind(), &RuntimeKind::McpStdio { command: vec!["npx".into()] });

    check("/runtime", json!("exec"), &[WRONG_TYPE]);
    check("/runtime", json!({}), &[FIELD_MISSING]);
    check("/runtime", json!({"kind": "docker"}), &[code::RUNTIME_KIND]);
    check("/runtime", json!({"kind": "mcp", "url": url, "command": ["a"]}), &[code::RUNTIME_KIND]);
    check("/runtime", json!({"kind": "exec"}), &[FIELD_MISSING]);
    for command in [json!([]), json!(["/bin/sh"]), json!(["./../a"]), json!(["a/b"]), json!(["-c"]), json!([""]), json!(["./"])] {
        check("/runtime", json!({"kind": "exec", "command": command}), &[code::RUNTIME_COMMAND]);
    }
    check("/runtime", json!({"kind": "exec", "command": ["a", "b\u{0}"]}), &[code::RUNTIME_COMMAND]);
    check("/runtime", json!({"kind": "exec", "command": vec!["a"; 65]}), &[code::RUNTIME_COMMAND]);
    for entry in ["", "/a.js", "../a.js", "a/../b.js", "a//b.js", "C:a.js", "a\\b.js"] {
        check("/runtime", json!({"kind": "node", "entry": entry}), &[code::RUNTIME_ENTRY]);
    }
    for url in ["", "http://", "ftp://a", "http://a b", "//a", "http://é"] {
        check("/runtime", json!({"kind": "http", "url": url}), &[code::RUNTIME_URL]);
    }
    for (key, value) in
        [("keepAlive", json!(86_401)), ("maxConcurrent", json!(0)), ("timeoutMs", json!(600_001)), ("timeoutMs", json!(1.5))]
    {
        check("/runtime", json!({"kind": "node", key: value}), &[code::NUMBER_RANGE]);
    }
    check("/runtime", json!({"kind": "node", "timeout_ms": 5}), &[code::UNKNOWN_FIELD]);
}

#[test]
fn a_sandbox_is_read_or_refused() {
    let result = check(
        "/sandbox",
        json!({"read": ["~/notes", "/usr/share/dict", "$folder"], "write": ["$data/cache"], "network": [443], "memoryMiB": 64}),
        &[],
    );
    let manifest = result.conformant().expect("no errors");
    assert_eq!(manifest.sandbox().read(), ["~/notes", "/usr/share/dict", "$folder"]);
    assert_eq!(manifest.sandbox().network(), &NetworkRequest::Ports(vec![443]));
    assert_eq!((manifest.sandbox().memory_mib(), manifest.sandbox().max_processes()), (Some(64), None));
    assert_eq!(checked(SHELL).conformant().expect("no errors").sandbox(), &SandboxRequest::default());
    for path in ["notes", "~", "~root/x", "../a", "/a/../b", "$home/x", "$data2", ""] {
        check("/sandbox", json!({"read": [path]}), &[code::SANDBOX_PATH]);
    }
    for network in [json!("some"), json!([0]), json!([65_536]), json!(["443"]), json!(443), json!(vec![1; 65])] {
        check("/sandbox", json!({"network": network}), &[code::SANDBOX_NETWORK]);
    }
    check("/sandbox", json!({"memoryMiB": 0}), &[code::NUMBER_RANGE]);
    check("/sandbox", json!({"memory": 5}), &[code::UNKNOWN_FIELD]);
}

#[test]
fn functions_may_state_outputs_effects_and_a_time_limit() {
    let result = check("/functions/0/outputs", json!({"type": "object"}), &[]);
    assert_eq!(result.conformant().expect("no errors").functions()[0].outputs(), Some("{\"type\":\"object\"}"));
    check("/functions/0/outputs", json!(true), &[WRONG_TYPE]);
    let result = check("/functions/0/effects", json!({"readOnly": true}), &[]);
    let effects = result.conformant().expect("no errors").functions()[0].effects();
    assert_eq!(effects, Effects { read_only: Some(true), ..Effects::default() });
    check("/functions/0/effects", json!({"readOnly": "yes"}), &[WRONG_TYPE]);
    check("/functions/0/effects", json!({"readOnlyHint": true}), &[code::UNKNOWN_FIELD]);
    check("/functions/0/timeoutMs", json!(0), &[code::NUMBER_RANGE]);
}

#[test]
fn a_credential_never_sets_a_variable_that_programs_start_with() {
    let result = check("/credentials/0/env", json!("GITHUB_TOKEN"), &[]);
    assert_eq!(result.conformant().expect("no errors").credentials()[0].env(), Some("GITHUB_TOKEN"));
    for name in ["PATH", "LD_PRELOAD", "ld_preload", "NODE_OPTIONS", "PYTHONPATH", "TOOLCRIB_X", "1A", "", "A-B", "BASH_ENV"] {
        check("/credentials/0/env", json!(name), &[code::CREDENTIAL_ENV]);
    }
}

#[test]
fn a_credential_never_sets_a_header_that_steers_the_request() {
    let server = |header: Json| {
        let mut manifest = full();
        manifest["runtime"] = json!({"kind": "mcp", "url": "http://127.0.0.1:3000/mcp"});
        manifest["credentials"][0]["header"] = header;
        checked(&manifest.to_string())
    };
    for name in ["Authorization", "X-API-Key", "x_token"] {
        let result = server(json!(name));
        assert_eq!(result.findings, []);
        assert_eq!(result.conformant().expect("no errors").credentials()[0].header(), Some(name));
    }
    for name in ["", "Host", "COOKIE", "content-length", "Transfer-Encoding", "Mcp-Session-Id", "a b", "a:", "é", &"a".repeat(65)]
    {
        let codes: Vec<_> = server(json!(name)).findings.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, [code::CREDENTIAL_HEADER], "{name}");
    }
    check("/credentials/0/header", json!("Authorization"), &[code::CREDENTIAL_HEADER_UNUSED]);
    let mut manifest = full();
    let second = json!({"name": "b", "label": "B", "required": false, "header": "AUTHORIZATION"});
    manifest["runtime"] = json!({"kind": "mcp", "url": "http://127.0.0.1:3000/mcp"});
    manifest["credentials"][0]["header"] = json!("Authorization");
    manifest["credentials"].as_array_mut().expect("a list").push(second);
    let codes: Vec<_> = checked(&manifest.to_string()).findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [code::CREDENTIAL_HEADER]);
}

#[test]
fn an_mcp_server_elsewhere_needs_https_and_the_network() {
    let codes = |url: &str, network: Option<Json>| -> Vec<Code> {
        let mut manifest = full();
        manifest["runtime"] = json!({"kind": "mcp", "url": url});
        if let Some(network) = network {
            manifest["sandbox"] = json!({"network": network});
        }
        checked(&manifest.to_string()).findings.iter().map(|finding| finding.code).collect()
    };
    for url in ["http://127.0.0.1:3000/mcp", "http://[::1]/", "http://localhost:1/mcp", "https://localhost/mcp"] {
        assert_eq!(codes(url, None), [], "{url}");
    }
    let public = "https://mcp.example.com/mcp";
    assert_eq!(codes(public, Some(json!([443]))), []);
    assert_eq!(codes(public, Some(json!("any"))), []);
    assert_eq!(codes("https://mcp.example.com:8443/", Some(json!([443, 8443]))), []);
    for network in [None, Some(json!("none")), Some(json!([80])), Some(json!([]))] {
        assert_eq!(codes(public, network.clone()), [code::RUNTIME_NETWORK], "{network:?}");
    }
    for url in
        ["http://mcp.example.com/mcp", "https://10.0.0.1/mcp", "https://user:pw@mcp.example.com/", "http://127.0.0.1@a.example/"]
    {
        assert_eq!(codes(url, Some(json!("any"))), [code::RUNTIME_URL], "{url}");
    }
}

proptest! {
    /// For any replaced value, and for any truncation of the text, checking returns a result.
    #[test]
    fn no_mutation_panics(at in 0_usize..2000, value in mutation(), cut in prop::option::of(0_usize..2000)) {
        let mut manifest: Json = serde_json::from_str(LATER).expect("the vector is JSON");
        let mut places = Vec::new();
        collect(&manifest, String::new(), &mut places);
        let place = &places[at % places.len()];
        if let Some(target) = manifest.pointer_mut(place) {
            *target = value;
        }
        let mut text = manifest.to_string();
        if let Some(cut) = cut {
            let cut = (0..=cut.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
            text.truncate(cut);
        }
        let result = checked(&text);
        let errors = result.findings.iter().any(|finding| finding.severity == Severity::Error);
        prop_assert_eq!(result.conformant().is_none(), errors);
    }

    #[test]
    fn exposed_names_follow_the_grammar_of_their_target(id in "[A-Za-z0-9_-]{1,70}", function in "[A-Za-z0-9_-]{1,70}") {
        for target in Target::ALL {
            if let Ok(name) = exposed_name(&id, &function, target) {
                prop_assert!(target.accepts(&name) && name.len() <= target.limit());
            }
        }
    }
}

fn mutation() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        ".{0,80}".prop_map(Json::from),
        "[a-z_-]{0,70}".prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::btree_map("name|type|required|properties|functions|.{0,4}", inner, 0..4)
                .prop_map(|members| members.into_iter().collect::<Json>()),
        ]
    })
}

fn collect(value: &Json, pointer: String, places: &mut Vec<String>) {
    match value {
        Json::Array(list) => list.iter().enumerate().for_each(|(at, item)| collect(item, format!("{pointer}/{at}"), places)),
        Json::Object(members) => members.iter().for_each(|(key, item)| collect(item, format!("{pointer}/{key}"), places)),
        _ => {}
    }
    places.push(pointer);
}
