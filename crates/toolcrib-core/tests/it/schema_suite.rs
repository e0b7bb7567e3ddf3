//! Runs the JSON Schema test suite against the validator with the options of the release, and against the check before it.
#![cfg(feature = "schema")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use toolcrib_core::checked::Context;
use toolcrib_core::codes::{Code, schema as codes};
use toolcrib_core::finding::{Finding, Mode, Severity};
use toolcrib_core::json::{Limits, read};
use toolcrib_core::schema::pattern::{FlawKind, scan};
use toolcrib_core::schema::{Totals, Validator, check};

/// The folder of the suite.
fn suite() -> Option<PathBuf> {
    toolcrib_testkit::corpus("schema")
}

fn json_files(folder: &Path, deep: bool) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the corpus has this folder") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                if deep {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "json") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

fn load(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("readable")).expect("is JSON")
}

/// The groups of all test files: a label, the schema, and the cases.
fn groups(suite: &Path, deep: bool) -> Vec<(String, Value, Vec<Value>)> {
    let mut groups = Vec::new();
    for file in json_files(&suite.join("tests/draft2020-12"), deep) {
        let name = file.file_stem().expect("has a name").to_string_lossy().into_owned();
        for group in load(&file).as_array().expect("a list of groups") {
            let label = format!("{name}: {}", group["description"].as_str().unwrap_or_default());
            groups.push((label, group["schema"].clone(), group["tests"].as_array().cloned().unwrap_or_default()));
        }
    }
    groups
}

fn findings(schema: &Value) -> Vec<Finding> {
    let text = schema.to_string();
    let reading = read(text.as_bytes(), Limits::default());
    let mut context = Context::new(Mode::Producer);
    if let Some(document) = &reading.document {
        check(document.root(), &mut Totals::default(), &mut context);
    }
    context.findings.into_sorted()
}

fn errors(schema: &Value) -> Vec<Code> {
    findings(schema).into_iter().filter(|finding| finding.severity == Severity::Error).map(|finding| finding.code).collect()
}

// req: AGT-011, LOCAL-008
#[test]
#[expect(clippy::print_stderr, reason = "the count is worth knowing")]
fn the_required_tests_pass_with_the_shipped_options() {
    let Some(suite) = suite() else { return };
    let remotes = suite.join("remotes");
    let resources: Vec<_> = json_files(&remotes, true)
        .into_iter()
        .map(|path| {
            let relative = path.strip_prefix(&remotes).expect("is below").to_string_lossy().replace('\\', "/");
            (format!("http://localhost:1234/{relative}"), load(&path))
        })
        // Other drafts are not available, and `v1` names a metaschema that is not published.
        .filter(|(uri, _)| !uri.contains("/v1/"))
        .filter(|(uri, _)| !uri.contains("/draft") || uri.contains("/draft2020-12/") || uri.contains("/draft2019-09/"))
        .collect();
    let (mut cases, mut wrong) = (0, Vec::new());
    for (label, schema, tests) in groups(&suite, false) {
        match Validator::unchecked(&schema, &resources) {
            Ok(validator) => {
                for test in tests {
                    cases += 1;
                    if Value::Bool(validator.is_valid(&test["data"])) != test["valid"] {
                        wrong.push(format!("{label}: {}", test["description"]));
                    }
                }
            }
            Err(error) => wrong.push(format!("{label}: {error}")),
        }
    }
    eprintln!("JSON Schema test suite, draft 2020-12: {cases} required cases");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(cases > 1_000, "only {cases} cases were found");
}

/// Groups that `Validator::compile` interprets differently from the suite, with the reason.
const READ_DIFFERENTLY: &[(&str, &str)] = &[(
    "vocabulary: schema that uses custom metaschema with with no validation vocabulary",
    "a custom metaschema is never fetched; schemas in manifests are read as 2020-12 whatever they name",
)];

/// A schema that passes the check compiles in the same engine, and then behaves as the suite requires.
#[test]
#[expect(clippy::print_stderr, reason = "the count is worth knowing")]
fn what_the_check_accepts_compiles_and_behaves() {
    let Some(suite) = suite() else { return };
    let (mut compiled, mut cases, mut wrong) = (0, 0, Vec::new());
    let mut refused: BTreeMap<&str, usize> = BTreeMap::new();
    for (label, schema, tests) in groups(&suite, false) {
        if READ_DIFFERENTLY.iter().any(|(known, _)| *known == label) {
            continue;
        }
        let text = schema.to_string();
        let Some(document) = read(text.as_bytes(), Limits::default()).document else { continue };
        match Validator::compile(document.root()) {
            Ok(validator) => {
                compiled += 1;
                for test in tests {
                    cases += 1;
                    if Value::Bool(validator.is_valid(&test["data"])) != test["valid"] {
                        wrong.push(format!("{label}: {}", test["description"]));
                    }
                }
            }
            Err(findings) => {
                for finding in findings.iter().filter(|finding| finding.severity == Severity::Error) {
                    *refused.entry(finding.code.id()).or_default() += 1;
                    if finding.code == codes::NOT_COMPILED {
                        wrong.push(format!("{label}: {}", finding.message));
                    }
                }
            }
        }
    }
    eprintln!("{compiled} schemas compiled, {cases} cases; refused: {refused:?}");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compiled > 250);
}

