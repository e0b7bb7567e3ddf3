//! What client and server negotiated: the protocol version, and the session of servers that have one.
//!
//! Servers of the newer era (2026-07-28) have no sessions: each request contains its version, and its headers repeat its method. Servers
//! of the older era get an `initialize` request first.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64ct::{Base64, Encoding as _};
use serde_json::{Map, Value as Json, json};
use toolcrib_core::codes;
use toolcrib_fetch::Headers;

use super::super::RunError;
use crate::local::secrets::Secret;

/// The version of the newer era.
pub(super) const MODERN: &str = "2026-07-28";

/// Supported versions of the older era, the newest first. Earlier ones use another transport.
pub(super) const LEGACY: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

/// A negotiated session.
#[derive(Clone)]
pub(super) struct Session {
    version: &'static str,
    /// The session of a server of the older era that has one.
    id: Option<String>,
    /// Credentials by header: other credentials mean another user, who needs another session.
    credentials: BTreeMap<String, Arc<Secret>>,
}

impl Session {
    /// A session before the negotiation.
    pub(super) const fn new(version: &'static str, credentials: BTreeMap<String, Arc<Secret>>) -> Self {
        Self { version, id: None, credentials }
    }

    /// The session that the server opened.
    pub(super) fn opened(mut self, version: &'static str, id: Option<String>) -> Self {
        (self.version, self.id) = (version, id);
        self
    }

    pub(super) fn is_modern(&self) -> bool {
        self.version == MODERN
    }

    pub(super) const fn has_id(&self) -> bool {
        self.id.is_some()
    }

    /// Whether the session was opened with these credentials.
    pub(super) fn is_of(&self, credentials: &BTreeMap<String, Arc<Secret>>) -> bool {
        let own = self.credentials.iter().map(|(name, secret)| (name, secret.expose()));
        own.eq(credentials.iter().map(|(name, secret)| (name, secret.expose())))
    }

    /// The headers of a message. `name` is the tool of a call.
    pub(super) fn headers(&self, method: &str, name: Option<&str>) -> Result<Headers, RunError> {
        let mut pairs =
            vec![("content-type", "application/json".to_owned()), ("accept", "application/json, text/event-stream".to_owned())];
        // The first message of the older era has no version yet.
        if method != "initialize" {
            pairs.push(("mcp-protocol-version", self.version.to_owned()));
        }
        if self.is_modern() {
            pairs.push(("mcp-method", method.to_owned()));
            pairs.extend(name.map(|name| ("mcp-name", header_value(name))));
        }
        pairs.extend(self.id.clone().map(|id| ("mcp-session-id", id)));
        let mut headers = Headers::new();
        for (name, value) in &pairs {
            headers = headers.with(name, value).map_err(|error| RunError::new(codes::host::PROTOCOL, error.to_string()))?;
        }
        for (name, secret) in &self.credentials {
            headers = headers
                .with(name, secret.expose())
                .map_err(|error| RunError::new(codes::host::CREDENTIAL_INVALID, error.to_string()))?;
        }
        Ok(headers)
    }

    /// The parameters of a request, with the members that the newer era adds to each.
    pub(super) fn params(&self, mut params: Map<String, Json>, progress_token: Option<u64>) -> Json {
        let mut meta = Map::new();
        if self.is_modern() {
            meta.insert("io.modelcontextprotocol/protocolVersion".to_owned(), self.version.into());
            meta.insert("io.modelcontextprotocol/clientInfo".to_owned(), client_info());
            meta.insert("io.modelcontextprotocol/clientCapabilities".to_owned(), json!({}));
        }
        if let Some(token) = progress_token {
            meta.insert("progressToken".to_owned(), token.into());
        }
        if !meta.is_empty() {
            params.insert("_meta".to_owned(), meta.into());
        }
        params.into()
    }
}

/// The name of this client. It declares no capabilities, so that a server sends it no requests.
pub(super) fn client_info() -> Json {
    json!({"name": "toolcrib", "version": env!("CARGO_PKG_VERSION")})
}

/// Encodes a header value for the newer era: unchanged, or in Base64 if it is not allowed in headers.
fn header_value(value: &str) -> String {
    let is_plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && value.trim() == value
        && !(value.starts_with("=?base64?") && value.ends_with("?="));
    if is_plain { value.to_owned() } else { format!("=?base64?{}?=", Base64::encode_string(value.as_bytes())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_headers_cannot_have_are_encoded() {
        for (name, value) in [
            ("files.read", "files.read"),
            ("", ""),
            ("with space", "with space"),
            (" a", "=?base64?IGE=?="),
            ("é", "=?base64?w6k=?="),
            ("a\r\nb", "=?base64?YQ0KYg==?="),
            ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
        ] {
            assert_eq!(header_value(name), value, "{name:?}");
            assert!(Headers::new().with("mcp-name", value).is_ok());
        }
    }

    #[test]
    fn a_credential_that_a_header_cannot_have_is_named_and_not_shown() {
        let secret = Arc::new(Secret::new("first\r\nx-other: second".to_owned()));
        let session = Session::new(MODERN, [("authorization".to_owned(), secret)].into());
        let error = session.headers("tools/call", Some("a")).unwrap_err();
        assert_eq!(error.code, codes::host::CREDENTIAL_INVALID);
        assert!(error.message.contains("authorization") && !error.message.contains("second"), "{}", error.message);
    }
}
