//! The permissions of a sandboxed program.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The permissions of a sandboxed program. Everything that is not listed is denied.
///
/// The default grants the program itself, its interpreter and the [system paths](crate::SYSTEM_PATHS), and nothing else: no files of the
/// user, no writable folder, no network, no Unix sockets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Policy {
    /// Files and folders that may be read. Absolute paths that exist.
    pub read: Vec<PathBuf>,
    /// Files and folders that may be read and written. Folders: files in them may be created and removed, but not executed.
    pub write: Vec<PathBuf>,
    /// Files and folders that may be read and executed: helpers of the program, an interpreter outside the system paths.
    ///
    /// It does not protect against other code: an allowed interpreter runs any script that it may read.
    pub execute: Vec<PathBuf>,
    /// Network access.
    pub network: Network,
    /// Whether the program may create Unix sockets, and so connect to every service of the user that listens on one, such as D-Bus and
    /// Docker. `socketpair` for streams works without it.
    pub unix_sockets: bool,
    /// Whether the program may change modes, owners, times and attributes of files by their paths. Landlock cannot restrict this, so it
    /// applies to all files of the user or none. Without it a program can set them on files that it has opened, which is how most programs
    /// do it.
    pub file_modes: bool,
    /// Whether the [system paths](crate::SYSTEM_PATHS) are granted. Few programs start without them.
    pub system_paths: bool,
    /// Namespaces around the program, in addition to the other restrictions.
    pub isolation: Option<Bubblewrap>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            read: Vec::new(),
            write: Vec::new(),
            execute: Vec::new(),
            network: Network::None,
            unix_sockets: false,
            file_modes: false,
            system_paths: true,
            isolation: None,
        }
    }
}

impl Policy {
    /// All paths of the policy.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.read.iter().chain(&self.write).chain(&self.execute)
    }
}

/// Network access of a sandboxed program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Network {
    /// No network: sockets of the Internet families cannot be created.
    #[default]
    None,
    /// TCP connections to these ports of any host. No UDP, no listening.
    ///
    /// Name resolution usually uses UDP. With port 53 in the list the resolver of glibc is configured to use TCP (`RES_OPTIONS=use-vc`).
    Ports(Vec<u16>),
    /// TCP and UDP without restriction. Raw sockets need privileges, which no sandboxed program has.
    Any,
}

/// Requires bubblewrap around the program: separate mount, process, IPC, UTS and user namespaces, and without network an empty network
/// namespace.
///
/// The system paths, the paths of the policy and the program are mounted at the same paths; `/tmp` and the home folder are missing. `/proc`
/// shows the processes of the program only, and is readable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bubblewrap {
    /// The absolute path of `bwrap`.
    pub program: PathBuf,
}

impl Bubblewrap {
    /// Searches for `bwrap` in folders such as those of `PATH`.
    pub fn find(folders: impl IntoIterator<Item = PathBuf>) -> Option<Self> {
        folders
            .into_iter()
            .map(|folder| folder.join("bwrap"))
            .find(|program| program.is_absolute() && program.is_file())
            .map(|program| Self { program })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_has_one_json_form_and_unknown_members_are_refused() {
        let policy = Policy { read: vec!["/srv".into()], network: Network::Ports(vec![443]), ..Policy::default() };
        let text = serde_json::to_string(&policy).expect("JSON");
        assert_eq!(
            text,
            r#"{"read":["/srv"],"write":[],"execute":[],"network":{"ports":[443]},"unixSockets":false,"fileModes":false,"systemPaths":true,"isolation":null}"#
        );
        assert_eq!(serde_json::from_str::<Policy>(&text).expect("a policy"), policy);
        assert_eq!(serde_json::from_str::<Policy>("{}").expect("a policy"), Policy::default());
        assert!(serde_json::from_str::<Policy>(r#"{"raed":[]}"#).is_err());
    }
}
