//! Folders that change while their tool is called.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::{POLICY, allow_all, state};
use super::{Client, python, with_tool};

/// Calls while the folder changes.
const CALLS: usize = 10_000;

/// Concurrent calls.
const UNDER_WAY: usize = 8;

/// Versions that must have been called, and the time limit for that and for all calls. They take a fraction of it on an idle machine.
const VERSIONS: usize = 5;
const LIMIT: Duration = Duration::from_secs(180);

/// The program of one version. Both numbers have the same length in every version, so that a file can be overwritten in parts; a mixed
/// file reports itself.
fn program(version: u64) -> String {
    format!(
        "START = '{version:06}'\n\
         import json, sys\n\
         def serve():\n\
         \x20   for line in sys.stdin:\n\
         \x20       call = json.loads(line)\n\
         \x20       if 'id' in call:\n\
         \x20           print(json.dumps({{'id': call['id'], 'result': {{'start': START, 'end': END}}}}), flush=True)\n\
         END = '{version:06}'\n\
         serve()\n"
    )
}

/// Changes the folder of a tool in the ways of editors and installers.
struct Writer {
    folder: PathBuf,
    /// Next to the folder, on the same file system.
    staging: PathBuf,
    manifest: String,
}

impl Writer {
    /// Replaces a file atomically.
    fn replace(&self, name: &str, text: &str) {
        fs::write(&self.staging, text).expect("written");
        fs::rename(&self.staging, self.folder.join(name)).expect("in place");
    }

    /// Overwrites a file, with a pause in the middle.
    fn overwrite(&self, name: &str, text: &str) {
        let mut file = OpenOptions::new().write(true).open(self.folder.join(name)).expect("a file");
        let (first, rest) = text.as_bytes().split_at(text.len() / 2);
        file.write_all(first).expect("written");
        sleep(Duration::from_millis(15));
        file.seek(SeekFrom::Start(first.len() as u64)).expect("a place");
        file.write_all(rest).expect("written");
    }

    /// Writes a version, with or without a time in which the folder has no valid manifest.
    fn change(&self, version: u64) {
        let path = self.folder.join("manifest.json");
        let broken = match version % 6 {
            0 => Some(self.manifest[..self.manifest.len() / 2].to_owned()),
            1 => Some(self.manifest.replace("\"versioned\"", "\"another\"")),
            2 => Some(self.manifest.replace("\"functions\"", "\"function\"")),
            3 => {
                fs::remove_file(&path).expect("removed");
                sleep(Duration::from_millis(700));
                None
            }
            _ => None,
        };
        if let Some(broken) = broken {
            fs::write(&path, broken).expect("written");
            sleep(Duration::from_millis(700));
        }
        match version % 2 {
            0 => self.overwrite("main.py", &program(version)),
            _ => self.replace("main.py", &program(version)),
        }
        self.replace("manifest.json", &self.manifest);
    }
}

/// The version in a result. A mixed file counts as the new one.
fn version(message: &Value) -> Option<u64> {
    let number = |key: &str| message["result"]["structuredContent"][key].as_str()?.parse::<u64>().ok();
    let (start, end) = (number("start")?, number("end")?);
    assert!(start.abs_diff(end) <= 1, "{message}");
    Some(start.max(end))
}

// req: LOCAL-001
#[test]
fn no_call_fails_while_the_folder_changes() {
    let manifest = python(
        "versioned",
        json!({"runtime": {"kind": "exec", "command": ["python3", "-I", "-S", "main.py"], "keepAlive": 60, "maxConcurrent": 8}}),
    );
    let sandbox = with_tool("versioned", &manifest, &[("main.py", &program(1))]);
    allow_all(&sandbox, &["versioned"]);
    let mut client = Client::start(&sandbox, &["mcp", "--local-only", "--tools", "tools", "--policy", POLICY], &json!({}));
    let writer = Writer {
        folder: sandbox.path().join("tools/versioned"),
        staging: sandbox.path().join("staging"),
        manifest: manifest.to_string(),
    };
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(1));
    let began = Instant::now();
    let mut seen = BTreeSet::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                writer.change(written.fetch_add(1, Ordering::SeqCst) + 1);
                sleep(Duration::from_millis(250));
            }
        });
        // Also if an assertion fails.
        let _stopping = Stopping(&stop);
        for _ in 0..UNDER_WAY {
            client.begin("versioned_run", &json!({}));
        }
        let mut answered = 0;
        while answered < CALLS || seen.len() < VERSIONS {
            let message = client.next().expect("the server runs");
            if !message["id"].is_u64() {
                continue;
            }
            let version = version(&message).unwrap_or_else(|| panic!("call {answered} failed: {message}"));
            assert!(version <= written.load(Ordering::SeqCst), "a version that was not written yet: {message}");
            seen.insert(version);
            answered += 1;
            assert!(began.elapsed() < LIMIT, "{answered} calls, versions {seen:?}");
            client.begin("versioned_run", &json!({}));
        }
    });
    let elapsed = began.elapsed();
    // The last version is the one that runs in the end.
    let last = written.load(Ordering::SeqCst);
    let is_last = |message: &Value| message["id"].is_u64() && version(message) == Some(last);
    while !client.next().is_some_and(|message| is_last(&message)) {
        assert!(began.elapsed() < LIMIT, "version {last} was never loaded");
        client.begin("versioned_run", &json!({}));
        sleep(Duration::from_millis(1));
    }
    sandbox.run(&["local", "logs", "--verify"]).code(0);
    assert_versions_logged(&state(&sandbox), seen.len());
    let _ = writeln!(std::io::stderr(), "{CALLS} calls and {} of {last} versions in {elapsed:?}", seen.len());
}

/// Ends the writer.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Every called version is in the log, which has been rotated by now.
fn assert_versions_logged(state: &Path, versions: usize) {
    let files = fs::read_dir(state).expect("a folder").flatten().map(|entry| entry.path());
    let logs = files.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    let text: String = logs.map(|path| fs::read_to_string(path).expect("a log")).collect();
    let changed = text.lines().filter(|line| line.contains("\"tool_changed\"")).count();
    assert!(changed + 1 >= versions, "{changed} changes in the log, {versions} versions seen");
}
