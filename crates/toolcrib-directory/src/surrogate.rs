//! Surrogate keys: what a response in a shared cache depends on, and which of them a change invalidates.
//!
//! With [`Options::shared_max_age`](crate::Options) public responses have their dependencies in `Surrogate-Key` (separated by spaces) and
//! `Cache-Tag` (separated by commas), so that a CDN may cache them for long and purge them by key (`purge.rs`):
//!
//! | key | responses | purged by |
//! |---|---|---|
//! | `all` | all of these | changes that are no longer kept, or very many of them |
//! | `t-…` | what shows the tool: its parts and pages, and each list and search with it in | each change of the tool |
//! | `c-…` | lists of one creator | changes that make a tool of the account appear, move or disappear |
//! | `lists` | lists of all tools, and agents, which show tools at their endpoints | such changes of any tool |
//! | `search` | searches and the start page | such changes of any tool |
//! | `r-…` | what shows a resource of the Bazaar: its page, and each list and search with it in | each change of the resource |
//! | `agents` | lists of agents | each change of an agent |
//! | `a-…` | one agent | each change of the agent |
//!
//! Changes of usage and health of a tool (`usage`, `facts`) purge responses about it but no lists, in which its position may be outdated
//! until the list expires.

use std::collections::BTreeSet;

use alloy_primitives::{Address, hex, keccak256};
use axum::http::HeaderName;
use axum::http::header::{CACHE_CONTROL, HeaderMap, HeaderValue, VARY};
use axum::response::Response;
use toolcrib_core::caip::ToolRef;
use toolcrib_index::feed::Kinds;
use toolcrib_index::model::ToolView;

use crate::api::tools::FRESH;
use crate::view::Listed;

/// Every response with keys.
pub const ALL: &str = "all";
/// Lists of all tools.
pub const LISTS: &str = "lists";
/// Searches.
pub const SEARCH: &str = "search";
/// Lists of agents.
pub const AGENTS: &str = "agents";

/// The header for Fastly, Varnish and Google.
pub(crate) const SURROGATE_KEY: HeaderName = HeaderName::from_static("surrogate-key");
/// The header for Cloudflare and Akamai.
pub(crate) const CACHE_TAG: HeaderName = HeaderName::from_static("cache-tag");

/// The maximum number of keys of one response: 20 bytes each, and CDNs accept headers of 16 KiB. A list has at most 200 tools.
const MAX_KEYS: usize = 256;

/// Changes that make a tool appear in lists, move or disappear.
const MOVING: [Kinds; 8] = [
    Kinds::REGISTERED,
    Kinds::METADATA,
    Kinds::PREDICATE,
    Kinds::DEREGISTERED,
    Kinds::REORGANISED,
    Kinds::UPGRADED,
    Kinds::VERIFICATION,
    Kinds::MODERATION,
];

/// Names are hashed: keys stay short and only have characters that every CDN accepts.
fn hashed(prefix: char, text: &str) -> String {
    format!("{prefix}-{}", hex::encode(&keccak256(text)[..8]))
}

/// Returns the key of responses about a tool.
pub fn tool_key(tool: &ToolRef) -> String {
    hashed('t', &tool.to_string())
}

/// Returns the key of lists of one creator.
pub fn creator_key(creator: Address) -> String {
    hashed('c', &format!("{creator:#x}"))
}

/// Returns the key of an agent.
pub fn agent_key(domain: &str) -> String {
    hashed('a', domain)
}

/// Returns the key of responses about a Bazaar resource.
pub(crate) fn resource_key(id: i64) -> String {
    hashed('r', &id.to_string())
}

/// Returns the keys that a change of a Bazaar resource invalidates.
pub(crate) fn keys_of_resource(id: i64) -> BTreeSet<String> {
    BTreeSet::from([resource_key(id), LISTS.to_owned(), SEARCH.to_owned()])
}

/// Returns the keys that a change of a tool invalidates.
pub fn keys_of_tool(tool: &ToolRef, kinds: Kinds, creator: Option<Address>) -> BTreeSet<String> {
    let mut keys = BTreeSet::from([tool_key(tool)]);
    if MOVING.iter().any(|kind| kinds.has(*kind)) {
        keys.extend([LISTS.to_owned(), SEARCH.to_owned()]);
        keys.extend(creator.map(creator_key));
    }
    keys
}

