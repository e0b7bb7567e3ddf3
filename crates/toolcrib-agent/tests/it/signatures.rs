//! Signatures that are not the owner's, or not over the canonical bytes.

use alloy_primitives::{U256, eip191_hash_message, hex, keccak256};
use serde_json::{Value, json};
use toolcrib_agent::evidence::{ContractRead, OwnerOutcome};
use toolcrib_agent::report::SignedBy;
use toolcrib_agent::{AgentPolicy, AgentState, judge};
use toolcrib_core::agent::signing::SigningPayload;
use toolcrib_core::codes;

use crate::fixture::*;

/// The fixture with this text as its signature.
fn with_signature(signature: &str) -> String {
    let mut fields = fields(json!({}));
    fields["signature"] = Value::String(signature.to_owned());
    fields.to_string()
}

fn good() -> [u8; 65] {
    let payload = SigningPayload::of(&document(&fields(json!({})).to_string())).expect("canonical");
    signature_of(payload.digest(), &keys().0)
}

#[track_caller]
fn invalid(signature: &[u8], code: &str, step: u8) {
    let report = judged(&evidence(&with_signature(&hex::encode_prefixed(signature))));
    assert_failed(&report, AgentState::InvalidSignature, code, Some(step));
}

// req: AGT-018
#[test]
fn each_signature_has_one_encoding_but_for_v() {
    let good = good();
    let with_v = |v: u8| {
        let mut bytes = good;
        bytes[64] = v;
        bytes
    };
    let odd = good[64] == 28;
    for v in [27 + u8::from(odd), u8::from(odd)] {
        assert_verified(&judged(&evidence(&with_signature(&hex::encode_prefixed(with_v(v))))));
    }
    for v in [27 + u8::from(!odd), u8::from(!odd)] {
        let report = judged(&evidence(&with_signature(&hex::encode_prefixed(with_v(v)))));
        assert_eq!(report.state, AgentState::InvalidSignature, "the other key that fits");
    }
    for v in [2, 3, 29, 35, 36, 255] {
        invalid(&with_v(v), "agent.signature_v", 4);
    }
    // The malleable twin with the high s, which anyone can compute.
    let order = U256::from_str_radix("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16).expect("a number");
    let mut high = with_v(55 - good[64]);
    let s = order - U256::from_be_slice(&good[32..64]);
    high[32..64].copy_from_slice(&s.to_be_bytes::<32>());
    invalid(&high, "agent.signature_high_s", 4);
    invalid(&good[..64], "agent.signature_compact", 4);
    invalid(&[&good[..], &[0]].concat(), "agent.signature_malformed", 4);
    let text = hex::encode_prefixed(good);
    assert_verified(&judged(&evidence(&with_signature(&text.to_uppercase().replacen("0X", "0x", 1)))));
    for (text, code) in [
        (text[2..].to_owned(), "agent.signature_malformed"),
        (text.to_uppercase(), "agent.signature_malformed"),
        ("0x7f3e8d4c...".to_owned(), "agent.signature_placeholder"),
        (String::new(), "agent.unsigned"),
    ] {
        assert_failed(&judged(&evidence(&with_signature(&text))), AgentState::InvalidSignature, code, Some(4));
    }
    assert_failed(&judged(&evidence(&fields(json!({})).to_string())), AgentState::InvalidSignature, "agent.unsigned", Some(4));
    // An r that is not on the curve.
    let mut nowhere = good;
    nowhere[..32].copy_from_slice(&U256::from(5).to_be_bytes::<32>());
    invalid(&nowhere, "agent.signature_unrecoverable", 4);
}

// req: AGT-016, AGT-018
#[test]
fn other_bytes_than_the_canonical_ones_do_not_count() {
    let key = keys().0;
    let text = fields(json!({"name": "Ägypten 🤖"})).to_string();
    let canonical = SigningPayload::of(&document(&text)).expect("canonical");
    let signed = |digest| {
        let mut value: Value = serde_json::from_str(&text).expect("JSON");
        value["signature"] = Value::String(hex::encode_prefixed(signature_of(digest, &key)));
        judged(&evidence(&value.to_string()))
    };
    assert_verified(&signed(canonical.digest()));
    let pretty = serde_json::to_string_pretty(&serde_json::from_str::<Value>(&text).expect("JSON")).expect("JSON");
    // `signature` is the last member, so this is the canonical form of the document with the field.
    let with_field =
        |value: &str| format!(r#"{},"signature":"{value}"}}"#, canonical.as_str().strip_suffix('}').expect("an object"));
    let placeholder = format!("0x{}", "0".repeat(130));
    let characters = canonical.as_str().chars().count();
    let by_characters = [format!("\x19Ethereum Signed Message:\n{characters}").as_bytes(), canonical.as_bytes()].concat();
    for (digest, what) in [
        (eip191_hash_message(pretty.as_bytes()), "indented JSON"),
        (eip191_hash_message(text.as_bytes()), "the text as it is"),
        (eip191_hash_message(with_field("").as_bytes()), "with an empty signature field"),
        (eip191_hash_message(with_field(&placeholder).as_bytes()), "with a placeholder in the signature field"),
        (eip191_hash_message(keccak256(canonical.as_bytes())), "the hash of the canonical bytes, as draft 0.2 signs"),
        (keccak256(canonical.as_bytes()), "without the prefix"),
        (keccak256(by_characters), "characters counted instead of bytes"),
    ] {
        let report = signed(digest);
        assert_eq!(report.state, AgentState::InvalidSignature, "{what}");
        assert!(report.failed.is_some_and(|failed| failed.step == Some(5) || failed.step == Some(4)), "{what}");
    }
}

// req: AGT-006
#[test]
fn owners_are_checked_before_they_are_compared() {
    let key = keys().0;
    let with_owner = |text: &str| judged(&evidence(&sign_text(&fields(json!({"owner": text})).to_string(), &key)));
    let checksummed = owner().to_checksum(None);
    let report = with_owner(&checksummed.to_lowercase());
    assert_verified(&report);
    assert!(report.has(codes::agent::OWNER_NOT_CHECKSUMMED) && report.conformant, "readers warn");
    let wrong = checksummed.replace("Fd6", "fd6");
    assert_failed(&with_owner(&wrong), AgentState::InvalidOwner, "agent.owner_checksum", Some(5));
    let zero = format!("0x{}", "0".repeat(40));
    assert_failed(&with_owner(&zero), AgentState::InvalidOwner, "agent.owner_zero", Some(5));
    assert_failed(&with_owner("vitalik.eth"), AgentState::InvalidOwner, "agent.owner_malformed", Some(5));
    let missing = judged(&evidence(&sign_text(&fields(json!({"owner": null})).to_string(), &key)));
    assert_failed(&missing, AgentState::InvalidOwner, "manifest.field_missing", Some(5));
    // Another account claims to be the owner, with its own signature.
    let stolen = sign_text(&fields(json!({"owner": other().to_checksum(None)})).to_string(), &keys().1);
    assert_failed(&judged(&evidence(&stolen)), AgentState::InvalidOwner, "agent.holder_not_owner", Some(8));
}

#[test]
fn a_contract_counts_only_if_the_policy_allows_it_and_it_holds_the_name() {
    let wallet = alloy_primitives::Address::repeat_byte(0x5a);
    let manifest = sign_text(&fields(json!({"owner": wallet.to_checksum(None)})).to_string(), &keys().0);
    let with = |holder, contract| {
        let mut evidence = evidence(&manifest);
        let mut read = read_of(NAME, OwnerOutcome::Holder(holder));
        read.contract = contract;
        evidence.owner = Some(read);
        evidence
    };
    let allowed = AgentPolicy { allow_contract_owner: true, ..AgentPolicy::default() };
    let accepted = with(wallet, Some(ContractRead::Accepted));
    let report = judge(&accepted, &allowed, None, NOW);
    assert_verified(&report);
    assert_eq!(report.signed_by, Some(SignedBy::Contract));
    assert!(report.has(codes::agent::CONTRACT_SIGNATURE), "labelled as an extension");
    assert_eq!(serde_json::to_value(&report).expect("JSON")["signed_by"], "erc-1271-extension");
    assert_failed(&judged(&accepted), AgentState::InvalidSignature, "agent.signer_not_owner", Some(5));
    // The signature of another owner's contract does not count.
    let elsewhere = with(other(), Some(ContractRead::Accepted));
    assert_failed(&judge(&elsewhere, &allowed, None, NOW), AgentState::InvalidSignature, "agent.signer_not_owner", Some(5));
    for contract in [None, Some(ContractRead::Rejected), Some(ContractRead::NotAContract)] {
        let report = judge(&with(wallet, contract), &allowed, None, NOW);
        assert_failed(&report, AgentState::InvalidSignature, "agent.signer_not_owner", Some(5));
    }
    let failed = ContractRead::Failed { code: "chain.rpc_timeout".to_owned(), message: "late".to_owned() };
    let report = judge(&with(wallet, Some(failed)), &allowed, None, NOW);
    assert_failed(&report, AgentState::Unreachable, "agent.contract_unanswered", Some(5));
    // An owner's key needs no contract, even if its account has code (EIP-7702).
    let mut own = evidence(&signed(json!({})));
    own.owner.as_mut().expect("read").contract = Some(ContractRead::NotAContract);
    let report = judge(&own, &allowed, None, NOW);
    assert_verified(&report);
    assert_eq!(report.signed_by, Some(SignedBy::Key));
}
