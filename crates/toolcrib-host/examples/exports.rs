//! Writes exports of tools for the programs of others to validate: `interop/local/run` runs it.
//!
//!   exports write OUT [MANIFEST…]   all exports of made-up tools and of these manifests
//!   exports read BUNDLE             reads an MCP bundle of others and prints the server in it
#![expect(clippy::print_stdout, reason = "the script reads it")]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};
use toolcrib_core::checked::parse;
use toolcrib_core::finding::{Mode, Severity};
use toolcrib_core::local::LocalManifest;
use toolcrib_host::local::export::{ExportOptions, ExportTool, Target, export};
use toolcrib_host::local::hash_folder;
use toolcrib_host::local::import::Bundle;

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["write", out, manifests @ ..] => write(Path::new(out), manifests),
        ["read", bundle] => read(Path::new(bundle)),
        _ => Err("expected `write OUT [MANIFEST…]` or `read BUNDLE`".into()),
    }
}

fn read(path: &Path) -> Outcome {
    let bundle = Bundle::read(&fs::read(path)?, &BTreeMap::new())?;
    let paths: Vec<_> = bundle.files().iter().map(|file| file.path.as_str()).collect();
    println!("{}", json!({"id": bundle.server.id, "transport": format!("{:?}", bundle.server.transport), "files": paths}));
    Ok(())
}

fn write(out: &Path, manifests: &[&str]) -> Outcome {
    let mut cases: Vec<(String, String)> =
        made_up().into_iter().map(|(name, manifest)| (name.to_owned(), manifest.to_string())).collect();
    for path in manifests {
        let name = Path::new(path).file_stem().ok_or("a manifest has no name")?.to_string_lossy().replace('.', "-");
        cases.push((name, fs::read_to_string(path)?));
    }
    let made_up: Vec<_> = made_up().into_iter().map(|(name, _)| name).collect();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (name, manifest) in cases {
        let manifest = match parse::<LocalManifest>(manifest.as_bytes(), Mode::Consumer).into_result() {
            Ok(manifest) => manifest,
            Err(findings) => {
                *counts.entry("refused manifests".to_owned()).or_default() += 1;
                let errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
                let errors: Vec<_> = errors.map(|finding| format!("{}: {}", finding.pointer, finding.message)).collect();
                println!("{}", json!({"case": name, "refused": errors}));
                if made_up.contains(&name.as_str()) {
                    return Err(format!("the made-up manifest {name} has errors").into());
                }
                continue;
            }
        };
        case(&out.join(&name), &name, manifest.value(), &mut counts)?;
    }
    println!("{}", json!(counts));
    Ok(())
}

fn case(out: &Path, name: &str, manifest: &LocalManifest, counts: &mut BTreeMap<String, usize>) -> Outcome {
    let folder = out.join("folder").join(manifest.id());
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("manifest.json"), manifest.document().source())?;
    fs::write(folder.join("index.mjs"), "export const handlers = {};\n")?;
    let tool = ExportTool { manifest, folder: &folder, content: hash_folder(&folder)? };
    let options = ExportOptions {
        skip_unsupported: true,
        server_name: Some(format!("io.github.example/{}", manifest.id())),
        package_url: Some("https://github.com/example/mcp/releases/download/v1/x.mcpb".to_owned()),
        remote_url: Some("https://tools.example.com/mcp".to_owned()),
        origin: Some("https://tools.example.com".to_owned()),
        creator: Some("0xabcdefabcdef1234567890abcdefabcdef123456".parse()?),
        ..ExportOptions::default()
    };
    for target in Target::ALL {
        for strict in [false, true] {
            if strict && !matches!(target, Target::OpenAi | Target::OpenAiChat | Target::Anthropic) {
                continue;
            }
            let kind = if strict { format!("{target}-strict") } else { target.to_string() };
            match export(target, &[tool], &ExportOptions { strict, ..options.clone() }) {
                Ok(exported) => {
                    *counts.entry(format!("{kind}: exported")).or_default() += 1;
                    *counts.entry(format!("{kind}: warnings")).or_default() += exported.warnings.len();
                    for file in exported.files {
                        let path: PathBuf = out.join(&kind).join(file.path);
                        fs::create_dir_all(path.parent().ok_or("a file has no folder")?)?;
                        fs::write(path, file.bytes)?;
                    }
                }
                Err(error) => {
                    *counts.entry(format!("{kind}: {}", error.code())).or_default() += 1;
                    println!("{}", json!({"case": name, "target": kind, "code": error.code().id(), "error": error.to_string()}));
                }
            }
        }
    }
    Ok(())
}

