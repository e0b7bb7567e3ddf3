//! The listed facts of a verified and conformant manifest.

use std::collections::BTreeSet;

use alloy_primitives::{Address, U256};
use toolcrib_core::canon::Sealed;
use toolcrib_core::json::Value;
use toolcrib_core::money::Amount;
use toolcrib_core::schema::to_serde;
use toolcrib_core::tool::{Price as ManifestPrice, ToolManifest};
use toolcrib_core::url::image::{ImageKind, ImageUri};
use toolcrib_core::url::well_known::WellKnown;
use toolcrib_x402::asset;

use crate::listing::{ManifestFacts, Price};

/// The maximum number of schema field names that are stored for search. A schema with more is a form, and its names say little.
pub const MAX_FIELDS: usize = 128;

/// The maximum length of a stored field name in characters. Longer ones are keys of data, not words.
const MAX_FIELD_CHARS: usize = 64;

/// The maximum depth of a schema that is walked: the manifest's own limit.
const MAX_DEPTH: usize = toolcrib_core::schema::MAX_DEPTH;

/// The maximum length of a stored image URI in bytes: a small icon as a data URI. Every list would repeat a larger one.
const MAX_IMAGE_BYTES: usize = 16 << 10;

pub(crate) fn manifest(sealed: &Sealed<ToolManifest>, metadata_uri: &str) -> ManifestFacts {
    let mut fields = Fields::default();
    for schema in [sealed.inputs(), sealed.outputs()].into_iter().flatten() {
        fields.collect(schema, 0);
    }
    ManifestFacts {
        name: sealed.name().to_owned(),
        description: sealed.description().to_owned(),
        tags: sealed.tags().map(str::to_owned).collect(),
        endpoint: sealed.endpoint().normalized().to_owned(),
        origin: sealed.endpoint().origin().to_string(),
        slug: WellKnown::parse(metadata_uri).map(|uri| uri.slug().to_string()).unwrap_or_default(),
        version: sealed.version().map(str::to_owned),
        image: sealed.image().and_then(image),
        featured_image: sealed.featured_image().and_then(image),
        inputs: sealed.inputs().map(to_serde),
        outputs: sealed.outputs().map(to_serde),
        fields: fields.in_order,
        prices: sealed.pricing().iter().map(price).collect(),
        max_age: sealed.max_age(),
    }
}

/// Returns an image URI, if a page can display it.
fn image(uri: &str) -> Option<String> {
    let shown = matches!(ImageUri::classify(uri), ImageKind::Https(_) | ImageKind::Ipfs | ImageKind::DataImage(_));
    (shown && uri.len() <= MAX_IMAGE_BYTES).then(|| uri.to_owned())
}

fn price(price: &ManifestPrice) -> Price {
    let (asset, recipient) = (price.asset.as_str().to_owned(), price.recipient.as_str().to_owned());
    listed_price(price.amount, asset, recipient, price.protocol.clone(), price.asset.evm_chain_id(), price.asset.evm_address())
}

/// Converts a price. Symbol and decimals come from the pinned table: a token can return any symbol.
pub(crate) fn listed_price(
    amount: Amount,
    asset: String,
    recipient: String,
    protocol: String,
    chain: Option<u64>,
    token: Option<Address>,
) -> Price {
    let known = chain.zip(token).and_then(|(chain, token)| asset::find(chain, token));
    // Every token of the table is a dollar stablecoin.
    let micro_usd = known.and_then(|known| {
        let amount = amount.get();
        let scaled = match known.decimals.checked_sub(6) {
            Some(more) => amount / U256::from(10).pow(U256::from(more)),
            None => amount.checked_mul(U256::from(10).pow(U256::from(6 - known.decimals)))?,
        };
        u64::try_from(scaled).ok()
    });
    Price {
        amount: amount.to_string(),
        asset,
        recipient,
        protocol,
        chain,
        token,
        symbol: known.map(|known| known.symbol.to_owned()),
        decimals: known.map(|known| known.decimals),
        micro_usd,
    }
}

/// The names of properties, each once, in document order.
#[derive(Default)]
struct Fields {
    in_order: Vec<String>,
    seen: BTreeSet<String>,
}

