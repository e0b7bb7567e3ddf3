//! The state file: written to a temporary file and renamed, so that it is always complete.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use toolcrib_files::AtomicFile;

use super::Stop;
use crate::node::Node;

/// How often a changed chain is written. A crash loses at most this much.
const PERIOD: Duration = Duration::from_secs(1);

/// Pause after a write, as a multiple of its duration, because writing a large chain takes long.
const REST: u32 = 10;

/// Writes the chain whenever it has changed, until stopped. The final write is made by the caller.
pub(crate) async fn keep_saved(node: Arc<Node>, path: PathBuf, mut stop: Stop) {
    let mut saved = None;
    let mut pause = PERIOD;
    loop {
        tokio::select! {
            () = stop.wait() => return,
            () = sleep(pause) => {}
        }
        let revision = node.with(|chain| chain.revision());
        if saved == Some(revision) {
            continue;
        }
        let began = Instant::now();
        let (node, path) = (node.clone(), path.clone());
        let written = tokio::task::spawn_blocking(move || write_atomically(&node, &path)).await;
        // A failed write is retried; the final write reports the error.
        if matches!(written, Ok(Ok(()))) {
            saved = Some(revision);
        }
        pause = PERIOD.max(began.elapsed() * REST);
    }
}

/// Writes the chain to a file atomically.
pub(crate) fn write_atomically(node: &Node, path: &Path) -> io::Result<()> {
    let saved = node.with(|chain| chain.save());
    AtomicFile::new(path).replace(&serde_json::to_vec(&saved)?)
}
