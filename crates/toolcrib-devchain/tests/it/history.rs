//! Snapshots, reorgs and time travel.

use std::time::Duration;

use alloy_eips::BlockNumberOrTag;
use alloy_network::TransactionBuilder;
use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_provider::Provider;
use alloy_rpc_types_eth::TransactionRequest;
use serde_json::{Value, json};
use toolcrib_devchain::accounts::DEV_BALANCE;
use toolcrib_devchain::{Devchain, Mining};

use crate::support::*;

#[tokio::test]
async fn snapshots_bring_everything_back() {
    let chain = chain().await;
    let client = client(&chain);
    let logger = deploy_logger(&client).await;
    send(&client, from(0).with_to(logger).with_input(word(1))).await;
    let head = chain.block(BlockNumberOrTag::Latest).unwrap().header.hash;
    let outer = rpc(&chain, "evm_snapshot", json!([])).await.unwrap();
    chain.set_balance(account(3), U256::from(1));
    let inner = chain.snapshot();
    send(&client, from(0).with_to(logger).with_input(word(2))).await;
    chain.set_storage_at(logger, U256::from(9), U256::from(9));
    chain.increase_time(Duration::from_secs(1_000));
    chain.mine(3);

    assert!(chain.revert(inner));
    assert_eq!(chain.balance(account(3)), U256::from(1));
    assert_eq!(chain.call(&TransactionRequest::default().with_to(logger)).unwrap(), word(1));
    assert!(!chain.revert(inner), "used up");
    let later = chain.snapshot();
    assert_eq!(rpc(&chain, "evm_revert", json!([outer])).await.unwrap(), true);
    assert!(!chain.revert(later), "gone with the earlier one");
    assert_eq!(chain.balance(account(3)), DEV_BALANCE);
    assert_eq!(chain.block(BlockNumberOrTag::Latest).unwrap().header.hash, head);
    assert_eq!(client.get_storage_at(logger, U256::from(9)).await.unwrap(), U256::ZERO);
    chain.mine(1);
    assert_eq!(chain.block(BlockNumberOrTag::Latest).unwrap().header.timestamp, START, "time is back too");
    assert_eq!(chain.nonce(account(0)), 2);
}

#[tokio::test]
async fn time_travels() {
    let chain = chain().await;
    let address = Address::repeat_byte(0x55);
    chain.set_code(address, WHEN);
    let now = || {
        let answer = chain.call(&TransactionRequest::default().with_to(address)).unwrap();
        (U256::from_be_slice(&answer[..32]).to::<u64>(), U256::from_be_slice(&answer[32..]).to::<u64>())
    };
    assert_eq!(now(), (START, 0));
    rpc(&chain, "evm_increaseTime", json!([60])).await.unwrap();
    assert_eq!(now(), (START + 60, 0), "a call sees the present");
    rpc(&chain, "evm_mine", json!([])).await.unwrap();
    assert_eq!(chain.block(1).unwrap().header.timestamp, START + 60);
    rpc(&chain, "evm_setNextBlockTimestamp", json!([START + 500])).await.unwrap();
    rpc(&chain, "evm_mine", json!([])).await.unwrap();
    rpc(&chain, "anvil_mine", json!(["0x3", "0xa"])).await.unwrap();
    let times: Vec<u64> = (2..=5).map(|number| chain.block(number).unwrap().header.timestamp - START).collect();
    assert_eq!(times, [500, 500, 510, 520]);
    let error = rpc(&chain, "evm_setNextBlockTimestamp", json!([START])).await.unwrap_err();
    assert_eq!(error["code"], -32602);
    rpc(&chain, "evm_mine", json!([{ "timestamp": START + 600, "blocks": 2 }])).await.unwrap();
    assert_eq!(chain.block(7).unwrap().header.timestamp, START + 600);
    // At an old block, code sees that block's environment.
    let answer = rpc(&chain, "eth_call", json!([{ "to": address }, "0x2"])).await.unwrap();
    let answer: Bytes = serde_json::from_value(answer).unwrap();
    assert_eq!(U256::from_be_slice(&answer[..32]), U256::from(START + 500));
}

#[tokio::test]
async fn blocks_of_one_moment_share_its_second() {
    let chain = chain().await;
    chain.mine(50);
    assert_eq!(chain.block(50).unwrap().header.timestamp, START);
}

/// Hashes of all blocks.
fn hashes(chain: &Devchain) -> Vec<B256> {
    (0..=chain.block_number()).map(|number| chain.block(number).unwrap().header.hash).collect()
}

