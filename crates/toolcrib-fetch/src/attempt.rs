//! The part that both clients share: from addresses to a response, with a record of what happened.

use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::text;
use toolcrib_judge::evidence::{Body, Exchange, Failure, Method, Response, Tls};

use crate::http::{self, Head, Persistence, RequestLine, Wire};
use crate::tls::{self, Counted, Stream};
use crate::{Connect, Expect, Headers, Limits, Observer, connect};

/// Maximum length of a `Location` in messages.
const MAX_LOCATION_CHARS: usize = 200;

/// One request with its limits.
#[derive(Debug)]
pub(crate) struct Attempt<'a> {
    pub(crate) method: Method,
    /// The host as written in the URL.
    pub(crate) host: &'a str,
    pub(crate) literal: Option<IpAddr>,
    pub(crate) port: u16,
    /// The scheme's default port.
    pub(crate) default_port: u16,
    /// Path and query.
    pub(crate) target: &'a str,
    pub(crate) headers: &'a Headers,
    pub(crate) body: Option<&'a [u8]>,
    pub(crate) expect: Expect,
    pub(crate) limits: Limits,
    pub(crate) clock: Stopwatch,
    /// Whether the connection may be kept alive.
    pub(crate) keep: bool,
    /// Gets the body while it is read.
    pub(crate) observer: Option<&'a dyn Observer>,
}

impl Attempt<'_> {
    /// Connects to the first of `addresses` that accepts, and sends the request; over TLS unless `config` is `None`. Returns the connection
    /// if it is reusable.
    pub(crate) async fn run(
        &self,
        connector: &dyn Connect,
        config: Option<&Arc<ClientConfig>>,
        addresses: &[IpAddr],
        exchange: &mut Exchange,
    ) -> Result<Option<IdleConnection>, Failure> {
        let connection = self.connect(connector, config, addresses, exchange).await?;
        self.talk(connection, exchange).await.map_err(|broken| broken.failure)
    }

    async fn connect(
        &self,
        connector: &dyn Connect,
        config: Option<&Arc<ClientConfig>>,
        addresses: &[IpAddr],
        exchange: &mut Exchange,
    ) -> Result<Connection, Failure> {
        let until = self.clock.until(self.limits.connect);
        let (address, stream) = connect::first(connector, addresses, self.port, until).await?;
        exchange.connected = Some(address);
        exchange.timing.connected = Some(self.clock.elapsed());
        let opened = Instant::now();
        let stream = Counted::new(stream, self.limits.wire());
        let Some(config) = config else {
            return Ok(Connection { stream: Stream::Plain(stream), address, tls: None, opened, buffer: Vec::new() });
        };
        let name = tls::server_name(self.host, self.literal)?;
        // The total limit is not applied here: `handshake` tells which of the two was exceeded.
        let until = after(Instant::now(), self.limits.handshake);
        let (stream, evidence) = tls::handshake(config, name, stream, until, self.clock.end).await?;
        exchange.tls = Some(evidence.clone());
        exchange.timing.secured = Some(self.clock.elapsed());
        Ok(Connection { stream: Stream::Tls(Box::new(stream)), address, tls: Some(evidence), opened, buffer: Vec::new() })
    }

    /// Sends one request and reads its response, on a connection to the right host.
    pub(crate) async fn talk(&self, connection: Connection, exchange: &mut Exchange) -> Result<Option<IdleConnection>, Broken> {
        let Connection { mut stream, address, tls, opened, buffer } = connection;
        // The bytes of earlier responses do not count against this one.
        stream.allow(self.limits.wire());
        let mut wire = Wire::new(stream, buffer, &self.limits, self.clock.end);
        let answered = self.answer(&mut wire, exchange).await;
        let (has_received, is_reusable) = (wire.has_received(), wire.is_reusable());
        match answered {
            Ok(Persistence::Stays(idle)) if self.keep && is_reusable => {
                let (stream, buffer) = wire.into_parts();
                Ok(Some(IdleConnection { connection: Connection { stream, address, tls, opened, buffer }, idle }))
            }
            Ok(_) => Ok(None),
            Err(failure) => Err(Broken { failure, has_received }),
        }
    }

    async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        wire: &mut Wire<S>,
        exchange: &mut Exchange,
    ) -> Result<Persistence, Failure> {
        let written;
        let authority = if self.port == self.default_port {
            self.host
        } else {
            written = format!("{}:{}", self.host, self.port);
            &written
        };
        let line = RequestLine { method: self.method, authority, target: self.target, keep: self.keep };
        let request = http::request(line, self.headers, self.body);
        wire.send(&request, self.body).await?;
        let Head { status, headers, framing, persistence } = wire.head(self.limits.head).await?;
        exchange.timing.answered = Some(self.clock.elapsed());
        let response = exchange.response.insert(Response { status, headers, body: Body::default() });
        if let (Expect::Ok, Some(failure)) = (self.expect, status_failure(response)) {
            return Err(failure);
        }
        if let Some(encoding) = response.header("content-encoding").find(|value| !value.eq_ignore_ascii_case("identity")) {
            let detail = format!("Content-Encoding is `{}`", bounded(encoding));
            return Err(Failure::new(codes::fetch::ENCODING_REFUSED, detail));
        }
        let head = self.observer.map(|observer| (observer, response.clone()));
        let mut observe = |bytes: &[u8]| match &head {
            Some((observer, head)) => observer.observe(head, bytes),
            None => ControlFlow::Continue(()),
        };
        response.body = Body(wire.observed_body(framing, self.limits.body, &mut observe).await?);
        Ok(persistence)
    }
}

