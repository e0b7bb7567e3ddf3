//! `local export` of the formats that have rules beyond a list of functions: bundles, `server.json`, ERC-8257 and `.agt`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{Client, answering, python, with_tool};
use crate::Sandbox;

/// A tool with a credential, which returns its length.
fn keyed() -> Sandbox {
    let credentials = json!([{"name": "api_key", "label": "Key", "description": "The key.", "required": true}]);
    let manifest = python("keyed-tool", json!({ "credentials": credentials }));
    let source = answering("len(call['credentials']['api_key'])");
    with_tool("keyed-tool", &manifest, &[("main.py", &source), ("lib/data.txt", "1")])
}

fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON")
}

/// Unpacks a zip file with an independent program.
fn unpack(archive: &Path, folder: &Path) {
    let status = Command::new("python3").arg("-m").arg("zipfile").arg("-e").args([archive, folder]).status().expect("it runs");
    assert!(status.success());
}

fn export(sandbox: &Sandbox, format: &str, more: &[&str]) -> PathBuf {
    let out = format!("out/{format}");
    sandbox.run(&[&["local", "export", format, "--tools", "tools", "--out", &out], more].concat()).code(0);
    sandbox.path().join(out)
}

/// Does what clients do with a bundle: unpacks it, asks for the settings, and starts the server with them in its environment.
#[test]
fn a_bundle_works_in_a_client_and_is_taken_back() {
    let sandbox = keyed();
    let out = export(&sandbox, "mcpb", &["keyed-tool", "--author", "Ada"]);
    assert_eq!(files(&out), ["keyed-tool-1.0.0.mcpb"]);
    let bundle = out.join("keyed-tool-1.0.0.mcpb");
    let unpacked = sandbox.path().join("unpacked");
    unpack(&bundle, &unpacked);
    // The checks of interop/local with `mcpb unpack`, `mcpb validate` and `diff`.
    let manifest = read(&unpacked.join("manifest.json"));
    assert_eq!((&manifest["manifest_version"], &manifest["author"]), (&json!("0.3"), &json!({"name": "Ada"})));
    assert_eq!(manifest["tools"], json!([{"name": "keyed-tool_run", "description": "Runs."}]));
    let folders = [sandbox.path().join("tools/keyed-tool"), unpacked.join("tools/keyed-tool")];
    assert!(Command::new("diff").arg("-r").args(folders).status().expect("it runs").success());

    let config = &manifest["server"]["mcp_config"];
    assert_eq!(config["command"], "toolcrib");
    let folder = unpacked.to_string_lossy().into_owned();
    let arguments: Vec<_> = config["args"]
        .as_array()
        .expect("arguments")
        .iter()
        .map(|argument| argument.as_str().expect("a text").replace("${__dirname}", &folder))
        .collect();
    let (variable, value) = config["env"].as_object().expect("variables").iter().next().expect("a variable");
    assert_eq!(value, "${user_config.keyed-tool_api_key}");
    assert_eq!(manifest["user_config"]["keyed-tool_api_key"]["sensitive"], true);
    let run = |environment: &[(&str, &str)]| {
        // Another machine, with only the unpacked bundle.
        let machine = Sandbox::new();
        machine.write("policy.toml", "version = 1\n[[rule]]\ntool = \"keyed-tool\"\ndecision = \"allow\"\ncontent = \"any\"\n");
        let policy = machine.path().join("policy.toml");
        fs::set_permissions(&policy, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("private");
        let all: Vec<_> = arguments.iter().map(String::as_str).chain(["--policy", "policy.toml"]).collect();
        let mut client = Client::start_with(&machine, &all, &json!({}), environment);
        let listed = client.ask("tools/list", &json!({}), &mut |_| None);
        let count = listed["result"]["tools"].as_array().map(Vec::len);
        (count, client.call("keyed-tool_run", &json!({})))
    };
    let (count, called) = run(&[(variable.as_str(), "0123456789")]);
    assert_eq!((count, Client::text(&called)), (Some(1), (false, "10")), "{called}");
    // A client passes an empty value for a setting that its user did not enter: the tool stays hidden.
    assert_eq!(run(&[(variable.as_str(), "")]).0, Some(0));

    let hint = sandbox.run(&["local", "import", &bundle.to_string_lossy()]);
    assert!(hint.code == 1 && hint.stderr.contains("toolcrib local add"), "{hint:#?}");
    sandbox.run(&["local", "add", &bundle.to_string_lossy()]).code(0);
    let (_, listed) = sandbox.run_json(&["local", "list"]);
    let (_, original) = sandbox.run_json(&["local", "list", "--tools", "tools"]);
    assert_eq!(listed["data"]["tools"][0]["content"], original["data"]["tools"][0]["content"]);
}

#[test]
fn an_entry_of_the_registry_has_the_hash_of_its_bundle() {
    let sandbox = keyed();
    let incomplete = |more: &[&str]| {
        let ran = sandbox.run(&[&["local", "export", "server.json", "--tools", "tools", "--out", "out"], more].concat());
        assert!(ran.code == 2 && ran.stderr.contains("export.option"), "{ran:#?}");
        ran.stderr
    };
    assert!(incomplete(&[]).contains("give --server-name"));
    assert!(incomplete(&["--server-name", "io.github.example/keyed"]).contains("give --package-url or --remote-url"));
    let name = ["--server-name", "io.github.example/keyed"];
    let package = "https://github.com/example/keyed/releases/download/v1/keyed.mcpb";
    let more = ["--package-url", package, "--remote-url", "https://tools.example.com/mcp"];
    let out = export(&sandbox, "server.json", &[&name[..], &more].concat());
    assert_eq!(files(&out), ["keyed-tool-1.0.0.mcpb", "server.json"]);
    let document = read(&out.join("server.json"));
    assert_eq!((&document["name"], &document["version"]), (&json!("io.github.example/keyed"), &json!("1.0.0")));
    assert!(document["$schema"].as_str().is_some_and(|schema| schema.ends_with("/server.schema.json")), "{document}");
    let sum = Command::new("sha256sum").arg(out.join("keyed-tool-1.0.0.mcpb")).output().expect("it runs");
    let sum = String::from_utf8_lossy(&sum.stdout).split(' ').next().expect("a sum").to_owned();
    let wanted = json!([{"registryType": "mcpb", "identifier": package, "version": "1.0.0", "fileSha256": sum, "transport": {"type": "stdio"}}]);
    assert_eq!(document["packages"], wanted);
    assert_eq!(document["remotes"], json!([{"type": "streamable-http", "url": "https://tools.example.com/mcp"}]));
    // The same bytes each time.
    let first = fs::read(out.join("keyed-tool-1.0.0.mcpb")).expect("a file");
    export(&sandbox, "mcpb", &[]);
    assert_eq!(fs::read(sandbox.path().join("out/mcpb/keyed-tool-1.0.0.mcpb")).expect("a file"), first);
}

#[test]
fn exported_erc8257_manifests_lint_clean() {
    let sandbox = with_tool("greeter", &python("greeter", json!({})), &[("main.py", &answering("'hello'"))]);
    let missing = sandbox.run(&["local", "export", "erc8257", "--tools", "tools"]);
    assert!(missing.code == 2 && missing.stderr.contains("give --origin"), "{missing:#?}");
    let creator = "0x52908400098527886e0f7030069857d2e4169ee7";
    let out = export(&sandbox, "erc8257", &["--origin", "https://tools.example.com/", "--creator", creator]);
    let folder = out.join(".well-known/ai-tool");
    let names = files(&folder);
    assert_eq!(names.len(), 1, "{names:?}");
    let path = folder.join(&names[0]);
    let manifest = read(&path);
    assert_eq!(manifest["endpoint"], "https://tools.example.com/tools/greeter/run");
    assert_eq!(manifest["creatorAddress"], creator);
    assert_eq!(manifest["inputs"]["type"], "object");
    sandbox.run(&["lint", &path.to_string_lossy()]).code(0);
}

#[test]
fn a_fragment_for_an_agent_names_endpoint_and_capabilities() {
    let sandbox = with_tool("greeter", &python("greeter", json!({})), &[("main.py", &answering("'hello'"))]);
    let missing = sandbox.run(&["local", "export", "agt", "--tools", "tools"]);
    assert!(missing.code == 2 && missing.stderr.contains("give --remote-url"), "{missing:#?}");
    let out = export(&sandbox, "agt", &["--remote-url", "https://tools.example.com/mcp"]);
    let fragment = read(&out.join("agent-fragment.json"));
    let protocol = json!([{"id": "mcp", "version": "2026-07-28", "endpoint": "https://tools.example.com/mcp"}]);
    assert_eq!(fragment["protocols"], protocol);
    assert_eq!(fragment["capabilities"][0]["id"], "greeter-run", "{fragment}");
    assert_eq!(fragment["capabilities"][0]["input"], json!({"type": "object"}));
    let plain = sandbox.run(&["local", "export", "agt", "--tools", "tools", "--remote-url", "http://tools.example.com/mcp"]);
    assert!(plain.code == 0 && plain.stderr.contains("agent.endpoint_plaintext"), "{plain:#?}");
}

/// In strict mode a model must send every parameter, and sends null for an absent one.
#[test]
fn arguments_of_strict_mode_are_taken() {
    let parameters = json!({
        "type": "object",
        "properties": {"place": {"type": "string"}, "units": {"type": "string", "enum": ["c", "f"]}},
        "required": ["place"],
        "additionalProperties": false,
    });
    let functions = json!([{"name": "run", "description": "Runs.", "parameters": parameters}]);
    let sandbox =
        with_tool("weather", &python("weather", json!({ "functions": functions })), &[("main.py", &answering("call['args']"))]);
    let out = export(&sandbox, "openai", &["--strict"]);
    let strict = read(&out.join("openai.json"));
    assert_eq!(strict[0]["strict"], true, "{strict}");
    assert_eq!(strict[0]["parameters"]["required"], json!(["place", "units"]), "{strict}");

    let arguments = json!({"place": "Bern", "units": null});
    let run = |arguments: &Value| {
        let arguments = arguments.to_string();
        sandbox.run(&["local", "call", "weather", "run", "--tools", "tools", "--yes", "--args", &arguments])
    };
    let answered: Value = serde_json::from_str(&run(&arguments).code(0).stdout).expect("JSON");
    assert_eq!(answered, json!({"place": "Bern"}), "the program does not see it");
    // Null is not a valid place, and an unknown parameter is refused.
    for wrong in [json!({"place": null, "units": "c"}), json!({"place": "Bern", "unit": null})] {
        let refused = run(&wrong);
        assert!(refused.code == 1 && refused.stderr.contains("host.arguments_invalid"), "{refused:#?}");
    }

    // Clients that use strict mode for MCP tools send the same.
    super::support::allow_all(&sandbox, &["weather"]);
    let arguments_of_mcp = ["mcp", "--local-only", "--tools", "tools", "--policy", super::support::POLICY];
    let mut client = Client::start(&sandbox, &arguments_of_mcp, &json!({}));
    let called = client.call("weather_run", &arguments);
    assert_eq!(called["structuredContent"], json!({"place": "Bern"}), "{called}");
    let refused = client.call("weather_run", &json!({"place": null, "units": null}));
    assert!(Client::text(&refused).1.contains("mcp.arguments"), "{refused}");
}
