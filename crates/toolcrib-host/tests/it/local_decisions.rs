//! Audit log entries and prompts for every decision and call.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use tempfile::TempDir;
use toolcrib_core::codes;
use toolcrib_host::bridge::{Bridge, LocalTools};
use toolcrib_host::local::audit::{Details, Entry, Event, Filter, Options};
use toolcrib_host::local::permissions::{Decision, Lifetime};
use toolcrib_host::local::{Approval, ApprovalPrompt, CallError, CallRequest, CallResult, Events, Host, HostSettings};
use toolcrib_mcp::Server;

use crate::local_support::{content, private_folder};
use toolcrib_testkit::local_tools::{open, settings};
use toolcrib_testkit::mcp_clients::{self, Does, ERAS, Person};

const UNSANDBOXED: &str = "UNSANDBOXED: all files, network and processes of the user are reachable";

/// Answers each call with its arguments.
const PROGRAM: &str = "import json, sys\nfor line in sys.stdin:\n    call = json.loads(line)\n    if 'id' in call:\n        \
    print(json.dumps({'id': call['id'], 'result': call['args']}), flush=True)\n";

/// Tools that run without a sandbox: `plain`, `keyed` without its credential, and `absent`, whose program is not installed.
struct Setup {
    host: Arc<Host>,
    folder: TempDir,
}

fn write(root: &Path, id: &str, more: Json) {
    let mut manifest = json!({
        "id": id, "name": "Test", "description": "For tests.", "version": "1.0.0",
        "functions": [{"name": "run", "description": "Runs.", "parameters": {"type": "object"}}],
        "runtime": {"kind": "exec", "command": ["python3", "main.py"]},
    });
    for (key, value) in more.as_object().unwrap() {
        manifest[key] = value.clone();
    }
    fs::create_dir_all(root.join(id)).unwrap();
    fs::write(root.join(id).join("manifest.json"), manifest.to_string()).unwrap();
    fs::write(root.join(id).join("main.py"), PROGRAM).unwrap();
}

fn place(allowed: &[&str]) -> Setup {
    let folder = private_folder();
    let root = folder.path().join("tools");
    write(&root, "plain", json!({}));
    write(&root, "keyed", json!({"credentials": [{"name": "api_key", "label": "Key", "required": true}]}));
    write(&root, "absent", json!({"runtime": {"kind": "exec", "command": ["no-such-program-0451"]}}));
    let settings = settings(vec![root], &folder.path().join("state"), allowed, Options::default());
    let host = open(HostSettings { ..settings });
    assert!(host.tools().problems().is_empty(), "{:?}", host.tools().problems());
    Setup { host, folder }
}

impl Setup {
    async fn call(&self, tool: &str, arguments: Json, approval: Option<Approval>) -> Result<CallResult, CallError> {
        let request = CallRequest {
            tool,
            function: "run",
            arguments,
            caller: "mcp",
            interactive: true,
            approval,
            limit: None,
            events: Events::default(),
        };
        self.host.call(request).await
    }

    async fn prompt(&self, tool: &str, arguments: Json) -> ApprovalPrompt {
        match self.call(tool, arguments, None).await {
            Err(CallError::NeedsApproval(prompt)) => *prompt,
            other => panic!("{other:?}"),
        }
    }

    fn log(&self, event: Event) -> Vec<Entry> {
        self.host.audit().read(&Filter { events: vec![event], ..Filter::default() }, 100).unwrap().entries
    }

    /// The last decision.
    fn decision(&self) -> Details {
        self.log(Event::Decision).pop().expect("a decision").details
    }
}

fn once(prompt: ApprovalPrompt) -> Option<Approval> {
    Some(Approval { lifetime: Lifetime::Once, bound: prompt.bound })
}

#[track_caller]
fn check(details: &Details, decision: &str, reason: &str, exit: Option<&str>) {
    let found = (details.decision.as_deref(), details.reason.as_deref(), details.exit.as_deref());
    assert_eq!(found, (Some(decision), Some(reason), exit));
    assert!(details.sandbox.as_deref().is_some_and(|text| !text.is_empty()), "{details:?}");
}

