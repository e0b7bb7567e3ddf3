//! The conformance matrix: every requirement has a test, or a reason why it has none.
//!
//! `docs/conformance.tsv` is maintained by hand; `docs/conformance.md` is generated from it and from the `// req:` comments above the
//! tests. `UPDATE=1 cargo test` rewrites the page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

#[derive(Debug)]
struct Row {
    id: String,
    source: String,
    section: String,
    level: String,
    requirement: String,
    note: String,
}

#[test]
fn every_requirement_is_tested_or_says_why_not() {
    let rows = matrix();
    let named = named_by_tests();
    let known: BTreeSet<_> = rows.iter().map(|row| row.id.as_str()).collect();
    let strangers: Vec<_> = named.keys().filter(|id| !known.contains(id.as_str())).collect();
    assert!(strangers.is_empty(), "tests name requirements that the matrix lacks: {strangers:?}");
    let silent: Vec<_> =
        rows.iter().filter(|row| row.note.is_empty() && !named.contains_key(&row.id)).map(|row| &row.id).collect();
    assert!(silent.is_empty(), "neither tested nor explained: {silent:?}");
    for row in &rows {
        // A note says what is true today and promises nothing.
        let needs_test = match row.note.split_once(": ") {
            Some(("in part", _)) => true,
            Some(("not built" | "not applicable", _)) => false,
            _ => {
                assert!(row.note.is_empty(), "{}: a note starts with `in part: `, `not built: ` or `not applicable: `", row.id);
                continue;
            }
        };
        assert_eq!(needs_test, named.contains_key(&row.id), "{}: `{}`, and its tests say otherwise", row.id, row.note);
    }
}

#[test]
fn the_page_is_fresh() {
    let page = page(&matrix(), &named_by_tests());
    let path = root().join("docs/conformance.md");
    if std::env::var_os("UPDATE").is_some_and(|value| !value.is_empty()) {
        std::fs::write(&path, &page).expect("writable");
    }
    let held = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        held == page,
        "docs/conformance.md is stale: run `UPDATE=1 cargo test -p toolcrib conformance` and commit the result"
    );
}

/// Files move, and a table with a wrong path would make the rest doubtful, too.
#[test]
fn every_place_in_the_table_of_threats_exists() {
    let text = std::fs::read_to_string(root().join("docs/threats.md")).expect("the page");
    let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| attempt"));
    let mut count = 0;
    for row in rows {
        let place = row.trim_end_matches(" |").rsplit(" | ").next().expect("a column");
        for place in place.split('`').skip(1).step_by(2) {
            let name = place.split('/').next().unwrap_or_default();
            let is_there = |base: &str| root().join(base).join(place).exists();
            let in_crate = root().join("crates").join(format!("toolcrib-{place}")).exists();
            assert!(
                is_there("") || is_there("crates") || in_crate || is_there("crates/toolcrib-core/src"),
                "{name}: {place}\n{row}"
            );
            count += 1;
        }
    }
    assert!(count > 80, "{count}");
}

fn page(rows: &[Row], named: &BTreeMap<String, BTreeSet<String>>) -> String {
    let mut out = String::from(
        "# Conformance\n\n\
         Made from `docs/conformance.tsv` and the `// req:` comments of the tests; do not edit.\n\n\
         *tested*: at least one test names the requirement. *in part*: tested as far as the note says.\n\
         *not built*: Toolcrib does not do this. *not applicable*: the requirement binds another party.\n\n\
         | group | tested | in part | not built | not applicable | all |\n|---|---|---|---|---|---|\n",
    );
    let mut groups: BTreeMap<&str, [usize; 5]> = BTreeMap::new();
    for row in rows {
        let group = row.id.split('-').next().unwrap_or_default();
        let counts = groups.entry(group).or_default();
        counts[state(row, named).0] += 1;
        counts[4] += 1;
    }
    for (group, [tested, part, missing, not, all]) in &groups {
        writeln!(out, "| {group} | {tested} | {part} | {missing} | {not} | {all} |").expect("a string");
    }
    out.push_str("\n| id | level | requirement | state |\n|---|---|---|---|\n");
    for row in rows {
        let (_, word) = state(row, named);
        let why = row.note.split_once(": ").map(|(_, why)| format!(": {why}")).unwrap_or_default();
        let files: Vec<_> = named.get(&row.id).into_iter().flatten().map(|file| format!("`{file}`")).collect();
        let tests = if files.is_empty() { String::new() } else { format!(" in {}", files.join(", ")) };
        let requirement = row.requirement.replace('|', "\\|").replace('<', "&lt;");
        writeln!(
            out,
            "| {} | {} | {requirement} ({}, {}) | {word}{tests}{why} |",
            row.id,
            row.level,
            row.source,
            row.section.replace('|', "\\|")
        )
        .expect("a string");
    }
    out
}

fn state(row: &Row, named: &BTreeMap<String, BTreeSet<String>>) -> (usize, &'static str) {
    match (named.contains_key(&row.id), row.note.is_empty(), row.note.starts_with("not applicable")) {
        (true, true, _) => (0, "tested"),
        (true, false, _) => (1, "in part"),
        (false, _, true) => (3, "not applicable"),
        (false, _, false) => (2, "not built"),
    }
}

fn matrix() -> Vec<Row> {
    let text = std::fs::read_to_string(root().join("docs/conformance.tsv")).expect("the matrix");
    text.lines()
        .skip(1)
        .map(|line| {
            let cells: Vec<_> = line.split('\t').map(str::to_owned).collect();
            let [id, source, section, level, _actor, requirement, note] =
                <[String; 7]>::try_from(cells).unwrap_or_else(|cells| panic!("seven columns: {cells:?}"));
            Row { id, source, section, level, requirement, note }
        })
        .collect()
}

/// Requirement ids in `req:` comments, with the files that name them.
fn named_by_tests() -> BTreeMap<String, BTreeSet<String>> {
    let mut named: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut folders = vec![root().join("crates"), root().join("contracts/test")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs" || ending == "sol") {
                let text = std::fs::read_to_string(&path).expect("source");
                let file = path.strip_prefix(root()).expect("inside").to_string_lossy().replace('\\', "/");
                for list in
                    text.lines().filter_map(|line| line.trim_start().trim_start_matches("/").trim_start().strip_prefix("req: "))
                {
                    for id in list.split(',').map(str::trim) {
                        named.entry(id.to_owned()).or_default().insert(file.clone());
                    }
                }
            }
        }
    }
    named
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
