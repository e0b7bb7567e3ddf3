//! Manifests: the exact bytes, at the well-known path that verifiers read.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use toolcrib_core::codes;

use crate::answer::{empty, json, not_allowed, options};
use crate::tools::Served;

const ALLOW: &str = "GET, HEAD, OPTIONS";

/// Caches may store it but must revalidate: right after an update an old copy does not verify.
const CACHE_CONTROL: &str = "public, no-cache";

/// Returns the path of a slug's manifest.
pub(crate) fn path(slug: &str) -> String {
    format!("/.well-known/ai-tool/{slug}.json")
}

pub(crate) fn answer(tool: &Served, request: &Request) -> Response {
    match *request.method() {
        Method::OPTIONS => return options(ALLOW),
        Method::GET | Method::HEAD => {}
        _ => return not_allowed(codes::gate::METHOD, ALLOW),
    }
    let mut response = if is_known(request.headers(), &tool.etag) {
        let mut response = empty(StatusCode::NOT_MODIFIED);
        response.headers_mut().insert(axum::http::header::CACHE_CONTROL, HeaderValue::from_static(CACHE_CONTROL));
        response
    } else {
        let mut response = json(StatusCode::OK, Vec::new(), CACHE_CONTROL);
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(tool.bytes.len()));
        if request.method() == Method::GET {
            *response.body_mut() = Body::from(tool.bytes.clone());
        }
        response
    };
    response.headers_mut().insert(ETAG, tool.etag.clone());
    response
}

/// Whether the client has these bytes (RFC 9110 §13.1.2). Weak ETags are compared as strong ones: the bytes are the same.
fn is_known(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    let tags = headers.get_all(IF_NONE_MATCH).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    tags.map(<[u8]>::trim_ascii).any(|tag| tag == b"*" || tag.strip_prefix(b"W/").unwrap_or(tag) == etag.as_bytes())
}
