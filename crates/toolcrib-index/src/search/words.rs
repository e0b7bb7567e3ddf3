//! Tokenization: how text becomes terms, the same way for tools and queries.
//!
//! Accents and case are folded. Identifiers are split (`getWeather`, `get_weather` and `weather.get` all have `weather`) and also kept
//! whole, without separators. English words are stemmed. Scripts without spaces become character bigrams. No word is left out of the
//! index: a tool's description is one sentence, so every word may be the important one. Queries weigh their words.

use tantivy::tokenizer::{Language, Stemmer, TextAnalyzer, Token, TokenStream, Tokenizer};
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::common;

/// The maximum length of a term in bytes. Longer ones are hashes or spam; their start is enough to find them again.
const MAX_TERM_BYTES: usize = 40;

/// The maximum number of parts of an identifier that is also kept whole. One with more is a path or a sentence.
const MAX_WHOLE_PARTS: usize = 8;

/// The name of the tokenizer that takes prepared terms.
pub(super) const GIVEN: &str = "given";

/// A word of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// The folded form.
    pub(super) plain: String,
    /// The stemmed form in the index.
    pub(super) term: String,
}

/// The terms of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    /// Its words in their order.
    pub(super) parts: Vec<Word>,
    /// Whole identifiers of several words.
    pub(super) wholes: Vec<String>,
}

impl Words {
    /// Splits a text into words. Only the first `max_chars` characters count.
    pub(super) fn of(text: &str, max_chars: usize) -> Self {
        let mut splitter = Splitter::default();
        // A character can decompose into many; the second limit bounds the result.
        let folded = text.chars().take(max_chars).nfkd().filter(|c| !is_combining_mark(*c)).take(2 * max_chars);
        for c in folded {
            splitter.push(c);
        }
        splitter.end_identifier();
        let terms = stems(&splitter.parts);
        let parts = splitter.parts.into_iter().zip(terms).map(|(plain, term)| Word { plain, term }).collect();
        Self { parts, wholes: splitter.wholes }
    }

    /// Returns its terms.
    pub(super) fn terms(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|word| word.term.as_str())
    }

    /// Returns neighbours without the function words between them, in either order: `price of gold` and `gold price` have the same.
    pub(super) fn neighbours(&self) -> impl Iterator<Item = String> {
        let content: Vec<&str> =
            self.parts.iter().filter(|word| !common::is_function(&word.plain)).map(|word| word.term.as_str()).collect();
        let both = |two: &[&str]| format!("{} {}", two[0].min(two[1]), two[0].max(two[1]));
        content.windows(2).filter(|two| two[0] != two[1]).map(both).collect::<Vec<_>>().into_iter()
    }

    /// Returns neighbours as one term: they distinguish `file size` from `size of a file system`.
    pub(super) fn pairs(&self) -> impl Iterator<Item = String> {
        self.parts.windows(2).map(|two| format!("{} {}", two[0].term, two[1].term))
    }
}

/// Stems English words. All in one call, because a stemmer is created for each text.
pub(super) fn stems(words: &[String]) -> Vec<String> {
    let mut analyzer = TextAnalyzer::builder(LineTokenizer).filter(Stemmer::new(Language::English)).build();
    let joined = words.join("\n");
    let mut terms = Vec::with_capacity(words.len());
    analyzer.token_stream(&joined).process(&mut |token| terms.push(token.text.clone()));
    terms
}

/// A state machine that splits characters into words.
#[derive(Default)]
struct Splitter {
    parts: Vec<String>,
    wholes: Vec<String>,
    /// The current part, and the kind of its last character.
    part: String,
    last: Option<Kind>,
    /// The current identifier without separators, and how many parts it has.
    whole: String,
    whole_parts: usize,
    /// A separator was read; it joins parts if a part follows.
    is_joined: bool,
    /// The previous character, in a script without spaces.
    ideograph: Option<char>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Lower,
    Upper,
    Digit,
}

impl Splitter {
    fn push(&mut self, c: char) {
        if is_ideographic(c) {
            self.end_identifier_but_ideograph();
            match self.ideograph.replace(c) {
                Some(before) => self.parts.push(format!("{before}{c}")),
                None => self.parts.push(c.to_string()),
            }
            return;
        }
        self.ideograph = None;
        if !c.is_alphanumeric() {
            // A single separator between two parts joins them; two end the identifier.
            if matches!(c, '_' | '.' | '-' | '/') && !self.is_joined && !self.part.is_empty() {
                self.end_part();
                self.is_joined = true;
            } else {
                self.end_identifier();
            }
            return;
        }
        self.is_joined = false;
        let kind = if c.is_numeric() {
            Kind::Digit
        } else if c.is_uppercase() {
            Kind::Upper
        } else {
            Kind::Lower
        };
        match (self.last, kind) {
            (None, _)
            | (Some(Kind::Lower), Kind::Lower)
            | (Some(Kind::Upper), Kind::Upper)
            | (Some(Kind::Digit), Kind::Digit) => {}
            // `Weather`: a single capital starts the next part. `HTTPServer`: the last of several does.
            (Some(Kind::Upper), Kind::Lower) => {
                let capitals = self.part.chars().count();
                if capitals > 1
                    && let Some(capital) = self.part.pop()
                {
                    self.end_part();
                    self.part.push(capital);
                }
            }
            _ => self.end_part(),
        }
        self.last = Some(kind);
        self.part.push(c);
    }

