//! `index`: what an index holds, as text, as backups, and beside what its registries say.

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
use super::{Kept, index_failure};
use crate::commands::hosting::purge;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::Printer;

/// What to do with an index.
#[derive(Debug, Subcommand)]
pub(crate) enum IndexCommand {
    /// Write the whole index as lines of JSON, each with a checksum
    #[command(
        after_help = "Others may write meanwhile: the export shows one moment. It is read again by `index import`, on either engine."
    )]
    Export(Export),
    /// Write tools, verdicts, prices and usage as Parquet files
    #[command(
        after_help = "For DuckDB and other programs that analyse tables: docs/parquet.md has the columns. Others may write meanwhile: all files\n\
        show one moment, and the folder appears when everything is written. Only in builds with the feature `parquet`."
    )]
    Parquet(ParquetExport),
    /// Read an export into an index, all of it or nothing
    #[command(
        after_help = "Rows that are there stay as they are, so importing twice is importing once. The index has to be empty, or the one\n\
        that the export was made from: registries are numbered, and the numbers have to agree."
    )]
    Import(Import),
    /// Make a backup in a new file while others go on: a copy on SQLite, an export on PostgreSQL
    Backup(Backup),
    /// Read a backup of either engine into an empty index of either engine
    Restore(Import),
    /// Read the logs of registries again and add what is missing
    #[command(
        after_help = "The process that follows the registry does it, next to its other work, and goes on after a restart.\n\
        Nothing that is in the index is removed meanwhile."
    )]
    Rescan(super::check::Rescan),
    /// Compare every tool with its registry, at one block
    #[command(
        after_help = "Exit status 1 when a tool is not what its registry says. `--fix` asks for a rescan from the block after which the\n\
        first missing log must be. History that left no trace in the state is not compared: `index rescan` reads all logs."
    )]
    Check(Box<super::check::Check>),
    /// End listings that are over and held back, after you checked the clocks
    #[command(
        after_help = "Many listings that end within an hour look like a wrong clock, so that they are held back until a chain's newest block\n\
        agrees with the database's clock (index.expiry_held). This command gives your agreement up to the database's time."
    )]
    Expire(Expire),
    /// Show where evidence is, or move it between database and object store
    #[command(
        after_help = "A running `index` with --objects moves evidence into the object store by itself. Before you take --objects away, move it\n\
        back with `--move-to database`, or let the next verifications replace it."
    )]
    Objects(super::objects::ObjectsArgs),
    /// Block or hide a tool, a resource or all tools of a creator, or undo it
    Moderate(Moderate),
    /// List what is blocked and hidden, or the log of decisions
    Moderation(Moderation),
    /// List or close reports of abuse
    Reports(Reports),
    /// Tell the cache before a directory what changed, until Ctrl-C
    #[command(
        after_help = "Directories that run with --cdn-max-age name in Surrogate-Key and Cache-Tag what their answers show. This command follows\n\
        the change feed and posts the keys of what changed, each at least once from a cursor in the database.\n\n\
        Examples:\n  \
        toolcrib index purge --url https://api.cloudflare.com/client/v4/zones/ZONE/purge_cache --header-env Authorization=CDN_TOKEN\n  \
        toolcrib index purge --url https://api.fastly.com/service/ID/purge --body '' --header 'Surrogate-Key={spaces}' --header-env Fastly-Key=CDN_TOKEN"
    )]
    Purge(Box<purge::Purge>),
}

/// Arguments of `index expire`.
#[derive(Args, Debug)]
pub(crate) struct Expire {
    #[command(flatten)]
    pub(crate) kept: Kept,
}

/// Arguments of `index export`.
#[derive(Args, Debug)]
pub(crate) struct Export {
    /// Where to write; stdout if none is given
    #[arg(long, short, value_name = "PATH")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) kept: Kept,
}

/// Arguments of `index parquet`.
#[derive(Args, Debug)]
pub(crate) struct ParquetExport {
    /// The folder to make; one that is there is never overwritten
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
    /// Only tools that changed after this cursor of an export or of the feed
    #[arg(long, value_name = "CURSOR", value_parser = clap::value_parser!(i64).range(0..))]
    pub(crate) since: Option<i64>,
    #[command(flatten)]
    pub(crate) kept: Kept,
}

/// Arguments of `index import` and `index restore`.
#[derive(Args, Debug)]
pub(crate) struct Import {
    /// The file
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) kept: Kept,
}

/// Arguments of `index backup`.
#[derive(Args, Debug)]
pub(crate) struct Backup {
    /// The file to make; one that is there is never overwritten
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) kept: Kept,
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
            printer.result(&format!("{ended} listings ended, as of {until}\n"))?;
            Ok(Done::new(Exit::Yes, json!({ "ended": ended, "until": until })))
        }
        IndexCommand::Backup(arguments) => {
            if arguments.path.exists() {
                let what = format!("{} is already there", arguments.path.display());
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
                io::ErrorKind::AlreadyExists => Failure::new(codes::cli::EXISTS, format!("{} is already there", path.display())),
                _ => failed(error),
            })?;
            export::export(&index, &mut BufWriter::new(file), now).await.map_err(|error| index_failure(&error))?
        }
        None if printer.json() => {
            let what = "an export is many lines of JSON, and an envelope is one";
            return Err(Failure::new(codes::cli::USAGE, what).hint("give --out, or leave --json out").into());
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
        let what = format!("{} is already there", arguments.folder.display());
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
