//! Settling a call, and recording the outcome.

use alloy_primitives::B256;
use axum::http::StatusCode;
use tokio::time::Instant;
use toolcrib_core::codes;
use toolcrib_store::replay::{Receipt, ResultRetention, Settlement, StoredResult};

use super::{Admitted, HeldReservation, SETTLEMENT_SECONDS, settled};
use crate::answer::{self, ErrorResponse, Stop};
use crate::endpoint::RETRY_SECONDS;
use crate::metrics::End;
use crate::note;
use crate::settle::{Due, Found, Journal as _, NONE_SENT, Outcome, REFUSED, Record};
use crate::tools::Charge;

impl Admitted<'_> {
    /// Records the intention, settles, and records the outcome, except for the receipt of a success.
    pub(super) async fn settle(
        &self,
        held: &HeldReservation<'_>,
        charge: &Charge,
        due: Due<'_>,
        from_block: Option<u64>,
        result: Option<&StoredResult>,
    ) -> Result<Receipt, Stop> {
        // Only payments that can be recorded are matched with an offer.
        let note = note::write(due).ok_or_else(|| ErrorResponse::new(StatusCode::PAYMENT_REQUIRED, codes::payment::NETWORK))?;
        let began = self.shared.clock.now();
        let running = if charge.first { self.tool.time.as_secs().try_into().unwrap_or(i64::MAX) } else { 0 };
        let lease_until = began.plus(SETTLEMENT_SECONDS.saturating_add(running));
        let settlement = Settlement { lease_until, note: &note, result, from_block };
        match held.store.begin_settlement(&held.proven.key, held.ticket, &settlement).await {
            // No payment is settled unless its result can be stored: the response may be lost.
            Ok(ResultRetention::NoRoom | ResultRetention::TooLarge) => return Err(self.no_room(held).await),
            Ok(ResultRetention::Yes | ResultRetention::Nothing) => {}
            Err(error) => return Err(self.store_fault(&error)),
        }
        let sent = Instant::now();
        let outcome = charge.settle.settle(due, from_block, held).await;
        self.tool.metrics.settlement.observe(sent.elapsed());
        let (transaction, detail) = match outcome {
            Outcome::Settled { transaction } => return Ok(self.settled(held, transaction)),
            Outcome::Refused { reason } => {
                self.release(held).await;
                return Err(self.unpaid(held.proven, &reason));
            }
            Outcome::RefusedForNow { reason } => {
                self.keep_refused(held).await;
                return Err(self.unpaid(held.proven, &reason));
            }
            Outcome::Replayed => return Err(self.replayed(held).await),
            Outcome::NotAttempted { detail } => {
                self.release(held).await;
                return Err(self.unavailable(&detail));
            }
            Outcome::Unknown { transaction, detail } => (transaction, detail),
        };
        // The response may be lost and the money moved: the chain is checked before the caller is told that the outcome is unknown.
        let record = Record { reserved_at: held.reserved_at, from_block, transaction };
        let found = charge.settle.look_up(due, &record).await;
        match found {
            Found::Settled { transaction } => return Ok(self.settled(held, transaction)),
            // In a final block, so this cannot change. The payer may have been charged, but not for this call.
            Found::Spent => return Err(self.replayed(held).await),
            Found::Elsewhere { .. } | Found::Never | Found::Open | Found::Unclear { .. } => {}
        }
        // The transaction that the facilitator named is looked up first, also by other processes.
        self.keep_unknown(held, transaction).await;
        if let Found::Elsewhere { transaction } = found {
            let detail = format!("{detail}; {transaction} has used the payment, and its result is kept");
            self.shared.tell(self.tool, codes::payment::REPLAYED, &detail);
            self.tool.metrics.ended(End::Refused);
            return Err(Self::paid_for_another(held.proven, transaction));
        }
        let named = transaction.filter(|transaction| *transaction != NONE_SENT);
        let named = named.map_or_else(String::new, |transaction| format!("; transaction {transaction}"));
        self.shared.tell(self.tool, codes::settlement::UNKNOWN, &format!("{detail}{named}"));
        self.tool.metrics.ended(End::Unknown);
        let refusal = ErrorResponse::new(StatusCode::BAD_GATEWAY, codes::settlement::UNKNOWN).retry_after(RETRY_SECONDS);
        Err(Stop::from(refusal).with_headers(|headers| answer::retry_token(headers, held.token)))
    }

    /// Keeps payment and result until the chain shows the outcome.
    async fn keep_unknown(&self, held: &HeldReservation<'_>, transaction: Option<B256>) {
        if let Some(transaction) = transaction
            && let Err(detail) = held.record_sent(transaction).await
        {
            self.shared.tell(self.tool, codes::gate::REPLAY_UNAVAILABLE, &detail);
        }
        if let Err(error) = held.store.mark_unknown(&held.proven.key, held.ticket, self.shared.clock.now()).await {
            self.shared.tell(self.tool, codes::gate::REPLAY_UNAVAILABLE, &error.to_string());
        }
    }

    /// Keeps a refused payment, in case it settles after all, while half of the room for results is free. Refused payments cost nothing, so
    /// an attacker could otherwise fill the store with them.
    async fn keep_refused(&self, held: &HeldReservation<'_>) {
        let half = i64::try_from(held.store.limits().result_bytes / 2).unwrap_or(i64::MAX);
        match held.store.make_room(0).await {
            Ok(room) if room.result_bytes >= half => self.keep_unknown(held, Some(REFUSED)).await,
            _ => self.release(held).await,
        }
    }

    fn settled(&self, held: &HeldReservation<'_>, transaction: B256) -> Receipt {
        if let Some(offer) = self.offer(held.proven) {
            self.tool.metrics.settled(offer);
        }
        let response = settled(held.proven, transaction).to_json(held.proven.caller.version).into_bytes();
        Receipt { transaction, response }
    }

    /// Reports a receipt that could not be stored. Reconciliation finds the payment; the caller has paid.
    pub(super) fn receipt_written(&self, written: Result<(), toolcrib_store::Error>) {
        if let Err(error) = written {
            self.shared.tell(self.tool, codes::gate::REPLAY_UNAVAILABLE, &error.to_string());
        }
    }
}
