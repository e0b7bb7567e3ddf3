//! Follows a registry: backfill, chain head, reorganisations; one process at a time.
//!
//! A [`Follower`] reads a chain by explicit block numbers below a head that it has seen, and writes in two stages: `execute` applies
//! events, `unwind` rolls them back. Each is one transaction with everything that depends on it, so a crash at any moment leaves an index
//! that is correct for its checkpoint. Old blocks are read in large ranges, several at a time; near the head every header is read, and its
//! parent hash, the block hash of its logs and its bloom filter must match. `fold` derives a registry's rows from its events.
//!
//! Nodes omit logs. `completeness` detects that, `reread` asks again, `audit` decides what to do, `compare` compares rows with the
//! registry's state, and `repair` adds logs missing below the checkpoint.
//!
//! Nothing here fetches a manifest or verifies a tool: changed tools go into the feed, which enqueues verifications.

use std::collections::{HashSet, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use alloy_primitives::{Address, B256, keccak256};
use futures_util::future::{self, Either};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use toolcrib_chain::registry::{ChainLog, LogPage, Registry};
use toolcrib_chain::rpc::{Chain, Header};
use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::{Transaction, Value};

use crate::model::RegistryId;
use crate::{Error, Index};

mod audit;
mod check;
mod compare;
pub(crate) mod completeness;
mod execute;
mod fold;
mod history;
mod lease;
mod options;
mod pace;
mod repair;
mod reread;
mod source;
mod state;
pub(crate) mod tables;
mod unwind;

pub use check::{CheckReport, Difference, MAX_NAMED};
pub use completeness::Completeness;
pub use history::{EventPlace, Happening, MAX_EVENTS, ToolEvent};
pub use options::FollowOptions;

use audit::{Audit, Where};
use execute::{Batch, execute, signed};
use lease::Lease;
use pace::Pace;
use reread::Care;
use source::{Fetched, Source, merge};
use state::{Marks, State};
use unwind::{Ancestor, unwind};

/// The number of blocks behind the head whose headers are all read. Deeper reorganisations are detected by the hashes of ranges and
/// events.
const WINDOW: u64 = 128;

/// The maximum number of blocks applied at once near the head.
const LIVE_BLOCKS: u64 = 64;

/// The number of blocks below the checkpoint whose logs are read again with every new block: nodes may return them late.
const REREAD: u64 = 8;

/// Pages that are read ahead of the one being written. One that is decoded and one in transfer keep a writer busy.
const PAGES_AHEAD: usize = 3;

/// The number of blocks after which the registry's code is checked again.
const CODE_EVERY: i64 = 1_000;

/// The number of steps after which it is logged again that a node is behind: ten minutes on public chains.
const SAY_BEHIND: u64 = 300;

/// The time between two records of the chain head's time. Listings are valid for minutes at least.
const NOTE_EVERY: Duration = Duration::from_secs(30);

/// The longest pause after errors.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How often a transaction is tried that conflicts with others.
const ATTEMPTS: u32 = 5;

/// The progress of a follower, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Whether this follower holds the lease.
    pub leads: bool,
    /// The last indexed block.
    pub checkpoint: i64,
    /// The chain head.
    pub head: u64,
    /// The last finalized block, which is never rolled back.
    pub finalized: i64,
    /// Events that were applied.
    pub events: u64,
    /// Ranges that were applied.
    pub ranges: u64,
    /// Reorganisations.
    pub reorganisations: u64,
    /// Ranges that a node rejected as too large.
    pub refusals: u64,
    /// Logs that nodes sent without a request for them.
    pub strays: u64,
    /// Logs with the topic of an event and invalid data.
    pub malformed: u64,
    /// Logs that a node omitted from one response and that another response had.
    pub missed: u64,
    /// Logs that were repeated or out of order.
    pub repeats: u64,
    /// Whether logs are missing that no node returns.
    pub incomplete: bool,
    /// Blocks whose headers match events that no node returned and no node could rule out.
    pub doubtful: u64,
    /// Tools that were compared with the registry's state.
    pub audited: u64,
    /// Tools that differ from the registry.
    pub wrong_tools: u64,
    /// The block before which a rescan is finished.
    pub rescanned: u64,
    /// How often the head was below the checkpoint because the node was behind.
    pub behind: u64,
    /// Temporary errors.
    pub errors: u64,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Another process has the lease.
    Waiting,
    /// There is nothing new, and the indexed blocks are still on the chain.
    Idle,
    /// A range was applied, with or without events.
    Advanced,
    /// Events were rolled back.
    Unwound,
}

