//! Ranking after the words: trust, proven use, health, age.
//!
//! Every signal is a number between 0 and 1 that rises with what is good, and the score rises with every signal. What is not known has a
//! value too, so that a score is always defined. Unverified tools are not ranked down here: they are kept apart and come after all others,
//! whatever their signals are.

use toolcrib_core::tool::Tier;

use crate::listing::{Life, Listing};
use crate::model::ToolView;

/// How much each signal can add to a score, as a part of what the words are worth.
///
/// For a well-written request the right tool is worth about twice as much as the next that is about something else. All signals together
/// stay below that: they decide between tools that fit about equally well, and never lift one that does not fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weights {
    /// Attested hardware or a reproducible build is rare and cannot be faked.
    trust: f32,
    /// Accounts that paid are the strongest sign that a tool does what it says, and cost money to fake.
    usage: f32,
    /// A tool that does not answer is of no use, but it may answer tomorrow.
    health: f32,
    /// Age is cheap to have: it decides between equals.
    standing: f32,
}

pub(super) const WEIGHTS: Weights = Weights { trust: 0.15, usage: 0.35, health: 0.15, standing: 0.10 };

/// Payers with which use counts in full. Beyond it more payers say nothing more about quality.
const MANY_PAYERS: f32 = 10_000.0;

/// Before this there was no registry: 2025-01-01.
const FIRST_DAY: i64 = 1_735_689_600;

/// Seconds in which what age is worth falls to a third: three years. A scale without today in it, so that scores do not change with the clock.
const AGE_SCALE: f32 = 94_608_000.0;

/// The trust tiers, the weakest first.
pub(super) const TIERS: [&str; 3] = [Tier::SelfAttested.as_str(), Tier::HardwareAttested.as_str(), Tier::Verifiable.as_str()];

/// What is known about a tool besides its words, each between 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Signals {
    pub(super) trust: f32,
    pub(super) usage: f32,
    pub(super) health: f32,
    pub(super) standing: f32,
}

impl Signals {
    /// The signals of a tool. `reputation` comes from outside and is in the middle when nobody gives one.
    pub(super) fn of(view: &ToolView, reputation: Option<f32>) -> Self {
        let listing = view.listing.as_ref();
        Self {
            trust: listing.map_or(0.0, trust),
            usage: usage(view.usage.ranking_payers),
            health: listing.map_or(0.5, |listing| health(listing.health.looks, listing.health.answered)),
            standing: standing(
                view.row.registered.time.seconds(),
                view.row.updated.time.seconds(),
                reputation,
                listing.is_some_and(|listing| matches!(listing.life, Life::Retired(_))),
            ),
        }
    }

    /// Four numbers of sixteen bits in one.
    pub(super) fn pack(self) -> u64 {
        let parts = [self.trust, self.usage, self.health, self.standing];
        parts.into_iter().fold(0, |packed, part| packed << 16 | steps(part))
    }

    /// The other way.
    pub(super) fn unpack(packed: u64) -> Self {
        let part = |shift: u32| ((packed >> shift) & 0xffff) as f32 / 65_535.0;
        Self { trust: part(48), usage: part(32), health: part(16), standing: part(0) }
    }

    /// What they add to a score that the words make `base`.
    pub(super) fn added_to(self, base: f32) -> Added {
        Added {
            trust: base * WEIGHTS.trust * self.trust,
            usage: base * WEIGHTS.usage * self.usage,
            health: base * WEIGHTS.health * self.health,
            standing: base * WEIGHTS.standing * self.standing,
        }
    }

    /// The order of tools when nothing is searched for.
    pub(super) fn merit(self) -> u64 {
        let Added { trust, usage, health, standing } = self.added_to(1.0);
        // The sum is below one.
        ((trust + usage + health + standing) * 1_000_000.0) as u64
    }
}

/// What signals add to a score.
#[derive(Clone, Copy, Debug)]
pub(super) struct Added {
    pub(super) trust: f32,
    pub(super) usage: f32,
    pub(super) health: f32,
    pub(super) standing: f32,
}

impl Added {
    pub(super) fn sum(self) -> f32 {
        self.trust + self.usage + self.health + self.standing
    }
}

fn steps(part: f32) -> u64 {
    (part.clamp(0.0, 1.0) * 65_535.0).round() as u64
}

fn trust(listing: &Listing) -> f32 {
    match TIERS.iter().position(|tier| *tier == listing.tier) {
        Some(2) => 1.0,
        Some(1) => 0.6,
        _ => 0.0,
    }
}

/// By orders of magnitude: from 1 to 10 payers is as much as from 100 to 1,000.
fn usage(payers: u64) -> f32 {
    ((payers as f32).ln_1p() / MANY_PAYERS.ln_1p()).min(1.0)
}

/// The share of answers, with one good and one bad look that never happened: few looks say little.
fn health(looks: u32, answered: u32) -> f32 {
    let (looks, answered) = (looks as f32, answered.min(looks) as f32);
    (answered + 1.0) / (looks + 2.0)
}

