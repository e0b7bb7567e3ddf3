//! `local import`: installs MCP servers and tool folders of other hosts.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use toolcrib_core::codes;
use toolcrib_core::local::NetworkRequest;
use toolcrib_host::local::Host;
use toolcrib_host::local::import::{self, Bundle, CredentialValue, Grants, ImportError, McpServer, Transport, Trial};
use toolcrib_host::local::install::{AddOptions, Installed, MAX_ARCHIVE_BYTES, Source, ToolFile, holds_tool};
use toolcrib_host::local::secrets::Secret;

use super::install::{agreed, failed, installer};
use super::{HostArgs, installed};
use crate::outcome::{Done, Exit, Failure, Stop};
use crate::printer::{Printer, shown};

/// Largest configuration file. Some clients keep their history in the same file.
const MAX_CONFIGURATION_BYTES: u64 = 16 << 20;

/// Longest time limit for a server to start and list its tools, in seconds.
const MAX_SECONDS: u64 = 3_600;

/// Arguments of `local import`.
#[derive(Args, Debug)]
pub(crate) struct Import {
    /// MCP client configuration (JSON), MCP bundle, or folder
    ///
    /// A folder has `tools/` or `plugins/` of another host.
    #[arg(value_name = "FILE|DIR")]
    pub(crate) source: PathBuf,
    /// Import only this server [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) server: Option<String>,
    /// Tool id, for one server [default: from the server name]
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Setting of the bundle, not for secrets; repeatable
    #[arg(long = "setting", value_name = "NAME=VALUE")]
    pub(crate) settings: Vec<String>,
    /// TCP ports that servers may connect to, or `any` [default: none]
    #[arg(long, value_name = "PORTS")]
    pub(crate) network: Option<String>,
    /// File or folder that servers may read; repeatable
    #[arg(long, value_name = "PATH")]
    pub(crate) read: Vec<PathBuf>,
    /// File or folder that servers may write; repeatable
    #[arg(long, value_name = "PATH")]
    pub(crate) write: Vec<PathBuf>,
    /// Start and install servers without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// Show what would be started; start and install nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Seconds for a server to start and list its tools
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=MAX_SECONDS))]
    pub(crate) timeout: u64,
    /// Start servers without a sandbox
    #[arg(long)]
    pub(crate) no_sandbox: bool,
}

/// A server to import.
struct Candidate {
    server: McpServer,
    values: Vec<CredentialValue>,
    /// The files of a bundle.
    bundle: Option<Bundle>,
    source: Source,
}

/// The result of an import.
#[derive(Default)]
struct Outcome {
    imported: Vec<String>,
    planned: Vec<Value>,
    refused: Vec<Value>,
}

/// Imports the tools of another host.
pub(crate) async fn run(arguments: &Import, printer: &mut Printer) -> Result<Done, Stop> {
    let path = std::path::absolute(&arguments.source).map_err(|error| unreadable(&arguments.source, &error))?;
    let mut outcome = Outcome::default();
    let metadata = fs::metadata(&path).map_err(|error| unreadable(&path, &error))?;
    if metadata.is_dir() {
        folders(&path, arguments, &mut outcome, printer)?;
    } else {
        let candidates = if is_archive(&path)? { vec![bundle(&path, arguments)] } else { entries(&path, arguments)? };
        if arguments.id.is_some() && candidates.len() > 1 {
            return Err(Failure::new(codes::cli::USAGE, "--id is for one server").hint("choose it with --server").into());
        }
        let host = HostArgs { tools: vec![installed()?], no_sandbox: arguments.no_sandbox, ..HostArgs::default() }.open()?;
        for (name, candidate) in candidates {
            let result = match candidate {
                Ok(candidate) => import_server(candidate, arguments, &host, &mut outcome, printer).await,
                Err(failure) => Err(failure.into()),
            };
            match result {
                Ok(()) => {}
                Err(Stop::Failure(failure)) => outcome.refuse("server", &name, &failure, printer)?,
                Err(stop) => return Err(stop),
            }
        }
        host.shutdown().await;
    }
    let exit = if outcome.refused.is_empty() { Exit::Yes } else { Exit::No };
    let mut data = json!({ "imported": outcome.imported, "refused": outcome.refused });
    if arguments.dry_run {
        data["planned"] = outcome.planned.into();
    }
    Ok(Done::new(exit, data))
}

impl Outcome {
    fn refuse(&mut self, kind: &str, what: &str, failure: &Failure, printer: &mut Printer) -> Result<(), Stop> {
        printer.failure_as_text(failure)?;
        let mut row = json!({ "code": failure.code.id(), "message": failure.message, "hint": failure.what_next() });
        row[kind] = what.into();
        self.refused.push(row);
        Ok(())
    }
}

