//! Real `.agt` documents and records. The files are not part of the repository: `TOOLCRIB_CORPUS` names their folder.

use std::path::{Path, PathBuf};

use toolcrib_core::agent::txt::{TxtOutcome, parse_text};
use toolcrib_core::agent::{AgentManifest, AgtDomain, migrate};
use toolcrib_core::checked::parse;
use toolcrib_core::clock::UnixTime;
use toolcrib_core::codes;
use toolcrib_core::finding::{Finding, Mode};

fn corpus() -> Option<PathBuf> {
    toolcrib_testkit::corpus("agt")
}

#[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
fn report(line: &str) {
    eprintln!("{line}");
}

fn files(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the agt folder of the corpus")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{prefix}* in {}", folder.display());
    files
}

fn ids(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.code.id()).collect()
}

// req: AGT-004
#[test]
fn documents_of_other_drafts_are_named_as_such() {
    let Some(folder) = corpus() else { return };
    for path in files(&folder, "manifest-") {
        let bytes = std::fs::read(&path).expect("readable");
        let checked = parse::<AgentManifest>(&bytes, Mode::Consumer);
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        report(&format!("{name}: {:?}", ids(&checked.findings)));
        assert!(checked.conformant().is_none(), "{name}: all of these are of draft 0.2, or schemas, or not JSON");
        if path.extension().is_some_and(|extension| extension == "json") && checked.canonical().is_some() {
            let is_schema = checked.has(codes::manifest::FIELD_MISSING);
            assert!(is_schema || ids(&checked.findings) == ["agent.version_unsupported"], "{name}: {:?}", checked.findings);
        }
    }
}

// req: AGT-001, AGT-023, AGT-025, AGT-028
#[test]
fn records_are_pointers_legacy_agents_or_placeholders() {
    let Some(folder) = corpus() else { return };
    let domain = AgtDomain::parse("exampleagent.agt").expect("a name");
    let (mut pointers, mut legacy, mut refused) = (0, 0, 0);
    for path in files(&folder, "txt-") {
        let text = std::fs::read_to_string(&path).expect("readable");
        let reading = parse_text(&text);
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        report(&format!("{name}: {:?}", ids(&reading.findings)));
        match reading.outcome {
            TxtOutcome::Pointer(_) => pointers += 1,
            TxtOutcome::Refused => {
                refused += 1;
                assert!(text.contains("{cid}"), "{name}: only the placeholder is refused");
            }
            TxtOutcome::Legacy(agent) => {
                legacy += 1;
                assert!(agent.name.is_some() && !agent.protocols.is_empty() && !agent.capabilities.is_empty(), "{name}");
                assert!(agent.protocols.iter().all(|protocol| protocol.endpoint.is_some()), "{name}");
                let draft = migrate(&agent, &domain, None, UnixTime::from_seconds(0)).draft;
                assert!(parse::<AgentManifest>(draft.as_bytes(), Mode::Producer).has(codes::agent::UNSIGNED), "{name}");
            }
            TxtOutcome::NotAnAgent => panic!("{name}: {text}"),
        }
    }
    assert_eq!((pointers, legacy, refused), (2, 4, 1));
}
