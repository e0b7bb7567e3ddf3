//! Settings that a server does not start with.

use serde_json::Value;
use toolcrib_core::tool::ToolBuilder;
use toolcrib_gate::{Gate, Handler, Tool, Tools};

use crate::world::{ORIGIN, Runs, counting, creator, manifest};

fn tool(name: &str) -> Tool<Handler> {
    counting(name, Gate::Open, &Runs::default())
}

#[track_caller]
fn check(tools: Tools, codes: &[&str]) {
    let errors = tools.build().map_or_else(|errors| errors.0, |_| Vec::new());
    assert_eq!(errors.iter().map(|error| error.code().id()).collect::<Vec<_>>(), codes, "{errors:?}");
    assert!(errors.iter().all(|error| !error.to_string().is_empty()));
}

fn with(endpoint: &str, price: Option<&str>) -> Tool<Handler> {
    let mut builder = ToolBuilder::new("another", "Does something.", endpoint, creator());
    if let Some(amount) = price {
        let account = format!("eip155:8453:{:#x}", creator());
        builder = builder.price(amount, "eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913", &account, "x402");
    }
    Tool::new(builder.build().expect("a manifest").manifest).handler(async |input: Value, _| Ok(input))
}

// req: URL-003
#[test]
fn a_slug_is_there_once_on_an_origin() {
    check(Tools::new(ORIGIN).tool(tool("one")).tool(tool("two")), &[]);
    check(Tools::new(ORIGIN).tool(tool("one")).tool(tool("two").slug("one")), &["gate.slug_twice"]);
    check(Tools::new(ORIGIN).tool(tool("one")).tool(tool("one")), &["gate.slug_twice", "gate.endpoint_twice"]);
    check(Tools::new(ORIGIN).tool(tool("one").slug("Not A Slug")), &["gate.slug"]);
}

// req: URL-003
#[test]
fn the_same_slug_may_be_on_another_origin() {
    let other = with("https://other.example.com/x", None).slug("one");
    check(Tools::new("https://other.example.com").tool(other), &[]);
}

#[test]
fn endpoints_are_on_the_origin_and_apart() {
    check(Tools::new("https://tools.example.com:8443").tool(tool("one")), &["gate.off_origin"]);
    check(Tools::new(ORIGIN).tool(with("https://other.example.com/x", None)), &["gate.off_origin"]);
    check(Tools::new(ORIGIN).tool(tool("one")).tool(with(&format!("{ORIGIN}/one?a=b"), None)), &["gate.endpoint_twice"]);
    let at_manifest = with(&format!("{ORIGIN}/.well-known/ai-tool/one.json"), None);
    check(Tools::new(ORIGIN).tool(tool("one")).tool(at_manifest), &["gate.endpoint_twice"]);
    check(Tools::new(ORIGIN).tool(with(ORIGIN, None)), &[]);
    check(Tools::new(ORIGIN).tool(with(&format!("{ORIGIN}/:a/*b"), None)), &[]);
    let router = Tools::new(ORIGIN).tool(with(&format!("{ORIGIN}/:a/*b"), None)).build().expect("sound").router();
    assert!(router.has_routes(), "nothing in a path stands for something else");
}

#[test]
fn an_origin_is_an_origin() {
    for text in ["", "tools.example.com", "https://tools.example.com/x"] {
        assert_eq!(Tools::new(text).build().expect_err(text).0.len(), 1);
    }
    check(Tools::new("http://tools.example.com"), &["url.not_https"]);
}

#[test]
fn prices_are_not_given_away() {
    check(Tools::new(ORIGIN).tool(with(&format!("{ORIGIN}/x"), Some("20000"))), &["gate.priced"]);
    check(Tools::new(ORIGIN).tool(with(&format!("{ORIGIN}/x"), Some("0"))), &[]);
}

#[test]
fn other_bytes_are_not_served() {
    let other = manifest("two").canonical().as_bytes().to_vec();
    check(Tools::new(ORIGIN).tool(tool("one").bytes(other)), &["gate.bytes_differ"]);
    check(Tools::new(ORIGIN).tool(tool("one").bytes("{}")), &["gate.bytes_differ"]);
    check(Tools::new(ORIGIN).tool(tool("one").bytes(manifest("one").canonical().as_bytes())), &[]);
}
