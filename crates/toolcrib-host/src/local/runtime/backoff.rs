//! Exponential backoff after crashes.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The pause after the first crash.
const FIRST: Duration = Duration::from_millis(200);

/// The longest pause.
const LONGEST: Duration = Duration::from_secs(30);

/// Crashes without a pause: a handler may crash on one bad argument.
const FREE: u32 = 2;

/// Counts consecutive crashes.
#[derive(Debug, Default)]
pub(super) struct Backoff(Mutex<(u32, Option<Instant>)>);

impl Backoff {
    /// How long to wait before the next start, if necessary.
    pub(super) fn wait(&self) -> Option<Duration> {
        let until = self.0.lock().unwrap_or_else(PoisonError::into_inner).1?;
        let left = until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// The program exited without an answer.
    pub(super) fn crashed(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = state.0.saturating_add(1);
        if let Some(beyond) = state.0.checked_sub(FREE + 1) {
            let pause = FIRST.saturating_mul(1 << beyond.min(16)).min(LONGEST);
            state.1 = Some(Instant::now() + pause);
        }
    }

    /// The program answered.
    pub(super) fn answered(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_to_a_limit_and_end_with_an_answer() {
        let backoff = Backoff::default();
        for _ in 0..FREE {
            backoff.crashed();
            assert_eq!(backoff.wait(), None);
        }
        let mut last = Duration::ZERO;
        for _ in 0..12 {
            backoff.crashed();
            let wait = backoff.wait().expect("a pause");
            assert!(wait >= last && wait <= LONGEST);
            last = wait;
        }
        assert_eq!(last, LONGEST);
        tokio::time::advance(LONGEST).await;
        assert_eq!(backoff.wait(), None, "the pause is over");
        backoff.crashed();
        assert!(backoff.wait().is_some(), "crashes still count");
        backoff.answered();
        assert_eq!(backoff.wait(), None);
    }
}
