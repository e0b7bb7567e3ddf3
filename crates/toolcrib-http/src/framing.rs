//! The framing of HTTP/1.1 requests, checked byte by byte below hyper.
//!
//! hyper accepts a bare LF as the end of a line in a head. A proxy that does not, or the other way round, sees other requests than the
//! server does (request smuggling, RFC 9112 §2.2 and §11.2). So heads are checked here before hyper parses them. This needs to know where
//! each head starts, so the framing of bodies is followed too, and every request is refused whose framing two parsers could interpret
//! differently. It does no I/O, has a small fixed buffer, and gives the same result however the bytes are split.

/// Longest part of a line that is kept. The two headers that define the length of a body are shorter, however many digits they have; a
/// longer one is refused.
const KEPT_BYTES: usize = 64;

/// Most empty lines before a request that are skipped. RFC 9112 §2.2 asks for one, which old clients send after a body.
const MAX_EMPTY_LINES: u8 = 4;

/// Why the framing of a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FramingError {
    /// A line ends in LF without CR.
    #[error("a line ends in LF without CR")]
    BareLf,
    /// A CR is not followed by LF.
    #[error("a CR is not followed by LF")]
    BareCr,
    /// There are more empty lines before a request than are skipped.
    #[error("more than {MAX_EMPTY_LINES} empty lines precede the request")]
    EmptyLines,
    /// A header begins with a space (obsolete line folding), has none of the characters of a name, or has a space before its colon.
    #[error("a header line has no valid name")]
    HeaderName,
    /// `Content-Length` is not a number, or there are several different ones.
    #[error("Content-Length is not one number")]
    ContentLength,
    /// `Transfer-Encoding` is something else than `chunked`, or there are several.
    #[error("Transfer-Encoding is not exactly `chunked`")]
    TransferEncoding,
    /// Both `Content-Length` and `Transfer-Encoding` are present.
    #[error("both Content-Length and Transfer-Encoding are present")]
    TwoLengths,
    /// The line before a chunk is not a size.
    #[error("a chunk does not begin with its size")]
    ChunkSize,
    /// A chunk is not followed by CRLF.
    #[error("a chunk is longer than its size")]
    ChunkEnd,
}

/// A violation of the framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Index of the offending byte in the given bytes.
    pub at: usize,
    /// What is wrong there.
    pub error: FramingError,
}

/// The framing state of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Framing {
    part: Part,
    /// The start of the line that is being parsed.
    kept: [u8; KEPT_BYTES],
    /// Bytes of that line, without its end.
    length: usize,
    after_cr: bool,
    empty_lines: u8,
    body: Body,
}

/// The part of a message that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    RequestLine,
    Header,
    /// Bytes of a body of known length.
    Body(u64),
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailer,
}

/// What the headers so far say about the length of the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Body {
    length: Option<u64>,
    is_chunked: bool,
}

impl Default for Framing {
    fn default() -> Self {
        Self { part: Part::RequestLine, kept: [0; KEPT_BYTES], length: 0, after_cr: false, empty_lines: 0, body: Body::default() }
    }
}

impl Framing {
    /// Returns the framing state of a new connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether all bytes so far belong to complete requests.
    pub fn is_between_requests(&self) -> bool {
        self.part == Part::RequestLine && self.length == 0 && !self.after_cr
    }

