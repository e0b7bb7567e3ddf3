//! The live probe: what an endpoint answers to a call without payment.
//!
//! A POST with an empty object, and a GET when nothing is there for POST. No argument that anybody could act on is sent, nothing
//! is signed or paid, redirects are noted and not followed. [`judge_probe`] judges the answers.

use toolcrib_core::codes;
use toolcrib_core::tool::ToolManifest;
use toolcrib_core::url::HttpsUrl;
use toolcrib_fetch::{Headers, Limits, Target};
use toolcrib_judge::evidence::{Exchange, Failure, Method};
use toolcrib_x402::{MAX_BODY_BYTES, ProbeAnswer, ProbeReport, Subject, judge_probe};

use crate::{Verified, Verifier};

/// What is sent: an object without arguments.
const NOTHING: &[u8] = b"{}";

/// The requests of a probe and what came of them.
#[derive(Clone, Debug)]
pub struct Probe {
    /// One exchange, or two.
    pub exchanges: Vec<Exchange>,
}

impl Verifier {
    /// Probes the endpoint of a verified tool.
    pub async fn probe(&self, verified: &Verified<ToolManifest>) -> Probe {
        self.probe_at(verified.manifest().endpoint(), Some(verified.tool().chain)).await
    }

    /// Probes an endpoint that **the user** named. Never call it with a URL out of a manifest that was not verified. `dev_chain` is the
    /// chain whose development world a host below `localhost` is in.
    pub async fn probe_url(&self, endpoint: &HttpsUrl, dev_chain: Option<u64>) -> Probe {
        self.probe_at(endpoint, dev_chain).await
    }

    async fn probe_at(&self, endpoint: &HttpsUrl, chain: Option<u64>) -> Probe {
        let mut limits = Limits::MANIFEST;
        limits.body = MAX_BODY_BYTES;
        let target = Target::endpoint(endpoint, chain).limits(limits);
        // Both are plain names and values, so nothing is refused.
        let headers = Headers::new()
            .with("content-type", "application/json")
            .and_then(|headers| headers.with("accept", "application/json"))
            .unwrap_or_default();
        let mut exchanges = vec![self.door.post(&target, &headers, NOTHING).await];
        // The statuses that say that there is nothing for this method.
        if exchanges.iter().filter_map(Exchange::complete).any(|answer| matches!(answer.status, 404 | 405 | 410 | 501)) {
            exchanges.push(self.door.get(&target).await);
        }
        Probe { exchanges }
    }
}

impl Probe {
    /// The verdict, beside what the manifest says if there is one. Without it the answer is judged by itself.
    pub fn judge(&self, subject: Option<&Subject<'_>>) -> ProbeReport {
        let answers: Vec<_> = self.exchanges.iter().filter_map(answer).collect();
        let nobody = Subject { pricing: &[], is_gated: false, creator: None };
        let mut report = judge_probe(&answers, subject.unwrap_or(&nobody));
        if subject.is_none() {
            // Nobody said that calls are free.
            let compared = [codes::probe::ASKS_MORE, codes::probe::NEEDLESS_CHALLENGE, codes::probe::OPERATOR_UNSTATED];
            report.findings.retain(|finding| !compared.contains(&finding.code));
            report.agrees = None;
        }
        // Why there was no answer says more than that there was none.
        report.findings.extend(self.failures().map(Failure::finding));
        report
    }

    /// Why nothing can be said about the endpoint, if our own network may be at fault.
    pub fn unclear(&self) -> Option<&Failure> {
        self.exchanges.first()?.failure.as_ref().filter(|failure| codes::fetch::is_transient(failure.code))
    }

    fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.exchanges.iter().filter_map(|exchange| exchange.failure.as_ref())
    }
}

fn answer(exchange: &Exchange) -> Option<ProbeAnswer> {
    let response = exchange.complete()?;
    Some(ProbeAnswer {
        method: match exchange.method {
            Method::Get => toolcrib_x402::Method::Get,
            Method::Post => toolcrib_x402::Method::Post,
            // Endpoints are not asked to remove anything.
            Method::Delete => return None,
        },
        status: response.status,
        headers: response.headers.clone(),
        body: response.body.as_bytes().to_vec(),
    })
}
