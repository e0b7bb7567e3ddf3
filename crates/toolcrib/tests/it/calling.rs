//! Commands that call and pay, against a real chain and a tool at `https://<slug>.tool.localhost:<port>`.

use std::sync::{Arc, Mutex};

use alloy_primitives::{Address, B256, U256, address, hex, keccak256};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use toolcrib_core::money::Amount;
use toolcrib_x402::{Challenge, Offer, Payment, SettleResponse, Version, asset, header, read_payment_headers};

use crate::onchain::{CREATOR, World, ask};
use crate::{RunOutput, example};
use toolcrib_testkit::servers::{Authority, Request, Script, Server, Step, answer, ok};

const HOST: &str = "tide-table.tool.localhost";
const PAYER: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
pub(crate) const RECIPIENT: Address = address!("90F79bf6EB2c4f870365E785982E1f101E93b906");
pub(crate) const PRICE: u64 = 10_000;
pub(crate) const INPUT: &str = r#"{"harbour": "NLRTM", "date": "2026-11-15"}"#;

/// How the server responds to calls, with and without a payment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Honest,
    /// Asks for more than the manifest's price.
    Dear,
    /// Settles, but does not respond.
    Silent,
    /// Settles and serves, without a receipt.
    GivesNoReceipt,
    /// Serves with a receipt of a nonexistent transaction.
    Invents,
    /// Accepts the payment and redirects.
    Redirects,
    /// Accepts the payment and asks for another one.
    AsksAgain,
}

pub(crate) struct Shop {
    pub(crate) world: World,
    port: u16,
    mode: Arc<Mutex<Mode>>,
    pub(crate) tool: String,
    _server: Server,
    _runtime: Runtime,
}

impl Shop {
    pub(crate) fn open() -> Self {
        Self::open_on(31_337)
    }

