//! Rejected requests and failed changes.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use toolcrib_core::codes::{self, Code};

use super::views;
use crate::local::ChangeError;

/// Why a request is rejected.
#[derive(Debug)]
pub(super) struct PageRejection {
    pub(super) status: StatusCode,
    pub(super) code: Code,
    /// The details. May contain text of a tool's author.
    pub(super) message: String,
    /// The page for the link back.
    pub(super) back: Option<String>,
}

impl PageRejection {
    pub(super) fn new(status: StatusCode, code: Code) -> Self {
        Self { status, code, message: code.title().to_owned(), back: None }
    }

    pub(super) fn form(why: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, codes::host::PAGE_FORM).message(format!("the form cannot be read: {why}"))
    }

    pub(super) fn unknown(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, codes::host::TOOL_UNKNOWN).message(what)
    }

    /// An internal error.
    pub(super) fn internal(why: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, codes::host::STATE).message(why)
    }

    pub(super) fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Sets the page for the link back, unless it is set already.
    pub(super) fn back(mut self, page: &str) -> Self {
        self.back.get_or_insert_with(|| page.to_owned());
        self
    }
}

impl From<ChangeError> for PageRejection {
    fn from(error: ChangeError) -> Self {
        Self::new(StatusCode::CONFLICT, error.code()).message(error.to_string())
    }
}

impl IntoResponse for PageRejection {
    fn into_response(self) -> Response {
        views::refused(&self)
    }
}
