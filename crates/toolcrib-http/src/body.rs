//! Request bodies: a minimum rate, and a shared budget of bytes.
//!
//! With a limit on the number of bodies, a thousand clients that send one byte could block everyone else. Bodies cost bytes, so bytes are
//! counted as they arrive; and a body that is too slow is aborted.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use futures_util::StreamExt as _;
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use crate::limits::Limits;
use crate::network::Network;
use crate::quota::{Hold, Quota};
use crate::registry::Answering;

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// It is larger than the limit.
    #[error("the body is larger than the limit")]
    TooLarge,
    /// It did not arrive in time, or not at the required rate.
    #[error("the body did not arrive in time")]
    Slow,
    /// The connection or the encoding ended before the body was complete.
    #[error("the body broke off")]
    Broken,
    /// The bodies that are being read use up the budget.
    #[error("too many bytes of bodies are held at present")]
    Busy,
}

/// A body that was read. Its bytes count against the budget until it is dropped.
#[derive(Debug)]
pub struct ReadBody {
    bytes: Vec<u8>,
    _hold: Hold,
}

impl ReadBody {
    /// Takes the bytes out; they no longer count.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl std::ops::Deref for ReadBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsRef<[u8]> for ReadBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The budget of bytes for bodies.
#[derive(Clone, Debug)]
pub struct BodyBudget {
    quota: Arc<Quota>,
}

impl BodyBudget {
    /// Default budget of bytes for concurrent bodies.
    pub const BYTES: usize = 256 * 1024 * 1024;

    /// Divisor of a budget for one network's share.
    const SHARE: usize = 8;

    /// Returns a budget of at least `bytes`. One network may use an eighth, but never less than one body of `largest` bytes.
    pub fn new(bytes: usize, largest: usize) -> Self {
        let share = (bytes / Self::SHARE).max(largest);
        Self { quota: Quota::new(bytes.max(share.saturating_mul(2)), share) }
    }

    /// Returns a budget without shares, for servers that cannot tell their clients apart.
    pub fn shared(bytes: usize, largest: usize) -> Self {
        let bytes = bytes.max(largest);
        Self { quota: Quota::new(bytes, bytes) }
    }

    /// Returns the bytes in use.
    pub fn used(&self) -> usize {
        self.quota.used()
    }

    /// Reads a body of at most `most` bytes within `time`.
    pub async fn read(
        &self,
        body: Body,
        headers: &HeaderMap,
        network: Option<Network>,
        most: usize,
        time: Duration,
    ) -> Result<ReadBody, BodyError> {
        let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|length| length > most as u64) {
            return Err(BodyError::TooLarge);
        }
        let reading = async {
            let mut hold = self.quota.take(network, 0).ok_or(BodyError::Busy)?;
            let mut bytes = Vec::new();
            let mut chunks = body.into_data_stream();
            while let Some(chunk) = chunks.next().await {
                let chunk = chunk.map_err(|error| if is_slow(&error) { BodyError::Slow } else { BodyError::Broken })?;
                if chunk.len() > most.saturating_sub(bytes.len()) {
                    return Err(BodyError::TooLarge);
                }
                if !hold.grow(chunk.len()) {
                    return Err(BodyError::Busy);
                }
                bytes.extend_from_slice(&chunk);
            }
            Ok(ReadBody { bytes, _hold: hold })
        };
        timeout(time, reading).await.unwrap_or(Err(BodyError::Slow))
    }
}

/// Whether a body was aborted because it was too slow.
fn is_slow(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<TooSlow>() {
            return true;
        }
        next = error.source();
    }
    false
}

/// A body arrived slower than the limits require.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the body arrives too slowly")]
pub(crate) struct TooSlow;