    /// A tool that is paid on another chain, for which no node is configured.
    pub(crate) fn open_on(chain: u64) -> Self {
        let world = World::new();
        let authority = Authority::new("a development world");
        let pem = format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", header::encode(&authority.der()));
        crate::write(&world.sandbox.home().join(".local/state/toolcrib/dev/ca.pem"), pem.as_bytes());
        let (mode, manifest) = (Arc::new(Mutex::new(Mode::Honest)), Arc::<Mutex<String>>::default());
        let (shared, served, node) = (mode.clone(), manifest.clone(), world.url.clone());
        let respond = move |request: &Request| match request.method() {
            "GET" => ok(served.lock().expect("unpoisoned").as_bytes()),
            _ => sell(request, chain, *shared.lock().expect("unpoisoned"), &node),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let script = Script::tls(&authority.leaf(&[HOST]), vec![Step::ReadRequest, Step::answer(respond)]);
        let server = runtime.block_on(Server::start(script));
        let port = server.address.port();
        let mut text: Value = serde_json::from_str(&example("tool-free.json")).expect("JSON");
        text["creatorAddress"] = json!(CREATOR.to_lowercase());
        text["endpoint"] = json!(format!("https://{HOST}:{port}/tide-table"));
        text["pricing"] = json!([{
            "amount": PRICE.to_string(),
            "asset": format!("eip155:{chain}/erc20:{:#x}", token_on(chain)),
            "recipient": format!("eip155:{chain}:{RECIPIENT:#x}"),
            "protocol": "x402",
        }]);
        world.sandbox.write("tool.json", text.to_string());
        *manifest.lock().expect("unpoisoned") = text.to_string();
        let uri = format!("https://{HOST}:{port}/.well-known/ai-tool/tide-table.json");
        let ran = world.sign(&["register", "--manifest", "tool.json", "--metadata", &uri, "--skip-fetch"], "0").code(0);
        let mint = format!("{}{:0>64}{:0>64}", &hex::encode(keccak256("mint(address,uint256)"))[..8], &PAYER[2..], "f4240");
        send(&world.url, &mint);
        let tool = ran.stdout.trim().to_owned();
        Self { world, port, mode, tool, _server: server, _runtime: runtime }
    }

    fn switch(&self, mode: Mode) {
        *self.mode.lock().expect("unpoisoned") = mode;
    }

    fn run(&self, arguments: &[&str]) -> RunOutput {
        self.world.run(&[arguments, &["--dev-account", "1"]].concat())
    }

    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> (i32, Value) {
        self.world.sandbox.run_json(&[arguments, &["--network", "local", "--rpc-url", &self.world.url]].concat())
    }

    #[track_caller]
    pub(crate) fn call(&self, more: &[&str]) -> (i32, Value) {
        let agrees = ["--yes", "--max-price", "--agree"].iter().any(|option| more.contains(option));
        self.call_as_is(&[more, if agrees { &[] } else { &["--yes"] }].concat())
    }

    /// Calls without approving anything beforehand. There is no terminal.
    #[track_caller]
    fn call_as_is(&self, more: &[&str]) -> (i32, Value) {
        self.json(&[&["call", &self.tool, "--input", INPUT, "--dev-account", "1"], more].concat())
    }

    /// The URL of the tool.
    pub(crate) fn url(&self) -> String {
        format!("https://{HOST}:{}/tide-table", self.port)
    }

    pub(crate) fn balance(&self) -> u64 {
        let data = format!("0x{}{:0>64}", &hex::encode(keccak256("balanceOf(address)"))[..8], &hex::encode(RECIPIENT));
        let asked = ask(&self.world.url, "eth_call", &format!(r#"{{"to":"{}","data":"{data}"}},"latest""#, token()));
        let answer: Value = serde_json::from_str(&asked).expect("JSON");
        let digits = answer["result"].as_str().expect("a word").trim_start_matches("0x").trim_start_matches('0');
        if digits.is_empty() { 0 } else { u64::from_str_radix(digits, 16).expect("a number") }
    }
}

fn token() -> Address {
    token_on(31_337)
}

fn token_on(chain: u64) -> Address {
    asset::usdc(chain).expect("listed").address
}

fn offer(chain: u64, amount: u64) -> Offer {
    let token = asset::usdc(chain).expect("listed");
    Offer::exact(&token, Amount::new(U256::from(amount)), RECIPIENT, 300).expect("an EVM chain")
}

fn sell(request: &Request, chain: u64, mode: Mode, node: &str) -> Vec<u8> {
    let headers: Vec<_> = request.head.lines().skip(1).filter_map(|line| line.split_once(':')).collect();
    let pairs = headers.iter().map(|(name, value)| (name.trim(), value.trim().as_bytes()));
    let reading = read_payment_headers(pairs).filter(|_| mode != Mode::AsksAgain);
    let Some(reading) = reading else {
        let amount = if mode == Mode::Dear { 2 * PRICE } else { PRICE };
        let accepts = vec![offer(chain, amount)];
        let challenge = Challenge { version: Version::V2, error: None, resource: None, accepts, extensions: Vec::new() };
        let head = format!("Content-Type: application/json\r\nPAYMENT-REQUIRED: {}\r\n", challenge.to_header().expect("it fits"));
        return answer("402 Payment Required", &head, b"{}");
    };
    let payment = reading.into_result().expect("a payment that can be read");
    if mode == Mode::Redirects {
        return answer("307 Temporary Redirect", "Location: https://elsewhere.example.com/\r\n", b"");
    }
    let transaction = if mode == Mode::Invents || chain != 31_337 { B256::repeat_byte(0xab) } else { settle(node, &payment) };
    if mode == Mode::Silent {
        return Vec::new();
    }
    let output = br#"{"tides": [{"time": "2026-11-15T04:10:00Z", "height_cm": 187, "kind": "high"}]}"#;
    if mode == Mode::GivesNoReceipt {
        return ok(output);
    }
    let receipt = SettleResponse::settled(&payment, transaction).to_header(payment.version);
    let head = format!("Content-Type: application/json\r\nPAYMENT-RESPONSE: {receipt}\r\n");
    answer("200 OK", &head, output)
}

/// Transfers the money of a payment.
fn settle(node: &str, payment: &Payment) -> B256 {
    let authorization = &payment.authorization;
    let signature = payment.signature.as_bytes();
    let selector = keccak256("transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)");
    let words: [B256; 9] = [
        authorization.from.into_word(),
        authorization.to.into_word(),
        authorization.value.get().into(),
        U256::from(authorization.valid_after).into(),
        U256::from(authorization.valid_before).into(),
        authorization.nonce,
        U256::from(signature[64]).into(),
        B256::from_slice(&signature[..32]),
        B256::from_slice(&signature[32..64]),
    ];
    send(node, &format!("{}{}", &hex::encode(selector)[..8], hex::encode(words.concat())))
}

/// Sends a call to the token from development account 0.
fn send(node: &str, data: &str) -> B256 {
    let request = format!(r#"{{"from":"{CREATOR}","to":"{}","data":"0x{data}","gas":"0x100000"}}"#, token());
    let answer: Value = serde_json::from_str(&ask(node, "eth_sendTransaction", &request)).expect("JSON");
    answer["result"].as_str().expect("a hash").parse().expect("a hash")
}

// req: PAY-001, PAY-003, PAY-009
#[test]
fn a_tool_is_called_and_paid_for() {
    let shop = Shop::open();
    let (code, plan) = shop.call(&["--dry-run"]);
    assert_eq!((code, &plan["data"]["asks"], shop.balance()), (0, &json!(false), 0), "{plan:#}");
    assert!(plan["data"]["shown"].as_str().is_some_and(|shown| shown.starts_with("0.01 USDC")), "{plan:#}");

    let ran = shop.run(&["call", &shop.tool, "--input", INPUT, "--yes"]).code(0);
    let output: Value = serde_json::from_str(&ran.stdout).expect("stdout is the output alone");
    assert_eq!(output["tides"][0]["height_cm"], 187);
    assert!(
        ran.stderr.contains("(eip155:31337, test money)")
            && ran.stderr.contains("paid 0.01 USDC on ")
            && ran.stderr.contains("settled"),
        "{}",
        ran.stderr
    );
    assert_eq!(shop.balance(), PRICE);

    let (code, paid) = shop.call(&["--max-price", "0.01"]);
    assert_eq!((code, &paid["data"]["paid"]["state"]), (0, &json!("settled")), "{paid:#}");
    let (code, refused) = shop.call(&["--max-price", "0.009999"]);
    assert_eq!((code, &refused["data"]["code"]), (1, &json!("call.above_max_price")), "{refused:#}");
    let (code, budget) = shop.world.sandbox.run_json(&["budget"]);
    assert_eq!((code, &budget["data"]["spent_test"]["day"]), (0, &json!("0.02")), "{budget:#}");
    let (_, list) = shop.world.sandbox.run_json(&["payments"]);
    let states: Vec<_> = list["data"]["payments"].as_array().expect("a list").iter().map(|entry| &entry["state"]).collect();
    assert_eq!(states, [&json!("settled"), &json!("settled")], "{list:#}");
    assert!(shop.world.sandbox.run(&["payments"]).code(0).stdout.contains("settled"));
    assert!(shop.world.sandbox.run(&["budget"]).code(0).stdout.contains("0.02 of 1"));

    // There is no prompt without a terminal, so other terms must be approved by an option.
    shop.switch(Mode::Dear);
    let (code, refused) = shop.call(&["--yes"]);
    assert_eq!((code, &refused["data"]["code"]), (1, &json!("call.terms_differ")), "{refused:#}");
    let terms = refused["data"]["asked"][0]["terms"].as_str().expect("terms").to_owned();
    assert!(refused["data"]["findings"][0]["code"].is_string(), "{refused:#}");
    let ran = shop.run(&["call", &shop.tool, "--input", INPUT, "--yes"]).code(1);
    assert!(ran.stderr.contains(&format!("--agree {terms}")) && ran.stderr.contains("hint"), "{}", ran.stderr);
    let (code, _) = shop.call(&["--agree", &terms]);
    assert_eq!((code, shop.balance()), (0, 4 * PRICE));

    let (_, wrong) = shop.json(&["call", &shop.tool, "--input", r#"{"harbour": "rotterdam"}"#, "--dev-account", "1"]);
    assert!(wrong["data"]["violations"][0].is_string(), "{wrong:#}");
    for (input, expected) in [(r#"{"harbour": "rotterdam"}"#, 1), ("no JSON", 2), ("@missing.json", 2)] {
        assert_eq!(shop.run(&["call", &shop.tool, "--input", input]).code, expected, "{input}");
    }
    shop.switch(Mode::Honest);
    let open = shop.world.run(&["call", &shop.tool, "--input", INPUT]).code(2);
    assert!(open.stderr.contains("call.no_wallet"), "{}", open.stderr);
    assert_eq!(shop.balance(), 4 * PRICE);
}

#[test]
fn a_lost_answer_is_found_on_the_chain() {
    let shop = Shop::open();
    shop.switch(Mode::Silent);
    let (code, lost) = shop.call(&[]);
    assert_eq!((code, &lost["errors"][0]["code"]), (2, &json!("call.indeterminate")), "{lost:#}");
    let id = lost["data"]["payment"].as_str().expect("a payment").to_owned();
    let (_, open) = shop.world.sandbox.run_json(&["payments", "--open"]);
    assert_eq!(open["data"]["payments"][0]["payment"], json!(id), "{open:#}");
    let (code, resolved) = shop.json(&["payments", "resolve", &id]);
    assert_eq!((code, &resolved["data"]["state"]), (0, &json!("settled")), "{resolved:#}");
    assert!(resolved["data"]["transaction"].is_string() && shop.balance() == PRICE);
    // The authorization is kept to fetch the result, though this server does not have it.
    assert_eq!(resolved["data"]["resumable"], json!(true), "{resolved:#}");
    let (code, silent) = shop.json(&["payments", "resume", &id]);
    assert_eq!((code, &silent["errors"][0]["code"]), (2, &json!("call.indeterminate")), "{silent:#}");
    let (_, list) = shop.world.sandbox.run_json(&["payments"]);
    assert_eq!(list["data"]["payments"][0]["state"], json!("settled"), "asking again forgets nothing: {list:#}");
    let (code, _) = shop.json(&["payments", "resolve", "00000000000000000000000000000000"]);
    assert_eq!(code, 2);
}

// attack: T13
#[test]
fn a_receipt_that_the_chain_does_not_show_is_a_warning() {
    let shop = Shop::open();
    shop.switch(Mode::Invents);
    let ran = shop.run(&["call", &shop.tool, "--input", INPUT, "--yes"]).code(0);
    assert!(ran.stdout.contains("height_cm"), "the result is handed on: {}", ran.stdout);
    for part in ["warning: call.receipt_unconfirmed", "unknown (stated by the server, not checked)", "toolcrib payments resolve "]
    {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    let (code, called) = shop.call(&[]);
    assert_eq!((code, &called["warnings"][0]["code"]), (0, &json!("call.receipt_unconfirmed")), "{called:#}");
    let paid = &called["data"]["paid"];
    assert_eq!((&paid["state"], &paid["evidence"]), (&json!("unknown"), &json!("server")), "{called:#}");
    let id = paid["payment"].as_str().expect("a payment");
    // The list and the payment itself say so, and it stays open until the chain confirms it.
    let list = shop.world.sandbox.run(&["payments"]).code(0);
    let lines: Vec<_> = list.stdout.lines().filter(|line| line.ends_with("(stated by the server, not checked)")).collect();
    assert_eq!(lines.len(), 2, "{}", list.stdout);
    let shown = shop.world.sandbox.run(&["payments", "show", id]).code(0);
    for part in ["state       unknown", "test money", "settlement  0xabab", "abab, stated by the server, not checked"] {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }
    let (_, entry) = shop.world.sandbox.run_json(&["payments", "show", id]);
    assert_eq!((&entry["data"]["state"], &entry["data"]["evidence"]), (&json!("unknown"), &json!("server")), "{entry:#}");
    let (code, open) = shop.json(&["payments", "resolve", id]);
    assert_eq!((code, &open["data"]["state"]), (1, &json!("open")), "{open:#}");
    assert_eq!(shop.balance(), 0);
    // An honest one is confirmed.
    shop.switch(Mode::Honest);
    let ran = shop.run(&["call", &shop.tool, "--input", INPUT, "--yes"]).code(0);
    assert!(ran.stderr.contains("settled (confirmed on the chain)"), "{}", ran.stderr);
    let (_, list) = shop.world.sandbox.run_json(&["payments", "--limit", "1"]);
    assert_eq!(list["data"]["payments"][0]["evidence"], json!("chain"), "{list:#}");
}

#[test]
fn a_result_without_a_receipt_names_the_command_that_asks_the_chain() {
    let shop = Shop::open();
    shop.switch(Mode::GivesNoReceipt);
    let ran = shop.run(&["call", &shop.tool, "--input", INPUT, "--yes"]).code(0);
    assert!(ran.stdout.contains("height_cm"), "the result is handed on: {}", ran.stdout);
    assert!(ran.stderr.contains("warning: call.no_receipt"), "{}", ran.stderr);
    let (_, named) = ran.stderr.split_once("toolcrib payments resolve ").unwrap_or_else(|| panic!("{}", ran.stderr));
    let (code, called) = shop.call(&[]);
    assert_eq!((code, &called["warnings"][0]["code"]), (0, &json!("call.no_receipt")), "{called:#}");
    let paid = &called["data"]["paid"];
    assert_eq!((&paid["state"], &paid["evidence"]), (&json!("unknown"), &Value::Null), "{called:#}");
    // Both payments stay open until they are checked on the chain.
    let (_, open) = shop.world.sandbox.run_json(&["payments", "--open"]);
    assert_eq!(open["data"]["payments"].as_array().map(Vec::len), Some(2), "{open:#}");
    for id in [&named[..32], paid["payment"].as_str().expect("a payment")] {
        let (code, resolved) = shop.json(&["payments", "resolve", id]);
        assert_eq!((code, &resolved["data"]["state"]), (0, &json!("settled")), "{resolved:#}");
    }
    assert_eq!(shop.balance(), 2 * PRICE);
}

#[test]
fn errors_after_paying_name_the_payment() {
    let shop = Shop::open();
    for (mode, expected) in [(Mode::Redirects, "call.redirected"), (Mode::AsksAgain, "call.payment_refused")] {
        shop.switch(mode);
        let ran = shop.run(&["call", &shop.tool, "--input", INPUT, "--yes"]).code(1);
        assert!(ran.stderr.contains(&format!("error[{expected}]")), "{}", ran.stderr);
        let named = ran.stderr.split_once("toolcrib payments resolve ").expect("a command").1;
        let (code, refused) = shop.call(&[]);
        assert_eq!((code, &refused["data"]["code"]), (1, &json!(expected)), "{refused:#}");
        for id in [&named[..32], refused["data"]["payment"].as_str().expect("a payment")] {
            let (code, entry) = shop.world.sandbox.run_json(&["payments", "show", id]);
            assert_eq!((code, &entry["data"]["state"]), (0, &json!("unknown")), "{entry:#}");
        }
    }
    assert_eq!(shop.balance(), 0);
}

#[test]
fn urls_are_paid_what_is_allowed() {
    let shop = Shop::open();
    let url = shop.url();
    let to = RECIPIENT.to_checksum(None);
    let pay = |more: &[&str]| shop.json(&[&["pay", &url, "--data", INPUT, "--dev-account", "1"], more].concat());
    for more in [&[][..], &["--max-price", "0.05"], &["--to", &to], &["--to", PAYER, "--max-price", "1"]] {
        let (code, refused) = pay(more);
        assert_eq!((code, &refused["data"]["code"]), (1, &json!("call.not_consented")), "{refused:#}");
    }
    let (code, refused) = shop.json(&["auth", &url, "--to", &to, "--dev-account", "1"]);
    assert_eq!((code, &refused["data"]["code"], shop.balance()), (1, &json!("call.not_consented"), 0));
    let (code, asked) = pay(&["--max-price", "0.01", "--to", &to, "--dry-run"]);
    assert_eq!((code, shop.balance()), (0, 0), "{asked:#}");
    assert_eq!(asked["data"]["report"]["asks"][0]["amount"], json!(PRICE.to_string()), "{asked:#}");
    let (code, paid) = pay(&["--max-price", "0.01", "--to", &to]);
    assert_eq!((code, shop.balance()), (0, PRICE), "{paid:#}");
}

// req: PAY-009
#[test]
fn without_a_terminal_nothing_is_paid_that_was_not_agreed_to() {
    let shop = Shop::open();
    let (code, refused) = shop.call_as_is(&[]);
    assert_eq!((code, &refused["data"]["code"], shop.balance()), (1, &json!("call.not_approved"), 0), "{refused:#}");
    assert!(refused["data"]["hint"].as_str().is_some_and(|hint| hint.contains("--max-price")), "{refused:#}");
    let (_, plan) = shop.call_as_is(&["--dry-run"]);
    assert_eq!(plan["data"]["asks"], json!(true), "{plan:#}");
    let (_, list) = shop.world.sandbox.run_json(&["payments"]);
    assert_eq!(list["data"]["payments"], json!([]), "nothing was signed");

    for (number, more) in [&["--yes"][..], &["--max-price", "0.01"]].into_iter().enumerate() {
        let (code, paid) = shop.call_as_is(more);
        assert_eq!((code, shop.balance()), (0, (number as u64 + 1) * PRICE), "{paid:#}");
    }
    // Limits in the user's settings count as approval.
    let settings = shop.world.sandbox.home().join(".config/toolcrib/config.toml");
    crate::write(&settings, b"[spend]\nask_above = \"0.009999\"\n");
    let (code, refused) = shop.call_as_is(&[]);
    assert_eq!((code, &refused["data"]["code"]), (1, &json!("call.not_approved")), "{refused:#}");
    crate::write(&settings, b"[spend]\nask_above = \"0.01\"\n");
    let (code, paid) = shop.call_as_is(&[]);
    assert_eq!((code, shop.balance()), (0, 3 * PRICE), "{paid:#}");
}

#[test]
fn limits_come_from_the_user_alone() {
    let shop = Shop::open();
    crate::write(&shop.world.sandbox.home().join(".config/toolcrib/config.toml"), b"[spend]\nper_call = \"0.005\"\n");
    let (code, refused) = shop.call(&["--yes"]);
    assert_eq!((code, &refused["data"]["code"], shop.balance()), (1, &json!("spend.per_call"), 0), "{refused:#}");
    // A project folder cannot raise them.
    shop.world.sandbox.write("toolcrib.toml", "[spend]\nper_call = \"100\"\n");
    let ran = shop.run(&["call", &shop.tool, "--input", INPUT, "--yes"]).code(2);
    assert!(ran.stderr.contains("cli.settings") && ran.stderr.contains("the user's settings file"), "{}", ran.stderr);
    assert_eq!(shop.balance(), 0);
}
