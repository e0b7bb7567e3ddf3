//! Logs: queried, polled, and pushed.

use std::time::Duration;

use alloy_network::TransactionBuilder;
use alloy_primitives::{Address, B256, U256};
use alloy_provider::Provider;
use alloy_rpc_types_eth::{Filter, Log};
use futures_util::StreamExt;
use serde_json::{Value, json};
use toolcrib_devchain::limits::{MAX_FILTER_ALTERNATIVES, MAX_FILTERS, MAX_SUBSCRIPTIONS};

use crate::support::*;

fn topic(value: u64) -> B256 {
    U256::from(value).into()
}

#[tokio::test]
async fn logs_are_found_by_address_topic_and_range() {
    let chain = chain().await;
    let client = client(&chain);
    let logger = deploy_logger(&client).await;
    for value in 1..=3 {
        send(&client, from(0).with_to(logger).with_input(word(value))).await;
    }
    let count = async |filter: Filter| client.get_logs(&filter).await.unwrap().len();
    let all = Filter::new().from_block(0);
    assert_eq!(count(all.clone()).await, 3);
    assert_eq!(count(Filter::new()).await, 1, "without a range: the newest block");
    assert_eq!(count(all.clone().address(logger)).await, 3);
    assert_eq!(count(all.clone().address(account(0))).await, 0);
    assert_eq!(count(all.clone().event_signature(topic(2))).await, 1);
    assert_eq!(count(all.clone().event_signature(vec![topic(2), topic(3)])).await, 2);
    assert_eq!(count(all.clone().topic1(topic(2))).await, 0);
    assert_eq!(count(Filter::new().from_block(2).to_block(3)).await, 2);
    assert_eq!(count(Filter::new().from_block(50).to_block(60)).await, 0);
    let hash = chain.block(3).unwrap().header.hash;
    let at = client.get_logs(&Filter::new().at_block_hash(hash)).await.unwrap();
    assert_eq!(at.len(), 1);
    assert_eq!(at[0].block_hash, Some(hash));
    assert_eq!(at[0].log_index, Some(0));
    assert_eq!(at[0].block_timestamp, Some(START));
    assert_eq!(rpc(&chain, "eth_getLogs", json!([{ "fromBlock": "0x3", "toBlock": "0x2" }])).await.unwrap_err()["code"], -32602);
    assert_eq!(rpc(&chain, "eth_getLogs", json!([{ "blockHash": B256::ZERO }])).await.unwrap_err()["code"], -32000);
}

#[tokio::test]
async fn a_stingy_node_says_so() {
    let chain = builder().log_range(10).spawn().await.unwrap();
    chain.mine(20);
    let ask = async |from: u64, to: u64| {
        rpc(&chain, "eth_getLogs", json!([{ "fromBlock": format!("{from:#x}"), "toBlock": format!("{to:#x}") }])).await
    };
    assert!(ask(1, 10).await.is_ok());
    assert_eq!(ask(1, 11).await.unwrap_err()["code"], -32005);
    let addresses = |count: usize| json!([{ "address": (0..count).map(|n| Address::left_padding_from(&n.to_be_bytes())).collect::<Vec<_>>() }]);
    assert!(rpc(&chain, "eth_getLogs", addresses(MAX_FILTER_ALTERNATIVES)).await.is_ok());
    assert_eq!(rpc(&chain, "eth_getLogs", addresses(MAX_FILTER_ALTERNATIVES + 1)).await.unwrap_err()["code"], -32005);
}

