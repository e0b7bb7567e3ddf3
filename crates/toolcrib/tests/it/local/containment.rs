//! Hostile tools, through the whole path: manifest, host, launcher, program.
//!
//! Every attack runs twice: without a sandbox, where it must succeed, and in the sandbox, where it must fail. A test whose attack never
//! succeeds would prove nothing.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::time::Instant;

use serde_json::{Value, json};
use toolcrib_process::{Surface, probe};

use super::support::{POLICY, allow_all, assert_gone, marker, random, state};
use super::{Client, python, with_tool};
use crate::Sandbox;

/// Runs the statements of each call, and reports the outcome.
const PROGRAM: &str = "
import json, os, sys
def attack(statements):
    scope = {}
    try:
        exec(statements, scope)
    except BaseException as error:
        return f'denied {type(error).__name__}: {error}'
    return f'reached {scope.get(\"found\", \"\")}'
for line in sys.stdin:
    call = json.loads(line)
    if 'id' in call:
        print(json.dumps({'id': call['id'], 'result': attack(call['args']['statements'])}), flush=True)
";

/// A tool with that program, whose processes contain a marker in their command lines.
fn hostile(marker: &str, sandbox: Value) -> Sandbox {
    let runtime = json!({"kind": "exec", "command": ["python3", "-I", "-S", "main.py", marker], "timeoutMs": 20_000});
    with_tool("hostile", &python("hostile", json!({ "runtime": runtime, "sandbox": sandbox })), &[("main.py", PROGRAM)])
}

/// The result of a call of the tool.
#[track_caller]
fn run(sandbox: &Sandbox, statements: &str, more: &[&str]) -> String {
    let arguments = json!({ "statements": statements }).to_string();
    let call = ["local", "call", "hostile", "run", "--tools", "tools", "--yes", "--args", &arguments];
    sandbox.run(&[&call, more].concat()).code(0).stdout.trim().to_owned()
}

/// Services and files that are attacked.
struct Targets {
    tcp: TcpListener,
    udp: UdpSocket,
    _unix: UnixListener,
    name: String,
    _abstract: UnixListener,
}

impl Targets {
    fn new(sandbox: &Sandbox) -> Self {
        let name = format!("toolcrib-test-{:016x}", random());
        fs::write(sandbox.home().join("diary"), "precious").expect("a file");
        for folder in ["data/other", "results"] {
            let folder = state(sandbox).join(folder);
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join("note"), "of another tool").expect("a file");
        }
        Self {
            tcp: TcpListener::bind("127.0.0.1:0").expect("a port"),
            udp: UdpSocket::bind("127.0.0.1:0").expect("a port"),
            _unix: UnixListener::bind(sandbox.path().join("service")).expect("bound"),
            _abstract: UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).expect("a name")).expect("bound"),
            name,
        }
    }

    /// The attacks: the surface that contains each, and its statements.
    fn attacks(&self, sandbox: &Sandbox) -> Vec<(Surface, String)> {
        let (home, state) = (sandbox.home(), state(sandbox));
        let (home, state, place) = (home.display(), state.display(), sandbox.path());
        let (tcp, udp) = (self.tcp.local_addr().expect("an address").port(), self.udp.local_addr().expect("an address").port());
        let (name, service, own) = (&self.name, place.join("service"), std::process::id());
        let service = service.display();
        vec![
            (Surface::Files, format!("found = open('{home}/diary').read()")),
            (Surface::Files, format!("open('{home}/diary', 'a').close()")),
            (Surface::Files, format!("found = __import__('os').listdir('{home}')")),
            (
                Surface::Files,
                format!(
                    "__import__('os').rename('{home}/diary', '{home}/diary2'); __import__('os').rename('{home}/diary2', '{home}/diary')"
                ),
            ),
            (Surface::Files, format!("found = open('{state}/audit.jsonl').read(10)")),
            (Surface::Files, format!("open('{state}/audit.jsonl', 'a').close()")),
            (Surface::Files, format!("open('{state}/permissions.json', 'a').close()")),
            (Surface::Files, format!("found = open('{state}/data/other/note').read()")),
            (Surface::Files, format!("found = open('{state}/results/note').read()")),
            // The approved copy of the tool.
            (Surface::Files, "open('main.py', 'a').close()".to_owned()),
            (Surface::Files, "open('added.py', 'w').close()".to_owned()),
            (Surface::FileModes, format!("__import__('os').chmod('{home}/diary', 0o644)")),
            (Surface::Tcp, format!("__import__('socket').create_connection(('127.0.0.1', {tcp}), 5)")),
            (Surface::Tcp, "s = __import__('socket').socket(); s.bind(('127.0.0.1', 0)); s.listen()".to_owned()),
            (
                Surface::Udp,
                format!("import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {udp}))"),
            ),
            (Surface::UnixSockets, format!("import socket; socket.socket(socket.AF_UNIX).connect('{service}')")),
            (Surface::UnixSockets, format!("import socket; socket.socket(socket.AF_UNIX).connect('\\0{name}')")),
            (Surface::Signals, format!("__import__('os').kill({own}, 0)")),
            (Surface::ProcessMemory, format!("found = len(open('/proc/{own}/environ').read())")),
            (Surface::ProcessMemory, format!("found = len(open('/proc/{own}/cmdline').read())")),
        ]
    }
}

