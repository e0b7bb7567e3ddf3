//! Servers that ask for a signed message (EIP-4361).

use std::sync::Arc;

use toolcrib_chain::sign::{StrictSignature, message_digest};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::url::HttpsUrl;
use toolcrib_x402::sign_in::siwe::SignedMessage;
use toolcrib_x402::sign_in::siwx::{HEADER, Proposal, SignedIn};
use toolcrib_x402::sign_in::{Message, Timestamp};
use toolcrib_x402::{Challenge, Offer, Signature, Version};

use super::{CALLER, CHAIN, Reply, result};
use crate::servers::{NOW, Request, answer, ok};

/// Returns the time this number of seconds after now.
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::of(UnixTime::from_seconds(NOW.seconds() + seconds)).unwrap()
}

/// Returns the offer of an honest server at an endpoint.
pub fn proposal(endpoint: &str) -> Proposal {
    let domain = endpoint.strip_prefix("https://").unwrap().split('/').next().unwrap().to_owned();
    Proposal {
        domain,
        statement: Some("Sign in to count words.".to_owned()),
        uri: endpoint.to_owned(),
        nonce: "0b9f4c1122334455".to_owned(),
        issued_at: at(0),
        expiration_time: None,
        not_before: None,
        request_id: None,
        resources: Some(vec![endpoint.to_owned()]),
        chains: vec![8453, CHAIN],
    }
}

/// Returns the 402 response with the extension.
pub fn challenge(offered: &Proposal, accepts: Vec<Offer>) -> Vec<u8> {
    let two = Challenge { version: Version::V2, error: None, resource: None, accepts, extensions: vec![offered.extension()] };
    let head = format!("Content-Type: application/json\r\nPAYMENT-REQUIRED: {}\r\n", two.to_header().unwrap());
    answer("402 Payment Required", &head, b"{}")
}

/// Verifies a message as an honest server does.
pub fn check(message: &Message, signature: &Signature) {
    assert_eq!(message.fields().address, CALLER);
    let signature = StrictSignature::from_slice(signature.as_bytes()).unwrap();
    signature.check(message_digest(message.text().as_bytes()), CALLER).expect("the caller signed");
}

/// Returns the endpoint of a request.
pub fn endpoint(request: &Request) -> String {
    format!("https://{}{}", request.header("host").unwrap(), request.path())
}

/// Returns a server that accepts only sign-ins; `change` edits its offer.
pub fn site(change: impl Fn(&mut Proposal) + Send + Sync + 'static) -> Reply {
    Arc::new(move |request| {
        let mut offered = proposal(&endpoint(request));
        change(&mut offered);
        let Some(value) = request.header(HEADER) else { return challenge(&offered, Vec::new()) };
        let SignedIn { message, signature } = SignedIn::read(value).unwrap();
        assert_eq!(message, offered.message(CALLER, message.fields().chain_id).unwrap());
        check(&message, &signature);
        ok(result())
    })
}

/// Returns a gate of the reference SDK from before x402.
pub fn old_gate(hint: &'static str) -> Reply {
    Arc::new(move |request| {
        let Some(value) = request.header("authorization") else {
            let body = serde_json::json!({"error": "Predicate gate: SIWE authorization required", "hint": hint}).to_string();
            return answer("401 Unauthorized", "Content-Type: application/json\r\n", body.as_bytes());
        };
        let SignedMessage { message, signature } = SignedMessage::read(value).unwrap().unwrap();
        check(&message, &signature);
        let url = HttpsUrl::parse(&endpoint(request)).unwrap();
        message.check_audience(&url).expect("for this endpoint");
        assert_eq!(message.check_time(NOW, 3_600).map(|ends| ends.since(NOW)), Ok(300));
        assert_eq!(message.fields().chain_id, CHAIN);
        ok(result())
    })
}

/// The hint of those gates.
pub const HINT: &str = "Include Authorization: SIWE <base64url(message)>.<signature>";
