//! Tries recipes until one gives the committed hash, within a budget.
//!
//! Each method tries one family of recipes on one file and returns the mistakes of the first that matches. The caller decides the order of
//! families and files, likely causes first: when the budget is used up, the rest is not tried, and the result says so.

use alloy_primitives::{Address, B256, keccak256};
use sha2::Sha256;
use sha3::Sha3_256;
use toolcrib_core::json::{self, Array, Document, Limits, Value};
use toolcrib_core::tool::TYPE_V1;

use super::causes::{HashMistake, HexSites, HexSpelling};
use super::write::{Escapes, LATER_FIELDS, Layout, Numbers, Order, Replacements, Strip, TypeChange, UnicodeForm, Variant, write};

/// Most hashes in one explanation. A manifest with every peculiarity has about nine hundred recipes; the rest is for candidates.
pub const MAX_HASHES: usize = 20_000;

/// Most bytes that are parsed, serialised or hashed in one explanation: about two seconds of one core. A typical manifest of 5 KiB with
/// thirty candidates needs a tenth of it; for one of a mebibyte it covers all its simple recipes.
pub const MAX_WORK_BYTES: usize = 256 << 20;

/// Most combinations of several changes of content that are tried on one file. Without unknown fields and non-ASCII letters there are about
/// sixty.
pub(crate) const MAX_COMBINATIONS: usize = 512;

/// Most entries of `pricing` whose addresses are respelled separately. Manifests rarely have more than three.
const MAX_HEX_PRICES: usize = 8;

/// Most requirements of `access` that are respelled.
const MAX_HEX_REQUIREMENTS: usize = 16;

/// Values of `type` in drafts, templates and real manifests.
pub(super) const KNOWN_TYPES: [&str; 8] = [
    TYPE_V1,
    "https://eips.ethereum.org/EIPS/eip-XXXX#tool-manifest-v1",
    "https://eips.ethereum.org/EIPS/eip-8257#tool-manifest-v1",
    "https://ercs.ethereum.org/ERCS/erc-XXXX#tool-manifest-v1",
    "https://eips.ethereum.org/EIPS/erc-8257#tool-manifest-v1",
    "https://eips.ethereum.org/ERCS/erc-8257#tool-manifest-v1",
    "https://ercs.ethereum.org/ERCS/eip-8257#tool-manifest-v1",
    "https",
];

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// A file that may be the committed one.
pub(super) struct File<'a> {
    pub(super) bytes: &'a [u8],
    /// Parsed as leniently as other programs do: without a byte-order mark, and with duplicate keys.
    pub(super) document: Option<Document>,
    /// The mistakes that lenient parsing implies.
    pub(super) leniency: Vec<HashMistake>,
}

/// The changes of content that have an effect on one file.
#[derive(Default)]
pub(super) struct Axes {
    strips: Vec<(Strip, HashMistake)>,
    types: Vec<(TypeChange, HashMistake)>,
    /// Groups of addresses; single ones are tried separately and not combined.
    hexes: Vec<(Replacements, Vec<HashMistake>)>,
    forms: Vec<(UnicodeForm, HashMistake)>,
}

/// The remaining budget.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    pub(super) hashes: usize,
    pub(super) bytes: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { hashes: MAX_HASHES, bytes: MAX_WORK_BYTES }
    }
}

pub(super) struct Search {
    committed: B256,
    budget: Budget,
    /// The number of hashes.
    pub(super) tried: usize,
    /// Whether something was not tried because the budget was used up.
    pub(super) exhausted: bool,
    scratch: String,
}

impl Search {
    pub(super) const fn new(committed: B256, budget: Budget) -> Self {
        Self { committed, budget, tried: 0, exhausted: false, scratch: String::new() }
    }

