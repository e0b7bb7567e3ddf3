//! URLs of servers that take calls: the field `url` of the block `runtime`.
//!
//! The author of the tool writes the URL, so it grants nothing by itself. A server on this machine may be called by plain http. Any other
//! server is called by https only, and only if `sandbox.network` has the port, which the user sees before a call.

use super::runtime::{MAX_TEXT, NetworkRequest, RuntimeKind, SandboxRequest};
use crate::checked::Context;
use crate::codes;
use crate::finding::Finding;
use crate::json::{Object, Value};
use crate::url::HttpsUrl;

/// Whether a URL names this machine by `127.0.0.1`, `[::1]` or `localhost`.
///
/// Other names of this machine are not recognised on purpose: they mean it on some machines only.
pub fn is_loopback_url(url: &str) -> bool {
    let authority = url.split("://").nth(1).unwrap_or_default().split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    matches!(host, "127.0.0.1" | "[::1]" | "localhost")
}

/// Reads the required `url` of a runtime.
pub(super) fn check_url(object: Object<'_>, context: &mut Context) -> Option<String> {
    let value = context.required(object, "url", object.get("url"))?;
    let text = context.string(value)?;
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    if rest.is_some_and(|rest| !rest.is_empty() && text.len() <= MAX_TEXT && rest.bytes().all(|byte| byte.is_ascii_graphic())) {
        return Some(text.to_owned());
    }
    context.report(Finding::new(codes::local::RUNTIME_URL).at(value).expected("an http:// or https:// URL").got(text));
    None
}

/// Checks that an MCP server elsewhere is reached by https, and that the sandbox has its port.
pub(super) fn check_reach(root: Object<'_>, kind: &RuntimeKind, sandbox: &SandboxRequest, context: &mut Context) {
    let RuntimeKind::McpHttp { url } = kind else { return };
    if is_loopback_url(url) {
        return;
    }
    let Some(value) = root.get("runtime").and_then(|runtime| runtime.get("url")) else { return };
    match HttpsUrl::parse(url) {
        Ok(parsed) => {
            let port = parsed.port();
            if !sandbox.network().allows(port) {
                refuse_port(value, port, context);
            }
        }
        Err(fault) => context.report(
            Finding::new(codes::local::RUNTIME_URL)
                .at(value)
                .message(format!("a remote MCP server must have a public https URL: {}", fault.code().title()))
                .expected("an https:// URL, or http://127.0.0.1, http://[::1] or http://localhost")
                .got(url),
        ),
    }
}

fn refuse_port(value: Value<'_>, port: u16, context: &mut Context) {
    context.report(
        Finding::new(codes::local::RUNTIME_NETWORK)
            .at(value)
            .expected(format!("`sandbox.network` with port {port}, such as [{port}]"))
            .got(value.as_str().unwrap_or_default()),
    );
}

impl NetworkRequest {
    /// Whether the request has TCP connections to `port`.
    pub fn allows(&self, port: u16) -> bool {
        match self {
            Self::None => false,
            Self::Ports(ports) => ports.contains(&port),
            Self::Any => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_three_names() {
        for url in ["http://127.0.0.1", "http://127.0.0.1:80/x", "https://localhost?x", "http://[::1]:3000/mcp", "http://[::1]"] {
            assert!(is_loopback_url(url), "{url}");
        }
        for url in [
            "http://127.0.0.1@evil.example/",
            "http://127.0.0.1:80@evil.example/",
            "http://localhost.evil.example",
            "http://evil.example/127.0.0.1",
            "http://evil.example?http://localhost",
            "http://127.0.0.2",
            "http://[::2]",
            "http://0.0.0.0",
            "",
        ] {
            assert!(!is_loopback_url(url), "{url}");
        }
    }
}
