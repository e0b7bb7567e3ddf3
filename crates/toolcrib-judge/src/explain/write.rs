//! Serialises a document in the ways of other programs.
//!
//! A [`Variant`] describes the changes of content: removed fields, another `type`, other hex digits, another Unicode form. A [`Layout`]
//! describes the serialisation. Together they give the bytes that may have been hashed instead of the canonical ones. The output is only
//! hashed, never served or sealed.

use toolcrib_core::canon::write_string;
use toolcrib_core::json::{Kind, Object, Value, utf16_order, write_number};
use toolcrib_core::tool::FIELD_NAMES;
use unicode_normalization::UnicodeNormalization;

/// The changes of a document before it is serialised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Variant<'v> {
    pub(super) strip: Option<Strip>,
    pub(super) kind: TypeChange,
    pub(super) unicode: Option<UnicodeForm>,
    /// Strings to be replaced, in source order.
    pub(super) replaced: &'v [(usize, String)],
}

/// Replacements of strings, by the source position of the old ones.
pub(super) type Replacements = Vec<(usize, String)>;

/// The members to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strip {
    /// How many of [`LATER_FIELDS`], counted from the end of the list, count as unknown too.
    pub(super) older: usize,
    /// Whether unknown members of nested objects are removed too.
    pub(super) nested: bool,
}

/// Fields that some versions of some clients did not know, in the order in which they spread: a client that knows one of them knows those
/// before it.
pub(super) const LATER_FIELDS: [&str; 3] = ["verifiability", "maxAge", "featuredImage"];

/// A change of the root's `type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TypeChange {
    #[default]
    Kept,
    Set(&'static str),
    Removed,
}

/// A Unicode normalisation form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnicodeForm {
    /// Composed.
    Nfc,
    /// Decomposed.
    Nfd,
}

/// The layout of a serialised document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) order: Order,
    pub(super) comma: &'static str,
    pub(super) colon: &'static str,
    /// The indentation of a level; without it everything is on one line.
    pub(super) indent: Option<&'static str>,
    pub(super) escapes: Escapes,
    pub(super) numbers: Numbers,
    pub(super) final_newline: bool,
}

impl Layout {
    /// RFC 8785.
    pub(super) const CANONICAL: Self = Self {
        order: Order::Utf16,
        comma: ",",
        colon: ":",
        indent: None,
        escapes: Escapes::Smallest,
        numbers: Numbers::EcmaScript,
        final_newline: false,
    };
}

/// The order of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Source,
    /// Sorted at the root, in source order below it.
    RootSorted,
    /// The output of `JSON.stringify(value, Object.keys(value).sort())`: sorted, and below the root only members whose names occur at the
    /// root.
    RootNames,
    Utf16,
    CodePoint,
}

/// The escaped characters of strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Escapes {
    /// As few as JSON permits.
    Smallest,
    /// Everything outside printable ASCII, Python's default.
    Ascii,
}

/// The format of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbers {
    EcmaScript,
    /// As in the source.
    Source,
    /// Whole literals as integers, the others as Python's `repr`.
    Python,
}

/// Longest serialised text. Eight times the largest manifest: indentation and escapes make a legitimate document at most six times longer,
/// a hostile one a hundred times.
pub(super) const MAX_WRITTEN: usize = 8 * toolcrib_core::json::MAX_BYTES;

/// Serialises `root` into `out`, which is cleared first. Returns `false` if the text would exceed [`MAX_WRITTEN`].
pub(super) fn write(root: Value<'_>, variant: &Variant<'_>, layout: &Layout, out: &mut String) -> bool {
    out.clear();
    let mut writer = Writer { variant, layout, root: root.as_object(), out };
    writer.value(root, Shape::Root, 0);
    if layout.final_newline {
        out.push('\n');
    }
    out.len() <= MAX_WRITTEN
}

/// The part of a manifest that an object is, which decides its known members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Root,
    Price,
    Access,
    Requirement,
    Verifiability,
    Attestation,
    Build,
    /// Schemas, extensions, and everything else without defined members.
    Free,
}

impl Shape {
    /// The shape of the member `key`, or of the elements of its array.
    fn child(self, key: &str) -> Self {
        match (self, key) {
            (Self::Root, "pricing") => Self::Price,
            (Self::Root, "access") => Self::Access,
            (Self::Access, "requirements") => Self::Requirement,
            (Self::Root, "verifiability") => Self::Verifiability,
            (Self::Verifiability, "attestation") => Self::Attestation,
            (Self::Verifiability, "reproducibleBuild") => Self::Build,
            _ => Self::Free,
        }
    }

