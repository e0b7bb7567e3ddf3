//! The second half of a call: one signature, one request with it, and the outcome of both.

use alloy_primitives::B256;
use toolcrib_chain::network::LOCAL_CHAIN_ID;
use toolcrib_chain::sign::{TransferAuthorization, TransferKind};
use toolcrib_chain::wallet::{DEV_ACCOUNTS, Scope, Wallet, WalletError};
use toolcrib_core::codes::call as code;
use toolcrib_core::codes::payment::REPLAYED;
use toolcrib_core::finding::Finding;
use toolcrib_judge::evidence::{Exchange, Response};
use toolcrib_x402::nonce::{self, BoundCall, BoundNonce};
use toolcrib_x402::{Authorization, Members, Offer, Payment, Signature, header, payment_id};

use super::answer::{no_answer, read_output};
use super::receipt::{self, Stated};
use super::{Approved, Basis, Called, Paid, Request};
use crate::client::{Exchanges, domain};
use crate::denial::Subject;
use crate::ledger::{Evidence, PaymentId, Signing, State};
use crate::{CallError, Client, ServerWords, SpendError, Terms};

/// Longest validity of a signature in seconds, whatever a challenge allows: what public clients sign for, and gates accept.
pub const MAX_LIFETIME_SECONDS: u64 = 600;

/// Validity in seconds of a signature if the challenge does not say.
const DEFAULT_LIFETIME_SECONDS: u64 = 300;

/// How many seconds before now a signature becomes valid, for chains and servers whose clocks are behind.
const BACKDATED_SECONDS: u64 = 600;

/// A request that was sent with a payment, and what is needed to read the response.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) basis: Basis,
    pub(crate) payment: Payment,
    pub(crate) offer: Offer,
    pub(crate) terms: Terms,
    /// The payment in the ledger; `None` for a proof of identity.
    pub(crate) id: Option<PaymentId>,
    /// The account whose access is explained if it is denied.
    pub(crate) subject: Subject,
    pub(crate) exchanges: Exchanges,
}

impl Client {
    /// Signs what was approved, sends the request once more with it, and reads the response. There is no second signature and no third
    /// request, whatever the response.
    pub async fn pay(&self, approved: Approved) -> Result<Called, CallError> {
        let wallet = self.inner.wallet.clone().ok_or(CallError::NoWallet)?;
        let id = approved.reservation;
        let (payment, salt) = match self.sign(&approved, &*wallet).await {
            Ok(signed) => signed,
            Err((error, was_signed)) => {
                let Some(id) = id else { return Err(error) };
                if was_signed {
                    return Err(error.after_signing(id));
                }
                // Never signed, so the money is released at once. If the ledger cannot be written, the reservation expires.
                let _ = self.inner.ledger.release(id, "not signed", self.now()).await;
                return Err(error);
            }
        };
        let Approved { basis, request, candidate, headers, subject, exchanges, .. } = approved;
        let mut sent = Sent { basis, payment, offer: candidate.offer, terms: candidate.terms, id, subject, exchanges };
        // Approval has checked the size.
        let value = sent.payment.to_header().ok_or(CallError::NoPayableOffer { reasons: Vec::new() })?;
        if let Some(id) = id {
            let kept = self.inner.ledger.attach(id, &value, salt, self.now()).await;
            kept.map_err(|error| CallError::from(error).after_signing(id))?;
        }
        let tool = sent.basis.tool().map(|tool| tool.to_string());
        let extra = credentials(&sent.payment, &value, salt, tool.as_deref(), None);
        let extra: Vec<_> = extra.iter().chain(&headers).map(|(name, value)| (*name, value.as_str())).collect();
        let exchange = request.send(&self.inner.door, &extra, self.inner.paid_limits).await?;
        sent.exchanges.push(for_the_record(&exchange));
        finish(self, sent, exchange).await
    }

