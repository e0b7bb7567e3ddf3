//! Hostile bytes and circumstances: each gets a short answer on the right stream, and the right exit code.

use std::fs;

use crate::{RunOutput, Sandbox, finish};

/// Longest line that a report may hold. A snippet has at most 110 characters, each at most ten columns when escaped.
const LONGEST_LINE: usize = 1_500;

#[track_caller]
fn check_lint(bytes: &[u8], code: &str) {
    let sandbox = Sandbox::new();
    sandbox.write("x.json", bytes);
    let ran = sandbox.run(&["lint", "x.json"]).code(1).silent();
    assert!(ran.stdout.starts_with(&format!("error[{code}]")), "{}", ran.stdout);
    check_harmless(&ran);
    let ran = sandbox.run(&["hash", "x.json"]).code(1);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains(code) && ran.stderr.lines().count() == 1, "{}", ran.stderr);
    check_harmless(&ran);
    let ran = sandbox.run(&["validate", "x.json"]).code(1);
    assert_eq!(ran.stdout, format!("invalid  x.json  unknown  1 error: {code}\n"));
    let (code_of_json, _) = sandbox.run_json(&["lint", "x.json"]);
    assert_eq!(code_of_json, 1);
}

/// Checks that there are no terminal control characters and no overlong lines.
#[track_caller]
fn check_harmless(ran: &RunOutput) {
    for text in [&ran.stdout, &ran.stderr] {
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        assert!(!text.contains(['\u{202e}', '\u{200b}', '\u{feff}']), "{text:?}");
        for line in text.lines() {
            assert!(line.chars().count() <= LONGEST_LINE, "a line of {} characters", line.chars().count());
        }
    }
}

#[test]
fn ten_mebibytes() {
    check_lint(&vec![b' '; 10 << 20], "json.too_large");
}

#[test]
fn a_thousand_levels() {
    check_lint(&[vec![b'['; 1_000], vec![b']'; 1_000]].concat(), "json.too_deep");
    check_lint("{\"a\":".repeat(100_000).as_bytes(), "json.too_deep");
}

#[test]
fn nothing_but_nul() {
    check_lint(&[0; 4_096], "json.syntax");
}

#[test]
fn empty_and_broken_text() {
    check_lint(b"", "json.empty");
    check_lint(b"\xff\xfe{\x00}\x00", "json.invalid_utf8");
    check_lint(b"[\"\xc3", "json.invalid_utf8");
    check_lint(b"\xef\xbb\xbf", "json.bom");
    check_lint("{\"\u{1b}]0;owned\u{7}\u{202e}".as_bytes(), "json.syntax");
    check_lint(b"{\n\n\n", "json.syntax");
}

#[test]
fn a_megabyte_in_one_line() {
    let sandbox = Sandbox::new();
    let strings = vec!["\"e\u{301}\u{202e}日本日本日本日本\"".to_owned(); 30_000].join(",");
    sandbox.write("x.json", format!("{{\"endpoint\":[{strings}]}}"));
    let ran = sandbox.run(&["lint", "x.json"]).code(1).silent();
    check_harmless(&ran);
    assert!(ran.stdout.contains("core.too_many_findings"));
    for format in ["sarif", "github", "json"] {
        let ran = sandbox.run(&["lint", "x.json", "--format", format]).code(1).silent();
        assert!(ran.stdout.chars().all(|c| c == '\n' || !c.is_control()) && !ran.stdout.contains('\u{202e}'), "{format}");
    }
}

#[test]
fn names_of_keys_and_files_are_foreign_text_too() {
    let sandbox = Sandbox::new();
    let text = "{\"endpoint\": 1, \"\u{1b}[2J\\u001b[31m\u{202e}e\u{301}\": \"e\u{301}\u{9b}31m\", \"a\": 1, \"a\": 2}";
    sandbox.write("x.json", text);
    let ran = sandbox.run(&["lint", "x.json"]);
    check_harmless(&ran);
    if cfg!(unix) {
        sandbox.write("\u{1b}[31mred\u{202e}\n.json", "{\"endpoint\": 1,}");
        for command in [&["lint"][..], &["lint", "--format", "github"], &["validate"], &["lint", "--json"]] {
            check_harmless(&sandbox.run(command).code(1));
        }
    }
    check_harmless(&sandbox.run(&["hash", "\u{1b}[31m"]).code(2));
    check_harmless(&sandbox.run(&["explain", "\u{1b}[31m"]).code(1));
    check_harmless(&sandbox.run(&["new", "tool", "\u{1b}[31m"]).code(2));
}

#[test]
fn a_folder_where_a_file_belongs() {
    let sandbox = Sandbox::new();
    for command in ["hash", "canon"] {
        let ran = sandbox.run(&[command, "."]).code(2);
        assert_eq!(ran.stdout, "");
        assert_eq!(ran.stderr, "error[cli.is_a_folder]: . is a folder\nhint: name the file inside the folder\n");
    }
}

#[test]
fn a_file_that_is_not_there() {
    let sandbox = Sandbox::new();
    sandbox.write("file.json", "[]");
    for command in ["hash", "canon", "lint", "validate"] {
        for path in ["gone.json", "file.json/x"] {
            let ran = sandbox.run(&[command, path]).code(2);
            assert_eq!(ran.stdout, "");
            let expected = format!("error[cli.not_found]: {path} does not exist\n");
            assert!(ran.stderr.starts_with(&expected), "{}", ran.stderr);
        }
    }
}

