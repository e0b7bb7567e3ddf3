//! A local server that handles calls by POST.
//!
//! The body is the message that a program would get, and the response is a JSON object with `result` or `error`. Only loopback addresses
//! are allowed, because the message contains credentials. Redirects are not followed.

use async_trait::async_trait;
use serde_json::Value as Json;
use toolcrib_core::codes;
use toolcrib_core::local::is_loopback_url;
use toolcrib_fetch::{Configured, ConfiguredUrl, Headers, Limits};
use toolcrib_process::Containment;

use super::mcp_http::failure;
use super::{Events, Invocation, MAX_RESULT_BYTES, RunError, Runtime};

/// Calls a server.
pub(crate) struct HttpRuntime {
    client: Configured,
    url: ConfiguredUrl,
    headers: Headers,
}

impl HttpRuntime {
    /// Creates a runtime for the server at `url`, which must be on this machine.
    pub(crate) fn new(client: Configured, url: &str) -> Result<Self, RunError> {
        let unusable = |what: String| RunError::new(codes::host::RUNTIME_UNSUPPORTED, what);
        if !is_loopback_url(url) {
            return Err(unusable("the kind `http` calls 127.0.0.1, [::1] and localhost only".to_owned()));
        }
        let url = ConfiguredUrl::from_setting(url).map_err(|error| unusable(error.to_string()))?;
        let json = "application/json";
        let headers = Headers::new().with("content-type", json).and_then(|headers| headers.with("accept", json));
        Ok(Self { client, url, headers: headers.map_err(|error| unusable(error.to_string()))? })
    }
}

#[async_trait]
impl Runtime for HttpRuntime {
    async fn call(&self, call: Invocation, _: &Events) -> Result<Json, RunError> {
        let mut limits = Limits::MANIFEST;
        // A server may be silent while it computes.
        (limits.idle, limits.total, limits.body) = (call.limit, call.limit, MAX_RESULT_BYTES);
        let message = call.message(1);
        let exchange = self.client.post(&self.url, &self.headers, message.trim_end().as_bytes(), limits).await;
        let response = match (&exchange.response, &exchange.failure) {
            (Some(response), None) => response,
            (_, failure) => return Err(failure::of_exchange(failure.as_ref()).within(call.limit)),
        };
        let mut body: Json = serde_json::from_slice(&response.body.0).unwrap_or_default();
        match (response.status, body.get("error").filter(|error| !error.is_null())) {
            // Redirects are not followed.
            (300..=399, _) | (_, None) if response.status != 200 => Err(failure::of_status(response)),
            (_, Some(error)) => Err(RunError::reported(error)),
            (_, None) => body.get_mut("result").map(Json::take).ok_or_else(|| {
                RunError::new(codes::host::PROTOCOL, "the server answered with something else than JSON with `result` or `error`")
            }),
        }
    }

    fn containment(&self) -> Option<Containment> {
        None
    }

    fn place(&self) -> Option<String> {
        Some(format!("the server {}", self.url.origin()))
    }

    async fn shutdown(&self) {}
}
