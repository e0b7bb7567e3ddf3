//! Commands that use a chain, each test with its own development chain.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::{RunOutput, Sandbox, example};

pub(crate) const CREATOR: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
const STRANGER: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
const URI: &str = "https://tools.harbour-office.org/.well-known/ai-tool/tide-table.json";

/// A chain that ends with the test.
pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    chain: Child,
    pub(crate) url: String,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    pub(crate) fn with(more: &[&str]) -> Self {
        Self::in_sandbox(Sandbox::new(), more)
    }

    /// Starts a chain in an existing sandbox. The chain ends after five minutes, so do long preparations before.
    pub(crate) fn in_sandbox(sandbox: Sandbox, more: &[&str]) -> Self {
        let mut command = sandbox.command(&[&["chain", "dev", "--port", "0", "--exit-after", "300"], more].concat());
        let mut chain = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
        let mut line = String::new();
        BufReader::new(chain.stdout.take().expect("a pipe")).read_line(&mut line).expect("a first line");
        let url = line.split_whitespace().nth(3).expect("chain 31337 at URL").to_owned();
        let tool = example("tool-free.json");
        let from = tool.find("0x").expect("a creator");
        sandbox.write("tool.json", tool.replace(&tool[from..from + 42], &CREATOR.to_lowercase()));
        Self { sandbox, chain, url }
    }

    /// Runs a command on this chain, with this test's state.
    pub(crate) fn run(&self, arguments: &[&str]) -> RunOutput {
        self.sandbox.run(&[arguments, &["--network", "local", "--rpc-url", &self.url]].concat())
    }

    /// Runs a command that signs.
    pub(crate) fn sign(&self, arguments: &[&str], account: &str) -> RunOutput {
        self.run(&[arguments, &["--dev-account", account, "--yes"]].concat())
    }

    /// Mines a block.
    pub(crate) fn mine(&self) {
        self.ask("evm_mine", "");
    }

    /// Sets the code at an address.
    pub(crate) fn set_code(&self, address: &str, code: &str) {
        self.ask("anvil_setCode", &format!(r#""{address}","{code}""#));
    }

    /// Ends the chain, and waits for its exit.
    pub(crate) fn end(&mut self) {
        self.chain.kill().expect("killed");
        self.chain.wait().expect("dead");
    }

    /// The number of the newest block.
    pub(crate) fn head(&self) -> u64 {
        let answer: serde_json::Value = serde_json::from_str(&self.ask("eth_blockNumber", "")).expect("JSON");
        let digits = answer["result"].as_str().and_then(|text| text.strip_prefix("0x")).expect("a number");
        u64::from_str_radix(digits, 16).expect("a number")
    }

    /// Sends a request to the node, and returns the body of its response.
    pub(crate) fn ask(&self, method: &str, params: &str) -> String {
        ask(&self.url, method, params)
    }

    fn register(&self, more: &[&str]) -> RunOutput {
        self.sign(&[&["register", "--skip-fetch", "--manifest", "tool.json", "--metadata", URI], more].concat(), "0")
    }
}

/// Sends a request to a node, and returns the body of its response.
pub(crate) fn ask(url: &str, method: &str, params: &str) -> String {
    let address = url.strip_prefix("http://").expect("a plain URL");
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":[{params}]}}"#);
    let mut stream = TcpStream::connect(address).expect("the chain listens");
    let length = body.len();
    let head = "content-type: application/json\r\nconnection: close";
    write!(stream, "POST / HTTP/1.1\r\nhost: {address}\r\n{head}\r\ncontent-length: {length}\r\n\r\n{body}").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200") && !answer.contains("\"error\""), "{answer}");
    answer.split_once("\r\n\r\n").expect("a body").1.to_owned()
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.chain.kill();
        let _ = self.chain.wait();
    }
}

