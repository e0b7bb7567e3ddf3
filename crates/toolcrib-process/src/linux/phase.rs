//! The phase of a supervisor, stored in its process name.
//!
//! The host needs more than an exit code: a program may exit with any code, and a supervisor cannot terminate by every signal that its
//! program may terminate by. The name of a process is readable until the process is waited for, only the process itself can change it, and
//! it needs no file descriptor to be passed along.

use std::ffi::CString;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use rustix::thread::set_name;

use crate::running::Exceeded;

/// A phase of a supervisor. Its text has at most fifteen bytes, the limit for process names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing was started.
    Prepare,
    /// The policy could not be applied; nothing was started.
    Refused,
    /// The program could not be executed.
    NotStarted,
    /// The program runs.
    Running,
    /// The program and everything that it started have ended; holds the wait status.
    Ended(u16, Option<Exceeded>),
}

impl Phase {
    /// Stores the phase in the name of the calling thread, which is the main thread.
    pub(crate) fn set(self) {
        let Ok(name) = CString::new(self.text()) else { return };
        // If this fails, the host still has the exit code.
        let _ = set_name(&name);
    }

    /// The phase of a process that has not been waited for.
    pub(crate) fn of(process: i32) -> Option<Self> {
        Self::parse(fs::read_to_string(format!("/proc/{process}/comm")).ok()?.trim_end_matches('\n'))
    }

    fn text(self) -> String {
        match self {
            Self::Prepare => "prepare".to_owned(),
            Self::Refused => "refused".to_owned(),
            Self::NotStarted => "not started".to_owned(),
            Self::Running => "running".to_owned(),
            Self::Ended(status, exceeded) => {
                let word = match exceeded {
                    None => "ended",
                    Some(Exceeded::Memory) => "memory",
                    Some(Exceeded::Processes) => "processes",
                    Some(Exceeded::FileSize) => "filesize",
                    Some(Exceeded::Cpu) => "cpu",
                };
                format!("{word}:{status}")
            }
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (word, status) = match text.split_once(':') {
            Some((word, status)) => (word, status.parse().ok()?),
            None => (text, 0),
        };
        Some(match word {
            "prepare" => Self::Prepare,
            "refused" => Self::Refused,
            "not started" => Self::NotStarted,
            "running" => Self::Running,
            "ended" => Self::Ended(status, None),
            "memory" => Self::Ended(status, Some(Exceeded::Memory)),
            "processes" => Self::Ended(status, Some(Exceeded::Processes)),
            "filesize" => Self::Ended(status, Some(Exceeded::FileSize)),
            "cpu" => Self::Ended(status, Some(Exceeded::Cpu)),
            _ => return None,
        })
    }
}

/// The exit status of a wait status.
pub(crate) fn exit_status(status: u16) -> ExitStatus {
    ExitStatus::from_raw(i32::from(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_fits_into_a_process_name_and_is_read_back() {
        let exceeded = [None, Some(Exceeded::Memory), Some(Exceeded::Processes), Some(Exceeded::FileSize), Some(Exceeded::Cpu)];
        let ended =
            exceeded.into_iter().flat_map(|exceeded| [0, 9, 0x7f00, u16::MAX].map(|status| Phase::Ended(status, exceeded)));
        for phase in ended.chain([Phase::Prepare, Phase::Refused, Phase::NotStarted, Phase::Running]) {
            let text = phase.text();
            assert!(text.len() <= 15, "{text}");
            assert_eq!(Phase::parse(&text), Some(phase));
        }
        assert_eq!(Phase::parse("ended:x"), None);
        assert_eq!(Phase::parse("node"), None);
        assert_eq!(exit_status(9).signal(), Some(9));
        assert_eq!(exit_status(0x300).code(), Some(3));
    }
}
