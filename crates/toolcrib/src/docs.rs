//! The generated pages. `UPDATE=1 cargo test` rewrites them; without it, a stale page fails the test.

use std::fmt::Write;
use std::path::Path;
use std::{env as variables, fs};

use clap::{Command, CommandFactory};
use toolcrib_core::codes;

use crate::cli::Cli;
use crate::env;

/// Columns of the help texts on the page.
const WIDTH: usize = 100;

#[test]
fn the_page_of_commands_is_fresh() {
    check("cli.md", &commands_page());
}

#[test]
fn the_page_of_codes_is_fresh() {
    check("codes.md", &codes_page());
}

#[test]
fn the_page_of_output_has_every_command() {
    let page = include_str!("../../../docs/output.md");
    let rows: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next()).collect();
    let named: Vec<_> = rows.iter().flat_map(|row| row.split(", ")).map(|name| name.trim_matches('`')).collect();
    let program = Cli::command();
    let mut missing = Vec::new();
    for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = command.get_name();
        for below in command.get_subcommands() {
            let full = format!("{name} {}", below.get_name());
            missing.extend((!named.contains(&full.as_str())).then_some(full));
        }
        // A command that needs another one prints nothing by itself.
        if !command.is_subcommand_required_set() && !named.contains(&name) {
            missing.push(name.to_owned());
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[track_caller]
fn check(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    if variables::var_os("UPDATE").is_some_and(|value| !value.is_empty()) {
        fs::write(&path, text).expect("the page can be written");
        return;
    }
    let now = fs::read_to_string(&path).unwrap_or_default();
    assert!(now == text, "docs/{name} is stale: run `UPDATE=1 cargo test -p toolcrib docs` and commit the result");
}

fn commands_page() -> String {
    let mut program = Cli::command().term_width(WIDTH);
    program.build();
    let mut out = "# The command line\n\nMade from the program's own definition; see `crates/toolcrib/src/cli.rs`.\n".to_owned();
    section(&mut out, &mut program, "toolcrib");
    let names: Vec<String> = program.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    for name in names.iter().filter(|name| *name != "help") {
        if let Some(command) = program.find_subcommand(name) {
            // The first section has shown the options that all commands share.
            let mut own =
                command.clone().mut_args(|argument| if argument.is_global_set() { argument.hide(true) } else { argument });
            section(&mut out, &mut own, &format!("toolcrib {name}"));
        }
    }
    out += "\n## Settings\n\nA flag comes before the environment, that before `toolcrib.toml` (searched from the working folder \
            upward),\nthat before the user's file, and that before the default. `toolcrib config` shows the outcome.\n\n\
            ```toml\ncolor = \"auto\"         # auto, always, never\nformat = \"human\"       # human, json, sarif, github\n\
            deny_warnings = false  # true: warnings make lint and validate answer no\n\
            as = \"producer\"        # producer, consumer\n\
            directory = \"https://…\"  # the directory that tools asks; in the user's file alone\n\
            embedding = \"/…\"        # the folder of a static embedding for searches; in the user's file alone\n```\n";
    out += "\n## Environment\n\n| Variable | Meaning |\n|---|---|\n";
    for (name, meaning) in env::DOCUMENTED {
        let _ = writeln!(out, "| `{name}` | {meaning} |");
    }
    out
}

fn section(out: &mut String, command: &mut Command, title: &str) {
    let help = command.render_long_help().to_string();
    let help: Vec<_> = help.lines().map(str::trim_end).collect();
    let _ = write!(out, "\n## {title}\n\n```text\n{}\n```\n", help.join("\n").trim_end());
}

fn codes_page() -> String {
    let mut out = "# Codes\n\nEvery finding and every error has one of these codes. Generated from the table in \
                   `crates/toolcrib-core/src/codes`;\n`toolcrib explain CODE` shows the same.\n"
        .to_owned();
    let mut group = "";
    for code in codes::all() {
        let info = code.info();
        let of = info.id.split('.').next().unwrap_or_default();
        if of != group {
            group = of;
            let _ = writeln!(out, "\n## {group}");
        }
        let check = info.check.map_or(String::new(), |check| format!(", fails check {check} of ERC-8257 §7"));
        let _ = write!(
            out,
            "\n### `{}`\n\n{} ({}{check}). {}\n\nWhat to do: {}.\n\nSource: {}.\n",
            info.id,
            capital(info.title),
            info.severity,
            info.explanation,
            info.hint,
            info.spec
        );
    }
    out
}

/// The text with its first letter as a capital.
fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}
