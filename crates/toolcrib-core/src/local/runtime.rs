//! How a tool runs: the optional blocks `runtime` and `sandbox`.
//!
//! Both extend the format for this host. Other hosts ignore them, and a folder without them still runs: the host infers the runtime from
//! the files. The blocks are requests: the host decides what a tool gets, and never grants more than was requested.

use super::hint_unknown;
use super::server::{check_reach, check_url};
use crate::checked::Context;
use crate::codes::{self, Code};
use crate::finding::Finding;
use crate::json::{Array, Object, Value};

/// Longest time limit that a function may request, in milliseconds. Clients time out long before.
pub const MAX_TIMEOUT_MS: u64 = 600_000;

/// Longest lifetime of an idle process, in seconds.
pub(crate) const MAX_KEEP_ALIVE: u64 = 86_400;

/// Most concurrent calls of one tool. Each may be a process.
pub(crate) const MAX_CONCURRENT: u64 = 64;

/// Most memory that a tool may request, in MiB.
pub(crate) const MAX_MEMORY_MIB: u64 = 65_536;

/// Most processes and threads that a tool may request.
pub(crate) const MAX_PROCESSES: u64 = 4_096;

/// Largest file that a tool may request to write, in MiB.
pub(crate) const MAX_FILE_MIB: u64 = 65_536;

/// Most words of a command, paths of a list, and ports. The user reads each of them before granting it.
const MAX_ITEMS: usize = 64;

/// Longest path, command word or URL, in bytes: the limit of the operating system.
pub(super) const MAX_TEXT: usize = 4_096;

/// The names of the blocks.
pub(super) const FIELDS: &[&str] = &["runtime", "sandbox"];

const RUNTIME_FIELDS: &[&str] = &["kind", "command", "entry", "url", "keepAlive", "maxConcurrent", "timeoutMs"];
const SANDBOX_FIELDS: &[&str] = &["read", "write", "network", "memoryMiB", "maxProcesses", "maxFileMiB"];

/// How the functions of a tool run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeKind {
    /// A program that reads and writes JSON lines.
    Exec {
        /// The program and its arguments.
        command: Vec<String>,
    },
    /// A JavaScript or TypeScript module with handlers.
    Node {
        /// The module, relative to the folder. Inferred from the files if absent.
        entry: Option<String>,
    },
    /// An MCP server that is started for the tool.
    McpStdio {
        /// The program and its arguments.
        command: Vec<String>,
    },
    /// An MCP server that is called by streamable HTTP.
    McpHttp {
        /// Its URL.
        url: String,
    },
    /// A server on this machine that accepts calls by POST.
    Http {
        /// Its URL.
        url: String,
    },
    /// A WebAssembly component.
    Wasm {
        /// The component, relative to the folder.
        entry: String,
    },
}

/// The block `runtime`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    kind: RuntimeKind,
    keep_alive: Option<u64>,
    max_concurrent: Option<u64>,
    timeout_ms: Option<u64>,
}

impl Runtime {
    /// How the functions run.
    pub const fn kind(&self) -> &RuntimeKind {
        &self.kind
    }

    /// Seconds that an idle process is kept for the next call. Zero starts one process for each call.
    pub const fn keep_alive(&self) -> Option<u64> {
        self.keep_alive
    }

    /// Most concurrent calls.
    pub const fn max_concurrent(&self) -> Option<u64> {
        self.max_concurrent
    }

    /// The time limit of a call in milliseconds.
    pub const fn timeout_ms(&self) -> Option<u64> {
        self.timeout_ms
    }
}

/// The block `sandbox`: what the tool needs beyond its own folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxRequest {
    read: Vec<String>,
    write: Vec<String>,
    network: NetworkRequest,
    memory_mib: Option<u64>,
    max_processes: Option<u64>,
    max_file_mib: Option<u64>,
}

impl SandboxRequest {
    /// Paths that the tool reads, as written: `/absolute`, `~/in the home folder`, `$folder`, `$data` or `$tmp` with an optional rest.
    pub fn read(&self) -> &[String] {
        &self.read
    }

    /// Paths that the tool writes, as written.
    pub fn write(&self) -> &[String] {
        &self.write
    }

    /// The connections that the tool makes.
    pub const fn network(&self) -> &NetworkRequest {
        &self.network
    }

    /// Memory in MiB.
    pub const fn memory_mib(&self) -> Option<u64> {
        self.memory_mib
    }

    /// Processes and threads.
    pub const fn max_processes(&self) -> Option<u64> {
        self.max_processes
    }

    /// The largest file that the tool writes, in MiB.
    pub const fn max_file_mib(&self) -> Option<u64> {
        self.max_file_mib
    }
}

