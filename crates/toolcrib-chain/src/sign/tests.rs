use alloy_primitives::{Address, B256, U256, address, b256, hex, keccak256};
use alloy_signer::SignerSync;
use alloy_signer_local::PrivateKeySigner;
use proptest::prelude::*;

use super::*;
use crate::network::Network;

fn signer() -> PrivateKeySigner {
    PrivateKeySigner::from_bytes(&B256::repeat_byte(0x42)).expect("a key")
}

fn transfer() -> TransferAuthorization {
    TransferAuthorization {
        from: signer().address(),
        to: Address::repeat_byte(2),
        value: U256::from(10_000),
        valid_after: U256::ZERO,
        valid_before: U256::from(1_800_000_000_u64),
        nonce: B256::repeat_byte(9),
    }
}

fn usdc() -> Domain {
    Network::find("base").expect("listed").usdc.expect("has USDC").domain(8453)
}

#[test]
fn typehashes_are_the_hashes_of_their_types() {
    let fields = "(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)";
    assert_eq!(keccak256(format!("TransferWithAuthorization{fields}")), TRANSFER_TYPEHASH);
    assert_eq!(keccak256(format!("ReceiveWithAuthorization{fields}")), RECEIVE_TYPEHASH);
    assert_eq!(keccak256("CancelAuthorization(address authorizer,bytes32 nonce)"), CANCEL_TYPEHASH);
    let domain = "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)";
    assert_eq!(keccak256(domain), DOMAIN_TYPEHASH);
}

#[test]
fn the_separator_of_usdc_on_ethereum_is_the_deployed_one() {
    // The value that USDC returns from DOMAIN_SEPARATOR() on chain 1.
    let domain = Network::find("1").expect("listed").usdc.expect("has USDC").domain(1);
    assert_eq!(domain.separator(), b256!("06c37168a7db5138defc7866392bb87a741f9b3d104deb5094588ce041cae335"));
}

// req: PRED-021
#[test]
fn digests_equal_those_of_an_independent_library() {
    let domain = usdc();
    for kind in [TransferKind::Transfer, TransferKind::Receive] {
        let by_library = transfer().typed_data(kind, &domain).eip712_signing_hash().expect("a digest");
        assert_eq!(transfer().digest(kind, &domain), by_library);
    }
    let cancel = CancelAuthorization { authorizer: transfer().from, nonce: transfer().nonce };
    assert_eq!(cancel.digest(&domain), cancel.typed_data(&domain).eip712_signing_hash().expect("a digest"));
    let predicate = AccessProof::domain(8453, Address::repeat_byte(5));
    let proof = AccessProof { tool_id: U256::MAX, account: transfer().from, deadline: u64::MAX };
    assert_eq!(proof.digest(&predicate), proof.typed_data(&predicate).eip712_signing_hash().expect("a digest"));
}

// req: PRED-020, PRED-021
#[test]
fn every_field_of_an_access_proof_counts() {
    let account = transfer().from;
    let domain = AccessProof::domain(8453, Address::repeat_byte(5));
    let proof = AccessProof { tool_id: U256::from(7), account, deadline: 100 };
    let digest = proof.digest(&domain);
    for other in [
        AccessProof { tool_id: U256::from(8), ..proof }.digest(&domain),
        AccessProof { account: Address::ZERO, ..proof }.digest(&domain),
        AccessProof { deadline: 101, ..proof }.digest(&domain),
        proof.digest(&AccessProof::domain(1, Address::repeat_byte(5))),
        proof.digest(&AccessProof::domain(8453, Address::repeat_byte(6))),
        proof.digest(&Domain::new("ERC8257-AccessProof", "2", U256::from(8453), Address::repeat_byte(5))),
    ] {
        assert_ne!(other, digest);
    }
    assert!(proof.is_timely(100) && !proof.is_timely(101), "good up to the deadline");
    let latest = AccessProof { deadline: 100 + MAX_PROOF_AHEAD_SECONDS, ..proof };
    assert!(latest.is_timely(100) && !latest.is_timely(99), "not too far ahead");
}

#[test]
fn only_one_form_of_a_signature_is_taken() {
    let digest = transfer().digest(TransferKind::Transfer, &usdc());
    let good = signer().sign_hash_sync(&digest).expect("signed").as_bytes();
    #[track_caller]
    fn check(bytes: &[u8], code: Option<&str>) {
        let result = StrictSignature::from_slice(bytes);
        assert_eq!(result.as_ref().err().map(|error| error.code().id()), code, "{result:?}");
    }
    check(&good, None);
    for v in [0, 1, 27, 28] {
        check(&[&good[..64], &[v]].concat(), None);
    }
    for v in [2, 3, 26, 29, 35, 37, 255] {
        check(&[&good[..64], &[v]].concat(), Some("chain.signature_v"));
    }
    let order = U256::from_be_bytes(hex!("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"));
    let s = U256::from_be_slice(&good[32..64]);
    let twin = [&good[..32], &(order - s).to_be_bytes::<32>(), &[55 - good[64]]].concat();
    check(&twin, Some("chain.signature_high_s"));
    check(&[&[0; 32], &good[32..]].concat(), Some("chain.signature_range"));
    check(&[&good[..32], &[0; 32], &[27]].concat(), Some("chain.signature_range"));
    check(&[&[0xff; 32], &good[32..]].concat(), Some("chain.signature_range"));
    for length in [0, 1, 64, 66, 1 << 20] {
        check(&vec![1; length], Some("chain.signature_length"));
    }
    let wrapped = [&[0; 96][..], &good, &[0x64, 0x92].repeat(16)].concat();
    check(&wrapped, Some("chain.signature_erc6492"));
}

