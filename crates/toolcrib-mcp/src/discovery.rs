//! Tools for discovery: `search_tools`, `get_tool`, `get_wallet_tools` and `verify_tool`.
//!
//! They return what a directory's REST API returns, so they are the same for a directory in this process and a third-party server, and
//! have its limits. Responses are split up: fixed words, numbers and addresses get names of ours, and all untrusted text gets
//! names that begin with `untrusted_`. Text in any other field that is not a known word is dropped, so that a directory cannot inject
//! its own text either.

use std::fmt::Write as _;
use std::sync::Arc;

use alloy_primitives::{Address, U256};
use async_trait::async_trait;
use serde_json::{Map, Value as Json, json};
use toolcrib_chain::network::Network;
use toolcrib_core::caip::ToolRef;
use toolcrib_core::codes::{Code, mcp as code};
use toolcrib_http::percent_encode;

mod agents;
mod resources;
mod specs;

pub use agents::{AGENT_NAMES, AgentTools};

use crate::asker::Asker;
use crate::toolbox::{Reply, ToolError, ToolSpec};
use crate::untrusted::{NOTE, inert, inert_json, without_headers};
use crate::words::{self, Form};

/// Maximum size of a directory's response: fifty tools with their requirements, and a margin.
pub const MAX_ANSWER_BYTES: usize = 4 << 20;

/// Maximum number of tools in one response. A model reads all of them.
pub const MAX_TOOLS: i64 = 50;

/// Default number of tools in one response.
const DEFAULT_TOOLS: i64 = 10;

/// Number of tools in each of a wallet's two lists.
const WALLET_TOOLS: i64 = 50;

/// Maximum length of names, descriptions and other untrusted texts in lists, in characters. Manifests allow more; a model that
/// needs the full text gets the tool itself.
const LISTED_CHARS: usize = 300;

/// Maximum length of untrusted texts in the response about one tool, in characters: a manifest's longest description, and a margin.
const WHOLE_CHARS: usize = 4_000;

/// Maximum length of a schema in characters: enough for a large manifest, and still a small part of a model's context.
const SCHEMA_CHARS: usize = 50_000;

/// Maximum length of a directory's cursor in bytes. Ours have about a hundred.
const CURSOR_BYTES: usize = 400;

/// Maximum number of items in a list of a tool: tags, prices, requirements, findings.
const MAX_ITEMS: usize = 32;

/// The names of the four tools.
pub const NAMES: [&str; 4] = ["get_tool", "get_wallet_tools", "search_tools", "verify_tool"];

/// A directory.
#[async_trait]
pub trait Discovery: Send + Sync + 'static {
    /// Sends a request, and returns the document of a successful response. For other statuses, [`refusal`] makes a fault.
    async fn ask(&self, request: &RestRequest, asker: &Asker) -> Result<Json, ToolError>;
}

/// A request to a directory's REST API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestRequest {
    /// Whether it is a POST, which has side effects on the directory.
    pub is_post: bool,
    /// The segments of the path, not percent-encoded.
    pub path: Vec<String>,
    /// The query parameters, not percent-encoded.
    pub query: Vec<(&'static str, String)>,
}

