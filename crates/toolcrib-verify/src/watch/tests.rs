use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use alloy_primitives::{Bytes, FixedBytes};
use toolcrib_core::clock::{FixedClock, UnixTime};
use toolcrib_core::codes::Code;
use toolcrib_core::finding::Severity;
use toolcrib_fetch::Untrusted;
use toolcrib_judge::evidence::{
    ChainReads, ConfigRead, Erc165, Failure, Method, PredicateFacts, Proxy, ProxyKind, Requirement, Response, Tls, ToolConfig,
};
use toolcrib_judge::judge;

use super::*;
use crate::ToolSource;

const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);
const URI: &str = "https://tools.harbour-office.org/.well-known/ai-tool/tide-table.json";

fn tool() -> ToolRef {
    ToolRef::parse("eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7").unwrap()
}

fn manifest(name: &str) -> String {
    format!(
        r#"{{"type":"https://ercs.ethereum.org/ERCS/erc-8257#tool-manifest-v1","name":"{name}","description":"Tides.",
        "endpoint":"https://tools.harbour-office.org/tides","inputs":{{"type":"object"}},"outputs":{{"type":"object"}},
        "creatorAddress":"0x{}"}}"#,
        "22".repeat(20)
    )
}

fn hash(text: &str) -> B256 {
    Canonical::of(&json::read(text.as_bytes(), json::Limits::default()).document.unwrap()).unwrap().hash()
}

/// Evidence of a tool whose server sends `body`.
fn evidence(block: u64, committed: B256, body: &str) -> Evidence {
    let config = ToolConfig {
        creator: Address::repeat_byte(0x22),
        metadata_uri: URI.to_owned(),
        manifest_hash: committed,
        access_predicate: Some(Address::repeat_byte(3)),
    };
    let mut exchange = Exchange::new(Method::Get, URI, NOW);
    exchange.addresses = vec!["5.5.5.5".parse().unwrap()];
    exchange.connected = Some("5.5.5.5:443".parse().unwrap());
    exchange.tls = Some(Tls {
        version: "TLSv1.3".to_owned(),
        cipher: String::new(),
        sni: None,
        certificate: b"certificate".to_vec().into(),
        chain_length: 1,
    });
    exchange.response = Some(Response {
        status: 200,
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: body.as_bytes().to_vec().into(),
    });
    let mut evidence = Evidence::new("test", NOW);
    evidence.tool = Some(tool());
    evidence.manifest = Some(exchange);
    evidence.chain = Some(ChainReads {
        registry_code_hash: None,
        config: vec![ConfigRead { block, state: ToolState::Present(config) }],
        predicate: Some(PredicateFacts {
            address: Address::repeat_byte(3),
            code_hash: Some(B256::repeat_byte(4)),
            proxy: Some(Proxy { kind: ProxyKind::Implementation, target: Address::repeat_byte(5) }),
            erc165: Erc165::Predicate,
            name: None,
            version: None,
            contracts: Vec::new(),
            requirements: Requirements::Listed { logic: Logic::And, entries: Vec::new() },
        }),
        registration: None,
    });
    evidence
}

fn look(evidence: &Evidence) -> Snapshot {
    snapshot(evidence, &judge(evidence, &Policy::default(), NOW)).expect("the chain was read")
}

#[test]
fn a_look_has_what_was_seen() {
    let text = manifest("Tides");
    let seen = look(&evidence(100, hash(&text), &text));
    assert_eq!(
        seen,
        Snapshot {
            block: Some(100),
            metadata_uri: Some(URI.to_owned()),
            manifest_hash: Some(hash(&text)),
            creator: Some(Address::repeat_byte(0x22)),
            predicate: Some(Address::repeat_byte(3)),
            predicate_code: Some(B256::repeat_byte(4)),
            implementation: Some(Address::repeat_byte(5)),
            requirements: seen.requirements,
            served: Served::Manifest(hash(&text)),
            verdict: Verdict::Verified,
            endpoint: Some("https://tools.harbour-office.org/tides".to_owned()),
            prices: Some(String::new()),
            certificate: seen.certificate,
            ..Snapshot::new(tool())
        }
    );
    assert_eq!(seen.certificate, Some(B256::from_slice(&Sha256::digest(b"certificate"))));
    let mut url_only = evidence(100, hash(&text), &text);
    url_only.chain = None;
    assert_eq!(snapshot(&url_only, &judge(&url_only, &Policy::default(), NOW)), None, "no chain, no look");
}

