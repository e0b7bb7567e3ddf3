//! A chain that the test scripts: any blocks, any events, any fork, and faults on demand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use alloy_primitives::{Address, B256, Bloom, BloomInput, Bytes, U256, keccak256};
use alloy_sol_types::{SolCall, SolError, SolEvent, SolValue};
use serde_json::{Value, json};
use toolcrib_chain::abi::IToolRegistry::{
    AccessPredicateUpdated, ToolConfig, ToolDeregistered, ToolIsDeregistered, ToolMetadataUpdated, ToolNotFound, ToolRegistered,
    getToolConfigCall, toolCountCall,
};
use toolcrib_chain::predicate::UPGRADED_TOPIC;
use toolcrib_chain::rpc::Chain;

use toolcrib_testkit::nodes::fake::{FakeNode, Reply, config};

pub(crate) const REGISTRY: Address = Address::repeat_byte(0x82);

/// An event that a contract emits.
#[derive(Clone, Debug)]
pub(crate) struct Emitted {
    pub(crate) address: Address,
    pub(crate) topics: Vec<B256>,
    pub(crate) data: Bytes,
}

pub(crate) fn registered(id: u64, creator: Address, predicate: Address, uri: &str, hash: B256) -> Emitted {
    let topics = vec![ToolRegistered::SIGNATURE_HASH, B256::from(U256::from(id)), creator.into_word(), predicate.into_word()];
    Emitted { address: REGISTRY, topics, data: (uri.to_owned(), hash).abi_encode_params().into() }
}

pub(crate) fn updated(id: u64, uri: &str, hash: B256) -> Emitted {
    let topics = vec![ToolMetadataUpdated::SIGNATURE_HASH, B256::from(U256::from(id))];
    Emitted { address: REGISTRY, topics, data: (uri.to_owned(), hash).abi_encode_params().into() }
}

pub(crate) fn gated(id: u64, predicate: Address) -> Emitted {
    let topics = vec![AccessPredicateUpdated::SIGNATURE_HASH, B256::from(U256::from(id)), predicate.into_word()];
    Emitted { address: REGISTRY, topics, data: Bytes::new() }
}

pub(crate) fn deregistered(id: u64) -> Emitted {
    let topics = vec![ToolDeregistered::SIGNATURE_HASH, B256::from(U256::from(id))];
    Emitted { address: REGISTRY, topics, data: Bytes::new() }
}

pub(crate) fn upgraded(predicate: Address, implementation: Address) -> Emitted {
    Emitted { address: predicate, topics: vec![UPGRADED_TOPIC, implementation.into_word()], data: Bytes::new() }
}

#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) hash: B256,
    pub(crate) parent: B256,
    pub(crate) time: u64,
    pub(crate) logs: Vec<Emitted>,
}

pub(crate) type Fault = Arc<dyn Fn(&World, &str, &Value) -> Option<Reply> + Send + Sync>;

/// A change of the chain when a method is called, before the response.
pub(crate) type Turn = Box<dyn FnMut(&mut World, &str) + Send>;

/// The chain as the node sees it.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) blocks: Vec<Block>,
    /// The finality depth in blocks below the head; `None` for a node without finality.
    pub(crate) finalized: Option<u64>,
    /// Whether logs come with the time of their block.
    pub(crate) gives_time: bool,
    /// Whether headers have no bloom.
    pub(crate) no_bloom: bool,
    /// How often each method was called.
    pub(crate) asked: BTreeMap<String, u64>,
    pub(crate) fault: Option<Fault>,
    pub(crate) turn: Option<Turn>,
    /// Logs that a fault omitted, counted each time.
    pub(crate) hidden: AtomicU64,
    /// Logs that a fault has returned: hash of the block, and index.
    pub(crate) given: Mutex<BTreeSet<(String, String)>>,
    salt: u64,
}

impl World {
    pub(crate) fn grow(&mut self, logs: Vec<Emitted>) {
        let parent = self.blocks.last().map(|block| block.hash).unwrap_or_default();
        self.salt += 1;
        let number = self.blocks.len() as u64;
        let hash = keccak256((parent, U256::from(number), U256::from(self.salt)).abi_encode());
        self.blocks.push(Block { hash, parent, time: 1_700_000_000 + 2 * number, logs });
    }