#[tokio::test]
async fn reorgs_of_every_depth() {
    for depth in [0, 1, 4] {
        let chain = chain().await;
        let client = client(&chain);
        let logger = deploy_logger(&client).await;
        let mut sent = Vec::new();
        for value in 1..=4 {
            sent.push(send(&client, from(0).with_to(logger).with_input(word(value))).await.transaction_hash);
        }
        let before = hashes(&chain);
        chain.reorg(depth).unwrap();
        let after = hashes(&chain);
        let kept = 5 - depth as usize;
        assert_eq!(before.len(), after.len());
        assert_eq!(before[..=kept], after[..=kept], "depth {depth}");
        assert!(before.iter().zip(&after).skip(kept + 1).all(|(before, after)| before != after), "depth {depth}");
        assert_eq!(chain.call(&TransactionRequest::default().with_to(logger)).unwrap(), word(4 - depth));
        assert_eq!(chain.nonce(account(0)), 5 - depth);
        for (index, hash) in sent.into_iter().enumerate() {
            assert_eq!(chain.receipt(hash).is_some(), index < 4 - depth as usize);
        }
        // A reverted transaction can be sent again, by a client that does not count its nonce.
        assert!(send(&crate::support::client(&chain), from(0).with_to(logger).with_input(word(9))).await.status());
    }
}

#[tokio::test]
async fn a_reorg_may_bring_other_transactions() {
    let chain = chain().await;
    let client = client(&chain);
    let logger = deploy_logger(&client).await;
    for value in 1..=3 {
        send(&client, from(0).with_to(logger).with_input(word(value))).await;
    }
    let raw = rpc(&chain, "eth_signTransaction", json!([{ "from": account(4), "to": logger, "data": word(50) }])).await.unwrap();
    let request = json!({ "from": account(0), "to": logger, "data": word(60) });
    rpc(&chain, "anvil_reorg", json!([2, [[raw["raw"], 0], [request, 1], [request, 1]]])).await.unwrap();
    assert_eq!(chain.block_number(), 4);
    let counts: Vec<usize> = (1..=4).map(|number| chain.block(number).unwrap().transactions.len()).collect();
    assert_eq!(counts, [1, 1, 1, 2]);
    assert_eq!(chain.call(&TransactionRequest::default().with_to(logger)).unwrap(), word(60));
    for (method, params) in [
        ("anvil_reorg", json!([5, []])),
        ("toolcrib_reorg", json!([1, [[raw["raw"], 1]]])),
        ("anvil_rollback", json!([5])),
        ("anvil_reorg", json!([])),
    ] {
        assert_eq!(rpc(&chain, method, params).await.unwrap_err()["code"], -32602, "{method}");
    }
    rpc(&chain, "anvil_rollback", json!([3])).await.unwrap();
    assert_eq!(chain.block_number(), 1);
    assert_eq!(chain.code(logger), LOGGER);
}

#[tokio::test]
async fn tags_mean_blocks() {
    let chain = chain().await;
    chain.mine(100);
    let client = client(&chain);
    for (tag, number) in [("earliest", 0), ("finalized", 36), ("safe", 68), ("latest", 100), ("pending", 101)] {
        let block = client.get_block_by_number(tag.parse().unwrap()).await.unwrap().unwrap();
        assert_eq!(block.header.number, number, "{tag}");
    }
    assert!(client.get_block_by_number(101.into()).await.unwrap().is_none());
    assert_eq!(rpc(&chain, "eth_getBalance", json!([account(0), "0x65"])).await.unwrap_err()["message"], "header not found");
    assert_eq!(rpc(&chain, "eth_getTransactionReceipt", json!([B256::ZERO])).await.unwrap(), Value::Null);
}

#[tokio::test]
async fn the_base_fee_follows_demand() {
    let chain = chain().await;
    let fee = |number: u64| chain.block(number).unwrap().header.base_fee_per_gas.unwrap();
    assert_eq!(fee(0), 1_000_000_000);
    chain.mine(3);
    assert_eq!((fee(1), fee(2), fee(3)), (1_000_000_000, 875_000_000, 765_625_000));
    chain.mine(300);
    assert!(fee(303) >= 1);
    let client = client(&chain);
    assert!(send(&client, from(0).with_to(account(1))).await.status(), "wallets still find a price");
    assert!(client.get_gas_price().await.unwrap() > 1_000_000_000);
}

#[tokio::test]
async fn blocks_come_at_intervals() {
    let chain = builder().interval(Duration::from_millis(20)).spawn().await.unwrap();
    let client = client(&chain);
    let receipt = send(&client, from(0).with_to(account(1))).await;
    assert!(receipt.status());
    chain.set_mining(Mining::Manual);
    let stopped = chain.block_number();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(chain.block_number() <= stopped + 1);
    rpc(&chain, "evm_setAutomine", json!([true])).await.unwrap();
    assert!(send(&client, from(0).with_to(account(1))).await.status());
}
