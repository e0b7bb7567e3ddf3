//! Older versions of a file, from its git history.
//!
//! Only plumbing commands are run, without a shell: they do not start a pager, a signature check or a filter that a repository could
//! configure, and do not fetch. Count and size are limited.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use toolcrib_core::codes;
use toolcrib_core::json::MAX_BYTES;
use toolcrib_judge::explain::MAX_CANDIDATES;

use crate::outcome::Failure;

/// Most bytes of all versions together: enough for many of usual size, and for sixteen of the largest.
const MAX_TOTAL_BYTES: usize = 16 << 20;

/// Most bytes of an error message of git. The first line is enough.
const MAX_COMPLAINT_BYTES: u64 = 2_048;

/// Digits of a commit hash in a label, as git abbreviates those of large repositories.
const SHORT_COMMIT: usize = 12;

/// A version of a file.
#[derive(Debug)]
pub(crate) struct Version {
    /// Its label.
    pub(crate) label: String,
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
}

/// The versions of `file` in the history of the current branch, the newest first.
pub(crate) fn versions(file: &Path) -> Result<Vec<Version>, Failure> {
    let refuse = |reason: &str| Failure::new(codes::cli::GIT, format!("no history of {}: {reason}", file.display()));
    let name = file.file_name().and_then(|name| name.to_str()).ok_or_else(|| refuse("the path is not a file"))?;
    let folder = match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let count = format!("--max-count={MAX_CANDIDATES}");
    // A commit has 40 or 64 digits and a line end.
    let list = git(folder, &["rev-list", &count, "HEAD", "--", name], MAX_CANDIDATES * 65).map_err(|reason| refuse(&reason))?;
    let list = String::from_utf8(list).map_err(|_| refuse("git did not list commits"))?;
    let (mut versions, mut left) = (Vec::new(), MAX_TOTAL_BYTES);
    for commit in list.lines() {
        if !commit.bytes().all(|byte| byte.is_ascii_hexdigit()) || commit.len() < SHORT_COMMIT {
            return Err(refuse("git did not list commits"));
        }
        let limit = left.min(MAX_BYTES);
        // A commit that removed the file, or a file too large for a manifest, is skipped.
        if let Ok(bytes) = git(folder, &["cat-file", "blob", &format!("{commit}:./{name}")], limit) {
            left -= bytes.len();
            versions.push(Version { label: format!("{name} of commit {}", &commit[..SHORT_COMMIT]), bytes });
        }
        if left == 0 {
            break;
        }
    }
    if versions.is_empty() {
        return Err(refuse("git has no version of the file"));
    }
    Ok(versions)
}

/// Runs git and returns its output or the error.
fn git(folder: &Path, arguments: &[&str], limit: usize) -> Result<Vec<u8>, String> {
    let mut child = Command::new("git")
        .args(["--no-pager", "--literal-pathspecs", "--no-replace-objects"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound if folder.is_dir() => "git is not installed".to_owned(),
            io::ErrorKind::NotFound => "the folder does not exist".to_owned(),
            _ => format!("git cannot be run: {error}"),
        })?;
    let mut bytes = Vec::new();
    let read = match child.stdout.take() {
        Some(pipe) => pipe.take(limit as u64 + 1).read_to_end(&mut bytes),
        None => Ok(0),
    };
    if bytes.len() > limit {
        // Git may still be writing the rest.
        let _ = child.kill();
    }
    let mut complaint = Vec::new();
    if let Some(pipe) = child.stderr.take() {
        // If stderr cannot be read, the error only lacks its text.
        let _ = pipe.take(MAX_COMPLAINT_BYTES).read_to_end(&mut complaint);
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    read.map_err(|error| error.to_string())?;
    if bytes.len() > limit {
        return Err("the output is too large".to_owned());
    }
    if !status.success() {
        let complaint = String::from_utf8_lossy(&complaint);
        let first = complaint.lines().next().unwrap_or_default().trim();
        return Err(if first.is_empty() { "git failed".to_owned() } else { first.to_owned() });
    }
    Ok(bytes)
}
