//! TLS: accepted and refused clients, and that no client has to wait for another one's handshake.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rcgen::{CertificateParams, DnType, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use toolcrib_core::tool::ToolBuilder;
use toolcrib_devchain::Authority;
use toolcrib_gate::{
    Context, Gate, HANDSHAKE_TIME, Handler, MAX_HANDSHAKES, Origins, Rate, Rates, Server, SystemClock, Tls, Tool, Tools,
};

use crate::world::{Input, Output, Runs, counting_at, creator};

const HOST: &str = "word-count.tool.localhost";
const OTHER: &str = "letter-count.tool.localhost";

/// In the time of a test that does not hang.
const SOON: Duration = toolcrib_testkit::HUNG;

/// An authority, and a client that trusts it and nobody else.
struct World {
    folder: TempDir,
    authority: Authority,
}

impl World {
    fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        let authority = Authority::open(folder.path(), &SystemClock).expect("made");
        Self { folder, authority }
    }

    fn tls(&self, hosts: &[&str]) -> Tls {
        self.authority.tls(hosts.iter().copied(), &SystemClock).expect("issued")
    }

    fn client(&self, protocols: &[&str]) -> TlsConnector {
        let pem = std::fs::read(self.folder.path().join("ca.pem")).expect("a file");
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&pem).expect("PEM")).expect("a certificate");
        let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        TlsConnector::from(Arc::new(config))
    }

    async fn connect(&self, at: SocketAddr, name: &str) -> io::Result<TlsStream<TcpStream>> {
        self.connect_with(at, name, &["http/1.1"]).await
    }

    async fn connect_with(&self, at: SocketAddr, name: &str, protocols: &[&str]) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(at).await.expect("it listens");
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        timeout(SOON, self.client(protocols).connect(name, stream)).await.expect("the handshake ends")
    }

    /// Status and body of a call, over a connection of its own.
    async fn call(&self, at: SocketAddr, name: &str, host: &str) -> (u16, Value) {
        let mut stream = self.connect(at, name).await.expect("a handshake");
        let request = format!(
            "POST /call HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: 18\r\n\r\n{{\"text\":\"one two\"}}"
        );
        stream.write_all(request.as_bytes()).await.expect("sent");
        answer(stream).await
    }
}

async fn answer(mut stream: TlsStream<TcpStream>) -> (u16, Value) {
    let mut text = String::new();
    let read = timeout(SOON, stream.read_to_string(&mut text)).await.expect("in time");
    read.expect("an end that TLS confirms");
    let (head, body) = text.split_once("\r\n\r\n").expect("a whole head");
    let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
    (status, serde_json::from_str(body).expect("JSON"))
}

fn server(host: &str) -> Server {
    tools(host).build().expect("sound settings")
}

fn tools(host: &str) -> Tools {
    Tools::new(&format!("https://{host}")).tool(counting_at(
        &format!("https://{host}/call"),
        "word-count",
        Gate::Open,
        &Runs::default(),
    ))
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let at = listener.local_addr().expect("bound");
    (listener, at)
}

async fn serve(server: Server, tls: Tls) -> SocketAddr {
    let (listener, at) = listen().await;
    tokio::spawn(server.serve_tls(listener, tls, std::future::pending()));
    at
}

#[tokio::test]
async fn a_call_over_tls_is_a_call() {
    let world = World::new();
    let rates = Rates { per_address: Some(Rate::new(2, 0.01)), ..Rates::default() };
    let at = serve(tools(HOST).rates(rates).build().expect("sound settings"), world.tls(&[HOST])).await;
    let stream = world.connect(at, HOST).await.expect("a handshake");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    for _ in 0..2 {
        assert_eq!(world.call(at, HOST, HOST).await, (200, json!({"words": 2, "caller": null})));
    }
    // The address of the caller is known behind TLS as well.
    let (status, body) = world.call(at, HOST, HOST).await;
    assert_eq!((status, &body["code"]), (429, &json!("gate.rate_limited")));
}

#[tokio::test]
async fn who_does_not_speak_tls_is_turned_away_and_keeps_nobody_waiting() {
    let world = World::new();
    let at = serve(server(HOST), world.tls(&[HOST])).await;
    let garbage: &[&[u8]] = &[
        b"GET / HTTP/1.1\r\nHost: word-count.tool.localhost\r\n\r\n",
        &[0; 4096],
        &[0xff; 70_000],
        // A record that announces more than it brings, and one of another version.
        b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc",
        b"\x16\x09\x09\x00\x02\x01\x00",
        b"SSH-2.0-client\r\n",
        b"",
    ];
    let mut held = Vec::new();
    for bytes in garbage {
        let mut stream = TcpStream::connect(at).await.expect("it listens");
        let _ = stream.write_all(bytes).await;
        held.push(stream);
        assert_eq!(world.call(at, HOST, HOST).await.0, 200, "beside {} bytes of garbage", bytes.len());
    }
    // Plain HTTP gets a TLS alert, never an answer.
    let mut said = Vec::new();
    let _ = timeout(SOON, held[0].read_to_end(&mut said)).await.expect("closed");
    assert!(!said.starts_with(b"HTTP"), "{said:?}");
    // A client that knows HTTP/2 alone is told so, one that says nothing is served.
    assert!(world.connect_with(at, HOST, &["h2"]).await.is_err());
    assert!(world.connect_with(at, HOST, &[]).await.is_ok());
}

