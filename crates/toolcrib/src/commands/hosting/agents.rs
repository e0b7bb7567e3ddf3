//! Agents in an index: the list of names, and their resolver.

use std::path::PathBuf;

use clap::Args;
use toolcrib_agent::memory::Remembered;
use toolcrib_agent::report::Stage;
use toolcrib_agent::{AgentReport, AgentState, Resolver};
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::clock::Clock as _;
use toolcrib_core::codes;
use toolcrib_core::finding::Finding;
use toolcrib_fetch::SystemClock;
use toolcrib_index::Index;
use toolcrib_index::agents::{
    AgentClaims, AgentFacts, AgentMemory, AgentPricing, AgentProtocol, AgentResolution, AgentStep, AgentVerdict, NamesFile,
    ResolveAgent,
};
use toolcrib_index::listing::{Failure as FailedStep, FindingNote};
use toolcrib_judge::{Check, Untrusted};

use crate::commands::agt::resolver::{DnssecArg, PolicyArgs, ReactionArg, SourceArgs};
use crate::commands::discovery::index_failure;
use crate::outcome::{Failure, Stop};
use crate::printer::Printer;

/// Names that one process may resolve at once. Higher values only wait for the same network.
const MAX_AT_ONCE: u16 = 256;

/// Longest time for one name, in seconds.
const RESOLUTION_SECONDS: u64 = 30;

/// Which agents an index has.
#[derive(Args, Clone, Debug)]
pub(crate) struct AgentArgs {
    /// File with .agt names to resolve, one per line; reread on change
    #[arg(long, value_name = "FILE")]
    pub(crate) agt: Option<PathBuf>,
    /// Names to resolve in parallel
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_AT_ONCE)))]
    pub(crate) agt_at_once: u16,
    /// TXT source of .agt names, as in `agt resolve`; repeatable
    #[arg(long = "agt-source", value_name = "SOURCE", requires = "agt")]
    pub(crate) agt_sources: Vec<String>,
    /// IPFS gateway for agent manifests, untrusted; repeatable
    #[arg(long = "agt-gateway", value_name = "URL", requires = "agt")]
    pub(crate) agt_gateways: Vec<String>,
    /// Polygon RPC nodes for the holders of names [env: `RPC_URL_137`]
    #[arg(long, value_name = "URL", requires = "agt")]
    pub(crate) agt_rpc_url: Option<String>,
}

/// A list of names, and its resolver.
#[derive(Debug)]
pub(crate) struct ListedAgents {
    pub(crate) file: NamesFile,
    pub(crate) resolver: Connected,
    pub(crate) at_once: usize,
    /// How many names the list has.
    pub(crate) count: usize,
}

impl AgentArgs {
    /// Reads the list, reports its invalid lines, and connects the resolver. Returns `None` without a list.
    pub(crate) async fn prepare(&self, index: &Index, printer: &mut Printer) -> Result<Option<ListedAgents>, Stop> {
        let Some(path) = &self.agt else { return Ok(None) };
        let resolver = Connected(agent_resolver(self)?);
        let mut file = NamesFile::new(path.clone());
        let read = file.refresh(index, SystemClock.now()).await.map_err(|error| index_failure(&error))?;
        // A list that was not read before always counts as changed.
        let list = read.map(|(list, _)| list).unwrap_or_default();
        for bad in &list.bad {
            let code = codes::agent::LIST_LINE.id();
            printer.note(&format!("warning: {}:{}: `{}`: {} ({code})", path.display(), bad.line, bad.text, bad.reason))?;
        }
        if list.bad_count > list.bad.len() {
            printer.note(&format!("warning: {} more lines are not .agt names", list.bad_count - list.bad.len()))?;
        }
        Ok(Some(ListedAgents { file, resolver, at_once: usize::from(self.agt_at_once), count: list.names.len() }))
    }
}

