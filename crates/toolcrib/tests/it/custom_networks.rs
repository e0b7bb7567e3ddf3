//! Networks outside the built-in table: by chain id, and as `[networks.NAME]` of the settings. The chain is a local one with the chain id
//! of Sepolia, so that only development accounts may sign.

use serde_json::{Value, json};
use toolcrib_testkit::Anvil;

use crate::onchain::{CREATOR, World, ask};
use crate::{RunOutput, Sandbox, init_code, write};

const SEPOLIA: &str = "11155111";
const CALLER: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
const COLLECTION: &str = "0x2000000000000000000000000000000000000001";
const URI: &str = "https://tools.harbour-office.org/.well-known/ai-tool/tide-table.json";
/// A key that is not published.
const OTHER_KEY: (&str, &str) = ("TOOLCRIB_PRIVATE_KEY", "0x0000000000000000000000000000000000000000000000000000000000000001");

fn devchain(more: &[&str]) -> World {
    World::with(&[&["--chain-id", SEPOLIA], more].concat())
}

/// A sandbox with a manifest of the first development account.
fn sandbox_of(world: &World) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("tool.json", world.sandbox.read("tool.json"));
    sandbox
}

fn register(sandbox: &Sandbox, more: &[&str]) -> RunOutput {
    let arguments = ["register", "--skip-fetch", "--manifest", "tool.json", "--metadata", URI, "--dev-account", "0", "--yes"];
    sandbox.run(&[&arguments[..], more].concat())
}

fn user_file(sandbox: &Sandbox) -> std::path::PathBuf {
    sandbox.home().join(".config/toolcrib/config.toml")
}

fn our_contract(name: &str) -> String {
    let all = toolcrib_chain::deploy::contracts().expect("listed");
    all.iter().find(|contract| contract.name == name).expect("listed").address.to_checksum(None)
}

#[test]
fn an_unlisted_chain_from_the_deployment_to_a_pause_on_the_devchain() {
    let world = devchain(&["--bare"]);
    an_unlisted_chain_from_the_deployment_to_a_pause(&sandbox_of(&world), &world.url);
}

#[test]
fn an_unlisted_chain_from_the_deployment_to_a_pause_on_anvil() {
    let Some(anvil) = Anvil::start(&["--chain-id", SEPOLIA]) else { return };
    let world = devchain(&["--bare"]);
    an_unlisted_chain_from_the_deployment_to_a_pause(&sandbox_of(&world), &anvil.url);
}

