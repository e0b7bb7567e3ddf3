//! Responses, and the common body of error responses.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use axum::http::{Response as HttpResponse, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::finding::Finding;
use toolcrib_core::text::escape_for_display;

use crate::inert;

/// The maximum length of a piece of a request that a response repeats, in characters.
const MAX_ECHO_CHARS: usize = 80;

/// `Retry-After` in seconds when an object could not be read: a new verification of its tool takes seconds.
const OBJECT_RETRY_SECONDS: u64 = 30;

/// `Retry-After` in seconds while the disk is full: an operator has to free space first.
const DISK_RETRY_SECONDS: u64 = 30;

/// The maximum number of details in one error response: a caller fixes a few at a time.
const MAX_DETAILS: usize = 20;

/// `Retry-After` in seconds while search is not ready. Indexing a few thousand tools takes one second, a million a minute; clients that
/// wait longer than needed would see an outage that is over.
const NOT_READY_SECONDS: u64 = 5;

/// Why a request is rejected.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) details: Vec<Detail>,
    /// Seconds for `Retry-After`.
    pub(crate) retry_after: Option<u64>,
    /// The change at which the feed continues, for readers that have to start again.
    pub(crate) cursor: Option<i64>,
    /// The underlying error, if the request is not at fault.
    pub(crate) cause: Option<Code>,
}

/// The body of every answer that is no success. `errors` is what clients of the public interface read; the rest says it in codes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Errors")]
pub(crate) struct ErrorBody {
    /// What is wrong, in sentences.
    pub(crate) errors: Vec<String>,
    /// The code of the first.
    pub(crate) code: &'static str,
    /// The same with codes.
    pub(crate) details: Vec<Detail>,
    /// With the codes `index.cursor_ahead` and `index.cursor_expired` (status 410): where the change feed goes on after everything was read
    /// again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cursor: Option<String>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Detail {
    /// Its code, from the vocabulary of all of Toolcrib.
    pub(crate) code: &'static str,
    /// The parameter or the place in the body that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parameter: Option<String>,
    /// The case at hand.
    pub(crate) message: String,
    /// What to do.
    pub(crate) hint: &'static str,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: Code) -> Self {
        Self { status, details: vec![detail(code, None, code.title().to_owned())], retry_after: None, cursor: None, cause: None }
    }

    /// An invalid parameter.
    pub(crate) fn parameter(name: &str, message: impl Into<String>) -> Self {
        let message = format!("{name}: {}", message.into());
        let detail = detail(codes::directory::PARAMETER, Some(name.to_owned()), message);
        Self { status: StatusCode::BAD_REQUEST, details: vec![detail], retry_after: None, cursor: None, cause: None }
    }

    pub(crate) fn cursor() -> Self {
        let code = codes::directory::CURSOR;
        let detail = detail(code, Some("cursor".to_owned()), code.title().to_owned());
        Self { status: StatusCode::BAD_REQUEST, details: vec![detail], retry_after: None, cursor: None, cause: None }
    }

    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, codes::directory::NOT_FOUND)
    }

    pub(crate) fn unavailable() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, codes::directory::UNAVAILABLE).retry_after(5)
    }

    pub(crate) fn busy() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, codes::directory::BUSY).retry_after(2)
    }

    /// A cursor of the feed that is not valid any more or not yet; `last` is the number of the last change. The reader has to start again.
    pub(crate) fn reset(code: Code, last: i64) -> Self {
        let detail = detail(code, Some("cursor".to_owned()), code.title().to_owned());
        Self { status: StatusCode::GONE, details: vec![detail], retry_after: None, cursor: Some(last), cause: None }
    }

    /// The findings in a body.
    pub(crate) fn findings(findings: &[Finding]) -> Self {
        let details = findings.iter().take(MAX_DETAILS).map(|finding| {
            let message = if finding.message.is_empty() { finding.code.title().to_owned() } else { echo(&finding.message) };
            let parameter = Some(echo(&finding.pointer)).filter(|pointer| !pointer.is_empty());
            detail(finding.code, parameter, message)
        });
        Self { status: StatusCode::BAD_REQUEST, details: details.collect(), retry_after: None, cursor: None, cause: None }
    }

    pub(crate) fn message(mut self, message: impl Into<String>) -> Self {
        if let Some(first) = self.details.first_mut() {
            first.message = message.into();
        }
        self
    }

    fn caused_by(mut self, error: &toolcrib_index::Error) -> Self {
        self.cause = Some(error.code());
        self
    }

    pub(crate) const fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

