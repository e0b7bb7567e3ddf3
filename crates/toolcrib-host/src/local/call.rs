//! One call: arguments, permission, credentials, program, result, record.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{B256, hex};
use serde_json::Value as Json;
use tokio::time::Instant;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::local::{Credential, NetworkRequest, Runtime as RuntimeBlock, RuntimeKind};
use toolcrib_core::text::escape_for_display;
use toolcrib_mcp::value_hash;

use super::arguments;
use super::audit::{AuditError, Event as AuditEvent, Record};
use super::content::ContentHash;
use super::folder::{LoadedFunction, LoadedTool};
use super::host::Host;
use super::permissions::{Decision, Definition, Grant, Lifetime, PermissionError, Request as PermissionRequest, Verdict};
use super::result::ModelResult;
use super::runtime::{Events, Invocation, RunError};
use super::secrets::{Lookup, Redactor, Secret};

/// The time limit of a call unless function or tool say otherwise.
pub const DEFAULT_LIMIT: Duration = Duration::from_secs(30);

/// Most characters of the arguments that are shown in a prompt. The rest is bound by its hash.
const SHOWN_CHARS: usize = 1_500;

/// A call of a function.
#[derive(Debug)]
pub struct CallRequest<'a> {
    /// The id of the tool.
    pub tool: &'a str,
    /// The name of the function.
    pub function: &'a str,
    /// The arguments.
    pub arguments: Json,
    /// What the call comes from, for the audit log: `cli`, `mcp`, `page` or `gate`.
    pub caller: &'static str,
    /// Whether a person can be asked. Without one, only what is allowed by a rule runs.
    pub interactive: bool,
    /// What a person answered when an earlier try gave [`CallError::NeedsApproval`].
    pub approval: Option<Approval>,
    /// The time limit of the caller.
    pub limit: Option<Duration>,
    /// Where progress and log lines go.
    pub events: Events,
}

/// The answer of a person.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval {
    /// For how long it holds.
    pub lifetime: Lifetime,
    /// What it is for.
    pub bound: Bound,
}

/// What an approval is for, to the last byte of tool and arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The id of the tool.
    pub tool: String,
    /// The name of the function.
    pub function: String,
    /// The content of the tool.
    pub content: ContentHash,
    /// The hash of the arguments.
    pub arguments: B256,
}

/// What a person has to know to allow or refuse a call.
#[derive(Clone, Debug)]
pub struct ApprovalPrompt {
    /// What the answer is for.
    pub bound: Bound,
    /// The version that the manifest states.
    pub version: String,
    /// Why a person is asked.
    pub reason: String,
    /// What changed since the function was approved, if it was.
    pub changed: Option<String>,
    /// The arguments as JSON.
    pub arguments: String,
    /// The names of credentials that the program gets.
    pub credentials: Vec<String>,
    /// What the program may reach.
    pub access: String,
    /// How the program is contained.
    pub sandbox: String,
}

impl ApprovalPrompt {
    /// The prompt as text, all of it escaped. Of the author's prose it has only descriptions that changed, in quotation marks.
    pub fn text(&self) -> String {
        let shown = match self.arguments.char_indices().nth(SHOWN_CHARS) {
            Some((end, _)) => format!("{} … (cut; {} bytes in all)", &self.arguments[..end], self.arguments.len()),
            None => self.arguments.clone(),
        };
        let credentials = match self.credentials.as_slice() {
            [] => "none".to_owned(),
            names => names.join(", "),
        };
        format!(
            "Run this local tool?\n\nTool: {} {}\nFunction: {}\nArguments: {}\nCredentials given to it: {}\nMay reach: {}\nSandbox: {}\n\
             Content: {}\nAsked because: {}{}",
            self.bound.tool,
            escape_for_display(&self.version),
            self.bound.function,
            escape_for_display(&shown),
            credentials,
            escape_for_display(&self.access),
            self.sandbox,
            self.bound.content,
            self.reason,
            self.changed.as_ref().map_or_else(String::new, |changed| format!("\nChanged: {}", escape_for_display(changed))),
        )
    }
}

