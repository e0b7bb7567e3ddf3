//! Imports entries of client configurations: `{"command", "args", "env"}` or `{"url", "headers"}`, as in `mcpServers`.

use serde_json::{Map, Value as Json};
use zeroize::Zeroizing;

use super::server::{
    MAX_ITEMS, MAX_TEXT, announces_secret, check_command, check_expanded, check_url, check_variable, credential_name, id_of,
    is_placeholder, looks_secret,
};
use super::{CredentialValue, Grants, ImportError, McpServer, ServerCredential, Transport};

/// The entries of a client configuration, by name: in `mcpServers`, in `servers`, or in `servers` within `mcp`.
pub fn entries(configuration: &Json) -> Result<Vec<(&str, &Json)>, ImportError> {
    let mcp = configuration.get("mcp").unwrap_or(configuration);
    let entries = mcp.get("mcpServers").or_else(|| mcp.get("servers")).and_then(Json::as_object);
    let entries = entries.ok_or_else(|| ImportError::Entry("the configuration has no `mcpServers` or `servers`".to_owned()))?;
    Ok(entries.iter().map(|(name, entry)| (name.as_str(), entry)).collect())
}

/// Creates a server from the entry `name` of a client configuration. Also returns the values of its environment and headers, except empty
/// ones and placeholders of the client.
pub fn from_entry(name: &str, entry: &Json) -> Result<(McpServer, Vec<CredentialValue>), ImportError> {
    let Json::Object(entry) = entry else { return Err(ImportError::Entry("expected an object".to_owned())) };
    if entry.get("type").and_then(Json::as_str) == Some("sse") {
        return Err(ImportError::Entry(
            "the transport `sse` is not supported; use the server's address for streamable HTTP".to_owned(),
        ));
    }
    let mut credentials = Vec::new();
    let mut values = Vec::new();
    let transport = match (entry.get("command"), entry.get("url").or_else(|| entry.get("serverUrl"))) {
        (Some(Json::String(program)), None) => {
            let mut command = vec![program.clone()];
            command.extend(texts(entry, "args")?);
            command.iter().try_for_each(|part| check_expanded(part))?;
            check_command(&command)?;
            for (variable, value) in pairs(entry, "env")? {
                check_variable(&variable)?;
                let credential = ServerCredential { env: Some(variable.clone()), ..named(&variable, &value)? };
                add(credential, value, &mut credentials, &mut values)?;
            }
            Transport::Command(command)
        }
        (None, Some(Json::String(url))) => {
            check_expanded(url)?;
            check_url(url)?;
            for (header, value) in pairs(entry, "headers")? {
                let is_header =
                    !header.is_empty() && header.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
                if !is_header {
                    return Err(ImportError::Entry("a header has a name that is not one".to_owned()));
                }
                let credential = ServerCredential { header: Some(header.clone()), secret: true, ..named(&header, &value)? };
                add(credential, value, &mut credentials, &mut values)?;
            }
            Transport::Url(url.clone())
        }
        _ => return Err(ImportError::Entry("expected either `command` or `url`, as a string".to_owned())),
    };
    let server = McpServer {
        id: id_of(name)?,
        name: name.to_owned(),
        description: format!("Tools of the MCP server {name}."),
        // Entries have no version; the server reports its own when it starts.
        version: "0.0.0".to_owned(),
        transport,
        credentials,
        grants: Grants::default(),
    };
    Ok((server, values))
}

fn named(name: &str, value: &str) -> Result<ServerCredential, ImportError> {
    Ok(ServerCredential {
        name: credential_name(name)?,
        label: name.to_owned(),
        description: None,
        // It was set, so the server is known to work only with it.
        required: !value.is_empty(),
        secret: announces_secret(name) || looks_secret(value),
        env: None,
        header: None,
    })
}

fn add(
    credential: ServerCredential,
    value: Zeroizing<String>,
    credentials: &mut Vec<ServerCredential>,
    values: &mut Vec<CredentialValue>,
) -> Result<(), ImportError> {
    if let Some(first) = credentials.iter().find(|known| known.name == credential.name) {
        return Err(ImportError::Collision {
            function: credential.name.clone(),
            first: first.label.clone(),
            second: credential.label,
        });
    }
    if !value.is_empty() && !is_placeholder(&value) {
        values.push(CredentialValue { name: credential.name.clone(), value });
    }
    credentials.push(credential);
    Ok(())
}