// req: LOCAL-010
#[test]
fn what_the_sandbox_claims_to_contain_it_contains() {
    let machine = probe();
    for is_sandboxed in [false, true] {
        let marker = marker();
        let sandbox = hostile(&marker, json!({}));
        let more: &[&str] = if is_sandboxed { &[] } else { &["--no-sandbox"] };
        // Creates the state files. One of them is created with the first stored rule.
        assert!(run(&sandbox, "pass", more).starts_with("reached"));
        sandbox.run(&["permit", "set", "hostile", "ask", "--tools", "tools"]).code(0);
        let targets = Targets::new(&sandbox);
        for (surface, statements) in targets.attacks(&sandbox) {
            let said = run(&sandbox, &statements, more);
            if !is_sandboxed {
                assert!(said.starts_with("reached"), "without a sandbox: {statements}: {said}");
            } else if machine.contains(surface) {
                assert!(said.starts_with("denied"), "in the sandbox: {statements}: {said}");
            } else {
                // What cannot be contained here is reported as open wherever the tool is shown.
                let (_, shown) = sandbox.run_json(&["local", "show", "hostile", "--tools", "tools"]);
                let summary = shown["data"]["sandbox"].as_str().expect("a text");
                assert!(
                    summary.split("; ").any(|part| part.starts_with("OPEN") && part.contains(&surface.to_string())),
                    "{summary}"
                );
            }
        }
        assert_eq!(fs::read_to_string(sandbox.home().join("diary")).expect("a file"), "precious");
        sandbox.run(&["local", "logs", "--verify"]).code(0);
        assert_gone(&marker, "after all calls");
    }
}

#[test]
fn what_is_not_contained_is_said() {
    let marker = marker();
    let sandbox = hostile(&marker, json!({"network": "any", "read": ["~/"]}));
    let summary = |more: &[&str]| {
        let (_, listed) = sandbox.run_json(&[&["local", "list", "--tools", "tools"], more].concat());
        listed["data"]["tools"][0]["sandbox"].as_str().expect("a text").to_owned()
    };
    let sandboxed = summary(&[]);
    assert!(sandboxed.starts_with("sandboxed by"), "{sandboxed}");
    let permitted = sandboxed.split("; ").find(|part| part.starts_with("permitted")).expect("the network is permitted");
    assert!(permitted.contains("TCP") && permitted.contains("UDP"), "{sandboxed}");
    let open = summary(&["--no-sandbox"]);
    assert!(open.starts_with("UNSANDBOXED"), "{open}");
    // Programs without a sandbox still end with their host.
    let contained = open.split("; ").find(|part| part.starts_with("contained")).expect("usage is limited");
    assert!(contained.contains("orphans"), "{open}");

    // A sandbox request can grant the parent folder, but never the host's files in it.
    let _targets = Targets::new(&sandbox);
    let read = |path: PathBuf| run(&sandbox, &format!("found = open('{}').read()", path.display()), &[]);
    assert_eq!(read(sandbox.home().join("diary")), "reached precious");
    for name in ["audit.jsonl", "data/other/note", "results/note"] {
        let said = read(state(&sandbox).join(name));
        assert!(said.starts_with("denied PermissionError"), "{name}: {said}");
    }
    // Size, owner and times of a file with a known path are not secret, as the README of toolcrib-process says.
    let closed = hostile(&marker, json!({}));
    fs::write(closed.home().join("diary"), "precious").expect("a file");
    let size = format!("found = __import__('os').stat('{}').st_size", closed.home().join("diary").display());
    assert_eq!(run(&closed, &size, &[]), "reached 8");

    // The log contains the containment of each call.
    run(&sandbox, "pass", &["--no-sandbox"]);
    let (_, logs) = sandbox.run_json(&["local", "logs", "hostile"]);
    let lines = logs["data"]["lines"].as_array().expect("lines");
    let summaries: Vec<_> = lines.iter().map(|line| line["sandbox"].as_str().expect("on every line")).collect();
    assert!(summaries.first().is_some_and(|text| text.starts_with("sandboxed by")), "{summaries:?}");
    assert!(summaries.last().is_some_and(|text| text.starts_with("UNSANDBOXED")), "{summaries:?}");
}

