//! `lint` and `validate`: their findings and output.

use crate::{Sandbox, example, examples};

/// A duplicate key, a decomposed letter, and a number that loses digits.
const FLAWED: &str =
    "{\n  \"endpoint\": \"https://a.example\",\n\t\"name\": \"cafe\u{301}\",\n  \"name\": 12345678901234567890\n}\n";

#[test]
fn the_examples_are_fine_but_for_their_host() {
    let sandbox = Sandbox::new();
    let folder = examples();
    let (code, envelope) = sandbox.run_json(&["lint", "--deny-warnings", &folder.display().to_string()]);
    assert_eq!((code, &envelope["data"]["summary"]["files"]), (0, &9.into()), "{envelope:#}");
    for file in envelope["data"]["files"].as_array().expect("files") {
        let codes: Vec<_> = file["findings"].as_array().expect("findings").iter().map(|finding| &finding["code"]).collect();
        assert!(codes.is_empty() || codes == ["url.example_host"], "{codes:?}");
    }
}

#[test]
fn a_report_shows_the_place_the_rule_and_the_way_out() {
    let sandbox = Sandbox::new();
    sandbox.write("tool.json", "{\n\t\"endpoint\": \"日本 cafe\u{301} \u{202e}\",\n  \"a\": 1,\n  \"a\": 2\n}\n");
    let ran = sandbox.run(&["lint", "tool.json", "--as", "consumer"]).code(1).silent();
    let parts: Vec<_> = ran.stdout.split("\n\n").collect();
    let about = |code: &str| *parts.iter().find(|part| part.contains(code)).expect("the finding is there");
    // The decomposed letter looks like the composed one, which would make a snapshot that lies.
    insta::assert_snapshot!(about("json.not_nfc").replace("e\u{301}", "é"), @r#"
    error[json.not_nfc]: a string is not in Unicode Normalization Form C
     --> tool.json:2:14
      |
    2 |     "endpoint": "日本 café \u{202e}",
      |                 ^^^^^^^^^^^^^^^^^^^^
      = at: /endpoint
      = got: 日本 café \u{202e}
      = hint: normalise the text to NFC (toolcrib lint --fix does it)
      = fix: normalise the text to NFC (--fix does it)
      = spec: ERC-8257 §2 Canonical Manifest Bytes
    "#);
    insta::assert_snapshot!(about("json.duplicate_key"), @r#"
    error[json.duplicate_key]: the key appears before at byte 38
     --> tool.json:4:3
      |
    4 |   "a": 2
      |   ^^^
      = got: a
      = hint: keep one of the two
      = spec: RFC 8785 §3.1 (I-JSON)
    "#);
    let summary = ran.stdout.lines().last().expect("a last line");
    assert!(summary.starts_with("1 file checked: "), "{summary}");
    assert!(!ran.stdout.contains('\u{202e}') && !ran.stdout.contains('\t'), "foreign characters are escaped");
}

#[test]
fn colours_only_when_asked_for() {
    let sandbox = Sandbox::new();
    sandbox.write("tool.json", FLAWED);
    assert!(!sandbox.run(&["lint"]).code(1).stdout.contains('\u{1b}'));
    assert!(
        sandbox.run(&["lint", "--color", "always"]).code(1).stdout.contains("\u{1b}[1;31merror[json.duplicate_key]\u{1b}[0m")
    );
}

#[test]
fn verbosity_never_changes_stdout() {
    let sandbox = Sandbox::new();
    sandbox.write("tool.json", FLAWED);
    sandbox.write("package.json", "{\"private\": true}");
    let plain = sandbox.run(&["lint"]).code(1).silent();
    let quiet = sandbox.run(&["lint", "-q"]).code(1).silent();
    let verbose = sandbox.run(&["lint", "-v"]).code(1);
    assert_eq!(plain.stdout, quiet.stdout);
    assert_eq!(plain.stdout, verbose.stdout);
    assert_eq!(verbose.stderr, "package.json: skipped, not a manifest\ntool.json: checked as tool\n");
}

#[test]
fn the_json_report_is_an_envelope_with_every_finding() {
    let sandbox = Sandbox::new();
    sandbox.write("tool.json", FLAWED);
    let (code, envelope) = sandbox.run_json(&["lint", "tool.json"]);
    assert_eq!(code, 1);
    let file = &envelope["data"]["files"][0];
    assert_eq!(file["path"], "tool.json");
    assert_eq!(file["kind"], "tool");
    assert_eq!(file["as"], "producer");
    assert_eq!(file["hash"], serde_json::Value::Null, "no canonical form, no hash");
    let findings = file["findings"].as_array().expect("a list");
    let found = |code: &str| findings.iter().find(|finding| finding["code"] == code).expect("the finding is there");
    let nfc = found("json.not_nfc");
    assert_eq!((&nfc["line"], &nfc["column"], &nfc["pointer"]), (&3.into(), &10.into(), &"/name".into()));
    assert_eq!(nfc["fix"]["edits"][0]["replacement"], "\"caf\u{e9}\"");
    assert_eq!(nfc["check"], 3);
    assert_eq!(found("json.number_imprecise")["severity"], "error");
    let same = sandbox.run(&["lint", "tool.json", "--format", "json"]).code(1);
    assert_eq!(same.stdout, sandbox.run(&["lint", "tool.json", "--json"]).code(1).stdout);
}

#[test]
fn readers_are_told_less_than_authors_and_warnings_count_when_asked() {
    let sandbox = Sandbox::new();
    let big = example("tool-free.json").replacen('{', "{\"io.example.big\": 12345678901234567890,", 1);
    sandbox.write("tool.json", big);
    sandbox.run(&["validate", "tool.json"]).code(1);
    sandbox.run(&["validate", "tool.json", "--as", "consumer"]).code(0);
    sandbox.run(&["validate", "tool.json", "--as", "consumer", "--deny-warnings"]).code(1);
    sandbox.run(&["validate", "tool.json", "--as", "consumer", "--deny-warnings=false"]).code(0);
}

#[test]
fn validate_prints_one_line_for_each_file() {
    let sandbox = Sandbox::new();
    sandbox.write("a.json", FLAWED);
    sandbox.write("b.json", example("tool-free.json"));
    let ran = sandbox.run(&["validate", "a.json", "b.json"]).code(1);
    let hash = sandbox.run(&["hash", "b.json"]).code(0).stdout;
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert!(lines[0].starts_with("invalid  a.json  tool  ") && lines[0].contains("json.duplicate_key"), "{}", lines[0]);
    assert_eq!(lines[1..], [format!("valid  b.json  tool  {}", hash.trim())]);
    assert_eq!(ran.stderr, "run `toolcrib lint` to see where and why\n");
}

#[test]
fn folders_are_searched_in_order_and_not_everywhere() {
    let sandbox = Sandbox::new();
    let tool = example("tool-free.json");
    for name in ["b/x.json", "a.json", ".well-known/ai-tool/t.json", "b/a/y.json", "b/notes.txt"] {
        sandbox.write(name, &tool);
    }
    for name in ["node_modules/p/x.json", "target/x.json", ".git/x.json", "b/.hidden/x.json"] {
        sandbox.write(name, "not JSON at all");
    }
    sandbox.write("b/package.json", "{\"name\": \"not a manifest\"}");
    let (code, envelope) = sandbox.run_json(&["lint"]);
    assert_eq!(code, 0, "{envelope:#}");
    let paths: Vec<_> = envelope["data"]["files"].as_array().expect("files").iter().map(|file| file["path"].clone()).collect();
    let expected = ["a.json", ".well-known/ai-tool/t.json", "b/x.json", "b/a/y.json"];
    assert_eq!(paths, expected.map(|path| path.replace('/', std::path::MAIN_SEPARATOR_STR)));
    assert_eq!(envelope["data"]["summary"]["skipped"], 1);
    // The same file is checked once, however often it is given.
    let ran = sandbox.run(&["lint", "b", "b/x.json", "b"]).code(0);
    assert_eq!(ran.stdout, "2 files checked, 1 skipped: no findings\n");
}

#[test]
fn finding_nothing_to_check_is_no_success() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["lint"]).code(2);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.starts_with("error[cli.nothing_to_check]: no manifest found\n"), "{}", ran.stderr);
    // A file that is given as an argument is checked even if it is not a manifest, and the finding says so.
    sandbox.write("package.json", "{\"private\": true}");
    sandbox.run(&["lint"]).code(2);
    assert!(sandbox.run(&["lint", "package.json"]).code(1).stdout.starts_with("error[core.unknown_kind]"));
}

