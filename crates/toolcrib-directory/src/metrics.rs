//! Metrics of a directory, in the text format of Prometheus.
//!
//! Labels are few and bounded: a route, a status, a code of the vocabulary. They never contain caller data.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::Code;
use toolcrib_http::{Histogram, MetricsPage};
use toolcrib_index::RegistryRow;
use toolcrib_index::agents::AgentCensus;
use toolcrib_index::bazaar::{BazaarCensus, FacilitatorState};
use toolcrib_index::follow::Completeness;
use toolcrib_index::replicas::{ReplicaReport, ReplicaState};
use toolcrib_index::work::{Expired, QueueState};

/// Upper bounds of the buckets, in seconds: from a cached response to an awaited verification.
const BUCKETS: [f64; 10] = [0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 10.0];

/// The counters and gauges.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    routes: [RouteMetrics; Route::ALL.len()],
    refused: Mutex<BTreeMap<&'static str, u64>>,
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) image_hits: AtomicU64,
    pub(crate) image_misses: AtomicU64,
    pub(crate) images_failed: AtomicU64,
    pub(crate) images_limited: AtomicU64,
    pub(crate) streams: AtomicI64,
    pub(crate) poll_failures: AtomicU64,
    /// Stale responses served because the database was unavailable.
    pub(crate) stale: AtomicU64,
    /// Requests sent to a replica that failed.
    pub(crate) replica_failures: AtomicU64,
    /// Requests answered by each replica; those of the primary are under 0.
    database_reads: Mutex<BTreeMap<usize, u64>>,
    pub(crate) keys_issued: AtomicU64,
    pub(crate) looks_asked: AtomicU64,
    pub(crate) reports: [AtomicU64; 2],
    expired: AtomicU64,
    expiry_held: AtomicU64,
    /// The state of the verification queue a few seconds ago.
    queue: Mutex<Option<(Instant, QueueState)>>,
    /// The progress of each registry at that time.
    registries: Mutex<Vec<RegistryRow>>,
    /// Known omissions of logs at that time.
    completeness: Mutex<Vec<Completeness>>,
    /// The census of agents at that time.
    agents: Mutex<Option<AgentCensus>>,
    /// The census of Bazaar resources at that time.
    bazaar: Mutex<Option<BazaarCensus>>,
}

#[derive(Debug)]
struct RouteMetrics {
    /// By the first digit of the status.
    statuses: [AtomicU64; 6],
    times: Histogram,
}

impl Default for RouteMetrics {
    fn default() -> Self {
        Self { statuses: <[AtomicU64; 6]>::default(), times: Histogram::new(&BUCKETS) }
    }
}

/// The routes that metrics distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    List,
    Search,
    Tool,
    ToolPart,
    Verify,
    Usage,
    Abuse,
    Keys,
    Changes,
    Export,
    Api,
    Page,
    Image,
    Mcp,
    Metrics,
    Other,
}

impl Route {
    const ALL: [Self; 16] = [
        Self::List,
        Self::Search,
        Self::Tool,
        Self::ToolPart,
        Self::Verify,
        Self::Usage,
        Self::Abuse,
        Self::Keys,
        Self::Changes,
        Self::Export,
        Self::Api,
        Self::Page,
        Self::Image,
        Self::Mcp,
        Self::Metrics,
        Self::Other,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Search => "search",
            Self::Tool => "tool",
            Self::ToolPart => "tool_part",
            Self::Verify => "verify",
            Self::Usage => "usage",
            Self::Abuse => "abuse",
            Self::Keys => "keys",
            Self::Changes => "changes",
            Self::Export => "export",
            Self::Api => "api",
            Self::Page => "page",
            Self::Image => "image",
            Self::Mcp => "mcp",
            Self::Metrics => "metrics",
            Self::Other => "other",
        }
    }

    /// Whether responses only show data that is read from the database.
    pub(crate) const fn is_of_database(self) -> bool {
        matches!(
            self,
            Self::List | Self::Search | Self::Tool | Self::ToolPart | Self::Changes | Self::Export | Self::Api | Self::Page
        )
    }

    /// Returns the route of a path.
    pub(crate) fn of(path: &str) -> Self {
        if let Some(rest) = path.strip_prefix("/api/v2/") {
            return match rest {
                "tools" => Self::List,
                "tools/search" => Self::Search,
                "tools/usage" => Self::Usage,
                "auth/keys" => Self::Keys,
                "changes" => Self::Changes,
                "export" => Self::Export,
                _ if rest.starts_with("tools/") => match rest.matches('/').count() {
                    3 => Self::Tool,
                    _ if rest.ends_with("/verify") => Self::Verify,
                    _ if rest.ends_with("/abuse") => Self::Abuse,
                    _ => Self::ToolPart,
                },
                _ => Self::Api,
            };
        }
        match path {
            "/" => Self::Page,
            "/metrics" => Self::Metrics,
            "/agents" => Self::Page,
            _ if path.starts_with("/tools/") || path.starts_with("/agents/") => Self::Page,
            _ if path.starts_with("/images/") => Self::Image,
            _ if path == "/mcp" || path.starts_with("/mcp/") => Self::Mcp,
            _ => Self::Other,
        }
    }
}

