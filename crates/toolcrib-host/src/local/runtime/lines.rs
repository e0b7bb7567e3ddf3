//! Lines of untrusted programs, with a size limit while reading.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// Why there is no next line.
#[derive(Debug)]
pub(super) enum LineError {
    /// The program closed its end.
    End,
    /// The line is longer than the limit.
    TooLong,
    /// The pipe broke.
    Broken,
}

/// Reads one line of at most `limit` bytes into `line`, without the line feed.
///
/// If it is cancelled, `line` keeps what was read: the next call continues there, unless the caller clears it.
pub(super) async fn read_line(from: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>, limit: usize) -> Result<(), LineError> {
    loop {
        let bytes = from.fill_buf().await.map_err(|_: io::Error| LineError::Broken)?;
        if bytes.is_empty() {
            return Err(LineError::End);
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(bytes.len());
        if line.len() + taken > limit {
            return Err(LineError::TooLong);
        }
        line.extend_from_slice(&bytes[..taken]);
        from.consume(end.map_or(taken, |end| end + 1));
        if end.is_some() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    #[tokio::test]
    async fn lines_are_capped_and_an_unfinished_one_is_none() {
        let mut from = BufReader::with_capacity(3, &b"one\n\nthree\nun"[..]);
        let mut line = Vec::new();
        for wanted in ["one", "", "three"] {
            line.clear();
            read_line(&mut from, &mut line, 5).await.unwrap();
            assert_eq!(line, wanted.as_bytes());
        }
        line.clear();
        assert!(matches!(read_line(&mut from, &mut line, 5).await, Err(LineError::End)));
        let mut from = BufReader::new(&b"123456\n"[..]);
        line.clear();
        assert!(matches!(read_line(&mut from, &mut line, 5).await, Err(LineError::TooLong)));
    }
}
