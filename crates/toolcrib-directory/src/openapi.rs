//! The `OpenAPI` document: one table of operations, and the schemas of the response types.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::{IntoParams, PartialSchema as _};

use crate::answer::ErrorBody;
use crate::api;
use crate::parameters::Account;
use crate::view::{Agent, Tool};

/// Returns the document.
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.for_serialize().into_generator();
    generator.subschema_for::<ErrorBody>();
    let mut paths: Map<String, Value> = Map::new();
    let operations = operations();
    for operation in &operations {
        let schema = operation.answer.schema(&mut generator);
        let path = paths.entry(operation.path.to_owned()).or_insert_with(|| json!({}));
        path[operation.method] = operation.to_value(schema, &operations);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Toolcrib directory",
            "version": "2.0.0",
            "summary": "Discovery of ERC-8257 tools, with the verdict of all four checks.",
            "description": "Responses may gain fields. Clients of the public tools API work with this base URL.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": { "key": { "type": "apiKey", "in": "header", "name": "x-api-key" } },
        },
        "security": [{}, { "key": [] }],
    })
}

struct Operation {
    method: &'static str,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    parameters: Vec<Parameter>,
    body: Option<Value>,
    success: u16,
    answer: Answered,
    refusals: &'static [u16],
    links: Vec<Link>,
}

/// A link from a response to another operation.
struct Link {
    name: &'static str,
    /// The id of the operation.
    to: &'static str,
    /// Where the response has its parameters: the name of a parameter, and a JSON pointer.
    given: &'static [(&'static str, &'static str)],
    /// Whether all other parameters are repeated. A cursor is valid only for its own query.
    is_next: bool,
}

/// Where a response has the cursor of the next page.
const NEXT: &[(&str, &str)] = &[("cursor", "/next")];

/// Where the response of a tool has the path of the tool.
const OF_TOOL: &[(&str, &str)] =
    &[("registry_chain", "/registry_chain"), ("registry_addr", "/registry_addr"), ("tool_id", "/tool_id")];

/// The kind of response.
enum Answered {
    Json(fn(&mut SchemaGenerator) -> Value),
    /// JSON, or the compact form.
    Both(fn(&mut SchemaGenerator) -> Value),
    /// Lines of JSON.
    Lines(fn(&mut SchemaGenerator) -> Value),
    /// JSON of any type.
    Anything,
    /// JSON, or a stream of events.
    Feed(fn(&mut SchemaGenerator) -> Value),
    Text,
}

impl Answered {
    fn schema(&self, generator: &mut SchemaGenerator) -> Value {
        match self {
            Self::Json(of) => json!({ "application/json": { "schema": of(generator) } }),
            Self::Both(of) => json!({
                "application/json": { "schema": of(generator) },
                "text/markdown": { "schema": { "type": "string" } },
            }),
            Self::Lines(of) => {
                json!({ "application/x-ndjson": { "schema": { "type": "string", "description": "One JSON object per line." }, "itemSchema": of(generator) } })
            }
            Self::Feed(of) => json!({
                "application/json": { "schema": of(generator) },
                "text/event-stream": { "schema": { "type": "string" } },
            }),
            Self::Anything => json!({ "application/json": { "schema": {} } }),
            Self::Text => json!({ "text/plain": { "schema": { "type": "string" } } }),
        }
    }
}

/// Returns the location of a parameter.
const fn place(parameter: &Parameter) -> &'static str {
    match parameter.parameter_in {
        ParameterIn::Path => "path",
        _ => "query",
    }
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

