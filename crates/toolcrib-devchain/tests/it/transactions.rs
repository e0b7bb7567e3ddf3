//! Sending transactions and calls, and their errors.

use alloy_consensus::{SignableTransaction, TxEip2930, TxEip4844, TxEnvelope, TxLegacy};
use alloy_eips::eip2930::{AccessList, AccessListItem};
use alloy_eips::eip7702::Authorization;
use alloy_eips::{BlockId, Encodable2718};
use alloy_network::{TransactionBuilder, TransactionBuilder7702};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, keccak256};
use alloy_provider::Provider;
use alloy_rpc_types_eth::TransactionRequest;
use alloy_rpc_types_eth::state::{AccountOverride, StateOverride};
use alloy_signer::SignerSync;
use serde_json::json;
use toolcrib_devchain::accounts::{DEV_BALANCE, dev_signers};
use toolcrib_devchain::{CREATE2_FACTORY, Mining, Predeploy, Rejection};

use crate::support::*;

#[tokio::test]
async fn ether_moves_and_fees_are_burnt() {
    let chain = chain().await;
    let client = client(&chain);
    assert_eq!(client.get_chain_id().await.unwrap(), 31_337);
    assert_eq!(client.get_accounts().await.unwrap().len(), 10);
    let value = U256::from(5);
    let receipt = send(&client, from(0).with_to(account(1)).with_value(value)).await;
    assert!(receipt.status());
    assert_eq!((receipt.gas_used, receipt.block_number), (21_000, Some(1)));
    let paid = U256::from(receipt.effective_gas_price) * U256::from(21_000);
    assert_eq!(client.get_balance(account(0)).await.unwrap(), DEV_BALANCE - value - paid);
    assert_eq!(client.get_balance(account(1)).await.unwrap(), DEV_BALANCE + value);
    assert_eq!(client.get_transaction_count(account(0)).await.unwrap(), 1);
    // The old state is still available.
    assert_eq!(client.get_balance(account(1)).block_id(BlockId::number(0)).await.unwrap(), DEV_BALANCE);

    let block = client.get_block_by_number(1.into()).full().await.unwrap().unwrap();
    assert_eq!(block.header.hash, block.header.inner.hash_slow());
    assert_eq!(
        block.header.inner.transactions_root,
        block.clone().map_transactions(|tx| tx.inner.into_inner()).calculate_transactions_root().unwrap()
    );
    let tx = client.get_transaction_by_hash(receipt.transaction_hash).await.unwrap().unwrap();
    assert_eq!(Some(&tx), block.transactions.as_transactions().unwrap().first());
    assert_eq!(client.get_block_receipts(1.into()).await.unwrap().unwrap(), [receipt]);
}

#[tokio::test]
async fn contracts_are_deployed_called_and_read() {
    let chain = chain().await;
    let client = client(&chain);
    let logger = deploy_logger(&client).await;
    assert_eq!(logger, account(0).create(0));
    assert_eq!(client.get_code_at(logger).await.unwrap(), LOGGER);
    let receipt = send(&client, from(1).with_to(logger).with_input(word(77))).await;
    assert_eq!(receipt.logs().len(), 1);
    assert_eq!(receipt.logs()[0].data().data, word(77));
    assert_eq!(client.call(TransactionRequest::default().with_to(logger)).await.unwrap(), word(77));
    assert_eq!(client.get_storage_at(logger, U256::ZERO).await.unwrap(), U256::from(77));
    // Before the write, by number and by hash.
    assert_eq!(client.call(TransactionRequest::default().with_to(logger)).block(1.into()).await.unwrap(), word(0));
    let hash = chain.block(1).unwrap().header.hash;
    assert_eq!(client.get_storage_at(logger, U256::ZERO).block_id(hash.into()).await.unwrap(), U256::ZERO);
}

#[tokio::test]
async fn the_create2_factory_is_there() {
    let chain = builder().deploy(LOGGER_INIT).deploy(LOGGER_INIT).spawn().await.unwrap();
    assert_eq!(chain.deployed(), [account(0).create(0), account(0).create(1)]);
    assert_eq!(chain.code(chain.deployed()[1]), LOGGER);
    let client = client(&chain);
    let salt = B256::repeat_byte(3);
    let input: Bytes = [salt.as_slice(), &LOGGER_INIT].concat().into();
    assert!(send(&client, from(0).with_to(CREATE2_FACTORY).with_input(input)).await.status());
    assert_eq!(chain.code(CREATE2_FACTORY.create2(salt, keccak256(LOGGER_INIT))), LOGGER);

    let error = builder().deploy(Bytes::from_static(&[0xfe])).spawn().await.unwrap_err();
    assert_eq!(error.code().id(), "devchain.deploy");
}

