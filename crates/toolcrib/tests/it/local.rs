//! Local tools: folders that are loaded, approved, run in a sandbox, and recorded.

mod commands;
mod containment;
mod corpus;
mod exports;
mod hot_reload;
mod import;
mod import_hostile;
mod killed_host;
mod leaks;
mod shown;
mod support;
mod walkthrough;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::{RunOutput, Sandbox};

/// The bundled examples.
fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/tools")
}

/// A sandbox with one tool in the folder `tools`.
fn with_tool(id: &str, manifest: &Value, files: &[(&str, &str)]) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write(&format!("tools/{id}/manifest.json"), manifest.to_string());
    for (name, text) in files {
        sandbox.write(&format!("tools/{id}/{name}"), text);
    }
    sandbox
}

/// A tool with one function `run` without parameters, whose program is a Python script.
pub(crate) fn python(id: &str, more: Value) -> Value {
    let mut manifest = json!({
        "id": id, "name": "Test", "description": "For tests.", "version": "1.0.0",
        "functions": [{"name": "run", "description": "Runs.", "parameters": {"type": "object"}}],
        "runtime": {"kind": "exec", "command": ["python3", "main.py"]},
    });
    for (key, value) in more.as_object().expect("members") {
        manifest[key] = value.clone();
    }
    manifest
}

/// A Python script that answers each call with the value of `expression`.
pub(crate) fn answering(expression: &str) -> String {
    format!(
        "import json, os, sys\nfor line in sys.stdin:\n    call = json.loads(line)\n    if 'id' in call:\n        \
         print(json.dumps({{'id': call['id'], 'result': {expression}}}), flush=True)\n"
    )
}

fn call(sandbox: &Sandbox, tool: &str, arguments: &[&str]) -> RunOutput {
    sandbox.run(&[&["local", "call", tool, "run", "--tools", "tools"], arguments].concat())
}

// req: LOCAL-001, LOCAL-002, LOCAL-003, LOCAL-009, LOCAL-010
#[test]
fn examples_are_listed_with_their_sandbox_and_bad_folders_are_named() {
    let sandbox = Sandbox::new();
    let (code, envelope) = sandbox.run_json(&["local", "list", "--tools", &examples().to_string_lossy()]);
    assert_eq!(code, 0, "{envelope}");
    let tools = envelope["data"]["tools"].as_array().expect("tools");
    let ids: Vec<_> = tools.iter().map(|tool| tool["id"].as_str().expect("an id")).collect();
    assert_eq!(ids, ["datetime", "files", "http-fetch", "shell"]);
    let shell = &tools[3];
    assert!(shell["sandbox"].as_str().expect("a text").starts_with("sandboxed by Landlock"), "{shell}");
    assert_eq!(shell["functions"][0]["exposed"], "shell_execute");
    assert!(shell["content"].as_str().expect("a hash").starts_with("sha256:"));

    let good = python("good", json!({}));
    let sandbox = with_tool("good", &good, &[("main.py", "")]);
    sandbox.write("tools/empty/readme.txt", "no manifest");
    sandbox.write("tools/other/manifest.json", good.to_string());
    sandbox.write("tools/broken/manifest.json", "{");
    sandbox.write(
        "tools/bare/manifest.json",
        json!({"id": "bare", "name": "B", "description": "D.", "version": "1.0.0",
        "functions": [{"name": "f", "description": "F.", "parameters": {"type": "object"}}]})
        .to_string(),
    );
    let (code, envelope) = sandbox.run_json(&["local", "list", "--tools", "tools"]);
    assert_eq!(code, 1, "{envelope}");
    let mut codes: Vec<_> =
        envelope["data"]["problems"].as_array().expect("problems").iter().map(|problem| problem["code"].clone()).collect();
    codes.sort_by_key(ToString::to_string);
    assert_eq!(codes, ["host.handler_missing", "host.manifest_invalid", "host.manifest_invalid", "host.manifest_missing"]);
    assert_eq!(envelope["data"]["tools"].as_array().map(Vec::len), Some(1));
}

