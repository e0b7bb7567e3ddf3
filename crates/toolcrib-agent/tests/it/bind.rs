//! BIND, the most common name server: lookups, a zone that it signs, and updates with TSIG.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use alloy_primitives::Bytes;
use tempfile::TempDir;
use toolcrib_agent::evidence::{Dnssec, TxtLookup};
use toolcrib_agent::source::TxtSource as _;
use toolcrib_agent::txt::dns::{DnsSettings, DnssecPolicy};
use toolcrib_agent::txt_writer::{RecordChange, TsigKey, TxtWriter as _, UpdateSettings, UpdateWriter};
use toolcrib_core::agent::txt::CidText;
use toolcrib_core::clock::{Clock as _, FixedClock};

use crate::support::{Certificates, POINTER, SERVER_NAME, SystemClock, code, domain, records, settings, sorted, source};

const KEY: &str = "hmac-sha256:update-key:dG9vbGNyaWItdGVzdC1rZXktdG9vbGNyaWItdGVzdCE=";
const OTHER_KEY: &str = "hmac-sha256:update-key:b3RoZXItdGVzdC1rZXktb3RoZXItdGVzdC1rZXktISE=";
const UNKNOWN_KEY: &str = "hmac-sha256:unknown-key:dG9vbGNyaWItdGVzdC1rZXktdG9vbGNyaWItdGVzdCE=";
const OTHER_CID: &str = "bafybeict5xf5jzboxrvykthatqdrg7sf3c5n45udt5jrbbq4lnpejpdhha";

/// Which zones the server signs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Signed {
    /// `signed.agt`; `agt` is not signed.
    Child,
    /// `agt`; `insecure.agt` below it is not signed.
    Parent,
}

/// A server. It is stopped when the test ends.
struct Bind {
    folder: TempDir,
    process: Child,
    plain: SocketAddr,
    tls: SocketAddr,
    https: SocketAddr,
    certificates: Certificates,
}

impl Bind {
    /// Starts the server; `None` records the test as skipped.
    async fn start(signed: Signed) -> Option<Self> {
        let named = toolcrib_testkit::named()?;
        let folder = tempfile::tempdir().expect("a folder");
        let certificates = Certificates::new();
        // These ports are free now; other programs are unlikely to take them.
        let (plain, tls, https) = (free().await, free().await, free().await);
        write(folder.path(), "certificate.pem", &certificates.chain_pem);
        write(folder.path(), "key.pem", &certificates.key_pem);
        write(folder.path(), "agt.zone", &zone());
        write(folder.path(), "child.zone", &child_zone());
        write(folder.path(), "named.conf", &configuration(folder.path(), signed, [plain, tls, https]));
        let process = Command::new(named)
            .args(["-g", "-4", "-n", "1", "-c"])
            .arg(folder.path().join("named.conf"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.path().join("log")).expect("a file"))
            .spawn()
            .expect("named starts");
        let bind = Self { folder, process, plain, tls, https, certificates };
        bind.wait().await;
        Some(bind)
    }

