//! Version 1: a JSON body, network names, and the resource repeated in every offer.
//!
//! Beyond the five fields of the invocation guide, a missing field is a warning: our clients can pay such an offer, but stock clients of
//! this version validate the whole list and reject it.

use toolcrib_core::codes::x402 as code;
use toolcrib_core::finding::Finding;
use toolcrib_core::json::{Kind, Object};

use super::read::{Need, Reader, others};
use super::{Challenge, EXACT, Extra, ObjectWriter, Offer, Raw, Resource, Version, network};

/// The default media type of an offer: stock clients require one, and tools respond in JSON.
const DEFAULT_MIME_TYPE: &str = "application/json";

/// How long a signature is valid if the challenge does not say: what public clients use anyway.
pub(super) const DEFAULT_TIMEOUT_SECONDS: u64 = 600;

const FIELDS: [&str; 12] = [
    "scheme",
    "network",
    "maxAmountRequired",
    "amount",
    "resource",
    "description",
    "mimeType",
    "outputSchema",
    "payTo",
    "maxTimeoutSeconds",
    "asset",
    "extra",
];

pub(super) fn read_offer(reader: &mut Reader, entry: Object<'_>) -> Option<Offer> {
    let offer = reader.offer(entry, Version::V1);
    let resource = Resource {
        url: reader.url(entry, "resource"),
        description: reader.string(entry, "description", Need::Should).map(str::to_owned),
        mime_type: reader.string(entry, "mimeType", Need::Should).map(str::to_owned),
        other: Vec::new(),
    };
    let output_schema = entry.get("outputSchema").and_then(|value| {
        if value.is_null() {
            reader.report(Finding::new(code::NULL_FIELD), value);
            return None;
        }
        reader.typed(value, Kind::Object, value.as_object()).map(|_| Raw::of(value))
    });
    let said = resource != Resource::default();
    Some(Offer { resource: said.then_some(resource), output_schema, other: others(entry, &FIELDS), ..offer? })
}

pub(super) fn write(challenge: &Challenge) -> String {
    let mut out = String::new();
    let mut object = ObjectWriter::open(&mut out);
    object.number("x402Version", 1);
    if let Some(error) = &challenge.error {
        object.text("error", error);
    }
    let list = object.key("accepts");
    list.push('[');
    let named = challenge.accepts.iter().filter_map(|offer| Some((offer, network::by_chain(&offer.network)?.name)));
    for (at, (offer, name)) in named.enumerate() {
        if at > 0 {
            list.push(',');
        }
        write_offer(offer, name, list);
    }
    list.push(']');
    object.close();
    out
}

pub(super) fn write_offer(offer: &Offer, network: &str, out: &mut String) {
    let mut object = ObjectWriter::open(out);
    object.text("scheme", &offer.scheme);
    object.text("network", network);
    object.text("maxAmountRequired", &offer.amount.to_string());
    if let Some(resource) = &offer.resource {
        for (key, text) in
            [("resource", &resource.url), ("description", &resource.description), ("mimeType", &resource.mime_type)]
        {
            if let Some(text) = text {
                object.text(key, text);
            }
        }
    }
    if let Some(schema) = &offer.output_schema {
        object.key("outputSchema").push_str(schema.as_str());
    }
    object.text("payTo", offer.pay_to.as_str());
    if let Some(seconds) = offer.max_timeout_seconds {
        object.number("maxTimeoutSeconds", seconds);
    }
    object.text("asset", offer.asset.as_str());
    if let Some(extra) = &offer.extra {
        write_extra(extra, object.key("extra"));
    }
    object.members(&offer.other);
    object.close();
}

/// Serialises `extra`, which is the same in both versions.
pub(super) fn write_extra(extra: &Extra, out: &mut String) {
    let mut object = ObjectWriter::open(out);
    for (key, text) in [
        ("name", &extra.name),
        ("version", &extra.version),
        ("assetTransferMethod", &extra.transfer_method),
        ("paymentFlow", &extra.payment_flow),
    ] {
        if let Some(text) = text {
            object.text(key, text);
        }
    }
    object.members(&extra.other);
    object.close();
}

pub(super) fn from(challenge: &Challenge) -> Challenge {
    let sold = challenge.resource.as_ref();
    let payable =
        |offer: &&Offer| offer.scheme == EXACT && network::by_chain(&offer.network).is_some_and(|network| network.is_stock);
    Challenge {
        version: Version::V1,
        error: challenge.error.clone(),
        resource: None,
        accepts: challenge.accepts.iter().filter(payable).map(|offer| complete(offer, sold)).collect(),
        extensions: Vec::new(),
    }
}

/// An offer with every field that stock clients require, for this resource.
pub(super) fn complete(offer: &Offer, sold: Option<&Resource>) -> Offer {
    let own = offer.resource.clone().unwrap_or_default();
    let sold = sold.cloned().unwrap_or_default();
    let resource = Resource {
        url: own.url.or(sold.url),
        description: Some(own.description.or(sold.description).unwrap_or_default()),
        mime_type: Some(own.mime_type.or(sold.mime_type).unwrap_or_else(|| DEFAULT_MIME_TYPE.to_owned())),
        other: Vec::new(),
    };
    Offer {
        resource: Some(resource),
        max_timeout_seconds: Some(offer.max_timeout_seconds.unwrap_or(DEFAULT_TIMEOUT_SECONDS)),
        ..offer.clone()
    }
}
