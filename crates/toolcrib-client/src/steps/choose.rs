//! Which offers may be signed. Pure: nothing here asks, signs or sends.
//!
//! An offer may be signed for one of three reasons, and no other: it equals an entry of the manifest that was just verified; it asks only
//! for a proof of identity, for a recipient that is known for this tool (A43); or it equals, in every field, terms that were agreed to.
//! Everything that decides is compared as a value, never as text of the server.

use alloy_primitives::{Address, address};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::tool::Price;
use toolcrib_x402::asset::{self, Token};
use toolcrib_x402::recipient::EndpointBinding;
use toolcrib_x402::{Challenge, EXACT, LONG_TIMEOUT_SECONDS, Offer, PROTOCOL, Version, compare};

use crate::{CallError, Terms};

/// Burn addresses.
const BURN: [Address; 2] =
    [address!("000000000000000000000000000000000000dEaD"), address!("dEAD000000000000000042069420694206942069")];

/// What an offer is compared with.
#[derive(Clone, Debug)]
pub(crate) struct Stated<'m> {
    pub(crate) pricing: &'m [Price],
    pub(crate) creator: Address,
    pub(crate) tool: ToolRef,
    /// The URL of the endpoint, normalised.
    pub(crate) endpoint: &'m str,
    /// Accounts that the user trusts to run this tool.
    pub(crate) operators: Vec<Address>,
    /// Terms that were agreed to.
    pub(crate) agreed: Option<Terms>,
}

/// Why an offer may be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It equals this entry of the manifest.
    Entry(usize),
    /// It asks for a proof of identity.
    Identity,
    /// It equals terms that were agreed to.
    Agreed,
}

/// An offer that may be signed.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) offer: Offer,
    pub(crate) token: &'static Token,
    pub(crate) terms: Terms,
    pub(crate) fit: Fit,
}

/// Returns the offers of a challenge that may be signed, in the creator's order of preference.
pub(crate) fn choose(challenge: &Challenge, stated: &Stated<'_>) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = Vec::new();
    for offer in &challenge.accepts {
        let Ok((token, terms)) = payable(offer, challenge.version) else { continue };
        let Some(fit) = fit(&terms, stated) else { continue };
        // The same terms may occur twice, for two ways of transferring the token; either will do.
        if !candidates.iter().any(|known| known.terms == terms) {
            candidates.push(Candidate { offer: offer.clone(), token, terms, fit });
        }
    }
    candidates.sort_by_key(|candidate| match candidate.fit {
        Fit::Entry(at) => at,
        Fit::Identity => usize::MAX - 1,
        Fit::Agreed => usize::MAX,
    });
    candidates
}

fn fit(terms: &Terms, stated: &Stated<'_>) -> Option<Fit> {
    if let Some(at) = stated.pricing.iter().position(|price| terms_of(price) == Some(*terms)) {
        return Some(Fit::Entry(at));
    }
    if terms.amount.is_zero() {
        // A tool that states prices and asks for 0 has changed its price.
        let is_free = is_free(stated.pricing);
        return (is_free && identity_recipients(stated).any(|known| known == terms.pay_to)).then_some(Fit::Identity);
    }
    (stated.agreed == Some(*terms)).then_some(Fit::Agreed)
}

/// Whether calls are free by the manifest: no prices at all, or one x402 price of 0.
fn is_free(pricing: &[Price]) -> bool {
    pricing.is_empty() || pricing.iter().any(|price| price.protocol == PROTOCOL && price.amount.is_zero())
}

/// Returns the recipients that are allowed for a proof of identity (A43): accounts that are known for the tool, and the derived recipient
/// of each of them for this endpoint. The latter are computed from the manifest; the challenge's claims about them are not read.
fn identity_recipients<'s>(stated: &'s Stated<'_>) -> impl Iterator<Item = Address> + 's {
    let free = stated.pricing.iter().filter(|price| price.protocol == PROTOCOL && price.amount.is_zero());
    let free = free.filter_map(|price| price.recipient.evm_address());
    let known = std::iter::once(stated.creator).chain(free).chain(stated.operators.iter().copied());
    known.flat_map(|operator| {
        let bound = EndpointBinding { endpoint: stated.endpoint.to_owned(), tool: stated.tool, operator };
        [operator, bound.pay_to()]
    })
}

