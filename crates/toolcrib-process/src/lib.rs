#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::unwrap_used))]

mod containment;
mod error;
mod launch;
#[cfg(target_os = "linux")]
mod linux;
mod machine;
mod policy;
mod running;
mod spawn;
mod spec;
#[cfg(target_os = "linux")]
mod system_paths;

pub use containment::{Containment, Level, Mechanism, Surface};
pub use error::{SpawnError, WaitError};
pub use launch::{EXIT_NOT_STARTED, EXIT_REFUSED, Launcher, launcher_main};
pub use machine::probe;
pub use policy::{Bubblewrap, Network, Policy};
pub use running::{Ended, Exceeded, Running};
pub use spawn::{adopt_orphans, plan, spawn};
pub use spec::{DEFAULT_FILE_SIZE, DEFAULT_MEMORY, DEFAULT_OPEN_FILES, DEFAULT_PROCESSES, Limits, ProgramSpec, SandboxMode};
#[cfg(target_os = "linux")]
pub use system_paths::{SYSTEM_PATHS, SystemPath, Use};
