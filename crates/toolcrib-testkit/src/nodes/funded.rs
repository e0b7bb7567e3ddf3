//! A node with test USDC.

use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_provider::Provider as _;
use alloy_sol_types::{SolCall as _, SolValue as _};
use serde_json::{Value, json};
use toolcrib_chain::abi::IEIP3009;
use toolcrib_chain::deploy::deploy_test_assets;
use toolcrib_chain::network::{LOCAL_CHAIN_ID, Network};
use toolcrib_chain::rpc::{BoundedCall, CallOutcome, Chain};
use toolcrib_chain::sign::Domain;
use toolcrib_chain::transaction::Call;
use toolcrib_chain::wallet::{LocalWallet, Wallet};
use toolcrib_devchain::Devchain;
use toolcrib_x402::asset::{self, Token};

use super::{Node, dev};

/// Timeout of a transaction.
const MINED: Duration = Duration::from_secs(20);

/// A node of a chain with test USDC at the address of the built-in table. It stops with the test.
#[derive(Debug)]
pub struct FundedNode {
    node: Node,
    /// The URL of its JSON-RPC endpoint.
    pub url: String,
    /// A client of the node.
    pub chain: Chain,
    /// The token.
    pub token: Token,
}

impl FundedNode {
    /// Starts one of each kind; without anvil only the development chain, and the test is recorded as skipped.
    pub async fn each(chain_id: u64) -> Vec<Self> {
        let mut nodes = Vec::new();
        for node in Node::each(chain_id).await {
            nodes.push(Self::new(node).await);
        }
        nodes
    }

    /// Starts a development chain with other settings.
    pub async fn of(devchain: Devchain) -> Self {
        Self::new(Node::of(devchain)).await
    }

    /// Deploys the token on a node.
    pub async fn new(node: Node) -> Self {
        // The node is temporary, whatever network has its chain ID.
        let chain = node.chain_of(|network| network.is_local = true).await;
        let token = asset::usdc(node.chain_id()).expect("listed");
        if node.chain_id() == LOCAL_CHAIN_ID {
            deploy_test_assets(&chain, &wallet(0)).await.expect("deployed");
        } else {
            // This code reads its own address, so that it verifies signatures for the address to which it is copied.
            let model = super::deploy(&chain, "TestUSDC", &(token.name, token.version).abi_encode_params()).await;
            let code = chain.code(model).await.expect("an answer");
            super::set_code(&chain, token.address, &code).await;
        }
        Self { url: node.url.clone(), node, chain, token }
    }

    /// Whether it is Toolcrib's development chain.
    pub const fn is_ours(&self) -> bool {
        self.node.is_ours()
    }

    /// Returns a client with changed settings of the network.
    pub async fn chain_of(&self, change: impl FnOnce(&mut Network)) -> Chain {
        self.node.chain_of(change).await
    }

    /// Mints tokens for an account.
    pub async fn mint(&self, to: Address, amount: u64) {
        let data = [&keccak256("mint(address,uint256)")[..4], &(to, U256::from(amount)).abi_encode()].concat();
        self.send(&wallet(0), self.token.address, data.into()).await;
    }

    /// Sends a transaction and waits until it succeeds.
    pub async fn send(&self, wallet: &dyn Wallet, to: Address, data: Bytes) -> B256 {
        let call = Call { to, data, value: U256::ZERO };
        self.chain.send(wallet, &call, MINED).await.expect("mined").transaction_hash
    }

    /// Returns an account's balance of the token.
    pub async fn balance(&self, account: Address) -> u64 {
        let data = IEIP3009::balanceOfCall { account }.abi_encode().into();
        let call = BoundedCall { to: self.token.address, data, from: None, gas: None, max_bytes: 32 };
        match self.chain.call(&call).await.expect("an answer") {
            CallOutcome::Returned(bytes) => U256::from_be_slice(&bytes).to(),
            outcome => panic!("{outcome:?}"),
        }
    }

    /// Returns the number of transactions that an account has sent.
    pub async fn count(&self, account: Address) -> u64 {
        self.chain.provider().get_transaction_count(account).await.expect("an answer")
    }

    /// Returns the number of an account's pending transactions.
    pub async fn waiting(&self, account: Address) -> u64 {
        let pending = self.chain.provider().get_transaction_count(account).pending().await.expect("an answer");
        pending - self.count(account).await
    }

    /// Sends a request that only development nodes support.
    pub async fn dev(&self, method: &'static str, params: Value) -> Value {
        dev(&self.chain, method, params).await
    }

    /// Switches automatic mining of each transaction on or off.
    pub async fn automine(&self, on: bool) {
        self.dev("evm_setAutomine", json!([on])).await;
    }

    /// Mines a block.
    pub async fn mine(&self) {
        self.dev("evm_mine", json!([])).await;
    }

    /// Advances the chain's time and mines a block.
    pub async fn later(&self, seconds: i64) {
        self.dev("evm_increaseTime", json!([seconds])).await;
        self.mine().await;
    }

    /// Deploys a contract from the committed artifacts.
    pub async fn deploy(&self, name: &str, arguments: &[u8]) -> Address {
        super::deploy(&self.chain, name, arguments).await
    }

    /// Returns the EIP-712 domain of payments in the token.
    pub fn domain(&self) -> Domain {
        Domain::new(self.token.name, self.token.version, U256::from(self.token.chain), self.token.address)
    }
}

fn wallet(number: u32) -> LocalWallet {
    LocalWallet::development(number).expect("a development account")
}
