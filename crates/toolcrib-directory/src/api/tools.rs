//! `GET /api/v2/tools`: tools by the time of their registration.

use std::cmp::Reverse;

use alloy_primitives::U256;
use axum::http::{HeaderMap, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib_core::clock::UnixTime;
use toolcrib_index::bazaar::ResourceList;
use toolcrib_index::listing::AccessKind;
use toolcrib_index::model::{RegistryId, ToolKey, ToolView};
use toolcrib_index::search::Source;
use toolcrib_index::{List, ListPosition, Order, Page};
use utoipa::IntoParams;

use crate::answer::{Answer, ApiError, body, fresh_for, json};
use crate::api::tool::beside;
use crate::front::wants_markdown;
use crate::markdown;
use crate::parameters::{Access, Account, Count, Cursor, Flag, Param, Query, Words};
use crate::reader::Reader;
use crate::surrogate::{LISTS, creator_key, depends, of_listed};
use crate::view::{Listed, ToolItem};

/// Tools or agents per page.
pub(crate) type Limit = Count<1, 200, 20>;

/// The `Cache-Control` of responses that change with the feed.
pub(crate) const FRESH: &str = "public, max-age=5, stale-while-revalidate=30";

/// The order of the list.
type SortBy = Param<Order>;

/// The query.
#[derive(Deserialize, IntoParams, Default)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParameters {
    /// The order; newest first unless said otherwise.
    #[param(inline)]
    sort_by: Option<SortBy>,
    /// Only tools with this kind of access.
    #[serde(rename = "type")]
    #[param(inline)]
    access: Option<Access>,
    /// Only tools from this source. Without it registered tools, and with `include_unverified` resources of the x402 Bazaar too.
    #[param(inline)]
    source: Option<WantedSources>,
    /// Only tools of this creator.
    #[param(inline)]
    creator: Option<Account>,
    /// Also tools that are not verified and conformant: for people, not for agents.
    #[param(inline)]
    include_unverified: Flag<false>,
    /// Entries of a page.
    #[param(inline)]
    limit: Limit,
    /// Where to go on: `next` of the page before.
    #[param(inline)]
    cursor: Cursor,
}

/// A page of tools.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ToolList {
    /// The tools.
    pub(crate) tools: Vec<ToolItem>,
    /// Where it goes on; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

pub(crate) async fn list(app: Reader, Query(asked): Query<ListParameters>, headers: HeaderMap) -> Answer {
    let order = asked.sort_by.map(Param::value).unwrap_or_default();
    let include_unverified = asked.include_unverified.0;
    let after = asked.cursor.0.map(|text| place(&text, order).ok_or_else(ApiError::cursor)).transpose()?;
    let list = List {
        order,
        access: asked.access.map(Param::value),
        registry: None,
        creator: asked.creator.map(Param::value),
        include_unverified,
        after,
        limit: usize::try_from(asked.limit.0).unwrap_or(1),
    };
    let scope = list.creator.map_or_else(|| LISTS.to_owned(), creator_key);
    let (listed, next) = page(&app, list, Sources::of(asked.source, include_unverified)).await?;
    let next = next.map(|next| cursor(next, order));
    let keys: Vec<String> = of_listed(&listed).chain([scope]).collect();
    let response = if wants_markdown(&headers) {
        body(StatusCode::OK, markdown::KIND, markdown::list(&listed, next.as_deref()))
    } else {
        json(StatusCode::OK, &ToolList { tools: items(&app, &listed).await?, next })
    };
    Ok(depends(fresh_for(response, FRESH), keys))
}

/// Returns what a list shows.
async fn items(app: &Reader, listed: &[Listed]) -> Result<Vec<ToolItem>, ApiError> {
    let tools: Vec<ToolView> = listed.iter().filter_map(|listed| listed.tool().cloned()).collect();
    let beside = beside(app, &tools).await?;
    let item = |listed: &Listed| match listed {
        Listed::Tool(view) => ToolItem::of(view).beside(beside.get(&view.row.key)),
        Listed::Resource(view) => ToolItem::of_resource(view),
    };
    Ok(listed.iter().map(item).collect())
}