impl Fields {
    fn collect(&mut self, schema: Value<'_>, depth: usize) {
        if depth > MAX_DEPTH || self.in_order.len() >= MAX_FIELDS {
            return;
        }
        let Some(object) = schema.as_object() else {
            for member in schema.as_array().into_iter().flat_map(|array| array.iter()) {
                self.collect(member, depth + 1);
            }
            return;
        };
        for (key, member) in object.iter() {
            match key {
                "properties" => {
                    for (name, property) in member.as_object().into_iter().flat_map(|properties| properties.iter()) {
                        self.add(name);
                        self.collect(property, depth + 1);
                    }
                }
                "$defs" => {
                    for (_, definition) in member.as_object().into_iter().flat_map(|definitions| definitions.iter()) {
                        self.collect(definition, depth + 1);
                    }
                }
                // These contain values instead of schemas.
                "enum" | "const" | "default" | "examples" => {}
                _ => self.collect(member, depth + 1),
            }
        }
    }

    fn add(&mut self, name: &str) {
        let fits = !name.is_empty() && name.chars().count() <= MAX_FIELD_CHARS && self.in_order.len() < MAX_FIELDS;
        if fits && self.seen.insert(name.to_owned()) {
            self.in_order.push(name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolcrib_core::finding::Mode;
    use toolcrib_core::tool::TYPE_V1;

    use super::*;

    fn facts(change: impl FnOnce(&mut serde_json::Value)) -> ManifestFacts {
        let mut document = json!({
            "type": TYPE_V1,
            "name": "word-count",
            "description": "Counts.",
            "endpoint": "https://Tools.example.com/count",
            "inputs": {"type": "object", "properties": {"text": {"type": "string", "default": {"properties": {"no": 1}}},
                "list": {"type": "array", "items": {"type": "object", "properties": {"inner": {"type": "string"}, "text": {"type": "string"}}}}}},
            "outputs": {"type": "object", "properties": {"words": {"type": "integer"}}},
            "creatorAddress": "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266",
        });
        change(&mut document);
        let checked = ToolManifest::parse(document.to_string().as_bytes(), Mode::Consumer);
        let findings = format!("{:?}", checked.findings);
        let sealed = checked.conformant().unwrap_or_else(|| panic!("{findings}"));
        manifest(sealed, "https://tools.example.com/.well-known/ai-tool/word-count.json")
    }

    #[test]
    fn fields_are_the_names_of_properties() {
        let facts = facts(|_| {});
        assert_eq!(facts.fields, ["text", "list", "inner", "words"]);
        assert_eq!((facts.origin.as_str(), facts.slug.as_str()), ("https://tools.example.com", "word-count"));
        assert_eq!(facts.inputs.expect("a schema")["properties"]["text"]["type"], "string");
    }

    #[test]
    fn fields_are_bounded() {
        let facts = facts(|document| {
            let properties: serde_json::Map<_, _> = (0..200).map(|at| (format!("f{at}"), json!({"type": "string"}))).collect();
            document["inputs"]["properties"] = properties.into();
        });
        assert_eq!(facts.fields.len(), MAX_FIELDS);
    }

    #[test]
    fn symbols_come_from_the_table() {
        let asset = |address: &str| format!("eip155:8453/erc20:{address}");
        let usdc = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913";
        let other = "0x00000000000000000000000000000000000000aa";
        let facts = facts(|document| {
            document["pricing"] = json!([usdc, other].map(|address| json!({
                "amount": "20000", "asset": asset(address), "recipient": format!("eip155:8453:{other}"), "protocol": "x402",
            })));
        });
        let [known, unknown] = &facts.prices[..] else { panic!("{:?}", facts.prices) };
        assert_eq!((known.symbol.as_deref(), known.decimals, known.micro_usd), (Some("USDC"), Some(6), Some(20_000)));
        assert_eq!((unknown.symbol.as_deref(), unknown.decimals, unknown.micro_usd), (None, None, None));
        assert_eq!(unknown.token.map(|token| format!("{token:#x}")).as_deref(), Some(other));
    }

    #[test]
    fn images_that_run_are_not_kept() {
        for uri in ["javascript:alert(1)", "http://example.com/x.png", "data:image/svg+xml,<svg/>"] {
            assert_eq!(image(uri), None, "{uri}");
        }
        assert!(image("https://example.com/x.png").is_some());
        assert!(image(&format!("data:image/png;base64,{}", "A".repeat(MAX_IMAGE_BYTES))).is_none());
    }
}
