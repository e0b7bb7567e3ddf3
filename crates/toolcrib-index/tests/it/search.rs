//! Search: hits, their order, and updates from the feed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use alloy_primitives::Address;
use toolcrib_core::codes;
use toolcrib_index::listing::{AccessKind, Life};
use toolcrib_index::model::{RegistryId, ToolKey};
use toolcrib_index::search::{Cursor, Filters, MAX_LIMIT, MAX_RANKED, Search, SearchOptions, SearchPage, SearchQuery, Sort};
use toolcrib_index::{Error, Index};

use toolcrib_testkit::databases::{Backend, TestStore};
use toolcrib_testkit::samples::quality;
use toolcrib_testkit::samples::{NOW, Sample, described, put, remove};

/// An index with one registry, on each engine.
async fn indexes() -> Vec<(TestStore, Index, RegistryId)> {
    let mut all = Vec::new();
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some(place) = TestStore::new(backend).await else { continue };
        let index = Index::open(place.database().await).await.expect("an index");
        let registry = index.add_registry(8453, Address::repeat_byte(1), 0).await.expect("a registry").id;
        all.push((place, index, registry));
    }
    all
}

async fn in_memory() -> (Index, RegistryId) {
    let place = TestStore::new(Backend::SqliteMemory).await.expect("a place");
    let index = Index::open(place.database().await).await.expect("an index");
    let registry = index.add_registry(8453, Address::repeat_byte(1), 0).await.expect("a registry").id;
    (index, registry)
}

async fn searching(index: &Index, folder: Option<&Path>) -> Search {
    let options = SearchOptions { folder: folder.map(Path::to_owned), ..SearchOptions::default() };
    Search::open(index.clone(), options).await.expect("search")
}

async fn filled(samples: &[Sample]) -> (Index, RegistryId, Search) {
    let (index, registry) = in_memory().await;
    put(&index, registry, samples).await;
    let search = searching(&index, None).await;
    search.catch_up().await.expect("caught up");
    (index, registry, search)
}

fn text(text: &str) -> SearchQuery {
    SearchQuery { text: Some(text.to_owned()), limit: 20, ..SearchQuery::default() }
}

fn ids(page: &SearchPage) -> Vec<u64> {
    page.hits.iter().map(|hit| hit.key.id.to::<u64>()).collect()
}

#[track_caller]
fn found(search: &Search, query: &SearchQuery) -> Vec<u64> {
    ids(&search.run(query).expect("a page"))
}

