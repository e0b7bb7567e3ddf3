//! The data model of Bazaar resources: facilitators' claims, and results of probes.

use alloy_primitives::{B256, U256};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::text::escape_for_display;
use toolcrib_core::url::HttpsUrl;
use toolcrib_core::url::image::{ImageKind, ImageUri};
use toolcrib_x402::{CatalogueItem, EXACT, ItemAccess, Offer, PROTOCOL, Raw};

use crate::facts::listed_price;
use crate::listing::Price;
use crate::model::{RegistryId, ToolKey};
use crate::moderation::{Moderation, Restriction};

/// The maximum length of a stored payment scheme in bytes.
const MAX_SCHEME_BYTES: usize = 32;

/// What a facilitator says about a resource. Texts are escaped for display and truncated; all of it is a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogueClaim {
    /// The name of the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The media type of its response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Topics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Its icon, if its URL may be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// Its HTTP method, if stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Its path with parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route_template: Option<String>,
    /// Its payment options.
    #[serde(default)]
    pub prices: Vec<Price>,
    /// When the facilitator last updated it, as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<UnixTime>,
    /// A schema or an example of the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// A schema or an example of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
}

impl CatalogueClaim {
    /// Reads the claims of a catalogue item.
    pub(super) fn of(item: &CatalogueItem) -> Self {
        let shown = |text: &Option<String>| text.as_deref().map(escape_for_display);
        let is_shown = |icon: &&String| matches!(ImageUri::classify(icon), ImageKind::Https(_));
        let value = |raw: &Option<Raw>| raw.as_ref().and_then(|raw| serde_json::from_str(raw.as_str()).ok());
        let method = match &item.access {
            ItemAccess::Http { method } => method.map(str::to_owned),
            ItemAccess::Mcp { .. } => None,
        };
        Self {
            name: shown(&item.name),
            description: shown(&item.description),
            mime_type: shown(&item.mime_type),
            tags: item.tags.iter().map(|tag| escape_for_display(tag)).collect(),
            icon: item.icon.as_ref().filter(is_shown).cloned(),
            method,
            route_template: item.route_template.clone(),
            prices: prices(&item.offers),
            last_updated: item.last_updated,
            input: value(&item.input),
            output: value(&item.output),
        }
    }

    /// Whether both claim the same, ignoring `last_updated`, which changes with every payment.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let at_any_time = |claim: &Self| Self { last_updated: None, ..claim.clone() };
        at_any_time(self) == at_any_time(other)
    }
}

/// Converts offers to payment options. An offer of a scheme other than `exact` has that scheme: its amount may be the maximum instead of
/// the price.
pub(super) fn prices(offers: &[Offer]) -> Vec<Price> {
    offers.iter().map(price).collect()
}

fn price(offer: &Offer) -> Price {
    let network = offer.network.as_str();
    let (chain, token) = (offer.network.evm_id(), offer.asset.evm_address());
    let asset = match token {
        Some(token) => format!("{network}/erc20:{token:#x}"),
        None => format!("{network}/token:{}", escape_for_display(offer.asset.as_str())),
    };
    let recipient = match offer.pay_to.evm_address() {
        Some(account) => format!("{network}:{account:#x}"),
        None => format!("{network}:{}", escape_for_display(offer.pay_to.as_str())),
    };
    let protocol = match offer.scheme.as_str() {
        EXACT => PROTOCOL.to_owned(),
        scheme => {
            let scheme = &scheme[..scheme.floor_char_boundary(MAX_SCHEME_BYTES)];
            format!("{PROTOCOL}/{}", escape_for_display(scheme))
        }
    };
    listed_price(offer.amount, asset, recipient, protocol, chain, token)
}

/// Whether two lists of options have the same assets, amounts and recipients, in any order.
fn is_same_demand(ours: &[Price], theirs: &[Price]) -> bool {
    let has = |list: &[Price], price: &Price| {
        list.iter().any(|other| {
            (&other.asset, &other.amount, &other.recipient, &other.protocol)
                == (&price.asset, &price.amount, &price.recipient, &price.protocol)
        })
    };
    ours.iter().all(|price| has(theirs, price)) && theirs.iter().all(|price| has(ours, price))
}

/// The response of a resource to a request without payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeFacts {
    /// When it was probed.
    pub at: UnixTime,
    /// `challenges` (it asks for payment), `serves`, `refuses`, `redirects`, `fails`, `missing`, `no_answer`, or `not_probed`. Later
    /// versions may have more states.
    pub state: String,
    /// The HTTP status of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The code of the reason, if there is no response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Its payment options.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prices: Vec<Price>,
}

impl ProbeFacts {
    /// Whether both are the same, ignoring the time.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let Self { at: _, state, status, code, prices } = self;
        (state, status, code, prices) == (&other.state, &other.status, &other.code, &other.prices)
    }
}

