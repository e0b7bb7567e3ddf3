//! Strict JSON: one pass over the bytes, without guessing and without loss.
//!
//! [`read`] turns bytes into a [`Document`]: a flat list of nodes in source order, each with its byte span, over the
//! kept source text. Strings without escapes are never copied. Members of an object are sorted by UTF-16 code units
//! while reading, which finds duplicate keys at once and lets the canonical form be written in one more pass.
//!
//! The reader rejects a byte-order mark, invalid UTF-8, duplicate keys (compared after unescaping, at every depth), lone surrogates,
//! numbers that overflow a double, trailing bytes, and anything beyond [`Limits`].

mod number;
mod pretty;
mod reader;

use std::cmp::Ordering;
use std::fmt;

pub use number::write_number;
pub use pretty::pretty;
pub(crate) use reader::plain_prefix;
pub use reader::{Reading, read, read_foreign, read_up_to};

use crate::finding::Span;

/// Largest manifest: ERC-8257 Manifest Parser Hardening. Real manifests stay below 10 KiB.
pub const MAX_BYTES: usize = 1_048_576;

/// Deepest nesting of arrays and objects. Sixteen schema levels take two containers each, plus those of the manifest; sixty-four leaves
/// room and keeps recursive functions far from a stack overflow.
pub const MAX_DEPTH: usize = 64;

/// Deepest nesting that [`read_foreign`] reads, as in Go's `encoding/json`. ERC-8257 limits only schemas, and RFC 8259 §9 permits readers
/// to have a limit: without one, the pointers of a few hundred findings could take as many megabytes.
pub const MAX_FOREIGN_DEPTH: usize = 10_000;

/// Most values and keys of a tool manifest, for [`read_up_to`]. A megabyte holds half a million of them, and each takes twenty bytes
/// here and more in a validator. The largest schemas that ERC-8257 allows take some ten thousand.
pub const MAX_VALUES: usize = 32_768;

/// The limits of the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes.
    pub max_bytes: usize,
    /// Most nested containers.
    pub max_depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_bytes: MAX_BYTES, max_depth: MAX_DEPTH }
    }
}

/// A JSON document that was parsed strictly, with its source.
#[derive(Clone)]
pub struct Document {
    source: String,
    /// The texts of all strings that had escapes, concatenated.
    unescaped: String,
    /// Depth first: a container, then its children. In objects each value follows its key.
    nodes: Vec<Node>,
    /// For each object a count, then the node indices of its keys in UTF-16 order.
    order: Vec<u32>,
    /// Whether the document is I-JSON and so has canonical bytes.
    canonicalisable: bool,
    /// Whether any string or key has a character outside ASCII.
    non_ascii: bool,
}

/// The kind of a node's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number
    Number,
    /// A string
    String,
    /// An array
    Array,
    /// An object
    Object,
}

impl Kind {
    /// The phrase for this kind in messages: "an object".
    pub const fn described(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        }
    }
}

/// Twenty bytes for each value. The meaning of `a` and `b` depends on the tag.
#[derive(Clone, Copy)]
struct Node {
    tag: Tag,
    start: u32,
    end: u32,
    /// String, key: offset of the text. Number: high bits. Array: length. Object: index into `order`.
    a: u32,
    /// String, key: length of the text. Number: low bits. Array, object: index of the node after the last child.
    b: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Tag {
    Null,
    False,
    True,
    Number,
    /// An integer literal beyond 2^53, rounded.
    NumberImprecise,
    /// A non-zero literal that became zero.
    NumberUnderflow,
    /// The text is in the source.
    Str,
    /// The text is in the side buffer.
    StrEscaped,
    Key,
    KeyEscaped,
    Array,
    Object,
}

impl Document {
    /// The source text, byte for byte.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The whole document as a value.
    pub fn root(&self) -> Value<'_> {
        Value { doc: self, at: 0 }
    }

    /// Whether the document has canonical bytes: no duplicate keys, no lone surrogates.
    pub const fn is_canonicalisable(&self) -> bool {
        self.canonicalisable
    }

    /// Whether any string or key has a character outside ASCII. If not, the document is in NFC.
    pub const fn has_non_ascii(&self) -> bool {
        self.non_ascii
    }