    /// Parses a file, unless it is too large or the budget is used up.
    pub(super) fn read<'a>(&mut self, bytes: &'a [u8]) -> Option<File<'a>> {
        if bytes.len() > json::MAX_BYTES + BOM.len() || !self.spend(bytes.len()) {
            return None;
        }
        let (text, mut leniency) = match bytes.strip_prefix(BOM) {
            Some(text) => (text, vec![HashMistake::MarkDropped]),
            None => (bytes, Vec::new()),
        };
        let reading = json::read(text, Limits::default());
        // Duplicate keys are the only fault of a tree that other programs ignore.
        let only_repeats =
            reading.findings.as_slice().iter().all(|finding| finding.code == toolcrib_core::codes::json::DUPLICATE_KEY);
        let document = reading.document.filter(|document| document.is_canonicalisable() || only_repeats);
        if document.as_ref().is_some_and(|document| !document.is_canonicalisable()) {
            leniency.push(HashMistake::DuplicatesDropped);
        }
        Some(File { bytes, document, leniency })
    }

    /// The document that was serialised and hashed last: after a match, the committed one.
    pub(super) fn written(&self) -> &str {
        &self.scratch
    }

    /// The hash of the canonical form, if it has one and the budget suffices.
    pub(super) fn canonical(&mut self, file: &File<'_>) -> Option<B256> {
        self.hash_of(file, &Variant::default(), &Layout::CANONICAL)
    }

    /// The bytes of the file: unmodified, and with other line endings and byte-order marks.
    pub(super) fn raw(&mut self, file: &File<'_>) -> Option<Vec<HashMistake>> {
        if self.budget.bytes < file.bytes.len() {
            // The forms below are copies of the file, which would be made in vain.
            self.exhausted = true;
            return None;
        }
        let (has_mark, text) = match file.bytes.strip_prefix(BOM) {
            Some(text) => (true, text),
            None => (false, file.bytes),
        };
        let trimmed = text.trim_ascii_end();
        let unix = has_carriage_returns(text).then(|| without_carriage_returns(text));
        // A file of one line has nothing to convert except its final line ending.
        let plain = unix.as_deref().unwrap_or(text);
        let dos = plain.contains(&b'\n').then(|| with_carriage_returns(plain));
        let plain_trimmed = plain.trim_ascii_end();
        let dos_trimmed = dos.as_deref().map(|text| text.trim_ascii_end().to_vec());

        let mut forms: Vec<(bool, Vec<u8>)> = vec![(false, text.to_vec())];
        let mut add = |form: Vec<u8>| {
            if !forms.iter().any(|(_, known)| *known == form) {
                forms.push((true, form));
            }
        };
        add(trimmed.to_vec());
        add([trimmed, b"\n"].concat());
        add([trimmed, b"\r\n"].concat());
        for converted in [Some(plain_trimmed), dos_trimmed.as_deref()].into_iter().flatten() {
            add(converted.to_vec());
            add([converted, b"\n"].concat());
            add([converted, b"\r\n"].concat());
        }
        for changes_mark in [false, true] {
            for (changes_ends, form) in &forms {
                let with_mark = has_mark != changes_mark;
                let hit = if with_mark { self.hits(&[BOM, form].concat()) } else { self.hits(form) };
                if hit {
                    let ends = changes_ends.then_some(HashMistake::LineEnds);
                    let mark = changes_mark.then_some(HashMistake::Mark);
                    let slips: Vec<_> = ends.into_iter().chain(mark).collect();
                    return Some(if slips.is_empty() { vec![HashMistake::RawBytes] } else { slips });
                }
            }
        }
        None
    }

    /// The document as other programs serialise it.
    pub(super) fn layouts(&mut self, file: &File<'_>) -> Option<Vec<HashMistake>> {
        let document = file.document.as_ref()?;
        layouts(document.has_non_ascii())
            .into_iter()
            .find(|(layout, _)| self.hash_of(file, &Variant::default(), layout) == Some(self.committed))
            .map(|(_, slips)| joined(file, slips))
    }

    /// The correct text, hashed with other functions or after other conversions.
    pub(super) fn digests(&mut self, file: &File<'_>) -> Option<Vec<HashMistake>> {
        for (digest, slip) in DIGESTS {
            if self.hits_with(file.bytes, digest) {
                return Some(vec![HashMistake::RawBytes, slip]);
            }
        }
        let document = file.document.as_ref()?;
        let mut text = std::mem::take(&mut self.scratch);
        let found = if write(document.root(), &Variant::default(), &Layout::CANONICAL, &mut text) {
            self.digests_of(text.as_bytes())
        } else {
            None
        };
        self.scratch = text;
        found.map(|slip| joined(file, vec![slip]))
    }

    fn digests_of(&mut self, text: &[u8]) -> Option<HashMistake> {
        for (digest, slip) in DIGESTS {
            if self.hits_with(text, digest) {
                return Some(slip);
            }
        }
        let hex: String = text
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .filter_map(|nibble| char::from_digit(nibble.into(), 16))
            .collect();
        if self.hits(hex.as_bytes()) || self.hits(format!("0x{hex}").as_bytes()) {
            return Some(HashMistake::HexText);
        }
        drop(hex);
        let once = keccak256(text);
        let shown = format!("{once:#x}");
        let bare = shown.trim_start_matches("0x");
        if self.hits(once.as_slice()) || self.hits(shown.as_bytes()) || self.hits(bare.as_bytes()) {
            return Some(HashMistake::Twice);
        }
        self.hits(&abi_encoded(text)).then_some(HashMistake::AbiEncoded)
    }

    /// The document with one change of content. Changes that have an effect are recorded in `axes` for combinations.
    pub(super) fn contents(&mut self, file: &File<'_>, axes: &mut Axes) -> Option<Vec<HashMistake>> {
        let document = file.document.as_ref()?;
        let root = document.root();
        let mut seen: Vec<B256> = self.canonical(file).into_iter().collect();
        let mut single = |search: &mut Self, variant: &Variant<'_>| -> Step {
            let Some(hash) = search.hash_of(file, variant, &Layout::CANONICAL) else { return Step::Same };
            if hash == search.committed {
                Step::Hit
            } else if seen.contains(&hash) {
                Step::Same
            } else {
                seen.push(hash);
                Step::Other
            }
        };

        for (kind, slip) in types(root) {
            match single(self, &Variant { kind, ..Variant::default() }) {
                Step::Hit => return Some(joined(file, vec![slip])),
                Step::Other => axes.types.push((kind, slip)),
                Step::Same => {}
            }
        }
        for (older, nested) in (0..=LATER_FIELDS.len()).flat_map(|older| [(older, false), (older, true)]) {
            let (strip, slip) = (Strip { older, nested }, HashMistake::FieldsStripped { nested });
            match single(self, &Variant { strip: Some(strip), ..Variant::default() }) {
                Step::Hit => return Some(joined(file, vec![slip])),
                Step::Other => axes.strips.push((strip, slip)),
                Step::Same => {}
            }
        }
        for Respelling { replaced, slips, combines } in hexes(root) {
            match single(self, &Variant { replaced: &replaced, ..Variant::default() }) {
                Step::Hit => return Some(joined(file, slips)),
                Step::Other if combines => axes.hexes.push((replaced, slips)),
                _ => {}
            }
        }
        if document.has_non_ascii() {
            for form in [UnicodeForm::Nfc, UnicodeForm::Nfd] {
                match single(self, &Variant { unicode: Some(form), ..Variant::default() }) {
                    Step::Hit => return Some(joined(file, vec![HashMistake::Unicode(form)])),
                    Step::Other => axes.forms.push((form, HashMistake::Unicode(form))),
                    Step::Same => {}
                }
            }
        }
        None
    }

    /// The document with several changes, and with one change and a usual layout; at most [`MAX_COMBINATIONS`] of each.
    pub(super) fn combinations(&mut self, file: &File<'_>, axes: &Axes) -> Option<Vec<HashMistake>> {
        file.document.as_ref()?;
        let variants = axes.variants();
        let several = variants.iter().filter(|(_, changes, _)| *changes > 1).map(|(variant, _, slips)| (variant, slips));
        for (variant, slips) in several.take(MAX_COMBINATIONS) {
            if self.hash_of(file, variant, &Layout::CANONICAL) == Some(self.committed) {
                return Some(joined(file, slips.clone()));
            }
        }
        let mut left = MAX_COMBINATIONS;
        for (variant, _, slips) in variants.iter().filter(|(_, changes, _)| *changes == 1) {
            for (layout, more) in usual_layouts() {
                if left == 0 {
                    return None;
                }
                left -= 1;
                if self.hash_of(file, variant, &layout) == Some(self.committed) {
                    return Some(joined(file, slips.iter().copied().chain(more).collect()));
                }
            }
        }
        None
    }

    /// The keccak256 of a variant of the document, or `None` once the budget is used up.
    fn hash_of(&mut self, file: &File<'_>, variant: &Variant<'_>, layout: &Layout) -> Option<B256> {
        let document = file.document.as_ref()?;
        if self.budget.hashes == 0 || self.budget.bytes == 0 {
            self.exhausted = true;
            return None;
        }
        let mut text = std::mem::take(&mut self.scratch);
        let fits = write(document.root(), variant, layout, &mut text);
        let hash = (self.spend(text.len()) && fits).then(|| self.keccak(text.as_bytes()));
        self.scratch = text;
        hash
    }

    pub(super) fn hits(&mut self, bytes: &[u8]) -> bool {
        self.hits_with(bytes, |bytes| keccak256(bytes))
    }

    fn hits_with(&mut self, bytes: &[u8], digest: fn(&[u8]) -> B256) -> bool {
        if !self.spend(bytes.len()) || self.budget.hashes == 0 {
            self.exhausted = true;
            return false;
        }
        self.count();
        digest(bytes) == self.committed
    }

    fn keccak(&mut self, bytes: &[u8]) -> B256 {
        self.count();
        keccak256(bytes)
    }

    const fn count(&mut self) {
        self.tried += 1;
        self.budget.hashes = self.budget.hashes.saturating_sub(1);
    }

    /// Takes bytes from the budget. If there are too few, sets it to zero, records that, and returns `false`.
    const fn spend(&mut self, bytes: usize) -> bool {
        match self.budget.bytes.checked_sub(bytes) {
            Some(left) => {
                self.budget.bytes = left;
                true
            }
            None => {
                self.budget.bytes = 0;
                self.exhausted = true;
                false
            }
        }
    }
}

