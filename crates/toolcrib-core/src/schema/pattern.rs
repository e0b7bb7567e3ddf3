//! Regular expressions in schemas: whether they are valid, and whether a linear-time matcher can run them.
//!
//! [`scan`] reads a pattern once, from left to right, without allocating. The grammar is ECMA-262 with the `u` flag, which JSON Schema
//! recommends, plus escapes of punctuation that older dialects allow. It does not match anything, and it checks only the syntax of Unicode
//! script names.
//!
//! Not `regex-syntax`, which parses Rust's dialect: it accepts `a**`, `(?x)` and set operations in classes, which ECMA-262 does not,
//! rejects valid ones such as `\cJ`, and builds a tree before a size can be rejected. jsonschema translates the checked patterns to that
//! dialect.
//!
//! ERC-8257 Manifest Parser Hardening requires a matcher immune to catastrophic backtracking. Such matchers have no backreferences and no
//! lookaround, and they expand counted repetitions, so the scanner reports those three.

/// Largest size of one pattern, in units of about 1 KiB of compiled matcher: one unit for each character or small class,
/// multiplied by the counts around it. `x{10000}` is the largest plain repetition; the matcher stays near 10 MiB.
pub const MAX_SIZE: u32 = 10_000;

/// Deepest nesting of groups. Readable patterns need three or four; matchers parse groups recursively.
pub const MAX_GROUPS: usize = 32;

/// Most named groups in one pattern. Schemas never read captures, so named groups are usually left over from copying.
pub const MAX_NAMES: usize = 16;

/// Size of a Unicode property in units: `\p{L}` compiles to 42 KiB, the largest of the common ones.
const PROPERTY_SIZE: u32 = 48;

/// The cost of compiling a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Size of the compiled matcher, in units of about 1 KiB.
    pub size: u32,
    /// Bytes that are read to translate the pattern for the matcher: class escapes are replaced one at a time.
    pub work: u32,
}

/// Why a pattern is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The kind of flaw.
    pub kind: FlawKind,
    /// Byte offset in the pattern.
    pub at: usize,
    /// The flaw in a few words.
    pub what: &'static str,
}

/// Kinds of flaws, the most severe last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlawKind {
    /// Larger than [`MAX_SIZE`], [`MAX_GROUPS`] or [`MAX_NAMES`].
    TooLarge,
    /// Legal, but linear-time matchers interpret it differently or reject it.
    Unsupported,
    /// Needs backtracking.
    NotLinear,
    /// Not a regular expression.
    Malformed,
}

/// Scans a pattern.
///
/// If a pattern has several flaws, the most severe is returned; among equals, the first.
pub fn scan(pattern: &str) -> Result<Cost, Flaw> {
    let mut scanner = Scanner {
        rest: pattern.chars(),
        length: pattern.len(),
        sizes: [0; MAX_GROUPS + 1],
        lookarounds: 0,
        depth: 0,
        names: [""; MAX_NAMES],
        name_count: 0,
        escapes: 0,
        flaw: None,
    };
    scanner.pattern()?;
    match scanner.flaw {
        Some(flaw) => Err(flaw),
        None => {
            // A class escape expands to at most 160 bytes (`\s`), and each replacement reads the whole text again.
            let grown = (pattern.len() as u32).saturating_add(scanner.escapes.saturating_mul(160));
            Ok(Cost { size: scanner.sizes[0], work: grown.saturating_mul(scanner.escapes.saturating_add(1)) })
        }
    }
}

/// The item before the cursor, which decides whether a quantifier may follow.
#[derive(Clone, Copy)]
enum Previous {
    Nothing,
    /// An atom of this size.
    Atom(u32),
    Assertion,
    Quantifier,
}

/// One item of a class.
enum Item {
    Char(char),
    /// A class escape such as `\d`, of this size.
    Class(u32),
}

struct Scanner<'p> {
    rest: std::str::Chars<'p>,
    length: usize,
    /// Sizes of the open groups; the first is the pattern itself.
    sizes: [u32; MAX_GROUPS + 1],
    /// One bit for each open group: whether it is a lookaround.
    lookarounds: u64,
    depth: usize,
    names: [&'p str; MAX_NAMES],
    name_count: usize,
    escapes: u32,
    flaw: Option<Flaw>,
}

