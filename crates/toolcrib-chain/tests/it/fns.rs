//! The name registry behind nodes that respond, fail, lie and disagree.

use alloy_primitives::{Address, B256, Bytes, U256, address, b256};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use toolcrib_chain::fns::{ContractAnswer, FNS_REGISTRY, Fns, Holder, ReadHeight};
use toolcrib_chain::network::Network;
use toolcrib_chain::rpc::{Chain, ChainConfig};

use toolcrib_testkit::nodes::fake::{FakeNode, Reply, config};

const TOKEN: U256 = U256::from_be_bytes(b256!("83a287e66590d5365701d1345f59a53cc04197e83a2cde96935cf2b6b48f8922").0);
const HOLDER: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
const DIGEST: B256 = B256::repeat_byte(7);

fn polygon(nodes: &[&FakeNode]) -> ChainConfig {
    let mut config = config(nodes);
    config.network = Network::find("polygon").expect("listed").clone();
    config
}

fn fns(nodes: &[&FakeNode]) -> Fns {
    Fns::new(Chain::lazy(polygon(nodes)).expect("a client")).expect("Polygon")
}

fn hex(bytes: impl AsRef<[u8]>) -> Reply {
    Reply::Result(json!(Bytes::copy_from_slice(bytes.as_ref())))
}

fn held_by(account: Address) -> Reply {
    hex(account.into_word())
}

fn hash(number: u64) -> B256 {
    B256::left_padding_from(&number.to_be_bytes())
}

/// The fields of a block that are read.
fn block(tag: &str, height: u64) -> Reply {
    let number = if tag == "latest" { height } else { u64::from_str_radix(tag.trim_start_matches("0x"), 16).expect("a number") };
    if number > height {
        return Reply::Result(Value::Null);
    }
    Reply::Result(json!({"number": format!("{number:#x}"), "hash": hash(number)}))
}

/// The block parameter of a read by hash.
fn by_hash(number: u64) -> Value {
    json!({"blockHash": hash(number), "requireCanonical": true})
}

/// A node at block 100 with code at every address, which responds to calls with `call`.
async fn node(call: impl Fn(Address) -> Reply + Send + Sync + 'static) -> FakeNode {
    node_at(100, |_| hex([0x60, 0x01]), call).await
}

async fn node_at(
    height: u64,
    code: impl Fn(Address) -> Reply + Send + Sync + 'static,
    call: impl Fn(Address) -> Reply + Send + Sync + 'static,
) -> FakeNode {
    let to = |text: &Value| text.as_str().expect("an address").parse::<Address>().expect("an address");
    FakeNode::start(137, move |method, params| match method {
        "eth_blockNumber" => Reply::Result(json!(format!("{height:#x}"))),
        "eth_getBlockByNumber" => block(params[0].as_str().expect("a block"), height),
        "eth_getCode" => code(to(&params[0])),
        "eth_call" => call(to(&params[0]["to"])),
        other => panic!("{other} is not asked"),
    })
    .await
}

