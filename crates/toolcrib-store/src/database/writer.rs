//! One thread that makes all changes of a SQLite file: group commit.
//!
//! A commit waits for the disk, and everything else about a short change costs little beside that. So changes that come while the disk
//! is busy wait for each other: the next transaction takes all of them, and they share its commit. A change is not acknowledged before that
//! commit is on the disk, but for changes whose loss in a power failure would be harmless: their callers hear of them as soon as every
//! connection sees them, and they are on the disk with the next commit that waits for it. When one of the changes has to be undone, or
//! the transaction as a whole fails, the changes are made one by one, so that one that the disk has no room for does not take the others
//! with it.

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

/// Changes that wait for the thread at most; who comes later waits before.
const QUEUE: usize = 1_024;

/// Changes of one transaction at most, so that the first of them does not wait long for the last.
const MAX_GROUP: usize = 256;

/// How often the beginning of a transaction is tried while other processes write. Each attempt waits for the busy timeout.
const ATTEMPTS: u32 = 2;

/// The way to the thread. Clones share it; it ends with the last of them.
#[derive(Clone)]
pub(crate) struct Writer<S> {
    queue: mpsc::Sender<Box<dyn Job<S>>>,
}

impl<S: Send + 'static> Writer<S> {
    /// Starts the thread that writes to this database, if that is a file. `store` is what changes are made with: it gets a database
    /// whose every statement runs at once, on the thread, within the transaction.
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

    /// Makes a change, and returns when it is on the disk. `change` may be called again when the transaction fails.
    pub(crate) async fn change<T: Send + 'static>(
        &self,
        change: impl FnMut(&S) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.make(Durability::Now, change).await
    }

    /// Makes a change, and returns when every connection sees it. It is on the disk with the next [`change`](Self::change) at the latest.
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

/// When a change has to be on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Durability {
    /// Before its caller hears of it.
    Now,
    /// With the next one that has to be.
    WithTheNext,
}

/// A change with its answer.
trait Job<S>: Send {
    fn durability(&self) -> Durability;

    /// Makes the change within the transaction.
    fn make(&mut self, store: &S);

    /// Tells who waits, after the transaction.
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
        // Nobody waits any more, and nothing was done: it never was.
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
        // Who has gone away meanwhile does not hear of it.
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

/// Makes changes in one transaction, or each in its own if that fails, and tells who waits. `false` when the disk has not taken what was
/// committed: what of it is there after a power failure is not known, so nothing may be acknowledged any more.
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
        // No change gets through while another process has the file.
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

/// Tells who waits that their changes are committed: some at once, the others when they are on the disk.
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

/// How long the thread waits for more changes before it commits those that it has.
///
/// Callers whose change was just committed come back with their next one, a little later than the thread is ready. Without a wait they
/// would always meet a commit that has begun, and wait for two. So the thread waits for as many as there were, for a part of the time
/// that a commit takes, and stops doing so while they do not come.
#[derive(Debug, Default)]
struct Pace {
    commit: Duration,
    /// Callers that were there at the last commit: those in it, and those behind it.
    callers: usize,
    /// Groups to go before another wait, and how many there are after a wait that was in vain.
    pause: u32,
    longer: u32,
}

impl Pace {
    /// A longer wait than this is noticed by callers.
    const LONGEST: Duration = Duration::from_millis(2);
    /// How often the thread looks.
    const STEP: Duration = Duration::from_micros(100);

    /// Whether to wait, with so many there.
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
        // Half of them is worth it.
        self.longer = if there() * 2 >= expected { 0 } else { (self.longer * 2).clamp(4, 64) };
        self.pause = self.longer;
    }

    fn committed(&mut self, took: Duration, callers: usize) {
        // One commit that took long says little about the next.
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
        // What came now would be outside any transaction and stay when it is made again, or be made for nothing.
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

/// The same error for another one who waits.
fn repeated(error: &Error) -> Error {
    match error {
        Error::Busy { detail } => Error::Busy { detail: detail.clone() },
        Error::Lost { detail } => Error::Lost { detail: detail.clone() },
        Error::Disk { detail } => Error::Disk { detail: detail.clone() },
        other => Error::Database { detail: other.to_string() },
    }
}

/// The answer of a future that waits for nothing, as none does that uses the database of a writing thread.
pub(crate) fn run_now<T>(future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => Err(Error::Database { detail: "a change waits inside the thread that writes".to_owned() }),
    }
}

#[cfg(test)]
mod tests;
