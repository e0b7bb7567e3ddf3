//! How a connection ends: closed by the peer, which has read what was sent, or broken.
//!
//! hyper does not tell the two apart, so the stream below it is watched. A peer that asked to close the connection after the response gets
//! a moment to close its side: the response has arrived then, and is not lost to a reset.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long a peer has to close its side.
const LINGER_TIME: Duration = Duration::from_secs(2);

/// Most bytes that are read from a peer that still sends.
const LINGER_BYTES: usize = 64 * 1024;

/// Whether the peer has closed the connection cleanly.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closed(Arc<AtomicBool>);

impl Closed {
    pub(crate) fn in_order(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A stream whose end is watched.
pub(crate) struct Watched<S> {
    stream: S,
    closed: Closed,
    /// Set after a reset, because such a stream then reads as ended.
    is_broken: bool,
    lingering: Option<(Pin<Box<Sleep>>, usize)>,
}

impl<S> Watched<S> {
    pub(crate) fn new(stream: S) -> (Self, Closed) {
        let closed = Closed::default();
        (Self { stream, closed: closed.clone(), is_broken: false, lingering: None }, closed)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buffer));
        let is_end = match &read {
            Ok(()) => buffer.filled().len() == before && buffer.remaining() > 0,
            // rustls reports this if a peer closes the connection without a TLS closure alert.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => true,
            Err(_) => {
                self.is_broken = true;
                false
            }
        };
        if is_end && !self.is_broken {
            self.closed.0.store(true, Ordering::Relaxed);
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Closes this side, and waits for the peer to close its own.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.lingering.is_none() {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            self.lingering = Some((Box::pin(sleep(LINGER_TIME)), LINGER_BYTES));
        }
        loop {
            let is_over = self.is_broken || self.closed.in_order();
            let Some((time, bytes)) = &mut self.lingering else { return Poll::Ready(Ok(())) };
            if is_over || *bytes == 0 || time.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut space = [0; 1024];
            let mut buffer = ReadBuf::new(&mut space);
            ready!(self.as_mut().poll_read(cx, &mut buffer))?;
            let count = buffer.filled().len();
            if let Some((_, bytes)) = &mut self.lingering {
                *bytes = bytes.saturating_sub(count);
            }
        }
    }
}
