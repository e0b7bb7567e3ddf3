//! Exports of real manifests, and how they are read back.

use std::fs;

use serde_json::Value as Json;
use toolcrib_core::checked::parse;
use toolcrib_core::finding::Mode;
use toolcrib_core::local::LocalManifest;
use toolcrib_core::schema::{Echo, Validator};
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
                    // The registry limits descriptions to 100 characters, and exports never truncate.
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

/// What a model in strict mode sends for a schema: values for required parameters, null for optional ones.
fn arguments(schema: &Json) -> Json {
    if let Some(value) = schema.get("const").or_else(|| schema.get("enum")?.as_array()?.iter().find(|value| !value.is_null())) {
        return value.clone();
    }
    let kinds = schema.get("type");
    let is_nullable = kinds.and_then(Json::as_array).is_some_and(|kinds| kinds.iter().any(|kind| kind == "null"));
    match kinds.and_then(Json::as_str) {
        _ if is_nullable => Json::Null,
        Some("object") => {
            let properties = schema.get("properties").and_then(Json::as_object).into_iter().flatten();
            properties.map(|(name, property)| (name.clone(), arguments(property))).collect()
        }
        Some("array") => vec![arguments(&schema["items"])].into(),
        Some("string") => "x".into(),
        Some("boolean") => true.into(),
        Some("integer" | "number") => 1.into(),
        _ => schema.get("anyOf").map_or(Json::Null, |branches| arguments(&branches[branches.as_array().map_or(0, Vec::len) - 1])),
    }
}

/// Arguments that fit the strict schema fit the schema of the manifest once the nulls are gone, and not before.
// req: LOCAL-008
#[test]
fn strict_arguments_are_restored_to_what_the_manifest_asks_for() {
    let Some(corpus) = toolcrib_testkit::corpus("local-tools") else { return };
    let (mut checked, mut changed) = (0, 0);
    for entry in fs::read_dir(corpus).unwrap() {
        let source = fs::read(entry.unwrap().path()).unwrap();
        let Some(manifest) = parse::<LocalManifest>(&source, Mode::Consumer).into_result().ok() else { continue };
        let manifest = manifest.value();
        let folder = tempfile::tempdir().unwrap();
        let tool = ExportTool { manifest, folder: folder.path(), content: hash_folder(folder.path()).unwrap() };
        let exported = export(Target::OpenAi, &[tool], &ExportOptions { strict: true, ..options() }).unwrap();
        let tools: Vec<Json> = serde_json::from_slice(&exported.files[0].bytes).unwrap();
        for tool in tools.iter().filter(|tool| tool["strict"] == true) {
            let name = tool["name"].as_str().unwrap();
            let (_, function) = exported.reverse.resolve(name).unwrap();
            let validator = Validator::compile(manifest.parameters(function).unwrap()).unwrap();
            let sent = arguments(&tool["parameters"]);
            let restored = exported.reverse.restore(name, sent.clone());
            let violations = validator.violations(&restored, Echo::Values);
            assert!(violations.is_empty(), "{name}: {restored}: {violations:?}");
            checked += 1;
            changed += usize::from(restored != sent);
            assert!(restored == sent || !validator.is_valid(&sent), "{name}: a null was dropped that is allowed");
        }
    }
    assert!(checked > 500 && changed > 100, "{checked} functions, {changed} with parameters that may be left out");
}
