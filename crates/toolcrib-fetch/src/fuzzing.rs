//! Runs the response parser on bytes in memory, for the fuzz target and the unit tests. Not part of the public API.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use toolcrib_judge::evidence::Failure;

use crate::Limits;
use crate::http::Wire;

/// A stream of pieces that are available at once, and then its end.
pub(crate) struct Pieces(pub(crate) VecDeque<Vec<u8>>);

impl AsyncRead for Pieces {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(mut piece) = self.0.pop_front() {
            let rest = piece.split_off(piece.len().min(buffer.remaining()));
            buffer.put_slice(&piece);
            if !rest.is_empty() {
                self.0.push_front(rest);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pieces {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Parses one response in pieces of `size` bytes, with a body of at most `max`. Returns status, header names and values, and body.
pub async fn read_answer(bytes: &[u8], size: usize, max: usize) -> Result<(u16, Vec<(String, String)>, Vec<u8>), Failure> {
    let pieces = bytes.chunks(size.max(1)).map(<[u8]>::to_vec).collect();
    let limits = Limits::default();
    let mut wire = Wire::new(Pieces(pieces), Vec::new(), &limits, Instant::now() + limits.total);
    let head = wire.head(limits.head).await?;
    let body = wire.body(head.framing, max).await?;
    Ok((head.status, head.headers, body))
}