#[tokio::test]
async fn contracts_can_be_there_from_genesis() {
    let address = Address::repeat_byte(0x11);
    let storage = vec![(U256::ZERO, U256::from(9))];
    let chain = builder().predeploy(Predeploy { address, code: LOGGER, storage }).spawn().await.unwrap();
    assert_eq!(chain.block_number(), 0);
    assert_eq!(chain.call(&TransactionRequest::default().with_to(address)).unwrap(), word(9));
}

#[tokio::test]
async fn reverts_carry_their_data() {
    let chain = chain().await;
    let client = client(&chain);
    let address = Address::repeat_byte(0x22);
    chain.set_code(address, REVERTER);
    let call = from(0).with_to(address);
    for error in [client.call(call.clone()).await.unwrap_err(), client.estimate_gas(call.clone()).await.unwrap_err()] {
        let payload = error.as_error_resp().unwrap();
        assert_eq!((payload.code, payload.message.as_ref()), (3, "execution reverted"));
        assert_eq!(payload.as_revert_data().unwrap(), Bytes::from_static(&[0xde, 0xad, 0xbe, 0xef]));
    }
    // Sent with its own gas limit it is mined, but fails.
    let receipt = send(&client, call.with_gas_limit(100_000)).await;
    assert!(!receipt.status());
    assert!(receipt.logs().is_empty());

    chain.set_code(address, Bytes::from_static(&[0xfe]));
    let error = rpc(&chain, "eth_call", json!([{ "to": address }])).await.unwrap_err();
    assert_eq!(error["message"], "invalid opcode: INVALID");
}

#[tokio::test]
async fn calls_may_pretend() {
    let chain = chain().await;
    let client = client(&chain);
    let address = Address::repeat_byte(0x33);
    let mut overrides = StateOverride::default();
    let slots = [(B256::ZERO, B256::from(U256::from(5)))].into_iter().collect();
    overrides.insert(address, AccountOverride { code: Some(LOGGER), state_diff: Some(slots), ..Default::default() });
    let call = TransactionRequest::default().with_to(address);
    assert_eq!(client.call(call.clone()).overrides(overrides).await.unwrap(), word(5));
    assert_eq!(client.call(call).await.unwrap(), Bytes::new());
    // A sender without funds may make calls, but not with more value than it has.
    let poor = TransactionRequest::default().with_from(address).with_to(account(0));
    assert!(client.call(poor.clone()).await.is_ok());
    let error = client.call(poor.with_value(U256::from(1))).await.unwrap_err();
    assert!(error.as_error_resp().unwrap().message.starts_with("insufficient funds"), "{error}");
}

#[tokio::test]
async fn estimates_are_enough_and_not_much_more() {
    let chain = chain().await;
    let client = client(&chain);
    assert_eq!(client.estimate_gas(from(0).with_to(account(1))).await.unwrap(), 21_000);
    let logger = deploy_logger(&client).await;
    let request = from(0).with_to(logger).with_input(word(1));
    let estimate = client.estimate_gas(request.clone()).await.unwrap();
    let receipt = send(&client, request.with_gas_limit(estimate)).await;
    assert!(receipt.status());
    assert!(estimate < receipt.gas_used + receipt.gas_used / 16, "{estimate} for {}", receipt.gas_used);
    let error = rpc(&chain, "eth_estimateGas", json!([{ "from": account(0), "to": logger, "gas": "0x6000", "data": word(2) }]))
        .await
        .unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("gas required exceeds allowance"), "{error}");
}

fn legacy(nonce: u64, gas_price: u128, chain_id: Option<u64>) -> Bytes {
    let tx = TxLegacy {
        chain_id,
        nonce,
        gas_price,
        gas_limit: 21_000,
        to: TxKind::Call(account(5)),
        value: U256::from(1),
        input: Bytes::new(),
    };
    let signature = dev_signers()[0].sign_hash_sync(&tx.signature_hash()).unwrap();
    TxEnvelope::from(tx.into_signed(signature)).encoded_2718().into()
}

const GWEI: u128 = 1_000_000_000;

