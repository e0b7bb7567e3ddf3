//! An upstream server as backend: one POST of the input per call.
//!
//! The server learns the caller from headers that the gate sets. Nothing else of the caller's request but the input is forwarded, least of
//! all the payment.

use std::fmt;
use std::time::Duration;

use serde_json::Value;
use toolcrib_core::text::escape_for_display;
use toolcrib_fetch::SystemClock;
use toolcrib_fetch::{Concurrency, Configured, ConfiguredUrl, Headers, KeepAlive, Limits};
use toolcrib_gate::{Context, MAX_OUTPUT_BYTES, ToolError};
use toolcrib_x402::header::X_TOOL_REFERENCE;

use super::output;
use crate::outcome::Failure;

/// Header with the caller's account, for the upstream. Absent if callers are not identified.
const X_TOOL_CALLER: &str = "x-tool-caller";

/// Header with the slug of the called tool, for the upstream.
const X_TOOL_SLUG: &str = "x-tool-slug";

/// Most characters of an upstream's error message that the caller gets: a sentence or two, not a page.
const MAX_MESSAGE_CHARS: usize = 300;

/// How much longer than the gate's time limit a request may take.
const AFTER: Duration = Duration::from_secs(2);

/// A server of the operator.
#[derive(Debug)]
pub(crate) struct Upstream {
    door: Configured,
    url: ConfiguredUrl,
    limits: Limits,
}

impl Upstream {
    /// The server at a URL that the operator configured by a flag or a variable.
    pub(crate) fn new(setting: &str, time: Duration, at_once: usize) -> Result<Self, Failure> {
        let unusable = |error: toolcrib_fetch::Error| Failure::new(error.code(), error.to_string());
        let concurrency = Concurrency { total: at_once, host: at_once };
        // A call is never sent twice: a pooled connection is reused only if it was busy a moment ago and is open.
        let door = Configured::builder(SystemClock).concurrency(concurrency).keep_alive(KeepAlive::matching(concurrency));
        let mut limits = Limits::MANIFEST;
        // A server may be silent while it computes. The gate's own limit ends the call first and tells the caller.
        let longest = time + AFTER;
        (limits.idle, limits.total, limits.body) = (longest, longest, MAX_OUTPUT_BYTES);
        Ok(Self { door: door.build().map_err(unusable)?, url: ConfiguredUrl::from_setting(setting).map_err(unusable)?, limits })
    }

    /// One call.
    pub(super) async fn call(&self, input: &Value, context: &Context) -> Result<Value, ToolError> {
        let headers = headers(context)?;
        let exchange = self.door.post(&self.url, &headers, input.to_string().as_bytes(), self.limits).await;
        if let Some(failure) = &exchange.failure {
            return Err(ToolError::internal(format!("{}: {}", failure.code, failure.finding().message)));
        }
        let Some(response) = &exchange.response else {
            return Err(ToolError::internal("the upstream did not answer"));
        };
        match response.status {
            200..=299 => output(&response.body.0),
            status @ 400..=499 => Err(match message(&response.body.0) {
                Some(message) => ToolError::refused(message),
                None => ToolError::internal(format!("the upstream refused with status {status} and no message")),
            }),
            status => Err(ToolError::internal(format!("the upstream answered with status {status}"))),
        }
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The origin alone: a path may hold a key.
        self.url.fmt(f)
    }
}

fn headers(context: &Context) -> Result<Headers, toolcrib_fetch::Error> {
    let mut headers = Headers::new()
        .with("content-type", "application/json")?
        .with("accept", "application/json")?
        .with(X_TOOL_SLUG, context.slug())?;
    if let Some(caller) = context.caller() {
        headers = headers.with(X_TOOL_CALLER, &caller.account.to_checksum(None))?;
    }
    if let Some(tool) = context.tool() {
        headers = headers.with(X_TOOL_REFERENCE, &tool.to_string())?;
    }
    Ok(headers)
}

/// The message of an error response: the usual members of a JSON body, or a body of plain text. Short, and safe to print.
fn message(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let said = match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(object)) => ["message", "error", "detail", "title"].iter().find_map(|key| {
            let value = object.get(*key)?;
            // Some APIs nest it: {"error": {"message": …}}.
            value.as_str().or_else(|| value.get("message")?.as_str()).map(str::to_owned)
        })?,
        Ok(Value::String(said)) => said,
        Ok(_) => return None,
        // An HTML page is not a message.
        Err(_) if text.trim_start().starts_with('<') => return None,
        Err(_) => text.to_owned(),
    };
    let said: String = said.trim().chars().take(MAX_MESSAGE_CHARS).collect();
    if said.is_empty() { None } else { Some(escape_for_display(&said)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn says(body: &str, expected: Option<&str>) {
        assert_eq!(message(body.as_bytes()).as_deref(), expected, "{body}");
    }

    #[test]
    fn what_a_refusal_says() {
        says(r#"{"message":"no such city"}"#, Some("no such city"));
        says(r#"{"error":"no such city"}"#, Some("no such city"));
        says(r#"{"error":{"message":"no such city"}}"#, Some("no such city"));
        says(r#"{"detail":"no such city","type":"about:blank"}"#, Some("no such city"));
        says(r#"{"code":7}"#, None);
        says("no such city\n", Some("no such city"));
        says("\"no such city\"", Some("no such city"));
        says("<html>Bad Request</html>", None);
        says("[1]", None);
        says("", None);
        says("\u{1b}[31mred", Some("\\u{1b}[31mred"));
        assert_eq!(message("x".repeat(10_000).as_bytes()).expect("a message").len(), MAX_MESSAGE_CHARS);
        assert_eq!(message(&[0xff, 0xfe]), None);
    }
}
