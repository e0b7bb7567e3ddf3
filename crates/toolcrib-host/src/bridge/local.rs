//! Local tools over MCP: each function as a tool, or three tools that find and call functions if there are many.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value as Json, json};
use tokio::sync::{mpsc, watch};
use toolcrib_core::codes::{host as host_code, mcp as code};
use toolcrib_core::local::Effects;
use toolcrib_core::near;
use toolcrib_mcp::{Asker, Effect, Prompt, PromptResponse, Reply, Returned, Stop, ToolError, ToolSpec};

use super::approvals::Approvals;
use crate::local::export::restored;
use crate::local::permissions::Lifetime;
use crate::local::{Approval, ApprovalPrompt, Bound, CallError, CallRequest, Event, Events, Host, LoadedTool, ToolSet};

/// Most functions that are listed as tools. With more than about forty tools, clients choose badly or refuse them.
pub const MAX_LISTED: usize = 40;

/// Most functions that a search returns.
const MAX_FOUND: usize = 20;

/// Events that are buffered for a client that reads slowly.
const WAITING_EVENTS: usize = 64;

/// The tools that replace the functions in the list if there are many.
const SEARCH: &str = "search_functions";
const DESCRIBE: &str = "describe_function";
const CALL: &str = "call_function";

/// The answers that a user can choose.
const DENY: &str = "deny";
const ALLOW_ONCE: &str = "allow once";
const ALLOW_SESSION: &str = "allow for this session";
const ALLOW_ALWAYS: &str = "always allow";

/// Local tools behind an MCP server.
pub struct LocalTools {
    host: Arc<Host>,
    approvals: Approvals<Bound>,
}

impl std::fmt::Debug for LocalTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalTools").field("host", &self.host).finish_non_exhaustive()
    }
}

impl LocalTools {
    /// Creates the tools of a host.
    pub fn new(host: Arc<Host>) -> Self {
        Self { host, approvals: Approvals::default() }
    }

    /// The host.
    pub const fn host(&self) -> &Arc<Host> {
        &self.host
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.host.changes()
    }

    /// Texts for models from the authors of tools.
    pub(super) fn prompts(&self) -> String {
        let tools = self.host.tools();
        let prompts = self.ready(&tools).filter_map(|tool| Some(format!("\n\nTool {}:\n{}", tool.id(), tool.prompt()?.trim())));
        prompts.collect()
    }

    /// The tools to list.
    pub(super) fn specs(&self) -> Vec<ToolSpec> {
        let tools = self.host.tools();
        let count: usize = self.ready(&tools).map(|tool| tool.functions().len()).sum();
        if count > MAX_LISTED {
            return meta_tools(count);
        }
        self.ready(&tools).flat_map(|tool| specs(tool, self.host.unsandboxed(tool))).collect()
    }

    /// Tools that are enabled and whose required credentials are set. Models do not see the others.
    fn ready<'t>(&'t self, tools: &'t ToolSet) -> impl Iterator<Item = &'t Arc<LoadedTool>> {
        tools.tools().values().filter(|tool| self.is_shown(tool))
    }

    fn is_shown(&self, tool: &LoadedTool) -> bool {
        self.host.is_enabled(tool) && self.host.is_ready(tool)
    }

