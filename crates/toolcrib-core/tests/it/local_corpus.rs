//! Local manifests from the wild.

use std::collections::BTreeMap;
use std::fs;

use toolcrib_core::checked::{self, Outcome};
use toolcrib_core::codes;
use toolcrib_core::finding::{Mode, Severity};
use toolcrib_core::json;
use toolcrib_core::local::{self, LocalManifest};

use crate::corpus;

#[expect(clippy::print_stderr, reason = "the histogram is for the reader of the test's output")]
#[test]
fn every_local_manifest_gets_a_verdict() {
    let Some(files) = corpus::files("local-tools") else { return };
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
                // The one channel among them has nothing to call.
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