/// A decision that is followed by an error is recorded with its code.
#[tokio::test(flavor = "multi_thread")]
async fn every_decision_is_recorded() {
    let place = place(&["keyed", "absent"]);
    let code = |result: Result<CallResult, CallError>| result.unwrap_err().code().id();

    // An approval for other arguments.
    let other = place.prompt("plain", json!({"a": 1})).await;
    assert_eq!(code(place.call("plain", json!({"a": 2}), once(other)).await), "host.declined");
    check(&place.decision(), "deny", "the tool or the arguments changed after the approval", None);
    // An approval for another content.
    let mut other = place.prompt("plain", json!({})).await;
    other.bound.content = content(7);
    assert_eq!(code(place.call("plain", json!({}), once(other)).await), "host.declined");
    assert_eq!(place.log(Event::Decision).len(), 2);
    check(&place.decision(), "deny", "the tool or the arguments changed after the approval", None);

    // A rule allows the call, but it cannot start.
    assert_eq!(code(place.call("keyed", json!({}), None).await), "host.credential_missing");
    check(&place.decision(), "allow", "allow_rule", Some("host.credential_missing"));
    assert_eq!(code(place.call("absent", json!({}), None).await), "host.runtime_unsupported");
    check(&place.decision(), "allow", "allow_rule", Some("host.runtime_unsupported"));
    assert_eq!(place.log(Event::Decision).len(), 4);
    assert!(place.log(Event::CallStarted).is_empty() && place.log(Event::CallFinished).is_empty());

    // A user allows the call, but it cannot start.
    let data = place.folder.path().join("state/data/plain");
    let approved = place.prompt("plain", json!({})).await;
    let _ = fs::remove_dir_all(&data);
    fs::write(&data, "not a folder").unwrap();
    let failed = place.call("plain", json!({}), once(approved)).await;
    assert_eq!(code(failed), codes::host::STATE.id());
    check(&place.decision(), "allow", "a person allowed the call", Some("host.state"));
    assert!(place.log(Event::CallStarted).is_empty() && place.log(Event::CallFinished).is_empty());

    // Unreadable rules allow nothing.
    fs::write(place.host.permissions().path(), "{").unwrap();
    let unreadable = code(place.call("plain", json!({}), None).await);
    assert!(unreadable.starts_with("permission."), "{unreadable}");
    check(&place.decision(), "deny", "the rules cannot be used", Some(unreadable));
}

/// Every line about a tool, not only those with the member.
#[tokio::test(flavor = "multi_thread")]
async fn every_line_about_a_tool_says_how_it_is_contained() {
    let place = place(&[]);
    let tools = place.host.tools();
    let plain = &tools.tools()["plain"];
    let approved = place.prompt("plain", json!({})).await;
    place.call("plain", json!({}), once(approved)).await.unwrap();
    let refused = place.prompt("plain", json!({})).await;
    assert!(refused.text().contains(UNSANDBOXED), "{}", refused.text());
    place.host.refused(&refused.bound, "mcp").unwrap();
    let mut gone = refused.bound;
    gone.content = content(7);
    place.host.refused(&gone, "mcp").unwrap();
    place.host.set_rule(plain, None, Decision::Deny, Vec::new(), "cli").unwrap();
    let denied = place.call("plain", json!({}), None).await.unwrap_err();
    assert_eq!(denied.code().id(), "host.declined");
    fs::write(place.folder.path().join("tools/plain/main.py"), "# changed").unwrap();
    assert!(place.host.reload());

    let lines = place.host.audit().read(&Filter { tool: Some("plain".to_owned()), ..Filter::default() }, 100).unwrap().entries;
    let events: Vec<_> = lines.iter().map(|line| line.event).collect();
    let expected = [
        Event::ToolLoaded,
        Event::Decision,
        Event::CallStarted,
        Event::CallFinished,
        Event::Decision,
        Event::Decision,
        Event::PermissionChanged,
        Event::Decision,
        Event::ToolChanged,
    ];
    assert_eq!(events, expected);
    for line in &lines {
        let sandbox = line.details.sandbox.as_deref().unwrap_or_default();
        let is_gone = line.details.content == Some(content(7));
        let expected = if is_gone { "not known: this version of the tool is not loaded" } else { UNSANDBOXED };
        assert!(sandbox.starts_with(expected), "{line:?}");
    }
}

