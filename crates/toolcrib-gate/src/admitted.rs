//! The second half of a call: reservation, predicate, handler, settlement, reply.
//!
//! ```text
//! open        handler → reply
//! gated       reserve → predicate → handler → reply
//! paid        reserve → predicate → would it settle? → handler → settle → reply
//! settle_first reserve → predicate → would it settle? → settle → handler → reply
//! ```
//!
//! Until money can move, every no gives the signature back. The output of a paid call is written down **with** the intention to settle,
//! before anything is sent: whoever paid and did not hear of it comes back with the same payment and gets what it bought, and nobody
//! else does.

use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes};
use async_trait::async_trait;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes;
use toolcrib_core::schema::Echo;
use toolcrib_core::x402::payment_id;
use toolcrib_core::x402::usage::{UsageProof, UsageReport};
use toolcrib_core::x402::{FacilitatorRequest, Offer, PAID_CACHE_CONTROL, SettleResponse};
use toolcrib_store::replay::{
    Again, Kept, Proof, Receipt, Redeem, ReplayKey, ReplayStore, Reservation, Reserve, Settlement, State, StoredResult, Ticket,
};

use crate::answer::{self, Refusal, Stop};
use crate::endpoint::{RETRY_SECONDS, listed};
use crate::gate::terms::{Proven, Terms};
use crate::metrics::End;
use crate::reconcile;
use crate::room::Sold;
use crate::settle::{Due, Found, Journal, Outcome, Record, Verdict};
use crate::tool::{Context, ErrorKind, Failure, MAX_OUTPUT_BYTES, Paid};
use crate::tools::{Charge, Served, Shared};
use crate::watch::Seen;

mod signed_in;

/// For how long a settlement is believed to be under way, in seconds. Facilitators get 60 for an answer, and one question more; a look
/// at the chain takes a few. Afterwards another process may find out how it ended.
pub const SETTLEMENT_SECONDS: i64 = 150;

/// For how long a call is believed to be under way beside what its handler takes, in seconds: predicate, facilitator, store.
const AROUND_SECONDS: i64 = 30;

/// How long a payer who comes twice waits for the answer to the first call. Stock clients give up after a minute or more.
const WAIT_TIME: Duration = Duration::from_secs(5);

/// Content type of outputs.
const JSON: &str = "application/json";

/// A call whose caller, if it has to be known, is known.
pub(crate) struct Admitted<'c> {
    pub(crate) shared: &'c Shared,
    pub(crate) tool: &'c Served,
    /// For the predicate.
    pub(crate) data: Bytes,
    /// What the call is about: whoever comes back for its result has to ask for the same.
    pub(crate) body_hash: B256,
    /// Where operators read about this call.
    pub(crate) seen: Seen,
}

/// A reserved signature.
struct Held<'h> {
    store: &'h dyn ReplayStore,
    proven: &'h Proven,
    ticket: Ticket,
    reserved_at: UnixTime,
    /// What the caller needs to come back with, if it has nothing of its own.
    token: Option<B256>,
    /// For how many seconds after the settlement the caller can come back, where that begins now.
    redeemable: Option<u64>,
}

impl Held<'_> {
    /// Adds what the caller needs to come back for the result.
    fn come_back(&self, headers: &mut HeaderMap) {
        answer::retry_token(headers, self.token);
        answer::redeemable(headers, self.redeemable);
    }
}

#[async_trait]
impl Journal for Held<'_> {
    async fn record_sent(&self, transaction: B256) -> Result<(), String> {
        let recorded = self.store.record_sent(&self.proven.key, self.ticket, transaction).await;
        recorded.map_err(|error| error.to_string())
    }
}

/// What a handler gave, and how long it took.
struct Ran {
    output: Vec<u8>,
    took: Duration,
}

