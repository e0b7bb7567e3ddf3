//! `help`, `explain`, `completions` and `man`.

use crate::Sandbox;

#[test]
fn a_code_explains_itself() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(sandbox.run(&["explain", "json.duplicate_key"]).code(0).silent().stdout, @r"
    json.duplicate_key: an object has the same key twice

    Readers disagree on which of two equal keys counts, so two readers could see two
    different manifests under one hash. Keys are compared after unescaping.

    What to do: keep one of the two.

    Severity: error
    Source: RFC 8785 §3.1 (I-JSON)
    Fails: check 3 of ERC-8257 §7, so readers treat the tool as unverified
    ");
    let ran = sandbox.run(&["explain", "json.dupicate_key"]).code(1);
    insta::assert_snapshot!(ran.stderr, @r"
    error[cli.unknown_code]: unknown code `json.dupicate_key`
    hint: did you mean json.duplicate_key?
    ");
    assert_eq!(ran.stdout, "");
    sandbox.run(&["explain"]).code(2);
}

#[test]
fn all_codes_are_listed() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["explain", "--list"]).code(0).silent();
    assert_eq!(ran.stdout.lines().count(), toolcrib_core::codes::all().count());
    let (_, envelope) = sandbox.run_json(&["explain", "--list"]);
    assert_eq!(envelope["data"]["codes"].as_array().map(Vec::len), Some(toolcrib_core::codes::all().count()));
}

#[test]
fn shells_and_man_get_their_files() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = sandbox.run(&["completions", shell]).code(0).silent().stdout;
        assert!(script.contains("deny-warnings"), "{shell}");
    }
    assert!(sandbox.run(&["man"]).code(0).silent().stdout.contains(".TH toolcrib 1"));
    assert!(sandbox.run(&["man", "lint"]).code(0).silent().stdout.contains("deny\\-warnings"));
    assert!(sandbox.run(&["man", "agt", "resolve"]).code(0).silent().stdout.contains("dnssec"));
    sandbox.run(&["man", "nonsense"]).code(2);
}

#[test]
fn help_lists_groups_topics_and_commands() {
    let sandbox = Sandbox::new();
    let help = |arguments: &[&str]| sandbox.run(arguments).code(0).silent().stdout;
    let long = help(&["--help"]);
    for heading in [
        "Author:",
        "Onchain:",
        "Trust:",
        "Call and pay:",
        "Serve:",
        "Discover and run:",
        "Agents:",
        "Local tools:",
        "Development:",
        "Settings:",
        "Options:",
        "Examples:",
    ] {
        assert_eq!(long.lines().filter(|line| *line == heading).count(), 1, "{heading} {long}");
    }
    assert!(!long.contains("deploy:") && !long.contains("tool-http-fetch"), "hidden commands stay hidden: {long}");
    assert_eq!(help(&["help"]), long);
    assert_eq!(help(&["help", "local", "call"]), help(&["local", "call", "--help"]));
    assert_eq!(help(&["local", "help", "call"]), help(&["local", "call", "--help"]));
    // The short help has the common options, the long help all of them.
    let (short, long) = (help(&["serve", "-h"]), help(&["serve", "--help"]));
    assert!(short.contains("--upstream") && !short.contains("--sole-recipient"), "{short}");
    assert!(long.contains("--upstream") && long.contains("--sole-recipient"), "{long}");
    assert!(short.contains("Examples:\n  toolcrib serve "), "{short}");

    let topics = help(&["help", "topics"]);
    for topic in ["networks", "references", "wallets", "spend-policy", "exit-codes", "config"] {
        assert!(topics.contains(&format!("\n  {topic} ")), "{topics}");
        let text = help(&["help", topic]);
        assert!(text.lines().count() > 5, "{topic}: {text}");
        let (_, envelope) = sandbox.run_json(&["help", topic]);
        assert_eq!((envelope["data"]["topic"].as_str(), envelope["data"]["text"].as_str()), (Some(topic), Some(text.as_str())));
    }
    assert!(sandbox.run(&["help", "netwroks"]).code(2).stderr.contains("hint: did you mean `toolcrib help networks`?"));
    assert!(sandbox.run(&["help", "lnit"]).code(2).stderr.contains("'lint'"));
    assert_eq!(sandbox.run_json(&["help", "netwroks"]).0, 2);
}

#[test]
fn typos_get_a_suggestion_at_every_level() {
    let sandbox = Sandbox::new();
    for (line, expected) in [
        ("lnit", "'lint'"),
        ("tool", "'tools'"),
        ("lint --formt json", "'--format'"),
        ("agt reslove rain.agt", "'resolve'"),
        ("agt resolve rain.agt --evidnece x.json", "'--evidence'"),
        ("directory keys isue", "'issue'"),
        ("directory keys issue --nmae ci", "'--name'"),
        ("predicate chek 7 0x52908400098527886e0f7030069857d2e4169ee7", "'check'"),
        ("lint --as producr", "'producer'"),
    ] {
        let ran = sandbox.run(&line.split(' ').collect::<Vec<_>>()).code(2);
        assert!(ran.stderr.contains("tip: ") && ran.stderr.contains(expected), "{line}: {}", ran.stderr);
    }
}

#[test]
fn deploy_of_the_reference_sdk_says_what_to_run_instead() {
    let ran = Sandbox::new().run(&["deploy", "--host", "vercel", "-y"]).code(2);
    insta::assert_snapshot!(ran.stderr, @r"
    error[cli.usage]: toolcrib does not deploy to hosting providers
    hint: deploy with the provider's own command, then run `toolcrib publish FILE --metadata URL`
    ");
}
