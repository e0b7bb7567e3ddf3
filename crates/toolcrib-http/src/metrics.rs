//! Metrics in the Prometheus text format, version 0.0.4.
//!
//! Implemented here, because `prometheus-client` writes only `OpenMetrics`, and needs values registered in advance: here most are read from
//! a store or a cache while the page is written.

use std::fmt::{Display, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

/// A page of metrics that is being written. The samples of a family follow it.
#[derive(Clone, Debug, Default)]
pub struct MetricsPage(String);

impl MetricsPage {
    /// Starts a family: its name, its type (`counter`, `gauge` or `histogram`), and its help text.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Writes a sample. Label values are escaped.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &dyn Display)], value: impl Display) {
        self.labelled(name, labels, None, value);
    }

    /// Writes a family of one sample without labels.
    pub fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// Writes the samples of a histogram.
    pub fn histogram(&mut self, name: &str, labels: &[(&str, &dyn Display)], histogram: &Histogram) {
        let bucket = format!("{name}_bucket");
        let mut below = 0;
        for (at, count) in histogram.counts.iter().enumerate() {
            below += count.load(Ordering::Relaxed);
            match histogram.ends.get(at) {
                Some(end) => self.labelled(&bucket, labels, Some(&end), below),
                None => self.labelled(&bucket, labels, Some(&"+Inf"), below),
            }
        }
        let seconds = Duration::from_micros(histogram.micros.load(Ordering::Relaxed)).as_secs_f64();
        self.sample(&format!("{name}_sum"), labels, seconds);
        self.sample(&format!("{name}_count"), labels, below);
    }

    /// Returns the page as text.
    pub fn into_text(self) -> String {
        self.0
    }

    fn labelled(&mut self, name: &str, labels: &[(&str, &dyn Display)], le: Option<&dyn Display>, value: impl Display) {
        self.0.push_str(name);
        let labels = labels.iter().copied().chain(le.map(|end| ("le", end)));
        let mut separator = '{';
        for (label, text) in labels {
            let text = text.to_string().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{separator}{label}=\"{text}\"");
            separator = ',';
        }
        if separator == ',' {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }
}

/// Returns the response with a page of metrics.
pub fn metrics_response(page: String) -> Response {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8"), (CACHE_CONTROL, "no-store")], page).into_response()
}

/// A histogram of durations.
#[derive(Debug)]
pub struct Histogram {
    ends: &'static [f64],
    /// One more than there are bounds.
    counts: Box<[AtomicU64]>,
    micros: AtomicU64,
}

impl Histogram {
    /// Returns a histogram with these upper bounds of its buckets, in seconds and in ascending order.
    pub fn new(ends: &'static [f64]) -> Self {
        Self { ends, counts: (0..=ends.len()).map(|_| AtomicU64::new(0)).collect(), micros: AtomicU64::new(0) }
    }

    /// Counts a duration.
    pub fn observe(&self, took: Duration) {
        let bucket = self.ends.partition_point(|end| *end < took.as_secs_f64());
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Returns whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| count.load(Ordering::Relaxed) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut page = MetricsPage::default();
        page.sample("a", &[("b", &"\\ \" \n é"), ("c", &"")], 1);
        page.single("a", "gauge", "What it is.", 2);
        assert_eq!(page.into_text(), "a{b=\"\\\\ \\\" \\n é\",c=\"\"} 1\n# HELP a What it is.\n# TYPE a gauge\na 2\n");
    }

    #[test]
    fn a_time_is_in_the_first_bucket_that_holds_it() {
        let histogram = Histogram::new(&[0.001, 0.5, 60.0]);
        assert!(histogram.is_empty());
        for millis in [0, 1, 2, 60_000, 60_001, u64::MAX] {
            histogram.observe(Duration::from_millis(millis));
        }
        let counts: Vec<_> = histogram.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        assert_eq!(counts, [2, 1, 1, 2]);
        let histogram = Histogram::new(&[0.001, 0.5]);
        histogram.observe(Duration::from_millis(250));
        let mut page = MetricsPage::default();
        page.histogram("t", &[("a", &1)], &histogram);
        let expected = "t_bucket{a=\"1\",le=\"0.001\"} 0\nt_bucket{a=\"1\",le=\"0.5\"} 1\nt_bucket{a=\"1\",le=\"+Inf\"} 1\n";
        assert_eq!(page.into_text(), format!("{expected}t_sum{{a=\"1\"}} 0.25\nt_count{{a=\"1\"}} 1\n"));
    }
}
