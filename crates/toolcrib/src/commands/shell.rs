//! `completions` and `man`: what a shell and `man` need to know about this program.

use clap::CommandFactory;
use serde_json::json;
use toolcrib_core::codes;

use crate::cli::{Cli, Completions, Man};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::Printer;

/// Prints a completion script.
pub(crate) fn completions(arguments: &Completions, printer: &mut Printer) -> Result<Done, Stop> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "toolcrib", &mut script);
    finish(&script, printer)
}

/// Prints a manual page in roff.
pub(crate) fn man(arguments: &Man, printer: &mut Printer) -> Result<Done, Stop> {
    let mut program = Cli::command();
    program.build();
    let page = match &arguments.command {
        None => program,
        Some(name) => program
            .find_subcommand(name)
            .cloned()
            .ok_or_else(|| Failure::new(codes::cli::USAGE, format!("there is no command `{name}`")))?,
    };
    let mut roff = Vec::new();
    clap_mangen::Man::new(page).render(&mut roff)?;
    finish(&roff, printer)
}

fn finish(text: &[u8], printer: &mut Printer) -> Result<Done, Stop> {
    let text = String::from_utf8_lossy(text);
    printer.result(&text)?;
    Ok(Done::new(Exit::Yes, json!({ "text": text })))
}
