//! The second half of a call: reservation, predicate, handler, settlement, response.
//!
//! ```text
//! open        handler → reply
//! gated       reserve → predicate → handler → reply
//! paid        reserve → predicate → would it settle? → handler → settle → reply
//! settle_first reserve → predicate → would it settle? → settle → handler → reply
//! ```
//!
//! Until money can move, every refusal releases the reservation. The output of a paid call is stored **together with** the intention to
//! settle, before anything is sent: a payer whose response was lost retries with the same payment and gets the result, and no other caller
//! does.

use alloy_primitives::{Address, B256, Bytes};
use async_trait::async_trait;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use tokio::sync::oneshot;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes;
use toolcrib_store::replay::{Proof, Receipt, ReplayKey, ReplayStore, Reservation, Reserve, StoredResult, Ticket};
use toolcrib_x402::payment_id;
use toolcrib_x402::usage::UsageProof;
use toolcrib_x402::{FacilitatorRequest, Offer, PAID_CACHE_CONTROL, SettleResponse};

use crate::answer::{self, ErrorResponse, Stop};
use crate::endpoint::RETRY_SECONDS;
use crate::gate::terms::Proven;
use crate::layer::Work;
use crate::metrics::End;
use crate::room::Sold;
use crate::settle::{Due, Journal, Verdict};
use crate::tool::{Context, Paid};
use crate::tools::{Charge, Served, Shared};
use crate::watch::CallSpan;

mod again;
mod running;
mod settling;
mod signed_in;

use running::HandlerOutput;

/// For how many seconds a settlement counts as under way. Facilitators get 60 for a response, one more request, and 20 for transactions
/// that were not accepted; checking the chain takes a few. Afterwards another process may find out the outcome.
pub const SETTLEMENT_SECONDS: i64 = 180;

/// For how many seconds a call counts as under way besides its handler's time: predicate, facilitator, store.
const AROUND_SECONDS: i64 = 30;

/// Content type of outputs.
const JSON: &str = "application/json";

/// A call whose caller is identified, if the gate requires that.
pub(crate) struct Admitted<'c> {
    pub(crate) shared: &'c Shared,
    pub(crate) tool: &'c Served,
    /// For the predicate.
    pub(crate) data: Bytes,
    /// Identifies the request: a payer that redeems the result has to send the same one.
    pub(crate) body_hash: B256,
    /// The record of this call for operators.
    pub(crate) seen: CallSpan,
}

/// The end of a call.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) response: Response,
    /// The receipt of a settlement whose intention and result are in the store. The response does not wait until the receipt is stored too.
    receipt: Option<(ReplayKey, Receipt)>,
}

impl From<Response> for Reply {
    fn from(response: Response) -> Self {
        Self { response, receipt: None }
    }
}

/// A reserved signature.
struct HeldReservation<'h> {
    store: &'h dyn ReplayStore,
    proven: &'h Proven,
    ticket: Ticket,
    reserved_at: UnixTime,
    /// The retry token, for a caller whose signature is not bound.
    token: Option<B256>,
    /// For how many seconds after the settlement the caller can redeem the result, if that time begins now.
    redeemable: Option<u64>,
}

impl HeldReservation<'_> {
    /// Adds the headers with which the caller can redeem the result.
    fn come_back(&self, headers: &mut HeaderMap) {
        answer::retry_token(headers, self.token);
        answer::redeemable(headers, self.redeemable);
    }
}

#[async_trait]
impl Journal for HeldReservation<'_> {
    async fn record_sent(&self, transaction: B256) -> Result<(), String> {
        let recorded = self.store.record_sent(&self.proven.key, self.ticket, transaction).await;
        recorded.map_err(|error| error.to_string())
    }
}

