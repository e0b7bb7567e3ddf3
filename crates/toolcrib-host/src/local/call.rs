//! A call: arguments, permission, credentials, program, result, audit record.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::hex;
use serde_json::Value as Json;
use tokio::time::Instant;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::local::{Credential, Runtime as RuntimeBlock};
use toolcrib_mcp::value_hash;

use super::arguments;
use super::audit::{AuditError, Event as AuditEvent, Record};
use super::folder::{LoadedFunction, LoadedTool};
use super::host::Host;
use super::permissions::{Decision, Definition, Grant, Lifetime, PermissionError, Request as PermissionRequest, Verdict};
use super::request::{ApprovalPrompt, Bound, CallError, CallRequest, CallResult};
use super::result::ModelResult;
use super::runtime::{Invocation, RunError, Runtime};
use super::secrets::{Lookup, Redactor, Secret};
use super::shown::access;

/// Default time limit of a call.
pub const DEFAULT_LIMIT: Duration = Duration::from_secs(30);

/// The sandbox description of a tool version that is not loaded any more.
const NOT_LOADED: &str = "not known: this version of the tool is not loaded";

impl Host {
    /// Calls a function. Dropping the future cancels the call and kills its processes.
    ///
    /// The call uses the tool version that is loaded at its start, to its end.
    pub async fn call(&self, mut request: CallRequest<'_>) -> Result<CallResult, CallError> {
        let tools = self.tools();
        let Some((tool, function)) = tools.function(request.tool, request.function) else {
            return Err(CallError::Unknown { tool: request.tool.to_owned(), function: request.function.to_owned() });
        };
        arguments::check_or_restore(&mut request.arguments, function.parameters(), function.validator())
            .map_err(|violations| CallError::Arguments { violations })?;
        let bound = Bound {
            tool: tool.id().to_owned(),
            function: request.function.to_owned(),
            content: tool.content(),
            arguments: value_hash(&request.arguments),
        };
        let decision = self.permit(tool, &request, &bound)?;
        match self.prepare(tool) {
            Ok(means) => self.run(Pending { tool, function, bound, means, decision }, request).await,
            // The call does not start, but the decision is returned all the same.
            Err(error) => {
                self.record([decision.exit(error.code().id())])?;
                Err(error)
            }
        }
    }

    /// Whether a tool is not disabled by a rule that denies every call. Unreadable rules deny everything.
    pub fn is_enabled(&self, tool: &LoadedTool) -> bool {
        !self.permissions().is_disabled(tool.id()).unwrap_or(true)
    }

    /// Whether every required credential of a tool is set for its current content.
    pub fn is_ready(&self, tool: &LoadedTool) -> bool {
        self.credentials(tool).is_ok()
    }

    /// Checks the call against the permissions, and uses the user's answer if one is needed. Returns the record to write; a denied call is
    /// recorded here.
    fn permit(&self, tool: &LoadedTool, request: &CallRequest<'_>, bound: &Bound) -> Result<Record, CallError> {
        let record = Record::new(AuditEvent::Decision)
            .client(request.caller)
            .tool(&bound.tool)
            .function(&bound.function)
            .content(bound.content)
            .sandbox(&self.sandbox_summary(tool))
            .arguments(&request.arguments);
        let (verdict, allowed_by_person) = match self.decide(tool, request, bound) {
            Ok(decided) => decided,
            Err(error) => {
                match &error {
                    // Not decided yet.
                    CallError::NeedsApproval(_) => {}
                    CallError::Denied { reason } => self.record([record.decision("deny", reason)])?,
                    _ => self.record([record.decision("deny", "the rules cannot be used").exit(error.code().id())])?,
                }
                return Err(error);
            }
        };
        let record = record.verdict(&verdict);
        if verdict.decision != Decision::Allow {
            self.record([record])?;
            return Err(CallError::Denied { reason: verdict.reason.text() });
        }
        Ok(match allowed_by_person {
            // The rule was created from this approval, so "a rule allows it" would hide who decided.
            Some(lifetime) => record.decision("allow", lifetime_reason(lifetime)),
            None => record,
        })
    }