/// The connections that a tool makes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NetworkRequest {
    /// No connections.
    #[default]
    None,
    /// TCP to these ports, of any host.
    Ports(Vec<u16>),
    /// Any connections.
    Any,
}

/// Checks both blocks. `None` if one of them is invalid; the reason is then reported.
pub(super) fn check(root: Object<'_>, context: &mut Context) -> Option<(Option<Runtime>, SandboxRequest)> {
    let runtime = root.get("runtime").map(|value| check_runtime(value, context));
    let sandbox = root.get("sandbox").map_or_else(|| Some(SandboxRequest::default()), |value| check_sandbox(value, context));
    let runtime = match runtime {
        Some(runtime) => Some(runtime?),
        None => None,
    };
    let sandbox = sandbox?;
    if let Some(runtime) = &runtime {
        check_reach(root, runtime.kind(), &sandbox, context);
    }
    Some((runtime, sandbox))
}

/// Parses an integer from 0 or 1 to a limit.
pub(super) fn number(value: Value<'_>, least: u64, most: u64, context: &mut Context) -> Option<u64> {
    let number = value.as_u64().filter(|number| (least..=most).contains(number));
    if number.is_none() {
        let wanted = format!("a whole number from {least} to {most}");
        context.report(Finding::new(codes::local::NUMBER_RANGE).at(value).expected(wanted).got(value.source()));
    }
    number
}

fn check_runtime(value: Value<'_>, context: &mut Context) -> Option<Runtime> {
    let object = context.object(value)?;
    let kind = check_kind(object, context);
    let optional = |key, least, most, context: &mut Context| object.get(key).map(|value| number(value, least, most, context));
    let keep_alive = optional("keepAlive", 0, MAX_KEEP_ALIVE, context);
    let max_concurrent = optional("maxConcurrent", 1, MAX_CONCURRENT, context);
    let timeout_ms = optional("timeoutMs", 1, MAX_TIMEOUT_MS, context);
    hint_unknown(object, RUNTIME_FIELDS.iter().copied(), &[("type", "kind"), ("cmd", "command"), ("main", "entry")], context);
    Some(Runtime {
        kind: kind?,
        keep_alive: present(keep_alive)?,
        max_concurrent: present(max_concurrent)?,
        timeout_ms: present(timeout_ms)?,
    })
}

/// A missing value is valid, a rejected one is not.
fn present<T>(value: Option<Option<T>>) -> Option<Option<T>> {
    match value {
        Some(checked) => checked.map(Some),
        None => Some(None),
    }
}

fn check_kind(object: Object<'_>, context: &mut Context) -> Option<RuntimeKind> {
    let value = context.required(object, "kind", object.get("kind"))?;
    let name = context.string(value)?;
    match name {
        "exec" => Some(RuntimeKind::Exec { command: check_command(object, context)? }),
        "node" => Some(RuntimeKind::Node { entry: present(object.get("entry").map(|value| check_entry(value, context)))? }),
        "mcp" if object.get("url").is_some() && object.get("command").is_some() => {
            context.report(
                Finding::new(codes::local::RUNTIME_KIND).at(value).message("an MCP server has `command` or `url`, not both"),
            );
            None
        }
        "mcp" if object.get("url").is_some() => Some(RuntimeKind::McpHttp { url: check_url(object, context)? }),
        "mcp" => Some(RuntimeKind::McpStdio { command: check_command(object, context)? }),
        "http" => Some(RuntimeKind::Http { url: check_url(object, context)? }),
        "wasm" => {
            let entry = context.required(object, "entry", object.get("entry"))?;
            Some(RuntimeKind::Wasm { entry: check_entry(entry, context)? })
        }
        _ => {
            context.report(
                Finding::new(codes::local::RUNTIME_KIND)
                    .at(value)
                    .expected("one of `exec`, `node`, `mcp`, `http` and `wasm`")
                    .got(name),
            );
            None
        }
    }
}

fn check_command(object: Object<'_>, context: &mut Context) -> Option<Vec<String>> {
    let value = context.required(object, "command", object.get("command"))?;
    let words = texts(context.array(value)?, value, codes::local::RUNTIME_COMMAND, context)?;
    let Some(program) = words.first() else {
        context.report(Finding::new(codes::local::RUNTIME_COMMAND).at(value).expected("a program and its arguments").got("[]"));
        return None;
    };
    let inside = program.strip_prefix("./").is_some_and(is_relative);
    let in_path = !program.contains('/') && !program.is_empty() && !program.starts_with('-');
    if !inside && !in_path {
        context.report(
            Finding::new(codes::local::RUNTIME_COMMAND)
                .at(value)
                .expected("`./file` in the folder of the tool, or the name of a program in PATH")
                .got(program),
        );
        return None;
    }
    Some(words)
}

