//! Group commit: one thread that makes all changes of a SQLite file.
//!
//! A commit waits for the disk, and everything else about a short change is cheap compared with that. So changes that arrive while the disk
//! is busy are grouped: the next transaction contains all of them, and they share its commit. A change is acknowledged only when that
//! commit is on disk, except for changes whose loss in a power failure is harmless: they are acknowledged as soon as every connection sees
//! them, and are on disk with the next commit that is synced. If one of the changes has to be rolled back, or the transaction as a whole
//! fails, the changes are made one by one, so that one change for which the disk has no room does not make the others fail.

use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::local::Local;
use super::{Database, Pools};
use crate::Error;

/// Most changes in the thread's queue; further callers wait.
const QUEUE: usize = 1_024;

/// Most changes of one transaction, so that the first of them does not wait long for the last.
const MAX_GROUP: usize = 256;

/// Attempts to begin a transaction while other processes write. Each attempt waits for the busy timeout.
const ATTEMPTS: u32 = 2;

/// A handle of the thread. Clones share it; the thread ends with the last of them.
#[derive(Clone)]
pub(crate) struct Writer<S> {
    queue: mpsc::Sender<Box<dyn Job<S>>>,
}

impl<S: Send + 'static> Writer<S> {
    /// Starts the thread that writes to this database, if that is a file. `store` makes the value that changes are made with: it gets a
    /// database whose statements run at once, on the thread, within the transaction.
    pub(crate) fn start(database: &Database, store: impl FnOnce(Database) -> S) -> Result<Option<Self>, Error> {
        let Some(path) = &database.file else { return Ok(None) };
        let path: &Path = path;
        let failed = |error: Error| Error::Open { database: database.name.to_string(), detail: error.to_string() };
        let connection = Arc::new(Local::open(path).map_err(failed)?);
        let local = Database { pools: Pools::Local(Arc::clone(&connection)), name: database.name.clone(), file: None };
        let store = store(local);
        let (queue, changes) = mpsc::channel(QUEUE);
        let thread = std::thread::Builder::new().name("sqlite-writer".to_owned());
        thread
            .spawn(move || write(&connection, &store, changes))
            .map_err(|error| failed(Error::Database { detail: error.to_string() }))?;
        Ok(Some(Self { queue }))
    }

    /// Makes a change, and returns when it is on disk. `change` may be called again if the transaction fails.
    pub(crate) async fn change<T: Send + 'static>(
        &self,
        change: impl FnMut(&S) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.make(Durability::Now, change).await
    }

    /// Makes a change, and returns when every connection sees it. It is on disk with the next [`change`](Self::change) at the latest.
    pub(crate) async fn change_soon<T: Send + 'static>(
        &self,
        change: impl FnMut(&S) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.make(Durability::WithTheNext, change).await
    }

    async fn make<T: Send + 'static>(
        &self,
        durability: Durability,
        change: impl FnMut(&S) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let ended = || Error::Lost { detail: "the writer thread has ended".to_owned() };
        let (reply, answer) = oneshot::channel();
        self.queue.send(Box::new(Work { durability, change, made: None, reply })).await.map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }
}

impl<S> fmt::Debug for Writer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Writer")
    }
}

/// When a change has to be on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Durability {
    /// Before its caller gets the result.
    Now,
    /// With the next change that has to be.
    WithTheNext,
}

/// A change with its result.
trait Job<S>: Send {
    fn durability(&self) -> Durability;

    /// Makes the change within the transaction.
    fn make(&mut self, store: &S);

    /// Sends the result to the caller, after the transaction.
    fn tell(self: Box<Self>, committed: Result<(), Error>);
}

struct Work<T, F> {
    durability: Durability,
    change: F,
    made: Option<Result<T, Error>>,
    reply: oneshot::Sender<Result<T, Error>>,
}

impl<S, T: Send, F: FnMut(&S) -> Result<T, Error> + Send> Job<S> for Work<T, F> {
    fn durability(&self) -> Durability {
        self.durability
    }

    fn make(&mut self, store: &S) {
        // The caller is gone, and nothing was done yet.
        if self.made.is_none() && self.reply.is_closed() {
            return;
        }
        self.made = Some((self.change)(store));
    }

    fn tell(self: Box<Self>, committed: Result<(), Error>) {
        let answer = match (committed, self.made) {
            (Err(error), _) => Err(error),
            (Ok(()), Some(made)) => made,
            (Ok(()), None) => return,
        };
        // Fails if the caller is gone.
        let _ = self.reply.send(answer);
    }
}

fn write<S>(connection: &Local, store: &S, mut changes: mpsc::Receiver<Box<dyn Job<S>>>) {
    let mut group: Vec<Box<dyn Job<S>>> = Vec::new();
    let mut pace = Pace::default();
    while let Some(first) = changes.blocking_recv() {
        group.push(first);
        receive(&mut group, &mut changes);
        if pace.is_due(group.len() + changes.len()) {
            pace.wait(|| group.len() + changes.len());
            receive(&mut group, &mut changes);
        }
        let (began, size) = (Instant::now(), group.len());
        if !finish(connection, store, &mut group) {
            return;
        }
        pace.committed(began.elapsed(), size + changes.len());
    }
}

