//! `dev`: the real program with its three tools, called by the real program and by a client that trusts only the local authority.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy_primitives::{B256, U256, keccak256};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;
use toolcrib_chain::sign::{Domain, TransferAuthorization, TransferKind};
use toolcrib_chain::wallet::{DEV_ACCOUNTS, LocalWallet, Scope, Wallet};
use toolcrib_x402::{Authorization, Payment, Signature, Version, read_header};

use crate::onchain::ask;
use crate::{Sandbox, finish};

/// A development environment that ends with the test.
struct Dev {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    ready: Value,
}

impl Dev {
    fn start(sandbox: &Sandbox, more: &[&str]) -> Self {
        let usual = ["dev", "--json", "--port", "0", "--tools-port", "0", "--directory-port", "0", "--exit-after", "120"];
        let mut command = sandbox.command(&[&usual, more].concat());
        let mut child = command.stderr(Stdio::null()).spawn().expect("the program starts");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        out.read_line(&mut line).expect("a first line");
        let event: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(event["event"], "ready");
        Self { child, out, ready: event["data"].clone() }
    }

    fn url(&self) -> &str {
        self.ready["url"].as_str().expect("a URL")
    }

    fn tools(&self) -> &[Value] {
        self.ready["tools"].as_array().expect("a list")
    }

    fn run(&self, sandbox: &Sandbox, arguments: &[&str]) -> (i32, Value) {
        sandbox.run_json(&[arguments, &["--network", "local", "--rpc-url", self.url()]].concat())
    }

    /// Sends Ctrl-C, and returns the exit code and the last line.
    fn interrupt(self) -> (Option<i32>, Value) {
        self.signal("-INT")
    }

    /// Sends a signal, and returns the exit code and the last line.
    fn signal(mut self, signal: &str) -> (Option<i32>, Value) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("kill is there").success());
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).expect("text");
        let status = self.child.wait().expect("it ends");
        (status.code(), serde_json::from_str(rest.lines().last().expect("an envelope")).expect("JSON"))
    }

    fn balance(&self, of: usize) -> u64 {
        let token = &self.ready["assets"]["TestUSDC"];
        let data = [&keccak256("balanceOf(address)")[..4], DEV_ACCOUNTS[of].into_word().as_slice()].concat();
        let call = json!({ "to": token, "data": alloy_primitives::hex::encode_prefixed(data) });
        let answer: Value = serde_json::from_str(&ask(self.url(), "eth_call", &format!("{call},\"latest\""))).expect("JSON");
        let amount: U256 = answer["result"].as_str().expect("a word").parse().expect("a number");
        amount.to()
    }

    fn block_time(&self) -> u64 {
        let answer = ask(self.url(), "eth_getBlockByNumber", "\"latest\",false");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        let time: U256 = answer["result"]["timestamp"].as_str().expect("a time").parse().expect("a number");
        time.to()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A raw response.
struct HttpResponse {
    status: u16,
    head: String,
    body: Value,
}

/// Calls a tool over TLS, trusting only the authority in its file.
fn call(runtime: &Runtime, dev: &Dev, tool: &Value, header: Option<&str>) -> HttpResponse {
    let endpoint = tool["endpoint"].as_str().expect("a URL").strip_prefix("https://").expect("https");
    let (authority, path) = endpoint.split_once('/').expect("a path");
    let (host, port) = authority.split_once(':').expect("a port");
    let pem = fs::read(dev.ready["authority"].as_str().expect("a path")).expect("a file");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&pem).expect("PEM")).expect("a root");
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let input = tool["example"].to_string();
    let header = header.map(|value| format!("PAYMENT-SIGNATURE: {value}\r\n")).unwrap_or_default();
    let length = input.len();
    let request = format!(
        "POST /{path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\nContent-Type: application/json\r\n{header}Content-Length: {length}\r\n\r\n{input}"
    );
    let text = runtime.block_on(async {
        let stream = TcpStream::connect(("127.0.0.1", port.parse().expect("a number"))).await.expect("it listens");
        let name = ServerName::try_from(host.to_owned()).expect("a name");
        let mut stream =
            TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("a certificate of the authority");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("an answer");
        text
    });
    let (head, body) = text.split_once("\r\n\r\n").expect("a whole head");
    let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
    HttpResponse { status, head: head.to_owned(), body: serde_json::from_str(body).expect("JSON") }
}

