//! Agent Skills: a folder with a `SKILL.md` for each tool.
//!
//! The skill tells an agent with a shell which functions exist and how to call them with this program. The schemas are in separate files,
//! which the agent reads when it needs them.

use std::fmt::Write as _;
use std::io::Read as _;

use serde_json::Value as Json;
use toolcrib_core::codes::export as code;
use toolcrib_core::finding::Finding;
use toolcrib_core::text::{code_points, is_invisible};

use super::{ExportError, ExportTool, Exposed, Files, Job, pretty};
use crate::local::content::open_file;

/// Most characters of the name of a skill.
const NAME_MAX: usize = 64;

/// Most characters of the description of a skill.
const DESCRIPTION_MAX: usize = 1_024;

/// Largest `prompt.md` that becomes part of the skill. Authors are advised to write 300 words.
const PROMPT_MAX: u64 = 65_536;

/// The file with text for models, next to the manifest.
const PROMPT: &str = "prompt.md";

pub(super) fn export(job: &mut Job<'_>) -> Result<Files, ExportError> {
    let functions = job.functions()?;
    let mut files = Files::new();
    let mut names: Vec<(String, String)> = Vec::new();
    for tool in job.tools.clone() {
        let id = tool.manifest.id();
        let name = name(&tool)?;
        if let Some((_, first)) = names.iter().find(|(known, _)| *known == name) {
            return Err(ExportError::Collision { target: job.target, name, first: first.clone(), second: id.to_owned() });
        }
        let count = code_points(tool.manifest.description());
        if count > DESCRIPTION_MAX {
            let finding = Finding::new(code::DESCRIPTION)
                .message(format!("the description has {count} characters, and a skill takes {DESCRIPTION_MAX}"))
                .expected(format!("at most {DESCRIPTION_MAX} characters"))
                .got(count.to_string());
            return Err(ExportError::Tool { tool: id.to_owned(), finding: Box::new(finding) });
        }
        let own: Vec<_> = functions.iter().filter(|exposed| exposed.tool.manifest.id() == id).collect();
        files.push((format!("{name}/SKILL.md"), skill(&tool, &name, &own)?.into_bytes()));
        for exposed in own {
            let schema = Json::Object(exposed.schema.clone());
            files.push((format!("{name}/references/{}.json", exposed.function.name()), pretty(&schema)));
        }
        names.push((name, id.to_owned()));
    }
    Ok(files)
}

/// The id, in the grammar of skill names.
fn name(tool: &ExportTool<'_>) -> Result<String, ExportError> {
    let id = tool.manifest.id();
    let name = id.to_ascii_lowercase().replace('_', "-");
    let usable = name.len() <= NAME_MAX && name.split('-').all(|part| !part.is_empty());
    if usable {
        return Ok(name);
    }
    let finding = Finding::new(code::NAME)
        .message("the id has no form as the name of a skill")
        .expected("lower-case letters and digits with single hyphens between them")
        .got(id);
    Err(ExportError::Tool { tool: id.to_owned(), finding: Box::new(finding) })
}

fn skill(tool: &ExportTool<'_>, name: &str, functions: &[&Exposed<'_>]) -> Result<String, ExportError> {
    let manifest = tool.manifest;
    let mut text = String::from("---\n");
    let mut member = |indent: &str, key: &str, value: &str| {
        let _ = writeln!(text, "{indent}{key}: {}", quoted(value));
    };
    member("", "name", name);
    member("", "description", manifest.description());
    member("", "compatibility", "Needs the program toolcrib with this tool installed, and a shell to call it.");
    text.push_str("metadata:\n");
    let mut member = |key: &str, value: &str| {
        let _ = writeln!(text, "  {key}: {}", quoted(value));
    };
    member("version", manifest.version());
    member("tool", manifest.id());
    member("content-hash", &tool.content.to_string());
    let id = manifest.id();
    let _ = write!(text, "---\n\n# {}\n\n{}\n", line(manifest.name()), block(manifest.description()));
    if !manifest.credentials().is_empty() {
        text.push_str("\n## Credentials\n\nThe user sets them; never ask for their values. `toolcrib local doctor` says which are missing.\n\n");
        for credential in manifest.credentials() {
            let need = if credential.required() { "required" } else { "optional" };
            let _ = writeln!(text, "- `{}`: {} ({need})", credential.name(), line(credential.label()));
        }
    }
    text.push_str("\n## Functions\n\nCall a function with its arguments as JSON. The arguments are checked before it runs.\n");
    for exposed in functions {
        let function = exposed.function.name();
        let _ = write!(
            text,
            "\n### {function}\n\n{}\n\n```sh\ntoolcrib local call {id} {function} --args '{{…}}'\n```\n\nArguments: [references/{function}.json](references/{function}.json)\n",
            block(exposed.function.description())
        );
    }
    if let Some(prompt) = prompt(tool)? {
        let _ = write!(text, "\n## Notes of the author\n\n{}\n", block(prompt.trim()));
    }
    Ok(text)
}

/// The text of `prompt.md`.
fn prompt(tool: &ExportTool<'_>) -> Result<Option<String>, ExportError> {
    let path = tool.folder.join(PROMPT);
    let mut text = String::new();
    match open_file(&path).and_then(|file| file.take(PROMPT_MAX + 1).read_to_string(&mut text)) {
        Ok(count) if count as u64 <= PROMPT_MAX => Ok(Some(text)),
        Ok(_) => {
            let finding =
                Finding::new(code::DESCRIPTION).message(format!("{PROMPT} has more than {PROMPT_MAX} bytes")).got(PROMPT);
            Err(ExportError::Tool { tool: tool.manifest.id().to_owned(), finding: Box::new(finding) })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ExportError::Read { path, source }),
    }
}

/// A double-quoted YAML scalar. It never contains `---`, at which parsers split the file.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    let mut hyphens = 0;
    for c in text.chars() {
        hyphens = if c == '-' { hyphens + 1 } else { 0 };
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '-' if hyphens == 3 => {
                out.push_str("\\x2d");
                hyphens = 0;
            }
            c if c.is_control() || is_invisible(c) || matches!(c, '\u{2028}' | '\u{2029}') => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\U{:08X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A text on one line, without invisible characters.
fn line(text: &str) -> String {
    text.chars().filter(|c| !is_invisible(*c)).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A text of several lines, without invisible characters. Lines that would end their section (headings, fences, rules) are indented, so
/// that a description cannot imitate another section of the file.
fn block(text: &str) -> String {
    let mut out = String::new();
    for (index, one) in text.lines().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let one = line(one);
        let start = one.trim_start();
        if start.starts_with(['#', '`', '~', '=']) || start.starts_with("---") {
            out.push('\\');
            out.push_str(start);
        } else {
            out.push_str(&one);
        }
    }
    out
}
