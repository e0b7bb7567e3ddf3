//! Reading a body with a size limit. The result is the whole body or an error, unless the caller stops early.

use std::ops::ControlFlow;

use tokio::io::{AsyncRead, AsyncWrite};
use toolcrib_core::codes;
use toolcrib_judge::evidence::Failure;

use super::{Framing, Pending, Wire};
use crate::tls::Stage;

/// Maximum length of a chunk-size line. The number takes sixteen digits; extensions are not used in practice.
const MAX_CHUNK_LINE: usize = 256;

/// Maximum size of trailers, which are read and dropped.
const MAX_TRAILER_BYTES: usize = 8 * 1024;

/// Initial allocation for a body: an untrusted Content-Length alone must not take memory.
const FIRST_ROOM: usize = 64 * 1024;

/// A callback for the bytes of a body as they arrive. It can stop the reading.
pub(crate) type Observe<'o> = dyn FnMut(&[u8]) -> ControlFlow<()> + Send + 'o;

/// A partially read body.
struct Partial<'o, 'f> {
    bytes: Vec<u8>,
    /// Number of bytes already passed to the observer.
    shown: usize,
    observe: &'o mut Observe<'f>,
}

impl Partial<'_, '_> {
    /// Passes new bytes to the observer.
    fn show(&mut self) -> ControlFlow<()> {
        let new = self.bytes.get(self.shown..).unwrap_or_default();
        if new.is_empty() {
            return ControlFlow::Continue(());
        }
        self.shown = self.bytes.len();
        (self.observe)(new)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    /// Reads the body, at most `max` bytes.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) async fn body(&mut self, framing: Framing, max: usize) -> Result<Vec<u8>, Failure> {
        self.observed_body(framing, max, &mut |_| ControlFlow::Continue(())).await
    }

    /// Reads the body, at most `max` bytes, and passes its pieces to `observe`. After a `Break` the body is what was read so far, and the
    /// connection is not reusable.
    pub(crate) async fn observed_body(
        &mut self,
        framing: Framing,
        max: usize,
        observe: &mut Observe<'_>,
    ) -> Result<Vec<u8>, Failure> {
        let mut body = Partial { bytes: Vec::new(), shown: 0, observe };
        let flow = match framing {
            Framing::Empty => ControlFlow::Continue(()),
            Framing::Length(length) => self.length(length, max, &mut body).await?,
            Framing::Chunked => self.chunks(max, &mut body).await?,
            Framing::Close => {
                self.close(max, &mut body).await?;
                return Ok(body.bytes);
            }
        };
        let body = body.bytes;
        if flow.is_break() {
            return Ok(body);
        }
        // Bytes after the response that are already there. Later ones are not waited for.
        let pending = if self.end > self.start { Pending::Bytes } else { self.pending().await };
        if pending == Pending::Bytes {
            return Err(Failure::new(
                codes::fetch::LENGTH_MISMATCH,
                format!("there are more bytes after the {} of the body", body.len()),
            ));
        }
        self.is_quiet = pending == Pending::Nothing;
        Ok(body)
    }

    async fn length(&mut self, length: u64, max: usize, body: &mut Partial<'_, '_>) -> Result<ControlFlow<()>, Failure> {
        let length = match usize::try_from(length) {
            Ok(length) if length <= max => length,
            _ => {
                let detail = format!("Content-Length is {length} bytes, the limit is {max}");
                return Err(Failure::new(codes::fetch::LENGTH_TOO_LARGE, detail));
            }
        };
        body.bytes.reserve_exact(length.min(FIRST_ROOM));
        loop {
            self.take(&mut body.bytes, length);
            if body.show().is_break() {
                return Ok(ControlFlow::Break(()));
            }
            if body.bytes.len() == length {
                return Ok(ControlFlow::Continue(()));
            }
            if self.fill(Stage::Body).await? == 0 {
                return Err(Failure::new(codes::fetch::TRUNCATED, format!("received {} of {length} bytes", body.bytes.len())));
            }
        }
    }

