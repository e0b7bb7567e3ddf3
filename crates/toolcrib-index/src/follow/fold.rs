//! A tool's row is the fold over its events. Executing and unwinding use the same function, so they agree.

use alloy_primitives::{Address, B256, U256};
use toolcrib_chain::registry::RegistryEvent;
use toolcrib_store::database::{Bulk, Column, Transaction};

use crate::Error;
use crate::model::{At, IdBytes, RegistryId, ToolKey, ToolRow};

/// Returns the row after one more event. Events of an id that was never registered change nothing; an id that is registered again, which
/// no honest registry does, starts over.
pub(super) fn fold(row: Option<ToolRow>, registry: RegistryId, event: &RegistryEvent, at: At) -> Option<ToolRow> {
    if let RegistryEvent::Registered { id, creator, predicate, uri, hash } = event {
        return Some(ToolRow {
            key: ToolKey { registry, id: *id },
            creator: *creator,
            metadata_uri: uri.clone(),
            manifest_hash: *hash,
            predicate: some(*predicate),
            registered: at,
            updated: at,
            deregistered: None,
            events: row.map_or(0, |row| row.events) + 1,
        });
    }
    let mut row = row?;
    match event {
        RegistryEvent::MetadataUpdated { uri, hash, .. } => {
            row.metadata_uri.clone_from(uri);
            row.manifest_hash = *hash;
        }
        RegistryEvent::PredicateUpdated { predicate, .. } => row.predicate = some(*predicate),
        RegistryEvent::Deregistered { .. } => row.deregistered = Some(at),
        _ => {}
    }
    row.updated = at;
    row.events += 1;
    Some(row)
}

/// Returns the predicate, unless it is the zero address, which means none.
pub(super) fn some(predicate: Address) -> Option<Address> {
    Some(predicate).filter(|predicate| !predicate.is_zero())
}

const COLUMNS: [&str; 13] = [
    "registry",
    "tool",
    "creator",
    "uri",
    "hash",
    "predicate",
    "registered_block",
    "registered_at",
    "updated_block",
    "updated_at",
    "deregistered_block",
    "deregistered_at",
    "events",
];

/// The columns that change for a registered tool. `listed` is reset when the manifest changes or the tool is deregistered; nothing here
/// sets it.
macro_rules! change {
    () => {
        "ON CONFLICT (registry, tool) DO UPDATE SET uri = excluded.uri, hash = excluded.hash,
        predicate = excluded.predicate, updated_block = excluded.updated_block, updated_at = excluded.updated_at,
        deregistered_block = excluded.deregistered_block, deregistered_at = excluded.deregistered_at, events = excluded.events,
        listed = index_tool.listed AND index_tool.uri = excluded.uri AND index_tool.hash = excluded.hash
            AND excluded.deregistered_block IS NULL"
    };
}
/// For existing tools. Columns that are not listed cost nothing: SQLite writes every index of a listed column, changed or not.
const CHANGE: Bulk = Bulk { table: "index_tool", columns: &COLUMNS, conflict: change!() };
/// For tools that may exist, and may have changed in every column.
const UPSERT: Bulk = Bulk {
    conflict: concat!(
        change!(),
        ", creator = excluded.creator, registered_block = excluded.registered_block, registered_at = excluded.registered_at"
    ),
    ..CHANGE
};
/// For tools that never existed.
const INSERT: Bulk = Bulk { conflict: "", ..CHANGE };

/// Writes rows, each tool once.
pub(super) async fn upsert(transaction: &mut Transaction, rows: &[ToolRow]) -> Result<(), Error> {
    write(transaction, &UPSERT, rows).await
}

/// Writes rows of existing tools that were not registered anew, each once.
pub(super) async fn change(transaction: &mut Transaction, rows: &[ToolRow]) -> Result<(), Error> {
    write(transaction, &CHANGE, rows).await
}

