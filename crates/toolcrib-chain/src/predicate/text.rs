//! Names and versions that contracts state: short untrusted texts that can only be compared for equality.

use std::fmt;

use alloy_primitives::{Address, Bytes, U256};

use super::{MAX_TEXT_BYTES, TEXT_GAS};
use crate::Error;
use crate::rpc::{BoundedCall, CallOutcome, Chain};

/// A contract's name or version. Opaque: two can be compared for equality, but have no order, so that "1.10" is never sorted before or
/// after "1.9" (ERC-8257 `IToolRegistry`).
///
/// ```
/// use toolcrib_chain::predicate::Opaque;
///
/// assert_ne!(Opaque::from("1.10"), Opaque::from("1.9"));
/// ```
///
/// ```compile_fail,E0369
/// use toolcrib_chain::predicate::Opaque;
///
/// assert!(Opaque::from("1.10") > Opaque::from("1.9"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Opaque(String);

impl Opaque {
    /// The text for display. Untrusted: escape it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Opaque {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl PartialEq<str> for Opaque {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl fmt::Display for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads a short text; `None` if it is missing, empty, or longer than [`MAX_TEXT_BYTES`].
pub(crate) async fn read_text(chain: &Chain, address: Address, data: Vec<u8>) -> Result<Option<Opaque>, Error> {
    // Offset, length, and the text in whole words.
    let call = BoundedCall { to: address, data: data.into(), from: None, gas: Some(TEXT_GAS), max_bytes: 64 + MAX_TEXT_BYTES };
    Ok(match chain.call(&call).await? {
        CallOutcome::Returned(bytes) => decode_text(&bytes).map(Opaque),
        _ => None,
    })
}

/// Decodes the return data as a text.
fn decode_text(bytes: &Bytes) -> Option<String> {
    let (offset, tail) = bytes.split_first_chunk::<32>()?;
    // Compilers always write this offset for a single string.
    if U256::from_be_bytes(*offset) != U256::from(32) {
        return None;
    }
    let length = usize::try_from(U256::from_be_bytes(*tail.first_chunk::<32>()?)).ok()?;
    if length == 0 || length > MAX_TEXT_BYTES {
        return None;
    }
    let text = tail.get(32..32 + length)?;
    std::str::from_utf8(text).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use alloy_sol_types::SolValue;

    use super::*;

    // req: HARDEN-017, PRED-002
    #[test]
    fn texts_have_1_to_256_bytes() {
        let text = |length: usize| decode_text(&"x".repeat(length).abi_encode().into()).map(|text| text.len());
        assert_eq!(text(1), Some(1));
        assert_eq!(text(256), Some(256));
        assert_eq!(text(257), None);
        assert_eq!(text(0), None, "a name is not empty");
        assert_eq!(text(5_000_000), None);
    }

    // req: HARDEN-017
    #[test]
    fn texts_that_lie_are_none() {
        let word = |value: u64| U256::from(value).to_be_bytes_vec();
        let max = vec![0xff; 32];
        for bytes in [
            vec![],
            word(32),
            [word(32), word(5)].concat(),
            [max.clone(), word(5), vec![b'x'; 32]].concat(),
            [word(32), max, vec![b'x'; 32]].concat(),
            [word(64), word(5), vec![b'x'; 32]].concat(),
            [word(32), word(2), vec![0xff; 32]].concat(),
            vec![b'x'; 31],
        ] {
            assert_eq!(decode_text(&bytes.clone().into()), None, "{bytes:02x?}");
        }
    }
}