/// The result of a call.
#[derive(Clone, Debug)]
pub struct CallResult {
    /// What the tool returned, without secrets.
    pub result: ModelResult,
    /// The whole value, without secrets.
    pub value: Json,
    /// How long it took.
    pub duration: Duration,
    /// How the program was contained.
    pub sandbox: String,
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// There is no such function.
    #[error("there is no function {function:?} of a tool {tool:?}")]
    Unknown {
        /// The id that was asked for.
        tool: String,
        /// The name that was asked for.
        function: String,
    },
    /// The arguments do not fit.
    #[error("the arguments do not fit the parameters: {}", .violations.join("; "))]
    Arguments {
        /// What is wrong, a line each.
        violations: Vec<String>,
    },
    /// A person has to allow it.
    #[error("a person has to allow this call")]
    NeedsApproval(Box<ApprovalPrompt>),
    /// It is not allowed.
    #[error("the call is not allowed: {reason}")]
    Denied {
        /// Why.
        reason: String,
    },
    /// A required credential is not set, or not for this version of the tool.
    #[error("the credential {name:?} of {tool:?} is not set{}", if *.is_bound_to_other { " for this version of the tool" } else { "" })]
    CredentialMissing {
        /// The tool.
        tool: String,
        /// The credential.
        name: String,
        /// Whether there is one for another version of the tool.
        is_bound_to_other: bool,
    },
    /// The program failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Permissions, secrets, audit log or result folder cannot be used.
    #[error("{message}")]
    State {
        /// The code.
        code: Code,
        /// What happened.
        message: String,
    },
}

impl CallError {
    /// The code of the vocabulary.
    pub const fn code(&self) -> Code {
        match self {
            Self::Unknown { .. } => codes::host::TOOL_UNKNOWN,
            Self::Arguments { .. } => codes::host::ARGUMENTS_INVALID,
            Self::NeedsApproval(_) | Self::Denied { .. } => codes::host::DECLINED,
            Self::CredentialMissing { .. } => codes::host::CREDENTIAL_MISSING,
            Self::Run(error) => error.code,
            Self::State { code, .. } => *code,
        }
    }
}

impl Host {
    /// Calls a function. Dropping the future ends the call and every process of it.
    ///
    /// The tool that is called is the one of the current set when the call begins, to its end.
    pub async fn call(&self, request: CallRequest<'_>) -> Result<CallResult, CallError> {
        let tools = self.tools();
        let Some((tool, function)) = tools.function(request.tool, request.function) else {
            return Err(CallError::Unknown { tool: request.tool.to_owned(), function: request.function.to_owned() });
        };
        arguments::check(&request.arguments, function.parameters(), function.validator())
            .map_err(|violations| CallError::Arguments { violations })?;
        let bound = Bound {
            tool: tool.id().to_owned(),
            function: request.function.to_owned(),
            content: tool.content(),
            arguments: value_hash(&request.arguments),
        };
        let decision = self.permit(tool, &request, &bound)?;
        let credentials = self.credentials(tool)?;
        let call = Pending { tool, function, bound, call_id: call_id()?, credentials, decision };
        self.run(call, request).await
    }

    /// Whether no rule denies every call of a tool. Rules that cannot be read deny everything.
    pub fn is_enabled(&self, tool: &LoadedTool) -> bool {
        !self.permissions().is_disabled(tool.id()).unwrap_or(true)
    }

    /// Whether every required credential of a tool is set for its current content.
    pub fn is_ready(&self, tool: &LoadedTool) -> bool {
        self.credentials(tool).is_ok()
    }

