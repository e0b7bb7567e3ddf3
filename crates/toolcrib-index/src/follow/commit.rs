//! What a follower writes, under its lease: batches, what the chain says about itself, and the code of the registry.

use std::time::Duration;

use alloy_primitives::keccak256;
use tokio::time::Instant;
use toolcrib_store::database::Transaction;

use super::execute::{self, Batch, execute, signed};
use super::state::Marks;
use super::{ATTEMPTS, CODE_EVERY, Follower, stored};
use crate::Error;

impl Follower {
    /// Begins a transaction that only the holder of the lease can commit.
    pub(super) async fn begin(&self) -> Result<Transaction, Error> {
        let lease = self.lease.as_ref().ok_or(Error::LeaseLost)?;
        let mut transaction = self.index.database().begin().await?;
        lease.fence(&mut transaction).await?;
        Ok(transaction)
    }

    /// Takes a batch in.
    pub(super) async fn commit(&mut self, batch: Batch) -> Result<(), Error> {
        let mut attempt = 0;
        let executed = loop {
            let done = self.try_commit(&batch).await;
            attempt += 1;
            match done {
                Err(Error::Store(toolcrib_store::Error::Busy { .. })) if attempt < ATTEMPTS => {
                    tokio::time::sleep(Duration::from_millis(20 << attempt)).await;
                }
                done => break done?,
            }
        };
        self.renewed = Instant::now();
        let state = self.state.as_mut().ok_or(Error::LeaseLost)?;
        state.checkpoint = signed(batch.to)?;
        state.checkpoint_hash = Some(batch.hash);
        state.finalized = state.finalized.max(batch.marks.finalized);
        state.highest = executed.highest;
        state.predicates = executed.predicates;
        let checkpoint = state.checkpoint;
        self.progress.send_modify(|progress| {
            progress.checkpoint = checkpoint;
            progress.events += batch.logs.len() as u64;
            progress.ranges += 1;
        });
        Ok(())
    }

    async fn try_commit(&self, batch: &Batch) -> Result<execute::Executed, Error> {
        let state = self.state()?;
        let registry = self.registry.ok_or(Error::LeaseLost)?;
        let mut transaction = self.begin().await?;
        let executed = execute(&mut transaction, registry, state, batch, self.options.clock.now()).await?;
        transaction.commit().await?;
        Ok(executed)
    }

    /// Keeps what the chain says about itself, and the lease, when there is nothing else to write.
    pub(super) async fn mark(&mut self, marks: Marks) -> Result<(), Error> {
        let registry = self.registry.ok_or(Error::LeaseLost)?;
        let state = self.state()?;
        let finalized = state.finalized.max(marks.finalized);
        let is_old = self.renewed.elapsed() > Duration::from_secs(u64::try_from(self.options.lease_seconds / 3).unwrap_or(1));
        if finalized == state.finalized && !is_old {
            return Ok(());
        }
        let mut transaction = self.begin().await?;
        stored::mark(&mut transaction, registry, signed(marks.head)?, finalized).await?;
        transaction.commit().await?;
        self.state.as_mut().ok_or(Error::LeaseLost)?.finalized = finalized;
        self.renewed = Instant::now();
        Ok(())
    }

    /// Compares the registry's code with what it was.
    pub(super) async fn look_at_code(&mut self, checkpoint: i64) -> Result<(), Error> {
        if self.code_at.is_some_and(|at| checkpoint - at < CODE_EVERY) {
            return Ok(());
        }
        let registry = self.registry_id().await?;
        let (address, chain) = (self.source.registry().address(), self.source.chain().chain_id());
        let code = self.source.chain().code(address).await?;
        self.code_at = Some(checkpoint);
        if code.is_empty() {
            tracing::warn!(%address, chain, "there is no code at the address of the registry");
            return Ok(());
        }
        let hash = keccak256(&code);
        if stored::note_code(self.index.database(), registry, hash, self.options.clock.now()).await? {
            tracing::warn!(%address, chain, %hash, "registry code changed");
        }
        Ok(())
    }
}