/// The changes between an honest snapshot and one after `change`.
fn changed(change: impl FnOnce(&mut Evidence)) -> Vec<Code> {
    let text = manifest("Tides");
    let first = evidence(100, hash(&text), &text);
    let mut second = evidence(101, hash(&text), &text);
    change(&mut second);
    let mut memory = Memory::default();
    assert_eq!(memory.compare(&look(&first)), Comparison::First);
    memory.keep(look(&first));
    match memory.compare(&look(&second)) {
        Comparison::Changed(changes) => changes.into_iter().map(|change| change.code).collect(),
        Comparison::Same => Vec::new(),
        other => panic!("{other:?}"),
    }
}

fn fails(evidence: &mut Evidence, code: Code) {
    let exchange = evidence.manifest.as_mut().unwrap();
    exchange.response = None;
    exchange.failure = Some(Failure::new(code, ""));
}

fn body(evidence: &mut Evidence, text: &str) {
    evidence.manifest.as_mut().unwrap().response.as_mut().unwrap().body = text.as_bytes().to_vec().into();
}

fn predicate(evidence: &mut Evidence) -> &mut PredicateFacts {
    evidence.chain.as_mut().unwrap().predicate.as_mut().unwrap()
}

// req: VERIFY-019, IDX-003
#[test]
fn changes_of_the_evidence_are_drift() {
    use codes::drift as code;
    assert_eq!(changed(|_| {}), []);
    assert_eq!(changed(|e| body(e, &manifest("Ebb"))), [code::SERVED_CHANGED, code::BECAME_UNVERIFIED]);
    let moved = manifest("Tides").replace("/tides", "/elsewhere");
    assert_eq!(changed(|e| body(e, &moved)), [code::SERVED_CHANGED, code::ENDPOINT_CHANGED, code::BECAME_UNVERIFIED]);
    let dear = manifest("Tides").replace("\"inputs\"", "\"pricing\":[1],\"inputs\"");
    assert_eq!(changed(|e| body(e, &dear)), [code::SERVED_CHANGED, code::PRICE_CHANGED, code::BECAME_UNVERIFIED]);
    assert_eq!(changed(|e| body(e, "<html>")), [code::SERVED_CHANGED, code::BECAME_UNVERIFIED]);
    assert_eq!(changed(|e| fails(e, codes::fetch::NOT_FOUND)), [code::UNREACHABLE, code::BECAME_UNVERIFIED]);
    assert_eq!(changed(|e| predicate(e).code_hash = None), [code::PREDICATE_CODE_CHANGED]);
    assert_eq!(changed(|e| predicate(e).proxy.as_mut().unwrap().target = Address::ZERO), [code::PREDICATE_UPGRADED]);
    assert_eq!(changed(|e| predicate(e).requirements = Requirements::Failed), [code::REQUIREMENTS_CHANGED]);
    let tls = |e: &mut Evidence| e.manifest.as_mut().unwrap().tls.as_mut().unwrap().certificate = b"renewed".to_vec().into();
    assert_eq!(changed(tls), [code::CERTIFICATE_CHANGED]);
    let gone = |e: &mut Evidence| {
        e.chain.as_mut().unwrap().config[0].state = ToolState::Deregistered;
        e.manifest = None;
    };
    assert_eq!(changed(gone), [code::DEREGISTERED]);
}

#[test]
fn the_fault_of_our_own_network_is_never_drift() {
    for code in codes::fetch::ALL.iter().copied().filter(|code| codes::fetch::is_transient(*code)) {
        assert_eq!(changed(|evidence| fails(evidence, code)), [], "{code}");
    }
}

