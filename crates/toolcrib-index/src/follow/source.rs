//! Reads a chain for a follower: ranges of logs that shrink when a node rejects them as too large, headers, and the times of blocks.

use std::collections::BTreeMap;
use std::time::Duration;

use alloy_primitives::{Address, B256};
use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use toolcrib_chain::Error as ChainError;
use toolcrib_chain::registry::{ChainLog, LogPage, LogQuery, MAX_LOG_ADDRESSES, Registry};
use toolcrib_chain::rpc::{Chain, Header, TransportFault};

use super::reread::{Care, Findings, unite};
use super::state::Predicates;
use crate::Error;

/// The maximum size of one page of logs in bytes. A response is in memory twice while it is parsed, and several are in progress at once.
pub(super) const MAX_PAGE_BYTES: usize = 6 << 20;

/// Headers requested at once.
pub(super) const HEADERS_AT_ONCE: usize = 8;

/// Pauses before a missing block is requested again. Longer waits are left to the caller.
const MISSING_PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(100)];

/// Reads a registry's chain.
#[derive(Clone, Debug)]
pub(super) struct Source {
    registry: Registry,
}

/// The logs of a range, or of the first part of it.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) from: u64,
    /// The actual last block: nodes do not always return as much as was requested.
    pub(super) to: u64,
    pub(super) page: LogPage,
    /// The predicates in the request: those known before, and those that the page itself names.
    pub(super) asked: Predicates,
    /// The header of the last block, read after the logs.
    pub(super) last: Header,
    /// The header of the first block, if it may still be reorganised.
    pub(super) first: Option<Header>,
    /// How often a node rejected the range as too large.
    pub(super) refusals: u64,
    /// The findings of a second read of the range.
    pub(super) findings: Findings,
}

impl Source {
    pub(super) const fn new(registry: Registry) -> Self {
        Self { registry }
    }

    pub(super) const fn chain(&self) -> &Chain {
        self.registry.chain()
    }

    pub(super) const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the same chain through one of its nodes.
    pub(super) fn through(&self, node: usize) -> Self {
        Self { registry: self.registry.through(node) }
    }

    /// Reads a page of logs that begins at `from`, with the hash of its last block.
    pub(super) async fn fetch(
        &self,
        from: u64,
        to: u64,
        mut asked: Predicates,
        finalized: i64,
        care: Care,
    ) -> Result<Fetched, Error> {
        let (to, mut page, refusals) = self.logs(from, to, asked.all()).await?;
        let mut findings = Findings::default();
        if care.reads_twice(page.logs.len()) {
            let (again, disputed) = self.again(from, to, asked.all()).await?;
            findings.omitted += unite(&mut page, again).max(disputed);
        }
        let known = asked.all().len();
        asked.learn(&page.logs);
        let named = self.upgrades(from, to, &asked.all()[known..]).await?;
        merge(&mut page, named);
        let headers = self.headers(care.headers_of(from, to)?).await?;
        findings.add(self.settle(&headers, &mut page, asked.all()).await?);
        // Read after the logs: the node must still have what it has just returned logs for.
        let last = self.block(to).await?;
        let is_final = i64::try_from(from).is_ok_and(|from| from <= finalized);
        let first = match is_final {
            true => None,
            false if from == to => Some(last.clone()),
            false => Some(self.block(from).await?),
        };
        for header in first.iter().chain([&last]) {
            if page.logs.iter().any(|log| log.block == header.number && log.block_hash != header.hash) {
                return Err(Error::Inconsistent { what: "a log belongs to another block than the header" });
            }
        }
        Ok(Fetched { from, to, page, asked, last, first, refusals, findings })
    }

    /// Reads the logs from `from` to `to`, or to an earlier block if the node rejects the range as too large. Returns that block, and the
    /// number of rejections.
    pub(super) async fn logs(&self, from: u64, to: u64, predicates: &[Address]) -> Result<(u64, LogPage, u64), Error> {
        let mut end = to;
        let mut refusals = 0;
        loop {
            match self.all(from, end, predicates, MAX_PAGE_BYTES).await {
                Ok(page) => return Ok((end, page, refusals)),
                Err(error) if !is_too_much(&error) => return Err(error),
                Err(_) if end > from => end = from + (end - from) / 2,
                // A single block. Logs of other contracts must not keep the follower from reading the registry.
                Err(_) => return Ok((end, self.crowded(from, predicates).await?, refusals + 1)),
            }
            refusals += 1;
        }
    }

    async fn all(&self, from: u64, to: u64, predicates: &[Address], max_bytes: usize) -> Result<LogPage, Error> {
        let (first, rest) = predicates.split_at(predicates.len().min(MAX_LOG_ADDRESSES - 1));
        let mut page = self.registry.logs(&LogQuery { from, to, registry: true, predicates: first, max_bytes }).await?;
        for predicates in rest.chunks(MAX_LOG_ADDRESSES) {
            let more = self.registry.logs(&LogQuery { from, to, registry: false, predicates, max_bytes }).await?;
            merge(&mut page, more);
        }
        Ok(page)
    }

