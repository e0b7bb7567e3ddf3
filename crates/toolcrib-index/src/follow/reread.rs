//! Second reads: in parts, from other nodes, by block hash, and from receipts.
//!
//! A node that omits logs returns responses that look valid, so they are compared with sources that it cannot anticipate: the bloom
//! filters of headers, the same range split in two, and other nodes. A log that any of them returns is accepted.
//!
//! Receipts are the strongest evidence that every chain has: their logs, those of all contracts, must account for every bit of the
//! header's bloom filter. Verifying them against the receipts root of the header would need each chain's own encoding of receipts;
//! [`Source::settle`] is the place for it.

use alloy_primitives::{Address, B256, BloomInput};
use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use toolcrib_chain::Error as ChainError;
use toolcrib_chain::registry::{LogPage, MAX_LOG_ADDRESSES};
use toolcrib_chain::rpc::Header;

use super::source::{HEADERS_AT_ONCE, MAX_PAGE_BYTES, Source, merge};
use crate::Error;

/// The maximum number of nodes that are asked. More add no information.
const MAX_WITNESSES: usize = 3;

/// A bloom filter match with a higher probability of being a false positive does not stop the follower.
const MAX_CHANCE: f64 = 1e-6;

/// A filter with a higher false positive rate for an event carries no information: three of four bits are set.
const SATURATED: f64 = 0.178;

/// How carefully a range is read.
#[derive(Clone, Debug, Default)]
pub(super) struct Care {
    /// The number of headers whose bloom filters are compared, chosen at random.
    pub(super) headers: u64,
    /// Blocks whose headers are compared in any case: they were in doubt before.
    pub(super) blocks: Vec<u64>,
    /// Whether the range is read a second time.
    pub(super) second: bool,
    /// A range with this number of logs is read a second time: a node once truncated a response to it.
    pub(super) cap: Option<usize>,
}

impl Care {
    /// Returns the blocks of a range whose headers are compared, in order.
    pub(super) fn headers_of(&self, from: u64, to: u64) -> Result<Vec<u64>, Error> {
        let mut blocks = sample(from, to, self.headers)?;
        blocks.extend(self.blocks.iter().filter(|block| (from..=to).contains(block)));
        blocks.sort_unstable();
        blocks.dedup();
        Ok(blocks)
    }

    pub(super) fn reads_twice(&self, logs: usize) -> bool {
        self.second || self.cap.is_some_and(|cap| logs >= cap)
    }
}

/// The result of a second read.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Logs that one response had and another did not.
    pub(super) omitted: u64,
    /// Blocks whose headers match events that no node returns.
    pub(super) unkept: Vec<Unkept>,
}

impl Findings {
    pub(super) fn add(&mut self, other: Self) {
        self.omitted += other.omitted;
        self.unkept.extend(other.unkept);
    }
}

/// A block whose header matches an event that no node returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unkept {
    pub(super) block: u64,
    pub(super) hash: B256,
    /// Whether the node's own receipts do not account for the header.
    pub(super) is_proven: bool,
}

impl Source {
    /// Returns the chain as seen by each of its nodes, or the chain itself if it has only one.
    pub(super) fn witnesses(&self) -> Vec<Self> {
        match self.chain().node_count() {
            0 | 1 => vec![self.clone()],
            count => (0..count.min(MAX_WITNESSES)).map(|node| self.through(node)).collect(),
        }
    }

    /// Reads a range from every node, as a whole and in halves, and in smaller parts where these return more than the whole. Returns all
    /// logs, and how many of them were not in every response.
    pub(super) async fn again(&self, from: u64, to: u64, predicates: &[Address]) -> Result<(LogPage, u64), Error> {
        let mut all: Option<LogPage> = None;
        let (mut disputed, mut failed) = (0, None);
        for witness in self.witnesses() {
            match witness.in_parts(from, to, predicates).await {
                Ok((page, more)) => {
                    disputed += more;
                    match &mut all {
                        None => all = Some(page),
                        Some(all) => disputed += unite(all, page),
                    }
                }
                // A node that does not respond is not a contradiction.
                Err(error) => failed = Some(error),
            }
        }
        match (all, failed) {
            (Some(page), _) => Ok((page, disputed)),
            (None, Some(error)) => Err(error),
            (None, None) => Ok((LogPage::default(), 0)),
        }
    }

    async fn in_parts(&self, from: u64, to: u64, predicates: &[Address]) -> Result<(LogPage, u64), Error> {
        let mut all = self.whole(from, to, predicates).await?;
        let mut disputed = 0;
        let mut ranges = vec![(from, to)];
        while let Some((from, to)) = ranges.pop() {
            if from == to {
                continue;
            }
            let middle = from + (to - from) / 2;
            let mut halves = self.whole(from, middle, predicates).await?;
            merge(&mut halves, self.whole(middle + 1, to, predicates).await?);
            let known = all.logs.iter().filter(|log| (from..=to).contains(&log.block)).count() as u64;
            let given = halves.logs.len() as u64;
            let new = add(&mut all, halves);
            // Logs that only the halves had, and logs that only the whole had.
            disputed += new + known.saturating_sub(given - new);
            if new > 0 {
                ranges.extend([(from, middle), (middle + 1, to)]);
            }
        }
        Ok((all, disputed))
    }

