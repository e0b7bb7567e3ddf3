//! Real manifests as folders, and handlers in both styles under the installed Nodes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{RunOutput, Sandbox};

/// The rejected files, by a part of their name, with their only error. The telegram channel sends and receives messages by itself and has
/// no function that a model could call. All other files have all required fields.
const REFUSED: [(&str, &str); 1] = [("channels-telegram", "local.functions_missing")];

/// The tool of a file in the corpus: `…-tools-ID-manifest.json`.
fn id_of(path: &Path) -> String {
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
    let name = name.strip_suffix("-manifest.json").expect("a manifest");
    let start = ["tools-", "plugins-", "channels-"].iter().filter_map(|kind| Some(name.rfind(kind)? + kind.len())).max();
    name[start.expect("a kind")..].to_owned()
}

// req: LOCAL-001, LOCAL-002, LOCAL-003, LOCAL-004, LOCAL-005, LOCAL-007, LOCAL-008
#[test]
fn every_folder_of_the_corpus_loads_or_is_refused_with_its_finding() {
    let Some(corpus) = toolcrib_testkit::corpus("local-tools") else { return };
    let mut paths: Vec<_> = fs::read_dir(corpus).expect("the corpus").map(|entry| entry.expect("a file").path()).collect();
    paths.sort();
    assert_eq!(paths.len(), 48);
    // Versions of one tool cannot be in the same folder.
    let mut layers: Vec<BTreeMap<String, PathBuf>> = Vec::new();
    for path in paths {
        let id = id_of(&path);
        match layers.iter_mut().find(|layer| !layer.contains_key(&id)) {
            Some(layer) => drop(layer.insert(id, path)),
            None => layers.push(BTreeMap::from([(id, path)])),
        }
    }
    let sandbox = Sandbox::new();
    for (number, layer) in layers.iter().enumerate() {
        let root = format!("layer-{number}");
        for (id, path) in layer {
            sandbox.write(&format!("{root}/{id}/manifest.json"), fs::read(path).expect("a file"));
            sandbox.write(&format!("{root}/{id}/index.mjs"), "export const handlers = {};\n");
        }
        let (code, envelope) = sandbox.run_json(&["local", "list", "--tools", &root]);
        let rows = |key: &str| envelope["data"][key].as_array().expect("rows").clone();
        let (tools, problems) = (rows("tools"), rows("problems"));
        assert_eq!(tools.len() + problems.len(), layer.len());
        assert_eq!(code, i32::from(!problems.is_empty()));
        for (id, path) in layer {
            let file = path.display().to_string();
            let manifest: Value = serde_json::from_slice(&fs::read(path).expect("a file")).expect("JSON");
            match REFUSED.iter().find(|(name, _)| file.contains(name)) {
                Some((_, expected)) => {
                    let folder = format!("/{id}");
                    let problem = problems.iter().find(|problem| problem["folder"].as_str().expect("a path").ends_with(&folder));
                    let problem = problem.unwrap_or_else(|| panic!("{file} is refused: {problems:#?}"));
                    assert_eq!(problem["code"], "host.manifest_invalid", "{problem}");
                    let findings = problem["findings"].as_array().expect("findings");
                    let errors: Vec<_> = findings.iter().filter(|finding| finding["severity"] == "error").collect();
                    assert!(errors.len() == 1 && errors[0]["code"] == *expected, "{problem}");
                }
                None => {
                    let tool = tools.iter().find(|tool| tool["id"] == **id).unwrap_or_else(|| panic!("{file}: {problems:#?}"));
                    assert_eq!((&tool["name"], &tool["version"]), (&manifest["name"], &manifest["version"]), "{file}");
                    let count = |value: &Value| value.as_array().map_or(0, Vec::len);
                    assert_eq!(count(&tool["functions"]), count(&manifest["functions"]), "{file}");
                    assert_eq!(count(&tool["credentials"]), count(&manifest["credentials"]), "{file}");
                    let required = manifest["credentials"].as_array().into_iter().flatten().any(|one| one["required"] == true);
                    assert_eq!(tool["ready"], !required, "{file}: a tool without its credentials is not for models");
                }
            }
        }
    }
}

/// A handler in the documented style: named exports `fn(args, context)`.
const NAMED: &str = "
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { note } from './lib/note.mjs';
export async function greet(args, context) {
  if (!args.name) throw new Error('a name is needed');
  const text = await readFile(join(import.meta.dirname ?? '.', 'note.txt'), 'utf8').catch(() => 'no note');
  return note(`${text.trim()} ${args.name} ${context.config.size} ${typeof context.dataDir}`);
}
";

