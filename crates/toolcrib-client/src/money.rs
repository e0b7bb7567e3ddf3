//! Amounts as the policy and the ledger count them: millionths of a dollar of USDC.
//!
//! Every built-in token is USDC with six decimals, so one unit is enough for all chains. Tokens that the user's settings add are counted in
//! the same way. A token with other decimals has no amount here, and is refused rather than converted.

use std::fmt;

use alloy_primitives::U256;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toolcrib_core::money::Amount;
use toolcrib_x402::asset::Token;

/// Decimals of USDC.
const DECIMALS: u8 = 6;

/// An amount of USDC in millionths, at most [`Usdc::MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Usdc(u64);

impl Usdc {
    /// No money.
    pub const ZERO: Self = Self(0);

    /// The largest amount: a thousand million dollars. Nine thousand of them still fit into a database's sum.
    pub const MAX: Self = Self(1_000_000_000_000_000);

    /// Returns an amount of millionths. Larger ones than [`Self::MAX`] become that, so it is for constants and limits.
    pub const fn micro(millionths: u64) -> Self {
        if millionths > Self::MAX.0 { Self::MAX } else { Self(millionths) }
    }

    /// Returns the amount of a token. `None` if it is too large, or the token has other decimals.
    pub fn of(amount: Amount, token: &Token) -> Option<Self> {
        if token.decimals != DECIMALS {
            return None;
        }
        u64::try_from(amount.get()).ok().map(Self).filter(|amount| *amount <= Self::MAX)
    }

    /// Parses whole units: `0.10`.
    pub fn parse(text: &str) -> Option<Self> {
        let amount = Amount::parse_units(text, DECIMALS).ok()?;
        u64::try_from(amount.get()).ok().map(Self).filter(|amount| *amount <= Self::MAX)
    }

    /// Returns the millionths.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the amount in the token's smallest unit.
    pub fn amount(self) -> Amount {
        Amount::new(U256::from(self.0))
    }

    pub(crate) const fn column(self) -> i64 {
        // At most `MAX`, so it fits.
        self.0.cast_signed()
    }

    pub(crate) fn from_column(value: i64) -> Option<Self> {
        u64::try_from(value).ok().map(Self)
    }
}

/// Writes whole units: `0.1`.
impl fmt::Display for Usdc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.amount().format_units(DECIMALS))
    }
}

impl Serialize for Usdc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Usdc {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A string, since a TOML or JSON number would be a float.
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("expected dollars as text with at most six decimals, such as \"0.10\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_units_there_and_back() {
        for (text, millionths) in [("0", 0), ("0.1", 100_000), ("1", 1_000_000), ("0.000001", 1), ("1000000000", Usdc::MAX.0)] {
            assert_eq!(Usdc::parse(text).map(Usdc::get), Some(millionths));
            assert_eq!(Usdc::micro(millionths).to_string(), text);
        }
        for text in ["", "0.0000001", "-1", "1e3", "0x1", "1000000000.000001", "01", ".5", "99999999999999999999999999"] {
            assert_eq!(Usdc::parse(text), None, "{text}");
        }
        assert_eq!(Usdc::micro(u64::MAX), Usdc::MAX);
    }
}
