//! Spellings of the reference SDK's command line. Commands and options with other names are hidden aliases in the definition. This module
//! handles those that are an option in the SDK and a positional argument here.

use std::ffi::OsString;

/// Commands of the SDK, with the options that are positional arguments in Toolcrib.
const POSITIONAL: &[(&str, &str)] = &[
    ("inspect", "--tool-id"),
    ("update-metadata", "--tool-id"),
    ("dry-run-gate", "--manifest"),
    ("dry-run-predicate-gate", "--manifest"),
];

/// Rewrites `--tool-id 7` and `--manifest FILE` as positional arguments for the SDK's commands.
pub(crate) fn translate(arguments: Vec<OsString>) -> Vec<OsString> {
    let of = |(command, _): &&(&str, &str)| arguments.get(1).is_some_and(|first| first == command);
    let Some((_, option)) = POSITIONAL.iter().find(of) else { return arguments };
    let position = arguments.iter().position(|argument| {
        argument
            .to_str()
            .is_some_and(|text| text.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('=')))
    });
    let Some(position) = position else { return arguments };
    let mut arguments = arguments;
    let removed = arguments.remove(position);
    if let Some((_, value)) = removed.to_str().and_then(|text| text.split_once('=')) {
        arguments.insert(position, value.into());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;
    use crate::cli::{Cli, Command, groups};

    fn parse(line: &str) -> Result<Command, clap::Error> {
        let arguments = line.split_whitespace().map(OsString::from).collect();
        let matches = groups::definition().try_get_matches_from(translate(arguments))?;
        Ok(Cli::from_arg_matches(&matches)?.command)
    }

    #[test]
    fn commands_of_the_sdk_are_understood_as_it_spells_them() {
        let url = "https://tools.example.com/.well-known/ai-tool/x.json";
        for line in [
            "toolcrib init rain --no-interactive".to_owned(),
            "toolcrib validate ./src/manifest.json".to_owned(),
            "toolcrib hash ./src/manifest.json".to_owned(),
            format!("toolcrib register --metadata {url} --network base --dry-run"),
            format!("toolcrib register --metadata {url} --nft-gate 0x52908400098527886e0f7030069857d2e4169ee7 -y"),
            format!(
                "toolcrib register --metadata {url} --erc20-gate 0x52908400098527886e0f7030069857d2e4169ee7 --erc20-min-balance 5"
            ),
            "toolcrib inspect --tool-id 7 --network base --rpc-url http://127.0.0.1:8545".to_owned(),
            format!("toolcrib verify {url}"),
            "toolcrib deploy --host vercel -y".to_owned(),
            "toolcrib pay https://api.example.com/x --body {} --method post".to_owned(),
            "toolcrib pay https://api.example.com/x --body @input.json --max-amount 10000".to_owned(),
            "toolcrib auth https://api.example.com/x --body {} --sign-in".to_owned(),
            "toolcrib dry-run-gate --manifest x.json".to_owned(),
            "toolcrib dry-run-predicate-gate --manifest=x.json --tool-id 7 --network base".to_owned(),
            format!("toolcrib update-metadata --tool-id 7 --metadata {url} --network base --dry-run -y"),
        ] {
            if let Err(error) = parse(&line) {
                panic!("{line}: {error}");
            }
        }
        let Ok(Command::Inspect(tool)) = parse("toolcrib inspect --tool-id=7 --network base") else { panic!("inspect") };
        assert_eq!(tool.tool, "7");
    }

    #[test]
    fn other_commands_are_left_alone() {
        let line: Vec<OsString> = ["toolcrib", "verify", "--tool-id", "7"].map(OsString::from).into();
        assert_eq!(translate(line.clone()), line);
        assert!(parse("toolcrib verify --tool-id 7").is_err());
    }
}