impl Operation {
    fn new(method: &'static str, at: &'static str, id: &'static str, summary: &'static str, answer: Answered) -> Self {
        let parameters = if at.contains("{tool_id}") {
            tool_path()
        } else if at.contains("{domain}") {
            vec![path("domain", "A .agt name, in Unicode or xn-- form.", text().max_length(Some(1024)))]
        } else if at.contains("{report}") {
            let number = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).maximum(Some(i64::MAX));
            vec![path("report", "The number of the report.", number)]
        } else {
            Vec::new()
        };
        let refusals: &[u16] = if parameters.is_empty() { &[400, 401, 429, 500, 503] } else { &[400, 401, 404, 429, 500, 503] };
        Self { method, path: at, id, summary, parameters, body: None, success: 200, answer, refusals, links: Vec::new() }
    }

    /// Declares that the query is read as a `T`.
    fn reads<T: IntoParams>(mut self) -> Self {
        self.parameters.extend(T::into_params(|| Some(ParameterIn::Query)));
        self
    }

    fn body(mut self, schema: Value) -> Self {
        self.body = Some(schema);
        self
    }

    const fn refuses(mut self, statuses: &'static [u16]) -> Self {
        self.refusals = statuses;
        self
    }

    /// Declares that the response has parameters of another operation.
    fn leads(mut self, name: &'static str, to: &'static str, given: &'static [(&'static str, &'static str)]) -> Self {
        self.links.push(Link { name, to, given, is_next: false });
        self
    }

    /// Declares that the response has the cursor of the next page.
    fn continues(mut self, given: &'static [(&'static str, &'static str)]) -> Self {
        self.links.push(Link { name: "next", to: self.id, given, is_next: true });
        self
    }

    /// Returns the parameters of a link, as runtime expressions.
    fn link(&self, link: &Link, operations: &[Self]) -> Value {
        let target = operations.iter().find(|operation| operation.id == link.to);
        let declared =
            |name: &str| target.and_then(|target| target.parameters.iter().find(|parameter| parameter.name == name)).map(place);
        let mut parameters = Map::new();
        for (name, pointer) in link.given {
            // A name without a location is that of a path parameter.
            let place = declared(name).filter(|place| *place != "path").map(|place| format!("{place}.")).unwrap_or_default();
            parameters.insert(format!("{place}{name}"), format!("$response.body#{pointer}").into());
        }
        if link.is_next {
            let others = self.parameters.iter().filter(|parameter| !link.given.iter().any(|(name, _)| *name == parameter.name));
            parameters.extend(others.map(|parameter| {
                let (name, place) = (&parameter.name, place(parameter));
                let key = if place == "path" { name.clone() } else { format!("{place}.{name}") };
                (key, format!("$request.{place}.{name}").into())
            }));
        }
        json!({ "operationId": link.to, "parameters": parameters })
    }

    fn to_value(&self, content: Value, operations: &[Self]) -> Value {
        let mut responses = Map::new();
        let mut done = json!({ "description": "Done.", "content": content });
        if !self.links.is_empty() {
            let links = self.links.iter().map(|link| (link.name.to_owned(), self.link(link, operations)));
            done["links"] = Value::Object(links.collect());
        }
        responses.insert(self.success.to_string(), done);
        if self.id == "verify_tool" {
            let mut queued = responses[&self.success.to_string()].clone();
            queued["description"] = "Queued: the report will be available at Location.".into();
            responses.insert("202".to_owned(), queued);
        }
        // Parts of a tool are not shown while the operator blocks it; the tool itself says so, and reports about it are accepted.
        let is_part = self.path.contains("{tool_id}/") && self.id != "report_abuse";
        for status in self.refusals.iter().chain(is_part.then_some(&451)) {
            let refusal = json!({
                "description": reason(*status),
                "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Errors" } } },
            });
            responses.insert(status.to_string(), refusal);
        }
        let mut value = json!({ "operationId": self.id, "summary": self.summary, "responses": responses });
        if !self.parameters.is_empty() {
            value["parameters"] = json!(self.parameters);
        }
        if let Some(body) = &self.body {
            value["requestBody"] = json!({ "required": true, "content": { "application/json": { "schema": body } } });
        }
        value
    }
}

