//! The middle of a call: policy, approval, another verification, and the reservation.

use std::fmt;

use toolcrib_core::caip::ToolRef;
use toolcrib_core::schema::Validator;
use toolcrib_core::tool::ToolManifest;
use toolcrib_verify::Verified;
use toolcrib_x402::asset::is_test_chain;
use toolcrib_x402::{Authorization, Challenge, Members, Payment, Resource, Signature, Version};

use super::ask::within_max_price;
use super::pay::echoed;
use super::{Candidate, Fit, Quote, Request};
use crate::approver::ApprovalRequest;
use crate::client::Exchanges;
use crate::denial::Subject;
use crate::ledger::{PaymentId, Spend};
use crate::{CallError, Client, Consent, SpendError, Terms};

/// Longest age in seconds of the verification when signing. A program approves at once; a person takes longer, and then the tool is
/// verified again.
pub const REVERIFY_SECONDS: i64 = 10;

/// Permission to sign one payment or proof of identity, once: the terms are verified or agreed to, the policy allows them, and the money is
/// reserved in the ledger.
///
/// Only [`Client::approve`] makes one, and [`Client::pay`] uses it up. It is neither cloneable nor deserialisable:
///
/// ```compile_fail
/// fn twice(approved: &toolcrib_client::Approved) -> toolcrib_client::Approved {
///     approved.clone()
/// }
/// ```
///
/// ```compile_fail
/// fn load(file: &str) -> toolcrib_client::Approved {
///     serde_json::from_str(file).unwrap()
/// }
/// ```
///
/// ```compile_fail
/// fn forge(terms: toolcrib_client::Terms) -> toolcrib_client::Approved {
///     toolcrib_client::Approved { terms }
/// }
/// ```
///
/// ```compile_fail
/// async fn pay_twice(client: &toolcrib_client::Client, approved: toolcrib_client::Approved) {
///     let first = client.pay(approved).await;
///     let second = client.pay(approved).await;
/// }
/// ```
pub struct Approved {
    pub(super) basis: Basis,
    pub(super) request: Request,
    pub(super) version: Version,
    pub(super) resource: Option<Resource>,
    pub(super) extensions: Members,
    pub(super) candidate: Candidate,
    /// The reservation; `None` if nothing is paid.
    pub(super) reservation: Option<PaymentId>,
    pub(super) bound: bool,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) subject: Subject,
    pub(super) exchanges: Exchanges,
}

/// Why a signature is allowed.
#[derive(Debug)]
pub(crate) enum Basis {
    /// A tool that was verified for this call, and how its outputs are checked.
    Tool { verified: Box<Verified<ToolManifest>>, outputs: Option<Validator> },
    /// A URL that the user named, with the user's policy for it.
    Url,
}

impl Basis {
    pub(crate) fn tool(&self) -> Option<ToolRef> {
        match self {
            Self::Tool { verified, .. } => Some(verified.tool()),
            Self::Url => None,
        }
    }
}

impl Approved {
    /// Returns what will be signed.
    pub const fn terms(&self) -> &Terms {
        &self.candidate.terms
    }

    /// Returns the payment in the ledger; `None` for a proof of identity, which costs nothing.
    pub const fn payment(&self) -> Option<PaymentId> {
        self.reservation
    }
}

impl fmt::Debug for Approved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Approved({} for {:?})", self.candidate.terms, self.basis.tool().map(|tool| tool.to_string()))
    }
}

impl Client {
    /// Chooses an offer, gets the approvals that it needs, verifies again if that took time, and reserves the money.
    pub async fn approve(&self, quote: Quote, consent: &Consent) -> Result<Approved, CallError> {
        let Quote { mut verified, request, challenge, candidates, outputs, bound, headers, subject, exchanges } = quote;
        let tool = verified.tool();
        let (candidate, spend) = self.select(candidates, Some(tool), &request, consent).await?;
        check_size(&candidate, &challenge)?;
        let is_agreed = candidate.fit == Fit::Agreed || consent.yes || consent.max_price.is_some();
        match &spend {
            Some(spend) => {
                if !is_agreed {
                    self.ask_to_spend(Some(tool), candidate.terms, spend).await?;
                }
                self.check_domain(candidate.token).await?;
            }
            None if is_agreed => {}
            None => self.ask_to_identify(tool, candidate.terms).await?,
        }
        let age = self.now().since(verified.at());
        if !(0..=REVERIFY_SECONDS).contains(&age) {
            let before = verified.manifest().hash();
            verified = self.verify(tool).await?;
            let after = verified.manifest().hash();
            if before != after {
                return Err(CallError::ChangedMeanwhile { before, after });
            }
        }
        let basis = Basis::Tool { verified: Box::new(verified), outputs };
        let approved = self.approved(basis, request, challenge, candidate, spend, exchanges).await?;
        Ok(Approved { bound, headers, subject, ..approved })
    }

    /// Asks for approval of an amount above the limit for payments without approval.
    pub(crate) async fn ask_to_spend(&self, tool: Option<ToolRef>, terms: Terms, spend: &Spend) -> Result<(), CallError> {
        let policy = &self.inner.policy;
        let question = ApprovalRequest::Spend { tool, terms, account: spend.payer, ask_above: policy.ask_above };
        if policy.asks(spend.amount) && !self.inner.approver.approve(&question).await {
            return Err(CallError::NotApproved { terms });
        }
        Ok(())
    }

