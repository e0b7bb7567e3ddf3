//! `agt publish` with side effects: a node that pins, and a program and a name server that change TXT records.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::agt_options::Served;
use crate::onchain::CREATOR;
use crate::{RunOutput, Sandbox};
use serde_json::Value;
use toolcrib_testkit::servers::{answer, ok};

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

    /// Publishes without a chain. Neither output nor error may contain the token or a key.
    #[track_caller]
    fn publish(&self, more: &[&str], variables: &[(&str, &str)]) -> RunOutput {
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

/// A node with the RPC API of Kubo that reports a pinned CID.
fn pinning_node(cid: &str) -> Served {
    let reply = format!("{{\"Root\":{{\"Cid\":{{\"/\":\"{cid}\"}},\"PinErrorMsg\":\"\"}}}}\n");
    Served::start(move |_| ok(&reply))
}

fn kubo(node: &Served) -> String {
    format!("kubo:{}", node.url())
}

// req: AGT-017
#[test]
fn a_node_pins_and_a_program_changes_the_records() {
    let signed = Signed::new();
    let node = pinning_node(&signed.cid);
    let pin = ["--pin", &kubo(&node)];
    let token = [("TOOLCRIB_PIN_TOKEN", TOKEN)];
    let program = ["--txt", "command", "--txt-command", "/bin/sh", "--txt-argument", "-c", "--txt-argument", "cat > change.json"];
    let (code, published) = signed.publish_json(&[&pin[..], &program].concat(), &token);
    let data = &published["data"];
    assert_eq!((code, data["pinned"]["cid"].as_str()), (0, Some(&*signed.cid)), "{published:#}");
    assert_eq!(data["pinned"]["service"], format!("http://127.0.0.1:{}", node.server.address.port()), "{published:#}");
    assert_eq!(data["written"]["writer"], "command:/bin/sh", "{published:#}");
    let change: Value = serde_json::from_str(&signed.sandbox.read("change.json")).expect("JSON");
    assert_eq!((&change["domain"], &change["add"][0]["text"]), (&"rain.agt".into(), &signed.record.as_str().into()));
    // The token and the archive were sent to the node.
    let requests = node.server.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!((requests[0].method(), requests[0].path()), ("POST", "/api/v0/dag/import?pin-roots=true&stats=false"));
    assert_eq!(requests[0].header("authorization"), Some(&*format!("Bearer {TOKEN}")));
    let file = signed.sandbox.read("signed.json");
    assert!(requests[0].body.windows(file.len()).any(|window| window == file.as_bytes()), "the manifest is in the archive");
    // The human format, and without a token.
    let ran = signed.publish(&[&["--source", "file:records.txt"], &pin[..]].concat(), &[]).code(0);
    assert!(ran.stderr.contains("pinned at ") && ran.stdout == format!("{}\n", signed.cid), "{ran:?}");
    assert_eq!(node.server.requests()[1].header("authorization"), None);
}

// req: AGT-017
#[test]
fn records_do_not_change_when_pinning_fails() {
    let signed = Signed::new();
    let program = ["--txt", "command", "--txt-command", "/bin/sh", "--txt-argument", "-c", "--txt-argument", "touch ran"];
    let node = pinning_node(OTHER_CID);
    let refused = |more: &[&str], variables: &[(&str, &str)], expected: &str, hint: &str| {
        let (code, refused) = signed.publish_json(&[more, &program].concat(), variables);
        let error = &refused["errors"][0];
        assert_eq!((code, error["code"].as_str(), &refused["data"]), (2, Some(expected), &Value::Null), "{refused:#}");
        assert!(error["hint"].as_str().unwrap_or_default().contains(hint), "{refused:#}");
        assert!(!signed.sandbox.path().join("ran").exists(), "the program ran");
    };
    // The node pinned another CID, or is down.
    refused(&["--pin", &kubo(&node)], &[("TOOLCRIB_PIN_TOKEN", TOKEN)], "agent.publish_other_cid", "");
    assert_eq!(node.server.accepted(), 1);
    refused(&["--pin", "kubo:http://127.0.0.1:1"], &[], "fetch.connect_refused", "");
    // A pinning service needs the user's token. Without it, no request is sent.
    let service = format!("service:http://127.0.0.1:{}", node.server.address.port());
    refused(&["--pin", &service], &[], "cli.usage", "TOOLCRIB_PIN_TOKEN");
    refused(&["--pin", "ftp://127.0.0.1/"], &[], "cli.usage", "kubo:URL");
    assert_eq!(node.server.accepted(), 1);
    // The same program runs when the node is honest.
    let node = pinning_node(&signed.cid);
    signed.publish_json(&[&["--pin", &kubo(&node)], &program[..]].concat(), &[]);
    assert!(signed.sandbox.path().join("ran").exists());
}

#[test]
fn a_service_pins_what_it_is_asked_for() {
    let signed = Signed::new();
    let status = |state: &str| {
        let pin = serde_json::json!({ "cid": signed.cid });
        let created = "2026-01-01T00:00:00Z";
        serde_json::json!({ "requestid": "1", "status": state, "created": created, "pin": pin, "delegates": [] }).to_string()
    };
    let (queued, pinned) = (status("queued"), status("pinned"));
    let service = Served::start(move |request| match request.method() {
        "POST" => answer("202 Accepted", "Content-Type: application/json\r\n", queued.as_bytes()),
        _ => ok(&pinned),
    });
    let setting = format!("service:{}/psa", service.url());
    let (code, published) = signed.publish_json(&["--pin", &setting], &[("TOOLCRIB_PIN_TOKEN", TOKEN)]);
    assert_eq!((code, published["data"]["pinned"]["cid"].as_str()), (0, Some(&*signed.cid)), "{published:#}");
    let requests = service.server.requests();
    let asked: Vec<_> = requests.iter().map(|request| (request.method(), request.path())).collect();
    assert_eq!(asked, [("POST", "/psa/pins"), ("GET", "/psa/pins/1")]);
    assert!(requests.iter().all(|request| request.header("authorization") == Some(&*format!("Bearer {TOKEN}"))));
    let body: Value = serde_json::from_slice(&requests[0].body).expect("JSON");
    assert_eq!(body, serde_json::json!({ "cid": signed.cid, "name": "rain.agt" }));
}

// req: AGT-017
#[test]
fn a_node_pins_the_layout_that_was_asked_for() {
    let signed = Signed::new();
    let (_, packed) = signed.sandbox.run_json(&["agt", "pack", "signed.json", "--dag-pb", "--car", "signed.car"]);
    let cid = packed["data"]["cid"].as_str().expect("a CID");
    let node = pinning_node(cid);
    let (code, published) = signed.publish_json(&["--dag-pb", "--pin", &kubo(&node)], &[]);
    assert_eq!((code, published["data"]["pinned"]["cid"].as_str()), (0, Some(cid)), "{published:#}");
    assert_eq!(published["data"]["add"], serde_json::json!([format!("agt-manifest=ipfs://{cid}")]));
    let archive = std::fs::read(signed.sandbox.path().join("signed.car")).expect("an archive");
    assert!(node.server.requests()[0].body.windows(archive.len()).any(|window| window == archive), "the same blocks");
    // The other layout has another CID, which the node did not pin.
    let (code, refused) = signed.publish_json(&["--pin", &kubo(&node)], &[]);
    assert_eq!((code, refused["errors"][0]["code"].as_str()), (2, Some("agent.publish_other_cid")), "{refused:#}");
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
        assert!(ran.stderr.contains("Pinned: no (give --pin to pin)"), "{}", ran.stderr);
    }
    let (code, published) = signed.publish_json(&[], &[]);
    let data = &published["data"];
    assert_eq!((code, &data["pinned"], &data["written"]), (0, &Value::Null, &Value::Null), "{published:#}");
    assert_eq!((&data["add"][0], &data["existing_read"]), (&signed.record.as_str().into(), &true.into()), "{published:#}");
    assert_eq!(signed.sandbox.read("records.txt"), before);
    // If records cannot be read, the change is printed, but not applied.
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
    /// Starts the server with a record of `rain.agt` and more options of the zone; `None` records the test as skipped.
    fn start(folder: &Path, record: &str, more: &str) -> Option<Self> {
        let named = toolcrib_testkit::named()?;
        let address = free();
        let zone = "$TTL 300\n@ SOA ns.agt. admin.agt. 1 3600 600 86400 60\n@ NS ns.agt.\nns A 127.0.0.1\n";
        crate::write(&folder.join("agt.zone"), format!("{zone}rain TXT \"{record}\"\n").as_bytes());
        let (place, port) = (folder.display(), address.port());
        let configuration = format!(
            r#"options {{
                directory "{place}"; key-directory "{place}"; pid-file none; session-keyfile none; lock-file none;
                listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};
                recursion no; notify no; dnssec-validation no; allow-query {{ any; }};
            }};
            controls {{ }};
            key "update-key" {{ algorithm hmac-sha256; secret "{SECRET}"; }};
            zone "agt" {{ type primary; file "agt.zone"; {more} allow-update {{ key update-key; }}; }};
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

