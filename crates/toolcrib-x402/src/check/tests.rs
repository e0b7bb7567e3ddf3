//! Payments compared with offers: T4 to T9 as far as they need neither keys nor a chain.

use alloy_primitives::{U256, address};
use proptest::prelude::*;
use toolcrib_core::caip::ChainId;
use toolcrib_core::codes::chain;
use toolcrib_core::money::Amount;

use super::*;
use crate::payment::tests::payments;
use crate::{ChainAddress, Raw, Signature, asset, read_payment};

const PAYEE: Address = address!("209693Bc6afc0C5328bA36FaF03C514EF312287C");
const PAYER: Address = address!("857b06519E91e3A54538791bDbb0E22373e36b66");
const NOW: u64 = 1_800_000_000;

fn now() -> UnixTime {
    UnixTime::from_seconds(NOW as i64)
}

fn offer(amount: u64) -> Offer {
    let token = asset::usdc(8453).expect("listed");
    Offer::exact(&token, Amount::new(U256::from(amount)), PAYEE, 60).expect("a chain")
}

fn payment(version: Version, amount: u64) -> Payment {
    let authorization = Authorization {
        from: PAYER,
        to: PAYEE,
        value: Amount::new(U256::from(amount)),
        valid_after: 0,
        valid_before: NOW + 600,
        nonce: B256::repeat_byte(7),
    };
    let signature = Signature::new([vec![1; 64], vec![27]].concat()).expect("65 bytes");
    Payment::new(version, &offer(amount), authorization, signature, None, Vec::new())
}

#[track_caller]
fn check(payment: &Payment, offer: &Offer, expected: &[Code]) {
    let findings = check_payment(payment, offer, now(), &TimePolicy::default());
    let found: Vec<_> = findings.iter().map(|finding| finding.code).collect();
    assert_eq!(found, expected, "{findings:#?}");
}

/// Expects these findings for a payment with one change, in both versions.
#[track_caller]
fn changed(amount: u64, change: impl Fn(&mut Payment), expected: &[Code]) {
    for version in [Version::V1, Version::V2] {
        let mut payment = payment(version, amount);
        change(&mut payment);
        check(&payment, &offer(amount), expected);
    }
}

// T5, T6
// req: GATE-009
#[test]
fn the_value_is_exactly_the_price() {
    for (price, value, expected) in [
        (20_000, 20_000, None),
        (20_000, 19_999, Some(code::VALUE_DIFFERS)),
        (20_000, 20_001, Some(code::VALUE_DIFFERS)),
        (20_000, 0, Some(code::VALUE_MISSING)),
        (1, 0, Some(code::VALUE_MISSING)),
        (0, 0, None),
        (0, 1, Some(code::VALUE_NOT_ZERO)),
        (0, 20_000, Some(code::VALUE_NOT_ZERO)),
    ] {
        let value = Amount::new(U256::from(value));
        changed(price, |payment| payment.authorization.value = value, expected.as_slice());
    }
    // The price rose since the challenge was read: the accepted offer no longer exists.
    check(&payment(Version::V1, 20_000), &offer(30_000), &[code::VALUE_DIFFERS]);
    check(&payment(Version::V2, 20_000), &offer(30_000), &[code::VALUE_DIFFERS, code::VALUE_DIFFERS]);
}

// T7
// req: GATE-004, PAY-015
#[test]
fn parties_are_who_they_should_be() {
    changed(20_000, |payment| payment.authorization.to = PAYER, &[code::PAY_TO_DIFFERS]);
    changed(20_000, |payment| payment.authorization.to = Address::ZERO, &[code::PAY_TO_DIFFERS]);
    changed(0, |payment| payment.authorization.to = Address::ZERO, &[code::PAY_TO_DIFFERS]);
    changed(20_000, |payment| payment.authorization.from = Address::ZERO, &[code::FROM_ZERO_ADDRESS]);
    let mut nobody = payment(Version::V1, 0);
    nobody.authorization.to = Address::ZERO;
    check(&nobody, &Offer { pay_to: ChainAddress::evm(Address::ZERO), ..offer(0) }, &[x402::PAY_TO_UNSPENDABLE]);
}