/// Returns the terms that an entry states, if this client can pay it: x402 in an ERC-20 token on an EVM chain.
pub(crate) fn terms_of(price: &Price) -> Option<Terms> {
    let is_ours = price.protocol == PROTOCOL && price.asset.asset_namespace() == "erc20";
    let (chain, asset) = (price.asset.evm_chain_id()?, price.asset.evm_address()?);
    is_ours.then_some(())?;
    Some(Terms { chain, asset, amount: price.amount, pay_to: price.recipient.evm_address()? })
}

/// Returns why none of a manifest's entries can be paid by this client. `None` if one can be paid, or if there is no price at all.
pub(super) fn unpayable_pricing(pricing: &[Price]) -> Option<Vec<String>> {
    let reason = |price: &Price| match (terms_of(price), price.protocol.as_str()) {
        (Some(terms), _) if asset::find(terms.chain, terms.asset).is_some() => None,
        (_, PROTOCOL) => Some(format!("{} is no token of the pinned table", price.asset)),
        (_, protocol) => {
            let protocol: String = protocol.chars().take(64).collect();
            Some(format!("the protocol {} is not supported", toolcrib_core::text::escape_for_display(&protocol)))
        }
    };
    let reasons: Option<Vec<_>> = pricing.iter().map(reason).collect();
    reasons.filter(|reasons| !reasons.is_empty())
}

/// Checks whether an offer is of a kind that this client pays, whatever its amount; or returns why not.
pub(crate) fn payable(offer: &Offer, version: Version) -> Result<(&'static Token, Terms), String> {
    let extra = offer.extra.as_ref();
    let word = |text: Option<&String>| {
        let short: String = text.map(String::as_str).unwrap_or_default().chars().take(64).collect();
        toolcrib_core::text::escape_for_display(&short)
    };
    if offer.scheme != EXACT {
        return Err(format!("the scheme {} is not supported", word(Some(&offer.scheme))));
    }
    let method = extra.and_then(|extra| extra.transfer_method.as_ref());
    if method.is_some_and(|method| method != "eip3009") {
        return Err(format!("the transfer method {} is not supported", word(method)));
    }
    let flow = extra.and_then(|extra| extra.payment_flow.as_ref());
    if flow.is_some_and(|flow| flow != "authorization") {
        return Err(format!("the payment flow {} is not supported", word(flow)));
    }
    let terms = Terms::of(offer).ok_or_else(|| format!("{} is no EVM chain", offer.network))?;
    let token = asset::find(terms.chain, terms.asset)
        .ok_or_else(|| format!("{} on {} is no token of the pinned table", terms.asset, offer.network))?;
    if version.network_text(&offer.network).is_none() {
        return Err(format!("{} has no name in version 1", offer.network));
    }
    if terms.pay_to.is_zero() || BURN.contains(&terms.pay_to) || terms.pay_to == terms.asset {
        return Err(format!("{} is nobody's account", terms.pay_to));
    }
    // The pinned domain is signed in any case; a server that claims another one would not accept the signature.
    let claims = |claimed: Option<&String>, pinned: &str| claimed.is_none_or(|claimed| claimed == pinned);
    let is_pinned = claims(extra.and_then(|extra| extra.name.as_ref()), token.name)
        && claims(extra.and_then(|extra| extra.version.as_ref()), token.version);
    if !is_pinned && !terms.amount.is_zero() {
        return Err("it claims another EIP-712 domain than the token has".to_owned());
    }
    if let Some(seconds) = offer.max_timeout_seconds.filter(|&seconds| seconds > LONG_TIMEOUT_SECONDS) {
        return Err(format!(
            "it wants a signature that is good for {seconds} seconds, and at most {LONG_TIMEOUT_SECONDS} are given"
        ));
    }
    Ok((token, terms))
}

/// Returns the error if [`choose`] found nothing.
pub(super) fn misfit(challenge: &Challenge, stated: &Stated<'_>) -> CallError {
    let (mut asked, mut reasons) = (Vec::new(), Vec::new());
    for offer in &challenge.accepts {
        match payable(offer, challenge.version) {
            Ok((_, terms)) => asked.push(terms),
            Err(reason) => reasons.push(reason),
        }
    }
    let Some(first) = asked.first() else { return CallError::NoPayableOffer { reasons } };
    let findings = compare(challenge, stated.pricing);
    match (is_free(stated.pricing), first.amount.is_zero()) {
        (true, true) => CallError::OperatorUnknown { operator: first.pay_to },
        (true, false) => CallError::FreeAsksMoney { asked, findings },
        (false, _) => CallError::TermsDiffer { asked, findings },
    }
}

#[cfg(test)]
mod tests;
