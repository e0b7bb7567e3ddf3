//! Walks through the catalogues of facilitators.
//!
//! A walk requests page after page, advancing by the number of items received, until a page is empty. Each page is one transaction that
//! checks the lease, so a process that lost it writes nothing. A walk that another process takes over starts again: a catalogue is a few
//! hundred requests.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use alloy_primitives::{B256, keccak256};
use futures_util::FutureExt as _;
use toolcrib_core::clock::Clock;
use toolcrib_core::codes::{self, Code};
use toolcrib_fetch::{Configured, ConfiguredUrl};
use toolcrib_store::database::{FromRow as _, Value};
use toolcrib_store::{row, sql};
use toolcrib_x402::{BadItem, CatalogueItem};

use super::options::BazaarOptions;
use super::page::{self, PageAnswer};
use super::{Token, token};
use crate::{Error, Index};

mod sweep;
mod writing;

use writing::Written;

/// The duration of a lease in seconds. It is renewed with every page, which takes at most half of it.
const LEASE_SECONDS: i64 = 90;

/// The longest `Retry-After` that is respected: a day.
const MAX_RETRY_AFTER: i64 = 86_400;

/// The number of bad items that are logged once each, by hash. The others are counted.
const MAX_NAMED: usize = 1_000;

/// The factor by which the page size shrinks when a page was too large.
const FEWER: usize = 4;

/// A facilitator whose catalogue is followed.
#[derive(Clone, Debug)]
pub struct Facilitator {
    url: ConfiguredUrl,
    key: B256,
}

impl Facilitator {
    /// Reads a facilitator's URL **from settings**, as [`ConfiguredUrl::from_setting`] does.
    pub fn from_setting(text: &str) -> Result<Self, toolcrib_fetch::Error> {
        let url = ConfiguredUrl::from_setting(text)?;
        Ok(Self { url, key: keccak256(text.trim_end_matches('/')) })
    }

    /// Returns scheme, host and port. The rest may contain a secret and is not shown.
    pub fn origin(&self) -> String {
        self.url.origin()
    }
}

/// The end of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkEnd {
    /// With an empty page, after at least as many items as the facilitator's total.
    Complete,
    /// Early, with the code of the reason. Earlier data is kept.
    Early(Code),
    /// This process is shutting down, or another one took over.
    Interrupted,
}

/// The result of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// How it ended.
    pub end: WalkEnd,
    /// Pages received.
    pub pages: usize,
    /// Items in them.
    pub items: usize,
    /// Items that were skipped because they are invalid or exceed the limit.
    pub skipped: usize,
    /// Resources that are newly listed.
    pub added: usize,
    /// Resources with a changed claim.
    pub changed: usize,
    /// Resources that are no longer listed.
    pub removed: usize,
}

/// Follows the catalogues of facilitators.
pub struct CatalogueFollower {
    index: Index,
    facilitators: Vec<Facilitator>,
    client: Configured,
    clock: Arc<dyn Clock + Send + Sync>,
    options: BazaarOptions,
    token: Token,
    named: Mutex<HashSet<B256>>,
    /// Whether the clock was wrong at the last check, so that it is logged once.
    was_skewed: AtomicBool,
}

impl fmt::Debug for CatalogueFollower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { facilitators, options, .. } = self;
        f.debug_struct("CatalogueFollower").field("facilitators", facilitators).field("options", options).finish_non_exhaustive()
    }
}

/// The lease of a facilitator that this process walks through.
struct Lease<'f> {
    facilitator: &'f Facilitator,
    id: i64,
    walk: i64,
    attempts: u32,
}

/// Whether a facilitator is known and not due now. This runs at each poll, so it only reads.
const IS_RESTING: &str = "SELECT id FROM index_bazaar_facilitator WHERE key = $1 AND (due_at > $2 OR (leased_until IS NOT NULL AND leased_until > $2))";
const ADD: &str = "INSERT INTO index_bazaar_facilitator (key, origin, due_at) VALUES ($1, $2, $3) ON CONFLICT (key) DO NOTHING";

row! {
    /// A facilitator that was leased.
    struct LeasedRow {
        id: i64,
        walk: i64,
        attempts: i64,
    }
}

