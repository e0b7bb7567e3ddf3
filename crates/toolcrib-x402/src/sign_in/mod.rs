//! Signing in with a message (EIP-4361, "Sign-In with Ethereum").
//!
//! An account proves its identity by signing a text with the site, the resource, the chain and the time. Two protocols carry it:
//!
//! - [`siwx`]: the x402 extension `sign-in-with-x`. The server's 402 contains everything except the account, and the header
//!   `SIGN-IN-WITH-X` returns it with a signature.
//! - [`siwe`]: `Authorization: SIWE`, as the reference SDK used it before x402. The caller creates the whole message.
//!
//! [`Message`] is what both sign. This module only builds and parses it: the text has one form, and a parsed message serialises to the same
//! bytes. Nothing here signs, recovers or sends.

mod grammar;
mod message;
pub mod siwe;
pub mod siwx;

use std::fmt;

pub use message::{Fields, MAX_MESSAGE_BYTES, Message, MessageFault, Timestamp};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::{Code, sign_in as code};
use toolcrib_core::url::HttpsUrl;

/// How long a message is valid after it was issued, in seconds, as in the x402 extension.
pub const MAX_AGE_SECONDS: i64 = 300;

/// Accepted clock skew, in seconds.
pub const SKEW_SECONDS: i64 = 60;

/// Longest validity of a message that a client signs, in seconds.
pub const MAX_LIFETIME_SECONDS: i64 = 3_600;

/// Why a message is not accepted or not signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub Code);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.title())
    }
}

impl std::error::Error for Refused {}

/// The domain of a URL in messages: the host, and the port unless it is 443.
pub fn domain_of(url: &HttpsUrl) -> String {
    let origin = url.origin().to_string();
    origin.strip_prefix("https://").map_or_else(|| origin.clone(), str::to_owned)
}

impl Message {
    /// Checks that the message is for an endpoint: its domain, its origin and its path. The query does not count.
    pub fn check_audience(&self, endpoint: &HttpsUrl) -> Result<(), Refused> {
        let uri = self.check_origin(endpoint)?;
        if path(&uri) == path(endpoint) { Ok(()) } else { Err(Refused(code::URI)) }
    }

    /// Checks that the message is for the site of a URL: its domain and its origin. Returns the URI.
    pub fn check_origin(&self, url: &HttpsUrl) -> Result<HttpsUrl, Refused> {
        let fields = self.fields();
        // A domain without a scheme means https.
        let is_https = fields.scheme.as_deref().is_none_or(|scheme| scheme == "https");
        if !is_https || fields.domain != domain_of(url) {
            return Err(Refused(code::DOMAIN));
        }
        let uri = HttpsUrl::parse(&fields.uri).map_err(|_| Refused(code::URI))?;
        if uri.same_origin(url) { Ok(uri) } else { Err(Refused(code::URI)) }
    }

    /// Checks that the message is for a chain.
    pub fn check_chain(&self, chain: u64) -> Result<(), Refused> {
        if self.fields().chain_id == chain { Ok(()) } else { Err(Refused(code::CHAIN)) }
    }

    /// Checks that the message is valid now for a server that accepts it for `max_age` seconds after it was issued. Returns until when it
    /// is.
    pub fn check_time(&self, now: UnixTime, max_age: i64) -> Result<UnixTime, Refused> {
        let fields = self.fields();
        let issued_at = fields.issued_at.at();
        let is_early = |at: UnixTime| at.since(now) > SKEW_SECONDS;
        if is_early(issued_at) || fields.not_before.as_ref().is_some_and(|time| is_early(time.at())) {
            return Err(Refused(code::NOT_YET));
        }
        let by_age = issued_at.plus(max_age);
        let ends = fields.expiration_time.as_ref().map_or(by_age, |time| time.at().min(by_age));
        if now.since(ends) >= 0 { Err(Refused(code::EXPIRED)) } else { Ok(ends) }
    }

    /// Checks whether a client should sign the message that a server proposes: it is valid now, and for no longer than
    /// [`MAX_LIFETIME_SECONDS`].
    pub fn check_proposal(&self, now: UnixTime) -> Result<(), Refused> {
        let fields = self.fields();
        let issued_at = fields.issued_at.at();
        if issued_at.since(now) > SKEW_SECONDS
            || fields.not_before.as_ref().is_some_and(|time| time.at().since(now) > SKEW_SECONDS)
        {
            return Err(Refused(code::NOT_YET));
        }
        let is_over = fields.expiration_time.as_ref().is_some_and(|time| now.since(time.at()) >= 0);
        if is_over || now.since(issued_at) > MAX_AGE_SECONDS {
            return Err(Refused(code::EXPIRED));
        }
        let is_long = |time: &Timestamp| time.at().since(now) > MAX_LIFETIME_SECONDS;
        if fields.expiration_time.as_ref().is_some_and(is_long) { Err(Refused(code::LIFETIME)) } else { Ok(()) }
    }
}

/// The path; an empty one is equal to `/`.
fn path(url: &HttpsUrl) -> &str {
    if url.path().is_empty() { "/" } else { url.path() }
}

#[cfg(test)]
mod tests;
