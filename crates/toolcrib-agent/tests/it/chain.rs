//! Resolution against real nodes, with an ERC-721 registry at the address of the Freename one: our development chain and anvil.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, address};
use alloy_provider::Provider as _;
use alloy_sol_types::{SolCall, sol};
use serde_json::{Value, json};
use toolcrib_agent::content_hash::raw_sha256_cid;
use toolcrib_agent::evidence::{ContractRead, OwnerOutcome};
use toolcrib_agent::report::SignedBy;
use toolcrib_agent::{AgentPolicy, AgentReport, AgentState, Resolution, Resolver};
use toolcrib_chain::fns::{FNS_CHAIN_ID, FNS_REGISTRY, Fns};
use toolcrib_chain::network::Network;
use toolcrib_chain::rpc::{Chain, ChainConfig, NodeUrl};
use toolcrib_core::clock::FixedClock;
use toolcrib_devchain::Devchain;
use toolcrib_testkit::Anvil;

use crate::doubles::{Contents, Txt};
use crate::fixture::*;

sol! {
    interface ITestToken {
        function mint(address to, uint256 tokenId) external;
        function burn(uint256 tokenId) external;
        function approve(address to, uint256 tokenId) external;
        function transferFrom(address from, address to, uint256 tokenId) external;
    }
}

/// A running node. It is stopped when the test ends.
pub(crate) struct Node {
    _running: Running,
    pub(crate) url: String,
    chain_id: u64,
}

enum Running {
    Ours { _devchain: Devchain },
    Anvil { _anvil: Anvil },
}

impl Node {
    /// One node of each kind. Without anvil there is only ours, and the test is recorded as skipped.
    pub(crate) async fn each(chain_id: u64) -> Vec<Self> {
        let mut nodes = vec![Self::ours(chain_id).await];
        nodes.extend(Self::anvil(chain_id));
        nodes
    }

    async fn ours(chain_id: u64) -> Self {
        let devchain = Devchain::builder(FixedClock(NOW)).chain_id(chain_id).spawn().await.expect("a chain");
        let url = devchain.http_url();
        Self { _running: Running::Ours { _devchain: devchain }, url, chain_id }
    }

    fn anvil(chain_id: u64) -> Option<Self> {
        let anvil = Anvil::of_chain(chain_id)?;
        let url = anvil.url.clone();
        Some(Self { _running: Running::Anvil { _anvil: anvil }, url, chain_id })
    }

    pub(crate) fn chain_as(&self, chain_id: u64) -> Chain {
        let network = Network::by_id(chain_id).cloned().unwrap_or_else(|| Network::unlisted(chain_id));
        let config = ChainConfig::new(&network, vec![NodeUrl::parse(&self.url).expect("a URL")]).expect("a node");
        Chain::lazy(config).expect("a client")
    }

    fn chain(&self) -> Chain {
        self.chain_as(self.chain_id)
    }

