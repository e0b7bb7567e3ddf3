//! How the registry client interprets a node's responses.

use alloy_primitives::{Address, B256, Bytes, LogData, U256, address};
use alloy_sol_types::{SolCall, SolError, SolEvent, SolValue};
use futures_util::{StreamExt, TryStreamExt};
use serde_json::{Value, json};
use toolcrib_chain::Error;
use toolcrib_chain::abi::IToolRegistry;
use toolcrib_chain::registry::{AccessResult, EventFilter, Registry, RegistryEvent, Revert, ToolState};

use toolcrib_testkit::nodes::fake::{FakeNode, Reply, chain};

const ACCOUNT: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");

fn returned(bytes: impl AsRef<[u8]>) -> Reply {
    Reply::Result(json!(Bytes::copy_from_slice(bytes.as_ref())))
}

fn reverted(error: &impl SolError) -> Reply {
    Reply::Error(3, "execution reverted".to_owned(), json!(Bytes::from(error.abi_encode())))
}

async fn registry(reply: impl Fn() -> Reply + Send + Sync + 'static) -> (FakeNode, Registry) {
    let node = FakeNode::start(8453, move |_, _| reply()).await;
    let registry = Registry::of(chain(&node)).expect("listed");
    (node, registry)
}

// req: REG-004, REG-035
#[tokio::test]
async fn a_tool_is_in_one_of_three_states() {
    let id = U256::from(7);
    let config = IToolRegistry::ToolConfig {
        creator: ACCOUNT,
        metadataURI: "https://tools.example/x".to_owned(),
        manifestHash: B256::repeat_byte(1),
        accessPredicate: Address::ZERO,
    };
    let bytes = IToolRegistry::getToolConfigCall::abi_encode_returns(&config);
    let (_node, there) = registry(move || returned(&bytes)).await;
    let ToolState::Present(present) = there.tool(id).await.expect("an answer") else { panic!("not there") };
    assert_eq!((present.creator, present.access_predicate), (ACCOUNT, None));
    assert_eq!(present.metadata_uri, "https://tools.example/x");

    let (_node, gone) = registry(move || reverted(&IToolRegistry::ToolIsDeregistered { toolId: id })).await;
    assert_eq!(gone.tool(id).await.expect("an answer"), ToolState::Deregistered);
    assert_eq!(gone.config(id).await.expect_err("gone").code().id(), "chain.tool_deregistered");
    assert_eq!(gone.access(id, ACCOUNT, Bytes::new()).await.expect_err("gone").code().id(), "chain.tool_deregistered");

    let (node, never) = registry(move || reverted(&IToolRegistry::ToolNotFound { toolId: id })).await;
    assert_eq!(never.tool(id).await.expect("an answer"), ToolState::NotFound);
    assert_eq!(never.config(id).await.expect_err("never").code().id(), "chain.tool_not_found");
    let asked = node.seen().len();
    assert_eq!(never.tool(U256::ZERO).await.expect("an answer"), ToolState::NotFound);
    assert_eq!(never.access(U256::ZERO, ACCOUNT, Bytes::new()).await.expect_err("never").code().id(), "chain.tool_not_found");
    assert_eq!(node.seen().len(), asked, "id 0 is known without asking");
}

// req: REG-025, REG-026, REG-036
#[tokio::test]
async fn access_has_three_answers() {
    let check = async |bytes: Vec<u8>, expected: Result<AccessResult, &str>| {
        let (_node, registry) = registry({
            let bytes = bytes.clone();
            move || returned(&bytes)
        })
        .await;
        let access = registry.access(U256::from(7), ACCOUNT, Bytes::new()).await;
        assert_eq!(access.as_ref().map_err(|error| error.code().id()).copied(), expected, "{bytes:02x?}");
    };
    check((true, true).abi_encode(), Ok(AccessResult::Granted)).await;
    check((true, false).abi_encode(), Ok(AccessResult::Denied)).await;
    check((false, false).abi_encode(), Ok(AccessResult::Malfunction)).await;
    check((false, true).abi_encode(), Ok(AccessResult::Malfunction)).await;
    check((U256::from(2), U256::from(1)).abi_encode(), Err("chain.rpc_answer")).await;
    check((U256::from(1), U256::MAX).abi_encode(), Err("chain.rpc_answer")).await;
    check(true.abi_encode(), Err("chain.rpc_answer")).await;
    check([(true, true).abi_encode(), vec![0]].concat(), Err("chain.rpc_answer")).await;
    check(vec![], Err("chain.not_a_registry")).await;
    assert_eq!(AccessResult::Granted.code(), None);
    assert_ne!(AccessResult::Denied.code(), AccessResult::Malfunction.code(), "you do not qualify, or it is broken");
}

