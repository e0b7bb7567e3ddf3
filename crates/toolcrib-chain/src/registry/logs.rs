//! Reads the logs of a range of blocks for followers of a registry: in one pass, with size limits, without alloy's intermediate structs.
//!
//! A log with an event's topic that does not decode is skipped and counted. It was emitted by a contract that is not the registry
//! it claims to be, and must not stop the follower.

use std::borrow::Cow;
use std::fmt;

use alloy_primitives::{Address, B256, Bloom, BloomInput, U256, hex};
use alloy_sol_types::SolEvent;
use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};
use serde_json::json;

use super::{Registry, RegistryEvent};
use crate::Error;
use crate::abi::IToolRegistry::{AccessPredicateUpdated, ToolDeregistered, ToolMetadataUpdated, ToolRegistered};
use crate::predicate::UPGRADED_TOPIC;
use crate::rpc::{Header, MAX_ANSWER_BYTES};

/// The requested topics: the registry's events, and last the upgrade of a predicate.
pub(super) const TOPICS: [B256; 5] = [
    ToolRegistered::SIGNATURE_HASH,
    ToolMetadataUpdated::SIGNATURE_HASH,
    AccessPredicateUpdated::SIGNATURE_HASH,
    ToolDeregistered::SIGNATURE_HASH,
    UPGRADED_TOPIC,
];

/// Maximum number of addresses in one filter. Public nodes allow at least this many.
pub const MAX_LOG_ADDRESSES: usize = 100;

/// Maximum number of topics of a log. The EVM has no instruction for more.
const MAX_TOPICS: usize = 4;

/// An event of the registry or of a predicate.
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

/// An event with its position on the chain and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainLog {
    /// The event.
    pub event: ChainEvent,
    /// The number of the block.
    pub block: u64,
    /// The hash of the block.
    pub block_hash: B256,
    /// The transaction.
    pub transaction: B256,
    /// The log's index in the block.
    pub log_index: u64,
    /// The block's Unix timestamp, if the node includes it in logs.
    pub time: Option<u64>,
}

/// The logs of a range of blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPage {
    /// The events, in order and without duplicates.
    pub logs: Vec<ChainLog>,
    /// Number of logs with an event's topic that do not decode.
    pub malformed: usize,
    /// Number of logs that were not requested: of other blocks or addresses, removed, or without a position. They indicate a faulty node.
    pub strays: usize,
    /// Number of logs that were duplicates or out of order. Each is used once, in order.
    pub repeats: usize,
}

/// The logs of a block, taken from its receipts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockLogs {
    /// The events.
    pub page: LogPage,
    /// The bloom filter of all logs in the receipts, including other contracts'.
    pub bloom: Bloom,
}

impl BlockLogs {
    /// Whether the receipts contain everything in the header's bloom filter. On some chains the receipts contain more than
    /// the header, which is not an error.
    pub fn is_whole(&self, header: &Header) -> bool {
        header.bloom.iter().zip(self.bloom.iter()).all(|(promised, given)| promised & !given == 0)
    }
}

/// What to read.
#[derive(Clone, Copy, Debug)]
pub struct LogQuery<'a> {
    /// The first block.
    pub from: u64,
    /// The last block.
    pub to: u64,
    /// Whether to read the registry's own events.
    pub registry: bool,
    /// Predicates whose upgrades to read. Registry and predicates are at most [`MAX_LOG_ADDRESSES`]; the rest is not requested.
    pub predicates: &'a [Address],
    /// Maximum size of the response.
    pub max_bytes: usize,
}

impl Registry {
    /// Returns the events of a range of blocks.
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

    /// Returns the events of the block with this hash. `None` if the node does not know the block.
    pub async fn logs_of(&self, header: &Header, predicates: &[Address], max_bytes: usize) -> Result<LogPage, Error> {
        let addresses: Vec<Address> =
            std::iter::once(self.address()).chain(predicates.iter().copied()).take(MAX_LOG_ADDRESSES).collect();
        let filter = json!([{ "address": addresses, "topics": [TOPICS], "blockHash": header.hash }]);
        let page: Wires = self.chain().request("eth_getLogs", filter, max_bytes).await.map_err(Error::from_rpc)?;
        Ok(self.sorted(page, header.number..=header.number, &addresses))
    }

    /// Returns the events of one tool in a range of blocks.
    pub async fn tool_logs(&self, id: U256, from: u64, to: u64, max_bytes: usize) -> Result<LogPage, Error> {
        let addresses = [self.address()];
        let filter = json!([{
            "address": addresses,
            "topics": [TOPICS[..4], B256::from(id)],
            "fromBlock": format!("{from:#x}"),
            "toBlock": format!("{to:#x}"),
        }]);
        let page: Wires = self.chain().request("eth_getLogs", filter, max_bytes).await.map_err(Error::from_rpc)?;
        let mut page = self.sorted(page, from..=to, &addresses);
        page.logs.retain(|log| matches!(&log.event, ChainEvent::Registry(event) if event.id() == id));
        Ok(page)
    }

