//! Multibase text: a prefix for the base, then the bytes in that base, without padding.
//!
//! Each byte sequence has exactly one valid text in each base: decoded bytes are encoded again and compared. That rejects stray bits,
//! impossible lengths and any other alternative encoding without a rule for each.

/// A base of CIDs.
#[derive(Debug)]
struct Base {
    prefix: u8,
    alphabet: &'static [u8],
}

const BASE32: &Base = &Base { prefix: b'b', alphabet: b"abcdefghijklmnopqrstuvwxyz234567" };
const BASE58: &Base = &Base { prefix: b'z', alphabet: b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz" };

/// The bases that [`CidText`](toolcrib_core::agent::txt::CidText) supports. Standard base64 has a slash, which a URL segment
/// cannot contain.
const BASES: [&Base; 10] = [
    BASE32,
    &Base { prefix: b'B', alphabet: b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567" },
    &Base { prefix: b'v', alphabet: b"0123456789abcdefghijklmnopqrstuv" },
    &Base { prefix: b'V', alphabet: b"0123456789ABCDEFGHIJKLMNOPQRSTUV" },
    &Base { prefix: b'f', alphabet: b"0123456789abcdef" },
    &Base { prefix: b'F', alphabet: b"0123456789ABCDEF" },
    &Base { prefix: b'k', alphabet: b"0123456789abcdefghijklmnopqrstuvwxyz" },
    &Base { prefix: b'K', alphabet: b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ" },
    BASE58,
    &Base { prefix: b'u', alphabet: b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" },
];

/// Why a text is not canonical multibase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MultibaseError {
    /// No known prefix.
    NoBase,
    /// A character is not in the base's alphabet.
    NotInBase,
    /// The canonical text of these bytes in this base differs.
    NotCanonical,
}

/// Decodes a text. The caller limits its length: bases other than powers of two take quadratic time.
pub(super) fn decode(text: &str) -> Result<Vec<u8>, MultibaseError> {
    let (&prefix, digits) = text.as_bytes().split_first().ok_or(MultibaseError::NoBase)?;
    let base = BASES.into_iter().find(|base| base.prefix == prefix).ok_or(MultibaseError::NoBase)?;
    base.decode(digits)
}

/// Decodes base58 without a prefix, the format of version 0 CIDs.
pub(super) fn decode_base58(text: &str) -> Result<Vec<u8>, MultibaseError> {
    BASE58.decode(text.as_bytes())
}

/// Encodes bytes in lower-case base32, the usual format of CIDs.
pub(super) fn encode_base32(bytes: &[u8]) -> String {
    std::iter::once(char::from(BASE32.prefix)).chain(BASE32.encode(bytes)).collect()
}

impl Base {
    /// The bits of a digit; `None` if the base is not a power of two.
    fn bits(&self) -> Option<u32> {
        self.alphabet.len().is_power_of_two().then(|| self.alphabet.len().ilog2())
    }

    fn decode(&self, text: &[u8]) -> Result<Vec<u8>, MultibaseError> {
        let place = |byte: &u8| self.alphabet.iter().position(|digit| digit == byte).and_then(|at| u8::try_from(at).ok());
        let digits: Vec<u8> = text.iter().map(place).collect::<Option<_>>().ok_or(MultibaseError::NotInBase)?;
        let bytes = match self.bits() {
            Some(bits) => {
                let mut bytes = regroup(&digits, bits, 8);
                // The last group is padding, unless the digits fill it.
                bytes.truncate(digits.len() * bits as usize / 8);
                bytes
            }
            None => convert(&digits, self.alphabet.len() as u32, 256),
        };
        if self.encode(&bytes).eq(text.iter().copied().map(char::from)) { Ok(bytes) } else { Err(MultibaseError::NotCanonical) }
    }

    fn encode(&self, bytes: &[u8]) -> impl Iterator<Item = char> {
        let digits = match self.bits() {
            Some(bits) => regroup(bytes, 8, bits),
            None => convert(bytes, 256, self.alphabet.len() as u32),
        };
        let alphabet = self.alphabet;
        digits.into_iter().filter_map(move |digit| alphabet.get(usize::from(digit)).copied().map(char::from))
    }
}

/// Splits groups of `from` bits into groups of `to` bits, the last one padded with zeros.
fn regroup(groups: &[u8], from: u32, to: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(groups.len() * from as usize / to as usize + 1);
    let (mut held, mut bits) = (0_u32, 0);
    for &group in groups {
        held = (held << from) | u32::from(group);
        bits += from;
        while bits >= to {
            bits -= to;
            out.push((held >> bits) as u8);
            held &= (1 << bits) - 1;
        }
    }
    if bits > 0 {
        out.push((held << (to - bits)) as u8);
    }
    out
}

/// Converts a number from base `from` to base `to`, both with the most significant digit first. Leading zeros stay, one for one.
fn convert(digits: &[u8], from: u32, to: u32) -> Vec<u8> {
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    let mut out: Vec<u8> = Vec::with_capacity(digits.len() * 2);
    for &digit in digits {
        let mut carry = u32::from(digit);
        for place in &mut out {
            carry += u32::from(*place) * from;
            *place = (carry % to) as u8;
            carry /= to;
        }
        while carry > 0 {
            out.push((carry % to) as u8);
            carry /= to;
        }
    }
    out.resize(out.len() + zeros, 0);
    out.reverse();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_base_gives_the_bytes_back() {
        let samples: [&[u8]; 6] = [b"", b"\0", b"\0\0\x01", b"yes mani !", &[0xff; 37], &[0x80, 0, 0, 1]];
        for base in BASES {
            for sample in samples {
                let text: String = base.encode(sample).collect();
                assert_eq!(base.decode(text.as_bytes()).as_deref(), Ok(sample), "{} {text}", char::from(base.prefix));
            }
        }
    }

    /// The vectors of the multibase specification for "yes mani !".
    #[test]
    fn published_vectors() {
        for text in [
            "f796573206d616e692021",
            "F796573206D616E692021",
            "bpfsxgidnmfxgsibb",
            "BPFSXGIDNMFXGSIBB",
            "vf5in683dc5n6i811",
            "VF5IN683DC5N6I811",
            "k2lcpzo5yikidynfl",
            "K2LCPZO5YIKIDYNFL",
            "z7paNL19xttacUY",
            "ueWVzIG1hbmkgIQ",
        ] {
            assert_eq!(decode(text).as_deref(), Ok(&b"yes mani !"[..]), "{text}");
        }
        assert_eq!(encode_base32(b"yes mani !"), "bpfsxgidnmfxgsibb");
    }

    #[test]
    fn second_spellings_are_refused() {
        for (text, fault) in [
            ("", MultibaseError::NoBase),
            ("mAXASI", MultibaseError::NoBase),
            ("é", MultibaseError::NoBase),
            // Upper case after a lower-case prefix, and vice versa.
            ("bPFSXGIDNMFXGSIBB", MultibaseError::NotInBase),
            ("Bpfsxgidnmfxgsibb", MultibaseError::NotInBase),
            ("fAA", MultibaseError::NotInBase),
            ("bpfsxgidnmfxgsibb=", MultibaseError::NotInBase),
            ("z7paNL19xttacU0", MultibaseError::NotInBase),
            ("bé", MultibaseError::NotInBase),
            // Stray bits, and impossible lengths.
            ("bab", MultibaseError::NotCanonical),
            ("ba", MultibaseError::NotCanonical),
            ("f7", MultibaseError::NotCanonical),
            ("uA", MultibaseError::NotCanonical),
        ] {
            assert_eq!(decode(text), Err(fault), "{text}");
        }
    }
}
