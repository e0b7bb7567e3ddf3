//! `GET /api/v2/tools`: tools by the time of their registration.

use alloy_primitives::U256;
use axum::http::{HeaderMap, StatusCode, Uri};
use schemars::JsonSchema;
use serde::Serialize;
use toolcrib_core::clock::UnixTime;
use toolcrib_index::listing::AccessKind;
use toolcrib_index::model::{RegistryId, ToolKey};
use toolcrib_index::{List, Order, Page, Place};

use crate::answer::{Answer, Refusal, body, fresh_for, json};
use crate::front::wants_markdown;
use crate::markdown;
use crate::parameters::Parameters;
use crate::reader::Reader;
use crate::surrogate::{LISTS, creator_key, depends, of_views};
use crate::view::ToolItem;

/// Tools of a page, unless another number is asked for.
pub(crate) const DEFAULT_LIMIT: i64 = 20;
/// Most tools of a page.
pub(crate) const MAX_LIMIT: i64 = 200;

/// How long others may keep what changes with the feed.
pub(crate) const FRESH: &str = "public, max-age=5, stale-while-revalidate=30";

/// A page of tools.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ToolList {
    /// The tools.
    pub(crate) tools: Vec<ToolItem>,
    /// Where it goes on; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

pub(crate) async fn list(app: Reader, uri: Uri, headers: HeaderMap) -> Answer {
    let parameters = Parameters::of(&uri)?;
    let order = order(&parameters)?;
    let page = page(&app, &parameters, order).await?;
    let next = page.next.map(|next| cursor(next, order));
    let scope = parameters.address("creator")?.map_or_else(|| LISTS.to_owned(), creator_key);
    let keys: Vec<String> = of_views(&page.tools).chain([scope]).collect();
    let response = if wants_markdown(&headers) {
        body(StatusCode::OK, markdown::KIND, markdown::list(&page.tools, next.as_deref()))
    } else {
        json(StatusCode::OK, &ToolList { tools: page.tools.iter().map(ToolItem::of).collect(), next })
    };
    Ok(depends(fresh_for(response, FRESH), keys))
}

async fn page(app: &Reader, parameters: &Parameters, order: Order) -> Result<Page, Refusal> {
    let access = access(parameters, "type")?;
    let has_tools = source(parameters)?;
    let limit = parameters.number("limit", 1, MAX_LIMIT)?.unwrap_or(DEFAULT_LIMIT);
    let include_unverified = parameters.flag("include_unverified")?.unwrap_or_default();
    let creator = parameters.address("creator")?;
    let after = parameters.text("cursor")?.map(|text| place(text, order).ok_or_else(Refusal::cursor)).transpose()?;
    if !has_tools {
        return Ok(Page { tools: Vec::new(), next: None });
    }
    let limit = usize::try_from(limit).unwrap_or(1);
    Ok(app.index.list(&List { order, access, registry: None, creator, include_unverified, after, limit }).await?)
}

fn order(parameters: &Parameters) -> Result<Order, Refusal> {
    Ok(parameters.word("sort_by", &[("newest", Order::Newest), ("oldest", Order::Oldest)])?.unwrap_or_default())
}

/// A kind of access.
pub(crate) fn access(parameters: &Parameters, name: &str) -> Result<Option<AccessKind>, Refusal> {
    parameters.word(name, &AccessKind::WORDS)
}

/// Whether the source that is asked for can have tools here.
pub(crate) fn source(parameters: &Parameters) -> Result<bool, Refusal> {
    Ok(parameters.word("source", &[("onchain", true), ("x402_bazaar", false), ("x402_bankr", false)])?.unwrap_or(true))
}

/// A place in a list as text: letters, digits and dots.
pub(crate) fn cursor(place: Place, order: Order) -> String {
    let letter = match order {
        Order::Newest => 'n',
        Order::Oldest => 'o',
    };
    let Place { registered_at, key } = place;
    format!("{letter}.{:x}.{:x}.{:x}", registered_at.seconds(), key.registry.0, key.id)
}

/// Reads a place of a list in this order.
pub(crate) fn place(text: &str, order: Order) -> Option<Place> {
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
    (is_same && parts.next().is_none()).then_some(Place { registered_at, key })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_or_refused() {
        let key = ToolKey { registry: RegistryId(3), id: U256::MAX };
        let there = Place { registered_at: UnixTime::from_seconds(1_800_000_000), key };
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
