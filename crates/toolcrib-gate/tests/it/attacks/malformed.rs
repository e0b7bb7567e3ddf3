//! Malformed headers: always refused, and never an internal error.

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use toolcrib_gate::{Gate, X_TOOL_ACCESS_DATA};
use toolcrib_x402::{Authorization, Version, header as coding};

use super::chain::{FUNDS, Node, recipient};
use super::http::send;
use super::order::Club;
use super::payer::{BOTH, Bound, authorization, fresh, payer};
use super::shop::{PATH, Plan, own_key, two_words};

/// Every header of a paid call that has a meaning to a gate, beside the payment.
const OTHERS: [&str; 5] =
    [coding::X_TOOL_NONCE_SALT, coding::X_TOOL_REFERENCE, coding::X_TOOL_RETRY_TOKEN, X_TOOL_ACCESS_DATA, coding::X_DELEGATE_FOR];

/// What can stand in a header at all: noise, noise in base64, and something good with a part exchanged.
fn value(good: String, is_encoded: bool) -> impl Strategy<Value = Vec<u8>> {
    let plain = if is_encoded { String::from_utf8(coding::decode(&good).expect("base64")).expect("text") } else { good };
    let length = plain.len();
    let cut = (0..length, 0..length, any::<char>()).prop_map(move |(from, to, put)| {
        let mut changed = plain.clone().into_bytes();
        let (from, to) = (from.min(to), from.max(to));
        changed.splice(from..to.min(from + 8), put.to_string().into_bytes());
        if is_encoded {
            return coding::encode(&changed).into_bytes();
        }
        // Control characters would end the header, which is somebody else's test.
        changed.retain(|byte| *byte >= 0x20 && *byte != 0x7f);
        changed
    });
    let bytes = proptest::collection::vec(prop_oneof![Just(b'\t'), 0x20_u8..0x7f, 0x80_u8..], 0..200);
    let encoded = proptest::collection::vec(any::<u8>(), 0..200).prop_map(|bytes| coding::encode(&bytes).into_bytes());
    let hex = proptest::collection::vec(any::<u8>(), 0..80)
        .prop_map(|bytes| format!("0x{}", alloy_primitives::hex::encode(bytes)).into_bytes());
    prop_oneof![bytes, encoded, hex, cut]
}

// req: PAY-013
// attack: T11
#[test]
fn no_header_of_a_paid_call_makes_the_server_fail() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let (node, shop, club) = runtime.block_on(async {
        let node = Node::ours().await;
        node.mint(payer().address(), FUNDS).await;
        let club = Club::found(&node).await;
        let gate = Gate::predicate(club.registry.clone(), club.id);
        let shop = Plan::new(own_key(&node.chain, 5)).open().await;
        // The same for members, of whom there is none: what gets that far is denied.
        let members = Plan::new(own_key(&node.chain, 5)).gate(move |paid| paid.predicate(gate.clone())).open().await;
        (node, shop, members)
    });
    let signed = authorization();
    let bound = Bound::to(PATH, &two_words());
    let marked = Authorization { nonce: bound.nonce, ..authorization() };
    let served = AtomicUsize::new(0);
    for version in BOTH {
        let goods = [shop.payment(version, signed), shop.payment(version, marked)];
        let texts = [
            bound.headers[0].1.clone(),
            bound.headers[1].1.clone(),
            fresh().to_string(),
            "0x00".to_owned(),
            payer().address().to_string(),
        ];
        let other = (0..OTHERS.len()).prop_flat_map(move |at| (Just(at), value(texts[at].clone(), false)));
        let others = proptest::collection::vec(other, 0..4);
        let payment =
            prop_oneof![value(goods[0].clone(), true), Just(goods[0].clone().into_bytes()), Just(goods[1].clone().into_bytes())];
        let mut runner = TestRunner::new(Config { cases: 250, failure_persistence: None, ..Config::default() });
        let result = runner.run(&(payment, others, any::<bool>()), |(payment, others, for_members)| {
            let mut headers: Vec<(&str, &[u8])> = vec![(version.payment_header(), &payment)];
            headers.extend(others.iter().map(|(at, value)| (OTHERS[*at], value.as_slice())));
            let at = if for_members { club.at } else { shop.at };
            let answer = runtime.block_on(send(at, "POST", PATH, &headers, two_words().to_string().as_bytes()));
            prop_assert!([200, 400, 402, 403, 409].contains(&answer.status), "{:?}", answer);
            prop_assert!(answer.status == 200 || answer.json()["code"].is_string(), "{:?}", answer);
            prop_assert!(!(for_members && answer.has_output()));
            served.fetch_add(usize::from(answer.status == 200), Ordering::SeqCst);
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{error}"));
    }
    runtime.block_on(async {
        let paid = node.balance(recipient()).await / super::chain::PRICE;
        assert!(paid <= 2 && shop.runs() as u64 == paid, "two payments, {} runs, {paid} charged", shop.runs());
        shop.assert_all(&node, paid as usize, paid as usize, paid).await;
        club.assert_all(&node, 0, 0, paid).await;
        for shop in [&shop, &club] {
            let faults = shop.faults.lock().expect("no panic");
            assert!(faults.iter().all(|fault| !fault.contains("panicked")), "{faults:?}");
        }
    });
}

// attack: T11
#[tokio::test]
async fn long_headers_and_many_of_them_are_bounded() {
    let node = Node::ours().await;
    node.mint(payer().address(), FUNDS).await;
    let shop = Plan::new(own_key(&node.chain, 5)).open().await;
    let body = two_words().to_string();
    let payment = shop.payment(Version::V2, authorization());
    let names = OTHERS.into_iter().chain(BOTH.map(Version::payment_header));
    for name in names {
        for length in [coding::MAX_BYTES + 4, 1 << 20, 4 << 20] {
            let long = "A".repeat(length);
            let mut headers: Vec<(&str, &[u8])> = vec![(name, long.as_bytes())];
            if !name.ends_with("PAYMENT") && name != coding::PAYMENT_SIGNATURE {
                headers.push((coding::PAYMENT_SIGNATURE, payment.as_bytes()));
            }
            let answer = send(shop.at, "POST", PATH, &headers, body.as_bytes()).await;
            // A gate without a predicate reads neither data for one nor for whom it would be asked, and without a salt nobody asks
            // which tool is meant. What HTTP itself takes is bounded.
            let unread = [X_TOOL_ACCESS_DATA, coding::X_DELEGATE_FOR, coding::X_TOOL_REFERENCE];
            let is_unread = unread.contains(&name) && length < 1 << 20;
            assert!([400, 431].contains(&answer.status) || is_unread, "{name}, {length} bytes: {answer:?}");
        }
    }
    let many: Vec<(&str, &[u8])> = (0..10_000).map(|_| (coding::X_TOOL_NONCE_SALT, b"0x00".as_slice())).collect();
    assert!([400, 431].contains(&send(shop.at, "POST", PATH, &many, body.as_bytes()).await.status));
    let charged = node.balance(recipient()).await / super::chain::PRICE;
    assert!(charged <= 1, "one payment");
    shop.assert_all(&node, charged as usize, charged as usize, charged).await;
}
