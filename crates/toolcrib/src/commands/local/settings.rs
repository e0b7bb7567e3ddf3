//! `local settings`: the settings page.

use std::net::SocketAddr;

use clap::Args;
use serde_json::json;
use toolcrib_host::page::{IDLE_SECONDS, Page, PageEnd, PageError};

use super::HostArgs;
use crate::commands::serving::stopped;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::Printer;

/// Arguments of `local settings`.
#[derive(Args, Debug)]
pub(crate) struct Settings {
    /// Address to listen on: `127.0.0.1` or `[::1]`; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    #[command(flatten)]
    pub(crate) host: HostArgs,
}

/// Serves the page until Ctrl-C, or until its session ends.
pub(crate) async fn run(arguments: &Settings, printer: &mut Printer) -> Result<Done, Stop> {
    let failed = |error: PageError| Failure::new(error.code(), error.to_string());
    let host = arguments.host.open()?;
    let page = Page::bind(host.clone(), arguments.listen).await.map_err(failed)?;
    let watching = host.watch();
    // The URL contains the session token and is printed only to stdout. No browser is started with it, because other users can see
    // arguments of processes.
    printer.result(&format!("{}\n", page.url()))?;
    printer.flush()?;
    printer.event(&json!({ "event": "ready", "data": { "url": page.url() } }))?;
    printer.note(&format!(
        "open this URL in a browser; it works once. The page closes after {} idle minutes, or with Ctrl-C",
        IDLE_SECONDS / 60
    ))?;
    let end = page.serve(stopped()).await;
    watching.abort();
    if end == PageEnd::SessionOver {
        printer.note("the settings page was closed")?;
    }
    let ended = match end {
        PageEnd::Stopped => "stopped",
        PageEnd::SessionOver => "session_over",
    };
    Ok(Done::new(Exit::Yes, json!({ "ended": ended })))
}
