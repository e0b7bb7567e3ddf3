//! Explains why the served manifest does not have the hash that is committed onchain.
//!
//! [`Case::explain`] tries the known mistakes between a manifest and its commitment, returns the cause whose result *is* the committed
//! hash, and the next step. A cause is never guessed: a hash matches or it does not. If none matches, the explanation says so, with the
//! differences from the nearest available version ([`diff`]).
//!
//! Work is bounded by [`MAX_HASHES`] and [`MAX_WORK_BYTES`], for any served file and any number of candidates. Fetching, git and the chain
//! are not part of it: the caller supplies the bytes.

mod causes;
mod diff;
mod search;
mod write;

use alloy_primitives::{B256, keccak256};

pub use causes::{Cause, HashMistake, HexSites, HexSpelling, NotAManifest, OddHash, Relation, Repair};
pub use diff::{Change, ChangeKind, Diff, MAX_CHANGES, MAX_POINTER_CHARS, MAX_SHOWN_CHARS, diff};
use search::{Axes, Budget, File, Search};
pub use search::{MAX_HASHES, MAX_WORK_BYTES};
use toolcrib_core::codes::{self, Code};
use toolcrib_core::finding::Mode;
use toolcrib_core::json::{self, Value};
use toolcrib_core::kind::ManifestKind;
use toolcrib_core::tool::ToolManifest;
pub use write::UnicodeForm;

/// Most candidates that are tried: the first ones. A longer history is rare, and the newest versions are the likely ones.
pub const MAX_CANDIDATES: usize = 64;

/// Most bytes that are compared to find the nearest candidate, both sides counted each time: about a second. Enough for all candidates of
/// ordinary size; for eight of the largest.
pub(crate) const MAX_COMPARED_BYTES: usize = 16 << 20;

/// Another file that may be the committed one.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Its label: a commit and a path, a file name, another tool's slug. Chosen by the caller, and displayed.
    pub label: &'a str,
    /// How it relates to the served file.
    pub relation: Relation,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// Two hashes that differ.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    /// The served bytes.
    pub served: &'a [u8],
    /// The onchain hash.
    pub committed: B256,
    /// The onchain metadata URI, if it is known.
    pub metadata_uri: Option<&'a str>,
    /// Other files, likely ones first; at most [`MAX_CANDIDATES`] are tried.
    pub candidates: &'a [Candidate<'a>],
}

/// The result of the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The cause that matches, if any.
    pub cause: Option<Cause>,
    /// If the server does not send the manifest: the cause for the commitment, if one was found too.
    pub further: Option<Cause>,
    /// The correct hash of the served manifest, if it has one.
    pub served_hash: Option<B256>,
    /// The onchain hash.
    pub committed: B256,
    /// The number of hashes that were compared.
    pub tried: usize,
    /// Whether some combinations were not tried, because the files are too large or too many.
    pub exhausted: bool,
    /// The recommended next step.
    pub repair: Repair,
    /// The alternative, if there is one.
    pub otherwise: Option<Repair>,
    /// The label of the candidate that [`diff`](Self::diff) starts from: the committed one, or else the nearest.
    pub nearest: Option<String>,
    /// The changes from that candidate to the served manifest.
    pub diff: Option<Diff>,
}

impl Explanation {
    /// Whether the hashes match.
    pub fn matches(&self) -> bool {
        self.served_hash == Some(self.committed)
    }

    /// The code of the cause, or the one that says that none was found. `None` if the hashes match.
    pub fn code(&self) -> Option<Code> {
        match &self.cause {
            _ if self.matches() => None,
            Some(cause) => Some(cause.code()),
            None => Some(codes::explain::UNEXPLAINED),
        }
    }
}

