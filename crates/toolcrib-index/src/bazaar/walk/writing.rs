//! Writes a page of a catalogue.

use std::collections::HashMap;

use alloy_primitives::B256;
use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::{Bulk, Column, FromRow as _, Transaction, Value};
use toolcrib_store::{row, sql};
use toolcrib_x402::{CatalogueItem, ItemAccess};

use super::{LEASE_SECONDS, Lease};
use crate::bazaar::model::{CatalogueClaim, ResourceView, comparable};
use crate::bazaar::options::BazaarOptions;
use crate::bazaar::{Token, probe};
use crate::feed::{self, Kinds};
use crate::work::kept::json;
use crate::work::pace::spread_by;
use crate::{Error, Index, text_key};

/// The changes that a page made.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    pub(super) added: usize,
    pub(super) changed: usize,
    /// Resources that were not added because this facilitator reached its limit.
    pub(super) refused: usize,
}

const RENEW: &str = "UPDATE index_bazaar_facilitator SET leased_until = $1 WHERE id = $2 AND lease = $3 AND walk = $4";

row! {
    struct KnownRow {
        identity: B256,
        id: i64,
        listed: bool,
    }
}

row! {
    /// What a facilitator claims about a resource.
    struct ClaimRow<'r> {
        resource: i64,
        claim: &'r str,
    }
}

const KNOWN: &str = sql!("SELECT ", KnownRow::COLUMNS, " FROM index_bazaar_resource WHERE identity");
const ENTRIES: &str = "SELECT COUNT(*) FROM index_bazaar_entry WHERE facilitator = $1";
const NEW: Bulk = Bulk {
    table: "index_bazaar_resource",
    columns: &["identity", "url", "tool_name", "endpoint_key", "first_seen_at", "updated_at", "method", "due_at"],
    conflict: "ON CONFLICT (identity) DO NOTHING",
};
const ENTRY: Bulk = Bulk {
    table: "index_bazaar_entry",
    columns: &["facilitator", "resource", "walk", "seen_at", "claim"],
    conflict: "ON CONFLICT (facilitator, resource) DO UPDATE SET walk = excluded.walk, seen_at = excluded.seen_at,
        claim = excluded.claim, missed = 0, missing_since = NULL",
};
/// A resource is due for a probe at once when a claim about it changes.
const CHANGED: &str =
    "UPDATE index_bazaar_resource SET listed = TRUE, updated_at = $1, method = $2, due_at = CASE WHEN due_at > $1 THEN $1
    ELSE due_at END WHERE id = $3";

/// An item, ready to be written.
struct Row {
    identity: B256,
    url: String,
    tool: String,
    endpoint_key: Option<i64>,
    method: &'static str,
    claim: CatalogueClaim,
    document: String,
}

impl Row {
    fn of(item: &CatalogueItem) -> Result<Self, Error> {
        let (tool, is_plain) = match &item.access {
            ItemAccess::Http { .. } => (String::new(), true),
            ItemAccess::Mcp { tool } => (tool.clone(), false),
        };
        let (url, claim) = (comparable(&item.url), CatalogueClaim::of(item));
        Ok(Self {
            identity: item.identity(),
            endpoint_key: is_plain.then(|| text_key(&url)),
            url,
            tool,
            method: probe::method(&item.access),
            document: json(&claim)?,
            claim,
        })
    }
}

/// The stored state of a resource.
#[derive(Clone, Copy)]
struct Known {
    id: i64,
    listed: bool,
}