    /// Every string value and every key with a character outside ASCII, in source order.
    pub(crate) fn non_ascii_strings(&self) -> impl Iterator<Item = Text<'_>> {
        let nodes = if self.non_ascii { &self.nodes[..] } else { &[] };
        nodes.iter().enumerate().filter_map(|(at, node)| {
            let is_key = match node.tag {
                Tag::Str | Tag::StrEscaped => false,
                Tag::Key | Tag::KeyEscaped => true,
                _ => return None,
            };
            let text = self.text(node);
            (!text.is_ascii()).then_some(Text { doc: self, at: at as u32, text, is_key })
        })
    }

    /// Every number that a double does not represent exactly, in source order.
    pub(crate) fn lossy_numbers(&self) -> impl Iterator<Item = (Value<'_>, PrecisionLoss)> {
        self.nodes.iter().enumerate().filter_map(|(at, node)| {
            let loss = match node.tag {
                Tag::NumberImprecise => PrecisionLoss::Digits,
                Tag::NumberUnderflow => PrecisionLoss::Everything,
                _ => return None,
            };
            Some((Value { doc: self, at: at as u32 }, loss))
        })
    }

    fn text(&self, node: &Node) -> &str {
        let (start, end) = (node.a as usize, node.a as usize + node.b as usize);
        match node.tag {
            Tag::Str | Tag::Key => &self.source[start..end],
            _ => &self.unescaped[start..end],
        }
    }

    /// The pointer of the node at `target`, found by walking down from the root.
    fn pointer_to(&self, target: u32) -> String {
        let mut pointer = String::new();
        let mut at = 0;
        'down: while at != target {
            let node = &self.nodes[at as usize];
            let mut child = at + 1;
            match node.tag {
                Tag::Array => {
                    let mut index = 0_usize;
                    while child < node.b {
                        let next = self.after(child);
                        if target < next {
                            pointer.push('/');
                            pointer.push_str(&index.to_string());
                            at = child;
                            continue 'down;
                        }
                        child = next;
                        index += 1;
                    }
                }
                Tag::Object => {
                    while child < node.b {
                        let next = self.after(child + 1);
                        if target < next {
                            pointer.push('/');
                            push_pointer_token(&mut pointer, self.text(&self.nodes[child as usize]));
                            if target == child {
                                return pointer;
                            }
                            at = child + 1;
                            continue 'down;
                        }
                        child = next;
                    }
                }
                _ => {}
            }
            break;
        }
        pointer
    }

    /// The index of the node that follows the subtree at `at`.
    fn after(&self, at: u32) -> u32 {
        let node = &self.nodes[at as usize];
        match node.tag {
            Tag::Array | Tag::Object => node.b,
            _ => at + 1,
        }
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document").field("bytes", &self.source.len()).field("nodes", &self.nodes.len()).finish_non_exhaustive()
    }
}

/// How much of a number is lost in a double.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrecisionLoss {
    /// An integer beyond 2^53 was rounded.
    Digits,
    /// A number close to zero became zero.
    Everything,
}

/// A string or key with its position.
#[derive(Clone, Copy, Debug)]
pub struct Text<'d> {
    doc: &'d Document,
    at: u32,
    text: &'d str,
    is_key: bool,
}

impl<'d> Text<'d> {
    /// The text, unescaped.
    pub const fn as_str(self) -> &'d str {
        self.text
    }

    /// Whether this is an object key and not a value.
    pub const fn is_key(self) -> bool {
        self.is_key
    }

    /// The span in the source, quotes included.
    pub fn span(self) -> Span {
        Value { doc: self.doc, at: self.at }.span()
    }

    /// The pointer of the value, or of the member whose key this is.
    pub fn pointer(self) -> String {
        self.doc.pointer_to(self.at)
    }
}

/// A value inside a [`Document`]. Copy it freely: it is a reference and an index.
#[derive(Clone, Copy)]
pub struct Value<'d> {
    doc: &'d Document,
    at: u32,
}

