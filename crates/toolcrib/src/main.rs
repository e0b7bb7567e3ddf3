//! The `toolcrib` command: arguments, settings, printing and exit codes. The rules live in `toolcrib-core`.
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod check;
mod cli;
mod commands;
#[cfg(target_os = "linux")]
mod descriptors;
#[cfg(test)]
mod docs;
mod env;
mod fix;
mod input;
mod kinds;
mod networks;
mod onchain;
mod outcome;
mod position;
mod printer;
mod report;
mod secrets;
mod settings;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::FromArgMatches;
use clap::error::ErrorKind;
use serde_json::Value;
use toolcrib_core::codes;

use crate::cli::{ChainCommand, Cli, Command, DirectoryCommand, ExplainCommand, Format, PredicateCommand};
use crate::commands::agt::AgtCommand;
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{OutputOptions, Printer};
use crate::settings::Flags;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    // Runs first: the launcher of a sandboxed program starts in about a millisecond, and has no secrets to protect.
    if arguments.get(1).is_some_and(|argument| argument == commands::local::LAUNCHER) {
        return toolcrib_process::launcher_main(arguments.into_iter().skip(2));
    }
    secrets::protect(&arguments);
    let arguments = commands::help::at_front(cli::sdk::translate(arguments));
    match parse(&arguments) {
        Ok(cli) => run(cli),
        Err(error) => refuse(&error, &arguments),
    }
    .into()
}

fn parse(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let mut definition = cli::groups::definition();
    let mut matches = definition.try_get_matches_from_mut(arguments)?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut definition))
}

