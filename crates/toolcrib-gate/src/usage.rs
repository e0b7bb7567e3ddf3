//! Usage reports: telling a directory about served calls, if the operator wants that.
//!
//! A report contains the caller's identity signature, or the transaction in which the caller paid. So it is sent only once that signature
//! cannot be used any more, and only if the operator has opted in. It is awaited, because some platforms freeze a process as soon as it has
//! responded. The caller gets the same response in any case, at most [`USAGE_TIME`] later.

use std::time::Duration;

use tokio::time::timeout;
use toolcrib_fetch::{Concurrency, Configured, ConfiguredUrl, Headers, Limits};
use toolcrib_x402::usage::{TIMEOUT_SECONDS, UsageReport};

use crate::SystemClock;

/// Timeout of a report (invocation guide, Usage Reporting).
pub const USAGE_TIME: Duration = Duration::from_secs(TIMEOUT_SECONDS);

/// Most concurrent reports. Each is a connection of its own to one host; reports that get no slot within [`USAGE_TIME`] are not sent.
pub const MAX_REPORTS: usize = 64;

/// Most bytes of a directory's response that are read. Its content is not used.
const MAX_ANSWER_BYTES: usize = 16 * 1024;

/// Where usage is reported to. Debug output has neither the key nor the path.
#[derive(Clone, Debug)]
pub struct Usage {
    url: ConfiguredUrl,
    headers: Headers,
    door: Configured,
}

impl Usage {
    /// Reports to a URL of the settings, with a key in the header `x-api-key`. Fails if the key is not a valid header value.
    pub fn new(url: ConfiguredUrl, api_key: &str) -> Result<Self, toolcrib_fetch::Error> {
        let headers = Headers::new().with("content-type", "application/json")?.with("x-api-key", api_key)?;
        let concurrency = Concurrency { total: MAX_REPORTS, host: MAX_REPORTS };
        Ok(Self { url, headers, door: Configured::builder(SystemClock).concurrency(concurrency).build()? })
    }

    /// Sets another HTTP client, for a directory with a private certificate authority.
    #[must_use]
    pub fn door(mut self, door: Configured) -> Self {
        self.door = door;
        self
    }

    /// Sends a report. The error is for the operator; of the URL it contains only the origin.
    pub(crate) async fn send(&self, report: &UsageReport) -> Result<(), String> {
        let mut limits = Limits::MANIFEST;
        (limits.total, limits.body) = (USAGE_TIME, MAX_ANSWER_BYTES);
        let body = report.to_json();
        let origin = self.url.origin();
        let sending = self.door.post(&self.url, &self.headers, body.as_bytes(), limits);
        let exchange = timeout(USAGE_TIME, sending).await.map_err(|_| format!("{origin} took too long"))?;
        match (exchange.response, exchange.failure) {
            // The status counts, even if the rest of the response never came.
            (Some(response), _) if (200..300).contains(&response.status) => Ok(()),
            (Some(response), _) => Err(format!("{origin} answered {}", response.status)),
            (None, Some(failure)) => Err(format!("{origin}: {}", failure.code.title())),
            (None, None) => Err(format!("{origin} did not answer")),
        }
    }
}
