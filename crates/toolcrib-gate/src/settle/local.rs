//! Settlement with the operator's key, which sends the transfers and pays their gas.
//!
//! The key sends `transferWithAuthorization` to a token of the built-in table for a recipient of the settings, and, only to factories of
//! the settings, the call that deploys a payer's wallet; both with limits on gas and fee. Any other payment is refused before anything is
//! sent. The payer cannot be charged twice, since the token accepts a nonce once. What this module protects is the operator's gas, and that
//! no uncertain outcome is called certain.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Address, Bytes, U256};
use alloy_provider::Provider;
use alloy_rpc_types_eth::TransactionReceipt;
use alloy_sol_types::SolCall;
use async_trait::async_trait;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};
use toolcrib_chain::Error;
use toolcrib_chain::abi::IEIP3009::{balanceOfCall, transferWithAuthorization_0Call, transferWithAuthorization_1Call};
use toolcrib_chain::registry::Revert;
use toolcrib_chain::rpc::{BoundedCall, CallOutcome, Chain};
use toolcrib_chain::settlement::{Trail, newest_block, pays};
use toolcrib_chain::sign::{Domain, StrictSignature, check_domain};
use toolcrib_chain::transaction::{Call, Prepared, Signed};
use toolcrib_chain::wallet::Wallet;
use toolcrib_core::codes::settlement as code;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_x402::{Authorization, EXACT, Offer, Payment, asset, erc6492};

use super::lookup::find;
use super::skew::Skews;
use super::{Due, Found, Journal, Outcome, Record, Settle, Verdict};

mod deployment;
mod reason;
mod under_way;

pub use self::deployment::MAX_DEPLOYMENT_GAS;
use self::reason::{Reason, reason};
use self::under_way::UnderWay;

/// Gas limit of one settlement. USDC takes about 85,000 for an account without code and 20,000 to 80,000 more for one with; a contract with
/// a costlier signature check pays for it elsewhere.
pub const MAX_SETTLEMENT_GAS: u64 = 200_000;

/// Most wei of one settlement: a hundredth of the chain's currency. Two hundred thousand gas at 50 gwei.
pub const MAX_SETTLEMENT_FEE_WEI: u128 = 10_000_000_000_000_000;

/// Longest wait for a transaction to be mined: five blocks of Ethereum, thirty of most others. It may still be mined later, and is looked
/// up then.
pub const RECEIPT_TIME: Duration = Duration::from_secs(60);

/// Attempts to send a transaction again because another sender has used its nonce. The key should be used only here.
const BROADCAST_ATTEMPTS: u32 = 4;

/// How long the local transaction nonce is trusted instead of the node's. Nodes behind one URL lag behind each other by some seconds; a
/// transaction that none of them has counted by then was lost, to a full mempool or a replaced block, and its nonce is free again.
const NUMBER_TIME: Duration = Duration::from_secs(30);

/// Attempts to simulate a payment that becomes valid in the very second in which it was made: the newest block is older than that on every
/// chain.
const NOT_YET_ATTEMPTS: u32 = 4;
const NOT_YET_PAUSE: Duration = Duration::from_secs(2);

/// Settlement with the operator's key.
///
/// Use it in one process, or use one key for each process: the transaction nonces are kept in memory.
#[derive(Debug)]
pub struct LocalSettlement {
    wallet: Arc<dyn Wallet>,
    lanes: Vec<Lane>,
    recipients: Vec<Address>,
    factories: Vec<Address>,
    max_gas: u64,
    max_fee: U256,
    receipt_time: Duration,
    under_way: UnderWay,
    skews: Skews,
}

/// A chain, and the key's next transaction nonce on it, if nothing has put it in doubt since the last one.
#[derive(Debug)]
struct Lane {
    chain: Chain,
    next: Mutex<Option<Numbered>>,
}

/// A transaction nonce, and when the transaction before it was sent.
#[derive(Clone, Copy, Debug)]
struct Numbered {
    next: u64,
    at: Instant,
}

