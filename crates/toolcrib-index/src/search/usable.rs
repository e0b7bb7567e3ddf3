//! Hits that an account can call, page by page.

use std::collections::HashMap;

use alloy_primitives::Address;

use crate::access::{MAX_CANDIDATES, Tristate, answers};
use crate::model::{ToolKey, ToolView};
use crate::search::{Cursor, Facets, Hit, Search, SearchPage, SearchQuery};
use crate::{Chains, Error, Index};

/// The maximum number of searches for one page.
const MAX_ROUNDS: usize = 8;

/// A hit that an account can call, with its tool.
#[derive(Clone, Debug)]
pub struct Usable {
    /// The hit.
    pub hit: Hit,
    /// The tool.
    pub view: ToolView,
}

/// A page of hits that an account can call.
#[derive(Clone, Debug, Default)]
pub struct UsablePage {
    /// The hits.
    pub hits: Vec<Usable>,
    /// The cursor of the next page; `None` at the end.
    pub next: Option<Cursor>,
    /// Facet counts of all hits, callable or not, if requested.
    pub facets: Option<Facets>,
    /// Whether some hits were not checked, or a chain did not respond for some.
    pub partial: bool,
}

/// Returns hits that an account can call. At most [`MAX_CANDIDATES`] tools are checked on chains. Each round searches for as many hits as
/// still fit on the page, so that the cursor never skips one. Bazaar resources are in no registry, so they are never included.
pub async fn usable(
    index: &Index,
    search: &Search,
    chains: &Chains,
    query: &SearchQuery,
    wallet: Address,
) -> Result<UsablePage, Error> {
    let mut query = query.clone();
    let limit = query.limit;
    let mut page = UsablePage::default();
    let mut asked = 0;
    for round in 0..MAX_ROUNDS {
        query.limit = (limit - page.hits.len()).min(MAX_CANDIDATES - asked);
        let SearchPage { hits, next, facets, .. } = search.find(&query).await?;
        if round == 0 {
            page.facets = facets;
            query.facets = false;
        }
        asked += hits.len();
        let keys: Vec<ToolKey> = hits.iter().map(|hit| hit.key).collect();
        // Tools that were deleted since they were indexed, or moderated by the operator, are left out.
        let views: Vec<ToolView> = index.tools(&keys).await?.into_iter().filter(|view| view.moderation.is_none()).collect();
        let answers = answers(chains, wallet, &views, None).await;
        let mut known: HashMap<ToolKey, (ToolView, Tristate)> =
            views.into_iter().zip(answers).map(|(view, answer)| (answer.key, (view, answer.callable()))).collect();
        for hit in hits {
            match known.remove(&hit.key) {
                Some((view, Tristate::Yes)) => page.hits.push(Usable { hit, view }),
                Some((_, Tristate::Unknown)) => page.partial = true,
                Some((_, Tristate::No)) | None => {}
            }
        }
        page.next.clone_from(&next);
        query.cursor = next;
        if query.cursor.is_none() || page.hits.len() >= limit || asked >= MAX_CANDIDATES {
            break;
        }
    }
    page.partial |= page.next.is_some();
    Ok(page)
}
