//! The cost of a gate, compared with its unavoidable parts and with stock middleware.
//!
//! - a call through the gate, compared with the same call to the same route without one, and with one signature recovery: the CPU time that
//!   identity adds with the store in memory, with SQLite, and with a predicate that is called over RPC;
//! - requests a second and CPU time for each request over real connections, compared with `@x402/express` and `x402-express`, which verify
//!   the same payments in their own process;
//! - memory while a million signatures arrive and expire;
//! - paid calls from end to end, on each store, compared with `@x402/express` ([`paid`]).
//!
//! Every server is a process of its own. Rounds alternate, and the median counts. `cargo bench -p toolcrib-gate` measures; with `--
//! --quick` it only checks that everything runs and agrees, with `-- --paid` only the last part runs. The other servers run if
//! `interop/setup` has installed them.
#![expect(clippy::print_stdout, reason = "the result of a benchmark is what it prints")]

use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use alloy_primitives::{B256, U256, keccak256};
use alloy_signer::SignerSync;
use alloy_signer_local::PrivateKeySigner;
use alloy_sol_types::SolValue as _;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use toolcrib_chain::deploy::{self, with_our_contracts};
use toolcrib_chain::network::Network;
use toolcrib_chain::predicate::{Erc20Gate, Erc20Predicate};
use toolcrib_chain::registry::Registry;
use toolcrib_chain::rpc::{Chain, ChainConfig};
use toolcrib_chain::sign::{Domain, StrictSignature, TransferAuthorization, TransferKind};
use toolcrib_chain::wallet::LocalWallet;
use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_core::tool::ToolBuilder;
use toolcrib_devchain::Devchain;
use toolcrib_devchain::accounts::dev_signers;
use toolcrib_gate::{Context, Gate, Rate, Rates, Server, SystemClock, Tool, ToolError, Tools};
use toolcrib_store::replay::{Limits, MemoryReplay, ReplayStore, SqlReplay};
use toolcrib_store::{Database, Location};
use toolcrib_testkit::clock::MovingClock;
use toolcrib_x402::{Authorization, Challenge, Method, Payment, ProbeAnswer, Signature, Version, header, read_answer};
use tower::ServiceExt as _;

mod doubles;
mod paid;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ORIGIN: &str = "https://tools.example.com";
const BODY: &str = r#"{"text":"the quick brown fox jumps over the lazy dog"}"#;
/// Connections under load.
const CONNECTIONS: usize = 16;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let is_given = |name: &str| arguments.iter().any(|argument| argument == name);
    // This program is also run as the benchmark's other processes.
    for (name, process) in [("--serve", serve as fn()), ("--serve-paid", paid::serve), ("--doubles", doubles::serve)] {
        if is_given(name) {
            process();
            return;
        }
    }
    let quick = is_given("--quick");
    if !is_given("--paid") {
        cost(quick);
        load(quick);
        flat(quick);
    }
    paid::compare(quick);
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Input {
    text: String,
}

#[derive(Serialize, schemars::JsonSchema)]
struct Output {
    words: usize,
}

fn tools(gate: impl Into<Gate>) -> Tools {
    let creator = dev_signers()[0].address();
    let builder = ToolBuilder::new("word-count", "Counts the words of a text.", &format!("{ORIGIN}/word-count"), creator);
    let manifest = builder.inputs::<Input>().outputs::<Output>().build().expect("a manifest without errors").manifest;
    let handler = async |input: Input, _: Context| Ok::<_, ToolError>(Output { words: input.text.split_whitespace().count() });
    // The gate is measured, not its rate limits.
    let endless = Rate::new(u32::MAX, f64::from(u32::MAX));
    let rates = Rates { per_address: None, per_account: endless, global: endless };
    Tools::new(ORIGIN).rates(rates).tool(Tool::new(manifest).gate(gate).handler(handler))
}

fn memory() -> MemoryReplay {
    MemoryReplay::new(Limits { entries: 4_000_000, ..Limits::default() })
}

