//! A directory to query: a remote one by its URL, or one in this process over a local index. Both give the same responses.

use axum::body::Body;
use axum::http::Request;
use clap::Args;
use serde_json::Value;
use toolcrib_core::codes;
use toolcrib_directory::{Directory, Options};
use toolcrib_fetch::SystemClock;
use toolcrib_fetch::{Configured, ConfiguredUrl, Headers, Limits};
use toolcrib_http::percent_encode;
use toolcrib_index::Chains;
use toolcrib_index::search::{Search, SearchOptions};
use toolcrib_index::work::Queue;
use tower::ServiceExt as _;

use super::{StoreArgs, index_failure};
use crate::env;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};
use crate::secrets;
use crate::settings::Settings;

/// Largest response that is read: a page of 200 tools with all their details.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// Whom to ask.
#[derive(Args, Clone, Debug)]
pub(crate) struct DirectoryArgs {
    /// Directory URL [setting: `directory`] [env: `TOOLCRIB_DIRECTORY`]
    ///
    /// The API key comes from `TOOLCRIB_API_KEY`.
    #[arg(long, visible_alias = "base-url", value_name = "URL", conflicts_with = "store")]
    pub(crate) directory: Option<String>,
    /// Timeout in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(crate) timeout: u64,
    #[command(flatten)]
    pub(crate) kept: StoreArgs,
}

/// A directory.
pub(crate) enum Source {
    /// A remote directory.
    Remote { door: Configured, base: String, headers: Headers, limits: Limits },
    /// A directory in this process.
    Local(axum::Router),
}

/// A response of a directory.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<String>,
    pub(crate) body: Vec<u8>,
}

/// The format of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// JSON.
    Json,
    /// The compact text form.
    Markdown,
}

impl Form {
    const fn accept(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Markdown => "text/markdown",
        }
    }
}

impl DirectoryArgs {
    /// Opens the directory: from a flag, `--store`, the environment, a setting, or the local index.
    pub(crate) async fn open(&self, settings: &Settings) -> Result<Source, Failure> {
        let named = if self.kept.is_said() { None } else { self.directory.clone().or_else(|| settings.directory.value.clone()) };
        match named {
            Some(url) => self.remote(&url),
            None => local(&self.kept).await,
        }
    }

    fn remote(&self, url: &str) -> Result<Source, Failure> {
        let unusable = |error: toolcrib_fetch::Error| Failure::new(error.code(), error.to_string());
        if url.contains(['?', '#']) {
            return Err(Failure::new(codes::cli::USAGE, "the URL of a directory must not have a query"));
        }
        // Rejected here, before a path is added to it.
        ConfiguredUrl::from_setting(url).map_err(unusable)?;
        let mut headers = Headers::new();
        if let Some(key) = secrets::var(env::TOOLCRIB_API_KEY) {
            headers = headers.with("x-api-key", &key).map_err(unusable)?;
        }
        let mut limits = Limits::MANIFEST;
        limits.body = MAX_ANSWER_BYTES;
        limits.total = std::time::Duration::from_secs(self.timeout);
        limits.idle = limits.total;
        let door = Configured::builder(SystemClock).build().map_err(unusable)?;
        Ok(Source::Remote { door, base: url.trim_end_matches('/').to_owned(), headers, limits })
    }
}

async fn local(kept: &StoreArgs) -> Result<Source, Failure> {
    let failed = |error: toolcrib_index::Error| index_failure(&error);
    let index = kept.open_existing().await?;
    let search = Search::open(index.clone(), SearchOptions::default()).await.map_err(failed)?;
    while search.catch_up().await.map_err(failed)? > 0 {}
    let queue = Queue::new(index.clone());
    let options = Options { anonymous_reads: None, ..Options::default() };
    let builder = Directory::builder(index, search, queue, Chains::default(), SystemClock).options(options);
    Ok(Source::Local(builder.build().await.map_err(failed)?.router()))
}

impl Source {
    /// Requests a path with a query.
    pub(crate) async fn get(&self, path: &str, query: &[(&str, String)], form: Form) -> Result<Reply, Failure> {
        let mut target = path.to_owned();
        for (n, (name, value)) in query.iter().enumerate() {
            target.push(if n == 0 { '?' } else { '&' });
            target.push_str(&format!("{name}={}", percent_encode(value)));
        }
        match self {
            Self::Remote { door, base, headers, limits } => {
                let unusable = |error: toolcrib_fetch::Error| Failure::new(error.code(), error.to_string());
                let url = ConfiguredUrl::from_setting(&format!("{base}{target}")).map_err(unusable)?;
                let headers = headers.clone().with("accept", form.accept()).map_err(unusable)?;
                let exchange = door.get(&url, &headers, *limits).await;
                match (exchange.response, exchange.failure) {
                    (Some(response), None) => {
                        let retry_after = response.header("retry-after").next().map(str::to_owned);
                        Ok(Reply { status: response.status, retry_after, body: response.body.0 })
                    }
                    (_, failure) => {
                        let reason = failure.map_or_else(|| "it did not answer".to_owned(), |failure| failure.finding().message);
                        Err(Failure::new(codes::cli::DIRECTORY, format!("{url} did not answer: {reason}")))
                    }
                }
            }
            Self::Local(router) => {
                let broken = |what: String| Failure::new(codes::cli::DIRECTORY, what);
                let request = Request::get(&target).header("accept", form.accept()).body(Body::empty());
                let request = request.map_err(|error| broken(error.to_string()))?;
                let response = router.clone().oneshot(request).await.map_err(|error| broken(error.to_string()))?;
                let status = response.status().as_u16();
                let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok()).map(str::to_owned);
                let body = axum::body::to_bytes(response.into_body(), MAX_ANSWER_BYTES).await;
                Ok(Reply { status, retry_after, body: body.map_err(|error| broken(error.to_string()))?.to_vec() })
            }
        }
    }
}

impl Reply {
    /// Stops the command unless the response is a success.
    pub(crate) fn expect_success(&self, printer: &mut Printer) -> Result<(), Stop> {
        let said = serde_json::from_slice::<Value>(&self.body).ok();
        let said = said.as_ref().and_then(|body| body["errors"].as_array()).map(|errors| {
            let errors: Vec<_> = errors.iter().filter_map(Value::as_str).map(shown).collect();
            errors.join("; ")
        });
        let said = said.filter(|said| !said.is_empty()).unwrap_or_else(|| format!("status {}", self.status));
        let failure = match self.status {
            200..=299 => return Ok(()),
            404 => {
                printer.complaint(&format!("not found: {said}"))?;
                return Err(Done::new(Exit::No, Value::Null).into());
            }
            429 => {
                let wait =
                    self.retry_after.as_deref().map_or_else(String::new, |after| format!("; try again in {} s", shown(after)));
                let failure = Failure::new(codes::cli::RATE_LIMITED, format!("rate limited by the directory: {said}{wait}"));
                printer.failure(&failure)?;
                return Err(Done::new(Exit::RateLimited, Value::Null).into());
            }
            400..=499 => Failure::new(codes::cli::DIRECTORY_REFUSED, format!("the directory rejected the request: {said}")),
            _ => Failure::new(codes::cli::DIRECTORY, format!("the directory failed: {said}")),
        };
        Err(failure.into())
    }
}