const fn reason(status: u16) -> &'static str {
    match status {
        400 => "A parameter or the body is not valid.",
        401 => {
            "This directory requires an API key (directory.key_missing), or the key is unknown, revoked or expired \
             (directory.key_unknown)."
        }
        404 => "The tool or agent does not exist.",
        405 => "The method is not allowed for this path.",
        403 => "The key lacks the permission to moderate.",
        451 => "The operator blocked the tool: the message is the notice.",
        409 => "The tool is deregistered.",
        410 => {
            "The changes after this cursor are no longer kept (index.cursor_expired), or the cursor is beyond the last change \
             (index.cursor_ahead): read all data again, then continue from the `cursor` of this response."
        }
        413 => "The body is too large.",
        429 => "Too many requests: see Retry-After.",
        503 => {
            "Temporarily unavailable: see Retry-After. Search returns index.not_ready until its index is built. Without Retry-After \
             this directory runs without that function."
        }
        _ => "Internal server error.",
    }
}

fn path(name: &str, about: &str, schema: ObjectBuilder) -> Parameter {
    let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Path).required(Required::True);
    parameter.description(Some(about)).schema(Some(schema)).build()
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn tool_path() -> Vec<Parameter> {
    let of = |pattern: &str| text().pattern(Some(pattern));
    vec![
        path("registry_chain", "The chain id of the registry.", of("^(0|[1-9][0-9]{0,18})$")),
        path(
            "registry_addr",
            "The registry, or x402_bazaar for a resource that a facilitator lists.",
            of("^(0x[0-9a-fA-F]{40}|x402_bazaar)$"),
        ),
        path("tool_id", "The tool's id, in decimal digits.", of("^[1-9][0-9]{0,77}$")),
    ]
}

