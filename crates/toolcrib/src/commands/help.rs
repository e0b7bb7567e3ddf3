//! `help`: commands and topics.

use std::ffi::OsString;

use clap::error::ErrorKind;
use serde_json::json;
use toolcrib_core::{codes, near};

use crate::cli::{Help, groups};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::parse;
use crate::printer::Printer;

/// Largest edit distance between a typed topic and the suggested one: smaller than the distance between a topic and a command.
const MAX_DISTANCE: usize = 2;

/// Longest word that is compared with the topics.
const MAX_TYPED: usize = 40;

/// A topic of `toolcrib help`.
#[derive(Debug)]
struct Topic {
    name: &'static str,
    about: &'static str,
    text: &'static str,
}

const TOPICS: &[Topic] = &[
    Topic {
        name: "networks",
        about: "Name a network, choose a node, add a network",
        text: "\
`--network` takes a built-in name, a name from your settings, or a chain id.

Built in: ethereum, base, base-sepolia, shape, abstract, monad, robinhood,
polygon, and local, the chain of `toolcrib dev` and `toolcrib chain dev`.

The node comes from the first of: `--rpc-url`, `RPC_URL_8453` (with the chain
id), `RPC_URL`, the settings, the public node of the network. Every node is
asked for its chain id before it is used.

Any other chain: give its id, `--rpc-url` and `--registry`, or add it to your
settings file:

  [networks.sepolia]
  chain_id = 11155111
  rpc_url = \"https://node.example.com\"
  registry = \"0x…\"

`toolcrib contracts deploy` deploys the registry on a chain and adds this entry.",
    },
    Topic {
        name: "references",
        about: "Name a tool: CAIP reference, or id and network",
        text: "\
A tool is named by its reference, or by its id and the network:

  toolcrib inspect eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7
  toolcrib inspect 7 --network base

A reference has the chain id, the address of the registry and the id of the
tool, so it means the same everywhere. An id uses the registry of the network,
or the one that `--registry` names.

Several options take one tool of many as SLUG=TOOL, such as `--tool` of
`toolcrib serve`. `toolcrib tools get` also takes chain, registry and id as
three arguments.",
    },
    Topic {
        name: "wallets",
        about: "Choose the account that signs",
        text: "\
A command that signs uses the first of these that you give:

  `--dev-account`   one of ten public development accounts, for test chains
  `--key-fd`        a private key, read from a file descriptor
  `--mnemonic-fd`   a recovery phrase, read from a file descriptor
  `--wallet`        an encrypted wallet, see `toolcrib wallet`
  otherwise         the private key in `TOOLCRIB_PRIVATE_KEY`

`toolcrib wallet new` creates a wallet and `toolcrib wallet import` encrypts a
key. The password comes from `--password-fd`, `TOOLCRIB_PASSWORD` or a prompt.
Keys and passwords are never command line arguments.

Before a transaction you see what it does and confirm it; `--yes` skips the
question, `--dry-run` signs nothing, `--calldata` prints the calls for a
multisig.",
    },
    Topic {
        name: "spend-policy",
        about: "Limit what calls may cost",
        text: "\
Section [spend] of your own settings file limits payments, in dollars:

  [spend]
  per_call = \"0.10\"            # one call; no option lifts it
  per_hour = \"0.50\"
  per_day = \"1\"
  per_recipient_day = \"0.50\"
  per_tool_day = \"0.50\"
  per_asset_day = \"1\"
  ask_above = \"0.02\"           # confirm payments above this
  ask_identity = true          # confirm proofs of identity

These are the defaults, except that ask_identity is unset. Lists narrow it further:
allow_recipients, deny_recipients, allow_tools, deny_tools, allow_origins,
deny_origins, chains. A project's settings file cannot set any of this.

`toolcrib call` pays what the manifest of a verified tool states, within the
limits. `--max-price` and `--yes` answer the question beforehand, `--agree`
accepts exactly the terms that it names. `toolcrib pay` also needs `--to`.
`toolcrib budget` shows limits and usage, `toolcrib payments` lists payments.",
    },
    Topic {
        name: "exit-codes",
        about: "What the exit code says",
        text: "\
  0   yes: the answer is positive, or the work is done
  1   no: a rule is broken, a tool does not verify, access is denied
  2   could not tell: wrong usage, unreadable file, unreachable node, lost answer
  3   rate limited: the directory takes no more requests for now

If some inputs were answered and others could not be read, the exit code is 2.
A reader that closes the pipe early is not an error: the exit code is 0.

With `--json` the result is one object: `success` is true exactly for exit code
0, and `errors` has the code, message and hint of each error.
`toolcrib explain` explains a code.",
    },
    Topic {
        name: "config",
        about: "Settings files, environment variables and their order",
        text: "\
A value comes from the first of: option, environment variable, project file,
user file, default. `toolcrib config` shows each value and where it comes from.

  project   toolcrib.toml, in the working folder or the nearest one above it
  user      $XDG_CONFIG_HOME/toolcrib/config.toml, or ~/.config/toolcrib/config.toml

  color = \"auto\"         # auto, always, never; `--color`, `TOOLCRIB_COLOR`
  format = \"human\"       # human, json, sarif, github; `--format`, `TOOLCRIB_FORMAT`
  deny_warnings = false  # `--deny-warnings`, `TOOLCRIB_DENY_WARNINGS`
  as = \"producer\"        # producer, consumer; `--as`, `TOOLCRIB_AS`
  [networks.NAME]        # see `toolcrib help networks`

Only the user file can have these:

  directory = \"https://…\"  # `--directory`, `TOOLCRIB_DIRECTORY`
  embedding = \"/…\"         # `--embedding`, `TOOLCRIB_EMBEDDING`
  read_stores = []         # `--read-store`, `TOOLCRIB_READ_STORES`
  [spend]                  # see `toolcrib help spend-policy`

`toolcrib config --help` shows the command.",
    },
];