    async fn wait(&self) {
        let started = Instant::now();
        loop {
            let mut settings = settings(&format!("tcp://{}", self.plain));
            settings.query_timeout = Duration::from_millis(500);
            if matches!(source(settings).lookup(&domain("plain.agt")).await.outcome, TxtLookup::Records(_)) {
                return;
            }
            let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(started.elapsed() < Duration::from_secs(30), "named does not answer:\n{log}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The server's public signing key, as a trust anchor.
    async fn anchor(&self) -> String {
        let started = Instant::now();
        loop {
            let entries = std::fs::read_dir(self.folder.path()).expect("the folder").flatten();
            let key = entries.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|extension| extension == "key"));
            if let Some(text) = key.and_then(|path| std::fs::read_to_string(path).ok()) {
                return text;
            }
            assert!(started.elapsed() < Duration::from_secs(30), "named makes no key");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn writer(&self, key: &str, zone: &str) -> UpdateWriter {
        let mut settings = UpdateSettings::new(self.plain, key.parse::<TsigKey>().expect("a key"));
        settings.zone = Some(zone.to_owned());
        UpdateWriter::new(settings, SystemClock)
    }

    async fn lookup(&self, name: &str) -> TxtLookup {
        sorted(source(settings(&format!("udp://{}", self.plain))).lookup(&domain(name)).await.outcome)
    }
}

impl Drop for Bind {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn free() -> SocketAddr {
    let (_, _, address) = crate::authority::pair().await;
    address
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).expect("a file");
}

fn zone() -> String {
    let (first, second) = POINTER.split_at(20);
    let many: String = (0..100).map(|at| format!("many TXT \"record {at:03}\"\n")).collect();
    format!(
        "$TTL 300\n@ SOA ns.agt. admin.agt. 1 3600 600 86400 60\n@ NS ns.agt.\nns A 127.0.0.1\nsigned NS ns\ninsecure NS ns\n\
         plain TXT \"{POINTER}\"\nplain TXT \"v=spf1 -all\"\nsplit TXT \"{first}\" \"{second}\"\nquoted TXT \"\\\"{POINTER}\\\"\"\n\
         bytes TXT \"agt-name=\\255\\000\"\nalias CNAME plain\nnodata A 192.0.2.1\nlegacy TXT \"agt-version=1\"\nlegacy TXT \"agt-name=A\"\n\
         legacy TXT \"v=spf1 -all\"\n{many}"
    )
}

fn child_zone() -> String {
    format!("$TTL 300\n@ SOA ns.agt. admin.agt. 1 3600 600 86400 60\n@ NS ns.agt.\n@ TXT \"{POINTER}\"\n")
}

fn configuration(folder: &Path, signed: Signed, addresses: [SocketAddr; 3]) -> String {
    let (folder, secret) = (folder.display(), KEY.rsplit(':').next().expect("a secret"));
    let [plain, tls, https] = addresses.map(|address| address.port());
    let signing = "dnssec-policy default; inline-signing yes;";
    let (parent, child, name) = match signed {
        Signed::Child => ("", signing, "signed.agt"),
        Signed::Parent => (signing, "", "insecure.agt"),
    };
    format!(
        r#"options {{
            directory "{folder}"; key-directory "{folder}"; pid-file none; session-keyfile none; lock-file none;
            listen-on port {plain} {{ 127.0.0.1; }};
            listen-on port {tls} tls test {{ 127.0.0.1; }};
            listen-on port {https} tls test http test {{ 127.0.0.1; }};
            listen-on-v6 {{ none; }};
            recursion no; notify no; dnssec-validation no; allow-query {{ any; }};
        }};
        controls {{ }};
        tls test {{ cert-file "{folder}/certificate.pem"; key-file "{folder}/key.pem"; }};
        http test {{ endpoints {{ "/dns-query"; }}; }};
        key "update-key" {{ algorithm hmac-sha256; secret "{secret}"; }};
        zone "agt" {{ type primary; file "agt.zone"; {parent} allow-update {{ key update-key; }}; }};
        zone "{name}" {{ type primary; file "child.zone"; {child} allow-update {{ key update-key; }}; }};
        "#
    )
}

fn point_at(name: &str, cid: &str, existing: &[Bytes], remove_legacy: bool) -> RecordChange {
    RecordChange::point_at(&domain(name), &CidText::parse(cid).expect("a CID"), existing, remove_legacy).expect("a change")
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

// req: AGT-001
#[tokio::test]
async fn bind_is_asked_over_udp_tcp_tls_and_https() {
    let Some(bind) = Bind::start(Signed::Child).await else { return };
    let texts = [
        format!("udp://{}", bind.plain),
        format!("tcp://{}", bind.plain),
        format!("tls://{SERVER_NAME}@{}", bind.tls),
        format!("https://{SERVER_NAME}@{}/dns-query", bind.https),
    ];
    for text in texts {
        let mut settings = settings(&text);
        settings.authorities = vec![bind.certificates.authority.clone()];
        let source = source(settings);
        let ask = async |name: &str| sorted(source.lookup(&domain(name)).await.outcome);
        let plain = sorted(records(&[POINTER.as_bytes(), b"v=spf1 -all"]));
        assert_eq!(ask("plain.agt").await, plain, "{text}");
        assert_eq!(ask("alias.agt").await, plain, "{text}");
        assert_eq!(ask("split.agt").await, records(&[POINTER.as_bytes()]), "{text}");
        assert_eq!(ask("quoted.agt").await, records(&[format!("\"{POINTER}\"").as_bytes()]), "{text}");
        assert_eq!(ask("bytes.agt").await, records(&[b"agt-name=\xff\x00"]), "{text}");
        assert_eq!(ask("nodata.agt").await, TxtLookup::NoRecords, "{text}");
        assert_eq!(ask("none.agt").await, TxtLookup::NotFound, "{text}");
        assert!(matches!(ask("many.agt").await, TxtLookup::Records(found) if found.len() == 100), "{text}");
    }
}

#[tokio::test]
async fn a_zone_that_bind_signs_is_secure_with_its_key() {
    let Some(bind) = Bind::start(Signed::Child).await else { return };
    let anchor = bind.anchor().await;
    let with = |anchor: &str, policy: DnssecPolicy| -> DnsSettings {
        let mut settings = settings(&format!("udp://{}", bind.plain));
        settings.anchors = anchor.parse().expect("anchors");
        settings.dnssec = policy;
        settings
    };
    // Signing begins after the zone is loaded.
    let started = Instant::now();
    let answer = loop {
        let answer = source(with(&anchor, DnssecPolicy::Require)).lookup(&domain("signed.agt")).await;
        if answer.dnssec == Dnssec::Secure || started.elapsed() > Duration::from_secs(20) {
            break answer;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    assert_eq!((answer.outcome, answer.dnssec), (records(&[POINTER.as_bytes()]), Dnssec::Secure));
    // The same key with another algorithm; and the parent zone, which has no key.
    let wrong = "signed.agt. DNSKEY 257 3 15 l02Woi0iS8Aa25FQkUd9RMzZHJpBoRQwAQEX1SxZJA4=";
    let bogus = source(with(wrong, DnssecPolicy::Prefer)).lookup(&domain("signed.agt")).await;
    assert_eq!((code(&bogus.outcome), bogus.dnssec), ("agent.dnssec_bogus", Dnssec::Bogus));
    let outside = source(with(&anchor, DnssecPolicy::Require)).lookup(&domain("plain.agt")).await;
    assert_eq!(code(&outside.outcome), "agent.dnssec_required");
    // A signed zone accepts updates, and signs them.
    let change = point_at("signed.agt", OTHER_CID, &[bytes(POINTER)], false);
    bind.writer(KEY, "signed.agt").write(&change).await.expect("written");
    let started = Instant::now();
    loop {
        let answer = source(with(&anchor, DnssecPolicy::Require)).lookup(&domain("signed.agt")).await;
        if answer.outcome == records(&[format!("agt-manifest=ipfs://{OTHER_CID}").as_bytes()]) {
            assert_eq!(answer.dnssec, Dnssec::Secure);
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{answer:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn a_zone_that_is_provably_unsigned_is_insecure() {
    let Some(bind) = Bind::start(Signed::Parent).await else { return };
    let anchor = bind.anchor().await;
    let ask = async |policy: DnssecPolicy, name: &str| {
        let mut settings = settings(&format!("tcp://{}", bind.plain));
        settings.anchors = anchor.parse().expect("anchors");
        settings.dnssec = policy;
        source(settings).lookup(&domain(name)).await
    };
    // Signing begins after the zone is loaded.
    let started = Instant::now();
    while ask(DnssecPolicy::Require, "plain.agt").await.dnssec != Dnssec::Secure {
        assert!(started.elapsed() < Duration::from_secs(20), "not signed");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    for (name, outcome) in [("none.agt", TxtLookup::NotFound), ("nodata.agt", TxtLookup::NoRecords)] {
        let answer = ask(DnssecPolicy::Require, name).await;
        assert_eq!((answer.outcome, answer.dnssec), (outcome, Dnssec::Secure), "{name}");
    }
    let prefer = ask(DnssecPolicy::Prefer, "insecure.agt").await;
    assert_eq!((prefer.outcome, prefer.dnssec), (records(&[POINTER.as_bytes()]), Dnssec::Insecure));
    let require = ask(DnssecPolicy::Require, "insecure.agt").await;
    assert_eq!((code(&require.outcome), require.dnssec), ("agent.dnssec_required", Dnssec::Insecure));
}

// req: AGT-001, AGT-003, AGT-028
#[tokio::test]
async fn updates_change_the_records_and_are_read_back() {
    let Some(bind) = Bind::start(Signed::Child).await else { return };
    let writer = bind.writer(KEY, "agt");
    assert_eq!(writer.name(), format!("update:{}", bind.plain));
    // A name without records.
    let cid = POINTER.rsplit('/').next().expect("a CID");
    let written = writer.write(&point_at("fresh.agt", cid, &[], false)).await.expect("written");
    assert_eq!(written.read_back, Some(vec![bytes(POINTER)]));
    assert_eq!(bind.lookup("fresh.agt").await, records(&[POINTER.as_bytes()]));
    // Another manifest: the same update removes the old pointer.
    let change = point_at("fresh.agt", OTHER_CID, &[bytes(POINTER)], false);
    writer.write(&change).await.expect("written");
    assert_eq!(bind.lookup("fresh.agt").await, records(&[format!("agt-manifest=ipfs://{OTHER_CID}").as_bytes()]));
    // Repeating it changes nothing.
    writer.write(&change).await.expect("written");
    // Legacy records are removed; other records stay. One of them is split into two strings.
    let existing = [bytes("agt-version=1"), bytes("agt-name=A"), bytes("v=spf1 -all")];
    writer.write(&point_at("legacy.agt", cid, &existing, true)).await.expect("written");
    assert_eq!(bind.lookup("legacy.agt").await, sorted(records(&[POINTER.as_bytes(), b"v=spf1 -all"])));
    writer.write(&point_at("split.agt", OTHER_CID, &[bytes(POINTER)], false)).await.expect("written");
    assert_eq!(bind.lookup("split.agt").await, records(&[format!("agt-manifest=ipfs://{OTHER_CID}").as_bytes()]));
}

// req: AGT-003
#[tokio::test]
async fn updates_that_are_wrong_change_nothing() {
    let Some(bind) = Bind::start(Signed::Child).await else { return };
    let before = bind.lookup("legacy.agt").await;
    let cid = POINTER.rsplit('/').next().expect("a CID");
    let change = point_at("legacy.agt", cid, &[bytes("agt-version=1"), bytes("agt-name=A")], true);
    for key in [OTHER_KEY, UNKNOWN_KEY] {
        let error = bind.writer(key, "agt").write(&change).await.expect_err("a wrong key");
        assert_eq!(error.code().id(), "agent.txt_update_failed", "{error}");
    }
    for zone in ["example", "legacy.agt"] {
        let error = bind.writer(KEY, zone).write(&change).await.expect_err("a wrong zone");
        assert_eq!(error.code().id(), "agent.txt_update_failed", "{error}");
    }
    // A signature that is an hour old.
    let late = FixedClock(SystemClock.now().plus(-3_600));
    let mut settings = UpdateSettings::new(bind.plain, KEY.parse::<TsigKey>().expect("a key"));
    settings.zone = Some("agt".to_owned());
    let error = UpdateWriter::new(settings, late).write(&change).await.expect_err("a late signature");
    assert_eq!(error.code().id(), "agent.txt_update_failed", "{error}");
    // A change that was planned with fewer legacy records than the name has.
    let short = point_at("legacy.agt", cid, &[bytes("agt-version=1")], true);
    let error = bind.writer(KEY, "agt").write(&short).await.expect_err("a legacy record would stay");
    assert_eq!(error.code().id(), "agent.txt_write_plan", "{error}");
    let alias = point_at("alias.agt", cid, &[], false);
    assert!(bind.writer(KEY, "agt").write(&alias).await.is_err());
    assert_eq!(bind.lookup("legacy.agt").await, before);
}
