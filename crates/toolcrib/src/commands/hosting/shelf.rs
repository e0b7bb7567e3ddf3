//! Where an index is kept.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use toolcrib_core::codes;
use toolcrib_index::Index;
use toolcrib_store::database::{Database, Location};

use crate::env;
use crate::onchain::state_dir;
use crate::outcome::Failure;

/// Where the index is kept.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Shelf {
    /// Where the index is kept: a SQLite file, or `memory`. PostgreSQL, for several machines, is named by `TOOLCRIB_INDEX`, since its
    /// URL has a password [env: `TOOLCRIB_INDEX`] [default: `index.db` in the user's state folder]
    #[arg(long, value_name = "PATH")]
    pub(crate) store: Option<String>,
}

impl Shelf {
    /// Opens the index, and says where it is.
    pub(crate) async fn open(&self) -> Result<(Index, Location), Failure> {
        let location = self.location()?;
        let database = Database::open(&location).await.map_err(stored)?;
        let index = Index::open(database).await.map_err(|error| broken(&error))?;
        Ok((index, location))
    }

    /// Where it is.
    pub(crate) fn location(&self) -> Result<Location, Failure> {
        if let Some(setting) = &self.store {
            if setting.starts_with("postgres:") || setting.starts_with("postgresql:") {
                let what = "a database URL has a password, and arguments are seen by every user of this machine";
                return Err(Failure::new(codes::cli::USAGE, what).hint("put the URL into TOOLCRIB_INDEX"));
            }
            return Ok(match setting.strip_prefix("sqlite:") {
                Some(path) => Location::file(path),
                None if setting == "memory" => Location::memory(),
                None => Location::file(setting),
            });
        }
        if let Some(setting) = std::env::var(env::TOOLCRIB_INDEX).ok().filter(|setting| !setting.is_empty()) {
            return Location::parse(&setting).map_err(stored);
        }
        Ok(Location::file(made(state_dir()?)?.join("index.db")))
    }
}

/// The folder, made if it was not there.
pub(crate) fn made(folder: PathBuf) -> Result<PathBuf, Failure> {
    fs::create_dir_all(&folder)
        .map_err(|error| Failure::new(codes::cli::UNWRITABLE, format!("cannot make {}: {error}", folder.display())))?;
    Ok(folder)
}

/// A failure of the database in the words of the command line.
#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn stored(error: toolcrib_store::Error) -> Failure {
    Failure::new(error.code(), error.to_string())
}

/// A failure of the index in the words of the command line.
pub(crate) fn broken(error: &toolcrib_index::Error) -> Failure {
    Failure::new(error.code(), error.to_string())
}