#[cfg(not(feature = "wasm"))]
#[test]
fn a_build_without_web_assembly_says_so() {
    let manifest = python("component", json!({"runtime": {"kind": "wasm", "entry": "tool.wasm"}}));
    let sandbox = with_tool("component", &manifest, &[("tool.wasm", "")]);
    let ran = call(&sandbox, "component", &["--yes"]);
    assert_eq!(ran.code, 2, "{ran:#?}");
    assert!(ran.stderr.contains("host.runtime_unsupported") && ran.stderr.contains("--features wasm"), "{ran:#?}");
    let ran = sandbox.run(&["local", "doctor", "--tools", "tools"]);
    assert!(ran.stdout.contains("PROBLEM  runtime of component: ") && ran.stdout.contains("--features wasm"), "{ran:#?}");
}

// req: LOCAL-008, LOCAL-010
#[test]
fn the_shell_runs_in_its_sandbox_after_approval() {
    let sandbox = Sandbox::new();
    let tools = examples().to_string_lossy().into_owned();
    let shell = |command: &str, more: &[&str]| {
        let arguments = json!({ "command": command }).to_string();
        sandbox.run(&[&["--json", "local", "call", "shell", "execute", "--tools", &tools, "--args", &arguments], more].concat())
    };
    let refused = shell("echo hi", &[]);
    assert_eq!(refused.code, 1, "{refused:#?}");
    assert!(
        refused.stdout.contains("host.declined") && refused.stdout.contains("no rule is about this function"),
        "{refused:#?}"
    );

    let ran = shell("echo hi; pwd", &["--yes"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    let envelope: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let result = &envelope["data"]["result"];
    assert_eq!(result["exitCode"], 0, "{result}");
    assert!(result["stdout"].as_str().expect("a text").starts_with("hi\n/"), "{result}");

    let secret = sandbox.path().join("precious");
    fs::write(&secret, "precious").expect("a file");
    let attacks = [
        format!("cat {}", secret.display()),
        format!("echo x >> {}", secret.display()),
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 9))'".to_owned(),
        "cat /proc/$PPID/environ".to_owned(),
    ];
    for attack in attacks {
        let ran = shell(&attack, &["--yes"]);
        let envelope: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        let result = &envelope["data"]["result"];
        assert_ne!(result["exitCode"], 0, "{attack}: {result}");
        let complaint = result["stderr"].as_str().expect("a text");
        assert!(complaint.contains("denied") || complaint.contains("not permitted"), "{attack}: {complaint}");
    }
    assert_eq!(fs::read_to_string(&secret).expect("a file"), "precious");

    let wrong = sandbox.run(&["local", "call", "shell", "execute", "--tools", &tools, "--args", "{\"comand\": 1}", "--yes"]);
    assert_eq!(wrong.code, 1);
    assert!(wrong.stderr.contains("host.arguments_invalid") && wrong.stderr.contains("is `command` meant?"), "{wrong:#?}");
}

#[test]
fn a_rule_holds_for_the_content_that_it_was_made_for() {
    let manifest = python("greeter", json!({}));
    let sandbox = with_tool("greeter", &manifest, &[("main.py", &answering("'hello'"))]);
    assert_eq!(call(&sandbox, "greeter", &[]).code, 1, "no rule allows it");
    sandbox.run(&["permit", "set", "greeter", "allow", "--tools", "tools"]).code(0);
    assert_eq!(call(&sandbox, "greeter", &[]).code(0).stdout, "hello\n");
    sandbox.write("tools/greeter/main.py", answering("'changed'"));
    let ran = call(&sandbox, "greeter", &[]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("the tool changed since it was approved"), "{ran:#?}");
    sandbox.run(&["permit", "set", "greeter", "deny", "--tools", "tools"]).code(0);
    let ran = call(&sandbox, "greeter", &["--yes"]);
    assert!(ran.code == 1 && ran.stderr.contains("a rule denies this call"), "{ran:#?}");

    let (_, envelope) = sandbox.run_json(&["local", "logs", "greeter", "--all"]);
    let lines = envelope["data"]["lines"].as_array().expect("lines");
    let events: Vec<_> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
    for event in ["tool_loaded", "decision", "call_started", "call_finished", "permission_changed"] {
        assert!(events.contains(&event), "{event} is not in {events:?}");
    }
    sandbox.run(&["local", "logs", "--verify"]).code(0);
    let log = sandbox.home().join(".local/state/toolcrib/local/audit.jsonl");
    let text = fs::read_to_string(&log).expect("a log").replacen("greeter", "greetor", 1);
    fs::write(&log, text).expect("a log");
    assert_ne!(sandbox.run(&["local", "logs", "--verify"]).code, 0, "a changed line is noticed");
}

