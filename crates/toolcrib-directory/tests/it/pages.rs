//! What the pages show of honest tools.

use crate::shelf::{Shelf, Stock, open, path};

fn page(id: u64) -> String {
    path(id).replace("/api/v2", "")
}

/// The part of a page between two texts.
fn between<'p>(page: &'p str, from: &str, to: &str) -> &'p str {
    let rest = page.split_once(from).unwrap_or_else(|| panic!("{from}: {page}")).1;
    rest.split_once(to).map_or(rest, |(part, _)| part)
}

// req: MAN-015
#[tokio::test(flavor = "multi_thread")]
async fn categories_are_filters_and_other_tags_stay_searchable() {
    let shelf = Shelf::one(open()).await;
    let tagged = |id, name: &str, tags: &[&str]| {
        let tags: Vec<_> = tags.iter().map(|tag| (*tag).to_owned()).collect();
        Stock::good(id, name).manifest(|manifest| manifest.tags = tags)
    };
    let stock = [
        tagged(1, "Adviser", &["ai", "tide-tables"]),
        tagged(2, "Swapper", &["defi", "trading"]),
        tagged(3, "Painter", &["image", "nft"]),
        tagged(4, "Auditor", &["security"]),
        tagged(5, "Harbour", &["tide-tables"]),
    ];
    shelf.put_all(&stock).await;
    let front = shelf.get("/").await.text();
    let categories = between(&front, "Category", "Access");
    for category in ["ai", "defi", "nft", "trading", "image", "security"] {
        assert!(categories.contains(&format!("tags={category}\"")), "{category}: {categories}");
    }
    assert!(!categories.contains("tide-tables"), "{categories}");
    for (tags, ids) in [("ai", vec![1]), ("nft", vec![3]), ("tide-tables", vec![1, 5]), ("security", vec![4])] {
        let mut found = shelf.ids(&format!("/api/v2/tools/search?tags={tags}")).await;
        found.sort_unstable();
        assert_eq!(found, ids, "{tags}");
        let text = shelf.get(&format!("/?tags={tags}")).await.text();
        assert_eq!(text.matches("<article").count(), ids.len(), "{tags}: {text}");
    }
    assert!(shelf.get(&page(5)).await.text().contains("tide-tables"), "on the page of the tool");
}

// req: MAN-014
#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_the_icon_of_a_tool() {
    let shelf = Shelf::one(open()).await;
    let picture = Stock::good(1, "Painter").manifest(|manifest| manifest.image = Some("data:image/png;base64,AAAA".to_owned()));
    shelf.put_all(&[picture, Stock::good(2, "Writer")]).await;
    let card = |text: &str, name: &str| {
        let cards: Vec<_> = text.split("<article").filter(|card| card.contains(name)).map(str::to_owned).collect();
        cards.last().cloned().unwrap_or_else(|| panic!("{name}: {text}"))
    };
    let front = shelf.get("/").await.text();
    assert!(card(&front, "Painter").contains("<img"), "{front}");
    assert!(!card(&front, "Writer").contains("<img") && card(&front, "Writer").contains(">W<"), "{front}");
    assert!(shelf.get(&page(1)).await.text().contains("<img"));
    assert!(!shelf.get(&page(2)).await.text().contains("<img"));
}

// req: TRUST-009, TRUST-024
#[tokio::test(flavor = "multi_thread")]
async fn the_tier_that_is_shown_is_the_one_that_was_verified() {
    let shelf = Shelf::one(open()).await;
    let attested = Stock::good(1, "Enclave").with(|_, listing| listing.tier = "hardware-attested".to_owned());
    // The manifest of the second may claim what it likes: what is kept about it is what was verified.
    shelf.put_all(&[attested, Stock::good(2, "Plain"), Stock { listing: None, ..Stock::good(3, "Pending") }]).await;
    for (id, tier) in [(1, "hardware-attested"), (2, "self-attested"), (3, "self-attested")] {
        let text = shelf.get(&page(id)).await.text();
        assert!(between(&text, "Trust tier", "</dd>").contains(tier), "{id}: {text}");
        assert_eq!(shelf.get(&path(id)).await.json()["tier"], tier, "{id}");
    }
    assert_eq!(shelf.ids("/api/v2/tools/search?tier=hardware-attested").await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn floor_price_and_image_of_a_collection_are_shown_where_they_are_known() {
    let shelf = Shelf::one(open()).await;
    let known = Stock::good(2, "Known").gated().with(|_, listing| {
        let collection = listing.access.requirements[0].collection.as_mut().expect("a collection");
        collection.floor_price = Some("0.045 ETH".to_owned());
        collection.image = Some("https://img.example/apes.png".to_owned());
    });
    shelf.put_all(&[Stock::good(1, "Unknown").gated(), known]).await;
    let page_of = async |id| shelf.get(&page(id)).await.text();
    assert!(!page_of(1).await.contains("floor price"), "nothing is invented");
    let shown = page_of(2).await;
    assert!(shown.contains("floor price 0.045 ETH") && shown.contains("https://img.example/apes.png"), "{shown}");
    let tool = |id| {
        let shelf = &shelf;
        async move { shelf.get(&path(id)).await.json()["access"]["requirements"][0]["collection"].clone() }
    };
    assert_eq!(
        (tool(2).await["floor_price"].as_str(), tool(2).await["image_url"].as_str()),
        (Some("0.045 ETH"), Some("https://img.example/apes.png"))
    );
    assert!(tool(1).await.get("image_url").is_none() && tool(1).await.get("floor_price").is_none());
}
