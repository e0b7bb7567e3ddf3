//! `agt tools`: the ERC-8257 tools at an agent's endpoints.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use toolcrib_agent::AgentPolicy;
use toolcrib_agent::bridge::cross_check::{CrossCheck, ToolCandidate, cross_check};
use toolcrib_agent::content_hash::CidHash;
use toolcrib_agent::judge::{ContentTrust, judge_whole};
use toolcrib_core::agent::AgentManifest;
use toolcrib_core::codes;
use toolcrib_judge::{Policy, Verdict};
use toolcrib_verify::{Depth, Onchain};

use super::pack::read_signed;
use super::resolve::load;
use crate::commands::trust::verify::{for_registry, registered};
use crate::commands::trust::{EgressArgs, verifier};
use crate::onchain::{OnChain, failed};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// Arguments of `agt tools`.
#[derive(Args, Debug)]
pub(crate) struct Tools {
    /// Signed manifest, or evidence from `agt resolve --save`
    ///
    /// Only evidence can show a verified agent.
    #[arg(value_name = "FILE")]
    pub(crate) path: PathBuf,
    /// Tool to compare with; repeatable [default: all tools of the owner]
    #[arg(long = "tool", value_name = "TOOL")]
    pub(crate) tools: Vec<String>,
    /// First block to search for registrations of the owner
    #[arg(long, value_name = "BLOCK", default_value_t = 0, conflicts_with = "tools")]
    pub(crate) from_block: u64,
    #[command(flatten)]
    pub(crate) onchain: OnChain,
    #[command(flatten)]
    pub(crate) reach: EgressArgs,
}

/// Verifies the tools and compares them with the agent.
pub(crate) async fn run(arguments: &Tools, printer: &mut Printer) -> Result<Done, Stop> {
    let (manifest, verdict) = agent(&arguments.path)?;
    let verifier = verifier(&arguments.reach)?;
    let mut places = Vec::new();
    if arguments.tools.is_empty() {
        let registry = arguments.onchain.connect(printer).await?;
        for id in registered(&registry, manifest.owner(), arguments.from_block).await? {
            places.push((registry.clone(), id));
        }
    }
    for tool in &arguments.tools {
        places.push(arguments.onchain.connect_for(tool, printer).await?);
    }
    let mut candidates = Vec::new();
    for (registry, id) in places {
        let policy = for_registry(Policy::default(), &registry);
        let report = verifier.live(&Onchain::new(registry, id), &policy, Depth::Full).await.map_err(failed)?.report;
        let claimed = report.claims.as_ref().and_then(|claims| claims.endpoint.as_ref().map(ToString::to_string));
        let endpoint = report.about.as_ref().map(|about| about.endpoint.clone()).or(claimed);
        let (Some(endpoint), Some(creator)) = (endpoint, report.creator.onchain) else { continue };
        candidates.push(ToolCandidate { tool: report.tool.unwrap_or_default(), endpoint, creator, verdict: report.verdict });
    }
    show(&cross_check(&manifest, verdict, &candidates), printer)
}

/// The agent of a file, and its verdict.
fn agent(path: &Path) -> Result<(AgentManifest, Verdict), Failure> {
    let Ok(evidence) = load(path) else {
        // Only the rules and the signature were checked.
        return read_signed(path).map(|(manifest, _)| (manifest, Verdict::Partial));
    };
    let judgement = judge_whole(&evidence, &AgentPolicy::default(), None, evidence.gathered_at, ContentTrust::Recheck(&CidHash));
    let report = judgement.report;
    match judgement.manifest {
        Some(manifest) => Ok((AgentManifest::clone(&manifest), Verdict::Verified)),
        None => {
            let code = report.failed.as_ref().map_or(codes::agent::NOT_AN_AGENT, |failed| failed.code);
            Err(Failure::new(code, format!("{} is not verified by this evidence: {}", evidence.domain, report.state)))
        }
    }
}

fn show(check: &CrossCheck, printer: &mut Printer) -> Result<Done, Stop> {
    let word = |verdict: Verdict| match verdict {
        Verdict::Verified => "verified",
        Verdict::Refused => "not verified",
        Verdict::Unknown => "unknown",
        Verdict::Partial => "not checked onchain",
    };
    let owner = check.owner.to_checksum(None);
    printer.result(&format!("{}: {}, owner {owner}\n", shown(&check.domain), word(check.verdict)))?;
    for endpoint in &check.endpoints {
        printer.result(&format!("  {} {}\n", shown(&endpoint.protocol), shown(&endpoint.endpoint)))?;
        for tool in &endpoint.tools {
            let whose = if tool.same_owner { "registered by the owner" } else { "registered by another account" };
            printer.result(&format!("    {}: {}, {whose}\n", shown(&tool.tool), word(tool.verdict)))?;
        }
    }
    let mut tools = check.endpoints.iter().flat_map(|endpoint| &endpoint.tools).peekable();
    // The answer is yes if there are tools, and one wallet provably vouches for the agent and all of them.
    let exit = if tools.peek().is_some() && tools.all(|tool| tool.confirmed) { Exit::Yes } else { Exit::No };
    Ok(Done::new(exit, json!({ "agent": check })))
}
