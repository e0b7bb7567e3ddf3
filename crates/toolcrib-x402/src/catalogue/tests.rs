use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;

const USDC: &str = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
const PAYEE: &str = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";

fn v2(change: impl FnOnce(&mut Json)) -> Json {
    let mut item = json!({
        "resource": "https://Weather.example.com:443/now#top", "type": "http", "x402Version": 2,
        "accepts": [{"scheme": "exact", "network": "eip155:8453", "amount": "20000", "asset": USDC, "payTo": PAYEE,
            "maxTimeoutSeconds": 60, "extra": {"name": "USD Coin", "version": "2"}}],
        "lastUpdated": "2026-09-01T12:00:00.123Z", "description": "Weather now.", "mimeType": "application/json",
        "serviceName": "Weather", "tags": ["weather", "now"], "iconUrl": "https://weather.example.com/i.png",
        "extensions": {"bazaar": {
            "info": {"input": {"type": "http", "method": "get", "queryParams": {"city": "Oslo"}}, "output": {"type": "json"}},
            "schema": {"type": "object", "properties": {"input": {"type": "object", "properties": {"city": {"type": "string"}}}}},
            "routeTemplate": "/now/:city",
        }},
    });
    change(&mut item);
    item
}

fn v1() -> Json {
    json!({
        "resource": "https://old.example.com/tides?at=oslo", "type": "http", "x402Version": 1,
        "accepts": [{"scheme": "exact", "network": "base", "maxAmountRequired": "500", "asset": USDC, "payTo": PAYEE,
            "resource": "https://old.example.com/tides", "description": "Tides.", "mimeType": "text/plain",
            "maxTimeoutSeconds": 60, "outputSchema": {"input": {"type": "http", "method": "POST"}, "output": {"level": 1}}}],
        "lastUpdated": 1_756_000_000, "metadata": {"name": "Tides of old"},
    })
}

fn page(items: &[Json]) -> CataloguePage {
    let page = json!({"x402Version": 2, "items": items, "pagination": {"limit": 100, "offset": 0, "total": items.len()}});
    read_catalogue(page.to_string().as_bytes()).expect("a page")
}

fn one(item: Json) -> Result<CatalogueItem, Code> {
    page(&[item]).items.remove(0).map_err(|bad| bad.code)
}

