//! Nodes that misbehave give the same index as nodes that do not.

use std::sync::Arc;

use alloy_primitives::Address;
use serde_json::json;

use super::{catch_up, check, events, follower, grow, indexes};
use crate::scripted::{REGISTRY, Script, World, quantity, range};
use toolcrib_testkit::nodes::fake::Reply;

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
