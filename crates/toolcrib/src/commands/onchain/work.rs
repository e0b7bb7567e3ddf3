//! Work of several transactions: shown, approved, journalled and sent, or only shown.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;

use alloy_primitives::{U256, utils::format_ether};
use serde_json::{Value, json};
use toolcrib_author::journal::{Entry, Journal};
use toolcrib_author::plan::Step;
use toolcrib_author::run::{Event, run};
use toolcrib_chain::registry::Registry;
use toolcrib_chain::wallet::Wallet;
use toolcrib_core::codes;

use crate::onchain::{Writing, facts, failed, state_dir};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// Work to do, and its name in the journal.
pub(crate) struct Work<'w> {
    pub(crate) id: String,
    pub(crate) tool: Option<U256>,
    pub(crate) steps: Vec<Step>,
    /// Called after the user's approval and before signing; an error stops the work.
    pub(crate) before_signing: BeforeSigning<'w>,
}

/// Called up to once per transaction.
pub(crate) type BeforeSigning<'w> = &'w (dyn Fn() -> Result<(), Failure> + Sync);

/// There is nothing to do before signing.
pub(crate) const NOTHING_BEFORE: BeforeSigning<'static> = &|| Ok(());

/// Executes work, or continues it where it stopped, and prints the tool.
pub(crate) async fn execute(
    registry: &Registry,
    wallet: &dyn Wallet,
    work: Work<'_>,
    writing: &Writing,
    printer: &mut Printer,
) -> Result<Done, Stop> {
    show(registry, wallet, work.tool, &work.steps, writing, printer).await?;
    let journal = journal(writing)?;
    let _lock = journal.lock(&work.id).map_err(stopped)?;
    let loaded = journal.load(&work.id).map_err(|error| Failure::new(codes::author::JOURNAL, error.to_string()))?;
    let mut entry = match loaded {
        Some(entry) if !entry.is_done() => {
            printer.note("continuing unfinished work")?;
            entry
        }
        _ if writing.resume => return Err(nothing_to_resume().into()),
        _ => Entry::new(work.id, registry.chain().chain_id(), registry.address(), wallet.address(), work.tool, work.steps),
    };
    let tool = perform(registry, wallet, &journal, &mut entry, work.before_signing, writing, printer).await?;
    let reference = registry.reference(tool).to_string();
    printer.result(&format!("{reference}\n"))?;
    Ok(Done::new(Exit::Yes, json!({ "tool": reference, "id": tool.to_string() })))
}

/// Shows the plan. With `--calldata` and `--dry-run` that is the result, and the command stops.
pub(crate) async fn show(
    registry: &Registry,
    wallet: &dyn Wallet,
    tool: Option<U256>,
    steps: &[Step],
    writing: &Writing,
    printer: &mut Printer,
) -> Result<(), Stop> {
    if writing.calldata {
        let calls = steps.iter().map(|step| call_json(step, registry, tool)).collect::<Result<Vec<_>, _>>()?;
        let data = json!({ "chain_id": registry.chain().chain_id(), "from": wallet.address(), "calls": calls });
        printer.json_document(&data)?;
        return Err(Done::new(Exit::Yes, data).into());
    }
    say_where(registry, wallet, printer)?;
    for (index, step) in steps.iter().enumerate() {
        printer.note(&format!("  {}. {}", index + 1, shown(&step.described())))?;
    }
    if !writing.dry_run {
        return Ok(());
    }
    let first = steps.first().ok_or_else(|| Failure::new(codes::author::NO_TOOL, "nothing to do"))?;
    let call = first.call(registry, tool).map_err(stopped)?;
    let prepared = registry.chain().prepare(wallet.address(), &call).await;
    let prepared = prepared.map_err(|error| failed(registry.explain_refusal(&call, error)))?;
    let cost = format_ether(prepared.most_cost());
    let currency = registry.chain().network().currency;
    printer.result(&format!("the first transaction would cost at most {cost} {currency}; nothing was signed\n"))?;
    Err(Done::new(Exit::Yes, json!({ "dry_run": true, "most_cost_wei": prepared.most_cost().to_string() })).into())
}