#[test]
fn a_signature_proves_its_signer_and_its_data() {
    let domain = usdc();
    let digest = transfer().digest(TransferKind::Transfer, &domain);
    let signature = StrictSignature::try_from(signer().sign_hash_sync(&digest).expect("signed")).expect("strict");
    signature.check(digest, signer().address()).expect("the signer's");
    let zero_based = [&signature.canonical()[..64], &[signature.v() - 27]].concat();
    assert_eq!(StrictSignature::from_slice(&zero_based), Ok(signature), "v is written in two ways");
    let others = [
        TransferAuthorization { value: U256::from(10_001), ..transfer() }.digest(TransferKind::Transfer, &domain),
        TransferAuthorization { to: Address::ZERO, ..transfer() }.digest(TransferKind::Transfer, &domain),
        transfer().digest(TransferKind::Receive, &domain),
        transfer().digest(TransferKind::Transfer, &Domain::new("USDC", "2", domain.chain_id(), domain.contract())),
        transfer().digest(TransferKind::Transfer, &Domain::new("USD Coin", "1", domain.chain_id(), domain.contract())),
        transfer().digest(TransferKind::Transfer, &Domain::new("USD Coin", "2", U256::from(1), domain.contract())),
        transfer().digest(TransferKind::Transfer, &Domain::new("USD Coin", "2", domain.chain_id(), Address::ZERO)),
    ];
    for other in others {
        let error = signature.check(other, signer().address()).expect_err("other data");
        assert_eq!(error.code().id(), "chain.signature_wrong_signer");
    }
    signature.check(digest, Address::ZERO).expect_err("nobody is the zero address");
}

#[test]
fn an_r_without_a_point_belongs_to_nobody() {
    // 5 is not the x coordinate of any point of secp256k1.
    let mut bytes = [0; 65];
    (bytes[31], bytes[63], bytes[64]) = (5, 1, 27);
    let signature = StrictSignature::from_slice(&bytes).expect("well-formed");
    assert_eq!(signature.recover(B256::ZERO), Err(SignatureError::Unrecoverable));
}

// req: AGT-016
#[test]
fn the_owner_of_an_agent_manifest_is_recovered_offline() {
    use toolcrib_core::agent::AgentManifest;
    use toolcrib_core::agent::signing::{AgentSignature, SigningPayload, with_signature};
    use toolcrib_core::checked::parse;
    use toolcrib_core::finding::Mode;
    use toolcrib_core::json::{Limits, read};
    let owner = signer().address().to_string();
    let text =
        format!(r#"{{"agt":"1.0","domain":"sample.agt","owner":"{owner}","created_at":"2026-01-02T03:04:05Z","name":"Sample"}}"#);
    let signed = |text: &str, key: &PrivateKeySigner| {
        let document = read(text.as_bytes(), Limits::default()).document.expect("JSON");
        let payload = SigningPayload::of(&document).expect("canonical");
        let bytes = key.sign_hash_sync(&payload.digest()).expect("signed").as_bytes();
        with_signature(&document, &AgentSignature::from_bytes(bytes).expect("strict")).expect("an object")
    };
    let manifest = |text: &str| parse::<AgentManifest>(text.as_bytes(), Mode::Consumer).into_result();
    let good = manifest(&signed(&text, &signer())).expect("valid");
    check_owner_signature(good.value()).expect("the owner's");
    let stranger = PrivateKeySigner::from_bytes(&B256::repeat_byte(0x43)).expect("a key");
    let bad = manifest(&signed(&text, &stranger)).expect("valid");
    let error = check_owner_signature(bad.value()).expect_err("a stranger's");
    assert_eq!(error, SignatureError::WrongSigner { expected: signer().address(), got: stranger.address() });
    let changed = manifest(&signed(&text, &signer()).replace("Sample", "Simple")).expect("valid");
    check_owner_signature(changed.value()).expect_err("changed after signing");
}

proptest! {
    #[test]
    fn what_is_signed_is_recovered(key in 1_u64.., digest: [u8; 32]) {
        let signer = PrivateKeySigner::from_bytes(&B256::from(U256::from(key))).expect("a key");
        let digest = B256::from(digest);
        let signature = StrictSignature::try_from(signer.sign_hash_sync(&digest).expect("signed")).expect("strict");
        prop_assert_eq!(signature.recover(digest), Ok(signer.address()));
    }

    #[test]
    fn no_bytes_make_recovery_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), digest: [u8; 32]) {
        if let Ok(signature) = StrictSignature::from_slice(&bytes) {
            let _ = signature.recover(digest.into());
        }
    }
}

#[test]
fn the_pinned_names_differ_by_chain() {
    let name =
        |network: &str| Network::find(network).expect("listed").usdc.map(|token| (token.name, token.version, token.decimals));
    assert_eq!(name("base"), Some(("USD Coin", "2", 6)));
    assert_eq!(name("base-sepolia"), Some(("USDC", "2", 6)));
    assert_eq!(name("abstract"), Some(("Bridged USDC", "2", 6)));
    assert_eq!(name("shape"), None);
    assert_eq!(usdc().contract(), address!("833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"));
}
