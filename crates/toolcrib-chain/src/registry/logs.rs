//! The logs of a range of blocks, for those who follow a registry: read in one pass, under caps, without alloy's structures in between.
//!
//! A log that bears the name of an event and does not fit it is left out and counted. It was emitted by a contract that is not the registry
//! it claims to be, and it must not stop whoever reads on.

use std::borrow::Cow;
use std::fmt;

use alloy_primitives::{Address, B256, Bloom, BloomInput, hex};
use alloy_sol_types::SolEvent;
use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};
use serde_json::json;

use super::{Registry, RegistryEvent};
use crate::Error;
use crate::abi::IToolRegistry::{AccessPredicateUpdated, ToolDeregistered, ToolMetadataUpdated, ToolRegistered};
use crate::predicate::UPGRADED_TOPIC;
use crate::rpc::Header;

/// The events that are asked for.
const TOPICS: [B256; 5] = [
    ToolRegistered::SIGNATURE_HASH,
    ToolMetadataUpdated::SIGNATURE_HASH,
    AccessPredicateUpdated::SIGNATURE_HASH,
    ToolDeregistered::SIGNATURE_HASH,
    UPGRADED_TOPIC,
];

/// The most addresses of one question. Public nodes allow at least so many.
pub const MAX_LOG_ADDRESSES: usize = 100;

/// The most topics of a log. The machine has no instruction for more.
const MAX_TOPICS: usize = 4;

/// Something that happened in the registry, or to a predicate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainEvent {
    /// An event of the registry.
    Registry(RegistryEvent),
    /// The code behind a predicate was replaced.
    Upgraded {
        /// The predicate.
        predicate: Address,
        /// Its new code.
        implementation: Address,
    },
}

/// An event, where it stands and when it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainLog {
    /// What happened.
    pub event: ChainEvent,
    /// The number of the block.
    pub block: u64,
    /// The hash of the block.
    pub block_hash: B256,
    /// The transaction.
    pub transaction: B256,
    /// The place among the logs of the block.
    pub log_index: u64,
    /// The time of the block in seconds since 1970, from nodes that send it along.
    pub time: Option<u64>,
}

/// The logs of a range of blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPage {
    /// What happened, in order, each once.
    pub logs: Vec<ChainLog>,
    /// Logs that bear the name of an event and do not fit it.
    pub malformed: usize,
    /// Logs that were not asked for: of other blocks or addresses, taken back, or without a place. A node that sends such is not well.
    pub strays: usize,
}

/// What to read.
#[derive(Clone, Copy, Debug)]
pub struct LogQuery<'a> {
    /// The first block.
    pub from: u64,
    /// The last block.
    pub to: u64,
    /// Whether the registry's own events are wanted.
    pub registry: bool,
    /// Predicates whose code may be replaced. With the registry at most [`MAX_LOG_ADDRESSES`]; the rest is not asked for.
    pub predicates: &'a [Address],
    /// The most bytes of answer.
    pub max_bytes: usize,
}

impl Registry {
    /// The events of a range of blocks.
    pub async fn logs(&self, query: &LogQuery<'_>) -> Result<LogPage, Error> {
        let own = query.registry.then_some(self.address());
        let addresses: Vec<Address> = own.into_iter().chain(query.predicates.iter().copied()).take(MAX_LOG_ADDRESSES).collect();
        let filter = json!([{
            "address": addresses,
            "topics": [TOPICS],
            "fromBlock": format!("{:#x}", query.from),
            "toBlock": format!("{:#x}", query.to),
        }]);
        let page: Wires = self.chain().request("eth_getLogs", filter, query.max_bytes).await.map_err(Error::from_rpc)?;
        Ok(self.sorted(page, query.from..=query.to, &addresses))
    }

    /// The events of the block with this hash. `None` when the node does not know the block.
    pub async fn logs_of(&self, header: &Header, predicates: &[Address], max_bytes: usize) -> Result<LogPage, Error> {
        let addresses: Vec<Address> =
            std::iter::once(self.address()).chain(predicates.iter().copied()).take(MAX_LOG_ADDRESSES).collect();
        let filter = json!([{ "address": addresses, "topics": [TOPICS], "blockHash": header.hash }]);
        let page: Wires = self.chain().request("eth_getLogs", filter, max_bytes).await.map_err(Error::from_rpc)?;
        Ok(self.sorted(page, header.number..=header.number, &addresses))
    }

