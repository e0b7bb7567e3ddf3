//! Snapshots and reorgs.

use alloy_rpc_types_eth::Log;

use super::blocks::Tx;
use super::pool::Pool;
use super::state::Epoch;
use super::{Chain, Event, Rejection};
use crate::limits::MAX_SNAPSHOTS;

/// A saved point of the chain.
#[derive(Debug)]
pub(crate) struct Snapshot {
    number: u64,
    epoch: Epoch,
    offset: i64,
    pool: Pool,
}

impl Chain {
    /// Takes a snapshot.
    pub(crate) fn snapshot(&mut self) -> u64 {
        if self.snapshots.len() >= MAX_SNAPSHOTS {
            self.snapshots.pop_first();
        }
        let id = self.next_snapshot;
        self.next_snapshot += 1;
        let snapshot = Snapshot {
            number: self.head().header.number,
            epoch: self.state.epoch(),
            offset: self.clock.offset(),
            pool: self.pool.clone(),
        };
        self.snapshots.insert(id, snapshot);
        id
    }

    /// Reverts to a snapshot, and deletes it and every later one. Returns false if there is none with this id.
    pub(crate) fn revert(&mut self, id: u64) -> bool {
        let Some(snapshot) = self.snapshots.remove(&id) else { return false };
        self.snapshots.split_off(&id);
        self.roll_back(snapshot.number, snapshot.epoch);
        self.clock.set_offset(snapshot.offset);
        self.pool = snapshot.pool;
        true
    }

    /// Replaces the newest `depth` blocks by as many new ones with the same timestamps and other hashes. Each of `pairs`
    /// is a transaction and the index of its new block, from 0; all other transactions of the old blocks are dropped.
    pub(crate) fn reorg(&mut self, depth: u64, pairs: Vec<(Tx, u64)>) -> Result<(), Rejection> {
        let head = self.head().header.number;
        let Some(base) = head.checked_sub(depth) else {
            return Err(Rejection::Parameter(format!("reorg depth {depth} is more than the {head} blocks since genesis")));
        };
        if let Some((_, block)) = pairs.iter().find(|(_, block)| *block >= depth) {
            return Err(Rejection::Parameter(format!("block {block} of the reorg is not below its depth {depth}")));
        }
        if depth == 0 {
            return Ok(());
        }
        let times: Vec<u64> =
            (base + 1..=head).filter_map(|number| self.blocks.at(number)).map(|block| block.header.timestamp).collect();
        let epoch = self.blocks.at(base).map_or(0, |block| block.epoch);
        self.roll_back(base, epoch);
        let mut blocks: Vec<Vec<Tx>> = times.iter().map(|_| Vec::new()).collect();
        for (tx, block) in pairs {
            if let Some(list) = usize::try_from(block).ok().and_then(|block| blocks.get_mut(block)) {
                list.push(tx);
            }
        }
        for (timestamp, list) in times.into_iter().zip(blocks) {
            self.mine_at(timestamp, Some(list));
        }
        Ok(())
    }

    /// Removes the newest `depth` blocks without replacing them.
    pub(crate) fn rollback(&mut self, depth: u64) -> Result<(), Rejection> {
        let head = self.head().header.number;
        let Some(base) = head.checked_sub(depth) else {
            return Err(Rejection::Parameter(format!("rollback depth {depth} is more than the {head} blocks since genesis")));
        };
        if depth > 0 {
            let epoch = self.blocks.at(base).map_or(0, |block| block.epoch);
            self.roll_back(base, epoch);
        }
        Ok(())
    }

    fn roll_back(&mut self, number: u64, epoch: Epoch) {
        let removed = self.blocks.truncate(number);
        self.state.rewind(epoch);
        self.blocks.head_mut().epoch = epoch;
        self.snapshots.retain(|_, snapshot| snapshot.epoch <= epoch && snapshot.number <= number);
        self.forks += 1;
        self.revision += 1;
        let logs: Vec<Log> = removed
            .iter()
            .flat_map(|block| {
                let logs: Vec<_> = block.logs().collect();
                logs.into_iter().rev()
            })
            .map(|log| Log { removed: true, ..log.clone() })
            .collect();
        if !logs.is_empty() {
            self.filters.on_removed(&logs);
            self.events.push(Event::Removed { logs });
        }
    }
}