// req: REG-037, PRED-012
#[tokio::test]
async fn asking_for_access_sends_no_data_and_tries_twice_with_gas() {
    let (node, registry) = registry(|| Reply::Error(-32000, "out of gas".to_owned(), Value::Null)).await;
    let access = registry.access(U256::from(7), ACCOUNT, Bytes::new()).await.expect("an answer");
    assert_eq!(access, AccessResult::Malfunction, "what cannot be computed is not granted");
    let seen = node.seen();
    let gas = |at: usize| {
        U256::from_str_radix(seen[at]["params"][0]["gas"].as_str().expect("gas").trim_start_matches("0x"), 16).expect("a number")
    };
    assert!(seen.len() == 2 && gas(1) > gas(0), "{seen:?}");
    let input: Bytes = serde_json::from_value(seen[0]["params"][0]["input"].clone()).expect("bytes");
    let call = IToolRegistry::tryHasAccessCall::abi_decode(&input).expect("the call");
    assert!(call.data.is_empty());
}

// req: REG-014
#[tokio::test]
async fn an_unknown_refusal_of_a_call_that_stores_a_predicate_is_about_the_predicate() {
    let (_node, registry) = registry(|| returned([])).await;
    let predicate = Address::repeat_byte(5);
    let unknown = || Error::Reverted(Revert::Unknown(vec![0xde, 0xad, 0xbe, 0xef].into()));
    let (uri, hash, id) = ("https://tools.example/x", B256::repeat_byte(1), U256::from(7));
    for call in [registry.register(uri, hash, Some(predicate)), registry.set_predicate(id, Some(predicate))] {
        let error = registry.explain_refusal(&call, unknown());
        assert_eq!(error.code().id(), "chain.predicate_refused");
        assert!(error.to_string().contains("0xdeadbeef") && error.to_string().contains(&predicate.to_string()), "{error}");
        // Known errors and empty reverts stay unchanged.
        let known = registry.explain_refusal(&call, Error::Reverted(Revert::InvalidMetadataUri));
        assert_eq!(known.code().id(), "chain.uri_refused");
        let silent = registry.explain_refusal(&call, Error::Reverted(Revert::Unknown(Bytes::new())));
        assert_eq!(silent.code().id(), "chain.reverted");
    }
    for call in [registry.register(uri, hash, None), registry.set_predicate(id, None), registry.update(id, uri, hash)] {
        assert_eq!(registry.explain_refusal(&call, unknown()).code().id(), "chain.reverted", "no predicate is stored");
    }
    let mut elsewhere = registry.register(uri, hash, Some(predicate));
    elsewhere.to = Address::repeat_byte(6);
    assert_eq!(registry.explain_refusal(&elsewhere, unknown()).code().id(), "chain.reverted");
}

