//! Nodes for tests: Toolcrib's development chain, and anvil from `TOOLCRIB_ANVIL` or npm's folders. Each test runs on both.

use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_provider::Provider;
use serde_json::{Value, json};
use toolcrib_chain::network::Network;
use toolcrib_chain::rpc::{Chain, ChainConfig, NodeUrl};
use toolcrib_chain::wallet::DEV_ACCOUNTS;
use toolcrib_core::registry::gas::ColdAccess;
use toolcrib_devchain::Devchain;
use toolcrib_fetch::SystemClock;

use crate::Anvil;

/// A running node. It stops with the test.
#[derive(Debug)]
pub struct Node {
    running: Running,
    /// The URL of its JSON-RPC endpoint.
    pub url: String,
    chain_id: u64,
}

#[derive(Debug)]
enum Running {
    Ours { _devchain: Box<Devchain> },
    Anvil { _anvil: Anvil },
}

impl Node {
    /// Starts one of each kind; without anvil only the development chain, and the test is recorded as skipped.
    pub async fn each(chain_id: u64) -> Vec<Self> {
        let mut nodes = vec![Self::ours(chain_id).await];
        nodes.extend(Self::anvil(chain_id));
        nodes
    }

    /// Starts a development chain.
    pub async fn ours(chain_id: u64) -> Self {
        Self::priced(chain_id, ColdAccess::ETHEREUM).await
    }

    /// Starts a development chain with these gas costs of cold access.
    pub async fn priced(chain_id: u64, prices: ColdAccess) -> Self {
        let devchain = Devchain::builder(SystemClock).chain_id(chain_id).cold_access(prices).spawn().await.expect("a chain");
        Self::of(devchain)
    }

    /// Starts a development chain with other settings.
    pub fn of(devchain: Devchain) -> Self {
        let (url, chain_id) = (devchain.http_url(), devchain.chain_id());
        Self { running: Running::Ours { _devchain: Box::new(devchain) }, url, chain_id }
    }

    /// Starts Foundry's anvil, if it is installed. Otherwise the test is recorded as skipped.
    pub fn anvil(chain_id: u64) -> Option<Self> {
        let anvil = Anvil::of_chain(chain_id)?;
        let url = anvil.url.clone();
        Some(Self { running: Running::Anvil { _anvil: anvil }, url, chain_id })
    }

    /// Whether it is Toolcrib's development chain.
    pub const fn is_ours(&self) -> bool {
        matches!(self.running, Running::Ours { .. })
    }

    /// Returns its chain ID.
    pub const fn chain_id(&self) -> u64 {
        self.chain_id
    }

    /// Returns a client of it.
    pub async fn chain(&self) -> Chain {
        self.chain_of(|_| {}).await
    }

    /// Returns a client of it with changed settings of the network.
    pub async fn chain_of(&self, change: impl FnOnce(&mut Network)) -> Chain {
        let mut network = Network::by_id(self.chain_id).cloned().unwrap_or_else(|| Network::unlisted(self.chain_id));
        change(&mut network);
        let config = ChainConfig::new(&network, vec![NodeUrl::parse(&self.url).expect("a URL")]).expect("a node");
        Chain::connect(config).await.expect("the node answers")
    }
}

/// Sends a request that only development nodes support.
pub async fn dev(chain: &Chain, method: &'static str, params: Value) -> Value {
    chain.provider().client().request(method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
}

/// Sets the code of an address.
pub async fn set_code(chain: &Chain, address: Address, code: &[u8]) {
    dev(chain, "anvil_setCode", json!([address, Bytes::copy_from_slice(code)])).await;
}

/// Sends a transaction from the first development account, which anvil signs for.
pub async fn send(chain: &Chain, to: Option<Address>, data: Bytes) -> Value {
    let mut request = json!({ "from": DEV_ACCOUNTS[0], "data": data, "gas": "0xf00000" });
    if let Some(to) = to {
        request["to"] = json!(to);
    }
    let hash: B256 = serde_json::from_value(dev(chain, "eth_sendTransaction", json!([request])).await).expect("a hash");
    let receipt = loop {
        let receipt = dev(chain, "eth_getTransactionReceipt", json!([hash])).await;
        if !receipt.is_null() {
            break receipt;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(receipt["status"], "0x1", "{receipt}");
    receipt
}

/// Deploys a contract from the committed artifacts.
pub async fn deploy(chain: &Chain, name: &str, arguments: &[u8]) -> Address {
    let receipt = send(chain, None, toolcrib_contracts::artifact(name).expect("a contract").init_code(arguments)).await;
    serde_json::from_value(receipt["contractAddress"].clone()).expect("an address")
}

/// Sets an account's balance, so that a test can empty an account.
pub async fn set_balance(chain: &Chain, account: Address, balance: U256) {
    dev(chain, "anvil_setBalance", json!([account, balance])).await;
}
