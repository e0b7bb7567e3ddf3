//! The head of a response: status, headers, and framing. Pure functions.

use std::time::Duration;

use toolcrib_core::codes;
use toolcrib_judge::evidence::Failure;

use crate::MAX_HEADERS;

/// The head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) framing: Framing,
    pub(crate) persistence: Persistence,
}

/// Whether the server keeps the connection open after this response (RFC 9112 §9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// It closes the connection, or may close it.
    Closes,
    /// It keeps the connection open, with this idle timeout if it states one.
    Stays(Option<Duration>),
}

/// How the body ends (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// There is no body.
    Empty,
    /// After this number of bytes.
    Length(u64),
    /// After the last chunk.
    Chunked,
    /// At the end of the connection.
    Close,
}

/// The end of the head, after the first empty line, if it is complete. `from` is where the last search stopped, so that a head that
/// arrives byte by byte is searched once.
pub(crate) fn end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from.saturating_sub(2);
    while let Some(found) = bytes.get(at..)?.iter().position(|&b| b == b'\n') {
        let next = at + found + 1;
        match bytes.get(next..)? {
            [b'\n', ..] => return Some(next + 1),
            [b'\r', b'\n', ..] => return Some(next + 2),
            _ => at = next,
        }
    }
    None
}

/// Whether these bytes can be the start of an HTTP/1.0 or 1.1 response.
pub(crate) fn may_begin(bytes: &[u8]) -> bool {
    const BEGIN: &[u8] = b"HTTP/1.";
    bytes.iter().zip(BEGIN).all(|(given, expected)| given == expected)
}

/// Parses a complete head including its empty line.
pub(crate) fn parse(bytes: &[u8]) -> Result<Head, Failure> {
    let not_http = |detail: &str| Failure::new(codes::fetch::NOT_HTTP, detail);
    if !may_begin(bytes) {
        return Err(not_http("the response does not begin with HTTP/1"));
    }
    let mut slots = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut slots);
    match response.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length == bytes.len() => {}
        Ok(_) => return Err(not_http("the response headers are malformed")),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Failure::new(codes::fetch::TOO_MANY_HEADERS, format!("more than {MAX_HEADERS} headers")));
        }
        Err(error) => return Err(not_http(&error.to_string())),
    }
    let (Some(version), Some(status @ 100..)) = (response.version, response.code) else {
        return Err(not_http("the status line is malformed"));
    };
    let framing = framing(version, status, response.headers)?;
    let persistence = persistence(version, framing, response.headers);
    let headers = response.headers.iter().map(|header| (header.name.to_ascii_lowercase(), readable(header.value))).collect();
    Ok(Head { status, headers, framing, persistence })
}

