//! The price of a call.

use schemars::JsonSchema;
use serde::Serialize;
use toolcrib_core::money::Amount;
use toolcrib_index::listing::Price;
use toolcrib_index::model::ToolView;

use super::{dollars, manifest, time};

/// A payment option.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct PricingRecipient {
    /// Who is paid.
    pub(crate) recipient: String,
    /// On which chain.
    pub(crate) payment_chain: String,
    /// In which asset.
    pub(crate) asset: String,
    /// By which protocol.
    pub(crate) protocol: String,
    /// How much, in the smallest unit.
    pub(crate) amount_per_call: String,
    /// Since when.
    pub(crate) created_at: String,
    /// The asset's symbol, for assets of a pinned table alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) asset_symbol: Option<String>,
    /// The asset's digits after the point, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) asset_decimals: Option<u8>,
    /// How much in dollars, for dollars of the pinned table alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) amount_per_call_usd: Option<String>,
    /// The asset as CAIP-19.
    pub(crate) asset_id: String,
}

impl PricingRecipient {
    /// Returns the amount in words: `0.01 USDC` for known assets, otherwise the number of smallest units.
    pub(crate) fn spoken(&self) -> String {
        match (&self.asset_symbol, self.asset_decimals, Amount::parse(&self.amount_per_call)) {
            (Some(symbol), Some(decimals), Ok(amount)) => format!("{} {symbol}", amount.format_units(decimals)),
            _ => format!("{} of the smallest unit of {}", self.amount_per_call, self.asset),
        }
    }
}

pub(super) fn prices(view: &ToolView) -> Vec<PricingRecipient> {
    manifest(view).map(|manifest| recipients(&manifest.prices, &time(view.row.updated.time))).unwrap_or_default()
}

/// Converts payment options, with the time since which they apply.
pub(super) fn recipients(prices: &[Price], since: &str) -> Vec<PricingRecipient> {
    let one = |price: &Price| PricingRecipient {
        recipient: price.recipient.rsplit(':').next().unwrap_or_default().to_owned(),
        payment_chain: price
            .chain
            .map_or_else(|| price.asset.split('/').next().unwrap_or_default().to_owned(), |chain| chain.to_string()),
        asset: price.token.map_or_else(|| price.asset.clone(), |token| format!("{token:#x}")),
        protocol: price.protocol.clone(),
        amount_per_call: price.amount.clone(),
        created_at: since.to_owned(),
        asset_symbol: price.symbol.clone(),
        asset_decimals: price.decimals,
        amount_per_call_usd: price.micro_usd.map(dollars),
        asset_id: price.asset.clone(),
    };
    prices.iter().map(one).collect()
}