    pub(crate) async fn request(&self, method: &'static str, params: Value) -> Value {
        let chain = self.chain();
        let client = chain.provider().client();
        client.request(method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    pub(crate) async fn set_code(&self, account: Address, code: impl AsRef<[u8]>) {
        self.request("anvil_setCode", json!([account, Bytes::copy_from_slice(code.as_ref())])).await;
    }

    /// Sends a transaction from the owner, whose key every development node has.
    pub(crate) async fn send(&self, to: Option<Address>, data: Vec<u8>) -> Value {
        let mut request = json!({ "from": owner(), "data": Bytes::from(data), "gas": "0x300000" });
        if let Some(to) = to {
            request["to"] = json!(to);
        }
        let hash: B256 = serde_json::from_value(self.request("eth_sendTransaction", json!([request])).await).expect("a hash");
        for _ in 0..500 {
            let receipt = self.request("eth_getTransactionReceipt", json!([hash])).await;
            if !receipt.is_null() {
                assert_eq!(receipt["status"], "0x1", "{receipt}");
                return receipt;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the transaction was not mined");
    }

    pub(crate) async fn call_registry(&self, call: impl SolCall) {
        self.send(Some(FNS_REGISTRY), call.abi_encode()).await;
    }

    /// Installs a token contract at the registry's address.
    pub(crate) async fn place_registry(&self) {
        let artifact = toolcrib_contracts::artifact("TestERC721").expect("a contract");
        self.set_code(FNS_REGISTRY, artifact.runtime_code()).await;
    }

    pub(crate) async fn mint(&self, to: Address) {
        self.call_registry(ITestToken::mintCall { to, tokenId: domain(NAME).token_id() }).await;
    }
}

/// A resolver with test doubles for everything except the chain.
pub(crate) fn resolver(manifest: &str, fns: Fns) -> Resolver {
    let contents = Contents::default();
    contents.put(&raw_sha256_cid(manifest.as_bytes()), manifest);
    Resolver::new(Arc::new(contents), Arc::new(FixedClock(NOW)), "test")
        .txt_source(Txt::records(&[&pointer(manifest.as_bytes())]))
        .owners(Arc::new(fns))
}

pub(crate) fn fns(node: &Node) -> Fns {
    Fns::new(node.chain()).expect("Polygon")
}

pub(crate) async fn report(resolver: &Resolver) -> AgentReport {
    resolver.resolve(&domain(NAME)).await.report
}

// req: AGT-019, AGT-020
#[tokio::test]
async fn the_holder_decides_at_every_resolution() {
    for node in Node::each(FNS_CHAIN_ID).await {
        let resolver = resolver(&signed(json!({})), fns(&node));
        let unplaced = report(&resolver).await;
        assert_failed(&unplaced, AgentState::Unreachable, "agent.registry_answer", Some(7));

        node.place_registry().await;
        let unminted = report(&resolver).await;
        assert_failed(&unminted, AgentState::InvalidOwner, "agent.not_minted", Some(8));

        node.mint(owner()).await;
        let held = report(&resolver).await;
        assert_verified(&held);
        assert_eq!((held.holder, held.chain_id), (Some(owner()), Some(137)));
        let block = held.block.expect("a block");

        // An approved account is not the owner.
        let token_id = domain(NAME).token_id();
        node.call_registry(ITestToken::approveCall { to: other(), tokenId: token_id }).await;
        assert_verified(&report(&resolver).await);

        node.call_registry(ITestToken::transferFromCall { from: owner(), to: other(), tokenId: token_id }).await;
        let transferred = report(&resolver).await;
        assert_failed(&transferred, AgentState::InvalidOwner, "agent.holder_not_owner", Some(8));
        assert_eq!(transferred.holder, Some(other()));
        assert!(transferred.block.expect("a block") > block);

        node.call_registry(ITestToken::burnCall { tokenId: token_id }).await;
        assert_failed(&report(&resolver).await, AgentState::InvalidOwner, "agent.not_minted", Some(8));
    }
}

#[tokio::test]
async fn other_chains_do_not_count() {
    for node in Node::each(56).await {
        node.place_registry().await;
        node.mint(owner()).await;
        let manifest = signed(json!({}));
        // The configured nodes are of another chain than Polygon.
        let wrong = Fns::new(node.chain_as(FNS_CHAIN_ID)).expect("said to be Polygon");
        let resolution: Resolution = resolver(&manifest, wrong).resolve(&domain(NAME)).await;
        assert_failed(&resolution.report, AgentState::Unreachable, "agent.holder_unknown", Some(7));
        let outcome = resolution.evidence.owner.expect("read").outcome;
        assert!(matches!(outcome, OwnerOutcome::Failed { code, .. } if code == "chain.wrong_chain"));
        // The right owner in the same contract, but on another chain.
        let elsewhere = Fns::at(node.chain(), FNS_REGISTRY);
        let resolution = resolver(&manifest, elsewhere).resolve(&domain(NAME)).await;
        assert_eq!(resolution.evidence.owner.expect("read").outcome, OwnerOutcome::Holder(owner()));
        assert_failed(&resolution.report, AgentState::Unreachable, "agent.evidence_unusable", Some(7));
    }
}

#[tokio::test]
async fn contract_wallets_need_the_flag() {
    let allowed = || AgentPolicy { allow_contract_owner: true, ..AgentPolicy::default() };
    for node in Node::each(FNS_CHAIN_ID).await {
        node.place_registry().await;
        let argument = owner().into_word();
        let wallet = toolcrib_contracts::artifact("TestSmartWallet").expect("a contract");
        let receipt = node.send(None, wallet.init_code(argument.as_slice()).to_vec()).await;
        let wallet: Address = serde_json::from_value(receipt["contractAddress"].clone()).expect("an address");
        node.mint(wallet).await;
        // The wallet's owner signs for the wallet with a key.
        let text = fields(json!({"owner": wallet.to_checksum(None)})).to_string();
        let manifest = sign_text(&text, &keys().0);
        let strict = report(&resolver(&manifest, fns(&node))).await;
        assert_failed(&strict, AgentState::InvalidSignature, "agent.signer_not_owner", Some(5));
        let extended = report(&resolver(&manifest, fns(&node)).policy(allowed())).await;
        assert_verified(&extended);
        assert_eq!(extended.signed_by, Some(SignedBy::Contract));
        let forged = sign_text(&text, &keys().1);
        let resolution = resolver(&forged, fns(&node)).policy(allowed()).resolve(&domain(NAME)).await;
        assert_failed(&resolution.report, AgentState::InvalidSignature, "agent.signer_not_owner", Some(5));
        assert_eq!(resolution.evidence.owner.expect("read").contract, Some(ContractRead::Rejected));
    }
}

#[tokio::test]
async fn an_account_with_a_delegation_signs_with_its_key() {
    for node in Node::each(FNS_CHAIN_ID).await {
        node.place_registry().await;
        node.mint(owner()).await;
        let delegate = address!("5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a");
        node.set_code(owner(), [&[0xef, 0x01, 0x00], delegate.as_slice()].concat()).await;
        let manifest = signed(json!({}));
        assert_verified(&report(&resolver(&manifest, fns(&node))).await);
        let allowed = AgentPolicy { allow_contract_owner: true, ..AgentPolicy::default() };
        let resolution = resolver(&manifest, fns(&node)).policy(allowed).resolve(&domain(NAME)).await;
        assert_verified(&resolution.report);
        assert_eq!(resolution.report.signed_by, Some(SignedBy::Key));
        assert_eq!(resolution.evidence.owner.expect("read").contract, Some(ContractRead::NotAContract));
    }
}
