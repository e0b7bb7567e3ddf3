//! Sign-in with a message (EIP-4361) instead of a transfer of value 0: by the x402 extension `sign-in-with-x`, or in an `Authorization:
//! SIWE` header as older clients send it.
//!
//! Domain, resource and chain come from the settings, whatever the request says about hosts. The server makes the nonces of the extension:
//! one part is random, the rest binds it to the resource and the time of issue, so that unanswered challenges take no memory. Each message
//! signs its signer in once.

use std::fmt;

use alloy_primitives::{Address, hex, keccak256};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use toolcrib_chain::rpc::Chain;
use toolcrib_chain::sign::message_digest;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes;
use toolcrib_core::url::HttpsUrl;
use toolcrib_x402::sign_in::siwe::SignedMessage;
use toolcrib_x402::sign_in::siwx::{self, Proposal, SignedIn};
use toolcrib_x402::sign_in::{MAX_AGE_SECONDS, Message, Refused, SKEW_SECONDS, Timestamp, domain_of};
use toolcrib_x402::{Raw, ReplayKey, Signature, Version};
use zeroize::Zeroizing;

use super::terms::{Unproven, signed};
use crate::tool::Caller;

/// The statement in the messages that callers sign.
const STATEMENT: &str = "Sign in to use this tool.";

/// Random bytes of a nonce, and bytes that bind it.
const RANDOM_BYTES: usize = 16;

/// Shortest secret for nonces.
pub(crate) const MIN_KEY_BYTES: usize = 16;

/// How callers may sign in, besides the transfer of value 0 that every gate accepts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SignInSettings {
    /// The extension is not offered.
    pub(crate) without_x: bool,
    /// `Authorization: SIWE` is accepted.
    pub(crate) siwe: bool,
}

/// The secret for nonces, shared by all servers of one origin.
pub(crate) struct NonceKey(Zeroizing<[u8; 32]>);

impl NonceKey {
    /// Derives a key from a secret of the settings.
    pub(crate) fn of(secret: &[u8]) -> Self {
        Self(Zeroizing::new(keccak256([TAG, secret].concat()).0))
    }

    /// Returns a random key, which is lost when the process ends.
    pub(crate) fn random() -> Option<Self> {
        let mut bytes = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *bytes).ok()?;
        Some(Self(bytes))
    }

    /// Makes a nonce for a resource and a time of issue.
    fn nonce(&self, uri: &str, issued_at: UnixTime) -> Option<String> {
        let mut random = [0; RANDOM_BYTES];
        getrandom::fill(&mut random).ok()?;
        Some(hex::encode(random) + &hex::encode(self.binding(random, uri, issued_at)))
    }

    /// Whether this server, or one with the same secret, made the nonce for this resource and time of issue.
    fn has_made(&self, nonce: &str, uri: &str, issued_at: UnixTime) -> bool {
        let mut bytes = [0; 2 * RANDOM_BYTES];
        if hex::decode_to_slice(nonce, &mut bytes).is_err() {
            return false;
        }
        let (random, binding) = bytes.split_at(RANDOM_BYTES);
        let Ok(random) = random.try_into() else { return false };
        let expected = self.binding(random, uri, issued_at);
        // Constant time: every byte is compared.
        expected.iter().zip(binding).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
    }

    fn binding(&self, random: [u8; RANDOM_BYTES], uri: &str, issued_at: UnixTime) -> [u8; RANDOM_BYTES] {
        let mut parts = Zeroizing::new(Vec::with_capacity(128));
        parts.extend_from_slice(TAG);
        parts.extend_from_slice(&*self.0);
        parts.extend_from_slice(&random);
        parts.extend_from_slice(&issued_at.seconds().to_be_bytes());
        parts.extend_from_slice(keccak256(uri).as_slice());
        let hash = keccak256(&*parts);
        let mut out = [0; RANDOM_BYTES];
        out.copy_from_slice(&hash[..RANDOM_BYTES]);
        out
    }
}

impl fmt::Debug for NonceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NonceKey")
    }
}

/// Domain separation of the key. Change it with the scheme.
const TAG: &[u8] = b"toolcrib.sign-in-nonce.v1";

/// Sign-in for one tool.
#[derive(Debug)]
pub(crate) struct SignIn {
    pub(super) settings: SignInSettings,
    pub(super) endpoint: HttpsUrl,
    pub(super) chain: u64,
    /// The RPC node that verifies signatures of accounts with code.
    pub(super) node: Option<Chain>,
    /// Longest validity in seconds of a message that the caller wrote.
    pub(super) max_age: i64,
}

/// A message that came with a request, not verified yet.
#[derive(Debug)]
pub(crate) struct Presented {
    message: Message,
    signature: Signature,
    /// Sent by the extension, so that this server must have made the nonce.
    is_x: bool,
}

/// A caller who signed in, and the nonce that this uses up.
#[derive(Debug)]
pub(crate) struct SignedCaller {
    pub(crate) caller: Caller,
    pub(crate) key: ReplayKey,
    pub(crate) expires_at: UnixTime,
}

