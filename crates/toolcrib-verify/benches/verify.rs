//! Benchmarks verification against its unavoidable minimum and against Node.js.
//!
//! - `judge` on a typical tool, alone;
//! - `gather` + `judge` against TLS servers on loopback, a new connection each, 32 in flight, with the chain reads preloaded; in the
//!   same run a bare rustls handshake with a GET, and Node.js doing fetch, canonicalisation, keccak and comparison;
//! - the same from 100 to 100,000 tools: neither the cost per tool nor the memory may grow.
//!
//! The server is a separate process, so that the CPU time is the client's. Rounds take turns, and the median counts.
//! `cargo bench -p toolcrib-verify` measures; with `-- --quick` it only checks that everything runs and agrees.
#![expect(clippy::print_stdout, reason = "the result of a benchmark is what it prints")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, U256, address};
use async_trait::async_trait;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::{FixedClock, UnixTime};
use toolcrib_core::finding::Mode;
use toolcrib_core::tool::{TYPE_V1, ToolManifest};
use toolcrib_fetch::{Concurrency, Connect, Resolve, ResolveError, Untrusted};
use toolcrib_judge::evidence::{ChainReads, ConfigRead, ToolConfig, ToolState};
use toolcrib_judge::{Policy, judge};
use toolcrib_verify::{Depth, Error, ToolSource, Verifier};

const HOST: &str = "tools.example.com";
const PATH: &str = "/.well-known/ai-tool/bench.json";
const CREATOR: Address = address!("5aaeb6053f3e94c9b9a09f33669435e7ef1beaed");
const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

/// Requests in flight.
const IN_FLIGHT: usize = 32;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--serve") {
        serve(Path::new(&arguments[at + 1]));
        return;
    }
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let world = World::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    judging(&runtime, &world, quick);
    side_by_side(&runtime, &world, quick);
    growing(&runtime, &world, quick);
}