    /// Whether the member `key` is removed.
    fn drops(self, key: &str, strip: Strip) -> bool {
        let known: &[&str] = match self {
            Self::Root => {
                let older = &LATER_FIELDS[LATER_FIELDS.len().saturating_sub(strip.older)..];
                return !FIELD_NAMES.contains(&key) || older.contains(&key);
            }
            Self::Free => return false,
            _ if !strip.nested => return false,
            Self::Price => &["amount", "asset", "recipient", "protocol"],
            Self::Access => &["logic", "requirements"],
            Self::Requirement => &["kind", "data", "label", "links"],
            Self::Verifiability => {
                &["tier", "execution", "description", "dataRetention", "sourceVisibility", "attestation", "reproducibleBuild"]
            }
            Self::Attestation => &["type", "endpoint", "enclaveHash", "maxAge", "transparencyLogURI"],
            Self::Build => &["sourceCodeURI", "buildInstructions", "buildHash"],
        };
        !known.contains(&key)
    }
}

struct Writer<'w> {
    variant: &'w Variant<'w>,
    layout: &'w Layout,
    root: Option<Object<'w>>,
    out: &'w mut String,
}

impl Writer<'_> {
    /// The recursion is as deep as the document, whose depth the reader limits.
    fn value(&mut self, value: Value<'_>, shape: Shape, level: usize) {
        if self.out.len() > MAX_WRITTEN {
            return;
        }
        match value.kind() {
            Kind::Null | Kind::Bool => self.out.push_str(value.source()),
            Kind::Number => self.number(value),
            Kind::String => self.string_value(value),
            Kind::Array => self.array(value, shape, level),
            Kind::Object => {
                if let Some(object) = value.as_object() {
                    self.object(object, shape, level);
                }
            }
        }
    }

    fn array(&mut self, value: Value<'_>, shape: Shape, level: usize) {
        self.out.push('[');
        let mut any = false;
        for element in value.as_array().into_iter().flat_map(toolcrib_core::json::Array::iter) {
            self.separate(any, level + 1);
            self.value(element, shape, level + 1);
            any = true;
            if self.out.len() > MAX_WRITTEN {
                return;
            }
        }
        self.close(any, level, ']');
    }

    fn object(&mut self, object: Object<'_>, shape: Shape, level: usize) {
        self.out.push('{');
        let mut any = false;
        for (key, member) in self.members(object, shape) {
            self.separate(any, level + 1);
            self.string(key);
            self.out.push_str(self.layout.colon);
            match member {
                Member::Text(text) => self.string(text),
                Member::Value(value) => self.value(value, shape.child(key), level + 1),
            }
            any = true;
            if self.out.len() > MAX_WRITTEN {
                return;
            }
        }
        self.close(any, level, '}');
    }

    /// The members to write, in order. Of duplicate keys the last counts, as in most parsers.
    fn members<'d>(&self, object: Object<'d>, shape: Shape) -> Vec<(&'d str, Member<'d>)> {
        let loses_type = shape == Shape::Root && self.variant.kind == TypeChange::Removed;
        let kept = |key: &str| {
            let is_dropped = self.variant.strip.is_some_and(|strip| shape.drops(key, strip)) || loses_type && key == "type";
            !is_dropped
        };
        let order = match self.layout.order {
            Order::RootSorted if shape == Shape::Root => Order::Utf16,
            Order::RootSorted => Order::Source,
            Order::RootNames => Order::Utf16,
            order => order,
        };
        let mut members: Vec<(&str, Member<'_>)> = match order {
            Order::Source => object.iter().filter(|(key, _)| kept(key)).map(|(key, value)| (key, Member::Value(value))).collect(),
            _ => object.sorted().filter(|(key, _)| kept(key)).map(|(key, value)| (key, Member::Value(value))).collect(),
        };
        if self.layout.order == Order::RootNames {
            members.retain(|(key, _)| self.root.is_some_and(|root| root.get(key).is_some()));
        }
        if !object.value().document().is_canonicalisable() {
            keep_last(&mut members, order);
        }
        if let (Shape::Root, TypeChange::Set(kind)) = (shape, self.variant.kind) {
            match members.iter_mut().find(|(key, _)| *key == "type") {
                Some((_, member)) => *member = Member::Text(kind),
                None => {
                    let at = match order {
                        Order::Source => 0,
                        _ => members.partition_point(|(key, _)| utf16_order(key, "type").is_lt()),
                    };
                    members.insert(at, ("type", Member::Text(kind)));
                }
            }
        }
        if self.layout.order == Order::CodePoint {
            // UTF-8 sorts by code point.
            members.sort_by_key(|(key, _)| *key);
        }
        members
    }

    fn string_value(&mut self, value: Value<'_>) {
        let start = value.span().start;
        match self.variant.replaced.binary_search_by_key(&start, |(at, _)| *at) {
            Ok(found) => {
                let replaced = self.variant.replaced;
                self.string(&replaced[found].1);
            }
            Err(_) => self.string_normalized(value.as_str().unwrap_or_default()),
        }
    }

    fn string_normalized(&mut self, text: &str) {
        match self.variant.unicode {
            Some(UnicodeForm::Nfc) if !text.is_ascii() => self.string(&text.nfc().collect::<String>()),
            Some(UnicodeForm::Nfd) if !text.is_ascii() => self.string(&text.nfd().collect::<String>()),
            _ => self.string(text),
        }
    }

    fn string(&mut self, text: &str) {
        match self.layout.escapes {
            Escapes::Ascii if text.bytes().any(|byte| !(b' '..=b'~').contains(&byte)) => write_ascii(text, self.out),
            _ => write_string(text, self.out),
        }
    }

    fn number(&mut self, value: Value<'_>) {
        let number = value.as_f64().unwrap_or(0.0);
        match self.layout.numbers {
            Numbers::EcmaScript => write_number(number, self.out),
            Numbers::Source => self.out.push_str(value.source()),
            Numbers::Python if value.source().bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()) => {
                self.out.push_str(if value.source() == "-0" { "0" } else { value.source() });
            }
            Numbers::Python => write_python_float(number, self.out),
        }
    }

    fn separate(&mut self, any: bool, level: usize) {
        if any {
            self.out.push_str(self.layout.comma);
        }
        self.new_line(level);
    }

    fn close(&mut self, any: bool, level: usize, bracket: char) {
        if any {
            self.new_line(level);
        }
        self.out.push(bracket);
    }

    fn new_line(&mut self, level: usize) {
        if let Some(indent) = self.layout.indent {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(indent, level));
        }
    }
}