/// Writes a page, and renews the lease. `None` when another process has it.
pub(super) async fn page(
    index: &Index,
    lease: &Lease<'_>,
    token: &Token,
    items: &[CatalogueItem],
    options: &BazaarOptions,
    now: UnixTime,
) -> Result<Option<Written>, Error> {
    let mut rows = items.iter().map(Row::of).collect::<Result<Vec<_>, _>>()?;
    let mut transaction = index.database().begin().await?;
    let until = Value::Integer(now.plus(LEASE_SECONDS).seconds());
    let values = [until, Value::Integer(lease.id), Value::Bytes(token), Value::Integer(lease.walk)];
    if transaction.execute(RENEW, &values).await? == 0 {
        transaction.rollback().await?;
        return Ok(None);
    }
    let before = known(&mut transaction, &rows).await?;
    let claims = claims(&mut transaction, lease.id, before.values()).await?;
    let mut written = Written::default();
    // Resources that this facilitator lists already stay; new ones are added up to the limit.
    let count = transaction.fetch_optional(ENTRIES, &[Value::Integer(lease.id)]).await?;
    let listed = count.ok_or(Error::Corrupt { what: "count of resources" })?.scalar::<i64>()?;
    let mut room = options.max_items.saturating_sub(usize::try_from(listed).unwrap_or(usize::MAX));
    rows.retain(|row| {
        let is_listed = before.get(&row.identity).is_some_and(|known| claims.contains_key(&known.id));
        let fits = is_listed || room > 0;
        room -= usize::from(fits && !is_listed);
        written.refused += usize::from(!fits);
        fits
    });
    let news: Vec<&Row> = rows.iter().filter(|row| !before.contains_key(&row.identity)).collect();
    add(&mut transaction, &news, now).await?;
    let all = if news.is_empty() { before.clone() } else { known(&mut transaction, &rows).await? };
    // Sorted by number, as all writers do.
    let mut rows: Vec<(Known, &Row)> = rows.iter().filter_map(|row| Some((*all.get(&row.identity)?, row))).collect();
    rows.sort_by_key(|(known, _)| known.id);
    enter(&mut transaction, lease, &rows, now).await?;
    let mut events = Vec::new();
    for (known, row) in rows {
        let is_same = known.listed && claims.get(&known.id).is_some_and(|claim| row.claim.is_same(claim));
        if is_same {
            continue;
        }
        let at = Value::Integer(now.seconds());
        transaction.execute(CHANGED, &[at, Value::Text(row.method), Value::Integer(known.id)]).await?;
        let kinds = if known.listed { Kinds::FACTS } else { Kinds::LISTED };
        written.added += usize::from(!known.listed);
        written.changed += usize::from(known.listed);
        events.push((ResourceView::key_of(known.id), kinds));
    }
    feed::record(&mut transaction, &events, now).await?;
    transaction.commit().await?;
    Ok(Some(written))
}

/// Returns the stored state of the resources on a page.
async fn known(transaction: &mut Transaction, rows: &[Row]) -> Result<HashMap<B256, Known>, Error> {
    let keys: Vec<&[u8]> = rows.iter().map(|row| row.identity.as_slice()).collect();
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = transaction.fetch_among(KNOWN, &[], &keys).await?;
    let read = |row: KnownRow| (row.identity, Known { id: row.id, listed: row.listed });
    KnownRow::from_rows(&rows).map(|row| Ok(read(row?))).collect()
}

/// Returns what a facilitator claimed about resources before.
async fn claims(
    transaction: &mut Transaction,
    facilitator: i64,
    known: impl Iterator<Item = &Known>,
) -> Result<HashMap<i64, CatalogueClaim>, Error> {
    let ids: Vec<String> = known.map(|known| known.id.to_string()).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let list = ids.join(", ");
    let sql = format!("SELECT {} FROM index_bazaar_entry WHERE facilitator = $1 AND resource IN ({list})", ClaimRow::COLUMNS);
    let rows = transaction.fetch_made(sql, &[Value::Integer(facilitator)]).await?;
    // One that cannot be read is written anew.
    let read = |row: ClaimRow<'_>| (row.resource, serde_json::from_str(row.claim).unwrap_or_default());
    ClaimRow::from_rows(&rows).map(|row| Ok(read(row?))).collect()
}

async fn add(transaction: &mut Transaction, rows: &[&Row], now: UnixTime) -> Result<(), Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let identities: Vec<&[u8]> = rows.iter().map(|row| row.identity.as_slice()).collect();
    let urls: Vec<&str> = rows.iter().map(|row| row.url.as_str()).collect();
    let tools: Vec<&str> = rows.iter().map(|row| row.tool.as_str()).collect();
    let keys: Vec<Option<i64>> = rows.iter().map(|row| row.endpoint_key).collect();
    let methods: Vec<&str> = rows.iter().map(|row| row.method).collect();
    let times = vec![now.seconds(); rows.len()];
    let columns = [
        Column::Bytes(&identities),
        Column::Texts(&urls),
        Column::Texts(&tools),
        Column::OptionalIntegers(&keys),
        Column::Integers(&times),
        Column::Integers(&times),
        Column::Texts(&methods),
        Column::Integers(&times),
    ];
    transaction.insert_many(&NEW, &columns).await?;
    Ok(())
}

/// Records that this walk found these resources.
async fn enter(transaction: &mut Transaction, lease: &Lease<'_>, rows: &[(Known, &Row)], now: UnixTime) -> Result<(), Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let ids: Vec<i64> = rows.iter().map(|(known, _)| known.id).collect();
    let texts: Vec<&str> = rows.iter().map(|(_, row)| row.document.as_str()).collect();
    let columns = [
        Column::Integers(&vec![lease.id; rows.len()]),
        Column::Integers(&ids),
        Column::Integers(&vec![lease.walk; rows.len()]),
        Column::Integers(&vec![now.seconds(); rows.len()]),
        Column::Texts(&texts),
    ];
    transaction.insert_many(&ENTRY, &columns).await?;
    Ok(())
}

/// Returns when the walk after another begins, spread so that not all facilitators are walked at once.
pub(super) fn spread(lease: &Lease<'_>, seconds: i64) -> i64 {
    seconds.saturating_add(spread_by(lease.facilitator.key.as_slice(), seconds))
}
