//! A directory: assembled from its parts, with its background tasks.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64};

use axum::Router;
use axum::middleware::from_fn_with_state;
use tokio::sync::{Mutex, Semaphore, watch};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_fetch::{Concurrency, Untrusted};
use toolcrib_http::{BodyBudget, Quota};
use toolcrib_index::replicas::Replicas;
use toolcrib_index::search::Search;
use toolcrib_index::work::Queue;
use toolcrib_index::{Chains, Index};
use toolcrib_mcp::SetupError;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate as _, SizeAbove};

use crate::cache::Cache;
use crate::front;
use crate::images::{Images, MAX_FETCHES};
use crate::keys::Keys;
use crate::limits::Limiter;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::{api, mcp, pages, watch as feed};

/// The maximum number of open streams of changes: each may buffer a page of changes.
pub(crate) const MAX_STREAMS: usize = 500;

/// The maximum number of streams of one client network: several agents behind one address, and one twenty-fifth of all.
pub(crate) const MAX_STREAMS_PER_NETWORK: usize = 20;

/// The maximum number of concurrent exports: unlike streams, each reads the database all the time.
pub(crate) const MAX_EXPORTS: usize = 100;

/// The maximum number of exports of one client network: one that was cut off may still be counted while its reader reconnects.
pub(crate) const MAX_EXPORTS_PER_NETWORK: usize = 4;

/// Bytes of request bodies in memory at once. The largest accepted body is a usage report.
const BODY_BYTES: usize = 64 * 1024 * 1024;

/// The maximum number of requests that wait for a verification at the same time.
pub(crate) const MAX_WAITING: usize = 100;

/// The minimum size in bytes of a body that is compressed: below it the headers are most of the response.
const MIN_COMPRESSED_BYTES: u64 = 512;

/// The state shared by all handlers.
pub(crate) struct App {
    /// The primary database, for writes. What may be read from a replica is read through a [`Reader`](crate::reader::Reader).
    pub(crate) primary: Index,
    pub(crate) replicas: Replicas,
    pub(crate) search: Search,
    pub(crate) chains: Chains,
    pub(crate) clock: Arc<dyn Clock + Send + Sync>,
    pub(crate) queue: Queue,
    pub(crate) keys: Keys,
    pub(crate) options: Options,
    pub(crate) cache: Cache,
    pub(crate) images: Images,
    pub(crate) limiter: Limiter,
    pub(crate) metrics: Metrics,
    pub(crate) streams: Arc<Quota>,
    pub(crate) exports: Arc<Quota>,
    pub(crate) bodies: BodyBudget,
    pub(crate) waiting: Semaphore,
    /// The last known change, for tasks that wait for the next one.
    pub(crate) news: watch::Sender<i64>,
    /// When the feed was last read successfully, in seconds.
    pub(crate) looked_at: AtomicI64,
    pub(crate) has_looked: AtomicBool,
    /// A change that lists must include: an operator's recent decision on this node.
    pub(crate) wanted: AtomicI64,
    /// Held while the feed is read: one task at a time.
    pub(crate) looking: Mutex<()>,
    pub(crate) stats: Arc<api::stats::Counts>,
}

impl App {
    pub(crate) fn now(&self) -> UnixTime {
        self.clock.now()
    }

    /// Records a write about a tool on this node, so that later reads see it. Returns the number of the last change.
    pub(crate) async fn wrote(&self, tool: &ToolRef) -> Result<i64, toolcrib_index::Error> {
        let last = self.primary.last_change().await?;
        self.cache.changed(tool.chain, &format!("{:#x}", tool.registry), &tool.id.to_string(), last);
        Ok(last)
    }
}

/// A directory over an index. Cheap to clone.
#[derive(Clone)]
pub struct Directory {
    app: Arc<App>,
    mcp: Option<Router>,
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directory").field("options", &self.app.options).finish_non_exhaustive()
    }
}