/// Builds the resolver.
fn agent_resolver(arguments: &AgentArgs) -> Result<Resolver, Failure> {
    let sources = SourceArgs {
        sources: arguments.agt_sources.clone(),
        gateways: arguments.agt_gateways.clone(),
        content: None,
        rpc_url: arguments.agt_rpc_url.clone(),
        finalized: false,
        dnssec: DnssecArg::Prefer,
        trust_anchors: None,
        timeout: RESOLUTION_SECONDS,
    };
    // The index stores verified names in its own database, which several processes may share.
    let policy = PolicyArgs {
        rollback: ReactionArg::Warn,
        downgrade: ReactionArg::Fail,
        allow_contract_owner: false,
        preview: false,
        no_memory: true,
    };
    sources.resolver(&policy)
}

/// Adapts a resolver to the index.
#[derive(Debug)]
pub(crate) struct Connected(pub(crate) Resolver);

impl ResolveAgent for Connected {
    async fn resolve(&self, domain: &AgtDomain, remembered: Option<&AgentMemory>) -> AgentResolution {
        let remembered = remembered.map(|memory| Remembered {
            created_at: memory.created_at,
            cid: memory.cid.clone(),
            digest: memory.digest,
            owner: memory.owner,
        });
        resolution(&self.0.resolve_by(domain, remembered.as_ref()).await.report)
    }
}

/// Converts a report for the index.
fn resolution(report: &AgentReport) -> AgentResolution {
    let failed = report.failed.as_ref();
    if report.state == AgentState::Unreachable {
        let code = failed.map_or(codes::fetch::UNREACHABLE, |failed| failed.code);
        let step = failed.map_or_else(|| "resolve".to_owned(), |failed| word(failed.stage));
        return AgentResolution::Unreachable { step, code: code.id().to_owned() };
    }
    let text = |text: &Option<Untrusted>| text.as_ref().map(ToString::to_string);
    let verdict = AgentVerdict {
        state: report.state.as_str().to_owned(),
        verified: report.verified,
        conformant: report.conformant,
        legacy: report.legacy,
        failed: failed.map(|failed| FailedStep {
            check: failed.step,
            step: word(failed.stage),
            code: failed.code.id().to_owned(),
        }),
        steps: report.steps.iter().map(step).collect(),
        findings: notes(&report.findings),
        owner: report.holder,
        cid: report.content.as_ref().and_then(|content| content.cid.clone()),
        content_digest: report.content.as_ref().map(|content| content.digest),
        created_at: report.created_at,
        signed_by: report.signed_by.map(|signed_by| {
            let word = serde_json::to_value(signed_by).ok();
            word.and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
        }),
        block: report.block,
        facts: facts(report),
        claims: report.claims.as_ref().map(|claims| AgentClaims {
            name: text(&claims.name),
            description: text(&claims.description),
            owner: text(&claims.owner),
            endpoints: claims.endpoints.iter().map(ToString::to_string).collect(),
        }),
    };
    // If the report cannot be serialized, the verdict is stored without it.
    let report = serde_json::to_string(report).unwrap_or_else(|_| "null".to_owned());
    AgentResolution::Judged { verdict: Box::new(verdict), report }
}

fn facts(report: &AgentReport) -> Option<AgentFacts> {
    let about = report.about.as_ref()?;
    let pricing = about.pricing.as_ref().map(|pricing| {
        let paid = pricing.paid.as_ref();
        AgentPricing {
            model: pricing.model.to_owned(),
            amount: paid.map(|paid| paid.amount.clone()),
            currency: paid.map(|paid| paid.currency.clone()),
            unit: paid.map(|paid| paid.unit.clone()),
            chain: paid.and_then(|paid| paid.chain.clone()),
        }
    });
    let protocols = about.protocols.iter();
    Some(AgentFacts {
        name: about.name.clone(),
        description: about.description.clone(),
        website: about.website.clone(),
        protocols: protocols.map(|one| AgentProtocol { id: one.id.clone(), endpoint: one.endpoint.clone() }).collect(),
        capabilities: about.capabilities.iter().map(|capability| capability.id.clone()).collect(),
        pricing,
        is_partial: false,
    })
}

