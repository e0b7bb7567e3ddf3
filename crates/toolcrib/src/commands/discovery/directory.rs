//! `directory`: serves an index to everybody.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use tokio::net::TcpListener;
use toolcrib_core::codes;
use toolcrib_directory::{Auth, Directory, Options};
use toolcrib_index::search::{Search, SearchOptions};
use toolcrib_index::work::Queue;

use super::running::{Keeping, Networks, Parts};
use super::{Kept, index_failure};
use crate::clock::SystemClock;
use crate::commands::serving::stopped;
use crate::commands::trust::Reach;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::Printer;

/// Arguments of `directory`.
#[derive(Args, Debug)]
pub(crate) struct ServeDirectory {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8257")]
    pub(crate) listen: SocketAddr,
    /// Answer nobody without a key
    #[arg(long)]
    pub(crate) require_key: bool,
    /// Issue no keys to strangers
    #[arg(long)]
    pub(crate) no_instant_keys: bool,
    /// The folder that the index of words is kept in; without it, it is made anew at each start
    #[arg(long, value_name = "PATH")]
    pub(crate) search_folder: Option<PathBuf>,
    /// A folder with a static embedding, for search by meaning
    #[arg(long, value_name = "PATH")]
    pub(crate) embedding: Option<PathBuf>,
    /// The header in which a proxy in front puts the caller's address, such as x-forwarded-for
    #[arg(long, value_name = "HEADER")]
    pub(crate) address_header: Option<String>,
    /// Also follow the networks and verify their tools, all in this process
    #[arg(long, requires = "network")]
    pub(crate) index: bool,
    #[command(flatten)]
    pub(crate) networks: Networks,
    #[command(flatten)]
    pub(crate) parts: Parts,
    #[command(flatten)]
    pub(crate) kept: Kept,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

/// Serves until Ctrl-C or SIGTERM.
pub(crate) async fn run(arguments: &ServeDirectory, printer: &mut Printer) -> Result<Done, Stop> {
    let wrong = |error: toolcrib_index::Error| index_failure(&error);
    let chains = arguments.networks.chains(printer)?;
    let index = arguments.kept.open().await?;
    let options =
        SearchOptions { folder: arguments.search_folder.clone(), embedding: arguments.embedding.clone(), reputation: None };
    let search = Search::open(index.clone(), options).await.map_err(wrong)?;
    let queue = Queue::new(index.clone());
    let header = arguments.address_header.as_deref().map(str::parse).transpose();
    let header = header.map_err(|_| Failure::new(codes::cli::USAGE, "--address-header is no name of a header"))?;
    let options = Options {
        auth: if arguments.require_key { Auth::Required } else { Auth::Open },
        issues_keys: !arguments.no_instant_keys,
        address_header: header,
        ..Options::default()
    };
    let builder = Directory::builder(index.clone(), search, queue, chains.clone(), SystemClock).options(options);
    let directory = builder.build().await.map_err(wrong)?;
    directory.refresh().await.map_err(wrong)?;
    let listener = TcpListener::bind(arguments.listen).await;
    let listener = listener.and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (address, listener) =
        listener.map_err(|error| Failure::new(codes::cli::LISTEN, format!("cannot listen at {}: {error}", arguments.listen)))?;
    let keeping = if arguments.index {
        Some(Keeping::start(&index, &chains, &arguments.networks, &arguments.parts, &arguments.reach)?)
    } else {
        None
    };
    printer.result(&format!("a directory at http://{address}\n"))?;
    printer.event(&json!({ "event": "listening", "address": address.to_string() }))?;
    printer.flush()?;
    printer.note("Ctrl-C ends it")?;
    let (stop, stopping) = tokio::sync::watch::channel(false);
    let ended = || {
        let mut stopping = stopping.clone();
        async move {
            // An error means that nobody is left to say it.
            let _ = stopping.wait_for(|stop| *stop).await;
        }
    };
    let serving = toolcrib_directory::serve(listener, directory.router(), ended());
    let looking = directory.run(ended());
    let waiting = async {
        let outcome = match keeping {
            Some(keeping) => keeping.until(stopped()).await,
            None => {
                stopped().await;
                Ok(())
            }
        };
        stop.send_replace(true);
        outcome
    };
    let (served, (), outcome) = tokio::join!(serving, looking, waiting);
    outcome?;
    served.map_err(|error| Failure::new(codes::cli::LISTEN, format!("serving ended: {error}")))?;
    Ok(Done::new(Exit::Yes, json!({ "served": true, "address": address.to_string() })))
}
