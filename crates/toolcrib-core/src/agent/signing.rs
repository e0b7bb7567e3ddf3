//! The signing payload and the format of a signature (.agt 1.0 §4).
//!
//! The wallet signs the RFC 8785 bytes of the manifest without its top-level `signature` by EIP-191 (`personal_sign`): the bytes
//! themselves, not a hash of them. Recovering the signer needs elliptic curves and is done elsewhere; this module checks the format of a
//! signature, more strictly than most libraries do.

use std::fmt;

use alloy_primitives::{B256, eip191_hash_message};

use crate::canon::{write_string, write_value};
use crate::checked::Context;
use crate::codes::{self, Code};
use crate::finding::Finding;
use crate::json::{Document, Value};

/// The bytes that the owner signs and their EIP-191 digest.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningPayload {
    text: String,
    digest: B256,
}

impl SigningPayload {
    /// Returns the payload of a document, signed or not, or `None` if the document is not an object or has no canonical form.
    ///
    /// Only the top-level `signature` is left out: nested fields of that name belong to the content.
    pub fn of(document: &Document) -> Option<Self> {
        let root = document.root().as_object().filter(|_| document.is_canonicalisable())?;
        let mut text = String::with_capacity(document.source().len());
        text.push('{');
        for (key, value) in root.sorted().filter(|&(key, _)| key != "signature") {
            if text.len() > 1 {
                text.push(',');
            }
            write_string(key, &mut text);
            text.push(':');
            write_value(value, &mut text);
        }
        text.push('}');
        let digest = eip191_hash_message(text.as_bytes());
        Some(Self { text, digest })
    }

    /// The text that a wallet shows and signs.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The signed bytes.
    pub const fn as_bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// keccak256 of the EIP-191 prefix, the number of bytes in decimal, and the bytes.
    pub const fn digest(&self) -> B256 {
        self.digest
    }
}

impl fmt::Debug for SigningPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningPayload({} bytes, {})", self.text.len(), self.digest)
    }
}

/// Returns the source of `document` with `signature` inserted: replacing the old one, or as a new last field. The rest of the source is
/// unchanged. `None` if the document is not an object.
pub fn with_signature(document: &Document, signature: &AgentSignature) -> Option<String> {
    let root = document.root().as_object()?;
    let source = document.source();
    if let Some(old) = root.get("signature") {
        let span = old.span();
        return Some(format!("{}\"{signature}\"{}", &source[..span.start], &source[span.end..]));
    }
    let Some((_, last)) = root.iter().last() else {
        let span = root.value().span();
        return Some(format!("{}{{\"signature\": \"{signature}\"}}{}", &source[..span.start], &source[span.end..]));
    };
    // Use the same newline and indentation (or none) as between the brace and the first field.
    let open = root.value().span().start + 1;
    let first = root.iter().next().and_then(|(_, value)| value.key_span()).map_or(open, |span| span.start);
    let (gap, end) = (&source[open..first], last.span().end);
    Some(format!("{},{gap}\"signature\": \"{signature}\"{}", &source[..end], &source[end..]))
}

/// A signature in the required format: 65 bytes, low s, v one of 0, 1, 27, 28. The signer is not recovered here.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AgentSignature([u8; 65]);

impl AgentSignature {
    /// Parses `0x` and 130 hexadecimal digits of either case.
    pub fn parse(text: &str) -> Result<Self, SignatureFault> {
        if text.is_empty() {
            return Err(SignatureFault::Empty);
        }
        if text == "0x" || super::is_elided(text) {
            return Err(SignatureFault::Placeholder);
        }
        let digits = text.strip_prefix("0x").ok_or(SignatureFault::NoPrefix)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(SignatureFault::NotHex);
        }
        match digits.len() {
            130 => {}
            128 => return Err(SignatureFault::Compact),
            count => return Err(SignatureFault::Length(count)),
        }
        let bytes = crate::hex::decode(digits).and_then(|bytes| bytes.try_into().ok()).ok_or(SignatureFault::NotHex)?;
        Self::from_bytes(bytes)
    }

    /// Checks r, s and v and returns the signature.
    pub fn from_bytes(bytes: [u8; 65]) -> Result<Self, SignatureFault> {
        let signature = Self(bytes);
        let (r, s, v) = (signature.r(), signature.s(), bytes[64]);
        if !matches!(v, 0 | 1 | 27 | 28) {
            return Err(SignatureFault::V(v));
        }
        for part in [r, s] {
            if part == [0; 32] || part >= CURVE_ORDER {
                return Err(SignatureFault::OutOfRange);
            }
        }
        if s > HALF_CURVE_ORDER {
            return Err(SignatureFault::HighS);
        }
        Ok(signature)
    }

    /// The bytes of r, s and v, unchanged.
    pub const fn as_bytes(&self) -> &[u8; 65] {
        &self.0
    }

    /// The x coordinate of the signer's ephemeral point, modulo the order of the curve.
    pub fn r(&self) -> [u8; 32] {
        std::array::from_fn(|at| self.0[at])
    }

    /// The s value; at most half the order of the curve.
    pub fn s(&self) -> [u8; 32] {
        std::array::from_fn(|at| self.0[32 + at])
    }

    /// Whether the y coordinate of the ephemeral point is odd.
    pub const fn y_is_odd(&self) -> bool {
        matches!(self.0[64], 1 | 28)
    }
}

