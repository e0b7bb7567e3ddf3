//! `index`: follows chains and verifies the registered tools.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use toolcrib_index::work::WorkOptions;

use super::agents::AgentArgs;
use super::bazaar::BazaarArgs;
use super::collections::CollectionArgs;
use super::engine::{Engine, EngineArgs};
use super::followed::Followed;
use super::snapshots::PublishArgs;
use super::{logging, told_to_stop};
use crate::commands::discovery::{StoreArgs, index_failure};
use crate::commands::trust::door::{EgressArgs, verifier};
use crate::outcome::{Done, Exit, Stop};
use crate::printer::{Printer, shown};

/// How often the progress is printed to a terminal.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Arguments of `index` that runs.
#[derive(Args, Clone, Debug)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) followed: Followed,
    #[command(flatten)]
    pub(crate) kept: StoreArgs,
    #[command(flatten)]
    pub(crate) doing: EngineArgs,
    #[command(flatten)]
    pub(crate) publish: PublishArgs,
    #[command(flatten)]
    pub(crate) agents: AgentArgs,
    #[command(flatten)]
    pub(crate) bazaar: BazaarArgs,
    #[command(flatten)]
    pub(crate) collections: CollectionArgs,
    #[command(flatten)]
    pub(crate) reach: EgressArgs,
    /// Stop after this many seconds instead of on Ctrl-C
    #[arg(long, value_name = "SECONDS")]
    pub(crate) exit_after: Option<u64>,
}

/// Follows and verifies until Ctrl-C.
pub(crate) async fn run(arguments: &Run, printer: &mut Printer) -> Result<Done, Stop> {
    logging::begin(printer);
    arguments.doing.check(arguments.agents.agt.is_some() || arguments.bazaar.is_said())?;
    let followings = arguments.followed.resolve(printer)?;
    let (index, location) = (arguments.kept.open().await?, arguments.kept.location()?);
    let publishing = arguments.publish.start(&index, arguments.kept.objects()?.as_ref()).await?;
    let verifier = verifier(&arguments.reach)?;
    let agents = arguments.agents.prepare(&index, printer).await?;
    let (bazaar, collections) = (arguments.bazaar.prepare()?, arguments.collections.provider()?);
    let mut engine = Engine::start(&index, &followings, verifier, collections, &arguments.doing, WorkOptions::default());
    if let Some(publishing) = publishing {
        engine.add_publishing(publishing);
    }
    printer.result(&format!("index {}\n", shown(&location.to_string())))?;
    let does = if arguments.doing.no_follow { "verifying" } else { "following" };
    for following in &followings {
        let network = following.chain.network();
        printer.result(&format!("{does} {} registry {}\n", network.title, following.registry.to_checksum(None)))?;
    }
    if let Some(agents) = agents {
        printer.result(&format!("resolving {} .agt names\n", agents.count))?;
        engine.add_agents(&index, agents).map_err(|error| index_failure(&error))?;
    }
    if let Some(bazaar) = bazaar {
        for facilitator in &bazaar.facilitators {
            printer.result(&format!("following the Bazaar of {}\n", shown(&facilitator.origin())))?;
        }
        engine.add_bazaar(&index, bazaar, arguments.reach.open()?).map_err(|error| index_failure(&error))?;
    }
    printer.flush()?;
    let chains: Vec<_> = followings.iter().map(|following| following.chain.chain_id()).collect();
    let data = json!({ "store": location.to_string(), "chains": chains });
    printer.event(&json!({ "event": "ready", "data": data }))?;

    let mut waiting = std::pin::pin!(told_to_stop(arguments.exit_after));
    let mut told = String::new();
    let ended = loop {
        tokio::select! {
            () = &mut waiting => break None,
            error = engine.failed() => break Some(error),
            () = tokio::time::sleep(TELL_EVERY) => {
                let now = progress(&engine);
                if now != told {
                    printer.note(&now)?;
                    told = now;
                }
            }
        }
    };
    engine.stop().await;
    index.database().close().await;
    match ended {
        Some(error) => Err(index_failure(&error).into()),
        None => Ok(Done::new(Exit::Yes, data)),
    }
}

/// The progress of each chain, in one line.
fn progress(engine: &Engine) -> String {
    let parts: Vec<_> = engine
        .progress
        .iter()
        .map(|(chain, progress)| {
            let progress = *progress.borrow();
            let missing = if progress.incomplete { ", logs are missing" } else { "" };
            match progress.leads {
                true => {
                    format!("chain {chain} at {} of {}, {} events{missing}", progress.checkpoint, progress.head, progress.events)
                }
                false => format!("another process follows chain {chain}"),
            }
        })
        .collect();
    parts.join("; ")
}
