//! Converts tools, verdicts and calls to rows of the files.

use std::collections::HashMap;

use alloy_primitives::{U256, hex};
use toolcrib_store::database::{Row, Transaction, Value};

use super::table::{Cell, Table};
use crate::Error;
use crate::model::{At, IdBytes, ToolKey, ToolView};

/// Rows of a table read at once.
const PAGE: usize = 1_000;

/// Converts seconds to the milliseconds that the files have.
fn millis(seconds: i64) -> i64 {
    seconds.saturating_mul(1_000)
}

/// Converts counts and block numbers to a signed number; values beyond its range do not occur.
fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Writes the row of a tool.
pub(super) fn tool(view: &ToolView, table: &mut Table) -> Result<(), Error> {
    let (row, usage, listing) = (&view.row, &view.usage, view.listing.as_ref());
    let manifest = listing.and_then(|listing| listing.manifest.as_ref());
    let failed = listing.and_then(|listing| listing.failed.as_ref());
    let tool = view.tool.to_string();
    let (registry, id) = (format!("{:#x}", view.tool.registry), view.tool.id.to_string());
    let (creator, hash) = (format!("{:#x}", row.creator), format!("{:#x}", row.manifest_hash));
    let predicate = row.predicate.map(|predicate| format!("{predicate:#x}"));
    let time = |at: At| millis(at.time.seconds());
    let cells: [Cell<'_>; 41] = [
        Cell::from(&tool),
        number(view.tool.chain).into(),
        Cell::from(&registry),
        Cell::from(&id),
        Cell::from(&creator),
        Cell::from(&row.metadata_uri),
        Cell::from(&hash),
        predicate.as_ref().into(),
        number(row.registered.block).into(),
        time(row.registered).into(),
        number(row.updated.block).into(),
        time(row.updated).into(),
        row.deregistered.map(|at| number(at.block)).into(),
        row.deregistered.map(time).into(),
        number(row.events).into(),
        view.is_listed().into(),
        listing.map(|listing| listing.verdict.as_str()).into(),
        listing.map(|listing| listing.verified).into(),
        listing.map(|listing| listing.conformant).into(),
        failed.and_then(|failed| failed.check).map(i64::from).into(),
        failed.map(|failed| &failed.step).into(),
        failed.map(|failed| &failed.code).into(),
        listing.map(|listing| millis(listing.checked_at.seconds())).into(),
        listing.map(|listing| millis(listing.expires_at.seconds())).into(),
        listing.map(|listing| &listing.tier).into(),
        listing.map(|listing| listing.access.kind.as_str()).into(),
        listing.map(|listing| i64::from(listing.health.looks)).into(),
        listing.map(|listing| i64::from(listing.health.answered)).into(),
        manifest.map(|manifest| &manifest.name).into(),
        manifest.map(|manifest| &manifest.description).into(),
        Cell::Texts(manifest.map(|manifest| manifest.tags.as_slice()).unwrap_or_default()),
        manifest.map(|manifest| &manifest.endpoint).into(),
        manifest.map(|manifest| &manifest.origin).into(),
        manifest.and_then(|manifest| manifest.version.as_ref()).into(),
        number(usage.paid_calls).into(),
        number(usage.payers).into(),
        number(usage.ranking_payers).into(),
        number(usage.creator_payers).into(),
        number(usage.volume).into(),
        number(usage.signed_calls).into(),
        usage.last_at.map(|at| millis(at.seconds())).into(),
    ];
    table.push(&cells)
}

/// Writes the rows of a tool's payment options.
pub(super) fn prices(view: &ToolView, table: &mut Table) -> Result<(), Error> {
    let tool = view.tool.to_string();
    let manifest = view.listing.as_ref().and_then(|listing| listing.manifest.as_ref());
    for (position, price) in manifest.iter().flat_map(|manifest| &manifest.prices).enumerate() {
        let token = price.token.map(|token| format!("{token:#x}"));
        table.push(&[
            Cell::from(&tool),
            i64::try_from(position).unwrap_or(i64::MAX).into(),
            Cell::from(&price.protocol),
            Cell::from(&price.amount),
            Cell::from(&price.asset),
            Cell::from(&price.recipient),
            price.chain.map(number).into(),
            token.as_ref().into(),
            price.symbol.as_ref().into(),
            price.decimals.map(i64::from).into(),
            // The same bits: the column is unsigned.
            price.micro_usd.map(u64::cast_signed).into(),
        ])?;
    }
    Ok(())
}

const VERDICTS: &str = "SELECT registry, tool, number, at, verdict, conformant, failed_check, step, code, hash FROM index_verdict
    WHERE (registry, tool, number) > ($1, $2, $3) AND (registry, tool) <= ($4, $5) ORDER BY registry, tool, number LIMIT $6";
