//! The content of a line.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::time::format_rfc3339;

use super::ChainHash;
use crate::local::ContentHash;
use crate::local::canonical::{canonical, canonical_hash};
use crate::local::permissions::Verdict;
use crate::local::secrets::Redactor;

/// Most bytes of each text, as it is written in JSON. Reasons and sandbox summaries have one sentence.
pub const MAX_TEXT_BYTES: usize = 1_024;

/// Most bytes of recorded arguments. Larger ones are left out, and their hash stays.
pub const MAX_ARGUMENTS_BYTES: usize = 16_384;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The host began to run.
    HostStarted,
    /// The host stopped.
    HostStopped,
    /// A call was allowed, denied, or needs approval.
    Decision,
    /// A call begins.
    CallStarted,
    /// A call ended.
    CallFinished,
    /// An MCP server to import was started, to list its tools.
    ServerStarted,
    /// A secret was stored.
    SecretSet,
    /// A secret was deleted.
    SecretUnset,
    /// Secrets were bound to new content.
    SecretRebound,
    /// The key of the stored secrets was moved to another place.
    SecretKeyMoved,
    /// A rule was granted or revoked.
    PermissionChanged,
    /// A tool was loaded.
    ToolLoaded,
    /// The content of a tool changed.
    ToolChanged,
    /// A tool was removed.
    ToolRemoved,
    /// A tool was not loaded.
    ToolRefused,
    /// The first line of a new file.
    Rotated,
    /// An incomplete line, left by a crash, was moved aside.
    TornLine,
    /// The operator started a new chain.
    ChainRestarted,
    /// An event of a later version.
    #[serde(other)]
    Other,
}