/// Imports tool folders, which run without changes.
fn folders(path: &Path, arguments: &Import, outcome: &mut Outcome, printer: &mut Printer) -> Result<(), Stop> {
    let folders = import::folders(path).map_err(|error| refusal(&error))?;
    let installer = installer()?;
    for folder in folders {
        let source = Source::Folder { path: folder.clone() };
        let added = match arguments.dry_run {
            true => import::examine(&folder).map_err(|error| refusal(&error)).map(|examined| {
                let id = examined.manifest.id().to_owned();
                outcome.planned.push(json!({ "id": id, "folder": folder }));
                format!("would import {id}\n")
            }),
            false => installer.add(&source, &AddOptions::default()).map_err(|error| failed(&error)).map(|installed| {
                outcome.imported.push(installed.id.clone());
                format!("imported {} {}\n", installed.id, installed.entry.content)
            }),
        };
        match added {
            Ok(line) => printer.result(&line)?,
            Err(failure) => outcome.refuse("folder", &folder.to_string_lossy(), &failure, printer)?,
        }
    }
    Ok(())
}

/// The server in a bundle.
fn bundle(path: &Path, arguments: &Import) -> (String, Result<Candidate, Failure>) {
    let read = || {
        let bytes = read_up_to(path, MAX_ARCHIVE_BYTES)?;
        if holds_tool(&bytes).map_err(|error| failed(&error))? {
            let hint = format!("run `toolcrib local add {}`", shown(&path.to_string_lossy()));
            return Err(Failure::new(codes::export::IMPORT_BUNDLE, "the bundle has a tool folder, not an MCP server").hint(hint));
        }
        let bundle = Bundle::read(&bytes, &settings(arguments)?).map_err(|error| refusal(&error))?;
        let source = Source::Server { path: path.to_owned(), name: None };
        candidate(bundle.server.clone(), Vec::new(), Some(bundle), source, arguments)
    };
    (path.to_string_lossy().into_owned(), read())
}

/// A name, and its server or the reason why there is none.
type Named = (String, Result<Candidate, Failure>);

/// The servers in a configuration file.
fn entries(path: &Path, arguments: &Import) -> Result<Vec<Named>, Failure> {
    if !arguments.settings.is_empty() {
        return Err(Failure::new(codes::cli::USAGE, "--setting is for bundles"));
    }
    let bytes = read_up_to(path, MAX_CONFIGURATION_BYTES)?;
    // The error contains line and column, but not the text.
    let configuration: Value = serde_json::from_slice(&bytes)
        .map_err(|error| Failure::new(codes::export::IMPORT_ENTRY, format!("the configuration is not JSON: {error}")))?;
    let entries = import::entries(&configuration).map_err(|error| refusal(&error))?;
    let chosen: Vec<_> =
        entries.iter().filter(|(name, _)| arguments.server.as_deref().is_none_or(|only| only == *name)).collect();
    if chosen.is_empty() {
        let names: Vec<_> = entries.iter().map(|(name, _)| shown(name)).collect();
        let failure = Failure::new(codes::export::IMPORT_ENTRY, "the configuration has no such server");
        return Err(failure.hint(if names.is_empty() {
            "the configuration has none".to_owned()
        } else {
            format!("it has: {}", names.join(", "))
        }));
    }
    let candidates = chosen.into_iter().map(|(name, entry)| {
        let candidate = import::from_entry(name, entry).map_err(|error| refusal(&error)).and_then(|(server, values)| {
            let source = Source::Server { path: path.to_owned(), name: Some((*name).to_owned()) };
            candidate(server, values, None, source, arguments)
        });
        ((*name).to_owned(), candidate)
    });
    Ok(candidates.collect())
}

/// A server with the options of the arguments.
fn candidate(
    server: McpServer,
    values: Vec<CredentialValue>,
    bundle: Option<Bundle>,
    source: Source,
    arguments: &Import,
) -> Result<Candidate, Failure> {
    let mut server = match &arguments.id {
        Some(id) => server.with_id(id).map_err(|error| refusal(&error))?,
        None => server,
    };
    server.grants = grants(arguments)?;
    Ok(Candidate { server, values, bundle, source })
}

