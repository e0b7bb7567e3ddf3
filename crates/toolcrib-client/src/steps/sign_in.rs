//! Signing in with a message instead of a payment (EIP-4361): the x402 extension `sign-in-with-x`, if a 402 offers nothing else, and
//! `Authorization: SIWE` for gates that are older than x402.
//!
//! The message is built here, from fields that were checked: it is for the called host, about now, for a chain for which signatures are
//! allowed, and valid for a short time. The only text of the server in it, a statement, is shown to the user for approval.

use alloy_primitives::{Address, B256, hex};
use toolcrib_chain::wallet::WalletError;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::codes::{sign_in as code, x402};
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_core::schema::Validator;
use toolcrib_core::tool::ToolManifest;
use toolcrib_judge::evidence::{Exchange, Response};
use toolcrib_verify::Verified;
use toolcrib_x402::sign_in::siwe::{self, SignedMessage};
use toolcrib_x402::sign_in::siwx::{self, Proposal, SignedIn};
use toolcrib_x402::sign_in::{Message, Refused};
use toolcrib_x402::{Signature, read_answer};

use super::answer::{no_answer, read_output};
use super::pay::random;
use super::request::answer_of;
use super::{Basis, Called, REVERIFY_SECONDS, Request};
use crate::approver::ApprovalRequest;
use crate::client::Exchanges;
use crate::denial::Subject;
use crate::{CallError, Client, ServerWords};

/// The sign-in that a server asks for.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// The header `SIGN-IN-WITH-X`, with this message.
    WithX(Box<Proposal>),
    /// `Authorization: SIWE`, with a message of this client.
    Siwe,
}

/// A server's request for a signed message, and the HTTP request that it belongs to.
///
/// Only [`Client::ask`](crate::Client::ask) makes it. It contains the verification, so it cannot be copied or stored.
#[derive(Debug)]
pub struct SignInRequest {
    pub(crate) basis: Basis,
    pub(crate) request: Request,
    pub(crate) wanted: Wanted,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) subject: Subject,
    pub(crate) exchanges: Exchanges,
}

/// A sign-in message that was built and checked, and the HTTP request that it belongs to. Nothing is signed yet.
///
/// Only [`Client::prepare_sign_in`] makes it, for callers that ask the user themselves; [`Client::complete_sign_in`] signs this message and
/// no other. It contains the verification, so it cannot be copied or stored.
#[derive(Debug)]
pub struct PreparedSignIn {
    request: SignInRequest,
    message: Message,
    terms: SignInTerms,
}

impl PreparedSignIn {
    /// Returns what will be signed.
    pub const fn terms(&self) -> &SignInTerms {
        &self.terms
    }
}

/// What is about to be signed, for the user's approval.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignInTerms {
    /// The account that signs.
    pub account: Address,
    /// The site that it is for: host, and port unless it is 443.
    pub domain: String,
    /// The resource that it is for.
    pub uri: String,
    /// The chain of the account.
    pub chain: u64,
    /// The server's statement. Untrusted text: escape it before it is shown.
    pub statement: Option<String>,
    /// The expiry as written in the message; `None` if there is none.
    pub expires: Option<String>,
    /// The exact text that is signed. ASCII and line breaks.
    pub text: String,
}

impl SignInTerms {
    /// Returns the terms of a message.
    pub fn of(message: &Message) -> Self {
        let fields = message.fields();
        Self {
            account: fields.address,
            domain: fields.domain.clone(),
            uri: fields.uri.clone(),
            chain: fields.chain_id,
            statement: fields.statement.clone(),
            expires: fields.expiration_time.as_ref().map(|time| time.as_str().to_owned()),
            text: message.text().to_owned(),
        }
    }

    /// Describes the chain for people: its name, its ID, and whether its money is real.
    pub fn network(&self) -> String {
        crate::error::network(self.chain)
    }
}

/// Whether a response asks for a signed message and nothing else.
pub(crate) fn wanted(exchange: &Exchange, response: &Response) -> Option<Result<Wanted, CallError>> {
    match response.status {
        401 => asks_for_siwe(response).then_some(Ok(Wanted::Siwe)),
        402 => {
            let reading = read_answer(&answer_of(exchange, response));
            let header = reading.header.as_ref()?;
            let challenge = header.challenge.as_ref().filter(|challenge| challenge.accepts.is_empty())?;
            let proposal = Proposal::announced(&challenge.extensions)?;
            // A challenge without offers is expected here. Any other error prevents the signature.
            let is_flaw = |finding: &&Finding| finding.severity == Severity::Error && finding.code != x402::NO_OFFERS;
            let findings: Vec<_> = reading.findings.iter().chain(&header.findings).filter(is_flaw).cloned().collect();
            if !findings.is_empty() {
                return Some(Err(CallError::Challenge { findings }));
            }
            Some(
                proposal.map(|proposal| Wanted::WithX(Box::new(proposal))).map_err(|refused| sign_in_error(refused, "its offer")),
            )
        }
        _ => None,
    }
}

