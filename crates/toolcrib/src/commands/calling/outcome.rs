//! The output of calls: results and errors.

use serde_json::{Value, json};
use toolcrib_chain::registry::AccessResult;
use toolcrib_client::{CallError, Called, Denial, Paid, SpendError, Terms};
use toolcrib_core::finding::Finding;
use toolcrib_core::schema::{Prefilled, Violation};

use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// Prints the result of a call and returns the answer.
pub(super) fn conclude(result: Result<Called, CallError>, printer: &mut Printer) -> Result<Done, Stop> {
    let called = match result {
        Ok(called) => called,
        Err(error) => return refuse(&error, printer),
    };
    if let Some(paid) = &called.paid {
        let evidence = paid.evidence.map_or_else(String::new, |evidence| format!(" ({evidence})"));
        printer.note(&format!("paid {}; payment {}, {}{evidence}", paid.terms.shown(), paid.id, paid.state))?;
        if paid.state.is_open() {
            printer.note(&format!(
                "its settlement is not confirmed; `toolcrib payments resolve {}` checks it on the chain",
                paid.id
            ))?;
        }
        printer.if_lost(format!("`toolcrib payments resume {}` prints the result without paying again", paid.id));
    } else if let Some(account) = called.identity {
        printer.note(&format!("identified as {account}; no payment was made"))?;
    }
    for value in &called.prefilled {
        printer.detail(&format!("the schema prefills {} = {}", shown(&value.pointer), shown(&value.value)))?;
    }
    for finding in &called.findings {
        let message = format!("{}: {}", finding.code, shown(&finding.message));
        printer.note(&format!("warning: {message}"))?;
        printer.warn_in_envelope(&Failure::new(finding.code, finding.message.clone()));
    }
    match &called.output {
        Some(output) => printer.json_document(output)?,
        None => printer.document(&String::from_utf8_lossy(&called.body))?,
    }
    let output = called.output.clone().unwrap_or_else(|| json!(String::from_utf8_lossy(&called.body)));
    let data = json!({
        "called": true,
        "output": output,
        "tool": called.tool.map(|tool| tool.to_string()),
        "manifest_hash": called.manifest_hash,
        "paid": called.paid.as_ref().map(paid_data),
        "identity": called.identity,
        "findings": called.findings.iter().map(finding_data).collect::<Vec<_>>(),
    });
    Ok(Done::new(Exit::Yes, data))
}

/// Prints why there is no result. A refusal is the answer "no"; after other errors there is no answer.
pub(super) fn refuse(error: &CallError, printer: &mut Printer) -> Result<Done, Stop> {
    let failure = Failure::new(error.code(), error.to_string());
    for line in explanation(error) {
        printer.note(&line)?;
    }
    match error {
        CallError::PaidNotServed { payment: id, .. } => {
            printer
                .note(&format!("  payment {id}: `toolcrib payments resume {id}` fetches the result once the tool works again"))?;
        }
        _ => {
            if let Some(id) = error.payment() {
                printer.note(&format!("  payment {id}: `toolcrib payments resolve {id}` checks its outcome on the chain"))?;
            }
        }
    }
    let exit = exit_of(error);
    // A refusal is an answer, so it is not listed in `errors` of the envelope.
    if exit == Exit::CouldNotTell || !printer.json() {
        printer.failure(&failure)?;
    }
    let data = json!({
        "called": false,
        "code": error.code().id(),
        "message": failure.message,
        "hint": failure.what_next(),
        "payment": error.payment(),
        "asked": asked(error).map(|asked| asked.iter().map(|terms| json!({ "terms": terms, "shown": terms.shown() })).collect::<Vec<_>>()),
        "findings": findings(error).into_iter().map(finding_data).collect::<Vec<_>>(),
        "violations": violations(error).iter().map(ToString::to_string).collect::<Vec<_>>(),
        "fixed": fixed(error).iter().map(|value| json!({ "pointer": value.pointer, "value": value.value })).collect::<Vec<_>>(),
        "denial": if let CallError::Denied(denial) = error { denial_data(denial) } else { Value::Null },
    });
    Ok(Done::new(exit, data))
}

/// Converts an error of the ledger.
pub(super) fn spend_failure(error: &SpendError) -> Failure {
    Failure::new(error.code(), error.to_string())
}

