//! A directory: put together from its parts, and looked after while it serves.

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

/// Streams of changes that are open at the same time at most: each may hold a page of answers.
pub(crate) const MAX_STREAMS: usize = 500;

/// Streams of one client network at most: several agents behind one address, and one twenty-fifth of all.
pub(crate) const MAX_STREAMS_PER_NETWORK: usize = 20;

/// Exports at the same time at most: unlike streams, each reads the database all the time.
pub(crate) const MAX_EXPORTS: usize = 100;

/// Exports of one client network at most: one that was cut off may still be counted while its reader comes back.
pub(crate) const MAX_EXPORTS_PER_NETWORK: usize = 4;

/// Bytes of request bodies that are held at once. The largest that is taken is a usage report.
const BODY_BYTES: usize = 64 * 1024 * 1024;

/// Requests that wait for a verification at the same time at most.
pub(crate) const MAX_WAITING: usize = 100;

/// Smallest body that is worth compressing, in bytes: below it the headers are most of the answer.
const MIN_COMPRESSED_BYTES: u64 = 512;

/// Everything that handlers share.
pub(crate) struct App {
    /// The database that is written. What may be read elsewhere is read through a [`Reader`](crate::reader::Reader).
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
    /// The last change that was seen, for those who wait for the next.
    pub(crate) news: watch::Sender<i64>,
    /// Seconds of the last look at the feed that went well.
    pub(crate) looked_at: AtomicI64,
    pub(crate) has_looked: AtomicBool,
    /// A change that lists must show: what an operator decided here a moment ago.
    pub(crate) wanted: AtomicI64,
    /// One look at a time.
    pub(crate) looking: Mutex<()>,
    pub(crate) stats: Arc<api::stats::Counts>,
}

impl App {
    pub(crate) fn now(&self) -> UnixTime {
        self.clock.now()
    }

    /// Something about a tool was written here, and later reads see it. Gives the number of the last change.
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

/// A directory that is being put together.
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
    /// Fetches of images at the same time, in all and from one host: a slow host must not take every place.
    pub const IMAGE_FETCHES: Concurrency = Concurrency { total: MAX_FETCHES, host: 2 };

    /// Begins a directory over an index and its search. `queue` takes requests for another look; `chains` are those that can be asked
    /// about payments and access.
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

    /// The same directory with its tools for models at `/mcp`, as [`mcp::router`] makes them.
    pub fn with_mcp(mut self, hosts: Vec<String>, origins: Vec<String>) -> Result<Self, SetupError> {
        self.mcp = None;
        self.mcp = Some(mcp::router(self.router(), hosts, origins)?);
        Ok(self)
    }

    /// All routes. Requests should carry `ConnectInfo<SocketAddr>`, as those of [`serve`](crate::serve) do; without it all callers share
    /// one limit.
    pub fn router(&self) -> Router {
        let plain = SizeAbove::new(MIN_COMPRESSED_BYTES)
            .and(NotForContentType::const_new("text/event-stream"))
            .and(NotForContentType::IMAGES);
        // The quickest level that is worth it: kept answers are compressed once, others while somebody waits.
        let compression = CompressionLayer::new().quality(CompressionLevel::Precise(4)).compress_when(plain);
        let mut router = Router::new().merge(api::routes()).merge(pages::routes()).fallback(front::no_such_path);
        if let Some(mcp) = &self.mcp {
            router = router.nest_service("/mcp", mcp.clone());
        }
        let router = router.layer(compression).layer(from_fn_with_state(self.app.clone(), front::front));
        router.with_state(self.app.clone())
    }

    /// Looks after the directory until `stop` is done: reads the change feed, feeds search, and drops answers and keys that are old.
    pub async fn run(&self, stop: impl Future<Output = ()> + Send) {
        tokio::select! {
            () = feed::keep_looking(&self.app) => {}
            () = self.app.replicas.watch() => {}
            () = stop => {}
        }
    }

    /// Looks at the change feed once, for whoever does not want to wait for [`run`](Self::run) to do so.
    pub async fn refresh(&self) -> Result<(), toolcrib_index::Error> {
        feed::look(&self.app).await
    }

    pub(crate) fn options(&self) -> &Options {
        &self.app.options
    }

    /// The keys, for the operator.
    pub fn keys(&self) -> &Keys {
        &self.app.keys
    }

    /// What it has done, as Prometheus reads it.
    pub fn metrics(&self) -> String {
        api::health::metrics_page(&self.app)
    }
}

impl Builder {
    /// How it behaves.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Fetches images of tools with this client; it should allow [`Directory::IMAGE_FETCHES`]. Without one there are placeholders.
    #[must_use]
    pub fn images(mut self, client: Untrusted) -> Self {
        self.client = Some(client);
        self
    }

    /// Reads from these replicas of the index where that is right.
    #[must_use]
    pub fn replicas(mut self, replicas: Replicas) -> Self {
        self.replicas = Some(replicas);
        self
    }

    /// What answers at `/mcp`.
    #[must_use]
    pub fn mount_mcp(mut self, mcp: Router) -> Self {
        self.mcp = Some(mcp);
        self
    }

    /// Opens the table of keys, and puts it together.
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
