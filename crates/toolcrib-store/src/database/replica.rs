//! Read replicas: databases that follow another one, and are only read.
//!
//! A replica is opened without connecting to it, since one that is down must not prevent the start. Its connections are read-only on the
//! client side as well: a replica that an operator promotes between two checks still gets no write.

use super::{Database, Location, Module, Pools, location, migrate, postgres};
use crate::Error;

/// Whether the server follows another one. A promoted one does not.
const FOLLOWS: &str = "SELECT pg_is_in_recovery()";

/// A replica that is still behind the first migration has no such table.
const HAS_MIGRATIONS: &str = "SELECT to_regclass('toolcrib_migration') IS NOT NULL";

impl Database {
    /// Opens a replica for reading, without connecting to it yet. Only PostgreSQL has replicas.
    pub fn open_replica(location: &Location) -> Result<Self, Error> {
        let location::Kind::Postgres { url, connections } = location.kind() else {
            return Err(Error::Location { reason: "read replicas require PostgreSQL; write postgres://…" });
        };
        Ok(Self {
            pools: Pools::Postgres(postgres::open_replica(url, *connections)?),
            name: location.to_string().into(),
            file: None,
        })
    }

    /// Returns the name of the database for logs, without a password.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether this server follows another one.
    pub async fn is_replica(&self) -> Result<bool, Error> {
        if !matches!(self.pools, Pools::Postgres(_)) {
            return Ok(false);
        }
        self.fetch_optional(FOLLOWS, &[]).await?.ok_or(Error::Corrupt { what: "state of recovery" })?.scalar()
    }

    /// Returns the first of these migrations that the database lacks, without applying it.
    pub async fn missing_migration(&self, modules: &[Module<'_>]) -> Result<Option<(&'static str, i64)>, Error> {
        if matches!(self.pools, Pools::Postgres(_)) {
            let row = self.fetch_optional(HAS_MIGRATIONS, &[]).await?.ok_or(Error::Corrupt { what: "catalogue" })?;
            if !row.scalar::<bool>()? {
                return Ok(modules.iter().find_map(|(module, all)| Some((*module, all.first()?.version))));
            }
        }
        let applied = self.fetch(migrate::APPLIED, &[]).await?;
        let missing = migrate::missing(modules, &applied)?;
        Ok(missing.first().map(|(module, migration)| (*module, migration.version)))
    }
}