/// Shows a server, asks for approval, lists its tools and installs them.
async fn import_server(
    mut candidate: Candidate,
    arguments: &Import,
    host: &Host,
    outcome: &mut Outcome,
    printer: &mut Printer,
) -> Result<(), Stop> {
    let Candidate { server, values, bundle, source } = &mut candidate;
    if let Some(bundle) = bundle {
        bundle.server = server.clone();
        values.append(&mut bundle.values);
    }
    let installer = installer()?;
    installer.check_free(&server.id).map_err(|error| failed(&error))?;
    let files = bundle.as_ref().map_or(&[][..], Bundle::files);
    let trial = host.prepare_import(server, files).map_err(|error| refusal(&error))?;
    let plan = plan(server, values, &trial, source);
    printer.result(&text(&plan))?;
    if arguments.dry_run {
        outcome.planned.push(plan);
        return Ok(());
    }
    printer.flush()?;
    agreed(arguments.yes, "start it once to list its tools, and install it?", "you refused to start the server")?;
    let limit = Duration::from_secs(arguments.timeout);
    let listed = host.list_server_tools(&trial, values, limit).await.map_err(|error| not_listed(&error, server))?;
    let (tool, files) = match bundle.take() {
        Some(bundle) => bundle.into_files(&listed).map_err(|error| refusal(&error))?,
        None => {
            let tool = import::from_mcp_tools(server, &listed).map_err(|error| refusal(&error))?;
            let bytes = tool.manifest.clone().into_bytes();
            (tool, vec![ToolFile { path: "manifest.json".to_owned(), bytes, executable: false }])
        }
    };
    for finding in &tool.findings {
        let about = finding.got.as_deref().unwrap_or_default();
        printer.note(&format!("{} {}: {}", finding.code, shown(about), shown(&finding.message)))?;
    }
    let added = installer.add_files(&files, source).map_err(|error| failed(&error))?;
    if let Err(failure) = store(host, &added, values) {
        // If credentials cannot be stored, the tool is not kept without them.
        let _ = host.secrets().unset_tool(&added.id);
        installer.remove(&added.id, true).map_err(|error| failed(&error))?;
        return Err(failure.into());
    }
    trial.keep();
    outcome.imported.push(added.id.clone());
    imported(host, &added, printer)
}

/// Stores the values of credentials, bound to the installed content.
fn store(host: &Host, added: &Installed, values: &[CredentialValue]) -> Result<(), Failure> {
    host.reload();
    let tools = host.tools();
    let Some(tool) = tools.tools().get(&added.id).filter(|tool| tool.content() == added.entry.content) else {
        let problem = tools.problems().iter().find(|problem| problem.folder == added.folder);
        let text =
            problem.map_or_else(|| "the tool was installed but is not loaded".to_owned(), |problem| problem.error.to_string());
        return Err(Failure::new(codes::host::MANIFEST_INVALID, text));
    };
    for CredentialValue { name, value } in values {
        let secret = Secret::new(value.as_str().to_owned());
        host.set_secret(tool, name, &secret, "cli").map_err(|error| Failure::new(error.code(), error.to_string()))?;
    }
    Ok(())
}

/// Prints what was installed, and the next steps.
fn imported(host: &Host, added: &Installed, printer: &mut Printer) -> Result<(), Stop> {
    let id = &added.id;
    printer.result(&format!("imported {id} {}\n", added.entry.content))?;
    if let Some(tool) = host.tools().tools().get(id) {
        let names: Vec<_> = tool.functions().keys().map(|name| shown(name)).collect();
        printer.result(&format!("  functions: {}\n", names.join(", ")))?;
        for name in host.missing_credentials(tool) {
            printer.note(&format!("hidden from models until you run `toolcrib secret set {id} {}`", shown(&name)))?;
        }
    }
    printer.note(&format!("you are asked before each call; `toolcrib permit set {id} allow` allows them"))?;
    Ok(())
}

/// Describes what will be started and stored, without values.
fn plan(server: &McpServer, values: &[CredentialValue], trial: &Trial, source: &Source) -> Value {
    let credentials = server.credentials.iter().map(|credential| {
        json!({
            "name": credential.name,
            "env": credential.env,
            "header": credential.header,
            "secret": credential.secret,
            "required": credential.required,
            "is_given": values.iter().any(|value| value.name == credential.name),
        })
    });
    let mut plan = json!({
        "id": server.id,
        "version": server.version,
        "source": source.display(),
        "access": trial.access(),
        "sandbox": trial.sandbox(),
        "credentials": credentials.collect::<Vec<_>>(),
    });
    match &server.transport {
        Transport::Command(command) => plan["command"] = json!(command),
        Transport::Url(url) => plan["url"] = json!(url),
        _ => {}
    }
    plan
}