// req: CLI-006, REG-001, REG-002, REG-019, REG-035
#[test]
fn a_tool_from_its_registration_to_its_end() {
    let world = World::new();
    let reference = world.register(&[]).code(0).stdout;
    assert!(reference.starts_with("eip155:31337/erc8257:0x") && reference.trim_end().ends_with("/1"), "{reference}");
    let shown = world.run(&["inspect", "1"]).code(0).stdout;
    let hash = world.sandbox.run(&["hash", "tool.json", "-q"]).code(0).stdout;
    assert!(shown.contains(CREATOR) && shown.contains(URI) && shown.contains(hash.trim()), "{shown}");
    assert_eq!(world.run(&["predicate", "check", "1", STRANGER]).code(0).stdout, "granted\n");

    assert!(world.run(&["inspect", "2"]).code(1).stdout.contains("not registered"));

    let changed = world.sandbox.read("tool.json").replace("Tide table", "Tide table two");
    world.sandbox.write("tool.json", changed);
    world.sign(&["update", "1", "--skip-fetch", "--manifest", "tool.json"], "0").code(0);
    let hash = world.sandbox.run(&["hash", "tool.json", "-q"]).code(0).stdout;
    assert!(world.run(&["inspect", "1"]).code(0).stdout.contains(hash.trim()));

    world.sign(&["pause", "1"], "0").code(0);
    assert_eq!(world.run(&["predicate", "check", "1", STRANGER]).code(1).stdout, "denied\n");
    world.sign(&["resume", "1"], "0").code(0);
    assert_eq!(world.run(&["predicate", "check", "1", STRANGER]).code(0).stdout, "granted\n");

    let refused = world.sign(&["deregister", "1"], "1").code(2);
    assert!(refused.stderr.contains("author.creator_not_signer"), "{}", refused.stderr);
    world.sign(&["deregister", "1"], "0").code(0);
    assert!(world.run(&["inspect", "1"]).code(1).stdout.contains("removed by its creator"));
}

/// The predicate of a tool, or `None` if it is open.
fn predicate(world: &World) -> Option<String> {
    let shown: serde_json::Value = serde_json::from_str(&world.run(&["inspect", "1", "--json"]).stdout).expect("JSON");
    shown["data"]["access_predicate"].as_str().map(str::to_owned)
}

#[test]
fn resume_opens_nothing_that_is_not_paused() {
    let world = World::new();
    world.register(&[]).code(0);
    assert_eq!(predicate(&world), None);
    let refused = |why: &str| {
        let before = predicate(&world);
        let ran = world.sign(&["resume", "1"], "0").code(2);
        assert!(ran.stderr.contains("author.not_paused"), "{why}: {}", ran.stderr);
        assert_eq!(predicate(&world), before, "{why}");
    };
    refused("never paused");
    // Without a terminal the answer is no.
    assert!(world.run(&["pause", "1", "--dev-account", "0"]).code(2).stderr.contains("author.declined"));
    refused("a pause that was declined");
    // Stopped before anything was signed: this account may not change the tool.
    world.sign(&["pause", "1"], "1").code(2);
    world.sign(&["pause", "1", "--dry-run"], "0").code(0);
    world.sign(&["pause", "1", "--calldata"], "0").code(0);
    refused("a pause that was not signed");

    let gate = "0x2000000000000000000000000000000000000001";
    // PUSH1 1; PUSH1 0; MSTORE; PUSH1 32; PUSH1 0; RETURN: yes to every question.
    world.set_code(gate, "0x600160005260206000f3");
    world.sign(&["predicate", "use", "1", gate], "0").code(0);
    refused("gated since");
    world.sign(&["pause", "1"], "0").code(0);
    let deny = predicate(&world).expect("paused");
    assert_eq!(world.sign(&["pause", "1"], "0").code(0).stdout, "already paused\n");
    assert!(world.run(&["resume", "1", "--dev-account", "0"]).code(2).stderr.contains("author.declined"));
    world.sign(&["resume", "1", "--dry-run"], "0").code(0);
    world.sign(&["resume", "1"], "0").code(0);
    assert_eq!(predicate(&world).as_deref(), Some(gate), "what it had when it was paused");
    refused("resumed");

    world.sign(&["pause", "1"], "0").code(0);
    world.sign(&["predicate", "use", "1", gate], "0").code(0);
    refused("changed since");
    // Paused with another state file: the former predicate is not known here.
    world.sign(&["predicate", "use", "1", "open"], "0").code(0);
    world.sign(&["predicate", "use", "1", &deny], "0").code(0);
    world.sandbox.write("elsewhere/keep", "");
    let ran = world.sign(&["resume", "1", "--state-dir", "elsewhere"], "0").code(2);
    assert!(ran.stderr.contains("was not paused on this machine"), "{}", ran.stderr);
}

