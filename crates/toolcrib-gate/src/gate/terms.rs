//! What callers must sign: a transfer of value 0 that identifies them, or a payment. And the verification of what they signed.
//!
//! An identity gate asks for a transfer of value 0, a paid gate for the transfer of a price. Both are parsed, compared and recovered in the
//! same way, without a chain. Accounts with code verify their signatures themselves (ERC-1271), but only if the operator has configured an
//! RPC node.

use alloy_primitives::{Address, B256, U256};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use tokio::time::timeout;
use toolcrib_chain::rpc::Chain;
use toolcrib_chain::sign::{Domain, StrictSignature, TransferAuthorization, TransferKind, check_signature};
use toolcrib_core::caip::{ChainId, ToolRef};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::finding::Finding;
use toolcrib_core::money::Amount;
use toolcrib_core::tool::{Price, ToolManifest};
use toolcrib_store::replay::Proof;
use toolcrib_x402::asset::{self, Token};
use toolcrib_x402::nonce::{self, Binding, BoundCall};
use toolcrib_x402::payment_id;
use toolcrib_x402::{
    Members, Offer, PROTOCOL, Payment, Paywall, ReplayKey, Resource, TimePolicy, check_payment, header, match_offers, network,
    read_payment_headers,
};

use super::access::ACCESS_TIME;
use super::bazaar;
use super::sign_in::{self, NonceKey, SignIn, SignInSettings};
use super::{IdentityGate, PaidGate, PredicateGate};
use crate::answer::{ErrorResponse, Stop};
use crate::tool::Caller;

/// Validity in seconds that challenges ask of identity signatures. It is enough for a person to confirm, and keeps the store small.
pub const IDENTITY_SECONDS: u64 = 300;

/// Validity in seconds that challenges ask of payments: time for a person to confirm, the handler, and the settlement after it.
pub const PAYMENT_SECONDS: u64 = 300;

/// The chain that identity signatures name if the registry's chain has no USDC that stock clients know.
const BASE: u64 = 8453;

/// What a gate asks callers to sign.
#[derive(Debug)]
pub(crate) struct Terms {
    paywall: Paywall,
    /// One for each offer.
    domains: Vec<Domain>,
    /// One for each offer: the RPC node that verifies signatures of accounts with code.
    nodes: Vec<Option<Chain>>,
    times: TimePolicy,
    bound_only: bool,
    tool: Option<ToolRef>,
    origin: String,
    /// Whether results are kept for payers who come back.
    keeps_results: bool,
    /// Sign-in as an alternative. Never set for payments.
    sign_in: Option<SignIn>,
}

/// The proof in a request, not verified yet.
#[derive(Debug)]
pub(crate) enum Presented {
    Payment(Box<Payment>),
    SignIn(Box<sign_in::Presented>),
}

/// The parts of a request to which a signature may commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'r> {
    pub(crate) method: &'r str,
    /// Path and query as received.
    pub(crate) target: &'r str,
    pub(crate) body: &'r [u8],
}

/// A caller that proved its account, and the signature that this uses up.
#[derive(Debug)]
pub(crate) struct Proven {
    pub(crate) caller: Caller,
    pub(crate) payment: Payment,
    /// The index of the offer that is met.
    pub(crate) offer: usize,
    pub(crate) key: ReplayKey,
    pub(crate) expires_at: UnixTime,
    /// Proof that this is the payer, and not another party that has seen the payment.
    pub(crate) possession: Option<Proof>,
    /// The payment identifier that the caller chose.
    pub(crate) payment_id: Option<String>,
    /// The payment has expired. Its result can still be redeemed.
    pub(crate) is_over: bool,
}

/// Why no account is proven.
#[derive(Debug)]
pub(crate) enum Unproven {
    /// Nothing that could be read as a proof: a bad request.
    Malformed(ErrorResponse),
    /// No proof, or an invalid one: the response is the challenge.
    Challenge(Option<Code>),
    /// The account's chain did not answer; the reason is for the operator.
    Unasked(String),
}

