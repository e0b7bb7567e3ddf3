//! Read replicas of a directory, and their largest lag.

use std::time::Duration;

use clap::Args;
use toolcrib_core::codes;
use toolcrib_index::Index;
use toolcrib_index::replicas::{ReplicaLimits, Replicas};
use toolcrib_store::Location;

use crate::commands::discovery::index_failure;
use crate::outcome::Failure;
use crate::settings::{Settings, read_store};

/// Where a directory reads.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReadArgs {
    /// PostgreSQL streaming replica to read from; repeatable
    ///
    /// Give a URL that has a password in `TOOLCRIB_READ_STORES`, or in `read_stores` of your settings file.
    #[arg(long = "read-store", value_name = "URL")]
    pub(crate) stores: Vec<String>,
    /// Maximum replica lag in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=3_600))]
    pub(crate) max_read_lag: u32,
    /// Maximum replica lag in seconds while the primary is unreachable
    #[arg(long, value_name = "SECONDS", default_value_t = 3_600, value_parser = clap::value_parser!(u32).range(2..=604_800))]
    pub(crate) max_read_age: u32,
}

impl ReadArgs {
    /// Opens the replicas of the command line, or else those of the settings.
    pub(crate) async fn open(&self, index: &Index, settings: &Settings) -> Result<Replicas, Failure> {
        let said = self.stores.iter().map(|store| {
            let location = read_store(store)?;
            if location.has_password() {
                let what = "a database URL has a password, but every user of this machine can see arguments";
                return Err(
                    Failure::new(codes::cli::USAGE, what).hint("set TOOLCRIB_READ_STORES to the URLs, separated by spaces")
                );
            }
            Ok(location)
        });
        let said: Vec<Location> = said.collect::<Result<_, _>>()?;
        let places = if said.is_empty() { &settings.read_stores.value } else { &said };
        let seconds = |seconds: u32| Duration::from_secs(u64::from(seconds));
        let limits = ReplicaLimits { lag: seconds(self.max_read_lag), age: seconds(self.max_read_age.max(self.max_read_lag)) };
        Replicas::open(index.clone(), places, limits).await.map_err(|error| index_failure(&error))
    }
}
