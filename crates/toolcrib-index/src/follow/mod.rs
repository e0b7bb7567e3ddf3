//! Follows a registry: backfill, chain head, reorganisations; one process at a time.
//!
//! A [`Follower`] reads a chain by explicit block numbers below a head that it has seen, and writes in two stages: `execute` applies
//! events, `unwind` rolls them back. Each is one transaction with everything that depends on it, so a crash at any moment leaves an index
//! that is correct for its checkpoint. Old blocks are read in large ranges, several at a time; near the head every header is read, and its
//! parent hash, the block hash of its logs and its bloom filter must match. `fold` derives a registry's rows from its events.
//!
//! This file has the follower and what one step of it decides; `past` reads old blocks and `live` the head, `reorganise` finds the last
//! block that is still true, `commit` writes under the lease, and `stored` has the statements.
//!
//! Nodes leave logs out. `completeness` says how that shows, `reread` asks again, `audit` decides what follows from it, `compare` compares rows with
//! the registry's state, and `repair` adds what was missing below the checkpoint.
//!
//! Nothing here fetches a manifest or verifies a tool: changed tools go into the feed, which enqueues verifications.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use alloy_primitives::Address;
use futures_util::future::{self, Either};
use tokio::sync::watch;
use tokio::time::Instant;
use toolcrib_chain::registry::Registry;
use toolcrib_chain::rpc::{Chain, Header};
use toolcrib_core::clock::UnixTime;

use crate::model::RegistryId;
use crate::{Error, Index};

mod audit;
mod check;
mod commit;
mod compare;
pub(crate) mod completeness;
mod execute;
mod fold;
mod history;
mod lease;
mod live;
mod options;
mod pace;
mod past;
mod reorganise;
mod repair;
mod reread;
mod source;
mod state;
mod stored;
pub(crate) mod tables;
mod unwind;

pub use check::{CheckReport, Difference, MAX_NAMED};
pub use completeness::Completeness;
pub use history::{EventKind, EventPlace, MAX_EVENTS, ToolEvent};
pub use options::FollowOptions;

use audit::Audit;
use execute::signed;
use lease::Lease;
use pace::Pace;
use source::Source;
use state::{Marks, State};

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

    async fn prepare_reading(&mut self) -> Result<(), Error> {
        if !self.is_prepared {
            self.is_prepared = self.index.prepare_reading().await?;
        }
        Ok(())
    }

    fn state(&self) -> Result<&State, Error> {
        // Every path loads it first; a follower without it does not hold the lease.
        self.state.as_ref().ok_or(Error::LeaseLost)
    }
}
