//! `canon`: prints the canonical form.

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
        let signing = document.signing_payload().filter(|_| arguments.for_signing);
        let answer = match &document.canonical {
            _ if arguments.for_signing => signing.as_ref().map(|payload| (payload.as_str(), payload.digest())),
            Some(canonical) => Some((canonical.as_str(), canonical.hash())),
            None => None,
        };
        match answer {
            None => exit = Exit::No,
            Some((text, hash)) => {
                printer.document(text)?;
                data = json!({ "canonical": text, "hash": hash.to_string() });
            }
        }
    }
    Ok(Done::new(exit, data))
}
