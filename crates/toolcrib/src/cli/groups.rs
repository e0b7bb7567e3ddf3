//! The groups of commands that `toolcrib --help` shows, and the finished definition of the command line.
//!
//! clap lists subcommands without headings, so the list is part of the help template here. `docs/cli` has a page for each group.

use std::fmt::Write;

use clap::{Arg, Command, CommandFactory};

use super::examples;
use crate::cli::Cli;

/// Commands that belong together. `docs/cli` has a page for each group.
#[derive(Debug)]
pub(crate) struct Group {
    /// Heading in the help.
    pub(crate) title: &'static str,
    /// Top-level commands, in the order of the help.
    pub(crate) commands: &'static [&'static str],
    /// One command line for the long help.
    pub(crate) example: &'static str,
}

/// Every visible top-level command is in exactly one of these.
pub(crate) const GROUPS: &[Group] = &[
    Group {
        title: "Author",
        commands: &["init", "new", "lint", "validate", "hash", "canon", "schema", "explain"],
        example: "toolcrib lint my-tool.json --fix",
    },
    Group {
        title: "Onchain",
        commands: &["publish", "register", "update", "inspect", "predicate", "pause", "resume", "deregister", "contracts"],
        example: "toolcrib publish my-tool.json --network base --wallet main --metadata https://tools.example.com/x.json",
    },
    Group { title: "Trust", commands: &["verify", "diff", "watch", "probe"], example: "toolcrib verify 7 --network base" },
    Group {
        title: "Call and pay",
        commands: &["call", "pay", "auth", "payments", "budget", "mcp"],
        example: "toolcrib call 7 --network base --wallet main --input @input.json",
    },
    Group {
        title: "Serve",
        commands: &["serve", "dry-run-gate"],
        example: "toolcrib serve my-tool.json --upstream http://127.0.0.1:3000/",
    },
    Group {
        title: "Discover and run",
        commands: &["tools", "directory", "index"],
        example: "toolcrib tools search --query 'tides at a harbour'",
    },
    Group { title: "Agents", commands: &["agt"], example: "toolcrib agt resolve rain.agt" },
    Group {
        title: "Local tools",
        commands: &["local", "permit", "secret"],
        example: "toolcrib local list --tools examples/tools",
    },
    Group { title: "Development", commands: &["dev", "chain"], example: "toolcrib dev" },
    Group {
        title: "Settings",
        commands: &["wallet", "config", "completions", "man", "help"],
        example: "toolcrib wallet new main",
    },
];

/// Options that `-h` leaves out where a command has more than [`SHORT`] of its own. `--help` has all of them.
const RARE: &[&str] = &[
    "access-data",
    "access-predicate",
    "ack-const",
    "address-header",
    "agree",
    "agt-at-once",
    "agt-gateway",
    "agt-rpc-url",
    "agt-source",
    "aid-version",
    "all-of",
    "allow-contract-owner",
    "allow-credentials",
    "allow-origin",
    "allow-unchecked",
    "allow-undeployed",
    "allow-unsandboxed",
    "allowlist",
    "any-of",
    "arg",
    "at-once",
    "author",
    "bazaar-probes",
    "behind-proxy",
    "body",
    "bound-only",
    "calldata",
    "car",
    "cdn-max-age",
    "check-headers",
    "closed",
    "collection",
    "collections",
    "compare-tools",
    "contract-accounts",
    "dag-pb",
    "delegate-for",
    "dev-account",
    "dev-ca",
    "downgrade",
    "embedding",
    "envelope",
    "erc1155-gate",
    "erc20-gate",
    "exit-after",
    "explain",
    "facilitator-auth-env",
    "fee",
    "fields",
    "finalized",
    "from-block",
    "header-env",
    "host",
    "icon",
    "identity",
    "include-unverified",
    "ipfs-gateway",
    "isolate",
    "keep-changes",
    "kept-payments",
    "kept-results",
    "key-fd",
    "largest-result",
    "ledger",
    "log-arguments",
    "max-lines",
    "max-read-age",
    "max-read-lag",
    "metrics",
    "min",
    "min-tier",
    "mnemonic-fd",
    "no-follow",
    "no-instant-keys",
    "no-memory",
    "no-metrics",
    "no-sandbox",
    "no-sign-in-with-x",
    "node",
    "objects",
    "open",
    "operator",
    "package-url",
    "pass-env",
    "password-fd",
    "per-second",
    "policy",
    "predicate",
    "preview",
    "provider",
    "rate",
    "rate-account",
    "rate-address",
    "read-store",
    "recheck",
    "recipient",
    "registry",
    "registry-chain",
    "registry-code",
    "replicas",
    "resume",
    "rollback",
    "salt",
    "second-reads",
    "server-name",
    "settle",
    "settle-first",
    "settle-locally",
    "sign-in",
    "siwe",
    "skip-fetch",
    "snapshot-every",
    "sole-recipient",
    "state-dir",
    "subscription-gate",
    "sync-log",
    "time",
    "timeout",
    "title",
    "tls-cert",
    "tls-key",
    "trait-gate",
    "trait-key",
    "trait-value",
    "trust-anchors",
    "trust-facilitator",
    "txt-argument",
    "txt-command",
    "unbound",
    "unlisted",
    "unnumbered",
    "usage-url",
    "wallet-factory",
    "zone",
];

/// Options of single commands that `-h` leaves out.
const RARE_OF: &[(&str, &str)] = &[("local publish", "facilitator"), ("local publish", "out"), ("local publish", "store")];

/// Most options that `-h` shows for a command, besides `--help` and the global ones.
const SHORT: usize = 10;