    /// Whether a block can have events of this registry, going by its header. A no is certain, a yes is not.
    pub fn may_have_events(&self, header: &Header) -> bool {
        // Chains without blooms send zeroes for every block: no answer then is what a bloom of zeroes says, too.
        let has = |bloom: &Bloom, value: &[u8]| bloom.contains_input(BloomInput::Raw(value));
        has(&header.bloom, self.address().as_slice()) && TOPICS[..4].iter().any(|topic| has(&header.bloom, topic.as_slice()))
    }

    fn sorted(&self, page: Wires, blocks: std::ops::RangeInclusive<u64>, addresses: &[Address]) -> LogPage {
        let Wires { mut logs, malformed, mut strays } = page;
        let all = logs.len();
        logs.retain(|(emitter, log)| {
            let is_own = match &log.event {
                ChainEvent::Registry(_) => *emitter == self.address(),
                ChainEvent::Upgraded { .. } => *emitter != self.address(),
            };
            // The registry's own upgrade is seen by its code.
            is_own && blocks.contains(&log.block) && addresses.contains(emitter)
        });
        strays += all - logs.len();
        let mut logs: Vec<ChainLog> = logs.into_iter().map(|(_, log)| log).collect();
        if !logs.is_sorted_by_key(|log| (log.block, log.log_index)) {
            logs.sort_by_key(|log| (log.block, log.log_index));
        }
        logs.dedup_by_key(|log| (log.block, log.log_index));
        LogPage { logs, malformed, strays }
    }
}

/// The answer of a node, decoded while it is read.
#[derive(Debug, Default)]
struct Wires {
    logs: Vec<(Address, ChainLog)>,
    malformed: usize,
    strays: usize,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    #[serde(borrow)]
    address: Cow<'a, str>,
    topics: Topics,
    #[serde(borrow)]
    data: Cow<'a, str>,
    #[serde(borrow, default)]
    block_number: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    block_hash: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    transaction_hash: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    log_index: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    block_timestamp: Option<Cow<'a, str>>,
    #[serde(default)]
    removed: bool,
}

/// The topics of a log, without a list on the heap.
#[derive(Debug, Default)]
struct Topics {
    words: [B256; MAX_TOPICS],
    count: usize,
}

impl<'de> Deserialize<'de> for Topics {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl<'de> Visitor<'de> for Words {
            type Value = Topics;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("at most four topics")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Topics, A::Error> {
                let mut topics = Topics::default();
                while let Some(Text(text)) = list.next_element()? {
                    let slot = topics.words.get_mut(topics.count);
                    *slot.ok_or_else(|| serde::de::Error::custom("more than four topics"))? =
                        word(&text).ok_or_else(|| serde::de::Error::custom("a topic is no word"))?;
                    topics.count += 1;
                }
                Ok(topics)
            }
        }
        deserializer.deserialize_seq(Words)
    }
}

/// A text that is borrowed when it can be.
#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Wires {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Logs;
        impl<'de> Visitor<'de> for Logs {
            type Value = Wires;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of logs")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Wires, A::Error> {
                let mut wires = Wires::default();
                let mut data = Vec::new();
                while let Some(wire) = list.next_element::<Wire<'de>>()? {
                    match read(&wire, &mut data) {
                        Read::Log(log) => wires.logs.push(log),
                        Read::Malformed => wires.malformed += 1,
                        Read::Stray => wires.strays += 1,
                    }
                }
                Ok(wires)
            }
        }
        deserializer.deserialize_seq(Logs)
    }
}

#[expect(clippy::large_enum_variant, reason = "it lives for one statement")]
enum Read {
    Log((Address, ChainLog)),
    Malformed,
    Stray,
}

