//! The change feed, and bulk writes.

mod processes;

use std::time::Duration;

use alloy_primitives::{Address, U256};
use toolcrib_core::clock::UnixTime;
use toolcrib_index::feed::{self, Kinds};
use toolcrib_index::model::{RegistryId, ToolKey};
use toolcrib_index::{Error, Index, List};

use toolcrib_testkit::databases::{Backend, TestStore};

const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

fn key(id: u64) -> ToolKey {
    ToolKey { registry: RegistryId(1), id: U256::from(id) }
}

async fn indexes() -> Vec<(TestStore, Index)> {
    let mut all = Vec::new();
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some(place) = TestStore::new(backend).await else { continue };
        let index = Index::open(place.database().await).await.expect("an index");
        all.push((place, index));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_committed_in_their_order() {
    for (_place, index) in indexes().await {
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let index = index.clone();
                tokio::spawn(async move {
                    for round in 0..10_u64 {
                        let mut transaction = index.database().begin().await.expect("a transaction");
                        let changes: Vec<_> = (0..300).map(|tool| (key(writer * 1_000 + tool), Kinds::FACTS)).collect();
                        feed::record(&mut transaction, &changes, NOW).await.expect("recorded");
                        if round % 3 == 2 {
                            transaction.rollback().await.expect("undone");
                        } else {
                            transaction.commit().await.expect("committed");
                        }
                    }
                })
            })
            .collect();
        let (mut cursor, wanted) = (0, 8 * 7 * 300);
        while cursor < wanted {
            for change in index.changes(cursor, 997).await.expect("changes") {
                assert_eq!(change.seq, cursor + 1, "no gap and no surprise");
                cursor = change.seq;
            }
        }
        for writer in writers {
            writer.await.expect("a writer");
        }
        assert_eq!(index.last_change().await.expect("the last"), wanted);
    }
}

/// Records one change and commits.
async fn tell(index: &Index, id: u64, kinds: Kinds) {
    let mut transaction = index.database().begin().await.expect("a transaction");
    feed::record(&mut transaction, &[(key(id), kinds)], NOW).await.expect("recorded");
    transaction.commit().await.expect("committed");
}

