//! A timeout for writes to a peer that does not read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::registry::ConnectionGuard;

/// A socket whose writes fail if they make no progress for a while. Reads, and streams without anything to write, may be idle.
///
/// It also holds the connection's slot, so that the slot is free when the socket is closed, whatever happens to the connection.
pub(crate) struct Stalling<S> {
    stream: S,
    limit: Duration,
    /// Runs while a write waits. Reused, so that a slow stream does not allocate for every write.
    timer: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
    place: ConnectionGuard,
}

impl<S> Stalling<S> {
    pub(crate) fn new(stream: S, limit: Duration, place: ConnectionGuard) -> Self {
        Self { stream, limit, timer: None, is_waiting: false, place }
    }

    /// Returns a result, or fails if it has been pending for too long.
    fn within<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            if std::mem::take(&mut self.is_waiting) {
                self.place.entry().set_writing(false);
            }
            return result;
        }
        if !std::mem::replace(&mut self.is_waiting, true) {
            self.place.entry().set_writing(true);
            match &mut self.timer {
                Some(timer) => timer.as_mut().reset(Instant::now() + self.limit),
                None => self.timer = Some(Box::pin(sleep(self.limit))),
            }
        }
        let Some(timer) = &mut self.timer else { return Poll::Pending };
        ready!(timer.as_mut().poll(cx));
        tracing::debug!("connection closed: the peer does not read");
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalling<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalling<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.within(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.within(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// A TCP socket has nothing to flush, so this must not count as progress.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
