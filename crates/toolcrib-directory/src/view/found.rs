//! A hit of a search.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use toolcrib_index::bazaar::ResourceView;
use toolcrib_index::model::ToolView;
use toolcrib_index::search::Explanation;
use toolcrib_index::usage::PaymentStats;

use super::access::AccessView;
use super::price::{PricingRecipient, prices};
use super::standing::Standing;
use super::tool::Registration;
use super::usage::{PaymentView, Usage};
use super::{display_name, manifest, resource, short};
use crate::images::{self, Which};

/// A tool that was found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ToolSearchResult")]
pub(crate) struct Found {
    /// Its id in its registry, in decimal digits.
    pub(crate) tool_id: String,
    /// The number of the registry's chain.
    pub(crate) registry_chain: String,
    /// The registry.
    pub(crate) registry_addr: String,
    /// Its name; empty for a tool that is not verified.
    pub(crate) name: String,
    /// Its name, or what it is called without one.
    pub(crate) display_name: String,
    /// What it does; empty for a tool that is not verified. Foreign text.
    pub(crate) description: String,
    /// Its tags.
    pub(crate) tags: Vec<String>,
    /// Who registered it.
    pub(crate) creator: String,
    /// The same, shortened.
    pub(crate) creator_display_name: String,
    /// The host that it is called at; empty for a tool that is not verified.
    pub(crate) endpoint_domain: String,
    /// Payments that were proven.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) payment_stats: Option<PaymentView>,
    /// When it was registered.
    pub(crate) created_at: String,
    /// Its icon, as a path on this directory: it is fetched here, so that its server learns nothing about who shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) image_url: Option<String>,
    /// Its large image, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) featured_image_url: Option<String>,
    /// What it costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pricing_recipients: Option<Vec<PricingRecipient>>,
    /// Who may use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) access: Option<AccessView>,
    #[serde(flatten)]
    pub(crate) standing: Standing,
    /// What was proven about its use.
    pub(crate) usage: Usage,
    /// How good a hit it is. Comparable within one answer alone.
    pub(crate) score: f32,
    /// How the score came about, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub(crate) explanation: Option<Explanation>,
}

impl Found {
    pub(crate) fn of(view: &ToolView, is_whole: bool, stats: Option<PaymentStats>, score: f32) -> Self {
        let registration = Registration::of(view);
        let manifest = manifest(view);
        Self {
            tool_id: registration.tool_id,
            registry_chain: registration.registry_chain,
            registry_addr: registration.registry_addr,
            name: manifest.map(|manifest| manifest.name.clone()).unwrap_or_default(),
            display_name: display_name(view),
            description: manifest.map(|manifest| manifest.description.clone()).unwrap_or_default(),
            tags: manifest.map(|manifest| manifest.tags.clone()).unwrap_or_default(),
            creator_display_name: short(&registration.creator),
            creator: registration.creator,
            endpoint_domain: registration.endpoint_domain.unwrap_or_default(),
            payment_stats: stats.map(PaymentView::from),
            created_at: registration.created_at,
            image_url: images::address(view, Which::Icon),
            featured_image_url: images::address(view, Which::Featured),
            pricing_recipients: is_whole.then(|| prices(view)),
            access: AccessView::of(view).filter(|_| is_whole),
            standing: Standing::of(view),
            usage: Usage::of(view),
            score,
            explanation: None,
        }
    }

    /// Sets the Bazaar resource with the same endpoint.
    pub(crate) fn beside(mut self, resource: Option<&ResourceView>) -> Self {
        self.standing.also_in_bazaar = resource.map(resource::id);
        self
    }
}