/// Every operation.
fn operations() -> Vec<Operation> {
    let tool = "/api/v2/tools/{registry_chain}/{registry_addr}/{tool_id}";
    vec![
        Operation::new(
            "get",
            "/api/v2/tools",
            "list_tools",
            "List tools by registration time",
            Answered::Both(of::<api::tools::ToolList>),
        )
        .reads::<api::tools::ListParameters>()
        .leads(
            "first",
            "get_tool",
            &[
                ("registry_chain", "/tools/0/registry_chain"),
                ("registry_addr", "/tools/0/registry_addr"),
                ("tool_id", "/tools/0/tool_id"),
            ],
        )
        .continues(NEXT),
        Operation::new(
            "get",
            "/api/v2/tools/search",
            "search_tools",
            "Search tools by words and filters",
            Answered::Both(of::<api::search::SearchResults>),
        )
        .reads::<api::search::SearchParameters>()
        .leads(
            "first",
            "get_tool",
            &[
                ("registry_chain", "/results/0/registry_chain"),
                ("registry_addr", "/results/0/registry_addr"),
                ("tool_id", "/results/0/tool_id"),
            ],
        )
        .continues(NEXT),
        Operation::new(
            "get",
            tool,
            "get_tool",
            "Get all data of a tool, and why it is listed or not",
            Answered::Both(of::<Tool>),
        )
        .leads("activity", "get_tool_activity", OF_TOOL)
        .leads("report", "get_tool_report", OF_TOOL)
        .leads("evidence", "get_tool_evidence", OF_TOOL)
        .leads("history", "get_tool_history", OF_TOOL)
        .leads("can_call", "can_call_tool", OF_TOOL)
        .leads("verify", "verify_tool", OF_TOOL)
        .leads("abuse", "report_abuse", OF_TOOL),
        Operation::new(
            "get",
            "/api/v2/tools/{registry_chain}/{registry_addr}/{tool_id}/activity",
            "get_tool_activity",
            "List the proven calls of a tool",
            Answered::Json(of::<api::activity::ActivityList>),
        )
        .reads::<api::activity::ActivityParameters>(),
        Operation::new(
            "get",
            "/api/v2/tools/{registry_chain}/{registry_addr}/{tool_id}/report",
            "get_tool_report",
            "Get the report of the last verification",
            Answered::Anything,
        ),
        Operation::new(
            "get",
            "/api/v2/tools/{registry_chain}/{registry_addr}/{tool_id}/evidence",
            "get_tool_evidence",
            "Get the evidence of the last verification, which anyone can check again",
            Answered::Anything,
        ),
        Operation::new(
            "get",
            "/api/v2/tools/{registry_chain}/{registry_addr}/{tool_id}/history",
            "get_tool_history",
            "List the registry events of a tool",
            Answered::Json(of::<api::history::History>),
        )
        .reads::<api::history::HistoryParameters>()
        .continues(NEXT),
        Operation::new(
            "get",
            "/api/v2/tools/{registry_chain}/{registry_addr}/{tool_id}/can_call",
            "can_call_tool",
            "Check whether an account may call a tool, and whether a budget suffices",
            Answered::Json(of::<api::can_call::CanCall>),
        )
        .reads::<api::can_call::CanCallParameters>(),
        Operation::new(
            "post",
            "/api/v2/tools/{registry_chain}/{registry_addr}/{tool_id}/verify",
            "verify_tool",
            "Verify a tool now",
            Answered::Json(of::<api::verify::Verification>),
        )
        .refuses(&[400, 401, 404, 409, 413, 429, 500, 503]),
        Operation::new(
            "post",
            "/api/v2/tools/usage",
            "report_tool_usage",
            "Report the use of a tool",
            Answered::Json(of::<api::usage::UsageReceipt>),
        )
        .body(usage_request())
        .refuses(&[400, 401, 413, 429, 500, 503]),
        Operation::new(
            "get",
            "/api/v2/agents",
            "list_agents",
            "Search the agents of the operator's list by words and filters",
            Answered::Json(of::<api::agents::AgentList>),
        )
        .reads::<api::agents::AgentsParameters>()
        .leads("first", "get_agent", &[("domain", "/agents/0/domain")])
        .continues(NEXT),
        Operation::new(
            "get",
            "/api/v2/agents/{domain}",
            "get_agent",
            "Get all data of an agent, and why it is listed or not",
            Answered::Json(of::<Agent>),
        )
        .leads("report", "get_agent_report", &[("domain", "/domain")]),
        Operation::new(
            "get",
            "/api/v2/agents/{domain}/report",
            "get_agent_report",
            "Get the report of the last resolution of a name",
            Answered::Anything,
        ),
        accepted(
            Operation::new(
                "post",
                "/api/v2/tools/{registry_chain}/{registry_addr}/{tool_id}/abuse",
                "report_abuse",
                "Report a tool or a resource to the operator of this directory",
                Answered::Json(of::<api::abuse::AbuseReceipt>),
            )
            .body(json!({
                "type": "object", "required": ["reason"], "additionalProperties": false,
                "properties": { "reason": { "enum": api::abuse::REASONS }, "details": { "type": "string", "maxLength": 2000 } },
            }))
            .refuses(&[400, 401, 404, 413, 429, 500, 503]),
        ),
        Operation::new(
            "get",
            "/api/v2/admin/moderation",
            "list_moderation_rules",
            "List what is blocked and hidden (moderators)",
            Answered::Json(of::<api::admin::Rules>),
        )
        .refuses(ADMIN),
        Operation::new(
            "post",
            "/api/v2/admin/moderation",
            "moderate",
            "Block or hide a tool, a resource or all tools of a creator, or undo it (moderators)",
            Answered::Json(of::<api::admin::Decided>),
        )
        .body(json!({
            "type": "object", "required": ["action"], "additionalProperties": false,
            "properties": {
                "action": { "enum": ["block", "unblock", "hide", "unhide"] },
                "tool": { "type": ["string", "null"], "description": "eip155:<chain>/erc8257:<registry>/<id>, or x402_bazaar/<number>. Either this or `creator`." },
                "creator": { "type": ["string", "null"], "description": "The account whose tools are affected, including later ones." },
                "reason": { "type": "string", "maxLength": 1000, "description": "The public reason. Required to block or hide." },
                "notice": { "type": "string", "maxLength": 1000, "description": "The notice shown instead of the content." },
            },
        }))
        .refuses(&[400, 401, 403, 404, 413, 429, 500, 503]),
        Operation::new(
            "get",
            "/api/v2/admin/log",
            "list_moderation_log",
            "List all decisions, newest first (moderators)",
            Answered::Json(of::<api::admin::Log>),
        )
        .reads::<api::admin::LogParameters>()
        .refuses(ADMIN)
        .continues(&[("before", "/next")]),
        Operation::new(
            "get",
            "/api/v2/admin/reports",
            "list_abuse_reports",
            "List abuse reports, newest first (moderators)",
            Answered::Json(of::<api::admin::Reports>),
        )
        .reads::<api::admin::ReportsParameters>()
        .refuses(ADMIN)
        .leads("close", "close_abuse_report", &[("report", "/reports/0/number")])
        .continues(&[("before", "/next")]),
        Operation::new(
            "post",
            "/api/v2/admin/reports/{report}/close",
            "close_abuse_report",
            "Close an abuse report (moderators)",
            Answered::Json(of::<api::admin::Decided>),
        )
        .refuses(&[400, 401, 403, 413, 429, 500, 503]),
        created(
            Operation::new(
                "post",
                "/api/v2/auth/keys",
                "create_instant_api_key",
                "Create an API key",
                Answered::Json(of::<api::keys::InstantKey>),
            )
            .refuses(&[413, 429, 500, 503]),
        ),
        Operation::new(
            "get",
            "/api/v2/changes",
            "list_changes",
            "The change feed: a page, or a stream with Accept: text/event-stream",
            Answered::Feed(of::<api::changes::Changes>),
        )
        .reads::<api::changes::ChangesParameters>()
        .refuses(&[400, 401, 410, 429, 500, 503])
        .continues(NEXT),
        Operation::new("get", "/api/v2/stats", "get_stats", "Get counts", Answered::Json(of::<api::stats::Stats>))
            .refuses(&[401, 429, 500, 503]),
        Operation::new(
            "get",
            "/api/v2/registries",
            "list_registries",
            "List the followed registries, with code hash and progress",
            Answered::Json(of::<api::registries::Registries>),
        )
        .refuses(&[401, 429, 500, 503]),
        Operation::new(
            "get",
            "/api/v2/export",
            "export_tools",
            "Export all tools as JSON Lines",
            Answered::Lines(of::<api::export::ExportLine>),
        )
        .reads::<api::export::ExportParameters>(),
        Operation::new("get", "/health", "get_health", "Check that the process is alive", Answered::Json(of::<api::health::Alive>))
            .refuses(&[]),
        Operation::new(
            "get",
            "/ready",
            "get_ready",
            "Check that the directory is ready and up to date",
            Answered::Json(of::<api::health::Ready>),
        )
        .refuses(&[]),
        Operation::new("get", "/metrics", "get_metrics", "Get Prometheus metrics", Answered::Text).refuses(&[404]),
    ]
}

