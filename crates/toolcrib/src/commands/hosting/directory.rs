//! `directory`: serves an index to users, programs and models.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use toolcrib_directory::{Auth, DirectoryServer, Options, ServerConfig, ServerError};
use toolcrib_fetch::SystemClock;
use toolcrib_index::search::Snapshots;
use toolcrib_index::work::WorkOptions;
use toolcrib_index::{Chains, Index};

use super::agents::AgentArgs;
use super::bazaar::BazaarArgs;
use super::collections::CollectionArgs;
use super::engine::{Engine, EngineArgs};
use super::followed::Followed;
use super::reading::ReadArgs;
use super::snapshots::SnapshotArgs;
use super::{embedding, logging, told_to_stop};
use crate::commands::discovery::{StoreArgs, index_failure};
use crate::commands::serving::header_name;
use crate::commands::trust::door::{EgressArgs, verifier};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};
use crate::settings::Settings;

/// Arguments of `directory`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Serve {
    /// Address to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8257")]
    pub(crate) listen: SocketAddr,
    /// Also follow chains and verify tools in this process
    #[arg(long)]
    pub(crate) with_index: bool,
    #[command(flatten)]
    pub(crate) kept: StoreArgs,
    #[command(flatten)]
    pub(crate) reading: ReadArgs,
    /// Folder for the search index, for fast restarts [default: in memory]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) search: Option<PathBuf>,
    /// Folder with a static embedding for semantic search
    ///
    /// The unpacked package `wordllama`, or one `*.safetensors` and `tokenizer.json` [setting: `embedding`] [env:
    /// `TOOLCRIB_EMBEDDING`] [default: `toolcrib/embedding` in the data folders]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) embedding: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) snapshots: SnapshotArgs,
    /// Require an API key for every request
    #[arg(long)]
    pub(crate) require_key: bool,
    /// Do not issue keys over the API; `directory keys issue` still does
    #[arg(long)]
    pub(crate) no_instant_keys: bool,
    /// Header with the client address, set by your proxy
    ///
    /// Use it only if every request comes through the proxy.
    #[arg(long, value_name = "NAME")]
    pub(crate) address_header: Option<String>,
    /// Public host name, allowed by the MCP server; repeatable
    #[arg(long = "host", value_name = "HOST[:PORT]")]
    pub(crate) hosts: Vec<String>,
    /// Web origin that may use the MCP server; repeatable
    #[arg(long = "allow-origin", value_name = "URL")]
    pub(crate) origins: Vec<String>,
    /// IPFS gateway for `ipfs://` images
    ///
    /// For example `https://ipfs.example.com/ipfs/`.
    #[arg(long, value_name = "URL")]
    pub(crate) ipfs_gateway: Option<String>,
    /// Title of the web pages
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Seconds that shared caches may keep answers; needs `index purge`
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=2_592_000))]
    pub(crate) cdn_max_age: Option<u32>,
    /// Do not serve `/metrics`
    #[arg(long)]
    pub(crate) no_metrics: bool,
    #[command(flatten)]
    pub(crate) followed: Followed,
    #[command(flatten)]
    pub(crate) doing: EngineArgs,
    #[command(flatten)]
    pub(crate) agents: AgentArgs,
    #[command(flatten)]
    pub(crate) bazaar: BazaarArgs,
    #[command(flatten)]
    pub(crate) collections: CollectionArgs,
    #[command(flatten)]
    pub(crate) reach: EgressArgs,
    /// Stop after this many seconds instead of on Ctrl-C
    #[arg(long, value_name = "SECONDS")]
    pub(crate) exit_after: Option<u64>,
}

