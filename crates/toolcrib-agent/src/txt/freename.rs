//! The public resolver of Freename, which has the records that users enter on its website.

use std::time::Instant;

use async_trait::async_trait;
use toolcrib_core::agent::AgtDomain;
use toolcrib_core::agent::txt::answers::read_freename;
use toolcrib_core::codes;
use toolcrib_fetch::{Configured, ConfiguredUrl, Headers};

use super::doh_json::limits;
use super::{answer, failed, from_json, response};
use crate::evidence::{TxtAnswer, TxtLookup};
use crate::source::TxtSource;

/// The URL of the resolver. It needs no key.
pub const FREENAME_API: &str = "https://apis.freename.io/api/v1/resolver";

/// The resolver of Freename.
#[derive(Debug)]
pub struct FreenameSource {
    name: String,
    client: Configured,
    base: ConfiguredUrl,
}

impl FreenameSource {
    /// Uses the resolver at a configured base URL, such as [`FREENAME_API`].
    pub fn new(client: Configured, base: ConfiguredUrl) -> Self {
        let usual = ConfiguredUrl::from_setting(FREENAME_API).is_ok_and(|usual| usual == base);
        let name = if usual { "freename".to_owned() } else { format!("freename:{base}") };
        Self { name, client, base }
    }

    async fn ask(&self, domain: &AgtDomain) -> TxtLookup {
        let headers = Headers::new().with("accept", "application/json");
        let url = self.base.below(&["FNS".to_owned(), domain.as_str().to_owned()], &[]);
        let (Ok(url), Ok(headers)) = (url, headers) else {
            return failed(codes::agent::TXT_SETTING, "the URL cannot be asked for a name");
        };
        let exchange = self.client.get(&url, &headers, limits()).await;
        match response(&exchange) {
            Ok(response) => match response.status {
                200 => from_json(read_freename(response.body.as_bytes(), domain)),
                404 => TxtLookup::NotFound,
                other => failed(codes::agent::TXT_ANSWER_STATUS, &format!("status {other}")),
            },
            Err(outcome) => outcome,
        }
    }
}

#[async_trait]
impl TxtSource for FreenameSource {
    fn name(&self) -> &str {
        &self.name
    }

    async fn lookup(&self, domain: &AgtDomain) -> TxtAnswer {
        let started = Instant::now();
        let outcome = self.ask(domain).await;
        answer(&self.name, started, outcome)
    }
}
