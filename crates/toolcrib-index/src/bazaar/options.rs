//! Options and limits of following the Bazaar.

use std::time::Duration;

use toolcrib_fetch::Limits;

/// How many complete walks must miss a resource before it is unlisted: while a walk pages through a list that changes, a resource can move
/// from a page that is not read yet to one that was read.
pub const MISSED_WALKS: i64 = 2;

/// Options of following the Bazaar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BazaarOptions {
    /// Seconds between two walks through a catalogue.
    pub interval: i64,
    /// The pause after the first failed walk, in seconds. Each following pause is twice as long, up to `interval`; a `Retry-After` of up
    /// to a day is respected.
    pub retry: i64,
    /// The pause between two pages, to limit the load on the facilitator.
    pub page_pause: Duration,
    /// Items per page to ask for. A facilitator may return fewer.
    pub page_items: usize,
    /// The maximum number of resources of one facilitator. The largest public catalogue has some fifteen thousand.
    pub max_items: usize,
    /// The maximum number of pages of one walk: the same number of items in pages of ten.
    pub max_pages: usize,
    /// Seconds after which a resource is unlisted that complete walks miss.
    pub grace: i64,
    /// Seconds after which a resource is unlisted that no walk found, complete or not: a resource that was not confirmed for a week is not
    /// listed.
    pub stale: i64,
    /// Seconds for which an unlisted resource keeps its number.
    pub keep: i64,
    /// Seconds between two probes of a resource.
    pub probe_interval: i64,
    /// Concurrent probes, and probes in each `poll`: four a second cover fifteen thousand resources in an hour.
    pub probes: usize,
    /// Seconds between two requests to an origin.
    pub origin_pause: i64,
    /// Limits of a request for a page.
    pub page_limits: Limits,
    /// How many seconds the clock of this machine may differ from that of the database. A process with a larger difference follows
    /// nothing: it would unlist resources by mistake, and keep other processes from their walks. `None` trusts the clock.
    pub max_skew: Option<i64>,
    /// How long to wait when nothing is due.
    pub poll: Duration,
}

impl Default for BazaarOptions {
    fn default() -> Self {
        let mut page_limits = Limits::MANIFEST;
        page_limits.body = toolcrib_x402::MAX_CATALOGUE_BYTES;
        page_limits.total = Duration::from_secs(30);
        Self {
            interval: 3_600,
            retry: 60,
            page_pause: Duration::from_millis(250),
            page_items: toolcrib_x402::MAX_CATALOGUE_ITEMS,
            max_items: 50_000,
            max_pages: 5_000,
            grace: 86_400,
            stale: 7 * 86_400,
            keep: 7 * 86_400,
            probe_interval: 86_400,
            probes: 4,
            origin_pause: 5,
            page_limits,
            max_skew: Some(600),
            poll: Duration::from_secs(1),
        }
    }
}
