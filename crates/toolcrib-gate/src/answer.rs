//! Responses: JSON in every case, with a code of the vocabulary if a call was not served.

use alloy_primitives::B256;
use axum::body::Body;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS,
    ACCESS_CONTROL_MAX_AGE, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, Response as HttpResponse, StatusCode};
use axum::response::Response;
use serde_json::{Map, Value};
use toolcrib_core::codes::Code;
use toolcrib_x402::{Paywall, PaywallAnswer, Raw, SettleResponse, Version, header};

/// Headers that scripts in browsers may send (CORS). Browser credentials are never used, so every origin is allowed.
const ALLOWED_HEADERS: &str = "Content-Type, X-PAYMENT, PAYMENT-SIGNATURE, X-Tool-Nonce-Salt, X-Tool-Reference, \
                               X-Tool-Retry-Token, X-Tool-Access-Data, X-Delegate-For, SIGN-IN-WITH-X, Authorization";
/// Headers that scripts in browsers may read (CORS).
const EXPOSED_HEADERS: &str = "PAYMENT-REQUIRED, PAYMENT-RESPONSE, X-PAYMENT-RESPONSE, X-Tool-Retry-Token, \
                               X-Tool-Redeemable-Seconds, ETag, Retry-After";
/// How many seconds browsers cache a preflight response. Chromium caps it at two hours.
const PREFLIGHT_SECONDS: &str = "7200";

/// Why a call is not served.
#[derive(Clone, Debug)]
pub(crate) struct ErrorResponse {
    pub(crate) status: StatusCode,
    pub(crate) code: Code,
    /// A message for this case, instead of the code's title.
    pub(crate) message: Option<String>,
    /// Further members of the body.
    pub(crate) members: Vec<(&'static str, Value)>,
    /// Seconds for `Retry-After`.
    pub(crate) retry_after: Option<u64>,
}

impl ErrorResponse {
    pub(crate) const fn new(status: StatusCode, code: Code) -> Self {
        Self { status, code, message: None, members: Vec::new(), retry_after: None }
    }

    pub(crate) fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    pub(crate) fn with(mut self, key: &'static str, value: Value) -> Self {
        self.members.push((key, value));
        self
    }

    pub(crate) const fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    pub(crate) fn into_response(self) -> Response {
        let mut body = Map::new();
        body.insert("code".to_owned(), self.code.id().into());
        body.insert("message".to_owned(), self.message.unwrap_or_else(|| self.code.title().to_owned()).into());
        body.insert("hint".to_owned(), self.code.info().hint.into());
        body.extend(self.members.into_iter().map(|(key, value)| (key.to_owned(), value)));
        let mut response = json(self.status, Value::Object(body).to_string().into_bytes(), "no-store");
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.extensions_mut().insert(self.code);
        response
    }
}

/// A response that ends a call early.
#[derive(Debug)]
pub(crate) struct Stop(Box<Response>);

impl Stop {
    /// Returns the 402 response, with a reason and an extension for this challenge.
    pub(crate) fn challenge(paywall: &Paywall, reason: Option<Code>, extension: Option<(String, Raw)>) -> Self {
        Self(Box::new(challenge(paywall, reason, extension)))
    }

    /// A handler's response that is not an output, with the CORS headers of every response.
    pub(crate) fn passed_on(mut response: Box<Response>) -> Self {
        let readable = [(ACCESS_CONTROL_ALLOW_ORIGIN, "*"), (ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS)];
        for (name, value) in readable {
            response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
        }
        Self(response)
    }

    pub(crate) fn with_headers(mut self, change: impl FnOnce(&mut HeaderMap)) -> Self {
        change(self.0.headers_mut());
        self
    }

    pub(crate) fn into_response(self) -> Response {
        *self.0
    }
}

impl From<ErrorResponse> for Stop {
    fn from(refusal: ErrorResponse) -> Self {
        Self(Box::new(refusal.into_response()))
    }
}

/// Announces that the connection closes after this response.
pub(crate) fn close(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
}

/// Adds the settlement receipt, under the header name of the caller's x402 version.
pub(crate) fn receipt(headers: &mut HeaderMap, version: Version, receipt: &SettleResponse) {
    let name = HeaderName::from_bytes(version.receipt_header().as_bytes());
    if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&receipt.to_header(version))) {
        headers.insert(name, value);
    }
}

/// Adds the retry token with which a caller without a salt redeems the result.
pub(crate) fn retry_token(headers: &mut HeaderMap, token: Option<B256>) {
    let name = HeaderName::from_bytes(header::X_TOOL_RETRY_TOKEN.as_bytes());
    if let (Ok(name), Some(Ok(mut value))) = (name, token.map(|token| HeaderValue::from_str(&token.to_string()))) {
        value.set_sensitive(true);
        headers.insert(name, value);
    }
}

/// Adds for how many seconds the result can be redeemed.
pub(crate) fn redeemable(headers: &mut HeaderMap, seconds: Option<u64>) {
    let name = HeaderName::from_bytes(header::X_TOOL_REDEEMABLE_SECONDS.as_bytes());
    if let (Ok(name), Some(seconds)) = (name, seconds.filter(|seconds| *seconds > 0)) {
        headers.insert(name, HeaderValue::from(seconds));
    }
}

/// Returns a JSON response.
pub(crate) fn json(status: StatusCode, body: Vec<u8>, cache_control: &'static str) -> Response {
    let mut response = empty(status);
    *response.body_mut() = Body::from(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache_control));
    response
}

/// Returns the 402 response for both x402 versions.
pub(crate) fn challenge(paywall: &Paywall, reason: Option<Code>, extension: Option<(String, Raw)>) -> Response {
    let PaywallAnswer { headers, body } = paywall.answer_with(reason, extension);
    let mut response = empty(StatusCode::PAYMENT_REQUIRED);
    *response.body_mut() = Body::from(body);
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(&value)) {
            response.headers_mut().insert(name, value);
        }
    }
    if let Some(reason) = reason {
        response.extensions_mut().insert(reason);
    }
    response
}

/// Returns the response to a method that is not allowed.
pub(crate) fn not_allowed(code: Code, allow: &'static str) -> Response {
    let mut response = ErrorResponse::new(StatusCode::METHOD_NOT_ALLOWED, code).into_response();
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}

/// Returns the response to OPTIONS, for CORS preflights and other requests.
pub(crate) fn options(allow: &'static str) -> Response {
    let mut response = empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(ALLOW, HeaderValue::from_static(allow));
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(allow));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(ALLOWED_HEADERS));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_SECONDS));
    response
}

/// Returns a response without a body, readable from every origin (CORS) and protected against MIME sniffing.
pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = HttpResponse::new(Body::empty());
    *response.status_mut() = status;
    let mut headers = HeaderMap::new();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED_HEADERS));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    *response.headers_mut() = headers;
    response
}
