//! `mcp`: an MCP server with which a model finds, calls and pays for tools, with the user's approval.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use tokio::net::TcpListener;
use toolcrib_client::Nobody;
use toolcrib_core::codes;
use toolcrib_directory::mcp::InProcess;
use toolcrib_fetch::SystemClock;
use toolcrib_fetch::{Configured, ConfiguredUrl};
use toolcrib_host::bridge::{
    Bridge, BridgeError, HttpAccess, LocalTools, PinnedTools, RECHECK_INTERVAL, RemoteDirectory, Unattended,
};
use toolcrib_http::Tls;
use toolcrib_mcp::Bearer;
use toolcrib_mcp::discovery::Discovery;

use super::SpendArgs;
use super::session::with_wallet;
use crate::commands::discovery::source::{DirectoryArgs, Source};
use crate::commands::hosting::followed::Followed;
use crate::commands::hosting::logging;
use crate::commands::local::{HostArgs, pin_store};
use crate::commands::serving::{TlsArgs, stopped};
use crate::commands::trust::EgressArgs;
use crate::env;
use crate::onchain::Signing;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::Printer;
use crate::secrets;
use crate::settings::Settings;

/// Largest policy file that is read. A tool takes one line.
const MAX_POLICY_BYTES: u64 = 1 << 20;

/// Arguments of `mcp`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Mcp {
    #[command(flatten)]
    pub(crate) place: DirectoryArgs,
    #[command(flatten)]
    pub(crate) followed: Followed,
    #[command(flatten)]
    pub(crate) signing: Signing,
    #[command(flatten)]
    pub(crate) purse: SpendArgs,
    #[command(flatten)]
    pub(crate) reach: EgressArgs,
    #[command(flatten)]
    pub(crate) local: HostArgs,
    /// Serve only local tools: no directory, wallet or payments
    #[arg(long)]
    pub(crate) local_only: bool,
    /// Seconds between verifications of pinned onchain tools
    #[arg(long, value_name = "SECONDS", default_value_t = RECHECK_INTERVAL.as_secs(), value_parser = clap::value_parser!(u64).range(10..=86_400))]
    pub(crate) recheck: u64,
    /// TOML file with calls allowed without asking
    ///
    /// Its keys are `tools`, `any_tool`, `max_price` and `sign_in`.
    #[arg(long, value_name = "FILE")]
    pub(crate) unattended: Option<PathBuf>,
    /// Serve HTTP at this address instead of stdin and stdout
    ///
    /// Clients need the token in `TOOLCRIB_MCP_TOKEN`; other machines need TLS.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    /// Allowed HTTP host name besides local ones; repeatable
    #[arg(long = "host", value_name = "HOST[:PORT]", requires = "listen")]
    pub(crate) hosts: Vec<String>,
    /// Web origin that may connect over HTTP; repeatable
    #[arg(long = "allow-origin", value_name = "URL", requires = "listen")]
    pub(crate) origins: Vec<String>,
}

/// Serves one MCP client over stdin and stdout, or clients with the bearer token over HTTP.
pub(crate) async fn run(arguments: &Mcp, settings: &Settings, printer: &mut Printer) -> Result<Done, Stop> {
    logging::begin(printer);
    let failed = |error: BridgeError| Failure::new(error.code(), error.to_string());
    let tls = arguments.tls.load()?;
    if let Some(listen) = arguments.listen {
        Bridge::check_listen(listen, tls.as_ref()).map_err(failed)?;
    }
    let local = arguments.local_tools()?;
    let bridge = match local {
        Some(tools) if arguments.local_only => Bridge::local_only(tools),
        local => {
            let bridge =
                onchain(arguments, settings, printer).await?.with_pinned(pinned()?, Duration::from_secs(arguments.recheck));
            match local {
                Some(tools) => bridge.with_local(tools),
                None => bridge,
            }
        }
    };
    serve(arguments, bridge, tls, printer).await
}

impl Mcp {
    /// The host of local tools, if enabled. Watches their folders from now on.
    fn local_tools(&self) -> Result<Option<LocalTools>, Failure> {
        if !self.local_only && self.local.tools.is_empty() {
            return Ok(None);
        }
        let host = self.local.open()?;
        // The watcher ends with the process.
        drop(host.watch());
        Ok(Some(LocalTools::new(host)))
    }
}

