//! The documented exit codes match those of the program.

use std::fs;
use std::path::Path;

use crate::Sandbox;
use crate::discovery::one_answer;

/// The numbers of list items such as `0 yes, 1 no (…), 2 …` and `0: yes. 1: no (…). 2: …`.
fn listed(text: &str, from: &str, to: &str) -> Vec<i32> {
    let start = text.find(from).unwrap_or_else(|| panic!("no `{from}` in {text}"));
    let list = &text[start + from.len()..];
    let list = &list[..list.find(to).unwrap_or_else(|| panic!("no `{to}` after `{from}`"))];
    let words: Vec<_> = list.split_whitespace().collect();
    let mut before = "";
    let mut found = Vec::new();
    for word in words {
        let begins = before.is_empty() || before.ends_with([',', '.', ')']);
        found.extend(word.trim_end_matches(':').parse::<i32>().ok().filter(|_| begins));
        before = word;
    }
    found
}

#[test]
fn every_documented_exit_code_is_produced() {
    let sandbox = Sandbox::new();
    let document = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
        fs::read_to_string(path).expect("a document")
    };
    let help = sandbox.run(&["--help"]).code(0).stdout;
    for (text, from, to) in [
        (help, "Exit codes:", "The result goes"),
        (document("docs/output.md"), "**The exit code is the answer.**", "If some files"),
        (document("README.md"), "Exit codes:", "[docs/cli.md]"),
    ] {
        assert_eq!(listed(&text, from, to), [0, 1, 2, 3], "{from}");
    }

    sandbox.run(&["explain", "json.duplicate_key"]).code(0);
    sandbox.write("broken.json", "{}");
    sandbox.run(&["lint", "broken.json"]).code(1);
    sandbox.run(&["lint", "missing.json"]).code(2);
    sandbox.run(&["--no-such-option"]).code(2);
    let answer = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 17\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let (url, sent) = one_answer(answer.to_owned());
    let ran = sandbox.run(&["tools", "list", "--directory", &url]).code(3);
    assert!(ran.stderr.contains("try again in 17 s"), "{}", ran.stderr);
    sent.join().expect("served");
}
