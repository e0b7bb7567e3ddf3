//! A node that is honest about one authorization, or lies about it in one way. All readers of settlements share this table.

use alloy_primitives::{Address, B256, LogData, U256, keccak256};
use alloy_sol_types::SolEvent as _;
use serde_json::{Value, json};
use toolcrib_chain::abi::IEIP3009::{AuthorizationCanceled, AuthorizationUsed, Transfer};
use toolcrib_core::codes::{Code, usage};
use toolcrib_core::money::Amount;
use toolcrib_x402::Authorization;

use super::fake::{FakeNode, Reply};

/// The transaction that settles the authorization.
pub const TRANSACTION: B256 = B256::repeat_byte(0x77);

/// The newest block. Block time is two seconds.
pub const NEWEST: u64 = 200;
/// The newest final block.
pub const FINAL: u64 = 136;

/// A block in which the nonce was unused.
pub const FROM: u64 = 10;

/// The block in whose time the authorization expires, and the block of a settlement before that.
pub const END: u64 = 150;
const PAID: u64 = 50;

/// An account that is neither payer nor recipient, and sends the transaction.
pub const STRANGER: Address = Address::repeat_byte(0x5e);

/// The authorization in question.
#[derive(Clone, Copy, Debug)]
pub struct Signed {
    /// The token.
    pub token: Address,
    /// The signed authorization.
    pub authorization: Authorization,
}

/// A node's answers.
#[derive(Clone, Debug)]
pub struct Says {
    /// The time of block 0.
    pub start: u64,
    /// The number of the newest block.
    pub newest: u64,
    /// The newest final block, if the node returns one.
    pub last_final: Option<u64>,
    /// The first block in which the nonce is used.
    pub used_from: Option<u64>,
    /// What `eth_getLogs` returns.
    pub logs: Vec<Value>,
    /// The receipt of [`TRANSACTION`].
    pub receipt: Value,
    /// A pending transaction.
    pub waiting: Option<B256>,
}

/// The correct conclusion from a node's answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The signed transfer was executed.
    Settled,
    /// Used for another transfer.
    Elsewhere,
    /// Cancelled by the payer.
    Cancelled,
    /// Expired unused.
    Expired,
    /// Not used yet.
    Open,
    /// Unknown: the answers contradict each other.
    Unclear,
}

/// A node, and the conclusions that its users should reach.
#[derive(Debug)]
pub struct Case {
    /// The name of the case.
    pub name: &'static str,
    /// The node's answers.
    pub says: Says,
    /// The correct conclusion.
    pub fate: Fate,
    /// Whether a report that names [`TRANSACTION`] counts as proof, or the error.
    pub counted: Result<(), Code>,
}

impl Says {
    /// The same answers with a change.
    pub fn but(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn answer(&self, method: &str, params: &Value) -> Value {
        let number = |text: &Value| u64::from_str_radix(text.as_str().unwrap_or("0x0").trim_start_matches("0x"), 16);
        match method {
            "eth_getBlockByNumber" => match params[0].as_str() {
                Some("latest") => self.block(self.newest),
                Some("finalized") => self.last_final.map_or(Value::Null, |number| self.block(number)),
                _ => number(&params[0]).map_or(Value::Null, |number| self.block(number)),
            },
            "eth_call" => {
                let at = number(&params[1]).unwrap_or(self.newest);
                json!(B256::from(U256::from(u8::from(self.used_from.is_some_and(|from| at >= from)))))
            }
            "eth_getLogs" => Value::Array(self.logs.clone()),
            "eth_getTransactionReceipt" => self.receipt.clone(),
            "eth_getTransactionByHash" => {
                let hash = self.waiting.filter(|hash| params[0] == json!(hash));
                hash.map_or(Value::Null, |hash| {
                    let (zero, word) = ("0x0", U256::from(1));
                    json!({
                        "type": "0x0", "hash": hash, "nonce": zero, "blockHash": null, "blockNumber": null, "transactionIndex": null,
                        "from": STRANGER, "to": STRANGER, "value": zero, "gas": "0x5208", "gasPrice": "0x1", "input": "0x",
                        "v": "0x1b", "r": word, "s": word,
                    })
                })
            }
            other => panic!("{other} is not asked"),
        }
    }

    fn block(&self, number: u64) -> Value {
        json!({
            "number": format!("{number:#x}"), "timestamp": format!("{:#x}", self.start + 2 * number), "hash": hash(number),
            "parentHash": B256::ZERO, "sha3Uncles": B256::ZERO, "miner": Address::ZERO, "stateRoot": B256::ZERO,
            "transactionsRoot": B256::ZERO, "receiptsRoot": B256::ZERO, "logsBloom": format!("0x{}", "0".repeat(512)),
            "difficulty": "0x0", "gasLimit": "0x1", "gasUsed": "0x0", "extraData": "0x", "mixHash": B256::ZERO,
            "nonce": "0x0000000000000000", "size": "0x1", "uncles": [], "transactions": [],
        })
    }
}

/// Starts a node with these answers.
pub async fn node(chain_id: u64, says: Says) -> FakeNode {
    FakeNode::start(chain_id, move |method, params| Reply::Result(says.answer(method, params))).await
}

fn hash(block: u64) -> B256 {
    keccak256(block.to_be_bytes())
}

impl Signed {
    /// The time of block 0: the authorization expires in block [`END`].
    pub fn start(&self) -> u64 {
        self.authorization.valid_before - 2 * END
    }

