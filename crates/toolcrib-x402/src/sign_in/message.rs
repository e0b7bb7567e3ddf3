//! The message: parsing and serialisation.

use std::fmt;

use alloy_primitives::Address;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::{Code, sign_in};
use toolcrib_core::time::{format_rfc3339, parse_rfc3339};

use super::grammar;

/// Longest message. A header has room for twice this in base64.
pub const MAX_MESSAGE_BYTES: usize = 6_144;

/// Most resources.
const MAX_RESOURCES: usize = 32;

/// Longest timestamp: seconds with nanoseconds and an offset take 35.
const MAX_TIME_BYTES: usize = 64;

const WANTS: &str = " wants you to sign in with your Ethereum account:";

/// The fields of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    /// The scheme of the site's origin, if specified.
    pub scheme: Option<String>,
    /// The site: host, and port if it is not the default.
    pub domain: String,
    /// The signer.
    pub address: Address,
    /// A sentence for the signer.
    pub statement: Option<String>,
    /// The resource.
    pub uri: String,
    /// The chain of the account.
    pub chain_id: u64,
    /// A value that makes the message unique.
    pub nonce: String,
    /// When it was issued.
    pub issued_at: Timestamp,
    /// When it expires.
    pub expiration_time: Option<Timestamp>,
    /// When it becomes valid.
    pub not_before: Option<Timestamp>,
    /// The site's identifier of the sign-in.
    pub request_id: Option<String>,
    /// URIs that the signer wants to have resolved.
    pub resources: Option<Vec<String>>,
}

/// A time with its original text. Two spellings of one time are two messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timestamp {
    text: String,
    at: UnixTime,
}

impl Timestamp {
    /// Parses RFC 3339.
    pub fn parse(text: &str) -> Option<Self> {
        let at = parse_rfc3339(text).ok().filter(|_| text.len() <= MAX_TIME_BYTES)?;
        Some(Self { text: text.to_owned(), at })
    }

    /// A time in UTC. `None` outside the years that RFC 3339 can express.
    pub fn of(at: UnixTime) -> Option<Self> {
        Some(Self { text: format_rfc3339(at)?, at })
    }

    /// The time, to the second.
    pub const fn at(&self) -> UnixTime {
        self.at
    }

    /// The original text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// The part of a message that is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageFault {
    /// The lines are not those of a message.
    Form,
    /// More than [`MAX_MESSAGE_BYTES`].
    TooLong,
    /// The domain or its scheme.
    Domain,
    /// The account: not an address, or without the ERC-55 checksum.
    Address,
    /// The statement.
    Statement,
    /// The URI.
    Uri,
    /// A version other than 1.
    Version,
    /// The chain number.
    ChainId,
    /// The nonce.
    Nonce,
    /// One of the times.
    Time,
    /// The request id.
    RequestId,
    /// The resources.
    Resources,
}

impl MessageFault {
    /// The code of this error.
    pub const fn code(self) -> Code {
        sign_in::MESSAGE
    }
}

impl fmt::Display for MessageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "the lines do not form a sign-in message (EIP-4361)",
            Self::TooLong => "the message is too long",
            Self::Domain => "the domain is not a host with an optional port",
            Self::Address => "the account is not an address with a checksum",
            Self::Statement => "the statement is not one line of ASCII text",
            Self::Uri => "the URI is malformed",
            Self::Version => "the version is not 1",
            Self::ChainId => "the chain is not a number",
            Self::Nonce => "the nonce is not 8 to 128 letters and digits",
            Self::Time => "a time is not in RFC 3339 format",
            Self::RequestId => "the request id is malformed",
            Self::Resources => "the resources are not a list of URIs",
        })
    }
}

impl std::error::Error for MessageFault {}

/// A valid message: its fields, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    fields: Fields,
    text: String,
}

impl Message {
    /// Creates the text from the fields.
    pub fn new(fields: Fields) -> Result<Self, MessageFault> {
        check(&fields)?;
        let text = write(&fields);
        if text.len() > MAX_MESSAGE_BYTES {
            return Err(MessageFault::TooLong);
        }
        Ok(Self { fields, text })
    }

    /// Parses a text. It is accepted only if the fields give the same text again.
    ///
    /// ```
    /// use toolcrib_x402::sign_in::Message;
    ///
    /// let text = "tools.example.com wants you to sign in with your Ethereum account:\n\
    ///             0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266\n\
    ///             \n\
    ///             Sign in to use this tool.\n\
    ///             \n\
    ///             URI: https://tools.example.com/tides\n\
    ///             Version: 1\n\
    ///             Chain ID: 8453\n\
    ///             Nonce: 0b9f4c1122334455\n\
    ///             Issued At: 2026-11-16T08:00:00Z";
    /// let message = Message::parse(text).unwrap();
    /// assert_eq!(message.fields().chain_id, 8453);
    /// assert_eq!(message.text(), text);
    /// ```
    pub fn parse(text: &str) -> Result<Self, MessageFault> {
        if text.len() > MAX_MESSAGE_BYTES {
            return Err(MessageFault::TooLong);
        }
        let message = Self::new(read(text)?)?;
        if message.text == text { Ok(message) } else { Err(MessageFault::Form) }
    }

    /// The fields.
    pub const fn fields(&self) -> &Fields {
        &self.fields
    }

