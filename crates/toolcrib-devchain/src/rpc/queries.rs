//! Read-only methods.

use alloy_consensus::Transaction as _;
use alloy_eips::{BlockId, BlockNumberOrTag, Encodable2718};
use alloy_primitives::{Address, B256, Bytes, U64, keccak256};
use alloy_rpc_types_eth::state::StateOverride;
use alloy_rpc_types_eth::{BlockOverrides, BlockTransactions, Filter, Transaction, TransactionRequest};
use serde_json::{Value, json};

use super::params::Loose;
use super::{Answer, Method, Params, RpcError, reply};
use crate::accounts::dev_accounts;
use crate::chain::{Chain, Mined, Point, SUGGESTED_TIP, Tx};

/// The client version of the node.
const CLIENT_VERSION: &str = concat!("toolcrib-devchain/v", env!("CARGO_PKG_VERSION"));

pub(super) fn find(method: &str) -> Option<Method> {
    Some(match method {
        "web3_clientVersion" => |_, _| reply(CLIENT_VERSION),
        "web3_sha3" => |_, mut params| reply(keccak256(params.next::<Bytes>()?)),
        "net_version" => |chain, _| reply(chain.config.chain_id.to_string()),
        "net_listening" => |_, _| reply(true),
        "net_peerCount" => |_, _| reply(U64::ZERO),
        "rpc_modules" => |_, _| reply(json!({ "eth": "1.0", "net": "1.0", "web3": "1.0", "evm": "1.0", "anvil": "1.0" })),
        "eth_chainId" => |chain, _| reply(U64::from(chain.config.chain_id)),
        "eth_syncing" => |_, _| reply(false),
        "eth_accounts" => |_, _| reply(dev_accounts().collect::<Vec<_>>()),
        "eth_coinbase" => |chain, _| reply(chain.config.coinbase),
        "eth_blockNumber" => |chain, _| reply(U64::from(chain.head().header.number)),
        "eth_gasPrice" => |chain, _| reply(U64::from(chain.next_base_fee().saturating_add(SUGGESTED_TIP))),
        "eth_maxPriorityFeePerGas" => |_, _| reply(U64::from(SUGGESTED_TIP)),
        "eth_blobBaseFee" => |_, _| reply(U64::from(1)),
        "eth_feeHistory" => fee_history,
        "eth_getBalance" => balance,
        "eth_getTransactionCount" => transaction_count,
        "eth_getCode" => code,
        "eth_getStorageAt" => storage_at,
        "eth_call" => call,
        "eth_estimateGas" => estimate_gas,
        "eth_createAccessList" => create_access_list,
        "eth_getBlockByNumber" => block_by_number,
        "eth_getBlockByHash" => block_by_hash,
        "eth_getBlockReceipts" => block_receipts,
        "eth_getBlockTransactionCountByNumber" => |chain, mut params| {
            let tag: BlockNumberOrTag = params.next()?;
            reply(count(chain, tag.into()))
        },
        "eth_getBlockTransactionCountByHash" => |chain, mut params| {
            let hash: B256 = params.next()?;
            reply(count(chain, hash.into()))
        },
        "eth_getUncleCountByBlockNumber" | "eth_getUncleCountByBlockHash" => |_, _| reply(U64::ZERO),
        "eth_getUncleByBlockHashAndIndex" | "eth_getUncleByBlockNumberAndIndex" => |_, _| Ok(Value::Null),
        "eth_getTransactionByHash" => transaction_by_hash,
        "eth_getRawTransactionByHash" => raw_transaction,
        "eth_getTransactionByBlockHashAndIndex" => |chain, mut params| {
            let hash: B256 = params.next()?;
            transaction_in(chain, hash.into(), params)
        },
        "eth_getTransactionByBlockNumberAndIndex" => |chain, mut params| {
            let tag: BlockNumberOrTag = params.next()?;
            transaction_in(chain, tag.into(), params)
        },
        "eth_getTransactionReceipt" => receipt,
        "eth_getLogs" => |chain, mut params| reply(chain.logs(&params.next::<Filter>()?)?),
        "eth_newFilter" => |chain, mut params| {
            let filter = params.next()?;
            reply(chain.install_log_filter(filter)?)
        },
        "eth_newBlockFilter" => |chain, _| reply(chain.install_block_filter()),
        "eth_newPendingTransactionFilter" => |chain, _| reply(chain.install_pending_filter()),
        "eth_uninstallFilter" => |chain, mut params| {
            let Loose(id) = params.next()?;
            reply(chain.uninstall_filter(id))
        },
        "eth_getFilterChanges" => |chain, mut params| {
            let Loose(id) = params.next()?;
            reply(chain.filter_changes(id)?)
        },
        "eth_getFilterLogs" => |chain, mut params| {
            let Loose(id) = params.next()?;
            reply(chain.filter_logs(id)?)
        },
        "eth_pendingTransactions" => |chain, _| reply(chain.pool().map(waiting).collect::<Vec<_>>()),
        "txpool_status" => |chain, _| {
            let (pending, queued): (Vec<_>, Vec<_>) = chain.pool().partition(|tx| chain.is_pending(tx));
            reply(json!({ "pending": U64::from(pending.len()), "queued": U64::from(queued.len()) }))
        },
        "txpool_content" => |chain, _| reply(pool_content(chain)),
        _ => return None,
    })
}

