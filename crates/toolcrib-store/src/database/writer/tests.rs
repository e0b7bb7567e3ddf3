use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc as blocking;

use super::super::{Location, Migration, Value};
use super::*;

const TABLE: &[Migration] = &[Migration { version: 1, sql: "CREATE TABLE word (id BIGINT PRIMARY KEY, word TEXT NOT NULL);" }];
const INSERT: &str = "INSERT INTO word (id, word) VALUES ($1, $2)";

struct Setup {
    _folder: tempfile::TempDir,
    wal: std::path::PathBuf,
    database: Database,
    writer: Writer<Database>,
}

impl Setup {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("words.db");
        let database = Database::open(&Location::file(&path)).await.unwrap();
        database.migrate("words", TABLE).await.unwrap();
        let writer = Writer::start(&database, |local| local).unwrap().unwrap();
        Self { wal: folder.path().join("words.db-wal"), _folder: folder, database, writer }
    }

    /// Keeps the thread busy until the sender is dropped, so that changes queue up.
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
        rows.iter().map(|row| row.scalar::<i64>().unwrap()).collect()
    }

    /// Returns the number of transactions in the log: the frame that ends one contains the size of the file.
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

/// Starts changes while the thread is busy, and returns their results.
async fn together(place: &Setup, changes: Vec<Change>) -> Vec<Result<u64, Error>> {
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
    let place = Setup::new().await;
    let before = place.commits();
    let answers = together(&place, (0..50).map(|id| Box::new(insert(id)) as Change).collect()).await;
    assert!(answers.iter().all(|answer| matches!(answer, Ok(1))), "{answers:?}");
    assert_eq!(place.commits() - before, 1);
    // Another connection sees them: they are in the log when they are acknowledged.
    assert_eq!(place.words().await, (0..50).collect::<Vec<_>>());
    place.writer.change(insert(50)).await.unwrap();
    assert_eq!(place.commits() - before, 2);
}

#[tokio::test]
async fn what_need_not_be_on_the_disk_is_seen_and_committed_apart() {
    let place = Setup::new().await;
    let before = place.commits();
    assert_eq!(place.writer.change_soon(insert(1)).await.unwrap(), 1);
    assert_eq!(place.words().await, [1]);
    let failing = place.writer.change_soon(insert(1)).await;
    assert!(matches!(failing, Err(Error::Database { .. })), "{failing:?}");
    place.writer.change(insert(2)).await.unwrap();
    assert_eq!((place.words().await, place.commits() - before), (vec![1, 2], 2));
}

#[cfg(unix)]
#[tokio::test]
async fn nothing_is_acknowledged_that_the_disk_has_not_taken() {
    let place = Setup::new().await;
    let breaking = |database: &Database| {
        let Pools::Local(connection) = &database.pools else { unreachable!("the database of the thread") };
        connection.break_log();
        Ok(())
    };
    place.writer.change_soon(breaking).await.unwrap();
    assert_eq!(place.writer.change_soon(insert(1)).await.unwrap(), 1, "waits for no disk");
    let lost = place.writer.change(insert(2)).await;
    assert!(matches!(lost, Err(Error::Lost { .. })), "{lost:?}");
    // It is unknown what is on disk, so nothing is changed any more.
    let after = place.writer.change_soon(insert(3)).await;
    assert!(matches!(after, Err(Error::Lost { .. })), "{after:?}");
    assert_eq!(place.words().await, [1, 2]);
}

#[tokio::test]
async fn a_change_that_fails_is_undone_alone() {
    let place = Setup::new().await;
    // Writes something, and then fails.
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
    assert_eq!((place.words().await, place.commits() - before), (vec![1, 3, 4], 5), "made one by one");
}

#[tokio::test]
async fn a_change_that_undoes_nothing_stays_with_the_others() {
    let place = Setup::new().await;
    place.writer.change(insert(1)).await.unwrap();
    let looking = |database: &Database| {
        run_now(async {
            let mut transaction = database.begin().await?;
            let sql = "INSERT INTO word (id, word) VALUES ($1, $2) ON CONFLICT DO NOTHING";
            let made = transaction.execute(sql, &[Value::Integer(1), Value::Text("y")]).await?;
            transaction.rollback().await?;
            Ok(made)
        })
    };
    let before = place.commits();
    let answers = together(&place, vec![Box::new(insert(2)), Box::new(looking), Box::new(insert(3))]).await;
    assert!(matches!(&answers[..], [Ok(1), Ok(0), Ok(1)]), "{answers:?}");
    assert_eq!((place.words().await, place.commits() - before), (vec![1, 2, 3], 1));
}

#[tokio::test]
async fn a_transaction_that_fails_takes_nobody_with_it() {
    let place = Setup::new().await;
    // As SQLite does by itself when a disk is full: the whole transaction is lost.
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
    // The thread continues.
    place.writer.change(insert(4)).await.unwrap();
    assert_eq!(place.words().await, [1, 3, 4]);
}

#[tokio::test]
async fn a_file_that_another_process_has_is_busy() {
    let place = Setup::new().await;
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
    let place = Setup::new().await;
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
    let place = Setup::new().await;
    let change = |database: &Database| {
        run_now(async {
            let values = [Value::Integer(7), Value::Text("seven"), Value::OptionalInteger(None)];
            database.execute("INSERT INTO word (word, id) VALUES ($2, $1)", &values).await?;
            let sql = "SELECT word, $3 AS absent, $1 + $1 AS twice, x'0102' AS bytes FROM word WHERE word = $2 AND id = $1";
            let row = database.fetch_optional(sql, &values).await?.ok_or(Error::Corrupt { what: "row" })?;
            assert_eq!(
                (row.get("word")?, row.get("absent")?, row.get("twice")?, row.get("bytes")?),
                ("seven", None::<i64>, 14_i64, &[1_u8, 2][..])
            );
            let code = |error: Error| error.code().id();
            assert_eq!(row.get::<i64>("word").map_err(code), Err("store.corrupt"));
            assert_eq!(row.get::<&str>("absent").map_err(code), Err("store.corrupt"));
            assert_eq!(row.get::<Option<&str>>("nowhere").map_err(code), Err("store.column"));
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
    // Whether it waits, not how often it polls: on a busy machine one sleep may take the whole time.
    let polls = |pace: &mut Pace, count: usize| {
        calls.store(0, Ordering::SeqCst);
        if pace.is_due(count) {
            pace.wait(there(count));
        }
        calls.load(Ordering::SeqCst)
    };
    let mut pace = Pace { commit: slow, ..Pace::default() };
    assert_eq!(polls(&mut pace, 1), 0, "a single caller does not wait");
    pace.committed(slow, 8);
    assert_eq!(polls(&mut pace, 8), 0, "all are there");
    assert!(polls(&mut pace, 6) > 0, "most are there, and the others may come");
    assert!(polls(&mut pace, 6) > 0);
    assert!(polls(&mut pace, 1) > 0, "no other caller came");
    for _ in 0..4 {
        assert_eq!(polls(&mut pace, 1), 0, "so the next groups do not wait");
    }
    assert!(polls(&mut pace, 1) > 0, "until another try");
    for _ in 0..8 {
        assert_eq!(polls(&mut pace, 1), 0);
    }
}

#[tokio::test]
async fn only_files_have_a_writer() {
    let database = Database::open(&Location::memory()).await.unwrap();
    assert!(Writer::start(&database, |local| local).unwrap().is_none());
}
