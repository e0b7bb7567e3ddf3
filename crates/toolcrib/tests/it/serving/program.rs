//! A program behind the gate with all kinds of behaviour.
#![cfg(unix)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use super::{Gate, HttpResponse, manifest, until};
use crate::Sandbox;

/// Starts a gate in front of a shell script; the script is an argument of `sh`, so the tool runs the shell, not the gate.
fn serve(sandbox: &Sandbox, script: &str, more: &[&str], variables: &[(&str, &str)]) -> Gate {
    sandbox.write("tool.json", manifest("tool").to_string());
    let script = sandbox.write("tool.sh", script).display().to_string();
    let arguments =
        [&["tool.json", "--command", "sh", "--arg", &script, "--arg", "--flag", "--store", "memory", "--time", "2"], more]
            .concat();
    Gate::start_with(sandbox, &arguments, variables)
}

#[track_caller]
fn check(script: &str, input: &Value, judge: impl Fn(&HttpResponse, &str)) {
    let sandbox = Sandbox::new();
    let gate = serve(&sandbox, script, &[], &[]);
    let began = Instant::now();
    let answer = gate.call("tool", input);
    toolcrib_testkit::assert_not_hung(began, script);
    judge(&answer, &gate.log());
}

#[track_caller]
fn fails(script: &str, input: &Value, status: u16, code: &str) {
    check(script, input, |answer, log| {
        assert_eq!(answer.verdict(), (status, code.to_owned()), "{script}: {log}");
        assert!(!String::from_utf8_lossy(&answer.body).contains("secret"), "{script}");
        assert_eq!(log.lines().filter(|line| line.starts_with("fault tool ")).count(), 1, "{script}: {log}");
    });
}

// req: GATE-001
#[test]
fn what_a_program_does_becomes() {
    let large = json!("x".repeat(200_000));
    thread::scope(|scope| {
        scope.spawn(|| check("cat", &json!({ "a": [1, "é"] }), |answer, _| assert_eq!(answer.json(), json!({ "a": [1, "é"] }))));
        scope.spawn(|| check("cat", &large, |answer, _| assert_eq!(answer.json(), large)));
        // One that does not read an input larger than a pipe.
        scope.spawn(|| check("echo 7", &large, |answer, _| assert_eq!(answer.json(), json!(7))));
        scope.spawn(|| fails("echo not json: secret", &json!(1), 500, "gate.failed"));
        scope.spawn(|| fails("printf '1 2'", &json!(1), 500, "gate.failed"));
        scope.spawn(|| fails("true", &json!(1), 500, "gate.failed"));
        scope.spawn(|| fails("echo 1; exit 3", &json!(1), 500, "gate.failed"));
        scope.spawn(|| fails("echo 1; kill -9 $$", &json!(1), 500, "gate.failed"));
        scope.spawn(|| fails("yes 1", &json!(1), 500, "gate.failed"));
        scope.spawn(|| fails("sleep 60", &json!(1), 504, "gate.timed_out"));
        // The program has exited, but its child process keeps its stdout open.
        scope.spawn(|| fails("sleep 60 & echo 1", &json!(1), 504, "gate.timed_out"));
    });
}

#[test]
fn a_flood_on_stderr_is_cut_and_escaped_and_holds_nothing_up() {
    let script = "printf '\\033[31mred\\n' >&2; i=0; while [ $i -lt 20000 ]; do echo 'flood flood flood flood' >&2; i=$((i+1)); done; echo 1";
    check(script, &json!(1), |answer, log| {
        assert_eq!(answer.json(), json!(1));
        assert!(log.contains("tool: \\u{1b}[31mred\n"), "{log}");
        assert!(log.contains("tool: … (truncated)"), "{log}");
        assert!(log.len() < 20_000, "{} bytes", log.len());
    });
}