fn run(cli: Cli) -> Exit {
    let Cli { global, command } = cli;
    let mut manner = OutputOptions { json: global.json, quiet: global.quiet, verbose: global.verbose, color: (false, false) };
    let resolved = settings::resolve(flags(global.color, &command));
    let settings = match resolved.and_then(|settings| networks::install(&settings.networks).map(|()| settings)) {
        Ok(settings) => settings,
        Err(failure) => return conclude(Err(failure.into()), Printer::new(manner)),
    };
    let color = settings.color.value;
    manner.color = (settings::colored(color, io::stdout().is_terminal()), settings::colored(color, io::stderr().is_terminal()));
    manner.json |=
        matches!(command, Command::Lint(_) | Command::Agt(AgtCommand::Lint(_))) && settings.format.value == Format::Json;
    let mut printer = Printer::new(manner);
    let result = match command {
        Command::Lint(arguments) => commands::lint::run(&arguments, &settings, &mut printer),
        Command::Validate(arguments) => commands::validate::run(&arguments, &settings, &mut printer),
        Command::Hash(arguments) => commands::hash::run(&arguments, &mut printer),
        Command::Canon(arguments) => commands::canon::run(&arguments, &mut printer),
        Command::Explain(arguments) => match &arguments.command {
            Some(ExplainCommand::Hash(arguments)) => reach(commands::trust::explain_hash::run(arguments, &mut printer)),
            None => commands::explain::run(&arguments, &mut printer),
        },
        Command::Schema(arguments) => commands::schema::run(&arguments, &mut printer),
        Command::New(arguments) => commands::new::run(arguments.kind.into(), &arguments.file, &mut printer),
        Command::Init(arguments) => commands::init::run(&arguments, &mut printer),
        Command::Publish(arguments) => reach(commands::onchain::publish::run(&arguments, &mut printer)),
        Command::Register(arguments) => reach(commands::onchain::write::register(&arguments, &mut printer)),
        Command::Update(arguments) => reach(commands::onchain::write::update(&arguments, &mut printer)),
        Command::Predicate(command) => match command {
            PredicateCommand::Set(arguments) => reach(commands::onchain::write::set_gate(&arguments, &mut printer)),
            PredicateCommand::Use(arguments) => reach(commands::onchain::write::set_predicate(&arguments, &mut printer)),
            PredicateCommand::Show(arguments) => reach(commands::onchain::look::show_predicate(&arguments, &mut printer)),
            PredicateCommand::Check(arguments) => reach(commands::onchain::look::access(&arguments, &mut printer)),
            PredicateCommand::Requirements(arguments) => reach(commands::onchain::look::requirements(&arguments, &mut printer)),
        },
        Command::Pause(arguments) => reach(commands::onchain::pause::pause(&arguments, &mut printer)),
        Command::Resume(arguments) => reach(commands::onchain::pause::resume(&arguments, &mut printer)),
        Command::Deregister(arguments) => reach(commands::onchain::write::deregister(&arguments, &mut printer)),
        Command::Inspect(arguments) => reach(commands::onchain::look::inspect(&arguments, &mut printer)),
        Command::Verify(arguments) => reach(commands::trust::verify::run(&arguments, &mut printer)),
        Command::Diff(arguments) => reach(commands::trust::diff::run(&arguments, &mut printer)),
        Command::Watch(arguments) => reach(commands::trust::watch::run(&arguments, &mut printer)),
        Command::Probe(arguments) => reach(commands::trust::probe::run(&arguments, &mut printer)),
        Command::Serve(arguments) => reach_at_once(commands::serving::serve::run(&arguments, &mut printer)),
        Command::DryRunGate(arguments) => reach(commands::serving::dry_run::run(&arguments, &mut printer)),
        Command::Call(arguments) => reach(commands::calling::call::run(&arguments, &settings, &mut printer)),
        Command::Pay(arguments) => reach(commands::calling::pay::run(&arguments, &settings, &mut printer)),
        Command::Auth(arguments) => reach(commands::calling::pay::auth(&arguments, &settings, &mut printer)),
        Command::Mcp(arguments) => reach_at_once(commands::calling::mcp::run(&arguments, &settings, &mut printer)),
        Command::Payments(arguments) => reach(commands::calling::payments::run(&arguments, &settings, &mut printer)),
        Command::Budget(arguments) => reach(commands::calling::budget::run(&arguments, &settings, &mut printer)),
        Command::Tools(command) => reach(commands::discovery::tools::run(&command, &settings, &mut printer)),
        Command::Index(arguments) => match &arguments.command {
            Some(command) => reach(commands::discovery::index::run(command, &mut printer)),
            None => reach_at_once(commands::hosting::index::run(&arguments.run, &mut printer)),
        },
        Command::Directory(arguments) => match &arguments.command {
            Some(DirectoryCommand::Keys(command)) => reach(commands::discovery::keys::run(command, &mut printer)),
            None => reach_at_once(commands::hosting::directory::run(&arguments.serve, &settings, &mut printer)),
        },
        Command::Dev(arguments) => reach_at_once(commands::dev::run(&arguments, &mut printer)),
        Command::Chain(ChainCommand::Dev(arguments)) => reach(commands::dev::chain::run(&arguments, &mut printer)),
        Command::Contracts(command) => reach(commands::onchain::contracts::run(&command, &mut printer)),
        Command::Wallet(command) => commands::onchain::wallet::run(&command, &mut printer),
        Command::Agt(command) => reach_at_once(commands::agt::run(&command, &settings, &mut printer)),
        Command::Local(command) => reach_at_once(commands::local::run(&command, &mut printer)),
        Command::Secret(command) => commands::local::secret::run(&command, &mut printer),
        Command::Permit(command) => commands::local::permit::run(&command, &mut printer),
        Command::ToolHttpFetch => reach(commands::local::serve_http_fetch()),
        Command::Config => commands::config::run(&settings, &mut printer),
        Command::Completions(arguments) => commands::shell::completions(&arguments, &mut printer),
        Command::Man(arguments) => commands::shell::man(&arguments, &mut printer),
        Command::Help(arguments) => match commands::help::run(&arguments, &mut printer) {
            Ok(done) => done,
            Err(error) => return refuse(&error, &["toolcrib", "--json"].map(OsString::from)[..1 + usize::from(global.json)]),
        },
        Command::Deploy(_) => Err(commands::help::deploy().into()),
    };
    conclude(result, printer)
}