    /// Returns the events of a block from its receipts, which nodes store apart from their log index. `None` if the node does
    /// not know the method or the block.
    pub async fn receipt_logs(&self, header: &Header, predicates: &[Address]) -> Result<Option<BlockLogs>, Error> {
        let addresses: Vec<Address> = std::iter::once(self.address()).chain(predicates.iter().copied()).collect();
        let answer: Result<Option<Receipts>, _> =
            self.chain().request("eth_getBlockReceipts", (header.hash,), MAX_ANSWER_BYTES).await;
        match answer.map_err(Error::from_rpc) {
            Ok(None) | Err(Error::Refused { .. }) => Ok(None),
            Ok(Some(Receipts { wires, bloom })) => {
                let mut page = self.sorted(wires, header.number..=header.number, &addresses);
                // Receipts contain the logs of all contracts.
                (page.strays, page.malformed) = (0, 0);
                page.logs.retain(|log| log.block_hash == header.hash);
                Ok(Some(BlockLogs { page, bloom }))
            }
            Err(error) => Err(error),
        }
    }

    fn sorted(&self, page: Wires, blocks: std::ops::RangeInclusive<u64>, addresses: &[Address]) -> LogPage {
        let Wires { mut logs, malformed, mut strays } = page;
        let mut repeats = 0;
        let all = logs.len();
        logs.retain(|(emitter, log)| {
            let is_own = match &log.event {
                ChainEvent::Registry(_) => *emitter == self.address(),
                ChainEvent::Upgraded { .. } => *emitter != self.address(),
            };
            // An upgrade of the registry itself is detected by its code.
            is_own && blocks.contains(&log.block) && addresses.contains(emitter)
        });
        strays += all - logs.len();
        let mut logs: Vec<ChainLog> = logs.into_iter().map(|(_, log)| log).collect();
        if !logs.is_sorted_by_key(|log| (log.block, log.log_index)) {
            logs.sort_by_key(|log| (log.block, log.log_index));
            repeats += 1;
        }
        let all = logs.len();
        logs.dedup_by_key(|log| (log.block, log.log_index));
        repeats += all - logs.len();
        LogPage { logs, malformed, strays, repeats }
    }
}

/// A node's response, decoded while it is read.
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
                        word(&text).ok_or_else(|| serde::de::Error::custom("a topic is not 32 bytes"))?;
                    topics.count += 1;
                }
                Ok(topics)
            }
        }
        deserializer.deserialize_seq(Words)
    }
}

/// A string, borrowed if possible.
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

/// The receipts of a block, decoded while they are read.
#[derive(Debug, Default)]
struct Receipts {
    wires: Wires,
    bloom: Bloom,
}

#[derive(serde::Deserialize)]
struct Receipt<'a> {
    #[serde(borrow, default)]
    logs: Vec<Wire<'a>>,
}

impl<'de> Deserialize<'de> for Receipts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Receipts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of receipts")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Receipts, A::Error> {
                let mut receipts = Receipts::default();
                let mut data = Vec::new();
                while let Some(receipt) = list.next_element::<Receipt<'de>>()? {
                    for wire in &receipt.logs {
                        receipts.accrue(wire);
                        if let Read::Log(log) = read(wire, &mut data) {
                            receipts.wires.logs.push(log);
                        }
                    }
                }
                Ok(receipts)
            }
        }
        deserializer.deserialize_seq(List)
    }
}

impl Receipts {
    fn accrue(&mut self, wire: &Wire<'_>) {
        if let Some(address) = fixed::<20>(&wire.address) {
            self.bloom.accrue(BloomInput::Raw(&address));
        }
        for topic in &wire.topics.words[..wire.topics.count] {
            self.bloom.accrue(BloomInput::Raw(topic.as_slice()));
        }
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

/// Parses a quantity. `None` if a database cannot store it.
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

    #[test]
    fn receipts_give_the_logs_of_all_and_their_bloom() {
        let log = |address: u8, topic: B256| {
            json!({ "address": Address::repeat_byte(address), "topics": [topic, B256::with_last_byte(7)], "data": "0x",
                "blockNumber": "0x5", "blockHash": B256::repeat_byte(5), "transactionHash": B256::repeat_byte(6), "logIndex": "0x0" })
        };
        let receipts = json!([{ "logs": [log(1, ToolDeregistered::SIGNATURE_HASH)] }, { "status": "0x0" }, { "logs": [log(9, B256::ZERO)] }]);
        let read: Receipts = serde_json::from_str(&receipts.to_string()).expect("receipts");
        assert_eq!(read.wires.logs.len(), 1);
        let mut bloom = Bloom::ZERO;
        for address in [1, 9] {
            bloom.accrue(BloomInput::Raw(Address::repeat_byte(address).as_slice()));
        }
        for topic in [ToolDeregistered::SIGNATURE_HASH, B256::ZERO, B256::with_last_byte(7)] {
            bloom.accrue(BloomInput::Raw(topic.as_slice()));
        }
        assert_eq!(read.bloom, bloom);
    }
}
