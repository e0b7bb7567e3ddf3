//! Reorganisations: which block is the last that is still part of the chain, and taking back what comes after it.

use alloy_primitives::B256;
use toolcrib_chain::rpc::Header;

use super::execute::signed;
use super::state::State;
use super::unwind::{Ancestor, unwind};
use super::{Follower, SAY_BEHIND, Step, stored};
use crate::Error;

impl Follower {
    /// The head is below the checkpoint: the node is behind, or the chain was taken back.
    pub(super) async fn shorter(&mut self, head: &Header) -> Result<Step, Error> {
        let number = signed(head.number)?;
        let ancestor = self.ancestor(number).await?;
        let nearest = self.candidates(number).await?.last().copied();
        if nearest.is_some_and(|(nearest, _)| ancestor.number < nearest) {
            return self.take_back(ancestor).await;
        }
        if self.options.shrinks {
            let before = signed(self.state()?.first_block)? - 1;
            let hash = Some(head.hash).filter(|_| number > before);
            return self.take_back(Ancestor { number: number.max(before), hash }).await;
        }
        let checkpoint = self.state()?.checkpoint;
        if self.progress.borrow().behind.is_multiple_of(SAY_BEHIND) {
            tracing::warn!(registry = %self.source.registry().address(), chain = self.source.chain().chain_id(), head = number,
                checkpoint, "RPC node is behind the index, waiting");
        }
        self.progress.send_modify(|progress| progress.behind += 1);
        Ok(Step::Idle)
    }

    /// Blocks whose hashes are kept, up to a number, in order.
    async fn candidates(&mut self, up_to: i64) -> Result<Vec<(i64, B256)>, Error> {
        let registry = self.registry_id().await?;
        let mut candidates = stored::block_hashes(self.index.database(), registry, &(0..=up_to)).await?;
        let state = self.state()?;
        if let Some(hash) = state.checkpoint_hash
            && state.checkpoint <= up_to
            && candidates.last().is_none_or(|(number, _)| *number < state.checkpoint)
        {
            candidates.push((state.checkpoint, hash));
        }
        Ok(candidates)
    }

    /// The last block that is kept and still part of the chain.
    pub(super) async fn ancestor(&mut self, up_to: i64) -> Result<Ancestor, Error> {
        let candidates = self.candidates(up_to).await?;
        // If a block is true, so is everything below it.
        let (mut low, mut high) = (0, candidates.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let (number, hash) = candidates[middle];
            if self.is_true(number, hash).await? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if low > 0 {
            let (number, hash) = candidates[low - 1];
            return Ok(Ancestor { number, hash: Some(hash) });
        }
        // Beyond the window events remember their blocks. Each step back is twice the one before.
        let mut below = candidates.first().map_or(up_to, |(number, _)| number - 1);
        let mut stride = 1;
        loop {
            let registry = self.registry_id().await?;
            let Some((number, hash)) = stored::last_event(self.index.database(), registry, below).await? else {
                return Ok(Ancestor { number: signed(self.state()?.first_block)? - 1, hash: None });
            };
            if self.is_true(number, hash).await? {
                return Ok(Ancestor { number, hash: Some(hash) });
            }
            below = number - stride;
            stride *= 2;
        }
    }

    async fn is_true(&self, number: i64, hash: B256) -> Result<bool, Error> {
        let number = u64::try_from(number).map_err(|_| Error::Corrupt { what: "number of a block" })?;
        Ok(self.source.block(number).await?.hash == hash)
    }

    /// Takes back everything after a block.
    pub(super) async fn take_back(&mut self, ancestor: Ancestor) -> Result<Step, Error> {
        let registry = self.registry_id().await?;
        tracing::warn!(registry = registry.0, from = self.state()?.checkpoint, to = ancestor.number, "chain reorg, rolling back");
        // Tools are folded again from their histories.
        self.prepare_reading().await?;
        while self.state()?.checkpoint > ancestor.number {
            let mut transaction = self.begin().await?;
            unwind(&mut transaction, registry, self.state()?, ancestor, self.options.clock.now()).await?;
            transaction.commit().await?;
            self.state = Some(State::load(self.index.database(), registry).await?);
        }
        let checkpoint = self.state()?.checkpoint;
        self.marks = None;
        self.progress.send_modify(|progress| {
            progress.reorganisations += 1;
            progress.checkpoint = checkpoint;
        });
        Ok(Step::Unwound)
    }
}
