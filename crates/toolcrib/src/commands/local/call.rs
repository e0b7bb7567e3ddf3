//! `local call`: calls a function, after asking for permission.

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_core::codes;
use toolcrib_host::local::permissions::Lifetime;
use toolcrib_host::local::{Approval, CallError, CallRequest, Event, Events};

use super::{HostArgs, refused};
use crate::commands::onchain::confirm;
use crate::input::json_argument;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// Most events that wait to be printed: more lines than a program may write in one call.
const WAITING_EVENTS: usize = 10_240;

/// Arguments of `local call`.
#[derive(Args, Debug)]
pub(crate) struct Call {
    /// Tool id
    pub(crate) tool: String,
    /// Function name
    pub(crate) function: String,
    /// Arguments: JSON object, `@FILE`, or `-` for stdin
    #[arg(long = "args", value_name = "JSON", default_value = "{}")]
    pub(crate) arguments: String,
    /// Allow this call without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// Time limit in ms, if shorter than that of function and tool
    #[arg(long, value_name = "MS")]
    pub(crate) timeout: Option<u64>,
    #[command(flatten)]
    pub(crate) host: HostArgs,
}

/// Calls a function.
pub(crate) async fn run(arguments: &Call, printer: &mut Printer) -> Result<Done, Stop> {
    let host = arguments.host.open()?;
    let input = json_argument(&arguments.arguments)?;
    let (sender, mut events) = mpsc::channel(WAITING_EVENTS);
    let is_interactive = arguments.yes || std::io::stdin().is_terminal();
    let request = |approval| CallRequest {
        tool: &arguments.tool,
        function: &arguments.function,
        arguments: input.clone(),
        caller: "cli",
        interactive: is_interactive,
        approval,
        limit: arguments.timeout.map(Duration::from_millis),
        events: Events::new(sender.clone()),
    };
    let mut called = watched(host.call(request(None)), &mut events, &arguments.tool, printer).await?;
    if let Err(CallError::NeedsApproval(prompt)) = called {
        printer.flush()?;
        match host.check_credentials(&prompt.bound.tool) {
            Ok(()) => {}
            Err(error) if is_answer(&error) => return refused(&failure(&error), printer),
            Err(error) => return Err(failure(&error).into()),
        }
        if !arguments.yes && !confirm(&format!("{}\nrun it?", prompt.text())) {
            host.refused(&prompt.bound, "cli").map_err(|error| failure(&error))?;
            let hint = "nothing was run; allow or deny the tool permanently with `toolcrib permit set`";
            return refused(&Failure::new(codes::host::DECLINED, "you refused the call").hint(hint), printer);
        }
        let approval = Approval { lifetime: Lifetime::Once, bound: prompt.bound };
        called = watched(host.call(request(Some(approval))), &mut events, &arguments.tool, printer).await?;
    }
    host.shutdown().await;
    let result = match called {
        Ok(result) => result,
        Err(error) if is_answer(&error) => return refused(&failure(&error), printer),
        Err(error) => return Err(failure(&error).into()),
    };
    printer.detail(&result.sandbox)?;
    match &result.value {
        Value::String(text) => printer.result(&format!("{}\n", text.trim_end_matches('\n')))?,
        value => printer.json_document(value)?,
    }
    let data = json!({
        "result": result.value,
        "duration_ms": u64::try_from(result.duration.as_millis()).unwrap_or(u64::MAX),
        "sandbox": result.sandbox,
        "file": result.result.file,
    });
    Ok(Done::new(Exit::Yes, data))
}

/// Awaits a call, and prints what the program writes meanwhile.
async fn watched<T>(
    call: impl Future<Output = T>,
    events: &mut mpsc::Receiver<Event>,
    tool: &str,
    printer: &mut Printer,
) -> Result<T, Stop> {
    let mut call = std::pin::pin!(call);
    let result = loop {
        tokio::select! {
            // Queued events are printed first, so that none is lost when the call ends.
            biased;
            Some(event) = events.recv() => show(&event, tool, printer)?,
            result = &mut call => break result,
        }
    };
    while let Ok(event) = events.try_recv() {
        show(&event, tool, printer)?;
    }
    Ok(result)
}

fn show(event: &Event, tool: &str, printer: &mut Printer) -> Result<(), Stop> {
    let text = match event {
        Event::Log(line) => shown(line),
        Event::Progress { progress, total, message } => {
            let total = total.map_or_else(String::new, |total| format!(" of {total}"));
            let message = message.as_ref().map_or_else(String::new, |message| format!(": {}", shown(message)));
            format!("{progress}{total}{message}")
        }
    };
    Ok(printer.note(&format!("{tool}: {text}"))?)
}

/// Whether an error is an answer "no"; after other errors, the outcome of the call is unknown.
fn is_answer(error: &CallError) -> bool {
    use codes::host;
    let said = [host::TOOL_FAILED, host::EXPORT_MISSING, host::OUTPUT_INVALID, host::RESULT_TOO_LARGE];
    match error {
        CallError::Run(error) => said.contains(&error.code),
        CallError::State { .. } => false,
        _ => true,
    }
}

fn failure(error: &CallError) -> Failure {
    let failure = Failure::new(error.code(), error.to_string());
    match error {
        CallError::CredentialMissing { tool, is_bound_to_other: true, .. } => {
            failure.hint(format!("run `toolcrib secret rebind {tool}`"))
        }
        CallError::CredentialMissing { tool, name, .. } => failure.hint(format!("run `toolcrib secret set {tool} {name}`")),
        _ => failure,
    }
}
