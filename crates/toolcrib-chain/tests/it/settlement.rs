//! What became of an authorization, as honest and lying nodes tell it.

use alloy_primitives::{Address, B256, LogData, U256, keccak256};
use alloy_sol_types::SolEvent as _;
use serde_json::{Value, json};
use toolcrib_chain::abi::IEIP3009::{AuthorizationCanceled, AuthorizationUsed, Transfer};
use toolcrib_chain::settlement::{AuthorizationOutcome, SearchFrom, Trail};
use toolcrib_core::money::Amount;
use toolcrib_core::x402::Authorization;

use crate::fake::{FakeNode, Reply, chain};

const TOKEN: Address = Address::repeat_byte(0x70);
const PAYER: Address = Address::repeat_byte(0x01);
const PAYEE: Address = Address::repeat_byte(0x02);
const NONCE: B256 = B256::repeat_byte(0x0a);
const TRANSACTION: B256 = B256::repeat_byte(0x77);
const PRICE: u64 = 10_000;

/// The newest block, and the newest final one. A block's time is twice its number.
const NEWEST: u64 = 200;
const FINAL: u64 = 136;

/// A block in which the nonce was unused.
const FROM: u64 = 10;

/// What a node says.
#[derive(Clone)]
struct Says {
    newest: u64,
    last_final: Option<u64>,
    /// The first block in which the nonce is used.
    used_from: Option<u64>,
    logs: Vec<Value>,
    receipt: Value,
}

fn authorization() -> Authorization {
    let value = Amount::new(U256::from(PRICE));
    Authorization { from: PAYER, to: PAYEE, value, valid_after: 0, valid_before: 2 * 150, nonce: NONCE }
}

fn used() -> LogData {
    AuthorizationUsed { authorizer: PAYER, nonce: NONCE }.encode_log_data()
}

fn cancelled() -> LogData {
    AuthorizationCanceled { authorizer: PAYER, nonce: NONCE }.encode_log_data()
}

fn moved(value: u64) -> LogData {
    Transfer { from: PAYER, to: PAYEE, value: U256::from(value) }.encode_log_data()
}

fn log(block: u64, data: &LogData) -> Value {
    json!({
        "address": TOKEN, "topics": data.topics(), "data": data.data, "blockHash": B256::repeat_byte(9),
        "blockNumber": format!("{block:#x}"), "transactionHash": TRANSACTION, "transactionIndex": "0x0", "logIndex": "0x0",
        "removed": false,
    })
}

fn receipt(block: u64, logs: &[LogData]) -> Value {
    let logs: Vec<_> = logs.iter().map(|data| log(block, data)).collect();
    json!({
        "type": "0x2", "status": "0x1", "cumulativeGasUsed": "0x1", "gasUsed": "0x1", "effectiveGasPrice": "0x1",
        "logsBloom": format!("0x{}", "0".repeat(512)), "logs": logs, "transactionHash": TRANSACTION, "transactionIndex": "0x0",
        "blockHash": B256::repeat_byte(9), "blockNumber": format!("{block:#x}"), "from": PAYEE, "to": TOKEN,
    })
}

fn block(number: u64) -> Value {
    json!({
        "number": format!("{number:#x}"), "timestamp": format!("{:#x}", 2 * number), "hash": keccak256(number.to_be_bytes()),
        "parentHash": B256::ZERO, "sha3Uncles": B256::ZERO, "miner": Address::ZERO, "stateRoot": B256::ZERO,
        "transactionsRoot": B256::ZERO, "receiptsRoot": B256::ZERO, "logsBloom": format!("0x{}", "0".repeat(512)),
        "difficulty": "0x0", "gasLimit": "0x1", "gasUsed": "0x0", "extraData": "0x", "mixHash": B256::ZERO,
        "nonce": "0x0000000000000000", "size": "0x1", "uncles": [], "transactions": [],
    })
}

/// A payment that settled as it was signed.
fn settled(at: u64) -> Says {
    Says {
        newest: NEWEST,
        last_final: Some(FINAL),
        used_from: Some(at),
        logs: vec![log(at, &used())],
        receipt: receipt(at, &[used(), moved(PRICE)]),
    }
}

fn changed(mut says: Says, change: impl FnOnce(&mut Says)) -> Says {
    change(&mut says);
    says
}

async fn find(says: Says, from: SearchFrom) -> AuthorizationOutcome {
    let node = FakeNode::start(8453, move |method, params| {
        let number = |text: &Value| u64::from_str_radix(text.as_str().unwrap_or("0x0").trim_start_matches("0x"), 16);
        Reply::Result(match method {
            "eth_getBlockByNumber" => match params[0].as_str() {
                Some("latest") => block(says.newest),
                Some("finalized") => says.last_final.map_or(Value::Null, block),
                _ => number(&params[0]).map_or(Value::Null, block),
            },
            "eth_call" => {
                let at = number(&params[1]).unwrap_or(says.newest);
                json!(B256::from(U256::from(u8::from(says.used_from.is_some_and(|from| at >= from)))))
            }
            "eth_getLogs" => Value::Array(says.logs.clone()),
            "eth_getTransactionReceipt" => says.receipt.clone(),
            other => panic!("{other} is not asked"),
        })
    })
    .await;
    let (chain, authorization) = (chain(&node), authorization());
    let trail = Trail { chain: &chain, token: TOKEN, authorization: &authorization };
    trail.find(from).await.expect("an answer")
}

