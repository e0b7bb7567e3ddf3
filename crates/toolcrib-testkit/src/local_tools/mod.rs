//! A host for tool folders that a test or a benchmark creates.

pub mod hostile_schemas;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use toolcrib_core::clock::{Clock, FixedClock, UnixTime};
use toolcrib_fetch::{Configured, Untrusted};
use toolcrib_host::local::audit::{AuditLog, Options};
use toolcrib_host::local::permissions::{Permissions, Policy};
use toolcrib_host::local::secrets::{EncryptedFile, FileKey, SecretStore};
use toolcrib_host::local::{CallRequest, Events, Host, HostSettings};

/// The time of all clocks.
const NOW: FixedClock = FixedClock(UnixTime::from_seconds(1_800_000_000));

/// Returns settings of a host that runs programs without a sandbox and allows no tool.
pub fn closed(roots: Vec<PathBuf>, state: &Path, clock: Arc<dyn Clock + Send + Sync>, audit: Options) -> HostSettings {
    HostSettings {
        roots,
        state: state.to_owned(),
        home: None,
        path: std::env::var_os("PATH").unwrap_or_default(),
        language: None,
        node: None,
        launcher: None,
        sandboxed: false,
        isolated: false,
        limit: Duration::from_secs(60),
        permissions: Permissions::new(state, Arc::clone(&clock)),
        secrets: SecretStore::new(EncryptedFile::new(state, Box::new(FileKey::new(state)))),
        audit: AuditLog::new(state, Arc::clone(&clock), audit),
        clock,
        http: Configured::builder(NOW).build().expect("a client"),
        remote: Untrusted::builder(NOW).build().expect("a client"),
    }
}

/// Returns settings of a host that runs programs without a sandbox, and allows calls of these tools.
pub fn settings(roots: Vec<PathBuf>, state: &Path, allowed: &[&str], audit: Options) -> HostSettings {
    let rules = allowed.iter().map(|tool| format!("[[rule]]\ntool = \"{tool}\"\ndecision = \"allow\"\ncontent = \"any\"\n"));
    let policy: Policy = format!("version = 1\n{}", rules.collect::<String>()).parse().expect("rules");
    let closed = closed(roots, state, Arc::new(NOW), audit);
    HostSettings { permissions: closed.permissions.with_policy(policy), ..closed }
}

/// Writes a tool folder with one function `run`.
pub fn write_tool(root: &Path, id: &str, runtime: &Json, parameters: &Json, files: &[(&str, &str)]) {
    let manifest = json!({
        "id": id, "name": "Test", "description": "For tests.", "version": "1.0.0", "runtime": runtime,
        "functions": [{"name": "run", "description": "Runs.", "parameters": parameters}],
    });
    let folder = root.join(id);
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("manifest.json"), manifest.to_string()).expect("a file");
    for (name, text) in files {
        fs::write(folder.join(name), text).expect("a file");
    }
}

/// Returns a call of the function `run`, by a caller that cannot be prompted.
pub fn request(tool: &str, arguments: Json) -> CallRequest<'_> {
    CallRequest {
        tool,
        function: "run",
        arguments,
        caller: "mcp",
        interactive: false,
        approval: None,
        limit: None,
        events: Events::default(),
    }
}

/// Opens a host.
pub fn open(settings: HostSettings) -> Arc<Host> {
    Arc::new(Host::open(settings).expect("a host"))
}
