//! Permissions of local tools: verdicts, approvals, policy files, several processes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use toolcrib_core::clock::Clock as _;
use toolcrib_host::local::permissions::{
    ArgumentPattern, Decision, Definition, Grant, Lifetime, Matcher, PermissionError, Permissions, Policy, Reason, Request,
    RuleId,
};

use crate::local_support::{assert_success, child, child_with_small_files, content, private_folder};
use toolcrib_testkit::clock::MovingClock;

const CHILD: &str = "TOOLCRIB_TEST_LOCAL_PERMISSIONS";

fn request<'r>(tool: &'r str, function: &'r str, hash: u8, arguments: &'r Value) -> Request<'r> {
    Request { tool, function, content: content(hash), arguments, interactive: true }
}

fn headless(request: Request<'_>) -> Request<'_> {
    Request { interactive: false, ..request }
}

fn permissions(folder: &Path) -> Permissions {
    Permissions::new(folder, Arc::new(MovingClock::new()))
}

fn pattern(pointer: &str, matcher: Matcher) -> ArgumentPattern {
    ArgumentPattern::new(pointer, matcher).unwrap()
}

#[test]
fn unknown_tools_are_asked_about_or_denied() {
    let place = private_folder();
    let permissions = permissions(place.path());
    let arguments = json!({});
    let verdict = permissions.decide(&request("shell", "execute", 1, &arguments)).unwrap();
    assert_eq!((verdict.decision, &verdict.reason, verdict.rule), (Decision::Ask, &Reason::NoRule, None));
    assert_eq!(verdict.code().unwrap().id(), "permission.required");
    let verdict = permissions.decide(&headless(request("shell", "execute", 1, &arguments))).unwrap();
    assert_eq!((verdict.decision, &verdict.reason), (Decision::Deny, &Reason::NoRule));
    assert_eq!(verdict.code().unwrap().id(), "permission.headless");
    assert_eq!(verdict.text(), "deny: no rule is about this function, and no person can be asked");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "deciding writes nothing");
}

#[test]
fn an_approval_is_for_one_content() {
    let place = private_folder();
    let clock = Arc::new(MovingClock::new());
    let permissions = Permissions::new(place.path(), clock.clone());
    let arguments = json!({});
    permissions.grant(Grant::allow("shell", content(1)).function("execute").lifetime(Lifetime::Always)).unwrap();
    let allowed = permissions.decide(&headless(request("shell", "execute", 1, &arguments))).unwrap();
    assert_eq!((allowed.decision, allowed.rule, allowed.code()), (Decision::Allow, Some(RuleId::Stored(1)), None));
    // Another function, another tool, another content.
    for (tool, function) in [("shell", "delete"), ("other", "execute")] {
        let verdict = permissions.decide(&request(tool, function, 1, &arguments)).unwrap();
        assert_eq!((verdict.decision, verdict.reason), (Decision::Ask, Reason::NoRule));
    }
    let changed = permissions.decide(&request("shell", "execute", 2, &arguments)).unwrap();
    assert_eq!((changed.decision, &changed.reason), (Decision::Ask, &Reason::ContentChanged { granted_for: content(1) }));
    assert_eq!(changed.code().unwrap().id(), "permission.content_changed");
    let changed = permissions.decide(&headless(request("shell", "execute", 2, &arguments))).unwrap();
    assert_eq!(changed.decision, Decision::Deny);

    // Approved again. If the old content comes back, it needs approval.
    clock.advance(1);
    permissions.grant(Grant::allow("shell", content(2)).function("execute").lifetime(Lifetime::Always)).unwrap();
    assert_eq!(permissions.decide(&request("shell", "execute", 2, &arguments)).unwrap().decision, Decision::Allow);
    let back = permissions.decide(&request("shell", "execute", 1, &arguments)).unwrap();
    assert_eq!(back.reason, Reason::ContentChanged { granted_for: content(2) });
    // Another process sees the same rules.
    let other = self::permissions(place.path());
    assert_eq!(other.decide(&request("shell", "execute", 2, &arguments)).unwrap().decision, Decision::Allow);
    assert_eq!(other.list().unwrap().len(), 1);
}

