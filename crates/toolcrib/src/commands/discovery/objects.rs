//! `index objects`: shows where evidence is stored, and moves it.

use clap::{Args, ValueEnum};
use serde_json::json;
use toolcrib_core::codes;
use toolcrib_index::objects::Direction;

use super::{StoreArgs, index_failure};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::Printer;

/// Rows between two lines about progress.
const TELL_EVERY: u64 = 10_000;

/// Arguments of `index objects`.
#[derive(Args, Debug)]
pub(crate) struct ObjectsArgs {
    /// Move evidence and reports to this place
    #[arg(long, value_name = "PLACE")]
    pub(crate) move_to: Option<Target>,
    #[command(flatten)]
    pub(crate) kept: StoreArgs,
}

/// Where evidence is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// Object store
    Objects,
    /// Database
    Database,
}

/// Shows where evidence is stored, after moving it if requested.
pub(crate) async fn run(arguments: &ObjectsArgs, printer: &mut Printer) -> Result<Done, Stop> {
    let failed = |error: toolcrib_index::Error| index_failure(&error);
    let index = arguments.kept.open_existing().await?;
    let mut total = 0;
    if let Some(target) = arguments.move_to {
        if index.object_counts().is_none() {
            let what = "moving evidence needs the object store";
            return Err(Failure::new(codes::cli::USAGE, what).hint("give --objects").into());
        }
        let direction = match target {
            Target::Objects => Direction::ToObjects,
            Target::Database => Direction::ToDatabase,
        };
        let mut place = None;
        loop {
            let (moved, next) = index.transfer_evidence(direction, place, TELL_EVERY).await.map_err(failed)?;
            total += moved;
            place = next;
            if place.is_none() {
                break;
            }
            printer.note(&format!("{total} moved"))?;
        }
    }
    let placement = index.evidence_placement().await.map_err(failed)?;
    let (database, objects) = (placement.in_database, placement.in_objects);
    printer.result(&format!("{total} moved\nin the database: {database}\nin the object store: {objects}\n"))?;
    Ok(Done::new(Exit::Yes, json!({ "moved": total, "in_database": database, "in_objects": objects })))
}
