//! A directory server: search, REST, pages and MCP over one index.

use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::net::TcpListener;
use toolcrib_core::codes;
use toolcrib_directory::{Directory, Options};
use toolcrib_fetch::SystemClock;
use toolcrib_fetch::Untrusted;
use toolcrib_index::replicas::Replicas;
use toolcrib_index::search::{Publisher, Search, SearchOptions, Snapshots};
use toolcrib_index::work::Queue;
use toolcrib_index::{Chains, Index};
use toolcrib_store::objects::Objects;

use super::snapshots::SnapshotArgs;
use crate::commands::discovery::index_failure;
use crate::outcome::Failure;

/// The options of a directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// The folder of the full-text index; in memory without one.
    pub(crate) search: Option<PathBuf>,
    /// A static embedding.
    pub(crate) embedding: Option<PathBuf>,
    /// The object store with search snapshots.
    pub(crate) objects: Option<Objects>,
    /// When snapshots are published.
    pub(crate) snapshots: Option<SnapshotArgs>,
    /// Server options.
    pub(crate) options: Options,
    /// The HTTP client for images of tools; without one, placeholders are shown.
    pub(crate) images: Option<Untrusted>,
    /// Host names in addition to those of this machine.
    pub(crate) hosts: Vec<String>,
    /// Origins of web pages that may use its MCP server.
    pub(crate) origins: Vec<String>,
    /// Read replicas, in addition to the primary.
    pub(crate) replicas: Option<Replicas>,
}

/// A directory that has bound its socket.
#[derive(Debug)]
pub(crate) struct House {
    directory: Directory,
    publisher: Option<Publisher>,
    listener: TcpListener,
    /// Its socket address.
    pub(crate) address: SocketAddr,
}

impl House {
    /// Its URL on this machine.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Builds the directory and binds the socket. Does not accept requests yet.
    pub(crate) async fn open(listen: SocketAddr, index: &Index, chains: Chains, plan: Plan) -> Result<Self, Failure> {
        let taken = |error: std::io::Error| {
            Failure::new(codes::cli::LISTEN, format!("the directory cannot listen at {listen}: {error}"))
                .hint("stop the other program, or choose another port (0 picks a free one)")
        };
        let listener = TcpListener::bind(listen).await.map_err(taken)?;
        let address = listener.local_addr().map_err(taken)?;
        let snapshots = plan.objects.clone().map(Snapshots::new);
        let options = SearchOptions { folder: plan.search, embedding: plan.embedding, snapshots, ..SearchOptions::default() };
        let search = Search::open(index.clone(), options).await.map_err(|error| index_failure(&error))?;
        let publisher = plan.snapshots.and_then(|snapshots| snapshots.publisher(&search, plan.objects.as_ref()));
        let directory = Directory::builder(index.clone(), search, Queue::new(index.clone()), chains, SystemClock);
        let directory = match plan.images {
            Some(client) => directory.images(client),
            None => directory,
        };
        let directory = match plan.replicas {
            Some(replicas) => directory.replicas(replicas),
            None => directory,
        };
        let directory = directory.options(plan.options).build().await.map_err(|error| index_failure(&error))?;
        let mut hosts = plan.hosts;
        hosts.extend([address.ip().to_string(), "localhost".to_owned()].map(|host| format!("{host}:{}", address.port())));
        let unusable = |error: toolcrib_mcp::SetupError| Failure::new(codes::cli::USAGE, error.to_string());
        let directory = directory.with_mcp(hosts, plan.origins).map_err(unusable)?;
        Ok(Self { directory, publisher, listener, address })
    }

    /// Serves until `stop`, then finishes the open requests.
    pub(crate) async fn serve(self, stop: impl Future<Output = ()> + Send) {
        let Self { directory, publisher, listener, .. } = self;
        let (ended, end) = tokio::sync::watch::channel(());
        let has_ended = || {
            let mut end = end.clone();
            async move { while end.changed().await.is_ok() {} }
        };
        let looking = directory.run(has_ended());
        let publishing = async {
            if let Some(publisher) = publisher {
                publisher.run(has_ended()).await;
            }
        };
        let serving = async {
            directory.serve(listener, stop).await;
            drop(ended);
        };
        tokio::join!(serving, looking, publishing);
    }
}
