//! Settlement through a facilitator: a service that verifies payments and sends their transfers.
//!
//! [`toolcrib_x402`] judges its responses; this module has the requests, their timeouts, and the handling of broken connections. A
//! facilitator is trusted unless RPC nodes are configured: then what it says has to be on the chain, and [`credit`] defines which transfers
//! count.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;
use async_trait::async_trait;
use tokio::time::{Instant, sleep, timeout};
use toolcrib_chain::rpc::Chain;
use toolcrib_chain::settlement::{Trail, TransactionProof};
use toolcrib_core::codes::settlement as code;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_fetch::{Concurrency, Configured, ConfiguredUrl, Headers, KeepAlive, Limits};
use toolcrib_x402::{
    FacilitatorRequest, MAX_FACILITATOR_BYTES, Offer, SettleOutcome, SettleResponse, Supported, VerifyOutcome, Version,
    settle_outcome, verify_outcome,
};

use self::answer::{FacilitatorReply, word};
use self::signers::Signers;
use super::heads::Heads;
use super::lookup::find;
use super::skew::Skews;
use super::{Due, Found, Journal, NONE_SENT, Outcome, Record, Settle, Verdict};
use crate::SystemClock;

mod answer;
mod credit;
mod signers;

/// Timeout of `/verify`. It takes a few reads of a chain; the caller waits for it before anything has started.
pub const VERIFY_TIME: Duration = Duration::from_secs(10);

/// Timeout of `/settle`. Facilitators respond when the transfer is mined, which takes several blocks on a busy chain. A shorter timeout
/// only turns known outcomes into unknown ones.
pub const SETTLE_TIME: Duration = Duration::from_secs(60);

/// Timeout of `/supported`, which returns a fixed list.
pub const SUPPORTED_TIME: Duration = Duration::from_secs(10);

/// Pause before the one retry of a pending settlement: a block of most chains.
pub const PENDING_PAUSE: Duration = Duration::from_secs(3);

/// Most requests to settle a payment while the facilitator says that its transaction was not accepted.
const TAKEN_TRIES: u8 = 4;

/// Time limit of these retries. Such responses come at once; a call that took longer waited for something else.
const TAKEN_TIME: Duration = Duration::from_secs(20);

/// Longest wait until this server's RPC node has the transfer, after the facilitator's response: nodes lag by a few blocks, and a
/// transaction that the facilitator did not see mined may be in the next one.
pub const CONFIRM_TIME: Duration = Duration::from_secs(15);

/// Concurrent requests to one facilitator. Each takes a few KiB; the gate has already limited its calls.
const CONCURRENCY: Concurrency = Concurrency { total: 512, host: 512 };

/// An endpoint of a facilitator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FacilitatorCall {
    /// Checks whether a payment would settle.
    Verify,
    /// Settles a payment.
    Settle,
    /// Lists what the facilitator settles.
    Supported,
}

impl FacilitatorCall {
    /// Returns the last segment of the path.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Verify => "verify",
            Self::Settle => "settle",
            Self::Supported => "supported",
        }
    }

    /// Returns the HTTP method.
    pub const fn method(self) -> &'static str {
        match self {
            Self::Verify | Self::Settle => "POST",
            Self::Supported => "GET",
        }
    }
}

type Made = Result<Headers, Box<dyn StdError + Send + Sync>>;
type Authorize = Arc<dyn Fn(FacilitatorCall) -> Pin<Box<dyn Future<Output = Made> + Send>> + Send + Sync>;

/// A facilitator, identified by its URL. Cheap to clone.
#[derive(Clone)]
pub struct Facilitator {
    url: ConfiguredUrl,
    /// The URLs of its endpoints, in the order of [`FacilitatorCall`].
    urls: [ConfiguredUrl; 3],
    door: Configured,
    headers: Headers,
    authorize: Option<Authorize>,
    chains: Vec<Chain>,
    is_sole_recipient: bool,
    signers: Signers,
    skews: Skews,
    heads: Heads,
    verify_time: Duration,
    settle_time: Duration,
    supported_time: Duration,
    pending_pause: Duration,
    confirm_time: Duration,
}