/// Decodes one log. `data` is reused from log to log.
fn read(wire: &Wire<'_>, data: &mut Vec<u8>) -> Read {
    let place = || {
        Some((
            fixed::<20>(&wire.address).map(Address::from)?,
            number(wire.block_number.as_deref()?)?,
            word(wire.block_hash.as_deref()?)?,
            word(wire.transaction_hash.as_deref()?)?,
            number(wire.log_index.as_deref()?)?,
        ))
    };
    let Some((emitter, block, block_hash, transaction, log_index)) = place() else { return Read::Stray };
    if wire.removed {
        return Read::Stray;
    }
    let Some(digits) = wire.data.strip_prefix("0x") else { return Read::Malformed };
    data.resize(digits.len() / 2, 0);
    if hex::decode_to_slice(digits, data).is_err() {
        return Read::Malformed;
    }
    let topics = &wire.topics.words[..wire.topics.count];
    let event = match topics {
        [UPGRADED_TOPIC, implementation] => {
            ChainEvent::Upgraded { predicate: emitter, implementation: Address::from_word(*implementation) }
        }
        [UPGRADED_TOPIC, ..] => return Read::Malformed,
        _ => match RegistryEvent::from_parts(topics, data) {
            None => return Read::Stray,
            Some(None) => return Read::Malformed,
            Some(Some(event)) => ChainEvent::Registry(event),
        },
    };
    let time = wire.block_timestamp.as_deref().and_then(number);
    Read::Log((emitter, ChainLog { event, block, block_hash, transaction, log_index, time }))
}

fn fixed<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    hex::decode_to_slice(text.strip_prefix("0x")?, &mut bytes).ok()?;
    Some(bytes)
}

fn word(text: &str) -> Option<B256> {
    fixed(text).map(B256::new)
}

/// A quantity. One that a database cannot hold is none.
fn number(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok().filter(|number| i64::try_from(*number).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_answers_are_counted_and_never_believed() {
        #[track_caller]
        fn check(log: serde_json::Value, expected: (usize, usize, usize)) {
            let wires: Wires = serde_json::from_str(&json!([log]).to_string()).expect("a list");
            assert_eq!((wires.logs.len(), wires.malformed, wires.strays), expected, "{log}");
        }
        let good = json!({
            "address": Address::repeat_byte(1), "topics": [ToolDeregistered::SIGNATURE_HASH, B256::with_last_byte(7)], "data": "0x",
            "blockNumber": "0x5", "blockHash": B256::repeat_byte(5), "transactionHash": B256::repeat_byte(6), "logIndex": "0x0",
            "transactionIndex": "0x0", "blockTimestamp": "0x65", "removed": false, "unknown": [{}],
        });
        let with = |key: &str, value: serde_json::Value| {
            let mut log = good.clone();
            log[key] = value;
            log
        };
        check(good.clone(), (1, 0, 0));
        check(with("removed", json!(true)), (0, 0, 1));
        check(with("blockNumber", json!(null)), (0, 0, 1));
        check(with("blockNumber", json!("0xffffffffffffffff")), (0, 0, 1));
        check(with("blockNumber", json!("7")), (0, 0, 1));
        check(with("address", json!("0x01")), (0, 0, 1));
        check(with("data", json!("0x0")), (0, 1, 0));
        check(with("data", json!("00")), (0, 1, 0));
        check(with("topics", json!([])), (0, 0, 1));
        check(with("topics", json!([B256::ZERO])), (0, 0, 1));
        check(with("topics", json!([ToolDeregistered::SIGNATURE_HASH])), (0, 1, 0));
        check(with("topics", json!([UPGRADED_TOPIC])), (0, 1, 0));
        check(with("topics", json!([UPGRADED_TOPIC, B256::with_last_byte(9)])), (1, 0, 0));
        check(with("topics", json!([ToolRegistered::SIGNATURE_HASH, B256::ZERO, B256::ZERO, B256::ZERO])), (0, 1, 0));
        let five = json!([with("topics", json!([B256::ZERO, B256::ZERO, B256::ZERO, B256::ZERO, B256::ZERO]))]);
        serde_json::from_str::<Wires>(&five.to_string()).expect_err("no log has five topics");
    }
}
