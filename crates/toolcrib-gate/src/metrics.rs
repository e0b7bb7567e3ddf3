//! A server's metrics, in the Prometheus text format.
//!
//! Labels are few and bounded: a tool's slug, a status, a code of the vocabulary, an asset of a price. None contains data of callers. Serve
//! the page on a separate listener ([`Server::metrics_router`]); no tool's route serves it.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use alloy_primitives::U256;
use axum::Router;
use axum::routing::get;
use tokio::time::{Instant, timeout};
use toolcrib_core::codes::Code;
use toolcrib_http::{Histogram, MetricsPage, metrics_response};
use toolcrib_store::replay::{Counts, Limits};
use toolcrib_x402::Offer;

use crate::tools::{MAX_RUNNING, Served, Server};

/// For how many seconds the store's counts are cached: counting reads every row, and several scrapers may run.
pub const COUNTS_SECONDS: u64 = 5;

/// Timeout for counting. Scrapers time out after ten seconds.
const COUNT_TIME: Duration = Duration::from_secs(3);

/// Upper bounds of the histogram buckets in seconds: from a read of memory to the longest call.
const BUCKETS: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 20.0, 60.0];

/// The counters of a server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    counts: tokio::sync::Mutex<Option<(Instant, Option<Counts>)>>,
}

/// The counters of a tool.
#[derive(Debug)]
pub(crate) struct ToolMetrics {
    calls: Mutex<BTreeMap<(u16, &'static str), u64>>,
    pub(crate) handler: Histogram,
    pub(crate) settlement: Histogram,
    ends: [AtomicU64; End::ALL.len()],
    reports: [AtomicU64; 2],
    settled: Mutex<BTreeMap<String, U256>>,
}

/// The outcome of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Settled,
    Refused,
    Unknown,
    Unavailable,
}

impl End {
    const ALL: [Self; 4] = [Self::Settled, Self::Refused, Self::Unknown, Self::Unavailable];

    const fn name(self) -> &'static str {
        match self {
            Self::Settled => "settled",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
            Self::Unavailable => "unavailable",
        }
    }
}

impl Default for ToolMetrics {
    fn default() -> Self {
        Self {
            calls: Mutex::default(),
            handler: Histogram::new(&BUCKETS),
            settlement: Histogram::new(&BUCKETS),
            ends: <[AtomicU64; End::ALL.len()]>::default(),
            reports: <[AtomicU64; 2]>::default(),
            settled: Mutex::default(),
        }
    }
}