impl LocalSettlement {
    /// Settles with `wallet` on `chains`. It has no recipients yet.
    pub fn new(wallet: Arc<dyn Wallet>, chains: impl IntoIterator<Item = Chain>) -> Self {
        let lanes = chains.into_iter().map(|chain| Lane { chain, next: Mutex::default() }).collect();
        Self {
            wallet,
            lanes,
            recipients: Vec::new(),
            factories: Vec::new(),
            max_gas: MAX_SETTLEMENT_GAS,
            max_fee: U256::from(MAX_SETTLEMENT_FEE_WEI),
            receipt_time: RECEIPT_TIME,
            under_way: UnderWay::default(),
            skews: Skews::default(),
        }
    }

    /// Adds recipients: those of the manifests' prices. Payments to any other are refused.
    #[must_use]
    pub fn recipients(mut self, accounts: impl IntoIterator<Item = Address>) -> Self {
        self.recipients.extend(accounts);
        self
    }

    /// Deploys wallets of payers that are not deployed yet (ERC-6492) through these factories, before their payments settle. The key pays
    /// for that too, and calls the factory with the payer's calldata, so name only factories that do nothing but deploy. Payments from
    /// wallets of other factories are refused with `eip6492_factory_not_allowed`.
    #[must_use]
    pub fn wallet_factories(mut self, factories: impl IntoIterator<Item = Address>) -> Self {
        self.factories.extend(factories);
        self
    }

    /// Sets the gas limit, instead of [`MAX_SETTLEMENT_GAS`]. Some chains meter gas differently.
    #[must_use]
    pub const fn max_gas(mut self, gas: u64) -> Self {
        self.max_gas = gas;
        self
    }

    /// Sets the most wei of one settlement, instead of [`MAX_SETTLEMENT_FEE_WEI`].
    #[must_use]
    pub const fn max_fee(mut self, wei: U256) -> Self {
        self.max_fee = wei;
        self
    }

    /// Sets the longest wait for a transaction to be mined, instead of [`RECEIPT_TIME`].
    #[must_use]
    pub const fn receipt_time(mut self, time: Duration) -> Self {
        self.receipt_time = time;
        self
    }

    fn lane(&self, offer: &Offer) -> Option<&Lane> {
        let id = offer.network.evm_id()?;
        self.lanes.iter().find(|lane| lane.chain.chain_id() == id)
    }

    /// Checks whether a payment would settle now. Returns the call that settles it, and the call that deploys the payer's wallet first.
    async fn admit(&self, lane: &Lane, due: Due<'_>) -> Result<(Call, Option<Call>), Stop> {
        let token = self.allowed(due)?;
        let chain = &lane.chain;
        let has_code = !chain.code(due.payment.authorization.from).await?.is_empty();
        let deployment = self.deployment(due.payment, has_code)?;
        let data = calldata(due.payment, has_code || deployment.is_some())?;
        let call = Call { to: token.address, data, value: U256::ZERO };
        let simulated = BoundedCall {
            to: call.to,
            data: call.data.clone(),
            from: Some(self.wallet.address()),
            gas: Some(self.max_gas),
            max_bytes: MAX_REVERT_BYTES,
        };
        for attempt in 1.. {
            let data = match self.simulate(chain, deployment.as_ref(), &simulated).await? {
                CallOutcome::Returned(_) => return Ok((call, deployment.map(deployment::call))),
                CallOutcome::Reverted(data) => data,
                CallOutcome::Halted(_) => return Err(Stop::Never("too_much_gas")),
                CallOutcome::TooLarge => return Err(Stop::Never("transfer_refused")),
            };
            match self.why(lane, token, due.payment, &Revert::decode(&data)).await {
                // The token checks the time first. Without enough balance there is nothing to wait for.
                Stop::NotYet if attempt == 1 && self.is_poor(lane, token, due.payment).await? => {
                    return Err(Stop::Never("insufficient_funds"));
                }
                Stop::NotYet if attempt < NOT_YET_ATTEMPTS => sleep(NOT_YET_PAUSE).await,
                stop => return Err(stop),
            }
        }
        Err(Stop::NotYet)
    }

