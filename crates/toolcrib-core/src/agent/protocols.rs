//! `protocols`: the protocols that an agent speaks, with endpoints.

use std::collections::BTreeSet;

use super::{check_id, check_unknown, entries, is_full, is_settled, optional_text, report_near_miss};
use crate::checked::Context;
use crate::codes;
use crate::finding::Finding;
use crate::json::{Object, Value};
use crate::url;

use super::vocabulary::{self, AUTH_SCHEMES, KnownProtocol, PROTOCOLS};

/// One entry of `protocols`.
#[derive(Clone, Copy, Debug)]
pub struct Protocol<'d>(Object<'d>);

impl<'d> Protocol<'d> {
    pub(super) const fn new(object: Object<'d>) -> Self {
        Self(object)
    }

    fn text(self, key: &str) -> Option<&'d str> {
        self.0.get(key)?.as_str()
    }

    /// The id of the protocol.
    pub fn id(self) -> &'d str {
        self.text("id").unwrap_or_default()
    }

    /// Returns the protocol if it is one of the five known ones.
    pub fn known(self) -> Option<&'static KnownProtocol> {
        vocabulary::protocol(self.id())
    }

    /// The URL at which the protocol is served.
    pub fn endpoint(self) -> &'d str {
        self.text("endpoint").unwrap_or_default()
    }

    /// The version of the protocol.
    pub fn version(self) -> Option<&'d str> {
        self.text("version")
    }

    /// How callers authenticate; a hint only.
    pub fn auth(self) -> Option<&'d str> {
        self.text("auth")
    }
}

const FIELDS: &[&str] = &["id", "version", "endpoint", "auth"];

/// Longest `auth` that can be the name of a scheme. Tokens and keys are longer.
const MAX_AUTH_BYTES: usize = 64;

/// Checks the `protocols` field.
pub(super) fn check(value: Value<'_>, context: &mut Context) {
    let mut seen = BTreeSet::new();
    for entry in entries(value, context) {
        if is_settled(context) {
            break;
        }
        let Some(object) = context.object(entry) else { continue };
        check_unknown(object, FIELDS, context);
        let id = context.required(object, "id", object.get("id")).and_then(|id| {
            let text = context.string(id)?;
            check_id(id, text, PROTOCOLS.iter().map(|known| known.id), context);
            Some(text)
        });
        let endpoint = context.required(object, "endpoint", object.get("endpoint")).and_then(|endpoint| {
            let text = context.string(endpoint)?;
            check_endpoint(endpoint, text, id.unwrap_or_default(), context);
            Some(text)
        });
        optional_text(object, "version", context);
        if let Some((auth, text)) = optional_text(object, "auth", context) {
            check_auth(auth, text, context);
        }
        if let (Some(id), Some(endpoint)) = (id, endpoint)
            && !seen.insert((id, endpoint))
            && !is_full(context)
        {
            context.report(
                Finding::new(codes::agent::DUPLICATE_ENTRY)
                    .at(entry)
                    .message("the same protocol with the same endpoint appears twice")
                    .got(id),
            );
        }
    }
}

/// The transport of an endpoint's URL scheme.
enum Transport {
    /// Encrypted, and the usual transport of the protocol.
    Right,
    /// It works, but not for every client; holds what to write instead.
    Unusual(&'static str),
    /// Not encrypted; holds what to write instead.
    Plaintext(&'static str),
    /// Not a transport of the protocol.
    Wrong,
}

fn transport(protocol: &str, scheme: &str) -> Transport {
    use Transport::*;
    let known = vocabulary::protocol(protocol).is_some();
    match (protocol, scheme) {
        ("ws", "wss") => Right,
        ("ws", "https") => Unusual("wss"),
        ("ws", "ws" | "http") => Plaintext("wss"),
        ("grpc", "grpcs") => Unusual("https"),
        ("grpc", "grpc") => Plaintext("https"),
        (_, "https") => Right,
        (_, "http") => Plaintext("https"),
        // A custom protocol chooses its own transport, as long as the URL names a host to connect to.
        (_, "wss") if !known => Right,
        (_, "ws") if !known => Plaintext("wss"),
        (_, "javascript" | "vbscript" | "data" | "file" | "blob" | "about" | "view-source" | "chrome") => Wrong,
        _ if !known => Unusual("https"),
        _ => Wrong,
    }
}

fn check_endpoint(value: Value<'_>, text: &str, protocol: &str, context: &mut Context) {
    let Some((scheme, rest)) = split_scheme(text) else {
        context.report(
            Finding::new(codes::agent::ENDPOINT_SCHEME)
                .at(value)
                .message("the endpoint must be a full URL with its scheme")
                .expected("https://…")
                .got(text),
        );
        return;
    };
    let scheme = scheme.to_ascii_lowercase();
    let finding = |code, wanted: &str| Finding::new(code).at(value).expected(format!("{wanted}://…")).got(text);
    match transport(protocol, &scheme) {
        Transport::Right => {}
        Transport::Unusual(wanted) => context.report(finding(codes::agent::ENDPOINT_UNUSUAL, wanted)),
        Transport::Plaintext(wanted) => context.report(finding(codes::agent::ENDPOINT_PLAINTEXT, wanted)),
        Transport::Wrong => {
            let wanted = if protocol == "ws" { "wss" } else { "https" };
            context.report(finding(codes::agent::ENDPOINT_SCHEME, wanted));
            return;
        }
    }
    match scheme.as_str() {
        "https" => {
            url::check(value, text, context);
        }
        "http" | "ws" | "wss" | "grpc" | "grpcs" => check_behind_scheme(value, rest, context),
        // Other schemes have their own grammar.
        _ => {}
    }
    if protocol == "a2a" && is_stale_card(rest) {
        context.report(
            Finding::new(codes::agent::ENDPOINT_STALE_CARD).at(value).expected("…/.well-known/agent-card.json").got(text),
        );
    }
}

/// Applies the URL grammar to everything except the scheme. Fixes are dropped: they would write `https` into the field.
fn check_behind_scheme(value: Value<'_>, rest: &str, context: &mut Context) {
    let mut scratch = Context::new(context.mode);
    url::check(value, &format!("https://{rest}"), &mut scratch);
    for finding in scratch.findings.as_slice() {
        context.report(Finding { fix: None, ..finding.clone() });
    }
}

fn check_auth(value: Value<'_>, text: &str, context: &mut Context) {
    let lower = text.get(..7).unwrap_or_default().to_ascii_lowercase();
    if text.len() > MAX_AUTH_BYTES || lower == "bearer " || lower.starts_with("basic ") || text.starts_with("sk-") {
        // The text is not quoted, because it may be a secret.
        context.report(Finding::new(codes::agent::AUTH_CREDENTIAL).at(value).expected(AUTH_SCHEMES.join(", ")));
        return;
    }
    report_near_miss(value, text, AUTH_SCHEMES.into_iter(), context);
}

/// Returns the scheme and the rest after `://`.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let well_formed = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    well_formed.then_some((scheme, rest))
}

fn is_stale_card(rest: &str) -> bool {
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    path.ends_with("/.well-known/agent.json")
}
