//! `agt migrate`: the legacy records of a name as a draft to sign.

use clap::Args;
use serde_json::json;
use toolcrib_agent::evidence::{OwnerOutcome, TxtLookup};
use toolcrib_agent::source::OwnerSource as _;
use toolcrib_chain::fns::Fns;
use toolcrib_core::agent::migrate;
use toolcrib_core::agent::txt::{TxtOutcome, parse_records};
use toolcrib_core::clock::Clock as _;
use toolcrib_core::codes;
use toolcrib_fetch::SystemClock;

use super::parse_name;
use super::resolver::SourceArgs;
use crate::commands::migrate::print;
use crate::onchain::failed;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// Arguments of `agt migrate`.
#[derive(Args, Debug)]
pub(crate) struct Migrate {
    /// The .agt name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Do not read the holder onchain: the draft has the owner that the records declare
    #[arg(long)]
    pub(crate) offline: bool,
    #[command(flatten)]
    pub(crate) sources: SourceArgs,
}

/// Drafts a manifest from the records of a name.
pub(crate) async fn run(arguments: &Migrate, printer: &mut Printer) -> Result<Done, Stop> {
    let domain = parse_name(&arguments.name)?;
    let chain = arguments.sources.chain()?;
    let mut records = None;
    for source in arguments.sources.txt(&chain)? {
        match source.lookup(&domain).await.outcome {
            TxtLookup::Records(found) => records = Some(found),
            TxtLookup::NoRecords | TxtLookup::NotFound => records = Some(Vec::new()),
            TxtLookup::Failed { code, message } => {
                printer.note(&format!("warning: {}: {} ({code})", shown(source.name()), shown(&message)))?;
                continue;
            }
        }
        break;
    }
    let records =
        records.ok_or_else(|| Failure::new(codes::fetch::UNREACHABLE, "no TXT source answered").hint("give another --source"))?;
    let reading = parse_records(&records);
    let TxtOutcome::Legacy(legacy) = reading.outcome else {
        let what = match reading.outcome {
            TxtOutcome::Pointer(_) | TxtOutcome::Refused => "the name has a manifest pointer already",
            _ => "the name has no legacy records: agt-version=1 is missing",
        };
        printer.complaint(&format!("{what}\n"))?;
        return Ok(Done::new(Exit::No, json!({ "draft": null, "why": what })));
    };
    let mut holder = None;
    if !arguments.offline {
        match Fns::new(chain).map_err(failed)?.holder(&domain, None).await.outcome {
            OwnerOutcome::Holder(account) => holder = Some(account),
            OwnerOutcome::NotMinted => printer.note("warning: the name has no holder onchain")?,
            _ => printer.note("warning: the holder of the name could not be read; the draft has the declared owner")?,
        }
    }
    let migration = migrate(&legacy, &domain, holder, SystemClock.now());
    let changes = print(&migration, printer)?;
    Ok(Done::new(Exit::Yes, json!({ "draft": migration.draft, "changes": changes, "holder": holder })))
}
