//! A chain with the tool registry, and honest manifests.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use serde_json::{Value as Json, json};
use toolcrib_chain::deploy;
use toolcrib_chain::network::Network;
use toolcrib_chain::registry::Registry;
use toolcrib_chain::rpc::{Chain, ChainConfig, NodeUrl};
use toolcrib_chain::transaction::Call;
use toolcrib_chain::wallet::DEV_ACCOUNTS;
use toolcrib_core::clock::FixedClock;
use toolcrib_core::finding::Mode;
use toolcrib_core::tool::{TYPE_V1, ToolManifest};
use toolcrib_devchain::Devchain;

use crate::clock::START;

/// A development chain in this process with Toolcrib's registry.
#[derive(Debug)]
pub struct RegistryChain {
    /// The chain.
    pub devchain: Arc<Devchain>,
    /// A client of the registry on it.
    pub registry: Registry,
    /// A predicate that denies every account.
    pub deny_all: Address,
}

impl RegistryChain {
    /// Starts a chain at the time [`START`], and deploys the registry.
    pub async fn start() -> Self {
        let contracts = deploy::contracts().expect("the files fit each other");
        let mut builder = Devchain::builder(FixedClock(START));
        for name in ["ToolRegistry", "DenyAllPredicate"] {
            let contract = contracts.iter().find(|contract| contract.name == name).expect("a contract of ours");
            builder = builder.deploy(contract.init_code.clone());
        }
        let devchain = builder.spawn().await.expect("a chain");
        let network = Network::by_id(devchain.chain_id()).cloned().unwrap_or_else(|| Network::unlisted(devchain.chain_id()));
        let node = NodeUrl::parse(&devchain.http_url()).expect("a URL");
        let chain = Chain::connect(ChainConfig::new(&network, vec![node]).expect("a node")).await.expect("the node answers");
        let (registry, deny_all) = (Registry::new(chain, devchain.deployed()[0]), devchain.deployed()[1]);
        Self { devchain: Arc::new(devchain), registry, deny_all }
    }

    /// Registers a tool and returns its id.
    pub fn register(&self, account: usize, uri: &str, hash: B256, predicate: Option<Address>) -> U256 {
        self.send(account, &self.registry.register(uri, hash, predicate));
        tool_count(&self.devchain, self.registry.address())
    }

    /// Sends a transaction of a development account in-process, without a socket.
    #[track_caller]
    pub fn send(&self, account: usize, call: &Call) {
        let request = json!([{ "from": DEV_ACCOUNTS[account], "to": call.to, "data": call.data, "gas": "0xf00000" }]);
        let hash = self.devchain.request("eth_sendTransaction", request).expect("sent");
        let hash: B256 = serde_json::from_value(hash).expect("a hash");
        assert!(self.devchain.receipt(hash).expect("mined at once").status(), "the transaction failed");
    }
}

/// Number of tools in a registry.
pub(crate) fn tool_count(devchain: &Devchain, registry: Address) -> U256 {
    let selector = Bytes::copy_from_slice(&keccak256("toolCount()")[..4]);
    let answer = devchain.request("eth_call", json!([{ "to": registry, "data": selector }, "latest"])).expect("an answer");
    U256::from_be_slice(&serde_json::from_value::<Bytes>(answer).expect("bytes"))
}

/// Returns an honest manifest of a tool at `endpoint`, by development account 0.
pub fn manifest(endpoint: &str) -> Json {
    json!({
        "type": TYPE_V1,
        "name": "word-count",
        "description": "Counts the words of a text.",
        "endpoint": endpoint,
        "inputs": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        "outputs": {"type": "object", "properties": {"words": {"type": "integer"}}},
        "creatorAddress": format!("{:#x}", DEV_ACCOUNTS[0]),
    })
}

/// The hash of the served bytes, or a fixed hash for bytes that have none.
pub fn hash_of(bytes: &[u8]) -> B256 {
    ToolManifest::parse(bytes, Mode::Consumer).canonical().map_or(B256::repeat_byte(7), |canonical| canonical.hash())
}