/// The claim of one facilitator, and when it was last seen.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimView {
    /// The facilitator: scheme, host and port.
    pub facilitator: String,
    /// When a walk last found the resource there.
    pub seen_at: UnixTime,
    /// The claim.
    pub claim: CatalogueClaim,
}

/// Everything that is known about a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceView {
    /// Its number in this database.
    pub id: i64,
    /// The hash of its URL and tool name: the same in every database.
    pub identity: B256,
    /// The URL that it is called at.
    pub url: String,
    /// Its tool name on the MCP server at that URL, if it is an MCP tool.
    pub tool: Option<String>,
    /// When it was first seen here.
    pub first_seen_at: UnixTime,
    /// When the stored data last changed.
    pub updated_at: UnixTime,
    /// The claims of facilitators, in the order in which these were first configured. Never empty.
    pub claims: Vec<ClaimView>,
    /// The result of the last probe.
    pub probe: Option<ProbeFacts>,
    /// The operator's restriction, if any.
    pub moderation: Option<Moderation>,
}

impl ResourceView {
    /// Whether a notice replaces its content.
    pub fn is_blocked(&self) -> bool {
        self.moderation.as_ref().is_some_and(|moderation| moderation.action == Restriction::Block)
    }

    /// Returns the key of a resource in the change feed and in search.
    pub(crate) const fn key_of(id: i64) -> ToolKey {
        ToolKey { registry: RegistryId::BAZAAR, id: U256::from_limbs([id.cast_unsigned(), 0, 0, 0]) }
    }

    /// Returns its key in the change feed and in search.
    pub const fn key(&self) -> ToolKey {
        Self::key_of(self.id)
    }

    /// Returns the claim that is shown: that of the facilitator that was configured first.
    pub fn claim(&self) -> Option<&CatalogueClaim> {
        self.claims.first().map(|view| &view.claim)
    }

    /// Returns the price that the resource itself asks for. Empty until a probe got one: a price in a catalogue is only a claim.
    pub fn prices(&self) -> &[Price] {
        self.probe.as_ref().map_or(&[], |probe| &probe.prices)
    }

    /// Whether a claim matches what the resource itself asks for; `None` before a successful probe.
    pub fn agrees(&self, claim: &CatalogueClaim) -> Option<bool> {
        let prices = self.prices();
        (!prices.is_empty()).then(|| is_same_demand(prices, &claim.prices))
    }

    /// Returns its display name: the service's name, the tool's name, or the host.
    pub fn name(&self) -> String {
        let named = self.claim().and_then(|claim| claim.name.clone()).or_else(|| self.tool.clone());
        named.unwrap_or_else(|| HttpsUrl::parse(&self.url).map(|url| url.host().to_owned()).unwrap_or_default())
    }

    /// Returns the chain that is shown for it: the first EVM chain among its payment options. 0 when there is none.
    pub fn chain(&self) -> u64 {
        let claimed = self.claim().map_or(&[][..], |claim| &claim.prices);
        self.prices().iter().chain(claimed).find_map(|price| price.chain).unwrap_or_default()
    }
}

/// Returns the URL in the form in which resources and endpoints are compared: an empty path becomes the root.
pub(super) fn comparable(url: &HttpsUrl) -> String {
    let text = url.normalized();
    let end = url.fragment().map_or(text.len(), |fragment| text.len() - fragment.len() - 1);
    let text = &text[..end];
    match (url.path(), url.query()) {
        ("", None) => format!("{text}/"),
        ("", Some(query)) => {
            let (before, _) = text.split_at(text.len() - query.len() - 1);
            format!("{before}/?{query}")
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_compared_whatever_the_root_looks_like() {
        for (text, expected) in [
            ("https://A.example", "https://a.example/"),
            ("https://a.example:443/", "https://a.example/"),
            ("https://a.example?x=1", "https://a.example/?x=1"),
            ("https://a.example/b?x#f", "https://a.example/b?x"),
            ("https://a.example#f", "https://a.example/"),
        ] {
            assert_eq!(comparable(&HttpsUrl::parse(text).expect(text)), expected, "{text}");
        }
    }

    #[test]
    fn demands_are_the_same_in_any_order() {
        let price = |amount: &str, to: &str| Price {
            amount: amount.to_owned(),
            asset: "eip155:8453/erc20:0xaa".to_owned(),
            recipient: to.to_owned(),
            protocol: "x402".to_owned(),
            chain: Some(8453),
            token: None,
            symbol: None,
            decimals: None,
            micro_usd: None,
        };
        let (a, b) = (price("1", "x"), price("2", "x"));
        assert!(is_same_demand(&[a.clone(), b.clone()], &[b.clone(), a.clone(), a.clone()]));
        assert!(!is_same_demand(&[a.clone(), b], std::slice::from_ref(&a)));
        assert!(!is_same_demand(&[a], &[price("1", "y")]));
    }
}
