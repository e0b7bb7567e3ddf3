//! Labels of tools and resources, for filters and facets.

use toolcrib_core::url::HttpsUrl;

use crate::bazaar::ResourceView;
use crate::listing::AccessKind;
use crate::model::ToolView;
use crate::search::Source;
use crate::search::document::cut;
use crate::search::rank::TIERS;

pub(super) const TAG: &str = "tag:";
pub(super) const CHAIN: &str = "chain:";
pub(super) const ACCESS: &str = "access:";
pub(super) const TIER: &str = "tier:";
pub(super) const PROTOCOL: &str = "protocol:";
pub(super) const CREATOR: &str = "creator:";
pub(super) const ASSET: &str = "asset:";
pub(super) const COLLECTION: &str = "collection:";
pub(super) const ORIGIN: &str = "origin:";
/// The prefix of labels for a tier and all below it.
pub(super) const AT_LEAST: &str = "at-least:";
pub(super) const SOURCE: &str = "source:";

/// The maximum number of labels of one kind, such as collections of a predicate.
const MAX_LABELS: usize = 32;

/// The six tags that directories show as categories.
pub(super) const CATEGORIES: [&str; 6] = ["ai", "defi", "nft", "trading", "image", "security"];

/// Returns the labels of a tool.
pub(super) fn labels(view: &ToolView) -> Vec<String> {
    let mut labels = vec![
        format!("{CHAIN}{}", view.tool.chain),
        format!("{CREATOR}{:#x}", view.row.creator),
        format!("{SOURCE}{}", Source::Onchain.as_str()),
    ];
    let Some(listing) = &view.listing else { return labels };
    labels.push(format!("{ACCESS}{}", listing.access.kind.as_str()));
    let collections = listing.access.requirements.iter().filter_map(|requirement| requirement.contract);
    labels.extend(collections.take(MAX_LABELS).map(|contract| format!("{COLLECTION}{contract:#x}")));
    let Some(manifest) = listing.manifest.as_ref().filter(|_| view.is_listed()) else { return labels };
    let tier = TIERS.iter().position(|tier| *tier == listing.tier).unwrap_or_default();
    labels.push(format!("{TIER}{}", TIERS[tier]));
    labels.extend(TIERS[..=tier].iter().map(|tier| format!("{AT_LEAST}{tier}")));
    labels.extend(manifest.tags.iter().take(MAX_LABELS).map(|tag| format!("{TAG}{}", cut(tag, 64).to_lowercase())));
    for price in manifest.prices.iter().take(MAX_LABELS) {
        labels.push(format!("{ASSET}{}", cut(&price.asset, 256).to_ascii_lowercase()));
        labels.push(format!("{PROTOCOL}{}", cut(&price.protocol, 64)));
    }
    labels.push(format!("{ORIGIN}{}", cut(&manifest.origin, 300).to_ascii_lowercase()));
    labels.sort();
    labels.dedup();
    labels
}

/// Returns the labels of a resource: the chains and assets of its offers, from the resource itself or its catalogue.
pub(super) fn resource_labels(view: &ResourceView) -> Vec<String> {
    let mut labels = vec![format!("{SOURCE}{}", Source::Bazaar.as_str()), format!("{ACCESS}{}", AccessKind::Open.as_str())];
    let claim = view.claim();
    let tags = claim.iter().flat_map(|claim| &claim.tags).take(MAX_LABELS);
    labels.extend(tags.map(|tag| format!("{TAG}{}", cut(tag, 64).to_lowercase())));
    let claimed = claim.map_or(&[][..], |claim| &claim.prices);
    let prices = if view.prices().is_empty() { claimed } else { view.prices() };
    for price in prices.iter().take(MAX_LABELS) {
        labels.extend(price.chain.map(|chain| format!("{CHAIN}{chain}")));
        labels.push(format!("{ASSET}{}", cut(&price.asset, 256).to_ascii_lowercase()));
        labels.push(format!("{PROTOCOL}{}", cut(&price.protocol, 64)));
    }
    if let Ok(url) = HttpsUrl::parse(&view.url) {
        labels.push(format!("{ORIGIN}{}", url.origin()));
    }
    labels.sort();
    labels.dedup();
    labels
}
