//! `dev`, `import` of a folder, tools behind a URL in `list`, and the meta tools that replace many functions.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::support::{POLICY, allow_all};
use super::{Client, answering, call, python, with_tool};
use crate::{RunOutput, Sandbox};

/// A running `local dev`. Killed when dropped.
struct Dev {
    child: std::process::Child,
    stdout: BufReader<std::process::ChildStdout>,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Dev {
    fn start(sandbox: &Sandbox, more: &[&str]) -> Self {
        let mut command = sandbox.command(&[&["local", "dev", "--tools", "tools"], more].concat());
        let mut child = command.stdin(Stdio::null()).spawn().expect("it starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        Self { child, stdout, stderr }
    }

    /// Reads lines until one contains this text. Earlier lines may be about intermediate states of the folder.
    #[track_caller]
    fn until(&mut self, text: &str) -> String {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).expect("readable"), 0, "it ended: {seen}");
            if line.contains(text) {
                return line;
            }
            seen.push_str(&line);
        }
    }

    /// The same on stderr.
    #[track_caller]
    fn complains(&mut self, text: &str) -> String {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.stderr.read_line(&mut line).expect("readable"), 0, "it ended: {seen}");
            seen.push_str(&line);
            if line.contains(text) {
                return seen;
            }
        }
    }

    /// Ctrl-C.
    fn interrupt(mut self) -> Option<i32> {
        let process = Pid::from_raw(self.child.id().cast_signed()).expect("a process");
        kill_process(process, Signal::INT).expect("it runs");
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn dev_reports_every_change_and_problem_until_it_is_interrupted() {
    let manifest = python("greeter", json!({}));
    let sandbox = with_tool("greeter", &manifest, &[("main.py", &answering("'hello'"))]);
    let mut dev = Dev::start(&sandbox, &[]);
    let first = dev.until("loaded greeter 1.0.0 sha256:");
    dev.until("  sandboxed by ");
    sandbox.write("tools/greeter/main.py", answering("'changed'"));
    let second = dev.until("loaded greeter 1.0.0 sha256:");
    assert_ne!(first, second, "the content has another hash");
    // A broken manifest is reported, and the last valid version stays loaded.
    sandbox.write("tools/greeter/manifest.json", "{");
    let problem = dev.complains("the previous version stays in use");
    assert!(problem.contains("host.manifest_invalid"), "{problem}");
    assert_eq!(dev.until("loaded greeter"), second);
    sandbox.write("tools/greeter/manifest.json", manifest.to_string().replace("1.0.0", "1.0.1"));
    dev.until("loaded greeter 1.0.1 sha256:");
    sandbox.write("tools/second/main.py", "");
    sandbox.write("tools/second/manifest.json", python("second", json!({})).to_string());
    dev.until("loaded second 1.0.0 sha256:");
    assert_eq!(dev.interrupt(), Some(0));

    let mut dev = Dev::start(&sandbox, &["--json"]);
    let event: Value = serde_json::from_str(&dev.until("\"event\"")).expect("JSON");
    assert_eq!(event["event"], "loaded");
    let ids: Vec<_> = event["data"].as_array().expect("tools").iter().map(|tool| tool["id"].clone()).collect();
    assert_eq!(ids, ["greeter", "second"]);
    assert_eq!(dev.interrupt(), Some(0));

    let mut dev = Dev::start(&sandbox, &["--no-sandbox"]);
    dev.until("loaded greeter");
    assert!(dev.until("").starts_with("  UNSANDBOXED: "));
    assert_eq!(dev.interrupt(), Some(0));
}

/// More lines than a channel holds, and progress that is shown before the call ends.
#[test]
fn what_a_program_says_is_shown_while_it_works() {
    let source = "import json, os, sys, time
call = json.loads(sys.stdin.readline())
say = lambda more: json.dumps({'id': call['id'], **more}) + '\\n'
sys.stdout.write(say({'progress': 1, 'total': 2, 'message': 'half'}))
sys.stdout.write(''.join(say({'log': f'line {n}'}) for n in range(500)))
sys.stdout.flush()
while not os.path.exists(os.environ['HOME'] + '/go'): time.sleep(0.02)
sys.stdout.write(say({'result': 'done'}))
sys.stdout.flush()
";
    let sandbox = with_tool("talker", &python("talker", json!({})), &[("main.py", source)]);
    let mut command = sandbox.command(&["local", "call", "talker", "run", "--tools", "tools", "--yes"]);
    let mut child = command.stdin(Stdio::null()).spawn().expect("it starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut lines = Vec::new();
    // The program ends when it is told to, after its last line was shown.
    while lines.last().is_none_or(|line: &String| !line.ends_with("line 499")) {
        let mut line = String::new();
        assert_ne!(stderr.read_line(&mut line).expect("readable"), 0, "it ended: {lines:?}");
        lines.push(line.trim_end().to_owned());
    }
    std::fs::write(super::support::state(&sandbox).join("data/talker/go"), "").expect("a file");
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "done\n");
    let expected: Vec<_> =
        std::iter::once("talker: 1 of 2: half".to_owned()).chain((0..500).map(|n| format!("talker: line {n}"))).collect();
    assert_eq!(lines, expected);
}

#[test]
fn a_folder_of_another_host_is_imported_unchanged() {
    let sandbox = Sandbox::new();
    let manifest = |id: &str| {
        json!({"id": id, "name": "N", "description": "D.", "version": "1.0.0", "logName": "x",
               "functions": [{"name": "run", "description": "Runs.", "parameters": {"type": "object"}}]})
        .to_string()
    };
    for (folder, id, source) in [
        ("tools", "named", "export async function run(args, context) { return typeof context.dataDir; }"),
        ("plugins", "map", "export const handlers = { run: async () => 'map' };"),
    ] {
        sandbox.write(&format!("host/{folder}/{id}/manifest.json"), manifest(id));
        sandbox.write(&format!("host/{folder}/{id}/index.mjs"), source);
    }
    sandbox.write("host/tools/broken/manifest.json", "{");

    let (code, planned) = sandbox.run_json(&["local", "import", "host", "--dry-run"]);
    assert_eq!(code, 1, "{planned}");
    let ids: Vec<_> = planned["data"]["planned"].as_array().expect("a list").iter().map(|tool| tool["id"].clone()).collect();
    assert_eq!((ids, &planned["data"]["imported"]), (vec![json!("map"), json!("named")], &json!([])));

    let (code, envelope) = sandbox.run_json(&["local", "import", "host"]);
    assert_eq!(code, 1, "one of three is broken: {envelope}");
    assert_eq!(envelope["data"]["imported"], json!(["map", "named"]));
    let refused = &envelope["data"]["refused"];
    assert_eq!((refused.as_array().map(Vec::len), &refused[0]["code"]), (Some(1), &json!("install.manifest")));
    assert!(refused[0]["folder"].as_str().expect("a path").ends_with("host/tools/broken"), "{refused}");
    let run = |id: &str| sandbox.run(&["local", "call", id, "run", "--yes"]).code(0).stdout;
    assert_eq!((run("named").as_str(), run("map").as_str()), ("string\n", "map\n"));
    // Existing tools are not replaced.
    let again = sandbox.run(&["local", "import", "host/tools/named"]);
    assert!(again.code == 1 && again.stderr.contains("install.exists"), "{again:#?}");
    let none = sandbox.run(&["local", "import", "."]);
    assert!(none.code == 2 && none.stderr.contains("import.folder"), "{none:#?}");
}

#[test]
fn a_tool_behind_a_url_of_this_machine_is_shown_as_unsandboxed() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/run", listener.local_addr().expect("an address"));
    let manifest = python("remote", json!({"runtime": {"kind": "http", "url": url}}));
    let sandbox = with_tool("remote", &manifest, &[]);
    let unsandboxed = format!("UNSANDBOXED: the server {url} runs on this machine by itself");
    let list = sandbox.run(&["local", "list", "--tools", "tools"]).code(0);
    assert!(list.stdout.contains(&format!("  {unsandboxed}\n")), "{list:#?}");
    let (_, envelope) = sandbox.run_json(&["local", "list", "--tools", "tools"]);
    assert_eq!(envelope["data"]["tools"][0]["sandbox"], json!(unsandboxed));
    let doctor = sandbox.run(&["local", "doctor", "--tools", "tools"]);
    assert!(doctor.stdout.contains(&unsandboxed), "{doctor:#?}");
    // The server answers one call.
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a line");
            if let Some((_, value)) = line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length")) {
                length = value.trim().parse().expect("a number");
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        std::io::Read::read_exact(&mut reader, &mut body).expect("a body");
        let sent: Value = serde_json::from_slice(&body).expect("JSON");
        let answer = json!({"result": sent["function"]}).to_string();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", answer.len());
        std::io::Write::write_all(&mut stream, format!("{head}{answer}").as_bytes()).expect("written");
    });
    let ran: RunOutput = call(&sandbox, "remote", &["--yes"]).code(0);
    assert_eq!(ran.stdout, "run\n");
    server.join().expect("it answered");
    let (_, log) = sandbox.run_json(&["local", "logs", "remote"]);
    assert!(log.to_string().contains("UNSANDBOXED"), "{log}");
    // Serving remote callers needs an explicit option.
    let published = sandbox.run(&[
        "local",
        "publish",
        "remote",
        "run",
        "--tools",
        "tools",
        "--origin",
        "https://tools.example.com",
        "--creator",
        "0x52908400098527886e0f7030069857d2e4169ee7",
        "--yes",
    ]);
    assert!(published.code != 0 && published.stderr.contains("host.publish_unsandboxed"), "{published:#?}");
}