const LEASE: &str = sql!(
    "UPDATE index_bazaar_facilitator SET leased_until = $1, lease = $2, walk = walk + 1
    WHERE key = $3 AND due_at <= $4 AND (leased_until IS NULL OR leased_until <= $4) RETURNING ",
    LeasedRow::COLUMNS
);

impl CatalogueFollower {
    /// Creates a follower of these facilitators.
    pub fn new(
        index: Index,
        facilitators: Vec<Facilitator>,
        client: Configured,
        clock: Arc<dyn Clock + Send + Sync>,
        options: BazaarOptions,
    ) -> Result<Self, Error> {
        Ok(Self {
            index,
            facilitators,
            client,
            clock,
            options,
            token: token()?,
            named: Mutex::default(),
            was_skewed: AtomicBool::new(false),
        })
    }

    /// Runs until `shutdown`. A walk in progress is abandoned, and its lease expires.
    pub async fn run(&self, shutdown: impl Future<Output = ()> + Send) {
        let mut shutdown = std::pin::pin!(shutdown.fuse());
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                walked = self.round() => if let Err(error) = walked {
                    tracing::warn!(code = error.code().id(), %error, "catalogues could not be followed, retrying");
                },
            }
            tokio::select! {
                () = &mut shutdown => return,
                () = tokio::time::sleep(self.options.poll) => {}
            }
        }
    }

    /// Walks through every catalogue that is due, and unlists resources that are gone.
    pub async fn round(&self) -> Result<Vec<(String, Walk)>, Error> {
        let mut walks = Vec::new();
        for facilitator in &self.facilitators {
            let Some(lease) = self.lease(facilitator).await? else { continue };
            let mut state = self.walk(&lease).await?;
            self.finish(&lease, &mut state).await?;
            let Walk { end, items, skipped, added, changed, removed, .. } = state.walk;
            let facilitator = facilitator.origin();
            match end {
                WalkEnd::Complete => {
                    tracing::info!(facilitator, items, skipped, added, changed, removed, "catalogue read");
                }
                WalkEnd::Early(code) => {
                    tracing::warn!(
                        facilitator,
                        code = code.id(),
                        items,
                        skipped,
                        added,
                        changed,
                        "catalogue not read to its end"
                    );
                }
                WalkEnd::Interrupted => tracing::info!(facilitator, "another process follows this catalogue now"),
            }
            walks.push((facilitator, state.walk));
        }
        Ok(walks)
    }

    async fn lease<'f>(&self, facilitator: &'f Facilitator) -> Result<Option<Lease<'f>>, Error> {
        let now = self.clock.now();
        let (key, database) = (Value::Bytes(facilitator.key.as_slice()), self.index.database());
        if database.fetch_optional(IS_RESTING, &[key, Value::Integer(now.seconds())]).await?.is_some() || self.is_skewed().await?
        {
            return Ok(None);
        }
        let mut transaction = database.begin().await?;
        transaction.execute(ADD, &[key, Value::Text(&facilitator.origin()), Value::Integer(now.seconds())]).await?;
        let until = Value::Integer(now.plus(LEASE_SECONDS).seconds());
        let values = [until, Value::Bytes(&self.token), key, Value::Integer(now.seconds())];
        let row = transaction.fetch_optional(LEASE, &values).await?;
        transaction.commit().await?;
        let Some(row) = row else { return Ok(None) };
        let LeasedRow { id, walk, attempts } = LeasedRow::from_row(&row)?;
        Ok(Some(Lease { facilitator, id, walk, attempts: u32::try_from(attempts).unwrap_or(u32::MAX) }))
    }

    /// Whether the clock of this machine differs too much from that of the database.
    async fn is_skewed(&self) -> Result<bool, Error> {
        let Some(most) = self.options.max_skew else { return Ok(false) };
        let (ours, theirs) = (self.clock.now().seconds(), self.index.database().now().await?);
        let is_skewed = ours.abs_diff(theirs) > most.unsigned_abs();
        if self.was_skewed.swap(is_skewed, Ordering::Relaxed) != is_skewed && is_skewed {
            tracing::warn!(ours, theirs, "clock differs from the database's, catalogues are not followed");
        }
        Ok(is_skewed)
    }

    /// Reads pages until the end.
    async fn walk(&self, lease: &Lease<'_>) -> Result<WalkState, Error> {
        let mut state = WalkState::new(self.options.page_items);
        loop {
            if state.walk.pages >= self.options.max_pages || state.walk.items >= self.options.max_items {
                return Ok(state.ended(WalkEnd::Early(codes::bazaar::TOO_MANY)));
            }
            let (limit, offset) = (state.limit, state.walk.items);
            match page::ask(&self.client, &lease.facilitator.url, limit, offset, self.options.page_limits).await {
                PageAnswer::Failed { code, retry_after } => {
                    state.retry_after = retry_after;
                    return Ok(state.ended(WalkEnd::Early(code)));
                }
                PageAnswer::TooLarge if limit > 1 => state.limit = (limit / FEWER).max(1),
                PageAnswer::TooLarge => {
                    // A single item is too large: the others come after it.
                    state.walk.pages += 1;
                    state.walk.items += 1;
                    state.walk.skipped += 1;
                }
                PageAnswer::Page(page) => {
                    state.total = page.total.or(state.total);
                    if page.items.is_empty() {
                        return Ok(state.ended_or(codes::bazaar::TOTAL));
                    }
                    state.walk.pages += 1;
                    // After one large item the page size grows again.
                    state.limit = state.limit.saturating_mul(FEWER).min(self.options.page_items.max(1));
                    let Some(items) = self.news(&mut state, page.items) else {
                        // Either everything was read, or the server ignores offsets.
                        return Ok(state.ended_or(codes::bazaar::REPEATS));
                    };
                    match writing::page(&self.index, lease, &self.token, &items, &self.options, self.clock.now()).await? {
                        Some(written) => state.count(written),
                        None => return Ok(state.ended(WalkEnd::Interrupted)),
                    }
                }
            }
            tokio::time::sleep(self.options.page_pause).await;
        }
    }

    /// Returns the items of a page that are new in this walk; `None` when all were seen before.
    fn news(&self, state: &mut WalkState, items: Vec<Result<CatalogueItem, BadItem>>) -> Option<Vec<CatalogueItem>> {
        let (count, mut news, mut is_new) = (items.len(), Vec::new(), false);
        for item in items {
            let hash = item.as_ref().map_or_else(|bad| bad.hash, CatalogueItem::identity);
            if !state.seen.insert(hash) {
                continue;
            }
            is_new = true;
            match item {
                Ok(item) => news.push(item),
                Err(bad) => {
                    state.walk.skipped += 1;
                    self.name(bad);
                }
            }
        }
        if is_new {
            state.walk.items += count;
        }
        is_new.then_some(news)
    }

    /// Logs a bad item, once.
    fn name(&self, bad: BadItem) {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if named.len() < MAX_NAMED && named.insert(bad.hash) {
            tracing::warn!(code = bad.code.id(), item = %bad.hash, "catalogue item skipped");
        }
    }
}

