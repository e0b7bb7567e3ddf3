//! Real drift: manifests whose hash was committed while another version was served.

use std::collections::BTreeMap;
use std::fs;

use alloy_primitives::B256;
use toolcrib_core::canon::Canonical;
use toolcrib_core::json::{Limits, read};
use toolcrib_judge::explain::{Candidate, Cause, HashMistake, Relation, Repair, explain};
use toolcrib_testkit::{corpus, files, rows};

/// A manifest of the corpus: the tool it belongs to (its name without the version), its file name, bytes and hash.
struct Real {
    tool: String,
    name: String,
    bytes: Vec<u8>,
    hash: B256,
}

fn manifests() -> Option<Vec<Real>> {
    let list = files(&corpus("erc8257/manifests")?).into_iter().map(|path| {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let tool = name.split('.').next().unwrap_or_default().to_owned();
        let bytes = fs::read(&path).expect("readable");
        let hash = read(&bytes, Limits::default()).document.as_ref().and_then(Canonical::of).expect("canonical").hash();
        Real { tool, name, bytes, hash }
    });
    Some(list.collect())
}

fn candidates<'a>(all: &'a [Real], served: &Real) -> Vec<Candidate<'a>> {
    let others = all.iter().filter(|real| real.name != served.name);
    let mut list: Vec<_> = others
        .map(|real| {
            let relation = if real.tool == served.tool { Relation::Version } else { Relation::OtherTool };
            Candidate { label: real.name.as_str(), relation, bytes: &real.bytes }
        })
        .collect();
    // Versions of the same tool first.
    list.sort_by_key(|candidate| candidate.relation == Relation::OtherTool);
    list
}

#[test]
fn committed_versions_are_found_among_the_others() {
    let Some(all) = manifests() else { return };
    let gold: BTreeMap<String, B256> = rows(&corpus("erc8257/gold.tsv").expect("given above"))
        .into_iter()
        .map(|row| (row[0].clone(), row[1].parse().expect("a hash")))
        .collect();
    let mut found_versions = 0;
    for served in &all {
        // Every onchain hash of this tool, for any of its versions.
        for committed in all.iter().filter(|real| real.tool == served.tool && gold.contains_key(&real.name)) {
            assert_eq!(gold[&committed.name], committed.hash);
            let found = explain(&served.bytes, committed.hash, &candidates(&all, served));
            if served.hash == committed.hash {
                assert!(found.matches(), "{}", served.name);
                continue;
            }
            let cause = Cause::OtherFile { label: committed.name.clone(), relation: Relation::Version };
            assert_eq!(found.cause, Some(cause), "{}", served.name);
            assert_eq!(found.otherwise, Some(Repair::ServeCommitted { label: committed.name.clone() }));
            assert_eq!(found.nearest.as_deref(), Some(committed.name.as_str()));
            assert!(found.diff.is_some_and(|diff| !diff.is_empty()));
            found_versions += 1;
        }
    }
    assert!(found_versions >= 40, "{found_versions}");
}

#[test]
fn drift_in_the_history_of_the_registry_is_explained_where_the_files_are_known() {
    let Some(all) = manifests() else { return };
    let by_hash = |hash: &str| all.iter().find(|real| hash.parse().is_ok_and(|hash: B256| hash == real.hash));
    let (mut explained, mut stripped) = (0, 0);
    for row in rows(&corpus("erc8257/registry/history.tsv").expect("given above")) {
        // synced_at commit chain_id tool_id metadata_uri manifest_hash computed_hash …
        let (committed, computed) = (row[5].as_str(), row[6].as_str());
        if committed == computed {
            continue;
        }
        let (Some(served), Ok(hash)) = (by_hash(computed), committed.parse::<B256>()) else { continue };
        let found = explain(&served.bytes, hash, &candidates(&all, served));
        match by_hash(committed) {
            Some(version) => {
                let cause = Cause::OtherFile { label: version.name.clone(), relation: Relation::Version };
                assert_eq!(found.cause, Some(cause), "{}", served.name);
                explained += 1;
            }
            // The only tool whose committed version is not in the corpus was hashed by a client that drops unknown fields.
            None => {
                let slips = vec![HashMistake::FieldsStripped { nested: true }];
                assert_eq!(found.cause, Some(Cause::Recipe { label: None, slips }), "{}", served.name);
                stripped += 1;
            }
        }
    }
    assert!(explained >= 3 && stripped >= 1, "{explained} {stripped}");
}
