//! Nodes that fail, lie, stall, flood or disagree.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use alloy_primitives::{Address, U256};
use serde_json::{Value, json};
use toolcrib_chain::network::Network;
use toolcrib_chain::registry::Registry;
use toolcrib_chain::rpc::{BoundedCall, CallOutcome, Chain, ChainConfig};
use toolcrib_chain::{Error, wallet::DEV_ACCOUNTS};

use toolcrib_testkit::nodes::fake::{FakeNode, Reply, chain, config};

fn block() -> Reply {
    Reply::Result(json!("0x64"))
}

async fn node(reply: impl Fn() -> Reply + Send + Sync + 'static) -> FakeNode {
    FakeNode::start(8453, move |_, _| reply()).await
}

#[track_caller]
fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> &'static str {
    result.map_or_else(|error| error.code().id(), |value| panic!("no error but {value:?}"))
}

#[tokio::test]
async fn a_node_on_another_chain_is_an_error() {
    let wrong = FakeNode::start(1, |_, _| block()).await;
    let error = Chain::connect(config(&[&wrong])).await.expect_err("another chain");
    assert_eq!(error.code().id(), "chain.wrong_chain");
    assert!(error.to_string().contains("chain id 1, expected 8453"), "{error}");
    assert!(!error.is_retryable());
    assert!(wrong.seen().is_empty(), "nothing but its number is asked of it");
}

#[tokio::test]
async fn a_second_node_on_another_chain_is_found_out_when_it_is_needed() {
    let down = node(|| Reply::HangUp).await;
    let wrong = FakeNode::start(1, |_, _| block()).await;
    assert_eq!(code(Chain::connect(config(&[&down, &wrong])).await), "chain.wrong_chain");
}

#[tokio::test]
async fn the_next_node_answers_when_one_is_down() {
    for fault in [
        || Reply::HangUp,
        || Reply::Http(503, Vec::new()),
        || Reply::Http(429, Vec::new()),
        || Reply::Silence(Duration::from_secs(2)),
    ] {
        let down = node(fault).await;
        let up = node(block).await;
        let chain = Chain::connect(config(&[&down, &up])).await.expect("the second answers");
        assert_eq!(chain.block_number().await.expect("a number"), 100);
        assert_eq!(down.seen().len(), 1, "a node that failed is not asked again while another answers");
    }
}

#[tokio::test]
async fn a_node_that_recovers_is_asked_again() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let shaky = node(|| if ASKED.fetch_add(1, Ordering::SeqCst) < 2 { Reply::Http(429, Vec::new()) } else { block() }).await;
    Chain::connect(config(&[&shaky])).await.expect("the third attempt succeeds");
}

#[tokio::test]
async fn faults_have_codes_and_end() {
    let check = async |reply: fn() -> Reply, expected: &str, attempts: usize| {
        let node = node(reply).await;
        let started = Instant::now();
        assert_eq!(code(chain(&node).block_number().await), expected);
        assert_eq!(node.seen().len(), attempts, "{expected}");
        toolcrib_testkit::assert_not_hung(started, expected);
    };
    check(|| Reply::HangUp, "chain.rpc_unreachable", 4).await;
    check(|| Reply::Http(502, b"<html>".to_vec()), "chain.rpc_unreachable", 4).await;
    check(|| Reply::Http(429, Vec::new()), "chain.rpc_rate_limited", 4).await;
    check(
        || Reply::Error(-32005, "daily request count exceeded, request rate limited".into(), Value::Null),
        "chain.rpc_rate_limited",
        4,
    )
    .await;
    check(|| Reply::Silence(Duration::from_secs(60)), "chain.rpc_timeout", 4).await;
    check(|| Reply::Http(200, b"<html>captive portal</html>".to_vec()), "chain.rpc_answer", 1).await;
    check(|| Reply::Http(302, Vec::new()), "chain.rpc_answer", 1).await;
    check(|| Reply::Http(401, b"no key".to_vec()), "chain.rpc_answer", 1).await;
    check(|| Reply::Result(json!("not a number")), "chain.rpc_answer", 1).await;
    check(|| Reply::Error(-32601, "no such method".into(), Value::Null), "chain.rpc_refused", 1).await;
}

#[tokio::test]
async fn nobody_at_the_port_is_unreachable_and_names_no_secret() {
    let network = Network::find("base").expect("listed");
    let mut config = ChainConfig::from_setting(network, Some("http://127.0.0.1:9/secret-key")).expect("a URL");
    config.retries.first_pause = Duration::from_millis(1);
    config.retries.longest_pause = Duration::from_millis(1);
    let error = Chain::connect(config).await.expect_err("nobody there");
    assert_eq!(error.code().id(), "chain.rpc_unreachable");
    assert!(error.is_retryable());
    assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
}

#[tokio::test]
async fn large_answers_are_cut_off_while_they_are_read() {
    let flood = node(|| Reply::Endless).await;
    let started = Instant::now();
    let error = chain(&flood).block_number().await.expect_err("endless");
    assert_eq!(error.code().id(), "chain.rpc_answer_too_large");
    toolcrib_testkit::assert_not_hung(started, "an endless answer");
    let honest = node(|| Reply::Result(json!(format!("0x{}", "00".repeat(1_000_000))))).await;
    let call = BoundedCall { to: Address::ZERO, data: Default::default(), from: None, gas: None, max_bytes: 32 };
    assert_eq!(chain(&honest).call(&call).await.expect("an outcome"), CallOutcome::TooLarge);
    let call = BoundedCall { max_bytes: 1_000_000, ..call };
    assert!(matches!(chain(&honest).call(&call).await, Ok(CallOutcome::Returned(bytes)) if bytes.len() == 1_000_000));
}

