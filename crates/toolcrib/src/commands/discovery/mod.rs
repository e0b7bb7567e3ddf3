//! Commands that find tools, and that maintain an index and its directory.

mod check;
pub(crate) mod index;
pub(crate) mod keys;
mod moderation;
mod objects;
mod show;
pub(crate) mod source;
pub(crate) mod tools;

use std::path::Path;

use clap::Args;
use toolcrib_core::codes;
use toolcrib_files::create_private_folder;
use toolcrib_index::Index;
use toolcrib_index::objects::KeeperOptions;
use toolcrib_store::objects::{Objects, ObjectsLocation};
use toolcrib_store::{Database, Location};

use crate::env;
use crate::onchain::state_dir;
use crate::outcome::Failure;
use crate::secrets;

/// Where an index is kept.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct StoreArgs {
    /// Index database: a SQLite file, or `memory` [env: `TOOLCRIB_INDEX`]
    ///
    /// Default: `index.db` in the user's state folder. Give a PostgreSQL URL, which has a password, in `TOOLCRIB_INDEX`.
    #[arg(long, value_name = "PATH")]
    pub(crate) store: Option<String>,
    /// Object store for evidence and snapshots [env: `TOOLCRIB_OBJECTS`]
    ///
    /// `file:///PATH`, or `s3://BUCKET/PREFIX?endpoint=URL&region=NAME` with credentials from the environment. Default: evidence is
    /// kept in the database, and there are no snapshots.
    #[arg(long, value_name = "URL")]
    pub(crate) objects: Option<String>,
}

impl StoreArgs {
    /// Whether an option was given on the command line.
    pub(crate) const fn is_said(&self) -> bool {
        self.store.is_some()
    }

    /// Opens the index, or creates it.
    pub(crate) async fn open(&self) -> Result<Index, Failure> {
        self.index(true).await
    }

    /// Opens an existing index.
    pub(crate) async fn open_existing(&self) -> Result<Index, Failure> {
        self.index(false).await
    }

    async fn index(&self, may_be_made: bool) -> Result<Index, Failure> {
        let failed = |error: toolcrib_index::Error| index_failure(&error);
        let objects = self.objects()?;
        let index = Index::open(self.database(may_be_made).await?).await.map_err(failed)?;
        match objects {
            Some(objects) => index.with_objects(objects, KeeperOptions::default()).await.map_err(failed),
            None => Ok(index),
        }
    }

    /// Opens the object store, if one is configured.
    pub(crate) fn objects(&self) -> Result<Option<Objects>, Failure> {
        let failed = |error: toolcrib_store::objects::Error| Failure::new(error.code(), error.to_string());
        let Some(setting) = self.objects.clone().or_else(|| secrets::var(env::TOOLCRIB_OBJECTS)) else { return Ok(None) };
        let location = ObjectsLocation::parse(&setting).map_err(failed)?;
        Objects::open(&location, secrets::var).map(Some).map_err(failed)
    }

    /// Opens the database.
    pub(crate) async fn database(&self, may_be_made: bool) -> Result<Database, Failure> {
        let location = self.location()?;
        if let Some(path) = location.path().filter(|path| !may_be_made && !path.exists()) {
            let what = format!("{} has no index", path.display());
            return Err(
                Failure::new(codes::cli::NOT_FOUND, what).hint("create one with `toolcrib index` or `toolcrib index import`")
            );
        }
        Database::open(&location).await.map_err(|error| Failure::new(error.code(), error.to_string()))
    }

    /// The location of the database.
    pub(crate) fn location(&self) -> Result<Location, Failure> {
        let failed = |error: toolcrib_store::Error| Failure::new(error.code(), error.to_string());
        if let Some(setting) = &self.store {
            if setting.starts_with("postgres:") || setting.starts_with("postgresql:") {
                let what = "a database URL has a password, but every user of this machine can see arguments";
                return Err(Failure::new(codes::cli::USAGE, what).hint("set TOOLCRIB_INDEX to the URL"));
            }
            return Ok(match setting.strip_prefix("sqlite:") {
                Some(path) => Location::file(path),
                None if setting == "memory" => Location::memory(),
                None => Location::file(setting),
            });
        }
        if let Some(setting) = secrets::var(env::TOOLCRIB_INDEX) {
            return Location::parse(&setting).map_err(failed);
        }
        let folder = state_dir()?;
        make_private(&folder)?;
        Ok(Location::file(folder.join("index.db")))
    }
}

fn make_private(folder: &Path) -> Result<(), Failure> {
    create_private_folder(folder)
        .map_err(|error| Failure::new(codes::cli::UNWRITABLE, format!("cannot create {}: {error}", folder.display())))
}

/// Converts an error of an index.
pub(crate) fn index_failure(error: &toolcrib_index::Error) -> Failure {
    Failure::new(error.code(), error.to_string())
}
