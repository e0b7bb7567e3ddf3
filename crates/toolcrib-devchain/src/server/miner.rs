//! Mining at intervals.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Stop;
use crate::chain::Mining;
use crate::node::Node;

/// The shortest interval, because an interval of zero would mine without pause.
const SHORTEST: Duration = Duration::from_millis(1);

/// Mines a block whenever one is due, while the mining mode is an interval.
pub(crate) async fn mine_at_intervals(node: Arc<Node>, mut stop: Stop) {
    let mut last = Instant::now();
    loop {
        let due = match node.with(|chain| chain.mining) {
            Mining::Interval(interval) => Some(last + interval.max(SHORTEST)),
            Mining::Auto | Mining::Manual => None,
        };
        tokio::select! {
            () = stop.wait() => return,
            () = node.mining_changed.notified() => last = Instant::now(),
            () = async { sleep_until(due.unwrap_or(last)).await }, if due.is_some() => {
                last = Instant::now();
                let node = node.clone();
                // If mining fails, it is tried again at the next interval.
                let _ = tokio::task::spawn_blocking(move || node.with(|chain| chain.mine())).await;
            }
        }
    }
}
