//! One request to an untrusted server and its response, as plain data.
//!
//! A failed exchange is evidence too: it keeps everything up to the failure, so that a reader can distinguish a server that is down from a
//! rejected address. Nothing here judges.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::Code;
use toolcrib_core::finding::Finding;
use toolcrib_core::hex;

/// The HTTP method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// Read.
    Get,
    /// Send.
    Post,
    /// Remove.
    Delete,
}

impl Method {
    /// The method as sent.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }
}

/// One request and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// The method.
    pub method: Method,
    /// The URL, normalised.
    pub url: String,
    /// The time of the request.
    pub at: UnixTime,
    /// Whether the exception for the development environment was used: a loopback address, and a certificate of the local authority.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dev: bool,
    /// Every address of the only DNS lookup, in order. Empty for an IP literal.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
    /// The address of the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected: Option<SocketAddr>,
    /// The result of the TLS handshake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// The response, as soon as its head was received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Response>,
    /// Why the exchange did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The duration of each phase.
    #[serde(default)]
    pub timing: Timing,
}

impl Exchange {
    /// An exchange that has not started.
    pub fn new(method: Method, url: impl Into<String>, at: UnixTime) -> Self {
        Self {
            method,
            url: url.into(),
            at,
            dev: false,
            addresses: Vec::new(),
            connected: None,
            tls: None,
            response: None,
            failure: None,
            timing: Timing::default(),
        }
    }

    /// The same exchange with this failure.
    #[must_use]
    pub fn failed(mut self, failure: Failure) -> Self {
        self.failure = Some(failure);
        self
    }

    /// The response, if it is complete.
    pub const fn complete(&self) -> Option<&Response> {
        match (&self.response, &self.failure) {
            (Some(response), None) => Some(response),
            _ => None,
        }
    }
}

/// The result of a TLS handshake. The certificate was verified against the trust roots and the host before anything was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: String,
    /// The cipher suite.
    pub cipher: String,
    /// The server name sent; `None` for an IP literal.
    pub sni: Option<String>,
    /// The server's own certificate, DER.
    pub certificate: Body,
    /// The number of certificates that the server sent.
    pub chain_length: usize,
}

/// The response of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The headers in order, names in lower case. Values are untrusted text; bytes that are not UTF-8 are escaped as `\xNN`.
    pub headers: Vec<(String, String)>,
    /// The body. Empty, never partial, if reading it failed.
    pub body: Body,
}

impl Response {
    /// The values of a header; `name` is in lower case.
    pub fn header<'r>(&'r self, name: &str) -> impl Iterator<Item = &'r str> {
        self.headers.iter().filter(move |(given, _)| given == name).map(|(_, value)| value.as_str())
    }
}

/// Why an exchange did not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure.
    pub code: Code,
    /// The details, in one sentence without full stop. May contain untrusted text.
    pub detail: String,
}

impl Failure {
    /// A failure.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into() }
    }

    /// The failure as a finding.
    pub fn finding(&self) -> Finding {
        let finding = Finding::new(self.code);
        if self.detail.is_empty() { finding } else { finding.message(self.detail.clone()) }
    }
}

impl Serialize for Failure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        FailureText { code: self.code.id().into(), detail: Cow::Borrowed(&self.detail) }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Failure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = FailureText::deserialize(deserializer)?;
        let Some(code) = Code::find(&text.code) else {
            return Err(D::Error::custom(format_args!(
                "`{}` is not a code of this version",
                toolcrib_core::text::escape_for_display(&text.code)
            )));
        };
        Ok(Self { code, detail: text.detail.into_owned() })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FailureText<'a> {
    code: Cow<'a, str>,
    detail: Cow<'a, str>,
}

/// The time at which each phase of an exchange ended, in microseconds from its start. `None` for phases that were not reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// Until the name was resolved.
    pub resolved: Option<u64>,
    /// Until the connection was established.
    pub connected: Option<u64>,
    /// Until the handshake was completed.
    pub secured: Option<u64>,
    /// Until the head of the response was received.
    pub answered: Option<u64>,
    /// Until the end.
    pub total: u64,
}

/// Untrusted bytes. In a file they are `{"text": …}` if they are UTF-8 and `{"hex": …}` otherwise, so that evidence files are readable and
/// lossless.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Body(pub Vec<u8>);

impl Body {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Body({} bytes)", self.0.len())
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl Serialize for Body {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => BodyText::Text(text.into()),
            Err(_) => BodyText::Hex(alloy_primitives::hex::encode(&self.0).into()),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match BodyText::deserialize(deserializer)? {
            BodyText::Text(text) => Ok(Self(text.into_owned().into_bytes())),
            BodyText::Hex(digits) => hex::decode(&digits).map(Self).ok_or_else(|| D::Error::custom("not hexadecimal")),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum BodyText<'a> {
    Text(Cow<'a, str>),
    Hex(Cow<'a, str>),
}

#[cfg(test)]
mod tests {
    use toolcrib_core::codes;

    use super::*;

    #[test]
    fn bytes_survive_a_file() {
        for bytes in [&b""[..], b"{\"a\": \"\xc3\xa9\\u0000\"}", b"\xff\x00\xfe", b"\x1b[2J"] {
            let body = Body(bytes.to_vec());
            let file = serde_json::to_string(&body).unwrap();
            assert_eq!(serde_json::from_str::<Body>(&file).unwrap(), body, "{file}");
        }
        assert!(serde_json::from_str::<Body>(r#"{"hex": "0"}"#).is_err());
        assert!(serde_json::from_str::<Body>(r#"{"text": "a", "hex": "00"}"#).is_err());
    }

    #[test]
    fn an_exchange_survives_a_file() {
        let mut exchange = Exchange::new(Method::Get, "https://tools.example.com/", UnixTime::from_seconds(1))
            .failed(Failure::new(codes::json::TOO_LARGE, "too much"));
        exchange.addresses = vec!["203.0.113.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        exchange.connected = Some("203.0.113.1:443".parse().unwrap());
        exchange.response = Some(Response { status: 200, headers: vec![("a".into(), "b".into())], body: Body::default() });
        let file = serde_json::to_string(&exchange).unwrap();
        assert_eq!(serde_json::from_str::<Exchange>(&file).unwrap(), exchange, "{file}");
        assert!(exchange.complete().is_none(), "a failed exchange has no complete answer");
        let unknown = file.replace("json.too_large", "json.no_such_code");
        assert!(serde_json::from_str::<Exchange>(&unknown).unwrap_err().to_string().contains("not a code"));
    }
}
