//! `config`: every setting, its value and where it comes from.

use serde_json::{Value, json};
use toolcrib_chain::network::Source;

use crate::cli::word;
use crate::networks::Custom;
use crate::outcome::{Done, Exit, Stop};
use crate::printer::{Printer, shown};
use crate::settings::{Origin, Settings};

/// Runs the command.
pub(crate) fn run(settings: &Settings, printer: &mut Printer) -> Result<Done, Stop> {
    let Settings { color, format, deny_warnings, role, spend, directory, embedding, read_stores, networks, files } = settings;
    let mut rows: Vec<(String, Value, &Origin)> = vec![
        ("color".to_owned(), json!(word(&color.value)), &color.origin),
        ("format".to_owned(), json!(word(&format.value)), &format.origin),
        ("deny_warnings".to_owned(), json!(deny_warnings.value), &deny_warnings.origin),
        ("as".to_owned(), json!(word(&role.value)), &role.origin),
    ];
    if let Some(url) = &directory.value {
        rows.push(("directory".to_owned(), json!(url), &directory.origin));
    }
    if let Some(path) = &embedding.value {
        rows.push(("embedding".to_owned(), json!(path.display().to_string()), &embedding.origin));
    }
    if !read_stores.value.is_empty() {
        // Only host and database are shown.
        let stores: Vec<_> = read_stores.value.iter().map(ToString::to_string).collect();
        rows.push(("read_stores".to_owned(), json!(stores), &read_stores.origin));
    }
    // Amounts are always shown, lists only if they are not empty.
    if let Value::Object(limits) = json!(spend.value) {
        let is_said = |value: &Value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty());
        let limits = limits.into_iter().filter(|(_, value)| is_said(value));
        rows.extend(limits.map(|(name, value)| (format!("spend.{name}"), value, &spend.origin)));
    }
    let origins: Vec<_> = networks.iter().map(origin).collect();
    for (custom, origin) in networks.iter().zip(&origins) {
        rows.extend(
            network(custom).into_iter().map(|(key, value)| (format!("networks.{}.{key}", custom.network.name), value, origin)),
        );
    }
    for (name, value, origin) in &rows {
        printer.result(&format!("{:<26}  # {}\n", format!("{name} = {value}"), shown(&origin.to_string())))?;
    }
    for (path, present) in files {
        let state = if *present { "read" } else { "not found" };
        printer.detail(&format!("{}: {state}", shown(&path.display().to_string())))?;
    }
    let entries: Vec<_> = rows
        .iter()
        .map(|(name, value, origin)| json!({ "name": name, "value": value, "origin": origin.word(), "from": origin.detail() }))
        .collect();
    let files: Vec<_> =
        files.iter().map(|(path, present)| json!({ "path": path.display().to_string(), "present": present })).collect();
    Ok(Done::new(Exit::Yes, json!({ "settings": entries, "files": files })))
}

/// The settings file of a network.
fn origin(custom: &Custom) -> Origin {
    match custom.network.source {
        Source::User(path) => Origin::UserFile(path.into()),
        Source::Project(path) => Origin::ProjectFile(path.into()),
        _ => Origin::Default,
    }
}

/// The properties of a network of the settings, by their keys in the file. The part of a node URL that may be a key is omitted.
fn network(custom: &Custom) -> Vec<(String, Value)> {
    let Custom { network, tokens, .. } = custom;
    let mut rows = vec![("chain_id".to_owned(), json!(network.chain_id))];
    let nodes: Vec<_> = network.nodes.iter().map(ToString::to_string).collect();
    if !nodes.is_empty() {
        rows.push(("rpc_url".to_owned(), json!(nodes)));
    }
    rows.extend(network.registry.map(|address| ("registry".to_owned(), json!(address.to_checksum(None)))));
    rows.extend(network.registry_code.map(|hash| ("registry_code".to_owned(), json!(hash))));
    rows.push(("currency".to_owned(), json!(network.currency)));
    rows.push(("testnet".to_owned(), json!(network.is_test())));
    rows.extend(network.explorer.map(|url| ("explorer".to_owned(), json!(url))));
    rows.extend(network.predicates.iter().map(|(name, at)| (format!("predicates.{name}"), json!(at.to_checksum(None)))));
    rows.extend(tokens.iter().map(|token| {
        let mut entry = json!({
            "address": token.address.to_checksum(None), "name": token.name, "version": token.version, "decimals": token.decimals,
        });
        if !custom.is_users() {
            entry["unused"] = json!("tokens of a project's file are never signed for");
        }
        (format!("tokens.{}", token.symbol), entry)
    }));
    rows
}
