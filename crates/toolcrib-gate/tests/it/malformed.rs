//! Malformed payment headers: always refused, and never an internal error.

use alloy_primitives::B256;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use toolcrib_gate::{Rate, Rates, Tools};
use toolcrib_x402::{Version, header as coding};

use crate::world::{ORIGIN, Runs, World, authorization, base_domain, counting, header, holder, post, send, serve, sign};

/// What can stand in a header at all, beside plain noise.
fn value(good: String) -> impl Strategy<Value = Vec<u8>> {
    let json = String::from_utf8(coding::decode(&good).expect("base64")).expect("text");
    let length = json.len();
    let cut = (0..length, 0..length, any::<char>()).prop_map(move |(from, to, put)| {
        let mut changed: Vec<u8> = json.clone().into_bytes();
        let (from, to) = (from.min(to), from.max(to));
        changed.splice(from..to.min(from + 8), put.to_string().into_bytes());
        coding::encode(&changed).into_bytes()
    });
    let header_bytes = proptest::collection::vec(prop_oneof![Just(b'\t'), 0x20_u8..0x7f, 0x80_u8..], 0..200);
    let encoded = proptest::collection::vec(any::<u8>(), 0..200).prop_map(|bytes| coding::encode(&bytes).into_bytes());
    prop_oneof![header_bytes, encoded, cut]
}

#[test]
fn no_header_makes_the_server_fail() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let runs = Runs::default();
    let (at, challenges, _world) = runtime.block_on(async {
        let world = World::start().await;
        let id = world.tool_for_holders().await;
        let rates = Rates { global: Rate::new(1_000_000, 1e6), per_address: None, per_account: Rate::new(1_000_000, 1e6) };
        let at = serve(Tools::new(ORIGIN).rates(rates).tool(counting("word-count", world.gate(id), &runs))).await;
        let challenges = post(at, "/word-count", &[], &serde_json::json!({})).await.challenges();
        (at, challenges, world)
    });
    let signed = authorization(holder(), B256::repeat_byte(1));
    let by = sign(holder(), &signed, &base_domain());
    for version in [Version::V1, Version::V2] {
        let good = header(&challenges, version, signed, by.clone());
        let strategy = (value(good), any::<bool>());
        let mut runner = TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
        let result = runner.run(&strategy, |(value, with_salt)| {
            let mut headers: Vec<(&str, &[u8])> = vec![(version.payment_header(), &value)];
            if with_salt {
                headers.push(("X-Tool-Nonce-Salt", &value));
            }
            let answer = runtime.block_on(send(at, "POST", "/word-count", &headers, b"{\"text\":\"\"}"));
            // A change outside of what is signed may leave the payment as good as before, once.
            prop_assert!([200, 400, 402, 409].contains(&answer.status), "{:?}", answer);
            prop_assert!(answer.status == 200 || answer.json()["code"].is_string(), "{:?}", answer);
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{error}"));
    }
    assert!(runs.count() <= 1, "one signature, one call");
}

#[tokio::test]
async fn a_long_header_is_refused_before_it_is_decoded() {
    let world = World::start().await;
    let id = world.tool_for_holders().await;
    let at = serve(Tools::new(ORIGIN).tool(counting("word-count", world.gate(id), &Runs::default()))).await;
    let long = "A".repeat(coding::MAX_BYTES + 4);
    let answer = post(at, "/word-count", &[("X-PAYMENT", &long)], &serde_json::json!({"text": ""})).await;
    assert_eq!(answer.verdict(), (400, "payment.header_too_long".to_owned()));
    let enormous = "A".repeat(1024 * 1024);
    let answer = post(at, "/word-count", &[("X-PAYMENT", &enormous)], &serde_json::json!({"text": ""})).await;
    assert!((400..500).contains(&answer.status), "{}", answer.status);
}
