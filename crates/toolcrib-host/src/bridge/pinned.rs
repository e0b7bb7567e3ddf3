//! Pinned onchain tools of the bridge: their listing, and the background check for changes.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use toolcrib_client::Client;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::Clock;
use toolcrib_core::codes::host as code;
use toolcrib_mcp::ToolError;

use crate::onchain::{Observation, Pin, PinError, PinStore, Pins, Quarantine, observe};

/// Default interval between verifications of pinned tools.
pub const RECHECK_INTERVAL: Duration = Duration::from_secs(300);

/// How often the pins file is compared with the list: a tool that the user adds or accepts appears at once.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// Time limit of one verification. Servers and nodes have shorter limits.
const CHECK_LIMIT: Duration = Duration::from_secs(60);

/// Parallel verifications.
const AT_ONCE: usize = 4;

/// Pinned onchain tools behind an MCP server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PinnedTools {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: PinStore,
    pins: RwLock<Arc<Pins>>,
    changes: watch::Sender<u64>,
}

impl PinnedTools {
    /// Reads the pins. Nothing is verified yet.
    pub fn open(store: PinStore) -> Result<Self, PinError> {
        let pins = RwLock::new(Arc::new(store.read()?));
        Ok(Self { inner: Arc::new(Inner { store, pins, changes: watch::Sender::new(0) }) })
    }

    /// The current pins.
    pub fn pins(&self) -> Arc<Pins> {
        self.inner.pins()
    }

    /// A counter that grows when a pin is added, removed, accepted, quarantined or released.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    /// Verifies all pins once and records what changed.
    pub async fn check(&self, client: &Client, clock: &Arc<dyn Clock + Send + Sync>) {
        self.inner.check_all(client, clock).await;
    }

    /// Verifies all pins now and then every `interval`, and follows the pins file, until the task is aborted or the tools are dropped.
    pub(super) fn watch(&self, client: Client, clock: Arc<dyn Clock + Send + Sync>, interval: Duration) -> JoinHandle<()> {
        let weak = Arc::downgrade(&self.inner);
        tokio::spawn(async move {
            let mut due = Instant::now();
            loop {
                let Some(inner) = weak.upgrade() else { return };
                inner.reload().await;
                if Instant::now() >= due {
                    inner.check_all(&client, &clock).await;
                    due = Instant::now() + interval;
                }
                drop(inner);
                tokio::time::sleep(RELOAD_INTERVAL.min(interval)).await;
            }
        })
    }

    /// Verifies one pin again after a call found a difference, and records the change. Returns the quarantine, if there is one now.
    pub(super) async fn recheck(&self, client: &Client, clock: &Arc<dyn Clock + Send + Sync>, pin: &Pin) -> Option<Quarantine> {
        let observation = check(client, clock, pin).await;
        self.inner.apply(pin, observation).await;
        self.pins().get(pin.tool()).and_then(|pin| pin.quarantine().cloned())
    }
}

impl Inner {
    fn pins(&self) -> Arc<Pins> {
        Arc::clone(&self.pins.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the file again. If it cannot be read, the list stays as it was.
    async fn reload(&self) {
        let store = self.store.clone();
        let read = match tokio::task::spawn_blocking(move || store.read()).await {
            Ok(Ok(pins)) => pins,
            Ok(Err(error)) => {
                tracing::warn!(%error, code = error.code().id(), "pinned tools not read");
                return;
            }
            Err(_) => return,
        };
        if read.is_same(&self.pins()) {
            return;
        }
        *self.pins.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(read);
        self.changes.send_modify(|number| *number += 1);
    }

    async fn check_all(&self, client: &Client, clock: &Arc<dyn Clock + Send + Sync>) {
        let pins: Vec<Pin> = self.pins().iter().filter(|pin| client.knows_chain(pin.tool().chain)).cloned().collect();
        for some in pins.chunks(AT_ONCE) {
            let mut checks = JoinSet::new();
            for pin in some {
                let (client, clock, pin) = (client.clone(), Arc::clone(clock), pin.clone());
                checks.spawn(async move {
                    let observation = check(&client, &clock, &pin).await;
                    (pin, observation)
                });
            }
            while let Some(done) = checks.join_next().await {
                // If a check panicked, nothing is known about its tool.
                let Ok((pin, observation)) = done else { continue };
                self.apply(&pin, observation).await;
            }
        }
    }

    /// Records the result of a verification, if it is new.
    async fn apply(&self, pin: &Pin, observation: Observation) {
        let quarantine = match observation {
            Observation::Unknown => return,
            Observation::Same if pin.quarantine().is_none() => return,
            Observation::Same => {
                tracing::info!(tool = %pin.tool(), name = pin.exposed(), "pinned tool verifies again, quarantine ended");
                None
            }
            Observation::Changed(found) => {
                if !pin.quarantine().is_some_and(|known| known.is_same(&found)) {
                    tracing::warn!(tool = %pin.tool(), name = pin.exposed(), reason = found.text(), "pinned tool quarantined");
                }
                Some(*found)
            }
        };
        let (store, tool, hash) = (self.store.clone(), pin.tool(), pin.hash());
        let written = tokio::task::spawn_blocking(move || store.quarantine(tool, hash, quarantine)).await;
        if let Ok(Err(error)) = written {
            tracing::error!(%error, %tool, "quarantine not recorded");
        }
        self.reload().await;
    }
}

async fn check(client: &Client, clock: &Arc<dyn Clock + Send + Sync>, pin: &Pin) -> Observation {
    match tokio::time::timeout(CHECK_LIMIT, client.verify_live(pin.tool())).await {
        Ok(Ok(live)) => observe(pin, &live, clock.now()),
        Ok(Err(error)) => {
            tracing::debug!(tool = %pin.tool(), %error, "pinned tool not checked");
            Observation::Unknown
        }
        Err(_) => Observation::Unknown,
    }
}

/// The error for a quarantined tool: hashes, codes and names of parts, and no text of the manifest.
pub(super) fn quarantined(pin: &Pin, quarantine: &Quarantine) -> ToolError {
    let fields: Vec<_> = quarantine.changes.iter().flat_map(|changes| changes.fields()).map(|field| field.as_str()).collect();
    ToolError::new(code::PIN_QUARANTINED).details(json!({
        "reference": pin.tool().to_string(),
        "pinned": pin.hash(),
        "committed": quarantine.committed,
        "changed": fields,
        "findings": quarantine.codes,
    }))
}

/// Merges two counters into one that grows with both.
pub(super) fn merged(mut one: watch::Receiver<u64>, mut other: watch::Receiver<u64>) -> watch::Receiver<u64> {
    let sum = |one: &watch::Receiver<u64>, other: &watch::Receiver<u64>| one.borrow().wrapping_add(*other.borrow());
    let (sender, receiver) = watch::channel(sum(&one, &other));
    tokio::spawn(async move {
        loop {
            let is_open = tokio::select! {
                changed = one.changed() => changed.is_ok(),
                changed = other.changed() => changed.is_ok(),
                () = sender.closed() => false,
            };
            if !is_open || sender.send(sum(&one, &other)).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The pin of a tool, if there is one.
pub(super) fn pin_of(pinned: Option<&PinnedTools>, tool: ToolRef) -> Option<Pin> {
    pinned?.pins().get(tool).cloned()
}
