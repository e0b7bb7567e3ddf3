//! `local import` of MCP servers: configuration files of clients, third-party bundles, and a server of the TypeScript SDK.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::Client;
use super::support::state;
use crate::{RunOutput, Sandbox};

/// The value of a variable that a server needs.
pub(super) const TOKEN: &str = "hunter2-hunter2-hunter2";

/// An MCP server without dependencies. It returns its variables and arguments.
pub(super) const SERVER: &str = r#"
import json, os, sys
TOOLS = [
    {"name": "length.of", "description": "Tells the length of the token.", "inputSchema": {"type": "object"}},
    {"name": "echo", "description": f"Echoes. The token is {os.environ.get('NOTES_TOKEN')}.",
     "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}},
]
def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "notes", "version": "1"}}
    if method == "tools/list":
        # In two pages.
        if "cursor" not in params:
            return {"tools": TOOLS[:1], "nextCursor": "2"}
        return {"tools": TOOLS[1:]}
    if params["name"] == "length.of":
        text = str(len(os.environ.get("NOTES_TOKEN", "")))
    else:
        text = params["arguments"]["text"] + " " + os.environ.get("LEVEL", "") + " ".join(sys.argv[1:])
    return {"content": [{"type": "text", "text": text}]}
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = answer(request["method"], request.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"#;

/// Writes a client's configuration.
pub(super) fn configuration(sandbox: &Sandbox, servers: &Value) -> String {
    sandbox.write("mcp.json", json!({ "mcpServers": servers }).to_string()).to_string_lossy().into_owned()
}

/// The configuration entry of a Python server, and the arguments that let it read its file.
pub(super) fn entry(sandbox: &Sandbox, source: &str, env: Value) -> (Value, String) {
    let file = sandbox.write("server/main.py", source);
    (
        json!({"command": "python3", "args": [file, "one two"], "env": env}),
        file.parent().expect("a folder").to_string_lossy().into_owned(),
    )
}

/// Asserts that no file in the user's home, except the encrypted one, contains the value.
#[track_caller]
pub(super) fn assert_nowhere(sandbox: &Sandbox, value: &str) {
    let mut open = vec![sandbox.home()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            match entry.path() {
                path if path.is_dir() => open.push(path),
                path => {
                    let text = String::from_utf8_lossy(&fs::read(&path).expect("a file")).into_owned();
                    assert!(!text.contains(value), "{} has the secret", path.display());
                }
            }
        }
    }
}

pub(super) fn import(sandbox: &Sandbox, file: &str, more: &[&str]) -> RunOutput {
    sandbox.run(&[&["local", "import", file], more].concat())
}

