//! Meaning: an optional static embedding, configured by the operator, so that `forecast` is similar to `weather`.
//!
//! Such a model is a table with one vector for each token; the vector of a text is the mean of its tokens. There is no neural network to
//! run, and a text takes microseconds. None is bundled: existing models have their own licences. The files are read with limits on
//! everything, as they may come from any source.

mod package;
mod tensors;
mod tokenizer;
mod wordpiece;

use std::io::Read as _;
use std::path::Path;

use crate::Error;
use tensors::Table;
use tokenizer::Tokenizer;

/// The dimensions of a stored vector. Shorter vectors are padded with zeros.
pub(super) const DIMENSIONS: usize = 256;

/// The maximum number of characters of a text that are used. The mean of a long text is similar to everything.
const MAX_CHARS: usize = 1_000;

/// The maximum number of characters of a tool's details. Schemas begin with what matters.
const MAX_DETAIL_CHARS: usize = 600;

/// The weight of the details' vector relative to that of name and description.
const DETAILS: f32 = 0.25;

/// The maximum number of tokens of a text.
const MAX_PIECES: usize = 512;

/// The maximum number of parts of a query with their own vector.
const MAX_PARTS: usize = 16;

/// The minimum number of letters in a part of a query. Shorter ones are greetings, names and units.
const MIN_PART_LETTERS: usize = 16;

/// The columns of a vector: eight 8-bit numbers each. The engine merges, maps and deletes columns with the rest of a document, which a
/// separate file would need own code for.
pub(super) const COLUMNS: [&str; DIMENSIONS / 8] = [
    "v00", "v01", "v02", "v03", "v04", "v05", "v06", "v07", "v08", "v09", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17",
    "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31",
];

/// A static embedding.
#[derive(Debug)]
pub(super) struct Embedding {
    table: Table,
    tokenizer: Tokenizer,
    fingerprint: String,
}

impl Embedding {
    /// Reads the files in a folder: those of a known package, or one `*.safetensors` and `tokenizer.json`.
    pub(super) fn open(folder: &Path) -> Result<Self, Error> {
        let refuse = |reason: String| Error::Embedding { folder: folder.display().to_string(), reason };
        if let Some(package) = package::find(folder) {
            let tensors = read(&folder.join(package.tensors.path), tensors::MAX_BYTES).map_err(refuse)?;
            let words = read(&folder.join(package.tokenizer.path), tokenizer::MAX_BYTES).map_err(refuse)?;
            package.check(&tensors, &words).map_err(refuse)?;
            tracing::info!(embedding = package.name, "embedding loaded, hashes match");
            return Self::read(&tensors, &words).map_err(refuse);
        }
        let entries = std::fs::read_dir(folder).map_err(|error| refuse(error.to_string()))?;
        let mut tables: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        tables.retain(|path| path.extension().is_some_and(|extension| extension == "safetensors"));
        let [path] = tables.as_slice() else {
            return Err(refuse(format!("it has {} *.safetensors files, expected 1", tables.len())));
        };
        let bytes = read(path, tensors::MAX_BYTES).map_err(refuse)?;
        let words = read(&folder.join("tokenizer.json"), tokenizer::MAX_BYTES).map_err(refuse)?;
        match package::with_hashes(&bytes, &words) {
            Some(package) => tracing::info!(embedding = package.name, "embedding loaded, hashes match"),
            None => tracing::warn!(folder = %folder.display(), "embedding loaded, hashes match no known package"),
        }
        Self::read(&bytes, &words).map_err(refuse)
    }

    /// Parses the bytes of both files.
    fn read(tensors: &[u8], tokenizer: &[u8]) -> Result<Self, String> {
        let table = Table::read(tensors)?;
        let words = Tokenizer::read(tokenizer)?;
        if words.pieces() > table.rows() {
            return Err(format!("the tokenizer has {} pieces, but the table has {} rows", words.pieces(), table.rows()));
        }
        let mut both = alloy_primitives::keccak256(tensors).to_vec();
        both.extend_from_slice(alloy_primitives::keccak256(tokenizer).as_slice());
        let fingerprint = format!("{:x}", alloy_primitives::keccak256(both));
        Ok(Self { table, tokenizer: words, fingerprint })
    }

