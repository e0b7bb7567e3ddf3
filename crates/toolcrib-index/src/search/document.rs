//! The search document of a tool: terms, labels to filter by, columns to sort by, and the folded text for comparing the best hits.
//! Displayed data comes from the database.

use alloy_primitives::{Address, U256};
use serde_json::Value;
use tantivy::schema::{Field, IndexRecordOption, NumericOptions, Schema, TextFieldIndexing, TextOptions};
use tantivy::{TantivyDocument, Term};

use crate::bazaar::ResourceView;
use crate::listing::ManifestFacts;
use crate::model::{RegistryId, ToolKey, ToolView};
use crate::search::embedding::{COLUMNS, Embedding};
use crate::search::label::{self, labels, resource_labels};
use crate::search::rank::Signals;
use crate::search::refine::Wording;
use crate::search::words::{GIVEN, Words};

/// The maximum length of one part of a document in characters. Manifests have lower limits; this bounds everything else.
const MAX_PART_CHARS: usize = 2_000;

/// The maximum length of the descriptions in schemas in characters. They help to distinguish tools; schemas of a megabyte do not.
const MAX_SCHEMA_CHARS: usize = 2_000;

/// The maximum depth of a schema that is read.
const MAX_SCHEMA_DEPTH: usize = 12;

/// The maximum number of schema field names.
const MAX_FIELDS: usize = 200;

/// The maximum number of word pairs in details. A schema of the maximum length has about as many.
const MAX_DETAIL_PAIRS: usize = 400;

/// The maximum number of word pairs in name and description.
const MAX_PAIRS: usize = 120;

/// The name of the field of neighbouring words.
pub(super) const NEIGHBOURS: &str = "neighbours";

/// The name of the field of pairs in details.
pub(super) const DETAILS: &str = "details";

/// The names of the columns.
pub(super) mod column {
    pub(in crate::search) const REGISTRY: &str = "registry";
    pub(in crate::search) const ID: [&str; 4] = ["id0", "id1", "id2", "id3"];
    pub(in crate::search) const REGISTERED: &str = "registered";
    pub(in crate::search) const PAYERS: &str = "payers";
    pub(in crate::search) const MERIT: &str = "merit";
    pub(in crate::search) const SIGNALS: [&str; 2] = ["signals0", "signals1"];
    pub(in crate::search) const PRICE: &str = "price";
    pub(in crate::search) const FACET: &str = "facet";
}

/// The fields of a document.
#[derive(Clone, Debug)]
pub(super) struct Fields {
    pub(super) schema: Schema,
    pub(super) key: Field,
    /// All words, in one field: the frequencies of a word in name and description belong together.
    pub(super) text: Field,
    pub(super) name: Field,
    pub(super) description: Field,
    /// Pairs of neighbouring words, and whole identifiers.
    pub(super) pairs: Field,
    /// Neighbouring words in either order, without function words.
    pub(super) neighbours: Field,
    /// Pairs of neighbouring words in tags and schemas.
    pub(super) details: Field,
    /// The text for comparing the best hits. It is stored, not indexed.
    pub(super) wording: Field,
    /// All labels for filters.
    pub(super) label: Field,
    facet: Field,
    registry: Field,
    id: [Field; 4],
    registered: Field,
    payers: Field,
    merit: Field,
    signals: [Field; 2],
    price: Field,
    vector: Vec<Field>,
}

impl Fields {
    /// Creates the fields; vector columns only with an embedding.
    pub(super) fn new(has_vectors: bool) -> Self {
        let mut schema = Schema::builder();
        let words = || {
            let indexing = TextFieldIndexing::default().set_tokenizer(GIVEN).set_index_option(IndexRecordOption::WithFreqs);
            TextOptions::default().set_indexing_options(indexing)
        };
        let raw =
            || TextFieldIndexing::default().set_tokenizer("raw").set_index_option(IndexRecordOption::Basic).set_fieldnorms(false);
        let number = || NumericOptions::default().set_fast();
        Self {
            key: schema.add_bytes_field("key", tantivy::schema::BytesOptions::default().set_indexed()),
            text: schema.add_text_field("text", words()),
            name: schema.add_text_field("name", words()),
            description: schema.add_text_field("description", words()),
            pairs: schema.add_text_field("pairs", words()),
            neighbours: schema.add_text_field(NEIGHBOURS, words()),
            details: schema.add_text_field(DETAILS, words()),
            wording: schema.add_text_field("wording", TextOptions::default().set_stored()),
            label: schema.add_text_field("label", TextOptions::default().set_indexing_options(raw())),
            facet: schema.add_text_field(column::FACET, TextOptions::default().set_fast("raw")),
            registry: schema.add_u64_field(column::REGISTRY, number()),
            id: column::ID.map(|name| schema.add_u64_field(name, number())),
            registered: schema.add_u64_field(column::REGISTERED, number()),
            payers: schema.add_u64_field(column::PAYERS, number()),
            merit: schema.add_u64_field(column::MERIT, number()),
            signals: column::SIGNALS.map(|name| schema.add_u64_field(name, number())),
            price: schema.add_u64_field(column::PRICE, number()),
            vector: match has_vectors {
                true => COLUMNS.iter().map(|name| schema.add_u64_field(name, number())).collect(),
                false => Vec::new(),
            },
            schema: schema.build(),
        }
    }