    /// Holds the call against the permissions, and uses the answer of a person where one is needed. Returns what to record.
    fn permit(&self, tool: &LoadedTool, request: &CallRequest<'_>, bound: &Bound) -> Result<Record, CallError> {
        let asked = PermissionRequest {
            tool: tool.id(),
            function: request.function,
            content: tool.content(),
            arguments: &request.arguments,
            interactive: request.interactive,
        };
        let failed = |error: PermissionError| state(error.code(), &error);
        let mut verdict = self.permissions().decide(&asked).map_err(failed)?;
        let mut allowed_by_person = None;
        if verdict.decision == Decision::Ask {
            let Some(approval) = &request.approval else {
                return Err(CallError::NeedsApproval(Box::new(self.prompt(tool, request, bound, &verdict)?)));
            };
            if approval.bound != *bound {
                return Err(CallError::Denied { reason: "the tool or the arguments changed after the approval".to_owned() });
            }
            let grant = match approval.lifetime {
                Lifetime::Once => Grant::call(&asked),
                lifetime => Grant::allow(tool.id(), tool.content())
                    .function(request.function)
                    .lifetime(lifetime)
                    .definition(request.function, definition(tool, request.function)),
            };
            self.permissions().grant(grant).map_err(failed)?;
            verdict = self.permissions().decide(&asked).map_err(failed)?;
            allowed_by_person = Some(approval.lifetime);
        }
        let mut record = Record::new(AuditEvent::Decision)
            .client(request.caller)
            .tool(&bound.tool)
            .function(&bound.function)
            .content(bound.content)
            .arguments(&request.arguments)
            .verdict(&verdict);
        if verdict.decision != Decision::Allow {
            self.record([record])?;
            return Err(CallError::Denied { reason: verdict.reason.text() });
        }
        // The rule of the approval was made for this call, so "a rule allows it" would hide who decided.
        if let Some(lifetime) = allowed_by_person {
            record = record.decision("allow", lifetime_reason(lifetime));
        }
        Ok(record)
    }

    /// Checks that every required credential of a tool is set. For callers that are about to ask a person, who should not decide about a call
    /// that cannot run.
    pub fn check_credentials(&self, tool: &str) -> Result<(), CallError> {
        let tools = self.tools();
        tools.tools().get(tool).map_or(Ok(()), |tool| self.credentials(tool).map(drop))
    }

    /// Records that a person refused a call.
    pub fn refused(&self, bound: &Bound, caller: &str) -> Result<(), CallError> {
        let Bound { tool, function, content, .. } = bound;
        let record = Record::new(AuditEvent::Decision).client(caller).tool(tool).function(function).content(*content);
        self.record([record.decision("deny", "a person refused the call")])
    }

    fn prompt(
        &self,
        tool: &LoadedTool,
        request: &CallRequest<'_>,
        bound: &Bound,
        verdict: &Verdict,
    ) -> Result<ApprovalPrompt, CallError> {
        let today = definition(tool, request.function);
        let changed = self.permissions().changed(tool.id(), request.function, &tool.content(), &today);
        let changed = changed.map_err(|error| state(error.code(), &error))?;
        Ok(ApprovalPrompt {
            bound: bound.clone(),
            version: tool.manifest().version().to_owned(),
            reason: verdict.reason.text(),
            changed: changed.map(|changed| changed.to_string()),
            arguments: request.arguments.to_string(),
            credentials: tool.manifest().credentials().iter().map(|credential| credential.name().to_owned()).collect(),
            access: access(tool),
            sandbox: self.sandbox_summary(tool),
        })
    }

    /// How programs of a tool are contained, in a few words.
    pub fn sandbox_summary(&self, tool: &LoadedTool) -> String {
        match (self.containment(tool), tool.local_server()) {
            (Some(containment), _) => containment.summary(),
            (None, Some(url)) => format!("UNSANDBOXED: the server {} runs on this machine by itself", escape_for_display(url)),
            (None, None) => "no program of this machine".to_owned(),
        }
    }

    fn credentials(&self, tool: &LoadedTool) -> Result<BTreeMap<String, Arc<Secret>>, CallError> {
        let mut found = BTreeMap::new();
        for credential in tool.manifest().credentials() {
            let lookup = self.secrets().get(tool.id(), credential.name(), &tool.content());
            let missing = |is_bound_to_other| CallError::CredentialMissing {
                tool: tool.id().to_owned(),
                name: credential.name().to_owned(),
                is_bound_to_other,
            };
            match lookup.map_err(|error| state(error.code(), &error))? {
                Lookup::Value { secret, .. } => {
                    found.insert(credential.name().to_owned(), Arc::new(secret));
                }
                Lookup::BoundToOther { .. } if credential.required() => return Err(missing(true)),
                Lookup::Missing if credential.required() => return Err(missing(false)),
                Lookup::BoundToOther { .. } | Lookup::Missing => {}
            }
        }
        Ok(found)
    }

