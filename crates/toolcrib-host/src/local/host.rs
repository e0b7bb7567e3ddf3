//! The host: tools in folders, with the user's permissions.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::watch;
use toolcrib_core::clock::Clock;
use toolcrib_core::codes::{self, Code};
use toolcrib_core::local::RuntimeKind;
use toolcrib_fetch::{Configured, Untrusted};
use toolcrib_files::create_private_folder;
use toolcrib_process::{Bubblewrap, Containment, Launcher, ProgramSpec, SandboxMode};

use super::audit::{AuditLog, Event as AuditEvent, Record};
use super::content::ContentHash;
use super::folder::LoadedTool;
use super::permissions::Permissions;
use super::runtime::{RunError, Runtime, node_command};
use super::sandbox::{self, Folders};
use super::secrets::SecretStore;
use super::set::ToolSet;
use super::snapshot::Snapshots;

/// Default idle time of a Node handler or MCP server, because starting one takes 30 ms and more.
const WARM_KEEP_ALIVE: Duration = Duration::from_secs(300);

/// Settings of a host. Paths and variables are passed in, never read from the environment.
pub struct HostSettings {
    /// Folders that contain tool folders, or tool folders themselves.
    pub roots: Vec<PathBuf>,
    /// The state folder. Created if it does not exist; private.
    pub state: PathBuf,
    /// The home folder of the user, for paths that begin with `~`.
    pub home: Option<PathBuf>,
    /// The search path of programs.
    pub path: OsString,
    /// The language of programs.
    pub language: Option<OsString>,
    /// The Node to use instead of the one in `path`.
    pub node: Option<PathBuf>,
    /// The launcher, which terminates programs when this process ends. Without it they also run without a sandbox.
    pub launcher: Option<Launcher>,
    /// Whether programs are sandboxed. If not, every list and prompt says so.
    pub sandboxed: bool,
    /// Whether sandboxed programs also run in namespaces of bubblewrap, which is searched in `path`. If it is missing, they do not run.
    pub isolated: bool,
    /// The longest time limit of a call.
    pub limit: Duration,
    /// The user's permissions.
    pub permissions: Permissions,
    /// Credentials.
    pub secrets: SecretStore,
    /// The audit log.
    pub audit: AuditLog,
    /// The clock.
    pub clock: Arc<dyn Clock + Send + Sync>,
    /// The client for servers on this machine.
    pub http: Configured,
    /// The client for remote servers in manifests, under the egress policy.
    pub remote: Untrusted,
}

impl fmt::Debug for HostSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostSettings").field("roots", &self.roots).field("state", &self.state).finish_non_exhaustive()
    }
}

/// A host of local tools.
pub struct Host {
    pub(super) settings: HostSettings,
    pub(super) snapshots: Snapshots,
    tools: RwLock<Arc<ToolSet>>,
    changes: watch::Sender<u64>,
    runtimes: Mutex<HashMap<(String, ContentHash), Arc<dyn Runtime>>>,
    /// Allows one reload at a time, so that an older set never replaces a newer one.
    reloading: Mutex<()>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// The host cannot start.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {error}")]
pub struct HostError {
    /// What cannot be used.
    pub path: PathBuf,
    /// Why.
    pub error: io::Error,
}

impl HostError {
    /// The code of the vocabulary.
    pub const fn code(&self) -> Code {
        codes::host::STATE
    }
}

impl Host {
    /// Creates the state folders and loads the tools. Does not run code of tools.
    pub fn open(settings: HostSettings) -> Result<Self, HostError> {
        for name in ["", "tools", "data", "tmp", "results"] {
            private_folder(&settings.state.join(name))?;
        }
        let snapshots = Snapshots::new(settings.state.join("tools"));
        let host = Self {
            settings,
            snapshots,
            tools: RwLock::default(),
            changes: watch::Sender::new(0),
            runtimes: Mutex::default(),
            reloading: Mutex::default(),
        };
        host.reload();
        let tools = host.tools();
        host.snapshots.clean(|folder| tools.tools().values().any(|tool| tool.folder() == folder));
        Ok(host)
    }