#[test]
fn requirements_that_differ_have_different_digests() {
    let entry = |data: &'static [u8], label: &str| Requirement {
        kind: FixedBytes([1; 4]),
        data: Bytes::from_static(data),
        label: label.to_owned(),
    };
    let listed = |logic, entries| Requirements::Listed { logic, entries };
    let all = [
        Requirements::NoCode,
        Requirements::Failed,
        Requirements::OverLimit,
        listed(Logic::And, vec![]),
        listed(Logic::Or, vec![]),
        listed(Logic::And, vec![entry(b"ab", "c")]),
        listed(Logic::And, vec![entry(b"a", "bc")]),
        listed(Logic::And, vec![entry(b"a", "b"), entry(b"", "")]),
    ];
    let digests: BTreeSet<_> = all.iter().map(digest).collect();
    assert_eq!(digests.len(), all.len());
}

#[test]
fn hostile_terms_are_kept_short() {
    let long = format!("https://tools.harbour-office.org/{}", "x".repeat(10_000));
    let text = manifest("Tides")
        .replace("https://tools.harbour-office.org/tides", &long)
        .replace("\"inputs\"", &format!("\"pricing\":\"{}\",\"inputs\"", "y".repeat(MAX_PRICES_BYTES)));
    let seen = look(&evidence(1, hash(&text), &text));
    assert_eq!(seen.endpoint.unwrap().len(), MAX_ENDPOINT_CHARS);
    assert!(seen.prices.unwrap().starts_with("keccak256 0x"));
}

