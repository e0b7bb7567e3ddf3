//! The containment mechanisms of this machine.

use std::sync::OnceLock;

use crate::containment::{Containment, Mechanism, Surface};
#[cfg(target_os = "linux")]
use crate::linux::{cgroup, landlock, processes, seccomp};
use crate::policy::{Network, Policy};
use crate::spec::{Limits, SandboxMode};

/// Measures how this machine contains a program, with the default policy and limits and a launcher.
///
/// Every mechanism is tried out: a thread is restricted by Landlock, another by a seccomp filter, and a control group is created. The first
/// call takes some milliseconds; later ones return the same result.
pub fn probe() -> Containment {
    let setup = Setup { is_supervised: true, group: Machine::get().group, ..Setup::default() };
    containment(&SandboxMode::On(Policy::default()), &Limits::default(), &setup)
}

/// The result of the measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// The ABI version of Landlock, 0 for none.
    pub(crate) landlock_abi: i32,
    pub(crate) seccomp: bool,
    pub(crate) group: Group,
    /// Whether a supervisor finds all descendants.
    lists_children: bool,
}

/// The abilities of control groups: for one program, or for any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Group {
    pub(crate) kill: bool,
    pub(crate) memory: Option<u8>,
    pub(crate) processes: Option<u8>,
}

impl Machine {
    pub(crate) fn get() -> &'static Self {
        static MACHINE: OnceLock<Machine> = OnceLock::new();
        MACHINE.get_or_init(Self::measure)
    }

    #[cfg(target_os = "linux")]
    fn measure() -> Self {
        let abilities = cgroup::Groups::shared().map(|groups| groups.abilities()).unwrap_or_default();
        Self {
            landlock_abi: landlock::measure(),
            seccomp: seccomp::measure(),
            group: abilities.into(),
            lists_children: processes::lists_children(),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn measure() -> Self {
        Self { landlock_abi: 0, seccomp: false, group: Group::default(), lists_children: false }
    }
}

#[cfg(target_os = "linux")]
impl From<cgroup::Abilities> for Group {
    fn from(abilities: cgroup::Abilities) -> Self {
        Self { kill: abilities.kill, memory: abilities.memory, processes: abilities.processes }
    }
}

/// The way in which a program is run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Setup {
    /// Whether a launcher supervises it.
    pub(crate) is_supervised: bool,
    /// Whether this process adopts orphans.
    pub(crate) is_adopting: bool,
    /// The abilities of its control group.
    pub(crate) group: Group,
}

/// The containment of a program that is run in this way.
pub(crate) fn containment(sandbox: &SandboxMode, limits: &Limits, setup: &Setup) -> Containment {
    let mut containment = Containment::new(sandbox.policy().is_some());
    match sandbox.policy() {
        Some(policy) => reach(&mut containment, policy, Machine::get()),
        None => {
            let surfaces = [
                Surface::Files,
                Surface::FileModes,
                Surface::Tcp,
                Surface::Udp,
                Surface::UnixSockets,
                Surface::Signals,
                Surface::ProcessMemory,
                Surface::Privileges,
            ];
            for surface in surfaces {
                containment.set(surface, [None], "the sandbox is off");
            }
            let closes = setup.is_supervised.then_some(Mechanism::CloseOnExec);
            containment.set(Surface::Descriptors, [closes], "only descriptors of this process itself are closed");
        }
    }
    usage(&mut containment, limits, setup);
    containment
}

