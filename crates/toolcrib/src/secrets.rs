//! Protects secrets from other programs.
//!
//! The initial environment of a process stays readable in `/proc/PID/environ` as long as it lives, also for programs that it starts, and
//! changing variables does not change that file. Therefore a process that finds secrets in its environment executes itself again with the
//! same process id and without them, and passes them on in a memory file. The process is not dumpable: other processes of the same user
//! cannot read its memory, and a crash does not write it to disk. Inherited descriptors are not passed on to child processes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::OnceLock;

use crate::env;

/// Prefixes of variables that are secrets, or URLs that often contain one.
const SECRET: [&str; 18] = [
    env::TOOLCRIB_PRIVATE_KEY,
    env::TOOLCRIB_PASSWORD,
    env::TOOLCRIB_WEBHOOK,
    env::TOOLCRIB_UPSTREAM,
    env::TOOLCRIB_USAGE_KEY,
    env::TOOLCRIB_SIGN_IN_KEY,
    env::TOOLCRIB_STORE,
    env::TOOLCRIB_INDEX,
    env::TOOLCRIB_READ_STORES,
    env::TOOLCRIB_PURGE_URL,
    env::TOOLCRIB_API_KEY,
    env::TOOLCRIB_BAZAAR,
    env::TOOLCRIB_COLLECTIONS_KEY,
    env::TOOLCRIB_PIN_TOKEN,
    env::TOOLCRIB_TSIG_KEY,
    env::TOOLCRIB_MCP_TOKEN,
    env::TOOLCRIB_PASSPHRASE,
    env::RPC_URL,
];

/// Variables with credentials of an object store.
const OBJECT_SECRET: [&str; 3] = [env::AWS_ACCESS_KEY_ID, env::AWS_SECRET_ACCESS_KEY, env::AWS_SESSION_TOKEN];

/// The variable with the descriptor of the memory file, set for the process after exec.
const FILE: &str = "TOOLCRIB_SECRETS_FD";

/// Most bytes that are read from the file. Linux limits arguments and variables of a process to 6 MiB; a byte takes up to six in JSON.
const MAX_BYTES: u64 = 6 * 6 * 1_024 * 1_024;

static TAKEN: OnceLock<BTreeMap<String, String>> = OnceLock::new();

/// The value of a variable: from the environment, or from where [`protect`] moved it. Empty ones count as absent.
pub(crate) fn var(name: &str) -> Option<String> {
    let taken = TAKEN.get().and_then(|taken| taken.get(name).cloned());
    taken.or_else(|| std::env::var(name).ok()).filter(|value| !value.is_empty())
}

/// The names of the variables that [`protect`] removed from the environment.
pub(crate) fn taken_names() -> impl Iterator<Item = String> {
    TAKEN.get().into_iter().flat_map(|taken| taken.keys().cloned())
}

/// Removes secrets from the environment of this process. Called before a second thread starts. If the system refuses a step, the rest is
/// done all the same, with a warning if secrets stay in the environment. In a container without `/proc`, the environment cannot be read
/// there either.
pub(crate) fn protect(arguments: &[OsString]) {
    #[cfg(target_os = "linux")]
    linux::protect(arguments);
    #[cfg(not(target_os = "linux"))]
    let _ = arguments;
}

/// Whether a variable is a secret: one of Toolcrib's, the RPC URL of one chain, or one that an argument names.
fn is_secret(name: &str, arguments: &[OsString]) -> bool {
    SECRET.contains(&name)
        || (OBJECT_SECRET.contains(&name) && uses_objects(arguments))
        || name.starts_with(env::TOOLCRIB_SECRET)
        || name.strip_prefix(env::RPC_URL).is_some_and(|rest| rest.starts_with('_'))
        || is_named(name, arguments)
}

/// Whether this process opens an object store. Otherwise its child processes may need the S3 credentials.
fn uses_objects(arguments: &[OsString]) -> bool {
    const OPTION: &str = "--objects";
    let is_said = |argument: &OsString| argument.to_str().is_some_and(|text| text == OPTION || text.starts_with("--objects="));
    arguments.iter().any(is_said) || std::env::var_os(env::TOOLCRIB_OBJECTS).is_some()
}

