//! How a running program is contained, and by which mechanisms.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A resource that a program can damage or exhaust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Surface {
    /// Files outside the allowed paths.
    Files,
    /// Modes, owners, times and attributes of files outside the allowed paths.
    FileModes,
    /// TCP connections.
    Tcp,
    /// UDP and other Internet protocols.
    Udp,
    /// Services that listen on Unix sockets, by path or by abstract name.
    UnixSockets,
    /// Memory, environment and file descriptors of other processes.
    Signals,
    /// Memory, environment and descriptors of other processes.
    ProcessMemory,
    /// File descriptors that this process has inherited.
    Descriptors,
    /// Capabilities and set-user-ID programs.
    Privileges,
    /// Memory use.
    Memory,
    /// The number of processes and threads.
    Processes,
    /// Sizes of written files.
    FileSize,
    /// Processes that outlive the program, also after this process was killed.
    Orphans,
}

impl Surface {
    /// All surfaces.
    pub const ALL: [Self; 13] = [
        Self::Files,
        Self::FileModes,
        Self::Tcp,
        Self::Udp,
        Self::UnixSockets,
        Self::Signals,
        Self::ProcessMemory,
        Self::Descriptors,
        Self::Privileges,
        Self::Memory,
        Self::Processes,
        Self::FileSize,
        Self::Orphans,
    ];

    /// Whether this is about access. The others are about resource use.
    const fn is_reach(self) -> bool {
        !matches!(self, Self::Memory | Self::Processes | Self::FileSize | Self::Orphans)
    }
}

impl fmt::Display for Surface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Files => "files",
            Self::FileModes => "file modes",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::UnixSockets => "Unix sockets",
            Self::Signals => "signals",
            Self::ProcessMemory => "process memory",
            Self::Descriptors => "descriptors",
            Self::Privileges => "privileges",
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::FileSize => "file size",
            Self::Orphans => "orphans",
        })
    }
}

/// A mechanism that contains a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Mechanism {
    /// Landlock, with the ABI version of this kernel.
    Landlock {
        /// The ABI version.
        abi: i32,
    },
    /// A seccomp filter of system calls.
    Seccomp,
    /// Namespaces created by bubblewrap.
    Bubblewrap,
    /// A control group (cgroup).
    Cgroup {
        /// The cgroup version, 1 or 2.
        version: u8,
    },
    /// A resource limit of the process.
    Rlimit,
    /// The supervisor checks every few milliseconds and kills a program above the limit.
    Watchdog,
    /// The supervisor, which adopts and kills processes that the program leaves behind, also when the host dies.
    Supervisor,
    /// This process adopts processes that programs leave behind, as long as it runs.
    Subreaper,
    /// The process group.
    ProcessGroup,
    /// File descriptors are closed on exec.
    CloseOnExec,
    /// All capabilities are dropped, and `no_new_privs` prevents regaining them.
    NoNewPrivileges,
    /// A WebAssembly component can only access what it is given.
    WebAssembly,
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Landlock { abi } => write!(f, "Landlock ABI {abi}"),
            Self::Seccomp => f.write_str("seccomp"),
            Self::Bubblewrap => f.write_str("bubblewrap"),
            Self::Cgroup { version } => write!(f, "cgroup v{version}"),
            Self::Rlimit => f.write_str("rlimit"),
            Self::Watchdog => f.write_str("watchdog"),
            Self::Supervisor => f.write_str("supervisor"),
            Self::Subreaper => f.write_str("subreaper"),
            Self::ProcessGroup => f.write_str("process group"),
            Self::CloseOnExec => f.write_str("close-on-exec"),
            Self::NoNewPrivileges => f.write_str("no-new-privileges"),
            Self::WebAssembly => f.write_str("WebAssembly"),
        }
    }
}

/// How far a surface is contained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "level")]
pub enum Level {
    /// Contained as the policy and the limits say.
    Contained {
        /// The mechanisms.
        by: Vec<Mechanism>,
    },
    /// The policy or the limits permit it without restriction.
    Permitted,
    /// Not contained, although the policy or the limits require it.
    Open {
        /// The reason.
        reason: String,
    },
}

/// The effective containment of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Containment {
    sandboxed: bool,
    surfaces: BTreeMap<Surface, Level>,
}

impl Containment {
    pub(crate) const fn new(sandboxed: bool) -> Self {
        Self { sandboxed, surfaces: BTreeMap::new() }
    }

    /// Sets one surface: contained by the available mechanisms, or open for the reason.
    pub(crate) fn set(&mut self, surface: Surface, by: impl IntoIterator<Item = Option<Mechanism>>, otherwise: &str) {
        let by: Vec<_> = by.into_iter().flatten().collect();
        let level = if by.is_empty() { Level::Open { reason: otherwise.to_owned() } } else { Level::Contained { by } };
        self.surfaces.insert(surface, level);
    }

