//! Paths that most programs need to start, and that contain no user data.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::policy::{Network, Policy};

/// Bytes of a script's first line that the kernel reads.
const INTERPRETER_LINE: u64 = 256;

/// A path that sandboxed programs get in addition to those of their policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemPath {
    /// The path. It is granted if it exists.
    pub path: &'static str,
    /// The permitted use.
    pub usage: Use,
    /// Whether only programs with network access get it.
    pub needs_network: bool,
    /// The reason.
    pub reason: &'static str,
}

/// The permitted use of a [system path](SystemPath).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Reading.
    Read,
    /// Reading and executing.
    Execute,
    /// Reading and writing.
    ReadWrite,
}

const fn path(path: &'static str, usage: Use, reason: &'static str) -> SystemPath {
    SystemPath { path, usage, needs_network: false, reason }
}

const fn network(path: &'static str, reason: &'static str) -> SystemPath {
    SystemPath { path, usage: Use::Read, needs_network: true, reason }
}

/// The paths. Nothing in a home folder, `/tmp`, `/var` or `/run`, and only single files in `/etc`.
///
/// `/proc` is missing: it shows the command lines of all processes. A program can still resolve the links in `/proc/self`, such as
/// `/proc/self/exe` and `/dev/stdin`, because Landlock does not restrict links. `/etc/passwd` is missing too: it contains the user names.
pub const SYSTEM_PATHS: &[SystemPath] = &[
    path("/usr", Use::Execute, "programs and libraries of the distribution"),
    path("/bin", Use::Execute, "programs, where not a link into /usr"),
    path("/sbin", Use::Execute, "programs, where not a link into /usr"),
    path("/lib", Use::Execute, "libraries and the dynamic loader"),
    path("/lib32", Use::Execute, "libraries"),
    path("/lib64", Use::Execute, "libraries and the dynamic loader"),
    path("/libx32", Use::Execute, "libraries"),
    path("/nix/store", Use::Execute, "all programs and libraries of NixOS"),
    path("/gnu/store", Use::Execute, "all programs and libraries of Guix"),
    path("/etc/alternatives", Use::Execute, "links of Debian to the chosen program of a kind"),
    path("/etc/ld.so.cache", Use::Read, "where the dynamic loader finds libraries"),
    path("/etc/ld.so.conf", Use::Read, "where the dynamic loader finds libraries"),
    path("/etc/ld.so.conf.d", Use::Read, "where the dynamic loader finds libraries"),
    path("/etc/ld.so.preload", Use::Read, "libraries that the administrator loads into all programs"),
    path("/etc/localtime", Use::Read, "the time zone"),
    path("/etc/timezone", Use::Read, "the time zone"),
    path("/etc/locale.alias", Use::Read, "names of locales"),
    path("/etc/ssl/certs", Use::Read, "public certificates; the keys beside them stay out"),
    path("/etc/ssl/cert.pem", Use::Read, "public certificates"),
    path("/etc/ssl/openssl.cnf", Use::Read, "settings of OpenSSL, which Node and Python read when they start"),
    path("/etc/pki/tls/certs", Use::Read, "public certificates on Fedora"),
    path("/etc/pki/tls/openssl.cnf", Use::Read, "settings of OpenSSL on Fedora"),
    path("/etc/pki/ca-trust/extracted", Use::Read, "public certificates on Fedora"),
    path("/etc/ca-certificates/extracted", Use::Read, "public certificates on Arch"),
    path("/etc/crypto-policies", Use::Read, "settings of OpenSSL on Fedora"),
    path("/dev/null", Use::ReadWrite, "discards output"),
    path("/dev/zero", Use::Read, "zero bytes"),
    path("/dev/full", Use::ReadWrite, "a full disk, for tests of error handling"),
    path("/dev/random", Use::Read, "random bytes"),
    path("/dev/urandom", Use::Read, "random bytes"),
    path("/proc/cpuinfo", Use::Read, "the processors; runtimes choose their threads and code by it"),
    path("/proc/meminfo", Use::Read, "the memory; runtimes choose the sizes of their heaps by it"),
    path("/proc/stat", Use::Read, "use of the processors; Node counts them by it"),
    path("/proc/filesystems", Use::Read, "read by the C library and by SELinux libraries when programs start"),
    path("/proc/sys/vm/overcommit_memory", Use::Read, "read by allocators"),
    path("/sys/devices/system/cpu", Use::Read, "the number of processors"),
    path("/sys/kernel/mm/transparent_hugepage", Use::Read, "sizes of pages; read by allocators and Go"),
    network("/etc/resolv.conf", "the name servers"),
    network("/etc/hosts", "host names of this machine"),
    network("/etc/nsswitch.conf", "how names are resolved"),
    network("/etc/host.conf", "how names are resolved"),
    network("/etc/gai.conf", "which address of a host is preferred"),
    network("/etc/services", "names of ports"),
];