    /// Returns the term that identifies a tool when it is replaced.
    pub(super) fn key_term(&self, key: ToolKey) -> Term {
        let mut bytes = key.registry.0.to_be_bytes().to_vec();
        bytes.extend_from_slice(&key.id.to_be_bytes::<32>());
        Term::from_field_bytes(self.key, &bytes)
    }

    /// Returns the document of a tool.
    pub(super) fn document(&self, view: &ToolView, embedding: Option<&Embedding>, reputation: Option<f32>) -> TantivyDocument {
        let manifest = view.listing.as_ref().and_then(|listing| listing.manifest.as_ref()).filter(|_| view.is_listed());
        self.entry(
            Entry {
                key: view.row.key,
                registered: view.row.registered.time.seconds(),
                payers: view.usage.ranking_payers,
                signals: Signals::of(view, reputation),
                price: manifest.and_then(price),
                texts: manifest.map_or_else(|| Texts::of_claims(view), Texts::of_manifest),
                creator: Some(view.row.creator),
                labels: labels(view),
            },
            embedding,
        )
    }

    /// Returns the document of a Bazaar resource. It has no signals of trust or usage: nothing about it is proven.
    pub(super) fn resource(&self, view: &ResourceView, embedding: Option<&Embedding>) -> TantivyDocument {
        self.entry(
            Entry {
                key: view.key(),
                registered: view.first_seen_at.seconds(),
                payers: 0,
                signals: Signals::default(),
                price: view.prices().iter().filter_map(|price| price.micro_usd).min(),
                texts: Texts::of_resource(view),
                creator: None,
                labels: resource_labels(view),
            },
            embedding,
        )
    }

    fn entry(&self, entry: Entry, embedding: Option<&Embedding>) -> TantivyDocument {
        let Entry { key, registered, payers, signals, price, texts, creator, labels } = entry;
        let mut document = TantivyDocument::default();
        let mut bytes = key.registry.0.to_be_bytes().to_vec();
        bytes.extend_from_slice(&key.id.to_be_bytes::<32>());
        document.add_bytes(self.key, &bytes);
        document.add_u64(self.registry, key.registry.0.cast_unsigned());
        for (field, limb) in self.id.into_iter().zip(key.id.into_limbs()) {
            document.add_u64(field, limb);
        }
        document.add_u64(self.registered, sortable_time(registered));
        document.add_u64(self.payers, payers);
        document.add_u64(self.merit, signals.merit());
        for (field, packed) in self.signals.into_iter().zip(signals.pack()) {
            document.add_u64(field, packed);
        }
        if let Some(price) = price {
            document.add_u64(self.price, price);
        }
        self.add_words(&mut document, &texts, creator);
        for label in labels {
            document.add_text(self.label, &label);
            let is_counted = [label::TAG, label::CHAIN, label::ACCESS, label::TIER, label::PROTOCOL];
            if is_counted.iter().any(|kind| label.starts_with(kind)) {
                document.add_text(self.facet, &label);
            }
        }
        if let Some(embedding) = embedding
            && let Some(vector) = embedding.of_tool(&texts.name, &texts.description, &texts.details)
        {
            for (field, packed) in self.vector.iter().zip(vector.packed()) {
                document.add_u64(*field, packed);
            }
        }
        document
    }

    fn add_words(&self, document: &mut TantivyDocument, texts: &Texts, creator: Option<Address>) {
        let name = Words::of(&texts.name, MAX_PART_CHARS);
        let description = Words::of(&texts.description, MAX_PART_CHARS);
        let details = Words::of(&texts.details, 2 * MAX_PART_CHARS + MAX_SCHEMA_CHARS);
        let place = Words::of(&texts.place, 2 * MAX_PART_CHARS);
        let lines = |terms: &mut dyn Iterator<Item = &str>| terms.collect::<Vec<_>>().join("\n");
        document.add_text(self.name, lines(&mut name.terms()));
        document.add_text(self.description, lines(&mut description.terms()));
        let all = || name.terms().chain(description.terms()).chain(details.terms()).chain(place.terms());
        document.add_text(self.text, lines(&mut all()));
        document.add_text(self.wording, Wording::written(&[&name, &description], all()));
        let neighbours: Vec<String> = name.neighbours().chain(description.neighbours()).take(MAX_PAIRS).collect();
        document.add_text(self.neighbours, neighbours.join("\n"));
        document.add_text(self.details, details.pairs().take(MAX_DETAIL_PAIRS).collect::<Vec<_>>().join("\n"));
        let mut pairs: Vec<String> = name.pairs().chain(description.pairs()).take(MAX_PAIRS).collect();
        pairs.extend(name.wholes.into_iter().chain(description.wholes).chain(details.wholes).chain(place.wholes).take(MAX_PAIRS));
        pairs.extend(creator.map(|creator| format!("{creator:#x}")));
        document.add_text(self.pairs, pairs.join("\n"));
    }
}

