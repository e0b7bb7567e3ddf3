//! The reader: one pass over the bytes with an explicit stack, so that nesting does not use the stack of the thread.

use super::number::{self, Parsed};
use super::{Document, Limits, MAX_FOREIGN_DEPTH, MAX_VALUES, Node, Tag, utf16_order};
use crate::codes;
use crate::finding::{Edit, Finding, Findings, Fix, Severity, Span};

/// The result of reading: a document unless the bytes are not JSON at all, and the findings.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The document. It may be present beside findings: duplicate keys and lone surrogates leave a tree that can be inspected, but has no
    /// canonical bytes.
    pub document: Option<Document>,
    /// The findings of the reader.
    pub findings: Findings,
}

/// Reads a document strictly.
///
/// ```
/// use toolcrib_core::json::{Limits, read};
///
/// let reading = read(br#"{"a": 1, "\u0061": 2}"#, Limits::default());
/// assert_eq!(reading.findings.as_slice()[0].code.id(), "json.duplicate_key");
/// ```
pub fn read(bytes: &[u8], limits: Limits) -> Reading {
    read_up_to(bytes, limits, usize::MAX)
}

/// Reads a document strictly, up to `max_values` values and keys: for readers with bounded memory.
pub fn read_up_to(bytes: &[u8], limits: Limits, max_values: usize) -> Reading {
    run(bytes, limits, max_values, false)
}

/// Reads a document whose format limits neither depth nor values: exceeding `limits` or `max_values` is a warning, up to
/// [`MAX_FOREIGN_DEPTH`]. The size is still limited.
pub fn read_foreign(bytes: &[u8], limits: Limits, max_values: usize) -> Reading {
    run(bytes, limits, max_values, true)
}

fn run(bytes: &[u8], limits: Limits, max_values: usize, is_foreign: bool) -> Reading {
    let mut findings = Findings::new();
    let document = match Reader::run(bytes, limits, max_values, is_foreign, &mut findings) {
        Ok(document) => Some(document),
        Err(Stop(finding)) => {
            findings.push(*finding);
            None
        }
    };
    Reading { document, findings }
}

/// A finding after which reading cannot continue. Boxed, because `Result`s without an error are returned millions of times.
struct Stop(Box<Finding>);

type Step<T> = Result<T, Stop>;

/// A key that is to be sorted.
#[derive(Clone, Copy)]
struct Key {
    /// The first eight bytes, big-endian, padded with zeros: distinguishes most keys in one comparison.
    prefix: u64,
    /// Its node.
    node: u32,
}

/// A container that is not closed yet.
#[derive(Clone, Copy)]
struct Open {
    /// Its node.
    node: usize,
    /// Array: the number of elements so far. Object: the index of its first key in [`Reader::keys`].
    count: usize,
}

struct Reader<'a> {
    bytes: &'a [u8],
    source: &'a str,
    at: usize,
    open: Vec<Open>,
    nodes: Vec<Node>,
    order: Vec<u32>,
    unescaped: String,
    /// Keys of the open objects; each object uses the tail that it pushed.
    keys: Vec<Key>,
    canonicalisable: bool,
    findings: &'a mut Findings,
    max_depth: usize,
    max_values: usize,
    /// Whether the two limits above are warnings.
    is_foreign: bool,
}