#[tokio::test]
async fn slow_handshakes_are_bounded_and_the_oldest_goes_first() {
    let world = World::new();
    let at = serve(server(HOST), world.tls(&[HOST])).await;
    let mut slow = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(at).await.expect("it listens");
        stream.write_all(b"\x16\x03\x01").await.expect("sent");
        slow.push(stream);
    }
    let begun = tokio::time::Instant::now();
    assert_eq!(world.call(at, HOST, HOST).await.0, 200);
    assert!(begun.elapsed() < HANDSHAKE_TIME, "slow handshakes must not delay others until they time out");
    let mut open = Vec::new();
    for (number, stream) in slow.iter_mut().enumerate() {
        if timeout(Duration::from_millis(2), stream.read(&mut [0; 64])).await.is_err() {
            open.push(number);
        }
    }
    assert!(open.len() < MAX_HANDSHAKES && open.len() > MAX_HANDSHAKES / 2, "{}", open.len());
    assert!(open.iter().all(|number| *number >= 200 - MAX_HANDSHAKES), "the oldest went first: {open:?}");
}

#[tokio::test]
async fn a_handshake_that_does_not_go_on_is_given_up() {
    let world = World::new();
    let at = serve(server(HOST), world.tls(&[HOST])).await;
    let mut silent = TcpStream::connect(at).await.expect("it listens");
    assert_eq!(world.call(at, HOST, HOST).await.0, 200, "the server has taken the other one before this");
    tokio::time::pause();
    assert!(timeout(HANDSHAKE_TIME / 2, silent.read(&mut [0; 1])).await.is_err(), "not yet");
    let closed = timeout(HANDSHAKE_TIME, silent.read(&mut [0; 1])).await.expect("given up");
    assert!(!matches!(closed, Ok(1..)), "{closed:?}");
}

#[tokio::test]
async fn the_certificate_is_that_of_the_name_that_is_asked_for() {
    let world = World::new();
    let at = serve(server(HOST), world.tls(&[HOST, OTHER])).await;
    for (name, is_served) in [(HOST, true), (OTHER, true), ("third.tool.localhost", false), ("127.0.0.1", false)] {
        assert_eq!(world.connect(at, name).await.is_ok(), is_served, "{name}");
    }
    // A single certificate is shown to everybody, and who asked for another name refuses it.
    let (chain, key) = pem(&world, OTHER);
    let at = serve(server(HOST), Tls::from_pem(chain.as_bytes(), key.as_bytes()).expect("a pair")).await;
    assert!(world.connect(at, OTHER).await.is_ok());
    let error = world.connect(at, HOST).await.expect_err("not its name").to_string();
    assert!(error.contains("not valid for"), "{error}");
}

