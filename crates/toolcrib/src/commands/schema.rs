//! `schema`: JSON Schema for editors. It covers the rules that a schema can express; `lint` checks all of them.

use serde_json::Value;
use toolcrib_core::codes;

use crate::cli::{KindName, Schema};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::Printer;

/// Runs the command.
pub(crate) fn run(arguments: &Schema, printer: &mut Printer) -> Result<Done, Stop> {
    let text = text(arguments.kind);
    printer.result(text)?;
    let data: Value = serde_json::from_str(text)
        .map_err(|error| Failure::new(codes::cli::OUTPUT, format!("the built-in schema is damaged: {error}")))?;
    Ok(Done::new(Exit::Yes, data))
}

/// The schema of a kind.
pub(crate) const fn text(kind: KindName) -> &'static str {
    match kind {
        KindName::Tool => include_str!("../../schemas/tool.schema.json"),
        KindName::Agent => include_str!("../../schemas/agent.schema.json"),
        KindName::Local => include_str!("../../schemas/local.schema.json"),
    }
}
