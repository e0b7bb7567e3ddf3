//! Long-running commands: the index and the directory.

pub(crate) mod agents;
pub(crate) mod bazaar;
pub(crate) mod collections;
pub(crate) mod directory;
pub(crate) mod embedding;
pub(crate) mod engine;
pub(crate) mod followed;
pub(crate) mod index;
pub(crate) mod logging;
pub(crate) mod purge;
mod reading;
mod snapshots;

use std::time::Duration;

use super::serving::stopped;

/// Returns at Ctrl-C or SIGTERM, or after the given number of seconds.
async fn told_to_stop(seconds: Option<u64>) {
    let over = async {
        match seconds {
            Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = over => {}
        () = stopped() => {}
    }
}
