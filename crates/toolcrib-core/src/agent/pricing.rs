//! `pricing`: how an agent charges.

use super::vocabulary::UNITS;
use super::{check_unknown, display_text, optional_text, report_near_miss};
use crate::checked::Context;
use crate::codes;
use crate::finding::Finding;
use crate::json::{Object, Value};

/// The pricing model of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PricingModel {
    /// The agent is free.
    Free,
    /// Free up to a limit, then paid.
    Freemium,
    /// Every use is paid.
    Paid,
    /// Prices by agreement.
    Contact,
}

impl PricingModel {
    /// The models, in the order of the specification.
    pub const ALL: [Self; 4] = [Self::Free, Self::Freemium, Self::Paid, Self::Contact];

    /// The value in manifests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Freemium => "freemium",
            Self::Paid => "paid",
            Self::Contact => "contact",
        }
    }

    /// The model with this value.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|model| model.as_str() == word)
    }

    /// Whether the manifest must state a price.
    pub const fn charges(self) -> bool {
        matches!(self, Self::Freemium | Self::Paid)
    }
}

/// The `pricing` of a manifest.
#[derive(Clone, Copy, Debug)]
pub struct Pricing<'d>(Object<'d>);

impl<'d> Pricing<'d> {
    pub(super) const fn new(object: Object<'d>) -> Self {
        Self(object)
    }

    /// The pricing model.
    pub fn model(self) -> PricingModel {
        // A checked manifest always has one of the four values; `contact` is the fallback because it promises nothing.
        self.0.get("model").and_then(Value::as_str).and_then(PricingModel::parse).unwrap_or(PricingModel::Contact)
    }

    /// The free part, for `freemium`.
    pub fn free_tier(self) -> Option<&'d str> {
        self.0.get("free_tier")?.as_str()
    }

    /// The price.
    pub fn paid(self) -> Option<Paid<'d>> {
        self.0.get("paid")?.as_object().map(Paid)
    }
}

/// A price.
#[derive(Clone, Copy, Debug)]
pub struct Paid<'d>(Object<'d>);

impl<'d> Paid<'d> {
    fn text(self, key: &str) -> &'d str {
        self.0.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// An ISO 4217 code or a token symbol.
    pub fn currency(self) -> &'d str {
        self.text("currency")
    }

    /// A plain decimal number.
    pub fn amount(self) -> &'d str {
        self.text("amount")
    }

    /// What one amount pays for.
    pub fn unit(self) -> &'d str {
        self.text("unit")
    }

    /// The chain of a token: a name, a number or a CAIP-2 identifier.
    pub fn chain(self) -> Option<&'d str> {
        self.0.get("chain")?.as_str()
    }
}

/// Longest amount. 2^256 has 78 digits, and no token has more decimal places than that.
pub(crate) const MAX_AMOUNT_BYTES: usize = 160;

/// Longest currency, unit or chain: a word, not a sentence. Token symbols on chain rarely exceed eleven characters.
pub const MAX_WORD_CHARS: usize = 64;

const FIELDS: &[&str] = &["model", "free_tier", "paid"];
const PAID_FIELDS: &[&str] = &["currency", "amount", "unit", "chain"];

/// Checks the `pricing` field.
pub(super) fn check(value: Value<'_>, context: &mut Context) {
    let Some(object) = context.object(value) else { return };
    check_unknown(object, FIELDS, context);
    let model = context.required(object, "model", object.get("model")).and_then(|value| {
        let word = context.string(value)?;
        let model = PricingModel::parse(word);
        if model.is_none() {
            let known = PricingModel::ALL.map(PricingModel::as_str).join(", ");
            context.report(Finding::new(codes::agent::PRICING_MODEL).at(value).expected(known).got(word));
        }
        model
    });
    if let Some((free_tier, text)) = optional_text(object, "free_tier", context) {
        display_text(free_tier, text, context);
        if let Some(model) = model.filter(|&model| model != PricingModel::Freemium) {
            context.report(Finding::new(codes::agent::FREE_TIER_UNUSED).at(free_tier).got(model.as_str()));
        }
    }
    match object.get("paid") {
        Some(paid) => {
            if let Some(paid) = context.object(paid) {
                check_paid(paid, context);
            }
            if let Some(model) = model.filter(|model| !model.charges()) {
                context.report(Finding::new(codes::agent::PAID_UNUSED).at(paid).got(model.as_str()));
            }
        }
        None => {
            if let Some(model) = model.filter(|model| model.charges()) {
                let message = format!("the model is {}, but the prices are missing", model.as_str());
                context.report(Finding::new(codes::agent::PAID_MISSING).at_missing(value, "paid").message(message));
            }
        }
    }
}

