//! The transparency log link: its format, and whether the log is independent of the operator.

use toolcrib_core::codes;
use toolcrib_core::finding::Finding;
use toolcrib_core::url::HttpsUrl;

use super::{Claim, pointed};

/// Checks the link without a request to the log. Inclusion is not verified, and a hint says so.
pub(super) fn check(claim: &Claim<'_>) -> Vec<Finding> {
    let Some(text) = claim.transparency_log else { return Vec::new() };
    let Ok(log) = HttpsUrl::parse(text) else {
        return vec![pointed(Finding::new(codes::attestation::LOG_URL).expected("an https URL").got(text), "transparencyLogURI")];
    };
    let mut findings = Vec::new();
    let operator = [claim.endpoint, claim.tool_endpoint];
    let related = operator.into_iter().flatten().filter_map(|endpoint| HttpsUrl::parse(endpoint).ok()).find(|endpoint| {
        let (ours, theirs) = (endpoint.host(), log.host());
        is_same_or_below(ours, theirs) || is_same_or_below(theirs, ours)
    });
    if let Some(endpoint) = related {
        let finding = Finding::new(codes::attestation::LOG_NOT_INDEPENDENT)
            .expected(format!("a host unrelated to {}", endpoint.host()))
            .got(log.host());
        findings.push(pointed(finding, "transparencyLogURI"));
    }
    findings.push(pointed(Finding::new(codes::attestation::LOG_NOT_CHECKED), "transparencyLogURI"));
    findings
}

/// Whether `host` is `parent` or a name below it. Public suffixes are not known here, so siblings below one domain count as unrelated.
fn is_same_or_below(host: &str, parent: &str) -> bool {
    host.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_log(log: &str, expected: &[&str]) {
        let claim = Claim {
            transparency_log: Some(log),
            endpoint: Some("https://enclave.tools.example.com/report"),
            tool_endpoint: Some("https://api.example.net/run"),
            ..Claim::default()
        };
        let found: Vec<_> = check(&claim).iter().map(|finding| finding.code.id()).collect();
        assert_eq!(found, expected, "{log}");
    }

    // req: TRUST-019, TRUST-020
    #[test]
    fn logs_must_be_https_and_elsewhere() {
        const CHECKED: &str = "attestation.log_not_checked";
        const OWN: &str = "attestation.log_not_independent";
        check_log("https://rekor.sigstore.dev/api/v1/log/entries/1", &[CHECKED]);
        check_log("https://enclave.tools.example.com/log", &[OWN, CHECKED]);
        check_log("HTTPS://Enclave.Tools.Example.com:443/log", &[OWN, CHECKED]);
        check_log("https://log.enclave.tools.example.com/", &[OWN, CHECKED]);
        check_log("https://example.com/log", &[OWN, CHECKED]);
        check_log("https://api.example.net/log", &[OWN, CHECKED]);
        check_log("https://notexample.com/log", &[CHECKED]);
        check_log("https://log.example.org/log", &[CHECKED]);
        // Without a list of public suffixes, siblings cannot be distinguished from unrelated hosts.
        check_log("https://log.example.com/log", &[CHECKED]);
        for wrong in ["http://rekor.sigstore.dev/1", "rekor.sigstore.dev/1", "", "ftp://x", "https://"] {
            check_log(wrong, &["attestation.log_url"]);
        }
        assert!(check(&Claim::default()).is_empty());
    }
}
