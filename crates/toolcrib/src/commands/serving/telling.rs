//! Usage reports to a directory, and metrics.

use std::net::SocketAddr;

use clap::Args;
use tokio::net::TcpListener;
use toolcrib_core::codes;
use toolcrib_gate::{ConfiguredUrl, Server, Tools, Usage};
use toolcrib_http::Limits;

use crate::env;
use crate::outcome::Failure;
use crate::secrets;

/// Most connections to the metrics server. A few scrapers read it, each every few seconds.
const MAX_SCRAPERS: usize = 64;

/// Who is told about calls.
#[derive(Args, Clone, Debug)]
pub(crate) struct NotifyArgs {
    /// Report served calls to this directory [key: `TOOLCRIB_USAGE_KEY`]
    #[arg(long, value_name = "URL")]
    pub(crate) usage_url: Option<String>,
    /// Serve Prometheus metrics at this private address, under /metrics
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) metrics: Option<SocketAddr>,
}

impl NotifyArgs {
    /// Adds usage reports, if configured.
    pub(crate) fn usage(&self, tools: Tools) -> Result<Tools, Failure> {
        let Some(url) = &self.usage_url else { return Ok(tools) };
        let unusable = |error: toolcrib_fetch::Error| Failure::new(error.code(), error.to_string());
        let key = secrets::var(env::TOOLCRIB_USAGE_KEY).ok_or_else(|| {
            Failure::new(codes::cli::SETTINGS, format!("--usage-url needs a key, but {} is not set", env::TOOLCRIB_USAGE_KEY))
        })?;
        let url = ConfiguredUrl::from_setting(url).map_err(unusable)?;
        Ok(tools.usage(Usage::new(url, &key).map_err(unusable)?))
    }

    /// Serves metrics as long as the process runs. Returns the address.
    pub(crate) async fn metrics(&self, server: &Server) -> Result<Option<SocketAddr>, Failure> {
        let Some(wanted) = self.metrics else { return Ok(None) };
        let failed = |error| Failure::new(codes::cli::LISTEN, format!("cannot listen at {wanted}: {error}"));
        let listener = TcpListener::bind(wanted).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let limits = Limits { connections: MAX_SCRAPERS, per_network: Some(MAX_SCRAPERS / 4), ..Limits::default() };
        tokio::spawn(toolcrib_http::Server::new(limits).serve(listener, server.metrics_router(), std::future::pending()));
        Ok(Some(address))
    }
}
