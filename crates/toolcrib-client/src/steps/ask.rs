//! The first half of a call: verify, validate the input, send it without a payment, read the challenge.

use alloy_primitives::B256;
use serde_json::Value as Json;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::codes::call as code;
use toolcrib_core::finding::Finding;
use toolcrib_core::schema::{Prefilled, Validator};
use toolcrib_core::tool::ToolManifest;
use toolcrib_verify::Verified;
use toolcrib_x402::{Challenge, header};

use super::answer::{no_answer, read_output};
use super::choose::{Stated, choose, misfit, terms_of, unpayable_pricing};
use super::schemas::{Schemas, Unchecked};
use super::{CallOptions, Called, Candidate, Request, SignInRequest, read_challenge, sign_in};
use crate::approver::ApprovalRequest;
use crate::client::Exchanges;
use crate::denial::Subject;
use crate::ledger::Spend;
use crate::{CallError, Client, Consent, ServerWords, Terms, Usdc};

/// The JSON Schema keyword that fixes a value, which callers have to see before a call.
const CONST: &str = "const";

/// A tool's response to a request without a payment.
#[derive(Debug)]
pub enum Asked {
    /// The result.
    Served(Box<Called>),
    /// A challenge for a payment or a proof of identity.
    Quoted(Box<Quote>),
    /// A request for a signed message (EIP-4361) and nothing else.
    SignIn(Box<SignInRequest>),
}

/// A tool's challenge, compared with its manifest: it contains only offers that may be signed.
///
/// Only [`Client::ask`] makes it. It contains the verification, so it cannot be copied or stored.
#[derive(Debug)]
pub struct Quote {
    pub(super) verified: Verified<ToolManifest>,
    pub(super) request: Request,
    pub(super) challenge: Challenge,
    pub(super) candidates: Vec<Candidate>,
    pub(super) outputs: Option<Validator>,
    pub(super) bound: bool,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) subject: Subject,
    pub(super) exchanges: Exchanges,
}

impl Quote {
    /// Returns the tool.
    pub const fn tool(&self) -> ToolRef {
        self.verified.tool()
    }

    /// Returns the terms that may be paid, the creator's preference first. An amount of 0 is a proof of identity.
    pub fn terms(&self) -> impl Iterator<Item = &Terms> {
        self.candidates.iter().map(|candidate| &candidate.terms)
    }
}

/// What a call would do, according to the manifest: nothing was sent to the tool.
#[derive(Debug)]
#[non_exhaustive]
pub struct Plan {
    /// The tool.
    pub tool: ToolRef,
    /// The hash of its manifest, verified now.
    pub manifest_hash: B256,
    /// Where the input would be sent.
    pub url: String,
    /// Values that the schema would fill in. Untrusted text.
    pub prefilled: Vec<Prefilled>,
    /// Schemas that cannot be applied, so that nothing is validated against them.
    pub unchecked: Vec<Unchecked>,
    /// What would be paid; `None` if calls are free or there is no price.
    pub terms: Option<Terms>,
    /// Whether it would need approval.
    pub asks: bool,
    /// Why the policy would refuse.
    pub refusal: Option<CallError>,
}

impl Client {
    /// Returns what a call would do, without sending anything to the tool: an open tool would already run.
    pub async fn plan(&self, tool: ToolRef, input: &Json, options: &CallOptions) -> Result<Plan, CallError> {
        let verified = self.verify(tool).await?;
        let manifest = verified.manifest();
        expect_manifest(options, manifest.hash())?;
        let schemas = Schemas::of(manifest);
        schemas.check_input(input)?;
        let request = Request::of_input(manifest.endpoint(), options.method, input, Some(tool.chain))?;
        let prefilled = manifest.prefilled().to_vec();
        let mut refusal = match unpayable_pricing(manifest.pricing()) {
            Some(reasons) if options.consent.terms.is_none() => Some(CallError::PricingUnknown { reasons }),
            _ => None,
        };
        let payable = |terms: &Terms| toolcrib_x402::asset::find(terms.chain, terms.asset).is_some();
        let stated: Vec<_> = manifest.pricing().iter().filter_map(terms_of).filter(payable).collect();
        // The first terms on an allowed network would be paid; if there are none, the first say why not.
        let allowed = stated.iter().find(|terms| self.check_network(terms, Some(tool), &options.consent).is_ok());
        let terms = options.consent.terms.or(allowed.or(stated.first()).copied()).filter(|terms| !terms.amount.is_zero());
        let mut asks = false;
        if let (Some(terms), None) = (terms, &refusal) {
            match self.planned(&terms, tool, &request, options).await {
                Ok(spend) => {
                    asks = self.inner.policy.asks(spend.amount) && !options.consent.yes && options.consent.max_price.is_none();
                }
                Err(error) => refusal = Some(error),
            }
        }
        if refusal.is_none() && prefilled.iter().any(|value| value.keyword == CONST) && !options.consent.ack_const {
            refusal = Some(CallError::FixedValues { values: prefilled.clone() });
        }
        let unchecked = schemas.unchecked;
        if refusal.is_none() && !unchecked.is_empty() && !options.consent.unchecked {
            refusal = Some(CallError::Schema { parts: unchecked.clone() });
        }
        let url = request.target().to_owned();
        Ok(Plan { tool, manifest_hash: manifest.hash(), url, prefilled, unchecked, terms, asks, refusal })
    }

