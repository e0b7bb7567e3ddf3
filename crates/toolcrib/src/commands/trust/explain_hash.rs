//! `explain hash`: why the served manifest does not have the committed hash.

use std::path::{Path, PathBuf};

use alloy_primitives::B256;
use clap::Args;
use serde_json::{Value, json};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::codes::{self, Code};
use toolcrib_judge::evidence::Evidence;
use toolcrib_judge::explain::{Candidate, Case, Diff, Explanation, Relation, Repair};
use toolcrib_verify::{Depth, Onchain};

use super::{EgressArgs, git, show, verifier, verify};
use crate::input::Source;
use crate::onchain::{OnChain, failed};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// Arguments of `explain hash`.
#[derive(Args, Debug)]
#[group(id = "what", required = true, multiple = false, args = ["tool", "evidence", "served"])]
pub(crate) struct ExplainHash {
    /// Tool: a reference, an id with --network, or a manifest URL with --expected
    #[arg(value_name = "TOOL|URL")]
    pub(crate) tool: Option<String>,
    /// Use evidence from `verify --save`; nothing is fetched
    #[arg(long, value_name = "FILE")]
    pub(crate) evidence: Option<PathBuf>,
    /// File with the served manifest; nothing is fetched
    #[arg(long, value_name = "FILE", requires = "expected")]
    pub(crate) served: Option<PathBuf>,
    /// Registered hash, if no registry is read
    #[arg(long, value_name = "0x…")]
    pub(crate) expected: Option<B256>,
    /// Local manifest, which should be what is served
    #[arg(long, value_name = "FILE")]
    pub(crate) manifest: Option<PathBuf>,
    /// Another version of the manifest; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) candidate: Vec<PathBuf>,
    /// Earlier evidence whose manifest may be the registered one; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) earlier: Vec<PathBuf>,
    /// Manifest of another tool that may have been mixed up; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) other_tool: Vec<PathBuf>,
    /// Try older versions of this file from its git history
    #[arg(long, value_name = "FILE")]
    pub(crate) git: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) onchain: OnChain,
    #[command(flatten)]
    pub(crate) reach: EgressArgs,
}

/// The two manifests to compare.
struct Sides {
    tool: Option<ToolRef>,
    metadata_uri: Option<String>,
    committed: B256,
    served: Vec<u8>,
}

/// Explains a wrong hash.
pub(crate) async fn run(arguments: &ExplainHash, printer: &mut Printer) -> Result<Done, Stop> {
    // Local files are read first: a wrong path should not cost a request.
    let others = candidates(arguments)?;
    let sides = sides(arguments, printer).await?;
    let candidates: Vec<_> =
        others.iter().map(|(label, relation, bytes)| Candidate { label, relation: *relation, bytes }).collect();
    let case = Case {
        served: &sides.served,
        committed: sides.committed,
        metadata_uri: sides.metadata_uri.as_deref(),
        candidates: &candidates,
    };
    let found = case.explain();
    let file = arguments.manifest.as_deref().or(arguments.git.as_deref()).map(quoted);
    let commands = |repair: &Repair| repair.commands(sides.tool.as_ref(), file.as_deref());
    printer.result(&text(&sides, &found, &commands, printer))?;
    let exit = if found.matches() || found.cause.is_some() { Exit::Yes } else { Exit::No };
    Ok(Done::new(exit, data(&sides, &found, &commands)))
}

async fn sides(arguments: &ExplainHash, printer: &mut Printer) -> Result<Sides, Stop> {
    if let (Some(path), Some(committed)) = (&arguments.served, arguments.expected) {
        let served = Source::from_argument(path).read()?;
        return Ok(Sides { tool: None, metadata_uri: None, committed, served });
    }
    let evidence = match (&arguments.evidence, arguments.tool.as_deref().unwrap_or_default()) {
        (Some(path), _) => verify::load(path)?,
        (None, url) if url.contains("://") => {
            if arguments.expected.is_none() {
                return Err(usage(
                    "a URL does not name a registration, so the committed hash is unknown",
                    "give it with --expected",
                )
                .into());
            }
            verifier(&arguments.reach)?.gather_url(url).await
        }
        (None, tool) => {
            let (registry, id) = arguments.onchain.connect_for(tool, printer).await?;
            let verifier = verifier(&arguments.reach)?;
            verifier.gather(&Onchain::new(registry, id), Depth::Checks).await.map_err(failed)?
        }
    };
    Ok(from_evidence(&evidence, arguments.expected)?)
}

fn from_evidence(evidence: &Evidence, expected: Option<B256>) -> Result<Sides, Failure> {
    let committed = match (evidence.config().map(|config| config.manifest_hash), expected) {
        (Some(committed), Some(expected)) if committed != expected => {
            return Err(usage("--expected is not the hash that is onchain", "omit it"));
        }
        (Some(committed), _) => committed,
        (None, _) if evidence.chain.is_some() => {
            return Err(Failure::new(codes::chain::TOOL_NOT_FOUND, "there is no such tool"));
        }
        (None, Some(expected)) => expected,
        (None, None) => return Err(usage("the evidence has no committed hash", "give it with --expected")),
    };
    let served = served(evidence)?.to_vec();
    Ok(Sides { tool: evidence.tool, metadata_uri: evidence.metadata_uri().map(str::to_owned), committed, served })
}