/// Runs a command with network requests of its own on one thread.
fn reach(command: impl Future<Output = Result<Done, Stop>>) -> Result<Done, Stop> {
    within(tokio::runtime::Builder::new_current_thread(), command)
}

/// Runs a command that serves many clients, on all cores.
fn reach_at_once(command: impl Future<Output = Result<Done, Stop>>) -> Result<Done, Stop> {
    within(tokio::runtime::Builder::new_multi_thread(), command)
}

fn within(mut builder: tokio::runtime::Builder, command: impl Future<Output = Result<Done, Stop>>) -> Result<Done, Stop> {
    match builder.enable_all().build() {
        Ok(runtime) => runtime.block_on(command),
        Err(error) => Err(Failure::new(codes::cli::OUTPUT, format!("cannot start the async runtime: {error}")).into()),
    }
}

/// The settings that the command line gives.
const fn flags(color: Option<cli::Color>, command: &Command) -> Flags {
    let (what, format) = match command {
        Command::Lint(arguments) | Command::Agt(AgtCommand::Lint(arguments)) => (Some(&arguments.what), arguments.format),
        Command::Validate(arguments) => (Some(&arguments.what), None),
        _ => (None, None),
    };
    match what {
        Some(what) => Flags { color, format, deny_warnings: what.deny_warnings, role: what.role },
        None => Flags { color, format, deny_warnings: None, role: None },
    }
}

/// Flushes the output and returns the exit code.
fn conclude(result: Result<Done, Stop>, mut printer: Printer) -> Exit {
    let closed = match result {
        Ok(done) | Err(Stop::Done(done)) => printer.finish(done.exit, &done.data).map(|()| done.exit).map_err(Stop::from),
        Err(stop) => Err(stop),
    };
    match closed {
        Ok(exit) | Err(Stop::Done(Done { exit, .. })) => exit,
        Err(Stop::BrokenPipe) => {
            if let Some(how) = printer.recovery().map(ToOwned::to_owned) {
                // The reader may need only a part of the output, which is not an error. The way to get a paid result again is printed all
                // the same.
                let _ = printer.note(&format!("the reader closed the pipe before the end of the result; {how}"));
            }
            Exit::Yes
        }
        Err(Stop::Failure(mut failure)) => {
            if let Some(how) = printer.recovery().filter(|_| failure.code == codes::cli::OUTPUT) {
                failure = failure.hint(how);
            }
            // If this cannot be written either, only the exit code remains.
            let told = printer.failure(&failure).and_then(|()| printer.finish(Exit::CouldNotTell, &Value::Null));
            if told.is_err() && printer.json() {
                let _ = printer.failure_as_text(&failure);
            }
            Exit::CouldNotTell
        }
    }
}

/// Handles a command line that clap rejected, or that asked for help.
fn refuse(error: &clap::Error, arguments: &[OsString]) -> Exit {
    let text = error.render();
    let is_help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if !is_help && cli::wants_json(arguments) {
        let plain = text.to_string();
        let message = plain.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let printer = Printer::new(OutputOptions { json: true, ..OutputOptions::default() });
        return conclude(Err(Failure::new(codes::cli::USAGE, message).into()), printer);
    }
    let color = std::env::var_os(env::NO_COLOR).is_none_or(|value| value.is_empty());
    let is_terminal = if is_help { io::stdout().is_terminal() } else { io::stderr().is_terminal() };
    let text = if settings::colored(cli::Color::Auto, color && is_terminal) { text.ansi().to_string() } else { text.to_string() };
    let written = if is_help {
        io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush())
    } else {
        io::stderr().write_all(text.as_bytes())
    };
    match written.map_err(Stop::from) {
        Err(Stop::Failure(_)) => Exit::CouldNotTell,
        _ if is_help => Exit::Yes,
        _ => Exit::CouldNotTell,
    }
}
