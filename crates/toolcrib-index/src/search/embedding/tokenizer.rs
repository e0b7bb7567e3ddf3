//! Tokenizers of static embeddings: byte pair encoding as in Llama, or WordPiece as in BERT.
//!
//! Byte pair encoding: spaces become `▁`, one is prepended, and then the two neighbours that were merged earliest in training are merged,
//! repeatedly. Characters without a token of their own become their bytes (`<0xE2>`). WordPiece: see [`super::wordpiece`]. Other kinds of
//! tokenizers are not supported.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use serde::Deserialize;

use super::wordpiece;

/// The maximum file size.
pub(super) const MAX_BYTES: u64 = 32 << 20;

/// The maximum number of tokens: that of rows in a table.
const MAX_PIECES: usize = 1 << 18;

/// The maximum number of merges.
const MAX_MERGES: usize = 1 << 20;

/// The replacement of a space.
const SPACE: &str = "\u{2581}";

#[derive(Deserialize)]
struct File {
    model: Model,
    normalizer: Option<Normalizer>,
}

#[derive(Deserialize)]
struct Normalizer {
    lowercase: Option<bool>,
}

#[derive(Deserialize)]
struct Model {
    #[serde(rename = "type")]
    kind: Option<String>,
    vocab: HashMap<String, usize>,
    #[serde(default)]
    merges: Vec<Merge>,
    continuing_subword_prefix: Option<String>,
    unk_token: Option<String>,
}

/// The two formats of a merge, in older and newer files.
#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Line(String),
    Pair(String, String),
}

/// Splits texts into tokens.
pub(super) struct Tokenizer {
    pieces: HashMap<String, u32>,
    /// For two tokens: the rank of their merge, and the result.
    merges: HashMap<(u32, u32), (u32, u32)>,
    bytes: Vec<Option<u32>>,
    unknown: Option<u32>,
    count: usize,
    /// The rules of WordPiece instead of byte pair encoding.
    words: Option<wordpiece::Rules>,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokenizer({} pieces, {} merges)", self.pieces.len(), self.merges.len())
    }
}

impl Tokenizer {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let file: File =
            serde_json::from_slice(bytes).map_err(|_| "tokenizer.json does not have the expected structure".to_owned())?;
        let model = file.model;
        let is_cased = file.normalizer.and_then(|normalizer| normalizer.lowercase) == Some(false);
        let words = match model.kind.as_deref() {
            None | Some("BPE") => None,
            Some("WordPiece") => Some(wordpiece::Rules::new(model.continuing_subword_prefix, is_cased)),
            Some(_) => return Err("tokenizer.json is neither BPE nor WordPiece".to_owned()),
        };
        if model.vocab.len() > MAX_PIECES || model.merges.len() > MAX_MERGES {
            return Err(format!("tokenizer.json has more than {MAX_PIECES} pieces or {MAX_MERGES} merges"));
        }
        let mut pieces = HashMap::with_capacity(model.vocab.len());
        let mut count = 0;
        for (piece, id) in model.vocab {
            if id >= MAX_PIECES {
                return Err("tokenizer.json has a piece whose id is too large".to_owned());
            }
            count = count.max(id + 1);
            pieces.insert(piece, u32::try_from(id).unwrap_or_default());
        }
        let mut merges = HashMap::with_capacity(model.merges.len());
        for (rank, merge) in model.merges.iter().enumerate() {
            let (left, right) = match merge {
                Merge::Line(line) => line.split_once(' ').ok_or("tokenizer.json has a merge that does not have two pieces")?,
                Merge::Pair(left, right) => (left.as_str(), right.as_str()),
            };
            let whole = format!("{left}{right}");
            if let (Some(left), Some(right), Some(whole)) = (pieces.get(left), pieces.get(right), pieces.get(&whole)) {
                merges.entry((*left, *right)).or_insert((u32::try_from(rank).unwrap_or(u32::MAX), *whole));
            }
        }
        let bytes = (0..=255_u8).map(|byte| pieces.get(&format!("<0x{byte:02X}>")).copied()).collect();
        let unknown = model.unk_token.and_then(|unknown| pieces.get(&unknown).copied());
        Ok(Self { pieces, merges, bytes, unknown, count, words })
    }

    /// Returns one more than the largest id of a token.
    pub(super) const fn pieces(&self) -> usize {
        self.count
    }

    /// Returns the tokens of a text. The caller limits its length; the time is O(n log n).
    pub(super) fn pieces_of(&self, text: &str) -> Vec<usize> {
        match &self.words {
            Some(rules) => rules.pieces_of(text, &self.pieces),
            None => self.pairs_of(text),
        }
    }

    fn pairs_of(&self, text: &str) -> Vec<usize> {
        let text = format!("{SPACE}{}", text.replace(' ', SPACE));
        let mut symbols: Vec<Symbol> = Vec::with_capacity(text.len());
        let mut buffer = [0; 4];
        for c in text.chars() {
            let c = c.encode_utf8(&mut buffer);
            match self.pieces.get(&*c) {
                Some(piece) => symbols.push(Symbol::new(*piece)),
                None => {
                    for byte in c.bytes() {
                        if let Some(piece) = self.bytes[usize::from(byte)].or(self.unknown) {
                            symbols.push(Symbol::new(piece));
                        }
                    }
                }
            }
        }
        let count = symbols.len();
        for (at, symbol) in symbols.iter_mut().enumerate() {
            symbol.before = at.checked_sub(1);
            symbol.after = Some(at + 1).filter(|after| *after < count);
        }
        let mut waiting = BinaryHeap::new();
        for left in 0..count.saturating_sub(1) {
            self.consider(&symbols, left, &mut waiting);
        }
        // A merge that was overtaken by another no longer finds its two tokens.
        while let Some(Reverse((_, left, pair, whole))) = waiting.pop() {
            let Some(right) = symbols[left].after else { continue };
            if symbols[left].is_gone || (symbols[left].piece, symbols[right].piece) != pair {
                continue;
            }
            symbols[left].piece = whole;
            symbols[left].after = symbols[right].after;
            symbols[right].is_gone = true;
            if let Some(after) = symbols[left].after {
                symbols[after].before = Some(left);
            }
            self.consider(&symbols, left, &mut waiting);
            if let Some(before) = symbols[left].before {
                self.consider(&symbols, before, &mut waiting);
            }
        }
        symbols.iter().filter(|symbol| !symbol.is_gone).map(|symbol| symbol.piece as usize).collect()
    }

    fn consider(&self, symbols: &[Symbol], left: usize, waiting: &mut BinaryHeap<Waiting>) {
        let Some(right) = symbols[left].after else { return };
        let pair = (symbols[left].piece, symbols[right].piece);
        if let Some((rank, whole)) = self.merges.get(&pair) {
            waiting.push(Reverse((*rank, left, pair, *whole)));
        }
    }
}