impl Facilitator {
    /// Creates a client for the facilitator at a URL **from settings**, such as `https://x402.org/facilitator`: see
    /// [`ConfiguredUrl::from_setting`].
    pub fn from_setting(url: &str) -> Result<Self, toolcrib_fetch::Error> {
        let url = ConfiguredUrl::from_setting(url)?;
        let client = Configured::builder(SystemClock).concurrency(CONCURRENCY).keep_alive(KeepAlive::matching(CONCURRENCY));
        Ok(Self::new(url, client.build()?))
    }

    /// Creates a client that uses this HTTP client, with another certificate authority or another way to connect.
    pub fn new(url: ConfiguredUrl, door: Configured) -> Self {
        let urls =
            [FacilitatorCall::Verify, FacilitatorCall::Settle, FacilitatorCall::Supported].map(|call| url.join(call.name()));
        Self {
            url,
            urls,
            door,
            headers: Headers::new(),
            authorize: None,
            chains: Vec::new(),
            is_sole_recipient: false,
            signers: Signers::default(),
            skews: Skews::default(),
            heads: Heads::default(),
            verify_time: VERIFY_TIME,
            settle_time: SETTLE_TIME,
            supported_time: SUPPORTED_TIME,
            pending_pause: PENDING_PAUSE,
            confirm_time: CONFIRM_TIME,
        }
    }

    /// Sends these headers with every request, such as an API key. They are never logged.
    #[must_use]
    pub fn headers(mut self, headers: Headers) -> Self {
        self.headers = headers;
        self
    }