/// Prints what a signature is for: network, node, registry and account.
pub(crate) fn say_where(registry: &Registry, wallet: &dyn Wallet, printer: &mut Printer) -> Result<(), Stop> {
    let chain = registry.chain();
    printer.note(&format!("on {}, as {}:", chain.network().title, wallet.address().to_checksum(None)))?;
    facts(chain, Some(registry.address()), printer)
}

/// Signs and sends the remaining transactions of a journal entry, and returns the tool.
pub(crate) async fn perform(
    registry: &Registry,
    wallet: &dyn Wallet,
    journal: &Journal,
    entry: &mut Entry,
    before_signing: BeforeSigning<'_>,
    writing: &Writing,
    printer: &mut Printer,
) -> Result<U256, Stop> {
    let mut asked = writing.yes;
    let mut is_waiting = false;
    let mut failure = None;
    let network = registry.chain().network().clone();
    let outcome = run(registry, wallet, journal, entry, |event| {
        // A closed output must not interrupt the work.
        let mut say = |text: String| drop(printer.note(&text));
        match event {
            Event::AboutToSign { prepared, .. } => {
                if !asked {
                    asked = confirm(&format!(
                        "sign and pay at most {} {} for gas?",
                        format_ether(prepared.most_cost()),
                        network.currency
                    ));
                }
                if asked {
                    failure = before_signing().err();
                }
                return asked && failure.is_none();
            }
            Event::Sent { index, signed } => {
                let page = network.transaction_url(signed.hash).map_or_else(String::new, |url| format!("  {}", shown(&url)));
                say(format!("sent {}: {}{page}", index + 1, signed.hash));
            }
            Event::Waiting { block } if !is_waiting => {
                is_waiting = true;
                say(format!("waiting for a block after {block}; if interrupted, run the same command again to continue"));
            }
            Event::Waiting { .. } => {}
            Event::Done { index, block } => {
                is_waiting = false;
                say(format!("done {}: in block {block}", index + 1));
            }
        }
        true
    })
    .await;
    outcome.map_err(|error| {
        let failure = failure.unwrap_or_else(|| stopped(error));
        if entry.tool.is_none() && !entry.is_begun() {
            return failure.into();
        }
        let hint = format!("{}; run the same command again to continue", failure.code.info().hint);
        failure.hint(hint).into()
    })
}

/// The journal of the arguments.
pub(crate) fn journal(writing: &Writing) -> Result<Journal, Failure> {
    Ok(Journal::new(journal_folder(writing)?))
}

/// The folder of the journal.
pub(crate) fn journal_folder(writing: &Writing) -> Result<PathBuf, Failure> {
    Ok(match &writing.state_dir {
        Some(folder) => folder.join("journal"),
        None => state_dir()?.join("journal"),
    })
}

/// Converts an error of the work.
pub(crate) fn stopped(error: toolcrib_author::Error) -> Failure {
    Failure::new(error.code(), error.to_string())
}

/// The error of `--resume` without unfinished work.
pub(crate) fn nothing_to_resume() -> Failure {
    Failure::new(codes::author::NOTHING_TO_RESUME, "there is no unfinished work to continue")
}

fn call_json(step: &Step, registry: &Registry, tool: Option<U256>) -> Result<Value, Failure> {
    match step.call(registry, tool) {
        Ok(call) => Ok(json!({ "what": step.described(), "to": call.to, "value": call.value.to_string(), "data": call.data })),
        // The configuration of a tool without an id can be encoded only after its registration.
        Err(toolcrib_author::Error::NoTool) => Ok(json!({ "what": step.described(), "after": "the tool has its id" })),
        Err(error) => Err(stopped(error)),
    }
}

/// Asks for approval at the terminal. Without a terminal it is declined.
pub(crate) fn confirm(question: &str) -> bool {
    if !io::stdin().is_terminal() {
        return false;
    }
    let mut answer = String::new();
    let asked = write!(io::stderr(), "{question} [y/N] ").and_then(|()| io::stderr().flush());
    asked.is_ok() && io::stdin().lock().read_line(&mut answer).is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}
