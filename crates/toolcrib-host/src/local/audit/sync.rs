//! When lines are synced to disk.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::AuditError;
use crate::local::StateFileError;

/// The longest delay before lines of calls are synced. Lines of many calls share one sync, and a power failure loses at most this much.
pub const BACKGROUND_SYNC: Duration = Duration::from_millis(100);

/// When lines of calls are synced to disk. Lines about permissions, secrets and refusals are synced before anything else happens, unless
/// the policy is [`Never`](Self::Never).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Within [`BACKGROUND_SYNC`]. A process that ends or crashes loses nothing; a power failure may lose the calls of that time.
    #[default]
    Background,
    /// Before the result of the call is returned. The sync runs in parallel with the call.
    BeforeResult,
    /// When the operating system writes them. For tests.
    Never,
}

/// Lines that were written and may not be on disk yet.
#[derive(Clone, Debug)]
#[must_use = "these lines may be lost in a power cut"]
pub struct PendingSync {
    file: Arc<File>,
    path: PathBuf,
}

impl PendingSync {
    pub(super) const fn new(file: Arc<File>, path: PathBuf) -> Self {
        Self { file, path }
    }

    /// Syncs the lines to disk. Blocks.
    pub fn sync(&self) -> Result<(), AuditError> {
        Ok(self.file.sync_data().map_err(StateFileError::io("write", &self.path))?)
    }
}

/// Syncs lines of calls later, on a thread that lives only while there are some.
#[derive(Debug, Default)]
pub(super) struct Background {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The newest lines; syncing them syncs all before them. A rotated file is synced at the rotation.
    pending: Option<PendingSync>,
    is_running: bool,
    /// Why a sync failed. The system may have dropped the lines, so a later success proves nothing.
    failed: Option<String>,
}

impl Background {
    /// Fails if earlier lines could not be synced: then no further call is made in this process.
    pub(super) fn check(&self) -> Result<(), AuditError> {
        match &lock(&self.state).failed {
            None => Ok(()),
            Some(why) => Err(AuditError::NotSynced { why: why.clone() }),
        }
    }

    /// Records a failed sync.
    #[cfg(test)]
    pub(super) fn fail(&self, why: &str) {
        lock(&self.state).failed = Some(why.to_owned());
    }

    /// Syncs the lines within [`BACKGROUND_SYNC`].
    pub(super) fn schedule(&self, pending: PendingSync) -> Result<(), AuditError> {
        let mut state = lock(&self.state);
        if state.is_running {
            state.pending = Some(pending);
            return Ok(());
        }
        let shared = Arc::clone(&self.state);
        let thread = thread::Builder::new().name("audit-sync".to_owned());
        if thread.spawn(move || run(&shared)).is_err() {
            // If the system refuses a thread, this thread syncs.
            drop(state);
            return pending.sync();
        }
        state.pending = Some(pending);
        state.is_running = true;
        Ok(())
    }
}

fn run(state: &Mutex<State>) {
    loop {
        thread::sleep(BACKGROUND_SYNC);
        let pending = {
            let mut state = lock(state);
            state.is_running = state.pending.is_some();
            state.pending.take()
        };
        let Some(pending) = pending else { return };
        if let Err(error) = pending.sync() {
            tracing::error!(%error, "audit lines not on the disk, further calls are refused");
            lock(state).failed = Some(error.to_string());
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that accepts writes and cannot be synced: a pipe.
    fn unsyncable() -> PendingSync {
        let (_reader, writer) = std::io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        PendingSync::new(Arc::new(file), PathBuf::from("audit.jsonl"))
    }

    fn wait_until(done: impl Fn() -> bool) {
        for _ in 0..100 {
            if done() {
                return;
            }
            thread::sleep(BACKGROUND_SYNC / 4);
        }
        panic!("nothing happened");
    }

    #[test]
    fn the_thread_ends_when_nothing_is_pending_and_starts_again() {
        let background = Background::default();
        let file = Arc::new(tempfile::tempfile().unwrap());
        for _ in 0..2 {
            background.schedule(PendingSync::new(Arc::clone(&file), PathBuf::from("audit.jsonl"))).unwrap();
            assert!(lock(&background.state).is_running);
            wait_until(|| !lock(&background.state).is_running);
            assert!(lock(&background.state).pending.is_none());
            background.check().unwrap();
        }
    }

    #[test]
    fn a_failed_sync_is_told_to_every_later_call() {
        let background = Background::default();
        background.schedule(unsyncable()).unwrap();
        background.check().unwrap();
        wait_until(|| background.check().is_err());
        // A later success does not restore lost lines.
        let file = Arc::new(tempfile::tempfile().unwrap());
        background.schedule(PendingSync::new(file, PathBuf::from("audit.jsonl"))).unwrap();
        wait_until(|| !lock(&background.state).is_running);
        let error = background.check().unwrap_err();
        assert_eq!(error.code(), toolcrib_core::codes::audit::STORAGE);
        assert!(error.to_string().contains("audit.jsonl"), "{error}");
    }
}
