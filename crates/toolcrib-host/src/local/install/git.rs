//! Fetches git repositories.
//!
//! git runs as a program, without a shell, with a minimal environment and configuration: no hooks, filters, submodules or credential
//! helpers, and only the allowed protocols. Its time and disk space are limited, and it is killed with all its child processes.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use toolcrib_core::text::escape_for_display;

use super::source::check_git;
use super::{InstallError, Source};

/// Time limit of all commands of one fetch.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// Most bytes of the working copy with its history of one commit: the files uncompressed and compressed.
const MAX_BYTES: u64 = 512 * 1024 * 1024;

/// Most files of the working copy. A repository may contain more than the tool.
const MAX_FILES: usize = 200_000;

/// How often time and space are checked.
const INTERVAL: Duration = Duration::from_millis(100);

/// Most bytes of messages that are kept.
const MAX_MESSAGES: u64 = 8 * 1024;

/// Options for running git.
#[derive(Clone, Debug)]
pub struct GitOptions {
    /// The program.
    pub program: PathBuf,
    /// Additional variables for git: `PATH`, `SSH_AUTH_SOCK`, proxies. Names that begin with `GIT_` are omitted.
    pub environment: Vec<(OsString, OsString)>,
    /// Whether `file:` URLs are allowed.
    pub allow_file: bool,
    /// Time limit of all commands of one fetch.
    pub time_limit: Duration,
    /// Most bytes that a working copy may take.
    pub max_bytes: u64,
}

impl Default for GitOptions {
    fn default() -> Self {
        Self {
            program: PathBuf::from("git"),
            environment: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
            allow_file: false,
            time_limit: TIME_LIMIT,
            max_bytes: MAX_BYTES,
        }
    }
}

/// Fetches a repository into the folder `into`, which must not exist, and returns the commit.
pub(super) fn fetch(source: &Source, into: &Path, options: &GitOptions) -> Result<String, InstallError> {
    let Source::Git { url, revision, .. } = source else { return Err(InstallError::Git("not a repository".to_owned())) };
    check_git(source, options.allow_file).map_err(|problem| InstallError::GitUrl { url: url.clone(), problem })?;
    let git = Git { options, into, deadline: Instant::now() + options.time_limit };
    std::fs::create_dir(into).map_err(InstallError::io(into))?;
    git.run(&["init", "--quiet", "--template=", "--", "."])?;
    let revision = revision.as_deref().unwrap_or("HEAD");
    git.run(&[
        "fetch",
        "--quiet",
        "--depth=1",
        "--no-tags",
        "--no-recurse-submodules",
        "--no-write-fetch-head",
        "--",
        url,
        &format!("{revision}:refs/toolcrib/fetched"),
    ])
    // Git before version 2.29, or servers that need the full name of a tag.
    .or_else(|error| match error {
        InstallError::Git(_) => git
            .run(&[
                "fetch",
                "--quiet",
                "--depth=1",
                "--no-tags",
                "--no-recurse-submodules",
                "--",
                url,
                &format!("refs/tags/{revision}:refs/toolcrib/fetched"),
            ])
            .map_err(|_| error),
        error => Err(error),
    })?;
    git.run(&["checkout", "--quiet", "--detach", "--force", "refs/toolcrib/fetched", "--"])?;
    let commit = git.run(&["rev-parse", "--verify", "HEAD"])?;
    let commit = commit.trim();
    if (40..=64).contains(&commit.len()) && commit.bytes().all(|b| b.is_ascii_hexdigit()) {
        Ok(commit.to_owned())
    } else {
        Err(InstallError::Git("git does not name the commit".to_owned()))
    }
}

struct Git<'g> {
    options: &'g GitOptions,
    into: &'g Path,
    deadline: Instant,
}