    /// Makes headers for each request, such as a single-use token. They replace those of [`headers`](Self::headers), and their time counts
    /// towards the request's timeout. If they cannot be made, nothing is sent; the reason is not logged, since it may contain a secret.
    #[must_use]
    pub fn authorize<F, R>(mut self, headers: F) -> Self
    where
        F: Fn(FacilitatorCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Headers, Box<dyn StdError + Send + Sync>>> + Send + 'static,
    {
        self.authorize = Some(Arc::new(move |call| Box::pin(headers(call))));
        self
    }

    /// Trusts a settlement only when it is on the chain: in the transaction that the facilitator names, with the token's logs of the
    /// authorization and of the transfer. Also lets unknown outcomes be resolved. On networks without a node here, the facilitator's
    /// response is trusted.
    #[must_use]
    pub fn confirm_with(mut self, chains: impl IntoIterator<Item = Chain>) -> Self {
        self.chains = chains.into_iter().collect();
        self
    }

    /// Declares that no server with another store is paid to the recipients of these payments.
    ///
    /// A payment then counts as paid if its transfer was made after it was reserved, no matter which account sent the transaction: also if
    /// the facilitator refused, or announces no signers. If another server accepts the same payment after all, both serve it.
    #[must_use]
    pub const fn sole_recipient(mut self) -> Self {
        self.is_sole_recipient = true;
        self
    }

    /// Sets the timeout of `/verify`, instead of [`VERIFY_TIME`].
    #[must_use]
    pub const fn verify_time(mut self, time: Duration) -> Self {
        self.verify_time = time;
        self
    }

    /// Sets the timeout of `/settle`, instead of [`SETTLE_TIME`].
    #[must_use]
    pub const fn settle_time(mut self, time: Duration) -> Self {
        self.settle_time = time;
        self
    }

    /// Sets the timeout of `/supported`, instead of [`SUPPORTED_TIME`].
    #[must_use]
    pub const fn supported_time(mut self, time: Duration) -> Self {
        self.supported_time = time;
        self
    }

    /// Sets the pause before the retry of a pending settlement, instead of [`PENDING_PAUSE`].
    #[must_use]
    pub const fn pending_pause(mut self, pause: Duration) -> Self {
        self.pending_pause = pause;
        self
    }

    /// Sets the longest wait until this server's node has the transfer, instead of [`CONFIRM_TIME`].
    #[must_use]
    pub const fn confirm_time(mut self, time: Duration) -> Self {
        self.confirm_time = time;
        self
    }

    async fn ask(&self, call: FacilitatorCall, body: Option<&str>) -> FacilitatorReply {
        let until = match call {
            FacilitatorCall::Verify => self.verify_time,
            FacilitatorCall::Settle => self.settle_time,
            FacilitatorCall::Supported => self.supported_time,
        };
        let begun = Instant::now();
        let headers = match &self.authorize {
            None => Ok(self.headers.clone()),
            Some(authorize) => match timeout(until, authorize(call)).await {
                Ok(Ok(headers)) => Ok(headers),
                Ok(Err(_)) => Err("the headers for the facilitator could not be made"),
                Err(_) => Err("the headers for the facilitator were not made in time"),
            },
        };
        let typed = |headers: Headers| {
            if body.is_none() {
                return Ok(headers);
            }
            headers.with("content-type", "application/json").map_err(|_| "the content type of the request was set elsewhere")
        };
        let headers = match headers.and_then(typed) {
            Ok(headers) => headers,
            Err(detail) => return FacilitatorReply::NotSent { detail: detail.to_owned() },
        };
        let limits = limits(until.saturating_sub(begun.elapsed()));
        let url = &self.urls[call as usize];
        let exchange = match (call, body) {
            // A check changes nothing and may be repeated. A settlement is sent once: a facilitator that has acted on the first request
            // answers the second with a used nonce, as if another server had been paid.
            (FacilitatorCall::Verify, Some(body)) => self.door.post_repeatable(url, &headers, body.as_bytes(), limits).await,
            (_, Some(body)) => self.door.post(url, &headers, body.as_bytes(), limits).await,
            (_, None) => self.door.get(url, &headers, limits).await,
        };
        FacilitatorReply::of(exchange, url.is_secure())
    }

    async fn ask_to_settle(&self, due: Due<'_>, body: &str) -> (SettleOutcome, String) {
        let answer = self.ask(FacilitatorCall::Settle, Some(body)).await;
        let outcome = settle_outcome(answer.as_facilitator_answer(), due.payment, due.offer);
        let detail = match &outcome {
            // A success needs no detail.
            SettleOutcome::Settled(response) if response.transaction_hash().is_some() => String::new(),
            SettleOutcome::Unknown { findings, .. } => answer.detail(findings),
            _ => answer.detail(&[]),
        };
        (outcome, detail)
    }

    /// Retries until the facilitator's node accepts its transaction.
    ///
    /// A facilitator that does not track its own transaction nonces gives two concurrent settlements the same one, and the node accepts one
    /// of them. The other has moved nothing, so a retry is as good as a first request, as long as this server's node sees that the
    /// payment's nonce is unused. If the first transaction is for the same payment, sent for another gate, the second one fails on the
    /// chain and is not credited.
    async fn ask_until_taken(&self, due: Due<'_>, body: &str) -> (SettleOutcome, String) {
        let (mut round, mut not_taken) = (0, None);
        let until = Instant::now() + TAKEN_TIME.min(self.settle_time);
        loop {
            round += 1;
            let answered = self.ask_to_settle(due, body).await;
            // A transaction that was not accepted before may have been sent all the same, so nothing is certain from here on.
            if let Some(not_taken) = not_taken.take()
                && matches!(answered.0, SettleOutcome::Refused(_) | SettleOutcome::NotAttempted)
            {
                return (not_taken, answered.1);
            }
            let is_over = round == TAKEN_TRIES || Instant::now() >= until;
            if is_over || !matches!(answered.0, SettleOutcome::NotTaken(_)) {
                return answered;
            }
            // Concurrent payments wait for different times: nonces are random.
            let share = u32::from(due.payment.authorization.nonce[usize::from(round)]);
            let pause = self.pending_pause / 4 + self.pending_pause * share / 256;
            if self.is_used_until(due, Instant::now() + pause).await != Some(false) {
                return answered;
            }
            not_taken = Some(answered.0);
        }
    }

    /// Returns the outcome of a settlement that succeeded, as far as this server's nodes confirm it.
    async fn confirm(
        &self,
        due: Due<'_>,
        from_block: Option<u64>,
        transaction: B256,
        until: Instant,
        journal: &dyn Journal,
    ) -> Outcome {
        let Some(trail) = self.trail(due) else { return Outcome::Settled { transaction } };
        let unknown = |transaction, detail| Outcome::Unknown { transaction, detail };
        let network = &due.offer.network;
        // After a crash, only transfers of announced signers are found on the chain; any other is found by what was recorded. If recording
        // fails, the receipt, which is stored next, is the record.
        let mut is_recorded = self.is_sole_recipient;
        if !is_recorded && self.signers.is_empty_on(network) {
            is_recorded = journal.record_sent(transaction).await.is_ok();
        }
        loop {
            let error = match trail.proof_in(transaction).await {
                Ok(TransactionProof::Pays { block, .. }) if from_block.is_some_and(|unused| block <= unused) => {
                    let detail = format!("the facilitator names {transaction}, which is older than the payment's reservation");
                    return unknown(Some(NONE_SENT), detail);
                }
                Ok(TransactionProof::Pays { sender, .. }) => {
                    if !is_recorded && !self.signers.contains(network, sender) {
                        let _ = journal.record_sent(transaction).await;
                    }
                    return Outcome::Settled { transaction };
                }
                Ok(TransactionProof::Failed) => {
                    return unknown(Some(transaction), format!("the facilitator names {transaction}, which failed"));
                }
                // There is nothing to check there: the payment is found by its nonce, if it is on the chain at all.
                Ok(TransactionProof::Other) => {
                    return unknown(None, format!("the facilitator names {transaction}, which does not hold the transfer"));
                }
                Ok(TransactionProof::Missing) => None,
                Err(error) => Some(error),
            };
            if Instant::now() >= until {
                let detail = error.map_or_else(|| "the node does not have it".to_owned(), |error| error.to_string());
                return unknown(Some(transaction), format!("the facilitator names {transaction}, and {detail}"));
            }
            sleep(pause(trail.chain)).await;
        }
    }

    /// Asks once more for a pending settlement. Its transaction may be mined at any time, so success is the only final outcome here.
    async fn ask_again(&self, due: Due<'_>, body: &str, pending: &SettleResponse) -> (SettleOutcome, String) {
        sleep(self.pending_pause).await;
        let (outcome, detail) = self.ask_to_settle(due, body).await;
        let second = match &outcome {
            SettleOutcome::Settled(response) if response.transaction_hash().is_some() => return (outcome, detail),
            SettleOutcome::Pending(response) => named(response.transaction_hash()),
            SettleOutcome::Unknown { transaction, .. } => named(*transaction),
            SettleOutcome::Settled(_)
            | SettleOutcome::Refused(_)
            | SettleOutcome::NonceUsed(_)
            | SettleOutcome::NotTaken(_)
            | SettleOutcome::NotAttempted => None,
        };
        // A facilitator that has lost the first transaction sends a second one, which fails if the first was mined.
        let transaction = named(pending.transaction_hash()).or(second);
        (SettleOutcome::Unknown { transaction, findings: Vec::new() }, format!("pending, and then {detail}"))
    }

    /// Waits until the nonce is used, and returns the node's last answer about it; `None` without a node, or if it never answered.
    /// Facilitators stop waiting before slow chains mine what they have sent, and a payer that gets an unknown outcome may not come back
    /// for what it has paid for.
    async fn is_used_until(&self, due: Due<'_>, until: Instant) -> Option<bool> {
        let trail = self.trail(due)?;
        let mut is_used = None;
        loop {
            is_used = self.is_used(due).await.or(is_used);
            if is_used == Some(true) || Instant::now() >= until {
                return is_used;
            }
            sleep(pause(trail.chain)).await;
        }
    }

    /// Whether the nonce is used in the newest block; `None` without a node, or if it does not answer.
    async fn is_used(&self, due: Due<'_>) -> Option<bool> {
        Some(self.trail(due)?.unused_in().await.ok()?.is_none())
    }

    fn trail<'t>(&'t self, due: Due<'t>) -> Option<Trail<'t>> {
        let chain = self.chain(due.offer)?;
        let token = due.offer.asset.evm_address()?;
        Some(Trail { chain, token, authorization: &due.payment.authorization })
    }

    fn chain(&self, offer: &Offer) -> Option<&Chain> {
        let id = offer.network.evm_id()?;
        self.chains.iter().find(|chain| chain.chain_id() == id)
    }

    fn unsupported(&self, supported: &Supported, offer: &Offer) -> Vec<Finding> {
        let missing = |version: Version, severity| {
            let network = version.network_text(&offer.network)?;
            let finding = Finding::new(code::KIND_NOT_SETTLED).severity(severity);
            let finding = finding.expected(format!("x402 {version}, {}, {network}", offer.scheme)).got(self.url.origin());
            (!supported.settles(version, offer)).then_some(finding)
        };
        // Version 1 has fewer clients, and clients of version 2 read the other half of the same challenge.
        let two = missing(Version::V2, Severity::Error);
        let one = missing(Version::V1, if two.is_some() { Severity::Error } else { Severity::Warning });
        two.into_iter().chain(one).collect()
    }
}

#[async_trait]
impl Settle for Facilitator {
    async fn check(&self, offers: &[Offer]) -> Vec<Finding> {
        let mut findings = Vec::new();
        if !self.chains.is_empty() {
            for offer in offers.iter().filter(|offer| self.chain(offer).is_none()) {
                findings.push(Finding::new(code::NO_NODE).severity(Severity::Warning).got(offer.network.as_str()));
            }
        }
        for chain in &self.chains {
            findings.extend(self.skews.check(chain).await);
        }
        match self.supported().await {
            Ok(supported) => {
                findings.extend(offers.iter().flat_map(|offer| self.unsupported(&supported, offer)));
                findings.extend(self.missing_signers(&supported, offers));
            }
            Err(detail) => {
                let finding = Finding::new(code::KINDS_UNKNOWN).got(self.url.origin());
                findings.push(finding.message(format!("{}: {detail}", code::KINDS_UNKNOWN.title())));
            }
        }
        findings
    }