fn text(plan: &Value) -> String {
    let member = |key: &str| shown(plan[key].as_str().unwrap_or_default());
    let runs = match plan["command"].as_array() {
        Some(command) => {
            let words: Vec<_> = command.iter().filter_map(Value::as_str).map(word).collect();
            format!("starts: {}", words.join(" "))
        }
        None => format!("calls: {}", member("url")),
    };
    let mut text = format!(
        "{} {}, an MCP server of {}\n  {runs}\n  access: {}\n  sandbox: {}\n",
        member("id"),
        member("version"),
        member("source"),
        member("access"),
        member("sandbox"),
    );
    for credential in plan["credentials"].as_array().into_iter().flatten() {
        let place = match (credential["env"].as_str(), credential["header"].as_str()) {
            (Some(variable), _) => format!("in the variable {}", shown(variable)),
            (_, Some(header)) => format!("in the header {}", shown(header)),
            _ => String::new(),
        };
        let state = match (credential["is_given"] == true, credential["required"] == true) {
            (true, _) => "its value will be stored encrypted",
            (false, true) => "not given, required",
            (false, false) => "not given",
        };
        text.push_str(&format!("  credential {} {place}: {state}\n", shown(credential["name"].as_str().unwrap_or_default())));
    }
    text
}

/// Quotes an argument as a shell would, so that its ends are visible.
fn word(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+%".contains(c);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        argument.to_owned()
    } else {
        format!("'{}'", shown(argument).replace('\'', "'\\''"))
    }
}

/// The sandbox grants.
fn grants(arguments: &Import) -> Result<Grants, Failure> {
    let paths = |paths: &[PathBuf]| -> Result<Vec<String>, Failure> {
        let absolute = paths.iter().map(|path| fs::canonicalize(path).map_err(|error| unreadable(path, &error)));
        absolute.map(|path| Ok(path?.to_string_lossy().into_owned())).collect()
    };
    let network = match arguments.network.as_deref() {
        None => NetworkRequest::None,
        Some("any") => NetworkRequest::Any,
        Some(list) => {
            let ports = list.split(',').map(|port| port.trim().parse::<u16>().ok().filter(|port| *port > 0)).collect();
            let wanted = || Failure::new(codes::cli::USAGE, "--network expects TCP ports, such as 53,443, or `any`");
            NetworkRequest::Ports(Option::ok_or_else(ports, wanted)?)
        }
    };
    Ok(Grants { read: paths(&arguments.read)?, write: paths(&arguments.write)?, network })
}

/// Settings by name. One that is given several times has several values.
fn settings(arguments: &Import) -> Result<BTreeMap<String, Vec<String>>, Failure> {
    let mut settings: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for setting in &arguments.settings {
        let Some((name, value)) = setting.split_once('=') else {
            return Err(Failure::new(codes::cli::USAGE, "--setting expects NAME=VALUE"));
        };
        settings.entry(name.to_owned()).or_default().push(value.to_owned());
    }
    Ok(settings)
}

/// Whether a file is an archive: by its name, or by its first bytes.
fn is_archive(path: &Path) -> Result<bool, Failure> {
    let has_name = path.extension().and_then(|ending| ending.to_str());
    if has_name.is_some_and(|ending| ["zip", "mcpb", "dxt"].iter().any(|known| known.eq_ignore_ascii_case(ending))) {
        return Ok(true);
    }
    let mut start = Vec::new();
    let file = fs::File::open(path).map_err(|error| unreadable(path, &error))?;
    file.take(4).read_to_end(&mut start).map_err(|error| unreadable(path, &error))?;
    Ok(start == b"PK\x03\x04")
}

fn read_up_to(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(|error| unreadable(path, &error))?;
    file.take(most + 1).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
    if bytes.len() as u64 > most {
        let message = format!("{} has more than {most} bytes", shown(&path.to_string_lossy()));
        return Err(Failure::new(codes::cli::USAGE, message));
    }
    Ok(bytes)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(codes::cli::USAGE, format!("{}: {error}", shown(&path.to_string_lossy())))
}

fn refusal(error: &ImportError) -> Failure {
    Failure::new(error.code(), error.to_string())
}

/// The error for a server that did not list its tools, with likely fixes.
fn not_listed(error: &ImportError, server: &McpServer) -> Failure {
    let failure = refusal(error);
    let ends = [codes::host::START_FAILED, codes::host::PROCESS_ENDED, codes::host::TIMEOUT];
    if matches!(server.transport, Transport::Command(_)) && ends.contains(&error.code()) {
        let hint = "the sandbox allows no network and only its own files: allow more with --network, --read and --write";
        return failure.hint(hint);
    }
    failure
}