impl Metrics {
    /// Counts a response.
    pub(crate) fn answered(&self, route: Route, status: u16, took: Duration) {
        let route = &self.routes[route as usize];
        route.statuses[usize::from(status / 100).min(5)].fetch_add(1, Ordering::Relaxed);
        route.times.observe(took);
    }

    /// Counts a rejected request.
    pub(crate) fn refused(&self, code: &'static str) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner).entry(code).or_default() += 1;
    }

    /// Counts a request answered by a replica, or by the primary, which is 0.
    pub(crate) fn read_from(&self, database: usize) {
        *self.database_reads.lock().unwrap_or_else(PoisonError::into_inner).entry(database).or_default() += 1;
    }

    /// Counts listings that expired or were held back.
    pub(crate) fn saw_expired(&self, expired: Expired) {
        self.expired.fetch_add(expired.ended as u64, Ordering::Relaxed);
        self.expiry_held.store(expired.held, Ordering::Relaxed);
    }

    /// Stores the state of the queue.
    pub(crate) fn saw_queue(&self, state: QueueState) {
        *self.queue.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), state));
    }

    /// Stores the progress of registries.
    pub(crate) fn saw_registries(&self, rows: Vec<RegistryRow>) {
        *self.registries.lock().unwrap_or_else(PoisonError::into_inner) = rows;
    }

    /// Stores what is known about logs that nodes omit.
    pub(crate) fn saw_completeness(&self, rows: Vec<Completeness>) {
        *self.completeness.lock().unwrap_or_else(PoisonError::into_inner) = rows;
    }

    /// Stores the census of agents.
    pub(crate) fn saw_agents(&self, census: AgentCensus) {
        *self.agents.lock().unwrap_or_else(PoisonError::into_inner) = Some(census);
    }

    /// Stores the census of Bazaar resources.
    pub(crate) fn saw_bazaar(&self, census: BazaarCensus) {
        *self.bazaar.lock().unwrap_or_else(PoisonError::into_inner) = Some(census);
    }

    /// Returns the state of the queue, and when it was read.
    pub(crate) fn queue(&self) -> Option<(Instant, QueueState)> {
        *self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the gauges of the queue, once it was read.
    pub(crate) fn queue_gauges(&self, now: UnixTime) -> Vec<(&'static str, &'static str, u64)> {
        let Some((_, state)) = self.queue() else { return Vec::new() };
        let waits = state.oldest_due.map_or(0, |since| u64::try_from(now.seconds() - since.seconds()).unwrap_or_default());
        vec![
            ("queue_waiting", "Queued verifications, counted up to 10000.", state.due),
            ("queue_leased", "Running verifications, counted up to 10000.", state.leased),
            ("queue_oldest_seconds", "Time that the oldest queued item is overdue.", waits),
        ]
    }

    /// Returns the page.
    pub(crate) fn page(&self, gauges: &[(&str, &str, u64)], replicas: &[ReplicaReport], now: UnixTime) -> String {
        let mut page = MetricsPage::default();
        page.family("toolcrib_directory_requests_total", "counter", "Answered requests.");
        for route in Route::ALL {
            for (class, count) in self.routes[route as usize].statuses.iter().enumerate() {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    let name = route.name();
                    page.sample(
                        "toolcrib_directory_requests_total",
                        &[("route", &name), ("status", &format_args!("{class}xx"))],
                        count,
                    );
                }
            }
        }
        page.family("toolcrib_directory_seconds", "histogram", "Response time.");
        for route in Route::ALL {
            let times = &self.routes[route as usize].times;
            if !times.is_empty() {
                page.histogram("toolcrib_directory_seconds", &[("route", &route.name())], times);
            }
        }
        page.family("toolcrib_directory_refused_total", "counter", "Refused requests, by code.");
        for (code, count) in self.refused.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            page.sample("toolcrib_directory_refused_total", &[("code", code)], count);
        }
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        for (name, help, count) in [
            ("cache_hits_total", "Responses served from the cache.", load(&self.hits)),
            ("cache_misses_total", "Responses not found in the cache.", load(&self.misses)),
            ("image_hits_total", "Images served from the cache, including cached failures.", load(&self.image_hits)),
            ("image_misses_total", "Images not found in the cache.", load(&self.image_misses)),
            ("images_failed_total", "Images that could not be fetched or have an unsupported format.", load(&self.images_failed)),
            ("images_limited_total", "Images not fetched because of a limit.", load(&self.images_limited)),
            ("stale_answers_total", "Stale responses served because the database did not answer.", load(&self.stale)),
            ("replica_failures_total", "Requests that a read replica did not answer.", load(&self.replica_failures)),
            ("poll_failures_total", "Failed reads of the change feed.", load(&self.poll_failures)),
            ("keys_issued_total", "Issued API keys.", load(&self.keys_issued)),
            ("looks_asked_total", "Requested verifications.", load(&self.looks_asked)),
            ("listings_expired_total", "Listings that this process expired.", load(&self.expired)),
            ("usage_reports_unproven_total", "Rejected usage reports.", load(&self.reports[0])),
            ("usage_reports_proven_total", "Accepted usage reports.", load(&self.reports[1])),
        ] {
            page.single(&format!("toolcrib_directory_{name}"), "counter", help, count);
        }
        let streams = u64::try_from(self.streams.load(Ordering::Relaxed)).unwrap_or_default();
        let held = load(&self.expiry_held);
        let own = [
            ("streams", "Open streams and exports.", streams),
            ("expiry_held", "Listings whose expiry is held back as a mass expiry, counted up to 10000.", held),
        ];
        for (name, help, value) in gauges.iter().copied().chain(own) {
            page.single(&format!("toolcrib_directory_{name}"), "gauge", help, value);
        }
        self.replicas(&mut page, replicas);
        self.chains(&mut page);
        self.agents(&mut page, now);
        self.bazaar(&mut page, now);
        page.into_text()
    }

    /// Adds the metrics of agents, if the index has any.
    fn agents(&self, page: &mut MetricsPage, now: UnixTime) {
        let census = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(census) = census.as_ref().filter(|census| !census.states.is_empty()) else { return };
        page.family("toolcrib_directory_agents", "gauge", "Listed names by the state of their last verdict.");
        for (state, count) in &census.states {
            // Our own state names, unless a later version wrote them.
            let is_word = state.len() <= 32 && state.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
            let state = if is_word { state } else { "other" };
            page.sample("toolcrib_directory_agents", &[("state", &state)], count);
        }
        let help = "Names whose last check could not be completed, by code.";
        page.family("toolcrib_directory_agents_unreachable", "gauge", help);
        for (code, count) in &census.unreachable {
            let code = Code::find(code).map_or("other", |code| code.id());
            page.sample("toolcrib_directory_agents_unreachable", &[("code", &code)], count);
        }
        let waits = census.oldest_due.map_or(0, |since| u64::try_from(now.seconds() - since.seconds()).unwrap_or_default());
        for (name, help, value) in [
            ("agents_verified", "Names that are currently verified and conformant.", census.good),
            ("agents_due", "Names queued for verification.", census.due),
            ("agents_leased", "Names being verified.", census.leased),
            ("agents_oldest_seconds", "Time that the oldest queued item is overdue.", waits),
        ] {
            page.single(&format!("toolcrib_directory_{name}"), "gauge", help, value);
        }
    }

    /// Adds the metrics of read replicas, if there are any. An operator configures them, so there are few.
    fn replicas(&self, page: &mut MetricsPage, replicas: &[ReplicaReport]) {
        if replicas.is_empty() {
            return;
        }
        let reads = self.database_reads.lock().unwrap_or_else(PoisonError::into_inner);
        page.family(
            "toolcrib_directory_database_reads_total",
            "counter",
            "Requests answered from each database; replica 0 is the primary.",
        );
        for (number, count) in reads.iter() {
            page.sample("toolcrib_directory_database_reads_total", &[("replica", number)], count);
        }
        drop(reads);
        type Number = fn(&ReplicaReport) -> f64;
        let gauges: [(&str, &str, Number); 3] = [
            ("replica_usable", "1 if requests are answered from the replica.", |report| {
                f64::from(u8::from(report.state == ReplicaState::Usable))
            }),
            ("replica_watermark", "Last change that the replica has replayed.", |report| report.watermark as f64),
            ("replica_age_seconds", "Replication lag of the replica.", |report| report.age.as_secs_f64()),
        ];
        for (name, help, number) in gauges {
            let name = format!("toolcrib_directory_{name}");
            page.family(&name, "gauge", help);
            for report in replicas {
                page.sample(&name, &[("replica", &report.number)], number(report));
            }
        }
        page.family("toolcrib_directory_replica_fault", "gauge", "Reason why a replica is not used, by code.");
        for report in replicas {
            if let Some(code) = report.state.code() {
                page.sample("toolcrib_directory_replica_fault", &[("replica", &report.number), ("code", &code)], 1);
            }
        }
    }

    /// Adds the metrics of following the Bazaar, if a facilitator is configured.
    fn bazaar(&self, page: &mut MetricsPage, now: UnixTime) {
        let census = self.bazaar.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(census) = census.as_ref().filter(|census| !census.facilitators.is_empty()) else { return };
        for (name, help, value) in [
            ("bazaar_resources", "Resources that facilitators list.", census.listed),
            ("bazaar_probed", "Listed resources that were probed for their price.", census.probed),
            ("bazaar_due", "Resources queued for a probe.", census.due),
        ] {
            page.single(&format!("toolcrib_directory_{name}"), "gauge", help, value);
        }
        let ago = |at: Option<UnixTime>| at.and_then(|at| u64::try_from(now.since(at)).ok());
        type Value = fn(&FacilitatorState, &dyn Fn(Option<UnixTime>) -> Option<u64>) -> Option<u64>;
        let families: [(&str, &str, Value); 5] = [
            ("bazaar_facilitator_resources", "Resources that a facilitator lists.", |state, _| Some(state.resources)),
            ("bazaar_facilitator_items", "Items in the last crawl of its catalogue.", |state, _| Some(state.items)),
            ("bazaar_facilitator_skipped", "Items skipped in the last crawl.", |state, _| Some(state.skipped)),
            ("bazaar_facilitator_failed", "1 if the last crawl was incomplete.", |state, _| {
                Some(u64::from(!state.outcome.is_empty()))
            }),
            ("bazaar_facilitator_complete_seconds", "Time since the last complete crawl.", |state, ago| ago(state.completed_at)),
        ];
        for (name, help, value) in families {
            let name = format!("toolcrib_directory_{name}");
            page.family(&name, "gauge", help);
            for (number, state) in census.facilitators.iter().enumerate() {
                if let Some(value) = value(state, &ago) {
                    // Two facilitators may have the same origin.
                    page.sample(&name, &[("number", &(number + 1)), ("facilitator", &state.facilitator)], value);
                }
            }
        }
    }

    /// Adds the progress of each registry. An operator configures them, so there are few.
    fn chains(&self, page: &mut MetricsPage) {
        let rows = self.registries.lock().unwrap_or_else(PoisonError::into_inner);
        type Block = fn(&RegistryRow) -> i64;
        let gauges: [(&str, &str, Block); 2] = [
            ("registry_block", "Last indexed block.", |row| row.state.checkpoint),
            ("registry_head", "Chain head as seen by the follower.", |row| row.state.head),
        ];
        for (name, help, block) in gauges {
            let name = format!("toolcrib_directory_{name}");
            page.family(&name, "gauge", help);
            for row in rows.iter() {
                // Before the first read there is no block, which is -1.
                let registry = format_args!("{:#x}", row.address);
                page.sample(&name, &[("chain", &row.chain), ("registry", &registry)], block(row).max(0));
            }
        }
        let known = self.completeness.lock().unwrap_or_else(PoisonError::into_inner);
        type Count = fn(&Completeness) -> u64;
        let counts: [(&str, &str, &str, Count); 5] = [
            ("registry_incomplete", "gauge", "1 while logs are missing that no RPC node returns.", |known| {
                u64::from(known.incomplete_since.is_some())
            }),
            ("registry_wrong_tools", "gauge", "Tools that differ from the registry.", |known| known.wrong_tools),
            ("registry_rescanning", "gauge", "1 while logs are rescanned.", |known| u64::from(known.rescan_from.is_some())),
            ("registry_omitted_logs_total", "counter", "Logs that an RPC node omitted and another response had.", |known| {
                known.omitted
            }),
            (
                "registry_doubtful_blocks_total",
                "counter",
                "Blocks whose bloom filter matches events that no RPC node returns.",
                |known| known.doubtful,
            ),
        ];
        for (name, kind, help, count) in counts {
            let name = format!("toolcrib_directory_{name}");
            page.family(&name, kind, help);
            for row in rows.iter() {
                let count = known.iter().find(|known| known.registry == row.id).map_or(0, count);
                let registry = format_args!("{:#x}", row.address);
                page.sample(&name, &[("chain", &row.chain), ("registry", &registry)], count);
            }
        }
    }
}
