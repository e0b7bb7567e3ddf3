//! Hits that an account may use, page by page.

use std::collections::HashMap;

use alloy_primitives::Address;

use crate::access::{MAX_CANDIDATES, May, answers};
use crate::model::{ToolKey, ToolView};
use crate::search::{Cursor, Facets, Hit, Search, SearchPage, SearchQuery};
use crate::{Chains, Error, Index};

/// Searches for one page at most, until it is full.
const MAX_ROUNDS: usize = 8;

/// A hit that an account may use, and what is known about it.
#[derive(Clone, Debug)]
pub struct Usable {
    /// The hit.
    pub hit: Hit,
    /// The tool.
    pub view: ToolView,
}

/// A page of hits that an account may use.
#[derive(Clone, Debug, Default)]
pub struct UsablePage {
    /// The hits.
    pub hits: Vec<Usable>,
    /// Where it goes on; `None` at the end.
    pub next: Option<Cursor>,
    /// Counts of all hits, usable or not, if they were asked for.
    pub facets: Option<Facets>,
    /// Whether there are more that were not looked at, or a chain did not say of some.
    pub partial: bool,
}

/// Hits that an account may use. Chains are asked about at most [`MAX_CANDIDATES`]. Each round searches for as many as still fit on the page,
/// so that the cursor never skips a hit. Resources of the Bazaar are in no registry, so they are never among them.
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
        // What went since its words were read, or was taken out by the operator, is left out.
        let views: Vec<ToolView> = index.tools(&keys).await?.into_iter().filter(|view| view.moderation.is_none()).collect();
        let answers = answers(chains, wallet, &views, None).await;
        let mut known: HashMap<ToolKey, (ToolView, May)> =
            views.into_iter().zip(answers).map(|(view, answer)| (answer.key, (view, answer.callable()))).collect();
        for hit in hits {
            match known.remove(&hit.key) {
                Some((view, May::Yes)) => page.hits.push(Usable { hit, view }),
                Some((_, May::Unknown)) => page.partial = true,
                Some((_, May::No)) | None => {}
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
