//! Methods of development chains, with the names from anvil and hardhat.

use std::collections::HashMap;
use std::time::Duration;

use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use alloy_rpc_types_eth::TransactionRequest;
use serde::Deserialize;
use serde_json::{Value, json};
use toolcrib_core::clock::Clock;

use super::params::Loose;
use super::{Answer, Method, Params, RpcError, reply, sending};
use crate::chain::{Chain, Mining, Rejection, Tx, decode};
use crate::limits::MAX_MINE;

pub(super) fn find(method: &str) -> Option<Method> {
    let (family, name) = method.split_once('_')?;
    if !matches!(family, "evm" | "anvil" | "hardhat" | "toolcrib") {
        return None;
    }
    Some(match (family, name) {
        ("evm", "mine") => evm_mine,
        (_, "mine") => mine,
        (_, "snapshot") => |chain, _| reply(U64::from(chain.snapshot())),
        (_, "revert") => |chain, mut params| {
            let id = params.next::<Loose>()?.u64()?;
            reply(chain.revert(id))
        },
        (_, "increaseTime") => increase_time,
        (_, "setTime") => set_time,
        (_, "setNextBlockTimestamp") => set_next_block_timestamp,
        (_, "setAutomine") => set_automine,
        (_, "getAutomine") => |chain, _| reply(chain.mining == Mining::Auto),
        (_, "setIntervalMining") => set_interval_mining,
        ("evm", _) => return None,
        (_, "setBalance") => set_balance,
        (_, "setNonce") => set_nonce,
        (_, "setCode") => set_code,
        (_, "setStorageAt") => set_storage_at,
        (_, "reorg") => reorg,
        (_, "rollback") => rollback,
        (_, "dropTransaction") => |chain, mut params| {
            let hash: B256 = params.next()?;
            reply(chain.drop_waiting(hash).then_some(hash))
        },
        (_, "dropAllTransactions") => |chain, _| {
            chain.clear_pool();
            Ok(Value::Null)
        },
        (_, "nodeInfo") => node_info,
        _ => return None,
    })
}

/// `evm_mine`, with a timestamp, `{timestamp, blocks}`, or nothing.
fn evm_mine(chain: &mut Chain, mut params: Params) -> Answer {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Options {
        timestamp: Option<Loose>,
        blocks: Option<Loose>,
    }
    let options = match params.raw() {
        None | Some(Value::Null) => Options::default(),
        Some(Value::Object(map)) => {
            serde_json::from_value(Value::Object(map)).map_err(|error| RpcError::params(error.to_string()))?
        }
        Some(value) => {
            let timestamp = serde_json::from_value(value).map_err(|error| RpcError::params(error.to_string()))?;
            Options { timestamp: Some(timestamp), blocks: None }
        }
    };
    let blocks = options.blocks.map_or(Ok(1), Loose::u64)?;
    check_count(blocks)?;
    if let Some(timestamp) = options.timestamp {
        set_next(chain, timestamp.u64()?)?;
    }
    for _ in 0..blocks {
        chain.mine();
    }
    reply("0x0")
}

/// `anvil_mine`: the number of blocks, and the seconds between them.
fn mine(chain: &mut Chain, mut params: Params) -> Answer {
    let blocks = params.optional::<Loose>()?.map_or(Ok(1), Loose::u64)?;
    let interval = params.optional::<Loose>()?.map_or(Ok(0), Loose::u64)?;
    check_count(blocks)?;
    for index in 0..blocks {
        if index > 0 && interval > 0 {
            chain.clock.advance(i64::try_from(interval).unwrap_or(i64::MAX));
        }
        chain.mine();
    }
    Ok(Value::Null)
}

fn check_count(blocks: u64) -> Result<(), RpcError> {
    if blocks > MAX_MINE {
        return Err(RpcError::limit(format!("at most {MAX_MINE} blocks at a time")));
    }
    Ok(())
}

fn increase_time(chain: &mut Chain, mut params: Params) -> Answer {
    let seconds = params.next::<Loose>()?.u64()?;
    let seconds = i64::try_from(seconds).map_err(|_| RpcError::params("too many seconds"))?;
    chain.clock.advance(seconds);
    reply(chain.clock.offset())
}

