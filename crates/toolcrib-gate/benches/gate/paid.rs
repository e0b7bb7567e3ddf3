//! Paid calls from end to end, compared with `@x402/express`.
//!
//! A call carries a payment that was never used. The server verifies it, asks a facilitator over HTTP, forwards the call to an upstream
//! over HTTP, settles through the facilitator and responds with a receipt. Facilitator and upstream are [`doubles`](super::doubles), the
//! same for all servers. The 402 responses and the signatures are made before the measurement. Unlike express, Toolcrib keeps every payment
//! and result in a store, on disk before money moves.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use toolcrib_core::tool::ToolBuilder;
use toolcrib_devchain::accounts::dev_signers;
use toolcrib_fetch::{Concurrency, Configured, ConfiguredUrl, Headers, KeepAlive, Limits};
use toolcrib_gate::{Context, Facilitator, Gate, Rate, Rates, SystemClock, Tool, ToolError, Tools};
use toolcrib_store::replay::{Limits as StoreLimits, MemoryReplay, ReplayStore, SqlReplay};
use toolcrib_store::{Database, Location};
use toolcrib_x402::{Challenge, Method, ProbeAnswer, Version, read_answer};

use super::{BODY, Connection, Input, ORIGIN, Output, Round, input_ends, length, micros, pay, process_cpu};
use toolcrib_testkit::databases::{Backend, Server as Postgres, TestStore};

/// The price of a call: a tenth of a cent.
const PRICE: &str = "1000";
const USDC: &str = "eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913";

/// The promised factor of requests a second over express, and of CPU time saved.
const PROMISE: f64 = 8.0;

/// A factor of CPU time saved below which the benchmark fails, however busy the machine is. Calls a second depend on the disk and on other
/// load, so they are printed but not checked.
const TOO_LITTLE: f64 = 4.0;

pub(crate) fn compare(quick: bool) {
    let (ours, theirs, rounds) = if quick { (160, 64, 1) } else { (8_000, 1_600, 3) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let doubles = Running::start("doubles", &mut own("--doubles"), "").expect("the doubles start");
    let folder = tempfile::tempdir().expect("a folder");
    let mut servers = Vec::new();
    // Only one store, to profile it.
    let only = std::env::var("BENCH_ONLY").unwrap_or_default();
    let mut serve = |name: &'static str, store: &str| {
        if !name.contains(&only) {
            return;
        }
        let mut command = own("--serve-paid");
        command.env("BENCH_STORE", store).env("BENCH_DOUBLES", doubles.at.port().to_string());
        servers.push((Running::start(name, &mut command, "/word-count").expect("our server starts"), ours));
    };
    serve("ours, SQLite", &format!("sqlite:{}", folder.path().join("gate.db").display()));
    let place = runtime.block_on(TestStore::new(Backend::Postgres));
    match &place {
        Some(place) => serve("ours, PostgreSQL", &place.setting),
        None => println!("skipped: PostgreSQL is not installed"),
    }
    serve("ours, in memory", "memory");
    match express(&doubles) {
        Some(server) => servers.push((server, theirs)),
        None => println!("skipped: @x402/express is not installed"),
    }
    let loads = loads(quick);
    let mut results: Vec<Vec<Vec<Measured>>> = servers.iter().map(|_| loads.iter().map(|_| Vec::new()).collect()).collect();
    for _ in 0..=rounds {
        for (at, load) in loads.iter().enumerate() {
            for ((server, count), results) in servers.iter().zip(&mut results) {
                results[at].push(measure(&runtime, server, *count, *load, &doubles));
            }
        }
    }
    println!("paid calls, {rounds} rounds; the disk syncs {:.0} times a second:", disk(folder.path()));
    let results: Vec<(&str, Vec<Measured>)> =
        servers.iter().zip(results).map(|((server, _), loads)| (server.name, loads.into_iter().map(median).collect())).collect();
    for (at, load) in loads.iter().enumerate() {
        println!("over {load} connections:");
        for (name, measured) in &results {
            measured[at].print(name);
        }
        compare_with_express(results.iter().map(|(name, measured)| (*name, &measured[at])), quick);
    }
    if loads.len() > 1 {
        println!("each server over the connections with which it answers most calls:");
        compare_with_express(results.iter().filter_map(|(name, measured)| Some((*name, highest(measured)?))), quick);
    }
}

