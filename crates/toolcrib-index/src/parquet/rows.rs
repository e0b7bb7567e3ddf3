//! Converts tools, verdicts and calls to rows of the files.

use std::collections::HashMap;

use alloy_primitives::{U256, hex};
use toolcrib_store::database::{FromRow as _, Transaction, Value};
use toolcrib_store::{row, sql};

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

row! {
    struct VerdictRow<'r> {
        registry: i64,
        tool: &'r [u8],
        number: i64,
        at: i64,
        verdict: &'r str,
        conformant: bool,
        failed_check: Option<i64>,
        step: Option<&'r str>,
        code: Option<&'r str>,
        hash: &'r [u8],
    }
}

row! {
    struct UsageRow<'r> {
        registry: i64,
        tool: &'r [u8],
        counts: bool,
        at: i64,
        id: &'r str,
        paid: bool,
        chain: i64,
        token: &'r [u8],
        payer: &'r [u8],
        nonce: &'r [u8],
        seller: &'r [u8],
        amount: &'r [u8],
        transaction_hash: Option<&'r [u8]>,
        reported_at: i64,
        latency_ms: Option<i64>,
    }
}

const VERDICTS: &str = sql!(
    "SELECT ",
    VerdictRow::COLUMNS,
    " FROM index_verdict
    WHERE (registry, tool, number) > ($1, $2, $3) AND (registry, tool) <= ($4, $5) ORDER BY registry, tool, number LIMIT $6"
);
const USAGE: &str = sql!(
    "SELECT ",
    UsageRow::COLUMNS,
    " FROM index_usage
    WHERE (registry, tool, counts, at, id) > ($1, $2, $3, $4, $5) AND (registry, tool) <= ($6, $7)
    ORDER BY registry, tool, counts, at, id LIMIT $8"
);

/// A position in a table: after all rows with a smaller key.
struct RowKey {
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
    verdicts: RowKey,
    usage: RowKey,
}

impl Reader {
    /// Creates a reader for tools in key order; `None` without any.
    pub(super) fn of(views: &[ToolView]) -> Option<Self> {
        let key = |view: &ToolView| (view.row.key.registry.0, view.row.key.id_bytes());
        let (first, last) = (key(views.first()?), key(views.last()?));
        // Below every row of a tool: no count and no time is smaller.
        let before = || RowKey { key: first, counts: false, number: i64::MIN, id: String::new() };
        let names = views.iter().map(|view| (view.row.key, view.tool.to_string())).collect();
        Some(Self { names, last, verdicts: before(), usage: before() })
    }

    fn name(&self, registry: i64, tool: &[u8]) -> Result<Option<&str>, Error> {
        Ok(self.names.get(&ToolKey::from_columns(registry, tool)?).map(String::as_str))
    }

    /// Writes a page of verdicts. `false` after the last.
    pub(super) async fn verdicts(&mut self, transaction: &mut Transaction, table: &mut Table) -> Result<bool, Error> {
        let RowKey { key, number, .. } = &self.verdicts;
        let values = [
            Value::Integer(key.0),
            Value::Bytes(&key.1),
            Value::Integer(*number),
            Value::Integer(self.last.0),
            Value::Bytes(&self.last.1),
            Value::Integer(PAGE as i64),
        ];
        let rows = transaction.fetch(VERDICTS, &values).await?;
        for row in VerdictRow::from_rows(&rows) {
            let row = row?;
            let Some(tool) = self.name(row.registry, row.tool)? else { continue };
            let hash = hex::encode_prefixed(row.hash);
            table.push(&[
                tool.into(),
                row.number.into(),
                millis(row.at).into(),
                row.verdict.into(),
                row.conformant.into(),
                row.failed_check.into(),
                row.step.into(),
                row.code.into(),
                Cell::from(&hash),
            ])?;
        }
        let Some(last) = rows.last() else { return Ok(false) };
        let (key, number) = (ToolKey::from_row(last)?, last.get("number")?);
        self.verdicts = RowKey { key: (key.registry.0, key.id_bytes()), counts: false, number, id: String::new() };
        Ok(rows.len() == PAGE)
    }

    /// Writes a page of calls. `false` after the last.
    pub(super) async fn usage(&mut self, transaction: &mut Transaction, table: &mut Table) -> Result<bool, Error> {
        let RowKey { key, counts, number: at, id } = &self.usage;
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
        for row in UsageRow::from_rows(&rows) {
            let row = row?;
            let Some(tool) = self.name(row.registry, row.tool)? else { continue };
            let amount = U256::try_from_be_slice(row.amount).ok_or(Error::Corrupt { what: "amount of a call" })?;
            let [token, payer, nonce, recipient] = [row.token, row.payer, row.nonce, row.seller].map(hex::encode_prefixed);
            let (amount, transaction) = (amount.to_string(), row.transaction_hash.map(hex::encode_prefixed));
            table.push(&[
                tool.into(),
                row.id.into(),
                row.paid.into(),
                row.counts.into(),
                row.chain.into(),
                Cell::from(&token),
                Cell::from(&payer),
                Cell::from(&nonce),
                Cell::from(&recipient),
                Cell::from(&amount),
                transaction.as_ref().into(),
                millis(row.at).into(),
                millis(row.reported_at).into(),
                row.latency_ms.into(),
            ])?;
        }
        let Some(last) = rows.last() else { return Ok(false) };
        let key = ToolKey::from_row(last)?;
        self.usage = RowKey {
            key: (key.registry.0, key.id_bytes()),
            counts: last.get("counts")?,
            number: last.get("at")?,
            id: last.get("id")?,
        };
        Ok(rows.len() == PAGE)
    }
}
