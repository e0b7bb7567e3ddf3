//! `GET …/activity`: calls that were proven.

use axum::http::{StatusCode, Uri};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib_index::model::ToolView;
use toolcrib_index::usage::Activity;
use utoipa::IntoParams;

use crate::answer::{Answer, fresh_for, json};
use crate::api::tool_at;
use crate::api::tools::FRESH;
use crate::parameters::{Count, Flag, Query};
use crate::reader::Reader;
use crate::surrogate::{depends, of_views};
use crate::view::{manifest, time};

/// The query.
#[derive(Deserialize, IntoParams, Default)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct ActivityParameters {
    /// Also what the tool's owner paid himself.
    #[param(inline)]
    include_creator_payments: Flag<false>,
    /// Calls of a page.
    #[param(inline)]
    limit: Count<1, 100, 25>,
    /// Where to begin.
    // A reader that needs more than can be skipped reads the chain.
    #[param(inline)]
    offset: Count<0, 100_000, 0>,
}

/// A page of calls.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ActivityList {
    /// The calls, the newest first.
    pub(crate) activity: Vec<ActivityEvent>,
    /// The offset of the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// A call that was proven.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ActivityEvent {
    /// The id of its report.
    pub(crate) id: String,
    /// The kind of proof.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// How sure it is that the call was this tool's.
    pub(crate) attribution: String,
    /// Whether money moved.
    pub(crate) paid: bool,
    /// Who called.
    pub(crate) caller_address: String,
    /// Who was paid.
    pub(crate) seller_address: String,
    /// When.
    pub(crate) timestamp: String,
    /// How much, in the smallest unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) amount: Option<String>,
    /// In which token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) asset: Option<String>,
    /// On which chain.
    pub(crate) chain_id: u64,
    /// In which transaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tx_hash: Option<String>,
    /// The slugs of the tools that it can have been. Here a call counts for one tool.
    pub(crate) candidate_tool_slugs: Vec<String>,
}

pub(crate) async fn activity(app: Reader, Query(asked): Query<ActivityParameters>, uri: Uri) -> Answer {
    let (with_owner, limit, offset) = (asked.include_creator_payments.0, asked.limit.0, asked.offset.0);
    let view = tool_at(&app, &uri).await?;
    let (most, from) = (usize::try_from(limit).unwrap_or(1), usize::try_from(offset).unwrap_or_default());
    let (calls, has_more) = app.index.activity(view.row.key, with_owner, most, from).await?;
    let activity = calls.into_iter().map(|call| event(call, &view)).collect();
    let list = ActivityList { activity, next: has_more.then(|| (offset + limit).to_string()) };
    Ok(depends(fresh_for(json(StatusCode::OK, &list), FRESH), of_views([&view])))
}

fn event(call: Activity, view: &ToolView) -> ActivityEvent {
    ActivityEvent {
        id: call.id,
        kind: call.kind.to_owned(),
        attribution: call.attribution.to_owned(),
        paid: call.paid,
        caller_address: format!("{:#x}", call.caller),
        seller_address: format!("{:#x}", call.seller),
        timestamp: time(call.timestamp),
        amount: call.amount,
        asset: call.asset.map(|asset| format!("{asset:#x}")),
        chain_id: call.chain_id,
        tx_hash: call.tx_hash.map(|hash| hash.to_string()),
        candidate_tool_slugs: manifest(view).map(|manifest| manifest.slug.clone()).into_iter().collect(),
    }
}