#[test]
fn a_memory_survives_a_file_and_nothing_else_passes_for_one() {
    let text = manifest("Tides");
    let mut memory = Memory::default();
    memory.keep(look(&evidence(100, hash(&text), &text)));
    let file = memory.to_json().unwrap();
    assert_eq!(Memory::from_json(file.as_bytes()).unwrap(), memory);
    assert_eq!(Memory::default().to_json().unwrap(), "{\n  \"format\": 1,\n  \"tools\": []\n}\n");
    for damage in ["", "{}", "[]", r#"{"format":1}"#, r#"{"format":1,"tools":[{}]}"#, r#"{"format":1,"tools":[],"more":1}"#] {
        assert!(matches!(Memory::from_json(damage.as_bytes()), Err(MemoryFault::Malformed(_))), "{damage}");
    }
    assert!(matches!(Memory::from_json(br#"{"format":2,"tools":[]}"#), Err(MemoryFault::Format(2))));
    let one = serde_json::to_string(memory.get(&tool()).unwrap()).unwrap();
    let twice = format!(r#"{{"format":1,"tools":[{one},{one}]}}"#);
    assert!(matches!(Memory::from_json(twice.as_bytes()), Err(MemoryFault::Twice(_))));

    // A lagging node neither causes a change nor reverts the stored snapshot.
    let older = look(&evidence(99, B256::ZERO, &text));
    assert_eq!(memory.compare(&older), Comparison::Older);
    let before = memory.clone();
    memory.keep(older);
    assert_eq!((memory.len(), &memory), (1, &before));
}

/// A tool whose configuration follows a script, and never leads to a fetch.
struct Scripted {
    head: AtomicU64,
    hash: Mutex<B256>,
    /// The ranges that were searched for events.
    searched: Mutex<Vec<(u64, u64)>>,
    news: Mutex<bool>,
    down: Mutex<bool>,
}

impl Scripted {
    fn new() -> Self {
        Self {
            head: AtomicU64::new(10),
            hash: Mutex::new(B256::repeat_byte(1)),
            searched: Mutex::default(),
            news: Mutex::new(false),
            down: Mutex::new(false),
        }
    }

    fn fail_if_down(&self) -> Result<(), Error> {
        if *self.down.lock().unwrap() { Err(Error::UnknownNetwork { text: "down".to_owned() }) } else { Ok(()) }
    }
}

impl ToolSource for &Scripted {
    fn tool(&self) -> ToolRef {
        tool()
    }

    async fn config(&self) -> Result<ConfigRead, Error> {
        self.fail_if_down()?;
        let state = ToolState::Present(ToolConfig {
            creator: Address::repeat_byte(2),
            metadata_uri: "ftp://nowhere".to_owned(),
            manifest_hash: *self.hash.lock().unwrap(),
            access_predicate: None,
        });
        Ok(ConfigRead { block: self.head.load(Ordering::Relaxed), state })
    }

    async fn details(&self, reads: ChainReads) -> Result<ChainReads, Error> {
        Ok(reads)
    }
}

impl WatchSource for &Scripted {
    async fn head(&self) -> Result<u64, Error> {
        self.fail_if_down()?;
        Ok(self.head.load(Ordering::Relaxed))
    }

    async fn touched(&self, _: &[Address], from: u64, to: u64) -> Result<bool, Error> {
        self.searched.lock().unwrap().push((from, to));
        Ok(std::mem::take(&mut *self.news.lock().unwrap()))
    }
}

fn watcher(source: &Scripted, interval: Duration, policy: Policy) -> Watcher<&Scripted> {
    let door = Untrusted::builder(FixedClock(NOW)).build().unwrap();
    let verifier = Verifier::new(door, std::sync::Arc::new(FixedClock(NOW)), "test");
    Watcher::new(verifier, policy, vec![source], Memory::default(), interval).polling(Duration::from_millis(5))
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(30), future).await.expect("in time") })
}

fn only(mut looks: Vec<Look>) -> Looked {
    assert_eq!(looks.len(), 1);
    looks.remove(0).outcome.unwrap()
}

#[test]
fn news_wake_the_watcher_and_each_block_is_searched_once() {
    let source = Scripted::new();
    let mut watcher = watcher(&source, Duration::from_secs(3_600), Policy::default());
    wait(async {
        let first = only(watcher.all().await);
        assert_eq!((&first.seen, first.changes().count()), (&Comparison::First, 0));
        watcher.keep(first);
        source.head.store(12, Ordering::Relaxed);
        *source.news.lock().unwrap() = true;
        *source.hash.lock().unwrap() = B256::repeat_byte(9);
        let second = only(watcher.next().await);
        assert_eq!(second.drift().map(|change| change.code).collect::<Vec<_>>(), [codes::drift::HASH_COMMITTED_CHANGED]);
        assert_eq!(*source.searched.lock().unwrap(), [(11, 12)]);
        // It was not stored, so it is found again, together with everything since.
        source.head.store(13, Ordering::Relaxed);
        *source.news.lock().unwrap() = true;
        let third = only(watcher.next().await);
        assert_eq!(third.drift().count(), 1);
        watcher.keep(third);
        // After a long pause, verifying is cheaper than searching.
        source.head.store(13 + MAX_BLOCKS + 1, Ordering::Relaxed);
        assert_eq!(only(watcher.next().await).seen, Comparison::Same);
        assert_eq!(source.searched.lock().unwrap().last(), Some(&(13, 13)));
    });
}

#[test]
fn the_interval_goes_on_whatever_makes_news() {
    let source = Scripted::new();
    let mut watcher = watcher(&source, Duration::from_millis(60), Policy::default());
    wait(async {
        watcher.all().await;
        let due = watcher.due;
        for block in 11.. {
            source.head.store(block, Ordering::Relaxed);
            *source.news.lock().unwrap() = true;
            watcher.next().await;
            if watcher.due != due {
                break;
            }
        }
        // An outage is reported at once.
        *source.down.lock().unwrap() = true;
        assert!(watcher.next().await.remove(0).outcome.is_err());
    });
}

#[test]
fn a_pin_is_told_once_until_it_holds_again() {
    let source = Scripted::new();
    let mut policy = Policy::default();
    policy.pinned_manifest = Some(B256::repeat_byte(1));
    let mut watcher = watcher(&source, Duration::ZERO, policy);
    let told = |looked: &Looked| looked.pin.as_ref().map(|change| change.severity);
    wait(async {
        assert_eq!(told(&only(watcher.all().await)), None);
        *source.hash.lock().unwrap() = B256::repeat_byte(9);
        assert_eq!(told(&only(watcher.all().await)), Some(Severity::Error));
        let again = only(watcher.all().await);
        assert_eq!(told(&again), Some(Severity::Error), "nobody was told");
        watcher.keep(again);
        assert_eq!(told(&only(watcher.all().await)), None);
        *source.hash.lock().unwrap() = B256::repeat_byte(1);
        assert_eq!(told(&only(watcher.all().await)), None);
        *source.hash.lock().unwrap() = B256::repeat_byte(9);
        assert_eq!(told(&only(watcher.all().await)), Some(Severity::Error));
    });
}

/// A row of the recorded history as a snapshot; `None` if the registry could not be read at that time.
fn recorded(row: &str) -> Option<Snapshot> {
    let columns: Vec<&str> = row.split('\t').collect();
    let [_, _, chain, id, uri, committed, computed, creator, predicate, status, manifest, endpoint, _] = columns[..] else {
        panic!("thirteen columns: {row:?}");
    };
    if status == "read_error" {
        return None;
    }
    let failed = |check: u8, code: &str| Verdict::Failed { check: Some(check), code: code.to_owned() };
    let (served, verdict) = match manifest {
        "unchecked" => (Served::Unknown, Verdict::Unknown),
        "fetch_error" => (Served::Unreachable, failed(1, "fetch")),
        "hash_mismatch" => (Served::Manifest(computed.parse().unwrap()), failed(3, "hash")),
        "verified" => (Served::Manifest(computed.parse().unwrap()), Verdict::Verified),
        other => panic!("the manifest status {other}"),
    };
    let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let tool = ToolRef::parse(&format!("eip155:{chain}/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/{id}")).unwrap();
    Some(Snapshot {
        registered: status == "active",
        metadata_uri: known(uri),
        manifest_hash: known(committed).map(|text| text.parse().unwrap()),
        creator: known(creator).map(|text| text.parse().unwrap()),
        predicate: known(predicate).map(|text| text.parse().unwrap()),
        served,
        verdict,
        endpoint: known(endpoint),
        ..Snapshot::new(tool)
    })
}

// req: VERIFY-019, IDX-008
#[test]
fn the_recorded_history_of_a_registry_has_its_drift() {
    let Some(file) = toolcrib_testkit::corpus("erc8257/registry/history.tsv") else { return };
    let text = std::fs::read_to_string(file).expect("the corpus has a history");
    let (mut memory, mut first) = (Memory::default(), 0);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, row) in text.lines().enumerate().skip(1) {
        let Some(look) = recorded(row) else { continue };
        match memory.compare(&look) {
            Comparison::First => first += 1,
            Comparison::Same => {}
            Comparison::Older => panic!("there are no blocks in the history"),
            Comparison::Changed(changes) => {
                for change in changes {
                    *counts.entry(change.code.id()).or_default() += 1;
                }
            }
        }
        memory.keep(look);
        if at % 100 == 0 {
            // The watcher is restarted.
            memory = Memory::from_json(memory.to_json().unwrap().as_bytes()).unwrap();
        }
    }
    assert_eq!((first, memory.len()), (751, 751));
    // Counted independently of this code, by comparing the columns of consecutive rows of each tool.
    let expected = [
        ("drift.became_unverified", 106),
        ("drift.deregistered", 23),
        ("drift.endpoint_changed", 12),
        ("drift.failure_changed", 38),
        ("drift.hash_committed_changed", 144),
        ("drift.metadata_uri_changed", 8),
        ("drift.predicate_changed", 31),
        ("drift.reachable", 23),
        ("drift.repaired", 54),
        ("drift.served_changed", 275),
        ("drift.unreachable", 60),
    ];
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), expected);
}
