//! The containment of a tool, wherever it is shown, and isolation by bubblewrap.

use serde_json::{Value, json};

use super::{Client, answering, call, python, with_tool};
use crate::Sandbox;

const LOUD: &str = "UNSANDBOXED";

fn greeter() -> Sandbox {
    with_tool("greeter", &python("greeter", json!({})), &[("main.py", &answering("'hello'"))])
}

/// Lines of `local logs`, without their times.
fn logs(sandbox: &Sandbox, more: &[&str]) -> Vec<String> {
    let ran = sandbox.run(&[&["local", "logs", "greeter"], more].concat()).code(0);
    ran.stdout.lines().map(|line| line.split_once("  ").expect("a time").1.to_owned()).collect()
}

#[test]
fn every_line_about_an_unsandboxed_call_says_so() {
    let sandbox = greeter();
    call(&sandbox, "greeter", &["--yes"]).code(0);
    assert!(logs(&sandbox, &["--all"]).iter().all(|line| !line.contains(LOUD)));
    let before = logs(&sandbox, &["--all"]).len();

    call(&sandbox, "greeter", &["--yes", "--no-sandbox"]).code(0);
    assert_eq!(call(&sandbox, "greeter", &["--no-sandbox"]).code, 1, "nobody can be asked");
    sandbox.run(&["permit", "set", "greeter", "deny", "--tools", "tools", "--no-sandbox"]).code(0);
    let lines = logs(&sandbox, &["--all"]).split_off(before);
    let expected = [
        "tool_loaded         greeter  UNSANDBOXED",
        "decision            greeter  run  UNSANDBOXED  allow  a person allowed the call",
        "call_started        greeter  run  UNSANDBOXED",
        "call_finished       greeter  run  UNSANDBOXED  ok",
        "tool_loaded         greeter  UNSANDBOXED",
        "decision            greeter  run  UNSANDBOXED  deny  no_rule",
        "tool_loaded         greeter  UNSANDBOXED",
        "permission_changed  greeter  UNSANDBOXED  deny  the user set a rule  rule 1",
    ];
    assert_eq!(lines, expected);
    let (_, envelope) = sandbox.run_json(&["local", "logs", "greeter", "--all"]);
    for (number, line) in envelope["data"]["lines"].as_array().expect("lines").iter().enumerate() {
        let summary = line["sandbox"].as_str().unwrap_or_else(|| panic!("{line}"));
        assert!(summary.starts_with(if number < before { "sandboxed by" } else { LOUD }), "{line}");
    }
}

#[test]
fn every_list_says_how_a_tool_is_contained() {
    let sandbox = greeter();
    for (more, start) in [(&[][..], "sandboxed by"), (&["--no-sandbox"], LOUD)] {
        let run = |arguments: &[&str]| sandbox.run(&[arguments, &["--tools", "tools"], more].concat()).code(0).stdout;
        assert!(run(&["local", "list"]).lines().any(|line| line.trim().starts_with(start)), "{start}");
        let shown: Value = serde_json::from_str(&run(&["local", "show", "greeter"])).expect("JSON");
        assert!(shown["sandbox"].as_str().is_some_and(|text| text.starts_with(start)), "{shown}");
        let mut client = Client::start(&sandbox, &[&["mcp", "--local-only", "--tools", "tools"], more].concat(), &json!({}));
        let listed = client.ask("tools/list", &json!({}), &mut |_| None);
        for tool in listed["result"]["tools"].as_array().expect("tools") {
            let is_loud = more.len() == 1;
            assert_eq!(tool["title"].as_str().is_some_and(|title| title.ends_with("(UNSANDBOXED)")), is_loud, "{tool}");
            assert_eq!(tool["description"].as_str().is_some_and(|text| text.contains(LOUD)), is_loud, "{tool}");
        }
    }
}

