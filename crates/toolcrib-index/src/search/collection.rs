//! Finds a collection by name among the collections that gate tools.

use alloy_primitives::Address;

use crate::access::MAX_CANDIDATES;
use crate::listing::{AccessKind, RequirementFacts};
use crate::search::{Filters, Search, SearchQuery};
use crate::{Error, Index};

/// Pages of gated tools that are searched for the name.
const MAX_PAGES: usize = 5;

/// Returns the contract of the collection whose name has the same [`slug`]. `None` if none of the first thousand gated tools requires it.
pub async fn collection_named(index: &Index, search: &Search, name: &str) -> Result<Option<Address>, Error> {
    let wanted = slug(name);
    let is_it = |requirement: &&RequirementFacts| {
        let named = requirement.collection.as_ref().and_then(|collection| collection.name.as_deref());
        requirement.contract.is_some() && named.is_some_and(|named| slug(named) == wanted)
    };
    let filters = Filters { access: Some(AccessKind::NftGated), ..Filters::default() };
    let mut query = SearchQuery { filters, limit: MAX_CANDIDATES, include_unverified: true, ..SearchQuery::default() };
    for _ in 0..MAX_PAGES {
        let page = search.find(&query).await?;
        let keys: Vec<_> = page.hits.iter().map(|hit| hit.key).collect();
        let views = index.tools(&keys).await?;
        let mut requirements =
            views.iter().filter_map(|view| view.listing.as_ref()).flat_map(|listing| &listing.access.requirements);
        if let Some(found) = requirements.find(is_it) {
            return Ok(found.contract);
        }
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    Ok(None)
}

/// Converts a name to lower-case letters, digits and hyphens.
pub fn slug(name: &str) -> String {
    let mut slug = String::with_capacity(name.len());
    for c in name.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_alphanumeric() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_plain() {
        assert_eq!(slug("Bored Ape Yacht Club!"), "bored-ape-yacht-club");
        assert_eq!(slug("<script>"), "script");
        assert_eq!(slug("\u{1f4a9}"), "");
    }
}
