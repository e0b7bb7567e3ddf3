//! The live probe: how an endpoint responds to a call without payment.
//!
//! Sends a POST with an empty object, and a GET if the endpoint does not support POST. The requests have no arguments that an endpoint
//! could act on; nothing is signed or paid; redirects are recorded and not followed. [`judge_probe`] judges the responses.

use toolcrib_core::codes;
use toolcrib_core::tool::ToolManifest;
use toolcrib_core::url::HttpsUrl;
use toolcrib_fetch::{Headers, Limits, Target};
use toolcrib_judge::evidence::{Exchange, Failure, Method};
use toolcrib_x402::{MAX_BODY_BYTES, ProbeAnswer, ProbeReport, Subject, judge_probe};

use crate::{Verified, Verifier};

/// The request body: an object without arguments.
const NOTHING: &[u8] = b"{}";

/// The exchanges of a probe.
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

    /// Probes an endpoint that **the user** named. Never call it with a URL from an unverified manifest. `dev_chain` is the
    /// chain of the development environment for hosts below `localhost`.
    pub async fn probe_url(&self, endpoint: &HttpsUrl, dev_chain: Option<u64>) -> Probe {
        self.probe_at(endpoint, dev_chain).await
    }

    async fn probe_at(&self, endpoint: &HttpsUrl, chain: Option<u64>) -> Probe {
        let mut limits = Limits::MANIFEST;
        limits.body = MAX_BODY_BYTES;
        let target = Target::endpoint(endpoint, chain).limits(limits);
        // Both are valid names and values, so neither is rejected.
        let headers = Headers::new()
            .with("content-type", "application/json")
            .and_then(|headers| headers.with("accept", "application/json"))
            .unwrap_or_default();
        let mut exchanges = vec![self.door.post(&target, &headers, NOTHING).await];
        // Statuses that mean that the endpoint does not support the method.
        if exchanges.iter().filter_map(Exchange::complete).any(|answer| matches!(answer.status, 404 | 405 | 410 | 501)) {
            exchanges.push(self.door.get(&target).await);
        }
        Probe { exchanges }
    }
}

impl Probe {
    /// Judges the responses, compared with the manifest if there is one, and by themselves otherwise.
    pub fn judge(&self, subject: Option<&Subject<'_>>) -> ProbeReport {
        let answers: Vec<_> = self.exchanges.iter().filter_map(answer).collect();
        let nobody = Subject { pricing: &[], is_gated: false, creator: None };
        let mut report = judge_probe(&answers, subject.unwrap_or(&nobody));
        if subject.is_none() {
            // Without a manifest, calls are not known to be free.
            let compared = [codes::probe::ASKS_MORE, codes::probe::NEEDLESS_CHALLENGE, codes::probe::OPERATOR_UNSTATED];
            report.findings.retain(|finding| !compared.contains(&finding.code));
            report.agrees = None;
        }
        // The reason for a missing response is more useful than the fact.
        report.findings.extend(self.failures().map(Failure::finding));
        report
    }

    /// Why the probe is inconclusive, if the client's own network may be at fault.
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
            // Endpoints are never sent DELETE.
            Method::Delete => return None,
        },
        status: response.status,
        headers: response.headers.clone(),
        body: response.body.as_bytes().to_vec(),
    })
}
