//! The clock of the machine. Tests bring their own.

use std::time::{SystemTime, UNIX_EPOCH};

use toolcrib_core::clock::{Clock, UnixTime};

/// The clock of the machine: what [`Tools`](crate::Tools) goes by unless told otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "everything else in this crate takes a Clock")]
    fn now(&self) -> UnixTime {
        // A clock before 1970 is broken; 0 then refuses every authorization as too long valid.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        UnixTime::from_seconds(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
    }
}