/// The served bytes, or why there are none.
pub(super) fn served(evidence: &Evidence) -> Result<&[u8], Failure> {
    let Some(exchange) = &evidence.manifest else {
        return Err(Failure::new(codes::verify::NO_MANIFEST, "the manifest was not fetched, because its URL is not allowed")
            .hint("run `toolcrib verify` to see the problem"));
    };
    match (exchange.complete(), &exchange.failure) {
        (Some(response), _) => Ok(response.body.as_bytes()),
        (None, Some(failure)) => Err(Failure::new(failure.code, format!("nothing was served: {}", failure.finding().message))),
        (None, None) => Err(Failure::new(codes::verify::NO_MANIFEST, "nothing was served")),
    }
}

/// Everything that may have been committed, the most likely first.
fn candidates(arguments: &ExplainHash) -> Result<Vec<(String, Relation, Vec<u8>)>, Failure> {
    let mut list = Vec::new();
    let mut files = |paths: &[PathBuf], relation| -> Result<(), Failure> {
        for path in paths {
            list.push((path.display().to_string(), relation, Source::from_argument(path).read()?));
        }
        Ok(())
    };
    files(arguments.manifest.as_slice(), Relation::Local)?;
    files(&arguments.candidate, Relation::Version)?;
    files(&arguments.other_tool, Relation::OtherTool)?;
    for path in &arguments.earlier {
        let evidence = verify::load(path)?;
        list.push((format!("what was served for {}", path.display()), Relation::Version, served(&evidence)?.to_vec()));
    }
    if let Some(path) = &arguments.git {
        list.extend(git::versions(path)?.into_iter().map(|version| (version.label, Relation::Version, version.bytes)));
    }
    Ok(list)
}

fn text(sides: &Sides, found: &Explanation, commands: &dyn Fn(&Repair) -> Vec<String>, printer: &Printer) -> String {
    let paint = printer.paint();
    let mut lines = Vec::new();
    if let Some(tool) = &sides.tool {
        lines.push(paint.strong(&tool.to_string()));
    }
    lines.push(format!("  committed  {}", found.committed));
    lines.push(format!("  served     {}", found.served_hash.map_or_else(|| "has no hash".to_owned(), |hash| hash.to_string())));
    let Some(code) = found.code() else {
        lines.push(paint.good("both hashes are equal: there is nothing to explain"));
        return lines.join("\n") + "\n";
    };
    let title = found.cause.as_ref().map_or_else(|| code.title().to_owned(), ToString::to_string);
    lines.push(format!("{}: {}", paint.error(&format!("error[{code}]")), paint.strong(&shown(&title))));
    let mut fact = |what: &str, text: &str| lines.push(format!("  {} {what}: {}", paint.frame("="), shown(text)));
    fact("why", code.info().explanation);
    if let Some(further) = &found.further {
        fact("also", &further.to_string());
    }
    for (word, repair) in [("do", Some(&found.repair)), ("or", found.otherwise.as_ref())] {
        let Some(repair) = repair else { continue };
        fact(word, &repair.to_string());
        for command in commands(repair) {
            fact("run", &command);
        }
    }
    if found.exhausted {
        fact("note", "the files are large or many, so not every combination of causes was tried");
    }
    if let (Some(nearest), Some(diff)) = (&found.nearest, &found.diff) {
        lines.push(format!("differences from {} to the served manifest:", shown(nearest)));
        show::changes(&mut lines, diff);
    }
    lines.join("\n") + "\n"
}

fn data(sides: &Sides, found: &Explanation, commands: &dyn Fn(&Repair) -> Vec<String>) -> Value {
    let repair = |repair: &Repair| json!({ "what": repair.to_string(), "commands": commands(repair) });
    json!({
        "tool": sides.tool.map(|tool| tool.to_string()),
        "committed": found.committed,
        "served": found.served_hash,
        "equal": found.matches(),
        "code": found.code().map(Code::id),
        "cause": found.cause.as_ref().map(ToString::to_string),
        "further": found.further.as_ref().map(ToString::to_string),
        "slips": slips(found),
        "repair": repair(&found.repair),
        "otherwise": found.otherwise.as_ref().map(repair),
        "tried": found.tried,
        "exhausted": found.exhausted,
        "nearest": found.nearest,
        "diff": found.diff.as_ref().map(diff_data),
    })
}

/// The codes of all mistakes, if there are several.
fn slips(found: &Explanation) -> Vec<&'static str> {
    match &found.cause {
        Some(toolcrib_judge::explain::Cause::Recipe { slips, .. }) => slips.iter().map(|slip| slip.code().id()).collect(),
        _ => Vec::new(),
    }
}

/// Differences as JSON.
pub(super) fn diff_data(diff: &Diff) -> Value {
    let changes = diff.changes.iter().map(|change| {
        json!({ "pointer": change.pointer, "kind": change.kind.as_str(), "before": change.before, "after": change.after })
    });
    json!({ "changes": changes.collect::<Vec<_>>(), "total": diff.total, "left_out": diff.left_out() })
}

fn usage(what: &str, hint: &str) -> Failure {
    Failure::new(codes::cli::USAGE, what).hint(hint)
}

/// Quotes a path for a POSIX shell.
pub(super) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    if !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain) {
        text
    } else {
        let text = if text.starts_with('-') { format!("./{text}") } else { text };
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_one_word_for_a_shell() {
        for (path, expected) in [
            ("tools/tide-table.json", "tools/tide-table.json"),
            ("my tool.json", "'my tool.json'"),
            ("a'b; rm -rf ~", "'a'\\''b; rm -rf ~'"),
            ("$(x).json", "'$(x).json'"),
            ("--force", "'./--force'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(Path::new(path)), expected);
        }
    }
}
