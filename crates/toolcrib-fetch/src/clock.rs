//! The system clock, and the clock of an exchange, which is also used to validate certificates.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::time_provider::TimeProvider;
use toolcrib_core::clock::{Clock, UnixTime};

/// The system clock: the only place that reads it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "everything else takes a Clock")]
    fn now(&self) -> UnixTime {
        let seconds = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_secs()).map_or(i64::MIN, |seconds| -seconds),
        };
        UnixTime::from_seconds(seconds)
    }
}

/// A clock that is shared with the TLS library.
#[derive(Clone)]
pub(crate) struct SharedClock(Arc<dyn Clock + Send + Sync>);

impl SharedClock {
    pub(crate) fn new(clock: impl Clock + Send + Sync + 'static) -> Self {
        Self(Arc::new(clock))
    }

    pub(crate) fn now(&self) -> UnixTime {
        self.0.now()
    }
}

impl fmt::Debug for SharedClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedClock")
    }
}

impl TimeProvider for SharedClock {
    /// Returns `None` for times before 1970, which fails every handshake.
    fn current_time(&self) -> Option<rustls::pki_types::UnixTime> {
        let seconds = u64::try_from(self.now().seconds()).ok()?;
        Some(rustls::pki_types::UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}
