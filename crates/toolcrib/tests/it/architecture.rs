//! The crate dependencies drawn in ARCHITECTURE.md match the manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use toolcrib_testkit::repository;

/// The crates that a manifest depends on, except dev-dependencies, without their prefix.
fn used_by(manifest: &Path) -> (String, BTreeSet<String>) {
    let text = fs::read_to_string(manifest).unwrap_or_else(|error| panic!("{}: {error}", manifest.display()));
    let manifest: toml::Table = text.parse().expect("TOML");
    let short = |name: &str| name.strip_prefix("toolcrib-").unwrap_or(name).to_owned();
    let tables = std::iter::once(&manifest).chain(
        manifest.get("target").and_then(toml::Value::as_table).into_iter().flatten().filter_map(|(_, target)| target.as_table()),
    );
    let names = tables.filter_map(|table| table.get("dependencies")?.as_table()).flat_map(toml::Table::keys);
    let used = names.filter(|name| name.starts_with("toolcrib")).map(|name| short(name)).collect();
    (short(manifest["package"]["name"].as_str().expect("a name")), used)
}

#[test]
fn the_table_of_crates_is_that_of_the_manifests() {
    let mut manifests = vec![repository().join("contracts/Cargo.toml")];
    for entry in fs::read_dir(repository().join("crates")).expect("crates") {
        manifests.push(entry.expect("a folder").path().join("Cargo.toml"));
    }
    let mut actual: BTreeMap<_, _> = manifests.iter().map(|manifest| used_by(manifest)).collect();
    assert!(actual.remove("testkit").is_some(), "the test kit is a crate");
    let normal: Vec<_> = actual.iter().filter(|(_, used)| used.contains("testkit")).collect();
    assert!(normal.is_empty(), "the test kit is for tests alone: {normal:?}");

    let page = fs::read_to_string(repository().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let section = page.split("## Crates, and what each may use").nth(1).expect("the section");
    let table = section.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("the table");
    let mut above = BTreeSet::new();
    let mut drawn = BTreeMap::new();
    for line in table.lines() {
        let mut words = line.split_whitespace().map(str::to_owned);
        let name = words.next().expect("a crate");
        let used: BTreeSet<_> = words.collect();
        assert!(used.is_subset(&above), "{name} uses what is not above it: {used:?}");
        above.insert(name.clone());
        drawn.insert(name, used);
    }
    assert_eq!(actual, drawn);
}
