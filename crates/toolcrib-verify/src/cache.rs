//! Verifications that may be used again for a short while.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Mutex as AsyncMutex;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::judge::{Policy, Report};
use toolcrib_core::tool::ToolManifest;

use crate::gather::{Depth, Verifier};
use crate::{Error, ToolSource, Verified};

/// Most tools that are remembered. A manifest has a megabyte at the most, usually a few kilobytes.
pub const MAX_ENTRIES: usize = 1_024;

/// Remembers verified tools for as long as they are fresh.
///
/// What it gives out is a success of this process. A verification that fails, or that could not be made, removes what was
/// remembered before it: there is no falling back to yesterday. Callers that ask for the same tool at once share one
/// verification.
#[derive(Debug)]
pub struct Cache {
    verifier: Verifier,
    policy: Policy,
    slots: Mutex<HashMap<ToolRef, Arc<Slot>>>,
}

/// One tool. The lock is held while it is verified, so that others wait for the outcome.
#[derive(Debug, Default)]
struct Slot(AsyncMutex<Option<Arc<Verified<ToolManifest>>>>);

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
        let mut known = slot.0.lock().await;
        if let Some(verified) = known.as_ref().filter(|verified| self.is_usable(verified)) {
            return Ok(Cached::Usable(Arc::clone(verified)));
        }
        // Whatever comes next, the old one is gone.
        *known = None;
        let live = self.verifier.live(source, &self.policy, Depth::Checks).await?;
        Ok(match live.verified {
            Some(verified) => {
                let verified = Arc::new(verified);
                *known = Some(Arc::clone(&verified));
                Cached::Usable(verified)
            }
            None => Cached::Refused(Box::new(live.report)),
        })
    }

    /// Forgets a tool, such as after an event that says it changed.
    pub fn forget(&self, tool: &ToolRef) {
        self.lock().remove(tool);
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
                slot.0.try_lock().map_or(true, |known| known.as_ref().is_some_and(|verified| verified.is_fresh(now)))
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
