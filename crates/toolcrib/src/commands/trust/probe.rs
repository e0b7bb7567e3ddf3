//! `probe`: whether an endpoint answers as its manifest says, without paying.

use clap::Args;
use serde_json::{Value, json};
use toolcrib_core::url::HttpsUrl;
use toolcrib_judge::Policy;
use toolcrib_verify::{Depth, Live, Onchain, Probe};
use toolcrib_x402::{ProbeReport, ProbeState, Subject};

use super::{EgressArgs, show, verifier, verify};
use crate::onchain::{OnChain, failed};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// Arguments of `probe`.
#[derive(Args, Debug)]
pub(crate) struct ProbeEndpoint {
    /// Tool: a reference, an id with --network, or an endpoint URL
    #[arg(value_name = "TOOL|URL")]
    pub(crate) tool: String,
    #[command(flatten)]
    pub(crate) onchain: OnChain,
    #[command(flatten)]
    pub(crate) reach: EgressArgs,
}

/// Probes.
pub(crate) async fn run(arguments: &ProbeEndpoint, printer: &mut Printer) -> Result<Done, Stop> {
    if arguments.tool.contains("://") {
        return url(&arguments.tool, None, &arguments.reach, printer).await;
    }
    let verifier = verifier(&arguments.reach)?;
    let (registry, id) = arguments.onchain.connect_for(&arguments.tool, printer).await?;
    let Live { report, verified, .. } =
        verifier.live(&Onchain::new(registry, id), &Policy::default(), Depth::Full).await.map_err(failed)?;
    let Some(verified) = verified else {
        printer.result(&show::report(&report, printer.paint(), printer.is_verbose()))?;
        printer.note("not probed: only endpoints of verified tools are called")?;
        let exit = verify::exit_of(&report).max(Exit::No);
        if exit == Exit::CouldNotTell {
            printer.failure(&verify::unclear(&report))?;
        }
        return Ok(Done::new(exit, json!({ "probed": false, "verification": verify::data(&report) })));
    };
    let probe = verifier.probe(&verified).await;
    let mut subject = Subject::of(verified.manifest());
    subject.is_gated |= report.access.as_ref().is_some_and(|access| access.predicate.is_some());
    let outcome = probe.judge(Some(&subject));
    conclude(report.tool.as_deref(), verified.manifest().endpoint().normalized(), &probe, &outcome, printer)
}

/// Probes an endpoint without a manifest: nothing is signed, and no user data is sent. `dev_chain` is the chain of a development
/// environment that the endpoint may belong to.
pub(crate) async fn url(text: &str, dev_chain: Option<u64>, reach: &EgressArgs, printer: &mut Printer) -> Result<Done, Stop> {
    let endpoint = HttpsUrl::parse(text)
        .map_err(|fault| Failure::new(fault.code(), format!("{text} is not an endpoint: {}", fault.code().title())))?;
    let probe = verifier(reach)?.probe_url(&endpoint, dev_chain).await;
    let report = probe.judge(None);
    printer.note("a URL has no manifest to compare its terms with")?;
    conclude(None, endpoint.normalized(), &probe, &report, printer)
}

fn conclude(
    tool: Option<&str>,
    endpoint: &str,
    probe: &Probe,
    report: &ProbeReport,
    printer: &mut Printer,
) -> Result<Done, Stop> {
    let exit = match probe.unclear() {
        Some(failure) => {
            printer.failure(&Failure::new(failure.code, failure.finding().message))?;
            Exit::CouldNotTell
        }
        None if report.is_good() => Exit::Yes,
        None => Exit::No,
    };
    printer.result(&text(tool, endpoint, report, printer))?;
    Ok(Done::new(exit, data(tool, endpoint, probe, report)))
}

fn text(tool: Option<&str>, endpoint: &str, report: &ProbeReport, printer: &Printer) -> String {
    let paint = printer.paint();
    let mut out = String::new();
    let mut line = |text: String| out += &(text + "\n");
    if let Some(tool) = tool {
        line(paint.strong(&shown(tool)));
    }
    line(format!("  endpoint   {}", shown(endpoint)));
    let how = match (report.method, report.status) {
        (Some(method), Some(status)) => format!(" ({status} to {})", method.as_str()),
        _ => String::new(),
    };
    line(format!("  answer     {}{how}", said(report.state)));
    for asked in &report.asks {
        line(format!("  price      {} on {} to {}", shown(&asked.shown), shown(&asked.network), shown(&asked.pay_to)));
    }
    match report.agrees {
        Some(true) => line(format!("  manifest   {}", paint.good("matches"))),
        Some(false) => line(format!("  manifest   {}", paint.error("differs"))),
        None => {}
    }
    for finding in &report.findings {
        if finding.severity > toolcrib_core::finding::Severity::Hint || printer.is_verbose() {
            show::finding(&mut out, finding, paint);
        }
    }
    out
}

const fn said(state: ProbeState) -> &'static str {
    match state {
        ProbeState::NoAnswer => "none",
        ProbeState::Missing => "not found",
        ProbeState::Redirects => "points elsewhere",
        ProbeState::Fails => "fails",
        ProbeState::Refuses => "refuses",
        ProbeState::Challenges => "requires payment or proof",
        ProbeState::Serves => "serves without payment",
        _ => "something new",
    }
}

fn data(tool: Option<&str>, endpoint: &str, probe: &Probe, report: &ProbeReport) -> Value {
    json!({
        "probed": true,
        "tool": tool,
        "endpoint": endpoint,
        "good": report.is_good(),
        "report": report,
        "microseconds": probe.exchanges.iter().map(|exchange| exchange.timing.total).collect::<Vec<_>>(),
    })
}
