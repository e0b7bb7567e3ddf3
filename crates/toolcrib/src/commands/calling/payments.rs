//! `payments`: lists payments, and reconciles those whose response was lost.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use toolcrib_client::ledger::{Entry, Evidence};
use toolcrib_client::{PaymentId, Resolution, Terms};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes;
use toolcrib_core::time::format_rfc3339;

use super::SpendArgs;
use super::outcome::{conclude, refuse, spend_failure};
use super::session::equipped;
use crate::commands::trust::EgressArgs;
use crate::onchain::{OnChain, Signing};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};
use crate::settings::Settings;

/// Default number of listed payments.
const USUAL_LIMIT: usize = 20;

/// Arguments of `payments`.
#[derive(Args, Debug)]
pub(crate) struct Payments {
    #[command(subcommand)]
    pub(crate) what: Option<PaymentsCommand>,
    /// Maximum number of payments
    #[arg(long, value_name = "N", default_value_t = USUAL_LIMIT)]
    pub(crate) limit: usize,
    /// List only payments with an open outcome
    #[arg(long)]
    pub(crate) open: bool,
    #[command(flatten)]
    pub(crate) purse: SpendArgs,
}

/// What to do with a payment.
#[derive(Debug, Subcommand)]
pub(crate) enum PaymentsCommand {
    /// Show a payment
    Show(Shown),
    /// Find out the outcome of a payment on the chain
    Resolve(One),
    /// Present a payment again to get the result; nothing new is signed
    Resume(One),
}

/// One payment.
#[derive(Args, Debug)]
pub(crate) struct One {
    /// Payment id, from `payments`
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) onchain: OnChain,
    #[command(flatten)]
    pub(crate) purse: SpendArgs,
    #[command(flatten)]
    pub(crate) reach: EgressArgs,
}

/// One payment, as the ledger has it.
#[derive(Args, Debug)]
pub(crate) struct Shown {
    /// Payment id, from `payments`
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) purse: SpendArgs,
}

/// Lists payments, or acts on one.
pub(crate) async fn run(arguments: &Payments, settings: &Settings, printer: &mut Printer) -> Result<Done, Stop> {
    match &arguments.what {
        None => list(arguments, printer).await,
        Some(PaymentsCommand::Show(one)) => show(one, printer).await,
        Some(PaymentsCommand::Resolve(one)) => resolve(one, settings, printer).await,
        Some(PaymentsCommand::Resume(one)) => resume(one, settings, printer).await,
    }
}

async fn list(arguments: &Payments, printer: &mut Printer) -> Result<Done, Stop> {
    let ledger = arguments.purse.open().await?;
    let entries = if arguments.open { ledger.open_payments(arguments.limit).await } else { ledger.newest(arguments.limit).await };
    let entries = entries.map_err(|error| spend_failure(&error))?;
    for entry in &entries {
        let what = entry.spend.tool.map_or_else(|| entry.spend.origin.to_string(), |tool| tool.to_string());
        // Only payments without confirmation from the chain are marked.
        let unchecked =
            if entry.evidence() == Some(Evidence::Server) { format!("  ({})", Evidence::Server) } else { String::new() };
        printer.result(&format!(
            "{}  {:<8}  {:>10}  {}{unchecked}\n",
            entry.id,
            entry.state.to_string(),
            entry.spend.amount.to_string(),
            shown(&what)
        ))?;
        if !entry.note.is_empty() {
            printer.detail(&format!("  {}", shown(&entry.note)))?;
        }
    }
    if entries.is_empty() {
        printer.note("no payments")?;
    }
    Ok(Done::new(Exit::Yes, json!({ "payments": entries.iter().map(data).collect::<Vec<_>>() })))
}