/// The result of one change of content.
enum Step {
    /// The committed hash.
    Hit,
    /// A new hash.
    Other,
    /// No new hash.
    Same,
}

impl Axes {
    /// Every combination with the number of changes in it, fewest first.
    fn variants(&self) -> Vec<(Variant<'_>, usize, Vec<HashMistake>)> {
        fn options<T>(list: &[T]) -> impl Iterator<Item = Option<&T>> {
            std::iter::once(None).chain(list.iter().map(Some))
        }
        let mut variants = Vec::new();
        for strip in options(&self.strips) {
            for kind in options(&self.types) {
                for hex in options(&self.hexes) {
                    for form in options(&self.forms) {
                        let changes = [strip.is_some(), kind.is_some(), hex.is_some(), form.is_some()];
                        let changes = changes.iter().filter(|changed| **changed).count();
                        if changes == 0 {
                            continue;
                        }
                        let variant = Variant {
                            strip: strip.map(|(strip, _)| *strip),
                            kind: kind.map_or(TypeChange::Kept, |(kind, _)| *kind),
                            unicode: form.map(|(form, _)| *form),
                            replaced: hex.map_or(&[], |(replaced, _)| replaced),
                        };
                        let slips = strip
                            .map(|(_, slip)| *slip)
                            .into_iter()
                            .chain(kind.map(|(_, slip)| *slip))
                            .chain(hex.into_iter().flat_map(|(_, slips)| slips.iter().copied()))
                            .chain(form.map(|(_, slip)| *slip))
                            .collect();
                        variants.push((variant, changes, slips));
                    }
                }
            }
        }
        variants.sort_by_key(|(_, changes, _)| *changes);
        variants
    }
}

