//! The location of a database, as an operator writes it in the settings.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::Error;

/// Default limit of connections to PostgreSQL for one process.
///
/// A server allows a hundred by default, and several replicas share it. Commits that wait for the disk share a sync, so more connections
/// than cores make sense.
const CONNECTIONS: u32 = 16;

/// The location of a database. The password of a URL is neither printed nor part of `Debug`.
#[derive(Clone)]
pub struct Location(Kind);

#[derive(Clone)]
pub(super) enum Kind {
    Memory,
    File(PathBuf),
    Postgres { url: String, connections: u32 },
}

impl Location {
    /// Whether processes on several machines can use it.
    pub const fn is_shared(&self) -> bool {
        matches!(self.0, Kind::Postgres { .. })
    }

    /// Whether it is lost when this process ends.
    pub const fn is_memory(&self) -> bool {
        matches!(self.0, Kind::Memory)
    }

    /// SQLite in the memory of this process, lost when it ends.
    pub const fn memory() -> Self {
        Self(Kind::Memory)
    }

    /// SQLite in a file. Two more files are created next to it, with `-wal` and `-shm` appended. Not for network drives.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self(Kind::File(path.into()))
    }

    /// PostgreSQL at a URL such as `postgres://user:password@host:5432/database?sslmode=verify-full`.
    pub fn postgres(url: impl Into<String>) -> Result<Self, Error> {
        let url = url.into();
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(Error::Location { reason: "a PostgreSQL URL begins with postgres://" });
        }
        Ok(Self(Kind::Postgres { url, connections: CONNECTIONS }))
    }

    /// Parses a setting: `memory`, `sqlite:PATH`, or a PostgreSQL URL.
    pub fn parse(setting: &str) -> Result<Self, Error> {
        match setting.split_once(':') {
            None if setting == "memory" => Ok(Self::memory()),
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::file(path)),
            Some(("postgres" | "postgresql", _)) => Self::postgres(setting),
            _ => Err(Error::Location { reason: "write memory, sqlite:PATH or postgres://…" }),
        }
    }

    /// Sets the most connections to PostgreSQL, at least one. SQLite ignores it.
    #[must_use]
    pub fn connections(mut self, most: u32) -> Self {
        if let Kind::Postgres { connections, .. } = &mut self.0 {
            *connections = most.max(1);
        }
        self
    }

    /// Whether it contains a password, and so must not be a command-line argument, which every user of the machine can see.
    pub fn has_password(&self) -> bool {
        let Kind::Postgres { url, .. } = &self.0 else { return false };
        let rest = url.split_once("://").map_or("", |(_, rest)| rest);
        // A password may contain any unescaped character: everything before the last `@` counts.
        rest.rsplit_once('@').is_some_and(|(user, _)| user.contains(':')) || url.contains("password=")
    }

    pub(super) const fn kind(&self) -> &Kind {
        &self.0
    }

    /// Returns the file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Kind::File(path) => Some(path),
            Kind::Memory | Kind::Postgres { .. } => None,
        }
    }
}

impl fmt::Display for Location {
    /// Of a URL only host and database are shown. Anything unexpected is omitted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Memory => f.write_str("memory"),
            Kind::File(path) => write!(f, "sqlite:{}", path.display()),
            Kind::Postgres { url, .. } => {
                let rest = url.split_once("://").map_or("", |(_, rest)| rest);
                let rest = rest.split(['?', '#']).next().unwrap_or_default();
                // A password may contain an unescaped slash or `@`: the part after the last `@` is safe.
                let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
                let plain = |c: char| c.is_ascii_alphanumeric() || "-._:/[]".contains(c);
                // Without an `@` there should be no password; `host:port` has digits after the colon, `user:password` may not.
                let odd = !url.contains('@') && rest.split('/').next().is_some_and(|host| host.contains(':') && !port(host));
                if odd || !rest.chars().all(plain) { f.write_str("postgres://…") } else { write!(f, "postgres://{rest}") }
            }
        }
    }
}

fn port(host: &str) -> bool {
    host.ends_with(']')
        || host.rsplit_once(':').is_some_and(|(_, port)| port.len() <= 5 && port.bytes().all(|b| b.is_ascii_digit()))
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Location({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(setting: &str, shown: &str) {
        let location = Location::parse(setting).unwrap();
        assert_eq!(location.to_string(), shown);
        assert_eq!(format!("{location:?}"), format!("Location({shown})"));
    }

    #[test]
    fn settings_are_read_and_shown_without_their_passwords() {
        check("memory", "memory");
        check("sqlite:/var/lib/toolcrib/store.db", "sqlite:/var/lib/toolcrib/store.db");
        check("postgres://user:hidden@db.example.com:5432/gate?sslmode=verify-full", "postgres://db.example.com:5432/gate");
        check("postgresql://db/gate", "postgres://db/gate");
        check("postgres://user:hid@den/x@db/gate", "postgres://db/gate");
        check("postgres://db/gate?password=hidden", "postgres://db/gate");
        check("postgres:///gate?host=/run/postgresql&password=hidden", "postgres:///gate");
        check("postgres://user:hidden/gate", "postgres://…");
        check("postgres://user:hid den@db/gate", "postgres://db/gate");
        check("postgres://[::1]:5432/gate", "postgres://[::1]:5432/gate");
    }

    #[test]
    fn a_password_is_found_wherever_it_is() {
        for (setting, has_password) in [
            ("postgres://user:hidden@db/gate", true),
            ("postgres://db/gate?user=a&password=hidden", true),
            ("postgres://user:hid@den/x@db/gate", true),
            ("postgres://user@db:5432/gate", false),
            ("postgres://db:5432/gate", false),
            ("postgres:///gate?host=/run/postgresql", false),
            ("sqlite:/a:b@c", false),
        ] {
            assert_eq!(Location::parse(setting).unwrap().has_password(), has_password, "{setting}");
        }
    }

    #[test]
    fn other_settings_are_refused_without_repeating_them() {
        for setting in
            ["", "sqlite:", "mysql://root:hidden@db/x", "/var/lib/hidden.db", "postgres:hidden", "Postgres://a:hidden@b/c"]
        {
            let error = Location::parse(setting).unwrap_err();
            assert_eq!(error.code().id(), "store.location", "{setting}");
            assert!(!format!("{error} {error:?}").contains("hidden"), "{error:?}");
        }
    }
}