impl Event {
    /// Whether the line must be on disk before anything else happens.
    pub const fn is_synchronised(self) -> bool {
        match self {
            Self::Decision
            | Self::CallStarted
            | Self::ServerStarted
            | Self::SecretSet
            | Self::SecretUnset
            | Self::SecretRebound
            | Self::SecretKeyMoved
            | Self::PermissionChanged
            | Self::TornLine
            | Self::ChainRestarted => true,
            Self::HostStarted
            | Self::HostStopped
            | Self::CallFinished
            | Self::ToolLoaded
            | Self::ToolChanged
            | Self::ToolRemoved
            | Self::ToolRefused
            | Self::Rotated
            | Self::Other => false,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A record to write. Texts are truncated to [`MAX_TEXT_BYTES`].
#[derive(Clone, Debug, Serialize)]
#[must_use]
pub struct Record {
    event: Event,
    #[serde(flatten)]
    details: Details,
}

/// The members of a line other than `seq`, `time`, `event`, `prev` and `hash`. Those that do not apply to an event are omitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Details {
    /// The id that all lines of one call share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The program that requested the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The content hash of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<ContentHash>,
    /// SHA-256 of the canonical JSON of the arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments_hash: Option<String>,
    /// The redacted arguments, if the operator records them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// `allow`, `ask` or `deny`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// The reason for the decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// How long the call took, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_us: Option<u64>,
    /// How the call ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<String>,
    /// Bytes of the arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_bytes: Option<u64>,
    /// Bytes of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    /// How the call was sandboxed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// Additional information.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Record {
    /// A record of an event.
    pub fn new(event: Event) -> Self {
        Self { event, details: Details::default() }
    }

    /// The event.
    pub const fn event(&self) -> Event {
        self.event
    }

    /// Sets the id that all lines of one call share.
    pub fn call(mut self, id: &str) -> Self {
        self.details.call = Some(cut(id));
        self
    }

    /// Sets the program that requested the call.
    pub fn client(mut self, client: &str) -> Self {
        self.details.client = Some(cut(client));
        self
    }

    /// Sets the tool.
    pub fn tool(mut self, tool: &str) -> Self {
        self.details.tool = Some(cut(tool));
        self
    }

    /// Sets the function.
    pub fn function(mut self, function: &str) -> Self {
        self.details.function = Some(cut(function));
        self
    }

    /// Sets the content hash of the tool.
    pub const fn content(mut self, content: ContentHash) -> Self {
        self.details.content = Some(content);
        self
    }

    /// Sets the hash of the arguments: SHA-256 of their canonical JSON.
    pub fn arguments(mut self, arguments: &Value) -> Self {
        let hash = canonical_hash(arguments);
        self.details.arguments_hash = Some(ContentHash::new(hash).to_string());
        self
    }

    /// Sets the arguments, without the secrets that `redactor` knows. They are written only if
    /// [`Options::record_arguments`](super::Options::record_arguments) is on.
    pub fn recorded_arguments(mut self, arguments: &Value, redactor: &Redactor) -> Self {
        let mut arguments = arguments.clone();
        redactor.json(&mut arguments);
        let bytes = canonical(&arguments).len();
        let is_small = bytes <= MAX_ARGUMENTS_BYTES;
        self.details.arguments = Some(if is_small { arguments } else { Value::from(format!("(left out, {bytes} bytes)")) });
        self
    }

    /// Sets the decision and its reason.
    pub fn verdict(mut self, verdict: &Verdict) -> Self {
        self.details.decision = Some(verdict.decision.to_string());
        self.details.reason = Some(verdict.reason.id().to_owned());
        self.details.rule = verdict.rule.map(|rule| rule.to_string());
        self
    }

    /// Sets the answer of a user, or another decision that was not made by a rule.
    pub fn decision(mut self, decision: &str, reason: &str) -> Self {
        self.details.decision = Some(cut(decision));
        self.details.reason = Some(cut(reason));
        self
    }

    /// Sets the duration of the call.
    pub fn duration(mut self, duration: Duration) -> Self {
        // Numbers of JSON are exact up to 2^53: 285 years.
        self.details.duration_us = Some(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).min(1 << 53));
        self
    }

    /// Sets how the call ended: `ok`, `error`, a code such as `host.timeout`, an exit status or a signal.
    pub fn exit(mut self, exit: &str) -> Self {
        self.details.exit = Some(cut(exit));
        self
    }

    /// Sets the sizes of arguments and result.
    pub fn sizes(mut self, input: u64, output: u64) -> Self {
        self.details.input_bytes = Some(input.min(1 << 53));
        self.details.output_bytes = Some(output.min(1 << 53));
        self
    }

    /// Sets how the call was sandboxed.
    pub fn sandbox(mut self, summary: &str) -> Self {
        self.details.sandbox = Some(cut(summary));
        self
    }

    /// Sets additional information. Never a secret.
    pub fn detail(mut self, detail: &str) -> Self {
        self.details.detail = Some(cut(detail));
        self
    }

    /// The members of the line, except those of the chain.
    pub(super) fn into_object(mut self, time: UnixTime, with_arguments: bool) -> Map<String, Value> {
        if !with_arguments {
            self.details.arguments = None;
        }
        // A struct of strings and numbers always serializes to an object.
        let value = serde_json::to_value(self).unwrap_or_default();
        let Value::Object(mut object) = value else { return Map::new() };
        object.insert("time".to_owned(), Value::from(format_rfc3339(time).unwrap_or_else(|| time.to_string())));
        object
    }
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The number of the line.
    pub seq: u64,
    /// The time, as RFC 3339.
    pub time: String,
    /// What happened.
    pub event: Event,
    /// The rest.
    #[serde(flatten)]
    pub details: Details,
    /// The hash of the previous line.
    pub prev: ChainHash,
    /// The hash of this line.
    pub hash: ChainHash,
}

/// Truncates a text to [`MAX_TEXT_BYTES`] of JSON, between characters, so that no text of a tool makes a line too long to be recorded.
fn cut(text: &str) -> String {
    let mut bytes = 0;
    let end = text.char_indices().find(|&(_, c)| {
        bytes += match c {
            '"' | '\\' => 2,
            '\0'..='\u{1f}' => 6,
            _ => c.len_utf8(),
        };
        bytes > MAX_TEXT_BYTES
    });
    end.map_or_else(|| text.to_owned(), |(end, _)| format!("{}…", &text[..end]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::local::secrets::Secret;

    #[test]
    fn arguments_are_hashed_and_recorded_only_on_request() {
        let secret = Secret::new("sekret-value".to_owned());
        let redactor = Redactor::new([&secret]).unwrap();
        let arguments = json!({"b": "sekret-value", "a": 1});
        let record = Record::new(Event::CallStarted).arguments(&arguments).recorded_arguments(&arguments, &redactor);
        let time = UnixTime::from_seconds(0);
        let without = record.clone().into_object(time, false);
        assert_eq!(without.get("arguments"), None);
        let same = Record::new(Event::CallStarted).arguments(&json!({"a": 1, "b": "sekret-value"})).into_object(time, false);
        assert_eq!(without.get("arguments_hash"), same.get("arguments_hash"));
        let with = record.into_object(time, true);
        assert_eq!(with["arguments"], json!({"b": "[redacted]", "a": 1}));
        assert_eq!((&with["time"], &with["event"]), (&json!("1970-01-01T00:00:00Z"), &json!("call_started")));

        let large = Record::new(Event::CallStarted).recorded_arguments(&json!("x".repeat(20_000)), &redactor);
        assert_eq!(large.into_object(time, true)["arguments"], json!("(left out, 20002 bytes)"));
    }

    #[test]
    fn texts_are_cut() {
        let record = Record::new(Event::CallFinished).detail(&"ä".repeat(MAX_TEXT_BYTES)).exit("ok");
        let object = record.into_object(UnixTime::from_seconds(0), false);
        assert_eq!(object["detail"].as_str().map(str::len), Some(MAX_TEXT_BYTES + '…'.len_utf8()));
        assert_eq!(object["exit"], json!("ok"));
        let object =
            Record::new(Event::CallFinished).detail(&"\u{1}".repeat(5_000)).into_object(UnixTime::from_seconds(0), false);
        assert_eq!(object["detail"].as_str().map(|text| text.chars().count()), Some(MAX_TEXT_BYTES / 6 + 1));
    }

    #[test]
    fn events_have_names_and_later_ones_are_read() {
        assert_eq!(Event::SecretRebound.to_string(), "secret_rebound");
        assert_eq!(serde_json::from_value::<Event>(json!("of_a_later_version")).unwrap(), Event::Other);
    }
}
