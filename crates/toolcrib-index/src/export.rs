//! Exports the whole index as text and imports it: for moving between database engines, for backups, and for downloads of all data.
//!
//! An export has one JSON object per line. The first is the header, each of the others holds one row of one table, and the last has the
//! number of rows. Every line begins with a checksum over the rest of it and the checksum of the line before, so that changed, lost, added
//! or moved lines are detected. Bytes are hexadecimal digits; integers beyond what JSON readers keep exactly are strings.
//!
//! Importing is one transaction: all or nothing. Existing rows stay as they are, so importing twice is the same as importing once. An
//! export leaves out the change feed, which starts anew and gets an entry for every imported tool, and leases and origins' rate limits,
//! which belong to processes. Jobs are written as if the whole feed had been processed, so that no pending verification is lost.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::{BufRead, Read, Write};
use std::ops::Bound;
use std::path::Path;

use alloy_primitives::{Address, hex, keccak256};
use serde_json::{Map, Value as Json, json};
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::{Bulk, Column, Engine, Row, Transaction, Value};
use toolcrib_store::{Database, Location};

use crate::feed::{self, Kinds};
use crate::model::ToolKey;
use crate::objects::Reference;
use crate::work::intake::{self, JobRequest, Wishes};
use crate::work::jobs_table::CHANGED;
use crate::work::kept::pack;
use crate::{Error, Index, agents};

/// The name in the first line.
pub const FORMAT: &str = "toolcrib-index-export";

/// The version in the first line. New tables and columns with a default do not change it.
pub const VERSION: u64 = 1;

/// The maximum length of a line: the largest evidence, compressed and in hexadecimal digits.
pub const MAX_LINE_BYTES: usize = 32 << 20;

/// Rows read and written at once.
const PAGE: usize = 500;

/// The same for rows that may have megabytes each.
const HEAVY_PAGE: usize = 16;

/// The type of a column, and whether it is nullable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Integer,
    Text,
    Bytes,
    Boolean,
    OptionalInteger,
    OptionalText,
    OptionalBytes,
}

/// A table of the export.
#[derive(Clone, Copy, Debug)]
struct Table {
    name: &'static str,
    /// The key columns first; `key` is their number.
    columns: &'static [&'static str],
    kinds: &'static [Kind],
    key: usize,
}

impl Table {
    /// Rows read and written at once.
    fn page(&self) -> usize {
        if matches!(self.name, "index_evidence" | "index_agent_document") { HEAVY_PAGE } else { PAGE }
    }
}

/// Declares a [`Table`] with its columns, the key before the semicolon.
macro_rules! table {
    ($name:ident: $($key:ident $key_kind:ident),+; $($column:ident $kind:ident),* $(,)?) => {
        Table {
            name: stringify!($name),
            columns: &[$(stringify!($key)),+ $(, stringify!($column))*],
            kinds: &[$(Kind::$key_kind),+ $(, Kind::$kind)*],
            key: [$(stringify!($key)),+].len(),
        }
    };
}