impl RestRequest {
    fn search(query: Vec<(&'static str, String)>) -> Self {
        let path = ["api", "v2", "tools", "search"].map(str::to_owned).to_vec();
        Self { is_post: false, path, query }
    }

    fn tool(tool: &ToolRef) -> Self {
        let place = [tool.chain.to_string(), format!("{:#x}", tool.registry), tool.id.to_string()];
        let path = ["api", "v2", "tools"].map(str::to_owned).into_iter().chain(place).collect();
        Self { is_post: false, path, query: Vec::new() }
    }

    /// The request target: path and query. Every byte that could end a segment or a value is encoded.
    pub fn target(&self) -> String {
        let mut target = String::new();
        for segment in &self.path {
            // Writing to a string cannot fail.
            let _ = write!(target, "/{}", percent_encode(segment));
        }
        for (index, (name, value)) in self.query.iter().enumerate() {
            let separator = if index == 0 { '?' } else { '&' };
            let _ = write!(target, "{separator}{}={}", percent_encode(name), percent_encode(value));
        }
        target
    }
}

/// Known parameters of requests to directories.
const PARAMETERS: [&str; 24] = [
    "query",
    "registry_chain",
    "registry_addr",
    "tool_id",
    "tags",
    "access_type",
    "creator",
    "collection",
    "asset",
    "protocol",
    "tier",
    "sort_by",
    "limit",
    "cursor",
    "callable_by",
    "wallet",
    "min_price",
    "max_price",
    "q",
    "capability",
    "pricing",
    "currency",
    "verified",
    "source",
];

/// Converts an error status to a fault. From the body only a code of our vocabulary is used.
pub fn refusal(status: u16, retry_after: Option<u64>, body: &[u8]) -> ToolError {
    let document: Option<Json> = serde_json::from_slice(body).ok();
    let said = document.as_ref().and_then(|document| find_code(document)).and_then(Code::find);
    let fallback = match status {
        400 => code::ARGUMENTS,
        404 => code::TOOL_NOT_FOUND,
        429 => code::LIMITED,
        _ => code::DIRECTORY,
    };
    let mut details = json!({ "status": status });
    if let Some(seconds) = retry_after {
        details["retry_after_seconds"] = seconds.into();
    }
    // The name of the parameter is useful, if it is a known one.
    let parameter = document.as_ref().and_then(|document| document.pointer("/details/0/parameter")).and_then(Json::as_str);
    if let Some(parameter) = parameter.filter(|name| PARAMETERS.contains(name)) {
        details["parameter"] = parameter.into();
    }
    ToolError::new(said.unwrap_or(fallback)).details(details)
}

fn find_code(document: &Json) -> Option<&str> {
    document.get("code").or_else(|| document.get("error")?.get("code")).and_then(Json::as_str)
}

/// The four tools over a directory, to include in a toolbox.
#[derive(Clone)]
pub struct DiscoveryTools {
    directory: Arc<dyn Discovery>,
}

impl std::fmt::Debug for DiscoveryTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DiscoveryTools")
    }
}

impl DiscoveryTools {
    /// Creates the tools for this directory.
    pub fn new(directory: Arc<dyn Discovery>) -> Self {
        Self { directory }
    }

    /// The tools' names, descriptions and schemas.
    pub fn specs() -> Vec<ToolSpec> {
        vec![specs::get_tool_spec(), specs::get_wallet_tools_spec(), specs::search_tools_spec(), specs::verify_tool_spec()]
    }

    /// Calls one of [`NAMES`].
    pub async fn call(&self, name: &str, arguments: &Map<String, Json>, asker: &Asker) -> Result<Reply, ToolError> {
        match name {
            "search_tools" => self.search(arguments, asker).await,
            "get_tool" => self.tool(arguments, asker).await,
            "get_wallet_tools" => self.wallet(arguments, asker).await,
            "verify_tool" => self.verify(arguments, asker).await,
            _ => Err(ToolError::new(code::UNKNOWN_TOOL)),
        }
    }