#[test]
fn both_forms_are_read() {
    let item = one(v2(|_| ())).expect("an item");
    assert_eq!(item.url.normalized(), "https://weather.example.com/now");
    assert_eq!(item.access, ItemAccess::Http { method: Some("GET") });
    assert_eq!((item.name.as_deref(), item.description.as_deref()), (Some("Weather"), Some("Weather now.")));
    assert_eq!(item.tags, ["weather", "now"]);
    assert_eq!(item.route_template.as_deref(), Some("/now/:city"));
    assert_eq!(item.last_updated.map(UnixTime::seconds), Some(1_788_264_000));
    assert_eq!(item.input.as_ref().map(Raw::as_str), Some(r#"{"properties":{"city":{"type":"string"}},"type":"object"}"#));
    assert_eq!(item.offers.len(), 1);
    let old = one(v1()).expect("an item");
    assert_eq!(old.access, ItemAccess::Http { method: Some("POST") });
    assert_eq!((old.name.as_deref(), old.description.as_deref()), (Some("Tides of old"), Some("Tides.")));
    assert_eq!((old.offers[0].network.as_str(), old.offers[0].amount.to_string().as_str()), ("eip155:8453", "500"));
    assert_eq!(old.last_updated.map(UnixTime::seconds), Some(1_756_000_000));
    assert_eq!(old.output.as_ref().map(Raw::as_str), Some(r#"{"level":1}"#));
    assert_ne!(item.identity(), old.identity());
}

#[test]
fn times_are_read_in_every_form() {
    let at = |value: Json| one(v2(|item| item["lastUpdated"] = value)).expect("an item").last_updated.map(UnixTime::seconds);
    assert_eq!(at(json!(1_756_000_000_123_u64)), Some(1_756_000_000));
    assert_eq!(at(json!("yesterday")), None);
    assert_eq!(at(json!(-1)), None);
    assert_eq!(at(json!(1.5)), None);
    assert_eq!(at(json!(null)), None);
}

#[test]
fn tools_of_mcp_servers_are_named_by_both_parts() {
    let mcp = |name: Json| {
        v2(|item| {
            item["type"] = json!("mcp");
            item["extensions"]["bazaar"]["info"]["input"] =
                json!({"type": "mcp", "toolName": name, "inputSchema": {"type": "object"}});
        })
    };
    let (a, b) = (one(mcp(json!("a"))).expect("an item"), one(mcp(json!("b"))).expect("an item"));
    assert_eq!(a.access, ItemAccess::Mcp { tool: "a".to_owned() });
    assert_eq!(a.input.as_ref().map(Raw::as_str), Some(r#"{"type":"object"}"#));
    assert_ne!(a.identity(), b.identity());
    for bad in [json!(""), json!(7), json!("x".repeat(129)), json!("a\u{0}b")] {
        assert_eq!(one(mcp(bad)), Err(code::ITEM_TYPE));
    }
}

#[test]
fn bad_items_are_skipped_with_a_code_and_the_rest_is_read() {
    let nested = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let cases = [
        (json!("text"), code::ITEM),
        (json!({}), code::ITEM_URL),
        (v2(|item| item["resource"] = json!("http://weather.example.com/now")), code::ITEM_URL),
        (v2(|item| item["resource"] = json!("https://127.0.0.1/now")), code::ITEM_URL),
        (v2(|item| item["resource"] = json!("https://user:pw@weather.example.com/")), code::ITEM_URL),
        (v2(|item| item["resource"] = json!(["https://weather.example.com/"])), code::ITEM_URL),
        (v2(|item| item["type"] = json!("ftp")), code::ITEM_TYPE),
        (v2(|item| item["accepts"] = json!([])), code::ITEM_OFFERS),
        (v2(|item| item["accepts"] = json!("none")), code::ITEM_OFFERS),
        (v2(|item| item["accepts"][0]["amount"] = json!("-1")), code::ITEM_OFFERS),
        (v2(|item| item["accepts"][0]["network"] = json!("nowhere")), code::ITEM_OFFERS),
        (v2(|item| item["description"] = json!("x".repeat(MAX_ITEM_BYTES))), code::ITEM_TOO_LARGE),
        (v2(|item| item["description"] = nested), code::ITEM),
    ];
    let mut items: Vec<Json> = cases.iter().map(|(item, _)| item.clone()).collect();
    items.push(v2(|_| ()));
    let page = page(&items);
    let codes: Vec<Code> = page.items.iter().filter_map(|item| item.as_ref().err()).map(|bad| bad.code).collect();
    assert_eq!(codes, cases.map(|(_, code)| code));
    assert!(page.items.last().is_some_and(Result::is_ok), "the good one is read");
    assert_eq!(page.total, Some(14));
}

#[test]
fn items_are_read_strictly_and_apart() {
    let twice = br#"{"items":[{"resource":"https://a.example/","resource":"https://b.example/","accepts":[]},{"resource":"\ud800","accepts":[]}]}"#;
    let page = read_catalogue(twice).expect("a page");
    assert_eq!(
        page.items.iter().map(|item| item.as_ref().map_err(|bad| bad.code).err()).collect::<Vec<_>>(),
        [Some(code::ITEM); 2]
    );
    assert_eq!(page.total, None);
}

#[test]
fn long_texts_are_cut_and_large_shapes_left_out() {
    let item = one(v2(|item| {
        item["description"] = json!("\u{e9}".repeat(5_000));
        item["tags"] = json!(vec!["t"; 400]);
        item["extensions"]["bazaar"]["schema"]["properties"]["input"]["description"] = json!("x".repeat(MAX_SHAPE_BYTES));
        item["extensions"]["bazaar"]["routeTemplate"] = json!("/../:id");
    }))
    .expect("an item");
    assert_eq!(item.description.map(|text| text.chars().count()), Some(MAX_DESCRIPTION_CHARS));
    assert_eq!((item.tags.len(), item.input, item.route_template), (MAX_TAGS, None, None));
}

#[test]
fn what_is_no_page_is_refused() {
    for bytes in [&b"<html>"[..], b"", b"[]", b"{}", br#"{"items":{}}"#, br#"{"items":"#, &[b'['; 100_000], &[0xff; 10]] {
        assert_eq!(read_catalogue(bytes).err(), Some(code::PAGE));
    }
    assert_eq!(read_catalogue(&vec![b' '; MAX_CATALOGUE_BYTES + 1]).err(), Some(code::PAGE));
    assert!(read_catalogue(br#"{"items":[]}"#).is_ok_and(|page| page.items.is_empty() && page.total.is_none()));
    let many = json!({"items": vec![json!({}); 500], "pagination": {"total": -4}}).to_string();
    assert!(read_catalogue(many.as_bytes()).is_ok_and(|page| page.items.len() == MAX_CATALOGUE_ITEMS && page.total.is_none()));
}

proptest! {
    #[test]
    fn rubbish_does_no_harm(bytes in any::<Vec<u8>>(), at in 0_usize..900, byte: u8) {
        let _ = read_catalogue(&bytes);
        let mut page = json!({"items": [v2(|_| ()), v1()]}).to_string().into_bytes();
        if let Some(place) = page.get_mut(at) {
            *place = byte;
        }
        let _ = read_catalogue(&page);
    }
}
