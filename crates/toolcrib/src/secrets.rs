//! Secrets out of reach of other programs.
//!
//! The environment that a process was started with stays readable in `/proc` as long as it lives, also for programs that it starts, and
//! nothing that the process does to its variables changes that. So a process that finds secrets there starts itself again, under the same
//! number, without them, and gives them to itself through a file in memory. The memory of such a process is closed to others of the same
//! user, is not written to disk when it crashes, and descriptors that it was started with do not go on to its children.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::OnceLock;

use crate::env;

/// Variables that are secrets, or URLs that often hold one, by how their names begin.
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

/// Variables that are secrets of an object store.
const OBJECT_SECRET: [&str; 3] = [env::AWS_ACCESS_KEY_ID, env::AWS_SECRET_ACCESS_KEY, env::AWS_SESSION_TOKEN];

/// The descriptor of the file, in the process that was started again.
const FILE: &str = "TOOLCRIB_SECRETS_FD";

/// Most bytes that are read from the file. Linux gives a process at most 6 MiB of arguments and variables; as JSON a byte takes up to six.
const MAX_BYTES: u64 = 6 * 6 * 1_024 * 1_024;

static TAKEN: OnceLock<BTreeMap<String, String>> = OnceLock::new();

/// A variable of ours: from the environment, or from where [`protect`] has put it. Empty ones count as absent.
pub(crate) fn var(name: &str) -> Option<String> {
    let taken = TAKEN.get().and_then(|taken| taken.get(name).cloned());
    taken.or_else(|| std::env::var(name).ok()).filter(|value| !value.is_empty())
}

/// The names of the variables that [`protect`] has put away.
pub(crate) fn taken_names() -> impl Iterator<Item = String> {
    TAKEN.get().into_iter().flat_map(|taken| taken.keys().cloned())
}

/// Puts secrets out of reach. Called before there is a second thread. What the system does not let us do is left as it is, with a warning
/// if secrets stay in the environment: that of a container without `/proc` cannot be read there, either.
pub(crate) fn protect(arguments: &[OsString]) {
    #[cfg(target_os = "linux")]
    linux::protect(arguments);
    #[cfg(not(target_os = "linux"))]
    let _ = arguments;
}

/// Whether a variable is a secret: one of ours, the node of one chain, or one that an argument names.
fn is_secret(name: &str, arguments: &[OsString]) -> bool {
    SECRET.contains(&name)
        || (OBJECT_SECRET.contains(&name) && uses_objects(arguments))
        || name.starts_with(env::TOOLCRIB_SECRET)
        || name.strip_prefix(env::RPC_URL).is_some_and(|rest| rest.starts_with('_'))
        || is_named(name, arguments)
}

/// Whether this process opens an object store. Others may need credentials of S3 for what they start.
fn uses_objects(arguments: &[OsString]) -> bool {
    const OPTION: &str = "--objects";
    let is_said = |argument: &OsString| argument.to_str().is_some_and(|text| text == OPTION || text.starts_with("--objects="));
    arguments.iter().any(is_said) || std::env::var_os(env::TOOLCRIB_OBJECTS).is_some()
}

/// Whether an option that takes `HEADER=NAME` names a variable.
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

    /// What the file in memory is called.
    const NAME: &str = "toolcrib-secrets";

    pub(super) fn protect(arguments: &[OsString]) {
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
        // Whatever was open when we were started is ours alone.
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
            // There is no printer yet, and standard error may be closed.
            let _ = writeln!(
                io::stderr(),
                "warning: secrets stay in the environment of this process, where programs that it starts can read them: {} ({reason})",
                names.join(", ")
            );
        }
    }

    /// What the process before this one, of the same number, has put into the file. It is emptied: the descriptor stays open.
    fn receive() -> Option<BTreeMap<String, String>> {
        let number: u32 = std::env::var(FILE).ok()?.parse().ok()?;
        // The variable may be older than this process, or forged: another file is left as it is.
        let path = format!("/proc/self/fd/{number}");
        std::fs::read_link(&path).ok().filter(|link| link.to_string_lossy().starts_with(&format!("/memfd:{NAME}")))?;
        let file = File::options().read(true).write(true).open(path).ok()?;
        let mut bytes = Vec::new();
        let is_read = (&file).take(MAX_BYTES).read_to_end(&mut bytes).is_ok() && file.set_len(0).is_ok();
        let taken = serde_json::from_slice(&bytes).ok().filter(|_| is_read);
        bytes.zeroize();
        taken
    }

    /// Does not return if it succeeds. Otherwise the variables are where they were.
    fn start_again(arguments: &[OsString], secrets: &BTreeMap<String, String>) -> io::Error {
        // Without CLOEXEC: it is for the process that takes our place.
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
