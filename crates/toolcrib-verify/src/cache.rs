//! A short-lived cache of successful verifications.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Mutex as AsyncMutex;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::tool::ToolManifest;
use toolcrib_judge::{Policy, Report};

use crate::gather::{Depth, Verifier};
use crate::{Error, ToolSource, Verified};

/// Maximum number of cached tools. A manifest has at most a megabyte, usually a few kilobytes.
pub const MAX_ENTRIES: usize = 1_024;

/// Caches verified tools for as long as they are fresh.
///
/// It returns only successes of this process. A verification that fails, or cannot be made, removes the cached success of
/// the same tool: there is no fallback to stale results. Concurrent callers for the same tool share one
/// verification, whether it succeeds or not; later callers start a new one. If the policy allows no caching (a window of 0),
/// each caller gets its own verification.
/// each success is its caller's own.
#[derive(Debug)]
pub struct Cache {
    verifier: Verifier,
    policy: Policy,
    slots: Mutex<HashMap<ToolRef, Arc<Slot>>>,
}

/// One tool. The lock is held during its verification, so that others wait for the result.
#[derive(Debug, Default)]
struct Slot {
    state: AsyncMutex<State>,
    /// The callers currently asking for this tool, including the one that verifies it.
    callers: Mutex<Callers>,
}

#[derive(Debug, Default)]
struct State {
    known: Option<Arc<Verified<ToolManifest>>>,
    /// The last failed report and the number of its verification, for callers that waited for it.
    refused: Option<(u64, Box<Report>)>,
}

#[derive(Debug, Default)]
struct Callers {
    waiting: usize,
    /// Number of finished verifications.
    ended: u64,
}

/// The result of [`Cache::get`].
#[derive(Debug)]
pub enum Cached {
    /// The tool may be used.
    Usable(Arc<Verified<ToolManifest>>),
    /// The tool must not be used, for the reasons in the report.
    Refused(Box<Report>),
}

impl Cache {
    /// A cache with a policy, whose window is the maximum time that a success is cached.
    pub fn new(verifier: Verifier, policy: Policy) -> Self {
        Self { verifier, policy, slots: Mutex::default() }
    }

    /// Returns the cached verification of the tool, or verifies it now.
    pub async fn get(&self, source: &impl ToolSource) -> Result<Cached, Error> {
        let slot = self.slot(source.tool());
        let (_place, asked) = slot.enter();
        let mut state = slot.state.lock().await;
        if let Some(verified) = state.known.as_ref().filter(|verified| self.is_usable(verified)) {
            return Ok(Cached::Usable(Arc::clone(verified)));
        }
        // The verification failed while this caller waited: verifying again at once would only delay the next caller.
        if let Some((_, report)) = state.refused.as_ref().filter(|(number, _)| *number > asked) {
            return Ok(Cached::Refused(report.clone()));
        }
        // Whatever the result, the old success is gone.
        *state = State::default();
        let live = self.verifier.live(source, &self.policy, Depth::Checks).await?;
        Ok(match live.verified {
            Some(verified) => {
                let verified = Arc::new(verified);
                state.known = Some(Arc::clone(&verified));
                Cached::Usable(verified)
            }
            None => {
                let report = Box::new(live.report);
                state.refused = slot.end().map(|number| (number, report.clone()));
                Cached::Refused(report)
            }
        })
    }

    /// Removes a tool, such as after an event that reports a change.
    pub fn forget(&self, tool: &ToolRef) {
        self.lock().remove(tool);
    }

    /// Number of cached tools, fresh or not.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// With a window of 0, no success is reused, not even in the same second: callers that pay or sign verify each time.
    fn is_usable(&self, verified: &Verified<ToolManifest>) -> bool {
        verified.report().freshness.window > 0 && verified.is_fresh(self.verifier.clock.now())
    }

    fn slot(&self, tool: ToolRef) -> Arc<Slot> {
        let mut slots = self.lock();
        if slots.len() >= MAX_ENTRIES && !slots.contains_key(&tool) {
            let now = self.verifier.clock.now();
            // Keep slots that are in use: callers wait for them.
            slots.retain(|_, slot| {
                slot.state.try_lock().map_or(true, |state| state.known.as_ref().is_some_and(|verified| verified.is_fresh(now)))
            });
            if slots.len() >= MAX_ENTRIES {
                // All are fresh: removing one only costs another verification.
                if let Some(any) = slots.keys().next().copied() {
                    slots.remove(&any);
                }
            }
        }
        Arc::clone(slots.entry(tool).or_default())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ToolRef, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Counts a caller until the returned guard is dropped. Also returns the number of verifications finished so far.
    fn enter(&self) -> (Waiter<'_>, u64) {
        let mut callers = self.callers();
        callers.waiting += 1;
        (Waiter(self), callers.ended)
    }

    /// Counts a finished verification. Returns its number if other callers wait for the result.
    fn end(&self) -> Option<u64> {
        let mut callers = self.callers();
        callers.ended += 1;
        (callers.waiting > 1).then_some(callers.ended)
    }

    fn callers(&self) -> std::sync::MutexGuard<'_, Callers> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A guard that counts one caller.
#[derive(Debug)]
struct Waiter<'s>(&'s Slot);

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.callers().waiting -= 1;
    }
}