/// Returns the keys that a change of an agent invalidates.
pub fn keys_of_agent(domain: &str) -> BTreeSet<String> {
    BTreeSet::from([agent_key(domain), AGENTS.to_owned()])
}

/// The dependencies of a response.
#[derive(Clone, Debug)]
struct Depends(Vec<String>);

/// Sets the dependencies of a response.
pub(crate) fn depends(mut response: Response, keys: impl IntoIterator<Item = String>) -> Response {
    response.extensions_mut().insert(Depends(keys.into_iter().collect()));
    response
}

/// Returns the keys of tools.
pub(crate) fn of_views<'a>(views: impl IntoIterator<Item = &'a ToolView>) -> impl Iterator<Item = String> {
    views.into_iter().map(|view| tool_key(&view.tool))
}

/// Returns the keys of the entries of a list.
pub(crate) fn of_listed<'a>(listed: impl IntoIterator<Item = &'a Listed>) -> impl Iterator<Item = String> {
    listed.into_iter().map(|listed| match listed {
        Listed::Tool(view) => tool_key(&view.tool),
        Listed::Resource(view) => resource_key(view.id),
    })
}

/// Sets the headers with the dependencies of a response, and lets shared caches keep it for this number of seconds.
pub(crate) fn label(mut response: Response, shared_max_age: Option<u32>) -> Response {
    let Some(Depends(mut keys)) = response.extensions_mut().remove::<Depends>() else { return response };
    let Some(seconds) = shared_max_age else { return response };
    keys.truncate(MAX_KEYS - 1);
    keys.push(ALL.to_owned());
    let headers = response.headers_mut();
    // Also on responses that are not cached here: each may have another form.
    headers.insert(VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
    for (name, separator) in [(SURROGATE_KEY, " "), (CACHE_TAG, ",")] {
        // Keys have only letters, digits and hyphens.
        headers.extend(HeaderValue::try_from(keys.join(separator)).ok().map(|value| (name, value)));
    }
    if headers.get(CACHE_CONTROL).is_some_and(|value| value == FRESH) {
        let control = format!("public, max-age=5, s-maxage={seconds}, stale-while-revalidate=30");
        headers.extend(HeaderValue::try_from(control).ok().map(|value| (CACHE_CONTROL, value)));
    }
    response
}

/// Keeps a response out of shared caches: it was sent to a caller with a key, or requires one.
pub(crate) fn make_private(headers: &mut HeaderMap) {
    let public = headers.get(CACHE_CONTROL).and_then(|value| value.to_str().ok()).filter(|value| value.starts_with("public"));
    if public.is_some() {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, max-age=5"));
    }
    headers.remove(SURROGATE_KEY);
    headers.remove(CACHE_TAG);
}

/// Whether shared caches may keep a response.
pub(crate) fn is_shared(headers: &HeaderMap) -> bool {
    headers.contains_key(SURROGATE_KEY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_a_tool_drops_lists_and_what_does_not_drops_the_tool_alone() {
        let tool = ToolRef::parse(&format!("eip155:8453/erc8257:{:#x}/7", Address::repeat_byte(0x82))).unwrap();
        let creator = Address::repeat_byte(0xc1);
        for kinds in [Kinds::USAGE, Kinds::FACTS, Kinds::USAGE.and(Kinds::FACTS)] {
            assert_eq!(keys_of_tool(&tool, kinds, Some(creator)), BTreeSet::from([tool_key(&tool)]));
        }
        for kinds in MOVING.into_iter().chain([Kinds::USAGE.and(Kinds::VERIFICATION)]) {
            let keys = keys_of_tool(&tool, kinds, Some(creator));
            assert_eq!(keys, BTreeSet::from([tool_key(&tool), creator_key(creator), LISTS.into(), SEARCH.into()]));
        }
        assert_ne!(tool_key(&tool)[2..], agent_key(&tool.to_string())[..16]);
    }

    #[test]
    fn keys_are_short_and_plain() {
        for key in [creator_key(Address::ZERO), agent_key("näme with, spaces.agt")] {
            assert_eq!(key.len(), 18);
            assert!(key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'), "{key}");
        }
    }
}