// T7, T8: the caller's copy of the offer is compared with ours, field by field, although the authorization is correct.
#[test]
fn what_we_add_to_an_offer_has_to_come_back() {
    let member = |value: &str| ("feePayer".to_owned(), Raw::parse(value).expect("JSON"));
    let mut ours = offer(20_000);
    ours.extra.as_mut().expect("set").other = vec![member("\"0x1\"")];
    let mut sent = payment(Version::V2, 20_000);
    check(&sent, &ours, &[code::EXTRA_DIFFERS]);
    let extra = sent.accepted.as_mut().and_then(|offer| offer.extra.as_mut()).expect("set");
    extra.other = vec![member("\"0x2\"")];
    check(&sent, &ours, &[code::EXTRA_DIFFERS]);
    let extra = sent.accepted.as_mut().and_then(|offer| offer.extra.as_mut()).expect("set");
    extra.other = vec![member("\"0x1\"")];
    check(&sent, &ours, &[]);
}

#[test]
fn the_accepted_offer_is_ours() {
    type Change = fn(&mut Offer);
    let cases: [(Change, &[Code]); 9] = [
        (|offer| offer.asset = ChainAddress::evm(PAYER), &[code::ASSET_DIFFERS]),
        (|offer| offer.pay_to = ChainAddress::evm(PAYER), &[code::PAY_TO_DIFFERS]),
        (|offer| offer.amount = Amount::ZERO, &[code::VALUE_DIFFERS]),
        (|offer| offer.max_timeout_seconds = Some(61), &[code::TIMEOUT_DIFFERS]),
        (|offer| offer.max_timeout_seconds = None, &[code::TIMEOUT_DIFFERS]),
        (|offer| offer.extra = None, &[code::EXTRA_DIFFERS]),
        (|offer| offer.extra.as_mut().expect("set").name = Some("USDC".to_owned()), &[code::EXTRA_DIFFERS]),
        (|offer| offer.extra.as_mut().expect("set").version = None, &[code::EXTRA_DIFFERS]),
        (|offer| offer.extra.as_mut().expect("set").transfer_method = Some("permit2".to_owned()), &[code::EXTRA_DIFFERS]),
    ];
    for (change, expected) in cases {
        let mut payment = payment(Version::V2, 20_000);
        change(payment.accepted.as_mut().expect("version 2"));
        check(&payment, &offer(20_000), expected);
        let findings = match_offers(&payment, &[offer(20_000)]).expect_err("not ours");
        assert_eq!(findings[0].code, code::NO_MATCHING_OFFER);
        assert_eq!(findings.iter().skip(1).map(|finding| finding.code).collect::<Vec<_>>(), expected);
    }
    let mut payment = payment(Version::V2, 20_000);
    let extra = payment.accepted.as_mut().and_then(|offer| offer.extra.as_mut()).expect("set");
    extra.other.push(("more".to_owned(), Raw::parse("1").expect("JSON")));
    extra.transfer_method = Some("eip3009".to_owned());
    check(&payment, &offer(20_000), &[]);
    payment.accepted = None;
    check(&payment, &offer(20_000), &[code::FIELD_MISSING]);
}

// T8
#[test]
fn network_and_method_are_those_of_the_offer() {
    let base_sepolia = ChainId::parse("eip155:84532").expect("a chain");
    changed(20_000, |payment| payment.network = base_sepolia.clone(), &[code::NETWORK_DIFFERS]);
    check(&payment(Version::V1, 5), &Offer { scheme: "upto".to_owned(), ..offer(5) }, &[code::SCHEME]);
    let mut permit = offer(5);
    permit.extra.as_mut().expect("set").transfer_method = Some("permit2".to_owned());
    check(&payment(Version::V1, 5), &permit, &[code::METHOD]);
}

