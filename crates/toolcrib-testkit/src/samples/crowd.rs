//! Any number of generated tools. Words are drawn as in real text: a few are frequent, most are rare.

use std::fmt::Write as _;

use alloy_primitives::{Address, keccak256};
use toolcrib_index::listing::AccessKind;

use super::{NOW, Sample};

/// Number of different words: about as many as in descriptions of real tools.
const WORDS: u64 = 60_000;

/// Words that occur in nearly every request and description.
const FREQUENT: [&str; 24] = [
    "the",
    "a",
    "of",
    "for",
    "and",
    "to",
    "in",
    "with",
    "get",
    "data",
    "is",
    "me",
    "on",
    "from",
    "given",
    "returns",
    "find",
    "information",
    "by",
    "that",
    "my",
    "what",
    "please",
    "list",
];

/// A deterministic pseudo-random generator.
#[derive(Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// Returns a number below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    /// Returns a rank by Zipf's law: its probability is about one over the rank.
    pub fn rank(&mut self, most: u64) -> u64 {
        let share = self.roll(1 << 24) as f64 / f64::from(1 << 24);
        ((most as f64).powf(share) as u64).saturating_sub(1)
    }

    /// Returns a word, with its frequency in real text.
    pub fn word(&mut self) -> String {
        word(self.rank(WORDS))
    }
}

/// Returns the word of a rank.
pub fn word(rank: u64) -> String {
    const PARTS: [&str; 32] = [
        "ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "qui", "ro", "su", "ta", "ve", "wi", "xo", "yu",
        "za", "bre", "cli", "dro", "fla", "gri", "plo", "sta", "tru", "ven", "mar", "con",
    ];
    let mut number = rank.wrapping_mul(2_654_435_761) % (1 << 20);
    let mut word = String::new();
    for _ in 0..4 {
        word.push_str(PARTS[(number % 32) as usize]);
        number /= 32;
    }
    word
}

/// Returns a text of this number of words; two in five are frequent.
pub fn sentence(dice: &mut Dice, words: u64) -> String {
    let mut text = String::new();
    for _ in 0..words {
        let frequent = dice.roll(5) < 2;
        let word = if frequent { FREQUENT[dice.rank(24) as usize].to_owned() } else { dice.word() };
        let _ = write!(text, "{word} ");
    }
    text
}

/// Returns a generated tool, the same for the same ID.
pub fn tool(id: u64) -> Sample {
    let mut dice = Dice(id.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
    let name = format!("{} {}", dice.word(), dice.word());
    let words = 8 + dice.roll(18);
    let description = sentence(&mut dice, words);
    let creator = keccak256(dice.rank(50_000).to_be_bytes());
    let tags = (0..1 + dice.roll(4)).map(|_| format!("tag-{}", dice.rank(500))).collect();
    let fields = (0..2 + dice.roll(5)).map(|_| dice.word()).collect();
    Sample {
        tags,
        fields,
        creator: Address::from_slice(&creator[..20]),
        registered: NOW.seconds() - i64::try_from(dice.roll(60_000_000)).expect("small"),
        payers: dice.rank(5_000),
        is_verified: dice.roll(10) < 9,
        access: if dice.roll(5) == 0 { AccessKind::NftGated } else { AccessKind::Open },
        price: dice.roll(3) * 10_000,
        health: (100, 90 + u32::try_from(dice.roll(11)).expect("small")),
        ..Sample::new(id, &name, &description)
    }
}