    fn end_part(&mut self) {
        self.last = None;
        if self.part.is_empty() {
            return;
        }
        let part = lower(&self.part);
        self.part.clear();
        if self.whole.len() <= MAX_TERM_BYTES {
            self.whole.push_str(&part);
        }
        self.whole_parts += 1;
        self.parts.push(part);
    }

    fn end_identifier(&mut self) {
        self.end_identifier_but_ideograph();
        self.ideograph = None;
    }

    fn end_identifier_but_ideograph(&mut self) {
        self.end_part();
        self.is_joined = false;
        let whole = std::mem::take(&mut self.whole);
        let parts = std::mem::take(&mut self.whole_parts);
        if (2..=MAX_WHOLE_PARTS).contains(&parts) && whole.len() <= MAX_TERM_BYTES {
            self.wholes.push(whole);
        }
    }
}

/// Converts to lower case, transliterates the few letters that decomposition does not change, and truncates to the maximum length of a
/// term.
fn lower(part: &str) -> String {
    let mut lower = String::with_capacity(part.len());
    for c in part.chars().flat_map(char::to_lowercase) {
        match c {
            'ß' => lower.push_str("ss"),
            'æ' => lower.push_str("ae"),
            'œ' => lower.push_str("oe"),
            'ø' => lower.push('o'),
            'ł' => lower.push('l'),
            'đ' => lower.push('d'),
            'ı' => lower.push('i'),
            c => lower.push(c),
        }
        if lower.len() > MAX_TERM_BYTES {
            lower.pop();
            break;
        }
    }
    lower
}

/// Scripts that are written without spaces.
const fn is_ideographic(c: char) -> bool {
    matches!(c,
        '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1100}'..='\u{11FF}' | '\u{1780}'..='\u{17FF}'
        | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}'
        | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

/// A tokenizer for prepared terms, one per line: texts are split before, once for all fields.
#[derive(Clone)]
pub(super) struct LineTokenizer;

impl Tokenizer for LineTokenizer {
    type TokenStream<'a> = Lines<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Lines<'a> {
        Lines { rest: text, token: Token::default() }
    }
}

/// The lines of a text as tokens.
pub(super) struct Lines<'a> {
    rest: &'a str,
    token: Token,
}

impl TokenStream for Lines<'_> {
    fn advance(&mut self) -> bool {
        if self.rest.is_empty() {
            return false;
        }
        let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
        self.token.text.clear();
        self.token.text.push_str(line);
        self.token.position = self.token.position.wrapping_add(1);
        self.rest = rest;
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, parts: &[&str], wholes: &[&str]) {
        let words = Words::of(text, 1_000);
        assert_eq!(words.parts.iter().map(|word| word.plain.as_str()).collect::<Vec<_>>(), parts, "{text}");
        assert_eq!(words.wholes, wholes, "{text}");
    }

    #[test]
    fn identifiers_are_split_and_kept() {
        check("getWeather", &["get", "weather"], &["getweather"]);
        check("get_weather", &["get", "weather"], &["getweather"]);
        check("weather.get-now", &["weather", "get", "now"], &["weathergetnow"]);
        check("HTTPServer2", &["http", "server", "2"], &["httpserver2"]);
        check("parseURL", &["parse", "url"], &["parseurl"]);
        check("plain words, only.", &["plain", "words", "only"], &[]);
        check("a__b ... c", &["a", "b", "c"], &[]);
        check("NFT", &["nft"], &[]);
    }

    #[test]
    fn letters_are_folded() {
        check("Café ÅNGSTRÖM straße Ｆｕｌｌ", &["cafe", "angstrom", "strasse", "full"], &[]);
        check("天気予報", &["天", "天気", "気予", "予報"], &[]);
        check("ok天气ok", &["ok", "天", "天气", "ok"], &[]);
        check("\u{202e}evil\u{0}\u{7}name\u{200b}x", &["evil", "name", "x"], &[]);
    }

    #[test]
    fn endings_are_cut() {
        let words = Words::of("Calculates running prices", 1_000);
        assert_eq!(words.terms().collect::<Vec<_>>(), ["calcul", "run", "price"]);
        assert_eq!(words.pairs().collect::<Vec<_>>(), ["calcul run", "run price"]);
        let neighbours = |text| Words::of(text, 1_000).neighbours().collect::<Vec<_>>();
        assert_eq!(neighbours("the price of gold"), ["gold price"]);
        assert_eq!(neighbours("gold price"), ["gold price"]);
        assert!(neighbours("of the gold").is_empty() && neighbours("gold, gold").is_empty());
    }

    #[test]
    fn what_is_long_is_cut() {
        let words = Words::of(&"x".repeat(2_000_000), 1_000);
        assert_eq!(words.parts.len(), 1);
        assert!(words.parts[0].term.len() <= MAX_TERM_BYTES);
        // One character that decomposes into eighteen.
        assert!(Words::of(&"\u{FDFA}".repeat(10_000), 100).parts.len() <= 200);
        assert!(Words::of(&"aB".repeat(10_000), 100).wholes.is_empty());
    }

    proptest! {
        #[test]
        fn any_text_has_terms_that_fit(text in "\\PC{0,200}|[a-zA-Z0-9_./ -]{0,200}|.{0,60}") {
            let words = Words::of(&text, 150);
            for word in &words.parts {
                prop_assert!(!word.plain.is_empty() && word.plain.len() <= MAX_TERM_BYTES + 4);
                prop_assert!(!word.plain.contains('\n') && !word.term.contains(' '));
            }
        }
    }
}
