//! Compares responses of this chain with anvil's. All differences are listed here with their reasons.
//!
//! Needs anvil, which `contracts/setup` installs.

use alloy_primitives::{Address, B256};
use serde_json::{Value, json};
use toolcrib_testkit::Anvil;

use crate::support::*;

/// Fields that differ: those that depend on the state root, on a node's randomness or clock, and extra fields of one side.
const IGNORED: [&str; 14] = [
    "hash",            // of blocks
    "blockHash",       // likewise
    "parentHash",      // likewise
    "stateRoot",       // zero here
    "mixHash",         // prevrandao
    "size",            // anvil counts other bytes
    "timestamp",       // anvil forces a new second for each block
    "blockTimestamp",  // likewise
    "totalDifficulty", // anvil leaves it out of some answers
    "extraData",       // free text
    "beneficiary",     // named miner
    "message",         // words; codes and data are compared
    "gasPrice",        // of mined transactions: anvil leaves it out
    "blobGasPrice",    // of receipts: anvil shows it where no blob is
];

async fn ask(url: &str, method: &str, params: &Value) -> Value {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    let request = reqwest::Client::new().post(url).header("content-type", "application/json").body(body);
    let text = request.send().await.unwrap().text().await.unwrap();
    let mut answer: Value = serde_json::from_str(&text).unwrap();
    match answer.get_mut("error") {
        Some(error) => json!({ "error": error.take() }),
        None => answer["result"].take(),
    }
}

/// Removes the differing fields from a response.
fn normalised(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(key, value)| !IGNORED.contains(&key.as_str()) && !value.is_null());
            let mut kept: Vec<_> = kept.map(|(key, value)| (key, normalised(value))).collect();
            kept.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(kept.into_iter().collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(normalised).collect()),
        other => other,
    }
}

#[tokio::test]
async fn anvil_answers_the_same() {
    let Some(anvil) = Anvil::start(&["--timestamp", &START.to_string(), "--hardfork", "osaka"]) else { return };
    let chain = chain().await;
    let logger = account(0).create(0);
    let reverter = Address::repeat_byte(0x77);
    let stranger = Address::repeat_byte(0x78);
    let send = |index: usize, to: Option<Address>, data: Value| json!([{ "from": account(index), "to": to, "data": data, "gas": "0x30d40", "maxFeePerGas": "0x77359400", "maxPriorityFeePerGas": "0x1" }]);
    let requests = [
        ("eth_chainId", json!([])),
        ("net_version", json!([])),
        ("eth_accounts", json!([])),
        ("eth_blockNumber", json!([])),
        ("eth_gasPrice", json!([])),
        ("eth_maxPriorityFeePerGas", json!([])),
        ("eth_getBlockByNumber", json!(["0x0", false])),
        ("eth_getBalance", json!([account(0), "latest"])),
        ("eth_getCode", json!([toolcrib_devchain::CREATE2_FACTORY, "latest"])),
        ("eth_sendTransaction", send(0, None, json!(LOGGER_INIT))),
        ("eth_sendTransaction", send(1, Some(logger), json!(word(7)))),
        ("eth_blockNumber", json!([])),
        ("eth_getCode", json!([logger, "latest"])),
        ("eth_getCode", json!([logger, "0x0"])),
        ("eth_getStorageAt", json!([logger, "0x0", "latest"])),
        ("eth_getStorageAt", json!([logger, "0x0", "0x1"])),
        ("eth_createAccessList", json!([{ "from": account(0), "to": logger, "gas": "0x30d40" }, "latest"])),
        (
            "eth_call",
            json!([{ "to": stranger }, "latest", { stranger.to_string(): { "code": WHEN } }, { "time": "0x7b", "number": "0x5" }]),
        ),
        ("eth_signTypedData_v4", json!([account(0), crate::methods::mail().0])),
        ("eth_call", json!([{ "to": logger }, "latest"])),
        ("eth_call", json!([{ "to": logger }, "0x1"])),
        ("eth_getLogs", json!([{ "fromBlock": "0x0", "address": logger }])),
        ("eth_getLogs", json!([{ "fromBlock": "0x0", "topics": [B256::ZERO] }])),
        ("eth_getBlockByNumber", json!(["0x2", true])),
        ("eth_getBlockByNumber", json!(["latest", false])),
        ("eth_getBlockReceipts", json!(["0x2"])),
        ("eth_getTransactionByBlockNumberAndIndex", json!(["0x1", "0x0"])),
        ("eth_getTransactionCount", json!([account(0), "latest"])),
        ("eth_getTransactionCount", json!([account(0), "pending"])),
        ("eth_feeHistory", json!(["0x2", "0x2", [50.0]])),
        ("eth_getTransactionReceipt", json!([B256::ZERO])),
        ("eth_getBlockByNumber", json!(["0x99", false])),
        ("anvil_setCode", json!([reverter, REVERTER])),
        ("eth_call", json!([{ "to": reverter }, "latest"])),
        ("eth_estimateGas", json!([{ "to": reverter }])),
        ("eth_estimateGas", json!([{ "from": account(0), "to": account(1), "value": "0x1" }])),
        ("anvil_setBalance", json!([stranger, "0x64"])),
        ("eth_getBalance", json!([stranger, "latest"])),
        ("anvil_setNonce", json!([stranger, "0x5"])),
        ("eth_getTransactionCount", json!([stranger, "latest"])),
        ("anvil_setStorageAt", json!([logger, "0x0", format!("0x{:064x}", 3)])),
        ("eth_call", json!([{ "to": logger }, "latest"])),
        ("evm_snapshot", json!([])),
        ("eth_sendTransaction", send(2, Some(logger), json!(word(9)))),
        ("eth_call", json!([{ "to": logger }, "latest"])),
        ("evm_revert", json!(["0x0"])),
        ("eth_call", json!([{ "to": logger }, "latest"])),
        ("evm_revert", json!(["0x0"])),
        ("evm_mine", json!([])),
        ("anvil_mine", json!(["0x3"])),
        ("eth_blockNumber", json!([])),
        ("anvil_reorg", json!([2, []])),
        ("eth_blockNumber", json!([])),
        ("eth_getFilterChanges", json!(["0x99"])),
        ("eth_nothing", json!([])),
        ("eth_getBalance", json!([])),
    ];
    let total = requests.len();
    let mut different = Vec::new();
    let receipt = async |url: &str, hash: &Value| {
        // Anvil responds before it mines.
        for _ in 0..100 {
            let receipt = ask(url, "eth_getTransactionReceipt", &json!([hash])).await;
            if !receipt.is_null() {
                return receipt;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        Value::Null
    };
    for (method, params) in requests {
        let (mut ours, mut theirs) = (ask(&chain.http_url(), method, &params).await, ask(&anvil.url, method, &params).await);
        if method == "eth_sendTransaction" {
            ours = receipt(&chain.http_url(), &ours).await;
            theirs = receipt(&anvil.url, &theirs).await;
        }
        let (ours, theirs) = (normalised(ours), normalised(theirs));
        if ours != theirs {
            different.push(format!("{method} {params}\n  ours   {ours}\n  anvil  {theirs}"));
        }
    }
    assert!(different.is_empty(), "{} of {total} differ:\n{}", different.len(), different.join("\n"));
}