/// The error statuses of the operator's operations.
const ADMIN: &[u16] = &[400, 401, 403, 429, 500, 503];

const fn accepted(mut operation: Operation) -> Operation {
    operation.success = 202;
    operation
}

const fn created(mut operation: Operation) -> Operation {
    operation.success = 201;
    operation
}

/// The body of a usage report. Ids and amounts may be numbers or strings of decimal digits.
fn usage_request() -> Value {
    let (address, text) = (json!(Account::schema()), json!({ "type": "string" }));
    let digits = json!({ "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "string", "pattern": "^[0-9]{1,78}$" }] });
    json!({
        "type": "object",
        "required": ["verification_type"],
        "properties": {
            "verification_type": { "enum": ["eip3009_authorization", "x402_settlement"] },
            "tool_chain_id": { "type": "integer" },
            "tool_registry_address": address,
            "tool_onchain_id": digits,
            "tool_endpoint": { "type": "string", "description": "Instead of chain, registry and id. Refused if several tools have this endpoint." },
            "latency_ms": { "type": "integer", "minimum": 0 },
            "eip3009": { "type": "object", "properties": {
                "caller_address": address, "signature": text, "chain_id": { "type": "integer" }, "from": address, "to": address,
                "value": digits, "valid_after": digits, "valid_before": digits, "nonce": text,
            } },
            "x402": { "type": "object", "properties": {
                "caller_address": address, "tx_hash": text, "chain_id": { "type": "integer" },
            } },
        },
    })
}
