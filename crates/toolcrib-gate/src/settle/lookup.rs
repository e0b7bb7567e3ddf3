//! What the chain says about a payment that a gate has taken.

use alloy_primitives::{Address, B256};
use toolcrib_chain::settlement::{AuthorizationOutcome, SearchFrom, Trail};

use super::{Found, Record};

/// How far a block's time may lie before ours, in seconds, where a payment was taken without a block to compare with. Taking a transfer
/// of ours for an older one would make its payer pay twice, so this is far more than clocks and chains drift apart.
pub const SKEW_SECONDS: u64 = 3_600;

/// A transfer that was made as it was signed, since the payment was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) transaction: B256,
    /// The account that sent the transaction.
    pub(super) sender: Address,
    /// Whether its block cannot be replaced.
    pub(super) is_final: bool,
}

/// Finds the transfer of a payment, or else what became of it.
pub(super) async fn find(trail: Trail<'_>, record: &Record) -> Result<Transfer, Found> {
    let from = record.from_block.map_or_else(
        || SearchFrom::Time(u64::try_from(record.reserved_at.seconds()).unwrap_or_default().saturating_sub(SKEW_SECONDS)),
        SearchFrom::After,
    );
    Err(match trail.find(from).await {
        Ok(AuthorizationOutcome::Settled { transaction, sender, is_final }) => {
            return Ok(Transfer { transaction, sender, is_final });
        }
        Ok(AuthorizationOutcome::Open) => Found::Open,
        Ok(AuthorizationOutcome::Expired) => Found::Never,
        Ok(AuthorizationOutcome::Cancelled | AuthorizationOutcome::UsedElsewhere) => Found::Spent,
        Ok(AuthorizationOutcome::Unclear { detail }) => Found::Unclear { detail },
        Err(error) => Found::Unclear { detail: error.to_string() },
    })
}
