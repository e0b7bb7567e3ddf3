//! A chain, a server of tools, and the processes of a deployment: the real program, started as documented.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use alloy_primitives::{B256, U256};
use serde_json::{Value as Json, json};
use tokio::runtime::Runtime;
use toolcrib_chain::deploy;
use toolcrib_chain::network::Network;
use toolcrib_chain::registry::Registry;
use toolcrib_chain::rpc::{Chain, ChainConfig, NodeUrl};
use toolcrib_chain::transaction::Call;
use toolcrib_chain::wallet::{DEV_ACCOUNTS, LocalWallet};
use toolcrib_core::finding::Mode;
use toolcrib_core::tool::{TYPE_V1, ToolManifest};
use toolcrib_devchain::Devchain;
use toolcrib_fetch::SystemClock;
use toolcrib_index::Index;
use toolcrib_store::{Database, Location};
use toolcrib_x402::header;

use crate::Sandbox;
use toolcrib_testkit::databases::TestStore;
use toolcrib_testkit::servers::{Authority, Request, Script, Server, Step, answer, ok};

/// Response time of the tool server, so that a killed worker has leased jobs.
const SERVER_TIME: Duration = Duration::from_millis(800);

/// The state of the chain, which the index must match in the end.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) uri: String,
    pub(super) hash: B256,
    pub(super) is_good: bool,
    pub(super) is_removed: bool,
    pub(super) events: u64,
}

/// A chain with our contracts, a server for all tools, and a database.
pub(super) struct Stage {
    pub(super) sandbox: Sandbox,
    pub(super) runtime: Runtime,
    pub(super) devchain: Devchain,
    pub(super) registry: Registry,
    /// The database URL for other processes.
    pub(super) setting: String,
    pub(super) index: Index,
    pub(super) told: Mutex<Vec<Told>>,
    port: u16,
    node: String,
    _server: Server,
    _place: TestStore,
}

/// The host of a tool. Each has a separate origin, since an origin gets one request at a time.
fn host(id: u64) -> String {
    format!("t{id}.tool.localhost")
}