    /// Applies the rules that need no request to a node.
    fn allowed(&self, due: Due<'_>) -> Result<&'static asset::Token, Stop> {
        let Due { payment, offer, .. } = due;
        let Authorization { to, value, .. } = payment.authorization;
        if value.is_zero() {
            return Err(Stop::Never("zero_value"));
        }
        if !self.recipients.contains(&to) {
            return Err(Stop::Never("recipient_not_allowed"));
        }
        let is_met = offer.scheme == EXACT
            && payment.network == offer.network
            && offer.pay_to.evm_address() == Some(to)
            && value == offer.amount;
        if !is_met {
            return Err(Stop::Never("offer_not_met"));
        }
        pinned(offer).ok_or(Stop::Never("asset_not_allowed"))
    }

    /// Whether the payer's balance is below the payment. An unreadable response counts as no.
    async fn is_poor(&self, lane: &Lane, token: &asset::Token, payment: &Payment) -> Result<bool, Error> {
        let Authorization { from: account, value, .. } = payment.authorization;
        let data = balanceOfCall { account }.abi_encode().into();
        let call = BoundedCall { to: token.address, data, from: None, gas: Some(self.max_gas), max_bytes: 32 };
        Ok(matches!(lane.chain.call(&call).await?, CallOutcome::Returned(bytes)
            if bytes.len() == 32 && U256::from_be_slice(&bytes) < value.get()))
    }

    /// Returns why a token refuses a transfer. Always checks whether the nonce is used, since the token names only its first reason.
    async fn why(&self, lane: &Lane, token: &asset::Token, payment: &Payment, revert: &Revert) -> Stop {
        let trail = Trail { chain: &lane.chain, token: token.address, authorization: &payment.authorization };
        match trail.is_used().await {
            Ok(true) => return Stop::Used,
            Ok(false) => {}
            Err(error) => return error.into(),
        }
        match reason(revert) {
            // Unused in the newest block, but used in the pending one: a transaction is under way.
            Reason::Used => Stop::Used,
            Reason::NotYet => Stop::NotYet,
            Reason::Paused => Stop::Later("the token is paused".to_owned()),
            Reason::Word("invalid_signature") => match check_domain(&lane.chain, &domain(token)).await {
                Ok(()) => Stop::Never("invalid_signature"),
                // The table is wrong, not the payer.
                Err(error) => error.into(),
            },
            Reason::Word(word) => Stop::Never(word),
        }
    }

    /// Decides gas and fees, within the limits.
    async fn prepare(&self, lane: &Lane, token: &asset::Token, payment: &Payment, call: &Call) -> Result<Prepared, Stop> {
        let prepared = match lane.chain.prepare(self.wallet.address(), call).await {
            Ok(prepared) => prepared,
            Err(Error::Reverted(revert)) => return Err(self.why(lane, token, payment, &revert).await),
            Err(error) => return Err(error.into()),
        };
        if prepared.gas_limit > self.max_gas {
            return Err(Stop::Never("too_much_gas"));
        }
        if prepared.most_cost() > self.max_fee {
            return Err(Stop::Later(format!("it may cost {} wei, the cap is {}", prepared.most_cost(), self.max_fee)));
        }
        Ok(prepared)
    }

    /// Sets the nonce, signs, records and sends, one transaction of the key at a time. Transactions that settle no payment are not
    /// recorded.
    async fn send(&self, lane: &Lane, mut prepared: Prepared, settles: Option<(&Payment, &dyn Journal)>) -> Result<Signed, Stop> {
        let chain = &lane.chain;
        let mut next = lane.next.lock().await;
        let mut last = None;
        for _ in 0..BROADCAST_ATTEMPTS {
            // Taken out until the transaction is sent: if this call fails or is dropped, the nonce is in doubt, and the next call asks the
            // node.
            let number = match next.take() {
                Some(numbered) if numbered.at.elapsed() < NUMBER_TIME => numbered.next,
                _ => chain.provider().get_transaction_count(prepared.from).pending().await.map_err(Error::from_rpc)?,
            };
            prepared.nonce = prepared.nonce.max(number);
            let signed = chain.sign(&*self.wallet, &prepared).await?;
            if let Some((payment, journal)) = settles {
                if !self.under_way.note(chain, payment, &signed) {
                    return Err(Stop::Later("too many settlements have an end that is not known".to_owned()));
                }
                // A transaction that is not recorded could not be told from another server's settlement after a crash.
                if let Err(detail) = journal.record_sent(signed.hash).await {
                    self.under_way.forget(chain, payment);
                    return Err(Stop::Later(detail));
                }
            }
            match chain.broadcast(&signed).await {
                Ok(()) => {
                    *next = Some(Numbered { next: prepared.nonce.saturating_add(1), at: Instant::now() });
                    return Ok(signed);
                }
                // Another process uses the key, or the node had not counted the last transaction yet.
                Err(error @ (Error::NonceTooLow { .. } | Error::Underpriced { .. } | Error::NoFunds { .. })) => {
                    if let Some((payment, _)) = settles {
                        self.under_way.forget(chain, payment);
                    }
                    let is_final = matches!(error, Error::NoFunds { .. });
                    last = Some(error);
                    if is_final {
                        break;
                    }
                }
                // The node may have accepted it and failed to say so.
                Err(_) => return Ok(signed),
            }
            sleep(BROADCAST_PAUSE).await;
        }
        Err(Stop::Later(last.map_or_else(String::new, |error| error.to_string())))
    }

    /// Waits for a receipt, and retries temporary failures of the node.
    async fn wait(&self, chain: &Chain, signed: &Signed) -> Result<TransactionReceipt, Error> {
        let until = Instant::now() + self.receipt_time;
        loop {
            match chain.wait(signed, until.saturating_duration_since(Instant::now()), |_| {}).await {
                Err(error @ Error::Transport { .. }) if error.is_retryable() && Instant::now() < until => {}
                ended => return ended,
            }
            sleep(BROADCAST_PAUSE).await;
        }
    }

    async fn try_settle(&self, lane: &Lane, due: Due<'_>, journal: &dyn Journal) -> Result<Outcome, Stop> {
        let token = self.allowed(due)?;
        let chain = &lane.chain;
        let earlier = self.under_way.find(chain, due.payment);
        if let Some(signed) = &earlier {
            // Sends the same transaction again, in case it was lost. The result is ignored, because the outcome is read below.
            let _ = chain.broadcast(signed).await;
            if let Some(outcome) = self.end_of(lane, due, token, signed).await {
                return Ok(outcome);
            }
        }
        let sent = async {
            let (call, deployment) = self.admit(lane, due).await?;
            if let Some(deployment) = deployment {
                self.deploy(lane, &deployment, due.payment.authorization.from).await?;
            }
            let prepared = self.prepare(lane, token, due.payment, &call).await?;
            self.send(lane, prepared, Some((due.payment, journal))).await
        };
        let signed = match (sent.await, earlier) {
            (Ok(signed), _) => signed,
            // Once something was sent for a payment, a refusal is not certain any more.
            (Err(Stop::Never(reason)), Some(earlier)) => return Ok(unknown(&earlier, reason)),
            (Err(Stop::NotYet), Some(earlier)) => return Ok(unknown(&earlier, NOT_YET)),
            (Err(Stop::Later(detail)), Some(earlier)) => return Ok(unknown(&earlier, &detail)),
            (Err(Stop::Used), Some(earlier)) => return Ok(unknown(&earlier, "the nonce is used")),
            (Err(stop), _) => return Err(stop),
        };
        let outcome = self.end_of(lane, due, token, &signed).await;
        Ok(outcome.unwrap_or_else(|| unknown(&signed, "another transaction has its number")))
    }

    /// Waits for the outcome of a transaction that was sent. `None` if another transaction has its nonce, so that it will not be mined.
    async fn end_of(&self, lane: &Lane, due: Due<'_>, token: &asset::Token, signed: &Signed) -> Option<Outcome> {
        let trail = Trail { chain: &lane.chain, token: token.address, authorization: &due.payment.authorization };
        let error = match self.wait(&lane.chain, signed).await {
            Ok(receipt) => {
                self.under_way.forget(&lane.chain, due.payment);
                let is_paid = receipt.transaction_hash == signed.hash && pays(&receipt, trail.token, trail.authorization);
                let settled = Outcome::Settled { transaction: signed.hash };
                return Some(if is_paid { settled } else { unknown(signed, "it was mined without the transfer") });
            }
            Err(error) => error,
        };
        // After any failure, the next nonce has to be read from the node: this transaction may never be mined.
        *lane.next.lock().await = None;
        if matches!(error, Error::Failed { .. } | Error::Replaced { .. }) {
            self.under_way.forget(&lane.chain, due.payment);
        }
        match error {
            // Mined, and nothing moved. The outcome depends on whether something else has used the payment's nonce.
            Error::Failed { .. } => Some(match self.admit(lane, due).await {
                Ok(_) => Outcome::Refused { reason: "transfer_reverted".to_owned() },
                Err(Stop::Never(word)) => Outcome::Refused { reason: word.to_owned() },
                Err(Stop::Used) => Outcome::Replayed,
                Err(Stop::NotYet | Stop::Later(_)) => unknown(signed, &error.to_string()),
            }),
            Error::Replaced { .. } => None,
            error => Some(unknown(signed, &error.to_string())),
        }
    }

    async fn check_chain(&self, lane: &Lane) -> Option<Finding> {
        let chain = &lane.chain;
        let account = self.wallet.address();
        match chain.provider().get_balance(account).await.map_err(Error::from_rpc) {
            Ok(balance) if balance < self.max_fee => {
                let severity = if balance.is_zero() { Severity::Error } else { Severity::Warning };
                let finding = Finding::new(code::NO_GAS).severity(severity);
                let expected = format!("{} wei at {account} on {}", self.max_fee, chain.network().title);
                Some(finding.expected(expected).got(balance.to_string()))
            }
            Ok(_) => None,
            Err(error) => Some(trouble(&error)),
        }
    }
}

#[async_trait]
impl Settle for LocalSettlement {
    async fn check(&self, offers: &[Offer]) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut seen = Vec::new();
        for offer in offers {
            if !offer.pay_to.evm_address().is_some_and(|account| self.recipients.contains(&account)) {
                findings.push(Finding::new(code::RECIPIENT_NOT_ALLOWED).got(offer.pay_to.as_str()));
            }
            let Some(token) = pinned(offer) else {
                findings.push(Finding::new(code::ASSET_NOT_PINNED).got(offer.asset.as_str()));
                continue;
            };
            let Some(lane) = self.lane(offer) else {
                findings.push(Finding::new(code::NO_NODE).got(offer.network.as_str()));
                continue;
            };
            if seen.contains(&token.address) {
                continue;
            }
            // The table has one token on each chain.
            seen.push(token.address);
            match check_domain(&lane.chain, &domain(token)).await {
                Ok(()) => {
                    findings.extend(self.check_chain(lane).await);
                    findings.extend(self.skews.check(&lane.chain).await);
                }
                Err(error) => findings.push(trouble(&error)),
            }
        }
        findings
    }