/// Returns the command line with groups, short help and examples. Arguments are parsed with it, and help, completions and pages are
/// generated from it.
pub(crate) fn definition() -> Command {
    let program = finish(Cli::command(), "");
    let (short, long) = closing(&program);
    let template = template(&program);
    program.help_template(template).after_help(short).after_long_help(long)
}

/// Adds examples to a command and those below it, and shortens `-h`.
fn finish(command: Command, path: &str) -> Command {
    let command = command.mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name()).trim_start().to_owned();
        finish(below, &path)
    });
    let own = command.get_arguments().filter(|argument| is_own_option(argument)).count();
    let is_rare = |option: &Arg| option.get_long().is_some_and(|long| RARE.contains(&long) || RARE_OF.contains(&(path, long)));
    let command = match own > SHORT {
        true => command.mut_args(|option| if is_rare(&option) { option.hide_short_help(true) } else { option }),
        false => command,
    };
    let Some(examples) = examples::of(path) else { return command };
    let long = match command.get_after_long_help() {
        Some(text) => format!("{text}\n\n{examples}"),
        None => examples.clone(),
    };
    command.after_help(examples).after_long_help(long)
}

/// Whether help lists this as an option of the command itself.
fn is_own_option(argument: &Arg) -> bool {
    let is_common = argument.is_global_set() || ["help", "version"].contains(&argument.get_id().as_str());
    argument.get_long().is_some() && !argument.is_hide_set() && !is_common
}

/// The help template of the program: clap's default, with the list of commands by group.
fn template(program: &Command) -> String {
    let (header, literal) = (program.get_styles().get_header(), program.get_styles().get_literal());
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    let width = GROUPS.iter().flat_map(|group| group.commands).map(|name| name.len()).max().unwrap_or_default();
    for group in GROUPS {
        let _ = write!(text, "\n{header}{}:{header:#}\n", group.title);
        for name in group.commands {
            let about = program.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
            let _ = writeln!(text, "  {literal}{name:width$}{literal:#}  {}", about.unwrap_or_default());
        }
    }
    let _ = write!(text, "\n{header}Options:{header:#}\n{{options}}{{after-help}}");
    text
}

/// What follows the options in `-h` and in `--help`.
fn closing(program: &Command) -> (String, String) {
    let header = program.get_styles().get_header();
    let more = "`toolcrib help COMMAND` shows a command, `toolcrib help topics` lists further topics.\n\
                Exit codes: 0 yes, 1 no, 2 could not tell, 3 rate limited; see `toolcrib help exit-codes`.\n\
                The result goes to stdout, everything else to stderr.";
    let examples: String = GROUPS.iter().map(|group| format!("\n  {}", group.example)).collect();
    (more.to_owned(), format!("{header}Examples:{header:#}{examples}\n\n{more}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        definition().debug_assert();
    }

    #[test]
    fn every_visible_command_is_in_exactly_one_group() {
        let program = definition();
        let visible: Vec<_> = program.get_subcommands().filter(|command| !command.is_hide_set()).map(Command::get_name).collect();
        let grouped: Vec<_> = GROUPS.iter().flat_map(|group| group.commands.iter().copied()).collect();
        let sorted = |names: &[&str]| {
            let mut names: Vec<_> = names.iter().map(ToString::to_string).collect();
            names.sort();
            names
        };
        assert_eq!(sorted(&grouped), sorted(&visible));
    }

    #[test]
    fn short_help_shows_at_most_ten_options_of_a_command() {
        let mut program = definition();
        program.build();
        let mut long = Vec::new();
        examples::walk(&program, "", &mut |path, command| {
            let own = command.get_arguments().filter(|argument| is_own_option(argument));
            let shown = own.filter(|argument| !argument.is_hide_short_help_set());
            let names: Vec<_> = shown.filter_map(Arg::get_long).collect();
            if names.len() > SHORT {
                long.push(format!("{path}: {names:?}"));
            }
        });
        assert!(long.is_empty(), "{long:#?}");
    }

    #[test]
    fn every_rare_option_exists() {
        let mut program = definition();
        program.build();
        let mut known = BTreeSet::new();
        examples::walk(&program, "", &mut |_, command| {
            known.extend(command.get_arguments().filter_map(Arg::get_long).map(ToOwned::to_owned));
        });
        let unknown: Vec<_> = RARE.iter().filter(|name| !known.contains(**name)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn codes_name_real_commands() {
        let program = definition();
        let mut unknown = Vec::new();
        for code in toolcrib_core::codes::all() {
            for text in [code.info().hint, code.info().explanation] {
                for line in text.split("`toolcrib ").skip(1) {
                    let mut words = line.split([' ', '`']);
                    let command = words.next().and_then(|name| program.find_subcommand(name));
                    let is_known = command.is_some_and(|command| {
                        !command.is_subcommand_required_set()
                            || words.next().is_some_and(|name| command.find_subcommand(name).is_some())
                    });
                    if !is_known {
                        unknown.push(format!("{}: toolcrib {line}", code.id()));
                    }
                }
            }
        }
        assert!(unknown.is_empty(), "{unknown:#?}");
    }

    #[test]
    fn help_lines_are_short_sentences() {
        let mut program = definition();
        program.build();
        let mut wrong = Vec::new();
        examples::walk(&program, "", &mut |path, command| {
            let mut check = |what: &str, text: Option<String>| {
                let first = text.unwrap_or_default().lines().next().unwrap_or_default().to_owned();
                if first.is_empty() || first.chars().count() >= 80 || first.ends_with('.') {
                    wrong.push(format!("{path} {what}: {first}"));
                }
            };
            check("", command.get_about().map(ToString::to_string));
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                check(argument.get_id().as_str(), argument.get_help().map(ToString::to_string));
                for value in argument.get_possible_values().iter().filter(|value| value.get_help().is_some()) {
                    check(value.get_name(), value.get_help().map(ToString::to_string));
                }
            }
        });
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