/// Answers a challenge as one of the accounts.
fn signed(runtime: &Runtime, dev: &Dev, challenge: &HttpResponse, account: u32) -> String {
    let header = challenge.head.lines().find_map(|line| line.strip_prefix("payment-required: ")).expect("version 2");
    let challenge = read_header(header).challenge.expect("a challenge");
    let (offer, wallet) = (&challenge.accepts[0], LocalWallet::development(account).expect("a key"));
    let token = offer.token().expect("a token of the table");
    let authorization = Authorization {
        from: wallet.address(),
        to: offer.pay_to.evm_address().expect("an account"),
        value: offer.amount,
        valid_after: 0,
        valid_before: dev.block_time() + 250,
        nonce: keccak256(format!("{account} {}", token.chain)),
    };
    let domain = Domain::new(token.name, token.version, U256::from(token.chain), token.address);
    let digest: B256 = TransferAuthorization::from(&authorization).digest(TransferKind::Transfer, &domain);
    let cleared = Scope::impersonated(token.chain).clear(&wallet).expect("leave");
    let signature = runtime.block_on(wallet.sign_digest(digest, cleared)).expect("signed");
    let signature = Signature::new(signature.canonical().to_vec()).expect("65 bytes");
    let payment =
        Payment::new(Version::V2, offer, authorization, signature, challenge.resource.clone(), challenge.extensions.clone());
    payment.to_header().expect("a header")
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

// req: GATE-001, PAY-004, VERIFY-001
#[test]
fn three_tools_verify_and_answer() {
    let (sandbox, runtime) = (Sandbox::new(), runtime());
    let dev = Dev::start(&sandbox, &[]);
    let tools = dev.tools();
    let accesses: Vec<_> = tools.iter().map(|tool| (tool["id"].as_str(), tool["access"].as_str())).collect();
    assert_eq!(accesses, [(Some("1"), Some("open")), (Some("2"), Some("nft")), (Some("3"), Some("paid"))]);
    for tool in tools {
        let reference = tool["tool"].as_str().expect("a reference");
        let (code, report) = dev.run(&sandbox, &["verify", reference]);
        let data = &report["data"];
        assert_eq!(
            (code, &data["verified"], &data["conformant"], &data["dev"]),
            (0, &json!(true), &json!(true), &json!(true)),
            "{report:#}"
        );
        let (code, probe) = dev.run(&sandbox, &["probe", reference]);
        let is_open = tool["access"] == "open";
        assert_eq!((code, &probe["data"]["good"]), (0, &json!(true)), "{probe:#}");
        let state = &probe["data"]["report"]["state"];
        assert_eq!(state, if is_open { "refuses" } else { "challenges" }, "{probe:#}");
    }

    let answer = call(&runtime, &dev, &tools[0], None);
    assert_eq!((answer.status, &answer.body["words"]), (200, &json!(6)), "{}", answer.body);

    let challenge = call(&runtime, &dev, &tools[1], None);
    assert_eq!(challenge.status, 402);
    let answer = call(&runtime, &dev, &tools[1], Some(&signed(&runtime, &dev, &challenge, 2)));
    assert_eq!((answer.status, &answer.body["code"]), (403, &json!("access.denied")), "account 2 has no token");
    let answer = call(&runtime, &dev, &tools[1], Some(&signed(&runtime, &dev, &challenge, 1)));
    assert_eq!((answer.status, answer.body), (200, json!({"value": 42.1648128, "unit": "km"})));

    let before = [0, 1].map(|account| dev.balance(account));
    assert_eq!(before[1], 1_000_000_000);
    let challenge = call(&runtime, &dev, &tools[2], None);
    assert_eq!((challenge.status, dev.balance(1)), (402, before[1]));
    let payment = signed(&runtime, &dev, &challenge, 1);
    let answer = call(&runtime, &dev, &tools[2], Some(&payment));
    assert_eq!((answer.status, &answer.body["day"]), (200, &json!("usual")), "{}", answer.body);
    assert_eq!([0, 1].map(|account| dev.balance(account)), [before[0] + 10_000, before[1] - 10_000], "a cent has moved");
    let again = call(&runtime, &dev, &tools[2], Some(&payment));
    assert_eq!((again.status, dev.balance(1)), (409, before[1] - 10_000), "{}", again.body);
}

#[test]
fn a_chain_that_is_kept_has_them_once_and_ctrl_c_ends_it() {
    let sandbox = Sandbox::new();
    let mut ports = Vec::new();
    for round in 0..2 {
        let dev = Dev::start(&sandbox, &["--state", "chain.json"]);
        let ids: Vec<_> = dev.tools().iter().filter_map(|tool| tool["id"].as_str()).collect();
        assert_eq!(ids, ["1", "2", "3"], "round {round}");
        ports.push(dev.tools()[0]["endpoint"].clone());
        // The ports differ, so the registrations were updated, with the same ids.
        for id in ["1", "2", "3"] {
            assert_eq!(dev.run(&sandbox, &["verify", id]).0, 0, "round {round}, tool {id}");
        }
        assert_eq!(dev.run(&sandbox, &["inspect", "4"]).0, 1, "round {round}: there is no fourth");
        assert_eq!(dev.balance(1), 1_000_000_000, "given once");
        let ready = dev.ready.clone();
        // Ended by Ctrl-C and by SIGTERM: the chain is saved either way.
        let (code, envelope) = dev.signal(if round == 0 { "-TERM" } else { "-INT" });
        assert_eq!((code, &envelope["success"], &envelope["data"]), (Some(0), &json!(true), &ready));
    }
    assert_ne!(ports[0], ports[1]);
}

#[test]
fn people_are_told_what_to_try() {
    let sandbox = Sandbox::new();
    let began = Instant::now();
    let ran = finish(
        &mut sandbox.command(&["dev", "--port", "0", "--tools-port", "0", "--directory-port", "0", "--exit-after", "0"]),
        b"",
    )
    .code(0);
    toolcrib_testkit::assert_not_hung(began, "starting the development environment");
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert!(lines[0].starts_with("chain 31337 at http://127.0.0.1:"), "{}", ran.stdout);
    assert_eq!(lines.iter().filter(|line| line.starts_with("account ")).count(), 10);
    for (slug, word) in [("word-count", "open"), ("unit-conversion", "nft"), ("sun-times", "paid")] {
        let line = lines.iter().find(|line| line.contains(&format!("https://{slug}.tool.localhost:"))).expect(slug);
        assert!(line.starts_with("tool eip155:31337/erc8257:0x") && line.contains(&format!(" {word} ")), "{line}");
        assert!(ran.stderr.contains(slug), "{}", ran.stderr);
    }
    assert!(
        ran.stderr.contains("verify 3")
            && ran.stderr.contains("probe 2")
            && ran.stderr.contains("keys of the ten accounts are public")
    );
    // One line per command to try, and none of them on stdout.
    let quiet = finish(
        &mut sandbox.command(&["dev", "-q", "--port", "0", "--tools-port", "0", "--directory-port", "0", "--exit-after", "0"]),
        b"",
    )
    .code(0);
    assert_eq!(quiet.stderr, "");
    assert_eq!(quiet.stdout.lines().count(), lines.len());
}

#[test]
fn the_authority_stays_and_is_for_its_owner_alone() {
    let sandbox = Sandbox::new();
    let folder = sandbox.home().join(".local/state/toolcrib/dev");
    let files = || ["ca.pem", "ca-key.pem"].map(|name| fs::read(folder.join(name)).expect("a file"));
    let start = || {
        finish(
            &mut sandbox.command(&["dev", "--port", "0", "--tools-port", "0", "--directory-port", "0", "--exit-after", "0"]),
            b"",
        )
    };
    start().code(0);
    let before = files();
    start().code(0);
    assert_eq!(files(), before, "the same authority");
    #[cfg(unix)]
    for name in ["ca.pem", "ca-key.pem"] {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(folder.join(name)).expect("there").permissions().mode() & 0o777, 0o600, "{name}");
    }
    fs::write(folder.join("ca.pem"), "broken").expect("written");
    let ran = start().code(2);
    assert!(ran.stderr.contains("gate.authority_unusable"), "{}", ran.stderr);
    assert_eq!(fs::read(folder.join("ca.pem")).expect("there"), b"broken", "not overwritten");
    assert_eq!(fs::read(folder.join("ca-key.pem")).expect("there"), before[1]);
}