/// Returns the median round, without the first, which warms up.
fn median(mut rounds: Vec<Measured>) -> Measured {
    rounds.remove(0);
    rounds.sort_by(|a, b| a.round.per_second.total_cmp(&b.round.per_second));
    let middle = rounds.len() / 2;
    rounds.swap_remove(middle)
}

fn highest(measured: &[Measured]) -> Option<&Measured> {
    measured.iter().max_by(|a, b| a.round.per_second.total_cmp(&b.round.per_second))
}

/// Prints how many times the rate of express each Toolcrib server has, and how many times less CPU time it takes. Express is the last.
fn compare_with_express<'m>(measured: impl Iterator<Item = (&'static str, &'m Measured)>, quick: bool) {
    let mut lines: Vec<_> = measured.collect();
    let Some((_, express)) = lines.pop().filter(|(name, _)| name.starts_with('@')) else { return };
    for (name, ours) in lines {
        let faster = ours.round.per_second / express.round.per_second;
        let cheaper = express.round.cpu / ours.round.cpu;
        let kept = if faster >= PROMISE && cheaper >= PROMISE { "" } else { ": less than promised" };
        let connections = if ours.connections == express.connections {
            String::new()
        } else {
            format!(" ({} connections, express {})", ours.connections, express.connections)
        };
        println!(
            "  {name}{connections}: {faster:.1}x the paid calls a second of @x402/express, on {cheaper:.1}x less CPU each{kept}"
        );
        assert!(quick || cheaper >= TOO_LITTLE, "{PROMISE}x of @x402/express is the promise");
    }
}

/// Returns the numbers of connections under load: `BENCH_CONNECTIONS`, or as many as in the other parts, and more. Express has one thread
/// and gains nothing from more; Toolcrib waits for disk and database, and shares each wait among the concurrent calls.
fn loads(quick: bool) -> Vec<usize> {
    match std::env::var("BENCH_CONNECTIONS").ok().and_then(|text| text.parse().ok()) {
        Some(connections) => vec![connections],
        None if quick => vec![super::CONNECTIONS],
        None => vec![super::CONNECTIONS, 64, 128],
    }
}

struct Measured {
    round: Round,
    /// CPU time of PostgreSQL for each call, in microseconds.
    database: f64,
    /// CPU time of the doubles and of this process.
    others: f64,
    connections: usize,
}

impl Measured {
    fn print(&self, name: &str) {
        let Self { round, database, others, .. } = self;
        let database = if *database > 0.0 { format!(", PostgreSQL {database:.0} µs") } else { String::new() };
        println!(
            "  {name:18} {:6.0} a second, {:6.0} µs CPU a call{database}; p50 {:6.2} ms, p99 {:6.2} ms (doubles and load: {others:.0} µs)",
            round.per_second, round.cpu, round.p50, round.p99
        );
    }
}

/// Measures one round: makes the payments first, then measures.
fn measure(runtime: &tokio::runtime::Runtime, server: &Running, count: usize, load: usize, doubles: &Running) -> Measured {
    runtime.block_on(async {
        let challenge = server.challenge().await;
        let now = toolcrib_core::clock::Clock::now(&SystemClock);
        let each = count / load;
        let mut connections = Vec::new();
        for _ in 0..load {
            let requests: Vec<Vec<u8>> = (0..each).map(|_| server.request(&pay(&challenge, now))).collect();
            let stream = TcpStream::connect(server.at).await.expect("the server listens");
            stream.set_nodelay(true).expect("a socket");
            connections.push((stream, requests));
        }
        let others = || process_cpu(std::process::id()) + process_cpu(doubles.child.id());
        let before = (process_cpu(server.child.id()), postgres_cpu(), others());
        let began = Instant::now();
        let name = server.name;
        let tasks: Vec<_> = connections.into_iter().map(|(stream, requests)| tokio::spawn(run(name, stream, requests))).collect();
        let mut latencies = Vec::new();
        for task in tasks {
            latencies.extend(task.await.expect("no panic"));
        }
        let wall = began.elapsed();
        let done = latencies.len() as f64;
        let spent = |after: Duration, before: Duration| micros(after.saturating_sub(before)) / done;
        let database = if server.name.contains("PostgreSQL") { spent(postgres_cpu(), before.1) } else { 0.0 };
        let (cpu, others) = (spent(process_cpu(server.child.id()), before.0), spent(others(), before.2));
        latencies.sort();
        let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
        let round = Round { per_second: done / wall.as_secs_f64(), cpu, p50: at(0.5), p99: at(0.99) };
        Measured { round, database, others, connections: load }
    })
}

