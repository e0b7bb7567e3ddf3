//! Reconciliation of payments with an unknown outcome: after a crash, a lost response, a facilitator that gave up.
//!
//! Nothing is charged here. The chain is asked for the outcome of a payment. If the money moved, that is recorded, and the payer can redeem
//! the result. If it never can, the payment is forgotten. Until then it is neither served nor asked for again. A payment that another
//! server's transfer has used is kept for as long as results are, and then forgotten.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes;
use toolcrib_store::replay::{Entry, Receipt, ReplayStore};
use toolcrib_x402::SettleResponse;

use crate::note;
use crate::settle::{Due, Found, Record, Settle};
use crate::tools::{Served, Shared};

/// Time between two reconciliation runs.
pub const RECONCILE_EVERY: Duration = Duration::from_secs(10);

/// Most payments of one run, so that several processes share the work.
const AT_ONCE: usize = 50;

/// For how many seconds a payment is skipped after a check, so that nodes are not asked about the same payment all the time.
const LOOK_AGAIN_SECONDS: i64 = 30;

/// How many seconds after its expiry a payment is given up that no node can resolve: a week, in which the operator, who is told at every
/// run, can act. The payment cannot be used any more, and a store that kept it would fill up.
pub const GIVE_UP_SECONDS: i64 = 7 * 86_400;

/// The results of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Payments that settled.
    pub settled: usize,
    /// Payments that never will settle, or whose outcome cannot be found any more.
    pub released: usize,
    /// Payments that remain: the outcome is unknown yet, or another settlement has used them and their result is kept for a while.
    pub open: usize,
}

/// Runs once.
pub(crate) async fn once(shared: &Shared, tools: &[Arc<Served>]) -> Reconciled {
    let mut found = Reconciled::default();
    let now = shared.clock.now();
    let store = &**shared.used.store(now);
    if tools.iter().all(|tool| tool.gate.charge.is_none()) {
        return found;
    }
    let claimed = match store.claim_unknowns(now, now.plus(LOOK_AGAIN_SECONDS), AT_ONCE).await {
        Ok(claimed) => claimed,
        Err(error) => {
            if let Some(tool) = tools.first() {
                shared.tell(tool, codes::gate::REPLAY_UNAVAILABLE, &error.to_string());
            }
            return found;
        }
    };
    let kept = i64::try_from(store.limits().kept_seconds()).unwrap_or(i64::MAX);
    for (entry, ticket) in claimed {
        // A store that several servers share holds payments for tools that other servers serve. The chain is the same, but only those
        // servers know whose transfer it is.
        let charged = || tools.iter().filter(|tool| tool.gate.charge.is_some());
        let tool = charged().find(|tool| *tool.route == *entry.route).or_else(|| charged().next());
        let Some((tool, charge)) = tool.and_then(|tool| Some((tool, tool.gate.charge.as_ref()?))) else { continue };
        let read = note::read(&entry.note);
        let seen = match &read {
            Some((payment, offer)) => {
                let due = Due { payment, offer, resource: None, extensions: &[], request: None };
                let found = charge.settle.look_up(due, &record(&entry)).await;
                if *tool.route == *entry.route { found } else { as_elsewhere(found, entry.sent) }
            }
            None => Found::Unclear { detail: "what was written down about a settlement cannot be read".to_owned() },
        };
        let outcome = match (seen, &read) {
            (Found::Settled { transaction }, Some((payment, offer))) => {
                let response = SettleResponse::settled(payment, transaction).to_json(payment.version).into_bytes();
                found.settled += 1;
                tool.metrics.settled(offer);
                store.settle(&entry.key, &Receipt { transaction, response }, now).await
            }
            // The payer has paid. If no other server was paid after all, the operator can still resolve that.
            (Found::Elsewhere { .. }, _) if now.since(entry.expires_at) < kept => {
                found.open += 1;
                Ok(())
            }
            (Found::Never | Found::Spent | Found::Elsewhere { .. }, _) => {
                found.released += 1;
                store.release(&entry.key, ticket).await
            }
            (Found::Unclear { detail }, _) if now.since(entry.expires_at) >= GIVE_UP_SECONDS => {
                shared.tell(tool, codes::settlement::UNKNOWN, &format!("given up: {} ({detail})", entry.key));
                found.released += 1;
                store.release(&entry.key, ticket).await
            }
            (Found::Unclear { detail }, _) => {
                shared.tell(tool, codes::settlement::UNKNOWN, &detail);
                found.open += 1;
                Ok(())
            }
            (Found::Open | Found::Settled { .. }, _) => {
                found.open += 1;
                Ok(())
            }
        };
        if let Err(error) = outcome {
            shared.tell(tool, codes::gate::REPLAY_UNAVAILABLE, &error.to_string());
        }
    }
    found
}

/// Adjusts an outcome for a tool that is not served here. Servers settle in different ways: a transfer that is not this server's may belong
/// to the server that reserved the payment, and only its recorded transaction shows that from here.
fn as_elsewhere(found: Found, sent: Option<B256>) -> Found {
    match found {
        Found::Settled { transaction } | Found::Elsewhere { transaction } if sent == Some(transaction) => {
            Found::Settled { transaction }
        }
        Found::Settled { transaction } | Found::Elsewhere { transaction } => {
            Found::Unclear { detail: format!("the transfer is in {transaction}, for a tool that is not served here") }
        }
        found => found,
    }
}

/// Checks one payment for a caller that retries with it. A settlement is recorded.
pub(crate) async fn look(
    store: &dyn ReplayStore,
    settle: &dyn Settle,
    due: Due<'_>,
    entry: &Entry,
    now: UnixTime,
) -> Result<Found, toolcrib_store::Error> {
    let found = settle.look_up(due, &record(entry)).await;
    if let Found::Settled { transaction } = found {
        let response = SettleResponse::settled(due.payment, transaction).to_json(due.payment.version).into_bytes();
        store.settle(&entry.key, &Receipt { transaction, response }, now).await?;
    }
    Ok(found)
}

const fn record(entry: &Entry) -> Record {
    Record { reserved_at: entry.reserved_at, from_block: entry.from_block, transaction: entry.sent }
}