/// Every schema of the suite, and every schema-like value inside it: most of them are malformed as a schema, which makes them useful here.
#[test]
#[expect(clippy::print_stderr, reason = "the count is worth knowing")]
fn the_shape_check_agrees_with_the_metaschema() {
    let Some(suite) = suite() else { return };
    let shape = [codes::KEYWORD_SHAPE, codes::UNKNOWN_TYPE, codes::LEGACY_FORM, codes::NOT_A_SCHEMA];
    let (mut both_accept, mut both_refuse, mut wrong) = (0, 0, Vec::new());
    for (label, schema, tests) in groups(&suite, true) {
        let mut candidates = vec![schema.clone()];
        candidates.extend(tests.into_iter().map(|mut test| test["data"].take()));
        candidates.extend(mutations(&schema));
        for candidate in candidates {
            let codes = errors(&candidate);
            // Beyond the reader's limits nothing is checked.
            if read(candidate.to_string().as_bytes(), Limits::default()).document.is_none() {
                continue;
            }
            match (jsonschema::draft202012::meta::is_valid(&candidate), codes.iter().any(|code| shape.contains(code))) {
                (true, false) => both_accept += 1,
                (false, true) => both_refuse += 1,
                (true, true) => wrong.push(format!("{label}: refused {codes:?} but the metaschema accepts {candidate}")),
                (false, false) => wrong.push(format!("{label}: accepted {codes:?} but the metaschema refuses {candidate}")),
            }
        }
    }
    eprintln!("shape check and metaschema agree on {both_accept} schemas and {both_refuse} non-schemas");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
    assert!(both_accept > 1_000 && both_refuse > 1_000, "{both_accept} and {both_refuse}");
}

/// `schema` with the value of each of its own keywords replaced by values of every kind.
fn mutations(schema: &Value) -> Vec<Value> {
    let Value::Object(members) = schema else { return Vec::new() };
    let mut all = Vec::new();
    for key in members.keys().filter(|key| *key != "$schema") {
        for other in [
            serde_json::json!(null),
            serde_json::json!(true),
            serde_json::json!(-1),
            serde_json::json!(0),
            serde_json::json!(2.5),
            serde_json::json!(3),
            serde_json::json!("a"),
            serde_json::json!("#a"),
            serde_json::json!([]),
            serde_json::json!(["a", "a"]),
            serde_json::json!(["a", "b"]),
            serde_json::json!([{}, true]),
            serde_json::json!({"a": {}}),
            serde_json::json!({"a": ["b"]}),
            serde_json::json!({"a": 1}),
            serde_json::json!({"a": true}),
        ] {
            let mut changed = members.clone();
            changed[key] = other;
            all.push(Value::Object(changed));
        }
    }
    all
}

