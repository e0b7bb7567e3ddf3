//! Human-readable reports.

use std::fmt::Write;

use toolcrib_core::finding::{Finding, Severity};
use toolcrib_core::time::format_rfc3339;
use toolcrib_judge::attestation::Attested;
use toolcrib_judge::explain::{ChangeKind, Diff};
use toolcrib_judge::{Check, Report, Verdict};

use crate::printer::{Paint, shown};

/// Short names of the four checks of ERC-8257 §7.
const CHECKS: [&str; 4] = ["the manifest is served", "URL and origin", "bytes and hash", "creator"];

/// The whole report.
pub(crate) fn report(report: &Report, paint: Paint, all: bool) -> String {
    let mut out = String::new();
    let name = report.tool.clone().or_else(|| report.metadata_uri.as_ref().map(ToString::to_string)).unwrap_or_default();
    line(&mut out, &paint.strong(&shown(&name)));
    if let (Some(uri), Some(_)) = (&report.metadata_uri, &report.tool) {
        line(&mut out, &format!("  manifest   {uri}"));
    }
    if let Some(about) = &report.about {
        line(&mut out, &format!("  name       {}", shown(&about.name)));
        line(&mut out, &format!("  endpoint   {}", shown(&about.endpoint)));
        match about.pricing.first() {
            None => line(&mut out, "  price      none stated"),
            Some(price) => {
                line(&mut out, &format!("  price      {} of {} by {}", price.amount, shown(&price.asset), shown(&price.protocol)))
            }
        }
    }
    if let Some(name) = report.claims.as_ref().and_then(|claims| claims.name.as_ref()) {
        line(&mut out, &format!("  claims     to be \"{name}\" (unverified)"));
    }
    if let Some(access) = &report.access {
        let text = match access.predicate {
            None => "open to everybody".to_owned(),
            Some(predicate) => {
                let name = access.predicate_name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
                let proxy = if access.predicate_is_proxy { ", a proxy" } else { "" };
                format!("decided by {predicate:#x}{name}{proxy}")
            }
        };
        line(&mut out, &format!("  access     {text}"));
    }
    // For a tool that is not registered there is nothing else to print.
    if report.metadata_uri.is_some() {
        out.push_str(&checks(report, paint));
    }
    let mut left_out = 0;
    for finding in &report.findings {
        if finding.severity == Severity::Hint && !all {
            left_out += 1;
            continue;
        }
        self::finding(&mut out, finding, paint);
    }
    if left_out > 0 {
        line(&mut out, &format!("{left_out} more, shown with --verbose"));
    }
    line(&mut out, &verdict(report, paint));
    out
}

/// The tier and the four checks.
fn checks(report: &Report, paint: Paint) -> String {
    let mut out = String::new();
    line(&mut out, &format!("  tier       {}{}", report.tier.effective.as_str(), claimed(report)));
    if let Some(attested) = &report.attestation {
        let word = match attested {
            Attested::Verified(_) => "verified",
            Attested::Claimed(_) => "claimed, not verified",
            Attested::Refused(_) => "refused",
        };
        line(&mut out, &format!("  enclave    {word}"));
    }
    for (number, (check, what)) in report.checks.iter().zip(CHECKS).enumerate() {
        let word = match check {
            Check::Passed => paint.good("passed"),
            Check::Failed => paint.error("failed"),
            Check::NotReached => paint.warning("not made"),
        };
        line(&mut out, &format!("  check {}    {word}: {what}", number + 1));
    }
    out
}

/// The verdict in one line.
pub(crate) fn verdict(report: &Report, paint: Paint) -> String {
    let at = format_rfc3339(report.freshness.gathered_at).unwrap_or_default();
    let dev = if report.dev { ", in the development environment" } else { "" };
    match report.verdict {
        Verdict::Verified if !report.conformant => {
            paint.warning(&format!("verified, but not conformant: hidden from agents ({at}{dev})"))
        }
        Verdict::Verified if report.pinned == Some(false) => {
            paint.warning(&format!("verified, but not the pinned version ({at}{dev})"))
        }
        Verdict::Verified if !report.freshness.fresh => {
            paint.warning(&format!("was verified at {at}{dev}, too long ago to rely on"))
        }
        Verdict::Verified => paint.good(&format!("verified ({at}{dev})")),
        Verdict::Partial => paint.warning("NOT verified: only the URL was checked, without a chain; these checks passed"),
        Verdict::Refused | Verdict::Unknown => {
            let reason = report.failed.map_or_else(String::new, |failed| {
                let check = failed.check().map(|number| format!("check {number}, ")).unwrap_or_default();
                format!(": {check}step {}, {}", failed.step, failed.code)
            });
            let word = if report.verdict == Verdict::Refused { "not verified" } else { "could not tell" };
            paint.error(&format!("{word}{reason}"))
        }
    }
}

/// Adds the differences between two documents, one per line.
pub(crate) fn changes(lines: &mut Vec<String>, diff: &Diff) {
    for change in &diff.changes {
        let text = |value: &Option<String>| shown(value.as_deref().unwrap_or_default());
        let (before, after) = (text(&change.before), text(&change.after));
        let pointer = if change.pointer.is_empty() { "(the whole document)".to_owned() } else { shown(&change.pointer) };
        lines.push(match change.kind {
            ChangeKind::Added => format!("  + {pointer}  {after}"),
            ChangeKind::Removed => format!("  - {pointer}  {before}"),
            ChangeKind::Changed => format!("  ~ {pointer}  {before} -> {after}"),
        });
    }
    if diff.left_out() > 0 {
        lines.push(format!("  and {} more", diff.left_out()));
    }
}

/// Adds a finding that has no source to point into.
pub(crate) fn finding(out: &mut String, finding: &Finding, paint: Paint) {
    let label = format!("{}[{}]", finding.severity, finding.code);
    let label = match finding.severity {
        Severity::Error => paint.error(&label),
        Severity::Warning => paint.warning(&label),
        Severity::Hint => paint.hint(&label),
    };
    line(out, &format!("{label}: {}", paint.strong(&shown(&finding.message))));
    let facts = [
        ("at", (!finding.pointer.is_empty()).then_some(finding.pointer.as_str())),
        ("expected", finding.expected.as_deref()),
        ("got", finding.got.as_deref()),
        ("hint", Some(finding.code.info().hint)),
    ];
    for (what, text) in facts {
        if let Some(text) = text {
            line(out, &format!("  {} {what}: {}", paint.frame("="), shown(text)));
        }
    }
}

fn claimed(report: &Report) -> String {
    if report.tier.claimed > report.tier.effective {
        format!(" (the manifest claims {}, which was not verified)", report.tier.claimed.as_str())
    } else {
        String::new()
    }
}

fn line(out: &mut String, text: &str) {
    let _ = writeln!(out, "{}", text.trim_end());
}
