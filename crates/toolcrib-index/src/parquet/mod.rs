//! Exports tools, verdicts, prices and usage as Parquet files, for `DuckDB` and similar tools.
//!
//! An export is a folder that appears atomically, with one file for each table and a description in `export.json`. All files show the same
//! moment. Rows are read in pages and written in row groups, so memory does not grow with the index: some megabytes for each file, and in
//! an incremental export 50 bytes for each changed tool. Tools that the operator blocked or hid are left out, as in public lists.
//!
//! With a cursor only tools that changed since then are written, with all their rows. `changed.parquet` lists them: a reader that keeps a
//! copy deletes the rows of these tools and adds those of the export.
//!
//! `rows.rs` reads, `table.rs` writes, and the columns are in `schema.rs`.

mod rows;
mod schema;
mod table;

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{Error as IoError, Write as _};
use std::path::Path;

use serde::Serialize;
use tempfile::TempDir;
use toolcrib_core::clock::UnixTime;
use toolcrib_store::database::Transaction;

use crate::feed;
use crate::model::{ToolKey, ToolView};
use crate::{Error, Index};
use rows::Reader;
use table::Table;

/// The version of the schema. New columns at the end do not change it.
pub const VERSION: u32 = 1;

/// The file that describes an export.
pub const DESCRIPTION: &str = "export.json";

/// The maximum number of changed tools in an incremental export: 100 MB to remember them. A reader that is further behind exports
/// everything.
const MAX_CHANGED: usize = 2_000_000;

/// Changes read at once.
const CHANGES: i64 = 10_000;

/// The description of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// The version of the schema.
    pub version: u32,
    /// When the export was created.
    pub made_at: UnixTime,
    /// The cursor for the next incremental export.
    pub cursor: i64,
    /// The cursor of this incremental export; `None` for a full one.
    pub since: Option<i64>,
    /// How many rows each file has.
    pub rows: BTreeMap<String, u64>,
}

/// Writes an export into a folder that must not exist, and that appears when everything is written. With `since` only what changed after
/// that change; [`Error::Forgotten`] if the feed has no longer all changes since then, and [`Error::Cursor`] if it has not reached that
/// number.
pub async fn export(index: &Index, folder: &Path, since: Option<i64>, now: UnixTime) -> Result<Exported, Error> {
    if folder.symlink_metadata().is_ok() {
        return Err(failed(std::io::ErrorKind::AlreadyExists.into()));
    }
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    // In the same folder, so that it only has to be renamed. One left by a crash is hidden, and not mistaken for an export.
    let making = tempfile::Builder::new().prefix(".parquet-").tempdir_in(parent).map_err(failed)?;
    // Before the transaction, which must not use another connection; and so that committed changes have numbers.
    index.look_again().await?;
    index.last_change().await?;
    let mut transaction = index.database().begin_reading().await?;
    // The tables of this snapshot include every change that has a number in it.
    let cursor = feed::last(&mut transaction).await?;
    if since.is_some_and(|since| since > cursor) {
        return Err(Error::Cursor);
    }
    let changed = match since {
        Some(since) => Some(changed_tools(&mut transaction, since).await?),
        None => None,
    };
    let mut exported = Exported { version: VERSION, made_at: now, cursor, since, rows: BTreeMap::new() };
    let mut export = Export::begin(making.path(), &exported, changed.is_some())?;
    export.write(index, &mut transaction, changed.as_ref()).await?;
    transaction.commit().await?;
    exported.rows = export.end()?;
    publish(making, folder, parent, &exported)?;
    Ok(exported)
}