/// Every table of the export, in the order in which it is written. Registries come first: the others use their numbers.
const TABLES: &[Table] = &[
    table!(index_registry: id Integer; chain Integer, address Bytes, first_block Integer, checkpoint Integer, checkpoint_hash OptionalBytes,
        finalized Integer, head Integer, code_hash OptionalBytes, code_changed_at OptionalInteger),
    table!(index_tool: registry Integer, tool Bytes; creator Bytes, uri Text, uri_key OptionalInteger, hash Bytes, predicate OptionalBytes,
        registered_block Integer, registered_at Integer, updated_block Integer, updated_at Integer, deregistered_block OptionalInteger,
        deregistered_at OptionalInteger, events Integer, listed Boolean, access Text),
    table!(index_listing: registry Integer, tool Bytes; checked_at Integer, endpoint_key OptionalInteger, document Text),
    table!(index_event: registry Integer, block_number Integer, log_index Integer; block_hash Bytes, tx Bytes, time Integer, tool Bytes,
        kind Integer, creator OptionalBytes, predicate OptionalBytes, uri OptionalText, hash OptionalBytes, implementation OptionalBytes),
    table!(index_block: registry Integer, number Integer; hash Bytes),
    table!(index_predicate: registry Integer, predicate Bytes; first_block Integer, first_log Integer),
    table!(index_completeness: registry Integer; rescan_from OptionalInteger, incomplete_since OptionalInteger, reason OptionalText,
        omitted Integer, doubtful Integer, wrong_tools Integer, audited_at OptionalInteger),
    table!(index_job: registry Integer, tool Bytes; due_at Integer, priority Integer, reason Text, attempts Integer),
    table!(index_watch: registry Integer, tool Bytes; expires_at Integer, looks Bytes, memory Text),
    table!(index_report: registry Integer, tool Bytes; at Integer, document Text),
    table!(index_evidence: registry Integer, tool Bytes, kind Integer; at Integer, verified Boolean, bytes Bytes),
    table!(index_verdict: registry Integer, tool Bytes, number Integer; at Integer, verdict Text, conformant Boolean,
        failed_check OptionalInteger, step OptionalText, code OptionalText, hash Bytes),
    table!(index_moderation_tool: registry Integer, tool Bytes; action Text, reason Text, notice Text, at Integer),
    table!(index_moderation_creator: creator Bytes; action Text, reason Text, notice Text, at Integer),
    table!(index_moderation_resource: identity Bytes; action Text, reason Text, notice Text, at Integer),
    table!(index_moderation_log: number Integer; at Integer, actor Text, action Text, subject Text, reason Text, notice Text),
    table!(index_abuse_report: number Integer; registry Integer, tool Bytes, at Integer, reason Text, details Text, closed_at OptionalInteger),
    table!(index_payee: chain Integer, token Bytes, recipient Bytes, registry Integer, tool Bytes;),
    table!(index_usage: id Text; claim Bytes, registry Integer, tool Bytes, paid Boolean, counts Boolean, chain Integer, token Bytes,
        payer Bytes, nonce Bytes, seller Bytes, amount Bytes, transaction_hash OptionalBytes, at Integer, reported_at Integer,
        latency_ms OptionalInteger),
    table!(index_usage_payer: registry Integer, tool Bytes, payer Bytes;),
    table!(index_creator_payer: creator Bytes, payer Bytes;),
    table!(index_creator_total: creator Bytes; payers Integer),
    table!(index_usage_pending: id Text; registry Integer, tool Bytes, chain Integer, caller Bytes, transaction_hash Bytes,
        latency_ms OptionalInteger, reported_at Integer, tries Integer, next_at Integer),
    table!(index_usage_total: registry Integer, tool Bytes; paid_calls Integer, payers Integer, ranking_payers Integer, volume Integer,
        signed_calls Integer, last_at OptionalInteger),
    table!(index_agent: domain Text; listed Boolean, added_at Integer, due_at Integer, attempts Integer, changes Integer, answer Text,
        checked_at OptionalInteger, expires_at Integer, good Boolean, newest_at Integer, digest OptionalBytes, terms Text, title Text,
        words Text, model Text, currency Text, price OptionalInteger, trouble OptionalText, trouble_at OptionalInteger),
    table!(index_agent_document: domain Text; document Text, report OptionalText),
    table!(index_agent_change: domain Text, number Integer; at Integer, answer Text),
    table!(index_agent_memory: domain Text; created_at Integer, cid Text, digest Bytes, owner Bytes),
];

/// A value of a column.
#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
    Boolean(bool),
    Nothing,
}

impl Cell {
    fn read(row: &Row, column: &'static str, kind: Kind) -> Result<Self, Error> {
        Ok(match kind {
            Kind::Integer => Self::Integer(row.get(column)?),
            Kind::Text => Self::Text(row.get(column)?),
            Kind::Bytes => Self::Bytes(row.get(column)?),
            Kind::Boolean => Self::Boolean(row.get(column)?),
            Kind::OptionalInteger => row.get::<Option<_>>(column)?.map_or(Self::Nothing, Self::Integer),
            Kind::OptionalText => row.get::<Option<_>>(column)?.map_or(Self::Nothing, Self::Text),
            Kind::OptionalBytes => row.get::<Option<_>>(column)?.map_or(Self::Nothing, Self::Bytes),
        })
    }

    fn to_json(&self) -> Json {
        /// The largest integer that JSON readers with only floating-point numbers keep exactly.
        const EXACT: i64 = 1 << 53;
        match self {
            Self::Integer(value) if (-EXACT..=EXACT).contains(value) => json!(value),
            Self::Integer(value) => json!(value.to_string()),
            Self::Text(text) => json!(text),
            Self::Bytes(bytes) => json!(hex::encode_prefixed(bytes)),
            Self::Boolean(value) => json!(value),
            Self::Nothing => Json::Null,
        }
    }

