//! What the chain says about a payment that a gate has taken.

use alloy_primitives::B256;
use toolcrib_chain::settlement::{AuthorizationOutcome, SearchFrom, Trail};

use super::{Found, Record};

/// How far a block's time may lie before ours, in seconds, where a payment was taken without a block to compare with. Taking a transfer
/// of ours for an older one would make its payer pay twice, so this is far more than clocks and chains drift apart.
pub const SKEW_SECONDS: u64 = 3_600;

/// Finds out what became of a payment.
pub(super) async fn look_up(trail: Trail<'_>, record: &Record) -> Found {
    let from = record.from_block.map_or_else(
        || SearchFrom::Time(u64::try_from(record.reserved_at.seconds()).unwrap_or_default().saturating_sub(SKEW_SECONDS)),
        SearchFrom::After,
    );
    match trail.find(from).await {
        Ok(AuthorizationOutcome::Settled { transaction, .. }) => Found::Settled { transaction },
        Ok(AuthorizationOutcome::Open) => Found::Open,
        Ok(AuthorizationOutcome::Expired) => Found::Never,
        Ok(AuthorizationOutcome::Cancelled | AuthorizationOutcome::UsedElsewhere) => Found::Spent,
        Ok(AuthorizationOutcome::Unclear { detail }) => Found::Unclear { detail },
        Err(error) => Found::Unclear { detail: error.to_string() },
    }
}

/// Credits a transfer only to the settlement that made it.
pub(super) fn credited(found: Found, own: impl Fn(B256) -> bool) -> Found {
    match found {
        Found::Settled { transaction } if !own(transaction) => Found::Elsewhere { transaction },
        found => found,
    }
}
