//! What a plan of a deployment needs to know: bytes of rows, of the log and of the feed, and how far a streaming replica is behind.

use std::time::{Duration, Instant};

use toolcrib_index::Index;
use toolcrib_store::Database;

use toolcrib_testkit::databases::{Server, TestStore};

/// Tables with a row for each tool, or for each of its events and verdicts.
const TABLES: [&str; 8] =
    ["index_tool", "index_event", "index_job", "index_listing", "index_watch", "index_report", "index_evidence", "index_verdict"];

/// Rows that a replica has to show.
const ROWS: i64 = 100_000;

async fn integers<const COLUMNS: usize>(database: &Database, sql: String, columns: [&'static str; COLUMNS]) -> [i64; COLUMNS] {
    let rows = database.fetch_made(sql, &[]).await.expect("read");
    let row = rows.first().expect("a row");
    columns.map(|column| row.get(column).expect("a number"))
}

/// Bytes of the write-ahead log so far; nought where there is none.
pub(crate) async fn log_bytes(index: &Index) -> i64 {
    if !crate::place_is_postgres(index) {
        return 0;
    }
    let sql = "SELECT CAST(pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') AS BIGINT) AS bytes".to_owned();
    let [bytes] = integers(index.database(), sql, ["bytes"]).await;
    bytes
}

/// Bytes of a row, and of everything that the table takes for it: pages, indexes, and values that are kept apart.
pub(crate) async fn tables(index: &Index, tools: u64) {
    let mut all = 0;
    for table in TABLES {
        let sql = format!(
            "SELECT COUNT(*) AS rows, CAST(COALESCE(AVG(pg_column_size(t)), 0) AS BIGINT) AS bytes,
                pg_total_relation_size(CAST('{table}' AS regclass)) AS total FROM {table} t"
        );
        let [rows, bytes, total] = integers(index.database(), sql, ["rows", "bytes", "total"]).await;
        all += total;
        println!("size: {table}: {rows} rows of {bytes} bytes, {} bytes a tool on disk", total / tools as i64);
    }
    println!("size: all of these tables: {} bytes a tool on disk", all / tools as i64);
    let sql = "SELECT COUNT(*) AS rows, CAST(SUM(seq - first + 1) AS BIGINT) AS numbered, CAST(SUM(LENGTH(changes)) AS BIGINT) AS packed,
        pg_total_relation_size(CAST('index_change' AS regclass)) AS total FROM index_change";
    let [rows, changes, packed, total] =
        integers(index.database(), sql.to_owned(), ["rows", "numbered", "packed", "total"]).await;
    println!(
        "size: feed: {changes} changes in {rows} rows, {:.1} bytes each packed, {:.1} on disk",
        packed as f64 / changes as f64,
        total as f64 / changes as f64
    );
}

/// How long an empty replica takes to be made and started, and rows to be visible there.
pub(crate) async fn replica() {
    let Some(primary) = Server::own() else { return };
    let begun = Instant::now();
    let replica = primary.replica();
    println!("replica: copied and started in {:.1} s, of an empty server", begun.elapsed().as_secs_f64());
    let place = TestStore::on(&primary).await;
    let (written, read) = (place.database().await, TestStore::again_at(&place, &primary, &replica).database().await);
    written
        .execute("CREATE TABLE bench_row (id BIGINT NOT NULL PRIMARY KEY, value BIGINT NOT NULL)", &[])
        .await
        .expect("a table");
    for round in 1..=3 {
        let last = round * ROWS;
        let begun = Instant::now();
        let sql = format!(
            "INSERT INTO bench_row (id, value) SELECT id, id FROM generate_series({}, {last}) AS id RETURNING id",
            last - ROWS + 1
        );
        written.fetch_made(sql, &[]).await.expect("rows");
        let committed = Instant::now();
        // The table itself comes through the log as well.
        while !read
            .fetch("SELECT MAX(id) FROM bench_row", &[])
            .await
            .is_ok_and(|rows| rows.first().and_then(|row| row.scalar::<Option<i64>>().ok().flatten()) == Some(last))
        {
            assert!(begun.elapsed() < Duration::from_secs(60), "the replica shows nothing");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        println!(
            "replica: {ROWS} rows written in {} ms, visible {} ms after the commit",
            committed.duration_since(begun).as_millis(),
            committed.elapsed().as_millis()
        );
    }
}
