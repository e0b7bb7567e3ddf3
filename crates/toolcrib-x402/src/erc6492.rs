//! Signatures of accounts that are not deployed yet: the ERC-6492 wrapper.
//!
//! ```text
//! abi.encode(address factory, bytes factoryCalldata, bytes signature) ‖ 0x6492…6492
//! ```
//!
//! The parser accepts exactly the encoding that ABI encoders write. Other encodings of the same three values are rejected, and so is a
//! nested wrapper: each signature has one encoding and one meaning.

use std::fmt;

use alloy_primitives::{Address, U256};
use toolcrib_core::codes::{Code, chain};

/// The last 32 bytes of a wrapped signature.
pub const MAGIC_SUFFIX: [u8; 32] = {
    let mut bytes = [0x64; 32];
    let mut at = 1;
    while at < bytes.len() {
        bytes[at] = 0x92;
        at += 2;
    }
    bytes
};

/// Bytes of a word of the ABI.
const WORD: usize = 32;

/// Bytes of a key's signature; a wrapper is longer.
const KEY_SIGNATURE_BYTES: usize = 65;

/// A signature with the call that deploys its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrapped<'s> {
    /// The contract that deploys the account. Chosen by the author of the signature: untrusted.
    pub factory: Address,
    /// The calldata for the factory. Chosen by the author of the signature: untrusted.
    pub calldata: &'s [u8],
    /// The signature for the account itself (ERC-1271).
    pub signature: &'s [u8],
}

/// Why a wrapper cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WrapperFault {
    /// The bytes before the suffix are not the canonical encoding of an address and two byte strings.
    Encoding,
    /// The inner signature is wrapped too.
    Nested,
}

impl WrapperFault {
    /// The code of this error.
    pub const fn code(self) -> Code {
        chain::SIGNATURE_WRAPPER
    }
}

impl fmt::Display for WrapperFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Encoding => "the ERC-6492 wrapper is not the ABI encoding of a factory, calldata and a signature",
            Self::Nested => "an ERC-6492 wrapper contains another one",
        })
    }
}

impl std::error::Error for WrapperFault {}

/// Whether a signature has the suffix of wrapped ones.
pub fn is_wrapped(signature: &[u8]) -> bool {
    signature.len() > KEY_SIGNATURE_BYTES && signature.ends_with(&MAGIC_SUFFIX)
}

/// Unwraps a signature. `None` if it is not wrapped.
pub fn unwrap(signature: &[u8]) -> Result<Option<Wrapped<'_>>, WrapperFault> {
    if !is_wrapped(signature) {
        return Ok(None);
    }
    let encoded = &signature[..signature.len() - MAGIC_SUFFIX.len()];
    let wrapped = decode(encoded).ok_or(WrapperFault::Encoding)?;
    if is_wrapped(wrapped.signature) {
        return Err(WrapperFault::Nested);
    }
    Ok(Some(wrapped))
}

/// Wraps a signature.
pub fn wrap(factory: Address, calldata: &[u8], signature: &[u8]) -> Vec<u8> {
    let head = 3 * WORD;
    let second = head + WORD + padded(calldata.len());
    let mut out = Vec::with_capacity(second + WORD + padded(signature.len()) + MAGIC_SUFFIX.len());
    out.extend_from_slice(factory.into_word().as_slice());
    for number in [head, second] {
        out.extend_from_slice(&word(number));
    }
    for bytes in [calldata, signature] {
        out.extend_from_slice(&word(bytes.len()));
        out.extend_from_slice(bytes);
        out.resize(out.len() + padded(bytes.len()) - bytes.len(), 0);
    }
    out.extend_from_slice(&MAGIC_SUFFIX);
    out
}

fn decode(encoded: &[u8]) -> Option<Wrapped<'_>> {
    let head = 3 * WORD;
    let (factory, rest) = encoded.split_first_chunk::<WORD>()?;
    if factory[..12].iter().any(|&byte| byte != 0) {
        return None;
    }
    let (calldata, after) = bytes_at(encoded, head)?;
    let (signature, end) = bytes_at(encoded, after)?;
    let is_canonical = number(rest.get(..WORD)?)? == head && number(rest.get(WORD..2 * WORD)?)? == after && end == encoded.len();
    is_canonical.then(|| Wrapped { factory: Address::from_slice(&factory[12..]), calldata, signature })
}

/// Returns the byte string at an offset, and the offset after its padding.
fn bytes_at(encoded: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let start = at.checked_add(WORD)?;
    let length = number(encoded.get(at..start)?)?;
    // At most the total length, so that nothing below overflows.
    if length > encoded.len() {
        return None;
    }
    let bytes = encoded.get(start..start + length)?;
    let padding = encoded.get(start + length..start + padded(length))?;
    padding.iter().all(|&byte| byte == 0).then_some((bytes, start + padded(length)))
}

