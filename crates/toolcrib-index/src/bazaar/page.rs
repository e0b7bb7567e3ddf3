//! Asking a facilitator for a page.

use toolcrib_core::codes::{self, Code};
use toolcrib_fetch::{Configured, ConfiguredUrl, Headers, Limits};
use toolcrib_x402::{CataloguePage, read_catalogue};

/// Where the list is, below a facilitator's URL.
const LIST: &str = "discovery/resources";

/// How it shows that a page has more bytes than are read.
const TOO_LARGE: [Code; 3] = [codes::fetch::LENGTH_TOO_LARGE, codes::fetch::BODY_TOO_LARGE, codes::fetch::WIRE_TOO_LARGE];

/// The status of a page.
const OK: u16 = 200;

/// What a facilitator answered.
#[derive(Debug)]
pub(super) enum PageAnswer {
    /// A page.
    Page(CataloguePage),
    /// More bytes than are read: fewer items fit.
    TooLarge,
    /// No page.
    Failed {
        code: Code,
        /// Seconds to wait, if the facilitator says so.
        retry_after: Option<i64>,
    },
}

/// Asks for the items from `offset` on.
pub(super) async fn ask(
    client: &Configured,
    facilitator: &ConfiguredUrl,
    limit: usize,
    offset: usize,
    limits: Limits,
) -> PageAnswer {
    let query = [("limit", limit.to_string()), ("offset", offset.to_string())];
    let failed = |code| PageAnswer::Failed { code, retry_after: None };
    // A constant path and numbers are never refused.
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
