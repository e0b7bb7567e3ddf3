//! Imports tool folders of the project that the format comes from.
//!
//! They run without changes: the host supports both handler styles. So importing validates and copies them, and also reports functions
//! whose handler is not found in the source.

use std::path::{Path, PathBuf};

use toolcrib_core::codes::export as code;
use toolcrib_core::finding::Finding;
use toolcrib_core::local::LocalManifest;

use super::ImportError;
use crate::local::install::{read_bounded_text, read_manifest};

/// Where projects keep their tool folders.
const ROOTS: [&str; 2] = ["tools", "plugins"];

/// Files that contain handlers, in search order.
pub(super) const HANDLERS: [&str; 6] = ["index.ts", "index.mts", "index.js", "index.mjs", "handler.js", "handler.mjs"];

/// Largest source that is searched for handlers.
const MAX_SOURCE_BYTES: u64 = 4 * 1024 * 1024;

/// Most tool folders of one project.
const MAX_TOOLS: usize = 1_000;

/// How a tool exports its handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandlerStyle {
    /// `export const handlers = { name }`.
    Map,
    /// `export async function name(args, context)`.
    Named,
    /// Neither is found in the source: another runtime, or a file that builds its exports at run time.
    Unknown,
}

/// A tool folder that was checked for installation.
#[derive(Debug)]
pub struct Examined {
    /// Its manifest.
    pub manifest: LocalManifest,
    /// The file with the handlers, if it has one of the usual names.
    pub handler: Option<String>,
    /// How they are exported.
    pub style: HandlerStyle,
    /// Warnings and hints.
    pub findings: Vec<Finding>,
}

/// The tool folders of a project: the folder itself, or those in `tools/` and `plugins/`, sorted.
pub fn folders(project: &Path) -> Result<Vec<PathBuf>, ImportError> {
    let has_manifest = |folder: &Path| folder.join("manifest.json").is_file();
    if has_manifest(project) {
        return Ok(vec![project.to_owned()]);
    }
    let mut found = Vec::new();
    let itself =
        Some(project.to_owned()).filter(|folder| folder.file_name().is_some_and(|name| ROOTS.iter().any(|root| name == *root)));
    for root in ROOTS.iter().map(|root| project.join(root)).chain(itself) {
        let entries = std::fs::read_dir(&root).into_iter().flatten().flatten();
        found.extend(entries.map(|entry| entry.path()).filter(|folder| has_manifest(folder)).take(MAX_TOOLS));
    }
    found.sort();
    if found.is_empty() { Err(ImportError::NoTool { path: project.to_owned() }) } else { Ok(found) }
}

/// Validates a tool folder and searches the handlers of its functions, without running anything.
pub fn examine(folder: &Path) -> Result<Examined, ImportError> {
    let (manifest, mut findings) = read_manifest(folder)?;
    let handler = HANDLERS.iter().find(|name| folder.join(name).is_file()).map(|name| (*name).to_owned());
    let source = match &handler {
        Some(name) => read_bounded_text(&folder.join(name), MAX_SOURCE_BYTES)?,
        None => None,
    };
    let has_runtime = manifest.document().root().get("runtime").is_some();
    let style = source.as_deref().map_or(HandlerStyle::Unknown, style);
    match source {
        Some(source) if style != HandlerStyle::Unknown => {
            let missing = manifest.functions().iter().filter(|function| !mentions(&source, function.name()));
            findings.extend(missing.map(|function| {
                Finding::new(code::IMPORT_HANDLER)
                    .message(format!("no handler for `{}` is seen in the source", function.name()))
                    .got(function.name())
            }));
        }
        None if !has_runtime => {
            findings.push(
                Finding::new(code::IMPORT_HANDLER).message("the folder has no file with handlers").expected(HANDLERS.join(", ")),
            );
        }
        _ => {}
    }
    Ok(Examined { manifest, handler, style, findings })
}

/// Detects the export style of a source from its text.
fn style(source: &str) -> HandlerStyle {
    let exports = |what: &str| {
        source.match_indices("export").any(|(at, _)| {
            let rest = source[at + "export".len()..].trim_start();
            ["const ", "let ", "var "]
                .iter()
                .any(|keyword| rest.strip_prefix(keyword).is_some_and(|rest| starts_with_word(rest.trim_start(), what)))
        })
    };
    if exports("handlers") || source.contains("module.exports.handlers") || source.contains("exports.handlers") {
        return HandlerStyle::Map;
    }
    if ["export async function", "export function", "export const", "exports."].iter().any(|mark| source.contains(mark)) {
        HandlerStyle::Named
    } else {
        HandlerStyle::Unknown
    }
}

fn starts_with_word(text: &str, word: &str) -> bool {
    text.strip_prefix(word).is_some_and(|rest| !rest.starts_with(is_word))
}

/// Whether a name occurs in a source as a whole word.
fn mentions(source: &str, name: &str) -> bool {
    source.match_indices(name).any(|(at, _)| !source[..at].ends_with(is_word) && !source[at + name.len()..].starts_with(is_word))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const MANIFEST: &str = r#"{"id":"demo","name":"Demo","description":"d","version":"1.0.0","logName":"demo","settings":[{"name":"a","label":"A","type":"string"}],
        "functions":[{"name":"one","description":"d","parameters":{"type":"object"}},{"name":"two","description":"d","parameters":{"type":"object"}}]}"#;

    fn examined(source: &str) -> (HandlerStyle, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("manifest.json"), MANIFEST).unwrap();
        fs::write(folder.path().join("index.ts"), source).unwrap();
        let examined = examine(folder.path()).unwrap();
        assert!(examined.manifest.document().root().get("settings").is_some());
        let missing = examined.findings.iter().filter(|finding| finding.code == code::IMPORT_HANDLER);
        (examined.style, missing.filter_map(|finding| finding.got.clone()).collect())
    }

    #[test]
    fn both_styles_are_seen() {
        assert_eq!(
            examined("async function one(){}\nconst two = 1;\nexport const handlers = { one, two };"),
            (HandlerStyle::Map, vec![])
        );
        assert_eq!(
            examined("export async function one(a, c){}\nexport async function two(a, c){}"),
            (HandlerStyle::Named, vec![])
        );
        assert_eq!(examined("export const  handlers: H = { one };"), (HandlerStyle::Map, vec!["two".to_owned()]));
        assert_eq!(examined("export async function one(a){} // twofold"), (HandlerStyle::Named, vec!["two".to_owned()]));
        assert_eq!(examined("import './x.js'").0, HandlerStyle::Unknown);
    }

    #[test]
    fn projects_have_roots() {
        let project = tempfile::tempdir().unwrap();
        assert!(matches!(folders(project.path()), Err(ImportError::NoTool { .. })));
        for path in ["tools/b", "plugins/a", "plugins/empty", "other/c"] {
            fs::create_dir_all(project.path().join(path)).unwrap();
            if path != "plugins/empty" {
                fs::write(project.path().join(path).join("manifest.json"), MANIFEST).unwrap();
            }
        }
        let names = |folders: Vec<PathBuf>| {
            folders.iter().map(|f| f.strip_prefix(project.path()).unwrap().to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(folders(project.path()).unwrap()), ["plugins/a", "tools/b"]);
        assert_eq!(names(folders(&project.path().join("plugins")).unwrap()), ["plugins/a"]);
        assert_eq!(names(folders(&project.path().join("tools/b")).unwrap()), ["tools/b"]);
    }
}