/// The pool by sender and nonce: ready for the next block, and behind a nonce gap.
fn pool_content(chain: &Chain) -> Value {
    let mut content = json!({ "pending": {}, "queued": {} });
    for tx in chain.pool() {
        let place = if chain.is_pending(tx) { "pending" } else { "queued" };
        content[place][tx.signer().to_string()][tx.nonce().to_string()] = json!(waiting(tx));
    }
    content
}

fn block_id(params: &mut Params) -> Result<BlockId, RpcError> {
    Ok(params.optional()?.unwrap_or_else(BlockId::latest))
}

fn fee_history(chain: &mut Chain, mut params: Params) -> Answer {
    let blocks = params.next::<Loose>()?.u64()?;
    let newest: BlockNumberOrTag = params.next()?;
    let percentiles: Option<Vec<f64>> = params.optional()?;
    reply(chain.fee_history(blocks, chain.number(newest), percentiles.as_deref())?)
}

fn balance(chain: &mut Chain, mut params: Params) -> Answer {
    let address: Address = params.next()?;
    let at = chain.point(block_id(&mut params)?)?;
    reply(chain.balance(address, &at))
}

fn transaction_count(chain: &mut Chain, mut params: Params) -> Answer {
    let address: Address = params.next()?;
    reply(U64::from(chain.nonce(address, block_id(&mut params)?)?))
}

fn code(chain: &mut Chain, mut params: Params) -> Answer {
    let address: Address = params.next()?;
    let at = chain.point(block_id(&mut params)?)?;
    reply(chain.code(address, &at))
}

fn storage_at(chain: &mut Chain, mut params: Params) -> Answer {
    let address: Address = params.next()?;
    let Loose(slot) = params.next()?;
    let at = chain.point(block_id(&mut params)?)?;
    reply(B256::from(chain.slot(address, slot, &at)))
}

fn call(chain: &mut Chain, mut params: Params) -> Answer {
    let request: TransactionRequest = params.next()?;
    let mut at = chain.point(block_id(&mut params)?)?;
    let overrides: StateOverride = params.optional()?.unwrap_or_default();
    override_block(&mut at, &mut params)?;
    reply(chain.call(&request, &at, overrides)?)
}

fn estimate_gas(chain: &mut Chain, mut params: Params) -> Answer {
    let request: TransactionRequest = params.next()?;
    let mut at = chain.point(block_id(&mut params)?)?;
    let overrides: StateOverride = params.optional()?.unwrap_or_default();
    override_block(&mut at, &mut params)?;
    reply(U64::from(chain.estimate_gas(&request, &at, overrides)?))
}

fn create_access_list(chain: &mut Chain, mut params: Params) -> Answer {
    let request: TransactionRequest = params.next()?;
    let at = chain.point(block_id(&mut params)?)?;
    let overrides: StateOverride = params.optional()?.unwrap_or_default();
    let (list, gas, error) = chain.access_list(request, &at, &overrides)?;
    let mut answer = json!({ "accessList": list, "gasUsed": U64::from(gas) });
    if let Some(error) = error {
        answer["error"] = json!(error.to_string());
    }
    Ok(answer)
}

