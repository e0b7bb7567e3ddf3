//! The `OpenAPI` document: one table of operations, and the schemas of the types that answers are made of.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::answer::ErrorBody;
use crate::api;
use crate::view::{Agent, Tool};

/// The document.
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
            "description": "Answers may grow fields. Clients of the public tools API work by base URL alone.",
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

/// Another operation that an answer leads to.
struct Link {
    name: &'static str,
    /// The id of the operation.
    to: &'static str,
    /// Where in the answer its parameters are: the name of a parameter, and a JSON pointer.
    given: &'static [(&'static str, &'static str)],
    /// Whether everything else is asked for as before. A cursor is good for the query that it came from alone.
    is_next: bool,
}

/// Where the cursor of the next page is in an answer.
const NEXT: &[(&str, &str)] = &[("cursor", "/next")];

/// Where the path of a tool is in an answer that is one.
const OF_TOOL: &[(&str, &str)] =
    &[("registry_chain", "/registry_chain"), ("registry_addr", "/registry_addr"), ("tool_id", "/tool_id")];

/// What an operation answers.
enum Answered {
    Json(fn(&mut SchemaGenerator) -> Value),
    /// JSON, or the compact form.
    Both(fn(&mut SchemaGenerator) -> Value),
    /// Lines of JSON.
    Lines(fn(&mut SchemaGenerator) -> Value),
    /// JSON of any shape.
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
                json!({ "application/x-ndjson": { "schema": { "type": "string", "description": "One object a line." }, "itemSchema": of(generator) } })
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

struct Parameter {
    name: &'static str,
    place: &'static str,
    required: bool,
    schema: Value,
    about: &'static str,
}

fn query(name: &'static str, schema: Value, about: &'static str) -> Parameter {
    Parameter { name, place: "query", required: false, schema, about }
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

impl Operation {
    fn new(method: &'static str, path: &'static str, id: &'static str, summary: &'static str, answer: Answered) -> Self {
        let parameters = if path.contains("{tool_id}") {
            tool_path()
        } else if path.contains("{domain}") {
            vec![domain_path()]
        } else {
            Vec::new()
        };
        let refusals: &[u16] = if parameters.is_empty() { &[400, 401, 429, 500, 503] } else { &[400, 401, 404, 429, 500, 503] };
        Self { method, path, id, summary, parameters, body: None, success: 200, answer, refusals, links: Vec::new() }
    }

    fn with(mut self, parameters: impl IntoIterator<Item = Parameter>) -> Self {
        self.parameters.extend(parameters);
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

    /// The answer has what another operation needs.
    fn leads(mut self, name: &'static str, to: &'static str, given: &'static [(&'static str, &'static str)]) -> Self {
        self.links.push(Link { name, to, given, is_next: false });
        self
    }

    /// The answer has the cursor of the next page.
    fn continues(mut self, given: &'static [(&'static str, &'static str)]) -> Self {
        self.links.push(Link { name: "next", to: self.id, given, is_next: true });
        self
    }

    /// The parameters of a link, as runtime expressions.
    fn link(&self, link: &Link, operations: &[Self]) -> Value {
        let target = operations.iter().find(|operation| operation.id == link.to);
        let declared = |name: &str| {
            target.and_then(|target| target.parameters.iter().find(|parameter| parameter.name == name)).map(|found| found.place)
        };
        let mut parameters = Map::new();
        for (name, pointer) in link.given {
            // A name without its place is that of a path parameter.
            let place = declared(name).filter(|place| *place != "path").map(|place| format!("{place}.")).unwrap_or_default();
            parameters.insert(format!("{place}{name}"), format!("$response.body#{pointer}").into());
        }
        if link.is_next {
            let others = self.parameters.iter().filter(|parameter| !link.given.iter().any(|(name, _)| *name == parameter.name));
            parameters.extend(others.map(|parameter| {
                let (name, place) = (parameter.name, parameter.place);
                let key = if place == "path" { name.to_owned() } else { format!("{place}.{name}") };
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
            queued["description"] = "Queued: the report will be at Location.".into();
            responses.insert("202".to_owned(), queued);
        }
        // Parts of a tool are not shown while the operator blocks it; the tool itself says so, and a report about it is taken.
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
            let one = |parameter: &Parameter| {
                json!({
                    "name": parameter.name,
                    "in": parameter.place,
                    "required": parameter.required,
                    "description": parameter.about,
                    "schema": parameter.schema,
                })
            };
            value["parameters"] = self.parameters.iter().map(one).collect();
        }
        if let Some(body) = &self.body {
            value["requestBody"] = json!({ "required": true, "content": { "application/json": { "schema": body } } });
        }
        value
    }
}

const fn reason(status: u16) -> &'static str {
    match status {
        400 => "A parameter or the body cannot be read.",
        401 => {
            "This directory needs a key (directory.key_missing), or the key is unknown, revoked or expired (directory.key_unknown)."
        }
        404 => "There is no such tool or agent.",
        405 => "The address does not take that method.",
        403 => "The key may not moderate.",
        451 => "The operator blocked the tool: the message is the notice.",
        409 => "The tool is deregistered.",
        410 => {
            "The changes after this cursor are no longer kept (index.forgotten), or the cursor is beyond the last change \
             (index.cursor_ahead): read everything again, then go on from `cursor` of this answer."
        }
        413 => "The body is too large.",
        429 => "Too many requests: see Retry-After.",
        503 => {
            "It cannot be told at the moment: see Retry-After. Search answers so with the code index.not_ready until its words are built. \
             Without Retry-After this directory runs without that part."
        }
        _ => "A fault of the directory.",
    }
}

fn tool_path() -> Vec<Parameter> {
    let path = |name, schema, about| Parameter { name, place: "path", required: true, schema, about };
    vec![
        path(
            "registry_chain",
            json!({ "type": "string", "pattern": "^(0|[1-9][0-9]{0,18})$" }),
            "The number of the registry's chain.",
        ),
        path(
            "registry_addr",
            json!({ "type": "string", "pattern": "^(0x[0-9a-fA-F]{40}|x402_bazaar)$" }),
            "The registry, or x402_bazaar for a resource that a facilitator lists.",
        ),
        path("tool_id", json!({ "type": "string", "pattern": "^[1-9][0-9]{0,77}$" }), "The tool's id, in decimal digits."),
    ]
}

fn domain_path() -> Parameter {
    let about = "A .agt name, in any spelling that people use.";
    Parameter { name: "domain", place: "path", required: true, schema: json!({ "type": "string", "maxLength": 1024 }), about }
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn flag(default: bool) -> Value {
    json!({ "type": "boolean", "default": default })
}

fn number(least: i64, most: i64, default: i64) -> Value {
    json!({ "type": "integer", "minimum": least, "maximum": most, "default": default })
}

fn words(words: &[&str]) -> Value {
    json!({ "type": "string", "enum": words })
}

fn address() -> Value {
    json!({ "type": "string", "pattern": "^0x[0-9a-fA-F]{40}$" })
}

fn id() -> Value {
    json!({ "type": "string", "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$", "maxLength": 64 })
}

fn price() -> Value {
    json!({ "type": "string", "pattern": "^(0|[1-9][0-9]{0,11})(\\.[0-9]{1,6})?$" })
}

const ACCESS: [&str; 5] = ["open", "nft_gated", "token_gated", "subscription", "gated"];
const SOURCES: [&str; 3] = ["onchain", "x402_bazaar", "x402_bankr"];

fn limit() -> Parameter {
    query("limit", number(1, 200, 20), "Entries of a page.")
}

fn cursor() -> Parameter {
    query("cursor", text(), "Where to go on: `next` of the page before.")
}

fn unverified() -> Parameter {
    query("include_unverified", flag(false), "Also tools that are not verified and conformant: for people, not for agents.")
}

/// Every operation.
fn operations() -> Vec<Operation> {
    let tool = "/api/v2/tools/{registry_chain}/{registry_addr}/{tool_id}";
    vec![
        Operation::new(
            "get",
            "/api/v2/tools",
            "list_tools",
            "Tools by the time of their registration",
            Answered::Both(of::<api::tools::ToolList>),
        )
        .with([
            query("sort_by", words(&["newest", "oldest"]), "The order; newest first unless said otherwise."),
            query("type", words(&ACCESS), "Only tools with this kind of access."),
            query("source", words(&SOURCES), "Only tools from this source. Without it registered tools, and with include_unverified resources of the x402 Bazaar too."),
            query("creator", address(), "Only tools of this creator."),
            unverified(),
            limit(),
            cursor(),
        ])
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
            "Tools by words and filters",
            Answered::Both(of::<api::search::SearchResults>),
        )
        .with([
            query("query", json!({ "type": "string", "maxLength": 1000 }), "Words, in any order and with mistakes."),
            query("registry_chain", text(), "Only tools on this chain, by number or name."),
            query("tags", json!({ "type": "array", "items": text(), "maxItems": 16 }), "Only tools with all of these tags."),
            query("access_type", words(&ACCESS), "Only tools with this kind of access."),
            query("creator", address(), "Only tools of this creator."),
            query("source", words(&SOURCES), "Only tools from this source. Resources of x402_bazaar are never verified."),
            query(
                "collection",
                json!({ "type": "string", "maxLength": 300 }),
                "Only tools gated by this collection, by address or by its name in small letters and hyphens.",
            ),
            query("min_price", price(), "Only tools that cost at least so many dollars a call."),
            query("max_price", price(), "Only tools that cost at most so many dollars a call."),
            query("asset", json!({ "type": "string", "maxLength": 300 }), "Only tools that take this asset, as CAIP-19."),
            query("protocol", json!({ "type": "string", "maxLength": 300 }), "Only tools that are paid by this protocol."),
            query(
                "tier",
                words(&["self-attested", "hardware-attested", "verifiable"]),
                "Only tools of at least this trust tier.",
            ),
            query("origin", json!({ "type": "string", "maxLength": 300 }), "Only tools at this origin."),
            query(
                "callable_by",
                address(),
                "Only tools that this account may use. At most 200 candidates are looked at; `partial` says when there are more.",
            ),
            query("sort_by", words(&["relevance", "newest", "most_used"]), "The order; relevance unless said otherwise."),
            query("include_details", flag(true), "With prices and requirements."),
            query("facets", flag(false), "With counts by tag, chain, access, tier and protocol."),
            query("explain", flag(false), "With how each score came about."),
            unverified(),
            limit(),
            cursor(),
        ])
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
            "Everything about a tool, and why it is shown or not",
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
            "Calls that were proven",
            Answered::Json(of::<api::activity::ActivityList>),
        )
        .with([
            query("include_creator_payments", flag(false), "Also what the tool's owner paid himself."),
            query("limit", number(1, 100, 25), "Calls of a page."),
            query("offset", number(0, 100_000, 0), "Where to begin."),
        ]),
        Operation::new(
            "get",
            "/api/v2/tools/{registry_chain}/{registry_addr}/{tool_id}/report",
            "get_tool_report",
            "What the last look concluded",
            Answered::Anything,
        ),
        Operation::new(
            "get",
            "/api/v2/tools/{registry_chain}/{registry_addr}/{tool_id}/evidence",
            "get_tool_evidence",
            "What the last look saw, to be judged again by anybody",
            Answered::Anything,
        ),
        Operation::new(
            "get",
            "/api/v2/tools/{registry_chain}/{registry_addr}/{tool_id}/history",
            "get_tool_history",
            "What the registry said about a tool",
            Answered::Json(of::<api::history::History>),
        )
        .with([query("limit", number(1, 200, 100), "Events of a page."), cursor()])
        .continues(NEXT),
        Operation::new(
            "get",
            "/api/v2/tools/{registry_chain}/{registry_addr}/{tool_id}/can_call",
            "can_call_tool",
            "Whether an account may use a tool, and whether a budget is enough",
            Answered::Json(of::<api::can_call::CanCall>),
        )
        .with([
            Parameter {
                name: "wallet",
                place: "query",
                required: true,
                schema: address(),
                about: "The account that would call.",
            },
            query("budget", price(), "Dollars that a call may cost."),
        ]),
        Operation::new(
            "post",
            "/api/v2/tools/{registry_chain}/{registry_addr}/{tool_id}/verify",
            "verify_tool",
            "Another look at a tool, now",
            Answered::Json(of::<api::verify::Verification>),
        )
        .refuses(&[400, 401, 404, 409, 413, 429, 500, 503]),
        Operation::new(
            "post",
            "/api/v2/tools/usage",
            "report_tool_usage",
            "What a tool says about a call",
            Answered::Json(of::<api::usage::UsageReceipt>),
        )
        .body(usage_request())
        .refuses(&[400, 401, 413, 429, 500, 503]),
        Operation::new(
            "get",
            "/api/v2/agents",
            "list_agents",
            "Agents of the operator's list, by words and filters",
            Answered::Json(of::<api::agents::AgentList>),
        )
        .with([
            query(
                "q",
                json!({ "type": "string", "maxLength": 300 }),
                "Words of the name, the domain or the description, all of them.",
            ),
            query("capability", id(), "Only agents with this capability."),
            query("protocol", id(), "Only agents that speak this protocol."),
            query("pricing", words(&["free", "freemium", "paid", "contact"]), "Only agents that charge in this way."),
            query("max_price", price(), "Only agents that are free or cost at most so much in `currency`, whatever the unit."),
            query(
                "currency",
                json!({ "type": "string", "maxLength": 64 }),
                "The currency of max_price, which needs it. Nothing is converted.",
            ),
            query(
                "verified",
                flag(true),
                "`false` also gives agents that are not verified and conformant: for people, not for agents.",
            ),
            limit(),
            cursor(),
        ])
        .leads("first", "get_agent", &[("domain", "/agents/0/domain")])
        .continues(NEXT),
        Operation::new(
            "get",
            "/api/v2/agents/{domain}",
            "get_agent",
            "Everything about an agent, and why it is shown or not",
            Answered::Json(of::<Agent>),
        )
        .leads("report", "get_agent_report", &[("domain", "/domain")]),
        Operation::new(
            "get",
            "/api/v2/agents/{domain}/report",
            "get_agent_report",
            "What the last resolution of a name concluded",
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
            "What is blocked and hidden. For keys that may moderate",
            Answered::Json(of::<api::admin::Rules>),
        )
        .refuses(ADMIN),
        Operation::new(
            "post",
            "/api/v2/admin/moderation",
            "moderate",
            "Block or hide a tool, a resource or all tools of a creator, or undo it. For keys that may moderate",
            Answered::Json(of::<api::admin::Decided>),
        )
        .body(json!({
            "type": "object", "required": ["action"], "additionalProperties": false,
            "properties": {
                "action": { "enum": ["block", "unblock", "hide", "unhide"] },
                "tool": { "type": ["string", "null"], "description": "eip155:<chain>/erc8257:<registry>/<id>, or x402_bazaar/<number>. This or a creator." },
                "creator": { "type": ["string", "null"], "description": "The account whose tools are meant, those that come later included." },
                "reason": { "type": "string", "maxLength": 1000, "description": "Why, for the public. Needed to block or hide." },
                "notice": { "type": "string", "maxLength": 1000, "description": "What is shown in place of the content." },
            },
        }))
        .refuses(&[400, 401, 403, 404, 413, 429, 500, 503]),
        Operation::new(
            "get",
            "/api/v2/admin/log",
            "list_moderation_log",
            "Every decision, the newest first. For keys that may moderate",
            Answered::Json(of::<api::admin::Log>),
        )
        .with([before(), query("limit", number(1, 200, 50), "Entries of a page.")])
        .refuses(ADMIN)
        .continues(&[("before", "/next")]),
        Operation::new(
            "get",
            "/api/v2/admin/reports",
            "list_abuse_reports",
            "Reports of abuse, the newest first. For keys that may moderate",
            Answered::Json(of::<api::admin::Reports>),
        )
        .with([
            query("state", words(&["open", "closed"]), "Open ones unless said otherwise."),
            before(),
            query("limit", number(1, 200, 50), "Reports of a page."),
        ])
        .refuses(ADMIN)
        .leads("close", "close_abuse_report", &[("report", "/reports/0/number")])
        .continues(&[("before", "/next")]),
        Operation::new(
            "post",
            "/api/v2/admin/reports/{report}/close",
            "close_abuse_report",
            "Close a report. For keys that may moderate",
            Answered::Json(of::<api::admin::Decided>),
        )
        .with([Parameter {
            name: "report",
            place: "path",
            required: true,
            schema: json!({ "type": "integer", "minimum": 1, "maximum": i64::MAX }),
            about: "The number of the report.",
        }])
        .refuses(&[400, 401, 403, 413, 429, 500, 503]),
        created(
            Operation::new(
                "post",
                "/api/v2/auth/keys",
                "create_instant_api_key",
                "A key",
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
        .with([
            query(
                "cursor",
                json!({ "type": "integer", "minimum": 0, "maximum": i64::MAX }),
                "The number of the last change that was seen.",
            ),
            query("limit", number(1, 1000, 100), "Changes of a page."),
        ])
        .refuses(&[400, 401, 410, 429, 500, 503])
        .continues(NEXT),
        Operation::new("get", "/api/v2/stats", "get_stats", "Counts of everything", Answered::Json(of::<api::stats::Stats>))
            .refuses(&[401, 429, 500, 503]),
        Operation::new(
            "get",
            "/api/v2/registries",
            "list_registries",
            "Registries that are followed, their code, and how far",
            Answered::Json(of::<api::registries::Registries>),
        )
        .refuses(&[401, 429, 500, 503]),
        Operation::new(
            "get",
            "/api/v2/export",
            "export_tools",
            "All tools as lines of JSON",
            Answered::Lines(of::<api::export::ExportLine>),
        )
        .with([query("cursor", text(), "Where to go on: `cursor` of the last line that was read."), unverified()]),
        Operation::new("get", "/health", "get_health", "Whether the process lives", Answered::Json(of::<api::health::Alive>))
            .refuses(&[]),
        Operation::new(
            "get",
            "/ready",
            "get_ready",
            "Whether answers are right and new",
            Answered::Json(of::<api::health::Ready>),
        )
        .refuses(&[]),
        Operation::new("get", "/metrics", "get_metrics", "Counts for Prometheus", Answered::Text).refuses(&[404]),
    ]
}

/// What operations of the operator refuse.
const ADMIN: &[u16] = &[400, 401, 403, 429, 500, 503];

fn before() -> Parameter {
    query(
        "before",
        json!({ "type": "integer", "minimum": 1, "maximum": i64::MAX }),
        "Only those below this number: `next` of the page before.",
    )
}

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
    let digits = json!({ "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "string", "pattern": "^[0-9]{1,78}$" }] });
    json!({
        "type": "object",
        "required": ["verification_type"],
        "properties": {
            "verification_type": { "enum": ["eip3009_authorization", "x402_settlement"] },
            "tool_chain_id": { "type": "integer" },
            "tool_registry_address": address(),
            "tool_onchain_id": digits,
            "tool_endpoint": { "type": "string", "description": "Instead of chain, registry and id. Refused where several tools have it." },
            "latency_ms": { "type": "integer", "minimum": 0 },
            "eip3009": { "type": "object", "properties": {
                "caller_address": address(), "signature": text(), "chain_id": { "type": "integer" }, "from": address(), "to": address(),
                "value": digits, "valid_after": digits, "valid_before": digits, "nonce": text(),
            } },
            "x402": { "type": "object", "properties": {
                "caller_address": address(), "tx_hash": text(), "chain_id": { "type": "integer" },
            } },
        },
    })
}
