//! A throw-away chain with the number of Base Sepolia, where both versions of x402 have a name for the network, and a token in USDC's
//! place.

use alloy_primitives::{Address, U256};
use std::ops::Deref;
use toolcrib_chain::network::Network;
use toolcrib_chain::rpc::{Chain, ChainConfig, NodeUrl, Retries};
use toolcrib_chain::sign::Domain;
use toolcrib_chain::wallet::{LocalWallet, Wallet as _};
pub(crate) use toolcrib_gate::SystemClock;
use toolcrib_testkit::nodes::{self, FundedNode};
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
pub(crate) struct Node(FundedNode);

impl Deref for Node {
    type Target = FundedNode;

    fn deref(&self) -> &FundedNode {
        &self.0
    }
}

impl Node {
    /// One of each kind; without anvil only ours, and the test is recorded as skipped.
    pub(crate) async fn each() -> Vec<Self> {
        FundedNode::each(CHAIN).await.into_iter().map(Self).collect()
    }

    pub(crate) async fn ours() -> Self {
        Self(FundedNode::new(nodes::Node::ours(CHAIN).await).await)
    }

    pub(crate) async fn anvil() -> Option<Self> {
        Some(Self(FundedNode::new(nodes::Node::anvil(CHAIN)?).await))
    }

    /// Transactions that a development account has sent.
    pub(crate) async fn sent_by(&self, number: u32) -> u64 {
        self.count(account(number)).await
    }

    /// Transactions of a development account that wait to be mined.
    pub(crate) async fn waiting(&self, number: u32) -> u64 {
        self.0.waiting(account(number)).await
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
