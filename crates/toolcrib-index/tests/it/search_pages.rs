//! Searches that read more pages than they return: tools that an account can call, and a collection by its name.

use alloy_primitives::Address;
use toolcrib_index::access::MAX_CANDIDATES;
use toolcrib_index::listing::AccessKind;
use toolcrib_index::model::RegistryId;
use toolcrib_index::moderation::{Decision, Step, Subject};
use toolcrib_index::search::{Filters, Search, SearchOptions, SearchQuery, Sort, Usable, UsablePage, collection_named, usable};
use toolcrib_index::{Chains, Index};
use toolcrib_store::database::Value;

use toolcrib_testkit::databases::{Backend, TestStore};
use toolcrib_testkit::samples::{NOW, Sample, put, remove};

const WALLET: Address = Address::repeat_byte(0x55);

async fn filled(samples: &[Sample]) -> (Index, RegistryId, Search) {
    let place = TestStore::new(Backend::SqliteMemory).await.expect("a place");
    let index = Index::open(place.database().await).await.expect("an index");
    let registry = index.add_registry(8453, Address::repeat_byte(1), 0).await.expect("a registry").id;
    put(&index, registry, samples).await;
    let search = Search::open(index.clone(), SearchOptions::default()).await.expect("search");
    search.catch_up().await.expect("caught up");
    (index, registry, search)
}

/// Gives these tools a predicate. It cannot be called: no chain is followed.
async fn gate(index: &Index, registry: RegistryId, ids: impl IntoIterator<Item = u64>) {
    let sql = "UPDATE index_tool SET predicate = $1 WHERE registry = $2 AND tool = $3";
    for id in ids {
        let id = Sample::new(id, "", "").key(registry).id_bytes();
        let values = [Value::Bytes(&[0xaa; 20]), Value::Integer(registry.0), Value::Bytes(&id)];
        index.database().execute(sql, &values).await.expect("gated");
    }
}

fn newest(limit: usize) -> SearchQuery {
    SearchQuery { sort: Sort::Newest, limit, ..SearchQuery::default() }
}

async fn page(index: &Index, search: &Search, query: &SearchQuery) -> UsablePage {
    usable(index, search, &Chains::default(), query, WALLET).await.expect("a page")
}

fn ids(page: &UsablePage) -> Vec<u64> {
    let of = |Usable { hit, view }: &Usable| {
        assert_eq!(hit.key, view.row.key);
        hit.key.id.to::<u64>()
    };
    page.hits.iter().map(of).collect()
}

fn plain(count: u64) -> Vec<Sample> {
    (1..=count).map(|id| Sample::new(id, "tool", "Does something.")).collect()
}

/// However small the pages are, all of them together have every hit once.
#[tokio::test(flavor = "multi_thread")]
async fn pages_of_usable_tools_are_filled_and_have_everything_once() {
    let (index, registry, search) = filled(&plain(40)).await;
    gate(&index, registry, (3..=40).step_by(3)).await;
    let expected: Vec<u64> = (1..=40).rev().filter(|id| id % 3 != 0).collect();
    for limit in [1, 4, 7, 50] {
        let (mut query, mut seen) = (newest(limit), Vec::new());
        loop {
            let page = page(&index, &search, &query).await;
            assert!(page.partial || page.next.is_none(), "what follows was not looked at");
            assert!(page.next.is_none() || page.hits.len() == limit, "{limit}: {:?}", ids(&page));
            seen.extend(ids(&page));
            query.cursor = page.next;
            if query.cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, expected, "{limit}");
    }
}

/// One page checks this maximum of candidates, and reports that there are others.
#[tokio::test(flavor = "multi_thread")]
async fn candidates_of_a_page_are_limited() {
    let count = MAX_CANDIDATES as u64 + 60;
    let (index, registry, search) = filled(&plain(count)).await;
    gate(&index, registry, 31..=count).await;
    let first = page(&index, &search, &newest(MAX_CANDIDATES)).await;
    assert!(first.hits.is_empty() && first.partial && first.next.is_some(), "{:?}", ids(&first));
    let rest = page(&index, &search, &SearchQuery { cursor: first.next, ..newest(MAX_CANDIDATES) }).await;
    assert_eq!(ids(&rest), (1..=30).rev().collect::<Vec<_>>());
    assert!(rest.next.is_none() && rest.partial, "of thirty nobody could tell");
    // Small pages stop after some searches, whatever they found.
    let small = page(&index, &search, &newest(2)).await;
    assert!(small.hits.is_empty() && small.partial && small.next.is_some());
}

/// Hits that were deleted since they were indexed are left out, and others fill the page. Counts are those of the whole search.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_removed_takes_no_place() {
    let (index, registry, search) = filled(&plain(9)).await;
    let samples = plain(9);
    remove(&index, samples[8].key(registry)).await;
    for (at, step) in [(7, Step::Hide), (6, Step::Block)] {
        let subject = Subject::Tool(samples[at].key(registry));
        let decision = Decision { subject, step, reason: "abuse", notice: "", actor: "test" };
        assert!(index.moderate(&decision, NOW).await.expect("carried out"));
    }
    let first = page(&index, &search, &SearchQuery { facets: true, ..newest(4) }).await;
    assert_eq!(ids(&first), [6, 5, 4, 3]);
    assert_eq!(first.facets.map(|facets| facets.counted), Some(9));
    let rest = page(&index, &search, &SearchQuery { cursor: first.next, ..newest(4) }).await;
    assert_eq!((ids(&rest), rest.partial, rest.facets), (vec![2, 1], false, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn collections_are_found_by_their_names() {
    let gated = |id: u64, name: &str| Sample {
        access: AccessKind::NftGated,
        collection: Some(Address::repeat_byte(u8::try_from(id % 251).expect("small") + 1)),
        collection_name: Some(name.to_owned()),
        ..Sample::new(id, "club", "For members.")
    };
    // The searched one is the oldest, so that it is on a later page; one that is not verified counts too.
    let mut samples: Vec<Sample> = (2..=MAX_CANDIDATES as u64 + 20).map(|id| gated(id, "Other Apes")).collect();
    samples.push(gated(1, "Fine Apes!"));
    samples.push(Sample { is_verified: false, ..gated(500, "Hidden Club") });
    samples.push(Sample { access: AccessKind::Open, ..gated(501, "Open Club") });
    let (index, _, search) = filled(&samples).await;
    let named = async |name: &str| collection_named(&index, &search, name).await.expect("looked for");
    for name in ["fine-apes", "Fine Apes", " FINE--apes "] {
        assert_eq!(named(name).await, samples[samples.len() - 3].collection, "{name}");
    }
    assert_eq!(named("hidden-club").await, samples[samples.len() - 2].collection);
    for name in ["fine", "fineapes", "open-club", "none"] {
        assert_eq!(named(name).await, None, "{name}");
    }
    let filters = Filters { collection: named("fine-apes").await, ..Filters::default() };
    let found = search.find(&SearchQuery { filters, limit: 5, ..SearchQuery::default() }).await.expect("a page");
    assert!(found.hits.iter().any(|hit| hit.key.id.to::<u64>() == 1));
}
