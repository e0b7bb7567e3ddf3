//! DNS TXT records of Agent Identity and Discovery (AID), as lines of a zone file.
//!
//! A name has one record: readers reject both if there are two of the same version. The base name `_agent.<host>` gets one protocol, and
//! each further one gets a record at `_agent._<protocol>.<host>`, where clients for that protocol look it up. Records have no key for an
//! endpoint proof: the owner's key signs manifests, and no endpoint has it.

use toolcrib_core::codes::agent as code;
use toolcrib_core::finding::{Finding, Severity};
use toolcrib_core::url::HttpsUrl;

use super::export::{Endpoint, Job, Outcome, about, no_endpoint, option};
use super::text;
use super::urls::Schemes;

/// Maximum length of the description in a record (AID §2.1).
const MAX_DESCRIPTION_BYTES: usize = 60;

/// Maximum length of a character-string (RFC 1035 §3.3). Longer records have several.
const MAX_STRING_BYTES: usize = 255;

/// The TTL of a record in seconds: the lower end of AID's recommendation.
const TTL: u32 = 300;

/// Maximum length of a DNS name (RFC 1035 §2.3.4).
const MAX_NAME_BYTES: usize = 253;

pub(super) fn export(job: &mut Job<'_>) -> Outcome {
    let host = host(job)?;
    job.drop_protocols(|id| token(id).is_some(), "AID has no token for this protocol");
    let mut endpoints = Vec::new();
    for endpoint in job.endpoints(Schemes::HttpsOrWss, |id| token(id).is_some()) {
        let Some(known) = token(endpoint.protocol.id()) else { continue };
        let is_websocket = known == "websocket";
        if is_websocket != endpoint.url.starts_with("wss://") {
            job.note(left_out(&endpoint, "the endpoint has another scheme than AID asks for").got(&endpoint.url));
        } else if endpoints.iter().any(|(other, _, _)| *other == known) {
            job.note(left_out(&endpoint, "a name has one record for each protocol: the first endpoint is used").got(known));
        } else if let Some(url) = url(job, &endpoint)? {
            endpoints.push((known, url, endpoint));
        }
    }
    if let Some(wanted) = &job.options.aid_protocol {
        let Some(place) = endpoints.iter().position(|(known, _, endpoint)| known == wanted || endpoint.protocol.id() == wanted)
        else {
            return Err(option("aid_protocol", "the manifest has no publishable endpoint of this protocol that AID knows"));
        };
        endpoints[..=place].rotate_right(1);
    }
    if endpoints.is_empty() {
        return Err(no_endpoint("no endpoint of the manifest can be a record of AID"));
    }
    let mut lines = String::new();
    let (description, docs) = (description(job), docs(job));
    for (place, (known, url, endpoint)) in endpoints.iter().enumerate() {
        let name = if place == 0 { format!("_agent.{host}.") } else { format!("_agent._{known}.{host}.") };
        let mut record = format!("v={};u={url};p={known}", job.options.aid_version.as_str());
        for (key, value) in [("a", auth(job, endpoint)), ("s", description.as_deref()), ("d", docs.as_deref())] {
            if let Some(value) = value {
                record.push_str(&format!(";{key}={value}"));
            }
        }
        lines.push_str(&format!("{name} {TTL} IN TXT {}\n", strings(&record)));
    }
    job.drop_fields(&["capabilities", "pricing", "icon"], "records of AID have no place for it");
    Ok(lines)
}

/// The host of the records.
fn host(job: &mut Job<'_>) -> Result<String, Box<Finding>> {
    let Some(text) = &job.options.host else {
        let domain = job.manifest.domain().to_string();
        let message = "the records are for the .agt name, which most resolvers do not know (option host)";
        job.note(Finding::new(code::BRIDGE_FILLED).severity(Severity::Warning).message(message).got(&domain));
        return Ok(domain);
    };
    let problem = "expected a host name such as agents.example.com";
    let host = text.strip_suffix('.').unwrap_or(text);
    // The longest name made from it has `_agent._websocket.` in front.
    let longest = "_agent._websocket.".len() + host.len();
    match HttpsUrl::parse(&format!("https://{host}")) {
        Ok(url) if url.host().eq_ignore_ascii_case(host) && url.host_ip().is_none() && longest <= MAX_NAME_BYTES => {
            Ok(url.host().to_owned())
        }
        _ => Err(option("host", problem)),
    }
}

/// AID's token for a protocol of a manifest. `openapi` and similar ones are custom protocols here; `local` and `zeroconf` have no endpoint.
fn token(id: &str) -> Option<&'static str> {
    ["mcp", "a2a", "grpc", "graphql", "openapi", "ucp", "websocket"]
        .into_iter()
        .find(|&known| known == id)
        .or_else(|| (id == "ws").then_some("websocket"))
}