#[test]
fn where_there_can_be_no_tools_there_are_none() {
    let sandbox = Sandbox::new();
    for more in [["--bare", "--block-time=1"], ["--chain-id", "84532"]] {
        let dev = Dev::start(&sandbox, &more);
        assert_eq!(dev.ready.get("tools"), None, "{more:?}");
        assert_eq!(dev.interrupt().0, Some(0));
    }
    assert!(!sandbox.home().join(".local/state/toolcrib/dev").exists(), "no authority without tools");
    // A port in use.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("bound").port().to_string();
    let ran = finish(
        &mut sandbox.command(&["dev", "--port", "0", "--tools-port", &port, "--directory-port", "0", "--exit-after", "0"]),
        b"",
    )
    .code(2);
    assert!(ran.stderr.contains("gate.bind") && ran.stderr.contains("--tools-port"), "{}", ran.stderr);
}

/// The commands that a new user tries: the program calls the three tools, identifies itself, and pays.
#[test]
fn the_program_calls_the_tools() {
    let sandbox = Sandbox::new();
    let dev = Dev::start(&sandbox, &[]);
    let (payer, payee) = (dev.balance(1), dev.balance(0));
    for (tool, paid) in dev.tools().iter().zip([Value::Null, Value::Null, json!("settled")]) {
        let (reference, input) = (tool["tool"].as_str().expect("a reference"), tool["example"].to_string());
        let (code, called) = dev.run(&sandbox, &["call", reference, "--dev-account", "1", "--yes", "--input", &input]);
        assert_eq!((code, &called["data"]["paid"]["state"]), (0, &paid), "{called:#}");
        assert!(called["data"]["output"].is_object(), "{called:#}");
    }
    assert_eq!((payer - dev.balance(1), dev.balance(0) - payee), (10_000, 10_000));
    // An account without the token, and one without money, get an error that says so.
    let (reference, input) = (dev.tools()[1]["tool"].as_str().expect("a reference"), dev.tools()[1]["example"].to_string());
    let (code, denied) = dev.run(&sandbox, &["call", reference, "--dev-account", "4", "--yes", "--input", &input]);
    assert_eq!((code, &denied["data"]["code"]), (1, &json!("call.denied")), "{denied:#}");
    // Without a terminal and prior approval nothing is signed, even if it costs nothing.
    let (code, unsigned) = dev.run(&sandbox, &["call", reference, "--dev-account", "1", "--input", &input]);
    assert_eq!((code, &unsigned["data"]["code"]), (1, &json!("call.identity_not_approved")), "{unsigned:#}");
    crate::write(&sandbox.home().join(".config/toolcrib/config.toml"), b"[spend]\nask_identity = false\n");
    let (code, called) = dev.run(&sandbox, &["call", reference, "--dev-account", "1", "--input", &input]);
    assert!(code == 0 && called["data"]["output"].is_object(), "{called:#}");
    assert_eq!(denied["data"]["denial"]["requirements"][0]["met"], false, "{denied:#}");
    let (reference, input) = (dev.tools()[2]["tool"].as_str().expect("a reference"), dev.tools()[2]["example"].to_string());
    let (code, poor) = dev.run(&sandbox, &["call", reference, "--dev-account", "4", "--yes", "--input", &input]);
    assert_eq!((code, &poor["data"]["code"]), (1, &json!("call.funds")), "{poor:#}");
}

