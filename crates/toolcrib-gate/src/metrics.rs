//! What a server has done, in the text format of Prometheus.
//!
//! Labels are few and bounded: a tool's slug, a status, a code of the vocabulary, an asset of a price. Nothing of a caller is among them.
//! The page belongs on a listener of its own ([`Server::metrics_router`]); no route of a tool leads there.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use alloy_primitives::U256;
use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse as _;
use axum::routing::get;
use tokio::time::{Instant, timeout};
use toolcrib_core::codes::Code;
use toolcrib_store::replay::{Counts, Limits};
use toolcrib_x402::Offer;

use crate::tools::{MAX_RUNNING, Served, Server};

/// For how long the store's counts are kept, in seconds: counting reads every row, and several may scrape.
pub const COUNTS_SECONDS: u64 = 5;

/// How long the store has to count. Scrapers give up after ten seconds.
const COUNT_TIME: Duration = Duration::from_secs(3);

/// Upper ends of the buckets, in seconds: from a look into memory to the longest call.
const BUCKETS: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 20.0, 60.0];

/// What is counted for a server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    counts: tokio::sync::Mutex<Option<(Instant, Option<Counts>)>>,
}

/// What is counted for a tool.
#[derive(Debug, Default)]
pub(crate) struct ToolMetrics {
    calls: Mutex<BTreeMap<(u16, &'static str), u64>>,
    pub(crate) handler: Histogram,
    pub(crate) settlement: Histogram,
    ends: [AtomicU64; End::ALL.len()],
    reports: [AtomicU64; 2],
    settled: Mutex<BTreeMap<String, U256>>,
}

/// How a payment ended.
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

impl ToolMetrics {
    /// A call was answered.
    pub(crate) fn answered(&self, status: u16, code: Option<Code>) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        *calls.entry((status, code.map_or("", Code::id))).or_default() += 1;
    }