fn check_entry(value: Value<'_>, context: &mut Context) -> Option<String> {
    let text = context.string(value)?;
    let path = text.strip_prefix("./").unwrap_or(text);
    if is_relative(path) {
        return Some(path.to_owned());
    }
    context.report(
        Finding::new(codes::local::RUNTIME_ENTRY).at(value).expected("a file in the folder of the tool, without `..`").got(text),
    );
    None
}

fn check_sandbox(value: Value<'_>, context: &mut Context) -> Option<SandboxRequest> {
    let object = context.object(value)?;
    let read = check_paths(object, "read", context);
    let write = check_paths(object, "write", context);
    let network = object.get("network").map_or(Some(NetworkRequest::None), |value| check_network(value, context));
    let optional = |key, most, context: &mut Context| object.get(key).map(|value| number(value, 1, most, context));
    let memory_mib = optional("memoryMiB", MAX_MEMORY_MIB, context);
    let max_processes = optional("maxProcesses", MAX_PROCESSES, context);
    let max_file_mib = optional("maxFileMiB", MAX_FILE_MIB, context);
    hint_unknown(object, SANDBOX_FIELDS.iter().copied(), &[("net", "network"), ("memory", "memoryMiB")], context);
    Some(SandboxRequest {
        read: read?,
        write: write?,
        network: network?,
        memory_mib: present(memory_mib)?,
        max_processes: present(max_processes)?,
        max_file_mib: present(max_file_mib)?,
    })
}

fn check_paths(object: Object<'_>, key: &str, context: &mut Context) -> Option<Vec<String>> {
    let Some(value) = object.get(key) else { return Some(Vec::new()) };
    let list = context.array(value)?;
    let paths = texts(list, value, codes::local::SANDBOX_PATH, context)?;
    let mut is_good = true;
    for (value, path) in list.iter().zip(&paths).filter(|(_, path)| !is_sandbox_path(path)) {
        context.report(
            Finding::new(codes::local::SANDBOX_PATH)
                .at(value)
                .expected("`/…`, `~/…`, `$folder`, `$data` or `$tmp`, without `..`")
                .got(path),
        );
        is_good = false;
    }
    is_good.then_some(paths)
}

fn check_network(value: Value<'_>, context: &mut Context) -> Option<NetworkRequest> {
    let ports = |list: Array<'_>| -> Option<Vec<u16>> {
        let ports = list.iter().map(|port| u16::try_from(port.as_u64()?).ok().filter(|port| *port > 0));
        if list.len() > MAX_ITEMS { None } else { ports.collect() }
    };
    let network = match (value.as_str(), value.as_array()) {
        (Some("none"), _) => Some(NetworkRequest::None),
        (Some("any"), _) => Some(NetworkRequest::Any),
        (_, Some(list)) => ports(list).map(NetworkRequest::Ports),
        _ => None,
    };
    if network.is_none() {
        let wanted = "`none`, `any`, or a list of TCP ports";
        context.report(Finding::new(codes::local::SANDBOX_NETWORK).at(value).expected(wanted).got(value.source()));
    }
    network
}

/// The strings of a list, each of a size that the operating system accepts.
fn texts(list: Array<'_>, value: Value<'_>, code: Code, context: &mut Context) -> Option<Vec<String>> {
    if list.len() > MAX_ITEMS {
        context.report(Finding::new(code).at(value).expected(format!("at most {MAX_ITEMS}")).got(list.len().to_string()));
        return None;
    }
    let mut read = Vec::new();
    for item in list.iter() {
        let text = context.string(item)?;
        if text.len() > MAX_TEXT || text.contains('\0') {
            context.report(Finding::new(code).at(item).expected(format!("at most {MAX_TEXT} bytes, without NUL bytes")));
            return None;
        }
        read.push(text.to_owned());
    }
    Some(read)
}

/// Whether a path stays below the folder it is relative to, on every operating system.
fn is_relative(path: &str) -> bool {
    !path.is_empty()
        && path.len() <= MAX_TEXT
        && !path.contains(['\\', '\0', ':'])
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

fn is_sandbox_path(path: &str) -> bool {
    let below = |start: &str| path.strip_prefix(start);
    let is_place =
        ["$folder", "$data", "$tmp"].into_iter().filter_map(below).any(|rest| rest.is_empty() || rest.starts_with('/'));
    (is_place || path.starts_with('/') || path.starts_with("~/")) && !path.split('/').any(|part| part == "..")
}
