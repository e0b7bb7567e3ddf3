//! Drift in a recorded registry: the history of its tools over eleven weeks, replayed.

use std::collections::BTreeMap;

use toolcrib_core::caip::ToolRef;
use toolcrib_judge::drift::{Served, Snapshot, Verdict, drift};
use toolcrib_testkit::{corpus, rows};

/// A row of the history; `None` if the registry could not be read at that time.
fn snapshot(row: &[String]) -> Option<Snapshot> {
    let [_, _, chain, id, uri, committed, computed, creator, predicate, status, manifest, endpoint, _] = row else {
        panic!("thirteen columns: {row:?}");
    };
    let registered = match status.as_str() {
        "active" => true,
        "deregistered" => false,
        "read_error" => return None,
        other => panic!("the status {other}"),
    };
    let tool =
        ToolRef::parse(&format!("eip155:{chain}/erc8257:0x265bb2dbfc0a8165c9a1941eb1372f349bad2cf1/{id}")).expect("a tool");
    let known = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let failed = |check: u8, code: &str| Verdict::Failed { check: Some(check), code: code.to_owned() };
    let (served, verdict) = match manifest.as_str() {
        "unchecked" => (Served::Unknown, Verdict::Unknown),
        "fetch_error" => (Served::Unreachable, failed(1, "fetch")),
        "hash_mismatch" => (Served::Manifest(computed.parse().expect("a hash")), failed(3, "hash")),
        "verified" => (Served::Manifest(computed.parse().expect("a hash")), Verdict::Verified),
        other => panic!("the manifest status {other}"),
    };
    Some(Snapshot {
        registered,
        metadata_uri: known(uri),
        manifest_hash: known(committed).map(|text| text.parse().expect("a hash")),
        creator: known(creator).map(|text| text.parse().expect("an address")),
        predicate: known(predicate).map(|text| text.parse().expect("an address")),
        served,
        verdict,
        endpoint: known(endpoint),
        ..Snapshot::new(tool)
    })
}

// req: VERIFY-019, IDX-008
#[test]
fn the_history_of_a_registry_has_the_drift_that_its_columns_say() {
    let Some(folder) = corpus("erc8257/registry") else { return };
    let mut kept: BTreeMap<ToolRef, Snapshot> = BTreeMap::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows(&folder.join("history.tsv")) {
        let Some(look) = snapshot(&row) else { continue };
        let Some(before) = kept.get(&look.tool) else {
            kept.insert(look.tool, look);
            continue;
        };
        for change in drift(before, &look) {
            *counts.entry(change.code.id()).or_default() += 1;
        }
        // The state is serialised between two verifications, as a watcher does.
        let state = serde_json::to_string(&look.carry(before)).expect("JSON");
        let state: Snapshot = serde_json::from_str(&state).expect("a snapshot");
        kept.insert(state.tool, state);
    }
    assert_eq!(kept.len(), 751);
    // Counted independently of this code, by comparing the columns of consecutive rows of each tool.
    let expected = [
        ("drift.became_unverified", 106),
        ("drift.deregistered", 23),
        ("drift.endpoint_changed", 12),
        ("drift.failure_changed", 38),
        ("drift.hash_committed_changed", 144),
        ("drift.metadata_uri_changed", 8),
        ("drift.predicate_changed", 31),
        ("drift.reachable", 23),
        ("drift.repaired", 54),
        ("drift.served_changed", 275),
        ("drift.unreachable", 60),
    ];
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn every_throw_away_host_of_the_registry_is_told() {
    let Some(folder) = corpus("erc8257/registry") else { return };
    let text = std::fs::read_to_string(folder.join("hostile-or-probe-registrations.json")).expect("readable");
    let list: Vec<serde_json::Value> = serde_json::from_str(&text).expect("JSON");
    let mut told = 0;
    for entry in &list {
        let classes = entry["class"].as_array().expect("classes");
        if !classes.iter().any(|class| class == "oob-callback-host" || class == "ephemeral-or-mutable-host") {
            continue;
        }
        let urls = [&entry["metadata_uri"], &entry["endpoint"]];
        let lints: Vec<_> = urls
            .into_iter()
            .filter_map(|url| url.as_str())
            .filter_map(|url| toolcrib_core::url::HttpsUrl::parse(url).ok())
            .flat_map(|url| url.lints())
            .collect();
        assert!(lints.iter().any(|finding| finding.code.id() == "url.ephemeral_host"), "{entry}");
        told += 1;
    }
    assert_eq!(told, 46);
}
