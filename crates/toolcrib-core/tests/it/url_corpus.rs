//! Third-party URLs: the Web Platform Tests and the URLs of registered tools. Nothing is resolved.

use std::fs;
use std::path::PathBuf;

use serde_json::Value as Json;
use toolcrib_core::checked::Context;
use toolcrib_core::codes;
use toolcrib_core::finding::{Finding, Mode};
use toolcrib_core::json::{self, Limits};
use toolcrib_core::url::well_known::{WellKnown, check_origin_binding};
use toolcrib_core::url::{FaultKind, HttpsUrl, Level, check, display_host, image::ImageUri};

use toolcrib_testkit::corpus;

fn load(path: &PathBuf) -> Json {
    let text = fs::read_to_string(path).expect("a readable file");
    // Lone surrogates are not Unicode text, so no URL can contain them; a file that has them is read with these escapes as literal text.
    serde_json::from_str(&text).unwrap_or_else(|_| {
        let patched = text.replace("\\uD", "\\\\uD").replace("\\ud", "\\\\ud");
        serde_json::from_str(&patched).expect("JSON")
    })
}

/// Every string in a JSON value, except for prose about the tests.
fn strings(json: &Json, into: &mut Vec<String>) {
    match json {
        Json::String(text) => into.push(text.clone()),
        Json::Array(list) => list.iter().filter(|item| !item.is_string()).for_each(|item| strings(item, into)),
        Json::Object(members) => {
            members.iter().filter(|(key, _)| *key != "comment").for_each(|(_, value)| strings(value, into));
        }
        _ => {}
    }
}

/// All findings of a text as a URL field.
fn findings(text: &str, mode: Mode) -> (Option<HttpsUrl>, Vec<Finding>) {
    let source = serde_json::to_string(text).expect("a JSON string");
    let document = json::read(source.as_bytes(), Limits::default()).document.expect("JSON");
    let mut context = Context::new(mode);
    let url = check(document.root(), text, &mut context);
    (url, context.findings.into_sorted())
}

/// Compares a text's verdicts with the `url` crate. Returns whether readers and whether writers may accept it.
#[track_caller]
fn hold_against_whatwg(text: &str) -> (bool, bool) {
    let faults = HttpsUrl::faults(text);
    assert!(faults.iter().all(|fault| fault.span.start <= fault.span.end && fault.span.end <= text.len()), "{text:?}");
    let (checked, _) = findings(text, Mode::Producer);
    let Ok(ours) = HttpsUrl::parse(text) else {
        assert!(faults.iter().any(|fault| fault.kind.level() == Level::Hard), "{text:?}");
        assert!(checked.is_none());
        return (false, false);
    };
    assert_eq!(checked.as_ref(), Some(&ours));
    let theirs = url::Url::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    assert_eq!(theirs.scheme(), "https", "{text:?}");
    assert_eq!(theirs.host_str(), Some(ours.host()), "{text:?}");
    assert_eq!(theirs.port(), ours.explicit_port(), "{text:?}");
    assert!(theirs.username().is_empty() && theirs.password().is_none(), "{text:?}");

    let apostrophe = faults.iter().any(|fault| fault.kind == FaultKind::QueryApostrophe);
    let mut expected = ours.origin().to_string();
    expected.push_str(if ours.path().is_empty() { "/" } else { ours.path() });
    if let Some(query) = ours.query() {
        expected.push('?');
        expected.push_str(&if apostrophe { query.replace('\'', "%27") } else { query.to_owned() });
    }
    if let Some(fragment) = ours.fragment() {
        expected.push('#');
        expected.push_str(fragment);
    }
    // Browsers resolve dot segments; readers here use the path as written.
    let is_resolved = faults.iter().any(|fault| fault.kind == FaultKind::DotSegment);
    assert!(is_resolved || theirs.as_str() == expected, "{text:?}: {theirs} is not {expected}");
    let again = HttpsUrl::parse(ours.normalized());
    assert_eq!(again.as_ref(), Ok(&ours), "{text:?}");
    let exact = HttpsUrl::parse_exact(text).is_ok();
    assert_eq!(exact, faults.is_empty(), "{text:?}");
    assert!(!exact || ours.normalized() == text, "{text:?}");
    (true, exact)
}