    /// Finds the tool and the function that a model names in an argument. Hidden tools are reported as unknown.
    fn named<'t>(&self, tools: &'t ToolSet, name: &str) -> Result<(&'t Arc<LoadedTool>, &'t str), ToolError> {
        tools.exposed(name).filter(|(tool, _)| self.is_shown(tool)).ok_or_else(|| self.unknown(tools, name))
    }

    /// Whether this is the name of a local tool.
    pub(super) fn knows(&self, name: &str) -> bool {
        [SEARCH, DESCRIBE, CALL].contains(&name) || self.host.tools().exposed(name).is_some()
    }

    /// The arguments of a function without the nulls that stand for absent parameters in strict mode.
    pub(super) fn restored(&self, name: &str, arguments: &Json) -> Option<Json> {
        let tools = self.host.tools();
        let (tool, function) = tools.exposed(name)?;
        restored(tool.functions().get(function)?.parameters(), arguments)
    }

    /// Runs one of the tools.
    pub(super) async fn call(&self, name: &str, mut arguments: Map<String, Json>, asker: &Asker) -> Result<Reply, Stop> {
        let text =
            |key: &str, arguments: &Map<String, Json>| arguments.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
        match name {
            SEARCH => Ok(self.search(&text("query", &arguments))),
            DESCRIBE => self.describe(&text("name", &arguments)),
            CALL => {
                let name = text("name", &arguments);
                let arguments = arguments.remove("arguments").unwrap_or_else(|| json!({}));
                self.named(&self.host.tools(), &name)?;
                self.run(&name, arguments, asker).await
            }
            _ => self.run(name, Json::Object(arguments), asker).await,
        }
    }

    async fn run(&self, name: &str, arguments: Json, asker: &Asker) -> Result<Reply, Stop> {
        let tools = self.host.tools();
        let Some((tool, function)) = tools.exposed(name) else { return Err(self.unknown(&tools, name).into()) };
        let (sender, receiver) = mpsc::channel(WAITING_EVENTS);
        let request = |approval| CallRequest {
            tool: tool.id(),
            function,
            arguments: arguments.clone(),
            caller: "mcp",
            interactive: asker.can_ask(),
            approval,
            limit: None,
            events: Events::new(sender.clone()),
        };
        let called = async {
            let approval = self.returned(asker)?;
            match self.host.call(request(approval)).await {
                Err(CallError::NeedsApproval(prompt)) => {
                    let approval = self.ask(&prompt, asker).await?;
                    self.host.call(request(Some(approval))).await.map_err(|error| Stop::from(fault(&error)))
                }
                other => other.map_err(|error| Stop::from(fault(&error))),
            }
        };
        let mut relay = std::pin::pin!(relay(receiver, asker));
        let result = tokio::select! {
            result = called => result,
            () = &mut relay => return Err(ToolError::new(code::INTERNAL).into()),
        };
        // The program's last events are sent before its result. The relay ends when the last sender is dropped.
        drop(sender);
        relay.await;
        let result = result?;
        Ok(Reply { text: result.result.text, structured: result.result.structured })
    }

    /// The user's answer that this request carries, in the newer era of the protocol.
    fn returned(&self, asker: &Asker) -> Result<Option<Approval>, Stop> {
        let Some(Returned { answer, state }) = asker.returned() else { return Ok(None) };
        let bound = self.approvals.take_bound(state, asker.caller(), self.host.clock().now())?;
        let Some(lifetime) = lifetime(answer) else { return Err(self.declined(&bound)) };
        Ok(Some(Approval { lifetime, bound }))
    }

    /// Asks the user.
    async fn ask(&self, prompt: &ApprovalPrompt, asker: &Asker) -> Result<Approval, Stop> {
        self.host.check_credentials(&prompt.bound.tool).map_err(|error| Stop::from(fault(&error)))?;
        let id = self.approvals.open(prompt.bound.clone(), *asker.caller(), self.host.clock().now())?;
        let Returned { answer, state } = asker.ask(question(prompt, id.0.to_vec())).await?;
        let bound = self.approvals.take_bound(&state, asker.caller(), self.host.clock().now())?;
        let Some(lifetime) = lifetime(&answer) else { return Err(self.declined(&bound)) };
        Ok(Approval { lifetime, bound })
    }

    /// Records that the user refused a call. Returns the error for the model.
    fn declined(&self, bound: &Bound) -> Stop {
        if let Err(error) = self.host.refused(bound, "mcp") {
            tracing::error!(%error, "refusal not recorded");
        }
        ToolError::new(host_code::DECLINED).into()
    }

    fn search(&self, query: &str) -> Reply {
        let tools = self.host.tools();
        let words: Vec<_> = query.to_lowercase().split_whitespace().map(str::to_owned).collect();
        let mut found: BTreeMap<(std::cmp::Reverse<usize>, String), Json> = BTreeMap::new();
        for tool in self.ready(&tools) {
            let unsandboxed = self.host.unsandboxed(tool);
            for (name, function) in tool.functions() {
                let description = tool.manifest().function(name).map_or("", |function| function.description());
                let text = format!("{} {} {description}", function.exposed(), tool.manifest().name()).to_lowercase();
                let score = words.iter().filter(|word| text.contains(word.as_str())).count();
                if score > 0 || words.is_empty() {
                    let row = json!({ "name": function.exposed(), "description": description });
                    let row = with_sandbox(row, unsandboxed.as_deref());
                    found.insert((std::cmp::Reverse(score), function.exposed().to_owned()), row);
                }
            }
        }
        Reply::data(json!({ "functions": found.into_values().take(MAX_FOUND).collect::<Vec<_>>() }))
    }

    fn describe(&self, name: &str) -> Result<Reply, Stop> {
        let tools = self.host.tools();
        let (tool, function) = self.named(&tools, name)?;
        let description = tool.manifest().function(function).map_or("", |function| function.description());
        let loaded = &tool.functions()[function];
        let described =
            json!({ "name": name, "description": description, "parameters": loaded.parameters(), "outputs": loaded.outputs() });
        Ok(Reply::data(with_sandbox(described, self.host.unsandboxed(tool).as_deref())))
    }

    fn unknown(&self, tools: &ToolSet, name: &str) -> ToolError {
        let names = self.ready(tools).flat_map(|tool| tool.functions().values().map(|function| function.exposed()));
        let hint = near::nearest(name, names).map(|near| format!("; is {near} meant?")).unwrap_or_default();
        ToolError::new(host_code::TOOL_UNKNOWN).message(format!("there is no function {name:?}{hint}"))
    }
}

