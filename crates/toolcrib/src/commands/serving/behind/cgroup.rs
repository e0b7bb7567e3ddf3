//! A control group (cgroup v2) for each call, where the system lets us make one.
//!
//! `cgroup.kill` ends every process of a group at once, also those that have left the process group or lost their parent, and none of
//! another call. Root may make groups, and so may a user to whom the service manager has delegated one (`Delegate=yes` in systemd).
//!
//! A program enters its group right after it was started. What it starts before that moment stays outside and is left to
//! [`strays`](super::strays), which also does the whole work where there are no groups.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, getpid};

/// How the names of our groups begin; the process id of the gate follows.
const PREFIX: &str = "toolcrib-";

/// How often the removal of a group is tried. Killed processes leave it within milliseconds.
const TRIES: usize = 20;

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(5);

/// The group that holds those of all calls. Removed when it is dropped, if it is empty.
#[derive(Debug)]
pub(super) struct Groups {
    folder: PathBuf,
    next: AtomicU64,
}

impl Groups {
    /// Makes a group below the one that this process is in. `None` where there is no cgroup v2, no right to make a group, or a kernel
    /// without `cgroup.kill` (before Linux 5.14).
    pub(super) fn open() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let memberships = fs::read_to_string("/proc/self/cgroup").ok()?;
        Self::below(&own_folder(&mounts, &memberships)?)
    }

    fn below(own: &Path) -> Option<Self> {
        remove_abandoned(own);
        // Several tools behind one gate have a group each.
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = own.join(format!("{PREFIX}{}-{number}", getpid().as_raw_nonzero()));
        fs::create_dir(&folder).ok()?;
        let groups = Self { folder, next: AtomicU64::new(0) };
        groups.folder.join("cgroup.kill").exists().then_some(groups)
    }

    /// Puts a process into a new group. `None` if it has ended, or the system refuses.
    pub(super) fn enter(&self, process: Pid) -> Option<Group> {
        let folder = self.folder.join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        fs::create_dir(&folder).ok()?;
        // Removed again if the next step fails.
        let group = Group { folder };
        fs::write(group.folder.join("cgroup.procs"), process.as_raw_nonzero().to_string()).ok()?;
        Some(group)
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

/// The group of one call. Dropping it ends its processes and removes it, which may take some milliseconds.
#[derive(Debug)]
pub(super) struct Group {
    folder: PathBuf,
}

impl Group {
    /// Kills every process of the group. Returns before they are gone.
    pub(super) fn kill(&self) {
        // A group that is gone has no processes.
        let _ = fs::write(self.folder.join("cgroup.kill"), "1");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        remove(&self.folder);
    }
}

fn remove(folder: &Path) {
    for attempt in 0..TRIES {
        if attempt > 0 {
            sleep(PAUSE);
        }
        match fs::remove_dir(folder) {
            // Processes that were killed are still there.
            Err(error) if error.kind() == ErrorKind::ResourceBusy => {}
            _ => return,
        }
    }
}

/// Removes empty groups of gates that were killed. Groups with processes stay: they may belong to a gate whose id we cannot see.
fn remove_abandoned(own: &Path) {
    for entry in fs::read_dir(own).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')) else { continue };
        if Path::new("/proc").join(id.0).exists() {
            continue;
        }
        for call in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
            let _ = fs::remove_dir(call.path());
        }
        let _ = fs::remove_dir(entry.path());
    }
}

/// The folder of the group that this process is in, from the texts of `/proc/self/mountinfo` and `/proc/self/cgroup`.
fn own_folder(mounts: &str, memberships: &str) -> Option<PathBuf> {
    let member = memberships.lines().find_map(|line| line.strip_prefix("0::/"))?;
    // A process that was moved out of the part of the tree that it can see.
    if member.split('/').any(|part| part == "..") {
        return None;
    }
    let (root, mount) = mounts.lines().find_map(|line| {
        let (fields, kind) = line.split_once(" - ")?;
        let mut fields = fields.split(' ').skip(3);
        let (root, mount) = (fields.next()?, fields.next()?);
        // Spaces in names are written as octal numbers; cgroups are not mounted in such places.
        (kind.starts_with("cgroup2 ") && !mount.contains('\\')).then_some((root, mount))
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
        let hybrid = "40 31 0:37 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        let inner = "29 23 0:26 /machine/one /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        let find = |mounts: &str, memberships: &str| Some(own_folder(mounts, memberships)?.to_str()?.to_owned());
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
    }

    #[test]
    fn a_group_ends_what_has_left_its_process_group_and_nothing_else() {
        let Some(groups) = Groups::open() else {
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
            let group = groups.enter(process).expect("a group");
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
        let removed = first_group.folder.clone();
        drop(first_group);
        first.wait().expect("it was killed");
        assert!(!is_running(one) && !removed.exists());
        assert!(is_running(two), "another call goes on");
        drop(second_group);
        second.wait().expect("it was killed");
        let folder = groups.folder.clone();
        drop(groups);
        assert!(!folder.exists());
    }
}
