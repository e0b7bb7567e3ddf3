//! The database below: opening, migrations, secrets.

use std::sync::Arc;

use toolcrib_store::database::{Engine, PerEngine, Value};
use toolcrib_store::replay::{Limits, SqlReplay};
use toolcrib_store::{Database, Location, Migration};

use toolcrib_testkit::databases::{Backend, DURABLE, PASSWORD, Server, TestStore};

const FIRST: Migration = Migration {
    version: 1,
    sql: "CREATE TABLE note (id BIGINT PRIMARY KEY, text TEXT NOT NULL, data BYTES, done BOOLEAN NOT NULL)",
};
const SECOND: Migration = Migration { version: 2, sql: "ALTER TABLE note ADD COLUMN rank BIGINT NOT NULL DEFAULT 5" };

async fn on_databases(check: impl AsyncFn(TestStore)) {
    for backend in [Backend::SqliteMemory, Backend::SqliteFile, Backend::Postgres] {
        if let Some(place) = TestStore::new(backend).await {
            println!("on {backend:?}");
            check(place).await;
        }
    }
}

#[tokio::test]
async fn the_four_types_come_back_as_they_went_in() {
    on_databases(async |place| {
        let database = place.database().await;
        database.migrate("notes", &[FIRST]).await.unwrap();
        let insert = "INSERT INTO note (id, text, data, done) VALUES ($1, $2, $3, $4)";
        let bytes = [0, 255, 128];
        for (id, text, data, done) in [(i64::MIN, "", None, false), (i64::MAX, "naïve 🌦 '; --", Some(bytes.as_slice()), true)]
        {
            let values = [Value::Integer(id), Value::Text(text), Value::OptionalBytes(data), Value::Boolean(done)];
            assert_eq!(database.execute(insert, &values).await.unwrap(), 1);
            let rows =
                database.fetch("SELECT text, data, done, id FROM note WHERE id = $1", &[Value::Integer(id)]).await.unwrap();
            assert_eq!(rows[0].get::<&str>("text").unwrap(), text);
            assert_eq!(rows[0].get::<Option<&[u8]>>("data").unwrap(), data);
            assert_eq!((rows[0].get::<bool>("done").unwrap(), rows[0].get::<i64>("id").unwrap()), (done, id));
            assert_eq!(rows[0].get::<i64>("text").unwrap_err().code().id(), "store.corrupt");
        }
        assert_eq!(database.execute("SELECT nonsense", &[]).await.unwrap_err().code().id(), "store.database");
    })
    .await;
}