    /// Removes the newest blocks.
    pub(crate) fn cut(&mut self, depth: usize) {
        let keep = self.blocks.len().saturating_sub(depth).max(1);
        self.blocks.truncate(keep);
    }

    pub(crate) fn head(&self) -> u64 {
        self.blocks.len() as u64 - 1
    }

    pub(crate) fn header(&self, number: u64) -> Value {
        let Some(block) = self.blocks.get(number as usize) else { return Value::Null };
        let mut bloom = Bloom::ZERO;
        if !self.no_bloom {
            for log in &block.logs {
                bloom.accrue(BloomInput::Raw(log.address.as_slice()));
                log.topics.iter().for_each(|topic| bloom.accrue(BloomInput::Raw(topic.as_slice())));
            }
        }
        json!({
            "number": format!("{number:#x}"), "hash": block.hash, "parentHash": block.parent,
            "timestamp": format!("{:#x}", block.time), "logsBloom": bloom, "transactions": [],
        })
    }

    pub(crate) fn logs(&self, number: u64, addresses: &[Address]) -> Vec<Value> {
        let Some(block) = self.blocks.get(number as usize) else { return Vec::new() };
        let mut found = Vec::new();
        for (index, log) in block.logs.iter().enumerate() {
            if !addresses.contains(&log.address) {
                continue;
            }
            let mut value = json!({
                "address": log.address, "topics": log.topics, "data": log.data, "blockNumber": format!("{number:#x}"),
                "blockHash": block.hash, "transactionHash": keccak256((block.hash, U256::from(index)).abi_encode()),
                "transactionIndex": "0x0", "logIndex": format!("{index:#x}"), "removed": false,
            });
            if self.gives_time {
                value["blockTimestamp"] = json!(format!("{:#x}", block.time));
            }
            found.push(value);
        }
        found
    }

    fn answer(&mut self, method: &str, params: &Value) -> Reply {
        *self.asked.entry(method.to_owned()).or_default() += 1;
        if let Some(mut turn) = self.turn.take() {
            turn(self, method);
            self.turn = Some(turn);
        }
        if let Some(fault) = self.fault.clone()
            && let Some(reply) = fault(self, method, params)
        {
            return reply;
        }
        match method {
            "eth_blockNumber" => Reply::Result(json!(format!("{:#x}", self.head()))),
            "eth_getCode" => Reply::Result(json!("0x6001")),
            "eth_getBlockByNumber" => match params[0].as_str().expect("a block") {
                "latest" => Reply::Result(self.header(self.head())),
                "finalized" => match self.finalized {
                    Some(depth) => Reply::Result(self.header(self.head().saturating_sub(depth))),
                    None => Reply::Error(-32_602, "unknown block tag".to_owned(), Value::Null),
                },
                number => Reply::Result(self.header(quantity(number))),
            },
            "eth_call" => self.call(params),
            "eth_getBlockReceipts" => {
                let number = self.blocks.iter().position(|block| params[0] == json!(block.hash));
                let logs: Option<Vec<Value>> = number.map(|number| {
                    let everybody: Vec<Address> = self.blocks[number].logs.iter().map(|log| log.address).collect();
                    self.logs(number as u64, &everybody)
                });
                Reply::Result(logs.map_or(Value::Null, |logs| json!([{ "logs": logs }])))
            }
            "eth_getLogs" if !self.knows(&params[0]) => Reply::Error(-32_000, "unknown block".to_owned(), Value::Null),
            "eth_getLogs" => Reply::Result(Value::Array(self.asked_logs(&params[0]))),
            other => panic!("nobody should ask for {other}"),
        }
    }

    /// Returns the registry's response to a read-only call: the fold over its events up to a block.
    fn call(&self, params: &Value) -> Reply {
        let refuse = |message: &str| Reply::Error(-32_000, message.to_owned(), Value::Null);
        let (Some(_), Some(input)) = (params[0]["to"].as_str(), params[0]["input"].as_str().or(params[0]["data"].as_str()))
        else {
            return refuse("this node runs no programs");
        };
        let input: Bytes = input.parse().expect("hex");
        let block = match params[1].as_str() {
            Some("latest") | None => self.head(),
            Some(number) => quantity(number),
        };
        if block > self.head() {
            return refuse("header not found");
        }
        let (count, tools) = self.state(block);
        if input[..4] == toolCountCall::SELECTOR {
            return Reply::Result(json!(Bytes::from(U256::from(count).abi_encode())));
        }
        let id = getToolConfigCall::abi_decode(&input).expect("a known call").toolId;
        let reverted = |data: Vec<u8>| Reply::Error(3, "execution reverted".to_owned(), json!(Bytes::from(data)));
        match tools.get(&id) {
            Some(Some(config)) => Reply::Result(json!(Bytes::from(getToolConfigCall::abi_encode_returns(config)))),
            Some(None) => reverted(ToolIsDeregistered { toolId: id }.abi_encode()),
            None => reverted(ToolNotFound { toolId: id }.abi_encode()),
        }
    }

