//! `init`: a starting file, or a whole project that serves a tool.
//!
//! The files of a project are in `templates/axum`. The types that they share with this program are compiled into it: the manifest that is
//! written here is built from the types of the project, so the two always agree.

mod project;
mod render;

use clap::{Args, ValueEnum};

pub(crate) use project::price;

use crate::cli::Init;
use crate::commands::new;
use crate::kinds::ManifestKind;
use crate::outcome::{Done, Stop};
use crate::printer::Printer;

/// Arguments of `init`.
#[derive(Args, Debug)]
pub(crate) struct InitTool {
    #[command(flatten)]
    pub(crate) file: Init,
    #[command(flatten)]
    pub(crate) project: Project,
    /// Accepted for users of the reference SDK: this command never asks
    #[arg(long, hide = true)]
    pub(crate) no_interactive: bool,
}

/// What is made beside a manifest.
#[derive(Args, Debug)]
#[command(next_help_heading = "Project options")]
pub(crate) struct Project {
    /// Create a project that serves the tool; implied by the options below
    #[arg(long, value_name = "RUNTIME")]
    pub(crate) runtime: Option<Runtime>,
    /// Access: `open`, `predicate`, or `nft:0x…` (a collection)
    #[arg(long, value_name = "GATE")]
    pub(crate) gate: Option<String>,
    /// Price per call in USDC, such as 0.01
    #[arg(long, value_name = "AMOUNT")]
    pub(crate) price: Option<String>,
    /// Recipient of payments [default: the creator]
    #[arg(long, value_name = "0x…", requires = "price")]
    pub(crate) recipient: Option<String>,
    /// Network of tool and price [default: local]
    #[arg(long, value_name = "NAME")]
    pub(crate) network: Option<String>,
    /// Public origin of the tool [default: a name below localhost]
    #[arg(long, value_name = "URL")]
    pub(crate) origin: Option<String>,
    /// Source of Toolcrib's crates [default: path]
    #[arg(long, value_name = "SOURCE")]
    pub(crate) toolcrib_source: Option<Supply>,
}

/// What a project is built on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Runtime {
    /// Rust, on axum
    Axum,
}

/// Where a project takes Toolcrib's crates from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Supply {
    /// The checkout that this program was built from
    Path,
    /// The public repository
    Git,
    /// crates.io
    Registry,
}

impl Project {
    /// Whether an option of a project was given.
    const fn is_meant(&self) -> bool {
        self.runtime.is_some()
            || self.gate.is_some()
            || self.price.is_some()
            || self.network.is_some()
            || self.origin.is_some()
            || self.toolcrib_source.is_some()
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &InitTool, printer: &mut Printer) -> Result<Done, Stop> {
    if arguments.project.is_meant() {
        return project::run(&arguments.file, &arguments.project, printer);
    }
    new::run(ManifestKind::Tool, &arguments.file, printer)
}
