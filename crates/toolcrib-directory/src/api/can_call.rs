//! `GET …/can_call`: whether a wallet may use a tool, and whether a budget is enough.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use schemars::JsonSchema;
use serde::Serialize;
use toolcrib_index::listing::AccessKind;
use toolcrib_index::model::ToolView;

use crate::answer::{Answer, Refusal, fresh_for, json};
use crate::api::tool_at;
use crate::directory::App;
use crate::parameters::Parameters;
use crate::view::{access_kind, dollars, manifest};

/// Whether a call would be served.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CanCall {
    /// Yes, no, or `null` where it cannot be told.
    pub(crate) can_call: Option<bool>,
    /// What the chain says of the wallet: `granted`, `denied` or `unknown`.
    pub(crate) access: &'static str,
    /// What the cheapest option costs in dollars; `0` for a tool without a price, `null` for prices in other assets alone.
    pub(crate) price_usd: Option<String>,
    /// Whether the budget is enough, if one was given and the price is known.
    pub(crate) within_budget: Option<bool>,
    /// Whether the tool is verified and conformant. Others should not be called at all.
    pub(crate) listed: bool,
    /// Why not, or why it cannot be told.
    pub(crate) reasons: Vec<&'static str>,
}

pub(crate) async fn can_call(State(app): State<Arc<App>>, uri: Uri) -> Answer {
    let parameters = Parameters::of(&uri)?;
    let wallet =
        parameters.address("wallet")?.ok_or_else(|| Refusal::parameter("wallet", "expected the account that would call"))?;
    let budget = parameters.dollars("budget")?;
    let view = tool_at(&app, &uri).await?;
    let granted = if !view.row.is_active() {
        Some(false)
    } else if access_kind(&view) == AccessKind::Open {
        Some(true)
    } else {
        let doorkeeper = app.doorkeeper.as_ref().ok_or_else(Refusal::unavailable)?;
        doorkeeper.may_use(wallet, std::slice::from_ref(&view)).await?.first().copied().flatten()
    };
    Ok(fresh_for(json(StatusCode::OK, &judge(&view, granted, budget)), "no-store"))
}

fn judge(view: &ToolView, granted: Option<bool>, budget: Option<u64>) -> CanCall {
    let prices = manifest(view).map(|manifest| manifest.prices.as_slice()).unwrap_or_default();
    let price = if prices.is_empty() { Some(0) } else { prices.iter().filter_map(|price| price.micro_usd).min() };
    let within_budget = budget.and_then(|budget| price.map(|price| price <= budget));
    let listed = view.is_listed();
    let mut reasons = Vec::new();
    if !view.row.is_active() {
        reasons.push("the tool is deregistered");
    }
    if !listed {
        reasons.push("the tool is not verified and conformant");
    }
    match granted {
        Some(true) => {}
        Some(false) => reasons.push("the predicate denies this account"),
        None => reasons.push("the chain did not say whether this account may use the tool"),
    }
    if within_budget == Some(false) {
        reasons.push("the price is above the budget");
    }
    if budget.is_some() && price.is_none() {
        reasons.push("the price is not in dollars that are known here");
    }
    let is_sure = budget.is_none() || price.is_some();
    let can_call = match granted {
        _ if !listed || granted == Some(false) || within_budget == Some(false) => Some(false),
        Some(true) if is_sure => Some(true),
        _ => None,
    };
    CanCall {
        can_call,
        access: match granted {
            Some(true) => "granted",
            Some(false) => "denied",
            None => "unknown",
        },
        price_usd: price.map(dollars),
        within_budget,
        listed,
        reasons,
    }
}
