//! Transactions under way, kept in memory: after a restart the chain is checked instead.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use alloy_primitives::{Address, B256};
use tokio::time::Instant;
use toolcrib_chain::rpc::Chain;
use toolcrib_chain::transaction::Signed;
use toolcrib_x402::Payment;

/// Most transactions with an unknown outcome. Only a stalled chain accumulates this many, and then no more are sent.
const MAX_UNDER_WAY: usize = 4_096;

/// After this time the payment of a transaction has expired on every gate, and the transaction can no longer succeed.
const UNDER_WAY_TIME: Duration = Duration::from_secs(3_600);

/// Transactions that were sent and whose outcome is unknown, by the authorization that they use.
///
/// If such a payment is settled again, the key sends the same transaction again instead of paying for a second one.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Mutex<HashMap<Spent, (Signed, Instant)>>);

/// Chain, payer and nonce. The table has one token on each chain.
type Spent = (u64, Address, B256);

impl UnderWay {
    /// Records a transaction. Returns `false` if there is no room.
    pub(super) fn note(&self, chain: &Chain, payment: &Payment, signed: &Signed) -> bool {
        let mut all = self.all();
        if all.len() >= MAX_UNDER_WAY {
            all.retain(|_, (_, since)| since.elapsed() < UNDER_WAY_TIME);
        }
        let has_room = all.len() < MAX_UNDER_WAY;
        if has_room {
            all.insert(spent(chain, payment), (signed.clone(), Instant::now()));
        }
        has_room
    }

    pub(super) fn find(&self, chain: &Chain, payment: &Payment) -> Option<Signed> {
        self.all().get(&spent(chain, payment)).map(|(signed, _)| signed.clone())
    }

    pub(super) fn forget(&self, chain: &Chain, payment: &Payment) {
        self.all().remove(&spent(chain, payment));
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Spent, (Signed, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const fn spent(chain: &Chain, payment: &Payment) -> Spent {
    (chain.chain_id(), payment.authorization.from, payment.authorization.nonce)
}
