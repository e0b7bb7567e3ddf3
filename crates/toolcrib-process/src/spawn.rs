//! Starts programs.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use crate::containment::Containment;
use crate::error::SpawnError;
use crate::launch::Launcher;
#[cfg(target_os = "linux")]
use crate::launch::{Order, Stage, prefixed};
#[cfg(target_os = "linux")]
use crate::linux::{cgroup, orphans};
use crate::machine::{self, Machine, Setup};
use crate::policy::Policy;
use crate::running::Running;
#[cfg(target_os = "linux")]
use crate::spec::Limits;
use crate::spec::{ProgramSpec, SandboxMode};

/// Starts a program, with pipes for its standard streams.
///
/// With a launcher, the program is supervised: its descendants end with it, and everything ends when this process ends, for any reason.
/// Without one it gets a process group, a control group if the system permits it, and the effect of [`adopt_orphans`].
///
/// Call it inside a Tokio runtime.
///
/// # Errors
///
/// Fails if the specification cannot be met on this system, or the process cannot be created. A program is never started with less
/// containment than [`plan`] reports.
pub fn spawn(spec: &ProgramSpec, launcher: Option<&Launcher>) -> Result<Running, SpawnError> {
    check(spec, launcher)?;
    #[cfg(target_os = "linux")]
    if let Some(launcher) = launcher {
        return supervised(spec, launcher);
    }
    direct(spec)
}

/// Returns how a program would be contained, without starting it. For lists and prompts.
///
/// # Errors
///
/// As [`spawn`].
pub fn plan(spec: &ProgramSpec, launcher: Option<&Launcher>) -> Result<Containment, SpawnError> {
    check(spec, launcher)?;
    let setup = Setup { is_supervised: launcher.is_some(), is_adopting: is_adopting(), group: Machine::get().group };
    Ok(machine::containment(&spec.sandbox, &spec.limits, &setup))
}

/// Makes this process adopt and kill processes that programs without a launcher leave behind.
///
/// Call it only in a process that starts all its child processes with [`spawn`]: other children are treated as orphans and killed.
pub fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    orphans::adopt();
}

fn is_adopting() -> bool {
    #[cfg(target_os = "linux")]
    return orphans::is_adopting();
    #[cfg(not(target_os = "linux"))]
    false
}

/// Checks everything that can be checked before a process is created.
fn check(spec: &ProgramSpec, launcher: Option<&Launcher>) -> Result<(), SpawnError> {
    if !spec.program.is_absolute() {
        return Err(SpawnError::Program { program: spec.program.clone() });
    }
    if let Some(launcher) = launcher.filter(|launcher| !launcher.program().is_absolute()) {
        return Err(SpawnError::Program { program: launcher.program().to_path_buf() });
    }
    let has_zero = |text: &OsStr| text.as_encoded_bytes().contains(&0);
    if let Some(at) = spec.arguments.iter().position(|argument| has_zero(argument)) {
        return Err(SpawnError::Environment { what: format!("argument {at}"), reason: "it holds a zero byte" });
    }
    for (name, value) in &spec.environment {
        let bytes = name.as_encoded_bytes();
        let reason = match () {
            () if bytes.is_empty() => "a name is empty",
            () if bytes.contains(&b'=') => "a name holds an equals sign",
            () if has_zero(name) || has_zero(value) => "it holds a zero byte",
            () => continue,
        };
        return Err(SpawnError::Environment { what: format!("the variable {}", name.display()), reason });
    }
    let SandboxMode::On(policy) = &spec.sandbox else { return Ok(()) };
    if launcher.is_none() {
        return Err(SpawnError::Launcher);
    }
    check_policy(spec, policy)
}

fn check_policy(spec: &ProgramSpec, policy: &Policy) -> Result<(), SpawnError> {
    let unavailable = |reason| SpawnError::Unavailable { program: spec.program.clone(), reason };
    if cfg!(not(target_os = "linux")) {
        return Err(unavailable("only Linux has a sandbox"));
    }
    match &policy.isolation {
        None if Machine::get().landlock_abi == 0 => return Err(unavailable("the kernel has no Landlock")),
        Some(isolation) if !isolation.program.is_absolute() || !isolation.program.is_file() => {
            return Err(SpawnError::Bubblewrap { program: isolation.program.clone() });
        }
        _ => {}
    }
    for path in policy.paths() {
        let failed = |reason: String| Err(SpawnError::Path { path: path.clone(), reason });
        if !path.is_absolute() {
            return failed("it is not absolute".to_owned());
        }
        if path.to_str().is_none() {
            return failed("it is not UTF-8".to_owned());
        }
        if let Err(error) = path.metadata() {
            return failed(error.to_string());
        }
    }
    Ok(())
}