    /// Returns a fingerprint of the model.
    pub(super) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Returns the vector of a tool; `None` when none of its words has one.
    pub(super) fn of_tool(&self, name: &str, description: &str, details: &str) -> Option<Vector> {
        // Names are identifiers; the model has words.
        let words = super::words::Words::of(name, MAX_CHARS);
        let name = words.parts.iter().map(|word| word.plain.as_str()).collect::<Vec<_>>().join(" ");
        let mut direction = unit(self.sum_of(&format!("{name}: {description}")));
        let details: String = details.trim().chars().take(MAX_DETAIL_CHARS).collect();
        if !details.is_empty() {
            for (value, detail) in direction.iter_mut().zip(unit(self.sum_of(&details))) {
                *value += DETAILS * detail;
            }
        }
        Vector::quantised(&direction)
    }

    /// Returns the vectors of a query, without quoted text and numbers, which are arguments. If the query has nothing else, these are
    /// used.
    ///
    /// Requests often ask for several things. The mean of all of them is similar to none, so each part between punctuation marks has its
    /// own vector too.
    pub(super) fn of_query(&self, text: &str) -> Option<Asked> {
        let start: String = text.chars().take(MAX_CHARS).collect();
        let unquoted: String = start.split('"').step_by(2).collect::<Vec<_>>().join(" ");
        let plain = |text: &str| text.chars().filter(|c| !c.is_numeric()).collect::<String>();
        let letters = |text: &str| text.chars().filter(|c| c.is_alphabetic()).count();
        let whole = plain(&unquoted);
        if letters(&whole) == 0 {
            return Asked::of(self.of_text(&start));
        }
        let parts = parts(&unquoted).map(plain).filter(|part| letters(part) >= MIN_PART_LETTERS).take(MAX_PARTS);
        Asked::of(
            std::iter::once(whole.clone()).chain(parts.filter(|part| *part != whole)).filter_map(|part| self.of_text(&part)),
        )
    }

    fn of_text(&self, text: &str) -> Option<Vector> {
        Vector::quantised(&self.sum_of(text))
    }

    /// Returns the sum of the vectors of a text's tokens.
    fn sum_of(&self, text: &str) -> [f32; DIMENSIONS] {
        let start: String = text.chars().take(MAX_CHARS).collect();
        let pieces = self.tokenizer.pieces_of(&start);
        let mut sum = [0.0_f32; DIMENSIONS];
        for piece in pieces.into_iter().take(MAX_PIECES) {
            self.table.add_row(piece, &mut sum);
        }
        sum
    }
}

/// Normalizes a vector to length one; the zero vector stays zero.
fn unit(mut vector: [f32; DIMENSIONS]) -> [f32; DIMENSIONS] {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    if length.is_finite() && length > 0.0 {
        vector.iter_mut().for_each(|value| *value /= length);
    }
    vector
}

/// Splits a text at punctuation that ends a sentence or a clause. Punctuation inside a word does not split.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let mut last = None;
        let end = text.char_indices().find_map(|(at, c)| {
            let is_end = c == '\n' || (c.is_whitespace() && matches!(last, Some('.' | '?' | '!' | ';' | ':' | ',')));
            last = Some(c);
            is_end.then_some((at, at + c.len_utf8()))
        });
        match end {
            Some((end, next)) => {
                rest = Some(&text[next..]);
                Some(&text[..end])
            }
            None => Some(text),
        }
    })
}