/// Half is age, a quarter that somebody still cares, a quarter reputation. Nothing for what is retired.
fn standing(registered: i64, updated: i64, reputation: Option<f32>, is_retired: bool) -> f32 {
    if is_retired {
        return 0.0;
    }
    let since = |time: i64| (time.saturating_sub(FIRST_DAY).max(0) as f32 / AGE_SCALE).min(20.0);
    let age = (-since(registered)).exp();
    let care = 1.0 - (-since(updated)).exp();
    let reputation = reputation.filter(|value| value.is_finite()).unwrap_or(0.5).clamp(0.0, 1.0);
    0.5 * age + 0.25 * care + 0.25 * reputation
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // req: IDX-009
    // req: IDX-011
    proptest! {
        #[test]
        fn the_score_rises_with_every_signal(
            base in 0.01_f32..100.0, trust in 0.0_f32..1.0, payers in 0_u64..1_000_000, looks in 0_u32..336, answered in 0_u32..336,
            registered in 0_i64..4_000_000_000, updated in 0_i64..4_000_000_000, reputation in prop::option::of(0.0_f32..1.0),
            more in 1_u64..1_000,
        ) {
            let score = |trust: f32, payers: u64, answered: u32, registered: i64, updated: i64, reputation: Option<f32>| {
                let signals = Signals {
                    trust,
                    usage: usage(payers),
                    health: health(looks, answered),
                    standing: standing(registered, updated, reputation, false),
                };
                let kept = Signals::unpack(signals.pack());
                base + kept.added_to(base).sum()
            };
            let now = score(trust, payers, answered, registered, updated, reputation);
            prop_assert!(now.is_finite() && now >= base);
            prop_assert!(now <= base * 2.0, "signals never outweigh the words");
            prop_assert!(score(1.0, payers, answered, registered, updated, reputation) >= now);
            prop_assert!(score(trust, payers + more, answered, registered, updated, reputation) >= now);
            prop_assert!(score(trust, payers, answered + 1, registered, updated, reputation) >= now);
            prop_assert!(score(trust, payers, answered, registered - more as i64, updated, reputation) >= now);
            prop_assert!(score(trust, payers, answered, registered, updated + more as i64, reputation) >= now);
            prop_assert!(score(trust, payers, answered, registered, updated, Some(1.0)) >= now);
            prop_assert!(score(trust, payers, answered, registered, updated, Some(f32::NAN)).is_finite());
        }

        #[test]
        fn merit_is_in_the_order_of_signals(trust in 0.0_f32..1.0, usage in 0.0_f32..1.0, more in 0.0_f32..1.0) {
            let less = Signals { trust, usage, health: 0.5, standing: 0.5 };
            let better = Signals { usage: (usage + more).min(1.0), ..less };
            prop_assert!(better.merit() >= less.merit());
        }
    }

    // req: IDX-009
    #[test]
    fn every_signal_counts_in_searches_and_lists() {
        let none = Signals::default();
        for (name, only) in [
            ("trust", Signals { trust: 1.0, ..none }),
            ("usage", Signals { usage: 1.0, ..none }),
            ("health", Signals { health: 1.0, ..none }),
            ("standing", Signals { standing: 1.0, ..none }),
        ] {
            // A tenth of what the words are worth decides between tools that fit equally well.
            assert!(only.added_to(10.0).sum() >= none.added_to(10.0).sum() + 0.99, "{name}");
            assert!(only.merit() >= none.merit() + 99_000, "{name}: {} and {}", only.merit(), none.merit());
        }
        assert_eq!(none.merit(), 0);
        // Use that was paid for is worth more than any other signal.
        let used = Signals { usage: 1.0, ..none };
        for other in [Signals { trust: 1.0, ..none }, Signals { health: 1.0, ..none }, Signals { standing: 1.0, ..none }] {
            assert!(used.merit() > other.merit());
        }
    }

    // req: IDX-009
    #[test]
    fn age_recency_and_reputation_each_count() {
        let day = 86_400;
        let (old, young) = (FIRST_DAY + day, FIRST_DAY + 600 * day);
        let base = standing(young, young, Some(0.5), false);
        assert!(standing(old, young, Some(0.5), false) > base + 0.1, "age");
        assert!(standing(young, young + 300 * day, Some(0.5), false) > base + 0.02, "a recent update");
        assert!(standing(young, young, Some(1.0), false) > base + 0.1, "reputation");
        assert!(standing(young, young, Some(0.0), false) < base - 0.1, "a bad reputation");
        assert_eq!(standing(young, young, None, false), base, "an unknown reputation is in the middle");
    }

    #[test]
    fn extremes_are_defined() {
        assert_eq!(usage(0), 0.0);
        assert_eq!(usage(u64::MAX), 1.0);
        assert_eq!(health(0, 0), 0.5);
        assert!(standing(i64::MIN, i64::MAX, None, false).is_finite());
        assert_eq!(standing(0, 0, Some(1.0), true), 0.0);
    }
}
