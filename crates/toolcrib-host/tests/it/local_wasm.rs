//! WebAssembly components as local tools: their resources, and blocked attacks.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use toolcrib_host::local::{CallError, Event};

use crate::local_support::private_folder;
use crate::one_tool::{OneTool, TOOL, manifest};

const TOKEN: &str = "a-token-of-the-tests-0123456789";

/// The component compiled from `tests/guests/guest.rs`.
fn guest() -> Option<&'static [u8]> {
    static GUEST: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();
    let guest = GUEST.get_or_init(|| {
        let output = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("guest-{}.wasm", std::process::id()));
        let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        command.current_dir(env!("CARGO_MANIFEST_DIR")).args([
            "--edition",
            "2024",
            "--target",
            "wasm32-wasip2",
            "-C",
            "opt-level=s",
        ]);
        command.args(["-C", "strip=symbols", "-C", "panic=abort", "tests/guests/guest.rs", "-o"]).arg(&output);
        let built = command.output().map_err(|error| error.to_string())?;
        if !built.status.success() {
            return Err(String::from_utf8_lossy(&built.stderr).lines().take(3).collect::<Vec<_>>().join(" "));
        }
        let bytes = fs::read(&output).unwrap();
        fs::remove_file(&output).unwrap();
        Ok(bytes)
    });
    match guest {
        Ok(bytes) => Some(bytes),
        Err(reason) => {
            toolcrib_testkit::skip("wasm32-wasip2", reason);
            None
        }
    }
}

fn tool(more: Json) -> Option<OneTool> {
    let mut block = json!({"runtime": {"kind": "wasm", "entry": "guest.wasm"}});
    for (key, value) in more.as_object().unwrap() {
        block[key] = value.clone();
    }
    let tool = OneTool::new(&manifest(block), &[("guest.wasm", guest()?)], &[("token", TOKEN)], None);
    // The compiler is slow without optimisation.
    Some(tool.limit(Duration::from_secs(60)))
}

