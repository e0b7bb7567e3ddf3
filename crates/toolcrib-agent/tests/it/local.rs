//! Local files and archives.

use std::path::Path;

use toolcrib_agent::evidence::{GatewayOutcome, Retrieval};
use toolcrib_agent::ipfs::{CarFile, HashFunction, Layout, LocalFile, WalkLimits, pack};
use toolcrib_agent::source::ContentSource;
use toolcrib_core::agent::txt::CidText;
use toolcrib_core::codes::agent as a;

use crate::content;
use crate::gateway::soon;

const FILE: &[u8] = br#"{"agt":"1.0","domain":"exampleagent.agt"}"#;

async fn retrieve(source: &impl ContentSource, cid: &impl ToString) -> Retrieval {
    source.retrieve(&CidText::parse(&cid.to_string()).expect("a CID"), soon()).await
}

fn file(path: &Path) -> LocalFile {
    LocalFile::new(path, WalkLimits::default())
}

fn car(path: &Path) -> CarFile {
    CarFile::new(path, WalkLimits::default())
}

fn code(retrieval: &Retrieval) -> &str {
    match &retrieval.attempts[0].outcome {
        GatewayOutcome::Refused { code, .. } | GatewayOutcome::Unreachable { code, .. } => code,
        other => panic!("{other:?}"),
    }
}

// req: AGT-017
#[tokio::test]
async fn a_file_under_every_layout() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("manifest.json");
    std::fs::write(&path, FILE).unwrap();
    for layout in [Layout::RawLeaves, Layout::FileNodes, Layout::RawNode, Layout::NodeOverLeaf] {
        for hash in HashFunction::ALL {
            let packed = pack(FILE, layout, hash).unwrap();
            let got = retrieve(&file(&path), packed.root()).await;
            assert_eq!(content(&got), Some(FILE), "{layout:?} {hash}");
            assert_eq!((&got.attempts[0].outcome, got.attempts[0].bytes), (&GatewayOutcome::Served, 41));
            assert_eq!(got.attempts[0].gateway, path.display().to_string());
        }
    }
    // Another file with the same length.
    let other = [&FILE[..40], b" "].concat();
    for (layout, is_tampered) in [(Layout::RawLeaves, true), (Layout::FileNodes, false)] {
        let packed = pack(&other, layout, HashFunction::Sha2_256).unwrap();
        let got = retrieve(&file(&path), packed.root()).await;
        assert_eq!(got.content, None);
        assert_eq!(matches!(got.attempts[0].outcome, GatewayOutcome::Tampered { .. }), is_tampered, "{got:?}");
        assert_eq!(matches!(got.attempts[0].outcome, GatewayOutcome::Unverifiable { .. }), !is_tampered, "{got:?}");
    }
}

#[tokio::test]
async fn files_that_cannot_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let cid = pack(FILE, Layout::RawLeaves, HashFunction::Sha2_256).unwrap().root().clone();
    assert_eq!(retrieve(&file(&folder.path().join("none")), &cid).await.attempts[0].outcome, GatewayOutcome::NotFound);
    assert_eq!(code(&retrieve(&file(folder.path()), &cid).await), a::FILE_UNREADABLE.id());
    assert_eq!(code(&retrieve(&file(Path::new("/dev/zero")), &cid).await), a::FILE_UNREADABLE.id());
    // Larger than any block.
    let path = folder.path().join("large");
    std::fs::write(&path, vec![0; (2 << 20) + 1]).unwrap();
    assert_eq!(code(&retrieve(&file(&path), &cid).await), a::FILE_UNREADABLE.id());
    // A genuine file that exceeds the size limit of manifests.
    for (size, fits) in [(65_536, true), (65_537, false)] {
        let large = vec![b'x'; size];
        std::fs::write(&path, &large).unwrap();
        let cid = pack(&large, Layout::RawLeaves, HashFunction::Sha2_256).unwrap().root().clone();
        let got = retrieve(&file(&path), &cid).await;
        assert_eq!(got.content.is_some(), fits);
        assert!(fits || code(&got) == a::CONTENT_TOO_LARGE.id());
    }
    // The first of two blocks.
    let packed = pack(FILE, Layout::NodeOverLeaf, HashFunction::Sha2_256).unwrap();
    std::fs::write(&path, &packed.blocks()[0].bytes).unwrap();
    let got = retrieve(&file(&path), packed.root()).await;
    assert!(matches!(got.attempts[0].outcome, GatewayOutcome::Unverifiable { .. }), "{got:?}");
}

// req: AGT-017
#[tokio::test]
async fn an_archive_and_its_faults() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("manifest.car");
    for layout in [Layout::RawLeaves, Layout::FileNodes, Layout::NodeOverLeaf] {
        let packed = pack(FILE, layout, HashFunction::Sha2_256).unwrap();
        let bytes = packed.to_car();
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(content(&retrieve(&car(&path), packed.root()).await), Some(FILE));
        // Truncated.
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let got = retrieve(&car(&path), packed.root()).await;
        assert!(
            matches!(&got.attempts[0].outcome, GatewayOutcome::Unverifiable { reason } if reason.contains("cut off")),
            "{got:?}"
        );
        // Modified.
        let mut changed = bytes.clone();
        *changed.last_mut().unwrap() ^= 1;
        std::fs::write(&path, &changed).unwrap();
        let got = retrieve(&car(&path), packed.root()).await;
        assert!(matches!(got.attempts[0].outcome, GatewayOutcome::Tampered { .. }), "{got:?}");
        // Another file.
        std::fs::write(&path, pack(b"other", layout, HashFunction::Sha2_256).unwrap().to_car()).unwrap();
        assert_eq!(retrieve(&car(&path), packed.root()).await.attempts[0].outcome, GatewayOutcome::NotFound);
    }
    // The root without its leaf.
    let packed = pack(FILE, Layout::NodeOverLeaf, HashFunction::Sha2_256).unwrap();
    std::fs::write(&path, toolcrib_agent::ipfs::car::write(packed.root(), &packed.blocks()[..1])).unwrap();
    assert_eq!(retrieve(&car(&path), packed.root()).await.attempts[0].outcome, GatewayOutcome::NotFound);
    // A large file is rejected at its root.
    let packed = pack(&vec![0; 600_000], Layout::RawLeaves, HashFunction::Sha2_256).unwrap();
    std::fs::write(&path, packed.to_car()).unwrap();
    assert_eq!(code(&retrieve(&car(&path), packed.root()).await), a::CONTENT_TOO_LARGE.id());
}