async fn show(one: &Shown, printer: &mut Printer) -> Result<Done, Stop> {
    let (id, entry) = find(&one.id, &one.purse).await?;
    let spend = &entry.spend;
    let what = spend.tool.map_or_else(|| spend.origin.to_string(), |tool| tool.to_string());
    let settlement = match (entry.evidence(), entry.transaction) {
        (Some(evidence), Some(transaction)) => format!("{transaction}, {evidence}"),
        (Some(evidence), None) => evidence.to_string(),
        (None, _) => "none known".to_owned(),
    };
    let result = match (entry.is_resumable(), entry.redeemable_until) {
        (true, Some(until)) => format!("`toolcrib payments resume {id}` fetches it, until {}", time(until)),
        (true, None) => format!("`toolcrib payments resume {id}` fetches it, if the server has it"),
        (false, _) => "cannot be fetched again".to_owned(),
    };
    let rows = [
        ("payment", id.to_string()),
        ("state", entry.state.to_string()),
        ("terms", terms_of(&entry).shown()),
        ("payer", spend.payer.to_string()),
        ("for", shown(&what)),
        ("begun", time(entry.created_at)),
        ("changed", time(entry.updated_at)),
        ("settlement", settlement),
        ("result", result),
        ("note", shown(&entry.note)),
    ];
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        printer.result(&format!("{name:<12}{value}\n"))?;
    }
    Ok(Done::new(Exit::Yes, data(&entry)))
}

async fn resolve(one: &One, settings: &Settings, printer: &mut Printer) -> Result<Done, Stop> {
    let (id, entry) = find(&one.id, &one.purse).await?;
    let chain = one.onchain.chain_by_id(entry.spend.chain, printer).await?;
    let client = one.purse.client(&one.reach, settings).await?.chain(chain).build();
    let resolution = match client.resolve(id).await {
        Ok(resolution) => resolution,
        Err(error) => return refuse(&error, printer),
    };
    let (word, exit, transaction) = match resolution {
        Resolution::Settled(transaction) => ("settled", Exit::Yes, transaction),
        Resolution::Released => ("released", Exit::Yes, None),
        // The authorization may still be used, so the answer is "no" rather than an error.
        _ => ("open", Exit::No, None),
    };
    let shown = transaction.map_or_else(String::new, |hash| format!(" in {hash}"));
    printer.result(&format!("{id} {word}{shown}\n"))?;
    // The server may still have the result of a payment whose response was lost.
    let resumable = word == "settled" && find(&one.id, &one.purse).await?.1.is_resumable();
    if resumable {
        printer.note(&format!("`toolcrib payments resume {id}` fetches the result, while the server keeps it"))?;
    }
    Ok(Done::new(exit, json!({ "payment": id, "state": word, "transaction": transaction, "resumable": resumable })))
}

async fn resume(one: &One, settings: &Settings, printer: &mut Printer) -> Result<Done, Stop> {
    let (id, entry) = find(&one.id, &one.purse).await?;
    let chain = entry.spend.tool.map_or(entry.spend.chain, |tool| tool.chain);
    let chain = one.onchain.chain_by_id(chain, printer).await?;
    let nobody = Signing { wallet: None, password_fd: None, key_fd: None, mnemonic_fd: None, dev_account: None };
    let client = equipped(one.purse.client(&one.reach, settings).await?, &nobody, Some(chain))?;
    conclude(client.resume(id).await, printer)
}

async fn find(id: &str, purse: &SpendArgs) -> Result<(PaymentId, Entry), Stop> {
    let id = PaymentId::parse(id).ok_or_else(|| {
        Failure::new(codes::cli::USAGE, format!("`{id}` is not a payment")).hint("`toolcrib payments` lists them")
    })?;
    let entry = purse.open().await?.entry(id).await.map_err(|error| spend_failure(&error))?;
    Ok((id, entry))
}

fn time(at: UnixTime) -> String {
    format_rfc3339(at).unwrap_or_else(|| at.to_string())
}

fn terms_of(entry: &Entry) -> Terms {
    let spend = &entry.spend;
    Terms { chain: spend.chain, asset: spend.asset, amount: spend.amount.amount(), pay_to: spend.recipient }
}

fn data(entry: &Entry) -> Value {
    let spend = &entry.spend;
    let terms = terms_of(entry);
    json!({
        "payment": entry.id,
        "state": entry.state,
        "amount": spend.amount,
        "terms": terms,
        "shown": terms.shown(),
        "payer": spend.payer,
        "tool": spend.tool.map(|tool| tool.to_string()),
        "origin": spend.origin.to_string(),
        "created_at": entry.created_at,
        "updated_at": entry.updated_at,
        "valid_before": entry.valid_before,
        "transaction": entry.transaction,
        "evidence": entry.evidence(),
        "resumable": entry.is_resumable(),
        "redeemable_until": entry.redeemable_until,
        "note": entry.note,
    })
}