/// Prints a topic, the list of topics, or the help of a command, which clap returns as an error.
pub(crate) fn run(arguments: &Help, printer: &mut Printer) -> Result<Result<Done, Stop>, clap::Error> {
    let words: Vec<_> = arguments.words.iter().map(String::as_str).collect();
    let topic = TOPICS.iter().find(|topic| words == [topic.name]);
    let text = match topic {
        Some(topic) => format!("{}\n", topic.text),
        None if words == ["topics"] => topics(),
        None => {
            let line = ["toolcrib"].iter().chain(&words).chain(&["--help"]).map(OsString::from);
            let Err(error) = parse(&line.collect::<Vec<_>>()) else { return Ok(Ok(Done::new(Exit::Yes, json!(null)))) };
            let topic =
                if error.kind() == ErrorKind::InvalidSubcommand { words.first().and_then(|word| misspelled(word)) } else { None };
            let Some(topic) = topic else { return Err(error) };
            let failure = Failure::new(codes::cli::USAGE, format!("unknown command or topic `{}`", words.join(" ")));
            return Ok(Err(failure.hint(format!("did you mean `toolcrib help {topic}`?")).into()));
        }
    };
    let data = json!({ "topic": words.first(), "text": text });
    Ok(printer.result(&text).map(|()| Done::new(Exit::Yes, data)).map_err(Stop::from))
}

/// Rewrites `toolcrib agt help sign` as `toolcrib help agt sign`: clap's `help` subcommand is disabled on every level.
pub(crate) fn at_front(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let Some(position) = arguments.iter().position(|argument| argument == "help").filter(|position| *position > 1) else {
        return arguments;
    };
    let program = groups::definition();
    let mut command = &program;
    for name in &arguments[1..position] {
        match name.to_str().and_then(|name| command.find_subcommand(name)).filter(|below| below.has_subcommands()) {
            Some(below) => command = below,
            None => return arguments,
        }
    }
    let word = arguments.remove(position);
    arguments.insert(1, word);
    arguments
}