/// Follows one registry. Any number of followers, in any number of processes, may follow the same one: one holds the lease, the others are
/// on standby.
pub struct Follower {
    index: Index,
    source: Source,
    options: FollowOptions,
    registry: Option<RegistryId>,
    lease: Option<Lease>,
    /// `None` when it must be read from the database again.
    state: Option<State>,
    pace: Pace,
    /// When the lease was last renewed by a transaction.
    renewed: Instant,
    /// When it was created.
    since: Instant,
    /// Whether the indexes that readers need exist.
    is_prepared: bool,
    /// The checkpoint at which the registry's code was last checked.
    code_at: Option<i64>,
    marks: Option<Marks>,
    audit: Audit,
    /// When the time of the chain head was last recorded.
    noted: Option<Instant>,
    progress: watch::Sender<Progress>,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").field("registry", &self.source.registry()).finish_non_exhaustive()
    }
}

impl Follower {
    /// Creates a follower of the registry at an address. It does nothing until it runs.
    pub fn new(index: Index, chain: Chain, registry: Address, options: FollowOptions) -> Self {
        let pace = Pace::new(options.first_range, options.largest_range);
        let audit = Audit::new(&options);
        Self {
            index,
            source: Source::new(Registry::new(chain, registry)),
            options,
            registry: None,
            lease: None,
            state: None,
            pace,
            renewed: Instant::now(),
            since: Instant::now(),
            is_prepared: false,
            code_at: None,
            marks: None,
            audit,
            noted: None,
            progress: watch::Sender::default(),
        }
    }