#[tokio::test]
async fn filters_tell_what_is_new_and_what_is_gone() {
    let chain = chain().await;
    let client = client(&chain);
    let logger = deploy_logger(&client).await;
    let logs = client.new_filter(&Filter::new().address(logger)).await.unwrap();
    let blocks = client.new_block_filter().await.unwrap();
    let pending = client.new_pending_transactions_filter(false).await.unwrap();
    send(&client, from(0).with_to(logger).with_input(word(1))).await;
    let seen: Vec<Log> = client.get_filter_changes(logs).await.unwrap();
    assert_eq!(seen.len(), 1);
    assert!(!seen[0].removed);
    assert!(client.get_filter_changes::<Log>(logs).await.unwrap().is_empty());
    assert_eq!(client.get_filter_changes::<B256>(blocks).await.unwrap(), [chain.block(2).unwrap().header.hash]);
    assert_eq!(client.get_filter_changes::<B256>(pending).await.unwrap().len(), 1);

    chain.reorg(1).unwrap();
    let gone: Vec<Log> = client.get_filter_changes(logs).await.unwrap();
    assert_eq!(gone, [Log { removed: true, ..seen[0].clone() }]);
    assert_eq!(client.get_filter_changes::<B256>(blocks).await.unwrap(), [chain.block(2).unwrap().header.hash]);

    // A new client, because the other one counts the nonce of the reverted transaction.
    send(&crate::support::client(&chain), from(0).with_to(logger).with_input(word(2))).await;
    let all = rpc(&chain, "eth_getFilterLogs", json!([logs])).await.unwrap();
    assert_eq!(all.as_array().unwrap().len(), 1);
    assert!(client.uninstall_filter(logs).await.unwrap());
    assert!(!client.uninstall_filter(logs).await.unwrap());
    assert_eq!(rpc(&chain, "eth_getFilterChanges", json!([logs])).await.unwrap_err()["message"], "filter not found");
}

#[tokio::test]
async fn forgotten_filters_make_room() {
    let chain = chain().await;
    let install = || chain.request("eth_newBlockFilter", json!([])).unwrap();
    let poll = |id: &Value| chain.request("eth_getFilterChanges", json!([id]));
    let (first, second) = (install(), install());
    for _ in 2..MAX_FILTERS {
        install();
    }
    assert!(poll(&first).is_ok());
    install();
    assert!(poll(&first).is_ok(), "polled of late");
    assert!(poll(&second).is_err(), "polled longest ago");
}

#[tokio::test]
async fn subscribers_hear_of_heads_logs_and_removals() {
    let chain = chain().await;
    let client = ws_client(&chain).await;
    let logger = deploy_logger(&client).await;
    let mut heads = client.subscribe_blocks().await.unwrap().into_stream();
    let mut logs = client.subscribe_logs(&Filter::new().address(logger)).await.unwrap().into_stream();
    let mut others = client.subscribe_logs(&Filter::new().address(account(0))).await.unwrap().into_stream();
    let mut pending = client.subscribe_pending_transactions().await.unwrap().into_stream();
    let receipt = send(&client, from(0).with_to(logger).with_input(word(5))).await;

    let within = Duration::from_secs(10);
    let head = tokio::time::timeout(within, heads.next()).await.unwrap().unwrap();
    assert_eq!(Some(head.hash), receipt.block_hash);
    let log = tokio::time::timeout(within, logs.next()).await.unwrap().unwrap();
    assert_eq!(log, receipt.logs()[0]);
    assert_eq!(tokio::time::timeout(within, pending.next()).await.unwrap().unwrap(), receipt.transaction_hash);

    chain.reorg(1).unwrap();
    let gone = tokio::time::timeout(within, logs.next()).await.unwrap().unwrap();
    assert!(gone.removed);
    assert_eq!(gone.transaction_hash, Some(receipt.transaction_hash));
    let head = tokio::time::timeout(within, heads.next()).await.unwrap().unwrap();
    assert_eq!(head.number, 2);
    assert_ne!(Some(head.hash), receipt.block_hash);
    assert!(tokio::time::timeout(Duration::from_millis(50), others.next()).await.is_err());
}

#[tokio::test]
async fn subscriptions_are_counted() {
    let chain = chain().await;
    let client = ws_client(&chain).await;
    let subscribe = async || client.raw_request::<_, B256>("eth_subscribe".into(), ("newHeads",)).await;
    let mut last = B256::ZERO;
    for _ in 0..MAX_SUBSCRIPTIONS {
        last = subscribe().await.unwrap();
    }
    assert!(subscribe().await.is_err());
    client.unsubscribe(last).await.unwrap();
    assert!(subscribe().await.is_ok());
    assert!(client.raw_request::<_, B256>("eth_subscribe".into(), ("weather",)).await.is_err());
    let error = rpc(&chain, "eth_subscribe", json!(["newHeads"])).await.unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("WebSocket"));
}