fn check_paid(paid: Object<'_>, context: &mut Context) {
    check_unknown(paid, PAID_FIELDS, context);
    let mut word = |key: &str, check: fn(Value<'_>, &str, &mut Context)| {
        if let Some(value) = context.required(paid, key, paid.get(key))
            && let Some(text) = context.string(value)
        {
            check(value, text, context);
        }
    };
    word("currency", check_currency);
    word("amount", check_amount);
    word("unit", check_unit);
    if let Some(value) = paid.get("chain")
        && let Some(text) = context.string(value)
        && !is_chain(text)
    {
        context.report(
            Finding::new(codes::agent::CHAIN_MALFORMED).at(value).expected("such as polygon, 137 or eip155:137").got(text),
        );
    }
}

fn check_currency(value: Value<'_>, text: &str, context: &mut Context) {
    if !is_word(text) {
        context
            .report(Finding::new(codes::agent::CURRENCY_MALFORMED).at(value).expected("one word such as USD or USDC").got(text));
    } else if text.len() == 3
        && text.bytes().all(|byte| byte.is_ascii_alphabetic())
        && text.bytes().any(|b| b.is_ascii_lowercase())
    {
        context.report(Finding::new(codes::agent::CURRENCY_CASE).at(value).expected(text.to_ascii_uppercase()).got(text));
    }
}

fn check_amount(value: Value<'_>, text: &str, context: &mut Context) {
    if !is_amount(text) {
        context.report(
            Finding::new(codes::agent::AMOUNT_MALFORMED)
                .at(value)
                .expected("digits with at most one point, such as 0.01")
                .got(text),
        );
    }
}

fn check_unit(value: Value<'_>, text: &str, context: &mut Context) {
    if is_word(text) {
        report_near_miss(value, text, UNITS.into_iter(), context);
    } else {
        context.report(Finding::new(codes::agent::UNIT_MALFORMED).at(value).expected(UNITS.join(", ")).got(text));
    }
}

/// `^(0|[1-9][0-9]*)(\.[0-9]+)?$`, of bounded length.
pub fn is_amount(text: &str) -> bool {
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (text, None),
    };
    text.len() <= MAX_AMOUNT_BYTES
        && is_digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(is_digits)
}

/// A name such as `polygon`, a chain number such as `137`, or a CAIP-2 identifier such as `eip155:137`.
pub fn is_chain(text: &str) -> bool {
    match text.split_once(':') {
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => is_chain_number(text),
        None => text.len() <= MAX_WORD_CHARS && super::vocabulary::is_id(text),
        Some(("eip155", number)) => is_chain_number(number),
        // CAIP-2: namespace of 3 to 8 characters, reference of 1 to 32.
        Some((namespace, reference)) => {
            (3..=8).contains(&namespace.len())
                && namespace.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
                && (1..=32).contains(&reference.len())
                && reference.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        }
    }
}

/// A chain number of EIP-155: positive, without leading zeros, within 32 characters as CAIP-2 asks.
fn is_chain_number(text: &str) -> bool {
    (1..=32).contains(&text.len()) && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A single visible word of bounded length.
fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text.chars().count() <= MAX_WORD_CHARS
        && !text.chars().any(|c| c.is_whitespace() || c.is_control() || crate::text::is_invisible(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: AGT-014
    #[test]
    fn amounts() {
        for text in ["0", "1", "10", "0.01", "0.0", "123456789012345678901234567890.5", &"9".repeat(MAX_AMOUNT_BYTES)] {
            assert!(is_amount(text), "{text}");
        }
        for text in [
            "",
            ".",
            "1.",
            ".5",
            "-1",
            "+1",
            "01",
            "00",
            "1e3",
            "1,5",
            "1 ",
            " 1",
            "1.2.3",
            "0x1",
            "$1",
            "1_000",
            "１",
            "NaN",
            &"9".repeat(MAX_AMOUNT_BYTES + 1),
        ] {
            assert!(!is_amount(text), "{text:?}");
        }
    }

    // req: AGT-014
    #[test]
    fn chains() {
        for text in
            ["polygon", "ethereum", "base", "arbitrum-one", "137", "1", "eip155:137", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"]
        {
            assert!(is_chain(text), "{text}");
        }
        for text in [
            "",
            "0",
            "0137",
            "Polygon",
            "eip155:",
            "eip155:x",
            "eip155:0",
            "EIP155:1",
            "eip155:1:2",
            "-1",
            "1.0",
            "a b",
            "é:1",
            ":1",
        ] {
            assert!(!is_chain(text), "{text:?}");
        }
    }
}