#[test]
fn the_log_is_verified_with_the_files_that_were_rotated() {
    let sandbox = with_tool("greeter", &python("greeter", json!({})), &[("main.py", &answering("'hello'"))]);
    call(&sandbox, "greeter", &["--yes"]).code(0);
    let state = support::state(&sandbox);
    let last = fs::read_to_string(state.join("audit.jsonl")).expect("a log").lines().count();
    let rotated = state.join(format!("audit-{last:012}.jsonl"));
    fs::rename(state.join("audit.jsonl"), &rotated).expect("rotated");
    call(&sandbox, "greeter", &["--yes"]).code(0);
    let whole = sandbox.run(&["local", "logs", "--verify"]).code(0);
    assert!(whole.stdout.contains(&format!("the hash chain is intact: {} lines in 2 files", 2 * last)), "{whole:#?}");
    let text = fs::read_to_string(&rotated).expect("a log").replacen("greeter", "greetor", 1);
    fs::write(&rotated, text).expect("a log");
    let edited = sandbox.run(&["local", "logs", "--verify"]);
    assert!(edited.code != 0 && edited.stderr.contains("audit.chain_broken"), "{edited:#?}");
}

// req: LOCAL-006
#[test]
fn doctor_says_why_a_tool_is_hidden_and_what_to_do() {
    let credentials = json!([{"name": "api_key", "label": "Key", "required": true}]);
    let manifest = python("keyed", json!({ "credentials": credentials }));
    let sandbox = with_tool("keyed", &manifest, &[("main.py", &answering("'hello'"))]);
    let doctor = |code| sandbox.run(&["local", "doctor", "--tools", "tools"]).code(code).stdout;
    let unset = doctor(1);
    let expected = "PROBLEM  credentials of keyed: not set: api_key. Models do not see the tool until you run `toolcrib secret set keyed api_key`\n";
    assert!(unset.contains(expected), "{unset}");
    // Not even by its name.
    let mut client = Client::start(&sandbox, &["mcp", "--local-only", "--tools", "tools"], &json!({"elicitation": {}}));
    let answered = client.ask("tools/call", &json!({"name": "keyed_run", "arguments": {}}), &mut |message| {
        panic!("the user is asked: {message}");
    });
    assert_eq!(answered["error"]["data"]["code"], "mcp.unknown_tool", "{answered}");

    sandbox.run_with_stdin(&["secret", "set", "keyed", "api_key", "--tools", "tools"], b"0123456789").code(0);
    assert!(doctor(0).contains("ok       credentials of keyed: all set\n"));
    sandbox.write("tools/keyed/main.py", answering("'changed'"));
    let changed = doctor(1);
    assert!(
        changed.contains("set for another version of the tool") && changed.contains("`toolcrib secret rebind keyed`"),
        "{changed}"
    );
    sandbox.run(&["secret", "rebind", "keyed", "--tools", "tools"]).code(0);
    assert!(!doctor(0).contains("permissions of keyed"));
    sandbox.run(&["permit", "set", "keyed", "deny", "--tools", "tools"]).code(0);
    let denied = doctor(0);
    assert!(denied.contains("ok       permissions of keyed: hidden from models: a rule denies every call"), "{denied}");
    // Installed tools and those of a folder are separate.
    let elsewhere = sandbox.run(&["secret", "set", "keyed", "api_key"]);
    assert!(elsewhere.code != 0 && elsewhere.stderr.contains("--tools FOLDER"), "{elsewhere:#?}");
}

#[test]
fn logs_are_about_decisions_and_calls_unless_all_is_asked_for() {
    let sandbox = with_tool("greeter", &python("greeter", json!({})), &[("main.py", &answering("'hello'"))]);
    call(&sandbox, "greeter", &["--yes"]).code(0);
    let lines = |more: &[&str]| {
        let ran = sandbox.run(&[&["local", "logs"], more].concat()).code(0);
        ran.stdout.lines().map(|line| line.split_once("  ").expect("a time").1.to_owned()).collect::<Vec<_>>()
    };
    let expected = [
        "decision            greeter  run  allow  a person allowed the call",
        "call_started        greeter  run",
        "call_finished       greeter  run  ok",
    ];
    assert_eq!(lines(&[]), expected);
    assert_eq!(lines(&["--all"])[0], "tool_loaded         greeter");
}