/// Starts a launcher that starts the program.
#[cfg(target_os = "linux")]
fn supervised(spec: &ProgramSpec, launcher: &Launcher) -> Result<Running, SpawnError> {
    let machine = Machine::get();
    let group = group(&spec.limits);
    let abilities = group.as_ref().map(cgroup::Group::abilities).unwrap_or_default();
    let policy = spec.sandbox.policy().cloned();
    let order = Order {
        stage: Stage::Supervise,
        host: rustix::process::getpid().as_raw_nonzero().get(),
        launcher: launcher.program().to_path_buf(),
        leading_arguments: launcher.leading_arguments().to_vec(),
        landlock_abi: if policy.is_some() { machine.landlock_abi } else { 0 },
        seccomp: policy.is_some() && machine.seccomp,
        policy,
        limits: spec.limits.clone(),
        groups: group.iter().flat_map(|group| group.folders().map(Path::to_path_buf)).collect(),
        kill_group: group.as_ref().and_then(|group| group.kill_folder().map(Path::to_path_buf)),
        watch_memory: spec.limits.memory.is_some() && abilities.memory.is_none(),
        watch_processes: spec.limits.processes.is_some() && abilities.processes.is_none(),
    };
    let failed = |source| SpawnError::Start { program: launcher.program().to_path_buf(), source };
    let text = serde_json::to_string(&order).map_err(|error| failed(std::io::Error::other(error)))?;
    let mut command = command(launcher.program(), spec);
    command.args(launcher.leading_arguments()).arg(text).arg("--").arg(&spec.program).args(&spec.arguments);
    command.env_clear().envs(spec.environment.iter().map(|(name, value)| (prefixed(name), value)));
    let child = started(&mut command).map_err(failed)?;
    let setup = Setup { is_supervised: true, is_adopting: false, group: abilities.into() };
    let containment = machine::containment(&spec.sandbox, &spec.limits, &setup);
    tracing::debug!(program = %spec.program.display(), containment = %containment, "program started");
    Ok(Running::new(child, true, containment).with_group(group))
}

/// Starts the program itself.
fn direct(spec: &ProgramSpec) -> Result<Running, SpawnError> {
    let mut command = command(&spec.program, spec);
    command.args(&spec.arguments).env_clear().envs(spec.environment.iter().map(|(name, value)| (name, value)));
    command.kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    let failed = |source| SpawnError::Start { program: spec.program.clone(), source };
    let child = started(&mut command).map_err(failed)?;
    let mut setup = Setup { is_supervised: false, is_adopting: is_adopting(), ..Setup::default() };
    #[cfg(target_os = "linux")]
    let group = {
        let process = child.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
        let group = process.and_then(|process| group(&spec.limits).filter(|group| group.enter(process)));
        setup.group = group.as_ref().map(cgroup::Group::abilities).unwrap_or_default().into();
        if let Some(process) = process {
            limit(process, &spec.limits);
        }
        group
    };
    let containment = machine::containment(&spec.sandbox, &spec.limits, &setup);
    tracing::debug!(program = %spec.program.display(), containment = %containment, "program started");
    let running = Running::new(child, false, containment);
    #[cfg(target_os = "linux")]
    let running = running.with_group(group);
    Ok(running)
}

fn command(program: &Path, spec: &ProgramSpec) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(folder) = &spec.folder {
        command.current_dir(folder);
    }
    command
}

/// Starts a process and registers it, so that it is not taken for an orphan.
fn started(command: &mut Command) -> std::io::Result<tokio::process::Child> {
    #[cfg(target_os = "linux")]
    return orphans::start(|| {
        command.spawn().map(|child| {
            let id = child.id();
            (child, id)
        })
    });
    #[cfg(not(target_os = "linux"))]
    command.spawn()
}

/// A control group with the limits that it can enforce.
#[cfg(target_os = "linux")]
fn group(limits: &Limits) -> Option<cgroup::Group> {
    cgroup::Groups::shared()?.create(limits)
}

/// Limits a process that is already running. Its use before that is not limited.
#[cfg(target_os = "linux")]
fn limit(process: rustix::process::Pid, limits: &Limits) {
    use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
    // The program may raise this limit again: it exists because some programs fail with file descriptors above the usual number.
    let now = getrlimit(Resource::Nofile);
    if now.current.is_none_or(|current| current > limits.open_files) {
        let _ = prlimit(Some(process), Resource::Nofile, Rlimit { current: Some(limits.open_files), maximum: now.maximum });
    }
    let both = |value: u64| Rlimit { current: Some(value), maximum: Some(value) };
    if let Some(bytes) = limits.file_size {
        let _ = prlimit(Some(process), Resource::Fsize, both(bytes));
    }
    if let Some(time) = limits.cpu {
        let _ = prlimit(Some(process), Resource::Cpu, both(time.as_secs().max(1)));
    }
}