impl<'d> Value<'d> {
    fn node(self) -> &'d Node {
        &self.doc.nodes[self.at as usize]
    }

    /// The document that contains this value.
    pub const fn document(self) -> &'d Document {
        self.doc
    }

    /// The kind of this value.
    pub fn kind(self) -> Kind {
        match self.node().tag {
            Tag::Null => Kind::Null,
            Tag::False | Tag::True => Kind::Bool,
            Tag::Number | Tag::NumberImprecise | Tag::NumberUnderflow => Kind::Number,
            Tag::Str | Tag::StrEscaped | Tag::Key | Tag::KeyEscaped => Kind::String,
            Tag::Array => Kind::Array,
            Tag::Object => Kind::Object,
        }
    }

    /// The text of a string.
    pub fn as_str(self) -> Option<&'d str> {
        let node = self.node();
        matches!(node.tag, Tag::Str | Tag::StrEscaped).then(|| self.doc.text(node))
    }

    /// The value of a boolean.
    pub fn as_bool(self) -> Option<bool> {
        match self.node().tag {
            Tag::False => Some(false),
            Tag::True => Some(true),
            _ => None,
        }
    }

    /// The value of a number.
    pub fn as_f64(self) -> Option<f64> {
        let node = self.node();
        matches!(node.tag, Tag::Number | Tag::NumberImprecise | Tag::NumberUnderflow)
            .then(|| f64::from_bits(u64::from(node.a) << 32 | u64::from(node.b)))
    }

    /// The value of a number that is an integer between 0 and 2^53 - 1.
    pub fn as_u64(self) -> Option<u64> {
        let number = self.as_f64()?;
        ((0.0..=number::MAX_SAFE_INTEGER).contains(&number) && number.fract() == 0.0).then_some(number as u64)
    }

    /// The elements, if this is an array.
    pub fn as_array(self) -> Option<Array<'d>> {
        (self.node().tag == Tag::Array).then_some(Array(self))
    }

    /// The members, if this is an object.
    pub fn as_object(self) -> Option<Object<'d>> {
        (self.node().tag == Tag::Object).then_some(Object(self))
    }

    /// The member `key` of an object; `None` if it is missing or this is not an object.
    pub fn get(self, key: &str) -> Option<Self> {
        self.as_object()?.get(key)
    }

    /// Whether this is `null`.
    pub fn is_null(self) -> bool {
        self.node().tag == Tag::Null
    }

    /// The span of the value in the source.
    pub fn span(self) -> Span {
        let node = self.node();
        Span::new(node.start as usize, node.end as usize)
    }

    /// The source text of the value, as written.
    pub fn source(self) -> &'d str {
        let node = self.node();
        &self.doc.source[node.start as usize..node.end as usize]
    }

    /// The span of the key in the source, if this is a member of an object.
    pub(crate) fn key_span(self) -> Option<Span> {
        let before = Self { doc: self.doc, at: self.at.checked_sub(1)? };
        matches!(before.node().tag, Tag::Key | Tag::KeyEscaped).then(|| before.span())
    }

    /// The source text of the key, if this is a member of an object.
    pub(crate) fn key_source(self) -> Option<&'d str> {
        self.key_span().map(|span| &self.doc.source[span.start..span.end])
    }

    /// The RFC 6901 pointer of this value.
    pub fn pointer(self) -> String {
        self.doc.pointer_to(self.at)
    }

    /// The number of values and keys in this value, including itself.
    pub fn size(self) -> usize {
        (self.doc.after(self.at) - self.at) as usize
    }

    /// The number of arrays and objects in this value, including itself, and their depth. The depth is counted up to one more than
    /// [`MAX_DEPTH`].
    pub fn containers(self) -> (usize, usize) {
        let mut count = 0;
        let mut deepest = 0;
        // The ends of the containers that are currently open.
        let mut open = [0_u32; MAX_DEPTH + 1];
        let mut depth = 0;
        for at in self.at..self.doc.after(self.at) {
            let node = &self.doc.nodes[at as usize];
            if let Tag::Array | Tag::Object = node.tag {
                while depth > 0 && open[depth - 1] <= at {
                    depth -= 1;
                }
                count += 1;
                if depth < open.len() {
                    open[depth] = node.b;
                    depth += 1;
                    deepest = deepest.max(depth);
                }
            }
        }
        (count, deepest)
    }
}

impl PartialEq for Value<'_> {
    /// Whether both are the same position in the same document.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.doc, other.doc) && self.at == other.at
    }
}

impl Eq for Value<'_> {}

impl std::hash::Hash for Value<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.at.hash(state);
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.source())
    }
}

