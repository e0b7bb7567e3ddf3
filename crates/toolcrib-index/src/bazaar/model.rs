//! What is known about a resource: what facilitators claim, and what a probe was told.

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

/// Longest scheme that is named, in bytes.
const MAX_SCHEME_BYTES: usize = 32;

/// What a facilitator says about a resource. Texts are escaped for display and cut; all of it is a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogueClaim {
    /// What the service is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The media type of its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Topics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Its icon, if its URL may be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// The method that it is called with, if it is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Its path with parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route_template: Option<String>,
    /// What it asks for.
    #[serde(default)]
    pub prices: Vec<Price>,
    /// When the facilitator last heard of it, as it says.
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
    /// What an item claims.
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

    /// Whether both say the same, whenever the facilitator last heard of it: that changes with every payment.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let at_any_time = |claim: &Self| Self { last_updated: None, ..claim.clone() };
        at_any_time(self) == at_any_time(other)
    }
}

/// Offers as payment options. An offer of another scheme than `exact` says so: its amount may be the most, and not the price.
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

/// Whether two lists of options ask for the same: assets, amounts and recipients, in any order.
fn is_same_demand(ours: &[Price], theirs: &[Price]) -> bool {
    let has = |list: &[Price], price: &Price| {
        list.iter().any(|other| {
            (&other.asset, &other.amount, &other.recipient, &other.protocol)
                == (&price.asset, &price.amount, &price.recipient, &price.protocol)
        })
    };
    ours.iter().all(|price| has(theirs, price)) && theirs.iter().all(|price| has(ours, price))
}

/// What a resource itself answered to a request without payment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeFacts {
    /// When.
    pub at: UnixTime,
    /// `challenges` (it asks for payment), `serves`, `refuses`, `redirects`, `fails`, `missing`, `no_answer`, or `not_probed`. Later versions
    /// may have more words.
    pub state: String,
    /// The status of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The code of the reason, where there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What it asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prices: Vec<Price>,
}

impl ProbeFacts {
    /// Whether both say the same, at whatever time.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let Self { at: _, state, status, code, prices } = self;
        (state, status, code, prices) == (&other.state, &other.status, &other.code, &other.prices)
    }
}

/// What one facilitator claims, and when it did so last.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimView {
    /// The facilitator: scheme, host and port.
    pub facilitator: String,
    /// When a walk last met the resource there.
    pub seen_at: UnixTime,
    /// What it claims.
    pub claim: CatalogueClaim,
}

/// Everything that is known about a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceView {
    /// Its number here.
    pub id: i64,
    /// The hash of its URL and tool name: the same in every database.
    pub identity: B256,
    /// Where it is called.
    pub url: String,
    /// Its name on the MCP server at that URL, for one that is called so.
    pub tool: Option<String>,
    /// When it was first met here.
    pub first_seen_at: UnixTime,
    /// When what is known last changed.
    pub updated_at: UnixTime,
    /// What facilitators claim, in the order in which they were first configured. Never empty.
    pub claims: Vec<ClaimView>,
    /// What the last probe was told.
    pub probe: Option<ProbeFacts>,
    /// What the operator says about it, if anything.
    pub moderation: Option<Moderation>,
}

impl ResourceView {
    /// Whether a notice is shown in place of its content.
    pub fn is_blocked(&self) -> bool {
        self.moderation.as_ref().is_some_and(|moderation| moderation.action == Restriction::Block)
    }

    /// The key of a resource in the change feed and in search.
    pub(crate) const fn key_of(id: i64) -> ToolKey {
        ToolKey { registry: RegistryId::BAZAAR, id: U256::from_limbs([id.cast_unsigned(), 0, 0, 0]) }
    }

    /// Its key in the change feed and in search.
    pub const fn key(&self) -> ToolKey {
        Self::key_of(self.id)
    }

    /// The claim that is shown: that of the facilitator that was configured first.
    pub fn claim(&self) -> Option<&CatalogueClaim> {
        self.claims.first().map(|view| &view.claim)
    }

    /// What the resource itself asks for. Empty until a probe was told: what a catalogue claims is no price.
    pub fn prices(&self) -> &[Price] {
        self.probe.as_ref().map_or(&[], |probe| &probe.prices)
    }

    /// Whether a claim is what the resource itself asks for; `None` until it said.
    pub fn agrees(&self, claim: &CatalogueClaim) -> Option<bool> {
        let prices = self.prices();
        (!prices.is_empty()).then(|| is_same_demand(prices, &claim.prices))
    }

    /// What it is called: the service's name, the tool's name, or the host.
    pub fn name(&self) -> String {
        let named = self.claim().and_then(|claim| claim.name.clone()).or_else(|| self.tool.clone());
        named.unwrap_or_else(|| HttpsUrl::parse(&self.url).map(|url| url.host().to_owned()).unwrap_or_default())
    }

    /// The chain that is shown for it: the first EVM chain that it can be paid on. 0 when there is none.
    pub fn chain(&self) -> u64 {
        let claimed = self.claim().map_or(&[][..], |claim| &claim.prices);
        self.prices().iter().chain(claimed).find_map(|price| price.chain).unwrap_or_default()
    }
}

/// The URL as resources and endpoints are compared: a path that is empty is the root.
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