    fn from_json(value: &Json, kind: Kind) -> Option<Self> {
        let optional = matches!(kind, Kind::OptionalInteger | Kind::OptionalText | Kind::OptionalBytes);
        Some(match (kind, value) {
            (_, Json::Null) if optional => Self::Nothing,
            (Kind::Integer | Kind::OptionalInteger, Json::Number(number)) => Self::Integer(number.as_i64()?),
            (Kind::Integer | Kind::OptionalInteger, Json::String(text)) => Self::Integer(text.parse().ok()?),
            (Kind::Text | Kind::OptionalText, Json::String(text)) => Self::Text(text.clone()),
            (Kind::Bytes | Kind::OptionalBytes, Json::String(text)) => Self::Bytes(hex::decode(text.strip_prefix("0x")?).ok()?),
            (Kind::Boolean, Json::Bool(value)) => Self::Boolean(*value),
            _ => return None,
        })
    }

    fn value(&self) -> Value<'_> {
        match self {
            Self::Integer(value) => Value::Integer(*value),
            Self::Text(text) => Value::Text(text),
            Self::Bytes(bytes) => Value::Bytes(bytes),
            Self::Boolean(value) => Value::Boolean(*value),
            // Key columns are never null.
            Self::Nothing => Value::OptionalInteger(None),
        }
    }
}

/// A running checksum over everything so far.
#[derive(Clone, Copy, Debug, Default)]
struct Sum([u8; 8]);

/// The text before and after the checksum of a line.
const BEFORE: &str = "{\"sum\":\"";
const AFTER: &str = "\",";

impl Sum {
    fn add(&mut self, rest: &str) -> String {
        let hash = keccak256([&self.0, rest.as_bytes()].concat());
        self.0.copy_from_slice(&hash[..8]);
        hex::encode(self.0)
    }

    /// Writes an object as a line.
    fn line(&mut self, object: &Json, out: &mut String) {
        let text = object.to_string();
        let rest = text.strip_prefix('{').unwrap_or_default();
        let sum = self.add(rest);
        // Writing to a String does not fail.
        let _ = writeln!(out, "{BEFORE}{sum}{AFTER}{rest}");
    }

    /// Returns the object of a line if its checksum continues that of the lines before.
    fn check(&mut self, line: &str) -> Option<Map<String, Json>> {
        let (sum, rest) = line.strip_prefix(BEFORE)?.split_once(AFTER)?;
        if self.add(rest) != sum {
            return None;
        }
        match serde_json::from_str(line).ok()? {
            Json::Object(object) => Some(object),
            _ => None,
        }
    }
}

/// An export in progress. It reads a snapshot of the index as of its start and does not block writers.
#[derive(Debug)]
pub struct Exporter {
    transaction: Transaction,
    /// For reading evidence from an object store: an export includes it.
    index: Index,
    sum: Sum,
    /// The table that is being read, and the key of its last row.
    table: usize,
    after: Option<Vec<Cell>>,
    /// Verifications that the feed asks for in addition to the jobs, once they are read.
    wishes: Option<Wishes>,
    now: UnixTime,
    rows: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Begun,
    Rows,
    Ended,
}

impl Exporter {
    /// Starts an export.
    pub async fn new(index: &Index, now: UnixTime) -> Result<Self, Error> {
        let transaction = index.database().begin_reading().await?;
        Ok(Self {
            transaction,
            index: index.clone(),
            sum: Sum::default(),
            table: 0,
            after: None,
            wishes: None,
            now,
            rows: 0,
            state: State::Begun,
        })
    }

