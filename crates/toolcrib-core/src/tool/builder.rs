//! Builds manifests in Rust: the result of [`ToolBuilder::build`] is conformant and sealed.

use alloy_primitives::Address;

use super::{Logic, TYPE_V1, ToolManifest};
use crate::canon::{Sealed, write_string};
use crate::finding::{Finding, Mode};
use crate::fix::{self, Applied};
use crate::json::{self, Limits};
use crate::slug::Slug;

/// Collects the parts of a tool manifest.
///
/// ```
/// use toolcrib_core::tool::ToolBuilder;
///
/// let creator = "0xabcdefabcdef1234567890abcdefabcdef123456".parse().unwrap();
/// let built = ToolBuilder::new("word-count", "Counts the words of a text.", "https://tools.example.com/word-count", creator)
///     .inputs_json(r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#)
///     .outputs_json(r#"{"type":"object","properties":{"words":{"type":"integer"}}}"#)
///     .tag("text")
///     .build()
///     .unwrap();
/// assert_eq!(built.manifest.name(), "word-count");
/// assert!(built.adjusted.is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct ToolBuilder {
    /// Name and JSON text of the members, in the usual order.
    members: Vec<(String, String)>,
    inputs: String,
    outputs: String,
    tags: Vec<String>,
    prices: Vec<String>,
    logic: Logic,
    requirements: Vec<String>,
    max_age: Option<u64>,
    creator: Address,
}

/// The result of building.
#[derive(Clone, Debug)]
pub struct Built {
    /// The manifest with its canonical bytes and hash.
    pub manifest: Sealed<ToolManifest>,
    /// The normalisations before hashing: NFC, lowercase hex, `:443`.
    pub adjusted: Vec<Applied>,
    /// Findings that are not errors.
    pub findings: Vec<Finding>,
}

impl ToolBuilder {
    /// Starts a manifest. By default, `inputs` and `outputs` are `{}`: no schema.
    pub fn new(name: &str, description: &str, endpoint: &str, creator: Address) -> Self {
        let members = [("type", TYPE_V1), ("name", name), ("description", description), ("endpoint", endpoint)];
        Self {
            members: members.into_iter().map(|(key, text)| (key.to_owned(), string(text))).collect(),
            inputs: "{}".to_owned(),
            outputs: "{}".to_owned(),
            tags: Vec::new(),
            prices: Vec::new(),
            logic: Logic::And,
            requirements: Vec::new(),
            max_age: None,
            creator,
        }
    }

    /// Sets the schema of the arguments, as JSON text.
    #[must_use]
    pub fn inputs_json(mut self, schema: &str) -> Self {
        schema.clone_into(&mut self.inputs);
        self
    }

    /// Sets the schema of the result, as JSON text.
    #[must_use]
    pub fn outputs_json(mut self, schema: &str) -> Self {
        schema.clone_into(&mut self.outputs);
        self
    }

    /// Sets the schema of the arguments to that of a Rust type.
    #[cfg(feature = "schema")]
    #[must_use]
    pub fn inputs<T: schemars::JsonSchema>(self) -> Self {
        self.inputs_json(&crate::schema::schema_of::<T>())
    }

    /// Sets the schema of the result to that of a Rust type.
    #[cfg(feature = "schema")]
    #[must_use]
    pub fn outputs<T: schemars::JsonSchema>(self) -> Self {
        self.outputs_json(&crate::schema::schema_of::<T>())
    }

    /// Sets the version.
    #[must_use]
    pub fn version(self, version: &str) -> Self {
        self.member("version", string(version))
    }

    /// Sets the square icon.
    #[must_use]
    pub fn image(self, url: &str) -> Self {
        self.member("image", string(url))
    }

    /// Sets the 16:9 banner.
    #[must_use]
    pub fn featured_image(self, url: &str) -> Self {
        self.member("featuredImage", string(url))
    }

    /// Adds a tag.
    #[must_use]
    pub fn tag(mut self, tag: &str) -> Self {
        self.tags.push(string(tag));
        self
    }

    /// Adds a payment option; the first is the preferred one. A priced manifest gets `maxAge` 0 unless [`max_age`](Self::max_age) sets it,
    /// so that callers verify again before they pay.
    #[must_use]
    pub fn price(mut self, amount: &str, asset: &str, recipient: &str, protocol: &str) -> Self {
        self.prices.push(object(&[
            ("amount", string(amount)),
            ("asset", string(asset)),
            ("recipient", string(recipient)),
            ("protocol", string(protocol)),
        ]));
        self
    }

    /// Sets how access requirements combine. By default, all must be met.
    #[must_use]
    pub const fn access_logic(mut self, logic: Logic) -> Self {
        self.logic = logic;
        self
    }

