//! The meta tools that replace many functions: search, describe and call, for clients of both eras.

use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};
use tempfile::TempDir;
use toolcrib_host::bridge::{Bridge, LocalTools, MAX_LISTED};
use toolcrib_host::local::audit::{Options, SyncPolicy};
use toolcrib_host::local::secrets::SecretStore;
use toolcrib_host::local::{Host, HostSettings};
use toolcrib_mcp::Server;

use crate::local_support::private_folder;
use toolcrib_testkit::local_tools::settings;
use toolcrib_testkit::mcp_clients::{self, Connected, Does, ERAS, Person, call, code, data};

/// Names of the meta tools, in the order of the list.
const META: [&str; 3] = ["call_function", "describe_function", "search_functions"];
const CALL: &str = META[0];
const DESCRIBE: &str = META[1];
const SEARCH: &str = META[2];

/// Answers each call with its arguments.
const PROGRAM: &str = "import json, sys\nfor line in sys.stdin:\n    call = json.loads(line)\n    if 'id' in call:\n        \
    print(json.dumps({'id': call['id'], 'result': call['args']}), flush=True)\n";

/// A tool whose functions are named `name0`, `name1` and so on.
fn write_tool(root: &Path, id: &str, name: &str, count: usize, more: Json) {
    let functions: Vec<_> = (0..count)
        .map(|n| {
            let parameters = json!({"type": "object", "properties": {"place": {"type": "string"}}});
            json!({"name": format!("{name}{n}"), "description": format!("Forecast number {n}."), "parameters": parameters})
        })
        .collect();
    let mut manifest = json!({
        "id": id, "name": "Test", "description": "For tests.", "version": "1.0.0", "functions": functions,
        "runtime": {"kind": "exec", "command": ["python3", "main.py"]},
    });
    for (key, value) in more.as_object().unwrap() {
        manifest[key] = value.clone();
    }
    fs::create_dir_all(root.join(id)).unwrap();
    fs::write(root.join(id).join("manifest.json"), manifest.to_string()).unwrap();
    fs::write(root.join(id).join("main.py"), PROGRAM).unwrap();
}

/// More functions than are listed, and two hidden tools: `secretive` lacks its credential, `disabled` is denied by a rule.
struct Many {
    host: std::sync::Arc<Host>,
    server: Server,
    _folder: TempDir,
}

fn many(shown: usize, with_credential: bool) -> Many {
    let folder = private_folder();
    let root = folder.path().join("tools");
    write_tool(&root, "weather", "forecast", shown, json!({}));
    write_tool(&root, "disabled", "forbidden", 1, json!({}));
    let credentials = json!([{"name": "api_key", "label": "Key", "required": true}]);
    write_tool(&root, "secretive", "hidden", 1, json!({ "credentials": credentials }));
    let options = Options::default().with_sync(SyncPolicy::Never);
    let settings = settings(vec![root], &folder.path().join("state"), &["weather", "secretive", "disabled"], options);
    let variable = SecretStore::variable_name("secretive", "api_key").unwrap();
    let variables = with_credential.then(|| (variable, "0123456789".to_owned()));
    let settings = HostSettings { secrets: settings.secrets.with_environment(variables), ..settings };
    let host = toolcrib_testkit::local_tools::open(settings);
    assert!(host.tools().problems().is_empty(), "{:?}", host.tools().problems());
    host.disable(&host.tools().tools()["disabled"], "cli").unwrap();
    let bridge = Bridge::local_only(LocalTools::new(std::sync::Arc::clone(&host)));
    Many { host, server: Server::new(std::sync::Arc::new(bridge)).unwrap(), _folder: folder }
}

async fn names(client: &Connected) -> Vec<String> {
    client.list_all_tools().await.unwrap().into_iter().map(|tool| tool.name.into_owned()).collect()
}

fn message(result: &Result<rmcp::model::CallToolResult, rmcp::ServiceError>) -> String {
    result.as_ref().unwrap().content[0].as_text().unwrap().text.clone()
}