// req: URL-007, URL-008, URL-009
#[test]
#[expect(clippy::print_stderr, reason = "the numbers say whether the test tested anything")]
fn web_platform_tests() {
    let Some(folder) = corpus("url") else { return };
    let (mut inputs, mut total_exact) = (0, 0);
    for name in [
        "urltestdata",
        "urltestdata-javascript-only",
        "setters_tests",
        "percent-encoding",
        "toascii",
        "IdnaTestV2",
        "IdnaTestV2-removed",
    ] {
        let mut texts = Vec::new();
        strings(&load(&folder.join(format!("{name}.json"))), &mut texts);
        let mut candidates = Vec::new();
        for text in texts {
            // Most inputs have other schemes or are parts of a URL: complete them to https URLs.
            if let Some(rest) =
                text.strip_prefix("http:").or_else(|| text.strip_prefix("ws:")).or_else(|| text.strip_prefix("wss:"))
            {
                candidates.push(format!("https:{rest}"));
            }
            candidates.push(format!("https://{text}/"));
            candidates.push(format!("https://a.{text}"));
            candidates.push(format!("https://ex.com{text}"));
            candidates.push(format!("https://ex.com/{text}"));
            candidates.push(format!("https://ex.com/?{text}"));
            candidates.push(format!("https://ex.com/#{text}"));
            candidates.push(text);
        }
        let (mut read, mut exact) = (0, 0);
        for text in &candidates {
            let (may_read, may_write) = hold_against_whatwg(text);
            read += usize::from(may_read);
            exact += usize::from(may_write);
            let _ = ImageUri::classify(text);
            let _ = display_host(text);
        }
        eprintln!("{name}: {} texts, {read} accepted from others, {exact} accepted from authors", candidates.len());
        inputs += candidates.len();
        total_exact += exact;
    }
    eprintln!("all: {inputs} texts, {total_exact} accepted from authors");
    assert!(inputs > 10_000 && total_exact > 1_000, "the corpus is not what it was");
}

/// Hosts of the IDNA tests: valid ASCII names must be accepted, unless they break the rules of host names.
#[test]
#[expect(clippy::print_stderr, reason = "the numbers say whether the test tested anything")]
fn valid_a_labels_are_accepted() {
    let Some(folder) = corpus("url") else { return };
    let (mut accepted, mut hosts) = (0, 0);
    for name in ["toascii", "IdnaTestV2"] {
        for case in load(&folder.join(format!("{name}.json"))).as_array().expect("a list") {
            let Some(output) = case["output"].as_str().filter(|output| !output.is_empty()) else { continue };
            hosts += 1;
            let kinds: Vec<_> = HttpsUrl::faults(&format!("https://{output}/")).into_iter().map(|fault| fault.kind).collect();
            accepted += usize::from(kinds.is_empty());
            // Recent versions of the tests accept undecodable labels if the whole host is ASCII; the `url` crate and Toolcrib do not.
            let theirs = url::Url::parse(&format!("https://{output}/")).ok();
            let agreed = theirs.as_ref().and_then(url::Url::host_str) == Some(output);
            assert!(!agreed || !kinds.contains(&FaultKind::InvalidPunycode), "{output:?}: {kinds:?}");
            let input = case["input"].as_str().expect("a text");
            if !input.is_ascii() {
                assert!(HttpsUrl::parse(&format!("https://{input}/")).is_err(), "{input:?} is a U-label");
            }
        }
    }
    eprintln!("{hosts} valid hosts, {accepted} accepted");
    assert!(accepted > 500, "{accepted} of {hosts}");
}

fn text<'j>(row: &'j Json, key: &str) -> Option<&'j str> {
    row[key].as_str().filter(|text| !text.is_empty())
}

