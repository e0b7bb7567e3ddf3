//! Followers, workers and whatever else keeps an index true, as the command line starts them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::Address;
use clap::Args;
use tokio::sync::watch;
use tokio::task::JoinSet;
use toolcrib_chain::deploy::with_our_contracts;
use toolcrib_chain::network::Network;
use toolcrib_chain::rpc::{Chain, ChainConfig};
use toolcrib_core::clock::Clock as _;
use toolcrib_core::codes;
use toolcrib_core::judge::Policy;
use toolcrib_index::follow::{FollowOptions, Follower};
use toolcrib_index::usage::{PENDING_BATCH, settle_pending};
use toolcrib_index::work::{Live, Queue, WorkOptions, Worker};
use toolcrib_index::{Chains, Index};

use super::index_failure;
use crate::clock::SystemClock;
use crate::commands::trust::{Reach, verifier};
use crate::env;
use crate::kinds::parse_address;
use crate::onchain::failed;
use crate::outcome::{Failure, Stop};
use crate::printer::Printer;

/// How often reports of payments that were not final are looked for.
const SETTLE_PAUSE: Duration = Duration::from_secs(5);

/// Which chains, and which registries on them.
#[derive(Args, Clone, Debug)]
pub(crate) struct Networks {
    /// Networks, separated by commas: names such as base, or chain numbers. A chain's nodes are in `TOOLCRIB_RPC_<number>`, or in `RPC_URL`
    /// where there is one network alone
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(crate) network: Vec<String>,
    /// Nodes to ask, separated by commas, where there is one network alone [env: `RPC_URL`]
    #[arg(long, value_name = "URL")]
    pub(crate) rpc_url: Option<String>,
    /// The registry, instead of the built-in one, where there is one network alone
    #[arg(long, value_name = "0x…")]
    pub(crate) registry: Option<String>,
    /// The first block that can have events of a registry that is not in the index yet
    #[arg(long, value_name = "BLOCK", default_value_t = 0)]
    pub(crate) first_block: u64,
}

/// What this process does for the index.
#[derive(Args, Clone, Debug)]
pub(crate) struct Parts {
    /// Verify nothing: other processes work on the queue
    #[arg(long)]
    pub(crate) no_work: bool,
    /// Follow no chain: other processes do
    #[arg(long)]
    pub(crate) no_follow: bool,
    /// Tools that are looked at at once
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(crate) at_once: u16,
}

impl Networks {
    /// The chains, not connected yet: a node that is away for a while keeps nothing from starting.
    pub(crate) fn chains(&self, printer: &mut Printer) -> Result<Chains, Stop> {
        let mut chains = Vec::new();
        for name in &self.network {
            let network = Network::find(name).map_err(failed)?;
            let network = if network.is_local { &with_our_contracts(network) } else { network };
            let own = std::env::var(format!("{}{}", env::TOOLCRIB_RPC, network.chain_id)).ok().filter(|urls| !urls.is_empty());
            let only =
                (self.network.len() == 1).then(|| self.rpc_url.clone().or_else(|| std::env::var(env::RPC_URL).ok())).flatten();
            let config = ChainConfig::from_setting(network, own.or(only).as_deref()).map_err(failed)?;
            if config.is_public_default {
                printer.note(&format!(
                    "warning: using a public node of {}; TOOLCRIB_RPC_{} names one that you trust",
                    network.title, network.chain_id
                ))?;
            }
            chains.push(Chain::lazy(config).map_err(failed)?);
        }
        if self.network.len() != 1 && (self.rpc_url.is_some() || self.registry.is_some()) {
            let what = "--rpc-url and --registry are for one network";
            return Err(Failure::new(codes::cli::USAGE, what).hint("set TOOLCRIB_RPC_<number> for each chain").into());
        }
        Ok(chains.into_iter().collect())
    }

    /// The registry of each chain.
    fn registries(&self, chains: &Chains) -> Result<BTreeMap<u64, Address>, Failure> {
        let named = self.registry.as_deref().map(parse_address).transpose()?;
        let mut registries = BTreeMap::new();
        for chain in chains.iter() {
            let registry = named.or(chain.network().registry).ok_or_else(|| {
                Failure::new(codes::cli::USAGE, format!("no registry is known on {}", chain.network().title))
                    .hint("give --registry")
            })?;
            registries.insert(chain.chain_id(), registry);
        }
        Ok(registries)
    }
}

/// What keeps an index true, until it is told to stop.
pub(crate) struct Keeping {
    tasks: JoinSet<Result<(), toolcrib_index::Error>>,
    stop: watch::Sender<bool>,
}

impl Keeping {
    /// Starts followers, a worker, and the look after payments.
    pub(crate) fn start(
        index: &Index,
        chains: &Chains,
        networks: &Networks,
        parts: &Parts,
        reach: &Reach,
    ) -> Result<Self, Failure> {
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let ended = move || {
            let mut stopped = stopped.clone();
            async move {
                // An error means that nobody is left to say it.
                let _ = stopped.wait_for(|stop| *stop).await;
            }
        };
        if !parts.no_follow {
            for (number, registry) in networks.registries(chains)? {
                let Some(chain) = chains.get(number) else { continue };
                let mut options = FollowOptions::of(chain.network(), Arc::new(SystemClock));
                options.first_block = networks.first_block;
                let follower = Follower::new(index.clone(), chain.clone(), registry, options);
                tasks.spawn(follower.run(ended()));
            }
        }
        if !parts.no_work {
            let live = Live::new(verifier(reach)?, chains.clone(), Policy::default());
            let options = WorkOptions { at_once: usize::from(parts.at_once), ..WorkOptions::default() };
            let worker = Worker::new(Queue::new(index.clone()), live, Arc::new(SystemClock), options);
            let until = ended();
            tasks.spawn(async move {
                worker.run(until).await;
                Ok(())
            });
        }
        let (index, chains, until) = (index.clone(), chains.clone(), ended());
        tasks.spawn(async move {
            let settling = async {
                loop {
                    // What fails now is looked at again with the next round.
                    let looked = settle_pending(&index, &chains, SystemClock.now()).await.unwrap_or_default();
                    if looked < PENDING_BATCH {
                        tokio::time::sleep(SETTLE_PAUSE).await;
                    }
                }
            };
            tokio::select! {
                () = settling => {}
                () = until => {}
            }
            Ok(())
        });
        Ok(Self { tasks, stop })
    }

    /// Waits for `shutdown`, or for a part that cannot go on, and lets the others end what they began.
    pub(crate) async fn until(mut self, shutdown: impl Future<Output = ()>) -> Result<(), Failure> {
        let mut outcome = Ok(());
        tokio::select! {
            () = shutdown => {}
            Some(ended) = self.tasks.join_next() => outcome = said(ended),
        }
        self.stop.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            outcome = outcome.and(said(ended));
        }
        outcome
    }
}

fn said(ended: Result<Result<(), toolcrib_index::Error>, tokio::task::JoinError>) -> Result<(), Failure> {
    match ended {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(index_failure(&error)),
        Err(error) => Err(Failure::new(codes::cli::OUTPUT, format!("a part of the index broke: {error}"))),
    }
}
