//! Finding the outcome of a payment that is not known to have settled: from the chain, and by sending the same payment to the server again.

use alloy_primitives::B256;
use toolcrib_chain::settlement::{AuthorizationOutcome, SearchFrom, Trail};
use toolcrib_core::url::HttpsUrl;
use toolcrib_x402::{Authorization, Method, Offer, asset, read_payment};

use crate::denial::Subject;
use crate::ledger::{Evidence, LEASE_SECONDS, PaymentId, State};
use crate::steps::{Basis, Request, Sent, credentials, finish, for_the_record, outputs_of};
use crate::{CallError, Called, Client, Terms};

/// Most seconds that clocks and chains may differ, if no block was recorded with a payment.
const SKEW_SECONDS: u64 = 3_600;

/// The outcome of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resolution {
    /// It settled, in this transaction if that could be found.
    Settled(Option<B256>),
    /// It can never settle; the money is released.
    Released,
    /// Unused so far and still valid, or its use may still be replaced: the outcome is open.
    Open,
}

impl Client {
    /// Finds the outcome of a payment on the chain, and records it in the ledger.
    pub async fn resolve(&self, id: PaymentId) -> Result<Resolution, CallError> {
        let entry = self.inner.ledger.entry(id).await?;
        let now = self.now();
        match entry.state {
            // A settlement that only a server has stated is looked up, if there is a node.
            State::Settled if entry.is_confirmed || !self.inner.chains.contains_key(&entry.spend.chain) => {
                return Ok(Resolution::Settled(entry.transaction));
            }
            State::Released => return Ok(Resolution::Released),
            State::Reserved if now.since(entry.created_at) > LEASE_SECONDS => {
                self.inner.ledger.release(id, "never signed", now).await?;
                return Ok(Resolution::Released);
            }
            State::Reserved => return Ok(Resolution::Open),
            State::Signed | State::Unknown | State::Settled => {}
        }
        // A signed payment has a nonce; a row without one was not written by this program.
        let nonce = entry.nonce.ok_or(CallError::NotResumable { payment: id })?;
        let chain = self.chain(entry.spend.chain)?;
        let spend = &entry.spend;
        let authorization = Authorization {
            from: spend.payer,
            to: spend.recipient,
            value: spend.amount.amount(),
            // Only the end of its validity matters for what the chain can still do with it.
            valid_after: 0,
            valid_before: entry.valid_before,
            nonce,
        };
        let trail = Trail { chain, token: spend.asset, authorization: &authorization };
        let from = match entry.from_block.checked_sub(1) {
            Some(block) => SearchFrom::After(block),
            // No node was asked when it was signed.
            None => SearchFrom::Time(u64::try_from(entry.created_at.seconds()).unwrap_or_default().saturating_sub(SKEW_SECONDS)),
        };
        let ledger = &self.inner.ledger;
        match trail.find(from).await? {
            AuthorizationOutcome::Settled { transaction, .. } => {
                ledger.settle(id, Some(transaction), Evidence::Chain, "as the chain says", now).await?;
                Ok(Resolution::Settled(Some(transaction)))
            }
            // For another transfer: money of this account may have moved, so it counts as spent.
            AuthorizationOutcome::UsedElsewhere => {
                let note = "used for another transfer, as the chain says";
                ledger.settle(id, None, Evidence::Chain, note, now).await?;
                Ok(Resolution::Settled(None))
            }
            AuthorizationOutcome::Cancelled => {
                ledger.release(id, "cancelled, as the chain says", now).await?;
                Ok(Resolution::Released)
            }
            AuthorizationOutcome::Expired => {
                ledger.release(id, "expired unused, as the chain says", now).await?;
                Ok(Resolution::Released)
            }
            AuthorizationOutcome::Open if entry.state == State::Settled => {
                ledger.reopen(id, "the server says that it settled, and the chain does not show it", now).await?;
                Ok(Resolution::Open)
            }
            AuthorizationOutcome::Open | AuthorizationOutcome::Unclear { .. } => Ok(Resolution::Open),
        }
    }

    /// Sends the same payment again, with the proof that it is this client's, to redeem the result of a call that was paid for. Nothing new
    /// is signed. Also works for settled payments, until the server removes the result.
    pub async fn resume(&self, id: PaymentId) -> Result<Called, CallError> {
        let not_resumable = || CallError::NotResumable { payment: id };
        let entry = self.inner.ledger.entry(id).await?;
        let kept = entry.request.clone().ok_or_else(not_resumable)?;
        let payment = read_payment(kept.version, &kept.payment).payment.ok_or_else(not_resumable)?;
        let url = HttpsUrl::parse(&kept.url).map_err(|_| not_resumable())?;
        let spend = &entry.spend;
        let basis = match spend.tool {
            Some(tool) => {
                let verified = self.verify(tool).await?;
                // The manifest may have moved the tool to another server, which must not get this payment.
                if !verified.manifest().endpoint().same_origin(&url) {
                    return Err(not_resumable());
                }
                let outputs = outputs_of(verified.manifest());
                Basis::Tool { verified: Box::new(verified), outputs }
            }
            None => Basis::Url,
        };
        let token = asset::find(spend.chain, spend.asset).ok_or_else(not_resumable)?;
        let offer = Offer::exact(token, spend.amount.amount(), spend.recipient, 1).ok_or_else(not_resumable)?;
        let terms = Terms { chain: spend.chain, asset: spend.asset, amount: spend.amount.amount(), pay_to: spend.recipient };
        let method = if kept.method == Method::Get.as_str() { Method::Get } else { Method::Post };
        let request = Request { url, method, body: kept.body, chain: Some(spend.tool.map_or(spend.chain, |tool| tool.chain)) };
        let tool = spend.tool.map(|tool| tool.to_string());
        let extra = credentials(&payment, &kept.payment, kept.salt, tool.as_deref(), kept.retry_token.as_deref());
        let extra: Vec<_> = extra.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let exchange = request.send(&self.inner.door, &extra, self.inner.paid_limits).await?;
        let (subject, exchanges) = (Subject::default(), vec![for_the_record(&exchange)]);
        let sent = Sent { basis, payment, offer, terms, id: Some(id), subject, exchanges };
        finish(self, sent, exchange).await
    }
}