// req: URL-004, URL-012, URL-013, SSRF-001
#[test]
#[expect(clippy::print_stderr, reason = "the numbers say whether the test tested anything")]
fn registered_urls() {
    let Some(folder) = corpus("erc8257/registry") else { return };
    let index = load(&folder.join("agent-tool-index-20260822.json"));
    let tools = index["tools"].as_array().expect("a list");
    let history = fs::read_to_string(folder.join("history.tsv")).expect("a readable file");
    let (mut urls, mut read, mut bound, mut unbound) = (0, 0, 0, 0);
    let mut pairs: Vec<(&str, Option<&str>)> =
        tools.iter().filter_map(|tool| Some((text(tool, "metadata_uri")?, text(tool, "endpoint")))).collect();
    pairs.extend(history.lines().skip(1).filter_map(|line| {
        let columns: Vec<_> = line.split('\t').collect();
        Some((
            columns.get(4).copied().filter(|uri| !uri.is_empty())?,
            columns.get(11).copied().filter(|endpoint| !endpoint.is_empty()),
        ))
    }));
    for (metadata_uri, endpoint) in pairs {
        for text in [Some(metadata_uri), endpoint].into_iter().flatten() {
            urls += 1;
            read += usize::from(hold_against_whatwg(text).0);
        }
        let _ = WellKnown::parse(metadata_uri);
        if let Some(endpoint) = endpoint.and_then(|endpoint| HttpsUrl::parse(endpoint).ok()) {
            match check_origin_binding(metadata_uri, &endpoint) {
                Ok(_) => bound += 1,
                Err(findings) => {
                    unbound += 1;
                    assert!(!findings.is_empty());
                    for finding in findings {
                        assert_eq!(finding.code.info().check, Some(2), "{metadata_uri}: {finding:?}");
                    }
                }
            }
        }
    }
    eprintln!("{urls} registered URLs, {read} accepted; {bound} pairs pass check 2, {unbound} fail it");
    assert!(urls > 1_500 && read > 1_400 && bound > 300, "{urls} {read} {bound}");
}

// req: SSRF-001, URL-013
#[test]
#[expect(clippy::print_stderr, reason = "the numbers say whether the test tested anything")]
fn hostile_registrations() {
    let Some(folder) = corpus("erc8257/registry") else { return };
    let rows = load(&folder.join("hostile-or-probe-registrations.json"));
    let (mut ssrf, mut shell, mut ephemeral, mut noticed) = (0, 0, 0, 0);
    let rows = rows.as_array().expect("a list");
    for row in rows {
        let urls: Vec<&str> = ["metadata_uri", "endpoint"].iter().filter_map(|key| text(row, key)).collect();
        let classes: Vec<&str> = row["class"].as_array().expect("a list").iter().filter_map(Json::as_str).collect();
        let kinds: Vec<FaultKind> = urls.iter().flat_map(|text| HttpsUrl::faults(text)).map(|fault| fault.kind).collect();
        let codes: Vec<_> = urls.iter().flat_map(|text| findings(text, Mode::Consumer).1).map(|finding| finding.code).collect();
        let id = &row["tool_id"];
        if classes.contains(&"ssrf-metadata-ip") {
            ssrf += 1;
            assert!(kinds.contains(&FaultKind::NotHttps), "{id}: {kinds:?}");
            let address = kinds.contains(&FaultKind::Ipv4NotCanonical) || kinds.contains(&FaultKind::NonPublicAddress);
            assert!(address, "{id}: {kinds:?}");
        }
        if classes.contains(&"plain-http") {
            assert!(kinds.contains(&FaultKind::NotHttps), "{id}: {kinds:?}");
        }
        // In some of the rows the endpoint itself is shell text; in others it is in fields that are not URLs.
        if let Some(endpoint) =
            text(row, "endpoint").filter(|text| text.contains(['|', '^', '"', '`']) || text.contains("%PROGRAM"))
        {
            shell += 1;
            let (url, findings) = findings(endpoint, Mode::Consumer);
            let told = [codes::url::SHELL_TEXT, codes::url::PERCENT_TRIPLET];
            assert!(url.is_none() || findings.iter().any(|finding| told.contains(&finding.code)), "{id}: {findings:?}");
        }
        if classes.iter().any(|class| matches!(*class, "ephemeral-or-mutable-host" | "oob-callback-host")) {
            ephemeral += 1;
            assert!(codes.contains(&codes::url::EPHEMERAL_HOST), "{id}: {urls:?} {codes:?}");
        }
        let binding_fails = WellKnown::parse(urls[0]).is_err();
        noticed += usize::from(binding_fails || !codes.is_empty());
    }
    eprintln!(
        "{} hostile rows: {ssrf} SSRF, {shell} shell, {ephemeral} ephemeral hosts; {noticed} noticed by their URLs",
        rows.len()
    );
    assert!(ssrf >= 2 && shell >= 2 && ephemeral >= 40, "{ssrf} {shell} {ephemeral}");
}
