//! The ERC-8257 tool manifest.
//!
//! [`ToolManifest`] is a typed view of the parsed document: nothing is dropped, unknown fields keep their position and are part of the
//! hash. The modules follow the standard: mandatory fields (`identity`), optional ones (`pricing`, `access`, `verifiability`), and fields
//! beyond the standard (`extensions`). The checks here need only the manifest; origin, hash and creator are compared elsewhere.

mod access;
mod builder;
mod extensions;
mod identity;
mod pricing;
mod schemas;
#[cfg(test)]
mod tests;
mod verifiability;

use alloy_primitives::Address;

pub use access::{AccessRules, Logic, MAX_DATA_BYTES, MAX_LABEL_BYTES, MAX_REQUIREMENTS, Requirement};
pub use builder::{Built, ToolBuilder, template};
pub use identity::{MAX_DESCRIPTION, MAX_NAME, MAX_TAGS, TYPE_V1};
pub use pricing::{Cost, MAX_PRICES, Price};
pub use verifiability::{Attestation, Execution, ReproducibleBuild, Tier, Verifiability};

use crate::checked::{Checked, Context, Manifest, parse};
use crate::finding::{Mode, Severity};
use crate::json::{Document, Limits, Object, Value};
use crate::schema::Prefilled;
use crate::url::HttpsUrl;

/// A conformant tool manifest.
#[derive(Clone, Debug)]
pub struct ToolManifest {
    document: Document,
    view: View,
}

/// The parts of a manifest that are parsed once and stored.
#[derive(Clone, Debug)]
pub struct View {
    endpoint: HttpsUrl,
    creator: Address,
    pricing: Vec<Price>,
    prefilled: Vec<Prefilled>,
}

impl ToolManifest {
    /// Parses and checks a manifest.
    ///
    /// ```
    /// use toolcrib_core::finding::Mode;
    /// use toolcrib_core::tool::ToolManifest;
    ///
    /// let checked = ToolManifest::parse(br#"{"name": "incomplete"}"#, Mode::Producer);
    /// assert!(checked.conformant().is_none());
    /// assert!(checked.findings.iter().any(|finding| finding.pointer == "/endpoint"));
    /// ```
    pub fn parse(bytes: &[u8], mode: Mode) -> Checked<Self> {
        parse(bytes, mode)
    }

    /// The parsed document.
    pub const fn document(&self) -> &Document {
        &self.document
    }

    /// The tool's name.
    pub fn name(&self) -> &str {
        self.text("name").unwrap_or_default()
    }

    /// The description.
    pub fn description(&self) -> &str {
        self.text("description").unwrap_or_default()
    }

    /// The URL at which the tool is called.
    pub const fn endpoint(&self) -> &HttpsUrl {
        &self.view.endpoint
    }

    /// The only address that may register this manifest.
    pub const fn creator(&self) -> Address {
        self.view.creator
    }

    /// JSON Schema of the arguments.
    pub fn inputs(&self) -> Option<Value<'_>> {
        self.document.root().get("inputs")
    }

    /// JSON Schema of the result.
    pub fn outputs(&self) -> Option<Value<'_>> {
        self.document.root().get("outputs")
    }

    /// The declared version. A missing version is not the same as 1.0.0; only a display may treat it so.
    pub fn version(&self) -> Option<&str> {
        self.text("version")
    }

    /// The icon, as written. Display it by the rules of [`crate::url::image`].
    pub fn image(&self) -> Option<&str> {
        self.text("image")
    }

    /// The banner, as written. Not a field of the ERC, but the largest listing uses it.
    pub fn featured_image(&self) -> Option<&str> {
        self.text("featuredImage")
    }

    /// The discovery tags, in the author's order.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        let tags = self.document.root().get("tags").and_then(Value::as_array);
        tags.into_iter().flat_map(crate::json::Array::iter).filter_map(Value::as_str)
    }

    /// The payment options, the preferred one first. Empty means that the manifest does not mention a price.
    pub fn pricing(&self) -> &[Price] {
        &self.view.pricing
    }

    /// The cost of a call for a caller that supports these payment protocols.
    pub fn cost(&self, supported: &[&str]) -> Cost<'_> {
        Cost::of(self.pricing(), supported)
    }

    /// The declared access requirements. A hint: the predicate onchain decides.
    pub fn access(&self) -> Option<AccessRules<'_>> {
        self.document.root().get("access").and_then(AccessRules::of)
    }

    /// The claims about the execution environment.
    pub fn verifiability(&self) -> Option<Verifiability<'_>> {
        self.document.root().get("verifiability").and_then(Verifiability::of)
    }

    /// The tier that the claims support; self-attested if nothing is claimed.
    pub fn effective_tier(&self) -> Tier {
        self.verifiability().map_or(Tier::SelfAttested, Verifiability::effective_tier)
    }

    /// The number of seconds for which the author permits reuse of a verified copy.
    pub fn max_age(&self) -> Option<u64> {
        self.document.root().get("maxAge").and_then(Value::as_u64)
    }

    /// Values of `inputs` that an agent could send although the user never chose them. Show them before a call.
    pub fn prefilled(&self) -> &[Prefilled] {
        &self.view.prefilled
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.document.root().get(key).and_then(Value::as_str)
    }
}