// req: CREATOR-005, CLI-006, PRED-026
#[test]
fn nothing_is_signed_that_could_not_verify() {
    let world = World::new();
    let wrong = world.sign(&["register", "--skip-fetch", "--manifest", "tool.json", "--metadata", URI], "1").code(1);
    assert!(
        wrong.stderr.contains("author.creator_not_signer") && wrong.stderr.contains("nothing was signed"),
        "{}",
        wrong.stderr
    );
    let elsewhere = "https://elsewhere.harbour-office.org/.well-known/ai-tool/tide-table.json";
    let wrong = world.sign(&["register", "--skip-fetch", "--manifest", "tool.json", "--metadata", elsewhere], "0").code(1);
    assert!(wrong.stderr.contains("url.origin_host"), "{}", wrong.stderr);
    // Without --yes and without a terminal the answer is no.
    let declined =
        world.run(&["register", "--skip-fetch", "--manifest", "tool.json", "--metadata", URI, "--dev-account", "0"]).code(2);
    assert!(declined.stderr.contains("author.declined"), "{}", declined.stderr);
    // A predicate that does not exist would deny every call.
    let nobody = world.register(&["--access-predicate", "0x1111111111111111111111111111111111111111"]).code(2);
    assert!(nobody.stderr.contains("predicate.no_code"), "{}", nobody.stderr);
    assert!(world.register(&["--dry-run"]).code(0).stdout.contains("nothing was signed"));
    let calls = world.register(&["--calldata"]).code(0).stdout;
    assert!(calls.contains("\"data\": \"0xfe1d0b16"), "{calls}");
    assert!(world.run(&["inspect", "1"]).code(1).stdout.contains("not registered"), "after all that");
}

// req: REG-025, REG-036, PRED-024
#[test]
fn a_broken_gate_is_told_from_a_closed_one_and_says_what_is_wrong_with_it() {
    let world = World::new();
    let predicate = "0x2000000000000000000000000000000000000001";
    // PUSH1 2; PUSH1 0; MSTORE; PUSH1 32; PUSH1 0; RETURN: neither yes nor no, to every question.
    world.set_code(predicate, "0x600260005260206000f3");
    world.register(&["--access-predicate", predicate]).code(0);
    let ran = world.run(&["predicate", "check", "1", STRANGER]).code(1);
    assert_eq!(ran.stdout, "malfunction\n");
    assert!(ran.stderr.contains("predicate.answer_not_bool") && ran.stderr.contains("0x2"), "{}", ran.stderr);
    let data: serde_json::Value =
        serde_json::from_str(&world.run(&["predicate", "check", "1", STRANGER, "--json"]).code(1).stdout).expect("JSON");
    assert_eq!(data["data"]["code"], "predicate.malfunction", "{data}");
    assert_eq!(data["data"]["reason"]["code"], "predicate.answer_not_bool", "{data}");
    let shown = world.run(&["inspect", "1"]).code(0).stdout;
    assert!(shown.contains("error[predicate.malfunction]") && shown.contains("error[predicate.answer_not_bool]"), "{shown}");
    let listed = world.run(&["predicate", "requirements", "1"]).code(1);
    assert!(listed.stderr.contains("predicate.requirements_malformed"), "{}", listed.stderr);
    // A denial without malfunction has no diagnosis, and a secret is not sent to a node.
    world.sign(&["pause", "1"], "0").code(0);
    let ran = world.run(&["predicate", "check", "1", STRANGER]).code(1);
    assert!(ran.stdout == "denied\n" && ran.stderr.contains("predicate.denied:"), "{}", ran.stderr);
    assert!(!world.run(&["inspect", "1"]).code(0).stdout.contains("malfunction"));
    let secret = world.run(&["predicate", "check", "1", STRANGER, "--data", "0x426561726572206162632e646566"]).code(2);
    assert!(secret.stderr.contains("predicate.data_secret"), "{}", secret.stderr);
    let key = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
    let arguments = ["predicate", "check", "1", STRANGER, "--data", key, "--network", "local", "--rpc-url", &world.url];
    let secret = world.sandbox.run_with_env(&arguments, &[("TOOLCRIB_PRIVATE_KEY", key)]).code(2);
    assert!(secret.stderr.contains("predicate.data_secret") && !secret.stderr.contains(&key[2..20]), "{}", secret.stderr);
}

// req: PRED-026, REG-039, REG-040, REG-045
#[test]
fn what_cannot_be_undone_is_said_before_it_is_done() {
    let world = World::new();
    let nobody = "0x1111111111111111111111111111111111111111";
    let ran = world.register(&["--access-predicate", nobody, "--allow-undeployed"]).code(0);
    assert!(ran.stderr.contains("warning[predicate.no_code]"), "{}", ran.stderr);
    assert!(ran.stderr.contains("the creator cannot be changed"), "{}", ran.stderr);
    let shown = world.run(&["inspect", "1"]).code(0).stdout;
    assert!(shown.contains("predicate.no_code") && !shown.contains("malfunction"), "{shown}");
    // Our registry has no fee, so sending one is refused, and the refusal is reported.
    let fee = ["register", "--manifest", "tool.json", "--metadata", URI, "--skip-fetch", "--fee", "5", "--dry-run"];
    let paid = world.sign(&fee, "0").code(2);
    assert!(paid.stderr.contains("chain.reverted"), "{}", paid.stderr);
    // Removing needs approval, and without a terminal the answer is no.
    let declined = world.run(&["deregister", "1", "--dev-account", "0"]).code(2);
    assert!(declined.stderr.contains("author.declined") && declined.stderr.contains("cannot be restored"), "{}", declined.stderr);
    // An account with code can recover; it is not warned. Nothing is signed here, as the key would not count.
    world.set_code(CREATOR, "0x00");
    let ran = world.register(&["--access-predicate", nobody, "--allow-undeployed", "--calldata"]).code(0);
    assert!(!ran.stderr.contains("the creator cannot be changed"), "{}", ran.stderr);
}

