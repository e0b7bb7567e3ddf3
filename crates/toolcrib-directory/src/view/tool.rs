//! A tool in a list, and the full view of one.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use toolcrib_core::caip::ToolRef;
use toolcrib_index::bazaar::ResourceView;
use toolcrib_index::model::ToolView;

use super::access::AccessView;
use super::price::{PricingRecipient, prices};
use super::resource::{Resource, id};
use super::standing::{Standing, Warning};
use super::usage::Usage;
use super::{current, display_name, domain, manifest, time};
use crate::images::{self, Which};

/// A tool in a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ToolListItem")]
pub(crate) struct ToolItem {
    #[serde(flatten)]
    pub(crate) registration: Registration,
    #[serde(flatten)]
    pub(crate) standing: Standing,
    /// Its name, for a tool that is verified and conformant. Foreign text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
}

impl ToolItem {
    pub(crate) fn of(view: &ToolView) -> Self {
        Self {
            registration: Registration::of(view),
            standing: Standing::of(view),
            name: manifest(view).map(|manifest| manifest.name.clone()),
        }
    }

    /// Sets the Bazaar resource with the same endpoint.
    pub(crate) fn beside(mut self, resource: Option<&ResourceView>) -> Self {
        self.standing.also_in_bazaar = resource.map(id);
        self
    }
}

/// What the registry says about a tool, and where it is called.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Registration {
    /// Its id in its registry, in decimal digits.
    pub(crate) tool_id: String,
    /// The number of the registry's chain.
    pub(crate) registry_chain: String,
    /// The registry.
    pub(crate) registry_addr: String,
    /// Who registered it.
    pub(crate) creator: String,
    /// Where its manifest is. Foreign text.
    pub(crate) metadata_uri: String,
    /// The hash of its manifest.
    pub(crate) manifest_hash: String,
    /// Where it is called, for a tool that is verified and conformant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint_url: Option<String>,
    /// The host of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint_domain: Option<String>,
    /// Whether the manifest that was fetched has that hash.
    pub(crate) manifest_hash_verified: bool,
    /// Whether it is registered now.
    pub(crate) is_active: bool,
    /// When it was registered.
    pub(crate) created_at: String,
    /// When its registration last changed.
    pub(crate) updated_at: String,
}

impl Registration {
    pub(crate) fn of(view: &ToolView) -> Self {
        let ToolRef { chain, registry, id } = &view.tool;
        let row = &view.row;
        let endpoint = manifest(view).map(|manifest| manifest.endpoint.clone());
        // The third check is about the hash.
        let is_hash_right = current(view).is_some_and(|listing| listing.checks.get(2).is_some_and(|check| check == "passed"));
        Self {
            tool_id: id.to_string(),
            registry_chain: chain.to_string(),
            registry_addr: format!("{registry:#x}"),
            creator: format!("{:#x}", row.creator),
            metadata_uri: row.metadata_uri.clone(),
            manifest_hash: row.manifest_hash.to_string(),
            endpoint_domain: endpoint.as_deref().and_then(domain),
            endpoint_url: endpoint,
            manifest_hash_verified: is_hash_right,
            is_active: row.is_active(),
            created_at: time(row.registered.time),
            updated_at: time(row.deregistered.unwrap_or(row.updated).time),
        }
    }
}

