//! Signatures made by other implementations.

use alloy_dyn_abi::TypedData;
use alloy_primitives::{Address, B256, U256, hex};
use serde_json::{Value, json};
use toolcrib_chain::sign::{
    CANCEL_TYPEHASH, Domain, RECEIVE_TYPEHASH, StrictSignature, TRANSFER_TYPEHASH, TransferAuthorization, TransferKind,
    message_digest,
};
use toolcrib_chain::wallet::{LocalWallet, Secret, Wallet};
use toolcrib_x402::{asset, read_payment_json};

fn signatures(name: &str) -> Option<Value> {
    let path = toolcrib_testkit::corpus("x402/signatures")?.join(name);
    Some(serde_json::from_slice(&std::fs::read(path).expect("the corpus")).expect("JSON"))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn signature(value: &Value) -> StrictSignature {
    StrictSignature::from_slice(&hex::decode(text(value, "signature")).expect("hex")).expect("strict")
}

#[test]
fn texts_signed_by_others_are_recovered() {
    let Some(vectors) = signatures("eip191-personal-sign.json") else { return };
    let vectors = vectors.as_array().expect("a list");
    for vector in vectors {
        let message = text(vector, "message");
        let bytes = if message.starts_with("0x") { hex::decode(message).expect("hex") } else { message.as_bytes().to_vec() };
        let signer = signature(vector).recover(message_digest(&bytes)).expect("recovered");
        assert_eq!(signer, text(vector, "address").parse::<Address>().expect("an address"), "{}", text(vector, "name"));
    }
    assert_eq!(vectors.len(), 6);
}

#[test]
fn accounts_of_keys_are_those_of_others() {
    let Some(vectors) = signatures("accounts-ethers.json") else { return };
    let vectors = vectors.as_array().expect("a list");
    for vector in vectors {
        let wallet = LocalWallet::from_key(&Secret::new(text(vector, "privateKey").to_owned()), "vector").expect("a key");
        assert_eq!(wallet.address(), text(vector, "address").parse::<Address>().expect("an address"));
    }
    assert_eq!(vectors.len(), 259);
}

fn digest(domain: &Value, types: &Value, primary: &str, message: &Value) -> Option<B256> {
    let document = json!({ "domain": domain, "types": types, "primaryType": primary, "message": message });
    serde_json::from_value::<TypedData>(document).ok()?.eip712_signing_hash().ok()
}

#[test]
fn typed_data_of_others_has_their_digest() {
    let Some(vectors) = signatures("eip712-ethers-typed-data.json") else { return };
    let (mut checked, mut signed) = (0, 0);
    for vector in vectors.as_array().expect("a list") {
        let Some(digest) = digest(&vector["domain"], &vector["types"], text(vector, "primaryType"), &vector["data"]) else {
            eprintln!("cannot be encoded: {}", text(vector, "name"));
            continue;
        };
        assert_eq!(digest, text(vector, "digest").parse::<B256>().expect("a digest"), "{}", text(vector, "name"));
        checked += 1;
        if vector["signature"].is_string() {
            let wallet = LocalWallet::from_key(&Secret::new(text(vector, "privateKey").to_owned()), "vector").expect("a key");
            signature(vector).check(digest, wallet.address()).expect("its own");
            signed += 1;
        }
    }
    eprintln!("{checked} digests, {signed} signed");
    assert!(checked >= 128, "{checked} of 130");
    assert_eq!(signed, 1);
}

#[test]
fn typed_data_signed_by_others_is_recovered() {
    let Some(vectors) = signatures("eip712-viem.json") else { return };
    let mut checked = 0;
    for vector in vectors.as_array().expect("a list") {
        let Some(digest) = digest(&vector["domain"], &vector["types"], text(vector, "primaryType"), &vector["message"]) else {
            eprintln!("cannot be encoded: {}", text(vector, "name"));
            continue;
        };
        let wallet = LocalWallet::from_key(&Secret::new(text(vector, "privateKey").to_owned()), "vector").expect("a key");
        match signature(vector).check(digest, wallet.address()) {
            Ok(()) => checked += 1,
            Err(error) => assert!(vector["verified"] != true, "{}: {error}", text(vector, "name")),
        }
    }
    assert!(checked >= 8, "{checked} of 9");
    let Some(vectors) = signatures("eip712-alloy.json") else { return };
    for vector in vectors.as_array().expect("a list") {
        let data = &vector["typedData"];
        let Some(digest) = digest(&data["domain"], &data["types"], text(data, "primaryType"), &data["message"]) else { continue };
        if vector["verified"] == true {
            assert_eq!(digest, text(vector, "signingHash").parse::<B256>().expect("a digest"), "{}", text(vector, "name"));
        }
    }
}

#[test]
fn the_payment_that_a_stranger_signed_is_recovered() {
    let Some(vectors) = signatures("eip3009-from-x402-messages.json") else { return };
    let mut valid = 0;
    for vector in vectors.as_array().expect("a list") {
        let (authorization, domain) = (&vector["authorization"], &vector["domain"]);
        let number = |key: &str| U256::from_str_radix(text(authorization, key), 10);
        let (Ok(value), Ok(valid_after), Ok(valid_before)) = (number("value"), number("validAfter"), number("validBefore"))
        else {
            continue;
        };
        let (Ok(from), Ok(to)) = (text(authorization, "from").parse(), text(authorization, "to").parse::<Address>()) else {
            continue;
        };
        let Ok(nonce) = text(authorization, "nonce").parse() else { continue };
        let payment = TransferAuthorization { from, to, value, valid_after, valid_before, nonce };
        let Ok(bytes) = hex::decode(text(vector, "signature")) else { continue };
        let Ok(signature) = StrictSignature::from_slice(&bytes) else { continue };
        if vector["valid"] == true {
            let chain = U256::from(domain["chainId"].as_u64().expect("a number"));
            let contract = text(domain, "verifyingContract").parse().expect("an address");
            let stated = Domain::new(text(domain, "name"), text(domain, "version"), chain, contract);
            // The pinned table gives the same domain.
            let network = toolcrib_chain::network::Network::by_id(84_532).expect("listed");
            assert_eq!(network.usdc.expect("has USDC").domain(84_532), stated);
            signature.check(payment.digest(TransferKind::Transfer, &stated), from).expect("the payer's");
            signature.check(payment.digest(TransferKind::Receive, &stated), from).expect_err("another type");
            valid += 1;
        }
    }
    assert_eq!(valid, 1);
    let Some(hashes) = signatures("eip3009-typehashes-circle.json") else { return };
    let all = hashes.to_string().to_lowercase();
    for hash in [TRANSFER_TYPEHASH, RECEIVE_TYPEHASH, CANCEL_TYPEHASH] {
        assert!(all.contains(&hex::encode(hash)), "{hash}");
    }
}

// From a header to its signer: the payments in x402's documentation have valid signatures.
// req: GATE-003
#[test]
fn payments_of_strangers_name_their_signer() {
    let Some(folder) = toolcrib_testkit::corpus("x402/messages") else { return };
    let mut recovered = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus") {
        let path = entry.expect("readable").path();
        let Some(payment) = read_payment_json(&std::fs::read(&path).expect("the corpus")).payment else { continue };
        let chain = payment.network.evm_id().expect("an EVM chain");
        let token = asset::usdc(chain).expect("listed");
        let signed = TransferAuthorization::from(&payment.authorization);
        let signature = StrictSignature::from_slice(payment.signature.as_bytes()).expect("strict");
        let check = |name: &str, chain: u64, signed: &TransferAuthorization| {
            let domain = Domain::new(name, token.version, U256::from(chain), token.address);
            signature.check(signed.digest(TransferKind::Transfer, &domain), payment.authorization.from)
        };
        check(token.name, chain, &signed).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        // T8: another name or chain, or any other changed field, recovers another signer.
        check("Some Coin", chain, &signed).expect_err("another domain");
        check(token.name, chain + 1, &signed).expect_err("another chain");
        for other in [
            TransferAuthorization { to: signed.from, ..signed },
            TransferAuthorization { value: signed.value + U256::from(1), ..signed },
            TransferAuthorization { valid_after: U256::ZERO, ..signed },
            TransferAuthorization { valid_before: U256::MAX, ..signed },
            TransferAuthorization { nonce: B256::ZERO, ..signed },
        ] {
            check(token.name, chain, &other).expect_err("another payment");
        }
        recovered += 1;
    }
    eprintln!("{recovered} published payments recovered");
    assert_eq!(recovered, 5);
}
