//! Resources of the x402 Bazaar: listed by facilitators, but in no registry.
//!
//! They are returned only if a caller asks for this source by name. Nothing about them is verified, and each says so; the price in the
//! catalogue is kept apart from the price that the resource itself asked for.

use serde_json::{Map, Value as Json, json};
use toolcrib_core::codes::mcp as code;

use super::{
    LISTED_CHARS, RestRequest, SCHEMA_CHARS, WHOLE_CHARS, copy_flags, copy_foreign, copy_moderation, copy_numbers, items, price,
};
use crate::toolbox::ToolError;
use crate::untrusted::{inert, inert_json, without_headers};
use crate::words::{self, Form};

/// The name of the source, and the prefix of references.
pub(super) const BAZAAR: &str = "x402_bazaar";

/// Parses the number in a reference such as `x402_bazaar/7`.
pub(super) fn read(arguments: &Map<String, Json>) -> Option<i64> {
    let reference = arguments.get("reference")?.as_str()?;
    number(reference.strip_prefix(BAZAAR)?.strip_prefix('/')?).filter(|_| arguments.len() == 1)
}

fn number(digits: &str) -> Option<i64> {
    let is_plain = !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_plain)
}

pub(super) fn request(number: i64) -> RestRequest {
    // A resource has no chain, so any chain id works.
    let path = ["api", "v2", "tools", "0", BAZAAR].map(str::to_owned).into_iter().chain([number.to_string()]).collect();
    RestRequest { is_post: false, path, query: Vec::new() }
}

/// A list of resources. Other entries are dropped, even if the directory sends them.
pub(super) fn listed(page: &Json) -> Result<Json, ToolError> {
    let wrong = || ToolError::new(code::DIRECTORY).message("the directory's answer is no list of tools");
    let results = page.get("results").and_then(Json::as_array).ok_or_else(wrong)?;
    let is_one = |tool: &&Json| tool.get("registry_addr").and_then(Json::as_str) == Some(BAZAAR);
    let card = |tool: &Json| Some(short(tool, number(tool.get("tool_id")?.as_str()?)?, LISTED_CHARS));
    Ok(results.iter().filter(is_one).filter_map(card).collect())
}

fn short(tool: &Json, number: i64, max_chars: usize) -> Json {
    // The directory's verification fields are not copied, because resources are not verified.
    let mut card = json!({
        "reference": format!("{BAZAAR}/{number}"),
        "source": BAZAAR,
        "registry_addr": BAZAAR,
        "tool_id": number.to_string(),
        "verified": false,
        "conformant": false,
    });
    words::copy(tool, &mut card, &[("created_at", "first_seen_at", Form::Time), ("checked_at", "probed_at", Form::Time)]);
    copy_foreign(tool, &mut card, &["name", "description", "endpoint_domain"], max_chars);
    let tags: Vec<Json> = items(tool, "tags").filter_map(Json::as_str).map(|tag| inert(tag, 64).into()).collect();
    if !tags.is_empty() {
        card["untrusted_tags"] = tags.into();
    }
    // The price that the resource itself asked for.
    card["prices"] = items(tool, "pricing_recipients").map(price).collect::<Vec<_>>().into();
    card
}

pub(super) fn whole(tool: &Json, number: i64) -> Json {
    let mut card = short(tool, number, WHOLE_CHARS);
    copy_moderation(tool, &mut card);
    copy_foreign(tool, &mut card, &["endpoint"], WHOLE_CHARS);
    for (name, ours) in [("inputs", "untrusted_input_schema"), ("outputs", "untrusted_output_schema")] {
        if let Some(schema) = tool.get(name).filter(|schema| !schema.is_null()) {
            let (schema, is_cut) = inert_json(&without_headers(schema), SCHEMA_CHARS);
            card[ours] = schema;
            if is_cut {
                card[format!("{ours}_is_cut")] = true.into();
            }
        }
    }
    let Some(bazaar) = tool.get("bazaar") else { return card };
    copy_foreign(bazaar, &mut card, &["mcp_tool"], LISTED_CHARS);
    let claim = |claim: &Json| {
        let mut shown = json!({ "prices": items(claim, "prices").map(price).collect::<Vec<_>>() });
        words::copy(claim, &mut shown, &[("seen_at", "seen_at", Form::Time)]);
        copy_flags(claim, &mut shown, &["agrees_with_probe"]);
        copy_foreign(claim, &mut shown, &["facilitator", "method"], LISTED_CHARS);
        shown
    };
    card["claimed_by_catalogues"] = items(bazaar, "claims").map(claim).collect::<Vec<_>>().into();
    if let Some(probe) = bazaar.get("probe").filter(|probe| probe.is_object()) {
        let mut shown = json!({});
        words::copy(probe, &mut shown, &[("state", "state", words::PROBE), ("at", "at", Form::Time)]);
        copy_numbers(probe, &mut shown, &["status"]);
        card["probe"] = shown;
    }
    card
}
