//! The 402 response: one response that callers of both versions can pay.
//!
//! Version 1 is in the body and lists only what its stock clients can parse, each entry complete, because these clients reject all entries
//! if they do not understand one. Version 2 is in the header and lists everything. Both are made from the same offers. The response is
//! plain data; the caller sends it.

use toolcrib_core::codes::{Code, x402 as code};
use toolcrib_core::finding::Finding;

use super::{ChainAddress, Challenge, EXACT, Extra, Members, ObjectWriter, Offer, Raw, Resource, Version, header, v1};

/// `Cache-Control` of the response to a paid or proven call: no cache may store what one caller paid for.
pub const PAID_CACHE_CONTROL: &str = "private, no-store";

/// The offers, resource and extensions in the 402 responses of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paywall {
    offers: Vec<Offer>,
    resource: Resource,
    extensions: Members,
}

/// A response with status 402.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaywallAnswer {
    /// Names and values of the headers, without duplicates.
    pub headers: Vec<(&'static str, String)>,
    /// The body: JSON.
    pub body: String,
}

impl PaywallAnswer {
    /// The status.
    pub const STATUS: u16 = 402;
}

impl Paywall {
    /// A paywall with these offers for `resource`. Offers are completed: a default timeout, the signing domain of a pinned token, checksums
    /// in addresses.
    ///
    /// The URL of the resource is the public one of the settings, never derived from a request.
    pub fn new(offers: Vec<Offer>, resource: Resource, extensions: Members) -> Result<Self, Vec<Finding>> {
        if offers.is_empty() {
            return Err(vec![Finding::new(code::NO_OFFERS)]);
        }
        if offers.len() > super::MAX_OFFERS {
            return Err(vec![Finding::new(code::TOO_MANY_OFFERS).got(offers.len().to_string())]);
        }
        if let Some(offer) = offers.iter().find(|offer| offer.scheme != EXACT || offer.network.evm_id().is_none()) {
            let finding = Finding::new(code::SCHEME_UNKNOWN).expected(EXACT);
            return Err(vec![finding.got(format!("{} on {}", offer.scheme, offer.network))]);
        }
        let paywall = Self { offers: offers.into_iter().map(complete).collect(), resource, extensions };
        // The longest possible reason must still fit.
        let probe = "x".repeat(MAX_ERROR_CHARS);
        match paywall.challenge(Some(&probe)).to_header() {
            Some(_) => Ok(paywall),
            None => Err(vec![Finding::new(code::HEADER_TOO_LONG)]),
        }
    }

    /// The completed offers, which a payment is compared with.
    pub fn offers(&self) -> &[Offer] {
        &self.offers
    }

    /// The extensions of the challenge.
    pub fn extensions(&self) -> &[(String, Raw)] {
        &self.extensions
    }

    /// The resource that is sold.
    pub const fn resource(&self) -> &Resource {
        &self.resource
    }

    /// The response to a caller that has not paid yet, or whose payment was rejected for `reason`.
    pub fn answer(&self, reason: Option<Code>) -> PaywallAnswer {
        self.answer_with(reason, None)
    }

    /// The same with an additional extension for this response. It is omitted if the header would become too long.
    pub fn answer_with(&self, reason: Option<Code>, extension: Option<(String, Raw)>) -> PaywallAnswer {
        let error = reason.map_or("payment required", Code::title);
        let error: String = error.chars().take(MAX_ERROR_CHARS).collect();
        let mut challenge = self.challenge(Some(&error));
        challenge.extensions.extend(extension);
        let mut value = challenge.to_header();
        if value.is_none() {
            challenge.extensions.truncate(self.extensions.len());
            value = challenge.to_header();
        }
        let mut headers = vec![
            ("Content-Type", "application/json".to_owned()),
            // A cached response would be a price for another caller.
            ("Cache-Control", "no-store".to_owned()),
            ("Access-Control-Expose-Headers", EXPOSED.join(", ")),
        ];
        // Without the extension it always fits: `new` has checked it.
        headers.extend(value.map(|value| (header::PAYMENT_REQUIRED, value)));
        PaywallAnswer { headers, body: self.body(&challenge, &error, reason) }
    }

    fn challenge(&self, error: Option<&str>) -> Challenge {
        Challenge {
            version: Version::V2,
            error: error.map(str::to_owned),
            resource: Some(self.resource.clone()),
            accepts: self.offers.clone(),
            extensions: self.extensions.clone(),
        }
    }

    /// Version 1 with Toolcrib's code beside it: its clients accept additional members. If they can pay none of the offers, the body has no
    /// challenge, so that it is not taken for an empty one.
    fn body(&self, challenge: &Challenge, error: &str, reason: Option<Code>) -> String {
        let one = challenge.to_v1();
        let mut out = if one.accepts.is_empty() { String::new() } else { one.to_json() };
        if out.is_empty() {
            let mut object = ObjectWriter::open(&mut out);
            object.text("error", error);
            object.close();
        }
        if let Some(reason) = reason {
            // Appended to the last member of a non-empty object.
            out.pop();
            out.push_str(",\"code\":");
            toolcrib_core::canon::write_string(reason.id(), &mut out);
            out.push('}');
        }
        out
    }
}

/// Completes an offer as both versions require.
fn complete(offer: Offer) -> Offer {
    let token = offer.token();
    let plain = |address: &ChainAddress| address.evm_address().map_or_else(|| address.clone(), ChainAddress::evm);
    let extra = offer.extra.clone().unwrap_or_default();
    let extra = Extra {
        name: extra.name.or_else(|| token.map(|token| token.name.to_owned())),
        version: extra.version.or_else(|| token.map(|token| token.version.to_owned())),
        ..extra
    };
    Offer {
        asset: plain(&offer.asset),
        pay_to: plain(&offer.pay_to),
        max_timeout_seconds: offer.max_timeout_seconds.or(Some(v1::DEFAULT_TIMEOUT_SECONDS)),
        extra: Some(extra).filter(|extra| *extra != Extra::default()),
        ..offer
    }
}

/// Longest reason in a response. Titles of codes are far shorter.
const MAX_ERROR_CHARS: usize = 200;

/// Headers that scripts in browsers may read (CORS).
const EXPOSED: [&str; 3] = [header::PAYMENT_REQUIRED, header::PAYMENT_RESPONSE, header::X_PAYMENT_RESPONSE];

#[cfg(test)]
mod tests;
