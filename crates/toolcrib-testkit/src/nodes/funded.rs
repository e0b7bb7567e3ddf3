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

/// Time limit of a transaction.
const MINED: Duration = Duration::from_secs(20);

/// A node with test USDC at the address in the pinned table. It is stopped when the test ends.
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
    /// One node of each kind. Without anvil there is only ours, and the test is recorded as skipped.
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

    /// Installs the token on a node.
    pub async fn new(node: Node) -> Self {
        // This is a development chain, whatever network its chain id belongs to.
        let chain = node.chain_of(|network| network.is_local = true).await;
        let token = asset::usdc(node.chain_id()).expect("listed");
        if node.chain_id() == LOCAL_CHAIN_ID {
            deploy_test_assets(&chain, &wallet(0)).await.expect("deployed");
        } else {
            // Code that computes its domain from its own address, so it also works at the address it is copied to.
            let model = super::deploy(&chain, "TestUSDC", &(token.name, token.version).abi_encode_params()).await;
            let code = chain.code(model).await.expect("an answer");
            super::set_code(&chain, token.address, &code).await;
        }
        Self { url: node.url.clone(), node, chain, token }
    }

    /// Whether it is our own node.
    pub const fn is_ours(&self) -> bool {
        self.node.is_ours()
    }

    /// A client with a changed network entry.
    pub async fn chain_of(&self, change: impl FnOnce(&mut Network)) -> Chain {
        self.node.chain_of(change).await
    }

    /// Mints tokens for an account.
    pub async fn mint(&self, to: Address, amount: u64) {
        let data = [&keccak256("mint(address,uint256)")[..4], &(to, U256::from(amount)).abi_encode()].concat();
        self.send(&wallet(0), self.token.address, data.into()).await;
    }

    /// Sends a transaction and waits; it must succeed.
    pub async fn send(&self, wallet: &dyn Wallet, to: Address, data: Bytes) -> B256 {
        let call = Call { to, data, value: U256::ZERO };
        self.chain.send(wallet, &call, MINED).await.expect("mined").transaction_hash
    }

    /// The token balance of an account.
    pub async fn balance(&self, account: Address) -> u64 {
        let data = IEIP3009::balanceOfCall { account }.abi_encode().into();
        let call = BoundedCall { to: self.token.address, data, from: None, gas: None, max_bytes: 32 };
        match self.chain.call(&call).await.expect("an answer") {
            CallOutcome::Returned(bytes) => U256::from_be_slice(&bytes).to(),
            outcome => panic!("{outcome:?}"),
        }
    }

    /// The nonce of an account.
    pub async fn count(&self, account: Address) -> u64 {
        self.chain.provider().get_transaction_count(account).await.expect("an answer")
    }

    /// Number of pending transactions of an account.
    pub async fn waiting(&self, account: Address) -> u64 {
        let pending = self.chain.provider().get_transaction_count(account).pending().await.expect("an answer");
        pending - self.count(account).await
    }

    /// Sends a request that only development nodes support.
    pub async fn dev(&self, method: &'static str, params: Value) -> Value {
        dev(&self.chain, method, params).await
    }

    /// Turns automine on or off.
    pub async fn automine(&self, on: bool) {
        self.dev("evm_setAutomine", json!([on])).await;
    }

    /// Mines a block.
    pub async fn mine(&self) {
        self.dev("evm_mine", json!([])).await;
    }

    /// Moves the chain's time forward, and mines a block with the new time.
    pub async fn later(&self, seconds: i64) {
        self.dev("evm_increaseTime", json!([seconds])).await;
        self.mine().await;
    }

    /// Deploys a contract from the committed artifacts.
    pub async fn deploy(&self, name: &str, arguments: &[u8]) -> Address {
        super::deploy(&self.chain, name, arguments).await
    }

    /// The EIP-712 domain of payments in the token.
    pub fn domain(&self) -> Domain {
        Domain::new(self.token.name, self.token.version, U256::from(self.token.chain), self.token.address)
    }
}

fn wallet(number: u32) -> LocalWallet {
    LocalWallet::development(number).expect("a development account")
}
