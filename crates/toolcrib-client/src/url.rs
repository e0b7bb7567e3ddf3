//! Endpoints without a manifest: any x402 server, of either version.
//!
//! Such a server is not verified, so nothing is signed by default: the caller names the highest amount and the recipients, or exact terms.
//! The spend policy and its ledger apply as for tools. Nonces are random, since there is no tool to bind them to.

use alloy_primitives::Address;
use toolcrib_core::url::HttpsUrl;
use toolcrib_x402::Challenge;
use toolcrib_x402::asset::is_test_chain;

use crate::denial::Subject;
use crate::steps::{Basis, Candidate, Fit, Request, check_size, no_answer, payable, read_challenge, wanted};
use crate::{CallError, CallMethod, Called, Client, Consent, ServerWords, SignInRequest, Terms, Usdc};

/// What a URL may ask for. Nothing by default: not even a proof of identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UrlPolicy {
    /// The highest amount. 0 allows only proofs of identity to the recipients.
    pub max_amount: Usdc,
    /// The accounts that may be recipients of payments and proofs of identity.
    pub recipients: Vec<Address>,
    /// Exactly these terms are approved.
    pub terms: Option<Terms>,
    /// The chain of the development environment that has the URL; only for hosts below `localhost`.
    pub dev_chain: Option<u64>,
    /// Amounts that would need approval are approved, within the spend policy's limits.
    pub yes: bool,
    /// Signing in with a message is approved, if the URL asks for that and nothing else.
    pub sign_in: bool,
}

impl UrlPolicy {
    /// Allows only a proof of identity for this recipient.
    pub fn identity(recipient: Address) -> Self {
        Self { recipients: vec![recipient], ..Self::default() }
    }

    fn allows(&self, terms: &Terms) -> bool {
        self.terms == Some(*terms) || (self.recipients.contains(&terms.pay_to) && terms.amount <= self.max_amount.amount())
    }
}

impl Client {
    /// Calls an endpoint that **the user** named, and pays for it what the policy allows. `body` is JSON text for POST, and not sent with
    /// GET.
    pub async fn call_url(
        &self,
        url: &HttpsUrl,
        method: CallMethod,
        body: &[u8],
        policy: &UrlPolicy,
    ) -> Result<Called, CallError> {
        let body = if method == CallMethod::Post { body.to_vec() } else { Vec::new() };
        let request = Request { url: url.clone(), method, body, chain: policy.dev_chain };
        let exchange = request.send(&self.inner.door, &[], self.inner.limits).await?;
        let Some(response) = exchange.complete().cloned() else { return Err(no_answer(exchange)) };
        match response.status {
            200..=299 => {
                return Ok(Called {
                    output: serde_json::from_slice(response.body.as_bytes()).ok(),
                    body: response.body.0,
                    tool: None,
                    manifest_hash: None,
                    paid: None,
                    identity: None,
                    prefilled: Vec::new(),
                    findings: Vec::new(),
                    exchanges: vec![exchange],
                });
            }
            401 | 402 => {}
            300..=399 => return Err(CallError::Redirected { status: response.status, payment: None }),
            _ => return Err(CallError::Refused { words: ServerWords::of(&response), payment: None }),
        }
        if let Some(wanted) = wanted(&exchange, &response) {
            let (headers, subject, exchanges) = (Vec::new(), Subject::default(), vec![exchange]);
            let request = SignInRequest { basis: Basis::Url, request, wanted: wanted?, headers, subject, exchanges };
            return self.sign_in(request, policy.sign_in).await;
        }
        if response.status != 402 {
            return Err(CallError::Refused { words: ServerWords::of(&response), payment: None });
        }
        let challenge = read_challenge(&exchange, &response)?;
        let candidates = candidates(&challenge, policy)?;
        // The choice between the two must not depend on the server's order.
        let mut kinds = candidates.iter().map(|candidate| candidate.terms.chain).filter(|chain| self.is_allowed(*chain));
        let is_mixed = kinds.next().is_some_and(|first| kinds.any(|chain| is_test_chain(chain) != is_test_chain(first)));
        if is_mixed && policy.terms.is_none() {
            return Err(CallError::MixedNetworks);
        }
        let (candidate, spend) = self.select(candidates, None, &request, &Consent::default()).await?;
        check_size(&candidate, &challenge)?;
        if let Some(spend) = &spend {
            let terms = candidate.terms;
            let is_agreed = policy.yes || policy.terms == Some(terms);
            if !is_agreed {
                self.ask_to_spend(None, terms, spend).await?;
            }
            self.check_domain(candidate.token).await?;
        }
        let approved = self.approved(Basis::Url, request, challenge, candidate, spend, vec![exchange]).await?;
        self.pay(approved).await
    }

    /// Calls an endpoint that asks only for a proof of identity, for this `recipient` only. No money can move.
    pub async fn authenticate(
        &self,
        url: &HttpsUrl,
        method: CallMethod,
        body: &[u8],
        recipient: Address,
    ) -> Result<Called, CallError> {
        self.call_url(url, method, body, &UrlPolicy::identity(recipient)).await
    }
}

/// Returns the offers that the policy allows, in the server's order.
fn candidates(challenge: &Challenge, policy: &UrlPolicy) -> Result<Vec<Candidate>, CallError> {
    let (mut candidates, mut asked, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
    for offer in &challenge.accepts {
        match payable(offer, challenge.version) {
            Ok((token, terms)) if policy.allows(&terms) => {
                let fit = if terms.amount.is_zero() { Fit::Identity } else { Fit::Agreed };
                candidates.push(Candidate { offer: offer.clone(), token, terms, fit });
            }
            Ok((_, terms)) => asked.push(terms),
            Err(reason) => reasons.push(reason),
        }
    }
    match (candidates.is_empty(), asked.is_empty()) {
        (false, _) => Ok(candidates),
        (true, true) => Err(CallError::NoPayableOffer { reasons }),
        (true, false) => Err(CallError::NotConsented { asked }),
    }
}
