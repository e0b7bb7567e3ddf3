//! HTTP/1.1, as much of it as one request at a time on one connection needs.
//!
//! A general client hides what has to be told apart here: a flood of interim answers, a length given twice, a body that is longer
//! than announced. So the head is parsed with the parser that hyper uses, and the framing is read by [`body`] under our limits.
//! Whether a connection can take another request is decided here, after the answer; [`pool`](crate::pool) keeps those that can.
//! What it leaves out: pipelining, upgrades, trailers (read and dropped), and compression.

mod body;
mod head;

use std::fmt::Write as _;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

pub(crate) use head::{Framing, Head, Persistence};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, timeout_at};
use toolcrib_core::codes;
use toolcrib_judge::evidence::{Failure, Method};

use crate::attempt::after;
use crate::tls::{self, Stage};
use crate::{Headers, Limits, MAX_INTERIM};

/// What is sent in `User-Agent`, so that operators know whom to ask.
const USER_AGENT: &str = concat!("toolcrib/", env!("CARGO_PKG_VERSION"));

/// Room for one TLS record, the most that one read gives.
const BUFFER_BYTES: usize = 16 * 1024;

/// Bodies up to this length go out with the head, in one piece.
const SMALL_BODY: usize = 16 * 1024;

/// What the head of a request takes beside its URL, if it has few headers of its own.
const HEAD_BYTES: usize = 320;

/// What stands in a request head besides the caller's headers. `authority` and `target` come from a URL grammar that has no spaces and
/// no control characters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLine<'a> {
    pub(crate) method: Method,
    pub(crate) authority: &'a str,
    pub(crate) target: &'a str,
    /// Whether the connection may be kept for another request.
    pub(crate) keep: bool,
}

