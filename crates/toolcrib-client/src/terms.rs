//! Payment terms: an exact value that consent is given to, and that a challenge must then equal.

use std::fmt;

use alloy_primitives::Address;
use serde::{Serialize, Serializer};
use toolcrib_core::money::Amount;
use toolcrib_core::tool::Price;
use toolcrib_x402::{Offer, asset};

/// Chain, token, amount and recipient. Two terms are equal only if all four are, so a server that changes its terms after consent asks for
/// terms without consent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// The EVM chain ID.
    pub chain: u64,
    /// The token.
    pub asset: Address,
    /// The amount in the token's smallest unit.
    pub amount: Amount,
    /// The recipient.
    pub pay_to: Address,
}

/// A text that is not valid terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected eip155:<chain>/erc20:<token>/<amount>/<recipient>")]
pub struct TermsFault;

impl Terms {
    /// Returns the terms of an offer. `None` for networks that are not EVM chains.
    pub fn of(offer: &Offer) -> Option<Self> {
        Some(Self {
            chain: offer.network.evm_id()?,
            asset: offer.asset.evm_address()?,
            amount: offer.amount,
            pay_to: offer.pay_to.evm_address()?,
        })
    }

    /// Returns the terms that an entry of a manifest states: x402 in an ERC-20 token on an EVM chain. `None` for entries that this client
    /// cannot pay.
    pub fn stated(price: &Price) -> Option<Self> {
        crate::steps::terms_of(price)
    }

    /// Parses what [`fmt::Display`] writes. Addresses may have a checksum.
    pub fn parse(text: &str) -> Result<Self, TermsFault> {
        let mut parts = text.split('/');
        let (Some(chain), Some(token), Some(amount), Some(pay_to), None) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(TermsFault);
        };
        let chain = chain.strip_prefix("eip155:").filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let chain = chain.and_then(|digits| digits.parse().ok()).filter(|chain| *chain > 0).ok_or(TermsFault)?;
        let asset = token.strip_prefix("erc20:").and_then(address).ok_or(TermsFault)?;
        let amount = Amount::parse(amount).map_err(|_| TermsFault)?;
        Ok(Self { chain, asset, amount, pay_to: address(pay_to).ok_or(TermsFault)? })
    }

    /// Describes the terms for people: `0.02 USDC on Base (eip155:8453, real money) to 0x…`, or bare numbers if the token is unknown.
    pub fn shown(&self) -> String {
        let amount = match asset::find(self.chain, self.asset) {
            Some(token) => format!("{} {}", self.amount.format_units(token.decimals), token.symbol),
            None => format!("{} of {}", self.amount, self.asset),
        };
        format!("{amount} on {} to {}", crate::error::network(self.chain), self.pay_to)
    }
}

fn address(text: &str) -> Option<Address> {
    let is_plain = text.len() == 42 && text.starts_with("0x");
    let address: Address = is_plain.then(|| text.parse().ok()).flatten()?;
    let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
    (is_lower || address.to_checksum(None) == text).then_some(address)
}

/// Writes one line that [`Terms::parse`] reads.
impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "eip155:{}/erc20:{:#x}/{}/{:#x}", self.chain, self.asset, self.amount, self.pay_to)
    }
}

impl Serialize for Terms {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_there_and_back() {
        let text =
            "eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913/20000/0x70997970c51812dc3a010c7d01b50e0d17dc79c8";
        let terms = Terms::parse(text).unwrap();
        assert_eq!(terms.to_string(), text);
        assert!(terms.shown().starts_with("0.02 USDC on Base (eip155:8453, real money) to 0x7099"), "{}", terms.shown());
        for wrong in [
            "",
            "eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913/20000",
            &text.replace("20000", "020000"),
            &text.replace("8453", "0"),
            &text.replace("0x70997970c5", "0x70997970C5"),
            &format!("{text}/"),
        ] {
            assert_eq!(Terms::parse(wrong), Err(TermsFault), "{wrong}");
        }
    }
}