#[test]
fn a_call_that_takes_too_long_ends_with_all_that_it_started() {
    let sandbox = Sandbox::new();
    let pids = sandbox.path().join("pids");
    let script = format!("sleep 61 & echo $! >>{0}; (sleep 62 & echo $! >>{0}; wait) & echo $! $$ >>{0}; wait", pids.display());
    let gate = serve(&sandbox, &script, &[], &[]);
    assert_eq!(gate.call("tool", &json!(1)).status, 504);
    let text = sandbox.read("pids");
    let all: Vec<_> = text.split_whitespace().collect();
    assert_eq!(all.len(), 4, "{text}");
    until("every process is gone", || all.iter().all(|pid| is_gone(pid)));
}

#[test]
fn what_a_program_leaves_behind_ends_with_the_call() {
    let sandbox = Sandbox::new();
    let pid = sandbox.path().join("pid");
    let gate = serve(&sandbox, &format!("sleep 63 >/dev/null 2>&1 & echo $! >{}; echo 1", pid.display()), &[], &[]);
    assert_eq!(gate.call("tool", &json!(1)).json(), json!(1));
    let left = sandbox.read("pid");
    until("it is gone", || is_gone(left.trim()));
}

/// Exited, or a zombie.
fn is_gone(pid: &str) -> bool {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
    status.is_ok_and(|stat| stat.contains(") Z ")) || !Path::new("/proc").join(pid).exists()
}

#[test]
fn an_input_full_of_shell_reaches_stdin_and_nothing_else() {
    let sandbox = Sandbox::new();
    let trap = sandbox.path().join("trap");
    let gate = serve(&sandbox, "cat >stdin; tr '\\0' ' ' </proc/$$/cmdline >argv; env >env; echo 1", &[], &[]);
    let hostile = json!({
        "a": format!("$(touch {0}); `touch {0}`; | touch {0} & \n touch {0} #'\"", trap.display()),
        "--help": "-rf", "PATH": "/tmp", "b": "\u{0}\u{1b}",
    });
    let first = sandbox.path();
    assert_eq!(gate.call("tool", &json!(1)).json(), json!(1));
    let argv = std::fs::read_to_string(first.join("argv")).expect("argv");
    let env = std::fs::read_to_string(first.join("env")).expect("env");
    assert_eq!(gate.call("tool", &hostile).json(), json!(1));
    assert_eq!(serde_json::from_str::<Value>(&sandbox.read("stdin")).expect("JSON"), hostile);
    assert_eq!(sandbox.read("argv"), argv, "the same for every call");
    assert!(argv.contains("tool.sh --flag"), "{argv}");
    assert_eq!(sandbox.read("env"), env, "the same for every call");
    assert!(!trap.exists());
}

#[test]
fn a_program_gets_the_variables_that_are_listed() {
    let sandbox = Sandbox::new();
    let variables = [("TOOLCRIB_PRIVATE_KEY", "ab"), ("API_KEY", "mine"), ("OTHER", "not this"), ("LANG", "C")];
    let script = "env | cut -d= -f1 | sort | tr '\\n' ' ' >names; echo 1";
    let gate = serve(&sandbox, script, &["--pass-env", "API_KEY", "--pass-env", "UNSET"], &variables);
    assert_eq!(gate.call("tool", &json!(1)).json(), json!(1));
    // The shell itself sets PWD, OLDPWD, SHLVL and _.
    let names = sandbox.read("names");
    let names: Vec<_> = names.split_whitespace().filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name)).collect();
    assert_eq!(names, ["API_KEY", "HOME", "LANG", "PATH"]);
    let sandbox = Sandbox::new();
    sandbox.write("tool.json", manifest("tool").to_string());
    for name in ["TOOLCRIB_PRIVATE_KEY", "TOOLCRIB_USAGE_KEY", "TOOLCRIB_API_KEY", "RPC_URL", "RPC_URL_8453", "toolcrib_store"] {
        let ran = sandbox.run(&["serve", "tool.json", "--command", "/bin/sh", "--pass-env", name]).code(2);
        assert!(ran.stderr.starts_with(&format!("error[cli.usage]: {name} is a variable of the gate")), "{}", ran.stderr);
    }
}