    /// Returns how many tools were registered up to a block, and the state of each; `None` for one that was deregistered.
    fn state(&self, block: u64) -> (usize, BTreeMap<U256, Option<ToolConfig>>) {
        let mut tools: BTreeMap<U256, Option<ToolConfig>> = BTreeMap::new();
        let mut count = 0;
        let logs = self.blocks[..=block as usize].iter().flat_map(|block| &block.logs).filter(|log| log.address == REGISTRY);
        for log in logs {
            let id = U256::from_be_bytes(log.topics[1].0);
            let text = || <(String, B256)>::abi_decode_params(&log.data).expect("a URI and a hash");
            match log.topics[0] {
                ToolRegistered::SIGNATURE_HASH => {
                    let (uri, hash) = text();
                    count += 1;
                    tools.insert(
                        id,
                        Some(ToolConfig {
                            creator: Address::from_word(log.topics[2]),
                            metadataURI: uri,
                            manifestHash: hash,
                            accessPredicate: Address::from_word(log.topics[3]),
                        }),
                    );
                }
                ToolMetadataUpdated::SIGNATURE_HASH => {
                    if let Some(Some(tool)) = tools.get_mut(&id) {
                        (tool.metadataURI, tool.manifestHash) = text();
                    }
                }
                AccessPredicateUpdated::SIGNATURE_HASH => {
                    if let Some(Some(tool)) = tools.get_mut(&id) {
                        tool.accessPredicate = Address::from_word(log.topics[2]);
                    }
                }
                _ => {
                    if let Some(tool) = tools.get_mut(&id) {
                        *tool = None;
                    }
                }
            }
        }
        (count, tools)
    }

    fn knows(&self, filter: &Value) -> bool {
        let hash = filter["blockHash"].as_str();
        hash.is_none_or(|hash| self.blocks.iter().any(|block| block.hash.to_string() == hash))
    }

    pub(crate) fn asked_logs(&self, filter: &Value) -> Vec<Value> {
        let addresses: Vec<Address> = serde_json::from_value(filter["address"].clone()).expect("addresses");
        let (from, to) = match filter["blockHash"].as_str() {
            Some(hash) => {
                let number = self.blocks.iter().position(|block| block.hash.to_string() == hash).expect("a block") as u64;
                (number, number)
            }
            None => range(filter),
        };
        let mut logs: Vec<Value> = (from..=to.min(self.head())).flat_map(|number| self.logs(number, &addresses)).collect();
        if let Some(id) = filter["topics"].get(1) {
            logs.retain(|log| log["topics"][1] == *id);
        }
        logs
    }
}

pub(crate) fn quantity(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("a quantity")
}

/// Returns the block range of a log filter.
pub(crate) fn range(filter: &Value) -> (u64, u64) {
    let number = |key: &str| quantity(filter[key].as_str().expect("a block"));
    (number("fromBlock"), number("toBlock"))
}

/// A running node with a scripted chain. It has a first block without events.
pub(crate) struct Script {
    pub(crate) world: Arc<Mutex<World>>,
    pub(crate) node: FakeNode,
}

impl Script {
    pub(crate) async fn start() -> Self {
        let mut world = World { gives_time: true, ..World::default() };
        world.grow(Vec::new());
        let world = Arc::new(Mutex::new(world));
        let shared = Arc::clone(&world);
        let node = FakeNode::start(8_453, move |method, params| shared.lock().expect("no panic").answer(method, params)).await;
        Self { world, node }
    }

    pub(crate) fn chain(&self) -> Chain {
        Chain::lazy(config(&[&self.node])).expect("a client")
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        change(&mut self.world.lock().expect("no panic"))
    }
}
