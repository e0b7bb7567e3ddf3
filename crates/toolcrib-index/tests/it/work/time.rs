//! When tools are looked at: freshness, outages, growing pauses, and who goes first.

use serde_json::json;
use toolcrib_core::clock::Clock as _;
use toolcrib_index::feed::Kinds;
use toolcrib_index::listing::Verdict;
use toolcrib_index::work::{Reason, Wanted};
use toolcrib_store::database::Value;

use super::{Stage, World, manifest, uri};
use toolcrib_testkit::servers::{NOW, ok};

const JOB: &str = "SELECT due_at, attempts, reason FROM index_job WHERE registry = $1 AND tool = $2";

/// Seconds until a tool is looked at again, and how often it was in vain.
async fn next(stage: &Stage, id: alloy_primitives::U256) -> (i64, i64, String) {
    let key = stage.key(id);
    let bytes = key.id_bytes();
    let values = [Value::Integer(key.registry.0), Value::Bytes(&bytes)];
    let row = stage.index.database().fetch_optional(JOB, &values).await.expect("read").expect("a job");
    let due = row.get::<i64>("due_at").expect("a time") - stage.clock.now().seconds();
    (due, row.get("attempts").expect("a number"), row.get("reason").expect("a word"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_hides_nothing_until_the_time_is_over() {
    let world = World::start().await;
    let hash = super::hash_of(manifest("tools.example").to_string().as_bytes());
    let id = world.register(0, &uri("tools.example"), hash, None);
    for stage in world.stages().await {
        let bytes = manifest("tools.example").to_string().into_bytes();
        let server = world.net.honest("tools.example", move |_| ok(&bytes)).await;
        let start = stage.clock.now();
        stage.follow(&world, id).await;
        stage.work(&world).await;
        assert_eq!(stage.listed().await, [id]);
        let cursor = stage.index.last_change().await.expect("a number");
        drop(server);
        // Nobody listens any more: it could be them, it could be us.
        let mut pauses = Vec::new();
        while stage.clock.now() < start.plus(86_300) {
            stage.clock.advance(next(&stage, id).await.0.max(1));
            let round = stage.work(&world).await;
            if stage.clock.now() >= start.plus(86_400) {
                break;
            }
            assert_eq!((round.kept, round.written), (1, 0), "{round:?}");
            assert_eq!(stage.listed().await, [id], "after {} s", stage.clock.now().since(start));
            pauses.push(next(&stage, id).await.0);
        }
        assert_eq!(pauses[..5], [60, 120, 240, 480, 960], "twice as long each time");
        assert!(pauses.iter().all(|pause| *pause <= 3_600) && pauses.last() == Some(&3_600), "{pauses:?}");
        let listing = stage.listing(id).await;
        assert_eq!(listing.checked_at, start, "it says when it was last known");
        assert_eq!((listing.health.answered, listing.health.status()), (1, "degraded"));

        stage.clock.advance(start.plus(86_401).since(stage.clock.now()).max(0));
        stage.work(&world).await;
        assert!(stage.listed().await.is_empty());
        let listing = stage.listing(id).await;
        assert_eq!((listing.verified, listing.verdict), (false, Verdict::Unknown));
        assert_eq!(listing.failed.map(|failed| failed.code).as_deref(), Some("verify.stale"));
        assert!(
            stage.index.changes(cursor, 9).await.expect("changes").iter().any(|change| change.kinds.has(Kinds::VERIFICATION))
        );
        let verdicts = stage.index.verdicts(stage.key(id), 9).await.expect("a history");
        assert_eq!(verdicts.len(), 2, "{verdicts:?}");

        // It comes back.
        let bytes = manifest("tools.example").to_string().into_bytes();
        let _server = world.net.honest("tools.example", move |_| ok(&bytes)).await;
        stage.clock.advance(3_960);
        assert_eq!(stage.work(&world).await.written, 1);
        assert_eq!(stage.listed().await, [id]);
        stage.clock.advance(start.since(stage.clock.now()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_max_age_means_more_looks_and_not_fewer_tools() {
    let world = World::start().await;
    let (every, _a) = world.tool("every.example", |document| document["maxAge"] = json!(0)).await;
    let (half, _b) = world.tool("half.example", |document| document["maxAge"] = json!(1_800)).await;
    let (none, _c) = world.tool("none.example", |_| {}).await;
    for stage in world.stages().await {
        for id in [every, half, none] {
            stage.follow(&world, id).await;
        }
        stage.work(&world).await;
        assert_eq!(stage.listed().await.len(), 3);
        for (id, due, expires) in [(every, 600, 1_200), (half, 900, 1_800), (none, 3_600, 86_400)] {
            let (next, attempts, reason) = next(&stage, id).await;
            assert!((due..=due + due / 10).contains(&next), "{next}");
            assert_eq!((attempts, reason.as_str()), (0, "expired"));
            assert_eq!(stage.listing(id).await.expires_at, NOW.plus(expires));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_refused_is_looked_at_less_and_less() {
    let world = World::start().await;
    let _server = world.net.honest("bad.example", |_| ok(b"{}")).await;
    let id = world.register(0, &uri("bad.example"), alloy_primitives::B256::repeat_byte(5), None);
    for stage in world.stages().await {
        let start = stage.clock.now();
        stage.follow(&world, id).await;
        let mut last = 0;
        for attempt in 1..=12 {
            assert_eq!(stage.work(&world).await.written, 1);
            let (due, attempts, reason) = next(&stage, id).await;
            assert_eq!((attempts, reason.as_str()), (attempt, "expired"));
            let wanted = (3_600_i64 << (attempt - 1)).min(7 * 86_400);
            assert!((wanted..=wanted + wanted / 10).contains(&due), "{attempt}: {due}");
            assert!(due >= last, "{attempt}");
            last = due;
            stage.clock.advance(due);
        }
        assert_eq!(stage.index.verdicts(stage.key(id), 9).await.expect("a history").len(), 1, "the answer never changed");
        stage.clock.advance(start.since(stage.clock.now()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_goes_first_and_those_who_are_listed_are_not_forgotten() {
    let world = World::start().await;
    for stage in world.stages().await {
        let keys = super::scripted::fill(&stage.index, 40).await;
        assert_eq!(stage.queue.intake(NOW).await.expect("taken in"), 40);
        // As if each had a creator of its own.
        let apart = "UPDATE index_job SET due_at = due_at - early, early = 0";
        stage.index.database().execute(apart, &[]).await.expect("apart");
        let mark = "UPDATE index_job SET reason = 'expired', priority = 3 WHERE registry = $1 AND tool = $2";
        for key in &keys[..8] {
            let id = key.id_bytes();
            let values = [Value::Integer(key.registry.0), Value::Bytes(&id)];
            stage.index.database().execute(mark, &values).await.expect("marked");
        }
        assert!(stage.queue.request(keys[37], NOW).await.expect("asked"));
        assert!(stage.queue.request(keys[37], NOW).await.expect("asked twice, one job"));
        let nobody = toolcrib_index::model::ToolKey { id: alloy_primitives::U256::from(999), ..keys[0] };
        assert!(!stage.queue.request(nobody, NOW).await.expect("no such tool"));
        let state = stage.index.queue_state(NOW).await.expect("a state");
        assert_eq!((state.due, state.leased, state.oldest_due), (40, 0, Some(NOW)));

        let jobs = stage.queue.lease(Wanted { count: 8, slow: 0, seconds: 60, registries: None }, NOW).await.expect("jobs");
        assert_eq!(jobs.len(), 8);
        assert_eq!(jobs.iter().filter(|job| job.reason == Reason::Expired).count(), 2, "a quarter is theirs");
        assert!(jobs.iter().any(|job| job.key == keys[37] && job.reason == Reason::Requested));
        let state = stage.index.queue_state(NOW).await.expect("a state");
        assert_eq!((state.due, state.leased), (32, 8));
        let later = "UPDATE index_job SET priority = 9, reason = 'tomorrow' WHERE registry = $1 AND tool = $2";
        let id = keys[20].id_bytes();
        let values = [Value::Integer(keys[20].registry.0), Value::Bytes(&id)];
        stage.index.database().execute(later, &values).await.expect("a word of a later program");
        let only = [toolcrib_index::model::RegistryId(77)];
        let others = Wanted { count: 8, slow: 0, seconds: 60, registries: Some(&only) };
        assert!(stage.queue.lease(others, NOW).await.expect("none").is_empty(), "of another registry");
        // All of them, once each; then nothing until the leases end.
        let mut all: Vec<_> = jobs.iter().map(|job| job.key).collect();
        loop {
            let more = stage.queue.lease(Wanted { count: 7, slow: 0, seconds: 60, registries: None }, NOW).await.expect("jobs");
            if more.is_empty() {
                break;
            }
            all.extend(more.iter().map(|job| job.key));
        }
        all.sort();
        assert_eq!(all, keys);
        let later = NOW.plus(61);
        let wanted = Wanted { count: 64, slow: 0, seconds: 60, registries: None };
        let back = stage.queue.lease(wanted, later).await.expect("jobs");
        assert_eq!(back.len(), 39, "the leases of a dead worker come back");
        let last = stage.queue.lease(wanted, later).await.expect("jobs");
        assert!(last.len() == 1 && last[0].key == keys[20], "what a later program wrote comes last");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_nobody_answers_it_is_our_own_network() {
    const TOOLS: usize = 12;
    let world = World::start().await;
    let mut tools = Vec::new();
    for number in 0..TOOLS {
        tools.push(world.tool(&format!("t{number}.example"), |_| {}).await);
    }
    let (ids, servers): (Vec<_>, Vec<_>) = tools.into_iter().unzip();
    let stages = world.stages().await;
    for stage in &stages {
        for id in &ids {
            stage.follow(&world, *id).await;
        }
        assert_eq!(stage.work(&world).await.written, TOOLS);
    }
    drop(servers);
    stages[0].clock.advance(3_960);
    for stage in &stages {
        assert_eq!(stage.work(&world).await.kept, TOOLS);
        let mut counted = 0;
        for id in &ids {
            counted += stage.listing(*id).await.health.looks - 1;
        }
        assert_eq!(counted, 7, "from the eighth origin on it says nothing about them");
    }
}

/// Registers tools whose servers are gone, each on a site and a network of its own.
async fn dead(world: &World, count: usize) -> Vec<alloy_primitives::U256> {
    let mut ids = Vec::new();
    for number in 0..count {
        let (host, address) = (format!("dead{number}.example"), format!("5.200.{number}.1"));
        world.net.recorder.host(&host, &[&address]);
        world.net.recorder.fail(&address, std::io::ErrorKind::ConnectionRefused);
        ids.push(world.register(1, &uri(&host), alloy_primitives::B256::repeat_byte(9), None));
    }
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_origins_are_not_taken_for_an_outage_of_ours() {
    const DEAD: usize = 24;
    let world = World::start().await;
    let (honest, server) = world.tool("honest.example", |_| {}).await;
    let ids = dead(&world, DEAD).await;
    for stage in world.stages().await {
        stage.follow(&world, honest).await;
        assert_eq!(stage.work(&world).await.written, 1);
        for id in &ids {
            stage.follow(&world, *id).await;
        }
        // One worker that sees nothing but dead servers for a long time.
        stage.clock.advance(600);
        let asked = server.requests().len();
        let round = stage.work(&world).await;
        assert_eq!(round.written, DEAD, "{round:?}");
        for id in &ids {
            let health = stage.listing(*id).await.health;
            assert_eq!((health.looks, health.answered), (1, 0), "{id}: its silence counts, however many others are silent");
        }
        assert_eq!(server.requests().len() - asked, 1, "one probe of a server that is known for long");
        stage.clock.advance(-600);
    }
}
