//! `init` with a whole project: the result is built, tested, run and published as a user would do it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use toolcrib_devchain::accounts::dev_signers;

use crate::onchain::World;
use crate::serving::paid::mint;
use crate::{RunOutput, Sandbox, finish};

/// A collection on no chain: gates refer to it, and the tests never query it.
const COLLECTION: &str = "nft:0x0241662c9c78b03677892e6272eedd36b9e94107";

/// The target folder of this program: most of a project's dependencies are compiled there already.
fn target() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_toolcrib")).ancestors().nth(2).expect("a target folder").to_owned()
}

/// Runs Cargo in a project, without a network: the project has the lock file of this checkout.
fn cargo(project: &Path, arguments: &[&str]) -> RunOutput {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).current_dir(project).env("CARGO_TARGET_DIR", target()).env("CARGO_NET_OFFLINE", "true");
    // Cargo sets variables about this package; the project is another one.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_PKG_")) {
        command.env_remove(name);
    }
    command.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_MANIFEST_PATH");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(&mut command, b"")
}

/// Returns a port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound").port()
}

/// The program of a project, which ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// req: CLI-004, GATE-001
#[test]
fn every_kind_of_project_is_built_and_passes_its_own_tests() {
    let Some(()) = toolcrib_testkit::project_builds() else { return };
    let sandbox = Sandbox::new();
    for (name, options) in [
        ("plain", &["--runtime", "axum"][..]),
        ("club", &["--gate", COLLECTION]),
        ("async", &["--gate", "predicate"]),
        ("Paid.Club", &["--gate", COLLECTION, "--price", "0.25", "--recipient", "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"]),
    ] {
        let ran = sandbox.run(&[&["init", name], options].concat()).code(0);
        assert_eq!(ran.stdout, format!("{name}\n"));
        let project = sandbox.path().join(name);
        sandbox.run(&["validate", &format!("{name}/manifest.json"), "--kind", "tool"]).code(0);
        cargo(&project, &["fmt", "--check"]).code(0);
        let ran = cargo(&project, &["test", "--offline", "--test", "tool"]).code(0);
        assert!(ran.stdout.contains("test result: ok. 4 passed"), "{name}: {}", ran.stdout);
        assert!(!ran.stderr.contains("warning"), "{name}: {}", ran.stderr);
    }

    // The description is a part of the manifest, so the committed manifest must change with it.
    let project = sandbox.path().join("plain");
    let tool = project.join("src/tool.rs");
    let text = fs::read_to_string(&tool).expect("a file").replace("The text to look at.", "Some text to look at.");
    fs::write(&tool, text).expect("a file");
    let ran = cargo(&project, &["test", "--offline", "--test", "tool"]);
    assert_ne!(ran.code, 0);
    assert!(ran.stdout.contains("manifest.json is not what the code says"), "{}", ran.stdout);
    let printed = cargo(&project, &["run", "--offline", "--quiet", "--", "manifest"]).code(0);
    fs::write(project.join("manifest.json"), printed.stdout).expect("a file");
    cargo(&project, &["test", "--offline", "--test", "tool"]).code(0);
}

