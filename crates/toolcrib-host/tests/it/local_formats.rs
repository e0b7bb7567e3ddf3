//! Exports of real manifests, and of what they become at the other end.

use std::fs;

use serde_json::Value as Json;
use toolcrib_core::checked::parse;
use toolcrib_core::finding::Mode;
use toolcrib_core::local::LocalManifest;
use toolcrib_core::tool::ToolManifest;
use toolcrib_host::local::export::{ExportOptions, ExportTool, Exported, Target, export};
use toolcrib_host::local::hash_folder;
use toolcrib_host::local::install::Archive;

fn options() -> ExportOptions {
    ExportOptions {
        skip_unsupported: true,
        server_name: Some("io.github.example/tools".to_owned()),
        package_url: Some("https://github.com/example/mcp/releases/download/v1/x.mcpb".to_owned()),
        remote_url: Some("https://tools.example.com/mcp".to_owned()),
        origin: Some("https://tools.example.com".to_owned()),
        creator: Some("0xabcdefabcdef1234567890abcdefabcdef123456".parse().unwrap()),
        ..ExportOptions::default()
    }
}

/// Every real manifest through every target, twice, strict and not.
// req: LOCAL-009
#[test]
fn every_manifest_of_the_corpus_is_exported() {
    let Some(corpus) = toolcrib_testkit::corpus("local-tools") else { return };
    let (mut exported, mut loaded) = (0, 0);
    let mut paths: Vec<_> = fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let source = fs::read(&path).unwrap();
        let Some(manifest) = parse::<LocalManifest>(&source, Mode::Consumer).into_result().ok() else { continue };
        let manifest = manifest.value();
        loaded += 1;
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("manifest.json"), &source).unwrap();
        let tool = ExportTool { manifest, folder: folder.path(), content: hash_folder(folder.path()).unwrap() };
        for target in Target::ALL {
            for strict in [false, true] {
                let options = ExportOptions { strict, ..options() };
                match export(target, &[tool], &options) {
                    Ok(one) => {
                        assert_eq!(one.files, export(target, &[tool], &options).unwrap().files);
                        check(target, manifest, &one);
                        exported += 1;
                    }
                    // The registry takes 100 characters of description, which nothing is cut to.
                    Err(error) => assert_eq!(
                        (target, error.code().id()),
                        (Target::ServerJson, "export.description"),
                        "{}: {error}",
                        path.display()
                    ),
                }
            }
        }
    }
    assert!(loaded > 40 && exported > 20 * loaded * 8 / 10, "{exported} exports of {loaded} manifests");
}

fn check(target: Target, manifest: &LocalManifest, exported: &Exported) {
    assert!(exported.reverse.names().count() <= manifest.functions().len());
    for file in &exported.files {
        match target {
            Target::Erc8257 => assert!(ToolManifest::parse(&file.bytes, Mode::Producer).conformant().is_some(), "{}", file.path),
            Target::Mcpb => {
                let mut archive = Archive::open(&file.bytes).unwrap();
                let inside = archive.read(&format!("tools/{}/manifest.json", manifest.id()), 1 << 20).unwrap().unwrap();
                assert_eq!(inside, manifest.document().source().as_bytes());
            }
            Target::AiSdk => assert!(file.bytes.starts_with(b"// Tools for the AI SDK")),
            Target::Skill if file.path.ends_with(".md") => assert!(file.bytes.starts_with(b"---\nname: ")),
            Target::ServerJson if file.path.ends_with(".mcpb") => {}
            _ => drop(serde_json::from_slice::<Json>(&file.bytes).unwrap()),
        }
    }
}
