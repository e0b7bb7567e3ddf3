//! The proven usage of a tool.

use schemars::JsonSchema;
use serde::Serialize;
use toolcrib_index::model::ToolView;
use toolcrib_index::usage::PaymentStats;

use super::{dollars, time};

/// What was proven about the use of a tool.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Usage {
    /// Paid calls, each proven by a transaction.
    pub(crate) paid_calls: u64,
    /// Different accounts that paid.
    pub(crate) payers: u64,
    /// The same without the creator and the recipients: what ranking goes by.
    pub(crate) ranking_payers: u64,
    /// What was paid in dollars.
    pub(crate) volume_usd: String,
    /// Signatures over nothing. They cost nothing and never rank.
    pub(crate) signed_calls: u64,
    /// The last proven use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_at: Option<String>,
}

impl Usage {
    /// Returns the view without any usage.
    pub(super) fn none() -> Self {
        Self { paid_calls: 0, payers: 0, ranking_payers: 0, volume_usd: dollars(0), signed_calls: 0, last_at: None }
    }

    pub(super) fn of(view: &ToolView) -> Self {
        let usage = &view.usage;
        Self {
            paid_calls: usage.paid_calls,
            payers: usage.payers,
            ranking_payers: usage.ranking_payers,
            volume_usd: dollars(usage.volume),
            signed_calls: usage.signed_calls,
            last_at: usage.last_at.map(time),
        }
    }
}

/// Payments that were proven.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "PaymentStats")]
pub(crate) struct PaymentView {
    /// All of them.
    pub(crate) total_payments: u64,
    /// What was paid in dollars.
    pub(crate) total_volume_usd: f64,
    /// Different accounts that paid.
    pub(crate) unique_buyers: u64,
    /// Those of the last day.
    pub(crate) payments_last_24h: u64,
    /// Those of the last week.
    pub(crate) payments_last_7d: u64,
}

impl From<PaymentStats> for PaymentView {
    fn from(stats: PaymentStats) -> Self {
        Self {
            total_payments: stats.total_payments,
            total_volume_usd: stats.volume as f64 / 1e6,
            unique_buyers: stats.unique_buyers,
            payments_last_24h: stats.payments_last_24h,
            payments_last_7d: stats.payments_last_7d,
        }
    }
}
