//! One author, one domain or many slow servers cannot keep other tools waiting.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, U256};
use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_fetch::Limits;
use toolcrib_index::feed::Kinds;
use toolcrib_index::model::ToolKey;
use toolcrib_index::work::{Wanted, WorkOptions, Worker};
use toolcrib_store::database::{Bulk, Column, Value};

use super::{Followed, Stage, World, hash_of, manifest, put, uri};
use toolcrib_testkit::servers::{NOW, Script, Server, Step, ok};

/// A clock that starts at [`NOW`] and runs as fast as the machine's.
#[derive(Clone, Copy, Debug)]
struct Running(Instant);

impl Clock for Running {
    fn now(&self) -> UnixTime {
        NOW.plus(i64::try_from(self.0.elapsed().as_secs()).expect("small"))
    }
}

/// Origins that answer at once and then send a byte every 100 ms, never long enough to be silent.
async fn dripping(world: &World, count: usize, host: impl Fn(usize) -> String) -> (Vec<U256>, Vec<Server>) {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n".to_vec();
    let (mut ids, mut servers) = (Vec::new(), Vec::new());
    for number in 0..count {
        let host = host(number);
        let drip = Step::Drip(vec![b' '; 100_000], Duration::from_millis(100));
        let steps = vec![Step::ReadRequest, Step::Send(head.clone()), drip];
        servers.push(world.net.serve(&host, Script::tls(&world.net.authority.leaf(&[&host]), steps)).await);
        ids.push(world.register(number % 9 + 1, &uri(&host), B256::repeat_byte(9), None));
    }
    (ids, servers)
}