    async fn search(&self, arguments: &Map<String, Json>, asker: &Asker) -> Result<Reply, ToolError> {
        let mut query = Vec::new();
        let is_bazaar = arguments.get("source").and_then(Json::as_str) == Some(resources::BAZAAR);
        if is_bazaar {
            query.push(("source", resources::BAZAAR.to_owned()));
        }
        for name in ["query", "access_type", "collection", "asset", "protocol", "tier", "sort_by", "min_price", "max_price"] {
            if let Some(text) = arguments.get(name).and_then(Json::as_str).filter(|text| !text.is_empty()) {
                query.push((name, text.to_owned()));
            }
        }
        if let Some(cursor) = arguments.get("cursor").and_then(Json::as_str).filter(|text| !text.is_empty()) {
            let wrong = || ToolError::new(code::ARGUMENTS).message("cursor: expected next_cursor of the page before");
            query.push(("cursor", words::open_cursor(cursor).ok_or_else(wrong)?));
        }
        if let Some(chain) = arguments.get("registry_chain") {
            query.push(("registry_chain", read_chain(chain)?.to_string()));
        }
        if let Some(creator) = arguments.get("creator").and_then(Json::as_str) {
            query.push(("creator", format!("{:#x}", read_address(creator)?)));
        }
        let tags = arguments.get("tags").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str);
        query.extend(tags.map(|tag| ("tags", tag.to_owned())));
        let limit = arguments.get("limit").and_then(Json::as_i64).unwrap_or(DEFAULT_TOOLS).clamp(1, MAX_TOOLS);
        query.push(("limit", limit.to_string()));
        let found = self.directory.ask(&RestRequest::search(query), asker).await?;
        let tools = if is_bazaar { resources::listed(&found)? } else { listed(&found)? };
        let mut answer = json!({ "note": NOTE, "tools": tools });
        if let Some(next) = found.get("next").and_then(Json::as_str).filter(|next| next.len() <= CURSOR_BYTES) {
            answer["next_cursor"] = words::seal_cursor(next).into();
        }
        copy_numbers(&found, &mut answer, &["total"]);
        Ok(Reply::data(answer))
    }

    async fn tool(&self, arguments: &Map<String, Json>, asker: &Asker) -> Result<Reply, ToolError> {
        if let Some(number) = resources::read(arguments) {
            let found = self.directory.ask(&resources::request(number), asker).await?;
            return Ok(Reply::data(json!({ "note": NOTE, "tool": resources::whole(&found, number) })));
        }
        let tool = read_tool(arguments)?;
        let found = self.directory.ask(&RestRequest::tool(&tool), asker).await?;
        let mut answer = json!({ "note": NOTE });
        answer["tool"] = whole(&found, &tool);
        Ok(Reply::data(answer))
    }

    async fn wallet(&self, arguments: &Map<String, Json>, asker: &Asker) -> Result<Reply, ToolError> {
        let wallet = arguments.get("wallet").and_then(Json::as_str).unwrap_or_default();
        let wallet = format!("{:#x}", read_address(wallet)?);
        let limit = WALLET_TOOLS.to_string();
        let created = vec![("creator", wallet.clone()), ("sort_by", "newest".to_owned()), ("limit", limit.clone())];
        let created = self.directory.ask(&RestRequest::search(created), asker).await?;
        let accessible = vec![("callable_by", wallet.clone()), ("limit", limit)];
        let accessible = self.directory.ask(&RestRequest::search(accessible), asker).await;
        let more = |page: &Json| page.get("next").is_some_and(Json::is_string);
        let mut answer = json!({
            "note": NOTE,
            "wallet": wallet,
            "created": listed(&created)?,
            "created_is_partial": more(&created),
        });
        match accessible {
            Ok(page) => {
                let is_partial = more(&page) || page.get("partial").and_then(Json::as_bool).unwrap_or_default();
                answer["accessible"] = listed(&page)?;
                answer["accessible_is_partial"] = is_partial.into();
            }
            // The directory cannot read a chain now. Return what was created, marked as incomplete.
            Err(fault) => {
                answer["accessible"] = json!([]);
                answer["accessible_is_partial"] = true.into();
                answer["accessible_error"] = fault.code.id().into();
            }
        }
        Ok(Reply::data(answer))
    }

    async fn verify(&self, arguments: &Map<String, Json>, asker: &Asker) -> Result<Reply, ToolError> {
        let tool = read_tool(arguments)?;
        let mut request = RestRequest::tool(&tool);
        request.is_post = true;
        request.path.push("verify".to_owned());
        let report = self.directory.ask(&request, asker).await?;
        let mut answer = json!({ "reference": tool.to_string() });
        words::copy(&report, &mut answer, &[("status", "status", words::LOOK)]);
        standing(&report, &mut answer);
        Ok(Reply::data(answer))
    }
}

