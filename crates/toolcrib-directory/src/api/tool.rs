//! `GET /api/v2/tools/{registry_chain}/{registry_addr}/{tool_id}`: everything about a tool, and why it is shown or not.

use axum::http::{HeaderMap, StatusCode, Uri};
use toolcrib_index::model::{ToolKey, ToolView};

use crate::answer::{Answer, Refusal, body, fresh_for, json};
use crate::api::tool_shown_at;
use crate::api::tools::FRESH;
use crate::front::wants_markdown;
use crate::markdown;
use crate::reader::Reader;
use crate::surrogate::{depends, of_views};
use crate::view::{Duplicates, Tool};

pub(crate) async fn get(app: Reader, uri: Uri, headers: HeaderMap) -> Answer {
    let view = tool_shown_at(&app, &uri).await?;
    let tool = shown(&app, &view).await?;
    let response = if wants_markdown(&headers) {
        body(StatusCode::OK, markdown::KIND, markdown::tool(&tool))
    } else {
        json(StatusCode::OK, &tool)
    };
    Ok(depends(fresh_for(response, FRESH), of_views([&view])))
}

/// Everything that is shown of a tool.
pub(crate) async fn shown(app: &Reader, view: &ToolView) -> Result<Tool, Refusal> {
    let mut duplicates = Duplicates::default();
    if let Some(listing) = &view.listing {
        duplicates.same_uri = names(app, &listing.same_uri).await?;
        duplicates.same_endpoint = names(app, &listing.same_endpoint).await?;
    }
    Ok(Tool::of(view, duplicates))
}

async fn names(app: &Reader, keys: &[ToolKey]) -> Result<Vec<String>, Refusal> {
    let mut names = Vec::with_capacity(keys.len());
    for key in keys {
        names.push(app.index.reference(*key).await?.to_string());
    }
    Ok(names)
}
