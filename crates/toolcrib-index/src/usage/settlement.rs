//! Verifies a payment by the receipt of its transaction.

use std::time::Duration;

use alloy_primitives::{B256, U256};
use alloy_rpc_types_eth::TransactionReceipt;
use toolcrib_chain::rpc::Chain;
use toolcrib_chain::settlement::{Block, block_at, last_final, newest_block, payments};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::usage as code;

use super::Judged;
use super::count::Call;
use super::payee::{self, Belongs, Payee};
use super::pending::Wait;
use crate::model::ToolView;
use crate::{Chains, Error, Index};

/// The timeout for one report, all RPC calls together. Reporters wait five seconds; a slower check is kept and repeated.
pub const JUDGE_TIMEOUT: Duration = Duration::from_secs(4);

/// Checks on the chain the payment that a report names.
pub(super) async fn judge(index: &Index, chains: &Chains, view: &ToolView, wait: &Wait) -> Result<Judged, Error> {
    if !view.is_listed() {
        return Ok(Judged::Refused(code::TOOL_NOT_LISTED));
    }
    let Some(chain) = chains.get(wait.chain) else { return Ok(Judged::Refused(code::CHAIN_UNKNOWN)) };
    let mut payees = Payee::all(view);
    payees.retain(|payee| payee.chain == wait.chain && !payee.amount.is_zero());
    if payees.is_empty() {
        return Ok(Judged::Refused(code::NO_PRICE));
    }
    payees.retain(|payee| payee::believed(chains, payee.chain, payee.token).is_some());
    if payees.is_empty() {
        return Ok(Judged::Refused(code::TOKEN_UNKNOWN));
    }
    let (receipt, at) = match tokio::time::timeout(JUDGE_TIMEOUT, read(chain, wait.transaction)).await {
        Ok(Ok(TransactionStatus::Final(receipt, at))) => (receipt, at),
        Ok(Ok(TransactionStatus::Failed)) => return Ok(Judged::Refused(code::REVERTED)),
        Ok(Ok(TransactionStatus::Young)) => return Ok(Judged::Later(code::NOT_FINAL)),
        Ok(Ok(TransactionStatus::Missing)) => return Ok(Judged::Later(code::NOT_FOUND)),
        Ok(Err(_)) | Err(_) => return Ok(Judged::Later(code::UNREACHABLE)),
    };
    if at < view.row.registered.time {
        return Ok(Judged::Refused(code::TOO_EARLY));
    }
    let mut proven: Vec<(bool, Call)> = Vec::new();
    // The refusal of the payment that passed the most checks.
    let (mut refusal, mut furthest) = (code::NO_AUTHORIZATION, 0);
    let mut refuse = |rank, code| {
        if rank > furthest {
            (furthest, refusal) = (rank, code);
        }
    };
    let all = Payee::all(view);
    for payee in &payees {
        let mut belongs = None;
        for paid in payments(&receipt, payee.token, wait.caller) {
            if paid.to != payee.recipient {
                refuse(1, code::WRONG_RECIPIENT);
                continue;
            }
            if paid.value < payee.amount {
                refuse(2, code::TOO_LITTLE);
                continue;
            }
            let exact = paid.value == payee.amount;
            let to = match belongs {
                Some(belongs) => belongs,
                None => *belongs.insert(payee::belongs(index, view, payee).await?),
            };
            if to == Belongs::Elsewhere || (to == Belongs::Shared && !exact) {
                refuse(3, code::OTHER_TOOL);
                continue;
            }
            let is_own = wait.caller == view.row.creator || all.iter().any(|payee| payee.recipient == wait.caller);
            let decimals = payee::believed(chains, payee.chain, payee.token).unwrap_or_default();
            let call = Call {
                key: view.row.key,
                paid: true,
                counts: !is_own,
                chain: payee.chain,
                token: payee.token,
                payer: wait.caller,
                nonce: paid.nonce,
                seller: paid.to,
                amount: paid.value,
                volume: micro_dollars(paid.value, decimals),
                transaction: Some(wait.transaction),
                at,
                latency_ms: wait.latency_ms,
            };
            proven.push((exact, call));
        }
    }
    if proven.is_empty() {
        return Ok(Judged::Refused(refusal));
    }
    proven.sort_by_key(|(exact, _)| !exact);
    Ok(Judged::Proven(proven.into_iter().map(|(_, call)| call).collect()))
}

/// The state of a transaction on a chain.
enum TransactionStatus {
    /// It succeeded in a final block, at this time.
    Final(Box<TransactionReceipt>, UnixTime),
    /// It failed in a final block.
    Failed,
    /// It may still be reorganised.
    Young,
    /// It is unknown.
    Missing,
}

async fn read(chain: &Chain, transaction: B256) -> Result<TransactionStatus, toolcrib_chain::Error> {
    let Some(receipt) = chain.receipt(transaction).await? else { return Ok(TransactionStatus::Missing) };
    let (Some(number), Some(hash)) = (receipt.block_number, receipt.block_hash) else { return Ok(TransactionStatus::Young) };
    // The node is trusted for which transaction a receipt belongs to; that its block is final is verified.
    let last = last_final(chain, newest_block(chain).await?).await?;
    if receipt.transaction_hash != transaction || last.is_none_or(|last| number > last.number) {
        return Ok(TransactionStatus::Young);
    }
    let Some(Block { time, .. }) = block_at(chain, number).await?.filter(|block| block.hash == hash) else {
        return Ok(TransactionStatus::Young);
    };
    if !receipt.status() {
        return Ok(TransactionStatus::Failed);
    }
    Ok(TransactionStatus::Final(Box::new(receipt), UnixTime::from_seconds(i64::try_from(time).unwrap_or(i64::MAX))))
}

/// Returns an amount of a dollar token in micro-dollars.
fn micro_dollars(value: U256, decimals: u8) -> u64 {
    let six = U256::from(1_000_000);
    let unit = U256::from(10).checked_pow(U256::from(decimals)).unwrap_or(U256::MAX);
    let micro = value.checked_mul(six).unwrap_or(U256::MAX) / unit;
    u64::try_from(micro).unwrap_or(u64::MAX)
}