// req: LOCAL-005, LOCAL-006
#[test]
fn a_credential_reaches_the_handler_and_nothing_else() {
    let key = "sk-very-secret-0123456789";
    let credentials = json!([{"name": "api_key", "label": "Key", "required": true}]);
    let echo = answering(
        "{'length': len(call['credentials']['api_key']), 'leak': call['credentials']['api_key'], 'env': dict(os.environ), 'argv': sys.argv}",
    );
    let sandbox = with_tool("keyed", &python("keyed", json!({ "credentials": credentials })), &[("main.py", &echo)]);
    let missing = call(&sandbox, "keyed", &["--yes"]);
    assert!(missing.code == 1 && missing.stderr.contains("host.credential_missing"), "{missing:#?}");
    let set = sandbox.run_with_stdin(&["secret", "set", "keyed", "api_key", "--tools", "tools"], format!("{key}\n").as_bytes());
    assert_eq!(set.code, 0, "{set:#?}");
    let ran = call(&sandbox, "keyed", &["--yes"]).code(0);
    let result: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(result["length"], key.len(), "the handler got it");
    let list = sandbox.run(&["secret", "list"]).code(0);
    assert!(list.stdout.contains("keyed api_key  encrypted file"), "{}", list.stdout);
    for text in [&ran.stdout, &ran.stderr, &set.stdout, &set.stderr, &list.stdout] {
        assert!(!text.contains(key), "{text}");
    }
    let state = sandbox.home().join(".local/state/toolcrib/local");
    for file in ["secrets.json", "audit.jsonl", "permissions.json"] {
        let text = fs::read_to_string(state.join(file)).unwrap_or_default();
        assert!(!text.contains(key), "{file}");
    }
    // A changed tool does not get the credential.
    sandbox.write("tools/keyed/main.py", format!("{echo}# changed\n"));
    let ran = call(&sandbox, "keyed", &["--yes"]);
    assert!(ran.code == 1 && ran.stderr.contains("for this version of the tool"), "{ran:#?}");
    sandbox.run(&["secret", "rebind", "keyed", "--tools", "tools"]).code(0);
    call(&sandbox, "keyed", &["--yes"]).code(0);
}

#[test]
fn a_program_of_another_author_finds_its_credential_in_the_variable_that_it_expects() {
    let credentials = json!([{"name": "token", "label": "Token", "required": true, "env": "SERVICE_TOKEN"}]);
    let runtime = json!({"kind": "exec", "command": ["python3", "main.py"], "keepAlive": 60});
    let manifest = python("foreign", json!({ "credentials": credentials, "runtime": runtime }));
    let program = answering("[len(os.environ['SERVICE_TOKEN']), sorted(os.environ)]");
    let sandbox = with_tool("foreign", &manifest, &[("main.py", &program)]);
    let token = "token-0123456789";
    sandbox.run_with_stdin(&["secret", "set", "foreign", "token", "--tools", "tools"], token.as_bytes()).code(0);
    let result: Value = serde_json::from_str(&call(&sandbox, "foreign", &["--yes"]).code(0).stdout).expect("JSON");
    assert_eq!(result[0], token.len());
    let names: Vec<_> = result[1].as_array().expect("names").iter().filter_map(Value::as_str).collect();
    let expected = ["HOME", "PATH", "SERVICE_TOKEN", "TMPDIR"];
    assert!(expected.iter().all(|name| names.contains(name)), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("TOOLCRIB")), "{names:?}");
    // From the environment of the host, by tool and credential.
    sandbox.run(&["secret", "unset", "foreign", "token"]).code(0);
    let arguments = ["local", "call", "foreign", "run", "--tools", "tools", "--yes"];
    let ran = sandbox.run_with_env(&arguments, &[("TOOLCRIB_SECRET_FOREIGN__TOKEN", "abcdefgh")]).code(0);
    assert!(ran.stdout.trim_start().starts_with("[\n  8,"), "{}", ran.stdout);
}

/// A hand-written MCP server of the older era: two tools, one of which fails, and a crash.
const MCP_SERVER: &str = r#"
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    method, params = request.get("method"), request.get("params", {})
    if "id" not in request:
        continue
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    elif method == "tools/call" and params["name"] == "get.text":
        result = {"content": [{"type": "text", "text": f"{params['arguments'].get('of', 'nothing')} for {len(os.environ['TOKEN'])}"}]}
    elif method == "tools/call" and params["name"] == "fail":
        result = {"content": [{"type": "text", "text": "no such thing"}], "isError": True}
    else:
        sys.exit(3)
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"#;