/// Gates of the reference SDK say in their hint what they want; others may say it in the header that is defined for it.
fn asks_for_siwe(response: &Response) -> bool {
    let is_siwe =
        |text: &str| text.trim_start().get(..siwe::SCHEME.len()).is_some_and(|start| start.eq_ignore_ascii_case(siwe::SCHEME));
    if response.header("www-authenticate").any(is_siwe) {
        return true;
    }
    let body: Option<serde_json::Value> = serde_json::from_slice(response.body.as_bytes()).ok();
    let says = |key: &str| body.as_ref().and_then(|body| body.get(key)?.as_str()).is_some_and(|text| text.contains(HINT));
    says("hint") || says("error")
}

const HINT: &str = "Authorization: SIWE";

impl Client {
    /// Signs in and calls again with it, once. The approver is asked first, unless `is_agreed`.
    pub async fn sign_in(&self, request: SignInRequest, is_agreed: bool) -> Result<Called, CallError> {
        let prepared = self.prepare_sign_in(request)?;
        let question = ApprovalRequest::SignIn { tool: prepared.request.basis.tool(), terms: prepared.terms() };
        if !is_agreed && !self.inner.approver.approve(&question).await {
            return Err(CallError::SignInNotApproved { domain: prepared.terms.domain });
        }
        self.complete_sign_in(prepared).await
    }

    /// Builds and checks the message that a server asks for. Signs nothing, sends nothing and asks for no approval.
    pub fn prepare_sign_in(&self, request: SignInRequest) -> Result<PreparedSignIn, CallError> {
        let account = self.account().ok_or(CallError::NoWallet)?;
        let message = self.message(&request.request, &request.wanted, request.basis.tool(), account)?;
        Ok(PreparedSignIn { terms: SignInTerms::of(&message), request, message })
    }

    /// Signs a prepared message and calls again with it, once. The user has agreed to its [`terms`](PreparedSignIn::terms).
    pub async fn complete_sign_in(&self, prepared: PreparedSignIn) -> Result<Called, CallError> {
        let PreparedSignIn { request, message, terms } = prepared;
        let SignInRequest { mut basis, request, wanted, headers, subject, mut exchanges } = request;
        let wallet = self.inner.wallet.clone().ok_or(CallError::NoWallet)?;
        let tool = basis.tool();
        basis = self.reverified(basis).await?;
        // Approval may have taken longer than the message is valid.
        message.check_proposal(self.now()).map_err(|refused| sign_in_error(refused, fields_time(&message)))?;
        let cleared = self.scope(terms.chain).await?.clear(&*wallet)?;
        let signature = wallet.sign_message(message.text().as_bytes(), cleared).await?;
        // If the wallet signs something else, it is not asked again, and its signature is not sent.
        let digest = toolcrib_chain::sign::message_digest(message.text().as_bytes());
        signature.check(digest, terms.account).map_err(toolcrib_chain::Error::from)?;
        let no_signature = || CallError::Wallet(WalletError::Refused { reason: "it gave no signature".to_owned() });
        let signature = Signature::new(signature.canonical().to_vec()).ok_or_else(no_signature)?;
        let too_long = || CallError::Setting { what: "the sign-in header", reason: "it is too long".to_owned() };
        let header = match wanted {
            Wanted::WithX(_) => (siwx::HEADER, SignedIn { message, signature }.to_header().ok_or_else(too_long)?),
            Wanted::Siwe => ("Authorization", SignedMessage { message, signature }.to_header()),
        };
        let extra: Vec<_> = std::iter::once(&header).chain(&headers).map(|(name, value)| (*name, value.as_str())).collect();
        let exchange = request.send(&self.inner.door, &extra, self.inner.limits).await?;
        exchanges.push(exchange.clone());
        let Some(response) = exchange.complete() else { return Err(no_answer(exchange)) };
        match response.status {
            200..=299 => {}
            300..=399 => return Err(CallError::Redirected { status: response.status, payment: None }),
            401 | 402 => return Err(CallError::SignInRefused { words: ServerWords::of(response) }),
            403 => {
                let words = || CallError::Refused { words: ServerWords::of(response), payment: None };
                let Some(tool) = tool else { return Err(words()) };
                return Err(self.denied(tool, None, &subject, response).await);
            }
            _ => return Err(CallError::Refused { words: ServerWords::of(response), payment: None }),
        }
        let (output, manifest_hash, prefilled) = match &basis {
            Basis::Tool { verified, outputs } => {
                let output = read_output(response, outputs.as_ref(), None)?;
                (Some(output), Some(verified.manifest().hash()), verified.manifest().prefilled().to_vec())
            }
            Basis::Url => (serde_json::from_slice(response.body.as_bytes()).ok(), None, Vec::new()),
        };
        Ok(Called {
            output,
            body: response.body.0.clone(),
            tool,
            manifest_hash,
            paid: None,
            identity: Some(terms.account),
            prefilled,
            findings: Vec::new(),
            exchanges,
        })
    }

