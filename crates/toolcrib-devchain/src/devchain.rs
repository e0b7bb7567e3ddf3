//! Building and controlling a chain.

use std::fmt;
use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use alloy_eips::BlockId;
use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_rpc_types_eth::state::StateOverride;
use alloy_rpc_types_eth::{Block, TransactionReceipt, TransactionRequest};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use toolcrib_core::clock::Clock;
use toolcrib_core::registry::gas::ColdAccess;

use crate::accounts::{dev_accounts, dev_signer};
use crate::chain::{Chain, Config, Mining, Rejection, SavedChain};
use crate::clock::TravelClock;
use crate::error::Error;
use crate::limits::{MAX_LOG_RANGE, MAX_MINE, MAX_STATE_BYTES};
use crate::node::Node;
use crate::predeploy::Predeploy;
use crate::rpc::{self, NoExtra, Params};
use crate::server;

/// The chain id of local development chains. No real chain has it, so a signature for it is worthless elsewhere.
pub const LOCAL_CHAIN_ID: u64 = 31_337;

/// A builder for a chain.
pub struct Builder {
    clock: TravelClock,
    config: Config,
    mining: Mining,
    address: SocketAddr,
    state_file: Option<PathBuf>,
    predeploys: Vec<Predeploy>,
    deploys: Vec<Bytes>,
    origins: Vec<String>,
}

impl Builder {
    /// Sets the chain id; the default is 31337. See [`Devchain::is_local_world`] before you use that of a public chain.
    pub const fn chain_id(mut self, chain_id: u64) -> Self {
        self.config.chain_id = chain_id;
        self
    }

    /// Mines a block for every transaction, at once. This is the default.
    pub const fn automine(self) -> Self {
        self.mining(Mining::Auto)
    }

    /// Mines a block at every interval.
    pub const fn interval(self, interval: Duration) -> Self {
        self.mining(Mining::Interval(interval))
    }

    /// Sets when blocks are mined.
    pub const fn mining(mut self, mining: Mining) -> Self {
        self.mining = mining;
        self
    }

    /// Sets the address to listen on; the default is a free port of 127.0.0.1.
    pub const fn listen(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Stores the chain in a file: it is read at the start if it exists, and written while the chain runs and at the end. Predeploys
    /// and deployments at the start apply to a new chain only.
    pub fn state_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.state_file = Some(path.into());
        self
    }

    /// Adds a contract to the genesis block.
    pub fn predeploy(mut self, predeploy: Predeploy) -> Self {
        self.predeploys.push(predeploy);
        self
    }

    /// Deploys a contract from account 0 before clients connect. [`Devchain::deployed`] returns the addresses in the same order.
    pub fn deploy(mut self, init_code: impl Into<Bytes>) -> Self {
        self.deploys.push(init_code.into());
        self
    }

    /// Allows pages of this origin to use the chain, such as `https://app.example`; `*` allows every page. Pages of this
    /// computer are always allowed.
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into());
        self
    }

    /// Sets the maximum block range of one `eth_getLogs`: lower it to test clients of strict nodes.
    pub const fn log_range(mut self, blocks: u64) -> Self {
        self.config.log_range = blocks;
        self
    }

    /// Sets other gas costs than Ethereum's for cold access to an account or a slot: Monad, for example, charges 10,100 and
    /// 8,100. All other costs stay the same.
    pub const fn cold_access(mut self, prices: ColdAccess) -> Self {
        self.config.cold_access = prices;
        self
    }

    /// Starts the chain and its server on the current tokio runtime.
    ///
    /// # Errors
    /// If the port cannot be used, the state file is unusable, or a contract cannot be deployed.
    pub async fn spawn(self) -> Result<Devchain, Error> {
        let Self { clock, config, mining, address, state_file, predeploys, deploys, origins } = self;
        let chain_id = config.chain_id;
        let deployer = dev_accounts().next().unwrap_or_default();
        let deployed: Vec<Address> = (0..deploys.len() as u64).map(|nonce| deployer.create(nonce)).collect();
        let saved = state_file.as_deref().map(read_state).transpose()?.flatten();
        let chain = match (saved, &state_file) {
            (Some(saved), Some(path)) => Chain::load(saved, config, mining, clock)
                .map_err(|error| Error::StateUnusable { path: path.clone(), reason: error.to_string() })?,
            _ => {
                let mut chain = Chain::new(config, Mining::Auto, clock, &predeploys);
                for (index, (init_code, address)) in deploys.into_iter().zip(&deployed).enumerate() {
                    deploy(&mut chain, deployer, init_code).map_err(|source| Error::Deploy {
                        index,
                        address: *address,
                        source: Box::new(source),
                    })?;
                }
                chain.mining = mining;
                chain
            }
        };
        let listener = TcpListener::bind(address).await.map_err(|source| Error::Bind { address, source })?;
        let address = listener.local_addr().map_err(|source| Error::Bind { address, source })?;
        let node = Arc::new(Node::new(chain));
        let (stop, stopped) = watch::channel(false);
        let stopped = server::Stop(stopped);
        tokio::spawn(server::serve(listener, node.clone(), server::Visitors::new(origins), stopped.clone()));
        tokio::spawn(server::mine_at_intervals(node.clone(), stopped.clone()));
        if let Some(path) = &state_file {
            tokio::spawn(server::keep_saved(node.clone(), path.clone(), stopped));
        }
        Ok(Devchain { node, address, chain_id, state_file, deployed, stop })
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("config", &self.config).field("mining", &self.mining).finish_non_exhaustive()
    }
}

