//! A page of a facilitator's catalogue at `GET /discovery/resources` (the Bazaar), with items of both versions.
//!
//! Any seller that was paid once through the facilitator can write to a catalogue, so every item is parsed separately, strictly and under
//! limits: an invalid one is skipped and the rest of the page is used. Items are claims; nothing here may decide what is signed.

use alloy_primitives::{B256, keccak256};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes::{Code, bazaar as code};
use toolcrib_core::json::{self, Limits, Object, Value};
use toolcrib_core::time::parse_rfc3339;
use toolcrib_core::url::HttpsUrl;

use super::read::read_offers;
use super::{Offer, Raw};

/// Largest page. A hundred items of ordinary size take half a megabyte; a client that gets more requests fewer items.
pub const MAX_CATALOGUE_BYTES: usize = 4 * 1024 * 1024;

/// Most items of a page: the limit of the specification. Further items are ignored.
pub const MAX_CATALOGUE_ITEMS: usize = 100;

/// Largest item: a dozen offers, two schemas of a few kilobytes, and room to spare.
pub(crate) const MAX_ITEM_BYTES: usize = 64 * 1024;

/// Longest example or schema of an input or output that is kept. Longer ones are dropped: they do not help to choose.
const MAX_SHAPE_BYTES: usize = 16 * 1024;

/// Longest description that is kept, in characters. Manifests have the same limit.
const MAX_DESCRIPTION_CHARS: usize = 2_000;

/// Longest name, media type, tag or tool name that is kept, in characters. The extension permits 32 for most of them.
const MAX_NAME_CHARS: usize = 128;

/// Most tags that are kept. The extension permits five.
const MAX_TAGS: usize = 16;

/// Larger values of `lastUpdated` are milliseconds, smaller ones seconds.
const FIRST_MILLISECONDS: u64 = 100_000_000_000;

/// A page of a catalogue.
#[derive(Clone, Debug)]
pub struct CataloguePage {
    /// Its items, including invalid ones, in their order.
    pub items: Vec<Result<CatalogueItem, BadItem>>,
    /// The total number of items, as the facilitator reports it.
    pub total: Option<u64>,
}

/// An item that is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadItem {
    /// The reason.
    pub code: Code,
    /// The hash of its text, which identifies the same item later.
    pub hash: B256,
}

/// A facilitator's description of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogueItem {
    /// The URL at which it is called, normalised and without a fragment.
    pub url: HttpsUrl,
    /// The way in which it is called.
    pub access: ItemAccess,
    /// The name of the service. Untrusted text, like all that follows.
    pub name: Option<String>,
    /// The description.
    pub description: Option<String>,
    /// The media type of its response.
    pub mime_type: Option<String>,
    /// Topics.
    pub tags: Vec<String>,
    /// Its icon.
    pub icon: Option<String>,
    /// The offers, at least one.
    pub offers: Vec<Offer>,
    /// The time at which the facilitator last received it, as it reports.
    pub last_updated: Option<UnixTime>,
    /// Its path with parameters, such as `/items/:id`.
    pub route_template: Option<String>,
    /// The input as the resource describes it: a schema or an example.
    pub input: Option<Raw>,
    /// The output as the resource describes it.
    pub output: Option<Raw>,
}

/// How a resource is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemAccess {
    /// By an HTTP request.
    Http {
        /// The method, if it is specified and the extension knows it.
        method: Option<&'static str>,
    },
    /// As a tool of an MCP server.
    Mcp {
        /// The tool's name there.
        tool: String,
    },
}

/// Methods that the extension knows.
const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

impl CatalogueItem {
    /// The identity of the resource: a hash of its URL and, for MCP, the tool's name.
    pub fn identity(&self) -> B256 {
        let tool = match &self.access {
            ItemAccess::Http { .. } => "",
            ItemAccess::Mcp { tool } => tool,
        };
        // URLs have no zero bytes.
        keccak256(format!("{}\0{tool}", self.url.normalized()))
    }
}