/// Explains why `served` does not have the hash `committed`. See [`Case`] for further inputs.
///
/// ```
/// use alloy_primitives::keccak256;
/// use toolcrib_judge::explain::{Cause, HashMistake, explain};
///
/// let served = br#"{ "name": "tides", "endpoint": "https://tools.example.com/tides" }"#;
/// let found = explain(served, keccak256(served), &[]);
/// assert_eq!(found.cause, Some(Cause::Recipe { label: None, slips: vec![HashMistake::RawBytes] }));
/// assert_eq!(found.code().unwrap().id(), "hash.raw_bytes");
/// ```
pub fn explain(served: &[u8], committed: B256, candidates: &[Candidate<'_>]) -> Explanation {
    Case { served, committed, metadata_uri: None, candidates }.explain()
}

impl Case<'_> {
    /// Searches for the cause.
    pub fn explain(&self) -> Explanation {
        self.explain_within(Budget::default())
    }

    fn explain_within(&self, budget: Budget) -> Explanation {
        let mut search = Search::new(self.committed, budget);
        let served = search.read(self.served);
        let found = self.look(&mut search, served.as_ref());
        let unusable = not_a_manifest(self.served, served.as_ref());

        let served_hash = found.served_hash;
        let matches = served_hash == Some(self.committed);
        let (cause, further) = match (found.cause, found.serves_other, unusable) {
            _ if matches => (None, None),
            // A commitment that cannot be a hash takes precedence over the served content.
            (Some(cause @ Cause::Commitment(_)), _, _) => (Some(cause), None),
            // The served bytes are not the manifest, but they were hashed.
            (Some(cause @ Cause::Recipe { label: None, .. }), _, _) => (Some(cause), None),
            (cause, Some(label), _) => (Some(Cause::ServesOtherTool(label)), cause),
            (cause, None, Some(what)) => (Some(Cause::Served(what)), cause),
            (cause, None, None) => (cause, None),
        };
        let (nearest, diff) = match served.as_ref().and_then(|file| file.document.as_ref()) {
            Some(document) if !matches && unusable.is_none() => self.compare(document.root(), cause.as_ref()),
            _ => (None, None),
        };
        let mut explanation = Explanation {
            cause,
            further,
            served_hash,
            committed: self.committed,
            tried: search.tried,
            exhausted: search.exhausted,
            repair: Repair::Nothing,
            otherwise: None,
            nearest,
            diff,
        };
        if !matches {
            (explanation.repair, explanation.otherwise) = self.repairs(&explanation, unusable.is_some(), found.mends);
        }
        explanation
    }

    fn candidates(&self) -> impl Iterator<Item = &Candidate<'_>> {
        self.candidates.iter().take(MAX_CANDIDATES)
    }

    /// Tries all recipes, likely causes first.
    fn look(&self, search: &mut Search, served: Option<&File<'_>>) -> Found {
        let mut found = Found::default();
        if let Some(odd) = odd_hash(self.committed, self.metadata_uri) {
            found.cause = Some(Cause::Commitment(odd));
        }
        let served_lenient = served.and_then(|file| search.canonical(file));
        if served.is_some_and(|file| file.leniency.is_empty()) {
            found.served_hash = served_lenient;
        }
        if found.cause.is_some() || found.served_hash == Some(self.committed) {
            return found;
        }
        if let Some(file) = served
            && served_lenient == Some(self.committed)
        {
            return found.with_recipe(search, file, None, file.leniency.clone());
        }

        for candidate in self.candidates() {
            let Some(file) = search.read(candidate.bytes) else { continue };
            let Some(hash) = search.canonical(&file) else { continue };
            if hash == self.committed && found.cause.is_none() {
                let label = candidate.label.to_owned();
                found.cause = Some(if file.leniency.is_empty() {
                    Cause::OtherFile { label, relation: candidate.relation }
                } else {
                    Cause::Recipe { label: Some(label), slips: file.leniency.clone() }
                });
            }
            if Some(hash) == found.served_hash && candidate.relation == Relation::OtherTool && found.serves_other.is_none() {
                found.serves_other = Some(candidate.label.to_owned());
            }
        }
        if found.cause.is_some() {
            return found;
        }

        let mut axes = Axes::default();
        if let Some(file) = served {
            let simple = search
                .raw(file)
                .or_else(|| search.contents(file, &mut axes))
                .or_else(|| search.layouts(file))
                .or_else(|| search.digests(file));
            if let Some(slips) = simple {
                return found.with_recipe(search, file, None, slips);
            }
        }
        for candidate in self.candidates() {
            let Some(file) = search.read(candidate.bytes) else { continue };
            if let Some(slips) = search.raw(&file) {
                return found.with_recipe(search, &file, Some(candidate.label), slips);
            }
        }
        if let Some(file) = served
            && let Some(slips) = search.combinations(file, &axes)
        {
            return found.with_recipe(search, file, None, slips);
        }
        for candidate in self.candidates() {
            let Some(file) = search.read(candidate.bytes) else { continue };
            let mut axes = Axes::default();
            let slips = search
                .contents(&file, &mut axes)
                .or_else(|| search.layouts(&file))
                .or_else(|| search.digests(&file))
                .or_else(|| search.combinations(&file, &axes));
            if let Some(slips) = slips {
                return found.with_recipe(search, &file, Some(candidate.label), slips);
            }
        }
        found
    }

    /// The candidate to compare with, and the changes from it.
    fn compare(&self, served: Value<'_>, cause: Option<&Cause>) -> (Option<String>, Option<Diff>) {
        let mut left = MAX_COMPARED_BYTES;
        let committed = cause.and_then(Cause::committed);
        let diffs = self.candidates().filter(|candidate| match committed {
            Some(label) => candidate.label == label,
            // The file of another tool differs in everything.
            None => cause.is_none() && candidate.relation != Relation::OtherTool,
        });
        let nearest = diffs
            .filter_map(|candidate| {
                left = left.checked_sub(candidate.bytes.len() + self.served.len())?;
                let document = json::read(candidate.bytes, json::Limits::default()).document?;
                Some((candidate.label, diff(document.root(), served)))
            })
            .min_by_key(|(_, diff)| diff.distance);
        match nearest {
            Some((label, diff)) => (Some(label.to_owned()), Some(diff)),
            None => (None, None),
        }
    }

    /// The recommended step, and the alternative.
    fn repairs(&self, found: &Explanation, unusable: bool, mends: bool) -> (Repair, Option<Repair>) {
        let fix_server = |label: Option<&str>| Repair::FixServer { label: label.map(str::to_owned) };
        let update = || match found.served_hash {
            Some(correct_hash) if !unusable => Repair::UpdateOnchain { correct_hash, lint_first: !is_conformant(self.served) },
            // Without canonical form there is no hash to commit.
            _ if !unusable => Repair::MendServed,
            _ => fix_server(None),
        };
        match &found.cause {
            Some(Cause::Served(_) | Cause::ServesOtherTool(_)) => {
                (fix_server(found.further.as_ref().and_then(Cause::committed)), None)
            }
            Some(Cause::Commitment(OddHash::Zero)) => (Repair::CheckReference, None),
            Some(Cause::OtherFile { label, relation: Relation::Version }) => {
                (update(), Some(Repair::ServeCommitted { label: label.clone() }))
            }
            Some(Cause::OtherFile { label, relation: Relation::Local }) => {
                (Repair::ServeCommitted { label: label.clone() }, Some(update()))
            }
            Some(Cause::Recipe { label: None, .. }) if mends => (Repair::MendServed, Some(update())),
            _ => (update(), None),
        }
    }
}