/// Measures `judge` alone, on evidence gathered over the network.
fn judging(runtime: &tokio::runtime::Runtime, world: &World, quick: bool) {
    let evidence = runtime.block_on(async { world.verifier().gather(&world.tool(1), Depth::Checks).await.expect("gathered") });
    let policy = Policy::default();
    assert!(judge(&evidence, &policy, NOW).is_usable(), "{:?}", judge(&evidence, &policy, NOW).findings);
    let passes = if quick { 100 } else { 5_000 };
    let mut rounds: Vec<f64> = (0..9)
        .map(|_| {
            let before = cpu();
            for _ in 0..passes {
                black_box(judge(black_box(&evidence), &policy, NOW));
            }
            micros(cpu() - before) / f64::from(passes)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("judge, a manifest of {} bytes: {:.1} µs CPU (best {:.1})", world.manifest.len(), rounds[4], rounds[0]);
}

/// Measures our verifier, the bare handshake and Node.js in turns.
fn side_by_side(runtime: &tokio::runtime::Runtime, world: &World, quick: bool) {
    let (count, rounds) = if quick { (64, 1) } else { (2_000, 5) };
    let mut node = Node::start(world);
    let mut results: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for round in 0..=rounds {
        let mut lines = vec![
            ("bare handshake + GET", measure(|| runtime.block_on(world.bare(count)))),
            ("gather + judge", measure(|| runtime.block_on(world.ours(count)))),
        ];
        if let Some(node) = &mut node {
            lines.push(("Node", node.run(count)));
        }
        // The first round is a warm-up.
        if round > 0 {
            for (name, spent) in lines {
                results.entry(name).or_default().push(spent);
            }
        }
    }
    let median = |name: &str| {
        let mut spent = results.get(name)?.clone();
        spent.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (cpu, wall) = spent[spent.len() / 2];
        Some((cpu / f64::from(count), wall / f64::from(count)))
    };
    println!("{count} tools a round, {rounds} rounds, {IN_FLIGHT} in flight, a new connection each:");
    for name in ["bare handshake + GET", "gather + judge", "Node"] {
        match median(name) {
            Some((cpu, wall)) => println!("  {name:22} {cpu:6.0} µs CPU each, {:6.0} a second", 1e6 / wall),
            None => println!("  {name:22} skipped: run `npm install` in bench/ first"),
        }
    }
    let (Some(ours), Some(bare)) = (median("gather + judge"), median("bare handshake + GET")) else { return };
    println!("  gather + judge is {:.2}x of the bare handshake + GET", ours.0 / bare.0);
    if let Some(node) = median("Node") {
        println!("  gather + judge is {:.2}x of Node's CPU", ours.0 / node.0);
    }
}

/// Measures the cost per tool and the peak memory as the number of tools grows.
fn growing(runtime: &tokio::runtime::Runtime, world: &World, quick: bool) {
    let counts: &[u32] = if quick { &[100] } else { &[100, 1_000, 10_000, 100_000] };
    println!("as their number grows:");
    for &count in counts {
        let (cpu, wall) = measure(|| runtime.block_on(world.ours(count)));
        println!(
            "  {count:>7} tools: {:6.0} µs CPU each, {:6.0} a second, {} MiB at most",
            cpu / f64::from(count),
            f64::from(count) * 1e6 / wall,
            peak_memory() >> 20
        );
    }
}

/// The server, and the connection data for its clients.
struct World {
    server: Child,
    port: u16,
    folder: PathBuf,
    authority: CertificateDer<'static>,
    manifest: String,
    hash: B256,
    next: Arc<AtomicU32>,
}

impl World {
    fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("toolcrib-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // With rcgen's default name, Node.js would take the leaf for self-signed.
        params.distinguished_name.push(DnType::CommonName, "bench authority");
        let key = KeyPair::generate().expect("a key");
        let authority = params.self_signed(&key).expect("a certificate");
        std::fs::write(folder.join("ca.pem"), authority.pem()).expect("written");
        let leaf_key = KeyPair::generate().expect("a key");
        let leaf = CertificateParams::new(vec![HOST.to_owned()]).expect("a name");
        let leaf = leaf.signed_by(&leaf_key, &Issuer::new(params, key)).expect("a certificate");
        std::fs::write(folder.join("leaf.der"), leaf.der()).expect("written");
        std::fs::write(folder.join("leaf.key"), leaf_key.serialize_der()).expect("written");
        let manifest = typical();
        std::fs::write(folder.join("manifest.json"), &manifest).expect("written");
        let hash = ToolManifest::parse(manifest.as_bytes(), Mode::Producer).conformant().expect("conformant").hash();
        let mut server = Command::new(std::env::current_exe().expect("a path"))
            .arg("--serve")
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a server");
        let mut line = String::new();
        BufReader::new(server.stdout.take().expect("piped")).read_line(&mut line).expect("a port");
        let port = line.trim().parse().expect("a port");
        Self { server, port, folder, authority: authority.der().clone(), manifest, hash, next: Arc::default() }
    }

    fn verifier(&self) -> Verifier {
        let door = Untrusted::builder(FixedClock(NOW))
            .resolver(OnePublicAddress)
            .connector(ToLoopback { port: self.port, next: Arc::clone(&self.next) })
            .authorities(vec![self.authority.clone()])
            .concurrency(Concurrency { total: 2 * IN_FLIGHT, host: 2 * IN_FLIGHT })
            .build()
            .expect("a door");
        Verifier::new(door, Arc::new(FixedClock(NOW)), "bench")
    }

    fn tool(&self, id: u32) -> Preloaded {
        Preloaded { id: U256::from(id), hash: self.hash }
    }

    /// Verifies `count` tools.
    async fn ours(&self, count: u32) {
        let verifier = self.verifier();
        let hash = self.hash;
        in_flight(count, move |id| {
            let verifier = verifier.clone();
            async move {
                let evidence =
                    verifier.gather(&Preloaded { id: U256::from(id + 1), hash }, Depth::Checks).await.expect("gathered");
                let report = judge(&evidence, &Policy::default(), NOW);
                assert!(report.is_usable(), "{:?}", report.findings);
            }
        })
        .await;
    }

    /// The unavoidable minimum: a handshake, a request, and reading the response.
    async fn bare(&self, count: u32) {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.clone()).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        let connector = TlsConnector::from(Arc::new(config));
        let (port, next, length) = (self.port, Arc::clone(&self.next), self.manifest.len());
        in_flight(count, move |_| {
            let (connector, next) = (connector.clone(), Arc::clone(&next));
            async move {
                let stream = TcpStream::connect((loopback(&next), port)).await.expect("connected");
                stream.set_nodelay(true).expect("set");
                let mut stream = connector.connect(ServerName::try_from(HOST).expect("a name"), stream).await.expect("secured");
                let request = format!("GET {PATH} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
                stream.write_all(request.as_bytes()).await.expect("sent");
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).await.expect("read");
                assert!(answer.len() > length);
            }
        })
        .await;
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Runs `count` tasks, [`IN_FLIGHT`] at a time.
async fn in_flight<F: Future<Output = ()> + Send + 'static>(count: u32, task: impl Fn(u32) -> F) {
    let mut tasks = JoinSet::new();
    for id in 0..count {
        if tasks.len() >= IN_FLIGHT {
            tasks.join_next().await.expect("one is there").expect("no panic");
        }
        tasks.spawn(task(id));
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic");
    }
}

/// A tool whose chain reads are preloaded.
struct Preloaded {
    id: U256,
    hash: B256,
}

impl ToolSource for Preloaded {
    fn tool(&self) -> ToolRef {
        ToolRef { chain: 8453, registry: Address::repeat_byte(0x26), id: self.id }
    }

    async fn config(&self) -> Result<ConfigRead, Error> {
        let config = ToolConfig {
            creator: CREATOR,
            metadata_uri: format!("https://{HOST}{PATH}"),
            manifest_hash: self.hash,
            access_predicate: None,
        };
        Ok(ConfigRead { block: 1, state: ToolState::Present(config) })
    }

    async fn details(&self, reads: ChainReads) -> Result<ChainReads, Error> {
        Ok(reads)
    }
}

#[derive(Debug)]
struct OnePublicAddress;

#[async_trait]
impl Resolve for OnePublicAddress {
    async fn resolve(&self, _host: &str) -> Result<Vec<IpAddr>, ResolveError> {
        Ok(vec![IpAddr::V4(Ipv4Addr::new(93, 184, 215, 14))])
    }
}

/// Connects every address to the server on loopback.
#[derive(Debug)]
struct ToLoopback {
    port: u16,
    next: Arc<AtomicU32>,
}

#[async_trait]
impl Connect for ToLoopback {
    async fn connect(&self, _address: SocketAddr) -> std::io::Result<TcpStream> {
        TcpStream::connect((loopback(&self.next), self.port)).await
    }
}

/// One of a quarter of a million loopback addresses, so that ports do not run out.
fn loopback(next: &AtomicU32) -> Ipv4Addr {
    let [_, a, b, c] = next.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    Ipv4Addr::new(127, 1 + (a & 3), b, c.max(1))
}

/// A Node.js process that does the same with its built-in modules.
struct Node {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Node {
    fn start(world: &World) -> Option<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench");
        if !folder.join("node_modules/canonicalize").is_dir() {
            toolcrib_testkit::skip("bench-packages", "Node is not measured: `npm install` has not run in bench/");
            return None;
        }
        let mut process = Command::new("node")
            .arg(folder.join("peers/fetch.mjs"))
            .arg(world.port.to_string())
            .arg(world.folder.join("ca.pem"))
            .arg(alloy_primitives::hex::encode(world.hash))
            .arg(IN_FLIGHT.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let (input, output) = (process.stdin.take()?, BufReader::new(process.stdout.take()?));
        Some(Self { process, input, output })
    }

    /// Returns CPU and wall time in microseconds, as measured by Node.js.
    fn run(&mut self, count: u32) -> (f64, f64) {
        writeln!(self.input, "{count}").expect("Node listens");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("Node answers");
        let mut numbers = line.split_whitespace().map(|number| number.parse::<f64>().expect("a number") / 1_000.0);
        (numbers.next().expect("CPU"), numbers.next().expect("wall"))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Serves the manifest until standard input ends.
fn serve(folder: &Path) {
    let read = |name: &str| std::fs::read(folder.join(name)).expect("readable");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::Pkcs8(read("leaf.key").into());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(read("leaf.der"))], key)
        .expect("a certificate");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let manifest = read("manifest.json");
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        manifest.len()
    );
    let answer: Arc<[u8]> = [head.into_bytes(), manifest].concat().into();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let (gone, mut is_gone) = tokio::sync::oneshot::channel();
    std::thread::spawn(|| {
        // The parent process holds the other end: exit when it does.
        let _ = std::io::stdin().read(&mut [0]);
        let _ = gone.send(());
    });
    runtime.block_on(async move {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await.expect("a port");
        println!("{}", listener.local_addr().expect("bound").port());
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = &mut is_gone => return,
            };
            let Ok((stream, _)) = accepted else { continue };
            let (acceptor, answer) = (acceptor.clone(), Arc::clone(&answer));
            tokio::spawn(async move {
                let _ = stream.set_nodelay(true);
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut request = [0; 2_048];
                let mut length = 0;
                while !request[..length].ends_with(b"\r\n\r\n") {
                    match stream.read(&mut request[length..]).await {
                        Ok(0) | Err(_) => return,
                        Ok(read) => length += read,
                    }
                }
                let _ = stream.write_all(&answer).await;
                let _ = stream.shutdown().await;
            });
        }
    });
}