type Step<T> = Result<T, Flaw>;

impl<'p> Scanner<'p> {
    fn pattern(&mut self) -> Step<()> {
        let mut previous = Previous::Nothing;
        loop {
            let at = self.at();
            let Some(c) = self.rest.next() else { break };
            previous = match c {
                '|' => Previous::Nothing,
                '(' => {
                    self.open_group(at)?;
                    Previous::Nothing
                }
                ')' => self.close_group(at)?,
                '*' | '+' | '?' => self.quantified(previous, 1, at)?,
                '{' => {
                    let count = self.count(at)?;
                    self.quantified(previous, count, at)?
                }
                '}' => return Err(malformed(at, "a closing brace without an opening one; write \\}")),
                ']' => return Err(malformed(at, "a closing bracket without an opening one; write \\]")),
                '^' | '$' => Previous::Assertion,
                '\\' => self.escape(at)?,
                '[' => {
                    let size = self.class(at)?;
                    self.atom(size, at)
                }
                _ => self.atom(1, at),
            };
        }
        if self.depth > 0 { Err(malformed(self.length, "a group is not closed")) } else { Ok(()) }
    }

    fn at(&self) -> usize {
        self.length - self.rest.as_str().len()
    }

    fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.rest.next();
        }
        found
    }

    /// Records a flaw that does not stop the scan. The most severe is kept, and among equals the first.
    fn note(&mut self, kind: FlawKind, at: usize, what: &'static str) {
        if self.flaw.is_none_or(|flaw| flaw.kind < kind) {
            self.flaw = Some(Flaw { kind, at, what });
        }
    }

    fn atom(&mut self, size: u32, at: usize) -> Previous {
        self.grow(size, at);
        Previous::Atom(size)
    }

    fn grow(&mut self, size: u32, at: usize) {
        // Groups beyond the limit share the last slot; the pattern is rejected anyway.
        let slot = &mut self.sizes[self.depth.min(MAX_GROUPS)];
        *slot = slot.saturating_add(size);
        if *slot > MAX_SIZE {
            self.note(FlawKind::TooLarge, at, "the repetitions expand to too many elements");
        }
    }

    fn quantified(&mut self, previous: Previous, count: u32, at: usize) -> Step<Previous> {
        match previous {
            Previous::Atom(size) => self.grow(size.saturating_mul(count.saturating_sub(1)), at),
            Previous::Nothing => return Err(malformed(at, "a quantifier without anything to repeat")),
            Previous::Assertion => return Err(malformed(at, "a quantifier after an assertion")),
            Previous::Quantifier => return Err(malformed(at, "a quantifier after a quantifier")),
        }
        self.eat('?');
        Ok(Previous::Quantifier)
    }

    /// Returns the largest number of repetitions of `{n}`, `{n,}` or `{n,m}`. The cursor is after the brace.
    fn count(&mut self, at: usize) -> Step<u32> {
        const WHAT: &str = "a brace that starts no {n}, {n,} or {n,m}; write \\{";
        let low = self.digits().ok_or(malformed(at, WHAT))?;
        let high = if !self.eat(',') {
            low
        } else if self.peek() == Some('}') {
            low.saturating_add(1)
        } else {
            let high = self.digits().ok_or(malformed(at, WHAT))?;
            if high < low {
                return Err(malformed(at, "a repetition whose bounds are in the wrong order"));
            }
            high
        };
        if !self.eat('}') {
            return Err(malformed(at, WHAT));
        }
        if high > MAX_SIZE {
            self.note(FlawKind::TooLarge, at, "a repetition count is too large");
        }
        Ok(high)
    }

    fn digits(&mut self) -> Option<u32> {
        let mut value = None;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
            self.rest.next();
            value = Some(value.unwrap_or(0_u32).saturating_mul(10).saturating_add(digit));
        }
        value
    }

    fn open_group(&mut self, at: usize) -> Step<()> {
        let mut lookaround = false;
        if self.eat('?') {
            match self.rest.next() {
                Some(':') => {}
                Some('=' | '!') => lookaround = true,
                Some('<') => match self.peek() {
                    Some('=' | '!') => {
                        self.rest.next();
                        lookaround = true;
                    }
                    _ => self.group_name(at)?,
                },
                Some(first @ ('i' | 'm' | 's' | '-')) => self.modifiers(first, at)?,
                _ => return Err(malformed(at, "a group with an unknown (? syntax")),
            }
        }
        if lookaround {
            self.note(FlawKind::NotLinear, at, "lookaround");
        }
        self.depth += 1;
        if self.depth > MAX_GROUPS {
            self.note(FlawKind::TooLarge, at, "groups nest too deeply");
        } else {
            self.sizes[self.depth] = 1;
            self.lookarounds = self.lookarounds & !(1 << self.depth) | u64::from(lookaround) << self.depth;
        }
        Ok(())
    }

    fn close_group(&mut self, at: usize) -> Step<Previous> {
        if self.depth == 0 {
            return Err(malformed(at, "a closing parenthesis without an opening one"));
        }
        let (size, lookaround) = match self.sizes.get(self.depth) {
            Some(&size) => (size, self.lookarounds >> self.depth & 1 == 1),
            None => (MAX_SIZE, false),
        };
        self.depth -= 1;
        self.grow(size, at);
        Ok(if lookaround { Previous::Assertion } else { Previous::Atom(size) })
    }

    /// Parses `name>`; the cursor is after the angle bracket.
    fn group_name(&mut self, at: usize) -> Step<()> {
        let text = self.rest.as_str();
        let end = text.find('>').ok_or(malformed(at, "a group name without an end"))?;
        let name = &text[..end];
        self.rest = text[end + 1..].chars();
        let mut chars = name.chars();
        if !chars.next().is_some_and(|c| c == '_' || c == '$' || c == '\\' || c.is_alphabetic())
            || !chars.all(|c| matches!(c, '_' | '$' | '\\' | '{' | '}') || c.is_alphanumeric())
        {
            return Err(malformed(at, "a group name that is not an identifier"));
        }
        if name.contains(['$', '\\', '{', '}']) {
            self.note(FlawKind::Unsupported, at, "a group name with $ or an escape");
        }
        if self.names[..self.name_count].contains(&name) {
            self.note(FlawKind::Unsupported, at, "two groups of the same name");
        } else if self.name_count == MAX_NAMES {
            self.note(FlawKind::TooLarge, at, "too many named groups");
        } else {
            self.names[self.name_count] = name;
            self.name_count += 1;
        }
        Ok(())
    }

    /// Parses `ims-ims:`; the cursor is after the first character.
    fn modifiers(&mut self, first: char, at: usize) -> Step<()> {
        const WHAT: &str = "group modifiers other than i, m and s, each once";
        let mut seen = [false; 4];
        let mut last = first;
        let mut next = Some(first);
        loop {
            let place = match next {
                Some(':') if last != '-' => return Ok(()),
                Some('i') => 0,
                Some('m') => 1,
                Some('s') => 2,
                Some('-') => 3,
                _ => return Err(malformed(at, WHAT)),
            };
            if std::mem::replace(&mut seen[place], true) {
                return Err(malformed(at, WHAT));
            }
            last = next.unwrap_or(last);
            next = self.rest.next();
        }
    }

    /// Parses an escape outside a class. The cursor is after the backslash.
    fn escape(&mut self, at: usize) -> Step<Previous> {
        let Some(c) = self.rest.next() else { return Err(malformed(at, "a backslash at the end")) };
        match c {
            'b' | 'B' => return Ok(Previous::Assertion),
            '1'..='9' => {
                self.digits();
                self.note(FlawKind::NotLinear, at, "a backreference");
                return Ok(self.atom(1, at));
            }
            'k' => {
                if !self.eat('<') {
                    return Err(malformed(at, "\\k without a <name>"));
                }
                let text = self.rest.as_str();
                let end = text.find('>').ok_or(malformed(at, "a group name without an end"))?;
                self.rest = text[end + 1..].chars();
                self.note(FlawKind::NotLinear, at, "a backreference");
                return Ok(self.atom(1, at));
            }
            _ => {}
        }
        let size = match self.any_escape(c, at)? {
            Item::Char(_) => 1,
            Item::Class(size) => size,
        };
        Ok(self.atom(size, at))
    }

    /// Parses an escape that is valid inside and outside a class. The cursor is after its first character.
    fn any_escape(&mut self, c: char, at: usize) -> Step<Item> {
        Ok(match c {
            'd' | 'w' | 's' | 'D' | 'W' | 'S' => {
                self.escapes += 1;
                Item::Class(match c {
                    'S' => 3,
                    'W' => 2,
                    _ => 1,
                })
            }
            'p' | 'P' => {
                self.property(at)?;
                Item::Class(PROPERTY_SIZE)
            }
            'f' => Item::Char('\u{c}'),
            'n' => Item::Char('\n'),
            'r' => Item::Char('\r'),
            't' => Item::Char('\t'),
            'v' => Item::Char('\u{b}'),
            'c' => match self.rest.next() {
                Some(letter) if letter.is_ascii_alphabetic() => {
                    self.escapes += 1;
                    Item::Char(char::from(letter as u8 % 32))
                }
                _ => return Err(malformed(at, "\\c without a letter")),
            },
            '0' => {
                if self.peek().is_some_and(|c| c.is_ascii_digit()) {
                    return Err(malformed(at, "an octal escape; write \\xHH"));
                }
                self.note(FlawKind::Unsupported, at, "\\0; write \\x00");
                Item::Char('\0')
            }
            'x' => {
                let code = self.hex(2).ok_or(malformed(at, "\\x without two hexadecimal digits"))?;
                Item::Char(char::from_u32(code).unwrap_or('\0'))
            }
            'u' => self.unicode(at)?,
            '<' | '>' => {
                self.note(FlawKind::Unsupported, at, "an escaped angle bracket; write it without the backslash");
                Item::Char(c)
            }
            c if c.is_alphanumeric() => return Err(malformed(at, "an unknown escape")),
            c => {
                if !c.is_ascii() {
                    self.note(FlawKind::Unsupported, at, "an escaped character that needs no escape");
                }
                Item::Char(c)
            }
        })
    }

    fn hex(&mut self, digits: usize) -> Option<u32> {
        (0..digits).try_fold(0, |value, _| Some(value << 4 | self.rest.next()?.to_digit(16)?))
    }

    /// Parses `\uHHHH` or `\u{H…}`; the cursor is after the `u`.
    fn unicode(&mut self, at: usize) -> Step<Item> {
        const WHAT: &str = "\\u without four hexadecimal digits or {…}";
        let code = if self.eat('{') {
            let mut code = None;
            loop {
                match self.rest.next() {
                    Some('}') => break,
                    Some(c) => {
                        let digit = c.to_digit(16).ok_or(malformed(at, WHAT))?;
                        code = Some(code.unwrap_or(0_u32).saturating_mul(16).saturating_add(digit));
                    }
                    None => return Err(malformed(at, WHAT)),
                }
            }
            code.filter(|&code| code <= 0x10_FFFF).ok_or(malformed(at, WHAT))?
        } else {
            self.hex(4).ok_or(malformed(at, WHAT))?
        };
        Ok(Item::Char(char::from_u32(code).unwrap_or_else(|| {
            self.note(FlawKind::Unsupported, at, "a surrogate escape; write the character itself or \\u{…}");
            char::REPLACEMENT_CHARACTER
        })))
    }

    /// Parses `{Name}` or `{Name=Value}`; the cursor is after the `p`.
    fn property(&mut self, at: usize) -> Step<()> {
        if !self.eat('{') {
            return Err(malformed(at, "\\p without a property in braces"));
        }
        let text = self.rest.as_str();
        let end = text.find('}').ok_or(malformed(at, "\\p without a closing brace"))?;
        self.rest = text[end + 1..].chars();
        let is_word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let known = match text[..end].split_once('=') {
            Some(("Script" | "sc" | "Script_Extensions" | "scx", script)) => is_word(script),
            Some(("General_Category" | "gc", category)) => is_category(category),
            Some(_) => false,
            None => is_category(&text[..end]) || is_binary_property(&text[..end]),
        };
        if known { Ok(()) } else { Err(malformed(at, "an unknown Unicode property")) }
    }

    /// Parses a class and returns its size. The cursor is after the bracket.
    fn class(&mut self, at: usize) -> Step<u32> {
        let mut size = 1_u32;
        let mut wide = 0_u32;
        self.eat('^');
        if self.peek() == Some(']') {
            self.note(FlawKind::Unsupported, at, "an empty class");
        }
        loop {
            let item_at = self.at();
            let start = match self.class_item(at)? {
                None => return Ok(size.saturating_add(wide / 4)),
                Some(Item::Class(more)) => {
                    size = size.saturating_add(more);
                    None
                }
                Some(Item::Char(c)) => {
                    wide += u32::from(!c.is_ascii());
                    Some(c)
                }
            };
            // A hyphen directly before the closing bracket is literal.
            let mut ahead = self.rest.clone();
            if ahead.next() == Some('-') && !matches!(ahead.next(), Some(']') | None) {
                self.rest.next();
                match (start, self.class_item(at)?) {
                    (Some(start), Some(Item::Char(end))) if start <= end => {}
                    (Some(_), Some(Item::Char(_))) => {
                        return Err(malformed(item_at, "a range whose ends are in the wrong order"));
                    }
                    _ => return Err(malformed(item_at, "a range that starts or ends with a class; write \\- for a hyphen")),
                }
            }
        }
    }

    /// Returns the next item of a class, or `None` after its closing bracket.
    fn class_item(&mut self, class_at: usize) -> Step<Option<Item>> {
        let at = self.at();
        Ok(match self.rest.next() {
            None => return Err(malformed(class_at, "a class is not closed")),
            Some(']') => None,
            Some('\\') => Some(match self.rest.next() {
                None => return Err(malformed(at, "a backslash at the end")),
                Some('b') => {
                    self.note(FlawKind::Unsupported, at, "\\b inside a class; write \\x08");
                    Item::Char('\u{8}')
                }
                Some(c) => self.any_escape(c, at)?,
            }),
            Some(c) => Some(Item::Char(c)),
        })
    }
}