/// Parses a page. Fails if it is not a page; items are checked separately.
pub fn read_catalogue(bytes: &[u8]) -> Result<CataloguePage, Code> {
    // Depth and number of values are limited for each item: one hostile item must not invalidate the page.
    let limits = Limits { max_bytes: MAX_CATALOGUE_BYTES, max_depth: json::MAX_DEPTH };
    let document = json::read_foreign(bytes, limits, json::MAX_VALUES).document.ok_or(code::PAGE)?;
    let root = document.root();
    let items = root.get("items").and_then(Value::as_array).ok_or(code::PAGE)?;
    let total = root.get("pagination").and_then(|pagination| pagination.get("total")).and_then(Value::as_u64);
    let read = |value: Value<'_>| read_item(value.source()).map_err(|code| BadItem { code, hash: keccak256(value.source()) });
    Ok(CataloguePage { items: items.iter().take(MAX_CATALOGUE_ITEMS).map(read).collect(), total })
}

fn read_item(source: &str) -> Result<CatalogueItem, Code> {
    if source.len() > MAX_ITEM_BYTES {
        return Err(code::ITEM_TOO_LARGE);
    }
    let limits = Limits { max_bytes: MAX_ITEM_BYTES, max_depth: json::MAX_DEPTH };
    let document = json::read_up_to(source.as_bytes(), limits, json::MAX_VALUES).document;
    let document = document.filter(json::Document::is_canonicalisable).ok_or(code::ITEM)?;
    let item = document.root().as_object().ok_or(code::ITEM)?;
    let url = url(item).ok_or(code::ITEM_URL)?;
    let offers = item.get("accepts").and_then(Value::as_array).ok_or(code::ITEM_OFFERS)?;
    let first = offers.iter().next().and_then(Value::as_object);
    let shape = Shape::of(item, first);
    let access = access(item, shape).ok_or(code::ITEM_TYPE)?;
    let offers = read_offers(offers);
    if offers.is_empty() {
        return Err(code::ITEM_OFFERS);
    }
    // Version 1 repeats in every offer what version 2 states once, and puts the rest into `metadata`.
    let metadata = item.get("metadata").and_then(Value::as_object);
    let said = |key: &str, most: usize| {
        let places = [Some(item), metadata, first];
        places.into_iter().flatten().find_map(|object| text(object, key, most))
    };
    let tags = [Some(item), metadata].into_iter().flatten().find_map(|object| object.get("tags")?.as_array());
    Ok(CatalogueItem {
        name: said("serviceName", MAX_NAME_CHARS).or_else(|| text(metadata?, "name", MAX_NAME_CHARS)),
        description: said("description", MAX_DESCRIPTION_CHARS),
        mime_type: said("mimeType", MAX_NAME_CHARS),
        tags: tags.into_iter().flat_map(|tags| tags.iter()).take(MAX_TAGS).filter_map(tag).collect(),
        icon: item
            .get("iconUrl")
            .and_then(Value::as_str)
            .filter(|icon| icon.len() <= toolcrib_core::url::MAX_URL_BYTES)
            .map(str::to_owned),
        last_updated: item.get("lastUpdated").and_then(last_updated),
        route_template: shape.route_template(),
        input: shape.input(&access).and_then(bounded),
        output: shape.output().and_then(bounded),
        url,
        access,
        offers,
    })
}

/// The URL; older catalogues have it in an object.
fn url(item: Object<'_>) -> Option<HttpsUrl> {
    let resource = item.get("resource")?;
    let text = resource.as_str().or_else(|| resource.get("url")?.as_str())?;
    let url = HttpsUrl::parse(text).ok()?;
    let text = url.normalized();
    let end = url.fragment().map_or(text.len(), |fragment| text.len() - fragment.len() - 1);
    // The same resource is written with and without the root slash.
    match (url.path(), url.query()) {
        ("", None) => HttpsUrl::parse(&format!("{}/", &text[..end])).ok(),
        _ => HttpsUrl::parse(&text[..end]).ok(),
    }
}

