//! What a manifest says: facts of a verified one, claims of every other.

use serde::Serialize;
use toolcrib_core::agent::txt::LegacyAgent;
use toolcrib_core::agent::{AgentManifest, Capability, Pricing, Protocol};
use toolcrib_core::json::{Document, Value};
use toolcrib_judge::Untrusted;

/// What a verified manifest says. The owner vouches for these texts; they are still text from outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct About {
    /// The display name.
    pub name: Option<String>,
    /// What the agent says about itself.
    pub description: Option<String>,
    /// The URL of a picture.
    pub icon: Option<String>,
    /// The URL of a website.
    pub website: Option<String>,
    /// What the agent speaks, and where.
    pub protocols: Vec<AboutProtocol>,
    /// What the agent can do.
    pub capabilities: Vec<AboutCapability>,
    /// How the agent charges.
    pub pricing: Option<AboutPricing>,
}

impl About {
    /// The facts of a manifest.
    pub(crate) fn of(manifest: &AgentManifest) -> Self {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Self {
            name: owned(manifest.name()),
            description: owned(manifest.description()),
            icon: owned(manifest.icon()),
            website: owned(manifest.website()),
            protocols: manifest.protocols().map(AboutProtocol::of).collect(),
            capabilities: manifest.capabilities().map(AboutCapability::of).collect(),
            pricing: manifest.pricing().map(AboutPricing::of),
        }
    }
}

/// A protocol of a verified manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AboutProtocol {
    /// Which protocol.
    pub id: String,
    /// Where it is spoken.
    pub endpoint: String,
    /// Which version of it.
    pub version: Option<String>,
    /// How callers identify themselves.
    pub auth: Option<String>,
    /// Whether the specification lists the protocol.
    pub known: bool,
}

impl AboutProtocol {
    fn of(protocol: Protocol<'_>) -> Self {
        Self {
            id: protocol.id().to_owned(),
            endpoint: protocol.endpoint().to_owned(),
            version: protocol.version().map(str::to_owned),
            auth: protocol.auth().map(str::to_owned),
            known: protocol.known().is_some(),
        }
    }
}

/// A capability of a verified manifest. Its schemas are in the manifest itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AboutCapability {
    /// Which capability.
    pub id: String,
    /// What the agent says about it.
    pub description: Option<String>,
    /// Whether the specification lists the capability.
    pub known: bool,
    /// Whether there is a schema of the input.
    pub has_input: bool,
    /// Whether there is a schema of the output.
    pub has_output: bool,
}

impl AboutCapability {
    fn of(capability: Capability<'_>) -> Self {
        Self {
            id: capability.id().to_owned(),
            description: capability.description().map(str::to_owned),
            known: capability.known().is_some(),
            has_input: capability.input().is_some(),
            has_output: capability.output().is_some(),
        }
    }
}

/// The pricing of a verified manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AboutPricing {
    /// The model: free, freemium, paid or contact.
    pub model: &'static str,
    /// What is free.
    pub free_tier: Option<String>,
    /// What is charged.
    pub paid: Option<AboutPaid>,
}

impl AboutPricing {
    fn of(pricing: Pricing<'_>) -> Self {
        Self {
            model: pricing.model().as_str(),
            free_tier: pricing.free_tier().map(str::to_owned),
            paid: pricing.paid().map(|paid| AboutPaid {
                currency: paid.currency().to_owned(),
                amount: paid.amount().to_owned(),
                unit: paid.unit().to_owned(),
                chain: paid.chain().map(str::to_owned),
            }),
        }
    }
}

/// A price of a verified manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AboutPaid {
    /// An ISO 4217 code or a token symbol.
    pub currency: String,
    /// A plain decimal number.
    pub amount: String,
    /// What the amount is charged for.
    pub unit: String,
    /// Where a token lives.
    pub chain: Option<String>,
}

/// What an unverified manifest or legacy records say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Claims {
    /// The display name.
    pub name: Option<Untrusted>,
    /// The description.
    pub description: Option<Untrusted>,
    /// The owner.
    pub owner: Option<Untrusted>,
    /// The endpoints, the first few of them.
    pub endpoints: Vec<Untrusted>,
}

/// Endpoints that are shown of an unverified manifest: a person needs no more to recognise it.
const MAX_CLAIMED_ENDPOINTS: usize = 8;

impl Claims {
    /// The claims of a document.
    pub(crate) fn of_document(document: &Document) -> Self {
        let text = |key: &str| document.root().get(key).and_then(Value::as_str).map(Untrusted::new);
        let protocols = document.root().get("protocols").and_then(Value::as_array);
        let entries = protocols.into_iter().flat_map(|list| list.iter().take(MAX_CLAIMED_ENDPOINTS));
        let endpoints = entries.filter_map(|entry| entry.get("endpoint").and_then(Value::as_str).map(Untrusted::new));
        Self { name: text("name"), description: text("description"), owner: text("owner"), endpoints: endpoints.collect() }
    }

    /// The claims of legacy records.
    pub(crate) fn of_legacy(legacy: &LegacyAgent) -> Self {
        let text = |text: &Option<String>| text.as_deref().map(Untrusted::new);
        let endpoints = legacy.protocols.iter().filter_map(|protocol| protocol.endpoint.as_deref());
        Self {
            name: text(&legacy.name),
            description: text(&legacy.description),
            owner: text(&legacy.owner),
            endpoints: endpoints.take(MAX_CLAIMED_ENDPOINTS).map(Untrusted::new).collect(),
        }
    }
}