    /// Returns the next lines, some hundred at a time; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<String>, Error> {
        let mut out = String::new();
        match self.state {
            State::Ended => return Ok(None),
            State::Begun => {
                self.sum.line(&json!({ "format": FORMAT, "version": VERSION, "made_at": self.now }), &mut out);
                self.state = State::Rows;
            }
            State::Rows => match TABLES.get(self.table) {
                Some(table) => self.page(table, &mut out).await?,
                None => {
                    self.sum.line(&json!({ "end": self.rows }), &mut out);
                    self.state = State::Ended;
                }
            },
        }
        Ok(Some(out))
    }

    async fn page(&mut self, table: &Table, out: &mut String) -> Result<(), Error> {
        let key = table.columns[..table.key].join(", ");
        // Origins' time slots are valid in this database alone; in another a job is due when it was requested.
        let columns = table.columns.iter().map(|column| match (table.name, *column) {
            ("index_job", "due_at") => "due_at - early AS due_at",
            (_, column) => column,
        });
        let mut sql = format!("SELECT {} FROM {}", columns.collect::<Vec<_>>().join(", "), table.name);
        if self.after.is_some() {
            let places: Vec<_> = (1..=table.key).map(|place| format!("${place}")).collect();
            sql.push_str(&format!(" WHERE ({key}) > ({})", places.join(", ")));
        }
        sql.push_str(&format!(" ORDER BY {key} LIMIT {}", table.page()));
        let values: Vec<_> = self.after.iter().flatten().map(Cell::value).collect();
        let rows = self.transaction.fetch_made(sql, &values).await?;
        let read =
            |row| table.columns.iter().zip(table.kinds).map(move |(column, kind)| Cell::read(row, column, *kind)).collect();
        let mut rows: Vec<Vec<Cell>> = rows.iter().map(read).collect::<Result<_, Error>>()?;
        if table.name == "index_job" {
            rows = self.with_wishes(rows, table.page()).await?;
        }
        let is_last = rows.len() < table.page();
        let mut last = None;
        for mut cells in rows {
            let key = cells[..table.key].to_vec();
            if !self.inline(table, &mut cells).await? {
                last = Some(key);
                continue;
            }
            let fields: Map<_, _> =
                table.columns.iter().zip(&cells).map(|(column, cell)| ((*column).to_owned(), cell.to_json())).collect();
            self.sum.line(&json!({ "table": table.name, "row": fields }), out);
            self.rows += 1;
            last = Some(key);
        }
        if is_last {
            self.table += 1;
            self.after = None;
        } else {
            self.after = last;
        }
        Ok(())
    }

    /// Replaces references to objects by the evidence and reports in them. `false` when the object is lost, and then its row is left out.
    async fn inline(&self, table: &Table, cells: &mut [Cell]) -> Result<bool, Error> {
        let reference = match (table.name, cells.last()) {
            ("index_evidence", Some(Cell::Bytes(bytes))) => Reference::read(bytes),
            ("index_report", Some(Cell::Text(document))) => Reference::read_text(document),
            _ => None,
        };
        let (Some(reference), Some(cell)) = (reference, cells.last_mut()) else { return Ok(true) };
        match self.index.bundle(reference).await {
            Ok(bundle) if table.name == "index_evidence" => *cell = Cell::Bytes(pack(&bundle.evidence)?),
            Ok(bundle) => *cell = Cell::Text(bundle.report),
            Err(Error::Objects(error)) if error.is_lost() => {
                tracing::warn!(code = error.code().id(), %error, "evidence left out of the export");
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// A page of jobs merged with those that the feed asks for, in key order.
    async fn with_wishes(&mut self, jobs: Vec<Vec<Cell>>, most: usize) -> Result<Vec<Vec<Cell>>, Error> {
        let wishes = match self.wishes.take() {
            Some(wishes) => wishes,
            None => intake::not_taken_in(&mut self.transaction, self.now).await?,
        };
        let mut all = BTreeMap::new();
        for job in jobs {
            all.insert(key_of(&job)?, job);
        }
        let after = match &self.after {
            Some(after) => Bound::Excluded(key_of(after)?),
            None => Bound::Unbounded,
        };
        for (key, wish) in wishes.range((after, Bound::Unbounded)).take(most) {
            let job = asked(*key, wish, all.get(key));
            all.insert(*key, job);
        }
        self.wishes = Some(wishes);
        Ok(all.into_values().take(most).collect())
    }
}

/// Returns a job's row after a request for verification was merged into it.
fn asked(key: ToolKey, wish: &JobRequest, job: Option<&Vec<Cell>>) -> Vec<Cell> {
    let (mut due_at, mut priority, mut reason) = (wish.due_at.seconds(), CHANGED, wish.reason);
    if let Some([.., Cell::Integer(due), Cell::Integer(urgency), Cell::Text(word), _]) = job.map(Vec::as_slice) {
        (due_at, priority) = (due_at.min(*due), priority.min(*urgency));
        if word == "upgraded" {
            reason = "upgraded";
        }
    }
    vec![
        Cell::Integer(key.registry.0),
        Cell::Bytes(key.id_bytes().to_vec()),
        Cell::Integer(due_at),
        Cell::Integer(priority),
        Cell::Text(reason.to_owned()),
        Cell::Integer(0),
    ]
}

/// Returns the tool of a row whose first columns are a tool's key.
fn key_of(row: &[Cell]) -> Result<ToolKey, Error> {
    match row {
        [Cell::Integer(registry), Cell::Bytes(id), ..] => ToolKey::from_columns(*registry, id),
        _ => Err(Error::Corrupt { what: "tool of a job" }),
    }
}

/// Writes the whole index. Returns the number of rows.
pub async fn export(index: &Index, out: &mut (dyn Write + Send), now: UnixTime) -> Result<u64, Error> {
    let mut exporter = Exporter::new(index, now).await?;
    while let Some(lines) = exporter.next().await? {
        out.write_all(lines.as_bytes()).map_err(|error| Error::File { what: "the export could not be written", error })?;
    }
    out.flush().map_err(|error| Error::File { what: "the export could not be written", error })?;
    Ok(exporter.rows)
}

/// What an import did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Rows in the export.
    pub rows: u64,
    /// Rows that were not there before.
    pub new: u64,
}

/// Imports an export into an index, all or nothing. Existing rows stay as they are.
pub async fn import(index: &Index, input: &mut (dyn BufRead + Send), now: UnixTime) -> Result<Imported, Error> {
    let mut importer = Importer::new(index).await?;
    let mut lines = Lines { input, number: 0, buffer: Vec::new() };
    while let Some((number, line)) = lines.next()? {
        importer.line(number, line).await?;
    }
    let imported = importer.end(lines.number, now).await?;
    index.prepare_reading().await?;
    Ok(imported)
}

/// Lines of a bounded length.
struct Lines<'i> {
    input: &'i mut (dyn BufRead + Send),
    number: u64,
    buffer: Vec<u8>,
}

