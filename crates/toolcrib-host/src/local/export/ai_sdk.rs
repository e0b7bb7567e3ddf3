//! A module for the AI SDK (npm `ai`).
//!
//! Its users pass an object of tools to `generateText`. The module creates that object; the caller supplies the function that sends calls
//! to the host, so that it works over MCP, HTTP or a child process. Without that function, the tools have no `execute` and the SDK returns
//! their calls.

use serde_json::Value as Json;

use super::{ExportError, Files, Job};

const HEAD: &str = r#"// Tools for the AI SDK (npm `ai`), exported by Toolcrib.
//
//   import { createTools } from "./ai-sdk.mjs";
//   const { text } = await generateText({ model, prompt, tools: createTools(call) });
//
// `call(tool, name, input, options)` runs the function `name` of the tool `tool` and returns a promise of its result. Without it the
// tools have no `execute`, and the SDK returns their calls.
import { jsonSchema, tool } from "ai";

export function createTools(call) {
  const run = (id, name) => (call ? { execute: (input, options) => call(id, name, input, options) } : {});
  return {
"#;

pub(super) fn export(job: &mut Job<'_>) -> Result<Files, ExportError> {
    let mut module = HEAD.to_owned();
    for exposed in job.functions()? {
        module.push_str("    ");
        key(&exposed.name, &mut module);
        module.push_str("tool({\n      description: ");
        string(exposed.function.description(), &mut module);
        module.push_str(",\n      inputSchema: jsonSchema(");
        value(&Json::Object(exposed.schema), 3, &mut module);
        module.push_str("),\n      ...run(");
        string(exposed.tool.manifest.id(), &mut module);
        module.push_str(", ");
        string(exposed.function.name(), &mut module);
        module.push_str("),\n    }),\n");
    }
    module.push_str("  };\n}\n");
    Ok(vec![("ai-sdk.mjs".to_owned(), module.into_bytes())])
}

/// Writes a value as an expression. The manifest parser limits the nesting.
fn value(json: &Json, level: usize, out: &mut String) {
    match json {
        Json::Object(members) if members.is_empty() => out.push_str("{}"),
        Json::Object(members) => {
            out.push_str("{\n");
            for (name, member) in members {
                indent(level + 1, out);
                key(name, out);
                value(member, level + 1, out);
                out.push_str(",\n");
            }
            indent(level, out);
            out.push('}');
        }
        Json::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                value(item, level, out);
            }
            out.push(']');
        }
        Json::String(text) => string(text, out),
        Json::Null | Json::Bool(_) | Json::Number(_) => out.push_str(&json.to_string()),
    }
}

/// The key of a member and a colon. `__proto__` in an object literal would set the prototype; a computed key does not.
fn key(name: &str, out: &mut String) {
    if name == "__proto__" {
        out.push_str("[\"__proto__\"]");
    } else {
        string(name, out);
    }
    out.push_str(": ");
}

/// Writes a string literal. Characters that change how source code is displayed are escaped, so that a reviewer sees what runs.
fn string(text: &str, out: &mut String) {
    use std::fmt::Write as _;

    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            // A module may be inlined in an HTML page.
            '<' => out.push_str("\\u003c"),
            c if c.is_control() || toolcrib_core::text::is_invisible(c) || matches!(c, '\u{2028}' | '\u{2029}') => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

fn indent(level: usize, out: &mut String) {
    out.extend(std::iter::repeat_n("  ", level));
}
