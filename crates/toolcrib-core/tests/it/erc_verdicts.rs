//! `vectors/verdicts/erc-8257.json`: the verdicts that the text of ERC-8257 implies for manifests and metadata URIs, sentence by sentence,
//! for readers and for producers. `vectors/README.md` describes the format.

use std::fmt::Write as _;
use std::fs;

use serde_json::{Map, Value as Json};
use toolcrib_core::finding::{Finding, Mode, Severity};
use toolcrib_core::tool::ToolManifest;
use toolcrib_core::url::HttpsUrl;
use toolcrib_core::url::well_known::check_origin_binding;

/// Writes a value of the table as JSON text. Long, wide and deep values have a short notation; the output is text, because a value with
/// thousands of levels should not be built by recursion.
fn write(value: &Json, out: &mut String) {
    match value {
        Json::Object(members) => {
            if let Some((key, arguments)) = members.iter().next().filter(|(key, _)| members.len() == 1 && key.starts_with('$')) {
                match (key.as_str(), arguments.as_array().map(Vec::as_slice)) {
                    ("$repeat" | "$join", _) => out.push_str(&Json::String(text(value)).to_string()),
                    ("$list", Some([item, count])) => list(item, number(count), out),
                    ("$nest", Some([key, levels, inner])) => nest(key.as_str(), number(levels), inner, out),
                    ("$key", Some([key, member])) => {
                        write!(out, "{{{}:{member}}}", Json::String(text(key))).expect("a string takes everything");
                    }
                    _ => object(members, out),
                }
            } else {
                object(members, out);
            }
        }
        Json::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                write(item, out);
            }
            out.push(']');
        }
        plain => out.push_str(&plain.to_string()),
    }
}

fn object(members: &Map<String, Json>, out: &mut String) {
    out.push('{');
    for (at, (key, member)) in members.iter().enumerate() {
        out.push_str(if at > 0 { "," } else { "" });
        write!(out, "{}:", Json::String(key.clone())).expect("a string takes everything");
        write(member, out);
    }
    out.push('}');
}

fn list(item: &Json, count: usize, out: &mut String) {
    let mut written = String::new();
    write(item, &mut written);
    write!(out, "[{}]", vec![written; count].join(",")).expect("a string takes everything");
}

fn nest(key: Option<&str>, levels: usize, inner: &Json, out: &mut String) {
    let (open, close) = key.map_or_else(|| ("[".to_owned(), "]"), |key| (format!("{{{}:", Json::String(key.to_owned())), "}"));
    out.push_str(&open.repeat(levels));
    write(inner, out);
    out.push_str(&close.repeat(levels));
}

/// A string, literal or in short notation.
fn text(value: &Json) -> String {
    match (value.as_str(), value["$repeat"].as_array().map(Vec::as_slice), value["$join"].as_array()) {
        (Some(text), ..) => text.to_owned(),
        (_, Some([part, count]), _) => text(part).repeat(number(count)),
        (.., Some(parts)) => parts.iter().map(text).collect(),
        _ => panic!("no text: {value}"),
    }
}

fn number(value: &Json) -> usize {
    value.as_u64().and_then(|number| number.try_into().ok()).expect("a number")
}

/// The manifest of a case: the table's base with members set and removed, or other bytes.
fn manifest(base: &Map<String, Json>, case: &Json) -> String {
    if let Some(raw) = case["raw"].as_str() {
        return raw.to_owned();
    }
    let mut members = base.clone();
    for (pointer, value) in case["set"].as_object().into_iter().flatten() {
        members.insert(pointer.trim_start_matches('/').to_owned(), value.clone());
    }
    for pointer in case["remove"].as_array().into_iter().flatten() {
        members.remove(pointer.as_str().expect("a pointer").trim_start_matches('/')).expect("a member to remove");
    }
    let mut out = case["prefix"].as_str().unwrap_or_default().to_owned();
    object(&members, &mut out);
    out
}

/// How a verdict differs from the expected one, if it does.
fn fault(wanted: &Json, is_accepted: bool, findings: &[Finding]) -> Option<String> {
    let has = |code: &Json, is_error: bool| {
        findings.iter().any(|finding| code == finding.code.id() && (finding.severity == Severity::Error) == is_error)
    };
    let holds = match wanted {
        Json::String(word) if word == "accept" => is_accepted,
        _ if !wanted["warn"].is_null() => is_accepted && has(&wanted["warn"], false),
        _ if !wanted["refuse"].is_null() => !is_accepted && has(&wanted["refuse"], true),
        _ => panic!("no verdict: {wanted}"),
    };
    let found: Vec<_> = findings.iter().map(|finding| format!("{} {}", finding.severity, finding.code.id())).collect();
    (!holds).then(|| format!("wanted {wanted}, got {} with {found:?}", if is_accepted { "accept" } else { "refuse" }))
}

// req: MAN-001
#[test]
fn readers_refuse_what_the_erc_tells_them_to_and_nothing_else() {
    let file = fs::read(toolcrib_testkit::vectors("verdicts").join("erc-8257.json")).expect("the repository has vectors");
    let table: Json = serde_json::from_slice(&file).expect("JSON");
    let base = table["manifest"].as_object().expect("a manifest");
    let cases = table["cases"].as_array().expect("cases");
    let mut faults = Vec::new();
    for case in cases {
        assert!(case["quote"].as_str().is_some_and(|quote| quote.len() > 15) && case["section"].is_string(), "{case}");
        for (who, mode) in [("reader", Mode::Consumer), ("producer", Mode::Producer)] {
            let (is_accepted, findings) = if let Some(uri) = case["metadata_uri"].as_str() {
                let endpoint = HttpsUrl::parse(case["endpoint"].as_str().expect("an endpoint")).expect("a URL");
                let bound = check_origin_binding(uri, &endpoint);
                (bound.is_ok(), bound.err().unwrap_or_default())
            } else {
                let checked = ToolManifest::parse(manifest(base, case).as_bytes(), mode);
                (checked.conformant().is_some(), checked.findings)
            };
            faults.extend(fault(&case[who], is_accepted, &findings).map(|fault| format!("{} ({who}): {fault}", case["name"])));
        }
    }
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), 2 * cases.len(), faults.join("\n"));
    assert!(cases.len() >= 120, "{} cases", cases.len());
}
