//! Checks that a server sends the manifest that is about to be committed.
//!
//! The caller fetches the bytes. Registering a URL that serves something else costs gas and never verifies, so
//! this is checked before anything is signed, and differences are explained.

use std::time::Duration;

use alloy_primitives::B256;
use tokio::time::{Instant, sleep};
use toolcrib_core::canon::Canonical;
use toolcrib_core::codes;
use toolcrib_core::finding::{Finding, Mode, Severity};
use toolcrib_core::json;
use toolcrib_core::tool::ToolManifest;
use toolcrib_judge::evidence::Exchange;
use toolcrib_judge::explain::{Case, Diff, diff};

use crate::preflight::Ready;

/// Pause between two requests while waiting for a server: a deployment takes at least seconds.
const PAUSE: Duration = Duration::from_secs(2);

/// Why the served manifest must not be committed.
#[derive(Clone, Debug)]
pub struct ServedError {
    /// The findings, the main one first.
    pub findings: Vec<Finding>,
    /// Whether the client's own network may be at fault, so that the server's state is unknown.
    pub is_unclear: bool,
    /// The difference from the file to the served document, if both parse.
    pub diff: Option<Diff>,
}

/// Returns the served bytes.
pub fn served(exchange: &Exchange) -> Result<&[u8], ServedError> {
    if let Some(response) = exchange.complete() {
        return Ok(response.body.as_bytes());
    }
    let not_served = codes::author::NOT_SERVED;
    let finding = Finding::new(not_served).got(&exchange.url);
    let (findings, is_unclear) = match &exchange.failure {
        None => (vec![finding], true),
        Some(failure) => {
            let finding = finding.message(format!("{}: {}", not_served.title(), failure.code.title()));
            (vec![finding, failure.finding()], codes::fetch::is_transient(failure.code))
        }
    };
    Err(ServedError { findings, is_unclear, diff: None })
}

/// Compares the served manifest with the one to commit, by their canonical hashes. `committed` is the hash that is
/// currently onchain, if the tool is registered.
pub fn compare(exchange: &Exchange, ready: &Ready, committed: Option<B256>) -> Result<(), ServedError> {
    let bytes = served(exchange)?;
    let wanted = ready.manifest.hash();
    let checked = ToolManifest::parse(bytes, Mode::Consumer);
    let hash = checked.canonical().map(Canonical::hash);
    let mut errors: Vec<_> = checked.findings.into_iter().filter(|finding| finding.severity == Severity::Error).collect();
    if hash == Some(wanted) && errors.is_empty() {
        return Ok(());
    }
    if hash.is_some() && hash == committed {
        let finding = Finding::new(codes::author::SERVED_STALE);
        return Err(refusal(vec![hashes(finding, wanted, hash)], bytes, ready));
    }
    let finding = hashes(Finding::new(codes::author::SERVED_DIFFERS), wanted, hash);
    let case = Case { served: bytes, committed: wanted, metadata_uri: Some(&ready.metadata_uri), candidates: &[] };
    let mut findings = vec![finding];
    if let Some(cause) = case.explain().cause {
        findings.push(Finding::new(cause.code()).message(cause.to_string()));
    }
    findings.append(&mut errors);
    Err(refusal(findings, bytes, ready))
}

/// Compares repeatedly for at most `wait`, such as during a deployment.
///
/// `fetch` makes one request; `waits` is called with the first difference if there is time left.
pub async fn wait_until_served(
    ready: &Ready,
    committed: Option<B256>,
    wait: Duration,
    fetch: impl AsyncFn() -> Exchange,
    waits: impl FnOnce(&ServedError),
) -> Result<(), ServedError> {
    let end = Instant::now() + wait;
    let mut waits = Some(waits);
    loop {
        let Err(refusal) = compare(&fetch().await, ready, committed) else { return Ok(()) };
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(refusal);
        }
        if let Some(waits) = waits.take() {
            waits(&refusal);
        }
        sleep(PAUSE.min(left)).await;
    }
}

fn hashes(finding: Finding, wanted: B256, served: Option<B256>) -> Finding {
    finding.expected(wanted.to_string()).got(served.map_or_else(|| "nothing that has a hash".to_owned(), |hash| hash.to_string()))
}

