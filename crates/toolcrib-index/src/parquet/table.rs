//! Writes one Parquet file: rows are buffered by column, and written as a row group when there are enough.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, Type};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::SchemaDescriptor;

use super::Exported;
use crate::Error;

/// Rows in a row group. Readers skip groups by their statistics and read several in parallel, so small groups are slow.
const GROUP_ROWS: usize = 50_000;

/// The number of text bytes after which a group is written whatever its number of rows: with the pages built from it, the memory that a
/// file needs.
const GROUP_BYTES: usize = 8 << 20;

/// A value of a row.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cell<'c> {
    Integer(i64),
    Boolean(bool),
    Text(&'c str),
    Texts(&'c [String]),
    Nothing,
}

impl From<i64> for Cell<'_> {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<bool> for Cell<'_> {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl<'c> From<&'c str> for Cell<'c> {
    fn from(value: &'c str) -> Self {
        Self::Text(value)
    }
}

impl<'c> From<&'c String> for Cell<'c> {
    fn from(value: &'c String) -> Self {
        Self::Text(value)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell<'_> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Nothing, Into::into)
    }
}

/// The values of a column, as the Parquet writer takes them.
enum Values {
    Integers32(Vec<i32>),
    Integers(Vec<i64>),
    Booleans(Vec<bool>),
    Texts(Vec<ByteArray>),
}

impl Values {
    fn of(kind: Type) -> Option<Self> {
        Some(match kind {
            Type::INT32 => Self::Integers32(Vec::new()),
            Type::INT64 => Self::Integers(Vec::new()),
            Type::BOOLEAN => Self::Booleans(Vec::new()),
            Type::BYTE_ARRAY => Self::Texts(Vec::new()),
            _ => return None,
        })
    }
}

/// A buffered column of the current group.
struct Column {
    values: Values,
    /// The definition and repetition levels of the schema.
    max_definition: i16,
    max_repetition: i16,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
}

impl Column {
    /// Adds a cell, and returns the length of its text. `None` when its type is not that of the column.
    fn push(&mut self, cell: Cell<'_>) -> Option<usize> {
        if let Cell::Texts(texts) = cell {
            let Values::Texts(values) = &mut self.values else { return None };
            if texts.is_empty() {
                self.definitions.push(0);
                self.repetitions.push(0);
            }
            for (number, text) in texts.iter().enumerate() {
                self.definitions.push(self.max_definition);
                self.repetitions.push(if number == 0 { 0 } else { self.max_repetition });
                values.push(ByteArray::from(text.as_str()));
            }
            return (self.max_repetition > 0).then(|| texts.iter().map(String::len).sum());
        }
        let is_there = !matches!(cell, Cell::Nothing);
        if self.max_repetition > 0 || (!is_there && self.max_definition == 0) {
            return None;
        }
        self.definitions.push(if is_there { self.max_definition } else { 0 });
        match (&mut self.values, cell) {
            (Values::Integers32(values), Cell::Integer(value)) => values.push(i32::try_from(value).ok()?),
            (Values::Integers(values), Cell::Integer(value)) => values.push(value),
            (Values::Booleans(values), Cell::Boolean(value)) => values.push(value),
            (Values::Texts(values), Cell::Text(text)) => {
                values.push(ByteArray::from(text));
                return Some(text.len());
            }
            (_, Cell::Nothing) => {}
            _ => return None,
        }
        Some(0)
    }

    fn write(&mut self, writer: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let definitions = (self.max_definition > 0).then_some(self.definitions.as_slice());
        let repetitions = (self.max_repetition > 0).then_some(self.repetitions.as_slice());
        match &mut self.values {
            Values::Integers32(values) => {
                writer.typed::<Int32Type>().write_batch(values, definitions, repetitions)?;
                values.clear();
            }
            Values::Integers(values) => {
                writer.typed::<Int64Type>().write_batch(values, definitions, repetitions)?;
                values.clear();
            }
            Values::Booleans(values) => {
                writer.typed::<BoolType>().write_batch(values, definitions, repetitions)?;
                values.clear();
            }
            Values::Texts(values) => {
                writer.typed::<ByteArrayType>().write_batch(values, definitions, repetitions)?;
                values.clear();
            }
        }
        self.definitions.clear();
        self.repetitions.clear();
        Ok(())
    }
}

/// A file in progress.
pub(super) struct Table {
    name: &'static str,
    writer: SerializedFileWriter<File>,
    columns: Vec<Column>,
    /// Rows in the current group.
    rows: usize,
    bytes: usize,
    /// Rows in the whole file.
    total: u64,
}

fn failed(error: ParquetError) -> Error {
    super::failed(std::io::Error::other(error))
}

impl Table {
    pub(super) fn create(folder: &Path, name: &'static str, schema: &str, exported: &Exported) -> Result<Self, Error> {
        let schema = Arc::new(parse_message_type(schema).map_err(failed)?);
        let mut columns = Vec::new();
        for column in SchemaDescriptor::new(Arc::clone(&schema)).columns() {
            columns.push(Column {
                values: Values::of(column.physical_type()).ok_or(Error::Corrupt { what: "type of a column" })?,
                max_definition: column.max_def_level(),
                max_repetition: column.max_rep_level(),
                definitions: Vec::new(),
                repetitions: Vec::new(),
            });
        }
        let said = |key: &str, value: String| KeyValue::new(format!("toolcrib.{key}"), value);
        let mut metadata = vec![said("version", exported.version.to_string()), said("cursor", exported.cursor.to_string())];
        metadata.extend(exported.since.map(|since| said("since", since.to_string())));
        let properties = WriterProperties::builder()
            .set_created_by(concat!("toolcrib ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(metadata))
            .build();
        let file = File::create_new(folder.join(format!("{name}.parquet"))).map_err(super::failed)?;
        let writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).map_err(failed)?;
        Ok(Self { name, writer, columns, rows: 0, bytes: 0, total: 0 })
    }

    /// Adds a row: a cell for each column.
    pub(super) fn push(&mut self, row: &[Cell<'_>]) -> Result<(), Error> {
        let wrong = Error::Corrupt { what: "row of an export" };
        if row.len() != self.columns.len() {
            return Err(wrong);
        }
        for (column, cell) in self.columns.iter_mut().zip(row) {
            let Some(bytes) = column.push(*cell) else { return Err(wrong) };
            self.bytes += bytes;
        }
        self.rows += 1;
        self.total += 1;
        if self.rows >= GROUP_ROWS || self.bytes >= GROUP_BYTES {
            self.write_group()?;
        }
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), Error> {
        let mut group = self.writer.next_row_group().map_err(failed)?;
        let mut columns = self.columns.iter_mut();
        while let (Some(mut writer), Some(column)) = (group.next_column().map_err(failed)?, columns.next()) {
            column.write(&mut writer).and_then(|()| writer.close()).map_err(failed)?;
        }
        group.close().map_err(failed)?;
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }

    /// Finishes the file and syncs it, and returns its name and number of rows.
    pub(super) fn end(mut self) -> Result<(String, u64), Error> {
        if self.rows > 0 {
            self.write_group()?;
        }
        let file = self.writer.into_inner().map_err(failed)?;
        file.sync_all().map_err(super::failed)?;
        Ok((self.name.to_owned(), self.total))
    }
}
