//! The vectors of bound nonces and recipients, for any implementation.

use alloy_primitives::{Address, B256, U256};
use serde_json::Value;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::hex;
use toolcrib_x402::nonce::{Binding, BoundCall, BoundNonce, NonceFault, verify};
use toolcrib_x402::recipient::EndpointBinding;

#[test]
fn nonces_are_bound_as_the_vectors_say() {
    let text = std::fs::read_to_string(toolcrib_testkit::vectors("x402").join("bound-nonce.json")).expect("a vector");
    let rows: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    assert_eq!(rows.len(), 9);
    let mut nonces = Vec::new();
    for row in &rows {
        let field = |key: &str| row[key].as_str().expect("a string");
        let body = hex::decode(field("body").trim_start_matches("0x")).expect("digits");
        let tool = ToolRef {
            chain: field("chainId").parse().expect("a chain"),
            registry: field("registry").parse::<Address>().expect("an address"),
            id: U256::from_str_radix(field("toolId"), 10).expect("an id"),
        };
        let call = BoundCall { tool, method: field("method"), target: field("target"), body: &body };
        let (salt, nonce): (B256, B256) = (field("salt").parse().expect("a word"), field("nonce").parse().expect("a word"));
        assert_eq!(BoundNonce::make(&call, salt).nonce, nonce, "{row}");
        assert_eq!(verify(nonce, Some(salt), &call), Ok(Binding::Bound));
        // No nonce of another row is accepted for this call.
        for &other in &nonces {
            assert_eq!(verify(other, Some(salt), &call), Err(NonceFault::OtherCall), "{row}");
        }
        nonces.push(nonce);
    }
}

#[test]
fn recipients_are_bound_as_the_vectors_say() {
    let text = std::fs::read_to_string(toolcrib_testkit::vectors("x402").join("endpoint-recipient.json")).expect("a vector");
    let rows: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    assert_eq!(rows.len(), 7);
    for row in &rows {
        let field = |key: &str| row[key].as_str().expect("a string");
        let address = |key: &str| field(key).parse::<Address>().expect("an address");
        let tool = ToolRef {
            chain: field("chainId").parse().expect("a chain"),
            registry: address("registry"),
            id: U256::from_str_radix(field("toolId"), 10).expect("an id"),
        };
        let binding = EndpointBinding { endpoint: field("endpoint").to_owned(), tool, operator: address("operator") };
        assert_eq!(binding.pay_to(), address("payTo"), "{row}");
    }
}