impl Lines<'_> {
    fn next(&mut self) -> Result<Option<(u64, &str)>, Error> {
        self.buffer.clear();
        let failed = |error| Error::File { what: "the export could not be read", error };
        let read = (&mut *self.input).take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut self.buffer).map_err(failed)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        let line = self.number;
        if self.buffer.pop() != Some(b'\n') {
            let reason = if read > MAX_LINE_BYTES { "it is too long" } else { "it has no end" };
            return Err(Error::ExportDamaged { line, reason });
        }
        match std::str::from_utf8(&self.buffer) {
            Ok(text) => Ok(Some((line, text))),
            Err(_) => Err(Error::ExportDamaged { line, reason: "it is not UTF-8" }),
        }
    }
}

struct Importer {
    transaction: Transaction,
    registries: HashMap<i64, (i64, Vec<u8>)>,
    sum: Sum,
    has_begun: bool,
    has_ended: bool,
    done: Imported,
    /// Rows of one table that are buffered for the next write.
    waiting: Vec<Vec<Cell>>,
    table: Option<&'static Table>,
    changed: Vec<(ToolKey, Kinds)>,
}

impl Importer {
    async fn new(index: &Index) -> Result<Self, Error> {
        let known = index.registries().await?.into_iter().map(|row| {
            let chain = i64::try_from(row.chain).unwrap_or(i64::MAX);
            (row.id.0, (chain, row.address.to_vec()))
        });
        Ok(Self {
            registries: known.collect(),
            transaction: index.database().begin().await?,
            sum: Sum::default(),
            has_begun: false,
            has_ended: false,
            done: Imported::default(),
            waiting: Vec::new(),
            table: None,
            changed: Vec::new(),
        })
    }

