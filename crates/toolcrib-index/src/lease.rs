//! Named leases: for tasks that one process of a database does at a time. Times are those of the database.

use toolcrib_store::Migration;
use toolcrib_store::database::Value;

use crate::{Error, Index};

pub(crate) const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    sql: "CREATE TABLE index_lease (name TEXT NOT NULL PRIMARY KEY, owner BYTES NOT NULL, until BIGINT NOT NULL);",
}];

const TAKE: &str = "INSERT INTO index_lease (name, owner, until) VALUES ($1, $2, $3)
    ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until WHERE index_lease.until <= $4";
const RENEW: &str = "UPDATE index_lease SET until = $3 WHERE name = $1 AND owner = $2";
const RELEASE: &str = "UPDATE index_lease SET until = 0 WHERE name = $1 AND owner = $2";

/// A lease for a task that one process does at a time. Each has its own random owner, so a lost lease is not mistaken for this one.
#[derive(Debug)]
pub(crate) struct NamedLease {
    index: Index,
    name: &'static str,
    owner: [u8; 16],
    seconds: i64,
}

impl NamedLease {
    /// Acquires the lease if it is free.
    pub(crate) async fn take(index: &Index, name: &'static str, seconds: i64) -> Result<Option<Self>, Error> {
        let mut owner = [0; 16];
        getrandom::fill(&mut owner).map_err(|_| Error::Store(toolcrib_store::Error::Random))?;
        let now = index.database().now().await?;
        let values = [Value::Text(name), Value::Bytes(&owner), Value::Integer(now + seconds), Value::Integer(now)];
        let is_taken = index.database().execute(TAKE, &values).await? == 1;
        Ok(is_taken.then(|| Self { index: index.clone(), name, owner, seconds }))
    }

    /// Renews the lease. An error when another process has it.
    pub(crate) async fn renew(&self) -> Result<(), Error> {
        let now = self.index.database().now().await?;
        let values = [Value::Text(self.name), Value::Bytes(&self.owner), Value::Integer(now + self.seconds)];
        if self.index.database().execute(RENEW, &values).await? == 1 { Ok(()) } else { Err(Error::LeaseLost) }
    }

    /// Releases the lease, so that the next process need not wait until it expires.
    pub(crate) async fn release(self) -> Result<(), Error> {
        self.index.database().execute(RELEASE, &[Value::Text(self.name), Value::Bytes(&self.owner)]).await?;
        Ok(())
    }
}