type Hash = fn(&[u8]) -> B256;

/// The two crates use different versions of the trait.
const DIGESTS: [(Hash, HashMistake); 2] = [
    (|bytes| B256::from_slice(&<Sha256 as sha2::Digest>::digest(bytes)), HashMistake::Sha256),
    (|bytes| B256::from_slice(&<Sha3_256 as sha3::Digest>::digest(bytes)), HashMistake::Sha3),
];

/// The mistakes of parsing a file, then those of the recipe.
fn joined(file: &File<'_>, slips: Vec<HashMistake>) -> Vec<HashMistake> {
    file.leniency.iter().copied().chain(slips).collect()
}

/// The layouts that are combined with changes of content.
fn usual_layouts() -> [(Layout, Vec<HashMistake>); 4] {
    let minified = Layout { order: Order::Source, ..Layout::CANONICAL };
    let indented = Layout { colon: ": ", indent: Some("  "), ..minified };
    [
        (minified, vec![HashMistake::Minified]),
        (indented, vec![HashMistake::Indented("  ")]),
        (Layout { final_newline: true, ..indented }, vec![HashMistake::Indented("  "), HashMistake::FinalNewline]),
        (Layout { final_newline: true, ..Layout::CANONICAL }, vec![HashMistake::FinalNewline]),
    ]
}