/// A body with a minimum rate. Only the time that the server waits for it counts.
pub(crate) struct Paced<B> {
    body: B,
    grace: Duration,
    rate: u32,
    received: u64,
    /// Time that was waited before.
    waited: Duration,
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<B> Paced<B> {
    pub(crate) fn new(body: B, limits: &Limits) -> Self {
        let (grace, rate) = (limits.body_grace, limits.body_rate.max(1));
        Self { body, grace, rate, received: 0, waited: Duration::ZERO, waiting: None }
    }

    /// Returns how long it may keep the server waiting from now on.
    fn patience(&self) -> Duration {
        let earned = Duration::from_secs(self.received / u64::from(self.rate));
        (self.grace + earned).saturating_sub(self.waited)
    }
}

impl<B> hyper::body::Body for Paced<B>
where
    B: hyper::body::Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            if let Some((since, _)) = this.waiting.take() {
                this.waited += since.elapsed();
            }
            if let Some(Ok(frame)) = &frame {
                this.received += frame.data_ref().map_or(0, |data| data.len() as u64);
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let patience = this.patience();
        let (_, timer) = this.waiting.get_or_insert_with(|| {
            let now = Instant::now();
            (now, Box::pin(sleep_until(now + patience)))
        });
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Some(Err(TooSlow.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response, whose connection counts as busy until it has been sent.
pub(crate) struct Answered {
    pub(crate) body: Body,
    pub(crate) _answering: Answering,
}

impl hyper::body::Body for Answered {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    fn dripping(every: Duration, piece: &'static [u8]) -> Body {
        Body::from_stream(stream::unfold((), move |()| async move {
            tokio::time::sleep(every).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(piece)), ()))
        }))
    }

    async fn read(budget: &BodyBudget, body: Body, most: usize) -> Result<usize, BodyError> {
        let read = budget.read(body, &HeaderMap::new(), None, most, Duration::from_secs(60)).await;
        read.map(|bytes| bytes.len())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_keep_its_pace_ends() {
        let budget = BodyBudget::shared(1 << 20, 0);
        let begun = Instant::now();
        let paced = |body| Body::new(Paced::new(body, &Limits::default()));
        let slow = paced(dripping(Duration::from_secs(1), b"x"));
        assert_eq!(read(&budget, slow, 1 << 20).await, Err(BodyError::Slow));
        assert!(begun.elapsed() < Duration::from_secs(7), "{:?}", begun.elapsed());
        // Fast enough until its end.
        let begun = Instant::now();
        let steady = paced(dripping(Duration::from_secs(1), &[0; 2_048]));
        assert_eq!(read(&budget, steady, 40 * 2_048).await, Err(BodyError::TooLarge));
        assert_eq!(begun.elapsed().as_secs(), 41);
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_server_s_own_time_does_not_count() {
        let limits = Limits::default();
        let mut paced = Paced::new(Body::from(vec![0; 10]), &limits);
        tokio::time::sleep(limits.body_grace * 3).await;
        let frame = std::future::poll_fn(|cx| hyper::body::Body::poll_frame(Pin::new(&mut paced), cx)).await;
        assert!(frame.is_some_and(|frame| frame.is_ok()));
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_are_counted_and_not_bodies() {
        let budget = BodyBudget::new(8_000, 500);
        // A thousand slow ones hold one byte each at most, and others are read.
        let slow: Vec<_> = (0..1_000)
            .map(|_| {
                let budget = budget.clone();
                let network = Some(Network::of([192, 0, 2, 1].into()));
                let body = dripping(Duration::from_secs(10), b"x");
                tokio::spawn(async move { budget.read(body, &HeaderMap::new(), network, 100, Duration::from_secs(15)).await })
            })
            .collect();
        tokio::time::sleep(Duration::from_secs(11)).await;
        assert_eq!(budget.used(), 1_000);
        let other = Some(Network::of([192, 0, 2, 2].into()));
        let read = async |network, length: usize| {
            budget.read(Body::from(vec![0; length]), &HeaderMap::new(), network, 4_000, Duration::from_secs(1)).await
        };
        assert_eq!(read(other, 1_000).await.map(|body| body.len()), Ok(1_000));
        let held = read(other, 1_000).await.expect("its share");
        assert_eq!(read(other, 1).await.map(|body| body.len()), Err(BodyError::Busy), "its share is used up");
        drop(held);
        for slow in slow {
            assert_eq!(slow.await.expect("no panic").map(|body| body.len()), Err(BodyError::Slow));
        }
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn a_broken_body_is_not_a_slow_one() {
        let budget = BodyBudget::shared(100, 0);
        let broken = stream::iter([Ok(Bytes::from_static(b"{")), Err(std::io::Error::other("gone"))]);
        assert_eq!(read(&budget, Body::from_stream(broken), 10).await, Err(BodyError::Broken));
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, 11.into());
        let announced = budget.read(Body::empty(), &headers, None, 10, Duration::from_secs(1)).await;
        assert_eq!(announced.map(|body| body.len()), Err(BodyError::TooLarge));
    }
}
