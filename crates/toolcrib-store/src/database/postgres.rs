//! Opening PostgreSQL.
//!
//! The URL configures TLS (`sslmode=verify-full` for servers on other machines). The durability of commits is the server's
//! `synchronous_commit`, which operators set according to their replicas; it is not changed here.

use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _};

use super::Pools;
use super::server::Server;
use crate::Error;

/// How long a task waits for a connection: as long as for a row lock, and shorter than callers' timeouts.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection that was idle for longer is tested before use, since its server may be gone. That is one more round trip for few.
const TRUSTED_IDLE: Duration = Duration::from_secs(2);

/// A stuck client must not block others: waiting for a lock times out, and so does a transaction whose process died.
const SESSION: &str = "SET lock_timeout = '5s'; SET statement_timeout = '15s'; SET idle_in_transaction_session_timeout = '15s'";

/// The same for connections to a replica. A long transaction would delay the replay of the log, or be cancelled by it.
const REPLICA_SESSION: &str =
    "SET default_transaction_read_only = on; SET statement_timeout = '15s'; SET idle_in_transaction_session_timeout = '15s'";

pub(super) async fn open(url: &str, connections: u32) -> Result<Pools, Error> {
    let options = options(url)?;
    // A pool would retry for its whole timeout; a program that starts should fail at once.
    options.connect().await?.close().await?;
    Ok(Pools::Postgres(lazy(options, connections, SESSION)))
}

/// Opens a read-only server without connecting to it.
pub(super) fn open_replica(url: &str, connections: u32) -> Result<Arc<Server>, Error> {
    Ok(lazy(options(url)?, connections, REPLICA_SESSION))
}

fn options(url: &str) -> Result<PgConnectOptions, Error> {
    // The driver's error about an invalid URL may repeat parts of it.
    let options = PgConnectOptions::from_str(url).map_err(|_| Error::Location { reason: "the PostgreSQL URL is not valid" })?;
    Ok(options.application_name("toolcrib").disable_statement_logging())
}

fn lazy(options: PgConnectOptions, connections: u32, session: &'static str) -> Arc<Server> {
    let pool = PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .test_before_acquire(false)
        .before_acquire(|connection, state| {
            Box::pin(async move {
                if state.idle_for > TRUSTED_IDLE {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
        .after_connect(move |connection, _| Box::pin(async move { connection.execute(session).await.map(drop) }))
        .connect_lazy_with(options.clone());
    Server::new(pool, options)
}