#[tokio::test]
async fn nonces_funds_and_fees_are_checked() {
    let chain = chain().await;
    let refused = |raw: Bytes| chain.send_raw(&raw).unwrap_err();
    assert!(chain.send_raw(&legacy(0, 2 * GWEI, Some(31_337))).is_ok());
    assert_eq!(refused(legacy(0, 2 * GWEI, Some(31_337))), Rejection::AlreadyKnown);
    assert!(matches!(refused(legacy(0, 3 * GWEI, Some(31_337))), Rejection::NonceTooLow { given: 0, expected: 1, .. }));
    assert!(matches!(refused(legacy(9_999, GWEI, Some(31_337))), Rejection::NonceTooHigh { .. }));
    assert!(matches!(refused(legacy(1, GWEI, Some(1))), Rejection::ChainId { have: 1, want: 31_337 }));
    assert!(matches!(refused(legacy(1, 1, Some(31_337))), Rejection::FeeCapTooLow { cap: 1, .. }));
    assert!(matches!(refused(legacy(1, u128::MAX, Some(31_337))), Rejection::InsufficientFunds { .. }));
    assert!(matches!(refused(Bytes::from_static(&[1, 2, 3])), Rejection::Encoding(_)));
    assert!(matches!(refused([&legacy(1, GWEI, None)[..], &[0]].concat().into()), Rejection::Encoding(_)));
    // Without a chain id, as before EIP-155.
    assert!(chain.send_raw(&legacy(1, GWEI, None)).is_ok());

    let client = client(&chain);
    let error = client.send_raw_transaction(&legacy(0, 5 * GWEI, Some(31_337))).await.unwrap_err();
    let payload = error.as_error_resp().unwrap();
    assert_eq!(payload.code, -32000);
    assert!(payload.message.starts_with("nonce too low"), "{}", payload.message);
    let error = client.send_raw_transaction(&legacy(2, 10u128.pow(30), Some(31_337))).await.unwrap_err();
    assert!(error.as_error_resp().unwrap().message.starts_with("insufficient funds for gas * price + value"));
}

#[tokio::test]
async fn a_gap_waits_and_is_filled() {
    let chain = chain().await;
    let second = chain.send_raw(&legacy(1, 2 * GWEI, Some(31_337))).unwrap();
    assert_eq!(chain.block_number(), 0);
    assert!(chain.receipt(second).is_none());
    assert_eq!(rpc(&chain, "txpool_status", json!([])).await.unwrap(), json!({ "pending": "0x0", "queued": "0x1" }));
    let first = chain.send_raw(&legacy(0, 2 * GWEI, Some(31_337))).unwrap();
    assert_eq!(chain.block_number(), 1);
    assert_eq!(chain.receipt(first).unwrap().transaction_index, Some(0));
    assert_eq!(chain.receipt(second).unwrap().transaction_index, Some(1));
}

