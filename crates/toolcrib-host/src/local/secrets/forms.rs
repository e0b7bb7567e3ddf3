//! The encodings in which programs print a value by accident.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use base64ct::{Base64Unpadded, Base64UrlUnpadded, Encoding};
use zeroize::{Zeroize as _, Zeroizing};

/// Shortest value that is redacted. A shorter one, such as `1234` or `admin`, is also an ordinary word or number; replacing it would
/// damage results and reveal where the value is.
pub const MIN_REDACTED_BYTES: usize = 8;

/// Shortest line of a multi-line value that is redacted on its own, because logs are split at line breaks. Shorter lines are `}` or
/// `"type": "x"`.
pub const MIN_REDACTED_LINE: usize = 16;

/// The encoded forms of all values, without duplicates. Wiped when dropped.
#[derive(Default)]
pub(super) struct Forms(BTreeSet<Vec<u8>>);

impl Forms {
    /// Adds all forms of a value.
    pub(super) fn add(&mut self, value: &str) {
        if value.len() < MIN_REDACTED_BYTES {
            return;
        }
        self.add_encodings(value);
        let lines: Vec<_> = value.lines().map(str::trim).filter(|line| line.len() >= MIN_REDACTED_LINE).collect();
        if value.contains('\n') {
            for line in lines {
                self.add_text(line.to_owned());
            }
        }
    }

    /// The forms as patterns.
    pub(super) fn patterns(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.0.iter().map(Vec::as_slice)
    }

    fn add_encodings(&mut self, value: &str) {
        self.add_text(value.to_owned());
        self.add_text(json_escaped(value));
        self.add_text(json_escaped(value).replace('/', "\\/"));
        self.add_text(json_escaped(&json_escaped(value)));
        self.add_text(json_ascii(value));
        self.add_text(html_escaped(value));
        for (kept, upper) in [("-._~", true), ("-._~", false), ("-._~!*'()", true), ("-._*", true)] {
            self.add_text(percent_encoded(value, kept, upper, "%20"));
        }
        self.add_text(percent_encoded(value, "-._*", true, "+"));
        self.add_text(hex(value, false));
        self.add_text(hex(value, true));
        self.add_text(Base64Unpadded::encode_string(value.as_bytes()));
        self.add_text(Base64UrlUnpadded::encode_string(value.as_bytes()));
        for offset in 0..3 {
            self.add_text(base64_inside::<Base64Unpadded>(value, offset));
            self.add_text(base64_inside::<Base64UrlUnpadded>(value, offset));
        }
    }

    fn add_text(&mut self, text: String) {
        // A set does not return a rejected value for wiping, so membership is checked first.
        let text = Zeroizing::new(text.into_bytes());
        if !self.0.contains(&*text) {
            self.0.insert(text.to_vec());
        }
    }
}

impl Drop for Forms {
    fn drop(&mut self) {
        for mut form in std::mem::take(&mut self.0) {
            form.zeroize();
        }
    }
}

/// The value as a JSON string, without quotes.
fn json_escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len() + 2);
    toolcrib_core::canon::write_string(value, &mut text);
    text.pop();
    text.remove(0);
    text
}

/// The value as an ASCII-only JSON string, as Python writes it.
fn json_ascii(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for c in json_escaped(value).chars() {
        if c.is_ascii() && c != '\u{7f}' {
            text.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(text, "\\u{unit:04x}");
            }
        }
    }
    text
}

fn html_escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            '\'' => text.push_str("&#39;"),
            _ => text.push(c),
        }
    }
    text
}

/// Percent-encodes for one of the encoders that a secret may pass through. `percent-encoding` only writes upper-case digits.
fn percent_encoded(value: &str, kept: &str, upper: bool, space: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        let _ = match byte {
            b' ' => text.write_str(space),
            _ if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) => text.write_char(char::from(byte)),
            _ if upper => write!(text, "%{byte:02X}"),
            _ => write!(text, "%{byte:02x}"),
        };
    }
    text
}

fn hex(value: &str, upper: bool) -> String {
    let mut text = String::with_capacity(value.len() * 2);
    for byte in value.bytes() {
        let _ = if upper { write!(text, "{byte:02X}") } else { write!(text, "{byte:02x}") };
    }
    text
}

/// The base64 characters that do not depend on the bytes around the value, with `offset` bytes (modulo 3) before it.
fn base64_inside<E: Encoding>(value: &str, offset: usize) -> String {
    let mut bytes = Zeroizing::new(vec![0; offset]);
    bytes.reserve_exact(value.len());
    bytes.extend_from_slice(value.as_bytes());
    let text = Zeroizing::new(E::encode_string(&bytes));
    // Six bits each: the first characters contain bits of the bytes before, and the last one bits of the byte after unless both end
    // together.
    let first = (offset * 8).div_ceil(6);
    let last = bytes.len() * 8 / 6;
    text[first..last].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forms(value: &str) -> Vec<String> {
        let mut forms = Forms::default();
        forms.add(value);
        forms.patterns().map(|form| String::from_utf8(form.to_vec()).unwrap()).collect()
    }

    #[test]
    fn base64_is_found_at_every_offset_and_with_any_neighbours() {
        for length in 8..20 {
            let value: String = ('a'..='z').cycle().skip(length).take(length).collect();
            for before in 0..7 {
                for after in ["", "x", "yz", ":tail"] {
                    let text = format!("{}{value}{after}", &"secret:"[..before]);
                    let encoded = Base64Unpadded::encode_string(text.as_bytes());
                    let core = base64_inside::<Base64Unpadded>(&value, before % 3);
                    assert!(encoded.contains(&core), "{text} {core} {encoded}");
                    // At most one byte at each end is not covered.
                    assert!(core.len() * 6 + 16 > value.len() * 8, "{core}");
                }
            }
        }
    }

    #[test]
    fn plain_values_have_few_forms() {
        // Value, two cases of hex, and base64 at three offsets with its standalone form.
        assert!(forms("abcdefgh1234").len() <= 8, "{:?}", forms("abcdefgh1234"));
        assert!(forms("1234567").is_empty());
    }

    #[test]
    fn odd_characters_have_all_their_forms() {
        let all = forms("pä ss/w\"o&rd\n");
        for expected in [
            "pä ss/w\"o&rd\n",
            "pä ss/w\\\"o&rd\\n",
            "pä ss\\/w\\\"o&rd\\n",
            "pä ss/w\\\\\\\"o&rd\\\\n",
            "p\\u00e4 ss/w\\\"o&rd\\n",
            "pä ss/w&quot;o&amp;rd\n",
            "p%C3%A4%20ss%2Fw%22o%26rd%0A",
            "p%c3%a4%20ss%2fw%22o%26rd%0a",
            "p%C3%A4+ss%2Fw%22o%26rd%0A",
            "70c3a42073732f77226f2672640a",
            "70C3A42073732F77226F2672640A",
            "cMOkIHNzL3cibyZyZAo",
        ] {
            assert!(all.iter().any(|form| form == expected), "{expected} is missing in {all:?}");
        }
    }

    #[test]
    fn lines_of_a_key_file_are_forms() {
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\nshort\n-----END PRIVATE KEY-----\n", "MIIEvQIBADANBgkqhkiG9w0");
        let all = forms(&pem);
        assert!(all.iter().any(|form| form == "MIIEvQIBADANBgkqhkiG9w0"));
        assert!(all.iter().all(|form| form != "short"));
    }
}