/// Measures the CPU time that a gate adds to a call, in process: no sockets, one thread.
fn cost(quick: bool) {
    let (calls, rounds) = if quick { (20, 1) } else { (4_000, 7) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    // The chain runs in threads of its own, so that only the requests to it count.
    let chain = std::thread::scope(|scope| scope.spawn(chain).join().expect("a chain"));
    let (routes, challenges): (Vec<_>, Vec<_>) = runtime.block_on(async {
        let database = Database::open(&Location::file(folder.path().join("replay.db"))).await.expect("a database");
        let durable = SqlReplay::open(database, Limits::default()).await.expect("a store");
        let predicate = Gate::predicate(chain.registry.clone(), chain.tool);
        let servers = [
            ("open", tools(Gate::Open)),
            ("identity, memory", tools(Gate::identity()).store(memory())),
            ("identity, SQLite", tools(Gate::identity()).store(durable)),
            ("predicate, memory", tools(predicate).store(memory())),
        ];
        let mut all = (Vec::new(), Vec::new());
        for (name, tools) in servers {
            let router = tools.build().expect("sound settings").router();
            let challenge = challenge_of(&router).await;
            all.0.push((name, router));
            all.1.push(challenge);
        }
        all
    });
    let mut spent = vec![Vec::new(); routes.len()];
    let mut recoveries = Vec::new();
    for _ in 0..=rounds {
        recoveries.push(recovery(calls));
        for (at, (_, router)) in routes.iter().enumerate() {
            let requests: Vec<_> = (0..calls).map(|_| request(challenges[at].as_ref())).collect();
            let before = thread_cpu();
            runtime.block_on(async {
                for request in requests {
                    let response = router.clone().oneshot(request).await.expect("an answer");
                    assert_eq!(response.status(), 200, "{response:?}");
                }
            });
            spent[at].push(micros(thread_cpu() - before) / calls as f64);
        }
    }
    // The first round warms up.
    let recovery = median(&mut recoveries[1..]);
    let medians: Vec<f64> = spent.iter_mut().map(|rounds| median(&mut rounds[1..])).collect();
    println!("one signature recovery: {recovery:.1} µs CPU; {calls} calls a round, {rounds} rounds, one thread:");
    for ((name, _), micros) in routes.iter().zip(&medians) {
        let added = micros - medians[0];
        println!(
            "  {name:18} {micros:6.1} µs CPU a call, {added:6.1} µs more than open = {:.2}x of a recovery",
            added / recovery
        );
    }
    if !quick {
        let ratio = (medians[1] - medians[0]) / recovery;
        assert!(ratio <= 1.5, "identity adds {ratio:.2}x of a recovery; 1.5x is the promise");
    }
}

/// Measures requests a second over connections, each payment used once.
fn load(quick: bool) {
    let (ours, theirs, rounds) = if quick { (64, 32, 1) } else { (20_000, 2_000, 3) };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let mut servers = vec![(Running::ours(), ours)];
    for (name, script, version) in
        [("@x402/express 2.27", "server-v2.mjs", Version::V2), ("x402-express 1.2", "server-v1.mjs", Version::V1)]
    {
        match Running::peer(name, script, version) {
            Some(server) => servers.push((server, theirs)),
            None => println!("skipped: {name} is not installed"),
        }
    }
    let mut results: Vec<Vec<Round>> = servers.iter().map(|_| Vec::new()).collect();
    for _ in 0..=rounds {
        for (at, (server, count)) in servers.iter().enumerate() {
            results[at].push(runtime.block_on(server.load(*count)));
        }
    }
    println!("identity over {CONNECTIONS} connections, {rounds} rounds:");
    let mut lines = Vec::new();
    for ((server, _), rounds) in servers.iter().zip(&mut results) {
        let rounds = &mut rounds[1..];
        rounds.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
        let middle = &rounds[rounds.len() / 2];
        println!(
            "  {:20} {:7.0} a second, {:6.0} µs CPU a request, p50 {:6.2} ms, p99 {:6.2} ms",
            server.name, middle.per_second, middle.cpu, middle.p50, middle.p99
        );
        lines.push((server.name, middle.per_second, middle.cpu));
    }
    for (name, per_second, cpu) in &lines[1..] {
        let (rate, work) = (lines[0].1 / per_second, cpu / lines[0].2);
        println!("  {rate:.1}x the requests a second of {name}, on {work:.1}x less CPU each");
        assert!(quick || rate >= 8.0, "8x of {name} is the promise");
    }
}

/// Measures memory while signatures arrive and expire.
fn flat(quick: bool) {
    let total: u64 = if quick { 2_000 } else { 1_000_000 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let clock = MovingClock::at(SystemClock.now());
    let store = Arc::new(memory());
    let router = tools(Gate::identity()).shared_store(store.clone()).clock(clock.clone()).build().expect("sound").router();
    runtime.block_on(async {
        let challenge = challenge_of(&router).await.expect("a challenge");
        let (mut early, mut most) = (0, 0);
        for at in 0..total {
            // A thousand calls a second.
            if at % 1_000 == 0 {
                clock.advance(1);
                tokio::task::yield_now().await;
            }
            let payment = pay(&challenge, clock.now());
            let response = router.clone().oneshot(request_with(payment)).await.expect("an answer");
            assert_eq!(response.status(), 200);
            if at == total / 2 {
                early = resident();
            }
            if at % 50_000 == 0 {
                most = most.max(store.counts().await.expect("counts").entries());
            }
        }
        let (late, kept) = (resident(), store.counts().await.expect("counts").entries());
        println!(
            "{total} signatures at a thousand a second: {} MiB resident half-way, {} MiB at the end; {kept} remembered, {most} at most",
            early >> 20,
            late >> 20
        );
        assert!(quick || late < early + (early / 5), "memory grows");
    });
}

// ---------------------------------------------------------------------------------------------------------------- payments

/// The caller of all benchmarks.
fn signer() -> &'static PrivateKeySigner {
    &dev_signers()[1]
}

/// A header that answers a challenge, with a nonce that was never used.
fn pay(challenge: &Challenge, now: UnixTime) -> (Version, String) {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let offer = &challenge.accepts[0];
    let token = offer.token().expect("a token of the table");
    let nonce =
        keccak256([std::process::id().to_be_bytes().as_slice(), &COUNT.fetch_add(1, Ordering::Relaxed).to_be_bytes()].concat());
    let authorization = Authorization {
        from: signer().address(),
        to: offer.pay_to.evm_address().expect("an account"),
        value: offer.amount,
        valid_after: 0,
        valid_before: now.seconds().unsigned_abs() + 250,
        nonce,
    };
    let domain = Domain::new(token.name, token.version, U256::from(token.chain), token.address);
    let digest = TransferAuthorization::from(&authorization).digest(TransferKind::Transfer, &domain);
    let signature = Signature::new(signer().sign_hash_sync(&digest).expect("a key signs").as_bytes().to_vec()).expect("65 bytes");
    let (resource, extensions) = (challenge.resource.clone(), challenge.extensions.clone());
    let payment = Payment::new(challenge.version, offer, authorization, signature, resource, extensions);
    (challenge.version, payment.to_header().expect("a header"))
}

fn request(challenge: Option<&Challenge>) -> Request<Body> {
    match challenge {
        Some(challenge) => request_with(pay(challenge, SystemClock.now())),
        None => {
            Request::post("/word-count").header("content-type", "application/json").body(Body::from(BODY)).expect("a request")
        }
    }
}

fn request_with((version, value): (Version, String)) -> Request<Body> {
    let request = Request::post("/word-count").header("content-type", "application/json");
    request.header(version.payment_header(), value).body(Body::from(BODY)).expect("a request")
}

/// Returns the challenge of version 2; `None` if the server asks for nothing.
async fn challenge_of(router: &Router) -> Option<Challenge> {
    let response = router.clone().oneshot(request(None)).await.expect("an answer");
    let value = response.headers().get(header::PAYMENT_REQUIRED)?.to_str().expect("text");
    toolcrib_x402::read_header(value).challenge
}

/// Returns the CPU time of hashing and recovering, which every verification of a payment needs.
fn recovery(count: usize) -> f64 {
    let digests: Vec<B256> = (0..count).map(|at| keccak256(at.to_be_bytes())).collect();
    let signed: Vec<_> = digests
        .iter()
        .map(|digest| StrictSignature::from_slice(&signer().sign_hash_sync(digest).expect("signed").as_bytes()).expect("strict"))
        .collect();
    let before = thread_cpu();
    for (digest, signature) in digests.iter().zip(&signed) {
        black_box(signature.recover(*digest)).expect("recovered");
    }
    micros(thread_cpu() - before) / count as f64
}

// ------------------------------------------------------------------------------------------------------------------- chain

struct World {
    registry: Registry,
    tool: U256,
    /// Keeps the chain running.
    _runtime: Arc<tokio::runtime::Runtime>,
    _devchain: Arc<Devchain>,
}

/// Returns a chain with a tool whose predicate requires a token; the caller has one.
fn chain() -> World {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let (devchain, registry, tool) = runtime.block_on(async {
        let devchain = Devchain::builder(SystemClock).spawn().await.expect("a chain");
        let network = with_our_contracts(Network::find("local").expect("built in"));
        let config = ChainConfig::from_setting(&network, Some(&devchain.http_url())).expect("a node");
        let chain = Chain::connect(config).await.expect("the node answers");
        let wallet = LocalWallet::development(0).expect("a key");
        deploy::deploy(&chain, &wallet, |_, _| {}).await.expect("contracts");
        deploy::deploy_test_assets(&chain, &wallet).await.expect("assets");
        let registry = Registry::new(chain.clone(), network.registry.expect("deployed"));
        let call = registry.register(
            &format!("{ORIGIN}/.well-known/ai-tool/word-count.json"),
            B256::repeat_byte(1),
            network.predicates.erc20,
        );
        chain.send(&wallet, &call, Duration::from_secs(30)).await.expect("registered");
        let tool = registry.tool_count().await.expect("a count");
        let predicate = Erc20Predicate::new(chain.clone(), network.predicates.erc20.expect("deployed"));
        let usdc = toolcrib_x402::asset::usdc(31_337).expect("listed").address;
        chain
            .send(
                &wallet,
                &predicate.set_gate(tool, Erc20Gate { token: usdc, min_balance: U256::from(1) }),
                Duration::from_secs(30),
            )
            .await
            .expect("configured");
        let mint = [&keccak256("mint(address,uint256)")[..4], &(signer().address(), U256::from(10)).abi_encode()];
        let mint = toolcrib_chain::transaction::Call { to: usdc, data: mint.concat().into(), value: U256::ZERO };
        chain.send(&wallet, &mint, Duration::from_secs(30)).await.expect("minted");
        (devchain, registry, tool)
    });
    World { registry, tool, _runtime: Arc::new(runtime), _devchain: Arc::new(devchain) }
}

// ----------------------------------------------------------------------------------------------------------------- servers

/// Runs Toolcrib's server, as a process.
fn serve() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let server: Server = tools(Gate::identity()).store(memory()).build().expect("sound settings");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        println!("{}", listener.local_addr().expect("bound").port());
        server.serve(listener, input_ends()).await.expect("served");
    });
}