/// A port that is free for TCP and UDP now, and that other programs do not choose automatically.
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
    let Some(bind) = Bind::start(&folder, "v=spf1 -all", "") else { return };
    let source = format!("dns:udp://{}", bind.address);
    let update = format!("update:{}", bind.address);
    let from = ["--source", source.as_str()];
    let plan = || signed.publish(&[&from[..], &["--dry-run"]].concat(), &[]).code(0).stderr;
    // The server responds a moment after its start.
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
    // Without a key, or with a wrong one, nothing changes.
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
    // A resolver reads the new record.
    let resolve = ["agt", "resolve", "rain.agt", "--source", &source, "--content", "signed.json", "--preview", "--no-memory"];
    let (_, resolved) = signed.sandbox.run_json(&resolve);
    assert_eq!(resolved["data"]["report"]["state"], "manifest", "{resolved:#}");
}

// req: AGT-001
#[test]
fn signatures_of_a_zone_are_checked_as_the_options_say() {
    let signed = Signed::new();
    let folder = signed.sandbox.path().join("bind");
    std::fs::create_dir_all(&folder).expect("a folder");
    let Some(bind) = Bind::start(&folder, &signed.record, "dnssec-policy default; inline-signing yes;") else { return };
    let source = format!("dns:udp://{}", bind.address);
    let resolve = |more: &[&str]| {
        let base = ["agt", "resolve", "rain.agt", "--source", &source, "--content", "signed.json", "--preview", "--no-memory"];
        let (code, envelope) = signed.sandbox.run_json(&[&base[..], more].concat());
        let answer = &envelope["data"]["txt"][0];
        let failed = answer["outcome"]["failed"]["code"].as_str().map(str::to_owned);
        let dnssec = answer["dnssec"].as_str().unwrap_or_default().to_owned();
        (code, envelope["data"]["report"]["state"].as_str().unwrap_or_default().to_owned(), dnssec, failed)
    };
    let says = |state: &str, dnssec: &str, failed: Option<&str>| {
        // A preview is never verified; an unused answer gives no verdict.
        (if failed.is_some() { 2 } else { 1 }, state.to_owned(), dnssec.to_owned(), failed.map(str::to_owned))
    };
    // The server creates its key and signs the zone a moment after its start.
    let is_key = |path: &std::path::PathBuf| path.extension().is_some_and(|extension| extension == "key");
    let secure = ["--dnssec", "require", "--trust-anchors", "anchors.txt"];
    let began = Instant::now();
    loop {
        let mut files = std::fs::read_dir(&folder).expect("the folder").flatten().map(|entry| entry.path());
        if let Some(key) = files.find(is_key) {
            signed.sandbox.write("anchors.txt", std::fs::read(key).expect("a key"));
            if resolve(&secure) == says("manifest", "secure", None) {
                break;
            }
        }
        let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        assert!(began.elapsed() < Duration::from_secs(60), "the zone is not signed:\n{log}");
        thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(resolve(&["--trust-anchors", "anchors.txt"]), says("manifest", "secure", None), "prefer is the default");
    // Another key: the signatures are wrong, unless they are not checked.
    signed.sandbox.write("wrong.txt", "agt. DNSKEY 257 3 15 l02Woi0iS8Aa25FQkUd9RMzZHJpBoRQwAQEX1SxZJA4=\n");
    for policy in ["require", "prefer"] {
        let bogus = says("unreachable", "bogus", Some("agent.dnssec_bogus"));
        assert_eq!(resolve(&["--dnssec", policy, "--trust-anchors", "wrong.txt"]), bogus, "{policy}");
    }
    assert_eq!(resolve(&["--dnssec", "off", "--trust-anchors", "wrong.txt"]), says("manifest", "unchecked", None));
    // Without trust anchors, nothing can be secure.
    assert_eq!(resolve(&[]), says("manifest", "unchecked", None));
    let (code, state, _, failed) = resolve(&["--dnssec", "require"]);
    assert_eq!((code, &*state, failed.as_deref()), (2, "unreachable", Some("agent.dnssec_required")));
    // Invalid files of trust anchors.
    signed.sandbox.write("broken.txt", "agt. A 127.0.0.1\n");
    for (file, said) in [("broken.txt", "line 1 of the trust anchors"), ("gone.txt", "cli.unreadable")] {
        let asked = ["agt", "resolve", "rain.agt", "--source", &source, "--trust-anchors", file];
        let ran = signed.sandbox.run(&asked).code(2);
        assert!(ran.stderr.contains(said), "{file}: {}", ran.stderr);
    }
}