/// A typical manifest: two schemas with a dozen fields, a price, tags; about 3 KiB.
fn typical() -> String {
    let field = |name: &str| {
        format!(
            r#""{name}": {{"type": "string", "description": "What the caller knows about {name}, in plain words.", "maxLength": 200}}"#
        )
    };
    let fields = |names: &[&str]| names.iter().map(|name| field(name)).collect::<Vec<_>>().join(",\n      ");
    format!(
        r#"{{
  "type": "{TYPE_V1}",
  "name": "bench",
  "description": "Looks up what is known about a place: weather, traffic and events, for the next few hours.",
  "endpoint": "https://{HOST}/bench",
  "creatorAddress": "{CREATOR:#x}",
  "tags": ["weather", "traffic", "events"],
  "inputs": {{
    "type": "object",
    "properties": {{
      {}
    }},
    "required": ["place"]
  }},
  "outputs": {{
    "type": "object",
    "properties": {{
      {}
    }}
  }},
  "pricing": [{{
    "amount": "20000",
    "asset": "eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913",
    "recipient": "eip155:8453:0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359",
    "protocol": "x402"
  }}]
}}
"#,
        fields(&["place", "country", "time", "language", "detail", "units", "purpose"]),
        fields(&["weather", "traffic", "events", "warnings", "sources", "confidence"]),
    )
}

/// Measures CPU and wall time of a closure in microseconds.
fn measure(run: impl FnOnce()) -> (f64, f64) {
    let (cpu_before, wall) = (cpu(), Instant::now());
    run();
    (micros(cpu() - cpu_before), micros(wall.elapsed()))
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// CPU time of this process so far.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Peak memory of this process in bytes.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok()).unwrap_or_default() << 10
}
