//! Connecting to a chain and reading from it with limits.
//!
//! [`Chain`] is a connected network. Its own reads limit gas and bytes, and tell a contract's failure from
//! a node's; [`Chain::provider`] gives alloy's full client, over the same nodes and limits, for everything else.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};
use std::time::Duration;

use alloy_network::{Ethereum, TransactionBuilder};
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use alloy_provider::{DynProvider, Provider, ProviderBuilder};
use alloy_rpc_client::RpcClient;
use alloy_rpc_types_eth::state::StateOverride;
use alloy_rpc_types_eth::{BlockId, BlockNumberOrTag, TransactionRequest};
use alloy_transport::TransportError;

use crate::Error;
use crate::error::{foreign, revert_data};
use crate::network::{Network, Source};

mod header;
mod node;
mod pool;
mod snapshot;

pub use header::Header;
pub use node::{NodeUrl, TransportFault};
pub use pool::Retries;
pub use snapshot::Snapshot;

use node::Node;
use pool::{MaxBytes, Only, Pool, Quorum, ReachedBy};

/// Maximum size of one response: a page of a thousand logs, each with the longest URI, in hexadecimal digits.
pub const MAX_ANSWER_BYTES: usize = 16 << 20;

/// Timeout of one response. Archive reads of public nodes take seconds.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// Timeout of a connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an idle connection to a node is kept. Nodes and their load balancers close idle connections after a minute or more;
/// the default of Node.js, five seconds, is the shortest.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// Maximum number of idle connections to one node.
pub const MAX_IDLE: usize = 16;

/// Requests per second that public nodes allow.
pub const PUBLIC_REQUESTS_PER_SECOND: u32 = 10;

/// Maximum number of nodes of one chain. More would only slow down failures.
pub const MAX_NODES: usize = 16;

/// How to reach a chain.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChainConfig {
    /// The network, including overrides.
    pub network: Network,
    /// Nodes in order of preference.
    pub nodes: Vec<NodeUrl>,
    /// Whether the public node of the built-in table is used, which deserves a warning (`chain.public_rpc`).
    pub is_public_default: bool,
    /// How failed requests are retried.
    pub retries: Retries,
    /// Timeout of one response.
    pub timeout: Duration,
    /// Requests per second to each node.
    pub requests_per_second: Option<u32>,
    /// Maximum size of one response.
    pub max_answer_bytes: usize,
    /// How many nodes must agree on what [`Chain`] reads. `None`: one node is trusted.
    pub quorum: Option<usize>,
}

impl ChainConfig {
    /// The network with its public node, if it has one.
    pub fn public(network: &Network) -> Result<Self, Error> {
        let Some(url) = network.public_rpc else { return Err(Error::NoRpc { network: network.described() }) };
        let config = Self::new(network, vec![NodeUrl::parse(url)?])?;
        let requests_per_second = (!network.is_local).then_some(PUBLIC_REQUESTS_PER_SECOND);
        Ok(Self { is_public_default: !network.is_local, requests_per_second, ..config })
    }

    /// The network with your own nodes.
    pub fn new(network: &Network, nodes: Vec<NodeUrl>) -> Result<Self, Error> {
        if nodes.is_empty() {
            return Err(Error::NoRpc { network: network.described() });
        }
        if nodes.len() > MAX_NODES {
            return Err(Error::RpcUrl { reason: "more than 16 RPC nodes are configured for one chain" });
        }
        Ok(Self {
            network: network.clone(),
            nodes,
            is_public_default: false,
            retries: Retries::default(),
            timeout: ANSWER_TIMEOUT,
            requests_per_second: None,
            max_answer_bytes: MAX_ANSWER_BYTES,
            quorum: None,
        })
    }

    /// Parses URLs separated by commas or spaces, as in `--rpc-url` and `RPC_URL`. Without any, uses the nodes from the network's settings
    /// or its public one.
    pub fn from_setting(network: &Network, setting: Option<&str>) -> Result<Self, Error> {
        let urls: Vec<_> = setting.unwrap_or_default().split([',', ' ', '\n']).filter(|url| !url.is_empty()).collect();
        if urls.is_empty() && !network.nodes.is_empty() {
            return Self::new(network, network.nodes.to_vec());
        }
        if urls.is_empty() {
            return Self::public(network);
        }
        Self::new(network, urls.into_iter().map(NodeUrl::parse).collect::<Result<_, _>>()?)
    }

