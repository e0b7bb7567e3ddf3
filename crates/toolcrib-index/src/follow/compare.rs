//! Compares the rows of tools with the registry's state, and searches the logs of those that differ.

use std::collections::HashMap;

use alloy_primitives::{Address, B256, U256};
use tokio::time::Instant;
use toolcrib_chain::Error as ChainError;
use toolcrib_chain::registry::{LogPage, ToolConfig, ToolState, state_digest};

use super::Follower;
use super::audit::{GapPosition, LONGEST_WAIT};
use super::completeness::{set_audited, set_wrong_tools};
use super::source::{MAX_PAGE_BYTES, Source, is_too_much, merge};
use crate::Error;
use crate::model::ToolRow;

/// The number of differing tools that one step examines again. More wait for the next.
const WRONG_AT_ONCE: usize = 16;

/// The number of tools compared one by one in a step, if a node does not support batches.
const SINGLE_COMPARISONS: u16 = 8;

impl Follower {
    /// Compares some tools with the registry's state at the checkpoint.
    pub(super) async fn compare_tools(&mut self) -> Result<(), Error> {
        let state = self.state()?.clone();
        let (Ok(block), Some(highest)) = (u64::try_from(state.checkpoint), state.highest) else { return Ok(()) };
        if self.options.audited_tools == 0 || self.audit.counts == Some(false) || !state.has_begun() {
            return Ok(());
        }
        let mut suspects: Vec<U256> = Vec::new();
        if !self.audit.wrong.is_empty() && self.audit.recheck.0 <= Instant::now() {
            suspects.extend(self.audit.wrong.iter().take(WRONG_AT_ONCE));
            let pause = self.audit.recheck.1;
            self.audit.recheck = (Instant::now() + pause, (pause * 2).min(LONGEST_WAIT));
        }
        if self.audit.next_pass <= Instant::now() {
            let first = self.audit.cursor.saturating_add(U256::from(1));
            let most = if self.audit.is_batched { self.options.audited_tools } else { SINGLE_COMPARISONS };
            let left = highest.saturating_add(U256::from(1)).saturating_sub(first);
            let count = most.min(u16::try_from(left).unwrap_or(u16::MAX));
            if count > 0 {
                let Some(differing) = self.differing(first, count, block).await? else { return Ok(()) };
                suspects.extend(differing);
                self.audit.cursor = self.audit.cursor.saturating_add(U256::from(count));
                self.progress.send_modify(|progress| progress.audited += u64::from(count));
            }
            if self.audit.cursor >= highest {
                (self.audit.cursor, self.audit.is_compared) = (U256::ZERO, true);
                self.audit.next_pass = Instant::now() + self.options.audit_every;
                let registry = self.registry_id().await?;
                let mut transaction = self.begin().await?;
                set_audited(&mut transaction, registry, self.options.clock.now()).await?;
                transaction.commit().await?;
            }
        }
        self.examine(&suspects, block, state.checkpoint_hash).await
    }

    /// Returns the tools of a range of ids whose digests differ from the registry's; all of them when the node does not support batches.
    /// `None` when the comparison is not possible now.
    async fn differing(&mut self, first: U256, count: u16, block: u64) -> Result<Option<Vec<U256>>, Error> {
        let ids: Vec<U256> = (0..count).map(|n| first.saturating_add(U256::from(n))).collect();
        if !self.audit.is_batched {
            return Ok(Some(ids));
        }
        let Some(digests) = self.source.registry().state_digests_at(first, count, block).await? else {
            self.audit.is_batched = false;
            return Ok(None);
        };
        let rows = self.rows(&ids).await?;
        let differs = |(id, digest): &(U256, B256)| state_digest(*id, &state_of(rows.get(id))) != *digest;
        Ok(Some(ids.into_iter().zip(digests).filter(differs).map(|(id, _)| id).collect()))
    }

    async fn rows(&mut self, ids: &[U256]) -> Result<HashMap<U256, ToolRow>, Error> {
        let registry = self.registry_id().await?;
        self.index.rows_of(registry, ids).await
    }