    /// The verdict of the rules, and the lifetime of the user's approval if one was needed.
    fn decide(
        &self,
        tool: &LoadedTool,
        request: &CallRequest<'_>,
        bound: &Bound,
    ) -> Result<(Verdict, Option<Lifetime>), CallError> {
        let asked = PermissionRequest {
            tool: tool.id(),
            function: request.function,
            content: tool.content(),
            arguments: &request.arguments,
            interactive: request.interactive,
        };
        let failed = |error: PermissionError| state(error.code(), &error);
        let verdict = self.permissions().decide(&asked).map_err(failed)?;
        if verdict.decision != Decision::Ask {
            return Ok((verdict, None));
        }
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
        Ok((self.permissions().decide(&asked).map_err(failed)?, Some(approval.lifetime)))
    }

    /// Checks that every required credential of a tool is set. Call this before asking the user, who should not decide about a call that
    /// cannot run.
    pub fn check_credentials(&self, tool: &str) -> Result<(), CallError> {
        let tools = self.tools();
        tools.tools().get(tool).map_or(Ok(()), |tool| self.credentials(tool).map(drop))
    }

    /// Records that the user refused a call.
    pub fn refused(&self, bound: &Bound, caller: &str) -> Result<(), CallError> {
        let Bound { tool, function, content, .. } = bound;
        let tools = self.tools();
        let loaded = tools.tools().get(tool).filter(|tool| tool.content() == *content);
        let sandbox = loaded.map_or_else(|| NOT_LOADED.to_owned(), |tool| self.sandbox_summary(tool));
        let record = Record::new(AuditEvent::Decision).client(caller).tool(tool).function(function).content(*content);
        self.record([record.sandbox(&sandbox).decision("deny", "a person refused the call")])
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

    /// Prepares what a call needs. Starts nothing.
    fn prepare(&self, tool: &LoadedTool) -> Result<Means, CallError> {
        let credentials = self.credentials(tool)?;
        let redactor = Redactor::new(credentials.values().map(AsRef::as_ref)).map_err(|error| state(error.code(), &error))?;
        Ok(Means {
            runtime: self.runtime(tool)?,
            redactor: Arc::new(redactor),
            credentials,
            data: self.data_folder(tool.id()).map_err(|error| state(error.code(), &error))?,
            call_id: call_id()?,
        })
    }

    async fn run(&self, call: Pending<'_>, request: CallRequest<'_>) -> Result<CallResult, CallError> {
        let Pending { tool, function, bound, means, decision } = call;
        let Means { runtime, redactor, credentials, data, call_id } = means;
        let events = request.events.redacted(Arc::clone(&redactor));
        let limit = self.limit(tool, &bound.function, request.limit);
        let sandbox = self.sandbox_summary(tool);
        let mut started = about(AuditEvent::CallStarted, &call_id, &bound).client(request.caller).sandbox(&sandbox);
        if self.audit().records_arguments() {
            started = started.recorded_arguments(&request.arguments, &redactor);
        }
        let on_disk = self.record_call([decision.call(&call_id), started])?;
        // Written when the call ends, also if this future is dropped in between.
        let mut finished = Finished {
            host: self,
            call_id: &call_id,
            bound: &bound,
            began: Instant::now(),
            outcome: codes::host::CANCELLED.id(),
            bytes: 0,
            sandbox,
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
            data,
            limit,
        };
        // A disk error ends the call: dropping it kills its processes.
        let called = match tokio::try_join!(async { Ok(runtime.call(invocation, &events).await) }, on_disk) {
            Ok((called, ())) => called,
            Err(error) => {
                finished.outcome = CallError::code(&error).id();
                return Err(error);
            }
        };
        // Known precisely now, because a program ran.
        finished.sandbox = self.sandbox_summary(tool);
        let sandbox = finished.sandbox.clone();
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

    /// The smallest limit of function, tool, caller and host.
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

    /// Writes lines, which survive the end of this process from now on, and returns a future that waits until they are on disk, if the
    /// policy requires that. The program runs meanwhile; its result is returned when both are done.
    fn record_call(&self, records: [Record; 2]) -> Result<impl Future<Output = Result<(), CallError>> + use<>, CallError> {
        let failed = |error: AuditError| state(error.code(), &error);
        let pending = self.audit().append_call(records).map_err(failed)?;
        // Started here, not when it is first awaited, and finished even if the call is dropped.
        let syncing = pending.map(|pending| tokio::task::spawn_blocking(move || pending.sync()));
        Ok(async move {
            let Some(syncing) = syncing else { return Ok(()) };
            syncing.await.map_err(|error| state(codes::host::STATE, &error))?.map_err(failed)
        })
    }

    /// Writes a line that must be on disk before anything else happens.
    fn record(&self, records: impl IntoIterator<Item = Record>) -> Result<(), CallError> {
        self.audit().append(records).map(drop).map_err(|error| state(error.code(), &error))
    }
}

/// Everything that a call needs before it starts.
struct Means {
    runtime: Arc<dyn Runtime>,
    redactor: Arc<Redactor>,
    credentials: BTreeMap<String, Arc<Secret>>,
    /// The data folder of the tool.
    data: PathBuf,
    call_id: String,
}

/// A call that is permitted.
struct Pending<'a> {
    tool: &'a Arc<LoadedTool>,
    function: &'a LoadedFunction,
    bound: Bound,
    means: Means,
    decision: Record,
}

/// Writes the end of a call to the audit log, however it ends.
struct Finished<'a> {
    host: &'a Host,
    call_id: &'a str,
    bound: &'a Bound,
    began: Instant,
    outcome: &'static str,
    bytes: usize,
    sandbox: String,
}