/// The layouts that are tried on an unmodified document.
fn layouts(non_ascii: bool) -> Vec<(Layout, Vec<HashMistake>)> {
    let minified = Layout { order: Order::Source, ..Layout::CANONICAL };
    let mut list = vec![
        (Layout { final_newline: true, ..Layout::CANONICAL }, vec![HashMistake::FinalNewline]),
        (Layout { numbers: Numbers::Source, ..Layout::CANONICAL }, vec![HashMistake::Numbers]),
        (Layout { numbers: Numbers::Python, ..Layout::CANONICAL }, vec![HashMistake::Numbers]),
        (minified, vec![HashMistake::Minified]),
        (Layout { final_newline: true, ..minified }, vec![HashMistake::Minified, HashMistake::FinalNewline]),
        (Layout { numbers: Numbers::Source, ..minified }, vec![HashMistake::Minified, HashMistake::Numbers]),
        (Layout { order: Order::RootSorted, ..Layout::CANONICAL }, vec![HashMistake::RootSorted]),
        (Layout { order: Order::RootNames, ..Layout::CANONICAL }, vec![HashMistake::RootNames]),
    ];
    for (indent, order) in [
        ("  ", Order::Source),
        ("    ", Order::Source),
        ("\t", Order::Source),
        ("  ", Order::Utf16),
        ("    ", Order::Utf16),
        ("\t", Order::Utf16),
    ] {
        let layout = Layout { order, colon: ": ", indent: Some(indent), ..Layout::CANONICAL };
        list.push((layout, vec![HashMistake::Indented(indent)]));
        list.push((Layout { final_newline: true, ..layout }, vec![HashMistake::Indented(indent), HashMistake::FinalNewline]));
    }
    for (sorted, ascii) in [(false, true), (true, true), (false, false), (true, false)] {
        if !ascii && !non_ascii {
            // Nothing to escape: the same output as before.
            continue;
        }
        let plain = Layout {
            order: if sorted { Order::CodePoint } else { Order::Source },
            comma: ", ",
            colon: ": ",
            indent: None,
            escapes: if ascii { Escapes::Ascii } else { Escapes::Smallest },
            numbers: Numbers::Python,
            final_newline: false,
        };
        for layout in [
            plain,
            Layout { comma: ",", colon: ":", ..plain },
            Layout { comma: ",", indent: Some("  "), ..plain },
            Layout { comma: ",", indent: Some("    "), ..plain },
        ] {
            let slip = HashMistake::Python { sorted, ascii };
            list.push((layout, vec![slip]));
            list.push((Layout { final_newline: true, ..layout }, vec![slip, HashMistake::FinalNewline]));
        }
    }
    list
}

/// Other types that the root may have had.
fn types(root: Value<'_>) -> Vec<(TypeChange, HashMistake)> {
    let found = root.get("type");
    let mut list: Vec<_> = KNOWN_TYPES
        .iter()
        .filter(|kind| found.and_then(Value::as_str) != Some(**kind))
        .map(|kind| {
            let slip =
                if found.is_none() && *kind == TYPE_V1 { HashMistake::TypeInjected } else { HashMistake::TypeReplaced(kind) };
            (TypeChange::Set(kind), slip)
        })
        .collect();
    if found.is_some() {
        list.push((TypeChange::Removed, HashMistake::TypeRemoved));
    }
    list
}

/// A string with hex digits in it.
struct Site<'d> {
    start: usize,
    text: &'d str,
    /// The range from `0x` to the last digit.
    digits: (usize, usize),
    place: HexSites,
}

/// Another spelling of the addresses of a manifest.
struct Respelling {
    replaced: Replacements,
    slips: Vec<HashMistake>,
    /// Whether it is combined with other changes.
    combines: bool,
}

/// The spellings that differ from the manifest's.
fn hexes(root: Value<'_>) -> Vec<Respelling> {
    use HexSites::{Access, All, Creator, Price, Pricing};
    use HexSpelling::{Checksummed, Lower, Upper};

    let sites = sites(root);
    let is_priced = |site: &Site<'_>| matches!(site.place, Price(_));
    let respelled = |spelling: HexSpelling, chosen: &dyn Fn(&Site<'_>) -> bool| -> Replacements {
        sites.iter().filter(|site| chosen(site)).filter_map(|site| Some((site.start, site.respelled(spelling)?))).collect()
    };
    let mut list = Vec::new();
    let mut add = |mut replaced: Replacements, slips: Vec<HashMistake>, combines: bool| {
        if !replaced.is_empty() {
            replaced.sort_unstable();
            list.push(Respelling { replaced, slips, combines });
        }
    };
    for spelling in [Lower, Checksummed, Upper] {
        add(respelled(spelling, &|_| true), vec![HashMistake::HexCase(All, spelling)], spelling != Upper);
    }
    for spelling in [Lower, Checksummed, Upper] {
        add(respelled(spelling, &|site| site.place == Creator), vec![HashMistake::HexCase(Creator, spelling)], spelling != Upper);
        add(respelled(spelling, &is_priced), vec![HashMistake::HexCase(Pricing, spelling)], spelling != Upper);
        add(respelled(spelling, &|site| site.place == Access), vec![HashMistake::HexCase(Access, spelling)], false);
    }
    for (creator, pricing) in [(Lower, Checksummed), (Checksummed, Lower)] {
        let mut replaced = respelled(creator, &|site| site.place == Creator);
        replaced.extend(respelled(pricing, &is_priced));
        add(replaced, vec![HashMistake::HexCase(Creator, creator), HashMistake::HexCase(Pricing, pricing)], true);
    }
    for single in sites.iter().filter(|site| is_priced(site)) {
        for spelling in [Lower, Checksummed] {
            let replaced = respelled(spelling, &|site| site.start == single.start);
            add(replaced, vec![HashMistake::HexCase(single.place, spelling)], false);
        }
    }
    list
}

