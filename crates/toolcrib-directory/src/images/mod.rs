//! Images of tools, served by the directory itself.
//!
//! A page that loaded images from their authors' servers would tell every author which network addresses are interested in the tool.
//! Instead the directory fetches them, with the client for untrusted servers, and serves them from its own origin. It is not an open
//! proxy: a path names a tool of the index, and only URLs in a verified manifest are fetched. Bytes are served only if their own first
//! bytes are those of a raster image; in every other case the directory serves its own placeholder, and nothing that a server sent.

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG, HeaderName, HeaderValue, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;

use crate::answer::{Answer, ApiError, body};
use crate::api::tool_under;
use crate::front::{Caller, matches};
use crate::reader::Reader;

mod raster;
mod source;
mod store;

use source::{PREFIX, Source};
pub(crate) use source::{Which, address};
use store::Missing;
pub(crate) use store::{Images, MAX_FETCHES};

/// The placeholder of a missing image. It has the shape of an icon and no details, so that failures look the same.
const PLACEHOLDER: &str = include_str!("placeholder.svg");

/// The `ETag` of the placeholder. It differs in form from those of images, which are hexadecimal.
const PLACEHOLDER_TAG: &str = "\"placeholder-1\"";

/// An image must not load, run or submit anything, even if it is opened directly.
const POLICY: &str = "default-src 'none'; sandbox";

const CORP: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// How long browsers cache an image. Its path changes with the manifest, so only a file that a server replaces in place is outdated.
const FRESH: &str = "public, max-age=3600";

/// How long browsers cache a placeholder.
const FRESH_PLACEHOLDER: &str = "public, max-age=60";

/// `GET /images/{registry_chain}/{registry_addr}/{tool_id}/{icon|featured}`
pub(crate) async fn image(app: Reader, request: Request) -> Answer {
    let which = request.uri().path().rsplit('/').next().and_then(Which::parse).ok_or_else(ApiError::not_found)?;
    let view = tool_under(&app, request.uri(), PREFIX).await?;
    let visitor = request.extensions().get::<Caller>().and_then(|caller| caller.address);
    let outcome = match Source::of(&view, which, app.options.ipfs_gateway.as_deref()) {
        Some(Source::Server(url)) => store::image(app.shared(), visitor, view.tool.chain, url).await,
        Some(Source::Inline(bytes)) => store::checked(Bytes::from(bytes)).ok_or(Missing::Failed),
        None => Err(Missing::Failed),
    };
    Ok(match outcome {
        Ok(image) => respond(request.headers(), image.format.media_type(), image.bytes, image.etag, FRESH),
        Err(missing) => {
            let fresh = if missing == Missing::Failed { FRESH_PLACEHOLDER } else { "no-store" };
            let bytes = Bytes::from_static(PLACEHOLDER.as_bytes());
            respond(request.headers(), "image/svg+xml", bytes, HeaderValue::from_static(PLACEHOLDER_TAG), fresh)
        }
    })
}

fn respond(asked: &HeaderMap, kind: &'static str, bytes: Bytes, etag: HeaderValue, fresh: &'static str) -> Response {
    let is_known = asked.get(IF_NONE_MATCH).is_some_and(|known| matches(known, &etag));
    let mut response =
        if is_known { body(StatusCode::NOT_MODIFIED, kind, Bytes::new()) } else { body(StatusCode::OK, kind, bytes) };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(fresh));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    // Other sites that show tools through the API show their images too; images contain no data about the visitor.
    headers.insert(CORP, HeaderValue::from_static("cross-origin"));
    headers.insert(ETAG, etag);
    response
}