/// The bytes of a request: its head, and its body if that is small.
pub(crate) fn request(line: RequestLine<'_>, headers: &Headers, body: Option<&[u8]>) -> Vec<u8> {
    let RequestLine { method, authority, target, keep } = line;
    let small = body.filter(|body| body.len() <= SMALL_BODY).unwrap_or_default();
    let mut text = String::with_capacity(HEAD_BYTES + authority.len() + target.len() + small.len());
    // Writing to a string cannot fail.
    let _ = write!(text, "{} ", method.as_str());
    if !target.starts_with('/') {
        text.push('/');
    }
    let connection = if keep { "" } else { "Connection: close\r\n" };
    let _ = write!(
        text,
        "{target} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: {USER_AGENT}\r\nAccept-Encoding: identity\r\n{connection}"
    );
    if !headers.has("accept") {
        text.push_str("Accept: application/json, */*;q=0.5\r\n");
    }
    for (name, value) in headers.iter() {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    if let Some(body) = body {
        let _ = write!(text, "Content-Length: {}\r\n", body.len());
    }
    text.push_str("\r\n");
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(small);
    bytes
}

/// One connection, one request, one answer.
#[derive(Debug)]
pub(crate) struct Wire<S> {
    stream: S,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    idle: Duration,
    until: Instant,
    /// Whether the whole request was handed to the connection.
    is_sent: bool,
    /// Whether any byte came.
    has_received: bool,
    /// Whether the answer was read to its marked end, and nothing came after it.
    is_quiet: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    /// A connection that ends at `until` whatever happens. `buffer` may be one that was used before; what is in it does not matter.
    pub(crate) fn new(stream: S, mut buffer: Vec<u8>, limits: &Limits, until: Instant) -> Self {
        if buffer.is_empty() {
            buffer = vec![0; BUFFER_BYTES];
        }
        let idle = limits.idle;
        Self { stream, buffer, start: 0, end: 0, idle, until, is_sent: false, has_received: false, is_quiet: false }
    }

    /// Whether any byte of an answer came.
    pub(crate) const fn has_received(&self) -> bool {
        self.has_received
    }

    /// Whether the connection can take another request: this one was sent whole, its answer ended where it should, and nothing
    /// followed. What the head says about it is another matter.
    pub(crate) const fn is_reusable(&self) -> bool {
        self.is_sent && self.is_quiet
    }

    /// The connection, and the buffer for its next request.
    pub(crate) fn into_parts(mut self) -> (S, Vec<u8>) {
        if self.buffer.len() > BUFFER_BYTES {
            self.buffer = Vec::new();
        }
        (self.stream, self.buffer)
    }

    /// Sends a request. A server that answers before it has read the body may close the connection: then its answer counts, so
    /// a failure to write is no failure yet.
    pub(crate) async fn send(&mut self, request: &[u8], body: Option<&[u8]>) -> Result<(), Failure> {
        /// Written at once, so that the idle limit is about progress.
        const PIECE: usize = 64 * 1024;
        for part in [request, body.filter(|body| body.len() > SMALL_BODY).unwrap_or_default()] {
            for piece in part.chunks(PIECE) {
                let (idle, until) = self.deadline();
                match timeout_at(until, self.stream.write_all(piece)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return Ok(()),
                    Err(_) => return Err(timeout(idle, "while sending the request")),
                }
            }
        }
        let (idle, until) = self.deadline();
        match timeout_at(until, self.stream.flush()).await {
            Ok(flushed) => {
                self.is_sent = flushed.is_ok();
                Ok(())
            }
            Err(_) => Err(timeout(idle, "while sending the request")),
        }
    }

    /// Reads the head of the final answer.
    pub(crate) async fn head(&mut self, max: usize) -> Result<Head, Failure> {
        let mut budget = max;
        for _ in 0..=MAX_INTERIM {
            let head = self.one_head(&mut budget, max).await?;
            if !(100..200).contains(&head.status) {
                return Ok(head);
            }
        }
        Err(Failure::new(codes::fetch::TOO_MANY_INTERIM, format!("more than {MAX_INTERIM} interim responses (1xx)")))
    }

    async fn one_head(&mut self, budget: &mut usize, max: usize) -> Result<Head, Failure> {
        let mut searched = 0;
        loop {
            let seen = &self.buffer[self.start..self.end];
            if !head::may_begin(seen) {
                return Err(Failure::new(codes::fetch::NOT_HTTP, "the response does not begin with HTTP/1"));
            }
            let too_large = || Failure::new(codes::fetch::HEADERS_TOO_LARGE, format!("more than {max} bytes of headers"));
            match head::end(seen, searched) {
                Some(length) if length > *budget => return Err(too_large()),
                Some(length) => {
                    let head = head::parse(&seen[..length])?;
                    self.start += length;
                    *budget -= length;
                    return Ok(head);
                }
                None if seen.len() >= *budget => return Err(too_large()),
                None => searched = seen.len(),
            }
            if self.fill(Stage::Head).await? == 0 {
                return Err(Failure::new(codes::fetch::CLOSED_EARLY, "before the response was complete"));
            }
        }
    }

    /// Reads more bytes behind those in the buffer; 0 at a clean end of the connection.
    async fn fill(&mut self, stage: Stage) -> Result<usize, Failure> {
        self.make_room();
        let (idle, until) = self.deadline();
        match timeout_at(until, self.stream.read(&mut self.buffer[self.end..])).await {
            Ok(Ok(count)) => {
                self.end += count;
                self.has_received |= count > 0;
                Ok(count)
            }
            Ok(Err(error)) => Err(tls::failure(&error, stage)),
            Err(_) => Err(timeout(idle, "while reading the response")),
        }
    }

    /// What is there already, without waiting.
    async fn pending(&mut self) -> Pending {
        self.make_room();
        let mut buffer = ReadBuf::new(&mut self.buffer[self.end..]);
        let stream = &mut self.stream;
        poll_fn(|cx| {
            let read: Poll<io::Result<()>> = Pin::new(&mut *stream).poll_read(cx, &mut buffer);
            Poll::Ready(match (read, buffer.filled()) {
                (_, [_, ..]) => Pending::Bytes,
                (Poll::Pending, []) => Pending::Nothing,
                (Poll::Ready(_), []) => Pending::End,
            })
        })
        .await
    }

    /// The buffer grows only while a head is read, which is limited.
    fn make_room(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.buffer.len() {
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            } else {
                self.buffer.resize(self.buffer.len() + BUFFER_BYTES, 0);
            }
        }
    }

    /// When to stop waiting, and whether that is because of silence.
    fn deadline(&self) -> (bool, Instant) {
        let idle = after(Instant::now(), self.idle);
        (idle < self.until, idle.min(self.until))
    }
}

/// What a connection has for us besides the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    Nothing,
    Bytes,
    /// It ended, or broke.
    End,
}

fn timeout(idle: bool, when: &str) -> Failure {
    Failure::new(if idle { codes::fetch::READ_TIMEOUT } else { codes::fetch::TOTAL_TIMEOUT }, when)
}

#[cfg(test)]
mod tests;