impl<'a> Reader<'a> {
    fn run(bytes: &'a [u8], limits: Limits, max_values: usize, is_foreign: bool, findings: &'a mut Findings) -> Step<Document> {
        if bytes.len() > limits.max_bytes {
            return Err(stop(
                Finding::new(codes::json::TOO_LARGE)
                    .expected(format!("at most {} bytes", limits.max_bytes))
                    .got(format!("{} bytes", bytes.len())),
            ));
        }
        // Offsets have 32 bits.
        assert!(u32::try_from(limits.max_bytes).is_ok(), "a reader limit of 4 GiB or more is a programming error");
        if bytes.starts_with(b"\xEF\xBB\xBF") {
            let mark = Span::new(0, 3);
            let edit = Edit { span: mark, replacement: String::new() };
            let fix = Fix { title: "remove the byte-order mark".to_owned(), edits: vec![edit] };
            return Err(stop(Finding::new(codes::json::BOM).at_span(mark).fix(fix)));
        }
        let source = std::str::from_utf8(bytes).map_err(|error| {
            let start = error.valid_up_to();
            let end = start + error.error_len().unwrap_or(bytes.len() - start);
            stop(
                Finding::new(codes::json::INVALID_UTF8)
                    .at_span(Span::new(start, end))
                    .got(format!("byte 0x{:02x}", bytes[start])),
            )
        })?;
        let mut reader = Self {
            bytes,
            source,
            at: 0,
            open: Vec::with_capacity(32),
            // Manifests have about one node for every ten bytes. Large files are mostly long texts and do not justify allocating twice
            // their size.
            nodes: Vec::with_capacity((bytes.len() / 10 + 4).min(MAX_VALUES / 4)),
            order: Vec::with_capacity((bytes.len() / 24 + 4).min(MAX_VALUES / 8)),
            unescaped: String::new(),
            keys: Vec::with_capacity(32),
            canonicalisable: true,
            findings,
            max_depth: limits.max_depth,
            max_values,
            is_foreign,
        };
        reader.skip_whitespace();
        if reader.at == bytes.len() {
            return Err(stop(Finding::new(codes::json::EMPTY)));
        }
        reader.value()?;
        reader.skip_whitespace();
        if reader.at < bytes.len() {
            let rest = Span::new(reader.at, bytes.len());
            return Err(stop(Finding::new(codes::json::TRAILING_BYTES).at_span(rest).got(&source[reader.at..])));
        }
        let Self { nodes, order, unescaped, canonicalisable, .. } = reader;
        Ok(Document {
            source: source.to_owned(),
            unescaped,
            nodes,
            order,
            canonicalisable,
            non_ascii: !bytes.is_ascii() || has_non_ascii_escape(source, bytes),
        })
    }

