//! Rows, and structs made of them by the names of their columns.
//!
//! [`row!`](crate::row) declares a struct together with the columns that a statement selects for it, and [`sql!`](crate::sql) puts this
//! list into the statement, so that the two cannot differ. Names are looked up once for all rows of a result, not for each row.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use alloy_primitives::{Address, B256};
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{Column as _, Row as _, ValueRef as _};
use toolcrib_core::clock::UnixTime;

use super::local;
use crate::Error;

/// A row of a result.
pub struct Row(Cells);

pub(super) enum Cells {
    Sqlite(SqliteRow),
    Postgres(PgRow),
    /// The values, and the names of all columns, which the rows of a result share.
    Local(Vec<local::Cell>, Arc<str>),
}

impl From<Cells> for Row {
    fn from(cells: Cells) -> Self {
        Self(cells)
    }
}

/// Reads one value in the way of each driver. Asked for a number, the driver of SQLite makes nought of NULL; asked for an optional one, it
/// says what is there.
macro_rules! decode {
    ($cell:ident, $expected:literal, $local:expr) => {{
        let decoded = match &$cell.row.0 {
            Cells::Sqlite(row) => row.try_get::<Option<_>, _>($cell.place).map_err(Error::from).and_then(present),
            Cells::Postgres(row) => row.try_get::<Option<_>, _>($cell.place).map_err(Error::from).and_then(present),
            Cells::Local(row, _) => local::cell(row, $cell.place).and_then($local),
        };
        decoded.map_err(|error| $cell.wrong(error, $expected))
    }};
}

fn present<T>(value: Option<T>) -> Result<T, Error> {
    value.ok_or(Error::Corrupt { what: "column" })
}

impl Row {
    /// Returns the value of a statement that selects one column, such as a count.
    pub fn scalar<'r, T: FromCell<'r>>(&'r self) -> Result<T, Error> {
        if self.names().count() != 1 {
            return Err(Error::MissingColumn { column: "that is the only one" });
        }
        T::from_cell(Cell { row: self, place: 0, column: "that is the only one" })
    }

    /// Returns the value of the column with this name. For several columns or rows, declare a struct with [`row!`](crate::row).
    pub fn get<'r, T: FromCell<'r>>(&'r self, column: &'static str) -> Result<T, Error> {
        let place = self.names().position(|name| name == column).ok_or(Error::MissingColumn { column })?;
        T::from_cell(Cell { row: self, place, column })
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        // One of the three has the names; the others are empty.
        let (sqlite, postgres, local) = match &self.0 {
            Cells::Sqlite(row) => (row.columns(), &[][..], None),
            Cells::Postgres(row) => (&[][..], row.columns(), None),
            Cells::Local(_, names) => (&[][..], &[][..], Some(names.split(local::NAMES_SEPARATOR))),
        };
        let names = sqlite.iter().map(|column| column.name()).chain(postgres.iter().map(|column| column.name()));
        names.chain(local.into_iter().flatten())
    }
}

impl fmt::Debug for Row {
    /// Row contents are never logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Row")
    }
}

/// A struct that is read from a row by the names of its columns. [`row!`](crate::row) declares one.
pub trait FromRow<'r>: Sized {
    /// The columns as a statement selects them: `registry, tool, COALESCE(a, b) AS name`.
    const COLUMNS: &'static str;

    /// Their names, in the order of the fields.
    const NAMES: &'static [&'static str];

    /// Reads the fields in the order of [`NAMES`](Self::NAMES).
    fn from_fields(fields: &mut Fields<'r, '_>) -> Result<Self, Error>;

    /// Reads one row.
    fn from_row(row: &'r Row) -> Result<Self, Error> {
        Self::from_fields(&mut Fields { row, places: &Places::find(row, Self::NAMES)?, names: Self::NAMES, next: 0 })
    }

    /// Reads the rows of one result.
    fn from_rows(rows: &'r [Row]) -> Records<'r, Self> {
        Records { rows: rows.iter(), places: None, record: PhantomData }
    }
}

/// The structs of the rows of one result, one after the other.
#[derive(Debug)]
pub struct Records<'r, R> {
    rows: std::slice::Iter<'r, Row>,
    /// The positions of the columns, known from the first row on.
    places: Option<Places>,
    record: PhantomData<fn() -> R>,
}

impl<'r, R: FromRow<'r>> Iterator for Records<'r, R> {
    type Item = Result<R, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.rows.next()?;
        let places = match &mut self.places {
            Some(places) => places,
            none => match Places::find(row, R::NAMES) {
                Ok(places) => none.insert(places),
                Err(error) => return Some(Err(error)),
            },
        };
        Some(R::from_fields(&mut Fields { row, places, names: R::NAMES, next: 0 }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rows.size_hint()
    }
}