// req: REG-006, REG-045
#[tokio::test]
async fn a_registry_with_a_smaller_cap_or_a_fee_refuses_in_its_own_words() {
    let refusing = |error: Bytes| async move {
        let node = FakeNode::start(8453, move |method, _| match method {
            "eth_getTransactionCount" => Reply::Result(json!("0x0")),
            _ => Reply::Error(3, "execution reverted".to_owned(), json!(error.clone())),
        })
        .await;
        (Registry::of(chain(&node)).expect("listed"), node)
    };
    // A cap of 512 bytes is up to the registry; the client accepts everything up to 2,048.
    let (registry, _node) = refusing(IToolRegistry::InvalidMetadataURI {}.abi_encode().into()).await;
    let call = registry.register(&format!("https://tools.example/{}", "x".repeat(491)), B256::repeat_byte(1), None);
    let error = registry.chain().prepare(ACCOUNT, &call).await.expect_err("refused");
    assert_eq!(error.code().id(), "chain.uri_refused");

    let (registry, node) = refusing(alloy_sol_types::Revert::from("fee is 5 wei").abi_encode().into()).await;
    let mut call = registry.register("https://tools.example/x", B256::repeat_byte(1), None);
    assert_eq!(call.value, U256::ZERO, "nothing is paid unless somebody says so");
    let error = registry.chain().prepare(ACCOUNT, &call).await.expect_err("refused");
    assert!(error.code().id() == "chain.reverted" && error.to_string().contains("fee is 5 wei"), "{error}");
    call.value = U256::from(5);
    registry.chain().prepare(ACCOUNT, &call).await.expect_err("refused all the same");
    let seen = node.seen();
    let values: Vec<_> = seen
        .iter()
        .filter(|request| request["method"] == "eth_estimateGas")
        .map(|request| request["params"][0]["value"].clone())
        .collect();
    assert_eq!(values.last(), Some(&json!("0x5")), "{seen:?}");
}

// req: REG-016
#[tokio::test]
async fn a_registry_with_another_interface_is_said_to_be_one() {
    // It responds to every call, but claims no interface.
    let node = FakeNode::start(8453, |method, _| match method {
        "eth_getCode" => Reply::Result(json!("0x60006000fd")),
        "eth_getStorageAt" => Reply::Result(json!(B256::ZERO)),
        _ => returned([0; 32]),
    })
    .await;
    let report = Registry::of(chain(&node)).expect("listed").inspect().await.expect("a report");
    assert_eq!(report.codes().iter().map(|code| code.id()).collect::<Vec<_>>(), ["chain.registry_interface"]);
}

#[tokio::test]
async fn a_stranger_at_the_address_is_not_a_registry() {
    let (_node, nobody) = registry(|| returned([])).await;
    assert_eq!(nobody.tool_count().await.expect_err("nobody").code().id(), "chain.not_a_registry");
    let (_node, stranger) = registry(|| returned([7; 33])).await;
    assert_eq!(stranger.tool(U256::from(1)).await.expect_err("stranger").code().id(), "chain.rpc_answer");
    // A URI far beyond the limit is not read.
    let config = IToolRegistry::ToolConfig {
        creator: ACCOUNT,
        metadataURI: "x".repeat(100_000),
        manifestHash: B256::ZERO,
        accessPredicate: Address::ZERO,
    };
    let bytes = IToolRegistry::getToolConfigCall::abi_encode_returns(&config);
    let (_node, flood) = registry(move || returned(&bytes)).await;
    assert_eq!(flood.tool(U256::from(1)).await.expect_err("flood").code().id(), "chain.rpc_answer");
}

fn log(address: Address, data: &LogData, block: u64, index: u64) -> Value {
    json!({
        "address": address, "topics": data.topics(), "data": data.data, "blockNumber": format!("{block:#x}"),
        "blockHash": B256::repeat_byte(3), "transactionHash": B256::repeat_byte(4), "transactionIndex": "0x0",
        "logIndex": format!("{index:#x}"), "removed": false,
    })
}