/// Repeats a query until the answer matches, for half a minute.
fn until(mut question: impl FnMut() -> Value, satisfies: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let answer = question();
        if satisfies(&answer) || begun.elapsed() > Duration::from_secs(30) {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn the_directory_lists_the_tools_and_counts_what_was_paid() {
    let sandbox = Sandbox::new();
    let dev = Dev::start(&sandbox, &[]);
    let directory = dev.ready["directory"].as_str().expect("a URL").to_owned();
    let ask = |arguments: &[&str]| sandbox.run_json(&[arguments, &["--directory", &directory]].concat()).1;

    let listed =
        until(|| ask(&["tools", "list"]), |answer| answer["data"]["tools"].as_array().is_some_and(|tools| tools.len() == 3));
    assert_eq!(listed["data"]["tools"].as_array().map(Vec::len), Some(3), "all three verify: {listed:#}");
    // The search index is updated a moment later.
    let search = ["tools", "search", "--query", "when does the sun rise"];
    let found = until(|| ask(&search), |answer| answer["data"]["results"].as_array().is_some_and(|results| !results.is_empty()));
    assert_eq!(found["data"]["results"][0]["name"], "sun-times", "{found:#}");

    let paid = dev.tools().iter().find(|tool| tool["access"] == "paid").expect("a paid tool");
    let (id, input) = (paid["id"].as_str().expect("an id"), paid["example"].to_string());
    let (code, called) = dev.run(&sandbox, &["call", id, "--dev-account", "2", "--yes", "--input", &input]);
    assert_eq!(code, 0, "{called:#}");
    let registry = dev.ready["registry"].as_str().expect("an address");
    let activity = ["tools", "activity", "31337", registry, id];
    let seen = until(|| ask(&activity), |answer| answer["data"]["activity"].as_array().is_some_and(|events| !events.is_empty()));
    let event = &seen["data"]["activity"][0];
    assert_eq!(event["paid"], true, "the chain shows the payment: {seen:#}");
    assert_eq!(event["caller_address"], format!("{:#x}", DEV_ACCOUNTS[2]));
}

#[test]
fn a_model_finds_the_tools_through_the_bridge() {
    use std::io::Write as _;

    let sandbox = Sandbox::new();
    let dev = Dev::start(&sandbox, &[]);
    let directory = dev.ready["directory"].as_str().expect("a URL").to_owned();
    let search = ["tools", "search", "--query", "count words", "--directory", &directory];
    until(
        || sandbox.run_json(&search).1,
        |answer| answer["data"]["results"].as_array().is_some_and(|results| !results.is_empty()),
    );
    let arguments = ["mcp", "--directory", &directory, "--network", "local", "--rpc-url", dev.url(), "--dev-account", "2"];
    let mut child = sandbox.command(&arguments).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program starts");
    let mut input = child.stdin.take().expect("a pipe");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut say = |message: Value| writeln!(input, "{message}").expect("it listens");
    let mut hear = || {
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        serde_json::from_str::<Value>(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    };
    let client = json!({ "name": "test", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    say(json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }));
    assert_eq!(hear()["result"]["serverInfo"]["name"], "toolcrib");
    say(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    say(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }));
    let tools = hear();
    let names: Vec<_> = tools["result"]["tools"].as_array().expect("tools").iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["call_tool", "get_tool", "get_wallet_tools", "search_tools", "verify_tool"].map(Value::from));
    let params = json!({ "name": "search_tools", "arguments": { "query": "count words" } });
    say(json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params }));
    let found = hear();
    assert!(found["result"]["content"][0]["text"].as_str().is_some_and(|text| text.contains("word-count")), "{found:#}");
    // Without a way to ask its user, the client cannot call, not even an open tool.
    let tool = dev.tools()[0]["tool"].clone();
    let params = json!({ "name": "call_tool", "arguments": { "reference": tool, "input": { "text": "a b" } } });
    say(json!({ "jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": params }));
    let refused = hear();
    assert_eq!(refused["result"]["isError"], true, "{refused:#}");
    assert!(refused.to_string().contains("mcp.elicitation_unsupported"), "{refused:#}");
    drop(input);
    assert_eq!(child.wait().expect("it ends with its client").code(), Some(0));
}