/// Writes the description of the files, and renames the folder when everything is on disk.
fn publish(making: TempDir, folder: &Path, parent: &Path, exported: &Exported) -> Result<(), Error> {
    let mut description = File::create_new(making.path().join(DESCRIPTION)).map_err(failed)?;
    let text = serde_json::to_string_pretty(exported).map_err(|error| failed(error.into()))?;
    description.write_all(text.as_bytes()).and_then(|()| description.write_all(b"\n")).map_err(failed)?;
    description.sync_all().map_err(failed)?;
    // File names are stored in the directory, so it is synced as well.
    #[cfg(unix)]
    File::open(making.path()).and_then(|making| making.sync_all()).map_err(failed)?;
    std::fs::rename(making.path(), folder).map_err(failed)?;
    // Keep the temporary folder, which was renamed.
    let _ = making.keep();
    #[cfg(unix)]
    File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed)?;
    Ok(())
}

fn failed(error: IoError) -> Error {
    Error::File { what: "the Parquet files could not be written", error }
}

/// Returns tools that changed after a change. Agents and Bazaar resources have no tables here.
async fn changed_tools(transaction: &mut Transaction, since: i64) -> Result<HashSet<ToolKey>, Error> {
    let mut changed = HashSet::new();
    let mut cursor = since;
    loop {
        let changes = feed::after(transaction, cursor, CHANGES).await?;
        let Some(last) = changes.last() else { return Ok(changed) };
        cursor = last.seq;
        changed.extend(changes.iter().map(|change| change.key).filter(ToolKey::is_tool));
        if changed.len() > MAX_CHANGED {
            return Err(Error::Forgotten { cursor: since, oldest: cursor });
        }
    }
}

/// The files of an export in progress.
struct Export {
    tools: Table,
    prices: Table,
    verdicts: Table,
    usage: Table,
    changed: Option<Table>,
}

impl Export {
    fn begin(folder: &Path, exported: &Exported, of_changes: bool) -> Result<Self, Error> {
        let open = |name: &'static str, schema| Table::create(folder, name, schema, exported);
        Ok(Self {
            tools: open("tools", schema::TOOLS)?,
            prices: open("prices", schema::PRICES)?,
            verdicts: open("verdicts", schema::VERDICTS)?,
            usage: open("usage", schema::USAGE)?,
            changed: of_changes.then(|| open("changed", schema::CHANGED)).transpose()?,
        })
    }

    async fn write(
        &mut self,
        index: &Index,
        transaction: &mut Transaction,
        changed: Option<&HashSet<ToolKey>>,
    ) -> Result<(), Error> {
        let (mut after, mut present) = (None, HashSet::new());
        while let Some((views, last)) = index.scan_within(transaction, after).await? {
            let is_wanted =
                |view: &ToolView| view.moderation.is_none() && changed.is_none_or(|changed| changed.contains(&view.row.key));
            let views: Vec<ToolView> = views.into_iter().filter(is_wanted).collect();
            if changed.is_some() {
                present.extend(views.iter().map(|view| view.row.key));
            }
            self.write_page(transaction, &views).await?;
            after = Some(last);
        }
        if let (Some(changed), Some(table)) = (changed, &mut self.changed) {
            let mut keys: Vec<ToolKey> = changed.iter().copied().collect();
            keys.sort_unstable();
            for key in keys {
                let tool = index.reference(key).await?.to_string();
                table.push(&[tool.as_str().into(), present.contains(&key).into()])?;
            }
        }
        Ok(())
    }

    /// Writes a page of tools in key order, with their rows in the other tables.
    async fn write_page(&mut self, transaction: &mut Transaction, views: &[ToolView]) -> Result<(), Error> {
        for view in views {
            rows::tool(view, &mut self.tools)?;
            rows::prices(view, &mut self.prices)?;
        }
        let Some(mut reader) = Reader::of(views) else { return Ok(()) };
        while reader.verdicts(transaction, &mut self.verdicts).await? {}
        while reader.usage(transaction, &mut self.usage).await? {}
        Ok(())
    }

    fn end(self) -> Result<BTreeMap<String, u64>, Error> {
        let Self { tools, prices, verdicts, usage, changed } = self;
        [Some(tools), Some(prices), Some(verdicts), Some(usage), changed].into_iter().flatten().map(Table::end).collect()
    }
}
