//! Watches tools: verifies them repeatedly, and reports changes.
//!
//! [`snapshot`] extracts from a verification what is stored, [`Memory`] compares it with the last one, and [`Watcher`] verifies: every
//! tool after each interval, and a tool at once if the chain announces a change. The caller decides what to do about a change,
//! and where to store the memory.
//!
//! A verification that failed because of the client's own network has unknown results, which never count as a change.

mod memory;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use alloy_primitives::{Address, B256, keccak256};
use futures_util::{StreamExt, stream};
pub use memory::{Comparison, FORMAT, Memory, MemoryFault};
use sha2::{Digest, Sha256};
pub use source::WatchSource;
use tokio::time::{Instant, sleep};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::canon::{Canonical, write_value};
use toolcrib_core::codes;
use toolcrib_core::json;
use toolcrib_core::tool::Logic;
use toolcrib_judge::drift::{Change, Served, Snapshot, Verdict};
use toolcrib_judge::evidence::{Evidence, Exchange, Requirements, ToolState};
use toolcrib_judge::{Policy, Report};

use crate::{Depth, Error, Verifier};

/// How often to poll the chain for events between two full runs. Blocks come every two to twelve seconds.
pub const POLL: Duration = Duration::from_secs(5);

/// Number of tools verified or polled concurrently: enough to hide latency, few enough for a public node.
const AT_ONCE: usize = 8;

/// Maximum number of blocks to search for events. After a longer pause, verifying is cheaper than searching.
const MAX_BLOCKS: u64 = 1_000;

/// Maximum length of a stored endpoint in characters. The manifest's own limit is the same.
const MAX_ENDPOINT_CHARS: usize = 2_048;

/// Maximum size of a price list that is stored as text, in bytes. Of a longer one, the hash is stored.
const MAX_PRICES_BYTES: usize = 8_192;

/// Returns the snapshot of a verification. `None` if the chain was not read, because there is nothing to compare then.
pub fn snapshot(evidence: &Evidence, report: &Report) -> Option<Snapshot> {
    let chain = evidence.chain.as_ref()?;
    let read = chain.config.last()?;
    let mut look = Snapshot::new(evidence.tool?);
    look.block = Some(read.block);
    look.verdict = match (report.verdict, report.failed) {
        (toolcrib_judge::Verdict::Verified, _) => Verdict::Verified,
        (toolcrib_judge::Verdict::Refused, Some(failed)) => {
            Verdict::Failed { check: failed.check(), code: failed.code.id().to_owned() }
        }
        _ => Verdict::Unknown,
    };
    let ToolState::Present(config) = &read.state else {
        look.registered = false;
        return Some(look);
    };
    look.metadata_uri = Some(config.metadata_uri.clone());
    look.manifest_hash = Some(config.manifest_hash);
    look.creator = Some(config.creator);
    look.predicate = Some(config.access_predicate.unwrap_or(Address::ZERO));
    if let Some(facts) = chain.predicate.as_ref().filter(|facts| Some(facts.address) == config.access_predicate) {
        look.predicate_code = Some(facts.code_hash.unwrap_or(B256::ZERO));
        look.implementation = Some(facts.proxy.as_ref().map_or(Address::ZERO, |proxy| proxy.target));
        look.requirements = Some(digest(&facts.requirements));
    }
    if let Some(exchange) = &evidence.manifest {
        look.served = served(exchange, report);
        look.certificate = exchange.tls.as_ref().map(|tls| B256::from_slice(&Sha256::digest(tls.certificate.as_bytes())));
        (look.endpoint, look.prices) = terms(exchange);
    }
    Some(look)
}

/// One verification of one tool.
#[derive(Debug)]
pub struct Look {
    /// The tool.
    pub tool: ToolRef,
    /// The result.
    pub outcome: Result<Looked, Error>,
}

/// A verification for which the chain could be read.
#[derive(Debug)]
pub struct Looked {
    /// The report.
    pub report: Report,
    /// The baseline of the next comparison, once it is stored with [`Watcher::keep`] after everyone was notified.
    pub snapshot: Snapshot,
    /// How it compares with the last one.
    pub seen: Comparison,
    /// The manifest is not the pinned one, and this was not reported and stored before since the watcher started.
    pub pin: Option<Change>,
}

