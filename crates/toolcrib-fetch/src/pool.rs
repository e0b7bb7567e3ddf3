//! A pool of keep-alive connections.
//!
//! Only configured services use it. Each connection belongs to one origin of one client: it was opened to an
//! address of this origin, with a certificate for its name, and is used for nothing else. A connection is kept only after a
//! response that ended where it should, with nothing behind it, and reused only if it is still open and has received nothing since.
//!
//! A server may close a connection just when a request is sent. Such a request is repeated only if the caller says that
//! this is harmless: see [`Repeat`].

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use crate::Concurrency;
use crate::attempt::{Connection, IdleConnection, after};

/// How many idle connections are kept, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeepAlive {
    /// Maximum number of idle connections to one origin. A burst opens more; the most recently used ones are kept.
    pub per_host: usize,
    /// Maximum number of idle connections in total.
    pub total: usize,
    /// Maximum idle time. Servers close after five seconds (Node.js, Apache, uvicorn) to a minute (nginx, load balancers); a connection
    /// that the client closes first cannot be closed during a request. If a server states its timeout, the client uses a second less.
    pub idle: Duration,
    /// Maximum age of a connection, after which a changed address or certificate is noticed.
    pub lifetime: Duration,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self { per_host: 32, total: 64, idle: Duration::from_secs(4), lifetime: Duration::from_secs(300) }
    }
}

impl KeepAlive {
    /// Keeps as many idle connections as there may be concurrent requests.
    ///
    /// A burst of requests leaves as many idle connections. With a smaller limit each burst would close the rest and
    /// the next one would open them again, which costs more than the requests.
    pub fn matching(concurrency: Concurrency) -> Self {
        Self { per_host: concurrency.host, total: concurrency.total, ..Self::default() }
    }
}

/// Whether a request may be sent again on a new connection, if a kept-alive one was closed without a byte of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// The request is idempotent.
    Safe,
    /// The server may have acted on the request. It is sent only on connections that were used a moment ago.
    Never,
}

/// Maximum idle time of a connection for a request that is never repeated. No common server closes sooner: the shortest default,
/// gunicorn's, is two seconds.
const FRESH: Duration = Duration::from_secs(1);

/// How much earlier than the server's stated timeout the client stops using a connection.
const EARLIER: Duration = Duration::from_secs(1);

/// The origin of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    pub(crate) secure: bool,
    pub(crate) host: Box<str>,
    pub(crate) port: u16,
}

/// The idle connections of one client.
pub(crate) struct Pool {
    settings: KeepAlive,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Sorted by last use, the most recent last.
    origins: HashMap<Origin, Vec<Idle>>,
    count: usize,
    /// Whether a task closes expired connections.
    is_swept: bool,
}

struct Idle {
    connection: Connection,
    since: Instant,
    until: Instant,
}

impl Pool {
    pub(crate) fn new(settings: KeepAlive) -> Arc<Self> {
        Arc::new(Self { settings, state: Mutex::default() })
    }

    /// The most recently used connection to `origin`, if it is reusable. Others are closed.
    pub(crate) fn take(&self, origin: &Origin, repeat: Repeat) -> Option<Connection> {
        let mut state = self.lock();
        let State { origins, count, .. } = &mut *state;
        let waiting = origins.get_mut(origin)?;
        let mut taken = None;
        while let Some(last) = waiting.last() {
            // The connections before it have been idle even longer; keep them for requests that may be repeated.
            if repeat == Repeat::Never && last.since.elapsed() > FRESH {
                break;
            }
            let Some(idle) = waiting.pop() else { break };
            *count -= 1;
            if Instant::now() < idle.until && idle.connection.stream.is_quiet() {
                taken = Some(idle.connection);
                break;
            }
        }
        if waiting.is_empty() {
            origins.remove(origin);
        }
        taken
    }

    /// Keeps a connection to `origin`. In a full pool it replaces the least recently used connection to the same origin.
    ///
    /// Otherwise, connections that are too old for requests that are never repeated would keep new ones out, and every such
    /// request would open another until the old ones expire.
    pub(crate) fn put(self: &Arc<Self>, origin: Origin, kept: IdleConnection) {
        let now = Instant::now();
        let idle = kept.idle.map_or(self.settings.idle, |said| said.saturating_sub(EARLIER).min(self.settings.idle));
        let until = after(now, idle).min(after(kept.connection.opened, self.settings.lifetime));
        if until <= now || self.settings.per_host == 0 {
            return;
        }
        let mut state = self.lock();
        let State { origins, count, is_swept } = &mut *state;
        let is_full = *count >= self.settings.total;
        match origins.get_mut(&origin) {
            Some(waiting) => {
                if is_full || waiting.len() >= self.settings.per_host {
                    waiting.remove(0);
                    *count -= 1;
                }
                waiting.push(Idle { connection: kept.connection, since: now, until });
            }
            None if is_full => return,
            None => {
                origins.insert(origin, vec![Idle { connection: kept.connection, since: now, until }]);
            }
        }
        *count += 1;
        if !*is_swept {
            *is_swept = true;
            tokio::spawn(sweep(Arc::downgrade(self), self.settings.idle));
        }
    }

    /// Closes expired connections. Returns whether any are left.
    fn expire(&self) -> bool {
        let mut state = self.lock();
        let now = Instant::now();
        let mut closed = 0;
        state.origins.retain(|_, waiting| {
            let before = waiting.len();
            waiting.retain(|idle| now < idle.until);
            closed += before - waiting.len();
            !waiting.is_empty()
        });
        state.count -= closed;
        state.is_swept = state.count > 0;
        state.is_swept
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("settings", &self.settings).field("idle", &self.lock().count).finish()
    }
}

/// Closes expired connections while there are any idle ones, also when no request comes.
async fn sweep(pool: Weak<Pool>, pause: Duration) {
    loop {
        tokio::time::sleep(pause.max(Duration::from_millis(100))).await;
        if !pool.upgrade().is_some_and(|pool| pool.expire()) {
            return;
        }
    }
}
