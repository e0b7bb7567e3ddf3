use alloy_primitives::U256;
use proptest::prelude::*;
use toolcrib_core::caip::{AccountId, AssetId, ChainId};
use toolcrib_core::money::Amount;
use toolcrib_x402::{ChainAddress, Extra};

use super::*;

const CREATOR: Address = Address::repeat_byte(0xc1);
const RECIPIENT: Address = Address::repeat_byte(0xa1);
const OPERATOR: Address = Address::repeat_byte(0x09);
const STRANGER: Address = Address::repeat_byte(0x66);

fn price(protocol: &str, chain: u64, token: Address, amount: u64, to: Address) -> Price {
    Price {
        amount: Amount::new(U256::from(amount)),
        asset: AssetId::parse(&format!("eip155:{chain}/erc20:{token:#x}")).unwrap(),
        recipient: AccountId::parse(&format!("eip155:{chain}:{to:#x}")).unwrap(),
        protocol: protocol.to_owned(),
    }
}

fn usdc(chain: u64) -> Address {
    asset::usdc(chain).unwrap().address
}

fn offer(chain: u64, token: Address, amount: u64, to: Address) -> Offer {
    let pinned = asset::find(chain, token);
    Offer {
        scheme: EXACT.to_owned(),
        network: ChainId::parse(&format!("eip155:{chain}")).unwrap(),
        asset: ChainAddress::evm(token),
        amount: Amount::new(U256::from(amount)),
        pay_to: ChainAddress::evm(to),
        max_timeout_seconds: Some(300),
        extra: pinned.map(|token| Extra {
            name: Some(token.name.to_owned()),
            version: Some(token.version.to_owned()),
            ..Extra::default()
        }),
        resource: None,
        output_schema: None,
        other: Vec::new(),
    }
}

fn challenge(accepts: Vec<Offer>) -> Challenge {
    Challenge { version: Version::V2, error: None, resource: None, accepts, extensions: Vec::new() }
}

const ENDPOINT: &str = "https://tools.example.com/call";

fn tool() -> ToolRef {
    ToolRef::parse("eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7").unwrap()
}

/// Returns the derived recipient of an operator at an endpoint.
fn bound(endpoint: &str, operator: Address) -> Address {
    EndpointBinding { endpoint: endpoint.to_owned(), tool: tool(), operator }.pay_to()
}

fn stated(pricing: &[Price]) -> Stated<'_> {
    Stated { pricing, creator: CREATOR, tool: tool(), endpoint: ENDPOINT, operators: vec![OPERATOR], agreed: None }
}

#[track_caller]
fn check(pricing: &[Price], accepts: Vec<Offer>, expected: Result<&[Fit], &str>) {
    let (challenge, stated) = (challenge(accepts), stated(pricing));
    let fits: Vec<_> = choose(&challenge, &stated).into_iter().map(|candidate| candidate.fit).collect();
    match expected {
        Ok(expected) => assert_eq!(fits, expected),
        Err(code) => {
            assert_eq!(fits, []);
            assert_eq!(misfit(&challenge, &stated).code().id(), code);
        }
    }
}

// req: PAY-003, PRICE-011, PRICE-012
#[test]
fn paid_entries() {
    let (base, op) = (usdc(8453), usdc(10));
    let one = [price("x402", 8453, base, 10_000, RECIPIENT)];
    check(&one, vec![offer(8453, base, 10_000, RECIPIENT)], Ok(&[Fit::Entry(0)]));
    for (_what, wrong) in [
        ("higher", offer(8453, base, 10_001, RECIPIENT)),
        ("lower", offer(8453, base, 9_999, RECIPIENT)),
        ("nothing", offer(8453, base, 0, RECIPIENT)),
        ("nothing to the creator", offer(8453, base, 0, CREATOR)),
        ("network", offer(10, op, 10_000, RECIPIENT)),
        ("recipient", offer(8453, base, 10_000, STRANGER)),
    ] {
        check(&one, vec![wrong], Err("call.terms_differ"));
    }
    // The creator's order, not the server's.
    let two =
        [price("mpp", 1, usdc(1), 1, RECIPIENT), price("x402", 10, op, 9, RECIPIENT), price("x402", 8453, base, 10, RECIPIENT)];
    let offers = vec![offer(8453, base, 10, RECIPIENT), offer(10, op, 9, RECIPIENT)];
    check(&two, offers, Ok(&[Fit::Entry(1), Fit::Entry(2)]));
}

