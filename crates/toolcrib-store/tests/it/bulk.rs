//! Many rows in few statements.

use toolcrib_store::database::{Bulk, Column, Value};
use toolcrib_store::{Database, Migration};

use toolcrib_testkit::databases::{Backend, TestStore};

const TABLES: &[Migration] = &[Migration {
    version: 1,
    sql: "CREATE TABLE heap (id BIGINT NOT NULL PRIMARY KEY, maybe BIGINT, text TEXT NOT NULL, maybe_text TEXT, data BYTES NOT NULL,
        maybe_data BYTES, done BOOLEAN NOT NULL)",
}];
const COLUMNS: &[&str] = &["id", "maybe", "text", "maybe_text", "data", "maybe_data", "done"];
/// Nothing can collide: the way that is shorter on PostgreSQL.
const PLAIN: Bulk = Bulk { table: "heap", columns: COLUMNS, conflict: "" };
const UPSERT: Bulk = Bulk { conflict: "ON CONFLICT (id) DO UPDATE SET text = excluded.text, done = excluded.done", ..PLAIN };

/// Rows `from..to`, every kind of value among them; `mark` goes into each text.
async fn put(database: &Database, bulk: &Bulk, from: i64, to: i64, mark: &str) -> Result<u64, toolcrib_store::Error> {
    let mut transaction = database.begin().await?;
    let count = insert(&mut transaction, bulk, from, to, mark).await?;
    transaction.commit().await?;
    Ok(count)
}

async fn insert(
    transaction: &mut toolcrib_store::database::Transaction,
    bulk: &Bulk,
    from: i64,
    to: i64,
    mark: &str,
) -> Result<u64, toolcrib_store::Error> {
    let ids: Vec<i64> = (from..to).collect();
    let maybe: Vec<Option<i64>> = ids.iter().map(|id| (id % 2 == 0).then_some(-id)).collect();
    let texts: Vec<String> = ids.iter().map(|id| format!("{mark}\t\\N {id} \u{1f326}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let maybe_texts: Vec<Option<&str>> = texts.iter().map(|text| (text.len() % 2 == 0).then_some(*text)).collect();
    let data: Vec<Vec<u8>> = ids.iter().map(|id| vec![*id as u8; (id % 300) as usize]).collect();
    let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let maybe_data: Vec<Option<&[u8]>> = data.iter().map(|data| (data.len() % 3 == 0).then_some(*data)).collect();
    let done: Vec<bool> = ids.iter().map(|id| id % 3 == 0).collect();
    let columns = [
        Column::Integers(&ids),
        Column::OptionalIntegers(&maybe),
        Column::Texts(&texts),
        Column::OptionalTexts(&maybe_texts),
        Column::Bytes(&data),
        Column::OptionalBytes(&maybe_data),
        Column::Booleans(&done),
    ];
    transaction.insert_many(bulk, &columns).await
}

async fn count(database: &Database) -> i64 {
    let row = database.fetch_optional("SELECT COUNT(*) FROM heap", &[]).await.unwrap().unwrap();
    row.scalar::<i64>().unwrap()
}

async fn on_databases(check: impl AsyncFn(Database)) {
    for backend in [Backend::SqliteMemory, Backend::SqliteFile, Backend::Postgres] {
        if let Some(place) = TestStore::new(backend).await {
            println!("on {backend:?}");
            let database = place.database().await;
            database.migrate("heap", TABLES).await.unwrap();
            check(database).await;
        }
    }
}

#[tokio::test]
async fn every_kind_of_value_comes_back() {
    on_databases(async |database| {
        // Several statements on SQLite, several parts on PostgreSQL, with a remainder on both.
        assert_eq!(put(&database, &PLAIN, 0, 2_345, "a").await.unwrap(), 2_345);
        let rows = database.fetch("SELECT id, maybe, text, maybe_text, data, maybe_data, done FROM heap ORDER BY id", &[]).await;
        let rows = rows.unwrap();
        assert_eq!(rows.len(), 2_345);
        for (id, row) in (0_i64..).zip(&rows) {
            let (text, data) = (format!("a\t\\N {id} \u{1f326}"), vec![id as u8; (id % 300) as usize]);
            assert_eq!(row.get::<i64>("id").unwrap(), id);
            assert_eq!(row.get::<Option<i64>>("maybe").unwrap(), (id % 2 == 0).then_some(-id));
            assert_eq!(row.get::<&str>("text").unwrap(), text);
            assert_eq!(row.get::<Option<&str>>("maybe_text").unwrap(), (text.len() % 2 == 0).then_some(text.as_str()));
            assert_eq!(row.get::<&[u8]>("data").unwrap(), data);
            assert_eq!(row.get::<Option<&[u8]>>("maybe_data").unwrap(), (data.len() % 3 == 0).then_some(data.as_slice()));
            assert_eq!(row.get::<bool>("done").unwrap(), id % 3 == 0);
        }
        assert_eq!(put(&database, &UPSERT, 2_000, 2_400, "b").await.unwrap(), 400);
        let changed = database.fetch("SELECT id FROM heap WHERE text LIKE $1", &[Value::Text("b%")]).await.unwrap();
        assert_eq!((changed.len(), count(&database).await), (400, 2_400));
        assert_eq!(put(&database, &PLAIN, 9_000, 9_000, "none").await.unwrap(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_collision_leaves_nothing_and_the_connection_works_on() {
    on_databases(async |database| {
        put(&database, &PLAIN, 100, 101, "first").await.unwrap();
        assert_eq!(put(&database, &PLAIN, 0, 1_000, "second").await.unwrap_err().code().id(), "store.database");
        assert_eq!(count(&database).await, 1);
        // Given up in the middle, neither does it stay nor does it spoil what comes after.
        for _ in 0..5 {
            let mut transaction = database.begin().await.unwrap();
            let giving_up = tokio::time::timeout(
                std::time::Duration::from_micros(300),
                insert(&mut transaction, &PLAIN, 1_000, 21_000, "third"),
            );
            let _ = giving_up.await;
            drop(transaction);
            assert_eq!(count(&database).await, 1);
        }
        assert_eq!(put(&database, &PLAIN, 0, 50, "fourth").await.unwrap(), 50);
    })
    .await;
}

#[tokio::test]
async fn rows_are_read_by_a_list_of_keys() {
    const SELECT: &str = "SELECT id FROM heap WHERE done = $1 AND data";
    on_databases(async |database| {
        put(&database, &PLAIN, 0, 300, "a").await.unwrap();
        let mut transaction = database.begin_reading().await.unwrap();
        let keys: Vec<Vec<u8>> = (0..200_i64).map(|id| vec![id as u8; id as usize]).collect();
        for keys in [&keys[..], &keys[..64], &keys[..65], &keys[..1], &[]] {
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let rows = transaction.fetch_among(SELECT, &[Value::Boolean(true)], &keys).await.unwrap();
            let mut ids: Vec<i64> = rows.iter().map(|row| row.scalar::<i64>().unwrap()).collect();
            ids.sort_unstable();
            assert_eq!(ids, (0..keys.len() as i64).filter(|id| id % 3 == 0).collect::<Vec<_>>());
        }
    })
    .await;
}
