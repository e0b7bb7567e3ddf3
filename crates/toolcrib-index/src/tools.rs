//! The tools of an index: one row for the registration, one document for the result of the verification, and reading both.

use std::collections::HashMap;

use alloy_primitives::{Address, B256, U256};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::UnixTime;
use toolcrib_store::Migration;
use toolcrib_store::database::{FromRow as _, Row, Transaction, Value};
use toolcrib_store::{row, sql};

use crate::listing::{AccessKind, Listing};
use crate::model::{At, IdBytes, RegistryId, ToolKey, ToolRow, ToolView, UsageTotals};
use crate::moderation::Moderation;
use crate::{Error, Index};

/// `index_tool` is the fold over the events. Only followers write it, except for `listed` and `access`, which workers update so that lists
/// need no second table. A change of URI or hash resets `listed` until the next verification.
/// `uri_key` is the start of keccak256 of the URI that was verified last: URIs are too long for a database index.
pub(crate) const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    sql: "CREATE TABLE index_tool (registry BIGINT NOT NULL, tool BYTES NOT NULL, creator BYTES NOT NULL, uri TEXT NOT NULL,
        uri_key BIGINT, hash BYTES NOT NULL, predicate BYTES, registered_block BIGINT NOT NULL, registered_at BIGINT NOT NULL,
        updated_block BIGINT NOT NULL, updated_at BIGINT NOT NULL, deregistered_block BIGINT, deregistered_at BIGINT,
        events BIGINT NOT NULL, listed BOOLEAN NOT NULL DEFAULT FALSE, access TEXT NOT NULL DEFAULT '', PRIMARY KEY (registry, tool)) WITHOUT ROWID;
    CREATE INDEX index_tool_predicate ON index_tool (predicate) WHERE predicate IS NOT NULL;
    CREATE TABLE index_listing (registry BIGINT NOT NULL, tool BYTES NOT NULL, checked_at BIGINT NOT NULL, endpoint_key BIGINT,
        document TEXT NOT NULL, PRIMARY KEY (registry, tool));
    CREATE INDEX index_listing_endpoint ON index_listing (endpoint_key);
    CREATE TABLE index_usage_total (registry BIGINT NOT NULL, tool BYTES NOT NULL, paid_calls BIGINT NOT NULL, payers BIGINT NOT NULL,
        ranking_payers BIGINT NOT NULL, volume BIGINT NOT NULL, signed_calls BIGINT NOT NULL, last_at BIGINT,
        PRIMARY KEY (registry, tool));",
}];

/// Indexes that lists and workers need and a registry's backfill does not: see [`Index::prepare_reading`].
pub(crate) const INDEXES: &[Migration] = &[Migration {
    version: 1,
    sql: "CREATE INDEX index_tool_registered ON index_tool (registered_at, registry, tool);
    CREATE INDEX index_tool_listed ON index_tool (registered_at, registry, tool) WHERE listed;
    CREATE INDEX index_tool_access ON index_tool (access, listed, registered_at, registry, tool) WHERE access <> '';
    CREATE INDEX index_tool_creator ON index_tool (creator, registered_at);
    CREATE INDEX index_tool_uri ON index_tool (uri_key) WHERE uri_key IS NOT NULL;",
}];

/// A query for a list of tools.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// The order.
    pub order: Order,
    /// Only tools with this kind of access. Applies only to tools that were verified.
    pub access: Option<AccessKind>,
    /// Only tools of this registry.
    pub registry: Option<RegistryId>,
    /// Only tools of this creator.
    pub creator: Option<Address>,
    /// Also tools that may not be shown to agents.
    pub include_unverified: bool,
    /// Only tools after this cursor position.
    pub after: Option<ListPosition>,
    /// The maximum number of tools.
    pub limit: usize,
}