fn topics() -> String {
    let width = TOPICS.iter().map(|topic| topic.name.len()).max().unwrap_or_default();
    let lines = TOPICS.iter().map(|topic| format!("  {:width$}  {}\n", topic.name, topic.about));
    format!("Topics of `toolcrib help TOPIC`:\n\n{}", lines.collect::<String>())
}

/// The topic for a misspelled word.
fn misspelled(word: &str) -> Option<&'static str> {
    let near = |topic: &&Topic| word.len() <= MAX_TYPED && near::slips(word.as_bytes(), topic.name.as_bytes()) <= MAX_DISTANCE;
    TOPICS.iter().find(near).map(|topic| topic.name)
}

/// The error of `deploy`, a command of the reference SDK that does nothing here.
pub(crate) fn deploy() -> Failure {
    Failure::new(codes::cli::USAGE, "toolcrib does not deploy to hosting providers")
        .hint("deploy with the provider's own command, then run `toolcrib publish FILE --metadata URL`")
}

/// The topics, for the pages in `docs/cli`.
#[cfg(test)]
pub(crate) fn texts() -> impl Iterator<Item = (&'static str, &'static str)> {
    TOPICS.iter().map(|topic| (topic.name, topic.text))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Arg;

    use super::*;
    use crate::cli::examples;
    use crate::env;

    #[test]
    fn topics_name_real_commands_options_and_variables() {
        let mut program = groups::definition();
        program.build();
        let (mut paths, mut options) = (BTreeSet::new(), BTreeSet::new());
        examples::walk(&program, "", &mut |path, command| {
            paths.insert(path.to_owned());
            options.extend(command.get_arguments().filter_map(Arg::get_long).map(|long| format!("--{long}")));
        });
        paths.extend(TOPICS.iter().map(|topic| format!("help {}", topic.name)));
        let variables: Vec<_> = env::DOCUMENTED.iter().map(|(name, _)| *name).collect();
        let mut unknown = Vec::new();
        for topic in TOPICS {
            for (index, part) in topic.text.split('`').enumerate() {
                let part = part.split_whitespace().collect::<Vec<_>>().join(" ");
                let is_known = match part.as_str() {
                    _ if index % 2 == 0 => true,
                    option if option.starts_with("--") => options.contains(option),
                    "toolcrib config --help" | "success" | "errors" | "RPC_URL_8453" => true,
                    command if command.starts_with("toolcrib ") => paths.contains(&command["toolcrib ".len()..]),
                    variable => variables.contains(&variable),
                };
                if !is_known {
                    unknown.push(format!("{}: {part}", topic.name));
                }
            }
        }
        assert!(unknown.is_empty(), "{unknown:#?}");
    }

    #[test]
    fn every_built_in_network_is_named() {
        let text = TOPICS.iter().find(|topic| topic.name == "networks").expect("a topic").text;
        for network in toolcrib_chain::network::Network::ALL {
            assert!(text.contains(network.name), "{}", network.name);
        }
    }

    #[test]
    fn the_topic_of_the_spend_policy_has_its_defaults() {
        let text = TOPICS.iter().find(|topic| topic.name == "spend-policy").expect("a topic").text;
        let section = text.split("\n\n").nth(1).expect("the section");
        let file: toml::Table = toml::from_str(section).expect("TOML");
        let mut spend = file["spend"].clone();
        spend.as_table_mut().expect("a table").remove("ask_identity");
        let policy: toolcrib_client::SpendPolicy = spend.try_into().expect("a policy");
        assert_eq!(format!("{policy:?}"), format!("{:?}", toolcrib_client::SpendPolicy::default()));
    }

    #[test]
    fn lines_fit_a_terminal() {
        for topic in TOPICS {
            assert!(topic.text.lines().all(|line| line.chars().count() <= 84), "{}", topic.name);
        }
    }
}