    /// Asks the wallet. The error says whether a signature may exist.
    async fn sign(&self, approved: &Approved, wallet: &dyn Wallet) -> Result<(Payment, Option<B256>), (CallError, bool)> {
        let before = |error: CallError| (error, false);
        let candidate = &approved.candidate;
        let (terms, token) = (&candidate.terms, candidate.token);
        let now = self.now();
        let seconds = u64::try_from(now.seconds()).unwrap_or(0);
        let lifetime = candidate.offer.max_timeout_seconds.unwrap_or(DEFAULT_LIFETIME_SECONDS).min(MAX_LIFETIME_SECONDS);
        let (nonce, salt) = make_nonce(approved).map_err(before)?;
        let extensions = echoed(&approved.extensions, &random().map_err(before)?);
        let authorization = Authorization {
            from: wallet.address(),
            to: terms.pay_to,
            value: terms.amount,
            valid_after: seconds.saturating_sub(BACKDATED_SECONDS),
            valid_before: seconds.saturating_add(lifetime),
            nonce,
        };
        let mut scope = self.scope(terms.chain).await.map_err(before)?;
        // Servers ask for proofs of identity on the networks that stock clients know, also for a tool on a development chain. A proof moves
        // nothing, so a development account may sign it there.
        let is_development = approved.basis.tool().is_some_and(|tool| tool.chain == LOCAL_CHAIN_ID);
        if is_development && terms.amount.is_zero() && DEV_ACCOUNTS.contains(&wallet.address()) {
            scope = Scope::impersonated(terms.chain);
        }
        let cleared = scope.clear(wallet).map_err(|error| before(error.into()))?;
        if let Some(id) = approved.reservation {
            // The block only helps to look up the payment later.
            let from_block = match self.inner.chains.get(&terms.chain) {
                Some(chain) => chain.block_number().await.unwrap_or(0),
                None => 0,
            };
            let signing = Signing {
                nonce,
                valid_before: authorization.valid_before,
                from_block,
                method: approved.request.method.as_str(),
                url: approved.request.url.normalized(),
                body: &approved.request.body,
                version: approved.version,
            };
            self.inner.ledger.sign(id, &signing, now).await.map_err(|error| before(error.into()))?;
        }
        let transfer = TransferAuthorization::from(&authorization);
        let domain = domain(token);
        let data = transfer.typed_data(TransferKind::Transfer, &domain);
        let signature = wallet.sign_typed_data(&data, cleared).await.map_err(|error| {
            // A wallet whose response was lost may have signed.
            let was_signed = matches!(error, WalletError::Io { .. });
            (error.into(), was_signed)
        })?;
        let after = |error: CallError| (error, true);
        // If the wallet signs something else, it is not asked again, and its signature is not sent.
        signature
            .check(transfer.digest(TransferKind::Transfer, &domain), authorization.from)
            .map_err(|error| after(toolcrib_chain::Error::from(error).into()))?;
        let signature = Signature::new(signature.canonical().to_vec())
            .ok_or_else(|| after(CallError::Wallet(WalletError::Refused { reason: "it gave no signature".to_owned() })))?;
        let resource = approved.resource.clone();
        Ok((Payment::new(approved.version, &candidate.offer, authorization, signature, resource, extensions), salt))
    }
}

/// Returns the extensions of a challenge as they are echoed: as they were declared, a payment identifier with an ID.
///
/// The ID is a secret, since a party that sends it with the public payment may get the result; so it is not the payment's ID in the ledger.
/// The ledger keeps the payment as it was sent, and a retry carries the same ID.
pub(super) fn echoed(declared: &Members, random: &B256) -> Members {
    let mut extensions = declared.clone();
    payment_id::append(&mut extensions, &format!("pay_{}", alloy_primitives::hex::encode(&random[..16])));
    extensions
}

/// Returns a nonce that commits to the call, with its salt, or 32 random bytes.
fn make_nonce(approved: &Approved) -> Result<(B256, Option<B256>), CallError> {
    if let (true, Some(tool)) = (approved.bound, approved.basis.tool()) {
        let Request { method, body, .. } = &approved.request;
        let call = BoundCall { tool, method: method.as_str(), target: approved.request.target(), body };
        let bound = BoundNonce::make(&call, random()?);
        return Ok((bound.nonce, Some(bound.salt)));
    }
    loop {
        // One in four thousand million has the prefix of bound nonces and would be refused.
        let nonce = random()?;
        if !nonce::is_marked(nonce) {
            return Ok((nonce, None));
        }
    }
}

