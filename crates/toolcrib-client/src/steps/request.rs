//! The request: one URL, method and body, sent first without a payment and at most once more with one.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value as Json;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_core::url::HttpsUrl;
use toolcrib_fetch::{Headers, Limits, Target, Untrusted};
use toolcrib_judge::evidence::{self, Exchange, Response};
use toolcrib_x402::{Challenge, ChallengeReading, Method, ProbeAnswer, read_answer};

use crate::CallError;

/// Longest URL with a query. Common servers and proxies refuse a request line of more than 8 KiB.
const MAX_QUERY_URL_BYTES: usize = 8_000;

/// A request that can be sent.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) url: HttpsUrl,
    pub(crate) method: Method,
    pub(crate) body: Vec<u8>,
    /// The chain of a development environment, if the URL is in one.
    pub(crate) chain: Option<u64>,
}

/// Shows neither query nor body: inputs are private.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({} {})", self.method.as_str(), self.url.origin())
    }
}

impl Request {
    /// Returns the request that sends an input to an endpoint.
    pub(crate) fn of_input(endpoint: &HttpsUrl, method: Method, input: &Json, chain: Option<u64>) -> Result<Self, CallError> {
        let (url, body) = match method {
            Method::Post => (endpoint.clone(), input.to_string().into_bytes()),
            Method::Get => (with_query(endpoint, input)?, Vec::new()),
        };
        Ok(Self { url, method, body, chain })
    }

    /// Returns the URL as a server sees it: a bound nonce commits to it.
    pub(crate) fn target(&self) -> &str {
        let text = self.url.normalized();
        text.split_once('#').map_or(text, |(target, _)| target)
    }

    /// Sends it. `extra` contains names and values of headers besides those of JSON.
    pub(crate) async fn send(&self, door: &Untrusted, extra: &[(&str, &str)], limits: Limits) -> Result<Exchange, CallError> {
        let refused = |error: toolcrib_fetch::Error| CallError::Setting { what: "a header", reason: error.to_string() };
        let mut headers = Headers::new().with("accept", "application/json").map_err(refused)?;
        if self.method == Method::Post {
            headers = headers.with("content-type", "application/json").map_err(refused)?;
        }
        for (name, value) in extra {
            headers = headers.with(name, value).map_err(refused)?;
        }
        let target = Target::endpoint(&self.url, self.chain).limits(limits);
        Ok(match self.method {
            Method::Post => door.post(&target, &headers, &self.body).await,
            Method::Get => door.get_with(&target, &headers).await,
        })
    }
}

/// Returns the endpoint with the members of an object as query parameters.
fn with_query(endpoint: &HttpsUrl, input: &Json) -> Result<HttpsUrl, CallError> {
    let not_a_query = |member: &str| CallError::InputNotAQuery { member: member.to_owned() };
    let members = input.as_object().ok_or_else(|| not_a_query("the input"))?;
    let text = endpoint.normalized();
    let mut text = text.split_once('#').map_or(text, |(before, _)| before).to_owned();
    let mut mark = if endpoint.query().is_some() { '&' } else { '?' };
    for (name, value) in members {
        let value = match value {
            Json::String(text) => text.clone(),
            Json::Number(number) => number.to_string(),
            Json::Bool(truth) => truth.to_string(),
            Json::Null | Json::Array(_) | Json::Object(_) => return Err(not_a_query(name)),
        };
        text.push(mark);
        text.extend(utf8_percent_encode(name, RESERVED));
        text.push('=');
        text.extend(utf8_percent_encode(&value, RESERVED));
        mark = '&';
    }
    let unusable = |reason: String| CallError::Setting { what: "the URL that the input makes", reason };
    if text.len() > MAX_QUERY_URL_BYTES {
        return Err(unusable(format!("it has {} bytes, and servers take {MAX_QUERY_URL_BYTES}", text.len())));
    }
    HttpsUrl::parse(&text).map_err(|fault| unusable(fault.to_string()))
}

/// Escapes all but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Converts a response into the form from which challenges are read.
pub(super) fn answer_of(exchange: &Exchange, response: &Response) -> ProbeAnswer {
    ProbeAnswer {
        method: match exchange.method {
            evidence::Method::Get => Method::Get,
            // This client sends no DELETE.
            evidence::Method::Post | evidence::Method::Delete => Method::Post,
        },
        status: response.status,
        headers: response.headers.clone(),
        body: response.body.as_bytes().to_vec(),
    }
}

/// Returns the challenge of a 402 to sign: that of the header if it is valid, else that of the body. Any error in the response as a whole,
/// or in a challenge that clients find first, prevents the signature.
pub(crate) fn read_challenge(exchange: &Exchange, response: &Response) -> Result<Challenge, CallError> {
    let reading = read_answer(&answer_of(exchange, response));
    let challenge = sound(&reading).cloned();
    challenge.ok_or_else(|| {
        let mut findings = reading.all_findings();
        findings.retain(|finding| finding.severity == Severity::Error);
        CallError::Challenge { findings }
    })
}

fn sound(reading: &ChallengeReading) -> Option<&Challenge> {
    let is_error = |finding: &Finding| finding.severity == Severity::Error;
    if reading.findings.iter().any(is_error) {
        return None;
    }
    match (&reading.header, &reading.body) {
        (Some(header), _) => header.sound(),
        (None, body) => body.as_ref()?.sound(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_input_as_a_query() {
        let endpoint = HttpsUrl::parse("https://tools.example.com/echo?v=1").unwrap();
        let input = json!({"text": "a b&c=ü", "n": 1.5, "on": true, "big": 12});
        let request = Request::of_input(&endpoint, Method::Get, &input, None).unwrap();
        assert_eq!(request.target(), "https://tools.example.com/echo?v=1&text=a%20b%26c%3D%C3%BC&n=1.5&on=true&big=12");
        assert!(request.body.is_empty());
        for (input, member) in [
            (json!({"a": null}), "a"),
            (json!({"a": 1, "list": [1]}), "list"),
            (json!({"object": {}}), "object"),
            (json!([1]), "the input"),
        ] {
            let error = Request::of_input(&endpoint, Method::Get, &input, None).unwrap_err();
            assert!(matches!(&error, CallError::InputNotAQuery { member: named } if named == member), "{error}");
        }
    }
}
