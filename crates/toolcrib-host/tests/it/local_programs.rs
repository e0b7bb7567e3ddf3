//! Programs behind the host: time limits, backoff after crashes, kept processes, progress and log lines.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::ClientHandler;
use rmcp::model::{ClientConfig, ProgressNotificationParam};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, NotificationContext, RoleClient};
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tokio::sync::mpsc;
use toolcrib_host::bridge::{Bridge, LocalTools};
use toolcrib_host::local::audit::{Options, SyncPolicy};
use toolcrib_host::local::{CallError, CallRequest, CallResult, Event, Events, Host, HostSettings};
use toolcrib_mcp::Server;

use crate::local_support::private_folder;
use toolcrib_testkit::local_tools::{open, request, settings};
use toolcrib_testkit::mcp_clients::{Does, ERAS, Era, Person};

/// Answers each call with the value of an expression.
fn answering(expression: &str) -> String {
    format!(
        "import json, os, sys\nfor line in sys.stdin:\n    call = json.loads(line)\n    if 'id' in call:\n        \
         print(json.dumps({{'id': call['id'], 'result': {expression}}}), flush=True)\n"
    )
}

/// A host that allows the tool `thing`, whose program has no sandbox.
fn host(more: &Json, runtime: &Json, source: (&str, &str), limit: Duration) -> (Arc<Host>, TempDir) {
    let folder = private_folder();
    let root = folder.path().join("tools");
    write(&root, more, runtime, source);
    let options = Options::default().with_sync(SyncPolicy::Never);
    let settings = settings(vec![root], &folder.path().join("state"), &["thing"], options);
    let host = open(HostSettings { limit, ..settings });
    assert!(host.tools().problems().is_empty(), "{:?}", host.tools().problems());
    (host, folder)
}

fn write(root: &Path, more: &Json, runtime: &Json, (file, source): (&str, &str)) {
    let mut function = json!({"name": "run", "description": "Runs.", "parameters": {"type": "object"}});
    for (key, value) in more.as_object().unwrap() {
        function[key] = value.clone();
    }
    let manifest = json!({
        "id": "thing", "name": "Thing", "description": "For tests.", "version": "1.0.0", "functions": [function], "runtime": runtime,
    });
    let folder = root.join("thing");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
    fs::write(folder.join(file), source).unwrap();
}

fn exec(more: Json) -> Json {
    let mut runtime = json!({"kind": "exec", "command": ["python3", "main.py"]});
    for (key, value) in more.as_object().unwrap() {
        runtime[key] = value.clone();
    }
    runtime
}

async fn call(host: &Host, limit: Option<Duration>) -> Result<CallResult, CallError> {
    host.call(CallRequest { limit, ..request("thing", json!({})) }).await
}

/// The smallest limit of function, tool, caller and host applies, and the program is told.
#[tokio::test(flavor = "multi_thread")]
async fn the_smallest_time_limit_counts() {
    // Limits of function, tool, caller and host, and the smallest of them, in seconds.
    let rows = [
        (None, None, None, 100, 30),
        (None, None, None, 20, 20),
        (None, None, Some(40), 100, 30),
        (None, None, Some(10), 100, 10),
        (Some(50), None, None, 100, 50),
        (None, Some(60), None, 100, 60),
        (Some(50), Some(40), Some(45), 100, 40),
        (Some(40), Some(50), Some(45), 100, 40),
        (Some(80), Some(70), Some(60), 55, 55),
    ];
    for row in rows {
        let (function, tool, caller, global, expected) = row;
        let stated = |seconds: Option<u64>| seconds.map_or(json!({}), |seconds| json!({"timeoutMs": seconds * 1_000}));
        let source = answering("call['context']['deadlineMs']");
        let (host, _folder) = host(&stated(function), &exec(stated(tool)), ("main.py", &source), Duration::from_secs(global));
        let told = call(&host, caller.map(Duration::from_secs)).await.unwrap().value;
        assert_eq!(told, json!(expected * 1_000), "{row:?}");
    }
}

/// The first crashes cause no pause. Pauses grow, so that one of the next starts is refused on any machine.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_crashes_again_and_again_is_paused() {
    let (host, folder) = host(
        &json!({}),
        &exec(json!({})),
        ("main.py", "import os\nopen(os.environ['HOME'] + '/starts', 'a').write('x')\nos._exit(3)\n"),
        Duration::from_secs(60),
    );
    let mut codes = Vec::new();
    while codes.last() != Some(&"host.backing_off") && codes.len() < 14 {
        let error = call(&host, None).await.unwrap_err();
        codes.push(error.code().id());
        if let CallError::Run(error) = &error {
            assert!(error.retryable || error.code.id() == "host.start_failed", "{error}");
        }
    }
    let (paused, crashed) = codes.split_last().unwrap();
    assert_eq!(*paused, "host.backing_off", "{codes:?}");
    assert!(crashed.len() >= 3 && crashed.iter().all(|code| *code == "host.start_failed"), "{codes:?}");
    let starts = fs::read_to_string(folder.path().join("state/data/thing/starts")).unwrap();
    assert_eq!(starts.len(), crashed.len(), "the call that was refused started nothing");
}

fn runs(process: u64) -> bool {
    // A zombie has no command line.
    fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|line| !line.is_empty())
}

