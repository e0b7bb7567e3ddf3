//! Our stages, separately and together.

use std::hint::black_box;

use alloy_primitives::{B256, keccak256};
use toolcrib_core::canon::{self, Canonical};
use toolcrib_core::checked::{Context, Manifest};
use toolcrib_core::finding::Mode;
use toolcrib_core::json::{self, Document, Limits};
use toolcrib_core::schema::Validator;
use toolcrib_core::tool::ToolManifest;

use crate::input::Set;

/// A step from bytes to a verdict, run once over a whole set.
pub struct Stage {
    pub name: &'static str,
    pub run: fn(&Prepared),
}

/// A set, with the inputs of later stages.
pub struct Prepared {
    pub sources: Vec<Vec<u8>>,
    pub documents: Vec<Document>,
    pub canonical: Vec<Canonical>,
}

impl Prepared {
    /// `None` when a file has no canonical form.
    pub fn of(set: &Set) -> Option<Self> {
        let documents: Vec<Document> = set.sources.iter().map(|source| read(source)).collect::<Option<_>>()?;
        let canonical = documents.iter().map(Canonical::of).collect::<Option<_>>()?;
        Some(Self { sources: set.sources.clone(), documents, canonical })
    }

    pub fn hashes(&self) -> Vec<B256> {
        self.canonical.iter().map(Canonical::hash).collect()
    }

    pub fn canonical_bytes(&self) -> usize {
        self.canonical.iter().map(|canonical| canonical.as_bytes().len()).sum()
    }
}

/// The lower bound: hashing the canonical bytes with this keccak implementation cannot be faster.
pub const FLOOR: Stage = Stage { name: "keccak alone", run: keccak };

/// The work of a consumer who trusts the manifest: the fair comparison with the peers.
pub const HASH: Stage = Stage { name: "read + canonicalise + keccak", run: hash };

pub const STAGES: &[Stage] = &[
    FLOOR,
    Stage { name: "read", run: read_all },
    Stage { name: "canonicalise", run: canonicalise },
    HASH,
    Stage { name: "rules", run: rules },
    Stage { name: "whole check", run: parse },
    // Not part of the check: a validator is compiled before calling the tool.
    Stage { name: "compile inputs and outputs", run: compile },
];

pub fn read(source: &[u8]) -> Option<Document> {
    json::read(source, Limits::default()).document
}

fn read_all(set: &Prepared) {
    for source in &set.sources {
        black_box(json::read(black_box(source), Limits::default()));
    }
}

fn canonicalise(set: &Prepared) {
    for document in &set.documents {
        let mut text = String::with_capacity(document.source().len());
        canon::write_value(black_box(document).root(), &mut text);
        black_box(text);
    }
}

fn keccak(set: &Prepared) {
    for canonical in &set.canonical {
        black_box(keccak256(black_box(canonical.as_bytes())));
    }
}

fn hash(set: &Prepared) {
    for source in &set.sources {
        black_box(read(black_box(source)).as_ref().and_then(Canonical::of));
    }
}

/// Applies every rule of tool manifests to a parsed document.
fn rules(set: &Prepared) {
    for document in &set.documents {
        let mut context = Context::new(Mode::Consumer);
        if let Some(root) = black_box(document).root().as_object() {
            black_box(ToolManifest::check(root, &mut context));
        }
        black_box(context);
    }
}

fn parse(set: &Prepared) {
    for source in &set.sources {
        black_box(ToolManifest::parse(black_box(source), Mode::Consumer));
    }
}

fn compile(set: &Prepared) {
    for document in &set.documents {
        for field in ["inputs", "outputs"] {
            if let Some(schema) = document.root().get(field) {
                black_box(Validator::compile(black_box(schema)).is_ok());
            }
        }
    }
}

/// Why a generated manifest is not conformant.
pub fn flaws(source: &[u8]) -> Vec<String> {
    let checked = ToolManifest::parse(source, Mode::Producer);
    match checked.conformant() {
        Some(_) => Vec::new(),
        None => checked.findings.iter().map(|finding| format!("{} at {}", finding.code, finding.pointer)).collect(),
    }
}
