//! Exports of synthetic tools; the tests of the crate use the real ones.

use serde_json::json;
use toolcrib_core::checked::parse;
use toolcrib_core::finding::Mode;
use toolcrib_core::tool::ToolManifest;

use super::*;
use crate::local::hash_folder;

struct Made {
    folder: tempfile::TempDir,
    manifest: LocalManifest,
    content: ContentHash,
}

impl Made {
    fn new(manifest: &Json) -> Self {
        Self::with(manifest, &[("index.mjs", "export const handlers = {};\n")])
    }

    fn with(manifest: &Json, files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = manifest.to_string();
        std::fs::write(folder.path().join("manifest.json"), &text).unwrap();
        for (path, content) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let manifest = parse::<LocalManifest>(text.as_bytes(), Mode::Consumer).into_result().unwrap().into_parts().0;
        let content = hash_folder(folder.path()).unwrap();
        Self { folder, manifest, content }
    }

    fn tool(&self) -> ExportTool<'_> {
        ExportTool { manifest: &self.manifest, folder: self.folder.path(), content: self.content }
    }
}

fn weather() -> Json {
    json!({
        "id": "weather", "name": "Weather", "description": "Tells the weather.", "version": "1.2.3",
        "credentials": [
            {"name": "api_key", "label": "API key", "required": true},
            {"name": "base_url", "label": "Address", "description": "Where.", "required": false, "secret": false},
        ],
        "functions": [
            {"name": "now", "description": "The weather now.", "parameters": {"type": "object",
                "properties": {"place": {"type": "string"}, "units": {"type": "string", "enum": ["c", "f"], "default": "c"}}, "required": ["place"]}},
            {"name": "raw", "description": "Asks the service.", "parameters": {"type": "object",
                "properties": {"query": {"type": "object", "additionalProperties": {"type": "string"}}}}},
        ],
    })
}

fn options() -> ExportOptions {
    ExportOptions {
        server_name: Some("io.github.user/weather".to_owned()),
        package_url: Some("https://github.com/user/weather/releases/download/v1/weather-1.2.3.mcpb".to_owned()),
        remote_url: Some("https://tools.example.com/mcp".to_owned()),
        origin: Some("https://tools.example.com".to_owned()),
        creator: Some(Address::repeat_byte(0xab)),
        ..ExportOptions::default()
    }
}

fn json_of(exported: &Exported, path: &str) -> Json {
    let file = exported.files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("{path}"));
    serde_json::from_slice(&file.bytes).unwrap()
}

#[test]
fn every_target_is_deterministic_and_has_neither_paths_nor_values() {
    let made = Made::new(&weather());
    for target in Target::ALL {
        let exported = export(target, &[made.tool()], &options()).unwrap_or_else(|error| panic!("{target}: {error}"));
        assert_eq!(exported.files, export(target, &[made.tool()], &options()).unwrap().files, "{target}");
        assert!(!exported.files.is_empty());
        for file in &exported.files {
            let text = String::from_utf8_lossy(&file.bytes);
            assert!(!text.contains(made.folder.path().to_str().unwrap()), "{target}: {}", file.path);
            assert!(!file.path.starts_with('/') && !file.path.contains(".."));
        }
        assert_eq!(target.as_str().parse(), Ok(target));
    }
    assert_eq!("mcp".parse::<Target>(), Err(UnknownTarget));
}

#[test]
fn model_tools() {
    let made = Made::new(&weather());
    let exported = export(Target::OpenAi, &[made.tool()], &ExportOptions::default()).unwrap();
    let tools = json_of(&exported, "openai.json");
    assert_eq!(tools[0]["name"], "weather_now");
    assert_eq!(tools[0]["strict"], false);
    assert_eq!(tools[0]["parameters"], weather()["functions"][0]["parameters"]);
    assert_eq!(exported.reverse.resolve("weather_raw"), Some(("weather", "raw")));

    let chat = json_of(&export(Target::OpenAiChat, &[made.tool()], &ExportOptions::default()).unwrap(), "openai-chat.json");
    assert_eq!(chat[1]["function"]["name"], "weather_raw");
    let gemini = json_of(&export(Target::Gemini, &[made.tool()], &ExportOptions::default()).unwrap(), "gemini.json");
    assert_eq!(gemini[0]["functionDeclarations"][0]["parametersJsonSchema"]["required"], json!(["place"]));
}

