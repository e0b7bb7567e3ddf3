//! `Authorization: SIWE <base64url(message)>.<signature>`: the sign-in of the reference SDK before it had x402.

use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::sign_in as code;
use toolcrib_core::url::HttpsUrl;

use super::{Fields, MAX_MESSAGE_BYTES, Message, MessageFault, Refused, Timestamp, domain_of};
use crate::{Signature, header};

/// The scheme of the `Authorization` header.
pub const SCHEME: &str = "SIWE";

/// The statement of the reference SDK, so that operators who check statements recognise it.
pub const STATEMENT: &str = "Authenticate to access this tool";

/// How long our messages are valid, in seconds: the same as in the SDK.
pub(crate) const LIFETIME_SECONDS: i64 = 300;

/// A signed message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedMessage {
    /// The message.
    pub message: Message,
    /// The signature over its text.
    pub signature: Signature,
}

/// Returns the message that signs `address` in at an endpoint. `nonce` must be new.
pub fn message(
    url: &HttpsUrl,
    address: alloy_primitives::Address,
    chain_id: u64,
    nonce: String,
    now: UnixTime,
) -> Result<Message, MessageFault> {
    let uri = url.normalized();
    let uri = uri.split_once('#').map_or(uri, |(before, _)| before).to_owned();
    Message::new(Fields {
        scheme: None,
        domain: domain_of(url),
        address,
        statement: Some(STATEMENT.to_owned()),
        uri,
        chain_id,
        nonce,
        issued_at: Timestamp::of(now).ok_or(MessageFault::Time)?,
        expiration_time: Some(Timestamp::of(now.plus(LIFETIME_SECONDS)).ok_or(MessageFault::Time)?),
        not_before: None,
        request_id: None,
        resources: None,
    })
}

impl SignedMessage {
    /// The value of the `Authorization` header.
    pub fn to_header(&self) -> String {
        let message = header::encode(self.message.text().as_bytes()).replace('+', "-").replace('/', "_");
        format!("{SCHEME} {}.{}", message.trim_end_matches('='), self.signature)
    }

    /// Parses the value of an `Authorization` header. `None` if it has another scheme.
    pub fn read(value: &str) -> Option<Result<Self, Refused>> {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case(SCHEME).then(|| read(token))
    }
}

fn read(token: &str) -> Result<SignedMessage, Refused> {
    let malformed = Refused(code::HEADER);
    let (message, signature) = token.rsplit_once('.').ok_or(malformed)?;
    let signature = Signature::parse(signature).ok_or(malformed)?;
    let is_encoded = message.len() <= MAX_MESSAGE_BYTES * 4 / 3 + 4
        && message.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if !is_encoded {
        return Err(malformed);
    }
    let mut padded = message.replace('-', "+").replace('_', "/");
    while !padded.len().is_multiple_of(4) {
        padded.push('=');
    }
    let text = header::decode(&padded).ok().and_then(|bytes| String::from_utf8(bytes).ok()).ok_or(malformed)?;
    let message = Message::parse(&text).map_err(|fault| Refused(fault.code()))?;
    Ok(SignedMessage { message, signature })
}
