//! Chooses the number of blocks of the next request.

/// The target number of events on a page: enough for a transaction to cost little, few enough for several pages to fit in memory.
const WANTED_EVENTS: u64 = 4_000;

/// The number of pages that must succeed before a size that a node once rejected is tried again.
const PATIENCE: u32 = 16;

/// The range size: grows while pages are small and succeed, and shrinks when a node rejects a range.
#[derive(Debug)]
pub(super) struct Pace {
    span: u64,
    /// A size that a node rejected; it is not requested again at once.
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

    /// Adapts to a page of `blocks` blocks with `events` events. `refused` means that it was requested as part of a larger range.
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
        // At most twice as many: the next blocks may differ from these.
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
        // Ten events per block: four hundred blocks make a page.
        for _ in 0..8 {
            pace.learn(pace.span(), pace.span() * 10, false);
        }
        assert_eq!(pace.span(), 400);
        pace.learn(1, 1_000_000, false);
        assert!(pace.span() >= 1);
    }
}