/// A builder of a directory.
pub struct Builder {
    index: Index,
    replicas: Option<Replicas>,
    search: Search,
    chains: Chains,
    clock: Arc<dyn Clock + Send + Sync>,
    queue: Queue,
    options: Options,
    client: Option<Untrusted>,
    mcp: Option<Router>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Directory {
    /// The maximum number of concurrent fetches of images, in total and from one host: a slow host must not block the others.
    pub const IMAGE_FETCHES: Concurrency = Concurrency { total: MAX_FETCHES, host: 2 };

    /// Creates a builder for an index and its search. `queue` accepts requests for verifications; `chains` are those with RPC nodes for
    /// checking payments and access.
    pub fn builder(
        index: Index,
        search: Search,
        queue: Queue,
        chains: Chains,
        clock: impl Clock + Send + Sync + 'static,
    ) -> Builder {
        Builder {
            index,
            replicas: None,
            search,
            chains,
            clock: Arc::new(clock),
            queue,
            options: Options::default(),
            client: None,
            mcp: None,
        }
    }

    /// Returns the same directory with its MCP server at `/mcp`, as [`mcp::router`] creates it.
    pub fn with_mcp(mut self, hosts: Vec<String>, origins: Vec<String>) -> Result<Self, SetupError> {
        self.mcp = None;
        self.mcp = Some(mcp::router(self.router(), hosts, origins)?);
        Ok(self)
    }

    /// Returns all routes. Requests should have `ConnectInfo<SocketAddr>`, as those of [`serve`](crate::serve) do; without it all callers
    /// share one rate limit.
    pub fn router(&self) -> Router {
        let plain = SizeAbove::new(MIN_COMPRESSED_BYTES)
            .and(NotForContentType::const_new("text/event-stream"))
            .and(NotForContentType::IMAGES);
        // The fastest useful level: cached responses are compressed once, others while a caller waits.
        let compression = CompressionLayer::new().quality(CompressionLevel::Precise(4)).compress_when(plain);
        let mut router = Router::new().merge(api::routes()).merge(pages::routes()).fallback(front::no_such_path);
        if let Some(mcp) = &self.mcp {
            router = router.nest_service("/mcp", mcp.clone());
        }
        let router = router.layer(compression).layer(from_fn_with_state(self.app.clone(), front::front));
        router.with_state(self.app.clone())
    }

    /// Runs the background tasks until `stop` is done: reads the change feed, updates search, and drops old responses and keys.
    pub async fn run(&self, stop: impl Future<Output = ()> + Send) {
        tokio::select! {
            () = feed::keep_looking(&self.app) => {}
            () = self.app.replicas.watch() => {}
            () = stop => {}
        }
    }

    /// Reads the change feed once, without waiting for [`run`](Self::run) to do so.
    pub async fn refresh(&self) -> Result<(), toolcrib_index::Error> {
        feed::look(&self.app).await
    }

    pub(crate) fn options(&self) -> &Options {
        &self.app.options
    }

    /// Returns the API keys, for the operator.
    pub fn keys(&self) -> &Keys {
        &self.app.keys
    }

    /// Returns the metrics in the text format of Prometheus.
    pub fn metrics(&self) -> String {
        api::health::metrics_page(&self.app)
    }
}

impl Builder {
    /// Sets the options.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Sets the client for images of tools; it should allow [`Directory::IMAGE_FETCHES`]. Without one placeholders are served.
    #[must_use]
    pub fn images(mut self, client: Untrusted) -> Self {
        self.client = Some(client);
        self
    }

    /// Sets the read replicas of the index.
    #[must_use]
    pub fn replicas(mut self, replicas: Replicas) -> Self {
        self.replicas = Some(replicas);
        self
    }

    /// Sets the router at `/mcp`.
    #[must_use]
    pub fn mount_mcp(mut self, mcp: Router) -> Self {
        self.mcp = Some(mcp);
        self
    }

    /// Opens the table of keys, and builds the directory.
    pub async fn build(self) -> Result<Directory, toolcrib_index::Error> {
        let replicas = self.replicas.unwrap_or_else(|| Replicas::none(self.index.clone()));
        let keys = Keys::open(self.index.database().clone()).await?.or_read(replicas.clone());
        let cache = Cache::new(self.options.cache_bytes);
        let images = Images::new(self.client, self.options.image_cache_bytes);
        let app = App {
            primary: self.index,
            replicas,
            search: self.search,
            chains: self.chains,
            clock: self.clock,
            queue: self.queue,
            keys,
            options: self.options,
            cache,
            images,
            limiter: Limiter::new(),
            metrics: Metrics::default(),
            streams: Quota::new(MAX_STREAMS, MAX_STREAMS_PER_NETWORK),
            exports: Quota::new(MAX_EXPORTS, MAX_EXPORTS_PER_NETWORK),
            bodies: BodyBudget::new(BODY_BYTES, 0),
            waiting: Semaphore::new(MAX_WAITING),
            news: watch::Sender::new(0),
            looked_at: AtomicI64::new(0),
            has_looked: AtomicBool::new(false),
            wanted: AtomicI64::new(0),
            looking: Mutex::new(()),
            stats: Arc::default(),
        };
        Ok(Directory { app: Arc::new(app), mcp: self.mcp })
    }
}