    /// Returns what would be reserved for a call, or why it would be refused: by network, price, policy or budget.
    async fn planned(&self, terms: &Terms, tool: ToolRef, request: &Request, options: &CallOptions) -> Result<Spend, CallError> {
        self.check_network(terms, Some(tool), &options.consent)?;
        let spend = self.spend_of(terms, Some(tool), request)?;
        within_max_price(&spend, &options.consent)?;
        self.inner.ledger.check(&spend, &self.inner.policy, self.now()).await?;
        Ok(spend)
    }

    /// Verifies the tool now, validates the input and sends it without any credential.
    pub async fn ask(&self, tool: ToolRef, input: &Json, options: &CallOptions) -> Result<Asked, CallError> {
        let verified = self.verify(tool).await?;
        let manifest = verified.manifest();
        expect_manifest(options, manifest.hash())?;
        let schemas = Schemas::of(manifest);
        schemas.check_input(input)?;
        let request = Request::of_input(manifest.endpoint(), options.method, input, Some(tool.chain))?;
        // A call whose output cannot be validated is paid for only with approval.
        let outputs = schemas.outputs;
        self.accept_unchecked(tool, schemas.unchecked, &options.consent).await?;
        self.acknowledge(tool, manifest, &options.consent).await?;
        if let Some(reasons) = unpayable_pricing(manifest.pricing())
            && options.consent.terms.is_none()
        {
            return Err(CallError::PricingUnknown { reasons });
        }

        let subject = Subject { delegator: options.delegate_for, data: options.access_data.clone() };
        let headers = later_headers(options)?;
        let exchange = request.send(&self.inner.door, &[], self.inner.limits).await?;
        let Some(response) = exchange.complete().cloned() else {
            return Err(no_answer(exchange));
        };
        match response.status {
            200..=299 => {
                let output = read_output(&response, outputs.as_ref(), None)?;
                let is_priced = !manifest.pricing().is_empty() && manifest.pricing().iter().all(|price| !price.amount.is_zero());
                return Ok(Asked::Served(Box::new(Called {
                    output: Some(output),
                    body: response.body.0,
                    tool: Some(tool),
                    manifest_hash: Some(manifest.hash()),
                    paid: None,
                    identity: None,
                    prefilled: manifest.prefilled().to_vec(),
                    findings: is_priced.then(|| Finding::new(code::SERVED_UNPAID)).into_iter().collect(),
                    exchanges: vec![exchange],
                })));
            }
            401 | 402 => {}
            300..=399 => return Err(CallError::Redirected { status: response.status, payment: None }),
            403 => return Err(self.denied(tool, None, &subject, &response).await),
            _ => return Err(CallError::Refused { words: ServerWords::of(&response), payment: None }),
        }
        if let Some(wanted) = sign_in::wanted(&exchange, &response) {
            let request = SignInRequest::of_tool(verified, outputs, request, wanted?, exchange);
            return Ok(Asked::SignIn(Box::new(SignInRequest { headers, subject, ..request })));
        }
        if response.status != 402 {
            return Err(CallError::Refused { words: ServerWords::of(&response), payment: None });
        }
        let challenge = read_challenge(&exchange, &response)?;
        let candidates = self.candidates(&verified, &challenge, &options.consent).await?;
        Ok(Asked::Quoted(Box::new(Quote {
            verified,
            request,
            challenge,
            candidates,
            outputs,
            bound: options.bound,
            headers,
            subject,
            exchanges: vec![exchange],
        })))
    }

