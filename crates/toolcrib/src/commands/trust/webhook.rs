//! Notifies a webhook of the user about drift.

use serde_json::Value;
use toolcrib_core::codes;
use toolcrib_fetch::SystemClock;
use toolcrib_fetch::{Configured, ConfiguredUrl, Headers, Limits};

use crate::outcome::Failure;

/// Most bytes of the response, which is not used.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// A webhook.
#[derive(Debug)]
pub(crate) struct Webhook {
    door: Configured,
    url: ConfiguredUrl,
    headers: Headers,
}

impl Webhook {
    /// The webhook at a URL that the user configured by a flag or a variable.
    pub(crate) fn new(setting: &str) -> Result<Self, Failure> {
        let unusable = |error: toolcrib_fetch::Error| Failure::new(error.code(), error.to_string());
        Ok(Self {
            url: ConfiguredUrl::from_setting(setting).map_err(unusable)?,
            door: Configured::builder(SystemClock).build().map_err(unusable)?,
            headers: Headers::new().with("content-type", "application/json").map_err(unusable)?,
        })
    }

    /// Sends an event. Any success status is accepted.
    pub(crate) async fn tell(&self, event: &Value) -> Result<(), Failure> {
        let mut limits = Limits::MANIFEST;
        limits.body = MAX_ANSWER_BYTES;
        let exchange = self.door.post(&self.url, &self.headers, event.to_string().as_bytes(), limits).await;
        // The response may be large or truncated; only its status counts.
        let reason = match (&exchange.response, &exchange.failure) {
            (Some(response), _) if (200..=299).contains(&response.status) => return Ok(()),
            (Some(response), _) => format!("it returned status {}", response.status),
            (None, Some(failure)) => failure.finding().message,
            (None, None) => "it did not answer".to_owned(),
        };
        Err(Failure::new(codes::cli::WEBHOOK, format!("{} could not be notified: {reason}", self.url)))
    }
}