/// A running chain. Dropping it stops the server and, with a state file, saves the chain.
#[derive(Debug)]
pub struct Devchain {
    node: Arc<Node>,
    address: SocketAddr,
    chain_id: u64,
    state_file: Option<PathBuf>,
    deployed: Vec<Address>,
    stop: watch::Sender<bool>,
}

impl Devchain {
    /// Returns a builder for a chain whose time comes from `clock`.
    pub fn builder(clock: impl Clock + Send + 'static) -> Builder {
        Builder {
            clock: TravelClock::new(clock),
            config: Config {
                chain_id: LOCAL_CHAIN_ID,
                log_range: MAX_LOG_RANGE,
                coinbase: Address::ZERO,
                cold_access: ColdAccess::ETHEREUM,
            },
            mining: Mining::Auto,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            state_file: None,
            predeploys: vec![Predeploy::create2_factory()],
            deploys: Vec::new(),
            origins: Vec::new(),
        }
    }

    /// The HTTP URL of the JSON-RPC endpoint.
    pub fn http_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The WebSocket URL of the JSON-RPC endpoint, which supports subscriptions.
    pub fn ws_url(&self) -> String {
        format!("ws://{}", self.address)
    }

    /// The address that the server listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The chain id.
    pub const fn chain_id(&self) -> u64 {
        self.chain_id
    }

    /// Whether the chain id is 31337, which no real chain uses.
    ///
    /// Otherwise, a signature for this chain is also valid on the real one. The chain itself can sign only with
    /// the ten published keys; other signers must check [`Devchain::may_sign`] and refuse all other keys.
    pub const fn is_local_world(&self) -> bool {
        self.chain_id == LOCAL_CHAIN_ID
    }

    /// Whether a key with this address may sign for this chain: any key on chain 31337, otherwise only the ten development keys.
    pub fn may_sign(&self, address: Address) -> bool {
        self.is_local_world() || dev_signer(address).is_some()
    }

    /// The addresses of the contracts that were deployed at the start, in the given order.
    pub fn deployed(&self) -> &[Address] {
        &self.deployed
    }

    /// Calls a JSON-RPC method without a connection.
    ///
    /// # Errors
    /// The error of the method.
    pub fn request(&self, method: &str, params: Value) -> Result<Value, Error> {
        Ok(rpc::call(&self.node, method, Params::new(Some(params))?, &mut NoExtra)?)
    }

    /// The number of the newest block.
    pub fn block_number(&self) -> u64 {
        self.node.with(|chain| chain.head().header.number)
    }

    /// The block with this id, with transaction hashes.
    pub fn block(&self, id: impl Into<BlockId>) -> Option<Block> {
        self.node.with(|chain| chain.block(id.into()).map(|block| block.rpc_block(false)))
    }

    /// Mines blocks of the pool's transactions, empty or not; at most 100,000.
    pub fn mine(&self, blocks: u64) {
        // One at a time, so that other requests can run in between.
        for _ in 0..blocks.min(MAX_MINE) {
            self.node.with(|chain| chain.mine());
        }
    }

    /// Changes when blocks are mined.
    pub fn set_mining(&self, mining: Mining) {
        self.node.with(|chain| chain.mining = mining);
    }

    /// Submits a signed transaction.
    ///
    /// # Errors
    /// If the chain rejects it.
    pub fn send_raw(&self, raw: &[u8]) -> Result<B256, Rejection> {
        self.node.with(|chain| chain.send_raw(raw))
    }

    /// The receipt of a mined transaction.
    pub fn receipt(&self, hash: B256) -> Option<TransactionReceipt> {
        self.node.with(|chain| chain.mined(hash).and_then(|(block, index)| block.receipts.get(index).cloned()))
    }

    /// Executes a call at the newest block.
    ///
    /// # Errors
    /// If the call reverts or halts.
    pub fn call(&self, request: &TransactionRequest) -> Result<Bytes, Rejection> {
        self.node.with(|chain| chain.call(request, &chain.point(BlockId::latest())?, StateOverride::default()))
    }

    /// Balance of an account in wei.
    pub fn balance(&self, address: Address) -> U256 {
        self.node.with(|chain| chain.point(BlockId::latest()).map(|at| chain.balance(address, &at)).unwrap_or_default())
    }