#[test]
fn deny_wins_over_allow_and_allow_over_ask() {
    let place = private_folder();
    let permissions = permissions(place.path());
    let rm = json!({"command": "rm -rf /", "cwd": "/home"});
    let ls = json!({"command": "ls", "cwd": "/home"});
    permissions.grant(Grant::ask("shell").lifetime(Lifetime::Always)).unwrap();
    let verdict = permissions.decide(&request("shell", "execute", 1, &ls)).unwrap();
    assert_eq!((verdict.decision, verdict.reason), (Decision::Ask, Reason::AskRule));
    permissions.grant(Grant::allow("shell", content(1)).lifetime(Lifetime::Always)).unwrap();
    assert_eq!(permissions.decide(&request("shell", "execute", 1, &rm)).unwrap().decision, Decision::Allow);
    permissions
        .grant(Grant::deny("shell").argument(pattern("/command", Matcher::Prefix("rm".to_owned()))).lifetime(Lifetime::Always))
        .unwrap();
    // More patterns do not override a deny rule.
    let specific = Grant::allow("shell", content(1))
        .function("execute")
        .argument(pattern("/command", Matcher::Equals(json!("rm -rf /"))))
        .argument(pattern("/cwd", Matcher::Equals(json!("/home"))));
    permissions.grant(specific).unwrap();
    for hash in [1, 2] {
        let verdict = permissions.decide(&request("shell", "execute", hash, &rm)).unwrap();
        assert_eq!((verdict.decision, &verdict.reason), (Decision::Deny, &Reason::DenyRule), "deny holds for every content");
        assert_eq!(verdict.code().unwrap().id(), "permission.denied");
    }
    assert_eq!(permissions.decide(&request("shell", "execute", 1, &ls)).unwrap().decision, Decision::Allow);
}

#[test]
fn arguments_must_all_match() {
    let place = private_folder();
    let permissions = permissions(place.path());
    let grant = Grant::allow("files", content(1))
        .function("read")
        .argument(pattern("/path", Matcher::Within("/home/ann".to_owned())))
        .argument(pattern("/limit", Matcher::Max(10.into())));
    permissions.grant(grant).unwrap();
    for (arguments, expected) in [
        (json!({"path": "/home/ann/x", "limit": 5}), Decision::Allow),
        (json!({"path": "/home/ann/../bob/x", "limit": 5}), Decision::Ask),
        (json!({"path": "/home/ann/x", "limit": 50}), Decision::Ask),
        (json!({"path": "/home/ann/x"}), Decision::Ask),
        (json!({"path": ["/home/ann/x"], "limit": 5}), Decision::Ask),
        (json!({"path": "/home/ann/x", "limit": "5"}), Decision::Ask),
        (json!([]), Decision::Ask),
    ] {
        let verdict = permissions.decide(&request("files", "read", 1, &arguments)).unwrap();
        assert_eq!(verdict.decision, expected, "{arguments}");
        if expected == Decision::Ask {
            assert_eq!(verdict.reason, Reason::NotCovered);
        }
    }
}

#[test]
fn an_approval_for_one_call_is_used_once() {
    let place = private_folder();
    let permissions = Arc::new(permissions(place.path()));
    let (arguments, other) = (json!({"command": "ls"}), json!({"command": "ls", "cwd": "/"}));
    let wanted = request("shell", "execute", 1, &arguments);
    permissions.grant(Grant::call(&wanted)).unwrap();
    assert_eq!(permissions.preview(&wanted).unwrap().decision, Decision::Allow, "a preview uses nothing up");
    assert_eq!(permissions.decide(&request("shell", "execute", 1, &other)).unwrap().decision, Decision::Ask);
    assert_eq!(permissions.decide(&request("shell", "execute", 2, &arguments)).unwrap().decision, Decision::Ask);
    // Many concurrent calls: exactly one of them uses it.
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let permissions = Arc::clone(&permissions);
            std::thread::spawn(move || {
                let arguments = json!({"command": "ls"});
                permissions.decide(&request("shell", "execute", 1, &arguments)).unwrap().decision
            })
        })
        .collect();
    let allowed =
        threads.into_iter().map(|thread| thread.join().unwrap()).filter(|decision| *decision == Decision::Allow).count();
    assert_eq!(allowed, 1);
    assert!(permissions.list().unwrap().is_empty());
    assert!(!permissions.path().exists(), "it is never written");

    // An unneeded approval is not used up.
    permissions.grant(Grant::call(&wanted)).unwrap();
    permissions.grant(Grant::allow("shell", content(1))).unwrap();
    assert_eq!(permissions.decide(&wanted).unwrap().decision, Decision::Allow);
    assert_eq!(permissions.list().unwrap().len(), 2);
}

