//! Bulk writes: many rows in few statements.
//!
//! On PostgreSQL, rows that cannot conflict are copied (`COPY`, which fills whole pages at once) and others are sent as arrays (`UNNEST`);
//! on SQLite, a statement has many rows of `VALUES`. Either way a row costs a few microseconds and no round trip, and everything is part of
//! the caller's transaction.

use std::fmt::Write as _;

use sqlx::{AssertSqlSafe, PgConnection};

use super::{Cells, Inner, Row, Transaction, Value, bind_one, bind_sqlite, wrap};
use crate::Error;

/// Most rows of one statement on SQLite, which accepts 32,766 values: enough that the cost of statements does not matter, few enough for
/// tables of a hundred columns.
pub const MAX_BULK_ROWS: usize = 256;

/// Most rows of one statement on PostgreSQL, so that a message is far below the server's limit of a gibibyte.
const MAX_ARRAY_ROWS: usize = 16_384;

/// `INSERT INTO table (columns) … conflict`.
#[derive(Clone, Copy, Debug)]
pub struct Bulk {
    /// The table.
    pub table: &'static str,
    /// Its columns, in the order of the values.
    pub columns: &'static [&'static str],
    /// The clause after the rows, such as `ON CONFLICT (…) DO NOTHING`. On PostgreSQL one statement may not touch a row twice.
    pub conflict: &'static str,
}

/// One column of many rows. All columns of a statement have the same length.
#[derive(Clone, Copy, Debug)]
pub enum Column<'a> {
    /// Integers.
    Integers(&'a [i64]),
    /// Nullable integers.
    OptionalIntegers(&'a [Option<i64>]),
    /// Texts.
    Texts(&'a [&'a str]),
    /// Nullable texts.
    OptionalTexts(&'a [Option<&'a str>]),
    /// Bytes.
    Bytes(&'a [&'a [u8]]),
    /// Nullable bytes.
    OptionalBytes(&'a [Option<&'a [u8]>]),
    /// Booleans.
    Booleans(&'a [bool]),
}

impl<'a> Column<'a> {
    const fn len(&self) -> usize {
        match self {
            Self::Integers(values) => values.len(),
            Self::OptionalIntegers(values) => values.len(),
            Self::Texts(values) => values.len(),
            Self::OptionalTexts(values) => values.len(),
            Self::Bytes(values) => values.len(),
            Self::OptionalBytes(values) => values.len(),
            Self::Booleans(values) => values.len(),
        }
    }

    /// Returns the value in an existing row.
    fn value(&self, row: usize) -> Value<'a> {
        match self {
            Self::Integers(values) => Value::Integer(values[row]),
            Self::OptionalIntegers(values) => Value::OptionalInteger(values[row]),
            Self::Texts(values) => Value::Text(values[row]),
            Self::OptionalTexts(values) => Value::OptionalText(values[row]),
            Self::Bytes(values) => Value::Bytes(values[row]),
            Self::OptionalBytes(values) => Value::OptionalBytes(values[row]),
            Self::Booleans(values) => Value::Boolean(values[row]),
        }
    }

    /// Returns its array type on PostgreSQL.
    const fn array(&self) -> &'static str {
        match self {
            Self::Integers(_) | Self::OptionalIntegers(_) => "bigint[]",
            Self::Texts(_) | Self::OptionalTexts(_) => "text[]",
            Self::Bytes(_) | Self::OptionalBytes(_) => "bytea[]",
            Self::Booleans(_) => "boolean[]",
        }
    }
}