#[track_caller]
fn unclear(outcome: &AuthorizationOutcome, what: &str) {
    assert!(matches!(outcome, AuthorizationOutcome::Unclear { .. }), "{what}: {outcome:?}");
}

// attack: T13, T15
#[tokio::test]
async fn a_settlement_is_believed_with_its_receipt() {
    let after = SearchFrom::After(FROM);
    let outcome = |is_final| AuthorizationOutcome::Settled { transaction: TRANSACTION, is_final };
    assert_eq!(find(settled(50), after).await, outcome(true));
    assert_eq!(find(settled(FINAL + 1), after).await, outcome(false));
    assert_eq!(find(settled(50), SearchFrom::Time(2 * 50)).await, outcome(true));
    // Used for another transfer, or for none: never settled, and spent only once nothing can replace it.
    for logs in [vec![used()], vec![used(), moved(PRICE - 1)], vec![moved(PRICE), used()], vec![used(), moved(0), moved(PRICE)]] {
        let other = |at: u64| changed(settled(at), |says| says.receipt = receipt(at, &logs));
        assert_eq!(find(other(50), after).await, AuthorizationOutcome::UsedElsewhere, "{logs:?}");
        assert_eq!(find(other(FINAL + 1), after).await, AuthorizationOutcome::Open, "{logs:?}");
    }
    // Receipts of other transactions, of other blocks, or of failures.
    unclear(&find(changed(settled(50), |says| says.receipt["transactionHash"] = json!(B256::ZERO)), after).await, "another hash");
    unclear(&find(changed(settled(50), |says| says.receipt["blockNumber"] = json!("0x33")), after).await, "another block");
    unclear(&find(changed(settled(50), |says| says.receipt["status"] = json!("0x0")), after).await, "a failure");
    unclear(&find(changed(settled(50), |says| says.receipt = Value::Null), after).await, "no receipt");
}

// attack: T13
#[tokio::test]
async fn logs_that_are_not_the_authorizations_change_nothing() {
    let after = SearchFrom::After(FROM);
    let cancelled_at = |at: u64| changed(settled(at), |says| says.logs = vec![log(at, &cancelled())]);
    assert_eq!(find(cancelled_at(50), after).await, AuthorizationOutcome::Cancelled);
    assert_eq!(find(cancelled_at(FINAL + 1), after).await, AuthorizationOutcome::Open, "it may be replaced");
    type Lie = (&'static str, fn(&mut Value));
    let lies: [Lie; 6] = [
        ("another token", |log| log["address"] = json!(PAYEE)),
        ("another payer", |log| log["topics"][1] = json!(PAYEE.into_word())),
        ("another nonce", |log| log["topics"][2] = json!(B256::ZERO)),
        ("another event", |log| log["topics"][0] = json!(Transfer::SIGNATURE_HASH)),
        ("removed", |log| log["removed"] = json!(true)),
        ("out of range", |log| log["blockNumber"] = json!("0x5")),
    ];
    for (what, lie) in lies {
        unclear(&find(changed(cancelled_at(50), |says| lie(&mut says.logs[0])), after).await, what);
        unclear(&find(changed(settled(50), |says| lie(&mut says.logs[0])), after).await, what);
    }
}

// attack: T13
#[tokio::test]
async fn an_unused_authorization_ends_in_a_final_block() {
    let after = SearchFrom::After(FROM);
    let unused = |newest, last_final| Says { newest, last_final, used_from: None, logs: Vec::new(), receipt: Value::Null };
    for (what, says, expected) in [
        ("valid", unused(149, Some(149)), AuthorizationOutcome::Open),
        ("over, and not final", unused(NEWEST, Some(149)), AuthorizationOutcome::Open),
        ("over in a final block", unused(NEWEST, Some(150)), AuthorizationOutcome::Expired),
        ("a final block after the newest", unused(NEWEST, Some(NEWEST + 1)), AuthorizationOutcome::Open),
        ("64 blocks, where no block is called final", unused(150 + 64, None), AuthorizationOutcome::Expired),
        ("63 blocks", unused(149 + 64, None), AuthorizationOutcome::Open),
        ("a young chain", unused(63, None), AuthorizationOutcome::Open),
    ] {
        assert_eq!(find(says, after).await, expected, "{what}");
    }
    // Used before the payment was taken.
    let before = |at: u64| changed(settled(at), |says| says.logs.clear());
    assert_eq!(find(before(5), after).await, AuthorizationOutcome::UsedElsewhere);
    assert_eq!(find(before(FINAL + 1), SearchFrom::After(FINAL + 5)).await, AuthorizationOutcome::Open, "not final");
    unclear(&find(before(50), after).await, "used, and no log of it");
}