#[test]
fn approvals_expire_and_are_revoked() {
    let place = private_folder();
    let clock = Arc::new(MovingClock::new());
    let permissions = Permissions::new(place.path(), clock.clone());
    let arguments = json!({});
    let wanted = request("shell", "execute", 1, &arguments);
    let expires = clock.now().plus(60);
    permissions.grant(Grant::allow("shell", content(1)).expires(expires).lifetime(Lifetime::Always)).unwrap();
    assert_eq!(permissions.decide(&wanted).unwrap().decision, Decision::Allow);
    clock.advance(60);
    let verdict = permissions.decide(&wanted).unwrap();
    assert_eq!((verdict.decision, verdict.reason), (Decision::Ask, Reason::Expired { at: expires }));

    let stored = permissions.grant(Grant::allow("shell", content(1)).lifetime(Lifetime::Always)).unwrap();
    let session = permissions.grant(Grant::allow("shell", content(1))).unwrap();
    assert_eq!(permissions.list().unwrap().len(), 2, "the expired rule is gone");
    assert_eq!(
        (stored.to_string().parse::<RuleId>().unwrap(), session.to_string().parse::<RuleId>().unwrap()),
        (stored, session)
    );
    assert_eq!(permissions.revoke(stored).unwrap().id, stored);
    assert_eq!(permissions.decide(&wanted).unwrap().decision, Decision::Allow, "the session still allows");
    permissions.revoke(session).unwrap();
    assert_eq!(permissions.decide(&wanted).unwrap().decision, Decision::Ask);
    for id in [stored, session] {
        assert_eq!(permissions.revoke(id).unwrap_err().code().id(), "permission.rule_not_found");
    }
    assert_eq!(permissions.revoke(RuleId::Policy(1)).unwrap_err().code().id(), "permission.rule_read_only");
    // Ids are never reused: a late revocation cannot remove another rule.
    assert_ne!(permissions.grant(Grant::allow("shell", content(1)).lifetime(Lifetime::Always)).unwrap(), stored);
    permissions.grant(Grant::deny("shell").function("delete").lifetime(Lifetime::Always)).unwrap();
    assert_eq!(permissions.forget_tool("shell").unwrap(), 1);
    assert_eq!(permissions.list().unwrap().len(), 1, "deny rules stay");
}

#[test]
fn a_prompt_can_say_what_changed() {
    let place = private_folder();
    let permissions = permissions(place.path());
    let old = Definition::new("1.0.0", "Lists files", &json!({"type": "object"}));
    let grant = Grant::allow("files", content(1)).function("list").lifetime(Lifetime::Always).definition("list", old.clone());
    permissions.grant(grant).unwrap();
    let permissions = self::permissions(place.path());
    let changed = permissions.changed("files", "list", &content(2), &old).unwrap().unwrap();
    assert!(changed.handler_only);
    let new = Definition::new("1.1.0", "Lists files, then sends them", &json!({"type": "object", "required": ["to"]}));
    let changed = permissions.changed("files", "list", &content(2), &new).unwrap().unwrap();
    assert_eq!(changed.description, Some(("Lists files".to_owned(), "Lists files, then sends them".to_owned())));
    assert!(changed.parameters && !changed.handler_only);
    assert_eq!(permissions.changed("files", "list", &content(1), &new).unwrap(), None, "the same content");
    assert_eq!(permissions.changed("files", "read", &content(2), &new).unwrap(), None);
}

