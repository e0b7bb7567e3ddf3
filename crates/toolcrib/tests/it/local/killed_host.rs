//! Processes that are killed at random times: no process survives, and no file is partially written.

use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::support::{Numbers, POLICY, allow_all, assert_gone, audited, marked, marker, random, until};
use super::{Client, call, python, with_tool};
use crate::Sandbox;

/// How often a host is killed.
const ROUNDS: usize = 30;

/// Concurrent calls.
const CALLS: usize = 6;

/// The latest time at which a host is killed. Programs have started by then, and some calls have ended.
const LATEST_MS: u64 = 700;

/// How often a process that stores a secret is killed.
const STORES: u64 = 20;

const KEY: &str = "sk-of-the-busy-tool-0123456789";

/// Each call starts a process that leaves its parent and session, and answers after a while.
const BUSY: &str = "
import json, os, sys, time
def leave_behind():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(300)
        os._exit(0)
    os.wait()
for line in sys.stdin:
    call = json.loads(line)
    if 'id' in call:
        leave_behind()
        time.sleep(call['args'].get('ms', 0) / 1000)
        result = {'call': call['context']['callId'], 'length': len(call['credentials']['api_key'])}
        print(json.dumps({'id': call['id'], 'result': result}), flush=True)
";

fn busy(marker: &str) -> Sandbox {
    let manifest = python(
        "busy",
        json!({
            "credentials": [{"name": "api_key", "label": "Key", "required": true}],
            "runtime": {"kind": "exec", "command": ["python3", "-I", "-S", "main.py", marker], "keepAlive": 60, "maxConcurrent": 4},
        }),
    );
    let sandbox = with_tool("busy", &manifest, &[("main.py", BUSY)]);
    allow_all(&sandbox, &["busy"]);
    sandbox.run_with_stdin(&["secret", "set", "busy", "api_key", "--tools", "tools"], KEY.as_bytes()).code(0);
    sandbox
}

/// Starts a host with running calls, kills it, and returns the ids of the answered calls.
fn killed(sandbox: &Sandbox, numbers: &mut Numbers, more: &[&str]) -> Vec<String> {
    let arguments = ["mcp", "--local-only", "--tools", "tools", "--policy", POLICY];
    let mut client = Client::start(sandbox, &[&arguments, more].concat(), &json!({}));
    for _ in 0..CALLS {
        client.begin("busy_run", &json!({ "ms": numbers.below(200) }));
    }
    let host = Pid::from_raw(client.id().cast_signed()).expect("a process");
    let moment = Duration::from_millis(numbers.below(LATEST_MS));
    let killer = std::thread::spawn(move || {
        std::thread::sleep(moment);
        // Not reaped before this thread has ended, so that its pid is not reused.
        kill_process(host, Signal::KILL).expect("it runs");
    });
    let mut answered = Vec::new();
    while let Some(message) = client.next() {
        let result = &message["result"];
        if message["id"].is_u64() {
            assert!(result["isError"] != true && result["structuredContent"]["length"] == KEY.len(), "{message}");
            answered.push(result["structuredContent"]["call"].as_str().expect("an id").to_owned());
        }
    }
    killer.join().expect("it was killed");
    answered
}

#[test]
fn a_killed_host_leaves_no_process_and_a_whole_log() {
    let marker = marker();
    let sandbox = busy(&marker);
    let seed = random();
    let (mut numbers, mut answered) = (Numbers::new(seed), Vec::new());
    for round in 0..ROUNDS {
        let what = format!("round {round} of seed {seed}");
        answered.extend(killed(&sandbox, &mut numbers, &[]));
        assert_gone(&marker, &what);
        let verified = sandbox.run(&["local", "logs", "--verify"]);
        assert_eq!(verified.code, 0, "{what}: {verified:#?}");
    }
    let audited = audited(&sandbox);
    for call in &answered {
        assert_eq!(
            audited.get(call).map(Vec::as_slice).unwrap_or_default(),
            ["decision", "call_started", "call_finished"],
            "seed {seed}"
        );
    }
    // Some calls were answered, and some were running when the host was killed; otherwise the test proves nothing.
    let cut_off = audited.values().filter(|events| events.last().is_some_and(|event| event == "call_started")).count();
    assert!(!answered.is_empty() && cut_off > 0, "seed {seed}: {} answered, {cut_off} cut off", answered.len());
    // The secret can still be decrypted.
    let ran = sandbox.run(&["local", "call", "busy", "run", "--tools", "tools", "--policy", POLICY]).code(0);
    let result: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(result["length"], KEY.len());
    assert_gone(&marker, "after a call");
}

