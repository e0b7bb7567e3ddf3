//! The accounts that a facilitator announces as the senders of its transactions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alloy_primitives::Address;
use tokio::time::Instant;
use toolcrib_core::caip::ChainId;
use toolcrib_x402::{MAX_SIGNERS, Supported};

/// Shortest time between two requests for the signers: a new key of the facilitator is found soon, and a facilitator that is down is not
/// asked for each payment.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// Signers that the facilitator has announced since this process started. Clones share them.
///
/// A signer that is no longer announced still counts, because its transfers were the facilitator's.
#[derive(Clone, Debug, Default)]
pub(super) struct Signers(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    announced: Supported,
    /// When the facilitator was last asked, and the error if it failed.
    asked: Option<(Instant, Result<(), String>)>,
}

impl Signers {
    /// Adds the signers of a response.
    pub(super) fn announced(&self, supported: &Supported) {
        let mut state = self.state();
        let known = &mut state.announced.signers;
        for signer in &supported.signers {
            if known.len() < MAX_SIGNERS && !known.contains(signer) {
                known.push(signer.clone());
            }
        }
        state.asked = Some((Instant::now(), Ok(())));
    }

    /// Records that the facilitator did not return its signers.
    pub(super) fn failed(&self, detail: &str) {
        self.state().asked = Some((Instant::now(), Err(detail.to_owned())));
    }

    /// Returns the result of the last request, if it was recent.
    pub(super) fn last_asked(&self) -> Option<Result<(), String>> {
        self.state().asked.as_ref().filter(|(at, _)| at.elapsed() < ASK_AGAIN).map(|(_, outcome)| outcome.clone())
    }

    /// Whether the account is a signer on this network.
    pub(super) fn contains(&self, network: &ChainId, account: Address) -> bool {
        self.state().announced.signers_on(network).any(|signer| signer == account)
    }

    /// Whether there is no signer on this network.
    pub(super) fn is_empty_on(&self, network: &ChainId) -> bool {
        self.state().announced.signers_on(network).next().is_none()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