/// Reads a file up to a size limit.
fn read(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let failed = |error: std::io::Error| format!("{name}: {error}");
    let metadata = std::fs::metadata(path).map_err(failed)?;
    // Reading a pipe would block, and a device has no end.
    if !metadata.is_file() {
        return Err(format!("{name} is not a file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes)).map_err(failed)?;
    if bytes.len() as u64 > most {
        return Err(format!("{name} has {} bytes, the limit is {most}", metadata.len()));
    }
    Ok(bytes)
}

/// A direction: 8-bit numbers whose ratio matters only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Vector([i8; DIMENSIONS]);

impl Vector {
    fn quantised(sum: &[f32; DIMENSIONS]) -> Option<Self> {
        let largest = sum.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        if !largest.is_finite() || largest <= 0.0 {
            return None;
        }
        Some(Self(sum.map(|value| (value / largest * 127.0).round() as i8)))
    }

    /// Packs it for columns.
    pub(super) fn packed(&self) -> impl Iterator<Item = u64> {
        self.0.chunks_exact(8).map(|eight| eight.iter().fold(0, |packed, value| packed << 8 | u64::from(value.cast_unsigned())))
    }

    /// Unpacks it from columns.
    pub(super) fn unpacked(columns: &[u64; DIMENSIONS / 8]) -> Self {
        let mut values = [0; DIMENSIONS];
        for (eight, packed) in values.chunks_exact_mut(8).zip(columns) {
            for (value, byte) in eight.iter_mut().zip(packed.to_be_bytes()) {
                *value = byte.cast_signed();
            }
        }
        Self(values)
    }

    fn dot(&self, other: &Self) -> i32 {
        self.0.iter().zip(&other.0).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum()
    }

    fn length(&self) -> f32 {
        (self.dot(self) as f32).sqrt()
    }
}

/// The vectors of a query. At least one, and none is zero.
#[derive(Debug)]
pub(super) struct Asked(Vec<(Vector, f32)>);

impl Asked {
    fn of(directions: impl IntoIterator<Item = Vector>) -> Option<Self> {
        let directions: Vec<_> = directions.into_iter().map(|direction| (direction.length(), direction)).collect();
        let asked: Vec<_> =
            directions.into_iter().filter(|(length, _)| *length > 0.0).map(|(length, one)| (one, length)).collect();
        (!asked.is_empty()).then_some(Self(asked))
    }

    /// Returns the similarity of a tool to the most similar of them, from -1 to 1.
    pub(super) fn nearness(&self, tool: &Vector) -> f32 {
        let length = tool.length();
        if length <= 0.0 {
            return 0.0;
        }
        let near = self.0.iter().map(|(direction, own)| direction.dot(tool) as f32 / (own * length));
        near.fold(-1.0, f32::max)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn vectors_survive_their_columns(values in prop::collection::vec(-1000.0_f32..1000.0, DIMENSIONS)) {
            let values: [f32; DIMENSIONS] = values.try_into().expect("as many");
            if let Some(vector) = Vector::quantised(&values) {
                let columns: Vec<u64> = vector.packed().collect();
                prop_assert_eq!(&Vector::unpacked(&columns.try_into().expect("as many")), &vector);
                let asked = Asked::of([vector.clone()]).expect("a direction");
                prop_assert!((asked.nearness(&vector) - 1.0).abs() < 1e-5);
            }
        }

        #[test]
        fn any_bytes_are_refused_or_read(tensors in prop::collection::vec(any::<u8>(), 0..200), words in ".{0,200}") {
            let _ = Embedding::read(&tensors, words.as_bytes());
        }
    }

    #[test]
    fn queries_fall_into_parts() {
        let all = |text| parts(text).collect::<Vec<_>>();
        assert_eq!(all("one, two. three"), ["one,", "two.", "three"]);
        assert_eq!(all("a.b costs 1.5 or 1,000\nso?"), ["a.b costs 1.5 or 1,000", "so?"]);
        assert_eq!(all(""), [""]);
    }

    #[test]
    fn the_nearest_of_several_counts() {
        let unit = |at: usize| {
            let mut values = [0.0; DIMENSIONS];
            values[at] = 1.0;
            Vector::quantised(&values).expect("a direction")
        };
        let asked = Asked::of([unit(0), unit(1)]).expect("two");
        assert_eq!(asked.nearness(&unit(1)), 1.0);
        assert_eq!(asked.nearness(&unit(2)), 0.0);
        assert!(Asked::of([]).is_none());
    }

    #[test]
    fn nothing_has_no_direction() {
        assert_eq!(Vector::quantised(&[0.0; DIMENSIONS]), None);
        assert_eq!(Vector::quantised(&[f32::NAN; DIMENSIONS]), None);
        assert_eq!(Vector::quantised(&[f32::INFINITY; DIMENSIONS]), None);
    }
}