#[tokio::test]
async fn certificates_are_replaced_while_the_server_runs() {
    let world = World::new();
    let tls = world.tls(&[OTHER]);
    let at = serve(server(HOST), tls.clone()).await;
    let open = world.connect(at, OTHER).await.expect("a handshake");
    assert!(world.connect(at, HOST).await.is_err());
    tls.reload(&world.tls(&[HOST]));
    assert!(world.connect(at, OTHER).await.is_err());
    assert_eq!(world.call(at, HOST, HOST).await.0, 200);
    let mut open = open;
    open.write_all(b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.expect("sent");
    assert_eq!(answer(open).await.0, 404, "an open connection goes on");
}

#[tokio::test]
async fn a_server_that_stops_finishes_the_call_and_no_handshake() {
    let world = World::new();
    let (begun, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (listener, at) = listen().await;
    let (stop, stopped) = oneshot::channel::<()>();
    let server = Tools::new(&format!("https://{HOST}")).tool(slow(&begun, &ended)).build().expect("sound settings");
    let serving = tokio::spawn(server.serve_tls(listener, world.tls(&[HOST]), async { stopped.await.unwrap_or_default() }));
    let mut silent = TcpStream::connect(at).await.expect("it listens");
    let mut caller = world.connect(at, HOST).await.expect("a handshake");
    let request = format!("POST /call HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 11\r\n\r\n{{\"text\":\"\"}}");
    caller.write_all(request.as_bytes()).await.expect("sent");
    while !begun.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.send(()).expect("the server waits for it");
    assert_eq!(answer(caller).await, (200, json!({"words": 0, "caller": null})), "the answer still comes");
    timeout(SOON, serving).await.expect("no handshake holds it").expect("no panic").expect("no error");
    assert!(ended.load(Ordering::SeqCst));
    assert!(!matches!(timeout(SOON, silent.read(&mut [0; 1])).await, Ok(Ok(1..)) | Err(_)), "closed");
    assert!(TcpStream::connect(at).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn several_origins_on_one_socket() {
    let world = World::new();
    let origins = Origins::new([server(HOST), server(OTHER)]).expect("two hosts");
    let (listener, at) = listen().await;
    tokio::spawn(origins.serve_tls(listener, world.tls(&[HOST, OTHER]), std::future::pending()));
    let port = at.port();
    for host in [HOST.to_owned(), format!("{HOST}:{port}"), HOST.to_uppercase()] {
        assert_eq!(world.call(at, HOST, &host).await.0, 200, "{host}");
    }
    assert_eq!(world.call(at, OTHER, OTHER).await.0, 200);
    for host in ["elsewhere.tool.localhost", "127.0.0.1", "", "a b"] {
        let (status, body) = world.call(at, HOST, host).await;
        assert!(status == 421 && body["code"] == "gate.misdirected" || status == 400, "{host}: {status} {body}");
    }
    let errors = Origins::new([server(HOST), server(HOST)]).expect_err("one host");
    assert_eq!(errors.0.iter().map(|error| error.code().id()).collect::<Vec<_>>(), ["gate.host_twice"]);
}

#[test]
fn files_that_do_not_fit_are_refused_with_a_code() {
    #[track_caller]
    fn check(chain: &str, key: &str, code: &str) {
        let error = Tls::from_pem(chain.as_bytes(), key.as_bytes()).expect_err(code);
        assert_eq!(error.code().id(), code);
        assert!(!error.to_string().contains("MIG"), "nothing of a key is said: {error}");
    }
    let world = World::new();
    let (chain, key) = pem(&world, HOST);
    let (_, other) = pem(&world, HOST);
    check("", &key, "gate.tls_certificate");
    check(&key, &key, "gate.tls_certificate");
    check(&chain.replace("MII", "???"), &key, "gate.tls_certificate");
    check(&chain, "", "gate.tls_key");
    check(&chain, &chain, "gate.tls_key");
    check(&chain, "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMG\n-----END PRIVATE KEY-----\n", "gate.tls_key");
    check(&chain, &other, "gate.tls_mismatch");
    for name in ["", "a b", "127.0.0.1", "[::1]"] {
        let error = Tls::with_names([(name, chain.as_bytes(), key.as_bytes())]).expect_err(name);
        assert_eq!(error.code().id(), "gate.tls_name", "{name}");
    }
    assert_eq!(Tls::with_names([]).expect_err("nothing").code().id(), "gate.tls_certificate");
    let shown = format!("{:?} {:?}", Tls::from_pem(chain.as_bytes(), key.as_bytes()).expect("a pair"), world.authority);
    let secret = std::fs::read_to_string(world.folder.path().join("ca-key.pem")).expect("a file");
    for line in key.lines().chain(secret.lines()).filter(|line| !line.starts_with('-')) {
        assert!(!shown.contains(line), "{shown}");
    }
    assert!(!shown.contains("[48, "), "nor as bytes: {shown}");
}

/// A certificate for a host and its key, as files have them.
fn pem(world: &World, host: &str) -> (String, String) {
    let secret = std::fs::read_to_string(world.folder.path().join("ca-key.pem")).expect("a key file");
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "Toolcrib development authority, for localhost only");
    let issuer = Issuer::new(params, KeyPair::from_pem(&secret).expect("a key"));
    let key = KeyPair::generate().expect("a key");
    let leaf = CertificateParams::new([host.to_owned()]).expect("a name").signed_by(&key, &issuer).expect("signed");
    (leaf.pem(), key.serialize_pem())
}

/// A tool that takes its time.
fn slow(begun: &Arc<AtomicBool>, ended: &Arc<AtomicBool>) -> Tool<Handler> {
    let (begun, ended) = (begun.clone(), ended.clone());
    let builder = ToolBuilder::new("word-count", "Counts the words of a text.", &format!("https://{HOST}/call"), creator());
    let built = builder.inputs::<Input>().outputs::<Output>().build().expect("a manifest");
    Tool::new(built.manifest).handler(move |_: Input, _: Context| {
        let (begun, ended) = (begun.clone(), ended.clone());
        async move {
            begun.store(true, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(300)).await;
            ended.store(true, Ordering::SeqCst);
            Ok(json!({"words": 0, "caller": null}))
        }
    })
}