impl SignIn {
    /// Returns the extension for a challenge, if it is offered.
    pub(super) fn extension(&self, key: &NonceKey, now: UnixTime) -> Option<(String, Raw)> {
        if self.settings.without_x {
            return None;
        }
        let uri = self.endpoint.normalized().to_owned();
        let proposal = Proposal {
            domain: domain_of(&self.endpoint),
            statement: Some(STATEMENT.to_owned()),
            nonce: key.nonce(&uri, now)?,
            issued_at: Timestamp::of(now)?,
            expiration_time: Some(Timestamp::of(now.plus(MAX_AGE_SECONDS))?),
            not_before: None,
            request_id: None,
            resources: Some(vec![uri.clone()]),
            chains: vec![self.chain],
            uri,
        };
        Some(proposal.extension())
    }

    /// Reads the message from the headers. `None` if there is none.
    pub(super) fn read(&self, headers: &HeaderMap) -> Option<Result<Presented, Unproven>> {
        if !self.settings.without_x {
            let mut values = headers.get_all(siwx::HEADER).into_iter();
            if let Some(value) = values.next() {
                let read = match (value.to_str(), values.next()) {
                    (Ok(text), None) => SignedIn::read(text.trim()),
                    _ => Err(Refused(codes::sign_in::HEADER)),
                };
                let presented = read.map(|SignedIn { message, signature }| Presented { message, signature, is_x: true });
                return Some(presented.map_err(refused));
            }
        }
        if !self.settings.siwe {
            return None;
        }
        let mut values = headers.get_all(AUTHORIZATION).into_iter();
        let value = values.next()?.to_str().ok()?;
        let read = SignedMessage::read(value.trim())?;
        if values.next().is_some() {
            return Some(Err(refused(Refused(codes::sign_in::HEADER))));
        }
        Some(read.map(|SignedMessage { message, signature }| Presented { message, signature, is_x: false }).map_err(refused))
    }

    /// Verifies recipient, times and signature of a message. Waits for nothing but the RPC node, if there is one.
    pub(crate) async fn verify(&self, presented: Presented, key: &NonceKey, now: UnixTime) -> Result<SignedCaller, Unproven> {
        let Presented { message, signature, is_x } = presented;
        message.check_audience(&self.endpoint).map_err(refused)?;
        message.check_chain(self.chain).map_err(refused)?;
        let max_age = if is_x { MAX_AGE_SECONDS } else { self.max_age };
        let ends = message.check_time(now, max_age).map_err(refused)?;
        let fields = message.fields();
        let is_ours =
            || fields.uri == self.endpoint.normalized() && key.has_made(&fields.nonce, &fields.uri, fields.issued_at.at());
        if is_x && !is_ours() {
            return Err(refused(Refused(codes::sign_in::NONCE)));
        }
        let account = fields.address;
        if account.is_zero() {
            return Err(refused(Refused(codes::sign_in::MESSAGE)));
        }
        let digest = message_digest(message.text().as_bytes());
        if let Err(code) = signed(self.node.as_ref(), account, digest, signature.as_bytes()).await? {
            return Err(Unproven::Challenge(Some(code)));
        }
        let caller = Caller { account, version: Version::V2, is_bound: false };
        // No token has this address, so no payment has such a key.
        let nonce = keccak256([fields.domain.as_bytes(), b"\0", fields.nonce.as_bytes()].concat());
        let replay_key = ReplayKey { chain: self.chain, asset: Address::ZERO, from: account, nonce };
        Ok(SignedCaller { caller, key: replay_key, expires_at: ends.plus(SKEW_SECONDS) })
    }
}

const fn refused(refused: Refused) -> Unproven {
    Unproven::Challenge(Some(refused.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_are_good_for_one_resource_and_moment() {
        let (key, other) = (NonceKey::of(b"a secret of operators"), NonceKey::of(b"another secret of them"));
        let (uri, at) = ("https://tools.example.com/tides", UnixTime::from_seconds(1_800_000_000));
        let nonce = key.nonce(uri, at).expect("random bytes");
        assert_eq!(nonce.len(), 64);
        assert!(key.has_made(&nonce, uri, at));
        assert!(NonceKey::of(b"a secret of operators").has_made(&nonce, uri, at), "servers that share the secret");
        assert!(!other.has_made(&nonce, uri, at));
        assert!(!NonceKey::random().expect("random bytes").has_made(&nonce, uri, at));
        assert!(!key.has_made(&nonce, "https://tools.example.com/tide", at));
        assert!(!key.has_made(&nonce, uri, at.plus(1)));
        assert_ne!(key.nonce(uri, at), Some(nonce.clone()));
        let flipped = format!("{}{}", &nonce[..63], if nonce.ends_with('0') { '1' } else { '0' });
        for nonce in ["", "0b9f4c1122334455", &nonce[..62], &format!("{nonce}00"), &flipped, &nonce.replace(['a', 'b'], "z")] {
            assert!(!key.has_made(nonce, uri, at), "{nonce}");
        }
        assert_eq!(format!("{key:?}"), "NonceKey");
    }
}