impl fmt::Display for AgentSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for AgentSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgentSignature({self})")
    }
}

/// Why a text is not a valid signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignatureFault {
    /// The text is empty.
    Empty,
    /// Shortened with dots, or a word in brackets.
    Placeholder,
    /// Does not start with `0x`.
    NoPrefix,
    /// Characters other than hexadecimal digits.
    NotHex,
    /// The number of digits, which is not 130.
    Length(usize),
    /// The 64 bytes of EIP-2098.
    Compact,
    /// An unknown recovery id.
    V(u8),
    /// s is in the upper half.
    HighS,
    /// r or s is zero, or not below the order of the curve.
    OutOfRange,
}

impl SignatureFault {
    /// The code of a finding about this error.
    pub const fn code(self) -> Code {
        match self {
            Self::Empty => codes::agent::UNSIGNED,
            Self::Placeholder => codes::agent::SIGNATURE_PLACEHOLDER,
            Self::NoPrefix | Self::NotHex | Self::Length(_) => codes::agent::SIGNATURE_MALFORMED,
            Self::Compact => codes::agent::SIGNATURE_COMPACT,
            Self::V(_) => codes::agent::SIGNATURE_V,
            Self::HighS => codes::agent::SIGNATURE_HIGH_S,
            Self::OutOfRange => codes::agent::SIGNATURE_RANGE,
        }
    }
}

impl fmt::Display for SignatureFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPrefix => f.write_str("the signature does not start with 0x"),
            Self::NotHex => f.write_str("the signature has characters that are not hexadecimal digits"),
            Self::Length(count) => write!(f, "the signature has {count} hexadecimal digits, expected 130"),
            Self::V(v) => write!(f, "the last byte of the signature is {v}, expected 0, 1, 27 or 28"),
            _ => f.write_str(self.code().title()),
        }
    }
}

impl std::error::Error for SignatureFault {}

/// Checks the `signature` field.
pub(super) fn check(value: Value<'_>, text: &str, context: &mut Context) -> Option<AgentSignature> {
    match AgentSignature::parse(text) {
        Ok(signature) => {
            if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
                context.report(Finding::new(codes::agent::SIGNATURE_UPPERCASE).at(value).fix(
                    crate::finding::Fix::replace_string(value, "write the signature in lower case", &signature.to_string()),
                ));
            }
            Some(signature)
        }
        Err(fault) => {
            context.report(
                Finding::new(fault.code())
                    .at(value)
                    .message(fault.to_string())
                    .expected("0x and 130 hexadecimal digits: r, s and v")
                    .got(text),
            );
            None
        }
    }
}

/// The order of the group of secp256k1 (SEC 2 §2.4.1).
const CURVE_ORDER: [u8; 32] = [
    0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE, 0xBA, 0xAE, 0xDC, 0xE6, 0xAF,
    0x48, 0xA0, 0x3B, 0xBF, 0xD2, 0x5E, 0x8C, 0xD0, 0x36, 0x41, 0x41,
];

/// Half the order, rounded down: the largest low s.
const HALF_CURVE_ORDER: [u8; 32] = [
    0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x5D, 0x57, 0x6E, 0x73, 0x57,
    0xA4, 0x50, 0x1D, 0xDF, 0xE9, 0x2F, 0x46, 0x68, 0x1B, 0x20, 0xA0,
];

#[cfg(test)]
mod tests {
    use alloy_primitives::U256;

    use super::*;
    use crate::json::{Limits, read};

    fn document(text: &str) -> Document {
        read(text.as_bytes(), Limits::default()).document.expect("JSON")
    }

    fn hex(r: [u8; 32], s: [u8; 32], v: u8) -> String {
        let digits: String = r.iter().chain(&s).chain([&v]).map(|byte| format!("{byte:02x}")).collect();
        format!("0x{digits}")
    }

    const ONE: [u8; 32] = {
        let mut one = [0; 32];
        one[31] = 1;
        one
    };

    fn plus(number: [u8; 32], add: u64) -> [u8; 32] {
        (U256::from_be_bytes(number) + U256::from(add)).to_be_bytes()
    }

    #[test]
    fn the_halves_of_the_order_fit() {
        let (order, half) = (U256::from_be_bytes(CURVE_ORDER), U256::from_be_bytes(HALF_CURVE_ORDER));
        assert_eq!(half + half + U256::ONE, order);
    }