    /// Requires the same response from `needed` nodes.
    pub fn with_quorum(mut self, needed: usize) -> Result<Self, Error> {
        if needed == 0 || needed > self.nodes.len() {
            return Err(Error::NoQuorum { asked: self.nodes.len(), agreeing: self.nodes.len(), needed });
        }
        self.quorum = Some(needed);
        Ok(self)
    }
}

/// A connection to a network whose chain id was checked. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Chain {
    network: Network,
    provider: DynProvider<Ethereum>,
    quorum: Option<usize>,
    is_loopback: bool,
    nodes: Arc<str>,
    node_count: usize,
    /// The only node to ask, instead of the preferred one.
    only: Option<usize>,
    /// Whether a node refused to read a block by its hash (EIP-1898), so that snapshots read by number at once.
    is_numbered: Arc<AtomicBool>,
}

impl Chain {
    /// Connects, and checks the chain id of the first node that responds. The others are checked before their first use.
    pub async fn connect(config: ChainConfig) -> Result<Self, Error> {
        let chain = Self::lazy(config)?;
        chain.block_number().await?;
        Ok(chain)
    }

    /// Like [`Self::connect`], but checks the chain id with the first request.
    pub fn lazy(config: ChainConfig) -> Result<Self, Error> {
        static PROVIDER: Once = Once::new();
        // Another crate may have installed a provider already; either works.
        PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(config.timeout)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(MAX_IDLE)
            // Redirects would lead to a node that was not configured.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("toolcrib/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|_| Error::RpcUrl { reason: "the HTTP client cannot be created" })?;
        let spacing = config.requests_per_second.map_or(Duration::ZERO, |rate| Duration::from_secs(1) / rate.max(1));
        let is_loopback = config.nodes.iter().any(NodeUrl::is_loopback);
        let shown: Vec<_> = config.nodes.iter().map(ToString::to_string).collect();
        let node_count = config.nodes.len();
        let nodes = config.nodes.into_iter().map(|url| Node::new(url, client.clone(), spacing)).collect();
        let pool = Pool::new(nodes, config.network.chain_id, config.retries, config.max_answer_bytes);
        let provider = ProviderBuilder::default().connect_client(RpcClient::new(pool, is_loopback)).erased();
        Ok(Self {
            network: config.network,
            provider,
            quorum: config.quorum,
            is_loopback,
            nodes: shown.join(", ").into(),
            node_count,
            only: None,
            is_numbered: Arc::default(),
        })
    }

    /// The network's entry.
    pub const fn network(&self) -> &Network {
        &self.network
    }

    /// The chain id.
    pub const fn chain_id(&self) -> u64 {
        self.network.chain_id
    }