/// The positions of a struct's columns in a result.
#[derive(Debug)]
enum Places {
    /// Consecutive from this one on, as [`sql!`](crate::sql) selects them.
    From(usize),
    /// Arbitrary positions.
    Each(Box<[usize]>),
}

impl Places {
    fn find(row: &Row, names: &[&'static str]) -> Result<Self, Error> {
        let place = |column: &&'static str| {
            let found = row.names().position(|name| name == *column);
            found.ok_or(Error::MissingColumn { column })
        };
        let Some(first) = names.first() else { return Ok(Self::From(0)) };
        let first = place(first)?;
        if row.names().skip(first).take(names.len()).eq(names.iter().copied()) {
            return Ok(Self::From(first));
        }
        names.iter().map(place).collect::<Result<_, _>>().map(Self::Each)
    }
}

/// The values of a row for a struct, in order.
pub struct Fields<'r, 'p> {
    row: &'r Row,
    places: &'p Places,
    names: &'static [&'static str],
    next: usize,
}

impl<'r> Fields<'r, '_> {
    /// Reads the next field.
    pub fn read<T: FromCell<'r>>(&mut self) -> Result<T, Error> {
        let at = self.next;
        self.next += 1;
        let column = self.names.get(at).copied().unwrap_or_default();
        let place = match self.places {
            Places::From(first) => first + at,
            Places::Each(places) => *places.get(at).ok_or(Error::MissingColumn { column })?,
        };
        T::from_cell(Cell { row: self.row, place, column })
    }
}

impl fmt::Debug for Fields<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fields").field("names", &self.names).finish_non_exhaustive()
    }
}

/// One value of a row.
#[derive(Clone, Copy)]
pub struct Cell<'r> {
    row: &'r Row,
    place: usize,
    column: &'static str,
}

impl Cell<'_> {
    /// Returns the error for a value that this program never writes into the column.
    pub const fn unexpected(&self, expected: &'static str) -> Error {
        Error::Column { column: self.column, expected }
    }

    fn wrong(&self, error: Error, expected: &'static str) -> Error {
        match error {
            Error::Corrupt { .. } => self.unexpected(expected),
            other => other,
        }
    }

    fn is_null(&self) -> Result<bool, Error> {
        Ok(match &self.row.0 {
            Cells::Sqlite(row) => row.try_get_raw(self.place)?.is_null(),
            Cells::Postgres(row) => row.try_get_raw(self.place)?.is_null(),
            Cells::Local(row, _) => matches!(local::cell(row, self.place)?, local::Cell::Null),
        })
    }
}

impl fmt::Debug for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cell").field(&self.column).finish()
    }
}

/// A type that a value can be converted into. Only an `Option` accepts NULL.
pub trait FromCell<'r>: Sized {
    /// Converts the value, or returns what the column should contain.
    fn from_cell(cell: Cell<'r>) -> Result<Self, Error>;
}

impl<'r, T: FromCell<'r>> FromCell<'r> for Option<T> {
    fn from_cell(cell: Cell<'r>) -> Result<Self, Error> {
        if cell.is_null()? { Ok(None) } else { T::from_cell(cell).map(Some) }
    }
}

impl FromCell<'_> for i64 {
    fn from_cell(cell: Cell<'_>) -> Result<Self, Error> {
        decode!(cell, "a whole number", local::integer)
    }
}

impl FromCell<'_> for bool {
    fn from_cell(cell: Cell<'_>) -> Result<Self, Error> {
        decode!(cell, "a boolean", local::boolean)
    }
}

impl<'r> FromCell<'r> for &'r str {
    fn from_cell(cell: Cell<'r>) -> Result<Self, Error> {
        decode!(cell, "text", local::text)
    }
}

impl<'r> FromCell<'r> for &'r [u8] {
    fn from_cell(cell: Cell<'r>) -> Result<Self, Error> {
        decode!(cell, "bytes", local::bytes)
    }
}

impl<'r> FromCell<'r> for String {
    fn from_cell(cell: Cell<'r>) -> Result<Self, Error> {
        <&'r str>::from_cell(cell).map(str::to_owned)
    }
}

impl<'r> FromCell<'r> for Vec<u8> {
    fn from_cell(cell: Cell<'r>) -> Result<Self, Error> {
        <&'r [u8]>::from_cell(cell).map(<[u8]>::to_vec)
    }
}

impl FromCell<'_> for u64 {
    fn from_cell(cell: Cell<'_>) -> Result<Self, Error> {
        Self::try_from(i64::from_cell(cell)?).map_err(|_| cell.unexpected("a number from 0 on"))
    }
}

impl FromCell<'_> for UnixTime {
    fn from_cell(cell: Cell<'_>) -> Result<Self, Error> {
        i64::from_cell(cell).map(Self::from_seconds)
    }
}