    /// Reads all of a range, in as many pages as the node requires.
    async fn whole(&self, from: u64, to: u64, predicates: &[Address]) -> Result<LogPage, Error> {
        let mut page = LogPage::default();
        let mut next = from;
        while next <= to {
            let (end, more, _) = self.logs(next, to, predicates).await?;
            merge(&mut page, more);
            next = end + 1;
        }
        Ok(page)
    }

    /// Reads blocks again whose headers match events that are not in `page`, and adds the results.
    pub(super) async fn settle(&self, headers: &[Header], page: &mut LogPage, predicates: &[Address]) -> Result<Findings, Error> {
        let mut open = Vec::new();
        for header in headers {
            let is_saturated = header.chance_of_false_promise() > SATURATED;
            if !is_saturated && self.registry().is_promised_more(header, &page.logs, predicates) {
                let has: LogPage = LogPage {
                    logs: page.logs.iter().filter(|log| log.block == header.number).cloned().collect(),
                    ..LogPage::default()
                };
                open.push(self.settle_block(header, has, predicates).boxed());
            }
        }
        let settled: Vec<(LogPage, Option<Unkept>)> = stream::iter(open).buffered(HEADERS_AT_ONCE).try_collect().await?;
        let mut findings = Findings::default();
        for (more, unkept) in settled {
            findings.omitted += add(page, more);
            findings.unkept.extend(unkept);
        }
        Ok(findings)
    }

    /// Reads everything about one block: its logs by its hash, from each node, and then its receipts.
    async fn settle_block(
        &self,
        header: &Header,
        mut page: LogPage,
        predicates: &[Address],
    ) -> Result<(LogPage, Option<Unkept>), Error> {
        let promised = |predicate: &&Address| header.bloom.contains_input(BloomInput::Raw(predicate.as_slice()));
        let watched: Vec<Address> = predicates.iter().filter(promised).take(MAX_LOG_ADDRESSES - 1).copied().collect();
        let is_kept = |page: &LogPage| !self.registry().is_promised_more(header, &page.logs, &watched);
        for witness in self.witnesses() {
            match witness.registry().logs_of(header, &watched, MAX_PAGE_BYTES).await {
                Ok(more) => merge(&mut page, more),
                // The node does not know the block, or does not respond.
                Err(ChainError::Refused { .. } | ChainError::Transport { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            if is_kept(&page) {
                return Ok((page, None));
            }
        }
        let mut is_proven = false;
        for witness in self.witnesses() {
            match witness.registry().receipt_logs(header, &watched).await {
                Ok(Some(receipts)) => {
                    let is_whole = receipts.is_whole(header);
                    merge(&mut page, receipts.page);
                    if is_whole || is_kept(&page) {
                        return Ok((page, None));
                    }
                    is_proven = true;
                }
                Ok(None) | Err(ChainError::Refused { .. } | ChainError::Transport { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let is_doubtful = is_proven || header.chance_of_false_promise() < MAX_CHANCE;
        Ok((page, is_doubtful.then_some(Unkept { block: header.number, hash: header.hash, is_proven })))
    }
}

/// Adds logs to a page and returns how many were new.
pub(super) fn add(page: &mut LogPage, more: LogPage) -> u64 {
    let before = page.logs.len();
    merge(page, more);
    (page.logs.len() - before) as u64
}

/// Adds logs to a page and returns how many were not in both.
pub(super) fn unite(page: &mut LogPage, more: LogPage) -> u64 {
    let (had, given) = (page.logs.len(), more.logs.len());
    merge(page, more);
    (2 * page.logs.len()).saturating_sub(had + given) as u64
}

/// Returns random blocks of a range, in order; all of them if there are no more than `count`.
fn sample(from: u64, to: u64, count: u64) -> Result<Vec<u64>, Error> {
    let blocks = (to - from).saturating_add(1);
    if blocks <= count {
        return Ok((from..=to).collect());
    }
    let mut chosen = Vec::new();
    for _ in 0..count {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(|_| Error::Store(toolcrib_store::Error::Random))?;
        chosen.push(from + u64::from_be_bytes(bytes) % blocks);
    }
    chosen.sort_unstable();
    chosen.dedup();
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_lie_in_their_range() {
        assert_eq!(sample(5, 8, 4).expect("random"), [5, 6, 7, 8]);
        assert_eq!(sample(5, 8, u64::MAX).expect("random"), [5, 6, 7, 8]);
        assert_eq!(sample(0, u64::MAX, 3).expect("random").len(), 3);
        for _ in 0..50 {
            let blocks = sample(100, 199, 8).expect("random");
            assert!(!blocks.is_empty() && blocks.is_sorted() && blocks.iter().all(|block| (100..200).contains(block)));
        }
    }
}