/// Every pattern of the suite, and our own table: the engine compiles every pattern that the scanner accepts.
///
/// Known difference: only the engine checks the name of a script (`\p{Script=…}`).
#[test]
#[expect(clippy::print_stderr, reason = "the count is worth knowing")]
fn patterns_that_pass_the_scan_compile() {
    let own = [
        "",
        "^$",
        "a|b",
        "^0x[0-9a-f]{40}$",
        r"^\d+(\.\d+)?$",
        r"[\w.+-]+@[\w-]+\.[\w.-]+",
        "(?:a|b)*?c",
        "(?<y>[0-9]{4})",
        "(?i:ab)",
        "(?s-m:.)",
        r"[\]\[\\^-]",
        "[[a]",
        "[a-]",
        "[-a]",
        "[a&&b]",
        "[a~~b]",
        "[+--]",
        r"\x41\u0041\u{1F600}\cJ\t\n\v\f\r",
        r"[\cA\x41-\x5a]",
        r"\.\*\+\?\(\)\[\]\{\}\|\^\$\/\-\_\,\ \!\@\#\%\&\=\:\;\'\`\~",
        r"\p{L}\p{Lu}\P{Nd}\p{Script=Greek}\p{sc=Latin}\p{scx=Cyrl}",
        r"[\p{L}\p{N}_]{1,64}",
        r"\p{General_Category=Uppercase_Letter}\p{gc=Cn}\p{LC}\p{Cased_Letter}\p{Any}\p{ASCII}\p{Assigned}",
        r"\p{Emoji}\p{Alphabetic}\p{Alpha}\p{ID_Start}\p{IDC}\p{White_Space}\p{space}",
        r"\p{Emoji_Presentation}\p{Extended_Pictographic}\p{Lower}\p{Upper}\p{XID_Continue}\p{Hex_Digit}\p{Math}\p{Dash}\p{Diacritic}\p{Ideographic}",
        r"\p{Emoji_Modifier}\p{Emoji_Modifier_Base}\p{Emoji_Component}\p{Cased}\p{ASCII_Hex_Digit}\p{Noncharacter_Code_Point}\p{Default_Ignorable_Code_Point}",
        r"\p{Private_Use}\p{Unassigned}\p{Control}\p{Format}\p{Other}\p{Space_Separator}\p{Currency_Symbol}",
        "x{10000}",
        "[^a]{9999}",
        r"\S{3333}",
        r"\W{4999}",
        r"\p{L}{208}",
        r"[\p{L}\p{N}]{100}",
        "(x{99}){100}",
        "((((((((((x))))))))))",
        "日本",
        "é{3}",
        "[é-ü]{9000}",
        "(?i:[a-z]{3000})",
        "(?i:straße){500}",
        r"\bword\B",
        "()",
        "(|a)",
        "a||b",
        "x{0}",
        "x{0,0}",
        "x{3,}",
        "(){9}",
        "=<>!-:,",
    ];
    let mut patterns: Vec<String> = own.into_iter().map(str::to_owned).collect();
    let own_count = patterns.len();
    // Variations of the table: every pattern with one character removed, and pairs of short ones.
    for pattern in own.iter().filter(|pattern| pattern.len() < 60) {
        for (at, c) in pattern.char_indices() {
            patterns.push(format!("{}{}", &pattern[..at], &pattern[at + c.len_utf8()..]));
        }
    }
    if let Some(suite) = suite() {
        for (_, schema, tests) in groups(&suite, true) {
            collect_patterns(&schema, &mut patterns);
            // The strings of `format: regex` tests are patterns too.
            patterns
                .extend(tests.iter().filter_map(|test| test["data"].as_str()).filter(|text| text.len() < 200).map(str::to_owned));
        }
    }
    patterns.sort();
    patterns.dedup();
    let (mut accepted, mut refused, mut wrong) = (0, BTreeMap::<_, usize>::new(), Vec::new());
    for pattern in &patterns {
        let builds = Validator::unchecked(&serde_json::json!({"pattern": pattern}), &[]);
        match scan(pattern) {
            Ok(_) => {
                accepted += 1;
                if let Err(error) = builds
                    && !pattern.contains("\\p{s")
                    && !pattern.contains("\\p{Script")
                {
                    wrong.push(format!("{pattern}: {error}"));
                }
            }
            Err(flaw) => {
                *refused.entry(format!("{:?}", flaw.kind)).or_default() += 1;
                // The engine does not support lookaround, so it must agree on these.
                if flaw.kind == FlawKind::NotLinear && builds.is_ok() {
                    wrong.push(format!("{pattern}: the engine compiles what needs backtracking"));
                }
            }
        }
    }
    eprintln!("{} patterns ({own_count} own): {accepted} accepted, refused {refused:?}", patterns.len());
    for pattern in own {
        assert!(scan(pattern).is_ok(), "{pattern}: {:?}", scan(pattern));
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn collect_patterns(schema: &Value, patterns: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            patterns.extend(members.get("pattern").and_then(Value::as_str).map(str::to_owned));
            if let Some(Value::Object(map)) = members.get("patternProperties") {
                patterns.extend(map.keys().cloned());
            }
            members.values().for_each(|member| collect_patterns(member, patterns));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_patterns(item, patterns)),
        _ => {}
    }
}

/// The schemas of real manifests: none of them has the hazards that are rejected here.
#[test]
#[expect(clippy::print_stderr, reason = "the counts are worth knowing")]
fn schemas_found_in_the_wild_are_not_refused_for_their_references() {
    let Some(suite) = suite() else { return };
    let corpus = suite.parent().expect("the corpus");
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut schemas = 0;
    for folder in ["erc8257/manifests", "local-tools", "agt"] {
        for file in json_files(&corpus.join(folder), true) {
            let Ok(manifest) = serde_json::from_str::<Value>(&std::fs::read_to_string(&file).expect("readable")) else {
                continue;
            };
            let functions = manifest["functions"].as_array().into_iter().flatten().map(|function| &function["parameters"]);
            let capabilities =
                manifest["capabilities"].as_array().into_iter().flatten().flat_map(|c| [&c["input"], &c["output"]]);
            for schema in [&manifest["inputs"], &manifest["outputs"]].into_iter().chain(functions).chain(capabilities) {
                if schema.is_object() {
                    schemas += 1;
                    for finding in findings(schema) {
                        *counts.entry(finding.code.id()).or_default() += 1;
                    }
                }
            }
        }
    }
    eprintln!("{schemas} schemas of real manifests: {counts:?}");
    assert!(schemas > 500);
    for code in [codes::EXPANSION, codes::BRANCHING_RECURSION, codes::REF_LOOP, codes::EMBEDDED_ID, codes::TOO_DEEP] {
        assert!(!counts.contains_key(code.id()), "{code}");
    }
}
