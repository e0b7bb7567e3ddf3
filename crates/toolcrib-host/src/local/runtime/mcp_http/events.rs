//! Server-sent events, parsed as they arrive.

use std::ops::ControlFlow;

/// Splits a stream into the data of its events. Names, ids and retry times are ignored.
///
/// It buffers an unfinished event, whose size is limited by the limit of the response body.
#[derive(Debug, Default)]
pub(super) struct EventReader {
    line: Vec<u8>,
    data: Option<Vec<u8>>,
    after_return: bool,
    after_first_line: bool,
}

impl EventReader {
    /// Parses the next bytes, and passes the data of each completed event to `event`.
    pub(super) fn push(&mut self, bytes: &[u8], mut event: impl FnMut(&[u8]) -> ControlFlow<()>) -> ControlFlow<()> {
        for &byte in bytes {
            let after_return = std::mem::replace(&mut self.after_return, byte == b'\r');
            match byte {
                // The second byte of a CRLF.
                b'\n' if after_return => {}
                b'\r' | b'\n' => {
                    if let Some(data) = self.end_line() {
                        event(&data)?;
                    }
                }
                _ => self.line.push(byte),
            }
        }
        ControlFlow::Continue(())
    }

    /// Ends a line. An empty line ends an event; returns its data, if it has any.
    fn end_line(&mut self) -> Option<Vec<u8>> {
        let mut line = std::mem::take(&mut self.line);
        if !std::mem::replace(&mut self.after_first_line, true) && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        if line.is_empty() {
            return self.data.take();
        }
        if let Some(value) = line.strip_prefix(b"data") {
            let value = match value {
                [b':', b' ', value @ ..] | [b':', value @ ..] => value,
                [] => value,
                // Another field, such as `database`.
                _ => return None,
            };
            match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a stream in pieces of `size` bytes.
    fn events(stream: &str, size: usize) -> Vec<String> {
        let (mut reader, mut seen) = (EventReader::default(), Vec::new());
        for piece in stream.as_bytes().chunks(size) {
            let _ = reader.push(piece, |data| {
                seen.push(String::from_utf8_lossy(data).into_owned());
                ControlFlow::Continue(())
            });
        }
        seen
    }

    #[test]
    fn events_of_every_form_in_pieces_of_every_size() {
        let stream = "\u{feff}data: one\n\n: a comment\r\nevent: message\r\nid: 7\r\ndata:two\r\ndata: more\r\n\r\n\
                      retry: 5\n\ndata\n\ndata: \n\ndatabase: no\n\ndata:  three\rdata:é\r\rdata: unfinished\n";
        for size in [1, 2, 3, 7, 1000] {
            assert_eq!(events(stream, size), ["one", "two\nmore", "", "", " three\né"], "{size}");
        }
    }

    #[test]
    fn reading_ends_when_the_caller_has_enough() {
        let mut reader = EventReader::default();
        let mut count = 0;
        let flow = reader.push(b"data: a\n\ndata: b\n\n", |_| {
            count += 1;
            ControlFlow::Break(())
        });
        assert_eq!((flow, count), (ControlFlow::Break(()), 1));
    }
}