/// The same attacks as in a sandbox without namespaces, and what only namespaces hide: other processes.
#[test]
fn programs_run_in_namespaces_where_that_is_asked_for() {
    let Some(folder) =
        std::env::var_os("PATH").and_then(|path| std::env::split_paths(&path).find(|folder| folder.join("bwrap").is_file()))
    else {
        return toolcrib_testkit::skip("bubblewrap", "bwrap is not in PATH");
    };
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", folder.display());
    // Without namespaces, the size of a file with a known path is not secret.
    let source = answering(
        "[os.getpid() < 20, os.path.exists(os.path.dirname(call['args']['diary'])), os.path.exists(call['args']['diary'])]",
    );
    let sandbox = with_tool("greeter", &python("greeter", json!({})), &[("main.py", &source)]);
    let diary = sandbox.home().join("diary/precious");
    std::fs::create_dir(sandbox.home().join("diary")).expect("a folder");
    std::fs::write(&diary, "precious").expect("a file");
    let arguments = json!({ "diary": diary }).to_string();
    let run =
        |arguments: &[&str], path: &str| sandbox.run_with_env(&[arguments, &["--tools", "tools"]].concat(), &[("PATH", path)]);

    let plain = run(&["local", "call", "greeter", "run", "--yes", "--args", &arguments], &path).code(0);
    assert_eq!(serde_json::from_str::<Value>(&plain.stdout).expect("JSON"), json!([false, true, true]));
    let isolated = run(&["--json", "local", "call", "greeter", "run", "--yes", "--isolate", "--args", &arguments], &path).code(0);
    let envelope: Value = serde_json::from_str(&isolated.stdout).expect("JSON");
    assert_eq!(envelope["data"]["result"], json!([true, false, false]), "{envelope}");
    let summary = envelope["data"]["sandbox"].as_str().expect("a text");
    assert!(summary.starts_with("sandboxed by Landlock") && summary.contains("bubblewrap"), "{summary}");
    assert!(run(&["local", "list", "--isolate"], &path).code(0).stdout.contains("bubblewrap"));

    // The prompt of a model's call, and the call.
    let serve = ["mcp", "--local-only", "--tools", "tools", "--isolate"];
    let mut client = Client::start_with(&sandbox, &serve, &json!({"elicitation": {}}), &[("PATH", &path)]);
    let mut prompts = Vec::new();
    let answered = client.ask("tools/call", &json!({"name": "greeter_run", "arguments": {"diary": diary}}), &mut |message| {
        prompts.push(message["params"]["message"].as_str()?.to_owned());
        Some(json!({"action": "accept", "content": {"decision": "allow once"}}))
    });
    assert_eq!(answered["result"]["content"][0]["text"], "[true,false,false]", "{answered}");
    assert!(
        prompts.len() == 1 && prompts[0].contains("Sandbox: sandboxed by Landlock") && prompts[0].contains("bubblewrap"),
        "{prompts:?}"
    );
}

/// A missing layer is an error and is not skipped.
#[test]
fn isolation_without_bubblewrap_is_refused() {
    let sandbox = greeter();
    // The required programs, without bubblewrap.
    let bin = sandbox.path().join("bin");
    std::fs::create_dir_all(&bin).expect("a folder");
    std::os::unix::fs::symlink("/usr/bin/python3", bin.join("python3")).expect("a link");
    let path = bin.to_string_lossy().into_owned();
    let run = |arguments: &[&str]| sandbox.run_with_env(&[arguments, &["--tools", "tools"]].concat(), &[("PATH", &path)]);
    assert_eq!(run(&["local", "call", "greeter", "run", "--yes"]).code(0).stdout, "hello\n");
    let refused = run(&["local", "call", "greeter", "run", "--yes", "--isolate"]);
    assert!(refused.code == 2 && refused.stderr.contains("error[sandbox.bubblewrap]"), "{refused:#?}");
    let list = run(&["local", "list", "--isolate"]).code(0);
    assert!(list.stdout.contains("  cannot run: bubblewrap (bwrap) is not installed"), "{list:#?}");
    let doctor = run(&["local", "doctor", "--isolate"]);
    assert!(
        doctor.code == 1 && doctor.stdout.contains("PROBLEM  runtime of greeter: bubblewrap (bwrap) is not installed"),
        "{doctor:#?}"
    );
    let last = logs(&sandbox, &[]).pop().expect("a line");
    assert_eq!(last, "decision            greeter  run  allow  sandbox.bubblewrap  a person allowed the call");
    let both = run(&["local", "list", "--isolate", "--no-sandbox"]);
    assert_eq!(both.code, 2, "{both:#?}");
}