    fn clock_skews(&self) -> Vec<(u64, i64)> {
        self.skews.all()
    }

    async fn verify(&self, due: Due<'_>) -> Verdict {
        if let Err(stop) = self.allowed(due) {
            return stop.into();
        }
        let Some(lane) = self.lane(due.offer) else { return Verdict::Unclear { detail: no_node(due) } };
        // The block is read first: in it, or before the next one, the nonce was unused.
        let newest = newest_block(&lane.chain).await;
        if let Ok(block) = newest {
            self.skews.seen(&lane.chain, block);
        }
        match self.admit(lane, due).await {
            Ok(_) => Verdict::Good { from_block: newest.ok().map(|block| block.number) },
            Err(stop) => stop.into(),
        }
    }

    async fn settle(&self, due: Due<'_>, _: Option<u64>, journal: &dyn Journal) -> Outcome {
        let ended = match (self.allowed(due), self.lane(due.offer)) {
            (Err(stop), _) => Err(stop),
            (Ok(_), None) => Err(Stop::Later(no_node(due))),
            (Ok(_), Some(lane)) => self.try_settle(lane, due, journal).await,
        };
        match ended {
            Ok(outcome) => outcome,
            Err(Stop::Never(word)) => Outcome::Refused { reason: word.to_owned() },
            Err(Stop::NotYet) => Outcome::NotAttempted { detail: NOT_YET.to_owned() },
            Err(Stop::Later(detail)) => Outcome::NotAttempted { detail },
            // Nothing was sent for it here, so another settlement used the nonce.
            Err(Stop::Used) => Outcome::Replayed,
        }
    }

