//! Checks a block's logs against the bloom filter in its header.
//!
//! The filter covers the addresses and topics of the block's logs. A value that does not match it was certainly not logged. A
//! value that matches was probably logged: in a block with many logs, others may have set the same bits, and any contract can emit topics
//! that set them on purpose. So a match without the event is a reason to request the logs again, not a proof.

use alloy_primitives::{Address, B256, Bloom, BloomInput};

use super::logs::TOPICS;
use super::{ChainEvent, ChainLog, Registry, RegistryEvent};
use crate::rpc::Header;

/// Number of bits in a bloom filter.
const BLOOM_BITS: f64 = 2_048.0;

/// Number of bits that an address and a topic set.
const BITS_OF_EVENT: i32 = 6;

impl Registry {
    /// Whether the header's bloom filter matches an event that is not in `logs`: one of each kind from the registry, or an
    /// upgrade of one of
    /// `predicates`. Chains without filters have zeros, which match nothing.
    pub fn is_promised_more(&self, header: &Header, logs: &[ChainLog], predicates: &[Address]) -> bool {
        let bloom = &header.bloom;
        if bloom.is_zero() {
            return false;
        }
        let own = || logs.iter().filter(|log| log.block == header.number);
        let of_registry = has(bloom, self.address().as_slice())
            && TOPICS[..4].iter().any(|topic| has(bloom, topic.as_slice()) && own().all(|log| topic_of(log) != *topic));
        of_registry
            || (has(bloom, TOPICS[4].as_slice())
                && predicates.iter().any(|predicate| {
                    has(bloom, predicate.as_slice())
                        && own()
                            .all(|log| !matches!(&log.event, ChainEvent::Upgraded { predicate: other, .. } if other == predicate))
                }))
    }
}

impl Registry {
    /// Whether the header of its block rules a log out: the contract or the topic does not match the bloom filter.
    pub fn is_ruled_out(&self, header: &Header, log: &ChainLog) -> bool {
        let emitter = match &log.event {
            ChainEvent::Registry(_) => self.address(),
            ChainEvent::Upgraded { predicate, .. } => *predicate,
        };
        let has_both = || has(&header.bloom, emitter.as_slice()) && has(&header.bloom, topic_of(log).as_slice());
        !header.bloom.is_zero() && !has_both()
    }
}

impl Header {
    /// The probability that the bloom filter matches an event that was not emitted, unless another contract set the bits on purpose.
    pub fn chance_of_false_promise(&self) -> f64 {
        let set: u32 = self.bloom.iter().map(|byte| byte.count_ones()).sum();
        (f64::from(set) / BLOOM_BITS).powi(BITS_OF_EVENT)
    }
}

fn has(bloom: &Bloom, value: &[u8]) -> bool {
    bloom.contains_input(BloomInput::Raw(value))
}

const fn topic_of(log: &ChainLog) -> B256 {
    match &log.event {
        ChainEvent::Registry(RegistryEvent::Registered { .. }) => TOPICS[0],
        ChainEvent::Registry(RegistryEvent::MetadataUpdated { .. }) => TOPICS[1],
        ChainEvent::Registry(RegistryEvent::PredicateUpdated { .. }) => TOPICS[2],
        ChainEvent::Registry(RegistryEvent::Deregistered { .. }) => TOPICS[3],
        ChainEvent::Upgraded { .. } => TOPICS[4],
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::U256;

    use super::*;
    use crate::network::Network;
    use crate::rpc::{Chain, ChainConfig, NodeUrl};

    fn registry() -> Registry {
        let network = Network::find("base").expect("listed");
        let config = ChainConfig::new(network, vec![NodeUrl::parse("http://127.0.0.1:1").expect("a URL")]).expect("a node");
        Registry::new(Chain::lazy(config).expect("a client"), Address::repeat_byte(0x82))
    }

    fn header(values: &[&[u8]]) -> Header {
        let mut bloom = Bloom::ZERO;
        values.iter().for_each(|value| bloom.accrue(BloomInput::Raw(value)));
        Header { number: 7, hash: B256::repeat_byte(7), parent: B256::repeat_byte(6), time: 0, bloom }
    }

    fn log(event: ChainEvent) -> ChainLog {
        let (block_hash, transaction) = (B256::repeat_byte(7), B256::repeat_byte(1));
        ChainLog { event, block: 7, block_hash, transaction, log_index: 0, time: None }
    }

    #[tokio::test]
    async fn each_kind_of_event_is_promised_by_itself() {
        let (registry, predicate) = (registry(), Address::repeat_byte(0x50));
        let address = registry.address();
        let gone = log(ChainEvent::Registry(RegistryEvent::Deregistered { id: U256::from(1) }));
        let upgraded = log(ChainEvent::Upgraded { predicate, implementation: Address::ZERO });
        let two = header(&[address.as_slice(), TOPICS[3].as_slice(), TOPICS[1].as_slice()]);
        assert!(registry.is_promised_more(&two, std::slice::from_ref(&gone), &[]), "the update is missing");
        let one = header(&[address.as_slice(), TOPICS[3].as_slice()]);
        assert!(registry.is_promised_more(&one, &[], &[]));
        assert!(!registry.is_promised_more(&one, std::slice::from_ref(&gone), &[]));
        let other = header(&[predicate.as_slice(), TOPICS[4].as_slice()]);
        assert!(!registry.is_promised_more(&other, &[], &[]), "the predicate is not watched");
        assert!(registry.is_promised_more(&other, &[], &[predicate]));
        assert!(!registry.is_promised_more(&other, std::slice::from_ref(&upgraded), &[predicate]));
        assert!(registry.is_ruled_out(&other, &gone) && !registry.is_ruled_out(&one, &gone));
        assert!(!registry.is_ruled_out(&header(&[]), &gone));
        // Chains without filters.
        let none = header(&[]);
        assert!(!registry.is_promised_more(&none, &[], &[predicate]));
        assert!(one.chance_of_false_promise() < 1e-12);
        assert!(Header { bloom: Bloom::repeat_byte(0xff), ..one }.chance_of_false_promise() > 0.99);
    }
}