/// Returns when the parent process closes standard input.
async fn input_ends() {
    let (sender, closed) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().lines().count();
        let _ = sender.send(());
    });
    let _ = closed.await;
}

struct Running {
    name: &'static str,
    child: Child,
    _output: BufReader<ChildStdout>,
    at: SocketAddr,
    path: &'static str,
    version: Version,
}

struct Round {
    per_second: f64,
    cpu: f64,
    p50: f64,
    p99: f64,
}

impl Running {
    fn ours() -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.arg("--serve");
        Self::start("toolcrib-gate", command, "/word-count", Version::V2).expect("our server starts")
    }

    fn peer(name: &'static str, script: &str, version: Version) -> Option<Self> {
        let installed = toolcrib_testkit::interop()?;
        let folder = installed.join("../bench/gate");
        let mut command = Command::new("node");
        command.arg(folder.join(script)).env("TOOLCRIB_INTEROP", &installed);
        Some(Self::start(name, command, "/free", version).expect("an installed server starts"))
    }

    fn start(name: &'static str, mut command: Command, path: &'static str, version: Version) -> Option<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
        let mut output = BufReader::new(child.stdout.take()?);
        let mut line = String::new();
        let _ = output.read_line(&mut line);
        let Ok(port) = line.trim().parse::<u16>() else {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        };
        Some(Self { name, child, _output: output, at: SocketAddr::from(([127, 0, 0, 1], port)), path, version })
    }

    async fn load(&self, count: usize) -> Round {
        let mut first = Connection::open(self.at).await;
        let (status, headers, body) = first.send(self.path, None).await;
        let answer = ProbeAnswer { method: Method::Post, status, headers, body };
        let reading = read_answer(&answer);
        let read = [&reading.body, &reading.header].into_iter().flatten().filter_map(|reading| reading.challenge.as_ref());
        let challenge = read.into_iter().find(|challenge| challenge.version == self.version);
        let challenge =
            challenge.unwrap_or_else(|| panic!("{}: no challenge in {status}: {:?}", self.name, reading.all_findings()));
        // Signing is the caller's work, so it is done before the measurement.
        let now = SystemClock.now();
        let each = count / CONNECTIONS;
        let mut payments: Vec<Vec<_>> = (0..CONNECTIONS).map(|_| (0..each).map(|_| pay(challenge, now)).collect()).collect();
        let mut connections = vec![first];
        for _ in 1..CONNECTIONS {
            connections.push(Connection::open(self.at).await);
        }
        let (cpu, began) = (process_cpu(self.child.id()), Instant::now());
        let tasks: Vec<_> = connections
            .into_iter()
            .map(|mut connection| {
                let (payments, path, name) = (payments.pop().expect("as many"), self.path, self.name);
                tokio::spawn(async move {
                    let mut latencies = Vec::with_capacity(payments.len());
                    for payment in payments {
                        let began = Instant::now();
                        let (status, _, body) = connection.send(path, Some(&payment)).await;
                        assert_eq!(status, 200, "{name}: {}", String::from_utf8_lossy(&body));
                        latencies.push(began.elapsed());
                    }
                    latencies
                })
            })
            .collect();
        let mut latencies = Vec::new();
        for task in tasks {
            latencies.extend(task.await.expect("no panic"));
        }
        let (wall, cpu) = (began.elapsed(), process_cpu(self.child.id()) - cpu);
        latencies.sort();
        let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
        let done = latencies.len() as f64;
        Round { per_second: done / wall.as_secs_f64(), cpu: micros(cpu) / done, p50: at(0.5), p99: at(0.99) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Status, headers and body.
type Answer = (u16, Vec<(String, String)>, Vec<u8>);

/// A connection that is kept alive.
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(at: SocketAddr) -> Self {
        let stream = TcpStream::connect(at).await.expect("the server listens");
        stream.set_nodelay(true).expect("a socket");
        Self { stream, buffer: Vec::new() }
    }

    async fn send(&mut self, path: &str, payment: Option<&(Version, String)>) -> Answer {
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            BODY.len()
        );
        if let Some((version, value)) = payment {
            request.push_str(&format!("{}: {value}\r\n", version.payment_header()));
        }
        request.push_str("\r\n");
        request.push_str(BODY);
        self.stream.write_all(request.as_bytes()).await.expect("sent");
        loop {
            if let Some(answer) = self.take() {
                return answer;
            }
            let read = self.stream.read_buf(&mut self.buffer).await.expect("an answer");
            assert_ne!(read, 0, "the server hung up");
        }
    }

    /// Returns a complete response, if there is one. Servers here always send a length.
    fn take(&mut self) -> Option<Answer> {
        let end = self.buffer.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = String::from_utf8(self.buffer[..end].to_vec()).expect("text");
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status").parse().expect("a number");
        let headers: Vec<_> =
            lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let length = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        let length: usize = length.map_or(0, |(_, value)| value.parse().expect("a length"));
        if self.buffer.len() < end + 4 + length {
            return None;
        }
        let body = self.buffer[end + 4..end + 4 + length].to_vec();
        self.buffer.drain(..end + 4 + length);
        Some((status, headers, body))
    }
}

/// Returns the length of the body that a head announces; 0 if it announces none.
fn length(head: &[u8]) -> usize {
    const NAME: &[u8] = b"\r\ncontent-length:";
    let at = head.windows(NAME.len()).position(|window| window[0] == NAME[0] && window.eq_ignore_ascii_case(NAME));
    let digits = at.and_then(|at| head[at + NAME.len()..].split(|byte| *byte == b'\r').next());
    digits.and_then(|digits| std::str::from_utf8(digits).ok()?.trim().parse().ok()).unwrap_or(0)
}

// ----------------------------------------------------------------------------------------------------------------- numbers

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// CPU time of this thread: neither the chain nor the store's own threads count.
fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// CPU time of another process, in hundredths of a second.
fn process_cpu(id: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let fields: Vec<u64> =
        text.rsplit(')').next().unwrap_or("").split_whitespace().map(|word| word.parse().unwrap_or(0)).collect();
    Duration::from_millis(10 * (fields.get(11).unwrap_or(&0) + fields.get(12).unwrap_or(&0)))
}

/// Memory of this process that is in use.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0) * 4096
}
