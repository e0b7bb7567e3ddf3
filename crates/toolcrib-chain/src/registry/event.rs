//! The registry's events as an enum, and as a stream of pages.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_provider::Provider;
use alloy_rpc_types_eth::{Filter, Log};
use alloy_sol_types::{SolEvent, SolValue};
use futures_util::stream::{Stream, try_unfold};

use super::Registry;
use crate::Error;
use crate::abi::IToolRegistry::{AccessPredicateUpdated, ToolDeregistered, ToolMetadataUpdated, ToolRegistered};
use crate::rpc::TransportFault;

/// Number of blocks of the first page. Public nodes allow at least this many.
pub const FIRST_PAGE: u64 = 1_000;

/// Number of blocks of the largest page. Pages grow while requests succeed.
pub const LARGEST_PAGE: u64 = 10_000;

/// An event of the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegistryEvent {
    /// A tool was registered.
    Registered {
        /// Its id.
        id: U256,
        /// Who registered it.
        creator: Address,
        /// Its predicate; zero for open access.
        predicate: Address,
        /// The URI of its manifest.
        uri: String,
        /// The hash of its manifest.
        hash: B256,
    },
    /// URI or hash changed.
    MetadataUpdated {
        /// The tool.
        id: U256,
        /// The new URI.
        uri: String,
        /// The new hash.
        hash: B256,
    },
    /// The predicate changed.
    PredicateUpdated {
        /// The tool.
        id: U256,
        /// The new predicate; zero for open access.
        predicate: Address,
    },
    /// The tool was deregistered.
    Deregistered {
        /// The tool.
        id: U256,
    },
}

impl RegistryEvent {
    /// Decodes a log. `None` if its topic is not one of the registry's; an error if it is, but the rest does not decode.
    pub fn decode(log: &Log) -> Result<Option<Self>, Error> {
        let malformed = || Error::EventMalformed {
            transaction: log.transaction_hash.unwrap_or_default(),
            index: log.log_index.unwrap_or_default(),
        };
        Self::from_parts(log.topics(), &log.data().data).map(|event| event.ok_or_else(malformed)).transpose()
    }

    /// Decodes topics and data. `None` if the topic is not one of the registry's; `Some(None)` if it is, but the rest does not decode.
    pub(super) fn from_parts(topics: &[B256], data: &[u8]) -> Option<Option<Self>> {
        Some(match *topics.first()? {
            ToolRegistered::SIGNATURE_HASH => registered(topics, data),
            ToolMetadataUpdated::SIGNATURE_HASH => match (topics, text_and_hash(data)) {
                ([_, id], Some((uri, hash))) => Some(Self::MetadataUpdated { id: (*id).into(), uri, hash }),
                _ => None,
            },
            AccessPredicateUpdated::SIGNATURE_HASH => AccessPredicateUpdated::decode_raw_log_validate(topics, data)
                .ok()
                .map(|event| Self::PredicateUpdated { id: event.toolId, predicate: event.newPredicate }),
            ToolDeregistered::SIGNATURE_HASH => {
                ToolDeregistered::decode_raw_log_validate(topics, data).ok().map(|event| Self::Deregistered { id: event.toolId })
            }
            _ => return None,
        })
    }

    /// The id of the tool.
    pub const fn id(&self) -> U256 {
        match self {
            Self::Registered { id, .. }
            | Self::MetadataUpdated { id, .. }
            | Self::PredicateUpdated { id, .. }
            | Self::Deregistered { id } => *id,
        }
    }
}

/// Decodes a registration.
fn registered(topics: &[B256], data: &[u8]) -> Option<RegistryEvent> {
    let [_, id, creator, predicate] = topics else { return None };
    let account = |word: &B256| word[..12].iter().all(|&byte| byte == 0).then(|| Address::from_word(*word));
    let (uri, hash) = text_and_hash(data)?;
    Some(RegistryEvent::Registered { id: (*id).into(), creator: account(creator)?, predicate: account(predicate)?, uri, hash })
}

