//! `budget`: spending limits and current usage.

use clap::Args;
use serde_json::json;
use toolcrib_core::clock::Clock as _;
use toolcrib_fetch::SystemClock;

use super::SpendArgs;
use super::outcome::spend_failure;
use crate::outcome::{Done, Exit, Stop};
use crate::printer::{Printer, shown};
use crate::settings::Settings;

/// Arguments of `budget`.
#[derive(Args, Debug)]
pub(crate) struct Budget {
    #[command(flatten)]
    pub(crate) purse: SpendArgs,
}

/// Shows the spend policy and the amounts that count as spent.
pub(crate) async fn run(arguments: &Budget, settings: &Settings, printer: &mut Printer) -> Result<Done, Stop> {
    let ledger = arguments.purse.open().await?;
    let totals = ledger.totals(SystemClock.now()).await.map_err(|error| spend_failure(&error))?;
    let test = ledger.test_totals(SystemClock.now()).await.map_err(|error| spend_failure(&error))?;
    let policy = &settings.spend.value;
    let rows = [
        ("per call", None, policy.per_call),
        ("without asking", None, policy.ask_above),
        ("per hour", Some(totals.hour), policy.per_hour),
        ("per day", Some(totals.day), policy.per_day),
        ("per day and recipient", None, policy.per_recipient_day),
        ("per day and tool", None, policy.per_tool_day),
        ("per day and token", None, policy.per_asset_day),
    ];
    for (name, spent, limit) in rows {
        let spent = spent.map_or_else(String::new, |spent| format!("{spent} of "));
        printer.result(&format!("{name:<22}{:>12} USDC\n", format!("{spent}{limit}")))?;
    }
    if totals.open > toolcrib_client::Usdc::ZERO {
        printer.result(&format!("{:<22}{:>12} USDC\n", "open payments", totals.open.to_string()))?;
        printer.note("`toolcrib payments --open` lists them")?;
    }
    if test.day > toolcrib_client::Usdc::ZERO {
        let day = format!("{} of {}", test.day, policy.per_day);
        printer.result(&format!("{:<22}{day:>12} USDC\n", "per day, test money"))?;
    }
    printer.detail(&format!("limits from: {}", shown(&settings.spend.origin.to_string())))?;
    Ok(Done::new(
        Exit::Yes,
        json!({ "spent": totals, "spent_test": test, "policy": policy, "from": settings.spend.origin.word() }),
    ))
}
