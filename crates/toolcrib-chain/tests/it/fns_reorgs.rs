//! The name registry during reorgs between reads, on nodes that can read by hash and nodes that cannot.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use alloy_primitives::{Address, B256, Bytes, U256, address};
use serde_json::{Value, json};
use toolcrib_chain::fns::records::{RecordsError, TxtRecords, txt_records};
use toolcrib_chain::fns::{FNS_REGISTRY, Fns, FnsRead, Holder};
use toolcrib_chain::network::Network;
use toolcrib_chain::rpc::{Chain, ChainConfig};

use toolcrib_testkit::nodes::fake::{FakeNode, Reply, config};

const BEFORE: Address = address!("1111111111111111111111111111111111111111");
const AFTER: Address = address!("2222222222222222222222222222222222222222");

/// A scripted node's response to reads by hash.
#[derive(Clone, Copy)]
enum ByHash {
    /// It has the block, or says that the hash is not canonical.
    Known,
    /// It does not understand the parameter.
    Refused,
    /// It does not know the block, and responds with the error of a rate limit.
    HeaderNotFound,
}

/// A node whose block 100 is replaced at state read number `at`, and every `every` reads after it.
struct Script {
    by_hash: ByHash,
    at: u64,
    every: Option<u64>,
    /// The return value of calls after this number of reorgs.
    call: fn(u64) -> B256,
}

/// `ownerOf`, with another owner after a reorg.
fn owner_of(reorgs: u64) -> B256 {
    if reorgs == 0 { BEFORE } else { AFTER }.into_word()
}

/// The hash of block 100 after this number of reorgs.
fn hash(reorgs: u64) -> B256 {
    B256::left_padding_from(&(1_000 + reorgs).to_be_bytes())
}

async fn node(script: Script) -> FakeNode {
    let (reads, reorgs) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    FakeNode::start(137, move |method, params| {
        if method == "eth_blockNumber" {
            return Reply::Result(json!("0x66"));
        }
        if method == "eth_getBlockByNumber" {
            return Reply::Result(json!({"number": "0x64", "hash": hash(reorgs.load(Ordering::SeqCst))}));
        }
        let block = &params[1];
        if block.is_object() && matches!(script.by_hash, ByHash::Refused) {
            let message = "invalid argument 1: json: cannot unmarshal object into Go value of type string";
            return Reply::Error(-32602, message.to_owned(), Value::Null);
        }
        let read = reads.fetch_add(1, Ordering::SeqCst) + 1;
        let again = script.every.is_some_and(|every| read > script.at && (read - script.at).is_multiple_of(every));
        if read == script.at || again {
            reorgs.fetch_add(1, Ordering::SeqCst);
        }
        let reorgs = reorgs.load(Ordering::SeqCst);
        if block.is_object() && block["blockHash"] != json!(hash(reorgs)) {
            return match script.by_hash {
                ByHash::HeaderNotFound => Reply::Error(-32000, "header not found".to_owned(), Value::Null),
                _ => Reply::Error(-32000, "hash is not currently canonical".to_owned(), Value::Null),
            };
        }
        match method {
            "eth_getCode" => Reply::Result(json!("0x6001")),
            "eth_call" => Reply::Result(json!((script.call)(reorgs))),
            other => panic!("{other} is not asked"),
        }
    })
    .await
}

fn polygon(nodes: &[&FakeNode]) -> ChainConfig {
    let mut config = config(nodes);
    config.network = Network::find("polygon").expect("listed").clone();
    config
}

fn chain(node: &FakeNode) -> Chain {
    Chain::lazy(polygon(&[node])).expect("a client")
}

async fn read(node: &FakeNode, signed: bool) -> FnsRead {
    let signed = signed.then_some((B256::ZERO, &[1_u8; 65][..]));
    Fns::new(chain(node)).expect("Polygon").read(U256::from(1), signed).await
}

const MODES: [ByHash; 3] = [ByHash::Known, ByHash::Refused, ByHash::HeaderNotFound];

// req: AGT-020
#[tokio::test]
async fn a_reorg_between_reads_is_read_again() {
    for by_hash in MODES {
        // Between the code and the holder, after the holder, and after the code of the holder.
        for (at, signed) in [(2, false), (3, true), (4, true)] {
            let node = node(Script { by_hash, at, every: None, call: owner_of }).await;
            let read = read(&node, signed).await;
            assert_eq!(read.holder.expect("the second try"), Holder::Account(AFTER), "read {at}");
            assert_eq!((read.block, read.block_hash), (Some(100), Some(hash(1))));
        }
    }
}

