//! Sources of tools.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toolcrib_core::text::escape_for_display;

/// Longest URL, revision or subfolder.
const MAX_TEXT: usize = 2_048;

/// The source of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Source {
    /// A local folder.
    Folder {
        /// Its path.
        path: PathBuf,
    },
    /// A local zip file or MCP bundle.
    Archive {
        /// Its path.
        path: PathBuf,
    },
    /// An MCP server of a client's configuration file or of a bundle. Its folder was generated from the list of its tools.
    Server {
        /// The path of the file.
        path: PathBuf,
        /// The name of the server in a configuration file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    /// A git repository.
    Git {
        /// Its URL: https, ssh, or file when the options allow it.
        url: String,
        /// A branch, tag or commit; the default branch otherwise.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        revision: Option<String>,
        /// The folder of the tool in the repository; its root otherwise.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subfolder: Option<String>,
    },
}

/// A text that is not a valid source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not a source: {problem}", escape_for_display(text))]
pub struct SourceError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Source {
    /// Parses a source that a user typed: a URL of a repository, or the path of a folder or archive. Paths become absolute.
    ///
    /// `https://…`, `ssh://…`, `file://…` and `user@host:path` are repositories; a prefix `git+` is removed.
    pub fn parse(text: &str, revision: Option<&str>, subfolder: Option<&str>) -> Result<Self, SourceError> {
        let refused = |problem: &str| SourceError { text: text.to_owned(), problem: problem.to_owned() };
        if text.is_empty() || text.len() > MAX_TEXT || text.contains('\0') {
            return Err(refused("it is empty or too long"));
        }
        let url = text.strip_prefix("git+").unwrap_or(text);
        if url.contains("://") || is_scp_like(url) {
            let source =
                Self::Git { url: url.to_owned(), revision: revision.map(str::to_owned), subfolder: subfolder.map(str::to_owned) };
            check_git(&source, true).map_err(|problem| refused(&problem))?;
            return Ok(source);
        }
        if revision.is_some() || subfolder.is_some() {
            return Err(refused("a revision and a subfolder belong to a repository"));
        }
        let path = std::path::absolute(text).map_err(|error| refused(&error.to_string()))?;
        let metadata = std::fs::metadata(&path).map_err(|error| refused(&error.to_string()))?;
        if metadata.is_dir() {
            Ok(Self::Folder { path })
        } else if metadata.is_file() && is_archive(&path) {
            Ok(Self::Archive { path })
        } else {
            Err(refused("expected a folder, or a file that ends with .zip or .mcpb"))
        }
    }

    /// Formats the source: escaped, without secrets.
    pub fn display(&self) -> String {
        match self {
            Self::Folder { path } | Self::Archive { path } => escape_for_display(&path.to_string_lossy()),
            Self::Server { path, name } => {
                let path = escape_for_display(&path.to_string_lossy());
                name.as_ref().map_or_else(|| path.clone(), |name| format!("{} in {path}", escape_for_display(name)))
            }
            Self::Git { url, revision, subfolder } => {
                let mut text = escape_for_display(url);
                for (mark, part) in [('@', revision), ('/', subfolder)] {
                    if let Some(part) = part {
                        text.extend([' ', mark]);
                        text.push_str(&escape_for_display(part));
                    }
                }
                text
            }
        }
    }
}

fn is_archive(path: &Path) -> bool {
    path.extension()
        .and_then(|ending| ending.to_str())
        .is_some_and(|ending| ["zip", "mcpb", "dxt"].contains(&ending.to_ascii_lowercase().as_str()))
}

/// `user@host:path`, which git interprets as ssh.
fn is_scp_like(text: &str) -> bool {
    let plain =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    text.split_once('@').and_then(|(user, rest)| Some((user, rest.split_once(':')?))).is_some_and(|(user, (host, path))| {
        plain(user) && plain(host) && !path.is_empty() && !user.starts_with('-') && !host.starts_with('-')
    })
}

/// Checks every argument for git. Values from the lock file are checked again, too.
pub(super) fn check_git(source: &Source, allow_file: bool) -> Result<(), String> {
    let Source::Git { url, revision, subfolder } = source else { return Ok(()) };
    for text in [Some(url), revision.as_ref(), subfolder.as_ref()].into_iter().flatten() {
        if text.is_empty()
            || text.len() > MAX_TEXT
            || text.starts_with('-')
            || text.chars().any(|c| c.is_control() || c.is_whitespace())
        {
            return Err("empty, too long, with blanks or control characters, or beginning with a hyphen".to_owned());
        }
    }
    check_url(url, allow_file)?;
    if let Some(revision) = revision {
        // What git accepts as the name of a branch, tag or commit. No `:`, which would make it two names, no `^{…}` and no `..`.
        let usable = revision.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'/' | b'#'));
        if !usable || revision.contains("..") {
            return Err("the revision is not the name of a branch, tag or commit".to_owned());
        }
    }
    if let Some(subfolder) = subfolder
        && (subfolder.contains('\\') || subfolder.split('/').any(|part| matches!(part, "" | "." | ".." | ".git")))
    {
        return Err("the subfolder is not a path within the repository".to_owned());
    }
    Ok(())
}