/// The state of a walk.
struct WalkState {
    walk: Walk,
    /// The number of items to request.
    limit: usize,
    total: Option<u64>,
    /// Hashes of all items seen in this walk.
    seen: HashSet<B256>,
    retry_after: Option<i64>,
}

impl WalkState {
    fn new(limit: usize) -> Self {
        let walk = Walk { end: WalkEnd::Interrupted, pages: 0, items: 0, skipped: 0, added: 0, changed: 0, removed: 0 };
        Self { walk, limit: limit.max(1), total: None, seen: HashSet::new(), retry_after: None }
    }

    fn ended(mut self, end: WalkEnd) -> Self {
        self.walk.end = end;
        self
    }

    /// Ends the walk: complete if the number of items reached the facilitator's total, otherwise early for this reason. Without a total,
    /// an empty page is the end and a repeated page is not.
    fn ended_or(self, code: Code) -> Self {
        let is_whole = match self.total {
            Some(total) => self.walk.items as u64 >= total,
            None => code != codes::bazaar::REPEATS,
        };
        self.ended(if is_whole { WalkEnd::Complete } else { WalkEnd::Early(code) })
    }

    fn count(&mut self, written: Written) {
        self.walk.added += written.added;
        self.walk.changed += written.changed;
        self.walk.skipped += written.refused;
    }
}
