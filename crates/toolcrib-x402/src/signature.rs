//! The signature of a payment: the original bytes, and format checks for signatures of accounts.
//!
//! The signer is recovered elsewhere, with the elliptic curve or a node.

use std::fmt;

use toolcrib_core::agent::signing::{AgentSignature, SignatureFault};
use toolcrib_core::codes::{Code, chain};
use toolcrib_core::hex;

use super::erc6492;

/// Longest signature. Contract wallets (ERC-1271) pack several keys or a passkey assertion into one, which takes about a kilobyte; a
/// payment header has room for three times this.
pub const MAX_SIGNATURE_BYTES: usize = 2_048;

/// Bytes of r, s and v.
pub(super) const ACCOUNT_BYTES: usize = 65;

/// A signature of 65 bytes, or a longer one of a contract wallet.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Signature(Vec<u8>);

impl Signature {
    /// Returns a signature with these bytes. `None` if there are fewer than 65 or more than [`MAX_SIGNATURE_BYTES`].
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        (ACCOUNT_BYTES..=MAX_SIGNATURE_BYTES).contains(&bytes.len()).then_some(Self(bytes))
    }

    /// Parses `0x` and hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("0x").filter(|digits| digits.len() <= 2 * MAX_SIGNATURE_BYTES)?;
        Self::new(hex::decode(digits)?)
    }

    /// The original bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the rule that it breaks for any signer: s in the upper half, v or range if it has 65 bytes, or the ERC-6492 wrapper.
    pub fn fault(&self) -> Option<Code> {
        if erc6492::is_wrapped(&self.0) {
            return Some(chain::SIGNATURE_UNDEPLOYED);
        }
        let bytes = <[u8; ACCOUNT_BYTES]>::try_from(self.0.as_slice()).ok()?;
        AgentSignature::from_bytes(bytes).err().map(|fault| match fault {
            SignatureFault::V(_) => chain::SIGNATURE_V,
            SignatureFault::HighS => chain::SIGNATURE_HIGH_S,
            _ => chain::SIGNATURE_RANGE,
        })
    }

    /// The form that tokens accept: v is 27 or 28. Only 65 bytes whose v is 0 or 1 are changed.
    #[must_use]
    pub fn canonical(&self) -> Self {
        let mut bytes = self.0.clone();
        if let (ACCOUNT_BYTES, Some(v @ (0 | 1))) = (bytes.len(), bytes.last_mut()) {
            *v += 27;
        }
        Self(bytes)
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&alloy_primitives::hex::encode_prefixed(&self.0))
    }
}

/// An unused signature can be redeemed for money, so logs show only its length.
impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(r: u8, s: u8, v: u8) -> Vec<u8> {
        let mut bytes = vec![0; 65];
        (bytes[31], bytes[63], bytes[64]) = (r, s, v);
        bytes
    }

    // T10: every format of a signature that must be rejected, for any payer.
    #[test]
    fn shapes() {
        let high = [vec![1; 32], vec![0xff; 32], vec![27]].concat();
        let wrapped = [vec![1; 65], erc6492::MAGIC_SUFFIX.to_vec()].concat();
        let half = hex::decode("7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0").expect("digits");
        let above = hex::decode("7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a1").expect("digits");
        for (bytes, fault) in [
            (bytes(1, 1, 27), None),
            (bytes(1, 1, 28), None),
            (bytes(1, 1, 0), None),
            (bytes(1, 1, 1), None),
            (bytes(1, 1, 2), Some(chain::SIGNATURE_V)),
            (bytes(1, 1, 26), Some(chain::SIGNATURE_V)),
            (bytes(1, 1, 29), Some(chain::SIGNATURE_V)),
            (bytes(1, 1, 37), Some(chain::SIGNATURE_V)),
            (bytes(0, 1, 27), Some(chain::SIGNATURE_RANGE)),
            (bytes(1, 0, 27), Some(chain::SIGNATURE_RANGE)),
            ([vec![1; 32], half, vec![27]].concat(), None),
            ([vec![1; 32], above, vec![27]].concat(), Some(chain::SIGNATURE_HIGH_S)),
            (high, Some(chain::SIGNATURE_RANGE)),
            (wrapped, Some(chain::SIGNATURE_UNDEPLOYED)),
            // Too short to be wrapped: an account's signature with a wrong v.
            ([vec![1; 33], erc6492::MAGIC_SUFFIX.to_vec()].concat(), Some(chain::SIGNATURE_V)),
            (vec![7; 66], None),
        ] {
            let signature = Signature::new(bytes.clone()).expect("long enough");
            assert_eq!(signature.fault(), fault, "{signature}");
            assert_eq!(Signature::parse(&signature.to_string()), Some(signature));
        }
    }

    // T10
    #[test]
    fn lengths() {
        for (length, is_read) in
            [(0, false), (64, false), (65, true), (66, true), (MAX_SIGNATURE_BYTES, true), (MAX_SIGNATURE_BYTES + 1, false)]
        {
            let text = format!("0x{}", "1b".repeat(length));
            assert_eq!(Signature::parse(&text).is_some(), is_read, "{length}");
        }
        for text in ["", "0x", &"1b".repeat(65), &format!("0X{}", "1b".repeat(65)), &format!("0x{}1", "1b".repeat(65))] {
            assert_eq!(Signature::parse(text), None, "{text}");
        }
        assert!(Signature::parse(&"f".repeat(1 << 20)).is_none());
    }

    #[test]
    fn tokens_want_27_and_28() {
        for (v, canonical) in [(0, 27), (1, 28), (27, 27), (28, 28), (2, 2)] {
            let signature = Signature::new(bytes(1, 1, v)).expect("long enough").canonical();
            assert_eq!(signature.as_bytes().last(), Some(&canonical));
        }
        let contract = Signature::new(vec![0; 66]).expect("long enough");
        assert_eq!(contract.canonical(), contract);
        assert_eq!(format!("{contract:?}"), "Signature(66 bytes)");
    }
}