impl List {
    /// Returns the SQL statement and its parameters.
    fn statement(&self, limit: usize) -> (String, Vec<ConditionValue>) {
        let mut select = Select::default();
        if let Some(access) = &self.access {
            // The second condition makes the database use the index of verified tools.
            select.and("t.access = ? AND t.access <> ''", ConditionValue::Text(access.as_str().to_owned()));
        }
        if let Some(registry) = self.registry {
            // The unary plus keeps the database from reading and sorting a whole registry.
            select.and("+t.registry = ?", ConditionValue::Integer(registry.0));
        }
        if let Some(creator) = self.creator {
            select.and("t.creator = ?", ConditionValue::Bytes(creator.to_vec()));
        }
        let (sign, direction) = match self.order {
            Order::Newest => ("<", "DESC"),
            Order::Oldest => (">", "ASC"),
        };
        if let Some(ListPosition { registered_at, key }) = self.after {
            select.and("(t.registered_at, t.registry, t.tool)", ConditionValue::Integer(registered_at.seconds()));
            let first = select.values.len();
            select.conditions.push_str(&format!(" {sign} (${first}, ${}, ${})", first + 1, first + 2));
            select.values.extend([ConditionValue::Integer(key.registry.0), ConditionValue::Bytes(key.id_bytes().to_vec())]);
        }
        let order = format!("ORDER BY t.registered_at {direction}, t.registry {direction}, t.tool {direction} LIMIT {limit}");
        let Select { conditions, .. } = &select;
        // The spelling of the condition on `listed` selects the index that SQLite uses; PostgreSQL knows that all spellings are
        // equivalent.
        let listed = match (self.include_unverified, self.creator, &self.access) {
            (true, ..) => "TRUE",
            (false, Some(_), _) => "t.listed IS TRUE",
            (false, None, Some(_)) => "t.listed = TRUE",
            (false, None, None) => "t.listed",
        };
        let sql = if self.include_unverified && self.access.is_some() && self.creator.is_none() {
            // No index has both kinds in one order: the first of each kind are read, and merged.
            let part = |listed: &str| {
                format!(
                    "SELECT * FROM (SELECT t.registry, t.tool FROM index_tool t WHERE t.listed = {listed}{conditions} {order}) {listed}_ones"
                )
            };
            let (listed, others) = (part("TRUE"), part("FALSE"));
            format!("WITH k (registry, tool) AS ({listed} UNION ALL {others}) {VIEW} FROM {KEYED} {order}")
        } else {
            format!("{VIEW} FROM index_tool t {TABLES} WHERE {listed}{conditions} {order}")
        };
        (sql, select.values)
    }
}

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// The newest registration first.
    #[default]
    Newest,
    /// The oldest registration first.
    Oldest,
}

/// A position in a list: after the tool that it was created from, independent of changes to other tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListPosition {
    /// When that tool was registered.
    pub registered_at: UnixTime,
    /// That tool.
    pub key: ToolKey,
}

/// A page of a list.
#[derive(Clone, Debug)]
pub struct Page {
    /// The tools.
    pub tools: Vec<ToolView>,
    /// The position of the next page; `None` at the end.
    pub next: Option<ListPosition>,
}

/// The maximum number of tools read at once.
pub const MAX_TOOLS: usize = 200;

row! {
    /// What the chain says about a tool.
    struct ChainColumns<'r> from "t" {
        registry: i64,
        tool: &'r [u8],
        creator: Address,
        uri: String,
        hash: B256,
        predicate: Option<Address>,
        registered_block: u64,
        registered_at: UnixTime,
        updated_block: u64,
        updated_at: UnixTime,
        deregistered_block: Option<u64>,
        deregistered_at: Option<UnixTime>,
        events: u64,
    }
}

row! {
    /// Its listing, and sums of its use.
    struct DerivedColumns<'r> from "u" {
        document: Option<&'r str> = "l.document",
        paid_calls: Option<u64>,
        payers: Option<u64>,
        ranking_payers: Option<u64>,
        volume: Option<u64>,
        signed_calls: Option<u64>,
        last_at: Option<UnixTime>,
        creator_payers: Option<u64> = "cp.payers",
    }
}

/// The columns of everything that is known about a tool, and the tables that they come from beside `index_tool t`.
const VIEW: &str = sql!(
    "SELECT ",
    ChainColumns::COLUMNS,
    ", ",
    DerivedColumns::COLUMNS,
    ", COALESCE(m.action, c.action) AS action, COALESCE(m.reason, c.reason) AS reason, COALESCE(m.notice, c.notice) AS notice,
    COALESCE(m.at, c.at) AS at"
);
const TABLES: &str = "LEFT JOIN index_listing l ON l.registry = t.registry AND l.tool = t.tool
    LEFT JOIN index_usage_total u ON u.registry = t.registry AND u.tool = t.tool
    LEFT JOIN index_moderation_tool m ON m.registry = t.registry AND m.tool = t.tool
    LEFT JOIN index_moderation_creator c ON c.creator = t.creator
    LEFT JOIN index_creator_total cp ON cp.creator = t.creator";