    /// Returns the event of its use.
    pub fn used(&self) -> LogData {
        AuthorizationUsed { authorizer: self.authorization.from, nonce: self.authorization.nonce }.encode_log_data()
    }

    /// Returns the event of its cancellation.
    pub fn cancelled(&self) -> LogData {
        AuthorizationCanceled { authorizer: self.authorization.from, nonce: self.authorization.nonce }.encode_log_data()
    }

    /// Returns the event of a transfer between its accounts.
    pub fn moved(&self, value: Amount) -> LogData {
        let Authorization { from, to, .. } = self.authorization;
        Transfer { from, to, value: value.get() }.encode_log_data()
    }

    /// The signed amount.
    pub fn price(&self) -> Amount {
        self.authorization.value
    }

    /// Returns an event as a log of a node.
    pub fn log(&self, block: u64, data: &LogData) -> Value {
        json!({
            "address": self.token, "topics": data.topics(), "data": data.data, "blockHash": hash(block),
            "blockNumber": format!("{block:#x}"), "transactionHash": TRANSACTION, "transactionIndex": "0x0", "logIndex": "0x0",
            "removed": false,
        })
    }

    /// Returns a receipt with these events.
    pub fn receipt(&self, block: u64, logs: &[LogData]) -> Value {
        let logs: Vec<_> = logs.iter().map(|data| self.log(block, data)).collect();
        json!({
            "type": "0x2", "status": "0x1", "cumulativeGasUsed": "0x1", "gasUsed": "0x1", "effectiveGasPrice": "0x1",
            "logsBloom": format!("0x{}", "0".repeat(512)), "logs": logs, "transactionHash": TRANSACTION, "transactionIndex": "0x0",
            "blockHash": hash(block), "blockNumber": format!("{block:#x}"), "from": STRANGER, "to": self.token,
        })
    }

    /// The authorization was settled as signed.
    pub fn settled(&self, at: u64) -> Says {
        Says {
            used_from: Some(at),
            logs: vec![self.log(at, &self.used())],
            receipt: self.receipt(at, &[self.used(), self.moved(self.price())]),
            ..self.unused(NEWEST, Some(FINAL))
        }
    }

    /// The payer cancelled the authorization.
    pub fn cancelled_at(&self, at: u64) -> Says {
        let log = self.log(at, &self.cancelled());
        self.settled(at).but(|says| (says.logs, says.receipt) = (vec![log], Value::Null))
    }

    /// The authorization is unused.
    pub fn unused(&self, newest: u64, last_final: Option<u64>) -> Says {
        Says { start: self.start(), newest, last_final, used_from: None, logs: Vec::new(), receipt: Value::Null, waiting: None }
    }

