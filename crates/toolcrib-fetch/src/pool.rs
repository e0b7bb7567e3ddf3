//! Connections that wait for another request.
//!
//! Only services out of the settings are reached over kept connections. Each belongs to one origin of one client: it was opened to an
//! address that this origin has, with a certificate for its name, and is used for nothing else. A connection is kept only after an
//! answer that ended where it should, with nothing behind it, and taken only if it is still open and has said nothing since.
//!
//! A server may close a connection at the very moment at which a request is sent. What then is lost may be repeated only by who knows
//! that repeating is harmless: see [`Repeat`].

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use crate::Concurrency;
use crate::attempt::{Connection, Kept, after};

/// How many connections are kept for another request, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeepAlive {
    /// Idle connections to one origin at most. A burst opens more; of those, the ones that were used last are kept.
    pub per_host: usize,
    /// Idle connections in all at most.
    pub total: usize,
    /// Longest idle time. Servers close after five seconds (Node, Apache, uvicorn) to a minute (nginx, load balancers); a connection
    /// that we close first cannot be closed under a request. A server that says how long it waits is given a second less.
    pub idle: Duration,
    /// Longest time from the opening of a connection: another address of the name, or another certificate, is noticed by then.
    pub lifetime: Duration,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self { per_host: 32, total: 64, idle: Duration::from_secs(4), lifetime: Duration::from_secs(300) }
    }
}

impl KeepAlive {
    /// Keeps as many idle connections as there may be requests under way.
    ///
    /// Requests that come in bursts leave as many connections idle at once. With a smaller limit each burst would close the rest and
    /// the next one would open them again, which costs more than the requests.
    pub fn matching(concurrency: Concurrency) -> Self {
        Self { per_host: concurrency.host, total: concurrency.total, ..Self::default() }
    }
}

/// Whether a request may be sent a second time, on a new connection, when a kept one was closed without a byte of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Sending it twice does the same as sending it once.
    Safe,
    /// The server may have acted on it. It is sent only over connections that were busy a moment ago.
    Never,
}

/// How long a connection may have been idle for a request that is not repeated. No common server closes sooner: the shortest default,
/// gunicorn's, is two seconds.
const FRESH: Duration = Duration::from_secs(1);

/// By how much sooner than a server says we stop using a connection.
const EARLIER: Duration = Duration::from_secs(1);

/// Whom a connection leads to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    pub(crate) secure: bool,
    pub(crate) host: Box<str>,
    pub(crate) port: u16,
}

/// The connections of one client.
pub(crate) struct Pool {
    settings: KeepAlive,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The connection that was used last is the last.
    origins: HashMap<Origin, Vec<Idle>>,
    count: usize,
    /// Whether a task looks for those whose time is over.
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

    /// The connection to `origin` that was used last, if it can be used. Those that cannot are closed.
    pub(crate) fn take(&self, origin: &Origin, repeat: Repeat) -> Option<Connection> {
        let mut state = self.lock();
        let State { origins, count, .. } = &mut *state;
        let waiting = origins.get_mut(origin)?;
        let mut taken = None;
        while let Some(last) = waiting.last() {
            // Those before it are idle for longer still; a request that may be repeated can have them.
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

    /// Keeps a connection to `origin`. In a full pool it replaces the connection to the same origin that was used longest ago.
    ///
    /// Otherwise connections that are too old for requests that are never repeated would keep out the new ones that such requests
    /// open, and every one of those requests would open another until the old ones expire.
    pub(crate) fn put(self: &Arc<Self>, origin: Origin, kept: Kept) {
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

    /// Closes connections whose time is over. Gives whether any are left.
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

/// Runs while there are idle connections, so that none stays open because no request comes.
async fn sweep(pool: Weak<Pool>, pause: Duration) {
    loop {
        tokio::time::sleep(pause.max(Duration::from_millis(100))).await;
        if !pool.upgrade().is_some_and(|pool| pool.expire()) {
            return;
        }
    }
}