/// The same for the keys in a table `k`, which is the outer loop of the join.
const KEYED: &str = "k CROSS JOIN index_tool t LEFT JOIN index_listing l ON l.registry = t.registry AND l.tool = t.tool
    LEFT JOIN index_usage_total u ON u.registry = t.registry AND u.tool = t.tool
    LEFT JOIN index_moderation_tool m ON m.registry = t.registry AND m.tool = t.tool
    LEFT JOIN index_moderation_creator c ON c.creator = t.creator
    LEFT JOIN index_creator_total cp ON cp.creator = t.creator WHERE t.registry = k.registry AND t.tool = k.tool";

impl Index {
    /// Returns everything that is known about a tool. An error if its row cannot be read.
    pub async fn tool(&self, tool: &ToolRef) -> Result<Option<ToolView>, Error> {
        let Some(registry) = self.registry_of(tool.chain, tool.registry).await? else { return Ok(None) };
        self.tool_by_key(ToolKey { registry, id: tool.id }).await
    }

    /// Returns the same for a key.
    pub(crate) async fn tool_by_key(&self, key: ToolKey) -> Result<Option<ToolView>, Error> {
        let id = key.id_bytes();
        let sql = format!("{VIEW} FROM index_tool t {TABLES} WHERE t.registry = $1 AND t.tool = $2");
        let rows = self.database().fetch_made(sql, &[Value::Integer(key.registry.0), Value::Bytes(&id)]).await?;
        match rows.first() {
            Some(row) => self.view(row).await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns everything that is known about some tools, in the order of the keys and without those that do not exist or whose row cannot
    /// be read.
    pub async fn tools(&self, keys: &[ToolKey]) -> Result<Vec<ToolView>, Error> {
        let mut found = HashMap::with_capacity(keys.len());
        for keys in keys.chunks(MAX_TOOLS) {
            let ids: Vec<IdBytes> = keys.iter().map(ToolKey::id_bytes).collect();
            // Only a few lengths, so that there are few prepared statements: the last key is repeated to fill the list.
            let length = keys.len().next_power_of_two().min(MAX_TOOLS);
            let mut values = Vec::with_capacity(2 * length);
            for place in 0..length {
                let at = place.min(keys.len() - 1);
                values.extend([Value::Integer(keys[at].registry.0), Value::Bytes(&ids[at])]);
            }
            let sql = if length == 1 {
                format!("{VIEW} FROM index_tool t {TABLES} WHERE t.registry = $1 AND t.tool = $2")
            } else {
                // Each key is looked up. With `OR` between the keys databases prefer to scan the whole table.
                let places: Vec<String> = (0..length).map(|place| format!("(${}, ${})", 2 * place + 1, 2 * place + 2)).collect();
                format!("WITH k (registry, tool) AS (VALUES {}) {VIEW} FROM {KEYED}", places.join(", "))
            };
            for row in self.database().fetch_made(sql, &values).await? {
                let view = self.view(&row).await;
                if let Some(view) = self.unreadable().skip("index_tool", &row, view)? {
                    found.insert(view.row.key, view);
                }
            }
        }
        Ok(keys.iter().filter_map(|key| found.get(key).cloned()).collect())
    }

    /// Returns a page of a list of tools.
    pub async fn list(&self, list: &List) -> Result<Page, Error> {
        let limit = list.limit.clamp(1, MAX_TOOLS);
        let (sql, kept) = list.statement(limit + 1);
        let values: Vec<Value<'_>> = kept.iter().map(ConditionValue::value).collect();
        let rows = if list.creator.is_some() {
            // Some creators have one tool and some have thousands. PostgreSQL must plan for this one, which it does inside a transaction.
            let mut transaction = self.database().begin_reading().await?;
            let rows = transaction.fetch_made(sql, &values).await?;
            transaction.commit().await?;
            rows
        } else {
            self.database().fetch_made(sql, &values).await?
        };
        let (mut tools, mut last) = (Vec::with_capacity(rows.len()), None);
        for row in rows.iter().take(limit) {
            // The position comes from the row, even if the rest of the row cannot be read.
            if let Some(place) = self.unreadable().skip("index_tool", row, place(row))? {
                last = Some(place);
            }
            let view = self.view(row).await;
            let view = self.unreadable().skip("index_tool", row, view)?;
            // A tool whose listing cannot be read is not shown as verified, whatever its row says.
            let view = view.filter(|view| list.include_unverified || view.listing.is_some());
            tools.extend(view.filter(|view| view.moderation.is_none()));
        }
        Ok(Page { tools, next: last.filter(|_| rows.len() > limit) })
    }

    /// Returns all tools page by page in key order: those after `after`, at most `limit`. Rows that cannot be read are left out; an empty
    /// page is the end.
    pub async fn scan(&self, after: Option<ToolKey>, limit: usize) -> Result<Vec<ToolView>, Error> {
        let limit = limit.clamp(1, MAX_TOOLS);
        let mut after = after.map(|key| (key.registry.0, key.id_bytes().to_vec()));
        loop {
            let condition = if after.is_some() { " WHERE (t.registry, t.tool) > ($1, $2)" } else { "" };
            let values: Vec<Value<'_>> =
                after.iter().flat_map(|(registry, id)| [Value::Integer(*registry), Value::Bytes(id)]).collect();
            let sql = format!("{VIEW} FROM index_tool t {TABLES}{condition} ORDER BY t.registry, t.tool LIMIT {limit}");
            let rows = self.database().fetch_made(sql, &values).await?;
            let mut tools = Vec::with_capacity(rows.len());
            for row in &rows {
                let view = self.view(row).await;
                tools.extend(self.unreadable().skip("index_tool", row, view)?);
            }
            match rows.last() {
                Some(last) if tools.is_empty() => after = Some((last.get("registry")?, last.get("tool")?)),
                _ => return Ok(tools),
            }
        }
    }

    /// Returns the same within a reading transaction, and the key of the last row: `None` at the end. Registries must be read before the
    /// transaction begins.
    #[cfg(feature = "parquet")]
    pub(crate) async fn scan_within(
        &self,
        transaction: &mut Transaction,
        after: Option<ToolKey>,
    ) -> Result<Option<(Vec<ToolView>, ToolKey)>, Error> {
        let condition = if after.is_some() { " WHERE (t.registry, t.tool) > ($1, $2)" } else { "" };
        let id = after.map(|key| key.id_bytes());
        let values: Vec<Value<'_>> = match (&after, &id) {
            (Some(key), Some(id)) => vec![Value::Integer(key.registry.0), Value::Bytes(id)],
            _ => Vec::new(),
        };
        let sql = format!("{VIEW} FROM index_tool t {TABLES}{condition} ORDER BY t.registry, t.tool LIMIT {MAX_TOOLS}");
        let rows = transaction.fetch_made(sql, &values).await?;
        let Some(last) = rows.last() else { return Ok(None) };
        let last = ToolKey::from_row(last)?;
        let mut tools = Vec::with_capacity(rows.len());
        for row in &rows {
            let view = self.view(row).await;
            tools.extend(self.unreadable().skip("index_tool", row, view)?);
        }
        Ok(Some((tools, last)))
    }

    /// A tool whose listing cannot be read has none: its registration is correct all the same.
    async fn view(&self, row: &Row) -> Result<ToolView, Error> {
        let tool_row = tool_row(ChainColumns::from_row(row)?)?;
        let tool = self.reference(tool_row.key).await?;
        let derived = DerivedColumns::from_row(row)?;
        let listing = self.unreadable().skip("index_listing", row, derived.document.map(Listing::read).transpose())?.flatten();
        let usage = UsageTotals {
            paid_calls: derived.paid_calls.unwrap_or_default(),
            payers: derived.payers.unwrap_or_default(),
            ranking_payers: derived.ranking_payers.unwrap_or_default(),
            creator_payers: derived.creator_payers.unwrap_or_default(),
            volume: derived.volume.unwrap_or_default(),
            signed_calls: derived.signed_calls.unwrap_or_default(),
            last_at: derived.last_at,
        };
        let moderation = Moderation::read(row)?;
        Ok(ToolView { tool, row: tool_row, listing, usage, moderation })
    }
}

/// Returns the rows of those tools of a registry that exist.
pub(crate) async fn rows(transaction: &mut Transaction, registry: RegistryId, ids: &[U256]) -> Result<Vec<ToolRow>, Error> {
    const ROWS: &str = sql!("SELECT ", ChainColumns::COLUMNS, " FROM index_tool t WHERE t.registry = $1 AND t.tool");
    let ids: Vec<IdBytes> = ids.iter().map(|id| IdBytes::of(*id)).collect();
    let ids: Vec<&[u8]> = ids.iter().map(|id| &**id).collect();
    let found = transaction.fetch_among(ROWS, &[Value::Integer(registry.0)], &ids).await?;
    ChainColumns::from_rows(&found).map(|row| tool_row(row?)).collect()
}

/// The value of a condition, kept until the statement is built.
enum ConditionValue {
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl ConditionValue {
    fn value(&self) -> Value<'_> {
        match self {
            Self::Integer(value) => Value::Integer(*value),
            Self::Text(value) => Value::Text(value),
            Self::Bytes(value) => Value::Bytes(value),
        }
    }
}

/// Conditions, and the values of their parameters.
#[derive(Default)]
struct Select {
    conditions: String,
    values: Vec<ConditionValue>,
}

impl Select {
    /// Adds a condition. `?` is replaced by the placeholder of the value.
    fn and(&mut self, condition: &str, value: ConditionValue) {
        self.values.push(value);
        self.conditions.push_str(" AND ");
        self.conditions.push_str(&condition.replace('?', &format!("${}", self.values.len())));
    }
}

fn tool_row(row: ChainColumns<'_>) -> Result<ToolRow, Error> {
    Ok(ToolRow {
        key: ToolKey::from_columns(row.registry, row.tool)?,
        creator: row.creator,
        metadata_uri: row.uri,
        manifest_hash: row.hash,
        predicate: row.predicate,
        registered: At { block: row.registered_block, time: row.registered_at },
        updated: At { block: row.updated_block, time: row.updated_at },
        deregistered: row.deregistered_block.zip(row.deregistered_at).map(|(block, time)| At { block, time }),
        events: row.events,
    })
}

/// Reads the list position of a row of [`VIEW`].
fn place(row: &Row) -> Result<ListPosition, Error> {
    Ok(ListPosition { registered_at: row.get("registered_at")?, key: ToolKey::from_row(row)? })
}

/// Returns the start of the hash of a text that is too long for a database index.
pub fn text_key(text: &str) -> i64 {
    let hash = alloy_primitives::keccak256(text);
    i64::from_be_bytes(hash.0[..8].try_into().unwrap_or_default())
}

/// Returns the reference of a tool whose registry is known.
pub(crate) const fn reference(chain: u64, registry: Address, id: U256) -> ToolRef {
    ToolRef { chain, registry, id }
}

#[cfg(test)]
mod tests {
    use toolcrib_store::{Database, Location};

