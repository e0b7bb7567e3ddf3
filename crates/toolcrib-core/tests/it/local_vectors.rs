//! Every `vectors/local/<case>.json` has exactly the findings listed in `<case>.expected`, in order:
//! severity, code and pointer, one finding for each line. An empty file means that the manifest is clean.

use std::fs;

use toolcrib_core::checked;
use toolcrib_core::finding::Mode;
use toolcrib_core::local::LocalManifest;

// req: LOCAL-002, LOCAL-004, LOCAL-005, LOCAL-007, LOCAL-009, LOCAL-010
#[test]
fn vectors_have_the_findings_that_are_listed() {
    let folder = toolcrib_testkit::vectors("local");
    let mut cases = 0;
    for entry in fs::read_dir(&folder).expect("the vectors are part of the repository") {
        let path = entry.expect("the folder can be read").path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        cases += 1;
        let checked = checked::parse::<LocalManifest>(&fs::read(&path).expect("a vector can be read"), Mode::Producer);
        let found: String = checked
            .findings
            .iter()
            .map(|finding| format!("{} {} {}\n", finding.severity, finding.code, finding.pointer))
            .collect();
        let expected = fs::read_to_string(path.with_extension("expected")).unwrap_or_else(|_| "(no such file)".to_owned());
        assert_eq!(found, expected, "{}", path.display());
    }
    assert!(cases >= 6, "only {cases} vectors");
}
