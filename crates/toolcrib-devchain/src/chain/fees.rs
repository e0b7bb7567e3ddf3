//! Gas fees (EIP-1559).

use alloy_consensus::Transaction as _;
use alloy_eips::calc_next_block_base_fee;
use alloy_eips::eip1559::BaseFeeParams;
use alloy_rpc_types_eth::FeeHistory;

use super::{Chain, Rejection};
use crate::limits::{MAX_FEE_HISTORY, MAX_PERCENTILES};

/// The suggested priority fee. There is no competition for blocks here; this is the value that wallets expect.
pub(crate) const SUGGESTED_TIP: u64 = 1_000_000_000;

impl Chain {
    /// The base fee of the next block.
    pub(crate) fn next_base_fee(&self) -> u64 {
        let parent = &self.head().header;
        // As on anvil: no transaction could be in the genesis block, so an empty one says nothing about demand.
        if parent.number == 0 {
            return parent.base_fee_per_gas.unwrap_or_default();
        }
        calc_next_block_base_fee(
            parent.gas_used,
            parent.gas_limit,
            parent.base_fee_per_gas.unwrap_or_default(),
            BaseFeeParams::ethereum(),
        )
    }

    /// Base fees, gas used ratios and priority fees of the `count` blocks up to `newest`.
    pub(crate) fn fee_history(&self, count: u64, newest: u64, percentiles: Option<&[f64]>) -> Result<FeeHistory, Rejection> {
        let newest = newest.min(self.head().header.number);
        let count = count.min(MAX_FEE_HISTORY).min(newest + 1);
        if count == 0 {
            return Ok(FeeHistory::default());
        }
        if let Some(percentiles) = percentiles {
            let ordered = percentiles.windows(2).all(|pair| matches!(pair, [a, b] if a <= b));
            let bounded = percentiles.iter().all(|percentile| (0.0..=100.0).contains(percentile));
            if percentiles.len() > MAX_PERCENTILES || !ordered || !bounded {
                return Err(Rejection::Parameter("invalid reward percentile: at most 100 ascending numbers in 0..=100".into()));
            }
        }
        let oldest = newest + 1 - count;
        let mut history = FeeHistory { oldest_block: oldest, reward: percentiles.map(|_| Vec::new()), ..FeeHistory::default() };
        for number in oldest..=newest {
            let Some(block) = self.blocks.at(number) else { break };
            let header = &block.header;
            history.base_fee_per_gas.push(header.base_fee_per_gas.unwrap_or_default().into());
            history.base_fee_per_blob_gas.push(1);
            history.blob_gas_used_ratio.push(0.0);
            history.gas_used_ratio.push(header.gas_used as f64 / header.gas_limit as f64);
            if let (Some(rewards), Some(percentiles)) = (&mut history.reward, percentiles) {
                let base_fee = header.base_fee_per_gas.unwrap_or_default();
                let mut tips: Vec<(u128, u64)> = block
                    .transactions
                    .iter()
                    .zip(&block.receipts)
                    .map(|(tx, receipt)| (tx.effective_tip_per_gas(base_fee).unwrap_or_default(), receipt.gas_used))
                    .collect();
                tips.sort_unstable();
                rewards.push(percentiles.iter().map(|percentile| tip_at(&tips, header.gas_used, *percentile)).collect());
            }
        }
        let after = self.blocks.at(newest + 1).and_then(|block| block.header.base_fee_per_gas);
        history.base_fee_per_gas.push(after.unwrap_or_else(|| self.next_base_fee()).into());
        history.base_fee_per_blob_gas.push(1);
        Ok(history)
    }
}

/// The priority fee at `percentile` of the block's gas.
fn tip_at(tips: &[(u128, u64)], gas_used: u64, percentile: f64) -> u128 {
    let threshold = (gas_used as f64 * percentile / 100.0) as u64;
    let mut sum = 0;
    for (tip, gas) in tips {
        sum += gas;
        if sum >= threshold {
            return *tip;
        }
    }
    tips.last().map(|(tip, _)| *tip).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_weighted_by_gas() {
        let tips = [(1, 90), (5, 10)];
        assert_eq!(tip_at(&tips, 100, 0.0), 1);
        assert_eq!(tip_at(&tips, 100, 90.0), 1);
        assert_eq!(tip_at(&tips, 100, 91.0), 5);
        assert_eq!(tip_at(&tips, 100, 100.0), 5);
        assert_eq!(tip_at(&[], 0, 50.0), 0);
    }
}
