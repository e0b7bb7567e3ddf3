//! A Bazaar resource in the shape of a tool: claims of catalogues with their source, and as its price only its own response.

use schemars::JsonSchema;
use serde::Serialize;
use toolcrib_core::codes;
use toolcrib_index::bazaar::{ClaimView, ProbeFacts, ResourceView};
use toolcrib_index::search::Source;

use super::access::AccessView;
use super::price::{PricingRecipient, recipients};
use super::standing::{CHECKS, Check, ModerationView, Standing};
use super::tool::{Duplicates, HealthView, Registration, Tool, ToolItem};
use super::usage::Usage;
use super::{Found, domain, time};

/// The word in place of a registry in the paths of resources.
pub(crate) const BAZAAR: &str = Source::Bazaar.as_str();

/// The verdict about a resource: nothing about it can be verified.
const UNVERIFIED: &str = "unverified";

/// The verdict about a resource that the operator blocked.
const BLOCKED: &str = "blocked";

/// What is known about a resource of the Bazaar. A tool that is verified has it where a facilitator lists its endpoint too.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "BazaarResource")]
pub(crate) struct Resource {
    /// Its name here: `x402_bazaar/<number>`.
    pub(crate) id: String,
    /// Where it is called. Untrusted text, like everything that is claimed.
    pub(crate) url: String,
    /// Its name on the MCP server at that URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mcp_tool: Option<String>,
    /// The verified tool that is called there, as `eip155:<chain>/erc8257:<registry>/<id>`. Lists show it and leave the resource out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) onchain: Option<String>,
    /// What facilitators claim, in the order in which they were configured.
    pub(crate) claims: Vec<Claim>,
    /// What the resource itself answered to a request without payment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) probe: Option<Probe>,
}

/// What a facilitator claims about a resource.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "BazaarClaim")]
pub(crate) struct Claim {
    /// The facilitator: scheme, host and port.
    pub(crate) facilitator: String,
    /// When it was last seen in its catalogue.
    pub(crate) seen_at: String,
    /// When the facilitator last heard of it, as it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_updated: Option<String>,
    /// What it is called there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// What it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// The media type of its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mime_type: Option<String>,
    /// The method that it is called with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) method: Option<String>,
    /// Its path with parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) route_template: Option<String>,
    /// What it costs there.
    pub(crate) prices: Vec<PricingRecipient>,
    /// Whether that is what the resource itself asks for. Absent until it said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agrees_with_probe: Option<bool>,
}

/// What a resource itself answered.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "BazaarProbe")]
pub(crate) struct Probe {
    /// When.
    pub(crate) at: String,
    /// `challenges` (it asks for payment), `serves`, `refuses`, `redirects`, `fails`, `missing`, `no_answer` or `not_probed`. Later versions
    /// may have more words.
    pub(crate) state: String,
    /// The status of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<u16>,
    /// The code of the reason, where there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<String>,
    /// What the code means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    /// What it asks for.
    pub(crate) prices: Vec<PricingRecipient>,
}

impl Resource {
    /// Converts a resource. `onchain` is the verified tool with the same endpoint.
    pub(crate) fn of(view: &ResourceView, onchain: Option<String>) -> Self {
        Self {
            id: id(view),
            url: view.url.clone(),
            mcp_tool: view.tool.clone(),
            onchain,
            claims: view.claims.iter().map(|claim| Claim::of(view, claim)).collect(),
            probe: view.probe.as_ref().map(Probe::of),
        }
    }
}

impl Claim {
    fn of(view: &ResourceView, seen: &ClaimView) -> Self {
        let claim = &seen.claim;
        let since = claim.last_updated.map_or_else(|| time(view.first_seen_at), time);
        Self {
            facilitator: seen.facilitator.clone(),
            seen_at: time(seen.seen_at),
            last_updated: claim.last_updated.map(time).filter(|time| !time.is_empty()),
            name: claim.name.clone(),
            description: claim.description.clone(),
            mime_type: claim.mime_type.clone(),
            method: claim.method.clone(),
            route_template: claim.route_template.clone(),
            prices: recipients(&claim.prices, &since),
            agrees_with_probe: view.agrees(claim),
        }
    }
}

impl Probe {
    fn of(probe: &ProbeFacts) -> Self {
        let at = time(probe.at);
        let title = probe.code.as_deref().and_then(codes::Code::find).map(|code| code.title().to_owned());
        let prices = recipients(&probe.prices, &at);
        Self { state: probe.state.clone(), status: probe.status, code: probe.code.clone(), title, prices, at }
    }
}

/// Returns the id of a resource.
pub(crate) fn id(view: &ResourceView) -> String {
    format!("{BAZAAR}/{}", view.id)
}

