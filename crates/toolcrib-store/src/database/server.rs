//! Whether the PostgreSQL server answers.
//!
//! A pool goes on trying to connect for its whole timeout, which is right while a server is busy and wrong while it is gone: every caller
//! would wait for seconds, one after the other. So a call that takes longer than usual has the server probed. While it is away, calls fail
//! at once, and those under way are given up; the probe goes on until the server is back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool};
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::Error;

/// A call that takes longer has the server probed. Statements of requests take a few milliseconds.
const PATIENCE: Duration = Duration::from_millis(250);

/// How long a probe waits for the server. A new connection takes some ten milliseconds.
const PROBE_TIME: Duration = Duration::from_secs(2);

/// Probes in a row that must run out of time before the server counts as away: a machine under load may be slow once. One that refuses
/// connections is away at once.
const SLOW_PROBES: u32 = 2;

/// Time between two probes while the server is away.
const PROBE_EVERY: Duration = Duration::from_millis(250);

/// Time after a probe that found the server before the next one: one that is merely slow must not be made slower by new connections.
const PROBE_PAUSE: Duration = Duration::from_secs(1);

/// The pool of a server, and whether the server answers.
pub(super) struct Server {
    pub(super) pool: PgPool,
    options: PgConnectOptions,
    away: watch::Sender<bool>,
    is_probed: AtomicBool,
}

impl Server {
    pub(super) fn new(pool: PgPool, options: PgConnectOptions) -> Arc<Self> {
        Arc::new(Self { pool, options, away: watch::Sender::new(false), is_probed: AtomicBool::new(false) })
    }

    /// A connection beside the pool, for work that takes long.
    pub(super) async fn connect(&self) -> Result<PgConnection, Error> {
        Ok(self.options.connect().await?)
    }

    /// Waits for a call that uses the pool, as long as the server answers.
    pub(super) async fn run<T>(self: &Arc<Self>, call: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, Error> {
        if *self.away.borrow() {
            return Err(away());
        }
        let mut call = std::pin::pin!(call);
        if let Ok(done) = timeout(PATIENCE, &mut call).await {
            return Ok(done?);
        }
        if !self.is_probed.swap(true, Ordering::AcqRel) {
            let server = Arc::clone(self);
            tokio::spawn(async move {
                server.probe().await;
                tokio::time::sleep(PROBE_PAUSE).await;
                server.is_probed.store(false, Ordering::Release);
            });
        }
        let mut news = self.away.subscribe();
        tokio::select! {
            done = &mut call => Ok(done?),
            // The sender lives as long as this.
            _ = news.wait_for(|away| *away) => Err(away()),
        }
    }

    /// Connects until the server answers.
    async fn probe(&self) {
        let mut slow = 0;
        while !self.pool.is_closed() {
            match timeout(PROBE_TIME, self.options.connect()).await {
                Ok(Ok(connection)) => {
                    // It answered; how it takes the farewell does not matter.
                    let _ = connection.close().await;
                    return self.set(false);
                }
                // It says that there are too many connections, or the like. While it starts up or shuts down (57P) it is of no use.
                Ok(Err(sqlx::Error::Database(error))) if !error.code().is_some_and(|code| code.starts_with("57P")) => {
                    return self.set(false);
                }
                Ok(Err(_)) => self.set(true),
                Err(_) => {
                    slow += 1;
                    if slow >= SLOW_PROBES {
                        self.set(true);
                    }
                }
            }
            tokio::time::sleep(PROBE_EVERY).await;
        }
    }

    fn set(&self, is_away: bool) {
        if self.away.send_if_modified(|before| std::mem::replace(before, is_away) != is_away) {
            if is_away {
                tracing::warn!("PostgreSQL does not answer, calls fail until it does");
            } else {
                tracing::info!("PostgreSQL answers again");
            }
        }
    }
}

fn away() -> Error {
    Error::Lost { detail: "the server does not answer".to_owned() }
}