#[tokio::test]
async fn migrations_go_forward_and_old_programs_go_on() {
    on_databases(async |place| {
        let database = place.database().await;
        database.migrate("notes", &[FIRST]).await.unwrap();
        database.migrate("notes", &[FIRST]).await.expect("nothing to do");
        // Another module has numbers of its own.
        let other = Migration { version: 1, sql: "CREATE TABLE other (id BIGINT PRIMARY KEY)" };
        database.migrate("others", &[other]).await.unwrap();
        let old = "INSERT INTO note (id, text, done) VALUES ($1, $2, $3)";
        database.execute(old, &[Value::Integer(1), Value::Text("a"), Value::Boolean(true)]).await.unwrap();

        database.migrate("notes", &[FIRST, SECOND]).await.unwrap();
        // The old program neither minds the new column nor the newer number.
        database.migrate("notes", &[FIRST]).await.unwrap();
        database.execute(old, &[Value::Integer(2), Value::Text("b"), Value::Boolean(true)]).await.unwrap();
        let rows = database.fetch("SELECT rank FROM note ORDER BY id", &[]).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.scalar::<i64>().unwrap()).collect::<Vec<_>>(), [5, 5]);

        let edited = Migration { sql: "CREATE TABLE note (id BIGINT)", ..FIRST };
        assert_eq!(database.migrate("notes", &[edited]).await.unwrap_err().code().id(), "store.migration_changed");
        let taking = Migration { version: 3, sql: "ALTER TABLE note DROP COLUMN text" };
        assert_eq!(database.migrate("notes", &[FIRST, taking]).await.unwrap_err().code().id(), "store.migration_not_additive");
        // A migration that fails leaves nothing behind, its first half neither.
        let broken = Migration { version: 3, sql: "CREATE TABLE half (id BIGINT); CREATE TABLE note (id BIGINT)" };
        assert_eq!(database.migrate("notes", &[broken]).await.unwrap_err().code().id(), "store.database");
        assert!(database.fetch("SELECT id FROM half", &[]).await.is_err());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_may_begin_at_once() {
    for backend in DURABLE {
        let Some(place) = TestStore::new(backend).await else { continue };
        let place = Arc::new(place);
        let tasks: Vec<_> = (0..6)
            .map(|_| {
                let place = Arc::clone(&place);
                tokio::spawn(async move { SqlReplay::open(place.database().await, Limits::default()).await.map(drop) })
            })
            .collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        let rows = place.database().await.fetch("SELECT COUNT(*) FROM replay_room", &[]).await.unwrap();
        assert_eq!(rows[0].scalar::<i64>().unwrap(), 16, "made once");
    }
}

#[tokio::test]
async fn a_transaction_that_is_dropped_never_was() {
    on_databases(async |place| {
        let database = place.database().await;
        database.migrate("notes", &[FIRST]).await.unwrap();
        let insert = "INSERT INTO note (id, text, done) VALUES ($1, 'x', $2)";
        let mut transaction = database.begin().await.unwrap();
        transaction.execute(insert, &[Value::Integer(1), Value::Boolean(true)]).await.unwrap();
        drop(transaction);
        let mut transaction = database.begin().await.unwrap();
        transaction.execute(insert, &[Value::Integer(1), Value::Boolean(true)]).await.unwrap();
        transaction.commit().await.unwrap();
        let rows = database.fetch("SELECT COUNT(*) FROM note", &[]).await.unwrap();
        assert_eq!(rows[0].scalar::<i64>().unwrap(), 1);
    })
    .await;
}

#[tokio::test]
async fn sqlite_is_set_up_for_money() {
    let place = TestStore::new(Backend::SqliteFile).await.unwrap();
    let database = place.database().await;
    assert_eq!(database.engine(), Engine::Sqlite);
    let mut transaction = database.begin().await.unwrap();
    for (pragma, value) in [("PRAGMA synchronous", 2), ("PRAGMA foreign_keys", 1), ("PRAGMA busy_timeout", 5_000)] {
        assert_eq!(transaction.fetch(pragma, &[]).await.unwrap()[0].scalar::<i64>().unwrap(), value, "{pragma}");
    }
    assert_eq!(transaction.fetch("PRAGMA journal_mode", &[]).await.unwrap()[0].scalar::<&str>().unwrap(), "wal");
    drop(transaction);
    // What is for reading cannot write.
    assert!(database.fetch("CREATE TABLE a (b BIGINT)", &[]).await.is_err());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let path = place.location().path().unwrap().to_owned();
        for path in [path.clone(), path.with_extension("db-wal")] {
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
        }
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let no_folder = Location::file(folder.path().join("missing").join("store.db"));
    assert_eq!(Database::open(&no_folder).await.unwrap_err().code().id(), "store.open");
    let text = folder.path().join("text.db");
    std::fs::write(&text, "this is not a database, and long enough to be looked at as if it were one, with a header of its own")
        .unwrap();
    let error = match Database::open(&Location::file(&text)).await {
        Ok(database) => database.migrate("notes", &[FIRST]).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(["store.open", "store.database"].contains(&error.code().id()), "{error}");
}

#[tokio::test]
async fn the_password_is_never_said() {
    let Some(server) = Server::shared() else { return };
    let url = |password: &str, port: u16| format!("postgres://toolcrib:{password}@127.0.0.1:{port}/postgres");
    let good = Location::postgres(url(PASSWORD, server.port)).unwrap();
    let database = Database::open(&good).await.unwrap();
    assert_eq!(database.engine(), Engine::Postgres);
    let mut said = format!("{good} {good:?} {database:?}");

    // A wrong password, no server, and an invalid URL.
    let unused = { std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port() };
    for (url, code) in [
        (url("wrong-hidden", server.port), "store.open"),
        (url("wrong-hidden", unused), "store.open"),
        ("postgres://toolcrib:wrong-hidden@127.0.0.1:99999999/x".to_owned(), "store.location"),
        ("postgres://toolcrib:wrong-hidden@[::1/x".to_owned(), "store.location"),
        (format!("{}?sslmode=wrong-hidden", url("x", server.port)), "store.location"),
    ] {
        let error = Database::open(&Location::postgres(url).unwrap()).await.unwrap_err();
        assert_eq!(error.code().id(), code, "{error}");
        said += &format!("{error} {error:?}");
    }
    for secret in [PASSWORD, "hidden"] {
        assert!(!said.contains(secret), "{said}");
    }
}

#[tokio::test]
async fn a_connection_that_is_lost_is_replaced() {
    let Some(place) = TestStore::new(Backend::Postgres).await else { return };
    let database = Database::open(&place.location().connections(1)).await.unwrap();
    let mine = "SELECT CAST(pg_backend_pid() AS BIGINT)";
    let first = database.fetch(mine, &[]).await.unwrap()[0].scalar::<i64>().unwrap();
    let operator = place.database().await;
    operator.fetch("SELECT pg_terminate_backend(CAST($1 AS INTEGER))", &[Value::Integer(first)]).await.unwrap();
    let error = loop {
        // The server ends it when it gets round to it.
        match database.fetch(mine, &[]).await {
            // The pool may notice before a statement does.
            Ok(rows) if rows[0].scalar::<i64>().unwrap() != first => return,
            Ok(_) => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
            Err(error) => break error,
        }
    };
    assert_eq!(error.code().id(), "store.lost", "{error}");
    assert!(error.is_retryable());
    assert_ne!(database.fetch(mine, &[]).await.unwrap()[0].scalar::<i64>().unwrap(), first);
}

const ROWS: Migration =
    Migration { version: 1, sql: "CREATE TABLE many (id BIGINT NOT NULL PRIMARY KEY, value BIGINT NOT NULL);" };
const VALUES: Migration = Migration {
    version: 1,
    sql: "CREATE INDEX many_value ON many (value);
    CREATE INDEX many_odd ON many (value) WHERE value > 5;",
};
const INDEX_MODULE: &[(&str, &[Migration])] = &[("many.indexes", &[VALUES])];
const FILL: &str = "INSERT INTO many SELECT n, n FROM GENERATE_SERIES(1, 20000) AS n";
const VALID: &str = "SELECT CAST(COUNT(*) AS BIGINT) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = CURRENT_SCHEMA() AND c.relname LIKE 'many\\_%' AND indisvalid
    AND c.relname <> 'many_pkey'";

#[tokio::test(flavor = "multi_thread")]
async fn indexes_are_built_while_others_write() {
    let Some(place) = TestStore::new(Backend::Postgres).await else { return };
    let database = place.database().await;
    database.migrate("many", &[ROWS]).await.unwrap();
    database.execute(FILL, &[]).await.unwrap();
    let mut writing = database.begin().await.unwrap();
    writing.execute("INSERT INTO many VALUES (0, 0)", &[]).await.unwrap();
    let building = tokio::spawn({
        let database = database.clone();
        async move { database.build_indexes(INDEX_MODULE).await }
    });
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    assert!(!building.is_finished(), "it waits for the transaction that is open");
    let insert = database.execute("INSERT INTO many VALUES (-1, -1)", &[]);
    tokio::time::timeout(std::time::Duration::from_secs(2), insert).await.expect("nobody waits for it").unwrap();
    // Another process sees that the build is running.
    assert!(!place.database().await.build_indexes(INDEX_MODULE).await.unwrap());
    writing.commit().await.unwrap();
    assert!(building.await.unwrap().unwrap());
    assert_eq!(database.fetch(VALID, &[]).await.unwrap()[0].scalar::<i64>().unwrap(), 2);
    assert!(database.build_indexes(INDEX_MODULE).await.unwrap(), "it is done");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_was_left_half_built_is_replaced() {
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some(place) = TestStore::new(backend).await else { continue };
        let database = place.database().await;
        database.migrate("many", &[ROWS]).await.unwrap();
        if backend == Backend::Postgres {
            database.execute(FILL, &[]).await.unwrap();
            // One is whole, and the process died while it built the other.
            for sql in [
                "CREATE INDEX many_value ON many (value)",
                "CREATE INDEX many_odd ON many (value) WHERE value > 5",
                "UPDATE pg_index SET indisvalid = FALSE WHERE indexrelid = CAST('many_odd' AS regclass)",
            ] {
                database.execute(sql, &[]).await.unwrap();
            }
            assert_eq!(database.fetch(VALID, &[]).await.unwrap()[0].scalar::<i64>().unwrap(), 1);
        }
        assert!(database.build_indexes(INDEX_MODULE).await.unwrap());
        let names = database.pick(PerEngine {
            sqlite: "SELECT COUNT(*) FROM sqlite_master WHERE type = 'index' AND name IN ('many_value', 'many_odd')",
            postgres: VALID,
        });
        assert_eq!(database.fetch(names, &[]).await.unwrap()[0].scalar::<i64>().unwrap(), 2);
        // A statement that does not build an index is refused in such a module.
        let wrong = Migration { version: 2, sql: "CREATE TABLE other (id BIGINT NOT NULL PRIMARY KEY);" };
        if backend == Backend::Postgres {
            assert!(database.build_indexes(&[("many.indexes", &[VALUES, wrong])]).await.is_err());
        }
    }
}