/// Returns the display name of a resource. A blocked one is shown without its own text.
fn display_name(view: &ResourceView) -> String {
    if view.is_blocked() { format!("resource {}", view.id) } else { view.name() }
}

fn prices(view: &ResourceView) -> Vec<PricingRecipient> {
    recipients(view.prices(), &view.probe.as_ref().map(|probe| time(probe.at)).unwrap_or_default())
}

fn registration(view: &ResourceView) -> Registration {
    Registration {
        tool_id: view.id.to_string(),
        registry_chain: view.chain().to_string(),
        registry_addr: BAZAAR.to_owned(),
        // It is not registered, and it has no manifest.
        creator: String::new(),
        metadata_uri: String::new(),
        manifest_hash: String::new(),
        endpoint_domain: domain(&view.url),
        endpoint_url: endpoint(view),
        manifest_hash_verified: false,
        is_active: true,
        created_at: time(view.first_seen_at),
        updated_at: time(view.updated_at),
    }
}

/// Returns its endpoint, unless it is blocked.
fn endpoint(view: &ResourceView) -> Option<String> {
    (!view.is_blocked()).then(|| view.url.clone())
}

fn standing(view: &ResourceView) -> Standing {
    let check = |(name, number)| Check { number, name, status: "not_reached".to_owned() };
    Standing {
        id: id(view),
        source: BAZAAR,
        verified: false,
        conformant: false,
        verdict: if view.is_blocked() { BLOCKED } else { UNVERIFIED }.to_owned(),
        checks: CHECKS.into_iter().zip(1..).map(check).collect(),
        failed: None,
        checked_at: view.probe.as_ref().map(|probe| time(probe.at)),
        tier: "self-attested".to_owned(),
        access_type: "open".to_owned(),
        life: "active".to_owned(),
        dev: false,
        warnings: Vec::new(),
        moderation: view.moderation.as_ref().map(ModerationView::of),
        also_in_bazaar: None,
    }
}

/// Returns open access: any account may pay.
const fn access() -> AccessView {
    AccessView { open_access: true, logic: "AND", requirements: Vec::new() }
}

impl ToolItem {
    /// Converts a resource for a list. Its name is that of a catalogue.
    pub(crate) fn of_resource(view: &ResourceView) -> Self {
        Self { registration: registration(view), standing: standing(view), name: (!view.is_blocked()).then(|| view.name()) }
    }
}

impl Tool {
    /// Converts a resource to the full view.
    pub(crate) fn of_resource(view: &ResourceView, onchain: Option<String>) -> Self {
        let claim = view.claim();
        let health = match view.probe.as_ref().map(|probe| probe.state.as_str()) {
            None | Some("not_probed") => "unknown",
            Some("challenges" | "serves") => "healthy",
            Some(_) => "down",
        };
        Self {
            item: ToolItem::of_resource(view),
            display_name: display_name(view),
            health_status: health,
            access_tier: "open".to_owned(),
            description: claim.and_then(|claim| claim.description.clone()),
            tags: claim.map(|claim| claim.tags.clone()),
            inputs: claim.and_then(|claim| claim.input.clone()),
            outputs: claim.and_then(|claim| claim.output.clone()),
            creator_address: String::new(),
            endpoint: endpoint(view),
            access: (!view.is_blocked()).then(access),
            image_url: None,
            featured_image_url: None,
            pricing_recipients: prices(view),
            version: None,
            slug: None,
            findings: Vec::new(),
            claims: None,
            predicate: None,
            predicate_name: None,
            predicate_is_proxy: None,
            duplicates: Duplicates::default(),
            usage: Usage::none(),
            health: HealthView { status: health, looks: 0, answered: 0, latency_ms: None, last_answer: None },
            expires_at: None,
            deregistered_at: None,
            bazaar: (!view.is_blocked()).then(|| Resource::of(view, onchain)),
        }
    }
}

impl Found {
    /// Converts a resource to a hit.
    pub(crate) fn of_resource(view: &ResourceView, is_whole: bool, score: f32) -> Self {
        let registration = registration(view);
        let claim = view.claim();
        Self {
            tool_id: registration.tool_id,
            registry_chain: registration.registry_chain,
            registry_addr: registration.registry_addr,
            name: view.name(),
            display_name: view.name(),
            description: claim.and_then(|claim| claim.description.clone()).unwrap_or_default(),
            tags: claim.map(|claim| claim.tags.clone()).unwrap_or_default(),
            creator: String::new(),
            creator_display_name: String::new(),
            endpoint_domain: registration.endpoint_domain.unwrap_or_default(),
            payment_stats: None,
            created_at: registration.created_at,
            image_url: None,
            featured_image_url: None,
            pricing_recipients: is_whole.then(|| prices(view)),
            access: is_whole.then(access),
            standing: standing(view),
            usage: Usage::none(),
            score,
            explanation: None,
        }
    }
}