/// Only an HTTP/1.1 response with a marked end leaves a reusable connection. Responses without a body do not count, because
/// implementations differ on whether a Content-Length in them applies.
fn persistence(version: u8, framing: Framing, headers: &[httparse::Header<'_>]) -> Persistence {
    if version == 0 || !matches!(framing, Framing::Length(_) | Framing::Chunked) {
        return Persistence::Closes;
    }
    let mut idle = None;
    for header in headers {
        if header.name.eq_ignore_ascii_case("connection") {
            // `close`, or an upgrade that was not requested.
            if !header.value.split(|&b| b == b',').all(|token| token.trim_ascii().eq_ignore_ascii_case(b"keep-alive")) {
                return Persistence::Closes;
            }
        } else if header.name.eq_ignore_ascii_case("keep-alive") {
            let seconds = header.value.split(|&b| b == b',').find_map(|part| {
                let (name, value) = part.split_at(part.iter().position(|&b| b == b'=')?);
                decimal(value[1..].trim_ascii()).filter(|_| name.trim_ascii().eq_ignore_ascii_case(b"timeout"))
            });
            idle = seconds.map(Duration::from_secs).or(idle);
        }
    }
    Persistence::Stays(idle)
}

/// One length, or one chunked encoding, or neither. Implementations interpret everything else differently.
fn framing(version: u8, status: u16, headers: &[httparse::Header<'_>]) -> Result<Framing, Failure> {
    let bad = |detail: &str| Err(Failure::new(codes::fetch::BAD_FRAMING, detail));
    let (mut length, mut chunked) = (None, false);
    for header in headers {
        if header.name.eq_ignore_ascii_case("content-length") {
            if length.is_some() {
                return bad("the response has two Content-Length headers");
            }
            let Some(number) = decimal(header.value) else { return bad("Content-Length is not a number") };
            length = Some(number);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            if chunked || !header.value.eq_ignore_ascii_case(b"chunked") {
                return bad("Transfer-Encoding is not exactly `chunked`");
            }
            chunked = true;
        }
    }
    match (status, chunked, length) {
        (101, ..) => bad("the server switches protocols (101) without an Upgrade request"),
        (_, true, Some(_)) => bad("the response has both Content-Length and Transfer-Encoding"),
        (_, true, None) if version == 0 => bad("an HTTP/1.0 response has Transfer-Encoding"),
        (100..=199 | 204 | 304, ..) => Ok(Framing::Empty),
        (_, true, None) => Ok(Framing::Chunked),
        (_, false, Some(length)) => Ok(Framing::Length(length)),
        (_, false, None) => Ok(Framing::Close),
    }
}

/// Parses at most nineteen digits, which always fit.
fn decimal(digits: &[u8]) -> Option<u64> {
    if !(1..=19).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// Writes bytes outside UTF-8 as `\xNN`.
fn readable(bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use toolcrib_core::codes::Code;

    use super::*;

    #[track_caller]
    fn check(head: &str, expected: Result<Framing, Code>) {
        let bytes = format!("{head}\r\n\r\n");
        assert_eq!(parse(bytes.as_bytes()).map(|head| head.framing).map_err(|failure| failure.code), expected, "{head}");
    }

    // req: VERIFY-007
    #[test]
    fn where_a_body_ends() {
        use codes::fetch::BAD_FRAMING as BAD;
        let ok = |headers: &str| format!("HTTP/1.1 200 OK\r\n{headers}");
        check(&ok("Content-Length: 0"), Ok(Framing::Length(0)));
        check(&ok("content-length:   12  "), Ok(Framing::Length(12)));
        check(&ok("content-length: 9999999999999999999"), Ok(Framing::Length(9_999_999_999_999_999_999)));
        check(&ok("content-length: 99999999999999999999"), Err(BAD));
        check(&ok("transfer-encoding: Chunked"), Ok(Framing::Chunked));
        check(&ok("a: b"), Ok(Framing::Close));
        check("HTTP/1.0 200 OK\r\na: b", Ok(Framing::Close));
        check("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked", Err(BAD));
        check("HTTP/1.1 204 No Content\r\ncontent-length: 5", Ok(Framing::Empty));
        check("HTTP/1.1 304 Not Modified\r\ncontent-length: 5", Ok(Framing::Empty));
        check("HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c", Err(BAD));
        for headers in [
            "content-length: 5\r\ncontent-length: 5",
            "content-length: 5\r\ncontent-length: 6",
            "content-length: 5, 5",
            "content-length: +5",
            "content-length: -5",
            "content-length: 0x5",
            "content-length: 5 5",
            "content-length:",
            "content-length: 5\r\ntransfer-encoding: chunked",
            "transfer-encoding: chunked\r\ncontent-length: 5",
            "transfer-encoding: gzip, chunked",
            "transfer-encoding: chunked, chunked",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
            "transfer-encoding: identity",
            "transfer-encoding: xchunked",
        ] {
            check(&ok(headers), Err(BAD));
        }
    }

    #[test]
    fn which_connections_stay_open() {
        let of = |head: &str| parse(format!("{head}\r\n\r\n").as_bytes()).unwrap().persistence;
        let ok = |headers: &str| of(&format!("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n{headers}"));
        assert_eq!(ok("a: b"), Persistence::Stays(None));
        assert_eq!(ok("connection: Keep-Alive"), Persistence::Stays(None));
        assert_eq!(ok("connection: keep-alive\r\nkeep-alive: timeout=5"), Persistence::Stays(Some(Duration::from_secs(5))));
        assert_eq!(ok("keep-alive: max=7, Timeout = 2"), Persistence::Stays(Some(Duration::from_secs(2))));
        assert_eq!(ok("keep-alive: timeout=soon"), Persistence::Stays(None));
        assert_eq!(of("HTTP/1.1 500 Oops\r\ntransfer-encoding: chunked"), Persistence::Stays(None));
        for closing in ["connection: close", "connection: keep-alive, close", "connection: Upgrade", "connection:"] {
            assert_eq!(ok(closing), Persistence::Closes, "{closing}");
        }
        assert_eq!(of("HTTP/1.0 200 OK\r\ncontent-length: 2\r\nconnection: keep-alive"), Persistence::Closes);
        assert_eq!(of("HTTP/1.1 200 OK\r\na: b"), Persistence::Closes);
        assert_eq!(of("HTTP/1.1 204 No Content\r\ncontent-length: 5"), Persistence::Closes);
    }

    #[test]
    fn what_is_not_http() {
        use codes::fetch::NOT_HTTP as NOT;
        for head in [
            "HTTP/2 200 OK",
            "HTTP/0.9 200 OK",
            "http/1.1 200 OK",
            "\r\nHTTP/1.1 200 OK",
            "HTTP/1.1 20 OK",
            "HTTP/1.1 2000 OK",
            "HTTP/1.1 099 OK",
            "HTTP/1.1 abc OK",
            "HTTP/1.1 200 OK\r\nno colon",
            "HTTP/1.1 200 OK\r\na : b",
            "HTTP/1.1 200 OK\r\na: b\r\n folded",
            "HTTP/1.1 200 OK\r\na: b\0c",
            "SSH-2.0-OpenSSH",
            "PRI * HTTP/2.0",
        ] {
            check(head, Err(NOT));
        }
    }

    #[test]
    fn headers_are_counted_and_readable() {
        let many = |count: usize| format!("HTTP/1.1 200 OK{}", "\r\na: b".repeat(count));
        check(&many(MAX_HEADERS), Ok(Framing::Close));
        check(&many(MAX_HEADERS + 1), Err(codes::fetch::TOO_MANY_HEADERS));
        let head = parse(b"HTTP/1.1 200 OK\r\nX-A: caf\xc3\xa9 \xff\xfe\r\nx-A: 2\r\n\r\n").unwrap();
        assert_eq!(head.headers, [("x-a".into(), "café \\xff\\xfe".into()), ("x-a".into(), "2".into())]);
    }

    #[test]
    fn the_end_is_found_however_the_bytes_come() {
        for text in ["HTTP/1.1 200 OK\r\na: b\r\n\r\nbody", "HTTP/1.1 200 OK\na: b\n\nbody", "HTTP/1.1 200 OK\r\na: b\n\r\nbody"]
        {
            let whole = text.find("body").unwrap();
            assert_eq!(end(text.as_bytes(), 0), Some(whole));
            let mut from = 0;
            for length in 1..=text.len() {
                let found = end(&text.as_bytes()[..length], from);
                assert_eq!(found, (length >= whole).then_some(whole), "{length}");
                if found.is_some() {
                    break;
                }
                from = length;
            }
        }
    }
}