/// Hostile tools that try to break their exports.
fn made_up() -> Vec<(&'static str, Json)> {
    let tool = |id: &str, description: &str, functions: Json| {
        json!({"id": id, "name": "Made up", "description": description, "version": "1.0.0-rc.1+build.5",
            "credentials": [{"name": "api-key", "label": "Key \"quoted\"", "required": true}, {"name": "user", "label": "User", "required": false, "secret": false}],
            "functions": functions})
    };
    let function = |name: &str, parameters: Json| json!({"name": name, "description": format!("The function {name}."), "parameters": parameters});
    let object = |properties: Json| json!({"type": "object", "properties": properties});
    let proto: Json = serde_json::from_str(r#"{"type":"object","properties":{"__proto__":{"type":"string"},"constructor":{"type":"string"},"a\"b":{"type":"string"}}}"#)
        .unwrap_or_default();
    let hostile = "It's \"quoted\" --- and\n---\n# Heading\n```js\nprocess.exit(1)\n```\n`${x}` </script> \\ \u{202e}rtl\u{200b} \u{2028} 日本 😀 {a: b} # c";
    vec![
        (
            "hostile-texts",
            tool(
                "hostile-texts",
                hostile,
                json!([
                    {"name": "run", "description": hostile, "parameters": proto},
                ]),
            ),
        ),
        (
            "digit-first",
            tool(
                "2fa",
                "Starts with a digit.",
                json!([function("code", object(json!({"n": {"type": "integer", "minimum": 1}})))]),
            ),
        ),
        (
            "long-names",
            tool(
                &"x".repeat(40),
                "Long names.",
                json!([function(&"y".repeat(23), object(json!({}))), function(&"z".repeat(22), object(json!({})))]),
            ),
        ),
        (
            "long-texts",
            tool(
                "long-texts",
                &"word ".repeat(190),
                json!([
                    {"name": "f", "description": "w".repeat(1_500), "parameters": {"type": "object"}},
                ]),
            ),
        ),
        (
            "schemas",
            tool(
                "schemas",
                "Many schemas.",
                json!([
                    function("none", json!({"type": "object"})),
                    function(
                        "closed",
                        json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false})
                    ),
                    function("map", object(json!({"m": {"type": "object", "additionalProperties": {"type": "string"}}}))),
                    function("open", object(json!({"o": {"type": "object"}}))),
                    function(
                        "explicit_open",
                        json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": true})
                    ),
                    function(
                        "optional",
                        object(
                            json!({"a": {"type": "string", "description": "An a."}, "b": {"type": "integer", "default": 5}, "c": {"type": "boolean"}})
                        )
                    ),
                    function(
                        "enums",
                        object(
                            json!({"e": {"type": "string", "enum": ["x", "y"]}, "f": {"enum": [1, "two", null]}, "c": {"const": "k"}})
                        )
                    ),
                    function(
                        "types",
                        object(
                            json!({"t": {"type": ["string", "null"]}, "u": {"type": ["string", "integer"]}, "o": {"type": ["object", "null"], "properties": {"x": {"type": "string"}}}})
                        )
                    ),
                    function(
                        "unions",
                        object(
                            json!({"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "b": {"oneOf": [{"type": "string"}, {"type": "null"}]}})
                        )
                    ),
                    function(
                        "lists",
                        object(
                            json!({"l": {"type": "array", "items": {"type": "string"}, "minItems": 1}, "k": {"type": "array", "items": {"type": "object", "properties": {"q": {"type": "string"}}}, "minItems": 3, "uniqueItems": true}})
                        )
                    ),
                    function("untyped_list", object(json!({"l": {"type": "array"}}))),
                    function(
                        "constraints",
                        object(
                            json!({"s": {"type": "string", "minLength": 1, "maxLength": 9, "pattern": "^[a-z]+$", "format": "uri"},
                "d": {"type": "string", "format": "date-time"}, "n": {"type": "number", "exclusiveMinimum": 0.5, "multipleOf": 0.25}, "z": {"type": "string", "format": "x-own", "minLength": 2}})
                        )
                    ),
                    function(
                        "nested",
                        object(
                            json!({"a": {"type": "object", "properties": {"b": {"type": "object", "properties": {"c": {"type": "string"}}, "required": ["c"]}}}})
                        )
                    ),
                    function(
                        "definitions",
                        json!({"type": "object", "properties": {"p": {"$ref": "#/$defs/point"}, "q": {"$ref": "#/$defs/point", "description": "Another."}}, "required": ["p"],
                "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}, "required": ["x"]}}})
                    ),
                    function(
                        "recursive",
                        json!({"type": "object", "properties": {"node": {"$ref": "#/$defs/node"}}, "$defs": {"node": {"type": "object", "properties": {"value": {"type": "string"}, "next": {"$ref": "#/$defs/node"}}}}})
                    ),
                    function(
                        "root_ref",
                        json!({"type": "object", "properties": {"child": {"$ref": "#"}, "name": {"type": "string"}}, "required": ["name"]})
                    ),
                    function("negated", object(json!({"n": {"type": "string", "not": {"const": "x"}}}))),
                    function(
                        "conditional",
                        json!({"type": "object", "properties": {"a": {"type": "string"}}, "if": {"required": ["a"]}, "then": {"properties": {"b": {"type": "string"}}}})
                    ),
                    function(
                        "patterns",
                        object(json!({"p": {"type": "object", "patternProperties": {"^x": {"type": "string"}}}}))
                    ),
                    function("booleans", object(json!({"any": true}))),
                    function("untyped", object(json!({"any": {"description": "Anything."}}))),
                    function("intersection", object(json!({"a": {"allOf": [{"type": "string"}, {"minLength": 2}]}}))),
                    function(
                        "root_union",
                        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})
                    ),
                    function(
                        "described",
                        object(
                            json!({"d": {"type": "string", "title": "T", "description": "", "examples": ["x"], "deprecated": true}})
                        )
                    ),
                    function("output", json!({"type": "object"})),
                ]),
            ),
        ),
    ]
}
