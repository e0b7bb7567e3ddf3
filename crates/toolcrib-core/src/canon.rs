//! Canonical bytes: RFC 8785, keccak256, and values sealed with both.
//!
//! Nothing is inserted, dropped or repaired here. Unknown fields are kept and hashed like all others.

use std::fmt;
use std::ops::Deref;

use alloy_primitives::{B256, keccak256};

use crate::json::{Document, Elements, Kind, Sorted, Value, plain_prefix, write_number};

/// The RFC 8785 form of a document and its keccak256.
#[derive(Clone, PartialEq, Eq)]
pub struct Canonical {
    text: String,
    hash: B256,
}

impl Canonical {
    /// Canonicalises a document. `None` if it has no canonical form: duplicate keys or lone surrogates.
    pub fn of(document: &Document) -> Option<Self> {
        document.is_canonicalisable().then(|| {
            let mut text = String::with_capacity(document.source().len());
            write_value(document.root(), &mut text);
            let hash = keccak256(text.as_bytes());
            Self { text, hash }
        })
    }

    /// The canonical text. Its UTF-8 bytes are hashed and signed.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The canonical bytes.
    pub const fn as_bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// keccak256 of the canonical bytes.
    pub const fn hash(&self) -> B256 {
        self.hash
    }
}

impl fmt::Debug for Canonical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Canonical({} bytes, {})", self.text.len(), self.hash)
    }
}

/// A value together with its canonical bytes and their hash.
///
/// Only the parsers and builders of this crate create it: a `Sealed<T>` guarantees that the hash belongs to the value, and that the value
/// passed the checks of `T`.
#[derive(Clone, Debug)]
pub struct Sealed<T> {
    value: T,
    canonical: Canonical,
}

impl<T> Sealed<T> {
    pub(crate) const fn new(value: T, canonical: Canonical) -> Self {
        Self { value, canonical }
    }

    /// The value.
    pub const fn value(&self) -> &T {
        &self.value
    }

    /// The canonical bytes and hash.
    pub const fn canonical(&self) -> &Canonical {
        &self.canonical
    }

    /// keccak256 of the canonical bytes.
    pub const fn hash(&self) -> B256 {
        self.canonical.hash
    }

    /// Returns the value and its canonical form.
    pub fn into_parts(self) -> (T, Canonical) {
        (self.value, self.canonical)
    }
}

impl<T> Deref for Sealed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// Appends the canonical form of `value`. It does not recurse, because untrusted documents may nest deeply.
pub fn write_value(value: Value<'_>, out: &mut String) {
    let mut open: Vec<Rest<'_>> = Vec::new();
    let mut next = Some(value);
    while let Some(value) = next {
        match value.kind() {
            Kind::Null => out.push_str("null"),
            Kind::Bool => out.push_str(if value.as_bool() == Some(true) { "true" } else { "false" }),
            Kind::Number => write_number(value.as_f64().unwrap_or(0.0), out),
            Kind::String => write_text(value.source(), value.as_str().unwrap_or_default(), out),
            Kind::Array => {
                out.push('[');
                open.extend(value.as_array().map(|array| Rest::Elements(array.iter())));
            }
            Kind::Object => {
                out.push('{');
                open.extend(value.as_object().map(|object| Rest::Members(object.sorted())));
            }
        }
        next = None;
        while let Some(container) = open.last_mut() {
            // No value ends with an opening bracket, so a container has just been opened.
            let is_first = out.ends_with(['[', '{']);
            let (member, close) = match container {
                Rest::Elements(elements) => (elements.next().map(|value| (None, value)), ']'),
                Rest::Members(members) => (members.next().map(|(key, value)| (Some(key), value)), '}'),
            };
            let Some((key, value)) = member else {
                out.push(close);
                open.pop();
                continue;
            };
            if !is_first {
                out.push(',');
            }
            if let Some(key) = key {
                write_text(value.key_source().unwrap_or_default(), key, out);
                out.push(':');
            }
            next = Some(value);
            break;
        }
    }
}

/// The unwritten rest of a container.
enum Rest<'d> {
    Elements(Elements<'d>),
    Members(Sorted<'d>),
}

/// Appends a string whose source, quotes included, is `source`: a string without escapes in the source needs none here.
fn write_text(source: &str, text: &str, out: &mut String) {
    if source.len() == text.len() + 2 {
        out.push_str(source);
    } else {
        write_string(text, out);
    }
}

/// Appends a JSON string with minimal escapes, as RFC 8785 §3.2.2.2 requires.
pub fn write_string(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    loop {
        let (plain, special) = rest.split_at(plain_prefix(rest.as_bytes()));
        out.push_str(plain);
        let Some(&byte) = special.as_bytes().first() else { break };
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x08 => out.push_str("\\b"),
            b'\t' => out.push_str("\\t"),
            b'\n' => out.push_str("\\n"),
            0x0C => out.push_str("\\f"),
            b'\r' => out.push_str("\\r"),
            control => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.push_str("\\u00");
                out.push(char::from(HEX[usize::from(control >> 4)]));
                out.push(char::from(HEX[usize::from(control & 15)]));
            }
        }
        // A run of plain characters ends at one ASCII byte.
        rest = &special[1..];
    }
    out.push('"');
}