    /// Reads one value and its children.
    fn value(&mut self) -> Step<()> {
        loop {
            if self.begin()? {
                continue;
            }
            // A value has ended, and perhaps the containers around it.
            loop {
                let Some(container) = self.open.last_mut() else { return Ok(()) };
                let is_object = self.nodes[container.node].tag == Tag::Object;
                container.count += usize::from(!is_object);
                self.skip_whitespace();
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        self.skip_whitespace();
                        if is_object {
                            self.key()?;
                        }
                        break;
                    }
                    Some(b'}') if is_object => self.end_container(),
                    Some(b']') if !is_object => self.end_container(),
                    _ if is_object => return Err(self.unexpected("a comma or a closing brace")),
                    _ => return Err(self.unexpected("a comma or a closing bracket")),
                }
            }
        }
    }

    /// Reads a value without children, or opens a container. Returns whether a first child follows.
    fn begin(&mut self) -> Step<bool> {
        if self.nodes.len() >= self.max_values {
            self.too_many_values()?;
        }
        match self.peek() {
            Some(b'"') => self.string(false)?,
            Some(b'{') => return self.begin_container(Tag::Object, b'}'),
            Some(b'[') => return self.begin_container(Tag::Array, b']'),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.literal(b"true", Tag::True)?,
            Some(b'f') => self.literal(b"false", Tag::False)?,
            Some(b'n') => self.literal(b"null", Tag::Null)?,
            _ => return Err(self.unexpected("a value")),
        }
        Ok(false)
    }

    fn begin_container(&mut self, tag: Tag, close: u8) -> Step<bool> {
        if self.open.len() >= self.max_depth {
            self.too_deep()?;
        }
        let node = self.nodes.len();
        let start = self.at;
        self.at += 1;
        self.push(tag, start, 0, 0);
        self.open.push(Open { node, count: if tag == Tag::Object { self.keys.len() } else { 0 } });
        self.skip_whitespace();
        if self.peek() == Some(close) {
            self.end_container();
            return Ok(false);
        }
        if tag == Tag::Object {
            self.key()?;
        }
        Ok(true)
    }

    /// Consumes the closing bracket of the innermost container.
    fn end_container(&mut self) {
        self.at += 1;
        let Some(Open { node, count }) = self.open.pop() else { return };
        let a = if self.nodes[node].tag == Tag::Object { self.sort_keys(count) } else { count as u32 };
        let next = self.nodes.len() as u32;
        let own = &mut self.nodes[node];
        (own.end, own.a, own.b) = (self.at as u32, a, next);
    }

    /// Reads a key and the colon after it.
    fn key(&mut self) -> Step<()> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("a key in double quotes"));
        }
        self.string(true)?;
        self.push_key();
        self.skip_whitespace();
        if self.peek() != Some(b':') {
            return Err(self.unexpected("a colon"));
        }
        self.at += 1;
        self.skip_whitespace();
        Ok(())
    }

    #[cold]
    fn too_many_values(&mut self) -> Step<()> {
        let finding = Finding::new(codes::json::TOO_MANY_VALUES)
            .at_span(Span::new(self.at, self.at))
            .expected(format!("at most {} values and keys", self.max_values));
        if !self.is_foreign {
            return Err(stop(finding));
        }
        self.findings.push(finding.severity(Severity::Warning));
        self.max_values = usize::MAX;
        Ok(())
    }

    #[cold]
    fn too_deep(&mut self) -> Step<()> {
        let finding = Finding::new(codes::json::TOO_DEEP)
            .at_span(Span::new(self.at, self.at + 1))
            .expected(format!("at most {} nested arrays and objects", self.max_depth));
        if !self.is_foreign || self.max_depth >= MAX_FOREIGN_DEPTH {
            return Err(stop(finding));
        }
        self.findings.push(finding.severity(Severity::Warning));
        self.max_depth = MAX_FOREIGN_DEPTH;
        Ok(())
    }

    /// Records the key that was just read.
    fn push_key(&mut self) {
        let at = self.nodes.len() - 1;
        let bytes = key_text(&self.nodes[at], self.source, &self.unescaped).as_bytes();
        let mut first = [0; 8];
        for (to, from) in first.iter_mut().zip(bytes) {
            *to = *from;
        }
        self.keys.push(Key { prefix: u64::from_be_bytes(first), node: at as u32 });
    }

    /// Moves the keys collected since `first_key` to `order`, sorted, and reports duplicates.
    fn sort_keys(&mut self, first_key: usize) -> u32 {
        let (source, unescaped, nodes) = (self.source, &self.unescaped, &self.nodes);
        let text = |key: &Key| key_text(&nodes[key.node as usize], source, unescaped);
        let compare = |a: &Key, b: &Key| {
            // ASCII bytes are in the order of UTF-16 code units. Padding does not affect the result: a shorter key comes first anyway.
            if a.prefix != b.prefix && (a.prefix | b.prefix) & HIGH == 0 {
                a.prefix.cmp(&b.prefix)
            } else {
                utf16_order(text(a), text(b))
            }
        };
        let keys = &mut self.keys[first_key..];
        // A stable sort keeps duplicate keys in source order, and is linear for sorted keys.
        keys.sort_by(compare);
        for pair in keys.windows(2) {
            if pair[0].prefix == pair[1].prefix && text(&pair[0]) == text(&pair[1]) {
                self.canonicalisable = false;
                let (first, again) = (&nodes[pair[0].node as usize], &nodes[pair[1].node as usize]);
                self.findings.push(
                    Finding::new(codes::json::DUPLICATE_KEY)
                        .at_span(Span::new(again.start as usize, again.end as usize))
                        .message(format!("the key appears before at byte {}", first.start))
                        .got(text(&pair[1])),
                );
            }
        }
        let place = self.order.len() as u32;
        self.order.push(keys.len() as u32);
        self.order.extend(keys.iter().map(|key| key.node));
        self.keys.truncate(first_key);
        place
    }

    fn string(&mut self, is_key: bool) -> Step<()> {
        let start = self.at;
        self.at += 1;
        let text_start = self.at;
        self.at += plain_prefix(&self.bytes[self.at..]);
        let (tag, a, b) = if self.peek() == Some(b'"') {
            (if is_key { Tag::Key } else { Tag::Str }, text_start, self.at - text_start)
        } else {
            let from = self.unescaped.len();
            self.unescape(text_start)?;
            (if is_key { Tag::KeyEscaped } else { Tag::StrEscaped }, from, self.unescaped.len() - from)
        };
        self.at += 1;
        self.push(tag, start, a as u32, b as u32);
        Ok(())
    }

    /// Copies the text of a string that has escapes to the side buffer, up to its closing quote.
    fn unescape(&mut self, text_start: usize) -> Step<()> {
        self.unescaped.push_str(&self.source[text_start..self.at]);
        loop {
            match self.peek() {
                Some(b'"') => return Ok(()),
                Some(b'\\') => self.escape()?,
                Some(byte) => {
                    return Err(self.syntax(
                        Span::new(self.at, self.at + 1),
                        format!("control character U+{byte:04X} inside a string must be escaped"),
                    ));
                }
                None => return Err(self.unexpected("a closing quote")),
            }
            let from = self.at;
            self.at += plain_prefix(&self.bytes[from..]);
            self.unescaped.push_str(&self.source[from..self.at]);
        }
    }

    fn escape(&mut self) -> Step<()> {
        let start = self.at;
        self.at += 2;
        let plain = match self.bytes.get(start + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(start),
            Some(_) => return Err(self.syntax(self.one_char(start), "unknown escape in a string".to_owned())),
            None => {
                self.at = self.bytes.len();
                return Err(self.unexpected("a closing quote"));
            }
        };
        self.unescaped.push(plain);
        Ok(())
    }

    fn unicode_escape(&mut self, start: usize) -> Step<()> {
        let unit = self.four_hex(start)?;
        let c = match unit {
            0xD800..=0xDBFF if self.bytes[self.at..].starts_with(b"\\u") => {
                let next = self.at;
                self.at += 2;
                let low = self.four_hex(next)?;
                if (0xDC00..=0xDFFF).contains(&low) {
                    char::from_u32(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))
                } else {
                    self.at = next;
                    None
                }
            }
            unit => char::from_u32(unit),
        };
        let c = c.unwrap_or_else(|| {
            self.canonicalisable = false;
            self.findings.push(
                Finding::new(codes::json::LONE_SURROGATE)
                    .at_span(Span::new(start, start + 6))
                    .got(&self.source[start..start + 6]),
            );
            char::REPLACEMENT_CHARACTER
        });
        self.unescaped.push(c);
        Ok(())
    }

    /// The value of the four hex digits at the cursor. They belong to the escape at `start`.
    fn four_hex(&mut self, start: usize) -> Step<u32> {
        let digits = self.bytes.get(self.at..self.at + 4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let Some(digits) = digits else {
            return Err(self.syntax(self.one_char(start), "\\u needs four hexadecimal digits".to_owned()));
        };
        self.at += 4;
        Ok(digits.iter().fold(0, |unit, &digit| unit << 4 | char::from(digit).to_digit(16).unwrap_or(0)))
    }

    fn number(&mut self) -> Step<()> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => {
                self.at += 1;
                if matches!(self.peek(), Some(b'0'..=b'9')) {
                    return Err(self.syntax(Span::new(start, self.at + 1), "a number must not start with a zero".to_owned()));
                }
            }
            Some(b'1'..=b'9') => self.skip_digits(),
            _ => return Err(self.unexpected("a digit")),
        }
        let mut is_integer = true;
        if self.peek() == Some(b'.') {
            is_integer = false;
            self.at += 1;
            self.some_digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            is_integer = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.some_digits()?;
        }
        let literal = &self.source[start..self.at];
        let (tag, number) = match number::parse(literal, is_integer) {
            Parsed::Exact(number) => (Tag::Number, number),
            Parsed::Imprecise(number) => (Tag::NumberImprecise, number),
            Parsed::Underflow(number) => (Tag::NumberUnderflow, number),
            Parsed::Overflow => {
                // The tree gets a zero here, so that later findings are still found.
                self.canonicalisable = false;
                self.findings.push(Finding::new(codes::json::NUMBER_OVERFLOW).at_span(Span::new(start, self.at)).got(literal));
                (Tag::Number, 0.0)
            }
        };
        let bits = number.to_bits();
        self.push(tag, start, (bits >> 32) as u32, bits as u32);
        Ok(())
    }

    fn some_digits(&mut self) -> Step<()> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.unexpected("a digit"));
        }
        self.skip_digits();
        Ok(())
    }

    fn skip_digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn literal(&mut self, word: &[u8], tag: Tag) -> Step<()> {
        if !self.bytes[self.at..].starts_with(word) {
            return Err(self.unexpected("a value"));
        }
        let start = self.at;
        self.at += word.len();
        self.push(tag, start, 0, 0);
        Ok(())
    }

    fn skip_whitespace(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
            // Most whitespace is indentation: a line feed, then spaces. Skip eight at a time.
            while let Some(chunk) = self.bytes[self.at..].first_chunk() {
                let others = u64::from_le_bytes(*chunk) ^ (ONES * u64::from(b' '));
                self.at += others.trailing_zeros() as usize / 8;
                if others != 0 {
                    break;
                }
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn push(&mut self, tag: Tag, start: usize, a: u32, b: u32) {
        self.nodes.push(Node { tag, start: start as u32, end: self.at as u32, a, b });
    }

    fn unexpected(&self, wanted: &str) -> Stop {
        let (span, found) = match self.source.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(c) => (Span::new(self.at, self.at + c.len_utf8()), format!("found {c:?}")),
            None => (Span::new(self.bytes.len(), self.bytes.len()), "the document ends here".to_owned()),
        };
        self.syntax(span, format!("expected {wanted}, {found}"))
    }

    fn syntax(&self, span: Span, message: String) -> Stop {
        stop(Finding::new(codes::json::SYNTAX).at_span(span).message(message))
    }

    /// The span of the backslash at `start` and the character after it.
    fn one_char(&self, start: usize) -> Span {
        let after = self.source[start + 1..].chars().next().map_or(0, char::len_utf8);
        Span::new(start, start + 1 + after)
    }
}

