//! One or two examples for the end of each command's help. A test parses all of them.

use std::fmt::Write;

#[cfg(test)]
use clap::Command;

/// Command lines by the path of their command. `#` starts a comment, `\` at the end of a line continues it, as in a shell.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "init",
        &[
            "toolcrib init rain-radar                # writes rain-radar.json",
            "toolcrib init weather --price 0.01      # a project in weather/, paid in test USDC",
        ],
    ),
    (
        "new",
        &[
            "toolcrib new tool rain-radar --address 0x52908400098527886e0f7030069857d2e4169ee7",
            "toolcrib new local weather              # writes weather/manifest.json",
        ],
    ),
    (
        "lint",
        &[
            "toolcrib lint my-tool.json --fix",
            "toolcrib lint --format github           # annotations for a pull request",
            "curl -s https://tools.example.com/.well-known/ai-tool/x.json | toolcrib lint - --as consumer",
        ],
    ),
    ("validate", &["toolcrib validate tools/ --deny-warnings"]),
    ("hash", &["toolcrib hash my-tool.json", "toolcrib hash rain.agt.json --for-signing"]),
    ("canon", &["toolcrib canon my-tool.json > canonical.json"]),
    ("schema", &["toolcrib schema tool > tool.schema.json"]),
    ("explain", &["toolcrib explain json.duplicate_key", "toolcrib explain --list"]),
    (
        "explain hash",
        &[
            "toolcrib explain hash 7 --network base --git tools/tide-table.json",
            "toolcrib explain hash --evidence now.json --earlier before.json",
            r"toolcrib explain hash --served page.json --expected \
      0x6e7e1ae7d914c7ab283dfb2bc0bc8df7944d8b4a9919ee8eb3ca4e7bec17c988",
        ],
    ),
    (
        "publish",
        &[r"toolcrib publish tide-table.json --network base --wallet main \
      --metadata https://tools.example.com/.well-known/ai-tool/tide-table.json --wait 120"],
    ),
    (
        "register",
        &[
            r"toolcrib register --network base --wallet main \
      --metadata https://tools.example.com/.well-known/ai-tool/tide-table.json",
            r"toolcrib register --network base --wallet main --nft-gate 0x52908400098527886e0f7030069857d2e4169ee7 \
      --metadata https://tools.example.com/.well-known/ai-tool/tide-table.json --dry-run",
        ],
    ),
    ("update", &["toolcrib update 7 --network base --wallet main --manifest tide-table.json"]),
    (
        "inspect",
        &[
            "toolcrib inspect 7 --network base",
            "toolcrib inspect eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7",
        ],
    ),
    (
        "predicate set",
        &["toolcrib predicate set 7 --network base --wallet main --nft-gate 0x52908400098527886e0f7030069857d2e4169ee7"],
    ),
    (
        "predicate use",
        &[
            "toolcrib predicate use 7 open --network base --wallet main",
            "toolcrib predicate use 7 0x52908400098527886e0f7030069857d2e4169ee7 --network base --wallet main",
        ],
    ),
    ("predicate show", &["toolcrib predicate show 7 --network base"]),
    ("predicate check", &["toolcrib predicate check 7 0x52908400098527886e0f7030069857d2e4169ee7 --network base"]),
    ("predicate requirements", &["toolcrib predicate requirements 7 --network base"]),
    ("pause", &["toolcrib pause 7 --network base --wallet main"]),
    ("resume", &["toolcrib resume 7 --network base --wallet main"]),
    ("deregister", &["toolcrib deregister 7 --network base --wallet main --dry-run"]),
    (
        "contracts deploy",
        &[r"toolcrib contracts deploy --network 11155111 --rpc-url https://node.example.com --wallet main \
      --name sepolia --dry-run"],
    ),
    ("contracts list", &["toolcrib contracts list"]),
    (
        "verify",
        &[
            "toolcrib verify 7 --network base --save evidence.json",
            "toolcrib verify --evidence evidence.json",
            "toolcrib verify --all 0x52908400098527886e0f7030069857d2e4169ee7 --network base",
        ],
    ),
    ("diff", &["toolcrib diff 7 --network base --manifest tools/tide-table.json"]),
    (
        "watch",
        &[
            "toolcrib watch 7 8 --network base --webhook https://alerts.example.com/toolcrib",
            "toolcrib watch 7 --network base --once --state tools.watch.json   # in CI",
        ],
    ),
    ("probe", &["toolcrib probe 7 --network base", "toolcrib probe https://tools.example.com/tide-table"]),
    (
        "call",
        &[
            r#"toolcrib call 7 --network base --wallet main --input '{"text": "how many words"}'"#,
            "toolcrib call 7 --network base --wallet main --input @input.json --max-price 0.05",
            "toolcrib call 7 --network base --input @input.json --dry-run",
        ],
    ),
    (
        "pay",
        &[r"toolcrib pay https://api.example.com/report --max-price 0.05 --wallet main \
      --to 0x52908400098527886e0f7030069857d2e4169ee7"],
    ),
    (
        "auth",
        &[
            r"toolcrib auth https://api.example.com/me --wallet main \
      --to 0x52908400098527886e0f7030069857d2e4169ee7",
            "toolcrib auth https://api.example.com/me --wallet main --sign-in",
        ],
    ),
    ("payments", &["toolcrib payments --open"]),
    ("payments show", &["toolcrib payments show 0x5c0e"]),
    ("payments resolve", &["toolcrib payments resolve 0x5c0e --network base"]),
    ("payments resume", &["toolcrib payments resume 0x5c0e --network base"]),
    ("budget", &["toolcrib budget"]),
    (
        "mcp",
        &["toolcrib mcp --local-only --tools examples/tools", "toolcrib mcp --directory https://tools.example.com --wallet main"],
    ),
    (
        "serve",
        &[
            "toolcrib serve tide-table.json --upstream http://127.0.0.1:3000/tides",
            "toolcrib serve tide-table.json --command python3 --arg tides.py --tool 7 --network base",
            r"toolcrib serve tide-table.json --upstream http://127.0.0.1:3000/ \
      --facilitator https://x402.org/facilitator --rpc-url https://mainnet.base.org",
        ],
    ),
    (
        "dry-run-gate",
        &[r"toolcrib dry-run-gate tide-table.json --tool 7 --network base \
      --account 0x52908400098527886e0f7030069857d2e4169ee7"],
    ),
    (
        "tools search",
        &[
            "toolcrib tools search --query 'tides at a harbour' --directory https://tools.example.com",
            "toolcrib tools search --query tides --access-type open --store index.db",
        ],
    ),
    ("tools list", &["toolcrib tools list --type open --store index.db"]),
    (
        "tools get",
        &[
            "toolcrib tools get eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7",
            "toolcrib tools get 8453 0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1 7 --format json",
        ],
    ),
    ("tools activity", &["toolcrib tools activity eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7"]),
    ("tools history", &["toolcrib tools history eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7 --limit 50"]),
    (
        "directory",
        &[
            "toolcrib directory --with-index",
            "toolcrib directory --with-index --network base --listen 0.0.0.0:8257 --host tools.example.com",
            "TOOLCRIB_INDEX=postgres://toolcrib@db/toolcrib toolcrib directory --search /var/lib/toolcrib/search",
        ],
    ),
    ("directory keys issue", &["toolcrib directory keys issue --name ci --reads 6000"]),
    ("directory keys list", &["toolcrib directory keys list"]),
    ("directory keys revoke", &["toolcrib directory keys revoke ci"]),
    (
        "index",
        &[
            "toolcrib index --network base --rpc-url https://base.example.com",
            "toolcrib index --network base --bazaar https://x402.example.com/facilitator",
            "TOOLCRIB_INDEX=postgres://toolcrib@db/toolcrib toolcrib index --no-follow --workers 64",
        ],
    ),
    ("index export", &["toolcrib index export --out index.jsonl"]),
    ("index parquet", &["toolcrib index parquet tables/"]),
    ("index import", &["toolcrib index import index.jsonl"]),
    ("index backup", &["toolcrib index backup index-backup.db"]),
    ("index restore", &["toolcrib index restore index-backup.db --store new.db"]),
    ("index rescan", &["toolcrib index rescan --network base --from 30000000"]),
    ("index check", &["toolcrib index check --network base --fix"]),
    ("index expire", &["toolcrib index expire"]),
    ("index objects", &["toolcrib index objects --move-to objects --objects file:///var/lib/toolcrib/objects"]),
    (
        "index moderate",
        &[
            r"toolcrib index moderate block eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7 \
      --reason 'phishing'",
            "toolcrib index moderate unblock eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7",
        ],
    ),
    ("index moderation", &["toolcrib index moderation --log"]),
    ("index reports", &["toolcrib index reports", "toolcrib index reports --close 12"]),
    (
        "index purge",
        &[
            r"toolcrib index purge --url https://api.cloudflare.com/client/v4/zones/ZONE/purge_cache \
      --header-env Authorization=CDN_TOKEN",
            r"toolcrib index purge --url https://api.fastly.com/service/ID/purge --body '' \
      --header 'Surrogate-Key={spaces}' --header-env Fastly-Key=CDN_TOKEN",
        ],
    ),
    (
        "agt new",
        &[
            r"toolcrib agt new rain.agt --owner 0x52908400098527886e0f7030069857d2e4169ee7 \
      --protocol mcp=https://rain.example.org/mcp --capability forecasting",
            r"toolcrib agt new rain.agt --owner 0x52908400098527886e0f7030069857d2e4169ee7 \
      --price 0.01:USDC:per_request:polygon --out -",
        ],
    ),
    ("agt lint", &["toolcrib agt lint rain.agt.json", "toolcrib agt lint records.txt"]),
    ("agt sign", &["toolcrib agt sign rain.agt.json --wallet main > signed.json"]),
    ("agt pack", &["toolcrib agt pack signed.json --car signed.car"]),
    (
        "agt publish",
        &[
            "toolcrib agt publish signed.json --pin kubo:http://127.0.0.1:5001 --dry-run",
            r"toolcrib agt publish signed.json --pin service:https://pins.example.com/psa \
      --txt update:192.0.2.1:53 --zone rain.agt",
        ],
    ),
    (
        "agt resolve",
        &[
            "toolcrib agt resolve rain.agt --save evidence.json",
            "toolcrib agt resolve rain.agt --source dns:udp://192.0.2.1 --source fns --gateway https://ipfs.example.com",
            "toolcrib agt resolve --evidence evidence.json",
        ],
    ),
    ("agt verify", &["toolcrib agt verify signed.json --onchain", "toolcrib agt verify rain.agt"]),
    ("agt migrate", &["toolcrib agt migrate rain.agt > draft.json", "toolcrib agt migrate rain.agt --records records.txt"]),
    (
        "agt export",
        &[
            "toolcrib agt export signed.json --to a2a --a2a-endpoint rpc",
            "toolcrib agt export signed.json --to mcp-registry --namespace io.github.you --version 1.0.0",
        ],
    ),
    ("agt import", &["toolcrib agt import agent-card.json --domain rain.agt --owner 0x52908400098527886e0f7030069857d2e4169ee7"]),
    (
        "agt tools",
        &[
            "toolcrib agt tools evidence.json --network base",
            "toolcrib agt tools signed.json --tool eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7",
        ],
    ),
    ("agt token-id", &["toolcrib agt token-id exampleagent.agt"]),
    ("agt vocab", &["toolcrib agt vocab translate"]),
    ("local list", &["toolcrib local list --tools ~/tools"]),
    ("local show", &["toolcrib local show datetime"]),
    ("local call", &[r#"toolcrib local call shell execute --args '{"command": "ls"}'"#]),
    ("local dev", &["toolcrib local dev --tools examples/tools"]),
    ("local doctor", &["toolcrib local doctor"]),
    ("local logs", &["toolcrib local logs weather --lines 50", "toolcrib local logs --verify"]),
    ("local settings", &["toolcrib local settings --tools ~/tools"]),
    (
        "local add",
        &["toolcrib local add ./weather", "toolcrib local add eip155:8453/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/7"],
    ),
    ("local remove", &["toolcrib local remove weather"]),
    ("local update", &["toolcrib local update weather --dry-run"]),
    (
        "local export",
        &[
            "toolcrib local export openai datetime weather --out schemas/",
            "toolcrib local export mcpb weather --author 'Ada Lovelace'",
        ],
    ),
    (
        "local publish",
        &[r"toolcrib local publish datetime now --origin https://tools.example.com \
      --creator 0x52908400098527886e0f7030069857d2e4169ee7"],
    ),
    (
        "local import",
        &[
            "toolcrib local import ~/.config/client/mcp.json --dry-run",
            "toolcrib local import mcp.json --server github --network 443",
            "toolcrib local import notes.mcpb --setting folder=/home/me/notes --read /home/me/notes",
        ],
    ),
    (
        "permit set",
        &["toolcrib permit set datetime allow", "toolcrib permit set shell deny --function execute --arg '/command=*rm *'"],
    ),
    ("permit list", &["toolcrib permit list"]),
    ("permit revoke", &["toolcrib permit revoke 3"]),
    (
        "secret set",
        &[
            "pass show weather | toolcrib secret set weather api_key",
            "toolcrib secret set weather api_key --from-file /run/secrets/weather",
        ],
    ),
    ("secret unset", &["toolcrib secret unset weather api_key"]),
    ("secret list", &["toolcrib secret list"]),
    ("secret rebind", &["toolcrib secret rebind weather"]),
    ("secret key", &["toolcrib secret key --to file"]),
    ("dev", &["toolcrib dev", "toolcrib dev --port 0 --tools-port 0 --directory-port 0"]),
    ("chain dev", &["toolcrib chain dev --state chain.json", "toolcrib chain dev --chain-id 8453 --block-time 2"]),
    ("wallet new", &["toolcrib wallet new main"]),
    ("wallet import", &["toolcrib wallet import main --key-fd 3 3< key.txt"]),
    ("wallet list", &["toolcrib wallet list"]),
    ("wallet address", &["toolcrib wallet address --wallet main"]),
    ("config", &["toolcrib config"]),
    ("completions", &["toolcrib completions bash > ~/.local/share/bash-completion/completions/toolcrib"]),
    ("man", &["toolcrib man > toolcrib.1", "toolcrib man local call | man -l -"]),
    ("help", &["toolcrib help call", "toolcrib help topics", "toolcrib help networks"]),
];

/// The examples of a command, as its help shows them.
pub(crate) fn of(path: &str) -> Option<String> {
    let (_, lines) = EXAMPLES.iter().find(|(of, _)| *of == path)?;
    let mut text = if lines.len() == 1 { "Example:".to_owned() } else { "Examples:".to_owned() };
    for line in *lines {
        let _ = write!(text, "\n  {line}");
    }
    Some(text)
}

/// Calls `visit` with each visible command below a command, and its path.
#[cfg(test)]
pub(crate) fn walk(command: &Command, path: &str, visit: &mut impl FnMut(&str, &Command)) {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        let path = format!("{path} {}", below.get_name()).trim_start().to_owned();
        visit(&path, below);
        walk(below, &path, visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::groups::definition;

    /// The words of each `toolcrib` command in a shell line: quotes, comments, pipes, redirections and continued lines.
    fn commands_in(line: &str) -> Vec<Vec<String>> {
        let mut commands = vec![Vec::new()];
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            let words = commands.last_mut().expect("there is always one");
            match letter {
                ' ' | '\n' => {}
                '\\' => assert_eq!(letters.next(), Some('\n'), "a continued line: {line}"),
                '#' => break,
                '|' => commands.push(Vec::new()),
                _ => {
                    let mut word = String::new();
                    let mut next = Some(letter);
                    while let Some(letter) = next {
                        match letter {
                            '\'' => word.extend(letters.by_ref().take_while(|letter| *letter != '\'')),
                            letter => word.push(letter),
                        }
                        next = letters.next_if(|letter| !letter.is_whitespace());
                    }
                    words.push(word);
                }
            }
        }
        for words in &mut commands {
            let end = words.iter().position(|word| word.ends_with('<') || word.ends_with('>')).unwrap_or(words.len());
            words.truncate(end);
            let start = words.iter().position(|word| !word.contains('=')).unwrap_or_default();
            words.drain(..start);
        }
        commands.retain(|words| words.first().is_some_and(|word| word == "toolcrib"));
        commands
    }

    /// The command lines after `Example:` or `Examples:` in a help text.
    fn examples_in(help: &str) -> Vec<String> {
        let lines = help.lines().skip_while(|line| !line.starts_with("Example")).skip(1);
        let mut examples: Vec<String> = Vec::new();
        for line in lines.take_while(|line| line.starts_with("  ")) {
            match examples.last_mut().filter(|last| last.ends_with('\\')) {
                Some(last) => last.extend(["\n", line]),
                None => examples.push(line.trim().to_owned()),
            }
        }
        examples
    }

    #[test]
    fn every_example_of_every_help_parses_and_is_of_its_command() {
        let mut program = definition();
        program.build();
        let mut wrong = Vec::new();
        walk(&program, "", &mut |path, command| {
            for help in [command.get_after_help(), command.get_after_long_help()] {
                let help = help.map(ToString::to_string).unwrap_or_default();
                let examples = examples_in(&help);
                if examples.is_empty() && !command.is_subcommand_required_set() {
                    wrong.push(format!("{path}: no example"));
                }
                for example in examples {
                    let commands = commands_in(&example);
                    let is_own = commands.iter().any(|words| words[1..].join(" ").starts_with(path));
                    if !is_own {
                        wrong.push(format!("{path}: another command: {example}"));
                    }
                    for words in commands {
                        // Options that are checked when the command runs are checked by the tests that run it.
                        if let Err(error) = definition().try_get_matches_from(words) {
                            wrong.push(format!("{path}: {example}\n{error}"));
                        }
                    }
                }
            }
        });
        for example in examples_in(&program.get_after_long_help().map(ToString::to_string).unwrap_or_default()) {
            for words in commands_in(&example) {
                assert!(definition().try_get_matches_from(words).is_ok(), "{example}");
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn every_example_belongs_to_a_command() {
        let mut program = definition();
        program.build();
        let mut paths = Vec::new();
        walk(&program, "", &mut |path, _| paths.push(path.to_owned()));
        let unknown: Vec<_> =
            EXAMPLES.iter().map(|(path, _)| *path).filter(|path| !paths.iter().any(|known| known == path)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn shell_lines_are_split_as_a_shell_does() {
        let words = commands_in("pass x | A=b toolcrib call 7 \\\n  --input '{\"a\": \"b c\"}' > out   # note");
        assert_eq!(words, [["toolcrib", "call", "7", "--input", "{\"a\": \"b c\"}"]]);
    }
}
