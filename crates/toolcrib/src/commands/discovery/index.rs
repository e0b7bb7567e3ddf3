//! `index`: tasks on an index: exports, backups and comparison with its registries.

use std::fs;
use std::io::{self, BufReader, BufWriter};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use toolcrib_core::clock::Clock as _;
use toolcrib_core::codes;
use toolcrib_core::time::format_rfc3339;
use toolcrib_fetch::SystemClock;
use toolcrib_index::export::{self, Imported};
use toolcrib_index::work::Queue;

use super::moderation::{self, Moderate, Moderation, Reports};
use super::{StoreArgs, index_failure};
use crate::commands::hosting::purge;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::Printer;

/// What to do with an index.
#[derive(Debug, Subcommand)]
pub(crate) enum IndexCommand {
    /// Export the whole index as JSON lines with checksums
    #[command(
        after_long_help = "The export is a consistent snapshot, even while the index is being written. `index import` reads it on either engine."
    )]
    Export(Export),
    /// Export tools, verdicts, prices and usage as Parquet files
    #[command(
        after_long_help = "For DuckDB and other analytics tools; docs/parquet.md lists the columns. The files are one consistent snapshot,\n\
        and the folder appears when all are complete. Requires a build with the feature `parquet`."
    )]
    Parquet(ParquetExport),
    /// Import an export in one transaction
    #[command(
        after_long_help = "Existing rows are kept, so importing twice has no effect. The index must be empty, or the one that the export\n\
        was made from: registries are numbered, and the numbers must match."
    )]
    Import(Import),
    /// Back up the index to a new file while it is in use
    Backup(Backup),
    /// Restore a backup into an empty index
    Restore(Import),
    /// Read registry logs again and add what is missing
    #[command(
        after_long_help = "The process that follows the registry reads the logs, next to its other work, and continues after a restart.\n\
        Nothing is removed from the index."
    )]
    Rescan(super::check::Rescan),
    /// Compare every tool with its registry at one block
    #[command(
        after_long_help = "Exit code 1 if a tool differs from its registry. `--fix` requests a rescan from the earliest block that can have\n\
        the first missing log. Events that left no trace in the state are not compared: `index rescan` reads all logs."
    )]
    Check(Box<super::check::Check>),
    /// Confirm the expiry of listings that was held back
    #[command(
        after_long_help = "Many listings that expire within an hour look like a wrong clock, so they are held back until the chain head agrees\n\
        with the database's clock (index.expiry_held). Check the clocks, then confirm with this command."
    )]
    Expire(Expire),
    /// Show where evidence is stored, or move it
    #[command(
        after_long_help = "A running `index` with --objects moves evidence into the object store. Before you remove --objects, move it back\n\
        with `--move-to database`, or let the next verifications replace it."
    )]
    Objects(super::objects::ObjectsArgs),
    /// Block or hide a tool, a resource or a creator, or undo it
    Moderate(Moderate),
    /// List blocks and hidden entries, or the moderation log
    Moderation(Moderation),
    /// List or close abuse reports
    Reports(Reports),
    /// Purge changed entries from a CDN cache, until Ctrl-C
    #[command(
        after_long_help = "Directories with --cdn-max-age tag their responses with Surrogate-Key and Cache-Tag. This command follows the\n\
        change feed and posts the keys of changed entries, each at least once, from a cursor in the database."
    )]
    Purge(Box<purge::Purge>),
}

/// Arguments of `index expire`.
#[derive(Args, Debug)]
pub(crate) struct Expire {
    #[command(flatten)]
    pub(crate) kept: StoreArgs,
}

/// Arguments of `index export`.
#[derive(Args, Debug)]
pub(crate) struct Export {
    /// Output path [default: stdout]
    #[arg(long, short, value_name = "PATH")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) kept: StoreArgs,
}

/// Arguments of `index parquet`.
#[derive(Args, Debug)]
pub(crate) struct ParquetExport {
    /// Folder to create; must not exist
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Only tools changed after this cursor of an export or the feed
    #[arg(long, value_name = "CURSOR", value_parser = clap::value_parser!(i64).range(0..))]
    pub(crate) since: Option<i64>,
    #[command(flatten)]
    pub(crate) kept: StoreArgs,
}

/// Arguments of `index import` and `index restore`.
#[derive(Args, Debug)]
pub(crate) struct Import {
    /// File to read
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) kept: StoreArgs,
}

/// Arguments of `index backup`.
#[derive(Args, Debug)]
pub(crate) struct Backup {
    /// File to create; must not exist
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) kept: StoreArgs,
}

