//! The change feed creates jobs: exactly one for each change, whichever process reads it, and even if it is killed meanwhile.

use std::collections::BTreeSet;
use std::time::Duration;

use alloy_primitives::{Address, U256};
use toolcrib_core::clock::Clock as _;
use toolcrib_index::feed::{self, Kinds};
use toolcrib_index::model::ToolKey;
use toolcrib_index::work::{MAX_COUNTED, Queue, Reason, Wanted};
use toolcrib_index::{Index, export};
use toolcrib_store::database::{PerEngine, Value};

use super::leases::{Pair, due, slow, worker};
use super::scripted::fill;
use super::{Stage, World};
use toolcrib_testkit::databases::{Backend, TestStore};
use toolcrib_testkit::servers::NOW;

const COUNT: &str = "SELECT COUNT(*) FROM index_job";
const CURSOR: &str = "SELECT cursor FROM index_intake";
const BOTH: &str = "SELECT cursor, (SELECT COUNT(*) FROM index_job) AS jobs FROM index_intake";
const EVERYTHING: Wanted<'_> = Wanted { count: 64, slow: 0, seconds: 120, registries: None };

async fn number(index: &Index, sql: &'static str) -> i64 {
    index.database().fetch_optional(sql, &[]).await.expect("read").expect("a row").scalar::<i64>().expect("a number")
}

/// Records changes of tools in the feed.
async fn tell(index: &Index, keys: &[ToolKey], kinds: Kinds) {
    let mut transaction = index.database().begin().await.expect("a transaction");
    let changes: Vec<_> = keys.iter().map(|key| (*key, kinds)).collect();
    feed::record(&mut transaction, &changes, NOW).await.expect("recorded");
    transaction.commit().await.expect("committed");
}

