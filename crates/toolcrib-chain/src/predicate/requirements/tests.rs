use alloy_primitives::keccak256;
use alloy_sol_types::{SolCall, SolValue};
use proptest::prelude::*;

use super::*;
use crate::abi::IAccessPredicate::{AccessRequirement, getRequirementsCall, getRequirementsReturn};

fn encode(entries: Vec<AccessRequirement>, logic: u8) -> Vec<u8> {
    getRequirementsCall::abi_encode_returns(&getRequirementsReturn { requirements: entries, logic })
}

fn entry(kind: [u8; 4], data: usize, label: usize) -> AccessRequirement {
    AccessRequirement { kind: kind.into(), data: vec![0xee; data].into(), label: "x".repeat(label) }
}

fn word(value: u64) -> [u8; 32] {
    U256::from(value).to_be_bytes()
}

// req: PRED-001, PRED-003
#[test]
fn an_honest_answer_is_read() {
    let collection = Address::repeat_byte(7);
    let first =
        AccessRequirement { kind: [0xbd, 0xf8, 0xc4, 0x28].into(), data: collection.abi_encode().into(), label: "a".into() };
    let (logic, entries) = decode(&encode(vec![first, entry([1, 2, 3, 4], 5, 0)], 1)).expect("honest");
    assert_eq!(logic, Logic::Or);
    assert_eq!(Meaning::from(&entries[0]), Meaning::Erc721 { collection });
    assert_eq!(entries[0].label, "a");
    assert_eq!((entries[1].kind, entries[1].data.len(), Meaning::from(&entries[1])), ([1, 2, 3, 4].into(), 5, Meaning::Unknown));
    assert_eq!(decode(&encode(vec![], 0)), Ok((Logic::And, vec![])));
    assert_eq!(decode(&encode(vec![], 2)), Err(RequirementsError::Malformed), "there is no third logic");
}

// req: HARDEN-014, HARDEN-015
#[test]
fn each_cap_holds_to_the_byte() {
    #[track_caller]
    fn check(entries: Vec<AccessRequirement>, expected: Result<usize, RequirementsError>) {
        assert_eq!(decode(&encode(entries, 0)).map(|(_, entries)| entries.len()), expected);
    }
    check(vec![entry([9; 4], 1, 1); MAX_REQUIREMENTS], Ok(MAX_REQUIREMENTS));
    check(vec![entry([9; 4], 1, 1); MAX_REQUIREMENTS + 1], Err(RequirementsError::OverLimit(Limit::Entries)));
    check(vec![entry([9; 4], 1, 1); 300], Err(RequirementsError::OverLimit(Limit::Entries)));
    check(vec![entry([9; 4], MAX_DATA_BYTES, 0)], Ok(1));
    check(vec![entry([9; 4], MAX_DATA_BYTES + 1, 0)], Err(RequirementsError::OverLimit(Limit::Data)));
    check(vec![entry([9; 4], 0, MAX_LABEL_BYTES)], Ok(1));
    check(vec![entry([9; 4], 0, MAX_LABEL_BYTES + 1)], Err(RequirementsError::OverLimit(Limit::Label)));
    let fullest = encode(vec![entry([9; 4], MAX_DATA_BYTES, MAX_LABEL_BYTES); MAX_REQUIREMENTS], 0);
    assert_eq!(fullest.len(), MAX_ANSWER_BYTES, "the fullest honest answer is just as long as allowed");
    assert!(decode(&fullest).is_ok());
    assert_eq!(decode(&[&fullest[..], &[0]].concat()), Err(RequirementsError::OverLimit(Limit::Answer)));
}

// req: HARDEN-014
#[test]
fn lies_about_lengths_and_offsets_are_malformed_or_over_the_limit() {
    let huge = [0xff; 32];
    #[track_caller]
    fn check(words: &[[u8; 32]], expected: RequirementsError) {
        assert_eq!(decode(&words.concat()), Err(expected));
    }
    check(&[], RequirementsError::Malformed);
    check(&[word(64)], RequirementsError::Malformed);
    check(&[[0; 32]; 40], RequirementsError::Malformed);
    check(&[word(64), word(0)], RequirementsError::Malformed);
    check(&[huge, word(0), word(0)], RequirementsError::Malformed);
    check(&[word(64), word(0), word(1_000_000)], RequirementsError::OverLimit(Limit::Entries));
    check(&[word(64), word(0), huge], RequirementsError::OverLimit(Limit::Entries));
    check(&[word(64), word(0), word(256)], RequirementsError::Malformed);
    check(&[word(64), word(0), word(1), huge], RequirementsError::Malformed);
    check(&[word(64), word(0), word(1), word(32)], RequirementsError::Malformed);
    let kind = |dirt: u8| {
        let mut word = [0; 32];
        word[..4].copy_from_slice(&[1, 2, 3, 4]);
        word[31] = dirt;
        word
    };
    check(&[word(64), word(0), word(1), word(32), kind(1), word(96), word(96), word(0)], RequirementsError::Malformed);
    check(&[word(64), word(0), word(1), word(32), kind(0), word(96), word(96), huge], RequirementsError::OverLimit(Limit::Data));
    check(
        &[word(64), word(0), word(1), word(32), kind(0), word(96), word(128), word(0), huge],
        RequirementsError::OverLimit(Limit::Label),
    );
    check(&[word(64), word(0), word(1), word(32), kind(0), word(96), word(96), word(33), word(0)], RequirementsError::Malformed);
    check(&[word(64), word(0), word(1), word(32), kind(0), huge, word(96), word(0)], RequirementsError::Malformed);
    // A label that is not UTF-8.
    check(&[word(64), word(0), word(1), word(32), kind(0), word(96), word(96), word(2), huge], RequirementsError::Malformed);
    // Offsets may point to the same bytes; that costs no more than the largest honest answer.
    let shared =
        [&[word(64), word(0), word(2), word(64), word(64)][..], &[kind(0), word(96), word(96), word(1), [b'x'; 32]]].concat();
    assert_eq!(decode(&shared.concat()).map(|(_, entries)| entries.len()), Ok(2));
}

