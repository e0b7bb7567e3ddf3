//! What following leaves for others: listings, jobs, the indexes of readers, and the code of the registry.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, B256, U256, keccak256};
use serde_json::json;
use toolcrib_index::Index;
use toolcrib_index::feed::Kinds;
use toolcrib_index::follow::{EventKind, Follower, Step};
use toolcrib_index::model::{RegistryId, ToolKey};

use super::{NOW, catch_up, check, follower, grow, indexes, options, release, take_in};
use crate::scripted::{REGISTRY, Script, World, deregistered, gated, registered, updated, upgraded};
use toolcrib_testkit::nodes::fake::Reply;

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
        let listed: Vec<bool> = rows.iter().map(|row| row.scalar::<bool>().expect("a flag")).collect();
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
        assert_eq!(jobs.iter().map(|row| row.scalar::<&str>().expect("text")).collect::<Vec<_>>(), ["upgraded"]);
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
                EventKind::Upgraded { implementation, .. } => Some(implementation[0]),
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

/// How many of the two sets of indexes for readers are there.
async fn prepared(index: &Index) -> i64 {
    const SETS: &str =
        "SELECT COUNT(*) FROM toolcrib_migration WHERE version = 1 AND module IN ('index.tools.indexes', 'index.follow.indexes')";
    index.database().fetch(SETS, &[]).await.expect("a count")[0].scalar::<i64>().expect("a number")
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
