//! Followers on real nodes: the history of the public registries, a process that is killed again and again, and real reorganisations.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, B256, U256, keccak256};
use alloy_sol_types::SolCall as _;
use serde_json::json;
use toolcrib_chain::network::Network;
use toolcrib_chain::registry::{Registry, ToolState};
use toolcrib_chain::rpc::{Chain, ChainConfig, NodeUrl};
use toolcrib_chain::transaction::Call;
use toolcrib_chain::wallet::DEV_ACCOUNTS;
use toolcrib_core::clock::Clock;
use toolcrib_fetch::SystemClock;
use toolcrib_index::follow::{EventKind, FollowOptions, Follower};
use toolcrib_index::model::{ToolKey, ToolRow};
use toolcrib_index::work::Queue;
use toolcrib_index::{Index, List, Order, feed};
use toolcrib_store::database::Value;
use toolcrib_store::{Database, Location};

use crate::follow_forks::dump;
use toolcrib_testkit::databases::{Backend, TestStore};
use toolcrib_testkit::nodes::{Node, deploy, dev};

const CHILD: &str = "TOOLCRIB_INDEX_FOLLOW_CHILD";
const CHAIN_ID: u64 = 31_337;

fn options(chain: &Chain) -> FollowOptions {
    let mut options = FollowOptions::of(chain.network(), Arc::new(SystemClock));
    options.poll = Duration::from_millis(20);
    options
}

/// A change of a tool in the corpus.
#[derive(Clone, Debug)]
enum Change {
    Register { creator: usize, uri: String, hash: B256, predicate: Option<Address> },
    Update { uri: String, hash: B256 },
    Gate { predicate: Option<Address> },
    Deregister,
}

/// The last state of a tool in the corpus.
struct ExpectedTool {
    uri: String,
    hash: B256,
    predicate: Option<Address>,
    gone: bool,
}

/// Returns the rows of the corpus as changes: (chain of the source, tool, change), in an order in which a registry assigns these ids.
fn changes() -> Option<Vec<(u64, u64, Change)>> {
    let file = toolcrib_testkit::corpus("erc8257/registry/history.tsv")?;
    let text = std::fs::read_to_string(file).expect("the corpus");
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().expect("a head").split('\t').collect();
    let column = |name: &str| names.iter().position(|other| *other == name).expect("a column");
    let [chain, tool, uri, hash, creator, predicate, status] =
        ["chain_id", "tool_id", "metadata_uri", "manifest_hash", "creator", "access_predicate", "status"].map(column);
    let mut creators: BTreeMap<String, usize> = BTreeMap::new();
    let mut last: BTreeMap<(u64, u64), ExpectedTool> = BTreeMap::new();
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    let mut made = Vec::new();
    let mut rows: Vec<Vec<&str>> = lines.map(|line| line.split('\t').collect()).collect();
    // Within a snapshot ids come in order, as a registry assigns them.
    rows.sort_by_key(|row| (row[0].to_owned(), row[chain].to_owned(), row[tool].parse::<u64>().expect("an id")));
    for row in &rows {
        let (chain, id): (u64, u64) = (row[chain].parse().expect("a chain"), row[tool].parse().expect("an id"));
        let gone = row[status] == "deregistered";
        let known = row[hash].parse::<B256>().ok().filter(|_| !row[uri].is_empty());
        let predicate = row[predicate].parse::<Address>().ok().filter(|address| !address.is_zero());
        let count = creators.len();
        let creator = *creators.entry(row[creator].to_owned()).or_insert(count);
        let tool = last.entry((chain, id)).or_insert_with(|| {
            let next = counts.entry(chain).or_default();
            assert_eq!(*next + 1, id, "a registry gives no id twice and leaves none out");
            *next = id;
            // A tool that was gone when it was first seen has only placeholders.
            let placeholder = (format!("https://gone.example/{id}"), keccak256(id.to_be_bytes()));
            let (uri, hash) = known.map_or(placeholder, |hash| (row[uri].to_owned(), hash));
            made.push((chain, id, Change::Register { creator, uri: uri.clone(), hash, predicate }));
            ExpectedTool { uri, hash, predicate, gone: false }
        });
        if tool.gone {
            continue;
        }
        if let Some(hash) = known
            && (tool.uri != row[uri] || tool.hash != hash)
        {
            (tool.uri, tool.hash) = (row[uri].to_owned(), hash);
            made.push((chain, id, Change::Update { uri: row[uri].to_owned(), hash }));
        }
        if !gone && tool.predicate != predicate && row[status] == "active" {
            tool.predicate = predicate;
            made.push((chain, id, Change::Gate { predicate }));
        }
        if gone {
            tool.gone = true;
            made.push((chain, id, Change::Deregister));
        }
    }
    Some(made)
}