fn number(word: &[u8]) -> Option<usize> {
    usize::try_from(U256::try_from_be_slice(word)?).ok()
}

fn word(number: usize) -> [u8; WORD] {
    U256::from(number).to_be_bytes()
}

const fn padded(length: usize) -> usize {
    length.div_ceil(WORD) * WORD
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_suffix_is_that_of_the_standard() {
        assert_eq!(MAGIC_SUFFIX.to_vec(), [0x64, 0x92].repeat(16));
    }

    /// A wrapper as viem's `serializeErc6492Signature` writes it.
    #[test]
    fn a_wrapper_of_viem() {
        let text = concat!(
            "000000000000000000000000cafebabecafebabecafebabecafebabecafebabe",
            "0000000000000000000000000000000000000000000000000000000000000060",
            "00000000000000000000000000000000000000000000000000000000000000a0",
            "0000000000000000000000000000000000000000000000000000000000000004",
            "deadbeef00000000000000000000000000000000000000000000000000000000",
            "0000000000000000000000000000000000000000000000000000000000000041",
            "a461f509887bd19e312c0c58467ce8ff8e300d3c1a90b608a760c5b80318eaf1",
            "5fe57c96f9175d6cd4daad4663763baa7e78836e067d0163e9a2ccf2ff753f5b",
            "1b00000000000000000000000000000000000000000000000000000000000000",
            "6492649264926492649264926492649264926492649264926492649264926492",
        );
        let bytes = toolcrib_core::hex::decode(text).expect("digits");
        let wrapped = unwrap(&bytes).expect("canonical").expect("wrapped");
        assert_eq!(wrapped.factory.to_string(), "0xCafEBAbECAFEbAbEcaFEbabECAfebAbEcAFEBaBe");
        assert_eq!((wrapped.calldata, wrapped.signature.len()), (&[0xde, 0xad, 0xbe, 0xef][..], 65));
        assert_eq!(wrap(wrapped.factory, wrapped.calldata, wrapped.signature), bytes);
    }

    #[test]
    fn broken_wrappers_are_refused() {
        let good = wrap(Address::repeat_byte(7), &[1; 40], &[2; 65]);
        let encoding = Err(WrapperFault::Encoding);
        for at in [0, 11, 32, 63, 64, 95, 96, 127, 168, 191, 192, 223, 289, 319] {
            let mut broken = good.clone();
            broken[at] ^= 0x80;
            assert_eq!(unwrap(&broken), encoding, "{at}");
        }
        assert_eq!(unwrap(&[vec![7; 96], MAGIC_SUFFIX.to_vec()].concat()), encoding);
        assert_eq!(unwrap(&[vec![0xff; 320], MAGIC_SUFFIX.to_vec()].concat()), encoding);
        let nested = wrap(Address::repeat_byte(7), &[1; 40], &good);
        assert_eq!(unwrap(&nested), Err(WrapperFault::Nested));
        assert_eq!(unwrap(&[1; 65]), Ok(None));
        // Too short to be wrapped, although it ends in the suffix.
        assert_eq!(unwrap(&[vec![1; 33], MAGIC_SUFFIX.to_vec()].concat()), Ok(None));
    }

    proptest! {
        #[test]
        fn what_is_wrapped_comes_out(
            factory in any::<[u8; 20]>(),
            calldata in proptest::collection::vec(any::<u8>(), 0..200),
            signature in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let factory = Address::from(factory);
            let bytes = wrap(factory, &calldata, &signature);
            let expected = Wrapped { factory, calldata: &calldata, signature: &signature };
            prop_assert_eq!(unwrap(&bytes), Ok(Some(expected)));
        }

        #[test]
        fn what_is_read_has_one_spelling(
            words in proptest::collection::vec(prop::sample::select(vec![0_u8, 0x20, 0x40, 0x60, 0x80, 0xa0, 0xff]), 0..12),
            noise in proptest::collection::vec(any::<u8>(), 0..70),
        ) {
            let words = words.into_iter().flat_map(|last| { let mut word = [0; 32]; word[31] = last; word });
            let bytes: Vec<u8> = words.chain(noise).chain(MAGIC_SUFFIX).collect();
            if let Ok(Some(wrapped)) = unwrap(&bytes) {
                prop_assert_eq!(wrap(wrapped.factory, wrapped.calldata, wrapped.signature), bytes);
            }
        }
    }
}
