//! Keeps an index up to date: followers of chains and verification workers, as tasks of one process.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::sync::watch;
use tokio::task::JoinSet;
use toolcrib_core::codes;
use toolcrib_fetch::SystemClock;
use toolcrib_fetch::Untrusted;
use toolcrib_index::agents::{AgentOptions, AgentWorker, follow_names};
use toolcrib_index::bazaar::{CatalogueFollower, Prober};
use toolcrib_index::facts::CollectionProvider;
use toolcrib_index::follow::{FollowOptions, Follower, Progress};
use toolcrib_index::work::{Live, Queue, WorkOptions, Worker};
use toolcrib_index::{Chains, Error, Index, objects, usage};
use toolcrib_judge::Policy;
use toolcrib_verify::Verifier;

use super::agents::ListedAgents;
use super::bazaar::Followed;
use super::followed::Following;
use super::snapshots::Publishing;
use crate::outcome::Failure;

/// Most parallel verifications of one process. Higher values only wait for the same network.
pub(crate) const MAX_LOOKS: u16 = 256;

/// Default retention of changes in the feed, in days: consumers may be offline for a few weeks.
pub(crate) const KEEP_CHANGES_DAYS: u16 = 30;

/// How often usage reports with payments that were not final are checked again: every few blocks.
const PENDING_EVERY: Duration = Duration::from_secs(15);

/// Poll interval of a local chain: short, because a developer is waiting.
const LOCAL_POLL: Duration = Duration::from_millis(250);

/// How often the file with the list of names is read: operators expect a change to take effect soon.
const NAMES_EVERY: Duration = Duration::from_secs(15);

/// What this process does for the index.
#[derive(Args, Clone, Debug)]
pub(crate) struct EngineArgs {
    /// Tools to verify in parallel; 0 leaves it to other processes
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(0..=i64::from(MAX_LOOKS)))]
    pub(crate) workers: u16,
    /// Only verify, and leave following chains to other processes
    #[arg(long)]
    pub(crate) no_follow: bool,
    /// Days to keep every change in the feed
    ///
    /// Of older changes, only the newest of each tool is kept.
    #[arg(long, value_name = "DAYS", default_value_t = KEEP_CHANGES_DAYS, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) keep_changes: u16,
    #[command(flatten)]
    pub(crate) checks: LogChecks,
}

/// How followers check that nodes leave no logs out.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct LogChecks {
    /// Headers to check per range of old blocks, or `all` [default: 4]
    ///
    /// Each costs one request. Near the chain head, every header is checked.
    #[arg(long, value_name = "N", value_parser = headers)]
    pub(crate) check_headers: Option<u64>,
    /// Read one in N ranges of old blocks twice; 0 for none [default: 20]
    ///
    /// The second read is in parts, and from another node if there is one.
    #[arg(long, value_name = "N")]
    pub(crate) second_reads: Option<u64>,
    /// Tools to compare with the registry per step; 0 for none [default: 64]
    ///
    /// This happens near the chain head, in one request.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=64))]
    pub(crate) compare_tools: Option<u16>,
    /// Do not wait for missing tool ids
    ///
    /// For registries that do not number tools from 1 without gaps, as ERC-8257 requires.
    #[arg(long)]
    pub(crate) unnumbered: bool,
}

fn headers(text: &str) -> Result<u64, String> {
    if text == "all" { Ok(u64::MAX) } else { text.parse().map_err(|_| "write a number, or `all`".to_owned()) }
}

impl LogChecks {
    fn apply(&self, options: &mut FollowOptions) {
        options.headers_per_range = self.check_headers.unwrap_or(options.headers_per_range);
        options.second_reads = self.second_reads.unwrap_or(options.second_reads);
        options.audited_tools = self.compare_tools.unwrap_or(options.audited_tools);
        options.numbering &= !self.unnumbered;
    }
}

impl EngineArgs {
    /// Refuses options without any work. `has_more` says whether there is a list of names to resolve, or a catalogue to follow.
    pub(crate) fn check(&self, has_more: bool) -> Result<(), Failure> {
        if self.no_follow && self.workers == 0 && !has_more {
            let what = "--no-follow with --workers 0 leaves nothing to do";
            return Err(Failure::new(codes::cli::USAGE, what).hint("omit one of them"));
        }
        Ok(())
    }
}

/// Followers and workers. When stopped, each finishes its current job.
#[derive(Debug)]
pub(crate) struct Engine {
    tasks: JoinSet<Result<(), Error>>,
    stop: watch::Sender<bool>,
    /// The progress of each follower, with its chain id.
    pub(crate) progress: Vec<(u64, watch::Receiver<Progress>)>,
}

