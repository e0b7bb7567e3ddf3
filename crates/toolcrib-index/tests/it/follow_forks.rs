//! Followers on chains that change their mind, and on nodes that misbehave.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use alloy_primitives::{Address, B256, U256, keccak256};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use toolcrib_chain::rpc::Chain;
use toolcrib_core::clock::{FixedClock, UnixTime};
use toolcrib_index::Index;
use toolcrib_index::feed::Kinds;
use toolcrib_index::follow::{FollowOptions, Follower, Happening, Step};
use toolcrib_index::model::{RegistryId, ToolKey};
use toolcrib_index::work::Queue;
use toolcrib_store::database::Value;
use toolcrib_store::{Database, Location};

use crate::scripted::{Emitted, REGISTRY, Script, World, deregistered, gated, quantity, range, registered, updated, upgraded};
use toolcrib_testkit::databases::{Backend, Place};
use toolcrib_testkit::nodes::fake::{Reply, config};

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
        let numbers: Vec<_> = (0..4).map(|column| row.integer(column).expect("a number")).collect();
        let bytes: Vec<_> = (4..11).map(|column| hex(row.optional_bytes(column).expect("bytes"))).collect();
        text.push_str(&format!("event {numbers:?} {bytes:?} {:?}\n", row.optional_text(11).expect("text")));
    }
    for row in index.database().fetch(TOOLS, &[]).await.expect("tools") {
        let numbers: Vec<_> = (0..7).map(|column| row.optional_integer(column).expect("a number")).collect();
        let bytes: Vec<_> = (7..11).map(|column| hex(row.optional_bytes(column).expect("bytes"))).collect();
        text.push_str(&format!("tool {numbers:?} {bytes:?} {:?}\n", row.text(11).expect("text")));
    }
    for row in index.database().fetch(PREDICATES, &[]).await.expect("predicates") {
        text.push_str(&format!(
            "predicate {:?} {:?}\n",
            row.integer(0).expect("a block"),
            hex(row.optional_bytes(2).expect("bytes"))
        ));
    }
    let row = index.database().fetch_optional(REGISTRY, &[]).await.expect("a row").expect("a registry");
    text.push_str(&format!("checkpoint {} {:?}\n", row.integer(0).expect("a block"), hex(row.optional_bytes(1).expect("bytes"))));
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

