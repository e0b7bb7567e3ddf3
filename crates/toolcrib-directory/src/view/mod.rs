//! The JSON view of a tool: the fields that clients of the public API read, and additional ones of ours.
//!
//! The content of a manifest is shown only while all four checks pass for the current registration and the manifest conforms to every
//! rule. For other tools there are the onchain data, the verdict with its reasons, and their own description under `claims`.

use toolcrib_core::clock::UnixTime;
use toolcrib_core::money::Amount;
use toolcrib_core::time::format_rfc3339;
use toolcrib_core::url::{HttpsUrl, display_host};
use toolcrib_index::ListPosition;
use toolcrib_index::bazaar::ResourceView;
use toolcrib_index::listing::{Listing, ManifestFacts};
use toolcrib_index::model::{ToolKey, ToolView};

mod access;
mod agent;
mod found;
mod price;
mod resource;
mod standing;
mod tool;
mod usage;

pub(crate) use access::AccessView;
pub(crate) use agent::{Agent, AgentItem, AgentToolView};
pub(crate) use found::Found;
pub(crate) use price::PricingRecipient;
pub(crate) use resource::{BAZAAR, Resource};
pub(crate) use standing::Standing;
pub(crate) use tool::{Duplicates, Tool, ToolItem};

/// A tool of a registry, or a Bazaar resource.
#[derive(Clone, Debug)]
pub(crate) enum Listed {
    Tool(Box<ToolView>),
    Resource(Box<ResourceView>),
}

impl Listed {
    /// Returns the tool, if it is one.
    pub(crate) const fn tool(&self) -> Option<&ToolView> {
        match self {
            Self::Tool(view) => Some(view),
            Self::Resource(_) => None,
        }
    }

    /// Returns its key in the index.
    pub(crate) const fn key(&self) -> ToolKey {
        match self {
            Self::Tool(view) => view.row.key,
            Self::Resource(view) => view.key(),
        }
    }

    /// Returns its position in a list.
    pub(crate) const fn place(&self) -> ListPosition {
        match self {
            Self::Tool(view) => ListPosition { registered_at: view.row.registered.time, key: view.row.key },
            Self::Resource(view) => ListPosition { registered_at: view.first_seen_at, key: view.key() },
        }
    }
}

/// Formats a time.
pub(crate) fn time(at: UnixTime) -> String {
    format_rfc3339(at).unwrap_or_default()
}

/// Formats micro-dollars as dollars.
pub(crate) fn dollars(micro: u64) -> String {
    Amount::new(alloy_primitives::U256::from(micro)).format_units(6)
}

/// Returns the listing, if it is about the current registration.
pub(crate) fn current(view: &ToolView) -> Option<&Listing> {
    let row = &view.row;
    view.listing.as_ref().filter(|listing| listing.manifest_hash == row.manifest_hash && listing.metadata_uri == row.metadata_uri)
}

/// Returns the content of the manifest, if it may be shown.
pub(crate) fn manifest(view: &ToolView) -> Option<&ManifestFacts> {
    let listing = view.listing.as_ref().filter(|listing| listing.is_good_for(&view.row))?;
    listing.manifest.as_ref()
}

/// Returns the display name of a tool.
pub(crate) fn display_name(view: &ToolView) -> String {
    manifest(view).map_or_else(|| format!("tool {}", view.tool.id), |manifest| manifest.name.clone())
}

/// Returns the host of an endpoint in the form for people.
pub(crate) fn domain(endpoint: &str) -> Option<String> {
    HttpsUrl::parse(endpoint).ok().map(|url| display_host(url.host()).text)
}

/// `0x1234…abcd`
pub(crate) fn short(address: &str) -> String {
    match (address.get(..6), address.get(address.len().saturating_sub(4)..)) {
        (Some(start), Some(end)) => format!("{start}\u{2026}{end}"),
        _ => address.to_owned(),
    }
}