fn step(step: &toolcrib_agent::report::Step) -> AgentStep {
    let status = match step.check {
        Check::Passed => "passed",
        Check::Failed => "failed",
        Check::NotReached => "not_reached",
    };
    AgentStep { number: step.number, status: status.to_owned(), code: step.code.map(|code| code.id().to_owned()) }
}

/// The codes of findings, each once, worst first.
fn notes(findings: &[Finding]) -> Vec<FindingNote> {
    let mut found: Vec<&Finding> = Vec::new();
    for finding in findings {
        if found.iter().all(|other| other.code != finding.code) {
            found.push(finding);
        }
    }
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let note = |finding: &Finding| FindingNote {
        code: finding.code.id().to_owned(),
        severity: finding.severity.as_str().to_owned(),
        title: finding.code.title().to_owned(),
    };
    found.into_iter().map(note).collect()
}

/// The name of a stage in reports.
fn word(stage: Stage) -> String {
    let word = serde_json::to_value(stage).ok();
    word.and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use toolcrib_agent::AgentPolicy;
    use toolcrib_agent::evidence::{AgentEvidence, Dnssec, FORMAT, TxtAnswer, TxtLookup};
    use toolcrib_core::clock::UnixTime;

    use super::*;

    fn judged(outcome: TxtLookup) -> AgentResolution {
        let now = UnixTime::from_seconds(1_800_000_000);
        let answer = TxtAnswer { source: "test".to_owned(), outcome, dnssec: Dnssec::Unchecked, millis: 1 };
        let evidence = AgentEvidence {
            format: FORMAT,
            gatherer: "test".to_owned(),
            gathered_at: now,
            domain: "exampleagent.agt".to_owned(),
            txt: vec![answer],
            content: None,
            owner: None,
        };
        resolution(&toolcrib_agent::judge(&evidence, &AgentPolicy::default(), None, now))
    }

    #[test]
    fn who_does_not_answer_gives_no_verdict() {
        let failed = TxtLookup::Failed { code: "fetch.dns_failed".to_owned(), message: "no answer".to_owned() };
        assert!(matches!(judged(failed), AgentResolution::Unreachable { step, .. } if step == "txt"));
        let AgentResolution::Judged { verdict, report } = judged(TxtLookup::NotFound) else { panic!("a verdict") };
        assert_eq!((verdict.state.as_str(), verdict.verified, verdict.steps.len()), ("not-found", false, 8));
        assert_eq!(verdict.failed.as_ref().map(|failed| failed.code.as_str()), Some("agent.not_found"));
        assert!(report.contains("not-found"));
        let legacy = TxtLookup::Records(vec!["agt-version=1".into(), "agt-name=Old \u{202e}one".into()]);
        let AgentResolution::Judged { verdict, .. } = judged(legacy) else { panic!("a verdict") };
        assert!(verdict.legacy && !verdict.verified && verdict.facts.is_none());
        assert!(verdict.claims.is_some_and(|claims| claims.name.as_deref() == Some("Old \\u{202e}one")));
    }

    /// Directories and models rely on these names.
    #[test]
    fn states_are_words_of_the_directory() {
        let words: BTreeSet<&str> = AgentState::ALL.iter().map(|state| state.as_str()).collect();
        let known = [
            "manifest",
            "legacy",
            "not-an-agent",
            "not-found",
            "invalid-cid",
            "invalid-signature",
            "invalid-owner",
            "invalid-manifest",
            "domain-mismatch",
            "ambiguous",
            "rollback",
            "downgrade",
            "unreachable",
        ];
        assert_eq!(words, known.into());
        assert_eq!(word(Stage::Holder), "holder");
    }
}
