//! Checks a payment against an offer, as far as neither keys nor a chain are needed.
//!
//! Not checked here: the signer (recovery or ERC-1271), whether the nonce was used before (a store of [`ReplayKey`]s), and whether the
//! payer has the money.

use std::fmt;

use alloy_primitives::{Address, B256};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::{Code, payment as code, x402};
use toolcrib_core::finding::Finding;

use super::read::EIP3009;
use super::{Authorization, EXACT, Extra, Offer, Payment, Version};

/// Limits on the validity of authorizations, and on clock skew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimePolicy {
    /// Longest time from now to `validBefore`, without the skew. Public clients sign for ten minutes regardless of the challenge, so less
    /// than 600 rejects them; a larger value means that every nonce must be stored for longer.
    pub max_seconds: u64,
    /// Accepted clock skew of a caller that is ahead.
    pub skew_seconds: u64,
    /// Remaining validity that a payment needs, so that there is time to settle it: three blocks of two seconds.
    pub settle_seconds: u64,
}

impl Default for TimePolicy {
    fn default() -> Self {
        Self { max_seconds: 900, skew_seconds: 60, settle_seconds: 6 }
    }
}

impl TimePolicy {
    /// Returns the second from which a nonce need not be stored: the authorization is no longer accepted, not even by a replica whose clock
    /// is behind by the skew.
    pub const fn forget_after(&self, authorization: &Authorization) -> u64 {
        authorization.valid_before.saturating_add(self.skew_seconds)
    }

    fn check(&self, authorization: &Authorization, now: UnixTime, findings: &mut Vec<Finding>) {
        let now = u64::try_from(now.seconds()).unwrap_or(0);
        let Authorization { valid_after, valid_before, .. } = *authorization;
        let is_paid = !authorization.value.is_zero();
        // A token accepts an authorization strictly after validAfter, so tolerance for clock skew would only move the rejection of a
        // payment to its settlement, after the tool has done its work. An authorization that is never settled can tolerate the skew.
        let latest_start = if is_paid { now } else { now.saturating_add(self.skew_seconds) };
        let earliest_end = if is_paid { now.saturating_add(self.settle_seconds) } else { now };
        let latest_end = now.saturating_add(self.max_seconds).saturating_add(self.skew_seconds);
        let mut found = |code: Code, expected: String, got: u64| {
            findings.push(Finding::new(code).expected(expected).got(got.to_string()));
        };
        if valid_before <= valid_after {
            found(code::WINDOW_EMPTY, format!("validBefore after {valid_after}"), valid_before);
        }
        if valid_after > latest_start {
            found(code::NOT_YET, format!("validAfter of at most {latest_start}"), valid_after);
        }
        if valid_before <= earliest_end {
            found(code::EXPIRED, format!("validBefore after {earliest_end}"), valid_before);
        }
        if valid_before > latest_end {
            found(code::TOO_LONG_VALID, format!("validBefore of at most {latest_end}"), valid_before);
        }
    }
}

/// Checks a payment against the offer that it should meet: network, asset, recipient, value, time, and the format of the signature. No
/// finding means that the signer can be recovered next.
///
/// Every finding is an error. The offer is the server's own, and the caller's copy of it is never trusted.
pub fn check_payment(payment: &Payment, offer: &Offer, now: UnixTime, policy: &TimePolicy) -> Vec<Finding> {
    let mut findings = differences(payment, offer);
    policy.check(&payment.authorization, now, &mut findings);
    if let Some(fault) = payment.signature.fault() {
        findings.push(Finding::new(fault));
    }
    findings
}

/// Returns the offers that a payment may be for. Usually one; version 1 does not name the asset, so offers that differ in nothing else all
/// remain, and the signature decides.
pub fn match_offers<'o>(payment: &Payment, offers: &'o [Offer]) -> Result<Vec<&'o Offer>, Vec<Finding>> {
    let (mut met, mut nearest) = (Vec::new(), None::<Vec<Finding>>);
    for offer in offers {
        let differences = differences(payment, offer);
        if differences.is_empty() {
            met.push(offer);
        } else if nearest.as_ref().is_none_or(|nearest| differences.len() < nearest.len()) {
            nearest = Some(differences);
        }
    }
    if met.is_empty() {
        let mut findings = vec![Finding::new(code::NO_MATCHING_OFFER)];
        findings.extend(nearest.into_iter().flatten());
        return Err(findings);
    }
    Ok(met)
}

/// The differences between a payment and an offer, except for time and signature.
fn differences(payment: &Payment, offer: &Offer) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut differ = |code: Code, expected: &str, got: &str| findings.push(Finding::new(code).expected(expected).got(got));
    let authorization = &payment.authorization;
    if offer.scheme != EXACT {
        differ(code::SCHEME, EXACT, &offer.scheme);
    }
    if transfer_method(offer.extra.as_ref()) != EIP3009 {
        differ(code::METHOD, EIP3009, transfer_method(offer.extra.as_ref()));
    }
    if payment.network != offer.network {
        differ(code::NETWORK_DIFFERS, offer.network.as_str(), payment.network.as_str());
    }
    let spelt = &payment.spelling.to;
    if offer.pay_to.evm_address() != Some(authorization.to) {
        differ(code::PAY_TO_DIFFERS, offer.pay_to.as_str(), spelt);
    } else if authorization.to.is_zero() {
        differ(x402::PAY_TO_UNSPENDABLE, "an account other than the zero address", spelt);
    }
    if authorization.from.is_zero() {
        differ(code::FROM_ZERO_ADDRESS, "the caller's account", &payment.spelling.from);
    }
    let (price, value) = (offer.amount, authorization.value);
    if price != value {
        let rule = match (price.is_zero(), value.is_zero()) {
            (true, _) => code::VALUE_NOT_ZERO,
            (_, true) => code::VALUE_MISSING,
            _ => code::VALUE_DIFFERS,
        };
        differ(rule, &offer.shown_amount(), &value.to_string());
    }
    if payment.version == Version::V2 {
        match &payment.accepted {
            Some(accepted) => findings.extend(accepted_differences(accepted, offer)),
            None => findings.push(Finding::new(code::FIELD_MISSING).message("`accepted` is missing")),
        }
    }
    findings
}