/// An optional list of strings.
fn texts(entry: &Map<String, Json>, key: &str) -> Result<Vec<String>, ImportError> {
    let refused = || ImportError::Entry(format!("`{key}` is not a list of at most {MAX_ITEMS} strings"));
    match entry.get(key) {
        None | Some(Json::Null) => Ok(Vec::new()),
        Some(Json::Array(items)) if items.len() <= MAX_ITEMS => {
            items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(refused)).collect()
        }
        Some(_) => Err(refused()),
    }
}

/// An optional object of strings. Numbers and booleans are converted to strings, as clients do.
fn pairs(entry: &Map<String, Json>, key: &str) -> Result<Vec<(String, Zeroizing<String>)>, ImportError> {
    let refused = || ImportError::Entry(format!("`{key}` is not an object of at most {MAX_ITEMS} strings"));
    let members = match entry.get(key) {
        None | Some(Json::Null) => return Ok(Vec::new()),
        Some(Json::Object(members)) if members.len() <= MAX_ITEMS => members,
        Some(_) => return Err(refused()),
    };
    let text = |value: &Json| match value {
        Json::String(text) if text.len() <= MAX_TEXT && !text.contains('\0') => Some(Zeroizing::new(text.clone())),
        Json::Number(_) | Json::Bool(_) => Some(Zeroizing::new(value.to_string())),
        _ => None,
    };
    members.iter().map(|(name, value)| Ok((name.clone(), text(value).ok_or_else(refused)?))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolcrib_core::codes::export as code;

    use super::*;

    #[test]
    fn values_are_returned_and_not_kept() {
        let token = format!("ghp_{}", "A1b2C3d4".repeat(5));
        let entry = json!({"command": "npx", "args": ["-y", "@scope/server"], "env": {"GITHUB_TOKEN": token, "LOG_LEVEL": "debug", "PORT": 80}});
        let (server, values) = from_entry("GitHub Server", &entry).unwrap();
        assert_eq!(server.id, "github-server");
        assert_eq!(server.transport, Transport::Command(["npx", "-y", "@scope/server"].map(str::to_owned).to_vec()));
        let shape: Vec<_> = server.credentials.iter().map(|c| (c.name.as_str(), c.env.as_deref(), c.secret)).collect();
        assert_eq!(
            shape,
            [
                ("github_token", Some("GITHUB_TOKEN"), true),
                ("log_level", Some("LOG_LEVEL"), false),
                ("port", Some("PORT"), false)
            ]
        );
        assert_eq!(values.iter().map(|v| v.value.as_str()).collect::<Vec<_>>(), [token.as_str(), "debug", "80"]);
        assert!(!format!("{server:?} {values:?}").contains(&token));

        let (server, values) =
            from_entry("remote", &json!({"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer x"}})).unwrap();
        assert_eq!(server.transport, Transport::Url("https://example.com/mcp".to_owned()));
        assert_eq!((server.credentials[0].header.as_deref(), server.credentials[0].secret), (Some("Authorization"), true));
        assert_eq!(values[0].value.as_str(), "Bearer x");
    }

    /// The user sets such a credential; a placeholder is not a value.
    #[test]
    fn what_a_client_fills_in_is_no_value() {
        let env = json!({"KEY": "${input:key}", "TOKEN": "${env:TOKEN}", "OTHER": "${OTHER}", "EMPTY": "", "LEVEL": "debug"});
        let (server, values) = from_entry("x", &json!({"command": "a", "env": env})).unwrap();
        assert_eq!(values.iter().map(|value| value.name.as_str()).collect::<Vec<_>>(), ["level"]);
        let required = server.credentials.iter().filter(|credential| credential.required);
        let mut required: Vec<_> = required.map(|credential| credential.name.as_str()).collect();
        required.sort_unstable();
        assert_eq!(required, ["key", "level", "other", "token"]);
        for entry in [
            json!({"command": "a", "args": ["${workspaceFolder}/x.js"]}),
            json!({"command": "${HOME}/x"}),
            json!({"url": "https://${HOST}/mcp"}),
        ] {
            assert_eq!(from_entry("x", &entry).unwrap_err().code(), code::IMPORT_VARIABLE, "{entry}");
        }
        let sse = json!({"type": "sse", "url": "https://example.com/sse"});
        assert_eq!(from_entry("x", &sse).unwrap_err().code(), code::IMPORT_ENTRY);
    }

    #[test]
    fn configurations_of_clients() {
        let servers = json!({"a": {"command": "x"}, "b": {"url": "https://example.com"}});
        for configuration in [json!({"mcpServers": servers}), json!({"servers": servers}), json!({"mcp": {"servers": servers}})] {
            assert_eq!(entries(&configuration).unwrap().iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["a", "b"]);
        }
        for other in [json!({}), json!([]), json!({"mcpServers": []}), json!(null)] {
            assert_eq!(entries(&other).unwrap_err().code(), code::IMPORT_ENTRY, "{other}");
        }
    }

    #[test]
    fn what_is_refused() {
        let key = format!("sk-{}", "A1b2C3d4".repeat(3));
        for (entry, expected) in [
            (json!([]), code::IMPORT_ENTRY),
            (json!({}), code::IMPORT_ENTRY),
            (json!({"command": "a", "url": "https://example.com"}), code::IMPORT_ENTRY),
            (json!({"command": ["a"]}), code::IMPORT_ENTRY),
            (json!({"command": "a", "args": "b"}), code::IMPORT_ENTRY),
            (json!({"command": "a", "env": {"A": {}}}), code::IMPORT_ENTRY),
            (json!({"command": "/usr/bin/node"}), code::IMPORT_COMMAND),
            (json!({"command": "../x"}), code::IMPORT_COMMAND),
            (json!({"command": "./../x"}), code::IMPORT_COMMAND),
            (json!({"command": ""}), code::IMPORT_COMMAND),
            (json!({"command": "a", "env": {"LD_PRELOAD": "x"}}), code::IMPORT_ENVIRONMENT),
            (json!({"command": "a", "env": {"NODE_OPTIONS": "x"}}), code::IMPORT_ENVIRONMENT),
            (json!({"command": "a", "env": {"PYTHONSTARTUP": "x"}}), code::IMPORT_ENVIRONMENT),
            (json!({"command": "a", "env": {"A=B": "x"}}), code::IMPORT_ENVIRONMENT),
            (json!({"command": "a", "args": [key]}), code::IMPORT_SECRET),
            (json!({"command": "a", "args": ["--api-key", "hunter2hunter2"]}), code::IMPORT_SECRET),
            (json!({"command": "a", "args": ["--token=hunter2hunter2"]}), code::IMPORT_SECRET),
            (json!({"command": "a", "args": ["postgres://user:secret@host/db"]}), code::IMPORT_SECRET),
            (json!({"url": "https://user:pw@example.com/mcp"}), code::IMPORT_SECRET),
            (json!({"url": "https://example.com/mcp?api_key=abc"}), code::IMPORT_SECRET),
            (json!({"url": "ftp://example.com"}), code::IMPORT_ENTRY),
            (json!({"command": "a", "env": {"A_B": "1", "A-B": "2"}}), code::IMPORT_ENVIRONMENT),
            (json!({"url": "https://example.com", "headers": {"A_B": "1", "A-B": "2"}}), code::IMPORT_COLLISION),
        ] {
            let error = from_entry("x", &entry).unwrap_err();
            assert_eq!(error.code(), expected, "{entry}: {error}");
            assert!(!error.to_string().contains("hunter2") && !error.to_string().contains(&key), "{error}");
        }
        for fine in [
            json!({"command": "a", "args": ["--no-auth", "--port", "8080"]}),
            json!({"command": "a", "args": ["--key-file", "/etc/key.pem"]}),
        ] {
            assert!(from_entry("x", &fine).is_ok(), "{fine}");
        }
        assert_eq!(from_entry("!!!", &json!({"command": "a"})).unwrap_err().code(), code::IMPORT_NAME);
    }
}
