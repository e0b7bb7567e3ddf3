//! A throw-away chain with the number of Base Sepolia, where both versions of x402 have a name for the network, and a token in USDC's
//! place.

use std::process::Stdio;
use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_provider::Provider;
use alloy_sol_types::{SolCall, SolValue};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use toolcrib_chain::abi::IEIP3009;
use toolcrib_chain::network::Network;
use toolcrib_chain::rpc::{BoundedCall, CallOutcome, Chain, ChainConfig, NodeUrl, Retries};
use toolcrib_chain::sign::Domain;
use toolcrib_chain::transaction::Call;
use toolcrib_chain::wallet::{LocalWallet, Wallet};
use toolcrib_devchain::Devchain;
use toolcrib_devchain::accounts::dev_signers;
/// The time of the machine: the same that anvil and other processes go by.
pub(crate) use toolcrib_gate::SystemClock as Now;
use toolcrib_x402::asset;

/// Base Sepolia's.
pub(crate) const CHAIN: u64 = 84_532;

/// What a call costs.
pub(crate) const PRICE: u64 = 10_000;

/// What a payer has at the start.
pub(crate) const FUNDS: u64 = 1_000_000;

/// Who is paid.
pub(crate) fn recipient() -> Address {
    Address::repeat_byte(0x77)
}

/// A development account that sends transactions. Servers settle with 5 and 6, facilitators with 7; 8 is somebody else.
pub(crate) fn wallet(number: u32) -> LocalWallet {
    LocalWallet::development(number).expect("a development account")
}

/// The address of one.
pub(crate) fn account(number: u32) -> Address {
    wallet(number).address()
}

pub(crate) fn token() -> asset::Token {
    asset::usdc(CHAIN).expect("listed")
}

pub(crate) fn domain() -> Domain {
    let token = token();
    Domain::new(token.name, token.version, U256::from(token.chain), token.address)
}

/// A node with the token. It ends with the test.
pub(crate) struct Node {
    running: Running,
    pub(crate) url: String,
    pub(crate) chain: Chain,
}

enum Running {
    Ours { _devchain: Box<Devchain> },
    Anvil { _child: Child },
}

impl Node {
    /// One of each kind; without anvil only ours, and the test is recorded as skipped.
    pub(crate) async fn each() -> Vec<Self> {
        let mut nodes = vec![Self::ours().await];
        nodes.extend(Self::anvil().await);
        nodes
    }

    pub(crate) async fn ours() -> Self {
        let devchain = Devchain::builder(Now).chain_id(CHAIN).spawn().await.expect("a chain");
        let url = devchain.http_url();
        Self::set_up(Running::Ours { _devchain: Box::new(devchain) }, url).await
    }

