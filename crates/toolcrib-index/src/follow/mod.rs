//! Following a registry: backfill, live head, reorganisations, one process at a time.
//!
//! A [`Follower`] reads a chain by explicit block numbers below a head that it has seen, and writes in two stages: `execute` takes events in,
//! `unwind` takes them back. Each is one transaction with everything that depends on it, so a crash at any moment leaves an index that is
//! right for its checkpoint. Old blocks are read in large ranges, several at a time; near the head every header is read, and its parent, its
//! hash in the logs and its bloom must fit. How a registry's rows follow from its events is in `fold`.
//!
//! This file has the follower and what one step of it decides; `past` reads old blocks and `live` the head, `reorganise` finds the last
//! block that is still true, `commit` writes under the lease, and `stored` has the statements.
//!
//! Nodes leave logs out. `completeness` says how that shows, `reread` asks again, `audit` decides what follows from it, `compare` compares rows with
//! the registry's state, and `repair` adds what was missing below the checkpoint.
//!
//! Nothing here fetches a manifest or judges a tool: changed tools go into the feed, and looks follow from it.

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
pub use history::{EventPlace, Happening, MAX_EVENTS, ToolEvent};
pub use options::FollowOptions;

use audit::Audit;
use execute::signed;
use lease::Lease;
use pace::Pace;
use source::Source;
use state::{Marks, State};

/// Blocks behind the head whose headers are all read. Deeper reorganisations are found by the hashes of ranges and events.
const WINDOW: u64 = 128;

/// Blocks that are taken in at once near the head.
const LIVE_BLOCKS: u64 = 64;

/// Blocks below the checkpoint whose logs are asked for again with every new block: nodes are known to give them late.
const REREAD: u64 = 8;

/// Pages that are read ahead of the one that is being written. One being decoded and one on the wire keep a writer busy.
const PAGES_AHEAD: usize = 3;

/// Blocks after which the code of the registry is looked at again.
const CODE_EVERY: i64 = 1_000;

/// Steps after which it is said again that a node is behind: ten minutes on public chains.
const SAY_BEHIND: u64 = 300;

/// Time between two notes of the newest block's time. Listings live for minutes at least.
const NOTE_EVERY: Duration = Duration::from_secs(30);

/// The longest pause after errors.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How often a transaction that others got in the way of is tried.
const ATTEMPTS: u32 = 5;

/// How a follower is doing. For metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Whether this follower is the one that writes.
    pub leads: bool,
    /// The last block whose events are in the index.
    pub checkpoint: i64,
    /// The newest block.
    pub head: u64,
    /// The last block that is never taken back.
    pub finalized: i64,
    /// Events that were taken in.
    pub events: u64,
    /// Ranges that were taken in.
    pub ranges: u64,
    /// Reorganisations.
    pub reorganisations: u64,
    /// Ranges that a node found too large.
    pub refusals: u64,
    /// Logs that nodes sent without being asked.
    pub strays: u64,
    /// Logs that bear the name of an event and do not fit it.
    pub malformed: u64,
    /// Logs that a node left out of an answer and that another answer had.
    pub missed: u64,
    /// Logs that came twice or out of order.
    pub repeats: u64,
    /// Whether logs are missing that no node gives.
    pub incomplete: bool,
    /// Blocks whose headers promised events that no node gave and no node could rule out.
    pub doubtful: u64,
    /// Tools that were compared with the registry's state.
    pub audited: u64,
    /// Tools that are not what the registry says.
    pub wrong_tools: u64,
    /// The block before which a rescan is done.
    pub rescanned: u64,
    /// How often the head was below the checkpoint: the node was behind.
    pub behind: u64,
    /// Errors that were waited out.
    pub errors: u64,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Another follows this registry.
    Waiting,
    /// There is nothing new, and what is there is still true.
    Idle,
    /// Events were taken in, or it was found that there are none.
    Advanced,
    /// Events were taken back.
    Unwound,
}

/// Follows one registry. Any number of them, in any number of processes, may follow the same one: one leads, the others wait.
pub struct Follower {
    index: Index,
    source: Source,
    options: FollowOptions,
    registry: Option<RegistryId>,
    lease: Option<Lease>,
    /// `None` when the database must be asked again.
    state: Option<State>,
    pace: Pace,
    /// When the lease was last renewed by a transaction.
    renewed: Instant,
    /// When it was made.
    since: Instant,
    /// Whether the indexes that readers need are there.
    is_prepared: bool,
    /// The checkpoint at which the registry's code was last looked at.
    code_at: Option<i64>,
    marks: Option<Marks>,
    audit: Audit,
    /// When the time of the newest block was last noted.
    noted: Option<Instant>,
    progress: watch::Sender<Progress>,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").field("registry", &self.source.registry()).finish_non_exhaustive()
    }
}

impl Follower {
    /// A follower of the registry at an address. Nothing happens until it is told to run.
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

    /// How it is doing.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Follows until `shutdown`, and gives the lease back. Ends with an error when something is wrong that does not pass.
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
            // Boxed: with what is nested in it, an optimising compiler finds its layout too deep.
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

    /// Follows until the events of block `block` are in the index and true. For tests and measurements; passing errors are waited out.
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

    /// One look at the chain, and everything that follows from it.
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
        // Nodes may take longer to answer than others believe in us without a word.
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
            // Whether the last transaction took effect may not be known; the database knows.
            self.state = None;
            if matches!(error, Error::LeaseLost) {
                self.lease = None;
                self.progress.send_modify(|progress| progress.leads = false);
            }
        }
        result
    }

    /// Takes the lease, unless it is held already.
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
                // The hash was not known, and what is stored below is true.
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
                // On chains that are never still this is the only time for it.
                if step == Step::Advanced && self.state()?.next() > end {
                    self.look_back().await?;
                }
                return Ok(step);
            }
        }
        Ok(Step::Advanced)
    }

    /// What the chain says about itself, asked for once for each head.
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

    /// Notes the time of the newest block now and then: mass expiry of listings needs its agreement.
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
        // Every path loads it first; a follower that has none does not lead.
        self.state.as_ref().ok_or(Error::LeaseLost)
    }
}