fn refusal(findings: Vec<Finding>, served: &[u8], ready: &Ready) -> ServedError {
    let document = json::read(served, json::Limits::default()).document;
    let diff = document.map(|document| diff(ready.manifest.document().root(), document.root()));
    ServedError { findings, is_unclear: false, diff: diff.filter(|diff| !diff.is_empty()) }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use toolcrib_core::clock::UnixTime;
    use toolcrib_judge::evidence::{Body, Failure, Method, Response};

    use super::*;
    use crate::preflight::preflight;

    const URI: &str = "https://tools.harbour-office.org/.well-known/ai-tool/tide-table.json";
    const MANIFEST: &str = r#"{"type":"https://ercs.ethereum.org/ERCS/erc-8257#tool-manifest-v1","name":"Tide table",
        "description":"Tides.","endpoint":"https://tools.harbour-office.org/tides","inputs":{},"outputs":{},
        "creatorAddress":"0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"}"#;

    fn ready(manifest: &str) -> Ready {
        let creator = alloy_primitives::address!("f39fd6e51aad88f6f4ce6ab8827279cfffb92266");
        preflight(manifest.as_bytes(), URI, creator).expect("a good manifest")
    }

    fn exchange(body: impl Into<Vec<u8>>) -> Exchange {
        let mut exchange = Exchange::new(Method::Get, URI, UnixTime::from_seconds(1));
        exchange.response = Some(Response { status: 200, headers: Vec::new(), body: Body(body.into()) });
        exchange
    }

    #[track_caller]
    fn check(body: impl Into<Vec<u8>>, committed: Option<B256>, expected: &[&str]) -> Option<Diff> {
        let refusal = compare(&exchange(body), &ready(MANIFEST), committed).expect_err("refused");
        let codes: Vec<_> = refusal.findings.iter().map(|finding| finding.code.id()).collect();
        assert!(codes.starts_with(expected), "{codes:?}");
        assert!(!refusal.is_unclear);
        refusal.diff
    }

    #[test]
    fn layout_does_not_count_and_content_does() {
        let ready = ready(MANIFEST);
        compare(&exchange(MANIFEST), &ready, None).expect("the same bytes");
        compare(&exchange(ready.manifest.canonical().as_bytes()), &ready, None).expect("another layout");
        let diff = check(MANIFEST.replace("Tides.", "Tides!"), None, &["author.served_differs"]).expect("two documents");
        assert_eq!((diff.total, diff.changes[0].pointer.as_str()), (1, "/description"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deployment_is_waited_for_and_told_of_once() {
        let ready = ready(MANIFEST);
        let asked = Cell::new(0);
        let fetch = async || {
            asked.set(asked.get() + 1);
            exchange(if asked.get() < 4 { "not yet" } else { MANIFEST })
        };
        let told = Cell::new(0);
        let tells = |_: &ServedError| told.set(told.get() + 1);
        let began = Instant::now();
        let short = wait_until_served(&ready, None, Duration::from_secs(3), fetch, tells).await;
        assert_eq!(short.expect_err("not deployed").findings[0].code, codes::author::SERVED_DIFFERS);
        assert_eq!((asked.get(), told.get(), began.elapsed()), (3, 1, Duration::from_secs(3)));
        wait_until_served(&ready, None, Duration::from_secs(3), fetch, tells).await.expect("deployed");
        assert_eq!((asked.get(), told.get()), (4, 1), "at once");
        asked.set(0);
        wait_until_served(&ready, None, Duration::ZERO, fetch, tells).await.expect_err("one request");
        assert_eq!((asked.get(), told.get()), (1, 1));
    }

    #[test]
    fn what_the_server_sends_instead_is_named() {
        check("<!doctype html><p>hello", None, &["author.served_differs", "hash.error_page"]);
        check("", None, &["author.served_differs", "hash.empty_body"]);
        check(r#"{"error":"no such tool"}"#, None, &["author.served_differs", "hash.error_object"]);
        // A server that sends addresses with a checksum, while lower case was hashed.
        let upper = MANIFEST.replace("0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266", "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
        check(upper, None, &["author.served_differs", "hash.hex_case"]);
        check(format!("\u{feff}{MANIFEST}"), None, &["author.served_differs"]);
    }

    #[test]
    fn the_version_before_is_told_from_another_one() {
        let old = MANIFEST.replace("Tides.", "Tides of old.");
        let committed = Some(ready(&old).manifest.hash());
        check(old.clone(), committed, &["author.served_stale"]);
        check(old, None, &["author.served_differs"]);
        check("{}", committed, &["author.served_differs"]);
    }

    #[test]
    fn a_fetch_that_failed_says_whether_it_may_be_us() {
        for (code, is_unclear) in [
            (codes::fetch::DNS_FAILED, true),
            (codes::fetch::CONNECT_REFUSED, true),
            (codes::fetch::NO_SUCH_HOST, false),
            (codes::fetch::PRIVATE_ADDRESS, false),
        ] {
            let exchange = Exchange::new(Method::Get, URI, UnixTime::from_seconds(1)).failed(Failure::new(code, "why"));
            let refusal = compare(&exchange, &ready(MANIFEST), None).expect_err("refused");
            assert_eq!(refusal.is_unclear, is_unclear, "{code}");
            assert_eq!(
                refusal.findings.iter().map(|finding| finding.code).collect::<Vec<_>>(),
                [codes::author::NOT_SERVED, code]
            );
        }
    }
}
