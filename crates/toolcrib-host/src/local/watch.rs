//! Detects changes of tool folders.

use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::host::Host;
use super::set::{FolderStates, settle};
use super::snapshot;

/// How often folders are compared with the loaded set. Half a second is not noticeable after saving a file.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// How long folders must be unchanged before a change is loaded. Editors and installers write the files of one change faster.
const SETTLE_PAUSE: Duration = Duration::from_millis(100);

/// How often used snapshots are marked, so that no other host removes them.
const MARK_INTERVAL: Duration = Duration::from_secs(60 * 60);

impl Host {
    /// Reloads whenever a folder changes, until the task is aborted or the host is dropped. Credentials and rules that another process
    /// sets count as a change, since a tool that is disabled or lacks a credential is hidden from models.
    pub fn watch(self: &Arc<Self>) -> JoinHandle<()> {
        let weak = Arc::downgrade(self);
        let mut times = self.state_times();
        let mut marked = Instant::now();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(WATCH_INTERVAL).await;
                let Some(host) = weak.upgrade() else { return };
                if marked.elapsed() > MARK_INTERVAL {
                    marked = Instant::now();
                    host.tools().tools().values().for_each(|tool| snapshot::mark_used(tool.folder()));
                }
                // A panic in a reload does not end watching.
                let _ = tokio::task::spawn_blocking({
                    let host = Arc::clone(&host);
                    move || {
                        host.settle();
                        host.reload();
                        host.sync_audit();
                    }
                })
                .await;
                let now = host.state_times();
                if now != times {
                    times = now;
                    host.touch();
                }
            }
        })
    }

    /// Waits while the folders change, so that a partial write is not loaded as a version.
    fn settle(&self) {
        let roots = &self.settings.roots;
        let now = FolderStates::of(roots);
        if !self.tools().is_of(&now) {
            settle(now, || FolderStates::of(roots), || thread::sleep(SETTLE_PAUSE));
        }
    }

    /// Modification times of the files with credentials and rules.
    fn state_times(&self) -> [Option<SystemTime>; 2] {
        let files = [self.settings.secrets.file().path(), self.settings.permissions.path()];
        files.map(|file| fs::metadata(file).and_then(|data| data.modified()).ok())
    }
}