impl Terms {
    /// Asks for an identity signature, for a predicate gate.
    pub(crate) fn free(gate: &PredicateGate, manifest: &ToolManifest) -> Result<Self, Vec<Finding>> {
        let (operator, tool) = (gate.pay_to.unwrap_or_else(|| manifest.creator()), gate.registry.reference(gate.id));
        let (mut pay_to, mut extensions) = (operator, Vec::new());
        if let Some(recipient) = gate.recipient.as_ref().filter(|_| !operator.is_zero()) {
            let endpoint = manifest.endpoint().normalized();
            pay_to = recipient.pay_to(endpoint, tool, operator);
            extensions.extend(recipient.extension(endpoint, tool, operator));
        }
        if pay_to.is_zero() {
            return Err(vec![Finding::new(codes::x402::PAY_TO_UNSPENDABLE)]);
        }
        let token = match gate.identity_chain {
            Some(chain) => asset::preferred(chain),
            None => usual(gate.registry.chain().chain_id()),
        };
        let offer = token.and_then(|token| Offer::exact(&token, Amount::new(U256::ZERO), pay_to, IDENTITY_SECONDS));
        let offer = offer.ok_or_else(|| vec![Finding::new(codes::gate::CHALLENGE)])?;
        let terms = Self::new(vec![offer], extensions, manifest, gate.times, gate.bound_only, Some(tool))?;
        terms.judged_on(&gate.contract_accounts)?.signing_in(gate.sign_in, manifest)
    }

    /// Asks for an identity signature, for an identity gate.
    pub(crate) fn identity(gate: &IdentityGate, manifest: &ToolManifest) -> Result<Self, Vec<Finding>> {
        let pay_to = gate.pay_to.unwrap_or_else(|| manifest.creator());
        let token = asset::preferred(gate.identity_chain.unwrap_or(BASE));
        let offer = token.filter(|_| !pay_to.is_zero());
        let offer = offer.and_then(|token| Offer::exact(&token, Amount::new(U256::ZERO), pay_to, IDENTITY_SECONDS));
        let offer = offer.ok_or_else(|| vec![Finding::new(codes::gate::CHALLENGE)])?;
        let terms = Self::new(vec![offer], Vec::new(), manifest, gate.times, gate.bound_only, gate.tool)?;
        terms.judged_on(&gate.contract_accounts)?.signing_in(gate.sign_in, manifest)
    }

    /// Asks for any of the manifest's prices.
    pub(crate) fn paid(gate: &PaidGate, manifest: &ToolManifest) -> Result<Self, Vec<Finding>> {
        let mut findings = Vec::new();
        let mut offers = Vec::new();
        for (at, price) in manifest.pricing().iter().enumerate() {
            match offered(price) {
                Ok(offer) => offers.push(offer),
                Err(code) => {
                    let mut finding =
                        Finding::new(code).got(format!("{} of {} by {}", price.amount, price.asset, price.protocol));
                    finding.pointer = format!("/pricing/{at}");
                    findings.push(finding);
                }
            }
        }
        if !findings.is_empty() {
            return Err(findings);
        }
        let (mut bound_only, mut tool) = (gate.bound_only, gate.tool);
        let mut chains = gate.contract_accounts.clone();
        if let Some(predicate) = &gate.predicate {
            bound_only |= predicate.bound_only;
            tool = Some(predicate.registry.reference(predicate.id));
            chains.extend(predicate.contract_accounts.clone());
        }
        let mut extensions = vec![payment_id::declaration()];
        if gate.settle.lists_tools() && !gate.unlisted {
            extensions.extend(bazaar::declaration(manifest));
        }
        let terms = Self::new(offers, extensions, manifest, gate.times, bound_only, tool)?.judged_on(&chains)?;
        Ok(Self { keeps_results: true, ..terms })
    }

    /// Makes the challenge. Its URL is the manifest's, whatever a request says about hosts.
    fn new(
        offers: Vec<Offer>,
        extensions: Members,
        manifest: &ToolManifest,
        times: TimePolicy,
        bound_only: bool,
        tool: Option<ToolRef>,
    ) -> Result<Self, Vec<Finding>> {
        let endpoint = manifest.endpoint();
        let resource = Resource {
            url: Some(endpoint.normalized().to_owned()),
            description: Some(manifest.description().to_owned()),
            mime_type: Some("application/json".to_owned()),
            other: bazaar::service(manifest),
        };
        let paywall = Paywall::new(offers, resource, extensions)?;
        let domains: Option<Vec<_>> = paywall.offers().iter().map(|offer| offer.token().map(domain)).collect();
        let domains = domains.ok_or_else(|| vec![Finding::new(codes::gate::CHALLENGE)])?;
        let nodes = vec![None; domains.len()];
        let origin = endpoint.origin().to_string();
        Ok(Self { paywall, domains, nodes, times, bound_only, tool, origin, keeps_results: false, sign_in: None })
    }

