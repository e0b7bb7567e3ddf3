//! Rows are read by the names of their columns, on both engines.

use alloy_primitives::{Address, B256};
use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::{FromRow, Row, Value};
use toolcrib_store::{Database, Error, Migration, row, sql};

use toolcrib_testkit::databases::{Backend, TestStore};

const TABLES: &[Migration] = &[Migration {
    version: 1,
    sql: "CREATE TABLE fruit (id BIGINT PRIMARY KEY, name TEXT NOT NULL, weight BIGINT, hash BYTES NOT NULL, owner BYTES,
        ripe BOOLEAN NOT NULL, picked_at BIGINT NOT NULL);
    CREATE TABLE basket (fruit BIGINT PRIMARY KEY, name TEXT NOT NULL);",
}];

row! {
    /// All types that a column is read as.
    #[derive(Debug, PartialEq)]
    struct Fruit<'r> from "f" {
        id: u64,
        name: &'r str,
        weight: Option<i64>,
        hash: B256,
        owner: Option<Address>,
        ripe: bool,
        picked_at: UnixTime,
        basket: Option<String> = "b.name",
    }
}

row! {
    #[derive(Debug, PartialEq)]
    struct Weight {
        id: i64,
        weight: i64,
    }
}

const FRUITS: &str =
    sql!("SELECT ", Fruit::COLUMNS, " FROM fruit f LEFT JOIN basket b ON b.fruit = f.id WHERE f.id >= $1 ORDER BY f.id");

async fn on_databases(check: impl AsyncFn(Database)) {
    for backend in [Backend::SqliteMemory, Backend::SqliteFile, Backend::Postgres] {
        if let Some(place) = TestStore::new(backend).await {
            println!("on {backend:?}");
            let database = place.database().await;
            database.migrate("rows", TABLES).await.unwrap();
            for (id, weight, owner) in [(1, None, None), (2, Some(30), Some([7; 20]))] {
                let values = [
                    Value::Integer(id),
                    Value::Text("quince"),
                    Value::OptionalInteger(weight),
                    Value::Bytes(&[id as u8; 32]),
                    Value::OptionalBytes(owner.as_ref().map(|owner: &[u8; 20]| owner.as_slice())),
                    Value::Boolean(id == 2),
                    Value::Integer(100 * id),
                ];
                let insert =
                    "INSERT INTO fruit (id, name, weight, hash, owner, ripe, picked_at) VALUES ($1, $2, $3, $4, $5, $6, $7)";
                database.execute(insert, &values).await.unwrap();
            }
            database.execute("INSERT INTO basket (fruit, name) VALUES (2, 'blue')", &[]).await.unwrap();
            check(database).await;
        }
    }
}

#[track_caller]
fn code<T>(read: Result<T, Error>) -> (&'static str, String) {
    let error = read.err().expect("an error");
    (error.code().id(), error.to_string())
}

async fn only(database: &Database, sql: &'static str) -> Row {
    database.fetch_optional(sql, &[]).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_struct_and_its_statement_have_the_same_columns() {
    assert_eq!(Fruit::COLUMNS, "f.id, f.name, f.weight, f.hash, f.owner, f.ripe, f.picked_at, b.name AS basket");
    assert_eq!(Weight::NAMES, ["id", "weight"]);
    on_databases(async |database| {
        let rows = database.fetch(FRUITS, &[Value::Integer(1)]).await.unwrap();
        let fruits: Vec<Fruit<'_>> = Fruit::from_rows(&rows).collect::<Result<_, _>>().unwrap();
        let one = Fruit {
            id: 1,
            name: "quince",
            weight: None,
            hash: B256::repeat_byte(1),
            owner: None,
            ripe: false,
            picked_at: UnixTime::from_seconds(100),
            basket: None,
        };
        let two = Fruit {
            id: 2,
            weight: Some(30),
            hash: B256::repeat_byte(2),
            owner: Some(Address::repeat_byte(7)),
            ripe: true,
            picked_at: UnixTime::from_seconds(200),
            basket: Some("blue".to_owned()),
            ..one
        };
        assert_eq!(Fruit::from_row(&rows[1]).unwrap(), two);
        assert_eq!(fruits, [one, two]);
        assert_eq!(Fruit::from_rows(&[]).count(), 0);
    })
    .await;
}

#[tokio::test]
async fn columns_are_found_in_any_order_and_among_others() {
    on_databases(async |database| {
        let known = Weight { id: 2, weight: 30 };
        for sql in [
            "SELECT weight, id FROM fruit WHERE id = 2",
            "SELECT name, id, weight, ripe FROM fruit WHERE id = 2",
            "SELECT id, name, weight FROM fruit WHERE id = 2",
        ] {
            let rows = database.fetch(sql, &[]).await.unwrap();
            assert_eq!(Weight::from_row(&rows[0]).unwrap(), known, "{sql}");
            assert_eq!(Weight::from_rows(&rows).collect::<Result<Vec<_>, _>>().unwrap(), [Weight { ..known }], "{sql}");
            assert_eq!(rows[0].get::<i64>("weight").unwrap(), 30);
        }
    })
    .await;
}

#[tokio::test]
async fn a_missing_column_and_a_wrong_type_have_codes_and_name_the_column() {
    on_databases(async |database| {
        let missing = ("store.column", "the result of a statement has no column weight".to_owned());
        let row = only(&database, "SELECT id, name FROM fruit WHERE id = 2").await;
        assert_eq!(code(Weight::from_row(&row)), missing);
        assert_eq!(code(Weight::from_rows(std::slice::from_ref(&row)).collect::<Result<Vec<_>, _>>()), missing);
        assert_eq!(code(row.get::<i64>("weight")), missing);
        assert_eq!(code(row.scalar::<i64>()).0, "store.column", "there are two");

        let wrong = |expected: &str| ("store.corrupt", format!("the column weight does not hold {expected}"));
        let row = only(&database, "SELECT id, name AS weight FROM fruit WHERE id = 2").await;
        assert_eq!(code(Weight::from_row(&row)), wrong("a whole number"));
        assert_eq!(code(row.get::<bool>("weight")), wrong("a boolean"));
        let row = only(&database, "SELECT id, weight FROM fruit WHERE id = 1").await;
        assert_eq!(code(Weight::from_row(&row)), wrong("a whole number"), "nothing is no number");
        assert_eq!(row.get::<Option<i64>>("weight").unwrap(), None);
        let row = only(&database, "SELECT id, -weight AS weight FROM fruit WHERE id = 2").await;
        assert_eq!(code(row.get::<u64>("weight")), wrong("a number from 0 on"));
        let row = only(&database, "SELECT id, owner AS weight FROM fruit WHERE id = 2").await;
        assert_eq!(code(row.get::<B256>("weight")), wrong("32 bytes"));
        assert_eq!(code(row.get::<i64>("weight")), wrong("a whole number"));
        assert_eq!(row.get::<Vec<u8>>("weight").unwrap(), [7; 20]);
        let row = only(&database, "SELECT id, hash AS weight FROM fruit WHERE id = 2").await;
        assert_eq!(code(row.get::<Address>("weight")), wrong("the 20 bytes of an address"));
    })
    .await;
}