    async fn look_up(&self, due: Due<'_>, record: &Record) -> Found {
        let Some(trail) = self.trail(due) else { return Found::Unclear { detail: no_node(due) } };
        let under_way = self.under_way.find(trail.chain, due.payment).map(|signed| signed.hash);
        let own = |transaction| [record.transaction, under_way].contains(&Some(transaction));
        let found = match find(trail, record).await {
            Ok(transfer) if own(transfer.transaction) => Found::Settled { transaction: transfer.transaction },
            Ok(transfer) => Found::Elsewhere { transaction: transfer.transaction },
            Err(found) => found,
        };
        if !matches!(found, Found::Open | Found::Unclear { .. }) {
            self.under_way.forget(trail.chain, due.payment);
        }
        found
    }
}

impl LocalSettlement {
    fn trail<'t>(&'t self, due: Due<'t>) -> Option<Trail<'t>> {
        let chain = &self.lane(due.offer)?.chain;
        Some(Trail { chain, token: pinned(due.offer)?.address, authorization: &due.payment.authorization })
    }
}

fn unknown(signed: &Signed, detail: &str) -> Outcome {
    Outcome::Unknown { transaction: Some(signed.hash), detail: detail.to_owned() }
}

/// Why a payment is not settled now. Nothing was sent.
#[derive(Debug)]
enum Stop {
    /// It never will be, for this reason.
    Never(&'static str),
    /// The nonce is used.
    Used,
    /// It is not valid yet.
    NotYet,
    /// A problem that is unrelated to the payment.
    Later(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Later(error.to_string())
    }
}

impl From<Stop> for Verdict {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Never(word) => Self::Bad { reason: word.to_owned() },
            Stop::Used => Self::Used,
            Stop::NotYet => Self::Unclear { detail: NOT_YET.to_owned() },
            Stop::Later(detail) => Self::Unclear { detail },
        }
    }
}

