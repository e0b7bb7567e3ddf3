//! Usage reports: telling a directory about calls that were served, for those operators who want that.
//!
//! A report carries the caller's signature over nothing, or the transaction that the caller paid in. So it leaves only once that
//! signature cannot be used any more, and only where the operator has said so. It is awaited, because some platforms freeze a process
//! as soon as it has answered; whatever becomes of it, the caller gets the same reply, at most [`USAGE_TIME`] later.

use std::time::Duration;

use tokio::time::timeout;
use toolcrib_fetch::{Concurrency, Configured, ConfiguredUrl, Headers, Limits};
use toolcrib_x402::usage::{TIMEOUT_SECONDS, UsageReport};

use crate::SystemClock;

/// How long a report may take in all (invocation guide, Usage Reporting).
pub const USAGE_TIME: Duration = Duration::from_secs(TIMEOUT_SECONDS);

/// Reports under way at most. Each is a connection of its own to one host; those for which there is no room within [`USAGE_TIME`] are
/// not sent.
pub const MAX_REPORTS: usize = 64;

/// Bytes of a directory's answer that are read at most. Nothing in it is used.
const MAX_ANSWER_BYTES: usize = 16 * 1024;

/// Where usage is reported to. Debug output has neither the key nor the path.
#[derive(Clone, Debug)]
pub struct Usage {
    url: ConfiguredUrl,
    headers: Headers,
    door: Configured,
}

impl Usage {
    /// Reports to a URL of the settings, with a key that goes into the header `x-api-key`. Fails for a key that no header can hold.
    pub fn new(url: ConfiguredUrl, api_key: &str) -> Result<Self, toolcrib_fetch::Error> {
        let headers = Headers::new().with("content-type", "application/json")?.with("x-api-key", api_key)?;
        let concurrency = Concurrency { total: MAX_REPORTS, host: MAX_REPORTS };
        Ok(Self { url, headers, door: Configured::builder(SystemClock).concurrency(concurrency).build()? })
    }

    /// Another door, for a directory whose certificate is of an authority of one's own.
    #[must_use]
    pub fn door(mut self, door: Configured) -> Self {
        self.door = door;
        self
    }

    /// Sends a report. The error is for the operator; it names the origin and nothing else of the URL.
    pub(crate) async fn send(&self, report: &UsageReport) -> Result<(), String> {
        let mut limits = Limits::MANIFEST;
        (limits.total, limits.body) = (USAGE_TIME, MAX_ANSWER_BYTES);
        let body = report.to_json();
        let origin = self.url.origin();
        let sending = self.door.post(&self.url, &self.headers, body.as_bytes(), limits);
        let exchange = timeout(USAGE_TIME, sending).await.map_err(|_| format!("{origin} took too long"))?;
        match (exchange.response, exchange.failure) {
            // The status is an answer, even where the rest of it never came.
            (Some(response), _) if (200..300).contains(&response.status) => Ok(()),
            (Some(response), _) => Err(format!("{origin} answered {}", response.status)),
            (None, Some(failure)) => Err(format!("{origin}: {}", failure.code.title())),
            (None, None) => Err(format!("{origin} did not answer")),
        }
    }
}
