//! Resources in search: found by those who ask for them alone.

use serde_json::json;
use toolcrib_index::search::{Filters, Search, SearchOptions, SearchQuery, Source};

use super::server::{Catalogue, MovingClock, follower, indexes, item, listed, url, walk};
use toolcrib_testkit::samples::{Sample, put};

#[tokio::test(flavor = "multi_thread")]
async fn resources_are_found_by_those_who_ask_for_them() {
    for (_place, index) in indexes().await {
        let registry = index.add_registry(8453, alloy_primitives::Address::repeat_byte(0x82), 1).await.expect("a registry").id;
        let tool = Sample::new(1, "Weather oracle", "Tells the weather.");
        put(&index, registry, std::slice::from_ref(&tool)).await;
        let mut weather = item(&url(1));
        weather["serviceName"] = json!("Weather station");
        weather["description"] = json!("Rain and wind for any town.");
        let catalogue = Catalogue::start(vec![weather, item(&url(2))]).await;
        let clock = MovingClock::new();
        let follower = follower(&index, &catalogue, &clock);
        walk(&follower).await;
        let resource = listed(&index).await.into_iter().find(|view| view.url == url(1)).expect("a resource").key();
        // Filled from the database, and fed from the changes.
        let search = Search::open(index.clone(), SearchOptions::default()).await.expect("search");
        search.catch_up().await.expect("fed");
        let find = |source: Option<Source>, include_unverified: bool| {
            let filters = Filters { source, ..Filters::default() };
            let query = SearchQuery {
                text: Some("weather".to_owned()),
                filters,
                limit: 10,
                include_unverified,
                ..SearchQuery::default()
            };
            search.run(&query).expect("hits").hits.into_iter().map(|hit| hit.key).collect::<Vec<_>>()
        };
        assert_eq!(find(None, false), [tool.key(registry)], "only callers who ask see them");
        assert_eq!(find(Some(Source::Bazaar), false), []);
        assert_eq!(find(Some(Source::Onchain), true), [tool.key(registry)]);
        assert_eq!(find(None, true)[..2], [tool.key(registry), resource], "after what is verified");
        assert_eq!(find(Some(Source::Bazaar), true)[0], resource);
        let filters =
            Filters { source: Some(Source::Bazaar), chain: Some(8453), tags: vec!["weather".to_owned()], ..Filters::default() };
        let rain = SearchQuery {
            text: Some("rain in a town".to_owned()),
            filters,
            limit: 10,
            include_unverified: true,
            ..SearchQuery::default()
        };
        assert_eq!(search.run(&rain).expect("hits").hits[0].key, resource);
        // One that goes is found no more.
        catalogue.set(|behaviour| behaviour.items.truncate(0));
        catalogue.set(|behaviour| behaviour.total = Some(Some(json!(0))));
        for pause in [4_000, 4_000, 90_000] {
            clock.advance(pause);
            walk(&follower).await;
        }
        search.catch_up().await.expect("fed");
        let find = |source| {
            let filters = Filters { source: Some(source), ..Filters::default() };
            search
                .run(&SearchQuery { filters, limit: 10, include_unverified: true, ..SearchQuery::default() })
                .expect("hits")
                .hits
                .len()
        };
        assert_eq!((find(Source::Bazaar), find(Source::Onchain)), (0, 1));
    }
}
