//! Resolution during reorgs on real nodes: a proxy in front of the node makes a reorg between two reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use toolcrib_agent::AgentState;
use toolcrib_agent::evidence::OwnerOutcome;
use toolcrib_chain::fns::{FNS_CHAIN_ID, Fns};
use toolcrib_chain::network::Network;
use toolcrib_chain::rpc::{Chain, ChainConfig, NodeUrl};

use crate::chain::{ITestToken, Node, resolver};
use crate::fixture::*;
use crate::json_sources::request;

/// A proxy in front of a node.
struct Proxy {
    node: Node,
    url: String,
    reorgs: Arc<AtomicUsize>,
}

/// The proxy's interference.
#[derive(Clone, Copy)]
struct Faults {
    /// The number of calls with a reorg before them.
    reorgs: usize,
    /// Whether reads by hash are rejected, as on nodes without EIP-1898.
    refuse_hashes: bool,
}

impl Proxy {
    /// Starts a proxy in front of a node on which the owner has transferred the name. Each reorg replaces the newest block, and the first
    /// one reverts the transfer.
    async fn start(node: Node, faults: Faults) -> Self {
        node.place_registry().await;
        node.mint(owner()).await;
        let before = node.request("evm_snapshot", json!([])).await;
        let token_id = domain(NAME).token_id();
        node.call_registry(ITestToken::transferFromCall { from: owner(), to: other(), tokenId: token_id }).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let reorgs = Arc::new(AtomicUsize::new(0));
        let upstream = Arc::new(Upstream { node: node.url.clone(), snapshot: tokio::sync::Mutex::new(before) });
        let count = Arc::clone(&reorgs);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (upstream, count) = (Arc::clone(&upstream), Arc::clone(&count));
                tokio::spawn(async move {
                    while let Some((_, body)) = request(&mut stream).await {
                        let asked: Value = serde_json::from_slice(&body).expect("JSON");
                        let answer = if faults.refuse_hashes && asked["params"][1].is_object() {
                            let error = json!({"code": -32602, "message": "invalid argument 1: hex string expected"});
                            json!({"jsonrpc": "2.0", "id": asked["id"], "error": error}).to_string().into_bytes()
                        } else {
                            let is_reorg = asked["method"] == "eth_call" && count.load(Ordering::SeqCst) < faults.reorgs;
                            if is_reorg {
                                upstream.reorg(count.fetch_add(1, Ordering::SeqCst)).await;
                            }
                            upstream.forward(&body).await
                        };
                        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
                        if stream.write_all(&[head.as_bytes(), &answer].concat()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { node, url, reorgs }
    }

    fn fns(&self) -> Fns {
        let network = Network::by_id(FNS_CHAIN_ID).expect("Polygon");
        let config = ChainConfig::new(network, vec![NodeUrl::parse(&self.url).expect("a URL")]).expect("a node");
        Fns::new(Chain::lazy(config).expect("a client")).expect("Polygon")
    }
}

struct Upstream {
    node: String,
    snapshot: tokio::sync::Mutex<Value>,
}

impl Upstream {
    async fn forward(&self, body: &[u8]) -> Vec<u8> {
        let address = self.node.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(address).await.expect("the node");
        let head = format!(
            "POST / HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).await.expect("sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("an answer");
        let start = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head") + 4;
        answer.split_off(start)
    }

    async fn ask(&self, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let answer: Value = serde_json::from_slice(&self.forward(body.as_bytes()).await).expect("JSON");
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Replaces the newest block by another with the same number.
    async fn reorg(&self, count: usize) {
        let mut snapshot = self.snapshot.lock().await;
        assert_eq!(self.ask("evm_revert", json!([*snapshot])).await, json!(true));
        // A snapshot can be reverted to only once.
        *snapshot = self.ask("evm_snapshot", json!([])).await;
        let transfer = json!({"from": owner(), "to": other(), "value": format!("{:#x}", count + 1)});
        self.ask("eth_sendTransaction", json!([transfer])).await;
        self.ask("evm_mine", json!([])).await;
    }
}

// req: AGT-020
#[tokio::test]
async fn a_reorg_between_reads_is_no_verdict_about_two_chains() {
    for refuse_hashes in [false, true] {
        for node in Node::each(FNS_CHAIN_ID).await {
            let proxy = Proxy::start(node, Faults { reorgs: 1, refuse_hashes }).await;
            // The block with the transfer is replaced before the owner is read, and the second attempt sees the former owner.
            let resolution = resolver(&signed(json!({})), proxy.fns()).resolve(&domain(NAME)).await;
            assert_verified(&resolution.report);
            assert_eq!(proxy.reorgs.load(Ordering::SeqCst), 1);
            let read = resolution.evidence.owner.expect("read");
            let number = format!("{:#x}", read.block.expect("a block"));
            let block = proxy.node.request("eth_getBlockByNumber", json!([number, false])).await;
            assert_eq!(block["hash"], json!(read.block_hash.expect("a hash")), "the block that is on the chain now");
        }
    }
}

// req: AGT-020
#[tokio::test]
async fn reorgs_that_do_not_end_are_unreachable() {
    for refuse_hashes in [false, true] {
        for node in Node::each(FNS_CHAIN_ID).await {
            let proxy = Proxy::start(node, Faults { reorgs: usize::MAX, refuse_hashes }).await;
            let resolution = resolver(&signed(json!({})), proxy.fns()).resolve(&domain(NAME)).await;
            assert_failed(&resolution.report, AgentState::Unreachable, "agent.holder_unknown", Some(7));
            let read = resolution.evidence.owner.expect("read");
            assert!(matches!(read.outcome, OwnerOutcome::Failed { code, .. } if code == "chain.reorg"));
            assert_eq!((read.block, read.block_hash), (None, None));
        }
    }
}
