//! State files and restarts.

use std::time::Duration;

use alloy_eips::BlockId;
use alloy_network::TransactionBuilder;
use alloy_primitives::U256;
use alloy_provider::Provider;
use alloy_rpc_types_eth::TransactionRequest;
use toolcrib_devchain::Devchain;

use crate::support::*;

async fn open(path: &std::path::Path) -> Devchain {
    builder().state_file(path).deploy(LOGGER_INIT).spawn().await.unwrap()
}

#[tokio::test]
async fn a_chain_goes_on_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chain.json");
    let chain = open(&path).await;
    let logger = chain.deployed()[0];
    let receipt = send(&client(&chain), from(0).with_to(logger).with_input(word(3))).await;
    chain.set_balance(account(7), U256::from(7));
    chain.increase_time(Duration::from_secs(99));
    chain.mine(1);
    let head = chain.block(3).unwrap();
    chain.shutdown().unwrap();

    let chain = open(&path).await;
    let client = client(&chain);
    assert_eq!(chain.block(BlockId::latest()).unwrap(), head);
    assert_eq!(chain.deployed(), [logger]);
    assert_eq!(chain.receipt(receipt.transaction_hash).unwrap(), receipt);
    assert_eq!(chain.balance(account(7)), U256::from(7));
    assert_eq!(client.get_storage_at(logger, U256::ZERO).block_id(1.into()).await.unwrap(), U256::ZERO);
    assert!(client.get_transaction_by_hash(receipt.transaction_hash).await.unwrap().is_some());
    chain.mine(1);
    assert_eq!(chain.block(4).unwrap().header.timestamp, START + 99);
    // Blocks from before the restart can still be replaced.
    chain.reorg(3).unwrap();
    assert_eq!(chain.call(&TransactionRequest::default().with_to(logger)).unwrap(), word(0));
    assert!(send(&client, from(0).with_to(logger).with_input(word(4))).await.status());
}

#[tokio::test]
async fn it_is_saved_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chain.json");
    let chain = open(&path).await;
    for _ in 0..200 {
        if path.exists() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // The state file as a killed process leaves it.
    let copy = folder.path().join("copy.json");
    std::fs::copy(&path, &copy).unwrap();
    assert_eq!(open(&copy).await.block_number(), 1);
    drop(chain);
}

#[tokio::test]
async fn files_of_no_use_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chain.json");
    builder().state_file(&path).chain_id(1).spawn().await.unwrap().shutdown().unwrap();
    let good = std::fs::read_to_string(&path).unwrap();
    for (text, code) in [
        (good.clone(), "devchain.state_unusable"),
        (good.replace("\"version\":1", "\"version\":2"), "devchain.state_unusable"),
        (good.replace("\"number\":\"0x0\"", "\"number\":\"0x1\""), "devchain.state_unusable"),
        (String::new(), "devchain.state_unusable"),
        (good[..good.len() / 2].to_owned(), "devchain.state_unusable"),
    ] {
        std::fs::write(&path, &text).unwrap();
        let error = builder().state_file(&path).spawn().await.unwrap_err();
        assert_eq!(error.code().id(), code, "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    let error = builder().state_file(folder.path()).spawn().await.unwrap_err();
    assert_eq!(error.code().id(), "devchain.state_unreadable", "{error}");
    let error = builder().state_file(folder.path().join("none/chain.json")).spawn().await.unwrap().shutdown().unwrap_err();
    assert_eq!(error.code().id(), "devchain.state_unwritable", "{error}");
}

#[tokio::test]
async fn a_taken_port_is_reported() {
    let first = chain().await;
    let error = builder().listen(first.address()).spawn().await.unwrap_err();
    assert_eq!(error.code().id(), "devchain.bind");
    assert!(error.is_retryable());
}