    async fn run(&self, call: Pending<'_>, request: CallRequest<'_>) -> Result<CallResult, CallError> {
        let Pending { tool, function, bound, call_id, credentials, decision } = call;
        let runtime = self.runtime(tool)?;
        let redactor = Redactor::new(credentials.values().map(AsRef::as_ref)).map_err(|error| state(error.code(), &error))?;
        let redactor = Arc::new(redactor);
        let events = request.events.redacted(Arc::clone(&redactor));
        let limit = self.limit(tool, &bound.function, request.limit);
        let mut started =
            about(AuditEvent::CallStarted, &call_id, &bound).client(request.caller).sandbox(&self.sandbox_summary(tool));
        if self.audit().records_arguments() {
            started = started.recorded_arguments(&request.arguments, &redactor);
        }
        let on_disk = self.record_call([decision.call(&call_id), started])?;
        // Written when the call ends, also when this future is dropped in the middle of it.
        let mut finished = Finished {
            host: self,
            call_id: &call_id,
            bound: &bound,
            began: Instant::now(),
            outcome: codes::host::CANCELLED.id(),
            bytes: 0,
        };
        let invocation = Invocation {
            function: bound.function.clone(),
            mcp_name: function.mcp_name().to_owned(),
            arguments: request.arguments,
            variables: placed(tool, &credentials, Credential::env),
            headers: placed(tool, &credentials, Credential::header),
            credentials,
            settings: tool.settings().clone(),
            call_id: call_id.clone(),
            data: self.data_folder(tool.id()).map_err(|error| state(error.code(), &error))?,
            limit,
        };
        // A disk that fails ends the call: dropping it ends its processes.
        let called = match tokio::try_join!(async { Ok(runtime.call(invocation, &events).await) }, on_disk) {
            Ok((called, ())) => called,
            Err(error) => {
                finished.outcome = CallError::code(&error).id();
                return Err(error);
            }
        };
        let sandbox = self.sandbox_summary(tool);
        let mut value = match called {
            Ok(value) => value,
            Err(error) => {
                finished.outcome = error.code.id();
                return Err(error.redacted(&events).into());
            }
        };
        redactor.json(&mut value);
        finished.bytes = value.to_string().len();
        finished.outcome = "ok";
        let duration = finished.began.elapsed();
        drop(finished);
        check_output(function, &value)?;
        let folder = self.settings.state.join("results");
        let result = ModelResult::new(value.clone(), &call_id, &folder)
            .map_err(|error| state(codes::host::STATE, &format!("{}: {error}", folder.display())))?;
        Ok(CallResult { result, value, duration, sandbox })
    }

    /// The smallest of the limits of function, tool, caller and host.
    fn limit(&self, tool: &LoadedTool, function: &str, caller: Option<Duration>) -> Duration {
        let stated = tool.manifest().function(function).and_then(|function| function.timeout_ms());
        let whole = tool.manifest().runtime().and_then(RuntimeBlock::timeout_ms);
        let own = match (stated, whole) {
            (Some(function), Some(tool)) => Duration::from_millis(function.min(tool)),
            (Some(limit), None) | (None, Some(limit)) => Duration::from_millis(limit),
            (None, None) => DEFAULT_LIMIT,
        };
        own.min(self.settings.limit).min(caller.unwrap_or(Duration::MAX))
    }

    /// Writes lines that survive the end of this process from now on, and returns a future that waits until they are on the disk, if the policy
    /// asks for that. The program runs meanwhile; its result is held back until both are done.
    fn record_call(&self, records: [Record; 2]) -> Result<impl Future<Output = Result<(), CallError>> + use<>, CallError> {
        let failed = |error: AuditError| state(error.code(), &error);
        let pending = self.audit().append_call(records).map_err(failed)?;
        // Begun here, not when it is first awaited, and finished even if the call is dropped.
        let syncing = pending.map(|pending| tokio::task::spawn_blocking(move || pending.sync()));
        Ok(async move {
            let Some(syncing) = syncing else { return Ok(()) };
            syncing.await.map_err(|error| state(codes::host::STATE, &error))?.map_err(failed)
        })
    }

    /// Writes a line that has to be on the disk before anything else happens.
    fn record(&self, records: impl IntoIterator<Item = Record>) -> Result<(), CallError> {
        self.audit().append(records).map(drop).map_err(|error| state(error.code(), &error))
    }
}

/// A call that may be made.
struct Pending<'a> {
    tool: &'a Arc<LoadedTool>,
    function: &'a LoadedFunction,
    bound: Bound,
    call_id: String,
    credentials: BTreeMap<String, Arc<Secret>>,
    decision: Record,
}