/// As the same user, and also as root, who may read every process.
#[cfg(target_os = "linux")]
#[test]
fn a_program_finds_no_secret_of_the_gate() {
    let sandbox = Sandbox::new();
    // Larger than any pipe of a system that is short of them.
    let large = format!("http://127.0.0.1:1/s3cret{}", "x".repeat(100_000));
    let secrets = [
        ("TOOLCRIB_SIGN_IN_KEY", "s3cret-sign-in-key-of-32-characters"),
        ("TOOLCRIB_STORE", "memory"),
        ("RPC_URL", "http://127.0.0.1:1/s3cret"),
        ("RPC_URL_8453", "http://127.0.0.1:1/s3cret"),
        ("TOOLCRIB_API_KEY", "s3cret"),
        ("RPC_URL_1", &large),
    ];
    let script = "for fd in /proc/$PPID/fd/*; do case $(readlink $fd) in /memfd*) cat $fd;; esac; done >memory
        tr '\\0' '\\n' </proc/$PPID/environ >environ; ls /proc/$$/fd >fds; tr '\\0' ' ' </proc/$PPID/cmdline >cmdline
        ls -l /proc/$$/fd >&2; cat /proc/$PPID/limits >limits; echo 1";
    sandbox.write("key", "s3cret");
    sandbox.write("tool.json", manifest("tool").to_string());
    let script = sandbox.write("tool.sh", script).display().to_string();
    // With --key-fd 7, as an operator does: a descriptor that is open when the gate starts.
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "exec \"$0\" \"$@\" 7<key", env!("CARGO_BIN_EXE_toolcrib"), "serve", "--listen", "127.0.0.1:0"]);
    command.args(["tool.json", "--command", "sh", "--arg", &script, "--time", "2"]);
    command.current_dir(sandbox.path()).env_clear().env("HOME", sandbox.home());
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let gate = Gate::spawn(&sandbox, command, &secrets);
    assert_eq!(gate.call("tool", &json!(1)).json(), json!(1));
    let environ = sandbox.read("environ");
    assert!(!environ.contains("s3cret") && environ.contains("PATH="), "{environ}");
    assert_eq!(sandbox.read("memory"), "", "what was handed over is gone");
    assert!(!sandbox.read("fds").lines().any(|fd| fd == "7"), "{}", sandbox.read("fds"));
    assert!(sandbox.read("cmdline").contains(" serve "), "{}", sandbox.read("cmdline"));
    let limits = sandbox.read("limits");
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).expect("a line");
    assert_eq!(core.split_whitespace().filter(|word| *word == "0").count(), 2, "{core}");
}

