//! `lint --fix`: what it changes, and what it leaves unchanged.

use std::fs;

use crate::{Sandbox, example};

fn decomposed() -> String {
    example("tool-free.json").replace("Tide table", "Marée cafe\u{301}")
}

#[test]
fn a_file_is_mended_in_place_and_the_change_is_told() {
    let sandbox = Sandbox::new();
    sandbox.write("tool.json", decomposed());
    let ran = sandbox.run(&["lint", "--fix", "tool.json"]).code(0).silent();
    insta::assert_snapshot!(ran.stdout, @r"
    fixed tool.json:3: normalise the text to NFC (json.not_nfc)

    1 file checked, 1 fixed: no findings
    ");
    assert_eq!(sandbox.read("tool.json"), decomposed().replace("e\u{301}", "\u{e9}"), "nothing else changed");
    assert_eq!(sandbox.run(&["lint", "--fix", "tool.json"]).code(0).stdout, "1 file checked: no findings\n");
    let left: Vec<_> = fs::read_dir(sandbox.path()).expect("folder").map(|entry| entry.expect("entry").file_name()).collect();
    assert_eq!(left, ["tool.json"], "no temporary file is left");
}

#[test]
fn what_the_mark_hid_is_mended_too() {
    let sandbox = Sandbox::new();
    sandbox.write("tool.json", format!("\u{feff}{}", decomposed()));
    let (code, envelope) = sandbox.run_json(&["lint", "--fix", "tool.json"]);
    assert_eq!(code, 0, "{envelope:#}");
    let fixed: Vec<_> =
        envelope["data"]["files"][0]["fixed"].as_array().expect("a list").iter().map(|fix| fix["code"].clone()).collect();
    assert_eq!(fixed, ["json.bom", "json.not_nfc"]);
    assert!(sandbox.read("tool.json").starts_with('{'));
}

#[test]
fn a_fix_that_would_make_two_equal_keys_is_not_applied() {
    let sandbox = Sandbox::new();
    let text = "{\"endpoint\": \"x\", \"caf\u{e9}\": 1, \"cafe\u{301}\": 2}";
    sandbox.write("tool.json", text);
    let ran = sandbox.run(&["lint", "--fix", "tool.json"]).code(1);
    assert!(ran.stdout.contains("error[json.key_not_nfc]"), "{}", ran.stdout);
    let kept = sandbox.read("tool.json");
    assert!(kept.ends_with(&text[1..]), "{kept}");
}

#[test]
fn stdin_is_mended_onto_stdout_and_the_report_goes_beside_it() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run_with_stdin(&["lint", "--fix", "-"], decomposed().as_bytes()).code(0);
    assert_eq!(ran.stdout, decomposed().replace("e\u{301}", "\u{e9}"));
    assert!(ran.stderr.contains("1 file checked, 1 fixed: no findings"), "{}", ran.stderr);
    // Without anything to fix, the text passes through, so that a pipe can rely on it.
    let whole = example("tool-free.json");
    assert_eq!(sandbox.run_with_stdin(&["lint", "--fix", "-", "-q"], whole.as_bytes()).code(0).silent().stdout, whole);
}

#[test]
fn formats_for_machines_tell_what_was_mended_beside_the_result() {
    let sandbox = Sandbox::new();
    sandbox.write("tool.json", decomposed());
    let ran = sandbox.run(&["lint", "--fix", "--format", "github"]).code(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", "fixed tool.json:3: normalise the text to NFC (json.not_nfc)\n"));
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn permissions_and_links_stay() {
        let sandbox = Sandbox::new();
        let path = sandbox.write("real/tool.json", decomposed());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("permissions");
        symlink("real/tool.json", sandbox.path().join("link.json")).expect("a link");
        sandbox.run(&["lint", "--fix", "link.json"]).code(0);
        assert!(fs::symlink_metadata(sandbox.path().join("link.json")).expect("still there").is_symlink());
        assert_eq!(fs::metadata(&path).expect("still there").permissions().mode() & 0o777, 0o640);
        assert!(!sandbox.read("real/tool.json").contains('\u{301}'));
    }

    #[test]
    fn a_file_without_fixes_is_not_touched() {
        let sandbox = Sandbox::new();
        let path = sandbox.write("tool.json", example("tool-free.json"));
        let before = fs::metadata(&path).expect("metadata");
        sandbox.run(&["lint", "--fix", "tool.json"]).code(0);
        let after = fs::metadata(&path).expect("metadata");
        assert_eq!((before.ino(), before.mtime_nsec()), (after.ino(), after.mtime_nsec()));
    }

    #[test]
    fn a_read_only_file_stays_as_it_is() {
        let sandbox = Sandbox::new();
        let path = sandbox.write("tool.json", decomposed());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).expect("permissions");
        let ran = sandbox.run(&["lint", "--fix", "tool.json"]).code(2);
        assert!(ran.stderr.starts_with("error[cli.unwritable]: tool.json is read-only\n"), "{}", ran.stderr);
        assert!(ran.stdout.contains("json.not_nfc") && !ran.stdout.contains("fixed"), "{}", ran.stdout);
        assert_eq!(sandbox.read("tool.json"), decomposed());
    }
}
