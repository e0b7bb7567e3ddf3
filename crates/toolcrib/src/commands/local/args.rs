//! Builds a host from arguments and environment.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use toolcrib_core::clock::Clock;
use toolcrib_fetch::SystemClock;
use toolcrib_fetch::{Configured, Untrusted};
use toolcrib_host::local::audit::{AuditLog, Options, SyncPolicy};
use toolcrib_host::local::permissions::{Permissions, Policy};
use toolcrib_host::local::secrets::{DataKey, EncryptedFile, FileKey, Secret, SecretStore, system_keychain};
use toolcrib_host::local::{Host, HostSettings};
use toolcrib_process::Launcher;

use super::{installed, state};
use crate::env;
use crate::outcome::Failure;
use crate::secrets;

/// The first argument that makes this program the launcher of a sandboxed program.
pub(crate) const LAUNCHER: &str = "sandbox-launch";

/// The longest time of a call: what the largest `timeoutMs` of a manifest allows.
const LIMIT: Duration = Duration::from_millis(toolcrib_core::local::MAX_TIMEOUT_MS);

/// Which tools, and under which rules.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct HostArgs {
    /// Folder of tools, or a tool folder; repeatable [env: `TOOLCRIB_TOOLS`]
    ///
    /// Default: installed tools.
    #[arg(long = "tools", value_name = "DIR")]
    pub(crate) tools: Vec<PathBuf>,
    /// Policy file (TOML) with permissions for unattended use
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Node.js binary for JavaScript and TypeScript [default: `node` in PATH]
    #[arg(long, value_name = "FILE")]
    pub(crate) node: Option<PathBuf>,
    /// Run tools without a sandbox
    #[arg(long)]
    pub(crate) no_sandbox: bool,
    /// Also isolate tools in namespaces with bubblewrap (`bwrap` in PATH)
    #[arg(long, conflicts_with = "no_sandbox")]
    pub(crate) isolate: bool,
    /// Write call arguments to the audit log, without secrets
    #[arg(long)]
    pub(crate) log_arguments: bool,
    /// Flush the audit log to disk before returning each result
    #[arg(long)]
    pub(crate) sync_log: bool,
}

impl HostArgs {
    /// The folders with tools.
    pub(crate) fn roots(&self) -> Result<Vec<PathBuf>, Failure> {
        if !self.tools.is_empty() {
            return Ok(self.tools.clone());
        }
        match std::env::var_os(env::TOOLCRIB_TOOLS).filter(|value| !value.is_empty()) {
            Some(value) => Ok(std::env::split_paths(&value).collect()),
            None => Ok(vec![installed()?]),
        }
    }

    /// Opens the host and loads its tools. Does not run code of tools.
    pub(crate) fn open(&self) -> Result<Arc<Host>, Failure> {
        let clock: Arc<dyn Clock + Send + Sync> = Arc::new(SystemClock);
        let state = state()?;
        let unusable = |error: toolcrib_fetch::Error| Failure::new(error.code(), error.to_string());
        let http = Configured::builder(SystemClock).build().map_err(unusable)?;
        let remote = Untrusted::builder(SystemClock).build().map_err(unusable)?;
        let settings = HostSettings {
            roots: self.roots()?,
            home: std::env::var_os(env::HOME).map(PathBuf::from),
            path: std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin")),
            language: std::env::var_os("LANG"),
            node: self.node.clone(),
            launcher: launcher(),
            // If the kernel cannot restrict programs, programs are refused unless the user allows them.
            sandboxed: cfg!(target_os = "linux") && !self.no_sandbox,
            isolated: self.isolate,
            limit: LIMIT,
            permissions: self.permissions(&clock)?,
            secrets: secret_store()?,
            audit: audit_log(&clock, self.audit_options())?,
            clock,
            http,
            remote,
            state,
        };
        let host = Host::open(settings).map_err(|error| Failure::new(error.code(), error.to_string()))?;
        Ok(Arc::new(host))
    }

    fn audit_options(&self) -> Options {
        let mut options = Options::default();
        options.record_arguments = self.log_arguments;
        if self.sync_log { options.with_sync(SyncPolicy::BeforeResult) } else { options }
    }

    pub(crate) fn permissions(&self, clock: &Arc<dyn Clock + Send + Sync>) -> Result<Permissions, Failure> {
        let permissions = Permissions::new(state()?, Arc::clone(clock));
        let Some(path) = &self.policy else { return Ok(permissions) };
        let policy = Policy::read(path).map_err(|error| Failure::new(error.code(), error.to_string()))?;
        Ok(permissions.with_policy(policy))
    }
}

/// This program launches programs of tools: it restricts them where the system can, and terminates them when it exits.
fn launcher() -> Option<Launcher> {
    let program = std::env::current_exe().ok().filter(|_| cfg!(target_os = "linux"))?;
    Some(Launcher::new(program, [LAUNCHER]))
}

/// Credential sources: variables, systemd's folder, and the encrypted file.
pub(crate) fn secret_store() -> Result<SecretStore, Failure> {
    let key = secret_key()?;
    let provider: Box<dyn DataKey> = match passphrase() {
        Some(passphrase) => Box::new(key.with_passphrase(passphrase)),
        None => Box::new(key),
    };
    let mut store = SecretStore::new(EncryptedFile::new(state()?, provider)).with_environment(variables());
    if let Some(folder) = std::env::var_os("CREDENTIALS_DIRECTORY").filter(|folder| !folder.is_empty()) {
        store = store.with_credentials_directory(folder);
    }
    Ok(store)
}

/// The key of the encrypted file.
pub(crate) fn secret_key() -> Result<FileKey, Failure> {
    Ok(FileKey::new(state()?).with_keychain(system_keychain()))
}

/// The passphrase of the key file, if one was given.
pub(crate) fn passphrase() -> Option<Secret> {
    secrets::var(env::TOOLCRIB_PASSPHRASE).map(Secret::new)
}

/// Variables that hold credentials of tools.
fn variables() -> BTreeMap<String, String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let names = names.chain(secrets::taken_names()).filter(|name| name.starts_with(env::TOOLCRIB_SECRET));
    names.filter_map(|name| Some((name.clone(), secrets::var(&name)?))).collect()
}

/// The audit log.
pub(crate) fn audit_log(clock: &Arc<dyn Clock + Send + Sync>, options: Options) -> Result<AuditLog, Failure> {
    Ok(AuditLog::new(state()?, Arc::clone(clock), options))
}