/// Parses a tool by reference, or by chain, registry and id.
pub fn read_tool(arguments: &Map<String, Json>) -> Result<ToolRef, ToolError> {
    let wrong = |what: &str| ToolError::new(code::REFERENCE).message(what.to_owned());
    let text = |name: &str| arguments.get(name).and_then(Json::as_str);
    let parts = (arguments.get("registry_chain"), text("registry_addr"), arguments.get("tool_id"));
    match (text("reference"), parts) {
        (Some(reference), (None, None, None)) => {
            ToolRef::parse(reference).map_err(|_| wrong("expected eip155:<chain>/erc8257:<registry>/<id>"))
        }
        (None, (Some(chain), Some(registry), Some(id))) => {
            let id = match id {
                Json::String(digits) => digits.clone(),
                other => other.to_string(),
            };
            let reference = format!("eip155:{}/erc8257:{:#x}/{id}", read_chain(chain)?, read_address(registry)?);
            ToolRef::parse(&reference).map_err(|_| wrong("tool_id: expected a whole number above 0, in decimal digits"))
        }
        _ => Err(wrong("expected either `reference`, or all of `registry_chain`, `registry_addr` and `tool_id`")),
    }
}

fn read_chain(value: &Json) -> Result<u64, ToolError> {
    let wrong = || ToolError::new(code::REFERENCE).message("registry_chain: expected a chain id, or a network name such as base");
    match value {
        Json::Number(number) => number.as_u64().filter(|number| *number > 0).ok_or_else(wrong),
        Json::String(text) => {
            let digits = text.strip_prefix("eip155:").unwrap_or(text);
            match digits.parse::<u64>() {
                Ok(number) if number > 0 && digits.bytes().all(|byte| byte.is_ascii_digit()) => Ok(number),
                _ => Network::find(text).map(|network| network.chain_id).map_err(|_| wrong()),
            }
        }
        _ => Err(wrong()),
    }
}

/// Parses an account. A mixed-case address must have a valid checksum.
pub fn read_address(text: &str) -> Result<Address, ToolError> {
    let wrong = || ToolError::new(code::REFERENCE).message("expected an address: 0x and 40 hexadecimal digits");
    let is_plain = text.len() == 42 && text.starts_with("0x");
    let address: Address = is_plain.then(|| text.parse().ok()).flatten().ok_or_else(wrong)?;
    let has_checksum = text.bytes().skip(2).any(|byte| byte.is_ascii_uppercase());
    let is_right = !has_checksum || address.to_checksum(None) == text;
    is_right.then_some(address).ok_or_else(|| ToolError::new(code::REFERENCE).message("the checksum of the address is wrong"))
}

fn copy_numbers(from: &Json, to: &mut Json, names: &[&str]) {
    for name in names {
        if let Some(number) = from.get(name).filter(|value| value.is_number()) {
            to[*name] = number.clone();
        }
    }
}

fn copy_flags(from: &Json, to: &mut Json, names: &[&str]) {
    for name in names {
        if let Some(flag) = from.get(name).and_then(Json::as_bool) {
            to[*name] = flag.into();
        }
    }
}

fn copy_foreign(from: &Json, to: &mut Json, names: &[&str], max_chars: usize) {
    for name in names {
        if let Some(text) = from.get(name).and_then(Json::as_str).filter(|text| !text.is_empty()) {
            to[format!("untrusted_{name}")] = inert(text, max_chars).into();
        }
    }
}

/// Copies the operator's moderation of the tool, with the notice that is shown in place of blocked content.
fn copy_moderation(from: &Json, to: &mut Json) {
    let Some(moderation) = from.get("moderation").filter(|moderation| moderation.is_object()) else { return };
    let mut shown = json!({});
    words::copy(moderation, &mut shown, &[("action", "action", words::MODERATION), ("at", "at", Form::Time)]);
    copy_foreign(moderation, &mut shown, &["reason", "notice"], LISTED_CHARS);
    to["moderation"] = shown;
}