/// It has its own session, and its parent has exited.
#[cfg(target_os = "linux")]
#[test]
fn what_leaves_its_group_ends_with_the_call() {
    let sandbox = Sandbox::new();
    let script =
        "setsid sh -c 'echo $$ >>pids; sleep 65 & echo $! >>pids; setsid sleep 66 & echo $! >>pids; wait' >/dev/null 2>&1 &
        while [ $(cat pids 2>/dev/null | wc -l) -lt 3 ]; do sleep 0.05; done; [ \"$(cat)\" = 1 ] || sleep 67; echo 1";
    let gate = serve(&sandbox, script, &[], &[]);
    for (input, status) in [(1, 200), (2, 504)] {
        assert_eq!(gate.call("tool", &json!(input)).status, status);
        let text = sandbox.read("pids");
        assert_eq!(text.split_whitespace().count(), 3, "{text}");
        until("every process is gone", || text.split_whitespace().all(is_gone));
        std::fs::remove_file(sandbox.path().join("pids")).expect("removed");
    }
    // Other running calls are not affected.
    assert_eq!(gate.call("tool", &json!(1)).json(), json!(1));
}

/// An orphaned process of one call, while other calls start and end.
#[cfg(target_os = "linux")]
#[test]
fn the_end_of_a_call_leaves_what_another_has_started() {
    let sandbox = Sandbox::new();
    let script = "[ \"$(cat)\" = 1 ] && { echo 1; exit; }
        (setsid sh -c 'echo $$ >helper; sleep 0.8; echo 1 >result' >/dev/null 2>&1 &)
        while [ ! -e result ]; do sleep 0.05; done; cat result";
    sandbox.write("tool.json", manifest("tool").to_string());
    let script = sandbox.write("tool.sh", script).display().to_string();
    let arguments = ["tool.json", "--command", "sh", "--arg", &script, "--store", "memory", "--time", "20"];
    let gate = Gate::start_with(&sandbox, &arguments, &[]);
    thread::scope(|scope| {
        let long = scope.spawn(|| gate.call("tool", &json!(2)));
        let helper = sandbox.path().join("helper");
        until("the helper runs", || helper.exists());
        let short = std::iter::repeat_with(|| gate.call("tool", &json!(1)).status);
        let ended = short.take_while(|status| *status == 200 && !sandbox.path().join("result").exists()).take(1_000).count();
        assert!(ended > 0, "a call ended while the helper ran");
        assert_eq!(long.join().expect("no panic").json(), json!(1));
    });
    let helper = sandbox.read("helper");
    until("the helper is gone", || is_gone(helper.trim()));
}

/// More idle connections than the default descriptor limit of most systems.
#[cfg(target_os = "linux")]
#[test]
fn idle_connections_leave_room_for_others() {
    let sandbox = Sandbox::new();
    sandbox.write("tool.json", manifest("tool").to_string());
    let script = sandbox.write("tool.sh", "cat >input; ulimit -n >limit; cat input").display().to_string();
    let mut command = Command::new("/bin/sh");
    command.args([
        "-c",
        "ulimit -S -n 100; exec \"$0\" \"$@\"",
        env!("CARGO_BIN_EXE_toolcrib"),
        "serve",
        "--listen",
        "127.0.0.1:0",
    ]);
    command.args(["tool.json", "--command", "sh", "--arg", &script, "--store", "memory", "--time", "5"]);
    command.current_dir(sandbox.path()).env_clear().env("HOME", sandbox.home());
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let gate = Gate::spawn(&sandbox, command, &[]);
    let idle: Vec<_> = (0..300).map(|_| std::net::TcpStream::connect(gate.address).expect("connected")).collect();
    let began = Instant::now();
    assert_eq!(gate.call("tool", &json!(1)).json(), json!(1));
    // Idle connections are closed after half a minute, which the test did not wait for.
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    drop(idle);
    let limit: u64 = sandbox.read("limit").trim().parse().expect("a number");
    assert!(limit <= 1_024, "a program has the usual limit: {limit}");
}

#[test]
fn an_envelope_says_who_calls() {
    let sandbox = Sandbox::new();
    let gate = serve(&sandbox, "cat", &["--envelope"], &[]);
    let expected = json!({ "input": { "a": 1 }, "caller": null, "slug": "tool", "tool": null });
    assert_eq!(gate.call("tool", &json!({ "a": 1 })).json(), expected);
}

#[test]
fn calls_beyond_the_places_wait_for_one() {
    let sandbox = Sandbox::new();
    let gate = serve(&sandbox, "mkdir held || exit 9; sleep 0.2; rmdir held; cat", &["--at-once", "1"], &[]);
    thread::scope(|scope| {
        let calls: Vec<_> = (0..4)
            .map(|n| {
                scope.spawn({
                    let gate = &gate;
                    move || (n, gate.call("tool", &json!(n)).json())
                })
            })
            .collect();
        for call in calls {
            let (n, answer) = call.join().expect("an answer");
            assert_eq!(answer, json!(n));
        }
    });
}

#[test]
fn a_stop_lets_a_call_end() {
    let sandbox = Sandbox::new();
    let gate = serve(&sandbox, "touch begun; sleep 1; cat", &[], &[]);
    let address = gate.address;
    let calling = thread::spawn(move || {
        super::send(address, "POST /tool HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n42").json()
    });
    until("the call has begun", || sandbox.path().join("begun").exists());
    assert_eq!(gate.stop(), Some(0));
    assert_eq!(calling.join().expect("an answer"), json!(42));
}