// The path of a newcomer: init, run, publish, look, call.
// req: CLI-004, GATE-002
#[test]
fn a_new_project_is_served_and_published_on_the_development_chain() {
    let Some(()) = toolcrib_testkit::project_builds() else { return };
    let sandbox = Sandbox::new();
    let port = free_port();
    let origin = format!("https://weather.tool.localhost:{port}");
    sandbox.run(&["init", "weather", "--price", "0.01", "--origin", &origin]).code(0);
    let project = sandbox.path().join("weather");
    cargo(&project, &["build", "--offline"]).code(0);
    let world = World::in_sandbox(sandbox, &[]);
    // The certificate authority of a development environment, as `dev` creates it.
    let state = world.sandbox.home().join(".local/state/toolcrib/dev");
    fs::create_dir_all(&state).expect("a folder");
    toolcrib_devchain::Authority::open(&state, &toolcrib_gate::SystemClock).expect("an authority");

    let mut command = Command::new(target().join("debug/weather"));
    command.env_clear().env("HOME", world.sandbox.home()).env("RPC_URL", &world.url).current_dir(&project);
    let log = project.join("log");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(fs::File::create(&log).expect("a log"));
    let mut child = command.spawn().expect("the program starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let _running = Running(child);
    let uri = format!("{origin}/.well-known/ai-tool/weather.json");
    assert_eq!(line.trim(), uri, "{}", fs::read_to_string(&log).expect("a log"));

    let ran = world.sign(&["publish", "weather/manifest.json", "--metadata", &uri], "0");
    assert_eq!(ran.code, 0, "{ran:#?} {}", fs::read_to_string(&log).expect("a log"));
    let ran = world.run(&["probe", "1"]).code(0);
    assert!(ran.stdout.contains("requires payment or proof"), "{}", ran.stdout);
    assert!(ran.stdout.contains("0.01 USDC"), "{}", ran.stdout);
    assert!(ran.stdout.contains("manifest   matches"), "{}", ran.stdout);
    assert!(project.join("weather.db").exists());
    mint(&world, dev_signers()[2].address(), 1_000_000);
    let ran = world.run(&["call", "1", "--input", r#"{"text": "a tide comes in"}"#, "--dev-account", "2", "--max-price", "0.01"]);
    assert_eq!(ran.code, 0, "{ran:#?} {}", fs::read_to_string(&log).expect("a log"));
    assert!(ran.stdout.contains("\"longest\"") && ran.stderr.contains("settled"), "{ran:#?}");
}

// req: CLI-004
#[test]
fn a_project_replaces_nothing_and_needs_sound_options() {
    let sandbox = Sandbox::new();
    sandbox.write("taken/precious", "precious");
    let ran = sandbox.run(&["init", "taken", "--runtime", "axum"]).code(2);
    assert!(ran.stderr.starts_with("error[cli.exists]: taken already exists"), "{}", ran.stderr);
    assert_eq!(fs::read_dir(sandbox.path().join("taken")).expect("a folder").count(), 1);
    for (options, message) in [
        (&["x", "--price", "0"][..], "the price is zero"),
        (&["x", "--price", "-1"], "-1"),
        (&["x", "--price", "0.0000001"], "is not a price"),
        (&["x", "--price", "1e3"], "is not a price"),
        (&["x", "--gate", "closed"], "is not a gate"),
        (&["x", "--gate", "nft:0x12"], "is not an address"),
        (&["x", "--network", "base"], "needs a creator"),
        (&["x", "--network", "nowhere"], "nowhere"),
        (&["x", "--origin", "http://tools.example.com"], "is not an origin"),
        (&["x", "--origin", "https://tools.example.com/\"evil"], "is not an origin"),
        (&["../x", "--runtime", "axum"], "is not a valid name"),
        (&["x", "--runtime", "axum", "--force"], "does not overwrite"),
        (&["x", "--runtime", "axum", "--out", "-"], "cannot be printed"),
    ] {
        let ran = sandbox.run(&[&["init"], options].concat()).code(2);
        assert!(ran.stderr.contains(message), "{options:?}: {}", ran.stderr);
    }
    assert!(!sandbox.path().join("x").exists());
}

#[test]
fn crates_come_from_where_they_are_asked_for() {
    let sandbox = Sandbox::new();
    for (source, expected) in [
        ("git", "toolcrib-gate = { git = \"https://"),
        ("registry", concat!("toolcrib-gate = \"", env!("CARGO_PKG_VERSION"), "\"")),
        ("path", "toolcrib-gate = { path = \"/"),
    ] {
        sandbox.run(&["init", source, "--toolcrib-source", source, "-q"]).code(0).silent();
        let text = sandbox.read(&format!("{source}/Cargo.toml"));
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("toolcrib-chain"), "an open tool needs no chain: {text}");
        let all: String = ["README.md", "Dockerfile", "src/lib.rs", ".github/workflows/ci.yml"]
            .map(|file| sandbox.read(&format!("{source}/{file}")))
            .concat();
        assert!(!all.contains("{{") && !all.contains("//#"), "{all}");
        let ci = sandbox.read(&format!("{source}/.github/workflows/ci.yml"));
        assert!(ci.contains("\npermissions:\n  contents: read\njobs:"), "{ci}");
        for action in ci.lines().filter_map(|line| line.trim().strip_prefix("- uses: ")) {
            let (_, version) = action.split_once('@').expect("a version");
            assert!(version.len() == 40 && version.bytes().all(|byte| byte.is_ascii_hexdigit()), "a commit, not a tag: {action}");
        }
        assert!(!ci.contains("latest") && !ci.contains("install stable"), "{ci}");
    }
}