const fn malformed(at: usize, what: &'static str) -> Flaw {
    Flaw { kind: FlawKind::Malformed, at, what }
}

/// Values of `General_Category`, short and long.
fn is_category(name: &str) -> bool {
    const SHORT: &[u8] =
        b"L LC Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C Cc Cf Co Cn ";
    if name.len() <= 2 {
        return SHORT.split(|&b| b == b' ').any(|short| !short.is_empty() && short == name.as_bytes());
    }
    matches!(
        name,
        "Letter"
            | "Cased_Letter"
            | "Uppercase_Letter"
            | "Lowercase_Letter"
            | "Titlecase_Letter"
            | "Modifier_Letter"
            | "Other_Letter"
            | "Mark"
            | "Nonspacing_Mark"
            | "Spacing_Mark"
            | "Enclosing_Mark"
            | "Number"
            | "Decimal_Number"
            | "Letter_Number"
            | "Other_Number"
            | "Punctuation"
            | "Connector_Punctuation"
            | "Dash_Punctuation"
            | "Open_Punctuation"
            | "Close_Punctuation"
            | "Initial_Punctuation"
            | "Final_Punctuation"
            | "Other_Punctuation"
            | "Symbol"
            | "Math_Symbol"
            | "Currency_Symbol"
            | "Modifier_Symbol"
            | "Other_Symbol"
            | "Separator"
            | "Space_Separator"
            | "Line_Separator"
            | "Paragraph_Separator"
            | "Other"
            | "Control"
            | "Format"
            | "Private_Use"
            | "Unassigned"
    )
}

/// Binary properties of ECMA-262 that linear-time matchers support too.
fn is_binary_property(name: &str) -> bool {
    matches!(
        name,
        "ASCII"
            | "Any"
            | "Assigned"
            | "Alphabetic"
            | "Alpha"
            | "Lowercase"
            | "Lower"
            | "Uppercase"
            | "Upper"
            | "White_Space"
            | "space"
            | "ID_Start"
            | "IDS"
            | "ID_Continue"
            | "IDC"
            | "XID_Start"
            | "XID_Continue"
            | "Emoji"
            | "Emoji_Presentation"
            | "Emoji_Modifier"
            | "Emoji_Modifier_Base"
            | "Emoji_Component"
            | "Extended_Pictographic"
            | "Ideographic"
            | "Math"
            | "Cased"
            | "Dash"
            | "Hex_Digit"
            | "ASCII_Hex_Digit"
            | "Diacritic"
            | "Noncharacter_Code_Point"
            | "Default_Ignorable_Code_Point"
    )
}

#[cfg(test)]
#[path = "pattern_tests.rs"]
mod tests;
