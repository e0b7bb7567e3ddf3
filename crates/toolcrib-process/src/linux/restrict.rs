//! Restrictions that a thread applies to itself and to what it starts.

use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

use super::{landlock, seccomp};
use crate::launch::{Order, VARIABLE_PREFIX};
use crate::policy::{Network, Policy};
use crate::spec::Limits;

/// Makes the resolver of glibc use TCP, if only TCP ports are allowed.
const RESOLVER_OVER_TCP: (&str, &str) = ("RES_OPTIONS", "use-vc");

/// The port of DNS servers.
const DNS: u16 = 53;

/// Applies a policy to the calling thread completely, or returns an error.
pub(super) fn apply(order: &Order, policy: &Policy, program: &Path) -> Result<(), String> {
    set_no_new_privs(true).map_err(|error| format!("no-new-privileges: {error}"))?;
    drop_capabilities()?;
    // File descriptors that the host had inherited. Those of this process are closed on exec anyway.
    close_fds::set_fds_cloexec(3, &[]);
    if order.landlock_abi > 0 {
        landlock::restrict(policy, program, &search_path(), order.landlock_abi)?;
    }
    // Last, because it also denies some of the calls above.
    if order.seccomp {
        seccomp::restrict(policy)?;
    }
    Ok(())
}

/// Without capabilities root is a normal user, and with `no_new_privs` no program can regain them.
fn drop_capabilities() -> Result<(), String> {
    // Kernels without ambient capabilities have none to clear.
    let _ = clear_ambient_capability_set();
    for capability in CapabilitySet::all().iter() {
        match remove_capability_from_bounding_set(capability) {
            // Users other than root cannot change this set, and it contains nothing that they could gain.
            Ok(()) | Err(Errno::PERM | Errno::INVAL) => {}
            Err(error) => return Err(format!("capability bounding set: {error}")),
        }
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .map_err(|error| format!("capabilities: {error}"))
}

/// Limits of this process and of what it starts.
pub(super) fn limit(limits: &Limits, watches_memory: bool) -> Result<(), String> {
    // Core dumps contain all memory of a program, including its secrets, and are written outside its folders.
    set(Resource::Core, 0)?;
    set(Resource::Nofile, limits.open_files)?;
    if let Some(bytes) = limits.file_size {
        set(Resource::Fsize, bytes)?;
    }
    if let Some(time) = limits.cpu {
        let seconds = time.as_secs().max(1);
        // A second later the kernel kills a program that ignores the signal of the soft limit.
        let limit = Rlimit { current: Some(seconds), maximum: Some(seconds + 1) };
        setrlimit(Resource::Cpu, limit).map_err(|error| format!("limit Cpu: {error}"))?;
    }
    // If no control group limits memory, each process is limited separately, in addition to the watchdog on their sum. Reserved address
    // space must not count, because Node and WebAssembly reserve gibibytes; RLIMIT_AS would count it.
    if let (true, Some(bytes)) = (watches_memory, limits.memory) {
        set(Resource::Data, bytes)?;
    }
    Ok(())
}

/// Sets a limit that the program cannot raise. A lower limit is kept.
fn set(resource: Resource, value: u64) -> Result<(), String> {
    let now = getrlimit(resource);
    let value = now.maximum.map_or(value, |maximum| maximum.min(value));
    setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) })
        .map_err(|error| format!("limit {resource:?}: {error}"))
}

/// The command that executes the program, with the environment from the host.
pub(super) fn command(order: &Order, program: &Path, arguments: &[OsString]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(variables());
    if let Some(Policy { network: Network::Ports(ports), .. }) = &order.policy
        && ports.contains(&DNS)
        && !variables().any(|(name, _)| name == RESOLVER_OVER_TCP.0)
    {
        command.env(RESOLVER_OVER_TCP.0, RESOLVER_OVER_TCP.1);
    }
    command
}

/// The variables of the program.
fn variables() -> impl Iterator<Item = (OsString, OsString)> {
    env::vars_os().filter_map(|(name, value)| {
        let name = name.as_bytes().strip_prefix(VARIABLE_PREFIX.as_bytes())?;
        Some((OsString::from_vec(name.to_vec()), value))
    })
}

/// The folders in which the program searches for other programs.
pub(super) fn search_path() -> Vec<PathBuf> {
    let path = variables().find_map(|(name, value)| (name == "PATH").then_some(value));
    path.map(|path| env::split_paths(&path).collect()).unwrap_or_default()
}
