//! `agt publish` with what changes the world: a node that pins, a program and a name server that change TXT records.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::runtime::Runtime;

use crate::onchain::CREATOR;
use crate::support::{Request, Script, Server, Step, ok};
use crate::{Ran, Sandbox};

const TOKEN: &str = "s3cret-pin-token";
const SECRET: &str = "dG9vbGNyaWItdGVzdC1rZXktdG9vbGNyaWItdGVzdCE=";
const OTHER_SECRET: &str = "b3RoZXItdGVzdC1rZXktb3RoZXItdGVzdC1rZXktISE=";
/// The CID of another file.
const OTHER_CID: &str = "bafkreigerz3nhhy7zonh55srsphplgwzr7ai2lctakkvqvalxxlfuikvk4";

/// A folder with a signed manifest and without records, its CID and its TXT record.
struct Signed {
    sandbox: Sandbox,
    cid: String,
    record: String,
}

impl Signed {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        sandbox.run(&["agt", "new", "rain.agt", "--owner", CREATOR, "--name", "Rain", "--out", "draft.json"]).code(0);
        sandbox.write("signed.json", sandbox.run(&["agt", "sign", "draft.json", "--dev-account", "0", "-q"]).code(0).stdout);
        sandbox.write("records.txt", "");
        let (_, packed) = sandbox.run_json(&["agt", "pack", "signed.json"]);
        let text = |key: &str| packed["data"][key].as_str().expect("text").to_owned();
        Self { cid: text("cid"), record: text("txt"), sandbox }
    }

    /// Publishes without asking a chain. Neither output nor error may have the token or a key.
    #[track_caller]
    fn publish(&self, more: &[&str], variables: &[(&str, &str)]) -> Ran {
        let base = ["agt", "publish", "signed.json", "--preview", "--yes"];
        let ran = self.sandbox.run_with_env(&[&base[..], more].concat(), variables);
        let text = format!("{}{}", ran.stdout, ran.stderr);
        assert!(![TOKEN, SECRET, OTHER_SECRET].iter().any(|secret| text.contains(secret)), "{text}");
        ran
    }

    /// The same with records in a file, as JSON.
    #[track_caller]
    fn publish_json(&self, more: &[&str], variables: &[(&str, &str)]) -> (i32, Value) {
        let ran = self.publish(&[&["--source", "file:records.txt", "--json"], more].concat(), variables);
        (ran.code, serde_json::from_str(&ran.stdout).expect("JSON"))
    }
}

/// A node with the RPC of Kubo that says it has pinned a CID.
struct Node {
    server: Server,
    _runtime: Runtime,
}

impl Node {
    fn pinning(cid: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let reply = format!("{{\"Root\":{{\"Cid\":{{\"/\":\"{cid}\"}},\"PinErrorMsg\":\"\"}}}}\n");
        let steps = vec![Step::ReadRequest, Step::answer(move |_: &Request| ok(&reply))];
        let server = runtime.block_on(Server::start(Script::plain(steps)));
        Self { server, _runtime: runtime }
    }

    fn setting(&self) -> String {
        format!("kubo:http://127.0.0.1:{}", self.server.address.port())
    }
}

// req: AGT-017
#[test]
fn a_node_pins_and_a_program_changes_the_records() {
    let signed = Signed::new();
    let node = Node::pinning(&signed.cid);
    let pin = ["--pin", &node.setting()];
    let token = [("TOOLCRIB_PIN_TOKEN", TOKEN)];
    let program = ["--txt", "command", "--txt-command", "/bin/sh", "--txt-argument", "-c", "--txt-argument", "cat > change.json"];
    let (code, published) = signed.publish_json(&[&pin[..], &program].concat(), &token);
    let data = &published["data"];
    assert_eq!((code, data["pinned"]["cid"].as_str()), (0, Some(&*signed.cid)), "{published:#}");
    assert_eq!(data["pinned"]["service"], format!("http://127.0.0.1:{}", node.server.address.port()), "{published:#}");
    assert_eq!(data["written"]["writer"], "command:/bin/sh", "{published:#}");
    let change: Value = serde_json::from_str(&signed.sandbox.read("change.json")).expect("JSON");
    assert_eq!((&change["domain"], &change["add"][0]["text"]), (&"rain.agt".into(), &signed.record.as_str().into()));
    // The token went to the node, the archive with it.
    let requests = node.server.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!((requests[0].method(), requests[0].path()), ("POST", "/api/v0/dag/import?pin-roots=true&stats=false"));
    assert_eq!(requests[0].header("authorization"), Some(&*format!("Bearer {TOKEN}")));
    let file = signed.sandbox.read("signed.json");
    assert!(requests[0].body.windows(file.len()).any(|window| window == file.as_bytes()), "the manifest is in the archive");
    // In words, and without a token.
    let ran = signed.publish(&[&["--source", "file:records.txt"], &pin[..]].concat(), &[]).code(0);
    assert!(ran.stderr.contains("pinned at ") && ran.stdout == format!("{}\n", signed.cid), "{ran:?}");
    assert_eq!(node.server.requests()[1].header("authorization"), None);
}