impl<'r> FromCell<'r> for B256 {
    fn from_cell(cell: Cell<'r>) -> Result<Self, Error> {
        Self::try_from(<&'r [u8]>::from_cell(cell)?).map_err(|_| cell.unexpected("32 bytes"))
    }
}

impl<'r> FromCell<'r> for Address {
    fn from_cell(cell: Cell<'r>) -> Result<Self, Error> {
        Self::try_from(<&'r [u8]>::from_cell(cell)?).map_err(|_| cell.unexpected("the 20 bytes of an address"))
    }
}

/// Declares a struct and the columns that it is read from: [`FromRow`].
///
/// A field is named like its column. `= "expression"` selects an expression under this name, and `from "t"` after the name of the struct
/// means columns of the table or alias `t`. Fields are as visible as the struct.
///
/// ```
/// use toolcrib_store::database::{FromRow, Value};
/// use toolcrib_store::{Database, Location, row, sql};
///
/// row! {
///     struct Total<'r> {
///         name: &'r str,
///         calls: i64 = "CAST(COUNT(*) AS BIGINT)",
///     }
/// }
///
/// const TOTALS: &str = sql!("SELECT ", Total::COLUMNS, " FROM (SELECT 'weather' AS name) AS tool WHERE name = $1 GROUP BY name");
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), toolcrib_store::Error> {
/// let database = Database::open(&Location::parse("memory")?).await?;
/// let rows = database.fetch(TOTALS, &[Value::Text("weather")]).await?;
/// for total in Total::from_rows(&rows) {
///     let total = total?;
///     assert_eq!((total.name, total.calls), ("weather", 1));
/// }
/// # Ok(())
/// # }
/// ```
#[macro_export]
macro_rules! row {
    ($(#[$meta:meta])* $vis:vis struct $name:ident<$life:lifetime> $(from $table:literal)? { $($fields:tt)* }) => {
        $crate::row! { @declare [$(#[$meta])* $vis] [$name<$life>] $name $life ($($table, ".")?) { $($fields)* } }
    };
    ($(#[$meta:meta])* $vis:vis struct $name:ident $(from $table:literal)? { $($fields:tt)* }) => {
        $crate::row! { @declare [$(#[$meta])* $vis] [$name] $name 'r ($($table, ".")?) { $($fields)* } }
    };
    (@declare [$(#[$meta:meta])* $vis:vis] [$($struct:tt)+] $name:ident $life:lifetime $table:tt
        { $($(#[$field_meta:meta])* $field:ident: $type:ty $(= $expression:literal)?),* $(,)? }) => {
        $(#[$meta])*
        $vis struct $($struct)+ {
            $($(#[$field_meta])* $vis $field: $type,)*
        }

        impl<$life> $crate::database::FromRow<$life> for $($struct)+ {
            const COLUMNS: &'static str =
                $crate::database::list(concat!($(", ", $crate::row!(@column $table $field $($expression)?)),*));
            const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];

            fn from_fields(fields: &mut $crate::database::Fields<$life, '_>) -> Result<Self, $crate::Error> {
                Ok(Self { $($field: fields.read()?),* })
            }
        }
    };
    (@column $table:tt $field:ident $expression:literal) => { concat!($expression, " AS ", stringify!($field)) };
    (@column ($($table:literal, $dot:literal)?) $field:ident) => { concat!($($table, $dot,)? stringify!($field)) };
}

/// Joins constant texts into a statement: `sql!("SELECT ", Total::COLUMNS, " FROM total")`.
#[macro_export]
macro_rules! sql {
    ($($part:expr),+ $(,)?) => {{
        const PARTS: &[&str] = &[$($part),+];
        const JOINED: [u8; $crate::database::length(PARTS)] = $crate::database::join(PARTS);
        const {
            match ::core::str::from_utf8(&JOINED) {
                Ok(text) => text,
                Err(_) => panic!("joined texts are text"),
            }
        }
    }};
}

/// Returns the length of all parts, for [`sql!`](crate::sql).
#[doc(hidden)]
pub const fn length(parts: &[&str]) -> usize {
    let (mut length, mut part) = (0, 0);
    while part < parts.len() {
        length += parts[part].len();
        part += 1;
    }
    length
}

/// Returns the bytes of all parts, for [`sql!`](crate::sql).
#[doc(hidden)]
pub const fn join<const LENGTH: usize>(parts: &[&str]) -> [u8; LENGTH] {
    let mut joined = [0; LENGTH];
    let (mut at, mut part) = (0, 0);
    while part < parts.len() {
        let (_, rest) = joined.split_at_mut(at);
        let (into, _) = rest.split_at_mut(parts[part].len());
        into.copy_from_slice(parts[part].as_bytes());
        at += parts[part].len();
        part += 1;
    }
    joined
}

/// Returns a list without the comma before its first element, for [`row!`](crate::row).
#[doc(hidden)]
pub const fn list(elements: &'static str) -> &'static str {
    elements.split_at(2).1
}