fn receive<S>(group: &mut Vec<Box<dyn Job<S>>>, changes: &mut mpsc::Receiver<Box<dyn Job<S>>>) {
    while group.len() < MAX_GROUP
        && let Ok(next) = changes.try_recv()
    {
        group.push(next);
    }
}

/// Makes changes in one transaction, or each in its own if that fails, and sends the results. Returns `false` if a sync failed: it is
/// unknown what survives a power failure, so nothing may be acknowledged any more.
fn finish<S>(connection: &Local, store: &S, group: &mut Vec<Box<dyn Job<S>>>) -> bool {
    if group.is_empty() {
        return true;
    }
    match transaction(connection, store, group) {
        Ok(()) => tell(connection, group),
        Err(error) if group.len() == 1 => {
            group.drain(..).for_each(|job| job.tell(Err(repeated(&error))));
            true
        }
        // No change can be made while another process has locked the file.
        Err(error @ Error::Busy { .. }) => {
            group.drain(..).for_each(|job| job.tell(Err(repeated(&error))));
            true
        }
        Err(_) => {
            let mut alone = Vec::with_capacity(1);
            group.drain(..).all(|job| {
                alone.push(job);
                finish(connection, store, &mut alone)
            })
        }
    }
}

/// Sends results of committed changes: some at once, the others when they are on disk.
fn tell<S>(connection: &Local, group: &mut Vec<Box<dyn Job<S>>>) -> bool {
    let (now, soon): (Vec<_>, Vec<_>) = group.drain(..).partition(|job| job.durability() == Durability::Now);
    soon.into_iter().for_each(|job| job.tell(Ok(())));
    if now.is_empty() {
        return true;
    }
    let synced = connection.sync();
    for job in now {
        job.tell(synced.as_ref().copied().map_err(repeated));
    }
    synced.is_ok()
}

/// How long the thread waits for more changes before it commits.
///
/// Callers whose change was just committed send their next one a little after the thread is ready. Without a wait they would always just
/// miss a commit, and wait for two. So the thread waits for as many callers as before, for a part of the time that a commit takes, and
/// stops doing so while they do not come.
#[derive(Debug, Default)]
struct Pace {
    commit: Duration,
    /// Callers at the last commit: those in it, and those queued behind it.
    callers: usize,
    /// Groups until the next wait, and how many there are after a wait without success.
    pause: u32,
    longer: u32,
}

impl Pace {
    /// Callers would notice a longer wait.
    const LONGEST: Duration = Duration::from_millis(2);
    /// Poll interval of the thread.
    const STEP: Duration = Duration::from_micros(100);

    /// Whether to wait, with this number of callers.
    fn is_due(&mut self, there: usize) -> bool {
        if there >= self.callers.min(MAX_GROUP) {
            return false;
        }
        let is_due = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        is_due
    }

    fn wait(&mut self, there: impl Fn() -> usize) {
        let expected = self.callers.min(MAX_GROUP);
        let until = Instant::now() + (self.commit / 2).min(Self::LONGEST);
        while Instant::now() < until && there() < expected {
            std::thread::sleep(Self::STEP);
        }
        // Half of them justify the wait.
        self.longer = if there() * 2 >= expected { 0 } else { (self.longer * 2).clamp(4, 64) };
        self.pause = self.longer;
    }

    fn committed(&mut self, took: Duration, callers: usize) {
        // A single slow commit says little about the next.
        self.commit = (self.commit * 7 + took) / 8;
        self.callers = callers;
    }
}

fn transaction<S>(connection: &Local, store: &S, jobs: &mut [Box<dyn Job<S>>]) -> Result<(), Error> {
    let mut attempt = 1;
    while let Err(error) = connection.begin_group(jobs.len() == 1) {
        if attempt >= ATTEMPTS || !matches!(error, Error::Busy { .. }) {
            return Err(error);
        }
        attempt += 1;
    }
    for job in jobs {
        job.make(store);
        // A change made now would be outside any transaction: it would remain when it is made again, or be made in vain.
        if !connection.is_sound() {
            break;
        }
    }
    let committed = connection.commit_group();
    if committed.is_err() {
        connection.roll_back_group();
    }
    committed
}

/// Copies an error for the other waiting callers.
fn repeated(error: &Error) -> Error {
    match error {
        Error::Busy { detail } => Error::Busy { detail: detail.clone() },
        Error::Lost { detail } => Error::Lost { detail: detail.clone() },
        Error::Disk { detail } => Error::Disk { detail: detail.clone() },
        other => Error::Database { detail: other.to_string() },
    }
}

/// Returns the result of a future that never waits, as none does that uses the database of a writer thread.
pub(crate) fn run_now<T>(future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => Err(Error::Database { detail: "a change waits inside the thread that writes".to_owned() }),
    }
}

#[cfg(test)]
mod tests;
