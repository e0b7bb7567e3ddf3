//! The replay store of used payments and signatures.

use std::fs;
use std::sync::Arc;

use clap::Args;
use toolcrib_core::codes;
use toolcrib_store::database::{Database, Location};
use toolcrib_store::replay::{Limits, MAX_RESULT_BYTES, MemoryReplay, ReplayStore, SqlReplay};

use crate::env;
use crate::onchain::state_dir;
use crate::outcome::Failure;
use crate::secrets;

/// Where used payments are kept.
#[derive(Args, Clone, Debug)]
pub(crate) struct Keeping {
    /// Replay store: a SQLite file, or `memory` [env: `TOOLCRIB_STORE`]
    ///
    /// Default: `gate.db` in the user's state folder. Give a PostgreSQL URL, which has a password, in `TOOLCRIB_STORE`.
    #[arg(long, value_name = "PATH")]
    pub(crate) store: Option<String>,
    /// Number of servers for these tools; several share a PostgreSQL store
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) replicas: u16,
    /// Bytes of paid results to keep for callers that lost the answer
    ///
    /// Beyond it, delivered results are dropped. Default: 4 GiB on disk, 256 MiB in memory.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) kept_results: Option<u64>,
    /// Maximum size of a paid result, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().one_result_bytes, value_parser = clap::value_parser!(u64).range(1..=MAX_RESULT_BYTES))]
    pub(crate) largest_result: u64,
    /// Maximum number of payments and signatures to remember
    #[arg(long, value_name = "N", default_value_t = Limits::default().entries, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) kept_payments: u64,
}

impl Keeping {
    /// Opens the store, and returns its location.
    pub(crate) async fn open(&self) -> Result<(Arc<dyn ReplayStore>, String), Failure> {
        let failed = |error: toolcrib_store::Error| Failure::new(error.code(), error.to_string());
        let location = self.location()?;
        // Without a shared store, each replica would accept the same payment.
        if self.replicas > 1 && !location.is_shared() {
            let what = format!("{} servers cannot share the store {location}", self.replicas);
            return Err(Failure::new(codes::cli::USAGE, what).hint("set TOOLCRIB_STORE to the URL of a PostgreSQL database"));
        }
        let limits = self.limits(&location);
        // A store in memory needs no database.
        if location.is_memory() {
            return Ok((Arc::new(MemoryReplay::new(limits)), location.to_string()));
        }
        let database = Database::open(&location).await.map_err(failed)?;
        Ok((Arc::new(SqlReplay::open(database, limits).await.map_err(failed)?), location.to_string()))
    }

    fn limits(&self, location: &Location) -> Limits {
        let usual = if location.is_memory() { Limits::default() } else { Limits::on_disk() };
        Limits {
            entries: self.kept_payments,
            result_bytes: self.kept_results.unwrap_or(usual.result_bytes),
            one_result_bytes: self.largest_result,
            ..usual
        }
    }

    fn location(&self) -> Result<Location, Failure> {
        let failed = |error: toolcrib_store::Error| Failure::new(error.code(), error.to_string());
        if let Some(setting) = &self.store {
            if setting.starts_with("postgres:") || setting.starts_with("postgresql:") {
                let what = "a database URL has a password, but every user of this machine can see arguments";
                return Err(Failure::new(codes::cli::USAGE, what).hint("set TOOLCRIB_STORE to the URL"));
            }
            return Ok(match setting.strip_prefix("sqlite:") {
                Some(path) => Location::file(path),
                None if setting == "memory" => Location::memory(),
                None => Location::file(setting),
            });
        }
        if let Some(setting) = secrets::var(env::TOOLCRIB_STORE) {
            return Location::parse(&setting).map_err(failed);
        }
        let folder = state_dir()?;
        fs::create_dir_all(&folder)
            .map_err(|error| Failure::new(codes::cli::UNWRITABLE, format!("cannot create {}: {error}", folder.display())))?;
        Ok(Location::file(folder.join("gate.db")))
    }
}