    // req: AGT-016, AGT-007
    #[test]
    fn shapes_of_a_signature() {
        use SignatureFault::*;
        #[track_caller]
        fn check(text: &str, expected: Result<(), SignatureFault>) {
            assert_eq!(AgentSignature::parse(text).map(drop), expected, "{text}");
        }
        for v in [0, 1, 27, 28] {
            check(&hex(ONE, ONE, v), Ok(()));
        }
        for v in [2, 3, 26, 29, 30, 35, 36, 255] {
            check(&hex(ONE, ONE, v), Err(V(v)));
        }
        check(&hex(ONE, HALF_CURVE_ORDER, 27), Ok(()));
        check(&hex(ONE, plus(HALF_CURVE_ORDER, 1), 27), Err(HighS));
        check(&hex(HALF_CURVE_ORDER, ONE, 27), Ok(()));
        check(&hex(plus(HALF_CURVE_ORDER, 1), ONE, 27), Ok(()));
        check(&hex([0; 32], ONE, 27), Err(OutOfRange));
        check(&hex(ONE, [0; 32], 27), Err(OutOfRange));
        check(&hex(CURVE_ORDER, ONE, 27), Err(OutOfRange));
        check(&hex(ONE, CURVE_ORDER, 27), Err(OutOfRange));
        check(&hex(ONE, [255; 32], 27), Err(OutOfRange));
        check(&hex([0; 32], [0; 32], 0), Err(OutOfRange));
        let good = hex(ONE, ONE, 27);
        check(&good.to_uppercase().replacen("0X", "0x", 1), Ok(()));
        check(&good.to_uppercase(), Err(NoPrefix));
        check(&good[2..], Err(NoPrefix));
        check(&good[..130], Err(Compact));
        check(&good[..131], Err(Length(129)));
        check(&format!("{good}00"), Err(Length(132)));
        check(&format!("{good} "), Err(NotHex));
        check(&good.replace("1b", "1g"), Err(NotHex));
        check("0x7f3e8d4c...", Err(Placeholder));
        check("0x7f3e8d4c…", Err(Placeholder));
        check("0x...", Err(Placeholder));
        check("<signature>", Err(Placeholder));
        check("0x", Err(Placeholder));
        check("", Err(Empty));
        check("0xdeadbeef", Err(Length(8)));
    }

    // req: AGT-015, AGT-016
    #[test]
    fn only_the_top_level_signature_is_left_out_and_layout_does_not_count() {
        let payload = |text: &str| SigningPayload::of(&document(text)).expect("canonical");
        let bare = payload(r#"{"b":{"signature":"kept"},"a":[{"signature":1}]}"#);
        assert_eq!(bare.as_str(), r#"{"a":[{"signature":1}],"b":{"signature":"kept"}}"#);
        let signed =
            payload("{ \"a\" : [ {\"signature\":1.0} ],\n \"signature\": \"0x00\", \"b\":{\"\\u0073ignature\":\"kept\"} }");
        assert_eq!(signed, bare, "order, spaces, escapes and the signature itself change nothing");
        assert_eq!(payload(r#"{"a":1,"\u0073ignature":2}"#).as_str(), r#"{"a":1}"#, "keys are compared unescaped");
        assert_eq!(payload(r#"{"signature":2}"#).as_str(), "{}");
        assert_ne!(payload(r#"{"a":2}"#).digest(), payload(r#"{"a":1}"#).digest());
        assert_eq!(SigningPayload::of(&document("[]")), None);
        assert_eq!(SigningPayload::of(&document(r#"{"a":1,"a":1}"#)), None);
    }

    // req: AGT-016
    #[test]
    fn the_prefix_counts_bytes_not_characters() {
        let payload = SigningPayload::of(&document(r#"{"a":"é日🤖"}"#)).expect("canonical");
        assert_eq!(payload.as_bytes().len(), 17);
        let by_hand = [b"\x19Ethereum Signed Message:\n17", payload.as_bytes()].concat();
        assert_eq!(payload.digest(), alloy_primitives::keccak256(by_hand));
    }

    // req: AGT-016
    #[test]
    fn a_signature_is_put_in_without_touching_the_rest() {
        let signature = AgentSignature::parse(&hex(ONE, ONE, 28)).expect("well-formed");
        for (text, expected) in [
            ("{\n  \"a\": 1,\n  \"b\": {}\n}\n", "{\n  \"a\": 1,\n  \"b\": {},\n  \"signature\": \"SIG\"\n}\n"),
            (r#"{"a":1}"#, r#"{"a":1,"signature": "SIG"}"#),
            (r#" { } "#, r#" {"signature": "SIG"} "#),
            (r#"{"signature":"0x...","a":1}"#, r#"{"signature":"SIG","a":1}"#),
            (r#"{"a":1,"signature":null}"#, r#"{"a":1,"signature":"SIG"}"#),
        ] {
            let before = document(text);
            let after = with_signature(&before, &signature).expect("an object");
            assert_eq!(after, expected.replace("SIG", &signature.to_string()));
            assert_eq!(
                SigningPayload::of(&document(&after)),
                SigningPayload::of(&before),
                "signing changes nothing that is signed"
            );
        }
        assert_eq!(with_signature(&document("[]"), &signature), None);
    }
}