/// The tools of all changes after a cursor, whose numbers are consecutive.
async fn ids_after(index: &Index, cursor: i64) -> Vec<u64> {
    let changes = index.changes(cursor, feed::MAX_PAGE).await.expect("changes");
    for (change, seq) in changes.iter().zip(cursor + 1..) {
        assert_eq!(change.seq, seq);
    }
    changes.iter().map(|change| change.key.id.to()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_transaction_holds_up_no_other_writer_and_is_numbered_when_it_commits() {
    for (place, index) in indexes().await {
        if place.is_sqlite() {
            // SQLite has one writer at a time.
            continue;
        }
        let mut open = index.database().begin().await.expect("a transaction");
        feed::record(&mut open, &[(key(1), Kinds::VERIFICATION)], NOW).await.expect("recorded");
        tokio::time::timeout(Duration::from_secs(2), tell(&index, 2, Kinds::VERIFICATION)).await.expect("nobody waits");
        assert_eq!(ids_after(&index, 0).await, [2], "what is not committed has no number");
        open.commit().await.expect("committed");
        assert_eq!(ids_after(&index, 0).await, [2, 1]);
        assert_eq!(ids_after(&index, 1).await, [1], "a reader that saw 2 is told of 1");

        // A numbering transaction that hangs delays readers for a moment and writers not at all.
        let mut stuck = index.database().begin().await.expect("a transaction");
        stuck.fetch_optional("SELECT last FROM index_feed WHERE id = 1 FOR UPDATE", &[]).await.expect("held");
        tokio::time::timeout(Duration::from_secs(2), tell(&index, 3, Kinds::REGISTERED)).await.expect("nobody waits");
        let read = tokio::time::timeout(Duration::from_secs(2), index.last_change()).await.expect("soon");
        assert_eq!(read.expect("a number"), 2);
        let read = tokio::time::timeout(Duration::from_millis(400), index.last_change()).await.expect("at once");
        assert_eq!(read.expect("a number"), 2);
        stuck.rollback().await.expect("given up");
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        assert_eq!(ids_after(&index, 0).await, [2, 1, 3]);
    }
}

const PENDING: &str = "SELECT COUNT(*) FROM index_change_pending";
/// How programs before version 2 of the tables record a change of tool 7: they hold the counter until the commit.
const OLD_NUMBER: &str = "UPDATE index_feed SET last = last + 1 WHERE id = 1 RETURNING last";
const OLD_CHANGE: &str = "INSERT INTO index_change (seq, first, at, changes) VALUES ($1, $1, 1800000000, $2)";

async fn tell_as_before(index: &Index) {
    use toolcrib_store::database::Value;
    let mut transaction = index.database().begin().await.expect("a transaction");
    let row = transaction.fetch_optional(OLD_NUMBER, &[]).await.expect("numbered").expect("a row");
    // Registry 1, one byte of id, tool 7, FACTS.
    let values = [Value::Integer(row.scalar::<i64>().expect("a number")), Value::Bytes(&[1, 1, 7, 0x80, 1])];
    transaction.execute(OLD_CHANGE, &values).await.expect("recorded");
    transaction.commit().await.expect("committed");
}

#[tokio::test(flavor = "multi_thread")]
async fn databases_of_older_programs_are_migrated_and_older_programs_go_on_beside() {
    for (place, index) in indexes().await {
        // A database whose feed version 1 created.
        for sql in
            ["DROP TABLE index_change_pending", "DELETE FROM toolcrib_migration WHERE module = 'index.feed' AND version = 2"]
        {
            index.database().execute(sql, &[]).await.expect("undone");
        }
        tell_as_before(&index).await;
        tell_as_before(&index).await;
        let index = Index::open(place.database().await).await.expect("migrated");
        assert_eq!(index.last_change().await.expect("a number"), 2);
        assert_eq!(ids_after(&index, 0).await, [7, 7]);
        tell(&index, 8, Kinds::FACTS).await;
        tell(&index, 9, Kinds::FACTS).await;
        assert_eq!(ids_after(&index, 2).await, [8, 9]);
        // An old process next to new ones: both number under the same lock.
        tell(&index, 10, Kinds::FACTS).await;
        tell_as_before(&index).await;
        let after = ids_after(&index, 4).await;
        let expected: &[u64] = if place.is_sqlite() { &[10, 7] } else { &[7, 10] };
        assert_eq!(after, expected);
        let left = index.database().fetch_optional(PENDING, &[]).await.expect("read").expect("a row");
        assert_eq!(left.scalar::<i64>().expect("a number"), 0, "what has a number is not pending");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_numberer_leaves_readers_what_has_numbers() {
    for (place, index) in indexes().await {
        if place.is_sqlite() {
            continue;
        }
        tell(&index, 1, Kinds::FACTS).await;
        assert_eq!(index.last_change().await.expect("a number"), 1);
        // As on a server that accepts no more writes: the table of numbered changes rejects them.
        let refuse = "ALTER TABLE index_change ADD CONSTRAINT test_full CHECK (seq < 2)";
        index.database().execute(refuse, &[]).await.expect("full");
        tell(&index, 2, Kinds::FACTS).await;
        assert_eq!(index.last_change().await.expect("a number"), 1);
        assert_eq!(ids_after(&index, 0).await, [1]);
        index.database().execute("ALTER TABLE index_change DROP CONSTRAINT test_full", &[]).await.expect("room again");
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        assert_eq!(ids_after(&index, 0).await, [1, 2]);
    }
}

/// Reads to the end, page by page.
async fn read_from(index: &Index, mut cursor: i64, page: usize) -> Result<Vec<(i64, u64)>, Error> {
    let mut all = Vec::new();
    loop {
        let changes = index.changes(cursor, page).await?;
        let Some(last) = changes.last() else { return Ok(all) };
        cursor = last.seq;
        all.extend(changes.iter().map(|change| (change.seq, change.key.id.to::<u64>())));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn old_changes_are_reduced_to_the_newest_of_each_tool() {
    for (_place, index) in indexes().await {
        let day = |day: i64| NOW.plus(day * 86_400);
        // Each day tools 1 and 2, and one that changes only then.
        for at in 0..5_u32 {
            let mut transaction = index.database().begin().await.expect("a transaction");
            let changes = [key(1), key(2), key(10 + u64::from(at))].map(|key| (key, Kinds::FACTS));
            feed::record(&mut transaction, &changes, day(i64::from(at))).await.expect("recorded");
            transaction.commit().await.expect("committed");
        }
        assert_eq!(index.last_change().await.expect("a number"), 15);
        let whole = read_from(&index, 0, 4).await.expect("everything");
        assert_eq!(whole.len(), 15);
        assert_eq!(index.compact_changes(day(3)).await.expect("nothing"), 0, "nobody has made jobs of it");
        let intake = "UPDATE index_intake SET cursor = 12 WHERE id = 1";
        index.database().execute(intake, &[]).await.expect("taken in");
        assert_eq!(index.compact_changes(day(2)).await.expect("compacted"), 6);
        assert_eq!(index.compact_changes(day(3)).await.expect("compacted"), 3);
        assert_eq!(index.compact_changes(day(9)).await.expect("compacted"), 3, "not beyond the intake");
        // Numbers 1 to 12 are three of each tool's changes; those of tools 1 and 2 on the fourth day are the newest.
        let expected = [(3, 10), (6, 11), (9, 12), (10, 1), (11, 2), (12, 13), (13, 1), (14, 2), (15, 14)];
        for page in [1, 2, 5, 100] {
            assert_eq!(read_from(&index, 0, page).await.expect("from the beginning"), expected, "pages of {page}");
        }
        assert_eq!(read_from(&index, 12, 2).await.expect("the window"), expected[6..]);
        assert_eq!(read_from(&index, 14, 2).await.expect("the window"), expected[8..]);
        for old in [1, 2, 4, 8] {
            assert!(matches!(index.changes(old, 5).await, Err(Error::Forgotten { oldest: 13, .. })), "{old}: reset");
        }
        let left = index.database().fetch_optional("SELECT COUNT(*) FROM index_change", &[]).await.expect("read").expect("a row");
        assert_eq!(left.scalar::<i64>().expect("a number"), 1, "what was compacted is gone");
        tell(&index, 99, Kinds::FACTS).await;
        assert_eq!(ids_after(&index, 15).await, [99], "and it goes on");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_past_is_said() {
    for (_place, index) in indexes().await {
        assert!(index.changes(0, 10).await.expect("none yet").is_empty());
        for (seconds, key, kinds) in [(0, key(1), Kinds::REGISTERED.and(Kinds::METADATA)), (1, key(2), Kinds::USAGE)] {
            let mut transaction = index.database().begin().await.expect("a transaction");
            feed::record(&mut transaction, &[(key, kinds)], NOW.plus(seconds)).await.expect("recorded");
            transaction.commit().await.expect("committed");
        }
        assert_eq!(index.last_change().await.expect("the last"), 2);
        index.database().execute("DELETE FROM index_change WHERE seq = 1", &[]).await.expect("deleted");
        assert!(matches!(index.changes(0, 10).await, Err(Error::Forgotten { cursor: 0, oldest: 2 })));
        assert_eq!(index.changes(1, 10).await.expect("the rest").len(), 1);
        assert_eq!(Kinds::REGISTERED.and(Kinds::METADATA).names().collect::<Vec<_>>(), ["registered", "metadata"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn registries_have_one_number() {
    for (_place, index) in indexes().await {
        let adding = (0..6).map(|n| {
            let index = index.clone();
            tokio::spawn(async move { index.add_registry(8453 + n % 2, Address::ZERO, 7).await.expect("a registry").id })
        });
        let mut ids: Vec<_> = futures_util::future::join_all(adding).await.into_iter().map(|id| id.expect("an id")).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 2);
        assert_eq!(index.registries().await.expect("registries").len(), 2);
        assert!(index.list(&List { limit: 5, ..List::default() }).await.expect("a page").tools.is_empty());
    }
}