    fn lists_tools(&self) -> bool {
        true
    }

    fn finds_settlements(&self, offer: &Offer) -> bool {
        self.chain(offer).is_some()
    }

    fn clock_skews(&self) -> Vec<(u64, i64)> {
        self.skews.all()
    }

    async fn verify(&self, due: Due<'_>) -> Verdict {
        let body = match request(due) {
            Ok(body) => body,
            Err(reason) => return Verdict::Bad { reason: reason.to_owned() },
        };
        let answer = self.ask(FacilitatorCall::Verify, Some(&body)).await;
        match verify_outcome(answer.as_facilitator_answer(), due.payment) {
            // Facilitators need not check the nonce before they settle. A caller with a payment that is already on the chain has read it
            // there, or has used it elsewhere.
            VerifyOutcome::Valid => match self.trail(due) {
                Some(trail) => match trail.unused_in().await {
                    Ok(Some(block)) => {
                        self.skews.seen(trail.chain, block);
                        // A lagging node shows a nonce as unused that is used in a block which another node has.
                        let newest = self.heads.newest(trail.chain, block.number);
                        Verdict::Good { from_block: Some(newest) }
                    }
                    Ok(None) => Verdict::Used,
                    // Without a first block, an earlier transfer could count as this settlement. Nothing has run yet.
                    Err(error) => {
                        Verdict::Unclear { detail: format!("the node does not say whether the nonce is used: {error}") }
                    }
                },
                None => Verdict::Good { from_block: None },
            },
            VerifyOutcome::NonceUsed(_) => Verdict::Used,
            // A transfer that was already made fails, and facilitators have several codes for that.
            VerifyOutcome::Invalid(_) if self.is_used(due).await == Some(true) => Verdict::Used,
            VerifyOutcome::Invalid(response) => Verdict::Bad { reason: word(response.reason.as_deref(), "payment_not_valid") },
            VerifyOutcome::Unavailable(findings) => Verdict::Unclear { detail: answer.detail(&findings) },
        }
    }

