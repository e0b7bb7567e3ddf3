//! Measures the time to the first response, and a thousand transactions that are each mined at once.
//!
//! `cargo run --release -p toolcrib-devchain --example speed`

#![expect(clippy::print_stdout, reason = "its result is what it prints")]

use std::time::Instant;

use alloy_consensus::{SignableTransaction, TxEip1559, TxEnvelope};
use alloy_eips::Encodable2718;
use alloy_primitives::{B256, Bytes, TxKind, U256, bytes};
use alloy_signer::SignerSync;
use serde_json::{Value, json};
use toolcrib_core::clock::{FixedClock, UnixTime};
use toolcrib_devchain::Devchain;
use toolcrib_devchain::accounts::dev_signers;

/// Stores the first word of calldata at the slot of the same number, and logs it.
const STORE: Bytes = bytes!("600f8060093d393df36000358080558060005260206000a1");

const COUNT: u64 = 1_000;

#[tokio::main]
async fn main() {
    let http = reqwest::Client::new();
    let start = Instant::now();
    let chain = Devchain::builder(FixedClock(UnixTime::from_seconds(1_800_000_000))).spawn().await.expect("starts");
    let spawned = start.elapsed();
    let url = chain.http_url();
    post(&http, &url, "eth_chainId", json!([])).await;
    println!("cold start: {spawned:?} to listen, {:?} to the first answer", start.elapsed());

    let transfers: Vec<String> =
        (0..COUNT).map(|nonce| signed(0, nonce, TxKind::Call(dev_signers()[1].address()), Bytes::new())).collect();
    let start = Instant::now();
    for raw in &transfers {
        post(&http, &url, "eth_sendRawTransaction", json!([raw])).await;
    }
    println!("{COUNT} transfers over HTTP, one after another: {:?}", start.elapsed());

    let store = dev_signers()[2].address().create(0);
    post(&http, &url, "eth_sendRawTransaction", json!([signed(2, 0, TxKind::Create, STORE)])).await;
    let writes: Vec<String> =
        (1..=COUNT).map(|nonce| signed(2, nonce, TxKind::Call(store), B256::from(U256::from(nonce)).0.into())).collect();
    let start = Instant::now();
    for raw in &writes {
        let hash = post(&http, &url, "eth_sendRawTransaction", json!([raw])).await;
        let receipt = post(&http, &url, "eth_getTransactionReceipt", json!([hash])).await;
        assert_eq!(receipt["status"], "0x1");
    }
    println!("{COUNT} contract writes with a log and their receipts: {:?}", start.elapsed());

    let start = Instant::now();
    let logs = post(&http, &url, "eth_getLogs", json!([{ "fromBlock": "0x0", "address": store }])).await;
    assert_eq!(logs.as_array().map_or(0, Vec::len) as u64, COUNT, "every write logs");
    println!("{} logs in one answer: {:?}", logs.as_array().map_or(0, Vec::len), start.elapsed());
    let start = Instant::now();
    chain.reorg(COUNT).expect("that many blocks");
    println!("reorg of {COUNT} blocks: {:?}", start.elapsed());
}

fn signed(by: usize, nonce: u64, to: TxKind, input: Bytes) -> String {
    let tx = TxEip1559 {
        chain_id: 31_337,
        nonce,
        gas_limit: 200_000,
        max_fee_per_gas: 3_000_000_000,
        max_priority_fee_per_gas: 1,
        to,
        value: U256::ZERO,
        access_list: Default::default(),
        input,
    };
    let signature = dev_signers()[by].sign_hash_sync(&tx.signature_hash()).expect("signs");
    Bytes::from(TxEnvelope::from(tx.into_signed(signature)).encoded_2718()).to_string()
}

async fn post(http: &reqwest::Client, url: &str, method: &str, params: Value) -> Value {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let answer = http.post(url).body(body).send().await.expect("answers").bytes().await.expect("whole");
    let mut answer: Value = serde_json::from_slice(&answer).expect("JSON");
    assert!(answer.get("error").is_none(), "{answer}");
    answer["result"].take()
}