    /// Honest and lying nodes. The authorization's history starts after [`FROM`].
    pub fn cases(&self) -> Vec<Case> {
        let case = |name, says, fate, counted| Case { name, says, fate, counted };
        let not_found = Err(usage::NOT_FOUND);
        let less = Amount::new(self.price().get() - U256::from(1));
        let paid = |logs: &[LogData]| {
            let receipt = self.receipt(PAID, logs);
            self.settled(PAID).but(|says| says.receipt = receipt)
        };
        let young = |logs: &[LogData]| {
            let receipt = self.receipt(FINAL + 1, logs);
            self.settled(FINAL + 1).but(|says| says.receipt = receipt)
        };
        let transfer = self.moved(self.price());
        let apart = [self.used(), self.moved(Amount::ZERO), transfer.clone()];
        let mut cases = vec![
            case("settled", self.settled(PAID), Fate::Settled, Ok(())),
            case("settled, not final", self.settled(FINAL + 1), Fate::Settled, Err(usage::NOT_FINAL)),
            case("a transfer that does not follow the use", paid(&apart), Fate::Elsewhere, Err(usage::TOO_LITTLE)),
            case("the same, not final", young(&apart), Fate::Open, Err(usage::NOT_FINAL)),
            case("less than signed", paid(&[self.used(), self.moved(less)]), Fate::Elsewhere, Err(usage::TOO_LITTLE)),
            case("a use without a transfer", paid(&[self.used()]), Fate::Elsewhere, Err(usage::NO_AUTHORIZATION)),
            case("the transfer first", paid(&[transfer.clone(), self.used()]), Fate::Elsewhere, Err(usage::NO_AUTHORIZATION)),
            case("a transfer alone", paid(&[transfer]), Fate::Unclear, Err(usage::NO_AUTHORIZATION)),
            case("cancelled", self.cancelled_at(PAID), Fate::Cancelled, not_found),
            case("cancelled, not final", self.cancelled_at(FINAL + 1), Fate::Open, not_found),
            case("valid", self.unused(END - 1, Some(END - 1)), Fate::Open, not_found),
            case("over", self.unused(NEWEST, Some(END)), Fate::Expired, not_found),
            case("over, not final", self.unused(NEWEST, Some(END - 1)), Fate::Open, not_found),
            case("final after the newest", self.unused(NEWEST, Some(NEWEST + 1)), Fate::Open, not_found),
        ];
        type Lie = fn(&mut Value);
        let receipts: [(&'static str, Lie, Code); 6] = [
            ("no receipt", |receipt| *receipt = Value::Null, usage::NOT_FOUND),
            ("the receipt of another transaction", |receipt| receipt["transactionHash"] = json!(B256::ZERO), usage::NOT_FINAL),
            ("a failed transaction", |receipt| receipt["status"] = json!("0x0"), usage::REVERTED),
            ("a receipt of another block", |receipt| receipt["blockNumber"] = json!("0x33"), usage::NOT_FINAL),
            ("logs of another token in the receipt", |receipt| each(receipt, |log| log["address"] = json!(STRANGER)), NO_LOG),
            ("removed logs in the receipt", |receipt| each(receipt, |log| log["removed"] = json!(true)), NO_LOG),
        ];
        for (name, lie, code) in receipts {
            cases.push(case(name, self.settled(PAID).but(|says| lie(&mut says.receipt)), Fate::Unclear, Err(code)));
        }
        let logs: [(&'static str, Lie); 6] = [
            ("a log of another token", |log| log["address"] = json!(STRANGER)),
            ("a log of another payer", |log| log["topics"][1] = json!(STRANGER.into_word())),
            ("a log of another nonce", |log| log["topics"][2] = json!(B256::ZERO)),
            ("a log of another event", |log| log["topics"][0] = json!(Transfer::SIGNATURE_HASH)),
            ("a removed log", |log| log["removed"] = json!(true)),
            ("a log of before", |log| log["blockNumber"] = json!("0x5")),
        ];
        for (name, lie) in logs {
            // With a known transaction hash, only its receipt is read, not the logs.
            cases.push(case(name, self.settled(PAID).but(|says| lie(&mut says.logs[0])), Fate::Unclear, Ok(())));
            cases.push(case(name, self.cancelled_at(PAID).but(|says| lie(&mut says.logs[0])), Fate::Unclear, not_found));
        }
        cases
    }
}

const NO_LOG: Code = usage::NO_AUTHORIZATION;

fn each(receipt: &mut Value, change: fn(&mut Value)) {
    receipt["logs"].as_array_mut().into_iter().flatten().for_each(change);
}
