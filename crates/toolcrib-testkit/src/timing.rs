//! Assertions about time that hold on a loaded machine.

use std::time::{Duration, Instant};

/// How long an operation with a time limit of its own may take before a test calls it hung.
///
/// Such limits are a few seconds. This is far above them, because a busy machine can stop a process for seconds, and below
/// the minute for which the hostile peers of the tests hold a connection.
pub const HUNG: Duration = Duration::from_secs(45);

/// How often [`assert_faster_than`] runs what it measures.
const ATTEMPTS: usize = 5;

/// Asserts that an operation that began at `began` ended by its own limit.
///
/// # Panics
///
/// If it took longer than [`HUNG`].
#[track_caller]
pub fn assert_not_hung(began: Instant, what: &str) {
    let elapsed = began.elapsed();
    assert!(elapsed < HUNG, "{what} took {elapsed:?}");
}

/// Asserts that `run` takes less than `limit` in at least one of several attempts.
///
/// A single measurement fails when another process takes the processor. Choose a `limit` far above the usual time and far
/// below that of the slow algorithm which the test is there to detect.
///
/// # Panics
///
/// If the fastest attempt took `limit` or longer.
#[track_caller]
pub fn assert_faster_than<T>(limit: Duration, what: &str, mut run: impl FnMut() -> T) -> T {
    let mut fastest = Duration::MAX;
    for _ in 0..ATTEMPTS {
        let began = Instant::now();
        let result = run();
        fastest = fastest.min(began.elapsed());
        if fastest < limit {
            return result;
        }
    }
    panic!("{what}: the fastest of {ATTEMPTS} attempts took {fastest:?}, and the limit is {limit:?}");
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;

    #[test]
    fn one_slow_attempt_is_forgiven() {
        let mut attempts = 0;
        let result = assert_faster_than(Duration::from_millis(500), "slow at first", || {
            attempts += 1;
            if attempts == 1 {
                sleep(Duration::from_millis(600));
            }
            attempts
        });
        assert!(result > 1, "the first attempt took too long");
    }

    #[test]
    #[should_panic(expected = "the fastest of 5 attempts")]
    fn slowness_is_not_forgiven() {
        assert_faster_than(Duration::from_millis(1), "always slow", || sleep(Duration::from_millis(2)));
    }

    #[test]
    #[should_panic(expected = "a call took")]
    fn a_hang_is_reported() {
        let began = Instant::now().checked_sub(HUNG).expect("the machine has been up for a minute");
        assert_not_hung(began, "a call");
    }
}
