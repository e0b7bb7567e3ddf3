//! The lease for following a registry.
//!
//! A lease is a row. Its holder writes; the other followers poll until it expires. The row also has a fencing number that grows whenever
//! the lease changes hands, and every transaction of a follower checks both in its first statement, which keeps the row locked until the
//! commit: a follower that was suspended past the end of its lease commits nothing, whatever its clock says.

use std::sync::Arc;

use toolcrib_core::clock::Clock;
use toolcrib_store::Database;
use toolcrib_store::database::{Transaction, Value};

use crate::Error;
use crate::model::RegistryId;

const TAKE: &str = "INSERT INTO index_follower (registry, owner, token, until) VALUES ($1, $2, 1, $3)
    ON CONFLICT (registry) DO UPDATE SET owner = excluded.owner, token = index_follower.token + 1, until = excluded.until
    WHERE index_follower.until <= $4";
const HELD: &str = "SELECT token FROM index_follower WHERE registry = $1 AND owner = $2 AND until > $3";
const FENCE: &str = "UPDATE index_follower SET until = $4 WHERE registry = $1 AND owner = $2 AND token = $3";
const RELEASE: &str = "UPDATE index_follower SET until = 0 WHERE registry = $1 AND owner = $2 AND token = $3";

/// The lease for writing a registry's events.
#[derive(Clone)]
pub(super) struct Lease {
    registry: RegistryId,
    owner: [u8; 16],
    token: i64,
    seconds: i64,
    clock: Arc<dyn Clock + Send + Sync>,
}

impl Lease {
    /// Acquires the lease if it is free. Each attempt has its own random owner, so a lost lease is not mistaken for this one.
    pub(super) async fn take(
        database: &Database,
        registry: RegistryId,
        seconds: i64,
        clock: &Arc<dyn Clock + Send + Sync>,
    ) -> Result<Option<Self>, Error> {
        let mut owner = [0; 16];
        getrandom::fill(&mut owner).map_err(|_| Error::Store(toolcrib_store::Error::Random))?;
        let now = clock.now();
        let until = now.plus(seconds).seconds();
        let values = [Value::Integer(registry.0), Value::Bytes(&owner), Value::Integer(until), Value::Integer(now.seconds())];
        if database.execute(TAKE, &values).await? == 0 {
            return Ok(None);
        }
        let row = database.fetch_optional(HELD, &[values[0], values[1], values[3]]).await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(Self { registry, owner, token: row.scalar()?, seconds, clock: Arc::clone(clock) }))
    }

    /// The first statement of every transaction. From here on others wait for the row, and then find the lease renewed.
    pub(super) async fn fence(&self, transaction: &mut Transaction) -> Result<(), Error> {
        let until = self.clock.now().plus(self.seconds).seconds();
        let values =
            [Value::Integer(self.registry.0), Value::Bytes(&self.owner), Value::Integer(self.token), Value::Integer(until)];
        match transaction.execute(FENCE, &values).await? {
            1 => Ok(()),
            _ => Err(Error::LeaseLost),
        }
    }

    /// Renews the lease.
    pub(super) async fn renew(&self, database: &Database) -> Result<(), Error> {
        let mut transaction = database.begin().await?;
        self.fence(&mut transaction).await?;
        Ok(transaction.commit().await?)
    }

    /// Releases the lease, so that the next follower need not wait until it expires.
    pub(super) async fn release(&self, database: &Database) -> Result<(), Error> {
        let values = [Value::Integer(self.registry.0), Value::Bytes(&self.owner), Value::Integer(self.token)];
        database.execute(RELEASE, &values).await?;
        Ok(())
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease").field("registry", &self.registry).field("token", &self.token).finish_non_exhaustive()
    }
}
