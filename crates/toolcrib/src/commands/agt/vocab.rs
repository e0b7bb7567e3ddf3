//! `agt vocab`: the vocabulary of the specification.

use clap::Args;
use serde_json::json;
use toolcrib_core::agent::vocabulary::{self, AUTH_SCHEMES, CAPABILITIES, Category, PROTOCOLS, UNITS};

use crate::outcome::{Done, Exit, Stop};
use crate::printer::{Printer, shown};

/// Arguments of `agt vocab`.
#[derive(Args, Debug)]
pub(crate) struct Vocab {
    /// Filter capabilities by text in id, group or description
    #[arg(value_name = "TEXT")]
    pub(crate) text: Option<String>,
}

/// Lists the vocabulary.
pub(crate) fn run(arguments: &Vocab, printer: &mut Printer) -> Result<Done, Stop> {
    let wanted = arguments.text.as_deref().unwrap_or_default().to_lowercase();
    let is_wanted = |one: &&vocabulary::KnownCapability| {
        [one.id, one.category.title(), one.description].iter().any(|text| text.to_lowercase().contains(&wanted))
    };
    let found: Vec<_> = CAPABILITIES.iter().filter(is_wanted).collect();
    for category in Category::ALL {
        let mut entries = found.iter().filter(|one| one.category == category).peekable();
        if entries.peek().is_some() {
            printer.result(&format!("{category}\n"))?;
        }
        for one in entries {
            printer.result(&format!("  {:<24} {}\n", one.id, one.description))?;
        }
    }
    if wanted.is_empty() {
        printer.result("Protocols\n")?;
        for one in PROTOCOLS {
            printer.result(&format!("  {:<24} {}\n", one.id, one.description))?;
        }
        printer.result(&format!("Authentication hints\n  {}\nUnits\n  {}\n", AUTH_SCHEMES.join(", "), UNITS.join(", ")))?;
    } else if found.is_empty() {
        let near = vocabulary::resembles(&wanted, CAPABILITIES.iter().map(|one| one.id));
        let hint = near.map(|near| format!("; did you mean {}?", near.known())).unwrap_or_default();
        printer.complaint(&format!("no known capability matches `{}`{hint}; custom ids are allowed\n", shown(&wanted)))?;
    }
    let capabilities: Vec<_> = found
        .iter()
        .map(|one| json!({ "id": one.id, "category": one.category.title(), "description": one.description }))
        .collect();
    let protocols: Vec<_> = PROTOCOLS.iter().map(|one| json!({ "id": one.id, "description": one.description })).collect();
    let exit = if found.is_empty() { Exit::No } else { Exit::Yes };
    let data = json!({ "capabilities": capabilities, "protocols": protocols, "auth": AUTH_SCHEMES, "units": UNITS });
    Ok(Done::new(exit, data))
}
