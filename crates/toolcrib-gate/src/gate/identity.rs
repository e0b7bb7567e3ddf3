//! Who calls: a signature over a transfer of nothing, checked without a chain.

use alloy_primitives::{Address, U256};
use axum::http::{HeaderMap, StatusCode};
use toolcrib_chain::sign::{Domain, StrictSignature, TransferAuthorization, TransferKind};
use toolcrib_core::caip::{ChainId, ToolRef};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::finding::Finding;
use toolcrib_core::money::Amount;
use toolcrib_core::tool::ToolManifest;
use toolcrib_core::x402::asset::{self, Token};
use toolcrib_core::x402::nonce::{self, Binding, BoundCall};
use toolcrib_core::x402::{
    Offer, Payment, Paywall, ReplayKey, Resource, TimePolicy, check_payment, header, match_offers, network, read_payment_headers,
};

use super::PredicateGate;
use crate::answer::Refusal;
use crate::tool::Caller;

/// For how long challenges ask signatures to be good, in seconds. Enough for a person to confirm, and it keeps the store small.
pub const IDENTITY_SECONDS: u64 = 300;

/// Where identity is signed for when the registry's own chain has no USDC that stock clients know.
const BASE: u64 = 8453;

/// A gate's first half, ready to be used.
#[derive(Debug)]
pub(crate) struct Identity {
    paywall: Paywall,
    /// One for each offer.
    domains: Vec<Domain>,
    times: TimePolicy,
    bound_only: bool,
    tool: ToolRef,
    origin: String,
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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proven {
    pub(crate) caller: Caller,
    pub(crate) key: ReplayKey,
    pub(crate) expires_at: UnixTime,
}

/// Why nobody is proven.
#[derive(Debug)]
pub(crate) enum Unproven {
    /// Nothing that could be read as a proof: the request is wrong.
    Malformed(Refusal),
    /// Nothing, or no good proof: here is the challenge.
    Challenge(Option<Code>),
}

impl Identity {
    /// Makes the challenge. The URL in it is the manifest's, whatever a request says about hosts.
    pub(crate) fn new(gate: &PredicateGate, manifest: &ToolManifest) -> Result<Self, Vec<Finding>> {
        let unusable = || vec![Finding::new(codes::gate::CHALLENGE)];
        let pay_to = gate.pay_to.unwrap_or_else(|| manifest.creator());
        if pay_to.is_zero() {
            return Err(vec![Finding::new(codes::x402::PAY_TO_NOBODY)]);
        }
        let token = match gate.identity_chain {
            Some(chain) => asset::usdc(chain),
            None => usual(gate.registry.chain().chain_id()),
        };
        let token = token.ok_or_else(unusable)?;
        let offer = Offer::exact(&token, Amount::new(U256::ZERO), pay_to, IDENTITY_SECONDS).ok_or_else(unusable)?;
        let endpoint = manifest.endpoint();
        let resource = Resource {
            url: Some(endpoint.normalized().to_owned()),
            description: Some(manifest.description().to_owned()),
            mime_type: Some("application/json".to_owned()),
            other: Vec::new(),
        };
        let paywall = Paywall::new(vec![offer], resource, Vec::new())?;
        let domains: Option<Vec<_>> = paywall.offers().iter().map(|offer| offer.token().map(domain)).collect();
        Ok(Self {
            paywall,
            domains: domains.ok_or_else(unusable)?,
            times: gate.times,
            bound_only: gate.bound_only,
            tool: gate.registry.reference(gate.id),
            origin: endpoint.origin().to_string(),
        })
    }

    pub(crate) const fn paywall(&self) -> &Paywall {
        &self.paywall
    }

    pub(crate) const fn tool(&self) -> ToolRef {
        self.tool
    }

    /// Reads the payment among the headers, before a byte of the body.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Payment, Unproven> {
        let pairs = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let Some(reading) = read_payment_headers(pairs) else { return Err(Unproven::Challenge(None)) };
        reading.into_result().map_err(|findings| Unproven::Malformed(malformed(&findings)))
    }

    /// Checks everything about a payment: what it is for, when, for which call, and who signed.
    pub(crate) fn verify(
        &self,
        payment: &Payment,
        headers: &HeaderMap,
        asked: Asked<'_>,
        now: UnixTime,
    ) -> Result<Proven, Unproven> {
        let refused = |code: Code| Unproven::Challenge(Some(code));
        let offers = self.paywall.offers();
        let met = match_offers(payment, offers).map_err(|findings| {
            // Where there is one offer, it helps more to hear in what the payment differs from it.
            let at = usize::from(offers.len() == 1 && findings.len() > 1);
            refused(findings.get(at).map_or(codes::payment::NO_MATCHING_OFFER, |finding| finding.code))
        })?;
        // Time and the shape of the signature are the same under every offer.
        if let Some(finding) = met.first().and_then(|offer| check_payment(payment, offer, now, &self.times).into_iter().next()) {
            return Err(refused(finding.code));
        }
        let binding = self.binding(payment, headers, asked)?;
        let signature = StrictSignature::from_slice(payment.signature.as_bytes()).map_err(|error| refused(error.code()))?;
        let transfer = TransferAuthorization::from(&payment.authorization);
        let mut fault = codes::payment::NO_MATCHING_OFFER;
        for (offer, domain) in offers.iter().zip(&self.domains).filter(|(offer, _)| met.contains(offer)) {
            match signature.check(transfer.digest(TransferKind::Transfer, domain), payment.authorization.from) {
                Err(error) => fault = error.code(),
                Ok(()) => {
                    let Some(key) = ReplayKey::of(&payment.authorization, offer) else { continue };
                    return Ok(self.proven(payment, key, binding));
                }
            }
        }
        Err(refused(fault))
    }

    fn proven(&self, payment: &Payment, key: ReplayKey, binding: Binding) -> Proven {
        let account: Address = payment.authorization.from;
        let ends = i64::try_from(self.times.forget_after(&payment.authorization)).unwrap_or(i64::MAX);
        Proven {
            caller: Caller { account, version: payment.version, is_bound: binding == Binding::Bound },
            key,
            expires_at: UnixTime::from_seconds(ends),
        }
    }

    fn binding(&self, payment: &Payment, headers: &HeaderMap, asked: Asked<'_>) -> Result<Binding, Unproven> {
        let refused = |code: Code| Unproven::Challenge(Some(code));
        let values = headers.get_all(header::X_TOOL_NONCE_SALT).iter().map(axum::http::HeaderValue::as_bytes);
        let salt =
            nonce::read_salt(values).map_err(|fault| Unproven::Malformed(Refusal::new(StatusCode::BAD_REQUEST, fault.code())))?;
        let target = format!("{}{}", self.origin, asked.target);
        let call = BoundCall { tool: self.tool, method: asked.method, target: &target, body: asked.body };
        match nonce::verify(payment.authorization.nonce, salt, &call) {
            Ok(Binding::Unbound) if self.bound_only => Err(refused(codes::payment::NONCE_UNBOUND)),
            Ok(binding) => Ok(binding),
            Err(fault) => Err(refused(fault.code())),
        }
    }
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
