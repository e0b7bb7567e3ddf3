//! WordPiece tokenization as in BERT: lower case without accents, and repeatedly the longest token that matches the rest of a word.
//!
//! Every character that is neither letter nor digit is a token. A word that cannot be split into tokens is left out: the vector for
//! unknown words has no meaning.

use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// The maximum length of a word in characters. Longer ones are left out, as in training.
const MAX_WORD_CHARS: usize = 100;

/// The rules of a tokenizer.
pub(super) struct Rules {
    /// The prefix of every token except the first of a word.
    prefix: String,
    is_cased: bool,
}

impl Rules {
    pub(super) fn new(prefix: Option<String>, is_cased: bool) -> Self {
        Self { prefix: prefix.unwrap_or_else(|| "##".to_owned()), is_cased }
    }

    /// Returns the tokens of a text. The caller limits its length; the time depends on its length and that of the words.
    pub(super) fn pieces_of(&self, text: &str, pieces: &HashMap<String, u32>) -> Vec<usize> {
        let mut found = Vec::new();
        let mut word: Vec<char> = Vec::new();
        for c in text.nfd().filter(|c| self.is_cased || !is_combining_mark(*c)) {
            let is_alone =
                !c.is_alphanumeric() && !is_combining_mark(c) || matches!(c, '\u{3400}'..='\u{9FFF}' | '\u{20000}'..='\u{2FFFF}');
            if !is_alone {
                if self.is_cased {
                    word.push(c)
                } else {
                    word.extend(c.to_lowercase())
                }
                continue;
            }
            self.add_word(&word, pieces, &mut found);
            word.clear();
            if !c.is_whitespace() && !c.is_control() {
                self.add_word(&[c], pieces, &mut found);
            }
        }
        self.add_word(&word, pieces, &mut found);
        found
    }

    fn add_word(&self, word: &[char], pieces: &HashMap<String, u32>, found: &mut Vec<usize>) {
        if word.len() > MAX_WORD_CHARS {
            return;
        }
        let (mut start, before) = (0, found.len());
        while start < word.len() {
            let longest = (start + 1..=word.len()).rev().find_map(|end| {
                let mut piece = if start == 0 { String::new() } else { self.prefix.clone() };
                piece.extend(&word[start..end]);
                pieces.get(&piece).map(|number| (*number, end))
            });
            let Some((number, end)) = longest else {
                found.truncate(before);
                return;
            };
            found.push(number as usize);
            start = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tokenizer::Tokenizer;

    const SMALL: &str = r###"{"normalizer":{"type":"BertNormalizer","lowercase":true},"model":{"type":"WordPiece","unk_token":"[UNK]",
        "continuing_subword_prefix":"##","vocab":{"[UNK]":0,"weather":1,"fore":2,"##cast":3,"##s":4,".":5,"cafe":6,"天":7,"##er":8,"we":9}}}"###;

    #[test]
    fn the_longest_piece_comes_first() {
        let tokenizer = Tokenizer::read(SMALL.as_bytes()).expect("a tokenizer");
        assert_eq!(tokenizer.pieces_of("Weather FORECASTS."), [1, 2, 3, 4, 5]);
        assert_eq!(tokenizer.pieces_of("café\u{0} we.er"), [6, 9, 5]);
        assert_eq!(tokenizer.pieces_of("forest"), [] as [usize; 0]);
        assert_eq!(tokenizer.pieces_of("天天"), [7, 7]);
        assert_eq!(tokenizer.pieces_of(&"s".repeat(10_000)), [] as [usize; 0]);
    }

    #[test]
    fn capitals_count_where_a_file_says_so() {
        let tokenizer = Tokenizer::read(SMALL.replace("true", "false").as_bytes()).expect("a tokenizer");
        assert_eq!(tokenizer.pieces_of("Weather weather"), [1]);
    }
}