fn manifest(host: &str, port: u16, version: &str) -> Vec<u8> {
    let document = json!({
        "type": TYPE_V1,
        "name": format!("count-{}", host.split('.').next().unwrap_or_default()),
        "description": format!("Counts the words of a text, edition {version}."),
        "endpoint": format!("https://{host}:{port}/count"),
        "inputs": { "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] },
        "outputs": { "type": "object", "properties": { "words": { "type": "integer" } } },
        "creatorAddress": format!("{:#x}", DEV_ACCOUNTS[0]),
    });
    document.to_string().into_bytes()
}

fn hash_of(bytes: &[u8]) -> B256 {
    ToolManifest::parse(bytes, Mode::Consumer).canonical().expect("a manifest").hash()
}

/// Serves `…/<edition>.json` for every host, and nothing under `missing`.
fn respond(request: &Request) -> Vec<u8> {
    let version = request.path().strip_prefix("/.well-known/ai-tool/").and_then(|name| name.strip_suffix(".json"));
    let host = request.header("host").and_then(|host| host.split_once(':'));
    match (version, host) {
        (Some(version), Some((host, port))) if version != "missing" => ok(manifest(host, port.parse().expect("a port"), version)),
        _ => answer("404 Not Found", "", b""),
    }
}

impl Stage {
    pub(super) fn start(runtime: Runtime, place: TestStore) -> Self {
        let sandbox = Sandbox::new();
        let authority = Authority::new("a development world");
        let pem = format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", header::encode(&authority.der()));
        sandbox.write("ca.pem", pem);
        let (devchain, registry, server, index) = runtime.block_on(async {
            let steps = vec![Step::ReadRequest, Step::Sleep(SERVER_TIME), Step::answer(respond)];
            let server = Server::start(Script::tls(&authority.leaf(&["*.tool.localhost"]), steps)).await;
            let devchain = Devchain::builder(SystemClock).spawn().await.expect("a chain");
            let node = NodeUrl::parse(&devchain.http_url()).expect("a URL");
            let config = ChainConfig::new(Network::find("local").expect("listed"), vec![node]).expect("a node");
            let chain = Chain::connect(config).await.expect("an answer");
            let wallet = LocalWallet::development(0).expect("a development account");
            deploy::deploy(&chain, &wallet, |_, _| {}).await.expect("deployed");
            let network = deploy::with_our_contracts(chain.network());
            let registry = Registry::new(chain, network.registry.expect("ours"));
            let index = Index::open(place.database().await).await.expect("an index");
            (devchain, registry, server, index)
        });
        let (port, node, setting) = (server.address.port(), devchain.http_url(), place.setting.clone());
        let told = Mutex::default();
        Self { sandbox, runtime, devchain, registry, setting, index, told, port, node, _server: server, _place: place }
    }

    fn send(&self, call: &Call) {
        let request = json!([{ "from": DEV_ACCOUNTS[0], "to": call.to, "data": call.data, "gas": "0xf0000" }]);
        let hash: B256 =
            serde_json::from_value(self.devchain.request("eth_sendTransaction", request).expect("sent")).expect("a hash");
        assert!(self.devchain.receipt(hash).expect("mined at once").status(), "the transaction failed");
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Vec<Told>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the next tool. Of ten, one has no manifest, and one a wrong hash.
    pub(super) fn register(&self) {
        let id = self.told().len() as u64 + 1;
        let version = if id % 10 == 7 { "missing" } else { "one" };
        let uri = format!("https://{}:{}/.well-known/ai-tool/{version}.json", host(id), self.port);
        let hash = if id % 10 == 3 { B256::repeat_byte(3) } else { hash_of(&manifest(&host(id), self.port, "one")) };
        self.send(&self.registry.register(&uri, hash, None));
        self.told().push(Told { uri, hash, is_good: !matches!(id % 10, 3 | 7), is_removed: false, events: 1 });
    }

    /// Gives a tool a new, valid manifest.
    pub(super) fn update(&self, id: u64) {
        let uri = format!("https://{}:{}/.well-known/ai-tool/two.json", host(id), self.port);
        let hash = hash_of(&manifest(&host(id), self.port, "two"));
        self.send(&self.registry.update(U256::from(id), &uri, hash));
        let told = &mut self.told()[id as usize - 1];
        (told.uri, told.hash, told.is_good, told.events) = (uri, hash, true, told.events + 1);
    }

    /// Removes a tool.
    pub(super) fn deregister(&self, id: u64) {
        self.send(&self.registry.deregister(U256::from(id)));
        let told = &mut self.told()[id as usize - 1];
        (told.is_removed, told.is_good, told.events) = (true, false, told.events + 1);
    }

    /// Every event of the registry on the chain: block, log index, and tool.
    pub(super) fn chain_events(&self) -> Vec<(i64, i64, U256)> {
        let filter = json!([{ "fromBlock": "0x0", "toBlock": "latest", "address": self.registry.address() }]);
        let logs = self.devchain.request("eth_getLogs", filter).expect("logs");
        let number = |value: &Json| value.as_str().and_then(|text| text.parse::<U256>().ok()).expect("a number");
        let logs = logs.as_array().expect("a list").iter();
        logs.map(|log| (number(&log["blockNumber"]).to(), number(&log["logIndex"]).to(), number(&log["topics"][1]))).collect()
    }

    /// Queries one number from the database.
    pub(super) fn number(&self, sql: &'static str) -> i64 {
        let row = self.runtime.block_on(self.index.database().fetch_optional(sql, &[])).expect("read").expect("a row");
        row.scalar::<i64>().expect("a number")
    }

    pub(super) fn execute(&self, sql: &'static str) -> u64 {
        self.runtime.block_on(self.index.database().execute(sql, &[])).expect("done")
    }

    pub(super) fn rows(&self, sql: &'static str) -> Vec<toolcrib_store::database::Row> {
        self.runtime.block_on(self.index.database().fetch(sql, &[])).expect("rows")
    }

    /// Starts a process under a name, which is also its PostgreSQL application name. It is ready when this returns.
    pub(super) fn process(&self, name: &'static str, arguments: &[&str]) -> Process {
        self.process_with(name, arguments, &[])
    }

    /// The same with variables in its environment.
    pub(super) fn process_with(&self, name: &'static str, arguments: &[&str], variables: &[(&str, &str)]) -> Process {
        let chain = ["--network", "local", "--rpc-url", &self.node, "--dev-ca", "ca.pem", "--json"];
        let mut command = self.sandbox.command(&[arguments, &chain].concat());
        let mut setting = self.setting.clone();
        if setting.starts_with("postgres") {
            setting += &format!("%20-c%20test.who%3D{name}");
        }
        let log = fs::File::create(self.sandbox.path().join(format!("{name}.log"))).expect("a file");
        command.envs(variables.iter().copied());
        let mut child = command.env("TOOLCRIB_INDEX", setting).stderr(log).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        let said = || fs::read_to_string(self.sandbox.path().join(format!("{name}.log"))).unwrap_or_default();
        let event: Json = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{name}: {error}: {line} {}", said()));
        assert_eq!(event["event"], "ready", "{name}: {event} {}", said());
        // Its output is drained, so that it never blocks.
        thread::spawn(move || io::copy(&mut out, &mut io::sink()));
        Process { name, child }
    }

    /// The log of a process.
    pub(super) fn log(&self, name: &str) -> String {
        fs::read_to_string(self.sandbox.path().join(format!("{name}.log"))).expect("a log")
    }

    /// How many tools must be listed as verified.
    pub(super) fn good(&self) -> usize {
        self.told().iter().filter(|told| told.is_good).count()
    }

    /// Waits for a condition, with a time limit.
    #[track_caller]
    pub(super) fn wait(&self, what: &str, most: Duration, mut is_there: impl FnMut() -> bool) -> Duration {
        let begun = Instant::now();
        while !is_there() {
            assert!(begun.elapsed() < most, "{what}: not after {most:?}; {}", self.state());
            thread::sleep(Duration::from_millis(50));
        }
        begun.elapsed()
    }

    /// A summary of the state for failure messages.
    fn state(&self) -> String {
        let listings = self.number("SELECT COUNT(*) FROM index_listing");
        let events = self.number("SELECT COUNT(*) FROM index_event");
        let leased = self.number("SELECT COUNT(*) FROM index_job WHERE lease IS NOT NULL");
        let mut text = format!("{events} events, {listings} listings, {leased} leases");
        for entry in fs::read_dir(self.sandbox.path()).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "log") {
                let log = fs::read_to_string(entry.path()).unwrap_or_default();
                let end: Vec<_> = log.lines().rev().take(5).collect();
                text += &format!("\n{}: {}", entry.path().display(), end.join(" / "));
            }
        }
        text
    }

    /// Opens the database again, like a new process.
    pub(super) fn location(&self) -> Location {
        Location::parse(&self.setting).expect("a location")
    }

    pub(super) fn open_again(&self) -> Index {
        self.runtime
            .block_on(async { Index::open(Database::open(&self.location()).await.expect("a database")).await.expect("an index") })
    }
}