    /// Nonce of an account.
    pub fn nonce(&self, address: Address) -> u64 {
        self.node.with(|chain| chain.nonce(address, BlockId::latest()).unwrap_or_default())
    }

    /// Code of an account.
    pub fn code(&self, address: Address) -> Bytes {
        self.node.with(|chain| chain.point(BlockId::latest()).map(|at| chain.code(address, &at)).unwrap_or_default())
    }

    /// Sets a balance.
    pub fn set_balance(&self, address: Address, balance: U256) {
        self.node.with(|chain| chain.set_balance(address, balance));
    }

    /// Sets a nonce.
    pub fn set_nonce(&self, address: Address, nonce: u64) {
        self.node.with(|chain| chain.set_nonce(address, nonce));
    }

    /// Sets code.
    pub fn set_code(&self, address: Address, code: impl Into<Bytes>) {
        self.node.with(|chain| chain.set_code(address, code.into()));
    }

    /// Sets a storage slot.
    pub fn set_storage_at(&self, address: Address, slot: U256, value: U256) {
        self.node.with(|chain| chain.set_slot(address, slot, value));
    }

    /// Moves the chain's time forward.
    pub fn increase_time(&self, by: Duration) {
        self.node.with(|chain| chain.clock.advance(i64::try_from(by.as_secs()).unwrap_or(i64::MAX)));
    }

    /// Sets the chain's time. Timestamps of blocks never decrease, so an earlier time takes effect once real time has caught up.
    pub fn set_time(&self, timestamp: u64) {
        self.node.with(|chain| chain.clock.set(timestamp));
    }

    /// Takes a snapshot.
    pub fn snapshot(&self) -> u64 {
        self.node.with(|chain| chain.snapshot())
    }

    /// Reverts to a snapshot, once. Returns false if there is none with this id any more.
    pub fn revert(&self, snapshot: u64) -> bool {
        self.node.with(|chain| chain.revert(snapshot))
    }

    /// Replaces the newest `depth` blocks by as many empty ones with other hashes. Subscribers are told that logs were removed.
    ///
    /// # Errors
    /// If the chain has fewer blocks.
    pub fn reorg(&self, depth: u64) -> Result<(), Rejection> {
        self.node.with(|chain| chain.reorg(depth, Vec::new()))
    }

    /// Like [`Devchain::reorg`]; each raw transaction goes into the new block with this index, from 0.
    ///
    /// # Errors
    /// If the chain has fewer blocks, or a transaction does not decode. Transactions that the chain rejects are left out.
    pub fn reorg_with(&self, depth: u64, raw: &[(Bytes, u64)]) -> Result<(), Rejection> {
        let pairs = raw.iter().map(|(raw, block)| Ok((crate::chain::decode(raw)?, *block))).collect::<Result<_, Rejection>>()?;
        self.node.with(|chain| chain.reorg(depth, pairs))
    }

    /// Writes the state file now, if there is one.
    ///
    /// # Errors
    /// If it cannot be written; the former file stays.
    pub fn save(&self) -> Result<(), Error> {
        let Some(path) = &self.state_file else { return Ok(()) };
        server::write_atomically(&self.node, path).map_err(|source| Error::StateUnwritable { path: path.clone(), source })
    }

    /// Stops the server and saves the chain, like dropping, but returns whether it worked.
    ///
    /// # Errors
    /// If the state file cannot be written.
    pub fn shutdown(mut self) -> Result<(), Error> {
        let _ = self.stop.send(true);
        let saved = self.save();
        // It was saved already.
        self.state_file = None;
        saved
    }
}

impl Drop for Devchain {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        // Errors cannot be returned here; `shutdown` returns them.
        let _ = self.save();
    }
}

fn read_state(path: &Path) -> Result<Option<SavedChain>, Error> {
    let unreadable = |source| Error::StateUnreadable { path: path.to_path_buf(), source };
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_STATE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_STATE_BYTES {
        return Err(unreadable(std::io::Error::new(std::io::ErrorKind::FileTooLarge, "larger than 1 GiB")));
    }
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| Error::StateUnusable { path: path.to_path_buf(), reason: error.to_string() })
}

fn deploy(chain: &mut Chain, deployer: Address, init_code: Bytes) -> Result<(), Rejection> {
    let request = TransactionRequest {
        from: Some(deployer),
        to: Some(alloy_primitives::TxKind::Create),
        input: init_code.into(),
        ..TransactionRequest::default()
    };
    let tx = rpc::sign_request(chain, request, None).map_err(|error| Rejection::Invalid(error.message))?;
    let hash = chain.send(tx)?;
    match chain.mined(hash).and_then(|(block, index)| block.receipts.get(index)) {
        Some(receipt) if receipt.status() => Ok(()),
        _ => Err(Rejection::Failed(hash)),
    }
}