/// A handler in the style of the project's code: an export `handlers` whose members get all values.
const MAP: &str = "
const started = [];
export async function start(values, logger) { started.push(typeof logger.info); }
async function greet(args, values) {
  if (!args.name) throw new Error('a name is needed');
  console.log('this is no answer');
  return { name: args.name, size: values.size, started };
}
export const handlers = { greet };
";

/// The same in TypeScript, with types that Node strips.
const TYPED: &str = "
import type { Stats } from 'node:fs';
interface Arguments { name?: string }
type Values = Record<string, string>;
const sizes: Map<string, Stats | number> = new Map([['large', 3]]);
async function greet(args: Arguments, values: Values): Promise<{ name: string; size: string; known: boolean }> {
  if (!args.name) throw new Error('a name is needed');
  return { name: args.name as string, size: values.size!, known: sizes.has(values['size'] ?? '') };
}
export const handlers = { greet } satisfies Record<string, Function>;
";

/// A CommonJS handler.
const COMMON: &str = "
const { format } = require('node:util');
module.exports.handlers = { greet: async (args, values) => {
  if (!args.name) throw new Error('a name is needed');
  return format('%s %s', args.name, values.size);
} };
";

fn folder(sandbox: &Sandbox, id: &str, files: &[(&str, &str)]) {
    let manifest = json!({
        "id": id, "name": "Greeter", "description": "Greets.", "version": "1.0.0",
        "settings": [{"name": "size", "label": "Size", "type": "string", "default": "large"}],
        "functions": [{
            "name": "greet", "description": "Greets.",
            "parameters": {"type": "object", "properties": {"name": {"type": "string"}}},
        }],
    });
    sandbox.write(&format!("tools/{id}/manifest.json"), manifest.to_string());
    for (name, text) in files {
        sandbox.write(&format!("tools/{id}/{name}"), text);
    }
}

fn greet(sandbox: &Sandbox, id: &str, arguments: &Value, node: Option<&str>) -> RunOutput {
    let arguments = arguments.to_string();
    let mut all = vec!["local", "call", id, "greet", "--tools", "tools", "--yes", "--args", &arguments];
    all.extend(node.into_iter().flat_map(|node| ["--node", node]));
    sandbox.run(&all)
}

// req: LOCAL-007
#[test]
fn handlers_of_both_styles_run_unchanged_under_every_node() {
    let sandbox = Sandbox::new();
    let note = "export const note = (text) => `${text}.`;\n";
    folder(&sandbox, "named", &[("index.mjs", NAMED), ("lib/note.mjs", note), ("note.txt", "Hello\n")]);
    folder(&sandbox, "named-js", &[("index.js", NAMED), ("lib/note.mjs", note), ("package.json", r#"{"type": "module"}"#)]);
    folder(&sandbox, "map", &[("index.mjs", MAP)]);
    folder(&sandbox, "common", &[("handler.js", COMMON)]);
    folder(&sandbox, "typed", &[("index.ts", TYPED)]);
    let newer = toolcrib_testkit::newer_node();
    let newer = newer.map(|node| fs::canonicalize(node).expect("a program").to_string_lossy().into_owned());
    let name = json!({ "name": "Ada" });
    for node in std::iter::once(None).chain(newer.as_deref().map(Some)) {
        let said = |id: &str| greet(&sandbox, id, &name, node).code(0).stdout;
        // Node 20.11 is the first version with `import.meta.dirname`.
        let named = said("named");
        assert!(["Hello Ada large string.\n", "no note Ada large string.\n"].contains(&named.as_str()), "{named}");
        assert_eq!(said("named-js"), "no note Ada large string.\n");
        let map: Value = serde_json::from_str(&said("map")).expect("JSON");
        assert_eq!(map, json!({"name": "Ada", "size": "large", "started": ["function"]}));
        assert_eq!(said("common"), "Ada large\n");
        for id in ["named", "map", "common"] {
            let refused = greet(&sandbox, id, &json!({}), node);
            assert!(refused.code == 1 && refused.stderr.contains("a name is needed"), "{id}: {refused:#?}");
        }
    }
    let Some(newer) = &newer else { return };
    let typed: Value = serde_json::from_str(&greet(&sandbox, "typed", &name, Some(newer)).code(0).stdout).expect("JSON");
    assert_eq!(typed, json!({"name": "Ada", "size": "large", "known": true}));
    // A Node that cannot run TypeScript reports it, and the host forwards the message.
    let usual = greet(&sandbox, "typed", &name, None);
    assert!(usual.code == 0 || usual.stderr.contains("the handler could not be loaded"), "{usual:#?}");
}
