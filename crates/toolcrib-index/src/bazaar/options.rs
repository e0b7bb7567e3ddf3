//! How the Bazaar is followed, and every limit of it.

use std::time::Duration;

use toolcrib_fetch::Limits;

/// Complete walks that must not meet a resource before it is unlisted: while a walk pages through a list that changes, a resource can slip
/// from a page that is still to come to one that was read.
pub const MISSED_WALKS: i64 = 2;

/// How the Bazaar is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BazaarOptions {
    /// Seconds between two walks through a catalogue.
    pub interval: i64,
    /// The pause after the first walk that failed. Each one after it is twice as long, up to `interval`; a `Retry-After` up to a day is
    /// waited for.
    pub retry: i64,
    /// How long to wait between two pages: a facilitator has other work to do.
    pub page_pause: Duration,
    /// Items to ask for. A facilitator may give fewer.
    pub page_items: usize,
    /// Most resources of one facilitator. The largest public catalogue has some fifteen thousand.
    pub max_items: usize,
    /// Most pages of one walk: as many items in pages of ten.
    pub max_pages: usize,
    /// Seconds after which a resource is unlisted that complete walks do not meet.
    pub grace: i64,
    /// Seconds after which a resource is unlisted that no walk met, however walks end: what was not confirmed for a week is not listed.
    pub stale: i64,
    /// Seconds for which a resource that was unlisted keeps its number.
    pub keep: i64,
    /// Seconds between two probes of a resource.
    pub probe_interval: i64,
    /// Probes at once, and in each `poll`: four a second ask fifteen thousand resources in an hour.
    pub probes: usize,
    /// Seconds between two requests to an origin.
    pub origin_pause: i64,
    /// Limits of a request for a page.
    pub page_limits: Limits,
    /// Seconds that this machine's clock may differ from that of the database. A process whose clock is further off follows nothing: it would
    /// unlist what is there, and keep the others from their walks. `None` trusts the clock.
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
