//! Actions of a user on the settings page, and their effect on the host.

use std::fs;

use serde_json::json;
use tokio::sync::mpsc;
use toolcrib_host::local::audit::{Entry, Event, Filter};
use toolcrib_host::local::permissions::{ArgumentPattern, Decision, Grant, Lifetime, Matcher};
use toolcrib_host::local::secrets::Lookup;
use toolcrib_host::local::{CallError, CallRequest, Events};

use crate::page_support::{Stage, manifest, write_tool};

impl Stage {
    /// Tries a call without approval. It is refused in any case; the reason matters.
    async fn call(&self, function: &str) -> CallError {
        let (sender, _events) = mpsc::channel(8);
        let request = CallRequest {
            tool: "greeter",
            function,
            arguments: json!({}),
            caller: "cli",
            interactive: true,
            approval: None,
            limit: None,
            events: Events::new(sender),
        };
        self.host.call(request).await.expect_err("nothing approves it, and no credential is set")
    }

    /// The newest entries of an event.
    fn entries(&self, event: Event) -> Vec<Entry> {
        let filter = Filter { events: vec![event], ..Filter::default() };
        let mut entries = self.host.audit().read(&filter, 100).unwrap().entries;
        entries.reverse();
        entries
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_tool_and_every_problem_is_shown() {
    let fill = |tools: &std::path::Path| {
        write_tool(tools, "greeter", &manifest("greeter", json!({})));
        write_tool(tools, "plain", &manifest("plain", json!({"name": "Plain", "credentials": []})));
        let runtime = json!({"kind": "exec", "command": ["no-such-program-anywhere"]});
        write_tool(tools, "broken", &manifest("broken", json!({"name": "Broken", "runtime": runtime, "credentials": []})));
        write_tool(tools, "wrong", &json!({"id": "wrong"}));
        fs::create_dir(tools.join("empty")).unwrap();
    };
    let stage = Stage::with(fill, None).await;
    let browser = stage.sign_in().await;
    let list = browser.get("/").await;
    list.has(&["Greeter", "Plain", "Broken", "1.2.3", "Greets people.", "UNSANDBOXED", "1 credential missing", "cannot run"]);
    list.has(&["Folders with problems", "host.manifest_invalid", "host.manifest_missing", "empty", "enabled"]);
    let tool = browser.get("/tools/greeter").await;
    tool.has(&[
        "greeter",
        "1.2.3",
        &stage.content(),
        "UNSANDBOXED",
        "Without a sandbox nothing limits it",
        "hello",
        "Says hello.",
        "wipe",
        "greeter_wipe",
    ]);
    tool.has(&["read-only", "this machine only", "may destroy (nothing claimed)", "python3", "No rule is about this tool"]);
    let broken = browser.get("/tools/broken").await;
    broken.has(&["no-such-program-anywhere", "host.runtime_unsupported"]);
    let checks = browser.get("/checks").await;
    for check in stage.host.doctor() {
        checks.has(&[&check.name]);
    }
    checks.has(&["not set: api_key", "runtime of broken", "problems."]);
    let unknown = browser.get("/tools/nothing").await;
    assert_eq!(unknown.status, 404);
    unknown.has(&["host.tool_unknown"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_is_disabled_and_enabled() {
    let stage = Stage::open().await;
    let browser = stage.sign_in().await;
    let enabled = |stage: &Stage| stage.host.is_enabled(&stage.host.tools().tools()["greeter"]);
    assert!(enabled(&stage));
    assert!(matches!(stage.call("hello").await, CallError::NeedsApproval(_)));
    let page = browser.submit("disable", &[("tool", "greeter")]).await;
    page.has(&["disabled", "every call is refused", "Enable", "Never runs while the tool is disabled (rule 1)."]);
    assert!(!enabled(&stage));
    for function in ["hello", "wipe"] {
        assert!(matches!(stage.call(function).await, CallError::Denied { .. }), "{function}");
    }
    // It stays disabled when its files change, and disabling it again has no effect.
    stage.change("main.py", "changed = True\n");
    browser.submit("disable", &[("tool", "greeter")]).await;
    assert!(!enabled(&stage));
    assert_eq!(stage.host.permissions().list().unwrap().len(), 1);
    let recorded = stage.entries(Event::PermissionChanged);
    assert_eq!(recorded.len(), 1);
    let details = &recorded[0].details;
    assert_eq!(
        (details.client.as_deref(), details.tool.as_deref(), details.decision.as_deref()),
        (Some("page"), Some("greeter"), Some("deny"))
    );

    let page = browser.submit("enable", &[("tool", "greeter")]).await;
    page.has(&["The tool is enabled."]);
    assert!(enabled(&stage) && stage.host.permissions().list().unwrap().is_empty());
    assert!(matches!(stage.call("hello").await, CallError::NeedsApproval(_)));
    assert_eq!(stage.entries(Event::PermissionChanged)[0].details.detail.as_deref(), Some("rule 1 revoked"));
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_of_the_policy_file_are_shown_and_stay() {
    let policy = "version = 1\n[[rule]]\ntool = \"greeter\"\ndecision = \"deny\"\n";
    let fill = |tools: &std::path::Path| write_tool(tools, "greeter", &manifest("greeter", json!({})));
    let stage = Stage::with(fill, Some(policy)).await;
    let browser = stage.sign_in().await;
    browser.get("/").await.has(&["disabled"]);
    browser.submit("enable", &[("tool", "greeter")]).await.has(&["stays disabled"]);
    browser.get("/rules").await.has(&["policy-1", "policy file", "every version"]);
    let refused = browser.form("revoke", &[("rule", "policy-1")]).send(stage.address).await;
    assert_eq!(refused.status, 409);
    refused.has(&["permission.rule_read_only"]);
    let unknown = browser.form("revoke", &[("rule", "7")]).send(stage.address).await;
    unknown.has(&["permission.rule_not_found"]);
}

// req: LOCAL-006
#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_stored_replaced_given_to_a_changed_tool_and_removed() {
    let stage = Stage::open().await;
    let browser = stage.sign_in().await;
    let value = |stage: &Stage| {
        let tools = stage.host.tools();
        match stage.host.secrets().get("greeter", "api_key", &tools.tools()["greeter"].content()).unwrap() {
            Lookup::Value { secret, .. } => Some(secret.expose().to_owned()),
            _ => None,
        }
    };
    let page = browser.get("/tools/greeter").await;
    page.has(&["Key of the service", "From your account page.", "not set", "required", "type=\"password\"", "Store"]);
    let content = stage.content();
    let fields =
        |value: &'static str| [("tool", "greeter"), ("content", content.as_str()), ("name", "api_key"), ("value", value)];
    let page = browser.submit("credential", &fields("first & <second> ä+")).await;
    page.has(&["The credential is stored", "Replace", "Remove", "2027-01-15"]);
    page.lacks(&["not set", "credential missing"]);
    assert_eq!(value(&stage).as_deref(), Some("first & <second> ä+"));
    browser.submit("credential", &fields("other")).await;
    assert_eq!(value(&stage).as_deref(), Some("other"));
    let empty = browser.form("credential", &fields("")).send(stage.address).await;
    assert_eq!(empty.status, 409);
    empty.has(&["secret.value"]);
    let unknown = browser.form("credential", &[("tool", "greeter"), ("content", &content), ("name", "nope"), ("value", "x")]);
    unknown.send(stage.address).await.has(&["host.tool_unknown", "api_key"]);

    // The tool changes: it loses the credential, the page shows what changed, and the old form is rejected.
    let changed = manifest("greeter", json!({"version": "1.3.0", "description": "Greets everybody."}));
    stage.change("manifest.json", &changed.to_string());
    fs::write(stage.tools().join("greeter/extra.py"), "pass\n").unwrap();
    stage.change("main.py", "changed = True\n");
    assert_eq!(value(&stage), None);
    let stale = browser.form("credential", &fields("late")).send(stage.address).await;
    assert_eq!(stale.status, 409);
    stale.has(&["host.page_stale"]);
    let page = browser.get("/tools/greeter").await;
    page.has(&["The tool changed", "set for an earlier version", "Version 1.2.3 is now 1.3.0", "Greets everybody."]);
    page.has(&["<code>main.py</code>: changed", "<code>extra.py</code>: new", "Give the stored credentials to this version"]);
    let stale = browser.form("rebind", &[("tool", "greeter"), ("content", &content)]).send(stage.address).await;
    assert_eq!(stale.status, 409);
    assert_eq!(value(&stage), None);
    let page = browser.submit("rebind", &[("tool", "greeter"), ("content", &stage.content())]).await;
    page.lacks(&["The tool changed"]);
    assert_eq!(value(&stage).as_deref(), Some("other"));

    let page = browser.submit("remove-credential", &[("tool", "greeter"), ("name", "api_key")]).await;
    page.has(&["removed", "not set"]);
    assert_eq!(value(&stage), None);
    for (event, count) in [(Event::SecretSet, 2), (Event::SecretRebound, 1), (Event::SecretUnset, 1)] {
        let entries = stage.entries(event);
        assert_eq!(entries.len(), count, "{event}");
        assert!(entries.iter().all(|entry| entry.details.client.as_deref() == Some("page")), "{entries:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn permissions_are_set_replaced_and_removed() {
    let stage = Stage::open().await;
    let browser = stage.sign_in().await;
    let content = stage.content();
    let fields = |function: &'static str, decision: &'static str| {
        [("tool", "greeter"), ("content", content.as_str()), ("function", function), ("decision", decision)]
    };
    let decisions = |stage: &Stage| -> Vec<(Decision, Option<String>)> {
        stage.host.permissions().list().unwrap().into_iter().map(|rule| (rule.decision, rule.function)).collect()
    };
    let page = browser.submit("permission", &fields("hello", "allow")).await;
    page.has(&["The rule is stored.", "Runs without asking (rule 1).", "You are asked: no rule is about it."]);
    assert!(
        matches!(stage.call("hello").await, CallError::CredentialMissing { .. }),
        "allowed, and then a credential is missing"
    );
    assert!(matches!(stage.call("wipe").await, CallError::NeedsApproval(_)));
    // Each replaces the previous one.
    browser.submit("permission", &fields("hello", "deny")).await.has(&["Never runs (rule 2)."]);
    assert_eq!(decisions(&stage), [(Decision::Deny, Some("hello".to_owned()))]);
    assert!(matches!(stage.call("hello").await, CallError::Denied { .. }));
    browser.submit("permission", &fields("hello", "ask")).await.has(&["You are asked before each call (rule 3)."]);
    assert!(matches!(stage.call("hello").await, CallError::NeedsApproval(_)));
    // A rule with patterns is separate, and is shown with them.
    let pattern = ArgumentPattern::new("/path", Matcher::Glob("notes/*".to_owned())).unwrap();
    let grant = Grant::deny("greeter").function("hello").argument(pattern).lifetime(Lifetime::Always);
    stage.host.permissions().grant(grant).unwrap();
    browser.submit("permission", &fields("hello", "allow")).await;
    assert_eq!(decisions(&stage).len(), 2);
    browser.get("/rules").await.has(&["notes/*", "/path", "this version", "greeter"]);
    for wrong in [fields("hello", "always"), fields("none", "allow")] {
        let refused = browser.form("permission", &wrong).send(stage.address).await;
        assert!(matches!(refused.status, 400 | 409), "{refused:?}");
    }

    // After a change the rule does not apply, and the page shows what changed.
    stage.change("main.py", "changed = True\n");
    assert!(matches!(stage.call("hello").await, CallError::NeedsApproval(_)));
    let page = browser.get("/tools/greeter").await;
    page.has(&[
        "The tool changed",
        "the tool changed since you allowed it",
        "<code>main.py</code>: changed",
        "an earlier version",
    ]);
    let stale = browser.form("permission", &fields("wipe", "allow")).send(stage.address).await;
    assert_eq!(stale.status, 409);
    stale.has(&["host.page_stale"]);
    // Without the copy of the earlier files, the rule still contains the function's definition.
    let copies = stage.place.path().join("state/tools");
    fs::remove_dir_all(copies.join(content.replace(':', "-"))).unwrap();
    browser.get("/tools/greeter").await.has(&["no longer kept", "files that a model does not see differ"]);
    let now = stage.content();
    let again = [("tool", "greeter"), ("content", now.as_str()), ("function", "hello"), ("decision", "allow")];
    browser.submit("permission", &again).await.lacks(&["The tool changed"]);

    let rules = stage.host.permissions().list().unwrap();
    for rule in rules {
        browser.submit("revoke", &[("rule", &rule.id.to_string()), ("from", "rules")]).await.has(&["The rule is removed."]);
    }
    assert!(stage.host.permissions().list().unwrap().is_empty());
    browser.get("/rules").await.has(&["There are no rules"]);
    let recorded = stage.entries(Event::PermissionChanged);
    assert!(recorded.iter().all(|entry| entry.details.client.as_deref() == Some("page")), "{recorded:?}");
    assert!(recorded.iter().any(|entry| entry.details.decision.as_deref() == Some("allow") && entry.details.function.as_deref() == Some("hello")));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_watched_and_an_edited_log_is_noticed() {
    let fill = |tools: &std::path::Path| {
        write_tool(tools, "greeter", &manifest("greeter", json!({})));
        write_tool(tools, "second", &manifest("second", json!({})));
    };
    let stage = Stage::with(fill, None).await;
    let browser = stage.sign_in().await;
    browser.submit("disable", &[("tool", "greeter")]).await;
    stage.call("hello").await;
    let page = browser.get("/log?show=all").await;
    page.has(&["tool loaded", "permission changed", "decision", "deny rule", "by cli", "by page", "hash chain holds", "second"]);
    let place = |text: &str| page.body.find(text).unwrap();
    assert!(place(">decision</td>") < place("permission changed</td>"), "newest first");
    assert!(place("permission changed</td>") < place("tool loaded</td>"), "newest first");
    let changes = browser.get("/log").await;
    changes.has(&[">decision</td>", "permission changed</td>"]);
    changes.lacks(&["tool loaded</td>"]);
    changes.has(&[&format!("http-equiv=\"refresh\" content=\"5; url={}/log?show=changes&amp;auto=1\"", browser.base)]);
    browser.get("/log?show=calls").await.lacks(&["permission changed</td>"]);
    browser.get("/log?paused=1").await.lacks(&["http-equiv=\"refresh\""]);
    let filtered = browser.get("/log?tool=second&show=all").await;
    filtered.has(&["tool loaded</td>", "show=all&amp;tool=second&amp;auto=1"]);
    filtered.lacks(&["deny rule", "permission changed</td>"]);
    // Entries of other processes appear.
    stage.call("wipe").await;
    browser.get("/log?auto=1").await.has(&["<code>wipe</code>", "5; url="]);

    let log = stage.host.audit().path();
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, text.replacen("deny_rule", "allow_rule", 1)).unwrap();
    browser.get("/log").await.has(&["The hash chain is broken", "not valid and are not shown"]);
    browser.get("/checks").await.has(&["audit log", "the hash does not match"]);
}