// req: AGT-017
#[test]
fn records_do_not_change_when_pinning_fails() {
    let signed = Signed::new();
    let program = ["--txt", "command", "--txt-command", "/bin/sh", "--txt-argument", "-c", "--txt-argument", "touch ran"];
    let node = Node::pinning(OTHER_CID);
    let refused = |more: &[&str], variables: &[(&str, &str)], expected: &str, hint: &str| {
        let (code, refused) = signed.publish_json(&[more, &program].concat(), variables);
        let error = &refused["errors"][0];
        assert_eq!((code, error["code"].as_str(), &refused["data"]), (2, Some(expected), &Value::Null), "{refused:#}");
        assert!(error["hint"].as_str().unwrap_or_default().contains(hint), "{refused:#}");
        assert!(!signed.sandbox.path().join("ran").exists(), "the program ran");
    };
    // The node has pinned something else, or is not there.
    refused(&["--pin", &node.setting()], &[("TOOLCRIB_PIN_TOKEN", TOKEN)], "agent.publish_other_cid", "");
    assert_eq!(node.server.accepted(), 1);
    refused(&["--pin", "kubo:http://127.0.0.1:1"], &[], "fetch.connect_refused", "");
    // A service has to know who pays. Nothing is asked without a token.
    let service = format!("service:http://127.0.0.1:{}", node.server.address.port());
    refused(&["--pin", &service], &[], "cli.usage", "TOOLCRIB_PIN_TOKEN");
    refused(&["--pin", "ftp://127.0.0.1/"], &[], "cli.usage", "kubo:URL");
    assert_eq!(node.server.accepted(), 1);
    // The same program runs when the node is honest.
    let node = Node::pinning(&signed.cid);
    signed.publish_json(&[&["--pin", &node.setting()], &program[..]].concat(), &[]);
    assert!(signed.sandbox.path().join("ran").exists());
}

#[test]
fn a_change_is_printed_and_not_made() {
    let signed = Signed::new();
    let before = format!("v=spf1 -all\nagt-manifest=ipfs://{OTHER_CID}\n");
    signed.sandbox.write("records.txt", &before);
    let plain = |more: &[&str]| signed.publish(&[&["--source", "file:records.txt"], more].concat(), &[]).code(0);
    for how in [&[][..], &["--txt", "print"]] {
        let ran = plain(how);
        assert_eq!(ran.stdout, format!("{}\n", signed.cid));
        let change = format!("remove  agt-manifest=ipfs://{OTHER_CID}\n  add     {}\n", signed.record);
        assert!(ran.stderr.contains(&change) && ran.stderr.contains("TXT change: printed only"), "{}", ran.stderr);
        assert!(ran.stderr.contains("Pinned: nowhere"), "{}", ran.stderr);
    }
    let (code, published) = signed.publish_json(&[], &[]);
    let data = &published["data"];
    assert_eq!((code, &data["pinned"], &data["written"]), (0, &Value::Null, &Value::Null), "{published:#}");
    assert_eq!((&data["add"][0], &data["existing_read"]), (&signed.record.as_str().into(), &true.into()), "{published:#}");
    assert_eq!(signed.sandbox.read("records.txt"), before);
    // Records that cannot be read are no reason not to print, and one not to change anything.
    let unreadable = ["--source", "file:gone.txt"];
    let ran = signed.publish(&unreadable, &[]).code(0);
    assert!(ran.stderr.contains("the records of the name could not be read"), "{}", ran.stderr);
    let ran = signed.publish(&[&unreadable[..], &["--txt", "command", "--txt-command", "/bin/false"]].concat(), &[]).code(2);
    assert!(ran.stderr.contains("agent.txt_write_plan"), "{}", ran.stderr);
}