#[test]
fn strict_where_it_is_possible_and_the_way_back() {
    let made = Made::new(&weather());
    let strict = ExportOptions { strict: true, ..ExportOptions::default() };
    for (target, file) in [(Target::OpenAi, "openai.json"), (Target::Anthropic, "anthropic.json")] {
        let exported = export(target, &[made.tool()], &strict).unwrap();
        let tools = json_of(&exported, file);
        assert_eq!(tools[0]["strict"], true, "{target}");
        assert_ne!(tools[1]["strict"], true, "{target}: a map has no strict form");
        assert!(
            exported.warnings.iter().any(|note| note.finding.code == code::NOT_STRICT && note.function.as_deref() == Some("raw"))
        );
        let arguments = exported.reverse.restore("weather_now", json!({"place": "Oslo", "units": null}));
        assert_eq!(arguments, json!({"place": "Oslo"}), "{target}");
    }
}

#[test]
fn what_a_target_cannot_express() {
    let mut manifest = weather();
    manifest["functions"][1]["parameters"] =
        json!({"type": "object", "anyOf": [{"required": ["a"]}], "properties": {"a": {"type": "string"}}});
    let made = Made::new(&manifest);
    let error = export(Target::OpenAi, &[made.tool()], &ExportOptions::default()).unwrap_err();
    assert_eq!(error.code(), code::SCHEMA);
    let skipping = ExportOptions { skip_unsupported: true, ..ExportOptions::default() };
    let exported = export(Target::OpenAi, &[made.tool()], &skipping).unwrap();
    assert_eq!(json_of(&exported, "openai.json").as_array().unwrap().len(), 1);
    assert_eq!(exported.warnings[0].finding.code, code::LEFT_OUT);
    assert_eq!(exported.reverse.names().collect::<Vec<_>>(), ["weather_now"]);
    assert!(export(Target::Gemini, &[made.tool()], &ExportOptions::default()).is_ok());

    for target in [Target::ServerJson, Target::Erc8257, Target::Agt] {
        assert_eq!(export(target, &[made.tool()], &ExportOptions::default()).unwrap_err().code(), code::OPTION, "{target}");
    }
    let origins = ["http://example.com", "https://example.com/a", "https://user@example.com", "example.com", "https://"];
    for origin in origins {
        let options = ExportOptions { origin: Some(origin.to_owned()), ..options() };
        assert_eq!(export(Target::Erc8257, &[made.tool()], &options).unwrap_err().code(), code::OPTION, "{origin}");
    }
}

#[test]
fn collisions_are_errors() {
    let named = |id: &str, function: &str| {
        let mut manifest = weather();
        manifest["id"] = id.into();
        manifest["functions"] = json!([{"name": function, "description": "d", "parameters": {"type": "object"}}]);
        Made::new(&manifest)
    };
    let (one, other) = (named("a_b", "c"), named("a", "b_c"));
    let error = export(Target::OpenAi, &[one.tool(), other.tool()], &ExportOptions::default()).unwrap_err();
    assert_eq!(error.code(), code::COLLISION);
    assert_eq!(error.to_string(), "a/b_c and a_b/c are both called a_b_c at openai");
    let (one, other) = (named("a_b", "x"), named("a-b", "x"));
    assert_eq!(
        export(Target::Skill, &[one.tool(), other.tool()], &ExportOptions::default()).unwrap_err().code(),
        code::COLLISION
    );
}

#[test]
fn bundles() {
    let made = Made::with(&weather(), &[("index.mjs", "export {}"), ("lib/a.mjs", "1"), (".git/config", "not part of it")]);
    let exported = export(Target::Mcpb, &[made.tool()], &options()).unwrap();
    let bytes = &exported.files[0].bytes;
    assert_eq!(exported.files[0].path, "weather-1.2.3.mcpb");
    let mut archive = crate::local::install::Archive::open(bytes).unwrap();
    let paths: Vec<_> = archive.files().iter().map(|file| file.path.clone()).collect();
    assert_eq!(paths, ["manifest.json", "tools/weather/index.mjs", "tools/weather/lib/a.mjs", "tools/weather/manifest.json"]);
    let manifest: Json = serde_json::from_slice(&archive.read("manifest.json", 100_000).unwrap().unwrap()).unwrap();
    assert_eq!(manifest["manifest_version"], "0.3");
    assert_eq!(manifest["server"]["mcp_config"]["env"]["TOOLCRIB_SECRET_WEATHER__API_KEY"], "${user_config.weather_api_key}");
    assert_eq!(manifest["user_config"]["weather_api_key"]["sensitive"], true);
    assert_eq!(manifest["user_config"]["weather_base_url"]["default"], "");
    assert_eq!(manifest["_meta"][BUNDLE_NAMESPACE]["tools"][0]["contentHash"], json!(made.content));

    let server = json_of(&export(Target::ServerJson, &[made.tool()], &options()).unwrap(), "server.json");
    use sha2::Digest as _;
    assert_eq!(server["packages"][0]["fileSha256"], alloy_primitives::hex::encode(sha2::Sha256::digest(bytes)));
}