async fn holder(reply: impl Fn() -> Reply + Send + Sync + 'static) -> Result<Holder, &'static str> {
    let node = node(move |_| reply()).await;
    fns(&[&node]).read(TOKEN, None).await.holder.map_err(|error| error.code().id())
}

// req: AGT-020
#[tokio::test]
async fn the_registry_answers_about_the_name() {
    assert_eq!(holder(|| held_by(HOLDER)).await, Ok(Holder::Account(HOLDER)));
    assert_eq!(holder(|| hex([0; 32])).await, Ok(Holder::NotMinted));
    let revert = |data: Value| move || Reply::Error(3, "execution reverted".to_owned(), data.clone());
    assert_eq!(holder(revert(json!("0x7e273289"))).await, Ok(Holder::NotMinted));
    assert_eq!(holder(revert(Value::Null)).await, Ok(Holder::NotMinted));
    let plain = || Reply::Error(-32000, "execution reverted: ERC721: invalid token ID".to_owned(), Value::Null);
    assert_eq!(holder(plain).await, Ok(Holder::NotMinted));
    for bytes in [vec![], vec![0x11; 20], vec![0x11; 31], vec![0x11; 33], vec![0x11; 32], vec![0; 64], vec![0; 5_000]] {
        let length = bytes.len();
        assert!(matches!(holder(move || hex(&bytes)).await, Ok(Holder::Malformed { .. })), "{length} bytes");
    }
}

// req: AGT-020
#[tokio::test]
async fn what_a_node_does_is_never_an_answer_about_the_name() {
    let error = |code: i64, message: &'static str| move || Reply::Error(code, message.to_owned(), Value::Null);
    assert_eq!(holder(|| Reply::HangUp).await, Err("chain.rpc_unreachable"));
    assert_eq!(holder(|| Reply::Http(503, Vec::new())).await, Err("chain.rpc_unreachable"));
    assert_eq!(holder(|| Reply::Http(429, Vec::new())).await, Err("chain.rpc_rate_limited"));
    assert_eq!(holder(error(-32005, "daily request count exceeded")).await, Err("chain.rpc_rate_limited"));
    // alloy retries this error like rate limits: a node behind a load balancer may not have the block yet.
    assert_eq!(holder(error(-32000, "header not found")).await, Err("chain.rpc_rate_limited"));
    assert_eq!(holder(error(-32000, "missing trie node")).await, Err("chain.rpc_refused"));
    assert_eq!(holder(error(-32000, "execution aborted (timeout = 5s)")).await, Err("chain.rpc_refused"));
    assert_eq!(holder(|| Reply::Result(json!("not hex"))).await, Err("chain.rpc_answer"));
    assert_eq!(holder(|| Reply::Http(200, b"<html>".to_vec())).await, Err("chain.rpc_answer"));
    let started = Instant::now();
    assert_eq!(holder(|| Reply::Silence(Duration::from_secs(30))).await, Err("chain.rpc_timeout"));
    toolcrib_testkit::assert_not_hung(started, "silence");

    let dead = FakeNode::start(137, |_, _| Reply::HangUp).await;
    let read = fns(&[&dead]).read(TOKEN, None).await;
    assert_eq!((read.block, read.holder.expect_err("dead").code().id()), (None, "chain.rpc_unreachable"));
}

#[tokio::test]
async fn a_registry_without_code_is_not_called() {
    let node = node_at(100, |_| hex([]), |_| held_by(HOLDER)).await;
    let read = fns(&[&node]).read(TOKEN, None).await;
    assert_eq!(read.holder.expect("an answer"), Holder::NoCode);
    assert!(node.seen().iter().all(|request| request["method"] != "eth_call"));
}

// req: AGT-020
#[tokio::test]
async fn only_polygon_counts() {
    let binance = FakeNode::start(56, |_, _| panic!("nothing but the chain number is asked")).await;
    let read = fns(&[&binance]).read(TOKEN, None).await;
    assert_eq!(read.holder.expect_err("another chain").code().id(), "chain.wrong_chain");
    let base = Chain::lazy(config(&[&binance])).expect("a client");
    assert_eq!(Fns::new(base.clone()).expect_err("Base").code().id(), "chain.wrong_chain");
    assert_eq!(Fns::at(base, HOLDER).registry(), HOLDER, "tests may use another");
}

#[tokio::test]
async fn all_reads_are_made_at_one_block() {
    let node = node(|to| if to == FNS_REGISTRY { held_by(HOLDER) } else { hex([0; 32]) }).await;
    let read = fns(&[&node]).read(TOKEN, Some((DIGEST, &[1; 65]))).await;
    assert_eq!((read.block, read.block_hash), (Some(100), Some(hash(100))));
    let seen = node.seen();
    assert_eq!((&seen[0]["method"], &seen[0]["params"][0]), (&json!("eth_getBlockByNumber"), &json!("latest")));
    let blocks: Vec<_> = seen.iter().skip(1).map(|request| request["params"][1].clone()).collect();
    assert_eq!(blocks, vec![by_hash(100); 4], "code, holder, code of the holder, signature");
    let gas = |request: &Value| request["params"][0]["gas"].as_str().is_some();
    assert!(seen.iter().filter(|request| request["method"] == "eth_call").all(gas), "gas is bounded");
}

#[tokio::test]
async fn one_lying_node_decides_nothing() {
    let honest = || node(|_| held_by(HOLDER));
    let (one, two) = (honest().await, honest().await);
    let liar = node(|_| held_by(Address::repeat_byte(0xbb))).await;
    let agreed = async |nodes: &[&FakeNode]| {
        let chain = Chain::lazy(polygon(nodes).with_quorum(2).expect("enough")).expect("a client");
        let read = Fns::new(chain).expect("Polygon").read(TOKEN, None).await;
        (read.block, read.holder.map_err(|error| error.code().id()))
    };
    assert_eq!(agreed(&[&liar, &one, &two]).await, (Some(98), Ok(Holder::Account(HOLDER))));
    assert_eq!(agreed(&[&liar, &one]).await.1, Err("chain.no_quorum"), "disagreement is no verdict");
    let denies = node(|_| Reply::Error(3, "execution reverted".to_owned(), Value::Null)).await;
    assert_eq!(agreed(&[&denies, &one]).await.1, Err("chain.no_quorum"));
    // A node that returns an old block as the newest must not lead the others to a past owner, nor to a block that they do not have.
    for height in [3, 1_000_000] {
        let liar = node_at(height, |_| hex([1]), |_| held_by(HOLDER)).await;
        assert_eq!(agreed(&[&liar, &one, &two]).await, (Some(98), Ok(Holder::Account(HOLDER))), "height {height}");
    }
    let dead = FakeNode::start(137, |_, _| Reply::HangUp).await;
    assert_eq!(agreed(&[&dead, &one, &two]).await, (Some(98), Ok(Holder::Account(HOLDER))));
    assert_eq!(agreed(&[&dead, &one]).await.1, Err("chain.no_quorum"));
}

#[tokio::test]
async fn the_finalized_block_can_be_read_instead() {
    let finalized = async |header: Value| {
        let node = FakeNode::start(137, move |method, params| match method {
            "eth_getBlockByNumber" if params[0] == "finalized" => Reply::Result(header.clone()),
            "eth_getCode" => hex([1]),
            "eth_call" => held_by(HOLDER),
            other => panic!("{other} is not asked"),
        })
        .await;
        let read = fns(&[&node]).with_height(ReadHeight::Finalized).read(TOKEN, None).await;
        (read.block, read.holder.map_err(|error| error.code().id()))
    };
    let header = json!({"number": "0x50", "hash": hash(0x50), "parentHash": B256::ZERO, "timestamp": "0x1"});
    assert_eq!(finalized(header).await, (Some(0x50), Ok(Holder::Account(HOLDER))));
    assert_eq!(finalized(Value::Null).await, (None, Err("chain.rpc_refused")), "the newest is not taken in its place");
}

async fn contract(code: &'static [u8], reply: fn() -> Reply) -> Result<ContractAnswer, &'static str> {
    let code_at = move |account| if account == FNS_REGISTRY { hex([1]) } else { hex(code) };
    let call = move |to| if to == FNS_REGISTRY { held_by(HOLDER) } else { reply() };
    let node = node_at(100, code_at, call).await;
    let read = fns(&[&node]).read(TOKEN, Some((DIGEST, &[1; 65]))).await;
    assert_eq!(read.holder.expect("an answer"), Holder::Account(HOLDER));
    read.contract.expect("asked").map_err(|error| error.code().id())
}

fn agreed_value(tail: u8) -> [u8; 32] {
    let mut word = [0; 32];
    word[..4].copy_from_slice(&[0x16, 0x26, 0xba, 0x7e]);
    word[31] = tail;
    word
}

#[tokio::test]
async fn contracts_are_asked_by_erc_1271() {
    use ContractAnswer::*;
    let unasked: fn() -> Reply = || panic!("an account without a contract is not asked");
    assert_eq!(contract(&[], unasked).await, Ok(NotAContract));
    assert_eq!(
        contract(&[0xef, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20], unasked).await,
        Ok(NotAContract)
    );
    assert_eq!(contract(&[1], || hex(agreed_value(0))).await, Ok(Accepted));
    assert_eq!(contract(&[1], || hex(agreed_value(1))).await, Ok(Rejected), "a dirty word");
    assert_eq!(contract(&[1], || hex(&agreed_value(0)[..4])).await, Ok(Rejected), "too short");
    assert_eq!(contract(&[1], || hex([agreed_value(0), [0; 32]].concat())).await, Ok(Rejected), "too long");
    assert_eq!(contract(&[1], || hex([0xff; 32])).await, Ok(Rejected));
    assert_eq!(contract(&[1], || hex([0; 100_000])).await, Ok(Rejected), "a flood");
    assert_eq!(contract(&[1], || Reply::Error(3, "execution reverted".to_owned(), Value::Null)).await, Ok(Rejected));
    assert_eq!(contract(&[1], || Reply::Error(-32000, "out of gas".to_owned(), Value::Null)).await, Ok(Rejected));
    assert_eq!(contract(&[1], || Reply::HangUp).await, Err("chain.rpc_unreachable"));
    assert_eq!(
        contract(&[1], || Reply::Error(-32000, "execution aborted".to_owned(), Value::Null)).await,
        Err("chain.rpc_refused")
    );
}