// req: PRED-004, PRED-006, PRED-007, PRED-010, VEC-006
#[test]
fn known_kinds_are_decoded_to_the_last_byte() {
    let (a, b) = (Address::repeat_byte(7), Address::repeat_byte(8));
    #[track_caller]
    fn check(marker: &str, data: &[u8], expected: &Meaning) {
        let kind = keccak256(marker)[..4].try_into().expect("four bytes");
        assert_eq!(&Meaning::of(kind, data), expected, "{marker}");
        if *expected != Meaning::Undecodable && marker != "other()" {
            let longer = [data, &[0]].concat();
            assert_eq!(Meaning::of(kind, &longer), Meaning::Undecodable, "{marker} with a byte more");
            if let Some((_, shorter)) = data.split_last() {
                assert_eq!(Meaning::of(kind, shorter), Meaning::Undecodable, "{marker} with a byte less");
            }
        }
    }
    let five = U256::from(5);
    check("erc721Holding()", &a.abi_encode(), &Meaning::Erc721 { collection: a });
    check("erc1155Holding()", &(a, five).abi_encode(), &Meaning::Erc1155 { collection: a, token_id: five });
    check("subscription()", &(a, five).abi_encode(), &Meaning::Subscription { collection: a, min_tier: 5 });
    check("subscription()", &(a, U256::from(256)).abi_encode(), &Meaning::Undecodable);
    check("erc721Holding()", &[7; 32], &Meaning::Undecodable);
    check("erc20Balance()", &(a, five).abi_encode(), &Meaning::Erc20 { token: a, min_balance: five });
    let (key, values) = (B256::repeat_byte(1), vec![B256::repeat_byte(2), B256::repeat_byte(3)]);
    let data = (a, b, key, values.clone()).abi_encode_params();
    check("erc7496Trait()", &data, &Meaning::Trait { collection: a, traits: b, key, values });
    let jwks_uri = "https://issuer.example/jwks".to_owned();
    let data = (jwks_uri.clone(), key).abi_encode_params();
    check("walletStateAttestation()", &data, &Meaning::Attestation { jwks_uri, condition: key });
    check("accessProof()", &a.abi_encode(), &Meaning::AccessProof { verifier: a });
    check("merkleAllowlist()", &key.abi_encode(), &Meaning::Merkle { root: key });
    check("denyAll()", &[], &Meaning::DenyAll);
    // Every kind of the table is decoded.
    for kind in RequirementKind::ALL {
        assert_ne!(Meaning::of(kind.id(), &[0xee; 7]), Meaning::Unknown, "{kind:?}");
    }
    check("other()", &[1], &Meaning::Unknown);
    assert_eq!(Meaning::of(UNREAD_KIND, b""), Meaning::Unread);
}

// req: PRED-006
#[test]
fn no_two_kinds_share_an_id() {
    let mut ids: Vec<_> = RequirementKind::ALL.into_iter().map(RequirementKind::id).collect();
    ids.push(UNREAD_KIND);
    ids.sort_unstable();
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

proptest! {
    #[test]
    fn whatever_is_encoded_is_read(
        entries in proptest::collection::vec((any::<[u8; 4]>(), proptest::collection::vec(any::<u8>(), 0..200), ".{0,60}"), 0..8),
        is_or: bool,
    ) {
        let encoded = entries
            .iter()
            .map(|(kind, data, label)| AccessRequirement { kind: (*kind).into(), data: data.clone().into(), label: label.clone() })
            .collect();
        let (logic, decoded) = decode(&encode(encoded, u8::from(is_or))).expect("honest");
        prop_assert_eq!(logic == Logic::Or, is_or);
        let decoded: Vec<_> = decoded.into_iter().map(|entry| (entry.kind.0, entry.data.to_vec(), entry.label)).collect();
        prop_assert_eq!(decoded, entries);
    }

    #[test]
    fn no_bytes_make_it_panic_or_grow(mut bytes in proptest::collection::vec(any::<u8>(), 0..600), small in proptest::collection::vec((0_usize..18, 0_u8..=255), 0..18)) {
        // Words like small offsets and lengths get further than random ones.
        for (at, value) in small {
            if let Some(word) = bytes.get_mut(at * 32..at * 32 + 32) {
                word.fill(0);
                word[31] = value;
            }
        }
        if let Ok((_, entries)) = decode(&bytes) {
            prop_assert!(entries.len() <= MAX_REQUIREMENTS);
            prop_assert!(entries.iter().all(|entry| entry.data.len() <= MAX_DATA_BYTES && entry.label.len() <= MAX_LABEL_BYTES));
        }
    }
}