#[test]
fn what_is_no_way_to_pay() {
    let base = usdc(8453);
    let priced = [price("x402", 8453, base, 10_000, RECIPIENT)];
    type Change = fn(&mut Offer);
    let changes: [(&str, Change); 8] = [
        ("scheme", |offer| offer.scheme = "upto".to_owned()),
        ("method", |offer| offer.extra.as_mut().unwrap().transfer_method = Some("permit2".to_owned())),
        ("flow", |offer| offer.extra.as_mut().unwrap().payment_flow = Some("escrow".to_owned())),
        ("domain", |offer| offer.extra.as_mut().unwrap().name = Some("USDC".to_owned())),
        ("asset", |offer| offer.asset = ChainAddress::evm(STRANGER)),
        ("zero", |offer| offer.pay_to = ChainAddress::evm(Address::ZERO)),
        ("burn", |offer| offer.pay_to = ChainAddress::evm(BURN[0])),
        ("timeout", |offer| offer.max_timeout_seconds = Some(LONG_TIMEOUT_SECONDS + 1)),
    ];
    for (_what, change) in changes {
        let mut wrong = offer(8453, base, 10_000, RECIPIENT);
        change(&mut wrong);
        check(&priced, vec![wrong], Err("call.no_payable_offer"));
    }
}

// req: PRICE-013
// attack: T21
#[test]
fn proofs_of_identity() {
    let base = usdc(8453);
    for known in [CREATOR, OPERATOR, bound(ENDPOINT, CREATOR), bound(ENDPOINT, OPERATOR)] {
        check(&[], vec![offer(8453, base, 0, known)], Ok(&[Fit::Identity]));
    }
    let free = [price("x402", 8453, base, 0, RECIPIENT)];
    check(&free, vec![offer(8453, base, 0, RECIPIENT)], Ok(&[Fit::Entry(0)]));
    // Signed on a chain that stock clients support, which may differ from the entry's chain.
    check(&free, vec![offer(10, usdc(10), 0, RECIPIENT)], Ok(&[Fit::Identity]));
    check(&[], vec![offer(8453, base, 0, RECIPIENT)], Err("call.operator_unknown"));
    check(&free, vec![offer(8453, base, 0, STRANGER)], Err("call.operator_unknown"));
    // A recipient of another endpoint or operator is unknown, and one of this endpoint is never paid.
    for stranger in [bound("https://tools.example.com/other", CREATOR), bound(ENDPOINT, STRANGER)] {
        check(&[], vec![offer(8453, base, 0, stranger)], Err("call.operator_unknown"));
    }
    check(&[], vec![offer(8453, base, 1, bound(ENDPOINT, CREATOR))], Err("call.free_asks_money"));
    check(&[], vec![offer(8453, base, 1, CREATOR)], Err("call.free_asks_money"));
    check(&free, vec![offer(8453, base, 1, RECIPIENT)], Err("call.free_asks_money"));
}

// req: PRICE-012
#[test]
fn prices_that_are_unknown() {
    let base = usdc(8453);
    assert!(unpayable_pricing(&[]).is_none());
    assert!(unpayable_pricing(&[price("mpp", 8453, base, 1, RECIPIENT), price("x402", 8453, base, 1, RECIPIENT)]).is_none());
    for protocol in ["erc20-transfer", "native-transfer", "mpp", "X402"] {
        let reasons = unpayable_pricing(&[price(protocol, 8453, base, 1, RECIPIENT)]).unwrap();
        assert!(reasons[0].contains(protocol), "{reasons:?}");
    }
    assert!(unpayable_pricing(&[price("x402", 8453, STRANGER, 1, RECIPIENT)]).unwrap()[0].contains("pinned table"));
}

#[test]
fn agreed_terms_are_exact() {
    let base = usdc(8453);
    let priced = [price("x402", 8453, base, 10_000, RECIPIENT)];
    let asked = offer(8453, base, 12_000, RECIPIENT);
    let agreed = Terms::of(&asked);
    let stated = Stated { agreed, ..stated(&priced) };
    let fits = |offer: Offer| choose(&challenge(vec![offer]), &stated).first().map(|candidate| candidate.fit);
    assert_eq!(fits(asked), Some(Fit::Agreed));
    assert_eq!(fits(offer(8453, base, 12_001, RECIPIENT)), None, "switched after consent");
    assert_eq!(fits(offer(8453, base, 11_999, RECIPIENT)), None);
    assert_eq!(fits(offer(8453, base, 12_000, STRANGER)), None);
    // Consent to terms is consent to a payment, never to a proof of identity for an unknown recipient.
    let nothing = offer(8453, base, 0, STRANGER);
    let stated = Stated { agreed: Terms::of(&nothing), pricing: &[], ..stated.clone() };
    assert!(choose(&challenge(vec![nothing]), &stated).is_empty());
}