/// The rank, the position, the two tokens there, and the result of their merge.
type Waiting = Reverse<(u32, usize, (u32, u32), u32)>;

/// A token and its neighbours.
struct Symbol {
    piece: u32,
    before: Option<usize>,
    after: Option<usize>,
    is_gone: bool,
}

impl Symbol {
    const fn new(piece: u32) -> Self {
        Self { piece, before: None, after: None, is_gone: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"{"model":{"type":"BPE","unk_token":"<unk>","vocab":{"<unk>":0,"<0xC3>":1,"<0xA9>":2,"▁":3,"a":4,"b":5,"c":6,
        "ab":7,"▁ab":8,"bc":9,"abc":10},"merges":["a b","▁ ab",["b","c"],"ab c"]}}"#;

    #[test]
    fn neighbours_are_merged_in_their_order() {
        let tokenizer = Tokenizer::read(SMALL.as_bytes()).expect("a tokenizer");
        assert_eq!(tokenizer.pieces_of("ab"), [8]);
        assert_eq!(tokenizer.pieces_of("bc"), [3, 9]);
        assert_eq!(tokenizer.pieces_of("cabc"), [3, 6, 10]);
        assert_eq!(tokenizer.pieces_of("é"), [3, 1, 2]);
        assert_eq!(tokenizer.pieces_of("z"), [3, 0]);
        assert_eq!(tokenizer.pieces_of(""), [3]);
        assert_eq!(tokenizer.pieces(), 11);
    }

    #[test]
    fn other_files_are_refused() {
        for text in [
            "",
            "{}",
            r#"{"model":{"type":"Unigram","vocab":{},"merges":[]}}"#,
            r#"{"model":{"type":"BPE","vocab":{"a":4294967296},"merges":[]}}"#,
            r#"{"model":{"type":"BPE","vocab":{"a":-1},"merges":[]}}"#,
            r#"{"model":{"type":"BPE","vocab":{"a":0},"merges":["aa"]}}"#,
        ] {
            assert!(Tokenizer::read(text.as_bytes()).is_err(), "{text}");
        }
    }
}
