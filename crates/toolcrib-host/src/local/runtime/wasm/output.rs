//! Stdout and stderr of a component. Both are processed as they are written, so only one line is buffered.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde_json::Value as Json;
use tokio::io::AsyncWrite;
use tokio::sync::Notify;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use super::super::speech::LineReader;
use super::super::{Event, Events, MAX_RESULT_BYTES, RunError};

/// The id of the only call of an instance.
const CALL: u64 = 1;

/// Bytes that are accepted at once.
const PERMIT: usize = 64 * 1024;

/// Most bytes of a line of the log. Longer lines are dropped.
const MAX_LOG_BYTES: usize = 8 * 1024;

/// Most forwarded lines of the log. More are dropped; the component continues.
const MAX_LOG_LINES: usize = 1_000;

/// Lines of the log in an error message.
const TAIL_LINES: usize = 5;

/// How stdout ended.
pub(super) enum Ended {
    /// With an answer, or with too many other lines.
    Answer(Result<Json, RunError>),
    /// With a line above the limit.
    TooLong,
}

/// Stdout: lines of the protocol.
#[derive(Clone)]
pub(super) struct Lines(Arc<(Mutex<LineState>, Notify)>);

struct LineState {
    line: Vec<u8>,
    reader: LineReader,
    events: Events,
    is_over: bool,
    ended: Option<Ended>,
}

impl Lines {
    pub(super) fn new(events: Events) -> Self {
        let state = LineState { line: Vec::new(), reader: LineReader::new(CALL), events, is_over: false, ended: None };
        Self(Arc::new((Mutex::new(state), Notify::new())))
    }

    /// Waits for the answer or the end of stdout.
    pub(super) async fn finished(&self) {
        self.0.1.notified().await;
    }

    /// Takes how stdout ended.
    pub(super) fn take(&self) -> Option<Ended> {
        self.state().ended.take()
    }

    fn state(&self) -> MutexGuard<'_, LineState> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, bytes: &[u8]) {
        let mut state = self.state();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if state.is_over {
                return;
            }
            let (piece, is_line) = piece.strip_suffix(b"\n").map_or((piece, false), |piece| (piece, true));
            let ended = if state.line.len() + piece.len() > MAX_RESULT_BYTES {
                Some(Ended::TooLong)
            } else {
                state.line.extend_from_slice(piece);
                if !is_line {
                    continue;
                }
                let line = std::mem::take(&mut state.line);
                let LineState { reader, events, .. } = &mut *state;
                reader.take(&line, events).map(Ended::Answer)
            };
            if ended.is_some() {
                state.ended = ended;
                state.is_over = true;
                self.0.1.notify_one();
            }
        }
    }
}

/// Stderr: the log of the component.
#[derive(Clone)]
pub(super) struct Log(Arc<Mutex<LogState>>);

struct LogState {
    line: Vec<u8>,
    events: Events,
    count: usize,
    tail: VecDeque<String>,
}

impl Log {
    pub(super) fn new(events: Events) -> Self {
        Self(Arc::new(Mutex::new(LogState { line: Vec::new(), events, count: 0, tail: VecDeque::new() })))
    }

    /// The last lines, for an error message.
    pub(super) fn tail(&self) -> String {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = log_line(&state.line);
        let lines = state.tail.iter().map(String::as_str).chain([rest.as_str()]);
        lines.filter(|line| !line.is_empty()).map(|line| format!("; {line}")).collect()
    }

    fn push(&self, bytes: &[u8]) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (piece, is_line) = piece.strip_suffix(b"\n").map_or((piece, false), |piece| (piece, true));
            let room = MAX_LOG_BYTES.saturating_sub(state.line.len()).min(piece.len());
            state.line.extend_from_slice(&piece[..room]);
            if !is_line {
                continue;
            }
            let line = log_line(&std::mem::take(&mut state.line));
            state.count += 1;
            if state.count <= MAX_LOG_LINES {
                state.events.send(Event::Log(line.clone()));
            }
            state.tail.push_back(line);
            if state.tail.len() > TAIL_LINES {
                state.tail.pop_front();
            }
        }
    }
}

/// A line of the log as text. A truncated line is dropped, because a partial secret at its end would not be redacted.
fn log_line(bytes: &[u8]) -> String {
    if bytes.len() >= MAX_LOG_BYTES {
        return format!("(a line of {MAX_LOG_BYTES} bytes or more is left out)");
    }
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// An output stream of the component that accepts all data until the call is over.
macro_rules! stream {
    ($type:ty) => {
        #[async_trait]
        impl Pollable for $type {
            async fn ready(&mut self) {
                // After the answer, the component blocks here until it is dropped.
                if self.is_over() {
                    std::future::pending::<()>().await;
                }
            }
        }

        #[async_trait]
        impl OutputStream for $type {
            fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
                self.push(&bytes);
                Ok(())
            }

            fn flush(&mut self) -> StreamResult<()> {
                Ok(())
            }

            fn check_write(&mut self) -> StreamResult<usize> {
                Ok(if self.is_over() { 0 } else { PERMIT })
            }
        }

        impl IsTerminal for $type {
            fn is_terminal(&self) -> bool {
                false
            }
        }

        impl StdoutStream for $type {
            fn p2_stream(&self) -> Box<dyn OutputStream> {
                Box::new(self.clone())
            }

            // For versions of WASI that are not supported here.
            fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
                Box::new(tokio::io::sink())
            }
        }
    };
}

stream!(Lines);
stream!(Log);

impl Lines {
    fn is_over(&self) -> bool {
        self.state().is_over
    }
}

impl Log {
    const fn is_over(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[test]
    fn lines_come_in_pieces_and_end_with_the_answer() {
        let (sender, mut receiver) = mpsc::channel(10);
        let lines = Lines::new(Events::new(sender));
        for piece in ["hel", "lo\n{\"id\":1,\"progress\":0.5}\n{\"id\":1,\"res", "ult\":7}\n{\"id\":1,\"result\":8}\n"] {
            lines.push(piece.as_bytes());
        }
        assert!(matches!(lines.take(), Some(Ended::Answer(Ok(Json::Number(number)))) if number.as_u64() == Some(7)));
        assert!(lines.is_over() && lines.take().is_none());
        assert_eq!(receiver.try_recv().unwrap(), Event::Log("hello".to_owned()));
        assert!(matches!(receiver.try_recv().unwrap(), Event::Progress { .. }));
    }

    #[test]
    fn a_line_is_capped_while_it_is_written() {
        let lines = Lines::new(Events::default());
        lines.push(&vec![b'x'; MAX_RESULT_BYTES]);
        assert!(lines.take().is_none());
        lines.push(b"x");
        assert!(matches!(lines.take(), Some(Ended::TooLong)));
        let log = Log::new(Events::default());
        for _ in 0..100 {
            log.push(&vec![b'x'; MAX_LOG_BYTES]);
        }
        assert_eq!(log.0.lock().unwrap().line.len(), MAX_LOG_BYTES);
        log.push(b"\nlast\n");
        assert_eq!(log.tail(), format!("; (a line of {MAX_LOG_BYTES} bytes or more is left out); last"));
    }
}