/// The differences between the caller's copy of the offer and ours. Amount and recipient are signed, but a copy that differs is still wrong
/// for anyone who reads it.
fn accepted_differences(accepted: &Offer, offer: &Offer) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut differ = |key: &str, code: Code, expected: &str, got: &str| {
        let mut finding = Finding::new(code).expected(expected).got(got);
        finding.pointer = format!("/accepted/{key}");
        findings.push(finding);
    };
    if !accepted.asset.is(&offer.asset) {
        differ("asset", code::ASSET_DIFFERS, offer.asset.as_str(), accepted.asset.as_str());
    }
    if !accepted.pay_to.is(&offer.pay_to) {
        differ("payTo", code::PAY_TO_DIFFERS, offer.pay_to.as_str(), accepted.pay_to.as_str());
    }
    if accepted.amount != offer.amount {
        differ("amount", code::VALUE_DIFFERS, &offer.shown_amount(), &accepted.amount.to_string());
    }
    if accepted.max_timeout_seconds != offer.max_timeout_seconds {
        let shown = |seconds: Option<u64>| seconds.map_or_else(|| "none".to_owned(), |seconds| seconds.to_string());
        let (ours, theirs) = (shown(offer.max_timeout_seconds), shown(accepted.max_timeout_seconds));
        differ("maxTimeoutSeconds", code::TIMEOUT_DIFFERS, &ours, &theirs);
    }
    if !has_extra(accepted.extra.as_ref(), offer.extra.as_ref()) {
        differ("extra", code::EXTRA_DIFFERS, "`extra` as in the offer", "another value");
    }
    findings
}

/// Whether the caller's `extra` has all members of ours. It may have more.
fn has_extra(theirs: Option<&Extra>, ours: Option<&Extra>) -> bool {
    let none = Extra::default();
    let (theirs, ours) = (theirs.unwrap_or(&none), ours.unwrap_or(&none));
    let repeats = |ours: &Option<String>, theirs: &Option<String>| ours.is_none() || ours == theirs;
    transfer_method(Some(ours)) == transfer_method(Some(theirs))
        && repeats(&ours.name, &theirs.name)
        && repeats(&ours.version, &theirs.version)
        && repeats(&ours.payment_flow, &theirs.payment_flow)
        && ours.other.iter().all(|member| theirs.other.contains(member))
}

fn transfer_method(extra: Option<&Extra>) -> &str {
    extra.and_then(|extra| extra.transfer_method.as_deref()).unwrap_or(EIP3009)
}

/// The identity of a payment in the replay store, independent of version, header and spelling: each is used once.
///
/// Signatures are not part of it, because one authorization can have several encodings of the same signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplayKey {
    /// The EVM chain id.
    pub chain: u64,
    /// The token of our offer.
    pub asset: Address,
    /// The payer.
    pub from: Address,
    /// The nonce.
    pub nonce: B256,
}

impl ReplayKey {
    /// The number of bytes of [`to_bytes`](Self::to_bytes).
    pub const BYTES: usize = 8 + 20 + 20 + 32;

    /// The key of an authorization under an offer of ours. `None` if the offer is not on an EVM chain.
    pub fn of(authorization: &Authorization, offer: &Offer) -> Option<Self> {
        let (chain, asset) = (offer.network.evm_id()?, offer.asset.evm_address()?);
        Some(Self { chain, asset, from: authorization.from, nonce: authorization.nonce })
    }

    /// The canonical form for stores; the chain comes first, big-endian.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.chain.to_be_bytes());
        bytes[8..28].copy_from_slice(self.asset.as_slice());
        bytes[28..48].copy_from_slice(self.from.as_slice());
        bytes[48..].copy_from_slice(self.nonce.as_slice());
        bytes
    }

    /// The inverse of [`to_bytes`](Self::to_bytes).
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let (mut chain, mut nonce) = ([0; 8], [0; 32]);
        chain.copy_from_slice(&bytes[..8]);
        nonce.copy_from_slice(&bytes[48..]);
        Self {
            chain: u64::from_be_bytes(chain),
            asset: Address::from_slice(&bytes[8..28]),
            from: Address::from_slice(&bytes[28..48]),
            nonce: B256::new(nonce),
        }
    }
}

impl fmt::Display for ReplayKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "eip155:{}/erc20:{:#x}/{:#x}/{}", self.chain, self.asset, self.from, self.nonce)
    }
}

#[cfg(test)]
mod tests;