/// The URL for a record. A semicolon ends a value and cannot be escaped, so URLs with one are left out.
fn url(job: &mut Job<'_>, endpoint: &Endpoint<'_>) -> Result<Option<String>, Box<Finding>> {
    let url = if endpoint.protocol.id() == "a2a" { job.card_url(endpoint)? } else { Some(endpoint.url.clone()) };
    if url.as_ref().is_some_and(|url| url.contains(';')) {
        job.note(left_out(endpoint, "a URL with a semicolon cannot be part of a record"));
        return Ok(None);
    }
    Ok(url)
}

/// AID's token for an authentication method.
fn auth(job: &mut Job<'_>, endpoint: &Endpoint<'_>) -> Option<&'static str> {
    let pointer = format!("/protocols/{}/auth", endpoint.index);
    match endpoint.protocol.auth()? {
        "" => None,
        "none" => Some("none"),
        "basic" => Some("basic"),
        "mtls" => Some("mtls"),
        "apikey" | "api-key" => Some("apikey"),
        "bearer" => {
            let message = "AID calls a bearer token that callers bring a personal access token: pat";
            job.note(about(code::BRIDGE_FILLED, pointer).message(message));
            Some("pat")
        }
        "oauth2" => {
            let message = "AID asks which flow of OAuth 2.0 is used, and the manifest does not say it: left out";
            job.note(about(code::BRIDGE_DROPPED, pointer).severity(Severity::Warning).message(message));
            None
        }
        other => {
            let message = "AID has no token for this way of authentication: custom is used";
            job.note(about(code::BRIDGE_FILLED, pointer).severity(Severity::Warning).message(message).got(other));
            Some("custom")
        }
    }
}

/// The display name, if it fits into a record.
fn description(job: &mut Job<'_>) -> Option<String> {
    let name = job.name();
    if name.contains(';') || name.chars().any(char::is_control) {
        let message = "the name is left out: a record cannot hold semicolons and control characters";
        job.note(about(code::BRIDGE_DROPPED, "/name").severity(Severity::Warning).message(message).got(&name));
        return None;
    }
    let Some(cut) = text::cut_bytes(&name, MAX_DESCRIPTION_BYTES) else { return Some(name) };
    let finding = about(code::BRIDGE_SHORTENED, "/name").expected(format!("at most {MAX_DESCRIPTION_BYTES} bytes"));
    job.note(finding.got(format!("{} bytes", name.len())));
    Some(cut)
}

/// The website, if it fits into a record.
fn docs(job: &mut Job<'_>) -> Option<String> {
    let url = job.website()?;
    if url.contains(';') {
        job.note(about(code::BRIDGE_ENDPOINT, "/website").message("a URL with a semicolon cannot be part of a record").got(&url));
        return None;
    }
    Some(url)
}

fn left_out(endpoint: &Endpoint<'_>, message: &str) -> Finding {
    about(code::BRIDGE_DROPPED, format!("/protocols/{}", endpoint.index)).severity(Severity::Warning).message(message)
}

/// Formats a record as character-strings of a zone file (RFC 1035 §5.1): quoted, with `\DDD` for other than printable ASCII.
fn strings(record: &str) -> String {
    let strings = record.as_bytes().chunks(MAX_STRING_BYTES).map(|bytes| {
        let mut string = String::from("\"");
        for &byte in bytes {
            match byte {
                b'"' | b'\\' => string.extend(['\\', char::from(byte)]),
                b' '..=b'~' => string.push(char::from(byte)),
                _ => string.push_str(&format!("\\{byte:03}")),
            }
        }
        string.push('"');
        string
    });
    strings.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn character_strings_of_a_zone_file() {
        assert_eq!(strings("v=aid2"), "\"v=aid2\"");
        assert_eq!(strings("a\"b\\c"), r#""a\"b\\c""#);
        assert_eq!(strings("é\u{7f}"), r#""\195\169\127""#);
        let long = "x".repeat(600);
        let parts: Vec<_> = strings(&long).split(' ').map(|part| part.len() - 2).collect();
        assert_eq!(parts, [255, 255, 90]);
    }

    #[test]
    fn tokens_of_protocols() {
        assert_eq!(token("mcp"), Some("mcp"));
        assert_eq!(token("ws"), Some("websocket"));
        for id in ["http", "local", "zeroconf", "my-proto", "MCP"] {
            assert_eq!(token(id), None, "{id}");
        }
    }
}
