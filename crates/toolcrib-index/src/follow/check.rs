//! Compares every tool of an index with its registry at one block, for operators.

use std::collections::HashMap;

use alloy_primitives::U256;
use toolcrib_chain::Error as ChainError;
use toolcrib_chain::registry::{MAX_COMPARED, Registry, ToolState, state_digest};

use super::compare::state_of;
use super::state::unsigned;
use crate::model::{RegistryId, ToolKey, ToolRow};
use crate::registries::RegistryRow;
use crate::{Error, Index, tools};

/// The maximum number of tools that a report lists. A registry with more differences needs a rescan, not a list.
pub const MAX_NAMED: usize = 1_000;

/// The result of comparing the tools of an index with their registry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// The block whose state was compared.
    pub block: u64,
    /// Whether that block is final. Nodes prune the state of older blocks; then the newest block of the index is used.
    pub is_final: bool,
    /// The registry's tool count.
    pub counted: U256,
    /// Tools that were compared.
    pub compared: u64,
    /// Tools that changed after the block and were not compared.
    pub newer: u64,
    /// Tools for which the registry returned no valid response.
    pub unreadable: u64,
    /// Tools that differ.
    pub wrong: u64,
    /// The first differences.
    pub differences: Vec<Difference>,
    /// The block from which a rescan finds the missing logs.
    pub rescan_from: Option<u64>,
}

/// A tool whose row differs from its registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The tool.
    pub id: U256,
    /// What the index has.
    pub index: ToolState,
    /// The state in the registry.
    pub registry: ToolState,
}

impl Difference {
    /// Returns the fields that differ, with their names in the registry.
    pub fn fields(&self) -> Vec<&'static str> {
        match (&self.index, &self.registry) {
            (ToolState::Present(ours), ToolState::Present(theirs)) => [
                ("creator", ours.creator != theirs.creator),
                ("metadataURI", ours.metadata_uri != theirs.metadata_uri),
                ("manifestHash", ours.manifest_hash != theirs.manifest_hash),
                ("accessPredicate", ours.access_predicate != theirs.access_predicate),
            ]
            .into_iter()
            .filter_map(|(name, differs)| differs.then_some(name))
            .collect(),
            _ => vec!["registration"],
        }
    }
}

impl Index {
    /// Compares every tool of a registry with the contract, at the last final block or, if the node has pruned its state, at the newest
    /// block of the index. Changes nothing; [`Index::request_rescan`] with the report's block finds missing logs.
    pub async fn check(&self, registry: &Registry) -> Result<CheckReport, Error> {
        let (chain, address) = (registry.chain().chain_id(), registry.address());
        let row = self.find_registry(chain, address).await?;
        let row = row.ok_or(Error::Corrupt { what: "registry: it is not in the index" })?;
        let (block, is_final, counted) = choose_block(registry, &row).await?;
        let mut report = CheckReport {
            block,
            is_final,
            counted,
            compared: 0,
            newer: 0,
            unreadable: 0,
            wrong: 0,
            differences: Vec::new(),
            rescan_from: None,
        };
        let highest = self.highest(row.id).await?.max(counted);
        let mut last_right = row.first_block;
        let mut next = U256::from(1);
        while next <= highest {
            let left = highest.saturating_sub(next).saturating_add(U256::from(1));
            let count = u16::try_from(left).unwrap_or(u16::MAX).min(MAX_COMPARED);
            let ids: Vec<U256> = (0..count).map(|n| next.saturating_add(U256::from(n))).collect();
            let digests = registry.state_digests_at(next, count, block).await?;
            let rows = self.rows_of(row.id, &ids).await?;
            for (place, id) in ids.iter().enumerate() {
                let ours = rows.get(id);
                if ours.is_some_and(|ours| ours.updated.block > block) {
                    report.newer += 1;
                    continue;
                }
                let state = state_of(ours);
                let is_same = digests.as_ref().is_some_and(|digests| state_digest(*id, &state) == digests[place]);
                if !is_same {
                    match registry.tool_at(*id, block).await {
                        Ok(theirs) if theirs == state => {}
                        Ok(theirs) => {
                            report.wrong += 1;
                            let from = ours.map_or(last_right, |ours| ours.updated.block);
                            report.rescan_from = Some(report.rescan_from.map_or(from, |known| known.min(from)));
                            if report.differences.len() < MAX_NAMED {
                                report.differences.push(Difference { id: *id, index: state, registry: theirs });
                            }
                        }
                        Err(error @ ChainError::Transport { .. }) => return Err(error.into()),
                        Err(_) => {
                            report.unreadable += 1;
                            continue;
                        }
                    }
                }
                last_right = ours.map_or(last_right, |ours| ours.registered.block);
                report.compared += 1;
            }
            next = next.saturating_add(U256::from(count));
        }
        if !is_final {
            let hash = registry.chain().header(block).await?.map(|header| header.hash);
            if hash != row.state.checkpoint_hash {
                return Err(Error::Inconsistent { what: "the chain changed during the reads (reorg)" });
            }
        }
        Ok(report)
    }

    async fn highest(&self, registry: RegistryId) -> Result<U256, Error> {
        const HIGHEST: &str = "SELECT tool FROM index_tool WHERE registry = $1 ORDER BY tool DESC LIMIT 1";
        let row = self.database().fetch_optional(HIGHEST, &[toolcrib_store::database::Value::Integer(registry.0)]).await?;
        row.map_or(Ok(U256::ZERO), |row| Ok(ToolKey::from_columns(registry.0, row.scalar()?)?.id))
    }

    pub(super) async fn rows_of(&self, registry: RegistryId, ids: &[U256]) -> Result<HashMap<U256, ToolRow>, Error> {
        let mut transaction = self.database().begin_reading().await?;
        let rows = tools::rows(&mut transaction, registry, ids).await?;
        Ok(rows.into_iter().map(|row| (row.key.id, row)).collect())
    }
}

/// Chooses the block to compare at, and reads the registry's tool count there.
async fn choose_block(registry: &Registry, row: &RegistryRow) -> Result<(u64, bool, U256), Error> {
    let newest = unsigned(row.state.checkpoint).map_err(|_| Error::Inconsistent { what: "the index is empty" })?;
    let last_final = u64::try_from(row.state.finalized.min(row.state.checkpoint)).ok().filter(|block| *block >= row.first_block);
    if let Some(block) = last_final {
        match registry.tool_count_at(block).await {
            Ok(counted) => return Ok((block, true, counted)),
            // The state is pruned, or the registry was not deployed yet.
            Err(ChainError::Refused { .. } | ChainError::NotARegistry { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok((newest, false, registry.tool_count_at(newest).await?))
}