    /// Returns its progress.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Follows until `shutdown`, and releases the lease. Returns on a permanent error.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        let result = {
            let following = pin!(self.follow());
            let shutdown = pin!(shutdown);
            match future::select(shutdown, following).await {
                Either::Left(((), _)) => Ok(()),
                Either::Right((result, _)) => result,
            }
        };
        if let Some(lease) = self.lease.take() {
            lease.release(self.index.database()).await?;
        }
        result
    }

    async fn follow(&mut self) -> Result<(), Error> {
        let mut pause = self.options.poll;
        loop {
            // Boxed: otherwise an optimising compiler rejects the layout of the nested futures as too deep.
            match Box::pin(self.step()).await {
                Ok(Step::Advanced | Step::Unwound) => pause = self.options.poll,
                Ok(Step::Idle | Step::Waiting) => {
                    pause = self.options.poll;
                    tokio::time::sleep(pause).await;
                }
                Err(error) if error.is_retryable() => {
                    tracing::warn!(registry = %self.source.registry().address(), chain = self.source.chain().chain_id(),
                        code = error.code().id(), %error, "follower error, retrying");
                    self.progress.send_modify(|progress| progress.errors += 1);
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Follows until block `block` is indexed and still on the chain. For tests and benchmarks; temporary errors are retried.
    pub async fn catch_up_to(&mut self, block: u64) -> Result<(), Error> {
        loop {
            match Box::pin(self.step_to(block)).await {
                Ok(Step::Idle) if self.state.as_ref().is_some_and(|state| state.next() > block) => return Ok(()),
                Ok(Step::Advanced | Step::Unwound) => {}
                Ok(Step::Idle | Step::Waiting) => tokio::time::sleep(self.options.poll).await,
                Err(error) if error.is_retryable() => {
                    self.progress.send_modify(|progress| progress.errors += 1);
                    tokio::time::sleep(self.options.poll).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Checks the chain once, and does everything that follows from it.
    pub async fn step(&mut self) -> Result<Step, Error> {
        self.step_to(u64::MAX).await
    }

    async fn step_to(&mut self, target: u64) -> Result<Step, Error> {
        if !self.lead().await? {
            return Ok(Step::Waiting);
        }
        let Some(lease) = self.lease.clone() else { return Ok(Step::Waiting) };
        let database = self.index.database().clone();
        let third = Duration::from_secs(u64::try_from(self.options.lease_seconds).unwrap_or_default()) / 3;
        // A node may take longer to respond than the lease lasts without a renewal.
        let renewing = async {
            loop {
                tokio::time::sleep(third).await;
                if let Err(error) = lease.renew(&database).await {
                    return error;
                }
            }
        };
        let result = {
            let stepping = pin!(self.lead_to(target));
            let renewing = pin!(renewing);
            match future::select(stepping, renewing).await {
                Either::Left((result, _)) => result,
                Either::Right((error, _)) => Err(error),
            }
        };
        let result = match result {
            Err(Error::Incomplete { what, from, to }) => {
                self.state = None;
                self.report_incomplete(what, from, to).await.and(Err(Error::Incomplete { what, from, to }))
            }
            result => result,
        };
        if let Err(error) = &result {
            // It may be unknown whether the last transaction was committed; the database knows.
            self.state = None;
            if matches!(error, Error::LeaseLost) {
                self.lease = None;
                self.progress.send_modify(|progress| progress.leads = false);
            }
        }
        result
    }

    /// Acquires the lease, unless this follower holds it already.
    async fn lead(&mut self) -> Result<bool, Error> {
        let registry = self.registry_id().await?;
        if self.lease.is_none() {
            self.lease = Lease::take(self.index.database(), registry, self.options.lease_seconds, &self.options.clock).await?;
            self.state = None;
            self.renewed = Instant::now();
            let leads = self.lease.is_some();
            self.progress.send_modify(|progress| progress.leads = leads);
        }
        Ok(self.lease.is_some())
    }

    async fn registry_id(&mut self) -> Result<RegistryId, Error> {
        if let Some(id) = self.registry {
            return Ok(id);
        }
        let chain = self.source.chain().chain_id();
        let row = self.index.add_registry(chain, self.source.registry().address(), self.options.first_block).await?;
        Ok(*self.registry.insert(row.id))
    }

    async fn lead_to(&mut self, target: u64) -> Result<Step, Error> {
        if self.state.is_none() {
            let registry = self.registry_id().await?;
            self.state = Some(State::load(self.index.database(), registry).await?);
        }
        let state = self.state()?.clone();
        let head = self.source.chain().head().await?;
        let marks = self.look(&head).await?;
        self.look_at_code(state.checkpoint).await?;
        self.note_time(&head).await?;
        let checkpoint = signed(head.number)?;
        if state.has_begun() {
            if checkpoint < state.checkpoint {
                return self.shorter(&head).await;
            }
            let is_true = match state.checkpoint_hash {
                None => false,
                Some(hash) if checkpoint == state.checkpoint => hash == head.hash,
                Some(hash) => self.source.block(state.next() - 1).await?.hash == hash,
            };
            if !is_true {
                let ancestor = self.ancestor(state.checkpoint).await?;
                if ancestor.number < state.checkpoint {
                    return self.take_back(ancestor).await;
                }
                // The hash was not known, and the blocks stored below are on the chain.
                self.state.as_mut().ok_or(Error::LeaseLost)?.checkpoint_hash = ancestor.hash;
            }
        }
        let end = head.number.min(target);
        if state.next() > end {
            self.prepare_reading().await?;
            self.mark(marks).await?;
            return self.look_back().await;
        }
        let solid = marks.finalized.max(checkpoint - WINDOW as i64);
        match u64::try_from(solid) {
            Ok(solid) if state.next() <= solid.min(end) => self.backfill(solid.min(end), marks).await?,
            _ => {
                self.prepare_reading().await?;
                let step = self.live(end, marks).await?;
                // On chains that produce blocks without pause this is the only time for it.
                if step == Step::Advanced && self.state()?.next() > end {
                    self.look_back().await?;
                }
                return Ok(step);
            }
        }
        Ok(Step::Advanced)
    }

    /// Returns head and last final block of the chain, read once for each head.
    async fn look(&mut self, head: &Header) -> Result<Marks, Error> {
        if let Some(marks) = self.marks.filter(|marks| marks.head == head.number) {
            return Ok(marks);
        }
        let finalized = match self.source.chain().finalized().await? {
            Some(header) => signed(header.number.min(head.number))?,
            None => signed(head.number)? - signed(self.options.finality_depth)?,
        };
        let marks = Marks { head: head.number, finalized: finalized.max(-1) };
        self.marks = Some(marks);
        self.progress.send_modify(|progress| {
            progress.head = marks.head;
            progress.finalized = marks.finalized;
        });
        Ok(marks)
    }

    /// Records the time of the chain head now and then: mass expiry of listings requires it.
    async fn note_time(&mut self, head: &Header) -> Result<(), Error> {
        if self.noted.is_some_and(|at| at.elapsed() < NOTE_EVERY) {
            return Ok(());
        }
        let registry = self.registry_id().await?;
        self.index.note_chain_time(registry, signed(head.number)?, UnixTime::from_seconds(signed(head.time)?)).await?;
        self.noted = Some(Instant::now());
        Ok(())
    }

    /// Reads large ranges up to `end`, several ahead of the one being written.
    async fn backfill(&mut self, end: u64, marks: Marks) -> Result<(), Error> {
        let mut queue: VecDeque<Slot> = VecDeque::from([Slot::Planned { from: self.state()?.next(), to: end }]);
        while !queue.is_empty() {
            self.start_ahead(&mut queue, marks)?;
            let Some(Slot::Running(mut task)) = queue.pop_front() else { continue };
            let fetched = task.join().await?;
            if fetched.to < task.to {
                queue.push_front(Slot::Planned { from: fetched.to + 1, to: task.to });
            }
            let events = fetched.page.logs.len() as u64;
            self.pace.learn(fetched.to - fetched.from + 1, events, fetched.refusals > 0);
            // While this one is written, the next are read.
            self.start_ahead(&mut queue, marks)?;
            let batch = self.assemble(fetched, marks).await?;
            self.commit(batch).await?;
            if self.since.elapsed() > self.options.without_indexes {
                self.prepare_reading().await?;
            }
        }
        Ok(())
    }

    async fn prepare_reading(&mut self) -> Result<(), Error> {
        if !self.is_prepared {
            self.is_prepared = self.index.prepare_reading().await?;
        }
        Ok(())
    }

    fn start_ahead(&mut self, queue: &mut VecDeque<Slot>, marks: Marks) -> Result<(), Error> {
        let mut place = 0;
        while place < PAGES_AHEAD && place < queue.len() {
            if let Slot::Planned { from, to } = queue[place] {
                let last = to.min(from.saturating_add(self.pace.span() - 1));
                if last < to {
                    queue.insert(place + 1, Slot::Planned { from: last + 1, to });
                }
                queue[place] = Slot::Running(self.start(from, last, marks)?);
            }
            place += 1;
        }
        Ok(())
    }

    fn start(&mut self, from: u64, to: u64, marks: Marks) -> Result<Task, Error> {
        let (source, care) = (self.source.clone(), self.care());
        let predicates = self.state()?.predicates.clone();
        let handle = tokio::spawn(async move { source.fetch(from, to, predicates, marks.finalized, care).await });
        Ok(Task { to, handle })
    }

    /// Prepares a page to be applied: upgrades of predicates that became known meanwhile, times, and the hashes to keep.
    async fn assemble(&mut self, fetched: Fetched, marks: Marks) -> Result<Batch, Error> {
        let Fetched { from, to, mut page, asked, last, first, refusals, findings } = fetched;
        self.take_note(findings, Where::Past).await?;
        self.check_numbers(from, to, &mut page).await?;
        let state = self.state()?;
        if let (Some(first), Some(hash)) = (&first, state.checkpoint_hash)
            && first.parent != hash
        {
            return Err(Error::Inconsistent { what: "a block range does not begin where the previous one ended" });
        }
        let mut known = state.predicates.clone();
        known.learn(&page.logs);
        // Earlier pages may have named predicates since this one was requested.
        let unasked: Vec<Address> = known.all().iter().filter(|predicate| !asked.has(predicate)).copied().collect();
        if !unasked.is_empty() {
            let more = self.source.upgrades(from, to, &unasked).await?;
            merge(&mut page, more);
        }
        page.logs.retain(|log| known.counts(log));
        self.source.fill_times(&mut page.logs, &[]).await?;
        let finalized = u64::try_from(marks.finalized).unwrap_or_default();
        let mut blocks: Vec<(u64, B256)> =
            page.logs.iter().filter(|log| log.block > finalized).map(|log| (log.block, log.block_hash)).collect();
        blocks.dedup();
        if to > finalized && blocks.last().is_none_or(|(block, _)| *block < to) {
            blocks.push((to, last.hash));
        }
        if blocks.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(Error::Inconsistent { what: "a block has two hashes" });
        }
        self.progress.send_modify(|progress| {
            progress.refusals += refusals;
            progress.strays += page.strays as u64;
            progress.repeats += page.repeats as u64;
            progress.malformed += page.malformed as u64;
        });
        Ok(Batch { to, hash: last.hash, logs: page.logs, blocks, marks })
    }

    /// Applies the next blocks near the head, with every header; each header's parent must be the one before.
    async fn live(&mut self, end: u64, marks: Marks) -> Result<Step, Error> {
        let state = self.state()?.clone();
        let from = state.next();
        let to = end.min(from + LIVE_BLOCKS - 1);
        let mut headers = self.source.blocks(from, to).await?;
        let mut parent = state.checkpoint_hash;
        for header in &headers {
            if parent.is_some_and(|parent| parent != header.parent) {
                return Err(Error::Inconsistent { what: "the parent of a block is not the previous block" });
            }
            parent = Some(header.hash);
        }
        let again = state.first_block.max(from.saturating_sub(REREAD));
        let predicates = state.predicates.all();
        let (to, mut page, refusals) = self.source.logs(again, to, predicates).await?;
        if to < from {
            // The range including earlier blocks was too large. Retry without them.
            return self.live_alone(from, marks).await;
        }
        headers.truncate((to - from + 1) as usize);
        let findings = self.source.settle(&headers, &mut page, predicates).await?;
        self.take_note(findings, Where::Tip).await?;
        let old = page.logs.partition_point(|log| log.block < from);
        let mut fresh = LogPage { logs: page.logs.split_off(old), ..LogPage::default() };
        // Logs of another fork would look like missing logs.
        check_hashes(&headers, &fresh.logs)?;
        let Some(last) = headers.last() else { return Err(Error::Inconsistent { what: "the RPC node returned no block" }) };
        self.check_numbers(from, to, &mut fresh).await?;
        self.check_count(from, to, last.hash, &mut fresh).await?;
        page.logs.append(&mut fresh.logs);
        // Missing logs below may have been added, and may have named predicates.
        let mut known = self.state()?.predicates.clone();
        known.learn(&page.logs);
        let unasked: Vec<Address> = known.all().iter().filter(|predicate| !state.predicates.has(predicate)).copied().collect();
        if !unasked.is_empty() {
            let more = self.source.upgrades(from, to, &unasked).await?;
            merge(&mut page, more);
            let findings = self.source.settle(&headers, &mut page, &unasked).await?;
            self.take_note(findings, Where::Tip).await?;
        }
        page.logs.retain(|log| known.counts(log));
        let (old, mut new): (Vec<ChainLog>, Vec<ChainLog>) = page.logs.into_iter().partition(|log| log.block < from);
        check_hashes(&headers, &new)?;
        let compared = self.compare_again(again, from, &old).await?;
        // The stored blocks were on a chain that these blocks continue, if these are still on the chain.
        if compared.withheld > 0 && self.source.block(last.number).await?.hash == last.hash {
            self.caught(compared.withheld, Where::Tip).await?;
        }
        if let Some(block) = compared.first_late {
            tracing::warn!(registry = %self.source.registry().address(), block, "RPC node returned events that it did not return before");
            self.caught(compared.late, Where::Tip).await?;
            return self.take_back(Ancestor { number: signed(block)? - 1, hash: None }).await;
        }
        self.source.fill_times(&mut new, &headers).await?;
        let finalized = u64::try_from(marks.finalized).unwrap_or_default();
        let blocks =
            headers.iter().filter(|header| header.number > finalized).map(|header| (header.number, header.hash)).collect();
        self.progress.send_modify(|progress| {
            progress.refusals += refusals;
            progress.strays += page.strays as u64;
            progress.repeats += page.repeats as u64;
            progress.malformed += page.malformed as u64;
        });
        self.commit(Batch { to, hash: last.hash, logs: new, blocks, marks }).await?;
        Ok(Step::Advanced)
    }

    /// Applies one block near the head, without reading earlier blocks again.
    async fn live_alone(&mut self, block: u64, marks: Marks) -> Result<Step, Error> {
        let care = Care { headers: 1, ..Care::default() };
        let fetched = self.source.fetch(block, block, self.state()?.predicates.clone(), -1, care).await?;
        let batch = self.assemble(fetched, marks).await?;
        self.commit(batch).await?;
        Ok(Step::Advanced)
    }

    /// Compares the logs of blocks below the checkpoint, from `from` to the one before `end`, with those in the index. Another process
    /// that has the lease meanwhile may have written blocks from `end` on.
    async fn compare_again(&mut self, from: u64, end: u64, old: &[ChainLog]) -> Result<Compared, Error> {
        const STORED: &str =
            "SELECT block_number, log_index FROM index_event WHERE registry = $1 AND block_number >= $2 AND block_number < $3";
        const HASHES: &str = "SELECT number, hash FROM index_block WHERE registry = $1 AND number >= $2 AND number < $3";
        let values = [Value::Integer(self.registry_id().await?.0), Value::Integer(signed(from)?), Value::Integer(signed(end)?)];
        let mut stored = HashSet::new();
        for row in self.index.database().fetch(STORED, &values).await? {
            stored.insert((row.integer(0)?, row.integer(1)?));
        }
        let mut compared = Compared::default();
        if !old.is_empty() {
            let mut hashes = std::collections::HashMap::new();
            for row in self.index.database().fetch(HASHES, &values).await? {
                let hash = B256::try_from(row.bytes(1)?).map_err(|_| Error::Corrupt { what: "hash of a block" })?;
                hashes.insert(row.integer(0)?, hash);
            }
            for log in old {
                let (block, index) = (signed(log.block)?, signed(log.log_index)?);
                if hashes.get(&block).is_some_and(|hash| *hash != log.block_hash) {
                    return Err(Error::Inconsistent { what: "a log belongs to another block than the indexed one" });
                }
                if !stored.remove(&(block, index)) {
                    compared.first_late = compared.first_late.or(Some(log.block));
                    compared.late += 1;
                }
            }
        }
        compared.withheld = stored.len() as u64;
        Ok(compared)
    }

    /// Handles a head below the checkpoint: the node is behind, or the chain was rewound.
    async fn shorter(&mut self, head: &Header) -> Result<Step, Error> {
        let number = signed(head.number)?;
        let ancestor = self.ancestor(number).await?;
        let nearest = self.candidates(number).await?.last().copied();
        if nearest.is_some_and(|(nearest, _)| ancestor.number < nearest) {
            return self.take_back(ancestor).await;
        }
        if self.options.shrinks {
            let before = signed(self.state()?.first_block)? - 1;
            let hash = Some(head.hash).filter(|_| number > before);
            return self.take_back(Ancestor { number: number.max(before), hash }).await;
        }
        let checkpoint = self.state()?.checkpoint;
        if self.progress.borrow().behind.is_multiple_of(SAY_BEHIND) {
            tracing::warn!(registry = %self.source.registry().address(), chain = self.source.chain().chain_id(), head = number,
                checkpoint, "RPC node is behind the index, waiting");
        }
        self.progress.send_modify(|progress| progress.behind += 1);
        Ok(Step::Idle)
    }

    /// Returns the blocks with stored hashes up to a number, in order.
    async fn candidates(&mut self, up_to: i64) -> Result<Vec<(i64, B256)>, Error> {
        const WINDOW: &str = "SELECT number, hash FROM index_block WHERE registry = $1 AND number <= $2 ORDER BY number";
        let values = [Value::Integer(self.registry_id().await?.0), Value::Integer(up_to)];
        let mut candidates = Vec::new();
        for row in self.index.database().fetch(WINDOW, &values).await? {
            let hash = B256::try_from(row.bytes(1)?).map_err(|_| Error::Corrupt { what: "hash of a block" })?;
            candidates.push((row.integer(0)?, hash));
        }
        let state = self.state()?;
        if let Some(hash) = state.checkpoint_hash
            && state.checkpoint <= up_to
            && candidates.last().is_none_or(|(number, _)| *number < state.checkpoint)
        {
            candidates.push((state.checkpoint, hash));
        }
        Ok(candidates)
    }

    /// Returns the last stored block that is still on the chain.
    async fn ancestor(&mut self, up_to: i64) -> Result<Ancestor, Error> {
        let candidates = self.candidates(up_to).await?;
        // If a block is on the chain, so are all below it.
        let (mut low, mut high) = (0, candidates.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let (number, hash) = candidates[middle];
            if self.is_true(number, hash).await? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if low > 0 {
            let (number, hash) = candidates[low - 1];
            return Ok(Ancestor { number, hash: Some(hash) });
        }
        // Below the window events have the hashes of their blocks. Each step back is twice the one before.
        const EVENT: &str = "SELECT block_number, block_hash FROM index_event WHERE registry = $1 AND block_number <= $2
            ORDER BY block_number DESC, log_index DESC LIMIT 1";
        let mut below = candidates.first().map_or(up_to, |(number, _)| number - 1);
        let mut stride = 1;
        loop {
            let values = [Value::Integer(self.registry_id().await?.0), Value::Integer(below)];
            let Some(row) = self.index.database().fetch_optional(EVENT, &values).await? else {
                return Ok(Ancestor { number: signed(self.state()?.first_block)? - 1, hash: None });
            };
            let number = row.integer(0)?;
            let hash = B256::try_from(row.bytes(1)?).map_err(|_| Error::Corrupt { what: "hash of a block" })?;
            if self.is_true(number, hash).await? {
                return Ok(Ancestor { number, hash: Some(hash) });
            }
            below = number - stride;
            stride *= 2;
        }
    }

    async fn is_true(&self, number: i64, hash: B256) -> Result<bool, Error> {
        let number = u64::try_from(number).map_err(|_| Error::Corrupt { what: "number of a block" })?;
        Ok(self.source.block(number).await?.hash == hash)
    }

    /// Rolls back everything after a block.
    async fn take_back(&mut self, ancestor: Ancestor) -> Result<Step, Error> {
        let registry = self.registry_id().await?;
        tracing::warn!(registry = registry.0, from = self.state()?.checkpoint, to = ancestor.number, "chain reorg, rolling back");
        // Tools are folded again from their histories.
        self.prepare_reading().await?;
        while self.state()?.checkpoint > ancestor.number {
            let mut transaction = self.begin().await?;
            unwind(&mut transaction, registry, self.state()?, ancestor, self.options.clock.now()).await?;
            transaction.commit().await?;
            self.state = Some(State::load(self.index.database(), registry).await?);
        }
        let checkpoint = self.state()?.checkpoint;
        self.marks = None;
        self.progress.send_modify(|progress| {
            progress.reorganisations += 1;
            progress.checkpoint = checkpoint;
        });
        Ok(Step::Unwound)
    }

    /// Begins a transaction that only the holder of the lease can commit.
    async fn begin(&self) -> Result<Transaction, Error> {
        let lease = self.lease.as_ref().ok_or(Error::LeaseLost)?;
        let mut transaction = self.index.database().begin().await?;
        lease.fence(&mut transaction).await?;
        Ok(transaction)
    }

    /// Applies and commits a batch.
    async fn commit(&mut self, batch: Batch) -> Result<(), Error> {
        let mut attempt = 0;
        let executed = loop {
            let done = self.try_commit(&batch).await;
            attempt += 1;
            match done {
                Err(Error::Store(toolcrib_store::Error::Busy { .. })) if attempt < ATTEMPTS => {
                    tokio::time::sleep(Duration::from_millis(20 << attempt)).await;
                }
                done => break done?,
            }
        };
        self.renewed = Instant::now();
        let state = self.state.as_mut().ok_or(Error::LeaseLost)?;
        state.checkpoint = signed(batch.to)?;
        state.checkpoint_hash = Some(batch.hash);
        state.finalized = state.finalized.max(batch.marks.finalized);
        state.highest = executed.highest;
        state.predicates = executed.predicates;
        let checkpoint = state.checkpoint;
        self.progress.send_modify(|progress| {
            progress.checkpoint = checkpoint;
            progress.events += batch.logs.len() as u64;
            progress.ranges += 1;
        });
        Ok(())
    }

    async fn try_commit(&self, batch: &Batch) -> Result<execute::Executed, Error> {
        let state = self.state()?;
        let registry = self.registry.ok_or(Error::LeaseLost)?;
        let mut transaction = self.begin().await?;
        let executed = execute(&mut transaction, registry, state, batch, self.options.clock.now()).await?;
        transaction.commit().await?;
        Ok(executed)
    }

    /// Stores head and last final block, and renews the lease, when there is nothing else to write.
    async fn mark(&mut self, marks: Marks) -> Result<(), Error> {
        const MARK: &str = "UPDATE index_registry SET head = $2, finalized = $3 WHERE id = $1";
        let registry = self.registry.ok_or(Error::LeaseLost)?;
        let state = self.state()?;
        let finalized = state.finalized.max(marks.finalized);
        let is_old = self.renewed.elapsed() > Duration::from_secs(u64::try_from(self.options.lease_seconds / 3).unwrap_or(1));
        if finalized == state.finalized && !is_old {
            return Ok(());
        }
        let mut transaction = self.begin().await?;
        let values = [Value::Integer(registry.0), Value::Integer(signed(marks.head)?), Value::Integer(finalized)];
        transaction.execute(MARK, &values).await?;
        transaction.commit().await?;
        self.state.as_mut().ok_or(Error::LeaseLost)?.finalized = finalized;
        self.renewed = Instant::now();
        Ok(())
    }

    /// Compares the registry's code with the stored hash.
    async fn look_at_code(&mut self, checkpoint: i64) -> Result<(), Error> {
        const CODE: &str = "SELECT code_hash FROM index_registry WHERE id = $1";
        const FIRST: &str = "UPDATE index_registry SET code_hash = $2 WHERE id = $1 AND code_hash IS NULL";
        const CHANGED: &str =
            "UPDATE index_registry SET code_hash = $2, code_changed_at = COALESCE(code_changed_at, $3) WHERE id = $1";
        if self.code_at.is_some_and(|at| checkpoint - at < CODE_EVERY) {
            return Ok(());
        }
        let registry = self.registry_id().await?;
        let (address, chain) = (self.source.registry().address(), self.source.chain().chain_id());
        let code = self.source.chain().code(address).await?;
        self.code_at = Some(checkpoint);
        if code.is_empty() {
            tracing::warn!(%address, chain, "there is no code at the address of the registry");
            return Ok(());
        }
        let hash = keccak256(&code);
        let row = self.index.database().fetch_optional(CODE, &[Value::Integer(registry.0)]).await?;
        let known = row.as_ref().map(|row| row.optional_bytes(0)).transpose()?.flatten();
        let values =
            [Value::Integer(registry.0), Value::Bytes(hash.as_slice()), Value::Integer(self.options.clock.now().seconds())];
        match known {
            None => drop(self.index.database().execute(FIRST, &values[..2]).await?),
            Some(known) if known == hash.as_slice() => {}
            Some(_) => {
                tracing::warn!(%address, chain, %hash, "registry code changed");
                self.index.database().execute(CHANGED, &values).await?;
            }
        }
        Ok(())
    }

    fn state(&self) -> Result<&State, Error> {
        // Every path loads it first; a follower without it does not hold the lease.
        self.state.as_ref().ok_or(Error::LeaseLost)
    }
}

/// Checks that logs belong to the blocks whose headers were read, which are consecutive.
fn check_hashes(headers: &[Header], logs: &[ChainLog]) -> Result<(), Error> {
    let first = headers.first().map_or(0, |header| header.number);
    let is_of = |log: &ChainLog| {
        let header = log.block.checked_sub(first).and_then(|place| headers.get(usize::try_from(place).ok()?));
        header.is_some_and(|header| header.hash == log.block_hash)
    };
    if logs.iter().all(is_of) {
        return Ok(());
    }
    Err(Error::Inconsistent { what: "a log belongs to another block than the header" })
}

/// How logs of blocks below the checkpoint differ from those in the index.
#[derive(Debug, Default)]
struct Compared {
    /// The first block with a log that is not in the index.
    first_late: Option<u64>,
    /// The number of such logs.
    late: u64,
    /// Logs that are in the index and were not returned this time.
    withheld: u64,
}

/// A range of blocks in the queue of a backfill.
enum Slot {
    Planned { from: u64, to: u64 },
    Running(Task),
}

/// A range that is being read. Dropping it aborts the task.
struct Task {
    to: u64,
    handle: JoinHandle<Result<Fetched, Error>>,
}

impl Task {
    async fn join(&mut self) -> Result<Fetched, Error> {
        match (&mut self.handle).await {
            Ok(fetched) => fetched,
            Err(_) => Err(Error::Inconsistent { what: "reading a block range ended early" }),
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.handle.abort();
    }
}
