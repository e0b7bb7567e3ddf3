//! The skew between the system clock and the chains' clocks.
//!
//! Payments are accepted and expire by the system clock, and settle by the chain's. A wrong clock refuses valid payments, or accepts
//! payments that cannot settle any more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use toolcrib_chain::rpc::Chain;
use toolcrib_chain::settlement::{Block, newest_block};
use toolcrib_core::clock::Clock as _;
use toolcrib_core::codes::settlement as code;
use toolcrib_core::finding::Finding;

use crate::SystemClock;

/// Clock skew in seconds above which operators are warned. The newest block of a live chain is at most about 15 s old.
pub const MAX_SKEW_SECONDS: i64 = 30;

/// The last clock skew of each chain. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Skews(Arc<Mutex<BTreeMap<u64, i64>>>);

impl Skews {
    /// Compares the system clock with a block that was the newest a moment ago.
    pub(super) fn seen(&self, chain: &Chain, block: Block) -> i64 {
        let time = i64::try_from(block.time).unwrap_or(i64::MAX);
        let ahead = SystemClock.now().seconds().saturating_sub(time);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(chain.chain_id(), ahead);
        ahead
    }

    /// Returns chains, and the seconds that the system clock is ahead of their newest block.
    pub(super) fn all(&self) -> Vec<(u64, i64)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|(chain, ahead)| (*chain, *ahead)).collect()
    }

    /// Asks a chain for its time. Local development chains are skipped: they make blocks only for transactions, so their time says nothing.
    pub(super) async fn check(&self, chain: &Chain) -> Option<Finding> {
        let ahead = self.seen(chain, newest_block(chain).await.ok()?);
        if chain.network().is_local || ahead.abs() <= MAX_SKEW_SECONDS {
            return None;
        }
        let side = if ahead > 0 { "ahead of" } else { "behind" };
        let got = format!("{} s {side} the newest block of {}", ahead.unsigned_abs(), chain.network().title);
        let message = format!("{}: {got}", code::CLOCK_SKEW.title());
        Some(Finding::new(code::CLOCK_SKEW).expected(format!("at most {MAX_SKEW_SECONDS} s")).got(got).message(message))
    }
}