    /// Reads until the connection ends. Without TLS `close_notify` this is a connection error, so that an attacker on
    /// the path cannot truncate the body.
    async fn close(&mut self, max: usize, body: &mut Partial<'_, '_>) -> Result<(), Failure> {
        loop {
            self.take(&mut body.bytes, max);
            if body.show().is_break() {
                return Ok(());
            }
            if self.end > self.start {
                return Err(too_large(max));
            }
            if self.fill(Stage::Body).await? == 0 {
                return Ok(());
            }
        }
    }

    async fn chunks(&mut self, max: usize, body: &mut Partial<'_, '_>) -> Result<ControlFlow<()>, Failure> {
        loop {
            let line = self.line(MAX_CHUNK_LINE).await?;
            let size = chunk_size(&self.buffer[line.0..line.1]).ok_or_else(|| bad("the size of a chunk is malformed"))?;
            if size == 0 {
                break;
            }
            let end = usize::try_from(size).ok().and_then(|size| body.bytes.len().checked_add(size));
            let Some(end) = end.filter(|end| *end <= max) else { return Err(too_large(max)) };
            loop {
                self.take(&mut body.bytes, end);
                if body.show().is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                if body.bytes.len() == end {
                    break;
                }
                self.more().await?;
            }
            let line = self.line(2).await?;
            if line.0 != line.1 {
                return Err(bad("a chunk is longer than its size"));
            }
        }
        let mut left = MAX_TRAILER_BYTES;
        loop {
            let line = self.line(left).await?;
            if line.0 == line.1 {
                return Ok(ControlFlow::Continue(()));
            }
            left -= line.1 - line.0;
        }
    }

    /// The range of the next line in the buffer, without its CRLF, of at most `max` bytes.
    async fn line(&mut self, max: usize) -> Result<(usize, usize), Failure> {
        let mut searched = 0;
        loop {
            let seen = &self.buffer[self.start..self.end];
            if let Some(found) = seen[searched..].iter().position(|&b| b == b'\n') {
                let length = searched + found;
                let line = self.start;
                if length == 0 || seen[length - 1] != b'\r' || length > max {
                    return Err(bad("a line break between chunks is malformed"));
                }
                self.start += length + 1;
                return Ok((line, line + length - 1));
            }
            if seen.len() > max {
                return Err(bad("a line between chunks is too long"));
            }
            searched = seen.len();
            self.more().await?;
        }
    }

    async fn more(&mut self) -> Result<(), Failure> {
        match self.fill(Stage::Body).await? {
            0 => Err(Failure::new(codes::fetch::TRUNCATED, "the last chunk is missing")),
            _ => Ok(()),
        }
    }

    /// Moves bytes from the buffer to the body until the body has `end` bytes.
    fn take(&mut self, body: &mut Vec<u8>, end: usize) {
        let count = (self.end - self.start).min(end.saturating_sub(body.len()));
        body.extend_from_slice(&self.buffer[self.start..self.start + count]);
        self.start += count;
    }
}

/// Parses `HEX [; extension]`. The extension must not have control characters, so that it cannot hide a line.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    let (number, rest) = line.split_at(digits);
    if !(1..=16).contains(&digits) || rest.iter().any(|b| b.is_ascii_control() && *b != b'\t') {
        return None;
    }
    if !matches!(rest.trim_ascii_start().first(), None | Some(b';')) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(number).ok()?, 16).ok()
}

fn too_large(max: usize) -> Failure {
    Failure::new(codes::fetch::BODY_TOO_LARGE, format!("more than {max} bytes"))
}

fn bad(detail: &str) -> Failure {
    Failure::new(codes::fetch::BAD_FRAMING, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_chunks() {
        for (line, size) in [
            ("0", Some(0)),
            ("a", Some(10)),
            ("00A", Some(10)),
            ("ffffffffffffffff", Some(u64::MAX)),
            ("5;name=value", Some(5)),
            ("5 ; name", Some(5)),
            ("", None),
            (" 5", None),
            ("0x5", None),
            ("-5", None),
            ("5 5", None),
            ("5g", None),
            ("10000000000000000", None),
            ("00000000000000005", None),
            ("5;a\rb", None),
        ] {
            assert_eq!(chunk_size(line.as_bytes()), size, "{line:?}");
        }
    }
}