/// A kept process handles the next call, and ends if there is none.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_process_is_kept_for_the_next_call_and_ends_when_there_is_none() {
    let source = answering("os.getpid()");
    let id = |called: Result<CallResult, CallError>| called.unwrap().value.as_u64().unwrap();
    let (cold, _folder) = host(&json!({}), &exec(json!({"keepAlive": 0})), ("main.py", &source), Duration::from_secs(60));
    let first = id(call(&cold, None).await);
    assert!(!runs(first), "it ended with its call");
    assert_ne!(id(call(&cold, None).await), first);

    let (warm, _folder) = host(&json!({}), &exec(json!({"keepAlive": 60})), ("main.py", &source), Duration::from_secs(60));
    let first = id(call(&warm, None).await);
    assert_eq!((id(call(&warm, None).await), id(call(&warm, None).await)), (first, first));
    warm.shutdown().await;
    assert!(!runs(first));

    let (brief, _folder) = host(&json!({}), &exec(json!({"keepAlive": 1})), ("main.py", &source), Duration::from_secs(60));
    let first = id(call(&brief, None).await);
    let mut waited = 0;
    while runs(first) {
        assert!(waited < 600, "an idle process stays");
        tokio::time::sleep(Duration::from_millis(100)).await;
        waited += 1;
    }
    assert_ne!(id(call(&brief, None).await), first);
}

/// Progress, total and message in a notification.
type Progress = (f64, Option<f64>, Option<String>);

/// A client that records the progress of its calls.
#[derive(Clone)]
struct Listening {
    person: Person,
    heard: Arc<Mutex<Vec<Progress>>>,
}

impl ClientHandler for Listening {
    fn get_info(&self) -> ClientConfig {
        self.person.get_info()
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.heard.lock().unwrap().push((params.progress, params.total, params.message));
    }
}

const PYTHON: &str = "import json, sys
for line in sys.stdin:
    call = json.loads(line)
    if 'id' not in call: continue
    say = lambda more: print(json.dumps({'id': call['id'], **more}), flush=True)
    say({'progress': 1, 'total': 2, 'message': 'half'})
    say({'log': 'a line'})
    print('a print', flush=True)
    say({'progress': 2, 'total': 2})
    say({'result': 'done'})
";

const SCRIPT: &str = "export async function run(args, context) {
    context.progress(1, 2, 'half');
    context.log('a line');
    context.progress(2, 2);
    return 'done';
}
";

/// From programs of both kinds to callers: progress to MCP clients that request it, progress and log lines to callers in this process.
#[tokio::test(flavor = "multi_thread")]
async fn progress_and_log_lines_arrive() {
    // Output of a program is a log line. Handlers in Node print to stderr.
    let programs = [
        ("exec", exec(json!({})), ("main.py", PYTHON), vec!["a line", "a print"]),
        ("node", json!({"kind": "node"}), ("index.mjs", SCRIPT), vec!["a line"]),
    ];
    for (kind, runtime, source, lines) in programs {
        let (host, _folder) = host(&json!({}), &runtime, source, Duration::from_secs(60));
        let (sender, mut receiver) = mpsc::channel(100);
        let done = host.call(CallRequest { events: Events::new(sender), ..request("thing", json!({})) }).await.unwrap();
        assert_eq!(done.value, json!("done"), "{kind}");
        let (mut progress, mut logs) = (Vec::new(), Vec::new());
        while let Ok(event) = receiver.try_recv() {
            match event {
                Event::Progress { progress: so_far, total, message } => progress.push((so_far, total, message)),
                Event::Log(line) => logs.push(line),
            }
        }
        let expected = [(1.0, Some(2.0), Some("half".to_owned())), (2.0, Some(2.0), None)];
        assert_eq!(progress, expected, "{kind}");
        assert_eq!(logs.iter().map(|line| line.trim()).collect::<Vec<_>>(), lines, "{kind}");

        let server = Server::new(Arc::new(Bridge::local_only(LocalTools::new(Arc::clone(&host))))).unwrap();
        for era in ERAS {
            let listening = Listening { person: Person::new(Does::IsNotAsked), heard: Arc::default() };
            let (near, far) = tokio::io::duplex(1 << 20);
            let (read, write) = tokio::io::split(far);
            let serving = server.clone();
            tokio::spawn(async move { toolcrib_mcp::serve(&serving, read, write).await });
            let lifecycle = match era {
                Era::Legacy => ClientLifecycleMode::Initialize,
                Era::Modern => {
                    ClientLifecycleMode::Discover { preferred_versions: vec![rmcp::model::ProtocolVersion::V_2026_07_28] }
                }
            };
            let client = listening.clone().serve_with_lifecycle(near, lifecycle).await.unwrap();
            let called = client.call_tool(toolcrib_testkit::mcp_clients::params("thing_run", &json!({}))).await.unwrap();
            assert_ne!(called.is_error, Some(true), "{called:?}");
            // Each notification is handled in a separate task.
            for _ in 0..200 {
                if listening.heard.lock().unwrap().len() >= expected.len() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
            let mut heard = listening.heard.lock().unwrap().clone();
            heard.sort_by(|a, b| a.0.total_cmp(&b.0));
            assert_eq!(heard, expected, "{kind} {era:?}");
        }
    }
}