fn check_url(url: &str, allow_file: bool) -> Result<(), String> {
    if url.contains("::") {
        return Err("remote helpers are not run".to_owned());
    }
    if is_scp_like(url) && !url.contains("://") {
        return Ok(());
    }
    let Some((scheme, rest)) = url.split_once("://") else { return Err("expected https, ssh or file".to_owned()) };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    match scheme {
        "https" if user.is_some() => Err("user and password in the URL would be written to the lock file".to_owned()),
        "ssh" if user.is_some_and(|user| user.contains(':')) => {
            Err("a password in the URL would be written to the lock file".to_owned())
        }
        // A host that begins with a hyphen would be an option of ssh.
        "https" | "ssh" if host.is_empty() || host.starts_with('-') || user.is_some_and(|user| user.starts_with('-')) => {
            Err("the URL has no host".to_owned())
        }
        "https" | "ssh" => Ok(()),
        "file" if allow_file && host.is_empty() => Ok(()),
        "file" => Err("file URLs are taken when that is asked for, and have no host".to_owned()),
        _ => Err("expected https, ssh or file".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(url: &str, revision: Option<&str>, subfolder: Option<&str>, allow_file: bool) -> Result<(), String> {
        let source =
            Source::Git { url: url.to_owned(), revision: revision.map(str::to_owned), subfolder: subfolder.map(str::to_owned) };
        check_git(&source, allow_file)
    }

    #[test]
    fn urls() {
        for good in
            ["https://example.com/a/b.git", "https://example.com:8443/a", "ssh://git@example.com/a", "git@example.com:a/b.git"]
        {
            assert_eq!(git(good, None, None, false), Ok(()), "{good}");
        }
        for bad in [
            "",
            "-uexec",
            "--upload-pack=touch x",
            "ext::sh -c touch",
            "ext::sh",
            "fd::17",
            "http://example.com/a",
            "git://example.com/a",
            "ftp://example.com/a",
            "https://user:secret@example.com/a",
            "https://token@example.com/a",
            "ssh://git:secret@example.com/a",
            "ssh://-oProxyCommand=x/a",
            "ssh://-oProxyCommand=x@host/a",
            "https:///a",
            "file:///tmp/a",
            "/tmp/a",
            "a b",
            "https://example.com/\na",
            "-x@host:path",
            "a@-host:path",
        ] {
            assert!(git(bad, None, None, false).is_err(), "{bad}");
        }
        assert_eq!(git("file:///tmp/a", None, None, true), Ok(()));
        assert!(git("file://host/tmp/a", None, None, true).is_err());
    }

    #[test]
    fn revisions_and_subfolders() {
        let url = "https://example.com/a";
        for good in ["main", "v1.0.0", "feature/x", "0123456789abcdef0123456789abcdef01234567"] {
            assert_eq!(git(url, Some(good), None, false), Ok(()), "{good}");
        }
        for bad in ["-b", "--exec", "a:b", "a..b", "a^{tree}", "a b", "", "+refs/*:refs/*", "@{u}"] {
            assert!(git(url, Some(bad), None, false).is_err(), "{bad}");
        }
        for good in ["tools/x", "x"] {
            assert_eq!(git(url, None, Some(good), false), Ok(()), "{good}");
        }
        for bad in ["", "/x", "../x", "x/../y", "x//y", "x/", ".git", "x\\y", "-x", "."] {
            assert!(git(url, None, Some(bad), false).is_err(), "{bad}");
        }
    }

    #[test]
    fn texts() {
        let folder = tempfile::tempdir().unwrap();
        let zip = folder.path().join("a.ZIP");
        std::fs::write(&zip, "x").unwrap();
        assert!(matches!(Source::parse(folder.path().to_str().unwrap(), None, None), Ok(Source::Folder { .. })));
        assert!(matches!(Source::parse(zip.to_str().unwrap(), None, None), Ok(Source::Archive { .. })));
        assert!(
            matches!(Source::parse("git+https://example.com/a", Some("main"), None), Ok(Source::Git { url, .. }) if url == "https://example.com/a")
        );
        assert!(Source::parse("/nonexistent", None, None).is_err());
        assert!(Source::parse(zip.to_str().unwrap(), Some("main"), None).is_err());
    }
}