#[test]
fn contracts_are_deployed_where_there_is_no_registry_yet() {
    let world = World::with(&["--bare"]);
    let missing = world.run(&["inspect", "1"]).code(2);
    assert!(missing.stderr.contains("chain.not_a_registry"), "{}", missing.stderr);
    let first = world.sign(&["contracts", "deploy"], "0").code(0).stdout;
    let list = world.sandbox.run(&["contracts", "list"]).code(0).stdout;
    for line in list.lines() {
        assert!(first.contains(&format!("deployed   {line}")), "{line} is not in\n{first}");
    }
    let second = world.sign(&["contracts", "deploy"], "0").code(0).stdout;
    assert_eq!(second.matches("was there").count(), list.lines().count(), "{second}");
    assert!(!second.contains("deployed "), "nothing is done twice: {second}");
    world.register(&["--nft-gate", "0x0241662C9c78b03677892e6272EEDd36B9e94107"]).code(0);
    assert!(world.run(&["inspect", "1"]).code(0).stdout.contains(URI));
}

/// Sends a transaction of the creator, and returns its receipt.
fn transact(world: &World, what: &str) -> serde_json::Value {
    let result = |body: String| serde_json::from_str::<serde_json::Value>(&body).expect("JSON")["result"].clone();
    let hash = result(world.ask("eth_sendTransaction", &format!(r#"{{"from":"{CREATOR}","gas":"0x4c4b40",{what}}}"#)));
    result(world.ask("eth_getTransactionReceipt", &hash.to_string()))
}

// req: CLI-007, REG-040
#[test]
fn a_gate_is_configured_with_the_registration() {
    let world = World::new();
    let assets = toolcrib_chain::deploy::test_assets().into_iter().flatten();
    let collection =
        assets.filter(|asset| asset.name == "TestERC721").map(|asset| asset.address.to_string()).next().expect("listed");
    let ran = world.register(&["--nft-gate", &collection]).code(0);
    assert!(ran.stderr.contains("the creator cannot be changed"), "{}", ran.stderr);
    let requirements = world.run(&["predicate", "requirements", "1"]).stdout;
    assert!(requirements.contains("0xbdf8c428"), "{requirements}");
    assert!(requirements.to_lowercase().contains(&collection.to_lowercase()[2..]), "{requirements}");
    assert_eq!(world.run(&["predicate", "check", "1", STRANGER]).code(1).stdout, "denied\n");
    // mint(address,uint256): only holders of a token have access.
    let mint = format!(r#""to":"{collection}","data":"0x40c10f19{:0>64}{:064x}""#, &STRANGER[2..].to_lowercase(), 1);
    assert_eq!(transact(&world, &mint)["status"], "0x1");
    assert_eq!(world.run(&["predicate", "check", "1", STRANGER]).code(0).stdout, "granted\n");
    assert_eq!(world.run(&["predicate", "check", "1", CREATOR]).code(1).stdout, "denied\n");
}

#[test]
fn gates_are_changed_and_shown() {
    let world = World::new();
    world.register(&[]).code(0);
    // The deny-all predicate has code; its other properties do not matter here.
    let token = "0x0241662C9c78b03677892e6272EEDd36B9e94107";
    world.sign(&["predicate", "set", "1", "--erc20-gate", token, "--min", "5"], "0").code(0);
    let shown = world.run(&["predicate", "show", "1"]).code(0).stdout;
    assert!(shown.starts_with("erc20 0x") && shown.contains("\"min_balance\": \"5\""), "{shown}");
    assert_ne!(world.run(&["predicate", "check", "1", STRANGER]).code(1).stdout, "granted\n");
    world.sandbox.write("friends.txt", format!("# who may come in\n{STRANGER}\n{CREATOR}\n"));
    world.sign(&["predicate", "set", "1", "--allowlist", "friends.txt"], "0").code(0);
    assert!(world.run(&["predicate", "show", "1"]).code(0).stdout.contains("\"root\": \"0x"));
    // A negated deny-all in a composite: every caller has access.
    let deny = format!("!{token}");
    world.sign(&["predicate", "set", "1", "--all-of", &deny], "0").code(0);
    let shown = world.run(&["predicate", "show", "1"]).code(0).stdout;
    assert!(shown.starts_with("composite 0x") && shown.contains("\"negated\": true"), "{shown}");
    assert_eq!(world.run(&["predicate", "check", "1", STRANGER]).code(0).stdout, "granted\n");
    let key = format!("0x{:064x}", 7);
    world.sign(&["predicate", "set", "1", "--trait-gate", token, "--trait-key", &key, "--trait-value", &key], "0").code(0);
    assert!(world.run(&["predicate", "show", "1"]).code(0).stdout.starts_with("trait 0x"));
    world.sign(&["predicate", "use", "1", "open"], "0").code(0);
    assert_eq!(world.run(&["predicate", "show", "1"]).code(0).stdout, "open to everybody\n");
}

/// The address of one of our contracts or test assets.
fn address_of(name: &str) -> String {
    let all = [toolcrib_chain::deploy::contracts(), toolcrib_chain::deploy::test_assets()].into_iter().flatten().flatten();
    let found = all.into_iter().find(|contract| contract.name == name).unwrap_or_else(|| panic!("no {name}"));
    found.address.to_checksum(None)
}

#[test]
fn a_composite_that_could_never_grant_is_refused_before_anything_is_signed() {
    let world = World::new();
    world.register(&[]).code(0);
    let (signed, listed) = (address_of("AccessProofPredicate"), address_of("MerkleAllowlistPredicate"));
    let refused = world.sign(&["predicate", "set", "1", "--all-of", &signed, "--all-of", &listed], "0").code(2);
    assert!(refused.stderr.contains("author.never_grants") && refused.stderr.contains(&signed), "{}", refused.stderr);
    assert_eq!(world.run(&["predicate", "show", "1"]).code(0).stdout, "open to everybody\n", "nothing was sent");
    world.sign(&["predicate", "set", "1", "--any-of", &signed, "--any-of", &listed], "0").code(0);
    assert!(world.run(&["predicate", "show", "1"]).code(0).stdout.starts_with("composite 0x"));
}

#[test]
fn access_says_how_much_gas_a_predicate_lacks() {
    // A check reads a token and three slots: 210,000 gas at these prices, where the registry gives 200,000.
    let world = World::with(&["--cold-access", "60000,50000"]);
    world.register(&["--erc20-gate", &address_of("TestERC20"), "--min", "5"]).code(0);
    let ran = world.run(&["predicate", "check", "1", STRANGER]).code(1);
    assert_eq!(ran.stdout, "malfunction\n");
    assert!(
        ran.stderr.contains("predicate.needs_more_gas") && ran.stderr.contains("it gets 200000 gas and needs about 21"),
        "{}",
        ran.stderr
    );
    let shown = world.run(&["inspect", "1"]).code(0).stdout;
    assert!(shown.contains("predicate.needs_more_gas"), "{shown}");
    let wrong = world.sandbox.run(&["chain", "dev", "--cold-access", "60000"]).code(2);
    assert!(wrong.stderr.contains("10100,8100"), "{}", wrong.stderr);
}

#[test]
fn a_gate_that_may_run_out_of_gas_on_monad_is_warned_of_before_anything_is_signed() {
    let world = World::with(&["--chain-id", "143"]);
    // Simulates the reference's predicate, which takes ten collections: it returns 10 for every call.
    let reference = "0xc8721c9A776958FfFfEb602DA1b708bf1D318379";
    world.set_code(reference, "0x600a60005260206000f3");
    let creator = "0x7e5f4552091a69125d5dfcb7b8c2659029395bdf";
    let tool = world.sandbox.read("tool.json").replace(&CREATOR.to_lowercase(), creator);
    world.sandbox.write("tool.json", tool);
    world.ask("anvil_setBalance", &format!(r#""{creator}","0xde0b6b3a7640000""#));
    let collection = address_of("TestERC721");
    let gates = |count| ["--nft-gate", collection.as_str()].repeat(count);
    let dry_run = |count| {
        let registry = address_of("ToolRegistry");
        let node = ["--network", "monad", "--rpc-url", &world.url, "--registry", &registry];
        let arguments = ["register", "--skip-fetch", "--dry-run", "--manifest", "tool.json", "--metadata", URI];
        let key = ("TOOLCRIB_PRIVATE_KEY", "0x0000000000000000000000000000000000000000000000000000000000000001");
        world.sandbox.run_with_env(&[&arguments[..], &node, &gates(count), &["--predicate", reference]].concat(), &[key])
    };
    // Ten accounts and 21 slots: 85,700 gas on Ethereum, 286,700 on Monad.
    let ran = dry_run(10).code(0);
    assert!(
        ran.stderr.contains("predicate.gas_on_chain") && ran.stderr.contains("gas that the registry gives on Monad"),
        "{}",
        ran.stderr
    );
    let ran = dry_run(4).code(0);
    assert!(!ran.stderr.contains("predicate.gas_on_chain"), "{}", ran.stderr);
}

#[test]
fn a_predicate_of_another_registry_is_shown_as_such() {
    let world = World::new();
    world.register(&["--nft-gate", &address_of("TestERC721")]).code(0);
    let other = "0x00000000000000000000000000000000000c0de1";
    let code: serde_json::Value =
        serde_json::from_str(&world.ask("eth_getCode", &format!(r#""{}","latest""#, address_of("ToolRegistry")))).expect("JSON");
    world.set_code(other, code["result"].as_str().expect("code"));
    let elsewhere = |arguments: &[&str]| world.run(&[arguments, &["--registry", other]].concat());
    let arguments = ["register", "--skip-fetch", "--manifest", "tool.json", "--metadata", URI, "--registry", other];
    world.sign(&arguments, "0").code(0);
    // The same predicate in the other registry, where tool 1 is another tool; set without the program, which would refuse it.
    let selector = &alloy_primitives::keccak256("setAccessPredicate(uint256,address)")[..4];
    let data =
        format!("0x{}{:064x}{:0>64}", alloy_primitives::hex::encode(selector), 1, &address_of("ERC721OwnerPredicate")[2..]);
    let request = serde_json::json!({ "from": CREATOR, "to": other, "data": data, "gas": "0x80000" });
    world.ask("eth_sendTransaction", &request.to_string());
    assert!(elsewhere(&["inspect", "1"]).code(0).stdout.contains("predicate.other_registry"));
    let ran = elsewhere(&["predicate", "check", "1", STRANGER]).code(1);
    assert!(ran.stderr.contains("predicate.other_registry"), "{}", ran.stderr);
}

#[test]
fn half_a_registration_lets_nobody_in_and_can_be_finished() {
    let world = World::new();
    // More collections than the predicate accepts are refused before signing.
    let collections: Vec<_> = (0x1001..=0x1004).map(|n| format!("0x{n:040x}")).collect();
    let gates: Vec<_> = collections.iter().flat_map(|collection| ["--nft-gate", collection]).collect();
    let refused = world.register(&gates).code(2);
    assert!(refused.stderr.contains("author.gate_too_large"), "{}", refused.stderr);
    assert!(world.run(&["inspect", "1"]).code(1).stdout.contains("not registered"));
    // Collections without code: the tool is registered, its gate is refused.
    let gates = &gates[..6];
    let ran = world.register(gates).code(2);
    assert!(ran.stderr.contains("run the same command again to continue"), "{}", ran.stderr);
    assert_ne!(world.run(&["predicate", "check", "1", STRANGER]).code(1).stdout, "granted\n", "closed, not open");
    // Repeated, it continues instead of registering a second tool.
    let again = world.register(gates).code(2);
    assert!(again.stderr.contains("continuing unfinished work"), "{}", again.stderr);
    assert!(world.run(&["inspect", "2"]).code(1).stdout.contains("not registered"));
}

/// The process is killed after its first transaction was sent and before it was mined. Nothing is lost or done twice.
#[test]
fn a_registration_survives_being_killed() {
    let world = World::with(&["--block-time", "86400"]);
    let collection = "0x0241662C9c78b03677892e6272EEDd36B9e94107";
    let arguments = [
        "register",
        "--skip-fetch",
        "--manifest",
        "tool.json",
        "--metadata",
        URI,
        "--nft-gate",
        collection,
        "--network",
        "local",
    ];
    let arguments = [&arguments[..], &["--rpc-url", &world.url, "--dev-account", "0", "--yes"]].concat();
    let mut victim = world.sandbox.command(&arguments).spawn().expect("the program starts");
    let journal = world.sandbox.home().join(".local/state/toolcrib/journal");
    let began = Instant::now();
    let is_signed = || {
        let entries = std::fs::read_dir(&journal).into_iter().flatten().flatten();
        entries.filter_map(|entry| std::fs::read_to_string(entry.path()).ok()).any(|text| text.contains("\"signed\""))
    };
    while !is_signed() {
        assert!(began.elapsed() < Duration::from_secs(60), "never signed");
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(Duration::from_millis(300));
    victim.kill().expect("killed");
    victim.wait().expect("dead");
    world.mine();
    // Half of the work is done: the tool is registered, and denies every call.
    assert!(world.run(&["inspect", "1"]).code(0).stdout.contains(URI));
    assert_ne!(world.run(&["predicate", "check", "1", STRANGER]).code(1).stdout, "granted\n");

    let mut second = world.sandbox.command(&[&arguments[..], &["--resume"]].concat()).spawn().expect("the program starts");
    while second.try_wait().expect("a process").is_none() {
        assert!(began.elapsed() < Duration::from_secs(120), "never done");
        thread::sleep(Duration::from_millis(100));
        world.mine();
    }
    let output = second.wait_with_output().expect("ended");
    let (said, noted) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.trim_end().ends_with("/1"), "{said}{noted}");
    assert!(noted.contains("continuing unfinished work"), "{noted}");
    assert!(world.run(&["predicate", "requirements", "1"]).stdout.contains("0xbdf8c428"), "the right gate");
    assert!(world.run(&["inspect", "2"]).code(1).stdout.contains("not registered"), "one tool");
    let over = world.register(&["--nft-gate", collection, "--resume"]).code(2);
    assert!(over.stderr.contains("author.nothing_to_resume"), "{}", over.stderr);
}

// req: CLI-008
#[test]
fn wallets_are_kept_encrypted_and_never_shown() {
    let sandbox = Sandbox::new();
    let key = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
    let variables = [("TOOLCRIB_PRIVATE_KEY", key), ("TOOLCRIB_PASSWORD", "correct horse")];
    let ran = sandbox.run_with_env(&["wallet", "import", "main"], &variables).code(0);
    assert_eq!(ran.stdout.trim(), CREATOR);
    assert!(!format!("{ran:?}").contains(&key[2..20]));
    assert!(sandbox.run(&["wallet", "list"]).code(0).stdout.contains("main"));
    let again = sandbox.run_with_env(&["wallet", "import", "main"], &variables).code(2);
    assert!(again.stderr.contains("wallet.exists"), "{}", again.stderr);
    // An address is not a secret.
    assert_eq!(sandbox.run(&["wallet", "address", "--wallet", "main"]).code(0).stdout, format!("{CREATOR}\n"));
    let sign = ["agt", "sign", "agent.json", "--wallet", "main"];
    sandbox.write("agent.json", example("agent.agt.json"));
    let wrong = sandbox.run_with_env(&sign, &[("TOOLCRIB_PASSWORD", "wrong")]).code(2);
    assert!(wrong.stderr.contains("wallet.wrong_password"), "{}", wrong.stderr);
    assert_eq!(wrong.stdout, "", "nothing is signed");
    // The right password signs, and the signature is that of the wallet.
    let draft = sandbox.run(&["new", "agent", "rain.agt", "--address", CREATOR, "-o", "-", "-q"]).code(0).stdout;
    sandbox.write("draft.json", draft);
    let signed = sandbox.run_with_env(&["agt", "sign", "draft.json", "--wallet", "main"], &variables[1..]).code(0);
    assert!(signed.stderr.contains(&format!("signed by {CREATOR}")), "{}", signed.stderr);
    assert!(!format!("{signed:?}").contains(&key[2..20]) && !format!("{signed:?}").contains("correct horse"));
    sandbox.write("signed.json", signed.stdout);
    assert_eq!(sandbox.run(&["agt", "verify", "signed.json"]).code(0).stdout, format!("signed by its owner {CREATOR}\n"));
    // An invalid name is reported before asking for a password.
    for (arguments, code) in [
        (&["wallet", "new", "main"][..], "wallet.exists"),
        (&["wallet", "new", "../main"], "wallet.bad_name"),
        (&["agt", "sign", "agent.json", "--wallet", "other"], "wallet.not_found"),
    ] {
        let ran = sandbox.run(arguments).code(2);
        assert!(ran.stderr.contains(code), "{arguments:?}: {}", ran.stderr);
    }
    let short = [("TOOLCRIB_PASSWORD", "hi")];
    let weak = sandbox.run_with_env(&["wallet", "new", "second"], &short).code(2);
    assert!(weak.stderr.contains("wallet.weak_password"), "{}", weak.stderr);
    sandbox.run_with_env(&["wallet", "new", "second", "--allow-weak-password"], &short).code(0);
    // A relative folder is refused, since it would depend on the working folder.
    let relative = [("XDG_STATE_HOME", "state"), ("TOOLCRIB_PASSWORD", "correct horse")];
    sandbox.run_with_env(&["wallet", "new", "third"], &relative).code(0);
    assert!(!sandbox.path().join("state").exists());
    let none = sandbox.run(&["wallet", "address"]).code(2);
    assert!(none.stderr.contains("wallet.no_key"), "{}", none.stderr);
}

// req: AGT-016, AGT-018, AGT-021, AGT-024
#[test]
fn agents_are_signed_and_checked_offline() {
    let sandbox = Sandbox::new();
    sandbox.write("signed.json", std::fs::read(crate::examples().join("agent.agt.json")).expect("an example"));
    let ran = sandbox.run(&["agt", "verify", "signed.json"]).code(0);
    assert!(ran.stdout.starts_with("signed by its owner 0x"), "{}", ran.stdout);
    sandbox.write("changed.json", sandbox.read("signed.json").replacen("\"description\": \"", "\"description\": \"Not ", 1));
    assert!(sandbox.run(&["agt", "verify", "changed.json"]).code(1).stdout.starts_with("not valid: "));
    // The text on stderr is in the JSON too.
    sandbox.write("broken.json", sandbox.read("signed.json").replacen("\"owner\"", "\"ownr\"", 1));
    let (code, broken) = sandbox.run_json(&["agt", "verify", "broken.json"]);
    let found: Vec<_> = broken["data"]["findings"].as_array().expect("a list").iter().map(|finding| &finding["code"]).collect();
    let said = sandbox.run(&["agt", "verify", "broken.json"]).code(1).stderr;
    assert!(code == 1 && !found.is_empty(), "{broken:#}");
    let in_text: Vec<_> = said.split("error[").skip(1).filter_map(|rest| rest.split(']').next()).collect();
    assert!(!in_text.is_empty() && in_text.iter().all(|code| found.contains(&&serde_json::json!(code))), "{said} {broken:#}");
    assert!(broken["data"]["findings"][0]["line"].is_u64(), "{broken:#}");
    let draft = sandbox.run(&["new", "agent", "rain.agt", "--address", CREATOR, "-o", "-", "-q"]).code(0).stdout;
    sandbox.write("draft.json", &draft);
    let signed = sandbox.run(&["agt", "sign", "draft.json", "--dev-account", "0", "-q"]).code(0).stdout;
    sandbox.write("now.json", &signed);
    sandbox.run(&["agt", "verify", "now.json"]).code(0);
    let other = sandbox.run(&["agt", "sign", "draft.json", "--dev-account", "1"]).code(2);
    assert!(other.stderr.contains("chain.signature_wrong_signer"), "{}", other.stderr);

    // The payload is shown before it is signed. The vectors were made by other implementations.
    let folder = toolcrib_testkit::repository().join("vectors/agent");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("vectors") {
        let path = entry.expect("an entry").path();
        let vector: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).expect("a vector")).expect("JSON");
        let text = |key: &str| vector[key].as_str().expect("text").to_owned();
        let manifest: serde_json::Value = serde_json::from_str(&text("manifest")).expect("JSON");
        // The keys of one vector are not in NFC: its digest is shown, and the document is refused.
        let is_refused = path.file_name().is_some_and(|name| name == "key-order.json");
        sandbox.write("vector.json", text("manifest"));
        let ran = sandbox.run(&["agt", "sign", "vector.json", "--dev-account", "0"]).code(i32::from(is_refused));
        let (document, payload) = match is_refused {
            true => (String::new(), format!("Payload ({} bytes): ", vector["signing_bytes"])),
            false => (text("manifest"), format!("Payload ({} bytes): {}\n", vector["signing_bytes"], text("signing_text"))),
        };
        assert_eq!(ran.stdout, document, "stdout is the document, and the signature is the same");
        for line in [
            format!("Domain: {}\n", manifest["domain"].as_str().expect("a name")),
            format!("Account: {CREATOR}\n"),
            payload,
            format!("Digest (EIP-191): {}\n", text("eip191_digest")),
        ] {
            assert!(ran.stderr.contains(&line), "{line}{}", ran.stderr);
        }
        let (code, envelope) = sandbox.run_json(&["agt", "sign", "vector.json", "--dev-account", "0"]);
        let data = &envelope["data"];
        assert_eq!((code, data["signed"].is_null()), (i32::from(is_refused), is_refused));
        assert_eq!((&data["payload"], &data["digest"]), (&vector["signing_text"], &vector["eip191_digest"]));
        // A payload that is refused after signing was shown, too.
        let other = sandbox.run(&["agt", "sign", "vector.json", "--dev-account", "1"]);
        assert!(other.code != 0 && other.stdout.is_empty() && other.stderr.contains(&text("eip191_digest")), "{}", other.stderr);
        assert!(other.stderr.contains(&format!("Account: {STRANGER}\n")), "{}", other.stderr);
        count += 1;
    }
    assert_eq!(count, 4);
    // Without a terminal nothing is printed twice, and --quiet prints nothing.
    assert_eq!(sandbox.run(&["agt", "sign", "draft.json", "--dev-account", "0", "-q"]).code(0).stderr, "");
}