/// 41 functions for models, beside a tool that is disabled and one that lacks its credential.
#[test]
fn above_forty_functions_a_model_searches_and_sees_no_hidden_tool() {
    let functions = |count: usize| -> Vec<Value> {
        (0..count)
            .map(|n| json!({"name": format!("f{n}"), "description": format!("Forecast {n}."), "parameters": {"type": "object"}}))
            .collect()
    };
    let sandbox = with_tool(
        "weather",
        &python("weather", json!({"functions": functions(41)})),
        &[("main.py", &answering("call['function']"))],
    );
    let credentials = json!([{"name": "api_key", "label": "Key", "required": true}]);
    for (id, more) in [("disabled", json!({})), ("keyed", json!({ "credentials": credentials }))] {
        sandbox.write(&format!("tools/{id}/manifest.json"), python(id, more).to_string());
        sandbox.write(&format!("tools/{id}/main.py"), answering("'secret'"));
    }
    allow_all(&sandbox, &["weather", "disabled", "keyed"]);
    sandbox.run(&["permit", "set", "disabled", "deny", "--tools", "tools"]).code(0);
    let arguments = ["mcp", "--local-only", "--tools", "tools", "--policy", POLICY];
    let mut client = Client::start(&sandbox, &arguments, &json!({}));
    let listed = client.ask("tools/list", &json!({}), &mut |_| None);
    let names: Vec<_> = listed["result"]["tools"].as_array().expect("tools").iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["call_function", "describe_function", "search_functions"]);

    let found = client.call("search_functions", &json!({"query": "runs"}));
    assert_eq!(found["structuredContent"]["functions"], json!([]), "{found}");
    let found = client.call("search_functions", &json!({"query": "forecast 17"}));
    assert_eq!(found["structuredContent"]["functions"][0]["name"], "weather_f17", "{found}");
    let described = client.call("describe_function", &json!({"name": "weather_f40"}));
    assert_eq!(described["structuredContent"]["description"], "Forecast 40.");
    let called = client.call("call_function", &json!({"name": "weather_f40", "arguments": {}}));
    assert_eq!(Client::text(&called), (false, "f40"));
    for hidden in ["disabled_run", "keyed_run", "keyed_rum", "disabled_rum"] {
        for (tool, arguments) in
            [("describe_function", json!({"name": hidden})), ("call_function", json!({"name": hidden, "arguments": {}}))]
        {
            let refused = client.call(tool, &arguments);
            let (is_error, text) = Client::text(&refused);
            assert!(is_error && text.contains("host.tool_unknown") && !text.contains("meant"), "{tool} {hidden}: {refused}");
        }
        let direct = client.ask("tools/call", &json!({"name": hidden, "arguments": {}}), &mut |_| None);
        assert_eq!(direct["error"]["data"]["code"], "mcp.unknown_tool", "{direct}");
    }
    let typed = client.call("describe_function", &json!({"name": "weather_g40"}));
    assert!(Client::text(&typed).1.contains("is weather_f4"), "{typed}");
}
