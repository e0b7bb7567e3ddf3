//! The clock of an exchange, which also decides whether a certificate is in its time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls::time_provider::TimeProvider;
use toolcrib_core::clock::{Clock, UnixTime};

/// A clock that can be shared with the TLS library.
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
    /// `None`, which fails every handshake, for times before 1970.
    fn current_time(&self) -> Option<rustls::pki_types::UnixTime> {
        let seconds = u64::try_from(self.now().seconds()).ok()?;
        Some(rustls::pki_types::UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}
