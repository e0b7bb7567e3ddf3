//! Secrets out of reach of other programs.
//!
//! The environment that a process was started with stays readable in `/proc` as long as it lives, also for programs that it starts, and
//! nothing that the process does to its variables changes that. So a process that finds secrets there starts itself again, under the same
//! number, without them, and gives them to itself through a pipe. The memory of such a process is closed to others of the same user, is
//! not written to disk when it crashes, and descriptors that it was started with do not go on to its children.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::OnceLock;

use crate::env;

/// Variables that are secrets, or URLs that often hold one, by how their names begin.
const SECRET: [&str; 11] = [
    env::TOOLCRIB_PRIVATE_KEY,
    env::TOOLCRIB_PASSWORD,
    env::TOOLCRIB_WEBHOOK,
    env::TOOLCRIB_UPSTREAM,
    env::TOOLCRIB_USAGE_KEY,
    env::TOOLCRIB_SIGN_IN_KEY,
    env::TOOLCRIB_STORE,
    env::TOOLCRIB_INDEX,
    env::TOOLCRIB_API_KEY,
    env::TOOLCRIB_MCP_TOKEN,
    env::RPC_URL,
];

/// The descriptor of the pipe, in the process that was started again.
const PIPE: &str = "TOOLCRIB_SECRETS_FD";

/// Most bytes that are put into the pipe before its reader exists. A user who has many pipes gets them with one page each, and writing
/// more would wait forever. A larger set of secrets stays in the environment.
const PIPE_BYTES: usize = 4_096;

static TAKEN: OnceLock<BTreeMap<String, String>> = OnceLock::new();

/// A variable of ours: from the environment, or from where [`protect`] has put it. Empty ones count as absent.
pub(crate) fn var(name: &str) -> Option<String> {
    let taken = TAKEN.get().and_then(|taken| taken.get(name).cloned());
    taken.or_else(|| std::env::var(name).ok()).filter(|value| !value.is_empty())
}

/// Puts secrets out of reach. Called before there is a second thread. What the system does not let us do is left as it is: the
/// environment of a container without `/proc` is no worse than before.
pub(crate) fn protect(arguments: &[OsString]) {
    #[cfg(target_os = "linux")]
    linux::protect(arguments);
    #[cfg(not(target_os = "linux"))]
    let _ = arguments;
}

/// Whether a variable is a secret: one of ours, the node of one chain, or one that an argument names.
fn is_secret(name: &str, arguments: &[OsString]) -> bool {
    SECRET.contains(&name)
        || name.strip_prefix(env::RPC_URL).is_some_and(|rest| rest.starts_with('_'))
        || is_named(name, arguments)
}

/// Whether `--facilitator-auth-env HEADER=NAME` names a variable.
fn is_named(name: &str, arguments: &[OsString]) -> bool {
    const OPTION: &str = "--facilitator-auth-env";
    let names = |text: &str| text.split_once('=').is_some_and(|(_, variable)| variable == name);
    let texts: Vec<_> = arguments.iter().filter_map(|argument| argument.to_str()).collect();
    texts.iter().any(|text| text.strip_prefix(OPTION).and_then(|rest| rest.strip_prefix('=')).is_some_and(names))
        || texts.windows(2).any(|pair| pair[0] == OPTION && names(pair[1]))
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
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use rustix::io::{FdFlags, fcntl_setfd};
    use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
    use zeroize::Zeroize as _;

    use super::{BTreeMap, OsString, PIPE, PIPE_BYTES, TAKEN, is_secret};

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
            start_again(arguments, &secrets);
        }
    }

    /// What the process before this one, of the same number, has put into the pipe.
    fn receive() -> Option<BTreeMap<String, String>> {
        let number: u32 = std::env::var(PIPE).ok()?.parse().ok()?;
        let mut bytes = Vec::new();
        File::open(format!("/dev/fd/{number}")).ok()?.take(2 * PIPE_BYTES as u64).read_to_end(&mut bytes).ok()?;
        let taken = serde_json::from_slice(&bytes).ok();
        bytes.zeroize();
        taken
    }

    /// Does not return if it succeeds.
    fn start_again(arguments: &[OsString], secrets: &BTreeMap<String, String>) {
        let (Ok(program), Ok((reader, mut writer))) = (std::env::current_exe(), std::io::pipe()) else { return };
        let Ok(mut bytes) = serde_json::to_vec(secrets) else { return };
        let is_written = bytes.len() <= PIPE_BYTES && writer.write_all(&bytes).is_ok();
        bytes.zeroize();
        // The reader's end comes with the writer's.
        drop(writer);
        if !is_written || fcntl_setfd(&reader, FdFlags::empty()).is_err() {
            return;
        }
        let mut command = Command::new(program);
        command.args(arguments.iter().skip(1)).env(PIPE, reader.as_raw_fd().to_string());
        if let Some(name) = arguments.first() {
            command.arg0(name);
        }
        for name in secrets.keys() {
            command.env_remove(name);
        }
        // If it comes back, it has failed, and the variables are where they were.
        drop(command.exec());
    }
}
