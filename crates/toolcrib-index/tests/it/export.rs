//! Export and import of the whole index: on each engine, and from one to the other.

use alloy_primitives::Address;
use alloy_signer::SignerSync;
use toolcrib_chain::network::Network;
use toolcrib_chain::sign::{TransferAuthorization, TransferKind};
use toolcrib_core::caip::ToolRef;
use toolcrib_core::clock::{Clock, UnixTime};
use toolcrib_core::codes::index as code;
use toolcrib_devchain::accounts::dev_signers;
use toolcrib_fetch::SystemClock;
use toolcrib_index::export::{self, Imported};
use toolcrib_index::{Chains, Index, List, usage};
use toolcrib_x402::usage::{Subject, Submission, UsageProof};
use toolcrib_x402::{Signature, Spelling};

use crate::stage::{LOCAL, REGISTRY, Sold, authorization, put};
use toolcrib_testkit::databases::{Backend, TestStore};

const TOOLS: u64 = 520;
const TIME: UnixTime = UnixTime::from_seconds(1_800_000_000);

async fn empty(backend: Backend) -> Option<(TestStore, Index)> {
    let place = TestStore::new(backend).await?;
    let index = Index::open(place.database().await).await.expect("an index");
    Some((place, index))
}

/// More tools than one page has, and a proven call.
async fn filled(backend: Backend) -> Option<(TestStore, Index)> {
    let (place, index) = empty(backend).await?;
    let creator = Address::repeat_byte(0xc0);
    for id in 1..=TOOLS {
        put(&index, &Sold::new(id, creator, Address::repeat_byte(0x70))).await;
    }
    let authorization = authorization(dev_signers()[1].address(), creator, 0);
    let domain = Network::by_id(LOCAL).expect("listed").usdc.expect("a token").domain(LOCAL);
    let digest = TransferAuthorization::from(&authorization).digest(TransferKind::Transfer, &domain);
    let signature = Signature::new(dev_signers()[1].sign_hash_sync(&digest).expect("a key signs").as_bytes().to_vec());
    let signature = signature.expect("65 bytes");
    let spelling = Spelling::usual(&authorization, &signature);
    let tool = ToolRef { chain: LOCAL, registry: REGISTRY, id: alloy_primitives::U256::from(7) };
    let report = Submission {
        subject: Subject::Tool(tool),
        latency_ms: Some(i64::MAX as u64),
        chain: None,
        proof: UsageProof::Authorization { caller: authorization.from, authorization, signature, spelling },
    };
    assert!(usage::submit(&index, &Chains::default(), &report, SystemClock.now()).await.expect("judged").verified);
    Some((place, index))
}

async fn text(index: &Index) -> String {
    let mut bytes = Vec::new();
    let rows = export::export(index, &mut bytes, TIME).await.expect("exported");
    let text = String::from_utf8(bytes).expect("text");
    assert_eq!(text.lines().count() as u64, rows + 2);
    text
}

async fn read(index: &Index, text: &str) -> Result<Imported, toolcrib_index::Error> {
    export::import(index, &mut text.as_bytes(), TIME).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_exported_is_imported_anywhere() {
    for from in [Backend::SqliteFile, Backend::Postgres] {
        let Some((_from, source)) = filled(from).await else { continue };
        let exported = text(&source).await;
        for line in exported.lines() {
            assert!(serde_json::from_str::<serde_json::Value>(line).is_ok_and(|line| line.is_object()), "{line}");
        }
        for to in [Backend::SqliteFile, Backend::Postgres] {
            let Some((_to, target)) = empty(to).await else { continue };
            let done = read(&target, &exported).await.expect("imported");
            assert_eq!(done.rows, done.new);
            assert_eq!(text(&target).await, exported, "the same, to the byte");
            let listed = target.list(&List { limit: 200, ..List::default() }).await.expect("a page");
            assert_eq!(listed.tools.len(), 200);
            assert_eq!(target.last_change().await.expect("a number"), TOOLS as i64, "search learns of every tool");
            // Importing again changes nothing.
            assert_eq!(read(&target, &exported).await.expect("imported"), Imported { new: 0, ..done });
            assert_eq!(text(&target).await, exported);
            assert_eq!(target.last_change().await.expect("a number"), TOOLS as i64);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_damaged_is_refused_whole() {
    let Some((_place, source)) = filled(Backend::SqliteFile).await else { return };
    let exported = text(&source).await;
    let lines: Vec<&str> = exported.lines().collect();
    let joined = |lines: &[&str]| lines.join("\n") + "\n";
    let without = |place: usize| joined(&[&lines[..place], &lines[place + 1..]].concat());
    let mut swapped = lines.clone();
    swapped.swap(5, 6);
    let twice = joined(&[&lines[..6], &lines[5..]].concat());
    let damaged = [
        exported.replacen("tool-9.json", "tool-8.json", 1),
        without(4),
        without(lines.len() - 2),
        without(lines.len() - 1),
        joined(&swapped),
        twice,
        joined(&[&lines[..], &lines[3..4]].concat()),
        exported.trim_end().to_owned(),
        joined(&[&lines[..2], &[&*lines[2].replacen("\"sum\":", "\"sum\": ", 1)], &lines[3..]].concat()),
    ];
    let other = [
        String::new(),
        "{}\n".to_owned(),
        "SQLite\n".to_owned(),
        exported.replacen("\"version\":1", "\"version\":2", 1),
        without(0),
    ];
    for backend in [Backend::SqliteFile, Backend::Postgres] {
        let Some((_place, target)) = empty(backend).await else { continue };
        for (texts, expected) in [(&damaged[..], code::EXPORT_DAMAGED), (&other[..], code::EXPORT_VERSION)] {
            for (n, text) in texts.iter().enumerate() {
                let error = read(&target, text).await.expect_err("refused");
                assert_eq!(error.code(), expected, "{n}: {error}");
                assert!(target.registries().await.expect("readable").is_empty(), "nothing of it is there");
            }
        }
        // Another registry under the same number.
        target.add_registry(1, Address::repeat_byte(1), 0).await.expect("a registry");
        assert_eq!(read(&target, &exported).await.expect_err("refused").code(), code::IMPORT_CONFLICT);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_are_restored_on_either_engine() {
    for from in [Backend::SqliteFile, Backend::Postgres] {
        let Some((_from, source)) = filled(from).await else { continue };
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("backup");
        export::backup(&source, &path, TIME).await.expect("made");
        assert_eq!(export::backup(&source, &path, TIME).await.expect_err("never overwritten").code(), code::FILE);
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).expect("there").permissions());
            assert_eq!(mode & 0o777, 0o600);
        }
        for to in [Backend::SqliteFile, Backend::Postgres] {
            let Some((_to, target)) = empty(to).await else { continue };
            export::restore(&target, &path, TIME).await.expect("restored");
            assert_eq!(text(&target).await, text(&source).await);
        }
        let Some((_to, target)) = empty(Backend::SqliteFile).await else { return };
        let missing = folder.path().join("missing");
        assert_eq!(export::restore(&target, &missing, TIME).await.expect_err("not there").code(), code::FILE);
    }
}