const USAGE: &str = "SELECT registry, tool, counts, at, id, paid, chain, token, payer, nonce, seller, amount, transaction_hash,
    reported_at, latency_ms FROM index_usage
    WHERE (registry, tool, counts, at, id) > ($1, $2, $3, $4, $5) AND (registry, tool) <= ($6, $7)
    ORDER BY registry, tool, counts, at, id LIMIT $8";

/// A position in a table: after all rows with a smaller key.
struct Place {
    key: (i64, IdBytes),
    counts: bool,
    number: i64,
    id: String,
}

/// Reads the rows of a page of tools.
pub(super) struct Reader {
    /// The references of the tools; other tools between them are left out.
    names: HashMap<ToolKey, String>,
    last: (i64, IdBytes),
    verdicts: Place,
    usage: Place,
}

impl Reader {
    /// Creates a reader for tools in key order; `None` without any.
    pub(super) fn of(views: &[ToolView]) -> Option<Self> {
        let key = |view: &ToolView| (view.row.key.registry.0, view.row.key.id_bytes());
        let (first, last) = (key(views.first()?), key(views.last()?));
        // Below every row of a tool: no count and no time is smaller.
        let before = || Place { key: first, counts: false, number: i64::MIN, id: String::new() };
        let names = views.iter().map(|view| (view.row.key, view.tool.to_string())).collect();
        Some(Self { names, last, verdicts: before(), usage: before() })
    }

    fn name(&self, row: &Row) -> Result<Option<&str>, Error> {
        let key = ToolKey::from_columns(row.integer(0)?, row.bytes(1)?)?;
        Ok(self.names.get(&key).map(String::as_str))
    }

    /// Writes a page of verdicts. `false` after the last.
    pub(super) async fn verdicts(&mut self, transaction: &mut Transaction, table: &mut Table) -> Result<bool, Error> {
        let Place { key, number, .. } = &self.verdicts;
        let values = [
            Value::Integer(key.0),
            Value::Bytes(&key.1),
            Value::Integer(*number),
            Value::Integer(self.last.0),
            Value::Bytes(&self.last.1),
            Value::Integer(PAGE as i64),
        ];
        let rows = transaction.fetch(VERDICTS, &values).await?;
        for row in &rows {
            let Some(tool) = self.name(row)? else { continue };
            let hash = hex::encode_prefixed(row.bytes(9)?);
            table.push(&[
                tool.into(),
                row.integer(2)?.into(),
                millis(row.integer(3)?).into(),
                row.text(4)?.into(),
                row.boolean(5)?.into(),
                row.optional_integer(6)?.into(),
                row.optional_text(7)?.into(),
                row.optional_text(8)?.into(),
                Cell::from(&hash),
            ])?;
        }
        let Some(last) = rows.last() else { return Ok(false) };
        let key = ToolKey::from_columns(last.integer(0)?, last.bytes(1)?)?;
        self.verdicts =
            Place { key: (key.registry.0, key.id_bytes()), counts: false, number: last.integer(2)?, id: String::new() };
        Ok(rows.len() == PAGE)
    }

    /// Writes a page of calls. `false` after the last.
    pub(super) async fn usage(&mut self, transaction: &mut Transaction, table: &mut Table) -> Result<bool, Error> {
        let Place { key, counts, number: at, id } = &self.usage;
        let values = [
            Value::Integer(key.0),
            Value::Bytes(&key.1),
            Value::Boolean(*counts),
            Value::Integer(*at),
            Value::Text(id),
            Value::Integer(self.last.0),
            Value::Bytes(&self.last.1),
            Value::Integer(PAGE as i64),
        ];
        let rows = transaction.fetch(USAGE, &values).await?;
        for row in &rows {
            let Some(tool) = self.name(row)? else { continue };
            let digits = |column: usize| row.bytes(column).map(hex::encode_prefixed);
            let amount = U256::try_from_be_slice(row.bytes(11)?).ok_or(Error::Corrupt { what: "amount of a call" })?;
            let (token, payer, nonce, recipient) = (digits(7)?, digits(8)?, digits(9)?, digits(10)?);
            let (amount, transaction) = (amount.to_string(), row.optional_bytes(12)?.map(hex::encode_prefixed));
            table.push(&[
                tool.into(),
                row.text(4)?.into(),
                row.boolean(5)?.into(),
                row.boolean(2)?.into(),
                row.integer(6)?.into(),
                Cell::from(&token),
                Cell::from(&payer),
                Cell::from(&nonce),
                Cell::from(&recipient),
                Cell::from(&amount),
                transaction.as_ref().into(),
                millis(row.integer(3)?).into(),
                millis(row.integer(13)?).into(),
                row.optional_integer(14)?.into(),
            ])?;
        }
        let Some(last) = rows.last() else { return Ok(false) };
        let key = ToolKey::from_columns(last.integer(0)?, last.bytes(1)?)?;
        self.usage = Place {
            key: (key.registry.0, key.id_bytes()),
            counts: last.boolean(2)?,
            number: last.integer(3)?,
            id: last.text(4)?.to_owned(),
        };
        Ok(rows.len() == PAGE)
    }
}