/// Indexes with tools whose changes were not read yet.
async fn filled(count: u64) -> Vec<(TestStore, Index, Vec<ToolKey>)> {
    let mut all = Vec::new();
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some(place) = TestStore::new(backend).await else { continue };
        let index = Index::open(place.database().await).await.expect("an index");
        let keys = fill(&index, count).await;
        all.push((place, index, keys));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn every_tool_that_changed_has_one_job() {
    for (_place, index, keys) in filled(40).await {
        let queue = Queue::new(index.clone());
        assert_eq!(number(&index, COUNT).await, 0, "nobody made any yet");
        assert_eq!(queue.intake(NOW.plus(7)).await.expect("taken in"), 40);
        assert_eq!(queue.intake(NOW.plus(7)).await.expect("taken in"), 0, "once");
        assert_eq!(number(&index, COUNT).await, 40);
        assert_eq!(number(&index, "SELECT MIN(due_at) FROM index_job").await, NOW.seconds(), "since it was said");
        // Changes that do not come from followers enqueue nothing, and do not block later ones.
        let gone = ToolKey { registry: keys[0].registry, id: U256::from(9_999) };
        tell(&index, &vec![keys[3]; 9_000], Kinds::FACTS).await;
        tell(&index, &[keys[4]], Kinds::UPGRADED.and(Kinds::VERIFICATION)).await;
        tell(&index, &[keys[5]], Kinds::USAGE).await;
        tell(&index, &[keys[6]], Kinds::REGISTERED.and(Kinds::FACTS)).await;
        tell(&index, &[keys[7], gone], Kinds::REORGANISED).await;
        tell(&index, &[keys[8]], Kinds::UPGRADED).await;
        tell(&index, &[keys[8]], Kinds::METADATA).await;
        index.database().execute("UPDATE index_job SET due_at = due_at + 86400, priority = 3", &[]).await.expect("looked at");
        let jobs = queue.lease(EVERYTHING, NOW).await.expect("leased");
        let asked: BTreeSet<_> = jobs.iter().map(|job| (job.key, job.reason == Reason::Upgraded)).collect();
        assert_eq!(asked, BTreeSet::from([(keys[7], false), (keys[8], true)]), "a tool that is gone has no job");
        assert_eq!(number(&index, CURSOR).await, index.last_change().await.expect("a number"));
        assert_eq!(number(&index, COUNT).await, 40);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_that_take_in_at_once_do_so_once() {
    for (place, index, keys) in filled(60).await {
        Queue::new(index.clone()).intake(NOW).await.expect("taken in");
        index.database().execute("DELETE FROM index_job", &[]).await.expect("done");
        let telling = {
            let (index, keys) = (index.clone(), keys.clone());
            tokio::spawn(async move {
                for key in keys {
                    tell(&index, &[key], Kinds::METADATA).await;
                }
            })
        };
        let mut taking = Vec::new();
        for _ in 0..4 {
            let queue = Queue::new(Index::open(place.database().await).await.expect("an index"));
            taking.push(tokio::spawn(async move {
                let mut asked = 0;
                for _ in 0..40 {
                    asked += queue.intake(NOW).await.expect("taken in");
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                asked
            }));
        }
        telling.await.expect("told");
        let mut asked = 0;
        for taking in taking {
            asked += taking.await.expect("no panic");
        }
        asked += Queue::new(index.clone()).intake(NOW).await.expect("taken in");
        assert_eq!((asked, number(&index, COUNT).await), (60, 60), "nothing twice and nothing lost");
    }
}

const REFUSE: PerEngine = PerEngine {
    sqlite: "CREATE TRIGGER test_refuse BEFORE INSERT ON index_job WHEN NEW.reason = 'registered'
        BEGIN SELECT RAISE(ABORT, 'refused'); END",
    postgres: "CREATE FUNCTION test_refuse() RETURNS trigger AS 'BEGIN RAISE EXCEPTION ''refused''; END' LANGUAGE plpgsql",
};
const FIRE: &str = "CREATE TRIGGER test_refuse BEFORE INSERT ON index_job FOR EACH ROW EXECUTE FUNCTION test_refuse()";
const ALLOW: PerEngine = PerEngine { sqlite: "DROP TRIGGER test_refuse", postgres: "DROP TRIGGER test_refuse ON index_job" };

#[tokio::test(flavor = "multi_thread")]
async fn whoever_dies_while_taking_in_loses_nothing() {
    for (_place, index, keys) in filled(50).await {
        let queue = Queue::new(index.clone());
        let database = index.database();
        database.execute(database.pick(REFUSE), &[]).await.expect("refusing");
        if database.engine() == toolcrib_store::database::Engine::Postgres {
            database.execute(FIRE, &[]).await.expect("refusing");
        }
        queue.intake(NOW).await.expect_err("the jobs cannot be written");
        assert_eq!((number(&index, CURSOR).await, number(&index, COUNT).await), (0, 0), "all or nothing");
        assert_eq!(index.queue_state(NOW).await.expect("a state").due, 50, "still to be done");
        database.execute(database.pick(ALLOW), &[]).await.expect("no more");
        // Killed at any moment.
        for pause in 0..30 {
            let running = queue.clone();
            let running = tokio::spawn(async move { running.intake(NOW).await });
            tokio::time::sleep(Duration::from_micros(pause * 100)).await;
            running.abort();
            let _ = running.await;
            let row = index.database().fetch_optional(BOTH, &[]).await.expect("read").expect("a row");
            let both = (row.get::<i64>("cursor").expect("a number"), row.get::<i64>("jobs").expect("a number"));
            assert!([(0, 0), (50, 50)].contains(&both), "{both:?}");
        }
        // The last killed transaction may take a moment to end, and holds the row until then.
        for _ in 0..100 {
            queue.intake(NOW).await.expect("taken in");
            if number(&index, COUNT).await > 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(number(&index, COUNT).await, keys.len() as i64);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_taken_in_is_part_of_the_queue() {
    for (_place, index, keys) in filled(30).await {
        let queue = Queue::new(index.clone());
        let state = index.queue_state(NOW.plus(60)).await.expect("a state");
        assert_eq!((state.due, state.leased, state.oldest_due), (30, 0, Some(NOW)));
        assert_eq!(queue.lease(EVERYTHING, NOW).await.expect("leased").len(), 30);
        let state = index.queue_state(NOW).await.expect("a state");
        assert_eq!((state.due, state.leased), (0, 30));
        tell(&index, &[keys[0], keys[1], keys[0]], Kinds::VERIFICATION).await;
        assert_eq!(index.queue_state(NOW).await.expect("a state").due, 0, "that asks for nothing");
        tell(&index, &vec![keys[0]; 1_200], Kinds::METADATA).await;
        assert_eq!(index.queue_state(NOW).await.expect("a state").due, 1 + 203, "of a long part the beginning is read");
        tell(&index, &vec![keys[0]; 11_000], Kinds::METADATA).await;
        assert_eq!(index.queue_state(NOW).await.expect("a state").due, MAX_COUNTED.unsigned_abs());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_that_was_cleared_makes_every_tool_due() {
    for (_place, index, keys) in filled(20).await {
        let queue = Queue::new(index.clone());
        queue.intake(NOW).await.expect("taken in");
        index.database().execute("UPDATE index_job SET due_at = due_at + 86400, priority = 3", &[]).await.expect("looked at");
        for rest in [false, true] {
            tell(&index, &keys[..2], Kinds::METADATA).await;
            index.last_change().await.expect("numbered");
            index.database().execute("DELETE FROM index_change", &[]).await.expect("cleared");
            if rest {
                tell(&index, &keys[2..3], Kinds::METADATA).await;
            }
            assert!(index.queue_state(NOW).await.expect("a state").due > 0);
            assert_eq!(queue.intake(NOW).await.expect("taken in"), 20, "nobody knows which they were");
            assert_eq!(number(&index, CURSOR).await, index.last_change().await.expect("a number"));
        }
        assert_eq!(queue.lease(EVERYTHING, NOW).await.expect("leased").len(), 20);
    }
}

/// Gives a tool a predicate as if it always had it: another fork with the same number of events.
async fn gate(stage: &Stage, key: ToolKey) {
    let (id, predicate) = (key.id_bytes(), Address::repeat_byte(0x99));
    let sql = "UPDATE index_tool SET predicate = $3 WHERE registry = $1 AND tool = $2";
    let values = [Value::Integer(key.registry.0), Value::Bytes(&id), Value::Bytes(predicate.as_slice())];
    assert_eq!(stage.index.database().execute(sql, &values).await.expect("changed"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_during_a_look_leads_to_another_one() {
    let world = World::start().await;
    for stage in world.stages().await {
        for (is_taken_in, is_upgrade) in [(false, false), (true, false), (false, true), (true, true)] {
            let key = fill(&stage.index, 1).await[0];
            if is_upgrade {
                gate(&stage, key).await;
            }
            let before = stage.index.tools(&[key]).await.expect("tools")[0].listing.clone();
            let pair = Pair::default();
            let late = slow(&stage, &stage.clock, &pair);
            let running = tokio::spawn(async move { late.round().await.expect("a round") });
            let _ = pair.began.acquire().await.expect("it looks");
            if !is_upgrade {
                gate(&stage, key).await;
            }
            tell(&stage.index, &[key], if is_upgrade { Kinds::UPGRADED } else { Kinds::REORGANISED }).await;
            if is_taken_in {
                assert_eq!(stage.queue.intake(stage.clock.now()).await.expect("taken in"), 1);
            }
            pair.go.add_permits(1);
            let round = running.await.expect("no panic");
            let after = stage.index.tools(&[key]).await.expect("tools")[0].listing.clone();
            if is_upgrade && !is_taken_in {
                // The registration is the same, so the result is right; it is just not the last one.
                assert_eq!((round.lost, round.written), (0, 1), "{round:?}");
            } else {
                assert_eq!((round.lost, round.written), (1, 0), "{round:?}");
                assert_eq!(before, after, "what was found is about another past");
            }
            stage.clock.advance(5);
            let seen = stage.index.last_change().await.expect("a number");
            assert_eq!(worker(&stage, &stage.clock).round().await.expect("a round").written, 1);
            let told = stage.index.changes(seen, 10).await.expect("changes");
            assert_eq!(told.iter().any(|change| change.kinds.has(Kinds::UPGRADED)), is_upgrade, "{told:?}");
            // The worker's own changes enqueue nothing.
            stage.clock.advance(5);
            assert_eq!(worker(&stage, &stage.clock).round().await.expect("a round").leased, 0);
            assert!(!due(&stage, key).await);
        }
        stage.clock.advance(-40);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_has_the_jobs_that_nobody_made_yet() {
    for (_place, source, keys) in filled(1_100).await {
        // Some were verified, and one of those changed since; some have no job, as deregistered tools have none.
        let queue = Queue::new(source.clone());
        queue.intake(NOW).await.expect("taken in");
        source.database().execute("UPDATE index_job SET due_at = due_at + 86400, priority = 3", &[]).await.expect("looked at");
        let id = keys[900].id_bytes();
        let most = "DELETE FROM index_job WHERE tool > $1";
        source.database().execute(most, &[Value::Bytes(&id)]).await.expect("gone");
        let gone = ToolKey { registry: keys[0].registry, id: U256::from(9_999) };
        tell(&source, &keys[700..1_000], Kinds::METADATA).await;
        tell(&source, &[keys[2]], Kinds::UPGRADED).await;
        tell(&source, &[gone], Kinds::REORGANISED).await;
        let mut text = Vec::new();
        export::export(&source, &mut text, NOW).await.expect("exported");
        queue.intake(NOW).await.expect("taken in");
        let mut taken_in = Vec::new();
        export::export(&source, &mut taken_in, NOW).await.expect("exported");
        assert!(text == taken_in, "as if it had been taken in");
        for backend in [Backend::SqliteFile, Backend::Postgres] {
            let Some(place) = TestStore::new(backend).await else { continue };
            let target = Index::open(place.database().await).await.expect("an index");
            export::import(&target, &mut text.as_slice(), NOW).await.expect("imported");
            let queue = Queue::new(target.clone());
            assert_eq!(queue.intake(NOW).await.expect("taken in"), 0, "what was imported asks for nothing more");
            assert_eq!(number(&target, COUNT).await, 1_000);
            let mut asked = BTreeSet::new();
            loop {
                let jobs = queue.lease(EVERYTHING, NOW).await.expect("leased");
                if jobs.is_empty() {
                    break;
                }
                asked.extend(jobs.iter().map(|job| job.key));
            }
            let wanted: BTreeSet<_> = keys[700..1_000].iter().chain([&keys[2]]).copied().collect();
            assert_eq!(asked, wanted);
        }
    }
}