    /// Checks the next bytes. After a violation the state of the connection is undefined.
    pub fn check(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        let mut at = 0;
        while at < bytes.len() {
            match &mut self.part {
                Part::Body(left) | Part::Chunk(left) => {
                    let here = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len() - at);
                    at += here;
                    // At most what is left, so the difference is not negative.
                    *left -= here as u64;
                    if *left == 0 {
                        self.part = if matches!(self.part, Part::Chunk(_)) { Part::ChunkEnd } else { Part::RequestLine };
                    }
                }
                _ => {
                    let rest = bytes.get(at..).unwrap_or_default();
                    // Most bytes of a line are skipped at once.
                    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
                    let plain = match self.after_cr || self.part == Part::ChunkEnd {
                        true => 0,
                        false => rest.iter().position(is_end).unwrap_or(rest.len()),
                    };
                    let (text, rest) = rest.split_at(plain);
                    self.keep(text);
                    at += plain;
                    if let Some(byte) = rest.first() {
                        self.step(*byte).map_err(|error| Violation { at, error })?;
                        at += 1;
                    }
                }
            }
        }
        Ok(())
    }

    /// Keeps bytes within a line.
    fn keep(&mut self, text: &[u8]) {
        let room = self.kept.get_mut(self.length..).unwrap_or_default();
        let count = room.len().min(text.len());
        room[..count].copy_from_slice(&text[..count]);
        self.length += text.len();
    }

    /// Handles a byte at the end of a line, or where a line has to end.
    fn step(&mut self, byte: u8) -> Result<(), FramingError> {
        match byte {
            b'\n' if self.after_cr => {
                self.after_cr = false;
                self.end_line()?;
                self.length = 0;
            }
            _ if self.after_cr => return Err(FramingError::BareCr),
            b'\r' => self.after_cr = true,
            b'\n' => return Err(FramingError::BareLf),
            // `check` has kept every other byte of a line before this call.
            _ => return Err(FramingError::ChunkEnd),
        }
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), FramingError> {
        let is_empty = self.length == 0;
        self.part = match self.part {
            Part::RequestLine if is_empty => {
                self.empty_lines += 1;
                if self.empty_lines > MAX_EMPTY_LINES {
                    return Err(FramingError::EmptyLines);
                }
                Part::RequestLine
            }
            // hyper parses this line: it does not affect where the request ends.
            Part::RequestLine => {
                self.empty_lines = 0;
                self.body = Body::default();
                Part::Header
            }
            Part::Header if is_empty => match self.body {
                Body { is_chunked: true, length: Some(_) } => return Err(FramingError::TwoLengths),
                Body { is_chunked: true, length: None } => Part::ChunkSize,
                Body { length: Some(length @ 1..), .. } => Part::Body(length),
                Body { .. } => Part::RequestLine,
            },
            Part::Header => {
                self.header()?;
                Part::Header
            }
            Part::ChunkSize => match self.chunk_size()? {
                0 => Part::Trailer,
                size => Part::Chunk(size),
            },
            Part::ChunkEnd => Part::ChunkSize,
            Part::Trailer if is_empty => Part::RequestLine,
            // `check` skips bodies, so no line ends there.
            Part::Trailer | Part::Body(_) | Part::Chunk(_) => self.part,
        };
        Ok(())
    }

    /// Returns the start of the line, and whether that is the whole line.
    fn line(&self) -> (&[u8], bool) {
        let kept = self.kept.get(..self.length).unwrap_or(&self.kept);
        (kept, kept.len() == self.length)
    }

    fn header(&mut self) -> Result<(), FramingError> {
        let (line, is_whole) = self.line();
        let colon = line.iter().position(|byte| *byte == b':');
        let name = &line[..colon.unwrap_or(line.len())];
        // A name that is longer than what is kept is not one of the two that matter here.
        if name.is_empty() || name.iter().any(u8::is_ascii_whitespace) || (colon.is_none() && is_whole) {
            return Err(FramingError::HeaderName);
        }
        let value = colon.map_or(&[][..], |colon| &line[colon + 1..]);
        if name.eq_ignore_ascii_case(b"content-length") {
            let length = number(value, 10).filter(|_| is_whole).ok_or(FramingError::ContentLength)?;
            if self.body.length.is_some_and(|before| before != length) {
                return Err(FramingError::ContentLength);
            }
            self.body.length = Some(length);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let is_chunked = is_whole && trimmed(value).eq_ignore_ascii_case(b"chunked");
            if !is_chunked || self.body.is_chunked {
                return Err(FramingError::TransferEncoding);
            }
            self.body.is_chunked = true;
        }
        Ok(())
    }

    fn chunk_size(&self) -> Result<u64, FramingError> {
        let (line, is_whole) = self.line();
        let extension = line.iter().position(|byte| *byte == b';');
        // Blanks may precede an extension, but nothing may precede the size.
        let size = line[..extension.unwrap_or(line.len())].trim_ascii_end();
        let is_size = !size.first().is_some_and(u8::is_ascii_whitespace) && (extension.is_some() || is_whole);
        number(size, 16).filter(|_| is_size).ok_or(FramingError::ChunkSize)
    }
}