/// In the list, in a search and in a description.
#[tokio::test(flavor = "multi_thread")]
async fn models_and_users_are_told_that_a_tool_is_not_sandboxed() {
    let place = place(&[]);
    let server = |host: &Arc<Host>| Server::new(Arc::new(Bridge::local_only(LocalTools::new(Arc::clone(host))))).unwrap();
    let root = place.folder.path().join("tools");
    for era in ERAS {
        let client = mcp_clients::connect(&server(&place.host), era, Person::new(Does::IsNotAsked)).await;
        let tools = client.list_all_tools().await.unwrap();
        let tool = tools.iter().find(|tool| tool.name == "plain_run").expect("a tool");
        assert_eq!(tool.title.as_deref(), Some("Test: run (UNSANDBOXED)"), "{era:?}");
        assert_eq!(tool.description.as_deref(), Some(format!("Runs.\n\n{UNSANDBOXED}.").as_str()), "{era:?}");
        // A program that cannot run needs no permission.
        let absent = tools.iter().find(|tool| tool.name == "absent_run").expect("a tool");
        assert_eq!(absent.title.as_deref(), Some("Test: run"), "{era:?}");
    }
    let functions: Vec<_> =
        (0..50).map(|n| json!({"name": format!("f{n}"), "description": "Many.", "parameters": {"type": "object"}})).collect();
    write(&root, "many", json!({ "functions": functions }));
    assert!(place.host.reload());
    for era in ERAS {
        let client = mcp_clients::connect(&server(&place.host), era, Person::new(Does::IsNotAsked)).await;
        for (tool, arguments) in [("search_functions", json!({"query": "f7"})), ("describe_function", json!({"name": "many_f7"}))]
        {
            let found = mcp_clients::data(mcp_clients::call(&client, tool, arguments).await);
            let row = if tool == "search_functions" { &found["functions"][0] } else { &found };
            assert_eq!((&row["name"], &row["sandbox"]), (&json!("many_f7"), &json!(UNSANDBOXED)), "{tool}: {found}");
        }
    }
}

/// A tool that was always allowed, and then changed.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_tool_asks_with_what_changed() {
    let place = place(&[]);
    let prompt = place.prompt("plain", json!({})).await;
    assert!(!prompt.text().contains("Changed:"), "{}", prompt.text());
    let always = Some(Approval { lifetime: Lifetime::Always, bound: prompt.bound });
    place.call("plain", json!({}), always).await.unwrap();
    let root = place.folder.path().join("tools");
    let rows = [
        (
            json!({"version": "1.1.0", "functions": [{"name": "run", "description": "Runs\u{202e} it.", "parameters": {"type": "object", "required": []}}]}),
            "Changed: version 1.0.0 is now 1.1.0; the description was \"Runs.\" and is \"Runs\\u{202e} it.\"; the parameters differ",
        ),
        (json!({"credentials": []}), "Changed: files that a model does not see differ, such as the handler"),
    ];
    for (more, expected) in rows {
        write(&root, "plain", more);
        assert!(place.host.reload());
        let text = place.prompt("plain", json!({})).await.text();
        assert!(text.contains("Asked because: the tool changed since it was approved as sha256:"), "{text}");
        assert!(text.lines().any(|line| line.starts_with(expected)), "{text}");
        assert!(!text.contains('\u{202e}'), "{text}");
    }
}
