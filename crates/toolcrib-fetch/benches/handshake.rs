//! Measures the overhead of the client over a bare handshake and GET: the same server, the same certificate, in one run.
//!
//! The client runs in its own thread, and only that thread's CPU time is compared: the server's work is not counted, and a busy
//! machine has little influence. Rounds take turns, and the median of their ratios is the result.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use toolcrib_core::clock::FixedClock;
use toolcrib_core::url::HttpsUrl;
use toolcrib_fetch::{Connect, Resolve, ResolveError, Target, Untrusted};
use toolcrib_testkit::servers::{Authority, NOW, Script, Server, Step, ok};

const HOST: &str = "tools.example.com";
const ROUNDS: usize = 15;
const REQUESTS: usize = 100;
/// The size of a typical manifest.
const BODY: usize = 4_000;

#[derive(Clone, Copy, Debug)]
struct Loopback(SocketAddr);

#[async_trait]
impl Resolve for Loopback {
    async fn resolve(&self, _: &str) -> Result<Vec<IpAddr>, ResolveError> {
        Ok(vec![[5, 5, 5, 5].into()])
    }
}

#[async_trait]
impl Connect for Loopback {
    async fn connect(&self, _: SocketAddr) -> std::io::Result<TcpStream> {
        TcpStream::connect(self.0).await
    }
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its result")]
fn main() {
    let authority = Authority::new("bench authority");
    let script = Script::tls(&authority.leaf(&[HOST]), vec![Step::ReadRequest, Step::send(ok(vec![b'x'; BODY]))]);
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        runtime().block_on(async {
            let server = Server::start(script).await;
            send.send(server.address).expect("the client waits");
            std::future::pending::<()>().await;
        });
    });
    let address = receive.recv().expect("an address");

    let mut roots = RootCertStore::empty();
    roots.add(authority.der()).expect("a certificate");
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    let bare = TlsConnector::from(Arc::new(config));

    let fetch = Untrusted::builder(FixedClock(NOW))
        .resolver(Loopback(address))
        .connector(Loopback(address))
        .authorities(vec![authority.der()])
        .build()
        .expect("the authority is a certificate");
    let url = HttpsUrl::parse(&format!("https://{HOST}/.well-known/ai-tool/a.json")).expect("a URL");

    let mut ratios = Vec::new();
    let (mut fastest_bare, mut fastest_fetch) = (f64::MAX, f64::MAX);
    runtime().block_on(async {
        for round in 0..=ROUNDS {
            let start = cpu();
            for _ in 0..REQUESTS {
                assert!(get(&bare, address).await > BODY);
            }
            let middle = cpu();
            for _ in 0..REQUESTS {
                let exchange = fetch.get(&Target::file(&url, None)).await;
                assert_eq!(exchange.complete().map(|response| response.body.as_bytes().len()), Some(BODY));
            }
            let (bare, fetch) = ((middle - start) / REQUESTS as f64, (cpu() - middle) / REQUESTS as f64);
            // The first round is a warm-up.
            if round > 0 {
                ratios.push(fetch / bare);
                (fastest_bare, fastest_fetch) = (fastest_bare.min(bare), fastest_fetch.min(fetch));
            }
        }
    });
    ratios.sort_by(f64::total_cmp);
    println!("bare handshake and GET  {fastest_bare:7.1} us of processor time");
    println!("toolcrib-fetch          {fastest_fetch:7.1} us of processor time");
    println!("ratio                   {:7.3} (median of {ROUNDS} rounds of {REQUESTS})", ratios[ROUNDS / 2]);
}

async fn get(connector: &TlsConnector, address: SocketAddr) -> usize {
    let stream = TcpStream::connect(address).await.expect("a connection");
    stream.set_nodelay(true).expect("an option");
    let mut stream = connector.connect(ServerName::try_from(HOST).expect("a name"), stream).await.expect("a handshake");
    let request = format!("GET /.well-known/ai-tool/a.json HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    stream.flush().await.expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("an answer");
    answer.len()
}

/// CPU time of this thread in microseconds.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|nanoseconds| nanoseconds.parse::<f64>().ok()).expect("a number") / 1_000.0
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}
