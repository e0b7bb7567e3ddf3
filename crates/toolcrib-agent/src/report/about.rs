//! The contents of a manifest: facts of a verified one, claims of any other.

use serde::Serialize;
use toolcrib_core::agent::txt::LegacyAgent;
use toolcrib_core::agent::{AgentManifest, Capability, Pricing, Protocol};
use toolcrib_core::json::{Document, Value};
use toolcrib_judge::Untrusted;

/// The contents of a verified manifest. The owner signed these texts; they are still third-party text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct About {
    /// The display name.
    pub name: Option<String>,
    /// The description.
    pub description: Option<String>,
    /// The URL of an image.
    pub icon: Option<String>,
    /// The URL of a website.
    pub website: Option<String>,
    /// The protocols and their endpoints.
    pub protocols: Vec<AboutProtocol>,
    /// The capabilities.
    pub capabilities: Vec<AboutCapability>,
    /// The pricing.
    pub pricing: Option<AboutPricing>,
}

impl About {
    /// Extracts the facts from a manifest.
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
    /// The id of the protocol.
    pub id: String,
    /// The endpoint.
    pub endpoint: String,
    /// The version of the protocol.
    pub version: Option<String>,
    /// How callers authenticate.
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
    /// The id of the capability.
    pub id: String,
    /// The description.
    pub description: Option<String>,
    /// Whether the specification lists the capability.
    pub known: bool,
    /// Whether there is an input schema.
    pub has_input: bool,
    /// Whether there is an output schema.
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
    /// The chain of a token.
    pub chain: Option<String>,
}

/// The contents of an unverified manifest or of legacy records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Claims {
    /// The display name.
    pub name: Option<Untrusted>,
    /// The description.
    pub description: Option<Untrusted>,
    /// The owner.
    pub owner: Option<Untrusted>,
    /// The endpoints, at most the first few.
    pub endpoints: Vec<Untrusted>,
}

/// Number of endpoints shown of an unverified manifest: enough for a user to recognise it.
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
