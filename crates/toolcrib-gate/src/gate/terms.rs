//! What a caller must sign, and who has signed it: nothing for money, or nothing but a name.
//!
//! A gate that only asks who calls wants a transfer of nothing; one that asks for money wants the transfer of a price. What is read,
//! compared and recovered is the same, and needs no chain. Only where the operator has named a node are accounts with code asked
//! themselves (ERC-1271).

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
use crate::answer::{Refusal, Stop};
use crate::tool::Caller;

/// For how long challenges ask signatures to be good, in seconds. Enough for a person to confirm, and it keeps the store small.
pub const IDENTITY_SECONDS: u64 = 300;

/// For how long challenges ask payments to be good, in seconds: a person who confirms, the handler, and the settlement after it.
pub const PAYMENT_SECONDS: u64 = 300;

/// Where identity is signed for when the registry's own chain has no USDC that stock clients know.
const BASE: u64 = 8453;

/// What a gate asks to be signed.
#[derive(Debug)]
pub(crate) struct Terms {
    paywall: Paywall,
    /// One for each offer.
    domains: Vec<Domain>,
    /// One for each offer: where accounts with code are asked.
    nodes: Vec<Option<Chain>>,
    times: TimePolicy,
    bound_only: bool,
    tool: Option<ToolRef>,
    origin: String,
    /// Whether results are kept for payers who come back.
    keeps_results: bool,
    /// How callers may sign in instead. Never where money is asked for.
    sign_in: Option<SignIn>,
}

/// What a request brings to prove who calls. Nothing of it was checked.
#[derive(Debug)]
pub(crate) enum Presented {
    Payment(Box<Payment>),
    SignIn(Box<sign_in::Presented>),
}

/// The request as the signature may commit to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'r> {
    pub(crate) method: &'r str,
    /// Path and query as they came.
    pub(crate) target: &'r str,
    pub(crate) body: &'r [u8],
}

/// A caller who proved to be somebody, and the signature that is used up by it.
#[derive(Debug)]
pub(crate) struct Proven {
    pub(crate) caller: Caller,
    pub(crate) payment: Payment,
    /// Which offer is met.
    pub(crate) offer: usize,
    pub(crate) key: ReplayKey,
    pub(crate) expires_at: UnixTime,
    /// What shows that this is the caller of before, and nobody who read the payment somewhere.
    pub(crate) possession: Option<Proof>,
    /// The identifier that the caller gave the operation.
    pub(crate) payment_id: Option<String>,
    /// The time in which the payment could be taken is over. What it has bought may still be fetched.
    pub(crate) is_over: bool,
}

/// Why nobody is proven.
#[derive(Debug)]
pub(crate) enum Unproven {
    /// Nothing that could be read as a proof: the request is wrong.
    Malformed(Refusal),
    /// Nothing, or no good proof: here is the challenge.
    Challenge(Option<Code>),
    /// The account's chain did not answer. Why, for the operator.
    Unasked(String),
}

impl Terms {
    /// Asks for a signature and no money.
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

    /// Asks for a signature and nothing else.
    pub(crate) fn identity(gate: &IdentityGate, manifest: &ToolManifest) -> Result<Self, Vec<Finding>> {
        let pay_to = gate.pay_to.unwrap_or_else(|| manifest.creator());
        let token = asset::preferred(gate.identity_chain.unwrap_or(BASE));
        let offer = token.filter(|_| !pay_to.is_zero());
        let offer = offer.and_then(|token| Offer::exact(&token, Amount::new(U256::ZERO), pay_to, IDENTITY_SECONDS));
        let offer = offer.ok_or_else(|| vec![Finding::new(codes::gate::CHALLENGE)])?;
        let terms = Self::new(vec![offer], Vec::new(), manifest, gate.times, gate.bound_only, gate.tool)?;
        terms.judged_on(&gate.contract_accounts)?.signing_in(gate.sign_in, manifest)
    }

    /// Asks for the prices of the manifest, all of them.
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

    /// Makes the challenge. The URL in it is the manifest's, whatever a request says about hosts.
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

    /// Takes signatures of accounts with code where there is a node to ask them.
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