/// The system paths that a policy grants.
pub(crate) fn granted(policy: &Policy) -> impl Iterator<Item = &'static SystemPath> {
    let has_network = policy.network != Network::None;
    SYSTEM_PATHS.iter().filter(move |path| has_network || !path.needs_network)
}

/// The interpreters of a script, from its first line: the named one, and for `env` the one that `env` finds in `search`.
///
/// The line comes from the script, which may be hostile. It only grants executable files, and only to read and execute them.
pub(crate) fn interpreters(program: &Path, search: &[PathBuf]) -> Vec<PathBuf> {
    let mut line = Vec::new();
    // A program that cannot be read may still be executed; it is not a script then.
    let read = File::open(program).and_then(|file| file.take(INTERPRETER_LINE).read_to_end(&mut line));
    if read.is_err() {
        return Vec::new();
    }
    let is_program = |path: &PathBuf| {
        path.is_absolute()
            && path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    let (named, argument) = interpreter_line(&line);
    let Some(named) = named.filter(is_program) else { return Vec::new() };
    let mut found = Vec::new();
    if named.file_name().is_some_and(|name| name == "env")
        && let Some(argument) = argument
    {
        found.extend(search.iter().map(|folder| folder.join(&argument)).find(is_program));
    }
    found.push(named);
    found
}

/// The interpreter of a first line and the first argument that is not an option.
fn interpreter_line(bytes: &[u8]) -> (Option<PathBuf>, Option<PathBuf>) {
    let Some(line) = bytes.strip_prefix(b"#!") else { return (None, None) };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let to_path = |word: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(word));
    (words.next().map(to_path), words.find(|word| !word.starts_with(b"-") && !word.contains(&b'=')).map(to_path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_are_executable_files_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let script = folder.path().join("script");
        let search = [PathBuf::from("relative"), PathBuf::from("/nonexistent"), PathBuf::from("/usr/bin")];
        let interpreters = |text: &str| {
            std::fs::write(&script, text).expect("written");
            interpreters(&script, &search)
        };
        assert_eq!(interpreters("#!/bin/sh\n"), [PathBuf::from("/bin/sh")]);
        assert_eq!(interpreters("#! /usr/bin/env -S sh -e\n"), [PathBuf::from("/usr/bin/sh"), PathBuf::from("/usr/bin/env")]);
        for hostile in
            ["", "#!", "#!\n", "#!/etc/passwd\n", "#!bin/sh\n", "#!/root\n", "\x7fELF", "#!/usr/bin/../../etc/shadow\n"]
        {
            assert!(interpreters(hostile).is_empty(), "{hostile:?}");
        }
        assert!(super::interpreters(&folder.path().join("absent"), &search).is_empty());
    }

    #[test]
    fn files_for_name_resolution_come_with_the_network() {
        let has = |network| granted(&Policy { network, ..Policy::default() }).any(|path| path.path == "/etc/resolv.conf");
        assert!(!has(Network::None));
        assert!(has(Network::Ports(vec![443])));
        assert!(has(Network::Any));
        assert!(SYSTEM_PATHS.iter().all(|path| path.path.starts_with('/') && !path.reason.is_empty()));
        let private = ["/root", "/home", "/tmp", "/var", "/run", "/etc/ssl/private", "/etc/shadow", "/proc"];
        for path in SYSTEM_PATHS {
            assert!(!private.iter().any(|private| Path::new(private).starts_with(path.path)), "{}", path.path);
        }
    }
}