    use super::*;

    /// Returns SQLite's query plan for a list.
    async fn plan(index: &Index, list: &List) -> String {
        let (sql, kept) = list.statement(21);
        let values: Vec<Value<'_>> = kept.iter().map(ConditionValue::value).collect();
        let rows = index.database().fetch_made(format!("EXPLAIN QUERY PLAN {sql}"), &values).await.expect("a plan");
        rows.iter().map(|row| row.get::<String>("detail").expect("a step")).collect::<Vec<_>>().join("; ")
    }

    #[tokio::test]
    async fn every_list_walks_an_index_in_its_order() {
        let database = Database::open(&Location::parse("memory").expect("a place")).await.expect("a database");
        let index = Index::open(database).await.expect("an index");
        index.prepare_reading().await.expect("indexes");
        let key = ToolKey { registry: RegistryId(1), id: U256::from(7) };
        for after in [None, Some(ListPosition { registered_at: UnixTime::from_seconds(5), key })] {
            let list = List { after, ..List::default() };
            let kinds = [
                ("index_tool_listed", list.clone()),
                ("index_tool_listed", List { order: Order::Oldest, ..list.clone() }),
                ("index_tool_listed", List { registry: Some(RegistryId(1)), ..list.clone() }),
                ("index_tool_registered", List { include_unverified: true, ..list.clone() }),
                ("index_tool_access", List { access: Some(AccessKind::Open), ..list.clone() }),
                ("index_tool_access", List { access: Some(AccessKind::Open), include_unverified: true, ..list.clone() }),
                ("index_tool_creator", List { creator: Some(Address::ZERO), ..list.clone() }),
                ("index_tool_creator", List { creator: Some(Address::ZERO), access: Some(AccessKind::Open), ..list.clone() }),
            ];
            for (walked, list) in kinds {
                let plan = plan(&index, &list).await;
                assert!(plan.contains(walked), "{list:?}: {plan}");
                // Sorting one creator's tools and the pages of two kinds is acceptable; sorting all tools is not.
                let is_short = list.creator.is_some() || list.include_unverified && list.access.is_some();
                assert!(is_short || !plan.contains("TEMP B-TREE"), "{list:?}: {plan}");
            }
        }
    }
}