fn sites(root: Value<'_>) -> Vec<Site<'_>> {
    let mut sites = Vec::new();
    sites.extend(Site::of(root.get("creatorAddress"), HexSites::Creator));
    let prices = root.get("pricing").and_then(Value::as_array).into_iter().flat_map(Array::iter);
    for (index, price) in prices.take(MAX_HEX_PRICES).enumerate() {
        sites.extend(Site::of(price.get("asset"), HexSites::Price(index)));
        sites.extend(Site::of(price.get("recipient"), HexSites::Price(index)));
    }
    let requirements = root.get("access").and_then(|access| access.get("requirements")).and_then(Value::as_array);
    for requirement in requirements.into_iter().flat_map(Array::iter).take(MAX_HEX_REQUIREMENTS) {
        sites.extend(Site::of(requirement.get("kind"), HexSites::Access));
        sites.extend(Site::of(requirement.get("data"), HexSites::Access));
    }
    sites
}

impl<'d> Site<'d> {
    fn of(value: Option<Value<'d>>, place: HexSites) -> Option<Self> {
        let value = value?;
        let text = value.as_str()?;
        let from = match place {
            // `eip155:8453/erc20:0x…` and `eip155:8453:0x…`: the address follows a colon.
            HexSites::Price(_) => text.find(":0x").or_else(|| text.find(":0X"))? + 1,
            _ => 0,
        };
        let digits = text.get(from..)?.strip_prefix("0x").or_else(|| text.get(from..)?.strip_prefix("0X"))?;
        let count = digits.bytes().take_while(u8::is_ascii_hexdigit).count();
        let is_whole = match place {
            HexSites::Price(_) => count == 40 && digits.get(40..).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
            HexSites::Creator => count == 40 && digits.len() == 40,
            _ => count == digits.len(),
        };
        is_whole.then_some(Self { start: value.span().start, text, digits: (from, from + 2 + count), place })
    }

    /// The whole string in another spelling; `None` if it already has that spelling, or cannot have it.
    fn respelled(&self, spelling: HexSpelling) -> Option<String> {
        let (from, to) = self.digits;
        let (before, hex, after) = (self.text.get(..from)?, self.text.get(from..to)?, self.text.get(to..)?);
        let spelled = match spelling {
            HexSpelling::Lower => hex.to_ascii_lowercase(),
            HexSpelling::Upper => format!("0x{}", hex.get(2..)?.to_ascii_uppercase()),
            HexSpelling::Checksummed => hex.to_ascii_lowercase().parse::<Address>().ok()?.to_checksum(None),
        };
        (spelled != hex).then(|| format!("{before}{spelled}{after}"))
    }
}

fn has_carriage_returns(text: &[u8]) -> bool {
    text.windows(2).any(|pair| pair == b"\r\n")
}

/// Converts Windows line endings to Unix.
fn without_carriage_returns(text: &[u8]) -> Vec<u8> {
    let next = text.iter().skip(1).chain(Some(&0));
    text.iter().zip(next).filter(|(byte, next)| !(**byte == b'\r' && **next == b'\n')).map(|(byte, _)| *byte).collect()
}

/// Converts Unix line endings to Windows.
fn with_carriage_returns(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + text.len() / 16);
    for &byte in text {
        if byte == b'\n' {
            out.push(b'\r');
        }
        out.push(byte);
    }
    out
}

/// `abi.encode(string)`: offset, length, and the text padded to whole words.
fn abi_encoded(text: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 64];
    out[31] = 32;
    out[56..64].copy_from_slice(&(text.len() as u64).to_be_bytes());
    out.extend_from_slice(text);
    out.resize(64 + text.len().next_multiple_of(32), 0);
    out
}
