//! `completions` and `man`: shell completions and the manual page.

use serde_json::json;
use toolcrib_core::codes;

use crate::cli::{Completions, Man, groups};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::Printer;

/// Prints a completion script.
pub(crate) fn completions(arguments: &Completions, printer: &mut Printer) -> Result<Done, Stop> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut groups::definition(), "toolcrib", &mut script);
    finish(&script, printer)
}

/// Prints a manual page in roff.
pub(crate) fn man(arguments: &Man, printer: &mut Printer) -> Result<Done, Stop> {
    let mut program = groups::definition();
    program.build();
    let mut page = &program;
    for name in &arguments.command {
        page = page
            .find_subcommand(name)
            .ok_or_else(|| Failure::new(codes::cli::USAGE, format!("unknown command `{}`", arguments.command.join(" "))))?;
    }
    let mut roff = Vec::new();
    clap_mangen::Man::new(page.clone()).render(&mut roff)?;
    finish(&roff, printer)
}

fn finish(text: &[u8], printer: &mut Printer) -> Result<Done, Stop> {
    let text = String::from_utf8_lossy(text);
    printer.result(&text)?;
    Ok(Done::new(Exit::Yes, json!({ "text": text })))
}