/// Calls the tool through a running server. Returns whether it failed, and the text.
fn ask(client: &mut Client, statements: &str) -> (bool, String) {
    let result = client.call("hostile_run", &json!({ "statements": statements }));
    let (failed, text) = Client::text(&result);
    (failed, text.to_owned())
}

/// The peak memory of a process, in MiB.
fn peak_mib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a size");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number") / 1_024
}

#[test]
fn what_takes_too_much_ends_with_its_call() {
    let marker = marker();
    let sandbox = hostile(&marker, json!({"memoryMiB": 128, "maxProcesses": 24, "maxFileMiB": 1}));
    allow_all(&sandbox, &["hostile"]);
    let arguments = ["mcp", "--local-only", "--tools", "tools", "--policy", POLICY];
    let mut client = Client::start(&sandbox, &arguments, &json!({}));
    let all_gone = |what: &str| assert_gone(&marker, what);

    let (failed, text) = ask(&mut client, "taken = []\nfor _ in range(512): taken.append(b'x' * (16 << 20))");
    assert!(if failed { text.contains("memory limit exceeded") } else { text.starts_with("denied MemoryError") }, "{text}");
    all_gone("8 GiB");

    let start = "import os, time\nfound = 0\ntry:\n    while found < 5000:\n        if os.fork() == 0: time.sleep(60)\n        found += 1\nexcept OSError: pass";
    let (failed, text) = ask(&mut client, start);
    let started = text.strip_prefix("reached ").and_then(|number| number.parse::<u32>().ok());
    assert!(if failed { text.contains("process limit exceeded") } else { started.is_some_and(|number| number <= 24) }, "{text}");
    all_gone("processes");

    // Whatever it answers, it ends.
    ask(&mut client, "import os\nwhile True: os.fork()");
    all_gone("a fork bomb");

    let (failed, text) =
        ask(&mut client, "f = open(__import__('os').environ['HOME'] + '/file', 'wb')\nfor _ in range(64): f.write(b'x' * 65536)");
    assert!(if failed { text.contains("file size limit exceeded") } else { text.contains("File too large") }, "{text}");

    for (chunk, wanted) in [("b'x' * 1048576", "host.result_too_large"), ("b'x' * 1048000 + b'\\n'", "host.protocol")] {
        let flood = format!("import os\nchunk = {chunk}\nfor _ in range(10240): os.write(1, chunk)");
        let (failed, text) = ask(&mut client, &flood);
        assert!(failed && text.contains(wanted), "{chunk}: {text}");
        all_gone("10 GiB of output");
    }
    let mib = peak_mib(client.id());
    assert!(mib < 256, "the host has {mib} MiB after floods");

    // A process in its own session, without a parent.
    let away = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(300)\n    os._exit(0)\nos.wait()";
    assert_eq!(ask(&mut client, away), (false, "reached ".to_owned()));
    all_gone("a double fork");
    // The host is not affected.
    assert_eq!(ask(&mut client, "found = 7"), (false, "reached 7".to_owned()));
}

#[test]
fn a_tool_that_does_not_end_is_ended() {
    let marker = marker();
    let sandbox = hostile(&marker, json!({}));
    let statements = "import signal, time, os\n\
                      for number in [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]: signal.signal(number, signal.SIG_IGN)\n\
                      os.setsid() if os.fork() == 0 else None\n\
                      time.sleep(600)";
    let began = Instant::now();
    let arguments = json!({ "statements": statements }).to_string();
    let call = ["local", "call", "hostile", "run", "--tools", "tools", "--yes", "--timeout", "700", "--args", &arguments];
    let ran = sandbox.run(&call);
    assert!(ran.code != 0 && ran.stderr.contains("host.timeout"), "{ran:#?}");
    toolcrib_testkit::assert_not_hung(began, "a call with a time limit");
    assert_gone(&marker, "after the time limit");
}