    /// The current tools.
    pub fn tools(&self) -> Arc<ToolSet> {
        Arc::clone(&self.tools.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The clock.
    pub fn clock(&self) -> &(dyn Clock + Send + Sync) {
        &*self.settings.clock
    }

    /// The user's permissions.
    pub const fn permissions(&self) -> &Permissions {
        &self.settings.permissions
    }

    /// Credentials.
    pub const fn secrets(&self) -> &SecretStore {
        &self.settings.secrets
    }

    /// The audit log.
    pub const fn audit(&self) -> &AuditLog {
        &self.settings.audit
    }

    /// A counter that grows when the tools change, or something else that affects which of them models see, such as a credential.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Reports a change of the tools that is not in their folders.
    pub fn touch(&self) {
        self.changes.send_modify(|number| *number += 1);
    }

    /// Reads the folders again. Returns whether anything changed. Blocks: large folders are copied.
    pub fn reload(&self) -> bool {
        let _one = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.tools();
        let Some(next) = current.reload(&self.settings.roots, &self.snapshots) else { return false };
        for problem in next.problems() {
            tracing::warn!(folder = %problem.folder.display(), code = problem.error.code().id(), error = %problem.error, "tool not loaded");
        }
        self.record_changes(&current, &next);
        *self.tools.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        self.drop_runtimes();
        self.touch();
        true
    }

    /// Ends idle processes of all tools, and syncs the audit log.
    pub async fn shutdown(&self) {
        let runtimes: Vec<_> = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner).drain().collect();
        for (_, runtime) in runtimes {
            runtime.shutdown().await;
        }
        self.sync_audit();
    }

    /// Syncs the lines that were not synced yet: the ends of calls.
    pub(super) fn sync_audit(&self) {
        if let Err(error) = self.audit().sync() {
            tracing::error!(%error, "audit log not on the disk");
        }
    }

    /// The data folder of a tool.
    pub fn data_folder(&self, tool: &str) -> Result<PathBuf, HostError> {
        let folder = self.settings.state.join("data").join(tool);
        private_folder(&folder).map(|()| folder)
    }

    /// The runtime of a tool. It is reused while the content is the same.
    pub(super) fn runtime(&self, tool: &LoadedTool) -> Result<Arc<dyn Runtime>, RunError> {
        let key = (tool.id().to_owned(), tool.content());
        let mut runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = runtimes.get(&key) {
            return Ok(Arc::clone(runtime));
        }
        let runtime = self.make_runtime(tool)?;
        runtimes.insert(key, Arc::clone(&runtime));
        Ok(runtime)
    }

    /// How programs of a tool are contained: measured if one ran, otherwise as planned. `None` if no program runs on this machine.
    pub fn containment(&self, tool: &LoadedTool) -> Option<Containment> {
        self.planned_containment(tool).ok().flatten()
    }

    /// The planned containment, or why no program can be started.
    pub(super) fn planned_containment(&self, tool: &LoadedTool) -> Result<Option<Containment>, RunError> {
        let key = (tool.id().to_owned(), tool.content());
        let runtime = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner).get(&key).map(Arc::clone);
        if let Some(containment) = runtime.and_then(|runtime| runtime.containment()) {
            return Ok(Some(containment));
        }
        if cfg!(feature = "wasm") && matches!(tool.runtime(), RuntimeKind::Wasm { .. }) {
            return Ok(Some(Containment::web_assembly()));
        }
        let Some((spec, _)) = self.program(tool)? else { return Ok(None) };
        let planned = toolcrib_process::plan(&spec, self.settings.launcher.as_ref());
        planned.map(Some).map_err(|error| RunError::new(error.code(), error.to_string()))
    }

    /// The program that runs the functions of a tool, and its idle time. `None` for runtimes without a program.
    pub(super) fn program(&self, tool: &LoadedTool) -> Result<Option<(ProgramSpec, Duration)>, RunError> {
        let program = |command: &[String]| -> Result<(PathBuf, Vec<OsString>), RunError> {
            let name = command.first().map(String::as_str).unwrap_or_default();
            let path = match name.strip_prefix("./") {
                Some(file) => tool.folder().join(file),
                None => self.find(name)?,
            };
            Ok((path, command.iter().skip(1).map(OsString::from).collect()))
        };
        let ((program, arguments), keep_alive) = match tool.runtime() {
            RuntimeKind::Exec { command } => (program(command)?, Duration::ZERO),
            RuntimeKind::Node { entry } => {
                let node = match &self.settings.node {
                    Some(node) => node.clone(),
                    None => self.find("node")?,
                };
                let entry = entry.as_deref().unwrap_or_default();
                ((node, node_command(tool.folder(), entry, tool.manifest().sandbox().memory_mib())), WARM_KEEP_ALIVE)
            }
            RuntimeKind::McpStdio { command } => (program(command)?, WARM_KEEP_ALIVE),
            RuntimeKind::McpHttp { .. } | RuntimeKind::Http { .. } | RuntimeKind::Wasm { .. } => return Ok(None),
        };
        let (data, temporary) = self.private_folders(tool)?;
        let folders = self.folders(tool, &data, &temporary);
        let request = tool.manifest().sandbox();
        let mut spec = ProgramSpec::new(program);
        spec.arguments = arguments;
        spec.environment = sandbox::environment(&self.settings.path, self.settings.language.as_deref(), &folders);
        spec.folder = Some(tool.folder().to_owned());
        spec.limits = sandbox::limits(request);
        spec.sandbox = match &self.settings.launcher {
            Some(_) if self.settings.sandboxed => {
                let mut policy = sandbox::policy(request, &folders);
                policy.execute.extend(sandbox::installation(&spec.program));
                if self.settings.isolated {
                    policy.isolation = Some(self.bubblewrap()?);
                }
                SandboxMode::On(policy)
            }
            _ => SandboxMode::Off,
        };
        Ok(Some((spec, keep_alive)))
    }