/// Sets the surfaces about access.
fn reach(containment: &mut Containment, policy: &Policy, machine: &Machine) {
    let landlock = |from: i32| (machine.landlock_abi >= from.max(1)).then_some(Mechanism::Landlock { abi: machine.landlock_abi });
    let seccomp = machine.seccomp.then_some(Mechanism::Seccomp);
    let bubblewrap = policy.isolation.as_ref().map(|_| Mechanism::Bubblewrap);
    let own_network = bubblewrap.filter(|_| policy.network == Network::None);
    #[cfg(target_os = "linux")]
    let (tcp, scope) = (landlock(landlock::TCP_ABI), landlock(landlock::SCOPE_ABI));
    #[cfg(not(target_os = "linux"))]
    let (tcp, scope): (Option<Mechanism>, Option<Mechanism>) = (None, None);

    containment.set(Surface::Files, [landlock(1), bubblewrap], "Landlock is missing");
    if policy.file_modes {
        containment.permit(Surface::FileModes);
    } else {
        containment.set(Surface::FileModes, [seccomp, bubblewrap], "seccomp is missing for this architecture");
    }
    match policy.network {
        Network::None => containment.set(Surface::Tcp, [tcp, seccomp, own_network], "seccomp and Landlock ABI 4 are missing"),
        Network::Ports(_) => containment.set(Surface::Tcp, [tcp], "Landlock ABI 4 is missing, so that all ports are reachable"),
        Network::Any => containment.permit(Surface::Tcp),
    }
    match policy.network {
        Network::Any => containment.permit(Surface::Udp),
        _ => containment.set(Surface::Udp, [seccomp, own_network], "seccomp is missing for this architecture"),
    }
    if policy.unix_sockets {
        containment.permit(Surface::UnixSockets);
    } else {
        containment.set(Surface::UnixSockets, [seccomp], "seccomp is missing for this architecture");
    }
    containment.set(
        Surface::Signals,
        [scope, bubblewrap],
        "Landlock ABI 6 is missing; processes of the same user can be signalled",
    );
    containment.set(Surface::ProcessMemory, [landlock(1), seccomp, bubblewrap], "Landlock is missing");
    containment.set(Surface::Descriptors, [Some(Mechanism::CloseOnExec)], "");
    containment.set(Surface::Privileges, [Some(Mechanism::NoNewPrivileges)], "");
}

/// Sets the surfaces about resource use and processes left behind.
fn usage(containment: &mut Containment, limits: &Limits, setup: &Setup) {
    let cgroup = |version: Option<u8>| version.map(|version| Mechanism::Cgroup { version });
    let watches = setup.is_supervised && Machine::get().lists_children;
    let watchdog = |version: Option<u8>| (version.is_none() && watches).then_some(Mechanism::Watchdog);
    let missing = "there is neither a control group nor a launcher that watches";
    match limits.memory {
        None => containment.permit(Surface::Memory),
        Some(_) => {
            let version = setup.group.memory;
            let each = watchdog(version).map(|_| Mechanism::Rlimit);
            containment.set(Surface::Memory, [cgroup(version), watchdog(version), each], missing);
        }
    }
    match limits.processes {
        None => containment.permit(Surface::Processes),
        Some(_) => {
            let version = setup.group.processes;
            containment.set(Surface::Processes, [cgroup(version), watchdog(version)], missing);
        }
    }
    match limits.file_size {
        None => containment.permit(Surface::FileSize),
        Some(_) => containment.set(Surface::FileSize, [cfg!(unix).then_some(Mechanism::Rlimit)], "this system has no limits"),
    }
    let kill = setup.group.kill.then_some(Mechanism::Cgroup { version: 2 });
    if setup.is_supervised {
        let supervisor = Machine::get().lists_children.then_some(Mechanism::Supervisor);
        containment.set(Surface::Orphans, [supervisor, kill], "this kernel does not list the children of a process");
    } else if setup.is_adopting {
        containment.set(Surface::Orphans, [Some(Mechanism::Subreaper), kill], "");
    } else {
        // Any process can leave a process group, and a control group is not killed when this process is killed.
        containment.set(Surface::Orphans, [None], "without a launcher, processes stay behind when this process is killed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_off_or_without_limits_is_not_called_contained() {
        let off = containment(&SandboxMode::Off, &Limits::UNLIMITED, &Setup::default());
        assert!(!off.is_sandboxed() && off.summary().starts_with("UNSANDBOXED"), "{off}");
        assert!(Surface::ALL.into_iter().all(|surface| !off.contains(surface)), "{off:?}");
        let policy = Policy { network: Network::Any, unix_sockets: true, ..Policy::default() };
        let open = containment(&SandboxMode::On(policy), &Limits::default(), &Setup { is_supervised: true, ..Setup::default() });
        for surface in [Surface::Tcp, Surface::Udp, Surface::UnixSockets] {
            assert_eq!(open.level(surface), &crate::Level::Permitted);
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_probe_tells_what_was_tried() {
        let probed = probe();
        assert_eq!(probed, probe());
        assert!(probed.is_sandboxed());
        // This kernel may lack some mechanisms; the available ones are named.
        if Machine::get().landlock_abi >= landlock::SCOPE_ABI && Machine::get().seccomp {
            assert_eq!(probed.open().count(), 0, "{probed:?}");
        } else {
            toolcrib_testkit::skip("landlock", "this kernel has no Landlock with scopes, or no seccomp");
        }
    }
}