    /// Reads the logs of a block that has too many: the registry's own with the whole size limit, and each predicate's if they fit.
    async fn crowded(&self, block: u64, predicates: &[Address]) -> Result<LogPage, Error> {
        let mut page = self.all(block, block, &[], usize::MAX).await?;
        for predicate in predicates {
            let query = LogQuery {
                from: block,
                to: block,
                registry: false,
                predicates: std::slice::from_ref(predicate),
                max_bytes: MAX_PAGE_BYTES,
            };
            match self.registry.logs(&query).await.map_err(Error::from) {
                Ok(more) => merge(&mut page, more),
                Err(error) if is_too_much(&error) => {
                    tracing::warn!(block, %predicate, "predicate emits too many logs, its upgrades in this block are skipped");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(page)
    }

    /// Reads upgrades of predicates that became known after a range was requested.
    pub(super) async fn upgrades(&self, from: u64, to: u64, predicates: &[Address]) -> Result<LogPage, Error> {
        let mut page = LogPage::default();
        for predicates in predicates.chunks(MAX_LOG_ADDRESSES) {
            let mut ranges = vec![(from, to)];
            while let Some((from, to)) = ranges.pop() {
                let query = LogQuery { from, to, registry: false, predicates, max_bytes: MAX_PAGE_BYTES };
                match self.registry.logs(&query).await.map_err(Error::from) {
                    Ok(more) => merge(&mut page, more),
                    Err(error) if is_too_much(&error) && to > from => {
                        let middle = from + (to - from) / 2;
                        ranges.push((middle + 1, to));
                        ranges.push((from, middle));
                    }
                    Err(error) if is_too_much(&error) => {
                        tracing::warn!(block = from, "predicates emit too many logs, their upgrades in this block are skipped");
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(page)
    }

    /// Reads the header of a block that the chain must have. One of several nodes may be behind, so it retries to let another respond.
    pub(super) async fn block(&self, number: u64) -> Result<Header, Error> {
        for pause in MISSING_PAUSES {
            if let Some(header) = self.chain().header(number).await? {
                return Ok(header);
            }
            tokio::time::sleep(pause).await;
        }
        self.chain().header(number).await?.ok_or(Error::Inconsistent { what: "a block below the chain head is missing" })
    }

    /// Reads the headers of a short range.
    pub(super) async fn blocks(&self, from: u64, to: u64) -> Result<Vec<Header>, Error> {
        self.headers((from..=to).collect()).await
    }

    pub(super) async fn headers(&self, numbers: Vec<u64>) -> Result<Vec<Header>, Error> {
        let asked: Vec<_> = numbers.into_iter().map(|number| self.block(number).boxed()).collect();
        stream::iter(asked).buffered(HEADERS_AT_ONCE).try_collect().await
    }

    /// Sets the time of every log: from the log itself, or from the header of its block, which is read once.
    pub(super) async fn fill_times(&self, logs: &mut [ChainLog], known: &[Header]) -> Result<(), Error> {
        let mut missing: BTreeMap<u64, B256> = BTreeMap::new();
        for log in logs.iter_mut().filter(|log| log.time.is_none()) {
            match known.iter().find(|header| header.hash == log.block_hash) {
                Some(header) => log.time = Some(header.time),
                None => drop(missing.insert(log.block, log.block_hash)),
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let headers = self.headers(missing.keys().copied().collect()).await?;
        let times: BTreeMap<B256, u64> = headers.into_iter().map(|header| (header.hash, header.time)).collect();
        for log in logs.iter_mut().filter(|log| log.time.is_none()) {
            let time = times.get(&log.block_hash);
            log.time = Some(*time.ok_or(Error::Inconsistent { what: "a log belongs to another block than the header" })?);
        }
        Ok(())
    }
}

pub(super) fn merge(page: &mut LogPage, more: LogPage) {
    page.malformed += more.malformed;
    page.strays += more.strays;
    page.repeats += more.repeats;
    if more.logs.is_empty() {
        return;
    }
    page.logs.extend(more.logs);
    page.logs.sort_by_key(|log| (log.block, log.log_index));
    page.logs.dedup_by_key(|log| (log.block, log.log_index));
}

/// Whether a smaller request may succeed. Nodes have no common error for this, so every refusal counts.
pub(super) fn is_too_much(error: &Error) -> bool {
    matches!(
        error,
        Error::Chain(
            ChainError::Refused { .. }
                | ChainError::Transport {
                    fault: TransportFault::TooLarge { .. } | TransportFault::Timeout | TransportFault::Status(400..=499),
                    ..
                }
        )
    )
}
