//! A chain with our registry, and honest manifests, for all tests of this crate.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use serde_json::{Value as Json, json};
use toolcrib_chain::deploy;
use toolcrib_chain::network::Network;
use toolcrib_chain::registry::Registry;
use toolcrib_chain::rpc::{Chain, ChainConfig, NodeUrl};
use toolcrib_chain::transaction::Call;
use toolcrib_chain::wallet::DEV_ACCOUNTS;
use toolcrib_core::clock::{FixedClock, UnixTime};
use toolcrib_core::finding::Mode;
use toolcrib_core::tool::{TYPE_V1, ToolManifest};
use toolcrib_devchain::Devchain;

/// The time of the chain's clock.
const START: UnixTime = UnixTime::from_seconds(1_800_000_000);

/// A development chain in this process with our registry on it.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) devchain: Devchain,
    pub(crate) registry: Registry,
}

impl Ledger {
    pub(crate) async fn start() -> Self {
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
        let registry = Registry::new(chain, devchain.deployed()[0]);
        Self { devchain, registry }
    }

    /// Registers a tool and returns its id.
    pub(crate) fn register(&self, account: usize, uri: &str, hash: B256, predicate: Option<Address>) -> U256 {
        self.send(account, &self.registry.register(uri, hash, predicate));
        self.count()
    }

    /// Sends a transaction of a development account in-process, without a socket.
    #[track_caller]
    pub(crate) fn send(&self, account: usize, call: &Call) {
        let request = json!([{ "from": DEV_ACCOUNTS[account], "to": call.to, "data": call.data, "gas": "0xf00000" }]);
        let hash = self.devchain.request("eth_sendTransaction", request).expect("sent");
        let hash: B256 = serde_json::from_value(hash).expect("a hash");
        assert!(self.devchain.receipt(hash).expect("mined at once").status(), "the transaction failed");
    }

    /// Number of tools.
    fn count(&self) -> U256 {
        let selector = Bytes::copy_from_slice(&keccak256("toolCount()")[..4]);
        let request = json!([{ "to": self.registry.address(), "data": selector }, "latest"]);
        let answer: Bytes =
            serde_json::from_value(self.devchain.request("eth_call", request).expect("an answer")).expect("bytes");
        U256::from_be_slice(&answer)
    }
}

/// An honest manifest of a tool at `endpoint`, by development account 0.
pub(crate) fn manifest(endpoint: &str) -> Json {
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
pub(crate) fn hash_of(bytes: &[u8]) -> B256 {
    ToolManifest::parse(bytes, Mode::Consumer).canonical().map_or(B256::repeat_byte(7), |canonical| canonical.hash())
}
