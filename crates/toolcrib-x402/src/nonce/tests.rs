use alloy_primitives::{Address, b256, hex};
use proptest::prelude::*;

use super::*;

const REGISTRY: Address = alloy_primitives::address!("265bb2dbfc0a8165c9a1941eb1372f349bad2cf1");
const COUNTING: B256 = b256!("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");

fn tides() -> BoundCall<'static> {
    BoundCall {
        tool: ToolRef { chain: 8453, registry: REGISTRY, id: U256::from(7) },
        method: "POST",
        target: "https://tools.example.com/tides",
        body: br#"{"harbour":"Brest"}"#,
    }
}

/// Vectors made with `eth_abi.encode` and the keccak of `PyCryptodome`.
#[test]
fn vectors_of_another_implementation() {
    let tide = tides();
    let odd = BoundCall { target: "https://tools.example.com/é", body: &[0, 255], ..tide };
    let least = Address::with_last_byte(1);
    for (call, salt, nonce) in [
        (tide, B256::ZERO, b256!("5b7966caf2d18ce71bc9077c3d1087b6848ef51575c96ab92ab0aa2c4636154d")),
        (tide, COUNTING, b256!("5b7966cad02f54111585b6989c61de069f82b0431ca0f80ff574eb740a394528")),
        (
            BoundCall {
                tool: ToolRef { chain: 1, registry: REGISTRY, id: U256::MAX },
                method: "GET",
                target: "https://tools.example.com/tides?harbour=Brest",
                body: b"",
            },
            B256::repeat_byte(0xff),
            b256!("5b7966cae7046de5610546acc138add2740c9595ae8b2239bfb7add1ed08dd25"),
        ),
        (
            BoundCall { tool: ToolRef { chain: u64::MAX, registry: least, id: U256::from(1) }, ..odd },
            COUNTING,
            b256!("5b7966ca402a9379dac7bdde8aec37c8300a750e27b55344509e823aeb521b10"),
        ),
    ] {
        assert_eq!(BoundNonce::make(&call, salt), BoundNonce { nonce, salt }, "{call:?}");
        assert_eq!(verify(nonce, Some(salt), &call), Ok(Binding::Bound));
    }
    assert_eq!(MARK, keccak256(TAG)[..4]);
}

// T3, T21: a payment made for one call is rejected at every other one, even with the same recipient and price.
// req: PAY-005, PAY-006
#[test]
fn a_nonce_is_good_for_one_call_only() {
    let call = tides();
    let BoundNonce { nonce, salt } = BoundNonce::make(&call, COUNTING);
    let tool = |chain, registry, id| ToolRef { chain, registry, id: U256::from(id) };
    let others = [
        BoundCall { tool: tool(8453, REGISTRY, 8), ..call },
        BoundCall { tool: tool(1, REGISTRY, 7), ..call },
        BoundCall { tool: tool(8453, Address::ZERO, 7), ..call },
        BoundCall { method: "GET", ..call },
        BoundCall { target: "https://tools.example.com/tides?x", ..call },
        BoundCall { target: "https://evil.example.com/tides", ..call },
        BoundCall { body: b"", ..call },
        BoundCall { body: br#"{"harbour":"Brest"} "#, ..call },
    ];
    for other in others {
        assert_eq!(verify(nonce, Some(salt), &other), Err(NonceFault::OtherCall), "{other:?}");
    }
    assert_eq!(verify(nonce, Some(B256::ZERO), &call), Err(NonceFault::OtherCall));
    assert_eq!(verify(nonce, None, &call), Err(NonceFault::SaltMissing), "taking the salt away gains nothing");
    assert_eq!(verify(COUNTING, None, &call), Ok(Binding::Unbound));
    assert_eq!(verify(COUNTING, Some(salt), &call), Err(NonceFault::OtherCall), "a salt means a bound nonce");
}

#[test]
fn the_salt_has_one_place_and_one_length() {
    let text = BoundNonce { nonce: B256::ZERO, salt: COUNTING }.salt_header();
    let upper = format!("0x{}", hex::encode_upper(COUNTING));
    assert_eq!(read_salt([text.as_bytes()]), Ok(Some(COUNTING)));
    assert_eq!(read_salt([upper.as_bytes()]), Ok(Some(COUNTING)));
    assert_eq!(read_salt([]), Ok(None));
    let both: [&[u8]; 2] = [text.as_bytes(), text.as_bytes()];
    assert_eq!(read_salt(both), Err(NonceFault::Salt));
    for bad in ["", "0x", &text[2..], &text[..65], &format!("{text}0"), &format!("0X{}", &text[2..]), "\u{e9}"] {
        assert_eq!(read_salt([bad.as_bytes()]), Err(NonceFault::Salt), "{bad}");
    }
    assert_eq!(read_salt([&b"\xff\xfe"[..]]), Err(NonceFault::Salt));
    for fault in [NonceFault::Salt, NonceFault::SaltMissing, NonceFault::OtherCall] {
        assert_eq!(fault.finding().message, fault.to_string());
    }
}

proptest! {
    #[test]
    fn what_is_bound_verifies_and_is_marked(chain: u64, registry: [u8; 20], id: [u64; 4], body: Vec<u8>, salt: [u8; 32], other: [u8; 32]) {
        let tool = ToolRef { chain, registry: registry.into(), id: U256::from_limbs(id) };
        let call = BoundCall { tool, body: &body, ..tides() };
        let bound = BoundNonce::make(&call, salt.into());
        prop_assert!(is_marked(bound.nonce));
        prop_assert_eq!(verify(bound.nonce, Some(bound.salt), &call), Ok(Binding::Bound));
        prop_assume!(salt != other);
        prop_assert_eq!(verify(bound.nonce, Some(other.into()), &call), Err(NonceFault::OtherCall));
    }
}