#[test]
fn usage_errors_say_so_in_both_languages() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["lint", "--no-such-flag"]).code(2);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.starts_with("error: unexpected argument '--no-such-flag' found\n"), "{}", ran.stderr);
    let (code, envelope) = sandbox.run_json(&["lint", "--no-such-flag"]);
    assert_eq!(code, 2);
    assert_eq!(envelope["errors"][0]["code"], "cli.usage");
    assert_eq!(envelope["errors"][0]["message"], "unexpected argument '--no-such-flag' found");
    sandbox.run(&["lint", "--json", "--format", "sarif"]).code(2);
    assert!(sandbox.run(&[]).code(2).stderr.contains("Usage: toolcrib"));
    assert!(sandbox.run(&["--help"]).code(0).silent().stdout.contains("Usage: toolcrib"));
    assert!(sandbox.run(&["--version"]).code(0).silent().stdout.starts_with("toolcrib "));
}

#[test]
fn a_reader_who_leaves_early_is_no_failure() {
    let sandbox = Sandbox::new();
    sandbox.write("x.json", format!("{{\"endpoint\":[{}]}}", vec!["\"e\u{301}\""; 2_000].join(",")));
    for arguments in
        [&["lint", "x.json"][..], &["lint", "x.json", "--json"], &["canon", "x.json"], &["explain", "--list"], &["--help"]]
    {
        let mut child = sandbox.command(arguments).spawn().expect("the program starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("the program ends");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("ipe") && !said.contains("panic"), "{arguments:?}: {said}");
    }
}

/// Manifests and other JSON collected from the internet, if they are on this machine.
#[test]
fn files_from_the_wild_get_an_answer() {
    let Some(corpus) = toolcrib_testkit::corpus("") else { return };
    let sandbox = Sandbox::new();
    let corpus = corpus.to_str().expect("a path in Unicode");
    let ran = sandbox.run(&["lint", corpus, "--as", "consumer"]);
    assert!(ran.code < 2, "{}", ran.stderr);
    check_harmless(&ran);
    assert!(ran.stdout.lines().last().is_some_and(|line| line.contains(" files checked")));
    let (code, envelope) = sandbox.run_json(&["lint", corpus, "--as", "consumer"]);
    assert_eq!(code, ran.code);
    assert!(envelope["data"]["summary"]["files"].as_u64() > Some(10));
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::os::unix::fs::symlink;
    use std::process::Stdio;

    use super::*;
    use crate::example;

    #[test]
    fn an_endless_stdin_is_read_to_the_limit_only() {
        let sandbox = Sandbox::new();
        for (arguments, code) in [(&["lint", "-"][..], 1), (&["hash"], 1), (&["canon"], 1), (&["lint", "-", "--fix"], 1)] {
            let zero = File::open("/dev/zero").expect("a device");
            let ran = finish(sandbox.command(arguments).stdin(Stdio::from(zero)), b"").code(code);
            assert!(format!("{}{}", ran.stdout.chars().take(500).collect::<String>(), ran.stderr).contains("json.too_large"));
        }
        let ran = sandbox.run(&["lint", "/dev/zero"]).code(1);
        insta::assert_snapshot!(ran.stdout, @r"
        error[json.too_large]: the document is larger than the limit
         --> /dev/zero
          = expected: at most 1048576 bytes
          = got: more than that
          = hint: shrink the document: move long texts to a page and link it, and remove generated schemas that are not used
          = spec: ERC-8257 Manifest Parser Hardening

        1 file checked: 1 error
        ");
    }

    #[test]
    fn a_full_disk_is_told() {
        let sandbox = Sandbox::new();
        sandbox.write("x.json", example("tool-free.json"));
        for arguments in [&["canon", "x.json"][..], &["lint", "x.json", "--json"], &["hash", "x.json"], &["explain", "--list"]] {
            let full = File::options().write(true).open("/dev/full").expect("a device");
            let ran = finish(sandbox.command(arguments).stdout(Stdio::from(full)), b"").code(2);
            let said = if arguments.contains(&"--json") { "" } else { "error[cli.output]: cannot write the result: " };
            assert!(ran.stderr.starts_with(said), "{arguments:?}: {}", ran.stderr);
        }
    }

    #[test]
    fn links_in_circles_are_not_followed() {
        let sandbox = Sandbox::new();
        sandbox.write("a/tool.json", example("tool-free.json"));
        symlink("..", sandbox.path().join("a/up")).expect("a link");
        symlink("self.json", sandbox.path().join("a/self.json")).expect("a link");
        symlink("/dev/zero", sandbox.path().join("a/zero.json")).expect("a link");
        assert_eq!(sandbox.run(&["lint"]).code(0).silent().stdout, "1 file checked: no findings\n");
        // A link that is given as an argument is followed, if it is not dangling.
        assert_eq!(sandbox.run(&["lint", "a/up/a/tool.json"]).code(0).stdout, "1 file checked: no findings\n");
        let ran = sandbox.run(&["lint", "a/self.json"]).code(2);
        assert!(ran.stderr.starts_with("error[cli.unreadable]: cannot read a/self.json: "), "{}", ran.stderr);
    }

    #[test]
    fn a_name_that_is_no_text() {
        use std::os::unix::ffi::OsStrExt;
        let sandbox = Sandbox::new();
        let name = std::ffi::OsStr::from_bytes(b"\xff\xfe.json");
        fs::write(sandbox.path().join(name), example("tool-free.json")).expect("a file");
        assert_eq!(sandbox.run(&["validate"]).code(0).stdout.split("  ").nth(1), Some("\u{fffd}\u{fffd}.json"));
    }
}
