//! A client that says exactly what it is told, over one connection or many.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use toolcrib_x402::{Challenge, SettleResponse, Version, read_body, read_header, read_receipt};

/// Longest wait for an answer: more than any call of these tests takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(150);

/// An answer as it came.
#[derive(Clone, Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl HttpResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Status and code.
    #[track_caller]
    pub(crate) fn verdict(&self) -> (u16, String) {
        (self.status, self.json()["code"].as_str().unwrap_or_default().to_owned())
    }

    /// The challenge in both versions, read by the readers that clients use.
    #[track_caller]
    pub(crate) fn challenges(&self) -> [Challenge; 2] {
        let one = read_body(&self.body);
        let two = read_header(self.header("payment-required").expect("version 2 is in a header"));
        [one, two].map(|reading| {
            assert!(reading.findings.is_empty(), "{:?}", reading.findings);
            reading.challenge.expect("a challenge")
        })
    }

    /// The receipt, under the name of the version and no other.
    #[track_caller]
    pub(crate) fn receipt(&self, version: Version) -> SettleResponse {
        let other = if version == Version::V1 { Version::V2 } else { Version::V1 };
        assert_eq!(self.header(other.receipt_header()), None);
        let reading = read_receipt(self.header(version.receipt_header()).unwrap_or_else(|| panic!("a receipt: {self:?}")));
        assert!(reading.findings.is_empty(), "{:?}", reading.findings);
        reading.response.expect("a receipt")
    }

    /// Whether what the tool made is in it, in any form.
    pub(crate) fn has_output(&self) -> bool {
        self.body.windows(7).any(|window| window == b"\"words\"")
    }

    /// Everything that the caller could read.
    pub(crate) fn text(&self) -> String {
        format!("{:?} {}", self.headers, String::from_utf8_lossy(&self.body))
    }
}

/// Sends a request to the letter over a connection of its own.
pub(crate) async fn send(to: SocketAddr, method: &str, path: &str, headers: &[(&str, &[u8])], body: &[u8]) -> HttpResponse {
    let mut connection = Connection::open(to).await;
    // A server that refuses early may close before it has read everything.
    connection.write(method, path, headers, body).await;
    connection.read(method == "HEAD").await.expect("an answer")
}

/// Calls a tool with JSON.
pub(crate) async fn post(to: SocketAddr, path: &str, headers: &[(&str, &str)], input: &Value) -> HttpResponse {
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    send(to, "POST", path, &headers, input.to_string().as_bytes()).await
}

/// A connection that is used again and again.
pub(crate) struct Connection {
    stream: TcpStream,
    rest: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).await.expect("the server listens");
        stream.set_nodelay(true).expect("a socket");
        Self { stream, rest: Vec::new() }
    }

    pub(crate) async fn write(&mut self, method: &str, path: &str, headers: &[(&str, &[u8])], body: &[u8]) {
        let mut request = format!("{method} {path} HTTP/1.1\r\n").into_bytes();
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            request.extend_from_slice(b"Host: elsewhere.example\r\n");
        }
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
            request.extend_from_slice(b"Content-Type: application/json\r\n");
        }
        for (name, value) in headers {
            request.extend_from_slice(&[name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
        request.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        request.extend_from_slice(body);
        let _ = self.stream.write_all(&request).await;
    }

    /// Reads the status, and resets the connection with the rest of the answer unread.
    pub(crate) async fn status_then_reset(mut self) -> u16 {
        let mut start = [0; 12];
        let read = tokio::time::timeout(PATIENCE, self.stream.read_exact(&mut start)).await;
        read.expect("an answer in time").expect("an answer");
        self.stream.set_zero_linger().expect("a socket");
        std::str::from_utf8(&start[9..]).ok().and_then(|status| status.parse().ok()).expect("a status")
    }

    /// `None` when the connection ends without an answer.
    pub(crate) async fn read(&mut self, is_head: bool) -> Option<HttpResponse> {
        let (head, body) =
            tokio::time::timeout(PATIENCE, read_message(&mut self.stream, &mut self.rest, is_head)).await.ok()??;
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status").parse().expect("a number");
        let headers = lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_owned(), value.to_owned()));
        Some(HttpResponse { status, headers: headers.collect(), body })
    }
}

/// Reads a head, and a body of the length that it gives. What comes after stays in `rest`.
pub(crate) async fn read_message(stream: &mut TcpStream, rest: &mut Vec<u8>, is_head: bool) -> Option<(String, Vec<u8>)> {
    /// More than any message here has.
    const MOST: usize = 8 << 20;
    let mut buffer = [0; 16_384];
    let mut fill = async |rest: &mut Vec<u8>| {
        let count = stream.read(&mut buffer).await.ok().filter(|count| *count > 0 && rest.len() < MOST)?;
        rest.extend_from_slice(&buffer[..count]);
        Some(())
    };
    let end = loop {
        if let Some(at) = rest.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        fill(rest).await?;
    };
    let head = String::from_utf8(rest[..end].to_vec()).ok()?;
    let length = head.split("\r\n").filter_map(|line| line.split_once(':'));
    let length = length.filter(|(name, _)| name.eq_ignore_ascii_case("content-length")).map(|(_, value)| value.trim()).next();
    let length: usize = if is_head { 0 } else { length.map_or(Some(0), |value| value.parse().ok())? };
    while rest.len() < end + length {
        fill(rest).await?;
    }
    let body = rest[end..end + length].to_vec();
    rest.drain(..end + length);
    Some((head, body))
}
