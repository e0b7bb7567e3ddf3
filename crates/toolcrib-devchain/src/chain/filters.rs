//! Log queries, and installed filters that clients poll.

use std::collections::HashMap;

use alloy_eips::BlockNumberOrTag;
use alloy_primitives::{B256, U256};
use alloy_rpc_types_eth::{Filter, FilterBlockOption, Log};
use serde::Serialize;

use super::blocks::Mined;
use super::{Chain, Rejection};
use crate::limits::{MAX_FILTER_ALTERNATIVES, MAX_FILTER_BACKLOG, MAX_FILTERS, MAX_LOGS};

/// What a poll of a filter returns.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Changes {
    Hashes(Vec<B256>),
    Logs(Vec<Log>),
}

#[derive(Debug)]
enum Watched {
    Logs(Box<Filter>, Vec<Log>),
    Blocks(Vec<B256>),
    Pending(Vec<B256>),
}

#[derive(Debug)]
struct Installed {
    watched: Watched,
    polled: u64,
}

/// Installed filters.
#[derive(Debug, Default)]
pub(crate) struct Filters {
    installed: HashMap<U256, Installed>,
    next: u64,
    /// Number of polls so far, to find the filter that was polled longest ago.
    polls: u64,
}

impl Filters {
    fn install(&mut self, watched: Watched) -> U256 {
        if self.installed.len() >= MAX_FILTERS
            && let Some(stale) = self.installed.iter().min_by_key(|(_, filter)| filter.polled).map(|(id, _)| *id)
        {
            self.installed.remove(&stale);
        }
        self.next += 1;
        self.polls += 1;
        let id = U256::from(self.next);
        self.installed.insert(id, Installed { watched, polled: self.polls });
        id
    }

    pub(crate) fn on_block(&mut self, block: &Mined) {
        self.retain(|watched| match watched {
            Watched::Logs(filter, waiting) => {
                if filter.matches_bloom(block.header.logs_bloom) && filter.matches_block_range(block.header.number) {
                    waiting.extend(block.logs().filter(|log| filter.matches(&log.inner)).cloned());
                }
                waiting.len()
            }
            Watched::Blocks(waiting) => {
                waiting.push(block.hash);
                waiting.len()
            }
            Watched::Pending(_) => 0,
        });
    }

    pub(crate) fn on_removed(&mut self, logs: &[Log]) {
        self.retain(|watched| match watched {
            Watched::Logs(filter, waiting) => {
                waiting.extend(logs.iter().filter(|log| filter.matches(&log.inner)).cloned());
                waiting.len()
            }
            _ => 0,
        });
    }

    pub(crate) fn on_pending(&mut self, hash: B256) {
        self.retain(|watched| match watched {
            Watched::Pending(waiting) => {
                waiting.push(hash);
                waiting.len()
            }
            _ => 0,
        });
    }

    fn retain(&mut self, mut length: impl FnMut(&mut Watched) -> usize) {
        self.installed.retain(|_, filter| length(&mut filter.watched) <= MAX_FILTER_BACKLOG);
    }
}

impl Chain {
    /// The logs that match now.
    pub(crate) fn logs(&self, filter: &Filter) -> Result<Vec<Log>, Rejection> {
        check_filter(filter)?;
        let blocks = match filter.block_option {
            FilterBlockOption::AtBlockHash(hash) => std::slice::from_ref(self.blocks.by_hash(hash).ok_or(Rejection::NoBlock)?),
            FilterBlockOption::Range { from_block, to_block } => {
                let head = self.head().header.number;
                let number = |tag: Option<BlockNumberOrTag>| self.number(tag.unwrap_or(BlockNumberOrTag::Latest));
                let (from, to) = (number(from_block), number(to_block));
                if from > to {
                    return Err(Rejection::Range);
                }
                let (from, to) = (from, to.min(head));
                if from > to {
                    return Ok(Vec::new());
                }
                if to - from >= self.config.log_range {
                    let most = self.config.log_range;
                    return Err(Rejection::TooMuch(format!("query exceeds max block range {most}: from {from} to {to}")));
                }
                // Both are numbers of existing blocks.
                self.blocks.all().get(from as usize..=to as usize).unwrap_or_default()
            }
        };
        let mut found = Vec::new();
        for block in blocks {
            if !filter.matches_bloom(block.header.logs_bloom) {
                continue;
            }
            for log in block.logs().filter(|log| filter.matches(&log.inner)) {
                if found.len() == MAX_LOGS {
                    return Err(Rejection::TooMuch(format!("query returned more than {MAX_LOGS} results")));
                }
                found.push(log.clone());
            }
        }
        Ok(found)
    }

    pub(crate) fn install_log_filter(&mut self, filter: Filter) -> Result<U256, Rejection> {
        check_filter(&filter)?;
        if filter.block_option.is_block_hash() {
            return Err(Rejection::Parameter("a filter watches a range of blocks, not one block".into()));
        }
        Ok(self.filters.install(Watched::Logs(Box::new(self.resolved(filter)), Vec::new())))
    }

    pub(crate) fn install_block_filter(&mut self) -> U256 {
        self.filters.install(Watched::Blocks(Vec::new()))
    }

    pub(crate) fn install_pending_filter(&mut self) -> U256 {
        self.filters.install(Watched::Pending(Vec::new()))
    }

    pub(crate) fn uninstall_filter(&mut self, id: U256) -> bool {
        self.filters.installed.remove(&id).is_some()
    }

    /// The changes since the last poll. Logs of replaced blocks are returned again, marked as removed.
    pub(crate) fn filter_changes(&mut self, id: U256) -> Result<Changes, Rejection> {
        self.filters.polls += 1;
        let polls = self.filters.polls;
        let filter = self.filters.installed.get_mut(&id).ok_or(Rejection::NoFilter)?;
        filter.polled = polls;
        Ok(match &mut filter.watched {
            Watched::Logs(_, waiting) => Changes::Logs(std::mem::take(waiting)),
            Watched::Blocks(waiting) | Watched::Pending(waiting) => Changes::Hashes(std::mem::take(waiting)),
        })
    }

    /// All logs that a filter matches, whether polled before or not.
    pub(crate) fn filter_logs(&self, id: U256) -> Result<Vec<Log>, Rejection> {
        match self.filters.installed.get(&id).map(|filter| &filter.watched) {
            Some(Watched::Logs(filter, _)) => self.logs(filter),
            _ => Err(Rejection::NoFilter),
        }
    }

    /// Replaces tags by numbers, because their meaning changes with every block.
    fn resolved(&self, mut filter: Filter) -> Filter {
        if let FilterBlockOption::Range { from_block, to_block } = &mut filter.block_option {
            if let Some(tag) = from_block {
                *from_block = Some(BlockNumberOrTag::Number(self.number(*tag)));
            }
            if matches!(to_block, Some(BlockNumberOrTag::Latest | BlockNumberOrTag::Pending)) {
                *to_block = None;
            }
        }
        filter
    }
}

/// Rejects filters that would be costly to match.
pub(crate) fn check_filter(filter: &Filter) -> Result<(), Rejection> {
    let too_many =
        filter.address.len() > MAX_FILTER_ALTERNATIVES || filter.topics.iter().any(|topic| topic.len() > MAX_FILTER_ALTERNATIVES);
    if too_many {
        return Err(Rejection::TooMuch(format!("exceed max addresses or topics per search position: {MAX_FILTER_ALTERNATIVES}")));
    }
    Ok(())
}
