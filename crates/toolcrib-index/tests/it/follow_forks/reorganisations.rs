//! Chains that change their mind: what was taken in is taken back, at any depth.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use alloy_primitives::{Address, B256, U256};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use toolcrib_chain::rpc::Chain;
use toolcrib_index::Index;
use toolcrib_index::feed::Kinds;
use toolcrib_index::follow::{EventKind, Follower, Step};
use toolcrib_index::model::{RegistryId, ToolKey};
use toolcrib_store::database::Value;

use super::{catch_up, check, check_trust, dump, events, follower, grow, indexed, indexes, model, options, release, take_in};
use crate::scripted::{REGISTRY, Script, World, registered, updated};
use toolcrib_testkit::databases::{Backend, TestStore};
use toolcrib_testkit::nodes::fake::{Reply, config};

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

fn property(backend: Backend, cases: u32) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, max_shrink_iters: 40, ..Config::default() });
    let result = runner.run(&acts(), |acts| {
        runtime.block_on(async {
            let Some(place) = TestStore::new(backend).await else { return };
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
        assert!(!row.get::<bool>("listed").expect("a flag"), "its URI went back, so nobody has looked at it");
        take_in(&index).await;
        const JOBS: &str = "SELECT tool, reason FROM index_job ORDER BY tool";
        let jobs = index.database().fetch(JOBS, &[]).await.expect("jobs");
        assert_eq!(jobs.len(), 1, "a tool that does not exist is not looked at");
        assert_eq!(jobs[0].get::<&str>("reason").expect("a reason"), "reorganised");
        let history = index.events(key(1), None, 10).await.expect("a history");
        assert_eq!(history.len(), 1);
        assert!(matches!(&history[0].what, EventKind::Registered { metadata_uri, .. } if metadata_uri == "https://a.example/1"));
        assert!(index.events(key(2), None, 10).await.expect("a history").is_empty());
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
