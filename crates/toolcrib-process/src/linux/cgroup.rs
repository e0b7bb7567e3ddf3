//! A control group for each program, where the system permits it.
//!
//! `cgroup.kill` of cgroup v2 kills all processes of a group at once and no others, including those that left the process group or lost
//! their parent. Limits of memory and of the number of processes apply to the whole group; on hybrid systems their controllers are in trees
//! of cgroup v1. Root may create groups, and so may a user to whom the service manager has delegated one (`Delegate=yes` in systemd; each
//! user session has one).
//!
//! A supervisor enters the groups before it starts its program, so that everything is inside from the start. A program without a supervisor
//! is moved in right after its start; processes that it starts before that are left to [`orphans`](super::orphans).

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, getpid, getuid};

use crate::spec::Limits;

/// The prefix of our group names; the process id follows.
const PREFIX: &str = "toolcrib-";

/// How often the removal of a group is retried. Killed processes leave it within milliseconds.
const TRIES: usize = 20;

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(5);

/// Tasks of the supervisor, which is in its program's group: its main thread and the thread that starts the program.
const SUPERVISOR_TASKS: u64 = 2;

/// The parent groups of all programs' groups. On drop they are removed if they are empty.
#[derive(Debug)]
pub(crate) struct Groups {
    /// The cgroup v2 tree, whose groups can be killed.
    kill: Option<Parent>,
    /// The tree with the memory controller.
    memory: Option<Parent>,
    /// The tree with the controller of process counts.
    processes: Option<Parent>,
    next: AtomicU64,
}

/// A parent group in one tree.
#[derive(Clone, Debug)]
struct Parent {
    folder: Arc<OwnedFolder>,
    version: u8,
}

/// What groups can do on this system: the version of the tree for each ability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Abilities {
    pub(crate) kill: bool,
    pub(crate) memory: Option<u8>,
    pub(crate) processes: Option<u8>,
}

impl Groups {
    /// The groups of this process, created for the first program and removed after the last.
    pub(crate) fn shared() -> Option<Arc<Self>> {
        static SHARED: Mutex<Weak<Groups>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(groups) = shared.upgrade() {
            return Some(groups);
        }
        let groups = Arc::new(Self::open()?);
        *shared = Arc::downgrade(&groups);
        Some(groups)
    }

    /// Creates groups below those of this process. `None` if the system has none or does not permit it.
    fn open() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let memberships = fs::read_to_string("/proc/self/cgroup").ok()?;
        let unified = own_folder(&mounts, &memberships, None).and_then(|own| unified_parent(&own));
        let (kill, controllers) = unified.unzip();
        let controllers = controllers.unwrap_or_default();
        let has = |name: &str| controllers.iter().any(|controller| controller == name);
        let controller = |name: &str| match &kill {
            Some(parent) if has(name) => Some(parent.clone()),
            // A controller is in one tree only: if cgroup v2 has it, v1 does not.
            _ => Parent::below(&own_folder(&mounts, &memberships, Some(name))?, 1),
        };
        let groups = Self { memory: controller("memory"), processes: controller("pids"), kill, next: AtomicU64::new(0) };
        (groups.abilities() != Abilities::default()).then_some(groups)
    }

    /// The abilities of these groups.
    pub(crate) fn abilities(&self) -> Abilities {
        let version = |parent: &Option<Parent>| parent.as_ref().map(|parent| parent.version);
        Abilities { kill: self.kill.is_some(), memory: version(&self.memory), processes: version(&self.processes) }
    }

    /// Creates the group of one program with the limits that groups can enforce. `None` if the system permits none of it.
    pub(crate) fn create(self: &Arc<Self>, limits: &Limits) -> Option<Group> {
        let name = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        let mut group = Group { kill: None, memory: None, processes: None, folders: Vec::new(), _groups: Arc::clone(self) };
        let kill = self.kill.as_ref().and_then(|parent| group.join(parent, &name));
        group.kill = kill.filter(|folder| folder.join("cgroup.kill").exists());
        if let (Some(bytes), Some(parent)) = (limits.memory, &self.memory)
            && let Some(folder) = group.join(parent, &name)
            && limit_memory(&folder, parent.version, bytes).is_ok()
        {
            group.memory = Some((folder, parent.version));
        }
        if let (Some(count), Some(parent)) = (limits.processes, &self.processes)
            && let Some(folder) = group.join(parent, &name)
            && fs::write(folder.join("pids.max"), count.saturating_add(SUPERVISOR_TASKS).to_string()).is_ok()
        {
            group.processes = Some(parent.version);
        }
        (!group.folders.is_empty()).then_some(group)
    }
}

impl Parent {
    /// Creates a parent group in the group `own`.
    fn below(own: &Path, version: u8) -> Option<Self> {
        remove_abandoned(own);
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = own.join(format!("{PREFIX}{}-{number}", getpid().as_raw_nonzero()));
        fs::create_dir(&folder).ok()?;
        Some(Self { folder: Arc::new(OwnedFolder(folder)), version })
    }
}

