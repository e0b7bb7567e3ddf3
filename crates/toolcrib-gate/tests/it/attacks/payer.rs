//! Payments, as callers of both versions make them.

use std::sync::atomic::{AtomicU64, Ordering};

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_signer::SignerSync;
use alloy_signer_local::PrivateKeySigner;
use alloy_sol_types::{SolCall, SolValue};
use serde_json::Value;
use toolcrib_chain::abi::IEIP3009;
use toolcrib_chain::sign::{CancelAuthorization, Domain, TransferAuthorization, TransferKind};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::Clock;
use toolcrib_core::money::Amount;
use toolcrib_devchain::accounts::dev_signers;
use toolcrib_x402::nonce::{BoundCall, BoundNonce};
use toolcrib_x402::{Authorization, Challenge, Payment, Signature, Version, header as coding};

use super::chain::{PRICE, SystemClock, domain, recipient};
use super::shop::ORIGIN;

pub(crate) const BOTH: [Version; 2] = [Version::V1, Version::V2];

/// The tool that bound payments name.
pub(crate) const REFERENCE: &str = "eip155:84532/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7";

pub(crate) fn payer() -> &'static PrivateKeySigner {
    &dev_signers()[1]
}

/// Another account with a key.
pub(crate) fn stranger() -> &'static PrivateKeySigner {
    &dev_signers()[2]
}

/// 32 bytes that no test has used before.
pub(crate) fn fresh() -> B256 {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    keccak256([COUNT.fetch_add(1, Ordering::SeqCst).to_be_bytes(), u64::from(std::process::id()).to_be_bytes()].concat())
}

/// A transfer of the price that is good for five minutes.
pub(crate) fn authorization() -> Authorization {
    authorization_of(payer().address())
}

pub(crate) fn authorization_of(from: Address) -> Authorization {
    Authorization {
        from,
        to: recipient(),
        value: Amount::new(U256::from(PRICE)),
        valid_after: 0,
        valid_before: SystemClock.now().seconds() as u64 + 300,
        nonce: fresh(),
    }
}

pub(crate) fn sign(signer: &PrivateKeySigner, authorization: &Authorization, domain: &Domain) -> Signature {
    let digest = TransferAuthorization::from(authorization).digest(TransferKind::Transfer, domain);
    let signature = signer.sign_hash_sync(&digest).expect("a key signs");
    Signature::new(signature.as_bytes().to_vec()).expect("65 bytes")
}

/// The header that answers a challenge.
pub(crate) fn header(challenges: &[Challenge; 2], version: Version, authorization: Authorization, by: Signature) -> String {
    let challenge = &challenges[usize::from(version == Version::V2)];
    let (resource, extensions) = (challenge.resource.clone(), challenge.extensions.clone());
    let payment = Payment::new(version, &challenge.accepts[0], authorization, by, resource, extensions);
    payment.to_header().expect("a header")
}

/// The header of a payment as it should be.
pub(crate) fn paid(challenges: &[Challenge; 2], version: Version, authorization: Authorization) -> String {
    header(challenges, version, authorization, sign(payer(), &authorization, &domain()))
}

/// What a header says, to be changed.
pub(crate) fn opened(header: &str) -> Value {
    serde_json::from_slice(&coding::decode(header).expect("base64")).expect("JSON")
}

pub(crate) fn closed(json: &Value) -> String {
    coding::encode(json.to_string().as_bytes())
}

/// A nonce that is bound to one call, and the headers that say so.
pub(crate) struct Bound {
    pub(crate) nonce: B256,
    pub(crate) headers: [(&'static str, String); 2],
}

impl Bound {
    pub(crate) fn to(path: &str, input: &Value) -> Self {
        Self::with(ORIGIN, REFERENCE, path, input)
    }

    pub(crate) fn with(origin: &str, reference: &str, path: &str, input: &Value) -> Self {
        let tool = ToolRef::parse(reference).expect("a reference");
        let (body, target) = (input.to_string(), format!("{origin}{path}"));
        let bound = BoundNonce::make(&BoundCall { tool, method: "POST", target: &target, body: body.as_bytes() }, fresh());
        let headers = [("X-Tool-Nonce-Salt", bound.salt_header()), ("X-Tool-Reference", reference.to_owned())];
        Self { nonce: bound.nonce, headers }
    }

    pub(crate) fn headers(&self) -> Vec<(&str, &str)> {
        self.headers.iter().map(|(name, value)| (*name, value.as_str())).collect()
    }
}

/// Calldata of a transfer, as anybody may send it who has seen it.
pub(crate) fn transfer(authorization: &Authorization, by: &Signature) -> Bytes {
    let Authorization { from, to, value, valid_after, valid_before, nonce } = *authorization;
    IEIP3009::transferWithAuthorization_1Call {
        from,
        to,
        value: value.get(),
        validAfter: U256::from(valid_after),
        validBefore: U256::from(valid_before),
        nonce,
        signature: Bytes::copy_from_slice(by.canonical().as_bytes()),
    }
    .abi_encode()
    .into()
}

/// Calldata that takes an authorization back, as its payer may.
pub(crate) fn cancellation(authorization: &Authorization) -> Bytes {
    let Authorization { from: authorizer, nonce, .. } = *authorization;
    let digest = CancelAuthorization { authorizer, nonce }.digest(&domain());
    let signature = Bytes::from(payer().sign_hash_sync(&digest).expect("a key signs").as_bytes().to_vec());
    let selector = keccak256("cancelAuthorization(address,bytes32,bytes)");
    [&selector[..4], &(authorizer, nonce, signature).abi_encode_params()].concat().into()
}