impl Engine {
    /// Starts the configured followers and workers.
    pub(crate) fn start(
        index: &Index,
        followings: &[Following],
        verifier: Verifier,
        collections: Option<Arc<dyn CollectionProvider>>,
        doing: &EngineArgs,
        work: WorkOptions,
    ) -> Self {
        let (stop, _) = watch::channel(false);
        let chains: Chains = followings.iter().map(|following| following.chain.clone()).collect();
        let mut engine = Self { tasks: JoinSet::new(), stop, progress: Vec::new() };
        if !doing.no_follow {
            for Following { chain, registry, first_block } in followings {
                let mut options = FollowOptions::of(chain.network(), Arc::new(SystemClock));
                options.first_block = *first_block;
                if chain.network().is_local {
                    options.poll = LOCAL_POLL;
                }
                doing.checks.apply(&mut options);
                let follower = Follower::new(index.clone(), chain.clone(), *registry, options);
                engine.progress.push((chain.chain_id(), follower.progress()));
                let stopped = engine.stopped();
                engine.tasks.spawn(follower.run(stopped));
            }
        }
        if doing.workers > 0 {
            let keep_changes = Some(i64::from(doing.keep_changes) * 86_400);
            let options = WorkOptions { at_once: usize::from(doing.workers), keep_changes, ..work };
            let mut looks = Live::new(verifier, chains.clone(), Policy::default());
            if let Some(provider) = collections {
                looks = looks.collections(provider);
            }
            let worker = Worker::new(Queue::new(index.clone()), looks, Arc::new(SystemClock), options);
            let stopped = engine.stopped();
            engine.tasks.spawn(async move {
                worker.run(stopped).await;
                Ok(())
            });
            let (index, stopped) = (index.clone(), engine.stopped());
            engine.tasks.spawn(settle(index, chains, stopped));
        }
        if index.object_counts().is_some() {
            let (index, stopped) = (index.clone(), engine.stopped());
            engine.tasks.spawn(async move {
                objects::keep(index, stopped).await;
                Ok(())
            });
        }
        engine
    }

    /// Adds the task that builds search for snapshots.
    pub(crate) fn add_publishing(&mut self, publishing: Publishing) {
        let stopped = self.stopped();
        self.tasks.spawn(async move {
            publishing.run(stopped).await;
            Ok(())
        });
    }

    /// Adds the task that resolves the names of a list periodically.
    pub(crate) fn add_agents(&mut self, index: &Index, agents: ListedAgents) -> Result<(), Error> {
        let ListedAgents { file, resolver, at_once, .. } = agents;
        let options = AgentOptions { at_once, ..AgentOptions::default() };
        let worker = AgentWorker::new(index.clone(), resolver, Arc::new(SystemClock), options)?;
        let stopped = self.stopped();
        self.tasks.spawn(async move {
            worker.run(stopped).await;
            Ok(())
        });
        let (index, stopped) = (index.clone(), self.stopped());
        self.tasks.spawn(async move {
            follow_names(index, file, Arc::new(SystemClock), NAMES_EVERY, stopped).await;
            Ok(())
        });
        Ok(())
    }

    /// Adds the task that follows catalogues of facilitators, and probes the endpoints in them.
    pub(crate) fn add_bazaar(&mut self, index: &Index, followed: Followed, untrusted: Untrusted) -> Result<(), Error> {
        let Followed { facilitators, client, options, is_probing } = followed;
        let follower = CatalogueFollower::new(index.clone(), facilitators, client, Arc::new(SystemClock), options)?;
        let stopped = self.stopped();
        self.tasks.spawn(async move {
            follower.run(stopped).await;
            Ok(())
        });
        if is_probing {
            let prober = Prober::new(index.clone(), untrusted, Arc::new(SystemClock), options)?;
            let stopped = self.stopped();
            self.tasks.spawn(async move {
                prober.run(stopped).await;
                Ok(())
            });
        }
        Ok(())
    }

    /// Waits until a task fails. Tasks end on their own only with an error.
    pub(crate) async fn failed(&mut self) -> Error {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(Err(error))) => return error,
                Some(Ok(Ok(()))) => {}
                Some(Err(_)) => return Error::Corrupt { what: "state: a part of the program ended unexpectedly" },
                None => std::future::pending().await,
            }
        }
    }

    /// Stops all tasks and waits for them.
    pub(crate) async fn stop(mut self) {
        self.stop.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
    }

    fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stopped = self.stop.subscribe();
        async move {
            // A dropped sender means stop, too.
            let _ = stopped.wait_for(|stop| *stop).await;
        }
    }
}

/// Checks usage reports again whose payments were not final.
async fn settle(index: Index, chains: Chains, stopped: impl Future<Output = ()> + Send) -> Result<(), Error> {
    use toolcrib_core::clock::Clock as _;

    let mut stopped = std::pin::pin!(stopped);
    loop {
        tokio::select! {
            () = &mut stopped => return Ok(()),
            () = tokio::time::sleep(PENDING_EVERY) => {}
        }
        if let Err(error) = usage::settle_pending(&index, &chains, SystemClock.now()).await {
            tracing::warn!(code = error.code().id(), %error, "reports of use could not be judged again");
        }
    }
}