    /// The folders for the sandbox of a tool.
    pub(super) fn folders<'a>(&'a self, tool: &'a LoadedTool, data: &'a Path, temporary: &'a Path) -> Folders<'a> {
        Folders { folder: tool.folder(), data, temporary, home: self.settings.home.as_deref(), state: &self.settings.state }
    }

    /// The data folder and the temporary folder of a tool.
    pub(super) fn private_folders(&self, tool: &LoadedTool) -> Result<(PathBuf, PathBuf), RunError> {
        let failed = |error: HostError| RunError::new(codes::host::STATE, error.to_string());
        let temporary = self.settings.state.join("tmp").join(tool.id());
        private_folder(&temporary).map_err(failed)?;
        Ok((self.data_folder(tool.id()).map_err(failed)?, temporary))
    }

    /// Bubblewrap, for programs that run in namespaces.
    fn bubblewrap(&self) -> Result<Bubblewrap, RunError> {
        let missing = "bubblewrap (bwrap) is not installed, and programs are to run isolated";
        Bubblewrap::find(std::env::split_paths(&self.settings.path))
            .ok_or_else(|| RunError::new(codes::sandbox::BUBBLEWRAP, missing))
    }

    /// Finds a program in the search path. One that every sandboxed program may execute is preferred: version managers put scripts into
    /// the home folder, which then would have to be granted.
    fn find(&self, name: &str) -> Result<PathBuf, RunError> {
        // This program need not be installed to run its own examples.
        if let Some(launcher) = self.settings.launcher.as_ref().filter(|_| name == "toolcrib") {
            return Ok(launcher.program().to_owned());
        }
        let folders = std::env::split_paths(&self.settings.path).filter(|folder| folder.is_absolute());
        let found: Vec<_> = folders.map(|folder| folder.join(name)).filter(|path| is_executable(path)).collect();
        let of_the_system = found.iter().find(|path| fs::canonicalize(path).is_ok_and(|path| sandbox::is_system(&path)));
        let program = of_the_system.or_else(|| found.first()).cloned();
        program.ok_or_else(|| unsupported(format!("the program {name:?} is not installed")))
    }

    /// Drops runtimes of contents that are not in use any more. Running calls keep theirs until they end.
    fn drop_runtimes(&self) {
        let tools = self.tools();
        let mut gone = Vec::new();
        self.runtimes.lock().unwrap_or_else(PoisonError::into_inner).retain(|(id, content), runtime| {
            let stays = tools.tools().get(id).is_some_and(|tool| tool.content() == *content);
            if !stays {
                gone.push(Arc::clone(runtime));
            }
            stays
        });
        if let Ok(handle) = tokio::runtime::Handle::try_current() {
            for runtime in gone {
                handle.spawn(async move { runtime.shutdown().await });
            }
        }
    }

    fn record_changes(&self, before: &ToolSet, after: &ToolSet) {
        let about = |event, tool: &LoadedTool| Record::new(event).tool(tool.id()).content(tool.content());
        let contained = |event, tool: &LoadedTool| about(event, tool).sandbox(&self.sandbox_summary(tool));
        let changed = after.tools().iter().filter_map(|(id, tool)| match before.tools().get(id) {
            None => Some(contained(AuditEvent::ToolLoaded, tool)),
            Some(old) if old.content() != tool.content() => {
                Some(contained(AuditEvent::ToolChanged, tool).detail(&format!("was {}", old.content())))
            }
            Some(_) => None,
        });
        let removed = before.tools().iter().filter(|(id, _)| !after.tools().contains_key(*id));
        let records: Vec<_> = changed.chain(removed.map(|(_, tool)| about(AuditEvent::ToolRemoved, tool))).collect();
        if records.is_empty() {
            return;
        }
        if let Err(error) = self.settings.audit.append(records) {
            tracing::error!(%error, "audit log not written");
        }
    }
}

pub(super) fn unsupported(message: String) -> RunError {
    RunError::new(codes::host::RUNTIME_UNSUPPORTED, message)
}

fn is_executable(path: &Path) -> bool {
    let Ok(data) = fs::metadata(path) else { return false };
    #[cfg(unix)]
    let may_run = std::os::unix::fs::PermissionsExt::mode(&data.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let may_run = true;
    data.is_file() && may_run
}

/// Creates a folder that only its owner can access.
fn private_folder(path: &Path) -> Result<(), HostError> {
    // The fast path of every call.
    if path.is_dir() {
        return Ok(());
    }
    create_private_folder(path).map_err(|error| HostError { path: path.to_owned(), error })
}
