//! Percent-encoding (RFC 3986 §2.1), and forms and queries in `application/x-www-form-urlencoded`.
//!
//! Encoding uses `percent-encoding`. Decoding is implemented here, because that crate and `form_urlencoded` keep broken escapes as they are
//! and replace bytes that are not UTF-8; this parser refuses both. Values may be secrets, so there is a way to decode into a buffer that is
//! wiped.

use std::fmt::Display;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Escapes all but the unreserved characters of RFC 3986 §2.3.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes a part of a path, or a name or value of a query: all but letters, digits and `-._~`.
pub fn percent_encode(text: &str) -> impl Display + '_ {
    utf8_percent_encode(text, RESERVED)
}

/// Decodes a part of a path. `None` for an escape without two hexadecimal digits, and for bytes that are not UTF-8.
pub fn percent_decode(encoded: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(encoded.len());
    decode(encoded.as_bytes(), false, &mut bytes)?;
    String::from_utf8(bytes).ok()
}

/// Decodes a name or value of a form, in which a plus is a space. `None` as in [`percent_decode`].
pub fn form_decode(encoded: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(encoded.len());
    form_decode_into(encoded.as_bytes(), &mut bytes)?;
    String::from_utf8(bytes).ok()
}

/// Decodes a name or value of a form into a buffer, which does not grow if it has room for the encoded bytes. `None` for an escape without
/// two hexadecimal digits; the bytes may be anything.
pub fn form_decode_into(encoded: &[u8], bytes: &mut Vec<u8>) -> Option<()> {
    decode(encoded, true, bytes)
}

/// Returns the names and values of a form, not decoded. Empty fields are left out, and a name alone has an empty value.
pub fn form_fields(encoded: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    encoded.split(|byte| *byte == b'&').filter(|field| !field.is_empty()).map(|field| {
        let end = field.iter().position(|byte| *byte == b'=');
        end.map_or((field, Default::default()), |end| (&field[..end], &field[end + 1..]))
    })
}

fn decode(encoded: &[u8], is_form: bool, bytes: &mut Vec<u8>) -> Option<()> {
    let mut rest = encoded.iter().copied();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' if is_form => b' ',
            b'%' => digit(rest.next()?)? << 4 | digit(rest.next()?)?,
            byte => byte,
        });
    }
    Some(())
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_escapes_and_other_encodings_are_refused() {
        for broken in ["%", "a%4", "%zz", "%+1", "%ff", "%C0%AF"] {
            assert_eq!((percent_decode(broken), form_decode(broken)), (None, None), "{broken}");
        }
        assert_eq!(percent_decode("a+b%20%E2%82%ac").as_deref(), Some("a+b €"));
        assert_eq!(form_decode("a+b%2B%E2%82%ac").as_deref(), Some("a b+€"));
    }

    #[test]
    fn fields_have_a_name_and_a_value() {
        let fields = form_fields(b"a=1&&b=x=y&bare&=z");
        let expected: [(&[u8], &[u8]); 4] = [(b"a", b"1"), (b"b", b"x=y"), (b"bare", b""), (b"", b"z")];
        assert_eq!(fields.collect::<Vec<_>>(), expected);
    }

    proptest::proptest! {
        #[test]
        fn what_is_encoded_is_decoded(text in "\\PC{0,40}") {
            let encoded = percent_encode(&text).to_string();
            assert!(encoded.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte)));
            assert_eq!(percent_decode(&encoded).as_deref(), Some(text.as_str()));
            assert_eq!(form_decode(&encoded).as_deref(), Some(text.as_str()));
        }
    }
}
