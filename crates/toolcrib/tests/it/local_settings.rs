//! `local settings`: a user changes something on the page, and every other command sees it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::Sandbox;

/// A page that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends a request and returns head and body of the response.
fn send(authority: &str, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(authority).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a whole head");
    (head.to_owned(), body.to_owned())
}

/// The text between two texts.
fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("{before:?} is not in {text}")).1;
    rest.split(after).next().expect("a part")
}

/// An MCP client.
struct Model {
    _process: Running,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Model {
    fn start(sandbox: &Sandbox) -> Self {
        let mut command = sandbox.command(&["mcp", "--local-only", "--tools", "tools"]);
        let mut process = Running(command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts"));
        let (stdin, stdout) = (process.0.stdin.take().expect("a pipe"), process.0.stdout.take().expect("a pipe"));
        let mut model = Self { _process: process, stdin, stdout: BufReader::new(stdout) };
        let info = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        model.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": info}));
        model.read(|message| message["id"] == 0);
        model.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        model
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").expect("it reads");
    }

    /// The next message that matches.
    fn read(&mut self, is_meant: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).expect("readable"), 0, "the server has ended");
            let message = serde_json::from_str(&line).expect("JSON");
            if is_meant(&message) {
                return message;
            }
        }
    }

    /// The names of the listed tools.
    fn tools(&mut self) -> Vec<Value> {
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}));
        let answer = self.read(|message| message["id"] == 1);
        answer["result"]["tools"].as_array().expect("tools").iter().map(|tool| tool["name"].clone()).collect()
    }

    /// Waits for the notification that the tools changed.
    fn wait(&mut self) {
        self.read(|message| message["method"] == "notifications/tools/list_changed");
    }
}

// req: LOCAL-006
#[test]
fn a_person_sets_a_credential_and_disables_a_tool_on_the_page() {
    let sandbox = Sandbox::new();
    let manifest = json!({
        "id": "greeter", "name": "Greeter", "description": "Greets.", "version": "1.0.0",
        "credentials": [{"name": "api_key", "label": "Key of the service", "required": true}],
        "functions": [{"name": "run", "description": "Runs.", "parameters": {"type": "object"}}],
        "runtime": {"kind": "exec", "command": ["python3", "main.py"]},
    });
    sandbox.write("tools/greeter/manifest.json", manifest.to_string());
    sandbox.write(
        "tools/greeter/main.py",
        "import json, sys\nfor line in sys.stdin:\n    call = json.loads(line)\n    if 'id' in call:\n        \
         print(json.dumps({'id': call['id'], 'result': len(call['credentials']['api_key'])}), flush=True)\n",
    );
    let call = || sandbox.run(&["local", "call", "greeter", "run", "--tools", "tools", "--yes"]);
    let missing = call();
    assert!(missing.code == 1 && missing.stderr.contains("host.credential_missing"), "{missing:#?}");
    let mut model = Model::start(&sandbox);
    assert!(model.tools().is_empty(), "hidden without its credential");

    let mut command = sandbox.command(&["local", "settings", "--tools", "tools"]);
    let mut page = Running(command.stderr(Stdio::piped()).spawn().expect("it starts"));
    let mut stdout = BufReader::new(page.0.stdout.take().expect("a pipe"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("a line");
    let rest = line.trim_end().strip_prefix("http://").expect("an address");
    let (authority, login) = rest.split_at(rest.find('/').expect("a path"));
    assert!(authority.starts_with("127.0.0.1:"), "{line}");

    let get = |path: &str, headers: &str| {
        send(authority, &format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n{headers}\r\n"))
    };
    let (head, _) = get(login, "");
    let cookie = between(&head.to_lowercase(), "set-cookie: ", ";").to_owned();
    let base = between(&head.to_lowercase(), "location: ", "\r").trim_end_matches('/').to_owned();
    let (_, tool) = get(&format!("{base}/tools/greeter"), &format!("Cookie: {cookie}\r\n"));
    assert!(tool.contains("Key of the service") && tool.contains("sandboxed"), "{tool}");
    let csrf = between(&tool, "name=\"csrf\" value=\"", "\"");
    let content = between(&tool, "name=\"content\" value=\"", "\"");
    let post = |action: &str, fields: &str| {
        let body = format!("csrf={csrf}&tool=greeter&{fields}");
        let (head, answer) = send(
            authority,
            &format!(
                "POST {base}/change/{action} HTTP/1.1\r\nHost: {authority}\r\nOrigin: http://{authority}\r\nCookie: {cookie}\r\n\
                 Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            ),
        );
        (head.split(' ').nth(1).expect("a status").to_owned(), answer)
    };
    let (status, answer) =
        post("credential", &format!("content={}&name=api_key&value=sk-0123456789", content.replace(':', "%3A")));
    assert_eq!(status, "303", "{answer}");
    assert_eq!(call().code(0).stdout, "13\n", "the program got it");
    model.wait();
    assert_eq!(model.tools(), ["greeter_run"]);

    let (status, answer) = post("disable", "");
    assert_eq!(status, "303", "{answer}");
    let refused = call();
    assert!(refused.code == 1 && refused.stderr.contains("a rule denies this call"), "{refused:#?}");
    model.wait();
    assert!(model.tools().is_empty(), "a disabled tool is not listed");
    let list = sandbox.run(&["local", "list", "--tools", "tools"]).code(0);
    assert!(list.stdout.contains("hidden from models: a rule denies every call of it"), "{}", list.stdout);
    let (_, log) = sandbox.run_json(&["local", "logs", "greeter"]);
    let lines = log["data"]["lines"].as_array().expect("lines");
    for event in ["secret_set", "permission_changed"] {
        assert!(lines.iter().any(|line| line["event"] == event && line["client"] == "page"), "{event}: {log}");
    }
    // The page and the command line share their rules.
    sandbox.run(&["permit", "revoke", "1"]).code(0);
    call().code(0);

    let (status, _) = post("end", "");
    assert_eq!(status, "200");
    assert_eq!(page.0.wait().expect("it ends").code(), Some(0));
    let mut said = String::new();
    page.0.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    let token = login.rsplit_once('=').expect("a token").1;
    assert!(said.contains("it works once") && said.contains("settings page was closed"), "{said}");
    for text in [&said, &log.to_string()] {
        assert!(!text.contains(token) && !text.contains("sk-0123456789"), "{text}");
    }
}

#[test]
fn other_machines_are_not_served() {
    let sandbox = Sandbox::new();
    for address in ["0.0.0.0:0", "[::]:0", "127.0.0.2:0"] {
        let refused = sandbox.run(&["local", "settings", "--listen", address]);
        assert!(refused.code == 2 && refused.stderr.contains("host.page_address"), "{address}: {refused:#?}");
    }
}