#[tokio::test]
async fn a_replacement_must_pay_more() {
    let chain = builder().mining(Mining::Manual).spawn().await.unwrap();
    let client = client(&chain);
    let first = chain.send_raw(&legacy(0, 100 * GWEI, Some(31_337))).unwrap();
    assert_eq!(chain.send_raw(&legacy(0, 110 * GWEI - 1, Some(31_337))).unwrap_err(), Rejection::Underpriced);
    let second = chain.send_raw(&legacy(0, 110 * GWEI, Some(31_337))).unwrap();
    assert_eq!(client.get_transaction_count(account(0)).pending().await.unwrap(), 1);
    assert_eq!(client.get_transaction_count(account(0)).await.unwrap(), 0);
    assert!(client.get_transaction_by_hash(first).await.unwrap().is_none());
    assert!(client.get_transaction_by_hash(second).await.unwrap().unwrap().block_hash.is_none());
    let pending = client.get_block_by_number("pending".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(pending.transactions.hashes().collect::<Vec<_>>(), [second]);
    chain.mine(1);
    assert!(client.get_transaction_receipt(first).await.unwrap().is_none());
    assert!(client.get_transaction_receipt(second).await.unwrap().is_some());
}

#[tokio::test]
async fn better_tips_go_first() {
    let chain = builder().mining(Mining::Manual).spawn().await.unwrap();
    let client = client(&chain);
    let mut hashes = Vec::new();
    for (sender, tip) in [(1, 1), (2, 3), (3, 2)] {
        let request = from(sender).with_to(account(0)).with_max_priority_fee_per_gas(tip * GWEI).with_max_fee_per_gas(9 * GWEI);
        hashes.push(*client.send_transaction(request).await.unwrap().tx_hash());
    }
    chain.mine(1);
    let mined: Vec<B256> = chain.block(1).unwrap().transactions.hashes().collect();
    assert_eq!(mined, [hashes[1], hashes[2], hashes[0]]);
    let history = client.get_fee_history(1, 1.into(), &[0.0, 50.0, 100.0]).await.unwrap();
    assert_eq!(history.reward.unwrap(), [[GWEI, 2 * GWEI, 3 * GWEI]]);
    assert_eq!(history.base_fee_per_gas.len(), 2);
}

#[tokio::test]
async fn access_lists_and_delegations_work() {
    let chain = chain().await;
    let client = client(&chain);
    let logger = deploy_logger(&client).await;

    let item = AccessListItem { address: logger, storage_keys: vec![B256::ZERO] };
    let tx = TxEip2930 {
        chain_id: 31_337,
        nonce: 1,
        gas_price: 2 * GWEI,
        gas_limit: 100_000,
        to: TxKind::Call(logger),
        value: U256::ZERO,
        access_list: AccessList(vec![item]),
        input: word(4),
    };
    let signature = dev_signers()[0].sign_hash_sync(&tx.signature_hash()).unwrap();
    let raw = TxEnvelope::from(tx.into_signed(signature)).encoded_2718();
    let receipt = client.send_raw_transaction(&raw).await.unwrap().get_receipt().await.unwrap();
    assert!(receipt.status());
    assert_eq!(receipt.transaction_type() as u8, 1);

    // Account 1 delegates to the code of the logger (EIP-7702).
    let authorization = Authorization { chain_id: U256::from(31_337), address: logger, nonce: 0 };
    let signature = dev_signers()[1].sign_hash_sync(&authorization.signature_hash()).unwrap();
    let request =
        from(2).with_to(account(1)).with_input(word(8)).with_authorization_list(vec![authorization.into_signed(signature)]);
    let receipt = send(&client, request).await;
    assert!(receipt.status());
    assert_eq!(receipt.transaction_type() as u8, 4);
    assert_eq!(chain.code(account(1)), [&[0xef, 1, 0], logger.as_slice()].concat());
    assert_eq!(receipt.logs()[0].address(), account(1));
    assert_eq!(client.get_storage_at(account(1), U256::ZERO).await.unwrap(), U256::from(8));
    // It can still send.
    assert!(send(&client, from(1).with_to(account(2)).with_value(U256::from(1))).await.status());
}

#[tokio::test]
async fn blobs_are_refused_clearly() {
    let chain = chain().await;
    let tx = TxEip4844 {
        chain_id: 31_337,
        gas_limit: 21_000,
        max_fee_per_gas: 9 * GWEI,
        max_fee_per_blob_gas: 1,
        blob_versioned_hashes: vec![B256::repeat_byte(1)],
        ..Default::default()
    };
    let signature = dev_signers()[0].sign_hash_sync(&tx.signature_hash()).unwrap();
    let raw = TxEnvelope::from(tx.into_signed(signature)).encoded_2718();
    let error = chain.send_raw(&raw).unwrap_err();
    assert!(error.to_string().contains("blob transactions (type 3) are not taken"), "{error}");
}

#[tokio::test]
async fn the_node_signs_for_its_ten_accounts_only() {
    for chain_id in [31_337, 8_453] {
        let chain = builder().chain_id(chain_id).spawn().await.unwrap();
        assert_eq!(chain.is_local_world(), chain_id == 31_337);
        let stranger = Address::repeat_byte(0x44);
        chain.set_balance(stranger, DEV_BALANCE);
        assert_eq!(chain.may_sign(stranger), chain_id == 31_337);
        assert!(chain.may_sign(account(9)));
        let hash =
            rpc(&chain, "eth_sendTransaction", json!([{ "from": account(9), "to": stranger, "value": "0x1" }])).await.unwrap();
        let receipt = rpc(&chain, "eth_getTransactionReceipt", json!([hash])).await.unwrap();
        assert_eq!(receipt["status"], "0x1");
        for (method, params) in [
            ("eth_sendTransaction", json!([{ "from": stranger, "to": account(0) }])),
            ("eth_signTransaction", json!([{ "from": stranger, "to": account(0) }])),
            ("eth_sign", json!([stranger, "0x00"])),
            ("personal_sign", json!(["0x00", stranger])),
        ] {
            let error = rpc(&chain, method, params).await.unwrap_err();
            assert!(error["message"].as_str().unwrap().starts_with("unknown account"), "{method}: {error}");
        }
        let signature: Bytes =
            serde_json::from_value(rpc(&chain, "eth_sign", json!([account(2), "0x6869"])).await.unwrap()).unwrap();
        let signature = alloy_primitives::Signature::try_from(&signature[..]).unwrap();
        let hash = alloy_primitives::eip191_hash_message(b"hi");
        assert_eq!(signature.recover_address_from_prehash(&hash).unwrap(), account(2));
    }
}
