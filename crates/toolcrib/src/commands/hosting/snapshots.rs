//! Publishing search snapshots.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use toolcrib_core::codes;
use toolcrib_index::Index;
use toolcrib_index::search::{PublishOptions, Publisher, Search, SearchOptions, Snapshots};
use toolcrib_store::objects::Objects;

use crate::commands::discovery::index_failure;
use crate::outcome::Failure;

/// Default seconds between two snapshots: a new node has at most a quarter of an hour of changes to apply.
const SNAPSHOT_EVERY: u32 = 900;

/// How often a process that does not serve requests updates its search: snapshots are minutes apart.
const FEED_EVERY: Duration = Duration::from_secs(5);

/// When search snapshots are published.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct SnapshotArgs {
    /// Seconds between search snapshots to --objects; 0 for none
    ///
    /// One process per database publishes them, if there were changes.
    #[arg(long, value_name = "SECONDS", default_value_t = SNAPSHOT_EVERY)]
    pub(crate) snapshot_every: u32,
}

impl SnapshotArgs {
    /// How snapshots are published; `None` when they are not.
    pub(crate) fn options(self) -> Option<PublishOptions> {
        let every_seconds = i64::from(self.snapshot_every);
        (every_seconds > 0).then(|| PublishOptions { every_seconds, ..PublishOptions::default() })
    }
}

/// Search in a process that serves nothing, for its snapshots alone.
#[derive(Args, Clone, Debug)]
pub(crate) struct PublishArgs {
    /// Folder for a search index to publish as snapshots; needs --objects
    ///
    /// Snapshots let directories start quickly.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) search: Option<PathBuf>,
    /// Embedding folder, as the directories use it
    #[arg(long, value_name = "FOLDER", requires = "search")]
    pub(crate) embedding: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) snapshots: SnapshotArgs,
}

impl PublishArgs {
    /// Returns the task that updates search and publishes snapshots of it. Returns `None` if publishing is off.
    pub(crate) async fn start(&self, index: &Index, objects: Option<&Objects>) -> Result<Option<Publishing>, Failure> {
        let Some(folder) = &self.search else { return Ok(None) };
        let (Some(objects), Some(publish)) = (objects, self.snapshots.options()) else {
            let what = "--search publishes snapshots, which need an object store";
            return Err(Failure::new(codes::cli::USAGE, what).hint("give --objects, and a --snapshot-every above 0"));
        };
        let snapshots = Snapshots::new(objects.clone());
        let options = SearchOptions {
            folder: Some(folder.clone()),
            embedding: self.embedding.clone(),
            snapshots: Some(snapshots.clone()),
            ..SearchOptions::default()
        };
        let search = Search::open(index.clone(), options).await.map_err(|error| index_failure(&error))?;
        let publisher = Publisher::new(search.clone(), snapshots, publish);
        Ok(Some(Publishing { search, publisher }))
    }
}

/// A search index to update and publish.
#[derive(Debug)]
pub(crate) struct Publishing {
    search: Search,
    publisher: Publisher,
}

impl Publishing {
    /// Runs until stopped.
    pub(crate) async fn run(self, stopped: impl Future<Output = ()> + Send) {
        let feeding = async {
            loop {
                if let Err(error) = self.search.catch_up().await {
                    tracing::warn!(code = error.code().id(), %error, "search could not be fed, retrying");
                }
                tokio::time::sleep(FEED_EVERY).await;
            }
        };
        tokio::select! {
            () = feeding => {}
            () = self.publisher.run(stopped) => {}
        }
    }
}
