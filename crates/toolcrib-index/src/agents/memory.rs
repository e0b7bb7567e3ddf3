//! The newest verified manifest of each name, for rollback protection.
//!
//! Every manifest that an owner ever signed stays valid, so only an index that remembers the newer one detects an older one in the TXT
//! record. The memory is in the database, so it survives restarts, and all processes of an index share it: it is read with the lease and
//! written together with the verdict. It never returns to an older manifest, and stays when the name leaves the list.

use std::collections::HashMap;

use alloy_primitives::{Address, B256};
use toolcrib_core::clock::UnixTime;
use toolcrib_store::Migration;
use toolcrib_store::database::{Bulk, Column, FromRow as _, Transaction, Value};
use toolcrib_store::{row, sql};

use super::model::AgentVerdict;
use super::writing::Token;
use crate::Error;

pub(super) const MIGRATION: Migration = Migration {
    version: 2,
    sql: "CREATE TABLE index_agent_memory (domain TEXT NOT NULL PRIMARY KEY, created_at BIGINT NOT NULL, cid TEXT NOT NULL,
        digest BYTES NOT NULL, owner BYTES NOT NULL);",
};

/// The newest verified manifest of a name. If there is one, the name is also known to have had a manifest instead of only legacy records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentMemory {
    /// Its `created_at`, or the time of the verification if that was earlier.
    pub created_at: UnixTime,
    /// Its CID.
    pub cid: String,
    /// The digest of its signed content.
    pub digest: B256,
    /// The owner of the name at that time.
    pub owner: Address,
}

row! {
    /// What is remembered of a name.
    struct MemoryRow<'r> from "m" {
        domain: &'r str,
        created_at: UnixTime,
        cid: String,
        digest: B256,
        owner: Address,
    }
}

/// What is remembered of the names that a worker holds.
const OF_LEASE: &str = sql!(
    "SELECT ",
    MemoryRow::COLUMNS,
    " FROM index_agent_memory m
    JOIN index_agent a ON a.domain = m.domain WHERE a.lease = $1"
);

/// A result that is written late does not replace a newer manifest.
const REMEMBER: Bulk = Bulk {
    table: "index_agent_memory",
    columns: &["domain", "created_at", "cid", "digest", "owner"],
    conflict: "ON CONFLICT (domain) DO UPDATE SET created_at = excluded.created_at, cid = excluded.cid, digest = excluded.digest,
        owner = excluded.owner WHERE excluded.created_at >= index_agent_memory.created_at",
};

impl AgentMemory {
    /// Returns what to remember after a verdict; `None` if nothing new.
    pub(super) fn of(verdict: &AgentVerdict, known: Option<&Self>, begun: UnixTime) -> Option<Self> {
        if !verdict.verified {
            return None;
        }
        let new = Self {
            // A time in the future would make every honest update look old.
            created_at: verdict.created_at?.min(begun),
            // CIDs are printable ASCII. Anything else does not belong in a text column.
            cid: verdict.cid.clone().filter(|cid| cid.bytes().all(|byte| byte.is_ascii_graphic()))?,
            digest: verdict.content_digest?,
            owner: verdict.owner?,
        };
        let is_known = known.is_some_and(|known| {
            let is_same = (&known.cid, known.digest, known.owner) == (&new.cid, new.digest, new.owner);
            is_same || new.created_at < known.created_at
        });
        (!is_known).then_some(new)
    }
}

/// Reads the remembered manifests of all names that a worker has leased.
pub(super) async fn of_lease(transaction: &mut Transaction, token: &Token) -> Result<HashMap<String, AgentMemory>, Error> {
    let rows = transaction.fetch(OF_LEASE, &[Value::Bytes(token)]).await?;
    let read = |row: MemoryRow<'_>| {
        let memory = AgentMemory { created_at: row.created_at, cid: row.cid, digest: row.digest, owner: row.owner };
        (row.domain.to_owned(), memory)
    };
    MemoryRow::from_rows(&rows).map(|row| Ok(read(row?))).collect()
}

/// Writes the manifests to remember.
pub(super) async fn write(transaction: &mut Transaction, memories: &[(&str, &AgentMemory)]) -> Result<(), Error> {
    if memories.is_empty() {
        return Ok(());
    }
    let domains: Vec<&str> = memories.iter().map(|(domain, _)| *domain).collect();
    let times: Vec<i64> = memories.iter().map(|(_, memory)| memory.created_at.seconds()).collect();
    let cids: Vec<&str> = memories.iter().map(|(_, memory)| memory.cid.as_str()).collect();
    let digests: Vec<&[u8]> = memories.iter().map(|(_, memory)| memory.digest.as_slice()).collect();
    let owners: Vec<&[u8]> = memories.iter().map(|(_, memory)| memory.owner.as_slice()).collect();
    let columns = [
        Column::Texts(&domains),
        Column::Integers(&times),
        Column::Texts(&cids),
        Column::Bytes(&digests),
        Column::Bytes(&owners),
    ];
    transaction.insert_many(&REMEMBER, &columns).await?;
    Ok(())
}
