//! `GET /api/v2/tools/{registry_chain}/{registry_addr}/{tool_id}`: everything about a tool, and why it is listed or not.

use std::collections::HashMap;

use axum::http::{HeaderMap, StatusCode, Uri};
use toolcrib_index::bazaar::ResourceView;
use toolcrib_index::model::{ToolKey, ToolView};

use crate::answer::{Answer, ApiError, body, fresh_for, json};
use crate::api::tools::FRESH;
use crate::api::{TOOL_PREFIX, tool_shown_at};
use crate::front::wants_markdown;
use crate::markdown;
use crate::parameters;
use crate::reader::Reader;
use crate::surrogate::{depends, resource_key, tool_key};
use crate::view::{self, Duplicates, Resource, Tool};

pub(crate) async fn get(app: Reader, uri: Uri, headers: HeaderMap) -> Answer {
    let (tool, key) = match parameters::resource(&uri, TOOL_PREFIX) {
        Some(id) => (resource(&app, id).await?, resource_key(id)),
        None => {
            let view = tool_shown_at(&app, &uri).await?;
            (shown(&app, &view).await?, tool_key(&view.tool))
        }
    };
    let response = if wants_markdown(&headers) {
        body(StatusCode::OK, markdown::KIND, markdown::tool(&tool))
    } else {
        json(StatusCode::OK, &tool)
    };
    Ok(depends(fresh_for(response, FRESH), [key]))
}

/// Returns everything that is shown of a Bazaar resource. One that the operator blocked is returned without its content.
pub(crate) async fn resource(app: &Reader, id: i64) -> Result<Tool, ApiError> {
    let mut view = app.index.resource(id).await?.ok_or_else(ApiError::not_found)?;
    if view.is_blocked() {
        view.url.clear();
        view.tool = None;
        view.claims.clear();
        view.probe = None;
        return Ok(Tool::of_resource(&view, None));
    }
    let onchain = app.index.tool_at_resource(&view).await?.map(|tool| tool.tool.to_string());
    Ok(Tool::of_resource(&view, onchain))
}

/// Returns everything that is shown of a tool.
pub(crate) async fn shown(app: &Reader, view: &ToolView) -> Result<Tool, ApiError> {
    let mut duplicates = Duplicates::default();
    if let Some(listing) = &view.listing {
        duplicates.same_uri = names(app, &listing.same_uri).await?;
        duplicates.same_endpoint = names(app, &listing.same_endpoint).await?;
    }
    let mut tool = Tool::of(view, duplicates);
    if let Some(resource) = beside(app, std::slice::from_ref(view)).await?.remove(&view.row.key) {
        tool.item = tool.item.beside(Some(&resource));
        tool.bazaar = Some(Resource::of(&resource, Some(view.tool.to_string())));
    }
    Ok(tool)
}

/// Returns the Bazaar resources with the endpoints of verified tools.
pub(crate) async fn beside(app: &Reader, tools: &[ToolView]) -> Result<HashMap<ToolKey, ResourceView>, ApiError> {
    let endpoint = |view: &ToolView| view::manifest(view).map(|manifest| manifest.endpoint.clone());
    let endpoints: Vec<(ToolKey, String)> = tools.iter().filter_map(|view| Some((view.row.key, endpoint(view)?))).collect();
    let texts: Vec<&str> = endpoints.iter().map(|(_, endpoint)| endpoint.as_str()).collect();
    let found = app.index.resources_at(&texts).await?;
    Ok(endpoints.into_iter().filter_map(|(key, endpoint)| Some((key, found.get(&endpoint)?.clone()))).collect())
}

async fn names(app: &Reader, keys: &[ToolKey]) -> Result<Vec<String>, ApiError> {
    let mut names = Vec::with_capacity(keys.len());
    for key in keys {
        names.push(app.index.reference(*key).await?.to_string());
    }
    Ok(names)
}