    /// Asks for approval of a proof of identity, if the policy requires that.
    async fn ask_to_identify(&self, tool: ToolRef, terms: Terms) -> Result<(), CallError> {
        let account = self.account().ok_or(CallError::NoWallet)?;
        let question = ApprovalRequest::Identity { tool, terms, account };
        if self.inner.policy.ask_identity == Some(true) && !self.inner.approver.approve(&question).await {
            return Err(CallError::IdentityNotApproved { terms });
        }
        Ok(())
    }

    /// Makes the permission to sign. The caller has checked everything except the budgets.
    pub(crate) async fn approved(
        &self,
        basis: Basis,
        request: Request,
        challenge: Challenge,
        candidate: Candidate,
        spend: Option<Spend>,
        exchanges: Exchanges,
    ) -> Result<Approved, CallError> {
        let reservation = match spend {
            Some(spend) => Some(self.inner.ledger.reserve(&spend, &self.inner.policy, self.now()).await?),
            None => None,
        };
        let Challenge { version, resource, extensions, .. } = challenge;
        Ok(Approved {
            basis,
            request,
            version,
            resource,
            extensions,
            candidate,
            reservation,
            bound: false,
            headers: Vec::new(),
            subject: Subject::default(),
            exchanges,
        })
    }

    /// Withdraws an approval that will not be used. Otherwise its money is released when the reservation expires.
    pub async fn withdraw(&self, approved: Approved) -> Result<(), CallError> {
        if let Some(id) = approved.reservation {
            self.inner.ledger.release(id, "withdrawn before it was signed", self.now()).await?;
        }
        Ok(())
    }

    /// Checks that terms are on an allowed network: the one that was named, and test or real like the tool's.
    pub(super) fn check_network(&self, terms: &Terms, tool: Option<ToolRef>, consent: &Consent) -> Result<(), CallError> {
        let asked = terms.chain;
        // A proof of identity for a verified tool moves nothing, and servers ask for it on any network that they know. The network that the
        // user named restricts the tool's registration, not the proof.
        let is_proof = tool.is_some() && terms.amount.is_zero();
        if let Some(allowed) = self.inner.only_chains.as_ref().filter(|_| !is_proof && !self.is_allowed(asked)) {
            return Err(CallError::OtherNetwork { asked, allowed: allowed.clone() });
        }
        let is_agreed = is_proof || consent.terms == Some(*terms);
        match tool {
            Some(tool) if is_test_chain(tool.chain) != is_test_chain(asked) && !is_agreed => {
                Err(CallError::OtherNetwork { asked, allowed: vec![tool.chain] })
            }
            _ => Ok(()),
        }
    }

    /// Returns the first candidate that the policy allows and the wallet can pay. Without one: why the first is refused.
    pub(crate) async fn select(
        &self,
        candidates: Vec<Candidate>,
        tool: Option<ToolRef>,
        request: &Request,
        consent: &Consent,
    ) -> Result<(Candidate, Option<Spend>), CallError> {
        let wallet = self.inner.wallet.as_ref().ok_or(CallError::NoWallet)?.address();
        let (mut first, mut unfunded) = (None, Vec::new());
        for candidate in candidates {
            if let Err(error) = self.check_network(&candidate.terms, tool, consent) {
                first.get_or_insert(error);
                continue;
            }
            if candidate.terms.amount.is_zero() {
                return Ok((candidate, None));
            }
            let checked = self.spend_of(&candidate.terms, tool, request).and_then(|spend| {
                within_max_price(&spend, consent)?;
                self.inner.policy.check(&spend)?;
                Ok(spend)
            });
            let spend = match checked {
                Ok(spend) => spend,
                Err(error) => {
                    first.get_or_insert(error);
                    continue;
                }
            };
            match self.balance(candidate.token, wallet).await? {
                Some(balance) if balance < candidate.terms.amount.get() => unfunded.push(candidate.terms),
                _ => return Ok((candidate, Some(spend))),
            }
        }
        Err(match (unfunded.is_empty(), first) {
            (true, Some(error)) => error,
            (true, None) => SpendError::Amount.into(),
            (false, _) => CallError::Funds { wallet, wanted: unfunded },
        })
    }
}

/// Checks whether the payment will fit into a header, before anything is reserved or signed: parts of a challenge of version 2 have to be
/// echoed.
pub(crate) fn check_size(candidate: &Candidate, challenge: &Challenge) -> Result<(), CallError> {
    let unsendable =
        || CallError::NoPayableOffer { reasons: vec!["what has to be sent back does not fit into a header".to_owned()] };
    let authorization = Authorization {
        from: candidate.terms.pay_to,
        to: candidate.terms.pay_to,
        value: candidate.terms.amount,
        valid_after: u64::MAX,
        valid_before: u64::MAX,
        nonce: alloy_primitives::B256::ZERO,
    };
    let signature = Signature::new(vec![0; 65]).ok_or_else(unsendable)?;
    let (resource, extensions) = (challenge.resource.clone(), echoed(&challenge.extensions, &alloy_primitives::B256::ZERO));
    let payment = Payment::new(challenge.version, &candidate.offer, authorization, signature, resource, extensions);
    payment.to_header().map(drop).ok_or_else(unsendable)
}