#[test]
fn stdin_is_a_file_like_any_other() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run_with_stdin(&["lint", "-"], b"{\"endpoint\": 1,}").code(1);
    assert!(ran.stdout.contains("--> <stdin>:1:"), "{}", ran.stdout);
    sandbox.run_with_stdin(&["validate", "-"], example("tool-paid.json").as_bytes()).code(0);
}

#[test]
fn what_could_not_be_read_outweighs_what_was_found() {
    let sandbox = Sandbox::new();
    sandbox.write("a.json", FLAWED);
    let ran = sandbox.run(&["lint", "a.json", "missing.json"]).code(2);
    assert!(ran.stdout.contains("json.duplicate_key"), "the other file is reported all the same");
    assert!(ran.stderr.starts_with("error[cli.not_found]: missing.json does not exist\n"), "{}", ran.stderr);
    let (code, envelope) = sandbox.run_json(&["lint", "a.json", "missing.json"]);
    assert_eq!((code, &envelope["errors"][0]["code"]), (2, &"cli.not_found".into()));
}

#[test]
fn other_json_in_a_project_is_passed_over_but_broken_manifests_are_not() {
    let sandbox = Sandbox::new();
    sandbox.write("tool.json", example("tool-free.json"));
    sandbox.write("tsconfig.json", "{ // comments are common here\n  \"strict\": true, }");
    sandbox.write("package-lock.json", format!("{{\"packages\": \"{}\"}}", "x".repeat(2 << 20)));
    sandbox.write("empty.json", "");
    let ran = sandbox.run(&["lint"]).code(0).silent();
    assert_eq!(ran.stdout, "1 file checked, 3 skipped: no findings\n");
    let broken = [("cut.json", &example("tool-paid.json")[..400]), (".well-known/ai-tool/x.json", ""), ("x.agt.json", "{}")];
    for (name, text) in broken {
        let sandbox = Sandbox::new();
        sandbox.write(name, text);
        sandbox.run(&["lint"]).code(1).silent();
    }
}