impl Looked {
    /// The changes that matter, without hints such as a renewed certificate or a fixed error.
    pub fn drift(&self) -> impl Iterator<Item = &Change> {
        self.changes().filter(|change| change.severity > toolcrib_core::finding::Severity::Hint)
    }

    /// All changes.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        let changes = match &self.seen {
            Comparison::Changed(changes) => changes.as_slice(),
            Comparison::First | Comparison::Same | Comparison::Older => &[],
        };
        changes.iter().chain(&self.pin)
    }
}

/// Verifies tools repeatedly.
#[derive(Debug)]
pub struct Watcher<S> {
    verifier: Verifier,
    policy: Policy,
    tools: Vec<S>,
    memory: Memory,
    interval: Duration,
    poll: Duration,
    /// When to verify all tools again. A tool's events do not move it, so that a tool cannot keep the watcher busy.
    due: Instant,
    /// The first block whose events were not searched yet.
    unread: BTreeMap<ToolRef, u64>,
    /// Tools that were already reported as different from their pin.
    mispinned: BTreeSet<ToolRef>,
}

impl<S: WatchSource> Watcher<S> {
    /// A watcher of `tools` that starts from the snapshots in `memory`.
    pub fn new(verifier: Verifier, policy: Policy, tools: Vec<S>, memory: Memory, interval: Duration) -> Self {
        let (unread, mispinned) = (BTreeMap::new(), BTreeSet::new());
        Self { verifier, policy, tools, memory, interval, poll: POLL.min(interval), due: Instant::now(), unread, mispinned }
    }

    /// Sets how often to poll the chain for events, by default [`POLL`].
    #[must_use]
    pub const fn polling(mut self, every: Duration) -> Self {
        self.poll = every;
        self
    }

    /// The stored snapshots.
    pub const fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Verifies every tool.
    pub async fn all(&mut self) -> Vec<Look> {
        let every: Vec<usize> = (0..self.tools.len()).collect();
        let looks = self.look(&every).await;
        self.due = Instant::now() + self.interval;
        looks
    }

    /// Waits until the interval is over or the chain has events, and verifies.
    pub async fn next(&mut self) -> Vec<Look> {
        loop {
            let left = self.due.saturating_duration_since(Instant::now());
            sleep(left.min(self.poll)).await;
            if Instant::now() >= self.due {
                return self.all().await;
            }
            let touched = self.touched().await;
            if !touched.is_empty() {
                return self.look(&touched).await;
            }
        }
    }

    /// Stores a verification as the new baseline. Until then, the next one is compared with the old baseline, so that a change whose
    /// notification failed is found again.
    pub fn keep(&mut self, looked: Looked) {
        if looked.pin.is_some() {
            self.mispinned.insert(looked.snapshot.tool);
        }
        self.memory.keep(looked.snapshot);
    }

    async fn look(&mut self, which: &[usize]) -> Vec<Look> {
        let (verifier, policy) = (&self.verifier, &self.policy);
        let tools = which.iter().filter_map(|index| self.tools.get(*index));
        let lives: Vec<_> = stream::iter(tools)
            .map(|source| async move { (source.tool(), verifier.live(source, policy, Depth::Full).await) })
            .buffered(AT_ONCE)
            .collect()
            .await;
        let mut looks = Vec::with_capacity(lives.len());
        for (tool, live) in lives {
            let outcome = live.map(|live| {
                // A gathered tool was read from its chain, so there is a snapshot.
                let snapshot = snapshot(&live.evidence, &live.report).unwrap_or_else(|| Snapshot::new(tool));
                if let Some(block) = snapshot.block {
                    self.unread.insert(tool, block.saturating_add(1));
                }
                let pin = self.pinned(tool, &live.report);
                Looked { seen: self.memory.compare(&snapshot), report: live.report, snapshot, pin }
            });
            looks.push(Look { tool, outcome });
        }
        looks
    }

