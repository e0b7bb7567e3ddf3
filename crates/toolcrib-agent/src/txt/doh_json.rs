//! DNS over HTTPS in JSON, for services that support nothing else.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::agent::txt::answers::{MAX_ANSWER_BYTES, read_dns_json};
use toolcrib_core::codes;
use toolcrib_fetch::{Configured, ConfiguredUrl, Headers, Limits};

use super::{answer, failed, from_json, response};
use crate::evidence::{TxtAnswer, TxtLookup};
use crate::source::TxtSource;

/// Limits of one request to a JSON API: a lookup takes well under a second, and users wait for it.
pub(super) fn limits() -> Limits {
    let mut limits = Limits::MANIFEST;
    limits.body = MAX_ANSWER_BYTES;
    limits.total = Duration::from_secs(10);
    limits
}

/// A service for DNS over HTTPS in JSON (`application/dns-json`).
#[derive(Debug)]
pub struct DohJsonSource {
    name: String,
    client: Configured,
    url: ConfiguredUrl,
}

impl DohJsonSource {
    /// Uses the service at a configured URL, such as `https://dns.example/dns-query`.
    pub fn new(client: Configured, url: ConfiguredUrl) -> Self {
        Self { name: format!("doh-json:{url}"), client, url }
    }

    async fn ask(&self, domain: &AgtDomain) -> TxtLookup {
        let query = [("name", domain.as_str().to_owned()), ("type", "TXT".to_owned())];
        let headers = Headers::new().with("accept", "application/dns-json");
        let (Ok(url), Ok(headers)) = (self.url.below(&[], &query), headers) else {
            return failed(codes::agent::TXT_SETTING, "the URL cannot be asked for a name");
        };
        let exchange = self.client.get(&url, &headers, limits()).await;
        match response(&exchange) {
            Ok(response) if response.status == 200 => from_json(read_dns_json(response.body.as_bytes(), domain)),
            Ok(response) => failed(codes::agent::TXT_ANSWER_STATUS, &format!("status {}", response.status)),
            Err(outcome) => outcome,
        }
    }
}

#[async_trait]
impl TxtSource for DohJsonSource {
    fn name(&self) -> &str {
        &self.name
    }

    async fn lookup(&self, domain: &AgtDomain) -> TxtAnswer {
        let started = Instant::now();
        let outcome = self.ask(domain).await;
        answer(&self.name, started, outcome)
    }
}
