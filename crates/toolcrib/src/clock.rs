//! The system clock: the one place where it is read.

use std::time::{SystemTime, UNIX_EPOCH};

use toolcrib_core::clock::{Clock, UnixTime};

/// The clock of the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemClock;

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
