//! Who follows a registry.
//!
//! A lease is a row. Whoever holds it writes; the others look from time to time whether it has run out. The row also carries a number that
//! grows whenever the lease changes hands, and every transaction of a follower checks both in its first statement, which keeps the row
//! locked until the commit: one that slept through the end of its lease commits nothing, whatever its clock says.

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

/// The right to write what a registry's chain says.
#[derive(Clone)]
pub(super) struct Lease {
    registry: RegistryId,
    owner: [u8; 16],
    token: i64,
    seconds: i64,
    clock: Arc<dyn Clock + Send + Sync>,
}

impl Lease {
    /// Takes the lease if nobody holds it. Each try is another owner, so a lease that was lost is not mistaken for one's own.
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

    /// The first statement of every transaction. Others wait for the row from here on, and find the lease renewed.
    pub(super) async fn fence(&self, transaction: &mut Transaction) -> Result<(), Error> {
        let until = self.clock.now().plus(self.seconds).seconds();
        let values =
            [Value::Integer(self.registry.0), Value::Bytes(&self.owner), Value::Integer(self.token), Value::Integer(until)];
        match transaction.execute(FENCE, &values).await? {
            1 => Ok(()),
            _ => Err(Error::LeaseLost),
        }
    }

    /// Keeps it for another while.
    pub(super) async fn renew(&self, database: &Database) -> Result<(), Error> {
        let mut transaction = database.begin().await?;
        self.fence(&mut transaction).await?;
        Ok(transaction.commit().await?)
    }

    /// Gives it back, so that the next need not wait for its end.
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