    /// Compares tools one by one, and searches the logs of those that differ.
    async fn examine(&mut self, suspects: &[U256], block: u64, hash: Option<B256>) -> Result<(), Error> {
        let mut found = 0;
        for id in suspects {
            let is_right = match self.is_right(*id, block).await? {
                None => continue,
                Some(true) => true,
                Some(false) => {
                    // The state may be that of another block with this number.
                    if self.source.block(block).await?.hash != hash.unwrap_or_default() {
                        return Ok(());
                    }
                    found += self.search(*id, block).await?;
                    self.is_right(*id, block).await? == Some(true)
                }
            };
            if is_right {
                self.audit.wrong.remove(id);
            } else if self.audit.wrong.insert(*id) {
                tracing::error!(registry = %self.source.registry().address(), tool = %id, block,
                    "tool differs from the registry, and no RPC node returns the log of the change");
                self.audit.recheck = (Instant::now() + self.options.poll, self.options.poll);
            }
        }
        if found > 0 {
            self.caught(found, GapPosition::Past).await?;
        }
        let wrong = self.audit.wrong.len() as u64;
        if self.progress.borrow().wrong_tools != wrong {
            let registry = self.registry_id().await?;
            let mut transaction = self.begin().await?;
            set_wrong_tools(&mut transaction, registry, wrong).await?;
            transaction.commit().await?;
            self.progress.send_modify(|progress| progress.wrong_tools = wrong);
            if wrong > 0 {
                let (from, to) = (self.state()?.first_block, block);
                self.report_incomplete("tools differ from the registry", from, to).await?;
            } else {
                // A node that omitted these may have omitted more.
                self.distrust().await?;
            }
        }
        Ok(())
    }

    /// Whether a tool's row matches the registry. `None` when the registry does not respond.
    async fn is_right(&mut self, id: U256, block: u64) -> Result<Option<bool>, Error> {
        let state = match self.source.registry().tool_at(id, block).await {
            Ok(state) => state,
            Err(error @ ChainError::Transport { .. }) => return Err(error.into()),
            Err(_) => return Ok(None),
        };
        Ok(Some(state_of(self.rows(&[id]).await?.get(&id)) == state))
    }

    /// Searches logs of one tool that are not in the index, and adds them.
    async fn search(&mut self, id: U256, to: u64) -> Result<u64, Error> {
        let first_block = self.state()?.first_block;
        let from = self.rows(&[id]).await?.get(&id).map_or(first_block, |row| row.updated.block);
        let mut added = 0;
        let mut next = from;
        while next <= to {
            let end = to.min(next.saturating_add(self.options.largest_range.max(1) - 1));
            let page = self.source.of_tool(id, next, end).await?;
            added += self.add_missing(next, end, page, None).await?;
            next = end + 1;
        }
        Ok(added)
    }
}

impl Source {
    /// Returns the logs of one tool that any node has.
    async fn of_tool(&self, id: U256, from: u64, to: u64) -> Result<LogPage, Error> {
        let mut all = LogPage::default();
        for witness in self.witnesses() {
            let mut ranges = vec![(from, to)];
            while let Some((from, to)) = ranges.pop() {
                match witness.registry().tool_logs(id, from, to, MAX_PAGE_BYTES).await.map_err(Error::from) {
                    Ok(page) => merge(&mut all, page),
                    Err(error) if is_too_much(&error) && to > from => {
                        let middle = from + (to - from) / 2;
                        ranges.extend([(middle + 1, to), (from, middle)]);
                    }
                    Err(Error::Chain(ChainError::Refused { .. } | ChainError::Transport { .. })) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(all)
    }
}

/// Returns the state that the registry should have for a tool, according to its row.
pub(super) fn state_of(row: Option<&ToolRow>) -> ToolState {
    match row {
        None => ToolState::NotFound,
        Some(row) if !row.is_active() => ToolState::Deregistered,
        Some(row) => ToolState::Present(ToolConfig {
            creator: row.creator,
            metadata_uri: row.metadata_uri.clone(),
            manifest_hash: row.manifest_hash,
            access_predicate: row.predicate.filter(|predicate| *predicate != Address::ZERO),
        }),
    }
}