    async fn settle(&self, due: Due<'_>, from_block: Option<u64>, journal: &dyn Journal) -> Outcome {
        let body = match request(due) {
            Ok(body) => body,
            Err(reason) => return Outcome::Refused { reason: reason.to_owned() },
        };
        let (outcome, detail) = match self.ask_until_taken(due, &body).await {
            (SettleOutcome::Pending(pending), _) => self.ask_again(due, &body, &pending).await,
            answered => answered,
        };
        // The facilitator's response is known. From here on only this server's node is asked.
        let until = Instant::now() + self.confirm_time;
        let unknown = |transaction, detail| Outcome::Unknown { transaction, detail };
        let outcome = match outcome {
            SettleOutcome::Settled(response) => match response.transaction_hash() {
                Some(transaction) => self.confirm(due, from_block, transaction, until, journal).await,
                None => unknown(None, detail),
            },
            SettleOutcome::Refused(response) => {
                let reason = word(response.reason.as_deref(), "settlement_refused");
                match self.is_used(due).await {
                    Some(true) => unknown(Some(NONE_SENT), format!("{detail}, and the nonce is used")),
                    Some(false) | None if self.is_sole_recipient && self.chain(due.offer).is_some() => {
                        Outcome::RefusedForNow { reason }
                    }
                    Some(false) | None => Outcome::Refused { reason },
                }
            }
            // Another transaction settles the payment, as this server's node will show if it does not yet.
            SettleOutcome::NonceUsed(_) | SettleOutcome::NotTaken(_) => {
                unknown(Some(NONE_SENT), format!("{detail}, for a used nonce"))
            }
            SettleOutcome::NotAttempted => Outcome::NotAttempted { detail },
            SettleOutcome::Unknown { transaction, .. } => unknown(named(transaction), detail),
            SettleOutcome::Pending(response) => unknown(named(response.transaction_hash()), detail),
        };
        if matches!(outcome, Outcome::Unknown { .. }) {
            self.is_used_until(due, until).await;
        }
        outcome
    }