impl ToolMetrics {
    /// Counts a response.
    pub(crate) fn answered(&self, status: u16, code: Option<Code>) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        *calls.entry((status, code.map_or("", Code::id))).or_default() += 1;
    }

    /// Counts a payment that did not settle.
    pub(crate) fn ended(&self, end: End) {
        self.ends[end as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a settlement.
    pub(crate) fn settled(&self, offer: &Offer) {
        self.ended(End::Settled);
        let asset = match offer.asset.evm_address() {
            Some(address) => format!("{}/erc20:{address:#x}", offer.network),
            None => format!("{}/{}", offer.network, offer.asset.as_str()),
        };
        let mut settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = settled.entry(asset).or_default();
        *sum = sum.saturating_add(offer.amount.get());
    }

    /// Counts a usage report, sent or failed.
    pub(crate) fn reported(&self, is_taken: bool) {
        self.reports[usize::from(is_taken)].fetch_add(1, Ordering::Relaxed);
    }
}

impl Server {
    /// Returns the server's metrics in the Prometheus text format.
    pub async fn metrics(&self) -> String {
        let mut page = Page::default();
        page.calls(&self.tools);
        page.histogram("toolcrib_handler_seconds", "How long handlers ran.", &self.tools, |tool| &tool.handler);
        page.histogram("toolcrib_settlement_seconds", "How long settlements took.", &self.tools, |tool| &tool.settlement);
        page.payments(&self.tools);
        page.skews(&self.tools);
        page.0.single(
            "toolcrib_running_calls",
            "gauge",
            "Calls that are running.",
            MAX_RUNNING.saturating_sub(self.shared.running.available_permits()),
        );
        page.0.single(
            "toolcrib_body_bytes",
            "gauge",
            "Bytes of inputs that are held before their calls run.",
            self.shared.bodies.used(),
        );
        page.store(self.counts().await, &self.shared.used.store(self.shared.clock.now()).limits());
        page.0.into_text()
    }

    /// Returns a router for `/metrics`, for a listener that callers cannot reach.
    pub fn metrics_router(&self) -> Router {
        let server = self.clone();
        let page = move || async move { metrics_response(server.metrics().await) };
        Router::new().route("/metrics", get(page))
    }

    /// Returns what the store holds, or held a moment ago. `None` if it does not answer.
    async fn counts(&self) -> Option<Counts> {
        let mut kept = self.shared.metrics.counts.lock().await;
        if let Some((_, counts)) = kept.as_ref().filter(|(at, _)| at.elapsed().as_secs() < COUNTS_SECONDS) {
            return *counts;
        }
        let store = self.shared.used.store(self.shared.clock.now());
        let counts = timeout(COUNT_TIME, store.counts()).await.ok().and_then(Result::ok);
        *kept = Some((Instant::now(), counts));
        counts
    }
}

/// A page that is being written. The samples of a metric family follow its description.
#[derive(Default)]
struct Page(MetricsPage);

impl Page {
    fn calls(&mut self, tools: &[std::sync::Arc<Served>]) {
        self.0.family("toolcrib_calls_total", "counter", "Answers of endpoints by status and code.");
        for tool in tools {
            let calls = tool.metrics.calls.lock().unwrap_or_else(PoisonError::into_inner).clone();
            for ((status, code), count) in calls {
                self.0.sample("toolcrib_calls_total", &[("tool", &tool.slug), ("status", &status), ("code", &code)], count);
            }
        }
        self.0.family("toolcrib_usage_reports_total", "counter", "Usage reports by what became of them.");
        for tool in tools {
            for (outcome, count) in ["failed", "taken"].into_iter().zip(&tool.metrics.reports) {
                let labels = [("tool", &tool.slug as &dyn Display), ("outcome", &outcome)];
                self.0.sample("toolcrib_usage_reports_total", &labels, count.load(Ordering::Relaxed));
            }
        }
    }

    fn payments(&mut self, tools: &[std::sync::Arc<Served>]) {
        let paid = || tools.iter().filter(|tool| tool.gate.charge.is_some());
        self.0.family("toolcrib_payments_total", "counter", "Payments by how they ended.");
        for tool in paid() {
            for (end, count) in End::ALL.into_iter().zip(&tool.metrics.ends) {
                let labels = [("tool", &tool.slug as &dyn Display), ("outcome", &end.name())];
                self.0.sample("toolcrib_payments_total", &labels, count.load(Ordering::Relaxed));
            }
        }
        self.0.family("toolcrib_settled_units_total", "counter", "Money that moved, in the smallest units of each asset.");
        for tool in paid() {
            let settled = tool.metrics.settled.lock().unwrap_or_else(PoisonError::into_inner).clone();
            for (asset, sum) in settled {
                self.0.sample("toolcrib_settled_units_total", &[("tool", &tool.slug), ("asset", &asset)], sum);
            }
        }
    }

    fn skews(&mut self, tools: &[std::sync::Arc<Served>]) {
        let skews: BTreeMap<u64, i64> =
            tools.iter().filter_map(|tool| tool.gate.charge.as_ref()).flat_map(|charge| charge.settle.clock_skews()).collect();
        let help =
            "Seconds that the machine's clock is ahead of a chain's newest block; more than 30 either way needs attention.";
        self.0.family("toolcrib_clock_skew_seconds", "gauge", help);
        for (chain, ahead) in skews {
            self.0.sample("toolcrib_clock_skew_seconds", &[("chain", &format_args!("eip155:{chain}"))], ahead);
        }
    }

    fn store(&mut self, counts: Option<Counts>, limits: &Limits) {
        self.0.single("toolcrib_replay_up", "gauge", "Whether the replay store answers.", u8::from(counts.is_some()));
        self.0.single(
            "toolcrib_replay_entries_limit",
            "gauge",
            "Signatures and payments that the replay store takes.",
            limits.entries,
        );
        let help = "What kept results may count for before delivered ones are dropped.";
        self.0.single("toolcrib_replay_result_bytes_limit", "gauge", help, limits.result_bytes);
        self.0.single(
            "toolcrib_replay_one_result_bytes_limit",
            "gauge",
            "Largest result of a paid call in bytes.",
            limits.largest_result(),
        );
        let Some(counts) = counts else { return };
        self.0.family("toolcrib_replay_entries", "gauge", "Signatures and payments in the replay store by state.");
        let states = [
            ("reserved", counts.reserved),
            ("settling", counts.settling),
            ("settled", counts.settled),
            ("unknown", counts.unknown),
        ];
        for (state, count) in states {
            self.0.sample("toolcrib_replay_entries", &[("state", &state)], count);
        }
        self.0.single(
            "toolcrib_replay_result_bytes",
            "gauge",
            "What kept results count for in the replay store.",
            counts.result_bytes,
        );
    }

    fn histogram(&mut self, name: &str, help: &str, tools: &[std::sync::Arc<Served>], of: impl Fn(&ToolMetrics) -> &Histogram) {
        self.0.family(name, "histogram", help);
        for tool in tools {
            self.0.histogram(name, &[("tool", &tool.slug)], of(&tool.metrics));
        }
    }
}
