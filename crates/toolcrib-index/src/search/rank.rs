//! Ranking signals besides words: trust, proven usage of the tool and of its creator's other tools, health, age, updates, reputation.
//!
//! Every signal is a number between 0 and 1, higher is better, and the score rises with every signal. Unknown values have a default, so
//! that a score is always defined. Unverified tools are not ranked down here: they are separate and come after all others, whatever their
//! signals are.

use toolcrib_core::tool::Tier;

use crate::listing::{Life, Listing};
use crate::model::ToolView;
use crate::usage::doublings;

/// A number for each signal: its value for a tool, its weight, or its part of a score.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Signals {
    pub(super) trust: f32,
    pub(super) usage: f32,
    pub(super) creator: f32,
    pub(super) health: f32,
    pub(super) age: f32,
    pub(super) recency: f32,
    pub(super) reputation: f32,
}

/// The maximum that each signal adds to a score, as a fraction of the word score.
///
/// For a well-written request the right tool has about twice the word score of the next one that is about something else. All signals
/// together stay below that: they decide between tools that match about equally well, and never lift one that does not match.
pub(super) const WEIGHTS: Signals = Signals {
    // Attested hardware or a reproducible build is rare and cannot be faked.
    trust: 0.15,
    // Accounts that paid are the strongest sign that a tool does what it says, and are expensive to fake.
    usage: 0.35,
    // Accounts that paid any tool of its creator support a new tool, less than usage of the tool itself.
    creator: 0.05,
    // A tool that does not respond is useless now, but it may respond tomorrow.
    health: 0.15,
    // Age is cheap to get: it only breaks ties.
    age: 0.05,
    // An update costs a transaction, and need not be an improvement.
    recency: 0.025,
    // An external opinion, whose reasons are not known here.
    reputation: 0.025,
};

/// The number of payers at which usage has its maximum. More payers say nothing more about quality.
const MANY_PAYERS: f32 = 10_000.0;

/// The number of doublings of a creator's payers at which their signal has its maximum: 8,192 payers.
const MANY_DOUBLINGS: f32 = 14.0;

/// No registry existed before this day: 2025-01-01.
const FIRST_DAY: i64 = 1_735_689_600;

/// Seconds in which the age signal falls to a third: three years. The scale does not depend on the current time, so scores do not change
/// with the clock.
const AGE_SCALE: f32 = 94_608_000.0;

/// The default of an unknown reputation.
const UNKNOWN_REPUTATION: f32 = 0.5;

/// The trust tiers, weakest first.
pub(super) const TIERS: [&str; 3] = [Tier::SelfAttested.as_str(), Tier::HardwareAttested.as_str(), Tier::Verifiable.as_str()];

/// Signals in two columns: four 16-bit numbers in each.
pub(super) type Packed = [u64; 2];

impl Signals {
    /// Returns the signals of a tool, each between 0 and 1. `reputation` is external and has a middle value if there is none.
    ///
    /// A retired tool has zero for its age, its updates, its creator and its reputation.
    pub(super) fn of(view: &ToolView, reputation: Option<f32>) -> Self {
        let listing = view.listing.as_ref();
        let is_retired = listing.is_some_and(|listing| matches!(listing.life, Life::Retired(_)));
        let unless_retired = |signal: f32| if is_retired { 0.0 } else { signal };
        Self {
            trust: listing.map_or(0.0, trust),
            usage: usage(view.usage.ranking_payers),
            creator: unless_retired(creator(view.usage.creator_payers)),
            health: listing.map_or(0.5, |listing| health(listing.health.looks, listing.health.answered)),
            age: unless_retired(age(view.row.registered.time.seconds())),
            recency: unless_retired(recency(view.row.updated.time.seconds())),
            reputation: unless_retired(self::reputation(reputation)),
        }
    }

    /// Packs the signals for columns.
    pub(super) fn pack(self) -> Packed {
        let Self { trust, usage, creator, health, age, recency, reputation } = self;
        [[trust, usage, creator, health], [age, recency, reputation, 0.0]]
            .map(|parts| parts.into_iter().fold(0, |packed, part| packed << 16 | steps(part)))
    }