/// The start of a line of the head that every paid response has.
const RECEIPT: &[u8] = b"\r\npayment-response:";

/// Sends requests one after the other. Every response must be 200 with a receipt.
async fn run(name: &'static str, mut stream: TcpStream, requests: Vec<Vec<u8>>) -> Vec<Duration> {
    let mut latencies = Vec::with_capacity(requests.len());
    let mut buffer = Vec::with_capacity(16 * 1024);
    for request in requests {
        let began = Instant::now();
        stream.write_all(&request).await.expect("sent");
        buffer.clear();
        loop {
            let read = stream.read_buf(&mut buffer).await.expect("an answer");
            assert_ne!(read, 0, "{name} hung up");
            let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
            if buffer.len() >= end + 4 + length(&buffer[..end + 4]) {
                break;
            }
        }
        latencies.push(began.elapsed());
        let is_receipt = |window: &[u8]| window[0] == RECEIPT[0] && window.eq_ignore_ascii_case(RECEIPT);
        let is_paid = buffer.starts_with(b"HTTP/1.1 200") && buffer.windows(RECEIPT.len()).any(is_receipt);
        assert!(is_paid, "{name}: {}", String::from_utf8_lossy(&buffer));
    }
    latencies
}

/// Runs this program as another process.
fn own(argument: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg(argument);
    command
}

fn express(doubles: &Running) -> Option<Running> {
    let installed = toolcrib_testkit::interop()?;
    let mut command = Command::new("node");
    command.arg(toolcrib_testkit::repository().join("bench/gate/paid.mjs"));
    command.env("TOOLCRIB_INTEROP", &installed).env("DOUBLES_URL", format!("http://127.0.0.1:{}", doubles.at.port()));
    Some(Running::start("@x402/express 2.27", &mut command, "/paid").expect("an installed server starts"))
}

/// A process that serves on a port.
struct Running {
    name: &'static str,
    child: Child,
    _output: BufReader<ChildStdout>,
    at: SocketAddr,
    path: &'static str,
}

impl Running {
    fn start(name: &'static str, command: &mut Command, path: &'static str) -> Option<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        let mut output = BufReader::new(child.stdout.take()?);
        let mut line = String::new();
        let _ = output.read_line(&mut line);
        let Ok(port) = line.trim().parse::<u16>() else {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        };
        Some(Self { name, child, _output: output, at: SocketAddr::from(([127, 0, 0, 1], port)), path })
    }

    /// Returns the challenge for a caller without a payment.
    async fn challenge(&self) -> Challenge {
        let (status, headers, body) = Connection::open(self.at).await.send(self.path, None).await;
        let reading = read_answer(&ProbeAnswer { method: Method::Post, status, headers, body });
        let read = [reading.header, reading.body].into_iter().flatten().filter_map(|reading| reading.challenge);
        let challenge = read.into_iter().find(|challenge| challenge.version == Version::V2);
        challenge.unwrap_or_else(|| panic!("{}: no challenge in {status}", self.name))
    }

    fn request(&self, (version, payment): &(Version, String)) -> Vec<u8> {
        let (path, header, length) = (self.path, version.payment_header(), BODY.len());
        format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{header}: {payment}\r\n\r\n{BODY}"
        )
        .into_bytes()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// -------------------------------------------------------------------------------------------------------------- our server

