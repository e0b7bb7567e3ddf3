//! Verifications that may be used again for a short while.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Mutex as AsyncMutex;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::tool::ToolManifest;
use toolcrib_judge::{Policy, Report};

use crate::gather::{Depth, Verifier};
use crate::{Error, ToolSource, Verified};

/// Most tools that are remembered. A manifest has a megabyte at the most, usually a few kilobytes.
pub const MAX_ENTRIES: usize = 1_024;

/// Remembers verified tools for as long as they are fresh.
///
/// What it gives out is a success of this process. A verification that fails, or that could not be made, removes what was
/// remembered before it: there is no falling back to yesterday. Callers that ask for the same tool at once share one
/// verification, whether it succeeds or not; those who come later ask again. Where nothing may be remembered (a window of 0)
/// each success is its caller's own.
#[derive(Debug)]
pub struct Cache {
    verifier: Verifier,
    policy: Policy,
    slots: Mutex<HashMap<ToolRef, Arc<Slot>>>,
}

/// One tool. The lock is held while it is verified, so that others wait for the outcome.
#[derive(Debug, Default)]
struct Slot {
    state: AsyncMutex<State>,
    /// Those who now ask for this tool, the one who verifies it included.
    callers: Mutex<Callers>,
}

#[derive(Debug, Default)]
struct State {
    known: Option<Arc<Verified<ToolManifest>>>,
    /// The last refusal and the number of its verification, for those who waited for it.
    refused: Option<(u64, Box<Report>)>,
}

#[derive(Debug, Default)]
struct Callers {
    waiting: usize,
    /// How many verifications have ended.
    ended: u64,
}

/// What [`Cache::get`] found.
#[derive(Debug)]
pub enum Cached {
    /// The tool may be used.
    Usable(Arc<Verified<ToolManifest>>),
    /// It may not, for these reasons.
    Refused(Box<Report>),
}

impl Cache {
    /// A cache under a policy, whose window is the longest that anything is remembered for.
    pub fn new(verifier: Verifier, policy: Policy) -> Self {
        Self { verifier, policy, slots: Mutex::default() }
    }

    /// The tool as it was verified a short while ago, or as it is verified now.
    pub async fn get(&self, source: &impl ToolSource) -> Result<Cached, Error> {
        let slot = self.slot(source.tool());
        let (_place, asked) = slot.enter();
        let mut state = slot.state.lock().await;
        if let Some(verified) = state.known.as_ref().filter(|verified| self.is_usable(verified)) {
            return Ok(Cached::Usable(Arc::clone(verified)));
        }
        // Refused while this caller waited: asking again at once would only make the next one wait.
        if let Some((_, report)) = state.refused.as_ref().filter(|(number, _)| *number > asked) {
            return Ok(Cached::Refused(report.clone()));
        }
        // Whatever comes next, the old one is gone.
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

    /// Forgets a tool, such as after an event that says it changed.
    pub fn forget(&self, tool: &ToolRef) {
        self.lock().remove(tool);
    }

    /// How many tools it has room taken for, fresh or not.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether it knows nothing.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// A window of nothing means now and not in the same second: paths that pay or sign verify each time.
    fn is_usable(&self, verified: &Verified<ToolManifest>) -> bool {
        verified.report().freshness.window > 0 && verified.is_fresh(self.verifier.clock.now())
    }

    fn slot(&self, tool: ToolRef) -> Arc<Slot> {
        let mut slots = self.lock();
        if slots.len() >= MAX_ENTRIES && !slots.contains_key(&tool) {
            let now = self.verifier.clock.now();
            // Slots in use stay: somebody waits for them.
            slots.retain(|_, slot| {
                slot.state.try_lock().map_or(true, |state| state.known.as_ref().is_some_and(|verified| verified.is_fresh(now)))
            });
            if slots.len() >= MAX_ENTRIES {
                // All fresh: forgetting one costs a verification, nothing else.
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
    /// Counts a caller in, until the place is dropped, and tells how many verifications had ended by then.
    fn enter(&self) -> (Place<'_>, u64) {
        let mut callers = self.callers();
        callers.waiting += 1;
        (Place(self), callers.ended)
    }

    /// Notes that a verification ended. Gives its number if anybody waits for the outcome.
    fn end(&self) -> Option<u64> {
        let mut callers = self.callers();
        callers.ended += 1;
        (callers.waiting > 1).then_some(callers.ended)
    }

    fn callers(&self) -> std::sync::MutexGuard<'_, Callers> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A caller, counted.
#[derive(Debug)]
struct Place<'s>(&'s Slot);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.callers().waiting -= 1;
    }
}