// req: AGT-020
#[tokio::test]
async fn a_second_reorg_is_no_answer_about_the_name() {
    for by_hash in MODES {
        let node = node(Script { by_hash, at: 2, every: Some(1), call: owner_of }).await;
        let read = read(&node, true).await;
        assert_eq!(read.holder.expect_err("no answer").code().id(), "chain.reorg");
        assert_eq!((read.block, read.block_hash), (None, None));
        assert!(read.contract.is_none());
    }
}

#[tokio::test]
async fn records_of_a_replaced_block_are_not_used() {
    for by_hash in MODES {
        // `exists` returns false on a block that is replaced right after.
        let node = node(Script { by_hash, at: 1, every: Some(1), call: |_| B256::ZERO }).await;
        let error = txt_records(&chain(&node), FNS_REGISTRY, U256::from(1)).await.expect_err("no answer");
        assert!(matches!(&error, RecordsError::Chain(error) if error.code().id() == "chain.reorg"), "{error}");
        let once = self::node(Script { by_hash, at: 1, every: None, call: |_| B256::ZERO }).await;
        let read = txt_records(&chain(&once), FNS_REGISTRY, U256::from(1)).await.expect("the second try");
        assert_eq!(read, TxtRecords::NotMinted { block: 100 });
    }
}

#[tokio::test]
async fn a_node_that_gives_a_block_two_hashes_is_not_believed() {
    // It supports reads by number only, and returns another hash of the block each time.
    let asked = Arc::new(AtomicU64::new(0));
    let liar = FakeNode::start(137, move |method, params| match method {
        "eth_getBlockByNumber" => Reply::Result(json!({"number": "0x64", "hash": hash(asked.fetch_add(1, Ordering::SeqCst))})),
        _ if params[1].is_object() => Reply::Error(-32602, "invalid params".to_owned(), Value::Null),
        "eth_getCode" => Reply::Result(json!("0x6001")),
        "eth_call" => Reply::Result(json!(AFTER.into_word())),
        other => panic!("{other} is not asked"),
    })
    .await;
    assert_eq!(read(&liar, false).await.holder.expect_err("no answer").code().id(), "chain.reorg");
    // A block with another number than the requested one.
    let other = FakeNode::start(137, |method, _| match method {
        "eth_blockNumber" => Reply::Result(json!("0x66")),
        "eth_getBlockByNumber" => Reply::Result(json!({"number": "0x63", "hash": hash(0)})),
        other => panic!("{other} is not asked"),
    })
    .await;
    let error = txt_records(&chain(&other), FNS_REGISTRY, U256::from(1)).await.expect_err("no answer");
    assert!(matches!(&error, RecordsError::Chain(error) if error.code().id() == "chain.rpc_refused"), "{error}");
}

#[tokio::test]
async fn reads_by_number_are_tried_by_hash_once() {
    let node = node(Script { by_hash: ByHash::Refused, at: u64::MAX, every: None, call: owner_of }).await;
    let fns = Fns::new(chain(&node)).expect("Polygon");
    for _ in 0..2 {
        let read = fns.read(U256::from(1), None).await;
        assert_eq!((read.holder.expect("read"), read.block_hash), (Holder::Account(BEFORE), Some(hash(0))));
    }
    let seen = node.seen();
    let by_hash = seen.iter().filter(|request| request["params"][1].is_object()).count();
    let blocks = seen.iter().filter(|request| request["method"] == "eth_getBlockByNumber").count();
    // The first read finds out by comparing the block; both reads compare it at the end.
    assert_eq!((by_hash, blocks), (1, 5));
}

#[tokio::test]
async fn nodes_agree_on_a_block_by_its_hash() {
    let quorum = async |hashes: [u64; 2]| {
        let mut nodes = Vec::new();
        for (at, reorgs) in hashes.into_iter().enumerate() {
            let start = FakeNode::start(137, move |method, _| match method {
                "eth_blockNumber" => Reply::Result(json!("0x66")),
                // Different node implementations add different fields.
                "eth_getBlockByNumber" => Reply::Result(json!({"number": "0x64", "hash": hash(reorgs), "totalDifficulty": at})),
                "eth_getCode" => Reply::Result(json!(Bytes::from_static(&[1]))),
                "eth_call" => Reply::Result(json!(BEFORE.into_word())),
                other => panic!("{other} is not asked"),
            });
            nodes.push(start.await);
        }
        let config = polygon(&nodes.iter().collect::<Vec<_>>()).with_quorum(2).expect("two nodes");
        let read = Fns::new(Chain::lazy(config).expect("a client")).expect("Polygon").read(U256::from(1), None).await;
        read.holder.map_err(|error| error.code().id())
    };
    assert_eq!(quorum([0, 0]).await, Ok(Holder::Account(BEFORE)));
    assert_eq!(quorum([0, 1]).await, Err("chain.no_quorum"), "two chains");
}