pub(super) fn random() -> Result<B256, CallError> {
    let mut bytes = B256::ZERO;
    getrandom::fill(bytes.as_mut_slice()).map_err(|_| SpendError::Random)?;
    Ok(bytes)
}

/// Returns the headers that carry a payment and prove who made it.
pub(crate) fn credentials(
    payment: &Payment,
    value: &str,
    salt: Option<B256>,
    tool: Option<&str>,
    retry_token: Option<&str>,
) -> Vec<(&'static str, String)> {
    let mut headers = vec![(payment.version.payment_header(), value.to_owned())];
    if let Some(salt) = salt {
        headers.push((header::X_TOOL_NONCE_SALT, salt.to_string()));
        headers.extend(tool.map(|tool| (header::X_TOOL_REFERENCE, tool.to_owned())));
    }
    headers.extend(retry_token.map(|token| (header::X_TOOL_RETRY_TOKEN, token.to_owned())));
    headers
}

/// Reads the response to a payment: updates the ledger first, then returns the result.
pub(crate) async fn finish(client: &Client, sent: Sent, exchange: Exchange) -> Result<Called, CallError> {
    let ledger = &client.inner.ledger;
    let Some(response) = exchange.complete() else {
        let Some(id) = sent.id else { return Err(no_answer(exchange)) };
        let reason =
            exchange.failure.as_ref().map_or_else(String::new, |failure| format!("{}: {}", failure.code, failure.detail));
        let mut reason = toolcrib_core::text::escape_for_display(&reason);
        match ledger.unknown(id, None, &reason, client.now()).await {
            // What is recorded about it stays: only its result is missing.
            Ok(()) | Err(SpendError::State { state: State::Settled | State::Released, .. }) => {}
            Err(error) => reason.push_str(&format!("; the ledger could not be written: {error}")),
        }
        return Err(CallError::Indeterminate { payment: id, reason, words: None });
    };
    let status = response.status;
    let mut findings = Vec::new();
    let mut paid = None;
    if let Some(id) = sent.id {
        paid = Some(match record(client, id, &sent, response, &mut findings).await {
            Ok(paid) => paid,
            // The ledger counts it as spent, and the response is here: it is not discarded because of a failed write.
            Err(error) => {
                findings.push(Finding::new(code::NOT_RECORDED).message(format!("payment {id} could not be recorded: {error}")));
                let (terms, payer) = (sent.terms, sent.payment.authorization.from);
                Paid { id, terms, payer, receipt: None, transaction: None, evidence: None, state: State::Signed }
            }
        });
    }
    match status {
        200..=299 => {}
        300..=399 => return Err(CallError::Redirected { status, payment: sent.id }),
        402 => return Err(CallError::PaymentRefused { words: ServerWords::of(response), payment: sent.id }),
        403 => {
            let Some(tool) = sent.basis.tool() else {
                return Err(CallError::Refused { words: ServerWords::of(response), payment: sent.id });
            };
            return Err(client.denied(tool, sent.id, &sent.subject, response).await);
        }
        _ => {
            let words = ServerWords::of(response);
            // A server that fails, or that has seen the payment already, may have been paid.
            return Err(match paid {
                Some(Paid { id, state: State::Unknown, .. }) if status >= 500 || matches!(status, 408 | 409 | 425 | 429) => {
                    CallError::Indeterminate { payment: id, reason: format!("status {status}"), words: Some(words) }
                }
                // Used up: the result was returned and removed, or bought elsewhere. A retry gets nothing.
                Some(Paid { state: State::Settled, .. }) if words.code.as_deref() == Some(REPLAYED.id()) => {
                    CallError::Refused { words, payment: sent.id }
                }
                Some(Paid { id, state: State::Settled, .. }) => CallError::PaidNotServed { payment: id, words },
                _ => CallError::Refused { words, payment: sent.id },
            });
        }
    }
    let (output, manifest_hash, prefilled) = match &sent.basis {
        Basis::Tool { verified, outputs } => {
            let output = read_output(response, outputs.as_ref(), paid.as_ref())?;
            (Some(output), Some(verified.manifest().hash()), verified.manifest().prefilled().to_vec())
        }
        Basis::Url => (serde_json::from_slice(response.body.as_bytes()).ok(), None, Vec::new()),
    };
    let identity = paid.is_none().then_some(sent.payment.authorization.from);
    let body = response.body.0.clone();
    let (tool, exchanges) = (sent.basis.tool(), sent.exchanges);
    Ok(Called { output, body, tool, manifest_hash, paid, identity, prefilled, findings, exchanges })
}