/// The result of the search.
#[derive(Default)]
struct Found {
    cause: Option<Cause>,
    served_hash: Option<B256>,
    /// The label of the other tool whose manifest is served.
    serves_other: Option<String>,
    /// Whether the committed document is a manifest that readers accept, while the served one is not.
    mends: bool,
}

impl Found {
    fn with_recipe(mut self, search: &Search, file: &File<'_>, label: Option<&str>, slips: Vec<HashMistake>) -> Self {
        // Only changes of content give a document whose correct hash is the committed one.
        self.mends = label.is_none()
            && slips.iter().all(|slip| slip.is_content())
            && !is_conformant(file.bytes)
            && is_conformant(search.written().as_bytes());
        self.cause = Some(Cause::Recipe { label: label.map(str::to_owned), slips });
        self
    }
}

fn is_conformant(bytes: &[u8]) -> bool {
    ToolManifest::parse(bytes, Mode::Consumer).conformant().is_some()
}

/// Whether the committed value alone shows that no manifest was hashed.
fn odd_hash(committed: B256, metadata_uri: Option<&str>) -> Option<OddHash> {
    let bytes = committed.as_slice();
    if committed.is_zero() {
        Some(OddHash::Zero)
    } else if bytes.iter().take(28).all(|&byte| byte == 0) || bytes.iter().all(|byte| Some(byte) == bytes.first()) {
        Some(OddHash::Placeholder)
    } else if ["", "{}", "null", "\"\"", "undefined", "[object Object]"].iter().any(|text| keccak256(text) == committed) {
        Some(OddHash::OfNothing)
    } else {
        metadata_uri.filter(|uri| keccak256(uri) == committed).map(|_| OddHash::OfUri)
    }
}

/// Returns why the bytes cannot be a manifest, if so.
fn not_a_manifest(bytes: &[u8], file: Option<&File<'_>>) -> Option<NotAManifest> {
    let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes).trim_ascii();
    if bytes.len() > json::MAX_BYTES {
        return Some(NotAManifest::TooLarge);
    }
    if text.is_empty() {
        return Some(NotAManifest::Empty);
    }
    // JSON never starts like this. Storage services return XML, which is not a manifest either.
    if text.starts_with(b"<") {
        return Some(NotAManifest::Html);
    }
    let root = file.and_then(|file| file.document.as_ref()).map(json::Document::root);
    let Some(object) = root.and_then(Value::as_object) else { return Some(NotAManifest::NoObject) };
    let tells_error =
        ["error", "errors", "message", "detail", "statusCode", "errorMessage"].iter().any(|key| object.get(key).is_some());
    (tells_error && ManifestKind::detect(object.value()).is_none()).then_some(NotAManifest::ErrorObject)
}

#[cfg(test)]
mod tests;