/// The places where an item describes its input and output.
#[derive(Clone, Copy)]
struct Shape<'d> {
    /// Version 2: the extension.
    extension: Option<Value<'d>>,
    /// Version 1: `outputSchema` of the first offer.
    schema: Option<Value<'d>>,
}

impl<'d> Shape<'d> {
    fn of(item: Object<'d>, first: Option<Object<'d>>) -> Self {
        Self {
            extension: item.get("extensions").and_then(|extensions| extensions.get("bazaar")),
            schema: first.and_then(|offer| offer.get("outputSchema")),
        }
    }

    /// The object that describes how the resource is called.
    fn call(self) -> Option<Value<'d>> {
        self.extension.and_then(|extension| extension.get("info")?.get("input")).or_else(|| self.schema?.get("input"))
    }

    fn route_template(self) -> Option<String> {
        let text = self.extension?.get("routeTemplate")?.as_str()?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_/:.-~%".contains(&byte);
        let is_route = text.starts_with('/') && text.len() <= toolcrib_core::url::MAX_URL_BYTES && text.bytes().all(is_plain);
        (is_route && !text.contains("..")).then(|| text.to_owned())
    }

    /// The JSON Schema if there is one, otherwise the example.
    fn input(self, access: &ItemAccess) -> Option<Value<'d>> {
        if let ItemAccess::Mcp { .. } = access {
            return self.call()?.get("inputSchema");
        }
        let described = self.extension.and_then(|extension| extension.get("schema")?.get("properties")?.get("input"));
        described.or_else(|| self.call())
    }

    fn output(self) -> Option<Value<'d>> {
        let described = self.extension.and_then(|extension| extension.get("info")?.get("output"));
        described.or_else(|| self.schema?.get("output"))
    }
}

fn access(item: Object<'_>, shape: Shape<'_>) -> Option<ItemAccess> {
    let call = shape.call();
    let said = |key: &str| call.and_then(|call| call.get(key)?.as_str());
    match item.get("type").and_then(Value::as_str).or_else(|| said("type")) {
        Some("http") | None => {
            let method = said("method").and_then(|said| METHODS.into_iter().find(|method| method.eq_ignore_ascii_case(said)));
            Some(ItemAccess::Http { method })
        }
        Some("mcp") => {
            let tool = said("toolName").filter(|name| !name.is_empty() && name.chars().count() <= MAX_NAME_CHARS)?;
            (!tool.contains(char::is_control)).then(|| ItemAccess::Mcp { tool: tool.to_owned() })
        }
        Some(_) => None,
    }
}

/// Seconds since 1970, milliseconds, or an RFC 3339 timestamp: catalogues contain all three.
fn last_updated(value: Value<'_>) -> Option<UnixTime> {
    if let Some(text) = value.as_str() {
        return parse_rfc3339(text).ok();
    }
    let number = value.as_u64()?;
    let seconds = if number < FIRST_MILLISECONDS { number } else { number / 1_000 };
    i64::try_from(seconds).ok().map(UnixTime::from_seconds)
}

/// A non-empty text, truncated.
fn text(object: Object<'_>, key: &str, most: usize) -> Option<String> {
    let text = object.get(key)?.as_str()?.trim();
    (!text.is_empty()).then(|| text.chars().take(most).collect())
}

fn tag(value: Value<'_>) -> Option<String> {
    let text = value.as_str()?.trim();
    (!text.is_empty() && text.chars().count() <= MAX_NAME_CHARS).then(|| text.to_owned())
}

fn bounded(value: Value<'_>) -> Option<Raw> {
    (value.source().len() <= MAX_SHAPE_BYTES && !value.is_null()).then(|| Raw::of(value))
}

#[cfg(test)]
mod tests;