// req: REG-023, VEC-010
#[tokio::test]
async fn logs_become_events() {
    let registered = IToolRegistry::ToolRegistered {
        toolId: U256::from(1),
        creator: ACCOUNT,
        accessPredicate: Address::repeat_byte(5),
        metadataURI: "https://tools.example/x".to_owned(),
        manifestHash: B256::repeat_byte(1),
    };
    let updated =
        IToolRegistry::ToolMetadataUpdated { toolId: U256::from(1), newURI: "u".to_owned(), newHash: B256::repeat_byte(2) };
    let gate = IToolRegistry::AccessPredicateUpdated { toolId: U256::from(1), newPredicate: Address::ZERO };
    let gone = IToolRegistry::ToolDeregistered { toolId: U256::from(1) };
    let ours = toolcrib_chain::network::Network::find("base").expect("listed").registry.expect("listed");
    let foreign = LogData::new_unchecked(vec![B256::repeat_byte(9)], Bytes::new());
    let mut taken_back = log(ours, &gone.encode_log_data(), 12, 4);
    taken_back["removed"] = json!(true);
    let logs = json!([
        log(ours, &gate.encode_log_data(), 12, 1),
        log(ours, &registered.encode_log_data(), 11, 5),
        log(ours, &updated.encode_log_data(), 12, 0),
        log(ours, &foreign, 12, 2),
        log(Address::repeat_byte(8), &gone.encode_log_data(), 12, 3),
        taken_back,
        log(ours, &gone.encode_log_data(), 99_999, 0),
        log(ours, &gone.encode_log_data(), 13, 0),
    ]);
    let (node, registry) = registry(move || Reply::Result(logs.clone())).await;
    let filter = EventFilter { id: Some(U256::from(1)), creator: Some(ACCOUNT) };
    let pages: Vec<_> = registry.events(10, 20, filter).try_collect().await.expect("pages");
    let events: Vec<_> = pages.iter().flat_map(|page| &page.events).map(|logged| logged.event.clone()).collect();
    assert_eq!(
        events,
        [
            RegistryEvent::Registered {
                id: U256::from(1),
                creator: ACCOUNT,
                predicate: Address::repeat_byte(5),
                uri: "https://tools.example/x".to_owned(),
                hash: B256::repeat_byte(1)
            },
            RegistryEvent::MetadataUpdated { id: U256::from(1), uri: "u".to_owned(), hash: B256::repeat_byte(2) },
            RegistryEvent::PredicateUpdated { id: U256::from(1), predicate: Address::ZERO },
            RegistryEvent::Deregistered { id: U256::from(1) },
        ]
    );
    let topics = &node.seen()[0]["params"][0]["topics"];
    assert_eq!(topics, &json!([IToolRegistry::ToolRegistered::SIGNATURE_HASH, B256::with_last_byte(1), ACCOUNT.into_word()]));
}

#[tokio::test]
async fn a_log_with_our_topic_and_another_layout_is_an_error() {
    let ours = toolcrib_chain::network::Network::find("base").expect("listed").registry.expect("listed");
    let data = LogData::new_unchecked(vec![IToolRegistry::ToolRegistered::SIGNATURE_HASH], Bytes::new());
    let logs = json!([log(ours, &data, 10, 0)]);
    let (_node, registry) = registry(move || Reply::Result(logs.clone())).await;
    let error = registry.events(10, 10, EventFilter::default()).try_collect::<Vec<_>>().await.expect_err("malformed");
    assert_eq!(error.code().id(), "chain.event_malformed");
}

#[tokio::test]
async fn pages_shrink_until_the_node_is_content_and_cover_every_block_once() {
    // A node that allows ranges of a hundred blocks, and reports longer ones with the error code of a rate limit.
    let node = FakeNode::start(8453, |_, params| {
        let number = |key: &str| {
            u64::from_str_radix(params[0][key].as_str().expect("a number").trim_start_matches("0x"), 16).expect("hex")
        };
        if number("toBlock") - number("fromBlock") >= 100 {
            Reply::Error(-32005, "block range is too large".to_owned(), Value::Null)
        } else {
            Reply::Result(json!([]))
        }
    })
    .await;
    let registry = Registry::of(chain(&node)).expect("listed");
    let pages: Vec<_> = registry.events(5, 1_004, EventFilter::default()).map(|page| page.expect("a page")).collect().await;
    let mut next = 5;
    for page in &pages {
        assert_eq!(page.from, next);
        assert!(page.to >= page.from && page.to - page.from < 100);
        next = page.to + 1;
    }
    assert_eq!(next, 1_005);
    let (_node, stubborn) = registry_that_refuses().await;
    let error: Error =
        stubborn.events(0, 10_000, EventFilter::default()).try_collect::<Vec<_>>().await.expect_err("never content");
    assert_eq!(error.code().id(), "chain.rpc_refused");
}

async fn registry_that_refuses() -> (FakeNode, Registry) {
    registry(|| Reply::Error(-32602, "query returned more than 10000 results".to_owned(), Value::Null)).await
}