prop_compose! {
    /// Generates values near each other, so that some are equal.
    fn any_offer()(
        chain in prop::sample::select(vec![8453_u64, 10, 137, 31_337, 777]),
        token_of in prop::sample::select(vec![8453_u64, 10, 137, 31_337]),
        own_token in any::<bool>(),
        amount in prop::sample::select(vec![0_u64, 1, 9_999, 10_000, 10_001, 1_000_000, u64::MAX]),
        to in prop::sample::select(vec![
            CREATOR, RECIPIENT, OPERATOR, STRANGER, Address::ZERO, BURN[0], BURN[1], bound(ENDPOINT, CREATOR), bound("other", CREATOR),
        ]),
        scheme in prop::sample::select(vec!["exact", "exact", "exact", "upto"]),
        timeout in prop::sample::select(vec![None, Some(1), Some(300), Some(u64::MAX)]),
        name in prop::sample::select(vec![None, Some("USD Coin"), Some("USDC"), Some("Evil")]),
        method in prop::sample::select(vec![None, None, Some("eip3009"), Some("permit2")]),
    ) -> Offer {
        let token = if own_token { asset::usdc(chain).map_or(STRANGER, |token| token.address) } else { usdc(token_of) };
        let mut offer = offer(chain, token, amount, to);
        offer.scheme = scheme.to_owned();
        offer.max_timeout_seconds = timeout;
        offer.extra = Some(Extra {
            name: name.map(str::to_owned),
            transfer_method: method.map(str::to_owned),
            ..Extra::default()
        });
        offer
    }
}

fn any_price() -> impl Strategy<Value = Price> {
    let protocols = prop::sample::select(vec!["x402", "x402", "mpp", "erc20-transfer"]);
    let chains = prop::sample::select(vec![8453_u64, 10, 137, 31_337]);
    let amounts = prop::sample::select(vec![0_u64, 1, 9_999, 10_000]);
    let recipients = prop::sample::select(vec![RECIPIENT, CREATOR, STRANGER]);
    (protocols, chains, amounts, recipients)
        .prop_map(|(protocol, chain, amount, to)| price(protocol, chain, usdc(chain), amount, to))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    // attack: T21, T22
    #[test]
    fn nothing_is_signed_but_what_is_stated_or_agreed(
        offers in prop::collection::vec(any_offer(), 0..8),
        pricing in prop::collection::vec(any_price(), 0..4),
        agreed in prop::option::of(any_offer()),
        is_v1 in any::<bool>(),
    ) {
        let agreed = agreed.and_then(|offer| Terms::of(&offer));
        let version = if is_v1 { Version::V1 } else { Version::V2 };
        let challenge = Challenge { version, ..challenge(offers) };
        let stated = Stated { agreed, ..stated(&pricing) };
        for candidate in choose(&challenge, &stated) {
            let Candidate { offer, token, terms, .. } = candidate;
            // Written again, field by field, so that a mistake in one place is not repeated in the other.
            prop_assert!(challenge.accepts.contains(&offer));
            prop_assert_eq!((token.chain, token.address), (offer.network.evm_id().unwrap(), offer.asset.evm_address().unwrap()));
            prop_assert_eq!(offer.scheme.as_str(), "exact");
            prop_assert!(offer.max_timeout_seconds.unwrap_or(0) <= 3_600);
            let to = offer.pay_to.evm_address().unwrap();
            prop_assert!(!to.is_zero() && !BURN.contains(&to));
            let is_entry = pricing.iter().any(|price| {
                price.protocol == "x402"
                    && price.amount == offer.amount
                    && price.asset.as_str() == format!("{}/erc20:{:#x}", offer.network, token.address)
                    && price.recipient.as_str() == format!("{}:{to:#x}", offer.network)
            });
            let is_agreed = agreed == Some(terms) && !offer.amount.is_zero();
            let free = pricing.iter().filter(|price| price.protocol == "x402" && price.amount.is_zero());
            let mut known: Vec<_> = free.clone().filter_map(|price| price.recipient.evm_address()).collect();
            known.extend([CREATOR, OPERATOR]);
            known.extend(known.clone().into_iter().map(|operator| bound(ENDPOINT, operator)));
            let is_free = pricing.is_empty() || free.count() > 0;
            let is_identity = offer.amount.is_zero() && is_free && known.contains(&to);
            prop_assert!(is_entry || is_agreed || is_identity, "{terms} under {pricing:?}");
        }
    }
}