/// Runs the command.
pub(crate) async fn run(command: &IndexCommand, printer: &mut Printer) -> Result<Done, Stop> {
    let now = SystemClock.now();
    match command {
        IndexCommand::Export(arguments) => write(arguments, printer).await,
        IndexCommand::Parquet(arguments) => parquet(arguments, printer).await,
        IndexCommand::Import(arguments) => {
            let file = fs::File::open(&arguments.path).map_err(|error| unreadable(&arguments.path, &error))?;
            let index = arguments.kept.open().await?;
            let done = export::import(&index, &mut BufReader::new(file), now).await;
            tell(done.map_err(|error| index_failure(&error))?, printer)
        }
        IndexCommand::Restore(arguments) => {
            fs::metadata(&arguments.path).map_err(|error| unreadable(&arguments.path, &error))?;
            let index = arguments.kept.open().await?;
            let done = export::restore(&index, &arguments.path, now).await.map_err(|error| index_failure(&error))?;
            tell(done, printer)
        }
        IndexCommand::Rescan(arguments) => super::check::rescan(arguments, printer).await,
        IndexCommand::Check(arguments) => super::check::check(arguments, printer).await,
        IndexCommand::Objects(arguments) => super::objects::run(arguments, printer).await,
        IndexCommand::Moderate(arguments) => moderation::moderate(arguments, printer).await,
        IndexCommand::Moderation(arguments) => moderation::moderation(arguments, printer).await,
        IndexCommand::Reports(arguments) => moderation::reports(arguments, printer).await,
        IndexCommand::Purge(arguments) => purge::run(arguments, printer).await,
        IndexCommand::Expire(arguments) => {
            let queue = Queue::new(arguments.kept.open_existing().await?);
            let failed = |error: toolcrib_index::Error| index_failure(&error);
            let until = queue.agree_to_expiry().await.map_err(failed)?;
            let mut ended = 0;
            loop {
                let expired = queue.expire().await.map_err(failed)?;
                ended += expired.ended;
                if expired.ended == 0 {
                    break;
                }
            }
            let until = format_rfc3339(until).unwrap_or_default();
            printer.result(&format!("{ended} listings expired, as of {until}\n"))?;
            Ok(Done::new(Exit::Yes, json!({ "ended": ended, "until": until })))
        }
        IndexCommand::Backup(arguments) => {
            if arguments.path.exists() {
                let what = format!("{} already exists", arguments.path.display());
                return Err(Failure::new(codes::cli::EXISTS, what).into());
            }
            let index = arguments.kept.open_existing().await?;
            export::backup(&index, &arguments.path, now).await.map_err(|error| index_failure(&error))?;
            let path = arguments.path.display().to_string();
            printer.result(&format!("{path}\n"))?;
            Ok(Done::new(Exit::Yes, json!({ "backup": path })))
        }
    }
}

async fn write(arguments: &Export, printer: &mut Printer) -> Result<Done, Stop> {
    let now = SystemClock.now();
    let index = arguments.kept.open_existing().await?;
    let rows = match &arguments.out {
        Some(path) => {
            let failed = |error| Failure::new(codes::cli::UNWRITABLE, format!("cannot write {}: {error}", path.display()));
            let file = fs::OpenOptions::new().write(true).create_new(true).open(path);
            let file = file.map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => Failure::new(codes::cli::EXISTS, format!("{} already exists", path.display())),
                _ => failed(error),
            })?;
            export::export(&index, &mut BufWriter::new(file), now).await.map_err(|error| index_failure(&error))?
        }
        None if printer.json() => {
            let what = "an export is many JSON lines and does not fit into one --json object";
            return Err(Failure::new(codes::cli::USAGE, what).hint("give --out, or omit --json").into());
        }
        None => {
            let mut exporter = export::Exporter::new(&index, now).await.map_err(|error| index_failure(&error))?;
            let mut rows = 0;
            while let Some(lines) = exporter.next().await.map_err(|error| index_failure(&error))? {
                rows += lines.lines().count() as u64;
                printer.document(&lines)?;
            }
            rows.saturating_sub(2)
        }
    };
    printer.note(&format!("{rows} rows"))?;
    Ok(Done::new(Exit::Yes, json!({ "rows": rows })))
}

#[cfg(feature = "parquet")]
async fn parquet(arguments: &ParquetExport, printer: &mut Printer) -> Result<Done, Stop> {
    if arguments.folder.exists() {
        let what = format!("{} already exists", arguments.folder.display());
        return Err(Failure::new(codes::cli::EXISTS, what).into());
    }
    let index = arguments.kept.open_existing().await?;
    let done = toolcrib_index::parquet::export(&index, &arguments.folder, arguments.since, SystemClock.now()).await;
    let done = done.map_err(|error| index_failure(&error))?;
    for (name, rows) in &done.rows {
        printer.result(&format!("{name}.parquet  {rows} rows\n"))?;
    }
    printer.result(&format!("cursor {}\n", done.cursor))?;
    Ok(Done::new(Exit::Yes, json!(done)))
}

#[cfg(not(feature = "parquet"))]
async fn parquet(_: &ParquetExport, _: &mut Printer) -> Result<Done, Stop> {
    let what = "this build cannot write Parquet files";
    let hint = "build one with `cargo install --path crates/toolcrib --features parquet`";
    Err(Failure::new(codes::cli::USAGE, what).hint(hint).into())
}

fn tell(done: Imported, printer: &mut Printer) -> Result<Done, Stop> {
    printer.result(&format!("{} rows, {} of them new\n", done.rows, done.new))?;
    Ok(Done::new(Exit::Yes, json!({ "rows": done.rows, "new": done.new })))
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let code = if error.kind() == io::ErrorKind::NotFound { codes::cli::NOT_FOUND } else { codes::cli::UNREADABLE };
    Failure::new(code, format!("cannot read {}: {error}", path.display()))
}