#[test]
fn an_mcp_server_runs_as_a_local_tool() {
    let function = |name: &str, more: Value| {
        let mut function = json!({"name": name, "description": "F.", "parameters": {"type": "object"}});
        more.as_object().expect("members").iter().for_each(|(key, value)| function[key] = value.clone());
        function
    };
    let manifest = python(
        "wrapped",
        json!({
            "runtime": {"kind": "mcp", "command": ["python3", "main.py"]},
            "credentials": [{"name": "token", "label": "T", "required": true, "env": "TOKEN"}],
            "functions": [function("get_text", json!({"mcpName": "get.text"})), function("fail", json!({})), function("crash", json!({}))],
        }),
    );
    let sandbox = with_tool("wrapped", &manifest, &[("main.py", MCP_SERVER)]);
    sandbox.run_with_stdin(&["secret", "set", "wrapped", "token", "--tools", "tools"], b"0123456789").code(0);
    let run = |function: &str| {
        let arguments = ["local", "call", "wrapped", function, "--tools", "tools", "--yes", "--args", r#"{"of": "tides"}"#];
        sandbox.run(&arguments)
    };
    assert_eq!(run("get_text").code(0).stdout, "tides for 10\n");
    let failed = run("fail");
    assert!(
        failed.code == 1 && failed.stderr.contains("host.tool_failed") && failed.stderr.contains("no such thing"),
        "{failed:#?}"
    );
    let crashed = run("crash");
    assert!(crashed.code == 2 && crashed.stderr.contains("exit status: 3"), "{crashed:#?}");
}

// req: LOCAL-007
#[test]
fn both_styles_of_handlers_run_unchanged() {
    let functions = json!([
        {"name": "named", "description": "One.", "parameters": {"type": "object"}},
        {"name": "absent", "description": "Not there.", "parameters": {"type": "object"}},
    ]);
    let manifest = |id: &str| {
        json!({"id": id, "name": "N", "description": "D.", "version": "1.0.0", "functions": functions,
        "credentials": [{"name": "token", "label": "T", "required": false}], "settings": [{"name": "size", "label": "S", "type": "string", "default": "large"}]})
    };
    let sandbox = Sandbox::new();
    for (id, file, source) in [
        (
            "docs-style",
            "index.mjs",
            "export async function named(args, context) { console.log('noise'); return `${context.config.size} ${typeof context.dataDir}`; }",
        ),
        (
            "code-style",
            "index.js",
            "exports.handlers = { named: async (args, values) => ({ size: values.size, keys: Object.keys(values) }) };",
        ),
    ] {
        sandbox.write(&format!("tools/{id}/manifest.json"), manifest(id).to_string());
        sandbox.write(&format!("tools/{id}/{file}"), source);
    }
    let run = |id: &str, function: &str| sandbox.run(&["local", "call", id, function, "--tools", "tools", "--yes"]);
    assert_eq!(run("docs-style", "named").code(0).stdout, "large string\n");
    let code: Value = serde_json::from_str(&run("code-style", "named").code(0).stdout).expect("JSON");
    assert_eq!(code, json!({"size": "large", "keys": ["size"]}));
    let absent = run("code-style", "absent");
    assert!(absent.code == 1 && absent.stderr.contains("host.export_missing"), "{absent:#?}");
}

#[test]
fn every_example_runs() {
    let sandbox = Sandbox::new();
    let tools = examples().to_string_lossy().into_owned();
    let run = |tool: &str, function: &str, arguments: Value, more: &[&str]| {
        let arguments = arguments.to_string();
        let call = ["local", "call", tool, function, "--tools", &tools, "--yes", "--args", &arguments];
        sandbox.run(&[&call, more].concat())
    };
    run("files", "write", json!({"path": "notes/a.txt", "text": "hello"}), &[]).code(0);
    assert_eq!(run("files", "read", json!({"path": "notes/a.txt"}), &[]).code(0).stdout, "hello\n");
    let outside = run("files", "read", json!({"path": "../../secrets.json"}), &[]);
    assert!(outside.code == 1 && outside.stderr.contains("outside the folder"), "{outside:#?}");
    // A private address is refused before connecting.
    let private = run("http-fetch", "get", json!({"url": "https://127.0.0.1/"}), &[]);
    assert!(private.code == 1 && private.stderr.contains("host.tool_failed"), "{private:#?}");
    let Some(node) = toolcrib_testkit::newer_node() else { return };
    let node = fs::canonicalize(node).expect("a program").to_string_lossy().into_owned();
    let ran = run("datetime", "difference", json!({"from": "2026-01-01", "to": "2026-02-01"}), &["--node", &node]).code(0);
    let result: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(result, json!({"days": 31, "hours": 0}));
}

#[test]
fn doctor_names_a_node_that_is_too_old_for_typescript() {
    let sandbox = Sandbox::new();
    let tools = examples().to_string_lossy().into_owned();
    for (version, is_old) in [("v20.20.2", true), ("v22.17.9", true), ("v22.18.0", false), ("v23.5.0", true), ("v24.0.0", false)]
    {
        let node = sandbox.write("node", format!("#!/bin/sh\necho {version}\n"));
        fs::set_permissions(&node, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
        let ran = sandbox.run(&["local", "doctor", "--tools", &tools, "--node", &node.to_string_lossy()]);
        assert_eq!(ran.stdout.contains(&format!("is Node {}, and TypeScript needs", &version[1..])), is_old, "{ran:#?}");
        // JavaScript runs with any version.
        assert!(ran.stdout.contains("ok       runtime of files"), "{ran:#?}");
    }
}

#[test]
fn a_program_that_hangs_crashes_floods_or_lies_ends_with_its_call() {
    let limits = json!({"runtime": {"kind": "exec", "command": ["python3", "main.py"], "timeoutMs": 800}});
    let cases = [
        ("hang", "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)\n", "host.timeout"),
        ("crash", "import sys\nsys.exit('broken')\n", "host.start_failed"),
        ("flood", "print('x' * (2 << 20), flush=True)\nimport time\ntime.sleep(600)\n", "host.result_too_large"),
        (
            "refuse",
            "import json, sys\ncall = json.loads(sys.stdin.readline())\nprint(json.dumps({'id': call['id'], 'error': {'message': 'no such city'}}))\n",
            "host.tool_failed",
        ),
    ];
    for (id, source, code) in cases {
        let sandbox = with_tool(id, &python(id, limits.clone()), &[("main.py", source)]);
        let ran = call(&sandbox, id, &["--yes"]);
        assert!(ran.code != 0 && ran.stderr.contains(code), "{id}: {ran:#?}");
    }
}

/// An MCP client of the older era on the pipes of `toolcrib mcp`.
struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    last: u64,
}

impl Client {
    fn start(sandbox: &Sandbox, arguments: &[&str], capabilities: &Value) -> Self {
        Self::start_with(sandbox, arguments, capabilities, &[])
    }

    fn start_with(sandbox: &Sandbox, arguments: &[&str], capabilities: &Value, variables: &[(&str, &str)]) -> Self {
        let mut command = sandbox.command(arguments);
        command.envs(variables.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().expect("a pipe")));
        let mut client = Self { child, stdin, stdout, last: 0 };
        let info = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": {"name": "test", "version": "1"}});
        client.ask("initialize", &info, &mut |_| None);
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().expect("a pipe"), "{message}").expect("it reads");
    }

    /// Sends a request and waits for its response; `answer` handles requests of the server.
    fn ask(&mut self, method: &str, params: &Value, answer: &mut dyn FnMut(&Value) -> Option<Value>) -> Value {
        self.last += 1;
        let id = self.last;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let message = self.read();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            if let Some(result) = answer(&message) {
                self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
            }
        }
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        assert_ne!(self.stdout.read_line(&mut line).expect("readable"), 0, "the server has ended");
        serde_json::from_str(&line).expect("JSON")
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// req: LOCAL-009
#[test]
fn a_model_lists_and_calls_local_tools_and_its_user_decides() {
    let manifest = python("greeter", json!({}));
    let sandbox = with_tool("greeter", &manifest, &[("main.py", &answering("'hello'"))]);
    let arguments = ["mcp", "--local-only", "--tools", "tools"];
    let call = json!({"name": "greeter_run", "arguments": {}});

    let mut client = Client::start(&sandbox, &arguments, &json!({"elicitation": {}}));
    let listed = client.ask("tools/list", &json!({}), &mut |_| None);
    let tools = listed["result"]["tools"].as_array().expect("tools");
    assert_eq!(tools.len(), 1, "{listed}");
    assert_eq!(tools[0]["name"], "greeter_run");
    let mut prompts = Vec::new();
    let mut answering_with = |client: &mut Client, decision: &str| {
        let answered = client.ask("tools/call", &call, &mut |message| {
            prompts.push(message["params"]["message"].as_str()?.to_owned());
            Some(json!({"action": "accept", "content": {"decision": decision}}))
        });
        answered["result"].clone()
    };
    let denied = answering_with(&mut client, "deny");
    assert_eq!(denied["isError"], true, "{denied}");
    assert!(denied["content"][0]["text"].as_str().expect("a text").contains("host.declined"), "{denied}");
    let allowed = answering_with(&mut client, "allow for this session");
    assert_eq!(allowed["content"][0]["text"], "hello", "{allowed}");
    let again = answering_with(&mut client, "deny");
    assert_eq!(again["content"][0]["text"], "hello", "allowed for this session");
    assert_eq!(prompts.len(), 2);
    assert!(prompts[0].contains("Tool: greeter 1.0.0") && prompts[0].contains("Sandbox: sandboxed by"), "{}", prompts[0]);

    // The list follows the folder, but the approval does not.
    sandbox.write("tools/greeter/main.py", answering("'changed'"));
    sandbox.write("tools/second/manifest.json", python("second", json!({})).to_string());
    sandbox.write("tools/second/main.py", answering("'second'"));
    while client.read()["method"] != "notifications/tools/list_changed" {}
    let names = |client: &mut Client| -> Vec<Value> {
        let listed = client.ask("tools/list", &json!({}), &mut |_| None);
        listed["result"]["tools"].as_array().expect("tools").iter().map(|tool| tool["name"].clone()).collect()
    };
    while names(&mut client) != ["greeter_run", "second_run"] {}
    let asked = client.ask("tools/call", &call, &mut |message| {
        assert!(message["params"]["message"].as_str()?.contains("the tool changed since it was approved"));
        Some(json!({"action": "decline"}))
    });
    assert_eq!(asked["result"]["isError"], true, "{asked}");

    // A client without prompts can only make calls that a rule allows.
    let mut silent = Client::start(&sandbox, &arguments, &json!({}));
    let refused = silent.ask("tools/call", &call, &mut |_| None);
    assert_eq!(refused["result"]["isError"], true, "{refused}");
}

