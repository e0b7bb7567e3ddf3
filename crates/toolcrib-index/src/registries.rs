//! The registries of an index.

use alloy_primitives::{Address, B256};
use toolcrib_store::Migration;
use toolcrib_store::database::{Row, Value};

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

const ALL: &str =
    "SELECT id, chain, address, first_block, checkpoint, checkpoint_hash, finalized, head, code_hash, code_changed_at
    FROM index_registry ORDER BY id";
const ADD: &str = "INSERT INTO index_registry (id, chain, address, first_block, checkpoint, finalized, head)
    SELECT COALESCE(MAX(id), 0) + 1, $1, $2, $3, $4, -1, -1 FROM index_registry WHERE true
    ON CONFLICT DO NOTHING";

impl RegistryRow {
    fn read(row: &Row) -> Result<Self, Error> {
        let hash = |column: usize| -> Result<Option<B256>, Error> {
            let bytes = row.optional_bytes(column)?;
            bytes.map(B256::try_from).transpose().map_err(|_| Error::Corrupt { what: "hash of a registry" })
        };
        Ok(Self {
            id: RegistryId(row.integer(0)?),
            chain: u64::try_from(row.integer(1)?).map_err(|_| Error::Corrupt { what: "chain" })?,
            address: Address::try_from(row.bytes(2)?).map_err(|_| Error::Corrupt { what: "address of a registry" })?,
            first_block: u64::try_from(row.integer(3)?).map_err(|_| Error::Corrupt { what: "first block" })?,
            state: RegistryState {
                checkpoint: row.integer(4)?,
                checkpoint_hash: hash(5)?,
                finalized: row.integer(6)?,
                head: row.integer(7)?,
                code_hash: hash(8)?,
                code_changed_at: row.optional_integer(9)?,
            },
        })
    }
}

impl Index {
    /// Returns all registries, in the order in which they were added.
    pub async fn registries(&self) -> Result<Vec<RegistryRow>, Error> {
        self.database().fetch(ALL, &[]).await?.iter().map(RegistryRow::read).collect()
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
