//! SARIF 2.1.0, the input format of code-scanning services.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use toolcrib_core::codes::{self, Code};
use toolcrib_core::finding::{Finding, Severity, Span};

use crate::check::File;
use crate::outcome::Failure;
use crate::position::{Lines, characters};

/// Characters that are percent-encoded in a URI: all but RFC 3986 `unreserved` and `/`.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The report of a whole run.
pub(crate) fn run(files: &[File], failures: &[Failure]) -> Value {
    let rules: Vec<_> = codes::all().collect();
    let results: Vec<_> = files.iter().flat_map(|file| results(file, &rules)).collect();
    let notifications: Vec<_> = failures
        .iter()
        .map(|failure| {
            json!({ "level": "error", "message": { "text": failure.message }, "descriptor": { "id": failure.code.id() } })
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "toolcrib",
                "version": env!("CARGO_PKG_VERSION"),
                "informationUri": env!("CARGO_PKG_REPOSITORY"),
                "rules": rules.iter().copied().map(rule).collect::<Vec<_>>(),
            } },
            "columnKind": "unicodeCodePoints",
            "invocations": [{
                "executionSuccessful": failures.is_empty(),
                "toolExecutionNotifications": notifications,
            }],
            "results": results,
        }],
    })
}

fn rule(code: Code) -> Value {
    let info = code.info();
    json!({
        "id": info.id,
        "shortDescription": { "text": info.title },
        "fullDescription": { "text": info.explanation },
        "help": { "text": format!("{}\n\nWhat to do: {}\n\nSource: {}", info.explanation, info.hint, info.spec) },
        "defaultConfiguration": { "level": level(info.severity) },
        "properties": { "spec": info.spec },
    })
}

fn results(file: &File, rules: &[Code]) -> Vec<Value> {
    let lines = Lines::new(&file.bytes);
    let artifact = json!({ "uri": uri(&file.source.name()) });
    file.findings.iter().map(|finding| result(finding, &artifact, &lines, rules)).collect()
}

fn result(finding: &Finding, artifact: &Value, lines: &Lines<'_>, rules: &[Code]) -> Value {
    let mut text = finding.message.clone();
    for (what, value) in [("expected", &finding.expected), ("got", &finding.got)] {
        if let Some(value) = value {
            text.push_str(&format!("; {what} {value}"));
        }
    }
    let mut place = Map::new();
    place.insert("artifactLocation".to_owned(), artifact.clone());
    if let Some(span) = finding.span {
        place.insert("region".to_owned(), region(span, lines));
    }
    let mut location = json!({ "physicalLocation": place });
    if !finding.pointer.is_empty() {
        location["logicalLocations"] = json!([{ "fullyQualifiedName": finding.pointer }]);
    }
    let mut result = json!({
        "ruleId": finding.code.id(),
        "ruleIndex": rules.iter().position(|code| *code == finding.code),
        "level": level(finding.severity),
        "message": { "text": text },
        "locations": [location],
    });
    if let Some(fix) = &finding.fix {
        let replacements: Vec<_> = fix
            .edits
            .iter()
            .map(|edit| json!({ "deletedRegion": region(edit.span, lines), "insertedContent": { "text": edit.replacement } }))
            .collect();
        result["fixes"] = json!([{
            "description": { "text": fix.title },
            "artifactChanges": [{ "artifactLocation": artifact, "replacements": replacements }],
        }]);
    }
    result
}

/// The region of a span. Lines and columns count from 1, offsets from 0. Bytes that are not UTF-8 have no character offsets.
fn region(span: Span, lines: &Lines<'_>) -> Value {
    let span = lines.clamp(span);
    let (start, end) = (lines.position(span.start), lines.position(span.end));
    let mut region = json!({
        "startLine": start.line,
        "startColumn": start.column,
        "endLine": end.line,
        "endColumn": end.column,
        "byteOffset": span.start,
        "byteLength": span.end - span.start,
    });
    let bytes = lines.bytes();
    if std::str::from_utf8(&bytes[..span.end]).is_ok() {
        region["charOffset"] = json!(characters(&bytes[..span.start]));
        region["charLength"] = json!(characters(&bytes[span.start..span.end]));
    }
    region
}

const fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Hint => "note",
    }
}

/// A relative path or an absolute one as a URI reference.
fn uri(name: &str) -> String {
    let path = if cfg!(windows) { name.replace('\\', "/") } else { name.to_owned() };
    let path = path.strip_prefix("./").unwrap_or(&path);
    let scheme = if path.starts_with('/') { "file://" } else { "" };
    format!("{scheme}{}", utf8_percent_encode(path, RESERVED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_uris() {
        assert_eq!(uri("./a b/é:c.json"), "a%20b/%C3%A9%3Ac.json");
        assert_eq!(uri("/tmp/x.json"), "file:///tmp/x.json");
    }

    #[test]
    fn regions_count_lines_from_one_and_offsets_from_zero() {
        let lines = Lines::new("{\n\"é\": 1}".as_bytes());
        assert_eq!(
            region(Span::new(6, 7), &lines),
            json!({ "startLine": 2, "startColumn": 4, "endLine": 2, "endColumn": 5,
                    "byteOffset": 6, "byteLength": 1, "charOffset": 5, "charLength": 1 })
        );
        assert!(region(Span::new(1, 2), &Lines::new(b"\xff\xff\xff")).get("charOffset").is_none());
    }
}