/// Runs Toolcrib's server, as a process: the store and the doubles come from the environment.
pub(crate) fn serve() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let setting = |name: &str| std::env::var(name).expect("set by whoever started this");
        let base = format!("http://127.0.0.1:{}", setting("BENCH_DOUBLES"));
        // The limits of `toolcrib serve`.
        let store: Arc<dyn ReplayStore> = match Location::parse(&setting("BENCH_STORE")).expect("a location") {
            memory if memory.path().is_none() && !memory.is_shared() => Arc::new(MemoryReplay::new(StoreLimits::default())),
            location => {
                let database = Database::open(&location).await.expect("a database");
                Arc::new(SqlReplay::open(database, StoreLimits::on_disk()).await.expect("a store"))
            }
        };
        let settle = Facilitator::from_setting(&base).expect("a URL");
        let creator = dev_signers()[0].address();
        let builder = ToolBuilder::new("word-count", "Counts the words of a text.", &format!("{ORIGIN}/word-count"), creator);
        let builder = builder.inputs::<Input>().outputs::<Output>();
        let builder = builder.price(PRICE, USDC, &format!("eip155:8453:{creator:#x}"), "x402");
        let manifest = builder.build().expect("a manifest without errors").manifest;
        let endless = Rate::new(u32::MAX, f64::from(u32::MAX));
        let rates = Rates { per_address: None, per_account: endless, global: endless };
        let upstream = Upstream::new(&base);
        let handler = move |input, context| upstream.clone().call(input, context);
        let tool = Tool::new(manifest).gate(Gate::paid(settle)).handler(handler);
        let server = Tools::new(ORIGIN).rates(rates).tool(tool).shared_store(store).build().expect("sound settings");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        println!("{}", listener.local_addr().expect("bound").port());
        server.serve(listener, input_ends()).await.expect("served");
    });
}

/// Forwards a call as `toolcrib serve --upstream` does.
#[derive(Clone)]
struct Upstream {
    client: Configured,
    url: ConfiguredUrl,
}

impl Upstream {
    fn new(base: &str) -> Self {
        // The default of `toolcrib serve --at-once`.
        let concurrency = Concurrency { total: 32, host: 32 };
        let client = Configured::builder(SystemClock).concurrency(concurrency).keep_alive(KeepAlive::matching(concurrency));
        let client = client.build().expect("a client");
        Self { client, url: ConfiguredUrl::from_setting(&format!("{base}/count")).expect("a URL") }
    }

    async fn call(self, input: Value, context: Context) -> Result<Value, ToolError> {
        let headers = Headers::new().with("content-type", "application/json")?.with("x-tool-slug", context.slug())?;
        let exchange = self.client.post(&self.url, &headers, input.to_string().as_bytes(), Limits::MANIFEST).await;
        let response = exchange.complete().ok_or_else(|| ToolError::internal("the upstream did not answer"))?;
        serde_json::from_slice(response.body.as_bytes()).map_err(|error| ToolError::internal(error.to_string()))
    }
}

// ----------------------------------------------------------------------------------------------------------------- numbers

/// Returns the CPU time of this benchmark's PostgreSQL server, with all its processes; 0 if there is none.
fn postgres_cpu() -> Duration {
    let Some(main) = Postgres::running().and_then(Postgres::process) else { return Duration::ZERO };
    let mut spent = Duration::ZERO;
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let text = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = text.rsplit(')').next().unwrap_or("").split_whitespace().nth(1).map(str::to_owned);
        if parent.as_deref() == Some(&main) || name.to_str() == Some(&main) {
            spent += process_cpu(id);
        }
    }
    spent
}

/// Measures small writes a second, each synced to the disk before the next.
fn disk(folder: &std::path::Path) -> f64 {
    use std::io::Write as _;
    let mut file = std::fs::File::create(folder.join("sync")).expect("a file");
    let (began, mut writes) = (Instant::now(), 0_u32);
    while began.elapsed() < Duration::from_millis(300) {
        file.write_all(&[7; 4096]).expect("written");
        file.sync_data().expect("on the disk");
        writes += 1;
    }
    f64::from(writes) / began.elapsed().as_secs_f64()
}
