//! The response to one request: a JSON body, or an event stream with notifications before the result.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use serde_json::Value as Json;
use toolcrib_fetch::Observer;
use toolcrib_judge::evidence::{Exchange, Response};

use super::super::{Event, Events};
use super::events::EventReader;

/// Most messages of one event stream that are not the response. A server that sends more is broken or hostile.
const MAX_OTHER_MESSAGES: usize = 10_000;

/// A response to a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Message {
    /// The result.
    Result(Json),
    /// A JSON-RPC error. Untrusted input.
    Error {
        /// Its number.
        code: i64,
        /// Its text.
        text: String,
    },
}

/// Reads the response to the request `id` as it arrives, and forwards progress and log lines.
pub(super) struct AnswerReader<'a> {
    id: u64,
    events: &'a Events,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reader: EventReader,
    others: usize,
    message: Option<Message>,
}

impl<'a> AnswerReader<'a> {
    pub(super) fn new(id: u64, events: &'a Events) -> Self {
        Self { id, events, state: Mutex::default() }
    }

    /// The response, after the exchange. `None` if the body does not answer the request.
    pub(super) fn finish(self, exchange: &Exchange) -> Option<Message> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if state.message.is_some() {
            return state.message;
        }
        let response = exchange.response.as_ref().filter(|_| exchange.failure.is_none())?;
        if is_event_stream(response) {
            return None;
        }
        match serde_json::from_slice(&response.body.0).ok()? {
            // Servers of 2025-03-26 may answer with a batch.
            Json::Array(messages) => messages.into_iter().find_map(|message| answer(message, self.id)),
            message => answer(message, self.id),
        }
    }

    fn take(&self, state: &mut State, data: &[u8]) -> ControlFlow<()> {
        // Invalid messages are ignored, as clients of this protocol do.
        let Ok(message) = serde_json::from_slice::<Json>(data) else { return ControlFlow::Continue(()) };
        if let Some(method) = message.get("method").and_then(Json::as_str) {
            self.notify(method, message.get("params").unwrap_or(&Json::Null));
        } else if let Some(message) = answer(message, self.id) {
            state.message = Some(message);
            return ControlFlow::Break(());
        }
        state.others += 1;
        if state.others > MAX_OTHER_MESSAGES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn notify(&self, method: &str, params: &Json) {
        match method {
            "notifications/progress" if params.get("progressToken").and_then(Json::as_u64) == Some(self.id) => {
                let Some(progress) = params.get("progress").and_then(Json::as_f64) else { return };
                let message = params.get("message").and_then(Json::as_str).map(str::to_owned);
                self.events.send(Event::Progress { progress, total: params.get("total").and_then(Json::as_f64), message });
            }
            "notifications/message" => {
                let Some(data) = params.get("data") else { return };
                self.events.send(Event::Log(data.as_str().map_or_else(|| data.to_string(), str::to_owned)));
            }
            _ => {}
        }
    }
}

impl fmt::Debug for AnswerReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerReader").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Observer for AnswerReader<'_> {
    fn observe(&self, head: &Response, bytes: &[u8]) -> ControlFlow<()> {
        if !is_event_stream(head) {
            return ControlFlow::Continue(());
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reader = std::mem::take(&mut state.reader);
        let flow = reader.push(bytes, |data| self.take(&mut state, data));
        state.reader = reader;
        flow
    }
}

/// Whether the body is a stream of events.
pub(super) fn is_event_stream(response: &Response) -> bool {
    let kind = response.header("content-type").next().unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream")
}

/// The response to the request `id` in a message. An error may have no id if the server could not parse the request.
fn answer(mut message: Json, id: u64) -> Option<Message> {
    message.get("jsonrpc").filter(|version| *version == "2.0")?;
    let is_own = message.get("id").and_then(Json::as_u64) == Some(id);
    if is_own && let Some(result) = message.get_mut("result") {
        return Some(Message::Result(result.take()));
    }
    let error = message.get("error")?;
    if !is_own && message.get("id").is_some_and(|id| !id.is_null()) {
        return None;
    }
    let text = error.get("message").and_then(Json::as_str).unwrap_or("no message").to_owned();
    Some(Message::Error { code: error.get("code").and_then(Json::as_i64).unwrap_or_default(), text })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_answer_to_the_request_counts() {
        let result = json!({"jsonrpc": "2.0", "id": 3, "result": {"a": 1}});
        assert_eq!(answer(result.clone(), 3), Some(Message::Result(json!({"a": 1}))));
        assert_eq!(answer(result, 4), None);
        let error = |id: Json| json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32600, "message": "no"}});
        let wanted = Some(Message::Error { code: -32600, text: "no".to_owned() });
        assert_eq!(answer(error(json!(3)), 3), wanted);
        assert_eq!(answer(error(Json::Null), 3), wanted);
        assert_eq!(answer(error(json!(4)), 3), None);
        assert_eq!(answer(error(json!("server-error")), 3), None);
        for other in [
            json!(null),
            json!([]),
            json!("x"),
            json!({}),
            json!({"id": 3}),
            json!({"id": 3, "result": 1}),
            json!({"error": "x"}),
        ] {
            assert_eq!(answer(other, 3), None);
        }
    }
}