/// Returns a page of the list of both sources, and the next position.
async fn page(app: &Reader, list: List, sources: Sources) -> Result<(Vec<Listed>, Option<ListPosition>), ApiError> {
    let List { order, after, limit, .. } = list;
    // Any account may pay, and there is no registration.
    let is_open = list.access.as_ref().is_none_or(|kind| *kind == AccessKind::Open);
    let has_resources = sources.bazaar && list.creator.is_none() && is_open;
    let (mut listed, mut ends) = (Vec::new(), Vec::new());
    if sources.onchain {
        let Page { tools, next } = app.index.list(&list).await?;
        listed.extend(tools.into_iter().map(|view| Listed::Tool(Box::new(view))));
        ends.extend(next);
    }
    if has_resources {
        let page = app.index.list_resources(&ResourceList { order, after, limit }).await?;
        listed.extend(page.resources.into_iter().map(|view| Listed::Resource(Box::new(view))));
        ends.extend(page.last.filter(|_| page.has_more));
    }
    Ok(merged(listed, ends, order, limit))
}

/// Merges two lists in their common order, up to the limit. `ends` are the next positions of lists with more entries: entries beyond one
/// of them belong to a later page.
fn merged(mut listed: Vec<Listed>, ends: Vec<ListPosition>, order: Order, limit: usize) -> (Vec<Listed>, Option<ListPosition>) {
    let rank = |place: &ListPosition| {
        let rank = (place.registered_at, place.key);
        if order == Order::Newest { (Some(Reverse(rank)), None) } else { (None, Some(rank)) }
    };
    listed.sort_by_key(|listed| rank(&listed.place()));
    let end = ends.into_iter().min_by_key(&rank);
    if let Some(end) = end {
        listed.retain(|listed| rank(&listed.place()) <= rank(&end));
    }
    let is_cut = listed.len() > limit;
    listed.truncate(limit);
    let next = if is_cut { listed.last().map(Listed::place) } else { end };
    (listed, next)
}

/// The requested sources. The public API returns all of them unless one is named; Bazaar resources are never verified, so here they are
/// included together with unverified tools, or when requested by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sources {
    pub(crate) onchain: bool,
    pub(crate) bazaar: bool,
}

pub(crate) type WantedSources = Param<Sources>;

impl Words for Sources {
    const WORDS: &'static [(&'static str, Self)] = &[
        (Source::Onchain.as_str(), Self { onchain: true, bazaar: false }),
        (Source::Bazaar.as_str(), Self { onchain: false, bazaar: true }),
        // This source has no tools here.
        ("x402_bankr", Self { onchain: false, bazaar: false }),
    ];
}

impl Sources {
    pub(crate) fn of(wanted: Option<WantedSources>, include_unverified: bool) -> Self {
        wanted.map_or(Self { onchain: true, bazaar: include_unverified }, Param::value)
    }
}

/// Formats a position in a list: letters, digits and dots.
pub(crate) fn cursor(place: ListPosition, order: Order) -> String {
    let letter = match order {
        Order::Newest => 'n',
        Order::Oldest => 'o',
    };
    let ListPosition { registered_at, key } = place;
    format!("{letter}.{:x}.{:x}.{:x}", registered_at.seconds(), key.registry.0, key.id)
}

/// Parses a position in a list of this order.
pub(crate) fn place(text: &str, order: Order) -> Option<ListPosition> {
    let mut parts = text.split('.');
    let letter = parts.next()?;
    let is_same = matches!((letter, order), ("n", Order::Newest) | ("o", Order::Oldest));
    let mut number = || {
        let part = parts.next()?;
        let is_plain = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        Some(part).filter(|_| is_plain)
    };
    let (time, registry, id) = (number()?, number()?, number()?);
    let key = ToolKey { registry: RegistryId(i64::from_str_radix(registry, 16).ok()?), id: U256::from_str_radix(id, 16).ok()? };
    let registered_at = UnixTime::from_seconds(i64::from_str_radix(time, 16).ok()?);
    (is_same && parts.next().is_none()).then_some(ListPosition { registered_at, key })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_or_refused() {
        let key = ToolKey { registry: RegistryId(3), id: U256::MAX };
        let there = ListPosition { registered_at: UnixTime::from_seconds(1_800_000_000), key };
        let text = cursor(there, Order::Newest);
        assert_eq!(place(&text, Order::Newest), Some(there));
        assert_eq!(place(&text, Order::Oldest), None, "of another order");
        for bad in
            ["", "n", "n.1.2", "n.1.2.3.4", "n.-1.2.3", "n.1.2.g", "n.1.2.", "n.1.2.+3", &format!("n.1.2.{}", "f".repeat(65))]
        {
            assert_eq!(place(bad, Order::Newest), None, "{bad}");
        }
    }
}
