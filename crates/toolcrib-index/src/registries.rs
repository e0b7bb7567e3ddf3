//! The registries of an index.

use alloy_primitives::{Address, B256};
use toolcrib_store::Migration;
use toolcrib_store::database::{FromRow as _, Value};
use toolcrib_store::{row, sql};

use crate::model::RegistryId;
use crate::{Error, Index};

pub(crate) const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    sql: "CREATE TABLE index_registry (id BIGINT NOT NULL PRIMARY KEY, chain BIGINT NOT NULL, address BYTES NOT NULL,
        first_block BIGINT NOT NULL, checkpoint BIGINT NOT NULL, checkpoint_hash BYTES, finalized BIGINT NOT NULL, head BIGINT NOT NULL,
        code_hash BYTES, code_changed_at BIGINT, UNIQUE (chain, address));",
}];

/// A registry of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryRow {
    /// Its number in this database.
    pub id: RegistryId,
    /// The chain.
    pub chain: u64,
    /// The contract.
    pub address: Address,
    /// The first block that can have events of this registry.
    pub first_block: u64,
    /// The follower's progress.
    pub state: RegistryState,
}

/// A follower's progress with a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistryState {
    /// The last indexed block; one before the first block when none is indexed.
    pub checkpoint: i64,
    /// The hash of that block.
    pub checkpoint_hash: Option<B256>,
    /// The last finalized block, which is never rolled back.
    pub finalized: i64,
    /// The chain head when the node was last asked.
    pub head: i64,
    /// keccak256 of the contract's code.
    pub code_hash: Option<B256>,
    /// When a change of the code was first noticed.
    pub code_changed_at: Option<i64>,
}

row! {
    /// The columns of a registry.
    struct Columns {
        id: i64,
        chain: u64,
        address: Address,
        first_block: u64,
        checkpoint: i64,
        checkpoint_hash: Option<B256>,
        finalized: i64,
        head: i64,
        code_hash: Option<B256>,
        code_changed_at: Option<i64>,
    }
}

const ALL: &str = sql!("SELECT ", Columns::COLUMNS, " FROM index_registry ORDER BY id");
const ADD: &str = "INSERT INTO index_registry (id, chain, address, first_block, checkpoint, finalized, head)
    SELECT COALESCE(MAX(id), 0) + 1, $1, $2, $3, $4, -1, -1 FROM index_registry WHERE true
    ON CONFLICT DO NOTHING";

impl From<Columns> for RegistryRow {
    fn from(row: Columns) -> Self {
        Self {
            id: RegistryId(row.id),
            chain: row.chain,
            address: row.address,
            first_block: row.first_block,
            state: RegistryState {
                checkpoint: row.checkpoint,
                checkpoint_hash: row.checkpoint_hash,
                finalized: row.finalized,
                head: row.head,
                code_hash: row.code_hash,
                code_changed_at: row.code_changed_at,
            },
        }
    }
}

impl Index {
    /// Returns all registries, in the order in which they were added.
    pub async fn registries(&self) -> Result<Vec<RegistryRow>, Error> {
        let rows = self.database().fetch(ALL, &[]).await?;
        Columns::from_rows(&rows).map(|row| Ok(row?.into())).collect()
    }

    /// Returns the registry at an address, if it is in the index.
    pub async fn find_registry(&self, chain: u64, address: Address) -> Result<Option<RegistryRow>, Error> {
        Ok(self.registries().await?.into_iter().find(|row| row.chain == chain && row.address == address))
    }

    /// Adds a registry, unless it exists already.
    pub async fn add_registry(&self, chain: u64, address: Address, first_block: u64) -> Result<RegistryRow, Error> {
        let corrupt = |_| Error::Corrupt { what: "number of a chain or block" };
        let (number, first) = (i64::try_from(chain).map_err(corrupt)?, i64::try_from(first_block).map_err(corrupt)?);
        loop {
            if let Some(row) = self.find_registry(chain, address).await? {
                return Ok(row);
            }
            // Two concurrent additions collide on the number; the later one reads the table again.
            let values =
                [Value::Integer(number), Value::Bytes(address.as_slice()), Value::Integer(first), Value::Integer(first - 1)];
            self.database().execute(ADD, &values).await?;
        }
    }
}