#[test]
fn a_policy_allows_calls_without_a_person() {
    let place = private_folder();
    let path = place.path().join("policy.toml");
    let text = format!(
        r#"
        version = 1
        [[rule]]
        tool = "clock"
        decision = "allow"
        content = "any"
        [[rule]]
        tool = "shell"
        function = "execute"
        decision = "allow"
        content = "{}"
        arguments = [{{ pointer = "/command", one_of = ["ls", "pwd"] }}]
        [[rule]]
        tool = "*"
        function = "delete"
        decision = "deny"
        "#,
        content(1)
    );
    fs::write(&path, &text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let permissions = permissions(&place.path().join("state")).with_policy(Policy::read(&path).unwrap());
    let (ls, rm) = (json!({"command": "ls"}), json!({"command": "rm"}));
    for (tool, function, hash, arguments, expected) in [
        ("clock", "now", 7, &ls, Decision::Allow),
        ("clock", "delete", 7, &ls, Decision::Deny),
        ("shell", "execute", 1, &ls, Decision::Allow),
        ("shell", "execute", 1, &rm, Decision::Deny),
        ("shell", "execute", 2, &ls, Decision::Deny),
        ("other", "execute", 1, &ls, Decision::Deny),
    ] {
        let verdict = permissions.decide(&headless(request(tool, function, hash, arguments))).unwrap();
        assert_eq!(verdict.decision, expected, "{tool} {function} {hash} {arguments}");
    }
    // A user's approval does not override the operator's deny rule.
    permissions.grant(Grant::allow("clock", content(7)).function("delete")).unwrap();
    let verdict = permissions.decide(&request("clock", "delete", 7, &ls)).unwrap();
    assert_eq!((verdict.decision, verdict.rule), (Decision::Deny, Some(RuleId::Policy(3))));

    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(Policy::read(&path).unwrap_err().code().id(), "permission.exposed");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, text.replace("function = \"delete\"", "functoin = \"delete\"")).unwrap();
    let error = Policy::read(&path).unwrap_err();
    assert_eq!(error.code().id(), "permission.policy");
    assert!(error.to_string().contains("did you mean `function`?") && error.to_string().contains("rule 3"), "{error}");
    assert_eq!(Policy::read(&place.path().join("missing")).unwrap_err().code().id(), "permission.storage");
}

#[test]
fn a_damaged_file_allows_nothing() {
    let place = private_folder();
    let permissions = permissions(place.path());
    let arguments = json!({});
    let wanted = request("shell", "execute", 1, &arguments);
    permissions.grant(Grant::deny("shell").lifetime(Lifetime::Always)).unwrap();
    let text = fs::read_to_string(permissions.path()).unwrap();
    for damaged in [
        String::new(),
        text[..text.len() / 2].to_owned(),
        text.replace("\"format\": 1", "\"format\": 9"),
        text.replace("\"tool\": \"shell\"", "\"tool\": \"../shell\""),
        text.replace("\"deny\"", "\"allow\""),
        text.replace("\"decision\"", "\"extra\": 1, \"decision\""),
    ] {
        fs::write(permissions.path(), &damaged).unwrap();
        // Also if the file was read before.
        for permissions in [&permissions, &self::permissions(place.path())] {
            assert_eq!(permissions.decide(&wanted).unwrap_err().code().id(), "permission.malformed", "{damaged}");
        }
        let error = permissions.grant(Grant::allow("a", content(1)).lifetime(Lifetime::Always)).unwrap_err();
        assert_eq!(error.code().id(), "permission.malformed");
        assert_eq!(fs::read_to_string(permissions.path()).unwrap(), damaged, "nothing is overwritten");
    }
    fs::write(permissions.path(), &text).unwrap();
    assert_eq!(permissions.decide(&wanted).unwrap().decision, Decision::Deny);
    fs::set_permissions(permissions.path(), fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(self::permissions(place.path()).decide(&wanted).unwrap_err().code().id(), "permission.exposed");
}

#[test]
fn rules_that_are_not_valid_are_refused() {
    let place = private_folder();
    let permissions = permissions(place.path());
    let many = (0..40).fold(Grant::deny("a"), |grant, _| grant.argument(pattern("/x", Matcher::Prefix(String::new()))));
    let wrong = ArgumentPattern { pointer: "x".to_owned(), matcher: Matcher::Prefix(String::new()) };
    for grant in [
        Grant::deny("../a"),
        Grant::deny(""),
        Grant::deny("*"),
        Grant::deny("a").function("b c"),
        Grant::deny("a").argument(wrong),
        many,
    ] {
        assert!(matches!(permissions.grant(grant.clone()), Err(PermissionError::Rule(_))), "{grant:?}");
        assert!(matches!(permissions.grant(grant.lifetime(Lifetime::Always)), Err(PermissionError::Rule(_))));
    }
    assert!("session-x".parse::<RuleId>().is_err());
}

#[test]
fn several_processes_lose_no_rule() {
    let place = private_folder();
    let watching = permissions(place.path());
    assert!(watching.list().unwrap().is_empty());
    let children: Vec<_> = (0..4)
        .map(|number| {
            let task = format!("grant,{number},{}", place.path().display());
            child("local_permissions::child_process", CHILD, &task).spawn().unwrap()
        })
        .collect();
    for process in children {
        assert_success(&process.wait_with_output().unwrap());
    }
    // A process that read the file before sees the new one.
    let rules = watching.list().unwrap();
    assert_eq!(rules.len(), 32);
    let mut ids: Vec<_> = rules.iter().map(|rule| rule.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 32);
}

#[test]
fn a_full_disk_is_an_error_and_changes_nothing() {
    let place = private_folder();
    let permissions = permissions(place.path());
    permissions.grant(Grant::deny("shell").lifetime(Lifetime::Always)).unwrap();
    let before = fs::read(permissions.path()).unwrap();
    assert_success(&child_with_small_files(
        "local_permissions::child_process",
        CHILD,
        &format!("full,0,{}", place.path().display()),
    ));
    assert_eq!(fs::read(permissions.path()).unwrap(), before);
}

/// The child processes of the tests above.
#[test]
fn child_process() {
    let Ok(task) = std::env::var(CHILD) else { return };
    let mut parts = task.splitn(3, ',');
    let (action, number, place) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    let permissions = permissions(Path::new(place));
    match action {
        "grant" => {
            for index in 0..8 {
                let grant = Grant::allow(&format!("tool{number}"), content(1)).function(&format!("f{index}"));
                permissions.grant(grant.lifetime(Lifetime::Always)).unwrap();
            }
        }
        "full" => {
            let large = pattern("/x", Matcher::Prefix("x".repeat(4_000)));
            let error = permissions.grant(Grant::deny("a").argument(large).lifetime(Lifetime::Always)).unwrap_err();
            assert_eq!(error.code().id(), "permission.storage", "{error}");
        }
        other => panic!("{other}"),
    }
}

/// A slow reference implementation of globs.
fn slow_glob(pattern: &[char], text: &[char]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some(('*', rest)) => (0..=text.len()).any(|skip| slow_glob(rest, &text[skip..])),
        Some((c, rest)) => text.first() == Some(c) && slow_glob(rest, &text[1..]),
    }
}

