//! `new` and `init`.

use crate::Sandbox;

#[test]
fn every_kind_of_start_is_written_and_passes_its_own_check() {
    let sandbox = Sandbox::new();
    for (kind, name, path) in [("tool", "rain", "rain.json"), ("local", "weather", "weather/manifest.json")] {
        let ran = sandbox.run(&["new", kind, name]).code(0);
        assert_eq!(ran.stdout.trim().replace('\\', "/"), path);
        assert!(ran.stderr.starts_with("Next:\n  1. "), "{}", ran.stderr);
        sandbox.run(&["validate", path, "--kind", kind]).code(0);
    }
    assert_eq!(sandbox.run(&["new", "agent", "rain.agt", "-q"]).code(0).silent().stdout, "rain.agt.json\n");
    let (code, envelope) = sandbox.run_json(&["new", "agent", "other.agt"]);
    assert_eq!((code, &envelope["data"]["path"]), (0, &"other.agt.json".into()));
}

#[test]
fn init_is_new_tool() {
    let sandbox = Sandbox::new();
    let new = sandbox.run(&["new", "tool", "rain", "--out", "-"]).code(0).silent();
    let init = sandbox.run(&["init", "rain", "--out", "-"]).code(0).silent();
    assert_eq!(new.stdout, init.stdout);
    let address = "0x52908400098527886e0f7030069857d2e4169ee7";
    assert!(sandbox.run(&["init", "--address", address, "-o", "-"]).code(0).stdout.contains(address));
}

#[test]
fn nothing_is_replaced_unasked() {
    let sandbox = Sandbox::new();
    sandbox.write("rain.json", "precious");
    let ran = sandbox.run(&["new", "tool", "rain"]).code(2);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.starts_with("error[cli.exists]: rain.json already exists\n"), "{}", ran.stderr);
    assert_eq!(sandbox.read("rain.json"), "precious");
    sandbox.run(&["new", "tool", "rain", "--force"]).code(0);
    assert!(sandbox.read("rain.json").starts_with('{'));
}

#[test]
fn a_name_cannot_lead_out_of_the_folder_or_into_the_text() {
    let sandbox = Sandbox::new();
    for name in ["../x", "a/b", "a\\b", "", ".hidden", "a\"b", "a b", "é"] {
        let ran = sandbox.run(&["new", "local", name]).code(2);
        assert!(ran.stderr.starts_with("error[cli.usage]: "), "{name}: {}", ran.stderr);
    }
    assert_eq!(std::fs::read_dir(sandbox.path()).expect("folder").count(), 0);
}

// req: AGT-028, AGT-027
#[test]
fn legacy_records_become_a_draft_and_a_list_of_changes() {
    let sandbox = Sandbox::new();
    let records = "agt-version=1\nagt-name=Rain\nagt-protocol=mcp\nagt-endpoint-mcp=https://rain.harbour-office.org/mcp\n";
    sandbox.write("records.txt", records);
    let ran = sandbox.run(&["agt", "migrate", "rain.agt", "--records", "records.txt"]).code(0);
    assert!(ran.stdout.contains("\"domain\": \"rain.agt\"") && ran.stdout.contains("https://rain.harbour-office.org/mcp"));
    assert!(ran.stderr.contains("remove  agt-version=1\n"), "{}", ran.stderr);
    assert!(ran.stderr.trim_end().ends_with("add     agt-manifest=ipfs://<CID of the signed manifest>"), "{}", ran.stderr);
    // Checking the draft reports what the records lack.
    let lint = sandbox.run_with_stdin(&["lint", "-", "--json"], ran.stdout.as_bytes());
    assert!(lint.stdout.contains("agent.unsigned") && lint.stdout.contains("/owner"), "{}", lint.stdout);
    sandbox.write("new.txt", "agt-manifest=ipfs://bafkreigerz3nhhy7zonh55srsphplgwzr7ai2lctakkvqvalxxlfuikvk4\n");
    assert_eq!(sandbox.run(&["agt", "migrate", "rain.agt", "--records", "new.txt"]).code(1).stdout, "");
    sandbox.run(&["agt", "migrate", "rain.com", "--records", "records.txt"]).code(2);
    // Records are checked like any other file.
    assert!(sandbox.run(&["lint", "records.txt"]).code(0).stdout.contains("agent.legacy"));
}

#[test]
fn addresses_are_taken_with_a_right_checksum_only() {
    let sandbox = Sandbox::new();
    for (address, code) in [
        ("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", 0),
        ("0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266", 0),
        ("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92267", 2),
        ("vitalik.eth", 2),
    ] {
        sandbox.run(&["new", "tool", "rain", "-o", "-", "--address", address]).code(code);
    }
}
