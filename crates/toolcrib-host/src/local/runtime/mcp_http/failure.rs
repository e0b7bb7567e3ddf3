//! Error codes for failures of servers over HTTP.

use toolcrib_core::codes::{self, Code, fetch};
use toolcrib_core::text::escape_for_display;
use toolcrib_judge::evidence::{Failure, Response};

use super::super::RunError;
use super::answer::is_event_stream;

/// Longest content type in an error message, in characters.
const MAX_SHOWN: usize = 80;

/// The request timed out.
const TIMEOUTS: [Code; 2] = [fetch::READ_TIMEOUT, fetch::TOTAL_TIMEOUT];

/// The response is too large.
const TOO_LARGE: [Code; 3] = [fetch::BODY_TOO_LARGE, fetch::LENGTH_TOO_LARGE, fetch::WIRE_TOO_LARGE];

/// The connection ended within the response. The server may have acted on the request.
const ENDED: [Code; 2] = [fetch::CLOSED_EARLY, fetch::TRUNCATED];

/// The response is invalid or unsupported HTTP.
const PROTOCOL: [Code; 7] = [
    fetch::NOT_HTTP,
    fetch::HEADERS_TOO_LARGE,
    fetch::TOO_MANY_HEADERS,
    fetch::TOO_MANY_INTERIM,
    fetch::BAD_FRAMING,
    fetch::ENCODING_REFUSED,
    fetch::LENGTH_MISMATCH,
];

/// The call timed out. The caller adds the time limit.
pub(in crate::local::runtime) fn timeout() -> RunError {
    RunError::new(codes::host::TIMEOUT, "the call took too long")
}

/// The error of a request without response.
pub(in crate::local::runtime) fn of_exchange(failure: Option<&Failure>) -> RunError {
    let Some(failure) = failure else {
        return RunError::new(codes::host::PROTOCOL, "the server of the tool did not answer");
    };
    let message = format!("{}: {}", failure.code, failure.finding().message);
    let new = |code| RunError::new(code, message.clone());
    match failure.code {
        code if TIMEOUTS.contains(&code) => timeout(),
        code if TOO_LARGE.contains(&code) => new(codes::host::RESULT_TOO_LARGE),
        code if ENDED.contains(&code) => new(codes::host::PROCESS_ENDED),
        code if PROTOCOL.contains(&code) => new(codes::host::PROTOCOL),
        code if code == fetch::BUSY => new(codes::host::BUSY).retryable(),
        code if fetch::is_transient(code) => new(codes::host::SERVER_UNREACHABLE).retryable(),
        _ => new(codes::host::SERVER_UNREACHABLE),
    }
}

/// The error of a response that does not answer the request.
pub(in crate::local::runtime) fn of_status(response: &Response) -> RunError {
    let status = response.status;
    match status {
        401 | 403 => {
            RunError::new(codes::host::CREDENTIAL_REJECTED, format!("the server of the tool answered with status {status}"))
        }
        200..300 if is_event_stream(response) => {
            RunError::new(codes::host::PROCESS_ENDED, "the event stream of the server ended without an answer")
        }
        200..300 => {
            let kind: String = response.header("content-type").next().unwrap_or("none").chars().take(MAX_SHOWN).collect();
            let message =
                format!("status {status} with content type {}, without a message of the protocol", escape_for_display(&kind));
            RunError::new(codes::host::PROTOCOL, message)
        }
        300..=399 => RunError::new(
            codes::host::SERVER_ERROR,
            format!("the server of the tool answered with status {status}; redirects are not followed"),
        ),
        429 | 500.. => {
            RunError::new(codes::host::SERVER_ERROR, format!("the server of the tool answered with status {status}")).retryable()
        }
        _ => RunError::new(codes::host::SERVER_ERROR, format!("the server of the tool answered with status {status}")),
    }
}