/// Returns a header's value without surrounding blanks.
fn trimmed(value: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = value.iter().position(|byte| !is_blank(byte)).unwrap_or(value.len());
    let end = value.iter().rposition(|byte| !is_blank(byte)).map_or(start, |last| last + 1);
    &value[start..end]
}

/// Parses digits only: no sign, no list, no overflow.
fn number(value: &[u8], radix: u32) -> Option<u64> {
    let digits = trimmed(value);
    let is_digit = |byte: &u8| char::from(*byte).is_digit(radix);
    if digits.is_empty() || !digits.iter().all(is_digit) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    /// Returns the result for the whole text, which must not depend on how it is split.
    #[track_caller]
    fn result(text: &str) -> Result<bool, FramingError> {
        let whole = {
            let mut framing = Framing::new();
            framing.check(text.as_bytes()).map(|()| framing.is_between_requests())
        };
        let mut framing = Framing::new();
        for (at, byte) in text.bytes().enumerate() {
            if let Err(violation) = framing.check(&[byte]) {
                assert_eq!(whole, Err(Violation { at, error: violation.error }), "{text:?}");
                return Err(violation.error);
            }
        }
        assert_eq!(whole, Ok(framing.is_between_requests()), "{text:?}");
        whole.map_err(|violation| violation.error)
    }

    fn post(headers: &str, body: &str) -> String {
        format!("POST / HTTP/1.1\r\nHost: a\r\n{headers}\r\n{body}")
    }

    #[test]
    fn requests_are_followed_to_their_end() {
        for text in [
            String::new(),
            GET.to_owned(),
            GET.repeat(3),
            format!("\r\n{GET}\r\n{GET}"),
            post("Content-Length: 0\r\n", ""),
            post("content-length:4\r\n", "a\n\r\r") + GET,
            post("Content-Length: 3\r\nCONTENT-LENGTH: 3\r\n", "\n\n\n") + GET,
            post("Transfer-Encoding: Chunked\r\n", "3\r\n\n\r\n\r\n0\r\n\r\n") + GET,
            post("Transfer-Encoding:\tchunked \r\n", "3;a=b\r\nabc\r\nA \t;x\r\n0123456789\r\n00\r\nX: y\r\n\r\n") + GET,
            format!("GET /{} HTTP/1.1\r\n{}: b\r\nc:\r\n\r\n", "x".repeat(9_000), "a".repeat(200)),
        ] {
            assert_eq!(result(&text), Ok(true), "{text:?}");
        }
        for text in ["G", "GET / HTTP/1.1\r\n", "\r", "GET / HTTP/1.1\r\nHost: a\r\n\r"] {
            assert_eq!(result(text), Ok(false), "{text:?}");
        }
        assert_eq!(result(&post("Content-Length: 3\r\n", "ab")), Ok(false));
        assert_eq!(result(&post("Transfer-Encoding: chunked\r\n", "1\r\na\r\n0\r\n")), Ok(false));
    }

    #[test]
    fn heads_with_other_line_ends_are_refused() {
        use FramingError::{BareCr, BareLf, EmptyLines};
        for (text, error) in [
            ("GET / HTTP/1.1\nHost: a\n\n".to_owned(), BareLf),
            ("GET / HTTP/1.1\r\nHost: a\n\r\n".to_owned(), BareLf),
            ("GET / HTTP/1.1\r\nHost: a\r\n\n".to_owned(), BareLf),
            ("\nGET / HTTP/1.1\r\n".to_owned(), BareLf),
            ("GET / HTTP/1.1\rHost: a\r\n\r\n".to_owned(), BareCr),
            ("GET / HTTP/1.1\r\nHost: a\r\r\n\r\n".to_owned(), BareCr),
            (format!("{GET}GET / HTTP/1.1\nHost: a\r\n\r\n"), BareLf),
            (post("Content-Length: 1\r\n", "\n\nGET"), BareLf),
            (post("Transfer-Encoding: chunked\r\n", "1\na\r\n0\r\n\r\n"), BareLf),
            (post("Transfer-Encoding: chunked\r\n", "1\r\na\n0\r\n\r\n"), BareLf),
            (post("Transfer-Encoding: chunked\r\n", "0\r\nX: y\n\r\n"), BareLf),
            (post("Transfer-Encoding: chunked\r\n", "0;\ra\r\n\r\n"), BareCr),
            ("\r\n".repeat(5), EmptyLines),
        ] {
            assert_eq!(result(&text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn bodies_that_two_readers_could_cut_differently_are_refused() {
        use FramingError::{ChunkEnd, ChunkSize, ContentLength, HeaderName, TransferEncoding, TwoLengths};
        for (headers, error) in [
            ("Content-Length: 3\r\nContent-Length: 4\r\n", ContentLength),
            ("Content-Length: 3, 3\r\n", ContentLength),
            ("Content-Length: +3\r\n", ContentLength),
            ("Content-Length: 0x3\r\n", ContentLength),
            ("Content-Length:\r\n", ContentLength),
            ("Content-Length: 18446744073709551616\r\n", ContentLength),
            ("Content-Length: 0000000000000000000000000000000000000000000000000000000001\r\n", ContentLength),
            ("Transfer-Encoding: gzip, chunked\r\n", TransferEncoding),
            ("Transfer-Encoding: chunked, identity\r\n", TransferEncoding),
            ("Transfer-Encoding: xchunked\r\n", TransferEncoding),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", TransferEncoding),
            ("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", TwoLengths),
            ("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", TwoLengths),
            ("Transfer-Encoding : chunked\r\n", HeaderName),
            (" Content-Length: 3\r\n", HeaderName),
            ("X: a\r\n\tContent-Length: 3\r\n", HeaderName),
            (": 3\r\n", HeaderName),
            ("nothing\r\n", HeaderName),
        ] {
            assert_eq!(result(&post(headers, "abc")), Err(error), "{headers:?}");
        }
        for (body, error) in [
            ("\r\n", ChunkSize),
            ("g\r\n", ChunkSize),
            (" 1\r\n", ChunkSize),
            ("0x1\r\n", ChunkSize),
            ("-1\r\n", ChunkSize),
            ("1 1\r\n", ChunkSize),
            ("10000000000000000\r\n", ChunkSize),
            (";a\r\n", ChunkSize),
            ("1\r\nab\r\n", ChunkEnd),
        ] {
            assert_eq!(result(&post("Transfer-Encoding: chunked\r\n", body)), Err(error), "{body:?}");
        }
    }

    proptest! {
        /// However the bytes are split, verdict and position are the same.
        #[test]
        fn the_verdict_does_not_depend_on_the_pieces(
            text in "(GET / HTTP/1.1\r\n|POST /a HTTP/1.1\r?\n|Host: a\r\n|Content-Length: [0-9]{1,2}\r\n|Transfer-Encoding: chunked\r\n|\r\n|\n|[0-9a-f]{1,2}\r\n|0\r\n|[a-z\r\n]{0,12}){0,16}",
            pieces in proptest::collection::vec(1_usize..20, 0..40),
        ) {
            let mut whole = Framing::new();
            let expected = whole.check(text.as_bytes());
            let (mut framing, mut rest, mut done) = (Framing::new(), text.as_bytes(), 0);
            let mut pieces = pieces.into_iter();
            let found = loop {
                if rest.is_empty() {
                    break Ok(());
                }
                let (piece, after) = rest.split_at(pieces.next().unwrap_or(rest.len()).min(rest.len()));
                if let Err(violation) = framing.check(piece) {
                    break Err(Violation { at: done + violation.at, ..violation });
                }
                (rest, done) = (after, done + piece.len());
            };
            prop_assert_eq!(found, expected);
            if expected.is_ok() {
                prop_assert_eq!(framing.is_between_requests(), whole.is_between_requests());
            }
        }

        /// An accepted head has no line end except CRLF.
        #[test]
        fn what_passes_has_strict_lines(text in "[a-c: \r\n]{0,40}") {
            let mut framing = Framing::new();
            if framing.check(text.as_bytes()).is_ok() {
                let without = text.replace("\r\n", "");
                prop_assert!(!without.contains('\n'), "{:?}", text);
                prop_assert!(!without.trim_end_matches('\r').contains('\r'), "{:?}", text);
            }
        }

        /// Any input gives a verdict.
        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Framing::new().check(&bytes);
        }
    }
}
