//! Requests a page of a facilitator's catalogue.

use toolcrib_core::codes::{self, Code};
use toolcrib_fetch::{Configured, ConfiguredUrl, Headers, Limits};
use toolcrib_x402::{CataloguePage, read_catalogue};

/// The path of the list, below a facilitator's URL.
const LIST: &str = "discovery/resources";

/// The codes of a page that exceeds the size limit.
const TOO_LARGE: [Code; 3] = [codes::fetch::LENGTH_TOO_LARGE, codes::fetch::BODY_TOO_LARGE, codes::fetch::WIRE_TOO_LARGE];

/// The status of a successful response.
const OK: u16 = 200;

/// The result of a request for a page.
#[derive(Debug)]
pub(super) enum PageAnswer {
    /// A page.
    Page(CataloguePage),
    /// The page exceeds the size limit: request fewer items.
    TooLarge,
    /// The request failed.
    Failed {
        code: Code,
        /// Seconds to wait, if the facilitator sent `Retry-After`.
        retry_after: Option<i64>,
    },
}

/// Requests the items from `offset` on.
pub(super) async fn ask(
    client: &Configured,
    facilitator: &ConfiguredUrl,
    limit: usize,
    offset: usize,
    limits: Limits,
) -> PageAnswer {
    let query = [("limit", limit.to_string()), ("offset", offset.to_string())];
    let failed = |code| PageAnswer::Failed { code, retry_after: None };
    // A constant path and numbers are always valid.
    let Ok(url) = facilitator.join(LIST).below(&[], &query) else { return failed(codes::bazaar::PAGE) };
    let headers = Headers::new().with("accept", "application/json").unwrap_or_default();
    let exchange = client.get(&url, &headers, limits).await;
    if let Some(failure) = &exchange.failure {
        return if TOO_LARGE.contains(&failure.code) { PageAnswer::TooLarge } else { failed(failure.code) };
    }
    let Some(response) = exchange.complete() else { return failed(codes::fetch::TOTAL_TIMEOUT) };
    if response.status != OK {
        let wait = response.headers.iter().find(|(name, _)| name == "retry-after");
        let retry_after = wait.and_then(|(_, value)| value.trim().parse().ok());
        return PageAnswer::Failed { code: codes::bazaar::STATUS, retry_after };
    }
    match read_catalogue(response.body.as_bytes()) {
        Ok(page) => PageAnswer::Page(page),
        Err(code) => failed(code),
    }
}
