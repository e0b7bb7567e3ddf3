//! `canon`: the canonical form itself.

use serde_json::json;

use super::hash::Document;
use crate::cli;
use crate::input;
use crate::outcome::{Done, Exit, Stop};
use crate::printer::Printer;

/// Runs the command.
pub(crate) fn run(arguments: &cli::Document, printer: &mut Printer) -> Result<Done, Stop> {
    let paths: Vec<_> = arguments.path.iter().cloned().collect();
    let mut exit = Exit::Yes;
    let mut data = json!(null);
    for source in input::documents(&paths, printer)? {
        let document = Document::read(source)?;
        document.print_obstacles(printer)?;
        match &document.canonical {
            None => exit = Exit::No,
            Some(canonical) => {
                printer.document(canonical.as_str())?;
                data = json!({ "canonical": canonical.as_str(), "hash": canonical.hash().to_string() });
            }
        }
    }
    Ok(Done::new(exit, data))
}