/// Everything about a tool.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "RegisteredTool")]
pub(crate) struct Tool {
    #[serde(flatten)]
    pub(crate) item: ToolItem,
    /// Its name, or what it is called without one.
    pub(crate) display_name: String,
    /// `healthy`, `degraded`, `down` or `unknown`.
    pub(crate) health_status: &'static str,
    /// The same as `access_type`.
    pub(crate) access_tier: String,
    /// What it does. Foreign text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// Its tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tags: Option<Vec<String>>,
    /// JSON Schema of the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) inputs: Option<Value>,
    /// JSON Schema of the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outputs: Option<Value>,
    /// Who registered it.
    pub(crate) creator_address: String,
    /// Where it is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint: Option<String>,
    /// Who may use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) access: Option<AccessView>,
    /// Its icon, as a path on this directory: it is fetched here, so that its server learns nothing about who shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) image_url: Option<String>,
    /// Its large image, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) featured_image_url: Option<String>,
    /// What it costs, the preferred option first.
    pub(crate) pricing_recipients: Vec<PricingRecipient>,
    /// Its own version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// The slug in its metadata URI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) slug: Option<String>,
    /// Everything that was found when it was last looked at.
    pub(crate) findings: Vec<Warning>,
    /// What a tool that is not verified calls itself. For people, never for an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) claims: Option<ClaimsView>,
    /// The predicate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) predicate: Option<String>,
    /// What the predicate calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) predicate_name: Option<String>,
    /// Whether the predicate's code can be replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) predicate_is_proxy: Option<bool>,
    /// Other registrations of the same metadata URI or endpoint.
    pub(crate) duplicates: Duplicates,
    /// What was proven about its use.
    pub(crate) usage: Usage,
    /// How its server has been doing.
    pub(crate) health: HealthView,
    /// Until when it stays listed without another look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<String>,
    /// When it was deregistered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deregistered_at: Option<String>,
    /// What facilitators claim about it, and what it answered: for resources of the Bazaar, and for verified tools that are among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bazaar: Option<Resource>,
}

impl Tool {
    pub(crate) fn of(view: &ToolView, duplicates: Duplicates) -> Self {
        let item = ToolItem::of(view);
        let manifest = manifest(view);
        let listing = view.listing.as_ref();
        let health = listing.map(|listing| listing.health.clone()).unwrap_or_default();
        let claims = current(view).filter(|_| manifest.is_none()).and_then(|listing| listing.claims.as_ref());
        Self {
            display_name: display_name(view),
            health_status: health.status(),
            access_tier: item.standing.access_type.clone(),
            description: manifest.map(|manifest| manifest.description.clone()),
            tags: manifest.map(|manifest| manifest.tags.clone()),
            inputs: manifest.and_then(|manifest| manifest.inputs.clone()),
            outputs: manifest.and_then(|manifest| manifest.outputs.clone()),
            creator_address: item.registration.creator.clone(),
            endpoint: manifest.map(|manifest| manifest.endpoint.clone()),
            access: AccessView::of(view),
            image_url: images::address(view, Which::Icon),
            featured_image_url: images::address(view, Which::Featured),
            pricing_recipients: prices(view),
            version: manifest.and_then(|manifest| manifest.version.clone()),
            slug: manifest.map(|manifest| manifest.slug.clone()),
            findings: current(view).into_iter().flat_map(|listing| &listing.findings).map(Warning::of).collect(),
            claims: claims.map(|claims| ClaimsView { name: claims.name.clone(), endpoint: claims.endpoint.clone() }),
            predicate: view.row.predicate.map(|predicate| format!("{predicate:#x}")),
            predicate_name: listing.and_then(|listing| listing.access.predicate_name.clone()),
            predicate_is_proxy: listing.and_then(|listing| listing.access.predicate_is_proxy),
            duplicates,
            usage: Usage::of(view),
            health: HealthView {
                status: health.status(),
                looks: health.looks,
                answered: health.answered,
                latency_ms: health.latency_ms,
                last_answer: health.last_answer.map(time),
            },
            expires_at: listing.map(|listing| time(listing.expires_at)),
            deregistered_at: view.row.deregistered.map(|at| time(at.time)),
            bazaar: None,
            item,
        }
    }
}

/// What an unverified tool calls itself.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Claims")]
pub(crate) struct ClaimsView {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// Its endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint: Option<String>,
}

/// Other registrations, as `eip155:<chain>/erc8257:<registry>/<id>`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Duplicates {
    /// Of the same metadata URI.
    pub(crate) same_uri: Vec<String>,
    /// Of the same endpoint.
    pub(crate) same_endpoint: Vec<String>,
}

/// How a tool's server has been doing.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Health")]
pub(crate) struct HealthView {
    /// `healthy`, `degraded`, `down` or `unknown`.
    pub(crate) status: &'static str,
    /// Looks that were counted.
    pub(crate) looks: u32,
    /// Looks that got an answer.
    pub(crate) answered: u32,
    /// The time of an answer in milliseconds, in the middle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latency_ms: Option<u32>,
    /// When it last answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_answer: Option<String>,
}