fn detail(code: Code, parameter: Option<String>, message: String) -> Detail {
    Detail { code: code.id(), parameter, message, hint: code.info().hint }
}

/// Returns a piece of a request, truncated and escaped, to be repeated in a response.
pub(crate) fn echo(text: &str) -> String {
    let short: String = text.chars().take(MAX_ECHO_CHARS).collect();
    escape_for_display(&short)
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let code = self.details.first().map_or(codes::directory::INTERNAL.id(), |detail| detail.code);
        let errors = self.details.iter().map(|detail| detail.message.clone()).collect();
        let body = ErrorBody { errors, code, details: self.details, cursor: self.cursor.map(|cursor| cursor.to_string()) };
        let mut response = json(self.status, &body);
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response.extensions_mut().insert(ErrorCode(code));
        if let Some(cause) = self.cause {
            response.extensions_mut().insert(Cause(cause));
        }
        response
    }
}

/// The code of an error response, for logs and metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorCode(pub(crate) &'static str);

/// The underlying error of an error response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cause(pub(crate) Code);

/// Errors of the index are never the caller's fault, except for a cursor. Their text is not sent.
impl From<toolcrib_index::Error> for ApiError {
    fn from(error: toolcrib_index::Error) -> Self {
        match &error {
            toolcrib_index::Error::Cursor => return Self::cursor(),
            toolcrib_index::Error::NotReady => {
                return Self::new(StatusCode::SERVICE_UNAVAILABLE, codes::index::NOT_READY).retry_after(NOT_READY_SECONDS);
            }
            // A verification of the lost object was enqueued. The text has a key of the store, which callers must not see.
            toolcrib_index::Error::Objects(error) => {
                tracing::warn!(code = %error.code(), error = %escape_for_display(&error.to_string()), "an object could not be read");
                return Self::new(StatusCode::SERVICE_UNAVAILABLE, error.code()).retry_after(OBJECT_RETRY_SECONDS);
            }
            toolcrib_index::Error::Forgotten { .. } => {
                return Self::new(StatusCode::GONE, codes::index::CURSOR_EXPIRED).message(error.to_string());
            }
            _ => {}
        }
        tracing::warn!(code = %error.code(), error = %escape_for_display(&error.to_string()), "index error");
        if error.code() == codes::store::DISK {
            return Self::new(StatusCode::SERVICE_UNAVAILABLE, codes::store::DISK)
                .retry_after(DISK_RETRY_SECONDS)
                .caused_by(&error);
        }
        let passes = [codes::store::BUSY, codes::store::LOST].contains(&error.code());
        let refusal = if passes || matches!(error, toolcrib_index::Error::Chain(_)) {
            Self::unavailable()
        } else {
            Self::new(StatusCode::INTERNAL_SERVER_ERROR, codes::directory::INTERNAL)
        };
        refusal.caused_by(&error)
    }
}

impl From<toolcrib_store::Error> for ApiError {
    fn from(error: toolcrib_store::Error) -> Self {
        toolcrib_index::Error::from(error).into()
    }
}

/// The result of a handler.
pub(crate) type Answer = Result<Response, ApiError>;

/// Creates a JSON response.
pub(crate) fn json<T: Serialize + ?Sized>(status: StatusCode, value: &T) -> Response {
    body(status, "application/json", inert::to_vec(value))
}

/// Creates a response with a body.
pub(crate) fn body(status: StatusCode, kind: &'static str, bytes: impl Into<Body>) -> Response {
    let mut response = HttpResponse::new(bytes.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Sets how long caches may keep a response.
pub(crate) fn fresh_for(mut response: Response, value: &'static str) -> Response {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(value));
    response
}
