//! A minimal HTTP/1.1 client: one request at a time on one connection.
//!
//! A general client hides what must be told apart here: a flood of interim responses, a repeated Content-Length, a body that is longer
//! than its Content-Length. So the head is parsed with hyper's parser, and [`body`] reads the framing under our limits.
//! This module decides after the response whether a connection is reusable; [`pool`](crate::pool) keeps those that are.
//! Not supported: pipelining, upgrades, trailers (read and dropped), and compression.

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

/// The `User-Agent`, so that server operators know whom to contact.
const USER_AGENT: &str = concat!("toolcrib/", env!("CARGO_PKG_VERSION"));

/// The size of one TLS record, the most that one read returns.
const BUFFER_BYTES: usize = 16 * 1024;

/// Bodies up to this size are sent together with the head.
const SMALL_BODY: usize = 16 * 1024;

/// Typical size of a request head besides its URL.
const HEAD_BYTES: usize = 320;

/// A request line, without the caller's headers. `authority` and `target` come from a URL grammar without spaces and
/// control characters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLine<'a> {
    pub(crate) method: Method,
    pub(crate) authority: &'a str,
    pub(crate) target: &'a str,
    /// Whether the connection may be kept alive.
    pub(crate) keep: bool,
}

/// Serialises a request: its head, and its body if that is small.
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

/// One connection with one request and one response.
#[derive(Debug)]
pub(crate) struct Wire<S> {
    stream: S,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    idle: Duration,
    until: Instant,
    /// Whether the whole request was sent.
    is_sent: bool,
    /// Whether any byte was received.
    has_received: bool,
    /// Whether the response was read to its marked end, and nothing followed.
    is_quiet: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    /// A connection with the deadline `until`. `buffer` may be a used one; its contents do not matter.
    pub(crate) fn new(stream: S, mut buffer: Vec<u8>, limits: &Limits, until: Instant) -> Self {
        if buffer.is_empty() {
            buffer = vec![0; BUFFER_BYTES];
        }
        let idle = limits.idle;
        Self { stream, buffer, start: 0, end: 0, idle, until, is_sent: false, has_received: false, is_quiet: false }
    }

    /// Whether any byte of a response was received.
    pub(crate) const fn has_received(&self) -> bool {
        self.has_received
    }

    /// Whether the connection is reusable: the request was sent completely, the response ended where it should, and nothing
    /// followed. The response's head is checked separately.
    pub(crate) const fn is_reusable(&self) -> bool {
        self.is_sent && self.is_quiet
    }

    /// Returns the connection, and the buffer for its next request.
    pub(crate) fn into_parts(mut self) -> (S, Vec<u8>) {
        if self.buffer.len() > BUFFER_BYTES {
            self.buffer = Vec::new();
        }
        (self.stream, self.buffer)
    }

    /// Sends a request. A server that responds before it has read the body may close the connection: then its response counts, so
    /// a write error is not an error here.
    pub(crate) async fn send(&mut self, request: &[u8], body: Option<&[u8]>) -> Result<(), Failure> {
        /// The size of one write, so that the idle limit measures progress.
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

    /// Reads the head of the final response.
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

    /// Reads more bytes into the buffer; returns 0 at a clean end of the connection.
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

    /// Checks what can be read without waiting.
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

    /// Makes room in the buffer. It grows only while a head is read, whose size is limited.
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

    /// The deadline of the next read or write, and whether it is that of the idle limit.
    fn deadline(&self) -> (bool, Instant) {
        let idle = after(Instant::now(), self.idle);
        (idle < self.until, idle.min(self.until))
    }
}

/// What can be read from a connection after the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    Nothing,
    Bytes,
    /// The connection ended or broke.
    End,
}

fn timeout(idle: bool, when: &str) -> Failure {
    Failure::new(if idle { codes::fetch::READ_TIMEOUT } else { codes::fetch::TOTAL_TIMEOUT }, when)
}

#[cfg(test)]
mod tests;