/// Writes rows of tools that never existed, each once.
pub(super) async fn insert(transaction: &mut Transaction, rows: &[ToolRow]) -> Result<(), Error> {
    write(transaction, &INSERT, rows).await
}

async fn write(transaction: &mut Transaction, bulk: &Bulk, rows: &[ToolRow]) -> Result<(), Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let number = |value: u64| i64::try_from(value).map_err(|_| Error::Corrupt { what: "number of a block" });
    let ids: Vec<IdBytes> = rows.iter().map(|row| row.key.id_bytes()).collect();
    let integers = |of: &dyn Fn(&ToolRow) -> Result<i64, Error>| rows.iter().map(of).collect::<Result<Vec<i64>, Error>>();
    let optional = |of: &dyn Fn(At) -> Result<i64, Error>| {
        rows.iter().map(|row| row.deregistered.map(of).transpose()).collect::<Result<Vec<_>, Error>>()
    };
    let registries = integers(&|row| Ok(row.key.registry.0))?;
    let creators: Vec<&[u8]> = rows.iter().map(|row| row.creator.as_slice()).collect();
    let uris: Vec<&str> = rows.iter().map(|row| row.metadata_uri.as_str()).collect();
    let hashes: Vec<&[u8]> = rows.iter().map(|row| row.manifest_hash.as_slice()).collect();
    let predicates: Vec<Option<&[u8]>> =
        rows.iter().map(|row| row.predicate.as_ref().map(|address| address.as_slice())).collect();
    let columns = [
        Column::Integers(&registries),
        Column::Bytes(&ids.iter().map(|id| &**id).collect::<Vec<_>>()),
        Column::Bytes(&creators),
        Column::Texts(&uris),
        Column::Bytes(&hashes),
        Column::OptionalBytes(&predicates),
        Column::Integers(&integers(&|row| number(row.registered.block))?),
        Column::Integers(&integers(&|row| Ok(row.registered.time.seconds()))?),
        Column::Integers(&integers(&|row| number(row.updated.block))?),
        Column::Integers(&integers(&|row| Ok(row.updated.time.seconds()))?),
        Column::OptionalIntegers(&optional(&|at| number(at.block))?),
        Column::OptionalIntegers(&optional(&|at| Ok(at.time.seconds()))?),
        Column::Integers(&integers(&|row| number(row.events))?),
    ];
    transaction.insert_many(bulk, &columns).await?;
    Ok(())
}

/// The numbers of event kinds in the database.
pub(super) mod kind {
    pub(in crate::follow) const REGISTERED: i64 = 1;
    pub(in crate::follow) const METADATA: i64 = 2;
    pub(in crate::follow) const PREDICATE: i64 = 3;
    pub(in crate::follow) const DEREGISTERED: i64 = 4;
    pub(in crate::follow) const UPGRADED: i64 = 5;
}

/// Reads an event of the registry from its columns; `None` for an upgrade.
pub(super) fn event_of(
    kind: i64,
    id: U256,
    creator: Option<Address>,
    predicate: Option<Address>,
    uri: Option<&str>,
    hash: Option<B256>,
) -> Result<RegistryEvent, Error> {
    let corrupt = || Error::Corrupt { what: "event" };
    let (uri, hash) = (|| uri.map(str::to_owned).ok_or_else(corrupt), || hash.ok_or_else(corrupt));
    Ok(match kind {
        kind::REGISTERED => RegistryEvent::Registered {
            id,
            creator: creator.ok_or_else(corrupt)?,
            predicate: predicate.unwrap_or_default(),
            uri: uri()?,
            hash: hash()?,
        },
        kind::METADATA => RegistryEvent::MetadataUpdated { id, uri: uri()?, hash: hash()? },
        kind::PREDICATE => RegistryEvent::PredicateUpdated { id, predicate: predicate.unwrap_or_default() },
        kind::DEREGISTERED => RegistryEvent::Deregistered { id },
        _ => return Err(corrupt()),
    })
}
