//! Creates manifests from the tools of an MCP server.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};
use toolcrib_core::checked::parse;
use toolcrib_core::codes::export as code;
use toolcrib_core::finding::{Finding, Mode, Severity};
use toolcrib_core::local::names::{is_identifier, is_name};
use toolcrib_core::local::{LocalManifest, MAX_FUNCTIONS, NetworkRequest, is_loopback_url};
use toolcrib_core::url::HttpsUrl;
use toolcrib_mcp::{Side, listable};

use super::{Grants, ImportError, ImportedTool, McpServer, Transport};

/// The member of a function with the name of the tool at the server, if it differs from that of the function.
pub(super) const ORIGINAL_NAME: &str = "mcpName";

/// Creates the manifest of a tool from a server and the result of its `tools/list`.
///
/// Names that are not valid function names are mapped, and the original name is kept as `mcpName`; two tools that map to one function are
/// an error. Tools with an unusable input schema are omitted with a finding.
pub fn from_mcp_tools(server: &McpServer, tools_list: &Json) -> Result<ImportedTool, ImportError> {
    let tools = tools_of(tools_list)?;
    let mut findings = Vec::new();
    let mut functions = Vec::new();
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for tool in tools {
        let Some(original) = tool.get("name").and_then(Json::as_str) else {
            return Err(ImportError::Tools("a tool has no name".to_owned()));
        };
        let name = function_name(original)?;
        if let Some(first) = seen.insert(name.clone(), original) {
            return Err(ImportError::Collision { function: name, first: first.to_owned(), second: original.to_owned() });
        }
        match function(tool, original, &name, server) {
            Ok(function) => functions.push(function),
            Err(problem) => {
                findings
                    .push(Finding::new(code::IMPORT_LEFT_OUT).message(format!("a tool is left out: {problem}")).got(original));
            }
        }
    }
    if functions.is_empty() {
        return Err(ImportError::Tools("no tool of the server can be used".to_owned()));
    }
    let manifest = format!("{:#}\n", document(server, functions));
    let checked = parse::<LocalManifest>(manifest.as_bytes(), Mode::Consumer);
    if checked.conformant().is_none() {
        let findings = checked.findings.into_iter().filter(|finding| finding.severity == Severity::Error).collect();
        return Err(ImportError::Manifest { findings });
    }
    findings.extend(checked.findings);
    Ok(ImportedTool { id: server.id.clone(), manifest, findings })
}

/// Accepts the list itself, a result that contains it, or a response with such a result.
fn tools_of(list: &Json) -> Result<&[Json], ImportError> {
    let list = list.get("result").unwrap_or(list);
    let list = list.get("tools").unwrap_or(list);
    let tools = list.as_array().ok_or_else(|| ImportError::Tools("expected a list of tools".to_owned()))?;
    if tools.len() > MAX_FUNCTIONS {
        return Err(ImportError::Tools(format!(
            "it has {} tools, and a tool folder has at most {MAX_FUNCTIONS} functions",
            tools.len()
        )));
    }
    Ok(tools)
}

/// Returns the name, with `_` for every character that is invalid in a function name.
fn function_name(original: &str) -> Result<String, ImportError> {
    let refused = |problem| Err(ImportError::Name { name: original.to_owned(), problem });
    if is_identifier(original) && is_name(original) {
        return Ok(original.to_owned());
    }
    let mapped: String = original.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    // Function names start with a letter, so that they can be identifiers.
    let mapped = mapped.trim_matches('_');
    let mapped = if mapped.starts_with(|c: char| c.is_ascii_digit()) { format!("t{mapped}") } else { mapped.to_owned() };
    if mapped.is_empty() {
        return refused("nothing is left of it as a function name");
    }
    if is_name(&mapped) { Ok(mapped) } else { refused("it is longer than 64 characters") }
}

fn function(tool: &Json, original: &str, name: &str, server: &McpServer) -> Result<Json, String> {
    let schema = tool.get("inputSchema").ok_or("it has no input schema")?;
    let parameters = listable(schema, Side::Input)?;
    let text = |key: &str| tool.get(key).and_then(Json::as_str).filter(|text| !text.trim().is_empty());
    let description = match text("description").or_else(|| text("title")) {
        Some(description) => description.to_owned(),
        None => format!("The tool {original} of {}, which does not describe it.", server.name),
    };
    let mut function = Map::new();
    function.insert("name".to_owned(), name.into());
    if name != original {
        function.insert(ORIGINAL_NAME.to_owned(), original.into());
    }
    function.insert("description".to_owned(), description.into());
    function.insert("parameters".to_owned(), parameters.into());
    // Results are validated with the output schema, so only an unusable output schema is omitted.
    if let Some(Ok(outputs)) = tool.get("outputSchema").map(|schema| listable(schema, Side::Output)) {
        function.insert("outputs".to_owned(), outputs.into());
    }
    Ok(function.into())
}

fn document(server: &McpServer, functions: Vec<Json>) -> Json {
    let credentials: Vec<_> = server
        .credentials
        .iter()
        .map(|credential| {
            let mut member = json!({
                "name": credential.name,
                "label": credential.label,
                "required": credential.required,
                "secret": credential.secret,
            });
            let optional = [("description", &credential.description), ("env", &credential.env), ("header", &credential.header)];
            for (key, value) in optional.into_iter().filter_map(|(key, value)| Some((key, value.as_deref()?))) {
                member[key] = value.into();
            }
            member
        })
        .collect();
    let runtime = match &server.transport {
        Transport::Command(command) => json!({"kind": "mcp", "command": command}),
        Transport::Url(url) => json!({"kind": "mcp", "url": url}),
    };
    let mut document = json!({
        "id": server.id,
        "name": server.name,
        "description": server.description,
        "version": server.version,
        "runtime": runtime,
        "credentials": credentials,
        "functions": functions,
    });
    let sandbox = sandbox(server);
    if !sandbox.is_empty() {
        document["sandbox"] = sandbox.into();
    }
    document
}

