//! Followers on chains that change their mind, and on nodes that misbehave: a model of what the index must say, and chains to check it on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, B256, U256, keccak256};
use toolcrib_chain::rpc::Chain;
use toolcrib_core::clock::{FixedClock, UnixTime};
use toolcrib_index::Index;
use toolcrib_index::follow::{FollowOptions, Follower};
use toolcrib_index::model::ToolKey;
use toolcrib_index::work::Queue;
use toolcrib_store::database::FromRow as _;
use toolcrib_store::{Database, Location, row, sql};

use crate::scripted::{Emitted, REGISTRY, Script, World, deregistered, gated, registered, updated, upgraded};
use toolcrib_testkit::databases::{Backend, TestStore};

mod faults;
mod notes;
mod reorganisations;

const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

pub(crate) fn options(chain: &Chain) -> FollowOptions {
    let mut options = FollowOptions::of(chain.network(), Arc::new(FixedClock(NOW)));
    options.poll = Duration::from_millis(5);
    options.finality_depth = 20;
    options.first_range = 7;
    options.largest_range = 40;
    options.audit_every = Duration::from_millis(50);
    options.rescan_pause = Duration::from_millis(5);
    // Events here depend on a number alone, so ids are registered in any order, or never.
    options.numbering = false;
    options
}

pub(crate) fn follower(index: &Index, script: &Script) -> Follower {
    let chain = script.chain();
    let options = options(&chain);
    Follower::new(index.clone(), chain, REGISTRY, options)
}

pub(crate) async fn catch_up(follower: &mut Follower, script: &Script) {
    let head = script.change(|world| world.head());
    let caught = tokio::time::timeout(Duration::from_secs(60), follower.catch_up_to(head)).await;
    caught.expect("in time").expect("caught up");
}

/// Makes jobs of what changed, as whoever leases them does first.
async fn take_in(index: &Index) {
    Queue::new(index.clone()).intake(NOW).await.expect("taken in");
}

async fn fresh_index() -> Index {
    Index::open(Database::open(&Location::memory()).await.expect("a database")).await.expect("an index")
}

/// Everything that the chain decides, as text.
pub(crate) async fn dump(index: &Index) -> String {
    const EVENTS: &str =
        "SELECT block_number, log_index, time, kind, block_hash, tx, tool, creator, predicate, hash, implementation, uri
        FROM index_event WHERE registry = 1 ORDER BY block_number, log_index";
    const TOOLS: &str =
        "SELECT registered_block, registered_at, updated_block, updated_at, deregistered_block, deregistered_at, events,
        tool, creator, hash, predicate, uri FROM index_tool WHERE registry = 1 ORDER BY tool";
    const PREDICATES: &str =
        "SELECT first_block, first_log, predicate FROM index_predicate WHERE registry = 1 ORDER BY first_block, first_log";
    const REGISTRY: &str = "SELECT checkpoint, checkpoint_hash FROM index_registry WHERE id = 1";
    let mut text = String::new();
    let hex = |bytes: Option<&[u8]>| bytes.map(alloy_primitives::hex::encode);
    for row in index.database().fetch(EVENTS, &[]).await.expect("events") {
        let numbers: Vec<_> =
            ["block_number", "log_index", "time", "kind"].map(|column| row.get::<i64>(column).expect("a number")).into();
        let bytes = ["block_hash", "tx", "tool", "creator", "predicate", "hash", "implementation"];
        let bytes: Vec<_> = bytes.map(|column| hex(row.get(column).expect("bytes"))).into();
        text.push_str(&format!("event {numbers:?} {bytes:?} {:?}\n", row.get::<Option<&str>>("uri").expect("text")));
    }
    for row in index.database().fetch(TOOLS, &[]).await.expect("tools") {
        let places =
            ["registered_block", "registered_at", "updated_block", "updated_at", "deregistered_block", "deregistered_at"];
        let numbers: Vec<_> = places.map(|column| row.get::<Option<i64>>(column).expect("a number")).into();
        let bytes: Vec<_> = ["tool", "creator", "hash", "predicate"].map(|column| hex(row.get(column).expect("bytes"))).into();
        let (events, uri): (i64, &str) = (row.get("events").expect("a number"), row.get("uri").expect("text"));
        text.push_str(&format!("tool {numbers:?} {events} {bytes:?} {uri:?}\n"));
    }
    for row in index.database().fetch(PREDICATES, &[]).await.expect("predicates") {
        text.push_str(&format!(
            "predicate {:?} {:?}\n",
            row.get::<i64>("first_block").expect("a block"),
            hex(row.get("predicate").expect("bytes"))
        ));
    }
    let row = index.database().fetch_optional(REGISTRY, &[]).await.expect("a row").expect("a registry");
    let checkpoint: i64 = row.get("checkpoint").expect("a block");
    text.push_str(&format!("checkpoint {checkpoint} {:?}\n", hex(row.get("checkpoint_hash").expect("bytes"))));
    text
}

/// What a model that knows nothing of ranges, windows and databases makes of the chain: id → (URI, hash, predicate, gone, events).
pub(crate) type Model = BTreeMap<U256, (String, B256, Option<Address>, bool, u64)>;