/// Whether an option of the form `HEADER=NAME` names the variable.
fn is_named(name: &str, arguments: &[OsString]) -> bool {
    const OPTIONS: [&str; 2] = ["--facilitator-auth-env", "--header-env"];
    let names = |text: &str| text.split_once('=').is_some_and(|(_, variable)| variable == name);
    let texts: Vec<_> = arguments.iter().filter_map(|argument| argument.to_str()).collect();
    OPTIONS.into_iter().any(|option| {
        texts.iter().any(|text| text.strip_prefix(option).and_then(|rest| rest.strip_prefix('=')).is_some_and(names))
            || texts.windows(2).any(|pair| pair[0] == option && names(pair[1]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_name() {
        let arguments: Vec<OsString> = [
            "toolcrib",
            "serve",
            "--facilitator-auth-env",
            "Authorization=PAY_TOKEN",
            "--facilitator-auth-env=X-Key=OTHER_TOKEN",
        ]
        .map(OsString::from)
        .to_vec();
        for name in ["TOOLCRIB_PRIVATE_KEY", "TOOLCRIB_STORE", "RPC_URL", "RPC_URL_8453", "PAY_TOKEN", "OTHER_TOKEN"] {
            assert!(is_secret(name, &arguments), "{name}");
        }
        for name in ["PATH", "HOME", "TOOLCRIB_COLOR", "RPC_URLS", "Authorization", "X-Key"] {
            assert!(!is_secret(name, &arguments), "{name}");
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::io::{self, Read as _, Write as _};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use rustix::fs::{MemfdFlags, memfd_create};
    use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
    use zeroize::Zeroize as _;

    use super::{BTreeMap, FILE, MAX_BYTES, OsString, TAKEN, is_secret};

    /// The name of the memory file.
    const NAME: &str = "toolcrib-secrets";

    pub(super) fn protect(arguments: &[OsString]) {
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
        // Inherited descriptors are for this process only.
        close_fds::set_fds_cloexec(3, &[]);
        if let Some(taken) = receive() {
            let _ = TAKEN.set(taken);
            return;
        }
        let secrets: BTreeMap<String, String> =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect();
        let secrets: BTreeMap<_, _> =
            secrets.into_iter().filter(|(name, value)| is_secret(name, arguments) && !value.is_empty()).collect();
        if !secrets.is_empty() {
            let reason = start_again(arguments, &secrets);
            let names: Vec<_> = secrets.keys().map(String::as_str).collect();
            // There is no printer yet, and stderr may be closed.
            let _ = writeln!(
                io::stderr(),
                "warning: secrets stay in the environment of this process, where programs that it starts can read them: {} ({reason})",
                names.join(", ")
            );
        }
    }

    /// Reads the secrets that this process stored in the file before exec. Then truncates the file, because the descriptor stays open.
    fn receive() -> Option<BTreeMap<String, String>> {
        let number: u32 = std::env::var(FILE).ok()?.parse().ok()?;
        // The variable may be stale or forged, so a file with another name is not used.
        let path = format!("/proc/self/fd/{number}");
        std::fs::read_link(&path).ok().filter(|link| link.to_string_lossy().starts_with(&format!("/memfd:{NAME}")))?;
        let file = File::options().read(true).write(true).open(path).ok()?;
        let mut bytes = Vec::new();
        let is_read = (&file).take(MAX_BYTES).read_to_end(&mut bytes).is_ok() && file.set_len(0).is_ok();
        let taken = serde_json::from_slice(&bytes).ok().filter(|_| is_read);
        bytes.zeroize();
        taken
    }

    /// Executes this program again. Returns only on failure; then the variables are unchanged.
    fn start_again(arguments: &[OsString], secrets: &BTreeMap<String, String>) -> io::Error {
        // Without CLOEXEC, because the process after exec reads it.
        let handed_over = || -> io::Result<File> {
            let mut file = File::from(memfd_create(NAME, MemfdFlags::empty())?);
            let mut bytes = serde_json::to_vec(secrets)?;
            let written = file.write_all(&bytes);
            bytes.zeroize();
            written.map(|()| file)
        };
        let (program, file) = match (std::env::current_exe(), handed_over()) {
            (Ok(program), Ok(file)) => (program, file),
            (Err(error), _) | (_, Err(error)) => return error,
        };
        let mut command = Command::new(program);
        command.args(arguments.iter().skip(1)).env(FILE, file.as_raw_fd().to_string());
        if let Some(name) = arguments.first() {
            command.arg0(name);
        }
        for name in secrets.keys() {
            command.env_remove(name);
        }
        command.exec()
    }
}
