//! Amounts of an asset, in its smallest unit.
//!
//! Each amount has exactly one spelling, and there is no floating point. The number of decimals of an asset is not known here; code that
//! displays an amount passes it in.

use std::fmt;

use alloy_primitives::U256;

use crate::checked::Context;
use crate::codes::{self, Code};
use crate::finding::Finding;
use crate::json::Value;

/// Most digits of an amount: those of 2^256 - 1 (ERC-8257 §3).
pub const MAX_DIGITS: usize = 78;

/// Digits that always fit in 64 bits.
const MAX_WORD_DIGITS: usize = 19;

/// Longest text that [`Amount::parse_units`] accepts: all digits, a point, and as many decimals as a token can have.
pub(crate) const MAX_UNITS_CHARS: usize = MAX_DIGITS + 1 + u8::MAX as usize;

/// An amount in the smallest unit of some asset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(U256);

/// Why a text is not an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AmountError {
    /// The text is empty.
    Empty,
    /// A decimal point or a currency sign, as in dollars.
    DecimalPoint,
    /// A plus or minus sign.
    Sign,
    /// A zero before other digits.
    LeadingZero,
    /// Any other character that is not a digit.
    Character,
    /// More than [`MAX_DIGITS`] digits.
    TooLong,
    /// Above 2^256 - 1.
    TooLarge,
    /// More decimals than the asset has ([`Amount::parse_units`] only).
    TooPrecise,
}

impl Amount {
    /// Zero.
    pub const ZERO: Self = Self(U256::ZERO);

    /// An amount from a number.
    pub const fn new(value: U256) -> Self {
        Self(value)
    }

    /// The number.
    pub const fn get(self) -> U256 {
        self.0
    }

    /// Whether the amount is zero.
    pub fn is_zero(self) -> bool {
        self.0.is_zero()
    }

    /// Parses an amount: `0`, or digits without a leading zero, up to 2^256 - 1.
    pub fn parse(text: &str) -> Result<Self, AmountError> {
        match text.as_bytes() {
            [] => return Err(AmountError::Empty),
            _ if !text.bytes().all(|b| b.is_ascii_digit()) => return Err(misread(text)),
            _ if text.len() > MAX_DIGITS => return Err(AmountError::TooLong),
            [b'0', _, ..] => return Err(AmountError::LeadingZero),
            _ => {}
        }
        // Most amounts fit in 64 bits, and wider arithmetic costs many times as much.
        if text.len() <= MAX_WORD_DIGITS {
            let digits = text.bytes().fold(0_u64, |number, digit| number * 10 + u64::from(digit - b'0'));
            return Ok(Self(U256::from(digits)));
        }
        U256::from_str_radix(text, 10).map(Self).map_err(|_| AmountError::TooLarge)
    }

    /// Returns the amount in whole units of an asset with `decimals` decimals.
    ///
    /// ```
    /// use toolcrib_core::money::Amount;
    ///
    /// let price = Amount::parse("20000").unwrap();
    /// assert_eq!(price.format_units(6), "0.02");
    /// assert_eq!(Amount::parse_units("0.02", 6), Ok(price));
    /// ```
    pub fn format_units(self, decimals: u8) -> String {
        let decimals = usize::from(decimals);
        let digits = self.0.to_string();
        // At least one digit before the point.
        let padded = format!("{digits:0>width$}", width = decimals + 1);
        let (whole, fraction) = padded.split_at(padded.len() - decimals);
        match fraction.trim_end_matches('0') {
            "" => whole.to_owned(),
            fraction => format!("{whole}.{fraction}"),
        }
    }

