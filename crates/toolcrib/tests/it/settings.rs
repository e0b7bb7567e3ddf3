//! Settings: their sources and precedence.

use serde_json::Value;

use crate::{Sandbox, write};

fn origins(envelope: &Value) -> Vec<String> {
    let settings = envelope["data"]["settings"].as_array().expect("settings");
    settings
        .iter()
        .filter(|entry| entry["name"].as_str().is_some_and(|name| !name.starts_with("spend.")))
        .map(|entry| format!("{}={} {}", entry["name"].as_str().unwrap_or(""), entry["value"], entry["origin"]))
        .collect()
}

#[test]
fn flag_over_environment_over_project_over_user_over_default() {
    let sandbox = Sandbox::new();
    let user = sandbox.home().join(".config/toolcrib/config.toml");
    write(&user, b"color = \"always\"\nformat = \"github\"\ndeny_warnings = true\nas = \"consumer\"\n");
    write(&sandbox.path().join("../toolcrib.toml"), b"color = \"auto\"\nformat = \"sarif\"\ndeny_warnings = false\n");
    let mut command = sandbox.command(&["config", "--json", "--color", "never"]);
    let ran = crate::finish(command.env("TOOLCRIB_FORMAT", "human").env("TOOLCRIB_COLOR", "always"), b"").code(0);
    let envelope: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(
        origins(&envelope),
        [
            "color=\"never\" \"flag\"",
            "format=\"human\" \"environment\"",
            "deny_warnings=false \"project_file\"",
            "as=\"consumer\" \"user_file\"",
        ]
    );
    let ran = sandbox.run_with_env(&["config"], &[("TOOLCRIB_AS", "producer")]).code(0).silent();
    insta::assert_snapshot!(sandbox.plain(&ran.stdout), @r#"
    color = "auto"              # project file [ROOT]/toolcrib.toml
    format = "sarif"            # project file [ROOT]/toolcrib.toml
    deny_warnings = false       # project file [ROOT]/toolcrib.toml
    as = "producer"             # environment TOOLCRIB_AS
    spend.per_call = "0.1"      # default
    spend.per_hour = "0.5"      # default
    spend.per_day = "1"         # default
    spend.per_recipient_day = "0.5"  # default
    spend.per_tool_day = "0.5"  # default
    spend.per_asset_day = "1"   # default
    spend.ask_above = "0.02"    # default
    "#);
}

#[test]
fn without_any_file_the_defaults_hold() {
    let sandbox = Sandbox::new();
    let (_, envelope) = sandbox.run_json(&["config"]);
    assert_eq!(
        origins(&envelope),
        [
            "color=\"auto\" \"default\"",
            "format=\"human\" \"default\"",
            "deny_warnings=false \"default\"",
            "as=\"producer\" \"default\"",
        ]
    );
}

#[test]
fn xdg_config_home_comes_before_home() {
    let sandbox = Sandbox::new();
    write(&sandbox.home().join(".config/toolcrib/config.toml"), b"as = \"producer\"\n");
    write(&sandbox.home().join("xdg/toolcrib/config.toml"), b"as = \"consumer\"\n");
    let xdg = sandbox.home().join("xdg");
    let ran = sandbox.run_with_env(&["config"], &[("XDG_CONFIG_HOME", &xdg.display().to_string())]).code(0);
    assert!(ran.stdout.contains("as = \"consumer\""), "{}", ran.stdout);
}

#[test]
fn settings_do_what_they_say() {
    let sandbox = Sandbox::new();
    sandbox.write("x.json", "{\"endpoint\": 1, \"a\": 1, \"a\": 2}");
    sandbox.write("toolcrib.toml", "format = \"github\"\ncolor = \"always\"\n");
    assert!(sandbox.run(&["lint"]).code(1).stdout.starts_with("::error file=x.json"));
    assert!(sandbox.run(&["lint", "--format", "human"]).code(1).stdout.contains("\u{1b}["));
    assert!(!sandbox.run_with_env(&["lint", "--format", "human"], &[("NO_COLOR", "1")]).code(1).stdout.contains('\u{1b}'));
    assert!(sandbox.run_with_env(&["lint", "--format", "human"], &[("NO_COLOR", "")]).code(1).stdout.contains('\u{1b}'));
    let ran = sandbox.run_with_env(&["lint"], &[("TOOLCRIB_FORMAT", "json")]).code(1);
    assert_eq!(serde_json::from_str::<Value>(&ran.stdout).expect("JSON")["schema_version"], 1);
}

#[track_caller]
fn check_refused(settings: &str, expected: &str) {
    let sandbox = Sandbox::new();
    sandbox.write("toolcrib.toml", settings);
    let ran = sandbox.run(&["config"]).code(2);
    assert_eq!(ran.stdout, "");
    let first = sandbox.plain(ran.stderr.lines().next().expect("a line"));
    assert_eq!(first, format!("error[cli.settings]: [ROOT]/project/toolcrib.toml: {expected}"));
}

#[test]
fn a_file_that_makes_no_sense_is_named_with_the_key() {
    check_refused(
        "color = \"never\"\ncolour = \"never\"\n",
        "line 2: unknown field `colour`, expected one of `color`, `format`, `deny_warnings`, `as`, `directory`, `embedding`, `spend`, `read_stores`, `networks`",
    );
    check_refused("as = \"author\"\n", "line 1: unknown variant `author`, expected `producer` or `consumer`");
    check_refused("deny_warnings = \"yes\"\n", "line 1: invalid type: string \"yes\", expected a boolean");
    check_refused(&"#".repeat(70_000), "a settings file has at most 65536 bytes");
}

#[test]
fn a_variable_that_makes_no_sense_is_named() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run_with_env(&["lint"], &[("TOOLCRIB_FORMAT", "xml")]).code(2);
    let first = ran.stderr.lines().next().expect("a line");
    assert_eq!(
        first,
        "error[cli.settings]: environment variable TOOLCRIB_FORMAT is `xml`, expected `human`, `json`, `sarif`, `github`"
    );
    sandbox.run_with_env(&["config"], &[("TOOLCRIB_DENY_WARNINGS", "maybe")]).code(2);
    sandbox.run_with_env(&["config"], &[("TOOLCRIB_FORMAT", "")]).code(0);
}

#[test]
fn a_bridge_is_not_reachable_from_other_machines_without_tls() {
    let sandbox = Sandbox::new();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
        let (code, answer) = sandbox.run_json(&["mcp", "--directory", "http://127.0.0.1:1/", "--listen", address]);
        assert_eq!((code, answer["errors"][0]["code"].as_str()), (2, Some("mcp.listen_plain")), "{address}: {answer:#}");
        let hint = answer["errors"][0]["hint"].as_str().unwrap_or_default();
        assert!(hint.contains("127.0.0.1") && hint.contains("--tls-cert"), "{answer:#}");
    }
    // A loopback address passes, so the next error is the missing token.
    let (code, answer) = sandbox.run_json(&[
        "mcp",
        "--directory",
        "http://127.0.0.1:1/",
        "--listen",
        "[::1]:0",
        "--rpc-url",
        "base=http://127.0.0.1:1",
    ]);
    assert_ne!((code, answer["errors"][0]["code"].as_str()), (2, Some("mcp.listen_plain")), "{answer:#}");
}