impl Manifest for ToolManifest {
    type View = View;

    const LIMITS: Limits = Limits { max_bytes: crate::json::MAX_BYTES, max_depth: crate::json::MAX_DEPTH };

    const MAX_VALUES: usize = crate::json::MAX_VALUES;

    const READS_ON: bool = true;

    const NFC: Severity = Severity::Error;

    fn check(root: Object<'_>, context: &mut Context) -> Option<View> {
        let fields = Fields::of(root);
        extensions::check(root, &fields, context);
        identity::check_type(root, &fields, context);
        identity::check_texts(root, &fields, context);
        identity::check_images(&fields, context);
        identity::check_tags(&fields, context);
        let endpoint = identity::check_endpoint(root, &fields, context);
        let creator = identity::check_creator(root, &fields, context);
        let pricing = fields.pricing.map_or_else(Vec::new, |value| pricing::check(value, creator, context));
        let prefilled = schemas::check(root, &fields, context);
        if let Some(value) = fields.access {
            access::check(value, context);
        }
        if let Some(value) = fields.verifiability {
            verifiability::check(value, endpoint.as_ref(), context);
        }
        Some(View { endpoint: endpoint?, creator: creator?, pricing, prefilled })
    }

    fn assemble(document: Document, view: View) -> Self {
        Self { document, view }
    }
}

/// The members of the root object, collected in one pass.
#[derive(Default)]
struct Fields<'d> {
    r#type: Option<Value<'d>>,
    name: Option<Value<'d>>,
    description: Option<Value<'d>>,
    endpoint: Option<Value<'d>>,
    inputs: Option<Value<'d>>,
    outputs: Option<Value<'d>>,
    creator: Option<Value<'d>>,
    version: Option<Value<'d>>,
    image: Option<Value<'d>>,
    featured_image: Option<Value<'d>>,
    tags: Option<Value<'d>>,
    pricing: Option<Value<'d>>,
    access: Option<Value<'d>>,
    verifiability: Option<Value<'d>>,
    max_age: Option<Value<'d>>,
}

impl<'d> Fields<'d> {
    fn of(root: Object<'d>) -> Self {
        let mut fields = Self::default();
        for (key, value) in root.iter() {
            if let Some(field) = fields.named(key) {
                *field = Some(value);
            }
        }
        fields
    }

    /// Returns the slot of the field with this exact name. `None` for names that neither the ERC nor common use defines.
    fn named(&mut self, key: &str) -> Option<&mut Option<Value<'d>>> {
        Some(match key {
            "type" => &mut self.r#type,
            "name" => &mut self.name,
            "description" => &mut self.description,
            "endpoint" => &mut self.endpoint,
            "inputs" => &mut self.inputs,
            "outputs" => &mut self.outputs,
            "creatorAddress" => &mut self.creator,
            "version" => &mut self.version,
            "image" => &mut self.image,
            "featuredImage" => &mut self.featured_image,
            "tags" => &mut self.tags,
            "pricing" => &mut self.pricing,
            "access" => &mut self.access,
            "verifiability" => &mut self.verifiability,
            "maxAge" => &mut self.max_age,
            _ => return None,
        })
    }
}

/// The names that `Fields` knows.
pub const FIELD_NAMES: [&str; 15] = [
    "type",
    "name",
    "description",
    "endpoint",
    "inputs",
    "outputs",
    "creatorAddress",
    "version",
    "image",
    "featuredImage",
    "tags",
    "pricing",
    "access",
    "verifiability",
    "maxAge",
];
