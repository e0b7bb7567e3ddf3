//! Steps of concurrent calls that share a statement on PostgreSQL.

use std::sync::Arc;

use alloy_primitives::B256;
use toolcrib_store::Error;
use toolcrib_store::replay::{Limits, Receipt, ReplayStore, Reserve, ResultRetention, Settlement, State};

use crate::scenarios::result;
use toolcrib_testkit::databases::{Backend, NOW, TestStore, at, key, reservation};

const CALLS: u64 = 60;

/// Writes down how many rows each statement touched.
const COUNTING: [&str; 4] = [
    "CREATE TABLE seen (touched BIGINT NOT NULL)",
    "CREATE FUNCTION count_touched() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO seen SELECT COUNT(*) FROM touched; RETURN NULL; END $$",
    "CREATE TRIGGER inserted AFTER INSERT ON replay REFERENCING NEW TABLE AS touched
        FOR EACH STATEMENT EXECUTE FUNCTION count_touched()",
    "CREATE TRIGGER updated AFTER UPDATE ON replay REFERENCING NEW TABLE AS touched
        FOR EACH STATEMENT EXECUTE FUNCTION count_touched()",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_of_concurrent_calls_share_statements() {
    let Some(place) = TestStore::new(Backend::Postgres).await else { return };
    let store = place.store(Limits::default()).await;
    let database = place.database().await;
    for statement in COUNTING {
        database.execute(statement, &[]).await.unwrap();
    }
    let calls: Vec<_> = (0..CALLS)
        .map(|nonce| {
            let store: Arc<dyn ReplayStore> = Arc::clone(&store);
            tokio::spawn(async move {
                // Every payment comes twice, and is taken once.
                let key = key(nonce / 2);
                let Reserve::Reserved(ticket) = store.reserve(&key, &reservation(NOW), NOW).await.unwrap() else { return 0 };
                let result = result(b"{}");
                let settlement = Settlement { lease_until: at(90), note: b"n", result: Some(&result), from_block: Some(nonce) };
                assert_eq!(store.begin_settlement(&key, ticket, &settlement).await.unwrap(), ResultRetention::Yes);
                let receipt = Receipt { transaction: B256::repeat_byte(1), response: b"r".to_vec() };
                store.settle(&key, &receipt, at(1)).await.unwrap();
                1
            })
        })
        .collect();
    let mut taken = 0;
    for call in calls {
        taken += call.await.unwrap();
    }
    assert_eq!(taken, CALLS / 2);
    let counts = store.counts().await.unwrap();
    assert_eq!((counts.settled, counts.entries()), (CALLS / 2, CALLS / 2));
    let entry = store.entry(&key(3)).await.unwrap().unwrap();
    assert_eq!(
        (entry.state, entry.note.len(), entry.receipt.map(|receipt| receipt.response)),
        (State::Settled, 0, Some(b"r".to_vec()))
    );
    // The rooms have counted what is there.
    let rooms = database
        .fetch("SELECT CAST(SUM(entries) AS BIGINT) AS entries, CAST(SUM(bytes) AS BIGINT) AS bytes FROM replay_room", &[])
        .await
        .unwrap();
    assert_eq!(rooms[0].get::<u64>("entries").unwrap(), CALLS / 2);
    assert_eq!(rooms[0].get::<u64>("bytes").unwrap(), counts.result_bytes);
    let sql =
        "SELECT COUNT(*) AS statements, CAST(SUM(touched) AS BIGINT) AS rows, MAX(touched) AS most FROM seen WHERE touched > 0";
    let seen = database.fetch(sql, &[]).await.unwrap();
    let [statements, rows, most] = ["statements", "rows", "most"].map(|column| seen[0].get::<i64>(column).unwrap());
    assert_eq!(rows.unsigned_abs(), 3 * CALLS / 2, "three changes of each payment");
    assert!(statements < rows && most > 1, "{statements} statements for {rows} changes, {most} at most");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receipts_that_no_caller_waits_for_are_written_with_reservations_or_soon_after() {
    let Some(place) = TestStore::new(Backend::Postgres).await else { return };
    let store = place.store(Limits::default()).await;
    let sold = async |nonce| {
        let Reserve::Reserved(ticket) = store.reserve(&key(nonce), &reservation(NOW), NOW).await.unwrap() else { panic!("new") };
        let result = result(b"{}");
        let settlement = Settlement { lease_until: at(90), note: b"n", result: Some(&result), from_block: None };
        assert_eq!(store.begin_settlement(&key(nonce), ticket, &settlement).await.unwrap(), ResultRetention::Yes);
        Receipt { transaction: B256::repeat_byte(1), response: b"r".to_vec() }
    };
    let state = async |nonce| store.entry(&key(nonce)).await.unwrap().unwrap().state;
    // Alone.
    let receipt = sold(1).await;
    store.settle_in_background(&key(1), &receipt, at(1)).await.unwrap();
    assert_eq!(state(1).await, State::Settled);
    // Twice is once; another receipt for the same payment is refused, and what is not being settled has none.
    store.settle_in_background(&key(1), &receipt, at(1)).await.unwrap();
    let other = Receipt { transaction: B256::repeat_byte(2), response: b"r".to_vec() };
    assert!(matches!(store.settle_in_background(&key(1), &other, at(1)).await, Err(Error::OtherReceipt)));
    assert!(store.settle_in_background(&key(77), &receipt, at(1)).await.is_err());

    // A reservation takes it along: one statement, and no wait.
    let receipt = sold(2).await;
    let database = place.database().await;
    database.execute("CREATE TABLE one_statement (at TEXT NOT NULL)", &[]).await.unwrap();
    for statement in [
        "CREATE FUNCTION note_statement() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN INSERT INTO one_statement SELECT statement_timestamp()::text; RETURN NULL; END $$",
        "CREATE TRIGGER noted_insert AFTER INSERT ON replay FOR EACH ROW EXECUTE FUNCTION note_statement()",
        "CREATE TRIGGER noted_update AFTER UPDATE ON replay FOR EACH ROW EXECUTE FUNCTION note_statement()",
    ] {
        database.execute(statement, &[]).await.unwrap();
    }
    let (key_2, key_3) = (key(2), key(3));
    let both = reservation(NOW);
    let (settled, reserved) =
        tokio::join!(store.settle_in_background(&key_2, &receipt, at(1)), store.reserve(&key_3, &both, NOW));
    settled.unwrap();
    assert!(matches!(reserved.unwrap(), Reserve::Reserved(_)));
    let seen = database.fetch("SELECT COUNT(*) AS rows, COUNT(DISTINCT at) AS statements FROM one_statement", &[]).await.unwrap();
    assert_eq!(
        (seen[0].get::<i64>("rows").unwrap(), seen[0].get::<i64>("statements").unwrap()),
        (2, 1),
        "two rows, one statement"
    );
    assert_eq!(state(2).await, State::Settled);
}