fn set_time(chain: &mut Chain, mut params: Params) -> Answer {
    let timestamp = params.next::<Loose>()?.u64()?;
    let before = chain.clock.now().seconds();
    chain.clock.set(timestamp);
    reply(chain.clock.now().seconds().saturating_sub(before))
}

fn set_next_block_timestamp(chain: &mut Chain, mut params: Params) -> Answer {
    set_next(chain, params.next::<Loose>()?.u64()?)?;
    Ok(Value::Null)
}

fn set_next(chain: &mut Chain, given: u64) -> Result<(), Rejection> {
    let newest = chain.head().header.timestamp;
    if given < newest {
        return Err(Rejection::Timestamp { given, newest });
    }
    chain.clock.set_next(given);
    Ok(())
}

fn set_automine(chain: &mut Chain, mut params: Params) -> Answer {
    chain.mining = if params.next()? { Mining::Auto } else { Mining::Manual };
    Ok(Value::Null)
}

fn set_interval_mining(chain: &mut Chain, mut params: Params) -> Answer {
    let seconds = params.next::<Loose>()?.u64()?;
    chain.mining = if seconds == 0 { Mining::Manual } else { Mining::Interval(Duration::from_secs(seconds)) };
    Ok(Value::Null)
}

fn set_balance(chain: &mut Chain, mut params: Params) -> Answer {
    let address: Address = params.next()?;
    let Loose(balance) = params.next()?;
    chain.set_balance(address, balance);
    Ok(Value::Null)
}

fn set_nonce(chain: &mut Chain, mut params: Params) -> Answer {
    let address: Address = params.next()?;
    let nonce = params.next::<Loose>()?.u64()?;
    chain.set_nonce(address, nonce);
    Ok(Value::Null)
}

fn set_code(chain: &mut Chain, mut params: Params) -> Answer {
    let address: Address = params.next()?;
    let code: Bytes = params.next()?;
    chain.set_code(address, code);
    Ok(Value::Null)
}

fn set_storage_at(chain: &mut Chain, mut params: Params) -> Answer {
    let address: Address = params.next()?;
    let Loose(slot) = params.next()?;
    let value: B256 = params.next()?;
    chain.set_slot(address, slot, U256::from_be_bytes(value.0));
    reply(true)
}

/// `anvil_reorg`: depth, and pairs of a transaction (raw, or a request of a development account) and the block it goes to.
fn reorg(chain: &mut Chain, mut params: Params) -> Answer {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum ReorgTransaction {
        Raw(Bytes),
        Request(Box<TransactionRequest>),
    }
    let depth = params.next::<Loose>()?.u64()?;
    let given: Vec<(ReorgTransaction, u64)> = params.optional()?.unwrap_or_default();
    let base = chain.head().header.number.saturating_sub(depth);
    let mut nonces: HashMap<Address, u64> = HashMap::new();
    let mut pairs: Vec<(Tx, u64)> = Vec::with_capacity(given.len());
    for (given, block) in given {
        let tx = match given {
            ReorgTransaction::Raw(raw) => decode(&raw)?,
            ReorgTransaction::Request(request) => {
                let from = request.from.unwrap_or_default();
                let nonce = match nonces.get(&from) {
                    Some(nonce) => *nonce,
                    None => chain.nonce(from, BlockId::Number(BlockNumberOrTag::Number(base)))?,
                };
                nonces.insert(from, nonce.saturating_add(1));
                sending::sign_request(chain, *request, Some(nonce))?
            }
        };
        pairs.push((tx, block));
    }
    chain.reorg(depth, pairs)?;
    Ok(Value::Null)
}

fn rollback(chain: &mut Chain, mut params: Params) -> Answer {
    let depth = params.optional::<Loose>()?.map_or(Ok(1), Loose::u64)?;
    chain.rollback(depth)?;
    Ok(Value::Null)
}

fn node_info(chain: &mut Chain, _: Params) -> Answer {
    let head = chain.head();
    reply(json!({
        "currentBlockNumber": U64::from(head.header.number),
        "currentBlockTimestamp": head.header.timestamp,
        "currentBlockHash": head.hash,
        "hardFork": "osaka",
        "transactionOrder": "fees",
        "environment": {
            "baseFee": U64::from(chain.next_base_fee()),
            "chainId": chain.config.chain_id,
            "gasLimit": U64::from(head.header.gas_limit),
            "gasPrice": U64::from(chain.next_base_fee()),
        },
        "forkConfig": {},
    }))
}