    /// Adds an access requirement.
    #[must_use]
    pub fn requirement(mut self, kind: [u8; 4], data: &[u8], label: &str) -> Self {
        let hex = |bytes: &[u8]| string(&alloy_primitives::hex::encode_prefixed(bytes));
        self.requirements.push(object(&[("kind", hex(&kind)), ("data", hex(data)), ("label", string(label))]));
        self
    }

    /// Sets the verifiability block, as JSON text.
    #[must_use]
    pub fn verifiability_json(self, block: &str) -> Self {
        self.member("verifiability", block.to_owned())
    }

    /// Sets the number of seconds for which a verified copy may be reused.
    #[must_use]
    pub const fn max_age(mut self, seconds: u64) -> Self {
        self.max_age = Some(seconds);
        self
    }

    /// Adds a field that the standard does not define, as JSON text. Give it a reverse-DNS name.
    #[must_use]
    pub fn extension(self, key: &str, json: &str) -> Self {
        self.member(key, json.to_owned())
    }

    /// Builds, checks and seals the manifest, or returns all findings.
    pub fn build(mut self) -> Result<Built, Vec<Finding>> {
        let mut members = std::mem::take(&mut self.members);
        members.push(("inputs".to_owned(), self.inputs));
        members.push(("outputs".to_owned(), self.outputs));
        if !self.tags.is_empty() {
            members.push(("tags".to_owned(), array(&self.tags)));
        }
        let max_age = self.max_age.or(if self.prices.is_empty() { None } else { Some(0) });
        if !self.prices.is_empty() {
            members.push(("pricing".to_owned(), array(&self.prices)));
        }
        if !self.requirements.is_empty() {
            let logic = match self.logic {
                Logic::And => "AND",
                Logic::Or => "OR",
            };
            members.push(("access".to_owned(), object(&[("logic", string(logic)), ("requirements", array(&self.requirements))])));
        }
        if let Some(seconds) = max_age {
            members.push(("maxAge".to_owned(), seconds.to_string()));
        }
        let creator = alloy_primitives::hex::encode_prefixed(self.creator);
        members.push(("creatorAddress".to_owned(), string(&creator)));
        // Parts are JSON text. Each must be one complete value, or it could close the object and open another.
        for (_, json) in &members {
            well_formed(json)?;
        }
        seal(&object(&members))
    }

    fn member(mut self, key: &str, json: String) -> Self {
        self.members.push((key.to_owned(), json));
        self
    }
}

/// Returns a valid template manifest for a new tool.
pub fn template(name: &str, creator: Address) -> Result<String, Vec<Finding>> {
    let slug = Slug::derive(name).map(|slug| slug.as_str().to_owned()).unwrap_or_else(|_| "my-tool".to_owned());
    let built = ToolBuilder::new(
        name,
        "Describe in one or two sentences what the tool does, what it needs and what it returns.",
        &format!("https://tools.example.com/{slug}"),
        creator,
    )
    .inputs_json(r#"{"type":"object","properties":{"query":{"type":"string","description":"What to look for."}},"required":["query"],"additionalProperties":false}"#)
    .outputs_json(r#"{"type":"object","properties":{"result":{"type":"string"}},"required":["result"]}"#)
    .version("0.1.0")
    .build()?;
    Ok(json::pretty(built.manifest.document().root()))
}

/// Normalises what can be normalised without changing the meaning, then checks and seals.
fn seal(source: &str) -> Result<Built, Vec<Finding>> {
    let check = |bytes: &[u8]| ToolManifest::parse(bytes, Mode::Producer).findings;
    let mended = fix::mend(source.as_bytes(), &check(source.as_bytes()), check);
    let (bytes, adjusted) = match &mended {
        Some(mended) => (mended.bytes.as_slice(), mended.applied.clone()),
        None => (source.as_bytes(), Vec::new()),
    };
    let checked = ToolManifest::parse(bytes, Mode::Producer);
    let findings = checked.findings.clone();
    checked.into_result().map(|manifest| Built { manifest, adjusted, findings })
}

fn well_formed(json: &str) -> Result<(), Vec<Finding>> {
    let reading = json::read(json.as_bytes(), Limits::default());
    if reading.findings.has_errors() { Err(reading.findings.into_sorted()) } else { Ok(()) }
}

fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    write_string(text, &mut out);
    out
}

fn object<K: AsRef<str>>(members: &[(K, String)]) -> String {
    let members: Vec<_> = members.iter().map(|(key, json)| format!("{}:{json}", string(key.as_ref()))).collect();
    format!("{{{}}}", members.join(","))
}

fn array(elements: &[String]) -> String {
    format!("[{}]", elements.join(","))
}