    /// Lets callers sign in with a message, on the chain that identity is signed for.
    fn signing_in(mut self, settings: SignInSettings, manifest: &ToolManifest) -> Result<Self, Vec<Finding>> {
        if self.bound_only {
            // A message commits to no call.
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

    /// The answer 402, with a reason.
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

    /// Reads the payment or the sign-in message among the headers, before a byte of the body. A payment goes first.
    pub(crate) fn read(&self, headers: &HeaderMap) -> Result<Presented, Unproven> {
        let pairs = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        if let Some(reading) = read_payment_headers(pairs) {
            let payment = reading.into_result().map_err(|findings| Unproven::Malformed(malformed(&findings)))?;
            return Ok(Presented::Payment(Box::new(payment)));
        }
        let presented = self.sign_in.as_ref().and_then(|sign_in| sign_in.read(headers));
        presented.ok_or(Unproven::Challenge(None))?.map(|presented| Presented::SignIn(Box::new(presented)))
    }

    /// Checks everything about a payment: what it is for, when, for which call, and who signed. Waits for nobody, unless there is a
    /// node to ask.
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
            // Where there is one offer, it helps more to hear in what the payment differs from it.
            let at = usize::from(offers.len() == 1 && findings.len() > 1);
            refused(findings.get(at).map_or(codes::payment::NO_MATCHING_OFFER, |finding| finding.code))
        })?;
        let (binding, mut possession) = self.binding(&payment, headers, asked)?;
        let malformed = |code: Code| Unproven::Malformed(Refusal::new(StatusCode::BAD_REQUEST, code));
        // Only paid calls have a result to come back for.
        let payment_id = if self.keeps_results { payment_id::read(&payment.extensions).map_err(malformed)? } else { None };
        if let Some(id) = &payment_id {
            possession = possession.or_else(|| Some(Proof::of(&payment_id::secret(id))));
        }
        // Time and the shape of the signature are the same under every offer.
        let mut faults = met.first().map_or_else(Vec::new, |offer| check_payment(&payment, offer, now, &self.times));
        let is_met = |offer: &Offer| met.contains(&offer);
        if offers.iter().zip(&self.nodes).any(|(offer, node)| node.is_some() && is_met(offer)) {
            // What a contract takes for a signature is its own affair, 65 bytes long or not, and one that is not deployed yet brings
            // what deploys it. Accounts without code are held to the shape of theirs below.
            faults.retain(|fault| !ACCOUNT_SHAPE.contains(&fault.code));
        }
        // Whoever can prove possession may come for a result after the time to pay is over.
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

    /// Whether the nonce commits to this call, and what proves possession: the salt of one that does, a retry token otherwise.
    fn binding(&self, payment: &Payment, headers: &HeaderMap, asked: Asked<'_>) -> Result<(Binding, Option<Proof>), Unproven> {
        let refused = |code: Code| Unproven::Challenge(Some(code));
        let malformed = |code: Code| Unproven::Malformed(Refusal::new(StatusCode::BAD_REQUEST, code));
        let salt = nonce::read_salt(values(headers, header::X_TOOL_NONCE_SALT)).map_err(|fault| malformed(fault.code()))?;
        let binding = match (salt, self.tool(), nonce::is_marked(payment.authorization.nonce)) {
            (None, _, false) => Binding::Unbound,
            (None, _, true) => return Err(refused(codes::payment::SALT_MISSING)),
            (Some(_), known, _) => {
                // A gate that was not told which tool it is on the chain believes the caller. The URL and the body are checked in any
                // case, so this lets nobody take a payment from one tool to another.
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

/// The rules that only signatures of accounts without code must keep.
const ACCOUNT_SHAPE: [Code; 4] = [
    codes::chain::SIGNATURE_V,
    codes::chain::SIGNATURE_HIGH_S,
    codes::chain::SIGNATURE_RANGE,
    codes::chain::SIGNATURE_UNDEPLOYED,
];

/// Whether an account has signed: by recovery, or, where there is a node, as the account itself says if it has code.
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

/// The retry token among the headers.
fn token(headers: &HeaderMap) -> Result<Option<B256>, Code> {
    // Spelt like a salt.
    nonce::read_salt(values(headers, header::X_TOOL_RETRY_TOKEN)).map_err(|_| codes::payment::RETRY_TOKEN)
}

/// The tool that the caller means.
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

/// An entry of the manifest as an offer.
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

/// USDC of a chain where stock clients of both versions can sign for it, and Base's otherwise.
fn usual(chain: u64) -> Option<Token> {
    let is_stock = ChainId::parse(&format!("eip155:{chain}"))
        .is_ok_and(|chain| network::by_chain(&chain).is_some_and(|network| network.is_stock));
    asset::usdc(chain).filter(|_| is_stock).or_else(|| asset::usdc(BASE))
}

fn domain(token: &Token) -> Domain {
    Domain::new(token.name, token.version, U256::from(token.chain), token.address)
}

/// A payment that cannot be read: 400, with the first thing that is wrong. What stood there is not repeated; it is a credential.
fn malformed(findings: &[Finding]) -> Refusal {
    match findings.first() {
        Some(finding) => Refusal::new(StatusCode::BAD_REQUEST, finding.code).message(finding.message.clone()),
        None => Refusal::new(StatusCode::BAD_REQUEST, codes::payment::NOT_AN_OBJECT),
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
