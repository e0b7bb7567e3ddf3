//! Maintenance of the object store: moves evidence that was stored in the database while the object store was unavailable, and collects
//! garbage.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

use super::transfer::{Direction, TransferPlace};
use crate::lease::NamedLease;
use crate::{Error, Index};

/// The name of its lease: one process of a database does this at a time.
const LEASE: &str = "objects";

/// The duration of the lease in seconds. A round takes seconds, the longest some minutes.
const LEASE_SECONDS: i64 = 600;

/// Time between two rounds.
const EVERY: Duration = Duration::from_secs(60);

/// Time between two collections, and between two listings of the whole store.
const COLLECT_EVERY: Duration = Duration::from_secs(3_600);
const LIST_EVERY: Duration = Duration::from_secs(24 * 3_600);

/// The number of rows that one round moves: an index that was filled without an object store moves within a day or so, besides the other
/// work.
const MOVES: u64 = 2_000;

/// Seconds after which an unreferenced object is deleted: longer than any transaction, and than any difference between clocks.
const GRACE_SECONDS: i64 = 24 * 3_600;

/// Options of object store maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeeperOptions {
    /// Seconds after which an unreferenced object is deleted. Writers have half of it to write their row.
    pub grace_seconds: i64,
}

impl Default for KeeperOptions {
    fn default() -> Self {
        Self { grace_seconds: GRACE_SECONDS }
    }
}

/// Maintains the object store of an index until `stopped`. Errors are logged and retried.
pub async fn keep(index: Index, stopped: impl Future<Output = ()> + Send) {
    let mut stopped = std::pin::pin!(stopped);
    let mut keeper = Keeper { index, place: None, collected: None, listed: None };
    loop {
        if let Err(error) = keeper.round().await {
            tracing::warn!(code = error.code().id(), %error, "object store maintenance failed, retrying");
        }
        tokio::select! {
            () = &mut stopped => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

struct Keeper {
    index: Index,
    place: Option<TransferPlace>,
    collected: Option<Instant>,
    listed: Option<Instant>,
}

impl Keeper {
    async fn round(&mut self) -> Result<(), Error> {
        // It was logged already that the store is unavailable.
        if self.index.evidence_objects().is_none_or(super::EvidenceObjects::is_paused) {
            return Ok(());
        }
        let Some(lease) = NamedLease::take(&self.index, LEASE, LEASE_SECONDS).await? else { return Ok(()) };
        let done = self.work().await;
        lease.release().await?;
        done
    }

    async fn work(&mut self) -> Result<(), Error> {
        let (moved, place) = self.index.transfer_evidence(Direction::ToObjects, self.place.take(), MOVES).await?;
        self.place = place;
        if moved > 0 {
            tracing::info!(moved, "evidence moved into the object store");
        }
        if self.collected.is_none_or(|at| at.elapsed() >= COLLECT_EVERY) {
            self.collected = Some(Instant::now());
            let collected = self.index.collect_objects().await?;
            if collected.deleted > 0 {
                tracing::info!(deleted = collected.deleted, "objects without references deleted");
            }
        }
        // Not at the start: a process that restarts often would list the store all the time.
        let listed = *self.listed.get_or_insert_with(Instant::now);
        if listed.elapsed() >= LIST_EVERY {
            self.listed = Some(Instant::now());
            let collected = self.index.collect_orphans().await?;
            if collected.deleted > 0 {
                tracing::info!(deleted = collected.deleted, "objects of crashed writers deleted");
            }
        }
        Ok(())
    }
}