/// The functions of a tool. `unsandboxed` says that the tool has no sandbox: it is added to titles for users, and to descriptions for
/// models.
fn specs(tool: &LoadedTool, unsandboxed: Option<String>) -> impl Iterator<Item = ToolSpec> {
    tool.manifest().functions().iter().filter_map(move |function| {
        let title = format!("{}: {}", tool.manifest().name(), function.name());
        let description = function.description();
        let (title, description) = match &unsandboxed {
            Some(what) => (format!("{title} (UNSANDBOXED)"), format!("{description}\n\n{what}.")),
            None => (title, description.to_owned()),
        };
        let loaded = tool.functions().get(function.name())?;
        let is_object = |schema: &&Json| schema.get("type").and_then(Json::as_str) == Some("object");
        Some(ToolSpec {
            name: loaded.exposed().to_owned(),
            title,
            description,
            input: loaded.parameters().clone(),
            output: loaded.outputs().filter(is_object).cloned(),
            effect: effect(function.effects()),
        })
    })
}

/// Adds a note to a function whose tool has no sandbox.
fn with_sandbox(mut row: Json, unsandboxed: Option<&str>) -> Json {
    if let Some(what) = unsandboxed {
        row["sandbox"] = what.into();
    }
    row
}

/// The effect that the author declares; the worst case for what is not declared.
fn effect(effects: Effects) -> Effect {
    let read_only = effects.read_only.unwrap_or(false);
    Effect::Claimed {
        read_only,
        destructive: effects.destructive.unwrap_or(!read_only),
        idempotent: effects.idempotent.unwrap_or(false),
        open_world: effects.open_world.unwrap_or(true),
    }
}

fn meta_tools(count: usize) -> Vec<ToolSpec> {
    let name = json!({ "type": "string", "maxLength": 128, "description": "The name of the function." });
    let tool = |tool: &str, title: &str, description: String, properties: Json, required: Json, effect| ToolSpec {
        name: tool.to_owned(),
        title: title.to_owned(),
        description,
        input: json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false }),
        output: None,
        effect,
    };
    vec![
        tool(
            SEARCH,
            "Search functions",
            format!("Finds functions of the {count} on the user's machine by words of their names and descriptions."),
            json!({ "query": { "type": "string", "maxLength": 500, "description": "Words. Empty for all." } }),
            json!(["query"]),
            Effect::Reads,
        ),
        tool(
            DESCRIBE,
            "Describe a function",
            "Returns the JSON Schema of a function's arguments.".to_owned(),
            json!({ "name": name }),
            json!(["name"]),
            Effect::Reads,
        ),
        tool(
            CALL,
            "Call a function",
            "Calls a function. Describe it first. The user may be asked.".to_owned(),
            json!({ "name": name, "arguments": { "type": "object", "description": "As the schema of the function says." } }),
            json!(["name", "arguments"]),
            Effect::Acts,
        ),
    ]
}

/// Forwards events to the client, until all senders are dropped.
async fn relay(mut events: mpsc::Receiver<Event>, asker: &Asker) {
    while let Some(event) = events.recv().await {
        if let (Event::Progress { progress, total, message }, Some(client)) = (event, asker.progress()) {
            client.report(progress, total, message).await;
        }
    }
}

fn question(prompt: &ApprovalPrompt, state: Vec<u8>) -> Prompt {
    let form = json!({
        "type": "object",
        "properties": {
            "decision": {
                "type": "string",
                "title": "Decision",
                "description": "Allow this call, this function until the server stops, or this function of this version of the tool always",
                "enum": [DENY, ALLOW_ONCE, ALLOW_SESSION, ALLOW_ALWAYS],
                "default": DENY,
            },
        },
        "required": ["decision"],
    });
    Prompt { name: "approval", message: prompt.text(), form, state }
}

/// The lifetime that the user chose; `None` means no.
fn lifetime(answer: &PromptResponse) -> Option<Lifetime> {
    let PromptResponse::Accepted(content) = answer else { return None };
    match content.get("decision").and_then(Json::as_str)? {
        ALLOW_ONCE => Some(Lifetime::Once),
        ALLOW_SESSION => Some(Lifetime::Session),
        ALLOW_ALWAYS => Some(Lifetime::Always),
        _ => None,
    }
}

fn fault(error: &CallError) -> ToolError {
    let fault = ToolError::new(error.code()).message(error.to_string());
    match error {
        CallError::Arguments { violations } => fault.details(json!({ "violations": violations })),
        CallError::Run(error) => fault.details(json!({ "retryable": error.retryable })),
        _ => fault,
    }
}