pub(crate) fn model(world: &World) -> (usize, Model) {
    let mut tools = Model::new();
    let mut named: Vec<Address> = Vec::new();
    let mut count = 0;
    for log in world.blocks.iter().flat_map(|block| &block.logs) {
        if log.address != REGISTRY {
            count += usize::from(named.contains(&log.address));
            continue;
        }
        count += 1;
        let id = U256::from_be_bytes(log.topics[1].0);
        let text = || {
            let length = usize::try_from(U256::from_be_slice(&log.data[64..96])).expect("short");
            let uri = String::from_utf8(log.data[96..96 + length].to_vec()).expect("text");
            (uri, B256::from_slice(&log.data[32..64]))
        };
        let open = |word: &B256| Some(Address::from_word(*word)).filter(|address| !address.is_zero());
        match log.topics.len() {
            4 => {
                let (uri, hash) = text();
                let events = tools.get(&id).map_or(0, |tool| tool.4);
                tools.insert(id, (uri, hash, open(&log.topics[3]), false, events + 1));
                named.extend(open(&log.topics[3]));
            }
            3 => {
                named.extend(open(&log.topics[2]));
                if let Some(tool) = tools.get_mut(&id) {
                    (tool.2, tool.4) = (open(&log.topics[2]), tool.4 + 1);
                }
            }
            _ if log.data.is_empty() => {
                if let Some(tool) = tools.get_mut(&id) {
                    (tool.3, tool.4) = (true, tool.4 + 1);
                }
            }
            _ => {
                if let Some(tool) = tools.get_mut(&id) {
                    (tool.0, tool.1) = text();
                    tool.4 += 1;
                }
            }
        }
    }
    (count, tools)
}

row! {
    struct ToolRow<'r> {
        tool: &'r [u8],
        uri: String,
        hash: B256,
        predicate: Option<Address>,
        deregistered_block: Option<i64>,
        events: u64,
    }
}

pub(crate) async fn indexed(index: &Index) -> (usize, Model) {
    const COUNT: &str = "SELECT COUNT(*) FROM index_event";
    const TOOLS: &str = sql!("SELECT ", ToolRow::COLUMNS, " FROM index_tool");
    let row = index.database().fetch_optional(COUNT, &[]).await.expect("a count").expect("a row");
    let mut tools = Model::new();
    for tool in ToolRow::from_rows(&index.database().fetch(TOOLS, &[]).await.expect("tools")) {
        let ToolRow { tool, uri, hash, predicate, deregistered_block, events } = tool.expect("a tool");
        let entry = (uri, hash, predicate, deregistered_block.is_some(), events);
        tools.insert(ToolKey::from_columns(1, tool).expect("an id").id, entry);
    }
    (row.scalar::<u64>().expect("a count") as usize, tools)
}

/// The index is what a fresh one would be, and what the model says.
pub(crate) async fn check(index: &Index, script: &Script) {
    let (index_says, model_says) = (indexed(index).await, script.change(|world| model(world)));
    assert_eq!(index_says, model_says);
    let fresh = fresh_index().await;
    catch_up(&mut follower(&fresh, script), script).await;
    assert_eq!(dump(index).await, dump(&fresh).await);
}

/// Events that depend on a number alone: registrations and changes of a few tools, some of ids that do not exist.
pub(crate) fn events(seed: u64, count: u64) -> Vec<Emitted> {
    (0..count)
        .map(|n| {
            let word = keccak256((U256::from(seed), U256::from(n)).abi_encode_packed_words());
            let (id, choice) = (u64::from(word[0] % 24) + 1, word[1] % 10);
            let predicate = if word[2].is_multiple_of(3) { Address::ZERO } else { Address::repeat_byte(0x50 + word[2] % 4) };
            let uri = format!("https://tool{id}.example/{}", word[3]);
            match choice {
                0..=3 => registered(id, Address::repeat_byte(word[4]), predicate, &uri, word),
                4..=5 => updated(id, &uri, word),
                6..=7 => gated(id, predicate),
                8 => deregistered(id),
                _ => upgraded(Address::repeat_byte(0x50 + word[5] % 4), Address::repeat_byte(word[6])),
            }
        })
        .collect()
}

trait Words {
    fn abi_encode_packed_words(&self) -> Vec<u8>;
}

impl Words for (U256, U256) {
    fn abi_encode_packed_words(&self) -> Vec<u8> {
        [self.0.to_be_bytes::<32>(), self.1.to_be_bytes::<32>()].concat()
    }
}

pub(crate) fn grow(world: &mut World, blocks: u64, seed: u64) {
    for n in 0..blocks {
        let mixed = seed.wrapping_mul(31).wrapping_add(n);
        world.grow(events(mixed, mixed % 4));
    }
}

/// Forks alone are no sign that a node left logs out.
pub(crate) async fn check_trust(index: &Index) {
    for known in index.completeness().await.expect("read") {
        assert_eq!((known.omitted, known.rescan_from), (0, None), "{known:?}");
    }
}

/// What a follower that ends in order does.
pub(crate) async fn release(index: &Index) {
    index.database().execute("UPDATE index_follower SET until = 0", &[]).await.expect("released");
}

pub(crate) async fn indexes() -> Vec<(TestStore, Index)> {
    let mut all = Vec::new();
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some(place) = TestStore::new(backend).await else { continue };
        let index = Index::open(place.database().await).await.expect("an index");
        all.push((place, index));
    }
    all
}