    /// Unpacks the signals from columns.
    pub(super) fn unpack([first, second]: Packed) -> Self {
        let part = |packed: u64, shift: u32| ((packed >> shift) & 0xffff) as f32 / 65_535.0;
        Self {
            trust: part(first, 48),
            usage: part(first, 32),
            creator: part(first, 16),
            health: part(first, 0),
            age: part(second, 48),
            recency: part(second, 32),
            reputation: part(second, 16),
        }
    }

    /// Returns what they add to a word score of `base`.
    pub(super) fn added_to(self, base: f32) -> Self {
        Self {
            trust: base * WEIGHTS.trust * self.trust,
            usage: base * WEIGHTS.usage * self.usage,
            creator: base * WEIGHTS.creator * self.creator,
            health: base * WEIGHTS.health * self.health,
            age: base * WEIGHTS.age * self.age,
            recency: base * WEIGHTS.recency * self.recency,
            reputation: base * WEIGHTS.reputation * self.reputation,
        }
    }

    /// Returns the sum of all signals.
    pub(super) fn sum(self) -> f32 {
        self.trust + self.usage + self.creator + self.health + self.age + self.recency + self.reputation
    }

    /// Returns the sort value of tools without a query.
    pub(super) fn merit(self) -> u64 {
        // The sum is below one.
        (self.added_to(1.0).sum() * 1_000_000.0) as u64
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

/// Logarithmic, base 10: from 1 to 10 payers counts as much as from 100 to 1,000.
fn usage(payers: u64) -> f32 {
    ((payers as f32).ln_1p() / MANY_PAYERS.ln_1p()).min(1.0)
}

/// Logarithmic, base 2: the other tools of a creator are indexed again when this changes, and not for each payer (`usage/creator.rs`).
fn creator(payers: u64) -> f32 {
    (doublings(payers) as f32 / MANY_DOUBLINGS).min(1.0)
}

/// The share of responses, with one imaginary success and one imaginary failure: a few runs say little.
fn health(looks: u32, answered: u32) -> f32 {
    let (looks, answered) = (looks as f32, answered.min(looks) as f32);
    (answered + 1.0) / (looks + 2.0)
}

/// Near one for the oldest registration, and near zero for one far in the future.
fn age(registered: i64) -> f32 {
    (-since_first_day(registered)).exp()
}

/// The opposite: recent updates count more.
fn recency(updated: i64) -> f32 {
    1.0 - (-since_first_day(updated)).exp()
}

fn since_first_day(time: i64) -> f32 {
    (time.saturating_sub(FIRST_DAY).max(0) as f32 / AGE_SCALE).min(20.0)
}

fn reputation(given: Option<f32>) -> f32 {
    given.filter(|value| value.is_finite()).unwrap_or(UNKNOWN_REPUTATION).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns every signal with its name.
    fn each(signals: Signals) -> [(&'static str, f32); 7] {
        let Signals { trust, usage, creator, health, age, recency, reputation } = signals;
        [
            ("trust", trust),
            ("usage", usage),
            ("creator", creator),
            ("health", health),
            ("age", age),
            ("recency", recency),
            ("reputation", reputation),
        ]
    }

    /// Returns one signal alone.
    fn only(name: &str) -> Signals {
        let full = |signal: &str| if signal == name { 1.0 } else { 0.0 };
        Signals {
            trust: full("trust"),
            usage: full("usage"),
            creator: full("creator"),
            health: full("health"),
            age: full("age"),
            recency: full("recency"),
            reputation: full("reputation"),
        }
    }

    // req: IDX-009
    // req: IDX-011
    proptest! {
        #[test]
        fn the_score_rises_with_every_signal(
            base in 0.01_f32..100.0, trust in 0.0_f32..1.0, payers in 0_u64..1_000_000, of_creator in 0_u64..1_000_000,
            looks in 0_u32..336, answered in 0_u32..336, registered in 0_i64..4_000_000_000, updated in 0_i64..4_000_000_000,
            given in prop::option::of(0.0_f32..1.0), more in 1_u64..1_000,
        ) {
            let now = Signals {
                trust,
                usage: usage(payers),
                creator: creator(of_creator),
                health: health(looks, answered),
                age: age(registered),
                recency: recency(updated),
                reputation: reputation(given),
            };
            let score = |signals: Signals| base + Signals::unpack(signals.pack()).added_to(base).sum();
            prop_assert!(score(now).is_finite() && score(now) >= base);
            prop_assert!(score(now) <= base * 2.0, "signals never outweigh the words");
            let better = [
                Signals { trust: 1.0, ..now },
                Signals { usage: usage(payers + more), ..now },
                Signals { creator: creator(of_creator + more), ..now },
                Signals { health: health(looks, answered + 1), ..now },
                Signals { age: age(registered - more as i64), ..now },
                Signals { recency: recency(updated + more as i64), ..now },
                Signals { reputation: 1.0, ..now },
            ];
            for better in better {
                prop_assert!(score(better) >= score(now), "{:?}", better);
                prop_assert!(better.merit() >= now.merit(), "{:?}", better);
            }
            let unreadable = Signals { reputation: reputation(Some(f32::NAN)), ..now };
            prop_assert!(score(unreadable).is_finite());
        }

        #[test]
        fn signals_survive_their_columns(values in prop::array::uniform7(0.0_f32..=1.0)) {
            let [trust, usage, creator, health, age, recency, reputation] = values;
            let signals = Signals { trust, usage, creator, health, age, recency, reputation };
            for ((name, before), (_, after)) in each(signals).into_iter().zip(each(Signals::unpack(signals.pack()))) {
                prop_assert!((before - after).abs() <= 1.0 / 65_535.0, "{} {} {}", name, before, after);
            }
        }
    }

    // req: IDX-009
    #[test]
    fn every_signal_counts_in_searches_and_lists() {
        let none = Signals::default();
        assert_eq!((none.merit(), none.added_to(10.0).sum()), (0, 0.0));
        for (name, weight) in each(WEIGHTS) {
            let added = only(name).added_to(10.0);
            assert!(weight > 0.02, "{name} is too little to decide between equals");
            for (other, share) in each(added) {
                let expected = if other == name { 10.0 * weight } else { 0.0 };
                assert!((share - expected).abs() < 1e-4, "{name} adds {share} as {other}");
            }
            assert!((added.sum() - 10.0 * weight).abs() < 1e-4, "{name}");
            assert!(only(name).merit() + 1 >= (weight * 1_000_000.0) as u64, "{name}");
        }
        assert!(WEIGHTS.sum() < 1.0, "signals never outweigh the words");
        for name in ["trust", "creator", "health", "age", "recency", "reputation"] {
            assert!(only("usage").merit() > only(name).merit(), "use that was paid for is worth more than {name}");
        }
    }

    #[test]
    fn extremes_are_defined() {
        assert_eq!((usage(0), usage(u64::MAX)), (0.0, 1.0));
        assert_eq!((creator(0), creator(8_191) < 1.0, creator(8_192), creator(u64::MAX)), (0.0, true, 1.0, 1.0));
        assert_eq!(health(0, 0), 0.5);
        assert_eq!((age(i64::MIN), recency(i64::MIN)), (1.0, 0.0));
        assert!(age(i64::MAX) >= 0.0 && recency(i64::MAX) <= 1.0);
        assert_eq!((reputation(None), reputation(Some(7.0)), reputation(Some(-1.0))), (0.5, 1.0, 0.0));
        assert_eq!(reputation(Some(f32::NAN)), 0.5, "what is no number is not known");
    }

    #[test]
    fn age_and_recency_tell_days_apart() {
        let day = 86_400;
        let young = FIRST_DAY + 600 * day;
        let tells = |better: Signals, worse: Signals| better.pack() > worse.pack() && better.merit() > worse.merit();
        let of = |registered, updated| Signals { age: age(registered), recency: recency(updated), ..Signals::default() };
        assert!(tells(of(young - day, young), of(young, young)), "a day older");
        assert!(tells(of(young, young + day), of(young, young)), "updated a day later");
    }
}
