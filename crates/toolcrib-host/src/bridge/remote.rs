//! A remote directory, queried over its REST API.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value as Json;
use toolcrib_core::codes::mcp as code;
use toolcrib_fetch::{Configured, ConfiguredUrl, Headers, Limits};
use toolcrib_mcp::discovery::{Discovery, MAX_ANSWER_BYTES, RestRequest, refusal};
use toolcrib_mcp::{Asker, ToolError};

/// Time limit of a request. The directory itself waits five seconds for a verification.
const ANSWER_TIME: Duration = Duration::from_secs(20);

/// A directory from the user's settings.
#[derive(Clone)]
pub struct RemoteDirectory {
    door: Configured,
    url: ConfiguredUrl,
    headers: Headers,
}

impl RemoteDirectory {
    /// Creates a client for the directory at a configured URL, with an API key if it needs one. The key is sent and never shown.
    pub fn new(door: Configured, url: ConfiguredUrl, key: Option<&str>) -> Result<Self, toolcrib_fetch::Error> {
        let mut headers = Headers::new().with("accept", "application/json")?;
        if let Some(key) = key {
            headers = headers.with("x-api-key", key)?;
        }
        Ok(Self { door, url, headers })
    }
}

impl fmt::Debug for RemoteDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteDirectory({})", self.url)
    }
}

#[async_trait]
impl Discovery for RemoteDirectory {
    async fn ask(&self, request: &RestRequest, _: &Asker) -> Result<Json, ToolError> {
        let unreadable = || ToolError::new(code::DIRECTORY);
        let url = self.url.below(&request.path, &request.query).map_err(|_| unreadable())?;
        let mut limits = Limits::MANIFEST;
        limits.body = MAX_ANSWER_BYTES;
        (limits.idle, limits.total) = (ANSWER_TIME, ANSWER_TIME);
        let exchange = match request.is_post {
            true => self.door.post(&url, &self.headers, &[], limits).await,
            false => self.door.get(&url, &self.headers, limits).await,
        };
        let Some(response) = exchange.complete() else {
            let cause = exchange.failure.as_ref().map(|failure| failure.code.id()).unwrap_or_default();
            return Err(ToolError::new(code::DIRECTORY).message(format!("{} gave no answer: {cause}", self.url)));
        };
        if !(200..=299).contains(&response.status) {
            let wait = response.header("retry-after").next().and_then(|seconds| seconds.parse().ok());
            return Err(refusal(response.status, wait, response.body.as_bytes()));
        }
        serde_json::from_slice(response.body.as_bytes()).map_err(|_| unreadable())
    }
}
