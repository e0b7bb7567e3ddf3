//! Looking up the outcome of a payment on the chain.

use alloy_primitives::{Address, B256};
use toolcrib_chain::settlement::{AuthorizationOutcome, SearchFrom, Trail};

use super::{Found, Record};

/// By how many seconds a block's time may be before the reservation of a payment, if no block was recorded at the reservation. If this
/// server's transfer counted as an older one, its payer would have to pay twice, so this is far more than clocks and chains drift apart.
pub const SKEW_SECONDS: u64 = 3_600;

/// A transfer that was made as it was signed, after the payment was reserved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) transaction: B256,
    /// The account that sent the transaction.
    pub(super) sender: Address,
    /// Whether its block cannot be replaced.
    pub(super) is_final: bool,
}

/// Finds the transfer of a payment, or else the payment's outcome.
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