    /// What to show a user before signing for this chain, as labels and values: the network, its nodes without the parts of their URLs that
    /// may be secret, and the file that the network comes from.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![("network", self.network.described()), ("node", self.nodes.to_string())];
        if matches!(self.network.source, Source::User(_) | Source::Project(_)) {
            facts.push(("settings", self.network.source.to_string()));
        }
        facts
    }

    /// Whether one of the nodes runs on this computer.
    pub const fn is_loopback(&self) -> bool {
        self.is_loopback
    }

    /// Returns the number of configured nodes.
    pub const fn node_count(&self) -> usize {
        self.node_count
    }

    /// Returns the same chain as seen by one of its nodes, without failover and quorum. Use it to compare nodes.
    ///
    /// [`Self::block_number`] and [`Self::provider`] still use every node.
    #[must_use]
    pub fn through(&self, node: usize) -> Self {
        Self { only: Some(node % self.node_count.max(1)), quorum: None, ..self.clone() }
    }

    /// alloy's client over the same nodes, without the caps on gas.
    pub const fn provider(&self) -> &DynProvider<Ethereum> {
        &self.provider
    }

    /// The number of the newest block.
    pub async fn block_number(&self) -> Result<u64, Error> {
        let number: U64 = self.provider.client().request_noparams("eth_blockNumber").await.map_err(Error::from_rpc)?;
        Ok(number.to())
    }

    /// The code at an address.
    pub async fn code(&self, address: Address) -> Result<Bytes, Error> {
        self.request("eth_getCode", (address, self.read_block().await?), MAX_CODE_ANSWER).await.map_err(Error::from_rpc)
    }

    async fn code_in(&self, address: Address, block: BlockId) -> Result<Bytes, Error> {
        self.request("eth_getCode", (address, block), MAX_CODE_ANSWER).await.map_err(Error::from_rpc)
    }

    /// One storage slot of a contract.
    pub async fn storage(&self, address: Address, slot: B256) -> Result<B256, Error> {
        let slot = U256::from_be_bytes(slot.0);
        let word: U256 =
            self.request("eth_getStorageAt", (address, slot, self.read_block().await?), 4_096).await.map_err(Error::from_rpc)?;
        Ok(word.into())
    }

    /// Executes a read-only call, with limits on gas and return data.
    pub async fn call(&self, call: &BoundedCall) -> Result<CallOutcome, Error> {
        self.call_with(call, StateOverride::default()).await
    }

    /// Like [`Self::call`], with a state override. Not every node supports that.
    pub async fn call_with(&self, call: &BoundedCall, overrides: StateOverride) -> Result<CallOutcome, Error> {
        self.call_in(call, overrides, self.read_block().await?.into()).await
    }

    /// Like [`Self::call`], in the state after the block with this number. Nodes prune the state of old blocks.
    pub async fn call_at(&self, call: &BoundedCall, block: u64) -> Result<CallOutcome, Error> {
        self.call_in(call, StateOverride::default(), BlockId::number(block)).await
    }

    /// Executes init code like a deployment, with limits on gas and return data, and returns what it returns as code. Nothing
    /// is deployed.
    pub async fn call_code(&self, code: Bytes, gas: u64, max_bytes: usize) -> Result<CallOutcome, Error> {
        self.run_code(code, gas, max_bytes, self.read_block().await?).await
    }

    /// Like [`Self::call_code`], in the state after the block with this number.
    pub async fn call_code_at(&self, code: Bytes, gas: u64, max_bytes: usize, block: u64) -> Result<CallOutcome, Error> {
        self.run_code(code, gas, max_bytes, BlockNumberOrTag::Number(block)).await
    }

    async fn run_code(&self, code: Bytes, gas: u64, max_bytes: usize, block: BlockNumberOrTag) -> Result<CallOutcome, Error> {
        let mut request = TransactionRequest::default().with_input(code);
        request.set_gas_limit(gas.saturating_add(self.network.call_overhead));
        self.run_call(request, max_bytes, StateOverride::default(), block.into()).await
    }

    async fn call_in(&self, call: &BoundedCall, overrides: StateOverride, block: BlockId) -> Result<CallOutcome, Error> {
        let mut request = TransactionRequest::default().with_to(call.to).with_input(call.data.clone());
        if let Some(gas) = call.gas {
            request.set_gas_limit(gas.saturating_add(self.network.call_overhead));
        }
        if let Some(from) = call.from {
            request.set_from(from);
        }
        self.run_call(request, call.max_bytes, overrides, block).await
    }

    async fn run_call(
        &self,
        request: TransactionRequest,
        max_bytes: usize,
        overrides: StateOverride,
        block: BlockId,
    ) -> Result<CallOutcome, Error> {
        // Two hex digits for each byte, and the JSON-RPC envelope.
        let limit = max_bytes.saturating_mul(2).saturating_add(1_024);
        // Nodes without overrides reject a third parameter, even an empty one.
        let answer = if overrides.is_empty() {
            self.request::<_, Bytes>("eth_call", (request, block), limit).await
        } else {
            self.request::<_, Bytes>("eth_call", (request, block, overrides), limit).await
        };
        match answer {
            Ok(bytes) if bytes.len() > max_bytes => Ok(CallOutcome::TooLarge),
            Ok(bytes) => Ok(CallOutcome::Returned(bytes)),
            Err(TransportError::ErrorResp(payload)) => {
                if let Some(data) = revert_data(&payload) {
                    return Ok(CallOutcome::Reverted(data));
                }
                if is_execution_failure(&payload.message) {
                    return Ok(CallOutcome::Halted(foreign(&payload.message)));
                }
                Err(Error::Refused { rpc_code: payload.code, message: foreign(&payload.message) })
            }
            Err(error) => match Error::from_rpc(error) {
                Error::Transport { fault: TransportFault::TooLarge { .. }, .. } => Ok(CallOutcome::TooLarge),
                error => Err(error),
            },
        }
    }

    async fn read_block(&self) -> Result<BlockNumberOrTag, Error> {
        let Some(needed) = self.quorum else { return Ok(BlockNumberOrTag::Latest) };
        let newest: U64 = self
            .provider
            .client()
            .request_noparams("eth_blockNumber")
            .map_meta(|mut meta| {
                meta.extensions_mut().insert(ReachedBy(needed));
                meta
            })
            .await
            .map_err(Error::from_rpc)?;
        // Nodes are a block or two apart; they can only agree on a block that all of them have.
        Ok(BlockNumberOrTag::Number(newest.to::<u64>().saturating_sub(QUORUM_LAG)))
    }

    pub(crate) async fn request<P, R>(&self, method: &'static str, params: P, max_bytes: usize) -> Result<R, TransportError>
    where
        P: alloy_json_rpc::RpcSend,
        R: alloy_json_rpc::RpcRecv,
    {
        let (quorum, only) = (self.quorum, self.only);
        self.provider
            .client()
            .request(method, params)
            .map_meta(|mut meta| {
                meta.extensions_mut().insert(MaxBytes(max_bytes));
                if let Some(node) = only {
                    meta.extensions_mut().insert(Only(node));
                }
                if let Some(needed) = quorum {
                    meta.extensions_mut().insert(Quorum(needed));
                }
                meta
            })
            .await
    }
}