/// The state of a tool in an independent replay.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Replayed {
    creator: Address,
    uri: String,
    hash: B256,
    predicate: Option<Address>,
    registered: u64,
    updated: u64,
    gone: Option<u64>,
    events: u64,
}

impl From<&ToolRow> for Replayed {
    fn from(row: &ToolRow) -> Self {
        Self {
            creator: row.creator,
            uri: row.metadata_uri.clone(),
            hash: row.manifest_hash,
            predicate: row.predicate,
            registered: row.registered.block,
            updated: row.updated.block,
            gone: row.deregistered.map(|at| at.block),
            events: row.events,
        }
    }
}

/// A seeded chain: a registry for each chain of the source, and the replay of the changes.
struct Seeded {
    chain: Chain,
    registries: BTreeMap<u64, Address>,
    replayed: BTreeMap<(u64, u64), Replayed>,
    events: u64,
    head: u64,
}

pub(crate) async fn send(chain: &Chain, from: Address, call: &Call) -> u64 {
    let request = json!({ "from": from, "to": call.to, "data": call.data, "gas": "0x400000" });
    let hash: B256 = serde_json::from_value(dev(chain, "eth_sendTransaction", json!([request])).await).expect("a hash");
    loop {
        let receipt = dev(chain, "eth_getTransactionReceipt", json!([hash])).await;
        if !receipt.is_null() {
            assert_eq!(receipt["status"], "0x1", "{receipt}");
            return u64::from_str_radix(&receipt["blockNumber"].as_str().expect("a block")[2..], 16).expect("a number");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn seed(node: &Node, changes: &[(u64, u64, Change)]) -> Seeded {
    let chain = node.chain().await;
    let mut registries = BTreeMap::new();
    for source in changes.iter().map(|(source, ..)| *source).collect::<BTreeSet<_>>() {
        registries.insert(source, deploy(&chain, "ToolRegistry", &[]).await);
    }
    let mut replayed: BTreeMap<(u64, u64), Replayed> = BTreeMap::new();
    let mut owners: BTreeMap<(u64, u64), Address> = BTreeMap::new();
    for (source, id, change) in changes {
        let registry = Registry::new(chain.clone(), registries[source]);
        let key = (*source, *id);
        match change {
            Change::Register { creator, uri, hash, predicate } => {
                // Ten accounts represent all creators: a node signs for no others.
                let creator = DEV_ACCOUNTS[creator % DEV_ACCOUNTS.len()];
                owners.insert(key, creator);
                let block = send(&chain, creator, &registry.register(uri, *hash, *predicate)).await;
                let (uri, hash, predicate) = (uri.clone(), *hash, *predicate);
                let tool = Replayed { creator, uri, hash, predicate, registered: block, updated: block, gone: None, events: 1 };
                replayed.insert(key, tool);
            }
            other => {
                let id = U256::from(*id);
                let call = match other {
                    Change::Update { uri, hash } => registry.update(id, uri, *hash),
                    Change::Gate { predicate } => registry.set_predicate(id, *predicate),
                    _ => registry.deregister(id),
                };
                let block = send(&chain, owners[&key], &call).await;
                let tool = replayed.get_mut(&key).expect("registered");
                match other {
                    Change::Update { uri, hash } => (tool.uri, tool.hash) = (uri.clone(), *hash),
                    Change::Gate { predicate } => tool.predicate = *predicate,
                    _ => tool.gone = Some(block),
                }
                tool.updated = block;
                tool.events += 1;
            }
        }
    }
    let head = chain.block_number().await.expect("a head");
    Seeded { chain, registries, replayed, events: changes.len() as u64, head }
}

impl Seeded {
    /// Compares the index with the replay and with the contracts.
    async fn check(&self, index: &Index) {
        let mut seen = BTreeMap::new();
        for (source, address) in &self.registries {
            let id = index.registry_of(CHAIN_ID, *address).await.expect("read").expect("followed");
            let mut after = None;
            loop {
                let list = List {
                    registry: Some(id),
                    include_unverified: true,
                    order: Order::Oldest,
                    after,
                    limit: 200,
                    ..List::default()
                };
                let page = index.list(&list).await.expect("a page");
                for view in &page.tools {
                    seen.insert((*source, view.row.key.id.to::<u64>()), view.row.clone());
                }
                match page.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
        }
        assert_eq!(seen.len(), self.replayed.len());
        for (key, row) in &seen {
            assert_eq!(Replayed::from(row), self.replayed[key], "{key:?}");
            let history = index.events(row.key, None, 100).await.expect("a history");
            assert_eq!(history.len() as u64, row.events, "every change is kept");
            assert!(matches!(history[0].what, EventKind::Registered { .. }));
            assert!(history.is_sorted_by_key(|event| event.place));
            let registry = Registry::new(self.chain.clone(), self.registries[&key.0]);
            match registry.tool(row.key.id).await.expect("the contract answers") {
                ToolState::Present(config) => {
                    assert!(row.is_active());
                    let ours = (row.creator, &row.metadata_uri, row.manifest_hash, row.predicate);
                    assert_eq!(ours, (config.creator, &config.metadata_uri, config.manifest_hash, config.access_predicate));
                }
                ToolState::Deregistered => assert!(!row.is_active()),
                ToolState::NotFound => panic!("{key:?} is in the index and not in the registry"),
            }
        }
        // Each event exactly once; each tool was announced and gets a job.
        let queue = Queue::new(index.clone());
        while queue.intake(SystemClock.now()).await.expect("taken in") > 0 {}
        let count = |sql: &'static str| async move {
            index.database().fetch_optional(sql, &[]).await.expect("a count").expect("a row").scalar::<i64>().expect("a number")
                as u64
        };
        assert_eq!(count("SELECT COUNT(*) FROM index_event").await, self.events);
        assert_eq!(count("SELECT COUNT(*) FROM index_job").await, self.replayed.len() as u64);
        let (mut told, mut cursor) = (HashSet::new(), 0);
        while cursor < index.last_change().await.expect("a number") {
            for change in index.changes(cursor, 300).await.expect("changes") {
                assert_eq!(change.seq, cursor + 1);
                cursor = change.seq;
                told.insert(change.key);
            }
        }
        assert_eq!(told.len(), self.replayed.len());
    }
}

// The whole history of the public registries, on our own node and on anvil.
// req: IDX-014
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_history_of_the_public_registries_is_a_replay_and_the_contracts_state() {
    let Some(changes) = changes() else { return };
    assert_eq!(changes.iter().filter(|(.., change)| matches!(change, Change::Register { .. })).count(), 751);
    for node in Node::each(CHAIN_ID).await {
        let seeded = seed(&node, &changes).await;
        for backend in [Backend::SqliteFile, Backend::Postgres] {
            let Some(place) = TestStore::new(backend).await else { continue };
            let index = Index::open(place.database().await).await.expect("an index");
            let mut running = tokio::task::JoinSet::new();
            for address in seeded.registries.values() {
                let mut follower = Follower::new(index.clone(), seeded.chain.clone(), *address, options(&seeded.chain));
                let head = seeded.head;
                running.spawn(async move { follower.catch_up_to(head).await });
            }
            while let Some(done) = running.join_next().await {
                done.expect("no panic").expect("caught up");
            }
            seeded.check(&index).await;
        }
        killed_again_and_again(&seeded, &node).await;
    }
}

/// Follows in a process that is killed every few hundred events, and compares.
async fn killed_again_and_again(seeded: &Seeded, node: &Node) {
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some(place) = TestStore::new(backend).await else { continue };
        let index = Index::open(place.database().await).await.expect("an index");
        let addresses: Vec<String> = seeded.registries.values().map(ToString::to_string).collect();
        let task = format!("{}\n{}\n{}\n{}", place.setting, node.url, addresses.join(","), seeded.head);
        let events = || async {
            let row = index.database().fetch_optional("SELECT COUNT(*) FROM index_event", &[]).await.expect("a count");
            row.expect("a row").scalar::<i64>().expect("a number")
        };
        let mut kills = 0;
        loop {
            let before = events().await;
            let mut child = Process::start(&task);
            // At varying moments, derived from the number of the kill.
            let patience = 30 + i64::from(keccak256([kills]).0[0]) / 2;
            let ended = loop {
                if let Some(status) = child.0.try_wait().expect("a child") {
                    break Some(status);
                }
                if events().await - before >= patience {
                    break None;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            };
            match ended {
                Some(status) => {
                    assert!(status.success(), "{status}");
                    break;
                }
                None => {
                    child.0.kill().expect("killed");
                    child.0.wait().expect("gone");
                    kills += 1;
                }
            }
        }
        let _ = writeln!(std::io::stderr(), "killed {kills} times over {} events", seeded.events);
        assert!(kills >= 3, "{kills}");
        seeded.check(&index).await;
    }
}

struct Process(Child);

impl Process {
    fn start(task: &str) -> Self {
        let child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "follow::child", "--nocapture", "--test-threads=1"])
            .env(CHILD, task)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a child");
        Self(child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(task) = std::env::var(CHILD) else { return };
    let parts: Vec<_> = task.split('\n').collect();
    let [setting, node, addresses, head] = parts.as_slice() else { panic!("{task}") };
    let database = Database::open(&Location::parse(setting).expect("a location")).await.expect("a database");
    let index = Index::open(database).await.expect("an index");
    let network = Network::by_id(CHAIN_ID).cloned().unwrap_or_else(|| Network::unlisted(CHAIN_ID));
    let config = ChainConfig::new(&network, vec![NodeUrl::parse(node).expect("a URL")]).expect("a node");
    let chain = Chain::connect(config).await.expect("the node answers");
    let head = head.parse().expect("a number");
    let mut running = tokio::task::JoinSet::new();
    for address in addresses.split(',') {
        let mut options = options(&chain);
        // Small transactions and short leases: many points to interrupt, and short waits.
        (options.first_range, options.largest_range, options.lease_seconds) = (10, 20, 1);
        let address = address.parse().expect("an address");
        let mut follower = Follower::new(index.clone(), chain.clone(), address, options);
        running.spawn(async move { follower.catch_up_to(head).await });
    }
    while let Some(done) = running.join_next().await {
        done.expect("no panic").expect("caught up");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_nodes_that_reorganise() {
    for node in Node::each(CHAIN_ID).await {
        let chain = node.chain().await;
        let address = deploy(&chain, "ToolRegistry", &[]).await;
        let registry = Registry::new(chain.clone(), address);
        for backend in [Backend::SqliteFile, Backend::Postgres] {
            let Some(place) = TestStore::new(backend).await else { continue };
            let index = Index::open(place.database().await).await.expect("an index");
            let mut follower = Follower::new(index.clone(), chain.clone(), address, options(&chain));
            for depth in [1_u64, 7] {
                for n in 0..12_u64 {
                    send(
                        &chain,
                        DEV_ACCOUNTS[0],
                        &registry.register(&format!("https://a.example/{depth}/{n}"), B256::repeat_byte(1), None),
                    )
                    .await;
                }
                let head = chain.block_number().await.expect("a head");
                follower.catch_up_to(head).await.expect("caught up");
                dev(&chain, "anvil_reorg", json!([depth, []])).await;
                for _ in 0..3 {
                    send(&chain, DEV_ACCOUNTS[1], &registry.register("https://b.example/", B256::repeat_byte(2), None)).await;
                }
                same_as_fresh(&index, &mut follower, &chain, address).await;
            }
            assert!(follower.progress().borrow().reorganisations >= 2);
            // A snapshot rewinds the chain to one that is shorter than what was followed.
            let snapshot = dev(&chain, "evm_snapshot", json!([])).await;
            for _ in 0..5 {
                send(&chain, DEV_ACCOUNTS[1], &registry.register("https://c.example/", B256::repeat_byte(3), None)).await;
            }
            let head = chain.block_number().await.expect("a head");
            follower.catch_up_to(head).await.expect("caught up");
            assert_eq!(dev(&chain, "evm_revert", json!([snapshot])).await, json!(true));
            same_as_fresh(&index, &mut follower, &chain, address).await;
        }
    }
}

async fn same_as_fresh(index: &Index, follower: &mut Follower, chain: &Chain, address: Address) {
    let head = chain.block_number().await.expect("a head");
    follower.catch_up_to(head).await.expect("caught up");
    let fresh = Index::open(Database::open(&Location::memory()).await.expect("a database")).await.expect("an index");
    Follower::new(fresh.clone(), chain.clone(), address, options(chain)).catch_up_to(head).await.expect("caught up");
    assert_eq!(dump(index).await, dump(&fresh).await);
    let count = Registry::new(chain.clone(), address).tool_count().await.expect("a count");
    let tools = index.database().fetch("SELECT tool FROM index_tool", &[]).await.expect("tools");
    assert_eq!(U256::from(tools.len()), count);
}

alloy_sol_types::sol! {
    interface IUpgrade {
        function testProxyUpgradeTo(address implementation) external;
    }
}

// req: IDX-003
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_proxy_that_is_upgraded_is_seen() {
    for node in Node::each(CHAIN_ID).await {
        let chain = node.chain().await;
        let address = deploy(&chain, "ToolRegistry", &[]).await;
        let deny = deploy(&chain, "DenyAllPredicate", &[]).await;
        let proxy = deploy(&chain, "TestProxy", deny.into_word().as_slice()).await;
        let registry = Registry::new(chain.clone(), address);
        send(&chain, DEV_ACCOUNTS[0], &registry.register("https://a.example/", B256::repeat_byte(1), Some(proxy))).await;
        for backend in [Backend::SqliteFile, Backend::Postgres] {
            let Some(place) = TestStore::new(backend).await else { continue };
            let index = Index::open(place.database().await).await.expect("an index");
            let mut follower = Follower::new(index.clone(), chain.clone(), address, options(&chain));
            follower.catch_up_to(chain.block_number().await.expect("a head")).await.expect("caught up");
            // The clock that limits mass expiry.
            let noted = index.database().fetch("SELECT registry, block, time FROM index_chain_time", &[]).await.expect("times");
            let head = chain.head().await.expect("a head");
            let number = |column| noted[0].get::<u64>(column).expect("a number");
            assert_eq!((noted.len(), number("block"), number("time")), (1, head.number, head.time));
            let seen = index.last_change().await.expect("the feed");
            let data = IUpgrade::testProxyUpgradeToCall { implementation: deny }.abi_encode().into();
            let block = send(&chain, DEV_ACCOUNTS[0], &Call { to: proxy, data, value: U256::ZERO }).await;
            follower.catch_up_to(block).await.expect("caught up");
            let changes = index.changes(seen, 10).await.expect("changes");
            assert_eq!(changes.len(), 1);
            assert!(changes[0].kinds.has(feed::Kinds::UPGRADED));
            let key: ToolKey = changes[0].key;
            let history = index.events(key, None, 100).await.expect("a history");
            let last = history.last().expect("events");
            assert_eq!((last.at.block, &last.what), (block, &EventKind::Upgraded { predicate: proxy, implementation: deny }));
            Queue::new(index.clone()).intake(SystemClock.now()).await.expect("taken in");
            const JOB: &str = "SELECT reason FROM index_job WHERE registry = $1";
            let job =
                index.database().fetch_optional(JOB, &[Value::Integer(key.registry.0)]).await.expect("read").expect("a job");
            assert_eq!(job.scalar::<&str>().expect("a reason"), "upgraded");
            let state = index.registries().await.expect("registries")[0].state;
            assert_eq!(state.code_hash, Some(registry.inspect().await.expect("a registry").code_hash));
        }
    }
}