fn installed(sandbox: &Sandbox) -> Vec<String> {
    let Ok(entries) = fs::read_dir(sandbox.home().join(".local/state/toolcrib/tools")) else { return Vec::new() };
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

#[test]
fn servers_of_a_configuration_become_tools_with_their_secrets_in_the_store() {
    let sandbox = Sandbox::new();
    let (notes, folder) = entry(&sandbox, SERVER, json!({"NOTES_TOKEN": TOKEN, "LEVEL": "debug"}));
    let file = configuration(&sandbox, &json!({"My Notes": notes, "absent": {"command": "no-such-program-1f"}}));

    // Nothing is started without approval, nor in a dry run.
    let refused = import(&sandbox, &file, &["--server", "My Notes", "--read", &folder]);
    assert!(refused.code == 1 && refused.stderr.contains("there is no terminal to ask on"), "{refused:#?}");
    for line in
        ["  starts: python3 ", " 'one two'\n", "  sandbox: sandboxed by Landlock", "  access: its own folder", folder.as_str()]
    {
        assert!(refused.stdout.contains(line), "{line}: {refused:#?}");
    }
    assert!(
        refused.stdout.contains("credential notes_token in the variable NOTES_TOKEN: its value will be stored encrypted"),
        "{refused:#?}"
    );
    let (code, dry) = sandbox.run_json(&["local", "import", &file, "--server", "My Notes", "--read", &folder, "--dry-run"]);
    assert_eq!(code, 0, "{dry}");
    let planned = &dry["data"]["planned"][0];
    assert_eq!((&planned["id"], &planned["command"][0]), (&json!("my-notes"), &json!("python3")));
    assert_eq!(planned["credentials"][1]["is_given"], true, "{planned}");
    assert_eq!(installed(&sandbox), Vec::<String>::new());
    let (_, log) = sandbox.run_json(&["local", "logs", "--all"]);
    assert!(!log.to_string().contains("server_started"), "{log}");

    let ran = import(&sandbox, &file, &["--read", &folder, "--yes"]);
    // One is imported and the other fails: each is reported.
    assert_eq!(ran.code, 1, "{ran:#?}");
    assert!(ran.stdout.contains("imported my-notes sha256:") && ran.stdout.contains("functions: echo, length_of"), "{ran:#?}");
    assert!(ran.stderr.contains("no-such-program-1f") && ran.stderr.contains("is not installed"), "{ran:#?}");
    assert_eq!(installed(&sandbox), ["my-notes"]);
    for text in [&ran.stdout, &ran.stderr, &refused.stdout, &refused.stderr, &dry.to_string()] {
        assert!(!text.contains(TOKEN), "{text}");
    }
    // The server put its token into a description. No file contains it.
    assert_nowhere(&sandbox, TOKEN);
    let secrets = sandbox.run(&["secret", "list"]).code(0).stdout;
    assert!(secrets.contains("my-notes notes_token  encrypted file") && secrets.contains("my-notes level"), "{secrets}");

    // It needs approval as any other tool, and gets its credentials.
    let denied = sandbox.run(&["local", "call", "my-notes", "length_of"]);
    assert!(denied.code == 1 && denied.stderr.contains("host.declined"), "{denied:#?}");
    assert_eq!(sandbox.run(&["local", "call", "my-notes", "length_of", "--yes"]).code(0).stdout, format!("{}\n", TOKEN.len()));
    let echoed = sandbox.run(&["local", "call", "my-notes", "echo", "--yes", "--args", r#"{"text": "hi"}"#]).code(0);
    assert_eq!(echoed.stdout, "hi debugone two\n");
    let mut client = Client::start(&sandbox, &["mcp", "--local-only"], &json!({}));
    let listed = client.ask("tools/list", &json!({}), &mut |_| None);
    assert_eq!(listed["result"]["tools"].as_array().map(Vec::len), Some(2), "{listed}");
    assert!(listed.to_string().contains("The token is [redacted]."), "{listed}");

    let (_, log) = sandbox.run_json(&["local", "logs", "my-notes", "--all", "-n", "1000"]);
    let events: Vec<_> =
        log["data"]["lines"].as_array().expect("lines").iter().filter_map(|line| line["event"].as_str()).collect();
    assert_eq!(&events[..4], ["server_started", "tool_loaded", "secret_set", "secret_set"], "{log}");
    sandbox.run(&["local", "logs", "--verify"]).code(0);
    sandbox.run(&["local", "doctor"]).code(0);

    // A server is not updated from its file: its tools must be listed again.
    let update = sandbox.run(&["local", "update", "my-notes", "--yes"]);
    assert!(update.code == 2 && update.stderr.contains("toolcrib local remove my-notes"), "{update:#?}");
    let again = import(&sandbox, &file, &["--server", "My Notes", "--read", &folder, "--yes"]);
    assert!(again.code == 1 && again.stderr.contains("install.exists"), "{again:#?}");
    import(&sandbox, &file, &["--server", "My Notes", "--read", &folder, "--id", "notes2", "--yes"]).code(0);
    assert_eq!(installed(&sandbox), ["my-notes", "notes2"]);
    sandbox.run(&["local", "remove", "my-notes"]).code(0);
}

#[test]
fn what_the_client_would_fill_in_is_left_to_the_user() {
    let sandbox = Sandbox::new();
    let (notes, folder) = entry(&sandbox, SERVER, json!({"NOTES_TOKEN": "${input:token}", "LEVEL": ""}));
    let file = configuration(&sandbox, &json!({ "notes": notes }));
    let ran = import(&sandbox, &file, &["--read", &folder, "--yes"]).code(0);
    assert!(ran.stdout.contains("credential notes_token in the variable NOTES_TOKEN: not given, required"), "{ran:#?}");
    assert!(ran.stderr.contains("hidden from models until you run `toolcrib secret set notes notes_token`"), "{ran:#?}");
    assert!(sandbox.run(&["secret", "list"]).code(0).stdout.is_empty());
    sandbox.run_with_stdin(&["secret", "set", "notes", "notes_token"], b"0123456789").code(0);
    assert_eq!(sandbox.run(&["local", "call", "notes", "length_of", "--yes"]).code(0).stdout, "10\n");
}

/// A server that needs its credential to list its tools gets it from the environment of the import, which does not store it.
#[test]
fn a_credential_for_the_list_may_come_from_the_environment() {
    let sandbox = Sandbox::new();
    let source = format!("import os, sys\nif not os.environ.get('NOTES_TOKEN'): sys.exit('no token')\n{SERVER}");
    let (notes, folder) = entry(&sandbox, &source, json!({"NOTES_TOKEN": "${TOKEN}"}));
    let file = configuration(&sandbox, &json!({ "notes": notes }));
    let arguments = ["local", "import", &file, "--read", &folder, "--yes"];
    let without = sandbox.run(&arguments);
    assert!(without.code == 1 && without.stderr.contains("no token"), "{without:#?}");
    sandbox.run_with_env(&arguments, &[("TOOLCRIB_SECRET_NOTES__NOTES_TOKEN", TOKEN)]).code(0);
    assert_nowhere(&sandbox, TOKEN);
    assert!(sandbox.run(&["secret", "list"]).code(0).stdout.is_empty());
}

/// Packs a folder as `mcpb pack` does.
pub(super) fn pack(folder: &Path, bundle: &Path) {
    let script = "import os, sys, zipfile\nfolder, bundle = sys.argv[1:]\n\
        with zipfile.ZipFile(bundle, 'w', zipfile.ZIP_DEFLATED) as archive:\n    for place, _, names in os.walk(folder):\n        \
        for name in names:\n            path = os.path.join(place, name)\n            archive.write(path, os.path.relpath(path, folder))\n";
    assert!(Command::new("python3").args(["-c", script]).args([folder, bundle]).status().expect("it runs").success());
}

/// A third-party bundle, with a server in Python.
pub(super) fn bundle(sandbox: &Sandbox, source: &str, more: Value) -> PathBuf {
    let mut manifest = json!({
        "manifest_version": "0.3", "name": "their-server", "display_name": "Their server", "version": "1.2.0",
        "description": "A server.", "author": {"name": "Them"},
        "server": {"type": "python", "entry_point": "server/main.py", "mcp_config": {
            "command": "python3", "args": ["${__dirname}/server/main.py", "${user_config.folder}"],
            "env": {"NOTES_TOKEN": "${user_config.token}", "LEVEL": "${user_config.level}"},
        }},
        "user_config": {
            "folder": {"type": "directory", "title": "Folder", "description": "A folder."},
            "token": {"type": "string", "title": "Token", "description": "A token.", "sensitive": true, "required": true},
            "level": {"type": "string", "title": "Level", "description": "A level.", "default": "info"},
        },
    });
    for (key, value) in more.as_object().expect("members") {
        manifest[key] = value.clone();
    }
    sandbox.write("bundle/manifest.json", manifest.to_string());
    sandbox.write("bundle/server/main.py", source);
    let bundle = sandbox.path().join("their.mcpb");
    pack(&sandbox.path().join("bundle"), &bundle);
    bundle
}

#[test]
fn a_bundle_of_another_author_becomes_a_tool() {
    let sandbox = Sandbox::new();
    let bundle = bundle(&sandbox, SERVER, json!({}));
    let file = bundle.to_string_lossy().into_owned();
    let added = sandbox.run(&["local", "add", &file]);
    assert!(added.code == 2 && added.stderr.contains(&format!("run `toolcrib local import {file}`")), "{added:#?}");

    let unset = import(&sandbox, &file, &["--yes"]);
    assert!(unset.code == 1 && unset.stderr.contains("user_config.folder") && unset.stderr.contains("--setting"), "{unset:#?}");
    for (setting, wanted) in [("token=abc", "import.secret_in_arguments"), ("nothing=1", "import.bundle")] {
        let refused = import(&sandbox, &file, &["--setting", "folder=/x", "--setting", setting, "--yes"]);
        assert!(refused.code == 1 && refused.stderr.contains(wanted) && !refused.stderr.contains("abc"), "{refused:#?}");
    }
    let settings = ["--setting", "folder=/notes", "--setting", "level=loud"];
    let ran = import(&sandbox, &file, &[&settings[..], &["--yes"]].concat()).code(0);
    assert!(ran.stdout.contains("starts: python3 ./server/main.py /notes\n"), "{ran:#?}");
    assert!(ran.stdout.contains("imported their-server sha256:"), "{ran:#?}");
    let folder = sandbox.home().join(".local/state/toolcrib/tools/their-server");
    let mut names: Vec<_> = fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect();
    names.sort();
    assert_eq!(names, ["bundle.manifest.json", "manifest.json", "server"]);
    sandbox.run(&["lint", &folder.join("manifest.json").to_string_lossy()]).code(0);
    sandbox.run_with_stdin(&["secret", "set", "their-server", "token"], TOKEN.as_bytes()).code(0);
    assert_eq!(
        sandbox.run(&["local", "call", "their-server", "length_of", "--yes"]).code(0).stdout,
        format!("{}\n", TOKEN.len())
    );
    let echoed = sandbox.run(&["local", "call", "their-server", "echo", "--yes", "--args", r#"{"text": "hi"}"#]).code(0);
    assert_eq!(echoed.stdout, "hi loud/notes\n");
    let lock = fs::read_to_string(state(&sandbox).join("lock.json")).expect("a lock file");
    assert!(lock.contains("\"server\"") && lock.contains("their.mcpb"), "{lock}");
}

/// A server that is built with the TypeScript SDK, as clients are configured for it.
#[test]
fn a_server_of_the_typescript_sdk_is_imported_and_called() {
    let Some(clients) = toolcrib_testkit::mcp_clients() else { return };
    let modules = fs::canonicalize(clients.join("node_modules")).expect("a folder");
    let sandbox = Sandbox::new();
    let server = sandbox.write(
        "server/index.mjs",
        "import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';\n\
         import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';\n\
         import { z } from 'zod';\n\
         const server = new McpServer({ name: 'sums', version: '1.0.0' });\n\
         server.registerTool('add', { description: 'Adds.', inputSchema: { a: z.number(), b: z.number() } },\n\
           async ({ a, b }) => ({ content: [{ type: 'text', text: `${a + b} for ${process.env.API_KEY.length}` }] }));\n\
         await server.connect(new StdioServerTransport());\n",
    );
    std::os::unix::fs::symlink(&modules, sandbox.path().join("server/node_modules")).expect("a link");
    let file = configuration(&sandbox, &json!({"sums": {"command": "node", "args": [server], "env": {"API_KEY": TOKEN}}}));
    // Without its files it cannot start, and the error suggests a fix.
    let closed = import(&sandbox, &file, &["--yes"]);
    assert!(closed.code == 1 && closed.stderr.contains("host.start_failed") && closed.stderr.contains("--read"), "{closed:#?}");
    let folder = sandbox.path().join("server").to_string_lossy().into_owned();
    let modules = modules.to_string_lossy().into_owned();
    let ran = import(&sandbox, &file, &["--read", &folder, "--read", &modules, "--yes"]).code(0);
    assert!(ran.stdout.contains("functions: add"), "{ran:#?}");
    let sum = sandbox.run(&["local", "call", "sums", "add", "--yes", "--args", r#"{"a": 1, "b": 2}"#]).code(0);
    assert_eq!(sum.stdout, format!("3 for {}\n", TOKEN.len()));
    let wrong = sandbox.run(&["local", "call", "sums", "add", "--yes", "--args", r#"{"a": "x"}"#]);
    assert!(wrong.code == 1 && wrong.stderr.contains("host.arguments_invalid"), "{wrong:#?}");
    assert_nowhere(&sandbox, TOKEN);
}

/// A local HTTP server: a real one, which requires a token in a header.
#[test]
fn a_server_at_a_url_is_imported() {
    let home = Sandbox::new();
    let token = "0123456789abcdef0123456789abcdef";
    home.write("tools/greeter/manifest.json", super::python("greeter", json!({})).to_string());
    home.write("tools/greeter/main.py", super::answering("'hello'"));
    super::support::allow_all(&home, &["greeter"]);
    let arguments = ["mcp", "--local-only", "--tools", "tools", "--policy", "policy.toml", "--listen", "127.0.0.1:0"];
    let mut command = home.command(&arguments);
    let mut server = command.env("TOOLCRIB_MCP_TOKEN", token).stderr(std::process::Stdio::null()).spawn().expect("it starts");
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(server.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("a line");
    let url = line.trim().trim_start_matches("mcp ").to_owned();

    let sandbox = Sandbox::new();
    let entry = |value: String| json!({"remote": {"type": "http", "url": url, "headers": {"Authorization": value}}});
    let file = configuration(&sandbox, &entry("Bearer wrong-wrong-wrong-wrong-wrong".to_owned()));
    let rejected = import(&sandbox, &file, &["--yes"]);
    let file = configuration(&sandbox, &entry(format!("Bearer {token}")));
    let ran = import(&sandbox, &file, &["--yes"]);
    let called = sandbox.run(&["local", "call", "remote", "greeter_run", "--yes"]);
    let _ = server.kill();
    let _ = server.wait();
    assert!(rejected.code == 1 && rejected.stderr.contains("host.credential_rejected"), "{rejected:#?}");
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert!(ran.stdout.contains(&format!("calls: {url}\n")) && ran.stdout.contains("sandbox: UNSANDBOXED"), "{ran:#?}");
    assert_eq!(called.code(0).stdout, "hello\n");
    assert_nowhere(&sandbox, token);
}