// req: URL-014, LOCAL-003
#[test]
fn the_place_of_a_file_is_checked_too() {
    let sandbox = Sandbox::new();
    let tool = example("tool-free.json");
    sandbox.write("tool.json", &tool);
    let at = |uri: &str| sandbox.run_json(&["lint", "tool.json", "--metadata-uri", uri]);
    let (code, envelope) = at("https://tools.harbour-office.org/.well-known/ai-tool/tide-table.json");
    assert_eq!(code, 0, "{envelope:#}");
    for (uri, expected) in [
        ("https://harbour-office.org/.well-known/ai-tool/tide-table.json", "url.origin_host"),
        ("https://tools.harbour-office.org/api/manifest", "url.well_known_prefix"),
        ("http://tools.harbour-office.org/.well-known/ai-tool/tide-table.json", "url.metadata_not_https"),
    ] {
        let (code, envelope) = at(uri);
        let findings = envelope["data"]["files"][0]["findings"].as_array().expect("findings").clone();
        assert_eq!(code, 1, "{uri}: {envelope:#}");
        assert!(findings.iter().any(|finding| finding["code"] == expected && finding["check"] == 2), "{uri}: {findings:#?}");
    }
    // A local tool has the name of its folder, and a well-known file is named by a slug.
    sandbox.write("elsewhere/manifest.json", example("local/weather/manifest.json"));
    assert!(sandbox.run(&["lint", "elsewhere"]).code(1).stdout.contains("local."));
    sandbox.write(".well-known/ai-tool/Not_A_Slug.json", &tool);
    assert!(sandbox.run(&["lint", ".well-known"]).code(1).stdout.contains("slug"));
}
