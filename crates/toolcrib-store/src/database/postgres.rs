//! Opening PostgreSQL.
//!
//! TLS is as the URL says (`sslmode=verify-full` for servers beyond this machine). How durable a commit is, is the server's
//! `synchronous_commit`, which operators set as strong as their replicas allow; it is not touched here.

use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _};

use super::Pools;
use super::server::Server;
use crate::Error;

/// How long a task waits for a connection: as long as for a row, and shorter than callers' patience.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection that was idle for longer is tried before use: its server may be gone. One round trip more for few.
const TRUSTED_IDLE: Duration = Duration::from_secs(2);

/// A stuck peer must hold up nobody: waiting for a row ends, and so does a transaction whose process went away without a word.
const SESSION: &str = "SET lock_timeout = '5s'; SET statement_timeout = '15s'; SET idle_in_transaction_session_timeout = '15s'";

/// The same for connections to a replica. A transaction that is open for long would hold back the replay of the log, or be cancelled by it.
const REPLICA_SESSION: &str =
    "SET default_transaction_read_only = on; SET statement_timeout = '15s'; SET idle_in_transaction_session_timeout = '15s'";

pub(super) async fn open(url: &str, connections: u32) -> Result<Pools, Error> {
    let options = options(url)?;
    // A pool would go on trying for its whole timeout; whoever starts a program wants to know at once.
    options.connect().await?.close().await?;
    Ok(Pools::Postgres(lazy(options, connections, SESSION)))
}

/// A server that is only read. Nothing is asked of it yet.
pub(super) fn open_replica(url: &str, connections: u32) -> Result<Arc<Server>, Error> {
    Ok(lazy(options(url)?, connections, REPLICA_SESSION))
}

fn options(url: &str) -> Result<PgConnectOptions, Error> {
    // What the driver says about a URL that it cannot read may repeat parts of it.
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
