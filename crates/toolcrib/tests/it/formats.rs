//! Reports for machines: SARIF and GitHub.

use serde_json::Value;

use crate::Sandbox;

const TEXT: &str = "{\n  \"endpoint\": \"cafe\u{301}\",\n  \"a\": 1,\n  \"a\": 2\n}\n";

#[test]
fn github_gets_one_command_for_each_finding() {
    let sandbox = Sandbox::new();
    sandbox.write("a,b/tool.json", TEXT);
    let ran = sandbox.run(&["lint", "--format", "github"]).code(1).silent();
    let lines: Vec<_> = ran.stdout.lines().filter(|line| line.contains("title=json.")).collect();
    assert_eq!(lines.len(), 2, "{}", ran.stdout);
    // The decomposed letter looks like the composed one, which would make a snapshot that lies.
    insta::assert_snapshot!(lines.join("\n").replace("e\u{301}", "e+0301"), @r"
    ::error file=a%2Cb/tool.json,line=2,col=15,endLine=2,endColumn=22,title=json.not_nfc::a string is not in Unicode Normalization Form C%0Agot: cafe+0301%0Ahint: normalise the text to NFC (toolcrib lint --fix does it)
    ::error file=a%2Cb/tool.json,line=4,col=3,endLine=4,endColumn=6,title=json.duplicate_key::the key appears before at byte 28%0Agot: a%0Ahint: keep one of the two
    ");
}

#[test]
fn sarif_is_well_formed() {
    let sandbox = Sandbox::new();
    sandbox.write("my tool.json", TEXT);
    let ran = sandbox.run(&["lint", "--format", "sarif", "my tool.json", "gone.json"]).code(2);
    let log: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    assert_eq!(run["columnKind"], "unicodeCodePoints");
    assert_eq!(run["invocations"][0]["executionSuccessful"], false);
    assert_eq!(run["invocations"][0]["toolExecutionNotifications"][0]["descriptor"]["id"], "cli.not_found");
    let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
    for rule in rules {
        assert!(rule["shortDescription"]["text"].is_string() && rule["help"]["text"].is_string(), "{rule}");
    }
    let results = run["results"].as_array().expect("results");
    assert!(results.len() >= 2);
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().expect("an index")).expect("small");
        assert_eq!(rules[index]["id"], result["ruleId"]);
        assert!(["error", "warning", "note"].contains(&result["level"].as_str().expect("a level")));
        assert!(result["message"]["text"].as_str().is_some_and(|text| !text.is_empty()));
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "my%20tool.json");
        if let Some(region) = place.get("region") {
            for field in ["startLine", "startColumn", "endLine", "endColumn"] {
                assert!(region[field].as_u64().is_some_and(|number| number >= 1), "{region}");
            }
            assert!(region["byteOffset"].is_u64() && region["charOffset"].is_u64(), "{region}");
        }
    }
    let nfc = results.iter().find(|result| result["ruleId"] == "json.not_nfc").expect("the finding");
    let replacement = &nfc["fixes"][0]["artifactChanges"][0]["replacements"][0];
    assert_eq!(replacement["insertedContent"]["text"], "\"caf\u{e9}\"");
    // Applying the replacement by bytes fixes the text.
    let region = &replacement["deletedRegion"];
    let at = |field: &str| usize::try_from(region[field].as_u64().expect("a number")).expect("small");
    let (start, end) = (at("byteOffset"), at("byteOffset") + at("byteLength"));
    let mended = format!("{}{}{}", &TEXT[..start], "\"caf\u{e9}\"", &TEXT[end..]);
    assert_eq!(mended, TEXT.replace("e\u{301}", "\u{e9}"));
}