fn items<'a>(from: &'a Json, name: &str) -> impl Iterator<Item = &'a Json> {
    from.get(name).and_then(Json::as_array).into_iter().flatten().take(MAX_ITEMS)
}

/// The tools of a page in short form. Tools that are not verified and conformant are dropped, even if the directory sends them.
fn listed(page: &Json) -> Result<Json, ToolError> {
    let wrong = || ToolError::new(code::DIRECTORY).message("the directory's answer is no list of tools");
    let results = page.get("results").and_then(Json::as_array).ok_or_else(wrong)?;
    let flag = |tool: &Json, name: &str| tool.get(name).and_then(Json::as_bool) == Some(true);
    let good = results.iter().filter(|tool| flag(tool, "verified") && flag(tool, "conformant"));
    Ok(good.filter_map(|tool| reference_of(tool).map(|reference| short(tool, &reference, LISTED_CHARS))).collect())
}

fn reference_of(tool: &Json) -> Option<ToolRef> {
    let text = |name: &str| tool.get(name).and_then(Json::as_str);
    let chain: u64 = text("registry_chain")?.parse().ok()?;
    let registry: Address = text("registry_addr")?.parse().ok()?;
    let id = U256::from_str_radix(text("tool_id")?, 10).ok().filter(|id| !id.is_zero())?;
    Some(ToolRef { chain, registry, id })
}

fn short(tool: &Json, reference: &ToolRef, max_chars: usize) -> Json {
    let mut card = json!({
        "reference": reference.to_string(),
        "registry_chain": reference.chain,
        "registry_addr": format!("{:#x}", reference.registry),
        "tool_id": reference.id.to_string(),
    });
    copy_flags(tool, &mut card, &["verified", "conformant", "is_active", "dev"]);
    words::copy(
        tool,
        &mut card,
        &[
            ("verdict", "verdict", words::VERDICT),
            ("tier", "tier", words::TIER),
            ("access_type", "access_type", words::ACCESS),
            ("life", "life", words::LIFE),
            ("creator", "creator", Form::Address),
            ("created_at", "created_at", Form::Time),
        ],
    );
    copy_foreign(tool, &mut card, &["name", "description", "endpoint_domain"], max_chars);
    let tags: Vec<Json> = items(tool, "tags").filter_map(Json::as_str).map(|tag| inert(tag, 64).into()).collect();
    if !tags.is_empty() {
        card["untrusted_tags"] = tags.into();
    }
    let prices: Vec<Json> = items(tool, "pricing_recipients").map(price).collect();
    card["prices"] = prices.into();
    let mut usage = json!({});
    if let Some(from) = tool.get("usage") {
        copy_numbers(from, &mut usage, &["paid_calls", "payers", "signed_calls"]);
        words::copy(from, &mut usage, &[("volume_usd", "volume_usd", Form::Decimal)]);
    }
    card["usage"] = usage;
    let warnings: Vec<Json> = items(tool, "warnings").filter_map(finding).collect();
    if !warnings.is_empty() {
        card["warnings"] = warnings.into();
    }
    card
}

fn price(from: &Json) -> Json {
    let mut price = json!({});
    words::copy(
        from,
        &mut price,
        &[
            ("amount_per_call", "amount", Form::Decimal),
            ("amount_per_call_usd", "usd", Form::Decimal),
            ("asset_id", "asset", Form::Asset),
            ("asset_symbol", "symbol", words::SYMBOL),
            ("payment_chain", "chain", Form::Chain),
            ("recipient", "recipient", Form::Address),
            ("protocol", "protocol", words::PROTOCOL),
        ],
    );
    copy_numbers(from, &mut price, &["asset_decimals"]);
    price
}

/// A finding by its code: the title is ours.
fn finding(from: &Json) -> Option<Json> {
    let code = from.get("code").and_then(Json::as_str).and_then(Code::find)?;
    Some(json!({ "code": code.id(), "title": code.title() }))
}