    /// Returns the checked message: for the called host, about now, on a chain for which signatures are allowed.
    fn message(&self, request: &Request, wanted: &Wanted, tool: Option<ToolRef>, account: Address) -> Result<Message, CallError> {
        let message = match wanted {
            Wanted::Siwe => {
                let usual = tool.map(|tool| tool.chain).or(request.chain).unwrap_or(BASE);
                let allowed = self.inner.only_chains.as_ref().and_then(|allowed| allowed.first());
                let chain = if self.is_allowed(usual) { usual } else { allowed.copied().unwrap_or(usual) };
                let nonce: B256 = random()?;
                siwe::message(&request.url, account, chain, hex::encode(&nonce[..16]), self.now())
            }
            Wanted::WithX(proposal) => {
                let chain = self.sign_in_chain(&proposal.chains, tool, request.chain)?;
                proposal.message(account, chain)
            }
        };
        let message = message.map_err(|fault| CallError::SignIn { code: fault.code(), detail: fault.to_string() })?;
        message.check_origin(&request.url).map_err(|refused| {
            let fields = message.fields();
            sign_in_error(refused, &format!("{} at {}", fields.domain, fields.uri))
        })?;
        message.check_proposal(self.now()).map_err(|refused| sign_in_error(refused, fields_time(&message)))?;
        Ok(message)
    }

    /// Returns the chain to sign in on, among the allowed ones: the tool's, else the first that is offered.
    fn sign_in_chain(&self, offered: &[u64], tool: Option<ToolRef>, dev_chain: Option<u64>) -> Result<u64, CallError> {
        let first = *offered
            .first()
            .ok_or(CallError::SignIn { code: code::CHAIN, detail: "no chain of the Ethereum kind is offered".to_owned() })?;
        let mut allowed = offered.iter().copied().filter(|chain| self.is_allowed(*chain));
        let usual = tool.map(|tool| tool.chain).or(dev_chain).filter(|chain| offered.contains(chain) && self.is_allowed(*chain));
        usual
            .or_else(|| allowed.next())
            .ok_or_else(|| CallError::OtherNetwork { asked: first, allowed: self.inner.only_chains.clone().unwrap_or_default() })
    }

    /// Verifies a tool again if approval took time.
    async fn reverified(&self, basis: Basis) -> Result<Basis, CallError> {
        let Basis::Tool { verified, outputs } = basis else { return Ok(basis) };
        if (0..=REVERIFY_SECONDS).contains(&self.now().since(verified.at())) {
            return Ok(Basis::Tool { verified, outputs });
        }
        let before = verified.manifest().hash();
        let verified = self.verify(verified.tool()).await?;
        let after = verified.manifest().hash();
        if before != after {
            return Err(CallError::ChangedMeanwhile { before, after });
        }
        Ok(Basis::Tool { verified: Box::new(verified), outputs })
    }
}

impl SignInRequest {
    pub(super) fn of_tool(
        verified: Verified<ToolManifest>,
        outputs: Option<Validator>,
        request: Request,
        wanted: Wanted,
        exchange: Exchange,
    ) -> Self {
        let basis = Basis::Tool { verified: Box::new(verified), outputs };
        Self { basis, request, wanted, headers: Vec::new(), subject: Subject::default(), exchanges: vec![exchange] }
    }
}

/// The chain for signing in if none is named: as in the reference SDK.
const BASE: u64 = 8453;

fn fields_time(message: &Message) -> &str {
    message.fields().expiration_time.as_ref().unwrap_or(&message.fields().issued_at).as_str()
}

fn sign_in_error(Refused(code): Refused, what: &str) -> CallError {
    CallError::SignIn { code, detail: format!("{}: {}", code.title(), toolcrib_core::text::escape_for_display(what)) }
}