#[derive(Clone, Copy)]
enum Member<'d> {
    Value(Value<'d>),
    Text(&'static str),
}

impl Member<'_> {
    fn start(self) -> usize {
        match self {
            Self::Value(value) => value.span().start,
            Self::Text(_) => usize::MAX,
        }
    }
}

/// Of duplicate members keeps the last one of the source, at the position of the first.
fn keep_last(members: &mut Vec<(&str, Member<'_>)>, order: Order) {
    if order == Order::Source {
        let mut last = std::collections::BTreeMap::new();
        for (key, member) in members.iter() {
            last.insert(*key, *member);
        }
        // Removing each key from the map keeps only its first position.
        members.retain_mut(|(key, member)| last.remove(key).map(|value| *member = value).is_some());
    } else {
        members.sort_by(|(a, first), (b, second)| utf16_order(a, b).then(second.start().cmp(&first.start())));
        members.dedup_by(|(a, _), (b, _)| a == b);
    }
}

/// A string as Python writes it with `ensure_ascii`: everything outside printable ASCII as UTF-16 escapes.
fn write_ascii(text: &str, out: &mut String) {
    use std::fmt::Write;

    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
}

/// A double as Python's `repr` writes it: the shortest digits, an exponent below 1e-4 and from 1e16, and always a point or an exponent.
fn write_python_float(number: f64, out: &mut String) {
    use std::fmt::Write;

    // Rust's shortest digits, as `-d.ddde-x`.
    let scientific = format!("{number:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return out.push_str(&scientific) };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // Writing to a string cannot fail.
    let _ = if (-4..16).contains(&exponent) {
        let plain = format!("{number}");
        out.push_str(&plain);
        if plain.contains('.') { Ok(()) } else { write!(out, ".0") }
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "{mantissa}e{sign}{:02}", exponent.unsigned_abs())
    };
}

#[cfg(test)]
mod tests {
    use toolcrib_core::json::{self, Limits};

    use super::*;

    #[track_caller]
    fn check(source: &str, variant: &Variant<'_>, layout: &Layout, wanted: &str) {
        let document = json::read(source.as_bytes(), Limits::default()).document.expect("the test source is JSON");
        let mut out = String::new();
        assert!(write(document.root(), variant, layout, &mut out));
        assert_eq!(out, wanted);
    }

    const PYTHON: Layout = Layout {
        order: Order::CodePoint,
        comma: ", ",
        colon: ": ",
        escapes: Escapes::Ascii,
        numbers: Numbers::Python,
        ..Layout::CANONICAL
    };

    // The output of Python 3.13 for `json.dumps(…, sort_keys=True)`.
    #[test]
    fn python_is_written_as_python_does() {
        check(
            r#"{"b": [1, 1.0, -0, -0.0, 1e3, 1e16, 1.5e-5, 0.0001, 123456789012345680.0, 1e22], "a": "é\u0000\u007f😀\"\\/"}"#,
            &Variant::default(),
            &PYTHON,
            r#"{"a": "\u00e9\u0000\u007f\ud83d\ude00\"\\/", "b": [1, 1.0, 0, -0.0, 1000.0, 1e+16, 1.5e-05, 0.0001, 1.2345678901234568e+17, 1e+22]}"#,
        );
        check(r#"{"😀":1,"ﬀ":2}"#, &Variant::default(), &Layout { escapes: Escapes::Smallest, ..PYTHON }, r#"{"ﬀ": 2, "😀": 1}"#);
        check(r#"{"ﬀ":2,"😀":1}"#, &Variant::default(), &Layout::CANONICAL, r#"{"😀":1,"ﬀ":2}"#);
    }

    #[test]
    fn indented_text_is_what_javascript_gives() {
        let layout = Layout { order: Order::Source, colon: ": ", indent: Some("  "), ..Layout::CANONICAL };
        check(
            r#"{"b":[],"a":{},"c":[1,{"d":1.0}]}"#,
            &Variant::default(),
            &layout,
            "{\n  \"b\": [],\n  \"a\": {},\n  \"c\": [\n    1,\n    {\n      \"d\": 1\n    }\n  ]\n}",
        );
    }

    #[test]
    fn members_are_stripped_where_they_are_defined_and_nowhere_else() {
        let source = r#"{"inputs":{"x":1},"maxAge":1,"name":"n","pricing":[{"amount":"1","x":1}],"verifiability":{"x":1},"x":1}"#;
        let strip = |older, nested| Variant::<'static> { strip: Some(Strip { older, nested }), ..Variant::default() };
        for (older, nested, wanted) in [
            (0, false, r#"{"inputs":{"x":1},"maxAge":1,"name":"n","pricing":[{"amount":"1","x":1}],"verifiability":{"x":1}}"#),
            (0, true, r#"{"inputs":{"x":1},"maxAge":1,"name":"n","pricing":[{"amount":"1"}],"verifiability":{}}"#),
            (2, true, r#"{"inputs":{"x":1},"name":"n","pricing":[{"amount":"1"}],"verifiability":{}}"#),
            (3, false, r#"{"inputs":{"x":1},"name":"n","pricing":[{"amount":"1","x":1}]}"#),
        ] {
            check(source, &strip(older, nested), &Layout::CANONICAL, wanted);
        }
    }

    #[test]
    fn the_type_is_set_or_removed_at_the_root_alone() {
        let with = |kind| Variant { kind, ..Variant::default() };
        let source = r#"{"z":1,"inputs":{"type":"object"}}"#;
        check(source, &with(TypeChange::Set("t")), &Layout::CANONICAL, r#"{"inputs":{"type":"object"},"type":"t","z":1}"#);
        let in_order = Layout { order: Order::Source, ..Layout::CANONICAL };
        check(source, &with(TypeChange::Set("t")), &in_order, r#"{"type":"t","z":1,"inputs":{"type":"object"}}"#);
        check(r#"{"a":{"type":1},"type":"u"}"#, &with(TypeChange::Removed), &Layout::CANONICAL, r#"{"a":{"type":1}}"#);
        check(r#"{"type":"u"}"#, &with(TypeChange::Set("t")), &in_order, r#"{"type":"t"}"#);
    }

    // The output of Node for both ways of sorting by hand.
    #[test]
    fn members_sorted_by_hand_are_sorted_at_the_root() {
        let source = r#"{"b":{"d":1,"b":2,"a":[{"c":3,"a":4}]},"a":5}"#;
        let layout = |order| Layout { order, ..Layout::CANONICAL };
        let (outer, names) = (layout(Order::RootSorted), layout(Order::RootNames));
        check(source, &Variant::default(), &outer, r#"{"a":5,"b":{"d":1,"b":2,"a":[{"c":3,"a":4}]}}"#);
        check(source, &Variant::default(), &names, r#"{"a":5,"b":{"a":[{"a":4}],"b":2}}"#);
    }

    #[test]
    fn of_equal_keys_the_last_counts() {
        let source = r#"{"b":1,"a":2,"b":3,"a":{"c":4,"c":5}}"#;
        check(source, &Variant::default(), &Layout::CANONICAL, r#"{"a":{"c":5},"b":3}"#);
        let in_order = Layout { order: Order::Source, ..Layout::CANONICAL };
        check(source, &Variant::default(), &in_order, r#"{"b":3,"a":{"c":5}}"#);
    }

    #[test]
    fn text_that_grows_without_end_is_given_up() {
        let source = format!("{}{}{}", "[".repeat(60), vec!["0"; 200_000].join(","), "]".repeat(60));
        let document = json::read(source.as_bytes(), Limits::default()).document.expect("JSON");
        let mut out = String::new();
        let wide = Layout { indent: Some("    "), ..Layout::CANONICAL };
        assert!(!write(document.root(), &Variant::default(), &wide, &mut out));
        assert!(out.len() < MAX_WRITTEN + 1024, "{}", out.len());
        assert!(write(document.root(), &Variant::default(), &Layout::CANONICAL, &mut out));
    }
}