/// Encodes the transfer for the token: r, s and v for an account without code; any bytes for one with code, which the token verifies by
/// ERC-1271 and not by recovery, even if the account has a key (EIP-7702).
fn calldata(payment: &Payment, has_code: bool) -> Result<Bytes, Stop> {
    let Authorization { from, to, value, valid_after, valid_before, nonce } = payment.authorization;
    let (value, valid_after, valid_before) = (value.get(), U256::from(valid_after), U256::from(valid_before));
    let signature = payment.signature.canonical();
    // The token does not understand the ERC-6492 wrapper of a wallet's signature.
    let signature = match erc6492::unwrap(signature.as_bytes()) {
        Ok(Some(wrapped)) => wrapped.signature,
        Ok(None) => signature.as_bytes(),
        Err(_) => return Err(Stop::Never("invalid_signature")),
    };
    if has_code {
        let signature = Bytes::copy_from_slice(signature);
        let call = transferWithAuthorization_1Call {
            from,
            to,
            value,
            validAfter: valid_after,
            validBefore: valid_before,
            nonce,
            signature,
        };
        return Ok(call.abi_encode().into());
    }
    let signature = StrictSignature::from_slice(signature).map_err(|_| Stop::Never("invalid_signature"))?;
    let (v, r, s) = (signature.v(), signature.r(), signature.s());
    let call =
        transferWithAuthorization_0Call { from, to, value, validAfter: valid_after, validBefore: valid_before, nonce, v, r, s };
    Ok(call.abi_encode().into())
}

fn pinned(offer: &Offer) -> Option<&'static asset::Token> {
    asset::find(offer.network.evm_id()?, offer.asset.evm_address()?)
}

fn domain(token: &asset::Token) -> Domain {
    Domain::new(token.name, token.version, U256::from(token.chain), token.address)
}

/// Returns a warning for a chain that does not answer, and an error for any other problem.
fn trouble(error: &Error) -> Finding {
    let severity = if matches!(error, Error::DomainMismatch { .. }) { Severity::Error } else { Severity::Warning };
    Finding::new(error.code()).severity(severity).message(error.to_string())
}

fn no_node(due: Due<'_>) -> String {
    format!("there is no node for {}", due.offer.network.as_str())
}

/// Longest revert reason; a usual one is a sentence.
const MAX_REVERT_BYTES: usize = 1_024;

/// Pause before a transaction is sent with a new nonce, or a failed request is retried: less than a block of any chain.
const BROADCAST_PAUSE: Duration = Duration::from_millis(200);

const NOT_YET: &str = "the payment is not valid yet in the newest block";