/// Our group in the cgroup v2 tree, with the controllers that its subgroups have.
fn unified_parent(own: &Path) -> Option<(Parent, Vec<String>)> {
    let mut first = None;
    // A group with processes, such as our own, cannot enable controllers for its subgroups, but its parent may have. A user who can create
    // groups in the parent was delegated it; root always can, and would interfere with the service manager.
    let outer = own.parent().filter(|_| !getuid().is_root());
    for place in [Some(own), outer].into_iter().flatten() {
        let Some(parent) = Parent::below(place, 2) else { continue };
        let folder = &parent.folder.0;
        if !folder.join("cgroup.kill").exists() {
            continue;
        }
        for controller in ["+memory", "+pids"] {
            // Rejected if the group itself does not have the controller.
            let _ = fs::write(folder.join("cgroup.subtree_control"), controller);
        }
        let text = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
        let controllers: Vec<String> = text.split_whitespace().map(ToOwned::to_owned).collect();
        if controllers.is_empty() {
            first = first.or(Some((parent, controllers)));
        } else {
            return Some((parent, controllers));
        }
    }
    first
}

fn limit_memory(folder: &Path, version: u8, bytes: u64) -> io::Result<()> {
    let (file, swap) = match version {
        1 => ("memory.limit_in_bytes", ("memory.memsw.limit_in_bytes", bytes)),
        _ => ("memory.max", ("memory.swap.max", 0)),
    };
    fs::write(folder.join(file), bytes.to_string())?;
    // The file is missing without swap.
    let _ = fs::write(folder.join(swap.0), swap.1.to_string());
    Ok(())
}

/// The group of one program, in each tree that it needs. Dropping it kills its processes and removes it, which may take some milliseconds.
#[derive(Debug)]
pub(crate) struct Group {
    kill: Option<PathBuf>,
    memory: Option<(PathBuf, u8)>,
    processes: Option<u8>,
    folders: Vec<Arc<OwnedFolder>>,
    /// Dropped after this group.
    _groups: Arc<Groups>,
}

impl Group {
    /// Creates the folder in one tree, or reuses it if another limit is in the same tree.
    fn join(&mut self, parent: &Parent, name: &str) -> Option<PathBuf> {
        let folder = parent.folder.0.join(name);
        if !self.folders.iter().any(|known| known.0 == folder) {
            fs::create_dir(&folder).ok()?;
            self.folders.push(Arc::new(OwnedFolder(folder.clone())));
        }
        Some(folder)
    }

    /// The abilities of this group.
    pub(crate) fn abilities(&self) -> Abilities {
        Abilities {
            kill: self.kill.is_some(),
            memory: self.memory.as_ref().map(|(_, version)| *version),
            processes: self.processes,
        }
    }

    /// The folders to enter.
    pub(crate) fn folders(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().map(|folder| folder.0.as_path())
    }

    /// The folder of the group that can be killed at once.
    pub(crate) fn kill_folder(&self) -> Option<&Path> {
        self.kill.as_deref()
    }

    /// Moves a process into the group. Returns whether it is in all trees of it.
    pub(crate) fn enter(&self, process: Pid) -> bool {
        self.folders().all(|folder| enter(folder, process.as_raw_nonzero().get()).is_ok())
    }

    /// Kills every process of the group, without waiting for their end.
    pub(crate) fn kill(&self) {
        if let Some(folder) = &self.kill {
            kill(folder);
        }
    }

    /// Whether a process of the group was killed because of the memory limit.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        let Some((folder, version)) = &self.memory else { return false };
        let file = if *version == 1 { "memory.oom_control" } else { "memory.events" };
        let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
        text.lines().filter_map(|line| line.strip_prefix("oom_kill ")).any(|count| count.trim() != "0")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Moves a process into the group of a folder; 0 is the calling process.
pub(super) fn enter(folder: &Path, process: i32) -> io::Result<()> {
    fs::write(folder.join("cgroup.procs"), process.to_string())
}

/// Kills every process of the group of a folder.
pub(super) fn kill(folder: &Path) {
    // If the group was removed, it has no processes.
    let _ = fs::write(folder.join("cgroup.kill"), "1");
}

/// A group that is removed when it is dropped.
#[derive(Debug)]
struct OwnedFolder(PathBuf);

impl Drop for OwnedFolder {
    fn drop(&mut self) {
        for attempt in 0..TRIES {
            if attempt > 0 {
                sleep(PAUSE);
            }
            match fs::remove_dir(&self.0) {
                // Killed processes have not ended yet.
                Err(error) if error.kind() == ErrorKind::ResourceBusy => {}
                _ => return,
            }
        }
    }
}

/// Removes empty groups of processes that were killed. Groups with processes stay: they may belong to a process in another PID namespace.
fn remove_abandoned(own: &Path) {
    for entry in fs::read_dir(own).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')) else { continue };
        if Path::new("/proc").join(id.0).exists() {
            continue;
        }
        for program in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
            let _ = fs::remove_dir(program.path());
        }
        let _ = fs::remove_dir(entry.path());
    }
}

