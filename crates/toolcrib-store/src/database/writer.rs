//! One thread that makes all changes of a SQLite file: group commit.
//!
//! A commit waits for the disk, and everything else about a short change costs little beside that. So changes that come while the disk
//! is busy wait for each other: the next transaction takes all of them, each in a savepoint of its own, and they share its commit.
//! Nobody hears of a change before that commit is on the disk, but for changes whose loss in a power failure would be harmless: those are
//! made at once, and are on the disk with the next commit. A change that fails is undone alone. When the transaction as a whole
//! fails, its changes are made one by one, so that one that the disk has no room for does not take the others with it.

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
        let ended = || Error::Lost { detail: "the thread that writes has ended".to_owned() };
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
    let mut waiting = Waiting { now: Vec::new(), soon: Vec::new() };
    let mut pace = Pace::default();
    while let Some(first) = changes.blocking_recv() {
        waiting.add(first);
        if !waiting.receive(&mut changes, connection, store) {
            return;
        }
        if waiting.now.is_empty() {
            continue;
        }
        pace.wait(|| waiting.now.len() + changes.len());
        if !waiting.receive(&mut changes, connection, store) {
            return;
        }
        let (began, size) = (Instant::now(), waiting.now.len());
        finish(connection, store, &mut waiting.now);
        pace.committed(began.elapsed(), size + changes.len());
    }
}

/// Changes that were received.
struct Waiting<S> {
    now: Vec<Box<dyn Job<S>>>,
    soon: Vec<Box<dyn Job<S>>>,
}

impl<S> Waiting<S> {
    fn add(&mut self, job: Box<dyn Job<S>>) {
        match job.durability() {
            Durability::Now => self.now.push(job),
            Durability::WithTheNext => self.soon.push(job),
        }
    }

    /// Takes what is there, and makes at once what waits for no disk. `false` when commits would not wait for it any more: then nothing
    /// may be acknowledged.
    fn receive(&mut self, changes: &mut mpsc::Receiver<Box<dyn Job<S>>>, connection: &Local, store: &S) -> bool {
        while self.now.len() + self.soon.len() < MAX_GROUP
            && let Ok(next) = changes.try_recv()
        {
            self.add(next);
        }
        if self.soon.is_empty() {
            return true;
        }
        if connection.set_durable(false).is_err() {
            self.now.append(&mut self.soon);
            return true;
        }
        finish(connection, store, &mut self.soon);
        connection.set_durable(true).is_ok()
    }
}