/// Copies verdict, checks and findings.
fn standing(from: &Json, to: &mut Json) {
    copy_flags(from, to, &["verified", "conformant"]);
    words::copy(
        from,
        to,
        &[("verdict", "verdict", words::VERDICT), ("tier", "tier", words::TIER), ("checked_at", "checked_at", Form::Time)],
    );
    const CHECKS: [&str; 4] = ["structure", "origin", "hash", "creator"];
    let checks: Vec<Json> = items(from, "checks")
        .filter_map(|check| {
            let number = check.get("number").and_then(Json::as_u64).filter(|number| (1..=4).contains(number))?;
            let name = CHECKS.get(usize::try_from(number).ok()? - 1).copied()?;
            let mut shown = json!({ "number": number, "name": name });
            words::copy(check, &mut shown, &[("status", "status", words::CHECK)]);
            Some(shown)
        })
        .collect();
    to["checks"] = checks.into();
    if let Some(failed) = from.get("failed").filter(|failed| failed.is_object()) {
        let mut shown = finding(failed).unwrap_or_else(|| json!({}));
        copy_numbers(failed, &mut shown, &["check"]);
        words::copy(failed, &mut shown, &[("step", "step", words::STEP)]);
        to["failed"] = shown;
    }
    let findings: Vec<Json> = items(from, "findings").chain(items(from, "warnings")).filter_map(finding).collect();
    if !findings.is_empty() {
        to["findings"] = findings.into();
    }
}

fn whole(tool: &Json, reference: &ToolRef) -> Json {
    let mut card = short(tool, reference, WHOLE_CHARS);
    standing(tool, &mut card);
    copy_moderation(tool, &mut card);
    words::copy(
        tool,
        &mut card,
        &[
            ("manifest_hash", "manifest_hash", Form::Bytes(32)),
            ("updated_at", "updated_at", Form::Time),
            ("health_status", "health_status", words::HEALTH),
            ("predicate", "predicate", Form::Address),
            ("deregistered_at", "deregistered_at", Form::Time),
        ],
    );
    copy_flags(tool, &mut card, &["predicate_is_proxy"]);
    copy_foreign(tool, &mut card, &["endpoint", "metadata_uri", "predicate_name", "version"], WHOLE_CHARS);
    for (name, ours) in [("inputs", "untrusted_input_schema"), ("outputs", "untrusted_output_schema")] {
        if let Some(schema) = tool.get(name).filter(|schema| !schema.is_null()) {
            let (schema, is_cut) = inert_json(&without_headers(schema), SCHEMA_CHARS);
            card[ours] = schema;
            if is_cut {
                card[format!("{ours}_is_cut")] = true.into();
            }
        }
    }
    let requirements: Vec<Json> = tool
        .get("access")
        .into_iter()
        .flat_map(|access| items(access, "requirements"))
        .map(|requirement| {
            let mut shown = json!({});
            words::copy(
                requirement,
                &mut shown,
                &[
                    ("kind", "kind", Form::Bytes(4)),
                    ("type", "type", words::REQUIREMENT),
                    ("collection_address", "collection_address", Form::Address),
                    ("token_address", "token_address", Form::Address),
                    ("token_id", "token_id", Form::Digits),
                    ("min_balance", "min_balance", Form::Digits),
                ],
            );
            copy_numbers(requirement, &mut shown, &["min_tier"]);
            copy_foreign(requirement, &mut shown, &["label"], LISTED_CHARS);
            if let Some(collection) = requirement.get("collection") {
                copy_foreign(collection, &mut shown, &["name", "symbol"], LISTED_CHARS);
            }
            shown
        })
        .collect();
    if !requirements.is_empty() {
        card["requirements"] = requirements.into();
        words::copy(&tool["access"], &mut card, &[("logic", "requirements_logic", words::LOGIC)]);
    }
    card
}

#[cfg(test)]
mod tests;