    async fn line(&mut self, number: u64, line: &str) -> Result<(), Error> {
        let damaged = |reason| Error::ExportDamaged { line: number, reason };
        if !self.has_begun {
            return self.header(line);
        }
        if self.has_ended {
            return Err(damaged("it comes after the last line"));
        }
        let object = self.sum.check(line).ok_or_else(|| damaged("its checksum is wrong"))?;
        if let Some(end) = object.get("end") {
            if end.as_u64() != Some(self.done.rows) {
                return Err(damaged("its row count differs"));
            }
            self.has_ended = true;
            return Ok(());
        }
        let name = object.get("table").and_then(Json::as_str).ok_or_else(|| damaged("it names no table"))?;
        let row = object.get("row").and_then(Json::as_object).ok_or_else(|| damaged("it contains no row"))?;
        self.done.rows += 1;
        let Some(table) = TABLES.iter().find(|table| table.name == name) else {
            return Err(Error::ExportVersion { reason: "it has a table that this version does not know" });
        };
        if row.len() != table.columns.len() {
            return Err(Error::ExportVersion { reason: "the columns of a table differ from those of this version" });
        }
        let cells = table.columns.iter().zip(table.kinds).map(|(column, kind)| Cell::from_json(row.get(*column)?, *kind));
        let cells: Option<Vec<Cell>> = cells.collect();
        let cells = cells.ok_or_else(|| damaged("a value is of another type"))?;
        if table.name == "index_registry" {
            self.check_registry(&cells)?;
        }
        if self.table.is_some_and(|before| before.name != table.name) || self.waiting.len() >= table.page() {
            self.write().await?;
        }
        self.table = Some(table);
        self.waiting.push(cells);
        Ok(())
    }

    fn header(&mut self, line: &str) -> Result<(), Error> {
        let no_export = Error::ExportVersion { reason: "the first line is not the header of an export" };
        let header = self.sum.check(line);
        let Some(header) = header.filter(|header| header.get("format").and_then(Json::as_str) == Some(FORMAT)) else {
            return Err(no_export);
        };
        if header.get("version").and_then(Json::as_u64) != Some(VERSION) {
            return Err(Error::ExportVersion { reason: "its format version is not supported" });
        }
        self.has_begun = true;
        Ok(())
    }

    /// Checks that a registry has the same number in the export and in this index.
    fn check_registry(&mut self, cells: &[Cell]) -> Result<(), Error> {
        let [Cell::Integer(id), Cell::Integer(chain), Cell::Bytes(address), ..] = cells else {
            return Err(Error::Corrupt { what: "registry of an export" });
        };
        if Address::try_from(address.as_slice()).is_err() {
            return Err(Error::Corrupt { what: "registry of an export" });
        }
        let place = (*chain, address.clone());
        let other = self.registries.iter().find(|(_, known)| **known == place).map(|(id, _)| *id);
        let here = self.registries.entry(*id).or_insert_with(|| place.clone());
        if *here != place || other.is_some_and(|other| other != *id) {
            return Err(Error::ImportConflict { registry: *id });
        }
        Ok(())
    }

    async fn write(&mut self) -> Result<(), Error> {
        let (Some(table), rows) = (self.table, std::mem::take(&mut self.waiting)) else { return Ok(()) };
        let columns: Vec<Cells<'_>> =
            table.kinds.iter().enumerate().map(|(column, kind)| Cells::of(&rows, column, *kind)).collect();
        let columns: Vec<Column<'_>> = columns.iter().map(Cells::column).collect();
        let bulk = Bulk { table: table.name, columns: table.columns, conflict: "ON CONFLICT DO NOTHING" };
        let new = self.transaction.insert_many(&bulk, &columns).await?;
        self.done.new += new;
        if table.name == "index_agent" && new > 0 {
            self.transaction.execute(agents::COUNT_CHANGE, &[]).await?;
            for row in &rows {
                if let [Cell::Text(domain), Cell::Boolean(true), ..] = row.as_slice() {
                    let domain = AgtDomain::parse(domain).map_err(|_| Error::Corrupt { what: "name of an agent" })?;
                    self.changed.push((agents::feed_key(&domain), Kinds::LISTED));
                }
            }
        }
        if table.name == "index_tool" && new > 0 {
            for row in &rows {
                // Its job is in the export, or it has none: no verification is requested here.
                self.changed.push((key_of(row)?, Kinds::REGISTERED.and(Kinds::FACTS)));
            }
        }
        Ok(())
    }

    async fn end(mut self, line: u64, now: UnixTime) -> Result<Imported, Error> {
        if !self.has_begun {
            return Err(Error::ExportVersion { reason: "it is empty" });
        }
        if !self.has_ended {
            return Err(Error::ExportDamaged { line, reason: "it is not the last one" });
        }
        self.write().await?;
        if !self.changed.is_empty() {
            feed::record(&mut self.transaction, &self.changed, now).await?;
        }
        self.transaction.commit().await?;
        Ok(self.done)
    }
}