/// Records the outcome of a payment in the ledger, before it is reported anywhere else.
async fn record(
    client: &Client,
    id: PaymentId,
    sent: &Sent,
    response: &Response,
    findings: &mut Vec<Finding>,
) -> Result<Paid, CallError> {
    let ledger = &client.inner.ledger;
    // Also for a good response, and before any slow step: this process may end at any time.
    let token = response.header(&header::X_TOOL_RETRY_TOKEN.to_ascii_lowercase()).next().map(str::trim);
    let token = token.filter(|token| token.len() <= MAX_RETRY_TOKEN_BYTES);
    let seconds = response.header(&header::X_TOOL_REDEEMABLE_SECONDS.to_ascii_lowercase()).next();
    let seconds = seconds.and_then(|seconds| seconds.trim().parse().ok());
    match ledger.keep_redemption(id, token, seconds, client.now()).await {
        // It was released meanwhile, so there is nothing to redeem.
        Ok(()) | Err(SpendError::State { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let receipt = receipt::receipt(response, sent, findings);
    let stated = receipt::check(client, sent, receipt.as_ref(), findings).await;
    let now = client.now();
    match stated {
        Stated::Settled(transaction, evidence) => {
            let note = match evidence {
                Evidence::Chain => "as the server and the chain say",
                Evidence::Server => "as the server says",
            };
            ledger.settle(id, Some(transaction), evidence, note, now).await?;
        }
        Stated::Unconfirmed(transaction) => open(client, id, response, findings, Some(transaction)).await?,
        Stated::Nothing => open(client, id, response, findings, None).await?,
    }
    // The ledger may know more than this response says.
    let entry = ledger.entry(id).await?;
    let (transaction, evidence, state) = (entry.transaction, entry.evidence(), entry.state);
    Ok(Paid { id, terms: sent.terms, payer: sent.payment.authorization.from, receipt, transaction, evidence, state })
}

/// Records that a payment is open, and why, unless more is known already.
async fn open(
    client: &Client,
    id: PaymentId,
    response: &Response,
    findings: &[Finding],
    stated: Option<B256>,
) -> Result<(), CallError> {
    let words = ServerWords::of(response);
    let mut note = format!("status {}", words.status);
    for text in words.code.iter().chain(&words.message).chain(findings.iter().map(|finding| &finding.message)) {
        note.push_str("; ");
        note.push_str(&toolcrib_core::text::escape_for_display(text));
    }
    match client.inner.ledger.unknown(id, stated, &note, client.now()).await {
        Ok(()) | Err(SpendError::State { state: State::Settled | State::Released, .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns an exchange without the token that would redeem the result: records are shown to others.
pub(crate) fn for_the_record(exchange: &Exchange) -> Exchange {
    let mut record = exchange.clone();
    if let Some(response) = &mut record.response {
        response.headers.retain(|(name, _)| !name.eq_ignore_ascii_case(header::X_TOOL_RETRY_TOKEN));
    }
    record
}

/// Longest retry token that is kept. Toolcrib's has 64 digits.
const MAX_RETRY_TOKEN_BYTES: usize = 512;
