//! Features of Linux only: control groups, subreapers, Landlock, seccomp.

pub(crate) mod cgroup;
pub(crate) mod landlock;
mod launcher;
pub(crate) mod orphans;
pub(crate) mod phase;
pub(crate) mod processes;
mod restrict;
pub(crate) mod seccomp;
mod supervise;

pub(crate) use launcher::launcher;