impl Drop for Finished<'_> {
    fn drop(&mut self) {
        let record = about(AuditEvent::CallFinished, self.call_id, self.bound).duration(self.began.elapsed()).exit(self.outcome);
        let record = record.sizes(0, self.bytes as u64).sandbox(&self.sandbox);
        if let Err(error) = self.host.audit().append([record]) {
            tracing::error!(%error, call = self.call_id, "end of a call not written to the audit log");
        }
    }
}

fn about(event: AuditEvent, call_id: &str, bound: &Bound) -> Record {
    Record::new(event).call(call_id).tool(&bound.tool).function(&bound.function).content(bound.content)
}

/// The definition of a function that models see, to detect changes later.
pub(crate) fn definition(tool: &LoadedTool, function: &str) -> Definition {
    let manifest = tool.manifest();
    let description = manifest.function(function).map_or("", |function| function.description());
    let parameters = tool.functions().get(function).map_or(&Json::Null, LoadedFunction::parameters);
    Definition::new(manifest.version(), description, parameters)
}

/// Clients validate results against the listed schema, so an invalid result is an error here, with a clear message.
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

/// The reason in the audit log for a call that a user allowed.
const fn lifetime_reason(lifetime: Lifetime) -> &'static str {
    match lifetime {
        Lifetime::Once => "a person allowed the call",
        Lifetime::Session => "a person allowed the function for this session",
        Lifetime::Always => "a person allowed this version of the function always",
    }
}

/// Maps credentials to the variables or headers that the manifest declares for them.
pub(crate) fn placed(
    tool: &LoadedTool,
    credentials: &BTreeMap<String, Arc<Secret>>,
    place: fn(&Credential) -> Option<&str>,
) -> BTreeMap<String, Arc<Secret>> {
    let declared = tool.manifest().credentials().iter();
    declared.filter_map(|one| Some((place(one)?.to_owned(), Arc::clone(credentials.get(one.name())?)))).collect()
}

/// Returns the id of a call: 16 random bytes.
fn call_id() -> Result<String, CallError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| state(codes::host::STATE, &error))?;
    Ok(hex::encode(bytes))
}

fn state(code: Code, message: &dyn std::fmt::Display) -> CallError {
    CallError::State { code, message: message.to_string() }
}
