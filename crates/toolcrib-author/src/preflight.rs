//! Checks before a transaction is signed, so that no gas is wasted.
//!
//! Nothing is fetched here: the verifier checks that the URL really serves the manifest.

use alloy_primitives::Address;
use toolcrib_core::canon::Sealed;
use toolcrib_core::codes;
use toolcrib_core::finding::{Finding, Mode, Severity};
use toolcrib_core::slug::{self, Slug};
use toolcrib_core::tool::ToolManifest;
use toolcrib_core::url::well_known::{WellKnown, check_origin_binding, metadata_uri};

/// A manifest that one account may register at a URL.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The manifest, with the hash to commit.
    pub manifest: Sealed<ToolManifest>,
    /// The URL to commit, normalised.
    pub metadata_uri: String,
    /// The slug in it.
    pub slug: Slug,
    /// Findings that do not prevent the registration.
    pub remarks: Vec<Finding>,
}

/// Checks a manifest, its URL, and the signer.
///
/// Reports all errors at once; URL and signer are checked unless the manifest cannot be parsed.
pub fn preflight(manifest: &[u8], uri: &str, signer: Address) -> Result<Ready, Vec<Finding>> {
    let checked = ToolManifest::parse(manifest, Mode::Producer);
    let mut findings = checked.findings.clone();
    let Ok(manifest) = checked.into_result() else { return Err(findings) };
    if manifest.creator() != signer {
        let finding = Finding::new(codes::author::CREATOR_NOT_SIGNER)
            .expected(manifest.creator().to_checksum(None))
            .got(signer.to_checksum(None));
        findings.push(match manifest.document().root().get("creatorAddress") {
            Some(value) => finding.at(value),
            None => finding,
        });
    }
    let slug = match check_origin_binding(uri, manifest.endpoint()) {
        Ok(slug) => Some(slug),
        Err(faults) => {
            findings.extend(faults);
            None
        }
    };
    match slug.zip(WellKnown::parse(uri).ok()) {
        Some((slug, place)) if !findings.iter().any(|finding| finding.severity == Severity::Error) => {
            findings.extend(slug::lint_against_name(&slug, manifest.name()));
            let metadata_uri = metadata_uri(&place.origin(), &slug);
            Ok(Ready { manifest, metadata_uri, slug, remarks: findings })
        }
        _ => Err(findings),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATOR: Address = alloy_primitives::address!("f39fd6e51aad88f6f4ce6ab8827279cfffb92266");
    const URI: &str = "https://tools.harbour-office.org/.well-known/ai-tool/tide-table.json";

    fn manifest(endpoint: &str) -> Vec<u8> {
        format!(
            r#"{{"type":"https://ercs.ethereum.org/ERCS/erc-8257#tool-manifest-v1","name":"Tide table","description":"Tides.",
            "endpoint":"{endpoint}","inputs":{{}},"outputs":{{}},"creatorAddress":"0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"}}"#
        )
        .into_bytes()
    }

    #[track_caller]
    fn refused(manifest: &[u8], uri: &str, signer: Address) -> Vec<&'static str> {
        let findings = preflight(manifest, uri, signer).expect_err("refused");
        findings.iter().filter(|finding| finding.severity == Severity::Error).map(|finding| finding.code.id()).collect()
    }

    // req: CREATOR-005, CREATOR-003
    #[test]
    fn only_the_creator_may_register() {
        let good = manifest("https://tools.harbour-office.org/tides");
        assert!(preflight(&good, URI, CREATOR).is_ok());
        assert_eq!(refused(&good, URI, Address::repeat_byte(7)), ["author.creator_not_signer"]);
    }

    // req: URL-004, URL-014
    #[test]
    fn the_url_must_be_one_that_verifies() {
        let good = manifest("https://tools.harbour-office.org/tides");
        let ready = preflight(&good, "HTTPS://Tools.Harbour-Office.org:443/.well-known/ai-tool/tide-table.json", CREATOR);
        assert_eq!(ready.expect("normalised before it is committed").metadata_uri, URI);
        for uri in
            ["https://harbour-office.org/.well-known/ai-tool/tide-table.json", "https://tools.harbour-office.org/tides.json", ""]
        {
            assert!(!refused(&good, uri, CREATOR).is_empty(), "{uri}");
        }
        let codes = refused(&good, "https://harbour-office.org/x", Address::ZERO);
        assert!(codes.len() >= 2, "everything at once: {codes:?}");
    }

    #[test]
    fn a_flawed_manifest_is_refused_with_its_own_findings() {
        assert_eq!(refused(&manifest("http://tools.harbour-office.org/tides"), URI, CREATOR), ["url.not_https"]);
        assert_eq!(refused(b"{", URI, CREATOR), ["json.syntax"]);
    }
}