    async fn look_up(&self, due: Due<'_>, record: &Record) -> Found {
        let Some(trail) = self.trail(due) else {
            return Found::Unclear { detail: format!("there is no node for {}", due.offer.network.as_str()) };
        };
        match find(trail, record).await {
            Ok(transfer) => self.credit(due, trail, record, transfer).await,
            Err(found) => found,
        }
    }
}

/// Shows neither the headers nor what makes them, and only the origin of the URL.
impl fmt::Debug for Facilitator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Facilitator").field("url", &self.url).field("chains", &self.chains.len()).finish_non_exhaustive()
    }
}

/// Returns a transaction that a facilitator named. Some write zeros if they have none.
fn named(transaction: Option<B256>) -> Option<B256> {
    transaction.filter(|hash| !hash.is_zero())
}

/// Returns the time between two requests to a node about one payment.
fn pause(chain: &Chain) -> Duration {
    if chain.is_loopback() { Duration::from_millis(50) } else { Duration::from_secs(1) }
}

/// Returns the body for `/verify` and `/settle`, or why the payment cannot have one.
fn request(due: Due<'_>) -> Result<Cow<'_, str>, &'static str> {
    let Due { payment, offer, resource, extensions, request } = due;
    // A transfer of value 0 identifies the caller; settling it would only use it up.
    if payment.authorization.value.is_zero() {
        return Err("zero_value");
    }
    let write = || FacilitatorRequest { payment, offer, resource, extensions }.to_json().map(Cow::Owned);
    request.map(Cow::Borrowed).or_else(write).ok_or("unsupported_network")
}

/// A facilitator is silent while it waits for a block, so only the total time is limited.
fn limits(total: Duration) -> Limits {
    let mut limits = Limits::default();
    (limits.total, limits.idle, limits.wait, limits.body) = (total, total, total, MAX_FACILITATOR_BYTES);
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_shown() {
        let headers = Headers::new().with("authorization", "Bearer s3cret").unwrap();
        let facilitator = Facilitator::from_setting("https://pay.example/s3cret?key=s3cret").unwrap().headers(headers);
        let facilitator = facilitator.authorize(|_| async { Err("s3cret".into()) });
        assert!(!format!("{facilitator:?}").contains("s3cret"), "{facilitator:?}");
    }
}
