//! The generated pages. `UPDATE=1 cargo test` rewrites them; without it, a stale page fails the test.

use std::fmt::Write;
use std::path::Path;
use std::{env as variables, fs};

use clap::Command;
use toolcrib_core::codes;

use crate::cli::examples;
use crate::cli::groups::{GROUPS, Group, definition};
use crate::commands::help;
use crate::env;

/// Columns of the help texts on the page.
const WIDTH: usize = 100;

#[test]
fn the_pages_of_commands_are_fresh() {
    check("cli.md", &commands_index());
    for group in GROUPS {
        check(&format!("cli/{}.md", page_name(group)), &group_page(group));
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli");
    let mut pages: Vec<_> = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect();
    let mut groups: Vec<std::ffi::OsString> = GROUPS.iter().map(|group| format!("{}.md", page_name(group)).into()).collect();
    pages.sort();
    groups.sort();
    assert_eq!(pages, groups, "docs/cli has a page for each group and nothing else");
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
    let mut missing = Vec::new();
    examples::walk(&definition(), "", &mut |path, command| {
        // A command that needs another one prints nothing by itself.
        if !command.is_subcommand_required_set() && !named.contains(&path) {
            missing.push(path.to_owned());
        }
    });
    assert!(missing.is_empty(), "{missing:?}");
}

#[track_caller]
fn check(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    if variables::var_os("UPDATE").is_some_and(|value| !value.is_empty()) {
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder can be made");
        fs::write(&path, text).expect("the page can be written");
        return;
    }
    let now = fs::read_to_string(&path).unwrap_or_default();
    assert!(now == text, "docs/{name} is stale: run `UPDATE=1 cargo test -p toolcrib docs` and commit the result");
}

fn program() -> Command {
    let mut program = definition().term_width(WIDTH);
    program.build();
    program
}

/// The name of the page of a group, from its title.
fn page_name(group: &Group) -> String {
    group.title.to_lowercase().replace(' ', "-")
}

fn commands_index() -> String {
    let mut out = "# The command line\n\nGenerated from the program's own definition; see `crates/toolcrib/src/cli`.\n\n\
                   | Group | Commands |\n|---|---|\n"
        .to_owned();
    for group in GROUPS {
        let names: Vec<_> = group.commands.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(out, "| [{}](cli/{}.md) | {} |", group.title, page_name(group), names.join(", "));
    }
    section(&mut out, &program(), "toolcrib");
    for (name, text) in help::texts() {
        let _ = write!(out, "\n## toolcrib help {name}\n\n```text\n{text}\n```\n");
    }
    out += "\n## Environment\n\n| Variable | Meaning |\n|---|---|\n";
    for (name, meaning) in env::DOCUMENTED {
        let _ = writeln!(out, "| `{name}` | {meaning} |");
    }
    out
}

fn group_page(group: &Group) -> String {
    let program = program();
    let mut out = format!("# {}\n\nGenerated from the program's own definition; [all groups](../cli.md).\n", group.title);
    for name in group.commands {
        let command = program.find_subcommand(name).expect("groups name commands");
        section(&mut out, command, &format!("toolcrib {name}"));
        examples::walk(command, name, &mut |path, command| section(&mut out, command, &format!("toolcrib {path}")));
    }
    out
}

/// Writes the long help of a command. The first page shows the options that all commands share.
fn section(out: &mut String, command: &Command, title: &str) {
    let is_program = command.get_name() == "toolcrib";
    let mut own =
        command.clone().mut_args(|argument| if argument.is_global_set() && !is_program { argument.hide(true) } else { argument });
    let help = own.render_long_help().to_string();
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