#[test]
fn bundles_are_what_was_loaded_and_hold_no_secrets() {
    let made = Made::new(&weather());
    std::fs::write(made.folder.path().join("index.mjs"), "changed").unwrap();
    assert_eq!(export(Target::Mcpb, &[made.tool()], &options()).unwrap_err().code(), code::CONTENT_CHANGED);
    let key = format!("const key = 'sk-{}';", "A1b2C3d4".repeat(3));
    for (path, content) in [(".env", "A=1"), ("config/.env.production", "A=1"), ("server.pem", "x"), ("index.mjs", key.as_str())]
    {
        let made = Made::with(&weather(), &[(path, content)]);
        let error = export(Target::Mcpb, &[made.tool()], &options()).unwrap_err();
        assert_eq!(error.code(), code::SECRET_FILE, "{path}");
        assert!(!error.to_string().contains("A1b2"), "{error}");
    }
    assert!(export(Target::Mcpb, &[Made::with(&weather(), &[(".env.example", "A=")]).tool()], &options()).is_ok());
    #[cfg(unix)]
    {
        let mut made = Made::new(&weather());
        std::os::unix::fs::symlink("index.mjs", made.folder.path().join("link")).unwrap();
        made.content = hash_folder(made.folder.path()).unwrap();
        assert_eq!(export(Target::Mcpb, &[made.tool()], &options()).unwrap_err().code(), code::LINK);
    }
}

#[test]
fn published_manifests_are_conformant_and_never_cut() {
    let made = Made::new(&weather());
    let exported = export(Target::Erc8257, &[made.tool()], &options()).unwrap();
    assert_eq!(exported.files[0].path, ".well-known/ai-tool/weather-now.json");
    for file in &exported.files {
        let checked = ToolManifest::parse(&file.bytes, Mode::Producer);
        let manifest = checked.conformant().unwrap_or_else(|| panic!("{:?}", checked.findings));
        assert!(manifest.endpoint().normalized().starts_with("https://tools.example.com/tools/weather/"));
        assert_eq!(manifest.version(), Some("1.2.3"));
    }
    assert!(exported.warnings.iter().any(|note| note.finding.code == code::CREDENTIALS_SHARED));

    let mut manifest = weather();
    manifest["functions"][0]["description"] = "é".repeat(501).into();
    let made = Made::new(&manifest);
    assert_eq!(export(Target::Erc8257, &[made.tool()], &options()).unwrap_err().code(), code::DESCRIPTION);
    let agt = export(Target::Agt, &[made.tool()], &options()).unwrap();
    let capabilities = &json_of(&agt, "agent-fragment.json")["capabilities"];
    assert!(capabilities[0].get("description").is_none() && capabilities[1].get("description").is_some());
}

#[test]
fn texts_cannot_break_out_of_their_place() {
    let mut manifest = weather();
    let hostile = "a --- b\n---\n# Heading\n```sh\nrm -rf /\n```\n\"; process.exit(1); // </script>\u{202e}";
    manifest["description"] = hostile.into();
    manifest["functions"][0]["description"] = hostile.into();
    manifest["functions"][0]["parameters"] =
        serde_json::from_str(r#"{"type":"object","properties":{"__proto__":{"type":"string"},"a\"b":{"type":"string"}}}"#)
            .unwrap();
    let made = Made::new(&manifest);
    let skill = export(Target::Skill, &[made.tool()], &ExportOptions::default()).unwrap();
    let text = String::from_utf8(skill.files.iter().find(|file| file.path == "weather/SKILL.md").unwrap().bytes.clone()).unwrap();
    let front = text.split("---").nth(1).unwrap();
    assert!(front.contains("content-hash"), "three hyphens end the front matter early: {front}");
    assert!(!text.contains('\u{202e}') && !text.contains("\n# Heading") && !text.contains("\n```sh\nrm"), "{text}");
    let module = export(Target::AiSdk, &[made.tool()], &ExportOptions::default()).unwrap();
    let module = String::from_utf8(module.files[0].bytes.clone()).unwrap();
    assert!(module.contains("[\"__proto__\"]: ") && !module.contains("</script") && !module.contains('\u{202e}'), "{module}");
}