/// A connection to one host.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<Tls>,
    pub(crate) opened: Instant,
    buffer: Vec<u8>,
}

/// A connection that can be reused.
#[derive(Debug)]
pub(crate) struct IdleConnection {
    pub(crate) connection: Connection,
    /// The server's keep-alive timeout, if it states one.
    pub(crate) idle: Option<Duration>,
}

/// A request without a response.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) failure: Failure,
    /// Whether any byte of a response was received.
    pub(crate) has_received: bool,
}

impl Broken {
    /// Whether the connection was closed without a response, which happens if the server closes an idle connection at the same moment.
    pub(crate) fn is_closed_unanswered(&self) -> bool {
        !self.has_received && self.failure.code == codes::fetch::CLOSED_EARLY
    }
}

/// Why a response is not the requested file. Only status 200 is.
fn status_failure(response: &Response) -> Option<Failure> {
    let status = response.status;
    let code: Code = match status {
        200 => return None,
        204 => codes::fetch::NO_CONTENT,
        206 => codes::fetch::PARTIAL_CONTENT,
        300..=399 => codes::fetch::REDIRECT,
        404 | 410 => codes::fetch::NOT_FOUND,
        400..=499 => codes::fetch::CLIENT_ERROR,
        500..=599 => codes::fetch::SERVER_ERROR,
        _ => codes::fetch::STATUS,
    };
    let detail = match response.header("location").next() {
        Some(location) if (300..400).contains(&status) => format!("status {status} to `{}`", bounded(location)),
        _ => format!("status {status}"),
    };
    Some(Failure::new(code, detail))
}

fn bounded(foreign: &str) -> String {
    let mut shown: String = text::escape_for_display(&foreign.chars().take(MAX_LOCATION_CHARS).collect::<String>());
    if foreign.chars().nth(MAX_LOCATION_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

/// The start and the deadline of an exchange.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch {
    start: Instant,
    pub(crate) end: Instant,
}

impl Stopwatch {
    pub(crate) fn start(total: Duration) -> Self {
        let start = Instant::now();
        Self { start, end: after(start, total) }
    }

    /// The deadline of a phase that may take `part` from now on, limited by the deadline of the exchange.
    pub(crate) fn until(&self, part: Duration) -> Instant {
        after(Instant::now(), part).min(self.end)
    }

    /// Microseconds since the start.
    pub(crate) fn elapsed(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// Adds a duration to a time. An overflow gives a year from now.
pub(crate) fn after(start: Instant, wait: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    start + wait.min(YEAR)
}
