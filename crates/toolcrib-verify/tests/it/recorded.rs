//! Rows of the corpus, and rendered reports.

use std::path::PathBuf;

use alloy_primitives::{Address, B256};
use serde_json::Value as Json;
use toolcrib_core::text::escape_for_display;
use toolcrib_judge::Report;

/// The folder of recorded tools in the corpus.
pub(crate) fn folder() -> Option<PathBuf> {
    toolcrib_testkit::corpus("erc8257")
}

/// A registration by an attacker or a tester.
#[derive(Clone, Debug)]
pub(crate) struct Hostile {
    pub(crate) chain: u64,
    pub(crate) id: u64,
    pub(crate) creator: Address,
    pub(crate) uri: String,
    pub(crate) hash: B256,
    /// Everything that was recorded about it.
    pub(crate) row: Json,
}

impl Hostile {
    pub(crate) fn all(folder: &std::path::Path) -> Vec<Self> {
        let file = std::fs::read(folder.join("registry/hostile-or-probe-registrations.json")).expect("the corpus");
        let rows: Vec<Json> = serde_json::from_slice(&file).expect("JSON");
        rows.into_iter()
            .map(|row| Self {
                chain: row["chain_id"].as_u64().expect("a chain"),
                id: row["tool_id"].as_u64().expect("an id"),
                creator: row["creator"].as_str().expect("a creator").parse().expect("an address"),
                uri: row["metadata_uri"].as_str().expect("a URI").to_owned(),
                hash: row["manifest_hash"].as_str().expect("a hash").parse().expect("a hash"),
                row,
            })
            .collect()
    }
}

/// A manifest whose hash is the one onchain.
#[derive(Clone, Debug)]
pub(crate) struct Gold {
    pub(crate) file: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) hash: B256,
    pub(crate) chain: u64,
    pub(crate) id: u64,
    pub(crate) creator: Address,
    pub(crate) uri: String,
    pub(crate) creator_is_equal: bool,
}

impl Gold {
    pub(crate) fn all(folder: &std::path::Path) -> Vec<Self> {
        let table = std::fs::read_to_string(folder.join("gold.tsv")).expect("the corpus");
        let mut lines = table.lines();
        let head: Vec<&str> = lines.next().expect("a head").split('\t').collect();
        lines
            .map(|line| {
                let cells: Vec<&str> = line.split('\t').collect();
                let cell = |name: &str| cells[head.iter().position(|column| *column == name).expect("a column")];
                Self {
                    file: cell("file").to_owned(),
                    bytes: std::fs::read(folder.join("manifests").join(cell("file"))).expect("a manifest"),
                    hash: cell("onchain_manifest_hash").parse().expect("a hash"),
                    chain: cell("chain_id").parse().expect("a chain"),
                    id: cell("tool_id").parse().expect("an id"),
                    creator: cell("onchain_creator").parse().expect("an address"),
                    uri: cell("metadata_uri").to_owned(),
                    creator_is_equal: cell("manifest_creator_equals_onchain") == "byte-equal",
                }
            })
            .collect()
    }
}

/// Renders a report as users see it: untrusted text escaped, everything else unchanged.
pub(crate) fn printed(report: &Report) -> String {
    let mut lines = vec![format!("{:?} {:?}", report.verdict, report.tool)];
    lines.extend(report.metadata_uri.iter().map(ToString::to_string));
    lines.extend(report.claims.iter().flat_map(|claims| [&claims.name, &claims.endpoint]).flatten().map(ToString::to_string));
    for finding in &report.findings {
        lines.push(format!("{}[{}]: {}", finding.severity, finding.code, escape_for_display(&finding.message)));
        lines.extend([&finding.expected, &finding.got].into_iter().flatten().map(|text| escape_for_display(text)));
        lines.push(escape_for_display(&finding.pointer));
    }
    lines.join("\n")
}

/// Checks that a text has no characters that a terminal executes or hides.
#[track_caller]
pub(crate) fn check_harmless(text: &str, what: &str) {
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{what}: {text:?}");
    assert!(!text.contains(['\u{202e}', '\u{202d}', '\u{2066}', '\u{200b}', '\u{feff}', '\u{2028}']), "{what}: {text:?}");
}
