//! Landlock: files, TCP, abstract Unix sockets and signals.

use std::fs;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, LandlockStatus, NetPort, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
};

use crate::policy::{Network, Policy};
use crate::system_paths::{self, Use};

/// The first ABI version with TCP rules.
pub(crate) const TCP_ABI: i32 = 4;

/// The first ABI version that scopes signals and abstract Unix sockets.
pub(crate) const SCOPE_ABI: i32 = 6;

/// The ABI version of this kernel, measured by restricting a thread that then ends. 0 if there is none.
pub(crate) fn measure() -> i32 {
    let thread = std::thread::Builder::new().name("landlock-probe".to_owned());
    let probe = thread.spawn(|| {
        let ruleset = Ruleset::default().handle_access(AccessFs::from_all(ABI::V1)).ok()?.create().ok()?;
        let status = ruleset.restrict_self().ok()?;
        let LandlockStatus::Available { effective_abi, .. } = status.landlock else { return None };
        // No rule allows anything, so reading must fail now.
        let is_denied = fs::read_dir("/").is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied);
        (status.ruleset == RulesetStatus::FullyEnforced && is_denied).then(|| number(effective_abi))
    });
    probe.ok().and_then(|thread| thread.join().ok().flatten()).unwrap_or(0)
}

/// The number of an ABI version; versions newer than this crate knows count as its newest.
fn number(abi: ABI) -> i32 {
    (1..i32::from(u8::MAX)).find(|number| ABI::from(*number) == abi).unwrap_or(0)
}

/// Restricts the calling thread and what it starts. Everything that this ABI version can restrict is mandatory.
pub(super) fn restrict(policy: &Policy, program: &Path, search: &[PathBuf], version: i32) -> Result<(), String> {
    let abi = ABI::from(version);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))
        .map_err(|error| format!("Landlock file rights: {error}"))?;
    let is_tcp_limited = version >= TCP_ABI && policy.network != Network::Any;
    if is_tcp_limited {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi)).map_err(|error| format!("Landlock TCP rights: {error}"))?;
    }
    if version >= SCOPE_ABI {
        ruleset = ruleset.scope(Scope::from_all(abi)).map_err(|error| format!("Landlock scopes: {error}"))?;
    }
    let mut ruleset = ruleset.create().map_err(|error| format!("Landlock ruleset: {error}"))?;
    for (path, access) in rules(policy, program, search, abi) {
        let Some(rule) = rule(&path, access, abi)? else { continue };
        ruleset = ruleset.add_rule(rule).map_err(|error| format!("Landlock rule for {}: {error}", path.display()))?;
    }
    if let (true, Network::Ports(ports)) = (is_tcp_limited, &policy.network) {
        for port in ports {
            let rule = NetPort::new(*port, AccessNet::ConnectTcp);
            ruleset = ruleset.add_rule(rule).map_err(|error| format!("Landlock rule for port {port}: {error}"))?;
        }
    }
    let status = ruleset.restrict_self().map_err(|error| format!("Landlock: {error}"))?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        _ => Err("Landlock: the kernel keeps only a part of the rules".to_owned()),
    }
}

/// All paths of a policy with the access rights to them.
fn rules(policy: &Policy, program: &Path, search: &[PathBuf], abi: ABI) -> Vec<(PathBuf, BitFlags<AccessFs>)> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let execute = read | AccessFs::Execute;
    // No devices (for root they give access to the whole disk), no ioctl on devices, and no execution of files that were just written.
    let mut write =
        AccessFs::from_all(abi) & !(AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    if !policy.unix_sockets {
        write &= !(AccessFs::MakeSock | AccessFs::ResolveUnix);
    }
    let mut rules = Vec::new();
    if policy.system_paths {
        rules.extend(system_paths::granted(policy).map(|system| {
            let access = match system.usage {
                Use::Read => read,
                Use::Execute => execute,
                // Shells open with truncation, also devices.
                Use::ReadWrite => read | AccessFs::WriteFile | (AccessFs::from_all(abi) & AccessFs::Truncate),
            };
            (PathBuf::from(system.path), access)
        }));
    }
    if policy.isolation.is_some() {
        // In a PID namespace of its own it shows no other processes.
        rules.push((PathBuf::from("/proc"), read));
    }
    rules.push((program.to_path_buf(), execute));
    rules.extend(system_paths::interpreters(program, search).into_iter().map(|path| (path, execute)));
    rules.extend(policy.read.iter().map(|path| (path.clone(), read)));
    rules.extend(policy.execute.iter().map(|path| (path.clone(), execute)));
    rules.extend(policy.write.iter().map(|path| (path.clone(), write)));
    if policy.unix_sockets && abi >= ABI::V9 {
        // Seccomp permits creating the sockets. This version could also restrict their paths, which policies do not support.
        rules.push((PathBuf::from("/"), AccessFs::ResolveUnix.into()));
    }
    rules
}

/// A rule for an existing path. System paths that are missing and paths that were removed grant nothing.
fn rule(path: &Path, access: BitFlags<AccessFs>, abi: ABI) -> Result<Option<PathBeneath<PathFd>>, String> {
    let Ok(metadata) = fs::metadata(path) else { return Ok(None) };
    let access = if metadata.is_dir() { access } else { access & AccessFs::from_file(abi) };
    // The path is opened a second time: if it was replaced in between, at most its kind is wrong, and then the kernel rejects the rule.
    let path_fd = PathFd::new(path).map_err(|error| format!("Landlock rule for {}: {error}", path.display()))?;
    Ok(Some(PathBeneath::new(path_fd, access)))
}