/// How long an honest tool waits that is registered while workers are at 48 origins that drip.
async fn honest_delay(stage: &Stage, world: &World, hostile: &[U256], honest: U256, at_once: usize) -> Duration {
    for id in hostile {
        stage.follow(world, *id).await;
    }
    let clock = Running(Instant::now());
    let options = WorkOptions { at_once, poll: Duration::from_millis(100), ..WorkOptions::default() };
    // The limits of a real verification: fifteen seconds for a manifest.
    let worker = Worker::new(stage.queue.clone(), world.live_with(Limits::MANIFEST), Arc::new(clock), options);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(async move { worker.run(async { drop(stopped.await) }).await });
    // Every place is taken by now.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let begun = Instant::now();
    stage.follow(world, honest).await;
    while !stage.view(honest).await.is_listed() {
        assert!(begun.elapsed() < Duration::from_secs(240), "the honest tool is never verified");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let took = begun.elapsed();
    drop(stop);
    running.abort();
    let _ = running.await;
    took
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_origins_do_not_delay_an_honest_tool() {
    for (what, hosts) in [("one domain", false), ("a domain each", true)] {
        let world = World::start().await;
        let host = |number: usize| if hosts { format!("drip{number}.example") } else { format!("d{number}.drip.example") };
        let (hostile, _servers) = dripping(&world, 48, host).await;
        let (honest, _server) = world.tool("honest.example", |_| {}).await;
        for at_once in [4, 16] {
            let stages = world.stages().await;
            let took = honest_delay(&stages[0], &world, &hostile, honest, at_once).await;
            let _ = writeln!(std::io::stderr(), "48 dripping origins, {what}, {at_once} places: honest tool after {took:?}");
            assert!(took < Duration::from_secs(15), "{what}, {at_once} places: {took:?}");
        }
    }
}

const JOBS: Bulk = Bulk { table: "index_job", columns: &["registry", "tool", "due_at", "priority", "reason"], conflict: "" };

#[tokio::test(flavor = "multi_thread")]
async fn leasing_stays_fast_with_100k_jobs() {
    const COUNT: usize = 100_000;
    let world = World::start().await;
    for stage in world.stages().await {
        let mut transaction = stage.index.database().begin().await.expect("a transaction");
        let ids: Vec<_> = (0..COUNT).map(|id| stage.key(U256::from(id + 1)).id_bytes()).collect();
        let ids: Vec<&[u8]> = ids.iter().map(|id| &**id).collect();
        let due: Vec<i64> = (0..COUNT).map(|id| NOW.seconds() + i64::try_from(id % 7_200).expect("small") - 3_600).collect();
        let priorities: Vec<i64> = (0..COUNT).map(|id| if id % 2 == 0 { 1 } else { 3 }).collect();
        let columns = [
            Column::Integers(&vec![stage.registry.0; COUNT]),
            Column::Bytes(&ids),
            Column::Integers(&due),
            Column::Integers(&priorities),
            Column::Texts(&vec!["registered"; COUNT]),
        ];
        transaction.insert_many(&JOBS, &columns).await.expect("jobs");
        transaction.commit().await.expect("committed");
        let mut times = Vec::new();
        for _ in 0..200 {
            let begun = Instant::now();
            let jobs = stage.queue.lease(Wanted { count: 16, slow: 0, seconds: 60, registries: None }, NOW).await.expect("jobs");
            times.push(begun.elapsed());
            assert_eq!(jobs.len(), 16);
        }
        times.sort();
        let engine = stage.index.database().engine();
        let _ = writeln!(
            std::io::stderr(),
            "{engine:?}: a lease of 16 of {COUNT} jobs: median {:?}, p95 {:?}",
            times[100],
            times[190]
        );
    }
}

/// A tool of this creator, as a follower writes it.
async fn registered(stage: &Stage, number: u64, creator: Address, host: &str) -> ToolKey {
    let (key, uri) = (stage.key(U256::from(number)), uri(host));
    let tool = Followed {
        creator,
        uri: &uri,
        hash: B256::repeat_byte(9),
        predicate: None,
        registered_at: NOW,
        updated_at: NOW,
        deregistered_at: None,
    };
    put(&stage.index, key, &tool, Kinds::REGISTERED).await;
    key
}

#[tokio::test(flavor = "multi_thread")]
async fn one_creator_or_domain_does_not_fill_the_queue() {
    let world = World::start().await;
    for stage in world.stages().await {
        let (flood, other) = (Address::repeat_byte(1), Address::repeat_byte(2));
        for number in 0..100 {
            registered(&stage, 1 + number, flood, &format!("a{number}.example")).await;
        }
        for number in 0..100_u8 {
            let creator = Address::repeat_byte(100 + number);
            registered(&stage, 201 + u64::from(number), creator, &format!("t{number}.flood.example")).await;
        }
        let honest = registered(&stage, 900, other, "honest.example").await;
        let first = stage.queue.lease(Wanted { count: 8, slow: 0, seconds: 60, registries: None }, NOW).await.expect("jobs");
        assert_eq!(first.len(), 8, "free places are used");
        assert!(first.iter().any(|job| job.key == honest), "the last to register is among the first: {first:?}");
    }
}

/// A server that is honest and answers after a while.
async fn late(world: &World, host: &str, after: Duration) -> (U256, Server) {
    let bytes = manifest(host).to_string().into_bytes();
    let hash = hash_of(&bytes);
    let steps = vec![Step::ReadRequest, Step::Sleep(after), Step::answer(move |_| ok(&bytes))];
    let server = world.net.serve(host, Script::tls(&world.net.authority.leaf(&[host]), steps)).await;
    (world.register(0, &uri(host), hash, None), server)
}

const JOB: &str = "SELECT priority, attempts, due_at FROM index_job WHERE registry = $1 AND tool = $2";

async fn job(stage: &Stage, id: U256) -> (i64, i64) {
    let bytes = stage.key(id).id_bytes();
    let values = [Value::Integer(stage.registry.0), Value::Bytes(&bytes)];
    let row = stage.index.database().fetch_optional(JOB, &values).await.expect("read").expect("a job");
    (row.get("priority").expect("a number"), row.get("attempts").expect("a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_try_gives_no_verdict() {
    let world = World::start().await;
    let (slow, server) = late(&world, "late.example", Duration::from_millis(1_000)).await;
    let (quick, _quick) = world.tool("quick.example", |_| {}).await;
    let options = WorkOptions { first_try: Duration::from_millis(300), ..WorkOptions::default() };
    let mut limits = toolcrib_testkit::servers::quick();
    (limits.idle, limits.total) = (Duration::from_secs(10), Duration::from_secs(10));
    for stage in world.stages().await {
        stage.follow(&world, slow).await;
        stage.follow(&world, quick).await;
        let worker = Worker::new(stage.queue.clone(), world.live_with(limits), Arc::new(stage.clock.clone()), options);
        // The first try alone: nothing is known of the tool, and nothing is held against it.
        let asked = server.requests().len();
        let round = worker.round().await.expect("a round");
        assert_eq!((round.deferred, round.written), (1, 1), "{round:?}");
        let view = stage.view(slow).await;
        assert!(view.listing.is_none(), "no verdict: {:?}", view.listing);
        assert!(stage.index.verdicts(stage.key(slow), 9).await.expect("a history").is_empty());
        assert_eq!(job(&stage, slow).await, (4, 0), "not an attempt that failed");
        stage.clock.advance(5);
        let round = worker.round().await.expect("a round");
        assert_eq!((round.leased, round.written), (1, 1), "{round:?}");
        assert_eq!(server.requests().len() - asked, 2, "a first try and a full one");
        let listing = stage.listing(slow).await;
        assert!(stage.view(slow).await.is_listed(), "{:?}", listing.failed);
        assert_eq!((listing.health.looks, listing.health.answered), (1, 1), "the first try counts for nothing");
        assert_eq!(stage.index.verdicts(stage.key(slow), 9).await.expect("a history").len(), 1);
        assert_eq!((job(&stage, slow).await, job(&stage, quick).await), ((4, 0), (3, 0)), "it is known to be slow");
        // The next time it is not tried in vain first.
        stage.clock.advance(4_000);
        let round = worker.round().await.expect("a round");
        assert_eq!((round.deferred, round.written), (0, 2), "{round:?}");
        stage.clock.advance(-4_005);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_a_slow_site_do_not_take_first_places() {
    let world = World::start().await;
    for stage in world.stages().await {
        let flood = Address::repeat_byte(1);
        registered(&stage, 1, flood, "a.slow.example").await;
        stage.queue.intake(NOW).await.expect("taken in");
        let slow = "UPDATE index_group SET slow_until = $1";
        stage.index.database().execute(slow, &[Value::Integer(NOW.seconds() + 60)]).await.expect("noted");
        registered(&stage, 2, Address::repeat_byte(2), "b.slow.example").await;
        let other = registered(&stage, 3, Address::repeat_byte(3), "honest.example").await;
        let keys = |jobs: Vec<toolcrib_index::work::Job>| jobs.into_iter().map(|job| job.key).collect::<Vec<_>>();
        let first = stage.queue.lease(Wanted { count: 9, slow: 0, seconds: 60, registries: None }, NOW).await.expect("jobs");
        assert_eq!(keys(first), [stage.key(U256::from(1)), other]);
        let rest = stage.queue.lease(Wanted { count: 9, slow: 9, seconds: 60, registries: None }, NOW).await.expect("jobs");
        assert_eq!(keys(rest), [stage.key(U256::from(2))]);
    }
}
