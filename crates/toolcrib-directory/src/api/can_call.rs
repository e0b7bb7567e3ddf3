//! `GET …/can_call`: whether a wallet may call a tool, and whether a budget is enough.

use axum::http::{StatusCode, Uri};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib_index::access::{self, Tristate, callable};
use toolcrib_index::listing::Price;
use toolcrib_index::model::ToolView;
use utoipa::IntoParams;

use crate::answer::{Answer, ApiError, fresh_for, json};
use crate::api::tool_at;
use crate::parameters::{Account, Dollars, Param, Query};
use crate::reader::Reader;
use crate::view::{dollars, manifest};

/// The query.
#[derive(Deserialize, IntoParams, Default)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct CanCallParameters {
    /// The account that would call.
    #[param(inline, required = true)]
    wallet: Option<Account>,
    /// Dollars that a call may cost.
    #[param(inline)]
    budget: Option<Dollars>,
}

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

pub(crate) async fn can_call(app: Reader, Query(asked): Query<CanCallParameters>, uri: Uri) -> Answer {
    let missing = || ApiError::parameter("wallet", "expected the account of the caller");
    let (wallet, budget) = (asked.wallet.map(Param::value).ok_or_else(missing)?, asked.budget.map(Param::value));
    let view = tool_at(&app, &uri).await?;
    let may = callable(&app.index, &app.chains, wallet, &[view.row.key], budget).await?;
    let answer = may.answers.first().copied().ok_or_else(ApiError::not_found)?;
    Ok(fresh_for(json(StatusCode::OK, &judge(&view, answer, budget)), "no-store"))
}

fn judge(view: &ToolView, answer: access::ToolAccess, budget: Option<u64>) -> CanCall {
    let prices = manifest(view).map(|manifest| manifest.prices.as_slice()).unwrap_or_default();
    let costs = |price: &Price| if price.amount == "0" { Some(0) } else { price.micro_usd };
    let cheapest = if prices.is_empty() { Some(0) } else { prices.iter().filter_map(costs).min() };
    let price = cheapest.filter(|_| manifest(view).is_some());
    let listed = view.is_listed();
    let mut reasons = Vec::new();
    if !view.row.is_active() {
        reasons.push("the tool is deregistered");
    }
    if !listed {
        reasons.push("the tool is not verified and conformant");
    }
    match answer.access {
        Tristate::Yes => {}
        Tristate::No => reasons.push("the registry denies this account"),
        Tristate::Unknown => reasons.push("the access check on the chain gave no result"),
    }
    if budget.is_some() {
        match answer.budget {
            Tristate::Yes => {}
            Tristate::No => reasons.push("the price is above the budget"),
            Tristate::Unknown => reasons.push("the price cannot be converted to US dollars"),
        }
    }
    let yes = |may: Tristate| match may {
        Tristate::Yes => Some(true),
        Tristate::No => Some(false),
        Tristate::Unknown => None,
    };
    CanCall {
        can_call: if listed { yes(answer.callable()) } else { Some(false) },
        access: match answer.access {
            Tristate::Yes => "granted",
            Tristate::No => "denied",
            Tristate::Unknown => "unknown",
        },
        price_usd: price.map(dollars),
        within_budget: budget.and_then(|_| yes(answer.budget)),
        listed,
        reasons,
    }
}
