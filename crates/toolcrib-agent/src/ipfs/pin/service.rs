//! The IPFS Pinning Service API 1.0.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use toolcrib_fetch::{Configured, ConfiguredUrl, Headers};

use super::{PinError, Pinned, answer, bearer, limits, same_cid};
use crate::ipfs::cid::Cid;

/// Maximum length of a request id. Current services use 36 characters.
const MAX_REQUEST_BYTES: usize = 256;

/// Maximum length of a pin's name (the API allows 255 characters).
const MAX_NAME_CHARS: usize = 255;

/// Polling intervals and the time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollLimits {
    /// The first pause between two requests. It doubles each time.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
    /// Time limit of everything.
    pub total: Duration,
}

impl Default for PollLimits {
    /// Half a second to eight, for two minutes: services find a small file within seconds if a node serves it.
    fn default() -> Self {
        Self { first: Duration::from_millis(500), longest: Duration::from_secs(8), total: Duration::from_secs(120) }
    }
}

/// A service with the IPFS Pinning Service API, such as `https://pins.example/psa`.
#[derive(Clone, Debug)]
pub struct PinningService {
    client: Configured,
    url: ConfiguredUrl,
    headers: Headers,
    limits: PollLimits,
}

impl PinningService {
    /// Uses the service at `url` with a bearer token.
    pub fn new(client: Configured, url: ConfiguredUrl, token: &str, limits: PollLimits) -> Result<Self, PinError> {
        Ok(Self { client, url, headers: bearer(Some(token))?, limits })
    }

    /// Requests pinning of a CID, and waits until it succeeds or the time limit is reached. `name` appears in the service's list of pins.
    pub async fn pin(&self, cid: &Cid, name: &str) -> Result<Pinned, PinError> {
        let end = Instant::now() + self.limits.total;
        let name: String = name.chars().take(MAX_NAME_CHARS).collect();
        let body = json!({ "cid": cid.to_string(), "name": name }).to_string();
        let headers = self.headers.clone().with("content-type", "application/json")?;
        let url = self.url.join("pins");
        let exchange = self.client.post(&url, &headers, body.as_bytes(), limits(self.limits.total)).await;
        let (mut state, request) = self.read(cid, answer(&self.url.origin(), &exchange)?.body.as_bytes())?;
        // Ids with `..` are rejected, and all reserved bytes are percent-encoded.
        let status = self.url.below(&["pins".to_owned(), request.clone()], &[]);
        let status = status.map_err(|_| self.malformed("it has no usable request id"))?;
        let mut pause = self.limits.first;
        loop {
            match state {
                State::Pinned => {
                    return Ok(Pinned { service: self.url.origin(), cid: cid.clone(), request: Some(request) });
                }
                State::Failed => return Err(PinError::Failed { service: self.url.origin(), cid: cid.clone() }),
                State::Waiting => {}
            }
            let left = end.saturating_duration_since(Instant::now());
            if left <= pause {
                sleep(left).await;
                let seconds = self.limits.total.as_secs();
                return Err(PinError::Pending { service: self.url.origin(), cid: cid.clone(), seconds });
            }
            sleep(pause).await;
            pause = pause.saturating_mul(2).min(self.limits.longest);
            let left = end.saturating_duration_since(Instant::now());
            let exchange = self.client.get(&status, &self.headers, limits(left)).await;
            match answer(&self.url.origin(), &exchange) {
                Ok(response) => {
                    let (next, again) = self.read(cid, response.body.as_bytes())?;
                    if again != request {
                        return Err(self.malformed("it is about another request"));
                    }
                    state = next;
                }
                // The request was accepted: a service that is busy now may respond to the next poll.
                Err(PinError::Unreachable { .. } | PinError::Status { status: 429 | 500..=599, .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Parses a `PinStatus`: the state, and the request id.
    fn read(&self, cid: &Cid, body: &[u8]) -> Result<(State, String), PinError> {
        let status: Value = serde_json::from_slice(body).map_err(|_| self.malformed("it is not JSON"))?;
        same_cid(&self.url.origin(), cid, status.pointer("/pin/cid"))?;
        let state = match status.get("status").and_then(Value::as_str) {
            Some("pinned") => State::Pinned,
            Some("failed") => State::Failed,
            Some("queued" | "pinning") => State::Waiting,
            _ => return Err(self.malformed("it has no known status")),
        };
        let request = status
            .get("requestid")
            .and_then(Value::as_str)
            .filter(|id| (1..=MAX_REQUEST_BYTES).contains(&id.len()))
            .ok_or_else(|| self.malformed("it has no usable request id"))?;
        Ok((state, request.to_owned()))
    }

    fn malformed(&self, reason: &'static str) -> PinError {
        PinError::Malformed { service: self.url.origin(), reason }
    }
}

/// The state of a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Pinned,
    Failed,
}