/// One column of many rows, as statements bind it.
enum Cells<'c> {
    Integers(Vec<i64>),
    OptionalIntegers(Vec<Option<i64>>),
    Texts(Vec<&'c str>),
    OptionalTexts(Vec<Option<&'c str>>),
    Bytes(Vec<&'c [u8]>),
    OptionalBytes(Vec<Option<&'c [u8]>>),
    Booleans(Vec<bool>),
}

impl<'c> Cells<'c> {
    fn of(rows: &'c [Vec<Cell>], column: usize, kind: Kind) -> Self {
        let integer = |row: &'c Vec<Cell>| if let Cell::Integer(value) = &row[column] { Some(*value) } else { None };
        let text = |row: &'c Vec<Cell>| if let Cell::Text(value) = &row[column] { Some(value.as_str()) } else { None };
        let bytes = |row: &'c Vec<Cell>| if let Cell::Bytes(value) = &row[column] { Some(value.as_slice()) } else { None };
        // A cell has the type of its column, so no value is invented here.
        match kind {
            Kind::Integer => Self::Integers(rows.iter().map(|row| integer(row).unwrap_or_default()).collect()),
            Kind::OptionalInteger => Self::OptionalIntegers(rows.iter().map(integer).collect()),
            Kind::Text => Self::Texts(rows.iter().map(|row| text(row).unwrap_or_default()).collect()),
            Kind::OptionalText => Self::OptionalTexts(rows.iter().map(text).collect()),
            Kind::Bytes => Self::Bytes(rows.iter().map(|row| bytes(row).unwrap_or_default()).collect()),
            Kind::OptionalBytes => Self::OptionalBytes(rows.iter().map(bytes).collect()),
            Kind::Boolean => Self::Booleans(rows.iter().map(|row| row[column] == Cell::Boolean(true)).collect()),
        }
    }

    fn column(&self) -> Column<'_> {
        match self {
            Self::Integers(values) => Column::Integers(values),
            Self::OptionalIntegers(values) => Column::OptionalIntegers(values),
            Self::Texts(values) => Column::Texts(values),
            Self::OptionalTexts(values) => Column::OptionalTexts(values),
            Self::Bytes(values) => Column::Bytes(values),
            Self::OptionalBytes(values) => Column::OptionalBytes(values),
            Self::Booleans(values) => Column::Booleans(values),
        }
    }
}

const COPY: &str = "VACUUM INTO $1";

/// The first bytes of a SQLite file.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// Creates a backup in a new file, readable by its owner only, without blocking writers: a copy of the database on SQLite, an export on
/// PostgreSQL. [`restore`] reads both.
pub async fn backup(index: &Index, path: &Path, now: UnixTime) -> Result<(), Error> {
    let failed = |error| Error::File { what: "the backup could not be made", error };
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(failed)?;
    if index.database().engine() == Engine::Sqlite {
        let text = path.to_str().ok_or_else(|| failed(std::io::Error::other("the path is not UTF-8")))?;
        index.database().execute(COPY, &[Value::Text(text)]).await?;
    } else {
        let mut out = std::io::BufWriter::new(&mut file);
        export(index, &mut out, now).await?;
    }
    file.sync_all().map_err(failed)
}

/// Restores a backup of either engine into an index of either engine, all or nothing.
pub async fn restore(index: &Index, path: &Path, now: UnixTime) -> Result<Imported, Error> {
    let failed = |error| Error::File { what: "the backup could not be read", error };
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut input = std::io::BufReader::new(file);
    if !input.fill_buf().map_err(failed)?.starts_with(SQLITE) {
        return import(index, &mut input, now).await;
    }
    let copied = Index::open(Database::open(&Location::file(path)).await?).await?.with_objects_of(index).await?;
    let mut exporter = Exporter::new(&copied, now).await?;
    let mut importer = Importer::new(index).await?;
    let mut number = 0;
    while let Some(lines) = exporter.next().await? {
        for line in lines.lines() {
            number += 1;
            importer.line(number, line).await?;
        }
    }
    let done = importer.end(number, now).await;
    drop(exporter);
    copied.database().close().await;
    let imported = done?;
    index.prepare_reading().await?;
    Ok(imported)
}
