//! Calls with a payment that was used before (replays).

use std::time::Duration;

use alloy_primitives::B256;
use axum::http::StatusCode;
use axum::response::Response;
use tokio::time::{Instant, sleep};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes;
use toolcrib_store::replay::{Again, Redeem, ReplayStore, State};

use super::{Admitted, HeldReservation, settled};
use crate::answer::{self, ErrorResponse, Stop};
use crate::endpoint::RETRY_SECONDS;
use crate::gate::terms::Proven;
use crate::layer::Work;
use crate::reconcile;
use crate::settle::{Found, REFUSED};
use crate::tool::{Context, Paid};

/// How long a replayed payment waits for the response to the first call. Stock clients time out after a minute or more.
const WAIT_TIME: Duration = Duration::from_secs(5);

impl Admitted<'_> {
    /// Answers a replayed payment: the result for a caller who proves to be the payer, the receipt for any other.
    pub(super) async fn again(
        &self,
        store: &dyn ReplayStore,
        proven: &Proven,
        work: Work,
        mut context: Context,
    ) -> Result<Response, Stop> {
        let now = self.shared.clock.now();
        let again = Again {
            route: &self.tool.route,
            body_hash: self.body_hash,
            proof: proven.possession,
            lease_until: self.lease(proven, now),
        };
        let mut redeemed = self.redeem(store, proven, &again, now).await?;
        let mut standing = None;
        // A caller without proof of payment gets the outcome on the chain too, but triggers a look-up only for payments that no task
        // handles.
        let is_looked_at = match redeemed {
            Redeem::Pending(State::Unknown) => true,
            Redeem::Pending(State::Settling) => proven.possession.is_some(),
            _ => false,
        };
        if let Some(charge) = self.tool.gate.charge.as_ref().filter(|_| is_looked_at)
            && let Ok(Some(entry)) = store.entry(&proven.key).await
            && let Ok(due) = self.due(proven)
        {
            let found = reconcile::look(store, &*charge.settle, due, &entry, now).await;
            if let Ok(Found::Settled { .. }) = found {
                self.tool.metrics.settled(due.offer);
                redeemed = store.redeem(&proven.key, &again, now).await.map_err(|error| self.store_fault(&error))?;
            }
            standing = found.ok().map(|found| (found, entry.sent));
        }
        let conflict = |code| ErrorResponse::new(StatusCode::CONFLICT, code);
        match redeemed {
            Redeem::Result(result, receipt) => Ok(self.reply(proven, result.body, receipt.transaction, None)),
            Redeem::Rerun(ticket, receipt) => {
                context.paid = self.offer(proven).map(|offer| Paid::of(offer, Some(receipt.transaction)));
                // When this result's time started is not known here, and the caller was told at the first response.
                let held = HeldReservation { store, proven, ticket, reserved_at: now, token: None, redeemable: None };
                self.rerun(&held, &receipt, work, context).await
            }
            Redeem::ReceiptOnly(Some(receipt)) => Err(Self::paid_for_another(proven, receipt.transaction)),
            Redeem::ReceiptOnly(None) => Err(conflict(codes::payment::REPLAYED).into()),
            Redeem::Pending(State::Unknown) => Err(match standing {
                Some((Found::Elsewhere { transaction }, _)) => Self::paid_for_another(proven, transaction),
                Some((Found::Spent, _)) => conflict(codes::payment::REPLAYED).into(),
                // It was refused, and the chain shows nothing else.
                Some((Found::Open | Found::Never, Some(REFUSED))) => self.unpaid(proven, "settlement_refused"),
                _ => ErrorResponse::new(StatusCode::BAD_GATEWAY, codes::settlement::UNKNOWN).retry_after(RETRY_SECONDS).into(),
            }),
            // A call that costs nothing has no result to wait for.
            Redeem::Pending(_) if self.tool.gate.charge.is_none() => Err(conflict(codes::payment::REPLAYED).into()),
            Redeem::Pending(_) => Err(conflict(codes::payment::PENDING).retry_after(RETRY_SECONDS).into()),
            Redeem::NotUsed if proven.is_over => Err(self.challenge(codes::payment::EXPIRED)),
            // Released at this moment.
            Redeem::NotUsed => Err(conflict(codes::payment::PENDING).retry_after(1).into()),
        }
    }

    /// The response to a payment that another transaction used: 409 with the receipt of that transaction, for every caller.
    pub(super) fn paid_for_another(proven: &Proven, transaction: B256) -> Stop {
        let refusal = ErrorResponse::new(StatusCode::CONFLICT, codes::payment::REPLAYED);
        Stop::from(refusal.with("transaction", transaction.to_string().into())).with_headers(|headers| {
            answer::receipt(headers, proven.caller.version, &settled(proven, transaction));
        })
    }

    /// Redeems a payment. A caller who proves to be the payer waits a while for the first call, if that is still running.
    async fn redeem(&self, store: &dyn ReplayStore, proven: &Proven, again: &Again<'_>, now: UnixTime) -> Result<Redeem, Stop> {
        let (began, mut pause) = (Instant::now(), Duration::from_millis(50));
        loop {
            let redeemed = store.redeem(&proven.key, again, now).await.map_err(|error| self.store_fault(&error))?;
            let is_under_way = matches!(redeemed, Redeem::Pending(State::Reserved | State::Settling));
            if !is_under_way || proven.possession.is_none() || began.elapsed() >= WAIT_TIME {
                return Ok(redeemed);
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }
}