fn an_unlisted_chain_from_the_deployment_to_a_pause(sandbox: &Sandbox, url: &str) {
    let by_number = ["--network", SEPOLIA, "--rpc-url", url];
    let deploy = |more: &[&str]| sandbox.run(&[&["contracts", "deploy"], &by_number[..], more].concat());
    let names = sandbox.run(&["contracts", "list"]).code(0).stdout.lines().count();

    // The plan: contracts, network, account and cost. Nothing is signed, and no file is written.
    let planned = deploy(&["--dev-account", "0", "--dry-run"]).code(0);
    assert_eq!(planned.stdout.matches("would deploy").count(), names, "{}", planned.stdout);
    for said in
        ["Unlisted network (eip155:11155111, test money)", url, CREATOR, "gas for", "at most", "ETH", "[networks.chain-11155111]"]
    {
        assert!(planned.stderr.contains(said), "{said}: {}", planned.stderr);
    }
    assert!(deploy(&["--dev-account", "0"]).code(2).stderr.contains("author.declined"), "there is no terminal to ask at");
    let arguments = [&["contracts", "deploy", "--yes"], &by_number[..]].concat();
    let refused = sandbox.run_with_env(&arguments, &[OTHER_KEY]).code(2);
    assert!(refused.stderr.contains("wallet.dev_chain"), "{}", refused.stderr);
    let redefines = deploy(&["--dev-account", "0", "--yes", "--name", "base"]).code(2);
    assert!(redefines.stderr.contains("cannot be redefined"), "{}", redefines.stderr);
    assert_eq!(deploy(&["--dev-account", "0", "--dry-run"]).code(0).stdout, planned.stdout, "nothing was done");
    assert!(!user_file(sandbox).exists());

    let file = write(&user_file(sandbox), b"# mine\ncolor = \"never\" # always\n");
    let first = deploy(&["--dev-account", "0", "--yes", "--name", "sepolia"]).code(0);
    assert_eq!(first.stdout.matches("deployed  ").count(), names, "{}", first.stdout);
    let written = std::fs::read_to_string(&file).expect("a file");
    assert!(written.starts_with("# mine\ncolor = \"never\" # always\n\n[networks.sepolia]\nchain_id = 11155111\n"), "{written}");
    assert!(written.contains(&our_contract("ToolRegistry")) && written.contains(&our_contract("DenyAllPredicate")), "{written}");
    let second = deploy(&["--dev-account", "0", "--yes", "--name", "sepolia"]).code(0);
    assert_eq!(second.stdout.matches("was there").count(), names, "{}", second.stdout);
    assert!(second.stderr.contains("are already deployed"), "{}", second.stderr);
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), written, "nothing changes");

    let (_, config) = sandbox.run_json(&["config"]);
    let rows = config["data"]["settings"].as_array().expect("a list");
    let row =
        |name: &str| rows.iter().find(|row| row["name"] == json!(name)).unwrap_or_else(|| panic!("{name}: {config:#}")).clone();
    assert_eq!(row("networks.sepolia.chain_id")["value"], json!(11_155_111));
    assert_eq!(row("networks.sepolia.registry")["origin"], json!("user_file"));
    assert_eq!(row("networks.sepolia.predicates.erc721")["value"], json!(our_contract("ERC721OwnerPredicate")));

    // PUSH1 1; PUSH1 0; MSTORE; PUSH1 32; PUSH1 0; RETURN: a collection of which everyone owns one.
    ask(url, "anvil_setCode", &format!(r#""{COLLECTION}","0x600160005260206000f3""#));
    let named = ["--network", "sepolia"];
    let ran = register(sandbox, &[&named[..], &["--nft-gate", COLLECTION]].concat()).code(0);
    let reference = ran.stdout.trim().to_owned();
    assert_eq!(reference, format!("eip155:11155111/erc8257:{}/1", our_contract("ToolRegistry").to_lowercase()));
    for said in ["sepolia (eip155:11155111, test money)", url, &our_contract("ToolRegistry"), "user file "] {
        assert!(ran.stderr.contains(said), "{said}: {}", ran.stderr);
    }
    let run = |arguments: &[&str]| sandbox.run(&[arguments, &named[..]].concat());
    let sign = |arguments: &[&str]| run(&[arguments, &["--dev-account", "0", "--yes"]].concat());
    assert!(run(&["inspect", "1"]).code(0).stdout.contains(&our_contract("ERC721OwnerPredicate")));
    assert!(run(&["predicate", "show", "1"]).code(0).stdout.starts_with("erc721 "));
    assert!(run(&["predicate", "requirements", "1"]).code(0).stdout.contains("own a token of"));
    assert_eq!(run(&["predicate", "check", "1", CALLER]).code(0).stdout, "granted\n");
    sign(&["pause", "1"]).code(0);
    assert_eq!(run(&["predicate", "check", "1", CALLER]).code(1).stdout, "denied\n");
    sign(&["resume", "1"]).code(0);
    assert_eq!(run(&["predicate", "check", "1", CALLER]).code(0).stdout, "granted\n");
    // The manifest's server does not exist; the chain data is still read.
    let verdict = run(&["verify", "1"]);
    assert!(verdict.code != 0 && format!("{verdict:?}").contains("fetch."), "{verdict:#?}");

    // The user's network is found by chain id and by reference; without settings, the arguments suffice.
    for arguments in
        [&["inspect", "1", "--network", SEPOLIA][..], &["inspect", &reference], &["predicate", "check", &reference, CALLER]]
    {
        sandbox.run(arguments).code(0);
    }
    let bare = Sandbox::new();
    bare.write("tool.json", sandbox.read("tool.json"));
    let registry = our_contract("ToolRegistry");
    let everything = [&by_number[..], &["--registry", &registry]].concat();
    let run = |arguments: &[&str]| bare.run(&[arguments, &everything[..]].concat());
    run(&["inspect", "1"]).code(0);
    run(&["predicate", "check", "1", CALLER]).code(0);
    run(&["predicate", "requirements", "1"]).code(0);
    run(&["pause", "1", "--dev-account", "0", "--yes"]).code(0);
    assert_eq!(run(&["predicate", "check", "1", CALLER]).code(1).stdout, "denied\n");
    run(&["resume", "1", "--dev-account", "0", "--yes"]).code(0);
    assert!(bare.run(&["inspect", "1", "--network", SEPOLIA]).code(2).stderr.contains("chain.no_rpc"));
    assert!(bare.run(&[&["inspect", "1"], &by_number[..]].concat()).code(2).stderr.contains("chain.no_registry"));
    let register =
        [&["register", "--skip-fetch", "--manifest", "tool.json", "--metadata", URI, "--yes"], &everything[..]].concat();
    let refused = bare.run_with_env(&[&register[..], &["--nft-gate", COLLECTION]].concat(), &[OTHER_KEY]);
    assert!(refused.code != 0 && !refused.stdout.contains("eip155"), "{refused:#?}");
}

#[test]
fn a_predicate_of_another_registry_is_refused_before_anything_is_signed() {
    let world = devchain(&[]);
    let sandbox = sandbox_of(&world);
    let url = world.url.as_str();
    // A second registry, at an address that is not in any table.
    let request = json!({ "from": CREATOR, "data": init_code("ToolRegistry"), "gas": "0xf00000" });
    let hash: Value = serde_json::from_str(&ask(url, "eth_sendTransaction", &request.to_string())).expect("JSON");
    let receipt: Value = serde_json::from_str(&ask(url, "eth_getTransactionReceipt", &hash["result"].to_string())).expect("JSON");
    let second = receipt["result"]["contractAddress"].as_str().expect("an address").to_owned();
    ask(url, "anvil_setCode", &format!(r#""{COLLECTION}","0x600160005260206000f3""#));
    let (ours, erc721) = (our_contract("ToolRegistry"), our_contract("ERC721OwnerPredicate"));
    let settings = format!(
        "[networks.first]\nchain_id = 11155111\nrpc_url = \"{url}\"\nregistry = \"{ours}\"\n\n\
         [networks.second]\nchain_id = 11155111\nrpc_url = \"{url}\"\nregistry = \"{second}\"\n\n\
         [networks.second.predicates]\nerc721 = \"{erc721}\"\n"
    );
    write(&user_file(&sandbox), settings.as_bytes());

    let refused = |ran: RunOutput, code: &str| {
        let ran = ran.code(2);
        assert!(ran.stderr.contains(code) && !ran.stderr.contains("sent 1"), "{ran:#?}");
    };
    let gate = ["--nft-gate", COLLECTION];
    refused(register(&sandbox, &[&gate[..], &["--network", "second"]].concat()), "predicate.other_registry");
    let by_number = ["--network", SEPOLIA, "--registry", &second];
    refused(register(&sandbox, &[&gate[..], &by_number[..]].concat()), "predicate.other_registry");
    refused(register(&sandbox, &["--network", "second", "--access-predicate", &erc721]), "predicate.other_registry");
    refused(register(&sandbox, &["--network", "second", "--all-of", &erc721]), "has no known composite predicate");
    let merkle = ["--network", "second", "--allowlist", "friends.txt"];
    sandbox.write("friends.txt", CALLER);
    refused(register(&sandbox, &merkle), "has no known allowlist predicate");
    let foreign = ["--network", SEPOLIA, "--registry", COLLECTION, "--rpc-url", url];
    refused(register(&sandbox, &[&gate[..], &foreign[..]].concat()), "has no known ERC-721 predicate");
    refused(register(&sandbox, &[&gate[..], &foreign[..], &["--predicate", &erc721]].concat()), "predicate.other_registry");
    refused(register(&sandbox, &["--network", "first", "--predicate", &erc721]), "without a gate");
    assert!(sandbox.run(&["inspect", "1", "--network", "second"]).code(1).stdout.contains("not registered"));
    // A chain id with two registries is ambiguous, which is an error.
    let vague = sandbox.run(&["inspect", "1", "--network", SEPOLIA]).code(2);
    assert!(vague.stderr.contains("chain.ambiguous_network") && vague.stderr.contains("first, second"), "{}", vague.stderr);

    // A tool of the second registry: it cannot use a predicate of the first one.
    let reference = register(&sandbox, &["--network", "second"]).code(0).stdout;
    assert!(reference.contains(&second), "{reference}");
    let sign = |arguments: &[&str]| sandbox.run(&[arguments, &["--network", "second", "--dev-account", "0", "--yes"]].concat());
    refused(sign(&["predicate", "use", "1", &erc721]), "predicate.other_registry");
    refused(sign(&["predicate", "set", "1", "--nft-gate", COLLECTION]), "predicate.other_registry");
    refused(sign(&["pause", "1", "--deny-predicate", &erc721]), "predicate.other_registry");
    refused(sign(&["pause", "1"]), "has no known deny-all predicate");
    // A predicate without REGISTRY() serves any registry.
    sign(&["pause", "1", "--deny-predicate", &our_contract("DenyAllPredicate")]).code(0);
    assert_eq!(sandbox.run(&["predicate", "check", "1", CALLER, "--network", "second"]).code(1).stdout, "denied\n");
    // A predicate of the first registry is accepted there, by the network's name and by the chain id together with the registry.
    register(&sandbox, &[&gate[..], &["--network", "first"]].concat()).code(0);
    assert_eq!(
        sandbox.run(&["predicate", "check", "1", CALLER, "--network", SEPOLIA, "--registry", &ours]).code(0).stdout,
        "granted\n"
    );
}

#[test]
fn a_projects_file_adds_networks_and_redefines_nothing() {
    let world = devchain(&[]);
    let sandbox = sandbox_of(&world);
    let (url, ours) = (world.url.as_str(), our_contract("ToolRegistry"));
    let user = format!("[networks.sepolia]\nchain_id = 11155111\nrpc_url = \"{url}\"\nregistry = \"{ours}\"\n");
    write(&user_file(&sandbox), user.as_bytes());
    let entry =
        |name: &str, chain: u64| format!("[networks.{name}]\nchain_id = {chain}\nrpc_url = \"{url}\"\nregistry = \"{ours}\"\n");
    for (text, code) in [
        (entry("base", 8453), "cli.network_redefined"),
        (entry("mainnet", 11_155_111), "cli.network_redefined"),
        (entry("local", 31_337), "cli.network_redefined"),
        (entry("sepolia", 11_155_111), "cli.network_redefined"),
        (entry("avalanche", 1), "cli.network_redefined"),
        (entry("Base", 8453), "cli.settings"),
        (entry("a", 0), "cli.settings"),
        (entry("a", 31_337), "cli.settings"),
        (entry("a", 1) + "testnet = true\n", "cli.settings"),
        (entry("a", 7) + "explorer = \"javascript:alert(1)\"\n", "cli.settings"),
        (entry("a", 7) + "currency = \"\\u001b[2J\"\n", "cli.settings"),
        (entry("a", 7) + "surprise = 1\n", "cli.settings"),
        (entry("a", 7) + "[networks.a.predicates]\nerc722 = \"0x2000000000000000000000000000000000000001\"\n", "cli.settings"),
    ] {
        sandbox.write("toolcrib.toml", &text);
        let ran = sandbox.run(&["config"]).code(2);
        assert!(
            ran.stderr.contains(code) && ran.stderr.contains("toolcrib.toml") && !ran.stderr.contains('\u{1b}'),
            "{text}: {}",
            ran.stderr
        );
    }

    // A network on the user's chain, through a node with a key in its URL, with a token and `testnet`.
    let secret = url.replacen("http://", "http://user:hunter2@", 1) + "/?key=hunter2";
    let project = format!(
        "[networks.staging]\nchain_id = 11155111\nrpc_url = \"{secret}\"\nregistry = \"{ours}\"\n\n\
         [networks.faraway]\nchain_id = 77777\nrpc_url = \"{secret}\"\nregistry = \"{ours}\"\ntestnet = true\n\n\
         [[networks.faraway.tokens]]\naddress = \"{COLLECTION}\"\nname = \"USD Coin\"\nversion = \"2\"\nsymbol = \"USDC\"\ndecimals = 6\n"
    );
    sandbox.write("toolcrib.toml", &project);
    let said = |ran: &RunOutput| format!("{}{}", ran.stdout, ran.stderr);
    let config = sandbox.run(&["config"]).code(0);
    assert!(config.stdout.contains("networks.staging.rpc_url") && config.stdout.contains("project file "), "{}", config.stdout);
    assert!(
        config.stdout.contains("networks.faraway.testnet = false"),
        "a project does not decide what is real: {}",
        config.stdout
    );
    assert!(config.stdout.contains("never signed for"), "{}", config.stdout);
    // By chain id it is the user's network; by its name it is announced before use.
    let quiet = sandbox.run(&["inspect", "1", "--network", SEPOLIA]).code(1);
    assert!(!quiet.stderr.contains("project file"), "{}", quiet.stderr);
    let loud = register(&sandbox, &["--network", "staging"]).code(0);
    for part in ["defined by a project file", "eip155:11155111", "http://127.0.0.1", &ours, "project/toolcrib.toml"] {
        assert!(loud.stderr.contains(part), "{part}: {}", loud.stderr);
    }
    // A node of another chain is detected, and an unknown chain cannot be reached by its id.
    let wrong = sandbox.run(&["inspect", "1", "--network", "faraway"]).code(2);
    assert!(wrong.stderr.contains("chain.wrong_chain"), "{}", wrong.stderr);
    let unknown = sandbox.run(&["inspect", "1", "--network", "77777", "--registry", &ours]).code(2);
    assert!(unknown.stderr.contains("chain.no_rpc") && unknown.stderr.contains("--network faraway"), "{}", unknown.stderr);
    let all = [config, quiet, loud, wrong, unknown, sandbox.run(&["config", "--json"]), sandbox.run(&["config", "-v"])];
    assert!(!all.iter().any(|ran| said(ran).contains("hunter2")), "a key was printed: {all:#?}");
}

#[test]
fn the_users_tokens_and_test_networks_count() {
    let sandbox = Sandbox::new();
    let user = "[networks.own]\nchain_id = 77777\ntestnet = true\nexplorer = \"https://scan.example/\"\n\n\
                [[networks.own.tokens]]\naddress = \"0x2000000000000000000000000000000000000001\"\nname = \"Own Coin\"\n\
                version = \"1\"\nsymbol = \"OWN\"\ndecimals = 6\n";
    write(&user_file(&sandbox), user.as_bytes());
    let shown = sandbox.run(&["config"]).code(0).stdout;
    assert!(shown.contains("networks.own.testnet = true") && shown.contains("networks.own.tokens.OWN = "), "{shown}");
    assert!(shown.contains("networks.own.explorer = \"https://scan.example\"") && !shown.contains("never signed"), "{shown}");
    // A token of the built-in table cannot be redefined, nor what is real money.
    for (chain, more) in [
        (8453, "testnet = true\n"),
        (84_532, "testnet = false\n"),
        (
            8453,
            "[[networks.own.tokens]]\naddress = \"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913\"\nname = \"Coin\"\nversion = \"2\"\n\
             symbol = \"USDC\"\ndecimals = 18\n",
        ),
        (
            7,
            "[[networks.own.tokens]]\naddress = \"0x2000000000000000000000000000000000000001\"\nname = \"\"\nversion = \"2\"\nsymbol = \"A\"\ndecimals = 6\n",
        ),
    ] {
        write(&user_file(&sandbox), format!("[networks.own]\nchain_id = {chain}\n{more}").as_bytes());
        assert!(sandbox.run(&["config"]).code(2).stderr.contains("cli.settings"), "{chain} {more}");
    }
}