fn sandbox(server: &McpServer) -> Map<String, Json> {
    let Grants { read, write, network } = &server.grants;
    let mut sandbox = Map::new();
    for (key, paths) in [("read", read), ("write", write)] {
        if !paths.is_empty() {
            sandbox.insert(key.to_owned(), json!(paths));
        }
    }
    let network = match (network, &server.transport) {
        (NetworkRequest::Any, _) => Some(json!("any")),
        (NetworkRequest::Ports(ports), _) => Some(json!(ports)),
        // A remote server needs the network, which the user is shown.
        (NetworkRequest::None, Transport::Url(url)) if !is_loopback_url(url) => {
            HttpsUrl::parse(url).ok().map(|url| json!([url.port()]))
        }
        (NetworkRequest::None, _) => None,
    };
    sandbox.extend(network.map(|network| ("network".to_owned(), network)));
    sandbox
}

#[cfg(test)]
mod tests {
    use super::super::from_entry;
    use super::*;

    fn server() -> McpServer {
        from_entry("demo", &json!({"command": "demo-server", "env": {"API_KEY": "x"}})).unwrap().0
    }

    #[test]
    fn names_are_mapped_and_kept() {
        let list = json!({"tools": [
            {"name": "plain_name", "description": "d", "inputSchema": {"type": "object"}},
            {"name": "files.read/all", "inputSchema": {"type": "object", "properties": {"a": true}}, "title": "Read"},
            {"name": "2fa", "inputSchema": {}, "outputSchema": {"type": "object"}},
        ]});
        let tool = from_mcp_tools(&server(), &list).unwrap();
        let manifest: Json = serde_json::from_str(&tool.manifest).unwrap();
        let functions = manifest["functions"].as_array().unwrap();
        let names: Vec<_> =
            functions.iter().map(|f| (f["name"].as_str().unwrap(), f.get("mcpName").and_then(Json::as_str))).collect();
        assert_eq!(names, [("plain_name", None), ("files_read_all", Some("files.read/all")), ("t2fa", Some("2fa"))]);
        assert_eq!(functions[1]["parameters"], json!({"type": "object", "properties": {"a": {}}}));
        assert_eq!(functions[1]["description"], "Read");
        assert_eq!(manifest["runtime"], json!({"kind": "mcp", "command": ["demo-server"]}));
        assert_eq!(manifest["credentials"][0]["env"], "API_KEY");
        assert!(!tool.manifest.contains("\"x\""));
        // The same list in the other forms.
        for wrapped in [list["tools"].clone(), json!({"jsonrpc": "2.0", "id": 1, "result": list})] {
            assert_eq!(from_mcp_tools(&server(), &wrapped).unwrap().manifest, tool.manifest);
        }
    }

    #[test]
    fn a_server_elsewhere_gets_the_port_that_it_needs() {
        let list = json!([{"name": "a", "description": "d", "inputSchema": {"type": "object"}}]);
        let manifest = |url: &str| {
            let entry = json!({"url": url, "headers": {"Authorization": "Bearer x"}});
            let tool = from_mcp_tools(&from_entry("remote", &entry).unwrap().0, &list).unwrap();
            serde_json::from_str::<Json>(&tool.manifest).unwrap()
        };
        let remote = manifest("https://example.com:8443/mcp");
        assert_eq!(remote["sandbox"], json!({"network": [8443]}));
        assert_eq!(remote["credentials"][0]["header"], "Authorization");
        assert_eq!(manifest("http://127.0.0.1:3000/mcp").get("sandbox"), None);
    }

    #[test]
    fn collisions_and_bad_lists_are_refused_and_bad_tools_left_out() {
        let tool = |name: &str| json!({"name": name, "description": "d", "inputSchema": {"type": "object"}});
        let error = from_mcp_tools(&server(), &json!([tool("a.b"), tool("a/b")])).unwrap_err();
        assert_eq!(error.code(), code::IMPORT_COLLISION);
        for list in [
            json!(null),
            json!({}),
            json!([]),
            json!([{}]),
            json!({"tools": "x"}),
            json!([{"name": "a", "inputSchema": {"type": "array"}}]),
        ] {
            assert_eq!(from_mcp_tools(&server(), &list).unwrap_err().code(), code::IMPORT_TOOLS, "{list}");
        }
        for name in ["", "___", "日本", &"x".repeat(65)] {
            assert_eq!(from_mcp_tools(&server(), &json!([tool(name)])).unwrap_err().code(), code::IMPORT_NAME, "{name}");
        }
        let many: Vec<_> = (0..=MAX_FUNCTIONS).map(|n| tool(&format!("f{n}"))).collect();
        assert_eq!(from_mcp_tools(&server(), &json!(many)).unwrap_err().code(), code::IMPORT_TOOLS);

        let mut list = vec![tool("good"), json!({"name": "remote", "inputSchema": {"$ref": "https://example.com/s"}})];
        list.push(json!({"name": "none"}));
        let imported = from_mcp_tools(&server(), &json!(list)).unwrap();
        let left_out = imported.findings.iter().filter(|finding| finding.code == code::IMPORT_LEFT_OUT);
        assert_eq!(left_out.map(|finding| finding.got.clone().unwrap()).collect::<Vec<_>>(), ["remote", "none"]);
    }
}