/// A process of the deployment. Ends with the test.
pub(super) struct Process {
    pub(super) name: &'static str,
    child: Child,
}

impl Process {
    /// Kills it, like a power failure.
    pub(super) fn kill(&mut self) {
        assert!(self.is_running(), "{} ended by itself", self.name);
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }

    /// Stops or continues it. It keeps its leases meanwhile.
    pub(super) fn freeze(&self, is_frozen: bool) {
        use rustix::process::{Pid, Signal, kill_process};

        let process = Pid::from_child(&self.child);
        kill_process(process, if is_frozen { Signal::STOP } else { Signal::CONT }).expect("it runs");
    }

    pub(super) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    /// Terminates it as a service manager does, and returns the exit code.
    pub(super) fn terminate(mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that is free now: a restarted directory must have the same address.
pub(super) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}

/// Requests a path from a directory, and returns the status and the body.
pub(crate) fn get(address: SocketAddr, key: &str, path: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let key = if key.is_empty() { String::new() } else { format!("x-api-key: {key}\r\n") };
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\n{key}connection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let unfinished = || io::Error::new(io::ErrorKind::UnexpectedEof, "an answer that was cut off");
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(unfinished)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(unfinished)?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).and_then(|length| length.parse().ok());
    // A process that was killed within a response sends an incomplete one.
    if length != Some(body.len()) {
        return Err(unfinished());
    }
    Ok((status, body.to_owned()))
}

/// A client behind a load balancer: it queries one directory after the other, tries the next if one is down, and reads the change feed
/// meanwhile. It returns the numbers of all changes that it saw, and how often a directory was down.
pub(super) struct Caller {
    thread: thread::JoinHandle<(Vec<i64>, usize)>,
    stop: Arc<std::sync::atomic::AtomicBool>,
}

impl Caller {
    pub(super) fn start(directories: Vec<SocketAddr>, key: String) -> Self {
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            let (mut cursor, mut seen, mut absent) = ("0".to_owned(), Vec::new(), 0);
            for turn in 0_usize.. {
                let path = format!("/api/v2/changes?limit=50&cursor={cursor}");
                let answers = (0..directories.len()).map(|next| get(directories[(turn + next) % directories.len()], &key, &path));
                let mut failed = 0;
                let (status, body) = answers
                    .filter_map(|answer| answer.inspect_err(|_| failed += 1).ok())
                    .next()
                    .expect("one of the directories is always there");
                absent += failed;
                assert_eq!(status, 200, "{body}");
                let page: Json = serde_json::from_str(&body).expect("JSON");
                let changes = page["changes"].as_array().expect("changes");
                seen.extend(changes.iter().map(|change| change["seq"].as_i64().expect("a number")));
                page["next"].as_str().expect("a cursor").clone_into(&mut cursor);
                if changes.is_empty() {
                    if stopped.load(std::sync::atomic::Ordering::SeqCst) {
                        break;
                    }
                    thread::sleep(Duration::from_millis(30));
                }
            }
            (seen, absent)
        });
        Self { thread, stop }
    }

    /// Ends it after it has seen every change.
    pub(super) fn end(self) -> (Vec<i64>, usize) {
        self.stop.store(true, std::sync::atomic::Ordering::SeqCst);
        self.thread.join().expect("the caller was never left alone")
    }
}