pub(crate) async fn indexed(index: &Index) -> (usize, Model) {
    const COUNT: &str = "SELECT COUNT(*) FROM index_event";
    const TOOLS: &str = "SELECT tool, uri, hash, predicate, deregistered_block, events FROM index_tool";
    let row = index.database().fetch_optional(COUNT, &[]).await.expect("a count").expect("a row");
    let mut tools = Model::new();
    for row in index.database().fetch(TOOLS, &[]).await.expect("tools") {
        let predicate = row.optional_bytes(3).expect("bytes").map(Address::from_slice);
        let gone = row.optional_integer(4).expect("a number").is_some();
        let hash = B256::from_slice(row.bytes(2).expect("bytes"));
        let entry = (row.text(1).expect("text").to_owned(), hash, predicate, gone, row.integer(5).expect("a count") as u64);
        tools.insert(ToolKey::from_columns(1, row.bytes(0).expect("bytes")).expect("an id").id, entry);
    }
    (row.integer(0).expect("a count") as usize, tools)
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

#[derive(Clone, Debug)]
enum Act {
    /// So many blocks more, each with up to three events.
    Grow(u64, u64),
    /// So many blocks are replaced, and some come on top.
    Fork(usize, u64, u64),
    Follow,
    /// Another process goes on, with nothing in mind.
    Restart,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let depth = prop_oneof![Just(1_usize), Just(7), Just(100), 1_usize..40];
    let act = prop_oneof![
        (1_u64..60, any::<u64>()).prop_map(|(blocks, seed)| Act::Grow(blocks, seed)),
        (depth, 1_u64..6, any::<u64>()).prop_map(|(depth, more, seed)| Act::Fork(depth, more, seed)),
        Just(Act::Follow),
        Just(Act::Follow),
        Just(Act::Restart),
    ];
    // A long chain first, so that a hundred blocks can be replaced.
    (120_u64..180, any::<u64>(), prop::collection::vec(act, 3..12)).prop_map(|(blocks, seed, mut acts)| {
        acts.insert(0, Act::Grow(blocks, seed));
        acts.insert(1, Act::Follow);
        acts
    })
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

async fn play(index: &Index, script: &Script, acts: &[Act]) {
    let mut following = follower(index, script);
    for act in acts {
        match act {
            Act::Grow(blocks, seed) => script.change(|world| grow(world, *blocks, *seed)),
            Act::Fork(depth, more, seed) => script.change(|world| {
                let depth = (*depth).min(world.blocks.len() - 1);
                world.cut(depth);
                grow(world, depth as u64 + more, *seed);
            }),
            Act::Follow => {
                catch_up(&mut following, script).await;
                let (index_says, model_says) = (indexed(index).await, script.change(|world| model(world)));
                assert_eq!(index_says, model_says);
            }
            Act::Restart => {
                release(index).await;
                following = follower(index, script);
            }
        }
    }
    catch_up(&mut following, script).await;
    check(index, script).await;
    check_trust(index).await;
}

/// What a follower that ends in order does.
pub(crate) async fn release(index: &Index) {
    index.database().execute("UPDATE index_follower SET until = 0", &[]).await.expect("released");
}

fn property(backend: Backend, cases: u32) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, max_shrink_iters: 40, ..Config::default() });
    let result = runner.run(&acts(), |acts| {
        runtime.block_on(async {
            let Some(place) = Place::new(backend).await else { return };
            let index = Index::open(place.database().await).await.expect("an index");
            let script = Script::start().await;
            script.change(|world| world.gives_time = acts.len() % 2 == 0);
            play(&index, &script, &acts).await;
        });
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

// req: IDX-014
#[test]
fn any_order_of_forks_is_a_fresh_sync_on_sqlite() {
    property(Backend::SqliteMemory, 16);
}

// req: IDX-014
#[test]
fn any_order_of_forks_is_a_fresh_sync_on_postgres() {
    property(Backend::Postgres, 8);
}

pub(crate) async fn indexes() -> Vec<(Place, Index)> {
    let mut all = Vec::new();
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some(place) = Place::new(backend).await else { continue };
        let index = Index::open(place.database().await).await.expect("an index");
        all.push((place, index));
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reorganisations_of_every_depth_and_a_chain_that_begins_anew() {
    for (_place, index) in indexes().await {
        let script = Script::start().await;
        script.change(|world| grow(world, 300, 1));
        let mut following = follower(&index, &script);
        catch_up(&mut following, &script).await;
        for depth in [1, 7, 100, 299] {
            script.change(|world| {
                world.cut(depth);
                grow(world, depth as u64 + 1, depth as u64 * 1_000);
            });
            catch_up(&mut following, &script).await;
            check(&index, &script).await;
        }
        let progress = *following.progress().borrow();
        assert!(progress.reorganisations >= 4 && progress.missed == 0, "{progress:?}");
        check_trust(&index).await;
        // Everything, with other blocks and fewer of them.
        script.change(|world| {
            world.cut(1_000);
            world.blocks[0].hash = B256::repeat_byte(9);
            grow(world, 400, 77);
        });
        catch_up(&mut following, &script).await;
        check(&index, &script).await;
    }
}

/// The chain is reorganised between the headers and the logs of one step. That the logs of the blocks below are gone is then no fault of the
/// node's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reorganisation_between_headers_and_logs_is_not_taken_for_logs_that_are_left_out() {
    for (_place, index) in indexes().await {
        let script = Script::start().await;
        script.change(|world| {
            grow(world, 92, 1);
            (0..8).for_each(|n| world.grow(events(n, 2)));
        });
        let mut following = follower(&index, &script);
        catch_up(&mut following, &script).await;
        let turned = Arc::new(AtomicBool::new(false));
        let is_turned = Arc::clone(&turned);
        script.change(|world| {
            (0..3).for_each(|_| world.grow(Vec::new()));
            world.turn = Some(Box::new(move |world, method| {
                if method == "eth_getLogs" && !is_turned.swap(true, Ordering::SeqCst) {
                    // Neither the new blocks nor those that are read again have events now.
                    world.cut(11);
                    (0..11).for_each(|_| world.grow(Vec::new()));
                }
            }));
        });
        assert_eq!(following.step().await.expect("a step"), Step::Advanced);
        assert!(turned.load(Ordering::SeqCst), "in the middle of the step");
        assert_eq!(following.progress().borrow().missed, 0);
        catch_up(&mut following, &script).await;
        check(&index, &script).await;
        let progress = *following.progress().borrow();
        assert_eq!((progress.missed, progress.reorganisations), (0, 1), "{progress:?}");
        check_trust(&index).await;
    }
}

/// More than one transaction takes back, with an end in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn much_is_taken_back_in_steps_and_a_step_is_a_place_to_go_on_from() {
    for (_place, index) in indexes().await {
        let script = Script::start().await;
        let crowd = |world: &mut World, blocks: u64, seed: u64| {
            (0..blocks).for_each(|n| world.grow(events(seed + n, 70)));
        };
        script.change(|world| crowd(world, 120, 1));
        let mut following = follower(&index, &script);
        catch_up(&mut following, &script).await;
        script.change(|world| {
            world.cut(100);
            crowd(world, 101, 5_000);
        });
        catch_up(&mut following, &script).await;
        check(&index, &script).await;
        // As after a crash between two steps: where it stands is known, and not whether that is still true.
        index.database().execute("UPDATE index_registry SET checkpoint_hash = NULL", &[]).await.expect("forgotten");
        index.database().execute("DELETE FROM index_block", &[]).await.expect("forgotten");
        script.change(|world| {
            world.cut(60);
            crowd(world, 61, 9_000);
        });
        release(&index).await;
        catch_up(&mut follower(&index, &script), &script).await;
        check(&index, &script).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_feed_and_the_jobs_say_what_was_taken_back() {
    for (_place, index) in indexes().await {
        let script = Script::start().await;
        let (creator, hash) = (Address::repeat_byte(7), B256::repeat_byte(3));
        script.change(|world| {
            world.grow(vec![registered(1, creator, Address::ZERO, "https://a.example/1", hash)]);
            (0..5).for_each(|_| world.grow(Vec::new()));
            world.grow(vec![registered(2, creator, Address::ZERO, "https://a.example/2", hash)]);
            world.grow(vec![updated(1, "https://a.example/new", hash)]);
        });
        let mut following = follower(&index, &script);
        catch_up(&mut following, &script).await;
        take_in(&index).await;
        // Somebody found both good.
        index.database().execute("UPDATE index_tool SET listed = TRUE, access = 'open'", &[]).await.expect("listed");
        const LATER: &str = "UPDATE index_job SET due_at = due_at + 86400, priority = 3, reason = 'expired'";
        index.database().execute(LATER, &[]).await.expect("looked at");
        let seen = index.last_change().await.expect("the feed");
        script.change(|world| {
            world.cut(2);
            (0..3).for_each(|_| world.grow(Vec::new()));
        });
        catch_up(&mut following, &script).await;
        check(&index, &script).await;
        let key = |id: u64| ToolKey { registry: RegistryId(1), id: U256::from(id) };
        let changes = index.changes(seen, 100).await.expect("changes");
        assert_eq!(changes.iter().map(|change| change.key).collect::<Vec<_>>(), [key(1), key(2)]);
        assert!(changes.iter().all(|change| change.kinds == Kinds::REORGANISED));
        const LISTED: &str = "SELECT listed, access FROM index_tool WHERE registry = 1 AND tool = $1";
        let row =
            index.database().fetch_optional(LISTED, &[Value::Bytes(&key(1).id_bytes())]).await.expect("read").expect("there");
        assert!(!row.boolean(0).expect("a flag"), "its URI went back, so nobody has looked at it");
        take_in(&index).await;
        const JOBS: &str = "SELECT tool, reason FROM index_job ORDER BY tool";
        let jobs = index.database().fetch(JOBS, &[]).await.expect("jobs");
        assert_eq!(jobs.len(), 1, "a tool that does not exist is not looked at");
        assert_eq!(jobs[0].text(1).expect("a reason"), "reorganised");
        let history = index.events(key(1), None, 10).await.expect("a history");
        assert_eq!(history.len(), 1);
        assert!(matches!(&history[0].what, Happening::Registered { metadata_uri, .. } if metadata_uri == "https://a.example/1"));
        assert!(index.events(key(2), None, 10).await.expect("a history").is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_unlists_and_a_removal_keeps_the_last_configuration() {
    for (_place, index) in indexes().await {
        let script = Script::start().await;
        let (creator, hash) = (Address::repeat_byte(7), B256::repeat_byte(3));
        script.change(|world| {
            for id in 1..=4 {
                world.grow(vec![registered(id, creator, Address::ZERO, "https://a.example/1", hash)]);
            }
        });
        let mut following = follower(&index, &script);
        catch_up(&mut following, &script).await;
        index.database().execute("UPDATE index_tool SET listed = TRUE", &[]).await.expect("listed");
        let predicate = Address::repeat_byte(0x55);
        script.change(|world| {
            world.grow(vec![updated(1, "https://a.example/1", B256::repeat_byte(4)), gated(2, predicate), deregistered(3)]);
        });
        catch_up(&mut following, &script).await;
        const TOOLS: &str = "SELECT listed FROM index_tool ORDER BY tool";
        let rows = index.database().fetch(TOOLS, &[]).await.expect("tools");
        let listed: Vec<bool> = rows.iter().map(|row| row.boolean(0).expect("a flag")).collect();
        assert_eq!(listed, [false, true, false, true]);
        let keys: Vec<_> = (1..=4).map(|id| ToolKey { registry: RegistryId(1), id: U256::from(id) }).collect();
        let tools = index.tools(&keys).await.expect("tools");
        assert_eq!(tools[1].row.predicate, Some(predicate));
        assert!(!tools[2].row.is_active());
        assert_eq!((tools[2].row.metadata_uri.as_str(), tools[2].row.events), ("https://a.example/1", 2));
        assert_eq!(index.events(keys[2], None, 10).await.expect("a history").len(), 2);
        check(&index, &script).await;
    }
}

// req: IDX-003
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upgrades_of_known_predicates_are_told_to_their_tools() {
    for (_place, index) in indexes().await {
        let script = Script::start().await;
        let (predicate, other) = (Address::repeat_byte(0x51), Address::repeat_byte(0x52));
        let hash = B256::repeat_byte(1);
        script.change(|world| {
            // Before anybody named it: not ours.
            world.grow(vec![upgraded(predicate, Address::repeat_byte(1))]);
            world.grow(vec![
                upgraded(predicate, Address::repeat_byte(2)),
                registered(1, Address::ZERO, predicate, "https://a.example/1", hash),
                upgraded(predicate, Address::repeat_byte(3)),
                upgraded(other, Address::repeat_byte(4)),
            ]);
            world.grow(vec![registered(2, Address::ZERO, Address::ZERO, "https://a.example/2", hash)]);
            (0..200).for_each(|_| world.grow(Vec::new()));
        });
        let mut following = follower(&index, &script);
        catch_up(&mut following, &script).await;
        let seen = index.last_change().await.expect("the feed");
        take_in(&index).await;
        index.database().execute("DELETE FROM index_job", &[]).await.expect("done");
        script.change(|world| {
            world.grow(vec![upgraded(predicate, Address::repeat_byte(5)), upgraded(other, Address::repeat_byte(6))])
        });
        catch_up(&mut following, &script).await;
        check(&index, &script).await;
        let changes = index.changes(seen, 10).await.expect("changes");
        assert_eq!(changes.len(), 1);
        assert_eq!((changes[0].key.id, changes[0].kinds), (U256::from(1), Kinds::UPGRADED));
        take_in(&index).await;
        let jobs = index.database().fetch("SELECT reason FROM index_job", &[]).await.expect("jobs");
        assert_eq!(jobs.iter().map(|row| row.text(0).expect("text")).collect::<Vec<_>>(), ["upgraded"]);
        // Once another predicate is named, its upgrades count, and those of the old one are no longer the tool's.
        script.change(|world| {
            world.grow(vec![
                gated(1, other),
                upgraded(other, Address::repeat_byte(7)),
                upgraded(predicate, Address::repeat_byte(8)),
            ]);
        });
        catch_up(&mut following, &script).await;
        check(&index, &script).await;
        let history = index.events(ToolKey { registry: RegistryId(1), id: U256::from(1) }, None, 100).await.expect("a history");
        let code: Vec<_> = history
            .iter()
            .filter_map(|event| match event.what {
                Happening::Upgraded { implementation, .. } => Some(implementation[0]),
                _ => None,
            })
            .collect();
        assert_eq!(code, [3, 5, 7]);
        // Page by page it is the same.
        let mut paged = Vec::new();
        while let Ok(page) =
            index.events(history_key(), paged.last().map(|event: &toolcrib_index::follow::ToolEvent| event.place), 2).await
            && !page.is_empty()
        {
            paged.extend(page);
        }
        assert_eq!(paged, history);
    }
}

fn history_key() -> ToolKey {
    ToolKey { registry: RegistryId(1), id: U256::from(1) }
}

/// A chain with faults gives what a chain without gives.
async fn with_fault(
    fault: impl Fn(&World, &str, &serde_json::Value) -> Option<Reply> + Send + Sync + Clone + 'static,
) -> Vec<toolcrib_index::follow::Progress> {
    let mut all = Vec::new();
    for (_place, index) in indexes().await {
        let script = Script::start().await;
        script.change(|world| grow(world, 250, 5));
        script.change(|world| world.fault = Some(Arc::new(fault.clone())));
        let mut following = follower(&index, &script);
        catch_up(&mut following, &script).await;
        for round in 0..4 {
            script.change(|world| grow(world, 3, 100 + round));
            catch_up(&mut following, &script).await;
        }
        script.change(|world| world.fault = None);
        check(&index, &script).await;
        all.push(*following.progress().borrow());
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_that_are_too_large_are_cut() {
    let progress = with_fault(|_, method, params| {
        if method != "eth_getLogs" || params[0]["blockHash"].is_string() {
            return None;
        }
        let (from, to) = range(&params[0]);
        match to - from {
            0..=4 => None,
            5..=9 => Some(Reply::Error(-32_005, "query returned more than 10000 results".to_owned(), json!(null))),
            10..=20 => Some(Reply::Http(413, Vec::new())),
            _ => Some(Reply::Endless),
        }
    })
    .await;
    assert!(progress.iter().all(|progress| progress.refusals > 3 && progress.errors == 0), "{progress:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rate_limits_and_broken_connections_are_waited_out() {
    with_fault(|world, method, _| {
        let count: u64 = world.asked.values().sum();
        match (count % 7, method) {
            (2, _) => Some(Reply::Http(429, Vec::new())),
            (4, _) => Some(Reply::Error(429, "rate limit exceeded".to_owned(), json!(null))),
            (5, "eth_getLogs") => Some(Reply::HangUp),
            (6, "eth_getBlockByNumber") => Some(Reply::Http(503, Vec::new())),
            _ => None,
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_that_nobody_asked_for_are_left_out() {
    let progress = with_fault(|world, method, params| {
        if method != "eth_getLogs" {
            return None;
        }
        let mut logs = world.asked_logs(&params[0]);
        // Others' blocks, others' addresses, taken back, twice, out of order, and names without substance.
        for number in 0..world.head().min(60) {
            logs.extend(world.logs(number, &[REGISTRY]));
        }
        for log in logs.clone().into_iter().take(20) {
            let mut removed = log.clone();
            removed["removed"] = json!(true);
            removed["logIndex"] = json!("0x77");
            let mut foreign = log.clone();
            foreign["address"] = json!(Address::repeat_byte(0xee));
            let mut hollow = log;
            hollow["topics"].as_array_mut().expect("topics").truncate(1);
            hollow["logIndex"] = json!("0x78");
            logs.extend([removed, foreign, hollow]);
        }
        logs.reverse();
        Some(Reply::Result(json!(logs)))
    })
    .await;
    assert!(progress.iter().all(|progress| progress.strays > 100 && progress.malformed > 10), "{progress:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_that_are_missing_at_first_are_waited_for() {
    let progress = with_fault(|world, method, params| {
        let asked = world.asked.get("eth_getBlockByNumber").copied().unwrap_or_default();
        params[0].as_str().filter(|text| method == "eth_getBlockByNumber" && text.starts_with("0x"))?;
        (asked % 60 < 24).then(|| Reply::Result(json!(null)))
    })
    .await;
    assert!(progress.iter().all(|progress| progress.errors > 0), "{progress:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_that_a_header_promises_are_asked_for_by_its_hash() {
    let progress = with_fault(|world, method, params| {
        let (_, to) = params[0]["toBlock"].is_string().then(|| range(&params[0]))?;
        // The node does not know its newest logs yet.
        (method == "eth_getLogs" && to == world.head()).then(|| {
            let mut logs = world.asked_logs(&params[0]);
            logs.retain(|log| quantity(log["blockNumber"].as_str().expect("a block")) + 3 < world.head());
            Reply::Result(json!(logs))
        })
    })
    .await;
    assert!(progress.iter().all(|progress| progress.missed > 0), "{progress:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_that_come_late_are_found_by_reading_again() {
    for (_place, index) in indexes().await {
        let script = Script::start().await;
        script.change(|world| {
            grow(world, 100, 5);
            world.no_bloom = true;
            world.grow(events(4, 3));
            world.fault = Some(Arc::new(|world: &World, method: &str, params: &serde_json::Value| {
                (method == "eth_getLogs").then(|| {
                    let mut logs = world.asked_logs(&params[0]);
                    logs.retain(|log| quantity(log["blockNumber"].as_str().expect("a block")) < 101);
                    Reply::Result(json!(logs))
                })
            }));
        });
        let mut following = follower(&index, &script);
        catch_up(&mut following, &script).await;
        script.change(|world| {
            world.fault = None;
            world.grow(Vec::new());
        });
        catch_up(&mut following, &script).await;
        assert!(following.progress().borrow().missed > 0);
        check(&index, &script).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_behind_takes_nothing_back() {
    for (_place, index) in indexes().await {
        let (ahead, behind) = (Script::start().await, Script::start().await);
        ahead.change(|world| grow(world, 120, 3));
        let blocks = ahead.change(|world| world.blocks.clone());
        behind.change(|world| world.blocks = blocks[..100].to_vec());
        let mut following = follower(&index, &ahead);
        catch_up(&mut following, &ahead).await;
        let before = dump(&index).await;
        release(&index).await;
        let mut other = follower(&index, &behind);
        for _ in 0..3 {
            assert_eq!(other.step().await.expect("a step"), Step::Idle);
        }
        assert_eq!(dump(&index).await, before);
        // The two as one: whichever answers, the head never goes back for long.
        let chain = Chain::lazy(config(&[&behind.node, &ahead.node])).expect("a client");
        behind.change(|world| {
            world.fault = Some(Arc::new(|world: &World, _: &str, _: &serde_json::Value| {
                let count: u64 = world.asked.values().sum();
                count.is_multiple_of(2).then(|| Reply::Http(502, Vec::new()))
            }));
        });
        ahead.change(|world| grow(world, 10, 8));
        ahead.change(|world| {
            world.fault = Some(Arc::new(|world: &World, _: &str, _: &serde_json::Value| {
                let count: u64 = world.asked.values().sum();
                count.is_multiple_of(5).then(|| Reply::Http(502, Vec::new()))
            }));
        });
        release(&index).await;
        let mut both = Follower::new(index.clone(), chain.clone(), REGISTRY, options(&chain));
        catch_up(&mut both, &ahead).await;
        ahead.change(|world| world.fault = None);
        check(&index, &ahead).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_that_people_rewind_is_believed_when_that_was_asked_for() {
    for (_place, index) in indexes().await {
        let script = Script::start().await;
        script.change(|world| grow(world, 120, 3));
        let chain = script.chain();
        let mut options = options(&chain);
        options.shrinks = true;
        let mut following = Follower::new(index.clone(), chain, REGISTRY, options);
        catch_up(&mut following, &script).await;
        script.change(|world| world.cut(50));
        catch_up(&mut following, &script).await;
        check(&index, &script).await;
    }
}

/// How many of the two sets of indexes for readers are there.
async fn prepared(index: &Index) -> i64 {
    const SETS: &str =
        "SELECT COUNT(*) FROM toolcrib_migration WHERE version = 1 AND module IN ('index.tools.indexes', 'index.follow.indexes')";
    index.database().fetch(SETS, &[]).await.expect("a count")[0].integer(0).expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_past_comes_first_and_then_the_indexes_of_readers() {
    for (_place, index) in indexes().await {
        let script = Script::start().await;
        script.change(|world| grow(world, 300, 3));
        let mut following = follower(&index, &script);
        assert_eq!(following.step().await.expect("a step"), Step::Advanced);
        assert!(following.progress().borrow().checkpoint > 0);
        assert_eq!(prepared(&index).await, 0);
        // Whoever reads too early gets the same answers.
        let key = ToolKey { registry: RegistryId(1), id: U256::from(1) };
        let early = index.events(key, None, 10).await.expect("a history");
        assert!(!early.is_empty());
        catch_up(&mut following, &script).await;
        assert_eq!(prepared(&index).await, 2);
        assert!(index.events(key, None, 100).await.expect("a history").starts_with(&early));
        check(&index, &script).await;
    }
    for (_place, index) in indexes().await {
        let script = Script::start().await;
        script.change(|world| grow(world, 300, 3));
        let mut following = follower(&index, &script);
        assert_eq!(following.step().await.expect("a step"), Step::Advanced);
        assert_eq!(prepared(&index).await, 0);
        script.change(|world| {
            world.cut(60);
            grow(world, 70, 9);
        });
        assert_eq!(following.step().await.expect("a step"), Step::Unwound);
        assert_eq!(prepared(&index).await, 2, "tools are folded again from their histories");
        catch_up(&mut following, &script).await;
        check(&index, &script).await;
    }
    // A past that takes long does not keep readers waiting for its end.
    for (_place, index) in indexes().await {
        let script = Script::start().await;
        script.change(|world| grow(world, 300, 3));
        let chain = script.chain();
        let mut options = options(&chain);
        options.without_indexes = Duration::ZERO;
        let mut following = Follower::new(index.clone(), chain, REGISTRY, options);
        assert_eq!(following.step().await.expect("a step"), Step::Advanced);
        assert_eq!(prepared(&index).await, 2);
        catch_up(&mut following, &script).await;
        check(&index, &script).await;
    }
}

// req: IDX-004
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_code_of_the_registry_is_kept_and_its_change_is_seen() {
    for (_place, index) in indexes().await {
        let script = Script::start().await;
        script.change(|world| grow(world, 30, 3));
        let mut following = follower(&index, &script);
        catch_up(&mut following, &script).await;
        let state = index.registries().await.expect("registries")[0].state;
        assert_eq!((state.code_hash, state.code_changed_at), (Some(keccak256([0x60, 0x01])), None));
        assert_eq!((state.head, state.checkpoint, state.finalized), (30, 30, 10));
        release(&index).await;
        script.change(|world| {
            world.fault = Some(Arc::new(|_: &World, method: &str, _: &serde_json::Value| {
                (method == "eth_getCode").then(|| Reply::Result(json!("0x6002")))
            }));
            grow(world, 1, 4);
        });
        catch_up(&mut follower(&index, &script), &script).await;
        let state = index.registries().await.expect("registries")[0].state;
        assert_eq!((state.code_hash, state.code_changed_at), (Some(keccak256([0x60, 0x02])), Some(NOW.seconds())));
    }
}
