//! How many blocks the next question is about.

/// Events that a page should have: enough for a transaction to cost little, few enough for several pages to fit in memory.
const WANTED_EVENTS: u64 = 4_000;

/// Pages that must succeed before a size that a node once refused is tried again.
const PATIENCE: u32 = 16;

/// Grows while pages are small and succeed, and shrinks with refusals.
#[derive(Debug)]
pub(super) struct Pace {
    span: u64,
    /// What a node refused is not asked for again at once.
    ceiling: u64,
    largest: u64,
    succeeded: u32,
}

impl Pace {
    pub(super) fn new(first: u64, largest: u64) -> Self {
        let largest = largest.max(1);
        Self { span: first.clamp(1, largest), ceiling: largest, largest, succeeded: 0 }
    }

    pub(super) const fn span(&self) -> u64 {
        self.span
    }

    /// A page of `blocks` blocks came back with `events` events. `refused` says that it was asked for as part of something larger.
    pub(super) fn learn(&mut self, blocks: u64, events: u64, refused: bool) {
        if refused {
            self.ceiling = blocks.max(1);
            self.succeeded = 0;
        } else {
            self.succeeded += 1;
            if self.succeeded >= PATIENCE {
                self.succeeded = 0;
                self.ceiling = self.ceiling.saturating_mul(2).min(self.largest);
            }
        }
        // Not by more than twice at a time: the next blocks need not be like these.
        let fitting = (blocks.saturating_mul(WANTED_EVENTS) / events.max(1)).max(1);
        self.span = fitting.clamp((self.span / 2).max(1), self.span.saturating_mul(2)).min(self.ceiling);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_shrinks_and_forgets() {
        let mut pace = Pace::new(1_000, 10_000);
        for _ in 0..5 {
            pace.learn(pace.span(), 0, false);
        }
        assert_eq!(pace.span(), 10_000);
        pace.learn(2_500, 3, true);
        assert_eq!(pace.span(), 2_500);
        for _ in 0..15 {
            pace.learn(2_500, 3, false);
            assert_eq!(pace.span(), 2_500);
        }
        pace.learn(2_500, 3, false);
        assert_eq!(pace.span(), 5_000);
        // Ten events a block: four hundred blocks are a page.
        for _ in 0..8 {
            pace.learn(pace.span(), pace.span() * 10, false);
        }
        assert_eq!(pace.span(), 400);
        pace.learn(1, 1_000_000, false);
        assert!(pace.span() >= 1);
    }
}