/// Applies block overrides from the next parameter. Unsupported ones are an error, not ignored.
fn override_block(at: &mut Point, params: &mut Params) -> Result<(), RpcError> {
    let Some(change) = params.optional::<BlockOverrides>()? else { return Ok(()) };
    if change.block_hash.is_some() || change.difficulty.is_some() || change.beacon_root.is_some() {
        return Err(RpcError::params("block overrides of difficulty, blockHash and beaconRoot are not supported"));
    }
    let header = &mut at.header;
    if let Some(number) = change.number {
        header.number = number.try_into().map_err(|_| RpcError::params("the block number is too large"))?;
    }
    if let Some(base_fee) = change.base_fee {
        let base_fee = base_fee.try_into().map_err(|_| RpcError::params("the base fee is too large"))?;
        header.base_fee_per_gas = Some(base_fee);
    }
    header.timestamp = change.time.unwrap_or(header.timestamp);
    header.gas_limit = change.gas_limit.unwrap_or(header.gas_limit);
    header.beneficiary = change.coinbase.unwrap_or(header.beneficiary);
    header.mix_hash = change.random.unwrap_or(header.mix_hash);
    Ok(())
}

fn block_by_number(chain: &mut Chain, mut params: Params) -> Answer {
    let tag: BlockNumberOrTag = params.next()?;
    let whole: bool = params.optional()?.unwrap_or_default();
    if tag.is_pending() {
        return reply(pending_block(chain, whole));
    }
    reply(chain.block(tag.into()).map(|block| block.rpc_block(whole)))
}

fn block_by_hash(chain: &mut Chain, mut params: Params) -> Answer {
    let hash: B256 = params.next()?;
    let whole: bool = params.optional()?.unwrap_or_default();
    reply(chain.block(hash.into()).map(|block| block.rpc_block(whole)))
}

/// The pending block: its header, and the transactions in the pool.
fn pending_block(chain: &Chain, whole: bool) -> alloy_rpc_types_eth::Block {
    let mut block = Mined::seal(chain.next_header(), Vec::new(), 0).rpc_block(false);
    let list = chain.pool().filter(|tx| chain.is_pending(tx));
    block.transactions = if whole {
        BlockTransactions::Full(list.map(waiting).collect())
    } else {
        BlockTransactions::Hashes(list.map(|tx| *tx.tx_hash()).collect())
    };
    block
}

fn block_receipts(chain: &mut Chain, mut params: Params) -> Answer {
    let id: BlockId = params.next()?;
    reply(chain.block(id).map(|block| &block.receipts))
}

fn count(chain: &Chain, id: BlockId) -> Option<U64> {
    if id.is_pending() {
        return Some(U64::from(chain.pool().filter(|tx| chain.is_pending(tx)).count()));
    }
    chain.block(id).map(|block| U64::from(block.transactions.len()))
}

fn transaction_by_hash(chain: &mut Chain, mut params: Params) -> Answer {
    let hash: B256 = params.next()?;
    let mined = chain.mined(hash).and_then(|(block, index)| block.rpc_transaction(index));
    reply(mined.or_else(|| chain.waiting(hash).map(waiting)))
}

fn raw_transaction(chain: &mut Chain, mut params: Params) -> Answer {
    let hash: B256 = params.next()?;
    let mined = chain.mined(hash).and_then(|(block, index)| block.transactions.get(index));
    reply(mined.or_else(|| chain.waiting(hash)).map(|tx| Bytes::from(tx.encoded_2718())))
}

fn transaction_in(chain: &Chain, id: BlockId, mut params: Params) -> Answer {
    let index = params.next::<Loose>()?.u64()?;
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    reply(chain.block(id).and_then(|block| block.rpc_transaction(index)))
}

fn receipt(chain: &mut Chain, mut params: Params) -> Answer {
    let hash: B256 = params.next()?;
    reply(chain.mined(hash).and_then(|(block, index)| block.receipts.get(index)))
}

/// A transaction that is not in a block yet.
fn waiting(tx: &Tx) -> Transaction {
    Transaction {
        inner: tx.clone(),
        block_hash: None,
        block_number: None,
        transaction_index: None,
        effective_gas_price: Some(tx.max_fee_per_gas()),
        block_timestamp: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_names_itself() {
        assert!(CLIENT_VERSION.starts_with("toolcrib-devchain/v"));
        assert!(find("eth_chainId").is_some());
        assert!(find("eth_nothing").is_none());
    }
}