#[test]
fn tools_are_added_updated_exported_and_removed() {
    let sandbox = with_tool("greeter", &python("greeter", json!({})), &[("main.py", &answering("'hello'"))]);
    sandbox.run(&["local", "add", "tools/greeter"]).code(0);
    let ran = sandbox.run(&["local", "call", "greeter", "run", "--yes"]).code(0);
    assert_eq!(ran.stdout, "hello\n", "installed tools are found without --tools");
    assert_ne!(sandbox.run(&["local", "add", "tools/greeter"]).code, 0, "it is there already");
    sandbox.write("tools/greeter/main.py", answering("'newer'"));
    let shown = sandbox.run(&["local", "update", "greeter", "--dry-run"]).code(0);
    assert!(shown.stdout.contains("main.py") && shown.stdout.contains("asked again"), "{}", shown.stdout);
    assert_eq!(sandbox.run(&["local", "update", "greeter"]).code, 1, "there is no terminal to ask at");
    sandbox.run(&["local", "update", "greeter", "--yes"]).code(0);
    assert_eq!(sandbox.run(&["local", "call", "greeter", "run", "--yes"]).code(0).stdout, "newer\n");
    for format in ["openai", "anthropic", "gemini", "ai-sdk", "skill"] {
        sandbox.run(&["local", "export", format, "--out", &format!("out/{format}")]).code(0);
        assert_ne!(fs::read_dir(sandbox.path().join("out").join(format)).expect("a folder").count(), 0, "{format}");
    }
    assert_eq!(sandbox.run(&["local", "export", "docx"]).code, 2);
    sandbox.run(&["local", "remove", "greeter"]).code(0);
    assert_eq!(sandbox.run(&["local", "call", "greeter", "run", "--yes"]).code, 1);
}