pub(super) async fn insert(transaction: &mut Transaction, bulk: &Bulk, columns: &[Column<'_>]) -> Result<u64, Error> {
    let rows = columns.first().map_or(0, Column::len);
    if columns.len() != bulk.columns.len() || columns.iter().any(|column| column.len() != rows) {
        return Err(Error::Corrupt { what: "bulk of rows: its columns are not of one length" });
    }
    let mut touched = 0;
    match &mut transaction.0 {
        Inner::Sqlite(transaction) => {
            let part = |start: usize| {
                (start < rows).then(|| {
                    let end = rows.min(start + MAX_BULK_ROWS);
                    // A statement for each remainder would fill the cache of prepared statements.
                    let is_whole = end - start == MAX_BULK_ROWS;
                    let mut query = sqlx::query(AssertSqlSafe(rows_of_values(bulk, end - start)));
                    for row in start..end {
                        query = columns.iter().fold(query, |query, column| bind_one(query, column.value(row)));
                    }
                    query.persistent(is_whole)
                })
            };
            let mut next = part(0);
            let mut start = 0;
            while let Some(query) = next {
                start += MAX_BULK_ROWS;
                // The statement runs on another thread: meanwhile this one prepares the next.
                let (done, after) = tokio::join!(query.execute(&mut **transaction), async { part(start) });
                touched += done?.rows_affected();
                next = after;
            }
        }
        Inner::Local(savepoint) => {
            for start in (0..rows).step_by(MAX_BULK_ROWS) {
                let end = rows.min(start + MAX_BULK_ROWS);
                let values: Vec<_> = (start..end).flat_map(|row| columns.iter().map(move |column| column.value(row))).collect();
                touched += savepoint.connection.execute(&rows_of_values(bulk, end - start), &values)?;
            }
        }
        Inner::Postgres(transaction) if bulk.conflict.is_empty() && rows >= COPY_ROWS => {
            touched = copy(transaction, bulk, columns, rows).await?
        }
        Inner::Postgres(transaction) => {
            let sql = arrays(bulk, columns);
            for start in (0..rows).step_by(MAX_ARRAY_ROWS) {
                let end = rows.min(start + MAX_ARRAY_ROWS);
                let mut query = sqlx::query(AssertSqlSafe(sql.clone()));
                for column in columns {
                    query = match *column {
                        Column::Integers(values) => query.bind(&values[start..end]),
                        Column::OptionalIntegers(values) => query.bind(&values[start..end]),
                        Column::Texts(values) => query.bind(&values[start..end]),
                        Column::OptionalTexts(values) => query.bind(&values[start..end]),
                        Column::Bytes(values) => query.bind(&values[start..end]),
                        Column::OptionalBytes(values) => query.bind(&values[start..end]),
                        Column::Booleans(values) => query.bind(&values[start..end]),
                    };
                }
                touched += query.execute(&mut **transaction).await?.rows_affected();
            }
        }
    }
    Ok(touched)
}

/// Binds columns as arrays.
pub(super) fn bind_columns<'q>(query: super::PostgresQuery<'q>, columns: &[Column<'q>]) -> super::PostgresQuery<'q> {
    columns.iter().fold(query, |query, column| match *column {
        Column::Integers(values) => query.bind(values),
        Column::OptionalIntegers(values) => query.bind(values),
        Column::Texts(values) => query.bind(values),
        Column::OptionalTexts(values) => query.bind(values),
        Column::Bytes(values) => query.bind(values),
        Column::OptionalBytes(values) => query.bind(values),
        Column::Booleans(values) => query.bind(values),
    })
}

/// Fewest rows that are copied. Fewer do not justify a second round trip; and since the driver does not disable Nagle's algorithm, the end
/// of a copy may wait for the server to acknowledge what came before it, which takes 40 ms over TCP.
const COPY_ROWS: usize = 500;

/// Header of the binary COPY format: signature, no flags, no extension.
const COPY_START: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// Trailer of the binary COPY format: a row of -1 values.
const COPY_END: [u8; 2] = (-1_i16).to_be_bytes();
/// Bytes after which the buffer is sent.
const COPY_PART: usize = 256 << 10;

async fn copy(connection: &mut PgConnection, bulk: &Bulk, columns: &[Column<'_>], rows: usize) -> Result<u64, Error> {
    let too_large = |_| Error::Corrupt { what: "bulk of rows: a value is too large" };
    let width = i16::try_from(columns.len()).map_err(too_large)?.to_be_bytes();
    let sql = format!("COPY {} ({}) FROM STDIN (FORMAT binary)", bulk.table, bulk.columns.join(", "));
    let mut stream = connection.copy_in_raw(&sql).await?;
    let mut part = Vec::with_capacity(COPY_PART + COPY_PART / 8);
    part.extend_from_slice(COPY_START);
    for row in 0..rows {
        part.extend_from_slice(&width);
        for column in columns {
            let mut value = |bytes: Option<&[u8]>| -> Result<(), Error> {
                let Some(bytes) = bytes else {
                    part.extend_from_slice(&(-1_i32).to_be_bytes());
                    return Ok(());
                };
                part.extend_from_slice(&i32::try_from(bytes.len()).map_err(too_large)?.to_be_bytes());
                part.extend_from_slice(bytes);
                Ok(())
            };
            match *column {
                Column::Integers(values) => value(Some(&values[row].to_be_bytes()))?,
                Column::OptionalIntegers(values) => value(values[row].map(i64::to_be_bytes).as_ref().map(<[u8; 8]>::as_slice))?,
                Column::Texts(values) => value(Some(values[row].as_bytes()))?,
                Column::OptionalTexts(values) => value(values[row].map(str::as_bytes))?,
                Column::Bytes(values) => value(Some(values[row]))?,
                Column::OptionalBytes(values) => value(values[row])?,
                Column::Booleans(values) => value(Some(&[u8::from(values[row])]))?,
            }
        }
        if part.len() >= COPY_PART {
            stream.send(part.as_slice()).await?;
            part.clear();
        }
    }
    part.extend_from_slice(&COPY_END);
    stream.send(part.as_slice()).await?;
    Ok(stream.finish().await?)
}

/// Keys of one statement of [`Transaction::fetch_among`] on SQLite. The number is fixed, so that there is one prepared statement.
const KEYS_AT_ONCE: usize = 64;

pub(super) async fn fetch_among(
    transaction: &mut Transaction,
    sql: &str,
    values: &[Value<'_>],
    keys: &[&[u8]],
) -> Result<Vec<Row>, Error> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let first = values.len() + 1;
    match &mut transaction.0 {
        Inner::Sqlite(transaction) => {
            let mut found = Vec::with_capacity(keys.len());
            for keys in keys.chunks(KEYS_AT_ONCE) {
                let (sql, values) = one_of(sql, values, keys);
                let query = bind_sqlite(AssertSqlSafe(sql), &values);
                found.extend(wrap(query.fetch_all(&mut **transaction).await?, Cells::Sqlite));
            }
            Ok(found)
        }
        Inner::Local(savepoint) => {
            let mut found = Vec::with_capacity(keys.len());
            for keys in keys.chunks(KEYS_AT_ONCE) {
                let (sql, values) = one_of(sql, values, keys);
                found.extend(savepoint.connection.fetch(&sql, &values)?);
            }
            Ok(found)
        }
        Inner::Postgres(transaction) => {
            // Key by key: for `= ANY`, a server without statistics of a table reads all of it.
            let sql = format!(
                "SELECT found.* FROM UNNEST(${first}::bytea[]) AS wanted (key) CROSS JOIN LATERAL ({sql} = wanted.key OFFSET 0) AS found"
            );
            // Planned each time: a plan that was cached while a table was empty reads all of it when it is full.
            let query = super::bind_postgres(AssertSqlSafe(sql), values).bind(keys).persistent(false);
            Ok(wrap(query.fetch_all(&mut **transaction).await?, Cells::Postgres))
        }
    }
}

/// Returns a SQLite statement with a fixed number of keys, so that it is prepared once: the last key is repeated as padding.
fn one_of<'v>(sql: &str, values: &[Value<'v>], keys: &[&'v [u8]]) -> (String, Vec<Value<'v>>) {
    let first = values.len() + 1;
    let mut list = String::with_capacity(6 * KEYS_AT_ONCE);
    let mut values = values.to_vec();
    for place in 0..KEYS_AT_ONCE {
        let comma = if place == 0 { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(list, "{comma}${}", first + place);
        values.push(Value::Bytes(keys[place.min(keys.len() - 1)]));
    }
    (format!("{sql} IN ({list})"), values)
}

fn rows_of_values(bulk: &Bulk, rows: usize) -> String {
    let mut sql = format!("INSERT INTO {} ({}) VALUES ", bulk.table, bulk.columns.join(", "));
    for row in 0..rows {
        sql.push_str(if row == 0 { "(" } else { ", (" });
        for column in 0..bulk.columns.len() {
            sql.push_str(if column == 0 { "?" } else { ", ?" });
        }
        sql.push(')');
    }
    sql.push(' ');
    sql.push_str(bulk.conflict);
    sql
}

fn arrays(bulk: &Bulk, columns: &[Column<'_>]) -> String {
    let mut sql = format!("INSERT INTO {} ({}) SELECT * FROM UNNEST(", bulk.table, bulk.columns.join(", "));
    for (index, column) in columns.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(sql, "{comma}${}::{}", index + 1, column.array());
    }
    sql.push_str(") ");
    sql.push_str(bulk.conflict);
    sql
}