    /// A payment ended without money.
    pub(crate) fn ended(&self, end: End) {
        self.ends[end as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Money moved.
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

    /// A usage report was sent, or was not taken.
    pub(crate) fn reported(&self, is_taken: bool) {
        self.reports[usize::from(is_taken)].fetch_add(1, Ordering::Relaxed);
    }
}

/// How long something took.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    counts: [AtomicU64; BUCKETS.len() + 1],
    micros: AtomicU64,
}

impl Histogram {
    pub(crate) fn observe(&self, took: Duration) {
        let bucket = BUCKETS.iter().position(|end| took.as_secs_f64() <= *end).unwrap_or(BUCKETS.len());
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl Server {
    /// What the server has done, as Prometheus reads it.
    pub async fn metrics(&self) -> String {
        let mut page = Page::default();
        page.calls(&self.tools);
        page.histogram("toolcrib_handler_seconds", "How long handlers ran.", &self.tools, |tool| &tool.handler);
        page.histogram("toolcrib_settlement_seconds", "How long settlements took.", &self.tools, |tool| &tool.settlement);
        page.payments(&self.tools);
        page.skews(&self.tools);
        page.family("toolcrib_running_calls", "gauge", "Calls that are running.");
        page.sample("toolcrib_running_calls", &[], MAX_RUNNING.saturating_sub(self.shared.running.available_permits()));
        page.family("toolcrib_body_bytes", "gauge", "Bytes of inputs that are held before their calls run.");
        page.sample("toolcrib_body_bytes", &[], self.shared.bodies.used());
        page.store(self.counts().await, &self.shared.used.store(self.shared.clock.now()).limits());
        page.0
    }

    /// The page at `/metrics`, for a listener that callers do not reach.
    pub fn metrics_router(&self) -> Router {
        let server = self.clone();
        let page = move || async move {
            let kind = "text/plain; version=0.0.4; charset=utf-8";
            ([(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-store")], server.metrics().await).into_response()
        };
        Router::new().route("/metrics", get(page))
    }

    /// What the store holds, or held a moment ago. `None` when it does not say.
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

/// A page that is being written. The samples of a family stand together, behind what they are.
#[derive(Default)]
struct Page(String);

impl Page {
    fn calls(&mut self, tools: &[std::sync::Arc<Served>]) {
        self.family("toolcrib_calls_total", "counter", "Answers of endpoints by status and code.");
        for tool in tools {
            let calls = tool.metrics.calls.lock().unwrap_or_else(PoisonError::into_inner).clone();
            for ((status, code), count) in calls {
                self.sample(
                    "toolcrib_calls_total",
                    &[("tool", &tool.slug), ("status", &status.to_string()), ("code", code)],
                    count,
                );
            }
        }
        self.family("toolcrib_usage_reports_total", "counter", "Usage reports by what became of them.");
        for tool in tools {
            for (outcome, count) in ["failed", "taken"].into_iter().zip(&tool.metrics.reports) {
                let labels = [("tool", &*tool.slug), ("outcome", outcome)];
                self.sample("toolcrib_usage_reports_total", &labels, count.load(Ordering::Relaxed));
            }
        }
    }

    fn payments(&mut self, tools: &[std::sync::Arc<Served>]) {
        let paid = || tools.iter().filter(|tool| tool.gate.charge.is_some());
        self.family("toolcrib_payments_total", "counter", "Payments by how they ended.");
        for tool in paid() {
            for (end, count) in End::ALL.into_iter().zip(&tool.metrics.ends) {
                let labels = [("tool", &*tool.slug), ("outcome", end.name())];
                self.sample("toolcrib_payments_total", &labels, count.load(Ordering::Relaxed));
            }
        }
        self.family("toolcrib_settled_units_total", "counter", "Money that moved, in the smallest units of each asset.");
        for tool in paid() {
            let settled = tool.metrics.settled.lock().unwrap_or_else(PoisonError::into_inner).clone();
            for (asset, sum) in settled {
                self.sample("toolcrib_settled_units_total", &[("tool", &tool.slug), ("asset", &asset)], sum);
            }
        }
    }

    fn skews(&mut self, tools: &[std::sync::Arc<Served>]) {
        let skews: BTreeMap<u64, i64> =
            tools.iter().filter_map(|tool| tool.gate.charge.as_ref()).flat_map(|charge| charge.settle.clock_skews()).collect();
        let help =
            "Seconds that the machine's clock is ahead of a chain's newest block; more than 30 either way needs attention.";
        self.family("toolcrib_clock_skew_seconds", "gauge", help);
        for (chain, ahead) in skews {
            self.sample("toolcrib_clock_skew_seconds", &[("chain", &format!("eip155:{chain}"))], ahead);
        }
    }

    fn store(&mut self, counts: Option<Counts>, limits: &Limits) {
        self.family("toolcrib_replay_up", "gauge", "Whether the replay store answers.");
        self.sample("toolcrib_replay_up", &[], u8::from(counts.is_some()));
        self.family("toolcrib_replay_entries_limit", "gauge", "Signatures and payments that the replay store takes.");
        self.sample("toolcrib_replay_entries_limit", &[], limits.entries);
        let help = "What kept results may count for before delivered ones are dropped.";
        self.family("toolcrib_replay_result_bytes_limit", "gauge", help);
        self.sample("toolcrib_replay_result_bytes_limit", &[], limits.result_bytes);
        self.family("toolcrib_replay_one_result_bytes_limit", "gauge", "Largest result of a paid call in bytes.");
        self.sample("toolcrib_replay_one_result_bytes_limit", &[], limits.largest_result());
        let Some(counts) = counts else { return };
        self.family("toolcrib_replay_entries", "gauge", "Signatures and payments in the replay store by state.");
        let states = [
            ("reserved", counts.reserved),
            ("settling", counts.settling),
            ("settled", counts.settled),
            ("unknown", counts.unknown),
        ];
        for (state, count) in states {
            self.sample("toolcrib_replay_entries", &[("state", state)], count);
        }
        self.family("toolcrib_replay_result_bytes", "gauge", "What kept results count for in the replay store.");
        self.sample("toolcrib_replay_result_bytes", &[], counts.result_bytes);
    }

    fn histogram(&mut self, name: &str, help: &str, tools: &[std::sync::Arc<Served>], of: impl Fn(&ToolMetrics) -> &Histogram) {
        self.family(name, "histogram", help);
        for tool in tools {
            let histogram = of(&tool.metrics);
            let mut count = 0;
            let ends = BUCKETS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
            for (end, bucket) in ends.zip(&histogram.counts) {
                count += bucket.load(Ordering::Relaxed);
                self.sample(&format!("{name}_bucket"), &[("tool", &tool.slug), ("le", &end)], count);
            }
            let seconds = Duration::from_micros(histogram.micros.load(Ordering::Relaxed)).as_secs_f64();
            self.sample(&format!("{name}_sum"), &[("tool", &tool.slug)], seconds);
            self.sample(&format!("{name}_count"), &[("tool", &tool.slug)], count);
        }
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String does not fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl fmt::Display) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            self.0.push(if at == 0 { '{' } else { ',' });
            let _ = write!(self.0, "{label}=\"{}\"", escaped(text));
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }
}

/// A label's value between quotation marks.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut page = Page::default();
        page.sample("a", &[("b", "\\ \" \n é"), ("c", "")], 1);
        page.sample("a", &[], 2);
        assert_eq!(page.0, "a{b=\"\\\\ \\\" \\n é\",c=\"\"} 1\na 2\n");
    }

    #[test]
    fn a_time_is_in_the_first_bucket_that_holds_it() {
        let histogram = Histogram::default();
        for millis in [0, 1, 2, 60_000, 60_001, u64::MAX] {
            histogram.observe(Duration::from_millis(millis));
        }
        let counts: Vec<_> = histogram.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        assert_eq!(counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
    }
}