/// Some tools that differ in everything.
fn some() -> Vec<Sample> {
    let tags = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect();
    vec![
        Sample {
            tags: tags(&["nft", "defi"]),
            ..Sample::new(1, "nft-price-oracle", "Returns the estimated floor price of an NFT collection.")
        },
        Sample {
            tags: tags(&["weather"]),
            price: 20_000,
            ..Sample::new(2, "getWeather", "Current weather and a forecast for a city.")
        },
        Sample {
            tags: tags(&["image", "ai"]),
            access: AccessKind::NftGated,
            collection: Some(Address::repeat_byte(0xaa)),
            price: 1_000_000,
            ..Sample::new(3, "Image Maker", "Draws pictures from a description.")
        },
        Sample {
            tier: "verifiable".to_owned(),
            fields: vec!["walletAddress".to_owned()],
            ..Sample::new(4, "audit_log", "Security audit of a contract.")
        },
        Sample {
            origin: "https://bridge.test:8443".to_owned(),
            ..Sample::new(5, "swap.tokens", "Swaps one token for another across chains.")
        },
        Sample { is_verified: false, ..Sample::new(6, "weather pro", "Promises the best weather forecast of all.") },
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn it_follows_the_feed_and_survives_restarts() {
    for (_place, index, registry) in indexes().await {
        let folder = tempfile::tempdir().expect("a folder");
        let mut samples = some();
        put(&index, registry, &samples).await;
        let search = searching(&index, Some(folder.path())).await;
        assert_eq!(search.cursor(), 0);
        let early = search.run(&text("weather")).expect_err("not before the first catch-up");
        assert!(!search.is_ready() && early.code() == codes::index::NOT_READY && early.is_retryable(), "{early}");
        assert_eq!(search.catch_up().await.expect("caught up"), 6);
        assert_eq!(search.cursor(), 6);
        assert_eq!(search.catch_up().await.expect("nothing to do"), 0);
        assert_eq!(found(&search, &text("weather")), [2]);

        samples[1].name = "sunshine".to_owned();
        samples[1].description = "How long the sun shines.".to_owned();
        samples[5].is_verified = true;
        put(&index, registry, &samples[1..2]).await;
        put(&index, registry, &samples[5..6]).await;
        put(&index, registry, &[Sample::new(7, "moon", "Phases of the moon.")]).await;
        remove(&index, samples[4].key(registry)).await;
        assert_eq!(search.catch_up().await.expect("caught up"), 4);
        assert_eq!(found(&search, &text("sunshine")), [2]);
        assert_eq!(found(&search, &text("weather forecast")), [6, 2], "the tag of the second still says so");
        assert_eq!(found(&search, &text("moon")), [7]);
        assert!(found(&search, &text("swap tokens")).is_empty(), "removed");
        drop(search);

        // Another process continues where this one stopped.
        let search = searching(&index, Some(folder.path())).await;
        assert_eq!(search.cursor(), 10);
        assert_eq!(found(&search, &text("moon")), [7], "without asking the database");
        assert_eq!(search.catch_up().await.expect("nothing to do"), 0);

        // The feed no longer has all changes: everything is read again.
        samples[0].name = "stars".to_owned();
        put(&index, registry, &samples[..1]).await;
        // Numbered in a separate call, so that it has its own row.
        assert_eq!(index.last_change().await.expect("a number"), 11);
        put(&index, registry, &[Sample::new(8, "comets", "Where comets are.")]).await;
        assert_eq!(index.last_change().await.expect("a number"), 12);
        index.database().execute("DELETE FROM index_change WHERE seq <= 11", &[]).await.expect("forgotten");
        search.catch_up().await.expect("caught up");
        assert_eq!(search.cursor(), 12);
        assert_eq!(found(&search, &text("stars")), [1]);
        assert_eq!(found(&search, &text("comets")), [8]);
        assert_eq!(search.run(&SearchQuery::default()).expect("a page").total, Some(7));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_belongs_to_one_process_and_is_mended() {
    let (index, registry) = in_memory().await;
    put(&index, registry, &some()).await;
    let folder = tempfile::tempdir().expect("a folder");
    let search = searching(&index, Some(folder.path())).await;
    search.catch_up().await.expect("caught up");
    let options = SearchOptions { folder: Some(folder.path().to_owned()), ..SearchOptions::default() };
    let second = Search::open(index.clone(), options.clone()).await.expect_err("locked");
    assert!(matches!(second, Error::SearchLocked { .. }) && second.code() == codes::index::SEARCH_LOCKED, "{second}");
    drop(search);

    let verified = folder.path().join("verified");
    std::fs::write(verified.join("notes.txt"), "not ours").expect("written");
    let segment = || {
        let files = std::fs::read_dir(&verified).expect("a folder").map(|entry| entry.expect("an entry").path());
        files
            .filter(|path| path.extension().is_some_and(|extension| extension == "idx" || extension == "fast"))
            .collect::<Vec<_>>()
    };
    type Damage<'a> = (&'a str, Box<dyn Fn() + 'a>);
    let damages: [Damage<'_>; 5] = [
        ("no JSON", Box::new(|| std::fs::write(verified.join("meta.json"), "{").expect("written"))),
        ("empty", Box::new(|| std::fs::write(verified.join("meta.json"), "").expect("written"))),
        ("cut off", Box::new(|| segment().iter().for_each(|path| std::fs::write(path, b"short").expect("written")))),
        ("gone", Box::new(|| segment().iter().for_each(|path| std::fs::remove_file(path).expect("removed")))),
        (
            "another format",
            Box::new(|| {
                let path = verified.join("meta.json");
                let meta = std::fs::read_to_string(&path).expect("text");
                std::fs::write(path, meta.replace(r#"\"format\":\""#, r#"\"format\":\"older "#)).expect("written");
            }),
        ),
    ];
    for (name, damage) in damages {
        damage();
        let search = searching(&index, Some(folder.path())).await;
        assert_eq!(search.cursor(), 0, "{name}");
        search.catch_up().await.expect("caught up");
        assert_eq!(found(&search, &text("weather")), [2], "{name}");
        assert!(verified.join("notes.txt").exists(), "{name}: what is not ours stays");
    }
}

// req: IDX-006
// req: IDX-010
#[tokio::test(flavor = "multi_thread")]
async fn verified_tools_come_first_whatever_else_holds() {
    let older =
        Sample { is_verified: false, payers: 1_000_000, health: (300, 300), registered: 0, ..Sample::new(1, "weather", "") };
    let newer = Sample { registered: NOW.seconds(), ..Sample::new(2, "weather", "Tells the weather somewhere.") };
    let (_index, _registry, search) = filled(&[older, newer]).await;
    for sort in [Sort::Relevance, Sort::Newest, Sort::MostUsed] {
        for words in [Some("weather".to_owned()), None] {
            let query = SearchQuery { text: words, sort, limit: 10, ..SearchQuery::default() };
            assert_eq!(found(&search, &query), [2]);
            let all = SearchQuery { include_unverified: true, ..query };
            assert_eq!(found(&search, &all), [2, 1], "{sort:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn use_trust_and_health_decide_between_equals() {
    let same = |id| Sample { registered: 1_780_000_000, ..Sample::new(id, "weather", "Tells the weather.") };
    let samples = [
        same(1),
        Sample { payers: 500, ..same(2) },
        Sample { tier: "verifiable".to_owned(), ..same(3) },
        Sample { health: (100, 100), ..same(4) },
        Sample { health: (100, 0), ..same(5) },
        Sample { life: Life::Retired("nobody may".to_owned()), ..same(6) },
        Sample { payers: 9_000, ..Sample::new(7, "ocean tides", "Tells nothing about clouds.") },
    ];
    let (_index, _registry, search) = filled(&samples).await;
    let query = SearchQuery { explain: true, ..text("tell me the weather") };
    let page = search.run(&query).expect("a page");
    assert_eq!(ids(&page), [2, 3, 4, 1, 6, 5, 7], "what does not fit is last, however much it is used");
    for hit in &page.hits {
        let parts = hit.explanation.as_ref().expect("an explanation");
        assert!((parts.sum() - hit.score).abs() < 1e-3, "{parts:?}");
        assert_eq!(parts.meaning, None);
        assert!(parts.corrected.is_empty());
    }
    assert!(page.hits[0].explanation.as_ref().expect("one").usage > 0.0);
    assert!(page.hits[1].explanation.as_ref().expect("one").trust > 0.0);
    assert_eq!(found(&search, &SearchQuery { limit: 2, ..SearchQuery::default() }), [7, 2], "without words by standing alone");
    assert_eq!(found(&search, &SearchQuery { limit: 2, sort: Sort::MostUsed, ..SearchQuery::default() }), [7, 2]);
    assert_eq!(found(&search, &SearchQuery { limit: 1, sort: Sort::Newest, ..SearchQuery::default() }), [7]);
}

#[tokio::test(flavor = "multi_thread")]
async fn words_are_found_as_people_write_them() {
    let (_index, _registry, search) = filled(&some()).await;
    for (query, id) in [
        ("get weather", 2),
        ("getweather", 2),
        ("GET_WEATHER", 2),
        ("wether", 2),
        ("wheather forcast", 2),
        ("forecasting", 2),
        ("weath", 2),
        ("Wéather", 2),
        ("audit log", 4),
        ("auditlog", 4),
        ("wallet address", 4),
        ("bridge.test", 5),
        ("token swaps", 5),
        ("oracle for nfts", 1),
        ("0xc1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1 weather", 2),
    ] {
        assert_eq!(found(&search, &text(query)).first(), Some(&id), "{query}");
    }
    let page = search.run(&SearchQuery { explain: true, ..text("curent wheather") }).expect("a page");
    let corrected = &page.hits[0].explanation.as_ref().expect("one").corrected;
    assert_eq!(*corrected, [("curent".to_owned(), "current".to_owned()), ("wheather".to_owned(), "weather".to_owned())]);
    assert!(found(&search, &text("xyzzyplugh")).is_empty());
    assert!(found(&search, &text("?! --")).is_empty());
    for nothing in ["\u{0}\u{1b}[31m", ".*", "a:b^2 AND (", "\"", "text:weather*~"] {
        search.run(&text(nothing)).expect("an answer, and no syntax");
    }
    let sorted = SearchQuery { sort: Sort::Newest, ..text("a wether forecast") };
    assert_eq!(found(&search, &sorted), [2], "all words, with mistakes");
    let sorted = SearchQuery { sort: Sort::Newest, ..text("weather picture") };
    assert!(found(&search, &sorted).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_in_small_directories_are_found_by_what_they_are_about() {
    let same = |id, name: &str, text: &str| Sample { registered: 1_780_000_000, ..Sample::new(id, name, text) };
    let samples = [
        same(1, "helper", "Please tell me what you want, and I can help you with it."),
        same(2, "cinema", "Film times at a theater."),
        same(3, "gold", "Gold price of the day."),
        same(4, "metal", "Price list, gold plating and other work."),
        same(5, "you", "It is for me."),
    ];
    let (_index, _registry, search) = filled(&samples).await;
    let first = |query: &str| found(&search, &text(query)).first().copied();
    // The rarest words of the request are the least important ones.
    assert_eq!(first("Can you please help me with what I want: the price of gold?"), Some(3));
    assert_eq!(first("I would like to see a movie with you"), Some(2), "a synonym");
    assert!(!found(&search, &text("the movie for me")).contains(&5), "function words find nothing beside others");
    assert_eq!(first("for me"), Some(5), "and are searched for when there is nothing else");
    let page = search.run(&SearchQuery { explain: true, ..text("movie") }).expect("a page");
    assert!(page.hits[0].explanation.as_ref().expect("one").corrected.is_empty(), "a word with synonyms is spelled right");
    let newest = SearchQuery { sort: Sort::Newest, ..text("the price for gold") };
    assert_eq!(found(&search, &newest), [4, 3], "function words are not needed in other orders");
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_hold_and_facets_count() {
    let (index, _registry, search) = filled(&some()).await;
    let other = index.add_registry(1, Address::repeat_byte(2), 0).await.expect("a registry").id;
    put(&index, other, &[Sample { creator: Address::repeat_byte(0xee), ..Sample::new(9, "weather mainnet", "Weather too.") }])
        .await;
    search.catch_up().await.expect("caught up");
    let check = |filters: Filters, wanted: &[u64]| {
        for words in [None, Some("weather price picture audit swap nft".to_owned())] {
            for sort in [Sort::Relevance, Sort::Newest] {
                if words.is_some() && sort == Sort::Newest {
                    continue;
                }
                let query =
                    SearchQuery { text: words.clone(), filters: filters.clone(), sort, limit: 50, ..SearchQuery::default() };
                let found: BTreeSet<u64> = found(&search, &query).into_iter().collect();
                assert_eq!(found, wanted.iter().copied().collect(), "{filters:?} {words:?}");
            }
        }
    };
    let tags = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>();
    check(Filters::default(), &[1, 2, 3, 4, 5, 9]);
    check(Filters { chain: Some(1), ..Filters::default() }, &[9]);
    check(Filters { chain: Some(8453), ..Filters::default() }, &[1, 2, 3, 4, 5]);
    check(Filters { chain: Some(5), ..Filters::default() }, &[]);
    check(Filters { tags: tags(&["NFT"]), ..Filters::default() }, &[1]);
    check(Filters { tags: tags(&["nft", "image"]), ..Filters::default() }, &[]);
    check(Filters { access: Some(AccessKind::NftGated), ..Filters::default() }, &[3]);
    check(Filters { creator: Some(Address::repeat_byte(0xee)), ..Filters::default() }, &[9]);
    check(Filters { min_price: Some(1), ..Filters::default() }, &[2, 3]);
    check(Filters { max_price: Some(20_000), ..Filters::default() }, &[1, 2, 4, 5, 9]);
    check(Filters { max_price: Some(0), ..Filters::default() }, &[1, 4, 5, 9]);
    check(Filters { min_price: Some(20_001), max_price: Some(2_000_000), ..Filters::default() }, &[3]);
    check(Filters { min_price: Some(9), max_price: Some(8), ..Filters::default() }, &[]);
    let asset = "eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913".to_owned();
    check(Filters { asset: Some(asset), ..Filters::default() }, &[2, 3]);
    check(Filters { protocol: Some("x402".to_owned()), ..Filters::default() }, &[2, 3]);
    check(Filters { tier: Some("hardware-attested".to_owned()), ..Filters::default() }, &[4]);
    check(Filters { tier: Some("self-attested".to_owned()), ..Filters::default() }, &[1, 2, 3, 4, 5, 9]);
    check(Filters { collection: Some(Address::repeat_byte(0xaa)), ..Filters::default() }, &[3]);
    check(Filters { origin: Some("https://bridge.test:8443".to_owned()), ..Filters::default() }, &[5]);

    let page = search.run(&SearchQuery { facets: true, limit: 1, ..SearchQuery::default() }).expect("a page");
    let facets = page.facets.expect("facets");
    let count = |facets: &[toolcrib_index::search::Facet]| {
        facets.iter().map(|facet| (facet.value.clone(), facet.count)).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(page.total, Some(6));
    assert_eq!(facets.counted, 6);
    assert_eq!(count(&facets.chains), BTreeMap::from([("8453".to_owned(), 5), ("1".to_owned(), 1)]));
    assert_eq!(count(&facets.access)["open"], 5);
    assert_eq!(count(&facets.tiers)["verifiable"], 1);
    assert_eq!(count(&facets.protocols), BTreeMap::from([("x402".to_owned(), 2)]));
    assert_eq!(count(&facets.tags)["weather"], 1);
    let categories = count(&facets.categories);
    assert_eq!(categories.len(), 6);
    assert_eq!((categories["ai"], categories["nft"], categories["trading"]), (1, 1, 0));
    let page = search.run(&SearchQuery { facets: true, ..text("weather") }).expect("a page");
    assert_eq!((page.total, page.facets.expect("facets").counted), (Some(2), 2));
}

/// Walks through all pages and changes other tools in between; the unchanged ones must come exactly once.
async fn walk(query: &SearchQuery) {
    for (_place, index, registry) in indexes().await {
        let sample = |id: u64| Sample {
            payers: id % 5,
            registered: 1_790_000_000 + i64::try_from(id % 17).expect("small"),
            is_verified: id % 4 != 3,
            tags: vec!["walk".to_owned()],
            ..Sample::new(id, &format!("walker {id}"), if id.is_multiple_of(2) { "Walks a long way." } else { "Walks." })
        };
        let samples: Vec<Sample> = (0..120).map(sample).collect();
        put(&index, registry, &samples).await;
        let search = searching(&index, None).await;
        search.catch_up().await.expect("caught up");
        let expected: BTreeSet<u64> =
            (0..120).filter(|id| id % 6 != 0).filter(|id| query.include_unverified || id % 4 != 3).collect();
        let mut seen = BTreeMap::new();
        let mut query = SearchQuery { limit: 7, ..query.clone() };
        for round in 0_u64.. {
            let page = search.run(&query).expect("a page");
            for id in ids(&page) {
                *seen.entry(id).or_insert(0) += 1;
            }
            let Some(next) = page.next else { break };
            query.cursor = Some(Cursor::parse(&next.to_string()).expect("its own text"));
            // Every sixth one changes, is deleted or was changed; new ones are added.
            let changed = Sample {
                payers: 3 + round,
                registered: 1_790_000_000 + i64::try_from(round).expect("small"),
                ..sample(round * 6 % 120)
            };
            put(&index, registry, &[changed, sample(6_000 + round * 6), sample(6_001 + round * 6)]).await;
            if round % 3 == 2 {
                remove(&index, sample(round * 6 % 120).key(registry)).await;
            }
            search.catch_up().await.expect("caught up");
            assert!(round < 100, "it ends");
        }
        let once: BTreeSet<u64> = seen.iter().filter(|(id, _)| **id < 120 && *id % 6 != 0).map(|(id, _)| *id).collect();
        assert_eq!(once, expected, "none is skipped");
        let twice: Vec<_> = seen.iter().filter(|(id, times)| **times > 1 && expected.contains(id)).collect();
        assert!(twice.is_empty(), "none is repeated: {twice:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_hold_while_tools_change_by_newest() {
    walk(&SearchQuery { sort: Sort::Newest, ..SearchQuery::default() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_hold_while_tools_change_by_use_with_unverified() {
    walk(&SearchQuery { sort: Sort::MostUsed, include_unverified: true, ..SearchQuery::default() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_hold_while_tools_change_by_standing_with_filter() {
    let filters = Filters { tags: Vec::new(), chain: Some(8453), ..Filters::default() };
    walk(&SearchQuery { filters, include_unverified: true, ..SearchQuery::default() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_hold_while_tools_change_by_newest_with_words() {
    walk(&SearchQuery { text: Some("walker".to_owned()), sort: Sort::Newest, ..SearchQuery::default() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_hold_while_tools_change_by_relevance() {
    walk(&SearchQuery { text: Some("a walker on a long way".to_owned()), include_unverified: true, ..SearchQuery::default() })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_goes_on_with_a_page_by_relevance() {
    let samples: Vec<Sample> = (0..200)
        .map(|id| Sample {
            payers: id % 7,
            ..Sample::new(id, &format!("walker {id}"), if id.is_multiple_of(2) { "Walks far." } else { "Walks." })
        })
        .collect();
    let (index, registry, first) = filled(&samples).await;
    let query = SearchQuery { limit: 30, ..text("a walker that walks far") };
    let whole = found(&first, &SearchQuery { limit: 200, ..query.clone() });
    assert_eq!(whole.len(), 200);
    let (mut seen, mut cursor) = (Vec::new(), None);
    for round in 0.. {
        // A process that has not run the search before, on slightly changed data.
        let search = searching(&index, None).await;
        search.catch_up().await.expect("caught up");
        let page = search.run(&SearchQuery { cursor, ..query.clone() }).expect("a page");
        seen.extend(ids(&page).into_iter().filter(|id| *id < 200));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
        put(&index, registry, &[Sample::new(1_000 + round, "newcomer", "Nothing of the kind.")]).await;
    }
    assert_eq!(seen, whole, "in the same order, each once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_belongs_to_its_search() {
    let samples: Vec<Sample> = (0..20).map(|id| Sample::new(id, "walker", "Walks.")).collect();
    let (_index, _registry, search) = filled(&samples).await;
    let query = SearchQuery { limit: 5, ..text("walker") };
    let cursor = search.run(&query).expect("a page").next;
    assert!(cursor.is_some());
    for other in [
        SearchQuery { cursor: cursor.clone(), ..text("runner") },
        SearchQuery { cursor: cursor.clone(), sort: Sort::Newest, ..query.clone() },
        SearchQuery { cursor: cursor.clone(), filters: Filters { chain: Some(1), ..Filters::default() }, ..query.clone() },
        SearchQuery { cursor: cursor.clone(), include_unverified: true, ..query.clone() },
    ] {
        let error = search.run(&other).expect_err("refused");
        assert!(matches!(error, Error::Cursor) && error.code() == codes::index::CURSOR);
    }
    // Another page size is the same search.
    assert_eq!(search.run(&SearchQuery { cursor, limit: 100, ..query }).expect("a page").hits.len(), 15);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_for_is_bounded() {
    let samples: Vec<Sample> = (0..900).map(|id| Sample::new(id, "walker", "Walks.")).collect();
    let (_index, _registry, search) = filled(&samples).await;
    assert_eq!(search.run(&SearchQuery { limit: usize::MAX, ..SearchQuery::default() }).expect("a page").hits.len(), MAX_LIMIT);
    assert_eq!(search.run(&SearchQuery { limit: 0, ..SearchQuery::default() }).expect("a page").hits.len(), 1);
    let mut query = SearchQuery { limit: MAX_LIMIT, ..text("walker") };
    let mut hits = 0;
    loop {
        let page = search.run(&query).expect("a page");
        assert_eq!(page.total, None, "more than are ranked");
        hits += page.hits.len();
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    assert_eq!(hits, MAX_RANKED);
    let long = "walker ".repeat(1_000_000) + &"x".repeat(1_000_000);
    assert_eq!(search.run(&text(&long)).expect("a page").hits.len(), 20);
    let words: String = (0..10_000).map(|n| format!("w{n}lker{n} ")).collect();
    search.run(&text(&words)).expect("a page");
    let filters = Filters { tags: vec!["x".repeat(1_000_000); 1_000], origin: Some("y".repeat(1_000_000)), ..Filters::default() };
    assert!(search.run(&SearchQuery { filters, ..text("walker") }).expect("a page").hits.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_text_is_only_text() {
    let mut strings = vec![
        "\u{0}\u{1}\u{1b}[31mred\u{7}".to_owned(),
        "<script>alert(1)</script>".to_owned(),
        "'; DROP TABLE index_tool; --".to_owned(),
        "\u{202e}gnp.exe\u{2066}".to_owned(),
        "a\u{301}".repeat(5_000),
        "\u{FDFA}".repeat(5_000),
        "🧰🔧".repeat(500),
        "x".repeat(1_000_000),
        "\u{FEFF}\u{200d}\u{2028}".to_owned(),
    ];
    if let Some(folder) = toolcrib_testkit::corpus("erc8257/registry") {
        for entry in std::fs::read_dir(folder).expect("the registry of the corpus").flatten() {
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            strings.extend(String::from_utf8_lossy(&bytes).lines().take(400).map(str::to_owned));
        }
    }
    let samples: Vec<Sample> = strings
        .iter()
        .zip(0..)
        // PostgreSQL text has no zero byte, and no row contains one.
        .map(|(text, id)| Sample {
            is_verified: id % 2 == 0,
            tags: vec![text.chars().take(50).collect()],
            ..Sample::new(id, text, text)
        })
        .collect();
    let (index, registry) = in_memory().await;
    for samples in samples.chunks(100) {
        put(&index, registry, samples).await;
    }
    let search = searching(&index, None).await;
    search.catch_up().await.expect("caught up");
    for text in strings.iter().take(60) {
        for include_unverified in [false, true] {
            let filters = Filters { tags: vec![text.clone()], origin: Some(text.clone()), ..Filters::default() };
            for filters in [Filters::default(), filters] {
                let query = SearchQuery {
                    text: Some(text.clone()),
                    filters,
                    include_unverified,
                    facets: true,
                    explain: true,
                    limit: 5,
                    ..SearchQuery::default()
                };
                search.run(&query).expect("an answer");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reputation_from_outside_counts() {
    let (index, registry) = in_memory().await;
    let creator = Address::repeat_byte(0xbe);
    let same = |id| Sample { registered: 1_780_000_000, ..Sample::new(id, "weather", "Tells the weather.") };
    put(&index, registry, &[Sample { creator, ..same(1) }, same(2)]).await;
    let options = SearchOptions {
        reputation: Some(std::sync::Arc::new(move |view| (view.row.creator == creator).then_some(1.0))),
        ..SearchOptions::default()
    };
    let search = Search::open(index, options).await.expect("search");
    search.catch_up().await.expect("caught up");
    assert_eq!(found(&search, &text("weather")), [1, 2]);
}

/// Writes a model with three tokens, two with nearly the same meaning.
pub(crate) fn write_embedding(folder: &Path) {
    let header = r#"{"m":{"dtype":"F32","shape":[4,2],"data_offsets":[0,32]}}"#;
    let rows: [f32; 8] = [0.0, 0.0, 1.0, 0.0, 0.9, 0.1, 0.0, 1.0];
    let mut table = (header.len() as u64).to_le_bytes().to_vec();
    table.extend_from_slice(header.as_bytes());
    table.extend(rows.iter().flat_map(|number| number.to_le_bytes()));
    std::fs::write(folder.join("model.safetensors"), table).expect("written");
    let words = r#"{"model":{"type":"BPE","vocab":{"x":0,"☔":1,"🌧":2,"🌙":3},"merges":[]}}"#;
    std::fs::write(folder.join("tokenizer.json"), words).expect("written");
}

#[tokio::test(flavor = "multi_thread")]
async fn meaning_adds_to_words() {
    let (index, registry) = in_memory().await;
    let same =
        |id, sign: &str| Sample { registered: 1_780_000_000, ..Sample::new(id, "outlook", &format!("Tells what comes {sign}")) };
    put(&index, registry, &[same(1, "🌙"), same(2, "🌧")]).await;
    let (folder, model) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    write_embedding(model.path());
    let plain = SearchOptions { folder: Some(folder.path().to_owned()), ..SearchOptions::default() };
    let with_model = SearchOptions { embedding: Some(model.path().to_owned()), ..plain.clone() };
    let query = SearchQuery { explain: true, ..text("outlook ☔") };
    let search = Search::open(index.clone(), plain.clone()).await.expect("search");
    search.catch_up().await.expect("caught up");
    assert_eq!(found(&search, &query), [2, 1], "equal, so by key");
    assert_eq!(found(&search, &text("outlook 🌙")), [2, 1]);
    drop(search);
    // Another model is another format.
    let search = Search::open(index.clone(), with_model.clone()).await.expect("search");
    assert_eq!(search.cursor(), 0);
    search.catch_up().await.expect("caught up");
    assert_eq!(found(&search, &text("outlook 🌙")), [1, 2]);
    let page = search.run(&query).expect("a page");
    assert_eq!(ids(&page), [2, 1]);
    let meaning = |at: usize| page.hits[at].explanation.as_ref().and_then(|parts| parts.meaning).expect("a meaning");
    assert!(meaning(0) > meaning(1));
    drop(search);
    std::fs::write(model.path().join("tokenizer.json"), "{}").expect("written");
    let error = Search::open(index.clone(), with_model.clone()).await.expect_err("refused");
    assert_eq!(error.code(), codes::index::EMBEDDING);
    // A known package is detected by the names of its files, and accepted only with their hashes.
    let package = model.path().join("wordllama/weights");
    std::fs::create_dir_all(&package).expect("a folder");
    std::fs::write(package.join("l2_supercat_256.safetensors"), "other bytes").expect("written");
    let error = Search::open(index.clone(), with_model.clone()).await.expect_err("a file is missing");
    assert!(error.to_string().contains("l2_supercat_tokenizer_config.json"), "{error}");
    let tokenizers = model.path().join("wordllama/tokenizers");
    std::fs::create_dir_all(&tokenizers).expect("a folder");
    std::fs::write(tokenizers.join("l2_supercat_tokenizer_config.json"), "{}").expect("written");
    let error = Search::open(index.clone(), with_model.clone()).await.expect_err("other hashes");
    assert!(error.code() == codes::index::EMBEDDING && error.to_string().contains("SHA-256"), "{error}");
    std::fs::remove_dir_all(model.path().join("wordllama")).expect("removed");
    std::fs::write(model.path().join("second.safetensors"), "").expect("written");
    assert_eq!(Search::open(index, with_model).await.expect_err("refused").code(), codes::index::EMBEDDING);
}

#[tokio::test(flavor = "multi_thread")]
async fn details_have_a_meaning_too() {
    let (index, registry) = in_memory().await;
    let same = |id, sign: &str| Sample {
        registered: 1_780_000_000,
        inputs: Some(described(sign)),
        ..Sample::new(id, "outlook", "Tells what comes")
    };
    put(&index, registry, &[same(1, "🌧"), same(2, "🌙")]).await;
    let search = searching(&index, None).await;
    search.catch_up().await.expect("caught up");
    assert_eq!(found(&search, &text("outlook ☔")), [2, 1], "equal, so by key");
    let model = tempfile::tempdir().expect("a folder");
    write_embedding(model.path());
    let options = SearchOptions { embedding: Some(model.path().to_owned()), ..SearchOptions::default() };
    let search = Search::open(index, options).await.expect("search");
    search.catch_up().await.expect("caught up");
    assert_eq!(found(&search, &text("outlook ☔")), [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn wording_tells_hits_apart() {
    let same = |id, name: &str, description: &str| Sample { registered: 1_780_000_000, ..Sample::new(id, name, description) };
    // No common term except `lookup`, and too different for spelling correction.
    let (_, _, search) = filled(&[same(1, "lookup", "Pharmacy."), same(2, "lookup", "Asteroid.")]).await;
    assert_eq!(found(&search, &text("lookup")), [2, 1], "equal, so by key");
    assert_eq!(found(&search, &text("pharmaceutical lookup")), [1, 2]);
    let page = search.run(&SearchQuery { explain: true, ..text("pharmaceutical lookup") }).expect("a page");
    for hit in &page.hits {
        let parts = hit.explanation.as_ref().expect("one");
        assert!((parts.sum() - hit.score).abs() < 1e-3 && parts.corrected.is_empty(), "{parts:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn neighbours_in_schemas_count() {
    let same = |id, value: &str| Sample {
        registered: 1_780_000_000,
        inputs: Some(described(value)),
        ..Sample::new(id, "place", "Tells about a place.")
    };
    let (_, _, search) = filled(&[same(1, "Whether opening hours are told."), same(2, "Whether hours are told, opening.")]).await;
    assert_eq!(found(&search, &text("place hours")), [2, 1], "equal, so by key");
    assert_eq!(found(&search, &text("place opening hours")), [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn meaning_alone_finds_tools_of_small_directories() {
    let (index, registry) = in_memory().await;
    let mut samples: Vec<Sample> = (1..5).map(|id| Sample::new(id, "outlook", "Tells what comes 🌙")).collect();
    samples[0].tags = vec!["night".to_owned()];
    samples.push(Sample::new(9, "umbrella", "🌧"));
    put(&index, registry, &samples).await;
    let model = tempfile::tempdir().expect("a folder");
    write_embedding(model.path());
    let plain = searching(&index, None).await;
    plain.catch_up().await.expect("caught up");
    assert!(!found(&plain, &text("outlook ☔")).contains(&9));
    let options = SearchOptions { embedding: Some(model.path().to_owned()), ..SearchOptions::default() };
    let search = Search::open(index.clone(), options).await.expect("search");
    search.catch_up().await.expect("caught up");
    let page = search.run(&SearchQuery { explain: true, ..text("outlook ☔") }).expect("a page");
    assert_eq!((page.total, ids(&page).len()), (Some(5), 5));
    let umbrella = page.hits.iter().find(|hit| hit.key.id.to::<u64>() == 9).expect("found by meaning");
    let parts = umbrella.explanation.as_ref().expect("one");
    assert!(parts.text == 0.0 && parts.meaning.is_some_and(|meaning| meaning > 0.0), "{parts:?}");
    assert!(!found(&search, &text("outlook 🌙")).contains(&9), "what is not near is no hit");
    let night = Filters { tags: vec!["night".to_owned()], ..Filters::default() };
    assert_eq!(found(&search, &SearchQuery { filters: night, ..text("outlook ☔") }), [1], "filters hold");
    assert!(found(&search, &text("☔")).is_empty(), "where no word fits there is nothing to rank by");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_search_while_it_is_fed() {
    let (index, registry) = in_memory().await;
    put(&index, registry, &some()).await;
    let search = searching(&index, None).await;
    search.catch_up().await.expect("caught up");
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let search = search.clone();
            tokio::task::spawn_blocking(move || {
                for _ in 0..200 {
                    assert_eq!(found(&search, &text("weather forecast")).first(), Some(&2));
                }
            })
        })
        .collect();
    for id in 100..120 {
        put(&index, registry, &[Sample::new(id, "unrelated", "Something else.")]).await;
        let (a, b) = tokio::join!(search.catch_up(), search.catch_up());
        assert_eq!(a.expect("caught up") + b.expect("caught up"), 1, "each change once");
    }
    for reader in readers {
        reader.await.expect("a reader");
    }
    let keys: BTreeSet<ToolKey> = search
        .run(&SearchQuery { limit: 200, ..SearchQuery::default() })
        .expect("a page")
        .hits
        .iter()
        .map(|hit| hit.key)
        .collect();
    assert_eq!(keys.len(), 25);
}

/// The minimum quality of each set: a little below the measured one.
const QUALITY: [(&str, quality::Scores); 3] = [
    ("seal-tools", quality::Scores { dev: 94.8, test: 95.6, all: 95.3 }),
    ("bfcl-v4", quality::Scores { dev: 66.6, test: 63.9, all: 65.0 }),
    ("metatool", quality::Scores { dev: 61.0, test: 58.9, all: 59.7 }),
];

/// The minimum quality of each set with WordLlama-256.
const QUALITY_WITH_EMBEDDING: [(&str, quality::Scores); 3] = [
    ("seal-tools", quality::Scores { dev: 94.8, test: 95.7, all: 95.4 }),
    ("bfcl-v4", quality::Scores { dev: 67.7, test: 64.4, all: 66.0 }),
    ("metatool", quality::Scores { dev: 65.6, test: 67.0, all: 66.4 }),
];

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_found_better_than_by_plain_frequencies() {
    let Some(folder) = toolcrib_testkit::corpus("retrieval") else { return };
    for (name, least) in QUALITY {
        let set = quality::Set::read(&folder, name);
        let (flat, ours) = (quality::flat(&set, false).await, quality::ours(&set, None).await);
        assert!(ours.dev >= least.dev && ours.test >= least.test && ours.all >= least.all, "{name}: {ours:?}, least {least:?}");
        assert!(ours.dev > flat.dev + 1.0 && ours.test > flat.test + 1.0, "{name}: {ours:?} against {flat:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn meaning_adds_a_point() {
    let Some(folder) = toolcrib_testkit::corpus("retrieval") else { return };
    let Some(model) = toolcrib_testkit::embedding() else { return };
    let (mut dev, mut test, mut all) = (0.0, 0.0, 0.0);
    for (name, least) in QUALITY_WITH_EMBEDDING {
        let set = quality::Set::read(&folder, name);
        let (plain, meant) = (quality::ours(&set, None).await, quality::ours(&set, Some(&model)).await);
        let is_enough = meant.dev >= least.dev && meant.test >= least.test && meant.all >= least.all;
        assert!(is_enough, "{name}: {meant:?}, least {least:?}");
        dev += meant.dev - plain.dev;
        test += meant.test - plain.test;
        all += meant.all - plain.all;
    }
    let sets = quality::SETS.len() as f64;
    assert!(dev >= sets && test >= sets && all >= sets, "on average {} {} {}", dev / sets, test / sets, all / sets);
}