/// The URI and the hash of an event. The URI is decoded as bytes: contracts accept any, and one entry that is not UTF-8 must not
/// make the log unreadable.
fn text_and_hash(data: &[u8]) -> Option<(String, B256)> {
    let (uri, hash) = <(Bytes, B256)>::abi_decode_params_validate(data).ok()?;
    Some((super::text(&uri), hash))
}

/// An event and its position on the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedEvent {
    /// The event.
    pub event: RegistryEvent,
    /// The number of the block.
    pub block: u64,
    /// The hash of the block.
    pub block_hash: B256,
    /// The transaction.
    pub transaction: B256,
    /// The log's index in the block.
    pub log_index: u64,
}

/// The events of a range of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPage {
    /// The first block.
    pub from: u64,
    /// The last block.
    pub to: u64,
    /// The events, in order.
    pub events: Vec<LoggedEvent>,
}

/// Which events to read.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventFilter {
    /// Only this tool.
    pub id: Option<U256>,
    /// Only registrations by this account.
    pub creator: Option<Address>,
}

impl Registry {
    /// Returns the events from block `from` to block `to`, both included, page by page. If a node refuses a page as too large, it is
    /// requested again in halves.
    pub fn events(&self, from: u64, to: u64, wanted: EventFilter) -> impl Stream<Item = Result<EventPage, Error>> + Send + '_ {
        try_unfold((from, FIRST_PAGE), move |(from, page)| async move {
            if from > to {
                return Ok(None);
            }
            let mut page = page;
            loop {
                let end = to.min(from.saturating_add(page - 1));
                match self.page(from, end, wanted).await {
                    Ok(events) => {
                        let next = (end.saturating_add(1), (page * 2).min(LARGEST_PAGE));
                        return Ok(Some((EventPage { from, to: end, events }, next)));
                    }
                    Err(Error::Refused { .. } | Error::Transport { fault: TransportFault::TooLarge { .. }, .. }) if page > 1 => {
                        page /= 2
                    }
                    Err(error) => return Err(error),
                }
            }
        })
    }

    /// When a tool was registered: the block, and its Unix timestamp. Makes one request over all blocks, which many public
    /// nodes refuse; event followers know the time already. `None` if the node returns no registration.
    pub async fn registered_at(&self, id: U256) -> Result<Option<(u64, u64)>, Error> {
        let wanted = EventFilter { id: Some(id), creator: None };
        let head = self.chain().block_number().await?;
        let events = self.page(0, head, wanted).await?;
        let Some(block) = events.iter().find_map(|logged| match logged.event {
            RegistryEvent::Registered { .. } => Some(logged.block),
            _ => None,
        }) else {
            return Ok(None);
        };
        let found = self.chain().provider().get_block_by_number(block.into()).await.map_err(Error::from_rpc)?;
        Ok(found.map(|found| (block, found.header.timestamp)))
    }

    async fn page(&self, from: u64, to: u64, wanted: EventFilter) -> Result<Vec<LoggedEvent>, Error> {
        let mut filter = Filter::new().address(self.address()).from_block(from).to_block(to);
        if let Some(id) = wanted.id {
            filter = filter.topic1(B256::from(id));
        }
        if let Some(creator) = wanted.creator {
            filter = filter.event_signature(ToolRegistered::SIGNATURE_HASH).topic2(creator.into_word());
        }
        let logs = self.chain().provider().get_logs(&filter).await.map_err(Error::from_rpc)?;
        let mut events = Vec::with_capacity(logs.len());
        for log in logs {
            // Drop other contracts' logs and removed logs.
            if log.address() != self.address() || log.removed {
                continue;
            }
            let (Some(block), Some(block_hash), Some(transaction), Some(log_index)) =
                (log.block_number, log.block_hash, log.transaction_hash, log.log_index)
            else {
                continue;
            };
            if !(from..=to).contains(&block) {
                continue;
            }
            if let Some(event) = RegistryEvent::decode(&log)? {
                events.push(LoggedEvent { event, block, block_hash, transaction, log_index });
            }
        }
        events.sort_by_key(|event| (event.block, event.log_index));
        Ok(events)
    }
}
