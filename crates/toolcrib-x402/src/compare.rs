//! Compares a challenge with the prices of a manifest, field by field.
//!
//! Entries and offers are paired by similarity, so that one wrong field is reported as that field and not as a missing and an additional
//! offer. Findings point to the contradicted entry of the manifest; "expected" is the manifest's value, "got" the endpoint's.

use toolcrib_core::codes::{Code, probe};
use toolcrib_core::finding::Finding;
use toolcrib_core::tool::Price;

use super::{Challenge, EXACT, Offer, PROTOCOL};

/// Compares a challenge with the `pricing` of a manifest. An empty list means a manifest without prices.
///
/// Only entries whose protocol is x402 can be contradicted. A challenge is compared even if it is flawed elsewhere.
pub fn compare(challenge: &Challenge, pricing: &[Price]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let entries: Vec<_> = pricing.iter().enumerate().filter(|(_, price)| price.protocol == PROTOCOL).collect();
    let pairs = pair(&entries, &challenge.accepts);
    for &(at, price) in &entries {
        match pairs.iter().find(|pair| pair.entry == at) {
            Some(pair) => differences(at, price, pair.offer, &mut findings),
            None => {
                let finding = entry_finding(probe::NOT_OFFERED, at, "");
                findings.push(finding.expected(format!("{} of {} to {}", shown(price), price.asset, price.recipient)));
            }
        }
    }
    for (at, offer) in challenge.accepts.iter().enumerate() {
        let is_paired = pairs.iter().any(|pair| std::ptr::eq(pair.offer, offer));
        // The same demand may be present twice, for two methods of moving the token.
        if is_paired || entries.iter().any(|(_, price)| TermMatch::of(price, offer).is_whole()) {
            continue;
        }
        let what = format!("{} of {} on {} to {}", offer.shown_amount(), offer.asset, offer.network, offer.pay_to);
        if pricing.is_empty() {
            if !offer.amount.is_zero() {
                let finding =
                    Finding::new(probe::ASKS_MORE).message("the endpoint asks for a payment, but the manifest has no pricing");
                findings.push(finding.expected("nothing").got(what));
            }
        } else {
            let message = match entries.len() {
                0 => format!("offer {at} is x402, but the manifest has prices for other protocols only"),
                _ => format!("offer {at} has no entry in the manifest"),
            };
            findings.push(Finding::new(probe::EXTRA_OFFER).message(message).got(what));
        }
    }
    findings
}

struct Pair<'c> {
    /// Index in the manifest's `pricing`.
    entry: usize,
    offer: &'c Offer,
}

/// The fields in which an entry and an offer agree.
#[derive(Clone, Copy)]
struct TermMatch {
    network: bool,
    asset: bool,
    amount: bool,
    pay_to: bool,
    exact: bool,
}

impl TermMatch {
    fn of(price: &Price, offer: &Offer) -> Self {
        let network = price.asset.chain() == offer.network.as_str();
        let asset = match (price.asset.evm_address(), offer.asset.evm_address()) {
            (Some(a), Some(b)) => a == b,
            (None, None) => price.asset.asset_reference() == offer.asset.as_str(),
            _ => false,
        };
        let pay_to = match (price.recipient.evm_address(), offer.pay_to.evm_address()) {
            (Some(a), Some(b)) => a == b,
            (None, None) => price.recipient.address() == offer.pay_to.as_str(),
            _ => false,
        };
        Self { network, asset: network && asset, amount: price.amount == offer.amount, pay_to, exact: offer.scheme == EXACT }
    }

    const fn is_whole(self) -> bool {
        self.network && self.asset && self.amount && self.pay_to
    }

    /// Whether they agree enough to be paired.
    const fn is_related(self) -> bool {
        self.network || self.pay_to
    }

    /// Higher is closer. The network has the most weight, because an asset means nothing without it.
    const fn score(self) -> u8 {
        (self.network as u8) << 4
            | (self.asset as u8) << 3
            | (self.pay_to as u8) << 2
            | (self.amount as u8) << 1
            | self.exact as u8
    }
}

/// Pairs each entry with at most one offer, the closest pairs first. There are at most 32 of each, so trying all is cheap.
fn pair<'c>(entries: &[(usize, &Price)], offers: &'c [Offer]) -> Vec<Pair<'c>> {
    // If there is one of each, they belong together.
    let is_single = entries.len() == 1 && offers.len() == 1;
    let mut candidates = Vec::new();
    for &(entry, price) in entries {
        for (at, offer) in offers.iter().enumerate() {
            let likeness = TermMatch::of(price, offer);
            if is_single || likeness.is_related() {
                candidates.push((likeness.score(), entry, at, offer));
            }
        }
    }
    // The sort is stable: ties are in the order of the manifest, then of the challenge.
    candidates.sort_by_key(|&(score, ..)| std::cmp::Reverse(score));
    let mut pairs: Vec<(usize, Pair<'c>)> = Vec::new();
    for (_, entry, at, offer) in candidates {
        if !pairs.iter().any(|(taken, pair)| *taken == at || pair.entry == entry) {
            pairs.push((at, Pair { entry, offer }));
        }
    }
    pairs.into_iter().map(|(_, pair)| pair).collect()
}

fn differences(at: usize, price: &Price, offer: &Offer, findings: &mut Vec<Finding>) {
    let likeness = TermMatch::of(price, offer);
    if !likeness.network {
        let finding = entry_finding(probe::NETWORK_DIFFERS, at, "asset");
        findings.push(finding.expected(price.asset.chain()).got(offer.network.as_str()));
    } else if !likeness.asset {
        // On another network the token has a different address anyway.
        let finding = entry_finding(probe::ASSET_DIFFERS, at, "asset");
        findings.push(finding.expected(price.asset.asset_reference()).got(offer.asset.as_str()));
    }
    if !likeness.amount {
        let finding = match (price.amount.is_zero(), offer.amount > price.amount) {
            (true, _) => entry_finding(probe::ASKS_MORE, at, "amount")
                .message("the endpoint asks for a payment, but the manifest declares calls free"),
            (_, true) => {
                entry_finding(probe::PRICE_DIFFERS, at, "amount").message("the endpoint asks for more than the manifest")
            }
            (_, false) if offer.amount.is_zero() => entry_finding(probe::PRICE_DIFFERS, at, "amount")
                .message("the endpoint asks for no payment, but the manifest states a price"),
            _ => entry_finding(probe::PRICE_DIFFERS, at, "amount").message("the endpoint asks for less than the manifest"),
        };
        findings.push(finding.expected(shown(price)).got(offer.shown_amount()));
    }
    if !likeness.pay_to {
        let finding = entry_finding(probe::PAY_TO_DIFFERS, at, "recipient");
        findings.push(finding.expected(price.recipient.address()).got(offer.pay_to.as_str()));
    }
}

/// A finding about an entry of the manifest, or one field of it.
fn entry_finding(code: Code, at: usize, field: &str) -> Finding {
    let mut finding = Finding::new(code);
    finding.pointer = format!("/pricing/{at}");
    if !field.is_empty() {
        finding.pointer.push('/');
        finding.pointer.push_str(field);
    }
    finding
}

/// The amount of an entry, for display.
fn shown(price: &Price) -> String {
    let token = price.asset.evm_chain_id().zip(price.asset.evm_address()).and_then(|(chain, at)| super::asset::find(chain, at));
    match token {
        Some(token) => format!("{} ({} {})", price.amount, price.amount.format_units(token.decimals), token.symbol),
        None => price.amount.to_string(),
    }
}
