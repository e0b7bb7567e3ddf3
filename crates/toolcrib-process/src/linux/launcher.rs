//! The main function of the launcher.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::process::set_parent_process_death_signal;
use toolcrib_core::text::escape_for_display;

use super::phase::Phase;
use super::{restrict, supervise};
use crate::launch::{EXIT_NOT_STARTED, EXIT_REFUSED, Order, Stage};

/// Why a program does not run.
pub(super) enum Failure {
    /// The policy could not be applied.
    Refused(String),
    /// The program could not be executed.
    NotStarted(String),
}

/// Runs the launcher with its arguments: the instructions, `--`, the program, and its arguments.
pub(crate) fn launcher(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    Phase::Prepare.set();
    let result = parse(arguments).and_then(|(order, program, arguments)| match order.stage {
        Stage::Supervise => supervise::supervise(&order, &program, &arguments),
        Stage::Restrict => Err(restrict_and_execute(&order, &program, &arguments)),
    });
    let (phase, code, message) = match result {
        Ok(code) => return code,
        Err(Failure::Refused(message)) => (Phase::Refused, EXIT_REFUSED, message),
        Err(Failure::NotStarted(message)) => (Phase::NotStarted, EXIT_NOT_STARTED, message),
    };
    phase.set();
    // If standard error is closed, the launcher refuses all the same.
    let _ = writeln!(std::io::stderr(), "sandbox: {}", escape_for_display(&message));
    ExitCode::from(code)
}

fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<(Order, PathBuf, Vec<OsString>), Failure> {
    let refused = |message: &str| Failure::Refused(message.to_owned());
    let order = arguments.next().ok_or_else(|| refused("the order is missing"))?;
    let order = order.to_str().ok_or_else(|| refused("the order is not UTF-8"))?;
    let order = serde_json::from_str(order).map_err(|error| Failure::Refused(format!("the order cannot be read: {error}")))?;
    if arguments.next().is_none_or(|separator| separator != "--") {
        return Err(refused("the order is not followed by --"));
    }
    let program = arguments.next().ok_or_else(|| refused("the program is missing"))?;
    Ok((order, program.into(), arguments.collect()))
}

/// Restricts this process and executes the program in its place. Returns only if that fails.
fn restrict_and_execute(order: &Order, program: &Path, arguments: &[OsString]) -> Failure {
    // The parent is the init process of the namespace, and everything in it ends with it; this signal is a second safeguard.
    if let Err(error) = set_parent_process_death_signal(Some(rustix::process::Signal::KILL)) {
        return Failure::Refused(format!("parent-death signal: {error}"));
    }
    let Some(policy) = &order.policy else { return Failure::Refused("there is no policy to apply".to_owned()) };
    if let Err(message) = restrict::apply(order, policy, program) {
        return Failure::Refused(message);
    }
    let error = restrict::command(order, program, arguments).exec();
    Failure::NotStarted(format!("cannot execute {}: {error}", program.display()))
}
