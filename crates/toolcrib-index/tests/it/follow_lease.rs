//! Several followers of one registry: one holds the lease, the others are on standby, and a follower that lost the lease writes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256};
use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_index::Index;
use toolcrib_index::follow::{FollowOptions, Follower, Step};

use crate::follow_forks::{check, check_trust, events, grow};
use crate::scripted::{REGISTRY, Script, World, quantity, registered};
use toolcrib_testkit::databases::{Backend, TestStore};
use toolcrib_testkit::nodes::fake::Reply;

/// A clock that the test advances.
#[derive(Debug, Default)]
struct Turned(AtomicI64);

impl Clock for Turned {
    fn now(&self) -> UnixTime {
        UnixTime::from_seconds(1_800_000_000 + self.0.load(Ordering::SeqCst))
    }
}

fn follower(index: &Index, script: &Script, clock: &Arc<Turned>) -> Follower {
    let chain = script.chain();
    let mut options = FollowOptions::of(chain.network(), Arc::<Turned>::clone(clock));
    options.poll = Duration::from_millis(5);
    options.finality_depth = 20;
    options.lease_seconds = 30;
    options.numbering = false;
    Follower::new(index.clone(), chain, REGISTRY, options)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_and_another_takes_over_when_it_falls_silent() {
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some(place) = TestStore::new(backend).await else { continue };
        // As two processes: each has its own pool.
        let first_index = Index::open(place.database().await).await.expect("an index");
        let second_index = Index::open(place.database().await).await.expect("an index");
        let script = Script::start().await;
        script.change(|world| grow(world, 100, 3));
        let clock = Arc::new(Turned::default());
        let (mut first, mut second) = (follower(&first_index, &script, &clock), follower(&second_index, &script, &clock));
        first.catch_up_to(100).await.expect("caught up");
        assert_eq!(second.step().await.expect("a step"), Step::Waiting);
        clock.0.fetch_add(20, Ordering::SeqCst);
        script.change(|world| grow(world, 1, 4));
        first.catch_up_to(101).await.expect("caught up");
        clock.0.fetch_add(20, Ordering::SeqCst);
        assert_eq!(second.step().await.expect("a step"), Step::Waiting, "what is written renews the lease");
        // The first is suspended for a minute. Then the second has the lease, and nothing to write yet.
        clock.0.fetch_add(31, Ordering::SeqCst);
        assert_eq!(second.step().await.expect("a step"), Step::Idle);
        script.change(|world| grow(world, 5, 5));
        let stale = first.step().await.expect_err("it writes nothing");
        assert_eq!(stale.code().id(), "index.lease_lost");
        second.catch_up_to(106).await.expect("caught up");
        script.change(|world| grow(world, 5, 6));
        assert_eq!(first.step().await.expect("a step"), Step::Waiting);
        second.catch_up_to(111).await.expect("caught up");
        check(&second_index, &script).await;
    }
}

/// The first reads a range, and while it waits for the node another takes over and writes that range.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_leader_cannot_commit() {
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some(place) = TestStore::new(backend).await else { continue };
        let index = Index::open(place.database().await).await.expect("an index");
        let (slow, quick) = (Script::start().await, Script::start().await);
        quick.change(|world| {
            grow(world, 60, 3);
            world.grow(vec![registered(99, Address::ZERO, Address::ZERO, "https://a.example/", B256::repeat_byte(1))]);
        });
        let blocks = quick.change(|world| world.blocks.clone());
        let clock = Arc::new(Turned::default());
        let turned = Arc::clone(&clock);
        slow.change(|world| {
            world.blocks = blocks;
            world.fault = Some(Arc::new(move |_: &World, method: &str, _: &serde_json::Value| {
                if method == "eth_getLogs" {
                    // Longer than the lease.
                    turned.0.fetch_add(31, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(300));
                }
                None::<Reply>
            }));
        });
        let (mut first, mut second) = (follower(&index, &slow, &clock), follower(&index, &quick, &clock));
        let stale = tokio::spawn(async move { first.step().await });
        while clock.0.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        second.catch_up_to(61).await.expect("caught up");
        let stale = stale.await.expect("no panic").expect_err("it writes nothing");
        assert_eq!(stale.code().id(), "index.lease_lost");
        check(&index, &quick).await;
    }
}

