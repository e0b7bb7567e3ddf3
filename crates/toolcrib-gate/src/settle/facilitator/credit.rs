//! Which transfers count as those of a facilitator's settlement.
//!
//! The chain shows that the signed transfer was made, not for which server. Servers with separate stores may get the same payment, so a
//! transfer is credited by what the facilitator said:
//!
//! | the facilitator | the transfer is credited |
//! |---|---|
//! | named its transaction | yes |
//! | named a transaction that failed | no, another one came first |
//! | named a transaction that is not mined | not before the transfer is final and the node does not have the other one any more; then as if it had named none |
//! | named a transaction that does something else | as if it had named none |
//! | said that this request sent none | no |
//! | named none: its response was lost, or cannot be read | if one of its announced signers sent it |
//!
//! If no other server is paid to this recipient, every transfer is credited, whatever the facilitator said.
//!
//! A transfer that is neither credited nor shown to be another server's leaves the payment unknown: its result is kept, and the operator
//! gets the reason. The result of a transfer that is shown to be another server's is kept too, for as long as other results: its payer has
//! paid.

use std::collections::BTreeSet;

use toolcrib_chain::settlement::{Trail, TransactionProof};
use toolcrib_core::codes::settlement as code;
use toolcrib_core::finding::Finding;
use toolcrib_x402::{FacilitatorAnswer, Offer, Supported, read_supported};

use super::{Facilitator, FacilitatorCall};
use crate::settle::lookup::Transfer;
use crate::settle::{Due, Found, NONE_SENT, REFUSED, Record};

impl Facilitator {
    /// Judges a transfer that the chain shows after the payment was reserved.
    pub(super) async fn credit(&self, due: Due<'_>, trail: Trail<'_>, record: &Record, transfer: Transfer) -> Found {
        let Transfer { transaction, is_final, .. } = transfer;
        // There is no other server to which the transfer could belong.
        if self.is_sole_recipient {
            return Found::Settled { transaction };
        }
        let named = match record.transaction {
            Some(named) if named == transaction => return Found::Settled { transaction },
            Some(NONE_SENT | REFUSED) => return Found::Elsewhere { transaction },
            Some(named) => named,
            None => return self.credit_unnamed(due, transfer).await,
        };
        let unclear = |detail: String| Found::Unclear { detail };
        match trail.proof_in(named).await {
            Ok(TransactionProof::Failed) => Found::Elsewhere { transaction },
            Ok(TransactionProof::Other) => self.credit_unnamed(due, transfer).await,
            Ok(TransactionProof::Pays { .. }) => unclear(format!("the node has the transfer in {named} and in {transaction}")),
            // It can still be mined, and fail then. A facilitator that replaces a transaction to raise its fee names one that never is
            // mined.
            Ok(TransactionProof::Missing) if !is_final => Found::Open,
            Ok(TransactionProof::Missing) => match trail.is_known(named).await {
                Ok(true) => Found::Open,
                Ok(false) => self.credit_unnamed(due, transfer).await,
                Err(error) => unclear(error.to_string()),
            },
            Err(error) => unclear(error.to_string()),
        }
    }

    /// Judges a transfer for which the facilitator has named no transaction.
    async fn credit_unnamed(&self, due: Due<'_>, transfer: Transfer) -> Found {
        let Transfer { transaction, sender, .. } = transfer;
        let network = &due.offer.network;
        if self.signers.contains(network, sender) {
            return Found::Settled { transaction };
        }
        let asked = match self.signers.last_asked() {
            Some(asked) => asked,
            None => self.supported().await.map(drop),
        };
        let transfer = format!("the transfer is in {transaction}, sent by {sender}");
        match asked {
            Ok(()) if self.signers.contains(network, sender) => Found::Settled { transaction },
            Ok(()) if self.signers.is_empty_on(network) => {
                Found::Unclear { detail: format!("{transfer}, and the facilitator announces no signers") }
            }
            Ok(()) => Found::Unclear { detail: format!("{transfer}, which is no signer that the facilitator announces") },
            Err(detail) => {
                Found::Unclear { detail: format!("{transfer}, and the facilitator's signers are not known: {detail}") }
            }
        }
    }

    /// Asks the facilitator what it settles, and keeps the signers that it announces.
    pub(super) async fn supported(&self) -> Result<Supported, String> {
        let answer = self.ask(FacilitatorCall::Supported, None).await;
        let (supported, findings) = match answer.as_facilitator_answer() {
            FacilitatorAnswer::Answered { status: 200..=299, body } => read_supported(body),
            _ => (None, Vec::new()),
        };
        let supported = supported.ok_or_else(|| answer.detail(&findings));
        match &supported {
            Ok(supported) => self.signers.announced(supported),
            Err(detail) => self.signers.failed(detail),
        }
        supported
    }

    /// Returns warnings about networks without signers, where a lost response leaves payments unknown.
    pub(super) fn missing_signers(&self, supported: &Supported, offers: &[Offer]) -> Vec<Finding> {
        if self.is_sole_recipient {
            return Vec::new();
        }
        let has_none = |offer: &&Offer| self.chain(offer).is_some() && supported.signers_on(&offer.network).next().is_none();
        let networks: BTreeSet<_> = offers.iter().filter(has_none).map(|offer| offer.network.as_str()).collect();
        networks.into_iter().map(|network| Finding::new(code::NO_SIGNERS).got(network)).collect()
    }
}