/// The folder of this process's group, from `/proc/self/mountinfo` and `/proc/self/cgroup`: in the cgroup v2 tree, or in the tree of a v1
/// controller.
fn own_folder(mounts: &str, memberships: &str, controller: Option<&str>) -> Option<PathBuf> {
    let member = memberships.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let is_it = match controller {
            None => number == "0" && controllers.is_empty(),
            Some(name) => controllers.split(',').any(|controller| controller == name),
        };
        if is_it { path.strip_prefix('/') } else { None }
    })?;
    // The process was moved out of the part of the tree that it can see.
    if member.split('/').any(|part| part == "..") {
        return None;
    }
    let (root, mount) = mounts.lines().find_map(|line| {
        let (fields, filesystem) = line.split_once(" - ")?;
        let mut fields = fields.split(' ').skip(3);
        let (root, mount) = (fields.next()?, fields.next()?);
        let mut filesystem = filesystem.split(' ');
        let (kind, options) = (filesystem.next()?, filesystem.nth(1)?);
        let is_it = match controller {
            None => kind == "cgroup2",
            Some(name) => kind == "cgroup" && options.split(',').any(|option| option == name),
        };
        // Spaces in names are octal escapes; cgroups are not mounted at such paths.
        (is_it && !mount.contains('\\')).then_some((root, mount))
    })?;
    let below = Path::new("/").join(member);
    Some(Path::new(mount).join(below.strip_prefix(root).ok()?))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_own_group_is_found_in_hybrid_and_unified_trees() {
        let unified = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let hybrid = "40 31 0:37 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        let inner = "29 23 0:26 /machine/one /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        let find = |mounts: &str, memberships: &str| Some(own_folder(mounts, memberships, None)?.to_str()?.to_owned());
        assert_eq!(find(unified, "0::/user.slice/a.service\n").as_deref(), Some("/sys/fs/cgroup/user.slice/a.service"));
        assert_eq!(find(hybrid, "1:cpu:/x\n0::/\n").as_deref(), Some("/sys/fs/cgroup/unified/"));
        assert_eq!(find(inner, "0::/machine/one/job\n").as_deref(), Some("/sys/fs/cgroup/job"));
        for (mounts, memberships) in [
            ("", "0::/a\n"),
            (unified, ""),
            (unified, "1:cpu:/x\n"),
            (unified, "0::/../other\n"),
            (inner, "0::/machine/two\n"),
            ("29 23 0:26\n", "0::/a\n"),
        ] {
            assert_eq!(find(mounts, memberships), None, "{mounts:?} {memberships:?}");
        }
        let controller = |name| own_folder(hybrid, "3:cpu,cpuacct:/x/y\n0::/\n", Some(name));
        assert_eq!(controller("cpuacct"), Some(PathBuf::from("/sys/fs/cgroup/cpu/x/y")));
        assert_eq!(controller("memory"), None);
    }

    #[test]
    fn a_group_kills_what_has_left_its_process_group_and_nothing_else() {
        let Some(groups) = Groups::open().map(Arc::new).filter(|groups| groups.abilities().kill) else {
            toolcrib_testkit::skip("cgroup", "this process may not make cgroups");
            return;
        };
        // It waits until it is in its group, then leaves its process group and its parent.
        let folder = tempfile::tempdir().expect("a folder");
        let started = |name: &str| {
            let script = format!("read go; (setsid sleep 60 & echo $! >{name}); sleep 60");
            let mut command = Command::new("sh");
            command.args(["-c", &script]).current_dir(folder.path()).stdin(std::process::Stdio::piped());
            let mut child = command.spawn().expect("a shell");
            let process = Pid::from_raw(child.id().cast_signed()).expect("a number");
            let group = groups.create(&Limits::default()).expect("a group");
            assert!(group.enter(process));
            drop(child.stdin.take());
            (child, group)
        };
        let left = |name: &str| {
            for _ in 0..1_000 {
                let text = fs::read_to_string(folder.path().join(name)).unwrap_or_default();
                if let Ok(number) = text.trim().parse::<i32>() {
                    return number;
                }
                sleep(PAUSE);
            }
            panic!("{name} was not started")
        };
        let is_running = |number: i32| {
            let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z")
        };
        let ((mut first, first_group), (mut second, second_group)) = (started("first"), started("second"));
        let (one, two) = (left("first"), left("second"));
        assert!(is_running(one) && is_running(two));
        let removed: Vec<PathBuf> = first_group.folders().map(Path::to_path_buf).collect();
        drop(first_group);
        first.wait().expect("it was killed");
        assert!(!is_running(one) && !removed.iter().any(|folder| folder.exists()));
        assert!(is_running(two), "another program goes on");
        drop(second_group);
        second.wait().expect("it was killed");
        let folder = groups.kill.as_ref().expect("a tree").folder.0.clone();
        drop(groups);
        assert!(!folder.exists());
    }
}
