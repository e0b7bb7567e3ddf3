//! Expiry of listings: whose clock counts, and what happens when very many seem to expire.

use alloy_primitives::{Address, B256, U256};
use toolcrib_core::clock::{Clock as _, UnixTime};
use toolcrib_index::Index;
use toolcrib_index::model::ToolKey;
use toolcrib_index::work::{Expired, Queue};
use toolcrib_store::database::Value;

use toolcrib_testkit::clock::MovingClock;
use toolcrib_testkit::databases::{Backend, TestStore};
use toolcrib_testkit::servers::NOW;

/// The number of tools in the index that a wrong clock once emptied.
const TOOLS: u64 = 496;

/// An index with listings that expire one second after another.
struct Listed {
    index: Index,
    registry: i64,
    _place: TestStore,
}

impl Listed {
    async fn each(count: u64, ends: UnixTime) -> Vec<Self> {
        let mut all = Vec::new();
        for backend in [Backend::SqliteFile, Backend::Postgres] {
            let Some(place) = TestStore::new(backend).await else { continue };
            let index = Index::open(place.database().await).await.expect("an index");
            let registry = index.add_registry(8453, Address::repeat_byte(0x82), 1).await.expect("a registry").id.0;
            let mut transaction = index.database().begin().await.expect("a transaction");
            for id in 1..=count {
                let tool = ToolKey { registry: toolcrib_index::model::RegistryId(registry), id: U256::from(id) }.id_bytes();
                let uri = format!("https://t{id}.example/.well-known/ai-tool/t.json");
                let sql = "INSERT INTO index_tool (registry, tool, creator, uri, uri_key, hash, predicate, registered_block, registered_at,
                    updated_block, updated_at, events, listed, access) VALUES ($1, $2, $3, $4, 0, $5, NULL, 1, 1, 1, 1, 1, TRUE, 'open')";
                let creator = Address::left_padding_from(&id.to_be_bytes());
                let hash = B256::repeat_byte(7);
                let values = [
                    Value::Integer(registry),
                    Value::Bytes(&tool),
                    Value::Bytes(creator.as_slice()),
                    Value::Text(&uri),
                    Value::Bytes(hash.as_slice()),
                ];
                transaction.execute(sql, &values).await.expect("a tool");
                let sql = "INSERT INTO index_watch (registry, tool, expires_at, looks, memory) VALUES ($1, $2, $3, $4, '{}')";
                let at = ends.plus(i64::try_from(id).expect("small")).seconds();
                let values = [Value::Integer(registry), Value::Bytes(&tool), Value::Integer(at), Value::Bytes(&[])];
                transaction.execute(sql, &values).await.expect("a watch");
            }
            transaction.commit().await.expect("committed");
            all.push(Self { index, registry, _place: place });
        }
        all
    }

    /// Expires once, as a process that was just started.
    async fn expire(&self, clock: Option<&MovingClock>) -> Expired {
        let queue = Queue::new(self.index.clone());
        let queue = match clock {
            Some(clock) => queue.with_clock(clock.clone()),
            None => queue,
        };
        queue.expire().await.expect("looked")
    }

    async fn number(&self, sql: &'static str) -> i64 {
        self.index.database().fetch_optional(sql, &[]).await.expect("read").expect("a row").scalar::<i64>().expect("a number")
    }

    async fn listed(&self) -> i64 {
        self.number("SELECT COUNT(*) FROM index_tool WHERE listed").await
    }

    /// A follower has seen a block of this time.
    async fn chain_is_at(&self, time: UnixTime) {
        let sql = "INSERT INTO index_chain_time (registry, block, time) VALUES ($1, 9, $2)
            ON CONFLICT (registry) DO UPDATE SET time = excluded.time";
        let values = [Value::Integer(self.registry), Value::Integer(time.seconds())];
        self.index.database().execute(sql, &values).await.expect("noted");
    }
}

