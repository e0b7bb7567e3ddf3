//! As many made-up tools as one likes. Words are drawn as in real text: a few are everywhere, most are rare.

use std::fmt::Write as _;

use alloy_primitives::{Address, keccak256};
use toolcrib_index::listing::AccessKind;

use super::{NOW, Sample};

/// Different words. Descriptions of real tools have about as many.
const WORDS: u64 = 60_000;

/// Words that are in nearly every request and description.
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

/// Numbers that look random and are the same each time.
#[derive(Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// A number below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    /// A rank by Zipf: about as often as one over its rank.
    pub fn rank(&mut self, most: u64) -> u64 {
        let share = self.roll(1 << 24) as f64 / f64::from(1 << 24);
        ((most as f64).powf(share) as u64).saturating_sub(1)
    }

    /// A word, as often as words are.
    pub fn word(&mut self) -> String {
        word(self.rank(WORDS))
    }
}

/// The word of a rank.
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

/// A text of so many words, of which two in five are everywhere.
pub fn sentence(dice: &mut Dice, words: u64) -> String {
    let mut text = String::new();
    for _ in 0..words {
        let frequent = dice.roll(5) < 2;
        let word = if frequent { FREQUENT[dice.rank(24) as usize].to_owned() } else { dice.word() };
        let _ = write!(text, "{word} ");
    }
    text
}

/// A made-up tool. The same number is the same tool.
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