proptest! {
    #[test]
    fn the_glob_is_right(pattern_text in "[ab*]{0,8}", text in "[ab]{0,10}") {
        let characters = |text: &str| text.chars().collect::<Vec<_>>();
        let expected = slow_glob(&characters(&pattern_text), &characters(&text));
        let pattern = pattern("", Matcher::Glob(pattern_text));
        prop_assert_eq!(pattern.matches(&Value::String(text)), expected);
    }

    #[test]
    fn nothing_outside_a_folder_is_within_it(parts in prop::collection::vec("[ab]|\\.|\\.\\.|", 0..8)) {
        let path = format!("/{}", parts.join("/"));
        let mut real: Vec<&str> = Vec::new();
        for part in &parts {
            match part.as_str() {
                ".." => { real.pop(); }
                "" | "." => {}
                part => real.push(part),
            }
        }
        let pattern = pattern("", Matcher::Within("/a/b".to_owned()));
        prop_assert_eq!(pattern.matches(&Value::String(path)), real.starts_with(&["a", "b"]));
    }

    #[test]
    fn no_set_of_approvals_overrides_a_deny_rule_or_another_content(
        grants in prop::collection::vec((0_u8..3, 0_u8..2, any::<bool>(), any::<bool>()), 0..8), asked in 0_u8..3,
    ) {
        let place = private_folder();
        let permissions = permissions(place.path());
        let arguments = json!({"x": 1});
        let (mut denied, mut allowed) = (false, false);
        for (hash, function, is_deny, covers) in grants {
            let (function_name, value) = (["f", "g"][usize::from(function)], if covers { json!(1) } else { json!(2) });
            let grant = if is_deny { Grant::deny("t") } else { Grant::allow("t", content(hash)) };
            permissions.grant(grant.function(function_name).argument(pattern("/x", Matcher::Equals(value)))).unwrap();
            let is_about = function == 0 && covers;
            denied |= is_about && is_deny;
            allowed |= is_about && !is_deny && hash == asked;
        }
        let request = Request { tool: "t", function: "f", content: content(asked), arguments: &arguments, interactive: false };
        let expected = if allowed && !denied { Decision::Allow } else { Decision::Deny };
        prop_assert_eq!(permissions.decide(&request).unwrap().decision, expected);
    }
}

#[test]
fn content_hashes_of_a_policy_are_checked() {
    let text = "version = 1\n[[rule]]\ntool = \"a\"\ndecision = \"allow\"\ncontent = \"sha256:1\"";
    assert!(text.parse::<Policy>().unwrap_err().to_string().contains("not a content hash"));
}