/// The names that a search finds.
async fn found(client: &Connected, query: &str) -> Vec<String> {
    let found = data(call(client, SEARCH, json!({ "query": query })).await);
    found["functions"].as_array().unwrap().iter().map(|function| function["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_tools_do_not_exist_for_models() {
    for era in ERAS {
        let many = many(MAX_LISTED + 1, false);
        let client = mcp_clients::connect(&many.server, era, Person::new(Does::IsNotAsked)).await;
        assert_eq!(names(&client).await, META, "{era:?}");

        assert_eq!(found(&client, "forbidden").await, Vec::<String>::new());
        assert_eq!(found(&client, "hidden").await, Vec::<String>::new());
        let described = data(call(&client, DESCRIBE, json!({"name": "weather_forecast40"})).await);
        assert_eq!(described["description"], "Forecast number 40.");
        assert_eq!(described["parameters"]["properties"]["place"]["type"], "string");
        let place = json!({"place": "Bern"});
        let called = data(call(&client, CALL, json!({"name": "weather_forecast40", "arguments": place})).await);
        assert_eq!(called, place);

        for hidden in ["disabled_forbidden0", "secretive_hidden0"] {
            let absent = format!("{}1", &hidden[..hidden.len() - 1]);
            for (tool, arguments) in [(DESCRIBE, json!({})), (CALL, json!({"arguments": {}}))] {
                let asked = |name: &str| {
                    let mut arguments = arguments.clone();
                    arguments["name"] = name.into();
                    arguments
                };
                let result = call(&client, tool, asked(hidden)).await;
                let missing = call(&client, tool, asked(&absent)).await;
                assert_eq!((code(&result), code(&missing)), ("host.tool_unknown".to_owned(), "host.tool_unknown".to_owned()));
                // The same message as for a missing function, and no suggestion of a hidden one.
                let (result, missing) = (message(&result), message(&missing));
                assert_eq!(result.replace(hidden, "X"), missing.replace(&absent, "X"));
                assert!(!missing.contains(&format!("is {hidden}")) && !missing.contains("meant"), "{missing}");
            }
        }
        let typed = call(&client, DESCRIBE, json!({"name": "weather_forecst40"})).await;
        assert!(message(&typed).contains("is weather_forecast40 meant?"), "{typed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_hidden_does_not_count_and_what_is_shown_does() {
    for era in ERAS {
        // Two more functions are hidden.
        let few = many(MAX_LISTED, false);
        let client = mcp_clients::connect(&few.server, era, Person::new(Does::IsNotAsked)).await;
        assert_eq!(names(&client).await.len(), MAX_LISTED);
        // With its credential the tool is listed, and can be called in both ways.
        let more = many(MAX_LISTED, true);
        let client = mcp_clients::connect(&more.server, era, Person::new(Does::IsNotAsked)).await;
        assert_eq!(names(&client).await, META);
        assert_eq!(found(&client, "hidden").await, ["secretive_hidden0"]);
        assert_eq!(data(call(&client, DESCRIBE, json!({"name": "secretive_hidden0"})).await)["name"], "secretive_hidden0");
        let called = data(call(&client, CALL, json!({"name": "secretive_hidden0", "arguments": {"place": "x"}})).await);
        assert_eq!(called, json!({"place": "x"}));
        // An enabled tool is listed again.
        assert!(more.host.enable("disabled", "cli").unwrap());
        assert_eq!(found(&client, "forbidden").await, ["disabled_forbidden0"]);
        // An empty search returns some functions of each tool, but not all.
        assert_eq!(found(&client, "").await.len(), 20);
        // Arguments are validated as in a direct call.
        let wrong = call(&client, CALL, json!({"name": "weather_forecast1", "arguments": {"place": 1}})).await;
        assert_eq!(code(&wrong), "host.arguments_invalid");
    }
}
