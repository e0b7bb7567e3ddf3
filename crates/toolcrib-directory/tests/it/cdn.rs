//! A directory behind a shared cache that obeys its headers, on real sockets: what is kept, what never is, and how it is purged.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use toolcrib_directory::keys::KeyTerms;
use toolcrib_directory::purge::{PurgeOptions, Purger, TellCache};
use toolcrib_directory::{Auth, Options, serve};

use crate::shelf::{Shelf, Stock, open, path};

const PATIENCE: Duration = Duration::from_secs(20);

fn shared() -> Options {
    Options { shared_max_age: Some(600), ..open() }
}

/// An answer as it came over the wire.
#[derive(Clone, Debug)]
struct Wire {
    status: u16,
    headers: HashMap<String, String>,
    body: String,
}

impl Wire {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

async fn ask(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Wire {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut text = Vec::new();
    stream.read_to_end(&mut text).await.expect("an answer");
    let text = String::from_utf8(text).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok()).expect("a status");
    let headers = lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    Wire { status, headers: headers.collect(), body: body.to_owned() }
}

async fn start(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(serve(listener, router, std::future::pending()));
    address
}

/// A shared cache (RFC 9111): it keeps what is public, for `s-maxage`, by address, and drops it by key.
#[derive(Clone)]
struct Cdn {
    address: SocketAddr,
    kept: Arc<Mutex<HashMap<String, (Wire, Instant)>>>,
    /// What it was told to drop, in order.
    told: Arc<Mutex<Vec<Vec<String>>>>,
    /// Purges that it refuses before it takes one.
    refusals: Arc<AtomicUsize>,
}

impl Cdn {
    async fn before(origin: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let cdn = Self { address, kept: Arc::default(), told: Arc::default(), refusals: Arc::default() };
        let serving = cdn.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(stream, origin));
            }
        });
        cdn
    }

    async fn serve(self, mut stream: TcpStream, origin: SocketAddr) {
        let mut text = String::new();
        let (head, body) = loop {
            let mut bytes = [0; 4_096];
            let count = stream.read(&mut bytes).await.expect("a request");
            text.push_str(std::str::from_utf8(&bytes[..count]).expect("text"));
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
            if body.len() >= length.parse().expect("a number") {
                break (head.to_owned(), body.to_owned());
            }
        };
        let mut words = head.split(' ');
        let (method, path) = (words.next().expect("a method"), words.next().expect("a path").to_owned());
        let (status, headers, body) = if path == "/purge" {
            (self.purge(&body), String::new(), String::new())
        } else {
            let rest: String = head
                .lines()
                .skip(1)
                .filter(|line| !line.starts_with("host") && !line.starts_with("con"))
                .fold(String::new(), |all, line| all + line + "\r\n");
            let (wire, how) = self.fetch(origin, method, &path, &rest, &body).await;
            let headers = wire.headers.iter().filter(|(name, _)| *name != "connection" && *name != "content-length");
            let headers = headers.fold(format!("x-cdn: {how}\r\n"), |all, (name, value)| format!("{all}{name}: {value}\r\n"));
            (wire.status, headers, wire.body)
        };
        let answer = format!("HTTP/1.1 {status} x\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
        stream.write_all(answer.as_bytes()).await.expect("answered");
    }

    async fn fetch(&self, origin: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> (Wire, &'static str) {
        if method == "GET"
            && let Some((wire, until)) = self.kept.lock().expect("unpoisoned").get(path)
            && Instant::now() < *until
        {
            return (wire.clone(), "hit");
        }
        let wire = ask(origin, method, path, headers, body).await;
        let control = wire.header("cache-control").to_owned();
        let words: Vec<&str> = control.split(',').map(str::trim).collect();
        let seconds = words.iter().find_map(|word| word.strip_prefix("s-maxage="));
        let may_be_kept = words.contains(&"public") && !words.contains(&"no-store") && !words.contains(&"private");
        if let Some(seconds) = seconds.filter(|_| method == "GET" && wire.status == 200 && may_be_kept) {
            let until = Instant::now() + Duration::from_secs(seconds.parse().expect("seconds"));
            self.kept.lock().expect("unpoisoned").insert(path.to_owned(), (wire.clone(), until));
        }
        (wire, "miss")
    }

    fn purge(&self, body: &str) -> u16 {
        if self.refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok() {
            return 503;
        }
        let keys: serde_json::Value = serde_json::from_str(body).expect("JSON");
        let keys: Vec<String> = serde_json::from_value(keys["tags"].clone()).expect("keys");
        self.kept.lock().expect("unpoisoned").retain(|_, (wire, _)| {
            assert_eq!(wire.header("surrogate-key").replace(' ', ","), wire.header("cache-tag"));
            !wire.header("surrogate-key").split(' ').any(|key| keys.iter().any(|dropped| dropped == key))
        });
        self.told.lock().expect("unpoisoned").push(keys);
        200
    }

    async fn get(&self, path: &str) -> Wire {
        ask(self.address, "GET", path, "", "").await
    }

    fn kept(&self) -> BTreeSet<String> {
        self.kept.lock().expect("unpoisoned").keys().cloned().collect()
    }

    fn told(&self) -> Vec<String> {
        self.told.lock().expect("unpoisoned").concat()
    }
}

impl TellCache for Cdn {
    async fn drop_keys(&self, keys: &[String]) -> Result<(), String> {
        let body = serde_json::json!({ "tags": keys }).to_string();
        let wire = ask(self.address, "POST", "/purge", "", &body).await;
        if wire.status == 200 { Ok(()) } else { Err(format!("status {}", wire.status)) }
    }
}

fn options(settle: Duration) -> PurgeOptions {
    PurgeOptions { name: "test".to_owned(), batch: 2, every: Duration::from_millis(5), poll: Duration::from_millis(20), settle }
}

async fn wait_until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < PATIENCE, "{what}: not in time");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_cache_holds_disappears_after_a_change() {
    for shelf in Shelf::each(shared()).await {
        shelf.put_all(&[Stock::good(1, "Weather"), Stock::good(2, "Maps")]).await;
        let cdn = Cdn::before(start(shelf.router.clone()).await).await;
        let list = "/api/v2/tools?limit=5".to_owned();
        let creator = format!("/api/v2/tools?creator={:#x}", Stock::good(2, "Maps").creator);
        let page = path(1).replace("/api/v2", "");
        let all =
            [path(1), path(2), page, list.clone(), creator, "/api/v2/tools/search?query=weather".to_owned(), "/".to_owned()];
        let all = all.into_iter().chain(["report", "history", "activity"].map(|part| format!("{}/{part}", path(1))));
        let all: Vec<String> = all.filter(|path| !path.ends_with("report")).collect();
        for path in &all {
            let first = cdn.get(path).await;
            assert_eq!((first.status, first.header("x-cdn")), (200, "miss"), "{path}: {}", first.body);
            assert!(first.header("cache-control").contains("s-maxage=600"), "{path}: {:?}", first.headers);
            assert!(!first.headers.contains_key("ratelimit"), "the limit of one caller is not told to others");
            let again = cdn.get(path).await;
            assert_eq!((again.header("x-cdn"), &again.body), ("hit", &first.body), "{path}");
        }
        let purger = Purger::open(shelf.index.clone(), cdn.clone(), options(Duration::from_millis(400))).await.expect("a purger");
        let purging = tokio::spawn(purger.run(std::future::pending()));
        // Use of one tool: what shows it is dropped, and nothing else.
        let usage = [(shelf.key(2), toolcrib_index::feed::Kinds::USAGE)];
        let mut transaction = shelf.index.database().begin().await.expect("a transaction");
        toolcrib_index::feed::record(&mut transaction, &usage, shelf.now()).await.expect("recorded");
        transaction.commit().await.expect("committed");
        wait_until("the tool is dropped", async || !cdn.kept().contains(&path(2))).await;
        assert!(cdn.kept().contains(&path(1)) && !cdn.kept().contains(&list), "{:?}", cdn.kept());
        // Told twice; then nothing is left to tell.
        wait_until("told twice", async || cdn.told().len() >= 2).await;
        for path in &all {
            cdn.get(path).await;
        }

        // A change that moves it: everything that shows it or might.
        shelf.write_all(&[Stock::good(1, "Forecast")]).await;
        let old = cdn.get(&path(1)).await;
        assert!(old.body.contains("Weather"), "still the old one");
        wait_until("the new one is shown", async || {
            shelf.directory.refresh().await.expect("seen");
            cdn.get(&path(1)).await.body.contains("Forecast") && cdn.get(&list).await.body.contains("Forecast")
        })
        .await;
        purging.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_depends_on_the_caller_is_never_kept() {
    for auth in [Auth::Open, Auth::Required] {
        let shelf = Shelf::one(Options { auth, ..shared() }).await;
        shelf.put_all(&[Stock::good(1, "Weather")]).await;
        let terms = KeyTerms { reads: 100_000, writes: 100_000, seconds: 86_400, admin: true };
        let key = shelf.directory.keys().issue_with(Some("operator"), terms, shelf.now()).await.expect("a key").key;
        let router = shelf.directory.clone().with_mcp(Vec::new(), Vec::new()).expect("MCP").router();
        let cdn = Cdn::before(start(router).await).await;
        let keyed = [format!("x-api-key: {key}\r\n"), format!("authorization: Bearer {key}\r\n")];
        let wallet = "0x52908400098527886e0f7030069857d2e4169ee7";
        let paths = [
            path(1),
            "/api/v2/tools".to_owned(),
            "/".to_owned(),
            "/api/v2/tools/search?query=weather".to_owned(),
            format!("/api/v2/tools/search?callable_by={wallet}"),
            format!("{}/can_call?wallet={wallet}", path(1)),
            "/api/v2/admin/moderation".to_owned(),
            "/api/v2/admin/log".to_owned(),
            "/api/v2/changes".to_owned(),
            "/metrics".to_owned(),
        ];
        for headers in &keyed {
            for path in &paths {
                let wire = ask(cdn.address, "GET", path, headers, "").await;
                assert_eq!((wire.status, wire.header("x-cdn")), (200, "miss"), "{path}: {}", wire.body);
                let control = wire.header("cache-control");
                assert!(control.starts_with("private") || control == "no-store", "{path}: {control}");
                assert!(!wire.headers.contains_key("surrogate-key") && !wire.headers.contains_key("cache-tag"), "{path}");
            }
        }
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;
        let mcp = "content-type: application/json\r\naccept: application/json, text/event-stream\r\n";
        let wire = ask(cdn.address, "POST", "/mcp", &format!("{mcp}{}", keyed[0]), call).await;
        assert!(!wire.header("cache-control").contains("public"), "{:?}", wire.headers);
        // Errors, and what says how a process is.
        for path in [&path(77), "/api/v2/tools?limit=nothing", "/nowhere", "/health", "/ready", "/api/v2/tools/search?cursor=bad"]
        {
            let wire = cdn.get(path).await;
            assert_eq!(wire.header("cache-control"), "no-store", "{path}: {}", wire.status);
        }
        assert_eq!(cdn.kept(), BTreeSet::new());
        let wire = cdn.get("/api/v2/tools").await;
        match auth {
            Auth::Open => assert_eq!((wire.status, wire.header("x-cdn")), (200, "miss")),
            Auth::Required => assert_eq!((wire.status, cdn.kept().len()), (401, 0), "{}", wire.body),
        }
    }
}

#[tokio::test]
async fn without_the_setting_no_cache_is_told_to_keep_anything_for_long() {
    let shelf = Shelf::one(open()).await;
    shelf.put_all(&[Stock::good(1, "Weather")]).await;
    for path in [path(1), "/api/v2/tools".to_owned(), "/".to_owned()] {
        let reply = shelf.get(&path).await;
        assert_eq!(reply.status, StatusCode::OK);
        assert_eq!(reply.header("cache-control"), "public, max-age=5, stale-while-revalidate=30", "{path}");
        assert!(!reply.headers.contains_key("surrogate-key"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_is_told_at_least_once_whatever_fails() {
    for shelf in Shelf::each(shared()).await {
        shelf.put_all(&[Stock::good(1, "Weather"), Stock::good(2, "Maps")]).await;
        let cdn = Cdn::before(start(shelf.router.clone()).await).await;
        let open = async |settle| Purger::open(shelf.index.clone(), cdn.clone(), options(settle)).await.expect("a purger");
        // What was before it began is not told.
        tokio::spawn(open(Duration::ZERO).await.run(tokio::time::sleep(Duration::from_millis(200)))).await.expect("no panic");
        assert_eq!(cdn.told(), Vec::<String>::new());
        // The cache refuses a few times, and the purger ends before it told a second time: the next one tells again.
        cdn.refusals.store(2, Ordering::SeqCst);
        shelf.write_all(&[Stock::good(1, "Forecast")]).await;
        let first = tokio::spawn(open(Duration::from_secs(60)).await.run(std::future::pending()));
        wait_until("told once", async || cdn.told().len() >= 3).await;
        first.abort();
        let once = cdn.told();
        let second = tokio::spawn(open(Duration::ZERO).await.run(std::future::pending()));
        let remembered = async || {
            let rows = shelf.index.database().fetch("SELECT cursor FROM directory_purge", &[]).await.expect("readable");
            rows[0].scalar::<i64>().expect("a number") == shelf.index.last_change().await.expect("readable")
        };
        wait_until("told again and remembered", async || cdn.told().len() >= 3 * once.len() && remembered().await).await;
        second.abort();
        let keys = |told: &[String]| told.iter().cloned().collect::<BTreeSet<_>>();
        assert_eq!(keys(&cdn.told()), keys(&once));
        // All of it was told twice by now, so nothing is told any more.
        let before = cdn.told().len();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let third = tokio::spawn(open(Duration::ZERO).await.run(tokio::time::sleep(Duration::from_millis(300))));
        third.await.expect("no panic");
        assert_eq!(cdn.told().len(), before);
    }
}
