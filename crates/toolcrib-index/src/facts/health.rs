//! The availability of a tool's server, from the newest verification runs.
//!
//! A ring buffer of two bytes for each run: the milliseconds until the manifest was received, or [`SILENT`]. It counts only fetches of the
//! manifest: calling an endpoint again and again only to test it would cost its operator more than the result is worth.

use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes;
use toolcrib_judge::evidence::Exchange;

use crate::listing::{HEALTH_LOOKS, Health};

/// Marks a run without a response.
const SILENT: u16 = u16::MAX;

/// The result of one fetch for the health of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseTime {
    /// It responded after this number of milliseconds.
    After(u16),
    /// It did not respond.
    None,
    /// No information: it was not requested, or the failure was local.
    NotAsked,
}

impl ResponseTime {
    pub(crate) fn of(exchange: Option<&Exchange>) -> Self {
        let Some(exchange) = exchange else { return Self::NotAsked };
        match &exchange.failure {
            None => {
                let millis = exchange.timing.total / 1_000;
                Self::After(u16::try_from(millis).unwrap_or(SILENT - 1).min(SILENT - 1))
            }
            // DNS lookups and our own queue are local; a host blocked by policy was not requested.
            Some(failure)
                if failure.code == codes::fetch::DNS_FAILED
                    || failure.code == codes::fetch::BUSY
                    || failure.code.info().check == Some(2) =>
            {
                Self::NotAsked
            }
            Some(_) => Self::None,
        }
    }
}

/// Adds a run to a ring buffer.
pub(crate) fn add(ring: &mut Vec<u8>, answer: ResponseTime) {
    let look = match answer {
        ResponseTime::After(millis) => millis,
        ResponseTime::None => SILENT,
        ResponseTime::NotAsked => return,
    };
    ring.extend(look.to_be_bytes());
    let most = 2 * HEALTH_LOOKS as usize;
    if ring.len() > most {
        ring.drain(..ring.len() - most);
    }
}

/// Computes the health from a ring buffer.
pub(crate) fn health(ring: &[u8], last_answer: Option<UnixTime>) -> Health {
    let looks: Vec<u16> = ring.chunks_exact(2).map(|look| u16::from_be_bytes([look[0], look[1]])).collect();
    let mut answers: Vec<u16> = looks.iter().copied().filter(|look| *look != SILENT).collect();
    answers.sort_unstable();
    Health {
        looks: u32::try_from(looks.len()).unwrap_or(HEALTH_LOOKS),
        answered: u32::try_from(answers.len()).unwrap_or(HEALTH_LOOKS),
        latency_ms: answers.get(answers.len() / 2).map(|millis| u32::from(*millis)),
        last_answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_looks_count() {
        let mut ring = Vec::new();
        assert_eq!(health(&ring, None).status(), "unknown");
        for _ in 0..HEALTH_LOOKS {
            add(&mut ring, ResponseTime::None);
        }
        assert_eq!((health(&ring, None).status(), health(&ring, None).latency_ms), ("down", None));
        for millis in 1..=HEALTH_LOOKS {
            add(&mut ring, ResponseTime::After(u16::try_from(millis).expect("small")));
            add(&mut ring, ResponseTime::NotAsked);
        }
        let now = health(&ring, Some(UnixTime::from_seconds(7)));
        assert_eq!((now.looks, now.answered, now.status()), (HEALTH_LOOKS, HEALTH_LOOKS, "healthy"));
        assert_eq!(now.latency_ms, Some(HEALTH_LOOKS / 2 + 1));
        for _ in 0..HEALTH_LOOKS / 2 {
            add(&mut ring, ResponseTime::None);
        }
        assert_eq!(health(&ring, None).status(), "degraded");
    }
}
