//! Published hashes: those of the ERC, those of its documentation, and those on chain.

use alloy_primitives::keccak256;
use toolcrib_core::checked::Outcome;
use toolcrib_core::finding::{Mode, Severity};
use toolcrib_core::tool::ToolManifest;

use toolcrib_testkit::{corpus, rows, vectors};

// req: VEC-001, VEC-002, VEC-003, VEC-004, VEC-009, MAN-017
#[test]
fn our_vectors() {
    let folder = vectors("tool");
    let expected = rows(&folder.join("expected.tsv"));
    assert_eq!(expected.len(), 8);
    for row in expected {
        let [file, verdict, length, hash, codes] = row.as_slice() else { panic!("five columns: {row:?}") };
        let bytes = std::fs::read(folder.join(file)).expect("a vector");
        let checked = ToolManifest::parse(&bytes, Mode::Consumer);
        let found = match checked.outcome {
            Outcome::Conformant(_) => "conformant",
            Outcome::Flawed(_) => "flawed",
            Outcome::Unreadable => "unreadable",
        };
        assert_eq!(found, verdict, "{file}: {:?}", checked.findings);
        let preimage = checked.canonical().map_or(bytes.as_slice(), |canonical| canonical.as_bytes());
        assert_eq!((preimage.len().to_string(), keccak256(preimage).to_string()), (length.clone(), hash.clone()), "{file}");
        let mut errors: Vec<_> = checked.findings.iter().filter(|f| f.severity == Severity::Error).map(|f| f.code.id()).collect();
        errors.sort_unstable();
        assert_eq!(errors.join(","), *codes, "{file}");
    }
}

// req: VEC-001, VEC-002, VEC-003, VEC-004
#[test]
fn vectors_of_the_corpus_have_their_published_hashes() {
    let Some(folder) = corpus("erc8257/vectors") else { return };
    let expected = rows(&folder.join("expected.tsv"));
    assert!(expected.len() >= 8);
    for row in expected {
        let bytes = std::fs::read(folder.join(&row[0])).expect("a vector");
        let hash = if row[2] == "jcs" {
            ToolManifest::parse(&bytes, Mode::Consumer).canonical().expect("I-JSON").hash()
        } else {
            keccak256(&bytes)
        };
        assert_eq!(hash.to_string(), row[3], "{}", row[0]);
    }
}

// req: MAN-016
#[test]
fn manifests_on_chain_have_the_hash_that_the_chain_has() {
    let Some(corpus) = corpus("erc8257") else { return };
    let gold = rows(&corpus.join("gold.tsv"));
    assert!(gold.len() >= 22, "{}", gold.len());
    for row in gold {
        let bytes = std::fs::read(corpus.join("manifests").join(&row[0])).expect("a manifest");
        let checked = ToolManifest::parse(&bytes, Mode::Consumer);
        assert_eq!(checked.canonical().expect("I-JSON").hash().to_string(), row[1], "{}", row[0]);
    }
}

// req: CANON-001
#[test]
fn every_collected_manifest_hashes_as_two_other_implementations_say() {
    let Some(corpus) = corpus("erc8257") else { return };
    let provenance = rows(&corpus.join("provenance.tsv"));
    let mut compared = 0;
    for row in provenance {
        let path = corpus.join("manifests").join(&row[0]);
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let checked = ToolManifest::parse(&bytes, Mode::Consumer);
        assert_eq!(checked.canonical().expect("I-JSON").hash().to_string(), row[5], "{}", row[0]);
        compared += 1;
    }
    assert!(compared >= 80, "{compared}");
}
