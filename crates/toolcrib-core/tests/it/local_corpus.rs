//! Real local manifests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use toolcrib_core::checked::{self, Outcome};
use toolcrib_core::codes;
use toolcrib_core::finding::{Mode, Severity};
use toolcrib_core::json;
use toolcrib_core::local::{self, LocalManifest};

#[test]
fn every_local_manifest_gets_a_verdict() {
    let Some(folder) = toolcrib_testkit::corpus("local-tools") else { return };
    let files = json_files(&folder);
    assert_eq!(files.len(), 48);
    let mut histogram: BTreeMap<_, usize> = BTreeMap::new();
    let (mut conformant, mut functions) = (0, 0);
    for path in &files {
        let bytes = fs::read(path).expect("a file of the corpus can be read");
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        assert!(json::read(&bytes, json::Limits::default()).document.is_some(), "{name} is JSON");
        let checked = checked::parse::<LocalManifest>(&bytes, Mode::Producer);
        for finding in &checked.findings {
            *histogram.entry((finding.severity, finding.code.id())).or_default() += 1;
            eprintln!("{name}: {} {} {} {}", finding.severity, finding.code, finding.pointer, finding.message);
        }
        match &checked.outcome {
            Outcome::Conformant(manifest) => {
                conformant += 1;
                functions += manifest.functions().len();
                assert_eq!(local::check_folder(manifest, manifest.id()), None);
            }
            Outcome::Flawed(_) => {
                // The only channel among them has no functions.
                assert!(name.contains("channels-telegram"), "{name}: {:#?}", checked.findings);
                assert!(checked.has(codes::local::FUNCTIONS_MISSING));
                let errors = checked.findings.iter().filter(|finding| finding.severity == Severity::Error).count();
                assert_eq!(errors, 1);
            }
            Outcome::Unreadable => panic!("{name} has canonical bytes"),
        }
    }
    for ((severity, code), count) in &histogram {
        eprintln!("{count:5} {severity:7} {code}");
    }
    assert_eq!((conformant, functions), (47, 655));
}

/// The JSON files of a folder, sorted by name.
pub(crate) fn json_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("TOOLCRIB_CORPUS names the corpus folder");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("the folder can be read").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    files
}