// T9
// req: GATE-004
#[test]
fn windows() {
    use code::{EXPIRED, NOT_YET, TOO_LONG_VALID, WINDOW_EMPTY};
    // Amount, validAfter, validBefore and the findings.
    let cases: &[(u64, u64, u64, &[Code])] = &[
        (0, 0, NOW + 600, &[]),
        (5, 0, NOW + 600, &[]),
        // A payment of zero is never settled, so only the caller's clock matters.
        (0, NOW, NOW + 600, &[]),
        (0, NOW + 60, NOW + 600, &[]),
        (0, NOW + 61, NOW + 600, &[NOT_YET]),
        (5, NOW, NOW + 600, &[]),
        (5, NOW + 1, NOW + 600, &[NOT_YET]),
        (5, u64::MAX, NOW + 600, &[WINDOW_EMPTY, NOT_YET]),
        (0, 0, 0, &[WINDOW_EMPTY, EXPIRED]),
        (0, 0, NOW - 1, &[EXPIRED]),
        (0, 0, NOW, &[EXPIRED]),
        (0, 0, NOW + 1, &[]),
        (5, 0, NOW + 1, &[EXPIRED]),
        (5, 0, NOW + 5, &[EXPIRED]),
        (5, 0, NOW + 6, &[EXPIRED]),
        (5, 0, NOW + 7, &[]),
        (0, 0, NOW + 960, &[]),
        (0, 0, NOW + 961, &[TOO_LONG_VALID]),
        (5, 0, NOW + 960, &[]),
        (5, 0, NOW + 961, &[TOO_LONG_VALID]),
        (5, 0, 4_102_444_800, &[TOO_LONG_VALID]),
        (0, 0, u64::MAX, &[TOO_LONG_VALID]),
        (0, NOW + 30, NOW + 30, &[WINDOW_EMPTY]),
        (0, NOW + 30, NOW + 31, &[]),
    ];
    for &(amount, valid_after, valid_before, expected) in cases {
        for version in [Version::V1, Version::V2] {
            let mut payment = payment(version, amount);
            (payment.authorization.valid_after, payment.authorization.valid_before) = (valid_after, valid_before);
            check(&payment, &offer(amount), expected);
        }
    }
    // Clocks before 1970 and at the end of time.
    let policy = TimePolicy { max_seconds: u64::MAX, skew_seconds: u64::MAX, settle_seconds: u64::MAX };
    for seconds in [i64::MIN, -1, 0, i64::MAX] {
        let at = UnixTime::from_seconds(seconds);
        let findings = check_payment(&payment(Version::V1, 5), &offer(5), at, &policy);
        assert_eq!(findings.first().map(|finding| finding.code), Some(EXPIRED), "no time is left to settle");
    }
    let policy = TimePolicy::default();
    assert_eq!(policy.forget_after(&payment(Version::V1, 5).authorization), NOW + 660);
}

// T10
#[test]
fn shapes_of_signatures() {
    let sign = |bytes: Vec<u8>| Signature::new(bytes).expect("long enough");
    for (signature, expected) in [
        (sign([vec![1; 64], vec![1]].concat()), None),
        (sign([vec![1; 64], vec![29]].concat()), Some(chain::SIGNATURE_V)),
        (sign([vec![1; 32], vec![0x7f; 1], vec![0xff; 31], vec![27]].concat()), Some(chain::SIGNATURE_HIGH_S)),
        (sign([vec![0; 32], vec![1; 32], vec![27]].concat()), Some(chain::SIGNATURE_RANGE)),
        (sign([vec![1; 65], [0x64, 0x92].repeat(16)].concat()), Some(chain::SIGNATURE_UNDEPLOYED)),
        (sign(vec![1; 200]), None),
    ] {
        changed(20_000, |payment| payment.signature = signature.clone(), expected.as_slice());
    }
}