impl Admitted<'_> {
    /// Serves the call, and sends the response as soon as everything that the caller may rely on is in the store.
    pub(crate) async fn answer(
        self,
        proven: Option<Proven>,
        work: Work,
        context: Context,
        caller: oneshot::Sender<Result<Response, Stop>>,
    ) {
        let (answer, receipt) = match self.serve(proven, work, context).await {
            Ok(Reply { response, receipt }) => (Ok(response), receipt),
            Err(stop) => (Err(stop), None),
        };
        // Fails if the caller has disconnected.
        let _ = caller.send(answer);
        if let Some((key, receipt)) = receipt {
            let now = self.shared.clock.now();
            let written = self.shared.used.store(now).settle_in_background(&key, &receipt, now).await;
            self.receipt_written(written);
        }
    }

    async fn serve(&self, proven: Option<Proven>, work: Work, mut context: Context) -> Result<Reply, Stop> {
        let Some(proven) = proven else {
            let ran = self.run(work, context).await?;
            return Ok(answer::json(StatusCode::OK, ran.output, "no-store").into());
        };
        let now = self.shared.clock.now();
        let store = &**self.shared.used.store(now);
        if proven.is_over {
            return self.again(store, &proven, work, context).await.map(Reply::from);
        }
        let token = match proven.possession {
            Some(_) => None,
            None if self.tool.gate.charge.is_some() => Some(random()?),
            None => None,
        };
        let reservation = Reservation {
            expires_at: proven.expires_at,
            lease_until: self.lease(&proven, now),
            route: &self.tool.route,
            body_hash: self.body_hash,
            proof: proven.possession.or_else(|| token.map(|token| Proof::of(token.as_slice()))),
            payment_id: proven.payment_id.as_deref().map(|id| payment_id::key(&self.tool.route, proven.caller.account, id)),
        };
        let ticket = match self.reserve(store, &proven.key, &reservation, now).await {
            Ok(Reserve::Reserved(ticket)) => ticket,
            Ok(Reserve::AlreadyUsed { .. }) => return self.again(store, &proven, work, context).await.map(Reply::from),
            Ok(Reserve::IdInUse) => return Err(ErrorResponse::new(StatusCode::CONFLICT, codes::payment::ID_IN_USE).into()),
            Ok(Reserve::Full) => {
                self.shared.tell(self.tool, codes::store::FULL, "the replay store is full");
                return Err(ErrorResponse::new(StatusCode::SERVICE_UNAVAILABLE, codes::store::FULL)
                    .retry_after(RETRY_SECONDS)
                    .into());
            }
            Err(error) => return Err(self.store_fault(&error)),
        };
        let redeemable = Some(store.limits().kept_seconds());
        let held = HeldReservation { store, proven: &proven, ticket, reserved_at: now, token, redeemable };
        if let Err(refusal) = self.let_in(proven.caller.account, &context).await {
            self.release(&held).await;
            return Err(refusal.into());
        }
        match &self.tool.gate.charge {
            // Its lease ends when the signature expires: whatever happens to the handler, this signature cannot be used again.
            None => {
                let ran = self.run(work, context).await?;
                self.report(UsageProof::of_identity(&proven.payment), ran.took).await;
                Ok(answer::json(StatusCode::OK, ran.output, PAID_CACHE_CONTROL).into())
            }
            Some(charge) => {
                context.paid = self.offer(&proven).map(|offer| Paid::of(offer, None));
                self.charged(&held, charge, work, context).await
            }
        }
    }

    /// Reserves. If the store is full, marks delivered results and tries once more.
    async fn reserve(
        &self,
        store: &dyn ReplayStore,
        key: &ReplayKey,
        reservation: &Reservation<'_>,
        now: UnixTime,
    ) -> Result<Reserve, toolcrib_store::Error> {
        match store.reserve(key, reservation, now).await {
            Ok(Reserve::Full) => {
                self.shared.used.ledger.write_down(store, now).await?;
                store.reserve(key, reservation, now).await
            }
            reserved => reserved,
        }
    }

    /// Checks access with the predicate, if there is one.
    async fn let_in(&self, account: Address, context: &Context) -> Result<(), ErrorResponse> {
        let Some(access) = &self.tool.gate.access else { return Ok(()) };
        let asked = access.ask(account, context.delegated_for, self.data.clone()).await;
        asked.map_err(|(refusal, detail)| {
            if let Some(detail) = detail {
                self.shared.tell(self.tool, refusal.code, &detail);
            }
            refusal
        })
    }

    /// Runs a paid call, from the reservation on.
    async fn charged(
        &self,
        held: &HeldReservation<'_>,
        charge: &Charge,
        work: Work,
        mut context: Context,
    ) -> Result<Reply, Stop> {
        let due = self.due(held.proven)?;
        let Due { payment, offer, resource, extensions, .. } = due;
        let request = FacilitatorRequest { payment, offer, resource, extensions }.to_json();
        let due = Due { request: request.as_deref(), ..due };
        // The handler does not run unless its result can be stored: the response may be lost.
        match self.shared.used.ledger.take(held.store, held.reserved_at).await {
            Ok(true) => {}
            Ok(false) => return Err(self.no_room(held).await),
            Err(error) => {
                self.release(held).await;
                return Err(self.store_fault(&error));
            }
        }
        let from_block = match charge.settle.verify(due).await {
            Verdict::Good { from_block } => from_block,
            Verdict::Used => return Err(self.replayed(held).await),
            Verdict::Bad { reason } => {
                self.release(held).await;
                return Err(self.unpaid(held.proven, &reason));
            }
            Verdict::Unclear { detail } => {
                self.release(held).await;
                return Err(self.unavailable(&detail));
            }
        };
        if charge.first {
            let receipt = self.settle(held, charge, due, from_block, None).await?;
            let written = held.store.settle(&held.proven.key, &receipt, self.shared.clock.now()).await;
            self.receipt_written(written);
            context.paid = context.paid.map(|paid| Paid { transaction: Some(receipt.transaction), ..paid });
            return self.rerun(held, &receipt, work, context).await.map(Reply::from);
        }
        let HandlerOutput { output, took } = match self.run(work, context).await {
            Ok(ran) => ran,
            Err(stop) => {
                self.release(held).await;
                return Err(stop);
            }
        };
        let result = StoredResult { status: StatusCode::OK.as_u16(), content_type: JSON.to_owned(), body: output };
        let receipt = self.settle(held, charge, due, from_block, Some(&result)).await?;
        self.report(UsageProof::of_settlement(&held.proven.payment, receipt.transaction), took).await;
        let response = self.reply(held.proven, result.body, receipt.transaction, Some(held));
        if charge.settle.finds_settlements(due.offer) {
            return Ok(Reply { response, receipt: Some((held.proven.key, receipt)) });
        }
        // The receipt is the only record that the payer has paid.
        let written = held.store.settle(&held.proven.key, &receipt, self.shared.clock.now()).await;
        self.receipt_written(written);
        Ok(response.into())
    }

    /// Runs a call that was paid for before, and stores its output for the payer.
    async fn rerun(&self, held: &HeldReservation<'_>, receipt: &Receipt, work: Work, context: Context) -> Result<Response, Stop> {
        let outcome = self.run(work, context).await;
        let Ok(HandlerOutput { output, took }) = outcome else {
            // Paid and not served: the refusal carries the receipt, and the payer may retry with the same payment after a pause.
            if let Err(error) = held.store.run_failed(&held.proven.key, held.ticket, self.shared.clock.now()).await {
                self.shared.tell(self.tool, codes::gate::REPLAY_UNAVAILABLE, &error.to_string());
            }
            return Err(outcome.err().unwrap_or_else(|| self.store_fault("no output")).with_headers(|headers| {
                answer::receipt(headers, held.proven.caller.version, &settled(held.proven, receipt.transaction));
                held.come_back(headers);
            }));
        };
        let result = StoredResult { status: StatusCode::OK.as_u16(), content_type: JSON.to_owned(), body: output };
        if let Err(error) = held.store.store_result(&held.proven.key, held.ticket, &result).await {
            self.shared.tell(self.tool, codes::gate::REPLAY_UNAVAILABLE, &error.to_string());
        }
        self.report(UsageProof::of_settlement(&held.proven.payment, receipt.transaction), took).await;
        Ok(self.reply(held.proven, result.body, receipt.transaction, Some(held)))
    }

    /// The response to a payment that another settlement has used: it has bought something elsewhere, and nothing here.
    async fn replayed(&self, held: &HeldReservation<'_>) -> Stop {
        self.release(held).await;
        self.tool.metrics.ended(End::Refused);
        ErrorResponse::new(StatusCode::CONFLICT, codes::payment::REPLAYED).into()
    }

    /// The response to a call whose result could not be stored. The reservation is released.
    async fn no_room(&self, held: &HeldReservation<'_>) -> Stop {
        self.release(held).await;
        self.shared.tell(self.tool, codes::store::FULL, "there is no room for another result");
        ErrorResponse::new(StatusCode::SERVICE_UNAVAILABLE, codes::store::FULL).retry_after(RETRY_SECONDS).into()
    }

    /// The response to a paid call.
    fn reply(&self, proven: &Proven, output: Vec<u8>, transaction: B256, held: Option<&HeldReservation<'_>>) -> Response {
        self.seen.transaction(transaction);
        let mut response = answer::json(StatusCode::OK, output, PAID_CACHE_CONTROL);
        let headers = response.headers_mut();
        answer::receipt(headers, proven.caller.version, &settled(proven, transaction));
        if let Some(held) = held {
            held.come_back(headers);
        }
        response.extensions_mut().insert(Sold { used: self.shared.used.clone(), key: proven.key });
        response
    }

    /// The response to a payment that does not settle: a new challenge, and a receipt with the reason.
    fn unpaid(&self, proven: &Proven, reason: &str) -> Stop {
        self.tool.metrics.ended(End::Refused);
        self.challenge(codes::settlement::REFUSED).with_headers(|headers| {
            answer::receipt(headers, proven.caller.version, &SettleResponse::failed(&proven.payment, reason));
        })
    }

    fn challenge(&self, code: codes::Code) -> Stop {
        match &self.tool.gate.terms {
            Some(terms) => terms.challenge(&self.shared.sign_in_key, self.shared.clock.now(), Some(code)),
            None => ErrorResponse::new(StatusCode::PAYMENT_REQUIRED, code).into(),
        }
    }

    fn unavailable(&self, detail: &str) -> Stop {
        self.tool.metrics.ended(End::Unavailable);
        self.shared.tell(self.tool, codes::settlement::UNAVAILABLE, detail);
        ErrorResponse::new(StatusCode::BAD_GATEWAY, codes::settlement::UNAVAILABLE).retry_after(RETRY_SECONDS).into()
    }

    fn store_fault(&self, error: impl std::fmt::Display) -> Stop {
        self.shared.tell(self.tool, codes::gate::REPLAY_UNAVAILABLE, &error.to_string());
        ErrorResponse::new(StatusCode::SERVICE_UNAVAILABLE, codes::gate::REPLAY_UNAVAILABLE).retry_after(RETRY_SECONDS).into()
    }

    /// Releases a reservation. If that fails, it expires, and the caller signs again.
    async fn release(&self, held: &HeldReservation<'_>) {
        if let Err(error) = held.store.release(&held.proven.key, held.ticket).await {
            self.shared.tell(self.tool, codes::gate::REPLAY_UNAVAILABLE, &error.to_string());
        }
    }

    fn offer(&self, proven: &Proven) -> Option<&Offer> {
        self.tool.gate.terms.as_ref()?.paywall().offers().get(proven.offer)
    }

    fn due<'p>(&'p self, proven: &'p Proven) -> Result<Due<'p>, Stop> {
        let resource = self.tool.gate.terms.as_ref().map(|terms| terms.paywall().resource());
        let offer = self.offer(proven).ok_or_else(|| self.challenge(codes::payment::NO_MATCHING_OFFER))?;
        let extensions = self.tool.gate.terms.as_ref().map_or(&[][..], |terms| terms.paywall().extensions());
        Ok(Due { payment: &proven.payment, offer, resource, extensions, request: None })
    }

    /// Returns how long a reservation belongs to this call. A call that costs nothing keeps it for as long as the signature is valid, so
    /// that a crashed call does not run twice. A paid call keeps it for as long as it can take until money moves: after an earlier crash,
    /// the caller may use the payment again.
    fn lease(&self, proven: &Proven, now: UnixTime) -> UnixTime {
        if self.tool.gate.charge.is_none() {
            return proven.expires_at;
        }
        let running = self.tool.time.as_secs().try_into().unwrap_or(i64::MAX);
        now.plus(AROUND_SECONDS.saturating_add(running))
    }
}

fn settled(proven: &Proven, transaction: B256) -> SettleResponse {
    SettleResponse::settled(&proven.payment, transaction)
}

/// Returns a random retry token for this call.
fn random() -> Result<B256, ErrorResponse> {
    let mut bytes = [0; 32];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(B256::new(bytes)),
        Err(_) => Err(ErrorResponse::new(StatusCode::SERVICE_UNAVAILABLE, codes::gate::BUSY).retry_after(RETRY_SECONDS)),
    }
}
