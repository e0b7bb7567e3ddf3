//! Availability of the PostgreSQL server.
//!
//! A pool retries to connect for its whole timeout, which is right while a server is busy and wrong while it is down: every caller would
//! wait for seconds, one after the other. So a call that takes longer than usual starts a probe. While the server is down, calls fail at
//! once, and running ones are aborted; the probe continues until the server is back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool};
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::Error;

/// A call that takes longer starts a probe. Statements of requests take a few milliseconds.
const PATIENCE: Duration = Duration::from_millis(250);

/// Timeout of a probe. A new connection takes some ten milliseconds.
const PROBE_TIME: Duration = Duration::from_secs(2);

/// Consecutive probes that must time out before the server counts as down: a machine under load may be slow once. A server that refuses
/// connections counts as down at once.
const SLOW_PROBES: u32 = 2;

/// Time between two probes while the server is down.
const PROBE_EVERY: Duration = Duration::from_millis(250);

/// Pause after a successful probe: a slow server must not be slowed down by new connections.
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

    /// Opens a connection outside the pool, for long-running work.
    pub(super) async fn connect(&self) -> Result<PgConnection, Error> {
        Ok(self.options.connect().await?)
    }

    /// Runs a call that uses the pool, as long as the server is up.
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

    /// Connects until the server responds.
    async fn probe(&self) {
        let mut slow = 0;
        while !self.pool.is_closed() {
            match timeout(PROBE_TIME, self.options.connect()).await {
                Ok(Ok(connection)) => {
                    // It responded; errors while closing do not matter.
                    let _ = connection.close().await;
                    return self.set(false);
                }
                // It refuses, such as for too many connections, so it is up. While it starts up or shuts down (57P) it counts as down.
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