// T4: the key of a payment ignores version, header and spelling.
// req: PAY-005
#[test]
fn one_authorization_has_one_key() {
    let (one, two) = (payment(Version::V1, 20_000), payment(Version::V2, 20_000));
    let key = |payment: &Payment| ReplayKey::of(&payment.authorization, &offer(20_000)).expect("an EVM offer");
    assert_eq!(key(&one), key(&two));
    let lower = one
        .to_json()
        .expect("named")
        .replace("0x857b06519E91e3A54538791bDbb0E22373e36b66", "0x857b06519e91e3a54538791bdbb0e22373e36b66");
    let respelt = read_payment(Version::V1, &super::super::header::encode(lower.as_bytes())).into_result().expect("well-formed");
    assert_ne!(respelt.spelling, one.spelling);
    assert_eq!(key(&respelt), key(&one));
    // A made-up asset in the caller's copy does not change the key.
    let mut other = two;
    other.accepted.as_mut().expect("version 2").asset = ChainAddress::evm(PAYER);
    assert_eq!(key(&other), key(&one));
    let usual = key(&one);
    assert_eq!(
        usual.to_string(),
        format!("eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913/{PAYER:#x}/0x{}", "07".repeat(32))
    );
    let solana = ChainId::parse("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp").expect("a chain");
    assert_eq!(ReplayKey::of(&one.authorization, &Offer { network: solana, ..offer(1) }), None);
}

#[test]
fn offers_are_matched_by_what_differs() {
    let sepolia = Offer::exact(&asset::usdc(84_532).expect("listed"), offer(0).amount, PAYEE, 60).expect("a chain");
    let offers = [offer(30_000), offer(20_000), sepolia];
    for version in [Version::V1, Version::V2] {
        assert_eq!(match_offers(&payment(version, 20_000), &offers), Ok(vec![&offers[1]]));
        let findings = match_offers(&payment(version, 25_000), &offers).expect_err("no such price");
        assert_eq!((findings[0].code, findings[1].code), (code::NO_MATCHING_OFFER, code::VALUE_DIFFERS));
    }
    // Version 1 does not name the asset.
    let twin = Offer { asset: ChainAddress::evm(PAYER), ..offer(20_000) };
    let offers = [offer(20_000), twin];
    assert_eq!(match_offers(&payment(Version::V1, 20_000), &offers).map(|met| met.len()), Ok(2));
    assert_eq!(match_offers(&payment(Version::V2, 20_000), &offers), Ok(vec![&offers[0]]));
    assert_eq!(match_offers(&payment(Version::V2, 1), &[]).expect_err("nothing").len(), 1);
}

proptest! {
    #[test]
    fn keys_read_back(chain: u64, asset: [u8; 20], from: [u8; 20], nonce: [u8; 32]) {
        let key = ReplayKey { chain, asset: asset.into(), from: from.into(), nonce: nonce.into() };
        prop_assert_eq!(ReplayKey::from_bytes(key.to_bytes()), key);
    }

    /// Every accepted payment is inside its window, pays exactly the price to the recipient, and its nonce expires in time.
    #[test]
    fn nothing_slips_through(payment in payments(), offset in 0_u64..2_000, length in 0_u64..2_000, price in 0_u64..3, value in 0_u64..3) {
        let mut payment = payment;
        payment.authorization.value = Amount::new(U256::from(value));
        payment.authorization.valid_after = NOW - 1_000 + offset;
        payment.authorization.valid_before = NOW - 1_000 + length;
        let mut offer = payment.accepted.clone().unwrap_or_else(|| offer(0));
        offer.amount = Amount::new(U256::from(price));
        let policy = TimePolicy::default();
        if check_payment(&payment, &offer, now(), &policy).is_empty() {
            let authorization = &payment.authorization;
            prop_assert_eq!(authorization.value, offer.amount);
            prop_assert_eq!(Some(authorization.to), offer.pay_to.evm_address());
            prop_assert!(authorization.valid_before > NOW && authorization.valid_before <= NOW + 960);
            let skew = if value == 0 { 60 } else { 0 };
            prop_assert!(authorization.valid_after <= NOW + skew);
            prop_assert!(policy.forget_after(authorization) <= NOW + 1_020);
            prop_assert!(payment.signature.fault().is_none());
        }
    }
}