/// Makes changes in one transaction, or each in its own if that fails, and tells who waits.
fn finish<S>(connection: &Local, store: &S, group: &mut Vec<Box<dyn Job<S>>>) {
    match transaction(connection, store, group) {
        Ok(()) => group.drain(..).for_each(|job| job.tell(Ok(()))),
        Err(error) if group.len() == 1 => group.drain(..).for_each(|job| job.tell(Err(repeated(&error)))),
        // Nobody else's change gets through either while another process has the file.
        Err(error @ Error::Busy { .. }) => group.drain(..).for_each(|job| job.tell(Err(repeated(&error)))),
        Err(_) => {
            for job in group.drain(..) {
                let mut alone = [job];
                let done = transaction(connection, store, &mut alone);
                let [job] = alone;
                job.tell(done);
            }
        }
    }
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

    fn wait(&mut self, there: impl Fn() -> usize) {
        let expected = self.callers.min(MAX_GROUP);
        if there() >= expected {
            return;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return;
        }
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
    while let Err(error) = connection.begin_group() {
        if attempt >= ATTEMPTS || !matches!(error, Error::Busy { .. }) {
            return Err(error);
        }
        attempt += 1;
    }
    for job in jobs {
        job.make(store);
        // What came now would be outside any transaction, and stay when it is made again.
        if !connection.is_in_group() {
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
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc as blocking;

    use super::super::{Location, Migration, Value};
    use super::*;

    const TABLE: &[Migration] =
        &[Migration { version: 1, sql: "CREATE TABLE word (id BIGINT PRIMARY KEY, word TEXT NOT NULL);" }];
    const INSERT: &str = "INSERT INTO word (id, word) VALUES ($1, $2)";

    struct Place {
        _folder: tempfile::TempDir,
        wal: std::path::PathBuf,
        database: Database,
        writer: Writer<Database>,
    }

    impl Place {
        async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("words.db");
            let database = Database::open(&Location::file(&path)).await.unwrap();
            database.migrate("words", TABLE).await.unwrap();
            let writer = Writer::start(&database, |local| local).unwrap().unwrap();
            Self { wal: folder.path().join("words.db-wal"), _folder: folder, database, writer }
        }

        /// Keeps the thread busy until the sender is dropped, so that changes gather behind it.
        async fn hold(&self) -> blocking::Sender<()> {
            let (release, held) = blocking::channel::<()>();
            let (begun, busy) = oneshot::channel();
            let (writer, mut begun) = (self.writer.clone(), Some(begun));
            tokio::spawn(async move {
                let wait = move |_: &Database| {
                    begun.take().map(|begun| begun.send(()));
                    let _ = held.recv();
                    Ok(())
                };
                writer.change(wait).await
            });
            busy.await.unwrap();
            release
        }

        async fn words(&self) -> Vec<i64> {
            let rows = self.database.fetch("SELECT id FROM word ORDER BY id", &[]).await.unwrap();
            rows.iter().map(|row| row.integer(0).unwrap()).collect()
        }

        /// Transactions in the log: the frame that ends one says how long the file is then.
        fn commits(&self) -> usize {
            let log = std::fs::read(&self.wal).unwrap();
            let page = u32::from_be_bytes(log[8..12].try_into().unwrap()) as usize;
            log[32..].chunks_exact(24 + page).filter(|frame| frame[4..8] != [0; 4]).count()
        }
    }

    fn insert(id: i64) -> impl FnMut(&Database) -> Result<u64, Error> + Send + 'static {
        move |database| run_now(database.execute(INSERT, &[Value::Integer(id), Value::Text("x")]))
    }

    type Change = Box<dyn FnMut(&Database) -> Result<u64, Error> + Send>;

    /// Starts changes while the thread is held, and gives their answers.
    async fn together(place: &Place, changes: Vec<Change>) -> Vec<Result<u64, Error>> {
        let release = place.hold().await;
        let tasks: Vec<_> = changes
            .into_iter()
            .map(|mut change| {
                let writer = place.writer.clone();
                tokio::spawn(async move { writer.change(move |database| change(database)).await })
            })
            .collect();
        while place.writer.queue.capacity() > QUEUE - tasks.len() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(release);
        let mut answers = Vec::new();
        for task in tasks {
            answers.push(task.await.unwrap());
        }
        answers
    }

    #[tokio::test]
    async fn changes_that_wait_share_a_commit() {
        let place = Place::new().await;
        let before = place.commits();
        let answers = together(&place, (0..50).map(|id| Box::new(insert(id)) as Change).collect()).await;
        assert!(answers.iter().all(|answer| matches!(answer, Ok(1))), "{answers:?}");
        assert_eq!(place.commits() - before, 1);
        // Another connection sees them: they are in the log when their callers hear of them.
        assert_eq!(place.words().await, (0..50).collect::<Vec<_>>());
        place.writer.change(insert(50)).await.unwrap();
        assert_eq!(place.commits() - before, 2);
    }

    #[tokio::test]
    async fn what_need_not_be_on_the_disk_is_seen_and_committed_apart() {
        let place = Place::new().await;
        let before = place.commits();
        assert_eq!(place.writer.change_soon(insert(1)).await.unwrap(), 1);
        assert_eq!(place.words().await, [1]);
        let failing = place.writer.change_soon(insert(1)).await;
        assert!(matches!(failing, Err(Error::Database { .. })), "{failing:?}");
        place.writer.change(insert(2)).await.unwrap();
        assert_eq!((place.words().await, place.commits() - before), (vec![1, 2], 2));
        // The commit after one of these waits for the disk again.
        let level = |database: &Database| run_now(database.fetch("PRAGMA synchronous", &[]));
        let rows = place.writer.change(level).await.unwrap();
        assert_eq!(rows[0].integer(0).unwrap(), 2, "FULL");
        let rows = place.writer.change_soon(level).await.unwrap();
        assert_eq!(rows[0].integer(0).unwrap(), 1, "NORMAL");
    }

    #[tokio::test]
    async fn a_change_that_fails_is_undone_alone() {
        let place = Place::new().await;
        // Writes something, and then finds that it must not.
        let failing = |id: i64| {
            move |database: &Database| {
                run_now(async {
                    let mut transaction = database.begin().await?;
                    transaction.execute(INSERT, &[Value::Integer(id), Value::Text("y")]).await?;
                    // The same key again.
                    transaction.execute(INSERT, &[Value::Integer(id), Value::Text("z")]).await
                })
            }
        };
        let refusing = |database: &Database| {
            run_now(async {
                let mut transaction = database.begin().await?;
                transaction.execute(INSERT, &[Value::Integer(8), Value::Text("y")]).await?;
                transaction.rollback().await?;
                Ok(0)
            })
        };
        let changes: Vec<Change> =
            vec![Box::new(insert(1)), Box::new(failing(2)), Box::new(insert(3)), Box::new(refusing), Box::new(insert(4))];
        let before = place.commits();
        let answers = together(&place, changes).await;
        assert!(matches!(&answers[..], [Ok(1), Err(Error::Database { .. }), Ok(1), Ok(0), Ok(1)]), "{answers:?}");
        assert_eq!((place.words().await, place.commits() - before), (vec![1, 3, 4], 1));
    }

    #[tokio::test]
    async fn a_transaction_that_fails_takes_nobody_with_it() {
        let place = Place::new().await;
        // As SQLite does by itself when a disk is full: the whole transaction is gone.
        let breaking = |database: &Database| {
            run_now(async {
                database.execute(INSERT, &[Value::Integer(2), Value::Text("x")]).await?;
                database.execute("ROLLBACK", &[]).await
            })
        };
        let changes: Vec<Change> = vec![Box::new(insert(1)), Box::new(breaking), Box::new(insert(3))];
        let answers = together(&place, changes).await;
        assert!(matches!(&answers[..], [Ok(1), Err(_), Ok(1)]), "{answers:?}");
        assert_eq!(place.words().await, [1, 3]);
        // The thread goes on.
        place.writer.change(insert(4)).await.unwrap();
        assert_eq!(place.words().await, [1, 3, 4]);
    }

    #[tokio::test]
    async fn a_file_that_another_process_has_is_busy() {
        let place = Place::new().await;
        let other = place.database.begin().await.unwrap();
        let change = tokio::spawn({
            let writer = place.writer.clone();
            async move { writer.change(insert(1)).await }
        });
        assert!(matches!(change.await.unwrap(), Err(Error::Busy { .. })));
        other.rollback().await.unwrap();
        place.writer.change(insert(1)).await.unwrap();
        assert_eq!(place.words().await, [1]);
    }

    #[tokio::test]
    async fn a_change_that_nobody_waits_for_is_not_made() {
        let place = Place::new().await;
        let release = place.hold().await;
        let made = Arc::new(AtomicUsize::new(0));
        let (writer, count) = (place.writer.clone(), made.clone());
        let task = tokio::spawn(async move {
            let change = move |_: &Database| {
                count.fetch_add(1, Ordering::SeqCst);
                Ok(())
            };
            writer.change(change).await
        });
        while place.writer.queue.capacity() == QUEUE {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        task.abort();
        let _ = task.await;
        drop(release);
        place.writer.change(insert(1)).await.unwrap();
        assert_eq!((made.load(Ordering::SeqCst), place.words().await), (0, vec![1]));
    }

    #[tokio::test]
    async fn values_are_bound_by_their_numbers() {
        let place = Place::new().await;
        let change = |database: &Database| {
            run_now(async {
                let values = [Value::Integer(7), Value::Text("seven"), Value::OptionalInteger(None)];
                database.execute("INSERT INTO word (word, id) VALUES ($2, $1)", &values).await?;
                let sql = "SELECT word, $3, $1 + $1, x'0102' FROM word WHERE word = $2 AND id = $1";
                let row = database.fetch_optional(sql, &values).await?.ok_or(Error::Corrupt { what: "row" })?;
                assert_eq!(
                    (row.text(0)?, row.optional_integer(1)?, row.integer(2)?, row.bytes(3)?),
                    ("seven", None, 14, &[1, 2][..])
                );
                assert!(row.integer(0).is_err() && row.text(1).is_err() && row.optional_text(9).is_err());
                Ok(())
            })
        };
        place.writer.change(change).await.unwrap();
    }

    #[test]
    fn the_thread_waits_only_for_callers_that_come() {
        let (slow, calls) = (Duration::from_millis(4), AtomicUsize::new(0));
        let there = |count: usize| {
            let calls = &calls;
            move || {
                calls.fetch_add(1, Ordering::SeqCst);
                count
            }
        };
        let looks = |pace: &mut Pace, count: usize| {
            calls.store(0, Ordering::SeqCst);
            pace.wait(there(count));
            calls.load(Ordering::SeqCst)
        };
        let mut pace = Pace { commit: slow, ..Pace::default() };
        assert_eq!(looks(&mut pace, 1), 1, "one caller waits for nobody");
        pace.committed(slow, 8);
        assert_eq!(looks(&mut pace, 8), 1, "all are there");
        assert!(looks(&mut pace, 6) > 2, "most are there, and the others may come");
        assert!(looks(&mut pace, 6) > 2);
        assert!(looks(&mut pace, 1) > 2, "nobody came");
        for _ in 0..4 {
            assert_eq!(looks(&mut pace, 1), 1, "so nobody is waited for");
        }
        assert!(looks(&mut pace, 1) > 2, "until another try");
        for _ in 0..8 {
            assert_eq!(looks(&mut pace, 1), 1);
        }
    }

    #[tokio::test]
    async fn only_files_have_a_writer() {
        let database = Database::open(&Location::memory()).await.unwrap();
        assert!(Writer::start(&database, |local| local).unwrap().is_none());
    }
}
