//! A cache of fetched images, and for a shorter time of failures.
//!
//! One fetch serves all visitors: concurrent requests for the same image wait for it. A visitor who disconnects does not stop a fetch in
//! progress, so disconnecting and reconnecting causes no additional fetches.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::HeaderValue;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, Weighter};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use toolcrib_core::url::HttpsUrl;
use toolcrib_fetch::{Limits, Target, Untrusted};
use toolcrib_index::text_key;

use super::raster::Format;
use crate::directory::App;
use crate::limits::{BucketKey, Class};

/// The maximum size of an image in bytes. Icons have some tens of kilobytes; a directory is not a place for photographs.
const MAX_BYTES: usize = 1024 * 1024;

/// The timeout of a fetch. A page shows a placeholder meanwhile, so there is no point in waiting as long as for a manifest.
const FETCH_TIME: Duration = Duration::from_secs(5);

/// The maximum number of concurrent fetches.
pub(crate) const MAX_FETCHES: usize = 16;

/// How long a fetch waits for a free slot.
const PLACE_TIME: Duration = Duration::from_secs(2);

/// How long an image is cached before it is fetched again.
const KEPT: Duration = Duration::from_secs(6 * 3_600);

/// How long a failure is cached: an author who fixed the server waits no longer.
const FAILED: Duration = Duration::from_secs(600);

/// How long it is cached that no slot was free, or that a limit was reached.
const REFUSED: Duration = Duration::from_secs(5);

/// What an entry takes beyond its bytes, about.
const OVERHEAD: u64 = 512;

/// A validated image.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub(crate) bytes: Bytes,
    pub(crate) format: Format,
    /// A strong `ETag`: equal for equal bytes, on every machine.
    pub(crate) etag: HeaderValue,
}

/// Why there is no image. Text of the server is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// It could not be fetched, or is not a supported image.
    Failed,
    /// A limit was reached, or no slot was free: a later request may succeed.
    Refused,
}

pub(crate) type Outcome = Result<Image, Missing>;

#[derive(Clone, Debug)]
struct Entry {
    outcome: Outcome,
    until: Instant,
}

/// The chain decides whether a host of the development environment may be requested, so it is part of the key.
type Key = (u64, Box<str>);

#[derive(Clone, Debug)]
struct Bytewise;

impl Weighter<Key, Arc<Entry>> for Bytewise {
    fn weight(&self, key: &Key, entry: &Arc<Entry>) -> u64 {
        OVERHEAD + (key.1.len() + entry.outcome.as_ref().map_or(0, |image| image.bytes.len())) as u64
    }
}

/// The image cache, and the client that fetches images.
#[derive(Debug)]
pub(crate) struct Images {
    client: Option<Untrusted>,
    kept: Cache<Key, Arc<Entry>, Bytewise>,
    places: Semaphore,
}

impl Images {
    /// Creates a cache that fetches with `client`; without one nothing is fetched.
    pub(crate) fn new(client: Option<Untrusted>, bytes: u64) -> Self {
        // At least one image must fit, otherwise each visitor would cause another fetch.
        let bytes = bytes.max(4 * MAX_BYTES as u64);
        let items = usize::try_from(bytes / 16_384).unwrap_or(usize::MAX).clamp(64, 1_000_000);
        let kept = Cache::with(items, bytes, Bytewise, DefaultHashBuilder::default(), DefaultLifecycle::default());
        Self { client, kept, places: Semaphore::new(MAX_FETCHES) }
    }

    /// Returns the size of the cache in bytes.
    pub(crate) fn weight(&self) -> u64 {
        self.kept.weight()
    }

    fn fresh(&self, key: &Key) -> Option<Outcome> {
        let entry = self.kept.get(key)?;
        if entry.until <= Instant::now() {
            self.kept.remove(key);
            return None;
        }
        Some(entry.outcome.clone())
    }
}

/// Returns the image at a URL: cached, or fetched for this visitor and all concurrent requests.
pub(crate) async fn image(app: &Arc<App>, visitor: Option<IpAddr>, chain: u64, url: HttpsUrl) -> Outcome {
    let key: Key = (chain, url.normalized().into());
    if let Some(outcome) = app.images.fresh(&key) {
        app.metrics.image_hits.fetch_add(1, Ordering::Relaxed);
        return outcome;
    }
    app.metrics.image_misses.fetch_add(1, Ordering::Relaxed);
    // Only fetches count: a page of cached images costs nothing.
    if app.limiter.count(BucketKey::at(visitor, Class::Image), app.options.images_per_address).wait.is_some() {
        return limited(app);
    }
    let task = tokio::spawn(shared(app.clone(), key, chain, url));
    task.await.unwrap_or(Err(Missing::Failed))
}

fn limited(app: &App) -> Outcome {
    app.metrics.images_limited.fetch_add(1, Ordering::Relaxed);
    Err(Missing::Refused)
}

async fn shared(app: Arc<App>, key: Key, chain: u64, url: HttpsUrl) -> Outcome {
    match app.images.kept.get_value_or_guard_async(&key).await {
        Ok(entry) => entry.outcome.clone(),
        Err(guard) => {
            let outcome = fetched(&app, chain, &url).await;
            let time = match &outcome {
                Ok(_) => KEPT,
                Err(Missing::Failed) => FAILED,
                Err(Missing::Refused) => REFUSED,
            };
            // The guard fails when another insertion was faster, which is fine.
            let _ = guard.insert(Arc::new(Entry { outcome: outcome.clone(), until: Instant::now() + time }));
            outcome
        }
    }
}

async fn fetched(app: &App, chain: u64, url: &HttpsUrl) -> Outcome {
    let Some(client) = &app.images.client else { return Err(Missing::Failed) };
    let host = BucketKey::ImageHost(text_key(url.host()).cast_unsigned());
    if app.limiter.count(host, app.options.images_per_host).wait.is_some() {
        return limited(app);
    }
    let Ok(Ok(_place)) = timeout(PLACE_TIME, app.images.places.acquire()).await else { return limited(app) };
    let mut limits = Limits::MANIFEST;
    limits.body = MAX_BYTES;
    limits.total = FETCH_TIME;
    let exchange = client.get(&Target::file(url, Some(chain)).limits(limits)).await;
    let image = exchange.complete().and_then(|response| checked(Bytes::copy_from_slice(response.body.as_bytes())));
    if image.is_none() {
        app.metrics.images_failed.fetch_add(1, Ordering::Relaxed);
        let code = exchange.failure.as_ref().map_or("the image format is not supported", |failure| failure.code.id());
        tracing::debug!(host = url.host(), code, "image not shown");
    }
    image.ok_or(Missing::Failed)
}

/// Returns the image in some bytes, if its format is supported.
pub(crate) fn checked(bytes: Bytes) -> Option<Image> {
    let format = Format::of(&bytes)?;
    let digest = alloy_primitives::hex::encode(&Sha256::digest(&bytes)[..12]);
    let etag = HeaderValue::try_from(format!("\"{digest}\"")).ok()?;
    Some(Image { bytes, format, etag })
}