    /// Accepts signatures of accounts with code on the chains that have an RPC node.
    fn judged_on(mut self, chains: &[Chain]) -> Result<Self, Vec<Finding>> {
        for chain in chains {
            let offers = self.paywall.offers().iter().zip(&mut self.nodes);
            let mut met = offers.filter(|(offer, _)| offer.network.evm_id() == Some(chain.chain_id())).peekable();
            if met.peek().is_none() {
                return Err(vec![Finding::new(codes::gate::CONTRACT_CHAIN).got(format!("eip155:{}", chain.chain_id()))]);
            }
            met.for_each(|(_, node)| *node = Some(chain.clone()));
        }
        Ok(self)
    }

    /// Lets callers sign in with a message, on the chain that identity signatures name.
    fn signing_in(mut self, settings: SignInSettings, manifest: &ToolManifest) -> Result<Self, Vec<Finding>> {
        if self.bound_only {
            // A message cannot commit to a call.
            return if settings.siwe { Err(vec![Finding::new(codes::sign_in::BOUND_ONLY)]) } else { Ok(self) };
        }
        let chain = self.paywall.offers().first().and_then(|offer| offer.network.evm_id());
        self.sign_in = chain.map(|chain| SignIn {
            settings,
            endpoint: manifest.endpoint().clone(),
            chain,
            node: self.nodes.first().cloned().flatten(),
            max_age: i64::try_from(self.times.max_seconds).unwrap_or(i64::MAX),
        });
        Ok(self)
    }

    /// Returns the 402 response, with a reason.
    pub(crate) fn challenge(&self, key: &NonceKey, now: UnixTime, reason: Option<Code>) -> Stop {
        let extension = self.sign_in.as_ref().and_then(|sign_in| sign_in.extension(key, now));
        Stop::challenge(&self.paywall, reason, extension)
    }

    pub(crate) const fn sign_in(&self) -> Option<&SignIn> {
        self.sign_in.as_ref()
    }

    pub(crate) const fn paywall(&self) -> &Paywall {
        &self.paywall
    }

    pub(crate) const fn tool(&self) -> Option<ToolRef> {
        self.tool
    }

    /// Reads the payment or the sign-in message from the headers, before the body. A payment takes precedence.
    pub(crate) fn read(&self, headers: &HeaderMap) -> Result<Presented, Unproven> {
        let pairs = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        if let Some(reading) = read_payment_headers(pairs) {
            let payment = reading.into_result().map_err(|findings| Unproven::Malformed(malformed(&findings)))?;
            return Ok(Presented::Payment(Box::new(payment)));
        }
        let presented = self.sign_in.as_ref().and_then(|sign_in| sign_in.read(headers));
        presented.ok_or(Unproven::Challenge(None))?.map(|presented| Presented::SignIn(Box::new(presented)))
    }