// req: HARDEN-016
#[tokio::test]
async fn a_contract_cannot_pass_for_a_busy_node() {
    let revert = |message: &'static str, number| move || Reply::Error(number, message.to_owned(), json!("0x"));
    let call = BoundedCall { to: Address::ZERO, data: Default::default(), from: None, gas: Some(30_000), max_bytes: 32 };
    let hostile = node(revert("execution reverted: rate limit exceeded, too many requests", 3)).await;
    assert!(matches!(chain(&hostile).call(&call).await, Ok(CallOutcome::Reverted(_))));
    assert_eq!(hostile.seen().len(), 1, "a revert is no reason to ask again");
    assert_eq!(hostile.seen()[0]["params"][0]["gas"], json!(format!("{:#x}", 30_000 + 24_000)), "gas is always given");
    let burner = node(revert("out of gas", -32000)).await;
    assert!(matches!(chain(&burner).call(&call).await, Ok(CallOutcome::Halted(_))));
    let node_fault = node(revert("missing trie node", -32000)).await;
    assert_eq!(code(chain(&node_fault).call(&call).await), "chain.rpc_refused");
}

#[tokio::test]
async fn requests_keep_their_distance() {
    let node = node(block).await;
    let mut config = config(&[&node]);
    config.requests_per_second = Some(50);
    let chain = Chain::lazy(config).expect("a client");
    let started = Instant::now();
    for _ in 0..5 {
        chain.block_number().await.expect("a number");
    }
    // Six requests including the one for the chain id, so five gaps of 20 ms.
    assert!(started.elapsed() >= Duration::from_millis(100), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_quorum_needs_enough_equal_answers() {
    let says = async |count: u64| {
        FakeNode::start(8453, move |method, _| match method {
            "eth_blockNumber" => block(),
            _ => Reply::Result(json!(format!("{:#066x}", U256::from(count)))),
        })
        .await
    };
    let count = async |nodes: &[&FakeNode], needed| {
        let chain = Chain::lazy(config(nodes).with_quorum(needed).expect("enough nodes")).expect("a client");
        Registry::of(chain).expect("listed").tool_count().await
    };
    let (one, two, other) = (says(7).await, says(7).await, says(8).await);
    assert_eq!(count(&[&one, &other, &two], 2).await.expect("two agree"), U256::from(7));
    assert_eq!(two.seen()[1]["params"][1], json!("0x62"), "all are asked about the same block");
    assert_eq!(code(count(&[&one, &other, &two], 3).await), "chain.no_quorum");
    assert_eq!(code(count(&[&one, &other], 2).await), "chain.no_quorum");
    assert_eq!(code(count(&[&one, &other], 1).await), "chain.no_quorum", "a split vote is none");
    let down = node(|| Reply::HangUp).await;
    assert_eq!(count(&[&one, &down, &two], 2).await.expect("two of three"), U256::from(7));
    let wrong = FakeNode::start(1, |_, _| block()).await;
    assert_eq!(code(count(&[&one, &two, &wrong], 2).await), "chain.wrong_chain", "a node on another chain is not outvoted");
    assert!(config(&[&one]).with_quorum(2).is_err(), "more than there are nodes");
}

#[test]
fn settings_name_both_ways_when_there_is_no_node() {
    let unlisted = Network::unlisted(999);
    let error = ChainConfig::from_setting(&unlisted, None).expect_err("no node");
    assert_eq!(error.code().id(), "chain.no_rpc");
    assert!(error.to_string().contains("--rpc-url") && error.to_string().contains("RPC_URL"), "{error}");
    let base = Network::find("base").expect("listed");
    let config = ChainConfig::from_setting(base, None).expect("the public node");
    assert!(config.is_public_default && config.requests_per_second.is_some());
    let config = ChainConfig::from_setting(base, Some("https://a.example, https://b.example")).expect("two");
    assert_eq!((config.nodes.len(), config.is_public_default), (2, false));
    assert_eq!(code(ChainConfig::from_setting(base, Some("https://a.example,nonsense"))), "chain.rpc_url");
    assert!(!ChainConfig::public(Network::find("local").expect("listed")).expect("a node").is_public_default);
    assert_eq!(DEV_ACCOUNTS.len(), 10);
}

#[tokio::test]
async fn one_node_is_asked_alone_and_no_other_answers_for_it() {
    let says = |code: &'static str| FakeNode::start(8_453, move |_, _| Reply::Result(json!(code)));
    let (first, second) = (says("0x01").await, says("0x02").await);
    let down = FakeNode::start(8_453, |_, _| Reply::Http(503, Vec::new())).await;
    let chain = Chain::lazy(config(&[&first, &second, &down])).expect("a client");
    assert_eq!(chain.node_count(), 3);
    let code = async |node: usize| chain.through(node).code(Address::ZERO).await;
    for (node, expected) in [(0, 1), (1, 2), (4, 2)] {
        assert_eq!(code(node).await.expect("code")[..], [expected]);
    }
    assert_eq!(code(2).await.expect_err("it is down").code().id(), "chain.rpc_unreachable");
    // Requests to one node do not change which one is preferred.
    assert_eq!(chain.code(Address::ZERO).await.expect("code")[..], [1]);
}