/// BIND with the zone `agt`. It ends with the test.
struct Bind {
    process: Child,
    address: SocketAddr,
}

impl Bind {
    /// Starts the server; `None` records the test as skipped.
    fn start(folder: &Path) -> Option<Self> {
        let named = toolcrib_testkit::named()?;
        let address = free();
        crate::write(
            &folder.join("agt.zone"),
            b"$TTL 300\n@ SOA ns.agt. admin.agt. 1 3600 600 86400 60\n@ NS ns.agt.\nns A 127.0.0.1\nrain TXT \"v=spf1 -all\"\n",
        );
        let (place, port) = (folder.display(), address.port());
        let configuration = format!(
            r#"options {{
                directory "{place}"; key-directory "{place}"; pid-file none; session-keyfile none; lock-file none;
                listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};
                recursion no; notify no; dnssec-validation no; allow-query {{ any; }};
            }};
            controls {{ }};
            key "update-key" {{ algorithm hmac-sha256; secret "{SECRET}"; }};
            zone "agt" {{ type primary; file "agt.zone"; allow-update {{ key update-key; }}; }};
            "#
        );
        let settings = crate::write(&folder.join("named.conf"), configuration.as_bytes());
        let log = std::fs::File::create(folder.join("log")).expect("a file");
        let mut command = Command::new(named);
        command.args(["-g", "-4", "-n", "1", "-c"]).arg(settings);
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("named starts");
        Some(Self { process, address })
    }
}

impl Drop for Bind {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A port that is free for both transports now, and that no other program takes on purpose.
fn free() -> SocketAddr {
    for _ in 0..100 {
        let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
        if UdpSocket::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no port is free");
}

// req: AGT-003, AGT-028
#[test]
fn a_name_server_is_updated_with_a_key() {
    let signed = Signed::new();
    let folder = signed.sandbox.path().join("bind");
    std::fs::create_dir_all(&folder).expect("a folder");
    let Some(bind) = Bind::start(&folder) else { return };
    let source = format!("dns:udp://{}", bind.address);
    let update = format!("update:{}", bind.address);
    let from = ["--source", source.as_str()];
    let plan = || signed.publish(&[&from[..], &["--dry-run"]].concat(), &[]).code(0).stderr;
    // It answers a moment after it was started.
    let began = Instant::now();
    while plan().contains("could not be read") {
        let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        assert!(began.elapsed() < Duration::from_secs(60), "named does not answer:\n{log}");
        thread::sleep(Duration::from_millis(100));
    }
    assert!(plan().contains(&format!("add     {}\n", signed.record)), "{}", plan());
    let publish = |key: Option<&str>| {
        let key = key.map(|secret| format!("hmac-sha256:update-key:{secret}"));
        let variables: Vec<_> = key.iter().map(|key| ("TOOLCRIB_TSIG_KEY", key.as_str())).collect();
        signed.publish(&[&from[..], &["--txt", &update, "--zone", "agt", "--json"]].concat(), &variables)
    };
    // Without a key, and with that of somebody else, nothing changes.
    for (key, expected) in
        [(None, "cli.usage"), (Some(OTHER_SECRET), "agent.txt_update_failed"), (Some("?"), "agent.txt_setting")]
    {
        let ran = publish(key).code(2);
        assert!(ran.stdout.contains(expected), "{ran:?}");
        assert!(plan().contains(&format!("add     {}\n", signed.record)), "{}", plan());
    }
    let ran = publish(Some(SECRET)).code(0);
    let published: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(published["data"]["written"], serde_json::json!({ "writer": update, "read_back": true }), "{published:#}");
    assert!(plan().contains("no change"), "{}", plan());
    // A resolver reads what was written.
    let resolve = ["agt", "resolve", "rain.agt", "--source", &source, "--content", "signed.json", "--preview", "--no-memory"];
    let (_, resolved) = signed.sandbox.run_json(&resolve);
    assert_eq!(resolved["data"]["report"]["state"], "manifest", "{resolved:#}");
}