/// The time is the database's, whatever a process believes: both engines have a running clock.
#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "the database's clock is compared with the machine's")]
async fn the_database_says_what_the_time_is() {
    for index in Listed::each(5, UnixTime::from_seconds(0)).await {
        let system = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
        let now = index.index.database().now().await.expect("a time");
        assert!(now.abs_diff(i64::try_from(system).expect("a time")) < 60, "{now} {system}");
        let later = UnixTime::from_seconds(now).plus(3_600);
        let sql = "UPDATE index_watch SET expires_at = $1";
        index.index.database().execute(sql, &[Value::Integer(later.seconds())]).await.expect("later");
        assert_eq!(index.expire(None).await, Expired::default(), "not for an hour");
        index.index.database().execute(sql, &[Value::Integer(now - 1)]).await.expect("now");
        assert_eq!(index.expire(None).await, Expired { ended: 5, held: 0 });
    }
}

/// A clock that is two days ahead expires a share and no more. Before, it expired all of them.
#[tokio::test(flavor = "multi_thread")]
async fn one_wrong_clock_does_not_empty_the_index() {
    for index in Listed::each(TOOLS, NOW.plus(3_600)).await {
        index.chain_is_at(NOW).await;
        let clock = MovingClock::new();
        assert_eq!(index.expire(Some(&clock)).await, Expired::default());
        clock.advance(2 * 86_400);
        let share = TOOLS / 10;
        let expired = index.expire(Some(&clock)).await;
        assert_eq!((expired.ended as u64, expired.held), (share, TOOLS - share));
        // Other processes, with the same clock and in the same hour, expire none.
        for _ in 0..3 {
            assert_eq!(index.expire(Some(&clock)).await, Expired { ended: 0, held: TOOLS - share });
        }
        assert_eq!(index.listed().await as u64, TOOLS - share);
        // Those that expired are verified again at once, and the others are not.
        assert_eq!(index.number("SELECT COUNT(*) FROM index_job WHERE reason = 'expired' AND priority = 3").await as u64, share);
        // The next hour has its own share of the rest.
        clock.advance(3_600);
        assert_eq!(index.expire(Some(&clock)).await.ended as u64, (TOOLS - share) / 10);
        // The clock is right again.
        clock.advance(-2 * 86_400 - 3_600);
        assert_eq!(index.expire(Some(&clock)).await, Expired::default());
    }
}

/// Listings that really are over expire all at once, when the chain agrees.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_chain_agrees_to_ends() {
    for index in Listed::each(TOOLS, NOW.plus(3_600)).await {
        let clock = MovingClock::new();
        clock.advance(2 * 86_400);
        index.chain_is_at(NOW.plus(3_600 + 200)).await;
        let expired = index.expire(Some(&clock)).await;
        let share = (TOOLS - 200) / 10;
        assert_eq!(expired.ended as u64, 200 + share, "those that the chain agrees to, and a share of the others");
        index.chain_is_at(clock.now()).await;
        assert_eq!(index.expire(Some(&clock)).await, Expired { ended: (TOOLS - 200 - share) as usize, held: 0 });
        assert_eq!(index.listed().await, 0);
        assert_eq!(index.number("SELECT COUNT(*) FROM index_job").await as u64, TOOLS);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_can_agree() {
    for index in Listed::each(TOOLS, NOW.plus(3_600)).await {
        let clock = MovingClock::new();
        clock.advance(2 * 86_400);
        let queue = Queue::new(index.index.clone()).with_clock(clock.clone());
        assert!(queue.expire().await.expect("looked").held > 0);
        assert_eq!(queue.agree_to_expiry().await.expect("agreed"), clock.now());
        assert_eq!(queue.expire().await.expect("looked").held, 0);
        assert_eq!(index.listed().await, 0);
    }
}

/// A few expire as always: without a follower and without an agreement.
#[tokio::test(flavor = "multi_thread")]
async fn a_few_need_no_agreement() {
    for index in Listed::each(8, NOW).await {
        let clock = MovingClock::new();
        clock.advance(4);
        assert_eq!(index.expire(Some(&clock)).await, Expired { ended: 4, held: 0 });
        clock.advance(4);
        assert_eq!(index.expire(Some(&clock)).await, Expired { ended: 4, held: 0 });
        assert_eq!(index.number("SELECT COUNT(*) FROM index_job").await, 8);
        // A verification in progress is not enqueued again.
        assert_eq!(index.number("SELECT COUNT(*) FROM index_job WHERE leased_until IS NOT NULL").await, 0);
    }
}
