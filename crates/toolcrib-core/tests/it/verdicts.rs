//! Real manifests get verdicts that were reviewed by hand. `UPDATE=1` rewrites the file after a change of rules; review the diff before
//! committing it.

use std::fmt::Write;
use std::path::Path;

use alloy_primitives::keccak256;
use toolcrib_core::agent::AgentManifest;
use toolcrib_core::agent::txt::{self, TxtOutcome};
use toolcrib_core::checked::{Checked, Manifest, Outcome, parse};
use toolcrib_core::finding::{Finding, Mode};
use toolcrib_core::local::LocalManifest;
use toolcrib_core::tool::ToolManifest;

use toolcrib_testkit::{corpus, files, vectors};

#[test]
fn every_file_of_the_corpus_gets_its_verdict() {
    let Some(corpus) = corpus("") else { return };
    let mut table = String::from("keccak256\tkind\treader\tproducer\tcodes\n");
    let mut count = 0;
    for path in files(&corpus.join("erc8257/manifests")) {
        row::<ToolManifest>("tool", &path, &mut table);
        count += 1;
    }
    for path in files(&corpus.join("local-tools")) {
        row::<LocalManifest>("local", &path, &mut table);
        count += 1;
    }
    for path in files(&corpus.join("agt")) {
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("txt-")) {
            txt_row(&path, &mut table);
        } else {
            row::<AgentManifest>("agent", &path, &mut table);
        }
        count += 1;
    }
    assert!(count >= 140, "{count}");
    let held = vectors("corpus-verdicts.tsv");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&held, &table).expect("writable");
    }
    let expected = std::fs::read_to_string(&held).unwrap_or_default();
    for (line, (ours, theirs)) in table.lines().zip(expected.lines()).enumerate() {
        assert_eq!(ours, theirs, "line {} of vectors/corpus-verdicts.tsv", line + 1);
    }
    assert_eq!(table.lines().count(), expected.lines().count());
}

fn row<M: Manifest>(kind: &str, path: &Path, table: &mut String) {
    let bytes = std::fs::read(path).expect("a corpus file");
    let word = |checked: &Checked<M>| match checked.outcome {
        Outcome::Conformant(_) => "conformant",
        Outcome::Flawed(_) => "flawed",
        Outcome::Unreadable => "unreadable",
    };
    let (reader, producer) = (parse::<M>(&bytes, Mode::Consumer), parse::<M>(&bytes, Mode::Producer));
    let line = format!("{}\t{kind}\t{}\t{}\t{}", keccak256(&bytes), word(&reader), word(&producer), codes(&producer.findings));
    writeln!(table, "{line}").expect("a string");
}

fn txt_row(path: &Path, table: &mut String) {
    let bytes = std::fs::read(path).expect("a corpus file");
    let reading = txt::parse_text(&String::from_utf8_lossy(&bytes));
    let outcome = match reading.outcome {
        TxtOutcome::Pointer(_) => "pointer",
        TxtOutcome::Legacy(_) => "legacy",
        TxtOutcome::Refused => "refused",
        TxtOutcome::NotAnAgent => "not an agent",
    };
    writeln!(table, "{}\tagent-txt\t-\t{outcome}\t{}", keccak256(&bytes), codes(&reading.findings)).expect("a string");
}

/// Each code with its number of occurrences.
fn codes(findings: &[Finding]) -> String {
    let mut counts = std::collections::BTreeMap::new();
    for finding in findings {
        *counts.entry(finding.code.id()).or_insert(0) += 1;
    }
    counts
        .into_iter()
        .map(|(code, count)| if count == 1 { code.to_owned() } else { format!("{code}*{count}") })
        .collect::<Vec<_>>()
        .join(" ")
}