    /// Returns offers that may be signed; if there are none, the user may approve the terms that are asked for.
    async fn candidates(
        &self,
        verified: &Verified<ToolManifest>,
        challenge: &Challenge,
        consent: &Consent,
    ) -> Result<Vec<Candidate>, CallError> {
        let (tool, manifest) = (verified.tool(), verified.manifest());
        let mut operators = self.operators(tool);
        operators.extend(consent.operator);
        let mut stated = Stated {
            pricing: manifest.pricing(),
            creator: manifest.creator(),
            tool,
            endpoint: manifest.endpoint().normalized(),
            operators,
            agreed: consent.terms,
        };
        let candidates = choose(challenge, &stated);
        if !candidates.is_empty() {
            return Ok(candidates);
        }
        let error = misfit(challenge, &stated);
        let (CallError::TermsDiffer { asked, findings } | CallError::FreeAsksMoney { asked, findings }) = &error else {
            return Err(error);
        };
        // The approved terms differ from those asked for now: a server that changes its terms gets no second approval.
        let Some(&asked) = asked.iter().find(|terms| !terms.amount.is_zero()).filter(|_| consent.terms.is_none()) else {
            return Err(error);
        };
        // Without a wallet there is nothing to approve.
        let Some(account) = self.account() else { return Err(error) };
        if !self.inner.approver.approve(&ApprovalRequest::Differs { tool, asked, account, findings }).await {
            return Err(error);
        }
        stated.agreed = Some(asked);
        Ok(choose(challenge, &stated))
    }

    async fn acknowledge(&self, tool: ToolRef, manifest: &ToolManifest, consent: &Consent) -> Result<(), CallError> {
        let fixed: Vec<_> = manifest.prefilled().iter().filter(|value| value.keyword == CONST).cloned().collect();
        if fixed.is_empty() || consent.ack_const {
            return Ok(());
        }
        if self.inner.approver.approve(&ApprovalRequest::Fixed { tool, values: &fixed }).await {
            return Ok(());
        }
        Err(CallError::FixedValues { values: fixed })
    }

    pub(crate) fn spend_of(&self, terms: &Terms, tool: Option<ToolRef>, request: &Request) -> Result<Spend, CallError> {
        let token = toolcrib_x402::asset::find(terms.chain, terms.asset).ok_or(crate::SpendError::Amount)?;
        let payer = self.inner.wallet.as_ref().map(|wallet| wallet.address());
        Ok(Spend {
            tool,
            origin: request.url.origin(),
            chain: terms.chain,
            asset: terms.asset,
            recipient: terms.pay_to,
            payer: payer.ok_or(CallError::NoWallet)?,
            amount: Usdc::of(terms.amount, token).ok_or(crate::SpendError::Amount)?,
        })
    }
}

/// Refuses another manifest than the approved one.
fn expect_manifest(options: &CallOptions, after: B256) -> Result<(), CallError> {
    match options.consent.manifest {
        Some(before) if before != after => Err(CallError::ChangedMeanwhile { before, after }),
        _ => Ok(()),
    }
}

/// Returns headers that are sent only with a signature. They are checked now, so that nothing is signed if one is invalid.
fn later_headers(options: &CallOptions) -> Result<Vec<(&'static str, String)>, CallError> {
    let mut headers = Vec::new();
    headers.extend(options.access_data.as_ref().map(|data| (header::X_TOOL_ACCESS_DATA, data.to_string())));
    headers.extend(options.delegate_for.map(|account| (header::X_DELEGATE_FOR, account.to_checksum(None))));
    for (name, value) in &headers {
        let tried = toolcrib_fetch::Headers::new().with(name, value);
        tried.map_err(|error| CallError::Setting { what: "a header", reason: error.to_string() })?;
    }
    Ok(headers)
}

pub(super) fn within_max_price(spend: &Spend, consent: &Consent) -> Result<(), CallError> {
    match consent.max_price {
        Some(limit) if spend.amount > limit => Err(CallError::AboveMaxPrice { amount: spend.amount, limit }),
        _ => Ok(()),
    }
}