    /// Verifies everything about a payment: recipient, times, the call that it commits to, and the signer. Waits for nothing but the RPC
    /// node, if there is one.
    pub(crate) async fn verify(
        &self,
        payment: Payment,
        headers: &HeaderMap,
        asked: Asked<'_>,
        now: UnixTime,
    ) -> Result<Proven, Unproven> {
        let refused = |code: Code| Unproven::Challenge(Some(code));
        let offers = self.paywall.offers();
        let met = match_offers(&payment, offers).map_err(|findings| {
            // With one offer, the difference from it is the more helpful finding.
            let at = usize::from(offers.len() == 1 && findings.len() > 1);
            refused(findings.get(at).map_or(codes::payment::NO_MATCHING_OFFER, |finding| finding.code))
        })?;
        let (binding, mut possession) = self.binding(&payment, headers, asked)?;
        let malformed = |code: Code| Unproven::Malformed(ErrorResponse::new(StatusCode::BAD_REQUEST, code));
        // Only paid calls have a result to redeem.
        let payment_id = if self.keeps_results { payment_id::read(&payment.extensions).map_err(malformed)? } else { None };
        if let Some(id) = &payment_id {
            possession = possession.or_else(|| Some(Proof::of(&payment_id::secret(id))));
        }
        // Times and the shape of the signature are checked alike for every offer.
        let mut faults = met.first().map_or_else(Vec::new, |offer| check_payment(&payment, offer, now, &self.times));
        let is_met = |offer: &Offer| met.contains(&offer);
        if offers.iter().zip(&self.nodes).any(|(offer, node)| node.is_some() && is_met(offer)) {
            // Contracts decide themselves what a valid signature is, of 65 bytes or not, and a signature of an undeployed account includes
            // the call that deploys it. The signature shape of accounts without code is checked below.
            faults.retain(|fault| !ACCOUNT_SHAPE.contains(&fault.code));
        }
        // A payer that proves possession may redeem a result after the payment has expired.
        let is_over = possession.is_some() && matches!(&faults[..], [only] if only.code == codes::payment::EXPIRED);
        if let Some(fault) = faults.first().filter(|_| !is_over) {
            return Err(refused(fault.code));
        }
        let transfer = TransferAuthorization::from(&payment.authorization);
        let account: Address = payment.authorization.from;
        let mut fault = codes::payment::NO_MATCHING_OFFER;
        for (at, offer) in offers.iter().enumerate().filter(|(_, offer)| is_met(offer)) {
            let digest = transfer.digest(TransferKind::Transfer, &self.domains[at]);
            match signed(self.nodes[at].as_ref(), account, digest, payment.signature.as_bytes()).await? {
                Err(code) => fault = code,
                Ok(()) => {
                    let Some(key) = ReplayKey::of(&payment.authorization, offer) else { continue };
                    let ends = i64::try_from(self.times.forget_after(&payment.authorization)).unwrap_or(i64::MAX);
                    let caller = Caller { account, version: payment.version, is_bound: binding == Binding::Bound };
                    let expires_at = UnixTime::from_seconds(ends);
                    return Ok(Proven { caller, payment, offer: at, key, expires_at, possession, payment_id, is_over });
                }
            }
        }
        Err(refused(fault))
    }

    /// Returns whether the nonce commits to this call, and what proves possession: the salt of a bound nonce, a retry token otherwise.
    fn binding(&self, payment: &Payment, headers: &HeaderMap, asked: Asked<'_>) -> Result<(Binding, Option<Proof>), Unproven> {
        let refused = |code: Code| Unproven::Challenge(Some(code));
        let malformed = |code: Code| Unproven::Malformed(ErrorResponse::new(StatusCode::BAD_REQUEST, code));
        let salt = nonce::read_salt(values(headers, header::X_TOOL_NONCE_SALT)).map_err(|fault| malformed(fault.code()))?;
        let binding = match (salt, self.tool(), nonce::is_marked(payment.authorization.nonce)) {
            (None, _, false) => Binding::Unbound,
            (None, _, true) => return Err(refused(codes::payment::SALT_MISSING)),
            (Some(_), known, _) => {
                // A gate that does not know its tool's registration uses the one that the caller names. URL and body are checked in any
                // case, so a payment for one tool cannot be used at another.
                let named = reference(headers).map_err(malformed)?;
                let tool = known.or(named).ok_or_else(|| refused(codes::payment::REFERENCE))?;
                let target = format!("{}{}", self.origin, asked.target);
                let call = BoundCall { tool, method: asked.method, target: &target, body: asked.body };
                nonce::verify(payment.authorization.nonce, salt, &call).map_err(|fault| refused(fault.code()))?
            }
        };
        if binding == Binding::Unbound && self.bound_only {
            return Err(refused(codes::payment::NONCE_UNBOUND));
        }
        let secret = match salt {
            Some(salt) => Some(salt),
            None => token(headers).map_err(malformed)?,
        };
        Ok((binding, secret.map(|secret| Proof::of(secret.as_slice()))))
    }
}

/// The rules that apply only to signatures of accounts without code.
const ACCOUNT_SHAPE: [Code; 4] = [
    codes::chain::SIGNATURE_V,
    codes::chain::SIGNATURE_HIGH_S,
    codes::chain::SIGNATURE_RANGE,
    codes::chain::SIGNATURE_UNDEPLOYED,
];