    /// The text, which is signed by `personal_sign` (EIP-191).
    pub fn text(&self) -> &str {
        &self.text
    }
}

fn check(fields: &Fields) -> Result<(), MessageFault> {
    let all = |given: Option<&String>, is_good: fn(&str) -> bool| given.is_none_or(|text| is_good(text));
    let resources = fields.resources.as_deref().unwrap_or_default();
    let rules = [
        (grammar::is_domain(&fields.domain) && all(fields.scheme.as_ref(), grammar::is_scheme), MessageFault::Domain),
        (all(fields.statement.as_ref(), grammar::is_statement), MessageFault::Statement),
        (grammar::is_uri(&fields.uri), MessageFault::Uri),
        (grammar::is_nonce(&fields.nonce), MessageFault::Nonce),
        (all(fields.request_id.as_ref(), grammar::is_request_id), MessageFault::RequestId),
        (resources.len() <= MAX_RESOURCES && resources.iter().all(|uri| grammar::is_uri(uri)), MessageFault::Resources),
    ];
    match rules.iter().find(|(holds, _)| !holds) {
        Some((_, fault)) => Err(*fault),
        None => Ok(()),
    }
}

fn write(fields: &Fields) -> String {
    let mut out = fields.scheme.as_ref().map_or_else(String::new, |scheme| format!("{scheme}://"));
    out += &format!("{}{WANTS}\n{}\n\n", fields.domain, fields.address.to_checksum(None));
    if let Some(statement) = &fields.statement {
        out += &format!("{statement}\n");
    }
    out += &format!("\nURI: {}\nVersion: 1\nChain ID: {}\nNonce: {}\n", fields.uri, fields.chain_id, fields.nonce);
    out += &format!("Issued At: {}", fields.issued_at.as_str());
    for (title, time) in [(EXPIRATION_TIME, &fields.expiration_time), (NOT_BEFORE, &fields.not_before)] {
        if let Some(time) = time {
            out += &format!("\n{title}{}", time.as_str());
        }
    }
    if let Some(id) = &fields.request_id {
        out += &format!("\n{REQUEST_ID}{id}");
    }
    if let Some(resources) = &fields.resources {
        out += &format!("\n{RESOURCES}");
        for uri in resources {
            out += &format!("\n- {uri}");
        }
    }
    out
}

fn read(text: &str) -> Result<Fields, MessageFault> {
    let mut lines = Lines(text.split('\n').peekable());
    let site = lines.next()?.strip_suffix(WANTS).ok_or(MessageFault::Form)?;
    let (scheme, domain) = match site.split_once("://") {
        Some((scheme, domain)) => (Some(scheme.to_owned()), domain),
        None => (None, site),
    };
    let address = Address::parse_checksummed(lines.next()?, None).map_err(|_| MessageFault::Address)?;
    lines.empty()?;
    let statement = match lines.next()? {
        "" => None,
        statement => {
            lines.empty()?;
            Some(statement.to_owned())
        }
    };
    let uri = lines.titled("URI: ")?.to_owned();
    if lines.titled("Version: ")? != "1" {
        return Err(MessageFault::Version);
    }
    let chain_id = lines.titled("Chain ID: ")?.parse().map_err(|_| MessageFault::ChainId)?;
    let nonce = lines.titled("Nonce: ")?.to_owned();
    let time = |text: &str| Timestamp::parse(text).ok_or(MessageFault::Time);
    let issued_at = time(lines.titled("Issued At: ")?)?;
    let expiration_time = lines.optional(EXPIRATION_TIME).map(time).transpose()?;
    let not_before = lines.optional(NOT_BEFORE).map(time).transpose()?;
    let request_id = lines.optional(REQUEST_ID).map(str::to_owned);
    let resources = match lines.optional(RESOURCES) {
        None => None,
        Some("") => {
            let mut uris = Vec::new();
            while let Some(uri) = lines.optional("- ") {
                uris.push(uri.to_owned());
            }
            Some(uris)
        }
        Some(_) => return Err(MessageFault::Form),
    };
    if lines.0.next().is_some() {
        return Err(MessageFault::Form);
    }
    let domain = domain.to_owned();
    Ok(Fields {
        scheme,
        domain,
        address,
        statement,
        uri,
        chain_id,
        nonce,
        issued_at,
        expiration_time,
        not_before,
        request_id,
        resources,
    })
}

/// The remaining lines.
struct Lines<'t>(std::iter::Peekable<std::str::Split<'t, char>>);

impl<'t> Lines<'t> {
    fn next(&mut self) -> Result<&'t str, MessageFault> {
        self.0.next().ok_or(MessageFault::Form)
    }

    fn empty(&mut self) -> Result<(), MessageFault> {
        if self.next()?.is_empty() { Ok(()) } else { Err(MessageFault::Form) }
    }

    fn titled(&mut self, title: &str) -> Result<&'t str, MessageFault> {
        self.next()?.strip_prefix(title).ok_or(MessageFault::Form)
    }

    fn optional(&mut self, title: &str) -> Option<&'t str> {
        let rest = self.0.peek()?.strip_prefix(title)?;
        self.0.next();
        Some(rest)
    }
}

const EXPIRATION_TIME: &str = "Expiration Time: ";
const NOT_BEFORE: &str = "Not Before: ";
const REQUEST_ID: &str = "Request ID: ";
const RESOURCES: &str = "Resources:";
