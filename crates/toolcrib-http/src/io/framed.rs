//! Requests whose framing is checked before hyper reads them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::framing::Framing;

/// A byte that is invalid in every head and chunk. Written over the offending byte, it makes hyper respond 400 and close.
const REFUSED: u8 = 0;

/// Whether a connection has switched to another protocol than HTTP, such as WebSocket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Upgraded(Arc<AtomicBool>);

impl Upgraded {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A stream of requests with checked framing. Bytes after a violation are not read.
pub(crate) struct Framed<S> {
    stream: S,
    framing: Framing,
    upgraded: Upgraded,
    is_refused: bool,
}

impl<S> Framed<S> {
    pub(crate) fn new(stream: S, upgraded: Upgraded) -> Self {
        Self { stream, framing: Framing::new(), upgraded, is_refused: false }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Framed<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.is_refused {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        if self.upgraded.get() {
            return Poll::Ready(Ok(()));
        }
        let checked = self.framing.check(buffer.filled().get(before..).unwrap_or_default());
        if let Err(violation) = checked {
            tracing::debug!(error = %violation.error, "request refused");
            let offending = before + violation.at;
            if let Some(byte) = buffer.filled_mut().get_mut(offending) {
                *byte = REFUSED;
                buffer.set_filled(offending + 1);
            }
            self.is_refused = true;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Framed<S> {
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

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