impl Serve {
    fn config(&self, embedding: Option<PathBuf>) -> Result<ServerConfig, Failure> {
        let mut options = Options::default();
        if self.require_key {
            options.auth = Auth::Required;
        }
        options.issues_keys = !self.no_instant_keys;
        options.serves_metrics = !self.no_metrics;
        options.shared_max_age = self.cdn_max_age;
        options.ipfs_gateway.clone_from(&self.ipfs_gateway);
        if let Some(title) = &self.title {
            options.title.clone_from(title);
        }
        if let Some(name) = &self.address_header {
            options.address_header = Some(header_name(name)?);
        }
        Ok(ServerConfig {
            search: self.search.clone(),
            embedding,
            snapshots: self.kept.objects()?.map(Snapshots::new),
            publish: self.snapshots.options(),
            options,
            images: Some(self.reach.open_for_images()?),
            hosts: self.hosts.clone(),
            origins: self.origins.clone(),
            replicas: None,
        })
    }
}

/// Opens the server of a directory.
pub(crate) async fn open(
    listen: SocketAddr,
    index: &Index,
    chains: Chains,
    config: ServerConfig,
) -> Result<DirectoryServer, Failure> {
    DirectoryServer::open(listen, index, chains, SystemClock, config).await.map_err(|error| {
        let failure = Failure::new(error.code(), error.to_string());
        match error {
            ServerError::Listen { .. } => failure.hint("stop the other program, or choose another port (0 takes a free one)"),
            _ => failure,
        }
    })
}

/// Serves until Ctrl-C.
pub(crate) async fn run(arguments: &Serve, settings: &Settings, printer: &mut Printer) -> Result<Done, Stop> {
    #[cfg(target_os = "linux")]
    crate::descriptors::prepare(printer)?;
    logging::begin(printer);
    let embedding = embedding::find(arguments.embedding.as_deref(), settings, printer)?;
    let mut config = arguments.config(embedding.clone())?;
    if arguments.with_index {
        arguments.doing.check(arguments.agents.agt.is_some() || arguments.bazaar.is_said())?;
    }
    let followings = arguments.followed.resolve(printer)?;
    let (index, location) = (arguments.kept.open().await?, arguments.kept.location()?);
    let chains: Chains = followings.iter().map(|following| following.chain.clone()).collect();
    config.replicas = Some(arguments.reading.open(&index, settings).await?);
    let server = open(arguments.listen, &index, chains, config).await?;
    let mut engine = match arguments.with_index {
        true => {
            let verifier = verifier(&arguments.reach)?;
            let agents = arguments.agents.prepare(&index, printer).await?;
            let (bazaar, collections) = (arguments.bazaar.prepare()?, arguments.collections.provider()?);
            let mut engine = Engine::start(&index, &followings, verifier, collections, &arguments.doing, WorkOptions::default());
            if let Some(agents) = agents {
                engine.add_agents(&index, agents).map_err(|error| index_failure(&error))?;
            }
            if let Some(bazaar) = bazaar {
                engine.add_bazaar(&index, bazaar, arguments.reach.open()?).map_err(|error| index_failure(&error))?;
            }
            Some(engine)
        }
        false => None,
    };
    let address = server.address();
    printer.result(&format!("directory http://{address}\nmcp http://{address}/mcp\nindex {}\n", shown(&location.to_string())))?;
    printer.flush()?;
    let data = json!({
        "url": format!("http://{address}"), "mcp": format!("http://{address}/mcp"), "store": location.to_string(),
        "embedding": embedding.map(|folder| folder.display().to_string()),
    });
    printer.event(&json!({ "event": "ready", "data": data }))?;

    let failing = async {
        match &mut engine {
            Some(engine) => engine.failed().await,
            None => std::future::pending().await,
        }
    };
    // The error of the engine, which stops the server.
    let mut fault = None;
    {
        let fault = &mut fault;
        let stop = async move {
            tokio::select! {
                () = told_to_stop(arguments.exit_after) => {}
                error = failing => *fault = Some(error),
            }
        };
        server.serve(stop).await;
    }
    if let Some(engine) = engine {
        engine.stop().await;
    }
    index.database().close().await;
    match fault {
        Some(error) => Err(index_failure(&error).into()),
        None => Ok(Done::new(Exit::Yes, data)),
    }
}