    pub(crate) fn permit(&mut self, surface: Surface) {
        self.surfaces.insert(surface, Level::Permitted);
    }

    /// The containment of a WebAssembly component with some folders and no network.
    ///
    /// It has no processes, signals, file descriptors or privileges. Its folders have no quota.
    pub fn web_assembly() -> Self {
        let mut containment = Self::new(true);
        for surface in Surface::ALL {
            let by = (surface != Surface::FileSize).then_some(Mechanism::WebAssembly);
            containment.set(surface, [by], "WASI has no limit for the size of files");
        }
        containment
    }

    /// Whether the program runs under a policy.
    pub const fn is_sandboxed(&self) -> bool {
        self.sandboxed
    }

    /// The containment of one surface.
    pub fn level(&self, surface: Surface) -> &Level {
        const UNKNOWN: &Level = &Level::Open { reason: String::new() };
        self.surfaces.get(&surface).unwrap_or(UNKNOWN)
    }

    /// Whether one surface is contained as the policy and the limits require.
    pub fn contains(&self, surface: Surface) -> bool {
        matches!(self.level(surface), Level::Contained { .. })
    }

    /// Surfaces that should be contained and are not.
    pub fn open(&self) -> impl Iterator<Item = (Surface, &str)> {
        Surface::ALL.into_iter().filter_map(|surface| match self.level(surface) {
            Level::Open { reason } => Some((surface, reason.as_str())),
            _ => None,
        })
    }

    /// One line for lists, prompts and log lines. It starts with `sandboxed` or with `UNSANDBOXED`, in capitals as a warning.
    pub fn summary(&self) -> String {
        let join = |surfaces: Vec<Surface>| surfaces.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let with = |is: fn(&Level) -> bool| {
            let surfaces = Surface::ALL.into_iter();
            surfaces.filter(|surface| (self.sandboxed || !surface.is_reach()) && is(self.level(*surface))).collect::<Vec<_>>()
        };
        let mut parts = Vec::new();
        parts.push(if self.sandboxed {
            format!("sandboxed by {}", self.mechanisms())
        } else {
            "UNSANDBOXED: all files, network and processes of the user are reachable".to_owned()
        });
        let groups = [
            ("contained", with(|level| matches!(level, Level::Contained { .. }))),
            ("permitted", with(|level| matches!(level, Level::Permitted))),
            ("OPEN", with(|level| matches!(level, Level::Open { .. }))),
        ];
        parts.extend(
            groups.into_iter().filter(|(_, list)| !list.is_empty()).map(|(name, list)| format!("{name}: {}", join(list))),
        );
        parts.join("; ")
    }

    fn mechanisms(&self) -> String {
        let mut all: Vec<_> = self
            .surfaces
            .values()
            .flat_map(|level| match level {
                Level::Contained { by } => by.as_slice(),
                _ => &[],
            })
            .filter(|by| {
                matches!(
                    by,
                    Mechanism::Landlock { .. }
                        | Mechanism::Seccomp
                        | Mechanism::Bubblewrap
                        | Mechanism::Cgroup { .. }
                        | Mechanism::WebAssembly
                )
            })
            .collect();
        all.sort();
        all.dedup();
        all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + ")
    }
}

/// The [summary](Containment::summary).
impl fmt::Display for Containment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_says_what_is_contained_and_shouts_what_is_not() {
        let mut containment = Containment::new(true);
        containment.set(Surface::Files, [Some(Mechanism::Landlock { abi: 7 })], "");
        containment.set(Surface::Udp, [Some(Mechanism::Seccomp), None], "");
        containment.permit(Surface::Memory);
        for surface in
            Surface::ALL.into_iter().filter(|surface| !matches!(surface, Surface::Files | Surface::Udp | Surface::Memory))
        {
            containment.set(surface, [Some(Mechanism::Rlimit)], "");
        }
        containment.set(Surface::Tcp, [None], "no reason");
        let text = containment.summary();
        assert!(text.starts_with("sandboxed by Landlock ABI 7 + seccomp; contained: files, file modes, UDP, "), "{text}");
        assert!(text.ends_with("; permitted: memory; OPEN: TCP"), "{text}");
        assert_eq!(containment.open().collect::<Vec<_>>(), [(Surface::Tcp, "no reason")]);
        let json = serde_json::to_string(&containment).expect("JSON");
        assert_eq!(serde_json::from_str::<Containment>(&json).expect("it is read back"), containment);
        assert!(Containment::new(false).summary().starts_with("UNSANDBOXED: "));
        let text = Containment::web_assembly().summary();
        assert!(
            text.starts_with("sandboxed by WebAssembly; contained: files, ") && text.ends_with("; OPEN: file size"),
            "{text}"
        );
    }
}
