//! The launcher itself: what it forwards, and what it refuses.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::process::Command;

use toolcrib_process::{EXIT_REFUSED, Launcher, Network, Policy, WaitError, plan, probe, spawn};

use crate::{launcher, outcome, program, run, sandboxed, shell, unsandboxed};

#[tokio::test]
async fn arguments_variables_and_folder_arrive_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = || Policy { read: vec![folder.path().to_path_buf()], ..Policy::default() };
    let mut spec = program("/usr/bin/env", &[]);
    spec.environment = vec![("ONE".into(), "1 = \"x\"".into()), (OsString::from_vec(b"T\xffO".to_vec()), "2".into())];
    spec.folder = Some(folder.path().to_path_buf());
    for spec in [unsandboxed(spec.clone()), sandboxed(spec.clone(), policy())] {
        let outcome = run(&spec).await;
        let mut lines: Vec<&str> = outcome.succeeded().lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["ONE=1 = \"x\"", "T\u{fffd}O=2"], "{outcome:?}");
    }
    spec.program = PathBuf::from("/bin/sh");
    spec.arguments = ["-c", "printf '%s|' \"$@\"; pwd", "sh", "a b", "", "--", "é"].map(OsString::from).to_vec();
    let expected = format!("a b||--|é|{}", folder.path().display());
    assert_eq!(run(&sandboxed(spec, policy())).await.succeeded(), expected);
}

#[tokio::test]
async fn variables_of_the_program_do_not_act_on_the_launcher() {
    let mut spec = program("/bin/sh", &["-c", "exit 0"]);
    spec.environment = vec![("LD_PRELOAD".into(), "/nonexistent/evil.so".into())];
    // The loader prints one warning for each process that it loads: for the shell, but not for the launcher.
    let direct = outcome(spawn(&unsandboxed(spec.clone()), None).expect("it starts")).await;
    assert_eq!(direct.stderr.matches("evil.so").count(), 1, "{direct:?}");
    let outcome = run(&sandboxed(spec, Policy::default())).await;
    assert_eq!(outcome.stderr.matches("evil.so").count(), 1, "{outcome:?}");
}

#[tokio::test]
async fn a_program_that_cannot_be_executed_is_told_from_one_that_fails() {
    for spec in [sandboxed(program("/usr/bin/absent", &[]), Policy::default()), unsandboxed(program("/usr/bin/absent", &[]))] {
        let outcome = run(&spec).await;
        assert!(matches!(outcome.ended, Err(WaitError::NotStarted)), "{outcome:?}");
        assert!(outcome.stderr.starts_with("sandbox: cannot execute /usr/bin/absent: No such file"), "{outcome:?}");
        assert_eq!(outcome.ended.expect_err("it did not run").code().id(), "sandbox.not_started");
    }
    // The program outside the system paths is granted implicitly, but a file that is not executable remains so.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "text").expect("written");
    let outcome = run(&sandboxed(program(file.to_str().expect("UTF-8"), &[]), Policy::default())).await;
    assert!(matches!(outcome.ended, Err(WaitError::NotStarted)), "{outcome:?}");
}