impl Admitted<'_> {
    pub(crate) async fn serve(&self, proven: Option<Proven>, input: Value, mut context: Context) -> Result<Response, Stop> {
        let Some(proven) = proven else {
            let ran = self.run(input, context).await?;
            return Ok(answer::json(StatusCode::OK, ran.output, "no-store"));
        };
        let now = self.shared.clock.now();
        let store = &**self.shared.used.store(now);
        if proven.is_over {
            return self.again(store, &proven, input, context).await;
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
            Ok(Reserve::AlreadyUsed { .. }) => return self.again(store, &proven, input, context).await,
            Ok(Reserve::IdInUse) => return Err(Refusal::new(StatusCode::CONFLICT, codes::payment::ID_IN_USE).into()),
            Ok(Reserve::Full) => {
                self.shared.tell(self.tool, codes::store::FULL, "the replay store is full");
                return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, codes::store::FULL).retry_after(RETRY_SECONDS).into());
            }
            Err(error) => return Err(self.store_fault(&error)),
        };
        let redeemable = Some(store.limits().kept_seconds());
        let held = Held { store, proven: &proven, ticket, reserved_at: now, token, redeemable };
        if let Err(refusal) = self.let_in(proven.caller.account, &context).await {
            self.release(&held).await;
            return Err(refusal.into());
        }
        match &self.tool.gate.charge {
            // Its lease ends with it: whatever happens to the handler, nobody calls with this signature again.
            None => {
                let ran = self.run(input, context).await?;
                self.report(UsageProof::of_identity(&proven.payment), ran.took).await;
                Ok(answer::json(StatusCode::OK, ran.output, PAID_CACHE_CONTROL))
            }
            Some(charge) => {
                context.paid = self.offer(&proven).map(|offer| Paid::of(offer, None));
                self.charged(&held, charge, input, context).await
            }
        }
    }

    /// Reserves, and once more without what was delivered if the store is full.
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

    /// Asks the predicate, where there is one.
    async fn let_in(&self, account: Address, context: &Context) -> Result<(), Refusal> {
        let Some(access) = &self.tool.gate.access else { return Ok(()) };
        let asked = access.ask(account, context.delegated_for, self.data.clone()).await;
        asked.map_err(|(refusal, detail)| {
            if let Some(detail) = detail {
                self.shared.tell(self.tool, refusal.code, &detail);
            }
            refusal
        })
    }

    /// A call that must pay, from the reservation on.
    async fn charged(&self, held: &Held<'_>, charge: &Charge, input: Value, mut context: Context) -> Result<Response, Stop> {
        let due = self.due(held.proven)?;
        // Nobody's call runs for a result that could not be given again if the answer is lost.
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
            let receipt = self.settle(held, charge, from_block, None).await?;
            context.paid = context.paid.map(|paid| Paid { transaction: Some(receipt.transaction), ..paid });
            return self.rerun(held, &receipt, input, context).await;
        }
        let Ran { output, took } = match self.run(input, context).await {
            Ok(ran) => ran,
            Err(stop) => {
                self.release(held).await;
                return Err(stop);
            }
        };
        let result = StoredResult { status: StatusCode::OK.as_u16(), content_type: JSON.to_owned(), body: output };
        let receipt = self.settle(held, charge, from_block, Some(&result)).await?;
        self.report(UsageProof::of_settlement(&held.proven.payment, receipt.transaction), took).await;
        Ok(self.reply(held.proven, result.body, receipt.transaction, Some(held)))
    }

    /// Runs a call that was paid for before, and keeps its output for whoever paid.
    async fn rerun(&self, held: &Held<'_>, receipt: &Receipt, input: Value, context: Context) -> Result<Response, Stop> {
        let outcome = self.run(input, context).await;
        let Ok(Ran { output, took }) = outcome else {
            // Paid and not served: the receipt goes with the refusal, and the same payment may be tried again after a pause.
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

    /// Writes the intention down, moves the money, and writes down how that ended.
    async fn settle(
        &self,
        held: &Held<'_>,
        charge: &Charge,
        from_block: Option<u64>,
        result: Option<&StoredResult>,
    ) -> Result<Receipt, Stop> {
        let due = self.due(held.proven)?;
        let request = FacilitatorRequest { payment: due.payment, offer: due.offer, resource: None, extensions: &[] };
        // Only payments that can be written down are matched with an offer.
        let note = request.to_json().ok_or_else(|| Refusal::new(StatusCode::PAYMENT_REQUIRED, codes::payment::NETWORK))?;
        let began = self.shared.clock.now();
        let running = if charge.first { self.tool.time.as_secs().try_into().unwrap_or(i64::MAX) } else { 0 };
        let lease_until = began.plus(SETTLEMENT_SECONDS.saturating_add(running));
        let settlement = Settlement { lease_until, note: note.as_bytes(), result, from_block };
        match held.store.begin_settlement(&held.proven.key, held.ticket, &settlement).await {
            // Nobody pays for what could not be given again if the answer is lost.
            Ok(Kept::NoRoom | Kept::TooLarge) => return Err(self.no_room(held).await),
            Ok(Kept::Yes | Kept::Nothing) => {}
            Err(error) => return Err(self.store_fault(&error)),
        }
        let sent = Instant::now();
        let outcome = charge.settle.settle(due, held).await;
        self.tool.metrics.settlement.observe(sent.elapsed());
        let (transaction, detail) = match outcome {
            Outcome::Settled { transaction } => return Ok(self.settled(held, transaction).await),
            Outcome::Refused { reason } => {
                self.release(held).await;
                return Err(self.unpaid(held.proven, &reason));
            }
            Outcome::Replayed => return Err(self.replayed(held).await),
            Outcome::NotAttempted { detail } => {
                self.release(held).await;
                return Err(self.unavailable(&detail));
            }
            Outcome::Unknown { transaction, detail } => (transaction, detail),
        };
        // The answer may be lost and the money there: the chain is asked before the caller is told that nobody knows.
        let record = Record { reserved_at: held.reserved_at, from_block, transaction };
        match charge.settle.look_up(due, &record).await {
            Found::Settled { transaction } => return Ok(self.settled(held, transaction).await),
            Found::Elsewhere { .. } => return Err(self.replayed(held).await),
            Found::Spent => {
                self.release(held).await;
                return Err(self.unpaid(held.proven, "nonce_used"));
            }
            Found::Never | Found::Open | Found::Unclear { .. } => {}
        }
        let named = transaction.map_or_else(String::new, |transaction| format!("; transaction {transaction}"));
        self.shared.tell(self.tool, codes::settlement::UNKNOWN, &format!("{detail}{named}"));
        self.tool.metrics.ended(End::Unknown);
        // What the facilitator named is where to look first, also for another process.
        if let Some(transaction) = transaction
            && let Err(detail) = held.record_sent(transaction).await
        {
            self.shared.tell(self.tool, codes::gate::REPLAY_UNAVAILABLE, &detail);
        }
        if let Err(error) = held.store.mark_unknown(&held.proven.key, held.ticket, self.shared.clock.now()).await {
            self.shared.tell(self.tool, codes::gate::REPLAY_UNAVAILABLE, &error.to_string());
        }
        let refusal = Refusal::new(StatusCode::BAD_GATEWAY, codes::settlement::UNKNOWN).retry_after(RETRY_SECONDS);
        Err(Stop::from(refusal).with_headers(|headers| answer::retry_token(headers, held.token)))
    }

    /// The answer to a payment that another settlement has used: it has bought something elsewhere, and nothing here.
    async fn replayed(&self, held: &Held<'_>) -> Stop {
        self.release(held).await;
        self.tool.metrics.ended(End::Refused);
        Refusal::new(StatusCode::CONFLICT, codes::payment::REPLAYED).into()
    }

    /// The answer to a call whose result could not be kept. The payment is given back.
    async fn no_room(&self, held: &Held<'_>) -> Stop {
        self.release(held).await;
        self.shared.tell(self.tool, codes::store::FULL, "there is no room for another result");
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, codes::store::FULL).retry_after(RETRY_SECONDS).into()
    }

    /// Writes down that the money moved. A store that does not take it leaves the payment to whoever reconciles; the caller has paid.
    async fn settled(&self, held: &Held<'_>, transaction: B256) -> Receipt {
        if let Some(offer) = self.offer(held.proven) {
            self.tool.metrics.settled(offer);
        }
        let response = settled(held.proven, transaction).to_json(held.proven.caller.version).into_bytes();
        let receipt = Receipt { transaction, response };
        if let Err(error) = held.store.settle(&held.proven.key, &receipt, self.shared.clock.now()).await {
            self.shared.tell(self.tool, codes::gate::REPLAY_UNAVAILABLE, &error.to_string());
        }
        receipt
    }

    /// A payment that was used before: its result for whoever can prove to have paid, the receipt for everybody else.
    async fn again(
        &self,
        store: &dyn ReplayStore,
        proven: &Proven,
        input: Value,
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
        if let (Redeem::Pending(State::Settling | State::Unknown), Some(_), Some(charge)) =
            (&redeemed, proven.possession, &self.tool.gate.charge)
            && let Ok(Some(entry)) = store.entry(&proven.key).await
            && let Ok(due) = self.due(proven)
            && reconcile::look(store, &*charge.settle, due, &entry, now).await.unwrap_or(false)
        {
            self.tool.metrics.settled(due.offer);
            redeemed = store.redeem(&proven.key, &again, now).await.map_err(|error| self.store_fault(&error))?;
        }
        let conflict = |code| Refusal::new(StatusCode::CONFLICT, code);
        match redeemed {
            Redeem::Result(result, receipt) => Ok(self.reply(proven, result.body, receipt.transaction, None)),
            Redeem::Rerun(ticket, receipt) => {
                context.paid = self.offer(proven).map(|offer| Paid::of(offer, Some(receipt.transaction)));
                // When its time began is not known here, and the caller was told then.
                let held = Held { store, proven, ticket, reserved_at: now, token: None, redeemable: None };
                self.rerun(&held, &receipt, input, context).await
            }
            Redeem::ReceiptOnly(Some(receipt)) => {
                let refusal = conflict(codes::payment::REPLAYED).with("transaction", receipt.transaction.to_string().into());
                Err(Stop::from(refusal).with_headers(|headers| {
                    answer::receipt(headers, proven.caller.version, &settled(proven, receipt.transaction));
                }))
            }
            Redeem::ReceiptOnly(None) => Err(conflict(codes::payment::REPLAYED).into()),
            Redeem::Pending(State::Unknown) => {
                let refusal = Refusal::new(StatusCode::BAD_GATEWAY, codes::settlement::UNKNOWN);
                Err(refusal.retry_after(RETRY_SECONDS).into())
            }
            // A call that costs nothing has no result to wait for.
            Redeem::Pending(_) if self.tool.gate.charge.is_none() => Err(conflict(codes::payment::REPLAYED).into()),
            Redeem::Pending(_) => Err(conflict(codes::payment::PENDING).retry_after(RETRY_SECONDS).into()),
            Redeem::NotUsed if proven.is_over => Err(self.challenge(codes::payment::EXPIRED)),
            // Given back in this moment.
            Redeem::NotUsed => Err(conflict(codes::payment::PENDING).retry_after(1).into()),
        }
    }

    /// Redeems. Somebody who proves to have paid, and comes while the first call is under way, waits for its answer for a while.
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

    /// Runs the handler, and checks what it gives.
    async fn run(&self, input: Value, context: Context) -> Result<Ran, Stop> {
        let Self { shared, tool, .. } = self;
        let fault = |status, code, detail: &str| {
            shared.tell(tool, code, detail);
            Stop::from(Refusal::new(status, code))
        };
        let failed = StatusCode::INTERNAL_SERVER_ERROR;
        let began = Instant::now();
        let called = timeout(tool.time, tool.handler.call(input, context)).await;
        let took = began.elapsed();
        tool.metrics.handler.observe(took);
        let output = match called {
            Err(_) => return Err(fault(StatusCode::GATEWAY_TIMEOUT, codes::gate::TIMED_OUT, "the handler took too long")),
            Ok(Ok(output)) => output,
            Ok(Err(Failure::Input(detail))) => {
                return Err(Refusal::new(StatusCode::BAD_REQUEST, codes::gate::INPUT_TYPE).message(detail).into());
            }
            Ok(Err(Failure::Output(detail))) => return Err(fault(failed, codes::gate::OUTPUT_INVALID, &detail)),
            Ok(Err(Failure::Tool(error))) => {
                let (status, code) = match error.kind {
                    ErrorKind::Refused => (StatusCode::UNPROCESSABLE_ENTITY, codes::gate::REFUSED),
                    ErrorKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, codes::gate::UNAVAILABLE),
                    ErrorKind::Internal => return Err(fault(failed, codes::gate::FAILED, &error.text)),
                };
                return Err(Refusal::new(status, code).message(error.text).into());
            }
        };
        // What the tool gave may hold anything, so violations are described without it.
        let violations = tool.outputs.as_ref().map_or_else(Vec::new, |schema| schema.violations(&output, Echo::Masked));
        if let Some(first) = violations.first() {
            shared.tell(tool, codes::gate::OUTPUT_INVALID, &first.to_string());
            return Err(Refusal::new(failed, codes::gate::OUTPUT_INVALID).with("violations", listed(&violations)).into());
        }
        let bytes = output.to_string().into_bytes();
        // What is paid for is kept for whoever paid, so it has to fit there too.
        let most = if tool.gate.charge.is_some() { shared.used.largest_result() } else { MAX_OUTPUT_BYTES };
        if bytes.len() > most {
            return Err(fault(failed, codes::gate::OUTPUT_TOO_LARGE, &format!("{} bytes", bytes.len())));
        }
        Ok(Ran { output: bytes, took })
    }

    /// Tells the directory about a call that was served, where the operator wants that. Signatures are used up by now, and settled
    /// payments public. Results that somebody comes back for are not reported again.
    async fn report(&self, proof: Option<UsageProof>, took: Duration) {
        let tool = self.tool.gate.terms.as_ref().and_then(Terms::tool);
        let (Some(usage), Some(tool), Some(proof)) = (&self.shared.usage, tool, proof) else { return };
        let latency_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let sent = usage.send(&UsageReport { tool, latency_ms, proof }).await;
        self.tool.metrics.reported(sent.is_ok());
        if let Err(detail) = sent {
            self.shared.tell(self.tool, codes::usage::NOT_REPORTED, &detail);
        }
    }

    /// The answer to a call that was paid for.
    fn reply(&self, proven: &Proven, output: Vec<u8>, transaction: B256, held: Option<&Held<'_>>) -> Response {
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

    /// The answer to a payment that does not settle: a new challenge, and a receipt that says why.
    fn unpaid(&self, proven: &Proven, reason: &str) -> Stop {
        self.tool.metrics.ended(End::Refused);
        self.challenge(codes::settlement::REFUSED).with_headers(|headers| {
            answer::receipt(headers, proven.caller.version, &SettleResponse::failed(&proven.payment, reason));
        })
    }

    fn challenge(&self, code: codes::Code) -> Stop {
        match &self.tool.gate.terms {
            Some(terms) => terms.challenge(&self.shared.sign_in_key, self.shared.clock.now(), Some(code)),
            None => Refusal::new(StatusCode::PAYMENT_REQUIRED, code).into(),
        }
    }

    fn unavailable(&self, detail: &str) -> Stop {
        self.tool.metrics.ended(End::Unavailable);
        self.shared.tell(self.tool, codes::settlement::UNAVAILABLE, detail);
        Refusal::new(StatusCode::BAD_GATEWAY, codes::settlement::UNAVAILABLE).retry_after(RETRY_SECONDS).into()
    }

    fn store_fault(&self, error: impl std::fmt::Display) -> Stop {
        self.shared.tell(self.tool, codes::gate::REPLAY_UNAVAILABLE, &error.to_string());
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, codes::gate::REPLAY_UNAVAILABLE).retry_after(RETRY_SECONDS).into()
    }

    /// Gives a signature back. One that cannot be given back expires; the caller signs anew.
    async fn release(&self, held: &Held<'_>) {
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
        Ok(Due { payment: &proven.payment, offer, resource, extensions })
    }

    /// Until when a reservation belongs to this call. Of a call that costs nothing, for as long as the signature is good: it is used up,
    /// and whoever crashed does not run twice. Of a paid one, for as long as it can take until the money moves: a caller whose call
    /// crashed before may use the payment again.
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

/// A secret of this call.
fn random() -> Result<B256, Refusal> {
    let mut bytes = [0; 32];
    match getrandom::fill(&mut bytes) {
        Ok(()) => Ok(B256::new(bytes)),
        Err(_) => Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, codes::gate::BUSY).retry_after(RETRY_SECONDS)),
    }
}
