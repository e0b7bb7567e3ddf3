//! The kind of every manifest in the corpus.

use std::fs;

use toolcrib_core::json::{self, Limits};
use toolcrib_core::kind::ManifestKind;

use crate::local_corpus::json_files;

/// Every file of `part` has the kind `wanted`, except for `exceptions`, which have no kind.
#[track_caller]
fn check(part: &str, wanted: ManifestKind, at_least: usize, exceptions: &[&str]) {
    let Some(folder) = toolcrib_testkit::corpus(part) else { return };
    let files = json_files(&folder);
    assert!(files.len() >= at_least, "{part}: {} files", files.len());
    for path in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let bytes = fs::read(&path).expect("a file of the corpus can be read");
        let document = json::read(&bytes, Limits::default()).document.expect("a file of the corpus is JSON");
        let wanted = (!exceptions.contains(&&*name)).then_some(wanted);
        assert_eq!(ManifestKind::detect(document.root()), wanted, "{part}/{name}");
    }
}

#[test]
fn tools_are_tools() {
    check("erc8257/manifests", ManifestKind::Tool, 83, &[]);
}

#[test]
fn local_tools_are_local() {
    check("local-tools", ManifestKind::Local, 48, &[]);
}

#[test]
fn agents_are_agents() {
    // The JSON Schema of agent manifests, which is not a manifest.
    check("agt", ManifestKind::Agent, 3, &["manifest-10-agt-manifest-v0.2.0.json"]);
}