#[tokio::test]
async fn an_order_that_cannot_be_kept_is_refused_and_nothing_runs() {
    let path = env!("CARGO_BIN_EXE_toolcrib-launch");
    let folder = tempfile::tempdir().expect("a folder");
    let mark = folder.path().join("mark");
    let script = format!("touch {}", mark.display());
    let order = |changes: &[(&str, serde_json::Value)]| {
        let mut order = serde_json::json!({
            "stage": "supervise", "host": std::process::id(), "launcher": path, "leadingArguments": [], "policy": {},
            "landlockAbi": 1, "seccomp": true,
            "limits": { "memory": null, "processes": null, "fileSize": null, "openFiles": 64, "cpu": null },
            "groups": [], "killGroup": null, "watchMemory": false, "watchProcesses": false,
        });
        for (name, value) in changes {
            order[*name] = value.clone();
        }
        order.to_string()
    };
    let launch = |arguments: &[&str]| Command::new(path).args(arguments).output().expect("it runs");
    let program = ["--", "/bin/sh", "-c", &script];
    let refused = [vec![], vec!["--help"], vec!["{}", "--", "/bin/true"]];
    for arguments in refused {
        let output = launch(&arguments);
        assert_eq!(output.status.code(), Some(EXIT_REFUSED.into()), "{arguments:?}: {output:?}");
        assert!(output.stderr.starts_with(b"sandbox: "), "{output:?}");
    }
    for changes in [
        ("unknown", serde_json::json!(1)),
        ("host", serde_json::json!(1)),
        ("host", serde_json::json!(0)),
        ("landlockAbi", serde_json::json!(9_999)),
        ("groups", serde_json::json!(["/nonexistent/group"])),
        ("policy", serde_json::json!({ "raed": [] })),
        ("stage", serde_json::json!("restrict, perhaps")),
    ] {
        // A kernel may support the newest version, for which the largest number is used.
        let order = order(std::slice::from_ref(&changes));
        let output = launch(&[&[order.as_str()], program.as_slice()].concat());
        if output.status.success() && changes.0 == "landlockAbi" {
            std::fs::remove_file(&mark).unwrap_or_default();
            continue;
        }
        assert_eq!(output.status.code(), Some(EXIT_REFUSED.into()), "{changes:?}: {output:?}");
        assert!(!mark.exists(), "{changes:?}");
    }
    // The same without changes runs, and cannot write.
    let output = launch(&[&[order(&[]).as_str()], program.as_slice()].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(!mark.exists());
    let output = launch(&[&[order(&[("policy", serde_json::Value::Null)]).as_str()], program.as_slice()].concat());
    assert!(output.status.success() && mark.exists(), "{output:?}");
}

#[tokio::test]
async fn what_cannot_be_met_is_refused_before_anything_starts() {
    let code = |spec: &toolcrib_process::ProgramSpec, launcher: Option<&Launcher>| {
        let error = spawn(spec, launcher).expect_err("it is refused");
        assert_eq!(plan(spec, launcher).expect_err("it is refused").code(), error.code());
        assert!(!error.to_string().contains("hidden"), "{error}");
        error.code().id()
    };
    let with = |policy: Policy| sandboxed(shell("true"), policy);
    assert_eq!(code(&with(Policy::default()), None), "sandbox.launcher");
    assert_eq!(code(&program("sh", &[]), Some(&launcher())), "sandbox.program");
    assert_eq!(code(&with(Policy::default()), Some(&Launcher::new("launch", ["x"]))), "sandbox.program");
    for path in ["relative", "/nonexistent/path"] {
        assert_eq!(code(&with(Policy { read: vec![path.into()], ..Policy::default() }), Some(&launcher())), "sandbox.path");
    }
    let path = PathBuf::from(OsString::from_vec(b"/\xff".to_vec()));
    assert_eq!(code(&with(Policy { write: vec![path], ..Policy::default() }), Some(&launcher())), "sandbox.path");
    for (name, value) in [("", "hidden"), ("A=B", "hidden"), ("A", "hid\0den")] {
        let mut spec = shell("true");
        spec.environment = vec![(name.into(), value.into())];
        assert_eq!(code(&spec, Some(&launcher())), "sandbox.environment", "{name:?}");
    }
    let mut spec = shell("true");
    spec.arguments.push("hidden\0".into());
    assert_eq!(code(&spec, Some(&launcher())), "sandbox.environment");
    let error = spawn(&unsandboxed(program("/nonexistent/program", &[])), None).expect_err("there is none");
    assert_eq!(error.code().id(), "sandbox.start");
    let error = spawn(&shell("true"), Some(&Launcher::new("/nonexistent/launcher", ["x"]))).expect_err("there is none");
    assert_eq!(error.code().id(), "sandbox.start");
    assert!(!format!("{spec:?}").contains("hidden"));
}

#[tokio::test]
async fn the_effective_level_is_what_was_planned() {
    for policy in [Policy::default(), Policy { network: Network::Any, ..Policy::default() }] {
        let spec = sandboxed(shell("exit 0"), policy);
        let planned = plan(&spec, Some(&launcher())).expect("a plan");
        let running = spawn(&spec, Some(&launcher())).expect("it starts");
        assert_eq!(running.containment(), &planned);
        outcome(running).await.succeeded();
    }
    assert!(probe().summary().starts_with("sandboxed by "), "{}", probe());
    let text = plan(&unsandboxed(shell("true")), Some(&launcher())).expect("a plan").summary();
    assert!(text.starts_with("UNSANDBOXED: ") && text.contains("contained: orphans"), "{text}");
}
