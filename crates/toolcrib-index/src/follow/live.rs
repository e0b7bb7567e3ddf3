//! The head of a chain: every header is read, and the blocks before are asked for again, since nodes are known to give logs late.

use std::collections::HashMap;

use alloy_primitives::{Address, B256};
use toolcrib_chain::registry::{ChainLog, LogPage};
use toolcrib_chain::rpc::Header;

use super::audit::GapPosition;
use super::execute::{Batch, signed};
use super::reread::Care;
use super::source::merge;
use super::state::Marks;
use super::unwind::Ancestor;
use super::{Follower, LIVE_BLOCKS, REREAD, Step, stored};
use crate::Error;

impl Follower {
    /// Takes in the next blocks near the head: with every header, whose parent must be the one before.
    pub(super) async fn live(&mut self, end: u64, marks: Marks) -> Result<Step, Error> {
        let state = self.state()?.clone();
        let from = state.next();
        let to = end.min(from + LIVE_BLOCKS - 1);
        let mut headers = self.source.blocks(from, to).await?;
        let mut parent = state.checkpoint_hash;
        for header in &headers {
            if parent.is_some_and(|parent| parent != header.parent) {
                return Err(Error::Inconsistent { what: "the parent of a block is not the previous block" });
            }
            parent = Some(header.hash);
        }
        let again = state.first_block.max(from.saturating_sub(REREAD));
        let predicates = state.predicates.all();
        let (to, mut page, refusals) = self.source.logs(again, to, predicates).await?;
        if to < from {
            // The blocks that are known already were too much together. Without them, then.
            return self.live_alone(from, marks).await;
        }
        headers.truncate((to - from + 1) as usize);
        let findings = self.source.settle(&headers, &mut page, predicates).await?;
        self.take_note(findings, GapPosition::Tip).await?;
        let old = page.logs.partition_point(|log| log.block < from);
        let mut fresh = LogPage { logs: page.logs.split_off(old), ..LogPage::default() };
        // Logs of another fork would look like logs that are missing.
        check_hashes(&headers, &fresh.logs)?;
        let Some(last) = headers.last() else { return Err(Error::Inconsistent { what: "the RPC node returned no block" }) };
        self.check_numbers(from, to, &mut fresh).await?;
        self.check_count(from, to, last.hash, &mut fresh).await?;
        page.logs.append(&mut fresh.logs);
        // What was missing below may have been added, and may have named predicates.
        let mut known = self.state()?.predicates.clone();
        known.learn(&page.logs);
        let unasked: Vec<Address> = known.all().iter().filter(|predicate| !state.predicates.has(predicate)).copied().collect();
        if !unasked.is_empty() {
            let more = self.source.upgrades(from, to, &unasked).await?;
            merge(&mut page, more);
            let findings = self.source.settle(&headers, &mut page, &unasked).await?;
            self.take_note(findings, GapPosition::Tip).await?;
        }
        page.logs.retain(|log| known.counts(log));
        let (old, mut new): (Vec<ChainLog>, Vec<ChainLog>) = page.logs.into_iter().partition(|log| log.block < from);
        check_hashes(&headers, &new)?;
        let compared = self.compare_again(again, from, &old).await?;
        // What is stored was on a chain that these blocks continue, if they still are the chain.
        if compared.withheld > 0 && self.source.block(last.number).await?.hash == last.hash {
            self.caught(compared.withheld, GapPosition::Tip).await?;
        }
        if let Some(block) = compared.first_late {
            tracing::warn!(registry = %self.source.registry().address(), block, "RPC node returned events that it did not return before");
            self.caught(compared.late, GapPosition::Tip).await?;
            return self.take_back(Ancestor { number: signed(block)? - 1, hash: None }).await;
        }
        self.source.fill_times(&mut new, &headers).await?;
        let finalized = u64::try_from(marks.finalized).unwrap_or_default();
        let blocks =
            headers.iter().filter(|header| header.number > finalized).map(|header| (header.number, header.hash)).collect();
        self.progress.send_modify(|progress| {
            progress.refusals += refusals;
            progress.strays += page.strays as u64;
            progress.repeats += page.repeats as u64;
            progress.malformed += page.malformed as u64;
        });
        self.commit(Batch { to, hash: last.hash, logs: new, blocks, marks }).await?;
        Ok(Step::Advanced)
    }

    /// One block near the head, without looking back.
    async fn live_alone(&mut self, block: u64, marks: Marks) -> Result<Step, Error> {
        let care = Care { headers: 1, ..Care::default() };
        let fetched = self.source.fetch(block, block, self.state()?.predicates.clone(), -1, care).await?;
        let batch = self.assemble(fetched, marks).await?;
        self.commit(batch).await?;
        Ok(Step::Advanced)
    }

    /// Compares the logs of blocks below the checkpoint, from `from` to the one before `end`, with those that are in the index. Another process
    /// that has the lease meanwhile may have written blocks from `end` on.
    async fn compare_again(&mut self, from: u64, end: u64, old: &[ChainLog]) -> Result<Compared, Error> {
        let (registry, blocks) = (self.registry_id().await?, signed(from)?..=signed(end)? - 1);
        let mut stored = stored::event_places(self.index.database(), registry, &blocks).await?;
        let mut compared = Compared::default();
        if !old.is_empty() {
            let hashes = stored::block_hashes(self.index.database(), registry, &blocks).await?;
            let hashes: HashMap<i64, B256> = hashes.into_iter().collect();
            for log in old {
                let (block, index) = (signed(log.block)?, signed(log.log_index)?);
                if hashes.get(&block).is_some_and(|hash| *hash != log.block_hash) {
                    return Err(Error::Inconsistent { what: "a log belongs to another block than the indexed one" });
                }
                if !stored.remove(&(block, index)) {
                    compared.first_late = compared.first_late.or(Some(log.block));
                    compared.late += 1;
                }
            }
        }
        compared.withheld = stored.len() as u64;
        Ok(compared)
    }
}

/// Checks that logs are of the blocks whose headers were read, which are consecutive.
fn check_hashes(headers: &[Header], logs: &[ChainLog]) -> Result<(), Error> {
    let first = headers.first().map_or(0, |header| header.number);
    let is_of = |log: &ChainLog| {
        let header = log.block.checked_sub(first).and_then(|place| headers.get(usize::try_from(place).ok()?));
        header.is_some_and(|header| header.hash == log.block_hash)
    };
    if logs.iter().all(is_of) {
        return Ok(());
    }
    Err(Error::Inconsistent { what: "a log belongs to another block than the header" })
}

/// How logs of blocks below the checkpoint differ from those that are in the index.
#[derive(Debug, Default)]
struct Compared {
    /// The first block with a log that is not in the index.
    first_late: Option<u64>,
    /// How many such logs there are.
    late: u64,
    /// Logs that are in the index and did not come back.
    withheld: u64,
}