/// Whether an account has signed: by recovery or, if there is an RPC node and the account has code, by ERC-1271.
pub(super) async fn signed(
    node: Option<&Chain>,
    account: Address,
    digest: B256,
    signature: &[u8],
) -> Result<Result<(), Code>, Unproven> {
    let Some(node) = node else {
        let checked = StrictSignature::from_slice(signature).and_then(|signature| signature.check(digest, account));
        return Ok(checked.map_err(|error| error.code()));
    };
    match timeout(ACCESS_TIME, check_signature(node, account, digest, signature)).await {
        Ok(Ok(())) => Ok(Ok(())),
        Ok(Err(toolcrib_chain::Error::Signature(error))) => Ok(Err(error.code())),
        Ok(Err(error)) => Err(Unproven::Unasked(error.to_string())),
        Err(_) => Err(Unproven::Unasked(format!("no answer within {} s", ACCESS_TIME.as_secs()))),
    }
}

/// Reads the retry token from the headers.
fn token(headers: &HeaderMap) -> Result<Option<B256>, Code> {
    // It has the format of a salt.
    nonce::read_salt(values(headers, header::X_TOOL_RETRY_TOKEN)).map_err(|_| codes::payment::RETRY_TOKEN)
}

/// Reads the tool that the caller names.
fn reference(headers: &HeaderMap) -> Result<Option<ToolRef>, Code> {
    let mut values = values(headers, header::X_TOOL_REFERENCE);
    let Some(value) = values.next() else { return Ok(None) };
    let text = std::str::from_utf8(value.trim_ascii()).map_err(|_| codes::payment::REFERENCE)?;
    if values.next().is_some() {
        return Err(codes::payment::REFERENCE);
    }
    ToolRef::parse(text).map(Some).map_err(|_| codes::payment::REFERENCE)
}

fn values<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = &'h [u8]> {
    headers.get_all(name).into_iter().map(HeaderValue::as_bytes)
}

/// Converts a price of the manifest into an offer.
fn offered(price: &Price) -> Result<Offer, Code> {
    if price.amount.is_zero() {
        return Err(codes::gate::FREE_PRICE);
    }
    let chain = ChainId::parse(price.asset.chain()).ok().and_then(|chain| chain.evm_id());
    let token = chain.zip(price.asset.evm_address()).and_then(|(chain, address)| asset::find(chain, address));
    let recipient = price.recipient.evm_address().filter(|account| !account.is_zero());
    let (Some(token), Some(recipient), PROTOCOL) = (token, recipient, price.protocol.as_str()) else {
        return Err(codes::gate::PRICE_NOT_SERVED);
    };
    Offer::exact(token, price.amount, recipient, PAYMENT_SECONDS).ok_or(codes::gate::PRICE_NOT_SERVED)
}

/// Returns USDC of a chain where stock clients of both versions can sign for it, or else Base's.
fn usual(chain: u64) -> Option<Token> {
    let is_stock = ChainId::parse(&format!("eip155:{chain}"))
        .is_ok_and(|chain| network::by_chain(&chain).is_some_and(|network| network.is_stock));
    asset::usdc(chain).filter(|_| is_stock).or_else(|| asset::usdc(BASE))
}

fn domain(token: &Token) -> Domain {
    Domain::new(token.name, token.version, U256::from(token.chain), token.address)
}

/// A payment that cannot be parsed: status 400 with the first finding. Its text is not repeated, because it is a credential.
fn malformed(findings: &[Finding]) -> ErrorResponse {
    match findings.first() {
        Some(finding) => ErrorResponse::new(StatusCode::BAD_REQUEST, finding.code).message(finding.message.clone()),
        None => ErrorResponse::new(StatusCode::BAD_REQUEST, codes::payment::NOT_AN_OBJECT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_is_signed_for_where_stock_clients_can() {
        for (registry, signed_for) in [(8453, 8453), (84_532, 84_532), (137, 137), (1, 8453), (42_161, 8453), (31_337, 8453)] {
            assert_eq!(usual(registry).map(|token| token.chain), Some(signed_for), "{registry}");
        }
    }
}