/// A read-only call.
#[derive(Clone, Debug)]
pub struct BoundedCall {
    /// The contract.
    pub to: Address,
    /// Selector and arguments.
    pub data: Bytes,
    /// The sender of the simulated call.
    pub from: Option<Address>,
    /// Gas for the contract itself; the cost before the first instruction is added. `None`: the node's own cap.
    pub gas: Option<u64>,
    /// Maximum length of the return data.
    pub max_bytes: usize,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// It returned these bytes; an address without code returns none.
    Returned(Bytes),
    /// It reverted with these bytes.
    Reverted(Bytes),
    /// It ran out of gas or executed an invalid operation. Has the node's message.
    Halted(String),
    /// It returned more bytes than allowed.
    TooLarge,
}

/// A contract's code is at most 24,576 bytes on Ethereum; other chains allow more, but no chain of the table more than this in hex digits.
const MAX_CODE_ANSWER: usize = 2 << 20;

/// Number of blocks that quorum reads are behind the chain head, so that every node has the block.
const QUORUM_LAG: u64 = 2;

/// Whether a node's message is about the contract and not about the node itself. Nodes do not agree on an error code for it.
fn is_execution_failure(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    const WORDS: [&str; 13] = [
        "out of gas",
        "outofgas",
        "opcode",
        "evm error",
        "invalid jump",
        "stack",
        "execution",
        "gas required exceeds",
        "intrinsic gas",
        "memory limit",
        "write protection",
        "return data out of bounds",
        "state change during static call",
    ];
    WORDS.iter().any(|word| message.contains(word))
}

/// Whether the node's message about a halted call says that it ran out of gas. Memory beyond the node's own limit counts too: that
/// memory would have cost the gas.
pub(crate) fn is_out_of_gas(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    ["out of gas", "outofgas", "oog", "gas required exceeds", "memory limit", "gas uint64 overflow"]
        .iter()
        .any(|word| words.contains(word))
}