    fn pinned(&mut self, tool: ToolRef, report: &Report) -> Option<Change> {
        let (Some(false), Some(pin), Some(committed)) = (report.pinned, self.policy.pinned_manifest, report.hash.committed)
        else {
            self.mispinned.remove(&tool);
            return None;
        };
        let code = codes::pin::MANIFEST_HASH_CHANGED;
        (!self.mispinned.contains(&tool)).then(|| Change {
            code,
            severity: code.severity(),
            before: pin.to_string(),
            after: committed.to_string(),
        })
    }

    /// Returns the tools with events on the chain. A chain that cannot be read counts as one without events: the next full run will tell.
    async fn touched(&mut self) -> Vec<usize> {
        let (unread, memory) = (&self.unread, &self.memory);
        let news: Vec<_> = stream::iter(self.tools.iter().enumerate())
            .map(|(index, source)| async move {
                let tool = source.tool();
                let from = *unread.get(&tool)?;
                let to = source.head().await.ok()?;
                if to < from {
                    return None;
                }
                let known = memory.get(&tool);
                let predicates = known.into_iter().flat_map(|known| [known.predicate, known.implementation]).flatten();
                let predicates: Vec<_> = predicates.filter(|address| !address.is_zero()).collect();
                let is_touched = to - from >= MAX_BLOCKS || source.touched(&predicates, from, to).await.ok()?;
                Some((index, tool, to, is_touched))
            })
            .buffered(AT_ONCE)
            .collect()
            .await;
        let mut touched = Vec::new();
        for (index, tool, to, is_touched) in news.into_iter().flatten() {
            self.unread.insert(tool, to.saturating_add(1));
            if is_touched {
                touched.push(index);
            }
        }
        touched
    }
}

/// The result of fetching the manifest. A failure that may be caused by the client's own network counts as unknown.
fn served(exchange: &Exchange, report: &Report) -> Served {
    match (&exchange.failure, report.hash.served) {
        (Some(failure), _) if codes::fetch::is_transient(failure.code) => Served::Unknown,
        (Some(_), _) => Served::Unreachable,
        (None, Some(hash)) => Served::Manifest(hash),
        (None, None) => Served::Unreadable,
    }
}

/// Endpoint and prices in the served manifest, whether it verifies or not.
fn terms(exchange: &Exchange) -> (Option<String>, Option<String>) {
    let document = exchange.complete().and_then(|response| {
        json::read(response.body.as_bytes(), json::Limits { max_bytes: json::MAX_BYTES, max_depth: json::MAX_DEPTH }).document
    });
    // Readers interpret a document without a canonical form differently.
    let Some(document) = document.filter(|document| Canonical::of(document).is_some()) else { return (None, None) };
    let endpoint = document.root().get("endpoint").and_then(json::Value::as_str);
    let mut prices = String::new();
    if let Some(pricing) = document.root().get("pricing") {
        write_value(pricing, &mut prices);
    }
    if prices.len() > MAX_PRICES_BYTES {
        prices = format!("keccak256 {}", keccak256(&prices));
    }
    (endpoint.map(|endpoint| endpoint.chars().take(MAX_ENDPOINT_CHARS).collect()), Some(prices))
}

/// A digest of a predicate's requirements. Variable parts have a length prefix, so that two different lists never have the same bytes.
fn digest(requirements: &Requirements) -> B256 {
    let mut bytes = Vec::new();
    match requirements {
        Requirements::NoCode => bytes.push(0),
        Requirements::Failed => bytes.push(1),
        Requirements::OverLimit => bytes.push(2),
        Requirements::Listed { logic, entries } => {
            bytes.extend([3, u8::from(*logic == Logic::Or)]);
            for entry in entries {
                bytes.extend(entry.kind);
                for part in [&entry.data[..], entry.label.as_bytes()] {
                    bytes.extend((part.len() as u64).to_be_bytes());
                    bytes.extend(part);
                }
            }
        }
    }
    keccak256(&bytes)
}

#[cfg(test)]
mod tests;
