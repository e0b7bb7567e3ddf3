//! Version 2: base64 in a header, CAIP-2 networks, the resource stated once, and extensions.

use toolcrib_core::codes::x402 as code;
use toolcrib_core::finding::Finding;
use toolcrib_core::json::{Kind, Object, Value};

use super::read::{Need, Reader, others};
use super::v1::write_extra;
use super::{Challenge, Members, ObjectWriter, Offer, Resource, Version};

/// Longest `serviceName`: x402 v2 §5.1.
const MAX_SERVICE_NAME: usize = 32;

/// Most `tags`: x402 v2 §5.1.
const MAX_TAGS: usize = 5;

/// Longest `iconUrl`: x402 v2 §5.1.
const MAX_ICON_URL: usize = 2_048;

const FIELDS: [&str; 8] = ["scheme", "network", "amount", "maxAmountRequired", "asset", "payTo", "maxTimeoutSeconds", "extra"];

pub(super) fn read_offer(reader: &mut Reader, entry: Object<'_>) -> Option<Offer> {
    let offer = reader.offer(entry, Version::V2)?;
    Some(Offer { other: others(entry, &FIELDS), ..offer })
}

pub(super) fn read_resource(reader: &mut Reader, root: Object<'_>) -> Option<Resource> {
    let value = reader.required(root, "resource", Need::Should)?;
    let object = reader.typed(value, Kind::Object, value.as_object())?;
    check_limits(reader, object);
    Some(Resource {
        url: reader.url(object, "url"),
        description: reader.string(object, "description", Need::May).map(str::to_owned),
        mime_type: reader.string(object, "mimeType", Need::May).map(str::to_owned),
        other: others(object, &["url", "description", "mimeType"]),
    })
}

fn check_limits(reader: &mut Reader, object: Object<'_>) {
    let mut limit = |key, holds: fn(Value<'_>) -> bool, most: usize, what: &str| {
        if let Some(value) = object.get(key)
            && !holds(value)
        {
            let expected = format!("at most {most} {what}");
            reader.report(Finding::new(code::RESOURCE_LIMIT).expected(expected).got(value.source()), value);
        }
    };
    let is_name = |value: Value<'_>| {
        let printable = |text: &str| text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        value.as_str().is_some_and(|text| text.len() <= MAX_SERVICE_NAME && printable(text))
    };
    limit("serviceName", is_name, MAX_SERVICE_NAME, "printable ASCII characters");
    limit("tags", |value| value.as_array().is_some_and(|tags| tags.len() <= MAX_TAGS), MAX_TAGS, "tags");
    let is_icon = |value: Value<'_>| value.as_str().is_some_and(|text| text.len() <= MAX_ICON_URL);
    limit("iconUrl", is_icon, MAX_ICON_URL, "characters");
}

pub(super) fn read_extensions(reader: &mut Reader, root: Object<'_>) -> Members {
    // Stock clients treat null as missing.
    let Some(value) = root.get("extensions").filter(|value| !value.is_null()) else { return Vec::new() };
    reader.typed(value, Kind::Object, value.as_object()).map_or_else(Vec::new, |object| others(object, &[]))
}

pub(super) fn write(challenge: &Challenge) -> String {
    let mut out = String::new();
    let mut object = ObjectWriter::open(&mut out);
    object.number("x402Version", 2);
    if let Some(error) = &challenge.error {
        object.text("error", error);
    }
    if let Some(resource) = &challenge.resource {
        write_resource(resource, object.key("resource"));
    }
    let list = object.key("accepts");
    list.push('[');
    for (at, offer) in challenge.accepts.iter().enumerate() {
        if at > 0 {
            list.push(',');
        }
        write_offer(offer, list);
    }
    list.push(']');
    if !challenge.extensions.is_empty() {
        let mut extensions = ObjectWriter::open(object.key("extensions"));
        extensions.members(&challenge.extensions);
        extensions.close();
    }
    object.close();
    out
}

pub(super) fn write_resource(resource: &Resource, out: &mut String) {
    let mut object = ObjectWriter::open(out);
    for (key, text) in [("url", &resource.url), ("description", &resource.description), ("mimeType", &resource.mime_type)] {
        if let Some(text) = text {
            object.text(key, text);
        }
    }
    object.members(&resource.other);
    object.close();
}

pub(super) fn write_offer(offer: &Offer, out: &mut String) {
    let mut object = ObjectWriter::open(out);
    object.text("scheme", &offer.scheme);
    object.text("network", offer.network.as_str());
    object.text("amount", &offer.amount.to_string());
    object.text("asset", offer.asset.as_str());
    object.text("payTo", offer.pay_to.as_str());
    if let Some(seconds) = offer.max_timeout_seconds {
        object.number("maxTimeoutSeconds", seconds);
    }
    if let Some(extra) = &offer.extra {
        write_extra(extra, object.key("extra"));
    }
    object.members(&offer.other);
    object.close();
}