/// The indexed data of a tool or a resource.
struct Entry {
    key: ToolKey,
    registered: i64,
    payers: u64,
    signals: Signals,
    price: Option<u64>,
    texts: Texts,
    creator: Option<Address>,
    labels: Vec<String>,
}

/// The texts of a tool.
struct Texts {
    name: String,
    description: String,
    /// Tags, and the names and descriptions of schema fields.
    details: String,
    /// Its location: the host, and the last part of the path.
    place: String,
}

impl Texts {
    fn of_manifest(manifest: &ManifestFacts) -> Self {
        let mut details = manifest.tags.join(" ");
        for field in manifest.fields.iter().take(MAX_FIELDS) {
            details.push(' ');
            details.push_str(cut(field, 128));
        }
        let mut left = MAX_SCHEMA_CHARS;
        for schema in [&manifest.inputs, &manifest.outputs].into_iter().flatten() {
            add_descriptions(schema, 0, &mut left, &mut details);
        }
        let host = manifest.origin.split_once("://").map_or("", |(_, host)| host);
        let place = format!("{} {}", cut(host, 260), cut(&manifest.slug, 260));
        Self { name: manifest.name.clone(), description: manifest.description.clone(), details, place }
    }

    /// Unverified tools are found by their claimed name and by their location, and not by other claims.
    fn of_claims(view: &ToolView) -> Self {
        let claims = view.listing.as_ref().and_then(|listing| listing.claims.as_ref());
        let name = claims.and_then(|claims| claims.name.clone());
        let endpoint = claims.and_then(|claims| claims.endpoint.as_deref());
        let uri = &view.row.metadata_uri;
        let place = format!("{} {}", cut(endpoint.unwrap_or_default(), MAX_PART_CHARS), cut(uri, MAX_PART_CHARS));
        Self { name: name.unwrap_or_default(), description: String::new(), details: String::new(), place }
    }

    /// A resource is found by the claims in its catalogue: only queries for catalogues or for unverified tools return it.
    fn of_resource(view: &ResourceView) -> Self {
        let claim = view.claim();
        let mut details = claim.map(|claim| claim.tags.join(" ")).unwrap_or_default();
        let mut left = MAX_SCHEMA_CHARS;
        for shape in claim.into_iter().flat_map(|claim| [&claim.input, &claim.output]).flatten() {
            add_descriptions(shape, 0, &mut left, &mut details);
        }
        let url = view.url.split_once("://").map_or("", |(_, place)| place);
        let place = format!("{} {}", cut(url, MAX_PART_CHARS), view.tool.as_deref().unwrap_or_default());
        let description = claim.and_then(|claim| claim.description.clone()).unwrap_or_default();
        Self { name: view.name(), description, details, place }
    }
}

/// Adds the descriptions of fields at any depth.
fn add_descriptions(schema: &Value, depth: usize, left: &mut usize, text: &mut String) {
    if depth > MAX_SCHEMA_DEPTH || *left == 0 {
        return;
    }
    match schema {
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(description) if name == "description" || name == "title" => {
                        let description = cut(description, *left);
                        *left -= description.len().min(*left);
                        text.push(' ');
                        text.push_str(description);
                    }
                    value => add_descriptions(value, depth + 1, left, text),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                add_descriptions(item, depth + 1, left, text);
            }
        }
        _ => {}
    }
}

/// Returns the lowest price in micro-dollars (millionths of a dollar). A tool without payment options costs nothing; one with only other
/// currencies has no price.
fn price(manifest: &ManifestFacts) -> Option<u64> {
    if manifest.prices.is_empty() {
        return Some(0);
    }
    manifest.prices.iter().filter_map(|price| price.micro_usd).min()
}

/// Converts a time to an unsigned column. Times before 1970 do not occur, and sort first if they do.
fn sortable_time(seconds: i64) -> u64 {
    u64::try_from(seconds).unwrap_or_default()
}

/// Returns the start of a text, at most this number of bytes.
pub(super) fn cut(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Reads the key from its four columns.
pub(super) fn key_of(registry: u64, limbs: [u64; 4]) -> ToolKey {
    ToolKey { registry: RegistryId(registry.cast_signed()), id: U256::from_limbs(limbs) }
}
