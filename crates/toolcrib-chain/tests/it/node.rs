//! Nodes for tests: our own development chain, and anvil from `TOOLCRIB_ANVIL` or a global npm folder. Each test runs on both.

use std::process::Stdio;
use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_provider::Provider;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use toolcrib_chain::network::Network;
use toolcrib_chain::rpc::{Chain, ChainConfig, NodeUrl};
use toolcrib_chain::wallet::DEV_ACCOUNTS;
use toolcrib_core::registry::gas::ColdAccess;
use toolcrib_devchain::Devchain;
use toolcrib_fetch::SystemClock;

/// A running node. It is stopped when the test ends.
pub(crate) struct Node {
    _running: Running,
    pub(crate) url: String,
    chain_id: u64,
}

enum Running {
    Ours { _devchain: Devchain },
    Anvil { _child: Child },
}

impl Node {
    /// One node of each kind. Without anvil there is only ours, and the test is recorded as skipped.
    pub(crate) async fn each(chain_id: u64) -> Vec<Self> {
        let mut nodes = vec![Self::ours(chain_id).await];
        nodes.extend(Self::anvil(chain_id).await);
        nodes
    }

    async fn ours(chain_id: u64) -> Self {
        Self::priced(chain_id, ColdAccess::ETHEREUM).await
    }

    /// Our own node with these costs of cold access.
    pub(crate) async fn priced(chain_id: u64, prices: ColdAccess) -> Self {
        let devchain = Devchain::builder(SystemClock).chain_id(chain_id).cold_access(prices).spawn().await.expect("a chain");
        let url = devchain.http_url();
        Self { _running: Running::Ours { _devchain: devchain }, url, chain_id }
    }

    /// Starts anvil, if it is installed.
    async fn anvil(chain_id: u64) -> Option<Self> {
        let program = toolcrib_testkit::anvil()?;
        let mut child = Command::new(program)
            .args(["--port", "0", "--chain-id", &chain_id.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("anvil starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let url = loop {
            let line =
                tokio::time::timeout(Duration::from_secs(30), lines.next_line()).await.expect("in time").expect("readable");
            if let Some(address) = line.expect("anvil says where it listens").strip_prefix("Listening on ") {
                break format!("http://{}", address.trim());
            }
        };
        // Read its later output, so that it does not block on a full pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Some(Self { _running: Running::Anvil { _child: child }, url, chain_id })
    }

    pub(crate) async fn chain(&self) -> Chain {
        let network = Network::by_id(self.chain_id).cloned().unwrap_or_else(|| Network::unlisted(self.chain_id));
        let config = ChainConfig::new(&network, vec![NodeUrl::parse(&self.url).expect("a URL")]).expect("a node");
        Chain::connect(config).await.expect("the node answers")
    }
}

/// Sends a request that only development nodes support.
pub(crate) async fn dev(chain: &Chain, method: &'static str, params: Value) -> Value {
    chain.provider().client().request(method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
}

/// Sets the code at an address.
pub(crate) async fn set_code(chain: &Chain, address: Address, code: &[u8]) {
    dev(chain, "anvil_setCode", json!([address, Bytes::copy_from_slice(code)])).await;
}

/// Sends a transaction from the first development account, whose key anvil has.
pub(crate) async fn send(chain: &Chain, to: Option<Address>, data: Bytes) -> Value {
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
pub(crate) async fn deploy(chain: &Chain, name: &str, arguments: &[u8]) -> Address {
    let receipt = send(chain, None, toolcrib_contracts::artifact(name).expect("a contract").init_code(arguments)).await;
    serde_json::from_value(receipt["contractAddress"].clone()).expect("an address")
}

/// Sets a balance, so that a test can empty an account.
pub(crate) async fn set_balance(chain: &Chain, account: Address, balance: U256) {
    dev(chain, "anvil_setBalance", json!([account, balance])).await;
}