async fn succeeds(tool: &OneTool, arguments: Json) -> Json {
    tool.call(arguments.clone()).await.unwrap_or_else(|error| panic!("{arguments}: {error}")).value
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_answers_like_a_program() {
    let credentials = json!([{"name": "token", "label": "Token", "required": true, "env": "TOKEN"}]);
    let Some(tool) = tool(json!({ "credentials": credentials })) else { return };
    let (result, events) = tool.call_and_listen(json!({"do": "greet"})).await;
    let result = result.unwrap();
    assert_eq!(result.value, json!({"ok": "hello"}));
    assert!(result.sandbox.starts_with("sandboxed by WebAssembly; contained: files, "), "{}", result.sandbox);
    assert!(!result.sandbox.contains("UNSANDBOXED") && result.sandbox.contains("OPEN: file size"), "{}", result.sandbox);
    let wanted = [
        Event::Log("a line of the log with [redacted]".to_owned()),
        Event::Progress { progress: 1.0, total: Some(2.0), message: Some("half".to_owned()) },
    ];
    assert_eq!(events, wanted);
    assert_eq!(succeeds(&tool, json!({"do": "environment"})).await, json!({"ok": "0 0"}), "no variables, no arguments");
    // Ten at once, each in its own instance; four run at a time.
    let calls = futures_of(10, |_| tool.call(json!({"do": "greet"}))).await;
    assert!(calls.into_iter().all(|result| result.unwrap().value == json!({"ok": "hello"})));
}

/// The outputs of concurrent futures.
async fn futures_of<F: Future>(count: usize, make: impl Fn(usize) -> F) -> Vec<F::Output> {
    let mut running: Vec<_> = (0..count).map(|number| (Box::pin(make(number)), None)).collect();
    std::future::poll_fn(|context| {
        for (future, output) in running.iter_mut().filter(|(_, output)| output.is_none()) {
            if let std::task::Poll::Ready(value) = future.as_mut().poll(context) {
                *output = Some(value);
            }
        }
        if running.iter().all(|(_, output)| output.is_some()) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    running.into_iter().map(|(_, output)| output.unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_sees_declared_folders_and_nothing_else() {
    let outside = private_folder();
    let (readable, writable) = (outside.path().join("readable"), outside.path().join("writable"));
    for folder in [&readable, &writable] {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("file"), "inside").unwrap();
    }
    fs::write(outside.path().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), writable.join("link")).unwrap();
    let Some(tool) = tool(json!({"sandbox": {"read": [readable], "write": [writable]}})) else { return };
    let data = tool.host.data_folder(TOOL).unwrap();
    let path = |path: PathBuf| path.to_str().unwrap().to_owned();
    let ok = |text: &str| json!({ "ok": text });

    assert_eq!(succeeds(&tool, json!({"do": "read", "path": path(readable.join("file"))})).await, ok("inside"));
    for file in [writable.join("new"), data.join("new")] {
        assert_eq!(succeeds(&tool, json!({"do": "write", "path": path(file.clone())})).await, ok("written"));
        assert_eq!(fs::read_to_string(file).unwrap(), "written");
    }
    let attempts = [
        json!({"do": "read", "path": path(outside.path().join("secret"))}),
        json!({"do": "read", "path": path(readable.join("../secret"))}),
        json!({"do": "read", "path": path(writable.join("link"))}),
        json!({"do": "read", "path": "/etc/passwd"}),
        json!({"do": "read", "path": path(tool.tool().folder().join("manifest.json"))}),
        json!({"do": "write", "path": path(readable.join("file"))}),
        json!({"do": "write", "path": path(readable.join("new"))}),
        json!({"do": "write", "path": path(outside.path().join("secret"))}),
        json!({"do": "write", "path": path(writable.join("link"))}),
        json!({"do": "write", "path": path(writable.join("../secret"))}),
        json!({"do": "link", "path": path(readable.join("file")), "to": path(writable.join("taken"))}),
    ];
    for attempt in attempts {
        let value = succeeds(&tool, attempt.clone()).await;
        assert!(value.get("failed").is_some(), "{attempt}: {value}");
    }
    assert_eq!(fs::read_to_string(outside.path().join("secret")).unwrap(), "secret");
    assert_eq!(fs::read_to_string(readable.join("file")).unwrap(), "inside");
    assert!(!readable.join("new").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_has_no_network_and_starts_nothing() {
    let Some(tool) = tool(json!({})) else { return };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    for attempt in [
        json!({"do": "connect", "path": address}),
        json!({"do": "connect", "path": "1.1.1.1:443"}),
        json!({"do": "listen"}),
        json!({"do": "datagram"}),
        json!({"do": "resolve"}),
        json!({"do": "start"}),
    ] {
        let value = succeeds(&tool, attempt.clone()).await;
        assert!(value.get("failed").is_some(), "{attempt}: {value}");
    }
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "nothing connected");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_hangs_grows_or_floods_ends_with_its_call() {
    let Some(tool) = tool(json!({"sandbox": {"memoryMiB": 64}})) else { return };
    assert_eq!(succeeds(&tool, json!({"do": "greet"})).await, json!({"ok": "hello"}), "compiled from here on");
    assert_eq!(succeeds(&tool, json!({"do": "log"})).await, json!({"ok": "quiet"}), "a long log does no harm");
    let began = Instant::now();
    assert_eq!(succeeds(&tool, json!({"do": "after"})).await, json!({"ok": "early"}), "what follows is not waited for");
    toolcrib_testkit::assert_not_hung(began, "a call whose component goes on");
    let tool = tool.limit(Duration::from_millis(1_000));
    for task in ["loop", "sleep"] {
        let began = Instant::now();
        let result = tool.call(json!({ "do": task })).await;
        assert_eq!(OneTool::code(&result), "host.timeout", "{task}");
        toolcrib_testkit::assert_not_hung(began, task);
    }
    let tool = tool.limit(Duration::from_secs(60));
    for (task, code, text) in [
        ("allocate", "host.process_ended", "more than 64 MiB of memory"),
        ("flood", "host.result_too_large", "1048576 bytes"),
        ("lines", "host.protocol", "10000 lines"),
        ("recurse", "host.process_ended", "wasm trap"),
        ("panic", "host.process_ended", "on purpose"),
        ("exit", "host.process_ended", "exit status"),
        ("nothing", "host.process_ended", "it returned"),
    ] {
        let result = tool.call(json!({ "do": task })).await;
        assert_eq!(OneTool::code(&result), code, "{task}: {result:?}");
        assert!(matches!(&result, Err(CallError::Run(error)) if error.message.contains(text)), "{task}: {result:?}");
    }
    // Dropping the future ends the component, which would keep this runtime busy otherwise.
    let call = tool.call(json!({"do": "loop"}));
    assert!(tokio::time::timeout(Duration::from_millis(300), call).await.is_err());
    assert_eq!(succeeds(&tool, json!({"do": "greet"})).await, json!({"ok": "hello"}), "the tool still works");
}

#[tokio::test]
async fn a_loop_is_ended_on_a_runtime_of_one_thread() {
    let Some(tool) = tool(json!({})) else { return };
    assert_eq!(succeeds(&tool, json!({"do": "greet"})).await, json!({"ok": "hello"}));
    let tool = tool.limit(Duration::from_millis(500));
    let began = Instant::now();
    assert_eq!(OneTool::code(&tool.call(json!({"do": "loop"})).await), "host.timeout");
    toolcrib_testkit::assert_not_hung(began, "a loop");
}

#[tokio::test]
async fn what_is_no_component_or_wants_more_is_refused() {
    let module = b"\0asm\x01\0\0\0";
    for bytes in [&b"no component"[..], &module[..], &b""[..]] {
        let block = json!({"runtime": {"kind": "wasm", "entry": "guest.wasm"}});
        let tool = OneTool::new(&manifest(block), &[("guest.wasm", bytes)], &[], None);
        let result = tool.call(json!({})).await;
        assert_eq!(OneTool::code(&result), "host.start_failed", "{result:?}");
    }
    let outside = private_folder();
    let file = outside.path().join("file");
    fs::write(&file, "x").unwrap();
    for (sandbox, text) in
        [(json!({"network": [443]}), "network"), (json!({"network": "any"}), "network"), (json!({"read": [file]}), "folder")]
    {
        let block = json!({"runtime": {"kind": "wasm", "entry": "guest.wasm"}, "sandbox": sandbox});
        let tool = OneTool::new(&manifest(block), &[("guest.wasm", b"")], &[], None);
        let result = tool.call(json!({})).await;
        assert_eq!(OneTool::code(&result), "host.runtime_unsupported");
        let error = tool.host.check_runtime(&tool.tool()).unwrap_err();
        assert!(error.message.contains(text), "{}", error.message);
    }
}