// Without a sandbox, programs are still supervised.
#[test]
fn a_killed_host_without_a_sandbox_leaves_no_process() {
    let marker = marker();
    let sandbox = busy(&marker);
    let seed = random();
    let mut numbers = Numbers::new(seed);
    for round in 0..5 {
        killed(&sandbox, &mut numbers, &["--no-sandbox"]);
        assert_gone(&marker, &format!("round {round} of seed {seed}"));
    }
}

#[test]
fn a_client_that_leaves_takes_all_processes_with_it() {
    let marker = marker();
    let sandbox = busy(&marker);
    let arguments = ["mcp", "--local-only", "--tools", "tools", "--policy", POLICY];
    let mut client = Client::start(&sandbox, &arguments, &json!({}));
    client.call("busy_run", &json!({}));
    client.begin("busy_run", &json!({ "ms": 60_000 }));
    client.leave();
    assert_gone(&marker, "the client has left");
}

#[test]
fn a_cancelled_call_takes_all_its_processes_with_it() {
    let marker = marker();
    let sandbox = busy(&marker);
    let arguments = ["mcp", "--local-only", "--tools", "tools", "--policy", POLICY];
    let mut client = Client::start(&sandbox, &arguments, &json!({}));
    let call = client.begin("busy_run", &json!({ "ms": 60_000 }));
    // The supervisor, the program, and its orphaned child.
    until("the call runs", Duration::from_secs(30), || marked(&marker).len() >= 3);
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call}}));
    assert_gone(&marker, "the call was cancelled");
    let (_, logs) = sandbox.run_json(&["local", "logs", "busy"]);
    let last = logs["data"]["lines"].as_array().and_then(|lines| lines.last()).expect("a line").clone();
    assert_eq!((&last["event"], &last["exit"]), (&json!("call_finished"), &json!("host.cancelled")), "{last}");
}

/// Answers with the number in the secret, because the secret itself would be redacted.
const NUMBERED: &str = "
import json, sys
for line in sys.stdin:
    call = json.loads(line)
    if 'id' in call:
        value = call['credentials']['api_key']
        assert value == value[:10] * 20
        print(json.dumps({'id': call['id'], 'result': int(value[:10])}), flush=True)
";

#[test]
fn a_secret_that_is_stored_by_a_killed_process_is_the_old_or_the_new_one() {
    let credentials = json!([{"name": "api_key", "label": "Key", "required": true}]);
    let sandbox = with_tool("keyed", &python("keyed", json!({ "credentials": credentials })), &[("main.py", NUMBERED)]);
    let set = |number: u64| {
        let mut command = sandbox.command(&["secret", "set", "keyed", "api_key", "--tools", "tools"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let value = format!("{number:010}").repeat(20);
        // It may be killed before it reads.
        let _ = child.stdin.take().expect("a pipe").write_all(value.as_bytes());
        child
    };
    let stored = || call(&sandbox, "keyed", &["--yes"]).code(0).stdout.trim().parse::<u64>().expect("a number");
    let began = Instant::now();
    assert!(set(0).wait().expect("it ends").success());
    let whole = u64::try_from(began.elapsed().as_micros()).expect("a short time");
    let seed = random();
    let (mut numbers, mut last, mut cut_off) = (Numbers::new(seed), 0, 0);
    for number in 1..=STORES {
        let mut child = set(number);
        std::thread::sleep(Duration::from_micros(numbers.below(whole + whole / 5)));
        // One that has ended already cannot be killed.
        let _ = child.kill();
        let is_done = child.wait().expect("it ends").success();
        cut_off += usize::from(!is_done);
        let now = stored();
        assert!(now == number || (now == last && !is_done), "seed {seed}: {now} after {last}, {number} stored: {is_done}");
        last = now;
    }
    assert!(cut_off > 0, "seed {seed}: no process was killed in time");
    sandbox.run(&["local", "logs", "--verify"]).code(0);
}