impl Git<'_> {
    /// Runs a command in the working copy and returns what it printed.
    fn run(&self, arguments: &[&str]) -> Result<String, InstallError> {
        let mut command = Command::new(&self.options.program);
        let protocols = if self.options.allow_file { "https:ssh:file" } else { "https:ssh" };
        for setting in [
            "core.hooksPath=/dev/null",
            "core.fsmonitor=false",
            "core.protectHFS=true",
            "core.protectNTFS=true",
            "fetch.fsckObjects=true",
            "credential.helper=",
            "submodule.recurse=false",
            "advice.detachedHead=false",
            "init.defaultBranch=main",
        ] {
            command.args(["-c", setting]);
        }
        let own =
            self.options.environment.iter().filter(|(name, _)| !name.to_string_lossy().to_ascii_uppercase().starts_with("GIT_"));
        command
            .args(arguments)
            .current_dir(self.into)
            .env_clear()
            .envs(own.map(|(name, value)| (name, value)))
            .env("GIT_ALLOW_PROTOCOL", protocols)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ASKPASS", "true")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_SSH_COMMAND", "ssh -oBatchMode=yes")
            .env("GIT_LFS_SKIP_SMUDGE", "1")
            .env("HOME", self.into)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        #[cfg(unix)]
        {
            use std::os::unix::process::CommandExt as _;
            command.process_group(0);
        }
        let child = command
            .spawn()
            .map_err(|error| InstallError::Git(format!("{} cannot be started: {error}", self.options.program.display())))?;
        self.wait(Running(child))
    }

    fn wait(&self, mut running: Running) -> Result<String, InstallError> {
        let output = drain(running.0.stdout.take());
        let messages = drain(running.0.stderr.take());
        let status = loop {
            let broken = |error: io::Error| InstallError::Git(error.to_string());
            if let Some(status) = running.0.try_wait().map_err(broken)? {
                break status;
            }
            if Instant::now() >= self.deadline {
                return Err(InstallError::GitLimit(format!("more than {} seconds", self.options.time_limit.as_secs())));
            }
            if !fits(self.into, self.options.max_bytes) {
                return Err(InstallError::GitLimit(format!("more than {} bytes or {MAX_FILES} files", self.options.max_bytes)));
            }
            std::thread::sleep(INTERVAL);
        };
        // Kills remaining child processes of git, which could keep the pipes open.
        drop(running);
        let text = |thread: std::thread::JoinHandle<Vec<u8>>| {
            thread.join().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
        };
        let (output, messages) = (text(output), text(messages));
        if !fits(self.into, self.options.max_bytes) {
            return Err(InstallError::GitLimit(format!("more than {} bytes or {MAX_FILES} files", self.options.max_bytes)));
        }
        if status.success() { Ok(output) } else { Err(InstallError::Git(escape_for_display(messages.trim()))) }
    }
}

/// A child process whose process group is killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        #[cfg(unix)]
        {
            use rustix::process::{Pid, Signal, kill_process_group};
            // The group does not exist any more if all its processes have exited.
            let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads a pipe to its end and keeps the first bytes.
fn drain(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        if let Some(mut pipe) = pipe {
            // An error ends the text early.
            let _ = pipe.by_ref().take(MAX_MESSAGES).read_to_end(&mut kept);
            let _ = io::copy(&mut pipe, &mut io::sink());
        }
        kept
    })
}

/// Whether a folder is within the limits. Files that disappear during the check do not count.
fn fits(folder: &Path, max_bytes: u64) -> bool {
    let (mut bytes, mut files) = (0_u64, 0);
    let mut left = vec![folder.to_owned()];
    while let Some(place) = left.pop() {
        for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
            files += 1;
            let Ok(metadata) = entry.path().symlink_metadata() else { continue };
            if metadata.is_dir() {
                left.push(entry.path());
            } else {
                bytes = bytes.saturating_add(metadata.len());
            }
            if files > MAX_FILES || bytes > max_bytes {
                return false;
            }
        }
    }
    true
}
