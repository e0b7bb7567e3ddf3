//! Hex fields: `0x` and lowercase digits, checked by grammar and never repaired.

/// Whether a text is `0x` followed by lowercase hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hex<'a> {
    /// Valid; the digits after `0x`.
    Lower(&'a str),
    /// Hex, but with upper-case digits or an upper-case `0X`; the digits after the prefix.
    Upper(&'a str),
    /// Not hex.
    Not,
}

impl<'a> Hex<'a> {
    /// Classifies `text`.
    pub fn of(text: &'a str) -> Self {
        let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) else { return Self::Not };
        // Whole chunks without early exit, so that the compiler vectorises the inner loop.
        let all = |allowed: fn(u8) -> bool| {
            digits.as_bytes().chunks(64).all(|chunk| chunk.iter().fold(true, |good, &byte| good & allowed(byte)))
        };
        if text.starts_with("0x") && all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            Self::Lower(digits)
        } else if all(|byte| byte.is_ascii_hexdigit()) {
            Self::Upper(digits)
        } else {
            Self::Not
        }
    }
}

/// Decodes hex digits of either case. `None` for an odd number of them or any other character.
pub fn decode(digits: &str) -> Option<Vec<u8>> {
    // The decoder would skip a prefix, which is not a digit here.
    if !digits.len().is_multiple_of(2) || digits.starts_with("0x") {
        return None;
    }
    let mut bytes = vec![0; digits.len() / 2];
    alloy_primitives::hex::decode_to_slice(digits, &mut bytes).ok().map(|()| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_is_told_apart_from_nonsense() {
        assert_eq!(Hex::of("0x00ff"), Hex::Lower("00ff"));
        assert_eq!(Hex::of("0x"), Hex::Lower(""));
        assert_eq!(Hex::of("0x00Ff"), Hex::Upper("00Ff"));
        assert_eq!(Hex::of("0X00ff"), Hex::Upper("00ff"));
        for text in ["", "0", "00ff", "0x0g", "0x é", " 0x00", "0x00 "] {
            assert_eq!(Hex::of(text), Hex::Not, "{text:?}");
        }
        let long = format!("0x{}G", "a".repeat(200));
        assert_eq!(Hex::of(&long), Hex::Not);
    }

    #[test]
    fn decoding_needs_pairs_of_digits() {
        assert_eq!(decode("00fF"), Some(vec![0, 255]));
        assert_eq!(decode(""), Some(vec![]));
        assert_eq!(decode("0"), None);
        assert_eq!(decode("0g"), None);
        assert_eq!(decode("é"), None);
        assert_eq!(decode("0x00"), None);
        assert_eq!(decode("0X00"), None);
        assert_eq!(decode(&"aB".repeat(65)), Some(vec![0xab; 65]));
    }
}