    pub(crate) async fn anvil() -> Option<Self> {
        let program = toolcrib_testkit::anvil()?;
        let mut child = Command::new(program)
            .args(["--port", "0", "--chain-id", &CHAIN.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("anvil starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let url = loop {
            let line = tokio::time::timeout(Duration::from_secs(60), lines.next_line()).await.expect("in time");
            if let Some(address) = line.expect("readable").expect("anvil says where it listens").strip_prefix("Listening on ") {
                break format!("http://{}", address.trim());
            }
        };
        // What it prints later must not fill the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Some(Self::set_up(Running::Anvil { _child: child }, url).await)
    }

    async fn set_up(running: Running, url: String) -> Self {
        let chain = connect(&url).await;
        let node = Self { running, url, chain };
        // Code that finds its own address, so that it signs for the domain of the place it is put into.
        let usdc = token();
        let model = node.deploy("TestUSDC", &(usdc.name, usdc.version).abi_encode_params()).await;
        let code = node.chain.code(model).await.expect("an answer");
        node.dev("anvil_setCode", json!([usdc.address, code])).await;
        node
    }

    pub(crate) const fn is_ours(&self) -> bool {
        matches!(self.running, Running::Ours { .. })
    }

    pub(crate) async fn mint(&self, to: Address, amount: u64) {
        let data = [&keccak256("mint(address,uint256)")[..4], &(to, U256::from(amount)).abi_encode()].concat();
        self.send(&wallet(0), token().address, data.into()).await;
    }

    /// Sends and waits; the transaction succeeds.
    pub(crate) async fn send(&self, wallet: &dyn Wallet, to: Address, data: Bytes) -> B256 {
        let call = Call { to, data, value: U256::ZERO };
        self.chain.send(wallet, &call, Duration::from_secs(20)).await.expect("mined").transaction_hash
    }

    pub(crate) async fn balance(&self, account: Address) -> u64 {
        let data = IEIP3009::balanceOfCall { account }.abi_encode().into();
        let call = BoundedCall { to: token().address, data, from: None, gas: None, max_bytes: 32 };
        match self.chain.call(&call).await.expect("an answer") {
            CallOutcome::Returned(bytes) => U256::from_be_slice(&bytes).to(),
            outcome => panic!("{outcome:?}"),
        }
    }

    /// Transactions that a development account has sent.
    pub(crate) async fn sent_by(&self, number: u32) -> u64 {
        self.chain.provider().get_transaction_count(wallet(number).address()).await.expect("an answer")
    }

    /// Transactions of a development account that wait to be mined.
    pub(crate) async fn waiting(&self, number: u32) -> u64 {
        let pending = self.chain.provider().get_transaction_count(wallet(number).address()).pending().await.expect("an answer");
        pending - self.sent_by(number).await
    }

    /// A request that only development nodes know.
    pub(crate) async fn dev(&self, method: &'static str, params: Value) -> Value {
        self.chain.provider().client().request(method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    pub(crate) async fn automine(&self, on: bool) {
        self.dev("evm_setAutomine", json!([on])).await;
    }

    pub(crate) async fn mine(&self) {
        self.dev("evm_mine", json!([])).await;
    }

    /// Moves the chain's time, and a block shows it.
    pub(crate) async fn later(&self, seconds: i64) {
        self.dev("evm_increaseTime", json!([seconds])).await;
        self.mine().await;
    }

    /// A contract from the committed artifacts.
    pub(crate) async fn deploy(&self, name: &str, arguments: &[u8]) -> Address {
        let request = json!({ "from": dev_signers()[0].address(), "data": code(name, arguments), "gas": "0xf00000" });
        let hash: B256 = serde_json::from_value(self.dev("eth_sendTransaction", json!([request])).await).expect("a hash");
        loop {
            if let Some(receipt) = self.chain.receipt(hash).await.expect("an answer") {
                return receipt.contract_address.expect("a contract");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// The chain behind a node. It is ours to throw away, whatever its number says.
pub(crate) async fn connect(url: &str) -> Chain {
    connect_with(url, Retries::default()).await
}

pub(crate) async fn connect_with(url: &str, retries: Retries) -> Chain {
    connect_as(url, retries, true).await
}

/// The chain behind a node, as a public one or as one of ours.
pub(crate) async fn connect_as(url: &str, retries: Retries, is_local: bool) -> Chain {
    connect_all(&[url], retries, is_local).await
}

/// The chain behind several nodes: the first is asked, and the next one where it fails.
pub(crate) async fn connect_all(urls: &[&str], retries: Retries, is_local: bool) -> Chain {
    let mut network = Network::by_id(CHAIN).expect("listed").clone();
    network.is_local = is_local;
    let urls = urls.iter().map(|url| NodeUrl::parse(url).expect("a URL")).collect();
    let mut config = ChainConfig::new(&network, urls).expect("a node");
    config.retries = retries;
    Chain::connect(config).await.expect("the node answers")
}

fn code(name: &str, arguments: &[u8]) -> Bytes {
    toolcrib_contracts::artifact(name).expect("a contract").init_code(arguments)
}
