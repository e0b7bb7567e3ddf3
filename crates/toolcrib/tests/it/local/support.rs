//! Helpers: processes with a marker, rules for all calls, and audit log queries.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::Client;
use crate::Sandbox;

/// How long processes may survive their killed host, and the limit of other short waits.
pub(super) const SOON: Duration = Duration::from_secs(5);

/// The name of the file that [`allow_all`] writes.
pub(super) const POLICY: &str = "policy.toml";

/// Writes rules that allow every call of some tools, for any content.
pub(super) fn allow_all(sandbox: &Sandbox, tools: &[&str]) {
    let rules = tools.iter().map(|tool| format!("\n[[rule]]\ntool = \"{tool}\"\ndecision = \"allow\"\ncontent = \"any\"\n"));
    let path = sandbox.write(POLICY, format!("version = 1\n{}", rules.collect::<String>()));
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("private");
}

/// The folder with the state of local tools.
pub(super) fn state(sandbox: &Sandbox) -> PathBuf {
    sandbox.home().join(".local/state/toolcrib/local")
}

/// A random number.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(0)
}

/// A unique word for command lines.
pub(super) fn marker() -> String {
    format!("marker-{:016x}", random())
}

/// Processes with the marker in their command line, with the command lines. A zombie has none.
pub(super) fn marked(marker: &str) -> BTreeMap<i32, String> {
    let processes = fs::read_dir("/proc").expect("a list of processes").flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let lines = numbers.filter_map(|number| {
        let line = String::from_utf8_lossy(&fs::read(format!("/proc/{number}/cmdline")).ok()?).replace('\0', " ");
        line.contains(marker).then_some((number, line))
    });
    lines.collect()
}

/// Waits until something is so.
#[track_caller]
pub(super) fn until(what: &str, limit: Duration, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < limit, "not in {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until no process has the marker. Remaining ones are killed before the test fails.
#[track_caller]
pub(super) fn assert_gone(marker: &str, what: &str) {
    let began = Instant::now();
    let mut left = marked(marker);
    while !left.is_empty() && began.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(10));
        left = marked(marker);
    }
    for process in left.keys().filter_map(|process| Pid::from_raw(*process)) {
        let _ = kill_process(process, Signal::KILL);
    }
    assert!(left.is_empty(), "{what}: {left:?} after {SOON:?}");
}

/// The events of each call in the audit log.
pub(super) fn audited(sandbox: &Sandbox) -> BTreeMap<String, Vec<String>> {
    let text = fs::read_to_string(state(sandbox).join("audit.jsonl")).expect("a log");
    let mut calls: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // Only complete lines: a killed process may leave a partial one.
    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        if let Some(call) = line["call"].as_str() {
            calls.entry(call.to_owned()).or_default().push(line["event"].as_str().expect("an event").to_owned());
        }
    }
    calls
}

/// Pseudorandom numbers from a seed.
pub(super) struct Numbers(u64);

impl Numbers {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// A number below `limit`.
    pub(super) const fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

impl Client {
    /// Sends a call of a tool without waiting, and returns its request id.
    pub(super) fn begin(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.last += 1;
        let params = json!({ "name": tool, "arguments": arguments });
        self.send(&json!({"jsonrpc": "2.0", "id": self.last, "method": "tools/call", "params": params}));
        self.last
    }

    /// The next message. `None` if the server has ended, even within a message.
    pub(super) fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut self.stdout, &mut line).ok()?;
        line.ends_with('\n').then(|| serde_json::from_str(&line).expect("JSON"))
    }

    /// Calls a tool and returns the result.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments });
        self.ask("tools/call", &params, &mut |_| None)["result"].clone()
    }

    /// The text of a result, and whether it is an error.
    pub(super) fn text(result: &Value) -> (bool, &str) {
        (result["isError"] == true, result["content"][0]["text"].as_str().unwrap_or_default())
    }

    /// Closes the server's stdin, and waits for its end.
    pub(super) fn leave(mut self) {
        self.stdin = None;
        until("the server ends with its client", Duration::from_secs(30), || self.child.try_wait().expect("a state").is_some());
    }

    /// The process id of the server.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }
}