fn stop(finding: Finding) -> Stop {
    Stop(Box::new(finding))
}

/// Whether an ASCII source can contain other characters, written as escapes.
fn has_non_ascii_escape(source: &str, bytes: &[u8]) -> bool {
    bytes.contains(&b'\\') && source.contains("\\u")
}

/// The text of a key, from the place that its tag says.
fn key_text<'t>(node: &Node, source: &'t str, unescaped: &'t str) -> &'t str {
    let range = node.a as usize..node.a as usize + node.b as usize;
    if node.tag == Tag::Key { &source[range] } else { &unescaped[range] }
}

/// A word with a one in each byte, and one with the high bit set in each.
const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// The number of bytes at the start that are not a quote, backslash or control character. Eight at a time.
pub(crate) fn plain_prefix(bytes: &[u8]) -> usize {
    let mut at = 0;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let Ok(chunk) = <[u8; 8]>::try_from(chunk) else { break };
        let word = u64::from_le_bytes(chunk);
        // For each byte the high bit says whether it matches. A borrow can only corrupt bytes above the first match.
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let quote = word ^ (ONES * u64::from(b'"'));
        let quote = quote.wrapping_sub(ONES) & !quote;
        let backslash = word ^ (ONES * u64::from(b'\\'));
        let backslash = backslash.wrapping_sub(ONES) & !backslash;
        let found = (control | quote | backslash) & HIGH;
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + chunks.remainder().iter().take_while(|&&byte| byte >= 0x20 && byte != b'"' && byte != b'\\').count()
}
