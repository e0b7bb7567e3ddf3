//! Beside Ponder's API: the same number of tools, the same two questions, in turns, with wrk (one thread, sixteen connections).
//!
//! Ponder is started on an empty chain, and its table of tools is filled by SQL: what its API reads is the same as after indexing, and
//! indexing is measured elsewhere. Ours has the larger rows: the whole manifest, checks and usage.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use toolcrib_store::{Database, Location};

use crate::process::{CHAIN, REGISTRY, Served, Words, cpu_seconds, filled, load_now, memory, server_cpu};
use crate::{argument, number};
use toolcrib_testkit::Anvil;
use toolcrib_testkit::databases::{Backend, PASSWORD, Server, TestStore};

/// A process that ends with this one.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Seconds of each question to Ponder before anything is measured.
const WARM_SECONDS: u64 = 4;

const COLUMNS: &str = "id creator uri hash predicate registeredBlock registeredAt updatedBlock updatedAt events";

pub(crate) async fn measure() {
    let (tools, rounds, seconds) = (number("--tools", 16_000), number("--rounds", 2), number("--seconds", 8));
    let Some(folder) = argument("--ponder") else { return println!("skipped: say where Ponder is: --ponder FOLDER") };
    let Some(node) = Anvil::of_chain(31_337) else { return println!("skipped: no anvil") };
    let url = node.url.clone();
    let Some(server) = Server::shared() else { return };
    let ours = tempfile::tempdir().expect("a folder");
    let sqlite = format!("sqlite:{}", ours.path().join("store.db").display());
    let words = |name: &str| Words { folder: ours.path().join(name), embedding: None };
    let search = words("search");
    filled(&sqlite, &search, tools);
    let place = TestStore::new(Backend::Postgres).await.expect("PostgreSQL");
    // A folder belongs to one process.
    let other_search = words("search-beside");
    filled(&place.setting, &other_search, tools);
    for (store, setting, search) in [("SQLite", &sqlite, &search), ("PostgreSQL", &place.setting, &other_search)] {
        let mut starts: Vec<(f64, f64)> = Vec::new();
        for _ in 0..5 {
            let served = Served::start(setting, search);
            starts.push((served.start_up.list.as_secs_f64() * 1e3, served.start_up.search.as_secs_f64() * 1e3));
        }
        starts.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (list, found) = starts[2];
        println!(
            "start-up with {tools} tools on {store}, median of 5: list after {list:.0} ms, search after {found:.0} ms (most {:.0})",
            starts[4].1
        );
    }
    let ponder = Ponder::start(&folder, &url, server, tools).await;
    println!(
        "{:34}{:>10}{:>9}{:>9}{:>8}{:>9}{:>15}{:>8}",
        "", "requests/s", "p50 ms", "p99 ms", "CPU s", "PG CPU s", "requests/CPU s", "load"
    );
    // Best of the rounds, by name.
    let mut best: Vec<(String, f64, f64)> = Vec::new();
    let on_sqlite = Served::start(&sqlite, &search);
    let on_postgres = Served::start(&place.setting, &other_search);
    let (list, one) = ("/api/v2/tools?limit=20".to_owned(), format!("/api/v2/tools/{CHAIN}/{REGISTRY:#x}/"));
    let of_ours = |path: &str| format!("request = function() return wrk.format('GET', '{path}') end");
    let any = format!(
        "math.randomseed(os.time()) request = function() return wrk.format('GET', '{one}' .. math.random(1, {tools} - 1)) end"
    );
    let of_ponder = |query: &str| {
        format!(
            "request = function() return wrk.format('POST', '/graphql', {{['content-type'] = 'application/json'}}, {query}) end"
        )
    };
    let newest = format!(
        r#"'{{"query":"{{ tools(orderBy: \\"registeredAt\\", orderDirection: \\"desc\\", limit: 20) {{ items {{ {COLUMNS} }} }} }}"}}'"#
    );
    let by_key = |id: &str| format!(r#"'{{"query":"{{ tool(id: \\"' .. {id} .. '\\") {{ {COLUMNS} }} }}"}}'"#);
    // Its code is compiled while it runs: what comes first is slow.
    wrk(ponder.port, WARM_SECONDS, &of_ponder(&newest));
    wrk(ponder.port, WARM_SECONDS, &of_ponder(&by_key("77")));
    for _ in 0..rounds {
        for (name, process, port, script) in [
            ("list, Ponder", ponder.id(), ponder.port, of_ponder(&newest)),
            ("list, ours on SQLite", on_sqlite.id(), on_sqlite.port, of_ours(&list)),
            ("list, ours on PostgreSQL", on_postgres.id(), on_postgres.port, of_ours(&list)),
            ("get one, Ponder", ponder.id(), ponder.port, of_ponder(&by_key("77"))),
            ("get one, ours on SQLite", on_sqlite.id(), on_sqlite.port, of_ours(&format!("{one}77"))),
            ("get any, Ponder", ponder.id(), ponder.port, of_ponder(&by_key(&format!("math.random(1, {tools} - 1)")))),
            ("get any, ours on SQLite", on_sqlite.id(), on_sqlite.port, any.clone()),
            ("get any, ours on PostgreSQL", on_postgres.id(), on_postgres.port, any.clone()),
        ] {
            let (before, server) = (cpu_seconds(&process), server_cpu());
            let (rate, p50, p99) = wrk(port, seconds, &script);
            let (cpu, server) = (cpu_seconds(&process) - before, server_cpu() - server);
            // Whatever else the machine does, a request takes so much of a processor.
            let per_cpu = rate * seconds as f64 / (cpu + server);
            println!("{name:34}{rate:>10.0}{p50:>9.2}{p99:>9.2}{cpu:>8.1}{server:>9.1}{per_cpu:>15.0}{:>8}", load_now());
            match best.iter_mut().find(|(known, ..)| known == name) {
                Some((_, best, most)) => (*best, *most) = (best.max(rate), most.max(per_cpu)),
                None => best.push((name.to_owned(), rate, per_cpu)),
            }
        }
    }
    for (name, rate, per_cpu) in best.iter().filter(|(name, ..)| !name.ends_with("Ponder")) {
        let question = name.split(',').next();
        let Some((_, theirs, of_theirs)) =
            best.iter().find(|(other, ..)| other.ends_with("Ponder") && other.split(',').next() == question)
        else {
            continue;
        };
        println!(
            "{name}: {:.1} times Ponder's requests/s, {:.1} times its requests/CPU s, best against best",
            rate / theirs,
            per_cpu / of_theirs
        );
    }
    for (name, process) in [("Ponder", ponder.id()), ("ours on SQLite", on_sqlite.id()), ("ours on PostgreSQL", on_postgres.id())]
    {
        println!("memory of {name}: {} MiB, at most {} MiB", memory(&process, "VmRSS"), memory(&process, "VmHWM"));
    }
}

/// Requests a second, and the latencies that half and ninety-nine in a hundred are below. Any answer that is no success ends it;
/// one that takes longer than wrk's two seconds only counts as that long.
fn wrk(port: u16, seconds: u64, script: &str) -> (f64, f64, f64) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ask.lua");
    let done = "done = function(all, latency)
        local bad = all.errors.connect + all.errors.read + all.errors.write + all.errors.status
        io.write(string.format('RESULT %f %f %f %d\\n', all.requests * 1e6 / all.duration, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, bad))
    end";
    std::fs::write(&file, format!("{script}\n{done}\n")).expect("written");
    let output = Command::new("wrk")
        .args(["-t1", "-c16", &format!("-d{seconds}s"), "--latency", "-s"])
        .arg(&file)
        .arg(format!("http://127.0.0.1:{port}/"))
        .output()
        .expect("wrk runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("RESULT ")).unwrap_or_else(|| panic!("{output:?}"));
    let numbers: Vec<f64> = line.split(' ').filter_map(|part| part.parse().ok()).collect();
    let [rate, p50, p99, bad] = numbers.as_slice() else { panic!("{line}") };
    assert!(*bad == 0.0, "{bad} requests went wrong: {text}");
    (*rate, *p50, *p99)
}

struct Ponder {
    process: Ended,
    port: u16,
}

impl Ponder {
    fn id(&self) -> String {
        self.process.0.id().to_string()
    }

    async fn start(folder: &str, url: &str, server: &Server, tools: u64) -> Self {
        let folder = Path::new(folder).canonicalize().expect("Ponder's folder");
        let database = format!("postgres://toolcrib:{PASSWORD}@127.0.0.1:{}/postgres", server.port);
        let schema = format!("ponder_{}", std::process::id());
        let port = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.local_addr().expect("an address").port()
        };
        let begun = Instant::now();
        let child = Command::new(folder.join("node_modules/node/bin/node"))
            .arg(folder.join("node_modules/ponder/dist/esm/bin/ponder.js"))
            .args(["start", "--schema", &schema, "--hostname", "127.0.0.1", "--port", &port.to_string()])
            .current_dir(&folder)
            .env("DATABASE_URL", &database)
            .env("PONDER_RPC_URL_31337", url)
            .env("PONDER_TELEMETRY_DISABLED", "true")
            .env("REGISTRY", REGISTRY.to_string())
            .env("END_BLOCK", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("Ponder starts");
        let mut process = Ended(child);
        let mut connection = None;
        while crate::load::get(&mut connection, port, "/ready").is_err() {
            connection = None;
            assert!(process.0.try_wait().expect("a child").is_none(), "Ponder ended");
            assert!(begun.elapsed() < Duration::from_secs(60), "Ponder does not answer");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        println!("Ponder is ready after {:.1} s", begun.elapsed().as_secs_f64());
        let ours = Database::open(&Location::postgres(&database).expect("a URL").connections(1)).await.expect("the server");
        // Its triggers tell its own sessions what they wrote.
        ours.execute("SET session_replication_role = replica", &[]).await.expect("set");
        let insert = format!(
            "INSERT INTO {schema}.tool (id, creator, uri, hash, registered_block, registered_at, updated_block, updated_at, events)
            SELECT n, '0x' || substr(md5((n % 50000)::text), 1, 32) || 'abcdef01', 'https://tools.example/.well-known/ai-tool/' || n || '.json',
                '0x' || md5(n::text) || md5((n + 1)::text), n, 1790000000 + n, n, 1790000000 + n, 1 FROM generate_series(0, {tools} - 1) n"
        );
        let insert: &'static str = Box::leak(insert.into_boxed_str());
        assert_eq!(ours.execute(insert, &[]).await.expect("inserted"), tools);
        let analyze: &'static str = Box::leak(format!("VACUUM ANALYZE {schema}.tool").into_boxed_str());
        ours.execute(analyze, &[]).await.expect("analysed");
        ours.close().await;
        Self { process, port }
    }
}