pub(super) const fn exit_of(error: &CallError) -> Exit {
    match error {
        CallError::Chain(_)
        | CallError::NoChain { .. }
        | CallError::NoWallet
        | CallError::Wallet(_)
        | CallError::NoAnswer { .. }
        | CallError::Schema { .. }
        | CallError::Setting { .. }
        | CallError::Spend(SpendError::Store(_) | SpendError::Random)
        | CallError::AfterSigning { .. }
        | CallError::Indeterminate { .. }
        | CallError::PaidNotServed { .. } => Exit::CouldNotTell,
        _ => Exit::No,
    }
}

/// Details that are printed on lines of their own.
fn explanation(error: &CallError) -> Vec<String> {
    let mut lines: Vec<_> =
        findings(error).iter().map(|finding| format!("  {}: {}", finding.code, shown(&finding.message))).collect();
    lines.extend(violations(error).iter().map(|violation| format!("  {}", shown(&violation.to_string()))));
    lines.extend(fixed(error).iter().map(|value| format!("  {} = {}", shown(&value.pointer), shown(&value.value))));
    match error {
        CallError::TermsDiffer { asked, .. } | CallError::FreeAsksMoney { asked, .. } => {
            lines.extend(asked.iter().map(|terms| format!("  to agree: --agree {terms}")));
        }
        CallError::Denied(denial) => lines.extend(denial_lines(denial)),
        _ => {}
    }
    lines
}

/// Findings about the tool, or about its payment request.
fn findings(error: &CallError) -> Vec<&Finding> {
    match error {
        CallError::NotVerified { report, .. } => report.findings.iter().collect(),
        CallError::Challenge { findings }
        | CallError::TermsDiffer { findings, .. }
        | CallError::FreeAsksMoney { findings, .. } => findings.iter().collect(),
        CallError::Schema { parts } => parts.iter().flat_map(|part| &part.findings).collect(),
        _ => Vec::new(),
    }
}

/// Where input or output violates its schema.
fn violations(error: &CallError) -> &[Violation] {
    match error {
        CallError::Input { violations } | CallError::Output { violations, .. } => violations,
        _ => &[],
    }
}

/// Input values that the schema fixes.
fn fixed(error: &CallError) -> &[Prefilled] {
    match error {
        CallError::FixedValues { values } => values,
        _ => &[],
    }
}

fn denial_lines(denial: &Denial) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(predicate) = denial.predicate {
        lines.push(format!("  decided by {predicate}"));
    }
    for holding in &denial.holdings {
        let state = match holding.is_met() {
            Some(true) => "met".to_owned(),
            Some(false) => format!("has {}, needs {}", holding.held.unwrap_or_default(), holding.needed.unwrap_or_default()),
            None => "cannot be read from the chain".to_owned(),
        };
        lines.push(format!("  {}: {state}", shown(&holding.described())));
    }
    if denial.access == Some(AccessResult::Granted) {
        lines.push("  the registry grants this account access, and the server denies it".to_owned());
    }
    lines
}

fn denial_data(denial: &Denial) -> Value {
    let holdings = denial.holdings.iter().map(|holding| {
        json!({
            "label": holding.described(),
            "needed": holding.needed.map(|amount| amount.to_string()),
            "held": holding.held.map(|amount| amount.to_string()),
            "met": holding.is_met(),
        })
    });
    json!({
        "account": denial.account,
        "predicate": denial.predicate,
        "granted_by_registry": denial.access.map(|access| access == AccessResult::Granted),
        "requirements": holdings.collect::<Vec<_>>(),
        "incomplete": denial.is_incomplete,
    })
}

fn asked(error: &CallError) -> Option<&[Terms]> {
    match error {
        CallError::TermsDiffer { asked, .. } | CallError::FreeAsksMoney { asked, .. } | CallError::NotConsented { asked } => {
            Some(asked)
        }
        _ => None,
    }
}

fn paid_data(paid: &Paid) -> Value {
    json!({
        "payment": paid.id,
        "terms": paid.terms,
        "shown": paid.terms.shown(),
        "payer": paid.payer,
        "state": paid.state,
        "transaction": paid.transaction,
        "evidence": paid.evidence,
    })
}

fn finding_data(finding: &Finding) -> Value {
    json!({ "code": finding.code.id(), "message": finding.message })
}