/// Onchain tools that the user pinned.
fn pinned() -> Result<PinnedTools, Failure> {
    PinnedTools::open(pin_store()?).map_err(|error| Failure::new(error.code(), error.to_string()))
}

/// The bridge to onchain tools.
async fn onchain(arguments: &Mcp, settings: &Settings, printer: &mut Printer) -> Result<Bridge, Stop> {
    let unattended = arguments.unattended.as_deref().map(policy).transpose()?.unwrap_or_default();
    let directory = discovery(&arguments.place, settings).await?;
    let mut builder = arguments.purse.client(&arguments.reach, settings).await?;
    let followed = arguments.followed.resolve(printer)?;
    // `--network` restricts what is signed.
    if !arguments.followed.networks.is_empty() {
        builder = builder.only_chains(followed.iter().map(|following| following.chain.chain_id()));
    }
    for following in followed {
        builder = builder.chain(following.chain);
    }
    // Prompts go to the user of the MCP client, because no user is at this process's terminal.
    builder = builder.approver(Arc::new(Nobody));
    let client = with_wallet(builder, &arguments.signing)?.build();
    Ok(Bridge::new(directory, client, unattended, Arc::new(SystemClock)))
}

/// Serves the client on stdin and stdout, or clients over HTTP.
async fn serve(arguments: &Mcp, bridge: Bridge, tls: Option<Tls>, printer: &mut Printer) -> Result<Done, Stop> {
    let failed = |error: BridgeError| Failure::new(error.code(), error.to_string());
    let Some(listen) = arguments.listen else {
        bridge.serve_stdio().await.map_err(failed)?;
        return Ok(Done::new(Exit::Yes, json!({})));
    };
    let taken = |error: std::io::Error| Failure::new(codes::cli::LISTEN, format!("cannot listen at {listen}: {error}"));
    let listener = TcpListener::bind(listen).await.map_err(taken)?;
    let address = listener.local_addr().map_err(taken)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let doorkeeper = HttpAccess { bearer: bearer()?, hosts: arguments.hosts.clone(), origins: arguments.origins.clone(), tls };
    let url = format!("{scheme}://{address}{}", toolcrib_host::bridge::HTTP_PATH);
    printer.result(&format!("mcp {url}\n"))?;
    printer.flush()?;
    let data = json!({ "mcp": url });
    printer.event(&json!({ "event": "ready", "data": data }))?;
    bridge.serve_http(listener, doorkeeper, stopped()).await.map_err(failed)?;
    Ok(Done::new(Exit::Yes, data))
}

/// The directory that is configured, or one over the local index.
async fn discovery(place: &DirectoryArgs, settings: &Settings) -> Result<Arc<dyn Discovery>, Failure> {
    let unusable = |error: toolcrib_fetch::Error| Failure::new(error.code(), error.to_string());
    Ok(match place.open(settings).await? {
        Source::Local(routes) => Arc::new(InProcess::new(routes)),
        Source::Remote { base, .. } => {
            let key = secrets::var(env::TOOLCRIB_API_KEY);
            let door = Configured::builder(SystemClock).build().map_err(unusable)?;
            let url = ConfiguredUrl::from_setting(&base).map_err(unusable)?;
            Arc::new(RemoteDirectory::new(door, url, key.as_deref()).map_err(unusable)?)
        }
    })
}

/// The token, from the environment only, because other users can see arguments.
fn bearer() -> Result<Bearer, Failure> {
    let missing = || {
        Failure::new(codes::cli::SETTINGS, format!("serving HTTP needs a token, but {} is not set", env::TOOLCRIB_MCP_TOKEN))
            .hint("create one with `openssl rand -hex 32`, or omit --listen to use stdin and stdout")
    };
    let token = secrets::var(env::TOOLCRIB_MCP_TOKEN).ok_or_else(missing)?;
    Bearer::new(&token).map_err(|error| Failure::new(codes::cli::SETTINGS, format!("{}: {error}", env::TOOLCRIB_MCP_TOKEN)))
}

fn policy(path: &Path) -> Result<Unattended, Failure> {
    let unreadable = |what: String| Failure::new(codes::cli::SETTINGS, format!("{}: {what}", path.display()));
    let size = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.len();
    if size > MAX_POLICY_BYTES {
        return Err(unreadable("too large for a policy".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    toml::from_str(&text).map_err(|error| unreadable(error.message().to_owned()))
}