/// A leader reads new blocks and the last ones again. While the node is slow, another takes over and writes the new ones: the node omitted
/// none of them, and the first leader must not record omissions any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_leader_accuses_no_node() {
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        for hides in [false, true] {
            let Some(place) = TestStore::new(backend).await else { continue };
            let index = Index::open(place.database().await).await.expect("an index");
            let (slow, quick) = (Script::start().await, Script::start().await);
            let follow_quick = |world: &mut World| world.blocks = quick.change(|quick| quick.blocks.clone());
            quick.change(|world| grow(world, 60, 3));
            slow.change(follow_quick);
            let clock = Arc::new(Turned::default());
            let (mut first, mut second) = (follower(&index, &slow, &clock), follower(&index, &quick, &clock));
            first.catch_up_to(60).await.expect("caught up");
            quick.change(|world| (0..3).for_each(|n| world.grow(events(90 + n, 3))));
            slow.change(follow_quick);
            let is_written = Arc::new(AtomicBool::new(false));
            let (turned, go_on) = (Arc::clone(&clock), Arc::clone(&is_written));
            slow.change(|world| {
                world.fault = Some(Arc::new(move |world: &World, method: &str, params: &serde_json::Value| {
                    if method != "eth_getLogs" || go_on.load(Ordering::SeqCst) {
                        return None;
                    }
                    // Longer than the lease, and until the other has finished.
                    turned.0.fetch_add(31, Ordering::SeqCst);
                    let begun = Instant::now();
                    while !go_on.load(Ordering::SeqCst) && begun.elapsed() < Duration::from_secs(30) {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    let mut logs = world.asked_logs(&params[0]);
                    logs.retain(|log| !hides || quantity(log["blockNumber"].as_str().expect("a block")) > 60);
                    Some(Reply::Result(serde_json::json!(logs)))
                }));
            });
            let progress = first.progress();
            let stale = tokio::spawn(async move { first.step().await });
            while clock.0.load(Ordering::SeqCst) == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            second.catch_up_to(63).await.expect("caught up");
            is_written.store(true, Ordering::SeqCst);
            let stale = stale.await.expect("no panic").expect_err("it writes nothing");
            assert_eq!(stale.code().id(), "index.lease_lost");
            check_trust(&index).await;
            assert_eq!(progress.borrow().missed, 0, "hides: {hides}");
            check(&index, &quick).await;
        }
    }
}

/// Four run concurrently, and each is stopped in turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_ends_hands_over_and_nothing_is_lost_or_doubled() {
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some(place) = TestStore::new(backend).await else { continue };
        let script = Script::start().await;
        script.change(|world| grow(world, 50, 3));
        let clock = Arc::new(Turned::default());
        let mut running = Vec::new();
        for n in 0..4 {
            let index = Index::open(place.database().await).await.expect("an index");
            let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
            let following = follower(&index, &script, &clock);
            let progress = following.progress();
            // Every second one is killed without releasing: its lease must expire.
            let task = tokio::spawn(following.run(async move { drop(stopped.await) }));
            running.push((n, stop, progress, task));
        }
        let index = Index::open(place.database().await).await.expect("an index");
        let mut head = 50;
        while !running.is_empty() {
            let reached = async {
                loop {
                    let leader = running.iter().position(|(_, _, progress, _)| {
                        let progress = progress.borrow();
                        progress.leads && progress.checkpoint == head as i64
                    });
                    if let Some(leader) = leader {
                        break leader;
                    }
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let leader = tokio::time::timeout(Duration::from_secs(60), reached).await.expect("somebody leads");
            assert_eq!(running.iter().filter(|(_, _, progress, _)| progress.borrow().leads).count(), 1);
            script.change(|world| grow(world, 40, head));
            head += 40;
            let (n, stop, _, task) = running.remove(leader);
            if n % 2 == 0 {
                drop(stop);
                task.await.expect("no panic").expect("in order");
            } else {
                task.abort();
                let _ = task.await;
                clock.0.fetch_add(31, Ordering::SeqCst);
            }
        }
        let mut last = follower(&index, &script, &clock);
        clock.0.fetch_add(31, Ordering::SeqCst);
        last.catch_up_to(head).await.expect("caught up");
        check(&index, &script).await;
    }
}