    /// The inverse of [`Self::format_units`]: exact, so digits beyond the decimals of the asset are rejected unless they are zeros.
    pub fn parse_units(text: &str, decimals: u8) -> Result<Self, AmountError> {
        if text.is_empty() {
            return Err(AmountError::Empty);
        }
        if text.len() > MAX_UNITS_CHARS {
            return Err(AmountError::TooLong);
        }
        let (whole, fraction) = match text.split_once('.') {
            Some((whole, fraction)) if !whole.is_empty() && !fraction.is_empty() => (whole, fraction),
            Some(_) => return Err(AmountError::Character),
            None => (text, ""),
        };
        if !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
            return Err(if text.starts_with(['+', '-']) { AmountError::Sign } else { AmountError::Character });
        }
        if whole.len() > 1 && whole.starts_with('0') {
            return Err(AmountError::LeadingZero);
        }
        let fraction = fraction.trim_end_matches('0');
        if fraction.len() > usize::from(decimals) {
            return Err(AmountError::TooPrecise);
        }
        let digits = format!("{whole}{fraction:0<width$}", width = usize::from(decimals));
        match digits.trim_start_matches('0') {
            "" => Ok(Self::ZERO),
            digits if digits.len() > MAX_DIGITS => Err(AmountError::TooLarge),
            digits => U256::from_str_radix(digits, 10).map(Self).map_err(|_| AmountError::TooLarge),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match u64::try_from(self.0) {
            Ok(small) => fmt::Display::fmt(&small, f),
            Err(_) => fmt::Display::fmt(&self.0, f),
        }
    }
}

impl AmountError {
    /// The code of this error.
    pub const fn code(self) -> Code {
        match self {
            Self::Empty => codes::amount::EMPTY,
            Self::DecimalPoint | Self::TooPrecise => codes::amount::DECIMAL_POINT,
            Self::Sign => codes::amount::SIGN,
            Self::LeadingZero => codes::amount::LEADING_ZERO,
            Self::Character => codes::amount::CHARACTER,
            Self::TooLong => codes::amount::TOO_LONG,
            Self::TooLarge => codes::amount::TOO_LARGE,
        }
    }
}

impl fmt::Display for AmountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooPrecise => "the amount has more decimals than the asset",
            _ => self.code().title(),
        })
    }
}

impl std::error::Error for AmountError {}

/// Checks an amount in a manifest.
pub fn check(value: Value<'_>, text: &str, context: &mut Context) -> Option<Amount> {
    let fault = match Amount::parse(text) {
        Ok(amount) => return Some(amount),
        Err(fault) => fault,
    };
    let mut finding = Finding::new(fault.code()).at(value).got(text);
    finding = match whole_units(text).map(|units| (units, Amount::parse_units(units, 6))) {
        Some((units, Ok(amount))) => finding
            .message(format!("the amount is in whole units; {units} of an asset with 6 decimals, such as USDC, is \"{amount}\"")),
        _ => finding.expected("decimal digits without a leading zero"),
    };
    context.report(finding);
    None
}

/// Returns the number in a text with whole units as people write them: `2.00`, `$0.10`, `0.1 USDC`. `None` for anything else.
pub(crate) fn whole_units(text: &str) -> Option<&str> {
    let text = text.trim();
    let marked = text.starts_with('$');
    let text = text.strip_prefix('$').unwrap_or(text).trim_start();
    let named = ["USDC", "USD", "ETH", "usdc", "usd", "eth"].iter().find_map(|unit| text.strip_suffix(unit));
    let number = named.unwrap_or(text).trim_end();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| !part.is_empty() && part.len() <= MAX_DIGITS && part.bytes().all(|b| b.is_ascii_digit());
    let is_number = digits(whole) && digits(fraction);
    (is_number && (marked || named.is_some() || number.contains('.'))).then_some(number)
}