/// Writes the end of a call to the audit log, however the call ends.
struct Finished<'a> {
    host: &'a Host,
    call_id: &'a str,
    bound: &'a Bound,
    began: Instant,
    outcome: &'static str,
    bytes: usize,
}

impl Drop for Finished<'_> {
    fn drop(&mut self) {
        let record = about(AuditEvent::CallFinished, self.call_id, self.bound).duration(self.began.elapsed()).exit(self.outcome);
        if let Err(error) = self.host.audit().append([record.sizes(0, self.bytes as u64)]) {
            tracing::error!(%error, call = self.call_id, "end of a call not written to the audit log");
        }
    }
}

fn about(event: AuditEvent, call_id: &str, bound: &Bound) -> Record {
    Record::new(event).call(call_id).tool(&bound.tool).function(&bound.function).content(bound.content)
}

/// What a model sees of a function, to tell later what changed.
pub(crate) fn definition(tool: &LoadedTool, function: &str) -> Definition {
    let manifest = tool.manifest();
    let description = manifest.function(function).map_or("", |function| function.description());
    let parameters = tool.functions().get(function).map_or(&Json::Null, LoadedFunction::parameters);
    Definition::new(manifest.version(), description, parameters)
}

/// Clients hold results against the schema that was listed, so a result that breaks it is an error here, with a clear message.
fn check_output(function: &LoadedFunction, value: &Json) -> Result<(), CallError> {
    let Some(validator) = function.output_validator() else { return Ok(()) };
    if validator.is_valid(value) {
        return Ok(());
    }
    let violations = validator.violations(value, toolcrib_core::schema::Echo::Masked);
    let first = violations.first().map(ToString::to_string).unwrap_or_default();
    Err(RunError::new(codes::host::OUTPUT_INVALID, format!("the result does not fit the outputs of the manifest: {first}"))
        .into())
}

/// The reason in the audit log for a call that a person allowed.
const fn lifetime_reason(lifetime: Lifetime) -> &'static str {
    match lifetime {
        Lifetime::Once => "a person allowed the call",
        Lifetime::Session => "a person allowed the function for this session",
        Lifetime::Always => "a person allowed this version of the function always",
    }
}

/// Credentials by the variables or headers that the manifest names for them.
pub(crate) fn placed(
    tool: &LoadedTool,
    credentials: &BTreeMap<String, Arc<Secret>>,
    place: fn(&Credential) -> Option<&str>,
) -> BTreeMap<String, Arc<Secret>> {
    let declared = tool.manifest().credentials().iter();
    declared.filter_map(|one| Some((place(one)?.to_owned(), Arc::clone(credentials.get(one.name())?)))).collect()
}

/// What a tool may reach, in the words of its manifest.
pub(crate) fn access(tool: &LoadedTool) -> String {
    if let RuntimeKind::McpHttp { url } | RuntimeKind::Http { url } = tool.runtime() {
        return format!("the server {url}, which gets the arguments; nothing of this machine");
    }
    let request = tool.manifest().sandbox();
    let network = match request.network() {
        NetworkRequest::None => "no network".to_owned(),
        NetworkRequest::Any => "any network".to_owned(),
        NetworkRequest::Ports(ports) => {
            format!("TCP ports {}", ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
        }
    };
    // Every tool has its data folder, so `$data` adds nothing.
    let list = |paths: &[String]| {
        let named = paths.iter().filter(|path| *path != "$data");
        let named: Vec<_> = named.map(|path| if path == "$tmp" { "temporary files" } else { path.as_str() }).collect();
        if named.is_empty() { "nothing more".to_owned() } else { named.join(", ") }
    };
    if matches!(tool.runtime(), RuntimeKind::Wasm { .. }) {
        return format!("reads {}; writes its data folder, {}; no network", list(request.read()), list(request.write()));
    }
    format!(
        "its own folder and system programs; reads {}; writes its data folder, {}; {network}",
        list(request.read()),
        list(request.write())
    )
}

/// A name for a call: 16 random bytes.
fn call_id() -> Result<String, CallError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| state(codes::host::STATE, &error))?;
    Ok(hex::encode(bytes))
}

fn state(code: Code, message: &dyn std::fmt::Display) -> CallError {
    CallError::State { code, message: message.to_string() }
}
