//! Opening PostgreSQL.
//!
//! TLS is as the URL says (`sslmode=verify-full` for servers beyond this machine). How durable a commit is, is the server's
//! `synchronous_commit`, which operators set as strong as their replicas allow; it is not touched here.

use std::str::FromStr as _;
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

pub(super) async fn open(url: &str, connections: u32) -> Result<Pools, Error> {
    // What the driver says about a URL that it cannot read may repeat parts of it.
    let options = PgConnectOptions::from_str(url).map_err(|_| Error::Location { reason: "the PostgreSQL URL cannot be read" })?;
    let options = options.application_name("toolcrib").disable_statement_logging();
    // A pool would go on trying for its whole timeout; whoever starts a program wants to know at once.
    options.connect().await?.close().await?;
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
        .after_connect(|connection, _| Box::pin(async move { connection.execute(SESSION).await.map(drop) }))
        .connect_lazy_with(options.clone());
    Ok(Pools::Postgres(Server::new(pool, options)))
}