/// Returns why a text that is not all digits is invalid.
fn misread(text: &str) -> AmountError {
    if whole_units(text).is_some() {
        AmountError::DecimalPoint
    } else if text.starts_with(['+', '-', '\u{2212}']) {
        AmountError::Sign
    } else {
        AmountError::Character
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAX: &str = "115792089237316195423570985008687907853269984665640564039457584007913129639935";

    // req: PRICE-002
    #[test]
    fn grammar() {
        for good in ["0", "1", "20000", "9999999999999999999", "18446744073709551615", "18446744073709551616", MAX] {
            assert_eq!(Amount::parse(good).map(|amount| amount.to_string()), Ok(good.to_owned()));
        }
        assert_eq!(MAX.len(), MAX_DIGITS);
        let above = format!("{}6", &MAX[..77]);
        let nines = "9".repeat(78);
        let longer = "1".repeat(79);
        let zeros = "0".repeat(79);
        for (bad, fault) in [
            ("", AmountError::Empty),
            ("01", AmountError::LeadingZero),
            ("00", AmountError::LeadingZero),
            ("-1", AmountError::Sign),
            ("+1", AmountError::Sign),
            ("1.0", AmountError::DecimalPoint),
            ("2.00", AmountError::DecimalPoint),
            ("$0.10", AmountError::DecimalPoint),
            ("$1", AmountError::DecimalPoint),
            ("0.1 USDC", AmountError::DecimalPoint),
            ("1e3", AmountError::Character),
            ("1.", AmountError::Character),
            (".5", AmountError::Character),
            ("0x10", AmountError::Character),
            ("1_000", AmountError::Character),
            (" 1", AmountError::Character),
            ("1\n", AmountError::Character),
            ("١", AmountError::Character),
            (&above, AmountError::TooLarge),
            (&nines, AmountError::TooLarge),
            (&longer, AmountError::TooLong),
            (&zeros, AmountError::TooLong),
        ] {
            assert_eq!(Amount::parse(bad), Err(fault), "{bad:?}");
        }
    }

    // req: PRICE-015
    #[test]
    fn units() {
        let amount = |text: &str| Amount::parse(text).expect("well-formed");
        for (base, decimals, units) in [
            ("20000", 6, "0.02"),
            ("0", 6, "0"),
            ("0", 0, "0"),
            ("1000000", 6, "1"),
            ("1", 18, "0.000000000000000001"),
            ("1500000000000000000", 18, "1.5"),
            ("7", 0, "7"),
        ] {
            assert_eq!(amount(base).format_units(decimals), units);
            assert_eq!(Amount::parse_units(units, decimals), Ok(amount(base)));
        }
        assert_eq!(Amount::parse_units("2.00", 6), Ok(amount("2000000")));
        assert_eq!(Amount::parse_units("0.100", 1), Ok(amount("1")));
        for (bad, fault) in [
            ("0.0000001", AmountError::TooPrecise),
            ("", AmountError::Empty),
            (".5", AmountError::Character),
            ("5.", AmountError::Character),
            ("1.2.3", AmountError::Character),
            ("-1", AmountError::Sign),
            ("01", AmountError::LeadingZero),
            (MAX, AmountError::TooLarge),
        ] {
            assert_eq!(Amount::parse_units(bad, 6), Err(fault), "{bad}");
        }
        assert_eq!(Amount::parse_units(MAX, 0), Ok(Amount::new(U256::MAX)));
        assert_eq!(Amount::parse_units("0.5", 255), Err(AmountError::TooLarge));
        assert_eq!(Amount::parse_units(&"1".repeat(MAX_UNITS_CHARS + 1), 0), Err(AmountError::TooLong));
    }

    #[test]
    fn dollars_are_explained() {
        let document = crate::json::read(b"\"$0.10\"", crate::json::Limits::default()).document.expect("well-formed");
        let mut context = Context::new(crate::finding::Mode::Consumer);
        assert_eq!(check(document.root(), "$0.10", &mut context), None);
        let finding = &context.findings.as_slice()[0];
        assert_eq!(finding.code, codes::amount::DECIMAL_POINT);
        assert!(finding.message.ends_with("is \"100000\""), "{}", finding.message);
    }

    proptest! {
        #[test]
        fn parse_and_print_are_inverse(limbs: [u64; 4], decimals: u8) {
            let amount = Amount::new(U256::from_limbs(limbs));
            prop_assert_eq!(Amount::parse(&amount.to_string()), Ok(amount));
            prop_assert_eq!(Amount::parse_units(&amount.format_units(decimals), decimals), Ok(amount));
        }

        #[test]
        fn nothing_else_is_an_amount(text in "[0-9.$+ -]{0,6}|\\PC{0,8}") {
            let expected = text == "0" || (!text.is_empty() && !text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit()));
            prop_assert_eq!(Amount::parse(&text).is_ok(), expected);
        }
    }
}
