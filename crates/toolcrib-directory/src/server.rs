//! A directory that is ready to serve: search, REST, pages and MCP over one index, on a socket.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::net::TcpListener;
use toolcrib_core::clock::Clock;
use toolcrib_core::codes::{self, Code};
use toolcrib_fetch::Untrusted;
use toolcrib_index::replicas::Replicas;
use toolcrib_index::search::{PublishOptions, Publisher, Search, SearchOptions, Snapshots};
use toolcrib_index::work::Queue;
use toolcrib_index::{Chains, Index};

use crate::{Directory, Options};

/// What a server is made of, beside its index.
#[derive(Clone, Debug, Default)]
pub struct ServerConfig {
    /// Where the index of words is kept; in memory without one.
    pub search: Option<PathBuf>,
    /// A static embedding.
    pub embedding: Option<PathBuf>,
    /// Where search snapshots are.
    pub snapshots: Option<Snapshots>,
    /// When they are published, if this process does so.
    pub publish: Option<PublishOptions>,
    /// How the directory behaves.
    pub options: Options,
    /// What fetches images of tools; without one there are placeholders.
    pub images: Option<Untrusted>,
    /// The names that the server is reached by, beside those of this machine.
    pub hosts: Vec<String>,
    /// The pages of others that may use the MCP server.
    pub origins: Vec<String>,
    /// Where the directory reads beside the primary.
    pub replicas: Option<Replicas>,
}

/// A directory on its socket.
#[derive(Debug)]
pub struct DirectoryServer {
    directory: Directory,
    publisher: Option<Publisher>,
    listener: TcpListener,
    address: SocketAddr,
}

/// Why a server cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The address is taken, or may not be listened at.
    #[error("the directory cannot listen at {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the operating system says.
        error: std::io::Error,
    },
    /// The index or its search cannot be opened.
    #[error(transparent)]
    Index(#[from] toolcrib_index::Error),
    /// The MCP server cannot be set up, such as for a host that is none.
    #[error(transparent)]
    Mcp(#[from] toolcrib_mcp::SetupError),
}

impl ServerError {
    /// The code of the vocabulary.
    pub fn code(&self) -> Code {
        match self {
            Self::Listen { .. } => codes::cli::LISTEN,
            Self::Index(error) => error.code(),
            Self::Mcp(_) => codes::cli::USAGE,
        }
    }
}

impl DirectoryServer {
    /// Takes the socket and opens everything. Nothing is answered yet.
    pub async fn open(
        listen: SocketAddr,
        index: &Index,
        chains: Chains,
        clock: impl Clock + Send + Sync + 'static,
        config: ServerConfig,
    ) -> Result<Self, ServerError> {
        let taken = |error| ServerError::Listen { address: listen, error };
        let listener = TcpListener::bind(listen).await.map_err(taken)?;
        let address = listener.local_addr().map_err(taken)?;
        let options = SearchOptions {
            folder: config.search,
            embedding: config.embedding,
            snapshots: config.snapshots.clone(),
            ..SearchOptions::default()
        };
        let search = Search::open(index.clone(), options).await?;
        let publisher = config.snapshots.zip(config.publish);
        let publisher = publisher.map(|(snapshots, options)| Publisher::new(search.clone(), snapshots, options));
        let mut builder = Directory::builder(index.clone(), search, Queue::new(index.clone()), chains, clock);
        if let Some(client) = config.images {
            builder = builder.images(client);
        }
        if let Some(replicas) = config.replicas {
            builder = builder.replicas(replicas);
        }
        let directory = builder.options(config.options).build().await?;
        let mut hosts = config.hosts;
        hosts.extend([address.ip().to_string(), "localhost".to_owned()].map(|host| format!("{host}:{}", address.port())));
        let directory = directory.with_mcp(hosts, config.origins)?;
        Ok(Self { directory, publisher, listener, address })
    }

    /// Returns the address that it listens at.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL for clients on this machine.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves until `stop`, and then until every answer is given.
    pub async fn serve(self, stop: impl Future<Output = ()> + Send) {
        let Self { directory, publisher, listener, .. } = self;
        let (ended, end) = tokio::sync::watch::channel(());
        let has_ended = || {
            let mut end = end.clone();
            async move { while end.changed().await.is_ok() {} }
        };
        let watching = directory.run(has_ended());
        let publishing = async {
            if let Some(publisher) = publisher {
                publisher.run(has_ended()).await;
            }
        };
        let serving = async {
            directory.serve(listener, stop).await;
            drop(ended);
        };
        tokio::join!(serving, watching, publishing);
    }
}