/// An array inside a [`Document`].
#[derive(Clone, Copy, Debug)]
pub struct Array<'d>(Value<'d>);

impl<'d> Array<'d> {
    /// The number of elements.
    pub fn len(self) -> usize {
        self.0.node().a as usize
    }

    /// Whether there are no elements.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The elements in order.
    pub fn iter(self) -> Elements<'d> {
        Elements { doc: self.0.doc, at: self.0.at + 1, end: self.0.node().b }
    }
}

/// The remaining elements of an [`Array`].
#[derive(Clone, Debug)]
pub struct Elements<'d> {
    doc: &'d Document,
    at: u32,
    end: u32,
}

impl<'d> Iterator for Elements<'d> {
    type Item = Value<'d>;

    fn next(&mut self) -> Option<Value<'d>> {
        (self.at < self.end).then(|| {
            let value = Value { doc: self.doc, at: self.at };
            self.at = self.doc.after(self.at);
            value
        })
    }
}

/// An object inside a [`Document`].
#[derive(Clone, Copy, Debug)]
pub struct Object<'d>(Value<'d>);

impl<'d> Object<'d> {
    /// The number of members; duplicate keys count each time.
    pub fn len(self) -> usize {
        self.0.doc.order[self.0.node().a as usize] as usize
    }

    /// Whether there are no members.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The object as a plain value.
    pub const fn value(self) -> Value<'d> {
        self.0
    }

    /// Keys and values in source order.
    pub fn iter(self) -> impl Iterator<Item = (&'d str, Value<'d>)> {
        let doc = self.0.doc;
        let end = self.0.node().b;
        let mut at = self.0.at + 1;
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let key = doc.text(&doc.nodes[at as usize]);
                let value = Value { doc, at: at + 1 };
                at = doc.after(at + 1);
                (key, value)
            })
        })
    }

    /// Keys and values in canonical order: by UTF-16 code units.
    pub fn sorted(self) -> Sorted<'d> {
        Sorted { doc: self.0.doc, keys: self.keys_sorted().iter() }
    }

    /// The value of `key`.
    pub fn get(self, key: &str) -> Option<Value<'d>> {
        let doc = self.0.doc;
        let keys = self.keys_sorted();
        let place = keys.binary_search_by(|&at| utf16_order(doc.text(&doc.nodes[at as usize]), key)).ok()?;
        Some(Value { doc, at: keys[place] + 1 })
    }

    fn keys_sorted(self) -> &'d [u32] {
        let from = self.0.node().a as usize;
        let order = &self.0.doc.order;
        &order[from + 1..from + 1 + order[from] as usize]
    }
}

/// The remaining members of an [`Object`], in canonical order.
#[derive(Clone, Debug)]
pub struct Sorted<'d> {
    doc: &'d Document,
    keys: std::slice::Iter<'d, u32>,
}

impl<'d> Iterator for Sorted<'d> {
    type Item = (&'d str, Value<'d>);

    fn next(&mut self) -> Option<Self::Item> {
        let &key = self.keys.next()?;
        Some((self.doc.text(&self.doc.nodes[key as usize]), Value { doc: self.doc, at: key + 1 }))
    }
}

/// Compares two strings by UTF-16 code units, as RFC 8785 §3.2.3 requires.
///
/// UTF-8 bytes order strings by code point. That differs from UTF-16 in one case only: a character above U+FFFF,
/// which UTF-16 writes with surrogates (D800 to DFFF), against one from U+E000 to U+FFFF.
pub fn utf16_order(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    match a.iter().zip(b).find(|(x, y)| x != y) {
        None => a.len().cmp(&b.len()),
        // Equal so far, so both bytes are lead bytes or both are continuation bytes; the latter never reach 0xEE.
        Some((&x, &y)) if x >= 0xEE && y >= 0xEE && (x >= 0xF0) != (y >= 0xF0) => y.cmp(&x),
        Some((x, y)) => x.cmp(y),
    }
}

/// Appends one reference token of an RFC 6901 pointer, escaped.
pub fn push_pointer_token(pointer: &mut String, token: &str) {
    for c in token.chars() {
        match c {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            c => pointer.push(c),
        }
    }
}

#[cfg(test)]
mod tests;
