//! Backfill: old blocks in large ranges, several of which are read ahead of the one that is written.

use std::collections::VecDeque;

use alloy_primitives::{Address, B256};
use tokio::task::JoinHandle;

use super::audit::GapPosition;
use super::execute::Batch;
use super::source::{Fetched, merge};
use super::state::Marks;
use super::{Follower, PAGES_AHEAD};
use crate::Error;

impl Follower {
    /// Reads large ranges up to `end`, several ahead of the one that is being written.
    pub(super) async fn backfill(&mut self, end: u64, marks: Marks) -> Result<(), Error> {
        let mut queue: VecDeque<Slot> = VecDeque::from([Slot::Planned { from: self.state()?.next(), to: end }]);
        while !queue.is_empty() {
            self.start_ahead(&mut queue, marks)?;
            let Some(Slot::Running(mut task)) = queue.pop_front() else { continue };
            let fetched = task.join().await?;
            if fetched.to < task.to {
                queue.push_front(Slot::Planned { from: fetched.to + 1, to: task.to });
            }
            let events = fetched.page.logs.len() as u64;
            self.pace.learn(fetched.to - fetched.from + 1, events, fetched.refusals > 0);
            // While this one is written, the next are read.
            self.start_ahead(&mut queue, marks)?;
            let batch = self.assemble(fetched, marks).await?;
            self.commit(batch).await?;
            if self.since.elapsed() > self.options.without_indexes {
                self.prepare_reading().await?;
            }
        }
        Ok(())
    }

    fn start_ahead(&mut self, queue: &mut VecDeque<Slot>, marks: Marks) -> Result<(), Error> {
        let mut place = 0;
        while place < PAGES_AHEAD && place < queue.len() {
            if let Slot::Planned { from, to } = queue[place] {
                let last = to.min(from.saturating_add(self.pace.span() - 1));
                if last < to {
                    queue.insert(place + 1, Slot::Planned { from: last + 1, to });
                }
                queue[place] = Slot::Running(self.start(from, last, marks)?);
            }
            place += 1;
        }
        Ok(())
    }

    fn start(&mut self, from: u64, to: u64, marks: Marks) -> Result<Task, Error> {
        let (source, care) = (self.source.clone(), self.care());
        let predicates = self.state()?.predicates.clone();
        let handle = tokio::spawn(async move { source.fetch(from, to, predicates, marks.finalized, care).await });
        Ok(Task { to, handle })
    }

    /// Makes a page ready to be taken in: upgrades of predicates that became known meanwhile, times, and the hashes to remember.
    pub(super) async fn assemble(&mut self, fetched: Fetched, marks: Marks) -> Result<Batch, Error> {
        let Fetched { from, to, mut page, asked, last, first, refusals, findings } = fetched;
        self.take_note(findings, GapPosition::Past).await?;
        self.check_numbers(from, to, &mut page).await?;
        let state = self.state()?;
        if let (Some(first), Some(hash)) = (&first, state.checkpoint_hash)
            && first.parent != hash
        {
            return Err(Error::Inconsistent { what: "a block range does not begin where the previous one ended" });
        }
        let mut known = state.predicates.clone();
        known.learn(&page.logs);
        // Pages before this one may have named some since it was asked for.
        let unasked: Vec<Address> = known.all().iter().filter(|predicate| !asked.has(predicate)).copied().collect();
        if !unasked.is_empty() {
            let more = self.source.upgrades(from, to, &unasked).await?;
            merge(&mut page, more);
        }
        page.logs.retain(|log| known.counts(log));
        self.source.fill_times(&mut page.logs, &[]).await?;
        let finalized = u64::try_from(marks.finalized).unwrap_or_default();
        let mut blocks: Vec<(u64, B256)> =
            page.logs.iter().filter(|log| log.block > finalized).map(|log| (log.block, log.block_hash)).collect();
        blocks.dedup();
        if to > finalized && blocks.last().is_none_or(|(block, _)| *block < to) {
            blocks.push((to, last.hash));
        }
        if blocks.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(Error::Inconsistent { what: "a block has two hashes" });
        }
        self.progress.send_modify(|progress| {
            progress.refusals += refusals;
            progress.strays += page.strays as u64;
            progress.repeats += page.repeats as u64;
            progress.malformed += page.malformed as u64;
        });
        Ok(Batch { to, hash: last.hash, logs: page.logs, blocks, marks })
    }
}

/// A range of blocks in the queue of a backfill.
enum Slot {
    Planned { from: u64, to: u64 },
    Running(Task),
}

/// A range that is being read. Dropped, it is given up.
struct Task {
    to: u64,
    handle: JoinHandle<Result<Fetched, Error>>,
}

impl Task {
    async fn join(&mut self) -> Result<Fetched, Error> {
        match (&mut self.handle).await {
            Ok(fetched) => fetched,
            Err(_) => Err(Error::Inconsistent { what: "reading a block range ended early" }),
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.handle.abort();
    }
}
